// warpconv 0.1.0: wide, float16. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --padding-mode symmetric --dtype float16 \
//     --arch sm_90 --algorithm wide \
//     --set columns=8 --set vector=8 --set store_vector=8 --set span=strips --set edges=guarded \
//     --set sub_block_rows=14 --set prefetch_rows=2 --set weights=registers --set loads=async --set stage_steps=1 \
//     --set tap_rows=all --set warp_columns=4 --set warp_rows=1 --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2 (symmetric), float16
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8); all else is a constant of the text
// plan   8 columns per lane, strips of 256 columns, sub-blocks of 14 rows, 4 warps per block; 8 elements a load, 2
//        steps ahead
// cost   sub-block of 14 rows x 256 columns: 36 warp loads, 0 shuffles, 3600 FMA a lane, about 107 registers (direct:
//        2800 loads)
//
// A lane makes 8 neighbouring output columns and walks down the rows. It loads 8 input columns of each row by
// asynchronous copies to shared memory, where all lanes find the others. An input row is loaded once and added to the 5
// output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the next older row, so
// the accumulators move on without a move.
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 5;                    // output rows in work at a time
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int LANE_COLUMNS = 8;                 // input columns of a lane
constexpr int PREFETCH = 2;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 1;                  // steps that come into use together
constexpr int STRIP = 256;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is repeated.
__device__ __forceinline__ int at_border(int i, int size) {
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -1 - i : size - 1 - (i - size);
    return i;
}

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_if_4(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

constexpr int MARGIN = 8;                   // elements of a row in shared memory; those before its first own column
constexpr int STEP = 280, RING = 840;       // of a step's rows; of all rows that a warp holds
constexpr int PAIRS = 272;      // behind a row: pairs of elements, of which one belongs outside of the image

// 32 lanes, 8 output columns each. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W,
        int Q, unsigned short* ring) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = column < W;
    const int own = MARGIN + position * LANE_COLUMNS;                      // where this lane's columns lie in a row
    // the first lanes copy what lies beside the strip: 8 columns to its left, 8 to its right
    const int beside_column = lane < 1 ? (lane - 1) * 8 : 256 + (lane - 1) * 8;
    const int beside = MARGIN + beside_column, from_own = beside_column - position * LANE_COLUMNS;
    const bool beside_inside = lane < 2 && (unsigned)(column + from_own) < (unsigned)W;
    const int first_column = column - position * LANE_COLUMNS;             // of the strip
    // some windows reach columns outside of the image
    const bool at_edge = first_column < 2 || first_column + 258 > W;
    const bool ends = first_column + 256 > W;      // some lie in the strip itself
    // the first lanes copy single columns outside of the image: 2 to the left of the strip and 2 to the right of it or
    // of the image; those outside the image from where the border has them
    const int outside_0 = position < 2 ? first_column + position - 2 : min(W, first_column + 256) + position - 2;
    const int outside_at_0 = at_border(outside_0, W), outside_to_0 = own + outside_0 - column;
    const int outside_from_0 = (outside_at_0 & ~1) - column, pair_0 = PAIRS + 2 * position,
        one_of_pair_0 = pair_0 + (outside_at_0 & 1);
    const bool outside_here_0 = position < 4 && (unsigned)outside_0 >= (unsigned)W
        && outside_0 - first_column < PAIRS - MARGIN;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = wc_half_to_float(__ldg(w)), w_r0_s1 = wc_half_to_float(__ldg(w + 1)),
        w_r0_s2 = wc_half_to_float(__ldg(w + 2)), w_r0_s3 = wc_half_to_float(__ldg(w + 3)),
                w_r0_s4 = wc_half_to_float(__ldg(w + 4));
    const float w_r1_s0 = wc_half_to_float(__ldg(w + 5)), w_r1_s1 = wc_half_to_float(__ldg(w + 6)),
        w_r1_s2 = wc_half_to_float(__ldg(w + 7)), w_r1_s3 = wc_half_to_float(__ldg(w + 8)),
                w_r1_s4 = wc_half_to_float(__ldg(w + 9));
    const float w_r2_s0 = wc_half_to_float(__ldg(w + 10)), w_r2_s1 = wc_half_to_float(__ldg(w + 11)),
        w_r2_s2 = wc_half_to_float(__ldg(w + 12)), w_r2_s3 = wc_half_to_float(__ldg(w + 13)),
                w_r2_s4 = wc_half_to_float(__ldg(w + 14));
    const float w_r3_s0 = wc_half_to_float(__ldg(w + 15)), w_r3_s1 = wc_half_to_float(__ldg(w + 16)),
        w_r3_s2 = wc_half_to_float(__ldg(w + 17)), w_r3_s3 = wc_half_to_float(__ldg(w + 18)),
                w_r3_s4 = wc_half_to_float(__ldg(w + 19));
    const float w_r4_s0 = wc_half_to_float(__ldg(w + 20)), w_r4_s1 = wc_half_to_float(__ldg(w + 21)),
        w_r4_s2 = wc_half_to_float(__ldg(w + 22)), w_r4_s3 = wc_half_to_float(__ldg(w + 23)),
                w_r4_s4 = wc_half_to_float(__ldg(w + 24));

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    int s = 0;
    const index_t pitch = (index_t)W;
    unsigned short* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f, acc_p0_c4 = 0.0f, acc_p0_c5 = 0.0f,
        acc_p0_c6 = 0.0f, acc_p0_c7 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f, acc_p1_c4 = 0.0f, acc_p1_c5 = 0.0f,
              acc_p1_c6 = 0.0f, acc_p1_c7 = 0.0f,
          acc_p2_c0 = 0.0f, acc_p2_c1 = 0.0f, acc_p2_c2 = 0.0f, acc_p2_c3 = 0.0f, acc_p2_c4 = 0.0f, acc_p2_c5 = 0.0f,
              acc_p2_c6 = 0.0f, acc_p2_c7 = 0.0f,
          acc_p3_c0 = 0.0f, acc_p3_c1 = 0.0f, acc_p3_c2 = 0.0f, acc_p3_c3 = 0.0f, acc_p3_c4 = 0.0f, acc_p3_c5 = 0.0f,
              acc_p3_c6 = 0.0f, acc_p3_c7 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const unsigned short* row = x + (index_t)h_first * W + column;
    // the rows of a stage, from row h of the image on; inside: all of them lie in the image
    auto copy = [&](int slot, int h, bool inside) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            unsigned short* to = ring + slot + i * STEP;
            const index_t moved_0 = inside ? 0 : (index_t)(at_border(h, H) - h) * W;
            wc_copy_async_if_16(own_inside_0, to + own, row + moved_0);
            wc_copy_async_if_16(beside_inside, to + beside, row + moved_0 + from_own);
            row += pitch;
            h += ROW_STEP;
        }
    };
    // pairs with a column that belongs outside of the image, for the rows that copy() copies next
    auto copy_pairs = [&](int slot, int h, bool inside) __attribute__((always_inline)) {
        const unsigned short* from = row;
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            unsigned short* to = ring + slot + i * STEP;
            const index_t moved_0 = inside ? 0 : (index_t)(at_border(h, H) - h) * W;
            wc_copy_async_if_4(outside_here_0, to + pair_0, from + moved_0 + outside_from_0);
            from += pitch;
            h += ROW_STEP;
        }
    };
    // the columns themselves from the pairs that came with the rows of a stage
    auto take_of_pairs = [&](int slot) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            unsigned short* to = ring + slot + i * STEP;
            if (outside_here_0) to[outside_to_0] = to[one_of_pair_0];
        }
        __syncwarp();
    };
    auto step = [&](int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        const unsigned line_m2 = *(const unsigned*)(ring + at + own - 2);
        const uint4 line_0 = *(const uint4*)(ring + at + own);
        const unsigned line_8 = *(const unsigned*)(ring + at + own + 8);
        const float in_m2 = wc_half_low_to_float(line_m2);
        const float in_m1 = wc_half_high_to_float(line_m2);
        const float in_0 = wc_half_low_to_float(line_0.x);
        const float in_1 = wc_half_high_to_float(line_0.x);
        const float in_2 = wc_half_low_to_float(line_0.y);
        const float in_3 = wc_half_high_to_float(line_0.y);
        const float in_4 = wc_half_low_to_float(line_0.z);
        const float in_5 = wc_half_high_to_float(line_0.z);
        const float in_6 = wc_half_low_to_float(line_0.w);
        const float in_7 = wc_half_high_to_float(line_0.w);
        const float in_8 = wc_half_low_to_float(line_8);
        const float in_9 = wc_half_high_to_float(line_8);
        // filter row 4
        out_c0 = fmaf(in_m2, w_r4_s0, acc_p0_c0); out_c1 = fmaf(in_m1, w_r4_s0, acc_p0_c1);
        out_c2 = fmaf(in_0, w_r4_s0, acc_p0_c2); out_c3 = fmaf(in_1, w_r4_s0, acc_p0_c3);
        out_c4 = fmaf(in_2, w_r4_s0, acc_p0_c4); out_c5 = fmaf(in_3, w_r4_s0, acc_p0_c5);
        out_c6 = fmaf(in_4, w_r4_s0, acc_p0_c6); out_c7 = fmaf(in_5, w_r4_s0, acc_p0_c7);
        out_c0 = fmaf(in_m1, w_r4_s1, out_c0); out_c1 = fmaf(in_0, w_r4_s1, out_c1);
        out_c2 = fmaf(in_1, w_r4_s1, out_c2); out_c3 = fmaf(in_2, w_r4_s1, out_c3);
        out_c4 = fmaf(in_3, w_r4_s1, out_c4); out_c5 = fmaf(in_4, w_r4_s1, out_c5);
        out_c6 = fmaf(in_5, w_r4_s1, out_c6); out_c7 = fmaf(in_6, w_r4_s1, out_c7);
        out_c0 = fmaf(in_0, w_r4_s2, out_c0); out_c1 = fmaf(in_1, w_r4_s2, out_c1);
        out_c2 = fmaf(in_2, w_r4_s2, out_c2); out_c3 = fmaf(in_3, w_r4_s2, out_c3);
        out_c4 = fmaf(in_4, w_r4_s2, out_c4); out_c5 = fmaf(in_5, w_r4_s2, out_c5);
        out_c6 = fmaf(in_6, w_r4_s2, out_c6); out_c7 = fmaf(in_7, w_r4_s2, out_c7);
        out_c0 = fmaf(in_1, w_r4_s3, out_c0); out_c1 = fmaf(in_2, w_r4_s3, out_c1);
        out_c2 = fmaf(in_3, w_r4_s3, out_c2); out_c3 = fmaf(in_4, w_r4_s3, out_c3);
        out_c4 = fmaf(in_5, w_r4_s3, out_c4); out_c5 = fmaf(in_6, w_r4_s3, out_c5);
        out_c6 = fmaf(in_7, w_r4_s3, out_c6); out_c7 = fmaf(in_8, w_r4_s3, out_c7);
        out_c0 = fmaf(in_2, w_r4_s4, out_c0); out_c1 = fmaf(in_3, w_r4_s4, out_c1);
        out_c2 = fmaf(in_4, w_r4_s4, out_c2); out_c3 = fmaf(in_5, w_r4_s4, out_c3);
        out_c4 = fmaf(in_6, w_r4_s4, out_c4); out_c5 = fmaf(in_7, w_r4_s4, out_c5);
        out_c6 = fmaf(in_8, w_r4_s4, out_c6); out_c7 = fmaf(in_9, w_r4_s4, out_c7);
        // filter row 3
        acc_p0_c0 = fmaf(in_m2, w_r3_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_m1, w_r3_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_0, w_r3_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_1, w_r3_s0, acc_p1_c3);
        acc_p0_c4 = fmaf(in_2, w_r3_s0, acc_p1_c4); acc_p0_c5 = fmaf(in_3, w_r3_s0, acc_p1_c5);
        acc_p0_c6 = fmaf(in_4, w_r3_s0, acc_p1_c6); acc_p0_c7 = fmaf(in_5, w_r3_s0, acc_p1_c7);
        acc_p0_c0 = fmaf(in_m1, w_r3_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_0, w_r3_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_1, w_r3_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_2, w_r3_s1, acc_p0_c3);
        acc_p0_c4 = fmaf(in_3, w_r3_s1, acc_p0_c4); acc_p0_c5 = fmaf(in_4, w_r3_s1, acc_p0_c5);
        acc_p0_c6 = fmaf(in_5, w_r3_s1, acc_p0_c6); acc_p0_c7 = fmaf(in_6, w_r3_s1, acc_p0_c7);
        acc_p0_c0 = fmaf(in_0, w_r3_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r3_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_r3_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r3_s2, acc_p0_c3);
        acc_p0_c4 = fmaf(in_4, w_r3_s2, acc_p0_c4); acc_p0_c5 = fmaf(in_5, w_r3_s2, acc_p0_c5);
        acc_p0_c6 = fmaf(in_6, w_r3_s2, acc_p0_c6); acc_p0_c7 = fmaf(in_7, w_r3_s2, acc_p0_c7);
        acc_p0_c0 = fmaf(in_1, w_r3_s3, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r3_s3, acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, w_r3_s3, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r3_s3, acc_p0_c3);
        acc_p0_c4 = fmaf(in_5, w_r3_s3, acc_p0_c4); acc_p0_c5 = fmaf(in_6, w_r3_s3, acc_p0_c5);
        acc_p0_c6 = fmaf(in_7, w_r3_s3, acc_p0_c6); acc_p0_c7 = fmaf(in_8, w_r3_s3, acc_p0_c7);
        acc_p0_c0 = fmaf(in_2, w_r3_s4, acc_p0_c0); acc_p0_c1 = fmaf(in_3, w_r3_s4, acc_p0_c1);
        acc_p0_c2 = fmaf(in_4, w_r3_s4, acc_p0_c2); acc_p0_c3 = fmaf(in_5, w_r3_s4, acc_p0_c3);
        acc_p0_c4 = fmaf(in_6, w_r3_s4, acc_p0_c4); acc_p0_c5 = fmaf(in_7, w_r3_s4, acc_p0_c5);
        acc_p0_c6 = fmaf(in_8, w_r3_s4, acc_p0_c6); acc_p0_c7 = fmaf(in_9, w_r3_s4, acc_p0_c7);
        // filter row 2
        acc_p1_c0 = fmaf(in_m2, w_r2_s0, acc_p2_c0); acc_p1_c1 = fmaf(in_m1, w_r2_s0, acc_p2_c1);
        acc_p1_c2 = fmaf(in_0, w_r2_s0, acc_p2_c2); acc_p1_c3 = fmaf(in_1, w_r2_s0, acc_p2_c3);
        acc_p1_c4 = fmaf(in_2, w_r2_s0, acc_p2_c4); acc_p1_c5 = fmaf(in_3, w_r2_s0, acc_p2_c5);
        acc_p1_c6 = fmaf(in_4, w_r2_s0, acc_p2_c6); acc_p1_c7 = fmaf(in_5, w_r2_s0, acc_p2_c7);
        acc_p1_c0 = fmaf(in_m1, w_r2_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_0, w_r2_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_1, w_r2_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_2, w_r2_s1, acc_p1_c3);
        acc_p1_c4 = fmaf(in_3, w_r2_s1, acc_p1_c4); acc_p1_c5 = fmaf(in_4, w_r2_s1, acc_p1_c5);
        acc_p1_c6 = fmaf(in_5, w_r2_s1, acc_p1_c6); acc_p1_c7 = fmaf(in_6, w_r2_s1, acc_p1_c7);
        acc_p1_c0 = fmaf(in_0, w_r2_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r2_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r2_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r2_s2, acc_p1_c3);
        acc_p1_c4 = fmaf(in_4, w_r2_s2, acc_p1_c4); acc_p1_c5 = fmaf(in_5, w_r2_s2, acc_p1_c5);
        acc_p1_c6 = fmaf(in_6, w_r2_s2, acc_p1_c6); acc_p1_c7 = fmaf(in_7, w_r2_s2, acc_p1_c7);
        acc_p1_c0 = fmaf(in_1, w_r2_s3, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r2_s3, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r2_s3, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r2_s3, acc_p1_c3);
        acc_p1_c4 = fmaf(in_5, w_r2_s3, acc_p1_c4); acc_p1_c5 = fmaf(in_6, w_r2_s3, acc_p1_c5);
        acc_p1_c6 = fmaf(in_7, w_r2_s3, acc_p1_c6); acc_p1_c7 = fmaf(in_8, w_r2_s3, acc_p1_c7);
        acc_p1_c0 = fmaf(in_2, w_r2_s4, acc_p1_c0); acc_p1_c1 = fmaf(in_3, w_r2_s4, acc_p1_c1);
        acc_p1_c2 = fmaf(in_4, w_r2_s4, acc_p1_c2); acc_p1_c3 = fmaf(in_5, w_r2_s4, acc_p1_c3);
        acc_p1_c4 = fmaf(in_6, w_r2_s4, acc_p1_c4); acc_p1_c5 = fmaf(in_7, w_r2_s4, acc_p1_c5);
        acc_p1_c6 = fmaf(in_8, w_r2_s4, acc_p1_c6); acc_p1_c7 = fmaf(in_9, w_r2_s4, acc_p1_c7);
        // filter row 1
        acc_p2_c0 = fmaf(in_m2, w_r1_s0, acc_p3_c0); acc_p2_c1 = fmaf(in_m1, w_r1_s0, acc_p3_c1);
        acc_p2_c2 = fmaf(in_0, w_r1_s0, acc_p3_c2); acc_p2_c3 = fmaf(in_1, w_r1_s0, acc_p3_c3);
        acc_p2_c4 = fmaf(in_2, w_r1_s0, acc_p3_c4); acc_p2_c5 = fmaf(in_3, w_r1_s0, acc_p3_c5);
        acc_p2_c6 = fmaf(in_4, w_r1_s0, acc_p3_c6); acc_p2_c7 = fmaf(in_5, w_r1_s0, acc_p3_c7);
        acc_p2_c0 = fmaf(in_m1, w_r1_s1, acc_p2_c0); acc_p2_c1 = fmaf(in_0, w_r1_s1, acc_p2_c1);
        acc_p2_c2 = fmaf(in_1, w_r1_s1, acc_p2_c2); acc_p2_c3 = fmaf(in_2, w_r1_s1, acc_p2_c3);
        acc_p2_c4 = fmaf(in_3, w_r1_s1, acc_p2_c4); acc_p2_c5 = fmaf(in_4, w_r1_s1, acc_p2_c5);
        acc_p2_c6 = fmaf(in_5, w_r1_s1, acc_p2_c6); acc_p2_c7 = fmaf(in_6, w_r1_s1, acc_p2_c7);
        acc_p2_c0 = fmaf(in_0, w_r1_s2, acc_p2_c0); acc_p2_c1 = fmaf(in_1, w_r1_s2, acc_p2_c1);
        acc_p2_c2 = fmaf(in_2, w_r1_s2, acc_p2_c2); acc_p2_c3 = fmaf(in_3, w_r1_s2, acc_p2_c3);
        acc_p2_c4 = fmaf(in_4, w_r1_s2, acc_p2_c4); acc_p2_c5 = fmaf(in_5, w_r1_s2, acc_p2_c5);
        acc_p2_c6 = fmaf(in_6, w_r1_s2, acc_p2_c6); acc_p2_c7 = fmaf(in_7, w_r1_s2, acc_p2_c7);
        acc_p2_c0 = fmaf(in_1, w_r1_s3, acc_p2_c0); acc_p2_c1 = fmaf(in_2, w_r1_s3, acc_p2_c1);
        acc_p2_c2 = fmaf(in_3, w_r1_s3, acc_p2_c2); acc_p2_c3 = fmaf(in_4, w_r1_s3, acc_p2_c3);
        acc_p2_c4 = fmaf(in_5, w_r1_s3, acc_p2_c4); acc_p2_c5 = fmaf(in_6, w_r1_s3, acc_p2_c5);
        acc_p2_c6 = fmaf(in_7, w_r1_s3, acc_p2_c6); acc_p2_c7 = fmaf(in_8, w_r1_s3, acc_p2_c7);
        acc_p2_c0 = fmaf(in_2, w_r1_s4, acc_p2_c0); acc_p2_c1 = fmaf(in_3, w_r1_s4, acc_p2_c1);
        acc_p2_c2 = fmaf(in_4, w_r1_s4, acc_p2_c2); acc_p2_c3 = fmaf(in_5, w_r1_s4, acc_p2_c3);
        acc_p2_c4 = fmaf(in_6, w_r1_s4, acc_p2_c4); acc_p2_c5 = fmaf(in_7, w_r1_s4, acc_p2_c5);
        acc_p2_c6 = fmaf(in_8, w_r1_s4, acc_p2_c6); acc_p2_c7 = fmaf(in_9, w_r1_s4, acc_p2_c7);
        // filter row 0
        acc_p3_c0 = in_m2 * w_r0_s0; acc_p3_c1 = in_m1 * w_r0_s0; acc_p3_c2 = in_0 * w_r0_s0;
        acc_p3_c3 = in_1 * w_r0_s0;
        acc_p3_c4 = in_2 * w_r0_s0; acc_p3_c5 = in_3 * w_r0_s0; acc_p3_c6 = in_4 * w_r0_s0; acc_p3_c7 = in_5 * w_r0_s0;
        acc_p3_c0 = fmaf(in_m1, w_r0_s1, acc_p3_c0); acc_p3_c1 = fmaf(in_0, w_r0_s1, acc_p3_c1);
        acc_p3_c2 = fmaf(in_1, w_r0_s1, acc_p3_c2); acc_p3_c3 = fmaf(in_2, w_r0_s1, acc_p3_c3);
        acc_p3_c4 = fmaf(in_3, w_r0_s1, acc_p3_c4); acc_p3_c5 = fmaf(in_4, w_r0_s1, acc_p3_c5);
        acc_p3_c6 = fmaf(in_5, w_r0_s1, acc_p3_c6); acc_p3_c7 = fmaf(in_6, w_r0_s1, acc_p3_c7);
        acc_p3_c0 = fmaf(in_0, w_r0_s2, acc_p3_c0); acc_p3_c1 = fmaf(in_1, w_r0_s2, acc_p3_c1);
        acc_p3_c2 = fmaf(in_2, w_r0_s2, acc_p3_c2); acc_p3_c3 = fmaf(in_3, w_r0_s2, acc_p3_c3);
        acc_p3_c4 = fmaf(in_4, w_r0_s2, acc_p3_c4); acc_p3_c5 = fmaf(in_5, w_r0_s2, acc_p3_c5);
        acc_p3_c6 = fmaf(in_6, w_r0_s2, acc_p3_c6); acc_p3_c7 = fmaf(in_7, w_r0_s2, acc_p3_c7);
        acc_p3_c0 = fmaf(in_1, w_r0_s3, acc_p3_c0); acc_p3_c1 = fmaf(in_2, w_r0_s3, acc_p3_c1);
        acc_p3_c2 = fmaf(in_3, w_r0_s3, acc_p3_c2); acc_p3_c3 = fmaf(in_4, w_r0_s3, acc_p3_c3);
        acc_p3_c4 = fmaf(in_5, w_r0_s3, acc_p3_c4); acc_p3_c5 = fmaf(in_6, w_r0_s3, acc_p3_c5);
        acc_p3_c6 = fmaf(in_7, w_r0_s3, acc_p3_c6); acc_p3_c7 = fmaf(in_8, w_r0_s3, acc_p3_c7);
        acc_p3_c0 = fmaf(in_2, w_r0_s4, acc_p3_c0); acc_p3_c1 = fmaf(in_3, w_r0_s4, acc_p3_c1);
        acc_p3_c2 = fmaf(in_4, w_r0_s4, acc_p3_c2); acc_p3_c3 = fmaf(in_5, w_r0_s4, acc_p3_c3);
        acc_p3_c4 = fmaf(in_6, w_r0_s4, acc_p3_c4); acc_p3_c5 = fmaf(in_7, w_r0_s4, acc_p3_c5);
        acc_p3_c6 = fmaf(in_8, w_r0_s4, acc_p3_c6); acc_p3_c7 = fmaf(in_9, w_r0_s4, acc_p3_c7);
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            if (out_inside_0) *(uint4*)(out) =
                make_uint4(wc_floats_to_halves(out_c0, out_c1), wc_floats_to_halves(out_c2, out_c3),
                wc_floats_to_halves(out_c4, out_c5), wc_floats_to_halves(out_c6, out_c7));
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
        if (at_edge) {
            take_of_pairs(slot);
            if (copies) copy_pairs(next, h, inside);
        }
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
    if (ends) {
        // columns outside the image that no copy reaches
#pragma unroll 1
        for (int i = 8 * lane; i < RING; i += 32 * 8) *(uint4*)(ring + i) = make_uint4(0u, 0u, 0u, 0u);
        __syncwarp();
    }
    if (h_first >= 0 && h_first + (PREFETCH - 1) < H) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (at_edge) copy_pairs(i * STEP, h_first + i, true);
            copy(i * STEP, h_first + i, true);
            wc_copy_async_commit();
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < 2; ++i) {
            if (at_edge) copy_pairs(i * STEP, h_first + i, false);
            copy(i * STEP, h_first + i, false);
            wc_copy_async_commit();
        }
    }
    // stages that copy rows of the image alone end where one below it is next
    const int inside_end = min(steps, H - h_first) - PREFETCH;
    // the second loop stands in the first: one after the other takes the compiler 7 instructions a stage more
#pragma unroll 1
    while (s < steps) {
#pragma unroll 1
        while (s < inside_end) stage(true);
        stage(false);
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_5x5(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short lines[3360];
    unsigned short* ring = lines + threadIdx.x / 32 * RING;                  // this warp's rows
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
        const unsigned short* x_plane = x + made * ((index_t)H * W);
        unsigned short* y_plane = y + made * ((index_t)P * Q);
        const unsigned short* w_plane = w;

        if (p_first < P && has_columns && made < planes)
            sub_block(x_plane, w_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q, ring);
    }
}
