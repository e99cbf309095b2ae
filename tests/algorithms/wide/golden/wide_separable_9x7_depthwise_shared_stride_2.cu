// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,64 --filter 16,9,7 --stride 2,2 --padding 4,3 --groups 16 --epilogue bias \
//     --separable --arch sm_90 --algorithm wide \
//     --set columns=2 --set vector=4 --set store_vector=2 --set span=packed --set row_lanes=16 \
//     --set separators=select --set sub_block_rows=14 --set prefetch_rows=2 --set weights=shared \
//     --set loads=registers --set stage_steps=1 --set pipeline=paired --set tap_rows=all --set warp_columns=1 \
//     --set warp_rows=1 --set warp_planes=4 --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 9, 7] -> y[N, 16, P, Q], stride 2, padding 4,3, groups 16, separable, float32, then
//        bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 4 and at most 64; Q a multiple of 2 and at most 32); all
//        else is a constant of the text
// plan   2 columns per lane, 2 rows of 16 lanes side by side, sub-blocks of 14 rows, 4 warps per block; 4 elements a
//        load, 2 steps ahead
// cost   sub-block of 14 rows x 64 columns: 36 warp loads, 180 shuffles, 576 FMA a lane, about 96 registers (direct:
//        1764 loads)
//
// A lane makes 2 neighbouring output columns and walks down the rows. It loads 4 input columns of each row, the others
// come from its neighbours by shuffle. An input row is loaded once and added to the 5 output rows in work: acc_p0 is
// the oldest, and every chain of products ends in the register of the next older row, so the accumulators move on
// without a move. Filters are columns times rows, w[r][s] = wy[r] * wx[s], given as wy, then wx: each input row is
// summed with wx once, and its sums are then added to the output rows with wy.
constexpr int PAD_TOP = 4;                      // rows of zeros above the image
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 2;                    // input rows of a step
constexpr int LIVE_ROWS = 5;                    // output rows in work at a time
constexpr int COLUMNS = 2;                      // output columns of a lane
constexpr int PREFETCH = 2;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int ROW_LANES = 16;                   // lanes that a row takes
constexpr int PLANES = 2;                       // planes side by side in a warp
constexpr int WARP_PLANES = 4;                  // and on different planes
constexpr int K = 16;                           // output channels
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The compiler reads memory again after it: 16 weights kept in registers would spill.
__device__ __forceinline__ void wc_read_again() { asm volatile("" ::: "memory"); }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// An input row as it was loaded: this lane's columns.
struct Row {
    float4 own_0;
};

