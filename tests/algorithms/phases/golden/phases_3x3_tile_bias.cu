// warpconv 0.1.0: phases, float32. Generated from templates/phases/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,8,H,W --filter 12,3,3 --stride 2,2 --padding 1 --operation data_gradient \
//     --epilogue bias --arch sm_90 --algorithm phases \
//     --set form=tile --set block_size_x=16 --set block_size_y=2 --set block_size_z=4 --set c_tile=4
//
// layer  x[N, 8, H, W] * w[12, 8, 3, 3] -> y[N, 12, P, Q], stride 2, padding 1, float32; its data gradient, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread for 2 x 2 pixels of 4 channels, 16 x 2 x 4 threads a block
// cost   32 x 4 pixels of 4 channels: 48 warp loads, 0 shuffles, 432 FMA a lane, about 56 registers (direct: 108 loads)
//
// A thread makes tiles of STRIDE_H x STRIDE_W pixels of the input's gradient: one of each phase. A tap has products
// with the pixels of one phase alone, so that no product with a zero between outputs is made, and none is stored.
constexpr int C = 8;                            // input channels
constexpr int K = 12;                           // filters
constexpr int C_GROUP = 8;                      // channels of a group
constexpr int K_GROUP = 12;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int TILE_H = 2;                       // rows of a tile
constexpr int TILE_W = 2;                       // columns of a tile
constexpr int C_TILE = 4;                       // channels a thread works on at a time
constexpr int C_TILES = 2;                      // tiles of channels
constexpr int BLOCK_X = 16;                     // threads of a block along columns
constexpr int BLOCK_Y = 2;                      // threads of a block along rows
constexpr int BLOCK_Z = 4;                      // planes of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

