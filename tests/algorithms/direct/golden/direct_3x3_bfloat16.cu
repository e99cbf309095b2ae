// warpconv 0.1.0: direct, bfloat16. Generated from templates/direct/kernel_nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,2,H,W --filter 2,3,3 --padding 1 --dtype bfloat16 --epilogue relu --arch sm_90 \
//     --algorithm direct \
//     --set block_size_x=64 --set block_size_y=4 --set k_tile=2 --set min_blocks=4
//
// layer  x[N, 2, H, W] * w[2, 2, 3, 3] -> y[N, 2, P, Q], stride 1, padding 1, bfloat16, then relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output column of 2 filters, 64 x 4 threads a block
// cost   32 outputs of 2 filters: 18 warp loads, 0 shuffles, 36 FMA a lane, about 34 registers (direct: 18 loads)
//
// One thread per output column and row, 2 filters at a time: neighbouring lanes read neighbouring columns.
// The padded input is never stored: taps in the padding are skipped or taken as zero.
constexpr int C = 2;                            // channels of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int K_TILE = 2;                       // filters a thread works on at a time
constexpr int BLOCK_X = 64;                     // threads of a block along columns
constexpr int BLOCK_Y = 4;                      // threads of a block along rows
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

extern "C" __global__ void __launch_bounds__(256, 4)
direct_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    const int q = blockIdx.x * BLOCK_X + threadIdx.x;              // output column of this thread
    if (q >= Q) return;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image_group = z;
        const unsigned short* x_group = x + image_group * C * plane_x;
        const unsigned short* w_tile = w;
        unsigned short* y_tile = y + z * K_TILE * plane_y;

        for (int p = blockIdx.y * BLOCK_Y + threadIdx.y; p < P; p += gridDim.y * BLOCK_Y) {
            float acc_k0 = 0.0f;
            float acc_k1 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const unsigned short* x_plane = x_group + c * plane_x;
                const unsigned short* w_c = w_tile + (index_t)c * (R * S);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p - PAD_TOP + r;
                    if (h < 0 || h >= H) continue;
                    const unsigned short* x_row = x_plane + (index_t)h * W;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const int column = q - PAD_LEFT + s;
                        const float in = (unsigned)column < (unsigned)W ? wc_bfloat16_to_float(__ldg(x_row + column))
                            : 0.0f;
                        acc_k0 = fmaf(in, wc_bfloat16_to_float(__ldg(w_c + r * S + s)), acc_k0);
                        acc_k1 = fmaf(in, wc_bfloat16_to_float(__ldg(w_c + ((index_t)C * R + r) * S + s)), acc_k1);
                    }
                }
            }
            unsigned short* y_pixel = y_tile + (index_t)p * Q + q;
            y_pixel[0] = wc_float_to_bfloat16(finish(acc_k0));
            y_pixel[plane_y] = wc_float_to_bfloat16(finish(acc_k1));
        }
    }
}
