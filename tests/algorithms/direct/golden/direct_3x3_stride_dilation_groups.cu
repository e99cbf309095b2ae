// warpconv 0.1.0: direct, float32. Generated from templates/direct/kernel_nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,4,H,W --filter 6,3,3 --stride 2,2 --padding 1 --dilation 1,2 --groups 2 --arch sm_90 \
//     --algorithm direct \
//     --set block_size_x=64 --set block_size_y=4 --set k_tile=1 --set min_blocks=4
//
// layer  x[N, 4, H, W] * w[6, 2, 3, 3] -> y[N, 6, P, Q], stride 2, padding 1, dilation 1,2, groups 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output column of 1 filter, 64 x 4 threads a block
// cost   32 outputs of 1 filter: 18 warp loads, 0 shuffles, 18 FMA a lane, about 32 registers (direct: 18 loads)
//
// One thread per output column and row, 1 filter at a time: neighbouring lanes read neighbouring columns.
// The padded input is never stored: taps in the padding are skipped or taken as zero.
constexpr int C = 2;                            // channels of a group
constexpr int GROUPS = 2;                       // groups
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int DILATION_W = 2;                   // input columns from one tap to the next
constexpr int K_TILES = 3;                      // tiles of filters in a group
constexpr int BLOCK_X = 64;                     // threads of a block along columns
constexpr int BLOCK_Y = 4;                      // threads of a block along rows
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(256, 4)
direct_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    const int q = blockIdx.x * BLOCK_X + threadIdx.x;              // output column of this thread
    if (q >= Q) return;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * (GROUPS * K_TILES); z += gridDim.z) {
        const index_t image_group = z / K_TILES;
        const int first_k = (int)(z % (GROUPS * K_TILES));             // first filter of this tile, among all K
        const float* x_group = x + image_group * C * plane_x;
        const float* w_tile = w + first_k * ((index_t)C * R * S);
        float* y_tile = y + z * plane_y;

        for (int p = blockIdx.y * BLOCK_Y + threadIdx.y; p < P; p += gridDim.y * BLOCK_Y) {
            float acc_k0 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* x_plane = x_group + c * plane_x;
                const float* w_c = w_tile + (index_t)c * (R * S);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const int h = p * STRIDE_H - PAD_TOP + r;
                    if (h < 0 || h >= H) continue;
                    const float* x_row = x_plane + (index_t)h * W;
#pragma unroll
                    for (int s = 0; s < S; ++s) {
                        const int column = q * STRIDE_W - PAD_LEFT + s * DILATION_W;
                        const float in = (unsigned)column < (unsigned)W ? __ldg(x_row + column) : 0.0f;
                        acc_k0 = fmaf(in, __ldg(w_c + r * S + s), acc_k0);
                    }
                }
            }
            float* y_pixel = y_tile + (index_t)p * Q + q;
            y_pixel[0] = acc_k0;
        }
    }
}
