// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,3 --filter 64,7,7 --stride 2,2 --padding 3 --dtype float16 --layout NHWC \
//     --epilogue bias,relu --arch sm_90 --algorithm taps \
//     --set tile_p=8 --set tile_q=8 --set tile_filters=64 --set groups_tile=1 --set warp_groups=1 --set strips=2 \
//     --set warps=2 --set buffers=1 --set vector=1 --set store_vector=8 --set min_blocks=6 --set joined=1
//
// layer  x[N, H, W, 3] * w[64, 3, 7, 7] -> y[N, P, Q, 64], stride 2, padding 3, float16 NHWC, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 8 x 8 outputs x 64 filters, four taps an instruction, 2 warps a block, 30152 bytes of shared memory
// cost   a warp's 2 strips of 16 outputs x 64 filters of 1 group: 156 warp loads, 32 shuffles, 13312 FMA a lane, about
//        157 registers (direct: 9408 loads)
//
// Four taps of four channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory; there a lane finds the channels of its tap by one load. Pixels are
// the rows of a product and filters its columns, so that four lanes can store what lies side by side.
constexpr int C = 3;                            // channels of x
constexpr int K = 64;                           // channels of y
constexpr int C_GROUP = 3;                      // channels of a group
constexpr int K_GROUP = 64;                     // filters of a group
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 3;                      // rows of zeros above the image
constexpr int PAD_LEFT = 3;                     // columns of zeros to the left of the image
constexpr int TILE_P = 8;                       // output rows of a block's tile
constexpr int TILE_Q = 8;                       // output columns of it
constexpr int BLOCKS = 8;                       // times eight filters of a group in a tile
constexpr int CELL = 4;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNK_CELLS = 4;                  // cells that an instruction takes
constexpr int CHUNKS = 13;                      // of sixteen products of an output: all taps of all cells
constexpr int STRIPS = 2;                       // of two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int PARTNER_ROWS = 2;                 // rows from a strip's first run to its second
constexpr int RUN_ROWS = 4;                     // rows of a warp's runs
constexpr int STRIP_SETS = 2;                   // warps' shares of a tile
constexpr int ITEMS = 2;                        // shares of a block, of all its groups
constexpr int COLUMNS = 8;                      // matrices of 16 x 8 sums of a strip
constexpr int WARPS = 2;                        // of a block
constexpr int THREADS = 64;                     // of a block
constexpr int HALO_ROWS = 21;                   // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 21;                // input columns
constexpr int PLANE = 441;                      // pixels of a group's cell in shared memory
constexpr int ROW = HALO_COLUMNS * CELL;        // elements from a row of pixels to the next in shared memory,
constexpr int ROW_PIECES = 21;                  // of a row of pixels,
constexpr int ROW_THREADS = 21;                 // threads that copy such a row,
constexpr int ROWS_AT_ONCE = 3;                 // rows at a time
constexpr int CELL_CHANNELS = 3;                // of a cell that exist
constexpr int BATCH = 7;                        // rows that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 3328;             // fours of elements: filters of a group in a block
constexpr unsigned OUTSIDE = 0;                 // what stands outside of the image
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
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

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// From a window's first pixel to the cell of a tap that a lane takes, in elements.
__device__ __forceinline__ int offset_of(int chunk, int lane) {
    const int tap_cell = chunk * CHUNK_CELLS + lane % 4, tap = tap_cell;
    return (tap / S * HALO_COLUMNS + tap % S) * CELL;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Filters of a block's groups, in the order of its products.
__device__ __forceinline__ void copy_filters(element* to, const element* from) {
    for (int i = threadIdx.x; i < GROUP_FILTERS / 2; i += THREADS) wc_copy_async_16(to + 8 * i, from + 8 * i);
}

// The pixels that a tile's windows cover. A thread loads the channels of a cell, one by one, of BATCH rows of pixels
// before it stores the first; outside of the image nothing is read.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W) {
    const int first_row = threadIdx.x / ROW_THREADS;
    if (first_row >= ROWS_AT_ONCE) return;
    const int top = tile.p * STRIDE_H - PAD_TOP, left = tile.q * STRIDE_W - PAD_LEFT;
#pragma unroll 1
    for (int number = threadIdx.x % ROW_THREADS; number < ROW_PIECES; number += ROW_THREADS) {
        const int column = number;
        // the piece's group, and its first channel there
        const int group = first_group;
        const int w = left + column;
        const bool exists = (unsigned)w < (unsigned)W;
        const element* const top_pixel = x + (tile.image * H * W + w) * C + group * C_GROUP;
        element* const at = to;
#pragma unroll 1
        for (int first = first_row; first < HALO_ROWS; first += ROWS_AT_ONCE * BATCH) {
            unsigned loaded[BATCH][CELL];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = first + i * ROWS_AT_ONCE, h = top + row;
                const bool inside = exists && row < HALO_ROWS && (unsigned)h < (unsigned)H;
                const element* from = top_pixel + (index_t)h * W * C;
#pragma unroll
                for (int c = 0; c < CELL; ++c) {
                    const bool of_group = c < CELL_CHANNELS;
                    loaded[i][c] = inside && of_group ? (unsigned)__ldg(from) : OUTSIDE;
                    from += 1;       // the next channel
                }
            }
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = first + i * ROWS_AT_ONCE;
                if (row >= HALO_ROWS) break;
                unsigned words[CELL / 2];
#pragma unroll
                for (int c = 0; c < CELL; c += 2) words[c / 2] = __byte_perm(loaded[i][c], loaded[i][c + 1], 0x5410u);
                *(uint2*)(at + row * ROW + column * CELL) = make_uint2(words[0], words[1]);
            }
        }
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

