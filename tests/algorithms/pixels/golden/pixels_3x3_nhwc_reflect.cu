// warpconv 0.1.0: pixels, uint8. Generated from templates/pixels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,3 --filter 3,3,3 --padding 1 --padding-mode reflect --groups 3 --dtype uint8 \
//     --layout NHWC --epilogue bias --arch sm_90 --algorithm pixels \
//     --set columns=12 --set vector=4 --set store_vector=4 --set sums=float --set weights=registers \
//     --set sub_block_rows=32 --set prefetch_rows=4 --set filters=1 --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, H, W, 3] * w[3, 1, 3, 3] -> y[N, P, Q, 3], stride 1, padding 1 (reflect), groups 3, uint8 NHWC, then bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   12 columns per lane, strips of 384 columns, sub-blocks of about 32 rows, 4 x 1 warps per block; 4 pixels a
//        load, 4 steps ahead; sums by float
// cost   sub-block of 32 rows x 384 columns: 170 warp loads, 0 shuffles, 3672 FMA a lane, about 139 registers (direct:
//        3456 loads)
//
// A lane makes 12 neighbouring output columns and walks down the rows. It loads the words that hold its pixels and the
// filter's reach beside them. Each pixel becomes a float once, for all rows and columns of the filter.
// An input row is loaded once and added to the 3 output rows in work: acc_p0 is the oldest, and every chain of
// products ends in the register of the next older row, so the accumulators move on without a move.
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 1;                    // input rows of a step
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 12;                     // output columns of a lane
constexpr int STRIP = 384;                      // output columns of a warp
constexpr int PREFETCH = 4;                     // steps that are loaded ahead: those of a stage
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
constexpr int CHANNELS = 3;                     // side by side: columns are counted over all of them
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// Where in its row the pixel is that stands at `column`, outside of the row too; and its bits.
__device__ __forceinline__ int place_of(int column, int W) {
    const int of_image = (column + CHANNELS) / CHANNELS - PAD_LEFT;
    return at_border(of_image, W / CHANNELS) * CHANNELS + (column - of_image * CHANNELS);
}
__device__ __forceinline__ unsigned pixel_at(const unsigned char* row, bool, int place) {
    return __ldg((const unsigned char*)row + place);
}

// The words of an input row that hold what a lane needs; a word's number counts from the lane's own first column on.
struct Words {
    unsigned word_m1, word_0, word_1, word_2, word_3;
};

// What is the same in all rows: a lane's first column, whether it stores something, and where a row that lies partly
// outside of the image has the columns that it loads singly.
struct Lane {
    int column, W;
    bool active;
    int at_pixel_m3, at_pixel_m2, at_pixel_m1, at_pixel_12, at_pixel_13, at_pixel_14;

