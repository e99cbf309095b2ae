// warpconv 0.1.0: mma, float16. Generated from templates/mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 64,3,3 --padding 1 --dtype float16 --epilogue bias,relu --arch sm_90 \
//     --algorithm mma \
//     --set tile_m=32 --set tile_n=64 --set tile_k=64 --set warps_m=1 --set warps_n=4 --set stages=6 \
//     --set splits=1 --set groups_tile=1 --set vector=8 --set store_vector=8 --set min_blocks=7
//
// layer  x[N, 64, H, W] * w[64, 64, 3, 3] -> y[N, 64, P, Q], stride 1, padding 1, float16, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 32 pixels x 64 filters x 64 products on the tensor cores, 1 x 4 warps a block, 6 stages, 73728 bytes
//        of shared memory
// cost   a warp's 32 pixels x 16 filters: 54 warp loads, 0 shuffles, 9216 FMA a lane, about 66 registers (direct: 9216
//        loads)
//
// A product of matrices on the tensor cores: output pixels times filters, over all taps and channels. A block makes a
// tile of both, TILE_K products at a time. Pixels are gathered from x in NHWC, as an entry before it leaves it, the
// channels of a tap side by side; filters come as [filter][tap][channel], filled up with zeros. Asynchronous copies
// fill a ring of STAGES tiles in shared memory.
constexpr int C = 64;                           // channels of a pixel of x
constexpr int K = 64;                           // channels of a pixel of y
constexpr int C_GROUP = 64;                     // channels of a group
constexpr int K_GROUP = 64;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_M = 32;                      // tile of a block: pixels,
constexpr int TILE_N = 64;                      // filters,
constexpr int TILE_K = 64;                      // products of an output
constexpr int K_STEPS = 9;                      // tiles of the reduction
constexpr int WARP_N = 16;                      // filters
constexpr int MATRICES_M = 1;                   // matrices of a warp's tile: of 16 filters,
constexpr int MATRICES_N = 4;                   // of 8 pixels
constexpr int THREADS = 128;                    // threads of a block
constexpr int STAGES = 6;                       // tiles in shared memory: copied, or multiplied
constexpr int STAGE = 6144;                     // elements of such a tile, pixels and filters
constexpr int CELLS = 8;                        // cells of 16 bytes in a row of a tile in shared memory
constexpr int VECTOR = 8;                       // channels of a copy
constexpr int TAP_CHUNKS = 8;                   // copies of a tap
constexpr int COPY_COLUMNS = 8;                 // copies of a row that a block makes at once,
constexpr int COPY_ROWS = 16;                   // rows that it copies at once
constexpr int PIXEL_COPIES = 2;                 // copies of a thread into a tile of pixels
constexpr int FILTER_COPIES = 4;                // copies of a thread into a tile of filters
constexpr int PASS_CHANNELS = 64;               // tile of x on its way to NHWC: channels,
constexpr int PASS_PIXELS = 64;                 // pixels
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 4;" ::: "memory"); }

// Where a cell of a row lies in a tile. Cells change places from row to row, so that the eight rows of a matrix, which
// are loaded at once, lie in different banks.
__device__ __forceinline__ int cell_at(int row, int cell) { return (row * CELLS + (cell ^ (row & 7))) * 8; }

// The windows of the pixels that a thread copies, COPY_ROWS apart; those beyond the last pixel are the last pixel's.
struct Windows {
    int top[PIXEL_COPIES], left[PIXEL_COPIES];      // the first tap's row and column
    index_t from[PIXEL_COPIES];                     // that tap, in its group's first channel
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
        windows.from[i] = ((image * H + windows.top[i]) * W + windows.left[i]) * C + group * C_GROUP;
    }
    return windows;
}

