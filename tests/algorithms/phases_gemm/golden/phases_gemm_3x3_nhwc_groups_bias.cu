// warpconv 0.1.0: phases_gemm, float32. Generated from templates/phases_gemm/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,84 --filter 36,3,3 --stride 2,2 --padding 1 --groups 2 --layout NHWC \
//     --operation data_gradient --epilogue bias --arch sm_90 --algorithm phases_gemm \
//     --set form=apart --set block_m=64 --set block_n=64 --set block_k=16 --set thread_m=8 --set thread_n=8 \
//     --set stages=2 --set min_blocks=4
//
// layer  x[N, H, W, 84] * w[36, 42, 3, 3] -> y[N, P, Q, 36], stride 2, padding 1, groups 2, float32 NHWC; its data
//        gradient, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 64 rows (channels of a phase) x 64 cells of the stride x 16 products, 8 x 8 a thread, 64 threads a
//        block, 2 stages
// cost   a warp's 32 rows x 64 cells x 16 products: 12 warp loads, 0 shuffles, 1024 FMA a lane, about 170 registers
//        (direct: 1024 loads)
//
// Pixels STRIDE_H * i + row, STRIDE_W * j + column of the input are a phase: they meet the same taps, at outputs next
// to each other. A product of matrices makes those of each phase: its rows are channels, its columns the cells (i, j)
// of the batch, and its sums go over taps and filters; a sum without taps is zero. dy is gathered as it lies there;
// turn_filter, launched before, puts the filter in the order of the tiles.
constexpr int C = 84;                           // channels of dx
constexpr int K = 36;                           // channels of dy
constexpr int GROUPS = 2;                       // groups of both
constexpr int C_GROUP = 42;                     // channels of a group
constexpr int K_GROUP = 18;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int TAPS = 9;                         // taps of all products
constexpr int M = 42;                           // rows of a product: channels
constexpr int K_FILLED = 32;                    // filters of a tap and filling
constexpr int TAP_TILES = 2;                    // tiles of a tap's filters
constexpr int BLOCK_M = 64;                     // block tile: rows
constexpr int BLOCK_N = 64;                     // block tile: cells
constexpr int BLOCK_K = 16;                     // products of an output in a tile
constexpr int THREAD_M = 8;                     // thread tile: rows
constexpr int THREAD_N = 8;                     // thread tile: cells
constexpr int LANES_M = 4;                      // lanes of a warp along rows
constexpr int LANES_N = 8;                      // lanes of a warp along cells
constexpr int WARPS_M = 2;                      // warps along rows
constexpr int THREADS = 64;                     // threads of a block
constexpr int VECTOR = 4;                       // floats of a load from shared memory
constexpr int FILTER_COPIES = 4;                // 16-byte copies of a thread into a tile of filters
constexpr int ROWS = 8;                         // copies of a thread into a tile of cells
constexpr int COPY_VECTOR = 2;                  // filters of a copy
constexpr int COPY_COLUMNS = 8;                 // copies of a cell in a tile
constexpr int COPY_ROWS = 8;                    // cells that a block copies at once
constexpr int STAGES = 2;                       // tiles in shared memory: copied, or multiplied
constexpr int PIXEL_ROW = 20;                   // floats from one cell's products to the next's
constexpr int STAGE = 2304;                     // floats of a stage: a tile of the filter, then one of cells
constexpr int TURN_THREADS = 256;               // threads of a block of turn_filter
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// A phase: its first pixel, how many rows and columns of taps it meets, the output where that pixel meets the first of
// them, and how many taps the phases before it have.
struct Phase {
    int row, column, tap_rows, tap_columns, up, left, first_tap;
};
__device__ const Phase PHASES[4] = {
    {1, 1, 2, 2, 1, 1, 0},
    {0, 1, 1, 2, 0, 1, 4},
    {1, 0, 2, 1, 1, 0, 6},
    {0, 0, 1, 1, 0, 0, 8}
};

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_8(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 8, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 8 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// What a thread copies next: COPY_VECTOR filters of one tap of each of its cells, COPY_ROWS apart.
struct Source {
    const element* dy;
    index_t from[ROWS];             // the outputs under the first tap, in the first filter that the thread copies
    int top[ROWS], left[ROWS];
    int filter;                     // that the tile begins with
    int above, beside;              // taps since the first, along each axis
    int tap_columns;                // and how many there are
    int P, Q;                       // the outputs
    int column;                     // the thread's first filter of the tile
};

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source) {
    const int up = source.above, across = source.beside;
    const index_t further = source.filter - ((index_t)up * source.Q + across) * K;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int p = source.top[i] - up, q = source.left[i] - across;
        const bool inside = source.filter + source.column < K_GROUP && (unsigned)p < (unsigned)source.P
            && (unsigned)q < (unsigned)source.Q;
        wc_copy_async_zfill_8(true, to + i * COPY_ROWS * PIXEL_ROW, source.dy + source.from[i] + further, inside);
    }
    // on to further filters, or to the next tap
    source.filter += BLOCK_K;
    if (source.filter < K_FILLED) return;
    source.filter = 0;
    if (++source.beside == source.tap_columns) {
        source.beside = 0, ++source.above;
    }
}

