// warpconv 0.1.0: staged, float32. Generated from templates/staged/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,5,7,7 --filter 10,3,3 --stride 2,2 --padding 1 --groups 5 --arch sm_90 \
//     --algorithm staged \
//     --set height=7 --set width=7 --set rows=3 --set planes=16 --set buffers=1 --set stage=registers \
//     --set weights=shared --set vector=8 --set min_blocks=8 --set parts=strips
//
// layer  x[N, 5, H, W] * w[10, 1, 3, 3] -> y[N, 10, P, Q], stride 2, padding 1, groups 5, float32
//        N, H, W (and so P, Q) are arguments (H = 7; W = 7; P = 4; Q = 4); all else is a constant of the text
// plan   groups of 16 planes of 7 x 7 in shared memory (one buffer), a thread makes 3 output rows of one plane, 32
//        threads a block
// cost   group of 16 planes: 4 warp loads, 0 shuffles, 90 FMA a lane, about 72 registers (direct: 72 loads)
// note   a group moves 2592 bytes; about 26.3 instructions an output
// note   2144 bytes of shared memory a block, 16 blocks a multiprocessor
// note   16 planes do not divide K = 10: the last group may be cut
//
// Planes lie one after another in memory: a group of them is one stretch, copied in wide accesses.
// A thread makes a strip of rows of one plane; columns outside the image are left out of the text, rows outside it are
// skipped.
// One buffer: while a block waits for its group, others of the multiprocessor compute.
constexpr int K = 10;                           // output planes of an image
constexpr int FILTERS = 2;                      // output planes of one input plane
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PLANES = 16;                      // output planes of a group
constexpr int THREADS = 32;                     // one for each strip of a group
constexpr int WEIGHT_STRIDE = 9;                // floats between planes' weights: odd, for the banks
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// Copy a group's input planes (`left` of its output planes if it is cut) from global to shared memory.
__device__ __forceinline__ void load_planes(float* to, const float* from, int left) {
    if (left < PLANES) {
        for (int i = threadIdx.x; i < left / 2 * 49; i += THREADS) to[i] = from[i];
        return;
    }
    const int first = threadIdx.x;
#pragma unroll 4
    for (int round = 0, i = first; round < 4; ++round, i += THREADS)
        if (round < 3 || i < 98) *(uint4*)(to + i * 4) = __ldg((const uint4*)(from + i * 4));
}

// Copy a group's output planes (`left` of them if it is cut) from shared to global memory.
__device__ __forceinline__ void store_planes(float* to, const float* from, int left) {
    if (left < PLANES) {
        for (int i = threadIdx.x; i < left * 16; i += THREADS) to[i] = from[i + i / 16 * 4];
        return;
    }
    const int first = threadIdx.x;
#pragma unroll 2
    for (int round = 0, i = first; round < 2; ++round, i += THREADS)
        *(uint4*)(to + i * 4) = *(const uint4*)(from + i * 4 + i / 4 * 4);
}

// Copy the filters of the output planes from `first_plane` on to shared memory, as floats. The next image's follow the
// last.
__device__ __forceinline__ void load_weights(float* to, const float* w, index_t first_plane) {
    const int first = threadIdx.x;
#pragma unroll 5
    for (int round = 0, i = first; round < 5; ++round, i += THREADS)
        if (round < 4 || i < 144) to[i] = __ldg(w + (first_plane + i / (R * S)) % K * (R * S) + i % (R * S));
}

