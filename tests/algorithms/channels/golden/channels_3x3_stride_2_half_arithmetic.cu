// warpconv 0.1.0: channels, float16. Generated from templates/channels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --stride 2,2 --padding 1 --groups 16 --dtype float16 \
//     --layout NHWC --accumulate float16 --epilogue bias --arch sm_90 --algorithm channels \
//     --set body=ring --set vector=4 --set columns=1 --set width=any --set sub_block_rows=14 --set prefetch_rows=2 \
//     --set block_channels=8 --set block_columns=8 --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 2, padding 1, groups 16, float16 NHWC, float16
//        arithmetic, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   a thread makes 1 columns x 14 rows of 4 channels; 8 x 8 x 1 threads a block along channels, columns, rows
// cost   14 rows x 1 columns of 4 channels a lane: 102 warp loads, 0 shuffles, 270 FMA a lane, about 132 registers
//        (direct: 126 loads)
//
// Neighbouring lanes have neighbouring channels: loads and stores are unbroken, and no lane needs another's data. A
// thread walks down its columns. Each step loads 2 input rows and adds it to the 2 output rows that need it, oldest
// first: the oldest is finished and stored, and each other row's sum goes to the register of the next older one.
constexpr int C = 16;                           // channels of a pixel of x
constexpr int K = 16;                           // channels of a pixel of y
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int DILATION_H = 1;                   // input rows from one tap to the next: a row unit
constexpr int STEP = 2;                         // row units from one output row of a class to the next
constexpr int VECTOR = 4;                       // a thread's output channels
constexpr int ROWS = 14;                        // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 8;                // columns,
constexpr int VECTORS = 4;                      // threads that all channels take
constexpr int FILTER_STRIDE = 9;                // shared memory: from one channel's filter to the next,
constexpr int ROW_STRIDE = 3;                   // and from one filter row to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// half arithmetic: both channels of a word at once
__device__ __forceinline__ unsigned wc_fma_halves(unsigned a, unsigned b, unsigned c) { unsigned word; asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(a), "r"(b), "r"(c)); return word; }

// The channels of one pixel.
__device__ __forceinline__ uint2 load_pixel(const unsigned short* pixel) {
    return __ldg((const uint2*)pixel);
}

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(unsigned short* pixel, unsigned sum_0, unsigned sum_1, float bias_0,
        float bias_1, float bias_2, float bias_3) {
    const unsigned part_0 =
        wc_floats_to_halves(finish(wc_half_low_to_float(sum_0), bias_0), finish(wc_half_high_to_float(sum_0), bias_1));
    const unsigned part_1 =
        wc_floats_to_halves(finish(wc_half_low_to_float(sum_1), bias_2), finish(wc_half_high_to_float(sum_1), bias_3));
    *(uint2*)pixel = make_uint2(part_0, part_1);
}

