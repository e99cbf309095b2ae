// warpconv 0.1.0: channels, float16. Generated from templates/channels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --padding 1 --groups 16 --dtype float16 --layout NHWC \
//     --arch sm_90 --algorithm channels \
//     --set body=ring --set vector=2 --set columns=2 --set width=whole --set sub_block_rows=14 \
//     --set prefetch_rows=1 --set block_channels=8 --set block_columns=8 --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 1, padding 1, groups 16, float16 NHWC
//        N, H, W (and so P, Q) are arguments (Q a multiple of 2); all else is a constant of the text
// plan   a thread makes 2 columns x 14 rows of 2 channels; 8 x 8 x 1 threads a block along channels, columns, rows
// cost   14 rows x 2 columns of 2 channels a lane: 68 warp loads, 0 shuffles, 576 FMA a lane, about 68 registers
//        (direct: 252 loads)
//
// Neighbouring lanes have neighbouring channels: loads and stores are unbroken, and no lane needs another's data. A
// thread walks down its columns. Each step loads an input row and adds it to the 3 output rows that need it, oldest
// first: the oldest is finished and stored, and each other row's sum goes to the register of the next older one.
constexpr int C = 16;                           // channels of a pixel of x
constexpr int K = 16;                           // channels of a pixel of y
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int VECTOR = 2;                       // a thread's output channels
constexpr int COLUMNS = 2;                      // a thread's output columns
constexpr int ROWS = 14;                        // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 8;                // columns,
constexpr int VECTORS = 8;                      // threads that all channels take
constexpr int FILTER_STRIDE = 9;                // shared memory: from one channel's filter to the next,
constexpr int ROW_STRIDE = 3;                   // and from one filter row to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// The channels of one pixel.
__device__ __forceinline__ unsigned load_pixel(const unsigned short* pixel) {
    return __ldg((const unsigned*)pixel);
}

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(unsigned short* pixel, float sum_0, float sum_1) {
    const unsigned part_0 = wc_floats_to_halves(sum_0, sum_1);
    *(unsigned*)pixel = part_0;
}

