// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,256 --filter 256,3,3 --padding 1 --groups 32 --dtype float16 --layout NHWC \
//     --arch sm_90 --algorithm taps \
//     --set tile_p=7 --set tile_q=14 --set tile_filters=8 --set groups_tile=8 --set warp_groups=4 --set strips=7 \
//     --set warps=2 --set buffers=2 --set vector=8 --set store_vector=8 --set min_blocks=4 --set joined=1
//
// layer  x[N, H, W, 256] * w[256, 8, 3, 3] -> y[N, P, Q, 256], stride 1, padding 1, groups 32, float16 NHWC
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 7 x 14 outputs x 8 filters of 8 groups, two taps an instruction, 2 warps a block, 47104 bytes of
//        shared memory
// cost   a warp's 7 strips of 16 outputs x 8 filters of 4 groups: 76 warp loads, 56 shuffles, 8064 FMA a lane, about
//        186 registers (direct: 8064 loads)
//
// Two taps, or cells, of eight channels are the sixteen products of an instruction of the tensor cores; those of a last
// column that has no partner take instructions of eight. A block copies the pixels that its outputs' windows cover to
// shared memory, the next tile's while it multiplies this one's; there ldmatrix loads a line of eight pixels once for
// all rows of the filter that read it. Pixels are the rows of a product and filters its columns, so that four lanes can
// store what lies side by side.
constexpr int C = 256;                          // channels of x
constexpr int K = 256;                          // channels of y
constexpr int GROUPS = 32;                      // groups of both
constexpr int C_GROUP = 8;                      // channels of a group
constexpr int K_GROUP = 8;                      // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 7;                       // output rows of a block's tile
constexpr int TILE_Q = 14;                      // output columns of it
constexpr int GROUPS_TILE = 8;                  // groups of it
constexpr int BLOCKS = 1;                       // times eight filters of a group in a tile
constexpr int CELL = 8;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNKS = 5;                       // of sixteen products of an output: all taps of all cells
constexpr int STRIPS = 7;                       // of two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 4;                  // of so many groups
constexpr int STRIPS_ACROSS = 1;                // strips side by side
constexpr int STRIP_COLUMNS = 16;               // columns from one strip to the next
constexpr int PARTNER_COLUMNS = 8;              // columns from a strip's first run to its second
constexpr int ITEMS = 2;                        // shares of a block, of all its groups
constexpr int SETS = 3;                         // of lines of pixels: of a filter column and a cell each
constexpr int LINES = 9;                        // of a set, each loaded once by a warp,
constexpr int COLUMNS = 4;                      // matrices of 16 x 8 sums of a strip
constexpr int WARPS = 2;                        // of a block
constexpr int THREADS = 64;                     // of a block
constexpr int HALO_ROWS = 9;                    // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 16;                // input columns
constexpr int OCTETS = 8;                       // places for cells of a pixel of all a block's groups, side by side
constexpr int ROW = HALO_COLUMNS * CELL * OCTETS; // elements from a row of pixels to the next in shared memory,
constexpr int LINE = ROW;                       // from a line to the next
constexpr int BUFFER = 9216;                    // elements of a tile's pixels there
constexpr int PIECE = 8;                        // channels that are copied at a time
constexpr int PIXEL_PIECES = 8;                 // pieces of a pixel of all a block's groups
constexpr int ROW_PIECES = 128;                 // of a row of pixels,
constexpr int ROW_THREADS = 64;                 // threads that copy such a row,
constexpr int ROWS_AT_ONCE = 1;                 // rows at a time
constexpr int GROUP_FILTERS = 160;              // fours of elements: filters of a group in a block
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

// Where an eight of a pixel's channels lies in shared memory: eight pixels' lie in all banks.
__device__ __forceinline__ int cell(int pixel, int octet) {
    return pixel * OCTETS + (octet ^ (unsigned)pixel / (8 / OCTETS) % OCTETS);
}

