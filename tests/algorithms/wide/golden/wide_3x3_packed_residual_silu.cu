// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,60 --filter 16,3,3 --padding 1 --groups 16 --epilogue bias,residual,silu \
//     --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=packed --set row_lanes=16 \
//     --set separators=zero_lanes --set sub_block_rows=14 --set prefetch_rows=4 --set weights=registers \
//     --set loads=registers --set stage_steps=1 --set pipeline=paired --set tap_rows=all --set warp_columns=1 \
//     --set warp_rows=1 --set warp_planes=4 --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 3, 3] -> y[N, 16, P, Q], stride 1, padding 1, groups 16, float32, then bias,
//        residual, silu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4 and at most 63; Q a multiple of 4 and at most 63); all
//        else is a constant of the text
// plan   4 columns per lane, 2 rows of 16 lanes side by side, sub-blocks of 14 rows, 4 warps per block; 4 elements a
//        load, 4 steps ahead
// cost   sub-block of 14 rows x 128 columns: 16 warp loads, 32 shuffles, 576 FMA a lane, about 101 registers (direct:
//        504 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row, the others
// come from its neighbours by shuffle. An input row is loaded once and added to the 3 output rows in work: acc_p0 is
// the oldest, and every chain of products ends in the register of the next older row, so the accumulators move on
// without a move.
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int PREFETCH = 4;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 4;                  // steps that come into use together
constexpr int ROW_LANES = 16;                   // lanes that a row takes
constexpr int PLANES = 2;                       // planes side by side in a warp
constexpr int WARP_PLANES = 4;                  // and on different planes
constexpr int K = 16;                           // output channels
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// what the steps below call
__device__ __forceinline__ float wc_exp2(float value) { float power; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value)); return power; }
__device__ __forceinline__ float wc_reciprocal(float value) { float inverse; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value)); return inverse; }
// log2(e)
__device__ __forceinline__ float sigmoid(float a) { return wc_reciprocal(1.0f + wc_exp2(-1.442695f * a)); }

// What happens to an output value before it is stored: bias, then residual, then silu.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    value = value * sigmoid(value);    // silu
    return value;
}

// An input row as it was loaded: this lane's columns.
struct Row {
    float4 own_0;
    float4 added_0;    // residual, in the first row of a step
};

