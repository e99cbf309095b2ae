// warpconv 0.1.0: implicit_gemm, float32. Generated from templates/implicit_gemm/kernel_document.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,8,H,W --filter 8,3,3 --padding 1 --epilogue bias --arch sm_90 \
//     --algorithm implicit_gemm \
//     --set form=document
//
// layer  x[N, 8, H, W] * w[8, 8, 3, 3] -> y[N, 8, P, Q], stride 1, padding 1, float32, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   the document's loops, one output a thread
// cost   32 outputs of a filter: 144 warp loads, 0 shuffles, 72 FMA a lane, about 32 registers (direct: 72 loads)
//
// The document's loops: a product of matrices whose indices are worked out as they are needed. A thread makes one
// output, neighbouring threads neighbouring pixels n of a filter.
constexpr int M = 8;                            // filters of a group
constexpr int C = 8;                            // channels of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int REDUCTION = C * R * S;            // products of an output
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int THREADS = 256;                    // threads of a block: pixels
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
implicit_gemm_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    // this thread's output: a filter of all, hence its group; a pixel n of the batch, hence its image, row and column
    const int filter = blockIdx.x % M, group = filter / M;
    const index_t pixels_y = (index_t)P * Q, plane_x = (index_t)H * W;
    const index_t n = (index_t)(blockIdx.x / M) * THREADS + threadIdx.x;
    if (n >= N * pixels_y) return;
    const index_t image = n / pixels_y;
    const int p = (int)(n % pixels_y / Q), q = (int)(n % Q);
    const float* x_group = x + (image + group) * C * plane_x;

    // product k: its channel, filter row and column are worked out anew each time
    float sum = 0.0f;
    for (int k = 0; k < REDUCTION; ++k) {
        const int c = k / (R * S), r = k % (R * S) / S, s = k % S;
        const int h = p - PAD_TOP + r, column = q - PAD_LEFT + s;
        if ((unsigned)h >= (unsigned)H || (unsigned)column >= (unsigned)W) continue;
        sum =
            fmaf(__ldg(x_group + c * plane_x + h * (index_t)W + column), __ldg(w + (index_t)filter * REDUCTION + k),
            sum);
    }
    y[(image * M + filter) * pixels_y + n % pixels_y] = finish(sum, __ldg(bias + filter));
}