    __device__ __forceinline__ void find_columns() {
        at_pixel_m3 = place_of(column - 3, W);
        at_pixel_m2 = place_of(column - 2, W);
        at_pixel_m1 = place_of(column - 1, W);
        at_pixel_12 = place_of(column + 12, W);
        at_pixel_13 = place_of(column + 13, W);
        at_pixel_14 = place_of(column + 14, W);
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

    // `row`: at the lane's own first column
    __device__ __forceinline__ void load(const Lane&, const unsigned char*, const unsigned char* row, int, int) {
        word_m1 = __ldg((const unsigned*)(row - 4));
        word_0 = __ldg((const unsigned*)(row));
        word_1 = __ldg((const unsigned*)(row + 4));
        word_2 = __ldg((const unsigned*)(row + 8));
        word_3 = __ldg((const unsigned*)(row + 12));
    }

    __device__ __forceinline__ Words words() const {
        return {word_m1, word_0, word_1, word_2,
               word_3};
    }
};

// One that lies partly outside of the image: words where all is inside, else a pixel each.
template <> struct Row<false> {
    unsigned word_0;
    unsigned word_1;
    unsigned word_2;
    unsigned pixel_m3, pixel_m2, pixel_m1, pixel_12, pixel_13, pixel_14;

    __device__ __forceinline__ void load(const Lane& lane, const unsigned char* x, const unsigned char*, int h, int H) {
        const bool row_inside = true;
        const unsigned char* at = x + (index_t)at_border(h, H) * lane.W;
        if (lane.column + 4 <= lane.W) {
            word_0 = __ldg((const unsigned*)(at + lane.column));
        } else if (lane.active) {
            word_0 = pixel_at(at, row_inside, place_of(lane.column, lane.W))
                | pixel_at(at, row_inside, place_of(lane.column + 1, lane.W)) << 8 |
                pixel_at(at, row_inside, place_of(lane.column + 2, lane.W)) << 16;
        }
        if (lane.column + 8 <= lane.W) {
            word_1 = __ldg((const unsigned*)(at + lane.column + 4));
        } else if (lane.active) {
            word_1 = pixel_at(at, row_inside, place_of(lane.column + 4, lane.W))
                | pixel_at(at, row_inside, place_of(lane.column + 5, lane.W)) << 8 |
                pixel_at(at, row_inside, place_of(lane.column + 6, lane.W)) << 16;
        }
        if (lane.column + 12 <= lane.W) {
            word_2 = __ldg((const unsigned*)(at + lane.column + 8));
        } else if (lane.active) {
            word_2 = pixel_at(at, row_inside, place_of(lane.column + 8, lane.W))
                | pixel_at(at, row_inside, place_of(lane.column + 9, lane.W)) << 8 |
                pixel_at(at, row_inside, place_of(lane.column + 10, lane.W)) << 16;
        }
        pixel_m3 = pixel_at(at, row_inside, lane.at_pixel_m3);
        pixel_m2 = pixel_at(at, row_inside, lane.at_pixel_m2);
        pixel_m1 = pixel_at(at, row_inside, lane.at_pixel_m1);
        pixel_12 = pixel_at(at, row_inside, lane.at_pixel_12);
        pixel_13 = pixel_at(at, row_inside, lane.at_pixel_13);
        pixel_14 = pixel_at(at, row_inside, lane.at_pixel_14);
    }

    __device__ __forceinline__ Words words() const {
        return {pixel_m3 << 8 | pixel_m2 << 16 | pixel_m1 << 24, word_0, word_1,
               word_2, pixel_12 | pixel_13 << 8 | pixel_14 << 16};
    }
};

// A pixel of a word as a float. Below the exponent of 2^23 its bits are a whole number; subtracting 2^23 leaves the
// pixel.
__device__ __forceinline__ float pixel(unsigned word, unsigned selector) {
    return __uint_as_float(__byte_perm(word, 0x4b000000u, selector)) - 8388608.0f;
}

// Four output values as uint8, in a word: rounded to nearest even, limited to their range.
__device__ __forceinline__ unsigned wc_to_uint8s(float a, float b, float c, float d) { unsigned word; asm("{ .reg .s32 i, j, k, l; .reg .b32 high; cvt.rni.s32.f32 i, %1; cvt.rni.s32.f32 j, %2; cvt.rni.s32.f32 k, %3; cvt.rni.s32.f32 l, %4; cvt.pack.sat.u8.s32.b32 high, l, k, 0; cvt.pack.sat.u8.s32.b32 %0, j, i, high; }" : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d)); return word; }

