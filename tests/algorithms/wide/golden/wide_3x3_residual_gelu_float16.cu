// warpconv 0.1.0: wide, float16. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,3,3 --padding 1 --dtype float16 --epilogue bias,residual,gelu \
//     --arch sm_90 --algorithm wide \
//     --set columns=8 --set vector=8 --set store_vector=8 --set span=strips --set edges=interior \
//     --set sub_block_rows=14 --set prefetch_rows=2 --set weights=registers --set loads=registers \
//     --set stage_steps=1 --set pipeline=paired --set tap_rows=all --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 3, 3] -> y[N, 1, P, Q], stride 1, padding 1, float16, then bias, residual, gelu
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8); all else is a constant of the text
// plan   8 columns per lane, strips of 256 columns, sub-blocks of 14 rows, 4 warps per block; 8 elements a load, 2
//        steps ahead
// cost   sub-block of 14 rows x 256 columns: 32 warp loads, 32 shuffles, 1152 FMA a lane, about 96 registers (direct:
//        1008 loads)
//
// A lane makes 8 neighbouring output columns and walks down the rows. It loads 8 input columns of each row, the others
// come from its neighbours by shuffle. An input row is loaded once and added to the 3 output rows in work: acc_p0 is
// the oldest, and every chain of products ends in the register of the next older row, so the accumulators move on
// without a move.
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int PREFETCH = 2;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int STRIP = 256;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
constexpr unsigned ALL_LANES = 0xffffffffu;     // who takes part in a shuffle
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// what the steps below call
__device__ __forceinline__ float wc_exp2(float value) { float power; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value)); return power; }
// a times the normal distribution's Phi(a); Phi(-x) is 2 to a polynomial of x, to 5e-8
__device__ __forceinline__ float gelu(float a) {
    const float x = fabsf(a);
    float power = fmaf(-9.3445567e-07f, x, 1.599733e-05f);
    power = fmaf(power, x, -7.392986e-05f);
    power = fmaf(power, x, -0.00040516173f);
    power = fmaf(power, x, 0.0074016247f);
    power = fmaf(power, x, -0.052716125f);
    power = fmaf(power, x, -0.45914167f);
    power = fmaf(power, x, -1.1511124f);
    power = fmaf(power, x, -0.9999999f);
    const float tail = wc_exp2(power);
    return a * (a < 0.0f ? tail : 1.0f - tail);
}

// What happens to an output value before it is stored: bias, then residual, then gelu.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    value = gelu(value);
    return value;
}

// An input row as it was loaded: this lane's columns, and in the outermost lanes those beyond the strip.
struct Row {
    uint4 own_0;
    unsigned edge_0;
    uint4 added_0;    // residual, in the first row of a step
};

