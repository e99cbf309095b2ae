// warpconv 0.1.0: wide, float16. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,56 --filter 16,7,7 --padding 3 --groups 16 --dtype float16 --epilogue bias \
//     --arch sm_90 --algorithm wide \
//     --set columns=8 --set vector=8 --set store_vector=8 --set span=packed --set row_lanes=8 \
//     --set separators=zero_lanes --set sub_block_rows=14 --set prefetch_rows=2 --set weights=registers \
//     --set loads=cached --set stage_steps=1 --set tap_rows=all --set warp_columns=1 --set warp_rows=1 \
//     --set warp_planes=4 --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 7, 7] -> y[N, 16, P, Q], stride 1, padding 3, groups 16, float16, then bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 8 and at most 61; Q a multiple of 8 and at most 61); all
//        else is a constant of the text
// plan   8 columns per lane, 4 rows of 8 lanes side by side, sub-blocks of 14 rows, 4 warps per block; 8 elements a
//        load, 2 steps ahead
// cost   sub-block of 14 rows x 256 columns: 20 warp loads, 0 shuffles, 7840 FMA a lane, about 150 registers (direct:
//        5488 loads)
//
// A lane makes 8 neighbouring output columns and walks down the rows. It loads 8 input columns of each row by
// asynchronous copies to shared memory, where all lanes find the others. An input row is loaded once and added to the 7
// output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the next older row, so
// the accumulators move on without a move.
constexpr int PAD_TOP = 3;                      // rows of zeros above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 7;                    // output rows in work at a time
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int LANE_COLUMNS = 8;                 // input columns of a lane
constexpr int STAGE_STEPS = 1;                  // steps that come into use together
constexpr int ROW_LANES = 8;                    // lanes that a row takes
constexpr int PLANES = 4;                       // planes side by side in a warp
constexpr int WARP_PLANES = 4;                  // and on different planes
constexpr int K = 16;                           // output channels
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

constexpr int LINE = 80, MARGIN = 8;       // elements of a row in shared memory; those before its first own column
constexpr int STEP = 320, RING = 960;       // of a step's rows; of all rows that a warp holds

