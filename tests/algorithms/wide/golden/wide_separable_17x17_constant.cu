// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,17,17 --padding 8 --separable --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=interior \
//     --set sub_block_rows=14 --set prefetch_rows=4 --set weights=constant --set loads=cached --set stage_steps=2 \
//     --set tap_rows=all --set warp_columns=4 --set warp_rows=1 --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 17, 17] -> y[N, 1, P, Q], stride 1, padding 8, separable, float32
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 4
//        steps ahead
// cost   sub-block of 14 rows x 128 columns: 60 warp loads, 0 shuffles, 4080 FMA a lane, about 112 registers (direct:
//        16184 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row by
// asynchronous copies to shared memory, where all lanes find the others. An input row is loaded once and added to the
// 17 output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the next older row,
// so the accumulators move on without a move. Filters are columns times rows, w[r][s] = wy[r] * wx[s], given as wy,
// then wx: each input row is summed with wx once, and its sums are then added to the output rows with wy.
constexpr int PAD_TOP = 8;                      // rows of zeros above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 17;                   // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int LANE_COLUMNS = 4;                 // input columns of a lane
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements
__constant__ float filter_bank[34];

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

constexpr int MARGIN = 8;                   // elements of a row in shared memory; those before its first own column
constexpr int STEP = 144, RING = 864;       // of a step's rows; of all rows that a warp holds

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const float* __restrict__ x, float* __restrict__ y, int p_first, int rows_out,
        int q, int position, bool active, int H, int W, int Q, float* ring) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = INTERIOR || (active && column < W);
    const int own = MARGIN + position * LANE_COLUMNS;                      // where this lane's columns lie in a row
    // the first lanes copy what lies beside the strip: 8 columns to its left, 8 to its right
    const bool beside_strip = lane < 4;
    const int beside_column = lane < 2 ? (lane - 2) * 4 : 128 + (lane - 2) * 4;
    const int beside = MARGIN + beside_column, from_own = beside_column - position * LANE_COLUMNS;
    const bool beside_inside = INTERIOR || (unsigned)(column + from_own) < (unsigned)W;
    const bool out_inside_0 = INTERIOR || (active && q < Q);

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
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f, acc_p3_c2 = 0.0f, acc_p3_c3 = 0.0f,
          acc_p4_c0 = 0.0f, acc_p4_c1 = 0.0f, acc_p4_c2 = 0.0f, acc_p4_c3 = 0.0f,
          acc_p5_c0 = 0.0f, acc_p5_c1 = 0.0f, acc_p5_c2 = 0.0f, acc_p5_c3 = 0.0f,
          acc_p6_c0 = 0.0f, acc_p6_c1 = 0.0f, acc_p6_c2 = 0.0f, acc_p6_c3 = 0.0f,
          acc_p7_c0 = 0.0f, acc_p7_c1 = 0.0f, acc_p7_c2 = 0.0f, acc_p7_c3 = 0.0f,
          acc_p8_c0 = 0.0f, acc_p8_c1 = 0.0f, acc_p8_c2 = 0.0f, acc_p8_c3 = 0.0f,
          acc_p9_c0 = 0.0f, acc_p9_c1 = 0.0f, acc_p9_c2 = 0.0f, acc_p9_c3 = 0.0f,
          acc_p10_c0 = 0.0f, acc_p10_c1 = 0.0f, acc_p10_c2 = 0.0f, acc_p10_c3 = 0.0f,
          acc_p11_c0 = 0.0f, acc_p11_c1 = 0.0f, acc_p11_c2 = 0.0f, acc_p11_c3 = 0.0f,
          acc_p12_c0 = 0.0f, acc_p12_c1 = 0.0f, acc_p12_c2 = 0.0f, acc_p12_c3 = 0.0f,
          acc_p13_c0 = 0.0f, acc_p13_c1 = 0.0f, acc_p13_c2 = 0.0f, acc_p13_c3 = 0.0f,
          acc_p14_c0 = 0.0f, acc_p14_c1 = 0.0f, acc_p14_c2 = 0.0f, acc_p14_c3 = 0.0f,
          acc_p15_c0 = 0.0f, acc_p15_c1 = 0.0f, acc_p15_c2 = 0.0f, acc_p15_c3 = 0.0f;
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
        const float4 line_m8 = *(const float4*)(ring + at + own - 8);
        const float4 line_m4 = *(const float4*)(ring + at + own - 4);
        const float4 line_0 = *(const float4*)(ring + at + own);
        const float4 line_4 = *(const float4*)(ring + at + own + 4);
        const float4 line_8 = *(const float4*)(ring + at + own + 8);
        const float in_m8 = line_m8.x;
        const float in_m7 = line_m8.y;
        const float in_m6 = line_m8.z;
        const float in_m5 = line_m8.w;
        const float in_m4 = line_m4.x;
        const float in_m3 = line_m4.y;
        const float in_m2 = line_m4.z;
        const float in_m1 = line_m4.w;
        const float in_0 = line_0.x;
        const float in_1 = line_0.y;
        const float in_2 = line_0.z;
        const float in_3 = line_0.w;
        const float in_4 = line_4.x;
        const float in_5 = line_4.y;
        const float in_6 = line_4.z;
        const float in_7 = line_4.w;
        const float in_8 = line_8.x;
        const float in_9 = line_8.y;
        const float in_10 = line_8.z;
        const float in_11 = line_8.w;
        // sums of the input row with the filter's row
        float sum_c0 = in_m8 * filter_bank[17], sum_c1 = in_m7 * filter_bank[17],
              sum_c2 = in_m6 * filter_bank[17], sum_c3 = in_m5 * filter_bank[17];
        sum_c0 = fmaf(in_m7, filter_bank[18], sum_c0); sum_c1 = fmaf(in_m6, filter_bank[18], sum_c1);
        sum_c2 = fmaf(in_m5, filter_bank[18], sum_c2); sum_c3 = fmaf(in_m4, filter_bank[18], sum_c3);
        sum_c0 = fmaf(in_m6, filter_bank[19], sum_c0); sum_c1 = fmaf(in_m5, filter_bank[19], sum_c1);
        sum_c2 = fmaf(in_m4, filter_bank[19], sum_c2); sum_c3 = fmaf(in_m3, filter_bank[19], sum_c3);
        sum_c0 = fmaf(in_m5, filter_bank[20], sum_c0); sum_c1 = fmaf(in_m4, filter_bank[20], sum_c1);
        sum_c2 = fmaf(in_m3, filter_bank[20], sum_c2); sum_c3 = fmaf(in_m2, filter_bank[20], sum_c3);
        sum_c0 = fmaf(in_m4, filter_bank[21], sum_c0); sum_c1 = fmaf(in_m3, filter_bank[21], sum_c1);
        sum_c2 = fmaf(in_m2, filter_bank[21], sum_c2); sum_c3 = fmaf(in_m1, filter_bank[21], sum_c3);
        sum_c0 = fmaf(in_m3, filter_bank[22], sum_c0); sum_c1 = fmaf(in_m2, filter_bank[22], sum_c1);
        sum_c2 = fmaf(in_m1, filter_bank[22], sum_c2); sum_c3 = fmaf(in_0, filter_bank[22], sum_c3);
        sum_c0 = fmaf(in_m2, filter_bank[23], sum_c0); sum_c1 = fmaf(in_m1, filter_bank[23], sum_c1);
        sum_c2 = fmaf(in_0, filter_bank[23], sum_c2); sum_c3 = fmaf(in_1, filter_bank[23], sum_c3);
        sum_c0 = fmaf(in_m1, filter_bank[24], sum_c0); sum_c1 = fmaf(in_0, filter_bank[24], sum_c1);
        sum_c2 = fmaf(in_1, filter_bank[24], sum_c2); sum_c3 = fmaf(in_2, filter_bank[24], sum_c3);
        sum_c0 = fmaf(in_0, filter_bank[25], sum_c0); sum_c1 = fmaf(in_1, filter_bank[25], sum_c1);
        sum_c2 = fmaf(in_2, filter_bank[25], sum_c2); sum_c3 = fmaf(in_3, filter_bank[25], sum_c3);
        sum_c0 = fmaf(in_1, filter_bank[26], sum_c0); sum_c1 = fmaf(in_2, filter_bank[26], sum_c1);
        sum_c2 = fmaf(in_3, filter_bank[26], sum_c2); sum_c3 = fmaf(in_4, filter_bank[26], sum_c3);
        sum_c0 = fmaf(in_2, filter_bank[27], sum_c0); sum_c1 = fmaf(in_3, filter_bank[27], sum_c1);
        sum_c2 = fmaf(in_4, filter_bank[27], sum_c2); sum_c3 = fmaf(in_5, filter_bank[27], sum_c3);
        sum_c0 = fmaf(in_3, filter_bank[28], sum_c0); sum_c1 = fmaf(in_4, filter_bank[28], sum_c1);
        sum_c2 = fmaf(in_5, filter_bank[28], sum_c2); sum_c3 = fmaf(in_6, filter_bank[28], sum_c3);
        sum_c0 = fmaf(in_4, filter_bank[29], sum_c0); sum_c1 = fmaf(in_5, filter_bank[29], sum_c1);
        sum_c2 = fmaf(in_6, filter_bank[29], sum_c2); sum_c3 = fmaf(in_7, filter_bank[29], sum_c3);
        sum_c0 = fmaf(in_5, filter_bank[30], sum_c0); sum_c1 = fmaf(in_6, filter_bank[30], sum_c1);
        sum_c2 = fmaf(in_7, filter_bank[30], sum_c2); sum_c3 = fmaf(in_8, filter_bank[30], sum_c3);
        sum_c0 = fmaf(in_6, filter_bank[31], sum_c0); sum_c1 = fmaf(in_7, filter_bank[31], sum_c1);
        sum_c2 = fmaf(in_8, filter_bank[31], sum_c2); sum_c3 = fmaf(in_9, filter_bank[31], sum_c3);
        sum_c0 = fmaf(in_7, filter_bank[32], sum_c0); sum_c1 = fmaf(in_8, filter_bank[32], sum_c1);
        sum_c2 = fmaf(in_9, filter_bank[32], sum_c2); sum_c3 = fmaf(in_10, filter_bank[32], sum_c3);
        sum_c0 = fmaf(in_8, filter_bank[33], sum_c0); sum_c1 = fmaf(in_9, filter_bank[33], sum_c1);
        sum_c2 = fmaf(in_10, filter_bank[33], sum_c2); sum_c3 = fmaf(in_11, filter_bank[33], sum_c3);
        // filter row 16
        out_c0 = fmaf(sum_c0, filter_bank[16], acc_p0_c0); out_c1 = fmaf(sum_c1, filter_bank[16], acc_p0_c1);
        out_c2 = fmaf(sum_c2, filter_bank[16], acc_p0_c2); out_c3 = fmaf(sum_c3, filter_bank[16], acc_p0_c3);
        // filter row 15
        acc_p0_c0 = fmaf(sum_c0, filter_bank[15], acc_p1_c0); acc_p0_c1 = fmaf(sum_c1, filter_bank[15], acc_p1_c1);
        acc_p0_c2 = fmaf(sum_c2, filter_bank[15], acc_p1_c2); acc_p0_c3 = fmaf(sum_c3, filter_bank[15], acc_p1_c3);
        // filter row 14
        acc_p1_c0 = fmaf(sum_c0, filter_bank[14], acc_p2_c0); acc_p1_c1 = fmaf(sum_c1, filter_bank[14], acc_p2_c1);
        acc_p1_c2 = fmaf(sum_c2, filter_bank[14], acc_p2_c2); acc_p1_c3 = fmaf(sum_c3, filter_bank[14], acc_p2_c3);
        // filter row 13
        acc_p2_c0 = fmaf(sum_c0, filter_bank[13], acc_p3_c0); acc_p2_c1 = fmaf(sum_c1, filter_bank[13], acc_p3_c1);
        acc_p2_c2 = fmaf(sum_c2, filter_bank[13], acc_p3_c2); acc_p2_c3 = fmaf(sum_c3, filter_bank[13], acc_p3_c3);
        // filter row 12
        acc_p3_c0 = fmaf(sum_c0, filter_bank[12], acc_p4_c0); acc_p3_c1 = fmaf(sum_c1, filter_bank[12], acc_p4_c1);
        acc_p3_c2 = fmaf(sum_c2, filter_bank[12], acc_p4_c2); acc_p3_c3 = fmaf(sum_c3, filter_bank[12], acc_p4_c3);
        // filter row 11
        acc_p4_c0 = fmaf(sum_c0, filter_bank[11], acc_p5_c0); acc_p4_c1 = fmaf(sum_c1, filter_bank[11], acc_p5_c1);
        acc_p4_c2 = fmaf(sum_c2, filter_bank[11], acc_p5_c2); acc_p4_c3 = fmaf(sum_c3, filter_bank[11], acc_p5_c3);
        // filter row 10
        acc_p5_c0 = fmaf(sum_c0, filter_bank[10], acc_p6_c0); acc_p5_c1 = fmaf(sum_c1, filter_bank[10], acc_p6_c1);
        acc_p5_c2 = fmaf(sum_c2, filter_bank[10], acc_p6_c2); acc_p5_c3 = fmaf(sum_c3, filter_bank[10], acc_p6_c3);
        // filter row 9
        acc_p6_c0 = fmaf(sum_c0, filter_bank[9], acc_p7_c0); acc_p6_c1 = fmaf(sum_c1, filter_bank[9], acc_p7_c1);
        acc_p6_c2 = fmaf(sum_c2, filter_bank[9], acc_p7_c2); acc_p6_c3 = fmaf(sum_c3, filter_bank[9], acc_p7_c3);
        // filter row 8
        acc_p7_c0 = fmaf(sum_c0, filter_bank[8], acc_p8_c0); acc_p7_c1 = fmaf(sum_c1, filter_bank[8], acc_p8_c1);
        acc_p7_c2 = fmaf(sum_c2, filter_bank[8], acc_p8_c2); acc_p7_c3 = fmaf(sum_c3, filter_bank[8], acc_p8_c3);
        // filter row 7
        acc_p8_c0 = fmaf(sum_c0, filter_bank[7], acc_p9_c0); acc_p8_c1 = fmaf(sum_c1, filter_bank[7], acc_p9_c1);
        acc_p8_c2 = fmaf(sum_c2, filter_bank[7], acc_p9_c2); acc_p8_c3 = fmaf(sum_c3, filter_bank[7], acc_p9_c3);
        // filter row 6
        acc_p9_c0 = fmaf(sum_c0, filter_bank[6], acc_p10_c0); acc_p9_c1 = fmaf(sum_c1, filter_bank[6], acc_p10_c1);
        acc_p9_c2 = fmaf(sum_c2, filter_bank[6], acc_p10_c2); acc_p9_c3 = fmaf(sum_c3, filter_bank[6], acc_p10_c3);
        // filter row 5
        acc_p10_c0 = fmaf(sum_c0, filter_bank[5], acc_p11_c0); acc_p10_c1 = fmaf(sum_c1, filter_bank[5], acc_p11_c1);
        acc_p10_c2 = fmaf(sum_c2, filter_bank[5], acc_p11_c2); acc_p10_c3 = fmaf(sum_c3, filter_bank[5], acc_p11_c3);
        // filter row 4
        acc_p11_c0 = fmaf(sum_c0, filter_bank[4], acc_p12_c0); acc_p11_c1 = fmaf(sum_c1, filter_bank[4], acc_p12_c1);
        acc_p11_c2 = fmaf(sum_c2, filter_bank[4], acc_p12_c2); acc_p11_c3 = fmaf(sum_c3, filter_bank[4], acc_p12_c3);
        // filter row 3
        acc_p12_c0 = fmaf(sum_c0, filter_bank[3], acc_p13_c0); acc_p12_c1 = fmaf(sum_c1, filter_bank[3], acc_p13_c1);
        acc_p12_c2 = fmaf(sum_c2, filter_bank[3], acc_p13_c2); acc_p12_c3 = fmaf(sum_c3, filter_bank[3], acc_p13_c3);
        // filter row 2
        acc_p13_c0 = fmaf(sum_c0, filter_bank[2], acc_p14_c0); acc_p13_c1 = fmaf(sum_c1, filter_bank[2], acc_p14_c1);
        acc_p13_c2 = fmaf(sum_c2, filter_bank[2], acc_p14_c2); acc_p13_c3 = fmaf(sum_c3, filter_bank[2], acc_p14_c3);
        // filter row 1
        acc_p14_c0 = fmaf(sum_c0, filter_bank[1], acc_p15_c0); acc_p14_c1 = fmaf(sum_c1, filter_bank[1], acc_p15_c1);
        acc_p14_c2 = fmaf(sum_c2, filter_bank[1], acc_p15_c2); acc_p14_c3 = fmaf(sum_c3, filter_bank[1], acc_p15_c3);
        // filter row 0
        acc_p15_c0 = sum_c0 * filter_bank[0]; acc_p15_c1 = sum_c1 * filter_bank[0];
        acc_p15_c2 = sum_c2 * filter_bank[0]; acc_p15_c3 = sum_c3 * filter_bank[0];
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
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
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1;
        out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1;
        acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = acc_p2_c0; acc_p1_c1 = acc_p2_c1;
        acc_p1_c2 = acc_p2_c2; acc_p1_c3 = acc_p2_c3;
        acc_p2_c0 = acc_p3_c0; acc_p2_c1 = acc_p3_c1;
        acc_p2_c2 = acc_p3_c2; acc_p2_c3 = acc_p3_c3;
        acc_p3_c0 = acc_p4_c0; acc_p3_c1 = acc_p4_c1;
        acc_p3_c2 = acc_p4_c2; acc_p3_c3 = acc_p4_c3;
        acc_p4_c0 = acc_p5_c0; acc_p4_c1 = acc_p5_c1;
        acc_p4_c2 = acc_p5_c2; acc_p4_c3 = acc_p5_c3;
        acc_p5_c0 = acc_p6_c0; acc_p5_c1 = acc_p6_c1;
        acc_p5_c2 = acc_p6_c2; acc_p5_c3 = acc_p6_c3;
        acc_p6_c0 = acc_p7_c0; acc_p6_c1 = acc_p7_c1;
        acc_p6_c2 = acc_p7_c2; acc_p6_c3 = acc_p7_c3;
        acc_p7_c0 = acc_p8_c0; acc_p7_c1 = acc_p8_c1;
        acc_p7_c2 = acc_p8_c2; acc_p7_c3 = acc_p8_c3;
        acc_p8_c0 = acc_p9_c0; acc_p8_c1 = acc_p9_c1;
        acc_p8_c2 = acc_p9_c2; acc_p8_c3 = acc_p9_c3;
        acc_p9_c0 = acc_p10_c0; acc_p9_c1 = acc_p10_c1;
        acc_p9_c2 = acc_p10_c2; acc_p9_c3 = acc_p10_c3;
        acc_p10_c0 = acc_p11_c0; acc_p10_c1 = acc_p11_c1;
        acc_p10_c2 = acc_p11_c2; acc_p10_c3 = acc_p11_c3;
        acc_p11_c0 = acc_p12_c0; acc_p11_c1 = acc_p12_c1;
        acc_p11_c2 = acc_p12_c2; acc_p11_c3 = acc_p12_c3;
        acc_p12_c0 = acc_p13_c0; acc_p12_c1 = acc_p13_c1;
        acc_p12_c2 = acc_p13_c2; acc_p12_c3 = acc_p13_c3;
        acc_p13_c0 = acc_p14_c0; acc_p13_c1 = acc_p14_c1;
        acc_p13_c2 = acc_p14_c2; acc_p13_c3 = acc_p14_c3;
        acc_p14_c0 = acc_p15_c0; acc_p14_c1 = acc_p15_c1;
        acc_p14_c2 = acc_p15_c2; acc_p14_c3 = acc_p15_c3;
        acc_p15_c0 = 0.0f; acc_p15_c1 = 0.0f;
        acc_p15_c2 = 0.0f; acc_p15_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_17x17(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    __shared__ __align__(16) float lines[3456];
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

        if (p_first >= P || !has_columns || made >= planes) continue;      // the same for all lanes of a warp
        const int h_first = p_first - PAD_TOP, columns_first = strip * STRIP;
        // a sub-block whose every load lies in the image needs no guards
        const bool interior = rows_out == rows && h_first >= 0 && h_first < H - (stages * STAGE_STEPS - 1)
                              && columns_first >= 8 && columns_first + 136 <= W && strip * STRIP + STRIP <= Q;
        if (interior)
            sub_block<true>(x_plane, y_plane, p_first, rows, q, lane, true, H, W, Q, ring);
        else
            sub_block<false>(x_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q, ring);
    }
}
