// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,H,W --filter 32,3,3 --padding 1 --groups 8 --dtype float16 --epilogue residual \
//     --arch sm_90 --algorithm taps \
//     --set tile_p=14 --set tile_q=16 --set tile_filters=8 --set groups_tile=1 --set warp_groups=1 --set strips=2 \
//     --set warps=7 --set buffers=1 --set vector=2 --set store_vector=2 --set min_blocks=2 --set joined=2
//
// layer  x[N, 32, H, W] * w[32, 4, 3, 3] -> y[N, 32, P, Q], stride 1, padding 1, groups 8, float16, then residual
//        N, H, W (and so P, Q) are arguments (W a multiple of 2; Q a multiple of 2); all else is a constant of the text
// plan   tiles of 14 x 16 outputs x 8 filters, two taps an instruction, 7 warps a block, 5136 bytes of shared memory
// cost   a warp's 2 strips of 16 outputs x 8 filters of 1 group: 6 warp loads, 4 shuffles, 576 FMA a lane, about 88
//        registers (direct: 288 loads)
//
// Two taps, or cells, of eight channels are the sixteen products of an instruction of the tensor cores; those of a last
// column that has no partner take instructions of eight. A block copies the pixels that its outputs' windows cover to
// shared memory; there ldmatrix loads a line of eight pixels once for all rows of the filter that read it. Pixels are
// the rows of a product and filters its columns, and matrices of sums are transposed in the end, so that four lanes can
// store what lies side by side.
//
// JOINED groups of the layer share an instruction: a filter has zeros for the channels of the other groups. Zero times
// an infinity is NaN, so a warp that finds a NaN among its sums makes them again, each of its own group's channels
// alone.
constexpr int C = 32;                           // channels of x
constexpr int K = 32;                           // channels of y
constexpr int JOINED = 2;                       // groups of the layer that form one group below
constexpr int GROUPS = 4;                       // groups of both
constexpr int C_GROUP = 8;                      // channels of a group
constexpr int K_GROUP = 8;                      // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 14;                      // output rows of a block's tile
constexpr int TILE_Q = 16;                      // output columns of it
constexpr int BLOCKS = 1;                       // times eight filters of a group in a tile
constexpr int CELL = 8;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNKS = 5;                       // of sixteen products of an output: all taps of all cells
constexpr int STRIPS = 2;                       // of two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int STRIPS_ACROSS = 1;                // strips side by side
constexpr int STRIP_COLUMNS = 16;               // columns from one strip to the next
constexpr int PARTNER_COLUMNS = 8;              // columns from a strip's first run to its second
constexpr int RUN_ROWS = 2;                     // rows of a warp's runs
constexpr int STRIP_SETS = 7;                   // warps' shares of a tile
constexpr int ITEMS = 7;                        // shares of a block, of all its groups
constexpr int SETS = 3;                         // of lines of pixels: of a filter column and a cell each
constexpr int LINES = 4;                        // of a set, each loaded once by a warp,
constexpr int COLUMNS = 1;                      // matrices of 16 x 8 sums of a strip
constexpr int WARPS = 7;                        // of a block
constexpr int THREADS = 224;                    // of a block
constexpr int HALO_ROWS = 16;                   // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 20;                // input columns, as they are loaded
constexpr int PLANE = 321;                      // pixels of a group's cell in shared memory
constexpr int ROW = HALO_COLUMNS * CELL;        // elements from a row of pixels to the next in shared memory,
constexpr int LINE = ROW;                       // from a line to the next
constexpr int LOAD_COLUMNS = 2;                 // columns of a channel that a thread loads at once,
constexpr int LOAD_WORDS = 1;                   // words of them
constexpr int ROW_LOADS = 10;                   // such loads of a row of pixels
constexpr int BANK_LOADS = 4;                   // loads whose cells lie in all banks together
// columns ahead of a tile's first window, so that loads begin where memory is aligned
constexpr int LEAD = 1;
constexpr int ROW_PIECES = 10;                  // of a row of pixels,
constexpr int ROW_THREADS = 10;                 // threads that copy such a row,
constexpr int ROWS_AT_ONCE = 22;                // rows at a time
constexpr int BATCH = 1;                        // rows that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 160;              // fours of elements: filters of a group in a block
constexpr unsigned OUTSIDE = 0;                 // what stands outside of the image
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
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

// A cell of a pixel: its place among a tile's pixels, in elements.
__device__ __forceinline__ int pixel_at(int row, int column, int octet) {
    return row * ROW + (octet * PLANE + column) * CELL;
}

// LOAD_COLUMNS columns of a channel that lie side by side in x, two to a word.
__device__ __forceinline__ void load_columns(unsigned (&loaded)[LOAD_WORDS], const element* from) {
    loaded[0] = __ldg((const unsigned*)from);
}

// The pixels that a tile's windows cover. A thread loads the channels of a cell, LOAD_COLUMNS columns of each, of BATCH
// rows of pixels before it stores the first; outside of the image nothing is read.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W) {
    const int first_row = threadIdx.x / ROW_THREADS;
    if (first_row >= ROWS_AT_ONCE) return;
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT - LEAD;
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
        const int turn = number % ROW_LOADS / BANK_LOADS % 2;
