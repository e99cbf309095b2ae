// warpconv 0.1.0: im2col, float32. Generated from templates/im2col/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,4,H,W --filter 8,5,17 --stride 2,1 --dilation 1,2 --groups 2 --arch sm_90 \
//     --algorithm im2col \
//     --set batch=whole
//
// layer  x[N, 4, H, W] * w[8, 2, 5, 17] -> y[N, 8, P, Q], stride 2,1, padding 0, dilation 1,2, groups 2, float32
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   the whole batch lowered to columns; one matrix product by cuBLAS (NumPy on the CPU device)
// cost   warp of the columns: 1 warp loads, 0 shuffles, 0 FMA a lane, about 40 registers (direct: 1 loads)
// note   workspace: 32 MiB for cuBLAS, and the columns of the whole batch
// note   the product needs the cublas extra on a GPU; on the CPU device NumPy makes it, uncounted
//
// What surrounds the matrix product y[n] = w * columns[n], which is a library's and no part of this text.
using index_t = int;                            // element offsets: of tensors below 2^31 elements
constexpr int C = 4;                            // input channels
constexpr int R = 5;                            // filter rows
constexpr int S = 17;                           // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int DILATION_W = 2;                   // input columns from one tap to the next
constexpr int THREADS = 256;                    // pixels of a block
constexpr int CHANNELS = 1;                     // channels that it lowers at a time

// columns[(c * R + r) * S + s][p * Q + q] is the pixel of x[c] under tap (r, s) of the window at (p, q), zero in the
// padding. Neighbouring lanes have neighbouring windows, so that loads (at stride 1) and stores are coalesced.
extern "C" __global__ void __launch_bounds__(256)
im2col_5x17(const float* __restrict__ x, float* __restrict__ columns, int N, int H, int W, int P, int Q) {
    const index_t plane_x = (index_t)H * W, pixel = (index_t)blockIdx.x * THREADS + threadIdx.x;
    const long long pixels = (long long)P * Q;                     // the columns may have 2^31 elements where x has not
    if (pixel >= pixels) return;
    // first tap
    const int top = (int)(pixel / Q) * STRIDE_H, left = (int)(pixel % Q);

    for (index_t n = blockIdx.z; n < N; n += gridDim.z) {
        const float* x_image = x + n * C * plane_x;
        float* columns_image = columns + n * (pixels * C * (R * S));
        // a few channels at a time, filter row by filter row: loads of neighbouring taps together, then their stores
        for (int first = blockIdx.y; first < C; first += gridDim.y) {
            for (int c = first; c < first + CHANNELS && c < C; ++c) {
                const float* x_plane = x_image + c * plane_x;
                float* column = columns_image + c * (R * S) * pixels + pixel;
#pragma unroll 1
                for (int r = 0; r < R; ++r) {
                    const int h = top + r;
                    const float* x_row = x_plane + (index_t)h * W;
                    const float in_s0 = __ldg(x_row + left);
                    const float in_s1 = __ldg(x_row + left + DILATION_W);
                    const float in_s2 = __ldg(x_row + left + 2 * DILATION_W);
                    const float in_s3 = __ldg(x_row + left + 3 * DILATION_W);
                    const float in_s4 = __ldg(x_row + left + 4 * DILATION_W);
                    const float in_s5 = __ldg(x_row + left + 5 * DILATION_W);
                    const float in_s6 = __ldg(x_row + left + 6 * DILATION_W);
                    const float in_s7 = __ldg(x_row + left + 7 * DILATION_W);
                    const float in_s8 = __ldg(x_row + left + 8 * DILATION_W);
                    const float in_s9 = __ldg(x_row + left + 9 * DILATION_W);
                    const float in_s10 = __ldg(x_row + left + 10 * DILATION_W);
                    const float in_s11 = __ldg(x_row + left + 11 * DILATION_W);
                    const float in_s12 = __ldg(x_row + left + 12 * DILATION_W);
                    const float in_s13 = __ldg(x_row + left + 13 * DILATION_W);
                    const float in_s14 = __ldg(x_row + left + 14 * DILATION_W);
                    const float in_s15 = __ldg(x_row + left + 15 * DILATION_W);
                    column[0] = in_s0;
                    column[pixels] = in_s1;
                    column[2 * pixels] = in_s2;
                    column[3 * pixels] = in_s3;
                    column[4 * pixels] = in_s4;
                    column[5 * pixels] = in_s5;
                    column[6 * pixels] = in_s6;
                    column[7 * pixels] = in_s7;
                    column[8 * pixels] = in_s8;
                    column[9 * pixels] = in_s9;
                    column[10 * pixels] = in_s10;
                    column[11 * pixels] = in_s11;
                    column[12 * pixels] = in_s12;
                    column[13 * pixels] = in_s13;
                    column[14 * pixels] = in_s14;
                    column[15 * pixels] = in_s15;
                    const float in_s16 = __ldg(x_row + left + 16 * DILATION_W);
                    column[16 * pixels] = in_s16;
                    column += S * pixels;
                }
            }
        }
    }
}