// 4 planes side by side, 8 lanes a row. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, float bias_k, int p_first, int rows_out, int q, int position, bool active,
        int H, int W, int Q, unsigned short* ring) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = active && column < W;
    // where this lane's columns lie in a row
    const int own = min(lane / ROW_LANES, PLANES - 1) * LINE + MARGIN + position * LANE_COLUMNS;
    const bool takes_part = true;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = wc_half_to_float(__ldg(w)), w_r0_s1 = wc_half_to_float(__ldg(w + 1)),
        w_r0_s2 = wc_half_to_float(__ldg(w + 2)), w_r0_s3 = wc_half_to_float(__ldg(w + 3)),
                w_r0_s4 = wc_half_to_float(__ldg(w + 4)), w_r0_s5 = wc_half_to_float(__ldg(w + 5)),
                    w_r0_s6 = wc_half_to_float(__ldg(w + 6));
    const float w_r1_s0 = wc_half_to_float(__ldg(w + 7)), w_r1_s1 = wc_half_to_float(__ldg(w + 8)),
        w_r1_s2 = wc_half_to_float(__ldg(w + 9)), w_r1_s3 = wc_half_to_float(__ldg(w + 10)),
                w_r1_s4 = wc_half_to_float(__ldg(w + 11)), w_r1_s5 = wc_half_to_float(__ldg(w + 12)),
                    w_r1_s6 = wc_half_to_float(__ldg(w + 13));
    const float w_r2_s0 = wc_half_to_float(__ldg(w + 14)), w_r2_s1 = wc_half_to_float(__ldg(w + 15)),
        w_r2_s2 = wc_half_to_float(__ldg(w + 16)), w_r2_s3 = wc_half_to_float(__ldg(w + 17)),
                w_r2_s4 = wc_half_to_float(__ldg(w + 18)), w_r2_s5 = wc_half_to_float(__ldg(w + 19)),
                    w_r2_s6 = wc_half_to_float(__ldg(w + 20));
    const float w_r3_s0 = wc_half_to_float(__ldg(w + 21)), w_r3_s1 = wc_half_to_float(__ldg(w + 22)),
        w_r3_s2 = wc_half_to_float(__ldg(w + 23)), w_r3_s3 = wc_half_to_float(__ldg(w + 24)),
                w_r3_s4 = wc_half_to_float(__ldg(w + 25)), w_r3_s5 = wc_half_to_float(__ldg(w + 26)),
                    w_r3_s6 = wc_half_to_float(__ldg(w + 27));
    const float w_r4_s0 = wc_half_to_float(__ldg(w + 28)), w_r4_s1 = wc_half_to_float(__ldg(w + 29)),
        w_r4_s2 = wc_half_to_float(__ldg(w + 30)), w_r4_s3 = wc_half_to_float(__ldg(w + 31)),
                w_r4_s4 = wc_half_to_float(__ldg(w + 32)), w_r4_s5 = wc_half_to_float(__ldg(w + 33)),
                    w_r4_s6 = wc_half_to_float(__ldg(w + 34));
    const float w_r5_s0 = wc_half_to_float(__ldg(w + 35)), w_r5_s1 = wc_half_to_float(__ldg(w + 36)),
        w_r5_s2 = wc_half_to_float(__ldg(w + 37)), w_r5_s3 = wc_half_to_float(__ldg(w + 38)),
                w_r5_s4 = wc_half_to_float(__ldg(w + 39)), w_r5_s5 = wc_half_to_float(__ldg(w + 40)),
                    w_r5_s6 = wc_half_to_float(__ldg(w + 41));
    const float w_r6_s0 = wc_half_to_float(__ldg(w + 42)), w_r6_s1 = wc_half_to_float(__ldg(w + 43)),
        w_r6_s2 = wc_half_to_float(__ldg(w + 44)), w_r6_s3 = wc_half_to_float(__ldg(w + 45)),
                w_r6_s4 = wc_half_to_float(__ldg(w + 46)), w_r6_s5 = wc_half_to_float(__ldg(w + 47)),
                    w_r6_s6 = wc_half_to_float(__ldg(w + 48));

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    // steps above the image add nothing
    int s = h_first >= 0 ? 0 : min(-h_first, LIVE_ROWS - 1);
    int h = h_first + s;
    const int h_end = min(H, max(0, h_first + (rows_out + LIVE_ROWS - 1)));
    const index_t pitch = (index_t)W;
    unsigned short* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f, acc_p0_c4 = 0.0f, acc_p0_c5 = 0.0f,
        acc_p0_c6 = 0.0f, acc_p0_c7 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f, acc_p1_c4 = 0.0f, acc_p1_c5 = 0.0f,
              acc_p1_c6 = 0.0f, acc_p1_c7 = 0.0f,
          acc_p2_c0 = 0.0f, acc_p2_c1 = 0.0f, acc_p2_c2 = 0.0f, acc_p2_c3 = 0.0f, acc_p2_c4 = 0.0f, acc_p2_c5 = 0.0f,
              acc_p2_c6 = 0.0f, acc_p2_c7 = 0.0f,
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f, acc_p3_c2 = 0.0f, acc_p3_c3 = 0.0f, acc_p3_c4 = 0.0f, acc_p3_c5 = 0.0f,
              acc_p3_c6 = 0.0f, acc_p3_c7 = 0.0f,
          acc_p4_c0 = 0.0f, acc_p4_c1 = 0.0f, acc_p4_c2 = 0.0f, acc_p4_c3 = 0.0f, acc_p4_c4 = 0.0f, acc_p4_c5 = 0.0f,
              acc_p4_c6 = 0.0f, acc_p4_c7 = 0.0f,
          acc_p5_c0 = 0.0f, acc_p5_c1 = 0.0f, acc_p5_c2 = 0.0f, acc_p5_c3 = 0.0f, acc_p5_c4 = 0.0f, acc_p5_c5 = 0.0f,
              acc_p5_c6 = 0.0f, acc_p5_c7 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = min(steps, max(s, H - h_first));
    const unsigned short* row = x + (index_t)h * W + column;
    auto copy = [&](int slot) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            unsigned short* to = ring + slot + i * STEP;
            const bool row_inside_0 = (unsigned)h < (unsigned)h_end;
            wc_copy_async_zfill_16(takes_part, to + own, row, row_inside_0 && own_inside_0);
            row += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        const uint2 line_m4 = *(const uint2*)(ring + at + own - 4);
        const uint4 line_0 = *(const uint4*)(ring + at + own);
        const uint2 line_8 = *(const uint2*)(ring + at + own + 8);
        const float in_m3 = wc_half_high_to_float(line_m4.x);
        const float in_m2 = wc_half_low_to_float(line_m4.y);
        const float in_m1 = wc_half_high_to_float(line_m4.y);
        const float in_0 = wc_half_low_to_float(line_0.x);
        const float in_1 = wc_half_high_to_float(line_0.x);
        const float in_2 = wc_half_low_to_float(line_0.y);
        const float in_3 = wc_half_high_to_float(line_0.y);
        const float in_4 = wc_half_low_to_float(line_0.z);
        const float in_5 = wc_half_high_to_float(line_0.z);
        const float in_6 = wc_half_low_to_float(line_0.w);
        const float in_7 = wc_half_high_to_float(line_0.w);
        const float in_8 = wc_half_low_to_float(line_8.x);
        const float in_9 = wc_half_high_to_float(line_8.x);
        const float in_10 = wc_half_low_to_float(line_8.y);
        // filter row 6
        out_c0 = fmaf(in_m3, w_r6_s0, acc_p0_c0); out_c1 = fmaf(in_m2, w_r6_s0, acc_p0_c1);
        out_c2 = fmaf(in_m1, w_r6_s0, acc_p0_c2); out_c3 = fmaf(in_0, w_r6_s0, acc_p0_c3);
        out_c4 = fmaf(in_1, w_r6_s0, acc_p0_c4); out_c5 = fmaf(in_2, w_r6_s0, acc_p0_c5);
        out_c6 = fmaf(in_3, w_r6_s0, acc_p0_c6); out_c7 = fmaf(in_4, w_r6_s0, acc_p0_c7);
        out_c0 = fmaf(in_m2, w_r6_s1, out_c0); out_c1 = fmaf(in_m1, w_r6_s1, out_c1);
        out_c2 = fmaf(in_0, w_r6_s1, out_c2); out_c3 = fmaf(in_1, w_r6_s1, out_c3);
        out_c4 = fmaf(in_2, w_r6_s1, out_c4); out_c5 = fmaf(in_3, w_r6_s1, out_c5);
        out_c6 = fmaf(in_4, w_r6_s1, out_c6); out_c7 = fmaf(in_5, w_r6_s1, out_c7);
        out_c0 = fmaf(in_m1, w_r6_s2, out_c0); out_c1 = fmaf(in_0, w_r6_s2, out_c1);
        out_c2 = fmaf(in_1, w_r6_s2, out_c2); out_c3 = fmaf(in_2, w_r6_s2, out_c3);
        out_c4 = fmaf(in_3, w_r6_s2, out_c4); out_c5 = fmaf(in_4, w_r6_s2, out_c5);
        out_c6 = fmaf(in_5, w_r6_s2, out_c6); out_c7 = fmaf(in_6, w_r6_s2, out_c7);
        out_c0 = fmaf(in_0, w_r6_s3, out_c0); out_c1 = fmaf(in_1, w_r6_s3, out_c1);
        out_c2 = fmaf(in_2, w_r6_s3, out_c2); out_c3 = fmaf(in_3, w_r6_s3, out_c3);
        out_c4 = fmaf(in_4, w_r6_s3, out_c4); out_c5 = fmaf(in_5, w_r6_s3, out_c5);
        out_c6 = fmaf(in_6, w_r6_s3, out_c6); out_c7 = fmaf(in_7, w_r6_s3, out_c7);
        out_c0 = fmaf(in_1, w_r6_s4, out_c0); out_c1 = fmaf(in_2, w_r6_s4, out_c1);
        out_c2 = fmaf(in_3, w_r6_s4, out_c2); out_c3 = fmaf(in_4, w_r6_s4, out_c3);
        out_c4 = fmaf(in_5, w_r6_s4, out_c4); out_c5 = fmaf(in_6, w_r6_s4, out_c5);
        out_c6 = fmaf(in_7, w_r6_s4, out_c6); out_c7 = fmaf(in_8, w_r6_s4, out_c7);
        out_c0 = fmaf(in_2, w_r6_s5, out_c0); out_c1 = fmaf(in_3, w_r6_s5, out_c1);
        out_c2 = fmaf(in_4, w_r6_s5, out_c2); out_c3 = fmaf(in_5, w_r6_s5, out_c3);
        out_c4 = fmaf(in_6, w_r6_s5, out_c4); out_c5 = fmaf(in_7, w_r6_s5, out_c5);
        out_c6 = fmaf(in_8, w_r6_s5, out_c6); out_c7 = fmaf(in_9, w_r6_s5, out_c7);
        out_c0 = fmaf(in_3, w_r6_s6, out_c0); out_c1 = fmaf(in_4, w_r6_s6, out_c1);
        out_c2 = fmaf(in_5, w_r6_s6, out_c2); out_c3 = fmaf(in_6, w_r6_s6, out_c3);
        out_c4 = fmaf(in_7, w_r6_s6, out_c4); out_c5 = fmaf(in_8, w_r6_s6, out_c5);
        out_c6 = fmaf(in_9, w_r6_s6, out_c6); out_c7 = fmaf(in_10, w_r6_s6, out_c7);
        // filter row 5
        acc_p0_c0 = fmaf(in_m3, w_r5_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_m2, w_r5_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_m1, w_r5_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_0, w_r5_s0, acc_p1_c3);
        acc_p0_c4 = fmaf(in_1, w_r5_s0, acc_p1_c4); acc_p0_c5 = fmaf(in_2, w_r5_s0, acc_p1_c5);
        acc_p0_c6 = fmaf(in_3, w_r5_s0, acc_p1_c6); acc_p0_c7 = fmaf(in_4, w_r5_s0, acc_p1_c7);
        acc_p0_c0 = fmaf(in_m2, w_r5_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_m1, w_r5_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_0, w_r5_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_1, w_r5_s1, acc_p0_c3);
        acc_p0_c4 = fmaf(in_2, w_r5_s1, acc_p0_c4); acc_p0_c5 = fmaf(in_3, w_r5_s1, acc_p0_c5);
        acc_p0_c6 = fmaf(in_4, w_r5_s1, acc_p0_c6); acc_p0_c7 = fmaf(in_5, w_r5_s1, acc_p0_c7);
        acc_p0_c0 = fmaf(in_m1, w_r5_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_0, w_r5_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_1, w_r5_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_2, w_r5_s2, acc_p0_c3);
        acc_p0_c4 = fmaf(in_3, w_r5_s2, acc_p0_c4); acc_p0_c5 = fmaf(in_4, w_r5_s2, acc_p0_c5);
        acc_p0_c6 = fmaf(in_5, w_r5_s2, acc_p0_c6); acc_p0_c7 = fmaf(in_6, w_r5_s2, acc_p0_c7);
        acc_p0_c0 = fmaf(in_0, w_r5_s3, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r5_s3, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_r5_s3, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r5_s3, acc_p0_c3);
        acc_p0_c4 = fmaf(in_4, w_r5_s3, acc_p0_c4); acc_p0_c5 = fmaf(in_5, w_r5_s3, acc_p0_c5);
        acc_p0_c6 = fmaf(in_6, w_r5_s3, acc_p0_c6); acc_p0_c7 = fmaf(in_7, w_r5_s3, acc_p0_c7);
        acc_p0_c0 = fmaf(in_1, w_r5_s4, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r5_s4, acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, w_r5_s4, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r5_s4, acc_p0_c3);
        acc_p0_c4 = fmaf(in_5, w_r5_s4, acc_p0_c4); acc_p0_c5 = fmaf(in_6, w_r5_s4, acc_p0_c5);
        acc_p0_c6 = fmaf(in_7, w_r5_s4, acc_p0_c6); acc_p0_c7 = fmaf(in_8, w_r5_s4, acc_p0_c7);
        acc_p0_c0 = fmaf(in_2, w_r5_s5, acc_p0_c0); acc_p0_c1 = fmaf(in_3, w_r5_s5, acc_p0_c1);
        acc_p0_c2 = fmaf(in_4, w_r5_s5, acc_p0_c2); acc_p0_c3 = fmaf(in_5, w_r5_s5, acc_p0_c3);
        acc_p0_c4 = fmaf(in_6, w_r5_s5, acc_p0_c4); acc_p0_c5 = fmaf(in_7, w_r5_s5, acc_p0_c5);
        acc_p0_c6 = fmaf(in_8, w_r5_s5, acc_p0_c6); acc_p0_c7 = fmaf(in_9, w_r5_s5, acc_p0_c7);
        acc_p0_c0 = fmaf(in_3, w_r5_s6, acc_p0_c0); acc_p0_c1 = fmaf(in_4, w_r5_s6, acc_p0_c1);
        acc_p0_c2 = fmaf(in_5, w_r5_s6, acc_p0_c2); acc_p0_c3 = fmaf(in_6, w_r5_s6, acc_p0_c3);
        acc_p0_c4 = fmaf(in_7, w_r5_s6, acc_p0_c4); acc_p0_c5 = fmaf(in_8, w_r5_s6, acc_p0_c5);
        acc_p0_c6 = fmaf(in_9, w_r5_s6, acc_p0_c6); acc_p0_c7 = fmaf(in_10, w_r5_s6, acc_p0_c7);
        // filter row 4
        acc_p1_c0 = fmaf(in_m3, w_r4_s0, acc_p2_c0); acc_p1_c1 = fmaf(in_m2, w_r4_s0, acc_p2_c1);
        acc_p1_c2 = fmaf(in_m1, w_r4_s0, acc_p2_c2); acc_p1_c3 = fmaf(in_0, w_r4_s0, acc_p2_c3);
        acc_p1_c4 = fmaf(in_1, w_r4_s0, acc_p2_c4); acc_p1_c5 = fmaf(in_2, w_r4_s0, acc_p2_c5);
        acc_p1_c6 = fmaf(in_3, w_r4_s0, acc_p2_c6); acc_p1_c7 = fmaf(in_4, w_r4_s0, acc_p2_c7);
        acc_p1_c0 = fmaf(in_m2, w_r4_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_m1, w_r4_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_0, w_r4_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_1, w_r4_s1, acc_p1_c3);
        acc_p1_c4 = fmaf(in_2, w_r4_s1, acc_p1_c4); acc_p1_c5 = fmaf(in_3, w_r4_s1, acc_p1_c5);
        acc_p1_c6 = fmaf(in_4, w_r4_s1, acc_p1_c6); acc_p1_c7 = fmaf(in_5, w_r4_s1, acc_p1_c7);
        acc_p1_c0 = fmaf(in_m1, w_r4_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_0, w_r4_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_1, w_r4_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_2, w_r4_s2, acc_p1_c3);
        acc_p1_c4 = fmaf(in_3, w_r4_s2, acc_p1_c4); acc_p1_c5 = fmaf(in_4, w_r4_s2, acc_p1_c5);
        acc_p1_c6 = fmaf(in_5, w_r4_s2, acc_p1_c6); acc_p1_c7 = fmaf(in_6, w_r4_s2, acc_p1_c7);
        acc_p1_c0 = fmaf(in_0, w_r4_s3, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r4_s3, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r4_s3, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r4_s3, acc_p1_c3);
        acc_p1_c4 = fmaf(in_4, w_r4_s3, acc_p1_c4); acc_p1_c5 = fmaf(in_5, w_r4_s3, acc_p1_c5);
        acc_p1_c6 = fmaf(in_6, w_r4_s3, acc_p1_c6); acc_p1_c7 = fmaf(in_7, w_r4_s3, acc_p1_c7);
        acc_p1_c0 = fmaf(in_1, w_r4_s4, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r4_s4, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r4_s4, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r4_s4, acc_p1_c3);
        acc_p1_c4 = fmaf(in_5, w_r4_s4, acc_p1_c4); acc_p1_c5 = fmaf(in_6, w_r4_s4, acc_p1_c5);
        acc_p1_c6 = fmaf(in_7, w_r4_s4, acc_p1_c6); acc_p1_c7 = fmaf(in_8, w_r4_s4, acc_p1_c7);
        acc_p1_c0 = fmaf(in_2, w_r4_s5, acc_p1_c0); acc_p1_c1 = fmaf(in_3, w_r4_s5, acc_p1_c1);
        acc_p1_c2 = fmaf(in_4, w_r4_s5, acc_p1_c2); acc_p1_c3 = fmaf(in_5, w_r4_s5, acc_p1_c3);
        acc_p1_c4 = fmaf(in_6, w_r4_s5, acc_p1_c4); acc_p1_c5 = fmaf(in_7, w_r4_s5, acc_p1_c5);
        acc_p1_c6 = fmaf(in_8, w_r4_s5, acc_p1_c6); acc_p1_c7 = fmaf(in_9, w_r4_s5, acc_p1_c7);
        acc_p1_c0 = fmaf(in_3, w_r4_s6, acc_p1_c0); acc_p1_c1 = fmaf(in_4, w_r4_s6, acc_p1_c1);
        acc_p1_c2 = fmaf(in_5, w_r4_s6, acc_p1_c2); acc_p1_c3 = fmaf(in_6, w_r4_s6, acc_p1_c3);
        acc_p1_c4 = fmaf(in_7, w_r4_s6, acc_p1_c4); acc_p1_c5 = fmaf(in_8, w_r4_s6, acc_p1_c5);
        acc_p1_c6 = fmaf(in_9, w_r4_s6, acc_p1_c6); acc_p1_c7 = fmaf(in_10, w_r4_s6, acc_p1_c7);
        // filter row 3
        acc_p2_c0 = fmaf(in_m3, w_r3_s0, acc_p3_c0); acc_p2_c1 = fmaf(in_m2, w_r3_s0, acc_p3_c1);
        acc_p2_c2 = fmaf(in_m1, w_r3_s0, acc_p3_c2); acc_p2_c3 = fmaf(in_0, w_r3_s0, acc_p3_c3);
        acc_p2_c4 = fmaf(in_1, w_r3_s0, acc_p3_c4); acc_p2_c5 = fmaf(in_2, w_r3_s0, acc_p3_c5);
        acc_p2_c6 = fmaf(in_3, w_r3_s0, acc_p3_c6); acc_p2_c7 = fmaf(in_4, w_r3_s0, acc_p3_c7);
        acc_p2_c0 = fmaf(in_m2, w_r3_s1, acc_p2_c0); acc_p2_c1 = fmaf(in_m1, w_r3_s1, acc_p2_c1);
        acc_p2_c2 = fmaf(in_0, w_r3_s1, acc_p2_c2); acc_p2_c3 = fmaf(in_1, w_r3_s1, acc_p2_c3);
        acc_p2_c4 = fmaf(in_2, w_r3_s1, acc_p2_c4); acc_p2_c5 = fmaf(in_3, w_r3_s1, acc_p2_c5);
        acc_p2_c6 = fmaf(in_4, w_r3_s1, acc_p2_c6); acc_p2_c7 = fmaf(in_5, w_r3_s1, acc_p2_c7);
        acc_p2_c0 = fmaf(in_m1, w_r3_s2, acc_p2_c0); acc_p2_c1 = fmaf(in_0, w_r3_s2, acc_p2_c1);
        acc_p2_c2 = fmaf(in_1, w_r3_s2, acc_p2_c2); acc_p2_c3 = fmaf(in_2, w_r3_s2, acc_p2_c3);
        acc_p2_c4 = fmaf(in_3, w_r3_s2, acc_p2_c4); acc_p2_c5 = fmaf(in_4, w_r3_s2, acc_p2_c5);
        acc_p2_c6 = fmaf(in_5, w_r3_s2, acc_p2_c6); acc_p2_c7 = fmaf(in_6, w_r3_s2, acc_p2_c7);
        acc_p2_c0 = fmaf(in_0, w_r3_s3, acc_p2_c0); acc_p2_c1 = fmaf(in_1, w_r3_s3, acc_p2_c1);
        acc_p2_c2 = fmaf(in_2, w_r3_s3, acc_p2_c2); acc_p2_c3 = fmaf(in_3, w_r3_s3, acc_p2_c3);
        acc_p2_c4 = fmaf(in_4, w_r3_s3, acc_p2_c4); acc_p2_c5 = fmaf(in_5, w_r3_s3, acc_p2_c5);
        acc_p2_c6 = fmaf(in_6, w_r3_s3, acc_p2_c6); acc_p2_c7 = fmaf(in_7, w_r3_s3, acc_p2_c7);
        acc_p2_c0 = fmaf(in_1, w_r3_s4, acc_p2_c0); acc_p2_c1 = fmaf(in_2, w_r3_s4, acc_p2_c1);
        acc_p2_c2 = fmaf(in_3, w_r3_s4, acc_p2_c2); acc_p2_c3 = fmaf(in_4, w_r3_s4, acc_p2_c3);
        acc_p2_c4 = fmaf(in_5, w_r3_s4, acc_p2_c4); acc_p2_c5 = fmaf(in_6, w_r3_s4, acc_p2_c5);
        acc_p2_c6 = fmaf(in_7, w_r3_s4, acc_p2_c6); acc_p2_c7 = fmaf(in_8, w_r3_s4, acc_p2_c7);
        acc_p2_c0 = fmaf(in_2, w_r3_s5, acc_p2_c0); acc_p2_c1 = fmaf(in_3, w_r3_s5, acc_p2_c1);
        acc_p2_c2 = fmaf(in_4, w_r3_s5, acc_p2_c2); acc_p2_c3 = fmaf(in_5, w_r3_s5, acc_p2_c3);
        acc_p2_c4 = fmaf(in_6, w_r3_s5, acc_p2_c4); acc_p2_c5 = fmaf(in_7, w_r3_s5, acc_p2_c5);
        acc_p2_c6 = fmaf(in_8, w_r3_s5, acc_p2_c6); acc_p2_c7 = fmaf(in_9, w_r3_s5, acc_p2_c7);
        acc_p2_c0 = fmaf(in_3, w_r3_s6, acc_p2_c0); acc_p2_c1 = fmaf(in_4, w_r3_s6, acc_p2_c1);
        acc_p2_c2 = fmaf(in_5, w_r3_s6, acc_p2_c2); acc_p2_c3 = fmaf(in_6, w_r3_s6, acc_p2_c3);
        acc_p2_c4 = fmaf(in_7, w_r3_s6, acc_p2_c4); acc_p2_c5 = fmaf(in_8, w_r3_s6, acc_p2_c5);
        acc_p2_c6 = fmaf(in_9, w_r3_s6, acc_p2_c6); acc_p2_c7 = fmaf(in_10, w_r3_s6, acc_p2_c7);
        // filter row 2
        acc_p3_c0 = fmaf(in_m3, w_r2_s0, acc_p4_c0); acc_p3_c1 = fmaf(in_m2, w_r2_s0, acc_p4_c1);
        acc_p3_c2 = fmaf(in_m1, w_r2_s0, acc_p4_c2); acc_p3_c3 = fmaf(in_0, w_r2_s0, acc_p4_c3);
        acc_p3_c4 = fmaf(in_1, w_r2_s0, acc_p4_c4); acc_p3_c5 = fmaf(in_2, w_r2_s0, acc_p4_c5);
        acc_p3_c6 = fmaf(in_3, w_r2_s0, acc_p4_c6); acc_p3_c7 = fmaf(in_4, w_r2_s0, acc_p4_c7);
        acc_p3_c0 = fmaf(in_m2, w_r2_s1, acc_p3_c0); acc_p3_c1 = fmaf(in_m1, w_r2_s1, acc_p3_c1);
        acc_p3_c2 = fmaf(in_0, w_r2_s1, acc_p3_c2); acc_p3_c3 = fmaf(in_1, w_r2_s1, acc_p3_c3);
        acc_p3_c4 = fmaf(in_2, w_r2_s1, acc_p3_c4); acc_p3_c5 = fmaf(in_3, w_r2_s1, acc_p3_c5);
        acc_p3_c6 = fmaf(in_4, w_r2_s1, acc_p3_c6); acc_p3_c7 = fmaf(in_5, w_r2_s1, acc_p3_c7);
        acc_p3_c0 = fmaf(in_m1, w_r2_s2, acc_p3_c0); acc_p3_c1 = fmaf(in_0, w_r2_s2, acc_p3_c1);
        acc_p3_c2 = fmaf(in_1, w_r2_s2, acc_p3_c2); acc_p3_c3 = fmaf(in_2, w_r2_s2, acc_p3_c3);
        acc_p3_c4 = fmaf(in_3, w_r2_s2, acc_p3_c4); acc_p3_c5 = fmaf(in_4, w_r2_s2, acc_p3_c5);
        acc_p3_c6 = fmaf(in_5, w_r2_s2, acc_p3_c6); acc_p3_c7 = fmaf(in_6, w_r2_s2, acc_p3_c7);
        acc_p3_c0 = fmaf(in_0, w_r2_s3, acc_p3_c0); acc_p3_c1 = fmaf(in_1, w_r2_s3, acc_p3_c1);
        acc_p3_c2 = fmaf(in_2, w_r2_s3, acc_p3_c2); acc_p3_c3 = fmaf(in_3, w_r2_s3, acc_p3_c3);
        acc_p3_c4 = fmaf(in_4, w_r2_s3, acc_p3_c4); acc_p3_c5 = fmaf(in_5, w_r2_s3, acc_p3_c5);
        acc_p3_c6 = fmaf(in_6, w_r2_s3, acc_p3_c6); acc_p3_c7 = fmaf(in_7, w_r2_s3, acc_p3_c7);
        acc_p3_c0 = fmaf(in_1, w_r2_s4, acc_p3_c0); acc_p3_c1 = fmaf(in_2, w_r2_s4, acc_p3_c1);
        acc_p3_c2 = fmaf(in_3, w_r2_s4, acc_p3_c2); acc_p3_c3 = fmaf(in_4, w_r2_s4, acc_p3_c3);
        acc_p3_c4 = fmaf(in_5, w_r2_s4, acc_p3_c4); acc_p3_c5 = fmaf(in_6, w_r2_s4, acc_p3_c5);
        acc_p3_c6 = fmaf(in_7, w_r2_s4, acc_p3_c6); acc_p3_c7 = fmaf(in_8, w_r2_s4, acc_p3_c7);
        acc_p3_c0 = fmaf(in_2, w_r2_s5, acc_p3_c0); acc_p3_c1 = fmaf(in_3, w_r2_s5, acc_p3_c1);
        acc_p3_c2 = fmaf(in_4, w_r2_s5, acc_p3_c2); acc_p3_c3 = fmaf(in_5, w_r2_s5, acc_p3_c3);
        acc_p3_c4 = fmaf(in_6, w_r2_s5, acc_p3_c4); acc_p3_c5 = fmaf(in_7, w_r2_s5, acc_p3_c5);
        acc_p3_c6 = fmaf(in_8, w_r2_s5, acc_p3_c6); acc_p3_c7 = fmaf(in_9, w_r2_s5, acc_p3_c7);
        acc_p3_c0 = fmaf(in_3, w_r2_s6, acc_p3_c0); acc_p3_c1 = fmaf(in_4, w_r2_s6, acc_p3_c1);
        acc_p3_c2 = fmaf(in_5, w_r2_s6, acc_p3_c2); acc_p3_c3 = fmaf(in_6, w_r2_s6, acc_p3_c3);
        acc_p3_c4 = fmaf(in_7, w_r2_s6, acc_p3_c4); acc_p3_c5 = fmaf(in_8, w_r2_s6, acc_p3_c5);
        acc_p3_c6 = fmaf(in_9, w_r2_s6, acc_p3_c6); acc_p3_c7 = fmaf(in_10, w_r2_s6, acc_p3_c7);
        // filter row 1
        acc_p4_c0 = fmaf(in_m3, w_r1_s0, acc_p5_c0); acc_p4_c1 = fmaf(in_m2, w_r1_s0, acc_p5_c1);
        acc_p4_c2 = fmaf(in_m1, w_r1_s0, acc_p5_c2); acc_p4_c3 = fmaf(in_0, w_r1_s0, acc_p5_c3);
        acc_p4_c4 = fmaf(in_1, w_r1_s0, acc_p5_c4); acc_p4_c5 = fmaf(in_2, w_r1_s0, acc_p5_c5);
        acc_p4_c6 = fmaf(in_3, w_r1_s0, acc_p5_c6); acc_p4_c7 = fmaf(in_4, w_r1_s0, acc_p5_c7);
        acc_p4_c0 = fmaf(in_m2, w_r1_s1, acc_p4_c0); acc_p4_c1 = fmaf(in_m1, w_r1_s1, acc_p4_c1);
        acc_p4_c2 = fmaf(in_0, w_r1_s1, acc_p4_c2); acc_p4_c3 = fmaf(in_1, w_r1_s1, acc_p4_c3);
        acc_p4_c4 = fmaf(in_2, w_r1_s1, acc_p4_c4); acc_p4_c5 = fmaf(in_3, w_r1_s1, acc_p4_c5);
        acc_p4_c6 = fmaf(in_4, w_r1_s1, acc_p4_c6); acc_p4_c7 = fmaf(in_5, w_r1_s1, acc_p4_c7);
        acc_p4_c0 = fmaf(in_m1, w_r1_s2, acc_p4_c0); acc_p4_c1 = fmaf(in_0, w_r1_s2, acc_p4_c1);
        acc_p4_c2 = fmaf(in_1, w_r1_s2, acc_p4_c2); acc_p4_c3 = fmaf(in_2, w_r1_s2, acc_p4_c3);
        acc_p4_c4 = fmaf(in_3, w_r1_s2, acc_p4_c4); acc_p4_c5 = fmaf(in_4, w_r1_s2, acc_p4_c5);
        acc_p4_c6 = fmaf(in_5, w_r1_s2, acc_p4_c6); acc_p4_c7 = fmaf(in_6, w_r1_s2, acc_p4_c7);
        acc_p4_c0 = fmaf(in_0, w_r1_s3, acc_p4_c0); acc_p4_c1 = fmaf(in_1, w_r1_s3, acc_p4_c1);
        acc_p4_c2 = fmaf(in_2, w_r1_s3, acc_p4_c2); acc_p4_c3 = fmaf(in_3, w_r1_s3, acc_p4_c3);
        acc_p4_c4 = fmaf(in_4, w_r1_s3, acc_p4_c4); acc_p4_c5 = fmaf(in_5, w_r1_s3, acc_p4_c5);
        acc_p4_c6 = fmaf(in_6, w_r1_s3, acc_p4_c6); acc_p4_c7 = fmaf(in_7, w_r1_s3, acc_p4_c7);
        acc_p4_c0 = fmaf(in_1, w_r1_s4, acc_p4_c0); acc_p4_c1 = fmaf(in_2, w_r1_s4, acc_p4_c1);
        acc_p4_c2 = fmaf(in_3, w_r1_s4, acc_p4_c2); acc_p4_c3 = fmaf(in_4, w_r1_s4, acc_p4_c3);
        acc_p4_c4 = fmaf(in_5, w_r1_s4, acc_p4_c4); acc_p4_c5 = fmaf(in_6, w_r1_s4, acc_p4_c5);
        acc_p4_c6 = fmaf(in_7, w_r1_s4, acc_p4_c6); acc_p4_c7 = fmaf(in_8, w_r1_s4, acc_p4_c7);
        acc_p4_c0 = fmaf(in_2, w_r1_s5, acc_p4_c0); acc_p4_c1 = fmaf(in_3, w_r1_s5, acc_p4_c1);
        acc_p4_c2 = fmaf(in_4, w_r1_s5, acc_p4_c2); acc_p4_c3 = fmaf(in_5, w_r1_s5, acc_p4_c3);
        acc_p4_c4 = fmaf(in_6, w_r1_s5, acc_p4_c4); acc_p4_c5 = fmaf(in_7, w_r1_s5, acc_p4_c5);
        acc_p4_c6 = fmaf(in_8, w_r1_s5, acc_p4_c6); acc_p4_c7 = fmaf(in_9, w_r1_s5, acc_p4_c7);
        acc_p4_c0 = fmaf(in_3, w_r1_s6, acc_p4_c0); acc_p4_c1 = fmaf(in_4, w_r1_s6, acc_p4_c1);
        acc_p4_c2 = fmaf(in_5, w_r1_s6, acc_p4_c2); acc_p4_c3 = fmaf(in_6, w_r1_s6, acc_p4_c3);
        acc_p4_c4 = fmaf(in_7, w_r1_s6, acc_p4_c4); acc_p4_c5 = fmaf(in_8, w_r1_s6, acc_p4_c5);
        acc_p4_c6 = fmaf(in_9, w_r1_s6, acc_p4_c6); acc_p4_c7 = fmaf(in_10, w_r1_s6, acc_p4_c7);
        // filter row 0
        acc_p5_c0 = in_m3 * w_r0_s0; acc_p5_c1 = in_m2 * w_r0_s0; acc_p5_c2 = in_m1 * w_r0_s0;
        acc_p5_c3 = in_0 * w_r0_s0;
        acc_p5_c4 = in_1 * w_r0_s0; acc_p5_c5 = in_2 * w_r0_s0; acc_p5_c6 = in_3 * w_r0_s0; acc_p5_c7 = in_4 * w_r0_s0;
        acc_p5_c0 = fmaf(in_m2, w_r0_s1, acc_p5_c0); acc_p5_c1 = fmaf(in_m1, w_r0_s1, acc_p5_c1);
        acc_p5_c2 = fmaf(in_0, w_r0_s1, acc_p5_c2); acc_p5_c3 = fmaf(in_1, w_r0_s1, acc_p5_c3);
        acc_p5_c4 = fmaf(in_2, w_r0_s1, acc_p5_c4); acc_p5_c5 = fmaf(in_3, w_r0_s1, acc_p5_c5);
        acc_p5_c6 = fmaf(in_4, w_r0_s1, acc_p5_c6); acc_p5_c7 = fmaf(in_5, w_r0_s1, acc_p5_c7);
        acc_p5_c0 = fmaf(in_m1, w_r0_s2, acc_p5_c0); acc_p5_c1 = fmaf(in_0, w_r0_s2, acc_p5_c1);
        acc_p5_c2 = fmaf(in_1, w_r0_s2, acc_p5_c2); acc_p5_c3 = fmaf(in_2, w_r0_s2, acc_p5_c3);
        acc_p5_c4 = fmaf(in_3, w_r0_s2, acc_p5_c4); acc_p5_c5 = fmaf(in_4, w_r0_s2, acc_p5_c5);
        acc_p5_c6 = fmaf(in_5, w_r0_s2, acc_p5_c6); acc_p5_c7 = fmaf(in_6, w_r0_s2, acc_p5_c7);
        acc_p5_c0 = fmaf(in_0, w_r0_s3, acc_p5_c0); acc_p5_c1 = fmaf(in_1, w_r0_s3, acc_p5_c1);
        acc_p5_c2 = fmaf(in_2, w_r0_s3, acc_p5_c2); acc_p5_c3 = fmaf(in_3, w_r0_s3, acc_p5_c3);
        acc_p5_c4 = fmaf(in_4, w_r0_s3, acc_p5_c4); acc_p5_c5 = fmaf(in_5, w_r0_s3, acc_p5_c5);
        acc_p5_c6 = fmaf(in_6, w_r0_s3, acc_p5_c6); acc_p5_c7 = fmaf(in_7, w_r0_s3, acc_p5_c7);
        acc_p5_c0 = fmaf(in_1, w_r0_s4, acc_p5_c0); acc_p5_c1 = fmaf(in_2, w_r0_s4, acc_p5_c1);
        acc_p5_c2 = fmaf(in_3, w_r0_s4, acc_p5_c2); acc_p5_c3 = fmaf(in_4, w_r0_s4, acc_p5_c3);
        acc_p5_c4 = fmaf(in_5, w_r0_s4, acc_p5_c4); acc_p5_c5 = fmaf(in_6, w_r0_s4, acc_p5_c5);
        acc_p5_c6 = fmaf(in_7, w_r0_s4, acc_p5_c6); acc_p5_c7 = fmaf(in_8, w_r0_s4, acc_p5_c7);
        acc_p5_c0 = fmaf(in_2, w_r0_s5, acc_p5_c0); acc_p5_c1 = fmaf(in_3, w_r0_s5, acc_p5_c1);
        acc_p5_c2 = fmaf(in_4, w_r0_s5, acc_p5_c2); acc_p5_c3 = fmaf(in_5, w_r0_s5, acc_p5_c3);
        acc_p5_c4 = fmaf(in_6, w_r0_s5, acc_p5_c4); acc_p5_c5 = fmaf(in_7, w_r0_s5, acc_p5_c5);
        acc_p5_c6 = fmaf(in_8, w_r0_s5, acc_p5_c6); acc_p5_c7 = fmaf(in_9, w_r0_s5, acc_p5_c7);
        acc_p5_c0 = fmaf(in_3, w_r0_s6, acc_p5_c0); acc_p5_c1 = fmaf(in_4, w_r0_s6, acc_p5_c1);
        acc_p5_c2 = fmaf(in_5, w_r0_s6, acc_p5_c2); acc_p5_c3 = fmaf(in_6, w_r0_s6, acc_p5_c3);
        acc_p5_c4 = fmaf(in_7, w_r0_s6, acc_p5_c4); acc_p5_c5 = fmaf(in_8, w_r0_s6, acc_p5_c5);
        acc_p5_c6 = fmaf(in_9, w_r0_s6, acc_p5_c6); acc_p5_c7 = fmaf(in_10, w_r0_s6, acc_p5_c7);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k);
            out_c1 = finish(out_c1, bias_k);
            out_c2 = finish(out_c2, bias_k);
            out_c3 = finish(out_c3, bias_k);
            out_c4 = finish(out_c4, bias_k);
            out_c5 = finish(out_c5, bias_k);
            out_c6 = finish(out_c6, bias_k);
            out_c7 = finish(out_c7, bias_k);
            if (out_inside_0) *(uint4*)(out) =
                make_uint4(wc_floats_to_halves(out_c0, out_c1), wc_floats_to_halves(out_c2, out_c3),
                wc_floats_to_halves(out_c4, out_c5), wc_floats_to_halves(out_c6, out_c7));
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
        if (copies) copy(slot == 0 ? 2 * STEP : slot - STEP);
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
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (s + i < steps_inside) copy(i * STEP);
        wc_copy_async_commit();
    }
