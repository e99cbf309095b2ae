// warpconv 0.1.0: toeplitz, bfloat16. Generated from templates/toeplitz/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,6,14,14 --filter 6,9,3 --padding 4,1 --groups 6 --dtype bfloat16 --epilogue relu --arch sm_90 --algorithm toeplitz \
//     --set walk=planes --set tiles=2 --set warp_columns=1 --set warp_rows=1 --set warp_planes=4 \
//     --set warp_strips=1 --set vector=2 --set way=cg --set bands_ahead=1 --set store_vector=4 --set stores=staged \
//     --set weights=shared --set begin=shifted --set sub_block_rows=128 --set height=14 --set width=14 \
//     --set images=8 --set buffers=3 --set min_blocks=4
//
// layer  x[N, 6, H, W] * w[6, 1, 9, 3] -> y[N, 6, P, Q], stride 1, padding 4,1, groups 6, bfloat16, then relu
//        N, H, W (and so P, Q) are arguments (H at most 14; W a multiple of 2 and at most 14; P a multiple of 2; Q a multiple of 2); all else is in the text
// plan   2 tiles of 16 x 8 outputs a warp, 1 warps a team (1 side by side, 1 stacked), 4 teams a block; planes of up to 14 x 14 whole, 8 images in turn; filter in shared, 2 elements a copy
// cost   16 rows x 16 columns, 30 matrix instructions: 4 warp loads, 0 shuffles, 0 FMA a lane, about 64 registers (direct: 216 loads)
// note   10 matrix instructions for 128 outputs; 17 % of their products are the filter's, the others are with zeros
// note   a zero beside the filter meets real input: an infinity or NaN spreads to up to 16 output columns of the rows that its window touches
// note   28096 bytes of shared memory a block
//
// A warp makes tiles of 16 output rows by 8 columns with matrix instructions: the input as it lies in shared memory times a
// banded matrix of the filter row, T[k][n] = w[r][k - n - 5], in blocks of eight input columns,
// of two filter rows to an instruction. The input rows of filter row r are those of row 0, r rows further down (in_r<r>_b<block>).
constexpr int R = 9, S = 3;                     // filter rows and columns
constexpr int PAD_TOP = 4, MARGIN = 8;          // rows and columns of a patch before the image's own of its first output
constexpr int SPAN = 16, BAND = 16;             // output columns and rows of a team at a time
constexpr int WARP_COLUMNS = 1, WARP_ROWS = 1;  // warps of a team, which share a patch
constexpr int WARP_PLANES = 4, THREADS = 128;   // teams of a block, each on a plane; threads
constexpr int TEAM = 32;                        // threads of a team
constexpr int ROWS = 24, PITCH = 40;            // rows of a buffer, elements from one to the next
constexpr int IMAGES = 8, BUFFERS = 3;          // images of a job, planes in shared memory
constexpr int CHUNKS = 7, VECTOR = 2;           // copies of a row, elements of each
constexpr int COPY_WORDS = 12, ROW_WORDS = 24;  // words of a padded filter row, of its two copies
constexpr int K = 6, FILTERS = 1;               // output planes of an image; of one input plane
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_or_zero_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_but() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }
__device__ __forceinline__ void wc_mma_bfloat16s_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }

