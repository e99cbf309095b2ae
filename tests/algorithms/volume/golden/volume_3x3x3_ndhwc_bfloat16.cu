// warpconv 0.1.0: volume, bfloat16. Generated from templates/volume/loops.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,32 --filter 32,3,3,3 --padding 1 --groups 32 --dtype bfloat16 --layout NHWC \
//     --epilogue relu --index-bits 32 --arch sm_90 --algorithm volume \
//     --set form=loops --set block_size_x=256 --set block_size_y=1
//
// layer  x[N, D, H, W, 32] * w[32, 1, 3, 3, 3] -> y[N, Z, P, Q, 32], stride 1, padding 1, groups 32, bfloat16 NHWC,
//        then relu
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   a thread for each output, every tap loaded, 256 threads a block
// cost   32 outputs: 27 warp loads, 0 shuffles, 27 FMA a lane, about 40 registers (direct: 27 loads)
//
// A thread for each output, and all of its taps; neighbouring lanes make outputs side by side in memory.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int C = 1;                            // channels of a group
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int THREADS = 256;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
volume_3x3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int D, int H, int W, int Z, int P, int Q) {
    const index_t outputs = (index_t)N * K_ALL * Z * P * Q;
    for (index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x; i < outputs; i += (index_t)gridDim.x * THREADS) {
        index_t rest = i;
        const int k = (int)(rest % K_ALL);
        rest /= K_ALL;
        const int q = (int)(rest % Q);
        rest /= Q;
        const int p = (int)(rest % P);
        rest /= P;
        const int z = (int)(rest % Z);
        rest /= Z;
        const index_t n = rest;
        float sum = 0.0f;
#pragma unroll 1
        for (int channel = 0; channel < C; ++channel) {
            const int c = k + channel;
            const unsigned short* tap = w + ((index_t)k + channel) * (T * R * S);
#pragma unroll 1
            for (int t = 0; t < T; ++t) {
                const int d = z - PAD_FRONT + t;
#pragma unroll 1
                for (int r = 0; r < R; ++r) {
                    const int h = p - PAD_TOP + r;
#pragma unroll 1
                    for (int s = 0; s < S; ++s) {
                        const int column = q - PAD_LEFT + s;
                        const bool inside = (unsigned)d < (unsigned)D && (unsigned)h < (unsigned)H
                            && (unsigned)column < (unsigned)W;
                        const float in = inside
                            ? wc_bfloat16_to_float(__ldg(x + ((((n * D + d) * H + h) * W + column) * C_ALL + c)))
                            : 0.0f;
                        sum = fmaf(in, wc_bfloat16_to_float(__ldg(tap++)), sum);
                    }
                }
            }
        }
        y[i] = wc_float_to_bfloat16(finish(sum));
    }
}
