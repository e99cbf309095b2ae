// warpconv 0.1.0: im2col, float32. Generated from templates/im2col/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,W --filter 32,1,1 --epilogue bias --arch sm_90 --algorithm im2col \
//     --set batch=whole
//
// layer  x[N, 16, H, W] * w[32, 16, 1, 1] -> y[N, 32, P, Q], stride 1, padding 0, float32, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   no lowering, the input is the matrix; one matrix product by cuBLAS (NumPy on the CPU device)
// cost   warp of the columns: 0 warp loads, 0 shuffles, 0 FMA a lane, about 40 registers (direct: 1 loads)
// note   workspace: 32 MiB for cuBLAS
// note   the product needs the cublas extra on a GPU; on the CPU device NumPy makes it, uncounted
//
// What surrounds the matrix product y[n] = w * columns[n], which is a library's and no part of this text.
using index_t = int;                            // element offsets: of tensors below 2^31 elements

constexpr int K = 32;                           // filters
constexpr int FINISH_X = 32;                    // threads of a block: pixels
constexpr int FINISH_Y = 8;                     // threads of a block: planes (n, k) of y

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
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
