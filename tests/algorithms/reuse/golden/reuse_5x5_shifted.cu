// warpconv 0.1.0: reuse, float32. Generated from templates/reuse/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --arch sm_90 --algorithm reuse \
//     --set exchange=select --set rows=reuse --set decomposition=paper --set weights=shared --set edges=direct \
//     --set sub_block_rows=56 --set warp_columns=1 --set warp_rows=4 --set k_tile=1 --set ring=shifted \
//     --set prefetch_rows=1 --set min_blocks=1
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one warp per sub-block of 56 rows x 32 columns, 4 warps per block; filter columns 5 = [5]
// cost   sub-block of 56 rows x 32 columns, 1 filter, all channels: 120 warp loads, 180 shuffles, 1400 FMA a lane,
//        about 57 registers (direct: 1400 loads)
//
// Column reuse: lane l needs in[l .. l+4]. It loads in[l], in[l+4]; its neighbours hold the rest.
//   in[l+2] is halfway between in[l] and in[l+4]: exchanged with lane l^2.
//   in[l+1] is halfway between in[l] and in[l+2]: exchanged with lane l^1.
//   in[l+3] is halfway between in[l+2] and in[l+4]: exchanged with lane l^1.
// Row reuse: an input row is loaded once and added to the 5 output rows that need it.
//   acc_p0 .. acc_p4 are the output rows in work, the oldest first; after each input row the oldest is
//   stored and the others move up by one register.
// Filter: a tile's weights are staged in shared memory once per block and image, then one register per weight.
constexpr int C = 1;                            // channels of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int PAD_LEFT = 2;                     // columns of zeros to the left of the image
constexpr int ROWS = 56;                        // output rows of a sub-block
constexpr int WARP_ROWS = 4;                    // warps of a block, stacked
constexpr int K_TILE = 1;                       // filters a warp works on at a time
constexpr int CHANNEL_STRIDE = 25;              // floats from one channel's weights to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

constexpr unsigned ALL_LANES = 0xffffffffu;

// The element halfway between `lo` (column c) and `hi` (column c + 2 step), for every lane.
__device__ __forceinline__ float between(float lo, float hi, int step) {
    const bool upper = threadIdx.x & step;
    return __shfl_xor_sync(ALL_LANES, upper ? lo : hi, step);
}

// Fast path. 32 lanes, one output column each: rows p0 .. p_end - 1 of a sub-block, no window touches padding.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* tile, float* __restrict__ y, int p0,
        int p_end, int q, int W, int Q) {
    // filter, one register per weight
    const float w_r0_s0 = tile[0], w_r0_s1 = tile[1], w_r0_s2 = tile[2], w_r0_s3 = tile[3], w_r0_s4 = tile[4];
    const float w_r1_s0 = tile[5], w_r1_s1 = tile[6], w_r1_s2 = tile[7], w_r1_s3 = tile[8], w_r1_s4 = tile[9];
    const float w_r2_s0 = tile[10], w_r2_s1 = tile[11], w_r2_s2 = tile[12], w_r2_s3 = tile[13], w_r2_s4 = tile[14];
    const float w_r3_s0 = tile[15], w_r3_s1 = tile[16], w_r3_s2 = tile[17], w_r3_s3 = tile[18], w_r3_s4 = tile[19];
    const float w_r4_s0 = tile[20], w_r4_s1 = tile[21], w_r4_s2 = tile[22], w_r4_s3 = tile[23], w_r4_s4 = tile[24];
    const float* row = x + (index_t)(p0 - PAD_TOP) * W + (q - PAD_LEFT);   // this lane's first column of the input row
    // this lane's column of the oldest output row
    float* out = y + (index_t)(p0 - (R - 1)) * Q + q;
    const int rows_in = p_end - p0 + R - 1;                                // input rows of this sub-block
    float acc_p0 = 0.0f, acc_p1 = 0.0f, acc_p2 = 0.0f, acc_p3 = 0.0f, acc_p4 = 0.0f;

    // `next` is the input row that was loaded ahead
    float next_c0 = __ldg(row);
    float next_c4 = __ldg(row + 4);
#pragma unroll 1
    for (int i = 0; i < rows_in; ++i) {
        const float in_c0 = next_c0;
        const float in_c4 = next_c4;
        row += W;
        const bool row_left = i + 1 < rows_in;
        next_c0 = row_left ? __ldg(row) : 0.0f;
        next_c4 = row_left ? __ldg(row + 4) : 0.0f;
        const float in_c2 = between(in_c0, in_c4, 2);
        const float in_c1 = between(in_c0, in_c2, 1);
        const float in_c3 = between(in_c2, in_c4, 1);
        acc_p0 =
            fmaf(in_c4, w_r4_s4,
            fmaf(in_c3, w_r4_s3, fmaf(in_c2, w_r4_s2, fmaf(in_c1, w_r4_s1, fmaf(in_c0, w_r4_s0, acc_p0)))));
        acc_p1 =
            fmaf(in_c4, w_r3_s4,
            fmaf(in_c3, w_r3_s3, fmaf(in_c2, w_r3_s2, fmaf(in_c1, w_r3_s1, fmaf(in_c0, w_r3_s0, acc_p1)))));
        acc_p2 =
            fmaf(in_c4, w_r2_s4,
            fmaf(in_c3, w_r2_s3, fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p2)))));
        acc_p3 =
            fmaf(in_c4, w_r1_s4,
            fmaf(in_c3, w_r1_s3, fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p3)))));
        acc_p4 =
            fmaf(in_c4, w_r0_s4,
            fmaf(in_c3, w_r0_s3, fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p4)))));
        // all 5 filter rows have been added to the oldest output row
        if (i >= R - 1) {
            out[0] = acc_p0;
        }
        acc_p0 = acc_p1; acc_p1 = acc_p2; acc_p2 = acc_p3; acc_p3 = acc_p4; acc_p4 = 0.0f;
        out += Q;
    }
}

