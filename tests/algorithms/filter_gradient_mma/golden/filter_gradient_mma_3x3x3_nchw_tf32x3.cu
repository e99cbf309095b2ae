// warpconv 0.1.0: filter_gradient_mma, float32. Generated from templates/filter_gradient_mma/kernel.cu.jinja; do not
//        edit.
// Emit it again with
//   warpconv emit --input N,64,D,H,W --filter 128,3,3,3 --padding 1 --precision tf32x3 \
//     --operation filter_gradient --index-bits 32 --arch sm_90 --algorithm filter_gradient_mma \
//     --set tile_m=64 --set tile_n=64 --set tile_p=32 --set warps_m=2 --set warps_n=2 --set stages=3 \
//     --set splits=8 --set joined=1 --set vector_m=4 --set vector_n=4 --set min_blocks=3
//
// layer  x[N, 64, D, H, W] * w[128, 64, 3, 3, 3] -> y[N, 128, Z, P, Q], stride 1, padding 1, float32, tf32x3 products;
//        its filter gradient
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   x and dy by way of NHWC: tiles of 64 filters x 64 taps of channels x 32 pixels in two parts of TF32 on the
//        tensor cores, 2 x 2 warps, 3 stages, in 8 shares of the pixels, whose sums are added then
// cost   a warp's 32 filters x 32 columns x 32 pixels: 8 warp loads, 0 shuffles, 1024 FMA a lane, about 135 registers
//        (direct: 1024 loads)
//
// A product of matrices on the tensor cores: dy as filters x pixels by the windows as pixels x columns, a tap of a
// channel each, the channels of a tap side by side. A block makes a tile of filters x columns, TILE_P pixels at a time,
// from a share of the batch's pixels. Both operands lie in shared memory as in dy and x, the channels of a pixel side
// by side. Asynchronous copies fill a ring of STAGES tiles.
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
constexpr int GRADIENT_VECTOR = 4;              // filters of a copy,
constexpr int GRADIENT_COLUMNS = 16;            // copies of a pixel,
constexpr int GRADIENT_ROWS = 8;                // pixels that a block copies at once,
constexpr int GRADIENT_COPIES = 4;              // and copies of a thread into a tile
constexpr int GRADIENT_CELLS = 16;              // 16 bytes each: of a pixel in a tile
constexpr int WINDOW_VECTOR = 4;                // the same of windows: channels of a copy,
constexpr int WINDOW_COLUMNS = 16;              // copies of a pixel,
constexpr int WINDOW_ROWS = 8;                  // pixels that a block copies at once,
constexpr int WINDOW_COPIES = 4;                // and copies of a thread into a tile
constexpr int WINDOW_CELLS = 16;                // 16 bytes each: of a pixel in a tile
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// asynchronous copies
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
        element* const place = to + window_at(row, column * WINDOW_VECTOR / 4);
        wc_copy_async_zfill_16(true, place, from, inside);
    }
}

// tensor cores
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

