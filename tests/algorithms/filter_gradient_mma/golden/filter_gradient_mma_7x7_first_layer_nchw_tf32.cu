// warpconv 0.1.0: filter_gradient_mma, float32. Generated from templates/filter_gradient_mma/kernel.cu.jinja; do not
//        edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 64,7,7 --stride 2,2 --padding 3 --precision tf32 \
//     --operation filter_gradient --arch sm_90 --algorithm filter_gradient_mma \
//     --set tile_m=64 --set tile_n=64 --set tile_p=32 --set warps_m=2 --set warps_n=2 --set stages=3 \
//     --set splits=8 --set joined=1 --set vector_m=4 --set vector_n=1 --set min_blocks=4
//
// layer  x[N, 3, H, W] * w[64, 3, 7, 7] -> y[N, 64, P, Q], stride 2, padding 3, float32, tf32 products; its filter
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   x and dy by way of NHWC: tiles of 64 filters x 64 taps of channels x 32 pixels rounded to TF32 on the tensor
//        cores, 2 x 2 warps, 3 stages, in 8 shares of the pixels, whose sums are added then
// cost   a warp's 32 filters x 32 columns x 32 pixels: 20 warp loads, 0 shuffles, 1024 FMA a lane, about 100 registers
//        (direct: 1024 loads)
//
// A product of matrices on the tensor cores: dy as filters x pixels by the windows as pixels x columns, a tap of a
// channel each, the channels of a tap side by side. A block makes a tile of filters x columns, TILE_P pixels at a time,
// from a share of the batch's pixels. Both operands lie in shared memory as in dy and x, the channels of a pixel side
// by side. Asynchronous copies fill a ring of STAGES tiles.
constexpr int C = 3;                            // channels of a pixel of x
constexpr int K = 64;                           // channels of a pixel of dy
constexpr int C_GROUP = 3;                      // channels of a group
constexpr int K_GROUP = 64;                     // filters of a group
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 3;                      // rows of zeros above the image
constexpr int PAD_LEFT = 3;                     // columns of zeros to the left of the image
constexpr int WINDOW = 147;                     // columns: a group's channels of all taps
constexpr int TILE_M = 64;                      // tile of a block: filters,
constexpr int TILE_N = 64;                      // columns,
constexpr int TILE_P = 32;                      // pixels at a time
constexpr int N_TILES = 3;                      // tiles of a group's columns
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
constexpr int GRADIENT_VECTOR = 4;              // filters of a copy,
constexpr int GRADIENT_COLUMNS = 16;            // copies of a pixel,
constexpr int GRADIENT_ROWS = 8;                // pixels that a block copies at once,
constexpr int GRADIENT_COPIES = 4;              // and copies of a thread into a tile
constexpr int GRADIENT_CELLS = 16;              // 16 bytes each: of a pixel in a tile
constexpr int WINDOW_COLUMNS = 64;              // copies of a pixel,
constexpr int WINDOW_ROWS = 2;                  // pixels that a block copies at once,
constexpr int WINDOW_COPIES = 16;               // and copies of a thread into a tile
constexpr int WINDOW_CELLS = 16;                // 16 bytes each: of a pixel in a tile
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Where a cell of a pixel lies in a tile. Cells change places from pixel to pixel, so that the two cells each of four
// pixels that are loaded at once lie in different banks.
__device__ __forceinline__ int gradient_at(int pixel, int cell) {
    return (pixel * GRADIENT_CELLS + (cell ^ (pixel << 1 & 6))) * 4;
}
__device__ __forceinline__ int window_at(int pixel, int cell) {
    return (pixel * WINDOW_CELLS + (cell ^ (pixel << 1 & 6))) * 4;
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
        element* const place = to + gradient_at(row, column * GRADIENT_VECTOR / 4);
        wc_copy_async_zfill_16(true, place, from, inside);
    }
}

// What a thread copies of x: the same channels of a tap, for every WINDOW_ROWS-th output pixel.
struct Windows {
    int image, p, q;            // the next one
    int images, rows, columns;  // added from one to the next; fewer rows than P, columns than Q
    int top, left;              // the tap of the output at the top left
    int channel;                // the first one
};

__device__ __forceinline__ Windows windows_of(index_t first_pixel, int group, int n_tile, int N, int P, int Q) {
    const index_t pixel = first_pixel + (int)threadIdx.x / WINDOW_COLUMNS, plane = (index_t)P * Q;
    const index_t place = pixel % plane;
    const int column = n_tile * TILE_N + threadIdx.x % WINDOW_COLUMNS;
    const int tap = column / C_GROUP;
    return {column < WINDOW ? (int)(pixel / plane) : N, (int)(place / Q), (int)(place % Q),
            (int)(WINDOW_ROWS / plane), (int)(WINDOW_ROWS % plane) / Q, (int)(WINDOW_ROWS % plane) % Q,
            tap / S - PAD_TOP, tap % S - PAD_LEFT, group * C_GROUP + column % C_GROUP};
}

