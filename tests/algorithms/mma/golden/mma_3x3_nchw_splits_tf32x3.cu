// warpconv 0.1.0: mma, float32. Generated from templates/mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,128,H,W --filter 65,3,3 --padding 1 --padding-mode reflect --precision tf32x3 \
//     --epilogue residual --arch sm_90 --algorithm mma \
//     --set tile_m=32 --set tile_n=16 --set tile_k=32 --set warps_m=2 --set warps_n=1 --set stages=6 \
//     --set splits=4 --set vector=4 --set store_vector=1 --set min_blocks=10
//
// layer  x[N, 128, H, W] * w[65, 128, 3, 3] -> y[N, 65, P, Q], stride 1, padding 1 (reflect), float32, tf32x3 products,
//        then residual
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 32 pixels x 16 filters x 32 products in two parts of TF32 on the tensor cores, 2 x 1 warps a block, 6
//        stages, 36864 bytes of shared memory
// cost   a warp's 16 pixels x 16 filters: 216 warp loads, 0 shuffles, 9216 FMA a lane, about 84 registers (direct: 9216
//        loads)
//
// A product of matrices on the tensor cores: output pixels times filters, over all taps and channels. A block makes a
// tile of both, TILE_K products at a time. Pixels are gathered from x in NHWC, as an entry before it leaves it, the
// channels of a tap side by side; filters come as [filter][tap][channel], filled up with zeros. Asynchronous copies
// fill a ring of STAGES tiles in shared memory.
constexpr int C = 128;                          // channels of a pixel of x
constexpr int K = 65;                           // channels of a pixel of y
constexpr int C_GROUP = 128;                    // channels of a group
constexpr int K_GROUP = 65;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int TILE_M = 32;                      // tile of a block: pixels,
constexpr int TILE_N = 16;                      // filters,
constexpr int TILE_K = 32;                      // products of an output
constexpr int K_STEPS = 36;                     // tiles of the reduction
constexpr int N_TILES = 5;                      // tiles of a group's filters
constexpr int SPLITS = 4;                       // blocks that share a sum
constexpr int WARP_M = 16;                      // tile of a warp: pixels,
constexpr int WARP_N = 16;                      // filters
constexpr int MATRICES_M = 1;                   // matrices of a warp's tile: of 16 filters,
constexpr int MATRICES_N = 2;                   // of 8 pixels
constexpr int WARPS_M = 2;                      // warps along pixels
constexpr int THREADS = 64;                     // threads of a block
constexpr int STAGES = 6;                       // tiles in shared memory: copied, or multiplied
constexpr int STAGE = 1536;                     // elements of such a tile, pixels and filters
constexpr int CELLS = 8;                        // cells of 16 bytes in a row of a tile in shared memory
constexpr int VECTOR = 4;                       // channels of a copy
constexpr int TAP_CHUNKS = 32;                  // copies of a tap
constexpr int CHUNKS = 288;                     // copies of all products of an output
constexpr int COPY_COLUMNS = 8;                 // copies of a row that a block makes at once,
constexpr int COPY_ROWS = 8;                    // rows that it copies at once
constexpr int PIXEL_COPIES = 4;                 // copies of a thread into a tile of pixels
constexpr int FILTER_COPIES = 2;                // copies of a thread into a tile of filters
constexpr int PASS_CHANNELS = 64;               // tile of x on its way to NHWC: channels,
constexpr int PASS_PIXELS = 64;                 // pixels
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// What happens to an output value before it is stored: residual.
__device__ __forceinline__ float finish(float value, float residual) {
    value = value + residual;
    return value;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 4;" ::: "memory"); }

// Where a cell of a row lies in a tile. Cells change places from row to row, so that the eight rows of a matrix, which
// are loaded at once, lie in different banks.
__device__ __forceinline__ int cell_at(int row, int cell) { return (row * CELLS + (cell ^ (row & 7))) * 4; }

// The windows of the pixels that a thread copies, COPY_ROWS apart; those beyond the last pixel are the last pixel's.
struct Windows {
    int top[PIXEL_COPIES], left[PIXEL_COPIES];      // the first tap's row and column
    index_t from[PIXEL_COPIES];                     // the image's first pixel, in its group's first channel
};

__device__ __forceinline__ Windows windows_of(index_t first_pixel, index_t pixels, index_t pixels_y, int group, int H,
        int W, int Q) {
    Windows windows;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const index_t wanted = first_pixel + threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const index_t pixel = wanted < pixels ? wanted : pixels - 1;
        const index_t image = pixel / pixels_y, place = pixel % pixels_y;
        windows.top[i] = (int)(place / Q) - PAD_TOP;
        windows.left[i] = (int)(place % Q) - PAD_LEFT;
        windows.from[i] = image * H * W * C + group * C_GROUP;
    }
    return windows;
}

