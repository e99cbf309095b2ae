// warpconv 0.1.0: direct, float32. Generated from templates/direct/kernel_nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,8 --filter 12,2,5 --stride 1,2 --groups 2 --layout NHWC --arch sm_90 \
//     --algorithm direct \
//     --set block_size_x=6 --set block_size_y=32 --set k_tile=2 --set min_blocks=3
//
// layer  x[N, H, W, 8] * w[12, 4, 2, 5] -> y[N, P, Q, 12], stride 1,2, padding 0, groups 2, float32 NHWC
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread for 4 output columns of 2 filters, 6 (filters) x 32 (columns) threads a block
// cost   32 x 4 outputs of 2 filters: 160 warp loads, 0 shuffles, 320 FMA a lane, about 68 registers (direct: 160
//        loads)
//
// One thread makes 4 output columns of 2 filters; neighbouring lanes take neighbouring filters of a pixel, and so store
// side by side.
constexpr int C = 4;                            // channels of a group
constexpr int C_ALL = 8;                        // channels of a pixel of x
constexpr int K = 6;                            // filters of a group
constexpr int K_ALL = 12;                       // channels of a pixel of y
constexpr int R = 2;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int K_TILE = 2;                       // filters of a thread
constexpr int BLOCK_Y = 32;                     // threads of a block along columns
constexpr int COLUMNS = 4;                      // output columns of a thread, BLOCK_Y apart
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(192, 3)
direct_2x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    // output columns of this thread; those beyond the last one repeat it and are not stored
    const int q0 = blockIdx.x * (BLOCK_Y * COLUMNS) + threadIdx.y;
    if (q0 >= Q) return;
    const int q1 = min(q0 + BLOCK_Y, Q - 1);
    const int q2 = min(q0 + 2 * BLOCK_Y, Q - 1);
    const int q3 = min(q0 + 3 * BLOCK_Y, Q - 1);

    // z counts images and blocks of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image = z;
        const int first_k = threadIdx.x * K_TILE;                                      // among all K_ALL
        if (first_k >= K_ALL) continue;
        const float* x_group = x + image * H * W * C_ALL + first_k / K * C;
        const float* w_tile = w + first_k * ((index_t)C * R * S);

        for (int p = blockIdx.y; p < P; p += gridDim.y) {
            float acc_q0_k0 = 0.0f, acc_q0_k1 = 0.0f;
            float acc_q1_k0 = 0.0f, acc_q1_k1 = 0.0f;
            float acc_q2_k0 = 0.0f, acc_q2_k1 = 0.0f;
            float acc_q3_k0 = 0.0f, acc_q3_k1 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* w_c = w_tile + (index_t)c * (R * S);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p + r;
                    const float* x_row = x_group + (index_t)h * W * C_ALL + c;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const float w_k0 = __ldg(w_c + r * S + s);
                        const float w_k1 = __ldg(w_c + ((index_t)C * R + r) * S + s);
                        const int column_q0 = q0 * STRIDE_W + s;
                        const float in_q0 = __ldg(x_row + (index_t)column_q0 * C_ALL);
                        acc_q0_k0 = fmaf(in_q0, w_k0, acc_q0_k0);
                        acc_q0_k1 = fmaf(in_q0, w_k1, acc_q0_k1);
                        const int column_q1 = q1 * STRIDE_W + s;
                        const float in_q1 = __ldg(x_row + (index_t)column_q1 * C_ALL);
                        acc_q1_k0 = fmaf(in_q1, w_k0, acc_q1_k0);
                        acc_q1_k1 = fmaf(in_q1, w_k1, acc_q1_k1);
                        const int column_q2 = q2 * STRIDE_W + s;
                        const float in_q2 = __ldg(x_row + (index_t)column_q2 * C_ALL);
                        acc_q2_k0 = fmaf(in_q2, w_k0, acc_q2_k0);
                        acc_q2_k1 = fmaf(in_q2, w_k1, acc_q2_k1);
                        const int column_q3 = q3 * STRIDE_W + s;
                        const float in_q3 = __ldg(x_row + (index_t)column_q3 * C_ALL);
                        acc_q3_k0 = fmaf(in_q3, w_k0, acc_q3_k0);
                        acc_q3_k1 = fmaf(in_q3, w_k1, acc_q3_k1);
                    }
                }
            }
            float* y_row = y + (image * P + p) * Q * K_ALL + first_k;
            if (q0 < Q) {
                float* y_pixel = y_row + (index_t)q0 * K_ALL;
                y_pixel[0] = acc_q0_k0;
                y_pixel[1] = acc_q0_k1;
            }
            if (q0 + BLOCK_Y < Q) {
                float* y_pixel = y_row + (index_t)q1 * K_ALL;
                y_pixel[0] = acc_q1_k0;
                y_pixel[1] = acc_q1_k1;
            }
            if (q0 + 2 * BLOCK_Y < Q) {
                float* y_pixel = y_row + (index_t)q2 * K_ALL;
                y_pixel[0] = acc_q2_k0;
                y_pixel[1] = acc_q2_k1;
            }
            if (q0 + 3 * BLOCK_Y < Q) {
                float* y_pixel = y_row + (index_t)q3 * K_ALL;
                y_pixel[0] = acc_q3_k0;
                y_pixel[1] = acc_q3_k1;
            }
        }
    }
}
