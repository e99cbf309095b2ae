// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --epilogue relu --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=interior \
//     --set sub_block_rows=14 --set prefetch_rows=4 --set weights=registers --set loads=cached --set stage_steps=2 \
//     --set tap_rows=all --set warp_columns=4 --set warp_rows=1 --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2, float32, then relu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 4
//        steps ahead
// cost   sub-block of 14 rows x 128 columns: 36 warp loads, 0 shuffles, 1800 FMA a lane, about 77 registers (direct:
//        1400 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row by
// asynchronous copies to shared memory, where all lanes find the others. An input row is loaded once and added to the 5
// output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the next older row, so
// the accumulators move on without a move.
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 5;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int LANE_COLUMNS = 4;                 // input columns of a lane
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

constexpr int MARGIN = 4;                   // elements of a row in shared memory; those before its first own column
constexpr int STEP = 136, RING = 816;       // of a step's rows; of all rows that a warp holds

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W, int Q,
        float* ring) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = INTERIOR || (active && column < W);
    const int own = MARGIN + position * LANE_COLUMNS;                      // where this lane's columns lie in a row
    // the first lanes copy what lies beside the strip: 4 columns to its left, 4 to its right
    const bool beside_strip = lane < 2;
    const int beside_column = lane < 1 ? (lane - 1) * 4 : 128 + (lane - 1) * 4;
    const int beside = MARGIN + beside_column, from_own = beside_column - position * LANE_COLUMNS;
    const bool beside_inside = INTERIOR || (unsigned)(column + from_own) < (unsigned)W;
    const bool out_inside_0 = INTERIOR || (active && q < Q);
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
    // steps above the image add nothing
    int s = INTERIOR || h_first >= 0 ? 0 : min(-h_first, LIVE_ROWS - 1);
    int h = h_first + s;
    const int h_end = min(H, max(0, h_first + (rows_out + LIVE_ROWS - 1)));
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f,
          acc_p2_c0 = 0.0f, acc_p2_c1 = 0.0f, acc_p2_c2 = 0.0f, acc_p2_c3 = 0.0f,
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f, acc_p3_c2 = 0.0f, acc_p3_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = INTERIOR ? steps : min(steps, max(s, H - h_first));
    const float* row = x + (index_t)h * W + column;
    auto copy = [&](int slot) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            float* to = ring + slot + i * STEP;
            const bool row_inside_0 = INTERIOR || (unsigned)h < (unsigned)h_end;
            if (INTERIOR) wc_copy_async_if_16(true, to + own, row);
            else wc_copy_async_zfill_16(true, to + own, row, row_inside_0 && own_inside_0);
            if (INTERIOR) wc_copy_async_if_16(beside_strip, to + beside, row + from_own);
            else wc_copy_async_zfill_16(beside_strip, to + beside, row + from_own, row_inside_0 && beside_inside);
            row += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float2 line_m2 = *(const float2*)(ring + at + own - 2);
        const float4 line_0 = *(const float4*)(ring + at + own);
        const float2 line_4 = *(const float2*)(ring + at + own + 4);
        const float in_m2 = line_m2.x;
        const float in_m1 = line_m2.y;
        const float in_0 = line_0.x;
        const float in_1 = line_0.y;
        const float in_2 = line_0.z;
        const float in_3 = line_0.w;
        const float in_4 = line_4.x;
        const float in_5 = line_4.y;
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
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    };
    // where the rows of this stage lie in the ring
    int slot = 0;
    auto stage = [&](bool copies) __attribute__((always_inline)) {
        wc_copy_async_wait_group();
        // every lane's copies of this stage are there
        __syncwarp();
        // the rows of 2 stages on take the place of those of the stage before
        if (copies) copy(slot == 0 ? 2 * STAGE_STEPS * STEP : slot - STAGE_STEPS * STEP);
        wc_copy_async_commit();
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            step(slot + i * STEP);
            ++s;
        }
        slot = slot == 2 * STAGE_STEPS * STEP ? 0 : slot + STAGE_STEPS * STEP;
    };

    // all lanes have used what the ring held before
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (s + i * STAGE_STEPS < steps_inside) copy(i * STAGE_STEPS * STEP);
        wc_copy_async_commit();
    }
#pragma unroll 1
    while (s < steps_inside - 4) stage(true);
#pragma unroll 1
    while (s < steps_inside) stage(false);

    // steps below the image add nothing
#pragma unroll 1
    for (; s < steps; ++s) {
        float out_c0, out_c1, out_c2, out_c3;
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = acc_p2_c0; acc_p1_c1 = acc_p2_c1; acc_p1_c2 = acc_p2_c2; acc_p1_c3 = acc_p2_c3;
        acc_p2_c0 = acc_p3_c0; acc_p2_c1 = acc_p3_c1; acc_p2_c2 = acc_p3_c2; acc_p2_c3 = acc_p3_c3;
        acc_p3_c0 = 0.0f; acc_p3_c1 = 0.0f; acc_p3_c2 = 0.0f; acc_p3_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0);
            out_c1 = finish(out_c1);
            out_c2 = finish(out_c2);
            out_c3 = finish(out_c3);
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    __shared__ __align__(16) float lines[3264];
    float* ring = lines + threadIdx.x / 32 * RING;                  // this warp's rows
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
                              && columns_first >= 4 && columns_first + 132 <= W && strip * STRIP + STRIP <= Q;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, p_first, rows, q, lane, true, H, W, Q, ring);
        else
            sub_block<false>(x_plane, w_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q, ring);
    }
}