// A tile of pixels: the products step * TILE_K and on. A thread copies the same VECTOR channels of a tap for all its
// pixels.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Windows& windows, int step, int column,
        int H, int W) {
    const int chunk = step * COPY_COLUMNS + column;
    const int tap = chunk / TAP_CHUNKS, down = tap / S, across = tap % S;
    const int channel = chunk % TAP_CHUNKS * VECTOR;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const int h = at_border(windows.top[i] + down, H), w = at_border(windows.left[i] + across, W);
        const element* from = x + windows.from[i] + ((index_t)h * W + w) * C + channel;
        element* const place = to + cell_at(row, column * VECTOR / 4);
        wc_copy_async_16(place, from);
    }
}

// A tile of filters: TILE_N rows of CELLS cells, K_STEPS * TILE_K elements apart.
__device__ __forceinline__ void copy_filters(element* to, const element* from) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i) {
        const int cell = threadIdx.x + i * THREADS;
        wc_copy_async_16(to + cell_at(cell / CELLS, cell % CELLS),
            from + cell / CELLS * (K_STEPS * TILE_K) + cell % CELLS * 4);
    }
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_tf32s_8(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A float rounded to TF32, which keeps 11 of its 24 binary digits; ties away from zero. NaN may become zero.
__device__ __forceinline__ unsigned rounded(unsigned bits) { return (bits + 0x1000u) & 0xffffe000u; }

// Splits a factor times 2^24 into two parts of TF32: the high one takes its place, the low one is returned. The scale
// keeps the low digits of subnormal floats, 13 of which TF32 does not have. Of a factor that is not finite, or too
// large for the scale, the low part is not finite, and neither are its sums.
__device__ __forceinline__ unsigned low_part(unsigned& factor) {
    const float whole = __uint_as_float(factor) * 16777216.0f;
    factor = rounded(__float_as_uint(whole));
    return __float_as_uint(whole - __uint_as_float(factor));
}

// A tile's products for a warp's sums, filters times pixels. Lane l gives the address of a row of matrix l / 8 of four:
// two cells each of 16 rows, two each of 16 columns. Tensor cores cut digits off their sums instead of rounding, so
// each instruction begins at zero, and its sums are added to the others here.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const element* rows,
        const element* columns, int first_row, int first_column, int lane) {
#pragma unroll 1      // with several at once ptxas runs out of registers
    for (int k = 0; k < TILE_K / 8; ++k) {
        unsigned b[MATRICES_N][2], b_low[MATRICES_N][2];
#pragma unroll
        for (int n = 0; n < MATRICES_N; n += 2)
            wc_load_matrices_4(b[n][0], b[n][1], b[n + 1][0], b[n + 1][1],
                               columns
                                   + cell_at(first_column + n * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
        for (int n = 0; n < MATRICES_N; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) b_low[n][i] = low_part(b[n][i]);
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
            unsigned a[4], a_low[4];
            wc_load_matrices_4(a[0], a[1], a[2], a[3],
                rows + cell_at(first_row + m * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
            for (int i = 0; i < 4; ++i) a_low[i] = low_part(a[i]);
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n) {
                float4 small = {}, large = {};
                wc_mma_tf32s_8(small, a_low[0], a_low[1], a_low[2], a_low[3], b[n][0], b[n][1]);
                wc_mma_tf32s_8(small, a[0], a[1], a[2], a[3], b_low[n][0], b_low[n][1]);
                wc_mma_tf32s_8(large, a[0], a[1], a[2], a[3], b[n][0], b[n][1]);
                sums[m][n].x += small.x + large.x;
                sums[m][n].y += small.y + large.y;
                sums[m][n].z += small.z + large.z;
                sums[m][n].w += small.w + large.w;
            }
        }
    }
}

__device__ __forceinline__ bool is_finite(float sum) { return fabsf(sum) <= 3.402823466e38f; }

// Zero, or NaN where one of four sums is not finite.
__device__ __forceinline__ float zero_of(float4 sums) {
    return fmaf(sums.x, 0.0f, sums.y * 0.0f) + fmaf(sums.z, 0.0f, sums.w * 0.0f);
}

// The blocks of a warp's sums in which some are not finite, a bit each.
__device__ __forceinline__ unsigned blocks_to_mend(const float4 (&sums)[MATRICES_M][MATRICES_N]) {
    float zero = 0.0f, other = 0.0f;            // NaN stays NaN
#pragma unroll
    for (int block = 0; block < MATRICES_N; ++block) {
        const float4 four = sums[block / MATRICES_N][block % MATRICES_N];
        zero = fmaf(four.x, 0.0f, fmaf(four.y, 0.0f, zero));
        other = fmaf(four.z, 0.0f, fmaf(four.w, 0.0f, other));
    }
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, zero + other == 0.0f)) return blocks;
#pragma unroll
    for (int block = 0; block < MATRICES_N; ++block)
        blocks |= (unsigned)__any_sync(0xffffffffu,
            zero_of(sums[block / MATRICES_N][block % MATRICES_N]) != 0.0f) << block;
    return blocks;
}

