// warpconv 0.1.0: staged, float16. Generated from templates/staged/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,8,8 --filter 32,5,5 --padding 2 --groups 32 --dtype float16 --epilogue bias,relu \
//     --arch sm_90 --algorithm staged \
//     --set height=8 --set width=8 --set rows=2 --set planes=32 --set buffers=2 --set stage=async \
//     --set weights=registers --set vector=8 --set min_blocks=8 --set parts=strips
//
// layer  x[N, 32, H, W] * w[32, 1, 5, 5] -> y[N, 32, P, Q], stride 1, padding 2, groups 32, float16, then bias, relu
//        N, H, W (and so P, Q) are arguments (H = 8; W = 8; P = 8; Q = 8); all else is a constant of the text
// plan   groups of 32 planes of 8 x 8 in shared memory (two buffers in turn), a thread makes 2 output rows of one
//        plane, 128 threads a block
// cost   group of 32 planes: 8 warp loads, 0 shuffles, 340 FMA a lane, about 72 registers (direct: 1600 loads)
// note   a group moves 8192 bytes; about 27.0 instructions an output
// note   12416 bytes of shared memory a block, 7 blocks a multiprocessor
//
// Planes lie one after another in memory: a group of them is one stretch, copied in wide accesses. A thread makes a
// strip of rows of one plane; columns outside the image are left out of the text, rows outside it are skipped. Two
// buffers: blocks stay, and a block's next group is on its way while it computes this one. The grid is a multiple of
// the groups of an image, so a block's groups all have the same filters.
constexpr int K = 32;                           // output planes of an image
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PLANES = 32;                      // output planes of a group
constexpr int THREADS = 128;                    // one for each strip of a group
constexpr int WEIGHT_STRIDE = 25;               // floats between planes' weights: odd, for the banks
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// Copy a group's input planes from global to shared memory.
__device__ __forceinline__ void load_planes(unsigned short* to, const unsigned short* from) {
    const int first = threadIdx.x;
#pragma unroll 2
    for (int round = 0, i = first; round < 2; ++round, i += THREADS)
        wc_copy_async_16(to + i * 8 + i / 8 * 8, from + i * 8);
}

// Copy a group's output planes from shared to global memory.
__device__ __forceinline__ void store_planes(unsigned short* to, const unsigned short* from) {
    const int first = threadIdx.x;
#pragma unroll 2
    for (int round = 0, i = first; round < 2; ++round, i += THREADS)
        *(uint4*)(to + i * 8) = *(const uint4*)(from + i * 8 + i / 8 * 8);
}

// Copy the filters of the output planes from `first_plane` on to shared memory, as floats.
__device__ __forceinline__ void load_weights(float* to, const unsigned short* w, index_t first_plane) {
    const int first = threadIdx.x;
#pragma unroll 7
    for (int round = 0, i = first; round < 7; ++round, i += THREADS)
        if (round < 6 || i < 800) to[i] = wc_half_to_float(__ldg(w + first_plane % K * (R * S) + i));
}