// 2 planes side by side, 16 lanes a row. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, float bias_k, int p_first, int rows_out, int q, int position, bool active, int H, int W,
        int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q * STRIDE_W;                                       // this lane's first input column
    const bool own_inside_0 = active && column < W;
    const int lane_left_1 = lane - 1; const bool has_left_1 = position >= 1;
    const int lane_right_1 = lane + 1; const bool has_right_1 = position < ROW_LANES - 1;
    const bool out_inside_0 = active && q < Q;

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first * STRIDE_H - PAD_TOP;
    // steps above the image add nothing
    int s = h_first >= 0 ? 0 : min(-h_first / STEP_ROWS, LIVE_ROWS - 1);
    int h = h_first + s * STEP_ROWS;
    const int h_end = min(H, max(0, h_first + (rows_out + LIVE_ROWS - 1) * STEP_ROWS));
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f,
          acc_p2_c0 = 0.0f, acc_p2_c1 = 0.0f,
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = min(steps, max(s, (H - h_first + STEP_ROWS - 1) / STEP_ROWS));
    const float* row = x + (index_t)h * W + column;

    auto load = [&](Row (&rows)[PREFETCH * STEP_ROWS]) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < PREFETCH * STEP_ROWS; ++i) {
            const bool row_inside = (unsigned)h < (unsigned)h_end;
            rows[i].own_0 = row_inside && own_inside_0 ? __ldg((const float4*)(row))
                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            row += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](const Row (&rows)[PREFETCH * STEP_ROWS], int i, int s) __attribute__((always_inline)) {
        float out_c0, out_c1;
        float in_m3_u0 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS].own_0.y, lane_left_1);
        if (!has_left_1) in_m3_u0 = 0.0f;
        float in_m2_u0 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS].own_0.z, lane_left_1);
        if (!has_left_1) in_m2_u0 = 0.0f;
        float in_m1_u0 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS].own_0.w, lane_left_1);
        if (!has_left_1) in_m1_u0 = 0.0f;
        float in_4_u0 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS].own_0.x, lane_right_1);
        if (!has_right_1) in_4_u0 = 0.0f;
        float in_5_u0 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS].own_0.y, lane_right_1);
        if (!has_right_1) in_5_u0 = 0.0f;
        const float in_0_u0 = rows[i * STEP_ROWS].own_0.x;
        const float in_1_u0 = rows[i * STEP_ROWS].own_0.y;
        const float in_2_u0 = rows[i * STEP_ROWS].own_0.z;
        const float in_3_u0 = rows[i * STEP_ROWS].own_0.w;
        float in_m3_u1 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS + 1].own_0.y, lane_left_1);
        if (!has_left_1) in_m3_u1 = 0.0f;
        float in_m2_u1 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS + 1].own_0.z, lane_left_1);
        if (!has_left_1) in_m2_u1 = 0.0f;
        float in_m1_u1 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS + 1].own_0.w, lane_left_1);
        if (!has_left_1) in_m1_u1 = 0.0f;
        float in_4_u1 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS + 1].own_0.x, lane_right_1);
        if (!has_right_1) in_4_u1 = 0.0f;
        float in_5_u1 = __shfl_sync(ALL_LANES, rows[i * STEP_ROWS + 1].own_0.y, lane_right_1);
        if (!has_right_1) in_5_u1 = 0.0f;
        const float in_0_u1 = rows[i * STEP_ROWS + 1].own_0.x;
        const float in_1_u1 = rows[i * STEP_ROWS + 1].own_0.y;
        const float in_2_u1 = rows[i * STEP_ROWS + 1].own_0.z;
        const float in_3_u1 = rows[i * STEP_ROWS + 1].own_0.w;
        const float wx_s0 = w[9], wx_s1 = w[10], wx_s2 = w[11], wx_s3 = w[12], wx_s4 = w[13], wx_s5 = w[14],
            wx_s6 = w[15];
        wc_read_again();
        // sums of input row 0 with the filter's row
        float sum_c0_u0 = in_m3_u0 * wx_s0, sum_c1_u0 = in_m1_u0 * wx_s0;
        sum_c0_u0 = fmaf(in_m2_u0, wx_s1, sum_c0_u0); sum_c1_u0 = fmaf(in_0_u0, wx_s1, sum_c1_u0);
        sum_c0_u0 = fmaf(in_m1_u0, wx_s2, sum_c0_u0); sum_c1_u0 = fmaf(in_1_u0, wx_s2, sum_c1_u0);
        sum_c0_u0 = fmaf(in_0_u0, wx_s3, sum_c0_u0); sum_c1_u0 = fmaf(in_2_u0, wx_s3, sum_c1_u0);
        sum_c0_u0 = fmaf(in_1_u0, wx_s4, sum_c0_u0); sum_c1_u0 = fmaf(in_3_u0, wx_s4, sum_c1_u0);
        sum_c0_u0 = fmaf(in_2_u0, wx_s5, sum_c0_u0); sum_c1_u0 = fmaf(in_4_u0, wx_s5, sum_c1_u0);
        sum_c0_u0 = fmaf(in_3_u0, wx_s6, sum_c0_u0); sum_c1_u0 = fmaf(in_5_u0, wx_s6, sum_c1_u0);
        // sums of input row 1 with the filter's row
        float sum_c0_u1 = in_m3_u1 * wx_s0, sum_c1_u1 = in_m1_u1 * wx_s0;
        sum_c0_u1 = fmaf(in_m2_u1, wx_s1, sum_c0_u1); sum_c1_u1 = fmaf(in_0_u1, wx_s1, sum_c1_u1);
        sum_c0_u1 = fmaf(in_m1_u1, wx_s2, sum_c0_u1); sum_c1_u1 = fmaf(in_1_u1, wx_s2, sum_c1_u1);
        sum_c0_u1 = fmaf(in_0_u1, wx_s3, sum_c0_u1); sum_c1_u1 = fmaf(in_2_u1, wx_s3, sum_c1_u1);
        sum_c0_u1 = fmaf(in_1_u1, wx_s4, sum_c0_u1); sum_c1_u1 = fmaf(in_3_u1, wx_s4, sum_c1_u1);
        sum_c0_u1 = fmaf(in_2_u1, wx_s5, sum_c0_u1); sum_c1_u1 = fmaf(in_4_u1, wx_s5, sum_c1_u1);
        sum_c0_u1 = fmaf(in_3_u1, wx_s6, sum_c0_u1); sum_c1_u1 = fmaf(in_5_u1, wx_s6, sum_c1_u1);
        const float wy_r0 = w[0], wy_r1 = w[1], wy_r2 = w[2], wy_r3 = w[3], wy_r4 = w[4], wy_r5 = w[5], wy_r6 = w[6],
            wy_r7 = w[7], wy_r8 = w[8];
        // filter row 8
        out_c0 = fmaf(sum_c0_u0, wy_r8, acc_p0_c0); out_c1 = fmaf(sum_c1_u0, wy_r8, acc_p0_c1);
        // filter rows 6, 7
        acc_p0_c0 = fmaf(sum_c0_u0, wy_r6, acc_p1_c0); acc_p0_c1 = fmaf(sum_c1_u0, wy_r6, acc_p1_c1);
        acc_p0_c0 = fmaf(sum_c0_u1, wy_r7, acc_p0_c0); acc_p0_c1 = fmaf(sum_c1_u1, wy_r7, acc_p0_c1);
        // filter rows 4, 5
        acc_p1_c0 = fmaf(sum_c0_u0, wy_r4, acc_p2_c0); acc_p1_c1 = fmaf(sum_c1_u0, wy_r4, acc_p2_c1);
        acc_p1_c0 = fmaf(sum_c0_u1, wy_r5, acc_p1_c0); acc_p1_c1 = fmaf(sum_c1_u1, wy_r5, acc_p1_c1);
        // filter rows 2, 3
        acc_p2_c0 = fmaf(sum_c0_u0, wy_r2, acc_p3_c0); acc_p2_c1 = fmaf(sum_c1_u0, wy_r2, acc_p3_c1);
        acc_p2_c0 = fmaf(sum_c0_u1, wy_r3, acc_p2_c0); acc_p2_c1 = fmaf(sum_c1_u1, wy_r3, acc_p2_c1);
        // filter rows 0, 1
        acc_p3_c0 = sum_c0_u0 * wy_r0; acc_p3_c1 = sum_c1_u0 * wy_r0;
        acc_p3_c0 = fmaf(sum_c0_u1, wy_r1, acc_p3_c0); acc_p3_c1 = fmaf(sum_c1_u1, wy_r1, acc_p3_c1);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k);
            out_c1 = finish(out_c1, bias_k);
            if (out_inside_0) *(float2*)(out) = make_float2(out_c0, out_c1);
        }
        out += (index_t)Q;
    };

    // 2 steps are loaded while the 2 before are used
    Row ready[PREFETCH * STEP_ROWS], next[PREFETCH * STEP_ROWS];
    load(ready);
