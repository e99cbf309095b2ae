// warpconv 0.1.0: im2col, float32. Generated from templates/im2col/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 8,3,3 --padding 1 --epilogue bias,relu --arch sm_90 --algorithm im2col \
//     --set batch=image
//
// layer  x[N, 3, H, W] * w[8, 3, 3, 3] -> y[N, 8, P, Q], stride 1, padding 1, float32, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one image at a time lowered to columns; one matrix product by cuBLAS (NumPy on the CPU device)
// cost   warp of the columns: 1 warp loads, 0 shuffles, 0 FMA a lane, about 40 registers (direct: 1 loads)
// note   workspace: 32 MiB for cuBLAS, and the columns of an image
// note   the product needs the cublas extra on a GPU; on the CPU device NumPy makes it, uncounted
//
// What surrounds the matrix product y[n] = w * columns[n], which is a library's and no part of this text.
using index_t = int;                            // element offsets: of tensors below 2^31 elements
constexpr int C = 3;                            // input channels
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int DILATION_W = 1;                   // input columns from one tap to the next
constexpr int THREADS = 256;                    // pixels of a block
constexpr int CHANNELS = 1;                     // channels that it lowers at a time

// columns[(c * R + r) * S + s][p * Q + q] is the pixel of x[c] under tap (r, s) of the window at (p, q), zero in the
// padding. Neighbouring lanes have neighbouring windows, so that loads (at stride 1) and stores are coalesced.
extern "C" __global__ void __launch_bounds__(256)
im2col_3x3(const float* __restrict__ x, float* __restrict__ columns, int image, int H, int W, int P, int Q) {
    const index_t plane_x = (index_t)H * W, pixel = (index_t)blockIdx.x * THREADS + threadIdx.x;
    const long long pixels = (long long)P * Q;                     // the columns may have 2^31 elements where x has not
    if (pixel >= pixels) return;
    // first tap
    const int top = (int)(pixel / Q) - PAD_TOP, left = (int)(pixel % Q) - PAD_LEFT;

    const float* x_image = x + (index_t)image * C * plane_x;
    float* columns_image = columns;                                // which hold one image at a time
    // a few channels at a time, filter row by filter row: loads of neighbouring taps together, then their stores
    for (int first = blockIdx.y; first < C; first += gridDim.y) {
        for (int c = first; c < first + CHANNELS && c < C; ++c) {
            const float* x_plane = x_image + c * plane_x;
            float* column = columns_image + c * (R * S) * pixels + pixel;
#pragma unroll 1
            for (int r = 0; r < R; ++r) {
                const int h = top + r;
                const float* x_row = x_plane + (index_t)h * W;
                const bool inside = (unsigned)h < (unsigned)H;
                const float in_s0 = inside && (unsigned)left < (unsigned)W ? __ldg(x_row + left) : 0.0f;
                const float in_s1 = inside && (unsigned)(left + DILATION_W) < (unsigned)W
                    ? __ldg(x_row + left + DILATION_W) : 0.0f;
                const float in_s2 = inside && (unsigned)(left + 2) < (unsigned)W ? __ldg(x_row + left + 2) : 0.0f;
                column[0] = in_s0;
                column[pixels] = in_s1;
                column[2 * pixels] = in_s2;
                column += S * pixels;
            }
        }
    }
}

constexpr int K = 8;                            // filters
constexpr int FINISH_X = 32;                    // threads of a block: pixels
constexpr int FINISH_Y = 8;                     // threads of a block: planes (n, k) of y

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// The epilogue, applied to the product where it lies.
extern "C" __global__ void __launch_bounds__(256)
im2col_finish(const float* __restrict__ bias, float* __restrict__ y, int N, int P, int Q) {
    const index_t pixels = (index_t)P * Q, planes = (index_t)N * K;
    const index_t pixel = (index_t)blockIdx.x * FINISH_X + threadIdx.x;
    if (pixel >= pixels) return;
    for (index_t plane = (index_t)blockIdx.y * FINISH_Y + threadIdx.y; plane < planes; plane += gridDim.y * FINISH_Y) {
        float* value = y + plane * pixels + pixel;
        *value = finish(*value, bias[plane % K]);
    }
}
