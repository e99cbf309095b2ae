// warpconv 0.1.0: taps, bfloat16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 32,3,3 --stride 2,2 --padding 1 --dtype bfloat16 --epilogue bias \
//     --arch sm_90 --algorithm taps \
//     --set tile_p=16 --set tile_q=16 --set tile_filters=32 --set groups_tile=1 --set warp_groups=1 --set strips=4 \
//     --set warps=2 --set buffers=1 --set vector=4 --set store_vector=8 --set min_blocks=6 --set joined=1
//
// layer  x[N, 3, H, W] * w[32, 3, 3, 3] -> y[N, 32, P, Q], stride 2, padding 1, bfloat16, then bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 8); all else is a constant of the text
// plan   tiles of 16 x 16 outputs x 32 filters, four taps an instruction, 2 warps a block, 9512 bytes of shared memory
// cost   a warp's 4 strips of 16 outputs x 32 filters of 1 group: 24 warp loads, 32 shuffles, 3072 FMA a lane, about
//        163 registers (direct: 1728 loads)
//
// Four taps of four channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory; there a lane finds the channels of its tap by one load. Pixels are
// the rows of a product and filters its columns, and matrices of sums are transposed in the end, so that four lanes can
// store what lies side by side.
constexpr int C = 3;                            // channels of x
constexpr int K = 32;                           // channels of y
constexpr int C_GROUP = 3;                      // channels of a group
constexpr int K_GROUP = 32;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 16;                      // output rows of a block's tile
constexpr int TILE_Q = 16;                      // output columns of it
constexpr int BLOCKS = 4;                       // times eight filters of a group in a tile
constexpr int CELL = 4;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNK_CELLS = 4;                  // cells that an instruction takes
constexpr int CHUNKS = 3;                       // of sixteen products of an output: all taps of all cells
constexpr int STRIPS = 4;                       // of two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int PARTNER_COLUMNS = 8;              // columns from a strip's first run to its second
constexpr int RUN_ROWS = 4;                     // rows of a warp's runs
constexpr int STRIP_SETS = 4;                   // warps' shares of a tile
constexpr int ITEMS = 4;                        // shares of a block, of all its groups
constexpr int COLUMNS = 4;                      // matrices of 16 x 8 sums of a strip
constexpr int WARPS = 2;                        // of a block
constexpr int THREADS = 64;                     // of a block
constexpr int HALO_ROWS = 33;                   // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 36;                // input columns, as they are loaded
constexpr int PLANE = 1189;                     // pixels of a group's cell in shared memory
constexpr int ROW = HALO_COLUMNS * CELL;        // elements from a row of pixels to the next in shared memory,
constexpr int LOAD_COLUMNS = 4;                 // columns of a channel that a thread loads at once,
constexpr int LOAD_WORDS = 2;                   // words of them
constexpr int ROW_LOADS = 9;                    // such loads of a row of pixels
constexpr int BANK_LOADS = 4;                   // loads whose cells lie in all banks together
// columns ahead of a tile's first window, so that loads begin where memory is aligned
constexpr int LEAD = 3;
constexpr int ROW_PIECES = 9;                   // of a row of pixels,
constexpr int ROW_THREADS = 9;                  // threads that copy such a row,
constexpr int ROWS_AT_ONCE = 7;                 // rows at a time
constexpr int CELL_CHANNELS = 3;                // of a cell that exist
constexpr int BATCH = 3;                        // rows that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 384;              // fours of elements: filters of a group in a block
constexpr unsigned OUTSIDE = 0;                 // what stands outside of the image
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // bfloat16, as bits

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
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
    return (tap / S * HALO_COLUMNS + tap % S + LEAD) * CELL;
}

// LOAD_COLUMNS columns of a channel that lie side by side in x, two to a word.
__device__ __forceinline__ void load_columns(unsigned (&loaded)[LOAD_WORDS], const element* from) {
    const uint2 words = __ldg((const uint2*)from);
    loaded[0] = words.x;
    loaded[1] = words.y;
}

// The word that has one of them. Chosen: an index that is not constant would put the words in local memory.
__device__ __forceinline__ unsigned word_of(const unsigned (&loaded)[LOAD_WORDS], int column) {
    return column / 2 ? loaded[1] : loaded[0];
}

// The pixels that a tile's windows cover. A thread loads the channels of a cell, LOAD_COLUMNS columns of each, of BATCH
// rows of pixels before it stores the first; outside of the image nothing is read.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W) {
    const int first_row = threadIdx.x / ROW_THREADS;
    if (first_row >= ROWS_AT_ONCE) return;
    const int top = tile.p * STRIDE_H - PAD_TOP, left = tile.q * STRIDE_W - PAD_LEFT - LEAD;
