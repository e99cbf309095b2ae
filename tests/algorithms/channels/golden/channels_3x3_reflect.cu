// warpconv 0.1.0: channels, float32. Generated from templates/channels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --padding 1 --padding-mode reflect --groups 16 --layout NHWC \
//     --epilogue bias --arch sm_90 --algorithm channels \
//     --set body=ring --set vector=1 --set columns=2 --set width=whole --set sub_block_rows=14 \
//     --set prefetch_rows=1 --set block_channels=8 --set block_columns=8 --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 1, padding 1 (reflect), groups 16, float32 NHWC,
//        then bias
//        N, H, W (and so P, Q) are arguments (Q a multiple of 2); all else is a constant of the text
// plan   a thread makes 2 columns x 14 rows of 1 channel; 8 x 8 x 1 threads a block along channels, columns, rows
// cost   14 rows x 2 columns of 1 channel a lane: 68 warp loads, 0 shuffles, 288 FMA a lane, about 49 registers
//        (direct: 252 loads)
//
// Neighbouring lanes have neighbouring channels: loads and stores are unbroken, and no lane needs another's data. A
// thread walks down its columns. Each step loads an input row and adds it to the 3 output rows that need it, oldest
// first: the oldest is finished and stored, and each other row's sum goes to the register of the next older one.
constexpr int C = 16;                           // channels of a pixel of x
constexpr int K = 16;                           // channels of a pixel of y
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int DILATION_H = 1;                   // input rows from one tap to the next: a row unit
constexpr int COLUMNS = 2;                      // a thread's output columns
constexpr int ROWS = 14;                        // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 8;                // columns,
constexpr int VECTORS = 16;                     // threads that all channels take
constexpr int CHANNEL_BLOCKS = 2;               // and blocks beside each other for them
constexpr int FILTER_STRIDE = 9;                // shared memory: from one channel's filter to the next,
constexpr int ROW_STRIDE = 3;                   // and from one filter row to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// The channels of one pixel.
__device__ __forceinline__ float load_pixel(const float* pixel) {
    return __ldg((const float*)pixel);
}

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(float* pixel, float sum_0, float bias_0) {
    const float part_0 = finish(sum_0, bias_0);
    *(float*)pixel = part_0;
}

