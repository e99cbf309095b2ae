// warpconv 0.1.0: phases_mma, float32. Generated from templates/phases_mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,D,H,W --filter 128,2,2,2 --stride 2,2,2 --precision tf32x3 \
//     --operation data_gradient --epilogue bias --index-bits 32 --arch sm_90 --algorithm phases_mma \
//     --set tile_m=64 --set tile_n=64 --set tile_k=32 --set warps_m=2 --set warps_n=2 --set stages=3 \
//     --set min_blocks=2
//
// layer  x[N, 64, D, H, W] * w[128, 64, 2, 2, 2] -> y[N, 128, Z, P, Q], stride 2, padding 0, float32, tf32x3 products;
//        its data gradient, then bias
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   dy and dx by way of NHWC: tiles of 64 pixels of a phase x 64 channels x 32 products in two parts of TF32 on
//        the tensor cores, 2 x 2 warps, 3 stages
// cost   a warp's 32 pixels x 32 channels x 32 products: 8 warp loads, 0 shuffles, 1024 FMA a lane, about 171 registers
//        (direct: 1024 loads)
//
// Pixels STRIDE_D * d + plane, STRIDE_H * i + row, STRIDE_W * j + column of the input make up a phase: they meet the
// same taps, at outputs next to each other. A block makes pixels of one phase times channels as a product of matrices
// on the tensor cores, over the phase's taps and the filters, TILE_K products at a time; pixels of a phase without taps
// are zero. Output gradients are gathered from dy as they lie there, the filters of a pixel side by side; an entry
// before it leaves the filter in that order. Asynchronous copies fill a ring of STAGES tiles in shared memory.
constexpr int C = 64;                           // channels of a pixel of dx
constexpr int K = 128;                          // channels of a pixel of dy
constexpr int C_GROUP = 64;                     // channels of a group
constexpr int K_GROUP = 128;                    // filters of a group
constexpr int T = 2;                            // filter planes
constexpr int R = 2;                            // filter rows
constexpr int S = 2;                            // filter columns
constexpr int STRIDE_D = 2;                     // input planes from one output to the next
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
constexpr int CELLS = 8;                        // cells of 16 bytes in a row of a tile
constexpr int VECTOR = 4;                       // filters of a copy
constexpr int TAP_CHUNKS = 32;                  // copies of a tap
constexpr int COPY_COLUMNS = 8;                 // copies of a row that a block makes at once,
constexpr int COPY_ROWS = 16;                   // rows that it copies at once
constexpr int PIXEL_COPIES = 4;                 // copies of a thread into a tile of pixels,
constexpr int FILTER_COPIES = 4;                // and into one of filters
constexpr int TURN_TILE = 32;                   // filters, and taps of channels, that a block puts in order
constexpr int TURN_ROWS = 8;                    // rows of its threads
constexpr int FILTER_TILES = 4;                 // such tiles of a group's filters,
constexpr int WINDOW_TILES = 16;                // and of the taps of its channels
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// A phase: its first pixel, how many planes, rows and columns of taps it meets, the output where that pixel meets the
// first of them, and how many taps the phases before it have.
struct Phase {
    int plane, row, column, tap_planes, tap_rows, tap_columns, front, up, left, first_tap;
};
__device__ const Phase PHASES[8] = {
    {0, 0, 0, 1, 1, 1, 0, 0, 0, 0},
    {0, 0, 1, 1, 1, 1, 0, 0, 0, 1},
    {0, 1, 0, 1, 1, 1, 0, 0, 0, 2},
    {0, 1, 1, 1, 1, 1, 0, 0, 0, 3},
    {1, 0, 0, 1, 1, 1, 0, 0, 0, 4},
    {1, 0, 1, 1, 1, 1, 0, 0, 0, 5},
    {1, 1, 0, 1, 1, 1, 0, 0, 0, 6},
    {1, 1, 1, 1, 1, 1, 0, 0, 0, 7}
};

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Where a cell of a row lies in a tile. Cells change places from row to row, so that the eight rows of a matrix, which
// are loaded at once, lie in different banks.
__device__ __forceinline__ int cell_at(int row, int cell) { return (row * CELLS + (cell ^ (row & 7))) * 4; }

// What the pixels that a thread copies meet with the first tap, COPY_ROWS apart; those beyond the last pixel are the
// last pixel's.
struct Windows {
    int front[PIXEL_COPIES];
    int top[PIXEL_COPIES], left[PIXEL_COPIES];      // the output
    index_t from[PIXEL_COPIES];                     // where it lies, in its group's first filter
};

