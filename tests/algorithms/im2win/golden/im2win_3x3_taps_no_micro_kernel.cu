// warpconv 0.1.0: im2win, float32. Generated from templates/im2win/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 128,3,3 --epilogue relu --arch sm_90 --algorithm im2win \
//     --set block_m=32 --set block_n=32 --set block_k=32 --set thread_m=1 --set thread_n=1 --set order=taps \
//     --set stages=2 --set splits=1 --set prefetch=on --set vector_loads=on --set micro_kernel=off \
//     --set min_blocks=1
//
// layer  x[N, 64, H, W] * w[128, 64, 3, 3] -> y[N, 128, P, Q], stride 1, padding 0, float32, then relu
//        N, H, W (and so P, Q) are arguments (Q at most 714429779); all else is a constant of the text
// plan   the input as windows, then tiles of 32 filters x 32 pixels x 32 products, 1 x 1 outputs a thread, 1024 threads
//        a block, 16384 bytes of shared memory
// cost   a warp's 1 filters x 32 pixels: 36 warp loads, 0 shuffles, 576 FMA a lane, about 37 registers (direct: 576
//        loads)
// note   workspace: the windows of the whole batch, about R / stride times the input
// note   micro_kernel = off: one output a thread, in blocks of 32 x 32
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
constexpr int BLOCK_M = 32;                     // block tile: filters
constexpr int BLOCK_N = 32;                     // block tile: pixels
constexpr int BLOCK_K = 32;                     // products of an output in a tile
constexpr int THREAD_M = 1;                     // thread tile: filters
constexpr int THREAD_N = 1;                     // thread tile: pixels
constexpr int LANES_N = 32;                     // lanes of a warp along pixels
constexpr int WARPS_M = 32;                     // warps along filters
constexpr int THREADS = 1024;                   // threads of a block
constexpr int VECTOR = 1;                       // floats of a load from shared memory
constexpr int FILTER_COPIES = 1;                // 16-byte copies of a thread into a tile of filters, at most
constexpr int K_TILES = 18;                     // tiles of products
constexpr int OUTER = 3;                        // filter columns
constexpr int INNER = 3;                        // filter rows inside them
constexpr int K_CHANNELS = 64;                  // channels of a group
constexpr int M_TILES = 4;                      // tiles of a group's filters
constexpr int ROWS = 1;                         // products of a pixel that a thread copies into a tile
constexpr int STAGES = 2;                       // tiles in shared memory: copied, or multiplied
constexpr int PIXEL_ROW = 32;                   // floats from one product's pixels to the next's
constexpr int STAGE = 2048;                     // floats of a stage: BLOCK_K rows of filters, then of pixels
constexpr int INNER_STEP = 1;                   // elements of T from one filter row to the next
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
// from a window's first element: T may have 2^31 elements where x has not
using offset_t = long long;

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_4(void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// What a thread copies next: a pixel's products of one tap and consecutive channels.
struct Source {
    const float* from;              // the first of them
    offset_t plane, outer_step;     // elements from one channel to the next, from one outer tap to the next
    int channel, outer, inner;      // the channel that the tile begins with, and its tap
};

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        wc_copy_async_4(to + i * PIXEL_ROW, source.from + i * source.plane);
    }
    // on to further channels, or to the next tap
    source.from += BLOCK_K * source.plane;
    source.channel += BLOCK_K;
    if (source.channel < K_CHANNELS) return;
    source.channel = 0;
    source.from += INNER_STEP - K_CHANNELS * source.plane;
    if (++source.inner == INNER) {
        source.inner = 0, ++source.outer;
        source.from += source.outer_step - INNER;
    }
}

// A tile of filters: it lies in memory as it will in shared memory.
__device__ __forceinline__ void copy_filter_tile(float* to, const float* from, int four) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i)
        wc_copy_async_if_16(four + 4 * i * THREADS < BLOCK_K * BLOCK_M, to + four + 4 * i * THREADS,
            from + four + 4 * i * THREADS);
}

// One product's factors for a thread's tile: filters and pixels from shared memory, one at a time.
__device__ __forceinline__ void load_factors(float (&a)[THREAD_M], float (&b)[THREAD_N], const float* filters,
        const float* pixels) {
#pragma unroll
    for (int i = 0; i < THREAD_M; i += VECTOR) {
        a[i] = *(filters + i);
    }
#pragma unroll
    for (int i = 0; i < THREAD_N; i += VECTOR) {
        b[i] = *(pixels + i * LANES_N);
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
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < M_TILES * TILE; i += gridDim.x * SIDE_THREADS) {
        const int m = (int)(i / TILE % M_TILES) * BLOCK_M + (int)(i % BLOCK_M), group = (int)(i / TILE / M_TILES);
        const int product = (int)(i / BLOCK_M % (K_TILES * BLOCK_K));
        const int channel = product % K_CHANNELS, outer = product / K_CHANNELS / INNER,
            inner = product / K_CHANNELS % INNER;
        const bool exists = m < K_GROUP && channel < C_GROUP && outer < OUTER;
        const long long plane_w = ((long long)group * K_GROUP + m) * C_GROUP + channel;
        filter[i] = exists ? w[plane_w * (OUTER * INNER) + inner * OUTER + outer] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1)
im2win_3x3(float* __restrict__ windows, float* __restrict__ filter, float* __restrict__ y, int N, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then tiles of pixels
    const int m_tile = blockIdx.x % M_TILES, group = 0;
    constexpr int tiles = K_TILES;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const index_t first_pixel = (index_t)(blockIdx.x / M_TILES) * BLOCK_N;

    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M + lane / LANES_N);
    const int n_warp = warp / WARPS_M * LANES_N, n_lane = lane % LANES_N;
    // the first of this block's tiles of filters
    const float* filters_from = filter + ((long long)m_tile * K_TILES) * (BLOCK_K * BLOCK_M);

    // elements of T from one channel, one filter column to the next
    const offset_t plane = (offset_t)P * (ROW_EACH * Q + ROW_ADD);
    constexpr int outer_step = TAP_STEP;
    // this thread's copies: ROWS products of one pixel (beyond the last: of that, and nobody stores what comes of it)
    const int column = threadIdx.x % BLOCK_N, first_row = threadIdx.x / BLOCK_N;
    const index_t pixel = first_pixel + column < pixels ? first_pixel + column : pixels - 1;
    const int place = column;
    const int pixel_place = wc_settled(BLOCK_K * BLOCK_M + first_row * PIXEL_ROW + place);
    const float* window = window_of(windows, pixel, group, P, Q);
    // the first tile's tap and channels
    Source source;
    source.plane = plane, source.outer_step = outer_step;
    source.channel = 0;
    source.outer = 0, source.inner = 0;
    source.from = window + (source.channel + first_row) * plane + source.outer * outer_step + source.inner;

    // this thread's first pixels in a tile, and the first four filters that it copies
    const int pixels_first = wc_settled(BLOCK_K * BLOCK_M + n_warp + n_lane);
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
    float* outputs = y;
    const int m_first = m_tile * BLOCK_M + m_thread;
    index_t y_image = (first_pixel + n_warp + n_lane) / pixels_y, y_pixel = (first_pixel + n_warp + n_lane) % pixels_y;
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        for (; y_pixel >= pixels_y; y_pixel -= pixels_y) ++y_image;
        float* to = outputs + (y_image * K + m_first) * pixels_y + y_pixel;
        y_pixel += LANES_N;
        if (y_image >= N) break;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            const int m = i;
            to[m * pixels_y] = finish(sums[i][j]);
        }
    }
}
