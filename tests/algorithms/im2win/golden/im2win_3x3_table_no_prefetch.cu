// warpconv 0.1.0: im2win, float32. Generated from templates/im2win/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 128,3,3 --arch sm_90 --algorithm im2win \
//     --set block_m=128 --set block_n=64 --set block_k=16 --set thread_m=8 --set thread_n=8 --set order=table \
//     --set stages=1 --set splits=1 --set prefetch=off --set vector_loads=on --set micro_kernel=on \
//     --set min_blocks=4
//
// layer  x[N, 64, H, W] * w[128, 64, 3, 3] -> y[N, 128, P, Q], stride 1, padding 0, float32
//        N, H, W (and so P, Q) are arguments (Q at most 714429779); all else is a constant of the text
// plan   the input as windows, then tiles of 128 filters x 64 pixels x 16 products, 8 x 8 outputs a thread, 128 threads
//        a block, 16896 bytes of shared memory
// cost   a warp's 32 filters x 64 pixels: 432 warp loads, 0 shuffles, 36864 FMA a lane, about 112 registers (direct:
//        36864 loads)
// note   workspace: the windows of the whole batch, about R / stride times the input
//
// The input is stored as windows (T), padding included. Then the convolution is a product of matrices, filters times
// pixels, whose right one lies in T: each thread copies products from a pixel's window to shared memory, tile by tile.
constexpr int C = 64;                           // input channels
constexpr int K = 128;                          // filters
constexpr int C_GROUP = 64;                     // channels of a group
constexpr int K_GROUP = 128;                    // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int ROW_EACH = 3;                     // a row of T has ROW_EACH elements for each output column
constexpr int ROW_ADD = 6;                      // and so many more: ROW_EACH * Q + ROW_ADD
constexpr int WINDOW_STEP = 3;                  // elements of T from one output's window to the next
constexpr int TAP_STEP = 3;                     // and from one filter column of a window to the next
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
constexpr int OUTER = 3;                        // filter columns
constexpr int INNER = 3;                        // filter rows inside them
constexpr int ROWS = 8;                         // products of a pixel that a thread copies into a tile
constexpr int PIXEL_ROW = 64;                   // floats from one product's pixels to the next's
constexpr int STAGE = 3072;                     // floats of a stage: BLOCK_K rows of filters, then of pixels
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
// from a window's first element: T may have 2^31 elements where x has not
using offset_t = long long;

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_4(void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }
__device__ __forceinline__ const float* wc_settled_address(const float* value) { asm volatile("" : "+l"(value)); return value; }