// A lane's sums of a block. Registers have no index: every block is asked whether it is wanted.
__device__ __forceinline__ float4 sums_of(const float4 (&sums)[MATRICES_M][MATRICES_N], int wanted) {
    float4 found = {};
#pragma unroll
    for (int block = 0; block < MATRICES_N; ++block)
        if (block == wanted) found = sums[block / MATRICES_N][block % MATRICES_N];
    return found;
}

__device__ __forceinline__ void set_sums(float4 (&sums)[MATRICES_M][MATRICES_N], int wanted, float4 to) {
#pragma unroll
    for (int block = 0; block < MATRICES_N; ++block)
        if (block == wanted) sums[block / MATRICES_N][block % MATRICES_N] = to;
}

// Sums that are finite, and in place of the others those that were made anew.
__device__ __forceinline__ float4 mended(float4 sums, float4 anew) {
    return make_float4(is_finite(sums.x) ? sums.x : anew.x, is_finite(sums.y) ? sums.y : anew.y,
                       is_finite(sums.z) ? sums.z : anew.z, is_finite(sums.w) ? sums.w : anew.w);
}

// Whether nothing more can come of a warp's sums: NaN stays NaN.
__device__ __forceinline__ bool are_settled(float4 sums, float4 anew) {
    const bool upper = (is_finite(sums.x) || anew.x != anew.x) && (is_finite(sums.y) || anew.y != anew.y);
    const bool lower = (is_finite(sums.z) || anew.z != anew.z) && (is_finite(sums.w) || anew.w != anew.w);
    return __all_sync(0xffffffffu, upper && lower);
}

// The sums of rows and columns that exist; zeros for the others, so that they ask for nothing.
__device__ __forceinline__ float4 existing(float4 sums, bool upper, bool lower, bool first, bool second) {
    return make_float4(upper && first ? sums.x : 0.0f, upper && second ? sums.y : 0.0f, lower && first ? sums.z : 0.0f,
        lower && second ? sums.w : 0.0f);
}

