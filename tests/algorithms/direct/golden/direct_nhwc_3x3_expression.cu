// warpconv 0.1.0: direct, float16. Generated from templates/direct/kernel_nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,8 --filter 8,3,3 --padding 1 --groups 8 --dtype float16 --layout NHWC \
//     --epilogue 'bias,expr(where(v < 1.0, v * sigmoid(v), max(1.0, min(v, 4.0)) / 3.0) + relu(-v))' --arch sm_90 \
//     --algorithm direct \
//     --set block_size_x=8 --set block_size_y=32 --set k_tile=1 --set min_blocks=2
//
// layer  x[N, H, W, 8] * w[8, 1, 3, 3] -> y[N, P, Q, 8], stride 1, padding 1, groups 8, float16 NHWC, then bias,
//        expr(where(v < 1.0, v * sigmoid(v), max(1.0, min(v, 4.0)) / 3.0) + relu(-v))
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread for 4 output columns of 1 filter, 8 (filters) x 32 (columns) threads a block
// cost   32 x 4 outputs of 1 filter: 36 warp loads, 0 shuffles, 36 FMA a lane, about 61 registers (direct: 36 loads)
//
// One thread makes 4 output columns of 1 filter; neighbouring lanes take neighbouring filters of a pixel, and so store
// side by side, and where each filter has a channel of its own they read side by side, too.
// The padded input is never stored: taps in the padding are skipped or taken as zero.
constexpr int C = 1;                            // channels of a group
constexpr int C_ALL = 8;                        // channels of a pixel of x
constexpr int K_ALL = 8;                        // channels of a pixel of y
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int BLOCK_Y = 32;                     // threads of a block along columns
constexpr int COLUMNS = 4;                      // output columns of a thread, BLOCK_Y apart
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// what the steps below call
__device__ __forceinline__ float minimum(float a, float b) { return a < b || a != a ? a : b; }      // NaN if either is
__device__ __forceinline__ float maximum(float a, float b) { return a > b || a != a ? a : b; }      // NaN if either is
__device__ __forceinline__ float wc_exp2(float value) { float power; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value)); return power; }
__device__ __forceinline__ float wc_reciprocal(float value) { float inverse; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value)); return inverse; }
// log2(e)
__device__ __forceinline__ float sigmoid(float a) { return wc_reciprocal(1.0f + wc_exp2(-1.442695f * a)); }
__device__ __forceinline__ float relu(float a) { return a < 0.0f ? 0.0f : a; }

// What happens to an output value before it is stored: bias, then expr(where(v < 1.0, v * sigmoid(v), max(1.0, min(v,
// 4.0)) / 3.0) + relu(-v)).
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    // the user's expression of v
    value = (value < 1.0f ? value * sigmoid(value) : maximum(1.0f, minimum(value, 4.0f)) / 3.0f) + relu(-value);
    return value;
}

extern "C" __global__ void __launch_bounds__(256, 2)
direct_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    // output columns of this thread; those beyond the last one repeat it and are not stored
    const int q0 = blockIdx.x * (BLOCK_Y * COLUMNS) + threadIdx.y;
    if (q0 >= Q) return;
    const int q1 = min(q0 + BLOCK_Y, Q - 1);
    const int q2 = min(q0 + 2 * BLOCK_Y, Q - 1);
    const int q3 = min(q0 + 3 * BLOCK_Y, Q - 1);

    // z counts images and blocks of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image = z;
        const int first_k = threadIdx.x;                                               // among all K_ALL
        if (first_k >= K_ALL) continue;
        const unsigned short* x_group = x + image * H * W * C_ALL + first_k;
        const unsigned short* w_tile = w + first_k * ((index_t)R * S);

        for (int p = blockIdx.y; p < P; p += gridDim.y) {
            float acc_q0_k0 = 0.0f;
            float acc_q1_k0 = 0.0f;
            float acc_q2_k0 = 0.0f;
            float acc_q3_k0 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const unsigned short* w_c = w_tile + (index_t)c * (R * S);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p - PAD_TOP + r;
                    if (h < 0 || h >= H) continue;
                    const unsigned short* x_row = x_group + (index_t)h * W * C_ALL + c;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const float w_k0 = wc_half_to_float(__ldg(w_c + r * S + s));
                        const int column_q0 = q0 - PAD_LEFT + s;
                        const float in_q0 = (unsigned)column_q0 < (unsigned)W
                            ? wc_half_to_float(__ldg(x_row + (index_t)column_q0 * C_ALL)) : 0.0f;
                        acc_q0_k0 = fmaf(in_q0, w_k0, acc_q0_k0);
                        const int column_q1 = q1 - PAD_LEFT + s;
                        const float in_q1 = (unsigned)column_q1 < (unsigned)W
                            ? wc_half_to_float(__ldg(x_row + (index_t)column_q1 * C_ALL)) : 0.0f;
                        acc_q1_k0 = fmaf(in_q1, w_k0, acc_q1_k0);
                        const int column_q2 = q2 - PAD_LEFT + s;
                        const float in_q2 = (unsigned)column_q2 < (unsigned)W
                            ? wc_half_to_float(__ldg(x_row + (index_t)column_q2 * C_ALL)) : 0.0f;
                        acc_q2_k0 = fmaf(in_q2, w_k0, acc_q2_k0);
                        const int column_q3 = q3 - PAD_LEFT + s;
                        const float in_q3 = (unsigned)column_q3 < (unsigned)W
                            ? wc_half_to_float(__ldg(x_row + (index_t)column_q3 * C_ALL)) : 0.0f;
                        acc_q3_k0 = fmaf(in_q3, w_k0, acc_q3_k0);
                    }
                }
            }
            unsigned short* y_row = y + (image * P + p) * Q * K_ALL + first_k;
            if (q0 < Q) {
                unsigned short* y_pixel = y_row + (index_t)q0 * K_ALL;
                y_pixel[0] = wc_float_to_half(finish(acc_q0_k0, wc_half_to_float(bias[first_k])));
            }
            if (q0 + BLOCK_Y < Q) {
                unsigned short* y_pixel = y_row + (index_t)q1 * K_ALL;
                y_pixel[0] = wc_float_to_half(finish(acc_q1_k0, wc_half_to_float(bias[first_k])));
            }
            if (q0 + 2 * BLOCK_Y < Q) {
                unsigned short* y_pixel = y_row + (index_t)q2 * K_ALL;
                y_pixel[0] = wc_float_to_half(finish(acc_q2_k0, wc_half_to_float(bias[first_k])));
            }
            if (q0 + 3 * BLOCK_Y < Q) {
                unsigned short* y_pixel = y_row + (index_t)q3 * K_ALL;
                y_pixel[0] = wc_float_to_half(finish(acc_q3_k0, wc_half_to_float(bias[first_k])));
            }
        }
    }
}
