// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,13,13 --padding 6 --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=interior \
//     --set sub_block_rows=14 --set prefetch_rows=1 --set weights=shared --set loads=registers --set stage_steps=1 \
//     --set pipeline=copied --set tap_rows=needed --set warp_columns=4 --set warp_rows=1 --set warp_planes=1 \
//     --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 13, 13] -> y[N, 1, P, Q], stride 1, padding 6, float32
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 1
//        steps ahead
// cost   sub-block of 14 rows x 128 columns: 52 warp loads, 312 shuffles, 17576 FMA a lane, about 130 registers
//        (direct: 9464 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row, the others
// come from its neighbours by shuffle. An input row is loaded once and added to the 13 output rows in work: acc_p0 is
// the oldest, and every chain of products ends in the register of the next older row, so the accumulators move on
// without a move.
constexpr int PAD_TOP = 6;                      // rows of zeros above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 1;                    // input rows of a step
constexpr int LIVE_ROWS = 13;                   // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int PREFETCH = 1;                     // steps that are loaded ahead
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The compiler reads memory again after it: 169 weights kept in registers would spill.
__device__ __forceinline__ void wc_read_again() { asm volatile("" ::: "memory"); }

// An input row as it was loaded: this lane's columns, and in the outermost lanes those beyond the strip.
struct Row {
    float4 own_0;
    float4 edge_0;
};

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W, int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = INTERIOR || (active && column < W);
    // the outermost lanes load what lies beyond the strip: the last 2 to its left, the first 2 to its right
    const bool to_left = position >= 30, to_right = position < 2;
    const int beyond = to_left ? -128 : 128;
    const bool edge_inside_0 = (to_left || to_right) && (INTERIOR || (unsigned)(column + beyond) < (unsigned)W);
    const int lane_left_2 = lane - 2; const bool edge_left_2 = lane >= 30;
    const int lane_left_1 = lane - 1; const bool edge_left_1 = lane >= 31;
    const int lane_right_1 = lane + 1; const bool edge_right_1 = lane < 1;
    const int lane_right_2 = lane + 2; const bool edge_right_2 = lane < 2;
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
          acc_p11_c0 = 0.0f, acc_p11_c1 = 0.0f, acc_p11_c2 = 0.0f, acc_p11_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = INTERIOR ? steps : min(steps, max(s, H - h_first));
    const float* row = x + (index_t)h * W + column;

    auto load = [&](Row (&rows)[STEP_ROWS]) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STEP_ROWS; ++i) {
            const bool row_inside = INTERIOR || (unsigned)h < (unsigned)h_end;
            rows[i].own_0 = row_inside && own_inside_0 ? __ldg((const float4*)(row))
                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (INTERIOR) {
                if (edge_inside_0) rows[i].edge_0 = __ldg((const float4*)(row + beyond));
            } else {
                rows[i].edge_0 = row_inside && edge_inside_0 ? __ldg((const float4*)(row + beyond))
                    : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
            row += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](const Row (&rows)[STEP_ROWS], int i, int s) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float in_m6 = __shfl_sync(ALL_LANES, edge_left_2 ? rows[i].edge_0.z : rows[i].own_0.z, lane_left_2);
        const float in_m5 = __shfl_sync(ALL_LANES, edge_left_2 ? rows[i].edge_0.w : rows[i].own_0.w, lane_left_2);
        const float in_m4 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[i].edge_0.x : rows[i].own_0.x, lane_left_1);
        const float in_m3 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[i].edge_0.y : rows[i].own_0.y, lane_left_1);
        const float in_m2 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[i].edge_0.z : rows[i].own_0.z, lane_left_1);
        const float in_m1 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[i].edge_0.w : rows[i].own_0.w, lane_left_1);
        const float in_4 = __shfl_sync(ALL_LANES, edge_right_1 ? rows[i].edge_0.x : rows[i].own_0.x, lane_right_1);
        const float in_5 = __shfl_sync(ALL_LANES, edge_right_1 ? rows[i].edge_0.y : rows[i].own_0.y, lane_right_1);
        const float in_6 = __shfl_sync(ALL_LANES, edge_right_1 ? rows[i].edge_0.z : rows[i].own_0.z, lane_right_1);
        const float in_7 = __shfl_sync(ALL_LANES, edge_right_1 ? rows[i].edge_0.w : rows[i].own_0.w, lane_right_1);
        const float in_8 = __shfl_sync(ALL_LANES, edge_right_2 ? rows[i].edge_0.x : rows[i].own_0.x, lane_right_2);
        const float in_9 = __shfl_sync(ALL_LANES, edge_right_2 ? rows[i].edge_0.y : rows[i].own_0.y, lane_right_2);
        const float in_0 = rows[i].own_0.x;
        const float in_1 = rows[i].own_0.y;
        const float in_2 = rows[i].own_0.z;
        const float in_3 = rows[i].own_0.w;
        // output row s - a is of this sub-block for a_first <= a < a_end; the filter rows of others are left out in
        // groups
        const int a_first = s - rows_out + 1, a_end = s + 1;
        if (12 >= a_first && 11 < a_end) {
        const float w_r12_s0 = w[156], w_r12_s1 = w[157], w_r12_s2 = w[158], w_r12_s3 = w[159], w_r12_s4 = w[160],
            w_r12_s5 = w[161], w_r12_s6 = w[162], w_r12_s7 = w[163],
                        w_r12_s8 = w[164], w_r12_s9 = w[165], w_r12_s10 = w[166], w_r12_s11 = w[167],
                            w_r12_s12 = w[168];
            const float w_r11_s0 = w[143], w_r11_s1 = w[144], w_r11_s2 = w[145], w_r11_s3 = w[146], w_r11_s4 = w[147],
                w_r11_s5 = w[148], w_r11_s6 = w[149], w_r11_s7 = w[150],
                        w_r11_s8 = w[151], w_r11_s9 = w[152], w_r11_s10 = w[153], w_r11_s11 = w[154],
                            w_r11_s12 = w[155];
            wc_read_again();
            // filter row 12
            out_c0 = fmaf(in_m6, w_r12_s0, acc_p0_c0); out_c1 = fmaf(in_m5, w_r12_s0, acc_p0_c1);
            out_c2 = fmaf(in_m4, w_r12_s0, acc_p0_c2); out_c3 = fmaf(in_m3, w_r12_s0, acc_p0_c3);
            out_c0 = fmaf(in_m5, w_r12_s1, out_c0); out_c1 = fmaf(in_m4, w_r12_s1, out_c1);
            out_c2 = fmaf(in_m3, w_r12_s1, out_c2); out_c3 = fmaf(in_m2, w_r12_s1, out_c3);
            out_c0 = fmaf(in_m4, w_r12_s2, out_c0); out_c1 = fmaf(in_m3, w_r12_s2, out_c1);
            out_c2 = fmaf(in_m2, w_r12_s2, out_c2); out_c3 = fmaf(in_m1, w_r12_s2, out_c3);
            out_c0 = fmaf(in_m3, w_r12_s3, out_c0); out_c1 = fmaf(in_m2, w_r12_s3, out_c1);
            out_c2 = fmaf(in_m1, w_r12_s3, out_c2); out_c3 = fmaf(in_0, w_r12_s3, out_c3);
            out_c0 = fmaf(in_m2, w_r12_s4, out_c0); out_c1 = fmaf(in_m1, w_r12_s4, out_c1);
            out_c2 = fmaf(in_0, w_r12_s4, out_c2); out_c3 = fmaf(in_1, w_r12_s4, out_c3);
            out_c0 = fmaf(in_m1, w_r12_s5, out_c0); out_c1 = fmaf(in_0, w_r12_s5, out_c1);
            out_c2 = fmaf(in_1, w_r12_s5, out_c2); out_c3 = fmaf(in_2, w_r12_s5, out_c3);
            out_c0 = fmaf(in_0, w_r12_s6, out_c0); out_c1 = fmaf(in_1, w_r12_s6, out_c1);
            out_c2 = fmaf(in_2, w_r12_s6, out_c2); out_c3 = fmaf(in_3, w_r12_s6, out_c3);
            out_c0 = fmaf(in_1, w_r12_s7, out_c0); out_c1 = fmaf(in_2, w_r12_s7, out_c1);
            out_c2 = fmaf(in_3, w_r12_s7, out_c2); out_c3 = fmaf(in_4, w_r12_s7, out_c3);
            out_c0 = fmaf(in_2, w_r12_s8, out_c0); out_c1 = fmaf(in_3, w_r12_s8, out_c1);
            out_c2 = fmaf(in_4, w_r12_s8, out_c2); out_c3 = fmaf(in_5, w_r12_s8, out_c3);
            out_c0 = fmaf(in_3, w_r12_s9, out_c0); out_c1 = fmaf(in_4, w_r12_s9, out_c1);
            out_c2 = fmaf(in_5, w_r12_s9, out_c2); out_c3 = fmaf(in_6, w_r12_s9, out_c3);
            out_c0 = fmaf(in_4, w_r12_s10, out_c0); out_c1 = fmaf(in_5, w_r12_s10, out_c1);
            out_c2 = fmaf(in_6, w_r12_s10, out_c2); out_c3 = fmaf(in_7, w_r12_s10, out_c3);
            out_c0 = fmaf(in_5, w_r12_s11, out_c0); out_c1 = fmaf(in_6, w_r12_s11, out_c1);
            out_c2 = fmaf(in_7, w_r12_s11, out_c2); out_c3 = fmaf(in_8, w_r12_s11, out_c3);
            out_c0 = fmaf(in_6, w_r12_s12, out_c0); out_c1 = fmaf(in_7, w_r12_s12, out_c1);
            out_c2 = fmaf(in_8, w_r12_s12, out_c2); out_c3 = fmaf(in_9, w_r12_s12, out_c3);
            // filter row 11
            acc_p0_c0 = fmaf(in_m6, w_r11_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_m5, w_r11_s0, acc_p1_c1);
            acc_p0_c2 = fmaf(in_m4, w_r11_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_m3, w_r11_s0, acc_p1_c3);
            acc_p0_c0 = fmaf(in_m5, w_r11_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_m4, w_r11_s1, acc_p0_c1);
            acc_p0_c2 = fmaf(in_m3, w_r11_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_m2, w_r11_s1, acc_p0_c3);
            acc_p0_c0 = fmaf(in_m4, w_r11_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_m3, w_r11_s2, acc_p0_c1);
            acc_p0_c2 = fmaf(in_m2, w_r11_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_m1, w_r11_s2, acc_p0_c3);
            acc_p0_c0 = fmaf(in_m3, w_r11_s3, acc_p0_c0); acc_p0_c1 = fmaf(in_m2, w_r11_s3, acc_p0_c1);
            acc_p0_c2 = fmaf(in_m1, w_r11_s3, acc_p0_c2); acc_p0_c3 = fmaf(in_0, w_r11_s3, acc_p0_c3);
            acc_p0_c0 = fmaf(in_m2, w_r11_s4, acc_p0_c0); acc_p0_c1 = fmaf(in_m1, w_r11_s4, acc_p0_c1);
            acc_p0_c2 = fmaf(in_0, w_r11_s4, acc_p0_c2); acc_p0_c3 = fmaf(in_1, w_r11_s4, acc_p0_c3);
            acc_p0_c0 = fmaf(in_m1, w_r11_s5, acc_p0_c0); acc_p0_c1 = fmaf(in_0, w_r11_s5, acc_p0_c1);
            acc_p0_c2 = fmaf(in_1, w_r11_s5, acc_p0_c2); acc_p0_c3 = fmaf(in_2, w_r11_s5, acc_p0_c3);
            acc_p0_c0 = fmaf(in_0, w_r11_s6, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_r11_s6, acc_p0_c1);
            acc_p0_c2 = fmaf(in_2, w_r11_s6, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_r11_s6, acc_p0_c3);
            acc_p0_c0 = fmaf(in_1, w_r11_s7, acc_p0_c0); acc_p0_c1 = fmaf(in_2, w_r11_s7, acc_p0_c1);
            acc_p0_c2 = fmaf(in_3, w_r11_s7, acc_p0_c2); acc_p0_c3 = fmaf(in_4, w_r11_s7, acc_p0_c3);
            acc_p0_c0 = fmaf(in_2, w_r11_s8, acc_p0_c0); acc_p0_c1 = fmaf(in_3, w_r11_s8, acc_p0_c1);
            acc_p0_c2 = fmaf(in_4, w_r11_s8, acc_p0_c2); acc_p0_c3 = fmaf(in_5, w_r11_s8, acc_p0_c3);
            acc_p0_c0 = fmaf(in_3, w_r11_s9, acc_p0_c0); acc_p0_c1 = fmaf(in_4, w_r11_s9, acc_p0_c1);
            acc_p0_c2 = fmaf(in_5, w_r11_s9, acc_p0_c2); acc_p0_c3 = fmaf(in_6, w_r11_s9, acc_p0_c3);
            acc_p0_c0 = fmaf(in_4, w_r11_s10, acc_p0_c0); acc_p0_c1 = fmaf(in_5, w_r11_s10, acc_p0_c1);
            acc_p0_c2 = fmaf(in_6, w_r11_s10, acc_p0_c2); acc_p0_c3 = fmaf(in_7, w_r11_s10, acc_p0_c3);
            acc_p0_c0 = fmaf(in_5, w_r11_s11, acc_p0_c0); acc_p0_c1 = fmaf(in_6, w_r11_s11, acc_p0_c1);
            acc_p0_c2 = fmaf(in_7, w_r11_s11, acc_p0_c2); acc_p0_c3 = fmaf(in_8, w_r11_s11, acc_p0_c3);
            acc_p0_c0 = fmaf(in_6, w_r11_s12, acc_p0_c0); acc_p0_c1 = fmaf(in_7, w_r11_s12, acc_p0_c1);
            acc_p0_c2 = fmaf(in_8, w_r11_s12, acc_p0_c2); acc_p0_c3 = fmaf(in_9, w_r11_s12, acc_p0_c3);
        } else {
            out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
            acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        }
        if (10 >= a_first && 9 < a_end) {
        const float w_r10_s0 = w[130], w_r10_s1 = w[131], w_r10_s2 = w[132], w_r10_s3 = w[133], w_r10_s4 = w[134],
            w_r10_s5 = w[135], w_r10_s6 = w[136], w_r10_s7 = w[137],
                        w_r10_s8 = w[138], w_r10_s9 = w[139], w_r10_s10 = w[140], w_r10_s11 = w[141],
                            w_r10_s12 = w[142];
            const float w_r9_s0 = w[117], w_r9_s1 = w[118], w_r9_s2 = w[119], w_r9_s3 = w[120], w_r9_s4 = w[121],
                w_r9_s5 = w[122], w_r9_s6 = w[123], w_r9_s7 = w[124],
                        w_r9_s8 = w[125], w_r9_s9 = w[126], w_r9_s10 = w[127], w_r9_s11 = w[128], w_r9_s12 = w[129];
            wc_read_again();
            // filter row 10
            acc_p1_c0 = fmaf(in_m6, w_r10_s0, acc_p2_c0); acc_p1_c1 = fmaf(in_m5, w_r10_s0, acc_p2_c1);
            acc_p1_c2 = fmaf(in_m4, w_r10_s0, acc_p2_c2); acc_p1_c3 = fmaf(in_m3, w_r10_s0, acc_p2_c3);
            acc_p1_c0 = fmaf(in_m5, w_r10_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_m4, w_r10_s1, acc_p1_c1);
            acc_p1_c2 = fmaf(in_m3, w_r10_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_m2, w_r10_s1, acc_p1_c3);
            acc_p1_c0 = fmaf(in_m4, w_r10_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_m3, w_r10_s2, acc_p1_c1);
            acc_p1_c2 = fmaf(in_m2, w_r10_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_m1, w_r10_s2, acc_p1_c3);
            acc_p1_c0 = fmaf(in_m3, w_r10_s3, acc_p1_c0); acc_p1_c1 = fmaf(in_m2, w_r10_s3, acc_p1_c1);
            acc_p1_c2 = fmaf(in_m1, w_r10_s3, acc_p1_c2); acc_p1_c3 = fmaf(in_0, w_r10_s3, acc_p1_c3);
            acc_p1_c0 = fmaf(in_m2, w_r10_s4, acc_p1_c0); acc_p1_c1 = fmaf(in_m1, w_r10_s4, acc_p1_c1);
            acc_p1_c2 = fmaf(in_0, w_r10_s4, acc_p1_c2); acc_p1_c3 = fmaf(in_1, w_r10_s4, acc_p1_c3);
            acc_p1_c0 = fmaf(in_m1, w_r10_s5, acc_p1_c0); acc_p1_c1 = fmaf(in_0, w_r10_s5, acc_p1_c1);
            acc_p1_c2 = fmaf(in_1, w_r10_s5, acc_p1_c2); acc_p1_c3 = fmaf(in_2, w_r10_s5, acc_p1_c3);
            acc_p1_c0 = fmaf(in_0, w_r10_s6, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r10_s6, acc_p1_c1);
            acc_p1_c2 = fmaf(in_2, w_r10_s6, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r10_s6, acc_p1_c3);
            acc_p1_c0 = fmaf(in_1, w_r10_s7, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r10_s7, acc_p1_c1);
            acc_p1_c2 = fmaf(in_3, w_r10_s7, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r10_s7, acc_p1_c3);
            acc_p1_c0 = fmaf(in_2, w_r10_s8, acc_p1_c0); acc_p1_c1 = fmaf(in_3, w_r10_s8, acc_p1_c1);
            acc_p1_c2 = fmaf(in_4, w_r10_s8, acc_p1_c2); acc_p1_c3 = fmaf(in_5, w_r10_s8, acc_p1_c3);
            acc_p1_c0 = fmaf(in_3, w_r10_s9, acc_p1_c0); acc_p1_c1 = fmaf(in_4, w_r10_s9, acc_p1_c1);
            acc_p1_c2 = fmaf(in_5, w_r10_s9, acc_p1_c2); acc_p1_c3 = fmaf(in_6, w_r10_s9, acc_p1_c3);
            acc_p1_c0 = fmaf(in_4, w_r10_s10, acc_p1_c0); acc_p1_c1 = fmaf(in_5, w_r10_s10, acc_p1_c1);
            acc_p1_c2 = fmaf(in_6, w_r10_s10, acc_p1_c2); acc_p1_c3 = fmaf(in_7, w_r10_s10, acc_p1_c3);
            acc_p1_c0 = fmaf(in_5, w_r10_s11, acc_p1_c0); acc_p1_c1 = fmaf(in_6, w_r10_s11, acc_p1_c1);
            acc_p1_c2 = fmaf(in_7, w_r10_s11, acc_p1_c2); acc_p1_c3 = fmaf(in_8, w_r10_s11, acc_p1_c3);
            acc_p1_c0 = fmaf(in_6, w_r10_s12, acc_p1_c0); acc_p1_c1 = fmaf(in_7, w_r10_s12, acc_p1_c1);
            acc_p1_c2 = fmaf(in_8, w_r10_s12, acc_p1_c2); acc_p1_c3 = fmaf(in_9, w_r10_s12, acc_p1_c3);
            // filter row 9
            acc_p2_c0 = fmaf(in_m6, w_r9_s0, acc_p3_c0); acc_p2_c1 = fmaf(in_m5, w_r9_s0, acc_p3_c1);
            acc_p2_c2 = fmaf(in_m4, w_r9_s0, acc_p3_c2); acc_p2_c3 = fmaf(in_m3, w_r9_s0, acc_p3_c3);
            acc_p2_c0 = fmaf(in_m5, w_r9_s1, acc_p2_c0); acc_p2_c1 = fmaf(in_m4, w_r9_s1, acc_p2_c1);
            acc_p2_c2 = fmaf(in_m3, w_r9_s1, acc_p2_c2); acc_p2_c3 = fmaf(in_m2, w_r9_s1, acc_p2_c3);
            acc_p2_c0 = fmaf(in_m4, w_r9_s2, acc_p2_c0); acc_p2_c1 = fmaf(in_m3, w_r9_s2, acc_p2_c1);
            acc_p2_c2 = fmaf(in_m2, w_r9_s2, acc_p2_c2); acc_p2_c3 = fmaf(in_m1, w_r9_s2, acc_p2_c3);
            acc_p2_c0 = fmaf(in_m3, w_r9_s3, acc_p2_c0); acc_p2_c1 = fmaf(in_m2, w_r9_s3, acc_p2_c1);
            acc_p2_c2 = fmaf(in_m1, w_r9_s3, acc_p2_c2); acc_p2_c3 = fmaf(in_0, w_r9_s3, acc_p2_c3);
            acc_p2_c0 = fmaf(in_m2, w_r9_s4, acc_p2_c0); acc_p2_c1 = fmaf(in_m1, w_r9_s4, acc_p2_c1);
            acc_p2_c2 = fmaf(in_0, w_r9_s4, acc_p2_c2); acc_p2_c3 = fmaf(in_1, w_r9_s4, acc_p2_c3);
            acc_p2_c0 = fmaf(in_m1, w_r9_s5, acc_p2_c0); acc_p2_c1 = fmaf(in_0, w_r9_s5, acc_p2_c1);
            acc_p2_c2 = fmaf(in_1, w_r9_s5, acc_p2_c2); acc_p2_c3 = fmaf(in_2, w_r9_s5, acc_p2_c3);
            acc_p2_c0 = fmaf(in_0, w_r9_s6, acc_p2_c0); acc_p2_c1 = fmaf(in_1, w_r9_s6, acc_p2_c1);
            acc_p2_c2 = fmaf(in_2, w_r9_s6, acc_p2_c2); acc_p2_c3 = fmaf(in_3, w_r9_s6, acc_p2_c3);
            acc_p2_c0 = fmaf(in_1, w_r9_s7, acc_p2_c0); acc_p2_c1 = fmaf(in_2, w_r9_s7, acc_p2_c1);
            acc_p2_c2 = fmaf(in_3, w_r9_s7, acc_p2_c2); acc_p2_c3 = fmaf(in_4, w_r9_s7, acc_p2_c3);
            acc_p2_c0 = fmaf(in_2, w_r9_s8, acc_p2_c0); acc_p2_c1 = fmaf(in_3, w_r9_s8, acc_p2_c1);
            acc_p2_c2 = fmaf(in_4, w_r9_s8, acc_p2_c2); acc_p2_c3 = fmaf(in_5, w_r9_s8, acc_p2_c3);
            acc_p2_c0 = fmaf(in_3, w_r9_s9, acc_p2_c0); acc_p2_c1 = fmaf(in_4, w_r9_s9, acc_p2_c1);
            acc_p2_c2 = fmaf(in_5, w_r9_s9, acc_p2_c2); acc_p2_c3 = fmaf(in_6, w_r9_s9, acc_p2_c3);
            acc_p2_c0 = fmaf(in_4, w_r9_s10, acc_p2_c0); acc_p2_c1 = fmaf(in_5, w_r9_s10, acc_p2_c1);
            acc_p2_c2 = fmaf(in_6, w_r9_s10, acc_p2_c2); acc_p2_c3 = fmaf(in_7, w_r9_s10, acc_p2_c3);
            acc_p2_c0 = fmaf(in_5, w_r9_s11, acc_p2_c0); acc_p2_c1 = fmaf(in_6, w_r9_s11, acc_p2_c1);
            acc_p2_c2 = fmaf(in_7, w_r9_s11, acc_p2_c2); acc_p2_c3 = fmaf(in_8, w_r9_s11, acc_p2_c3);
            acc_p2_c0 = fmaf(in_6, w_r9_s12, acc_p2_c0); acc_p2_c1 = fmaf(in_7, w_r9_s12, acc_p2_c1);
            acc_p2_c2 = fmaf(in_8, w_r9_s12, acc_p2_c2); acc_p2_c3 = fmaf(in_9, w_r9_s12, acc_p2_c3);
        } else {
            acc_p1_c0 = acc_p2_c0; acc_p1_c1 = acc_p2_c1; acc_p1_c2 = acc_p2_c2; acc_p1_c3 = acc_p2_c3;
            acc_p2_c0 = acc_p3_c0; acc_p2_c1 = acc_p3_c1; acc_p2_c2 = acc_p3_c2; acc_p2_c3 = acc_p3_c3;
        }
        if (8 >= a_first && 7 < a_end) {
        const float w_r8_s0 = w[104], w_r8_s1 = w[105], w_r8_s2 = w[106], w_r8_s3 = w[107], w_r8_s4 = w[108],
            w_r8_s5 = w[109], w_r8_s6 = w[110], w_r8_s7 = w[111],
                        w_r8_s8 = w[112], w_r8_s9 = w[113], w_r8_s10 = w[114], w_r8_s11 = w[115], w_r8_s12 = w[116];
            const float w_r7_s0 = w[91], w_r7_s1 = w[92], w_r7_s2 = w[93], w_r7_s3 = w[94], w_r7_s4 = w[95],
                w_r7_s5 = w[96], w_r7_s6 = w[97], w_r7_s7 = w[98],
                        w_r7_s8 = w[99], w_r7_s9 = w[100], w_r7_s10 = w[101], w_r7_s11 = w[102], w_r7_s12 = w[103];
            wc_read_again();
            // filter row 8
            acc_p3_c0 = fmaf(in_m6, w_r8_s0, acc_p4_c0); acc_p3_c1 = fmaf(in_m5, w_r8_s0, acc_p4_c1);
            acc_p3_c2 = fmaf(in_m4, w_r8_s0, acc_p4_c2); acc_p3_c3 = fmaf(in_m3, w_r8_s0, acc_p4_c3);
            acc_p3_c0 = fmaf(in_m5, w_r8_s1, acc_p3_c0); acc_p3_c1 = fmaf(in_m4, w_r8_s1, acc_p3_c1);
            acc_p3_c2 = fmaf(in_m3, w_r8_s1, acc_p3_c2); acc_p3_c3 = fmaf(in_m2, w_r8_s1, acc_p3_c3);
            acc_p3_c0 = fmaf(in_m4, w_r8_s2, acc_p3_c0); acc_p3_c1 = fmaf(in_m3, w_r8_s2, acc_p3_c1);
            acc_p3_c2 = fmaf(in_m2, w_r8_s2, acc_p3_c2); acc_p3_c3 = fmaf(in_m1, w_r8_s2, acc_p3_c3);
            acc_p3_c0 = fmaf(in_m3, w_r8_s3, acc_p3_c0); acc_p3_c1 = fmaf(in_m2, w_r8_s3, acc_p3_c1);
            acc_p3_c2 = fmaf(in_m1, w_r8_s3, acc_p3_c2); acc_p3_c3 = fmaf(in_0, w_r8_s3, acc_p3_c3);
            acc_p3_c0 = fmaf(in_m2, w_r8_s4, acc_p3_c0); acc_p3_c1 = fmaf(in_m1, w_r8_s4, acc_p3_c1);
            acc_p3_c2 = fmaf(in_0, w_r8_s4, acc_p3_c2); acc_p3_c3 = fmaf(in_1, w_r8_s4, acc_p3_c3);
            acc_p3_c0 = fmaf(in_m1, w_r8_s5, acc_p3_c0); acc_p3_c1 = fmaf(in_0, w_r8_s5, acc_p3_c1);
            acc_p3_c2 = fmaf(in_1, w_r8_s5, acc_p3_c2); acc_p3_c3 = fmaf(in_2, w_r8_s5, acc_p3_c3);
            acc_p3_c0 = fmaf(in_0, w_r8_s6, acc_p3_c0); acc_p3_c1 = fmaf(in_1, w_r8_s6, acc_p3_c1);
            acc_p3_c2 = fmaf(in_2, w_r8_s6, acc_p3_c2); acc_p3_c3 = fmaf(in_3, w_r8_s6, acc_p3_c3);
            acc_p3_c0 = fmaf(in_1, w_r8_s7, acc_p3_c0); acc_p3_c1 = fmaf(in_2, w_r8_s7, acc_p3_c1);
            acc_p3_c2 = fmaf(in_3, w_r8_s7, acc_p3_c2); acc_p3_c3 = fmaf(in_4, w_r8_s7, acc_p3_c3);
            acc_p3_c0 = fmaf(in_2, w_r8_s8, acc_p3_c0); acc_p3_c1 = fmaf(in_3, w_r8_s8, acc_p3_c1);
            acc_p3_c2 = fmaf(in_4, w_r8_s8, acc_p3_c2); acc_p3_c3 = fmaf(in_5, w_r8_s8, acc_p3_c3);
            acc_p3_c0 = fmaf(in_3, w_r8_s9, acc_p3_c0); acc_p3_c1 = fmaf(in_4, w_r8_s9, acc_p3_c1);
            acc_p3_c2 = fmaf(in_5, w_r8_s9, acc_p3_c2); acc_p3_c3 = fmaf(in_6, w_r8_s9, acc_p3_c3);
            acc_p3_c0 = fmaf(in_4, w_r8_s10, acc_p3_c0); acc_p3_c1 = fmaf(in_5, w_r8_s10, acc_p3_c1);
            acc_p3_c2 = fmaf(in_6, w_r8_s10, acc_p3_c2); acc_p3_c3 = fmaf(in_7, w_r8_s10, acc_p3_c3);
            acc_p3_c0 = fmaf(in_5, w_r8_s11, acc_p3_c0); acc_p3_c1 = fmaf(in_6, w_r8_s11, acc_p3_c1);
            acc_p3_c2 = fmaf(in_7, w_r8_s11, acc_p3_c2); acc_p3_c3 = fmaf(in_8, w_r8_s11, acc_p3_c3);
            acc_p3_c0 = fmaf(in_6, w_r8_s12, acc_p3_c0); acc_p3_c1 = fmaf(in_7, w_r8_s12, acc_p3_c1);
            acc_p3_c2 = fmaf(in_8, w_r8_s12, acc_p3_c2); acc_p3_c3 = fmaf(in_9, w_r8_s12, acc_p3_c3);
            // filter row 7
            acc_p4_c0 = fmaf(in_m6, w_r7_s0, acc_p5_c0); acc_p4_c1 = fmaf(in_m5, w_r7_s0, acc_p5_c1);
            acc_p4_c2 = fmaf(in_m4, w_r7_s0, acc_p5_c2); acc_p4_c3 = fmaf(in_m3, w_r7_s0, acc_p5_c3);
            acc_p4_c0 = fmaf(in_m5, w_r7_s1, acc_p4_c0); acc_p4_c1 = fmaf(in_m4, w_r7_s1, acc_p4_c1);
            acc_p4_c2 = fmaf(in_m3, w_r7_s1, acc_p4_c2); acc_p4_c3 = fmaf(in_m2, w_r7_s1, acc_p4_c3);
            acc_p4_c0 = fmaf(in_m4, w_r7_s2, acc_p4_c0); acc_p4_c1 = fmaf(in_m3, w_r7_s2, acc_p4_c1);
            acc_p4_c2 = fmaf(in_m2, w_r7_s2, acc_p4_c2); acc_p4_c3 = fmaf(in_m1, w_r7_s2, acc_p4_c3);
            acc_p4_c0 = fmaf(in_m3, w_r7_s3, acc_p4_c0); acc_p4_c1 = fmaf(in_m2, w_r7_s3, acc_p4_c1);
            acc_p4_c2 = fmaf(in_m1, w_r7_s3, acc_p4_c2); acc_p4_c3 = fmaf(in_0, w_r7_s3, acc_p4_c3);
            acc_p4_c0 = fmaf(in_m2, w_r7_s4, acc_p4_c0); acc_p4_c1 = fmaf(in_m1, w_r7_s4, acc_p4_c1);
            acc_p4_c2 = fmaf(in_0, w_r7_s4, acc_p4_c2); acc_p4_c3 = fmaf(in_1, w_r7_s4, acc_p4_c3);
            acc_p4_c0 = fmaf(in_m1, w_r7_s5, acc_p4_c0); acc_p4_c1 = fmaf(in_0, w_r7_s5, acc_p4_c1);
            acc_p4_c2 = fmaf(in_1, w_r7_s5, acc_p4_c2); acc_p4_c3 = fmaf(in_2, w_r7_s5, acc_p4_c3);
            acc_p4_c0 = fmaf(in_0, w_r7_s6, acc_p4_c0); acc_p4_c1 = fmaf(in_1, w_r7_s6, acc_p4_c1);
            acc_p4_c2 = fmaf(in_2, w_r7_s6, acc_p4_c2); acc_p4_c3 = fmaf(in_3, w_r7_s6, acc_p4_c3);
            acc_p4_c0 = fmaf(in_1, w_r7_s7, acc_p4_c0); acc_p4_c1 = fmaf(in_2, w_r7_s7, acc_p4_c1);
            acc_p4_c2 = fmaf(in_3, w_r7_s7, acc_p4_c2); acc_p4_c3 = fmaf(in_4, w_r7_s7, acc_p4_c3);
            acc_p4_c0 = fmaf(in_2, w_r7_s8, acc_p4_c0); acc_p4_c1 = fmaf(in_3, w_r7_s8, acc_p4_c1);
            acc_p4_c2 = fmaf(in_4, w_r7_s8, acc_p4_c2); acc_p4_c3 = fmaf(in_5, w_r7_s8, acc_p4_c3);
            acc_p4_c0 = fmaf(in_3, w_r7_s9, acc_p4_c0); acc_p4_c1 = fmaf(in_4, w_r7_s9, acc_p4_c1);
            acc_p4_c2 = fmaf(in_5, w_r7_s9, acc_p4_c2); acc_p4_c3 = fmaf(in_6, w_r7_s9, acc_p4_c3);
            acc_p4_c0 = fmaf(in_4, w_r7_s10, acc_p4_c0); acc_p4_c1 = fmaf(in_5, w_r7_s10, acc_p4_c1);
            acc_p4_c2 = fmaf(in_6, w_r7_s10, acc_p4_c2); acc_p4_c3 = fmaf(in_7, w_r7_s10, acc_p4_c3);
            acc_p4_c0 = fmaf(in_5, w_r7_s11, acc_p4_c0); acc_p4_c1 = fmaf(in_6, w_r7_s11, acc_p4_c1);
            acc_p4_c2 = fmaf(in_7, w_r7_s11, acc_p4_c2); acc_p4_c3 = fmaf(in_8, w_r7_s11, acc_p4_c3);
            acc_p4_c0 = fmaf(in_6, w_r7_s12, acc_p4_c0); acc_p4_c1 = fmaf(in_7, w_r7_s12, acc_p4_c1);
            acc_p4_c2 = fmaf(in_8, w_r7_s12, acc_p4_c2); acc_p4_c3 = fmaf(in_9, w_r7_s12, acc_p4_c3);
        } else {
            acc_p3_c0 = acc_p4_c0; acc_p3_c1 = acc_p4_c1; acc_p3_c2 = acc_p4_c2; acc_p3_c3 = acc_p4_c3;
            acc_p4_c0 = acc_p5_c0; acc_p4_c1 = acc_p5_c1; acc_p4_c2 = acc_p5_c2; acc_p4_c3 = acc_p5_c3;
        }
        if (6 >= a_first && 5 < a_end) {
        const float w_r6_s0 = w[78], w_r6_s1 = w[79], w_r6_s2 = w[80], w_r6_s3 = w[81], w_r6_s4 = w[82],
            w_r6_s5 = w[83], w_r6_s6 = w[84], w_r6_s7 = w[85],
                        w_r6_s8 = w[86], w_r6_s9 = w[87], w_r6_s10 = w[88], w_r6_s11 = w[89], w_r6_s12 = w[90];
            const float w_r5_s0 = w[65], w_r5_s1 = w[66], w_r5_s2 = w[67], w_r5_s3 = w[68], w_r5_s4 = w[69],
                w_r5_s5 = w[70], w_r5_s6 = w[71], w_r5_s7 = w[72],
                        w_r5_s8 = w[73], w_r5_s9 = w[74], w_r5_s10 = w[75], w_r5_s11 = w[76], w_r5_s12 = w[77];
            wc_read_again();
            // filter row 6
            acc_p5_c0 = fmaf(in_m6, w_r6_s0, acc_p6_c0); acc_p5_c1 = fmaf(in_m5, w_r6_s0, acc_p6_c1);
            acc_p5_c2 = fmaf(in_m4, w_r6_s0, acc_p6_c2); acc_p5_c3 = fmaf(in_m3, w_r6_s0, acc_p6_c3);
            acc_p5_c0 = fmaf(in_m5, w_r6_s1, acc_p5_c0); acc_p5_c1 = fmaf(in_m4, w_r6_s1, acc_p5_c1);
            acc_p5_c2 = fmaf(in_m3, w_r6_s1, acc_p5_c2); acc_p5_c3 = fmaf(in_m2, w_r6_s1, acc_p5_c3);
            acc_p5_c0 = fmaf(in_m4, w_r6_s2, acc_p5_c0); acc_p5_c1 = fmaf(in_m3, w_r6_s2, acc_p5_c1);
            acc_p5_c2 = fmaf(in_m2, w_r6_s2, acc_p5_c2); acc_p5_c3 = fmaf(in_m1, w_r6_s2, acc_p5_c3);
            acc_p5_c0 = fmaf(in_m3, w_r6_s3, acc_p5_c0); acc_p5_c1 = fmaf(in_m2, w_r6_s3, acc_p5_c1);
            acc_p5_c2 = fmaf(in_m1, w_r6_s3, acc_p5_c2); acc_p5_c3 = fmaf(in_0, w_r6_s3, acc_p5_c3);
            acc_p5_c0 = fmaf(in_m2, w_r6_s4, acc_p5_c0); acc_p5_c1 = fmaf(in_m1, w_r6_s4, acc_p5_c1);
            acc_p5_c2 = fmaf(in_0, w_r6_s4, acc_p5_c2); acc_p5_c3 = fmaf(in_1, w_r6_s4, acc_p5_c3);
            acc_p5_c0 = fmaf(in_m1, w_r6_s5, acc_p5_c0); acc_p5_c1 = fmaf(in_0, w_r6_s5, acc_p5_c1);
            acc_p5_c2 = fmaf(in_1, w_r6_s5, acc_p5_c2); acc_p5_c3 = fmaf(in_2, w_r6_s5, acc_p5_c3);
            acc_p5_c0 = fmaf(in_0, w_r6_s6, acc_p5_c0); acc_p5_c1 = fmaf(in_1, w_r6_s6, acc_p5_c1);
            acc_p5_c2 = fmaf(in_2, w_r6_s6, acc_p5_c2); acc_p5_c3 = fmaf(in_3, w_r6_s6, acc_p5_c3);
            acc_p5_c0 = fmaf(in_1, w_r6_s7, acc_p5_c0); acc_p5_c1 = fmaf(in_2, w_r6_s7, acc_p5_c1);
            acc_p5_c2 = fmaf(in_3, w_r6_s7, acc_p5_c2); acc_p5_c3 = fmaf(in_4, w_r6_s7, acc_p5_c3);
            acc_p5_c0 = fmaf(in_2, w_r6_s8, acc_p5_c0); acc_p5_c1 = fmaf(in_3, w_r6_s8, acc_p5_c1);
            acc_p5_c2 = fmaf(in_4, w_r6_s8, acc_p5_c2); acc_p5_c3 = fmaf(in_5, w_r6_s8, acc_p5_c3);
            acc_p5_c0 = fmaf(in_3, w_r6_s9, acc_p5_c0); acc_p5_c1 = fmaf(in_4, w_r6_s9, acc_p5_c1);
            acc_p5_c2 = fmaf(in_5, w_r6_s9, acc_p5_c2); acc_p5_c3 = fmaf(in_6, w_r6_s9, acc_p5_c3);
            acc_p5_c0 = fmaf(in_4, w_r6_s10, acc_p5_c0); acc_p5_c1 = fmaf(in_5, w_r6_s10, acc_p5_c1);
            acc_p5_c2 = fmaf(in_6, w_r6_s10, acc_p5_c2); acc_p5_c3 = fmaf(in_7, w_r6_s10, acc_p5_c3);
            acc_p5_c0 = fmaf(in_5, w_r6_s11, acc_p5_c0); acc_p5_c1 = fmaf(in_6, w_r6_s11, acc_p5_c1);
            acc_p5_c2 = fmaf(in_7, w_r6_s11, acc_p5_c2); acc_p5_c3 = fmaf(in_8, w_r6_s11, acc_p5_c3);
            acc_p5_c0 = fmaf(in_6, w_r6_s12, acc_p5_c0); acc_p5_c1 = fmaf(in_7, w_r6_s12, acc_p5_c1);
            acc_p5_c2 = fmaf(in_8, w_r6_s12, acc_p5_c2); acc_p5_c3 = fmaf(in_9, w_r6_s12, acc_p5_c3);
            // filter row 5
            acc_p6_c0 = fmaf(in_m6, w_r5_s0, acc_p7_c0); acc_p6_c1 = fmaf(in_m5, w_r5_s0, acc_p7_c1);
            acc_p6_c2 = fmaf(in_m4, w_r5_s0, acc_p7_c2); acc_p6_c3 = fmaf(in_m3, w_r5_s0, acc_p7_c3);
            acc_p6_c0 = fmaf(in_m5, w_r5_s1, acc_p6_c0); acc_p6_c1 = fmaf(in_m4, w_r5_s1, acc_p6_c1);
            acc_p6_c2 = fmaf(in_m3, w_r5_s1, acc_p6_c2); acc_p6_c3 = fmaf(in_m2, w_r5_s1, acc_p6_c3);
            acc_p6_c0 = fmaf(in_m4, w_r5_s2, acc_p6_c0); acc_p6_c1 = fmaf(in_m3, w_r5_s2, acc_p6_c1);
            acc_p6_c2 = fmaf(in_m2, w_r5_s2, acc_p6_c2); acc_p6_c3 = fmaf(in_m1, w_r5_s2, acc_p6_c3);
            acc_p6_c0 = fmaf(in_m3, w_r5_s3, acc_p6_c0); acc_p6_c1 = fmaf(in_m2, w_r5_s3, acc_p6_c1);
            acc_p6_c2 = fmaf(in_m1, w_r5_s3, acc_p6_c2); acc_p6_c3 = fmaf(in_0, w_r5_s3, acc_p6_c3);
            acc_p6_c0 = fmaf(in_m2, w_r5_s4, acc_p6_c0); acc_p6_c1 = fmaf(in_m1, w_r5_s4, acc_p6_c1);
            acc_p6_c2 = fmaf(in_0, w_r5_s4, acc_p6_c2); acc_p6_c3 = fmaf(in_1, w_r5_s4, acc_p6_c3);
            acc_p6_c0 = fmaf(in_m1, w_r5_s5, acc_p6_c0); acc_p6_c1 = fmaf(in_0, w_r5_s5, acc_p6_c1);
            acc_p6_c2 = fmaf(in_1, w_r5_s5, acc_p6_c2); acc_p6_c3 = fmaf(in_2, w_r5_s5, acc_p6_c3);
            acc_p6_c0 = fmaf(in_0, w_r5_s6, acc_p6_c0); acc_p6_c1 = fmaf(in_1, w_r5_s6, acc_p6_c1);
            acc_p6_c2 = fmaf(in_2, w_r5_s6, acc_p6_c2); acc_p6_c3 = fmaf(in_3, w_r5_s6, acc_p6_c3);
            acc_p6_c0 = fmaf(in_1, w_r5_s7, acc_p6_c0); acc_p6_c1 = fmaf(in_2, w_r5_s7, acc_p6_c1);
            acc_p6_c2 = fmaf(in_3, w_r5_s7, acc_p6_c2); acc_p6_c3 = fmaf(in_4, w_r5_s7, acc_p6_c3);
            acc_p6_c0 = fmaf(in_2, w_r5_s8, acc_p6_c0); acc_p6_c1 = fmaf(in_3, w_r5_s8, acc_p6_c1);
            acc_p6_c2 = fmaf(in_4, w_r5_s8, acc_p6_c2); acc_p6_c3 = fmaf(in_5, w_r5_s8, acc_p6_c3);
            acc_p6_c0 = fmaf(in_3, w_r5_s9, acc_p6_c0); acc_p6_c1 = fmaf(in_4, w_r5_s9, acc_p6_c1);
            acc_p6_c2 = fmaf(in_5, w_r5_s9, acc_p6_c2); acc_p6_c3 = fmaf(in_6, w_r5_s9, acc_p6_c3);
            acc_p6_c0 = fmaf(in_4, w_r5_s10, acc_p6_c0); acc_p6_c1 = fmaf(in_5, w_r5_s10, acc_p6_c1);
            acc_p6_c2 = fmaf(in_6, w_r5_s10, acc_p6_c2); acc_p6_c3 = fmaf(in_7, w_r5_s10, acc_p6_c3);
            acc_p6_c0 = fmaf(in_5, w_r5_s11, acc_p6_c0); acc_p6_c1 = fmaf(in_6, w_r5_s11, acc_p6_c1);
            acc_p6_c2 = fmaf(in_7, w_r5_s11, acc_p6_c2); acc_p6_c3 = fmaf(in_8, w_r5_s11, acc_p6_c3);
            acc_p6_c0 = fmaf(in_6, w_r5_s12, acc_p6_c0); acc_p6_c1 = fmaf(in_7, w_r5_s12, acc_p6_c1);
            acc_p6_c2 = fmaf(in_8, w_r5_s12, acc_p6_c2); acc_p6_c3 = fmaf(in_9, w_r5_s12, acc_p6_c3);
        } else {
            acc_p5_c0 = acc_p6_c0; acc_p5_c1 = acc_p6_c1; acc_p5_c2 = acc_p6_c2; acc_p5_c3 = acc_p6_c3;
            acc_p6_c0 = acc_p7_c0; acc_p6_c1 = acc_p7_c1; acc_p6_c2 = acc_p7_c2; acc_p6_c3 = acc_p7_c3;
        }
        if (4 >= a_first && 3 < a_end) {
        const float w_r4_s0 = w[52], w_r4_s1 = w[53], w_r4_s2 = w[54], w_r4_s3 = w[55], w_r4_s4 = w[56],
            w_r4_s5 = w[57], w_r4_s6 = w[58], w_r4_s7 = w[59],
                        w_r4_s8 = w[60], w_r4_s9 = w[61], w_r4_s10 = w[62], w_r4_s11 = w[63], w_r4_s12 = w[64];
            const float w_r3_s0 = w[39], w_r3_s1 = w[40], w_r3_s2 = w[41], w_r3_s3 = w[42], w_r3_s4 = w[43],
                w_r3_s5 = w[44], w_r3_s6 = w[45], w_r3_s7 = w[46],
                        w_r3_s8 = w[47], w_r3_s9 = w[48], w_r3_s10 = w[49], w_r3_s11 = w[50], w_r3_s12 = w[51];
            wc_read_again();
            // filter row 4
            acc_p7_c0 = fmaf(in_m6, w_r4_s0, acc_p8_c0); acc_p7_c1 = fmaf(in_m5, w_r4_s0, acc_p8_c1);
            acc_p7_c2 = fmaf(in_m4, w_r4_s0, acc_p8_c2); acc_p7_c3 = fmaf(in_m3, w_r4_s0, acc_p8_c3);
            acc_p7_c0 = fmaf(in_m5, w_r4_s1, acc_p7_c0); acc_p7_c1 = fmaf(in_m4, w_r4_s1, acc_p7_c1);
            acc_p7_c2 = fmaf(in_m3, w_r4_s1, acc_p7_c2); acc_p7_c3 = fmaf(in_m2, w_r4_s1, acc_p7_c3);
            acc_p7_c0 = fmaf(in_m4, w_r4_s2, acc_p7_c0); acc_p7_c1 = fmaf(in_m3, w_r4_s2, acc_p7_c1);
            acc_p7_c2 = fmaf(in_m2, w_r4_s2, acc_p7_c2); acc_p7_c3 = fmaf(in_m1, w_r4_s2, acc_p7_c3);
            acc_p7_c0 = fmaf(in_m3, w_r4_s3, acc_p7_c0); acc_p7_c1 = fmaf(in_m2, w_r4_s3, acc_p7_c1);
            acc_p7_c2 = fmaf(in_m1, w_r4_s3, acc_p7_c2); acc_p7_c3 = fmaf(in_0, w_r4_s3, acc_p7_c3);
            acc_p7_c0 = fmaf(in_m2, w_r4_s4, acc_p7_c0); acc_p7_c1 = fmaf(in_m1, w_r4_s4, acc_p7_c1);
            acc_p7_c2 = fmaf(in_0, w_r4_s4, acc_p7_c2); acc_p7_c3 = fmaf(in_1, w_r4_s4, acc_p7_c3);
            acc_p7_c0 = fmaf(in_m1, w_r4_s5, acc_p7_c0); acc_p7_c1 = fmaf(in_0, w_r4_s5, acc_p7_c1);
            acc_p7_c2 = fmaf(in_1, w_r4_s5, acc_p7_c2); acc_p7_c3 = fmaf(in_2, w_r4_s5, acc_p7_c3);
            acc_p7_c0 = fmaf(in_0, w_r4_s6, acc_p7_c0); acc_p7_c1 = fmaf(in_1, w_r4_s6, acc_p7_c1);
            acc_p7_c2 = fmaf(in_2, w_r4_s6, acc_p7_c2); acc_p7_c3 = fmaf(in_3, w_r4_s6, acc_p7_c3);
            acc_p7_c0 = fmaf(in_1, w_r4_s7, acc_p7_c0); acc_p7_c1 = fmaf(in_2, w_r4_s7, acc_p7_c1);
            acc_p7_c2 = fmaf(in_3, w_r4_s7, acc_p7_c2); acc_p7_c3 = fmaf(in_4, w_r4_s7, acc_p7_c3);
            acc_p7_c0 = fmaf(in_2, w_r4_s8, acc_p7_c0); acc_p7_c1 = fmaf(in_3, w_r4_s8, acc_p7_c1);
            acc_p7_c2 = fmaf(in_4, w_r4_s8, acc_p7_c2); acc_p7_c3 = fmaf(in_5, w_r4_s8, acc_p7_c3);
            acc_p7_c0 = fmaf(in_3, w_r4_s9, acc_p7_c0); acc_p7_c1 = fmaf(in_4, w_r4_s9, acc_p7_c1);
            acc_p7_c2 = fmaf(in_5, w_r4_s9, acc_p7_c2); acc_p7_c3 = fmaf(in_6, w_r4_s9, acc_p7_c3);
            acc_p7_c0 = fmaf(in_4, w_r4_s10, acc_p7_c0); acc_p7_c1 = fmaf(in_5, w_r4_s10, acc_p7_c1);
            acc_p7_c2 = fmaf(in_6, w_r4_s10, acc_p7_c2); acc_p7_c3 = fmaf(in_7, w_r4_s10, acc_p7_c3);
            acc_p7_c0 = fmaf(in_5, w_r4_s11, acc_p7_c0); acc_p7_c1 = fmaf(in_6, w_r4_s11, acc_p7_c1);
            acc_p7_c2 = fmaf(in_7, w_r4_s11, acc_p7_c2); acc_p7_c3 = fmaf(in_8, w_r4_s11, acc_p7_c3);
            acc_p7_c0 = fmaf(in_6, w_r4_s12, acc_p7_c0); acc_p7_c1 = fmaf(in_7, w_r4_s12, acc_p7_c1);
            acc_p7_c2 = fmaf(in_8, w_r4_s12, acc_p7_c2); acc_p7_c3 = fmaf(in_9, w_r4_s12, acc_p7_c3);
            // filter row 3
            acc_p8_c0 = fmaf(in_m6, w_r3_s0, acc_p9_c0); acc_p8_c1 = fmaf(in_m5, w_r3_s0, acc_p9_c1);
            acc_p8_c2 = fmaf(in_m4, w_r3_s0, acc_p9_c2); acc_p8_c3 = fmaf(in_m3, w_r3_s0, acc_p9_c3);
            acc_p8_c0 = fmaf(in_m5, w_r3_s1, acc_p8_c0); acc_p8_c1 = fmaf(in_m4, w_r3_s1, acc_p8_c1);
            acc_p8_c2 = fmaf(in_m3, w_r3_s1, acc_p8_c2); acc_p8_c3 = fmaf(in_m2, w_r3_s1, acc_p8_c3);
            acc_p8_c0 = fmaf(in_m4, w_r3_s2, acc_p8_c0); acc_p8_c1 = fmaf(in_m3, w_r3_s2, acc_p8_c1);
            acc_p8_c2 = fmaf(in_m2, w_r3_s2, acc_p8_c2); acc_p8_c3 = fmaf(in_m1, w_r3_s2, acc_p8_c3);
            acc_p8_c0 = fmaf(in_m3, w_r3_s3, acc_p8_c0); acc_p8_c1 = fmaf(in_m2, w_r3_s3, acc_p8_c1);
            acc_p8_c2 = fmaf(in_m1, w_r3_s3, acc_p8_c2); acc_p8_c3 = fmaf(in_0, w_r3_s3, acc_p8_c3);
            acc_p8_c0 = fmaf(in_m2, w_r3_s4, acc_p8_c0); acc_p8_c1 = fmaf(in_m1, w_r3_s4, acc_p8_c1);
            acc_p8_c2 = fmaf(in_0, w_r3_s4, acc_p8_c2); acc_p8_c3 = fmaf(in_1, w_r3_s4, acc_p8_c3);
            acc_p8_c0 = fmaf(in_m1, w_r3_s5, acc_p8_c0); acc_p8_c1 = fmaf(in_0, w_r3_s5, acc_p8_c1);
            acc_p8_c2 = fmaf(in_1, w_r3_s5, acc_p8_c2); acc_p8_c3 = fmaf(in_2, w_r3_s5, acc_p8_c3);
            acc_p8_c0 = fmaf(in_0, w_r3_s6, acc_p8_c0); acc_p8_c1 = fmaf(in_1, w_r3_s6, acc_p8_c1);
            acc_p8_c2 = fmaf(in_2, w_r3_s6, acc_p8_c2); acc_p8_c3 = fmaf(in_3, w_r3_s6, acc_p8_c3);
            acc_p8_c0 = fmaf(in_1, w_r3_s7, acc_p8_c0); acc_p8_c1 = fmaf(in_2, w_r3_s7, acc_p8_c1);
            acc_p8_c2 = fmaf(in_3, w_r3_s7, acc_p8_c2); acc_p8_c3 = fmaf(in_4, w_r3_s7, acc_p8_c3);
            acc_p8_c0 = fmaf(in_2, w_r3_s8, acc_p8_c0); acc_p8_c1 = fmaf(in_3, w_r3_s8, acc_p8_c1);
            acc_p8_c2 = fmaf(in_4, w_r3_s8, acc_p8_c2); acc_p8_c3 = fmaf(in_5, w_r3_s8, acc_p8_c3);
            acc_p8_c0 = fmaf(in_3, w_r3_s9, acc_p8_c0); acc_p8_c1 = fmaf(in_4, w_r3_s9, acc_p8_c1);
            acc_p8_c2 = fmaf(in_5, w_r3_s9, acc_p8_c2); acc_p8_c3 = fmaf(in_6, w_r3_s9, acc_p8_c3);
            acc_p8_c0 = fmaf(in_4, w_r3_s10, acc_p8_c0); acc_p8_c1 = fmaf(in_5, w_r3_s10, acc_p8_c1);
            acc_p8_c2 = fmaf(in_6, w_r3_s10, acc_p8_c2); acc_p8_c3 = fmaf(in_7, w_r3_s10, acc_p8_c3);
            acc_p8_c0 = fmaf(in_5, w_r3_s11, acc_p8_c0); acc_p8_c1 = fmaf(in_6, w_r3_s11, acc_p8_c1);
            acc_p8_c2 = fmaf(in_7, w_r3_s11, acc_p8_c2); acc_p8_c3 = fmaf(in_8, w_r3_s11, acc_p8_c3);
            acc_p8_c0 = fmaf(in_6, w_r3_s12, acc_p8_c0); acc_p8_c1 = fmaf(in_7, w_r3_s12, acc_p8_c1);
            acc_p8_c2 = fmaf(in_8, w_r3_s12, acc_p8_c2); acc_p8_c3 = fmaf(in_9, w_r3_s12, acc_p8_c3);
        } else {
            acc_p7_c0 = acc_p8_c0; acc_p7_c1 = acc_p8_c1; acc_p7_c2 = acc_p8_c2; acc_p7_c3 = acc_p8_c3;
            acc_p8_c0 = acc_p9_c0; acc_p8_c1 = acc_p9_c1; acc_p8_c2 = acc_p9_c2; acc_p8_c3 = acc_p9_c3;
        }
        if (2 >= a_first && 1 < a_end) {
        const float w_r2_s0 = w[26], w_r2_s1 = w[27], w_r2_s2 = w[28], w_r2_s3 = w[29], w_r2_s4 = w[30],
            w_r2_s5 = w[31], w_r2_s6 = w[32], w_r2_s7 = w[33],
                        w_r2_s8 = w[34], w_r2_s9 = w[35], w_r2_s10 = w[36], w_r2_s11 = w[37], w_r2_s12 = w[38];
            const float w_r1_s0 = w[13], w_r1_s1 = w[14], w_r1_s2 = w[15], w_r1_s3 = w[16], w_r1_s4 = w[17],
                w_r1_s5 = w[18], w_r1_s6 = w[19], w_r1_s7 = w[20],
                        w_r1_s8 = w[21], w_r1_s9 = w[22], w_r1_s10 = w[23], w_r1_s11 = w[24], w_r1_s12 = w[25];
            wc_read_again();
            // filter row 2
            acc_p9_c0 = fmaf(in_m6, w_r2_s0, acc_p10_c0); acc_p9_c1 = fmaf(in_m5, w_r2_s0, acc_p10_c1);
            acc_p9_c2 = fmaf(in_m4, w_r2_s0, acc_p10_c2); acc_p9_c3 = fmaf(in_m3, w_r2_s0, acc_p10_c3);
            acc_p9_c0 = fmaf(in_m5, w_r2_s1, acc_p9_c0); acc_p9_c1 = fmaf(in_m4, w_r2_s1, acc_p9_c1);
            acc_p9_c2 = fmaf(in_m3, w_r2_s1, acc_p9_c2); acc_p9_c3 = fmaf(in_m2, w_r2_s1, acc_p9_c3);
            acc_p9_c0 = fmaf(in_m4, w_r2_s2, acc_p9_c0); acc_p9_c1 = fmaf(in_m3, w_r2_s2, acc_p9_c1);
            acc_p9_c2 = fmaf(in_m2, w_r2_s2, acc_p9_c2); acc_p9_c3 = fmaf(in_m1, w_r2_s2, acc_p9_c3);
            acc_p9_c0 = fmaf(in_m3, w_r2_s3, acc_p9_c0); acc_p9_c1 = fmaf(in_m2, w_r2_s3, acc_p9_c1);
            acc_p9_c2 = fmaf(in_m1, w_r2_s3, acc_p9_c2); acc_p9_c3 = fmaf(in_0, w_r2_s3, acc_p9_c3);
            acc_p9_c0 = fmaf(in_m2, w_r2_s4, acc_p9_c0); acc_p9_c1 = fmaf(in_m1, w_r2_s4, acc_p9_c1);
            acc_p9_c2 = fmaf(in_0, w_r2_s4, acc_p9_c2); acc_p9_c3 = fmaf(in_1, w_r2_s4, acc_p9_c3);
            acc_p9_c0 = fmaf(in_m1, w_r2_s5, acc_p9_c0); acc_p9_c1 = fmaf(in_0, w_r2_s5, acc_p9_c1);
            acc_p9_c2 = fmaf(in_1, w_r2_s5, acc_p9_c2); acc_p9_c3 = fmaf(in_2, w_r2_s5, acc_p9_c3);
            acc_p9_c0 = fmaf(in_0, w_r2_s6, acc_p9_c0); acc_p9_c1 = fmaf(in_1, w_r2_s6, acc_p9_c1);
            acc_p9_c2 = fmaf(in_2, w_r2_s6, acc_p9_c2); acc_p9_c3 = fmaf(in_3, w_r2_s6, acc_p9_c3);
            acc_p9_c0 = fmaf(in_1, w_r2_s7, acc_p9_c0); acc_p9_c1 = fmaf(in_2, w_r2_s7, acc_p9_c1);
            acc_p9_c2 = fmaf(in_3, w_r2_s7, acc_p9_c2); acc_p9_c3 = fmaf(in_4, w_r2_s7, acc_p9_c3);
            acc_p9_c0 = fmaf(in_2, w_r2_s8, acc_p9_c0); acc_p9_c1 = fmaf(in_3, w_r2_s8, acc_p9_c1);
            acc_p9_c2 = fmaf(in_4, w_r2_s8, acc_p9_c2); acc_p9_c3 = fmaf(in_5, w_r2_s8, acc_p9_c3);
            acc_p9_c0 = fmaf(in_3, w_r2_s9, acc_p9_c0); acc_p9_c1 = fmaf(in_4, w_r2_s9, acc_p9_c1);
            acc_p9_c2 = fmaf(in_5, w_r2_s9, acc_p9_c2); acc_p9_c3 = fmaf(in_6, w_r2_s9, acc_p9_c3);
            acc_p9_c0 = fmaf(in_4, w_r2_s10, acc_p9_c0); acc_p9_c1 = fmaf(in_5, w_r2_s10, acc_p9_c1);
            acc_p9_c2 = fmaf(in_6, w_r2_s10, acc_p9_c2); acc_p9_c3 = fmaf(in_7, w_r2_s10, acc_p9_c3);
            acc_p9_c0 = fmaf(in_5, w_r2_s11, acc_p9_c0); acc_p9_c1 = fmaf(in_6, w_r2_s11, acc_p9_c1);
            acc_p9_c2 = fmaf(in_7, w_r2_s11, acc_p9_c2); acc_p9_c3 = fmaf(in_8, w_r2_s11, acc_p9_c3);
            acc_p9_c0 = fmaf(in_6, w_r2_s12, acc_p9_c0); acc_p9_c1 = fmaf(in_7, w_r2_s12, acc_p9_c1);
            acc_p9_c2 = fmaf(in_8, w_r2_s12, acc_p9_c2); acc_p9_c3 = fmaf(in_9, w_r2_s12, acc_p9_c3);
            // filter row 1
            acc_p10_c0 = fmaf(in_m6, w_r1_s0, acc_p11_c0); acc_p10_c1 = fmaf(in_m5, w_r1_s0, acc_p11_c1);
            acc_p10_c2 = fmaf(in_m4, w_r1_s0, acc_p11_c2); acc_p10_c3 = fmaf(in_m3, w_r1_s0, acc_p11_c3);
            acc_p10_c0 = fmaf(in_m5, w_r1_s1, acc_p10_c0); acc_p10_c1 = fmaf(in_m4, w_r1_s1, acc_p10_c1);
            acc_p10_c2 = fmaf(in_m3, w_r1_s1, acc_p10_c2); acc_p10_c3 = fmaf(in_m2, w_r1_s1, acc_p10_c3);
            acc_p10_c0 = fmaf(in_m4, w_r1_s2, acc_p10_c0); acc_p10_c1 = fmaf(in_m3, w_r1_s2, acc_p10_c1);
            acc_p10_c2 = fmaf(in_m2, w_r1_s2, acc_p10_c2); acc_p10_c3 = fmaf(in_m1, w_r1_s2, acc_p10_c3);
            acc_p10_c0 = fmaf(in_m3, w_r1_s3, acc_p10_c0); acc_p10_c1 = fmaf(in_m2, w_r1_s3, acc_p10_c1);
            acc_p10_c2 = fmaf(in_m1, w_r1_s3, acc_p10_c2); acc_p10_c3 = fmaf(in_0, w_r1_s3, acc_p10_c3);
            acc_p10_c0 = fmaf(in_m2, w_r1_s4, acc_p10_c0); acc_p10_c1 = fmaf(in_m1, w_r1_s4, acc_p10_c1);
            acc_p10_c2 = fmaf(in_0, w_r1_s4, acc_p10_c2); acc_p10_c3 = fmaf(in_1, w_r1_s4, acc_p10_c3);
            acc_p10_c0 = fmaf(in_m1, w_r1_s5, acc_p10_c0); acc_p10_c1 = fmaf(in_0, w_r1_s5, acc_p10_c1);
            acc_p10_c2 = fmaf(in_1, w_r1_s5, acc_p10_c2); acc_p10_c3 = fmaf(in_2, w_r1_s5, acc_p10_c3);
            acc_p10_c0 = fmaf(in_0, w_r1_s6, acc_p10_c0); acc_p10_c1 = fmaf(in_1, w_r1_s6, acc_p10_c1);
            acc_p10_c2 = fmaf(in_2, w_r1_s6, acc_p10_c2); acc_p10_c3 = fmaf(in_3, w_r1_s6, acc_p10_c3);
            acc_p10_c0 = fmaf(in_1, w_r1_s7, acc_p10_c0); acc_p10_c1 = fmaf(in_2, w_r1_s7, acc_p10_c1);
            acc_p10_c2 = fmaf(in_3, w_r1_s7, acc_p10_c2); acc_p10_c3 = fmaf(in_4, w_r1_s7, acc_p10_c3);
            acc_p10_c0 = fmaf(in_2, w_r1_s8, acc_p10_c0); acc_p10_c1 = fmaf(in_3, w_r1_s8, acc_p10_c1);
            acc_p10_c2 = fmaf(in_4, w_r1_s8, acc_p10_c2); acc_p10_c3 = fmaf(in_5, w_r1_s8, acc_p10_c3);
            acc_p10_c0 = fmaf(in_3, w_r1_s9, acc_p10_c0); acc_p10_c1 = fmaf(in_4, w_r1_s9, acc_p10_c1);
            acc_p10_c2 = fmaf(in_5, w_r1_s9, acc_p10_c2); acc_p10_c3 = fmaf(in_6, w_r1_s9, acc_p10_c3);
            acc_p10_c0 = fmaf(in_4, w_r1_s10, acc_p10_c0); acc_p10_c1 = fmaf(in_5, w_r1_s10, acc_p10_c1);
            acc_p10_c2 = fmaf(in_6, w_r1_s10, acc_p10_c2); acc_p10_c3 = fmaf(in_7, w_r1_s10, acc_p10_c3);
            acc_p10_c0 = fmaf(in_5, w_r1_s11, acc_p10_c0); acc_p10_c1 = fmaf(in_6, w_r1_s11, acc_p10_c1);
            acc_p10_c2 = fmaf(in_7, w_r1_s11, acc_p10_c2); acc_p10_c3 = fmaf(in_8, w_r1_s11, acc_p10_c3);
            acc_p10_c0 = fmaf(in_6, w_r1_s12, acc_p10_c0); acc_p10_c1 = fmaf(in_7, w_r1_s12, acc_p10_c1);
            acc_p10_c2 = fmaf(in_8, w_r1_s12, acc_p10_c2); acc_p10_c3 = fmaf(in_9, w_r1_s12, acc_p10_c3);
        } else {
            acc_p9_c0 = acc_p10_c0; acc_p9_c1 = acc_p10_c1; acc_p9_c2 = acc_p10_c2; acc_p9_c3 = acc_p10_c3;
            acc_p10_c0 = acc_p11_c0; acc_p10_c1 = acc_p11_c1; acc_p10_c2 = acc_p11_c2; acc_p10_c3 = acc_p11_c3;
        }
        if (0 >= a_first && 0 < a_end) {
        const float w_r0_s0 = w[0], w_r0_s1 = w[1], w_r0_s2 = w[2], w_r0_s3 = w[3], w_r0_s4 = w[4], w_r0_s5 = w[5],
            w_r0_s6 = w[6], w_r0_s7 = w[7],
                        w_r0_s8 = w[8], w_r0_s9 = w[9], w_r0_s10 = w[10], w_r0_s11 = w[11], w_r0_s12 = w[12];
            // filter row 0
            acc_p11_c0 = in_m6 * w_r0_s0; acc_p11_c1 = in_m5 * w_r0_s0; acc_p11_c2 = in_m4 * w_r0_s0;
            acc_p11_c3 = in_m3 * w_r0_s0;
            acc_p11_c0 = fmaf(in_m5, w_r0_s1, acc_p11_c0); acc_p11_c1 = fmaf(in_m4, w_r0_s1, acc_p11_c1);
            acc_p11_c2 = fmaf(in_m3, w_r0_s1, acc_p11_c2); acc_p11_c3 = fmaf(in_m2, w_r0_s1, acc_p11_c3);
            acc_p11_c0 = fmaf(in_m4, w_r0_s2, acc_p11_c0); acc_p11_c1 = fmaf(in_m3, w_r0_s2, acc_p11_c1);
            acc_p11_c2 = fmaf(in_m2, w_r0_s2, acc_p11_c2); acc_p11_c3 = fmaf(in_m1, w_r0_s2, acc_p11_c3);
            acc_p11_c0 = fmaf(in_m3, w_r0_s3, acc_p11_c0); acc_p11_c1 = fmaf(in_m2, w_r0_s3, acc_p11_c1);
            acc_p11_c2 = fmaf(in_m1, w_r0_s3, acc_p11_c2); acc_p11_c3 = fmaf(in_0, w_r0_s3, acc_p11_c3);
            acc_p11_c0 = fmaf(in_m2, w_r0_s4, acc_p11_c0); acc_p11_c1 = fmaf(in_m1, w_r0_s4, acc_p11_c1);
            acc_p11_c2 = fmaf(in_0, w_r0_s4, acc_p11_c2); acc_p11_c3 = fmaf(in_1, w_r0_s4, acc_p11_c3);
            acc_p11_c0 = fmaf(in_m1, w_r0_s5, acc_p11_c0); acc_p11_c1 = fmaf(in_0, w_r0_s5, acc_p11_c1);
            acc_p11_c2 = fmaf(in_1, w_r0_s5, acc_p11_c2); acc_p11_c3 = fmaf(in_2, w_r0_s5, acc_p11_c3);
            acc_p11_c0 = fmaf(in_0, w_r0_s6, acc_p11_c0); acc_p11_c1 = fmaf(in_1, w_r0_s6, acc_p11_c1);
            acc_p11_c2 = fmaf(in_2, w_r0_s6, acc_p11_c2); acc_p11_c3 = fmaf(in_3, w_r0_s6, acc_p11_c3);
            acc_p11_c0 = fmaf(in_1, w_r0_s7, acc_p11_c0); acc_p11_c1 = fmaf(in_2, w_r0_s7, acc_p11_c1);
            acc_p11_c2 = fmaf(in_3, w_r0_s7, acc_p11_c2); acc_p11_c3 = fmaf(in_4, w_r0_s7, acc_p11_c3);
            acc_p11_c0 = fmaf(in_2, w_r0_s8, acc_p11_c0); acc_p11_c1 = fmaf(in_3, w_r0_s8, acc_p11_c1);
            acc_p11_c2 = fmaf(in_4, w_r0_s8, acc_p11_c2); acc_p11_c3 = fmaf(in_5, w_r0_s8, acc_p11_c3);
            acc_p11_c0 = fmaf(in_3, w_r0_s9, acc_p11_c0); acc_p11_c1 = fmaf(in_4, w_r0_s9, acc_p11_c1);
            acc_p11_c2 = fmaf(in_5, w_r0_s9, acc_p11_c2); acc_p11_c3 = fmaf(in_6, w_r0_s9, acc_p11_c3);
            acc_p11_c0 = fmaf(in_4, w_r0_s10, acc_p11_c0); acc_p11_c1 = fmaf(in_5, w_r0_s10, acc_p11_c1);
            acc_p11_c2 = fmaf(in_6, w_r0_s10, acc_p11_c2); acc_p11_c3 = fmaf(in_7, w_r0_s10, acc_p11_c3);
            acc_p11_c0 = fmaf(in_5, w_r0_s11, acc_p11_c0); acc_p11_c1 = fmaf(in_6, w_r0_s11, acc_p11_c1);
            acc_p11_c2 = fmaf(in_7, w_r0_s11, acc_p11_c2); acc_p11_c3 = fmaf(in_8, w_r0_s11, acc_p11_c3);
            acc_p11_c0 = fmaf(in_6, w_r0_s12, acc_p11_c0); acc_p11_c1 = fmaf(in_7, w_r0_s12, acc_p11_c1);
            acc_p11_c2 = fmaf(in_8, w_r0_s12, acc_p11_c2); acc_p11_c3 = fmaf(in_9, w_r0_s12, acc_p11_c3);
        } else {
            acc_p11_c0 = 0.0f; acc_p11_c1 = 0.0f; acc_p11_c2 = 0.0f; acc_p11_c3 = 0.0f;
        }
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    };

    // 1 step is loaded while the  before is used
    Row ready[STEP_ROWS], next[STEP_ROWS];
    load(ready);
