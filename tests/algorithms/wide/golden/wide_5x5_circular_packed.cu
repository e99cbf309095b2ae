// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,56 --filter 16,5,5 --padding 2 --padding-mode circular --groups 16 \
//     --epilogue relu --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=packed --set row_lanes=14 \
//     --set separators=none --set sub_block_rows=14 --set prefetch_rows=2 --set weights=registers \
//     --set loads=registers --set stage_steps=1 --set pipeline=paired --set tap_rows=all --set warp_columns=1 \
//     --set warp_rows=1 --set warp_planes=4 --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 5, 5] -> y[N, 16, P, Q], stride 1, padding 2 (circular), groups 16, float32, then
//        relu
//        N, H, W (and so P, Q) are arguments (H at least 2; W = 56; Q a multiple of 4 and at most 56); all else is a
//        constant of the text
// plan   4 columns per lane, 2 rows of 14 lanes side by side, sub-blocks of 14 rows, 4 warps per block; 4 elements a
//        load, 2 steps ahead
// cost   sub-block of 14 rows x 128 columns: 18 warp loads, 72 shuffles, 1800 FMA a lane, about 89 registers (direct:
//        1400 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row, the others
// come from its neighbours by shuffle. An input row is loaded once and added to the 5 output rows in work: acc_p0 is
// the oldest, and every chain of products ends in the register of the next older row, so the accumulators move on
// without a move.
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 5;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int PREFETCH = 2;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int ROW_LANES = 14;                   // lanes that a row takes
constexpr int PLANES = 2;                       // planes side by side in a warp
constexpr int WARP_PLANES = 4;                  // and on different planes
constexpr int K = 16;                           // output channels
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The row that is read at row `i`, which may lie outside of 0 .. size - 1: the image again. The border
// is no taller than the image; beyond it this is some row of the image, so that no load needs a guard.
__device__ __forceinline__ int at_border(int i, int size) {
    // as unsigned numbers, rows outside come after those inside
    const unsigned from_above = (unsigned)(i + size), from_below = (unsigned)(i - size);
    return (int)min(min((unsigned)i, from_above), min(from_below, (unsigned)(size - 1)));
}
__device__ __forceinline__ const float* wc_settled_address(const float* value) { asm volatile("" : "+l"(value)); return value; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// An input row as it was loaded: this lane's columns.
struct Row {
    float4 own_0;
};

// 2 planes side by side, 14 lanes a row. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W, int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = active && column < W;
    const int lane_left_1 = position >= 1 ? lane - 1 : lane - 1 + ROW_LANES;
    const int lane_right_1 = position < ROW_LANES - 1 ? lane + 1 : lane + 1 - ROW_LANES;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = __ldg(w), w_r0_s1 = __ldg(w + 1), w_r0_s2 = __ldg(w + 2), w_r0_s3 = __ldg(w + 3),
                w_r0_s4 = __ldg(w + 4);
    const float w_r1_s0 = __ldg(w + 5), w_r1_s1 = __ldg(w + 6), w_r1_s2 = __ldg(w + 7), w_r1_s3 = __ldg(w + 8),
                w_r1_s4 = __ldg(w + 9);
    const float w_r2_s0 = __ldg(w + 10), w_r2_s1 = __ldg(w + 11), w_r2_s2 = __ldg(w + 12), w_r2_s3 = __ldg(w + 13),
                w_r2_s4 = __ldg(w + 14);
    const float w_r3_s0 = __ldg(w + 15), w_r3_s1 = __ldg(w + 16), w_r3_s2 = __ldg(w + 17), w_r3_s3 = __ldg(w + 18),
                w_r3_s4 = __ldg(w + 19);
    const float w_r4_s0 = __ldg(w + 20), w_r4_s1 = __ldg(w + 21), w_r4_s2 = __ldg(w + 22), w_r4_s3 = __ldg(w + 23),
                w_r4_s4 = __ldg(w + 24);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    int s = 0;
    int h = h_first + s;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f,
          acc_p2_c0 = 0.0f, acc_p2_c1 = 0.0f, acc_p2_c2 = 0.0f, acc_p2_c3 = 0.0f,
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f, acc_p3_c2 = 0.0f, acc_p3_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = steps;
    const float* row = wc_settled_address(x + column);             // of the image's first row

    auto load = [&](Row (&rows)[PREFETCH]) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            const float* from = row + (index_t)at_border(h, H) * W;
            rows[i].own_0 = own_inside_0 ? __ldg((const float4*)(from)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            h += ROW_STEP;
        }
    };
    auto step = [&](const Row (&rows)[PREFETCH], int i, int s) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float in_m2 = __shfl_sync(ALL_LANES, rows[i].own_0.z, lane_left_1);
        const float in_m1 = __shfl_sync(ALL_LANES, rows[i].own_0.w, lane_left_1);
        const float in_4 = __shfl_sync(ALL_LANES, rows[i].own_0.x, lane_right_1);
        const float in_5 = __shfl_sync(ALL_LANES, rows[i].own_0.y, lane_right_1);
        const float in_0 = rows[i].own_0.x;
        const float in_1 = rows[i].own_0.y;
        const float in_2 = rows[i].own_0.z;
        const float in_3 = rows[i].own_0.w;
        // filter row 4
        out_c0 = fmaf(in_m2, w_r4_s0, acc_p0_c0); out_c1 = fmaf(in_m1, w_r4_s0, acc_p0_c1);
        out_c2 = fmaf(in_0, w_r4_s0, acc_p0_c2); out_c3 = fmaf(in_1, w_r4_s0, acc_p0_c3);
        out_c0 = fmaf(in_m1, w_r4_s1, out_c0); out_c1 = fmaf(in_0, w_r4_s1, out_c1);
        out_c2 = fmaf(in_1, w_r4_s1, out_c2); out_c3 = fmaf(in_2, w_r4_s1, out_c3);
        out_c0 = fmaf(in_0, w_r4_s2, out_c0); out_c1 = fmaf(in_1, w_r4_s2, out_c1);
        out_c2 = fmaf(in_2, w_r4_s2, out_c2); out_c3 = fmaf(in_3, w_r4_s2, out_c3);
        out_c0 = fmaf(in_1, w_r4_s3, out_c0); out_c1 = fmaf(in_2, w_r4_s3, out_c1);
        out_c2 = fmaf(in_3, w_r4_s3, out_c2); out_c3 = fmaf(in_4, w_r4_s3, out_c3);
        out_c0 = fmaf(in_2, w_r4_s4, out_c0); out_c1 = fmaf(in_3, w_r4_s4, out_c1);
        out_c2 = fmaf(in_4, w_r4_s4, out_c2); out_c3 = fmaf(in_5, w_r4_s4, out_c3);
        // filter row 3
        acc_p0_c0 = fmaf(in_m2, w_r3_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_m1, w_r3_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_0, w_r3_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_1, w_r3_s0, acc_p1_c3);
        acc_p0_c0 = fmaf(in_m1, w_r3_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_0, w_r3_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_1, w_r3_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_2, w_r3_s1, acc_p0_c3);
        acc_p0_c0 = fmaf(in_0, w_r3_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r3_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_r3_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r3_s2, acc_p0_c3);
        acc_p0_c0 = fmaf(in_1, w_r3_s3, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r3_s3, acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, w_r3_s3, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r3_s3, acc_p0_c3);
        acc_p0_c0 = fmaf(in_2, w_r3_s4, acc_p0_c0); acc_p0_c1 = fmaf(in_3, w_r3_s4, acc_p0_c1);
        acc_p0_c2 = fmaf(in_4, w_r3_s4, acc_p0_c2); acc_p0_c3 = fmaf(in_5, w_r3_s4, acc_p0_c3);
        // filter row 2
        acc_p1_c0 = fmaf(in_m2, w_r2_s0, acc_p2_c0); acc_p1_c1 = fmaf(in_m1, w_r2_s0, acc_p2_c1);
        acc_p1_c2 = fmaf(in_0, w_r2_s0, acc_p2_c2); acc_p1_c3 = fmaf(in_1, w_r2_s0, acc_p2_c3);
        acc_p1_c0 = fmaf(in_m1, w_r2_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_0, w_r2_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_1, w_r2_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_2, w_r2_s1, acc_p1_c3);
        acc_p1_c0 = fmaf(in_0, w_r2_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r2_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r2_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r2_s2, acc_p1_c3);
        acc_p1_c0 = fmaf(in_1, w_r2_s3, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r2_s3, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r2_s3, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r2_s3, acc_p1_c3);
        acc_p1_c0 = fmaf(in_2, w_r2_s4, acc_p1_c0); acc_p1_c1 = fmaf(in_3, w_r2_s4, acc_p1_c1);
        acc_p1_c2 = fmaf(in_4, w_r2_s4, acc_p1_c2); acc_p1_c3 = fmaf(in_5, w_r2_s4, acc_p1_c3);
        // filter row 1
        acc_p2_c0 = fmaf(in_m2, w_r1_s0, acc_p3_c0); acc_p2_c1 = fmaf(in_m1, w_r1_s0, acc_p3_c1);
        acc_p2_c2 = fmaf(in_0, w_r1_s0, acc_p3_c2); acc_p2_c3 = fmaf(in_1, w_r1_s0, acc_p3_c3);
        acc_p2_c0 = fmaf(in_m1, w_r1_s1, acc_p2_c0); acc_p2_c1 = fmaf(in_0, w_r1_s1, acc_p2_c1);
        acc_p2_c2 = fmaf(in_1, w_r1_s1, acc_p2_c2); acc_p2_c3 = fmaf(in_2, w_r1_s1, acc_p2_c3);
        acc_p2_c0 = fmaf(in_0, w_r1_s2, acc_p2_c0); acc_p2_c1 = fmaf(in_1, w_r1_s2, acc_p2_c1);
        acc_p2_c2 = fmaf(in_2, w_r1_s2, acc_p2_c2); acc_p2_c3 = fmaf(in_3, w_r1_s2, acc_p2_c3);
        acc_p2_c0 = fmaf(in_1, w_r1_s3, acc_p2_c0); acc_p2_c1 = fmaf(in_2, w_r1_s3, acc_p2_c1);
        acc_p2_c2 = fmaf(in_3, w_r1_s3, acc_p2_c2); acc_p2_c3 = fmaf(in_4, w_r1_s3, acc_p2_c3);
        acc_p2_c0 = fmaf(in_2, w_r1_s4, acc_p2_c0); acc_p2_c1 = fmaf(in_3, w_r1_s4, acc_p2_c1);
        acc_p2_c2 = fmaf(in_4, w_r1_s4, acc_p2_c2); acc_p2_c3 = fmaf(in_5, w_r1_s4, acc_p2_c3);
        // filter row 0
        acc_p3_c0 = in_m2 * w_r0_s0; acc_p3_c1 = in_m1 * w_r0_s0; acc_p3_c2 = in_0 * w_r0_s0;
        acc_p3_c3 = in_1 * w_r0_s0;
        acc_p3_c0 = fmaf(in_m1, w_r0_s1, acc_p3_c0); acc_p3_c1 = fmaf(in_0, w_r0_s1, acc_p3_c1);
        acc_p3_c2 = fmaf(in_1, w_r0_s1, acc_p3_c2); acc_p3_c3 = fmaf(in_2, w_r0_s1, acc_p3_c3);
        acc_p3_c0 = fmaf(in_0, w_r0_s2, acc_p3_c0); acc_p3_c1 = fmaf(in_1, w_r0_s2, acc_p3_c1);
        acc_p3_c2 = fmaf(in_2, w_r0_s2, acc_p3_c2); acc_p3_c3 = fmaf(in_3, w_r0_s2, acc_p3_c3);
        acc_p3_c0 = fmaf(in_1, w_r0_s3, acc_p3_c0); acc_p3_c1 = fmaf(in_2, w_r0_s3, acc_p3_c1);
        acc_p3_c2 = fmaf(in_3, w_r0_s3, acc_p3_c2); acc_p3_c3 = fmaf(in_4, w_r0_s3, acc_p3_c3);
        acc_p3_c0 = fmaf(in_2, w_r0_s4, acc_p3_c0); acc_p3_c1 = fmaf(in_3, w_r0_s4, acc_p3_c1);
        acc_p3_c2 = fmaf(in_4, w_r0_s4, acc_p3_c2); acc_p3_c3 = fmaf(in_5, w_r0_s4, acc_p3_c3);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0);
            out_c1 = finish(out_c1);
            out_c2 = finish(out_c2);
            out_c3 = finish(out_c3);
            if (out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    };

    // 2 steps are loaded while the 2 before are used
    Row ready[PREFETCH], next[PREFETCH];
    load(ready);
#pragma unroll 1
    while (true) {
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
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
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
        const index_t plane = (z * WARP_PLANES + warp_plane) * PLANES + member;
        const bool active = member < PLANES && plane < planes;
        // lanes without a plane load nothing and store nothing
        const index_t made = active ? plane : 0;
        const int k = (int)(made % K);
        const float* x_plane = x + (made / K * K + k) * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float* w_plane = w + k * (index_t)25;

        if (p_first < P && (z * WARP_PLANES + warp_plane) * PLANES < planes)
            sub_block(x_plane, w_plane, y_plane, p_first, rows_out, q, position, active, H, W, Q);
    }
}
