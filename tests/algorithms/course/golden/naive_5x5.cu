// warpconv 0.1.0: naive, float32. Generated from templates/course/naive.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --arch sm_90 --algorithm naive \
//     --set tile=32
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output pixel, 32 x 32 threads a block; the filter in global memory
// cost   32 outputs: 25 warp loads, 0 shuffles, 25 FMA a lane, about 48 registers (direct: 25 loads)
//
// One thread per output pixel. Each product takes an element of the image and a weight from global memory, 4 bytes each
// for two operations, were there no caches.
constexpr int C = 1;                            // channels of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int PAD_LEFT = 2;                     // columns of zeros to the left of the image
constexpr int TILE = 32;                        // output rows and columns of a block, and of threads
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(1024, 1)
naive_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    const int q = blockIdx.x * TILE + threadIdx.x;                     // output column of this thread
    if (q >= Q) return;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image_group = z;
        const float* x_group = x + image_group * plane_x;
        float* y_tile = y + z * plane_y;

        for (int p = blockIdx.y * TILE + threadIdx.y; p < P; p += gridDim.y * TILE) {
            float acc = 0.0f;
            // this pixel's window in every channel; taps outside the image are left out
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* x_plane = x_group + c * plane_x;
                const float* w_plane = w + (index_t)c * (R * S);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p - PAD_TOP + r;
                    if (h < 0 || h >= H) continue;
                    const float* x_row = x_plane + (index_t)h * W;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const int column = q - PAD_LEFT + s;
                        if (column < 0 || column >= W) continue;
                        acc = fmaf(__ldg(x_row + column), __ldg(w_plane + r * S + s), acc);
                    }
                }
            }
            y_tile[(index_t)p * Q + q] = acc;
        }
    }
}