__device__ __forceinline__ Windows windows_of(const Phase& phase, index_t first_pixel, index_t pixels, index_t places,
        int rows, int columns, int group, int Z, int P, int Q) {
    Windows windows;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const index_t wanted = first_pixel + (int)threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const index_t pixel = wanted < pixels ? wanted : pixels - 1;
        const index_t image = pixel / places;
        const index_t place = pixel % places;
        windows.front[i] = (int)(place / columns / rows) + phase.front;
        windows.top[i] = (int)(place / columns % rows) + phase.up;
        windows.left[i] = (int)(place % columns) + phase.left;
        windows.from[i] = (((image * Z + windows.front[i]) * P + windows.top[i]) * Q + windows.left[i]) * K
            + group * K_GROUP;
    }
    return windows;
}

// A tile of pixels: a thread copies the same VECTOR filters of a tap for all its pixels.
__device__ __forceinline__ void copy_pixels(element* to, const element* dy, const Windows& windows, const Phase& phase,
        int chunk, int chunks, int column, int Z, int P, int Q) {
    const int tap = chunk / TAP_CHUNKS, forward = chunk < chunks ? tap / phase.tap_columns / phase.tap_rows : 0;
    const int up = chunk < chunks ? tap / phase.tap_columns % phase.tap_rows : 0,
        across = chunk < chunks ? tap % phase.tap_columns : 0;
    const index_t further = chunk % TAP_CHUNKS * VECTOR - (((index_t)forward * P + up) * Q + across) * K;
#pragma unroll
    for (int i = 0; i < PIXEL_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS;
        const int z = windows.front[i] - forward, p = windows.top[i] - up, q = windows.left[i] - across;
        wc_copy_async_zfill_16(true, to + cell_at(row, column * VECTOR / 4), dy + windows.from[i] + further,
                               chunk < chunks && (unsigned)z < (unsigned)Z && (unsigned)p < (unsigned)P
                                   && (unsigned)q < (unsigned)Q);
    }
}

// A tile of filters: rows are channels, products as those of pixels.
__device__ __forceinline__ void copy_filters(element* to, const element* filters, int group, int first_channel,
        int chunk, int chunks, int column) {
#pragma unroll
    for (int i = 0; i < FILTER_COPIES; ++i) {
        const int row = threadIdx.x / COPY_COLUMNS + i * COPY_ROWS, c = first_channel + row;
        wc_copy_async_zfill_16(row < TILE_N, to + cell_at(row, column * VECTOR / 4),
                               filters + ((index_t)(group * C_GROUP + c) * chunks + chunk) * VECTOR,
                                   chunk < chunks && c < C_GROUP);
    }
}

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_tf32s_8(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A float rounded to TF32, which keeps 11 of its 24 binary digits; ties away from zero. NaN may become zero.
__device__ __forceinline__ unsigned rounded(unsigned bits) { return (bits + 0x1000u) & 0xffffe000u; }

// Splits a factor times 2^24 into two parts of TF32: the high one takes its place, the low one is returned. The scale
// keeps the low digits of subnormal floats, 13 of which TF32 does not have. Of a factor that is not finite, or too
// large for the scale, the low part is not finite, and neither are its sums.
__device__ __forceinline__ unsigned low_part(unsigned& factor) {
    const float whole = __uint_as_float(factor) * 16777216.0f;
    factor = rounded(__float_as_uint(whole));
    return __float_as_uint(whole - __uint_as_float(factor));
}

// A tile's products for a warp's sums, pixels times channels. Lane l gives the address of a row of matrix l / 8 of
// four: two cells each of 16 rows, two each of 16 columns. Tensor cores cut digits off their sums instead of rounding,
// so each instruction begins at zero, and its sums are added to the others here.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const element* rows,
        const element* columns, int first_row, int first_column, int lane) {
#pragma unroll 1      // with several at once ptxas runs out of registers
    for (int k = 0; k < TILE_K / 8; ++k) {
        unsigned b[MATRICES_N][2], b_low[MATRICES_N][2];
#pragma unroll
        for (int n = 0; n < MATRICES_N; n += 2)
            wc_load_matrices_4(b[n][0], b[n][1], b[n + 1][0], b[n + 1][1],
                               columns
                                   + cell_at(first_column + n * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
        for (int n = 0; n < MATRICES_N; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) b_low[n][i] = low_part(b[n][i]);
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
            unsigned a[4], a_low[4];
            wc_load_matrices_4(a[0], a[1], a[2], a[3],
                rows + cell_at(first_row + m * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
            for (int i = 0; i < 4; ++i) a_low[i] = low_part(a[i]);
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n) {
                float4 small = {}, large = {};
                wc_mma_tf32s_8(small, a_low[0], a_low[1], a_low[2], a_low[3], b[n][0], b[n][1]);
                wc_mma_tf32s_8(small, a[0], a[1], a[2], a[3], b_low[n][0], b_low[n][1]);
                wc_mma_tf32s_8(large, a[0], a[1], a[2], a[3], b[n][0], b[n][1]);
                sums[m][n].x += small.x + large.x;
                sums[m][n].y += small.y + large.y;
                sums[m][n].z += small.z + large.z;
                sums[m][n].w += small.w + large.w;
            }
        }
    }
}

__device__ __forceinline__ bool is_finite(float sum) { return fabsf(sum) <= 3.402823466e38f; }

// Zero, or NaN where one of four sums is not finite.
__device__ __forceinline__ float zero_of(float4 sums) {
    return fmaf(sums.x, 0.0f, sums.y * 0.0f) + fmaf(sums.z, 0.0f, sums.w * 0.0f);
}

// The blocks of a warp's sums in which some are not finite, a bit each.
__device__ __forceinline__ unsigned blocks_to_mend(const float4 (&sums)[MATRICES_M][MATRICES_N]) {
    float zero = 0.0f, other = 0.0f;            // NaN stays NaN
#pragma unroll
    for (int block = 0; block < MATRICES_M * MATRICES_N; ++block) {
        const float4 four = sums[block / MATRICES_N][block % MATRICES_N];
        zero = fmaf(four.x, 0.0f, fmaf(four.y, 0.0f, zero));
        other = fmaf(four.z, 0.0f, fmaf(four.w, 0.0f, other));
    }
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, zero + other == 0.0f)) return blocks;
#pragma unroll
    for (int block = 0; block < MATRICES_M * MATRICES_N; ++block)
        blocks |= (unsigned)__any_sync(0xffffffffu,
            zero_of(sums[block / MATRICES_N][block % MATRICES_N]) != 0.0f) << block;
    return blocks;
}

