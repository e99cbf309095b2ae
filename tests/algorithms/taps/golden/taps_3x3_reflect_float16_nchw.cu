// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,2,H,W --filter 8,3,3 --padding 1 --padding-mode reflect --dtype float16 --arch sm_90 \
//     --algorithm taps \
//     --set tile_p=4 --set tile_q=32 --set tile_filters=8 --set groups_tile=1 --set warp_groups=1 --set strips=2 \
//     --set warps=4 --set buffers=1 --set vector=1 --set store_vector=1 --set min_blocks=5 --set joined=1
//
// layer  x[N, 2, H, W] * w[8, 2, 3, 3] -> y[N, 8, P, Q], stride 1, padding 1 (reflect), float16
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 4 x 32 outputs x 8 filters, four taps an instruction, 4 warps a block, 1640 bytes of shared memory
// cost   a warp's 2 strips of 16 outputs x 8 filters of 1 group: 12 warp loads, 4 shuffles, 384 FMA a lane, about 81
//        registers (direct: 144 loads)
//
// Four taps of four channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory; there a lane finds the channels of its tap by one load. Pixels are
// the rows of a product and filters its columns, and matrices of sums are transposed in the end, so that four lanes can
// store what lies side by side.
constexpr int C = 2;                            // channels of x
constexpr int K = 8;                            // channels of y
constexpr int C_GROUP = 2;                      // channels of a group
constexpr int K_GROUP = 8;                      // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int TILE_P = 4;                       // output rows of a block's tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int BLOCKS = 1;                       // times eight filters of a group in a tile
constexpr int CELL = 4;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNK_CELLS = 4;                  // cells that an instruction takes
constexpr int CHUNKS = 3;                       // of sixteen products of an output: all taps of all cells
constexpr int STRIPS = 2;                       // of two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int STRIPS_ACROSS = 2;                // strips side by side
constexpr int STRIP_COLUMNS = 16;               // columns from one strip to the next
constexpr int PARTNER_COLUMNS = 8;              // columns from a strip's first run to its second
constexpr int STRIP_SETS = 4;                   // warps' shares of a tile
constexpr int ITEMS = 4;                        // shares of a block, of all its groups
constexpr int COLUMNS = 1;                      // matrices of 16 x 8 sums of a strip
constexpr int WARPS = 4;                        // of a block
constexpr int THREADS = 128;                    // of a block
constexpr int HALO_ROWS = 6;                    // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 34;                // input columns, as they are loaded
constexpr int PLANE = 205;                      // pixels of a group's cell in shared memory
constexpr int ROW = HALO_COLUMNS * CELL;        // elements from a row of pixels to the next in shared memory,
constexpr int ROW_LOADS = 34;                   // such loads of a row of pixels
constexpr int ROW_PIECES = 34;                  // of a row of pixels,
constexpr int ROW_THREADS = 34;                 // threads that copy such a row,
constexpr int ROWS_AT_ONCE = 3;                 // rows at a time
constexpr int CELL_CHANNELS = 2;                // of a cell that exist
constexpr int BATCH = 2;                        // rows that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 96;               // fours of elements: filters of a group in a block
constexpr unsigned OUTSIDE = 0;                 // what stands outside of the image
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

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
        int W) {
    const int first_row = threadIdx.x / ROW_THREADS;
    if (first_row >= ROWS_AT_ONCE) return;
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
#pragma unroll 1
    for (int number = threadIdx.x % ROW_THREADS; number < ROW_PIECES; number += ROW_THREADS) {
        const int column = number % ROW_LOADS, piece = number / ROW_LOADS;
        // the piece's group, and its first channel there
        const int group = first_group + piece;
        const int w = at_border(left + column, W);
        const element* const top_pixel = x + (tile.image * C + group * C_GROUP) * H * W + w;
        element* const at = to + piece * (PLANE * CELL);
#pragma unroll 1
        for (int first = first_row; first < HALO_ROWS; first += ROWS_AT_ONCE * BATCH) {
            unsigned loaded[BATCH][CELL];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = first + i * ROWS_AT_ONCE, h = at_border(top + row, H);
                const bool inside = row < HALO_ROWS;
                const element* from = top_pixel + (index_t)h * W;
#pragma unroll
                for (int c = 0; c < CELL; ++c) {
                    const bool of_group = c < CELL_CHANNELS;
                    loaded[i][c] = inside && of_group ? (unsigned)__ldg(from) : OUTSIDE;
                    from += (index_t)H * W;       // the next channel
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

// The first of the pixels that a lane stores, of 32.
__device__ __forceinline__ int stored_pixel(int lane) {
    return lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
}

// Stores 32 pixels of eight filters, of which `filters` exist. A lane has of filter lane / 4, in word i, pixels
// i * 8 + lane % 4 * 2 and the next; `to` is where its stored_pixel lies in the first filter, `exists` whether it does.
__device__ __forceinline__ void store_filters(element* to, bool exists, int filters, const unsigned (&words)[4],
        index_t pixels_y, int lane) {
    // after it each lane has pixels of every second filter
    const uint4 turned = regroup_filters(words[0], words[1], words[2], words[3], lane / 8);
    const unsigned pairs[4] = {turned.x, turned.y, turned.z, turned.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        // after it each lane has one pixel of two filters
        const unsigned other = __shfl_xor_sync(0xffffffffu, pairs[i], 4);
        const bool odd = lane & 4;
        if (exists && 2 * i < filters) to[2 * i * pixels_y] = (element)(odd ? other >> 16 : pairs[i]);
        if (exists && 2 * i + 1 < filters) to[(2 * i + 1) * pixels_y] = (element)(odd ? pairs[i] >> 16 : other);
    }
}

// tensor cores
__device__ __forceinline__ unsigned wc_transpose_matrix(unsigned word) { unsigned turned; asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word)); return turned; }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are the channels of a cell, of the filter lane / 4 of eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int FOURS_OF_ALL = GROUP_FILTERS;
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

extern "C" __global__ void __launch_bounds__(THREADS, 5)
taps_3x3(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
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
        __syncthreads();
#pragma unroll 1
        for (int item = warp; item < ITEMS; item += WARPS) {
            const int of_block = item / STRIP_SETS, warp_group = first_group + of_block, strip_set = item % STRIP_SETS;
            const int first_row = strip_set;
            const int first_p = tile.p + first_row, first_q = tile.q;
            // where this lane's windows begin: column lane / 4 of each run
            int windows[STRIPS][2];
#pragma unroll
            for (int strip = 0; strip < STRIPS; ++strip)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    windows[strip][half] =
                        ((first_row + strip / STRIPS_ACROSS) * HALO_COLUMNS
                        + (strip % STRIPS_ACROSS * STRIP_COLUMNS + half * PARTNER_COLUMNS + lane / 4)) * CELL;
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
                            wc_mma_halves_16(sums[strip][g + n], pixels.x, pixels.y, pixels.z, pixels.w, eight.x,
                                eight.y);
                        }
                    }
                }
            }
            // found here: compilers would find each filter's place ahead of all tiles, and keep it
            const index_t pixels_y = wc_settled(P * Q);
#pragma unroll
            for (int n = 0; n < BLOCKS; ++n) {
                const int k = n * 8;                        // the first of eight filters of the group
#pragma unroll
                for (int m = 0; m < STRIPS; m += 2) {
                    // what this lane stores of four runs of eight columns
                    const int stored = stored_pixel(lane), run = stored / 8;
                    const int p = first_p + (m + run / 2) / STRIPS_ACROSS,
                        q = first_q + (m + run / 2) % STRIPS_ACROSS * STRIP_COLUMNS + run % 2 * PARTNER_COLUMNS
                        + stored % 8;
                    const bool inside = p < P && q < Q;
                    const index_t at = (tile.image * K + warp_group * K_GROUP + k) * pixels_y + (index_t)p * Q + q;
                    unsigned words[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float4 sum = sums[m + i / 2][n];
                        words[i] =
                            wc_transpose_matrix(wc_floats_to_halves((i % 2 ? sum.z : sum.x), (i % 2 ? sum.w : sum.y)));
                    }
                    store_filters(y + at, inside, 8, words, pixels_y, lane);
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
