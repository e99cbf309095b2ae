// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,4 --filter 33,5,5 --padding 2 --padding-mode constant --padding-value 1 \
//     --dtype float16 --layout NHWC --arch sm_90 --algorithm taps \
//     --set tile_p=14 --set tile_q=16 --set tile_filters=24 --set groups_tile=1 --set warp_groups=1 --set strips=2 \
//     --set warps=4 --set buffers=1 --set vector=1 --set store_vector=1 --set min_blocks=3 --set joined=1
//
// layer  x[N, H, W, 4] * w[33, 4, 5, 5] -> y[N, P, Q, 33], stride 1, padding 2 (constant), float16 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments; all else is a
//        constant of the text
// plan   tiles of 14 x 16 outputs x 24 filters, four taps an instruction, 4 warps a block, 2888 bytes of shared memory
// cost   a warp's 2 strips of 16 outputs x 24 filters of 1 group: 28 warp loads, 16 shuffles, 3584 FMA a lane, about
//        145 registers (direct: 3200 loads)
//
// Four taps of four channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory; there a lane finds the channels of its tap by one load. Pixels are
// the rows of a product and filters its columns, so that four lanes can store what lies side by side.
constexpr int C = 4;                            // channels of x
constexpr int K = 33;                           // channels of y
constexpr int C_GROUP = 4;                      // channels of a group
constexpr int K_GROUP = 33;                     // filters of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int PAD_LEFT = 2;                     // columns to the left of the image
constexpr int TILE_P = 14;                      // output rows of a block's tile
constexpr int TILE_Q = 16;                      // output columns of it
constexpr int N_TILES = 2;                      // tiles of a group's filters, of which a block has one
constexpr int BLOCKS = 3;                       // times eight filters of a group in a tile
constexpr int CELL = 4;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNK_CELLS = 4;                  // cells that an instruction takes
constexpr int CHUNKS = 7;                       // of sixteen products of an output: all taps of all cells
constexpr int STRIPS = 2;                       // of two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int PARTNER_COLUMNS = 8;              // columns from a strip's first run to its second
constexpr int RUN_ROWS = 2;                     // rows of a warp's runs
constexpr int STRIP_SETS = 7;                   // warps' shares of a tile
constexpr int ITEMS = 7;                        // shares of a block, of all its groups
constexpr int COLUMNS = 4;                      // matrices of 16 x 8 sums of a strip
constexpr int WARPS = 4;                        // of a block
constexpr int THREADS = 128;                    // of a block
constexpr int HALO_ROWS = 18;                   // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 20;                // input columns
constexpr int PLANE = 361;                      // pixels of a group's cell in shared memory
constexpr int ROW = HALO_COLUMNS * CELL;        // elements from a row of pixels to the next in shared memory,
constexpr int ROW_PIECES = 20;                  // of a row of pixels,
constexpr int ROW_THREADS = 20;                 // threads that copy such a row,
constexpr int ROWS_AT_ONCE = 6;                 // rows at a time
constexpr int BATCH = 3;                        // rows that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 672;              // fours of elements: filters of a group in a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

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

// The pixels that a tile's windows cover. A thread loads the channels of a cell, one by one, of BATCH rows of pixels
// before it stores the first; outside of the image nothing is read.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W, unsigned BORDER) {
    const int first_row = threadIdx.x / ROW_THREADS;
    if (first_row >= ROWS_AT_ONCE) return;
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
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
                    loaded[i][c] = inside ? (unsigned)__ldg(from) : BORDER;
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

// The first `count` of eight elements to where they lie side by side.
__device__ __forceinline__ void store_some(element* to, uint4 eight, int count) {
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (2 * i < count) to[2 * i] = (element)words[i];
        if (2 * i + 1 < count) to[2 * i + 1] = (element)(words[i] >> 16);
    }
}

// tensor cores
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are the channels of a cell, of the filter lane / 4 of eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int FOURS_OF_ALL = N_TILES * GROUP_FILTERS;
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < FOURS_OF_ALL; i += gridDim.x * SIDE_THREADS) {
        const int lane = i % 32, block = i / 32 % BLOCKS, chunk = i / (32 * BLOCKS) % CHUNKS;
        const int n_tile = i / GROUP_FILTERS % N_TILES, group = i / GROUP_FILTERS / N_TILES;
        const int k = (n_tile * BLOCKS + block) * 8 + lane / 4;
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

extern "C" __global__ void __launch_bounds__(THREADS, 3)
taps_5x5(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q, unsigned BORDER) {
    extern __shared__ __align__(128) element shared[];
    element* const pixels_of_tile = shared;
    const int n_tile = blockIdx.y % N_TILES, first_group = blockIdx.y / N_TILES;
    const int first_k = n_tile * (BLOCKS * 8);             // of this block's filters in their group
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x >= tiles) return;
    const element* const of_block_filters = filter + ((long long)first_group * N_TILES + n_tile) * (GROUP_FILTERS * 4);
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
                *(const uint2*)(of_block_filters + (((g * N_TILES * CHUNKS + chunk) * BLOCKS + n) * 32 + lane) * 4);
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_p, tiles_q);
        element* const halo = pixels_of_tile;
        copy_pixels(halo, x, tile, first_group, H, W, BORDER);
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
                    windows[strip][half] = ((first_row + strip) * HALO_COLUMNS + (half * PARTNER_COLUMNS + lane / 4))
                        * CELL;
            float4 sums[STRIPS][COLUMNS] = {};
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const int offset = offsets[chunk];
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
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const uint2 eight = held[g][chunk][n];
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
                const int block = n + lane % 4, k = first_k + block % BLOCKS * 8;
                const int count = block < BLOCKS ? K_GROUP - k : 0;
#pragma unroll
                for (int m = 0; m < STRIPS; ++m) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int p = first_p + m, q = first_q + half * PARTNER_COLUMNS + lane / 4;
                        const bool inside = p < P && q < Q;
                        const index_t at = ((tile.image * P + p) * Q + q) * K + (warp_group + block / BLOCKS) * K_GROUP
                            + k;
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const float4 sum = sums[m][n + i];
                            words[i] = wc_floats_to_halves((half ? sum.z : sum.x), (half ? sum.w : sum.y));
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