// 2 planes side by side, 16 lanes a row. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w, float* y,
        float bias_k, const float* residual, int p_first, int rows_out, int q, bool active, int H, int W, int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = active && column < W;
    const int lane_left_1 = lane - 1;
    const int lane_right_1 = lane + 1;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = __ldg(w), w_r0_s1 = __ldg(w + 1), w_r0_s2 = __ldg(w + 2);
    const float w_r1_s0 = __ldg(w + 3), w_r1_s1 = __ldg(w + 4), w_r1_s2 = __ldg(w + 5);
    const float w_r2_s0 = __ldg(w + 6), w_r2_s1 = __ldg(w + 7), w_r2_s2 = __ldg(w + 8);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    // steps above the image add nothing
    int s = h_first >= 0 ? 0 : min(-h_first, LIVE_ROWS - 1);
    int h = h_first + s;
    const int h_end = min(H, max(0, h_first + (rows_out + LIVE_ROWS - 1)));
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    // the residual comes with the input rows of the step that completes its row
    const float* residual_row = residual + (out - y);
    int residual_step = s;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = min(steps, max(s, H - h_first));
    const float* row = x + (index_t)h * W + column;

    auto load = [&](Row (&rows)[PREFETCH]) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            const bool row_inside = (unsigned)h < (unsigned)h_end;
            rows[i].own_0 = row_inside && own_inside_0 ? __ldg((const float4*)(row))
                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            row += pitch;
            h += ROW_STEP;
        }
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            rows[i].added_0 = (unsigned)(residual_step - (LIVE_ROWS - 1)) < (unsigned)rows_out && out_inside_0
                ? *(const float4*)(residual_row) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            residual_row += (index_t)Q;
            ++residual_step;
        }
    };
    auto step = [&](const Row (&rows)[PREFETCH], int i, int s) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float in_m1 = __shfl_sync(ALL_LANES, rows[i].own_0.w, lane_left_1);
        const float in_4 = __shfl_sync(ALL_LANES, rows[i].own_0.x, lane_right_1);
        const float in_0 = rows[i].own_0.x;
        const float in_1 = rows[i].own_0.y;
        const float in_2 = rows[i].own_0.z;
        const float in_3 = rows[i].own_0.w;
        const float4 added_0 = rows[i].added_0;
        // filter row 2
        out_c0 = fmaf(in_m1, w_r2_s0, acc_p0_c0); out_c1 = fmaf(in_0, w_r2_s0, acc_p0_c1);
        out_c2 = fmaf(in_1, w_r2_s0, acc_p0_c2); out_c3 = fmaf(in_2, w_r2_s0, acc_p0_c3);
        out_c0 = fmaf(in_0, w_r2_s1, out_c0); out_c1 = fmaf(in_1, w_r2_s1, out_c1);
        out_c2 = fmaf(in_2, w_r2_s1, out_c2); out_c3 = fmaf(in_3, w_r2_s1, out_c3);
        out_c0 = fmaf(in_1, w_r2_s2, out_c0); out_c1 = fmaf(in_2, w_r2_s2, out_c1);
        out_c2 = fmaf(in_3, w_r2_s2, out_c2); out_c3 = fmaf(in_4, w_r2_s2, out_c3);
        // filter row 1
        acc_p0_c0 = fmaf(in_m1, w_r1_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_0, w_r1_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_1, w_r1_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_2, w_r1_s0, acc_p1_c3);
        acc_p0_c0 = fmaf(in_0, w_r1_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r1_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_r1_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r1_s1, acc_p0_c3);
        acc_p0_c0 = fmaf(in_1, w_r1_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r1_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, w_r1_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r1_s2, acc_p0_c3);
        // filter row 0
        acc_p1_c0 = in_m1 * w_r0_s0; acc_p1_c1 = in_0 * w_r0_s0; acc_p1_c2 = in_1 * w_r0_s0; acc_p1_c3 = in_2 * w_r0_s0;
        acc_p1_c0 = fmaf(in_0, w_r0_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r0_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r0_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r0_s1, acc_p1_c3);
        acc_p1_c0 = fmaf(in_1, w_r0_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r0_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r0_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r0_s2, acc_p1_c3);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k, added_0.x);
            out_c1 = finish(out_c1, bias_k, added_0.y);
            out_c2 = finish(out_c2, bias_k, added_0.z);
            out_c3 = finish(out_c3, bias_k, added_0.w);
            if (out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    };

    // 4 steps are loaded while the 4 before are used
    Row ready[PREFETCH], next[PREFETCH];
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
        float out_c0, out_c1, out_c2, out_c3;
        residual_row = residual + (out - y);
        const float4 added_0 = (unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out && out_inside_0
            ? *(const float4*)(residual_row) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = 0.0f; acc_p1_c1 = 0.0f; acc_p1_c2 = 0.0f; acc_p1_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k, added_0.x);
            out_c1 = finish(out_c1, bias_k, added_0.y);
            out_c2 = finish(out_c2, bias_k, added_0.z);
            out_c3 = finish(out_c3, bias_k, added_0.w);
            if (out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        const float* residual, float* y, int N, int H, int W, int P, int Q) {
    // the warp's number comes from lane 0, so the compiler knows that its lanes share it
    const int lane = threadIdx.x % 32, warp = __shfl_sync(ALL_LANES, (int)threadIdx.x / 32, 0);
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
        const index_t plane = (z * WARP_PLANES + warp_plane) * PLANES + member;
        const bool active = member < PLANES && plane < planes;
        // lanes without a plane load nothing and store nothing
        const index_t made = active ? plane : 0;
        const int k = (int)(made % K);
        const float* x_plane = x + (made / K * K + k) * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float bias_k = bias[k];
        const float* residual_plane = residual + (y_plane - y);     // may be y_plane
        const float* w_plane = w + k * (index_t)9;

        if (p_first < P && (z * WARP_PLANES + warp_plane) * PLANES < planes)
            sub_block(x_plane, w_plane, y_plane, bias_k, residual_plane, p_first, rows_out, q, active, H, W, Q);
    }
}
