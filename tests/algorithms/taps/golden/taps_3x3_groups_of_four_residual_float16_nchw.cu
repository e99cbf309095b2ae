// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,H,W --filter 32,3,3 --padding 1 --groups 8 --dtype float16 --epilogue residual \
//     --arch sm_90 --algorithm taps \
//     --set tile_p=14 --set tile_q=16 --set tile_filters=8 --set groups_tile=1 --set warp_groups=1 --set strips=2 \
//     --set warps=7 --set buffers=1 --set vector=1 --set store_vector=2 --set min_blocks=2 --set joined=1
//
// layer  x[N, 32, H, W] * w[32, 4, 3, 3] -> y[N, 32, P, Q], stride 1, padding 1, groups 8, float16, then residual
//        N, H, W (and so P, Q) are arguments (Q a multiple of 2); all else is a constant of the text
// plan   tiles of 14 x 16 outputs x 8 filters, four taps an instruction, 7 warps a block, 2312 bytes of shared memory
// cost   a warp's 2 strips of 16 outputs x 8 filters of 1 group: 12 warp loads, 8 shuffles, 768 FMA a lane, about 93
//        registers (direct: 576 loads)
//
// Four taps of four channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory; there a lane finds the channels of its tap by one load. Filters are
// the rows of a product and pixels its columns, so that four lanes can store what lies side by side.
constexpr int C = 32;                           // channels of x
constexpr int K = 32;                           // channels of y
constexpr int GROUPS = 8;                       // groups of both
constexpr int C_GROUP = 4;                      // channels of a group
constexpr int K_GROUP = 4;                      // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 14;                      // output rows of a block's tile
constexpr int TILE_Q = 16;                      // output columns of it
constexpr int BLOCKS = 1;                       // times eight filters of a group in a tile
constexpr int CELL = 4;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNK_CELLS = 4;                  // cells that an instruction takes
constexpr int CHUNKS = 3;                       // instructions of an output: all taps of all cells
constexpr int UNITS = 4;                        // runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int UNITS_ACROSS = 2;                 // units side by side
constexpr int UNIT_COLUMNS = 8;                 // columns from one unit to the next
constexpr int RUN_ROWS = 2;                     // rows of a warp's runs
constexpr int STRIP_SETS = 7;                   // warps' shares of a tile
constexpr int ITEMS = 7;                        // shares of a block, of all its groups
constexpr int ROWS = 1;                         // matrices of 16 x 8 sums of a warp: down,
constexpr int COLUMNS = 4;                      // and across
constexpr int WARPS = 7;                        // of a block
constexpr int THREADS = 224;                    // of a block
constexpr int HALO_ROWS = 16;                   // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 18;                // input columns
constexpr int PLANE = 289;                      // pixels of a group's cell in shared memory
constexpr int PIECE_CHANNELS = 4;               // that a piece has
constexpr int COPIES = 288;                     // pieces of a tile that a block copies
constexpr int BATCH = 4;                        // pieces that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 96;               // fours of elements: filters of a group in a block
constexpr unsigned OUTSIDE = 0;                 // an element outside of the image
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: residual.
__device__ __forceinline__ float finish(float value, float residual) {
    value = value + residual;
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
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// A piece of a pixel, PIECE channels, by its number: columns side by side, as in x.
struct Piece { int group, channel, row, column; };

__device__ __forceinline__ Piece piece_of(int number) {
    const int pixel = number % (HALO_ROWS * HALO_COLUMNS), of_block = number / (HALO_ROWS * HALO_COLUMNS);
    return {of_block, 0, pixel / HALO_COLUMNS, pixel % HALO_COLUMNS};
}

// Where it lies in shared memory, in elements.
__device__ __forceinline__ int place_of(const Piece& piece) {
    const int plane = piece.group + piece.channel / CELL;
    return (plane * PLANE + piece.row * HALO_COLUMNS + piece.column) * CELL + piece.channel % CELL;
}

// The channels of a piece as four elements; what stands outside of the image where it lies there.
__device__ __forceinline__ uint2 load_piece(const element* x, const Tile& tile, const Piece& piece, bool exists,
        int first_group, int H, int W) {
    const int h = tile.p - PAD_TOP + piece.row, w = tile.q - PAD_LEFT + piece.column;
    const bool inside = exists && (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    const int channel = (first_group + piece.group) * C_GROUP + piece.channel;
    const element* const from = x + ((tile.image * C + channel) * H + h) * W + w;
    const index_t apart = (index_t)H * W;
    unsigned channels[4] = {};
#pragma unroll
    for (int i = 0; i < PIECE_CHANNELS; ++i)
        channels[i] = inside ? (unsigned)__ldg(from + i * apart) : OUTSIDE;
    return make_uint2(channels[0] | channels[1] << 16, channels[2] | channels[3] << 16);
}

// The pixels that a tile's windows cover, BATCH pieces of a thread on their way at a time.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W) {
#pragma unroll 1
    for (int first = threadIdx.x; first < COPIES; first += THREADS * BATCH) {
        uint2 loaded[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int number = first + i * THREADS;
            loaded[i] = load_piece(x, tile, piece_of(number), number < COPIES, first_group, H, W);
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int number = first + i * THREADS;
            if (number < COPIES) *(uint2*)(to + place_of(piece_of(number))) = loaded[i];
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

// The first `count` of eight elements to where they lie side by side.
__device__ __forceinline__ void store_some(element* to, uint4 eight, int count) {
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (2 * i < count) *(unsigned*)(to + 2 * i) = words[i];
    }
}

// tensor cores
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are the channels of a cell, of the filter lane / 4 of eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int FOURS_OF_ALL = GROUPS * GROUP_FILTERS;
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < FOURS_OF_ALL; i += gridDim.x * SIDE_THREADS) {
        const int lane = i % 32, chunk = i / 32 % CHUNKS;
        const int group = i / GROUP_FILTERS;
        const int k = lane / 4;
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

extern "C" __global__ void __launch_bounds__(THREADS, 2)
taps_3x3(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter, const unsigned short* residual,
        unsigned short* y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    element* const pixels_of_tile = shared;
    const int first_group = blockIdx.y;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x >= tiles) return;
    const element* const of_block_filters = filter + (long long)first_group * (GROUP_FILTERS * 4);
    int offsets[CHUNKS];
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) offsets[chunk] = offset_of(chunk, lane);
    uint2 held[WARP_GROUPS][CHUNKS][BLOCKS];
#pragma unroll
    for (int g = 0; g < WARP_GROUPS; ++g)
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
            for (int n = 0; n < BLOCKS; ++n) held[g][chunk][n] =
                *(const uint2*)(of_block_filters + (((g * CHUNKS + chunk) + n) * 32 + lane) * 4);
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
            int windows[UNITS];
#pragma unroll
            for (int unit = 0; unit < UNITS; ++unit)
                windows[unit] =
                    ((first_row + unit / UNITS_ACROSS) * HALO_COLUMNS
                    + (unit % UNITS_ACROSS * UNIT_COLUMNS + lane / 4)) * CELL;
            float4 sums[ROWS][COLUMNS] = {};
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const int offset = offsets[chunk];
                const bool exists = chunk * CHUNK_CELLS + lane % 4 < R * S;
#pragma unroll
                for (int g = 0; g < WARP_GROUPS; ++g) {
                    const element* const plane = halo + (of_block + g) * (PLANE * CELL) + offset;
                    uint2 taken[UNITS];
#pragma unroll
                    for (int unit = 0; unit < UNITS; ++unit) {
                        taken[unit] = exists ? *(const uint2*)(plane + windows[unit]) : make_uint2(0u, 0u);
                    }
#pragma unroll
                    for (int m = 0; m < ROWS; ++m) {
                        const uint2 upper = held[g][chunk][2 * m];
                        const uint2 lower = 2 * m + 1 < BLOCKS ? held[g][chunk][(2 * m + 1)] : make_uint2(0u, 0u);
#pragma unroll
                        for (int unit = 0; unit < UNITS; ++unit) {
                            const uint2 pixels = taken[unit];
                            wc_mma_halves_16(sums[m][unit], upper.x, lower.x, upper.y, lower.y, pixels.x, pixels.y);
                        }
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < ROWS; ++m) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int k = (2 * m + half) * 8 + lane / 4;                // in its group
                    if ((2 * m + half) >= BLOCKS) break;
                    const bool filter_exists = k < K_GROUP;
                    const int all_k = warp_group * K_GROUP + k;
#pragma unroll
                    for (int n = 0; n < COLUMNS; n += 4) {
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const float4 sum = sums[m][n + i];
                            const int of = n + i, added_p = first_p + of / UNITS_ACROSS;
                            const int added_q = first_q + of % UNITS_ACROSS * UNIT_COLUMNS + lane % 4 * 2;
                            const bool exists = filter_exists && added_p < P;
                            const element* const added = residual + ((tile.image * K + all_k) * P + added_p) * Q
                                + added_q;
                            const float added_0 = exists && added_q < Q ? wc_half_to_float(added[0]) : 0.0f;
                            const float added_1 = exists && added_q + 1 < Q ? wc_half_to_float(added[1]) : 0.0f;
                            words[i] =
                                wc_floats_to_halves(finish((half ? sum.z : sum.x), added_0),
                                finish((half ? sum.w : sum.y), added_1));
                        }
                        const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                        const int run = n + lane % 4;
                        const int p = first_p + run / UNITS_ACROSS, q = first_q + run % UNITS_ACROSS * UNIT_COLUMNS;
                        if (filter_exists && p < P) store_some(y + ((tile.image * K + all_k) * P + p) * Q + q, eight,
                            Q - q);
                    }
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
