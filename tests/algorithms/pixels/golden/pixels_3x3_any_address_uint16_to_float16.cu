// warpconv 0.1.0: pixels, uint16. Generated from templates/pixels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 3,3,3 --padding 1 --groups 3 --dtype uint16 --out-dtype float16 \
//     --epilogue bias,relu --arch sm_90 --algorithm pixels \
//     --set columns=4 --set vector=1 --set store_vector=1 --set sums=float --set weights=registers \
//     --set sub_block_rows=32 --set prefetch_rows=4 --set filters=1 --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 3, H, W] * w[3, 1, 3, 3] -> y[N, 3, P, Q], stride 1, padding 1, groups 3, uint16 to float16, then bias,
//        relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of about 32 rows, 4 x 1 warps per block; words at any
//        address, 4 steps ahead; sums by float
// cost   sub-block of 32 rows x 128 columns: 170 warp loads, 0 shuffles, 1224 FMA a lane, about 73 registers (direct:
//        1152 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads the words that hold its pixels and the
// filter's reach beside them. Each pixel becomes a float once, for all rows and columns of the filter.
// An input row is loaded once and added to the 3 output rows in work: acc_p0 is the oldest, and every chain of
// products ends in the register of the next older row, so the accumulators move on without a move.
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 1;                    // input rows of a step
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int PREFETCH = 4;                     // steps that are loaded ahead: those of a stage
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
constexpr int K = 3;                            // output planes of an image
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

constexpr unsigned BORDER = 0;                  // the bits of a pixel outside of the image

// Where in its row the pixel is that stands at `column`, less than 0 outside of the row; and its bits.
__device__ __forceinline__ int place_of(int column, int W) { return (unsigned)column < (unsigned)W ? column : -1; }
__device__ __forceinline__ unsigned pixel_at(const unsigned short* row, bool row_inside, int place) {
    return row_inside && place >= 0 ? __ldg((const unsigned short*)row + place) : BORDER;
}

// The words of an input row that hold what a lane needs; a word's number counts from the lane's own first column on.
struct Words {
    unsigned word_m1, word_0, word_1, word_2;
};

// What is the same in all rows: a lane's first column, whether it stores something, and where a row that lies partly
// outside of the image has the columns that it loads singly.
struct Lane {
    int column, W;
    bool active;
    int at_pixel_m1, at_pixel_0, at_pixel_1, at_pixel_2, at_pixel_3, at_pixel_4;

    __device__ __forceinline__ void find_columns() {
        at_pixel_m1 = place_of(column - 1, W);
        at_pixel_0 = place_of(column, W);
        at_pixel_1 = place_of(column + 1, W);
        at_pixel_2 = place_of(column + 2, W);
        at_pixel_3 = place_of(column + 3, W);
        at_pixel_4 = place_of(column + 4, W);
    }
};

// An input row as a lane loads it. Nothing is done with what was loaded until words() is asked for, rows later.
template <bool INTERIOR> struct Row;

template <> struct Row<true> {
    unsigned word_m1;
    unsigned word_0;
    unsigned word_1;
    unsigned word_2;
    unsigned word_3;
    unsigned shift;      // from a word's first bit to its pixels, which begin at any address

    // `row`: at the lane's own first column
    __device__ __forceinline__ void load(const Lane&, const unsigned short*, const unsigned short* row, int, int) {
        const unsigned long long address = (unsigned long long)row;
        const unsigned* aligned = (const unsigned*)(address & ~3ull);
        shift = 8 * ((unsigned)address & 3u);
        word_m1 = __ldg(aligned - 1);
        word_0 = __ldg(aligned);
        word_1 = __ldg(aligned + 1);
        word_2 = __ldg(aligned + 2);
        word_3 = __ldg(aligned + 3);
    }

    __device__ __forceinline__ Words words() const {
        return {__funnelshift_r(word_m1, word_0, shift), __funnelshift_r(word_0, word_1, shift),
            __funnelshift_r(word_1, word_2, shift), __funnelshift_r(word_2, word_3, shift)};
    }
};

// One that lies partly outside of the image: words where all is inside, else a pixel each.
template <> struct Row<false> {
    unsigned pixel_m1, pixel_0, pixel_1, pixel_2, pixel_3, pixel_4;

    __device__ __forceinline__ void load(const Lane& lane, const unsigned short* x, const unsigned short*, int h,
            int H) {
        const bool row_inside = (unsigned)h < (unsigned)H;
        const unsigned short* at = x + (index_t)h * lane.W;
        pixel_m1 = pixel_at(at, row_inside, lane.at_pixel_m1);
        pixel_0 = pixel_at(at, row_inside, lane.at_pixel_0);
        pixel_1 = pixel_at(at, row_inside, lane.at_pixel_1);
        pixel_2 = pixel_at(at, row_inside, lane.at_pixel_2);
        pixel_3 = pixel_at(at, row_inside, lane.at_pixel_3);
        pixel_4 = pixel_at(at, row_inside, lane.at_pixel_4);
    }

    __device__ __forceinline__ Words words() const {
        return {pixel_m1 << 16, pixel_0 | pixel_1 << 16, pixel_2 | pixel_3 << 16,
               pixel_4};
    }
};

// A pixel of a word as a float. Below the exponent of 2^23 its bits are a whole number; subtracting 2^23 leaves the
// pixel.
__device__ __forceinline__ float pixel(unsigned word, unsigned selector) {
    return __uint_as_float(__byte_perm(word, 0x4b000000u, selector)) - 8388608.0f;
}