// A tile of filters: it lies in memory as it will in shared memory.
__device__ __forceinline__ void copy_filter_tile(float* to, const float* from, int four) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i)
        wc_copy_async_16(to + four + 4 * i * THREADS, from + four + 4 * i * THREADS);
}

__device__ __forceinline__ float of_four(const float4& four, int n) {
    return n == 0 ? four.x : n == 1 ? four.y : n == 2 ? four.z : four.w;
}

// A tile's products for a thread's sums: four of each of its cells are loaded at once.
__device__ __forceinline__ void multiply_tile(float (&sums)[THREAD_M][THREAD_N], const float* filters,
        const float* pixels) {
#pragma unroll
    for (int k = 0; k < BLOCK_K; k += 4) {
        float4 b[THREAD_N];
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) b[j] = *(const float4*)(pixels + j * LANES_N * PIXEL_ROW + k);
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int i = 0; i < THREAD_M; i += VECTOR) {
                const float4 a = *(const float4*)(filters + (k + n) * BLOCK_M + i * LANES_M);
#pragma unroll
                for (int v = 0; v < VECTOR; ++v)
#pragma unroll
                    for (int j = 0; j < THREAD_N; ++j) sums[i + v][j] =
                        fmaf(of_four(a, v), of_four(b[j], n), sums[i + v][j]);
            }
    }
}

// Of every tap of a product: the filter's tap.
__device__ const short TAP_OF[TAPS][1] = {
    {0},
    {2},
    {6},
    {8},
    {3},
    {5},
    {1},
    {7},
    {4}
};

__device__ __forceinline__ bool are_finite(const float (&sums)[THREAD_M][THREAD_N]) {
    float zero = 0.0f;
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) zero = fmaf(sums[i][j], 0.0f, zero);
    return zero == 0.0f;
}

// One row's sum for one cell, of the outputs that exist alone.
__device__ __forceinline__ float made_anew(const element* dy, const float* row, const Phase& phase, index_t image,
        int group, int first_p, int first_q, int P, int Q) {
    float sum = 0.0f;
    for (int tap = 0; tap < phase.tap_rows * phase.tap_columns; ++tap) {
        const int p = first_p - tap / phase.tap_columns, q = first_q - tap % phase.tap_columns;
        if ((unsigned)p >= (unsigned)P || (unsigned)q >= (unsigned)Q) continue;
        const element* const output = dy + ((image * P + p) * Q + q) * K + group * K_GROUP;
        for (int filter = 0; filter < K_GROUP; ++filter)
            sum = fmaf(row[((index_t)tap * K_FILLED + filter) * BLOCK_M], __ldg(output + filter), sum);
    }
    return sum;
}

