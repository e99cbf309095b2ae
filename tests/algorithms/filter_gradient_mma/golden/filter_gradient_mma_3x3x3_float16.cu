// warpconv 0.1.0: filter_gradient_mma, float16. Generated from templates/filter_gradient_mma/kernel.cu.jinja; do not
//        edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,64 --filter 128,3,3,3 --padding 1 --dtype float16 --layout NHWC \
//     --operation filter_gradient --index-bits 32 --arch sm_90 --algorithm filter_gradient_mma \
//     --set tile_m=64 --set tile_n=64 --set tile_p=32 --set warps_m=2 --set warps_n=2 --set stages=3 \
//     --set splits=8 --set joined=1 --set vector_m=8 --set vector_n=8 --set min_blocks=5
//
// layer  x[N, D, H, W, 64] * w[128, 64, 3, 3, 3] -> y[N, Z, P, Q, 128], stride 1, padding 1, float16 NHWC; its filter
//        gradient
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   tiles of 64 filters x 64 taps of channels x 32 pixels on the tensor cores, 2 x 2 warps, 3 stages, in 8 shares
//        of the pixels, whose sums are added then
// cost   a warp's 32 filters x 32 columns x 32 pixels: 4 warp loads, 0 shuffles, 1024 FMA a lane, about 92 registers
//        (direct: 1024 loads)
//
// A product of matrices on the tensor cores: dy as filters x pixels by the windows as pixels x columns, a tap of a
// channel each, the channels of a tap side by side. A block makes a tile of filters x columns, TILE_P pixels at a time,
// from a share of the batch's pixels. Both operands lie in shared memory as in dy and x, the channels of a pixel side
// by side, and are transposed on their way to registers. Asynchronous copies fill a ring of STAGES tiles.
constexpr int C = 64;                           // channels of a pixel of x
constexpr int K = 128;                          // channels of a pixel of dy
constexpr int C_GROUP = 64;                     // channels of a group
constexpr int K_GROUP = 128;                    // filters of a group
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_FRONT = 1;                    // planes of zeros before the volume
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int WINDOW = 1728;                    // columns: a group's channels of all taps
constexpr int TILE_M = 64;                      // tile of a block: filters,
constexpr int TILE_N = 64;                      // columns,
constexpr int TILE_P = 32;                      // pixels at a time
constexpr int M_TILES = 2;                      // tiles of a group's filters
constexpr int N_TILES = 27;                     // tiles of a group's columns
constexpr int CHUNKS = 8;                       // shares of the pixels, each summed by itself
constexpr int WARP_M = 32;                      // tile of a warp: filters,
constexpr int WARP_N = 32;                      // columns
constexpr int MATRICES_M = 2;                   // matrices of a warp's tile: of 16 filters,
constexpr int MATRICES_N = 4;                   // of 8 columns
constexpr int WARPS_M = 2;                      // warps along filters
constexpr int THREADS = 128;                    // threads of a block
constexpr int STAGES = 3;                       // tiles in shared memory: copied, or multiplied
constexpr int STAGE = 4096;                     // elements of such a tile: gradients, and behind them windows
constexpr int GRADIENTS = 2048;                 // those of gradients
constexpr int GRADIENT_VECTOR = 8;              // filters of a copy,
constexpr int GRADIENT_COLUMNS = 8;             // copies of a pixel,
constexpr int GRADIENT_ROWS = 16;               // pixels that a block copies at once,
constexpr int GRADIENT_COPIES = 2;              // and copies of a thread into a tile
constexpr int GRADIENT_CELLS = 8;               // 16 bytes each: of a pixel in a tile
constexpr int WINDOW_VECTOR = 8;                // the same of windows: channels of a copy,
constexpr int WINDOW_COLUMNS = 8;               // copies of a pixel,
constexpr int WINDOW_ROWS = 16;                 // pixels that a block copies at once,
constexpr int WINDOW_COPIES = 2;                // and copies of a thread into a tile
constexpr int WINDOW_CELLS = 8;                 // 16 bytes each: of a pixel in a tile
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Where a cell of a pixel lies in a tile. Cells change places from pixel to pixel, so that the eight pixels of a
// matrix, which are loaded at once, lie in different banks.
__device__ __forceinline__ int gradient_at(int pixel, int cell) {
    return (pixel * GRADIENT_CELLS + (cell ^ (pixel & 7))) * 8;
}
__device__ __forceinline__ int window_at(int pixel, int cell) {
    return (pixel * WINDOW_CELLS + (cell ^ (pixel & 7))) * 8;
}