extern "C" __global__ void __launch_bounds__(128)
phases_3x3(const float* __restrict__ dy, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ dx, int N, int H, int W, int P, int Q) {
    const int height = H, width = W;                               // of the image that is written
    const int column = blockIdx.x * BLOCK_X + threadIdx.x;         // of tiles
    if (column * TILE_W >= width) return;
    const bool column_in_0 = (unsigned)(column) < (unsigned)Q;
    const bool column_in_1 = (unsigned)(column + 1) < (unsigned)Q;
    for (index_t z = (index_t)blockIdx.z * BLOCK_Z + threadIdx.z; z < (index_t)N * C_TILES; z += gridDim.z * BLOCK_Z) {
        const index_t image = z / C_TILES;
        const int first = (int)(z % C_TILES) * C_TILE, group = first / C_GROUP;        // channel, and its group
        const float* dy_group = dy + (image * K + group * K_GROUP) * P * Q;
        float* written_image = dx + (image * C + first) * height * width;
        const index_t dy_row = Q, written_row = width;
        constexpr int DY_COLUMN = 1, WRITTEN_COLUMN = 1;
        const index_t dy_filter = (index_t)P * Q, written_channel = (index_t)height * width;
        const float* w_tile = w + ((index_t)group * K_GROUP * C_GROUP + first % C_GROUP) * (R * S);
        for (int row = blockIdx.y * BLOCK_Y + threadIdx.y; row * TILE_H < height; row += gridDim.y * BLOCK_Y) {
            const bool row_in_0 = (unsigned)(row) < (unsigned)P;
            const bool row_in_1 = (unsigned)(row + 1) < (unsigned)P;
            float dx_c0_0_0 = 0.0f, dx_c0_0_1 = 0.0f;
            float dx_c0_1_0 = 0.0f, dx_c0_1_1 = 0.0f;
            float dx_c1_0_0 = 0.0f, dx_c1_0_1 = 0.0f;
            float dx_c1_1_0 = 0.0f, dx_c1_1_1 = 0.0f;
            float dx_c2_0_0 = 0.0f, dx_c2_0_1 = 0.0f;
            float dx_c2_1_0 = 0.0f, dx_c2_1_1 = 0.0f;
            float dx_c3_0_0 = 0.0f, dx_c3_0_1 = 0.0f;
            float dx_c3_1_0 = 0.0f, dx_c3_1_1 = 0.0f;
#pragma unroll 1
            for (int k = 0; k < K_GROUP; ++k) {
                const float* dy_pixel = dy_group + k * dy_filter + row * dy_row + (index_t)column;
                const float dy_0_0 = row_in_0 && column_in_0 ? __ldg(dy_pixel) : 0.0f;
                const float dy_0_1 = row_in_0 && column_in_1 ? __ldg(dy_pixel + DY_COLUMN) : 0.0f;
                const float dy_1_0 = row_in_1 && column_in_0 ? __ldg(dy_pixel + dy_row) : 0.0f;
                const float dy_1_1 = row_in_1 && column_in_1 ? __ldg(dy_pixel + dy_row + DY_COLUMN) : 0.0f;
                dx_c0_1_1 = fmaf(dy_1_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S)), dx_c0_1_1);
                dx_c0_1_0 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + 1), dx_c0_1_0);
                dx_c0_1_1 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + 2), dx_c0_1_1);
                dx_c0_0_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + S), dx_c0_0_1);
                dx_c0_0_0 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + S + 1), dx_c0_0_0);
                dx_c0_0_1 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + S + 2), dx_c0_0_1);
                dx_c0_1_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + 2 * S), dx_c0_1_1);
                dx_c0_1_0 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + 2 * S + 1), dx_c0_1_0);
                dx_c0_1_1 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + 2 * S + 2), dx_c0_1_1);
                dx_c1_1_1 = fmaf(dy_1_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + R * S), dx_c1_1_1);
                dx_c1_1_0 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + R * S + 1), dx_c1_1_0);
                dx_c1_1_1 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + R * S + 2), dx_c1_1_1);
                dx_c1_0_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (R + 1) * S), dx_c1_0_1);
                dx_c1_0_0 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (R + 1) * S + 1), dx_c1_0_0);
                dx_c1_0_1 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (R + 1) * S + 2), dx_c1_0_1);
                dx_c1_1_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (R + 2) * S), dx_c1_1_1);
                dx_c1_1_0 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (R + 2) * S + 1), dx_c1_1_0);
                dx_c1_1_1 = fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (R + 2) * S + 2), dx_c1_1_1);
                dx_c2_1_1 = fmaf(dy_1_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R) * S), dx_c2_1_1);
                dx_c2_1_0 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R) * S + 1), dx_c2_1_0);
                dx_c2_1_1 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R) * S + 2), dx_c2_1_1);
                dx_c2_0_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R + 1) * S), dx_c2_0_1);
                dx_c2_0_0 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R + 1) * S + 1), dx_c2_0_0);
                dx_c2_0_1 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R + 1) * S + 2), dx_c2_0_1);
                dx_c2_1_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R + 2) * S), dx_c2_1_1);
                dx_c2_1_0 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R + 2) * S + 1), dx_c2_1_0);
                dx_c2_1_1 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (2 * R + 2) * S + 2), dx_c2_1_1);
                dx_c3_1_1 = fmaf(dy_1_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R) * S), dx_c3_1_1);
                dx_c3_1_0 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R) * S + 1), dx_c3_1_0);
                dx_c3_1_1 = fmaf(dy_1_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R) * S + 2), dx_c3_1_1);
                dx_c3_0_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R + 1) * S), dx_c3_0_1);
                dx_c3_0_0 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R + 1) * S + 1), dx_c3_0_0);
                dx_c3_0_1 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R + 1) * S + 2), dx_c3_0_1);
                dx_c3_1_1 = fmaf(dy_0_1, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R + 2) * S), dx_c3_1_1);
                dx_c3_1_0 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R + 2) * S + 1), dx_c3_1_0);
                dx_c3_1_1 =
                    fmaf(dy_0_0, __ldg(w_tile + (index_t)k * (C_GROUP * R * S) + (3 * R + 2) * S + 2), dx_c3_1_1);
            }
            float* written_pixel = written_image + row * TILE_H * written_row + (index_t)column * TILE_W;
            if (row * TILE_H < height) {
                *(written_pixel) = finish(dx_c0_0_0, __ldg(bias + first));
                *(written_pixel + written_channel) = finish(dx_c1_0_0, __ldg(bias + first + 1));
                *(written_pixel + 2 * written_channel) = finish(dx_c2_0_0, __ldg(bias + first + 2));
                *(written_pixel + 3 * written_channel) = finish(dx_c3_0_0, __ldg(bias + first + 3));
                if (column * TILE_W + 1 < width) *(written_pixel + WRITTEN_COLUMN) =
                    finish(dx_c0_0_1, __ldg(bias + first));
                if (column * TILE_W + 1 < width) *(written_pixel + WRITTEN_COLUMN + written_channel) =
                    finish(dx_c1_0_1, __ldg(bias + first + 1));
                if (column * TILE_W + 1 < width) *(written_pixel + WRITTEN_COLUMN + 2 * written_channel) =
                    finish(dx_c2_0_1, __ldg(bias + first + 2));
                if (column * TILE_W + 1 < width) *(written_pixel + WRITTEN_COLUMN + 3 * written_channel) =
                    finish(dx_c3_0_1, __ldg(bias + first + 3));
            }
            if (row * TILE_H + 1 < height) {
                *(written_pixel + written_row) = finish(dx_c0_1_0, __ldg(bias + first));
                *(written_pixel + written_row + written_channel) = finish(dx_c1_1_0, __ldg(bias + first + 1));
                *(written_pixel + written_row + 2 * written_channel) = finish(dx_c2_1_0, __ldg(bias + first + 2));
                *(written_pixel + written_row + 3 * written_channel) = finish(dx_c3_1_0, __ldg(bias + first + 3));
                if (column * TILE_W + 1 < width) *(written_pixel + written_row + WRITTEN_COLUMN) =
                    finish(dx_c0_1_1, __ldg(bias + first));
                if (column * TILE_W + 1 < width) *(written_pixel + written_row + WRITTEN_COLUMN + written_channel) =
                    finish(dx_c1_1_1, __ldg(bias + first + 1));
                if (column * TILE_W + 1
                    < width) *(written_pixel + written_row + WRITTEN_COLUMN + 2 * written_channel) =
                    finish(dx_c2_1_1, __ldg(bias + first + 2));
                if (column * TILE_W + 1
                    < width) *(written_pixel + written_row + WRITTEN_COLUMN + 3 * written_channel) =
                    finish(dx_c3_1_1, __ldg(bias + first + 3));
            }
        }
    }
}
