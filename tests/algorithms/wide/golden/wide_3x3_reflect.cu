// warpconv 0.1.0: wide, float32. Generated from templates/wide/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,3,3 --padding 1 --padding-mode reflect --arch sm_90 --algorithm wide \
//     --set columns=4 --set vector=4 --set store_vector=4 --set span=strips --set edges=guarded \
//     --set sub_block_rows=14 --set prefetch_rows=4 --set weights=registers --set loads=cached --set stage_steps=2 \
//     --set tap_rows=all --set warp_columns=4 --set warp_rows=1 --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 3, 3] -> y[N, 1, P, Q], stride 1, padding 1 (reflect), float32
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of 14 rows, 4 warps per block; 4 elements a load, 4
//        steps ahead
// cost   sub-block of 14 rows x 128 columns: 32 warp loads, 0 shuffles, 576 FMA a lane, about 51 registers (direct: 504
//        loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads 4 input columns of each row by
// asynchronous copies to shared memory, where all lanes find the others. An input row is loaded once and added to the 3
// output rows in work: acc_p0 is the oldest, and every chain of products ends in the register of the next older row, so
// the accumulators move on without a move.
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int LANE_COLUMNS = 4;                 // input columns of a lane
constexpr int PREFETCH = 4;                     // steps that are loaded ahead
constexpr int STAGE_STEPS = 2;                  // steps that come into use together
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_if_16(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_if_4(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

constexpr int LINE = 136, MARGIN = 4;       // elements of a row in shared memory; those before its first own column
constexpr int STEP = 136, RING = 816;       // of a step's rows; of all rows that a warp holds

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
__device__ __forceinline__ void sub_block(const float* __restrict__ x, const float* __restrict__ w,
        float* __restrict__ y, int p_first, int rows_out, int q, int position, bool active, int H, int W, int Q,
        float* ring) {
    const int lane = threadIdx.x % 32;
    const int column = q;                                                  // this lane's first input column
    const bool own_inside_0 = column < W;
    const int own = MARGIN + position * LANE_COLUMNS;                      // where this lane's columns lie in a row
    const int first_column = column - position * LANE_COLUMNS;             // of the strip
    const bool ends = first_column + 128 > W;      // some lie in the strip itself
    // the first lanes copy single columns: 1 to the left of the strip and 1 to the right of it or of the image; those
    // outside the image from where the border has them
    const int outside_0 = position < 1 ? first_column + position - 1 : min(W, first_column + 128) + position - 1;
    const int outside_at_0 = at_border(outside_0, W), outside_to_0 = own + outside_0 - column;
    const bool outside_here_0 = position < 2 && outside_0 - first_column < LINE - MARGIN;
    const bool out_inside_0 = active && q < Q;
    // filter, one register per weight
    const float w_r0_s0 = __ldg(w), w_r0_s1 = __ldg(w + 1), w_r0_s2 = __ldg(w + 2);
    const float w_r1_s0 = __ldg(w + 3), w_r1_s1 = __ldg(w + 4), w_r1_s2 = __ldg(w + 5);
    const float w_r2_s0 = __ldg(w + 6), w_r2_s1 = __ldg(w + 7), w_r2_s2 = __ldg(w + 8);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    const int h_first = p_first - PAD_TOP;
    int s = 0;
    const index_t pitch = (index_t)W;
    float* out = y + ((index_t)p_first + (s - (LIVE_ROWS - 1))) * Q + q;
    float acc_p0_c0 = 0.0f, acc_p0_c1 = 0.0f, acc_p0_c2 = 0.0f, acc_p0_c3 = 0.0f,
          acc_p1_c0 = 0.0f, acc_p1_c1 = 0.0f, acc_p1_c2 = 0.0f, acc_p1_c3 = 0.0f;
    const int steps = rows_out + LIVE_ROWS - 1;
    const float* row = x + (index_t)h_first * W + column;
    const float* outside_row_0 = row + outside_at_0 - column;
    // the rows of a stage, from row h of the image on; inside: all of them lie in the image
    auto copy = [&](int slot, int h, bool inside) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < STAGE_STEPS; ++i) {
            float* to = ring + slot + i * STEP;
            const index_t moved_0 = inside ? 0 : (index_t)(at_border(h, H) - h) * W;
            wc_copy_async_if_16(own_inside_0, to + own, row + moved_0);
            wc_copy_async_if_4(outside_here_0, to + outside_to_0, outside_row_0 + moved_0);
            row += pitch;
            outside_row_0 += pitch;
            h += ROW_STEP;
        }
    };
    auto step = [&](int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const float line_m1 = *(const float*)(ring + at + own - 1);
        const float4 line_0 = *(const float4*)(ring + at + own);
        const float line_4 = *(const float*)(ring + at + own + 4);
        const float in_m1 = line_m1;
        const float in_0 = line_0.x;
        const float in_1 = line_0.y;
        const float in_2 = line_0.z;
        const float in_3 = line_0.w;
        const float in_4 = line_4;
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
        const int next = slot == 0 ? 2 * STAGE_STEPS * STEP : slot - STAGE_STEPS * STEP, h = h_first + (s + PREFETCH);
        const bool copies = inside || s < steps - PREFETCH;
        if (copies) copy(next, h, inside);
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
    if (ends) {
        // columns outside the image that no copy reaches
#pragma unroll 1
        for (int i = 4 * lane; i < RING; i += 32 * 4) *(float4*)(ring + i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncwarp();
    }
    if (h_first >= 0 && h_first + (PREFETCH - 1) < H) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            copy(i * STAGE_STEPS * STEP, h_first + i * STAGE_STEPS, true);
            wc_copy_async_commit();
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < 2; ++i) {
            copy(i * STAGE_STEPS * STEP, h_first + i * STAGE_STEPS, false);
            wc_copy_async_commit();
        }
    }
    // stages that copy rows of the image alone end where one below it is next
    const int inside_end = min(steps, H - h_first - (STAGE_STEPS - 1)) - PREFETCH;
    // the second loop stands in the first: one after the other takes the compiler 7 instructions a stage more
#pragma unroll 1
    while (s < steps) {
#pragma unroll 1
        while (s < inside_end) stage(true);
        stage(false);
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
wide_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
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

        if (p_first < P && has_columns && made < planes)
            sub_block(x_plane, w_plane, y_plane, p_first, rows_out, q, lane, true, H, W, Q, ring);
    }
}
