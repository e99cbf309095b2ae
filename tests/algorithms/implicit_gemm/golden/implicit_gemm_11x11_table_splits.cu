// warpconv 0.1.0: implicit_gemm, float32. Generated from templates/implicit_gemm/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 96,11,11 --stride 4,4 --epilogue bias,relu --arch sm_90 \
//     --algorithm implicit_gemm \
//     --set form=tiled --set block_m=96 --set block_n=64 --set block_k=16 --set thread_m=12 --set thread_n=8 \
//     --set order=table --set stages=3 --set splits=2 --set prefetch=on --set vector_loads=on \
//     --set micro_kernel=on --set min_blocks=3
//
// layer  x[N, 3, H, W] * w[96, 3, 11, 11] -> y[N, 96, P, Q], stride 4, padding 0, float32, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 96 filters x 64 pixels x 16 products, 12 x 8 outputs a thread, 64 threads a block, 32192 bytes of
//        shared memory
// cost   a warp's 48 filters x 64 pixels: 506 warp loads, 0 shuffles, 35328 FMA a lane, about 168 registers (direct:
//        34848 loads)
//
// A product of matrices, filters times pixels, whose right one is never stored: each thread copies one pixel's products
// from where they lie in x to shared memory, tile by tile.
constexpr int K = 96;                           // filters
constexpr int C = 3;                            // input channels
constexpr int K_GROUP = 96;                     // filters of a group
constexpr int C_GROUP = 3;                      // channels of a group
constexpr int STRIDE_H = 4;                     // input rows from one output to the next
constexpr int STRIDE_W = 4;                     // input columns from one output to the next
constexpr int DILATION_W = 1;                   // input columns from one tap to the next
constexpr int BLOCK_M = 96;                     // block tile: filters
constexpr int BLOCK_N = 64;                     // block tile: pixels
constexpr int BLOCK_K = 16;                     // products of an output in a tile
constexpr int THREAD_M = 12;                    // thread tile: filters
constexpr int THREAD_N = 8;                     // thread tile: pixels
constexpr int LANES_M = 4;                      // lanes of a warp along filters
constexpr int LANES_N = 8;                      // lanes of a warp along pixels
constexpr int WARPS_M = 2;                      // warps along filters
constexpr int THREADS = 64;                     // threads of a block
constexpr int VECTOR = 4;                       // floats of a load from shared memory
constexpr int FILTER_COPIES = 6;                // 16-byte copies of a thread into a tile of filters
constexpr int K_TILES = 23;                     // tiles of products
constexpr int OUTER = 11;                       // filter rows
constexpr int INNER = 11;                       // filter columns inside them
constexpr int PRODUCTS = 363;                   // products of an output
constexpr int SPLITS = 2;                       // blocks that share a sum
constexpr int ROWS = 16;                        // products of a pixel that a thread copies into a tile
constexpr int STAGES = 3;                       // tiles in shared memory: copied, or multiplied
constexpr int PIXEL_ROW = 64;                   // floats from one product's pixels to the next's
constexpr int STAGE = 2560;                     // floats of a stage: BLOCK_K rows of filters, then of pixels
constexpr int INNER_STEP = DILATION_W;          // elements from one filter column to the next
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using offset_t = index_t;                       // from a window's first element

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }
__device__ __forceinline__ const float* wc_settled_address(const float* value) { asm volatile("" : "+l"(value)); return value; }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// What a thread copies next: a pixel's products, whose places in its window are listed.
struct Source {
    const float* window;            // the pixel's window: its first tap of the group's first channel
    const offset_t* offsets;        // the next product's place from there
    int left;                       // products from it on; what else there is in the last tile is filling
};

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source) {
    offset_t offset[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        offset[i] = source.offsets[i];
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const bool inside = i < source.left;
        wc_copy_async_zfill_4(true, to + i * PIXEL_ROW, source.window + offset[i], inside);
    }
    source.offsets += BLOCK_K;
    source.left -= BLOCK_K;
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

// The filter in the order of its tiles, filled up with zeros: once for each set of weights, before its first launch.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const float* __restrict__ w, float* __restrict__ filter) {
    constexpr long long TILE = (long long)BLOCK_M * K_TILES * BLOCK_K;      // of all products of a block's filters
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < TILE; i += gridDim.x * SIDE_THREADS) {
        const int m = (int)(i % BLOCK_M), group = (int)(i / TILE);
        const int product = (int)(i / BLOCK_M % (K_TILES * BLOCK_K));
        const int channel = product / (OUTER * INNER), outer = product / INNER % OUTER, inner = product % INNER;
        const bool exists = m < K_GROUP && channel < C_GROUP && outer < OUTER;
        const long long plane_w = ((long long)group * K_GROUP + m) * C_GROUP + channel;
        filter[i] = exists ? w[plane_w * (OUTER * INNER) + outer * INNER + inner] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(64, 3)
implicit_gemm_11x11(const float* __restrict__ x, float* __restrict__ filter, float* __restrict__ partial_sums, int N,
        int H, int W, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then parts of the sum, then tiles of pixels
    const int split = blockIdx.x % SPLITS;
    const int first_tile = (int)((long long)K_TILES * split / SPLITS);
    const int tiles = (int)((long long)K_TILES * (split + 1) / SPLITS) - first_tile;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const index_t first_pixel = (index_t)(blockIdx.x / SPLITS) * BLOCK_N;

    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M * (LANES_M * THREAD_M) + lane / LANES_N * VECTOR);
    const int n_warp = warp / WARPS_M * (LANES_N * THREAD_N), n_lane = lane % LANES_N;
    // the first of this block's tiles of filters
    const float* filters_from = filter + (long long)first_tile * (BLOCK_K * BLOCK_M);

    // this thread's copies: ROWS products of one pixel (beyond the last: of that, and nobody stores what comes of it)
    const int column = threadIdx.x % BLOCK_N, first_row = threadIdx.x / BLOCK_N * ROWS;
    const index_t pixel = first_pixel + column < pixels ? first_pixel + column : pixels - 1;
    // pixels LANES_N apart lie side by side in shared memory: a lane loads them at once, neighbouring lanes neighbours
    const int place = column / (VECTOR * LANES_N) * (VECTOR * LANES_N)
                      + column % LANES_N * VECTOR + column / LANES_N % VECTOR;
    const int pixel_place = wc_settled(BLOCK_K * BLOCK_M + first_row * PIXEL_ROW + place);
    // the pixel's window in its group's first channel, and the steps from there
    const index_t image = pixel / pixels_y;
    const int p = (int)(pixel % pixels_y / Q), q = (int)(pixel % Q);
    const index_t plane = (index_t)H * W;
    const index_t outer_step = (index_t)W;
    const int h = p * STRIDE_H, w = q * STRIDE_W;
    const float* window = x + (image * C) * plane + h * (index_t)W + w;
    // the places of a window's products, counted from its first tap
    offset_t* const offsets = (offset_t*)(shared + STAGES * STAGE);
    for (int i = threadIdx.x; i < K_TILES * BLOCK_K; i += THREADS) {
        const int channel = i / (OUTER * INNER), outer = i / INNER % OUTER, inner = i % INNER;
        offsets[i] = channel * plane + outer * outer_step + inner * INNER_STEP;
    }
    __syncthreads();
    // the first tile's products
    Source source;
    source.window = wc_settled_address(window), source.offsets = offsets + first_tile * BLOCK_K + first_row;
    source.left = PRODUCTS - first_tile * BLOCK_K - first_row;

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

    // the sums to where they belong: neighbouring lanes store neighbouring pixels, which may be of the next image
    float* outputs = partial_sums + (long long)split * K * pixels;
    const int m_first = m_thread;
    index_t y_image = (first_pixel + n_warp + n_lane) / pixels_y, y_pixel = (first_pixel + n_warp + n_lane) % pixels_y;
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        for (; y_pixel >= pixels_y; y_pixel -= pixels_y) ++y_image;
        float* to = outputs + (y_image * K + m_first) * pixels_y + y_pixel;
        y_pixel += LANES_N;
        if (y_image >= N) break;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            const int m = i / VECTOR * (LANES_M * VECTOR) + i % VECTOR;
            to[m * pixels_y] = sums[i][j];
        }
    }
}

// The parts of every sum together, in their order, and what happens to it before it is stored.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
add_partial_sums(float* __restrict__ partial_sums, const float* __restrict__ bias, float* __restrict__ y, int N, int P,
        int Q) {
    const index_t outputs = (index_t)N * P * Q * K, i = (index_t)blockIdx.x * SIDE_THREADS + threadIdx.x;
    if (i >= outputs) return;
    float sum = partial_sums[i];
#pragma unroll
    for (int split = 1; split < SPLITS; ++split) sum += partial_sums[(long long)split * outputs + i];
    const index_t at = i, k = i / ((index_t)P * Q) % K;
    y[at] = finish(sum, __ldg(bias + k));
}
