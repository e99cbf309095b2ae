// warpconv 0.1.0: filter_gradient, float16. Generated from templates/filter_gradient/taps_nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --stride 2,2 --padding 1 --groups 16 --dtype float16 \
//     --layout NHWC --operation filter_gradient --arch sm_90 --algorithm filter_gradient \
//     --set form=taps --set chunks=112 --set walk=tile --set rows=7 --set columns=4 --set tap_rows=3 \
//     --set tap_columns=3 --set vector=2 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 2, padding 1, groups 16, float16 NHWC; its filter
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   3 x 3 taps in a thread, over 7 x 4 outputs at a time, in 112 chunks; then the chunks' sums are added
// cost   32 x 7 x 4 outputs: 163 warp loads, 0 shuffles, 504 FMA a lane, about 132 registers (direct: 280 loads)
//
// A lane sums the taps of the filters of two channels, the teams of a block take tiles of ROWS x COLUMNS outputs in
// turn. Each row of their windows is loaded once, for all taps and outputs that meet it.
constexpr int C = 16;                           // input channels
constexpr int K = 16;                           // filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int CHUNKS = 112;                     // shares of the sum, each made by a block of its own
constexpr int ROWS = 7;                         // rows of a tile of outputs
constexpr int COLUMNS = 4;                      // columns of a tile of outputs
constexpr int TAP_ROWS = 3;                     // rows of the filter that a thread sums
constexpr int TAP_COLUMNS = 3;                  // columns of the filter that a thread sums
constexpr int ROWS_READ = 15;                   // input rows of a tile's windows
constexpr int COLUMNS_READ = 9;                 // input columns of a tile's windows
constexpr int VECTOR = 2;                       // filters of a lane
constexpr int LANES = 16;                       // lanes of a team
constexpr int TEAM_FILTERS = 32;                // filters of a team
constexpr int TEAMS = 8;                        // teams of lanes in a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }

// The products of a tile, added to the sums. INSIDE: all of its outputs exist, and all pixels of their windows, so that
// no load has a guard; `h` and `v` are the window's first row and column.
template <bool INSIDE>
__device__ __forceinline__ void add_tile(const unsigned short* __restrict__ x_image,
        const unsigned short* __restrict__ dy_first, float* acc, int h, int v, int rows_left, int columns_left, int H,
        int W, int Q) {
    float gradient[ROWS][COLUMNS][VECTOR];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const unsigned short* dy_row = dy_first + (index_t)i * Q * K;
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const bool made = INSIDE || (i < rows_left && j < columns_left);
            const unsigned word = made ? __ldg((const unsigned*)(dy_row + j * K)) : 0u;
            gradient[i][j][0] = wc_half_low_to_float(word);
            gradient[i][j][1] = wc_half_high_to_float(word);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS_READ; ++i) {
        const int row = h + i;
        float in[COLUMNS_READ][VECTOR];
        const unsigned short* x_row = x_image + ((index_t)row * W + v) * C;
#pragma unroll
        for (int j = 0; j < COLUMNS_READ; ++j) {
            const unsigned short* x_pixel = x_row + j * C;
            const bool inside = INSIDE || ((unsigned)row < (unsigned)H && (unsigned)(v + j) < (unsigned)W);
            const unsigned word = inside ? __ldg((const unsigned*)x_pixel) : 0u;
            in[j][0] = wc_half_low_to_float(word);
            in[j][1] = wc_half_high_to_float(word);
        }
#pragma unroll
        for (int r = 0; r < TAP_ROWS; ++r) {
            const int above = i - r;                               // input rows from the tile's first to the output's
            if (above < 0 || above % STRIDE_H != 0 || above / STRIDE_H >= ROWS) continue;
#pragma unroll
            for (int s = 0; s < TAP_COLUMNS; ++s)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j)
#pragma unroll
                    for (int e = 0; e < VECTOR; ++e) {
                        const int sum = (r * TAP_COLUMNS + s) * VECTOR + e;
                        acc[sum] = fmaf(in[j * STRIDE_W + s][e], gradient[above / STRIDE_H][j][e], acc[sum]);
                    }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
filter_gradient_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy,
        float* __restrict__ parts, int N, int H, int W, int P, int Q) {
    __shared__ float sums[TAP_ROWS * TAP_COLUMNS * VECTOR][LANES];
    const int first_r = blockIdx.z * TAP_ROWS;
    const int row_tiles = (P + ROWS - 1) / ROWS, column_tiles = (Q + COLUMNS - 1) / COLUMNS;
    const index_t tiles = (index_t)N * row_tiles * column_tiles;

    for (int first = blockIdx.y * TEAM_FILTERS; first < K; first += gridDim.y * TEAM_FILTERS) {
        const int k = first + threadIdx.x * VECTOR;
        float acc[TAP_ROWS * TAP_COLUMNS * VECTOR] = {};
        if (k < K) {
#pragma unroll 1
            for (index_t tile = blockIdx.x * TEAMS + threadIdx.y; tile < tiles; tile += CHUNKS * TEAMS) {
                const index_t strip = tile / column_tiles, image = strip / row_tiles;
                const int q = (int)(tile - strip * column_tiles) * COLUMNS;        // first output of the tile
                const int p = (int)(strip - image * row_tiles) * ROWS;
                const unsigned short* dy_first = dy + ((image * P + p) * Q + q) * K + k;
                const unsigned short* x_image = x + image * H * W * C + k;
                const int h = p * STRIDE_H - PAD_TOP + first_r, v = q * STRIDE_W - PAD_LEFT;
                if (h >= 0 && v >= 0 && h + ROWS_READ <= H && v + COLUMNS_READ <= W && p + ROWS <= P
                        && q + COLUMNS <= Q) {
                    add_tile<true>(x_image, dy_first, acc, h, v, P - p, Q - q, H, W, Q);
                } else {
                    add_tile<false>(x_image, dy_first, acc, h, v, P - p, Q - q, H, W, Q);
                }
            }
        }
        // the teams' sums, one after the other
        for (int team = TEAMS - 1; team >= 0; --team) {
            if (threadIdx.y == team) {
#pragma unroll
                for (int i = 0; i < TAP_ROWS * TAP_COLUMNS * VECTOR; ++i) {
                    const int tap = i / VECTOR, r = first_r + tap / TAP_COLUMNS, s = tap % TAP_COLUMNS;
                    const float total = team == TEAMS - 1 ? acc[i] : sums[i][threadIdx.x] + acc[i];
                    if (team > 0) sums[i][threadIdx.x] = total;
                    else if (k + i % VECTOR < K && r < R && s < S) {
                        parts[(((long long)blockIdx.x * R + r) * S + s) * K + k + i % VECTOR] = total;
                    }
                }
            }
            __syncthreads();
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)K * R * S;
    const long long i = (long long)blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (i < ELEMENTS) {
#pragma unroll 4
        for (int chunk = threadIdx.y; chunk < CHUNKS; chunk += 16) sum += __ldg(parts + chunk * ELEMENTS + i);
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < ELEMENTS) {
#pragma unroll
        for (int y = 1; y < 16; ++y) sum += sums[y][threadIdx.x];
        dw[i % K * (R * S) + i / K] = wc_float_to_half(sum);
    }
}