// What a thread copies next: a pixel's products, whose places in its window are listed.
struct Source {
    const float* window;            // the pixel's window: its first tap of the group's first channel
    const offset_t* offsets;        // the next product's place from there
};

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source) {
    offset_t offset[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        offset[i] = source.offsets[i];
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        wc_copy_async_4(to + i * PIXEL_ROW, source.window + offset[i]);
    }
    source.offsets += BLOCK_K;
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

// A tile's products for a thread's sums.
__device__ __forceinline__ void multiply_tile(float (&sums)[THREAD_M][THREAD_N], const float* filters,
        const float* pixels) {
    float a[THREAD_M], b[THREAD_N];
#pragma unroll
    for (int k = 0; k < BLOCK_K; ++k) {
        load_factors(a, b, filters + k * BLOCK_M, pixels + k * PIXEL_ROW);
        multiply(sums, a, b);
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

// Where the window of a pixel of the batch begins in T, in its group's first channel.
__device__ __forceinline__ const float* window_of(const float* windows, index_t pixel, int group, int P, int Q) {
    const index_t image = pixel / ((index_t)P * Q);
    const int p = (int)(pixel / Q % P), q = (int)(pixel % Q), row = ROW_EACH * Q + ROW_ADD;
    return windows + ((long long)(image * C + group * C_GROUP) * P + p) * row + q * WINDOW_STEP;
}

// The transform: T[n][c][p][column * R + u] is the pixel of x[n][c] at row p * STRIDE_H + u * DILATION_H - PAD_TOP and
// column - PAD_LEFT of its columns. Neighbouring lanes make neighbouring elements of T, a thread the same element of
// PLANES planes (n, c).
constexpr int THREADS_X = 32;                   // threads of a block: elements of T
constexpr int THREADS_Y = 8;                    // threads of a block: rows of T
constexpr int PLANES = 8;                       // planes that share a thread's index arithmetic

extern "C" __global__ void __launch_bounds__(256)
im2win_transform(const float* __restrict__ x, float* __restrict__ windows, int N, int H, int W, int P, int Q) {
    const int row = ROW_EACH * Q + ROW_ADD;
    const int i = blockIdx.x * THREADS_X + threadIdx.x;            // this thread's element of the row
    if (i >= row) return;
    const int u = i % R, column = i / R;
    const index_t planes = (index_t)N * C, plane_x = (index_t)H * W;
    const long long plane_t = (long long)P * row;                  // T may have 2^31 elements where x has not

    for (int p = blockIdx.y * THREADS_Y + threadIdx.y; p < P; p += gridDim.y * THREADS_Y) {
        const int h = p + u;
        for (index_t first = (index_t)blockIdx.z * PLANES; first < planes; first += (index_t)gridDim.z * PLANES) {
            const float* x_pixel = x + first * plane_x + (index_t)h * W + column;
            float* t_element = windows + first * plane_t + (long long)p * row + i;
            // all loads before the first store, so that they are under way together
            const float in_plane0 = first < planes ? __ldg(x_pixel) : (float)0;
            const float in_plane1 = first + 1 < planes ? __ldg(x_pixel + plane_x) : (float)0;
            const float in_plane2 = first + 2 < planes ? __ldg(x_pixel + 2 * plane_x) : (float)0;
            const float in_plane3 = first + 3 < planes ? __ldg(x_pixel + 3 * plane_x) : (float)0;
            const float in_plane4 = first + 4 < planes ? __ldg(x_pixel + 4 * plane_x) : (float)0;
            const float in_plane5 = first + 5 < planes ? __ldg(x_pixel + 5 * plane_x) : (float)0;
            const float in_plane6 = first + 6 < planes ? __ldg(x_pixel + 6 * plane_x) : (float)0;
            const float in_plane7 = first + 7 < planes ? __ldg(x_pixel + 7 * plane_x) : (float)0;
            if (first < planes) t_element[0] = in_plane0;
            if (first + 1 < planes) t_element[plane_t] = in_plane1;
            if (first + 2 < planes) t_element[2 * plane_t] = in_plane2;
            if (first + 3 < planes) t_element[3 * plane_t] = in_plane3;
            if (first + 4 < planes) t_element[4 * plane_t] = in_plane4;
            if (first + 5 < planes) t_element[5 * plane_t] = in_plane5;
            if (first + 6 < planes) t_element[6 * plane_t] = in_plane6;
            if (first + 7 < planes) t_element[7 * plane_t] = in_plane7;
        }
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
        filter[i] = exists ? w[plane_w * (OUTER * INNER) + inner * OUTER + outer] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
im2win_3x3(float* __restrict__ windows, float* __restrict__ filter, float* __restrict__ y, int N, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then tiles of pixels
    const int group = 0;
    constexpr int tiles = K_TILES;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const index_t first_pixel = (index_t)blockIdx.x * BLOCK_N;

    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M * (LANES_M * THREAD_M) + lane / LANES_N * VECTOR);
    const int n_warp = warp / WARPS_M * (LANES_N * THREAD_N), n_lane = lane % LANES_N;
    // the first of this block's tiles of filters
    const float* filters_from = filter;

    // elements of T from one channel, one filter column to the next
    const offset_t plane = (offset_t)P * (ROW_EACH * Q + ROW_ADD);
    constexpr int outer_step = TAP_STEP;
    // this thread's copies: ROWS products of one pixel (beyond the last: of that, and nobody stores what comes of it)
    const int column = threadIdx.x % BLOCK_N, first_row = threadIdx.x / BLOCK_N * ROWS;
    const index_t pixel = first_pixel + column < pixels ? first_pixel + column : pixels - 1;
    // pixels LANES_N apart lie side by side in shared memory: a lane loads them at once, neighbouring lanes neighbours
    const int place = column / (VECTOR * LANES_N) * (VECTOR * LANES_N)
                      + column % LANES_N * VECTOR + column / LANES_N % VECTOR;
    const int pixel_place = wc_settled(BLOCK_K * BLOCK_M + first_row * PIXEL_ROW + place);
    const float* window = window_of(windows, pixel, group, P, Q);
    // the places of a window's products, counted from its first tap
    offset_t* const offsets = (offset_t*)(shared + STAGE);
    for (int i = threadIdx.x; i < K_TILES * BLOCK_K; i += THREADS) {
        const int channel = i / (OUTER * INNER), outer = i / INNER % OUTER, inner = i % INNER;
        offsets[i] = channel * plane + outer * outer_step + inner;
    }
    __syncthreads();
    // the first tile's products
    Source source;
    source.window = wc_settled_address(window), source.offsets = offsets + first_row;

    // this thread's first pixels in a tile, and the first four filters that it copies
    const int pixels_first = wc_settled(BLOCK_K * BLOCK_M + n_warp + n_lane * VECTOR);
    const int four = wc_settled(4 * threadIdx.x);
    float sums[THREAD_M][THREAD_N] = {};

#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        // a tile to shared memory, then its products
        copy_filter_tile(shared, filters_from, four);
        copy_pixel_tile(shared + pixel_place, source);
        filters_from += BLOCK_K * BLOCK_M;
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        __syncthreads();
        multiply_tile(sums, shared + m_thread, shared + pixels_first);
        __syncthreads();
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