// What a thread copies of dy: the same filters of every GRADIENT_ROWS-th pixel.
struct Gradients {
    index_t pixel, end;     // the next one, and where no more are
    int filter;             // the first one
};

__device__ __forceinline__ Gradients gradients_of(index_t first_pixel, index_t pixels, int group, int m_tile) {
    const int k = m_tile * TILE_M + threadIdx.x % GRADIENT_COLUMNS * GRADIENT_VECTOR;
    return {first_pixel + (int)threadIdx.x / GRADIENT_COLUMNS, pixels, group * K_GROUP + k};
}

__device__ __forceinline__ void copy_gradients(element* to, const element* dy, Gradients& gradients) {
    const int column = threadIdx.x % GRADIENT_COLUMNS;
#pragma unroll
    for (int i = 0; i < GRADIENT_COPIES; ++i) {
        const int row = threadIdx.x / GRADIENT_COLUMNS + i * GRADIENT_ROWS;
        const bool inside = gradients.pixel < gradients.end;
        const element* const from = dy + gradients.pixel * K + gradients.filter;
        gradients.pixel += GRADIENT_ROWS;
        element* const place = to + gradient_at(row, column * GRADIENT_VECTOR / 8);
        wc_copy_async_zfill_16(true, place, from, inside);
    }
}

// What a thread copies of x: the same channels of a tap, for every WINDOW_ROWS-th output pixel.
struct Windows {
    int image, z, p, q;         // the next one
    // added from one to the next; fewer planes than Z, rows than P, columns than Q
    int images, planes, rows, columns;
    int front, top, left;       // the tap of the first output
    int channel;                // the first one
};

__device__ __forceinline__ Windows windows_of(index_t first_pixel, int group, int n_tile, int Z, int P, int Q) {
    const index_t pixel = first_pixel + (int)threadIdx.x / WINDOW_COLUMNS, plane = (index_t)P * Q, volume = Z * plane;
    const index_t place = pixel % volume;
    const int column = n_tile * TILE_N + threadIdx.x % WINDOW_COLUMNS * WINDOW_VECTOR;
    const int tap = column / C_GROUP;
    return {(int)(pixel / volume), (int)(place / plane), (int)(place / Q % P), (int)(place % Q),
            (int)(WINDOW_ROWS / volume), (int)(WINDOW_ROWS % volume / plane), (int)(WINDOW_ROWS % plane) / Q,
                (int)(WINDOW_ROWS % plane) % Q,
            tap / (R * S) - PAD_FRONT, tap / S % R - PAD_TOP, tap % S - PAD_LEFT, group * C_GROUP + column % C_GROUP};
}