// The products of two rows' factors with two columns'.
__device__ __forceinline__ void add_products(float4& sums, float upper, float lower, float first, float second) {
    sums.x = fmaf(first, upper, sums.x);
    sums.y = fmaf(second, upper, sums.y);
    sums.z = fmaf(first, lower, sums.z);
    sums.w = fmaf(second, lower, sums.w);
}

// Those of four factors each.
__device__ __forceinline__ void add_fours(float4& sums, float4 upper, float4 lower, float4 first, float4 second) {
    add_products(sums, upper.x, lower.x, first.x, second.x);
    add_products(sums, upper.y, lower.y, first.y, second.y);
    add_products(sums, upper.z, lower.z, first.z, second.z);
    add_products(sums, upper.w, lower.w, first.w, second.w);
}

// The upper left corner of an output's window; of an output that does not exist any.
struct Corner {
    index_t image;
    int top, left;
};

__device__ __forceinline__ Corner corner_of(index_t output, index_t outputs, index_t pixels_y, int Q) {
    const index_t clamped = min(output, outputs - 1);
    const int place = (int)(clamped % pixels_y);
    return {clamped / pixels_y, place / Q - PAD_TOP, place % Q - PAD_LEFT};
}

// The first channel of the pixel under a window's tap.
__device__ __forceinline__ const element* pixel_of(const element* x, Corner corner, int tap, int H, int W) {
    const int h = at_border(corner.top + tap / S, H), w = at_border(corner.left + tap % S, W);
    return x + ((corner.image * H + h) * W + w) * C;
}

// Four channels of it.
__device__ __forceinline__ float4 channels_of(const element* pixel, int channel) {
    return __ldg((const float4*)(pixel + channel));
}

// Sums of two filters, rows of the prepared ones, and two outputs by float32 units, of the products from `first` to
// `last`: of those that are not finite; the others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* filter, int row,
        int other_row, Corner corner, Corner other_corner, int first, int last, int H, int W) {
    constexpr int CHANNELS = TAP_CHUNKS * VECTOR;
    const element* const weights = filter + (long long)row * (K_STEPS * TILE_K);
    const element* const other_weights = filter + (long long)other_row * (K_STEPS * TILE_K);
    float4 anew = {};
#pragma unroll 1
    for (int product = first; product < last;) {
        const int tap = product / CHANNELS, end = min(min((tap + 1) * CHANNELS, product + 32), last);
        const element* const pixel = pixel_of(x, corner, tap, H, W);
        const element* const other_pixel = pixel_of(x, other_corner, tap, H, W);
#pragma unroll 1
        for (; product < end; product += 4) {
            const int channel = product - tap * CHANNELS;
            add_fours(anew, __ldg((const float4*)(weights + product)), __ldg((const float4*)(other_weights + product)),
                channels_of(pixel, channel), channels_of(other_pixel, channel));
        }
        if (are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// the launch that adds parts of sums begins while this one ends
__device__ __forceinline__ void wc_launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ const float* wc_stored_by_launch(const float* address) { asm volatile("griddepcontrol.wait;" : "+l"(address) : : "memory"); return address; }

// The filter as [group][filter][tap][channel], filled up with zeros: once for each set of weights, before its first
// launch.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int ROW = K_STEPS * TILE_K, ROWS = N_TILES * TILE_N;     // products of a filter, filters of a group
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)ROWS * ROW;
            i += gridDim.x * SIDE_THREADS) {
        const int product = (int)(i % ROW), row = (int)(i / ROW % ROWS), group = (int)(i / ROW / ROWS);
        const int tap = product / C_GROUP, channel = product % C_GROUP;
        const bool exists = row < K_GROUP && tap < R * S;
        filter[i] = exists ? w[(((long long)group * K_GROUP + row) * C_GROUP + channel) * (R * S) + tap] : 0;
    }
}

