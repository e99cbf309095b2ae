// warpconv 0.1.0: sequence_gradient, float32. Generated from templates/sequence_gradient/nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,1,768 --filter 768,255,1 --padding 254,0,0,0 --groups 768 --layout NHWC \
//     --operation filter_gradient --arch sm_90 --algorithm sequence_gradient \
//     --set chunks=16 --set taps=32 --set groups=8 --set runs=1 --set run=96 --set channels=16 --set vector=4
//
// layer  x[N, H, W, 768] * w[768, 1, 255, 1] -> y[N, P, Q, 768], stride 1, padding 254,0,0,0, groups 768, float32 NHWC;
//        its filter gradient
//        N, H, W (and so P, Q) are arguments (W at most 1; Q at most 1); all else is a constant of the text
// plan   32 taps a thread, 256 a block, over 96 outputs, 96 of a sequence at a time, in 16 chunks; then the chunks'
//        sums are added
// cost   32 taps of 32 x 96 outputs: 14 warp loads, 0 shuffles, 3072 FMA a lane, about 104 registers (direct: 6144
//        loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   59136 bytes of shared memory a block
//
// A thread sums TAPS neighbouring taps of a channel over RUN neighbouring outputs, and then over those of the next
// item; neighbouring threads have neighbouring channels. What its taps meet is a ring of registers: a gradient is
// multiplied with the next element for each tap, and one element more is read. At the end the sums of a block's runs
// are added.
constexpr int C = 768;                          // channels of a pixel, each with its filter
constexpr int CHANNELS = 16;                    // of a block
constexpr int CHANNEL_GROUPS = 48;              // blocks for the channels
constexpr int S = 255;                          // taps
constexpr int PAD_LEFT = 254;                   // pixels before a row that windows reach,
constexpr int CHUNKS = 16;                      // shares of the sum, each made by a block of its own
constexpr int TAPS = 32;                        // of a thread
constexpr int GROUPS = 8;                       // threads for further taps of a channel
constexpr int BLOCK_TAPS = 256;                 // taps of a block
constexpr int RUN = 96;                         // neighbouring outputs of a thread
constexpr int RUNS = 1;                         // threads for further ones
constexpr int SPAN = 96;                        // outputs of an item
constexpr int PIXELS = 352;                     // pixels that they meet
constexpr int THREADS = 128;                    // threads of a block
constexpr int VECTOR = 4;                       // channels of a copy
constexpr int CELLS = 4;                        // copies of a pixel
constexpr int GAP = 16;                         // elements after TAPS pixels, so that threads meet other banks
constexpr int STEP = 528;                       // elements to the pixel TAPS further on
constexpr int ROUNDS = 3;                       // turns of the ring for a run
constexpr int DY_ELEMENTS = 1584;               // elements of an item: of gradients,
constexpr int BUFFER = 7392;                    // and of both arrays
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(128)
sequence_gradient_255x1(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N,
        int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const buffers = (float*)shared;
    const int channel = threadIdx.x % CHANNELS, tap_group = threadIdx.x / CHANNELS % GROUPS,
        run = threadIdx.x / CHANNELS / GROUPS;
    const int first_c = (int)(blockIdx.x % CHANNEL_GROUPS) * CHANNELS, chunk = blockIdx.x / CHANNEL_GROUPS;
    const int first_s = blockIdx.y * BLOCK_TAPS;
    // an item is SPAN outputs of a row of an image, whose pixels are one row
    const int spans = (P + SPAN - 1) / SPAN;
    const long long items = (long long)N * spans;
    const index_t first_item = (index_t)(items * chunk / CHUNKS), last_item = (index_t)(items * (chunk + 1) / CHUNKS);
    auto copy = [&](index_t item, int buffer) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans;
            const float* const dy_row = dy + row * P * C;
            const float* const x_row = x + row * H * C;
            float* const gradients = buffers + buffer * BUFFER;
            float* const pixels = gradients + DY_ELEMENTS;
#pragma unroll 4
            for (int i = threadIdx.x; i < SPAN * CELLS; i += THREADS) {
                const int cell = i % CELLS * VECTOR, pixel = i / CELLS, column = q_first + pixel;
                float* const to = gradients + (pixel * CHANNELS + pixel / TAPS * GAP + cell);
                const bool inside = (unsigned)column < (unsigned)P;
                wc_copy_async_zfill_16(true, to, dy_row + ((index_t)column * C + (first_c + cell)), inside);
            }
#pragma unroll 4
            for (int i = threadIdx.x; i < PIXELS * CELLS; i += THREADS) {
                const int cell = i % CELLS * VECTOR, pixel = i / CELLS, column = q_first + first_s - PAD_LEFT + pixel;
                float* const to = pixels + (pixel * CHANNELS + pixel / TAPS * GAP + cell);
                const bool inside = (unsigned)column < (unsigned)H;
                wc_copy_async_zfill_16(true, to, x_row + ((index_t)column * C + (first_c + cell)), inside);
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
        const float* in = gradients + (DY_ELEMENTS + tap_group * STEP);
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
    for (int i = 0; i < TAPS; ++i) sums[(run * BLOCK_TAPS + tap_group * TAPS + i) * CHANNELS + channel] = acc[i];
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_TAPS * CHANNELS; i += THREADS) {
        const int s = first_s + i % BLOCK_TAPS, c = i / BLOCK_TAPS;      // neighbouring threads store neighbouring taps
        float sum = 0.0f;
        for (int from = 0; from < RUNS; ++from) sum += sums[(from * BLOCK_TAPS + i % BLOCK_TAPS) * CHANNELS + c];
        if (s < S) parts[((long long)chunk * C + first_c + c) * S + s] = sum;
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)C * S;
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
