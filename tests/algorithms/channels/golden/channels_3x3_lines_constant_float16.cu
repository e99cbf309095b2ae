// warpconv 0.1.0: channels, float16. Generated from templates/channels/kernel_lines.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --padding 1 --padding-mode constant --padding-value 1 \
//     --groups 16 --dtype float16 --layout NHWC --arch sm_90 --algorithm channels \
//     --set body=lines --set vector=2 --set columns=2 --set width=whole --set sub_block_rows=14 \
//     --set prefetch_rows=2 --set stage_rows=1 --set copies=cached --set block_channels=8 --set block_columns=8 \
//     --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 1, padding 1 (constant), groups 16, float16 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments (Q a multiple
//        of 2); all else is a constant of the text
// plan   a thread makes 2 columns x 14 rows of 2 channels; 8 x 8 x 1 threads a block along channels, columns, rows
// cost   14 rows x 2 columns of 2 channels a lane: 16 warp loads, 0 shuffles, 576 FMA a lane, about 54 registers
//        (direct: 252 loads)
//
// Neighbouring lanes have neighbouring channels: loads and stores are unbroken, and no lane needs another's data.
// A block copies the input rows of its strip of columns to shared memory, 2 rows ahead. A thread walks down its
// columns: each step adds an input row to the 3 output rows that need it, oldest first: the oldest is finished
// and stored, and each other row's sum goes to the register of the next older one.
constexpr int C = 16;                           // channels of a pixel of x
constexpr int K = 16;                           // channels of a pixel of y
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int DILATION_H = 1;                   // input rows from one tap to the next: a row unit
constexpr int VECTOR = 2;                       // a thread's output channels
constexpr int COLUMNS = 2;                      // a thread's output columns
constexpr int ROWS = 14;                        // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 8;                // columns,
constexpr int STAGE_ROWS = 1;                   // rows between two barriers
constexpr int STAGES_AHEAD = 2;                 // stages that copies are ahead
constexpr int STRIP = 18;                       // input columns of a block
constexpr int PIXEL = 16;                       // channels of a block
constexpr int LINE = 288;                       // elements of an input row in shared memory
constexpr int PIECE = 8;                        // channels of a copy
constexpr int FILTER_PIECE = 8;                 // weights of a copy
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(unsigned short* pixel, float sum_0, float sum_1) {
    const unsigned part_0 = wc_floats_to_halves(sum_0, sum_1);
    *(unsigned*)pixel = part_0;
}

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(64, 4)
channels_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q, unsigned BORDER) {
    __shared__ __align__(16) unsigned short lines[(STAGES_AHEAD + 1) * LINE];
    __shared__ __align__(16) unsigned short filters[PIXEL * R * S];
    // the block's strip of columns and its channels; where they reach beyond the image, the border's value, which stays
    const int strip = blockIdx.x * (BLOCK_COLUMNS * COLUMNS), strip_column = strip - PAD_LEFT;
    if (strip_column < 0 || strip_column + STRIP > W || PIXEL > C) {
        for (int i = threadIdx.x; i < 432; i += 64) ((unsigned*)lines)[i] = BORDER;
        __syncthreads();
    }
    // the filters of the block's channels
    const unsigned short* w_block = w;
    const int filter_end = min(PIXEL, K) * (R * S);
    for (int i = threadIdx.x * FILTER_PIECE; i < filter_end;
        i += 64 * FILTER_PIECE) wc_copy_async_16(filters + i, w_block + i);

    // what this thread copies of a row: a piece of a pixel, and those of every COPY_COLUMNS-th column after it
    const int copy_channel = threadIdx.x % (PIXEL / PIECE) * PIECE, copy_column = threadIdx.x / (PIXEL / PIECE);
    const int copy_to = copy_column * PIXEL + copy_channel;
    const bool copies_0 = copy_column < STRIP && (unsigned)(strip_column + copy_column) < (unsigned)W;
    // what it computes: its channels and columns; threads without do what others do and store nothing
    const int channels = threadIdx.x % BLOCK_CHANNELS, column_job = threadIdx.x / BLOCK_CHANNELS;
    // first channel of y, first column
    const int k = channels * VECTOR, q = strip + column_job * COLUMNS;
    const bool active = q < Q;
    const unsigned short* own_line = lines + column_job * (COLUMNS * PIXEL) + channels * VECTOR;
    const long long pitch_x = (long long)W * C, pitch_y = (long long)Q * K;
    const int row_jobs = (P + ROWS - 1) / ROWS;

    index_t n = blockIdx.z;
    int row_job = blockIdx.y;
    // rows are counted from the sub-block's first output row; a step adds one input row and finishes output row `row`,
    // which may lie before it
    // of the next step, of the last one that touches the image; rows to store
    int row, last_row, rows;
    const unsigned short* ahead;                                             // what is copied next
    int ahead_h;                                                            // and the image row that it is
    unsigned short* out;                                                     // where output row `row` begins
    auto copy = [&](int slot, int ahead_row) __attribute__((always_inline)) {
        if (ahead_h >= 0 && ahead_h < H) {
        #pragma unroll
            for (int i = 0; i < STAGE_ROWS; ++i) {
                unsigned short* to = lines + copy_to + slot + i * LINE;
                wc_copy_async_zfill_16(copies_0, to, ahead, ahead_row + i <= last_row);
                ahead += pitch_x;
            }
        } else {
        #pragma unroll 1
            for (int i = 0; i < STAGE_ROWS; ++i) {
                unsigned short* to = lines + copy_to + slot + i * LINE;
                const int h = ahead_h + i;
                if ((unsigned)h < (unsigned)H) {
                    wc_copy_async_zfill_16(copies_0, to, ahead, ahead_row + i <= last_row);
                } else {
                    if (copies_0) *(uint4*)(to) = make_uint4(BORDER, BORDER, BORDER, BORDER);
                }
                ahead += pitch_x;
            }
        }
        ahead_h += DILATION_H;
    };
    auto start = [&]() __attribute__((always_inline)) {
        // input row i of the class is image row i * DILATION_H + top
        const int row_class = 0, top = row_class - PAD_TOP, begin = row_job * ROWS;
        const int height = min(ROWS, P - begin);
        const int first = begin, first_output = first - 2;
        rows = active ? max(0, height) : 0;
        row = first_output - begin;
        last_row = height - 1;
        ahead_h = top + first;
        out = y + ((n * P) * Q + q) * K + k + first_output * pitch_y;
        ahead = x + ((long long)(n * H + top) * W + strip_column + copy_column) * C + copy_channel + first * pitch_x;
    #pragma unroll
        for (int i = 0; i < STAGES_AHEAD; ++i) {
            if (row + i <= last_row) copy(i * LINE, row + i);
            wc_copy_async_commit();
        }
    };
    start();

    // one register per weight
    wc_copy_async_wait_group();
    __syncthreads();
    const unsigned short* filter = filters + channels * (VECTOR * R * S);
    const float w_v0_r0_s0 = wc_half_to_float(filter[0]), w_v0_r0_s1 = wc_half_to_float(filter[1]),
        w_v0_r0_s2 = wc_half_to_float(filter[2]);
    const float w_v0_r1_s0 = wc_half_to_float(filter[3]), w_v0_r1_s1 = wc_half_to_float(filter[4]),
        w_v0_r1_s2 = wc_half_to_float(filter[5]);
    const float w_v0_r2_s0 = wc_half_to_float(filter[6]), w_v0_r2_s1 = wc_half_to_float(filter[7]),
        w_v0_r2_s2 = wc_half_to_float(filter[8]);
    const float w_v1_r0_s0 = wc_half_to_float(filter[9]), w_v1_r0_s1 = wc_half_to_float(filter[10]),
        w_v1_r0_s2 = wc_half_to_float(filter[11]);
    const float w_v1_r1_s0 = wc_half_to_float(filter[12]), w_v1_r1_s1 = wc_half_to_float(filter[13]),
        w_v1_r1_s2 = wc_half_to_float(filter[14]);
    const float w_v1_r2_s0 = wc_half_to_float(filter[15]), w_v1_r2_s1 = wc_half_to_float(filter[16]),
        w_v1_r2_s2 = wc_half_to_float(filter[17]);

    while (n < N) {
        float acc_p0_q0_v0 = 0, acc_p0_q0_v1 = 0;
        float acc_p0_q1_v0 = 0, acc_p0_q1_v1 = 0;
        float acc_p1_q0_v0 = 0, acc_p1_q0_v1 = 0;
        float acc_p1_q1_v0 = 0, acc_p1_q1_v1 = 0;
        auto step = [&](const unsigned short* line) __attribute__((always_inline)) {
            const unsigned word_c0 = *(const unsigned*)(line);
            const unsigned word_c1 = *(const unsigned*)(line + PIXEL);
            const unsigned word_c2 = *(const unsigned*)(line + 2 * PIXEL);
            const unsigned word_c3 = *(const unsigned*)(line + 3 * PIXEL);
            const float x_c0_v0 = wc_half_low_to_float(word_c0), x_c0_v1 = wc_half_high_to_float(word_c0);
            const float x_c1_v0 = wc_half_low_to_float(word_c1), x_c1_v1 = wc_half_high_to_float(word_c1);
            const float x_c2_v0 = wc_half_low_to_float(word_c2), x_c2_v1 = wc_half_high_to_float(word_c2);
            const float x_c3_v0 = wc_half_low_to_float(word_c3), x_c3_v1 = wc_half_high_to_float(word_c3);
            float done_q0_v0, done_q0_v1;
            float done_q1_v0, done_q1_v1;
            done_q0_v0 = fmaf(x_c2_v0, w_v0_r2_s2, fmaf(x_c1_v0, w_v0_r2_s1, fmaf(x_c0_v0, w_v0_r2_s0, acc_p0_q0_v0)));
            done_q0_v1 = fmaf(x_c2_v1, w_v1_r2_s2, fmaf(x_c1_v1, w_v1_r2_s1, fmaf(x_c0_v1, w_v1_r2_s0, acc_p0_q0_v1)));
            done_q1_v0 = fmaf(x_c3_v0, w_v0_r2_s2, fmaf(x_c2_v0, w_v0_r2_s1, fmaf(x_c1_v0, w_v0_r2_s0, acc_p0_q1_v0)));
            done_q1_v1 = fmaf(x_c3_v1, w_v1_r2_s2, fmaf(x_c2_v1, w_v1_r2_s1, fmaf(x_c1_v1, w_v1_r2_s0, acc_p0_q1_v1)));
            acc_p0_q0_v0 =
                fmaf(x_c2_v0, w_v0_r1_s2, fmaf(x_c1_v0, w_v0_r1_s1, fmaf(x_c0_v0, w_v0_r1_s0, acc_p1_q0_v0)));
            acc_p0_q0_v1 =
                fmaf(x_c2_v1, w_v1_r1_s2, fmaf(x_c1_v1, w_v1_r1_s1, fmaf(x_c0_v1, w_v1_r1_s0, acc_p1_q0_v1)));
            acc_p0_q1_v0 =
                fmaf(x_c3_v0, w_v0_r1_s2, fmaf(x_c2_v0, w_v0_r1_s1, fmaf(x_c1_v0, w_v0_r1_s0, acc_p1_q1_v0)));
            acc_p0_q1_v1 =
                fmaf(x_c3_v1, w_v1_r1_s2, fmaf(x_c2_v1, w_v1_r1_s1, fmaf(x_c1_v1, w_v1_r1_s0, acc_p1_q1_v1)));
            acc_p1_q0_v0 = fmaf(x_c2_v0, w_v0_r0_s2, fmaf(x_c1_v0, w_v0_r0_s1, fmaf(x_c0_v0, w_v0_r0_s0, 0)));
            acc_p1_q0_v1 = fmaf(x_c2_v1, w_v1_r0_s2, fmaf(x_c1_v1, w_v1_r0_s1, fmaf(x_c0_v1, w_v1_r0_s0, 0)));
            acc_p1_q1_v0 = fmaf(x_c3_v0, w_v0_r0_s2, fmaf(x_c2_v0, w_v0_r0_s1, fmaf(x_c1_v0, w_v0_r0_s0, 0)));
            acc_p1_q1_v1 = fmaf(x_c3_v1, w_v1_r0_s2, fmaf(x_c2_v1, w_v1_r0_s1, fmaf(x_c1_v1, w_v1_r0_s0, 0)));
            if ((unsigned)row < (unsigned)rows) {
                store_pixel(out, done_q0_v0, done_q0_v1);
                store_pixel(out + K, done_q1_v0, done_q1_v1);
            }
            out += pitch_y;
            ++row;
        };
        // where the rows of this stage lie in the ring
        int slot = 0;
#pragma unroll 1
        while (row <= last_row) {
            wc_copy_async_wait_group();
            // every thread's copies of this stage are there
            __syncthreads();
            // the rows of 2 stages on take the place of those of the stage before
            if (row + STAGES_AHEAD <= last_row) copy(slot == 0 ? STAGES_AHEAD * LINE : slot - LINE, row + STAGES_AHEAD);
            wc_copy_async_commit();
#pragma unroll
            for (int i = 0; i < STAGE_ROWS; ++i) step(own_line + slot + i * LINE);
            slot = slot == STAGES_AHEAD * LINE ? 0 : slot + LINE;
        }
                // the next job
        row_job += gridDim.y;
        if (row_job >= row_jobs) {
            row_job = blockIdx.y;
            n += gridDim.z;
        }
        __syncthreads();                                                // all threads have used what the ring holds
        if (n < N) start();
    }
}
