// warpconv 0.1.0: pixels, uint8. Generated from templates/pixels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 4,3,3 --padding 1 --dtype uint8 --epilogue bias --arch sm_90 \
//     --algorithm pixels \
//     --set columns=8 --set vector=8 --set store_vector=8 --set sums=float --set weights=registers \
//     --set sub_block_rows=32 --set prefetch_rows=2 --set filters=2 --set warp_columns=2 --set warp_rows=1 \
//     --set warp_planes=2 --set min_blocks=3
//
// layer  x[N, 1, H, W] * w[4, 1, 3, 3] -> y[N, 4, P, Q], stride 1, padding 1, uint8, then bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8); all else is a constant of the text
// plan   8 columns per lane for 2 filters, strips of 256 columns, sub-blocks of about 32 rows, 2 x 1 x 2 warps per
//        block; 8 pixels a load, 2 steps ahead; sums by float
// cost   sub-block of 32 rows x 256 columns: 102 warp loads, 0 shuffles, 4896 FMA a lane, about 102 registers (direct:
//        4608 loads)
//
// A lane makes 8 neighbouring output columns and walks down the rows. It loads the words that hold its pixels and the
// filter's reach beside them. Each pixel becomes a float once, for all rows and columns of the filter.
// An input row is loaded once and added to the 3 output rows in work: acc_p0 is the oldest, and every chain of
// products ends in the register of the next older row, so the accumulators move on without a move.
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 1;                    // input rows of a step
constexpr int LIVE_ROWS = 3;                    // output rows in work at a time
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int STRIP = 256;                      // output columns of a warp
constexpr int PREFETCH = 2;                     // steps that are loaded ahead: those of a stage
constexpr int WARP_COLUMNS = 2;                 // warps of a block, side by side
constexpr int WARP_PLANES = 2;                  // and of other filters over the same rows
constexpr int LANE_FILTERS = 2;                 // to whose sums a lane adds a row
constexpr int K = 4;                            // output planes of an image
constexpr int FILTERS = 4;                      // output planes of one of its channels
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

constexpr unsigned BORDER = 0;                  // the bits of a pixel outside of the image

// Where in its row the pixel is that stands at `column`, less than 0 outside of the row; and its bits.
__device__ __forceinline__ int place_of(int column, int W) { return (unsigned)column < (unsigned)W ? column : -1; }
__device__ __forceinline__ unsigned pixel_at(const unsigned char* row, bool row_inside, int place) {
    return row_inside && place >= 0 ? __ldg((const unsigned char*)row + place) : BORDER;
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
    int at_pixel_m1, at_pixel_8;

    __device__ __forceinline__ void find_columns() {
        at_pixel_m1 = place_of(column - 1, W);
        at_pixel_8 = place_of(column + 8, W);
    }
};

// An input row as a lane loads it. Nothing is done with what was loaded until words() is asked for, rows later.
template <bool INTERIOR> struct Row;

template <> struct Row<true> {
    unsigned word_m1;
    uint2 word_0;
    unsigned word_2;

    // `row`: at the lane's own first column
    __device__ __forceinline__ void load(const Lane&, const unsigned char*, const unsigned char* row, int, int) {
        word_m1 = __ldg((const unsigned*)(row - 4));
        word_0 = __ldg((const uint2*)(row));
        word_2 = __ldg((const unsigned*)(row + 8));
    }

    __device__ __forceinline__ Words words() const {
        return {word_m1, word_0.x, word_0.y, word_2};
    }
};

// One that lies partly outside of the image: words where all is inside, else a pixel each.
template <> struct Row<false> {
    uint2 word_0;
    unsigned pixel_m1, pixel_8;

    __device__ __forceinline__ void load(const Lane& lane, const unsigned char* x, const unsigned char*, int h, int H) {
        const bool row_inside = (unsigned)h < (unsigned)H;
        const unsigned char* at = x + (index_t)h * lane.W;
        word_0 = row_inside && lane.column + 8 <= lane.W ? __ldg((const uint2*)(at + lane.column)) : make_uint2(0u, 0u);
        pixel_m1 = pixel_at(at, row_inside, lane.at_pixel_m1);
        pixel_8 = pixel_at(at, row_inside, lane.at_pixel_8);
    }

    __device__ __forceinline__ Words words() const {
        return {pixel_m1 << 24, word_0.x, word_0.y,
               pixel_8};
    }
};

