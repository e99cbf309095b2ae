// warpconv 0.1.0: reuse, float32. Generated from templates/reuse/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --padding-mode replicate --arch sm_90 \
//     --algorithm reuse \
//     --set exchange=none --set rows=reload --set decomposition=paper --set weights=shared --set edges=predicated \
//     --set sub_block_rows=56 --set warp_columns=1 --set warp_rows=4 --set k_tile=1 --set prefetch_rows=1 \
//     --set min_blocks=1
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2 (replicate), float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one warp per sub-block of 56 rows x 32 columns, 4 warps per block; filter columns 5 = [1, 1, 1, 1, 1]
// cost   sub-block of 56 rows x 32 columns, 1 filter, all channels: 1400 warp loads, 0 shuffles, 1400 FMA a lane, about
//        80 registers (direct: 1400 loads)
//
// Columns: every lane loads all 5 columns of its window (no exchange).
// Rows: each output row loads its 5 input rows anew (no row reuse).
// Filter: a tile's weights are staged in shared memory once per block and image, then one register per weight.
constexpr int C = 1;                            // channels of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int PAD_LEFT = 2;                     // columns to the left of the image
constexpr int ROWS = 56;                        // output rows of a sub-block
constexpr int WARP_ROWS = 4;                    // warps of a block, stacked
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: the nearest.
__device__ __forceinline__ int at_border(int i, int size) {
    return min(max(i, 0), size - 1);
}

