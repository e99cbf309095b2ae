// warpconv 0.1.0: bias_gradient, float32. Generated from templates/bias_gradient/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,W --filter 16,3,3 --padding 1 --groups 16 --operation bias_gradient --arch sm_90 \
//     --algorithm bias_gradient \
//     --set chunks=1 --set vector=4
//
// layer  x[N, 16, H, W] * w[16, 1, 3, 3] -> y[N, 16, P, Q], stride 1, padding 1, groups 16, float32; its bias gradient
//        N, H, W (and so P, Q) are arguments (Q a multiple of 4); all else is a constant of the text
// plan   the output's gradient summed in 1 chunks of a channel, by loads of 16 bytes, then these
// cost   128 elements: 1 warp loads, 0 shuffles, 0 FMA a lane, about 44 registers (direct: 4 loads)
//
// Each block sums the elements of a chunk of the batch into its row of parts; sum_parts() adds these rows.
constexpr int K = 16;                           // filters
constexpr int CHUNKS = 1;                       // shares of the sum, each made by a block of its own
constexpr int VECTOR = 4;                       // elements of a load: pixels
constexpr int THREADS = 256;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

__device__ __forceinline__ void add(float (&sum)[4], const float* from) {
    const float4 word = __ldg((const float4*)from);
    sum[0] += word.x;
    sum[1] += word.y;
    sum[2] += word.z;
    sum[3] += word.w;
}

extern "C" __global__ void __launch_bounds__(256)
bias_gradient_3x3(const float* __restrict__ dy, float* __restrict__ parts, int N, int P, int Q) {
    const index_t plane = (index_t)P * Q;
    __shared__ float sums[THREADS / 32];
    const index_t plane_loads = plane / VECTOR, loads = N * plane_loads;
    for (int k = blockIdx.y; k < K; k += gridDim.y) {
        float sum[VECTOR] = {};
#pragma unroll 4
        for (index_t i = blockIdx.x * THREADS + threadIdx.x; i < loads; i += THREADS) {
            const index_t image = i / plane_loads;
            add(sum, dy + (image * (K - 1) + k) * plane + i * VECTOR);
        }
        float total = sum[0];
#pragma unroll
        for (int v = 1; v < VECTOR; ++v) total += sum[v];
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll
            for (int warp = 1; warp < THREADS / 32; ++warp) total += sums[warp];
            parts[(long long)blockIdx.x * K + k] = total;
        }
        __syncthreads();
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ db) {
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
        db[i] = sum;
    }
}