#pragma unroll 1
        for (int first = first_row; first < HALO_ROWS; first += ROWS_AT_ONCE) {
            unsigned loaded[BATCH][CELL][LOAD_WORDS];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = first + i * ROWS_AT_ONCE, h = top + row;
                const bool inside = exists && row < HALO_ROWS && (unsigned)h < (unsigned)H;
                const element* from = top_pixel + (index_t)h * W;
#pragma unroll
                for (int c = 0; c < CELL; ++c) {
#pragma unroll
                    for (int j = 0; j < LOAD_WORDS; ++j) loaded[i][c][j] = OUTSIDE;
                    if (inside) load_columns(loaded[i][c], from);
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
                            __byte_perm(loaded[i][c][0], loaded[i][c + 1][0], of_load % 2 ? 0x7632u : 0x5410u);
                    *(uint4*)(at + row * ROW + (column + of_load) * CELL) =
                        make_uint4(words[0], words[1], words[2], words[3]);
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

// The first `count` of eight elements to where they lie side by side.
__device__ __forceinline__ void store_some(element* to, uint4 eight, int count) {
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (2 * i < count) *(unsigned*)(to + 2 * i) = words[i];
    }
}

// What is added to the eight elements that this lane stores with store_some, from where these would lie.
__device__ __forceinline__ uint4 load_some(const element* from, int count) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        words[i] = 2 * i < count ? *(const unsigned*)(from + 2 * i) : 0u;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ unsigned wc_transpose_matrix(unsigned word) { unsigned turned; asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word)); return turned; }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }
__device__ __forceinline__ void wc_mma_halves_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }

// Eight of an instruction's products: their set of lines and row of the filter. Row R is none: its products are zeros.
struct Half { int set, r; };

__device__ __forceinline__ Half half_of(int chunk, int half) {
    if (chunk >= SETS / 2 * R) return {SETS - 1, (chunk - SETS / 2 * R) * 2 + half};
    return {chunk / R * 2 + half, chunk % R};
}

// LINES lines of pixels, of each what an instruction takes of it: two runs of eight pixels of two sets, as four
// matrices. `first`: the cell whose address this lane gives to ldmatrix for the first line.
__device__ __forceinline__ void load_lines(uint4 (&lines)[LINES], const element* first) {
#pragma unroll
    for (int line = 0; line < LINES; ++line)
        wc_load_matrices_4(lines[line].x, lines[line].y, lines[line].z, lines[line].w, first + line * LINE);
}

// The same of one set: two runs, as two matrices, of two lines at a time. `first`: the cell whose address this lane
// gives for the first line or the second.
__device__ __forceinline__ void load_last_lines(uint2 (&lines)[LINES], const element* first) {
#pragma unroll
    for (int line = 0; line + 2 <= LINES; line += 2)
        wc_load_matrices_4(lines[line].x, lines[line].y, lines[line + 1].x, lines[line + 1].y, first + line * LINE);
}

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are two channels of a cell under each of two rows of the filter, or columns, of the filter lane / 4 of
// eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int FOURS_OF_ALL = GROUPS * GROUP_FILTERS;
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < FOURS_OF_ALL; i += gridDim.x * SIDE_THREADS) {
        const int lane = i % 32, chunk = i / 32 % CHUNKS;
        const int group = i / GROUP_FILTERS;
        const int k = lane / 4;
#pragma unroll
        for (int of_lane = 0; of_lane < 4; ++of_lane) {
            const Half half = half_of(chunk, of_lane / 2);
            const int tap = half.r * S + half.set, channel = lane % 4 * 2 + of_lane % 2;
            constexpr int EACH = C_GROUP / JOINED;      // channels, and filters, of one group of the layer
            const bool exists = half.r < R && channel / EACH == k / EACH;
            filter[i * 4LL + of_lane] = exists
                ? w[(((long long)group * K_GROUP + k) * EACH + channel % EACH) * (R * S) + tap] : 0;
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
            const int first_row = strip_set * RUN_ROWS;
            const int first_p = tile.p + first_row, first_q = tile.q;
            // the pixel whose cells' addresses this lane gives to ldmatrix, of either run
            const int line_row = first_row;
            const int line_column = lane / 8 % 2 * PARTNER_COLUMNS + lane % 8;
            float4 sums[STRIPS][COLUMNS] = {};
#pragma unroll
            for (int g = 0; g < WARP_GROUPS; ++g) {
                const int first_octet = of_block + g;
#pragma unroll
                for (int pair = 0; pair < SETS / 2; ++pair) {
                    const int set = 2 * pair + lane / 16, octet = first_octet, s = set;
                    uint4 lines[STRIPS_ACROSS][LINES];
#pragma unroll
                    for (int a = 0; a < STRIPS_ACROSS; ++a)
                        load_lines(lines[a],
                            halo + pixel_at(line_row, line_column + a * STRIP_COLUMNS + s + LEAD, octet));
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        const int chunk = pair * R + r;
#pragma unroll
                        for (int n = 0; n < BLOCKS; ++n) {
                            const uint2 eight = held[g][chunk][n];
#pragma unroll
                            for (int strip = 0; strip < STRIPS; ++strip) {
                                const uint4 pixels = lines[0][strip + r];
                                wc_mma_halves_16(sums[strip][g + n], pixels.x, pixels.y, pixels.z, pixels.w, eight.x,
                                    eight.y);
                            }
                        }
                    }
                }
                // the last set by itself, eight products an instruction: those of a row of the filter
                uint2 lines[STRIPS_ACROSS][LINES];
#pragma unroll
                for (int a = 0; a < STRIPS_ACROSS; ++a)
                    load_last_lines(lines[a],
                        halo + lane / 16 * LINE
                        + pixel_at(line_row, line_column + a * STRIP_COLUMNS + (SETS - 1) + LEAD, first_octet));
#pragma unroll
                for (int i = 0; i < (R + 1) / 2; ++i) {
                    const int chunk = SETS / 2 * R + i;
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const uint2 eight = held[g][chunk][n];
#pragma unroll
                        for (int r = 2 * i; r < 2 * i + 2 && r < R; ++r)
#pragma unroll
                            for (int strip = 0; strip < STRIPS; ++strip) {
                                const uint2 pixels = lines[0][strip + r];
                                wc_mma_halves_8(sums[strip][g + n], pixels.x, pixels.y, r % 2 ? eight.y : eight.x);
                            }
                    }
                }
            }
            bool all_numbers = true;
