// warpconv 0.1.0: halo_cached, bfloat16. Generated from templates/course/halo_cached.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,2,H,W --filter 2,3,3 --stride 2,2 --padding 1 --dtype bfloat16 --arch sm_90 \
//     --algorithm halo_cached \
//     --set tile=16 --set k_tile=2
//
// layer  x[N, 2, H, W] * w[2, 2, 3, 3] -> y[N, 2, P, Q], stride 2, padding 1, bfloat16
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread per output of a tile of 16 x 16, 2 filters at a time, its own part of the image in shared memory,
//        4.1 % of its reads outside; the filter bank in constant memory
// cost   a warp's part of a tile: 15 warp loads, 0 shuffles, 36 FMA a lane, about 56 registers (direct: 18 loads)
//
// A block has a thread for each output of its tile, and its own part of the image in shared memory: no halo. Halo cells
// are read from global memory; the blocks they belong to have most likely brought them to the second-level cache.
constexpr int C = 2;                            // channels of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int K_TILE = 2;                       // filters a block makes at a time
constexpr int TILE = 16;                        // output rows and columns of a block, and of threads
constexpr int OWN_H = 32;                       // input rows of the block's own part
constexpr int OWN_W = 32;                       // input columns of the block's own part
constexpr int CENTER_H = 1;                     // rows of a window before its middle tap
constexpr int CENTER_W = 1;                     // columns of a window before its middle tap
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// All filters. The run time copies them here once; a warp reads one weight at a time, the same for all its lanes.
__constant__ unsigned short filter_bank[36];

extern "C" __global__ void __launch_bounds__(256, 4)
halo_cached_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ float own[OWN_H][OWN_W];
    const int row = threadIdx.y, column = threadIdx.x;                 // of this thread in the tile
    const int q = blockIdx.x * TILE + column;
    const int own_w = blockIdx.x * TILE * STRIDE_W - PAD_LEFT + CENTER_W;    // input column where the own part begins
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const index_t image_group = z;
        const unsigned short* x_group = x + image_group * C * plane_x;
        unsigned short* y_tile = y + z * K_TILE * plane_y;

        for (int tile_p = blockIdx.y * TILE; tile_p < P; tile_p += gridDim.y * TILE) {
            const int p = tile_p + row;
            const int own_h = tile_p * STRIDE_H - PAD_TOP + CENTER_H;  // input row where the own part begins
            float acc_k0 = 0.0f;
            float acc_k1 = 0.0f;
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                // the own part of this channel; zeros outside the image
                const unsigned short* x_plane = x_group + c * plane_x;
                for (int i = row; i < OWN_H; i += TILE) {
                    for (int j = column; j < OWN_W; j += TILE) {
                        const int h = own_h + i, w_in = own_w + j;
                        const bool inside = h >= 0 && h < H && w_in >= 0 && w_in < W;
                        own[i][j] = inside ? wc_bfloat16_to_float(__ldg(x_plane + (index_t)h * W + w_in)) : 0.0f;
                    }
                }
                __syncthreads();

                // the window: each tap from the own part, or from the halo, or zero outside the image
                if (p < P && q < Q) {
                    const int weights = c * (R * S);                   // this channel's first weight
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        const int i = row * STRIDE_H + r - CENTER_H, h = own_h + i;
#pragma unroll
                        for (int s = 0; s < S; ++s) {
                            const int j = column * STRIDE_W + s - CENTER_W, w_in = own_w + j;
                            float in = 0.0f;
                            if (i >= 0 && i < OWN_H && j >= 0 && j < OWN_W)
                                in = own[i][j];
                            else if (h >= 0 && h < H && w_in >= 0 && w_in < W)
                                in = wc_bfloat16_to_float(__ldg(x_plane + (index_t)h * W + w_in));
                            acc_k0 = fmaf(in, wc_bfloat16_to_float(filter_bank[weights + r * S + s]), acc_k0);
                            acc_k1 =
                                fmaf(in, wc_bfloat16_to_float(filter_bank[weights + (C * R * S) + r * S + s]), acc_k1);
                        }
                    }
                }
                __syncthreads();                                       // before the next channel takes its place
            }

            // the thread's outputs, one of each filter
            if (p < P && q < Q) {
                y_tile[(index_t)p * Q + q] = wc_float_to_bfloat16(acc_k0);
                y_tile[plane_y + (index_t)p * Q + q] = wc_float_to_bfloat16(acc_k1);
            }
        }
    }
}