// 32 lanes, 8 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* y, float bias_k, const unsigned short* residual, int p_first, int rows_out, int q,
        int position, bool active, int H, int W, int Q) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = INTERIOR || (active && column < W);
    // the outermost lanes load what lies beyond the strip: the last 1 to its left, the first 1 to its right
    const bool to_left = position >= 31, to_right = position < 1;
    const int beyond = to_left ? -250 : 256;
    const bool edge_inside_0 = (to_left || to_right) && (INTERIOR || (unsigned)(column + beyond) < (unsigned)W);
    const int lane_left_1 = lane - 1; const bool edge_left_1 = lane >= 31;
    const int lane_right_1 = lane + 1; const bool edge_right_1 = lane < 1;
    const bool out_inside_0 = INTERIOR || (active && q < Q);
    // filter, one register per weight
    const float w_r0_s0 = wc_half_to_float(__ldg(w)), w_r0_s1 = wc_half_to_float(__ldg(w + 1)),
        w_r0_s2 = wc_half_to_float(__ldg(w + 2));
    const float w_r1_s0 = wc_half_to_float(__ldg(w + 3)), w_r1_s1 = wc_half_to_float(__ldg(w + 4)),
        w_r1_s2 = wc_half_to_float(__ldg(w + 5));
    const float w_r2_s0 = wc_half_to_float(__ldg(w + 6)), w_r2_s1 = wc_half_to_float(__ldg(w + 7)),
        w_r2_s2 = wc_half_to_float(__ldg(w + 8));

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    // steps above the image add nothing
    int s = INTERIOR || h_first >= 0 ? 0 : min(-h_first, LIVE_ROWS - 1);
    int h = h_first + s;
    const int h_end = min(H, max(0, h_first + (rows_out + LIVE_ROWS - 1)));
    const index_t pitch = (index_t)W;
    unsigned short* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    // the residual comes with the input rows of the step that completes its row
    const unsigned short* residual_row = residual + (out - y);
    int residual_step = s;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f, acc_p0_c4 = 0.0f, acc_p0_c5 = 0.0f,
        acc_p0_c6 = 0.0f, acc_p0_c7 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f, acc_p1_c4 = 0.0f, acc_p1_c5 = 0.0f,
              acc_p1_c6 = 0.0f, acc_p1_c7 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const int steps_inside = INTERIOR ? steps : min(steps, max(s, H - h_first));
    const unsigned short* row = x + (index_t)h * W + column;

    auto load = [&](Row (&rows)[PREFETCH]) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            const bool row_inside = INTERIOR || (unsigned)h < (unsigned)h_end;
            rows[i].own_0 = row_inside && own_inside_0 ? __ldg((const uint4*)(row)) : make_uint4(0u, 0u, 0u, 0u);
            if (INTERIOR) {
                if (edge_inside_0) rows[i].edge_0 = __ldg((const unsigned*)(row + beyond));
            } else {
                rows[i].edge_0 = row_inside && edge_inside_0 ? __ldg((const unsigned*)(row + beyond)) : 0u;
            }
            row += pitch;
            h += ROW_STEP;
        }
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            rows[i].added_0 = (unsigned)(residual_step - (LIVE_ROWS - 1)) < (unsigned)rows_out
                && (INTERIOR || out_inside_0) ? *(const uint4*)(residual_row) : make_uint4(0u, 0u, 0u, 0u);
            residual_row += (index_t)Q;
            ++residual_step;
        }
    };
    auto step = [&](const Row (&rows)[PREFETCH], int i, int s) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        const unsigned word_m1 = __shfl_sync(ALL_LANES, edge_left_1 ? rows[i].edge_0 : rows[i].own_0.w, lane_left_1);
        const unsigned word_4 = __shfl_sync(ALL_LANES, edge_right_1 ? rows[i].edge_0 : rows[i].own_0.x, lane_right_1);
        const float in_m1 = wc_half_high_to_float(word_m1);
        const float in_0 = wc_half_low_to_float(rows[i].own_0.x);
        const float in_1 = wc_half_high_to_float(rows[i].own_0.x);
        const float in_2 = wc_half_low_to_float(rows[i].own_0.y);
        const float in_3 = wc_half_high_to_float(rows[i].own_0.y);
        const float in_4 = wc_half_low_to_float(rows[i].own_0.z);
        const float in_5 = wc_half_high_to_float(rows[i].own_0.z);
        const float in_6 = wc_half_low_to_float(rows[i].own_0.w);
        const float in_7 = wc_half_high_to_float(rows[i].own_0.w);
        const float in_8 = wc_half_low_to_float(word_4);
        const uint4 added_0 = rows[i].added_0;
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
            out_c0 = finish(out_c0, bias_k, wc_half_low_to_float(added_0.x));
            out_c1 = finish(out_c1, bias_k, wc_half_high_to_float(added_0.x));
            out_c2 = finish(out_c2, bias_k, wc_half_low_to_float(added_0.y));
            out_c3 = finish(out_c3, bias_k, wc_half_high_to_float(added_0.y));
            out_c4 = finish(out_c4, bias_k, wc_half_low_to_float(added_0.z));
            out_c5 = finish(out_c5, bias_k, wc_half_high_to_float(added_0.z));
            out_c6 = finish(out_c6, bias_k, wc_half_low_to_float(added_0.w));
            out_c7 = finish(out_c7, bias_k, wc_half_high_to_float(added_0.w));
            if (INTERIOR || out_inside_0) *(uint4*)(out) =
                make_uint4(wc_floats_to_halves(out_c0, out_c1), wc_floats_to_halves(out_c2, out_c3),
                wc_floats_to_halves(out_c4, out_c5), wc_floats_to_halves(out_c6, out_c7));
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
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        residual_row = residual + (out - y);
        const uint4 added_0 = (unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out && (INTERIOR || out_inside_0)
            ? *(const uint4*)(residual_row) : make_uint4(0u, 0u, 0u, 0u);
        out_c0 = acc_p0_c0; out_c1 = acc_p0_c1; out_c2 = acc_p0_c2; out_c3 = acc_p0_c3;
        out_c4 = acc_p0_c4; out_c5 = acc_p0_c5; out_c6 = acc_p0_c6; out_c7 = acc_p0_c7;
        acc_p0_c0 = acc_p1_c0; acc_p0_c1 = acc_p1_c1; acc_p0_c2 = acc_p1_c2; acc_p0_c3 = acc_p1_c3;
        acc_p0_c4 = acc_p1_c4; acc_p0_c5 = acc_p1_c5; acc_p0_c6 = acc_p1_c6; acc_p0_c7 = acc_p1_c7;
        acc_p1_c0 = 0.0f; acc_p1_c1 = 0.0f; acc_p1_c2 = 0.0f; acc_p1_c3 = 0.0f;
        acc_p1_c4 = 0.0f; acc_p1_c5 = 0.0f; acc_p1_c6 = 0.0f; acc_p1_c7 = 0.0f;
        if ((unsigned)(s - (LIVE_ROWS - 1)) < (unsigned)rows_out) {
            out_c0 = finish(out_c0, bias_k, wc_half_low_to_float(added_0.x));
            out_c1 = finish(out_c1, bias_k, wc_half_high_to_float(added_0.x));
            out_c2 = finish(out_c2, bias_k, wc_half_low_to_float(added_0.y));
            out_c3 = finish(out_c3, bias_k, wc_half_high_to_float(added_0.y));
            out_c4 = finish(out_c4, bias_k, wc_half_low_to_float(added_0.z));
            out_c5 = finish(out_c5, bias_k, wc_half_high_to_float(added_0.z));
            out_c6 = finish(out_c6, bias_k, wc_half_low_to_float(added_0.w));
            out_c7 = finish(out_c7, bias_k, wc_half_high_to_float(added_0.w));
            if (INTERIOR || out_inside_0) *(uint4*)(out) =
                make_uint4(wc_floats_to_halves(out_c0, out_c1), wc_floats_to_halves(out_c2, out_c3),
                wc_floats_to_halves(out_c4, out_c5), wc_floats_to_halves(out_c6, out_c7));
        }
        out += (index_t)Q;
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, const unsigned short* residual, unsigned short* y, int N, int H,
        int W, int P, int Q) {
    // the warp's number comes from lane 0, so the compiler knows that its lanes share it
    const int lane = threadIdx.x % 32, warp = __shfl_sync(ALL_LANES, (int)threadIdx.x / 32, 0);
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
        const int k = 0;
        const unsigned short* x_plane = x + made * ((index_t)H * W);
        unsigned short* y_plane = y + made * ((index_t)P * Q);
        const float bias_k = wc_half_to_float(bias[k]);
        const unsigned short* residual_plane = residual + (y_plane - y);     // may be y_plane
        const unsigned short* w_plane = w;

        if (p_first >= P || !has_columns || made >= planes) continue;      // the same for all lanes of a warp
        const int h_first = p_first - PAD_TOP, columns_first = strip * STRIP;
        // a sub-block whose every load lies in the image needs no guards
        const bool interior = rows_out == rows && h_first >= 0 && h_first < H - (stages * STAGE_STEPS - 1)
                              && columns_first >= 2 && columns_first + 258 <= W && strip * STRIP + STRIP <= Q;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, bias_k, residual_plane, p_first, rows, q, lane, true, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, bias_k, residual_plane, p_first, rows_out, q, lane, true, H, W,
                Q);
    }
}