// A tile of pixels: the products step * TILE_K and on. A thread copies the same VECTOR channels of a tap for all its
// pixels.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Windows& windows, int step, int column,
        int H, int W) {
    const int chunk = step * COPY_COLUMNS + column;
    const int tap = chunk / TAP_CHUNKS, down = tap / S, across = tap % S;
    const index_t further = ((index_t)down * W + across) * C + chunk % TAP_CHUNKS * VECTOR;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const int h = windows.top[i] + down, w = windows.left[i] + across;
        const element* from = x + windows.from[i] + further;
        element* const place = to + cell_at(row, column * VECTOR / 8);
        wc_copy_async_zfill_16(true, place, from, (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W);
    }
}

// A tile of filters: TILE_N rows of CELLS cells, K_STEPS * TILE_K elements apart.
__device__ __forceinline__ void copy_filters(element* to, const element* from) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i) {
        const int cell = threadIdx.x + i * THREADS;
        wc_copy_async_16(to + cell_at(cell / CELLS, cell % CELLS),
            from + cell / CELLS * (K_STEPS * TILE_K) + cell % CELLS * 8);
    }
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A tile's products for a warp's sums, filters times pixels. Lane l gives the address of a row of matrix l / 8 of four:
// two cells each of 16 rows, two each of 16 columns.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const element* rows,
        const element* columns, int first_row, int first_column, int lane) {
#pragma unroll
    for (int k = 0; k < TILE_K / 16; ++k) {
        unsigned a[MATRICES_M][4], b[MATRICES_N][2];
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m)
            wc_load_matrices_4(a[m][0], a[m][1], a[m][2], a[m][3],
                               rows + cell_at(first_row + m * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int n = 0; n < MATRICES_N; n += 2)
            wc_load_matrices_4(b[n][0], b[n][1], b[n + 1][0], b[n + 1][1],
                               columns
                                   + cell_at(first_column + n * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n)
                wc_mma_halves_16(sums[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[n][0], b[n][1]);
    }
}

// The four lanes of a row have two columns of four matrices each; after it lane i of them has the eight of matrix i.
__device__ __forceinline__ uint4 regroup(unsigned word_0, unsigned word_1, unsigned word_2, unsigned word_3, int lane) {
    const bool odd = lane & 1, upper = lane & 2;
    const unsigned got_0 = __shfl_xor_sync(0xffffffffu, odd ? word_0 : word_1, 1);
    const unsigned got_2 = __shfl_xor_sync(0xffffffffu, odd ? word_2 : word_3, 1);
    // columns of lanes 0, 1 or 2, 3: of matrix 0 or 1, and of matrix 2 or 3
    const unsigned first_0 = odd ? got_0 : word_0, second_0 = odd ? word_1 : got_0;
    const unsigned first_2 = odd ? got_2 : word_2, second_2 = odd ? word_3 : got_2;
    const unsigned first = __shfl_xor_sync(0xffffffffu, upper ? first_0 : first_2, 2);
    const unsigned second = __shfl_xor_sync(0xffffffffu, upper ? second_0 : second_2, 2);
    return upper ? make_uint4(first, second, first_2, second_2) : make_uint4(first_0, second_0, first, second);
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

// The first of the pixels that a lane stores, of 32, `unit` of them at once.
__device__ __forceinline__ int stored_pixel(int unit, int lane) {
    if (unit == 8) return lane % 4 * 8;
    if (unit == 2) return lane / 8 * 8 + lane % 4 * 2;
    return lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
}

// Stores 32 pixels of eight filters, of which `filters` exist. A lane has of filter lane / 4, in word i, pixels
// i * 8 + lane % 4 * 2 and the next; `to` is where its stored_pixel lies in the first filter, `exists` whether it does.
__device__ __forceinline__ void store_filters(element* to, bool exists, int filters, const unsigned (&words)[4],
        index_t pixels_y, int unit, int lane) {
    if (unit == 8) {
        const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
        if (exists && lane / 4 < filters) *(uint4*)(to + lane / 4 * pixels_y) = eight;
        return;
    }
    // after it each lane has pixels of every second filter
    const uint4 turned = regroup_filters(words[0], words[1], words[2], words[3], lane / 8);
    const unsigned pairs[4] = {turned.x, turned.y, turned.z, turned.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (unit == 2) {
            const int filter = 2 * i + lane / 4 % 2;
            if (exists && filter < filters) *(unsigned*)(to + filter * pixels_y) = pairs[i];
            continue;
        }
        // after it each lane has one pixel of two filters
        const unsigned other = __shfl_xor_sync(0xffffffffu, pairs[i], 4);
        const bool odd = lane & 4;
        if (exists && 2 * i < filters) to[2 * i * pixels_y] = (element)(odd ? other >> 16 : pairs[i]);
        if (exists && 2 * i + 1 < filters) to[(2 * i + 1) * pixels_y] = (element)(odd ? pairs[i] >> 16 : other);
    }
}

// The filter as [group][filter][tap][channel], filled up with zeros: once for each set of weights, before its first
// launch.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int ROW = K_STEPS * TILE_K, ROWS = TILE_N;               // products of a filter, filters of a group
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)ROWS * ROW;
            i += gridDim.x * SIDE_THREADS) {
        const int product = (int)(i % ROW), row = (int)(i / ROW % ROWS), group = (int)(i / ROW / ROWS);
        const int tap = product / C_GROUP, channel = product % C_GROUP;
        const bool exists = row < K_GROUP && tap < R * S;
        filter[i] = exists ? w[(((long long)group * K_GROUP + row) * C_GROUP + channel) * (R * S) + tap] : 0;
    }
}