// 32 lanes, one output column each: rows p0 .. p_end - 1 of a sub-block; loads outside the image give the border's
// pixels.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* tile, float* __restrict__ y, int p0,
        int p_end, int q, int H, int W, int Q) {
    // filter, one register per weight
    const float w_r0_s0 = tile[0], w_r0_s1 = tile[1], w_r0_s2 = tile[2], w_r0_s3 = tile[3], w_r0_s4 = tile[4];
    const float w_r1_s0 = tile[5], w_r1_s1 = tile[6], w_r1_s2 = tile[7], w_r1_s3 = tile[8], w_r1_s4 = tile[9];
    const float w_r2_s0 = tile[10], w_r2_s1 = tile[11], w_r2_s2 = tile[12], w_r2_s3 = tile[13], w_r2_s4 = tile[14];
    const float w_r3_s0 = tile[15], w_r3_s1 = tile[16], w_r3_s2 = tile[17], w_r3_s3 = tile[18], w_r3_s4 = tile[19];
    const float w_r4_s0 = tile[20], w_r4_s1 = tile[21], w_r4_s2 = tile[22], w_r4_s3 = tile[23], w_r4_s4 = tile[24];
    // this lane's columns, outside of the image where the border has them: its first one, and the others from there
    const int column_c0 = at_border(q - PAD_LEFT, W);
    const int from_c1 = at_border(q - PAD_LEFT + 1, W) - column_c0;
    const int from_c2 = at_border(q - PAD_LEFT + 2, W) - column_c0;
    const int from_c3 = at_border(q - PAD_LEFT + 3, W) - column_c0;
    const int from_c4 = at_border(q - PAD_LEFT + 4, W) - column_c0;
    const float* first_row = x + column_c0;
    const index_t plane_x = (index_t)H * W;                                // elements of one channel's plane
    const float* row = first_row + (index_t)(p0 - PAD_TOP) * W;            // this lane's first column of the input row
    float* out = y + (index_t)p0 * Q + q;                                  // this lane's column of the row in work
#pragma unroll 1
    for (int p = p0; p < p_end; ++p) {
        float acc_k0 = 0.0f;
#pragma unroll 1
        for (int c = 0; c < C; ++c) {
            const float* row_c = row + c * plane_x;
            {   // filter row 0
                const float* row_h = row_c;
                if ((unsigned)(p - PAD_TOP) >= (unsigned)H) row_h = first_row + c * plane_x
                    + (index_t)at_border(p - PAD_TOP, H) * W;
                const float in_c0 = __ldg(row_h);
                const float in_c1 = __ldg(row_h + from_c1);
                const float in_c2 = __ldg(row_h + from_c2);
                const float in_c3 = __ldg(row_h + from_c3);
                const float in_c4 = __ldg(row_h + from_c4);
                                acc_k0 =
                                    fmaf(in_c4, w_r0_s4,
                                    fmaf(in_c3, w_r0_s3,
                                    fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_k0)))));
                row_c += W;
            }
            {   // filter row 1
                const float* row_h = row_c;
                if ((unsigned)(p - PAD_TOP + 1) >= (unsigned)H) row_h = first_row + c * plane_x
                    + (index_t)at_border(p - PAD_TOP + 1, H) * W;
                const float in_c0 = __ldg(row_h);
                const float in_c1 = __ldg(row_h + from_c1);
                const float in_c2 = __ldg(row_h + from_c2);
                const float in_c3 = __ldg(row_h + from_c3);
                const float in_c4 = __ldg(row_h + from_c4);
                                acc_k0 =
                                    fmaf(in_c4, w_r1_s4,
                                    fmaf(in_c3, w_r1_s3,
                                    fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_k0)))));
                row_c += W;
            }
            {   // filter row 2
                const float* row_h = row_c;
                if ((unsigned)(p - PAD_TOP + 2) >= (unsigned)H) row_h = first_row + c * plane_x
                    + (index_t)at_border(p - PAD_TOP + 2, H) * W;
                const float in_c0 = __ldg(row_h);
                const float in_c1 = __ldg(row_h + from_c1);
                const float in_c2 = __ldg(row_h + from_c2);
                const float in_c3 = __ldg(row_h + from_c3);
                const float in_c4 = __ldg(row_h + from_c4);
                                acc_k0 =
                                    fmaf(in_c4, w_r2_s4,
                                    fmaf(in_c3, w_r2_s3,
                                    fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_k0)))));
                row_c += W;
            }
            {   // filter row 3
                const float* row_h = row_c;
                if ((unsigned)(p - PAD_TOP + 3) >= (unsigned)H) row_h = first_row + c * plane_x
                    + (index_t)at_border(p - PAD_TOP + 3, H) * W;
                const float in_c0 = __ldg(row_h);
                const float in_c1 = __ldg(row_h + from_c1);
                const float in_c2 = __ldg(row_h + from_c2);
                const float in_c3 = __ldg(row_h + from_c3);
                const float in_c4 = __ldg(row_h + from_c4);
                                acc_k0 =
                                    fmaf(in_c4, w_r3_s4,
                                    fmaf(in_c3, w_r3_s3,
                                    fmaf(in_c2, w_r3_s2, fmaf(in_c1, w_r3_s1, fmaf(in_c0, w_r3_s0, acc_k0)))));
                row_c += W;
            }
            {   // filter row 4
                const float* row_h = row_c;
                if ((unsigned)(p - PAD_TOP + 4) >= (unsigned)H) row_h = first_row + c * plane_x
                    + (index_t)at_border(p - PAD_TOP + 4, H) * W;
                const float in_c0 = __ldg(row_h);
                const float in_c1 = __ldg(row_h + from_c1);
                const float in_c2 = __ldg(row_h + from_c2);
                const float in_c3 = __ldg(row_h + from_c3);
                const float in_c4 = __ldg(row_h + from_c4);
                                acc_k0 =
                                    fmaf(in_c4, w_r4_s4,
                                    fmaf(in_c3, w_r4_s3,
                                    fmaf(in_c2, w_r4_s2, fmaf(in_c1, w_r4_s1, fmaf(in_c0, w_r4_s0, acc_k0)))));
                row_c += W;
            }
        }
        if (q < Q) out[0] = acc_k0;
        out += Q;
        row += W;
    }
}

extern "C" __global__ void __launch_bounds__(128, 1)
reuse_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    __shared__ __align__(16) float tile[25];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column_job = blockIdx.x;
    const int first_row_job = blockIdx.y * WARP_ROWS + warp;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;
    const int q = column_job * 32 + lane;      // output column of this lane; lanes past Q still take part in exchanges
    const int row_jobs = (P + ROWS - 1) / ROWS;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const float* x_group = x + z * plane_x;
        float* y_tile = y + z * plane_y;

        // stage the tile's weights; the first barrier keeps the last round's in place until all have used them
        __syncthreads();
        const float* w_tile = w;
        for (int i = threadIdx.x; i < R * S; i += 128) {
            tile[i] = w_tile[i];
        }
        __syncthreads();
        if (column_job * 32 < Q) {             // the same for all lanes of a warp
            for (int row_job = first_row_job; row_job < row_jobs; row_job += gridDim.y * WARP_ROWS) {
                const int p0 = row_job * ROWS;
                sub_block(x_group, tile, y_tile, p0, min(p0 + ROWS, P), q, H, W, Q);
            }
        }
    }
}
