// warpconv 0.1.0: staged, float32. Generated from templates/staged/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,7,7 --filter 32,3,3 --padding 1 --padding-mode reflect --groups 32 --arch sm_90 \
//     --algorithm staged \
//     --set height=7 --set width=7 --set rows=2 --set planes=32 --set buffers=1 --set stage=async \
//     --set weights=registers --set vector=8 --set min_blocks=8 --set parts=strips
//
// layer  x[N, 32, H, W] * w[32, 1, 3, 3] -> y[N, 32, P, Q], stride 1, padding 1 (reflect), groups 32, float32
//        N, H, W (and so P, Q) are arguments (H = 7; W = 7; P = 7; Q = 7); all else is a constant of the text
// plan   groups of 32 planes of 7 x 7 in shared memory (one buffer), a thread makes 2 output rows of one plane, 128
//        threads a block
// cost   group of 32 planes: 13 warp loads, 0 shuffles, 126 FMA a lane, about 72 registers (direct: 441 loads)
// note   a group moves 12544 bytes; about 23.2 instructions an output
// note   7424 bytes of shared memory a block, 7 blocks a multiprocessor
//
// Planes lie one after another in memory: a group of them is one stretch, copied in wide accesses.
// A thread makes a strip of rows of one plane; taps outside of the image meet the elements that the border has there.
// One buffer: while a block waits for its group, others of the multiprocessor compute.
constexpr int K = 32;                           // output planes of an image
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PLANES = 32;                      // output planes of a group
constexpr int THREADS = 128;                    // one for each strip of a group
constexpr int WEIGHT_STRIDE = 9;                // floats between planes' weights: odd, for the banks
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// Where rows -1 .. 8 stand in a plane, elements from its beginning; outside of it mirrored at the edge, whose pixel is
// not repeated.
__constant__ short ROW_AT[] = {
    7, 0, 7, 14, 21, 28, 35, 42, 35, 28,
};

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Copy a group's input planes from global to shared memory.
__device__ __forceinline__ void load_planes(float* to, const float* from) {
    const int first = threadIdx.x;
#pragma unroll 4
    for (int round = 0, i = first; round < 4; ++round, i += THREADS)
        if (round < 3 || i < 392) wc_copy_async_16(to + i * 4, from + i * 4);
}

// Copy a group's output planes from shared to global memory.
__device__ __forceinline__ void store_planes(float* to, const float* from) {
    const int first = threadIdx.x;
#pragma unroll 4
    for (int round = 0, i = first; round < 4; ++round, i += THREADS)
        if (round < 3 || i < 392) *(uint4*)(to + i * 4) = *(const uint4*)(from + i * 4);
}

// Copy the filters of the output planes from `first_plane` on to shared memory, as floats.
__device__ __forceinline__ void load_weights(float* to, const float* w, index_t first_plane) {
    const int first = threadIdx.x;
#pragma unroll 3
    for (int round = 0, i = first; round < 3; ++round, i += THREADS)
        if (round < 2 || i < 288) to[i] = __ldg(w + first_plane % K * (R * S) + i);
}

