// warpconv 0.1.0: bias_gradient, float16. Generated from templates/bias_gradient/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --padding 1 --groups 16 --dtype float16 --layout NHWC \
//     --operation bias_gradient --arch sm_90 --algorithm bias_gradient \
//     --set chunks=196
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 1, padding 1, groups 16, float16 NHWC; its bias
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   the output's gradient summed in 196 chunks of a channel, then these
// cost   32 elements: 1 warp loads, 0 shuffles, 0 FMA a lane, about 32 registers (direct: 1 loads)
//
// Each block sums the elements of a chunk of the batch into its row of parts; sum_parts() adds these rows.
constexpr int K = 16;                           // filters
constexpr int CHUNKS = 196;                     // shares of the sum, each made by a block of its own
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

extern "C" __global__ void __launch_bounds__(256)
bias_gradient_3x3(const unsigned short* __restrict__ dy, float* __restrict__ parts, int N, int P, int Q) {
    const index_t plane = (index_t)P * Q, pixels = N * plane;
    __shared__ float sums[8][32];
    for (int first = blockIdx.y * 32; first < K; first += gridDim.y * 32) {
        const int k = first + threadIdx.x;
        float sum = 0.0f;
        if (k < K) {
#pragma unroll 4
            for (index_t i = blockIdx.x * 8 + threadIdx.y; i < pixels;
                i += CHUNKS * 8) sum += wc_half_to_float(__ldg(dy + i * K + k));
        }
        sums[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && k < K) {
#pragma unroll
            for (int y = 1; y < 8; ++y) sum += sums[y][threadIdx.x];
            parts[(long long)blockIdx.x * K + k] = sum;
        }
        __syncthreads();
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ db) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = 16;
    const long long i = (long long)blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (i < ELEMENTS) {
#pragma unroll 4
        for (int chunk = threadIdx.y; chunk < CHUNKS; chunk += 16) sum += __ldg(parts + chunk * ELEMENTS + i);
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < ELEMENTS) {
#pragma unroll
        for (int y = 1; y < 16; ++y) sum += sums[y][threadIdx.x];
        db[i] = wc_float_to_half(sum);
    }
}