// Eight elements to where they lie side by side, if `count`, how many exist, is not 0.
__device__ __forceinline__ void store_some(element* to, uint4 eight, int count) {
    if (count > 0) *(uint4*)to = eight;
}

// tensor cores
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are the channels of a cell, of the filter lane / 4 of eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int FOURS_OF_ALL = GROUP_FILTERS;
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < FOURS_OF_ALL; i += gridDim.x * SIDE_THREADS) {
        const int lane = i % 32, block = i / 32 % BLOCKS, chunk = i / (32 * BLOCKS) % CHUNKS;
        const int group = i / GROUP_FILTERS;
        const int k = block * 8 + lane / 4;
#pragma unroll
        for (int of_lane = 0; of_lane < 4; ++of_lane) {
            const int tap_cell = chunk * CHUNK_CELLS + lane % 4, tap = tap_cell;
            const int channel = of_lane;
            const bool exists = k < K_GROUP && tap < R * S && channel < C_GROUP;
            filter[i * 4LL + of_lane] = exists
                ? w[(((long long)group * K_GROUP + k) * C_GROUP + channel) * (R * S) + tap] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 6)
taps_7x7(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    element* const filters = shared;
    element* const pixels_of_tile = shared + GROUP_FILTERS * 4;
    const int first_group = blockIdx.y;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x >= tiles) return;
    const element* const of_block_filters = filter + (long long)first_group * (GROUP_FILTERS * 4);
    copy_filters(filters, of_block_filters);
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_p, tiles_q);
        element* const halo = pixels_of_tile;
        copy_pixels(halo, x, tile, first_group, H, W);
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        __syncthreads();
#pragma unroll 1
        for (int item = warp; item < ITEMS; item += WARPS) {
            const int of_block = item / STRIP_SETS, warp_group = first_group + of_block, strip_set = item % STRIP_SETS;
            const int first_row = strip_set * RUN_ROWS;
            const int first_p = tile.p + first_row, first_q = tile.q;
            // where this lane's windows begin: column lane / 4 of each run
            int windows[STRIPS][2];
#pragma unroll
            for (int strip = 0; strip < STRIPS; ++strip)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    windows[strip][half] =
                        ((first_row + strip + half * PARTNER_ROWS) * (STRIDE_H * HALO_COLUMNS) + (lane / 4) * STRIDE_W)
                        * CELL;
            float4 sums[STRIPS][COLUMNS] = {};
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const int offset = offset_of(chunk, lane);
                const bool exists = chunk * CHUNK_CELLS + lane % 4 < R * S;
#pragma unroll
                for (int g = 0; g < WARP_GROUPS; ++g) {
                    const element* const plane = halo + (of_block + g) * (PLANE * CELL) + offset;
                    uint4 taken[STRIPS];
#pragma unroll
                    for (int strip = 0; strip < STRIPS; ++strip) {
                        const uint2 first = exists ? *(const uint2*)(plane + windows[strip][0]) : make_uint2(0u, 0u),
                            second = exists ? *(const uint2*)(plane + windows[strip][1]) : make_uint2(0u, 0u);
                        taken[strip] = make_uint4(first.x, second.x, first.y, second.y);
                    }
                    const element* const of_group = filters
                        + (((of_block + g) * CHUNKS + chunk) * BLOCKS * 32 + lane) * 4;
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const uint2 eight = *(const uint2*)(of_group + n * 128);
#pragma unroll
                        for (int strip = 0; strip < STRIPS; ++strip) {
                            const uint4 pixels = taken[strip];
                            wc_mma_halves_16(sums[strip][g * BLOCKS + n], pixels.x, pixels.y, pixels.z, pixels.w,
                                eight.x, eight.y);
                        }
                    }
                }
            }
#pragma unroll
            for (int n = 0; n < COLUMNS; n += 4) {
                // of this lane: two filters of each of four matrices before the exchange, after it the eight of one
                float biases[8];
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const int block = n + i / 2, k = block % BLOCKS * 8 + lane % 4 * 2 + i % 2;
                    const bool exists = block < BLOCKS;
                    biases[i] = exists ? wc_half_to_float(__ldg(bias + (warp_group + block / BLOCKS) * K_GROUP + k))
                        : 0.0f;
                }
                const int block = n + lane % 4, k = block % BLOCKS * 8;
                const int count = block < BLOCKS ? 8 : 0;
#pragma unroll
                for (int m = 0; m < STRIPS; ++m) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int p = first_p + m + half * PARTNER_ROWS, q = first_q + lane / 4;
                        const bool inside = p < P && q < Q;
                        const index_t at = ((tile.image * P + p) * Q + q) * K + (warp_group + block / BLOCKS) * K_GROUP
                            + k;
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const float4 sum = sums[m][n + i];
                            words[i] =
                                wc_floats_to_halves(finish((half ? sum.z : sum.x), biases[2 * i]),
                                finish((half ? sum.w : sum.y), biases[2 * i + 1]));
                        }
                        const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                        if (inside) store_some(y + at, eight, count);
                    }
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