// Tensor cores cut digits off their sums instead of rounding, so each instruction begins at zero, and its sums are
// added to the others here.
__device__ __forceinline__ void multiply(float4 (&sums)[MATRICES_M][MATRICES_N], Factors& factors) {
    unsigned (&b)[MATRICES_N][2] = factors.b, b_low[MATRICES_N][2];
#pragma unroll
    for (int n = 0; n < MATRICES_N; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) b_low[n][i] = low_part(b[n][i]);
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m) {
        unsigned (&a)[4] = factors.a[m], a_low[4];
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

// A tile's products for a warp's sums.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const element* gradients,
        const element* windows, int first_filter, int first_column, int lane) {
#pragma unroll 1      // with several at once ptxas runs out of registers
    for (int depth = 0; depth < TILE_P; depth += 8) {
        Factors factors;
        load_factors(factors, gradients, windows, first_filter, first_column, depth, lane);
        multiply(sums, factors);
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

// What a column of the sums takes of an output's window: a channel, and a tap's pixel.
struct Column {
    int channel, front, top, left;
};

__device__ __forceinline__ Column column_of(int column, int group) {
    const int tap = column / C_GROUP;
    return {group * C_GROUP + column % C_GROUP, tap / (R * S) - PAD_FRONT, tap / S % R - PAD_TOP, tap % S - PAD_LEFT};
}

__device__ __forceinline__ float pixel_of(const element* x, Column column, index_t image, int z, int p, int q, int D,
        int H, int W) {
    const int d = z + column.front, h = p + column.top, w = q + column.left;
    return (unsigned)d < (unsigned)D && (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W
        ? __ldg(x + (((image * D + d) * H + h) * W + w) * C + column.channel) : 0.0f;
}

// Sums of two filters and two columns over the outputs from `first` to `end` by float32 units: of those that are not
// finite; the others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* dy, int filter,
        int other_filter, Column column, Column other_column, index_t first, index_t end, int D, int H, int W, int Z,
        int P, int Q) {
    const index_t volume = (index_t)Z * P * Q;
    float4 anew = {};
#pragma unroll 1
    for (index_t chunk = first; chunk < end; chunk += 32) {
        const index_t last = min(chunk + 32, end);
#pragma unroll 4
        for (index_t output = chunk; output < last; ++output) {
            const index_t place = output % volume;
            const int z = (int)(place / Q / P), p = (int)(place / Q % P), q = (int)(place % Q);
            add_products(anew, __ldg(dy + output * K + filter), __ldg(dy + output * K + other_filter),
                pixel_of(x, column, output / volume, z, p, q, D, H, W),
                pixel_of(x, other_column, output / volume, z, p, q, D, H, W));
        }
        if (are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
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
    const index_t first_output = (index_t)first_step * TILE_P;
#pragma unroll 1
    for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
        const int block = __ffs(blocks) - 1, m = block / MATRICES_N, n = block % MATRICES_N;
        const int filter = m_tile * TILE_M + warp_m + warp_filter(m, 0, lane),
            other_filter = m_tile * TILE_M + warp_m + warp_filter(m, 1, lane);
        const int column = n_tile * TILE_N + warp_n + warp_column(n, lane % 4 * 2),
            other_column = n_tile * TILE_N + warp_n + warp_column(n, lane % 4 * 2 + 1);
        const float4 wanted =
            existing(sums_of(sums, block), filter < K_GROUP, other_filter < K_GROUP, column < WINDOW,
            other_column < WINDOW);
        set_sums(sums, block,
            made_anew(wanted, x, dy, min(filter, K_GROUP - 1), min(other_filter, K_GROUP - 1),
            column_of(min(column, WINDOW - 1), group), column_of(min(other_column, WINDOW - 1), group), first_output,
            min(first_output + (index_t)steps * TILE_P, pixels), D, H, W, Z, P, Q));
    }

    // the sums of this share: filters x columns
    float* const to = parts + ((long long)chunk * K) * WINDOW;
#pragma unroll
    for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int filter = m_tile * TILE_M + warp_m + warp_filter(m, half, lane);
            float* const row = to + (long long)filter * WINDOW;
#pragma unroll
            for (int n = 0; n < MATRICES_N; n += 4) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int column = n_tile * TILE_N + warp_n + warp_column(n, lane % 4 * 2 + i);
                    *(float4*)(row + column) =
                        make_float4(sum_of(sums[m][n], 2 * half + i), sum_of(sums[m][n + 1], 2 * half + i),
                        sum_of(sums[m][n + 2], 2 * half + i), sum_of(sums[m][n + 3], 2 * half + i));
                }
            }
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes chunks y, y + 2 and so on. A row
// of parts has the channels of a tap side by side, the gradient the taps of a channel: a block turns those of 8
// channels of a filter.
extern "C" __global__ void __launch_bounds__(432)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
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
        dw[filter + i] = whole;
    }
}

// x in NHWC: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
x_to_nhwc(const element* __restrict__ x, element* __restrict__ x_nhwc, int N, int D, int H, int W) {
    constexpr int CHANNELS = 64, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 1];        // channels x pixels
    const unsigned plane = (unsigned)D * H * W, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int line = threadIdx.y + i * 4;
            if (first_channel + line < CHANNELS && pixel < pixels) tile[line][threadIdx.x] =
                x[at + (first_channel + line) * plane];
        }
        __syncthreads();
        const int channel = first_channel + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int line = threadIdx.y + i * 4;
            if (channel < CHANNELS && first_pixel + line < pixels) x_nhwc[(first_pixel + line) * CHANNELS + channel] =
                tile[threadIdx.x][line];
        }
        __syncthreads();
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