// 32 lanes, 12 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const unsigned char* __restrict__ x, const float* __restrict__ w,
        unsigned char* __restrict__ y, float bias_c0, float bias_c1, float bias_c2, int p_first, int rows_out, int q,
        int H, int W, int Q) {
    Lane lane;
    lane.column = q;
    lane.W = W;
    lane.active = q < Q;
    if (!INTERIOR) lane.find_columns();
    const bool out_inside_0 = INTERIOR || q < Q;
    const bool out_inside_1 = INTERIOR || q + 4 < Q;
    const bool out_inside_2 = INTERIOR || q + 8 < Q;
    // filter, a register per weight
    const float w_c0_r0_s0 = __ldg(w), w_c0_r0_s1 = __ldg(w + 1), w_c0_r0_s2 = __ldg(w + 2), w_c1_r0_s0 = __ldg(w + 9),
                w_c1_r0_s1 = __ldg(w + 10), w_c1_r0_s2 = __ldg(w + 11), w_c2_r0_s0 = __ldg(w + 18),
                    w_c2_r0_s1 = __ldg(w + 19),
                w_c2_r0_s2 = __ldg(w + 20);
    const float w_c0_r1_s0 = __ldg(w + 3), w_c0_r1_s1 = __ldg(w + 4), w_c0_r1_s2 = __ldg(w + 5),
        w_c1_r1_s0 = __ldg(w + 12),
                w_c1_r1_s1 = __ldg(w + 13), w_c1_r1_s2 = __ldg(w + 14), w_c2_r1_s0 = __ldg(w + 21),
                    w_c2_r1_s1 = __ldg(w + 22),
                w_c2_r1_s2 = __ldg(w + 23);
    const float w_c0_r2_s0 = __ldg(w + 6), w_c0_r2_s1 = __ldg(w + 7), w_c0_r2_s2 = __ldg(w + 8),
        w_c1_r2_s0 = __ldg(w + 15),
                w_c1_r2_s1 = __ldg(w + 16), w_c1_r2_s2 = __ldg(w + 17), w_c2_r2_s0 = __ldg(w + 24),
                    w_c2_r2_s1 = __ldg(w + 25),
                w_c2_r2_s2 = __ldg(w + 26);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    int h = p_first - PAD_TOP, s = 0;
    const int steps = rows_out + LIVE_ROWS - 1;
    const index_t pitch = (index_t)W;
    const unsigned char* row = x + (index_t)h * W + lane.column;
    unsigned char* out = y + ((index_t)p_first - (LIVE_ROWS - 1)) * Q + q;
    float acc_p0_c0 = 0, acc_p0_c1 = 0, acc_p0_c2 = 0, acc_p0_c3 = 0, acc_p0_c4 = 0, acc_p0_c5 = 0, acc_p0_c6 = 0,
        acc_p0_c7 = 0, acc_p0_c8 = 0, acc_p0_c9 = 0, acc_p0_c10 = 0, acc_p0_c11 = 0,
        acc_p1_c0 = 0, acc_p1_c1 = 0, acc_p1_c2 = 0, acc_p1_c3 = 0, acc_p1_c4 = 0, acc_p1_c5 = 0, acc_p1_c6 = 0,
            acc_p1_c7 = 0, acc_p1_c8 = 0, acc_p1_c9 = 0, acc_p1_c10 = 0, acc_p1_c11 = 0;
    auto load = [&](Row<INTERIOR>& to) __attribute__((always_inline)) {
        to.load(lane, x, row, h, H);
        row += pitch;
        h += ROW_STEP;
    };
    auto step = [&](const Row<INTERIOR>* from, int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7, out_c8, out_c9, out_c10, out_c11;
        const Words words = from[0].words();
        const float in_m3 = pixel(words.word_m1, 0x7441u);
        const float in_m2 = pixel(words.word_m1, 0x7442u);
        const float in_m1 = pixel(words.word_m1, 0x7443u);
        const float in_0 = pixel(words.word_0, 0x7440u);
        const float in_1 = pixel(words.word_0, 0x7441u);
        const float in_2 = pixel(words.word_0, 0x7442u);
        const float in_3 = pixel(words.word_0, 0x7443u);
        const float in_4 = pixel(words.word_1, 0x7440u);
        const float in_5 = pixel(words.word_1, 0x7441u);
        const float in_6 = pixel(words.word_1, 0x7442u);
        const float in_7 = pixel(words.word_1, 0x7443u);
        const float in_8 = pixel(words.word_2, 0x7440u);
        const float in_9 = pixel(words.word_2, 0x7441u);
        const float in_10 = pixel(words.word_2, 0x7442u);
        const float in_11 = pixel(words.word_2, 0x7443u);
        const float in_12 = pixel(words.word_3, 0x7440u);
        const float in_13 = pixel(words.word_3, 0x7441u);
        const float in_14 = pixel(words.word_3, 0x7442u);
        // filter row 2
        out_c0 = fmaf(in_m3, w_c0_r2_s0, acc_p0_c0); out_c1 = fmaf(in_m2, w_c1_r2_s0, acc_p0_c1);
        out_c2 = fmaf(in_m1, w_c2_r2_s0, acc_p0_c2); out_c3 = fmaf(in_0, w_c0_r2_s0, acc_p0_c3);
        out_c4 = fmaf(in_1, w_c1_r2_s0, acc_p0_c4); out_c5 = fmaf(in_2, w_c2_r2_s0, acc_p0_c5);
        out_c6 = fmaf(in_3, w_c0_r2_s0, acc_p0_c6); out_c7 = fmaf(in_4, w_c1_r2_s0, acc_p0_c7);
        out_c8 = fmaf(in_5, w_c2_r2_s0, acc_p0_c8); out_c9 = fmaf(in_6, w_c0_r2_s0, acc_p0_c9);
        out_c10 = fmaf(in_7, w_c1_r2_s0, acc_p0_c10); out_c11 = fmaf(in_8, w_c2_r2_s0, acc_p0_c11);
        out_c0 = fmaf(in_0, w_c0_r2_s1, out_c0); out_c1 = fmaf(in_1, w_c1_r2_s1, out_c1);
        out_c2 = fmaf(in_2, w_c2_r2_s1, out_c2); out_c3 = fmaf(in_3, w_c0_r2_s1, out_c3);
        out_c4 = fmaf(in_4, w_c1_r2_s1, out_c4); out_c5 = fmaf(in_5, w_c2_r2_s1, out_c5);
        out_c6 = fmaf(in_6, w_c0_r2_s1, out_c6); out_c7 = fmaf(in_7, w_c1_r2_s1, out_c7);
        out_c8 = fmaf(in_8, w_c2_r2_s1, out_c8); out_c9 = fmaf(in_9, w_c0_r2_s1, out_c9);
        out_c10 = fmaf(in_10, w_c1_r2_s1, out_c10); out_c11 = fmaf(in_11, w_c2_r2_s1, out_c11);
        out_c0 = fmaf(in_3, w_c0_r2_s2, out_c0); out_c1 = fmaf(in_4, w_c1_r2_s2, out_c1);
        out_c2 = fmaf(in_5, w_c2_r2_s2, out_c2); out_c3 = fmaf(in_6, w_c0_r2_s2, out_c3);
        out_c4 = fmaf(in_7, w_c1_r2_s2, out_c4); out_c5 = fmaf(in_8, w_c2_r2_s2, out_c5);
        out_c6 = fmaf(in_9, w_c0_r2_s2, out_c6); out_c7 = fmaf(in_10, w_c1_r2_s2, out_c7);
        out_c8 = fmaf(in_11, w_c2_r2_s2, out_c8); out_c9 = fmaf(in_12, w_c0_r2_s2, out_c9);
        out_c10 = fmaf(in_13, w_c1_r2_s2, out_c10); out_c11 = fmaf(in_14, w_c2_r2_s2, out_c11);
        // filter row 1
        acc_p0_c0 = fmaf(in_m3, w_c0_r1_s0, acc_p1_c0); acc_p0_c1 = fmaf(in_m2, w_c1_r1_s0, acc_p1_c1);
        acc_p0_c2 = fmaf(in_m1, w_c2_r1_s0, acc_p1_c2); acc_p0_c3 = fmaf(in_0, w_c0_r1_s0, acc_p1_c3);
        acc_p0_c4 = fmaf(in_1, w_c1_r1_s0, acc_p1_c4); acc_p0_c5 = fmaf(in_2, w_c2_r1_s0, acc_p1_c5);
        acc_p0_c6 = fmaf(in_3, w_c0_r1_s0, acc_p1_c6); acc_p0_c7 = fmaf(in_4, w_c1_r1_s0, acc_p1_c7);
        acc_p0_c8 = fmaf(in_5, w_c2_r1_s0, acc_p1_c8); acc_p0_c9 = fmaf(in_6, w_c0_r1_s0, acc_p1_c9);
        acc_p0_c10 = fmaf(in_7, w_c1_r1_s0, acc_p1_c10); acc_p0_c11 = fmaf(in_8, w_c2_r1_s0, acc_p1_c11);
        acc_p0_c0 = fmaf(in_0, w_c0_r1_s1, acc_p0_c0); acc_p0_c1 = fmaf(in_1, w_c1_r1_s1, acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, w_c2_r1_s1, acc_p0_c2); acc_p0_c3 = fmaf(in_3, w_c0_r1_s1, acc_p0_c3);
        acc_p0_c4 = fmaf(in_4, w_c1_r1_s1, acc_p0_c4); acc_p0_c5 = fmaf(in_5, w_c2_r1_s1, acc_p0_c5);
        acc_p0_c6 = fmaf(in_6, w_c0_r1_s1, acc_p0_c6); acc_p0_c7 = fmaf(in_7, w_c1_r1_s1, acc_p0_c7);
        acc_p0_c8 = fmaf(in_8, w_c2_r1_s1, acc_p0_c8); acc_p0_c9 = fmaf(in_9, w_c0_r1_s1, acc_p0_c9);
        acc_p0_c10 = fmaf(in_10, w_c1_r1_s1, acc_p0_c10); acc_p0_c11 = fmaf(in_11, w_c2_r1_s1, acc_p0_c11);
        acc_p0_c0 = fmaf(in_3, w_c0_r1_s2, acc_p0_c0); acc_p0_c1 = fmaf(in_4, w_c1_r1_s2, acc_p0_c1);
        acc_p0_c2 = fmaf(in_5, w_c2_r1_s2, acc_p0_c2); acc_p0_c3 = fmaf(in_6, w_c0_r1_s2, acc_p0_c3);
        acc_p0_c4 = fmaf(in_7, w_c1_r1_s2, acc_p0_c4); acc_p0_c5 = fmaf(in_8, w_c2_r1_s2, acc_p0_c5);
        acc_p0_c6 = fmaf(in_9, w_c0_r1_s2, acc_p0_c6); acc_p0_c7 = fmaf(in_10, w_c1_r1_s2, acc_p0_c7);
        acc_p0_c8 = fmaf(in_11, w_c2_r1_s2, acc_p0_c8); acc_p0_c9 = fmaf(in_12, w_c0_r1_s2, acc_p0_c9);
        acc_p0_c10 = fmaf(in_13, w_c1_r1_s2, acc_p0_c10); acc_p0_c11 = fmaf(in_14, w_c2_r1_s2, acc_p0_c11);
        // filter row 0
        acc_p1_c0 = in_m3 * w_c0_r0_s0; acc_p1_c1 = in_m2 * w_c1_r0_s0;
        acc_p1_c2 = in_m1 * w_c2_r0_s0; acc_p1_c3 = in_0 * w_c0_r0_s0;
        acc_p1_c4 = in_1 * w_c1_r0_s0; acc_p1_c5 = in_2 * w_c2_r0_s0;
        acc_p1_c6 = in_3 * w_c0_r0_s0; acc_p1_c7 = in_4 * w_c1_r0_s0;
        acc_p1_c8 = in_5 * w_c2_r0_s0; acc_p1_c9 = in_6 * w_c0_r0_s0;
        acc_p1_c10 = in_7 * w_c1_r0_s0; acc_p1_c11 = in_8 * w_c2_r0_s0;
        acc_p1_c0 = fmaf(in_0, w_c0_r0_s1, acc_p1_c0); acc_p1_c1 = fmaf(in_1, w_c1_r0_s1, acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, w_c2_r0_s1, acc_p1_c2); acc_p1_c3 = fmaf(in_3, w_c0_r0_s1, acc_p1_c3);
        acc_p1_c4 = fmaf(in_4, w_c1_r0_s1, acc_p1_c4); acc_p1_c5 = fmaf(in_5, w_c2_r0_s1, acc_p1_c5);
        acc_p1_c6 = fmaf(in_6, w_c0_r0_s1, acc_p1_c6); acc_p1_c7 = fmaf(in_7, w_c1_r0_s1, acc_p1_c7);
        acc_p1_c8 = fmaf(in_8, w_c2_r0_s1, acc_p1_c8); acc_p1_c9 = fmaf(in_9, w_c0_r0_s1, acc_p1_c9);
        acc_p1_c10 = fmaf(in_10, w_c1_r0_s1, acc_p1_c10); acc_p1_c11 = fmaf(in_11, w_c2_r0_s1, acc_p1_c11);
        acc_p1_c0 = fmaf(in_3, w_c0_r0_s2, acc_p1_c0); acc_p1_c1 = fmaf(in_4, w_c1_r0_s2, acc_p1_c1);
        acc_p1_c2 = fmaf(in_5, w_c2_r0_s2, acc_p1_c2); acc_p1_c3 = fmaf(in_6, w_c0_r0_s2, acc_p1_c3);
        acc_p1_c4 = fmaf(in_7, w_c1_r0_s2, acc_p1_c4); acc_p1_c5 = fmaf(in_8, w_c2_r0_s2, acc_p1_c5);
        acc_p1_c6 = fmaf(in_9, w_c0_r0_s2, acc_p1_c6); acc_p1_c7 = fmaf(in_10, w_c1_r0_s2, acc_p1_c7);
        acc_p1_c8 = fmaf(in_11, w_c2_r0_s2, acc_p1_c8); acc_p1_c9 = fmaf(in_12, w_c0_r0_s2, acc_p1_c9);
        acc_p1_c10 = fmaf(in_13, w_c1_r0_s2, acc_p1_c10); acc_p1_c11 = fmaf(in_14, w_c2_r0_s2, acc_p1_c11);
        if (at >= LIVE_ROWS - 1 && (INTERIOR || at < steps)) {
            const float value_c0 = finish(out_c0, bias_c0);
            const float value_c1 = finish(out_c1, bias_c1);
            const float value_c2 = finish(out_c2, bias_c2);
            const float value_c3 = finish(out_c3, bias_c0);
            const float value_c4 = finish(out_c4, bias_c1);
            const float value_c5 = finish(out_c5, bias_c2);
            const float value_c6 = finish(out_c6, bias_c0);
            const float value_c7 = finish(out_c7, bias_c1);
            const float value_c8 = finish(out_c8, bias_c2);
            const float value_c9 = finish(out_c9, bias_c0);
            const float value_c10 = finish(out_c10, bias_c1);
            const float value_c11 = finish(out_c11, bias_c2);
            const unsigned y_0 = wc_to_uint8s(value_c0, value_c1, value_c2, value_c3);
            const unsigned y_1 = wc_to_uint8s(value_c4, value_c5, value_c6, value_c7);
            const unsigned y_2 = wc_to_uint8s(value_c8, value_c9, value_c10, value_c11);
            if (INTERIOR || out_inside_0) *(unsigned*)(out) = y_0;
            if (INTERIOR || out_inside_1) *(unsigned*)(out + 4) = y_1;
            if (INTERIOR || out_inside_2) *(unsigned*)(out + 8) = y_2;
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
pixels_3x3(const unsigned char* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        unsigned char* __restrict__ y, int N, int H, int W, int P, int Q) {
    W *= CHANNELS;
    Q *= CHANNELS;
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
                          && column_first >= 4 && column_first + STRIP + 4 <= W && strip * STRIP + STRIP <= Q;
    // z counts output planes
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const unsigned char* x_plane = x + z * ((index_t)H * W);
        unsigned char* y_plane = y + z * ((index_t)P * Q);
        const float* w_plane = w;
        const float bias_c0 = bias[0];
        const float bias_c1 = bias[1];
        const float bias_c2 = bias[2];
        if (!has_outputs) continue;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, bias_c0, bias_c1, bias_c2, p_first, rows, q, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, bias_c0, bias_c1, bias_c2, p_first, rows_out, q, H, W, Q);
    }
}
