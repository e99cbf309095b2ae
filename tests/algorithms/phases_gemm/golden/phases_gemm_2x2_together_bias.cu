// warpconv 0.1.0: phases_gemm, float32. Generated from templates/phases_gemm/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,H,W --filter 64,2,2 --stride 2,2 --operation data_gradient --epilogue bias \
//     --arch sm_90 --algorithm phases_gemm \
//     --set form=together --set block_m=64 --set block_n=64 --set block_k=16 --set thread_m=8 --set thread_n=8 \
//     --set stages=2 --set store_vector=2 --set min_blocks=6
//
// layer  x[N, 32, H, W] * w[64, 32, 2, 2] -> y[N, 64, P, Q], stride 2, padding 0, float32; its data gradient, then bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 2); all else is a constant of the text
// plan   tiles of 64 rows (channels of all phases) x 64 cells of the stride x 16 products, 8 x 8 a thread, 64 threads a
//        block, 2 stages
// cost   a warp's 32 rows x 64 cells x 16 products: 20 warp loads, 0 shuffles, 1024 FMA a lane, about 138 registers
//        (direct: 1024 loads)
//
// A cell of the stride is STRIDE_H x STRIDE_W pixels of the input, one of each phase. A product of matrices makes them:
// its rows are channels of a cell's pixels, its columns the cells of the batch, and its sums go over outputs that a
// cell meets, and filters. dy is gathered as it lies there; turn_filter, launched before, puts the filter in the order
// of the tiles.
constexpr int C = 32;                           // channels of dx
constexpr int K = 64;                           // channels of dy
constexpr int C_GROUP = 32;                     // channels of a group
constexpr int K_GROUP = 64;                     // filters of a group
constexpr int R = 2;                            // filter rows
constexpr int S = 2;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int CELL = 4;                         // pixels of a cell, a row for each
constexpr int TAPS = 1;                         // taps of all products
constexpr int M = 128;                          // rows of a product: channels of a cell's pixels
constexpr int M_TILES = 2;                      // tiles of them
constexpr int K_FILLED = 64;                    // filters of a tap
constexpr int TAP_TILES = 4;                    // tiles of a tap's filters
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
constexpr int ROWS = 16;                        // copies of a thread into a tile of cells
constexpr int STAGES = 2;                       // tiles in shared memory: copied, or multiplied
constexpr int PIXEL_ROW = 64;                   // floats from one product's cells to the next's
constexpr int STAGE = 2048;                     // floats of a stage: a tile of the filter, then one of cells
constexpr int TURN_THREADS = 256;               // threads of a block of turn_filter
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// A phase: its first pixel, how many rows and columns of taps it meets, the output where that pixel meets the first of
// them, and how many taps the phases before it have.
struct Phase {
    int row, column, tap_rows, tap_columns, up, left, first_tap;
};
__device__ const Phase PHASES[1] = {
    {0, 0, 1, 1, 0, 0, 0}
};

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// What a thread copies next: what a cell meets with one tap, of consecutive filters.
struct Source {
    const element* image;           // the cell's image of dy, in the first filter that the thread copies,
    const element* from;            // and the output under the tap
    index_t plane;                  // elements from one filter to the next
    int top, left;                  // the output under the first tap
    int filter;                     // that the tile begins with
    int above, beside;              // taps since the first, along each axis
    int tap_columns;                // and how many there are
    int P, Q;                       // the outputs
    bool inside;                    // whether the output exists
};

// To the output under the source's tap.
__device__ __forceinline__ void settle(Source& source) {
    const int p = source.top - source.above, q = source.left - source.beside;
    source.inside = (unsigned)p < (unsigned)source.P && (unsigned)q < (unsigned)source.Q;
    source.from = source.image + ((index_t)p * source.Q + q);
}

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
        wc_copy_async_zfill_4(true, to + i * PIXEL_ROW, source.from + i * source.plane, source.inside);
    // on to further filters, or to the next tap
    source.from += BLOCK_K * source.plane;
    source.filter += BLOCK_K;
    if (source.filter < K_FILLED) return;
    source.filter = 0;
    if (++source.beside == source.tap_columns) {
        source.beside = 0, ++source.above;
    }
    settle(source);
}

