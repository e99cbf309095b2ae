// warpconv 0.1.0: taps, bfloat16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,64 --filter 64,3,3 --padding 1 --groups 32 --dtype bfloat16 --layout NHWC \
//     --epilogue bias,residual --arch sm_90 --algorithm taps \
//     --set tile_p=2 --set tile_q=16 --set tile_filters=8 --set groups_tile=4 --set warp_groups=4 --set strips=2 \
//     --set warps=1 --set buffers=2 --set vector=8 --set store_vector=8 --set min_blocks=12 --set joined=4
//
// layer  x[N, H, W, 64] * w[64, 2, 3, 3] -> y[N, P, Q, 64], stride 1, padding 1, groups 32, bfloat16 NHWC, then bias,
//        residual
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 2 x 16 outputs x 8 filters of 4 groups, two taps an instruction, 1 warps a block, 9232 bytes of
//        shared memory
// cost   a warp's 2 strips of 16 outputs x 8 filters of 4 groups: 40 warp loads, 16 shuffles, 2560 FMA a lane, about
//        145 registers (direct: 576 loads)
//
// Two taps of eight channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory, the next tile's while it multiplies this one's; there ldmatrix
// loads those of sixteen pixels. Pixels are the rows of a product and filters its columns, so that four lanes can store
// what lies side by side.
//
// JOINED groups of the layer share an instruction: a filter has zeros for the channels of the other groups. Zero times
// an infinity is NaN, so a warp that finds a NaN among its sums makes them again, each of its own group's channels
// alone.
constexpr int C = 64;                           // channels of x
constexpr int K = 64;                           // channels of y
constexpr int JOINED = 4;                       // groups of the layer that form one group below
constexpr int GROUPS = 8;                       // groups of both
constexpr int C_GROUP = 8;                      // channels of a group
constexpr int K_GROUP = 8;                      // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 2;                       // output rows of a block's tile
constexpr int TILE_Q = 16;                      // output columns of it
constexpr int GROUPS_TILE = 4;                  // groups of it
constexpr int BLOCKS = 1;                       // times eight filters of such a tile
constexpr int CELL = 8;                         // channels of a pixel that lie side by side in shared memory
constexpr int CHUNK_CELLS = 2;                  // cells that an instruction takes
constexpr int CHUNKS = 5;                       // instructions: all taps of all cells
constexpr int STRIPS = 2;                       // of 16 outputs, two runs of eight columns: what a warp has at once,
constexpr int WARP_GROUPS = 4;                  // of so many groups
constexpr int RUNS_ACROSS = 2;                  // runs of a tile's row
constexpr int ITEMS = 1;                        // a block's, which its warps share
constexpr int ROWS = 2;                         // matrices of 16 x 8 sums of a warp: down,
constexpr int COLUMNS = 4;                      // and across
constexpr int WARPS = 1;                        // of a block
constexpr int THREADS = 32;                     // of a block
constexpr int HALO_ROWS = 4;                    // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 18;                // input columns
constexpr int OCTETS = 4;                       // cells of a pixel of all a block's groups, side by side
constexpr int BUFFER = 2304;                    // elements of a tile's pixels there
constexpr int PIXEL_PIECES = 4;                 // pieces of a pixel of all a block's groups
constexpr int PIXEL_THREADS = 8;                // pixels that a block copies at a time
constexpr int GROUP_FILTERS = 160;              // fours of elements: filters of a group in a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // bfloat16, as bits

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then residual.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    return value;
}

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// From a window's first pixel to the cell of a tap that a lane gives the address of, in pixels.
__device__ __forceinline__ int offset_of(int chunk, int lane) {
    const int tap = chunk * CHUNK_CELLS + lane / 16;
    return tap / S * HALO_COLUMNS + tap % S;
}