// Four pixels of a channel, from `place` of their image on; they may go on in the next.
__device__ __forceinline__ float4 load_four(const float* x, index_t image, index_t place, int channel, index_t pixels,
        index_t pixels_x) {
    const float* from = x + (image * C + channel) * pixels_x + place;
    if (pixels_x % 4 == 0) return __ldg((const float4*)from);
    const index_t left = pixels - image * pixels_x - place;         // pixels of the batch from here on
    float four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        four[i] = i < left ? __ldg(from) : 0.0f;
        ++from;
        if (++place == pixels_x) {
            place = 0;
            from += (C - 1) * pixels_x;
        }
    }
    return make_float4(four[0], four[1], four[2], four[3]);
}

// Where a pixel's channel lies in a tile: 16 bytes are left out after four pixels, so that lanes with four pixels of a
// channel each are in different banks.
__device__ __forceinline__ int in_tile(int pixel, int channel) {
    return pixel * PASS_CHANNELS + pixel / 4 * 4 + channel;
}

// x as NHWC has it, a tile of pixels x channels through shared memory.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
to_nhwc(const float* __restrict__ x, float* __restrict__ x_nhwc, int N, int H, int W) {
    __shared__ __align__(16) float tile[PASS_PIXELS * PASS_CHANNELS + PASS_PIXELS];
    constexpr int FOURS = PASS_PIXELS / 4, ROUNDS = PASS_CHANNELS * FOURS / SIDE_THREADS, ACROSS = PASS_CHANNELS / 4;
    const index_t pixels_x = (index_t)H * W, pixels = N * pixels_x, first_pixel = (index_t)blockIdx.x * PASS_PIXELS;
    const int first_channel = blockIdx.y * PASS_CHANNELS;
    float4 fours[ROUNDS] = {};
    const int four = threadIdx.x % FOURS;
    const index_t of_four = first_pixel + four * 4, image = of_four / pixels_x, place = of_four % pixels_x;
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int channel = first_channel + threadIdx.x / FOURS + i * (SIDE_THREADS / FOURS);
        if (channel < C && of_four < pixels) fours[i] = load_four(x, image, place, channel, pixels, pixels_x);
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        float* const to = tile + in_tile(four * 4, threadIdx.x / FOURS + i * (SIDE_THREADS / FOURS));
        to[0] = fours[i].x;
        to[PASS_CHANNELS] = fours[i].y;
        to[2 * PASS_CHANNELS] = fours[i].z;
        to[3 * PASS_CHANNELS] = fours[i].w;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int cell = threadIdx.x + i * SIDE_THREADS, pixel = cell / ACROSS, channel = cell % ACROSS * 4;
        const float* const from = tile + in_tile(pixel, channel);
        float* const to = x_nhwc + (first_pixel + pixel) * C + first_channel + channel;
        if (first_pixel + pixel >= pixels) break;
        if (first_channel + channel < C) *(float4*)to = *(const float4*)from;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 10)
