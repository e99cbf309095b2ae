// warpconv 0.1.0: implicit_gemm, float32. Generated from templates/implicit_gemm/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 128,3,3 --padding 1 --padding-mode constant --padding-value 1 \
//     --arch sm_90 --algorithm implicit_gemm \
//     --set form=tiled --set block_m=128 --set block_n=64 --set block_k=16 --set thread_m=8 --set thread_n=8 \
//     --set order=taps --set stages=2 --set splits=1 --set prefetch=on --set vector_loads=on --set micro_kernel=on \
//     --set min_blocks=4
//
// layer  x[N, 64, H, W] * w[128, 64, 3, 3] -> y[N, 128, P, Q], stride 1, padding 1 (constant), float32
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image) are arguments; all else is a constant of
//        the text
// plan   tiles of 128 filters x 64 pixels x 16 products, 8 x 8 outputs a thread, 128 threads a block, 24576 bytes of
//        shared memory
// cost   a warp's 32 filters x 64 pixels: 432 warp loads, 0 shuffles, 36864 FMA a lane, about 128 registers (direct:
//        36864 loads)
//
// A product of matrices, filters times pixels, whose right one is never stored: each thread copies one pixel's products
// from where they lie in x to shared memory, tile by tile.
constexpr int K = 128;                          // filters
constexpr int C = 64;                           // input channels
constexpr int K_GROUP = 128;                    // filters of a group
constexpr int C_GROUP = 64;                     // channels of a group
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int DILATION_W = 1;                   // input columns from one tap to the next
constexpr int BLOCK_M = 128;                    // block tile: filters
constexpr int BLOCK_N = 64;                     // block tile: pixels
constexpr int BLOCK_K = 16;                     // products of an output in a tile
constexpr int THREAD_M = 8;                     // thread tile: filters
constexpr int THREAD_N = 8;                     // thread tile: pixels
constexpr int LANES_M = 4;                      // lanes of a warp along filters
constexpr int LANES_N = 8;                      // lanes of a warp along pixels
constexpr int WARPS_M = 4;                      // warps along filters
constexpr int THREADS = 128;                    // threads of a block
constexpr int VECTOR = 4;                       // floats of a load from shared memory
constexpr int FILTER_COPIES = 4;                // 16-byte copies of a thread into a tile of filters
constexpr int K_TILES = 36;                     // tiles of products
constexpr int FEW_PIXELS = 64;                  // of an image, below which a lane stores its own pixels
constexpr int OUTER = 3;                        // filter rows
constexpr int INNER = 3;                        // filter columns inside them
constexpr int K_CHANNELS = 64;                  // channels of a group
constexpr int ROWS = 8;                         // products of a pixel that a thread copies into a tile
constexpr int STAGES = 2;                       // tiles in shared memory: copied, or multiplied
constexpr int PIXEL_ROW = 64;                   // floats from one product's pixels to the next's
constexpr int STAGE = 3072;                     // floats of a stage: BLOCK_K rows of filters, then of pixels
constexpr int INNER_STEP = DILATION_W;          // elements from one filter column to the next
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using offset_t = index_t;                       // from a window's first element

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_4(void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// What a thread copies next: a pixel's products of one tap and consecutive channels.
struct Source {
    const float* from;              // the first of them
    offset_t plane, outer_step;     // elements from one channel to the next, from one outer tap to the next
    int channel, outer, inner;      // the channel that the tile begins with, and its tap
    int h, w, H, W;                 // the window's input row and column (it may begin outside), and the image
    bool inside;                    // whether the tap lies in the image
};

// Whether the tap of the next tile lies in the image.
__device__ __forceinline__ bool tap_inside(const Source& source) {
    const unsigned row = source.h + source.outer, column = source.w + source.inner;
    return row < (unsigned)source.H && column < (unsigned)source.W;
}

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source, float BORDER) {
    if (source.inside) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) wc_copy_async_4(to + i * PIXEL_ROW, source.from + i * source.plane);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) to[i * PIXEL_ROW] = BORDER;
    }
    // on to further channels, or to the next tap
    source.from += BLOCK_K * source.plane;
    source.channel += BLOCK_K;
    if (source.channel < K_CHANNELS) return;
    source.channel = 0;
    source.from += INNER_STEP - K_CHANNELS * source.plane;
    if (++source.inner == INNER) {
        source.inner = 0, ++source.outer;
        source.from += source.outer_step - INNER * INNER_STEP;
    }
    source.inside = tap_inside(source);
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

// Of four lanes, 8 apart, lane i has after it the words i of all four, in their order.
__device__ __forceinline__ uint4 regroup_filters(unsigned word_0, unsigned word_1, unsigned word_2, unsigned word_3,
        int lane) {
    const bool odd = lane & 1, upper = lane & 2;
    const unsigned got_0 = __shfl_xor_sync(0xffffffffu, odd ? word_0 : word_1, 8);
    const unsigned got_2 = __shfl_xor_sync(0xffffffffu, odd ? word_2 : word_3, 8);
    // of lanes 0, 1 or 2, 3: words 0 or 1, and words 2 or 3
    const unsigned first_0 = odd ? got_0 : word_0, second_0 = odd ? word_1 : got_0;
    const unsigned first_2 = odd ? got_2 : word_2, second_2 = odd ? word_3 : got_2;
    const unsigned first = __shfl_xor_sync(0xffffffffu, upper ? first_0 : first_2, 16);
    const unsigned second = __shfl_xor_sync(0xffffffffu, upper ? second_0 : second_2, 16);
    return upper ? make_uint4(first, second, first_2, second_2) : make_uint4(first_0, second_0, first, second);
}

