// warpconv 0.1.0: naive, float16. Generated from templates/course/naive.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,2,H,W --filter 2,31,9 --stride 1,2 --dtype float16 --epilogue relu --arch sm_90 \
//     --algorithm naive \
//     --set tile=16
//
// layer  x[N, 2, H, W] * w[2, 2, 31, 9] -> y[N, 2, P, Q], stride 1,2, padding 0, float16, then relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output pixel, 16 x 16 threads a block; the filter in global memory
// cost   32 outputs: 558 warp loads, 0 shuffles, 558 FMA a lane, about 48 registers (direct: 558 loads)
//
// One thread per output pixel. Each product takes an element of the image and a weight from global memory, 2 bytes each
// for two operations, were there no caches.
constexpr int C = 2;                            // channels of a group
constexpr int R = 31;                           // filter rows
constexpr int S = 9;                            // filter columns
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int K_TILES = 2;                      // tiles of filters in a group
constexpr int TILE = 16;                        // output rows and columns of a block, and of threads
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

extern "C" __global__ void __launch_bounds__(256, 5)
naive_31x9(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    const int q = blockIdx.x * TILE + threadIdx.x;                     // output column of this thread
    if (q >= Q) return;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * K_TILES; z += gridDim.z) {
        const index_t image_group = z / K_TILES;
        const int first_k = (int)(z % K_TILES);                        // first filter of this tile, among all K
        const unsigned short* x_group = x + image_group * C * plane_x;
        unsigned short* y_tile = y + z * plane_y;

        for (int p = blockIdx.y * TILE + threadIdx.y; p < P; p += gridDim.y * TILE) {
            float acc = 0.0f;
            // this pixel's window in every channel
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const unsigned short* x_plane = x_group + c * plane_x;
                const unsigned short* w_plane = w + ((index_t)first_k * C + c) * (R * S);
#pragma unroll 1
                for (int r = 0; r < R; ++r) {
                    const int h = p + r;
                    const unsigned short* x_row = x_plane + (index_t)h * W;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const int column = q * STRIDE_W + s;
                        acc =
                            fmaf(wc_half_to_float(__ldg(x_row + column)), wc_half_to_float(__ldg(w_plane + r * S + s)),
                            acc);
                    }
                }
            }
            y_tile[(index_t)p * Q + q] = wc_float_to_half(finish(acc));
        }
    }
}
