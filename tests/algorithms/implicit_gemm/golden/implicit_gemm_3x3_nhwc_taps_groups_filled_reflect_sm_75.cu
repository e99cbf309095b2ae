// warpconv 0.1.0: implicit_gemm, float32. Generated from templates/implicit_gemm/kernel_nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,60 --filter 180,3,3 --padding 1 --padding-mode reflect --groups 2 --layout NHWC \
//     --arch sm_75 --algorithm implicit_gemm \
//     --set form=tiled --set block_m=128 --set block_n=64 --set block_k=16 --set thread_m=8 --set thread_n=8 \
//     --set order=taps --set stages=2 --set splits=1 --set prefetch=on --set vector_loads=on --set micro_kernel=on \
//     --set min_blocks=1
//
// layer  x[N, H, W, 60] * w[180, 30, 3, 3] -> y[N, P, Q, 180], stride 1, padding 1 (reflect), groups 2, float32 NHWC
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 128 filters x 64 pixels x 16 products, 8 x 8 outputs a thread, 128 threads a block, 26648 bytes of
//        shared memory
// cost   a warp's 32 filters x 64 pixels: 216 warp loads, 0 shuffles, 18432 FMA a lane, about 128 registers (direct:
//        17280 loads)
//
// A product of matrices, filters times pixels, whose right one is never stored: neighbouring threads copy neighbouring
// channels of a pixel from where they lie in x to shared memory, and turn them on the way, tile by tile.
constexpr int K = 180;                          // filters
constexpr int C = 60;                           // input channels
constexpr int GROUPS = 2;                       // groups of both
constexpr int K_GROUP = 90;                     // filters of a group
constexpr int C_GROUP = 30;                     // channels of a group
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
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
constexpr int K_TILES = 18;                     // tiles of products
constexpr int OUTER = 3;                        // filter rows
constexpr int INNER = 3;                        // filter columns inside them
constexpr int K_CHANNELS = 32;                  // channels of a group and filling
constexpr int PIXELS = 4;                       // windows that a thread copies from
constexpr int WINDOW_LANES = 8;                 // neighbouring lanes that copy from a window
constexpr int WINDOW_WARPS = 4;                 // warps side by side along windows
constexpr int PRODUCTS_AT_ONCE = 8;             // products of a window that are copied side by side
constexpr int LIST_ROW = 65;                    // from the pixels of a tap to those of the next, where they are listed
constexpr int STAGES = 2;                       // tiles in shared memory: copied, or multiplied
constexpr int PIXEL_ROW = 68;                   // floats from one product's pixels to the next's
constexpr int STAGE = 3136;                     // floats of a stage: BLOCK_K rows of filters, then of pixels
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using offset_t = index_t;                       // from x's first element

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// copies through registers
__device__ __forceinline__ void copy_or_zero_4(float* to, const float* from, bool inside) {
    *to = inside ? __ldg(from) : 0.0f;
}
__device__ __forceinline__ void copy_if_16(bool takes_part, float* to, const float* from) {
    if (takes_part) *(float4*)to = *(const float4*)from;
}

// worked out once, not anew in every round of a loop
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// What a thread copies next: one channel, or every eighth, of the pixels under a tap of each of its windows.
struct Source {
    const float* from;              // that channel of x's first pixel
    offset_t pixels[PIXELS];        // the pixels under the tap
    const offset_t* rows;           // their rows and columns, LIST_ROW from one tap to the next
    const offset_t* columns;
    int channel, outer, inner;      // the channel that the tile begins with, and its tap
    int product;                    // the thread's first channel of the tile
};

// The pixels under the next tile's tap.
__device__ __forceinline__ void find_pixels(Source& source) {
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        const offset_t row = source.rows[source.outer * LIST_ROW + i * WINDOW_WARPS / 8 * 32 + i * WINDOW_WARPS % 8];
        const offset_t column =
            source.columns[source.inner * LIST_ROW + i * WINDOW_WARPS / 8 * 32 + i * WINDOW_WARPS % 8];
        source.pixels[i] = row + column;
    }
}

__device__ __forceinline__ void copy_pixel_tile(float* to, Source& source) {
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        const float* from = source.from + source.pixels[i];
#pragma unroll
        for (int k = 0; k < BLOCK_K; k += PRODUCTS_AT_ONCE) {
            const bool inside = source.channel + source.product + k < C_GROUP;
            copy_or_zero_4(to + k * PIXEL_ROW + 4 * i * WINDOW_WARPS, from + k, inside);
        }
    }
    // on to further channels, or to the next tap
    source.from += BLOCK_K;
    source.channel += BLOCK_K;
    if (source.channel < K_CHANNELS) return;
    source.channel = 0;
    source.from -= K_CHANNELS;
    if (++source.inner == INNER) source.inner = 0, ++source.outer;
    if (source.outer < OUTER) find_pixels(source);
}