// Eight pixels of a channel, from `place` of their image on; they may go on in the next.
__device__ __forceinline__ void load_eight(element (&eight)[8], const element* x, index_t image, index_t place,
        int channel, index_t pixels, index_t pixels_x) {
    const element* from = x + (image * C + channel) * pixels_x + place;
    const index_t left = pixels - image * pixels_x - place;         // pixels of the batch from here on
    if (pixels_x % 4 == 0) {
        // images begin at multiples of eight pixels, or of four
        const element* const second = place + 4 < pixels_x ? from + 4 : from + 4 + (C - 1) * pixels_x;
        uint2 words[2] = {};
        if (pixels_x % 8 == 0) {
            const uint4 all = __ldg((const uint4*)from);
            words[0] = make_uint2(all.x, all.y);
            words[1] = make_uint2(all.z, all.w);
        } else {
            words[0] = __ldg((const uint2*)from);
            if (left > 4) words[1] = __ldg((const uint2*)second);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) eight[i] = (element)((i % 4 / 2 ? words[i / 4].y : words[i / 4].x) >> i % 2 * 16);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        eight[i] = i < left ? __ldg(from) : 0;
        ++from;
        if (++place == pixels_x) {
            place = 0;
            from += (C - 1) * pixels_x;
        }
    }
}

// Where a pixel's channel lies in a tile: 16 bytes are left out after eight pixels, so that lanes with eight pixels of
// a channel each are in different banks.
__device__ __forceinline__ int in_tile(int pixel, int channel) {
    return pixel * PASS_CHANNELS + pixel / 8 * 8 + channel;
}

