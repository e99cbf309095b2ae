// warpconv 0.1.0: filter_gradient, float32. Generated from templates/filter_gradient/taps_nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,7,7 --padding 3 --padding-mode reflect --groups 16 --layout NHWC \
//     --operation filter_gradient --arch sm_90 --algorithm filter_gradient \
//     --set form=taps --set chunks=112 --set walk=strip --set rows=56 --set columns=4 --set tap_rows=7 \
//     --set tap_columns=7 --set vector=1 --set min_blocks=3
//
// layer  x[N, H, W, 16] * w[16, 1, 7, 7] -> y[N, P, Q, 16], stride 1, padding 3 (reflect), groups 16, float32 NHWC; its
//        filter gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   7 x 7 taps in a thread, over 56 x 4 outputs at a time, in 112 chunks; then the chunks' sums are added
// cost   32 x 56 x 4 outputs: 844 warp loads, 0 shuffles, 10976 FMA a lane, about 255 registers (direct: 11200 loads)
//
// A lane sums the taps of one filter, the teams of a block take tiles of ROWS x COLUMNS outputs in turn.
// Each row of their windows is loaded once, for all taps and outputs that meet it.
constexpr int C = 16;                           // input channels
constexpr int K = 16;                           // filters
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int PAD_TOP = 3;                      // rows above the image
constexpr int PAD_LEFT = 3;                     // columns to the left of the image
constexpr int CHUNKS = 112;                     // shares of the sum, each made by a block of its own
constexpr int ROWS = 56;                        // rows of a tile of outputs
constexpr int COLUMNS = 4;                      // columns of a tile of outputs
constexpr int TAP_ROWS = 7;                     // rows of the filter that a thread sums
constexpr int TAP_COLUMNS = 7;                  // columns of the filter that a thread sums
constexpr int COLUMNS_READ = 10;                // input columns of a tile's windows
constexpr int VECTOR = 1;                       // filters of a lane
constexpr int LANES = 16;                       // lanes of a team
constexpr int TEAM_FILTERS = 16;                // filters of a team
constexpr int TEAMS = 8;                        // teams of lanes in a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// The products of a strip of outputs, added to the sums, an input row after the other from `h` on: it meets the
// gradients of TAP_ROWS rows of outputs. The next row is loaded before the products of this one, and is converted where
// it is used. INSIDE: all columns of the windows, and of the outputs, exist.
template <bool INSIDE>
__device__ __forceinline__ void add_strip(const float* __restrict__ x_image, const float* __restrict__ dy_first,
        float* acc, int h, int v, int rows, int columns_left, int H, int W, int Q) {
    float gradient[TAP_ROWS][COLUMNS][VECTOR] = {}, in[COLUMNS_READ][VECTOR];
    float in_next[COLUMNS_READ], gradient_next[COLUMNS];
#pragma unroll 1
    for (int i = -1; i < rows + TAP_ROWS - 1; ++i) {
        if (i >= 0) {
#pragma unroll
            for (int r = TAP_ROWS - 1; r > 0; --r)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j)
#pragma unroll
                    for (int e = 0; e < VECTOR; ++e) gradient[r][j][e] = gradient[r - 1][j][e];
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                gradient[0][j][0] = gradient_next[j];
            }
#pragma unroll
            for (int j = 0; j < COLUMNS_READ; ++j) {
                in[j][0] = in_next[j];
            }
        }
        const float* dy_row = dy_first + (index_t)(i + 1) * Q * K;
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            gradient_next[j] = i + 1 < rows && (INSIDE || j < columns_left) ? __ldg((const float*)(dy_row + j * K))
                : (float)0;
        }
        const int next = at_border(h + i + 1, H);
        const float* x_row = x_image + ((index_t)next * W + v) * C;
#pragma unroll
        for (int j = 0; j < COLUMNS_READ; ++j) {
            in_next[j] =
                __ldg((const float*)(INSIDE ? x_row + j * C : x_image + ((index_t)next * W + at_border(v + j, W)) * C));
        }
        if (i >= 0) {
#pragma unroll
            for (int r = 0; r < TAP_ROWS; ++r)
#pragma unroll
                for (int s = 0; s < TAP_COLUMNS; ++s)
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j)
#pragma unroll
                        for (int e = 0; e < VECTOR; ++e) {
                            const int sum = (r * TAP_COLUMNS + s) + e;
                            acc[sum] = fmaf(in[j + s][e], gradient[r][j][e], acc[sum]);
                        }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 3)
filter_gradient_7x7(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N, int H,
        int W, int P, int Q) {
    __shared__ float sums[TAP_ROWS * TAP_COLUMNS][LANES];
    const int first_r = blockIdx.z * TAP_ROWS;
    const int row_tiles = (P + ROWS - 1) / ROWS, column_tiles = (Q + COLUMNS - 1) / COLUMNS;
    const index_t tiles = (index_t)N * row_tiles * column_tiles;

    for (int first = blockIdx.y * TEAM_FILTERS; first < K; first += gridDim.y * TEAM_FILTERS) {
        const int k = first + threadIdx.x;
        float acc[TAP_ROWS * TAP_COLUMNS] = {};
        if (k < K) {
#pragma unroll 1
            for (index_t tile = blockIdx.x * TEAMS + threadIdx.y; tile < tiles; tile += CHUNKS * TEAMS) {
                const index_t strip = tile / column_tiles, image = strip / row_tiles;
                const int q = (int)(tile - strip * column_tiles) * COLUMNS;        // first output of the tile
                const int p = (int)(strip - image * row_tiles) * ROWS;
                const float* dy_first = dy + ((image * P + p) * Q + q) * K + k;
                const float* x_image = x + image * H * W * C + k;
                const int h = p - PAD_TOP + first_r, v = q - PAD_LEFT;
                const int rows = min(ROWS, P - p);
                if (v >= 0 && v + COLUMNS_READ <= W && q + COLUMNS <= Q) {
                    add_strip<true>(x_image, dy_first, acc, h, v, rows, Q - q, H, W, Q);
                } else {
                    add_strip<false>(x_image, dy_first, acc, h, v, rows, Q - q, H, W, Q);
                }
            }
        }
        // the teams' sums, one after the other
        for (int team = TEAMS - 1; team >= 0; --team) {
            if (threadIdx.y == team) {
#pragma unroll
                for (int i = 0; i < TAP_ROWS * TAP_COLUMNS; ++i) {
                    const int tap = i, r = first_r + tap / TAP_COLUMNS, s = tap % TAP_COLUMNS;
                    const float total = team == TEAMS - 1 ? acc[i] : sums[i][threadIdx.x] + acc[i];
                    if (team > 0) sums[i][threadIdx.x] = total;
                    else if (k < K && r < R && s < S) {
                        parts[(((long long)blockIdx.x * R + r) * S + s) * K + k] = total;
                    }
                }
            }
            __syncthreads();
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
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
        dw[i % K * (R * S) + i / K] = sum;
    }
}