// One output of each filter of the tile, tap by tap; taps in the padding are skipped.
__device__ __forceinline__ void direct_output(const float* __restrict__ x, const float* tile, float* __restrict__ y,
        int p, int q, int H, int W, int P, int Q) {
    for (int k = 0; k < K_TILE; ++k) {
        float sum = 0.0f;
        for (int c = 0; c < C; ++c) {
            const float* w_c = tile + (k * (index_t)C + c) * CHANNEL_STRIDE;
#pragma unroll 1
            for (int r = 0; r < R; ++r) {
                const int h = p - PAD_TOP + r;
                if (h < 0 || h >= H) continue;
                const float* row = x + (c * (index_t)H + h) * W;
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    const int column = q - PAD_LEFT + s;
                    const float in = (unsigned)column < (unsigned)W ? __ldg(row + column) : 0.0f;
                    sum = fmaf(in, w_c[r * S + s], sum);
                }
            }
        }
        y[(k * (index_t)P + p) * Q + q] = sum;
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

    // Inner outputs are those whose window touches no padding. A row of jobs has `whole` sub-blocks of them and one
    // job for the columns left over; one more row of jobs makes the frame above and below.
    const int inner_rows = max(0, H - R + 1), whole = max(0, W - S + 1) / 32;
    const int row_jobs = (inner_rows + ROWS - 1) / ROWS + 1;

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
        for (int row_job = first_row_job; row_job < row_jobs && column_job <= whole; row_job += gridDim.y * WARP_ROWS) {
            if (row_job == row_jobs - 1) {
                // the frame: output rows above and below the inner ones, 32 columns of them (the last job takes the
                // rest)
                const int first_q = column_job * 32, columns = column_job == whole ? Q - first_q : 32;
                for (int i = lane; i < (P - inner_rows) * columns; i += 32) {
                    const int row = i / columns;
                    direct_output(x_group, tile, y_tile, row < PAD_TOP ? row : row + inner_rows, first_q + i % columns,
                        H, W, P, Q);
                }
                continue;
            }
            const int p0 = PAD_TOP + row_job * ROWS, p_end = min(p0 + ROWS, PAD_TOP + inner_rows);
            if (column_job < whole) {          // 32 columns are left: the same for all lanes of a warp
                sub_block(x_group, tile, y_tile, p0, p_end, PAD_LEFT + column_job * 32 + lane, W, Q);
                continue;
            }
            // the last sub-block and the columns that touch padding, divided evenly among the lanes
            const int columns = Q - whole * 32;
            for (int i = lane; i < (p_end - p0) * columns; i += 32) {
                const int column = i % columns;
                direct_output(x_group, tile, y_tile, p0 + i / columns, column < PAD_LEFT ? column : column + whole * 32,
                    H, W, P, Q);
            }
        }
    }
}
