// warpconv 0.1.0: pixels, int8. Generated from templates/pixels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,4,4 --padding 1,2,1,2 --dtype int8 --arch sm_90 --algorithm pixels \
//     --set columns=4 --set vector=4 --set store_vector=4 --set sums=float --set weights=constant \
//     --set sub_block_rows=32 --set prefetch_rows=1 --set filters=1 --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 4, 4] -> y[N, 1, P, Q], stride 1, padding 1,2,1,2, int8
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of about 32 rows, 4 x 1 warps per block; 4 pixels a
//        load, 1 step ahead; sums by float
// cost   sub-block of 32 rows x 128 columns: 105 warp loads, 0 shuffles, 2240 FMA a lane, about 46 registers (direct:
//        2048 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads the words that hold its pixels and the
// filter's reach beside them. Each pixel becomes a float once, for all rows and columns of the filter.
// An input row is loaded once and added to the 4 output rows in work: acc_p0 is the oldest, and every chain of
// products ends in the register of the next older row, so the accumulators move on without a move.
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 1;                    // input rows of a step
constexpr int LIVE_ROWS = 4;                    // output rows in work at a time
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int PREFETCH = 1;                     // steps that are loaded ahead: those of a stage
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements

__constant__ float filter_bank[16];

constexpr unsigned BORDER = 0;                  // the bits of a pixel outside of the image

// Where in its row the pixel is that stands at `column`, less than 0 outside of the row; and its bits.
__device__ __forceinline__ int place_of(int column, int W) { return (unsigned)column < (unsigned)W ? column : -1; }
__device__ __forceinline__ unsigned pixel_at(const signed char* row, bool row_inside, int place) {
    return row_inside && place >= 0 ? __ldg((const unsigned char*)row + place) : BORDER;
}

// The words of an input row that hold what a lane needs; a word's number counts from the lane's own first column on.
struct Words {
    unsigned word_m1, word_0, word_1;
};

// What is the same in all rows: a lane's first column, whether it stores something, and where a row that lies partly
// outside of the image has the columns that it loads singly.
struct Lane {
    int column, W;
    bool active;
    int at_pixel_m1, at_pixel_4, at_pixel_5;

    __device__ __forceinline__ void find_columns() {
        at_pixel_m1 = place_of(column - 1, W);
        at_pixel_4 = place_of(column + 4, W);
        at_pixel_5 = place_of(column + 5, W);
    }
};

// An input row as a lane loads it. Nothing is done with what was loaded until words() is asked for, rows later.
template <bool INTERIOR> struct Row;

template <> struct Row<true> {
    unsigned word_m1;
    unsigned word_0;
    unsigned word_1;

    // `row`: at the lane's own first column
    __device__ __forceinline__ void load(const Lane&, const signed char*, const signed char* row, int, int) {
        word_m1 = __ldg((const unsigned*)(row - 4));
        word_0 = __ldg((const unsigned*)(row));
        word_1 = __ldg((const unsigned*)(row + 4));
    }

    __device__ __forceinline__ Words words() const {
        return {word_m1, word_0, word_1};
    }
};

// One that lies partly outside of the image: words where all is inside, else a pixel each.
template <> struct Row<false> {
    unsigned word_0;
    unsigned pixel_m1, pixel_4, pixel_5;

    __device__ __forceinline__ void load(const Lane& lane, const signed char* x, const signed char*, int h, int H) {
        const bool row_inside = (unsigned)h < (unsigned)H;
        const signed char* at = x + (index_t)h * lane.W;
        word_0 = row_inside && lane.column + 4 <= lane.W ? __ldg((const unsigned*)(at + lane.column)) : 0u;
        pixel_m1 = pixel_at(at, row_inside, lane.at_pixel_m1);
        pixel_4 = pixel_at(at, row_inside, lane.at_pixel_4);
        pixel_5 = pixel_at(at, row_inside, lane.at_pixel_5);
    }

    __device__ __forceinline__ Words words() const {
        return {pixel_m1 << 24, word_0, pixel_4 | pixel_5 << 8};
    }
};

// A pixel of a word as a float. Below the exponent of 2^23 its bits are a whole number; their sign bit being flipped,
// that number is the pixel and half of the range.
__device__ __forceinline__ float pixel(unsigned word, unsigned selector) {
    return __uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, selector)) - 8388736.0f;
}

