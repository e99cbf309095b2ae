// warpconv 0.1.0: toeplitz, bfloat16. Generated from templates/toeplitz/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,6,14,14 --filter 6,9,3 --padding 4,1 --groups 6 --dtype bfloat16 --epilogue relu \
//     --arch sm_90 --algorithm toeplitz \
//     --set walk=planes --set tiles=2 --set warp_columns=1 --set warp_rows=1 --set warp_planes=4 \
//     --set warp_strips=1 --set vector=2 --set store_vector=4 --set stores=staged --set weights=shared \
//     --set begin=shifted --set height=14 --set width=14 --set images=8 --set buffers=3 --set min_blocks=4
//
// layer  x[N, 6, H, W] * w[6, 1, 9, 3] -> y[N, 6, P, Q], stride 1, padding 4,1, groups 6, bfloat16, then relu
//        N, H, W (and so P, Q) are arguments (H at most 14; W a multiple of 2 and at most 14; P a multiple of 2; Q a
//        multiple of 2); all else is a constant of the text
// plan   2 tiles of 16 x 8 outputs a warp, 1 warps a team (1 side by side, 1 stacked), 4 teams a block; planes of up to
//        14 x 14 whole, 8 images in turn; filter in shared, 2 elements a copy
// cost   16 rows x 16 columns, 30 matrix instructions: 4 warp loads, 0 shuffles, 0 FMA a lane, about 64 registers
//        (direct: 216 loads)
// note   10 matrix instructions for 128 outputs; 17 % of their products are the filter's, the others are with zeros
// note   a zero beside the filter meets real input: an infinity or NaN spreads to up to 16 output columns of the rows
//        that its window touches
// note   28096 bytes of shared memory a block
//
// A warp makes tiles of 16 output rows by 8 columns with matrix instructions: the input as it lies in shared memory
// times a banded matrix of the filter row, T[k][n] = w[r][k - n - 5], in blocks of eight input columns, of two filter
// rows to an instruction. The input rows of filter row r are those of row 0, r rows further down (in_r<r>_b<block>).
constexpr int R = 9;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 4;                      // rows of a patch before the image's own of its first output
constexpr int MARGIN = 8;                       // columns of a patch before those of its first output
constexpr int BAND = 16;                        // output rows of a team at a time
constexpr int WARP_PLANES = 4;                  // teams of a block, each on a plane
constexpr int THREADS = 128;                    // threads of a block
constexpr int TEAM = 32;                        // threads of a team
constexpr int ROWS = 24;                        // rows of a buffer
constexpr int PITCH = 40;                       // elements from one row of a buffer to the next
constexpr int IMAGES = 8;                       // images of a job
constexpr int BUFFERS = 3;                      // planes in shared memory
constexpr int CHUNKS = 7;                       // copies of a row
constexpr int VECTOR = 2;                       // elements of a copy
constexpr int COPY_WORDS = 12;                  // words of a padded filter row
constexpr int ROW_WORDS = 24;                   // words of its two copies
constexpr int BLOCK_WORDS = 4;                  // words of a lane's block of eight input columns, from one to the next
constexpr int FILTER_WORDS = 864;               // words of the filters of all teams
constexpr int TILE_ROWS = 16;                   // output rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2;        // rows of a tile to the second row of a lane
constexpr int TILE_COLUMNS = 8;                 // output columns of a tile, and of a block of the banded matrix
constexpr int SHIFT = 2;                        // columns that tiles begin before their place
constexpr int TEAM_PATCH = 2880;                // elements of a team's patch
constexpr int PATCHES = 11520;                  // elements of all of them
constexpr int PLANE_GROUPS = 2;                 // groups of output planes of an image
constexpr int TEAM_OUTPUTS = 200;               // elements of a team's plane on its way out
constexpr int STORED = 4;                       // elements of a store
constexpr int K = 6;                            // output planes of an image
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }
__device__ __forceinline__ void wc_mma_bfloat16s_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }

