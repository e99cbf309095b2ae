// warpconv 0.1.0: staged, float16. Generated from templates/staged/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,6,6 --filter 32,3,3 --padding 1 --groups 32 --dtype float16 --epilogue bias \
//     --arch sm_90 --algorithm staged \
//     --set height=6 --set width=6 --set rows=3 --set planes=8 --set buffers=2 --set stage=async \
//     --set weights=registers --set vector=8 --set min_blocks=8 --set parts=quarters
//
// layer  x[N, 32, H, W] * w[32, 1, 3, 3] -> y[N, 32, P, Q], stride 1, padding 1, groups 32, float16, then bias
//        N, H, W (and so P, Q) are arguments (H = 6; W = 6; P = 6; Q = 6); all else is a constant of the text
// plan   planes of 6 x 6 in shared memory (two buffers in turn), eight to a warp, a lane makes a quarter of one plane,
//        32 threads a block
// cost   group of 8 planes: 2 warp loads, 0 shuffles, 64 FMA a lane, about 70 registers (direct: 81 loads)
// note   a group moves 1152 bytes; about 20.9 instructions an output
// note   1440 bytes of shared memory a block, 16 blocks a multiprocessor
//
// Planes lie one after another in memory: a group of them is one stretch, copied in wide accesses. A lane makes a
// quarter of one plane, seen from its corner of the image: filter and plane are turned so that it is the upper left one
// for all lanes, and taps outside the image are left out of the text. A warp has 8 planes and two buffers of its own,
// its next planes are on their way while these are computed; the grid is a multiple of the planes of an image, so a
// warp's planes all have the same filters.
constexpr int K = 32;                           // output planes of an image
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PLANES = 8;                       // output planes of a warp's group
constexpr int THREADS = 32;                     // that copy it: one for each quarter
constexpr int WEIGHT_STRIDE = 9;                // floats between planes' weights: odd, for the banks
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// Copy a group's input planes from global to shared memory.
__device__ __forceinline__ void load_planes(unsigned short* to, const unsigned short* from) {
    const int first = threadIdx.x % THREADS;
#pragma unroll 2
    for (int round = 0, i = first; round < 2; ++round, i += THREADS)
        if (round < 1 || i < 36) wc_copy_async_16(to + i * 8, from + i * 8);
}

// Copy a group's output planes from shared to global memory.
__device__ __forceinline__ void store_planes(unsigned short* to, const unsigned short* from) {
    const int first = threadIdx.x % THREADS;
#pragma unroll 2
    for (int round = 0, i = first; round < 2; ++round, i += THREADS)
        if (round < 1 || i < 36) *(uint4*)(to + i * 8) = *(const uint4*)(from + i * 8);
}

// Copy the filters of the output planes from `first_plane` on to shared memory, as floats.
__device__ __forceinline__ void load_weights(float* to, const unsigned short* w, index_t first_plane) {
    const int first = threadIdx.x % THREADS;
#pragma unroll 3
    for (int round = 0, i = first; round < 3; ++round, i += THREADS)
        if (round < 2 || i < 72) to[i] = wc_half_to_float(__ldg(w + first_plane % K * (R * S) + i));
}