// Where an eight of a pixel's channels lies in shared memory: eight pixels' lie in all banks.
__device__ __forceinline__ int cell(int pixel, int octet) {
    return pixel * OCTETS + (octet ^ (unsigned)pixel / (8 / OCTETS) % OCTETS);
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// The pixels that a tile's windows cover, PIXEL_PIECES threads for each, and zeros outside of the image, where nothing
// is read.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_group, int H,
        int W) {
    const int octet = threadIdx.x % OCTETS;
    const element* const image = x + tile.image * H * W * C + first_group * C_GROUP + octet * CELL;
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
#pragma unroll 4
    for (int pixel = threadIdx.x / PIXEL_PIECES; pixel < HALO_ROWS * HALO_COLUMNS; pixel += PIXEL_THREADS) {
        const int row = pixel / HALO_COLUMNS, column = pixel % HALO_COLUMNS;
        const int h = top + row, w = left + column;
        wc_copy_async_zfill_16(true, to + cell(pixel, octet) * CELL, image + ((index_t)h * W + w) * C,
            (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W);
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
    if (count > 0) *(uint4*)to = eight;
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are two channels of each of two cells, of the filter lane / 4 of eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int FOURS_OF_ALL = GROUPS * GROUP_FILTERS;
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < FOURS_OF_ALL; i += gridDim.x * SIDE_THREADS) {
        const int lane = i % 32, chunk = i / 32 % CHUNKS;
        const int group = i / GROUP_FILTERS;
        const int k = lane / 4;
#pragma unroll
        for (int of_lane = 0; of_lane < 4; ++of_lane) {
            const int tap_cell = chunk * CHUNK_CELLS + of_lane / 2, tap = tap_cell;
            const int channel = lane % 4 * 2 + of_lane % 2;
            constexpr int EACH = C_GROUP / JOINED;      // channels, and filters, of one group of the layer
            const bool exists = tap < R * S && channel / EACH == k / EACH;
            filter[i * 4LL + of_lane] = exists
                ? w[(((long long)group * K_GROUP + k) * EACH + channel % EACH) * (R * S) + tap] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 12)
taps_3x3(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        const unsigned short* __restrict__ bias, const unsigned short* residual, unsigned short* y, int N, int H,
        int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    element* const pixels_of_tile = shared;
    element* const zeros = pixels_of_tile + 2 * BUFFER;      // the row of lanes without a tap
    const int first_group = blockIdx.y * GROUPS_TILE;
    const int first_k = 0;                                 // of this block's filters in their group
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x >= tiles) return;
    const element* const of_block_filters = filter + (long long)first_group * (GROUP_FILTERS * 4);
    if (threadIdx.x == 0) *(uint4*)zeros = make_uint4(0u, 0u, 0u, 0u);
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
    copy_pixels(pixels_of_tile, x, tile_of(blockIdx.x, tiles_p, tiles_q), first_group, H, W);
    wc_copy_async_commit();
    int buffer = 0;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_p, tiles_q);
        const element* const halo = pixels_of_tile + buffer * BUFFER;
        buffer ^= 1;
        const count_t next = number + gridDim.x;
        if (next < tiles) copy_pixels(pixels_of_tile + buffer * BUFFER, x, tile_of(next, tiles_p, tiles_q), first_group,
            H, W);
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        __syncthreads();
#pragma unroll 1
        for (int item = warp; item < ITEMS; item += WARPS) {
            const int of_block = item * WARP_GROUPS;
            const int warp_group = first_group + of_block;
            // the window whose rows' addresses this lane gives to ldmatrix: column lane % 8 of either run of a strip
            int windows[STRIPS];
#pragma unroll
            for (int s = 0; s < STRIPS; ++s) {
                const int run = 2 * s + lane / 8 % 2, column = run % RUNS_ACROSS * 8 + lane % 8;
                windows[s] = run / RUNS_ACROSS * HALO_COLUMNS + column;
            }
            float4 sums[ROWS][COLUMNS] = {};
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const int offset = offsets[chunk];
                // of the pixels' octet 0; another one's differs in its last bits, by its number
                int cells[STRIPS];
#pragma unroll
                for (int s = 0; s < STRIPS; ++s) cells[s] = cell(windows[s] + offset, 0);
                const bool exists = chunk * CHUNK_CELLS + lane / 16 < R * S;
#pragma unroll
                for (int g = 0; g < WARP_GROUPS; ++g) {
                    const int octet = of_block + g;
                    uint4 pixels[STRIPS];
#pragma unroll
                    for (int s = 0; s < STRIPS; ++s)
                        wc_load_matrices_4(pixels[s].x, pixels[s].y, pixels[s].z, pixels[s].w,
                            exists ? halo + (cells[s] ^ octet) * CELL : zeros);
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const uint2 eight = held[g][chunk][n];
#pragma unroll
                        for (int m = 0; m < ROWS; ++m)
                            wc_mma_bfloat16s_16(sums[m][g + n], pixels[m].x, pixels[m].y, pixels[m].z, pixels[m].w,
                                eight.x, eight.y);
                    }
                }
            }
            bool all_numbers = true;
#pragma unroll
            for (int m = 0; m < ROWS; ++m)
#pragma unroll
                for (int n = 0; n < WARP_GROUPS; ++n) {
                    const float4 sum = sums[m][n];
                    all_numbers = all_numbers && sum.x == sum.x && sum.y == sum.y && sum.z == sum.z && sum.w == sum.w;
                }
            if (!__all_sync(0xffffffffu, all_numbers)) {
                // again, one group after the other: the channels of the others are zeros
#pragma unroll 1
                for (int joined = 0; joined < JOINED; ++joined) {
                    const bool own = lane % 4 == joined;          // this lane's channels and filters are that group's
#pragma unroll
                    for (int m = 0; m < ROWS; ++m) {
                        float4 again[WARP_GROUPS] = {};
#pragma unroll 1
                        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                            const int offset = offset_of(chunk, lane);
                            const bool exists = chunk * CHUNK_CELLS + lane / 16 < R * S;
#pragma unroll
                            for (int g = 0; g < WARP_GROUPS; ++g) {
                                const int octet = of_block + g;
                                uint4 strip;
                                wc_load_matrices_4(strip.x, strip.y, strip.z, strip.w,
                                    exists ? halo + (cell(windows[m] + offset, 0) ^ octet) * CELL : zeros);
                                if (!own) strip = make_uint4(0u, 0u, 0u, 0u);
                                const uint2 eight =
                                    *(const uint2*)(of_block_filters
                                    + (((of_block + g) * CHUNKS + chunk) * 32 + lane) * 4);
                                wc_mma_bfloat16s_16(again[g], strip.x, strip.y, strip.z, strip.w, eight.x, eight.y);
                            }
                        }
#pragma unroll
                        for (int g = 0; g < WARP_GROUPS; ++g)
                            if (own) sums[m][g] = again[g];
                    }
                }
            }
