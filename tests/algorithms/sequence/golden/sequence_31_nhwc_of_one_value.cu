// warpconv 0.1.0: sequence, float32. Generated from templates/sequence/nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,42 --filter 42,1,31 --padding 0,15 --padding-mode constant --padding-value 1 \
//     --groups 42 --layout NHWC --arch sm_90 --algorithm sequence \
//     --set outputs=16 --set team=8 --set sequences=32 --set vector=1 --set store_vector=1 --set min_blocks=3
//
// layer  x[N, H, W, 42] * w[42, 1, 1, 31] -> y[N, P, Q, 42], stride 1, padding 0,15 (constant), groups 42, float32 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image) are arguments; all else is a constant of
//        the text
// plan   16 neighbouring outputs a thread, 8 threads a channel, 32 channels a block; 1 element a copy
// cost   32 x 16 outputs: 20 warp loads, 0 shuffles, 496 FMA a lane, about 70 registers (direct: 496 loads)
// note   24192 bytes of shared memory a block
//
// A thread makes OUTPUTS neighbours of a channel's sequence, neighbouring threads those of neighbouring channels. Their
// window is a ring of registers: a tap is multiplied with the next element for each output, and one element more is
// read.
constexpr int C = 42;                           // channels of a pixel, each with its filter
constexpr int CHANNELS = 32;                    // of a block
constexpr int S = 31;                           // taps
constexpr int PAD_LEFT = 15;                    // pixels before a row that windows reach,
constexpr int OUTPUTS = 16;                     // of a thread
constexpr int THREADS = 256;                    // threads of a block
constexpr int SPAN = 128;                       // outputs of a channel in a block
constexpr int PIXELS = 158;                     // that it reads
constexpr int VECTOR = 1;                       // channels of a copy
constexpr int CELLS = 32;                       // copies of a pixel
constexpr int RUN = 512;                        // elements from the first pixel of a thread to that of the next
constexpr int ROUNDS = 1;                       // turns of the ring
constexpr int TAIL = 15;                        // taps after them
constexpr int TAP_PITCH = 31;                   // elements from the taps of a channel to those of the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(256, 3)
sequence_1x31(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W,
        int P, int Q, float BORDER) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const pixels = (float*)shared, *const all_taps = (float*)(shared + 20224);
    const int channel = threadIdx.x % CHANNELS, run = threadIdx.x / CHANNELS;
    const int q_first = blockIdx.x * SPAN, first_c = blockIdx.y * CHANNELS, c = first_c + channel;
    for (int i = threadIdx.x; i < CHANNELS * S; i += THREADS)
        all_taps[i / S * TAP_PITCH + i % S] = i < (C - first_c) * S ? __ldg(w + (index_t)first_c * S + i) : 0.0f;
    const float* const taps = all_taps + channel * TAP_PITCH;
    const index_t rows = (index_t)N * P;
    for (index_t row = blockIdx.z; row < rows; row += gridDim.z) {
        const float* const x_row = x + row * W * C;
        __syncthreads();                        // all have read the pixels of the row before
#pragma unroll 4
        for (int i = threadIdx.x; i < PIXELS * CELLS; i += THREADS) {
            const int cell = i % CELLS, pixel = i / CELLS, column = q_first - PAD_LEFT + pixel;
            float* const to = pixels + (pixel * CHANNELS + cell);
            const bool inside = (unsigned)column < (unsigned)W && first_c + cell < C;
            if (!inside) {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) to[e] = BORDER;
                continue;
            }
            wc_copy_async_zfill_4(true, to, x_row + ((index_t)column * C + (first_c + cell)), inside);
        }
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        __syncthreads();
        const float* in = pixels + run * RUN + channel;
        float window[OUTPUTS], acc[OUTPUTS] = {};
        auto add = [&](int at, float tap) __attribute__((always_inline)) {          // the products of a tap
#pragma unroll
            for (int i = 0; i < OUTPUTS; ++i) acc[i] = fmaf(window[(at + i) % OUTPUTS], tap, acc[i]);
        };
#pragma unroll
        for (int i = 0; i < OUTPUTS; ++i) window[i] = in[i * CHANNELS];
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
            in += RUN;
#pragma unroll
            for (int i = 0; i < OUTPUTS; ++i) {
                add(i, taps[round * OUTPUTS + i]);
                window[i] = in[i * CHANNELS];
            }
        }
        in += RUN;
#pragma unroll
        for (int i = 0; i < TAIL; ++i) {
            add(i, taps[OUTPUTS + i]);
            if (i + 1 < TAIL) window[i] = in[i * CHANNELS];
        }
        float* const y_row = y + row * Q * C;
#pragma unroll
        for (int i = 0; i < OUTPUTS; ++i) {
            const int q = q_first + run * OUTPUTS + i;
            if (q < Q && c < C) y_row[(index_t)q * C + c] = acc[i];
        }
    }
}
