// warpconv 0.1.0: channels, bfloat16. Generated from templates/channels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 32,5,5 --padding 2 --groups 16 --dtype bfloat16 --layout NHWC \
//     --epilogue bias,relu --arch sm_90 --algorithm channels \
//     --set body=tile --set vector=1 --set columns=4 --set width=whole --set sub_block_rows=2 \
//     --set prefetch_rows=1 --set block_channels=8 --set block_columns=8 --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[32, 1, 5, 5] -> y[N, P, Q, 32], stride 1, padding 2, groups 16, bfloat16 NHWC, then bias,
//        relu
//        N, H, W (and so P, Q) are arguments (Q a multiple of 4); all else is a constant of the text
// plan   a thread makes 4 columns x 2 rows of 1 channel; 8 x 8 x 1 threads a block along channels, columns, rows
// cost   2 rows x 4 columns of 1 channel a lane: 56 warp loads, 0 shuffles, 200 FMA a lane, about 58 registers (direct:
//        200 loads)
//
// Neighbouring lanes have neighbouring channels: loads and stores are unbroken, and no lane needs another's data.
// A thread keeps its 2 x 4 outputs in registers while the input rows pass by, each loaded once and one row ahead.
constexpr int C = 16;                           // channels of a pixel of x
constexpr int K = 32;                           // channels of a pixel of y
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows of zeros above the image
constexpr int PAD_LEFT = 2;                     // columns of zeros to the left of the image
constexpr int STEP = 1;                         // row units from one output row of a class to the next
constexpr int COLUMNS = 4;                      // a thread's output columns
constexpr int ROWS = 2;                         // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 8;                // columns,
constexpr int VECTORS = 32;                     // threads that all channels take
constexpr int CHANNEL_BLOCKS = 4;               // and blocks beside each other for them
constexpr int FILTER_STRIDE = 44;               // shared memory: from one channel's filter to the next,
constexpr int ROW_STRIDE = 8;                   // and from one filter row to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// The channels of one pixel.
__device__ __forceinline__ unsigned short load_pixel(const unsigned short* pixel) {
    return __ldg((const unsigned short*)pixel);
}

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(unsigned short* pixel, float sum_0, float bias_0) {
    const unsigned short part_0 = wc_float_to_bfloat16(finish(sum_0, bias_0));
    *(unsigned short*)pixel = part_0;
}

