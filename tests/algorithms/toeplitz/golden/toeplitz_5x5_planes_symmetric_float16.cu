// warpconv 0.1.0: toeplitz, float16. Generated from templates/toeplitz/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,14,14 --filter 16,5,5 --padding 2 --padding-mode symmetric --groups 16 \
//     --dtype float16 --arch sm_90 --algorithm toeplitz \
//     --set walk=planes --set tiles=2 --set warp_columns=1 --set warp_rows=1 --set warp_planes=4 \
//     --set warp_strips=1 --set vector=2 --set store_vector=2 --set stores=staged --set weights=registers \
//     --set begin=shifted --set height=14 --set width=14 --set images=8 --set buffers=3 --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 5, 5] -> y[N, 16, P, Q], stride 1, padding 2 (symmetric), groups 16, float16
//        N, H, W (and so P, Q) are arguments (H at most 14; W a multiple of 2 and at most 14; Q a multiple of 2); all
//        else is a constant of the text
// plan   2 tiles of 16 x 8 outputs a warp, 1 warps a team (1 side by side, 1 stacked), 4 teams a block; planes of up to
//        14 x 14 whole, 8 images in turn; filter in registers, 2 elements a copy
// cost   16 rows x 16 columns, 18 matrix instructions: 4 warp loads, 0 shuffles, 0 FMA a lane, about 86 registers
//        (direct: 200 loads)
// note   6 matrix instructions for 128 outputs; 26 % of their products are the filter's, the others are with zeros
// note   a zero beside the filter meets real input: an infinity or NaN spreads to up to 16 output columns of the rows
//        that its window touches
// note   22720 bytes of shared memory a block
//
// A warp makes tiles of 16 output rows by 8 columns with matrix instructions: the input as it lies in shared memory
// times a banded matrix of the filter row, T[k][n] = w[r][k - n - 4], in blocks of eight input columns, of two filter
// rows to an instruction. The input rows of filter row r are those of row 0, r rows further down (in_r<r>_b<block>).
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of a patch before the image's own of its first output
constexpr int MARGIN = 8;                       // columns of a patch before those of its first output
constexpr int BAND = 16;                        // output rows of a team at a time
constexpr int WARP_PLANES = 4;                  // teams of a block, each on a plane
constexpr int THREADS = 128;                    // threads of a block
constexpr int TEAM = 32;                        // threads of a team
constexpr int ROWS = 20;                        // rows of a buffer
constexpr int PITCH = 40;                       // elements from one row of a buffer to the next
constexpr int IMAGES = 8;                       // images of a job
constexpr int BUFFERS = 3;                      // planes in shared memory
constexpr int CHUNKS = 7;                       // copies of a row
constexpr int VECTOR = 2;                       // elements of a copy
constexpr int COPY_WORDS = 12;                  // words of a padded filter row
constexpr int ROW_WORDS = 24;                   // words of its two copies
constexpr int BLOCK_WORDS = 4;                  // words of a lane's block of eight input columns, from one to the next
constexpr int FILTER_WORDS = 480;               // words of the filters of all teams
constexpr int TILE_ROWS = 16;                   // output rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2;        // rows of a tile to the second row of a lane
constexpr int TILE_COLUMNS = 8;                 // output columns of a tile, and of a block of the banded matrix
constexpr int SHIFT = 2;                        // columns that tiles begin before their place
constexpr int TEAM_PATCH = 2400;                // elements of a team's patch
constexpr int PATCHES = 9600;                   // elements of all of them
constexpr int PLANE_GROUPS = 4;                 // groups of output planes of an image
constexpr int TEAM_OUTPUTS = 200;               // elements of a team's plane on its way out
constexpr int STORED = 2;                       // elements of a store
constexpr int K = 16;                           // output planes of an image
using index_t = int;                            // element offsets: of tensors below 2^31 elements
constexpr int LEFT = 2;                         // columns left of the image that windows reach
constexpr int OUTSIDE = 4;                      // columns outside of it that windows reach, in all
constexpr int PAD_BOTTOM = 2;                   // rows below the image that windows reach
constexpr unsigned NOWHERE = 0xffffu;           // no place outside, in place of one and of where it is copied from

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
__device__ __forceinline__ void wc_mma_halves_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }

extern "C" __global__ void __launch_bounds__(128, 4)
toeplitz_5x5(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short patches[PATCHES];
    __shared__ __align__(16) unsigned short outputs[800];
    __shared__ unsigned filters[FILTER_WORDS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int team = warp, member = threadIdx.x % TEAM;
    // of a tile's columns, in this lane's two rows
    const int pair = lane % 4;
    // whose address it gives: of 16 rows of two filter rows; of one, and of the second of two blocks
    const int two_rows = lane % TILE_ROWS + lane / TILE_ROWS;
    const int one_row = lane % TILE_ROWS, one_column = lane / TILE_ROWS * TILE_COLUMNS;
    unsigned short* patch = patches + team * TEAM_PATCH;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* filter_words = filters + team * (R * ROW_WORDS) + (7 - lane / 4) % 2 * COPY_WORDS
        + (2 * pair + 7 - lane / 4) / 2;
    const int q = pair * 2;                                // this lane's first output column
    // zeros around the planes, never written again
    for (int i = threadIdx.x; i < 1200; i += THREADS) ((uint4*)patches)[i] = make_uint4(0, 0, 0, 0);
    // this thread's copies of rows outside the image, in all planes the same: where they lie (or NOWHERE), and from
    // where they are
    auto row_outside = [&](int i) __attribute__((always_inline)) {
        const int row = i / CHUNKS, column = i % CHUNKS * VECTOR, h = row < PAD_TOP ? row - PAD_TOP : H + row - PAD_TOP;
        if (row >= PAD_TOP + PAD_BOTTOM || column >= W) return NOWHERE;
        return (unsigned)((PAD_TOP + h) * PITCH + MARGIN + column) | (unsigned)(at_border(h, H) * W + column) << 16;
    };
    const unsigned row_outside_0 = row_outside(member);
    // this thread's columns outside the image, in all planes the same: where they lie (or NOWHERE), and where the
    // border has them
    auto outside_at = [&](int i) __attribute__((always_inline)) {
        const int row = i / OUTSIDE, outside = i % OUTSIDE - LEFT, column = outside < 0 ? outside : W + outside;
        if (row >= PAD_TOP + H + PAD_BOTTOM) return NOWHERE;
        return (unsigned)(row * PITCH + MARGIN + column)
            | (unsigned)(at_border(row - PAD_TOP, H) * W + at_border(column, W)) << 16;
    };
    const unsigned outside_0 = outside_at(member), outside_1 = outside_at(member + TEAM),
        outside_2 = outside_at(member + 2 * TEAM);

    // a job is a group of neighbouring output planes, of several images in turn
    const index_t jobs = (index_t)((N + IMAGES - 1) / IMAGES) * PLANE_GROUPS;
    for (index_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const int k_first = (int)(job % PLANE_GROUPS) * WARP_PLANES;
        const int n_first = (int)(job / PLANE_GROUPS) * IMAGES, n_end = min(N, n_first + IMAGES);
        const int k = k_first + team;
        auto copy = [&](int n, unsigned short* to) __attribute__((always_inline)) {
            const unsigned short* x_plane = x + ((index_t)n * K + k) * ((index_t)H * W);
#pragma unroll 1
            for (int i = member; i < H * CHUNKS; i += TEAM) {
                const int row = i / CHUNKS, column = i % CHUNKS * VECTOR;
                if (column < W) {
                    wc_copy_async_zfill_4(true, to + (PAD_TOP + row) * PITCH + MARGIN + column,
                        x_plane + (row * W + column), true);
                }
            }
            // rows outside the image are those that the border has there
            wc_copy_async_zfill_4(row_outside_0 != NOWHERE, to + (row_outside_0 & 0xffffu),
                x_plane + (row_outside_0 >> 16), true);
        };
        __syncthreads();                                                   // all have used what was there before
#pragma unroll 1
        for (int i = 0; i < BUFFERS - 1; ++i) {
            if (n_first + i < n_end) copy(n_first + i, patch + i * (ROWS * PITCH));
            wc_copy_async_commit();
        }
        // columns outside the image of the first plane, then of each next one: on their way while a plane is computed
        unsigned short held_0, held_1, held_2;
        auto fetch = [&](int n) __attribute__((always_inline)) {
            const unsigned short* x_plane = x + ((index_t)n * K + k) * ((index_t)H * W);
            held_0 = __ldg(x_plane + (outside_0 >> 16));
            held_1 = __ldg(x_plane + (outside_1 >> 16));
            held_2 = __ldg(x_plane + (outside_2 >> 16));
        };
        auto put = [&](unsigned short* to) __attribute__((always_inline)) {
            if (outside_0 != NOWHERE) to[outside_0 & 0xffffu] = held_0;
            if (outside_1 != NOWHERE) to[outside_1 & 0xffffu] = held_1;
            if (outside_2 != NOWHERE) to[outside_2 & 0xffffu] = held_2;
        };
        fetch(n_first);
        // the filters of this block's planes between zeros, once from each even and once from each odd element on
        for (int i = threadIdx.x; i < WARP_PLANES * R * ROW_WORDS; i += THREADS) {
            const int s = (i % ROW_WORDS % COPY_WORDS) * 2 + i % ROW_WORDS / COPY_WORDS - 11;
            const unsigned short* from = w + (index_t)(k_first + i / (R * ROW_WORDS)) * (R * S) + i / ROW_WORDS % R * S
                + s;
            const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0,
                high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
            filters[i] = low | high << 16;
        }
        __syncthreads();
        // this lane's words of the banded matrix
        const unsigned filter_r0_b0 = filter_words[0], filter_r1_b0 = filter_words[ROW_WORDS];
        const unsigned filter_r0_b1 = filter_words[BLOCK_WORDS], filter_r1_b1 = filter_words[ROW_WORDS + BLOCK_WORDS];
        const unsigned filter_r2_b0 = filter_words[2 * ROW_WORDS], filter_r3_b0 = filter_words[3 * ROW_WORDS];
        const unsigned filter_r2_b1 = filter_words[2 * ROW_WORDS + BLOCK_WORDS],
            filter_r3_b1 = filter_words[3 * ROW_WORDS + BLOCK_WORDS];
        const unsigned filter_r4_b0 = filter_words[4 * ROW_WORDS];
        const unsigned filter_r4_b1 = filter_words[4 * ROW_WORDS + BLOCK_WORDS];
        unsigned short* buffer = patch;                                     // of the plane that is computed
        unsigned short* free = patch + (BUFFERS - 1) * (ROWS * PITCH);      // of the plane before it
        put(buffer);
#pragma unroll 1
        for (int n = n_first; n < n_end; ++n) {
            // this plane is there, and all have used the one before it
            wc_copy_async_wait_group();
            __syncwarp();
            if (n + BUFFERS - 1 < n_end) copy(n + BUFFERS - 1, free);
            wc_copy_async_commit();
            if (n + 1 < n_end) fetch(n + 1);
            unsigned short* y_plane = y + ((index_t)n * K + k) * ((index_t)P * Q);
            const int p_end = P;
#pragma unroll 1
            for (int p_tile = 0; p_tile < P; p_tile += BAND) {
                const unsigned short* in = buffer + p_tile * PITCH;
                float4 acc_t0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_t1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f),
                    acc_t2 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                // filter rows 0 and 1
                const unsigned short* in_r0 = in + two_rows * PITCH;
                unsigned in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low;
                wc_load_matrices_4(in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, in_r0);
                wc_mma_halves_16(acc_t0, in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, filter_r0_b0,
                    filter_r1_b0);
                unsigned in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low;
                wc_load_matrices_4(in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, in_r0 + TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, filter_r0_b0,
                    filter_r1_b0);
                wc_mma_halves_16(acc_t0, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, filter_r0_b1,
                    filter_r1_b1);
                unsigned in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low;
                wc_load_matrices_4(in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, in_r0 + 2 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t2, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, filter_r0_b0,
                    filter_r1_b0);
                wc_mma_halves_16(acc_t1, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, filter_r0_b1,
                    filter_r1_b1);
                unsigned in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low;
                wc_load_matrices_4(in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low, in_r0 + 3 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t2, in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low, filter_r0_b1,
                    filter_r1_b1);
                // filter rows 2 and 3
                const unsigned short* in_r2 = in + (two_rows + 2) * PITCH;
                unsigned in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low;
                wc_load_matrices_4(in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low, in_r2);
                wc_mma_halves_16(acc_t0, in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low, filter_r2_b0,
                    filter_r3_b0);
                unsigned in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low;
                wc_load_matrices_4(in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, in_r2 + TILE_COLUMNS);
                wc_mma_halves_16(acc_t1, in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, filter_r2_b0,
                    filter_r3_b0);
                wc_mma_halves_16(acc_t0, in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, filter_r2_b1,
                    filter_r3_b1);
                unsigned in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low;
                wc_load_matrices_4(in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, in_r2 + 2 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t2, in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, filter_r2_b0,
                    filter_r3_b0);
                wc_mma_halves_16(acc_t1, in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, filter_r2_b1,
                    filter_r3_b1);
                unsigned in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low;
                wc_load_matrices_4(in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low, in_r2 + 3 * TILE_COLUMNS);
                wc_mma_halves_16(acc_t2, in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low, filter_r2_b1,
                    filter_r3_b1);
                // filter row 4
                const unsigned short* in_r4 = in + (one_row + 4) * PITCH + one_column;
                unsigned in_r4_b0_top, in_r4_b0_low, in_r4_b1_top, in_r4_b1_low;
                wc_load_matrices_4(in_r4_b0_top, in_r4_b0_low, in_r4_b1_top, in_r4_b1_low, in_r4);
                wc_mma_halves_8(acc_t0, in_r4_b0_top, in_r4_b0_low, filter_r4_b0);
                wc_mma_halves_8(acc_t1, in_r4_b1_top, in_r4_b1_low, filter_r4_b0);
                wc_mma_halves_8(acc_t0, in_r4_b1_top, in_r4_b1_low, filter_r4_b1);
                unsigned in_r4_b2_top, in_r4_b2_low, in_r4_b3_top, in_r4_b3_low;
                wc_load_matrices_4(in_r4_b2_top, in_r4_b2_low, in_r4_b3_top, in_r4_b3_low, in_r4 + 2 * TILE_COLUMNS);
                wc_mma_halves_8(acc_t2, in_r4_b2_top, in_r4_b2_low, filter_r4_b0);
                wc_mma_halves_8(acc_t1, in_r4_b2_top, in_r4_b2_low, filter_r4_b1);
                wc_mma_halves_8(acc_t2, in_r4_b3_top, in_r4_b3_low, filter_r4_b1);
                const int p = p_tile + lane / 4;
                unsigned short* out = outputs + team * TEAM_OUTPUTS + (p * Q + q);
                if (pair >= 1 && q - SHIFT < Q) {
                    if (p < p_end) *(unsigned*)(out - SHIFT) = wc_floats_to_halves(acc_t0.x, acc_t0.y);
                    if (p + HALF_TILE < p_end) *(unsigned*)(out - SHIFT + HALF_TILE * (index_t)Q) =
                        wc_floats_to_halves(acc_t0.z, acc_t0.w);
                }
                if (q + TILE_COLUMNS - SHIFT < Q) {
                    if (p < p_end) *(unsigned*)(out + TILE_COLUMNS - SHIFT) = wc_floats_to_halves(acc_t1.x, acc_t1.y);
                    if (p + HALF_TILE < p_end) *(unsigned*)(out + TILE_COLUMNS - SHIFT + HALF_TILE * (index_t)Q) =
                        wc_floats_to_halves(acc_t1.z, acc_t1.w);
                }
                if (pair < 1 && q + 2 * TILE_COLUMNS - SHIFT < Q) {
                    if (p < p_end) *(unsigned*)(out + 2 * TILE_COLUMNS - SHIFT) =
                        wc_floats_to_halves(acc_t2.x, acc_t2.y);
                    if (p + HALF_TILE < p_end) *(unsigned*)(out + 2 * TILE_COLUMNS - SHIFT + HALF_TILE * (index_t)Q) =
                        wc_floats_to_halves(acc_t2.z, acc_t2.w);
                }
            }
            // the plane leaves as one stretch
            __syncwarp();
            for (int i = member; i < p_end * Q / STORED; i += TEAM)
                ((unsigned*)y_plane)[i] = ((const unsigned*)(outputs + team * TEAM_OUTPUTS))[i];
            free = buffer;
            buffer = buffer + ROWS * PITCH < patch + BUFFERS * (ROWS * PITCH) ? buffer + ROWS * PITCH : patch;
            if (n + 1 < n_end) put(buffer);
        }
    }
}