// x as NHWC has it, a tile of pixels x channels through shared memory.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
to_nhwc(const unsigned short* __restrict__ x, unsigned short* __restrict__ x_nhwc, int N, int H, int W) {
    __shared__ __align__(16) element tile[PASS_PIXELS * PASS_CHANNELS + PASS_PIXELS];
    constexpr int EIGHTS = PASS_PIXELS / 8, ROUNDS = PASS_CHANNELS * EIGHTS / SIDE_THREADS, ACROSS = PASS_CHANNELS / 8;
    const index_t pixels_x = (index_t)H * W, pixels = N * pixels_x, first_pixel = (index_t)blockIdx.x * PASS_PIXELS;
    const int first_channel = blockIdx.y * PASS_CHANNELS;
    element eights[ROUNDS][8] = {};
    const int eight = threadIdx.x % EIGHTS;
    const index_t of_eight = first_pixel + eight * 8, image = of_eight / pixels_x, place = of_eight % pixels_x;
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int channel = first_channel + threadIdx.x / EIGHTS + i * (SIDE_THREADS / EIGHTS);
        if (channel < C && of_eight < pixels) load_eight(eights[i], x, image, place, channel, pixels, pixels_x);
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            tile[in_tile(eight * 8 + j, threadIdx.x / EIGHTS + i * (SIDE_THREADS / EIGHTS))] = eights[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int cell = threadIdx.x + i * SIDE_THREADS, pixel = cell / ACROSS, channel = cell % ACROSS * 8;
        const element* const from = tile + in_tile(pixel, channel);
        element* const to = x_nhwc + (first_pixel + pixel) * C + first_channel + channel;
        if (first_pixel + pixel >= pixels) break;
        if (first_channel + channel < C) *(uint4*)to = *(const uint4*)from;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 7)
mma_3x3(unsigned short* __restrict__ x_nhwc, unsigned short* __restrict__ filter,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then tiles of pixels
    const int group = 0;
    const index_t first_pixel = (index_t)blockIdx.x * TILE_M;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = 0, warp_n = warp * WARP_N;

    // what this thread copies: of some pixels' windows the same column of products, of some filters the same cell
    const int column = threadIdx.x % COPY_COLUMNS;
    const Windows windows = windows_of(first_pixel, pixels, pixels_y, group, H, W, Q);
    const element* filters_from = filter;

    float4 sums[MATRICES_M][MATRICES_N] = {};
    // the first tiles on their way
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < K_STEPS) {
            copy_pixels(shared + stage * STAGE, x_nhwc, windows, stage, column, H, W);
            copy_filters(shared + stage * STAGE + TILE_M * TILE_K, filters_from + stage * TILE_K);
        }
        wc_copy_async_commit();
    }
    int to_multiply = 0, to_fill = STAGES - 1;
#pragma unroll 1
    for (int step = 0; step < K_STEPS; ++step) {
        // this tile has arrived, and every warp is done with the one whose memory is filled next
        wc_copy_async_wait_group();
        __syncthreads();
        const int next = step + STAGES - 1;
        if (next < K_STEPS) {
            copy_pixels(shared + to_fill * STAGE, x_nhwc, windows, next, column, H, W);
            copy_filters(shared + to_fill * STAGE + TILE_M * TILE_K, filters_from + next * TILE_K);
        }
        wc_copy_async_commit();
        multiply_tile(sums, shared + to_multiply * STAGE + TILE_M * TILE_K, shared + to_multiply * STAGE, warp_n,
            warp_m, lane);
        to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
        to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
    }

    // the sums to where they belong
    // pixels of a filter that a lane stores at once
    const int unit = pixels_y % 8 == 0 ? 8 : pixels_y % 2 == 0 ? 2 : 1;
    const int lane_stored = stored_pixel(unit, lane);
#pragma unroll
    for (int n = 0; n < MATRICES_N; n += 4) {
        // what this lane stores of the pixels of four matrices, in the first filter
        const index_t stored = first_pixel + n * 8 + lane_stored;
        const index_t stored_at = stored / pixels_y * K * pixels_y + stored % pixels_y;
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int first_k = warp_n + m * 16 + half * 8;                       // the first of eight filters
                const index_t at = stored_at + first_k * pixels_y;
                const float bias_k = wc_half_to_float(__ldg(bias + first_k + lane / 4));
                unsigned words[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float4 sum = sums[m][n + i];
                    words[i] =
                        wc_floats_to_halves(finish((half ? sum.z : sum.x), bias_k),
                        finish((half ? sum.w : sum.y), bias_k));
                }
                store_filters(y + at, stored < pixels, 8, words, pixels_y, unit, lane);
            }
        }
    }
}
