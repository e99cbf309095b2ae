// warpconv 0.1.0: staged, float32. Generated from templates/staged/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,7,7 --filter 32,3,3 --padding 1 --groups 32 --arch sm_90 --algorithm staged \
//     --set height=7 --set width=7 --set rows=7 --set planes=32 --set buffers=1 --set stage=async \
//     --set weights=registers --set vector=8 --set min_blocks=8 --set parts=strips
//
// layer  x[N, 32, H, W] * w[32, 1, 3, 3] -> y[N, 32, P, Q], stride 1, padding 1, groups 32, float32
//        N, H, W (and so P, Q) are arguments (H = 7; W = 7; P = 7; Q = 7); all else is a constant of the text
// plan   groups of 32 planes of 7 x 7 in shared memory (one buffer), a thread makes 7 output rows of one plane, 32
//        threads a block
// cost   group of 32 planes: 13 warp loads, 0 shuffles, 361 FMA a lane, about 93 registers (direct: 441 loads)
// note   a group moves 12544 bytes; about 13.8 instructions an output
// note   7424 bytes of shared memory a block, 16 blocks a multiprocessor
//
// Planes lie one after another in memory: a group of them is one stretch, copied in wide accesses.
// A thread makes a strip of rows of one plane; columns outside the image are left out of the text, rows outside it are
// skipped.
// One buffer: while a block waits for its group, others of the multiprocessor compute.
constexpr int K = 32;                           // output planes of an image
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PLANES = 32;                      // output planes of a group
constexpr int THREADS = 32;                     // one for each strip of a group
constexpr int WEIGHT_STRIDE = 9;                // floats between planes' weights: odd, for the banks
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Copy a group's input planes from global to shared memory.
__device__ __forceinline__ void load_planes(float* to, const float* from) {
    const int first = threadIdx.x;
#pragma unroll 13
    for (int round = 0, i = first; round < 13; ++round, i += THREADS)
        if (round < 12 || i < 392) wc_copy_async_16(to + i * 4, from + i * 4);
}

// Copy a group's output planes from shared to global memory.
__device__ __forceinline__ void store_planes(float* to, const float* from) {
    const int first = threadIdx.x;
#pragma unroll 13
    for (int round = 0, i = first; round < 13; ++round, i += THREADS)
        if (round < 12 || i < 392) *(uint4*)(to + i * 4) = *(const uint4*)(from + i * 4);
}

// Copy the filters of the output planes from `first_plane` on to shared memory, as floats.
__device__ __forceinline__ void load_weights(float* to, const float* w, index_t first_plane) {
    const int first = threadIdx.x;
#pragma unroll 9
    for (int round = 0, i = first; round < 9; ++round, i += THREADS)
        to[i] = __ldg(w + first_plane % K * (R * S) + i);
}

