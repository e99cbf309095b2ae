// warpconv 0.1.0: mma, bfloat16. Generated from templates/mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,100,H,W --filter 64,1,1 --dtype bfloat16 --epilogue bias,relu --arch sm_90 \
//     --algorithm mma \
//     --set tile_m=32 --set tile_n=64 --set tile_k=64 --set warps_m=1 --set warps_n=4 --set stages=4 \
//     --set splits=1 --set groups_tile=1 --set vector=8 --set store_vector=8 --set min_blocks=7
//
// layer  x[N, 100, H, W] * w[64, 100, 1, 1] -> y[N, 64, P, Q], stride 1, padding 0, bfloat16, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 32 pixels x 64 filters x 64 products on the tensor cores, 1 x 4 warps a block, 4 stages, 49152 bytes
//        of shared memory
// cost   a warp's 32 pixels x 16 filters: 12 warp loads, 0 shuffles, 2048 FMA a lane, about 72 registers (direct: 1600
//        loads)
//
// A product of matrices on the tensor cores: output pixels times filters, over all taps and channels. A block makes a
// tile of both, TILE_K products at a time. Pixels are gathered from x as they lie there, the pixels of a channel side
// by side; filters come as [filter][tap][channel], filled up with zeros. Asynchronous copies fill a ring of STAGES
// tiles in shared memory.
constexpr int C = 100;                          // channels of a pixel of x
constexpr int K = 64;                           // channels of a pixel of y
constexpr int C_GROUP = 100;                    // channels of a group
constexpr int K_GROUP = 64;                     // filters of a group
constexpr int R = 1;                            // filter rows
constexpr int TILE_M = 32;                      // tile of a block: pixels,
constexpr int TILE_N = 64;                      // filters,
constexpr int TILE_K = 64;                      // products of an output
constexpr int K_STEPS = 2;                      // tiles of the reduction
constexpr int WARP_N = 16;                      // filters
constexpr int MATRICES_M = 1;                   // matrices of a warp's tile: of 16 filters,
constexpr int MATRICES_N = 4;                   // of 8 pixels
constexpr int THREADS = 128;                    // threads of a block
constexpr int STAGES = 4;                       // tiles in shared memory: copied, or multiplied
constexpr int STAGE = 6144;                     // elements of such a tile, pixels and filters
constexpr int CELLS = 8;                        // cells of 16 bytes in a row of a tile in shared memory
constexpr int COPY_ROWS = 32;                   // rows that it copies at once
constexpr int PIXEL_CELLS = 4;                  // eight pixels each: a channel's in a tile
constexpr int PIXEL_COPIES = 2;                 // copies of a thread into a tile of pixels
constexpr int FILTER_COPIES = 4;                // copies of a thread into a tile of filters
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // bfloat16, as bits

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_8(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 8, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 8 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_load_matrices_transposed_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 2;" ::: "memory"); }

// Where a cell of a row lies in a tile. Cells change places from row to row, so that the eight rows of a matrix, which
// are loaded at once, lie in different banks.
__device__ __forceinline__ int cell_at(int row, int cell) { return (row * CELLS + (cell ^ (row & 7))) * 8; }

// Where eight pixels of a channel lie in a tile of pixels. Cells change places from row to row, so that the eight rows
// of a matrix, which are loaded at once, lie in different banks.
__device__ __forceinline__ int pixels_at(int channel, int cell) {
    return (channel * PIXEL_CELLS + (cell ^ (channel >> 1 & 3))) * 8;
}

// Eight pixels of a channel, from `place` of their image on; they may go on in the next.
__device__ __forceinline__ void load_eight(element (&eight)[8], const element* x, index_t image, index_t place,
        int channel, index_t pixels, index_t pixels_x) {
    const element* from = x + (image * C + channel) * pixels_x + place;
    const index_t left = pixels - image * pixels_x - place;         // pixels of the batch from here on
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

// The eight pixels that a thread copies of every channel; they may go on in the next image.
struct Windows {
    index_t image, place, pixels, pixels_x;     // where they begin, pixels of the batch and of an image
    int first_channel;
};

__device__ __forceinline__ Windows windows_of(index_t first_pixel, index_t pixels, index_t pixels_y, int group) {
    const index_t pixel = first_pixel + threadIdx.x % PIXEL_CELLS * 8;
    return {pixel / pixels_y, pixel % pixels_y, pixels, pixels_y, group * C_GROUP};
}

// A tile of pixels: the channels step * TILE_K and on.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Windows& windows, int step) {
    const index_t pixels_x = windows.pixels_x, left = windows.pixels - windows.image * pixels_x - windows.place;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int row = threadIdx.x / PIXEL_CELLS + i * COPY_ROWS, channel = step * TILE_K + row;
        element* const place = to + pixels_at(row, threadIdx.x % PIXEL_CELLS);
        const element* const from = x + (windows.image * C + windows.first_channel + channel) * pixels_x
            + windows.place;
        if (pixels_x % 8 == 0) {
            wc_copy_async_zfill_16(true, place, channel < C_GROUP && left > 0 ? from : x,
                channel < C_GROUP && left > 0);
            continue;
        }
        if (pixels_x % 4 == 0) {
            const element* const second = windows.place + 4 < pixels_x ? from + 4 : from + 4 + (C - 1) * pixels_x;
            wc_copy_async_zfill_8(true, place, channel < C_GROUP && left > 0 ? from : x, channel < C_GROUP && left > 0);
            wc_copy_async_zfill_8(true, place + 4, channel < C_GROUP && left > 4 ? second : x,
                channel < C_GROUP && left > 4);
            continue;
        }
        element eight[8] = {};
        if (channel < C_GROUP && left > 0) load_eight(eight, x, windows.image, windows.place,
            windows.first_channel + channel, windows.pixels, pixels_x);
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) words[j] = eight[2 * j] | (unsigned)eight[2 * j + 1] << 16;
        *(uint4*)place = make_uint4(words[0], words[1], words[2], words[3]);
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
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

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
            wc_load_matrices_transposed_4(b[n][0], b[n][1], b[n + 1][0], b[n + 1][1],
                                          columns
                                              + pixels_at(k * 16 + lane / 8 % 2 * 8 + lane % 8,
                                              first_column / 8 + n + lane / 16));
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n)
                wc_mma_bfloat16s_16(sums[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[n][0], b[n][1]);
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
        const bool exists = row < K_GROUP && tap < R;
        filter[i] = exists ? w[(((long long)group * K_GROUP + row) * C_GROUP + channel) + tap] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 7)
mma_1x1(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    // this block's tile: blocks count tiles of filters first, then groups, then tiles of pixels
    const int group = 0;
    const index_t first_pixel = (index_t)blockIdx.x * TILE_M;
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = 0, warp_n = warp * WARP_N;

    // what this thread copies: of some pixels' windows the same column of products, of some filters the same cell
    const Windows windows = windows_of(first_pixel, pixels, pixels_y, group);
    const element* filters_from = filter;

    float4 sums[MATRICES_M][MATRICES_N] = {};
    // the first tiles on their way
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < K_STEPS) {
            copy_pixels(shared + stage * STAGE, x, windows, stage);
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
            copy_pixels(shared + to_fill * STAGE, x, windows, next);
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
                const float bias_k = wc_bfloat16_to_float(__ldg(bias + first_k + lane / 4));
                unsigned words[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float4 sum = sums[m][n + i];
                    words[i] =
                        wc_floats_to_bfloat16s(finish((half ? sum.z : sum.x), bias_k),
                        finish((half ? sum.w : sum.y), bias_k));
                }
                store_filters(y + at, stored < pixels, 8, words, pixels_y, unit, lane);
            }
        }
    }
}