// A tile of filters: it lies in memory as it will in shared memory.
__device__ __forceinline__ void copy_filter_tile(float* to, const float* from, int four) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i)
        wc_copy_async_16(to + four + 4 * i * THREADS, from + four + 4 * i * THREADS);
}

// One product's factors for a thread's tile: filters and pixels from shared memory, four of each at a time.
__device__ __forceinline__ void load_factors(float (&a)[THREAD_M], float (&b)[THREAD_N], const float* filters,
        const float* pixels) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i += VECTOR) {
        const float4 four = *(const float4*)(filters + i * LANES_M);
        a[i] = four.x, a[i + 1] = four.y, a[i + 2] = four.z, a[i + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < THREAD_N; i += VECTOR) {
        const float4 four = *(const float4*)(pixels + i * LANES_N);
        b[i] = four.x, b[i + 1] = four.y, b[i + 2] = four.z, b[i + 3] = four.w;
    }
}

// The outer product of a thread's factors, added to its sums.
__device__ __forceinline__ void multiply(float (&sums)[THREAD_M][THREAD_N], const float (&a)[THREAD_M],
        const float (&b)[THREAD_N]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
}

// A tile's products for a thread's sums; the next product's factors are loaded before they are needed.
__device__ __forceinline__ void multiply_tile(float (&sums)[THREAD_M][THREAD_N], const float* filters,
        const float* pixels) {
    float a[2][THREAD_M], b[2][THREAD_N];
    load_factors(a[0], b[0], filters, pixels);
#pragma unroll
    for (int k = 0; k < BLOCK_K; ++k) {
        const int now = k % 2, next = (k + 1) % 2;
        if (k + 1 < BLOCK_K) load_factors(a[next], b[next], filters + (k + 1) * BLOCK_M, pixels + (k + 1) * PIXEL_ROW);
        multiply(sums, a[now], b[now]);
    }
}

// Of every tap of a product, and every pixel of a cell: the filter's tap.
__device__ const short TAP_OF[TAPS][CELL] = {
    {0, 1, 2, 3}
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
        const index_t plane_y = (index_t)P * Q;
        const element* const output = dy + (image * K + group * K_GROUP) * plane_y + (index_t)p * Q + q;
        for (int filter = 0; filter < K_GROUP; ++filter)
            sum = fmaf(row[((index_t)tap * K_FILLED + filter) * BLOCK_M], __ldg(output + filter * plane_y), sum);
    }
    return sum;
}

