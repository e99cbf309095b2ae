// warpconv 0.1.0: halo_cached, float32. Generated from templates/course/halo_cached.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --arch sm_90 --algorithm halo_cached \
//     --set tile=32 --set k_tile=1
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output of a tile of 32 x 32, its own part of the image in shared memory, 7.4 % of its reads
//        outside; the filter bank in constant memory
// cost   a warp's part of a tile: 22 warp loads, 0 shuffles, 25 FMA a lane, about 54 registers (direct: 25 loads)
//
// A block has a thread for each output of its tile, and its own part of the image in shared memory: no halo. Halo cells
// are read from global memory; the blocks they belong to have most likely brought them to the second-level cache.
constexpr int C = 1;                            // channels of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int PAD_LEFT = 2;                     // columns of zeros to the left of the image
constexpr int TILE = 32;                        // output rows and columns of a block, and of threads
constexpr int OWN_H = 32;                       // input rows of the block's own part
constexpr int OWN_W = 32;                       // input columns of the block's own part
constexpr int CENTER_H = 2;                     // rows of a window before its middle tap
constexpr int CENTER_W = 2;                     // columns of a window before its middle tap
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ float filter_bank[25];

extern "C" __global__ void __launch_bounds__(1024, 1)
halo_cached_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W,
        int P, int Q) {
    __shared__ float own[OWN_H][OWN_W];
    const int row = threadIdx.y, column = threadIdx.x;                 // of this thread in the tile
    const int q = blockIdx.x * TILE + column;
    const int own_w = blockIdx.x * TILE - PAD_LEFT + CENTER_W;               // input column where the own part begins
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image_group = z;
        const float* x_group = x + image_group * plane_x;
        float* y_tile = y + z * plane_y;

        for (int tile_p = blockIdx.y * TILE; tile_p < P; tile_p += gridDim.y * TILE) {
            const int p = tile_p + row;
            const int own_h = tile_p - PAD_TOP + CENTER_H;             // input row where the own part begins
            float acc = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                // the own part of this channel; zeros outside the image
                const float* x_plane = x_group + c * plane_x;
                for (int i = row; i < OWN_H; i += TILE) {
                    for (int j = column; j < OWN_W; j += TILE) {
                        const int h = own_h + i, w_in = own_w + j;
                        const bool inside = h >= 0 && h < H && w_in >= 0 && w_in < W;
                        own[i][j] = inside ? __ldg(x_plane + (index_t)h * W + w_in) : 0.0f;
                    }
                }
                __syncthreads();

                // the window: each tap from the own part, or from the halo, or zero outside the image
                if (p < P && q < Q) {
                    const int weights = c * (R * S);                   // this channel's first weight
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        const int i = row + r - CENTER_H, h = own_h + i;
#pragma unroll
                        for (int s = 0; s < S; ++s) {
                            const int j = column + s - CENTER_W, w_in = own_w + j;
                            float in = 0.0f;
                            if (i >= 0 && i < OWN_H && j >= 0 && j < OWN_W)
                                in = own[i][j];
                            else if (h >= 0 && h < H && w_in >= 0 && w_in < W)
                                in = __ldg(x_plane + (index_t)h * W + w_in);
                            acc = fmaf(in, filter_bank[weights + r * S + s], acc);
                        }
                    }
                }
                __syncthreads();                                       // before the next channel takes its place
            }

            // the thread's output
            if (p < P && q < Q) {
                y_tile[(index_t)p * Q + q] = acc;
            }
        }
    }
}
