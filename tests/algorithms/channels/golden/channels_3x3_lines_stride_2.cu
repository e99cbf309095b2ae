// warpconv 0.1.0: channels, float32. Generated from templates/channels/kernel_lines.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --stride 2,2 --padding 1 --groups 16 --layout NHWC \
//     --epilogue bias --arch sm_90 --algorithm channels \
//     --set body=lines --set vector=1 --set columns=2 --set width=whole --set sub_block_rows=14 \
//     --set prefetch_rows=2 --set stage_rows=1 --set copies=cached --set block_channels=8 --set block_columns=4 \
//     --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 2, padding 1, groups 16, float32 NHWC, then bias
//        N, H, W (and so P, Q) are arguments (Q a multiple of 2); all else is a constant of the text
// plan   a thread makes 2 columns x 14 rows of 1 channel; 8 x 4 x 1 threads a block along channels, columns, rows
// cost   14 rows x 2 columns of 1 channel a lane: 60 warp loads, 0 shuffles, 270 FMA a lane, about 34 registers
//        (direct: 252 loads)
//
// Neighbouring lanes have neighbouring channels: loads and stores are unbroken, and no lane needs another's data.
// A block copies the input rows of its strip of columns to shared memory, 2 steps ahead. A thread walks down its
// columns: each step adds 2 input rows to the 2 output rows that need it, oldest first: the oldest is finished
// and stored, and each other row's sum goes to the register of the next older one.
constexpr int C = 16;                           // channels of a pixel of x
constexpr int K = 16;                           // channels of a pixel of y
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int DILATION_H = 1;                   // input rows from one tap to the next: a row unit
constexpr int STEP = 2;                         // row units from one output row of a class to the next
constexpr int COLUMNS = 2;                      // a thread's output columns
constexpr int ROWS = 14;                        // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 4;                // columns,
constexpr int CHANNEL_BLOCKS = 2;               // and blocks beside each other for them
constexpr int STAGE_ROWS = 1;                   // steps between two barriers
constexpr int STAGES_AHEAD = 2;                 // stages that copies are ahead
constexpr int STRIP = 17;                       // input columns of a block
constexpr int PIXEL = 8;                        // channels of a block
constexpr int LINE = 136;                       // elements of an input row in shared memory
constexpr int STEP_LINE = 272;                  // and those of a step
constexpr int PIECE = 4;                        // channels of a copy
constexpr int COPY_COLUMNS = 16;                // columns that all threads copy at once
constexpr int FILTER_PIECE = 4;                 // weights of a copy
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(float* pixel, float sum_0, float bias_0) {
    const float part_0 = finish(sum_0, bias_0);
    *(float*)pixel = part_0;
}