#pragma unroll 1
    while (s < steps_inside - 2) stage(true);
#pragma unroll 1
    while (s < steps_inside) stage(false);

    // steps below the image add nothing
#pragma unroll 1
    for (; s < steps; ++s) {
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        out_c4 = acc_p0_c4; out_c5 = acc_p0_c5; out_c6 = acc_p0_c6; out_c7 = acc_p0_c7;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p0_c4 = acc_p1_c4; acc_p0_c5 = acc_p1_c5; acc_p0_c6 = acc_p1_c6; acc_p0_c7 = acc_p1_c7;
        acc_p1_c0 = acc_p2_c0; acc_p1_c1 = acc_p2_c1; acc_p1_c2 = acc_p2_c2; acc_p1_c3 = acc_p2_c3;
        acc_p1_c4 = acc_p2_c4; acc_p1_c5 = acc_p2_c5; acc_p1_c6 = acc_p2_c6; acc_p1_c7 = acc_p2_c7;
        acc_p2_c0 = acc_p3_c0; acc_p2_c1 = acc_p3_c1; acc_p2_c2 = acc_p3_c2; acc_p2_c3 = acc_p3_c3;
        acc_p2_c4 = acc_p3_c4; acc_p2_c5 = acc_p3_c5; acc_p2_c6 = acc_p3_c6; acc_p2_c7 = acc_p3_c7;
        acc_p3_c0 = acc_p4_c0; acc_p3_c1 = acc_p4_c1; acc_p3_c2 = acc_p4_c2; acc_p3_c3 = acc_p4_c3;
        acc_p3_c4 = acc_p4_c4; acc_p3_c5 = acc_p4_c5; acc_p3_c6 = acc_p4_c6; acc_p3_c7 = acc_p4_c7;
        acc_p4_c0 = acc_p5_c0; acc_p4_c1 = acc_p5_c1; acc_p4_c2 = acc_p5_c2; acc_p4_c3 = acc_p5_c3;
        acc_p4_c4 = acc_p5_c4; acc_p4_c5 = acc_p5_c5; acc_p4_c6 = acc_p5_c6; acc_p4_c7 = acc_p5_c7;
        acc_p5_c0 = 0.0f; acc_p5_c1 = 0.0f; acc_p5_c2 = 0.0f; acc_p5_c3 = 0.0f;
        acc_p5_c4 = 0.0f; acc_p5_c5 = 0.0f; acc_p5_c6 = 0.0f; acc_p5_c7 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k);
            out_c1 = finish(out_c1, bias_k);
            out_c2 = finish(out_c2, bias_k);
            out_c3 = finish(out_c3, bias_k);
            out_c4 = finish(out_c4, bias_k);
            out_c5 = finish(out_c5, bias_k);
            out_c6 = finish(out_c6, bias_k);
            out_c7 = finish(out_c7, bias_k);
            if (out_inside_0) *(uint4*)(out) =
                make_uint4(wc_floats_to_halves(out_c0, out_c1), wc_floats_to_halves(out_c2, out_c3),
                wc_floats_to_halves(out_c4, out_c5), wc_floats_to_halves(out_c6, out_c7));
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_7x7(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short lines[3840];
    unsigned short* ring = lines + threadIdx.x / 32 * RING;                  // this warp's rows
    // zeros beside the rows: columns outside the image, never written again
    for (int i = threadIdx.x % 32; i < 960; i += 32) ring[i] = 0;
    __syncwarp();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_plane = warp;
    const index_t planes = (index_t)N * K;
    // of this lane in its row; of its row in the warp
    const int position = lane % ROW_LANES, member = lane / ROW_LANES;
    const int q = position * COLUMNS;                                      // its first output column

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = (P + bands - 1) / bands + LIVE_ROWS - 1;
    const int rows = stages - (LIVE_ROWS - 1);
    const int first = blockIdx.y * rows;                                        // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z * 16 < planes; z += gridDim.z) {
        const index_t plane = (z * WARP_PLANES + warp_plane) * PLANES + member;
        const bool active = member < PLANES && plane < planes;
        // lanes without a plane load nothing and store nothing
        const index_t made = active ? plane : 0;
        const int k = (int)(made % K);
        const unsigned short* x_plane = x + (made / K * K + k) * ((index_t)H * W);
        unsigned short* y_plane = y + made * ((index_t)P * Q);
        const float bias_k = wc_half_to_float(bias[k]);
        const unsigned short* w_plane = w + k * (index_t)49;

        if (p_first < P && (z * WARP_PLANES + warp_plane) * PLANES < planes)
            sub_block(x_plane, w_plane, y_plane, bias_k, p_first, rows_out, q, position, active, H, W, Q, ring);
    }
}