extern "C" __global__ void __launch_bounds__(32, 8)
staged_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char staged[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, plane = lane % PLANES;
    const bool right = lane >= 16, lower = lane / PLANES % 2 == 1;    // which quarter
    unsigned short* buffer = (unsigned short*)staged + warp * 576;
    unsigned short* other = buffer + 288;
    float* const weights = (float*)(staged + 1152) + warp * (PLANES * WEIGHT_STRIDE);
    const index_t groups = (index_t)N * (K / PLANES), step = gridDim.x;
    const index_t own = blockIdx.x + warp;        // the warp's first group of planes

    load_planes(buffer, x + own * PLANES * 36);
    load_weights(weights, w, own * PLANES);
    const float bias_plane = wc_half_to_float(__ldg(bias + (own * PLANES + plane) % K));
    __syncwarp();
    // the filter of this lane's plane from its corner on, one register per weight
    const float* const w_corner = weights + plane * WEIGHT_STRIDE + (lower ? (R - 1) * S : 0) + (right ? S - 1 : 0);
    const int w_down = lower ? -S : S, w_along = right ? -1 : 1;
    const float w_r0_s0 = w_corner[0], w_r0_s1 = w_corner[w_along], w_r0_s2 = w_corner[2 * w_along];
    const float w_r1_s0 = w_corner[w_down], w_r1_s1 = w_corner[w_down + w_along],
        w_r1_s2 = w_corner[w_down + 2 * w_along];
    const float w_r2_s0 = w_corner[2 * w_down], w_r2_s1 = w_corner[2 * w_down + w_along],
        w_r2_s2 = w_corner[2 * w_down + 2 * w_along];

    const int x_down = lower ? -6 : 6, y_down = lower ? -6 : 6;
    const int x_corner = plane * 36 + (lower ? 30 : 0) + (right ? 2 : 0);
    const int y_corner = plane * 36 + (lower ? 30 : 0) + (right ? 4 : 0);
    const unsigned turn = right ? 0x5476 : 0x3210;    // a word, or its counterpart with halves exchanged
    const int middle = right ? -1 : 2;    // its column next to the other side's quarter
    for (index_t group = own; group < groups; group += step) {
        // these planes are there, and all lanes have copied the other buffer's outputs out
        wc_copy_async_wait();
        __syncwarp();
        if (group + step < groups) load_planes(other, x + (group + step) * PLANES * 36);

        float acc_p0_q0 = 0.0f, acc_p0_q1 = 0.0f, acc_p0_q2 = 0.0f;
        float acc_p1_q0 = 0.0f, acc_p1_q1 = 0.0f, acc_p1_q2 = 0.0f;
        float acc_p2_q0 = 0.0f, acc_p2_q1 = 0.0f, acc_p2_q2 = 0.0f;
        // input row 0: output rows 0, 1 by filter rows 1, 0
        {
            const unsigned short* const x_row = buffer + x_corner;
            const unsigned in_v0 = *(const unsigned*)(x_row);
            const unsigned in_v2 = *(const unsigned*)(x_row + 2);
            const unsigned in_w0 = __byte_perm(in_v0, in_v2, turn);
            const float in_c0 = wc_half_low_to_float(in_w0), in_c1 = wc_half_high_to_float(in_w0);
            const unsigned in_w2 = __byte_perm(in_v2, in_v0, turn);
            const float in_c2 = wc_half_low_to_float(in_w2), in_c3 = wc_half_high_to_float(in_w2);
            acc_p0_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p0_q2)));
            acc_p1_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p1_q2)));
        }
        // input row 1: output rows 0, 1, 2 by filter rows 2, 1, 0
        {
            const unsigned short* const x_row = buffer + x_corner + x_down;
            const unsigned in_v0 = *(const unsigned*)(x_row);
            const unsigned in_v2 = *(const unsigned*)(x_row + 2);
            const unsigned in_w0 = __byte_perm(in_v0, in_v2, turn);
            const float in_c0 = wc_half_low_to_float(in_w0), in_c1 = wc_half_high_to_float(in_w0);
            const unsigned in_w2 = __byte_perm(in_v2, in_v0, turn);
            const float in_c2 = wc_half_low_to_float(in_w2), in_c3 = wc_half_high_to_float(in_w2);
            acc_p0_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p0_q0));
            acc_p0_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p0_q1)));
            acc_p0_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p0_q2)));
            acc_p1_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p1_q2)));
            acc_p2_q0 = fmaf(in_c1, w_r0_s2, fmaf(in_c0, w_r0_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c2, w_r0_s2, fmaf(in_c1, w_r0_s1, fmaf(in_c0, w_r0_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c3, w_r0_s2, fmaf(in_c2, w_r0_s1, fmaf(in_c1, w_r0_s0, acc_p2_q2)));
        }
        // input row 2: output rows 1, 2 by filter rows 2, 1
        {
            const unsigned short* const x_row = buffer + x_corner + 2 * x_down;
            const unsigned in_v0 = *(const unsigned*)(x_row);
            const unsigned in_v2 = *(const unsigned*)(x_row + 2);
            const unsigned in_w0 = __byte_perm(in_v0, in_v2, turn);
            const float in_c0 = wc_half_low_to_float(in_w0), in_c1 = wc_half_high_to_float(in_w0);
            const unsigned in_w2 = __byte_perm(in_v2, in_v0, turn);
            const float in_c2 = wc_half_low_to_float(in_w2), in_c3 = wc_half_high_to_float(in_w2);
            acc_p1_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p1_q0));
            acc_p1_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p1_q1)));
            acc_p1_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p1_q2)));
            acc_p2_q0 = fmaf(in_c1, w_r1_s2, fmaf(in_c0, w_r1_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c2, w_r1_s2, fmaf(in_c1, w_r1_s1, fmaf(in_c0, w_r1_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c3, w_r1_s2, fmaf(in_c2, w_r1_s1, fmaf(in_c1, w_r1_s0, acc_p2_q2)));
        }
        // input row 3: output row 2 by filter row 2
        {
            const unsigned short* const x_row = buffer + x_corner + 3 * x_down;
            const unsigned in_v0 = *(const unsigned*)(x_row);
            const unsigned in_v2 = *(const unsigned*)(x_row + 2);
            const unsigned in_w0 = __byte_perm(in_v0, in_v2, turn);
            const float in_c0 = wc_half_low_to_float(in_w0), in_c1 = wc_half_high_to_float(in_w0);
            const unsigned in_w2 = __byte_perm(in_v2, in_v0, turn);
            const float in_c2 = wc_half_low_to_float(in_w2), in_c3 = wc_half_high_to_float(in_w2);
            acc_p2_q0 = fmaf(in_c1, w_r2_s2, fmaf(in_c0, w_r2_s1, acc_p2_q0));
            acc_p2_q1 = fmaf(in_c2, w_r2_s2, fmaf(in_c1, w_r2_s1, fmaf(in_c0, w_r2_s0, acc_p2_q1)));
            acc_p2_q2 = fmaf(in_c3, w_r2_s2, fmaf(in_c2, w_r2_s1, fmaf(in_c1, w_r2_s0, acc_p2_q2)));
        }

        // outputs, in place of the inputs
        __syncwarp();
        {
            unsigned short* const y_row = buffer + y_corner;
            const unsigned out_q0 = wc_floats_to_halves(finish(acc_p0_q0, bias_plane), finish(acc_p0_q1, bias_plane));
            y_row[middle] = wc_float_to_half(finish(acc_p0_q2, bias_plane));
            *(unsigned*)(y_row) = __byte_perm(out_q0, out_q0, turn);
        }
        {
            unsigned short* const y_row = buffer + y_corner + y_down;
            const unsigned out_q0 = wc_floats_to_halves(finish(acc_p1_q0, bias_plane), finish(acc_p1_q1, bias_plane));
            y_row[middle] = wc_float_to_half(finish(acc_p1_q2, bias_plane));
            *(unsigned*)(y_row) = __byte_perm(out_q0, out_q0, turn);
        }
        {
            unsigned short* const y_row = buffer + y_corner + 2 * y_down;
            const unsigned out_q0 = wc_floats_to_halves(finish(acc_p2_q0, bias_plane), finish(acc_p2_q1, bias_plane));
            y_row[middle] = wc_float_to_half(finish(acc_p2_q2, bias_plane));
            *(unsigned*)(y_row) = __byte_perm(out_q0, out_q0, turn);
        }

        __syncwarp();
        store_planes(y + group * PLANES * 36, buffer);
        unsigned short* const done = buffer;
        buffer = other;
        other = done;
    }
}
