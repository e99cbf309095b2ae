// warpconv 0.1.0: sequence_gradient, float32. Generated from templates/sequence_gradient/nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,42 --filter 42,1,9 --padding 0,4 --groups 42 --layout NHWC \
//     --operation filter_gradient --arch sm_90 --algorithm sequence_gradient \
//     --set chunks=1 --set taps=8 --set groups=1 --set runs=8 --set run=24 --set channels=16 --set vector=1
//
// layer  x[N, H, W, 42] * w[42, 1, 1, 9] -> y[N, P, Q, 42], stride 1, padding 0,4, groups 42, float32 NHWC; its filter
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   8 taps a thread, 8 a block, over 24 outputs, 192 of a sequence at a time
// cost   8 taps of 32 x 24 outputs: 49 warp loads, 0 shuffles, 192 FMA a lane, about 56 registers (direct: 384 loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   56448 bytes of shared memory a block
//
// A thread sums TAPS neighbouring taps of a channel over RUN neighbouring outputs, and then over those of the next
// item; neighbouring threads have neighbouring channels. What its taps meet is a ring of registers: a gradient is
// multiplied with the next element for each tap, and one element more is read. At the end the sums of a block's runs
// are added.
constexpr int C = 42;                           // channels of a pixel, each with its filter
constexpr int CHANNELS = 16;                    // of a block
constexpr int CHANNEL_GROUPS = 3;               // blocks for the channels
constexpr int S = 9;                            // taps
constexpr int PAD_LEFT = 4;                     // pixels before a row that windows reach,
constexpr int TAPS = 8;                         // of a thread
constexpr int BLOCK_TAPS = 8;                   // taps of a block
constexpr int RUN = 24;                         // neighbouring outputs of a thread
constexpr int RUNS = 8;                         // threads for further ones
constexpr int SPAN = 192;                       // outputs of an item
constexpr int PIXELS = 200;                     // pixels that they meet
constexpr int THREADS = 128;                    // threads of a block
constexpr int CELLS = 16;                       // copies of a pixel
constexpr int GAP = 16;                         // elements after TAPS pixels, so that threads meet other banks
constexpr int STEP = 144;                       // elements to the pixel TAPS further on
constexpr int ROUNDS = 3;                       // turns of the ring for a run
constexpr int DY_ELEMENTS = 3456;               // elements of an item: of gradients,
constexpr int BUFFER = 7056;                    // and of both arrays
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(128)
sequence_gradient_1x9(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw, int N, int H,
        int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const buffers = (float*)shared;
    const int channel = threadIdx.x % CHANNELS, run = threadIdx.x / CHANNELS;
    const int first_c = (int)(blockIdx.x % CHANNEL_GROUPS) * CHANNELS, chunk = blockIdx.x / CHANNEL_GROUPS;
    const int first_s = blockIdx.y * BLOCK_TAPS;
    // an item is SPAN outputs of a row of an image
    const int spans = (Q + SPAN - 1) / SPAN;
    const long long items = (long long)N * P * spans;
    const index_t first_item = (index_t)(items * chunk), last_item = (index_t)(items * (chunk + 1));
    auto copy = [&](index_t item, int buffer) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans;
            const float* const dy_row = dy + row * Q * C;
            const float* const x_row = x + row * W * C;
            float* const gradients = buffers + buffer * BUFFER;
            float* const pixels = gradients + DY_ELEMENTS;
#pragma unroll 4
            for (int i = threadIdx.x; i < SPAN * CELLS; i += THREADS) {
                const int cell = i % CELLS, pixel = i / CELLS, column = q_first + pixel;
                float* const to = gradients + (pixel * CHANNELS + pixel / TAPS * GAP + cell);
                const bool inside = (unsigned)column < (unsigned)Q && first_c + cell < C;
                wc_copy_async_zfill_4(true, to, dy_row + ((index_t)column * C + (first_c + cell)), inside);
            }
#pragma unroll 4
            for (int i = threadIdx.x; i < PIXELS * CELLS; i += THREADS) {
                const int cell = i % CELLS, pixel = i / CELLS, column = q_first + first_s - PAD_LEFT + pixel;
                float* const to = pixels + (pixel * CHANNELS + pixel / TAPS * GAP + cell);
                const bool inside = (unsigned)column < (unsigned)W && first_c + cell < C;
                wc_copy_async_zfill_4(true, to, x_row + ((index_t)column * C + (first_c + cell)), inside);
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
        const float* gradients = buffers + (buffer * BUFFER + run * (RUN / TAPS) * STEP + channel);
        const float* in = gradients + DY_ELEMENTS;
        float ring[TAPS];
        auto add = [&](int at, float gradient) __attribute__((always_inline)) {     // the products of a gradient
#pragma unroll
            for (int i = 0; i < TAPS; ++i) acc[i] = fmaf(ring[(at + i) % TAPS], gradient, acc[i]);
        };
#pragma unroll
        for (int i = 0; i < TAPS; ++i) ring[i] = in[i * CHANNELS];
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
            in += STEP;
#pragma unroll
            for (int i = 0; i < TAPS; ++i) {
                add(i, gradients[i * CHANNELS]);
                ring[i] = in[i * CHANNELS];
            }
            gradients += STEP;
        }
        buffer = 1 - buffer;
    }
    // the sums of all runs, in the same order each time
    float* const sums = (float*)shared;         // [run][tap][channel]
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TAPS; ++i) sums[(run * BLOCK_TAPS + i) * CHANNELS + channel] = acc[i];
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_TAPS * CHANNELS; i += THREADS) {
        const int s = first_s + i % BLOCK_TAPS, c = i / BLOCK_TAPS;      // neighbouring threads store neighbouring taps
        float sum = 0.0f;
        for (int from = 0; from < RUNS; ++from) sum += sums[(from * BLOCK_TAPS + i % BLOCK_TAPS) * CHANNELS + c];
        if (s < S && first_c + c < C) dw[(index_t)(first_c + c) * S + s] = sum;
    }
}