// The filter in the order of its tiles, filled up with zeros: once for each set of weights, before its first launch.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const float* __restrict__ w, float* __restrict__ filter) {
    constexpr long long TILE = (long long)BLOCK_M * K_TILES * BLOCK_K;      // of all products of a block's filters
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < TILE; i += gridDim.x * SIDE_THREADS) {
        const int m = (int)(i % BLOCK_M), group = (int)(i / TILE);
        const int product = (int)(i / BLOCK_M % (K_TILES * BLOCK_K));
        const int channel = product % K_CHANNELS, outer = product / K_CHANNELS / INNER,
            inner = product / K_CHANNELS % INNER;
        const bool exists = m < K_GROUP && channel < C_GROUP && outer < OUTER;
        const long long plane_w = ((long long)group * K_GROUP + m) * C_GROUP + channel;
        filter[i] = exists ? w[plane_w * (OUTER * INNER) + outer * INNER + inner] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
implicit_gemm_3x3(const float* __restrict__ x, float* __restrict__ filter, float* __restrict__ y, int N, int H, int W,
        int P, int Q, float BORDER) {
    extern __shared__ __align__(16) float shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then tiles of pixels
    constexpr int tiles = K_TILES;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const index_t first_pixel = (index_t)blockIdx.x * BLOCK_N;

    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M * (LANES_M * THREAD_M) + lane / LANES_N * VECTOR);
    const int n_warp = warp / WARPS_M * (LANES_N * THREAD_N), n_lane = lane % LANES_N;
    // the first of this block's tiles of filters
    const float* filters_from = filter;

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
    const int h = p - PAD_TOP, w = q - PAD_LEFT;
    const float* window = x + (image * C) * plane + h * (index_t)W + w;
    // the first tile's tap and channels
    Source source;
    source.plane = plane, source.outer_step = outer_step;
    source.channel = 0;
    source.outer = 0, source.inner = 0;
    source.from = window + (source.channel + first_row) * plane + source.outer * outer_step + source.inner * INNER_STEP;
    source.h = h, source.w = w, source.H = H, source.W = W;
    source.inside = tap_inside(source);

    // this thread's first pixels in a tile, and the first four filters that it copies
    const int pixels_first = wc_settled(BLOCK_K * BLOCK_M + n_warp + n_lane * VECTOR);
    const int four = wc_settled(4 * threadIdx.x);
    float sums[THREAD_M][THREAD_N] = {};
    // the first tiles on their way
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < tiles) {
            copy_filter_tile(shared + stage * STAGE, filters_from, four);
            copy_pixel_tile(shared + stage * STAGE + pixel_place, source, BORDER);
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
            copy_pixel_tile(shared + to_fill + pixel_place, source, BORDER);
            filters_from += BLOCK_K * BLOCK_M;
        }
        wc_copy_async_commit();
        multiply_tile(sums, shared + to_multiply + m_thread, shared + to_multiply + pixels_first);
        to_multiply = to_multiply < (STAGES - 1) * STAGE ? to_multiply + STAGE : 0;
        to_fill = to_fill < (STAGES - 1) * STAGE ? to_fill + STAGE : 0;
    }

    // the sums to where they belong: neighbouring lanes store neighbouring pixels, which may be of the next image
    float* outputs = y;
    if (pixels_y % LANES_N == 0 || pixels_y < FEW_PIXELS) {
        const int m_first = m_thread;
        index_t y_image = (first_pixel + n_warp + n_lane) / pixels_y,
            y_pixel = (first_pixel + n_warp + n_lane) % pixels_y;
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
    } else {
        // images begin between sectors of memory, and are not small: a warp stores 32 pixels of one filter at a time
        const int lane_m = lane / LANES_N, m_first = warp % WARPS_M * (LANES_M * THREAD_M);
    #pragma unroll
        for (int j = 0; j < THREAD_N; j += 4) {
            const index_t pixel = first_pixel + n_warp + n_lane + (j + lane_m) * LANES_N;
            const index_t at = (pixel / pixels_y * K + m_first) * pixels_y + pixel % pixels_y;
    #pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
                const uint4 words =
                    regroup_filters(__float_as_uint(sums[i][j]), __float_as_uint(sums[i][j + 1]),
                    __float_as_uint(sums[i][j + 2]), __float_as_uint(sums[i][j + 3]), lane_m);
                const unsigned turned[4] = {words.x, words.y, words.z, words.w};
    #pragma unroll
                for (int of_lane = 0; of_lane < 4; ++of_lane) {
                    const int m = i / VECTOR * (LANES_M * VECTOR) + of_lane * VECTOR + i % VECTOR;
                    if (pixel < pixels) outputs[at + m * pixels_y] = __uint_as_float(turned[of_lane]);
                }
            }
        }
    }
}