#pragma unroll
            for (int n = 0; n < COLUMNS; n += 4) {
                // of this lane: two filters of each of four matrices before the exchange, after it the eight of one
                float biases[8];
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const int block = n + i / 2, k = lane % 4 * 2 + i % 2;
                    const bool exists = block < WARP_GROUPS && k < K_GROUP;
                    biases[i] = exists ? wc_bfloat16_to_float(__ldg(bias + (warp_group + block) * K_GROUP + k)) : 0.0f;
                }
                const int block = n + lane % 4, k = first_k;
                const int count = block < WARP_GROUPS ? K_GROUP - k : 0;
#pragma unroll
                for (int m = 0; m < ROWS; ++m) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int run = 2 * m + half;
                        const int p = tile.p + run / RUNS_ACROSS, q = tile.q + run % RUNS_ACROSS * 8 + lane / 4;
                        const bool inside = p < P && q < Q;
                        const index_t pixel = ((tile.image * P + p) * Q + q) * K;
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const float4 sum = sums[m][n + i];
                            const int of = n + i, added_k = lane % 4 * 2;
                            const bool exists = inside && of < WARP_GROUPS;
                            const element* const added = residual + pixel + (warp_group + of) * K_GROUP + added_k;
                            const float added_0 = exists && added_k < K_GROUP ? wc_bfloat16_to_float(added[0]) : 0.0f;
                            const float added_1 = exists && added_k + 1 < K_GROUP ? wc_bfloat16_to_float(added[1])
                                : 0.0f;
                            words[i] =
                                wc_floats_to_bfloat16s(finish((half ? sum.z : sum.x), biases[2 * i], added_0),
                                finish((half ? sum.w : sum.y), biases[2 * i + 1], added_1));
                        }
                        const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                        if (inside) store_some(y + pixel + (warp_group + block) * K_GROUP + k, eight, count);
                    }
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