#pragma unroll 1
    while (s < steps_inside) {
        if (s + PREFETCH < steps_inside) load(next);
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) step(ready, i, s + i);
        s += PREFETCH;
        if (s >= steps_inside) break;
        if (s + PREFETCH < steps_inside) load(ready);
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) step(next, i, s + i);
        s += PREFETCH;
        if (s >= steps_inside) break;
    }

    // steps below the image add nothing
#pragma unroll 1
    for (; s < steps; ++s) {
        float out_c0, out_c1;
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1;
        acc_p1_c0 = acc_p2_c0; acc_p1_c1 = acc_p2_c1;
        acc_p2_c0 = acc_p3_c0; acc_p2_c1 = acc_p3_c1;
        acc_p3_c0 = 0.0f; acc_p3_c1 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k);
            out_c1 = finish(out_c1, bias_k);
            if (out_inside_0) *(float2*)(out) = make_float2(out_c0, out_c1);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_9x7(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[128];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_plane = warp;
    const index_t planes = (index_t)N * K;
    // of this lane in its row; of its row in the warp
    const int position = lane % ROW_LANES, member = lane / ROW_LANES;
    const int q = position * COLUMNS;                                      // its first output column

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = ((P + bands - 1) / bands + LIVE_ROWS - 1 + STAGE_STEPS - 1) / STAGE_STEPS;
    const int rows = stages * STAGE_STEPS - (LIVE_ROWS - 1);
    const int first = blockIdx.y * rows;                                        // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z * 8 < planes; z += gridDim.z) {
        // stage the filters of the block's planes; the first barrier keeps the last round's in place until all have
        // used them
        __syncthreads();
        for (int i = threadIdx.x; i < 128; i += 128) {
            const index_t staged = z * 8 + i / 16;
            tile[i / 16 * 16 + i % 16] = __ldg(w + (staged < planes ? (int)(staged % K) : 0) * (index_t)16 + i % 16);
        }
        __syncthreads();
        const index_t plane = (z * WARP_PLANES + warp_plane) * PLANES + member;
        const bool active = member < PLANES && plane < planes;
        // lanes without a plane load nothing and store nothing
        const index_t made = active ? plane : 0;
        const int k = (int)(made % K);
        const float* x_plane = x + (made / K * K + k) * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float bias_k = bias[k];
        const float* w_plane = tile + (active ? (warp_plane * PLANES + member) : 0) * 16;

        if (p_first < P && (z * WARP_PLANES + warp_plane) * PLANES < planes)
            sub_block(x_plane, w_plane, y_plane, bias_k, p_first, rows_out, q, position, active, H, W, Q);
    }
}
