// warpconv 0.1.0: volume, float32. Generated from templates/volume/loops.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,D,H,W --filter 1,17,17,17 --padding 8 --padding-mode replicate --arch sm_90 \
//     --algorithm volume \
//     --set form=loops --set block_size_x=256 --set block_size_y=1
//
// layer  x[N, 1, D, H, W] * w[1, 1, 17, 17, 17] -> y[N, 1, Z, P, Q], stride 1, padding 8 (replicate), float32
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   a thread for each output, every tap loaded, 256 threads a block
// cost   32 outputs: 4913 warp loads, 0 shuffles, 4913 FMA a lane, about 40 registers (direct: 4913 loads)
//
// A thread for each output, and all of its taps; neighbouring lanes make outputs side by side in memory.
constexpr int K_ALL = 1;                        // filters
constexpr int C = 1;                            // channels of a group
constexpr int T = 17;                           // filter planes
constexpr int R = 17;                           // filter rows
constexpr int S = 17;                           // filter columns
constexpr int PAD_FRONT = 8;                    // planes before the volume
constexpr int PAD_TOP = 8;                      // rows above it
constexpr int PAD_LEFT = 8;                     // columns to the left of it
constexpr int THREADS = 256;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: the nearest.
__device__ __forceinline__ int at_border(int i, int size) {
    return min(max(i, 0), size - 1);
}

extern "C" __global__ void __launch_bounds__(256)
volume_17x17x17(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int D, int H,
        int W, int Z, int P, int Q) {
    const index_t outputs = (index_t)N * Z * P * Q;
    for (index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x; i < outputs; i += (index_t)gridDim.x * THREADS) {
        index_t rest = i;
        const int q = (int)(rest % Q);
        rest /= Q;
        const int p = (int)(rest % P);
        rest /= P;
        const int z = (int)(rest % Z);
        rest /= Z;
        rest /= K_ALL;
        const index_t n = rest;
        float sum = 0.0f;
#pragma unroll 1
        for (int channel = 0; channel < C; ++channel) {
            const int c = channel;
            const float* tap = w + (index_t)channel * (T * R * S);
#pragma unroll 1
            for (int t = 0; t < T; ++t) {
                const int d = at_border(z - PAD_FRONT + t, D);
#pragma unroll 1
                for (int r = 0; r < R; ++r) {
                    const int h = at_border(p - PAD_TOP + r, H);
#pragma unroll 1
                    for (int s = 0; s < S; ++s) {
                        const int column = at_border(q - PAD_LEFT + s, W);
                        const float in = __ldg(x + ((((n + c) * D + d) * H + h) * W + column));
                        sum = fmaf(in, __ldg(tap++), sum);
                    }
                }
            }
        }
        y[i] = sum;
    }
}
