// warpconv 0.1.0: direct, float32. Generated from templates/direct/kernel_nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 4,3,3 --padding 1 --epilogue 'bias,residual,clamp(0.0,6.0)' \
//     --arch sm_90 --algorithm direct \
//     --set block_size_x=64 --set block_size_y=4 --set k_tile=2 --set min_blocks=4
//
// layer  x[N, 3, H, W] * w[4, 3, 3, 3] -> y[N, 4, P, Q], stride 1, padding 1, float32, then bias, residual,
//        clamp(0.0,6.0)
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output column of 2 filters, 64 x 4 threads a block
// cost   32 outputs of 2 filters: 27 warp loads, 0 shuffles, 54 FMA a lane, about 36 registers (direct: 27 loads)
//
// One thread per output column and row, 2 filters at a time: neighbouring lanes read neighbouring columns.
// The padded input is never stored: taps in the padding are skipped or taken as zero.
constexpr int C = 3;                            // channels of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int K_TILE = 2;                       // filters a thread works on at a time
constexpr int K_TILES = 2;                      // tiles of filters in a group
constexpr int BLOCK_X = 64;                     // threads of a block along columns
constexpr int BLOCK_Y = 4;                      // threads of a block along rows
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias, then residual, then clamp(0.0,6.0).
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    value = value < 0.0f ? 0.0f : value > 6.0f ? 6.0f : value;    // clamp
    return value;
}

extern "C" __global__ void __launch_bounds__(256, 4)
direct_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        const float* residual, float* y, int N, int H, int W, int P, int Q) {
    const int q = blockIdx.x * BLOCK_X + threadIdx.x;              // output column of this thread
    if (q >= Q) return;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * K_TILES; z += gridDim.z) {
        const index_t image_group = z / K_TILES;
        const int first_k = (int)(z % K_TILES) * K_TILE;               // first filter of this tile, among all K
        const float* x_group = x + image_group * C * plane_x;
        const float* w_tile = w + first_k * ((index_t)C * R * S);
        float* y_tile = y + z * K_TILE * plane_y;

        for (int p = blockIdx.y * BLOCK_Y + threadIdx.y; p < P; p += gridDim.y * BLOCK_Y) {
            float acc_k0 = 0.0f;
            float acc_k1 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* x_plane = x_group + c * plane_x;
                const float* w_c = w_tile + (index_t)c * (R * S);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p - PAD_TOP + r;
                    if (h < 0 || h >= H) continue;
                    const float* x_row = x_plane + (index_t)h * W;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const int column = q - PAD_LEFT + s;
                        const float in = (unsigned)column < (unsigned)W ? __ldg(x_row + column) : 0.0f;
                        acc_k0 = fmaf(in, __ldg(w_c + r * S + s), acc_k0);
                        acc_k1 = fmaf(in, __ldg(w_c + ((index_t)C * R + r) * S + s), acc_k1);
                    }
                }
            }
            float* y_pixel = y_tile + (index_t)p * Q + q;
            const float* residual_pixel = residual + (y_pixel - y);     // may be y_pixel: all are loaded before a store
            const float residual_k0 = residual_pixel[0];
            const float residual_k1 = residual_pixel[plane_y];
            y_pixel[0] = finish(acc_k0, bias[first_k], residual_k0);
            y_pixel[plane_y] = finish(acc_k1, bias[first_k + 1], residual_k1);
        }
    }
}