// Two output values as float16, in a word.
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }
__device__ __forceinline__ unsigned to_word(float a, float b) { return wc_floats_to_halves(a, b); }

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const unsigned short* __restrict__ x, const float* __restrict__ w,
        unsigned short* __restrict__ y, float bias_k, int p_first, int rows_out, int q, int H, int W, int Q) {
    Lane lane;
    lane.column = q;
    lane.W = W;
    lane.active = q < Q;
    if (!INTERIOR) lane.find_columns();
    const bool out_inside_0 = INTERIOR || q < Q;
    const bool out_inside_1 = INTERIOR || q + 1 < Q;
    const bool out_inside_2 = INTERIOR || q + 2 < Q;
    const bool out_inside_3 = INTERIOR || q + 3 < Q;
    // filter, a register per weight
    const float w_r0_s0 = __ldg(w), w_r0_s1 = __ldg(w + 1), w_r0_s2 = __ldg(w + 2);
    const float w_r1_s0 = __ldg(w + 3), w_r1_s1 = __ldg(w + 4), w_r1_s2 = __ldg(w + 5);
    const float w_r2_s0 = __ldg(w + 6), w_r2_s1 = __ldg(w + 7), w_r2_s2 = __ldg(w + 8);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    int h = p_first - PAD_TOP, s = 0;
    const int steps = rows_out + LIVE_ROWS - 1;
    const index_t pitch = (index_t)W;
    const unsigned short* row = x + (index_t)h * W + lane.column;
    unsigned short* out = y + ((index_t)p_first - (LIVE_ROWS - 1)) * Q + q;
    float acc_p0_c0 = 0, acc_p0_c1 = 0, acc_p0_c2 = 0, acc_p0_c3 = 0,
        acc_p1_c0 = 0, acc_p1_c1 = 0, acc_p1_c2 = 0, acc_p1_c3 = 0;
    auto load = [&](Row<INTERIOR>& to) __attribute__((always_inline)) {
        to.load(lane, x, row, h, H);
        row += pitch;
        h += ROW_STEP;
    };
    auto step = [&](const Row<INTERIOR>* from, int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const Words words = from[0].words();
        const float in_m1 = pixel(words.word_m1, 0x7432u);
        const float in_0 = pixel(words.word_0, 0x7410u);
        const float in_1 = pixel(words.word_0, 0x7432u);
        const float in_2 = pixel(words.word_1, 0x7410u);
        const float in_3 = pixel(words.word_1, 0x7432u);
        const float in_4 = pixel(words.word_2, 0x7410u);
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
        acc_p1_c0 = in_m1 * w_r0_s0; acc_p1_c1 = in_0 * w_r0_s0;
        acc_p1_c2 = in_1 * w_r0_s0; acc_p1_c3 = in_2 * w_r0_s0;
        acc_p1_c0 = fmaf(in_0, w_r0_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_r0_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_r0_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_r0_s1, acc_p1_c3);
        acc_p1_c0 = fmaf(in_1, w_r0_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_2, w_r0_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, w_r0_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_4, w_r0_s2, acc_p1_c3);
        if (at >= LIVE_ROWS - 1 && (INTERIOR || at < steps)) {
            const float value_c0 = finish(out_c0, bias_k);
            const float value_c1 = finish(out_c1, bias_k);
            const float value_c2 = finish(out_c2, bias_k);
            const float value_c3 = finish(out_c3, bias_k);
            const unsigned y_0 = to_word(value_c0, value_c1);
            const unsigned y_1 = to_word(value_c2, value_c3);
            if (INTERIOR || out_inside_0) *(unsigned short*)(out) = (unsigned short)y_0;
            if (INTERIOR || out_inside_1) *(unsigned short*)(out + 1) = (unsigned short)(y_0 >> 16);
            if (INTERIOR || out_inside_2) *(unsigned short*)(out + 2) = (unsigned short)y_1;
            if (INTERIOR || out_inside_3) *(unsigned short*)(out + 3) = (unsigned short)(y_1 >> 16);
        }
        out += (index_t)Q;
    };

    Row<INTERIOR> rows[PREFETCH] = {};
#pragma unroll
    for (int i = 0; i < PREFETCH; ++i) load(rows[i]);
#pragma unroll 1
    for (; s < steps; s += PREFETCH) {
        const bool more = s + PREFETCH < steps;
#pragma unroll
        for (int i = 0; i < PREFETCH; ++i) {
            step(rows + i, s + i);
            if (more) {
#pragma unroll
                for (int u = 0; u < STEP_ROWS; ++u) load(rows[i + u]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
pixels_3x3(const unsigned short* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = blockIdx.x * WARP_COLUMNS + warp % WARP_COLUMNS;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = ((P + bands - 1) / bands + LIVE_ROWS - 1 + PREFETCH - 1) / PREFETCH;
    const int rows = stages * PREFETCH - (LIVE_ROWS - 1);
    const int first = (blockIdx.y + warp / WARP_COLUMNS) * rows;                           // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    const int h_first = p_first - PAD_TOP, column_first = strip * STRIP;
    const bool has_outputs = p_first < P && strip * STRIP < Q;             // the same for all lanes of a warp
    // a sub-block whose every load lies in the image needs no guards
    const bool interior = rows_out == rows && h_first >= 0 && h_first + (stages * PREFETCH - 1) < H
                          && column_first >= 3 && column_first + STRIP + 4 <= W && strip * STRIP + STRIP <= Q;
    // z counts output planes
    for (index_t z = blockIdx.z; z < (index_t)N * K; z += gridDim.z) {
        const int k = (int)(z % K);
        const unsigned short* x_plane = x + (z / K * K + k) * ((index_t)H * W);
        unsigned short* y_plane = y + z * ((index_t)P * Q);
        const float* w_plane = w + (index_t)k * (R * S);
        const float bias_k = bias[k];
        if (!has_outputs) continue;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, bias_k, p_first, rows, q, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, bias_k, p_first, rows_out, q, H, W, Q);
    }
}
