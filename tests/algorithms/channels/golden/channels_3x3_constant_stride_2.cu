// warpconv 0.1.0: channels, float32. Generated from templates/channels/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --stride 2,2 --padding 1 --padding-mode constant \
//     --padding-value 1 --groups 16 --layout NHWC --arch sm_90 --algorithm channels \
//     --set body=ring --set vector=1 --set columns=1 --set width=any --set sub_block_rows=14 --set prefetch_rows=1 \
//     --set block_channels=8 --set block_columns=8 --set block_rows=1 --set min_blocks=4
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 2, padding 1 (constant), groups 16, float32 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image) are arguments; all else is a constant of
//        the text
// plan   a thread makes 1 columns x 14 rows of 1 channel; 8 x 8 x 1 threads a block along channels, columns, rows
// cost   14 rows x 1 columns of 1 channel a lane: 96 warp loads, 0 shuffles, 135 FMA a lane, about 97 registers
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
constexpr int PAD_TOP = 1;                      // rows above the image
constexpr int PAD_LEFT = 1;                     // columns to the left of the image
constexpr int DILATION_H = 1;                   // input rows from one tap to the next: a row unit
constexpr int STEP = 2;                         // row units from one output row of a class to the next
constexpr int ROWS = 14;                        // and rows
constexpr int BLOCK_CHANNELS = 8;               // threads of a block along channels,
constexpr int BLOCK_COLUMNS = 8;                // columns,
constexpr int VECTORS = 16;                     // threads that all channels take
constexpr int CHANNEL_BLOCKS = 2;               // and blocks beside each other for them
constexpr int FILTER_STRIDE = 9;                // shared memory: from one channel's filter to the next,
constexpr int ROW_STRIDE = 3;                   // and from one filter row to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The channels of one pixel.
__device__ __forceinline__ float load_pixel(const float* pixel) {
    return __ldg((const float*)pixel);
}

// A pixel of y: every sum after the epilogue, rounded once, stored as one word.
__device__ __forceinline__ void store_pixel(float* pixel, float sum_0) {
    const float part_0 = sum_0;
    *(float*)pixel = part_0;
}