extern "C" __global__ void __launch_bounds__(128, 4)
toeplitz_9x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short patches[11520];
    __shared__ __align__(16) unsigned short outputs[800];
    __shared__ unsigned filters[864];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_column = warp % WARP_COLUMNS, warp_row = warp / WARP_COLUMNS % WARP_ROWS;
    const int team = warp / (WARP_COLUMNS * WARP_ROWS), member = threadIdx.x % TEAM;
    const int pair = lane % 4;                                             // of a tile's columns, in this lane's two rows
    // whose address it gives: of 16 rows of two filter rows; of one, and of the second of two blocks
    const int two_rows = lane % 16 + lane / 16;
    const int one_row = lane % 16, one_column = lane / 16 * 8;
    const int lane_column = warp_column * 16;
    unsigned short* patch = patches + team * 2880;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* filter_words = filters + team * (R * ROW_WORDS) + (7 - lane / 4) % 2 * COPY_WORDS + (2 * pair + 7 - lane / 4) / 2;
    const int q = warp_column * 16 + pair * 2;      // this lane's first output column
    // zeros around the planes, never written again
    for (int i = threadIdx.x; i < 1440; i += THREADS) ((uint4*)patches)[i] = make_uint4(0, 0, 0, 0);

    // a job is a group of neighbouring output planes, of several images in turn
    const index_t jobs = (index_t)((N + IMAGES - 1) / IMAGES) * 2;
    for (index_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const int k_first = (int)(job % 2) * WARP_PLANES;
        const int n_first = (int)(job / 2) * IMAGES, n_end = min(N, n_first + IMAGES);
        const bool active = k_first + team < K;
        const int k = active ? k_first + team : 0;
        auto copy = [&](int n, unsigned short* to) __attribute__((always_inline)) {
            const unsigned short* x_plane = x + ((index_t)n * (K / FILTERS) + k / FILTERS) * ((index_t)H * W);
#pragma unroll 1
            for (int i = member; i < H * CHUNKS; i += TEAM) {
                const int row = i / CHUNKS, column = i % CHUNKS * VECTOR;
                if (active && column < W) {
                    wc_copy_async_or_zero_4(true, to + (PAD_TOP + row) * PITCH + MARGIN + column, x_plane + (row * W + column), true);
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
            const unsigned short* from = w + (index_t)(min(k_first + i / (R * ROW_WORDS), K - 1)) * (R * S) + i / ROW_WORDS % R * S + s;
            const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0, high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
            filters[i] = low | high << 16;
        }
        __syncthreads();
        unsigned short* buffer = patch;                                     // of the plane that is computed
        unsigned short* free = patch + (BUFFERS - 1) * (ROWS * PITCH);      // of the plane before it
#pragma unroll 1
        for (int n = n_first; n < n_end; ++n) {
            // this plane is there, and all have used the one before it
            wc_copy_async_wait_but();
            __syncwarp();
            if (n + BUFFERS - 1 < n_end) copy(n + BUFFERS - 1, free);
            wc_copy_async_commit();
            unsigned short* y_plane = y + ((index_t)n * K + k) * ((index_t)P * Q);
            const int p_end = active ? P : 0;
#pragma unroll 1
            for (int p_tile = warp_row * 16; p_tile < P; p_tile += BAND) {
                const unsigned short* in = buffer + p_tile * PITCH + lane_column;
                float4 acc_t0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_t1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_t2 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                // filter rows 0 and 1
                const unsigned short* in_r0 = in + (two_rows) * PITCH;
                unsigned in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low;
                wc_load_matrices_4(in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, in_r0);
                wc_mma_bfloat16s_16(acc_t0, in_r0_b0_top, in_r0_b0_low, in_r1_b0_top, in_r1_b0_low, filter_words[0], filter_words[24]);
                unsigned in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low;
                wc_load_matrices_4(in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, in_r0 + 8);
                wc_mma_bfloat16s_16(acc_t1, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, filter_words[0], filter_words[24]);
                wc_mma_bfloat16s_16(acc_t0, in_r0_b1_top, in_r0_b1_low, in_r1_b1_top, in_r1_b1_low, filter_words[4], filter_words[28]);
                unsigned in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low;
                wc_load_matrices_4(in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, in_r0 + 16);
                wc_mma_bfloat16s_16(acc_t2, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, filter_words[0], filter_words[24]);
                wc_mma_bfloat16s_16(acc_t1, in_r0_b2_top, in_r0_b2_low, in_r1_b2_top, in_r1_b2_low, filter_words[4], filter_words[28]);
                unsigned in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low;
                wc_load_matrices_4(in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low, in_r0 + 24);
                wc_mma_bfloat16s_16(acc_t2, in_r0_b3_top, in_r0_b3_low, in_r1_b3_top, in_r1_b3_low, filter_words[4], filter_words[28]);
                // filter rows 2 and 3
                const unsigned short* in_r2 = in + (two_rows + 2) * PITCH;
                unsigned in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low;
                wc_load_matrices_4(in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low, in_r2);
                wc_mma_bfloat16s_16(acc_t0, in_r2_b0_top, in_r2_b0_low, in_r3_b0_top, in_r3_b0_low, filter_words[48], filter_words[72]);
                unsigned in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low;
                wc_load_matrices_4(in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, in_r2 + 8);
                wc_mma_bfloat16s_16(acc_t1, in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, filter_words[48], filter_words[72]);
                wc_mma_bfloat16s_16(acc_t0, in_r2_b1_top, in_r2_b1_low, in_r3_b1_top, in_r3_b1_low, filter_words[52], filter_words[76]);
                unsigned in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low;
                wc_load_matrices_4(in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, in_r2 + 16);
                wc_mma_bfloat16s_16(acc_t2, in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, filter_words[48], filter_words[72]);
                wc_mma_bfloat16s_16(acc_t1, in_r2_b2_top, in_r2_b2_low, in_r3_b2_top, in_r3_b2_low, filter_words[52], filter_words[76]);
                unsigned in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low;
                wc_load_matrices_4(in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low, in_r2 + 24);
                wc_mma_bfloat16s_16(acc_t2, in_r2_b3_top, in_r2_b3_low, in_r3_b3_top, in_r3_b3_low, filter_words[52], filter_words[76]);
                // filter rows 4 and 5
                const unsigned short* in_r4 = in + (two_rows + 4) * PITCH;
                unsigned in_r4_b0_top, in_r4_b0_low, in_r5_b0_top, in_r5_b0_low;
                wc_load_matrices_4(in_r4_b0_top, in_r4_b0_low, in_r5_b0_top, in_r5_b0_low, in_r4);
                wc_mma_bfloat16s_16(acc_t0, in_r4_b0_top, in_r4_b0_low, in_r5_b0_top, in_r5_b0_low, filter_words[96], filter_words[120]);
                unsigned in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low;
                wc_load_matrices_4(in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low, in_r4 + 8);
                wc_mma_bfloat16s_16(acc_t1, in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low, filter_words[96], filter_words[120]);
                wc_mma_bfloat16s_16(acc_t0, in_r4_b1_top, in_r4_b1_low, in_r5_b1_top, in_r5_b1_low, filter_words[100], filter_words[124]);
                unsigned in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low;
                wc_load_matrices_4(in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low, in_r4 + 16);
                wc_mma_bfloat16s_16(acc_t2, in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low, filter_words[96], filter_words[120]);
                wc_mma_bfloat16s_16(acc_t1, in_r4_b2_top, in_r4_b2_low, in_r5_b2_top, in_r5_b2_low, filter_words[100], filter_words[124]);
                unsigned in_r4_b3_top, in_r4_b3_low, in_r5_b3_top, in_r5_b3_low;
                wc_load_matrices_4(in_r4_b3_top, in_r4_b3_low, in_r5_b3_top, in_r5_b3_low, in_r4 + 24);
                wc_mma_bfloat16s_16(acc_t2, in_r4_b3_top, in_r4_b3_low, in_r5_b3_top, in_r5_b3_low, filter_words[100], filter_words[124]);
                // filter rows 6 and 7
                const unsigned short* in_r6 = in + (two_rows + 6) * PITCH;
                unsigned in_r6_b0_top, in_r6_b0_low, in_r7_b0_top, in_r7_b0_low;
                wc_load_matrices_4(in_r6_b0_top, in_r6_b0_low, in_r7_b0_top, in_r7_b0_low, in_r6);
                wc_mma_bfloat16s_16(acc_t0, in_r6_b0_top, in_r6_b0_low, in_r7_b0_top, in_r7_b0_low, filter_words[144], filter_words[168]);
                unsigned in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low;
                wc_load_matrices_4(in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low, in_r6 + 8);
                wc_mma_bfloat16s_16(acc_t1, in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low, filter_words[144], filter_words[168]);
                wc_mma_bfloat16s_16(acc_t0, in_r6_b1_top, in_r6_b1_low, in_r7_b1_top, in_r7_b1_low, filter_words[148], filter_words[172]);
                unsigned in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low;
                wc_load_matrices_4(in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low, in_r6 + 16);
                wc_mma_bfloat16s_16(acc_t2, in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low, filter_words[144], filter_words[168]);
                wc_mma_bfloat16s_16(acc_t1, in_r6_b2_top, in_r6_b2_low, in_r7_b2_top, in_r7_b2_low, filter_words[148], filter_words[172]);
                unsigned in_r6_b3_top, in_r6_b3_low, in_r7_b3_top, in_r7_b3_low;
                wc_load_matrices_4(in_r6_b3_top, in_r6_b3_low, in_r7_b3_top, in_r7_b3_low, in_r6 + 24);
                wc_mma_bfloat16s_16(acc_t2, in_r6_b3_top, in_r6_b3_low, in_r7_b3_top, in_r7_b3_low, filter_words[148], filter_words[172]);
                // filter row 8
                const unsigned short* in_r8 = in + (one_row + 8) * PITCH + one_column;
                unsigned in_r8_b0_top, in_r8_b0_low, in_r8_b1_top, in_r8_b1_low;
                wc_load_matrices_4(in_r8_b0_top, in_r8_b0_low, in_r8_b1_top, in_r8_b1_low, in_r8);
                wc_mma_bfloat16s_8(acc_t0, in_r8_b0_top, in_r8_b0_low, filter_words[192]);
                wc_mma_bfloat16s_8(acc_t1, in_r8_b1_top, in_r8_b1_low, filter_words[192]);
                wc_mma_bfloat16s_8(acc_t0, in_r8_b1_top, in_r8_b1_low, filter_words[196]);
                unsigned in_r8_b2_top, in_r8_b2_low, in_r8_b3_top, in_r8_b3_low;
                wc_load_matrices_4(in_r8_b2_top, in_r8_b2_low, in_r8_b3_top, in_r8_b3_low, in_r8 + 16);
                wc_mma_bfloat16s_8(acc_t2, in_r8_b2_top, in_r8_b2_low, filter_words[192]);
                wc_mma_bfloat16s_8(acc_t1, in_r8_b2_top, in_r8_b2_low, filter_words[196]);
                wc_mma_bfloat16s_8(acc_t2, in_r8_b3_top, in_r8_b3_low, filter_words[196]);
                const int p = p_tile + lane / 4;
                unsigned short* out = outputs + team * 200 + (p * Q + q);
                if (pair >= 1 && q + -2 < Q) {
                    if (p < p_end) *(unsigned*)(out + -2) = wc_floats_to_bfloat16s(finish(acc_t0.x), finish(acc_t0.y));
                    if (p + 8 < p_end) *(unsigned*)(out + -2 + 8 * (index_t)Q) = wc_floats_to_bfloat16s(finish(acc_t0.z), finish(acc_t0.w));
                }
                if (q + 6 < Q) {
                    if (p < p_end) *(unsigned*)(out + 6) = wc_floats_to_bfloat16s(finish(acc_t1.x), finish(acc_t1.y));
                    if (p + 8 < p_end) *(unsigned*)(out + 6 + 8 * (index_t)Q) = wc_floats_to_bfloat16s(finish(acc_t1.z), finish(acc_t1.w));
                }
                if (pair < 1 && q + 14 < Q) {
                    if (p < p_end) *(unsigned*)(out + 14) = wc_floats_to_bfloat16s(finish(acc_t2.x), finish(acc_t2.y));
                    if (p + 8 < p_end) *(unsigned*)(out + 14 + 8 * (index_t)Q) = wc_floats_to_bfloat16s(finish(acc_t2.z), finish(acc_t2.w));
                }
            }
            // the plane leaves as one stretch
            __syncwarp();
            for (int i = member; i < p_end * Q / 4; i += TEAM)
                ((uint2*)y_plane)[i] = ((const uint2*)(outputs + team * 200))[i];
            free = buffer;
            buffer = buffer + ROWS * PITCH < patch + BUFFERS * (ROWS * PITCH) ? buffer + ROWS * PITCH : patch;
        }
    }
}