extern "C" __global__ void __launch_bounds__(64, 4)
channels_5x5(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    // the filters of this block's channels, read in the order of memory
    __shared__ __align__(16) float filters[352];
    const int first_vector = blockIdx.x % CHANNEL_BLOCKS * BLOCK_CHANNELS;
    const int staged = min(BLOCK_CHANNELS, VECTORS - first_vector) * (R * ROW_STRIDE);
    const unsigned short* w_block = w + (index_t)first_vector * (R * S);
    for (int i = threadIdx.x; i < staged; i += 64) {
        const int unit = i / (R * ROW_STRIDE), row = i / ROW_STRIDE % R, s = i % ROW_STRIDE;
        const int tap = (unit * R + row) * S + s;
        filters[unit * FILTER_STRIDE + row * ROW_STRIDE + s] = s < S ? wc_bfloat16_to_float(w_block[tap]) : 0;
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
    const float bias_0 = wc_bfloat16_to_float(bias[k]);
    // columns of the image, from this thread's first
    const int first_inside = -column, end_inside = W - column;
    const long long pitch_x = (long long)W * C, pitch_y = (long long)Q * K;
    const int row_jobs = (P + ROWS - 1) / ROWS;

    for (index_t n = blockIdx.z; n < N; n += gridDim.z) {
        for (int row_job = first_row_job; row_job < row_jobs; row_job += gridDim.y) {
            // output rows begin .. end - 1 of the class; row unit t is image row t * DILATION_H + top
            const int row_class = 0, begin = row_job * ROWS;
            const int end = min(begin + ROWS, P);
            if (begin >= end) continue;
            const int top = row_class - PAD_TOP;
            const int last_unit = (H - 1 - top) >= 0 ? (H - 1 - top) : -1;                       // the image's last
            const int first_unit = max(begin, top < 0 ? (0 - top) : 0);
            const unsigned short* x_class = x + ((long long)(n * H + top) * W + column) * C + k / 2;
            unsigned short* y_class = y + ((n * P) * Q + q) * K + k;
            const int last = min((end - 1) + R - 1, last_unit);
            float acc_p0_q0 = 0, acc_p0_q1 = 0, acc_p0_q2 = 0, acc_p0_q3 = 0;
            float acc_p1_q0 = 0, acc_p1_q1 = 0, acc_p1_q2 = 0, acc_p1_q3 = 0;
            if (first_unit <= last) {
                const unsigned short* row = x_class + first_unit * pitch_x;
                unsigned short word_c0 = 0;
                if (0 >= first_inside) word_c0 = load_pixel(row);
                unsigned short word_c1 = 0;
                if (1 >= first_inside) word_c1 = load_pixel(row + C);
                unsigned short word_c2 = 0;
                word_c2 = load_pixel(row + 2 * C);
                unsigned short word_c3 = 0;
                word_c3 = load_pixel(row + 3 * C);
                unsigned short word_c4 = 0;
                word_c4 = load_pixel(row + 4 * C);
                unsigned short word_c5 = 0;
                word_c5 = load_pixel(row + 5 * C);
                unsigned short word_c6 = 0;
                if (6 < end_inside) word_c6 = load_pixel(row + 6 * C);
                unsigned short word_c7 = 0;
                if (7 < end_inside) word_c7 = load_pixel(row + 7 * C);
#pragma unroll 1
                for (int unit = first_unit; unit <= last; ++unit) {
                    // the row in work, and the next one's loads (the last row's again where there is none)
                    const float x_c0 = wc_bfloat16_to_float(word_c0);
                    const float x_c1 = wc_bfloat16_to_float(word_c1);
                    const float x_c2 = wc_bfloat16_to_float(word_c2);
                    const float x_c3 = wc_bfloat16_to_float(word_c3);
                    const float x_c4 = wc_bfloat16_to_float(word_c4);
                    const float x_c5 = wc_bfloat16_to_float(word_c5);
                    const float x_c6 = wc_bfloat16_to_float(word_c6);
                    const float x_c7 = wc_bfloat16_to_float(word_c7);
                    if (unit < last) row += pitch_x;
                    if (0 >= first_inside) word_c0 = load_pixel(row);
                    if (1 >= first_inside) word_c1 = load_pixel(row + C);
                    word_c2 = load_pixel(row + 2 * C);
                    word_c3 = load_pixel(row + 3 * C);
                    word_c4 = load_pixel(row + 4 * C);
                    word_c5 = load_pixel(row + 5 * C);
                    if (6 < end_inside) word_c6 = load_pixel(row + 6 * C);
                    if (7 < end_inside) word_c7 = load_pixel(row + 7 * C);
                    // its filter row in the window of output row 0 of the tile
                    const int r = unit - begin;
                    const float* filter_row = filter + r * ROW_STRIDE;
                    if ((unsigned)r < (unsigned)R) {
                        const float4 w_s0 = *(const float4*)(filter_row);
                        acc_p0_q0 =
                            fmaf(x_c3, w_s0.w, fmaf(x_c2, w_s0.z, fmaf(x_c1, w_s0.y, fmaf(x_c0, w_s0.x, acc_p0_q0))));
                        acc_p0_q1 =
                            fmaf(x_c4, w_s0.w, fmaf(x_c3, w_s0.z, fmaf(x_c2, w_s0.y, fmaf(x_c1, w_s0.x, acc_p0_q1))));
                        acc_p0_q2 =
                            fmaf(x_c5, w_s0.w, fmaf(x_c4, w_s0.z, fmaf(x_c3, w_s0.y, fmaf(x_c2, w_s0.x, acc_p0_q2))));
                        acc_p0_q3 =
                            fmaf(x_c6, w_s0.w, fmaf(x_c5, w_s0.z, fmaf(x_c4, w_s0.y, fmaf(x_c3, w_s0.x, acc_p0_q3))));
                        const float4 w_s4 = *(const float4*)(filter_row + 4);
                        acc_p0_q0 = fmaf(x_c4, w_s4.x, acc_p0_q0);
                        acc_p0_q1 = fmaf(x_c5, w_s4.x, acc_p0_q1);
                        acc_p0_q2 = fmaf(x_c6, w_s4.x, acc_p0_q2);
                        acc_p0_q3 = fmaf(x_c7, w_s4.x, acc_p0_q3);
                    }
                    if ((unsigned)(r - STEP) < (unsigned)R) {
                        const float4 w_s0 = *(const float4*)(filter_row - ROW_STRIDE);
                        acc_p1_q0 =
                            fmaf(x_c3, w_s0.w, fmaf(x_c2, w_s0.z, fmaf(x_c1, w_s0.y, fmaf(x_c0, w_s0.x, acc_p1_q0))));
                        acc_p1_q1 =
                            fmaf(x_c4, w_s0.w, fmaf(x_c3, w_s0.z, fmaf(x_c2, w_s0.y, fmaf(x_c1, w_s0.x, acc_p1_q1))));
                        acc_p1_q2 =
                            fmaf(x_c5, w_s0.w, fmaf(x_c4, w_s0.z, fmaf(x_c3, w_s0.y, fmaf(x_c2, w_s0.x, acc_p1_q2))));
                        acc_p1_q3 =
                            fmaf(x_c6, w_s0.w, fmaf(x_c5, w_s0.z, fmaf(x_c4, w_s0.y, fmaf(x_c3, w_s0.x, acc_p1_q3))));
                        const float4 w_s4 = *(const float4*)(filter_row - ROW_STRIDE + 4);
                        acc_p1_q0 = fmaf(x_c4, w_s4.x, acc_p1_q0);
                        acc_p1_q1 = fmaf(x_c5, w_s4.x, acc_p1_q1);
                        acc_p1_q2 = fmaf(x_c6, w_s4.x, acc_p1_q2);
                        acc_p1_q3 = fmaf(x_c7, w_s4.x, acc_p1_q3);
                    }
                }
            }
            unsigned short* out = y_class + begin * pitch_y;
            store_pixel(out, acc_p0_q0, bias_0);
            store_pixel(out + K, acc_p0_q1, bias_0);
            store_pixel(out + 2 * K, acc_p0_q2, bias_0);
            store_pixel(out + 3 * K, acc_p0_q3, bias_0);
            out += pitch_y;
            if (begin + 1 < end) store_pixel(out, acc_p1_q0, bias_0);
            if (begin + 1 < end) store_pixel(out + K, acc_p1_q1, bias_0);
            if (begin + 1 < end) store_pixel(out + 2 * K, acc_p1_q2, bias_0);
            if (begin + 1 < end) store_pixel(out + 3 * K, acc_p1_q3, bias_0);
            out += pitch_y;
        }
    }
}