// asynchronous copies from global to shared memory
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(32, 4)
channels_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) float lines[(STAGES_AHEAD + 1) * STEP_LINE];
    __shared__ __align__(16) float filters[PIXEL * R * S];
    // the block's strip of columns and its channels; where they reach beyond the image, zeros that stay
    const int first_vector = blockIdx.x % CHANNEL_BLOCKS * BLOCK_CHANNELS, first_channel = first_vector;
    const int strip = blockIdx.x / CHANNEL_BLOCKS * (BLOCK_COLUMNS * COLUMNS),
        strip_column = strip * STRIDE_W - PAD_LEFT;
    if (strip_column < 0 || strip_column + STRIP > W || first_channel + PIXEL > C) {
        for (int i = threadIdx.x; i < 816; i += 32) ((unsigned*)lines)[i] = 0;
        __syncthreads();
    }
    // the filters of the block's channels
    const float* w_block = w + (index_t)first_channel * (R * S);
    const int filter_end = min(PIXEL, K - first_channel) * (R * S);
    for (int i = threadIdx.x * FILTER_PIECE; i < filter_end;
        i += 32 * FILTER_PIECE) wc_copy_async_16(filters + i, w_block + i);

    // what this thread copies of a row: a piece of a pixel, and those of every COPY_COLUMNS-th column after it
    const int copy_channel = threadIdx.x % (PIXEL / PIECE) * PIECE, copy_column = threadIdx.x / (PIXEL / PIECE);
    const int copy_to = copy_column * PIXEL + copy_channel;
    const bool copies_0 = (unsigned)(strip_column + copy_column) < (unsigned)W;
    const bool copies_1 = copy_column < STRIP - COPY_COLUMNS
        && (unsigned)(strip_column + copy_column + COPY_COLUMNS) < (unsigned)W;
    // what it computes: its channels and columns; threads without do what others do and store nothing
    const int channels = threadIdx.x % BLOCK_CHANNELS, column_job = threadIdx.x / BLOCK_CHANNELS;
    // first channel of y, first column
    const int k = first_channel + channels, q = strip + column_job * COLUMNS;
    const bool active = q < Q;
    const float* own_line = lines + column_job * (COLUMNS * STRIDE_W * PIXEL) + channels;
    const long long pitch_x = (long long)W * C, pitch_y = (long long)Q * K;
    const int row_jobs = (P + ROWS - 1) / ROWS;

    index_t n = blockIdx.z;
    int row_job = blockIdx.y;
    // rows are counted from the sub-block's first output row; a step adds 2 input rows and finishes output row `row`,
    // which may lie before it
    // of the next step, of the last one that touches the image; rows to store
    int row, last_row, rows;
    const float* ahead;                                             // what is copied next
    int ahead_h;                                                            // and the image row that it is
    float* out;                                                     // where output row `row` begins
    auto copy = [&](int slot, int ahead_row) __attribute__((always_inline)) {
    #pragma unroll
        for (int i = 0; i < STAGE_ROWS; ++i) {
            float* to = lines + copy_to + slot + i * STEP_LINE;
            const bool inside_r0 = ahead_row + i <= last_row && (unsigned)ahead_h < (unsigned)H;
            wc_copy_async_zfill_16(copies_0, to, ahead, inside_r0);
            wc_copy_async_zfill_16(copies_1, to + (COPY_COLUMNS * PIXEL), ahead + (COPY_COLUMNS * C), inside_r0);
            const bool inside_r1 = ahead_row + i <= last_row && (unsigned)(ahead_h + DILATION_H) < (unsigned)H;
            wc_copy_async_zfill_16(copies_0, to + LINE, ahead + pitch_x, inside_r1);
            wc_copy_async_zfill_16(copies_1, to + LINE + (COPY_COLUMNS * PIXEL), ahead + pitch_x + (COPY_COLUMNS * C),
                inside_r1);
            ahead += STEP * pitch_x;
            ahead_h += STEP;
        }
    };
    auto start = [&]() __attribute__((always_inline)) {
        // input row i of the class is image row i * DILATION_H + top
        const int top = 0 - PAD_TOP, begin = row_job * ROWS;
        const int height = min(ROWS, P - begin);
        const int first = max(begin, top < 0 ? (0 - top) / STEP : 0), first_output = first - 1;
        rows = active ? max(0, height) : 0;
        row = first_output - begin;
        last_row = min(height - 1, (H - 1 - top >= 0 ? (H - 1 - top) / STEP : -1) - 1 - begin);
        ahead_h = top + first * STEP;
        out = y + ((n * P) * Q + q) * K + k + first_output * pitch_y;
        ahead = x + ((long long)(n * H + top) * W + strip_column + copy_column) * C + first_channel + copy_channel
            + first * (STEP * pitch_x);
    #pragma unroll
        for (int i = 0; i < STAGES_AHEAD; ++i) {
            if (row + i <= last_row) copy(i * STEP_LINE, row + i);
            wc_copy_async_commit();
        }
    };
    start();

    // one register per weight
    wc_copy_async_wait_group();
    __syncthreads();
    const float* filter = filters + channels * (R * S);
    const float w_v0_r0_s0 = filter[0], w_v0_r0_s1 = filter[1], w_v0_r0_s2 = filter[2];
    const float w_v0_r1_s0 = filter[3], w_v0_r1_s1 = filter[4], w_v0_r1_s2 = filter[5];
    const float w_v0_r2_s0 = filter[6], w_v0_r2_s1 = filter[7], w_v0_r2_s2 = filter[8];
    const float bias_0 = bias[k];

    while (n < N) {
        float acc_p0_q0 = 0;
        float acc_p0_q1 = 0;
        auto step = [&](const float* line) __attribute__((always_inline)) {
            const float word_r0_c0 = *(const float*)(line);
            const float word_r0_c1 = *(const float*)(line + PIXEL);
            const float word_r0_c2 = *(const float*)(line + 2 * PIXEL);
            const float word_r0_c3 = *(const float*)(line + 3 * PIXEL);
            const float word_r0_c4 = *(const float*)(line + 4 * PIXEL);
            const float word_r1_c0 = *(const float*)(line + LINE);
            const float word_r1_c1 = *(const float*)(line + LINE + PIXEL);
            const float word_r1_c2 = *(const float*)(line + LINE + 2 * PIXEL);
            const float word_r1_c3 = *(const float*)(line + LINE + 3 * PIXEL);
            const float word_r1_c4 = *(const float*)(line + LINE + 4 * PIXEL);
            float done_q0;
            float done_q1;
            done_q0 =
                fmaf(word_r0_c2, w_v0_r2_s2, fmaf(word_r0_c1, w_v0_r2_s1, fmaf(word_r0_c0, w_v0_r2_s0, acc_p0_q0)));
            done_q1 =
                fmaf(word_r0_c4, w_v0_r2_s2, fmaf(word_r0_c3, w_v0_r2_s1, fmaf(word_r0_c2, w_v0_r2_s0, acc_p0_q1)));
            acc_p0_q0 =
                fmaf(word_r1_c0, w_v0_r1_s0,
                fmaf(word_r0_c2, w_v0_r0_s2, fmaf(word_r0_c1, w_v0_r0_s1, fmaf(word_r0_c0, w_v0_r0_s0, 0))));
            acc_p0_q0 = fmaf(word_r1_c2, w_v0_r1_s2, fmaf(word_r1_c1, w_v0_r1_s1, acc_p0_q0));
            acc_p0_q1 =
                fmaf(word_r1_c2, w_v0_r1_s0,
                fmaf(word_r0_c4, w_v0_r0_s2, fmaf(word_r0_c3, w_v0_r0_s1, fmaf(word_r0_c2, w_v0_r0_s0, 0))));
            acc_p0_q1 = fmaf(word_r1_c4, w_v0_r1_s2, fmaf(word_r1_c3, w_v0_r1_s1, acc_p0_q1));
            if ((unsigned)row < (unsigned)rows) {
                store_pixel(out, done_q0, bias_0);
                store_pixel(out + K, done_q1, bias_0);
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
            if (row + STAGES_AHEAD <= last_row) copy(slot == 0 ? STAGES_AHEAD * STEP_LINE : slot - STEP_LINE,
                row + STAGES_AHEAD);
            wc_copy_async_commit();
#pragma unroll
            for (int i = 0; i < STAGE_ROWS; ++i) step(own_line + slot + i * STEP_LINE);
            slot = slot == STAGES_AHEAD * STEP_LINE ? 0 : slot + STEP_LINE;
        }
        // rows that the image's last row leaves unfinished
        if ((unsigned)row < (unsigned)rows) {
            store_pixel(out, acc_p0_q0, bias_0);
            store_pixel(out + K, acc_p0_q1, bias_0);
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