// A pixel of a word as a float. Below the exponent of 2^23 its bits are a whole number; subtracting 2^23 leaves the
// pixel.
__device__ __forceinline__ float pixel(unsigned word, unsigned selector) {
    return __uint_as_float(__byte_perm(word, 0x4b000000u, selector)) - 8388608.0f;
}

// Four output values as uint8, in a word: rounded to nearest even, limited to their range.
__device__ __forceinline__ unsigned wc_to_uint8s(float a, float b, float c, float d) { unsigned word; asm("{ .reg .s32 i, j, k, l; .reg .b32 high; cvt.rni.s32.f32 i, %1; cvt.rni.s32.f32 j, %2; cvt.rni.s32.f32 k, %3; cvt.rni.s32.f32 l, %4; cvt.pack.sat.u8.s32.b32 high, l, k, 0; cvt.pack.sat.u8.s32.b32 %0, j, i, high; }" : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d)); return word; }

// 32 lanes, 8 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const unsigned char* __restrict__ x, const float* __restrict__ w,
        unsigned char* __restrict__ y, float bias_k0, float bias_k1, index_t plane_y, int p_first, int rows_out, int q,
        int H, int W, int Q) {
    Lane lane;
    lane.column = q;
    lane.W = W;
    lane.active = q < Q;
    if (!INTERIOR) lane.find_columns();
    const bool out_inside_0 = INTERIOR || q < Q;
    // filters, a register per weight
    const float w_r0_s0_k0 = __ldg(w), w_r0_s1_k0 = __ldg(w + 1), w_r0_s2_k0 = __ldg(w + 2);
    const float w_r1_s0_k0 = __ldg(w + 3), w_r1_s1_k0 = __ldg(w + 4), w_r1_s2_k0 = __ldg(w + 5);
    const float w_r2_s0_k0 = __ldg(w + 6), w_r2_s1_k0 = __ldg(w + 7), w_r2_s2_k0 = __ldg(w + 8);
    const float w_r0_s0_k1 = __ldg(w + (R * S)), w_r0_s1_k1 = __ldg(w + (R * S) + 1),
        w_r0_s2_k1 = __ldg(w + (R * S) + 2);
    const float w_r1_s0_k1 = __ldg(w + (R * S) + 3), w_r1_s1_k1 = __ldg(w + (R * S) + 4),
        w_r1_s2_k1 = __ldg(w + (R * S) + 5);
    const float w_r2_s0_k1 = __ldg(w + (R * S) + 6), w_r2_s1_k1 = __ldg(w + (R * S) + 7),
        w_r2_s2_k1 = __ldg(w + (R * S) + 8);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    int h = p_first - PAD_TOP, s = 0;
    const int steps = rows_out + LIVE_ROWS - 1;
    const index_t pitch = (index_t)W;
    const unsigned char* row = x + (index_t)h * W + lane.column;
    unsigned char* out = y + ((index_t)p_first - (LIVE_ROWS - 1)) * Q + q;
    float acc_p0_c0_k0 = 0, acc_p0_c1_k0 = 0, acc_p0_c2_k0 = 0, acc_p0_c3_k0 = 0, acc_p0_c4_k0 = 0, acc_p0_c5_k0 = 0,
        acc_p0_c6_k0 = 0, acc_p0_c7_k0 = 0,
        acc_p1_c0_k0 = 0, acc_p1_c1_k0 = 0, acc_p1_c2_k0 = 0, acc_p1_c3_k0 = 0, acc_p1_c4_k0 = 0, acc_p1_c5_k0 = 0,
            acc_p1_c6_k0 = 0, acc_p1_c7_k0 = 0;
    float acc_p0_c0_k1 = 0, acc_p0_c1_k1 = 0, acc_p0_c2_k1 = 0, acc_p0_c3_k1 = 0, acc_p0_c4_k1 = 0, acc_p0_c5_k1 = 0,
        acc_p0_c6_k1 = 0, acc_p0_c7_k1 = 0,
        acc_p1_c0_k1 = 0, acc_p1_c1_k1 = 0, acc_p1_c2_k1 = 0, acc_p1_c3_k1 = 0, acc_p1_c4_k1 = 0, acc_p1_c5_k1 = 0,
            acc_p1_c6_k1 = 0, acc_p1_c7_k1 = 0;
    auto load = [&](Row<INTERIOR>& to) __attribute__((always_inline)) {
        to.load(lane, x, row, h, H);
        row += pitch;
        h += ROW_STEP;
    };
    auto step = [&](const Row<INTERIOR>* from, int at) __attribute__((always_inline)) {
        float out_c0_k0, out_c1_k0, out_c2_k0, out_c3_k0, out_c4_k0, out_c5_k0, out_c6_k0, out_c7_k0;
        float out_c0_k1, out_c1_k1, out_c2_k1, out_c3_k1, out_c4_k1, out_c5_k1, out_c6_k1, out_c7_k1;
        const Words words = from[0].words();
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
        // filter row 2
        out_c0_k0 = fmaf(in_m1, w_r2_s0_k0, acc_p0_c0_k0); out_c1_k0 = fmaf(in_0, w_r2_s0_k0, acc_p0_c1_k0);
        out_c2_k0 = fmaf(in_1, w_r2_s0_k0, acc_p0_c2_k0); out_c3_k0 = fmaf(in_2, w_r2_s0_k0, acc_p0_c3_k0);
        out_c4_k0 = fmaf(in_3, w_r2_s0_k0, acc_p0_c4_k0); out_c5_k0 = fmaf(in_4, w_r2_s0_k0, acc_p0_c5_k0);
        out_c6_k0 = fmaf(in_5, w_r2_s0_k0, acc_p0_c6_k0); out_c7_k0 = fmaf(in_6, w_r2_s0_k0, acc_p0_c7_k0);
        out_c0_k0 = fmaf(in_0, w_r2_s1_k0, out_c0_k0); out_c1_k0 = fmaf(in_1, w_r2_s1_k0, out_c1_k0);
        out_c2_k0 = fmaf(in_2, w_r2_s1_k0, out_c2_k0); out_c3_k0 = fmaf(in_3, w_r2_s1_k0, out_c3_k0);
        out_c4_k0 = fmaf(in_4, w_r2_s1_k0, out_c4_k0); out_c5_k0 = fmaf(in_5, w_r2_s1_k0, out_c5_k0);
        out_c6_k0 = fmaf(in_6, w_r2_s1_k0, out_c6_k0); out_c7_k0 = fmaf(in_7, w_r2_s1_k0, out_c7_k0);
        out_c0_k0 = fmaf(in_1, w_r2_s2_k0, out_c0_k0); out_c1_k0 = fmaf(in_2, w_r2_s2_k0, out_c1_k0);
        out_c2_k0 = fmaf(in_3, w_r2_s2_k0, out_c2_k0); out_c3_k0 = fmaf(in_4, w_r2_s2_k0, out_c3_k0);
        out_c4_k0 = fmaf(in_5, w_r2_s2_k0, out_c4_k0); out_c5_k0 = fmaf(in_6, w_r2_s2_k0, out_c5_k0);
        out_c6_k0 = fmaf(in_7, w_r2_s2_k0, out_c6_k0); out_c7_k0 = fmaf(in_8, w_r2_s2_k0, out_c7_k0);
        out_c0_k1 = fmaf(in_m1, w_r2_s0_k1, acc_p0_c0_k1); out_c1_k1 = fmaf(in_0, w_r2_s0_k1, acc_p0_c1_k1);
        out_c2_k1 = fmaf(in_1, w_r2_s0_k1, acc_p0_c2_k1); out_c3_k1 = fmaf(in_2, w_r2_s0_k1, acc_p0_c3_k1);
        out_c4_k1 = fmaf(in_3, w_r2_s0_k1, acc_p0_c4_k1); out_c5_k1 = fmaf(in_4, w_r2_s0_k1, acc_p0_c5_k1);
        out_c6_k1 = fmaf(in_5, w_r2_s0_k1, acc_p0_c6_k1); out_c7_k1 = fmaf(in_6, w_r2_s0_k1, acc_p0_c7_k1);
        out_c0_k1 = fmaf(in_0, w_r2_s1_k1, out_c0_k1); out_c1_k1 = fmaf(in_1, w_r2_s1_k1, out_c1_k1);
        out_c2_k1 = fmaf(in_2, w_r2_s1_k1, out_c2_k1); out_c3_k1 = fmaf(in_3, w_r2_s1_k1, out_c3_k1);
        out_c4_k1 = fmaf(in_4, w_r2_s1_k1, out_c4_k1); out_c5_k1 = fmaf(in_5, w_r2_s1_k1, out_c5_k1);
        out_c6_k1 = fmaf(in_6, w_r2_s1_k1, out_c6_k1); out_c7_k1 = fmaf(in_7, w_r2_s1_k1, out_c7_k1);
        out_c0_k1 = fmaf(in_1, w_r2_s2_k1, out_c0_k1); out_c1_k1 = fmaf(in_2, w_r2_s2_k1, out_c1_k1);
        out_c2_k1 = fmaf(in_3, w_r2_s2_k1, out_c2_k1); out_c3_k1 = fmaf(in_4, w_r2_s2_k1, out_c3_k1);
        out_c4_k1 = fmaf(in_5, w_r2_s2_k1, out_c4_k1); out_c5_k1 = fmaf(in_6, w_r2_s2_k1, out_c5_k1);
        out_c6_k1 = fmaf(in_7, w_r2_s2_k1, out_c6_k1); out_c7_k1 = fmaf(in_8, w_r2_s2_k1, out_c7_k1);
        // filter row 1
        acc_p0_c0_k0 = fmaf(in_m1, w_r1_s0_k0, acc_p1_c0_k0); acc_p0_c1_k0 = fmaf(in_0, w_r1_s0_k0, acc_p1_c1_k0);
        acc_p0_c2_k0 = fmaf(in_1, w_r1_s0_k0, acc_p1_c2_k0); acc_p0_c3_k0 = fmaf(in_2, w_r1_s0_k0, acc_p1_c3_k0);
        acc_p0_c4_k0 = fmaf(in_3, w_r1_s0_k0, acc_p1_c4_k0); acc_p0_c5_k0 = fmaf(in_4, w_r1_s0_k0, acc_p1_c5_k0);
        acc_p0_c6_k0 = fmaf(in_5, w_r1_s0_k0, acc_p1_c6_k0); acc_p0_c7_k0 = fmaf(in_6, w_r1_s0_k0, acc_p1_c7_k0);
        acc_p0_c0_k0 = fmaf(in_0, w_r1_s1_k0, acc_p0_c0_k0); acc_p0_c1_k0 = fmaf(in_1, w_r1_s1_k0, acc_p0_c1_k0);
        acc_p0_c2_k0 = fmaf(in_2, w_r1_s1_k0, acc_p0_c2_k0); acc_p0_c3_k0 = fmaf(in_3, w_r1_s1_k0, acc_p0_c3_k0);
        acc_p0_c4_k0 = fmaf(in_4, w_r1_s1_k0, acc_p0_c4_k0); acc_p0_c5_k0 = fmaf(in_5, w_r1_s1_k0, acc_p0_c5_k0);
        acc_p0_c6_k0 = fmaf(in_6, w_r1_s1_k0, acc_p0_c6_k0); acc_p0_c7_k0 = fmaf(in_7, w_r1_s1_k0, acc_p0_c7_k0);
        acc_p0_c0_k0 = fmaf(in_1, w_r1_s2_k0, acc_p0_c0_k0); acc_p0_c1_k0 = fmaf(in_2, w_r1_s2_k0, acc_p0_c1_k0);
        acc_p0_c2_k0 = fmaf(in_3, w_r1_s2_k0, acc_p0_c2_k0); acc_p0_c3_k0 = fmaf(in_4, w_r1_s2_k0, acc_p0_c3_k0);
        acc_p0_c4_k0 = fmaf(in_5, w_r1_s2_k0, acc_p0_c4_k0); acc_p0_c5_k0 = fmaf(in_6, w_r1_s2_k0, acc_p0_c5_k0);
        acc_p0_c6_k0 = fmaf(in_7, w_r1_s2_k0, acc_p0_c6_k0); acc_p0_c7_k0 = fmaf(in_8, w_r1_s2_k0, acc_p0_c7_k0);
        acc_p0_c0_k1 = fmaf(in_m1, w_r1_s0_k1, acc_p1_c0_k1); acc_p0_c1_k1 = fmaf(in_0, w_r1_s0_k1, acc_p1_c1_k1);
        acc_p0_c2_k1 = fmaf(in_1, w_r1_s0_k1, acc_p1_c2_k1); acc_p0_c3_k1 = fmaf(in_2, w_r1_s0_k1, acc_p1_c3_k1);
        acc_p0_c4_k1 = fmaf(in_3, w_r1_s0_k1, acc_p1_c4_k1); acc_p0_c5_k1 = fmaf(in_4, w_r1_s0_k1, acc_p1_c5_k1);
        acc_p0_c6_k1 = fmaf(in_5, w_r1_s0_k1, acc_p1_c6_k1); acc_p0_c7_k1 = fmaf(in_6, w_r1_s0_k1, acc_p1_c7_k1);
        acc_p0_c0_k1 = fmaf(in_0, w_r1_s1_k1, acc_p0_c0_k1); acc_p0_c1_k1 = fmaf(in_1, w_r1_s1_k1, acc_p0_c1_k1);
        acc_p0_c2_k1 = fmaf(in_2, w_r1_s1_k1, acc_p0_c2_k1); acc_p0_c3_k1 = fmaf(in_3, w_r1_s1_k1, acc_p0_c3_k1);
        acc_p0_c4_k1 = fmaf(in_4, w_r1_s1_k1, acc_p0_c4_k1); acc_p0_c5_k1 = fmaf(in_5, w_r1_s1_k1, acc_p0_c5_k1);
        acc_p0_c6_k1 = fmaf(in_6, w_r1_s1_k1, acc_p0_c6_k1); acc_p0_c7_k1 = fmaf(in_7, w_r1_s1_k1, acc_p0_c7_k1);
        acc_p0_c0_k1 = fmaf(in_1, w_r1_s2_k1, acc_p0_c0_k1); acc_p0_c1_k1 = fmaf(in_2, w_r1_s2_k1, acc_p0_c1_k1);
        acc_p0_c2_k1 = fmaf(in_3, w_r1_s2_k1, acc_p0_c2_k1); acc_p0_c3_k1 = fmaf(in_4, w_r1_s2_k1, acc_p0_c3_k1);
        acc_p0_c4_k1 = fmaf(in_5, w_r1_s2_k1, acc_p0_c4_k1); acc_p0_c5_k1 = fmaf(in_6, w_r1_s2_k1, acc_p0_c5_k1);
        acc_p0_c6_k1 = fmaf(in_7, w_r1_s2_k1, acc_p0_c6_k1); acc_p0_c7_k1 = fmaf(in_8, w_r1_s2_k1, acc_p0_c7_k1);
        // filter row 0
        acc_p1_c0_k0 = in_m1 * w_r0_s0_k0; acc_p1_c1_k0 = in_0 * w_r0_s0_k0;
        acc_p1_c2_k0 = in_1 * w_r0_s0_k0; acc_p1_c3_k0 = in_2 * w_r0_s0_k0;
        acc_p1_c4_k0 = in_3 * w_r0_s0_k0; acc_p1_c5_k0 = in_4 * w_r0_s0_k0;
        acc_p1_c6_k0 = in_5 * w_r0_s0_k0; acc_p1_c7_k0 = in_6 * w_r0_s0_k0;
        acc_p1_c0_k0 = fmaf(in_0, w_r0_s1_k0, acc_p1_c0_k0); acc_p1_c1_k0 = fmaf(in_1, w_r0_s1_k0, acc_p1_c1_k0);
        acc_p1_c2_k0 = fmaf(in_2, w_r0_s1_k0, acc_p1_c2_k0); acc_p1_c3_k0 = fmaf(in_3, w_r0_s1_k0, acc_p1_c3_k0);
        acc_p1_c4_k0 = fmaf(in_4, w_r0_s1_k0, acc_p1_c4_k0); acc_p1_c5_k0 = fmaf(in_5, w_r0_s1_k0, acc_p1_c5_k0);
        acc_p1_c6_k0 = fmaf(in_6, w_r0_s1_k0, acc_p1_c6_k0); acc_p1_c7_k0 = fmaf(in_7, w_r0_s1_k0, acc_p1_c7_k0);
        acc_p1_c0_k0 = fmaf(in_1, w_r0_s2_k0, acc_p1_c0_k0); acc_p1_c1_k0 = fmaf(in_2, w_r0_s2_k0, acc_p1_c1_k0);
        acc_p1_c2_k0 = fmaf(in_3, w_r0_s2_k0, acc_p1_c2_k0); acc_p1_c3_k0 = fmaf(in_4, w_r0_s2_k0, acc_p1_c3_k0);
        acc_p1_c4_k0 = fmaf(in_5, w_r0_s2_k0, acc_p1_c4_k0); acc_p1_c5_k0 = fmaf(in_6, w_r0_s2_k0, acc_p1_c5_k0);
        acc_p1_c6_k0 = fmaf(in_7, w_r0_s2_k0, acc_p1_c6_k0); acc_p1_c7_k0 = fmaf(in_8, w_r0_s2_k0, acc_p1_c7_k0);
        acc_p1_c0_k1 = in_m1 * w_r0_s0_k1; acc_p1_c1_k1 = in_0 * w_r0_s0_k1;
        acc_p1_c2_k1 = in_1 * w_r0_s0_k1; acc_p1_c3_k1 = in_2 * w_r0_s0_k1;
        acc_p1_c4_k1 = in_3 * w_r0_s0_k1; acc_p1_c5_k1 = in_4 * w_r0_s0_k1;
        acc_p1_c6_k1 = in_5 * w_r0_s0_k1; acc_p1_c7_k1 = in_6 * w_r0_s0_k1;
        acc_p1_c0_k1 = fmaf(in_0, w_r0_s1_k1, acc_p1_c0_k1); acc_p1_c1_k1 = fmaf(in_1, w_r0_s1_k1, acc_p1_c1_k1);
        acc_p1_c2_k1 = fmaf(in_2, w_r0_s1_k1, acc_p1_c2_k1); acc_p1_c3_k1 = fmaf(in_3, w_r0_s1_k1, acc_p1_c3_k1);
        acc_p1_c4_k1 = fmaf(in_4, w_r0_s1_k1, acc_p1_c4_k1); acc_p1_c5_k1 = fmaf(in_5, w_r0_s1_k1, acc_p1_c5_k1);
        acc_p1_c6_k1 = fmaf(in_6, w_r0_s1_k1, acc_p1_c6_k1); acc_p1_c7_k1 = fmaf(in_7, w_r0_s1_k1, acc_p1_c7_k1);
        acc_p1_c0_k1 = fmaf(in_1, w_r0_s2_k1, acc_p1_c0_k1); acc_p1_c1_k1 = fmaf(in_2, w_r0_s2_k1, acc_p1_c1_k1);
        acc_p1_c2_k1 = fmaf(in_3, w_r0_s2_k1, acc_p1_c2_k1); acc_p1_c3_k1 = fmaf(in_4, w_r0_s2_k1, acc_p1_c3_k1);
        acc_p1_c4_k1 = fmaf(in_5, w_r0_s2_k1, acc_p1_c4_k1); acc_p1_c5_k1 = fmaf(in_6, w_r0_s2_k1, acc_p1_c5_k1);
        acc_p1_c6_k1 = fmaf(in_7, w_r0_s2_k1, acc_p1_c6_k1); acc_p1_c7_k1 = fmaf(in_8, w_r0_s2_k1, acc_p1_c7_k1);
        if (at >= LIVE_ROWS - 1 && (INTERIOR || at < steps)) {
            {
                const float value_c0_k0 = finish(out_c0_k0, bias_k0);
                const float value_c1_k0 = finish(out_c1_k0, bias_k0);
                const float value_c2_k0 = finish(out_c2_k0, bias_k0);
                const float value_c3_k0 = finish(out_c3_k0, bias_k0);
                const float value_c4_k0 = finish(out_c4_k0, bias_k0);
                const float value_c5_k0 = finish(out_c5_k0, bias_k0);
                const float value_c6_k0 = finish(out_c6_k0, bias_k0);
                const float value_c7_k0 = finish(out_c7_k0, bias_k0);
                const unsigned y_0 = wc_to_uint8s(value_c0_k0, value_c1_k0, value_c2_k0, value_c3_k0);
                const unsigned y_1 = wc_to_uint8s(value_c4_k0, value_c5_k0, value_c6_k0, value_c7_k0);
                if (INTERIOR || out_inside_0) *(uint2*)(out) = make_uint2(y_0, y_1);
            }
            {
                const float value_c0_k1 = finish(out_c0_k1, bias_k1);
                const float value_c1_k1 = finish(out_c1_k1, bias_k1);
                const float value_c2_k1 = finish(out_c2_k1, bias_k1);
                const float value_c3_k1 = finish(out_c3_k1, bias_k1);
                const float value_c4_k1 = finish(out_c4_k1, bias_k1);
                const float value_c5_k1 = finish(out_c5_k1, bias_k1);
                const float value_c6_k1 = finish(out_c6_k1, bias_k1);
                const float value_c7_k1 = finish(out_c7_k1, bias_k1);
                const unsigned y_0 = wc_to_uint8s(value_c0_k1, value_c1_k1, value_c2_k1, value_c3_k1);
                const unsigned y_1 = wc_to_uint8s(value_c4_k1, value_c5_k1, value_c6_k1, value_c7_k1);
                if (INTERIOR || out_inside_0) *(uint2*)(out + plane_y) = make_uint2(y_0, y_1);
            }
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

extern "C" __global__ void __launch_bounds__(128, 3)
pixels_3x3(const unsigned char* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        unsigned char* __restrict__ y, int N, int H, int W, int P, int Q) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = blockIdx.x * WARP_COLUMNS + warp % WARP_COLUMNS;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = ((P + bands - 1) / bands + LIVE_ROWS - 1 + PREFETCH - 1) / PREFETCH;
    const int rows = stages * PREFETCH - (LIVE_ROWS - 1);
    const int first = blockIdx.y * rows;                                                               // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    const int h_first = p_first - PAD_TOP, column_first = strip * STRIP;
    const bool has_outputs = p_first < P && strip * STRIP < Q;             // the same for all lanes of a warp
    // a sub-block whose every load lies in the image needs no guards
    const bool interior = rows_out == rows && h_first >= 0 && h_first + (stages * PREFETCH - 1) < H
                          && column_first >= 4 && column_first + STRIP + 4 <= W && strip * STRIP + STRIP <= Q;
    // z counts output planes, 4 of a block at a time
    for (index_t z = (blockIdx.z * WARP_PLANES + warp / WARP_COLUMNS) * LANE_FILTERS; z < (index_t)N * K;
            z += gridDim.z * WARP_PLANES * LANE_FILTERS) {
        const int k = (int)(z % K);
        const unsigned char* x_plane = x + (z / K * (K / FILTERS) + k / FILTERS) * ((index_t)H * W);
        unsigned char* y_plane = y + z * ((index_t)P * Q);
        const float* w_plane = w + (index_t)k * (R * S);
        const float bias_k0 = bias[k];
        const float bias_k1 = bias[k + 1];
        if (!has_outputs) continue;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, bias_k0, bias_k1, (index_t)P * Q, p_first, rows, q, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, bias_k0, bias_k1, (index_t)P * Q, p_first, rows_out, q, H, W,
                Q);
    }
}
