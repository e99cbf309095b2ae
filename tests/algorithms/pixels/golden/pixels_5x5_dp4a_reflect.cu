// warpconv 0.1.0: pixels, uint8. Generated from templates/pixels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,5,5 --padding 2 --padding-mode reflect --dtype uint8 \
//     --weight-dtype int8 --arch sm_90 --algorithm pixels \
//     --set columns=8 --set vector=8 --set store_vector=8 --set sums=dp4a --set weights=registers \
//     --set sub_block_rows=32 --set prefetch_rows=2 --set filters=1 --set warp_columns=4 --set warp_rows=1 \
//     --set warp_planes=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 5, 5] -> y[N, 1, P, Q], stride 1, padding 2 (reflect), uint8 with int8 filters
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8); all else is a constant of the text
// plan   8 columns per lane, strips of 256 columns, sub-blocks of about 32 rows, 4 x 1 warps per block; 8 pixels a
//        load, 2 steps ahead; sums by dp4a
// cost   sub-block of 32 rows x 256 columns: 108 warp loads, 0 shuffles, 2880 FMA a lane, about 91 registers (direct:
//        6400 loads)
//
// A lane makes 8 neighbouring output columns and walks down the rows. It loads the words that hold its pixels and the
// filter's reach beside them. Four neighbouring pixels meet four weights in one instruction (dp4a).
// An input row is loaded once and added to the 5 output rows in work: acc_p0 is the oldest, and every chain of
// products ends in the register of the next older row, so the accumulators move on without a move.
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int ROW_STEP = 1;                     // input rows from one filter row to the next
constexpr int STEP_ROWS = 1;                    // input rows of a step
constexpr int LIVE_ROWS = 5;                    // output rows in work at a time
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int STRIP = 256;                      // output columns of a warp
constexpr int PREFETCH = 2;                     // steps that are loaded ahead: those of a stage
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

// Where in its row the pixel is that stands at `column`, outside of the row too; and its bits.
__device__ __forceinline__ int place_of(int column, int W) { return at_border(column, W); }
__device__ __forceinline__ unsigned pixel_at(const unsigned char* row, bool, int place) {
    return __ldg((const unsigned char*)row + place);
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
    unsigned pixel_m2, pixel_m1, pixel_8, pixel_9;

    __device__ __forceinline__ void load(const Lane& lane, const unsigned char* x, const unsigned char*, int h, int H) {
        const bool row_inside = true;
        const unsigned char* at = x + (index_t)at_border(h, H) * lane.W;
        if (lane.column + 8 <= lane.W) {
            word_0 = __ldg((const uint2*)(at + lane.column));
        } else if (lane.active) {
            word_0.x = pixel_at(at, row_inside, place_of(lane.column, lane.W))
                | pixel_at(at, row_inside, place_of(lane.column + 1, lane.W)) << 8;
            word_0.y = 0;
        }
        pixel_m2 = pixel_at(at, row_inside, lane.at_pixel_m2);
        pixel_m1 = pixel_at(at, row_inside, lane.at_pixel_m1);
        pixel_8 = pixel_at(at, row_inside, lane.at_pixel_8);
        pixel_9 = pixel_at(at, row_inside, lane.at_pixel_9);
    }

    __device__ __forceinline__ Words words() const {
        return {pixel_m2 << 16 | pixel_m1 << 24, word_0.x, word_0.y,
               pixel_8 | pixel_9 << 8};
    }
};

// sum + the products of four unsigned and four signed bytes
__device__ __forceinline__ int wc_dot_mixed(unsigned a, int b, int sum) { int result; asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum)); return result; }

// Four weights of the filter: columns first .. first + 3 of row i / GROUPS, less those of other fours and beyond the
// row.
constexpr int GROUPS = (S + 3) / 4;
__device__ __forceinline__ int four_weights(const signed char* __restrict__ w, int i) {
    const int row = i / GROUPS * S, from = i % GROUPS * 4, first = min(from, max(S - 4, 0));
    unsigned word = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (first + j >= from && first + j < S) word |= (unsigned)(unsigned char)__ldg(w + row + first + j) << 8 * j;
    return (int)word;
}

// Four output values as uint8, in a word: limited to their range.
__device__ __forceinline__ unsigned wc_to_uint8s(int a, int b, int c, int d) { unsigned word; asm("{ .reg .b32 high; cvt.pack.sat.u8.s32.b32 high, %4, %3, 0; cvt.pack.sat.u8.s32.b32 %0, %2, %1, high; }" : "=r"(word) : "r"(a), "r"(b), "r"(c), "r"(d)); return word; }

