// warpconv 0.1.0: phases, float32. Generated from templates/phases/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,2,2 --stride 9,9 --padding 1 --groups 16 --layout NHWC \
//     --operation data_gradient --arch sm_90 --algorithm phases \
//     --set form=pixel --set block_size_x=16 --set block_size_y=8 --set block_size_z=1 --set c_tile=1
//
// layer  x[N, H, W, 16] * w[16, 1, 2, 2] -> y[N, P, Q, 16], stride 9, padding 1, groups 16, float32 NHWC; its data
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread for 1 x 1 pixels of 1 channel, 16 x 8 x 1 threads a block
// cost   32 x 1 pixels of 1 channel: 4 warp loads, 0 shuffles, 4 FMA a lane, about 38 registers (direct: 4 loads)
//
// A thread makes a pixel of the input's gradient, from the taps that have an output there.
constexpr int C = 16;                           // input channels
constexpr int K = 16;                           // filters
constexpr int K_GROUP = 1;                      // filters of a group
constexpr int R = 2;                            // filter rows
constexpr int S = 2;                            // filter columns
constexpr int STRIDE_H = 9;                     // input rows from one output to the next
constexpr int STRIDE_W = 9;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows above the image that is written
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int C_TILES = 16;                     // tiles of channels
constexpr int BLOCK_X = 16;                     // threads of a block along channels
constexpr int BLOCK_Y = 8;                      // threads of a block along columns
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(128)
phases_2x2(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx, int N, int H, int W,
        int P, int Q) {
    const int height = H, width = W;                               // of the image that is written
    constexpr int C_BLOCKS = (C_TILES + BLOCK_X - 1) / BLOCK_X;
    const int column = blockIdx.x * BLOCK_Y + threadIdx.y;         // of tiles
    if (column >= width) return;
    for (index_t z = blockIdx.z; z < (index_t)N * C_BLOCKS; z += gridDim.z) {
        const index_t image = z / C_BLOCKS;
        const int first = (int)(z % C_BLOCKS) * BLOCK_X + threadIdx.x;                 // channel
        if (first >= C) continue;
        const int group = first;
        const float* dy_group = dy + image * P * Q * K + group;
        float* written_image = dx + image * height * width * C + first;
        const index_t dy_row = (index_t)Q * K, written_row = (index_t)width * C;
        constexpr int DY_COLUMN = K, WRITTEN_COLUMN = C;
        const float* w_tile = w + (index_t)group * (R * S);
        for (int row = blockIdx.y; row < height; row += gridDim.y) {
            float dx_c0_0_0 = 0.0f;
#pragma unroll 1
            for (int k = 0; k < K_GROUP; ++k) {
#pragma unroll 1
                for (int r = 0; r < R; ++r) {
                    const int h = row + PAD_TOP - r, p = h / STRIDE_H;
                    if (h < 0 || h % STRIDE_H != 0 || p >= P) continue;
#pragma unroll 1
                    for (int s = 0; s < S; ++s) {
                        const int v = column + PAD_LEFT - s, q = v / STRIDE_W;
                        if (v < 0 || v % STRIDE_W != 0 || q >= Q) continue;
                        dx_c0_0_0 =
                            fmaf(__ldg(dy_group + k + p * dy_row + (index_t)q * DY_COLUMN),
                            __ldg(w_tile + (index_t)k * (R * S) + r * S + s), dx_c0_0_0);
                    }
                }
            }
            float* written_pixel = written_image + row * written_row + (index_t)column * WRITTEN_COLUMN;
            if (row < height) {
                *(written_pixel) = dx_c0_0_0;
            }
        }
    }
}