// The filter w[k][c][r][s] as [group][tile of rows][tap][filter][row], filled up with zeros.
extern "C" __global__ void __launch_bounds__(TURN_THREADS)
turn_filter(const element* __restrict__ w, float* __restrict__ turned) {
    constexpr long long TILE = (long long)TAPS * K_FILLED * BLOCK_M;        // of all products of a block's rows
    for (long long i = blockIdx.x * TURN_THREADS + threadIdx.x; i < GROUPS * TILE; i += gridDim.x * TURN_THREADS) {
        const int group = (int)(i / TILE), m = (int)(i % BLOCK_M);
        const int k = (int)(i / BLOCK_M % K_FILLED), tap = (int)(i / BLOCK_M / K_FILLED % TAPS);
        const int c = m;
        const int of_filter = m < M && k < K_GROUP ? TAP_OF[tap][0] : -1;
        turned[i] = of_filter < 0 ? 0.0f : w[(((long long)group * K_GROUP + k) * C_GROUP + c) * (R * S) + of_filter];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
phases_gemm_3x3(const float* __restrict__ dy, float* __restrict__ turned, const float* __restrict__ bias,
        float* __restrict__ dx, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M * (LANES_M * THREAD_M) + lane / LANES_N * VECTOR);
    const int n_warp = warp / WARPS_M * (LANES_N * THREAD_N), n_lane = lane % LANES_N;

    // cells of an image, of all
    const int rows = (H + STRIDE_H - 1) / STRIDE_H, columns = (W + STRIDE_W - 1) / STRIDE_W;
    const index_t places = (index_t)rows * columns, cells = N * places;

    // tiles: those of channels first, then of phases, then of groups, then of cells
    for (index_t block = blockIdx.x; block / (4 * GROUPS) * BLOCK_N < cells; block += gridDim.x) {
        const int group = (int)(block / 4 % GROUPS);
        const Phase phase = PHASES[block % 4];
        const index_t first_cell = block / (4 * GROUPS) * BLOCK_N;
        const int tiles = phase.tap_rows * phase.tap_columns * TAP_TILES;
        const float* const filters_of = turned + ((long long)group * TAPS + phase.first_tap) * (K_FILLED * BLOCK_M);
        const float* filters_from = filters_of;
        __syncthreads();        // every warp is done with the tile before

        // this thread's copies: the same filters of ROWS cells (beyond the last: of that, whose sums nobody stores)
        const int copied = threadIdx.x % COPY_COLUMNS * COPY_VECTOR, first_row = threadIdx.x / COPY_COLUMNS;
        Source source;
        source.filter = 0, source.above = 0, source.beside = 0;
        source.tap_columns = phase.tap_columns;
        source.P = P, source.Q = Q;
        source.dy = dy;
        source.column = copied;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const index_t cell = min(first_cell + first_row + i * COPY_ROWS, cells - 1), of_image = cell % places;
            source.top[i] = (int)(of_image / columns) + phase.up;
            source.left[i] = (int)(of_image % columns) + phase.left;
            source.from[i] = ((cell / places * P + source.top[i]) * Q + source.left[i]) * K + group * K_GROUP + copied;
        }
        const int pixel_place = wc_settled(BLOCK_K * BLOCK_M + first_row * PIXEL_ROW + copied);
        // this thread's first pixels in a tile, and the first four filters that it copies
        const int pixels_first = wc_settled(BLOCK_K * BLOCK_M + (n_warp + n_lane) * PIXEL_ROW);
        const int four = wc_settled(4 * threadIdx.x);
        float sums[THREAD_M][THREAD_N] = {};
        // the first tiles on their way
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            if (stage < tiles) {
                copy_filter_tile(shared + stage * STAGE, filters_from, four);
                copy_pixel_tile(shared + stage * STAGE + pixel_place, source);
                filters_from += BLOCK_K * BLOCK_M;
            }
            wc_copy_async_commit();
        }

        int to_multiply = 0, to_fill = (STAGES - 1) * STAGE;        // where these stages begin
#pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
            // this tile has arrived, and every thread is done with the one whose memory is filled next
            wc_copy_async_wait_group();
            __syncthreads();
            if (tile + STAGES - 1 < tiles) {
                copy_filter_tile(shared + to_fill, filters_from, four);
                copy_pixel_tile(shared + to_fill + pixel_place, source);
                filters_from += BLOCK_K * BLOCK_M;
            }
            wc_copy_async_commit();
            multiply_tile(sums, shared + to_multiply + m_thread, shared + to_multiply + pixels_first);
            to_multiply = to_multiply < (STAGES - 1) * STAGE ? to_multiply + STAGE : 0;
            to_fill = to_fill < (STAGES - 1) * STAGE ? to_fill + STAGE : 0;
        }

        // the sums to the pixels of their cells
        const int m_first = m_thread;
        const index_t place = (first_cell + n_warp + n_lane) % places;
        index_t image = (first_cell + n_warp + n_lane) / places;
        int row = (int)(place / columns), column = (int)(place % columns);
        if (are_finite(sums)) {
#pragma unroll
            for (int j = 0; j < THREAD_N; ++j) {
                for (; column >= columns; column -= columns) {
                    if (++row < rows) continue;
                    row = 0, ++image;
                }
                if (image >= N) break;
                const int h = row * STRIDE_H + phase.row, v = column * STRIDE_W + phase.column;
                column += LANES_N;
                if (h >= H || v >= W) continue;
                element* const to = dx + ((image * H + h) * W + v) * C + group * C_GROUP;
#pragma unroll
                for (int i = 0; i < THREAD_M; ++i) {
                    const int m = m_first + i / VECTOR * (LANES_M * VECTOR) + i % VECTOR;
                    if (m >= M) break;
                    const int c = m;
                    to[c] = finish(sums[i][j], __ldg(bias + group * C_GROUP + c));
                }
            }
        } else {
            // some sum is infinite or NaN, perhaps only by zeros that stand for outputs that do not
            // exist: all are made anew without these, in the same order
#pragma unroll 1
            for (int j = 0; j < THREAD_N; ++j) {
                for (; column >= columns; column -= columns) {
                    if (++row < rows) continue;
                    row = 0, ++image;
                }
                if (image >= N) break;
                // its output under the first tap
                const int first_p = row + phase.up, first_q = column + phase.left;
                const int h = row * STRIDE_H + phase.row, v = column * STRIDE_W + phase.column;
                column += LANES_N;
                if (h >= H || v >= W) continue;
                element* const to = dx + ((image * H + h) * W + v) * C + group * C_GROUP;
#pragma unroll 1
                for (int i = 0; i < THREAD_M; ++i) {
                    const int m = m_first + i / VECTOR * (LANES_M * VECTOR) + i % VECTOR;
                    if (m >= M) break;
                    const int c = m;
                    to[c] =
                        finish(made_anew(dy, filters_of + m, phase, image, group, first_p, first_q, P, Q),
                        __ldg(bias + group * C_GROUP + c));
                }
            }
        }
    }
}