__device__ __forceinline__ void copy_windows(element* to, const element* x, Windows& windows, int N, int H, int W,
        int P, int Q) {
    const int column = threadIdx.x % WINDOW_COLUMNS;
#pragma unroll
    for (int i = 0; i < WINDOW_COPIES; ++i) {
        const int row = threadIdx.x / WINDOW_COLUMNS + i * WINDOW_ROWS;
        const int h = windows.p * STRIDE_H + windows.top, v = windows.q * STRIDE_W + windows.left;
        const bool inside = windows.image < N && (unsigned)h < (unsigned)H && (unsigned)v < (unsigned)W;
        const element* const from = x + (((index_t)windows.image * H + h) * W + v) * C + windows.channel;
        windows.q += windows.columns;
        const int further_row = windows.q >= Q;
        windows.q -= further_row ? Q : 0;
        windows.p += windows.rows + further_row;
        const int further_image = windows.p >= P;
        windows.p -= further_image ? P : 0;
        windows.image += windows.images + further_image;
        element* const place = to + window_at(row, column / 4) + column % 4;
        wc_copy_async_zfill_4(true, place, from, inside);
    }
}

// tensor cores
__device__ __forceinline__ void wc_mma_tf32s_8(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A float of which the tensor cores, which read 11 of its 24 binary digits, take the nearest, ties away from zero: half
// of the last digit that they read is added, which is the float's sign and power of two times 2^-11. Infinities stay,
// NaN stays NaN, of subnormal floats digits are cut, and those within 2^116 of the largest become infinite.
__device__ __forceinline__ unsigned to_round(unsigned bits) {
    return __float_as_uint(fmaf(__uint_as_float(bits & 0xff800000u), 4.8828125e-4f, __uint_as_float(bits)));
}

// A warp's filter that is row lane / 4 (`half` 0) or lane / 4 + 8 (1) of matrix m: a lane has 4 side by side.
__device__ __forceinline__ int warp_filter(int m, int half, int lane) {
    return (2 * m + half) / 4 * 32 + lane / 4 * 4 + (2 * m + half) % 4;
}
// A warp's column that is column `own` of matrix n: the same ones of 4 matrices are neighbours.
__device__ __forceinline__ int warp_column(int n, int own) { return n / 4 * 32 + own * 4 + n % 4; }

__device__ __forceinline__ float sum_of(const float4& sums, int i) {
    return i == 0 ? sums.x : i == 1 ? sums.y : i == 2 ? sums.z : sums.w;
}

// What a warp multiplies at once, of eight pixels: a lane has two of them, lane % 4 and lane % 4 + 4, of its filters
// (a) and its columns (b), which are column lane / 4 of each matrix. Bits of floats.
struct Factors {
    unsigned a[MATRICES_M][4], b[MATRICES_N][2];
};

__device__ __forceinline__ void load_factors(Factors& factors, const element* gradients, const element* windows,
        int first_filter, int first_column, int first_pixel, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int pixel = first_pixel + lane % 4 + 4 * i;
#pragma unroll
        for (int m = 0; m < MATRICES_M; m += 2) {
            const uint4 filters = *(const uint4*)(gradients + gradient_at(pixel, first_filter / 4 + 4 * m + lane / 4));
            factors.a[m][2 * i] = filters.x, factors.a[m][2 * i + 1] = filters.y;
            factors.a[m + 1][2 * i] = filters.z, factors.a[m + 1][2 * i + 1] = filters.w;
        }
#pragma unroll
        for (int n = 0; n < MATRICES_N; n += 4) {
            const uint4 columns = *(const uint4*)(windows + window_at(pixel, first_column / 4 + 2 * n + lane / 4));
            factors.b[n][i] = columns.x, factors.b[n + 1][i] = columns.y;
            factors.b[n + 2][i] = columns.z, factors.b[n + 3][i] = columns.w;
        }
    }
}

__device__ __forceinline__ void multiply(float4 (&sums)[MATRICES_M][MATRICES_N], Factors& factors) {
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) factors.a[m][i] = to_round(factors.a[m][i]);
#pragma unroll
    for (int n = 0; n < MATRICES_N; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) factors.b[n][i] = to_round(factors.b[n][i]);
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
        for (int n = 0; n < MATRICES_N; ++n)
            wc_mma_tf32s_8(sums[m][n], factors.a[m][0], factors.a[m][1], factors.a[m][2], factors.a[m][3],
                factors.b[n][0], factors.b[n][1]);
}

