// warpconv 0.1.0: toeplitz, float16. Generated from templates/toeplitz/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,2,21 --padding 0,1,10,10 --padding-mode symmetric --dtype float16 \
//     --arch sm_90 --algorithm toeplitz \
//     --set walk=bands --set tiles=2 --set warp_columns=1 --set warp_rows=1 --set warp_planes=1 \
//     --set warp_strips=1 --set vector=2 --set prefetch_bands=2 --set store_vector=2 --set stores=direct \
//     --set weights=shared --set begin=place --set sub_block_rows=128 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 2, 21] -> y[N, 1, P, Q], stride 1, padding 0,1,10,10 (symmetric), float16
//        N, H, W (and so P, Q) are arguments (W a multiple of 2; Q a multiple of 2); all else is a constant of the text
// plan   2 tiles of 16 x 8 outputs a warp, 1 warps a team (1 side by side, 1 stacked), 1 teams a block; sub-blocks of
//        128 rows, 16 at a time; filter in shared, 2 elements a copy
// cost   16 rows x 16 columns, 10 matrix instructions: 12 warp loads, 0 shuffles, 0 FMA a lane, about 68 registers
//        (direct: 336 loads)
// note   5 matrix instructions for 128 outputs; 52 % of their products are the filter's, the others are with zeros
// note   a zero beside the filter meets real input: an infinity or NaN spreads to up to 40 output columns of the rows
//        that its window touches
// note   5872 bytes of shared memory a block
//
// A warp makes tiles of 16 output rows by 8 columns with matrix instructions: the input as it lies in shared memory
// times a banded matrix of the filter row, T[k][n] = w[r][k - n - 6], in blocks of eight input columns, of two filter
// rows to an instruction. The input rows of filter row r are those of row 0, r rows further down (in_r<r>_b<block>).
constexpr int R = 2;                            // filter rows
constexpr int S = 21;                           // filter columns
constexpr int MARGIN = 16;                      // columns of a patch before those of its first output
constexpr int SPAN = 16;                        // output columns of a team at a time
constexpr int BAND = 16;                        // output rows of a team at a time
constexpr int THREADS = 32;                     // threads of a block
constexpr int TEAM = 32;                        // threads of a team
constexpr int RING = 49;                        // rows of a patch
constexpr int PITCH = 56;                       // elements from one row of a patch to the next
constexpr int ROWS_AT_ONCE = 1;                 // rows that a team copies at once
constexpr int FIRST_ROWS = 17;                  // rows that the first band needs; a further one needs BAND more
constexpr int CHUNKS = 24;                      // copies of a row
constexpr int VECTOR = 2;                       // elements of a copy
constexpr int COPY_WORDS = 24;                  // words of a padded filter row
constexpr int ROW_WORDS = 48;                   // words of its two copies
constexpr int BLOCK_WORDS = 4;                  // words of a lane's block of eight input columns, from one to the next
constexpr int FILTER_WORDS = 96;                // words of the filters of all teams
constexpr int TILE_ROWS = 16;                   // output rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2;        // rows of a tile to the second row of a lane
constexpr int TILE_COLUMNS = 8;                 // output columns of a tile, and of a block of the banded matrix
constexpr int TEAM_PATCH = 2744;                // elements of a team's patch
constexpr int PATCHES = 2744;                   // elements of all of them
constexpr int SUB_ROWS = 128;                   // output rows of a sub-block
constexpr int PREFETCH = 2;                     // bands that copies are ahead
using index_t = int;                            // element offsets: of tensors below 2^31 elements
constexpr int LEFT = 10;                        // columns left of the image that windows reach
constexpr int OUTSIDE = 20;                     // columns outside of it that windows reach, in all
constexpr int PAD_BOTTOM = 1;                   // rows below the image that windows reach

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is repeated.
__device__ __forceinline__ int at_border(int i, int size) {
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -1 - i : size - 1 - (i - size);
    return i;
}

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

