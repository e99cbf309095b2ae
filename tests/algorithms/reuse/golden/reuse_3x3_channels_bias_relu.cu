// warpconv 0.1.0: reuse, float32. Generated from templates/reuse/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 8,3,3 --padding 1 --epilogue bias,relu --arch sm_90 --algorithm reuse \
//     --set exchange=select --set rows=reuse --set decomposition=paper --set weights=shared --set edges=direct \
//     --set sub_block_rows=56 --set warp_columns=1 --set warp_rows=4 --set k_tile=4 --set ring=turning \
//     --set prefetch_rows=1 --set min_blocks=1
//
// layer  x[N, 3, H, W] * w[8, 3, 3, 3] -> y[N, 8, P, Q], stride 1, padding 1, float32, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one warp per sub-block of 56 rows x 32 columns, 4 warps per block; filter columns 3 = [3]
// cost   sub-block of 56 rows x 32 columns, 4 filters, all channels: 348 warp loads, 174 shuffles, 6048 FMA a lane,
//        about 71 registers (direct: 1512 loads)
//
// Column reuse: lane l needs in[l .. l+2]. It loads in[l], in[l+2]; its neighbours hold the rest.
//   in[l+1] is halfway between in[l] and in[l+2]: exchanged with lane l^1.
// Row reuse: an input row is loaded once and added to the 3 output rows that need it.
//   acc_p0 .. acc_p2 are a ring: the row that completes is stored, its accumulator starts the next.
// Filter: a tile's weights are staged in shared memory once per block and image.
constexpr int C = 3;                            // channels of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int ROWS = 56;                        // output rows of a sub-block
constexpr int WARP_ROWS = 4;                    // warps of a block, stacked
constexpr int K_TILE = 4;                       // filters a warp works on at a time
constexpr int K_TILES = 2;                      // tiles of filters in a group
constexpr int CHANNEL_STRIDE = 12;              // floats from one channel's weights to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

constexpr unsigned ALL_LANES = 0xffffffffu;

// The element halfway between `lo` (column c) and `hi` (column c + 2 step), for every lane.
__device__ __forceinline__ float between(float lo, float hi, int step) {
    const bool upper = threadIdx.x & step;
    return __shfl_xor_sync(ALL_LANES, upper ? lo : hi, step);
}