// A tile's products for a warp's sums. The next eight pixels' factors are on their way while these are multiplied.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const element* gradients,
        const element* windows, int first_filter, int first_column, int lane) {
    Factors factors[2];
    load_factors(factors[0], gradients, windows, first_filter, first_column, 0, lane);
#pragma unroll
    for (int depth = 0; depth < TILE_P; depth += 8) {
        if (depth + 8 < TILE_P) load_factors(factors[(depth / 8 + 1) % 2], gradients, windows, first_filter,
            first_column, depth + 8, lane);
        multiply(sums, factors[depth / 8 % 2]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
filter_gradient_mma_7x7(const element* __restrict__ x, const element* __restrict__ dy, float* __restrict__ parts, int N,
        int H, int W, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    // this block's tile: blocks count tiles of columns first, then of filters, groups, then shares of the pixels
    const int n_tile = blockIdx.x % N_TILES, m_tile = 0;
    const int group = 0, chunk = blockIdx.x / N_TILES;
    const index_t pixels = (index_t)N * P * Q;
    const long long all_steps = (pixels + TILE_P - 1) / TILE_P, first_step = all_steps * chunk / CHUNKS;
    const int steps = (int)(all_steps * (chunk + 1) / CHUNKS - first_step);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;

    Gradients gradients = gradients_of((index_t)first_step * TILE_P, pixels, group, m_tile);
    Windows windows = windows_of((index_t)first_step * TILE_P, group, n_tile, N, P, Q);

    float4 sums[MATRICES_M][MATRICES_N] = {};
    // the first tiles on their way
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) {
            copy_gradients(shared + stage * STAGE, dy, gradients);
            copy_windows(shared + stage * STAGE + GRADIENTS, x, windows, N, H, W, P, Q);
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
            copy_windows(shared + to_fill * STAGE + GRADIENTS, x, windows, N, H, W, P, Q);
        }
        wc_copy_async_commit();
        multiply_tile(sums, shared + to_multiply * STAGE, shared + to_multiply * STAGE + GRADIENTS, warp_m, warp_n,
            lane);
        to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
        to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
    }

    // the sums of this share: filters x columns
    float* const to = parts + ((long long)chunk * K) * WINDOW;
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int filter = warp_m + warp_filter(m, half, lane);
            float* const row = to + (long long)filter * WINDOW;
#pragma unroll
            for (int n = 0; n < MATRICES_N; n += 1) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int column = n_tile * TILE_N + warp_n + warp_column(n, lane % 4 * 2 + i);
                    if (column < WINDOW) *(row + column) = sum_of(sums[m][n], 2 * half + i);
                }
            }
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes chunks y, y + 2 and so on. A row
// of parts has the channels of a tap side by side, the gradient the taps of a channel: a block turns those of 2
// channels of a filter.
extern "C" __global__ void __launch_bounds__(196)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[2][98];
    constexpr int TAPS = R * S, TILES = 2;          // of a filter's channels, 2 each
    const long long filter = (long long)(blockIdx.x / TILES) * WINDOW;
    const int first = blockIdx.x % TILES * 2;
    const int tap = threadIdx.x / 2, channel = threadIdx.x % 2;
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
        dw[filter + i] = whole;
    }
}

// x in NHWC: 256 pixels, which follow each other through the batch, with all their channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
x_to_nhwc(const element* __restrict__ x, element* __restrict__ x_nhwc, int N, int H, int W) {
    constexpr int CHANNELS = 3, TILE = 256, PITCH = 3;
    __shared__ element tile[TILE * PITCH];
    const unsigned plane = (unsigned)H * W, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
    if (pixel < pixels) {
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) tile[threadIdx.x * PITCH + channel] =
            x[at + channel * plane];
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < TILE * CHANNELS; i += TILE)
        if (first_pixel + i / CHANNELS < pixels) x_nhwc[first_pixel * CHANNELS + i] =
            tile[i / CHANNELS * PITCH + i % CHANNELS];
}

// dy in NHWC: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dy_to_nhwc(const element* __restrict__ dy, element* __restrict__ dy_nhwc, int N, int P, int Q) {
    constexpr int CHANNELS = 64, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 1];        // channels x pixels
    const unsigned plane = (unsigned)P * Q, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int line = threadIdx.y + i * 4;
            if (first_channel + line < CHANNELS && pixel < pixels) tile[line][threadIdx.x] =
                dy[at + (first_channel + line) * plane];
        }
        __syncthreads();
        const int channel = first_channel + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int line = threadIdx.y + i * 4;
            if (channel < CHANNELS && first_pixel + line < pixels) dy_nhwc[(first_pixel + line) * CHANNELS + channel] =
                tile[threadIdx.x][line];
        }
        __syncthreads();
    }
}