// Four output values as int8, in a word: rounded to nearest even, limited to their range.
__device__ __forceinline__ unsigned wc_to_int8s(float a, float b, float c, float d) { unsigned word; asm("{ .reg .s32 i, j, k, l; .reg .b32 high; cvt.rni.s32.f32 i, %1; cvt.rni.s32.f32 j, %2; cvt.rni.s32.f32 k, %3; cvt.rni.s32.f32 l, %4; cvt.pack.sat.s8.s32.b32 high, l, k, 0; cvt.pack.sat.s8.s32.b32 %0, j, i, high; }" : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d)); return word; }

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const signed char* __restrict__ x, signed char* __restrict__ y, int p_first,
        int rows_out, int q, int H, int W, int Q) {
    Lane lane;
    lane.column = q;
    lane.W = W;
    lane.active = q < Q;
    if (!INTERIOR) lane.find_columns();
    const bool out_inside_0 = INTERIOR || q < Q;

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    int h = p_first - PAD_TOP, s = 0;
    const int steps = rows_out + LIVE_ROWS - 1;
    const index_t pitch = (index_t)W;
    const signed char* row = x + (index_t)h * W + lane.column;
    signed char* out = y + ((index_t)p_first - (LIVE_ROWS - 1)) * Q + q;
    float acc_p0_c0 = 0, acc_p0_c1 = 0, acc_p0_c2 = 0, acc_p0_c3 = 0,
        acc_p1_c0 = 0, acc_p1_c1 = 0, acc_p1_c2 = 0, acc_p1_c3 = 0,
        acc_p2_c0 = 0, acc_p2_c1 = 0, acc_p2_c2 = 0, acc_p2_c3 = 0;
    auto load = [&](Row<INTERIOR>& to) __attribute__((always_inline)) {
        to.load(lane, x, row, h, H);
        row += pitch;
        h += ROW_STEP;
    };
    auto step = [&](const Row<INTERIOR>* from, int at) __attribute__((always_inline)) {
        float out_c0, out_c1, out_c2, out_c3;
        const Words words = from[0].words();
        const float in_m1 = pixel(words.word_m1, 0x7443u);
        const float in_0 = pixel(words.word_0, 0x7440u);
        const float in_1 = pixel(words.word_0, 0x7441u);
        const float in_2 = pixel(words.word_0, 0x7442u);
        const float in_3 = pixel(words.word_0, 0x7443u);
        const float in_4 = pixel(words.word_1, 0x7440u);
        const float in_5 = pixel(words.word_1, 0x7441u);
        // filter row 3
        out_c0 = fmaf(in_m1, filter_bank[12], acc_p0_c0); out_c1 = fmaf(in_0, filter_bank[12], acc_p0_c1);
        out_c2 = fmaf(in_1, filter_bank[12], acc_p0_c2); out_c3 = fmaf(in_2, filter_bank[12], acc_p0_c3);
        out_c0 = fmaf(in_0, filter_bank[13], out_c0); out_c1 = fmaf(in_1, filter_bank[13], out_c1);
        out_c2 = fmaf(in_2, filter_bank[13], out_c2); out_c3 = fmaf(in_3, filter_bank[13], out_c3);
        out_c0 = fmaf(in_1, filter_bank[14], out_c0); out_c1 = fmaf(in_2, filter_bank[14], out_c1);
        out_c2 = fmaf(in_3, filter_bank[14], out_c2); out_c3 = fmaf(in_4, filter_bank[14], out_c3);
        out_c0 = fmaf(in_2, filter_bank[15], out_c0); out_c1 = fmaf(in_3, filter_bank[15], out_c1);
        out_c2 = fmaf(in_4, filter_bank[15], out_c2); out_c3 = fmaf(in_5, filter_bank[15], out_c3);
        // filter row 2
        acc_p0_c0 = fmaf(in_m1, filter_bank[8], acc_p1_c0); acc_p0_c1 = fmaf(in_0, filter_bank[8], acc_p1_c1);
        acc_p0_c2 = fmaf(in_1, filter_bank[8], acc_p1_c2); acc_p0_c3 = fmaf(in_2, filter_bank[8], acc_p1_c3);
        acc_p0_c0 = fmaf(in_0, filter_bank[9], acc_p0_c0); acc_p0_c1 = fmaf(in_1, filter_bank[9], acc_p0_c1);
        acc_p0_c2 = fmaf(in_2, filter_bank[9], acc_p0_c2); acc_p0_c3 = fmaf(in_3, filter_bank[9], acc_p0_c3);
        acc_p0_c0 = fmaf(in_1, filter_bank[10], acc_p0_c0); acc_p0_c1 = fmaf(in_2, filter_bank[10], acc_p0_c1);
        acc_p0_c2 = fmaf(in_3, filter_bank[10], acc_p0_c2); acc_p0_c3 = fmaf(in_4, filter_bank[10], acc_p0_c3);
        acc_p0_c0 = fmaf(in_2, filter_bank[11], acc_p0_c0); acc_p0_c1 = fmaf(in_3, filter_bank[11], acc_p0_c1);
        acc_p0_c2 = fmaf(in_4, filter_bank[11], acc_p0_c2); acc_p0_c3 = fmaf(in_5, filter_bank[11], acc_p0_c3);
        // filter row 1
        acc_p1_c0 = fmaf(in_m1, filter_bank[4], acc_p2_c0); acc_p1_c1 = fmaf(in_0, filter_bank[4], acc_p2_c1);
        acc_p1_c2 = fmaf(in_1, filter_bank[4], acc_p2_c2); acc_p1_c3 = fmaf(in_2, filter_bank[4], acc_p2_c3);
        acc_p1_c0 = fmaf(in_0, filter_bank[5], acc_p1_c0); acc_p1_c1 = fmaf(in_1, filter_bank[5], acc_p1_c1);
        acc_p1_c2 = fmaf(in_2, filter_bank[5], acc_p1_c2); acc_p1_c3 = fmaf(in_3, filter_bank[5], acc_p1_c3);
        acc_p1_c0 = fmaf(in_1, filter_bank[6], acc_p1_c0); acc_p1_c1 = fmaf(in_2, filter_bank[6], acc_p1_c1);
        acc_p1_c2 = fmaf(in_3, filter_bank[6], acc_p1_c2); acc_p1_c3 = fmaf(in_4, filter_bank[6], acc_p1_c3);
        acc_p1_c0 = fmaf(in_2, filter_bank[7], acc_p1_c0); acc_p1_c1 = fmaf(in_3, filter_bank[7], acc_p1_c1);
        acc_p1_c2 = fmaf(in_4, filter_bank[7], acc_p1_c2); acc_p1_c3 = fmaf(in_5, filter_bank[7], acc_p1_c3);
        // filter row 0
        acc_p2_c0 = in_m1 * filter_bank[0]; acc_p2_c1 = in_0 * filter_bank[0];
        acc_p2_c2 = in_1 * filter_bank[0]; acc_p2_c3 = in_2 * filter_bank[0];
        acc_p2_c0 = fmaf(in_0, filter_bank[1], acc_p2_c0); acc_p2_c1 = fmaf(in_1, filter_bank[1], acc_p2_c1);
        acc_p2_c2 = fmaf(in_2, filter_bank[1], acc_p2_c2); acc_p2_c3 = fmaf(in_3, filter_bank[1], acc_p2_c3);
        acc_p2_c0 = fmaf(in_1, filter_bank[2], acc_p2_c0); acc_p2_c1 = fmaf(in_2, filter_bank[2], acc_p2_c1);
        acc_p2_c2 = fmaf(in_3, filter_bank[2], acc_p2_c2); acc_p2_c3 = fmaf(in_4, filter_bank[2], acc_p2_c3);
        acc_p2_c0 = fmaf(in_2, filter_bank[3], acc_p2_c0); acc_p2_c1 = fmaf(in_3, filter_bank[3], acc_p2_c1);
        acc_p2_c2 = fmaf(in_4, filter_bank[3], acc_p2_c2); acc_p2_c3 = fmaf(in_5, filter_bank[3], acc_p2_c3);
        if (at >= LIVE_ROWS - 1 && (INTERIOR || at < steps)) {
            const unsigned y_0 = wc_to_int8s(out_c0, out_c1, out_c2, out_c3);
            if (INTERIOR || out_inside_0) *(unsigned*)(out) = y_0;
        }
        out += (index_t)Q;
    };

    Row<INTERIOR> rows[STEP_ROWS] = {};
#pragma unroll
    for (int i = 0; i < STEP_ROWS; ++i) load(rows[i]);
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
pixels_4x4(const signed char* __restrict__ x, const float* __restrict__ w, signed char* __restrict__ y, int N, int H,
        int W, int P, int Q) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = blockIdx.x * WARP_COLUMNS + warp % WARP_COLUMNS;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = (P + bands - 1) / bands + LIVE_ROWS - 1;
    const int rows = stages - (LIVE_ROWS - 1);
    const int first = (blockIdx.y + warp / WARP_COLUMNS) * rows;                           // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    const int h_first = p_first - PAD_TOP, column_first = strip * STRIP;
    const bool has_outputs = p_first < P && strip * STRIP < Q;             // the same for all lanes of a warp
    // a sub-block whose every load lies in the image needs no guards
    const bool interior = rows_out == rows && h_first >= 0 && h_first + (stages - 1) < H
                          && column_first >= 4 && column_first + STRIP + 4 <= W && strip * STRIP + STRIP <= Q;
    // z counts output planes
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const signed char* x_plane = x + z * ((index_t)H * W);
        signed char* y_plane = y + z * ((index_t)P * Q);
        if (!has_outputs) continue;
        if (interior)
            sub_block<true>(x_plane, y_plane, p_first, rows, q, H, W, Q);
        else
            sub_block<false>(x_plane, y_plane, p_first, rows_out, q, H, W, Q);
    }
}