// A lane's sums of a block. Registers have no index: every block is asked whether it is wanted.
__device__ __forceinline__ float4 sums_of(const float4 (&sums)[MATRICES_M][MATRICES_N], int wanted) {
    float4 found = {};
#pragma unroll
    for (int block = 0; block < MATRICES_M * MATRICES_N; ++block)
        if (block == wanted) found = sums[block / MATRICES_N][block % MATRICES_N];
    return found;
}

__device__ __forceinline__ void set_sums(float4 (&sums)[MATRICES_M][MATRICES_N], int wanted, float4 to) {
#pragma unroll
    for (int block = 0; block < MATRICES_M * MATRICES_N; ++block)
        if (block == wanted) sums[block / MATRICES_N][block % MATRICES_N] = to;
}

// Sums that are finite, and in place of the others those that were made anew.
__device__ __forceinline__ float4 mended(float4 sums, float4 anew) {
    return make_float4(is_finite(sums.x) ? sums.x : anew.x, is_finite(sums.y) ? sums.y : anew.y,
                       is_finite(sums.z) ? sums.z : anew.z, is_finite(sums.w) ? sums.w : anew.w);
}

// Whether nothing more can come of a warp's sums: NaN stays NaN.
__device__ __forceinline__ bool are_settled(float4 sums, float4 anew) {
    const bool upper = (is_finite(sums.x) || anew.x != anew.x) && (is_finite(sums.y) || anew.y != anew.y);
    const bool lower = (is_finite(sums.z) || anew.z != anew.z) && (is_finite(sums.w) || anew.w != anew.w);
    return __all_sync(0xffffffffu, upper && lower);
}

// The sums of rows and columns that exist; zeros for the others, so that they ask for nothing.
__device__ __forceinline__ float4 existing(float4 sums, bool upper, bool lower, bool first, bool second) {
    return make_float4(upper && first ? sums.x : 0.0f, upper && second ? sums.y : 0.0f, lower && first ? sums.z : 0.0f,
        lower && second ? sums.w : 0.0f);
}

// The products of two rows' factors with two columns'.
__device__ __forceinline__ void add_products(float4& sums, float upper, float lower, float first, float second) {
    sums.x = fmaf(first, upper, sums.x);
    sums.y = fmaf(second, upper, sums.y);
    sums.z = fmaf(first, lower, sums.z);
    sums.w = fmaf(second, lower, sums.w);
}

// The output that a pixel meets with its phase's first tap; of a pixel that does not exist any.
struct Corner {
    index_t image;
    int behind, bottom, right;
};