extern "C" __global__ void __launch_bounds__(64, 4)
channels_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    // the filters of this block's channels, read in the order of memory
    __shared__ __align__(16) float filters[72];
    const int first_vector = blockIdx.x % CHANNEL_BLOCKS * BLOCK_CHANNELS;
    const int staged = min(BLOCK_CHANNELS, VECTORS - first_vector) * (R * ROW_STRIDE);
    const float* w_block = w + (index_t)first_vector * (R * S);
    for (int i = threadIdx.x; i < staged; i += 64) {
        const int unit = i / (R * ROW_STRIDE), row = i / ROW_STRIDE % R, s = i % ROW_STRIDE;
        const int tap = (unit * R + row) * S + s;
        filters[unit * FILTER_STRIDE + row * ROW_STRIDE + s] = s < S ? w_block[tap] : 0;
    }
    __syncthreads();

    // this thread's channels, columns and sub-blocks
    const int channels = threadIdx.x % BLOCK_CHANNELS, column_job = threadIdx.x / BLOCK_CHANNELS;
    const int first_row_job = blockIdx.y;    // the same for the whole block, so no lanes part ways
    const int k = first_vector + channels;                                  // first channel of y
    const int q = (blockIdx.x / CHANNEL_BLOCKS * BLOCK_COLUMNS + column_job) * COLUMNS;
    if (k >= K || q >= Q) return;
    const int column = q - PAD_LEFT;
    const float* filter = filters + channels * FILTER_STRIDE;
    const float w_v0_r0_s0 = filter[0], w_v0_r0_s1 = filter[1], w_v0_r0_s2 = filter[2];
    const float w_v0_r1_s0 = filter[3], w_v0_r1_s1 = filter[4], w_v0_r1_s2 = filter[5];
    const float w_v0_r2_s0 = filter[6], w_v0_r2_s1 = filter[7], w_v0_r2_s2 = filter[8];
    const float bias_0 = bias[k];
    // where the border has this thread's columns, from the first of a row
    const index_t at_c0 = (index_t)at_border(column, W) * C, at_c1 = (index_t)at_border(column + 1, W) * C;
    const index_t at_c2 = (index_t)at_border(column + 2, W) * C, at_c3 = (index_t)at_border(column + 3, W) * C;
    const long long row_x = (long long)W * C, pitch_y = (long long)Q * K;
    const int row_jobs = (P + ROWS - 1) / ROWS;

    for (index_t n = blockIdx.z; n < N; n += gridDim.z) {
        for (int row_job = first_row_job; row_job < row_jobs; row_job += gridDim.y) {
            // output rows begin .. end - 1 of the class; row unit t is image row t * DILATION_H + top
            const int row_class = 0, begin = row_job * ROWS;
            const int end = min(begin + ROWS, P);
            if (begin >= end) continue;
            const int top = row_class - PAD_TOP;
            const int first_unit = begin;
            const float* x_image = x + (long long)n * H * W * C + k;
            float* y_class = y + ((n * P) * Q + q) * K + k;
            // steps first .. last load rows; step i finishes output row i - 2
            const int first = first_unit;
            const int last = end - 1 + 2;
            float* out = y_class + (first - 2) * pitch_y;
            float acc_p0_q0 = 0;
            float acc_p0_q1 = 0;
            float acc_p1_q0 = 0;
            float acc_p1_q1 = 0;
            if (first <= last) {
                const float* ahead;
                int ahead_row = top + first;
                float word0_c0 = 0, word0_c1 = 0, word0_c2 = 0, word0_c3 = 0;
                float word1_c0 = 0, word1_c1 = 0, word1_c2 = 0, word1_c3 = 0;
                ahead = x_image + at_border(ahead_row, H) * row_x;
                word0_c0 = load_pixel(ahead + at_c0);
                word0_c1 = load_pixel(ahead + at_c1);
                word0_c2 = load_pixel(ahead + at_c2);
                word0_c3 = load_pixel(ahead + at_c3);
#pragma unroll 1
                for (int step = first;;) {
                    {
                        // register set 0: loads for a later step, products, the finished row
                        ahead_row += DILATION_H;
                        ahead = x_image + at_border(ahead_row, H) * row_x;
                        word1_c0 = load_pixel(ahead + at_c0);
                        word1_c1 = load_pixel(ahead + at_c1);
                        word1_c2 = load_pixel(ahead + at_c2);
                        word1_c3 = load_pixel(ahead + at_c3);
                        float done_q0;
                        float done_q1;
                        done_q0 =
                            fmaf(word0_c2, w_v0_r2_s2,
                            fmaf(word0_c1, w_v0_r2_s1, fmaf(word0_c0, w_v0_r2_s0, acc_p0_q0)));
                        done_q1 =
                            fmaf(word0_c3, w_v0_r2_s2,
                            fmaf(word0_c2, w_v0_r2_s1, fmaf(word0_c1, w_v0_r2_s0, acc_p0_q1)));
                        acc_p0_q0 =
                            fmaf(word0_c2, w_v0_r1_s2,
                            fmaf(word0_c1, w_v0_r1_s1, fmaf(word0_c0, w_v0_r1_s0, acc_p1_q0)));
                        acc_p0_q1 =
                            fmaf(word0_c3, w_v0_r1_s2,
                            fmaf(word0_c2, w_v0_r1_s1, fmaf(word0_c1, w_v0_r1_s0, acc_p1_q1)));
                        acc_p1_q0 =
                            fmaf(word0_c2, w_v0_r0_s2, fmaf(word0_c1, w_v0_r0_s1, fmaf(word0_c0, w_v0_r0_s0, 0)));
                        acc_p1_q1 =
                            fmaf(word0_c3, w_v0_r0_s2, fmaf(word0_c2, w_v0_r0_s1, fmaf(word0_c1, w_v0_r0_s0, 0)));
                        if (step >= begin + 2) {
                            store_pixel(out, done_q0, bias_0);
                            store_pixel(out + K, done_q1, bias_0);
                        }
                        out += pitch_y;
                        if (step++ == last) break;
                    }
                    {
                        // register set 1: loads for a later step, products, the finished row
                        ahead_row += DILATION_H;
                        ahead = x_image + at_border(ahead_row, H) * row_x;
                        word0_c0 = load_pixel(ahead + at_c0);
                        word0_c1 = load_pixel(ahead + at_c1);
                        word0_c2 = load_pixel(ahead + at_c2);
                        word0_c3 = load_pixel(ahead + at_c3);
                        float done_q0;
                        float done_q1;
                        done_q0 =
                            fmaf(word1_c2, w_v0_r2_s2,
                            fmaf(word1_c1, w_v0_r2_s1, fmaf(word1_c0, w_v0_r2_s0, acc_p0_q0)));
                        done_q1 =
                            fmaf(word1_c3, w_v0_r2_s2,
                            fmaf(word1_c2, w_v0_r2_s1, fmaf(word1_c1, w_v0_r2_s0, acc_p0_q1)));
                        acc_p0_q0 =
                            fmaf(word1_c2, w_v0_r1_s2,
                            fmaf(word1_c1, w_v0_r1_s1, fmaf(word1_c0, w_v0_r1_s0, acc_p1_q0)));
                        acc_p0_q1 =
                            fmaf(word1_c3, w_v0_r1_s2,
                            fmaf(word1_c2, w_v0_r1_s1, fmaf(word1_c1, w_v0_r1_s0, acc_p1_q1)));
                        acc_p1_q0 =
                            fmaf(word1_c2, w_v0_r0_s2, fmaf(word1_c1, w_v0_r0_s1, fmaf(word1_c0, w_v0_r0_s0, 0)));
                        acc_p1_q1 =
                            fmaf(word1_c3, w_v0_r0_s2, fmaf(word1_c2, w_v0_r0_s1, fmaf(word1_c1, w_v0_r0_s0, 0)));
                        if (step >= begin + 2) {
                            store_pixel(out, done_q0, bias_0);
                            store_pixel(out + K, done_q1, bias_0);
                        }
                        out += pitch_y;
                        if (step++ == last) break;
                    }
                }
            }
        }
    }
}