extern "C" __global__ void __launch_bounds__(128, 4)
toeplitz_9x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
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
    for (int i = threadIdx.x; i < 1440; i += THREADS) ((uint4*)patches)[i] = make_uint4(0, 0, 0, 0);

    // a job is a group of neighbouring output planes, of several images in turn
    const index_t jobs = (index_t)((N + IMAGES - 1) / IMAGES) * PLANE_GROUPS;
    for (index_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const int k_first = (int)(job % PLANE_GROUPS) * WARP_PLANES;
        const int n_first = (int)(job / PLANE_GROUPS) * IMAGES, n_end = min(N, n_first + IMAGES);
        const bool active = k_first + team < K;
        const int k = active ? k_first + team : 0;
        auto copy = [&](int n, unsigned short* to) __attribute__((always_inline)) {
            const unsigned short* x_plane = x + ((index_t)n * K + k) * ((index_t)H * W);
#pragma unroll 1
            for (int i = member; i < H * CHUNKS; i += TEAM) {
                const int row = i / CHUNKS, column = i % CHUNKS * VECTOR;
                if (active && column < W) {
                    wc_copy_async_zfill_4(true, to + (PAD_TOP + row) * PITCH + MARGIN + column,
                        x_plane + (row * W + column), true);
                }
            }
        };
        __syncthreads();                                                   // all have used what was there before
#pragma unroll 1
        for (int i = 0; i < BUFFERS - 1; ++i) {
            if (n_first + i < n_end) copy(n_first + i, patch + i * (ROWS * PITCH));
            wc_copy_async_commit();
        }
        // the filters of this block's planes between zeros, once from each even and once from each odd element on
        for (int i = threadIdx.x; i < WARP_PLANES * R * ROW_WORDS; i += THREADS) {
            const int s = (i % ROW_WORDS % COPY_WORDS) * 2 + i % ROW_WORDS / COPY_WORDS - 12;
            const unsigned short* from = w + (index_t)(min(k_first + i / (R * ROW_WORDS), K - 1)) * (R * S)
                + i / ROW_WORDS % R * S + s;
            const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0,
                high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
            filters[i] = low | high << 16;
        }
        __syncthreads();
        unsigned short* buffer = patch;                                     // of the plane that is computed
        unsigned short* free = patch + (BUFFERS - 1) * (ROWS * PITCH);      // of the plane before it
#pragma unroll 1
        for (int n = n_first; n < n_end; ++n) {
            // this plane is there, and all have used the one before it
            wc_copy_async_wait_group();
            __syncwarp();
            if (n + BUFFERS - 1 < n_end) copy(n + BUFFERS - 1, free);
            wc_copy_async_commit();
            unsigned short* y_plane = y + ((index_t)n * K + k) * ((index_t)P * Q);
            const int p_end = active ? P : 0;
#pragma unroll 1
            for (int p_tile = 0; p_tile < P; p_tile += BAND) {
                const unsigned short* in = buffer + p_tile * PITCH;
                float4 acc_t0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_t1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f),
                    acc_t2 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                // filter rows 0 and 1
                const unsigned short* in_r0 = in + two_rows * PITCH;
                unsigned in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low;
                wc_load_matrices_4(in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, in_r0);
                wc_mma_bfloat16s_16(acc_t0, in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, filter_words[0],
                    filter_words[ROW_WORDS]);
                unsigned in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low;
                wc_load_matrices_4(in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, in_r0 + TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t1, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, filter_words[0],
                    filter_words[ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t0, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low,
                    filter_words[BLOCK_WORDS], filter_words[ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low;
                wc_load_matrices_4(in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, in_r0 + 2 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, filter_words[0],
                    filter_words[ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t1, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low,
                    filter_words[BLOCK_WORDS], filter_words[ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low;
                wc_load_matrices_4(in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low, in_r0 + 3 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low,
                    filter_words[BLOCK_WORDS], filter_words[ROW_WORDS + BLOCK_WORDS]);
                // filter rows 2 and 3
                const unsigned short* in_r2 = in + (two_rows + 2) * PITCH;
                unsigned in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low;
                wc_load_matrices_4(in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low, in_r2);
                wc_mma_bfloat16s_16(acc_t0, in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low,
                    filter_words[2 * ROW_WORDS], filter_words[3 * ROW_WORDS]);
                unsigned in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low;
                wc_load_matrices_4(in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, in_r2 + TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t1, in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low,
                    filter_words[2 * ROW_WORDS], filter_words[3 * ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t0, in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low,
                    filter_words[2 * ROW_WORDS + BLOCK_WORDS], filter_words[3 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low;
                wc_load_matrices_4(in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, in_r2 + 2 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low,
                    filter_words[2 * ROW_WORDS], filter_words[3 * ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t1, in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low,
                    filter_words[2 * ROW_WORDS + BLOCK_WORDS], filter_words[3 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low;
                wc_load_matrices_4(in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low, in_r2 + 3 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low,
                    filter_words[2 * ROW_WORDS + BLOCK_WORDS], filter_words[3 * ROW_WORDS + BLOCK_WORDS]);
                // filter rows 4 and 5
                const unsigned short* in_r4 = in + (two_rows + 4) * PITCH;
                unsigned in_r4_b0_top, in_r4_b0_low, in_r5_b0_top, in_r5_b0_low;
                wc_load_matrices_4(in_r4_b0_top, in_r4_b0_low, in_r5_b0_top, in_r5_b0_low, in_r4);
                wc_mma_bfloat16s_16(acc_t0, in_r4_b0_top, in_r4_b0_low, in_r5_b0_top, in_r5_b0_low,
                    filter_words[4 * ROW_WORDS], filter_words[5 * ROW_WORDS]);
                unsigned in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low;
                wc_load_matrices_4(in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low, in_r4 + TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t1, in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low,
                    filter_words[4 * ROW_WORDS], filter_words[5 * ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t0, in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low,
                    filter_words[4 * ROW_WORDS + BLOCK_WORDS], filter_words[5 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low;
                wc_load_matrices_4(in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low, in_r4 + 2 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low,
                    filter_words[4 * ROW_WORDS], filter_words[5 * ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t1, in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low,
                    filter_words[4 * ROW_WORDS + BLOCK_WORDS], filter_words[5 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r4_b3_top, in_r4_b3_low, in_r5_b3_top, in_r5_b3_low;
                wc_load_matrices_4(in_r4_b3_top, in_r4_b3_low, in_r5_b3_top, in_r5_b3_low, in_r4 + 3 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r4_b3_top, in_r4_b3_low, in_r5_b3_top, in_r5_b3_low,
                    filter_words[4 * ROW_WORDS + BLOCK_WORDS], filter_words[5 * ROW_WORDS + BLOCK_WORDS]);
                // filter rows 6 and 7
                const unsigned short* in_r6 = in + (two_rows + 6) * PITCH;
                unsigned in_r6_b0_top, in_r6_b0_low, in_r7_b0_top, in_r7_b0_low;
                wc_load_matrices_4(in_r6_b0_top, in_r6_b0_low, in_r7_b0_top, in_r7_b0_low, in_r6);
                wc_mma_bfloat16s_16(acc_t0, in_r6_b0_top, in_r6_b0_low, in_r7_b0_top, in_r7_b0_low,
                    filter_words[6 * ROW_WORDS], filter_words[7 * ROW_WORDS]);
                unsigned in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low;
                wc_load_matrices_4(in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low, in_r6 + TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t1, in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low,
                    filter_words[6 * ROW_WORDS], filter_words[7 * ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t0, in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low,
                    filter_words[6 * ROW_WORDS + BLOCK_WORDS], filter_words[7 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low;
                wc_load_matrices_4(in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low, in_r6 + 2 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low,
                    filter_words[6 * ROW_WORDS], filter_words[7 * ROW_WORDS]);
                wc_mma_bfloat16s_16(acc_t1, in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low,
                    filter_words[6 * ROW_WORDS + BLOCK_WORDS], filter_words[7 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r6_b3_top, in_r6_b3_low, in_r7_b3_top, in_r7_b3_low;
                wc_load_matrices_4(in_r6_b3_top, in_r6_b3_low, in_r7_b3_top, in_r7_b3_low, in_r6 + 3 * TILE_COLUMNS);
                wc_mma_bfloat16s_16(acc_t2, in_r6_b3_top, in_r6_b3_low, in_r7_b3_top, in_r7_b3_low,
                    filter_words[6 * ROW_WORDS + BLOCK_WORDS], filter_words[7 * ROW_WORDS + BLOCK_WORDS]);
                // filter row 8
                const unsigned short* in_r8 = in + (one_row + 8) * PITCH + one_column;
                unsigned in_r8_b0_top, in_r8_b0_low, in_r8_b1_top, in_r8_b1_low;
                wc_load_matrices_4(in_r8_b0_top, in_r8_b0_low, in_r8_b1_top, in_r8_b1_low, in_r8);
                wc_mma_bfloat16s_8(acc_t0, in_r8_b0_top, in_r8_b0_low, filter_words[8 * ROW_WORDS]);
                wc_mma_bfloat16s_8(acc_t1, in_r8_b1_top, in_r8_b1_low, filter_words[8 * ROW_WORDS]);
                wc_mma_bfloat16s_8(acc_t0, in_r8_b1_top, in_r8_b1_low, filter_words[8 * ROW_WORDS + BLOCK_WORDS]);
                unsigned in_r8_b2_top, in_r8_b2_low, in_r8_b3_top, in_r8_b3_low;
                wc_load_matrices_4(in_r8_b2_top, in_r8_b2_low, in_r8_b3_top, in_r8_b3_low, in_r8 + 2 * TILE_COLUMNS);
                wc_mma_bfloat16s_8(acc_t2, in_r8_b2_top, in_r8_b2_low, filter_words[8 * ROW_WORDS]);
                wc_mma_bfloat16s_8(acc_t1, in_r8_b2_top, in_r8_b2_low, filter_words[8 * ROW_WORDS + BLOCK_WORDS]);
                wc_mma_bfloat16s_8(acc_t2, in_r8_b3_top, in_r8_b3_low, filter_words[8 * ROW_WORDS + BLOCK_WORDS]);
                const int p = p_tile + lane / 4;
                unsigned short* out = outputs + team * TEAM_OUTPUTS + (p * Q + q);
                if (pair >= 1 && q - SHIFT < Q) {
                    if (p < p_end) *(unsigned*)(out - SHIFT) =
                        wc_floats_to_bfloat16s(finish(acc_t0.x), finish(acc_t0.y));
                    if (p + HALF_TILE < p_end) *(unsigned*)(out - SHIFT + HALF_TILE * (index_t)Q) =
                        wc_floats_to_bfloat16s(finish(acc_t0.z), finish(acc_t0.w));
                }
                if (q + TILE_COLUMNS - SHIFT < Q) {
                    if (p < p_end) *(unsigned*)(out + TILE_COLUMNS - SHIFT) =
                        wc_floats_to_bfloat16s(finish(acc_t1.x), finish(acc_t1.y));
                    if (p + HALF_TILE < p_end) *(unsigned*)(out + TILE_COLUMNS - SHIFT + HALF_TILE * (index_t)Q) =
                        wc_floats_to_bfloat16s(finish(acc_t1.z), finish(acc_t1.w));
                }
                if (pair < 1 && q + 2 * TILE_COLUMNS - SHIFT < Q) {
                    if (p < p_end) *(unsigned*)(out + 2 * TILE_COLUMNS - SHIFT) =
                        wc_floats_to_bfloat16s(finish(acc_t2.x), finish(acc_t2.y));
                    if (p + HALF_TILE < p_end) *(unsigned*)(out + 2 * TILE_COLUMNS - SHIFT + HALF_TILE * (index_t)Q) =
                        wc_floats_to_bfloat16s(finish(acc_t2.z), finish(acc_t2.w));
                }
            }
            // the plane leaves as one stretch
            __syncwarp();
            for (int i = member; i < p_end * Q / STORED; i += TEAM)
                ((uint2*)y_plane)[i] = ((const uint2*)(outputs + team * TEAM_OUTPUTS))[i];
            free = buffer;
            buffer = buffer + ROWS * PITCH < patch + BUFFERS * (ROWS * PITCH) ? buffer + ROWS * PITCH : patch;
        }
    }
}
