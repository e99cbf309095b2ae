// warpconv 0.1.0: phases_mma, float16. Generated from templates/phases_mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 128,3,3 --stride 2,2 --padding 1 --dtype float16 \
//     --operation data_gradient --arch sm_90 --algorithm phases_mma \
//     --set tile_m=64 --set tile_n=64 --set tile_k=32 --set warps_m=2 --set warps_n=2 --set stages=3 \
//     --set min_blocks=5
//
// layer  x[N, 64, H, W] * w[128, 64, 3, 3] -> y[N, 128, P, Q], stride 2, padding 1, float16; its data gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   dy and dx by way of NHWC: tiles of 64 pixels of a phase x 64 channels x 32 products on the tensor cores, 2 x 2
//        warps, 3 stages
// cost   a warp's 32 pixels x 32 channels x 32 products: 4 warp loads, 0 shuffles, 1024 FMA a lane, about 94 registers
//        (direct: 1024 loads)
//
// Pixels STRIDE_H * i + row, STRIDE_W * j + column of the input make up a phase: they meet the same taps, at outputs
// next to each other. A block makes pixels of one phase times channels as a product of matrices on the tensor cores,
// over the phase's taps and the filters, TILE_K products at a time; pixels of a phase without taps are zero. Output
// gradients are gathered from dy as they lie there, the filters of a pixel side by side; an entry before it leaves the
// filter in that order. Asynchronous copies fill a ring of STAGES tiles in shared memory.
constexpr int C = 64;                           // channels of a pixel of dx
constexpr int K = 128;                          // channels of a pixel of dy
constexpr int C_GROUP = 64;                     // channels of a group
constexpr int K_GROUP = 128;                    // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int TILE_M = 64;                      // tile of a block: pixels,
constexpr int TILE_N = 64;                      // channels,
constexpr int TILE_K = 32;                      // products of a pixel's channel
constexpr int WARP_M = 32;                      // tile of a warp: pixels,
constexpr int WARP_N = 32;                      // channels
constexpr int MATRICES_M = 2;                   // matrices of a warp's tile: of 16 pixels,
constexpr int MATRICES_N = 4;                   // of 8 channels
constexpr int WARPS_M = 2;                      // warps along pixels
constexpr int THREADS = 128;                    // threads of a block
constexpr int STAGES = 3;                       // tiles in shared memory: copied, or multiplied
constexpr int STAGE = 4096;                     // elements of such a tile, pixels and filters
constexpr int CELLS = 4;                        // cells of 16 bytes in a row of a tile
constexpr int VECTOR = 8;                       // filters of a copy
constexpr int TAP_CHUNKS = 16;                  // copies of a tap
constexpr int COPY_COLUMNS = 4;                 // copies of a row that a block makes at once,
constexpr int COPY_ROWS = 32;                   // rows that it copies at once
constexpr int PIXEL_COPIES = 2;                 // copies of a thread into a tile of pixels,
constexpr int FILTER_COPIES = 2;                // and into one of filters
constexpr int TURN_TILE = 32;                   // filters, and taps of channels, that a block puts in order
constexpr int TURN_ROWS = 8;                    // rows of its threads
constexpr int FILTER_TILES = 4;                 // such tiles of a group's filters,
constexpr int WINDOW_TILES = 18;                // and of the taps of its channels
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// A phase: its first pixel, how many rows and columns of taps it meets, the output where that pixel meets the first of
// them, and how many taps the phases before it have.
struct Phase {
    int row, column, tap_rows, tap_columns, up, left, first_tap;
};
__device__ const Phase PHASES[4] = {
    {1, 1, 2, 2, 1, 1, 0},
    {0, 1, 1, 2, 0, 1, 4},
    {1, 0, 2, 1, 1, 0, 6},
    {0, 0, 1, 1, 0, 0, 8}
};

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Where a cell of a row lies in a tile. Cells change places from row to row, so that the eight rows of a matrix, which
// are loaded at once, lie in different banks.
__device__ __forceinline__ int cell_at(int row, int cell) { return (row * CELLS + (cell ^ (row >> 1 & 3))) * 8; }

// What the pixels that a thread copies meet with the first tap, COPY_ROWS apart; those beyond the last pixel are the
// last pixel's.
struct Windows {
    int top[PIXEL_COPIES], left[PIXEL_COPIES];      // the output
    index_t from[PIXEL_COPIES];                     // where it lies, in its group's first filter
};

__device__ __forceinline__ Windows windows_of(const Phase& phase, index_t first_pixel, index_t pixels, index_t places,
        int columns, int group, int P, int Q) {
    Windows windows;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const index_t wanted = first_pixel + (int)threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const index_t pixel = wanted < pixels ? wanted : pixels - 1;
        const index_t image = pixel / places;
        const int place = (int)(pixel % places);
        windows.top[i] = place / columns + phase.up;
        windows.left[i] = place % columns + phase.left;
        windows.from[i] = ((image * P + windows.top[i]) * Q + windows.left[i]) * K + group * K_GROUP;
    }
    return windows;
}