__device__ __forceinline__ void copy_windows(element* to, const element* x, Windows& windows, int N, int D, int H,
        int W, int Z, int P, int Q) {
    const int column = threadIdx.x % WINDOW_COLUMNS;
#pragma unroll
    for (int i = 0; i < WINDOW_COPIES; ++i) {
        const int row = threadIdx.x / WINDOW_COLUMNS + i * WINDOW_ROWS;
        const int d = windows.z + windows.front, h = windows.p + windows.top, v = windows.q + windows.left;
        const bool inside = windows.image < N && (unsigned)d < (unsigned)D && (unsigned)h < (unsigned)H
            && (unsigned)v < (unsigned)W;
        const element* const from = x + ((((index_t)windows.image * D + d) * H + h) * W + v) * C + windows.channel;
        windows.q += windows.columns;
        const int further_row = windows.q >= Q;
        windows.q -= further_row ? Q : 0;
        windows.p += windows.rows + further_row;
        const int further_plane = windows.p >= P;
        windows.p -= further_plane ? P : 0;
        windows.z += windows.planes + further_plane;
        const int further_image = windows.z >= Z;
        windows.z -= further_image ? Z : 0;
        windows.image += windows.images + further_image;
        element* const place = to + window_at(row, column * WINDOW_VECTOR / 8);
        wc_copy_async_zfill_16(true, place, from, inside);
    }
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_transposed_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A tile's products for a warp's sums. Lane l gives the address of a row, which is a pixel, of matrix l / 8 of four: of
// gradients filters change first, of windows pixels.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const element* gradients,
        const element* windows, int first_filter, int first_column, int lane) {
#pragma unroll
    for (int depth = 0; depth < TILE_P; depth += 16) {
        unsigned a[MATRICES_M][4], b[MATRICES_N][2];
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m)
            wc_load_matrices_transposed_4(a[m][0], a[m][1], a[m][2], a[m][3],
                                          gradients
                                              + gradient_at(depth + lane / 16 * 8 + lane % 8,
                                              first_filter / 8 + m * 2 + lane / 8 % 2));
#pragma unroll
        for (int n = 0; n < MATRICES_N; n += 2)
            wc_load_matrices_transposed_4(b[n][0], b[n][1], b[n + 1][0], b[n + 1][1],
                                          windows
                                              + window_at(depth + lane / 8 % 2 * 8 + lane % 8,
                                              first_column / 8 + n + lane / 16));
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n)
                wc_mma_halves_16(sums[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[n][0], b[n][1]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 5)
filter_gradient_mma_3x3x3(const element* __restrict__ x, const element* __restrict__ dy, float* __restrict__ parts,
        int N, int D, int H, int W, int Z, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    // this block's tile: blocks count tiles of columns first, then of filters, groups, then shares of the pixels
    const int n_tile = blockIdx.x % N_TILES, m_tile = blockIdx.x / N_TILES % M_TILES;
    const int group = 0, chunk = blockIdx.x / (N_TILES * M_TILES);
    const index_t pixels = (index_t)N * Z * P * Q;
    const long long all_steps = (pixels + TILE_P - 1) / TILE_P, first_step = all_steps * chunk / CHUNKS;
    const int steps = (int)(all_steps * (chunk + 1) / CHUNKS - first_step);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;

    Gradients gradients = gradients_of((index_t)first_step * TILE_P, pixels, group, m_tile);
    Windows windows = windows_of((index_t)first_step * TILE_P, group, n_tile, Z, P, Q);

    float4 sums[MATRICES_M][MATRICES_N] = {};
    // the first tiles on their way
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) {
            copy_gradients(shared + stage * STAGE, dy, gradients);
            copy_windows(shared + stage * STAGE + GRADIENTS, x, windows, N, D, H, W, Z, P, Q);
        }
        wc_copy_async_commit();
    }
    int to_multiply = 0, to_fill = STAGES - 1;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        // this tile has arrived, and every warp is done with the one whose memory is filled next
        wc_copy_async_wait_group();
        __syncthreads();
        if (step + STAGES - 1 < steps) {
            copy_gradients(shared + to_fill * STAGE, dy, gradients);
            copy_windows(shared + to_fill * STAGE + GRADIENTS, x, windows, N, D, H, W, Z, P, Q);
        }
        wc_copy_async_commit();
        multiply_tile(sums, shared + to_multiply * STAGE, shared + to_multiply * STAGE + GRADIENTS, warp_m, warp_n,
            lane);
        to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
        to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
    }

    // the sums of this share: filters x columns
    float* const to = parts + ((long long)chunk * K) * WINDOW;
    const int first_filter = m_tile * TILE_M + warp_m + lane / 4,
        first_column = n_tile * TILE_N + warp_n + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int filter = first_filter + m * 16 + half * 8;
            float* const row = to + (long long)filter * WINDOW;
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n) {
                const int column = first_column + n * 8;
                const float one = half ? sums[m][n].z : sums[m][n].x, two = half ? sums[m][n].w : sums[m][n].y;
                *(float2*)(row + column) = make_float2(one, two);
            }
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes chunks y, y + 2 and so on. A row
// of parts has the channels of a tap side by side, the gradient the taps of a channel: a block turns those of 8
// channels of a filter.
extern "C" __global__ void __launch_bounds__(432)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ dw) {
    __shared__ float sums[2][216];
    constexpr int TAPS = T * R * S, TILES = 8;          // of a filter's channels, 8 each
    const long long filter = (long long)(blockIdx.x / TILES) * WINDOW;
    const int first = blockIdx.x % TILES * 8;
    const int tap = threadIdx.x / 8, channel = threadIdx.x % 8;
    float sum = 0.0f;
    if (first + channel < C_GROUP) {
        const float* const from = parts + filter + tap * C_GROUP + first + channel;
#pragma unroll 4
        for (int chunk = threadIdx.y; chunk < CHUNKS; chunk += 2) sum += __ldg(from + chunk * ((long long)K * WINDOW));
    }
    sums[threadIdx.y][channel * TAPS + tap] = sum;
    __syncthreads();
    const int i = first * TAPS + threadIdx.x;       // of the filter's elements, as the gradient has them
    if (threadIdx.y == 0 && i < WINDOW) {
        float whole = sums[0][threadIdx.x];
#pragma unroll
        for (int y = 1; y < 2; ++y) whole += sums[y][threadIdx.x];
        dw[filter + i] = wc_float_to_half(whole);
    }
}
