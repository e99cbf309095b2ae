// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 8,3,3 --stride 2,2 --padding 1 --epilogue bias,relu --arch sm_90 \
//     --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=interior \
//     --set sub_block_rows=14 --set prefetch_rows=1 --set weights=shared --set loads=registers --set stage_steps=1 \
//     --set pipeline=paired --set tap_rows=all --set warp_columns=1 --set warp_rows=1 --set warp_planes=4 \
//     --set min_blocks=4
//
// layer  x[N, 3, H, W] * w[8, 3, 3, 3] -> y[N, 8, P, Q], stride 2, padding 1, float32, then bias, relu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 1
//        steps ahead
// cost   sub-block of 14 rows x 128 columns, all channels: 270 warp loads, 90 shuffles, 1620 FMA a lane, about 75
//        registers (direct: 1512 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 8 input columns of each row, the others
// come from its neighbours by shuffle. An input row is loaded once and added to the 2 output rows in work: acc_p0 is
// the oldest, and every chain of products ends in the register of the next older row, so the accumulators move on
// without a move.
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int STEP_ROWS = 2;                    // input rows of a step
constexpr int LIVE_ROWS = 2;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_PLANES = 4;                  // and on different planes
constexpr int C = 3;                            // channels of a group
constexpr int K = 8;                            // output channels
constexpr int FILTERS = 8;                      // output channels of a group
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// An input row as it was loaded: this lane's columns, and in the outermost lanes those beyond the strip.
struct Row {
    float4 own_0, own_1;
    float edge_0;
};

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, float bias_k, int p_first, int rows_out, int q, int position, bool active, int H, int W,
        int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q * STRIDE_W;                                       // this lane's first input column
    const bool own_inside_0 = active && column < W;
    const bool own_inside_1 = active && column + 4 < W;
    // the outermost lanes load what lies beyond the strip: the last 1 to its left, the first 0 to its right
    const bool to_left = position >= 31, to_right = position < 0;
    const int beyond = to_left ? -249 : 256;
    const bool edge_inside_0 = (to_left || to_right) && ((unsigned)(column + beyond) < (unsigned)W);
    const int lane_left_1 = lane - 1; const bool edge_left_1 = lane >= 31;
    const bool out_inside_0 = active && q < Q;

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first * STRIDE_H - PAD_TOP;
    // steps above the image add nothing
    int s = h_first >= 0 ? 0 : min(-h_first / STEP_ROWS, LIVE_ROWS - 1);
    int h = h_first + s * STEP_ROWS;
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = min(steps, max(s, (H - h_first + STEP_ROWS - 1) / STEP_ROWS));
    const float* row = x + (index_t)h * W + column;
    const index_t plane_x = (index_t)H * W;