// Fast path. 32 lanes, one output column each: rows p0 .. p_end - 1 of a sub-block, no window touches padding.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* tile, float* __restrict__ y,
        const float* __restrict__ bias, int p0, int p_end, int q, int H, int W, int P, int Q) {
    const float bias_k0 = bias[0], bias_k1 = bias[1], bias_k2 = bias[2], bias_k3 = bias[3];
    const index_t plane_x = (index_t)H * W;                                // elements of one channel's plane
    const index_t plane_y = (index_t)P * Q;                                // elements of one filter's plane
    const float* row = x + (index_t)(p0 - PAD_TOP) * W + (q - PAD_LEFT);   // this lane's first column of the input row
    float* out = y + (index_t)p0 * Q + q;                                  // this lane's column of the output row
    const index_t pitch = W;
    const int rows_in = p_end - p0 + R - 1;                                // input rows of this sub-block
    float acc_k0_p0 = 0.0f, acc_k0_p1 = 0.0f, acc_k0_p2 = 0.0f;
    float acc_k1_p0 = 0.0f, acc_k1_p1 = 0.0f, acc_k1_p2 = 0.0f;
    float acc_k2_p0 = 0.0f, acc_k2_p1 = 0.0f, acc_k2_p2 = 0.0f;
    float acc_k3_p0 = 0.0f, acc_k3_p1 = 0.0f, acc_k3_p2 = 0.0f;

    // One turn of the ring: input rows i .. i + 2, those before `end`. The text stands once and is compiled
    // twice: for whole turns, where every row is there, and for the last one.
    auto turn = [&](int i, int end) __attribute__((always_inline)) {
        {   // input row i
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* row_c = row + c * plane_x;
                const float* w_k0 = tile + (index_t)c * CHANNEL_STRIDE;
                const float* w_k1 = tile + (C + (index_t)c) * CHANNEL_STRIDE;
                const float* w_k2 = tile + (2 * C + (index_t)c) * CHANNEL_STRIDE;
                const float* w_k3 = tile + (3 * C + (index_t)c) * CHANNEL_STRIDE;
                const float in_c0 = __ldg(row_c);
                const float in_c2 = __ldg(row_c + 2);
                const float in_c1 = between(in_c0, in_c2, 1);
                acc_k0_p0 = fmaf(in_c2, w_k0[2], fmaf(in_c1, w_k0[1], fmaf(in_c0, w_k0[0], acc_k0_p0)));
                acc_k0_p2 = fmaf(in_c2, w_k0[5], fmaf(in_c1, w_k0[4], fmaf(in_c0, w_k0[3], acc_k0_p2)));
                acc_k0_p1 = fmaf(in_c2, w_k0[8], fmaf(in_c1, w_k0[7], fmaf(in_c0, w_k0[6], acc_k0_p1)));
                acc_k1_p0 = fmaf(in_c2, w_k1[2], fmaf(in_c1, w_k1[1], fmaf(in_c0, w_k1[0], acc_k1_p0)));
                acc_k1_p2 = fmaf(in_c2, w_k1[5], fmaf(in_c1, w_k1[4], fmaf(in_c0, w_k1[3], acc_k1_p2)));
                acc_k1_p1 = fmaf(in_c2, w_k1[8], fmaf(in_c1, w_k1[7], fmaf(in_c0, w_k1[6], acc_k1_p1)));
                acc_k2_p0 = fmaf(in_c2, w_k2[2], fmaf(in_c1, w_k2[1], fmaf(in_c0, w_k2[0], acc_k2_p0)));
                acc_k2_p2 = fmaf(in_c2, w_k2[5], fmaf(in_c1, w_k2[4], fmaf(in_c0, w_k2[3], acc_k2_p2)));
                acc_k2_p1 = fmaf(in_c2, w_k2[8], fmaf(in_c1, w_k2[7], fmaf(in_c0, w_k2[6], acc_k2_p1)));
                acc_k3_p0 = fmaf(in_c2, w_k3[2], fmaf(in_c1, w_k3[1], fmaf(in_c0, w_k3[0], acc_k3_p0)));
                acc_k3_p2 = fmaf(in_c2, w_k3[5], fmaf(in_c1, w_k3[4], fmaf(in_c0, w_k3[3], acc_k3_p2)));
                acc_k3_p1 = fmaf(in_c2, w_k3[8], fmaf(in_c1, w_k3[7], fmaf(in_c0, w_k3[6], acc_k3_p1)));
            }
            // all 3 filter rows have been added to the output row that began 2 rows ago
            if (i > 0) {
                out[-2 * (index_t)Q] = finish(acc_k0_p1, bias_k0);
                out[-2 * (index_t)Q + plane_y] = finish(acc_k1_p1, bias_k1);
                out[-2 * (index_t)Q + 2 * plane_y] = finish(acc_k2_p1, bias_k2);
                out[-2 * (index_t)Q + 3 * plane_y] = finish(acc_k3_p1, bias_k3);
            }
            acc_k0_p1 = acc_k1_p1 = acc_k2_p1 = acc_k3_p1 = 0.0f;
        }
        if (i + 1 < end) {   // input row i + 1
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* row_c = row + pitch + c * plane_x;
                const float* w_k0 = tile + (index_t)c * CHANNEL_STRIDE;
                const float* w_k1 = tile + (C + (index_t)c) * CHANNEL_STRIDE;
                const float* w_k2 = tile + (2 * C + (index_t)c) * CHANNEL_STRIDE;
                const float* w_k3 = tile + (3 * C + (index_t)c) * CHANNEL_STRIDE;
                const float in_c0 = __ldg(row_c);
                const float in_c2 = __ldg(row_c + 2);
                const float in_c1 = between(in_c0, in_c2, 1);
                acc_k0_p1 = fmaf(in_c2, w_k0[2], fmaf(in_c1, w_k0[1], fmaf(in_c0, w_k0[0], acc_k0_p1)));
                acc_k0_p0 = fmaf(in_c2, w_k0[5], fmaf(in_c1, w_k0[4], fmaf(in_c0, w_k0[3], acc_k0_p0)));
                acc_k0_p2 = fmaf(in_c2, w_k0[8], fmaf(in_c1, w_k0[7], fmaf(in_c0, w_k0[6], acc_k0_p2)));
                acc_k1_p1 = fmaf(in_c2, w_k1[2], fmaf(in_c1, w_k1[1], fmaf(in_c0, w_k1[0], acc_k1_p1)));
                acc_k1_p0 = fmaf(in_c2, w_k1[5], fmaf(in_c1, w_k1[4], fmaf(in_c0, w_k1[3], acc_k1_p0)));
                acc_k1_p2 = fmaf(in_c2, w_k1[8], fmaf(in_c1, w_k1[7], fmaf(in_c0, w_k1[6], acc_k1_p2)));
                acc_k2_p1 = fmaf(in_c2, w_k2[2], fmaf(in_c1, w_k2[1], fmaf(in_c0, w_k2[0], acc_k2_p1)));
                acc_k2_p0 = fmaf(in_c2, w_k2[5], fmaf(in_c1, w_k2[4], fmaf(in_c0, w_k2[3], acc_k2_p0)));
                acc_k2_p2 = fmaf(in_c2, w_k2[8], fmaf(in_c1, w_k2[7], fmaf(in_c0, w_k2[6], acc_k2_p2)));
                acc_k3_p1 = fmaf(in_c2, w_k3[2], fmaf(in_c1, w_k3[1], fmaf(in_c0, w_k3[0], acc_k3_p1)));
                acc_k3_p0 = fmaf(in_c2, w_k3[5], fmaf(in_c1, w_k3[4], fmaf(in_c0, w_k3[3], acc_k3_p0)));
                acc_k3_p2 = fmaf(in_c2, w_k3[8], fmaf(in_c1, w_k3[7], fmaf(in_c0, w_k3[6], acc_k3_p2)));
            }
            // all 3 filter rows have been added to the output row that began 2 rows ago
            if (i > 0) {
                out[-(index_t)Q] = finish(acc_k0_p2, bias_k0);
                out[-(index_t)Q + plane_y] = finish(acc_k1_p2, bias_k1);
                out[-(index_t)Q + 2 * plane_y] = finish(acc_k2_p2, bias_k2);
                out[-(index_t)Q + 3 * plane_y] = finish(acc_k3_p2, bias_k3);
            }
            acc_k0_p2 = acc_k1_p2 = acc_k2_p2 = acc_k3_p2 = 0.0f;
        }
        if (i + 2 < end) {   // input row i + 2
#pragma unroll 1
            for (int c = 0; c < C; ++c) {
                const float* row_c = row + 2 * pitch + c * plane_x;
                const float* w_k0 = tile + (index_t)c * CHANNEL_STRIDE;
                const float* w_k1 = tile + (C + (index_t)c) * CHANNEL_STRIDE;
                const float* w_k2 = tile + (2 * C + (index_t)c) * CHANNEL_STRIDE;
                const float* w_k3 = tile + (3 * C + (index_t)c) * CHANNEL_STRIDE;
                const float in_c0 = __ldg(row_c);
                const float in_c2 = __ldg(row_c + 2);
                const float in_c1 = between(in_c0, in_c2, 1);
                acc_k0_p2 = fmaf(in_c2, w_k0[2], fmaf(in_c1, w_k0[1], fmaf(in_c0, w_k0[0], acc_k0_p2)));
                acc_k0_p1 = fmaf(in_c2, w_k0[5], fmaf(in_c1, w_k0[4], fmaf(in_c0, w_k0[3], acc_k0_p1)));
                acc_k0_p0 = fmaf(in_c2, w_k0[8], fmaf(in_c1, w_k0[7], fmaf(in_c0, w_k0[6], acc_k0_p0)));
                acc_k1_p2 = fmaf(in_c2, w_k1[2], fmaf(in_c1, w_k1[1], fmaf(in_c0, w_k1[0], acc_k1_p2)));
                acc_k1_p1 = fmaf(in_c2, w_k1[5], fmaf(in_c1, w_k1[4], fmaf(in_c0, w_k1[3], acc_k1_p1)));
                acc_k1_p0 = fmaf(in_c2, w_k1[8], fmaf(in_c1, w_k1[7], fmaf(in_c0, w_k1[6], acc_k1_p0)));
                acc_k2_p2 = fmaf(in_c2, w_k2[2], fmaf(in_c1, w_k2[1], fmaf(in_c0, w_k2[0], acc_k2_p2)));
                acc_k2_p1 = fmaf(in_c2, w_k2[5], fmaf(in_c1, w_k2[4], fmaf(in_c0, w_k2[3], acc_k2_p1)));
                acc_k2_p0 = fmaf(in_c2, w_k2[8], fmaf(in_c1, w_k2[7], fmaf(in_c0, w_k2[6], acc_k2_p0)));
                acc_k3_p2 = fmaf(in_c2, w_k3[2], fmaf(in_c1, w_k3[1], fmaf(in_c0, w_k3[0], acc_k3_p2)));
                acc_k3_p1 = fmaf(in_c2, w_k3[5], fmaf(in_c1, w_k3[4], fmaf(in_c0, w_k3[3], acc_k3_p1)));
                acc_k3_p0 = fmaf(in_c2, w_k3[8], fmaf(in_c1, w_k3[7], fmaf(in_c0, w_k3[6], acc_k3_p0)));
            }
            // all 3 filter rows have been added to the output row that began 2 rows ago
            *out = finish(acc_k0_p0, bias_k0);
            out[plane_y] = finish(acc_k1_p0, bias_k1);
            out[2 * plane_y] = finish(acc_k2_p0, bias_k2);
            out[3 * plane_y] = finish(acc_k3_p0, bias_k3);
            acc_k0_p0 = acc_k1_p0 = acc_k2_p0 = acc_k3_p0 = 0.0f;
        }
        row += 3 * pitch;
        out += 3 * (index_t)Q;
    };
    int i = 0;
