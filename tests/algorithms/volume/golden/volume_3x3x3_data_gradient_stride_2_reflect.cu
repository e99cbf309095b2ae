// warpconv 0.1.0: volume_data, float32. Generated from templates/volume/data_gradient.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,D,H,W --filter 32,3,3,3 --stride 2,2,2 --padding 1 --padding-mode reflect \
//     --groups 32 --operation data_gradient --index-bits 32 --arch sm_90 --algorithm volume_data \
//     --set threads=256
//
// layer  x[N, 32, D, H, W] * w[32, 1, 3, 3, 3] -> y[N, 32, Z, P, Q], stride 2, padding 1 (reflect), groups 32, float32;
//        its data gradient
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   a thread for each element of the input's gradient, its taps one after the other, 256 threads a block
// cost   32 elements: 27 warp loads, 0 shuffles, 27 FMA a lane, about 48 registers (direct: 27 loads)
//
// A thread for each element of the input's gradient: the products of every tap and the output that met the element
// there. So did the outputs that met it in the border, where it stood for something outside of the volume.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int K = 1;                            // filters of a group
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 2;                     // input planes from one output to the next
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int SHOWN_D = 2;                      // planes before and behind the volume
constexpr int SHOWN_H = 2;                      // rows above and below it
constexpr int SHOWN_W = 2;                      // columns to its left and right
constexpr int THREADS = 256;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// Place number `i` of those that may show the element at `own`: itself, then those before the volume, those behind it.
__device__ __forceinline__ int candidate(int i, int own, int size, int before) {
    return i == 0 ? own : i <= before ? -i : size - 1 + i - before;
}

extern "C" __global__ void __launch_bounds__(256)
volume_data_3x3x3(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx, int N, int D,
        int H, int W, int Z, int P, int Q) {
    const index_t elements = (index_t)N * C_ALL * D * H * W;
    for (index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x; i < elements; i += (index_t)gridDim.x * THREADS) {
        index_t rest = i;
        const int column = (int)(rest % W);
        rest /= W;
        const int h = (int)(rest % H);
        rest /= H;
        const int d = (int)(rest % D);
        rest /= D;
        const int c = (int)(rest % C_ALL);
        rest /= C_ALL;
        const index_t n = rest;
        const int k_0 = c;                                         // first filter of its group
        float sum = 0.0f;
#pragma unroll 1
        for (int i_d = 0; i_d <= SHOWN_D; ++i_d)
#pragma unroll 1
        for (int t = 0; t < T; ++t) {
            const int at_i_d = candidate(i_d, d, D, PAD_FRONT);
            const int met_i_d = at_i_d + PAD_FRONT - t, z = met_i_d / STRIDE_D;
            if (met_i_d < 0 || met_i_d % STRIDE_D != 0 || z >= Z) continue;
            if (i_d > 0 && at_border(at_i_d, D) != d) continue;
#pragma unroll 1
            for (int i_h = 0; i_h <= SHOWN_H; ++i_h)
#pragma unroll 1
            for (int r = 0; r < R; ++r) {
                const int at_i_h = candidate(i_h, h, H, PAD_TOP);
                const int met_i_h = at_i_h + PAD_TOP - r, p = met_i_h / STRIDE_H;
                if (met_i_h < 0 || met_i_h % STRIDE_H != 0 || p >= P) continue;
                if (i_h > 0 && at_border(at_i_h, H) != h) continue;
#pragma unroll 1
                for (int i_w = 0; i_w <= SHOWN_W; ++i_w)
#pragma unroll 1
                for (int s = 0; s < S; ++s) {
                    const int at_i_w = candidate(i_w, column, W, PAD_LEFT);
                    const int met_i_w = at_i_w + PAD_LEFT - s, q = met_i_w / STRIDE_W;
                    if (met_i_w < 0 || met_i_w % STRIDE_W != 0 || q >= Q) continue;
                    if (i_w > 0 && at_border(at_i_w, W) != column) continue;
#pragma unroll 1
                    for (int k = k_0; k < k_0 + K; ++k)
                        sum = fmaf(__ldg(dy + ((((n * K_ALL + k) * Z + z) * P + p) * Q + q)),
                                   __ldg(w + (((index_t)k * T + t) * R + r) * S + s), sum);
                }
            }
        }
        dx[i] = sum;
    }
}
