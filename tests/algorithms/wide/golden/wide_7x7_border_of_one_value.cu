// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,7,7 --padding 3 --padding-mode constant --padding-value 1 \
//     --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=guarded \
//     --set sub_block_rows=14 --set prefetch_rows=2 --set weights=registers --set loads=cached --set stage_steps=1 \
//     --set tap_rows=all --set warp_columns=4 --set warp_rows=1 --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 7, 7] -> y[N, 1, P, Q], stride 1, padding 3 (constant), float32
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image) are arguments (W a multiple of 4; Q a
//        multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 2
//        steps ahead
// cost   sub-block of 14 rows x 128 columns: 40 warp loads, 0 shuffles, 3920 FMA a lane, about 111 registers (direct:
//        2744 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row by
// asynchronous copies to shared memory, where all lanes find the others. An input row is loaded once and added to the 7
// output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the next older row, so
// the accumulators move on without a move.
constexpr int PAD_TOP = 3;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 7;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int LANE_COLUMNS = 4;                 // input columns of a lane
constexpr int PREFETCH = 2;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 1;                  // steps that come into use together
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

constexpr int MARGIN = 4;                   // elements of a row in shared memory; those before its first own column
constexpr int STEP = 136, RING = 408;       // of a step's rows; of all rows that a warp holds

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W, int Q,
        float* ring, float BORDER) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = column < W;
    const int own = MARGIN + position * LANE_COLUMNS;                      // where this lane's columns lie in a row
    // the first lanes copy what lies beside the strip: 4 columns to its left, 4 to its right
    const int beside_column = lane < 1 ? (lane - 1) * 4 : 128 + (lane - 1) * 4;
    const int beside = MARGIN + beside_column, from_own = beside_column - position * LANE_COLUMNS;
    const bool beside_inside = lane < 2 && (unsigned)(column + from_own) < (unsigned)W;
    const int first_column = column - position * LANE_COLUMNS;             // of the strip
    // some windows reach columns outside of the image
    const bool at_edge = first_column < 4 || first_column + 132 > W;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = __ldg(w), w_r0_s1 = __ldg(w + 1), w_r0_s2 = __ldg(w + 2), w_r0_s3 = __ldg(w + 3),
                w_r0_s4 = __ldg(w + 4), w_r0_s5 = __ldg(w + 5), w_r0_s6 = __ldg(w + 6);
    const float w_r1_s0 = __ldg(w + 7), w_r1_s1 = __ldg(w + 8), w_r1_s2 = __ldg(w + 9), w_r1_s3 = __ldg(w + 10),
                w_r1_s4 = __ldg(w + 11), w_r1_s5 = __ldg(w + 12), w_r1_s6 = __ldg(w + 13);
    const float w_r2_s0 = __ldg(w + 14), w_r2_s1 = __ldg(w + 15), w_r2_s2 = __ldg(w + 16), w_r2_s3 = __ldg(w + 17),
                w_r2_s4 = __ldg(w + 18), w_r2_s5 = __ldg(w + 19), w_r2_s6 = __ldg(w + 20);
    const float w_r3_s0 = __ldg(w + 21), w_r3_s1 = __ldg(w + 22), w_r3_s2 = __ldg(w + 23), w_r3_s3 = __ldg(w + 24),
                w_r3_s4 = __ldg(w + 25), w_r3_s5 = __ldg(w + 26), w_r3_s6 = __ldg(w + 27);
    const float w_r4_s0 = __ldg(w + 28), w_r4_s1 = __ldg(w + 29), w_r4_s2 = __ldg(w + 30), w_r4_s3 = __ldg(w + 31),
                w_r4_s4 = __ldg(w + 32), w_r4_s5 = __ldg(w + 33), w_r4_s6 = __ldg(w + 34);
    const float w_r5_s0 = __ldg(w + 35), w_r5_s1 = __ldg(w + 36), w_r5_s2 = __ldg(w + 37), w_r5_s3 = __ldg(w + 38),
                w_r5_s4 = __ldg(w + 39), w_r5_s5 = __ldg(w + 40), w_r5_s6 = __ldg(w + 41);
    const float w_r6_s0 = __ldg(w + 42), w_r6_s1 = __ldg(w + 43), w_r6_s2 = __ldg(w + 44), w_r6_s3 = __ldg(w + 45),
                w_r6_s4 = __ldg(w + 46), w_r6_s5 = __ldg(w + 47), w_r6_s6 = __ldg(w + 48);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    int s = 0;
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f,
          acc_p2_c0 = 0.0f, acc_p2_c1 = 0.0f, acc_p2_c2 = 0.0f, acc_p2_c3 = 0.0f,
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f, acc_p3_c2 = 0.0f, acc_p3_c3 = 0.0f,
          acc_p4_c0 = 0.0f, acc_p4_c1 = 0.0f, acc_p4_c2 = 0.0f, acc_p4_c3 = 0.0f,
          acc_p5_c0 = 0.0f, acc_p5_c1 = 0.0f, acc_p5_c2 = 0.0f, acc_p5_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const float* row = x + (index_t)h_first * W + column;
    // the rows of a stage, from row h of the image on; inside: all of them lie in the image
    auto copy = [&](int slot, int h, bool inside) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            float* to = ring + slot + i * STEP;
            if (inside || (unsigned)h < (unsigned)H) {
                wc_copy_async_if_16(own_inside_0, to + own, row);
                wc_copy_async_if_16(beside_inside, to + beside, row + from_own);
            } else {
                if (own_inside_0) *(float4*)(to + own) = make_float4(BORDER, BORDER, BORDER, BORDER);
                if (beside_inside) *(float4*)(to + beside) = make_float4(BORDER, BORDER, BORDER, BORDER);
            }
            row += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float4 line_m4 = *(const float4*)(ring + at + own - 4);
        const float4 line_0 = *(const float4*)(ring + at + own);
        const float4 line_4 = *(const float4*)(ring + at + own + 4);
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
        // filter row 6
        out_c0 = fmaf(in_m3, w_r6_s0, acc_p0_c0); out_c1 = fmaf(in_m2, w_r6_s0, acc_p0_c1);
        out_c2 = fmaf(in_m1, w_r6_s0, acc_p0_c2); out_c3 = fmaf(in_0, w_r6_s0, acc_p0_c3);
        out_c0 = fmaf(in_m2, w_r6_s1, out_c0); out_c1 = fmaf(in_m1, w_r6_s1, out_c1);
        out_c2 = fmaf(in_0, w_r6_s1, out_c2); out_c3 = fmaf(in_1, w_r6_s1, out_c3);
        out_c0 = fmaf(in_m1, w_r6_s2, out_c0); out_c1 = fmaf(in_0, w_r6_s2, out_c1);
        out_c2 = fmaf(in_1, w_r6_s2, out_c2); out_c3 = fmaf(in_2, w_r6_s2, out_c3);
        out_c0 = fmaf(in_0, w_r6_s3, out_c0); out_c1 = fmaf(in_1, w_r6_s3, out_c1);
        out_c2 = fmaf(in_2, w_r6_s3, out_c2); out_c3 = fmaf(in_3, w_r6_s3, out_c3);
        out_c0 = fmaf(in_1, w_r6_s4, out_c0); out_c1 = fmaf(in_2, w_r6_s4, out_c1);
        out_c2 = fmaf(in_3, w_r6_s4, out_c2); out_c3 = fmaf(in_4, w_r6_s4, out_c3);
        out_c0 = fmaf(in_2, w_r6_s5, out_c0); out_c1 = fmaf(in_3, w_r6_s5, out_c1);
        out_c2 = fmaf(in_4, w_r6_s5, out_c2); out_c3 = fmaf(in_5, w_r6_s5, out_c3);
        out_c0 = fmaf(in_3, w_r6_s6, out_c0); out_c1 = fmaf(in_4, w_r6_s6, out_c1);
        out_c2 = fmaf(in_5, w_r6_s6, out_c2); out_c3 = fmaf(in_6, w_r6_s6, out_c3);
        // filter row 5
        acc_p0_c0 = fmaf(in_m3, w_r5_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_m2, w_r5_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_m1, w_r5_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_0, w_r5_s0, acc_p1_c3);
        acc_p0_c0 = fmaf(in_m2, w_r5_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_m1, w_r5_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_0, w_r5_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_1, w_r5_s1, acc_p0_c3);
        acc_p0_c0 = fmaf(in_m1, w_r5_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_0, w_r5_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_1, w_r5_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_2, w_r5_s2, acc_p0_c3);
        acc_p0_c0 = fmaf(in_0, w_r5_s3, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r5_s3, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_r5_s3, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r5_s3, acc_p0_c3);
        acc_p0_c0 = fmaf(in_1, w_r5_s4, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r5_s4, acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, w_r5_s4, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r5_s4, acc_p0_c3);
        acc_p0_c0 = fmaf(in_2, w_r5_s5, acc_p0_c0); acc_p0_c1 = fmaf(in_3, w_r5_s5, acc_p0_c1);
        acc_p0_c2 = fmaf(in_4, w_r5_s5, acc_p0_c2); acc_p0_c3 = fmaf(in_5, w_r5_s5, acc_p0_c3);
        acc_p0_c0 = fmaf(in_3, w_r5_s6, acc_p0_c0); acc_p0_c1 = fmaf(in_4, w_r5_s6, acc_p0_c1);
        acc_p0_c2 = fmaf(in_5, w_r5_s6, acc_p0_c2); acc_p0_c3 = fmaf(in_6, w_r5_s6, acc_p0_c3);
        // filter row 4
        acc_p1_c0 = fmaf(in_m3, w_r4_s0, acc_p2_c0); acc_p1_c1 = fmaf(in_m2, w_r4_s0, acc_p2_c1);
        acc_p1_c2 = fmaf(in_m1, w_r4_s0, acc_p2_c2); acc_p1_c3 = fmaf(in_0, w_r4_s0, acc_p2_c3);
        acc_p1_c0 = fmaf(in_m2, w_r4_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_m1, w_r4_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_0, w_r4_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_1, w_r4_s1, acc_p1_c3);
        acc_p1_c0 = fmaf(in_m1, w_r4_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_0, w_r4_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_1, w_r4_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_2, w_r4_s2, acc_p1_c3);
        acc_p1_c0 = fmaf(in_0, w_r4_s3, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r4_s3, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r4_s3, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r4_s3, acc_p1_c3);
        acc_p1_c0 = fmaf(in_1, w_r4_s4, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r4_s4, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r4_s4, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r4_s4, acc_p1_c3);
        acc_p1_c0 = fmaf(in_2, w_r4_s5, acc_p1_c0); acc_p1_c1 = fmaf(in_3, w_r4_s5, acc_p1_c1);
        acc_p1_c2 = fmaf(in_4, w_r4_s5, acc_p1_c2); acc_p1_c3 = fmaf(in_5, w_r4_s5, acc_p1_c3);
        acc_p1_c0 = fmaf(in_3, w_r4_s6, acc_p1_c0); acc_p1_c1 = fmaf(in_4, w_r4_s6, acc_p1_c1);
        acc_p1_c2 = fmaf(in_5, w_r4_s6, acc_p1_c2); acc_p1_c3 = fmaf(in_6, w_r4_s6, acc_p1_c3);
        // filter row 3
        acc_p2_c0 = fmaf(in_m3, w_r3_s0, acc_p3_c0); acc_p2_c1 = fmaf(in_m2, w_r3_s0, acc_p3_c1);
        acc_p2_c2 = fmaf(in_m1, w_r3_s0, acc_p3_c2); acc_p2_c3 = fmaf(in_0, w_r3_s0, acc_p3_c3);
        acc_p2_c0 = fmaf(in_m2, w_r3_s1, acc_p2_c0); acc_p2_c1 = fmaf(in_m1, w_r3_s1, acc_p2_c1);
        acc_p2_c2 = fmaf(in_0, w_r3_s1, acc_p2_c2); acc_p2_c3 = fmaf(in_1, w_r3_s1, acc_p2_c3);
        acc_p2_c0 = fmaf(in_m1, w_r3_s2, acc_p2_c0); acc_p2_c1 = fmaf(in_0, w_r3_s2, acc_p2_c1);
        acc_p2_c2 = fmaf(in_1, w_r3_s2, acc_p2_c2); acc_p2_c3 = fmaf(in_2, w_r3_s2, acc_p2_c3);
        acc_p2_c0 = fmaf(in_0, w_r3_s3, acc_p2_c0); acc_p2_c1 = fmaf(in_1, w_r3_s3, acc_p2_c1);
        acc_p2_c2 = fmaf(in_2, w_r3_s3, acc_p2_c2); acc_p2_c3 = fmaf(in_3, w_r3_s3, acc_p2_c3);
        acc_p2_c0 = fmaf(in_1, w_r3_s4, acc_p2_c0); acc_p2_c1 = fmaf(in_2, w_r3_s4, acc_p2_c1);
        acc_p2_c2 = fmaf(in_3, w_r3_s4, acc_p2_c2); acc_p2_c3 = fmaf(in_4, w_r3_s4, acc_p2_c3);
        acc_p2_c0 = fmaf(in_2, w_r3_s5, acc_p2_c0); acc_p2_c1 = fmaf(in_3, w_r3_s5, acc_p2_c1);
        acc_p2_c2 = fmaf(in_4, w_r3_s5, acc_p2_c2); acc_p2_c3 = fmaf(in_5, w_r3_s5, acc_p2_c3);
        acc_p2_c0 = fmaf(in_3, w_r3_s6, acc_p2_c0); acc_p2_c1 = fmaf(in_4, w_r3_s6, acc_p2_c1);
        acc_p2_c2 = fmaf(in_5, w_r3_s6, acc_p2_c2); acc_p2_c3 = fmaf(in_6, w_r3_s6, acc_p2_c3);
        // filter row 2
        acc_p3_c0 = fmaf(in_m3, w_r2_s0, acc_p4_c0); acc_p3_c1 = fmaf(in_m2, w_r2_s0, acc_p4_c1);
        acc_p3_c2 = fmaf(in_m1, w_r2_s0, acc_p4_c2); acc_p3_c3 = fmaf(in_0, w_r2_s0, acc_p4_c3);
        acc_p3_c0 = fmaf(in_m2, w_r2_s1, acc_p3_c0); acc_p3_c1 = fmaf(in_m1, w_r2_s1, acc_p3_c1);
        acc_p3_c2 = fmaf(in_0, w_r2_s1, acc_p3_c2); acc_p3_c3 = fmaf(in_1, w_r2_s1, acc_p3_c3);
        acc_p3_c0 = fmaf(in_m1, w_r2_s2, acc_p3_c0); acc_p3_c1 = fmaf(in_0, w_r2_s2, acc_p3_c1);
        acc_p3_c2 = fmaf(in_1, w_r2_s2, acc_p3_c2); acc_p3_c3 = fmaf(in_2, w_r2_s2, acc_p3_c3);
        acc_p3_c0 = fmaf(in_0, w_r2_s3, acc_p3_c0); acc_p3_c1 = fmaf(in_1, w_r2_s3, acc_p3_c1);
        acc_p3_c2 = fmaf(in_2, w_r2_s3, acc_p3_c2); acc_p3_c3 = fmaf(in_3, w_r2_s3, acc_p3_c3);
        acc_p3_c0 = fmaf(in_1, w_r2_s4, acc_p3_c0); acc_p3_c1 = fmaf(in_2, w_r2_s4, acc_p3_c1);
        acc_p3_c2 = fmaf(in_3, w_r2_s4, acc_p3_c2); acc_p3_c3 = fmaf(in_4, w_r2_s4, acc_p3_c3);
        acc_p3_c0 = fmaf(in_2, w_r2_s5, acc_p3_c0); acc_p3_c1 = fmaf(in_3, w_r2_s5, acc_p3_c1);
        acc_p3_c2 = fmaf(in_4, w_r2_s5, acc_p3_c2); acc_p3_c3 = fmaf(in_5, w_r2_s5, acc_p3_c3);
        acc_p3_c0 = fmaf(in_3, w_r2_s6, acc_p3_c0); acc_p3_c1 = fmaf(in_4, w_r2_s6, acc_p3_c1);
        acc_p3_c2 = fmaf(in_5, w_r2_s6, acc_p3_c2); acc_p3_c3 = fmaf(in_6, w_r2_s6, acc_p3_c3);
        // filter row 1
        acc_p4_c0 = fmaf(in_m3, w_r1_s0, acc_p5_c0); acc_p4_c1 = fmaf(in_m2, w_r1_s0, acc_p5_c1);
        acc_p4_c2 = fmaf(in_m1, w_r1_s0, acc_p5_c2); acc_p4_c3 = fmaf(in_0, w_r1_s0, acc_p5_c3);
        acc_p4_c0 = fmaf(in_m2, w_r1_s1, acc_p4_c0); acc_p4_c1 = fmaf(in_m1, w_r1_s1, acc_p4_c1);
        acc_p4_c2 = fmaf(in_0, w_r1_s1, acc_p4_c2); acc_p4_c3 = fmaf(in_1, w_r1_s1, acc_p4_c3);
        acc_p4_c0 = fmaf(in_m1, w_r1_s2, acc_p4_c0); acc_p4_c1 = fmaf(in_0, w_r1_s2, acc_p4_c1);
        acc_p4_c2 = fmaf(in_1, w_r1_s2, acc_p4_c2); acc_p4_c3 = fmaf(in_2, w_r1_s2, acc_p4_c3);
        acc_p4_c0 = fmaf(in_0, w_r1_s3, acc_p4_c0); acc_p4_c1 = fmaf(in_1, w_r1_s3, acc_p4_c1);
        acc_p4_c2 = fmaf(in_2, w_r1_s3, acc_p4_c2); acc_p4_c3 = fmaf(in_3, w_r1_s3, acc_p4_c3);
        acc_p4_c0 = fmaf(in_1, w_r1_s4, acc_p4_c0); acc_p4_c1 = fmaf(in_2, w_r1_s4, acc_p4_c1);
        acc_p4_c2 = fmaf(in_3, w_r1_s4, acc_p4_c2); acc_p4_c3 = fmaf(in_4, w_r1_s4, acc_p4_c3);
        acc_p4_c0 = fmaf(in_2, w_r1_s5, acc_p4_c0); acc_p4_c1 = fmaf(in_3, w_r1_s5, acc_p4_c1);
        acc_p4_c2 = fmaf(in_4, w_r1_s5, acc_p4_c2); acc_p4_c3 = fmaf(in_5, w_r1_s5, acc_p4_c3);
        acc_p4_c0 = fmaf(in_3, w_r1_s6, acc_p4_c0); acc_p4_c1 = fmaf(in_4, w_r1_s6, acc_p4_c1);
        acc_p4_c2 = fmaf(in_5, w_r1_s6, acc_p4_c2); acc_p4_c3 = fmaf(in_6, w_r1_s6, acc_p4_c3);
        // filter row 0
        acc_p5_c0 = in_m3 * w_r0_s0; acc_p5_c1 = in_m2 * w_r0_s0; acc_p5_c2 = in_m1 * w_r0_s0;
        acc_p5_c3 = in_0 * w_r0_s0;
        acc_p5_c0 = fmaf(in_m2, w_r0_s1, acc_p5_c0); acc_p5_c1 = fmaf(in_m1, w_r0_s1, acc_p5_c1);
        acc_p5_c2 = fmaf(in_0, w_r0_s1, acc_p5_c2); acc_p5_c3 = fmaf(in_1, w_r0_s1, acc_p5_c3);
        acc_p5_c0 = fmaf(in_m1, w_r0_s2, acc_p5_c0); acc_p5_c1 = fmaf(in_0, w_r0_s2, acc_p5_c1);
        acc_p5_c2 = fmaf(in_1, w_r0_s2, acc_p5_c2); acc_p5_c3 = fmaf(in_2, w_r0_s2, acc_p5_c3);
        acc_p5_c0 = fmaf(in_0, w_r0_s3, acc_p5_c0); acc_p5_c1 = fmaf(in_1, w_r0_s3, acc_p5_c1);
        acc_p5_c2 = fmaf(in_2, w_r0_s3, acc_p5_c2); acc_p5_c3 = fmaf(in_3, w_r0_s3, acc_p5_c3);
        acc_p5_c0 = fmaf(in_1, w_r0_s4, acc_p5_c0); acc_p5_c1 = fmaf(in_2, w_r0_s4, acc_p5_c1);
        acc_p5_c2 = fmaf(in_3, w_r0_s4, acc_p5_c2); acc_p5_c3 = fmaf(in_4, w_r0_s4, acc_p5_c3);
        acc_p5_c0 = fmaf(in_2, w_r0_s5, acc_p5_c0); acc_p5_c1 = fmaf(in_3, w_r0_s5, acc_p5_c1);
        acc_p5_c2 = fmaf(in_4, w_r0_s5, acc_p5_c2); acc_p5_c3 = fmaf(in_5, w_r0_s5, acc_p5_c3);
        acc_p5_c0 = fmaf(in_3, w_r0_s6, acc_p5_c0); acc_p5_c1 = fmaf(in_4, w_r0_s6, acc_p5_c1);
        acc_p5_c2 = fmaf(in_5, w_r0_s6, acc_p5_c2); acc_p5_c3 = fmaf(in_6, w_r0_s6, acc_p5_c3);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            if (out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    };
    // where the rows of this stage lie in the ring
    int slot = 0;
    auto stage = [&](bool inside) __attribute__((always_inline)) {
        wc_copy_async_wait_group();
        // every lane's copies of this stage are there
        __syncwarp();
        // the rows of 2 stages on take the place of those of the stage before
        const int next = slot == 0 ? 2 * STEP : slot - STEP, h = h_first + (s + PREFETCH);
        const bool copies = inside || s < steps - PREFETCH;
        if (copies) copy(next, h, inside);
        wc_copy_async_commit();
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            step(slot + i * STEP);
            ++s;
        }
        slot = slot == 2 * STEP ? 0 : slot + STEP;
    };

    // all lanes have used what the ring held before
    __syncwarp();
    if (at_edge) {
        // columns outside the image that no copy reaches
#pragma unroll 1
        for (int i = 4 * lane; i < RING; i += 32 * 4) *(float4*)(ring + i) =
            make_float4(BORDER, BORDER, BORDER, BORDER);
        __syncwarp();
    }
    if (h_first >= 0 && h_first + (PREFETCH - 1) < H) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            copy(i * STEP, h_first + i, true);
            wc_copy_async_commit();
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < 2; ++i) {
            copy(i * STEP, h_first + i, false);
            wc_copy_async_commit();
        }
    }
    // stages that copy rows of the image alone end where one below it is next
    const int inside_end = min(steps, H - h_first) - PREFETCH;
    // the second loop stands in the first: one after the other takes the compiler 7 instructions a stage more
#pragma unroll 1
    while (s < steps) {
        if (h_first + (s + PREFETCH) >= 0) {
#pragma unroll 1
            while (s < inside_end) stage(true);
        }
        stage(false);
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_7x7(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q, float BORDER) {
    __shared__ __align__(16) float lines[1632];
    float* ring = lines + threadIdx.x / 32 * RING;                  // this warp's rows
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_column = warp % WARP_COLUMNS;
    const int warp_plane = warp / WARP_COLUMNS;
    const index_t planes = (index_t)N;
    const int strip = blockIdx.x * WARP_COLUMNS + warp_column;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column
    const bool has_columns = strip * STRIP < Q;

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = (P + bands - 1) / bands + LIVE_ROWS - 1;
    const int rows = stages - (LIVE_ROWS - 1);
    const int first = blockIdx.y * rows;                                        // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z < planes; z += gridDim.z) {
        const index_t made = z + warp_plane;                               // output plane of this warp
        const float* x_plane = x + made * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float* w_plane = w;

        if (p_first < P && has_columns && made < planes)
            sub_block(x_plane, w_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q, ring, BORDER);
    }
}