// A tile of pixels: a thread copies the same VECTOR filters of a tap for all its pixels.
__device__ __forceinline__ void copy_pixels(element* to, const element* dy, const Windows& windows, const Phase& phase,
        int chunk, int chunks, int column, int P, int Q) {
    const int tap = chunk / TAP_CHUNKS, up = chunk < chunks ? tap / phase.tap_columns : 0,
        across = chunk < chunks ? tap % phase.tap_columns : 0;
    const index_t further = chunk % TAP_CHUNKS * VECTOR - ((index_t)up * Q + across) * K;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const int p = windows.top[i] - up, q = windows.left[i] - across;
        wc_copy_async_zfill_16(true, to + cell_at(row, column * VECTOR / 8), dy + windows.from[i] + further,
                               chunk < chunks && (unsigned)p < (unsigned)P && (unsigned)q < (unsigned)Q);
    }
}

// A tile of filters: rows are channels, products as those of pixels.
__device__ __forceinline__ void copy_filters(element* to, const element* filters, int group, int first_channel,
        int chunk, int chunks, int column) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS, c = first_channel + row;
        wc_copy_async_zfill_16(row < TILE_N, to + cell_at(row, column * VECTOR / 8),
                               filters + ((index_t)(group * C_GROUP + c) * chunks + chunk) * VECTOR,
                                   chunk < chunks && c < C_GROUP);
    }
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A tile's products for a warp's sums, pixels times channels. Lane l gives the address of a row of matrix l / 8 of
// four: two cells each of 16 rows, two each of 16 columns.
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

// Where a tap's products are: taps of the phases before its own, taps of that, and which of them it is.
struct Place {
    int before, taps, index;
};
__device__ const Place PLACES[9] = {
    {0, 4, 0},
    {6, 2, 0},
    {0, 4, 1},
    {4, 2, 0},
    {8, 1, 0},
    {4, 2, 1},
    {0, 4, 2},
    {6, 2, 1},
    {0, 4, 3}
};

// The filter w[k][c][r][s] as [phase][c][tap of the phase][k]: tiles of filters x (channel, tap) through shared memory.
extern "C" __global__ void __launch_bounds__(256)
turn_filter(const element* __restrict__ w, element* __restrict__ turned) {
    __shared__ element tile[TURN_TILE][TURN_TILE + 2];
    constexpr int WINDOW = C_GROUP * R * S;     // of a filter
    const int first = blockIdx.x % WINDOW_TILES * TURN_TILE,
        first_k = blockIdx.x / WINDOW_TILES % FILTER_TILES * TURN_TILE;
    const int group = blockIdx.x / (WINDOW_TILES * FILTER_TILES);
#pragma unroll
    for (int i = threadIdx.y; i < TURN_TILE; i += TURN_ROWS) {
        const int k = first_k + i, at = first + threadIdx.x;
        if (k < K_GROUP && at < WINDOW) tile[i][threadIdx.x] = w[((index_t)group * K_GROUP + k) * WINDOW + at];
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.y; i < TURN_TILE; i += TURN_ROWS) {
        const int k = first_k + threadIdx.x, at = first + i;
        if (k < K_GROUP && at < WINDOW) {
            const Place place = PLACES[at % (R * S)];
            const int c = group * C_GROUP + at / (R * S);
            turned[((index_t)place.before * C + (index_t)c * place.taps + place.index) * K_GROUP + k] =
                tile[threadIdx.x][i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 5)
phases_mma_3x3(const unsigned short* __restrict__ dy, unsigned short* __restrict__ turned,
        unsigned short* __restrict__ dx, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    const Phase phase = PHASES[blockIdx.y];
    const int rows = (H - phase.row + STRIDE_H - 1) / STRIDE_H, columns = (W - phase.column + STRIDE_W - 1) / STRIDE_W;
    const index_t places = (index_t)rows * columns, pixels = N * places;        // of an image, of all
    const int chunks = phase.tap_rows * phase.tap_columns * TAP_CHUNKS,
        steps = (chunks + COPY_COLUMNS - 1) / COPY_COLUMNS;
    const element* const filters = turned + (index_t)phase.first_tap * C * K_GROUP;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
    const int column = threadIdx.x % COPY_COLUMNS;      // of products: what this thread copies of its rows

    // tiles: those of channels first, then of groups, then of pixels
    for (index_t tile = blockIdx.x; tile * TILE_M < pixels; tile += gridDim.x) {
        const int first_channel = 0, group = 0;
        const index_t first_pixel = tile * TILE_M;
        const Windows windows = windows_of(phase, first_pixel, pixels, places, columns, group, P, Q);

        float4 sums[MATRICES_M][MATRICES_N] = {};
        __syncthreads();        // every warp is done with the tile before
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            if (stage < steps) {
                copy_pixels(shared + stage * STAGE, dy, windows, phase, stage * COPY_COLUMNS + column, chunks, column,
                    P, Q);
                copy_filters(shared + stage * STAGE + TILE_M * TILE_K, filters, group, first_channel,
                    stage * COPY_COLUMNS + column, chunks, column);
            }
            wc_copy_async_commit();
        }
        int to_multiply = 0, to_fill = STAGES - 1;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            // this tile has arrived, and every warp is done with the one whose memory is filled next
            wc_copy_async_wait_group();
            __syncthreads();
            const int next = step + STAGES - 1;
            if (next < steps) {
                copy_pixels(shared + to_fill * STAGE, dy, windows, phase, next * COPY_COLUMNS + column, chunks, column,
                    P, Q);
                copy_filters(shared + to_fill * STAGE + TILE_M * TILE_K, filters, group, first_channel,
                    next * COPY_COLUMNS + column, chunks, column);
            }
            wc_copy_async_commit();
            multiply_tile(sums, shared + to_multiply * STAGE, shared + to_multiply * STAGE + TILE_M * TILE_K, warp_m,
                warp_n, lane);
            to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
            to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
        }

        // the sums to the phase's pixels
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const index_t pixel = first_pixel + warp_m + m * 16 + half * 8 + lane / 4, image = pixel / places;
                const int place = (int)(pixel % places);
                const int h = place / columns * STRIDE_H + phase.row, v = place % columns * STRIDE_W + phase.column;
                element* const to = dx + ((image * H + h) * W + v) * C;
#pragma unroll
                for (int n = 0; n < MATRICES_N; n += 4) {
                    unsigned words[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        words[i] =
                            wc_floats_to_halves((half ? sums[m][n + i].z : sums[m][n + i].x),
                            (half ? sums[m][n + i].w : sums[m][n + i].y));
                    }
                    const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                    const int stored = warp_n + (n + lane % 4) * 8;
                    if (pixel < pixels) *(uint4*)(to + stored) = eight;
                }
            }
        }
    }
}