#pragma unroll 1
    for (; i + 3 <= rows_in; i += 3) turn(i, i + 3);
    if (i < rows_in) turn(i, rows_in);
}

// One output of each filter of the tile, tap by tap; taps in the padding are skipped.
__device__ __forceinline__ void direct_output(const float* __restrict__ x, const float* tile, float* __restrict__ y,
        const float* __restrict__ bias, int p, int q, int H, int W, int P, int Q) {
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
        y[(k * (index_t)P + p) * Q + q] = finish(sum, bias[k]);
    }
}

extern "C" __global__ void __launch_bounds__(128, 1)
reuse_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[144];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column_job = blockIdx.x;
    const int first_row_job = blockIdx.y * WARP_ROWS + warp;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;

    // Inner outputs are those whose window touches no padding. A row of jobs has `whole` sub-blocks of them and one
    // job for the columns left over; one more row of jobs makes the frame above and below.
    const int inner_rows = max(0, H - R + 1), whole = max(0, W - S + 1) / 32;
    const int row_jobs = (inner_rows + ROWS - 1) / ROWS + 1;

    // z counts images, groups and tiles of filters together
    for (index_t z = blockIdx.z; z < (index_t)N * K_TILES; z += gridDim.z) {
        const int first_k = (int)(z % K_TILES) * K_TILE;               // first filter of this tile, among all K
        const float* x_group = x + z / K_TILES * C * plane_x;
        float* y_tile = y + z * K_TILE * plane_y;

        // stage the tile's weights; the first barrier keeps the last round's in place until all have used them
        __syncthreads();
        const float* w_tile = w + first_k * ((index_t)C * R * S);
        for (int i = threadIdx.x; i < K_TILE * C * R * S; i += 128) {
            tile[i / (R * S) * CHANNEL_STRIDE + i % (R * S)] = w_tile[i];
        }
        __syncthreads();
        for (int row_job = first_row_job; row_job < row_jobs && column_job <= whole; row_job += gridDim.y * WARP_ROWS) {
            if (row_job == row_jobs - 1) {
                // the frame: output rows above and below the inner ones, 32 columns of them (the last job takes the
                // rest)
                const int first_q = column_job * 32, columns = column_job == whole ? Q - first_q : 32;
                for (int i = lane; i < (P - inner_rows) * columns; i += 32) {
                    const int row = i / columns;
                    direct_output(x_group, tile, y_tile, bias + first_k, row < PAD_TOP ? row : row + inner_rows,
                        first_q + i % columns, H, W, P, Q);
                }
                continue;
            }
            const int p0 = PAD_TOP + row_job * ROWS, p_end = min(p0 + ROWS, PAD_TOP + inner_rows);
            if (column_job < whole) {          // 32 columns are left: the same for all lanes of a warp
                sub_block(x_group, tile, y_tile, bias + first_k, p0, p_end, PAD_LEFT + column_job * 32 + lane, H, W, P,
                    Q);
                continue;
            }
            // the last sub-block and the columns that touch padding, divided evenly among the lanes
            const int columns = Q - whole * 32;
            for (int i = lane; i < (p_end - p0) * columns; i += 32) {
                const int column = i % columns;
                direct_output(x_group, tile, y_tile, bias + first_k, p0 + i / columns,
                    column < PAD_LEFT ? column : column + whole * 32, H, W, P, Q);
            }
        }
    }
}
