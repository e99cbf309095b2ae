// warpconv 0.1.0: bias_gradient, float16. Generated from templates/bias_gradient/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --padding 1 --groups 16 --dtype float16 --layout NHWC \
//     --operation bias_gradient --arch sm_90 --algorithm bias_gradient \
//     --set chunks=13 --set vector=8
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 1, padding 1, groups 16, float16 NHWC; its bias
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   the output's gradient summed in 13 chunks of a channel, by loads of 16 bytes, then these
// cost   256 elements: 1 warp loads, 0 shuffles, 0 FMA a lane, about 64 registers (direct: 8 loads)
//
// Each block sums the elements of a chunk of the batch into its row of parts; sum_parts() adds these rows.
// Neighbouring threads have neighbouring filters, and then those of the next pixel, as they lie in memory.
constexpr int K = 16;                           // filters
constexpr int CHUNKS = 13;                      // shares of the sum, each made by a block of its own
constexpr int VECTOR = 8;                       // elements of a load: filters
constexpr int COLUMNS = 2;                      // threads of a pixel
constexpr int ROWS = 128;                       // pixels of a block at a time
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }

__device__ __forceinline__ void add(float (&sum)[8], const unsigned short* from) {
    const uint4 word = __ldg((const uint4*)from);
    sum[0] += wc_half_low_to_float(word.x);
    sum[1] += wc_half_high_to_float(word.x);
    sum[2] += wc_half_low_to_float(word.y);
    sum[3] += wc_half_high_to_float(word.y);
    sum[4] += wc_half_low_to_float(word.z);
    sum[5] += wc_half_high_to_float(word.z);
    sum[6] += wc_half_low_to_float(word.w);
    sum[7] += wc_half_high_to_float(word.w);
}

extern "C" __global__ void __launch_bounds__(256)
bias_gradient_3x3(const unsigned short* __restrict__ dy, float* __restrict__ parts, int N, int P, int Q) {
    const index_t plane = (index_t)P * Q;
    __shared__ float sums[VECTOR][ROWS * COLUMNS];
    const index_t pixels = N * plane;
    for (int first = blockIdx.y * (COLUMNS * VECTOR); first < K; first += gridDim.y * (COLUMNS * VECTOR)) {
        const int k = first + threadIdx.x * VECTOR;
        float sum[VECTOR] = {};
        if (k < K) {
#pragma unroll 4
            for (index_t i = blockIdx.x * ROWS + threadIdx.y; i < pixels; i += CHUNKS * ROWS) add(sum, dy + i * K + k);
        }
        const int mine = threadIdx.y * COLUMNS + threadIdx.x;
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) sums[v][mine] = sum[v];
        __syncthreads();
        // the sums of all rows: those of the second half are added to those of the first
#pragma unroll
        for (int rows = ROWS; rows > 1; rows = (rows + 1) / 2) {
            const int half = (rows + 1) / 2;
            if (threadIdx.y < rows - half) {
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) sums[v][mine] += sums[v][mine + half * COLUMNS];
            }
            __syncthreads();
        }
        if (threadIdx.y == 0 && k < K) {
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) parts[(long long)blockIdx.x * K + k + v] = sums[v][mine];
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
