// warpconv 0.1.0: pixels, int16. Generated from templates/pixels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,2,6 --stride 2,2 --padding 0,2 --padding-mode constant \
//     --padding-value 1 --dtype int16 --weight-dtype int16 --cast truncate --arch sm_90 --algorithm pixels \
//     --set columns=4 --set vector=4 --set store_vector=2 --set sums=mad --set weights=shared \
//     --set sub_block_rows=32 --set prefetch_rows=1 --set filters=1 --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 2, 6] -> y[N, 1, P, Q], stride 2, padding 0,2 (constant), int16 with int16 filters
//        (truncated)
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments (W a multiple
//        of 4; Q a multiple of 2); all else is a constant of the text
// plan   4 columns per lane, strips of 128 columns, sub-blocks of about 32 rows, 4 x 1 warps per block; 4 pixels a
//        load, 1 step ahead; sums by mad
// cost   sub-block of 32 rows x 128 columns: 256 warp loads, 0 shuffles, 1536 FMA a lane, about 84 registers (direct:
//        1536 loads)
//
// A lane makes 4 neighbouring output columns and walks down the rows. It loads the words that hold its pixels and the
// filter's reach beside them. Each pixel becomes an int once, for all rows and columns of the filter.
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 2;                    // input rows of a step
constexpr int COLUMNS = 4;                      // output columns of a lane
constexpr int STRIP = 128;                      // output columns of a warp
constexpr int PREFETCH = 1;                     // steps that are loaded ahead: those of a stage
constexpr int WARP_COLUMNS = 4;                 // warps of a block, side by side
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The compiler reads memory again after it: 12 weights kept in registers would spill.
__device__ __forceinline__ void wc_read_again() { asm volatile("" ::: "memory"); }
__shared__ __align__(16) int tile[12];

// Where in its row the pixel is that stands at `column`, less than 0 outside of the row; and its bits.
__device__ __forceinline__ int place_of(int column, int W) { return (unsigned)column < (unsigned)W ? column : -1; }
__device__ __forceinline__ unsigned pixel_at(const short* row, bool row_inside, int place, unsigned BORDER) {
    return row_inside && place >= 0 ? __ldg((const unsigned short*)row + place) : __byte_perm(BORDER, 0u, 0x4410u);
}

// The words of an input row that hold what a lane needs; a word's number counts from the lane's own first column on.
struct Words {
    unsigned word_m1, word_0, word_1, word_2, word_3, word_4;
};

// What is the same in all rows: a lane's first column, whether it stores something, and where a row that lies partly
// outside of the image has the columns that it loads singly.
struct Lane {
    int column, W;
    bool active;
    unsigned BORDER;        // a word of the pixel that stands outside of the image
    int at_pixel_m2, at_pixel_m1, at_pixel_8, at_pixel_9;

    __device__ __forceinline__ void find_columns() {
        at_pixel_m2 = place_of(column - 2, W);
        at_pixel_m1 = place_of(column - 1, W);
        at_pixel_8 = place_of(column + 8, W);
        at_pixel_9 = place_of(column + 9, W);
    }
};

// An input row as a lane loads it. Nothing is done with what was loaded until words() is asked for, rows later.
template <bool INTERIOR> struct Row;

template <> struct Row<true> {
    unsigned word_m1;
    uint2 word_0;
    uint2 word_2;
    unsigned word_4;

    // `row`: at the lane's own first column
    __device__ __forceinline__ void load(const Lane&, const short*, const short* row, int, int) {
        word_m1 = __ldg((const unsigned*)(row - 2));
        word_0 = __ldg((const uint2*)(row));
        word_2 = __ldg((const uint2*)(row + 4));
        word_4 = __ldg((const unsigned*)(row + 8));
    }

    __device__ __forceinline__ Words words() const {
        return {word_m1, word_0.x, word_0.y, word_2.x,
               word_2.y, word_4};
    }
};

// One that lies partly outside of the image: words where all is inside, else a pixel each.
template <> struct Row<false> {
    uint2 word_0;
    uint2 word_2;
    unsigned pixel_m2, pixel_m1, pixel_8, pixel_9;

    __device__ __forceinline__ void load(const Lane& lane, const short* x, const short*, int h, int H) {
        const bool row_inside = (unsigned)h < (unsigned)H;
        const short* at = x + (index_t)h * lane.W;
        word_0 = row_inside && lane.column + 4 <= lane.W ? __ldg((const uint2*)(at + lane.column))
            : make_uint2(lane.BORDER, lane.BORDER);
        word_2 = row_inside && lane.column + 8 <= lane.W ? __ldg((const uint2*)(at + lane.column + 4))
            : make_uint2(lane.BORDER, lane.BORDER);
        pixel_m2 = pixel_at(at, row_inside, lane.at_pixel_m2, lane.BORDER);
        pixel_m1 = pixel_at(at, row_inside, lane.at_pixel_m1, lane.BORDER);
        pixel_8 = pixel_at(at, row_inside, lane.at_pixel_8, lane.BORDER);
        pixel_9 = pixel_at(at, row_inside, lane.at_pixel_9, lane.BORDER);
    }

    __device__ __forceinline__ Words words() const {
        return {pixel_m2 | pixel_m1 << 16, word_0.x, word_0.y,
               word_2.x, word_2.y, pixel_8 | pixel_9 << 16};
    }
};

// A value as the int16 to store: rounded to zero, modulo 2^16
__device__ __forceinline__ short to_element(int value) {
    return (short)value;
}

// Two output values in a word.
__device__ __forceinline__ unsigned to_word(int a, int b) { return __byte_perm(to_element(a), to_element(b), 0x5410u); }

// 32 lanes, 4 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const short* __restrict__ x, short* __restrict__ y, int p_first, int rows_out,
        int q, int H, int W, int Q, unsigned BORDER) {
    Lane lane;
    lane.column = q * STRIDE_W;
    lane.W = W;
    lane.active = q < Q;
    lane.BORDER = BORDER;
    if (!INTERIOR) lane.find_columns();
    const bool out_inside_0 = INTERIOR || q < Q;
    const bool out_inside_1 = INTERIOR || q + 2 < Q;

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    int h = p_first * STRIDE_H, s = 0;
    const int steps = rows_out;
    const index_t pitch = (index_t)W;
    const short* row = x + (index_t)h * W + lane.column;
    short* out = y + (index_t)p_first * Q + q;
    auto load = [&](Row<INTERIOR>& to) __attribute__((always_inline)) {
        to.load(lane, x, row, h, H);
        row += pitch;
        h += ROW_STEP;
    };
    auto step = [&](const Row<INTERIOR>* from, int at) __attribute__((always_inline)) {
        int out_c0, out_c1, out_c2, out_c3;
        const Words words_u0 = from[0].words();
        const Words words_u1 = from[1].words();
        const int in_m2_u0 = (short)words_u0.word_m1;
        const int in_m1_u0 = (short)(words_u0.word_m1 >> 16);
        const int in_0_u0 = (short)words_u0.word_0;
        const int in_1_u0 = (short)(words_u0.word_0 >> 16);
        const int in_2_u0 = (short)words_u0.word_1;
        const int in_3_u0 = (short)(words_u0.word_1 >> 16);
        const int in_4_u0 = (short)words_u0.word_2;
        const int in_5_u0 = (short)(words_u0.word_2 >> 16);
        const int in_6_u0 = (short)words_u0.word_3;
        const int in_7_u0 = (short)(words_u0.word_3 >> 16);
        const int in_8_u0 = (short)words_u0.word_4;
        const int in_9_u0 = (short)(words_u0.word_4 >> 16);
        const int in_m2_u1 = (short)words_u1.word_m1;
        const int in_m1_u1 = (short)(words_u1.word_m1 >> 16);
        const int in_0_u1 = (short)words_u1.word_0;
        const int in_1_u1 = (short)(words_u1.word_0 >> 16);
        const int in_2_u1 = (short)words_u1.word_1;
        const int in_3_u1 = (short)(words_u1.word_1 >> 16);
        const int in_4_u1 = (short)words_u1.word_2;
        const int in_5_u1 = (short)(words_u1.word_2 >> 16);
        const int in_6_u1 = (short)words_u1.word_3;
        const int in_7_u1 = (short)(words_u1.word_3 >> 16);
        const int in_8_u1 = (short)words_u1.word_4;
        const int in_9_u1 = (short)(words_u1.word_4 >> 16);
        // filter rows 0, 1
        wc_read_again();
        const int w_r0_s0 = tile[0], w_r0_s1 = tile[1], w_r0_s2 = tile[2], w_r0_s3 = tile[3], w_r0_s4 = tile[4],
            w_r0_s5 = tile[5];
        const int w_r1_s0 = tile[6], w_r1_s1 = tile[7], w_r1_s2 = tile[8], w_r1_s3 = tile[9], w_r1_s4 = tile[10],
            w_r1_s5 = tile[11];
        out_c0 = in_m2_u0 * w_r0_s0; out_c1 = in_0_u0 * w_r0_s0;
        out_c2 = in_2_u0 * w_r0_s0; out_c3 = in_4_u0 * w_r0_s0;
        out_c0 = in_m1_u0 * w_r0_s1 + out_c0; out_c1 = in_1_u0 * w_r0_s1 + out_c1;
        out_c2 = in_3_u0 * w_r0_s1 + out_c2; out_c3 = in_5_u0 * w_r0_s1 + out_c3;
        out_c0 = in_0_u0 * w_r0_s2 + out_c0; out_c1 = in_2_u0 * w_r0_s2 + out_c1;
        out_c2 = in_4_u0 * w_r0_s2 + out_c2; out_c3 = in_6_u0 * w_r0_s2 + out_c3;
        out_c0 = in_1_u0 * w_r0_s3 + out_c0; out_c1 = in_3_u0 * w_r0_s3 + out_c1;
        out_c2 = in_5_u0 * w_r0_s3 + out_c2; out_c3 = in_7_u0 * w_r0_s3 + out_c3;
        out_c0 = in_2_u0 * w_r0_s4 + out_c0; out_c1 = in_4_u0 * w_r0_s4 + out_c1;
        out_c2 = in_6_u0 * w_r0_s4 + out_c2; out_c3 = in_8_u0 * w_r0_s4 + out_c3;
        out_c0 = in_3_u0 * w_r0_s5 + out_c0; out_c1 = in_5_u0 * w_r0_s5 + out_c1;
        out_c2 = in_7_u0 * w_r0_s5 + out_c2; out_c3 = in_9_u0 * w_r0_s5 + out_c3;
        out_c0 = in_m2_u1 * w_r1_s0 + out_c0; out_c1 = in_0_u1 * w_r1_s0 + out_c1;
        out_c2 = in_2_u1 * w_r1_s0 + out_c2; out_c3 = in_4_u1 * w_r1_s0 + out_c3;
        out_c0 = in_m1_u1 * w_r1_s1 + out_c0; out_c1 = in_1_u1 * w_r1_s1 + out_c1;
        out_c2 = in_3_u1 * w_r1_s1 + out_c2; out_c3 = in_5_u1 * w_r1_s1 + out_c3;
        out_c0 = in_0_u1 * w_r1_s2 + out_c0; out_c1 = in_2_u1 * w_r1_s2 + out_c1;
        out_c2 = in_4_u1 * w_r1_s2 + out_c2; out_c3 = in_6_u1 * w_r1_s2 + out_c3;
        out_c0 = in_1_u1 * w_r1_s3 + out_c0; out_c1 = in_3_u1 * w_r1_s3 + out_c1;
        out_c2 = in_5_u1 * w_r1_s3 + out_c2; out_c3 = in_7_u1 * w_r1_s3 + out_c3;
        out_c0 = in_2_u1 * w_r1_s4 + out_c0; out_c1 = in_4_u1 * w_r1_s4 + out_c1;
        out_c2 = in_6_u1 * w_r1_s4 + out_c2; out_c3 = in_8_u1 * w_r1_s4 + out_c3;
        out_c0 = in_3_u1 * w_r1_s5 + out_c0; out_c1 = in_5_u1 * w_r1_s5 + out_c1;
        out_c2 = in_7_u1 * w_r1_s5 + out_c2; out_c3 = in_9_u1 * w_r1_s5 + out_c3;
        if (at >= 0 && (INTERIOR || at < steps)) {
            const unsigned y_0 = to_word(out_c0, out_c1);
            const unsigned y_1 = to_word(out_c2, out_c3);
            if (INTERIOR || out_inside_0) *(unsigned*)(out) = y_0;
            if (INTERIOR || out_inside_1) *(unsigned*)(out + 2) = y_1;
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
            step(rows + i * STEP_ROWS, s + i);
            if (more) {
#pragma unroll
                for (int u = 0; u < STEP_ROWS; ++u) load(rows[i * STEP_ROWS + u]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
pixels_2x6(const short* __restrict__ x, const short* __restrict__ w, short* __restrict__ y, int N, int H, int W, int P,
        int Q, unsigned BORDER) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = blockIdx.x * WARP_COLUMNS + warp % WARP_COLUMNS;
    const int q = strip * STRIP + lane * COLUMNS;                          // this lane's first output column

    // the rows of a sub-block follow from the grid; whole stages of steps leave none that is computed for nothing
    const int bands = gridDim.y, stages = (P + bands - 1) / bands;
    const int rows = stages;
    const int first = (blockIdx.y + warp / WARP_COLUMNS) * rows;                           // output row
    const int p_first = first;
    const int rows_out = min(rows, P - p_first);
    const int h_first = p_first * STRIDE_H, column_first = strip * (STRIP * STRIDE_W);
    const bool has_outputs = p_first < P && strip * STRIP < Q;             // the same for all lanes of a warp
    // a sub-block whose every load lies in the image needs no guards
    const bool interior = rows_out == rows && h_first >= 0 && h_first + (stages * STEP_ROWS - 1) < H
                          && column_first >= 2 && column_first + STRIP * STRIDE_W + 2 <= W
                              && strip * STRIP + STRIP <= Q;
    // z counts output planes
    for (index_t z = blockIdx.z; z < (index_t)N; z += gridDim.z) {
        const short* x_plane = x + z * ((index_t)H * W);
        short* y_plane = y + z * ((index_t)P * Q);
        const short* w_plane = w;
        __syncthreads();
        for (int i = threadIdx.x; i < 12; i += 128) tile[i] = __ldg(w_plane + i);
        __syncthreads();
        if (!has_outputs) continue;
        if (interior)
            sub_block<true>(x_plane, y_plane, p_first, rows, q, H, W, Q, BORDER);
        else
            sub_block<false>(x_plane, y_plane, p_first, rows_out, q, H, W, Q, BORDER);
    }
}