#pragma unroll
            for (int m = 0; m < STRIPS; ++m)
#pragma unroll
                for (int n = 0; n < WARP_GROUPS; ++n) {
                    const float4 sum = sums[m][n];
                    all_numbers = all_numbers && sum.x == sum.x && sum.y == sum.y && sum.z == sum.z && sum.w == sum.w;
                }
            if (!__all_sync(0xffffffffu, all_numbers)) {
                // again, one group after the other: the channels of the others are zeros
#pragma unroll 1
                for (int joined = 0; joined < JOINED; ++joined) {
                    const bool own = lane % 4 / 2 == joined;      // this lane's channels and filters are that group's
#pragma unroll
                    for (int m = 0; m < STRIPS; ++m) {
                        float4 again[WARP_GROUPS] = {};
#pragma unroll 1
                        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                            const Half of_lane = half_of(chunk, lane / 16);
                            const int row = line_row + m + of_lane.r % R;
                            const int column = line_column + of_lane.set + LEAD;
#pragma unroll
                            for (int g = 0; g < WARP_GROUPS; ++g) {
                                uint4 strip;
                                wc_load_matrices_4(strip.x, strip.y, strip.z, strip.w,
                                    halo + pixel_at(row, column, of_block + g));
                                if (!own) strip = make_uint4(0u, 0u, 0u, 0u);
                                if (half_of(chunk, 1).r >= R) strip.z = strip.w = 0u;
                                const uint2 eight =
                                    *(const uint2*)(of_block_filters
                                    + (((of_block + g) * CHUNKS + chunk) * 32 + lane) * 4);
                                wc_mma_halves_16(again[g], strip.x, strip.y, strip.z, strip.w, eight.x, eight.y);
                            }
                        }
#pragma unroll
                        for (int g = 0; g < WARP_GROUPS; ++g)
                            if (own) sums[m][g] = again[g];
                    }
                }
            }
            // found here: compilers would find each filter's place ahead of all tiles, and keep it
            const index_t pixels_y = wc_settled(P * Q);
#pragma unroll
            for (int n = 0; n < BLOCKS; ++n) {
                const int k = n * 8;                        // the first of eight filters of the group
                const int stored_k = k + lane / 4;          // this lane's when matrices are transposed
#pragma unroll
                for (int m = 0; m < STRIPS; m += 2) {
                    // where this lane stores eight columns of a run
                    const int run = lane % 4;
                    const int p = first_p + (m + run / 2), q = first_q + run % 2 * PARTNER_COLUMNS;
                    const bool inside = p < P;
                    const index_t at = (tile.image * K + warp_group * K_GROUP + stored_k) * pixels_y + (index_t)p * Q
                        + q;
                    const uint4 loaded = load_some(residual + at, inside ? Q - q : 0),
                        regrouped = regroup(loaded.x, loaded.y, loaded.z, loaded.w, lane % 4);
                    const unsigned added[4] = {regrouped.x, regrouped.y, regrouped.z, regrouped.w};
                    unsigned words[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float4 sum = sums[m + i / 2][n];
                        const unsigned of_sums = wc_transpose_matrix(added[i]);
                        words[i] =
                            wc_transpose_matrix(wc_floats_to_halves(finish((i % 2 ? sum.z : sum.x),
                            wc_half_low_to_float(of_sums)),
                            finish((i % 2 ? sum.w : sum.y), wc_half_high_to_float(of_sums))));
                    }
                    const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                    if (inside) store_some(y + at, eight, Q - q);
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