// 32 lanes, 8 output columns each. INTERIOR: every load and store lies in the image.
template <bool INTERIOR>
__device__ __forceinline__ void sub_block(const unsigned char* __restrict__ x, const signed char* __restrict__ w,
        unsigned char* __restrict__ y, int p_first, int rows_out, int q, int H, int W, int Q) {
    Lane lane;
    lane.column = q;
    lane.W = W;
    lane.active = q < Q;
    if (!INTERIOR) lane.find_columns();
    const bool out_inside_0 = INTERIOR || q < Q;
    // filter, a register per four weights
    const int w_r0_g0 = four_weights(w, 0), w_r0_g1 = four_weights(w, 1);
    const int w_r1_g0 = four_weights(w, 2), w_r1_g1 = four_weights(w, 3);
    const int w_r2_g0 = four_weights(w, 4), w_r2_g1 = four_weights(w, 5);
    const int w_r3_g0 = four_weights(w, 6), w_r3_g1 = four_weights(w, 7);
    const int w_r4_g0 = four_weights(w, 8), w_r4_g1 = four_weights(w, 9);

    // step s adds the first input rows of output row p_first + s, and completes row p_first + s - (LIVE_ROWS - 1)
    int h = p_first - PAD_TOP, s = 0;
    const int steps = rows_out + LIVE_ROWS - 1;
    const index_t pitch = (index_t)W;
    const unsigned char* row = x + (index_t)h * W + lane.column;
    unsigned char* out = y + ((index_t)p_first - (LIVE_ROWS - 1)) * Q + q;
    int acc_p0_c0 = 0, acc_p0_c1 = 0, acc_p0_c2 = 0, acc_p0_c3 = 0, acc_p0_c4 = 0, acc_p0_c5 = 0, acc_p0_c6 = 0,
        acc_p0_c7 = 0,
        acc_p1_c0 = 0, acc_p1_c1 = 0, acc_p1_c2 = 0, acc_p1_c3 = 0, acc_p1_c4 = 0, acc_p1_c5 = 0, acc_p1_c6 = 0,
            acc_p1_c7 = 0,
        acc_p2_c0 = 0, acc_p2_c1 = 0, acc_p2_c2 = 0, acc_p2_c3 = 0, acc_p2_c4 = 0, acc_p2_c5 = 0, acc_p2_c6 = 0,
            acc_p2_c7 = 0,
        acc_p3_c0 = 0, acc_p3_c1 = 0, acc_p3_c2 = 0, acc_p3_c3 = 0, acc_p3_c4 = 0, acc_p3_c5 = 0, acc_p3_c6 = 0,
            acc_p3_c7 = 0;
    auto load = [&](Row<INTERIOR>& to) __attribute__((always_inline)) {
        to.load(lane, x, row, h, H);
        row += pitch;
        h += ROW_STEP;
    };
    auto step = [&](const Row<INTERIOR>* from, int at) __attribute__((always_inline)) {
        int out_c0, out_c1, out_c2, out_c3, out_c4, out_c5, out_c6, out_c7;
        const Words words = from[0].words();
        const unsigned in_m2 = __byte_perm(words.word_m1, words.word_0, 0x5432u);
        const unsigned in_m1 = __byte_perm(words.word_m1, words.word_0, 0x6543u);
        const unsigned in_0 = words.word_0;
        const unsigned in_1 = __byte_perm(words.word_0, words.word_1, 0x4321u);
        const unsigned in_2 = __byte_perm(words.word_0, words.word_1, 0x5432u);
        const unsigned in_3 = __byte_perm(words.word_0, words.word_1, 0x6543u);
        const unsigned in_4 = words.word_1;
        const unsigned in_5 = __byte_perm(words.word_1, words.word_2, 0x4321u);
        const unsigned in_6 = __byte_perm(words.word_1, words.word_2, 0x5432u);
        // filter row 4
        out_c0 = wc_dot_mixed(in_m2, w_r4_g0, acc_p0_c0); out_c1 = wc_dot_mixed(in_m1, w_r4_g0, acc_p0_c1);
        out_c2 = wc_dot_mixed(in_0, w_r4_g0, acc_p0_c2); out_c3 = wc_dot_mixed(in_1, w_r4_g0, acc_p0_c3);
        out_c4 = wc_dot_mixed(in_2, w_r4_g0, acc_p0_c4); out_c5 = wc_dot_mixed(in_3, w_r4_g0, acc_p0_c5);
        out_c6 = wc_dot_mixed(in_4, w_r4_g0, acc_p0_c6); out_c7 = wc_dot_mixed(in_5, w_r4_g0, acc_p0_c7);
        out_c0 = wc_dot_mixed(in_m1, w_r4_g1, out_c0); out_c1 = wc_dot_mixed(in_0, w_r4_g1, out_c1);
        out_c2 = wc_dot_mixed(in_1, w_r4_g1, out_c2); out_c3 = wc_dot_mixed(in_2, w_r4_g1, out_c3);
        out_c4 = wc_dot_mixed(in_3, w_r4_g1, out_c4); out_c5 = wc_dot_mixed(in_4, w_r4_g1, out_c5);
        out_c6 = wc_dot_mixed(in_5, w_r4_g1, out_c6); out_c7 = wc_dot_mixed(in_6, w_r4_g1, out_c7);
        // filter row 3
        acc_p0_c0 = wc_dot_mixed(in_m2, w_r3_g0, acc_p1_c0); acc_p0_c1 = wc_dot_mixed(in_m1, w_r3_g0, acc_p1_c1);
        acc_p0_c2 = wc_dot_mixed(in_0, w_r3_g0, acc_p1_c2); acc_p0_c3 = wc_dot_mixed(in_1, w_r3_g0, acc_p1_c3);
        acc_p0_c4 = wc_dot_mixed(in_2, w_r3_g0, acc_p1_c4); acc_p0_c5 = wc_dot_mixed(in_3, w_r3_g0, acc_p1_c5);
        acc_p0_c6 = wc_dot_mixed(in_4, w_r3_g0, acc_p1_c6); acc_p0_c7 = wc_dot_mixed(in_5, w_r3_g0, acc_p1_c7);
        acc_p0_c0 = wc_dot_mixed(in_m1, w_r3_g1, acc_p0_c0); acc_p0_c1 = wc_dot_mixed(in_0, w_r3_g1, acc_p0_c1);
        acc_p0_c2 = wc_dot_mixed(in_1, w_r3_g1, acc_p0_c2); acc_p0_c3 = wc_dot_mixed(in_2, w_r3_g1, acc_p0_c3);
        acc_p0_c4 = wc_dot_mixed(in_3, w_r3_g1, acc_p0_c4); acc_p0_c5 = wc_dot_mixed(in_4, w_r3_g1, acc_p0_c5);
        acc_p0_c6 = wc_dot_mixed(in_5, w_r3_g1, acc_p0_c6); acc_p0_c7 = wc_dot_mixed(in_6, w_r3_g1, acc_p0_c7);
        // filter row 2
        acc_p1_c0 = wc_dot_mixed(in_m2, w_r2_g0, acc_p2_c0); acc_p1_c1 = wc_dot_mixed(in_m1, w_r2_g0, acc_p2_c1);
        acc_p1_c2 = wc_dot_mixed(in_0, w_r2_g0, acc_p2_c2); acc_p1_c3 = wc_dot_mixed(in_1, w_r2_g0, acc_p2_c3);
        acc_p1_c4 = wc_dot_mixed(in_2, w_r2_g0, acc_p2_c4); acc_p1_c5 = wc_dot_mixed(in_3, w_r2_g0, acc_p2_c5);
        acc_p1_c6 = wc_dot_mixed(in_4, w_r2_g0, acc_p2_c6); acc_p1_c7 = wc_dot_mixed(in_5, w_r2_g0, acc_p2_c7);
        acc_p1_c0 = wc_dot_mixed(in_m1, w_r2_g1, acc_p1_c0); acc_p1_c1 = wc_dot_mixed(in_0, w_r2_g1, acc_p1_c1);
        acc_p1_c2 = wc_dot_mixed(in_1, w_r2_g1, acc_p1_c2); acc_p1_c3 = wc_dot_mixed(in_2, w_r2_g1, acc_p1_c3);
        acc_p1_c4 = wc_dot_mixed(in_3, w_r2_g1, acc_p1_c4); acc_p1_c5 = wc_dot_mixed(in_4, w_r2_g1, acc_p1_c5);
        acc_p1_c6 = wc_dot_mixed(in_5, w_r2_g1, acc_p1_c6); acc_p1_c7 = wc_dot_mixed(in_6, w_r2_g1, acc_p1_c7);
        // filter row 1
        acc_p2_c0 = wc_dot_mixed(in_m2, w_r1_g0, acc_p3_c0); acc_p2_c1 = wc_dot_mixed(in_m1, w_r1_g0, acc_p3_c1);
        acc_p2_c2 = wc_dot_mixed(in_0, w_r1_g0, acc_p3_c2); acc_p2_c3 = wc_dot_mixed(in_1, w_r1_g0, acc_p3_c3);
        acc_p2_c4 = wc_dot_mixed(in_2, w_r1_g0, acc_p3_c4); acc_p2_c5 = wc_dot_mixed(in_3, w_r1_g0, acc_p3_c5);
        acc_p2_c6 = wc_dot_mixed(in_4, w_r1_g0, acc_p3_c6); acc_p2_c7 = wc_dot_mixed(in_5, w_r1_g0, acc_p3_c7);
        acc_p2_c0 = wc_dot_mixed(in_m1, w_r1_g1, acc_p2_c0); acc_p2_c1 = wc_dot_mixed(in_0, w_r1_g1, acc_p2_c1);
        acc_p2_c2 = wc_dot_mixed(in_1, w_r1_g1, acc_p2_c2); acc_p2_c3 = wc_dot_mixed(in_2, w_r1_g1, acc_p2_c3);
        acc_p2_c4 = wc_dot_mixed(in_3, w_r1_g1, acc_p2_c4); acc_p2_c5 = wc_dot_mixed(in_4, w_r1_g1, acc_p2_c5);
        acc_p2_c6 = wc_dot_mixed(in_5, w_r1_g1, acc_p2_c6); acc_p2_c7 = wc_dot_mixed(in_6, w_r1_g1, acc_p2_c7);
        // filter row 0
        acc_p3_c0 = wc_dot_mixed(in_m2, w_r0_g0, 0); acc_p3_c1 = wc_dot_mixed(in_m1, w_r0_g0, 0);
        acc_p3_c2 = wc_dot_mixed(in_0, w_r0_g0, 0); acc_p3_c3 = wc_dot_mixed(in_1, w_r0_g0, 0);
        acc_p3_c4 = wc_dot_mixed(in_2, w_r0_g0, 0); acc_p3_c5 = wc_dot_mixed(in_3, w_r0_g0, 0);
        acc_p3_c6 = wc_dot_mixed(in_4, w_r0_g0, 0); acc_p3_c7 = wc_dot_mixed(in_5, w_r0_g0, 0);
        acc_p3_c0 = wc_dot_mixed(in_m1, w_r0_g1, acc_p3_c0); acc_p3_c1 = wc_dot_mixed(in_0, w_r0_g1, acc_p3_c1);
        acc_p3_c2 = wc_dot_mixed(in_1, w_r0_g1, acc_p3_c2); acc_p3_c3 = wc_dot_mixed(in_2, w_r0_g1, acc_p3_c3);
        acc_p3_c4 = wc_dot_mixed(in_3, w_r0_g1, acc_p3_c4); acc_p3_c5 = wc_dot_mixed(in_4, w_r0_g1, acc_p3_c5);
        acc_p3_c6 = wc_dot_mixed(in_5, w_r0_g1, acc_p3_c6); acc_p3_c7 = wc_dot_mixed(in_6, w_r0_g1, acc_p3_c7);
        if (at >= LIVE_ROWS - 1 && (INTERIOR || at < steps)) {
            const unsigned y_0 = wc_to_uint8s(out_c0, out_c1, out_c2, out_c3);
            const unsigned y_1 = wc_to_uint8s(out_c4, out_c5, out_c6, out_c7);
            if (INTERIOR || out_inside_0) *(uint2*)(out) = make_uint2(y_0, y_1);
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
pixels_5x5(const unsigned char* __restrict__ x, const signed char* __restrict__ w, unsigned char* __restrict__ y, int N,
        int H, int W, int P, int Q) {
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
        const signed char* w_plane = w;
        if (!has_outputs) continue;
        if (interior)
            sub_block<true>(x_plane, w_plane, y_plane, p_first, rows, q, H, W, Q);
        else
            sub_block<false>(x_plane, w_plane, y_plane, p_first, rows_out, q, H, W, Q);
    }
}
