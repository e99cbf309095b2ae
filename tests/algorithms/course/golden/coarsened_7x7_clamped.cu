// warpconv 0.1.0: coarsened, float32. Generated from templates/course/coarsened.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,2,H,W --filter 4,7,7 --padding 3 --epilogue bias --arch sm_90 --algorithm coarsened \
//     --set tile=32 --set walk=2 --set outputs=3 --set k_tile=2
//
// layer  x[N, 2, H, W] * w[4, 2, 7, 7] -> y[N, 4, P, Q], stride 1, padding 3, float32, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   a block walks over 2 input tiles of 32 x 32, 26 x 26 outputs each; a thread makes 3 of them of 2 filters, 32 x
//        9 threads; the filter bank in constant memory
// cost   a warp's part of 2 input tiles: 15 warp loads, 0 shuffles, 1176 FMA a lane, about 64 registers (direct: 588
//        loads)
//
// A block walks over input tiles, gridDim.y tiles from one to the next. It has fewer rows of threads than a tile: each
// thread loads several elements and makes 3 outputs, BLOCK_ROWS rows apart.
constexpr int C = 2;                            // channels of a group
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int PAD_TOP = 3;                      // rows of zeros above the image
constexpr int PAD_LEFT = 3;                     // columns of zeros to the left of the image
constexpr int K_TILE = 2;                       // filters a block makes at a time
constexpr int K_TILES = 2;                      // tiles of filters in a group
constexpr int IN_TILE = 32;                     // input rows and columns of a tile
constexpr int BLOCK_ROWS = 9;                   // rows of threads
constexpr int OUT_TILE_H = 26;                  // output rows whose windows lie in it
constexpr int OUT_TILE_W = 26;                  // output columns whose windows lie in it
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ float filter_bank[392];

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

extern "C" __global__ void __launch_bounds__(288, 3)
coarsened_7x7(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ float tile[IN_TILE][IN_TILE];
    const int row = threadIdx.y, column = threadIdx.x;                 // of this thread in the tile
    // the tile's rows that this thread makes
    const int row_p0 = row;
    const int row_p1 = row + BLOCK_ROWS;
    const int row_p2 = min(row + 2 * BLOCK_ROWS, OUT_TILE_H - 1);    // below the tile: its last row again
    const int tile_q = blockIdx.x * OUT_TILE_W, q = tile_q + column;
    const int w_in = tile_q - PAD_LEFT + column;                       // input column that this thread loads
    const bool inside_w = w_in >= 0 && w_in < W, computes = column < OUT_TILE_W && q < Q;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * K_TILES; z += gridDim.z) {
        const index_t image_group = z / K_TILES;
        const int first_k = (int)(z % K_TILES) * K_TILE;               // first filter of this tile, among all K
        const float* x_group = x + image_group * C * plane_x;
        float* y_tile = y + z * K_TILE * plane_y;

        for (int tile_p = blockIdx.y * OUT_TILE_H; tile_p < P; tile_p += gridDim.y * OUT_TILE_H) {
            const int tile_h = tile_p - PAD_TOP;                       // input row where the tile begins
            float acc_k0_p0 = 0.0f, acc_k0_p1 = 0.0f, acc_k0_p2 = 0.0f;
            float acc_k1_p0 = 0.0f, acc_k1_p1 = 0.0f, acc_k1_p2 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                // the tile of this channel, BLOCK_ROWS rows at a time; zeros outside the image
                const float* x_plane = x_group + c * plane_x;
#pragma unroll
                for (int i = row; i < IN_TILE; i += BLOCK_ROWS) {
                    const int h = tile_h + i;
                    tile[i][column] = inside_w && h >= 0 && h < H ? __ldg(x_plane + (index_t)h * W + w_in) : 0.0f;
                }
                __syncthreads();

                // its windows: a weight serves all outputs of the thread; halo threads wait
                if (computes) {
                    const int weights = (first_k * C + c) * (R * S);   // this channel's first weight
#pragma unroll 1
                    for (int r = 0; r < R; ++r) {
#pragma unroll
                        for (int s = 0; s < S; ++s) {
                            const float in_p0 = tile[row_p0 + r][column + s];
                            const float in_p1 = tile[row_p1 + r][column + s];
                            const float in_p2 = tile[row_p2 + r][column + s];
                            const float w_k0 = filter_bank[weights + r * S + s];
                            const float w_k1 = filter_bank[weights + (C * R * S) + r * S + s];
                            acc_k0_p0 = fmaf(in_p0, w_k0, acc_k0_p0);
                            acc_k0_p1 = fmaf(in_p1, w_k0, acc_k0_p1);
                            acc_k0_p2 = fmaf(in_p2, w_k0, acc_k0_p2);
                            acc_k1_p0 = fmaf(in_p0, w_k1, acc_k1_p0);
                            acc_k1_p1 = fmaf(in_p1, w_k1, acc_k1_p1);
                            acc_k1_p2 = fmaf(in_p2, w_k1, acc_k1_p2);
                        }
                    }
                }
                __syncthreads();                                       // before the next tile takes its place
            }

            // the thread's outputs, those in the image
            if (computes && tile_p + row_p0 < P) {
                y_tile[(index_t)(tile_p + row_p0) * Q + q] = finish(acc_k0_p0, bias[first_k]);
                y_tile[plane_y + (index_t)(tile_p + row_p0) * Q + q] = finish(acc_k1_p0, bias[first_k + 1]);
            }
            if (computes && tile_p + row_p1 < P) {
                y_tile[(index_t)(tile_p + row_p1) * Q + q] = finish(acc_k0_p1, bias[first_k]);
                y_tile[plane_y + (index_t)(tile_p + row_p1) * Q + q] = finish(acc_k1_p1, bias[first_k + 1]);
            }
            if (computes && row + 2 * BLOCK_ROWS < OUT_TILE_H && tile_p + row_p2 < P) {
                y_tile[(index_t)(tile_p + row_p2) * Q + q] = finish(acc_k0_p2, bias[first_k]);
                y_tile[plane_y + (index_t)(tile_p + row_p2) * Q + q] = finish(acc_k1_p2, bias[first_k + 1]);
            }
        }
    }
}
