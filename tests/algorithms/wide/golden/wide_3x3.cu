// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,3,3 --padding 1 --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=interior \
//     --set sub_block_rows=14 --set prefetch_rows=2 --set weights=registers --set loads=registers \
//     --set stage_steps=1 --set pipeline=paired --set tap_rows=all --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 3, 3] -> y[N, 1, P, Q], stride 1, padding 1, float32
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 2
//        steps ahead
// cost   sub-block of 14 rows x 128 columns: 32 warp loads, 32 shuffles, 576 FMA a lane, about 69 registers (direct:
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
constexpr int PREFETCH = 2;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// An input row as it was loaded: this lane's columns, and in the outermost lanes those beyond the strip.
struct Row {
    float4 own_0;
    float edge_0;
};

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W, int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = INTERIOR || (active && column < W);
    // the outermost lanes load what lies beyond the strip: the last 1 to its left, the first 1 to its right
    const bool to_left = position >= 31, to_right = position < 1;
    const int beyond = to_left ? -125 : 128;
    const bool edge_inside_0 = (to_left || to_right) && (INTERIOR || (unsigned)(column + beyond) < (unsigned)W);
    const int lane_left_1 = lane - 1; const bool edge_left_1 = lane >= 31;
    const int lane_right_1 = lane + 1; const bool edge_right_1 = lane < 1;
    const bool out_inside_0 = INTERIOR || (active && q < Q);
    // filter, one register per weight
    const float w_r0_s0 = __ldg(w), w_r0_s1 = __ldg(w + 1), w_r0_s2 = __ldg(w + 2);
    const float w_r1_s0 = __ldg(w + 3), w_r1_s1 = __ldg(w + 4), w_r1_s2 = __ldg(w + 5);
    const float w_r2_s0 = __ldg(w + 6), w_r2_s1 = __ldg(w + 7), w_r2_s2 = __ldg(w + 8);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    // steps above the image add nothing
    int s = INTERIOR || h_first >= 0 ? 0 : min(-h_first, LIVE_ROWS - 1);
    int h = h_first + s;
    const int h_end = min(H, max(0, h_first + (rows_out + LIVE_ROWS - 1)));
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = INTERIOR ? steps : min(steps, max(s, H - h_first));
    const float* row = x + (index_t)h * W + column;

    auto load = [&](Row (&rows)[PREFETCH]) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            const bool row_inside = INTERIOR || (unsigned)h < (unsigned)h_end;
            rows[i].own_0 = row_inside && own_inside_0 ? __ldg((const float4*)(row))
                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (INTERIOR) {
                if (edge_inside_0) rows[i].edge_0 = __ldg((const float*)(row + beyond));
            } else {
                rows[i].edge_0 = row_inside && edge_inside_0 ? __ldg((const float*)(row + beyond)) : 0.0f;
            }
            row += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](const Row (&rows)[PREFETCH], int i, int s) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float in_m1 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[i].edge_0 : rows[i].own_0.w, lane_left_1);
        const float in_4 = __shfl_sync(ALL_LANES, edge_right_1 ? rows[i].edge_0 : rows[i].own_0.x, lane_right_1);
        const float in_0 = rows[i].own_0.x;
        const float in_1 = rows[i].own_0.y;
        const float in_2 = rows[i].own_0.z;
        const float in_3 = rows[i].own_0.w;
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
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    };

    // 2 steps are loaded while the 2 before are used
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
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = 0.0f; acc_p1_c1 = 0.0f; acc_p1_c2 = 0.0f; acc_p1_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_column = warp % WARP_COLUMNS;
    const int warp_plane = warp / WARP_COLUMNS;
    const index_t planes = (index_t)N;
    const int strip = blockIdx.x * WARP_COLUMNS + warp_column;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column
    const bool has_columns = strip * STRIP < Q;

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = ((P + bands - 1) / bands + LIVE_ROWS - 1 + STAGE_STEPS - 1) / STAGE_STEPS;
    const int rows = stages * STAGE_STEPS - (LIVE_ROWS - 1);
    const int first = blockIdx.y * rows;                                        // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z < planes; z += gridDim.z) {
        const index_t made = z + warp_plane;                               // output plane of this warp
        const float* x_plane = x + made * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float* w_plane = w;

        if (p_first >= P || !has_columns || made >= planes) continue;      // the same for all lanes of a warp
        const int h_first = p_first - PAD_TOP, columns_first = strip * STRIP;
        // a sub-block whose every load lies in the image needs no guards
        const bool interior = rows_out == rows && h_first >= 0 && h_first < H - (stages * STAGE_STEPS - 1)
                              && columns_first >= 1 && columns_first + 129 <= W && strip * STRIP + STRIP <= Q;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, p_first, rows, q, lane, true, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q);
    }
}
