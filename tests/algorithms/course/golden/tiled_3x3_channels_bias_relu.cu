// warpconv 0.1.0: tiled, float32. Generated from templates/course/tiled.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 8,3,3 --padding 1 --epilogue bias,relu --arch sm_90 --algorithm tiled \
//     --set tile=16 --set k_tile=4
//
// layer  x[N, 3, H, W] * w[8, 3, 3, 3] -> y[N, 8, P, Q], stride 1, padding 1, float32, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per element of an input tile of 16 x 16, which makes 14 x 14 outputs, 4 filters at a time; the
//        filter bank in constant memory
// cost   a warp's part of an input tile: 3 warp loads, 0 shuffles, 108 FMA a lane, about 48 registers (direct: 27
//        loads)
//
// A block has a thread for each element of its input tile. All threads load; those that would stand for the halo's
// outputs are idle while the others compute from shared memory.
constexpr int C = 3;                            // channels of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int K_TILE = 4;                       // filters a block makes at a time
constexpr int K_TILES = 2;                      // tiles of filters in a group
constexpr int IN_TILE = 16;                     // input rows and columns of a tile, and of threads
constexpr int OUT_TILE_H = 14;                  // output rows whose windows lie in it
constexpr int OUT_TILE_W = 14;                  // output columns whose windows lie in it
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ float filter_bank[216];

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

extern "C" __global__ void __launch_bounds__(256, 5)
tiled_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ float tile[IN_TILE][IN_TILE];
    const int row = threadIdx.y, column = threadIdx.x;                 // of this thread in the tile
    const int tile_q = blockIdx.x * OUT_TILE_W, q = tile_q + column;
    const int w_in = tile_q - PAD_LEFT + column;                       // input column that this thread loads
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * K_TILES; z += gridDim.z) {
        const index_t image_group = z / K_TILES;
        const int first_k = (int)(z % K_TILES) * K_TILE;               // first filter of this tile, among all K
        const float* x_group = x + image_group * C * plane_x;
        float* y_tile = y + z * K_TILE * plane_y;

        for (int tile_p = blockIdx.y * OUT_TILE_H; tile_p < P; tile_p += gridDim.y * OUT_TILE_H) {
            const int p = tile_p + row;
            const int h_in = tile_p - PAD_TOP + row;                   // input row that this thread loads
            const bool inside = h_in >= 0 && h_in < H && w_in >= 0 && w_in < W;
            const bool computes = row < OUT_TILE_H && column < OUT_TILE_W && p < P && q < Q;
            float acc_k0 = 0.0f;
            float acc_k1 = 0.0f;
            float acc_k2 = 0.0f;
            float acc_k3 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                // the tile of this channel; zeros outside the image
                const float* x_plane = x_group + c * plane_x;
                tile[row][column] = inside ? __ldg(x_plane + (index_t)h_in * W + w_in) : 0.0f;
                __syncthreads();

                // its windows; halo threads wait
                if (computes) {
                    const int weights = (first_k * C + c) * (R * S);   // this channel's first weight
#pragma unroll
                    for (int r = 0; r < R; ++r) {
#pragma unroll
                        for (int s = 0; s < S; ++s) {
                            const float in = tile[row + r][column + s];
                            acc_k0 = fmaf(in, filter_bank[weights + r * S + s], acc_k0);
                            acc_k1 = fmaf(in, filter_bank[weights + (C * R * S) + r * S + s], acc_k1);
                            acc_k2 = fmaf(in, filter_bank[weights + 2 * (C * R * S) + r * S + s], acc_k2);
                            acc_k3 = fmaf(in, filter_bank[weights + 3 * (C * R * S) + r * S + s], acc_k3);
                        }
                    }
                }
                __syncthreads();                                       // before the next tile takes its place
            }

            // the thread's outputs, one of each filter
            if (computes) {
                y_tile[(index_t)p * Q + q] = finish(acc_k0, bias[first_k]);
                y_tile[plane_y + (index_t)p * Q + q] = finish(acc_k1, bias[first_k + 1]);
                y_tile[2 * plane_y + (index_t)p * Q + q] = finish(acc_k2, bias[first_k + 2]);
                y_tile[3 * plane_y + (index_t)p * Q + q] = finish(acc_k3, bias[first_k + 3]);
            }
        }
    }
}
