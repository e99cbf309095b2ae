// warpconv 0.1.0: mma, float16. Generated from templates/mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,20 --filter 33,3,3 --padding 1 --padding-mode constant --padding-value 1 \
//     --dtype float16 --layout NHWC --arch sm_90 --algorithm mma \
//     --set tile_m=16 --set tile_n=64 --set tile_k=64 --set warps_m=1 --set warps_n=4 --set stages=6 \
//     --set splits=1 --set groups_tile=1 --set vector=4 --set store_vector=1 --set min_blocks=8
//
// layer  x[N, H, W, 20] * w[33, 20, 3, 3] -> y[N, P, Q, 33], stride 1, padding 1 (constant), float16 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments; all else is a
//        constant of the text
// plan   tiles of 16 pixels x 64 filters x 64 products on the tensor cores, 1 x 4 warps a block, 6 stages, 61440 bytes
//        of shared memory
// cost   a warp's 16 pixels x 16 filters: 18 warp loads, 0 shuffles, 1536 FMA a lane, about 57 registers (direct: 1440
//        loads)
//
// A product of matrices on the tensor cores: output pixels times filters, over all taps and channels. A block makes a
// tile of both, TILE_K products at a time. Pixels are gathered from x as they lie there, the channels of a tap side by
// side; filters come as [filter][tap][channel], filled up with zeros. Asynchronous copies fill a ring of STAGES tiles
// in shared memory.
constexpr int C = 20;                           // channels of a pixel of x
constexpr int K = 33;                           // channels of a pixel of y
constexpr int C_GROUP = 20;                     // channels of a group
constexpr int K_GROUP = 33;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int TILE_M = 16;                      // tile of a block: pixels,
constexpr int TILE_N = 64;                      // filters,
constexpr int TILE_K = 64;                      // products of an output
constexpr int K_STEPS = 3;                      // tiles of the reduction
constexpr int WARP_N = 16;                      // filters
constexpr int MATRICES_M = 1;                   // matrices of a warp's tile: of 16 pixels,
constexpr int MATRICES_N = 2;                   // of 8 filters
constexpr int THREADS = 128;                    // threads of a block
constexpr int STAGES = 6;                       // tiles in shared memory: copied, or multiplied
constexpr int STAGE = 5120;                     // elements of such a tile, pixels and filters
constexpr int CELLS = 8;                        // cells of 16 bytes in a row of a tile in shared memory
constexpr int VECTOR = 4;                       // channels of a copy
constexpr int TAP_CHUNKS = 5;                   // copies of a tap
constexpr int CHUNKS = 45;                      // copies of all products of an output
constexpr int COPY_COLUMNS = 16;                // copies of a row that a block makes at once,
constexpr int COPY_ROWS = 8;                    // rows that it copies at once
constexpr int PIXEL_COPIES = 2;                 // copies of a thread into a tile of pixels
constexpr int FILTER_COPIES = 4;                // copies of a thread into a tile of filters
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_8(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 8, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 8 : 0) : "memory"); }
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
        int H, int W, unsigned BORDER) {
    const int chunk = step * COPY_COLUMNS + column;
    const int tap = chunk / TAP_CHUNKS, down = tap / S, across = tap % S;
    const index_t further = ((index_t)down * W + across) * C + chunk % TAP_CHUNKS * VECTOR;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const int h = windows.top[i] + down, w = windows.left[i] + across;
        const element* from = x + windows.from[i] + further;
        const bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
        element* const place = to + cell_at(row, column * VECTOR / 8) + column * VECTOR % 8;
        wc_copy_async_zfill_8(inside, place, from, chunk < CHUNKS);
        if (!inside) *(uint2*)place = make_uint2(BORDER, BORDER);      // no copy writes a value
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

// A tile's products for a warp's sums, pixels times filters. Lane l gives the address of a row of matrix l / 8 of four:
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

extern "C" __global__ void __launch_bounds__(THREADS, 8)
mma_3x3(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q, unsigned BORDER) {
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
            copy_pixels(shared + stage * STAGE, x, windows, stage, column, H, W, BORDER);
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
            copy_pixels(shared + to_fill * STAGE, x, windows, next, column, H, W, BORDER);
            copy_filters(shared + to_fill * STAGE + TILE_M * TILE_K, filters_from + next * TILE_K);
        }
        wc_copy_async_commit();
        multiply_tile(sums, shared + to_multiply * STAGE, shared + to_multiply * STAGE + TILE_M * TILE_K, warp_m,
            warp_n, lane);
        to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
        to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
    }

    // the sums to where they belong
    const int first_k = warp_n + lane % 4 * 2;                         // of this lane's filters of a matrix
    const index_t lane_pixel = first_pixel + lane / 4;
#pragma unroll
    for (int n = 0; n < MATRICES_N; ++n) {
        const int k = first_k + n * 8;
        if (k >= K_GROUP) break;
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
            const index_t pixel = lane_pixel + m * 16;
            if (pixel >= pixels) break;
            const index_t at = pixel * K + k;
            {
                y[at] = wc_float_to_half(sums[m][n].x);
                if (k + 1 < K_GROUP) y[at + 1] = wc_float_to_half(sums[m][n].y);
            }
            if (pixel + 8 < pixels) {
                y[at + 8 * (index_t)K] = wc_float_to_half(sums[m][n].z);
                if (k + 1 < K_GROUP) y[at + 8 * (index_t)K + 1] = wc_float_to_half(sums[m][n].w);
            }
        }
    }
}
