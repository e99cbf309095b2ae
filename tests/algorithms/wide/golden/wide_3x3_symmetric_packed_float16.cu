// warpconv 0.1.0: wide, float16. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,56 --filter 16,3,3 --padding 1 --padding-mode symmetric --groups 16 \
//     --dtype float16 --arch sm_90 --algorithm wide \
//     --set columns=8 --set vector=8 --set store_vector=8 --set span=packed --set row_lanes=7 \
//     --set separators=none --set sub_block_rows=14 --set prefetch_rows=4 --set weights=registers \
//     --set loads=cached --set stage_steps=1 --set tap_rows=all --set warp_columns=1 --set warp_rows=1 \
//     --set warp_planes=4 --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 3, 3] -> y[N, 16, P, Q], stride 1, padding 1 (symmetric), groups 16, float16
//        N, H, W (and so P, Q) are arguments (W = 56; Q a multiple of 8 and at most 56); all else is a constant of the
//        text
// plan   8 columns per lane, 4 rows of 7 lanes side by side, sub-blocks of 14 rows, 4 warps per block; 8 elements a
//        load, 4 steps ahead
// cost   sub-block of 14 rows x 256 columns: 16 warp loads, 32 shuffles, 1152 FMA a lane, about 72 registers (direct:
//        1008 loads)
//
// A lane makes 8 neighbouring output columns and walks down the rows. It loads 8 input columns of each row by
// asynchronous copies to shared memory, the others come from its neighbours by shuffle. An input row is loaded once and
// added to the 3 output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the
// next older row, so the accumulators move on without a move.
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int LANE_COLUMNS = 8;                 // input columns of a lane
constexpr int STAGE_STEPS = 1;                  // steps that come into use together
constexpr int ROW_LANES = 7;                    // lanes that a row takes
constexpr int PLANES = 4;                       // planes side by side in a warp
constexpr int WARP_PLANES = 4;                  // and on different planes
constexpr int K = 16;                           // output channels
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The row that is read at row `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel is
// repeated. The border is no taller than the image; beyond it this is some row of the image, so that no load needs a
// guard.
__device__ __forceinline__ int at_border(int i, int size) {
    const int below = max(i, -1 - i);
    return max(min(below, 2 * size - 1 - below), 0);
}
__device__ __forceinline__ const unsigned short* wc_settled_address(const unsigned short* value) { asm volatile("" : "+l"(value)); return value; }

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 3;" ::: "memory"); }

constexpr int LINE = 56;                   // elements of a row in shared memory; those before its first own column
constexpr int STEP = 224, RING = 1120;       // of a step's rows; of all rows that a warp holds

// 4 planes side by side, 7 lanes a row. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W,
        int Q, unsigned short* ring) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    // where this lane's columns lie in a row
    const int own = min(lane / ROW_LANES, PLANES - 1) * LINE + position * LANE_COLUMNS;
    const bool takes_part = lane < PLANES * ROW_LANES;      // in copies; lanes without a plane copy rows of the first
    // beside a row stand columns of the lanes at its ends
    const bool first_of_row = position == 0, last_of_row = position == ROW_LANES - 1;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = wc_half_to_float(__ldg(w)), w_r0_s1 = wc_half_to_float(__ldg(w + 1)),
        w_r0_s2 = wc_half_to_float(__ldg(w + 2));
    const float w_r1_s0 = wc_half_to_float(__ldg(w + 3)), w_r1_s1 = wc_half_to_float(__ldg(w + 4)),
        w_r1_s2 = wc_half_to_float(__ldg(w + 5));
    const float w_r2_s0 = wc_half_to_float(__ldg(w + 6)), w_r2_s1 = wc_half_to_float(__ldg(w + 7)),
        w_r2_s2 = wc_half_to_float(__ldg(w + 8));

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    int s = 0;
    int h = h_first + s;
    unsigned short* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f, acc_p0_c4 = 0.0f, acc_p0_c5 = 0.0f,
        acc_p0_c6 = 0.0f, acc_p0_c7 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f, acc_p1_c4 = 0.0f, acc_p1_c5 = 0.0f,
              acc_p1_c6 = 0.0f, acc_p1_c7 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = steps;
    const unsigned short* row = wc_settled_address(x + column);             // of the image's first row
    auto copy = [&](int slot) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            unsigned short* to = ring + slot + i * STEP;
            const unsigned short* row_0 = row + (index_t)at_border(h, H) * W;
            wc_copy_async_if_16(takes_part, to + own, row_0);
            h += ROW_STEP;
        }
    };
    auto step = [&](int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        const uint4 line_0 = *(const uint4*)(ring + at + own);
        const unsigned word_m1 = __shfl_up_sync(ALL_LANES, line_0.w, 1);
        const unsigned word_4 = __shfl_down_sync(ALL_LANES, line_0.x, 1);
        const float in_0 = wc_half_low_to_float(line_0.x);
        const float in_1 = wc_half_high_to_float(line_0.x);
        const float in_2 = wc_half_low_to_float(line_0.y);
        const float in_3 = wc_half_high_to_float(line_0.y);
        const float in_4 = wc_half_low_to_float(line_0.z);
        const float in_5 = wc_half_high_to_float(line_0.z);
        const float in_6 = wc_half_low_to_float(line_0.w);
        const float in_7 = wc_half_high_to_float(line_0.w);
        float in_m1 = wc_half_high_to_float(word_m1);
        float in_8 = wc_half_low_to_float(word_4);
        if (first_of_row) { in_m1 = in_0; }
        if (last_of_row) { in_8 = in_7; }
        // filter row 2
        out_c0 = fmaf(in_m1, w_r2_s0, acc_p0_c0); out_c1 = fmaf(in_0, w_r2_s0, acc_p0_c1);
        out_c2 = fmaf(in_1, w_r2_s0, acc_p0_c2); out_c3 = fmaf(in_2, w_r2_s0, acc_p0_c3);
        out_c4 = fmaf(in_3, w_r2_s0, acc_p0_c4); out_c5 = fmaf(in_4, w_r2_s0, acc_p0_c5);
        out_c6 = fmaf(in_5, w_r2_s0, acc_p0_c6); out_c7 = fmaf(in_6, w_r2_s0, acc_p0_c7);
        out_c0 = fmaf(in_0, w_r2_s1, out_c0); out_c1 = fmaf(in_1, w_r2_s1, out_c1);
        out_c2 = fmaf(in_2, w_r2_s1, out_c2); out_c3 = fmaf(in_3, w_r2_s1, out_c3);
        out_c4 = fmaf(in_4, w_r2_s1, out_c4); out_c5 = fmaf(in_5, w_r2_s1, out_c5);
        out_c6 = fmaf(in_6, w_r2_s1, out_c6); out_c7 = fmaf(in_7, w_r2_s1, out_c7);
        out_c0 = fmaf(in_1, w_r2_s2, out_c0); out_c1 = fmaf(in_2, w_r2_s2, out_c1);
        out_c2 = fmaf(in_3, w_r2_s2, out_c2); out_c3 = fmaf(in_4, w_r2_s2, out_c3);
        out_c4 = fmaf(in_5, w_r2_s2, out_c4); out_c5 = fmaf(in_6, w_r2_s2, out_c5);
        out_c6 = fmaf(in_7, w_r2_s2, out_c6); out_c7 = fmaf(in_8, w_r2_s2, out_c7);
        // filter row 1
        acc_p0_c0 = fmaf(in_m1, w_r1_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_0, w_r1_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_1, w_r1_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_2, w_r1_s0, acc_p1_c3);
        acc_p0_c4 = fmaf(in_3, w_r1_s0, acc_p1_c4); acc_p0_c5 = fmaf(in_4, w_r1_s0, acc_p1_c5);
        acc_p0_c6 = fmaf(in_5, w_r1_s0, acc_p1_c6); acc_p0_c7 = fmaf(in_6, w_r1_s0, acc_p1_c7);
        acc_p0_c0 = fmaf(in_0, w_r1_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r1_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_r1_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r1_s1, acc_p0_c3);
        acc_p0_c4 = fmaf(in_4, w_r1_s1, acc_p0_c4); acc_p0_c5 = fmaf(in_5, w_r1_s1, acc_p0_c5);
        acc_p0_c6 = fmaf(in_6, w_r1_s1, acc_p0_c6); acc_p0_c7 = fmaf(in_7, w_r1_s1, acc_p0_c7);
        acc_p0_c0 = fmaf(in_1, w_r1_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r1_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, w_r1_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r1_s2, acc_p0_c3);
        acc_p0_c4 = fmaf(in_5, w_r1_s2, acc_p0_c4); acc_p0_c5 = fmaf(in_6, w_r1_s2, acc_p0_c5);
        acc_p0_c6 = fmaf(in_7, w_r1_s2, acc_p0_c6); acc_p0_c7 = fmaf(in_8, w_r1_s2, acc_p0_c7);
        // filter row 0
        acc_p1_c0 = in_m1 * w_r0_s0; acc_p1_c1 = in_0 * w_r0_s0; acc_p1_c2 = in_1 * w_r0_s0; acc_p1_c3 = in_2 * w_r0_s0;
        acc_p1_c4 = in_3 * w_r0_s0; acc_p1_c5 = in_4 * w_r0_s0; acc_p1_c6 = in_5 * w_r0_s0; acc_p1_c7 = in_6 * w_r0_s0;
        acc_p1_c0 = fmaf(in_0, w_r0_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r0_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r0_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r0_s1, acc_p1_c3);
        acc_p1_c4 = fmaf(in_4, w_r0_s1, acc_p1_c4); acc_p1_c5 = fmaf(in_5, w_r0_s1, acc_p1_c5);
        acc_p1_c6 = fmaf(in_6, w_r0_s1, acc_p1_c6); acc_p1_c7 = fmaf(in_7, w_r0_s1, acc_p1_c7);
        acc_p1_c0 = fmaf(in_1, w_r0_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r0_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r0_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r0_s2, acc_p1_c3);
        acc_p1_c4 = fmaf(in_5, w_r0_s2, acc_p1_c4); acc_p1_c5 = fmaf(in_6, w_r0_s2, acc_p1_c5);
        acc_p1_c6 = fmaf(in_7, w_r0_s2, acc_p1_c6); acc_p1_c7 = fmaf(in_8, w_r0_s2, acc_p1_c7);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
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
        // the rows of 4 stages on take the place of those of the stage before
        if (copies) copy(slot == 0 ? 4 * STEP : slot - STEP);
        wc_copy_async_commit();
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            step(slot + i * STEP);
            ++s;
        }
        slot = slot == 4 * STEP ? 0 : slot + STEP;
    };

    // all lanes have used what the ring held before
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        if (s + i < steps_inside) copy(i * STEP);
        wc_copy_async_commit();
    }
#pragma unroll 1
    while (s < steps_inside - 4) stage(true);
#pragma unroll 1
    while (s < steps_inside) stage(false);
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short lines[4480];
    unsigned short* ring = lines + threadIdx.x / 32 * RING;                  // this warp's rows
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
        const unsigned short* w_plane = w + k * (index_t)9;

        if (p_first < P && (z * WARP_PLANES + warp_plane) * PLANES < planes)
            sub_block(x_plane, w_plane, y_plane, p_first, rows_out, q, position, active, H, W, Q, ring);
    }
}
