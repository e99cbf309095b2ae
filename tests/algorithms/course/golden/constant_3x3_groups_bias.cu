// warpconv 0.1.0: constant, float32. Generated from templates/course/constant.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,4,H,W --filter 6,3,3 --padding 1 --groups 2 --epilogue bias --arch sm_90 \
//     --algorithm constant \
//     --set tile=16
//
// layer  x[N, 4, H, W] * w[6, 2, 3, 3] -> y[N, 6, P, Q], stride 1, padding 1, groups 2, float32, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output pixel, 16 x 16 threads a block; the filter bank in constant memory
// cost   32 outputs: 18 warp loads, 0 shuffles, 18 FMA a lane, about 48 registers (direct: 18 loads)
//
// One thread per output pixel. Weights are in constant memory, so each product takes only an element of the image from
// global memory: 4 bytes for two operations, were there no caches.
constexpr int C = 2;                            // channels of a group
constexpr int GROUPS = 2;                       // groups
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int K_TILES = 3;                      // tiles of filters in a group
constexpr int TILE = 16;                        // output rows and columns of a block, and of threads
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ float filter_bank[108];

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

extern "C" __global__ void __launch_bounds__(256, 5)
constant_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    const int q = blockIdx.x * TILE + threadIdx.x;                     // output column of this thread
    if (q >= Q) return;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * (GROUPS * K_TILES); z += gridDim.z) {
        const index_t image_group = z / K_TILES;
        const int first_k = (int)(z % (GROUPS * K_TILES));             // first filter of this tile, among all K
        const float* x_group = x + image_group * C * plane_x;
        float* y_tile = y + z * plane_y;

        for (int p = blockIdx.y * TILE + threadIdx.y; p < P; p += gridDim.y * TILE) {
            float acc = 0.0f;
            // this pixel's window in every channel; taps outside the image are left out
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* x_plane = x_group + c * plane_x;
                const int weights = (first_k * C + c) * (R * S);       // this channel's first weight
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p - PAD_TOP + r;
                    if (h < 0 || h >= H) continue;
                    const float* x_row = x_plane + (index_t)h * W;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const int column = q - PAD_LEFT + s;
                        if (column < 0 || column >= W) continue;
                        acc = fmaf(__ldg(x_row + column), filter_bank[weights + r * S + s], acc);
                    }
                }
            }
            y_tile[(index_t)p * Q + q] = finish(acc, bias[first_k]);
        }
    }
}