#pragma unroll 1
    for (int number = threadIdx.x % ROW_THREADS; number < ROW_PIECES; number += ROW_THREADS) {
        const int column = number % ROW_LOADS * LOAD_COLUMNS, piece = number / ROW_LOADS;
        // the piece's group, and its first channel there
        const int group = first_group + piece;
        const int w = left + column;
        const bool exists = (unsigned)w < (unsigned)W;
        const element* const top_pixel = x + (tile.image * C + group * C_GROUP) * H * W + w;
        element* const at = to + piece * (PLANE * CELL);
        // neighbouring lanes store their columns in other orders, so that few of them meet in a bank
        const int turn = number % ROW_LOADS / BANK_LOADS % 4;
#pragma unroll 1
        for (int first = first_row; first < HALO_ROWS; first += ROWS_AT_ONCE * BATCH) {
            unsigned loaded[BATCH][CELL][LOAD_WORDS];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = first + i * ROWS_AT_ONCE, h = top + row;
                const bool inside = exists && row < HALO_ROWS && (unsigned)h < (unsigned)H;
                const element* from = top_pixel + (index_t)h * W;
#pragma unroll
                for (int c = 0; c < CELL; ++c) {
                    const bool of_group = c < CELL_CHANNELS;
#pragma unroll
                    for (int j = 0; j < LOAD_WORDS; ++j) loaded[i][c][j] = OUTSIDE;
                    if (inside && of_group) load_columns(loaded[i][c], from);
                    from += (index_t)H * W;       // the next channel
                }
            }
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = first + i * ROWS_AT_ONCE;
                if (row >= HALO_ROWS) break;
#pragma unroll
                for (int j = 0; j < LOAD_COLUMNS; ++j) {
                    const int of_load = j ^ turn;
                    unsigned words[CELL / 2];
#pragma unroll
                    for (int c = 0; c < CELL; c += 2)
                        words[c / 2] =
                            __byte_perm(word_of(loaded[i][c], of_load), word_of(loaded[i][c + 1], of_load),
                            of_load % 2 ? 0x7632u : 0x5410u);
                    *(uint2*)(at + row * ROW + (column + of_load) * CELL) = make_uint2(words[0], words[1]);
                }
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
__device__ __forceinline__ unsigned wc_transpose_matrix(unsigned word) { unsigned turned; asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word)); return turned; }
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

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
taps_3x3(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
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
                *(const uint2*)(of_block_filters + (((g * CHUNKS + chunk) * BLOCKS + n) * 32 + lane) * 4);
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_p, tiles_q);
        element* const halo = pixels_of_tile;
        copy_pixels(halo, x, tile, first_group, H, W);
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
                        ((first_row + strip) * (STRIDE_H * HALO_COLUMNS)
                        + (half * PARTNER_COLUMNS + lane / 4) * STRIDE_W) * CELL;
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
                            wc_mma_bfloat16s_16(sums[strip][g * BLOCKS + n], pixels.x, pixels.y, pixels.z, pixels.w,
                                eight.x, eight.y);
                        }
                    }
                }
            }
            // found here: compilers would find each filter's place ahead of all tiles, and keep it
            const index_t pixels_y = wc_settled(P * Q);
#pragma unroll
            for (int n = 0; n < BLOCKS; ++n) {
                const int k = n * 8;                        // the first of eight filters of the group
                const int stored_k = k + lane / 4;          // this lane's when matrices are transposed
                const int summed_k = k + lane % 4 * 2;      // this lane's, with the next, before
                float biases[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) biases[i] =
                    wc_bfloat16_to_float(__ldg(bias + warp_group * K_GROUP + summed_k + i));
#pragma unroll
                for (int m = 0; m < STRIPS; m += 2) {
                    // where this lane stores eight columns of a run
                    const int run = lane % 4;
                    const int p = first_p + (m + run / 2), q = first_q + run % 2 * PARTNER_COLUMNS;
                    const bool inside = p < P;
                    const index_t at = (tile.image * K + warp_group * K_GROUP + stored_k) * pixels_y + (index_t)p * Q
                        + q;
                    unsigned words[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float4 sum = sums[m + i / 2][n];
                        words[i] =
                            wc_transpose_matrix(wc_floats_to_bfloat16s(finish((i % 2 ? sum.z : sum.x), biases[0]),
                            finish((i % 2 ? sum.w : sum.y), biases[1])));
                    }
                    const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                    if (inside) store_some(y + at, eight, Q - q);
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
