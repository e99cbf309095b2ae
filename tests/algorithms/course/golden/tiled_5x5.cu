// warpconv 0.1.0: tiled, float32. Generated from templates/course/tiled.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --arch sm_90 --algorithm tiled \
//     --set tile=32 --set k_tile=1
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per element of an input tile of 32 x 32, which makes 28 x 28 outputs; the filter bank in constant
//        memory
// cost   a warp's part of an input tile: 1 warp loads, 0 shuffles, 25 FMA a lane, about 32 registers (direct: 25 loads)
//
// A block has a thread for each element of its input tile. All threads load; those that would stand for the halo's
// outputs are idle while the others compute from shared memory.
constexpr int C = 1;                            // channels of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int PAD_LEFT = 2;                     // columns of zeros to the left of the image
constexpr int IN_TILE = 32;                     // input rows and columns of a tile, and of threads
constexpr int OUT_TILE_H = 28;                  // output rows whose windows lie in it
constexpr int OUT_TILE_W = 28;                  // output columns whose windows lie in it
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ float filter_bank[25];

extern "C" __global__ void __launch_bounds__(1024, 2)
tiled_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    __shared__ float tile[IN_TILE][IN_TILE];
    const int row = threadIdx.y, column = threadIdx.x;                 // of this thread in the tile
    const int tile_q = blockIdx.x * OUT_TILE_W, q = tile_q + column;
    const int w_in = tile_q - PAD_LEFT + column;                       // input column that this thread loads
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image_group = z;
        const float* x_group = x + image_group * plane_x;
        float* y_tile = y + z * plane_y;

        for (int tile_p = blockIdx.y * OUT_TILE_H; tile_p < P; tile_p += gridDim.y * OUT_TILE_H) {
            const int p = tile_p + row;
            const int h_in = tile_p - PAD_TOP + row;                   // input row that this thread loads
            const bool inside = h_in >= 0 && h_in < H && w_in >= 0 && w_in < W;
            const bool computes = row < OUT_TILE_H && column < OUT_TILE_W && p < P && q < Q;
            float acc = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                // the tile of this channel; zeros outside the image
                const float* x_plane = x_group + c * plane_x;
                tile[row][column] = inside ? __ldg(x_plane + (index_t)h_in * W + w_in) : 0.0f;
                __syncthreads();

                // its windows; halo threads wait
                if (computes) {
                    const int weights = c * (R * S);                   // this channel's first weight
#pragma unroll
                    for (int r = 0; r < R; ++r) {
#pragma unroll
                        for (int s = 0; s < S; ++s) {
                            const float in = tile[row + r][column + s];
                            acc = fmaf(in, filter_bank[weights + r * S + s], acc);
                        }
                    }
                }
                __syncthreads();                                       // before the next tile takes its place
            }

            // the thread's output
            if (computes) {
                y_tile[(index_t)p * Q + q] = acc;
            }
        }
    }
}