extern "C" __global__ void __launch_bounds__(64, 4)
channels_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    // the filters of this block's channels, read in the order of memory
    __shared__ __align__(16) unsigned filters[144];
    const int staged = min(BLOCK_CHANNELS, VECTORS) * (2 * R * ROW_STRIDE);
    const unsigned short* w_block = w;
    for (int i = threadIdx.x; i < staged; i += 64) {
        const int unit = i / (R * ROW_STRIDE), row = i / ROW_STRIDE % R, s = i % ROW_STRIDE;
        const int low = (unit * 2 * R + row) * S + s, high = low + R * S;
        filters[unit * FILTER_STRIDE + row * ROW_STRIDE + s] = s < S ? w_block[low] | (unsigned)w_block[high] << 16 : 0;
    }
    __syncthreads();

    // this thread's channels, columns and sub-blocks
    const int channels = threadIdx.x % BLOCK_CHANNELS, column_job = threadIdx.x / BLOCK_CHANNELS;
    const int first_row_job = blockIdx.y;    // the same for the whole block, so no lanes part ways
    const int k = channels * VECTOR;                                        // first channel of y
    const int q = blockIdx.x * BLOCK_COLUMNS + column_job;
    if (k >= K || q >= Q) return;
    const int column = q * STRIDE_W - PAD_LEFT;
    const unsigned* filter = filters + channels * (2 * FILTER_STRIDE);
    const unsigned w_v0_r0_s0 = filter[0], w_v0_r0_s1 = filter[1], w_v0_r0_s2 = filter[2];
    const unsigned w_v0_r1_s0 = filter[3], w_v0_r1_s1 = filter[4], w_v0_r1_s2 = filter[5];
    const unsigned w_v0_r2_s0 = filter[6], w_v0_r2_s1 = filter[7], w_v0_r2_s2 = filter[8];
    const unsigned w_v1_r0_s0 = filter[9], w_v1_r0_s1 = filter[10], w_v1_r0_s2 = filter[11];
    const unsigned w_v1_r1_s0 = filter[12], w_v1_r1_s1 = filter[13], w_v1_r1_s2 = filter[14];
    const unsigned w_v1_r2_s0 = filter[15], w_v1_r2_s1 = filter[16], w_v1_r2_s2 = filter[17];
    const float bias_0 = wc_half_to_float(bias[k]), bias_1 = wc_half_to_float(bias[k + 1]),
        bias_2 = wc_half_to_float(bias[k + 2]), bias_3 = wc_half_to_float(bias[k + 3]);
    // columns of the image, from this thread's first
    const int first_inside = -column, end_inside = W - column;
    const long long pitch_x = (long long)W * C, pitch_y = (long long)Q * K;
    const int row_jobs = (P + ROWS - 1) / ROWS;

    for (index_t n = blockIdx.z; n < N; n += gridDim.z) {
        for (int row_job = first_row_job; row_job < row_jobs; row_job += gridDim.y) {
            // output rows begin .. end - 1 of the class; row unit t is image row t * DILATION_H + top
            const int begin = row_job * ROWS;
            const int end = min(begin + ROWS, P);
            if (begin >= end) continue;
            const int top = 0 - PAD_TOP;
            const int last_unit = (H - 1 - top) >= 0 ? (H - 1 - top) : -1;                       // the image's last
            const int first_unit = max(begin * STEP, top < 0 ? (0 - top) : 0);
            const unsigned short* x_class = x + ((long long)(n * H + top) * W + column) * C + k;
            unsigned short* y_class = y + ((n * P) * Q + q) * K + k;
            // steps first .. last touch the image; step i finishes output row i - 1
            const int first = first_unit / STEP;
            const int last = max(first - 1, min(end - 1 + 1, last_unit < 0 ? -1 : last_unit / STEP));
            unsigned short* out = y_class + (first - 1) * pitch_y;
            unsigned acc_p0_q0_v0 = 0, acc_p0_q0_v1 = 0;
            if (first <= last) {
                const unsigned short* ahead = x_class + first * STEP * pitch_x;
                int ahead_row = top + first * STEP;
                uint2 word0_r0_c0 = make_uint2(0, 0), word0_r0_c1 = make_uint2(0, 0), word0_r0_c2 = make_uint2(0, 0);
                uint2 word0_r1_c0 = make_uint2(0, 0), word0_r1_c1 = make_uint2(0, 0), word0_r1_c2 = make_uint2(0, 0);
                uint2 word1_r0_c0 = make_uint2(0, 0), word1_r0_c1 = make_uint2(0, 0), word1_r0_c2 = make_uint2(0, 0);
                uint2 word1_r1_c0 = make_uint2(0, 0), word1_r1_c1 = make_uint2(0, 0), word1_r1_c2 = make_uint2(0, 0);
                uint2 word2_r0_c0 = make_uint2(0, 0), word2_r0_c1 = make_uint2(0, 0), word2_r0_c2 = make_uint2(0, 0);
                uint2 word2_r1_c0 = make_uint2(0, 0), word2_r1_c1 = make_uint2(0, 0), word2_r1_c2 = make_uint2(0, 0);
                bool row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                bool row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                word0_r0_c0 = make_uint2(0, 0);
                if (row_inside_r0) {
                    if (0 >= first_inside && 0 < end_inside) word0_r0_c0 = load_pixel(ahead);
                }
                word0_r0_c1 = make_uint2(0, 0);
                if (row_inside_r0) {
                    if (1 < end_inside) word0_r0_c1 = load_pixel(ahead + C);
                }
                word0_r0_c2 = make_uint2(0, 0);
                if (row_inside_r0) {
                    if (2 < end_inside) word0_r0_c2 = load_pixel(ahead + 2 * C);
                }
                word0_r1_c0 = make_uint2(0, 0);
                if (row_inside_r1) {
                    if (0 >= first_inside && 0 < end_inside) word0_r1_c0 = load_pixel(ahead + pitch_x);
                }
                word0_r1_c1 = make_uint2(0, 0);
                if (row_inside_r1) {
                    if (1 < end_inside) word0_r1_c1 = load_pixel(ahead + pitch_x + C);
                }
                word0_r1_c2 = make_uint2(0, 0);
                if (row_inside_r1) {
                    if (2 < end_inside) word0_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                }
                ahead += STEP * pitch_x;
                ahead_row += STEP;
                row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                word1_r0_c0 = make_uint2(0, 0);
                if (row_inside_r0) {
                    if (0 >= first_inside && 0 < end_inside) word1_r0_c0 = load_pixel(ahead);
                }
                word1_r0_c1 = make_uint2(0, 0);
                if (row_inside_r0) {
                    if (1 < end_inside) word1_r0_c1 = load_pixel(ahead + C);
                }
                word1_r0_c2 = make_uint2(0, 0);
                if (row_inside_r0) {
                    if (2 < end_inside) word1_r0_c2 = load_pixel(ahead + 2 * C);
                }
                word1_r1_c0 = make_uint2(0, 0);
                if (row_inside_r1) {
                    if (0 >= first_inside && 0 < end_inside) word1_r1_c0 = load_pixel(ahead + pitch_x);
                }
                word1_r1_c1 = make_uint2(0, 0);
                if (row_inside_r1) {
                    if (1 < end_inside) word1_r1_c1 = load_pixel(ahead + pitch_x + C);
                }
                word1_r1_c2 = make_uint2(0, 0);
                if (row_inside_r1) {
                    if (2 < end_inside) word1_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                }
#pragma unroll 1
                for (int step = first;;) {
                    {
                        // register set 0: loads for a later step, products, the finished row
                        ahead += STEP * pitch_x;
                        ahead_row += STEP;
                        row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                        row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                        word2_r0_c0 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (0 >= first_inside && 0 < end_inside) word2_r0_c0 = load_pixel(ahead);
                        }
                        word2_r0_c1 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (1 < end_inside) word2_r0_c1 = load_pixel(ahead + C);
                        }
                        word2_r0_c2 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (2 < end_inside) word2_r0_c2 = load_pixel(ahead + 2 * C);
                        }
                        word2_r1_c0 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (0 >= first_inside && 0 < end_inside) word2_r1_c0 = load_pixel(ahead + pitch_x);
                        }
                        word2_r1_c1 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (1 < end_inside) word2_r1_c1 = load_pixel(ahead + pitch_x + C);
                        }
                        word2_r1_c2 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (2 < end_inside) word2_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                        }
                        unsigned done_q0_v0, done_q0_v1;
                        done_q0_v0 =
                            wc_fma_halves(word0_r0_c2.x, w_v0_r2_s2,
                            wc_fma_halves(word0_r0_c1.x, w_v0_r2_s1,
                            wc_fma_halves(word0_r0_c0.x, w_v0_r2_s0, acc_p0_q0_v0)));
                        done_q0_v1 =
                            wc_fma_halves(word0_r0_c2.y, w_v1_r2_s2,
                            wc_fma_halves(word0_r0_c1.y, w_v1_r2_s1,
                            wc_fma_halves(word0_r0_c0.y, w_v1_r2_s0, acc_p0_q0_v1)));
                        acc_p0_q0_v0 =
                            wc_fma_halves(word0_r1_c0.x, w_v0_r1_s0,
                            wc_fma_halves(word0_r0_c2.x, w_v0_r0_s2,
                            wc_fma_halves(word0_r0_c1.x, w_v0_r0_s1, wc_fma_halves(word0_r0_c0.x, w_v0_r0_s0, 0))));
                        acc_p0_q0_v0 =
                            wc_fma_halves(word0_r1_c2.x, w_v0_r1_s2,
                            wc_fma_halves(word0_r1_c1.x, w_v0_r1_s1, acc_p0_q0_v0));
                        acc_p0_q0_v1 =
                            wc_fma_halves(word0_r1_c0.y, w_v1_r1_s0,
                            wc_fma_halves(word0_r0_c2.y, w_v1_r0_s2,
                            wc_fma_halves(word0_r0_c1.y, w_v1_r0_s1, wc_fma_halves(word0_r0_c0.y, w_v1_r0_s0, 0))));
                        acc_p0_q0_v1 =
                            wc_fma_halves(word0_r1_c2.y, w_v1_r1_s2,
                            wc_fma_halves(word0_r1_c1.y, w_v1_r1_s1, acc_p0_q0_v1));
                        if (step >= begin + 1) {
                            store_pixel(out, done_q0_v0, done_q0_v1, bias_0, bias_1, bias_2, bias_3);
                        }
                        out += pitch_y;
                        if (step++ == last) break;
                    }
                    {
                        // register set 1: loads for a later step, products, the finished row
                        ahead += STEP * pitch_x;
                        ahead_row += STEP;
                        row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                        row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                        word0_r0_c0 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (0 >= first_inside && 0 < end_inside) word0_r0_c0 = load_pixel(ahead);
                        }
                        word0_r0_c1 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (1 < end_inside) word0_r0_c1 = load_pixel(ahead + C);
                        }
                        word0_r0_c2 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (2 < end_inside) word0_r0_c2 = load_pixel(ahead + 2 * C);
                        }
                        word0_r1_c0 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (0 >= first_inside && 0 < end_inside) word0_r1_c0 = load_pixel(ahead + pitch_x);
                        }
                        word0_r1_c1 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (1 < end_inside) word0_r1_c1 = load_pixel(ahead + pitch_x + C);
                        }
                        word0_r1_c2 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (2 < end_inside) word0_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                        }
                        unsigned done_q0_v0, done_q0_v1;
                        done_q0_v0 =
                            wc_fma_halves(word1_r0_c2.x, w_v0_r2_s2,
                            wc_fma_halves(word1_r0_c1.x, w_v0_r2_s1,
                            wc_fma_halves(word1_r0_c0.x, w_v0_r2_s0, acc_p0_q0_v0)));
                        done_q0_v1 =
                            wc_fma_halves(word1_r0_c2.y, w_v1_r2_s2,
                            wc_fma_halves(word1_r0_c1.y, w_v1_r2_s1,
                            wc_fma_halves(word1_r0_c0.y, w_v1_r2_s0, acc_p0_q0_v1)));
                        acc_p0_q0_v0 =
                            wc_fma_halves(word1_r1_c0.x, w_v0_r1_s0,
                            wc_fma_halves(word1_r0_c2.x, w_v0_r0_s2,
                            wc_fma_halves(word1_r0_c1.x, w_v0_r0_s1, wc_fma_halves(word1_r0_c0.x, w_v0_r0_s0, 0))));
                        acc_p0_q0_v0 =
                            wc_fma_halves(word1_r1_c2.x, w_v0_r1_s2,
                            wc_fma_halves(word1_r1_c1.x, w_v0_r1_s1, acc_p0_q0_v0));
                        acc_p0_q0_v1 =
                            wc_fma_halves(word1_r1_c0.y, w_v1_r1_s0,
                            wc_fma_halves(word1_r0_c2.y, w_v1_r0_s2,
                            wc_fma_halves(word1_r0_c1.y, w_v1_r0_s1, wc_fma_halves(word1_r0_c0.y, w_v1_r0_s0, 0))));
                        acc_p0_q0_v1 =
                            wc_fma_halves(word1_r1_c2.y, w_v1_r1_s2,
                            wc_fma_halves(word1_r1_c1.y, w_v1_r1_s1, acc_p0_q0_v1));
                        if (step >= begin + 1) {
                            store_pixel(out, done_q0_v0, done_q0_v1, bias_0, bias_1, bias_2, bias_3);
                        }
                        out += pitch_y;
                        if (step++ == last) break;
                    }
                    {
                        // register set 2: loads for a later step, products, the finished row
                        ahead += STEP * pitch_x;
                        ahead_row += STEP;
                        row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                        row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                        word1_r0_c0 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (0 >= first_inside && 0 < end_inside) word1_r0_c0 = load_pixel(ahead);
                        }
                        word1_r0_c1 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (1 < end_inside) word1_r0_c1 = load_pixel(ahead + C);
                        }
                        word1_r0_c2 = make_uint2(0, 0);
                        if (row_inside_r0) {
                            if (2 < end_inside) word1_r0_c2 = load_pixel(ahead + 2 * C);
                        }
                        word1_r1_c0 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (0 >= first_inside && 0 < end_inside) word1_r1_c0 = load_pixel(ahead + pitch_x);
                        }
                        word1_r1_c1 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (1 < end_inside) word1_r1_c1 = load_pixel(ahead + pitch_x + C);
                        }
                        word1_r1_c2 = make_uint2(0, 0);
                        if (row_inside_r1) {
                            if (2 < end_inside) word1_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                        }
                        unsigned done_q0_v0, done_q0_v1;
                        done_q0_v0 =
                            wc_fma_halves(word2_r0_c2.x, w_v0_r2_s2,
                            wc_fma_halves(word2_r0_c1.x, w_v0_r2_s1,
                            wc_fma_halves(word2_r0_c0.x, w_v0_r2_s0, acc_p0_q0_v0)));
                        done_q0_v1 =
                            wc_fma_halves(word2_r0_c2.y, w_v1_r2_s2,
                            wc_fma_halves(word2_r0_c1.y, w_v1_r2_s1,
                            wc_fma_halves(word2_r0_c0.y, w_v1_r2_s0, acc_p0_q0_v1)));
                        acc_p0_q0_v0 =
                            wc_fma_halves(word2_r1_c0.x, w_v0_r1_s0,
                            wc_fma_halves(word2_r0_c2.x, w_v0_r0_s2,
                            wc_fma_halves(word2_r0_c1.x, w_v0_r0_s1, wc_fma_halves(word2_r0_c0.x, w_v0_r0_s0, 0))));
                        acc_p0_q0_v0 =
                            wc_fma_halves(word2_r1_c2.x, w_v0_r1_s2,
                            wc_fma_halves(word2_r1_c1.x, w_v0_r1_s1, acc_p0_q0_v0));
                        acc_p0_q0_v1 =
                            wc_fma_halves(word2_r1_c0.y, w_v1_r1_s0,
                            wc_fma_halves(word2_r0_c2.y, w_v1_r0_s2,
                            wc_fma_halves(word2_r0_c1.y, w_v1_r0_s1, wc_fma_halves(word2_r0_c0.y, w_v1_r0_s0, 0))));
                        acc_p0_q0_v1 =
                            wc_fma_halves(word2_r1_c2.y, w_v1_r1_s2,
                            wc_fma_halves(word2_r1_c1.y, w_v1_r1_s1, acc_p0_q0_v1));
                        if (step >= begin + 1) {
                            store_pixel(out, done_q0_v0, done_q0_v1, bias_0, bias_1, bias_2, bias_3);
                        }
                        out += pitch_y;
                        if (step++ == last) break;
                    }
                }
            }
            // rows that the image's last row leaves unfinished
            if (last >= begin && last < end) {
                store_pixel(out, acc_p0_q0_v0, acc_p0_q0_v1, bias_0, bias_1, bias_2, bias_3);
            }
        }
    }
}