extern "C" __global__ void __launch_bounds__(128, 8)
staged_5x5(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char staged[];
    const int plane = threadIdx.x % PLANES, row = threadIdx.x / PLANES * 2;    // of the group; first output row
    const int top = threadIdx.x / PLANES * 2;                          // the input row that stands there
    float* const weights = (float*)(staged + 9216);
    const float* const w_plane = weights + plane * WEIGHT_STRIDE;
    const index_t planes = (index_t)N * K, groups = (planes + PLANES - 1) / PLANES;
    unsigned short* buffer = (unsigned short*)staged;
    unsigned short* other = (unsigned short*)(staged + 4608);

    load_planes(buffer, x + (index_t)blockIdx.x * 32 * 64);
    load_weights(weights, w, (index_t)blockIdx.x * PLANES);
    const float bias_plane = wc_half_to_float(__ldg(bias + ((index_t)blockIdx.x * PLANES + plane) % K));
    __syncthreads();
    // the filter of this thread's plane, one register per weight
    const float w_r0_s0 = w_plane[0], w_r0_s1 = w_plane[1], w_r0_s2 = w_plane[2], w_r0_s3 = w_plane[3],
        w_r0_s4 = w_plane[4];
    const float w_r1_s0 = w_plane[5], w_r1_s1 = w_plane[6], w_r1_s2 = w_plane[7], w_r1_s3 = w_plane[8],
        w_r1_s4 = w_plane[9];
    const float w_r2_s0 = w_plane[10], w_r2_s1 = w_plane[11], w_r2_s2 = w_plane[12], w_r2_s3 = w_plane[13],
        w_r2_s4 = w_plane[14];
    const float w_r3_s0 = w_plane[15], w_r3_s1 = w_plane[16], w_r3_s2 = w_plane[17], w_r3_s3 = w_plane[18],
        w_r3_s4 = w_plane[19];
    const float w_r4_s0 = w_plane[20], w_r4_s1 = w_plane[21], w_r4_s2 = w_plane[22], w_r4_s3 = w_plane[23],
        w_r4_s4 = w_plane[24];

    for (index_t group = blockIdx.x; group < groups; group += gridDim.x) {
        // this group's planes are there, and everyone has copied the other buffer's outputs out
        wc_copy_async_wait();
        __syncthreads();
        if (group + gridDim.x < groups) load_planes(other, x + (group + gridDim.x) * 32 * 64);

        const unsigned short* const x_strip = buffer + plane * 72 + top * 8;
        unsigned short* const y_strip = buffer + plane * 72 + row * 8;
        float acc_p0_q0 = 0.0f, acc_p0_q1 = 0.0f, acc_p0_q2 = 0.0f, acc_p0_q3 = 0.0f, acc_p0_q4 = 0.0f,
            acc_p0_q5 = 0.0f, acc_p0_q6 = 0.0f, acc_p0_q7 = 0.0f;
        float acc_p1_q0 = 0.0f, acc_p1_q1 = 0.0f, acc_p1_q2 = 0.0f, acc_p1_q3 = 0.0f, acc_p1_q4 = 0.0f,
            acc_p1_q5 = 0.0f, acc_p1_q6 = 0.0f, acc_p1_q7 = 0.0f;
        // input row -2: output row 0 by filter row 0
        if (top >= 2) {
            const uint4 in_v0 = *(const uint4*)(x_strip - 16);
            const float in_c0 = wc_half_low_to_float(in_v0.x), in_c1 = wc_half_high_to_float(in_v0.x),
                in_c2 = wc_half_low_to_float(in_v0.y), in_c3 = wc_half_high_to_float(in_v0.y);
            const float in_c4 = wc_half_low_to_float(in_v0.z), in_c5 = wc_half_high_to_float(in_v0.z),
                in_c6 = wc_half_low_to_float(in_v0.w), in_c7 = wc_half_high_to_float(in_v0.w);
            acc_p0_q0 = fmaf(in_c2, w_r0_s4, fmaf(in_c1, w_r0_s3, fmaf(in_c0, w_r0_s2, acc_p0_q0)));
            acc_p0_q1 =
                fmaf(in_c3, w_r0_s4, fmaf(in_c2, w_r0_s3, fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p0_q1))));
            acc_p0_q2 =
                fmaf(in_c4, w_r0_s4,
                fmaf(in_c3, w_r0_s3, fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p0_q2)))));
            acc_p0_q3 =
                fmaf(in_c5, w_r0_s4,
                fmaf(in_c4, w_r0_s3, fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p0_q3)))));
            acc_p0_q4 =
                fmaf(in_c6, w_r0_s4,
                fmaf(in_c5, w_r0_s3, fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p0_q4)))));
            acc_p0_q5 =
                fmaf(in_c7, w_r0_s4,
                fmaf(in_c6, w_r0_s3, fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p0_q5)))));
            acc_p0_q6 =
                fmaf(in_c7, w_r0_s3, fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p0_q6))));
            acc_p0_q7 = fmaf(in_c7, w_r0_s2, fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p0_q7)));
        }
        // input row -1: output rows 0, 1 by filter rows 1, 0
        if (top >= 1) {
            const uint4 in_v0 = *(const uint4*)(x_strip - 8);
            const float in_c0 = wc_half_low_to_float(in_v0.x), in_c1 = wc_half_high_to_float(in_v0.x),
                in_c2 = wc_half_low_to_float(in_v0.y), in_c3 = wc_half_high_to_float(in_v0.y);
            const float in_c4 = wc_half_low_to_float(in_v0.z), in_c5 = wc_half_high_to_float(in_v0.z),
                in_c6 = wc_half_low_to_float(in_v0.w), in_c7 = wc_half_high_to_float(in_v0.w);
            acc_p0_q0 = fmaf(in_c2, w_r1_s4, fmaf(in_c1, w_r1_s3, fmaf(in_c0, w_r1_s2, acc_p0_q0)));
            acc_p0_q1 =
                fmaf(in_c3, w_r1_s4, fmaf(in_c2, w_r1_s3, fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p0_q1))));
            acc_p0_q2 =
                fmaf(in_c4, w_r1_s4,
                fmaf(in_c3, w_r1_s3, fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p0_q2)))));
            acc_p0_q3 =
                fmaf(in_c5, w_r1_s4,
                fmaf(in_c4, w_r1_s3, fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p0_q3)))));
            acc_p0_q4 =
                fmaf(in_c6, w_r1_s4,
                fmaf(in_c5, w_r1_s3, fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p0_q4)))));
            acc_p0_q5 =
                fmaf(in_c7, w_r1_s4,
                fmaf(in_c6, w_r1_s3, fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p0_q5)))));
            acc_p0_q6 =
                fmaf(in_c7, w_r1_s3, fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p0_q6))));
            acc_p0_q7 = fmaf(in_c7, w_r1_s2, fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p0_q7)));
            acc_p1_q0 = fmaf(in_c2, w_r0_s4, fmaf(in_c1, w_r0_s3, fmaf(in_c0, w_r0_s2, acc_p1_q0)));
            acc_p1_q1 =
                fmaf(in_c3, w_r0_s4, fmaf(in_c2, w_r0_s3, fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p1_q1))));
            acc_p1_q2 =
                fmaf(in_c4, w_r0_s4,
                fmaf(in_c3, w_r0_s3, fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p1_q2)))));
            acc_p1_q3 =
                fmaf(in_c5, w_r0_s4,
                fmaf(in_c4, w_r0_s3, fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p1_q3)))));
            acc_p1_q4 =
                fmaf(in_c6, w_r0_s4,
                fmaf(in_c5, w_r0_s3, fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p1_q4)))));
            acc_p1_q5 =
                fmaf(in_c7, w_r0_s4,
                fmaf(in_c6, w_r0_s3, fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p1_q5)))));
            acc_p1_q6 =
                fmaf(in_c7, w_r0_s3, fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p1_q6))));
            acc_p1_q7 = fmaf(in_c7, w_r0_s2, fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p1_q7)));
        }
        // input row 0: output rows 0, 1 by filter rows 2, 1
        {
            const uint4 in_v0 = *(const uint4*)(x_strip);
            const float in_c0 = wc_half_low_to_float(in_v0.x), in_c1 = wc_half_high_to_float(in_v0.x),
                in_c2 = wc_half_low_to_float(in_v0.y), in_c3 = wc_half_high_to_float(in_v0.y);
            const float in_c4 = wc_half_low_to_float(in_v0.z), in_c5 = wc_half_high_to_float(in_v0.z),
                in_c6 = wc_half_low_to_float(in_v0.w), in_c7 = wc_half_high_to_float(in_v0.w);
            acc_p0_q0 = fmaf(in_c2, w_r2_s4, fmaf(in_c1, w_r2_s3, fmaf(in_c0, w_r2_s2, acc_p0_q0)));
            acc_p0_q1 =
                fmaf(in_c3, w_r2_s4, fmaf(in_c2, w_r2_s3, fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p0_q1))));
            acc_p0_q2 =
                fmaf(in_c4, w_r2_s4,
                fmaf(in_c3, w_r2_s3, fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p0_q2)))));
            acc_p0_q3 =
                fmaf(in_c5, w_r2_s4,
                fmaf(in_c4, w_r2_s3, fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p0_q3)))));
            acc_p0_q4 =
                fmaf(in_c6, w_r2_s4,
                fmaf(in_c5, w_r2_s3, fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p0_q4)))));
            acc_p0_q5 =
                fmaf(in_c7, w_r2_s4,
                fmaf(in_c6, w_r2_s3, fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p0_q5)))));
            acc_p0_q6 =
                fmaf(in_c7, w_r2_s3, fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p0_q6))));
            acc_p0_q7 = fmaf(in_c7, w_r2_s2, fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p0_q7)));
            acc_p1_q0 = fmaf(in_c2, w_r1_s4, fmaf(in_c1, w_r1_s3, fmaf(in_c0, w_r1_s2, acc_p1_q0)));
            acc_p1_q1 =
                fmaf(in_c3, w_r1_s4, fmaf(in_c2, w_r1_s3, fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p1_q1))));
            acc_p1_q2 =
                fmaf(in_c4, w_r1_s4,
                fmaf(in_c3, w_r1_s3, fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p1_q2)))));
            acc_p1_q3 =
                fmaf(in_c5, w_r1_s4,
                fmaf(in_c4, w_r1_s3, fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p1_q3)))));
            acc_p1_q4 =
                fmaf(in_c6, w_r1_s4,
                fmaf(in_c5, w_r1_s3, fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p1_q4)))));
            acc_p1_q5 =
                fmaf(in_c7, w_r1_s4,
                fmaf(in_c6, w_r1_s3, fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p1_q5)))));
            acc_p1_q6 =
                fmaf(in_c7, w_r1_s3, fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p1_q6))));
            acc_p1_q7 = fmaf(in_c7, w_r1_s2, fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p1_q7)));
        }
        // input row 1: output rows 0, 1 by filter rows 3, 2
        {
            const uint4 in_v0 = *(const uint4*)(x_strip + 8);
            const float in_c0 = wc_half_low_to_float(in_v0.x), in_c1 = wc_half_high_to_float(in_v0.x),
                in_c2 = wc_half_low_to_float(in_v0.y), in_c3 = wc_half_high_to_float(in_v0.y);
            const float in_c4 = wc_half_low_to_float(in_v0.z), in_c5 = wc_half_high_to_float(in_v0.z),
                in_c6 = wc_half_low_to_float(in_v0.w), in_c7 = wc_half_high_to_float(in_v0.w);
            acc_p0_q0 = fmaf(in_c2, w_r3_s4, fmaf(in_c1, w_r3_s3, fmaf(in_c0, w_r3_s2, acc_p0_q0)));
            acc_p0_q1 =
                fmaf(in_c3, w_r3_s4, fmaf(in_c2, w_r3_s3, fmaf(in_c1, w_r3_s2, fmaf(in_c0, w_r3_s1, acc_p0_q1))));
            acc_p0_q2 =
                fmaf(in_c4, w_r3_s4,
                fmaf(in_c3, w_r3_s3, fmaf(in_c2, w_r3_s2, fmaf(in_c1, w_r3_s1, fmaf(in_c0, w_r3_s0, acc_p0_q2)))));
            acc_p0_q3 =
                fmaf(in_c5, w_r3_s4,
                fmaf(in_c4, w_r3_s3, fmaf(in_c3, w_r3_s2, fmaf(in_c2, w_r3_s1, fmaf(in_c1, w_r3_s0, acc_p0_q3)))));
            acc_p0_q4 =
                fmaf(in_c6, w_r3_s4,
                fmaf(in_c5, w_r3_s3, fmaf(in_c4, w_r3_s2, fmaf(in_c3, w_r3_s1, fmaf(in_c2, w_r3_s0, acc_p0_q4)))));
            acc_p0_q5 =
                fmaf(in_c7, w_r3_s4,
                fmaf(in_c6, w_r3_s3, fmaf(in_c5, w_r3_s2, fmaf(in_c4, w_r3_s1, fmaf(in_c3, w_r3_s0, acc_p0_q5)))));
            acc_p0_q6 =
                fmaf(in_c7, w_r3_s3, fmaf(in_c6, w_r3_s2, fmaf(in_c5, w_r3_s1, fmaf(in_c4, w_r3_s0, acc_p0_q6))));
            acc_p0_q7 = fmaf(in_c7, w_r3_s2, fmaf(in_c6, w_r3_s1, fmaf(in_c5, w_r3_s0, acc_p0_q7)));
            acc_p1_q0 = fmaf(in_c2, w_r2_s4, fmaf(in_c1, w_r2_s3, fmaf(in_c0, w_r2_s2, acc_p1_q0)));
            acc_p1_q1 =
                fmaf(in_c3, w_r2_s4, fmaf(in_c2, w_r2_s3, fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p1_q1))));
            acc_p1_q2 =
                fmaf(in_c4, w_r2_s4,
                fmaf(in_c3, w_r2_s3, fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p1_q2)))));
            acc_p1_q3 =
                fmaf(in_c5, w_r2_s4,
                fmaf(in_c4, w_r2_s3, fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p1_q3)))));
            acc_p1_q4 =
                fmaf(in_c6, w_r2_s4,
                fmaf(in_c5, w_r2_s3, fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p1_q4)))));
            acc_p1_q5 =
                fmaf(in_c7, w_r2_s4,
                fmaf(in_c6, w_r2_s3, fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p1_q5)))));
            acc_p1_q6 =
                fmaf(in_c7, w_r2_s3, fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p1_q6))));
            acc_p1_q7 = fmaf(in_c7, w_r2_s2, fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p1_q7)));
        }
        // input row 2: output rows 0, 1 by filter rows 4, 3
        if (top < 6) {
            const uint4 in_v0 = *(const uint4*)(x_strip + 16);
            const float in_c0 = wc_half_low_to_float(in_v0.x), in_c1 = wc_half_high_to_float(in_v0.x),
                in_c2 = wc_half_low_to_float(in_v0.y), in_c3 = wc_half_high_to_float(in_v0.y);
            const float in_c4 = wc_half_low_to_float(in_v0.z), in_c5 = wc_half_high_to_float(in_v0.z),
                in_c6 = wc_half_low_to_float(in_v0.w), in_c7 = wc_half_high_to_float(in_v0.w);
            acc_p0_q0 = fmaf(in_c2, w_r4_s4, fmaf(in_c1, w_r4_s3, fmaf(in_c0, w_r4_s2, acc_p0_q0)));
            acc_p0_q1 =
                fmaf(in_c3, w_r4_s4, fmaf(in_c2, w_r4_s3, fmaf(in_c1, w_r4_s2, fmaf(in_c0, w_r4_s1, acc_p0_q1))));
            acc_p0_q2 =
                fmaf(in_c4, w_r4_s4,
                fmaf(in_c3, w_r4_s3, fmaf(in_c2, w_r4_s2, fmaf(in_c1, w_r4_s1, fmaf(in_c0, w_r4_s0, acc_p0_q2)))));
            acc_p0_q3 =
                fmaf(in_c5, w_r4_s4,
                fmaf(in_c4, w_r4_s3, fmaf(in_c3, w_r4_s2, fmaf(in_c2, w_r4_s1, fmaf(in_c1, w_r4_s0, acc_p0_q3)))));
            acc_p0_q4 =
                fmaf(in_c6, w_r4_s4,
                fmaf(in_c5, w_r4_s3, fmaf(in_c4, w_r4_s2, fmaf(in_c3, w_r4_s1, fmaf(in_c2, w_r4_s0, acc_p0_q4)))));
            acc_p0_q5 =
                fmaf(in_c7, w_r4_s4,
                fmaf(in_c6, w_r4_s3, fmaf(in_c5, w_r4_s2, fmaf(in_c4, w_r4_s1, fmaf(in_c3, w_r4_s0, acc_p0_q5)))));
            acc_p0_q6 =
                fmaf(in_c7, w_r4_s3, fmaf(in_c6, w_r4_s2, fmaf(in_c5, w_r4_s1, fmaf(in_c4, w_r4_s0, acc_p0_q6))));
            acc_p0_q7 = fmaf(in_c7, w_r4_s2, fmaf(in_c6, w_r4_s1, fmaf(in_c5, w_r4_s0, acc_p0_q7)));
            acc_p1_q0 = fmaf(in_c2, w_r3_s4, fmaf(in_c1, w_r3_s3, fmaf(in_c0, w_r3_s2, acc_p1_q0)));
            acc_p1_q1 =
                fmaf(in_c3, w_r3_s4, fmaf(in_c2, w_r3_s3, fmaf(in_c1, w_r3_s2, fmaf(in_c0, w_r3_s1, acc_p1_q1))));
            acc_p1_q2 =
                fmaf(in_c4, w_r3_s4,
                fmaf(in_c3, w_r3_s3, fmaf(in_c2, w_r3_s2, fmaf(in_c1, w_r3_s1, fmaf(in_c0, w_r3_s0, acc_p1_q2)))));
            acc_p1_q3 =
                fmaf(in_c5, w_r3_s4,
                fmaf(in_c4, w_r3_s3, fmaf(in_c3, w_r3_s2, fmaf(in_c2, w_r3_s1, fmaf(in_c1, w_r3_s0, acc_p1_q3)))));
            acc_p1_q4 =
                fmaf(in_c6, w_r3_s4,
                fmaf(in_c5, w_r3_s3, fmaf(in_c4, w_r3_s2, fmaf(in_c3, w_r3_s1, fmaf(in_c2, w_r3_s0, acc_p1_q4)))));
            acc_p1_q5 =
                fmaf(in_c7, w_r3_s4,
                fmaf(in_c6, w_r3_s3, fmaf(in_c5, w_r3_s2, fmaf(in_c4, w_r3_s1, fmaf(in_c3, w_r3_s0, acc_p1_q5)))));
            acc_p1_q6 =
                fmaf(in_c7, w_r3_s3, fmaf(in_c6, w_r3_s2, fmaf(in_c5, w_r3_s1, fmaf(in_c4, w_r3_s0, acc_p1_q6))));
            acc_p1_q7 = fmaf(in_c7, w_r3_s2, fmaf(in_c6, w_r3_s1, fmaf(in_c5, w_r3_s0, acc_p1_q7)));
        }
        // input row 3: output row 1 by filter row 4
        if (top < 5) {
            const uint4 in_v0 = *(const uint4*)(x_strip + 24);
            const float in_c0 = wc_half_low_to_float(in_v0.x), in_c1 = wc_half_high_to_float(in_v0.x),
                in_c2 = wc_half_low_to_float(in_v0.y), in_c3 = wc_half_high_to_float(in_v0.y);
            const float in_c4 = wc_half_low_to_float(in_v0.z), in_c5 = wc_half_high_to_float(in_v0.z),
                in_c6 = wc_half_low_to_float(in_v0.w), in_c7 = wc_half_high_to_float(in_v0.w);
            acc_p1_q0 = fmaf(in_c2, w_r4_s4, fmaf(in_c1, w_r4_s3, fmaf(in_c0, w_r4_s2, acc_p1_q0)));
            acc_p1_q1 =
                fmaf(in_c3, w_r4_s4, fmaf(in_c2, w_r4_s3, fmaf(in_c1, w_r4_s2, fmaf(in_c0, w_r4_s1, acc_p1_q1))));
            acc_p1_q2 =
                fmaf(in_c4, w_r4_s4,
                fmaf(in_c3, w_r4_s3, fmaf(in_c2, w_r4_s2, fmaf(in_c1, w_r4_s1, fmaf(in_c0, w_r4_s0, acc_p1_q2)))));
            acc_p1_q3 =
                fmaf(in_c5, w_r4_s4,
                fmaf(in_c4, w_r4_s3, fmaf(in_c3, w_r4_s2, fmaf(in_c2, w_r4_s1, fmaf(in_c1, w_r4_s0, acc_p1_q3)))));
            acc_p1_q4 =
                fmaf(in_c6, w_r4_s4,
                fmaf(in_c5, w_r4_s3, fmaf(in_c4, w_r4_s2, fmaf(in_c3, w_r4_s1, fmaf(in_c2, w_r4_s0, acc_p1_q4)))));
            acc_p1_q5 =
                fmaf(in_c7, w_r4_s4,
                fmaf(in_c6, w_r4_s3, fmaf(in_c5, w_r4_s2, fmaf(in_c4, w_r4_s1, fmaf(in_c3, w_r4_s0, acc_p1_q5)))));
            acc_p1_q6 =
                fmaf(in_c7, w_r4_s3, fmaf(in_c6, w_r4_s2, fmaf(in_c5, w_r4_s1, fmaf(in_c4, w_r4_s0, acc_p1_q6))));
            acc_p1_q7 = fmaf(in_c7, w_r4_s2, fmaf(in_c6, w_r4_s1, fmaf(in_c5, w_r4_s0, acc_p1_q7)));
        }

        // outputs, in place of the inputs
        __syncthreads();
        *(uint4*)(y_strip) =
            make_uint4(wc_floats_to_halves(finish(acc_p0_q0, bias_plane), finish(acc_p0_q1, bias_plane)),
            wc_floats_to_halves(finish(acc_p0_q2, bias_plane), finish(acc_p0_q3, bias_plane)),
            wc_floats_to_halves(finish(acc_p0_q4, bias_plane), finish(acc_p0_q5, bias_plane)),
            wc_floats_to_halves(finish(acc_p0_q6, bias_plane), finish(acc_p0_q7, bias_plane)));
        *(uint4*)(y_strip + 8) =
            make_uint4(wc_floats_to_halves(finish(acc_p1_q0, bias_plane), finish(acc_p1_q1, bias_plane)),
            wc_floats_to_halves(finish(acc_p1_q2, bias_plane), finish(acc_p1_q3, bias_plane)),
            wc_floats_to_halves(finish(acc_p1_q4, bias_plane), finish(acc_p1_q5, bias_plane)),
            wc_floats_to_halves(finish(acc_p1_q6, bias_plane), finish(acc_p1_q7, bias_plane)));

        __syncthreads();
        store_planes(y + group * PLANES * 64, buffer);
        unsigned short* const done = buffer;
        buffer = other;
        other = done;
    }
}