#pragma unroll 1
    for (; s < steps_inside; ++s) {
#pragma unroll 1
        for (int c = 0; c < C; ++c) {
            const float* w_c = w + c * 12;
            Row rows[STEP_ROWS];
            {
                const int h_row = h;
                const bool row_inside = (unsigned)h_row < (unsigned)H;
                const float* row_c = row + c * plane_x;
                rows[0].own_0 = row_inside && own_inside_0 ? __ldg((const float4*)(row_c))
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                rows[0].own_1 = row_inside && own_inside_1 ? __ldg((const float4*)(row_c + 4))
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                rows[0].edge_0 = row_inside && edge_inside_0 ? __ldg((const float*)(row_c + beyond)) : 0.0f;
            }
            {
                const int h_row = h + 1;
                const bool row_inside = (unsigned)h_row < (unsigned)H;
                const float* row_c = row + c * plane_x + pitch;
                rows[1].own_0 = row_inside && own_inside_0 ? __ldg((const float4*)(row_c))
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                rows[1].own_1 = row_inside && own_inside_1 ? __ldg((const float4*)(row_c + 4))
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                rows[1].edge_0 = row_inside && edge_inside_0 ? __ldg((const float*)(row_c + beyond)) : 0.0f;
            }
            const float in_m1_u0 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[0].edge_0 : rows[0].own_1.w, lane_left_1);
            const float in_0_u0 = rows[0].own_0.x;
            const float in_1_u0 = rows[0].own_0.y;
            const float in_2_u0 = rows[0].own_0.z;
            const float in_3_u0 = rows[0].own_0.w;
            const float in_4_u0 = rows[0].own_1.x;
            const float in_5_u0 = rows[0].own_1.y;
            const float in_6_u0 = rows[0].own_1.z;
            const float in_7_u0 = rows[0].own_1.w;
            const float in_m1_u1 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[1].edge_0 : rows[1].own_1.w, lane_left_1);
            const float in_0_u1 = rows[1].own_0.x;
            const float in_1_u1 = rows[1].own_0.y;
            const float in_2_u1 = rows[1].own_0.z;
            const float in_3_u1 = rows[1].own_0.w;
            const float in_4_u1 = rows[1].own_1.x;
            const float in_5_u1 = rows[1].own_1.y;
            const float in_6_u1 = rows[1].own_1.z;
            const float in_7_u1 = rows[1].own_1.w;
            // filter row 2
            acc_p0_c0 = fmaf(in_m1_u0, w_c[6], acc_p0_c0); acc_p0_c1 = fmaf(in_1_u0, w_c[6], acc_p0_c1);
            acc_p0_c2 = fmaf(in_3_u0, w_c[6], acc_p0_c2); acc_p0_c3 = fmaf(in_5_u0, w_c[6], acc_p0_c3);
            acc_p0_c0 = fmaf(in_0_u0, w_c[7], acc_p0_c0); acc_p0_c1 = fmaf(in_2_u0, w_c[7], acc_p0_c1);
            acc_p0_c2 = fmaf(in_4_u0, w_c[7], acc_p0_c2); acc_p0_c3 = fmaf(in_6_u0, w_c[7], acc_p0_c3);
            acc_p0_c0 = fmaf(in_1_u0, w_c[8], acc_p0_c0); acc_p0_c1 = fmaf(in_3_u0, w_c[8], acc_p0_c1);
            acc_p0_c2 = fmaf(in_5_u0, w_c[8], acc_p0_c2); acc_p0_c3 = fmaf(in_7_u0, w_c[8], acc_p0_c3);
            // filter rows 0, 1
            acc_p1_c0 = fmaf(in_m1_u0, w_c[0], acc_p1_c0); acc_p1_c1 = fmaf(in_1_u0, w_c[0], acc_p1_c1);
            acc_p1_c2 = fmaf(in_3_u0, w_c[0], acc_p1_c2); acc_p1_c3 = fmaf(in_5_u0, w_c[0], acc_p1_c3);
            acc_p1_c0 = fmaf(in_0_u0, w_c[1], acc_p1_c0); acc_p1_c1 = fmaf(in_2_u0, w_c[1], acc_p1_c1);
            acc_p1_c2 = fmaf(in_4_u0, w_c[1], acc_p1_c2); acc_p1_c3 = fmaf(in_6_u0, w_c[1], acc_p1_c3);
            acc_p1_c0 = fmaf(in_1_u0, w_c[2], acc_p1_c0); acc_p1_c1 = fmaf(in_3_u0, w_c[2], acc_p1_c1);
            acc_p1_c2 = fmaf(in_5_u0, w_c[2], acc_p1_c2); acc_p1_c3 = fmaf(in_7_u0, w_c[2], acc_p1_c3);
            acc_p1_c0 = fmaf(in_m1_u1, w_c[3], acc_p1_c0); acc_p1_c1 = fmaf(in_1_u1, w_c[3], acc_p1_c1);
            acc_p1_c2 = fmaf(in_3_u1, w_c[3], acc_p1_c2); acc_p1_c3 = fmaf(in_5_u1, w_c[3], acc_p1_c3);
            acc_p1_c0 = fmaf(in_0_u1, w_c[4], acc_p1_c0); acc_p1_c1 = fmaf(in_2_u1, w_c[4], acc_p1_c1);
            acc_p1_c2 = fmaf(in_4_u1, w_c[4], acc_p1_c2); acc_p1_c3 = fmaf(in_6_u1, w_c[4], acc_p1_c3);
            acc_p1_c0 = fmaf(in_1_u1, w_c[5], acc_p1_c0); acc_p1_c1 = fmaf(in_3_u1, w_c[5], acc_p1_c1);
            acc_p1_c2 = fmaf(in_5_u1, w_c[5], acc_p1_c2); acc_p1_c3 = fmaf(in_7_u1, w_c[5], acc_p1_c3);
        }
        row += STEP_ROWS * pitch;
        h += STEP_ROWS;
        float out_c0, out_c1, out_c2, out_c3;
        out_c0 = acc_p0_c0;
        out_c1 = acc_p0_c1;
        out_c2 = acc_p0_c2;
        out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0;
        acc_p0_c1 = acc_p1_c1;
        acc_p0_c2 = acc_p1_c2;
        acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = 0.0f;
        acc_p1_c1 = 0.0f;
        acc_p1_c2 = 0.0f;
        acc_p1_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k);
            out_c1 = finish(out_c1, bias_k);
            out_c2 = finish(out_c2, bias_k);
            out_c3 = finish(out_c3, bias_k);
            if (out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }

    // steps below the image add nothing
#pragma unroll 1
    for (; s < steps; ++s) {
        float out_c0, out_c1, out_c2, out_c3;
        out_c0 = acc_p0_c0;
        out_c1 = acc_p0_c1;
        out_c2 = acc_p0_c2;
        out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0;
        acc_p0_c1 = acc_p1_c1;
        acc_p0_c2 = acc_p1_c2;
        acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = 0.0f;
        acc_p1_c1 = 0.0f;
        acc_p1_c2 = 0.0f;
        acc_p1_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k);
            out_c1 = finish(out_c1, bias_k);
            out_c2 = finish(out_c2, bias_k);
            out_c3 = finish(out_c3, bias_k);
            if (out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[144];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_plane = warp;
    const index_t planes = (index_t)N * K;
    const int strip = blockIdx.x;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column
    const bool has_columns = strip * STRIP < Q;

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = (P + bands - 1) / bands + LIVE_ROWS - 1;
    const int rows = stages - (LIVE_ROWS - 1);
    const int first = blockIdx.y * rows;                                        // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z * 4 < planes; z += gridDim.z) {
        // stage the filters of the block's planes; the first barrier keeps the last round's in place until all have
        // used them
        __syncthreads();
        for (int i = threadIdx.x; i < 108; i += 128) {
            const index_t staged = z * 4 + i / 27;
            tile[i / 9 * 12 + i % 9] = __ldg(w + (staged < planes ? (int)(staged % K) : 0) * (index_t)27 + i % 27);
        }
        __syncthreads();
        const index_t made = z * WARP_PLANES + warp_plane;                 // output plane of this warp
        const int k = (int)(made % K);
        const float* x_plane = x + (made / K * (K / FILTERS) + k / FILTERS) * C * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float bias_k = bias[k];
        const float* w_plane = tile + warp_plane * 36;

        if (p_first < P && has_columns && made < planes)
            sub_block(x_plane, w_plane, y_plane, bias_k, p_first, rows_out, q, lane, true, H, W, Q);
    }
}