extern "C" __global__ void __launch_bounds__(32, 8)
staged_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    extern __shared__ __align__(16) unsigned char staged[];
    const int plane = threadIdx.x % PLANES, row = threadIdx.x / PLANES * 7;    // of the group; first output row
    float* const weights = (float*)(staged + 6272);
    const float* const w_plane = weights + plane * WEIGHT_STRIDE;
    const index_t planes = (index_t)N * K, groups = (planes + PLANES - 1) / PLANES;
    float* const buffer = (float*)staged;

    for (index_t group = blockIdx.x; group < groups; group += gridDim.x) {
        const index_t first = group * PLANES;                      // output plane, counted over all images
        load_planes(buffer, x + first * 49);
        load_weights(weights, w, first);
        wc_copy_async_wait();
        __syncthreads();

        // the filter of this thread's plane, one register per weight
        const float w_r0_s0 = w_plane[0], w_r0_s1 = w_plane[1], w_r0_s2 = w_plane[2];
        const float w_r1_s0 = w_plane[3], w_r1_s1 = w_plane[4], w_r1_s2 = w_plane[5];
        const float w_r2_s0 = w_plane[6], w_r2_s1 = w_plane[7], w_r2_s2 = w_plane[8];

        const float* const x_strip = buffer + plane * 49;
        float* const y_strip = buffer + plane * 49 + row * 7;
        float acc_p0_q0 = 0.0f, acc_p0_q1 = 0.0f, acc_p0_q2 = 0.0f, acc_p0_q3 = 0.0f, acc_p0_q4 = 0.0f,
            acc_p0_q5 = 0.0f, acc_p0_q6 = 0.0f;
        float acc_p1_q0 = 0.0f, acc_p1_q1 = 0.0f, acc_p1_q2 = 0.0f, acc_p1_q3 = 0.0f, acc_p1_q4 = 0.0f,
            acc_p1_q5 = 0.0f, acc_p1_q6 = 0.0f;
        float acc_p2_q0 = 0.0f, acc_p2_q1 = 0.0f, acc_p2_q2 = 0.0f, acc_p2_q3 = 0.0f, acc_p2_q4 = 0.0f,
            acc_p2_q5 = 0.0f, acc_p2_q6 = 0.0f;
        float acc_p3_q0 = 0.0f, acc_p3_q1 = 0.0f, acc_p3_q2 = 0.0f, acc_p3_q3 = 0.0f, acc_p3_q4 = 0.0f,
            acc_p3_q5 = 0.0f, acc_p3_q6 = 0.0f;
        float acc_p4_q0 = 0.0f, acc_p4_q1 = 0.0f, acc_p4_q2 = 0.0f, acc_p4_q3 = 0.0f, acc_p4_q4 = 0.0f,
            acc_p4_q5 = 0.0f, acc_p4_q6 = 0.0f;
        float acc_p5_q0 = 0.0f, acc_p5_q1 = 0.0f, acc_p5_q2 = 0.0f, acc_p5_q3 = 0.0f, acc_p5_q4 = 0.0f,
            acc_p5_q5 = 0.0f, acc_p5_q6 = 0.0f;
        float acc_p6_q0 = 0.0f, acc_p6_q1 = 0.0f, acc_p6_q2 = 0.0f, acc_p6_q3 = 0.0f, acc_p6_q4 = 0.0f,
            acc_p6_q5 = 0.0f, acc_p6_q6 = 0.0f;
        // input row 0: output rows 0, 1 by filter rows 1, 0
        {
            const float in_c0 = x_strip[0];
            const float in_c1 = x_strip[1];
            const float in_c2 = x_strip[2];
            const float in_c3 = x_strip[3];
            const float in_c4 = x_strip[4];
            const float in_c5 = x_strip[5];
            const float in_c6 = x_strip[6];
            acc_p0_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p0_q3)));
            acc_p0_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p0_q4)));
            acc_p0_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p0_q5)));
            acc_p0_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p0_q6));
            acc_p1_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p1_q3)));
            acc_p1_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p1_q4)));
            acc_p1_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p1_q5)));
            acc_p1_q6 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p1_q6));
        }
        // input row 1: output rows 0, 1, 2 by filter rows 2, 1, 0
        {
            const float in_c0 = x_strip[7];
            const float in_c1 = x_strip[8];
            const float in_c2 = x_strip[9];
            const float in_c3 = x_strip[10];
            const float in_c4 = x_strip[11];
            const float in_c5 = x_strip[12];
            const float in_c6 = x_strip[13];
            acc_p0_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p0_q3)));
            acc_p0_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p0_q4)));
            acc_p0_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p0_q5)));
            acc_p0_q6 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p0_q6));
            acc_p1_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p1_q3)));
            acc_p1_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p1_q4)));
            acc_p1_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p1_q5)));
            acc_p1_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p1_q6));
            acc_p2_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p2_q2)));
            acc_p2_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p2_q3)));
            acc_p2_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p2_q4)));
            acc_p2_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p2_q5)));
            acc_p2_q6 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p2_q6));
        }
        // input row 2: output rows 1, 2, 3 by filter rows 2, 1, 0
        {
            const float in_c0 = x_strip[14];
            const float in_c1 = x_strip[15];
            const float in_c2 = x_strip[16];
            const float in_c3 = x_strip[17];
            const float in_c4 = x_strip[18];
            const float in_c5 = x_strip[19];
            const float in_c6 = x_strip[20];
            acc_p1_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p1_q3)));
            acc_p1_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p1_q4)));
            acc_p1_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p1_q5)));
            acc_p1_q6 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p1_q6));
            acc_p2_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p2_q2)));
            acc_p2_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p2_q3)));
            acc_p2_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p2_q4)));
            acc_p2_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p2_q5)));
            acc_p2_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p2_q6));
            acc_p3_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p3_q0));
            acc_p3_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p3_q1)));
            acc_p3_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p3_q2)));
            acc_p3_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p3_q3)));
            acc_p3_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p3_q4)));
            acc_p3_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p3_q5)));
            acc_p3_q6 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p3_q6));
        }
        // input row 3: output rows 2, 3, 4 by filter rows 2, 1, 0
        {
            const float in_c0 = x_strip[21];
            const float in_c1 = x_strip[22];
            const float in_c2 = x_strip[23];
            const float in_c3 = x_strip[24];
            const float in_c4 = x_strip[25];
            const float in_c5 = x_strip[26];
            const float in_c6 = x_strip[27];
            acc_p2_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p2_q2)));
            acc_p2_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p2_q3)));
            acc_p2_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p2_q4)));
            acc_p2_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p2_q5)));
            acc_p2_q6 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p2_q6));
            acc_p3_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p3_q0));
            acc_p3_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p3_q1)));
            acc_p3_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p3_q2)));
            acc_p3_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p3_q3)));
            acc_p3_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p3_q4)));
            acc_p3_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p3_q5)));
            acc_p3_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p3_q6));
            acc_p4_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p4_q0));
            acc_p4_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p4_q1)));
            acc_p4_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p4_q2)));
            acc_p4_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p4_q3)));
            acc_p4_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p4_q4)));
            acc_p4_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p4_q5)));
            acc_p4_q6 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p4_q6));
        }
        // input row 4: output rows 3, 4, 5 by filter rows 2, 1, 0
        {
            const float in_c0 = x_strip[28];
            const float in_c1 = x_strip[29];
            const float in_c2 = x_strip[30];
            const float in_c3 = x_strip[31];
            const float in_c4 = x_strip[32];
            const float in_c5 = x_strip[33];
            const float in_c6 = x_strip[34];
            acc_p3_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p3_q0));
            acc_p3_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p3_q1)));
            acc_p3_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p3_q2)));
            acc_p3_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p3_q3)));
            acc_p3_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p3_q4)));
            acc_p3_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p3_q5)));
            acc_p3_q6 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p3_q6));
            acc_p4_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p4_q0));
            acc_p4_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p4_q1)));
            acc_p4_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p4_q2)));
            acc_p4_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p4_q3)));
            acc_p4_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p4_q4)));
            acc_p4_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p4_q5)));
            acc_p4_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p4_q6));
            acc_p5_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p5_q0));
            acc_p5_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p5_q1)));
            acc_p5_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p5_q2)));
            acc_p5_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p5_q3)));
            acc_p5_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p5_q4)));
            acc_p5_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p5_q5)));
            acc_p5_q6 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p5_q6));
        }
        // input row 5: output rows 4, 5, 6 by filter rows 2, 1, 0
        {
            const float in_c0 = x_strip[35];
            const float in_c1 = x_strip[36];
            const float in_c2 = x_strip[37];
            const float in_c3 = x_strip[38];
            const float in_c4 = x_strip[39];
            const float in_c5 = x_strip[40];
            const float in_c6 = x_strip[41];
            acc_p4_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p4_q0));
            acc_p4_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p4_q1)));
            acc_p4_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p4_q2)));
            acc_p4_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p4_q3)));
            acc_p4_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p4_q4)));
            acc_p4_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p4_q5)));
            acc_p4_q6 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p4_q6));
            acc_p5_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p5_q0));
            acc_p5_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p5_q1)));
            acc_p5_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p5_q2)));
            acc_p5_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p5_q3)));
            acc_p5_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p5_q4)));
            acc_p5_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p5_q5)));
            acc_p5_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p5_q6));
            acc_p6_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p6_q0));
            acc_p6_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p6_q1)));
            acc_p6_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p6_q2)));
            acc_p6_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p6_q3)));
            acc_p6_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p6_q4)));
            acc_p6_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p6_q5)));
            acc_p6_q6 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p6_q6));
        }
        // input row 6: output rows 5, 6 by filter rows 2, 1
        {
            const float in_c0 = x_strip[42];
            const float in_c1 = x_strip[43];
            const float in_c2 = x_strip[44];
            const float in_c3 = x_strip[45];
            const float in_c4 = x_strip[46];
            const float in_c5 = x_strip[47];
            const float in_c6 = x_strip[48];
            acc_p5_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p5_q0));
            acc_p5_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p5_q1)));
            acc_p5_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p5_q2)));
            acc_p5_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p5_q3)));
            acc_p5_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p5_q4)));
            acc_p5_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p5_q5)));
            acc_p5_q6 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p5_q6));
            acc_p6_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p6_q0));
            acc_p6_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p6_q1)));
            acc_p6_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p6_q2)));
            acc_p6_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p6_q3)));
            acc_p6_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p6_q4)));
            acc_p6_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p6_q5)));
            acc_p6_q6 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p6_q6));
        }

        // outputs, in place of the inputs
        y_strip[0] = acc_p0_q0;
        y_strip[1] = acc_p0_q1;
        y_strip[2] = acc_p0_q2;
        y_strip[3] = acc_p0_q3;
        y_strip[4] = acc_p0_q4;
        y_strip[5] = acc_p0_q5;
        y_strip[6] = acc_p0_q6;
        y_strip[7] = acc_p1_q0;
        y_strip[8] = acc_p1_q1;
        y_strip[9] = acc_p1_q2;
        y_strip[10] = acc_p1_q3;
        y_strip[11] = acc_p1_q4;
        y_strip[12] = acc_p1_q5;
        y_strip[13] = acc_p1_q6;
        y_strip[14] = acc_p2_q0;
        y_strip[15] = acc_p2_q1;
        y_strip[16] = acc_p2_q2;
        y_strip[17] = acc_p2_q3;
        y_strip[18] = acc_p2_q4;
        y_strip[19] = acc_p2_q5;
        y_strip[20] = acc_p2_q6;
        y_strip[21] = acc_p3_q0;
        y_strip[22] = acc_p3_q1;
        y_strip[23] = acc_p3_q2;
        y_strip[24] = acc_p3_q3;
        y_strip[25] = acc_p3_q4;
        y_strip[26] = acc_p3_q5;
        y_strip[27] = acc_p3_q6;
        y_strip[28] = acc_p4_q0;
        y_strip[29] = acc_p4_q1;
        y_strip[30] = acc_p4_q2;
        y_strip[31] = acc_p4_q3;
        y_strip[32] = acc_p4_q4;
        y_strip[33] = acc_p4_q5;
        y_strip[34] = acc_p4_q6;
        y_strip[35] = acc_p5_q0;
        y_strip[36] = acc_p5_q1;
        y_strip[37] = acc_p5_q2;
        y_strip[38] = acc_p5_q3;
        y_strip[39] = acc_p5_q4;
        y_strip[40] = acc_p5_q5;
        y_strip[41] = acc_p5_q6;
        y_strip[42] = acc_p6_q0;
        y_strip[43] = acc_p6_q1;
        y_strip[44] = acc_p6_q2;
        y_strip[45] = acc_p6_q3;
        y_strip[46] = acc_p6_q4;
        y_strip[47] = acc_p6_q5;
        y_strip[48] = acc_p6_q6;
        __syncthreads();
        store_planes(y + first * 49, buffer);
        __syncthreads();
    }
}