// A cell of a pixel: its place among a tile's pixels, in elements.
__device__ __forceinline__ int pixel_at(int row, int column, int octet) {
    return row * ROW + cell(column, octet) * CELL;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Filters of a block's groups, in the order of its products.
__device__ __forceinline__ void copy_filters(element* to, const element* from) {
    for (int i = threadIdx.x; i < GROUPS_TILE * GROUP_FILTERS / 2;
        i += THREADS) wc_copy_async_16(to + 8 * i, from + 8 * i);
}

// The pixels that a tile's windows cover, PIXEL_PIECES pieces each, and zeros outside of the image, where nothing is
// read. A thread copies pieces of a column, from row to row.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W) {
    const int first_row = threadIdx.x / ROW_THREADS;
    const int top = tile.p - PAD_TOP + first_row, left = tile.q - PAD_LEFT;
#pragma unroll 1
    for (int number = threadIdx.x % ROW_THREADS; number < ROW_PIECES; number += ROW_THREADS) {
        const int column = number / PIXEL_PIECES, piece = number % PIXEL_PIECES;
        element* const at = to + pixel_at(first_row, column, piece);
        const int w = left + column;
        const bool exists = (unsigned)w < (unsigned)W;
        const element* from = x + ((tile.image * H + top) * W + w) * C + first_group * C_GROUP + piece * PIECE;
#pragma unroll 4
        for (int row = 0; row < HALO_ROWS; row += ROWS_AT_ONCE) {
            wc_copy_async_zfill_16(true, at + row * ROW, from, exists && (unsigned)(top + row) < (unsigned)H);
            from += (index_t)W * C;
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
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_load_matrices_2(unsigned& a, unsigned& b, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 { %0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }
__device__ __forceinline__ void wc_mma_halves_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }

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
    // lanes 16 to 31 name places beyond the last line, which a load of two matrices does not look at
    wc_load_matrices_2(lines[LINES - 1].x, lines[LINES - 1].y, first + (LINES - 1) * LINE);
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
            const bool exists = k < K_GROUP && half.r < R && channel < C_GROUP;
            filter[i * 4LL + of_lane] = exists
                ? w[(((long long)group * K_GROUP + k) * C_GROUP + channel) * (R * S) + tap] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
taps_3x3(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    element* const filters = shared;
    element* const pixels_of_tile = shared + GROUPS_TILE * GROUP_FILTERS * 4;
    const int first_group = blockIdx.y * GROUPS_TILE;
    const int first_k = 0;                                 // of this block's filters in their group
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x >= tiles) return;
    const element* const of_block_filters = filter + (long long)first_group * (GROUP_FILTERS * 4);
    copy_filters(filters, of_block_filters);
    Tile tile = tile_of(blockIdx.x, tiles_p, tiles_q);
    copy_pixels(pixels_of_tile, x, tile, first_group, H, W);
    wc_copy_async_commit();
    int buffer = 0;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const element* const halo = pixels_of_tile + buffer * BUFFER;
        buffer ^= 1;
        const count_t next = number + gridDim.x;
        const Tile next_tile = tile_of(next, tiles_p, tiles_q);
        if (next < tiles) copy_pixels(pixels_of_tile + buffer * BUFFER, x, next_tile, first_group, H, W);
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        __syncthreads();
#pragma unroll 1
        for (int item = warp; item < ITEMS; item += WARPS) {
            const int of_block = item * WARP_GROUPS, warp_group = first_group + of_block;
            const int first_row = 0;
            const int first_p = tile.p, first_q = tile.q;
            // the pixel whose cells' addresses this lane gives to ldmatrix, of either run; one beyond the tile, whose
            // sums are not stored, gives way to the tile's last one where it is used
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
                            halo + pixel_at(line_row, min(line_column + a * STRIP_COLUMNS, TILE_Q - 1) + s, octet));
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        const int chunk = pair * R + r;
                        const element* const of_group = filters + (((of_block + g) * CHUNKS + chunk) * 32 + lane) * 4;
#pragma unroll
                        for (int n = 0; n < BLOCKS; ++n) {
                            const uint2 eight = *(const uint2*)(of_group + n * 128);
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
                        + pixel_at(line_row, min(line_column + a * STRIP_COLUMNS, TILE_Q - 1) + (SETS - 1),
                        first_octet));
#pragma unroll
                for (int i = 0; i < (R + 1) / 2; ++i) {
                    const int chunk = SETS / 2 * R + i;
                    const element* const of_group = filters + (((of_block + g) * CHUNKS + chunk) * 32 + lane) * 4;
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const uint2 eight = *(const uint2*)(of_group + n * 128);
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
            const int end_q = min(Q, tile.q + TILE_Q);          // runs go beyond the tile
#pragma unroll
            for (int n = 0; n < COLUMNS; n += 4) {
                // of this lane: two filters of each of four matrices before the exchange, after it the eight of one
                const int block = n + lane % 4, k = first_k;
                const int count = block < WARP_GROUPS ? 8 : 0;
#pragma unroll
                for (int m = 0; m < STRIPS; ++m) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int p = first_p + m, q = first_q + half * PARTNER_COLUMNS + lane / 4;
                        const bool inside = p < P && q < end_q;
                        const index_t at = ((tile.image * P + p) * Q + q) * K + (warp_group + block) * K_GROUP + k;
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
        tile = next_tile;
    }
}
