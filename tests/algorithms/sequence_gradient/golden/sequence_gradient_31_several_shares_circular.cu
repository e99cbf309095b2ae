// warpconv 0.1.0: sequence_gradient, float32. Generated from templates/sequence_gradient/nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 128,1,31 --padding 0,15 --padding-mode circular --groups 64 \
//     --operation filter_gradient --arch sm_90 --algorithm sequence_gradient \
//     --set chunks=4 --set taps=8 --set groups=2 --set runs=64 --set run=12 --set channels=1 --set vector=2
//
// layer  x[N, 64, H, W] * w[128, 1, 1, 31] -> y[N, 128, P, Q], stride 1, padding 0,15 (circular), groups 64, float32;
//        its filter gradient
//        N, H, W (and so P, Q) are arguments (W a multiple of 2; Q a multiple of 2); all else is a constant of the text
// plan   8 taps a thread, 16 a block, over 12 outputs, 768 of a sequence at a time, in 4 chunks; then the chunks' sums
//        are added
// cost   8 taps of 32 x 12 outputs: 7 warp loads, 0 shuffles, 96 FMA a lane, about 62 registers (direct: 192 loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   12448 bytes of shared memory a block
//
// A thread sums TAPS neighbouring taps over RUN neighbouring outputs, and then over those of the next item. What its
// taps meet is a ring of registers: a gradient is multiplied with the next element for each tap, and four elements more
// are read when four gradients are done. Lanes have the runs of an item, warps further taps; at the end lanes add up
// what they have.
constexpr int K = 128;                          // filters, each with its sequences
constexpr int FILTERS = 2;                      // of them for one channel of the input
constexpr int S = 31;                           // taps
constexpr int PAD_RIGHT = 15;                   // elements after a sequence that windows reach
constexpr int CHUNKS = 4;                       // shares of the sum, each made by a block of its own
constexpr int TAPS = 8;                         // of a thread
constexpr int BLOCK_TAPS = 16;                  // taps of a block
constexpr int RUN = 12;                         // neighbouring outputs of a thread
constexpr int RUNS = 64;                        // threads for further ones
constexpr int RUN_WARPS = RUNS / 32;            // warps of these
constexpr int SPAN = 768;                       // outputs of an item
constexpr int THREADS = 128;                    // threads of a block
constexpr int BLOCK = 4;                        // elements of a piece of shared memory
constexpr int RING_PIECES = 3;                  // pieces of what a thread's taps meet
constexpr int RING = 12;                        // elements of it
constexpr int ROUNDS = 1;                       // turns of the ring for a run
constexpr int MARGIN = 16;                      // elements of a patch before its first output's place
constexpr int OFFSET = 1;                       // taps before the first, so that a patch begins at a piece
constexpr int BUFFER = 1556;                    // elements of an item, gradients first
constexpr int VECTOR = 2;                       // elements of a copy
constexpr int COPIES = 394;                     // copies of an item of the input,
constexpr int DY_COPIES = 384;                  // and of gradients
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: the image again.
__device__ __forceinline__ int at_border(int i, int size) {
#pragma unroll 1
    while (i < 0) i += size;
#pragma unroll 1
    while (i >= size) i -= size;
    return i;
}

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_8(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 8, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 8 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_if_8(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 8; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(128)
sequence_gradient_1x31(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N,
        int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const buffers = (float*)shared;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int run = warp % RUN_WARPS * 32 + lane, tap_group = warp / RUN_WARPS;
    const int k = (int)(blockIdx.x % K), chunk = blockIdx.x / K;
    const int first_s = blockIdx.y * BLOCK_TAPS - OFFSET;
    // an item is SPAN outputs of a row of an output plane
    const int spans = (Q + SPAN - 1) / SPAN;
    const long long items = (long long)N * P * spans;
    const index_t first_item = (index_t)(items * chunk / CHUNKS), last_item = (index_t)(items * (chunk + 1) / CHUNKS);
    auto copy = [&](index_t item, int buffer) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans, n = row / P, p = row - n * P;
            const float* const dy_row = dy + ((n * K + k) * P + p) * Q;
            const float* const x_row = x + ((n * (K / FILTERS) + k / FILTERS) * P + p) * W;
            float* const gradients = buffers + buffer * BUFFER;
            float* const patch = gradients + SPAN;
            for (int i = threadIdx.x; i < DY_COPIES; i += THREADS) {
                const int at = i * VECTOR, column = q_first + at;
                float* const to = gradients + at;
                const bool inside = (unsigned)column < (unsigned)Q;
                wc_copy_async_zfill_8(true, to, dy_row + column, inside);
            }
            for (int i = threadIdx.x; i < COPIES; i += THREADS) {
                const int at = i * VECTOR, column = q_first + (int)blockIdx.y * BLOCK_TAPS - MARGIN + at;
                float* const to = patch + at;
                const bool inside = (unsigned)column < (unsigned)W;
                wc_copy_async_if_8(inside, to, x_row + column);
                if (!inside) {
#pragma unroll 1
                    for (int e = 0; e < VECTOR; ++e) to[e] = column + e < W + PAD_RIGHT
                        ? __ldg(x_row + at_border(column + e, W)) : 0;
                }
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
        if ((unsigned)s < (unsigned)S) parts[((long long)chunk * K + k) * S + s] = sum;
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)K * S;
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
        dw[i] = sum;
    }
}