extern "C" __global__ void __launch_bounds__(64, 4)
channels_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q) {
    // the filters of this block's channels, read in the order of memory
    __shared__ __align__(16) float filters[144];
    const int staged = min(BLOCK_CHANNELS, VECTORS) * (2 * R * ROW_STRIDE);
    const unsigned short* w_block = w;
    for (int i = threadIdx.x; i < staged; i += 64) {
        const int unit = i / (R * ROW_STRIDE), row = i / ROW_STRIDE % R, s = i % ROW_STRIDE;
        const int tap = (unit * R + row) * S + s;
        filters[unit * FILTER_STRIDE + row * ROW_STRIDE + s] = s < S ? wc_half_to_float(w_block[tap]) : 0;
    }
    __syncthreads();

    // this thread's channels, columns and sub-blocks
    const int channels = threadIdx.x % BLOCK_CHANNELS, column_job = threadIdx.x / BLOCK_CHANNELS;
    const int first_row_job = blockIdx.y;    // the same for the whole block, so no lanes part ways
    const int k = channels * VECTOR;                                        // first channel of y
    const int q = (blockIdx.x * BLOCK_COLUMNS + column_job) * COLUMNS;
    if (k >= K || q >= Q) return;
    const int column = q - PAD_LEFT;
    const float* filter = filters + channels * (2 * FILTER_STRIDE);
    const float w_v0_r0_s0 = filter[0], w_v0_r0_s1 = filter[1], w_v0_r0_s2 = filter[2];
    const float w_v0_r1_s0 = filter[3], w_v0_r1_s1 = filter[4], w_v0_r1_s2 = filter[5];
    const float w_v0_r2_s0 = filter[6], w_v0_r2_s1 = filter[7], w_v0_r2_s2 = filter[8];
    const float w_v1_r0_s0 = filter[9], w_v1_r0_s1 = filter[10], w_v1_r0_s2 = filter[11];
    const float w_v1_r1_s0 = filter[12], w_v1_r1_s1 = filter[13], w_v1_r1_s2 = filter[14];
    const float w_v1_r2_s0 = filter[15], w_v1_r2_s1 = filter[16], w_v1_r2_s2 = filter[17];
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
            const unsigned short* x_class = x + ((long long)(n * H + top) * W + column) * C + k;
            unsigned short* y_class = y + ((n * P) * Q + q) * K + k;
            // steps first .. last touch the image; step i finishes output row i - 2
            const int first = first_unit;
            const int last = max(first - 1, min(end - 1 + 2, last_unit));
            unsigned short* out = y_class + (first - 2) * pitch_y;
            float acc_p0_q0_v0 = 0, acc_p0_q0_v1 = 0;
            float acc_p0_q1_v0 = 0, acc_p0_q1_v1 = 0;
            float acc_p1_q0_v0 = 0, acc_p1_q0_v1 = 0;
            float acc_p1_q1_v0 = 0, acc_p1_q1_v1 = 0;
            if (first <= last) {
                const unsigned short* ahead = x_class + first * pitch_x;
                unsigned word_c0 = 0, word_c1 = 0, word_c2 = 0, word_c3 = 0;
                if (0 >= first_inside) word_c0 = load_pixel(ahead);
                word_c1 = load_pixel(ahead + C);
                word_c2 = load_pixel(ahead + 2 * C);
                if (3 < end_inside) word_c3 = load_pixel(ahead + 3 * C);
#pragma unroll 1
                for (int step = first;;) {
                    // loads for a later step, products, the finished row
                    const float x_c0_v0 = wc_half_low_to_float(word_c0), x_c0_v1 = wc_half_high_to_float(word_c0);
                    const float x_c1_v0 = wc_half_low_to_float(word_c1), x_c1_v1 = wc_half_high_to_float(word_c1);
                    const float x_c2_v0 = wc_half_low_to_float(word_c2), x_c2_v1 = wc_half_high_to_float(word_c2);
                    const float x_c3_v0 = wc_half_low_to_float(word_c3), x_c3_v1 = wc_half_high_to_float(word_c3);
                    if (step < last) ahead += pitch_x;
                    if (0 >= first_inside) word_c0 = load_pixel(ahead);
                    word_c1 = load_pixel(ahead + C);
                    word_c2 = load_pixel(ahead + 2 * C);
                    if (3 < end_inside) word_c3 = load_pixel(ahead + 3 * C);
                    float done_q0_v0, done_q0_v1;
                    float done_q1_v0, done_q1_v1;
                    done_q0_v0 =
                        fmaf(x_c2_v0, w_v0_r2_s2, fmaf(x_c1_v0, w_v0_r2_s1, fmaf(x_c0_v0, w_v0_r2_s0, acc_p0_q0_v0)));
                    done_q0_v1 =
                        fmaf(x_c2_v1, w_v1_r2_s2, fmaf(x_c1_v1, w_v1_r2_s1, fmaf(x_c0_v1, w_v1_r2_s0, acc_p0_q0_v1)));
                    done_q1_v0 =
                        fmaf(x_c3_v0, w_v0_r2_s2, fmaf(x_c2_v0, w_v0_r2_s1, fmaf(x_c1_v0, w_v0_r2_s0, acc_p0_q1_v0)));
                    done_q1_v1 =
                        fmaf(x_c3_v1, w_v1_r2_s2, fmaf(x_c2_v1, w_v1_r2_s1, fmaf(x_c1_v1, w_v1_r2_s0, acc_p0_q1_v1)));
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
                    if (step >= begin + 2) {
                        store_pixel(out, done_q0_v0, done_q0_v1);
                        store_pixel(out + K, done_q1_v0, done_q1_v1);
                    }
                    out += pitch_y;
                    if (step++ == last) break;
                }
            }
            // rows that the image's last row leaves unfinished
            if (last - 1 >= begin && last - 1 < end) {
                store_pixel(out, acc_p0_q0_v0, acc_p0_q0_v1);
                store_pixel(out + K, acc_p0_q1_v0, acc_p0_q1_v1);
            }
            if (last >= begin && last < end) {
                store_pixel(out + pitch_y, acc_p1_q0_v0, acc_p1_q0_v1);
                store_pixel(out + pitch_y + K, acc_p1_q1_v0, acc_p1_q1_v1);
            }
        }
    }
}
