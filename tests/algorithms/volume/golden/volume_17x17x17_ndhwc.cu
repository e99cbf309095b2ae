// warpconv 0.1.0: volume, float16. Generated from templates/volume/loops.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,32 --filter 32,17,17,17 --padding 8 --groups 32 --dtype float16 --layout NHWC \
//     --index-bits 32 --arch sm_90 --algorithm volume \
//     --set form=loops --set block_size_x=256 --set block_size_y=1
//
// layer  x[N, D, H, W, 32] * w[32, 1, 17, 17, 17] -> y[N, Z, P, Q, 32], stride 1, padding 8, groups 32, float16 NHWC
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   a thread for each output, every tap loaded, 256 threads a block
// cost   32 outputs: 4913 warp loads, 0 shuffles, 4913 FMA a lane, about 40 registers (direct: 4913 loads)
//
// A thread for each output, and all of its taps; neighbouring lanes make outputs side by side in memory.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int C = 1;                            // channels of a group
constexpr int T = 17;                           // filter planes
constexpr int R = 17;                           // filter rows
constexpr int S = 17;                           // filter columns
constexpr int PAD_FRONT = 8;                    // planes before the volume
constexpr int PAD_TOP = 8;                      // rows above it
constexpr int PAD_LEFT = 8;                     // columns to the left of it
constexpr int THREADS = 256;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

extern "C" __global__ void __launch_bounds__(256)
volume_17x17x17(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int N, int D, int H, int W, int Z, int P, int Q) {
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
                            ? wc_half_to_float(__ldg(x + ((((n * D + d) * H + h) * W + column) * C_ALL + c))) : 0.0f;
                        sum = fmaf(in, wc_half_to_float(__ldg(tap++)), sum);
                    }
                }
            }
        }
        y[i] = wc_float_to_half(sum);
    }
}