mma_3x3(float* __restrict__ x_nhwc, float* __restrict__ filter, float* __restrict__ partial_sums, int N, int H, int W,
        int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    wc_launch_next();       // add_partial_sums may begin: it waits for the end of this launch
    // this block's tile: blocks count tiles of filters first, then groups, then parts of the sum, then tiles of pixels
    const int n_tile = blockIdx.x % N_TILES, group = 0;
    const int split = blockIdx.x / N_TILES % SPLITS;
    const int first_step = K_STEPS * split / SPLITS, steps = K_STEPS * (split + 1) / SPLITS - first_step;
    const index_t first_pixel = (index_t)(blockIdx.x / (N_TILES * SPLITS)) * TILE_M;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;

    // what this thread copies: of some pixels' windows the same column of products, of some filters the same cell
    const int column = threadIdx.x % COPY_COLUMNS;
    const Windows windows = windows_of(first_pixel, pixels, pixels_y, group, H, W, Q);
    const element* filters_from = filter + (long long)n_tile * (TILE_N * K_STEPS * TILE_K) + first_step * TILE_K;

    float4 sums[MATRICES_M][MATRICES_N] = {};
    // the first tiles on their way
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) {
            copy_pixels(shared + stage * STAGE, x_nhwc, windows, first_step + stage, column, H, W);
            copy_filters(shared + stage * STAGE + TILE_M * TILE_K, filters_from + stage * TILE_K);
        }
        wc_copy_async_commit();
    }
    int to_multiply = 0, to_fill = STAGES - 1;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        // this tile has arrived, and every warp is done with the one whose memory is filled next
        wc_copy_async_wait_group();
        __syncthreads();
        const int next = step + STAGES - 1;
        if (next < steps) {
            copy_pixels(shared + to_fill * STAGE, x_nhwc, windows, first_step + next, column, H, W);
            copy_filters(shared + to_fill * STAGE + TILE_M * TILE_K, filters_from + next * TILE_K);
        }
        wc_copy_async_commit();
        multiply_tile(sums, shared + to_multiply * STAGE + TILE_M * TILE_K, shared + to_multiply * STAGE, warp_n,
            warp_m, lane);
        to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
        to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
    }
    // both factors' scale taken back: times 2^-48
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
        for (int n = 0; n < MATRICES_N; ++n) {
            float4& sum = sums[m][n];
            sum =
                make_float4(sum.x * 3.5527136788005009e-15f, sum.y * 3.5527136788005009e-15f,
                sum.z * 3.5527136788005009e-15f, sum.w * 3.5527136788005009e-15f);
        }

    // infinities, NaN, and factors too large for their scale: float32 units make such sums anew
    const int first_product = first_step * TILE_K, last_product = min(first_product + steps * TILE_K, CHUNKS * VECTOR);
#pragma unroll 1
    for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
        const int block = __ffs(blocks) - 1, m = block / MATRICES_N, n = block % MATRICES_N;
        const int k = n_tile * TILE_N + warp_n + m * 16 + lane / 4, other_k = k + 8;
        const index_t pixel = first_pixel + warp_m + n * 8 + lane % 4 * 2, other_pixel = pixel + 1;
        const float4 wanted =
            existing(sums_of(sums, block), k < K_GROUP, other_k < K_GROUP, pixel < pixels, other_pixel < pixels);
        const int row = k, other_row = other_k;
        set_sums(sums, block,
            made_anew(wanted, x_nhwc, filter, row, other_row, corner_of(pixel, pixels, pixels_y, Q),
            corner_of(other_pixel, pixels, pixels_y, Q), first_product, last_product, H, W));
    }

    // the sums to where they belong
    const int first_k = n_tile * TILE_N + warp_n + lane / 4;           // of this lane's filters of a matrix
    const index_t lane_pixel = first_pixel + warp_m + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int k = first_k + m * 16 + half * 8;
            if (k >= K_GROUP) break;
            float* const to = partial_sums + (split * (long long)K + k) * pixels;
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n) {
                const index_t pixel = lane_pixel + n * 8;
                if (pixel < pixels) to[pixel] = half ? sums[m][n].z : sums[m][n].x;
                if (pixel + 1 < pixels) to[pixel + 1] = half ? sums[m][n].w : sums[m][n].y;
            }
        }
}

// The parts of every sum together, in their order, and what happens to it before it is stored.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
add_partial_sums(float* __restrict__ partial_sums, const float* residual, float* y, int N, int P, int Q) {
    const index_t outputs = (index_t)N * P * Q * K, i = (index_t)blockIdx.x * SIDE_THREADS + threadIdx.x;
    if (i >= outputs) return;
    const float* const parts = wc_stored_by_launch(partial_sums);       // when the launch before has ended
    float sum = parts[i];
#pragma unroll
    for (int split = 1; split < SPLITS; ++split) sum += parts[(long long)split * outputs + i];
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y, k = i / pixels, pixel = i % pixels;
    const index_t at = (pixel / pixels_y * K + k) * pixels_y + pixel % pixels_y;
    y[at] = finish(sum, residual[at]);
}