extern "C" __global__ void __launch_bounds__(32, 4)
toeplitz_2x21(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short patches[PATCHES];
    __shared__ unsigned filters[FILTER_WORDS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int team = warp, member = threadIdx.x % TEAM;
    // of a tile's columns, in this lane's two rows
    const int pair = lane % 4;
    // the first of its output rows, of a band
    const int tile_row = lane / 4;
    // whose address it gives: of 16 rows of two filter rows; of one, and of the second of two blocks
    const int two_rows = lane % TILE_ROWS + lane / TILE_ROWS;
    unsigned short* patch = patches + team * TEAM_PATCH;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* filter_words = filters + team * (R * ROW_WORDS) + (7 - lane / 4) % 2 * COPY_WORDS
        + (2 * pair + 7 - lane / 4) / 2;
    // of the team; its patch begins MARGIN columns before
    const int q_first = blockIdx.x * SPAN;
    const int q = q_first + pair * 2;                                // this lane's first output column
    const index_t planes = (index_t)N;
    // a thread copies one column, of every ROWS_AT_ONCE-th row
    const int first_copy = member / CHUNKS, copy_column = member % CHUNKS * VECTOR,
        column = q_first - MARGIN + copy_column;
    const bool copier = first_copy < ROWS_AT_ONCE;
    unsigned short* copy_to = patch + copy_column;
    // where the team's patch has columns outside the image: zeros beyond those that windows reach
    const bool at_edge = q_first < MARGIN || q_first - MARGIN + 48 > W;
    for (int row = member; at_edge && row < RING; row += TEAM) {
        for (int i = 0; i < min(MARGIN - q_first, 48); i += VECTOR) *(unsigned*)(patch + row * PITCH + i) = 0u;
        for (int i = max(0, W - q_first + MARGIN); i < 48; i += VECTOR) *(unsigned*)(patch + row * PITCH + i) = 0u;
    }

    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z < planes; z += gridDim.z) {
        const index_t plane = z + team;                                    // output plane of this team
        const bool active = true;
        const index_t made = plane;
        const unsigned short* x_plane = x + made * ((index_t)H * W);
        unsigned short* y_plane = y + made * ((index_t)P * Q);
        for (int job = blockIdx.y; job < (P + SUB_ROWS - 1) / SUB_ROWS; job += gridDim.y) {
            const int p_first = job * SUB_ROWS, p_end = min(P, p_first + SUB_ROWS);
            const int bands = (min(P - p_first, SUB_ROWS) + BAND - 1) / BAND;
            int h = p_first;                                               // the next input row to be copied
            int slot = 0;                                                  // and its place in the ring
            const bool column_inside_0 = (unsigned)column < (unsigned)W;
            const unsigned short* from = x_plane + ((index_t)(h + first_copy) * W + column);
            auto copy = [&](int rows) __attribute__((always_inline)) {
#pragma unroll
                for (int i = 0; i < rows; i += ROWS_AT_ONCE) {
                    const int row = first_copy + i, place = slot + row < RING ? slot + row : slot + row - RING;
                    const bool copies = copier && (i + ROWS_AT_ONCE <= rows || row < rows)
                        && (unsigned)(h + row) < (unsigned)H;
                    wc_copy_async_zfill_4(copies && column_inside_0, copy_to + place * PITCH, from + i * (index_t)W,
                        active);
                }
                // rows outside the image are those that the border has there
                const int outside_begin = h < 0 ? 0 : max(0, H - h), outside_end = h + rows <= H ? min(rows, -h) : rows;
#pragma unroll 1
                for (int row = outside_begin + first_copy; copier && row < outside_end; row += ROWS_AT_ONCE) {
                    if ((unsigned)(h + row) < (unsigned)H) continue;
                    const int place = slot + row < RING ? slot + row : slot + row - RING;
                    const bool reached = h + row < H + PAD_BOTTOM;
                    const unsigned short* from_row = from
                        + (index_t)((reached ? at_border(h + row, H) : 0) - h - first_copy) * W;
                    wc_copy_async_zfill_4(column_inside_0, copy_to + place * PITCH, from_row, reached);
                }
                from += rows * (index_t)W;
                h += rows;
                slot = slot + rows < RING ? slot + rows : slot + rows - RING;
            };
            __syncthreads();                                               // all have used what was there before
            copy(FIRST_ROWS);
            wc_copy_async_commit();
            if (1 < bands) copy(BAND);
            wc_copy_async_commit();
            // columns outside the image of some rows, from input row `row` on, place `to` of the ring
            auto put = [&](int row, int to, int rows) __attribute__((always_inline)) {
#pragma unroll 1
                for (int i = member; i < rows * OUTSIDE; i += TEAM) {
                    const int line = i / OUTSIDE, outside = i % OUTSIDE - LEFT,
                        column = outside < 0 ? outside : W + outside;
                    const int place = to + line < RING ? to + line : to + line - RING,
                        place_column = column - q_first + MARGIN;
                    if ((unsigned)place_column < 48u)
                        patch[place * PITCH + place_column] =
                            __ldg(x_plane + ((index_t)at_border(row + line, H) * W + at_border(column, W)));
                }
            };
            if (at_edge) put(p_first, 0, FIRST_ROWS);
            // the filters of this block's planes between zeros, once from each even and once from each odd element on
            for (int i = threadIdx.x; i < R * ROW_WORDS; i += THREADS) {
                const int s = (i % ROW_WORDS % COPY_WORDS) * 2 + i % ROW_WORDS / COPY_WORDS - 13;
                const unsigned short* from = w + (index_t)i / ROW_WORDS % R * S + s;
                const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0,
                    high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
                filters[i] = low | high << 16;
            }
            __syncthreads();
            int first = 0;                                                 // place of the band's first input row
#pragma unroll 1
            for (int band = 0; band < bands; ++band) {
                // this band's rows are there, and all have used the last one's; the next band's are on their way while
                // it is computed
                wc_copy_async_wait_group();
                __syncwarp();
                if (band + PREFETCH < bands) copy(BAND);
                wc_copy_async_commit();
                const unsigned short* in = patch;
                float4 acc_t0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_t1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                // filter rows 0 and 1
                const int place_r0 = first + two_rows;
                const unsigned short* in_r0 = in + (place_r0 < RING ? place_r0 : place_r0 - RING) * PITCH;
                unsigned in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low;
                wc_load_matrices_4(in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, in_r0);
                wc_mma_halves_16(acc_t0, in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, filter_words[0],
                    filter_words[ROW_WORDS]);
                unsigned in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low;
                wc_load_matrices_4(in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, in_r0 + TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, filter_words[0],
                    filter_words[ROW_WORDS]);
                wc_mma_halves_16(acc_t0, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low,
                    filter_words[BLOCK_WORDS], filter_words[ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low;
                wc_load_matrices_4(in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, in_r0 + 2 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low,
                    filter_words[BLOCK_WORDS], filter_words[ROW_WORDS + BLOCK_WORDS]);
                wc_mma_halves_16(acc_t0, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low,
                    filter_words[2 * BLOCK_WORDS], filter_words[ROW_WORDS + 2 * BLOCK_WORDS]);
                unsigned in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low;
                wc_load_matrices_4(in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low, in_r0 + 3 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low,
                    filter_words[2 * BLOCK_WORDS], filter_words[ROW_WORDS + 2 * BLOCK_WORDS]);
                wc_mma_halves_16(acc_t0, in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low,
                    filter_words[3 * BLOCK_WORDS], filter_words[ROW_WORDS + 3 * BLOCK_WORDS]);
                unsigned in_r0_b4_top, in_r0_b4_low, in_r1_b4_top, in_r1_b4_low;
                wc_load_matrices_4(in_r0_b4_top, in_r0_b4_low, in_r1_b4_top, in_r1_b4_low, in_r0 + 4 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r0_b4_top, in_r0_b4_low, in_r1_b4_top, in_r1_b4_low,
                    filter_words[3 * BLOCK_WORDS], filter_words[ROW_WORDS + 3 * BLOCK_WORDS]);
                wc_mma_halves_16(acc_t0, in_r0_b4_top, in_r0_b4_low, in_r1_b4_top, in_r1_b4_low,
                    filter_words[4 * BLOCK_WORDS], filter_words[ROW_WORDS + 4 * BLOCK_WORDS]);
                unsigned in_r0_b5_top, in_r0_b5_low, in_r1_b5_top, in_r1_b5_low;
                wc_load_matrices_4(in_r0_b5_top, in_r0_b5_low, in_r1_b5_top, in_r1_b5_low, in_r0 + 5 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r0_b5_top, in_r0_b5_low, in_r1_b5_top, in_r1_b5_low,
                    filter_words[4 * BLOCK_WORDS], filter_words[ROW_WORDS + 4 * BLOCK_WORDS]);
                const int p = p_first + band * BAND + tile_row;
                unsigned short* out = y_plane + ((index_t)p * Q + q);
                if (q < Q) {
                    if (p < p_end) *(unsigned*)out = wc_floats_to_halves(acc_t0.x, acc_t0.y);
                    if (p + HALF_TILE < p_end) *(unsigned*)(out + HALF_TILE * (index_t)Q) =
                        wc_floats_to_halves(acc_t0.z, acc_t0.w);
                }
                if (q + TILE_COLUMNS < Q) {
                    if (p < p_end) *(unsigned*)(out + TILE_COLUMNS) = wc_floats_to_halves(acc_t1.x, acc_t1.y);
                    if (p + HALF_TILE < p_end) *(unsigned*)(out + TILE_COLUMNS + HALF_TILE * (index_t)Q) =
                        wc_floats_to_halves(acc_t1.z, acc_t1.w);
                }
                if (at_edge && band + 1 < bands) put(p_first + FIRST_ROWS + band * BAND,
                    first + FIRST_ROWS < RING ? first + FIRST_ROWS : first + FIRST_ROWS - RING, BAND);
                first = first + BAND < RING ? first + BAND : first + BAND - RING;
            }
        }
    }
}