extern "C" __global__ void __launch_bounds__(64, 4)
channels_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W,
        int P, int Q, float BORDER) {
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
    const int q = blockIdx.x / CHANNEL_BLOCKS * BLOCK_COLUMNS + column_job;
    if (k >= K || q >= Q) return;
    const int column = q * STRIDE_W - PAD_LEFT;
    const float* filter = filters + channels * FILTER_STRIDE;
    const float w_v0_r0_s0 = filter[0], w_v0_r0_s1 = filter[1], w_v0_r0_s2 = filter[2];
    const float w_v0_r1_s0 = filter[3], w_v0_r1_s1 = filter[4], w_v0_r1_s2 = filter[5];
    const float w_v0_r2_s0 = filter[6], w_v0_r2_s1 = filter[7], w_v0_r2_s2 = filter[8];
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
            const int first_unit = begin * STEP;
            const float* x_class = x + ((long long)(n * H + top) * W + column) * C + k;
            float* y_class = y + ((n * P) * Q + q) * K + k;
            // steps first .. last load rows; step i finishes output row i - 1
            const int first = first_unit / STEP;
            const int last = end - 1 + 1;
            float* out = y_class + (first - 1) * pitch_y;
            float acc_p0_q0 = 0;
            if (first <= last) {
                const float* ahead = x_class + first * STEP * pitch_x;
                int ahead_row = top + first * STEP;
                float word0_r0_c0 = BORDER, word0_r0_c1 = BORDER, word0_r0_c2 = BORDER;
                float word0_r1_c0 = BORDER, word0_r1_c1 = BORDER, word0_r1_c2 = BORDER;
                float word1_r0_c0 = BORDER, word1_r0_c1 = BORDER, word1_r0_c2 = BORDER;
                float word1_r1_c0 = BORDER, word1_r1_c1 = BORDER, word1_r1_c2 = BORDER;
                bool row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                bool row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                word0_r0_c0 = BORDER;
                if (row_inside_r0) {
                    if (0 >= first_inside && 0 < end_inside) word0_r0_c0 = load_pixel(ahead);
                }
                word0_r0_c1 = BORDER;
                if (row_inside_r0) {
                    if (1 < end_inside) word0_r0_c1 = load_pixel(ahead + C);
                }
                word0_r0_c2 = BORDER;
                if (row_inside_r0) {
                    if (2 < end_inside) word0_r0_c2 = load_pixel(ahead + 2 * C);
                }
                word0_r1_c0 = BORDER;
                if (row_inside_r1) {
                    if (0 >= first_inside && 0 < end_inside) word0_r1_c0 = load_pixel(ahead + pitch_x);
                }
                word0_r1_c1 = BORDER;
                if (row_inside_r1) {
                    if (1 < end_inside) word0_r1_c1 = load_pixel(ahead + pitch_x + C);
                }
                word0_r1_c2 = BORDER;
                if (row_inside_r1) {
                    if (2 < end_inside) word0_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                }
#pragma unroll 1
                for (int step = first;;) {
                    {
                        // register set 0: loads for a later step, products, the finished row
                        ahead += STEP * pitch_x;
                        ahead_row += STEP;
                        row_inside_r0 = (unsigned)ahead_row < (unsigned)H;
                        row_inside_r1 = (unsigned)(ahead_row + DILATION_H) < (unsigned)H;
                        word1_r0_c0 = BORDER;
                        if (row_inside_r0) {
                            if (0 >= first_inside && 0 < end_inside) word1_r0_c0 = load_pixel(ahead);
                        }
                        word1_r0_c1 = BORDER;
                        if (row_inside_r0) {
                            if (1 < end_inside) word1_r0_c1 = load_pixel(ahead + C);
                        }
                        word1_r0_c2 = BORDER;
                        if (row_inside_r0) {
                            if (2 < end_inside) word1_r0_c2 = load_pixel(ahead + 2 * C);
                        }
                        word1_r1_c0 = BORDER;
                        if (row_inside_r1) {
                            if (0 >= first_inside && 0 < end_inside) word1_r1_c0 = load_pixel(ahead + pitch_x);
                        }
                        word1_r1_c1 = BORDER;
                        if (row_inside_r1) {
                            if (1 < end_inside) word1_r1_c1 = load_pixel(ahead + pitch_x + C);
                        }
                        word1_r1_c2 = BORDER;
                        if (row_inside_r1) {
                            if (2 < end_inside) word1_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                        }
                        float done_q0;
                        done_q0 =
                            fmaf(word0_r0_c2, w_v0_r2_s2,
                            fmaf(word0_r0_c1, w_v0_r2_s1, fmaf(word0_r0_c0, w_v0_r2_s0, acc_p0_q0)));
                        acc_p0_q0 =
                            fmaf(word0_r1_c0, w_v0_r1_s0,
                            fmaf(word0_r0_c2, w_v0_r0_s2,
                            fmaf(word0_r0_c1, w_v0_r0_s1, fmaf(word0_r0_c0, w_v0_r0_s0, 0))));
                        acc_p0_q0 = fmaf(word0_r1_c2, w_v0_r1_s2, fmaf(word0_r1_c1, w_v0_r1_s1, acc_p0_q0));
                        if (step >= begin + 1) {
                            store_pixel(out, done_q0);
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
                        word0_r0_c0 = BORDER;
                        if (row_inside_r0) {
                            if (0 >= first_inside && 0 < end_inside) word0_r0_c0 = load_pixel(ahead);
                        }
                        word0_r0_c1 = BORDER;
                        if (row_inside_r0) {
                            if (1 < end_inside) word0_r0_c1 = load_pixel(ahead + C);
                        }
                        word0_r0_c2 = BORDER;
                        if (row_inside_r0) {
                            if (2 < end_inside) word0_r0_c2 = load_pixel(ahead + 2 * C);
                        }
                        word0_r1_c0 = BORDER;
                        if (row_inside_r1) {
                            if (0 >= first_inside && 0 < end_inside) word0_r1_c0 = load_pixel(ahead + pitch_x);
                        }
                        word0_r1_c1 = BORDER;
                        if (row_inside_r1) {
                            if (1 < end_inside) word0_r1_c1 = load_pixel(ahead + pitch_x + C);
                        }
                        word0_r1_c2 = BORDER;
                        if (row_inside_r1) {
                            if (2 < end_inside) word0_r1_c2 = load_pixel(ahead + pitch_x + 2 * C);
                        }
                        float done_q0;
                        done_q0 =
                            fmaf(word1_r0_c2, w_v0_r2_s2,
                            fmaf(word1_r0_c1, w_v0_r2_s1, fmaf(word1_r0_c0, w_v0_r2_s0, acc_p0_q0)));
                        acc_p0_q0 =
                            fmaf(word1_r1_c0, w_v0_r1_s0,
                            fmaf(word1_r0_c2, w_v0_r0_s2,
                            fmaf(word1_r0_c1, w_v0_r0_s1, fmaf(word1_r0_c0, w_v0_r0_s0, 0))));
                        acc_p0_q0 = fmaf(word1_r1_c2, w_v0_r1_s2, fmaf(word1_r1_c1, w_v0_r1_s1, acc_p0_q0));
                        if (step >= begin + 1) {
                            store_pixel(out, done_q0);
                        }
                        out += pitch_y;
                        if (step++ == last) break;
                    }
                }
            }
        }
    }
}