extern "C" __global__ void __launch_bounds__(128, 8)
staged_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    extern __shared__ __align__(16) unsigned char staged[];
    const int plane = threadIdx.x % PLANES, row = threadIdx.x / PLANES * 2;    // of the group; first output row
    const int top = threadIdx.x / PLANES * 2;                          // the input row that stands there
    // where the border has the rows that lie outside of the image for the first or last strips
    const int at_m1 = ROW_AT[top], at_1 = ROW_AT[top + 2], at_2 = ROW_AT[top + 3];
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

        const float* const x_plane = buffer + plane * 49;
        const float* const x_strip = x_plane + top * 7;
        float* const y_strip = buffer + plane * 49 + row * 7;
        float acc_p0_q0 = 0.0f, acc_p0_q1 = 0.0f, acc_p0_q2 = 0.0f, acc_p0_q3 = 0.0f, acc_p0_q4 = 0.0f,
            acc_p0_q5 = 0.0f, acc_p0_q6 = 0.0f;
        float acc_p1_q0 = 0.0f, acc_p1_q1 = 0.0f, acc_p1_q2 = 0.0f, acc_p1_q3 = 0.0f, acc_p1_q4 = 0.0f,
            acc_p1_q5 = 0.0f, acc_p1_q6 = 0.0f;
        // input row -1: output row 0 by filter row 0
        {
            const float* const x_row = x_plane + at_m1;
            const float in_c0 = x_row[0];
            const float in_c1 = x_row[1];
            const float in_c2 = x_row[2];
            const float in_c3 = x_row[3];
            const float in_c4 = x_row[4];
            const float in_c5 = x_row[5];
            const float in_c6 = x_row[6];
            acc_p0_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p0_q0)));
            acc_p0_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p0_q3)));
            acc_p0_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p0_q4)));
            acc_p0_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p0_q5)));
            acc_p0_q6 = fmaf(in_c5, w_r0_s2, fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p0_q6)));
        }
        // input row 0: output rows 0, 1 by filter rows 1, 0
        {
            const float in_c0 = x_strip[0];
            const float in_c1 = x_strip[1];
            const float in_c2 = x_strip[2];
            const float in_c3 = x_strip[3];
            const float in_c4 = x_strip[4];
            const float in_c5 = x_strip[5];
            const float in_c6 = x_strip[6];
            acc_p0_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p0_q0)));
            acc_p0_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p0_q3)));
            acc_p0_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p0_q4)));
            acc_p0_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p0_q5)));
            acc_p0_q6 = fmaf(in_c5, w_r1_s2, fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p0_q6)));
            acc_p1_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p1_q0)));
            acc_p1_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c4, w_r0_s2, fmaf(in_c3, w_r0_s1, fmaf(in_c2, w_r0_s0, acc_p1_q3)));
            acc_p1_q4 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p1_q4)));
            acc_p1_q5 = fmaf(in_c6, w_r0_s2, fmaf(in_c5, w_r0_s1, fmaf(in_c4, w_r0_s0, acc_p1_q5)));
            acc_p1_q6 = fmaf(in_c5, w_r0_s2, fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p1_q6)));
        }
        // input row 1: output rows 0, 1 by filter rows 2, 1
        {
            const float* const x_row = x_plane + at_1;
            const float in_c0 = x_row[0];
            const float in_c1 = x_row[1];
            const float in_c2 = x_row[2];
            const float in_c3 = x_row[3];
            const float in_c4 = x_row[4];
            const float in_c5 = x_row[5];
            const float in_c6 = x_row[6];
            acc_p0_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p0_q0)));
            acc_p0_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p0_q3)));
            acc_p0_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p0_q4)));
            acc_p0_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p0_q5)));
            acc_p0_q6 = fmaf(in_c5, w_r2_s2, fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p0_q6)));
            acc_p1_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p1_q0)));
            acc_p1_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c4, w_r1_s2, fmaf(in_c3, w_r1_s1, fmaf(in_c2, w_r1_s0, acc_p1_q3)));
            acc_p1_q4 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p1_q4)));
            acc_p1_q5 = fmaf(in_c6, w_r1_s2, fmaf(in_c5, w_r1_s1, fmaf(in_c4, w_r1_s0, acc_p1_q5)));
            acc_p1_q6 = fmaf(in_c5, w_r1_s2, fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p1_q6)));
        }
        // input row 2: output row 1 by filter row 2
        {
            const float* const x_row = x_plane + at_2;
            const float in_c0 = x_row[0];
            const float in_c1 = x_row[1];
            const float in_c2 = x_row[2];
            const float in_c3 = x_row[3];
            const float in_c4 = x_row[4];
            const float in_c5 = x_row[5];
            const float in_c6 = x_row[6];
            acc_p1_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p1_q0)));
            acc_p1_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c4, w_r2_s2, fmaf(in_c3, w_r2_s1, fmaf(in_c2, w_r2_s0, acc_p1_q3)));
            acc_p1_q4 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p1_q4)));
            acc_p1_q5 = fmaf(in_c6, w_r2_s2, fmaf(in_c5, w_r2_s1, fmaf(in_c4, w_r2_s0, acc_p1_q5)));
            acc_p1_q6 = fmaf(in_c5, w_r2_s2, fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p1_q6)));
        }

        // outputs, in place of the inputs
        __syncthreads();
        y_strip[0] = acc_p0_q0;
        y_strip[1] = acc_p0_q1;
        y_strip[2] = acc_p0_q2;
        y_strip[3] = acc_p0_q3;
        y_strip[4] = acc_p0_q4;
        y_strip[5] = acc_p0_q5;
        y_strip[6] = acc_p0_q6;
        if (row < 6) y_strip[7] = acc_p1_q0;
        if (row < 6) y_strip[8] = acc_p1_q1;
        if (row < 6) y_strip[9] = acc_p1_q2;
        if (row < 6) y_strip[10] = acc_p1_q3;
        if (row < 6) y_strip[11] = acc_p1_q4;
        if (row < 6) y_strip[12] = acc_p1_q5;
        if (row < 6) y_strip[13] = acc_p1_q6;
        __syncthreads();
        store_planes(y + first * 49, buffer);
        __syncthreads();
    }
}