// dy in NHWC: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dy_to_nhwc(const element* __restrict__ dy, element* __restrict__ dy_nhwc, int N, int P, int Q) {
    constexpr int CHANNELS = 128, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 2];        // channels x pixels
    const unsigned plane = (unsigned)P * Q, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    const int pair = threadIdx.x % 32 * 2, first_line = threadIdx.y * 2 + threadIdx.x / 32;
    const bool whole_words = plane % 2 == 0 && (unsigned long long)dy % 4 == 0;     // both pixels of every pair
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        if (whole_words) {
            const unsigned pixel = first_pixel + pair, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int line = first_line + i * 8;
                if (first_channel + line < CHANNELS && pixel < pixels) *(unsigned*)(tile[line] + pair) =
                    *(const unsigned*)(dy + at + (first_channel + line) * plane);
            }
        } else {
            const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int line = threadIdx.y + i * 4;
                if (first_channel + line < CHANNELS && pixel < pixels) tile[line][threadIdx.x] =
                    dy[at + (first_channel + line) * plane];
            }
        }
        __syncthreads();
        const int channel = first_channel + pair;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int line = first_line + i * 8;
            if (channel >= CHANNELS || first_pixel + line >= pixels) continue;
            *(unsigned*)(dy_nhwc + (first_pixel + line) * CHANNELS + channel) = tile[pair][line]
                | (unsigned)tile[pair + 1][line] << 16;
        }
        __syncthreads();
    }
}

// dx back to NCHW: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dx_to_nchw(const element* __restrict__ dx_nhwc, element* __restrict__ dx, int N, int H, int W) {
    constexpr int CHANNELS = 64, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 2];        // channels x pixels
    const unsigned plane = (unsigned)H * W, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    const int pair = threadIdx.x % 32 * 2, first_line = threadIdx.y * 2 + threadIdx.x / 32;
    const bool whole_words = plane % 2 == 0 && (unsigned long long)dx % 4 == 0;     // both pixels of every pair
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        const int channel = first_channel + pair;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int line = first_line + i * 8;
            if (channel >= CHANNELS || first_pixel + line >= pixels) continue;
            const unsigned both = *(const unsigned*)(dx_nhwc + (first_pixel + line) * CHANNELS + channel);
            tile[pair][line] = (element)both;
            tile[pair + 1][line] = (element)(both >> 16);
        }
        __syncthreads();
        if (whole_words) {
            const unsigned pixel = first_pixel + pair, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int line = first_line + i * 8;
                if (first_channel + line < CHANNELS
                    && pixel < pixels) *(unsigned*)(dx + at + (first_channel + line) * plane) =
                    *(unsigned*)(tile[line] + pair);
            }
        } else {
            const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int line = threadIdx.y + i * 4;
                if (first_channel + line < CHANNELS && pixel < pixels) dx[at + (first_channel + line) * plane] =
                    tile[line][threadIdx.x];
            }
        }
        __syncthreads();
    }
}