#pragma unroll 1
    while (s < steps_inside) {
        if (s + PREFETCH < steps_inside) load(next);
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) step(ready, i, s + i);
        s += PREFETCH;
        if (s >= steps_inside) break;
#pragma unroll
        for (int i = 0; i < STEP_ROWS; ++i) ready[i] = next[i];
    }

    // steps below the image add nothing
#pragma unroll 1
    for (; s < steps; ++s) {
        float out_c0, out_c1, out_c2, out_c3;
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p1_c0 = acc_p2_c0; acc_p1_c1 = acc_p2_c1; acc_p1_c2 = acc_p2_c2; acc_p1_c3 = acc_p2_c3;
        acc_p2_c0 = acc_p3_c0; acc_p2_c1 = acc_p3_c1; acc_p2_c2 = acc_p3_c2; acc_p2_c3 = acc_p3_c3;
        acc_p3_c0 = acc_p4_c0; acc_p3_c1 = acc_p4_c1; acc_p3_c2 = acc_p4_c2; acc_p3_c3 = acc_p4_c3;
        acc_p4_c0 = acc_p5_c0; acc_p4_c1 = acc_p5_c1; acc_p4_c2 = acc_p5_c2; acc_p4_c3 = acc_p5_c3;
        acc_p5_c0 = acc_p6_c0; acc_p5_c1 = acc_p6_c1; acc_p5_c2 = acc_p6_c2; acc_p5_c3 = acc_p6_c3;
        acc_p6_c0 = acc_p7_c0; acc_p6_c1 = acc_p7_c1; acc_p6_c2 = acc_p7_c2; acc_p6_c3 = acc_p7_c3;
        acc_p7_c0 = acc_p8_c0; acc_p7_c1 = acc_p8_c1; acc_p7_c2 = acc_p8_c2; acc_p7_c3 = acc_p8_c3;
        acc_p8_c0 = acc_p9_c0; acc_p8_c1 = acc_p9_c1; acc_p8_c2 = acc_p9_c2; acc_p8_c3 = acc_p9_c3;
        acc_p9_c0 = acc_p10_c0; acc_p9_c1 = acc_p10_c1; acc_p9_c2 = acc_p10_c2; acc_p9_c3 = acc_p10_c3;
        acc_p10_c0 = acc_p11_c0; acc_p10_c1 = acc_p11_c1; acc_p10_c2 = acc_p11_c2; acc_p10_c3 = acc_p11_c3;
        acc_p11_c0 = 0.0f; acc_p11_c1 = 0.0f; acc_p11_c2 = 0.0f; acc_p11_c3 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            if (INTERIOR || out_inside_0) *(float4*)(out) = make_float4(out_c0, out_c1, out_c2, out_c3);
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_13x13(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    __shared__ __align__(16) float tile[172];
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
        // stage the filters of the block's planes; the first barrier keeps the last round's in place until all have
        // used them
        __syncthreads();
        for (int i = threadIdx.x; i < 169; i += 128) {
            const index_t staged = z + i / 169;
            tile[i / 169 * 172 + i % 169] = __ldg(w + (staged < planes ? 0 : 0) * (index_t)169 + i % 169);
        }
        __syncthreads();
        const index_t made = z + warp_plane;                               // output plane of this warp
        const float* x_plane = x + made * ((index_t)H * W);
        float* y_plane = y + made * ((index_t)P * Q);
        const float* w_plane = tile + warp_plane * 172;

        if (p_first >= P || !has_columns || made >= planes) continue;      // the same for all lanes of a warp
        const int h_first = p_first - PAD_TOP, columns_first = strip * STRIP;
        // a sub-block whose every load lies in the image needs no guards
        const bool interior = rows_out == rows && h_first >= 0 && h_first < H - (stages - 1)
                              && columns_first >= 8 && columns_first + 136 <= W && strip * STRIP + STRIP <= Q;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, p_first, rows, q, lane, true, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q);
    }
}
