// warpconv 0.1.0: coarsened, float32. Generated from templates/course/coarsened.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --arch sm_90 --algorithm coarsened \
//     --set tile=32 --set walk=4 --set outputs=4 --set k_tile=1
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   a block walks over 4 input tiles of 32 x 32, 28 x 28 outputs each; a thread makes 4 of them, 32 x 7 threads;
//        the filter bank in constant memory
// cost   a warp's part of 4 input tiles: 19 warp loads, 0 shuffles, 400 FMA a lane, about 40 registers (direct: 400
//        loads)
//
// A block walks over input tiles, gridDim.y tiles from one to the next. It has fewer rows of threads than a tile: each
// thread loads several elements and makes 4 outputs, BLOCK_ROWS rows apart.
constexpr int C = 1;                            // channels of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int PAD_LEFT = 2;                     // columns of zeros to the left of the image
constexpr int IN_TILE = 32;                     // input rows and columns of a tile
constexpr int BLOCK_ROWS = 7;                   // rows of threads
constexpr int OUT_TILE_H = 28;                  // output rows whose windows lie in it
constexpr int OUT_TILE_W = 28;                  // output columns whose windows lie in it
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ float filter_bank[25];

extern "C" __global__ void __launch_bounds__(224, 7)
coarsened_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W,
        int P, int Q) {
    __shared__ float tile[IN_TILE][IN_TILE];
    const int row = threadIdx.y, column = threadIdx.x;                 // of this thread in the tile
    // the tile's rows that this thread makes
    const int row_p0 = row;
    const int row_p1 = row + BLOCK_ROWS;
    const int row_p2 = row + 2 * BLOCK_ROWS;
    const int row_p3 = row + 3 * BLOCK_ROWS;
    const int tile_q = blockIdx.x * OUT_TILE_W, q = tile_q + column;
    const int w_in = tile_q - PAD_LEFT + column;                       // input column that this thread loads
    const bool inside_w = w_in >= 0 && w_in < W, computes = column < OUT_TILE_W && q < Q;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image_group = z;
        const float* x_group = x + image_group * plane_x;
        float* y_tile = y + z * plane_y;

        for (int tile_p = blockIdx.y * OUT_TILE_H; tile_p < P; tile_p += gridDim.y * OUT_TILE_H) {
            const int tile_h = tile_p - PAD_TOP;                       // input row where the tile begins
            float acc_p0 = 0.0f, acc_p1 = 0.0f, acc_p2 = 0.0f, acc_p3 = 0.0f;
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
                    const int weights = c * (R * S);                   // this channel's first weight
#pragma unroll
                    for (int r = 0; r < R; ++r) {
#pragma unroll
                        for (int s = 0; s < S; ++s) {
                            const float in_p0 = tile[row_p0 + r][column + s];
                            const float in_p1 = tile[row_p1 + r][column + s];
                            const float in_p2 = tile[row_p2 + r][column + s];
                            const float in_p3 = tile[row_p3 + r][column + s];
                            const float w_k0 = filter_bank[weights + r * S + s];
                            acc_p0 = fmaf(in_p0, w_k0, acc_p0);
                            acc_p1 = fmaf(in_p1, w_k0, acc_p1);
                            acc_p2 = fmaf(in_p2, w_k0, acc_p2);
                            acc_p3 = fmaf(in_p3, w_k0, acc_p3);
                        }
                    }
                }
                __syncthreads();                                       // before the next tile takes its place
            }

            // the thread's outputs, those in the image
            if (computes && tile_p + row_p0 < P) {
                y_tile[(index_t)(tile_p + row_p0) * Q + q] = acc_p0;
            }
            if (computes && tile_p + row_p1 < P) {
                y_tile[(index_t)(tile_p + row_p1) * Q + q] = acc_p1;
            }
            if (computes && tile_p + row_p2 < P) {
                y_tile[(index_t)(tile_p + row_p2) * Q + q] = acc_p2;
            }
            if (computes && tile_p + row_p3 < P) {
                y_tile[(index_t)(tile_p + row_p3) * Q + q] = acc_p3;
            }
        }
    }
}
