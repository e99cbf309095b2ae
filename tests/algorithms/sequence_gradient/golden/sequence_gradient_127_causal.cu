// warpconv 0.1.0: sequence_gradient, float32. Generated from templates/sequence_gradient/nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,768,H,W --filter 768,1,127 --padding 0,0,126,0 --groups 768 \
//     --operation filter_gradient --arch sm_90 --algorithm sequence_gradient \
//     --set chunks=1 --set taps=20 --set groups=7 --set runs=32 --set run=68 --set channels=1 --set vector=4
//
// layer  x[N, 768, H, W] * w[768, 1, 1, 127] -> y[N, 768, P, Q], stride 1, padding 0,0,126,0, groups 768, float32; its
//        filter gradient
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   20 taps a thread, 140 a block, over 68 outputs, 2176 of a sequence at a time
// cost   20 taps of 32 x 68 outputs: 6 warp loads, 0 shuffles, 1360 FMA a lane, about 86 registers (direct: 2720 loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   35968 bytes of shared memory a block
//
// A thread sums TAPS neighbouring taps over RUN neighbouring outputs, and then over those of the next item. What its
// taps meet is a ring of registers: a gradient is multiplied with the next element for each tap, and four elements more
// are read when four gradients are done. Lanes have the runs of an item, warps further taps; at the end lanes add up
// what they have.
constexpr int K = 768;                          // filters, each with its sequences
constexpr int S = 127;                          // taps
constexpr int TAPS = 20;                        // of a thread
constexpr int BLOCK_TAPS = 140;                 // taps of a block
constexpr int RUN = 68;                         // neighbouring outputs of a thread
constexpr int RUNS = 32;                        // threads for further ones
constexpr int RUN_WARPS = RUNS / 32;            // warps of these
constexpr int SPAN = 2176;                      // outputs of an item
constexpr int THREADS = 224;                    // threads of a block
constexpr int BLOCK = 4;                        // elements of a piece of shared memory
constexpr int RING_PIECES = 6;                  // pieces of what a thread's taps meet
constexpr int RING = 24;                        // elements of it
constexpr int ROUNDS = 2;                       // turns of the ring for a run
constexpr int TAIL = 5;                         // pieces of gradients after them
constexpr int MARGIN = 128;                     // elements of a patch before its first output's place
constexpr int OFFSET = 2;                       // taps before the first, so that a patch begins at a piece
constexpr int BUFFER = 4496;                    // elements of an item, gradients first
constexpr int VECTOR = 4;                       // elements of a copy
constexpr int COPIES = 580;                     // copies of an item of the input,
constexpr int DY_COPIES = 544;                  // and of gradients
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(224)
sequence_gradient_1x127(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw, int N, int H,
        int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const buffers = (float*)shared;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int run = warp % RUN_WARPS * 32 + lane, tap_group = warp / RUN_WARPS;
    const int k = (int)(blockIdx.x % K), chunk = blockIdx.x / K;
    const int first_s = blockIdx.y * BLOCK_TAPS - OFFSET;
    // an item is SPAN outputs of a row of an output plane
    const int spans = (Q + SPAN - 1) / SPAN;
    const long long items = (long long)N * P * spans;
    const index_t first_item = (index_t)(items * chunk), last_item = (index_t)(items * (chunk + 1));
    auto copy = [&](index_t item, int buffer) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans, n = row / P, p = row - n * P;
            const float* const dy_row = dy + ((n * K + k) * P + p) * Q;
            const float* const x_row = x + ((n * K + k) * P + p) * W;
            float* const gradients = buffers + buffer * BUFFER;
            float* const patch = gradients + SPAN;
            for (int i = threadIdx.x; i < DY_COPIES; i += THREADS) {
                const int at = i * VECTOR, column = q_first + at;
                float* const to = gradients + at;
                const bool inside = (unsigned)column < (unsigned)Q;
                wc_copy_async_zfill_16(true, to, dy_row + column, inside);
            }
            for (int i = threadIdx.x; i < COPIES; i += THREADS) {
                const int at = i * VECTOR, column = q_first + (int)blockIdx.y * BLOCK_TAPS - MARGIN + at;
                float* const to = patch + at;
                const bool inside = (unsigned)column < (unsigned)W;
                wc_copy_async_zfill_16(true, to, x_row + column, inside);
            }
        }
        wc_copy_async_commit();
    };
    float acc[TAPS] = {};
    int buffer = 0;                             // of the item that is multiplied
    copy(first_item, 0);
#pragma unroll 1
    for (index_t item = first_item; item < last_item; ++item) {
        wc_copy_async_wait_group();
        __syncthreads();                        // this item is there, and all have used the one before it
        copy(item + 1, 1 - buffer);
        const float4* const gradients = (const float4*)(buffers + buffer * BUFFER) + run * (RUN / BLOCK);
        const float4* const in = gradients + (SPAN + tap_group * TAPS) / BLOCK;
        float ring[RING];
        // into the ring, from element `at` of it on
        auto read = [&](int piece, int at) __attribute__((always_inline)) {
            const float4 four = in[piece];
            ring[at] = four.x, ring[at + 1] = four.y, ring[at + 2] = four.z, ring[at + 3] = four.w;
        };
        auto add = [&](int at, float gradient) __attribute__((always_inline)) {     // the products of a gradient
#pragma unroll
            for (int i = 0; i < TAPS; ++i) acc[i] = fmaf(ring[(at + i) % RING], gradient, acc[i]);
        };
        auto add_four = [&](int piece, int at) __attribute__((always_inline)) {
            const float4 four = gradients[piece];
            add(at, four.x), add(at + 1, four.y), add(at + 2, four.z), add(at + 3, four.w);
        };
#pragma unroll
        for (int i = 0; i < RING_PIECES; ++i) read(i, i * BLOCK);
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (int i = 0; i < RING_PIECES; ++i) {
                add_four(round * RING_PIECES + i, i * BLOCK);
                read((round + 1) * RING_PIECES + i, i * BLOCK);
            }
        }
#pragma unroll
        for (int i = 0; i < TAIL; ++i) {
            add_four(ROUNDS * RING_PIECES + i, i * BLOCK);
            if (i + 1 < TAIL) read((ROUNDS + 1) * RING_PIECES + i, i * BLOCK);
        }
        buffer = 1 - buffer;
    }
    // the sums of all lanes, in the same order in every run
#pragma unroll
    for (int i = 0; i < TAPS; ++i) {
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) acc[i] += __shfl_xor_sync(0xffffffffu, acc[i], apart);
    }
    float* const sums = (float*)shared;         // [warp of runs][tap]
    __syncthreads();
    if (lane == 0) {
#pragma unroll
        for (int i = 0; i < TAPS; ++i) sums[warp % RUN_WARPS * BLOCK_TAPS + tap_group * TAPS + i] = acc[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_TAPS; i += THREADS) {
        const int s = first_s + i;
        float sum = 0.0f;
        for (int from = 0; from < RUN_WARPS; ++from) sum += sums[from * BLOCK_TAPS + i];
        if ((unsigned)s < (unsigned)S) dw[(index_t)k * S + s] = sum;
    }
}
