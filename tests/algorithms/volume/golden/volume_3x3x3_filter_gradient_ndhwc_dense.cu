// warpconv 0.1.0: volume_filter, float32. Generated from templates/volume/filter_loops.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,3 --filter 8,3,3,3 --padding 1 --layout NHWC --operation filter_gradient \
//     --arch sm_90 --algorithm volume_filter \
//     --set form=loops --set tap_planes=3 --set tap_rows=3 --set tap_columns=3 --set chunks=44 --set threads=128 \
//     --set min_blocks=4
//
// layer  x[N, D, H, W, 3] * w[8, 3, 3, 3, 3] -> y[N, Z, P, Q, 8], stride 1, padding 1, float32 NHWC; its filter
//        gradient
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   3 x 3 x 3 taps of a filter's channel in a thread, the outputs in 44 chunks; then the chunks' sums are added
// cost   32 outputs: 28 warp loads, 0 shuffles, 27 FMA a lane, about 102 registers (direct: 54 loads)
//
// A block sums the products of a chunk's output rows for a tile of the taps of one filter and channel into its row of
// parts; sum_parts() adds these rows.
constexpr int C_ALL = 3;                        // input channels
constexpr int K_ALL = 8;                        // filters
constexpr int C = 3;                            // channels of a group
constexpr int K = 8;                            // filters of a group
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int TAP_PLANES = 3;                   // taps of a thread
constexpr int TAP_ROWS = 3;                     // in filter rows
constexpr int TAP_COLUMNS = 3;                  // and columns
constexpr int CHUNKS = 44;                      // shares of the outputs, each summed by itself
constexpr int WARPS = 4;                        // warps of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(128, 4)
volume_filter_3x3x3(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N, int D,
        int H, int W, int Z, int P, int Q) {
    __shared__ float sums[WARPS][TAP_PLANES * TAP_ROWS * TAP_COLUMNS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int t_0 = blockIdx.z * TAP_PLANES;
    for (int pair = blockIdx.y; pair < K_ALL * C; pair += gridDim.y) {
        const int k = pair / C, c = k / K * C + pair % C;
        float sum[TAP_PLANES][TAP_ROWS][TAP_COLUMNS] = {};
        for (index_t row = blockIdx.x * WARPS + warp; row < (index_t)N * Z * P; row += CHUNKS * WARPS) {
            const int p = (int)(row % P), z = (int)(row / P % Z);
            const index_t n = row / P / Z;
            for (int q = lane; q < Q; q += 32) {
                const float gradient = __ldg(dy + ((((n * Z + z) * P + p) * Q + q) * K_ALL + k));
#pragma unroll
                for (int t = 0; t < TAP_PLANES; ++t) {
                    const int d = z - PAD_FRONT + (t_0 + t);
#pragma unroll
                    for (int r = 0; r < TAP_ROWS; ++r) {
                        const int h = p - PAD_TOP + r;
#pragma unroll
                        for (int s = 0; s < TAP_COLUMNS; ++s) {
                            const int column = q - PAD_LEFT + s;
                            const bool inside = (unsigned)d < (unsigned)D && (unsigned)h < (unsigned)H
                                && (unsigned)column < (unsigned)W;
                            const float in = inside ? __ldg(x + ((((n * D + d) * H + h) * W + column) * C_ALL + c))
                                : 0.0f;
                            sum[t][r][s] = fmaf(gradient, in, sum[t][r][s]);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int tap = 0; tap < TAP_PLANES * TAP_ROWS * TAP_COLUMNS; ++tap) {
            float total = sum[tap / (TAP_ROWS * TAP_COLUMNS)][tap / TAP_COLUMNS % TAP_ROWS][tap % TAP_COLUMNS];
#pragma unroll
            for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
            if (lane == 0) sums[warp][tap] = total;
        }
        __syncthreads();
        for (int tap = threadIdx.x; tap < TAP_PLANES * TAP_ROWS * TAP_COLUMNS; tap += WARPS * 32) {
            const int t = t_0 + tap / (TAP_ROWS * TAP_COLUMNS), r = tap / TAP_COLUMNS % TAP_ROWS, s = tap % TAP_COLUMNS;
            float total = 0.0f;
            for (int from = 0; from < WARPS; ++from) total += sums[from][tap];
            if (t < T && r < R
                && s < S) parts[(index_t)blockIdx.x * (K_ALL * C * T * R * S) + ((pair * T + t) * R + r) * S + s] =
                total;
        }
        __syncthreads();
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = 648;
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
        dw[i] = sum;
    }
}