__device__ __forceinline__ Corner corner_of(index_t pixel, index_t pixels, index_t places, int rows, int columns,
        const Phase& phase) {
    const index_t clamped = min(pixel, pixels - 1);
    const index_t place = clamped % places;
    return {clamped / places, (int)(place / columns / rows) + phase.front, (int)(place / columns % rows) + phase.up,
        (int)(place % columns) + phase.left};
}

// The first filter of the output that a pixel meets with a tap; null beside the outputs.
__device__ __forceinline__ const element* output_of(const element* dy, Corner corner, const Phase& phase, int tap,
        int group, int Z, int P, int Q) {
    const int z = corner.behind - tap / phase.tap_columns / phase.tap_rows,
        p = corner.bottom - tap / phase.tap_columns % phase.tap_rows, q = corner.right - tap % phase.tap_columns;
    return (unsigned)z < (unsigned)Z && (unsigned)p < (unsigned)P && (unsigned)q < (unsigned)Q
        ? dy + (((corner.image * Z + z) * P + p) * Q + q) * K + group * K_GROUP : nullptr;
}

// Sums of two pixels and two channels, rows of the turned filter, by float32 units: of those that are not finite; the
// others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* dy, const element* row,
        const element* other_row, Corner corner, Corner other_corner, const Phase& phase, int group, int Z, int P,
        int Q) {
    float4 anew = {};
#pragma unroll 1
    for (int tap = 0; tap < phase.tap_planes * phase.tap_rows * phase.tap_columns; ++tap) {
        const element* const output = output_of(dy, corner, phase, tap, group, Z, P, Q);
        const element* const other_output = output_of(dy, other_corner, phase, tap, group, Z, P, Q);
#pragma unroll 1
        for (int filter = 0; filter < K_GROUP; ++filter) {
            const int product = tap * K_GROUP + filter;
            add_products(anew, output ? __ldg(output + filter) : 0.0f,
                other_output ? __ldg(other_output + filter) : 0.0f, row[product], other_row[product]);
        }
        if (are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// Where a tap's products are: taps of the phases before its own, taps of that, and which of them it is.
struct Place {
    int before, taps, index;
};
__device__ const Place PLACES[8] = {
    {0, 1, 0},
    {1, 1, 0},
    {2, 1, 0},
    {3, 1, 0},
    {4, 1, 0},
    {5, 1, 0},
    {6, 1, 0},
    {7, 1, 0}
};

// The filter w[k][c][r][s] as [phase][c][tap of the phase][k]: tiles of filters x (channel, tap) through shared memory.
extern "C" __global__ void __launch_bounds__(256)
turn_filter(const element* __restrict__ w, element* __restrict__ turned) {
    __shared__ element tile[TURN_TILE][TURN_TILE + 1];
    constexpr int WINDOW = C_GROUP * T * R * S;     // of a filter
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
            const Place place = PLACES[at % (T * R * S)];
            const int c = group * C_GROUP + at / (T * R * S);
            turned[((index_t)place.before * C + (index_t)c * place.taps + place.index) * K_GROUP + k] =
                tile[threadIdx.x][i];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
phases_mma_2x2x2(const float* __restrict__ dy, float* __restrict__ turned, const float* __restrict__ bias,
        float* __restrict__ dx, int N, int D, int H, int W, int Z, int P, int Q) {
    extern __shared__ __align__(128) element shared[];
    const Phase phase = PHASES[blockIdx.y];
    const int planes = (D - phase.plane + STRIDE_D - 1) / STRIDE_D;
    const int rows = (H - phase.row + STRIDE_H - 1) / STRIDE_H, columns = (W - phase.column + STRIDE_W - 1) / STRIDE_W;
    const index_t places = (index_t)planes * rows * columns, pixels = N * places;        // of an image, of all
    const int chunks = phase.tap_planes * phase.tap_rows * phase.tap_columns * TAP_CHUNKS,
        steps = (chunks + COPY_COLUMNS - 1) / COPY_COLUMNS;
    const element* const filters = turned + (index_t)phase.first_tap * C * K_GROUP;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
    const int column = threadIdx.x % COPY_COLUMNS;      // of products: what this thread copies of its rows

    // tiles: those of channels first, then of groups, then of pixels
    for (index_t tile = blockIdx.x; tile * TILE_M < pixels; tile += gridDim.x) {
        const int first_channel = 0, group = 0;
        const index_t first_pixel = tile * TILE_M;
        const Windows windows = windows_of(phase, first_pixel, pixels, places, rows, columns, group, Z, P, Q);

        float4 sums[MATRICES_M][MATRICES_N] = {};
        __syncthreads();        // every warp is done with the tile before
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            if (stage < steps) {
                copy_pixels(shared + stage * STAGE, dy, windows, phase, stage * COPY_COLUMNS + column, chunks, column,
                    Z, P, Q);
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
                    Z, P, Q);
                copy_filters(shared + to_fill * STAGE + TILE_M * TILE_K, filters, group, first_channel,
                    next * COPY_COLUMNS + column, chunks, column);
            }
            wc_copy_async_commit();
            multiply_tile(sums, shared + to_multiply * STAGE, shared + to_multiply * STAGE + TILE_M * TILE_K, warp_m,
                warp_n, lane);
            to_multiply = to_multiply + 1 < STAGES ? to_multiply + 1 : 0;
            to_fill = to_fill + 1 < STAGES ? to_fill + 1 : 0;
        }
        // both factors' scale taken back: times 2^-48
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
            for (int n = 0; n < MATRICES_N; ++n) {
                float4& sum = sums[m][n];
                sum =
                    make_float4(sum.x * 3.5527136788005009e-15f, sum.y * 3.5527136788005009e-15f,
                    sum.z * 3.5527136788005009e-15f, sum.w * 3.5527136788005009e-15f);
            }

        // infinities, NaN, and factors too large for their scale: float32 units make such sums anew
#pragma unroll 1
        for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
            const int block = __ffs(blocks) - 1;
            const index_t pixel = first_pixel + warp_m + block / MATRICES_N * 16 + lane / 4, other_pixel = pixel + 8;
            const int c = warp_n + block % MATRICES_N * 8 + lane % 4 * 2;
            const float4 wanted =
                existing(sums_of(sums, block), pixel < pixels, other_pixel < pixels, c < C_GROUP, c + 1 < C_GROUP);
            const element* const row = filters + (index_t)min(c, C_GROUP - 1) * chunks * VECTOR;
            const element* const other_row = filters + (index_t)min(c + 1, C_GROUP - 1) * chunks * VECTOR;
            set_sums(sums, block,
                made_anew(wanted, dy, row, other_row, corner_of(pixel, pixels, places, rows, columns, phase),
                corner_of(other_pixel, pixels, places, rows, columns, phase), phase, group, Z, P, Q));
        }

        // the sums to the phase's pixels
        const int lane_channel = warp_n + lane % 4 * 2;
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const index_t pixel = first_pixel + warp_m + m * 16 + half * 8 + lane / 4, image = pixel / places;
                const index_t place = pixel % places;
                const int d = (int)(place / columns / rows) * STRIDE_D + phase.plane,
                    h = (int)(place / columns % rows) * STRIDE_H + phase.row,
                    v = (int)(place % columns) * STRIDE_W + phase.column;
                element* const to = dx + (((image * D + d) * H + h) * W + v) * C;
                if (pixel >= pixels) break;
#pragma unroll
                for (int n = 0; n < MATRICES_N; ++n) {
                    const int c = lane_channel + n * 8;
                    const float bias_0 = c < C_GROUP ? __ldg(bias + c) : 0.0f,
                        bias_1 = c + 1 < C_GROUP ? __ldg(bias + c + 1) : 0.0f;
                    *(float2*)(to + c) =
                        make_float2(finish((half ? sums[m][n].z : sums[m][n].x), bias_0),
                        finish((half ? sums[m][n].w : sums[m][n].y), bias_1));
                }
            }
        }
    }
}

// dy in NHWC: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dy_to_nhwc(const element* __restrict__ dy, element* __restrict__ dy_nhwc, int N, int Z, int P, int Q) {
    constexpr int CHANNELS = 128, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 1];        // channels x pixels
    const unsigned plane = (unsigned)Z * P * Q, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
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

// dx back to NCHW: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dx_to_nchw(const element* __restrict__ dx_nhwc, element* __restrict__ dx, int N, int D, int H, int W) {
    constexpr int CHANNELS = 64, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 1];        // channels x pixels
    const unsigned plane = (unsigned)D * H * W, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        const int channel = first_channel + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int line = threadIdx.y + i * 4;
            if (channel < CHANNELS && first_pixel + line < pixels) tile[threadIdx.x][line] =
                dx_nhwc[(first_pixel + line) * CHANNELS + channel];
        }
        __syncthreads();
        const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int line = threadIdx.y + i * 4;
            if (first_channel + line < CHANNELS && pixel < pixels) dx[at + (first_channel + line) * plane] =
                tile[line][threadIdx.x];
        }
        __syncthreads();
    }
}