extern "C" __global__ void __launch_bounds__(32, 8)
staged_3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    extern __shared__ __align__(16) unsigned char staged[];
    const int plane = threadIdx.x % PLANES, row = threadIdx.x / PLANES * 3;    // of the group; first output row
    const int top = threadIdx.x / PLANES * 6;                          // the input row that stands there
    float* const weights = (float*)(staged + 1568);
    const float* const w_plane = weights + plane * WEIGHT_STRIDE;
    const index_t planes = (index_t)N * K, groups = (planes + PLANES - 1) / PLANES;
    float* const buffer = (float*)staged;

    for (index_t group = blockIdx.x; group < groups; group += gridDim.x) {
        const index_t first = group * PLANES;                      // output plane, counted over all images
        const int left = (int)min((index_t)PLANES, planes - first), source = min(plane, left - 1);
        load_planes(buffer, x + first / FILTERS * 49, left);
        load_weights(weights, w, first);
        __syncthreads();

        const float* const x_strip = buffer + source / FILTERS * 49 + top * 7;
        float* const y_strip = buffer + plane * 20 + row * 4;
        float acc_p0_q0 = 0.0f, acc_p0_q1 = 0.0f, acc_p0_q2 = 0.0f, acc_p0_q3 = 0.0f;
        float acc_p1_q0 = 0.0f, acc_p1_q1 = 0.0f, acc_p1_q2 = 0.0f, acc_p1_q3 = 0.0f;
        float acc_p2_q0 = 0.0f, acc_p2_q1 = 0.0f, acc_p2_q2 = 0.0f, acc_p2_q3 = 0.0f;
        // input row -1: output row 0 by filter row 0
        if (top >= 1) {
            const float in_c0 = x_strip[-7];
            const float in_c1 = x_strip[-6];
            const float in_c2 = x_strip[-5];
            const float in_c3 = x_strip[-4];
            const float in_c4 = x_strip[-3];
            const float in_c5 = x_strip[-2];
            const float in_c6 = x_strip[-1];
            const float w_r0_s0 = w_plane[0], w_r0_s1 = w_plane[1], w_r0_s2 = w_plane[2];
            acc_p0_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p0_q3));
        }
        // input row 0: output row 0 by filter row 1
        {
            const float in_c0 = x_strip[0];
            const float in_c1 = x_strip[1];
            const float in_c2 = x_strip[2];
            const float in_c3 = x_strip[3];
            const float in_c4 = x_strip[4];
            const float in_c5 = x_strip[5];
            const float in_c6 = x_strip[6];
            const float w_r1_s0 = w_plane[3], w_r1_s1 = w_plane[4], w_r1_s2 = w_plane[5];
            acc_p0_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p0_q3));
        }
        // input row 1: output rows 0, 1 by filter rows 2, 0
        if (top < 6) {
            const float in_c0 = x_strip[7];
            const float in_c1 = x_strip[8];
            const float in_c2 = x_strip[9];
            const float in_c3 = x_strip[10];
            const float in_c4 = x_strip[11];
            const float in_c5 = x_strip[12];
            const float in_c6 = x_strip[13];
            const float w_r2_s0 = w_plane[6], w_r2_s1 = w_plane[7], w_r2_s2 = w_plane[8];
            acc_p0_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p0_q2)));
            acc_p0_q3 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p0_q3));
            const float w_r0_s0 = w_plane[0], w_r0_s1 = w_plane[1], w_r0_s2 = w_plane[2];
            acc_p1_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p1_q3));
        }
        // input row 2: output row 1 by filter row 1
        if (top < 5) {
            const float in_c0 = x_strip[14];
            const float in_c1 = x_strip[15];
            const float in_c2 = x_strip[16];
            const float in_c3 = x_strip[17];
            const float in_c4 = x_strip[18];
            const float in_c5 = x_strip[19];
            const float in_c6 = x_strip[20];
            const float w_r1_s0 = w_plane[3], w_r1_s1 = w_plane[4], w_r1_s2 = w_plane[5];
            acc_p1_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p1_q3));
        }
        // input row 3: output rows 1, 2 by filter rows 2, 0
        if (top < 4) {
            const float in_c0 = x_strip[21];
            const float in_c1 = x_strip[22];
            const float in_c2 = x_strip[23];
            const float in_c3 = x_strip[24];
            const float in_c4 = x_strip[25];
            const float in_c5 = x_strip[26];
            const float in_c6 = x_strip[27];
            const float w_r2_s0 = w_plane[6], w_r2_s1 = w_plane[7], w_r2_s2 = w_plane[8];
            acc_p1_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p1_q2)));
            acc_p1_q3 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p1_q3));
            const float w_r0_s0 = w_plane[0], w_r0_s1 = w_plane[1], w_r0_s2 = w_plane[2];
            acc_p2_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c5, w_r0_s2, fmaf(in_c4, w_r0_s1, fmaf(in_c3, w_r0_s0, acc_p2_q2)));
            acc_p2_q3 = fmaf(in_c6, w_r0_s1, fmaf(in_c5, w_r0_s0, acc_p2_q3));
        }
        // input row 4: output row 2 by filter row 1
        if (top < 3) {
            const float in_c0 = x_strip[28];
            const float in_c1 = x_strip[29];
            const float in_c2 = x_strip[30];
            const float in_c3 = x_strip[31];
            const float in_c4 = x_strip[32];
            const float in_c5 = x_strip[33];
            const float in_c6 = x_strip[34];
            const float w_r1_s0 = w_plane[3], w_r1_s1 = w_plane[4], w_r1_s2 = w_plane[5];
            acc_p2_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c5, w_r1_s2, fmaf(in_c4, w_r1_s1, fmaf(in_c3, w_r1_s0, acc_p2_q2)));
            acc_p2_q3 = fmaf(in_c6, w_r1_s1, fmaf(in_c5, w_r1_s0, acc_p2_q3));
        }
        // input row 5: output row 2 by filter row 2
        if (top < 2) {
            const float in_c0 = x_strip[35];
            const float in_c1 = x_strip[36];
            const float in_c2 = x_strip[37];
            const float in_c3 = x_strip[38];
            const float in_c4 = x_strip[39];
            const float in_c5 = x_strip[40];
            const float in_c6 = x_strip[41];
            const float w_r2_s0 = w_plane[6], w_r2_s1 = w_plane[7], w_r2_s2 = w_plane[8];
            acc_p2_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c5, w_r2_s2, fmaf(in_c4, w_r2_s1, fmaf(in_c3, w_r2_s0, acc_p2_q2)));
            acc_p2_q3 = fmaf(in_c6, w_r2_s1, fmaf(in_c5, w_r2_s0, acc_p2_q3));
        }

        // outputs, in place of the inputs
        __syncthreads();
        *(float4*)(y_strip) = make_float4(acc_p0_q0, acc_p0_q1, acc_p0_q2, acc_p0_q3);
        if (row < 3) *(float4*)(y_strip + 4) = make_float4(acc_p1_q0, acc_p1_q1, acc_p1_q2, acc_p1_q3);
        if (row < 2) *(float4*)(y_strip + 8) = make_float4(acc_p2_q0, acc_p2_q1, acc_p2_q2, acc_p2_q3);
        __syncthreads();
        store_planes(y + first * 16, buffer, left);
        __syncthreads();
    }
}