// The filter w[k][c][r][s] as [group][tile of rows][tap][filter][row], filled up with zeros.
extern "C" __global__ void __launch_bounds__(TURN_THREADS)
turn_filter(const element* __restrict__ w, float* __restrict__ turned) {
    constexpr long long TILE = (long long)K_FILLED * BLOCK_M;               // of all products of a block's rows
    for (long long i = blockIdx.x * TURN_THREADS + threadIdx.x; i < M_TILES * TILE; i += gridDim.x * TURN_THREADS) {
        const int group = (int)(i / TILE / M_TILES), m = (int)(i / TILE % M_TILES) * BLOCK_M + (int)(i % BLOCK_M);
        const int k = (int)(i / BLOCK_M % K_FILLED), tap = 0;
        const int c = m / CELL, pixel = m % CELL;
        const int of_filter = m < M && k < K_GROUP ? TAP_OF[tap][pixel] : -1;
        turned[i] = of_filter < 0 ? 0.0f : w[(((long long)group * K_GROUP + k) * C_GROUP + c) * (R * S) + of_filter];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 6)
phases_gemm_2x2(const float* __restrict__ dy, float* __restrict__ turned, const float* __restrict__ bias,
        float* __restrict__ dx, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M * (LANES_M * THREAD_M) + lane / LANES_N * VECTOR);
    const int n_warp = warp / WARPS_M * (LANES_N * THREAD_N), n_lane = lane % LANES_N;

    // cells of an image, of all
    const int rows = (H + STRIDE_H - 1) / STRIDE_H, columns = (W + STRIDE_W - 1) / STRIDE_W;
    const index_t places = (index_t)rows * columns, cells = N * places;

    // tiles: those of channels first, then of groups, then of cells
    for (index_t block = blockIdx.x; block / M_TILES * BLOCK_N < cells; block += gridDim.x) {
        const int m_tile = (int)(block % M_TILES), group = 0;
        const Phase phase = PHASES[0];
        const index_t first_cell = block / M_TILES * BLOCK_N;
        const int tiles = phase.tap_rows * phase.tap_columns * TAP_TILES;
        const float* const filters_of = turned + ((long long)m_tile + phase.first_tap) * (K_FILLED * BLOCK_M);
        const float* filters_from = filters_of;
        __syncthreads();        // every warp is done with the tile before

        // this thread's copies: ROWS filters of one cell (beyond the last: of that, whose sums nobody stores)
        const int column_copied = threadIdx.x % BLOCK_N, first_row = threadIdx.x / BLOCK_N * ROWS;
        const index_t cell = min(first_cell + column_copied, cells - 1);
        const index_t plane_y = (index_t)P * Q, of_image = cell % places;
        Source source;
        source.filter = 0, source.above = 0, source.beside = 0;
        source.tap_columns = phase.tap_columns;
        source.P = P, source.Q = Q;
        source.plane = plane_y;
        source.image = dy + (cell / places * K + first_row) * plane_y;
        source.top = (int)(of_image / columns) + phase.up;
        source.left = (int)(of_image % columns) + phase.left;
        settle(source);
        // four cells LANES_N apart lie side by side in shared memory, so that a lane loads them as one float4
        const int place_copied = column_copied / (VECTOR * LANES_N) * (VECTOR * LANES_N)
            + column_copied % LANES_N * VECTOR + column_copied / LANES_N % VECTOR;
        const int pixel_place = wc_settled(BLOCK_K * BLOCK_M + first_row * PIXEL_ROW + place_copied);
        // this thread's first pixels in a tile, and the first four filters that it copies
        const int pixels_first = wc_settled(BLOCK_K * BLOCK_M + n_warp + n_lane * VECTOR);
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

        // the sums to the pixels of their cells, 2 of a row at a time
        const int m_first = m_tile * BLOCK_M + m_thread;
        const index_t pixels_x = (index_t)H * W;
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
                const int h = row * STRIDE_H, v = column * STRIDE_W;
                column += LANES_N;
                element* const to = dx + ((image * C) * H + h) * W + v;
#pragma unroll
                for (int i = 0; i < THREAD_M; i += 2) {
                    const int m = m_first + i / VECTOR * (LANES_M * VECTOR) + i % VECTOR;
                    const int c = m / CELL, pixel = m % CELL;
                    const int down = pixel / 2, right = pixel % 2;
                    if (h + down < H && v + right < W) *(float2*)(to + c * pixels_x + down * W + right) =
                        make_float2(finish(sums[i][j], __ldg(bias + c)), finish(sums[i + 1][j], __ldg(bias + c)));
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
                const int h = row * STRIDE_H, v = column * STRIDE_W;
                column += LANES_N;
                element* const to = dx + ((image * C) * H + h) * W + v;
#pragma unroll 1
                for (int i = 0; i < THREAD_M; ++i) {
                    const int m = m_first + i / VECTOR * (LANES_M * VECTOR) + i % VECTOR;
                    const int c = m / CELL, pixel = m % CELL;
                    const int down = pixel / 2, right = pixel % 2;
                    if (h + down < H && v + right < W) to[c * pixels_x + down * W + right] =
                        finish(made_anew(dy, filters_of + (m - m_tile * BLOCK_M), phase, image, group, first_p, first_q,
                        P, Q), __ldg(bias + c));
                }
            }
        }
    }
}
