// warpconv 0.1.0: sequence, float32. Generated from templates/sequence/nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,768,H,W --filter 768,1,127 --padding 0,0,126,0 --groups 768 --epilogue bias,silu \
//     --arch sm_90 --algorithm sequence \
//     --set outputs=16 --set team=64 --set sequences=1 --set vector=4 --set store_vector=4 --set min_blocks=14
//
// layer  x[N, 768, H, W] * w[768, 1, 1, 127] -> y[N, 768, P, Q], stride 1, padding 0,0,126,0, groups 768, float32, then
//        bias, silu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   16 neighbouring outputs a thread, 64 threads a sequence, 1 sequence a block; 4 elements a copy
// cost   32 x 16 outputs: 5 warp loads, 0 shuffles, 2032 FMA a lane, about 74 registers (direct: 2032 loads)
// note   6288 bytes of shared memory a block
//
// A thread makes OUTPUTS neighbours of a sequence. Their window is a ring of registers: a tap is multiplied with the
// next element for each output, and four elements more are read when four taps are done.
constexpr int K = 768;                          // filters, each with its sequence
constexpr int S = 127;                          // taps
constexpr int OUTPUTS = 16;                     // of a thread
constexpr int TEAM = 64;                        // threads of a sequence
constexpr int SPAN = 1024;                      // outputs of a sequence in a block
constexpr int BLOCK = 4;                        // elements of a piece of shared memory
constexpr int ROW = 4;                          // pieces from a thread's first to the next one's
constexpr int RING_PIECES = 5;                  // pieces of a thread's window
constexpr int RING = 20;                        // elements of it
constexpr int MARGIN = 128;                     // elements of a patch before its first output's place
constexpr int OFFSET = 2;                       // elements of a piece before the first tap
constexpr int LEAD = 1;                         // pieces of taps before whole ones
constexpr int ROUNDS = 6;                       // turns of the ring
constexpr int TAIL = 5;                         // taps after them
constexpr int TAP_PITCH = 132;                  // elements from the taps of a sequence to those of the next
constexpr int PATCH = 1440;                     // elements of a sequence's patch
constexpr int VECTOR = 4;                       // elements of a copy
constexpr int CHUNKS = 288;                     // copies of a patch
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// what the steps below call
__device__ __forceinline__ float wc_exp2(float value) { float power; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value)); return power; }
__device__ __forceinline__ float wc_reciprocal(float value) { float inverse; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value)); return inverse; }
// log2(e)
__device__ __forceinline__ float sigmoid(float a) { return wc_reciprocal(1.0f + wc_exp2(-1.442695f * a)); }

// What happens to an output value before it is stored: bias, then silu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value * sigmoid(value);    // silu
    return value;
}

// Where a piece of 16 bytes lies: a place is left out after every ROW of them, so that what eight neighbouring threads
// read is in different banks.
__device__ __forceinline__ int place_of(int piece) { return piece + piece / ROW; }

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(64, 14)
sequence_1x127(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const patches = (float*)shared, *const all_taps = patches + PATCH;
    const int team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    float* const patch = patches + team * PATCH;
    // the first is OFFSET further on, so that a piece of taps meets whole pieces of the patch
    float* const taps = all_taps + team * TAP_PITCH;
    const float4* const own = (const float4*)patch + member * (ROW + 1);
    const int q_first = blockIdx.x * SPAN;
    const index_t rows = (index_t)N * K * P;
    for (index_t group = blockIdx.y; group < rows; group += gridDim.y) {
        const index_t row = group, plane = row / P;     // a row of an output plane
        const float* const x_row = x + row * W;
        const int k = (int)(plane % K);
        __syncthreads();                                        // all have stored what was there before
        for (int i = member; i < CHUNKS; i += TEAM) {
            const int at = i * VECTOR, column = q_first - MARGIN + at;
            float* const to = patch + place_of(at / BLOCK) * BLOCK;
            const bool inside = (unsigned)column < (unsigned)W;
            wc_copy_async_zfill_16(true, to, x_row + column, inside);
        }
        wc_copy_async_commit();
        for (int s = member; s < S; s += TEAM) taps[OFFSET + s] = __ldg(w + (index_t)k * S + s);
        const float bias_k = __ldg(bias + k);
        wc_copy_async_wait_group();
        __syncthreads();
        float window[RING], acc[OUTPUTS] = {};
        // into the ring, from element `at` of it on
        auto read = [&](int piece, int at) __attribute__((always_inline)) {
            const float4 in = own[place_of(piece)];
            window[at] = in.x, window[at + 1] = in.y, window[at + 2] = in.z, window[at + 3] = in.w;
        };
        auto add = [&](int at, float tap) __attribute__((always_inline)) {          // the products of a tap
#pragma unroll
            for (int i = 0; i < OUTPUTS; ++i) acc[i] = fmaf(window[(at + i) % RING], tap, acc[i]);
        };
#pragma unroll
        for (int i = 0; i < RING_PIECES; ++i) read(i, i * BLOCK);
#pragma unroll
        for (int i = OFFSET; i < min(BLOCK, OFFSET + S); ++i) add(i, taps[i]);
        read(RING_PIECES, 0);
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (int i = 0; i < RING_PIECES; ++i) {
                const int piece = LEAD + round * RING_PIECES + i, at = (LEAD + i) * BLOCK % RING;
                const float4 tap = ((const float4*)taps)[piece];
                add(at, tap.x), add(at + 1, tap.y), add(at + 2, tap.z), add(at + 3, tap.w);
                read(piece + RING_PIECES, at);
            }
        }
#pragma unroll
        for (int i = 0; i < TAIL; ++i) {
            const int piece = LEAD + ROUNDS * RING_PIECES + i / BLOCK, at = BLOCK + i;
            add(at, taps[piece * BLOCK + i % BLOCK]);
            if (i % BLOCK == BLOCK - 1 && i + 2 < TAIL) read(piece + RING_PIECES, (at - 3) % RING);
        }
        // sums go back to where their elements were, so that neighbouring threads store neighbours
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ROW; ++i) ((float4*)patch)[member * (ROW + 1) + i] =
            make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
        __syncthreads();
        float* const y_row = y + row * Q;
#pragma unroll
        for (int i = 0; i < ROW; ++i) {
            const int piece = i * TEAM + member, q = q_first + piece * BLOCK;
            const float4 sum = ((const float4*)patch)[place_of(piece)];
            if (q < Q) *(float4*)(y_row + q) =
                make_float4(finish(sum.x, bias_k), finish(sum.y, bias_k), finish(sum.z, bias_k), finish(sum.w, bias_k));
        }
    }
}