// A tile of filters: it lies in memory as it will in shared memory.
__device__ __forceinline__ void copy_filter_tile(float* to, const float* from, int four) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i)
        copy_if_16(four + 4 * i * THREADS < BLOCK_K * BLOCK_M, to + four + 4 * i * THREADS,
            from + four + 4 * i * THREADS);
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
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < GROUPS * TILE; i += gridDim.x * SIDE_THREADS) {
        const int m = (int)(i % BLOCK_M), group = (int)(i / TILE);
        const int product = (int)(i / BLOCK_M % (K_TILES * BLOCK_K));
        const int channel = product % K_CHANNELS, outer = product / K_CHANNELS / INNER,
            inner = product / K_CHANNELS % INNER;
        const bool exists = m < K_GROUP && channel < C_GROUP && outer < OUTER;
        const long long plane_w = ((long long)group * K_GROUP + m) * C_GROUP + channel;
        filter[i] = exists ? w[plane_w * (OUTER * INNER) + outer * INNER + inner] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(128, 1)
implicit_gemm_3x3(const float* __restrict__ x, float* __restrict__ filter, float* __restrict__ y, int N, int H, int W,
        int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then tiles of pixels
    const int group = blockIdx.x % GROUPS;
    constexpr int tiles = K_TILES;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const index_t first_pixel = (index_t)(blockIdx.x / GROUPS) * BLOCK_N;

    // this thread's tile: its warp's place in the block, its lane's in the warp
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_thread = wc_settled(warp % WARPS_M * (LANES_M * THREAD_M) + lane / LANES_N * VECTOR);
    const int n_warp = warp / WARPS_M * (LANES_N * THREAD_N), n_lane = lane % LANES_N;
    // the first of this block's tiles of filters
    const float* filters_from = filter + ((long long)group * K_TILES) * (BLOCK_K * BLOCK_M);

    // where the pixels' windows lie in x: one each, which others read (beyond the last: that of the last)
    const int column = threadIdx.x % BLOCK_N;
    const index_t pixel = first_pixel + column < pixels ? first_pixel + column : pixels - 1;
    const index_t image = pixel / pixels_y;
    const int p = (int)(pixel % pixels_y / Q), q = (int)(pixel % Q);
    const int h = p - PAD_TOP, w = q - PAD_LEFT;
    // their rows and their columns under each tap, outside of the image those that the border has there
    offset_t* const rows = (offset_t*)(shared + STAGES * STAGE);
    offset_t* const columns = rows + OUTER * LIST_ROW;
    for (int outer = threadIdx.x / BLOCK_N; outer < OUTER; outer += THREADS / BLOCK_N) {
        const int row = at_border(h + outer, H);
        rows[outer * LIST_ROW + column] = (image * H + row) * W * C;
    }
    for (int inner = threadIdx.x / BLOCK_N; inner < INNER; inner += THREADS / BLOCK_N) {
        const int at = at_border(w + inner, W);
        columns[inner * LIST_ROW + column] = at * (offset_t)C;
    }
    __syncthreads();

    // this thread's copies: WINDOW_LANES lanes have neighbouring products of a pixel, a warp has four pixels, LANES_N
    // apart, which lie side by side in shared memory
    const int product = lane % WINDOW_LANES, quartet = warp;
    const int listed = quartet / 8 * 32 + quartet % 8 + lane / WINDOW_LANES * LANES_N;
    const int pixel_place = wc_settled(BLOCK_K * BLOCK_M + product * PIXEL_ROW + 4 * quartet + lane / WINDOW_LANES);
    // the first tile's tap and channels
    Source source;
    source.channel = 0;
    source.outer = 0, source.inner = 0;
    source.from = x + group * C_GROUP + source.channel + product;
    source.rows = rows + listed, source.columns = columns + listed;
    find_pixels(source);
    source.product = product;

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
    }

    int to_multiply = 0, to_fill = (STAGES - 1) * STAGE;        // where these stages begin
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        // this tile has arrived, and every thread is done with the one whose memory is filled next
        __syncthreads();
        if (tile + STAGES - 1 < tiles) {
            copy_filter_tile(shared + to_fill, filters_from, four);
            copy_pixel_tile(shared + to_fill + pixel_place, source);
            filters_from += BLOCK_K * BLOCK_M;
        }
        multiply_tile(sums, shared + to_multiply + m_thread, shared + to_multiply + pixels_first);
        to_multiply = to_multiply < (STAGES - 1) * STAGE ? to_multiply + STAGE : 0;
        to_fill = to_fill < (STAGES - 1) * STAGE ? to_fill + STAGE : 0;
    }

    // the sums to where they belong: four lanes that have a pixel exchange, and store four neighbouring filters of it
    // at a time
    const int lane_m = lane / LANES_N, m_first = warp % WARPS_M * (LANES_M * THREAD_M) + lane_m;
    float* outputs = y;
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        const index_t y_pixel = first_pixel + n_warp + n_lane + j * LANES_N;
        float* to = outputs + y_pixel * K + group * K_GROUP + m_first;
#pragma unroll
        for (int i = 0; i < THREAD_M; i += VECTOR) {
            const uint4 words =
                regroup_filters(__float_as_uint(sums[i][j]), __float_as_uint(sums[i + 1][j]),
                __float_as_uint(sums[i + 2][j]), __float_as_uint(sums[i + 3][j]), lane_m);
            const unsigned turned[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
            for (int of_lane = 0; of_lane < 4; ++of_lane) {
                const int m = i * LANES_M + of_lane * 4;
                if (y_pixel < pixels && m_first + m < K_GROUP) to[m] = __uint_as_float(turned[of_lane]);
            }
        }
    }
}
