// warpconv 0.1.0: sequence, float32. Generated from templates/sequence/nhwc.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,1,768 --filter 768,255,1 --padding 254,0,0,0 --groups 768 --layout NHWC \
//     --epilogue bias --arch sm_90 --algorithm sequence \
//     --set outputs=32 --set team=16 --set sequences=8 --set vector=4 --set store_vector=1 --set min_blocks=4
//
// layer  x[N, H, W, 768] * w[768, 1, 255, 1] -> y[N, P, Q, 768], stride 1, padding 254,0,0,0, groups 768, float32 NHWC,
//        then bias
//        N, H, W (and so P, Q) are arguments (W at most 1; Q at most 1); all else is a constant of the text
// plan   32 neighbouring outputs a thread, 16 threads a channel, 8 channels a block; 4 elements a copy
// cost   32 x 32 outputs: 12 warp loads, 0 shuffles, 8160 FMA a lane, about 102 registers (direct: 8160 loads)
// note   33440 bytes of shared memory a block
//
// A thread makes OUTPUTS neighbours of a channel's sequence, neighbouring threads those of neighbouring channels. Their
// window is a ring of registers: a tap is multiplied with the next element for each output, and one element more is
// read.
constexpr int C = 768;                          // channels of a pixel, each with its filter
constexpr int CHANNELS = 8;                     // of a block
constexpr int S = 255;                          // taps
constexpr int PAD_LEFT = 254;                   // pixels before a row that windows reach,
constexpr int OUTPUTS = 32;                     // of a thread
constexpr int THREADS = 128;                    // threads of a block
constexpr int SPAN = 512;                       // outputs of a channel in a block
constexpr int PIXELS = 766;                     // that it reads
constexpr int VECTOR = 4;                       // channels of a copy
constexpr int CELLS = 2;                        // copies of a pixel
// elements between the pixels of two threads, so that they meet other banks
constexpr int GAP = 8;
constexpr int RUN = 264;                        // elements from the first pixel of a thread to that of the next
constexpr int ROUNDS = 7;                       // turns of the ring
constexpr int TAIL = 31;                        // taps after them
constexpr int TAP_PITCH = 255;                  // elements from the taps of a channel to those of the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(128, 4)
sequence_255x1(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const pixels = (float*)shared, *const all_taps = (float*)(shared + 25280);
    const int channel = threadIdx.x % CHANNELS, run = threadIdx.x / CHANNELS;
    const int q_first = blockIdx.x * SPAN, first_c = blockIdx.y * CHANNELS, c = first_c + channel;
    for (int i = threadIdx.x; i < CHANNELS * S; i += THREADS)
        all_taps[i / S * TAP_PITCH + i % S] = __ldg(w + (index_t)first_c * S + i);
    const float* const taps = all_taps + channel * TAP_PITCH;
    const float bias_c = __ldg(bias + c);
    const index_t rows = N;       // an image is one row of pixels
    for (index_t row = blockIdx.z; row < rows; row += gridDim.z) {
        const float* const x_row = x + row * H * C;
        __syncthreads();                        // all have read the pixels of the row before
#pragma unroll 4
        for (int i = threadIdx.x; i < PIXELS * CELLS; i += THREADS) {
            const int cell = i % CELLS * VECTOR, pixel = i / CELLS, column = q_first - PAD_LEFT + pixel;
            float* const to = pixels + (pixel * CHANNELS + pixel / OUTPUTS * GAP + cell);
            const bool inside = (unsigned)column < (unsigned)H;
            wc_copy_async_zfill_16(true, to, x_row + ((index_t)column * C + (first_c + cell)), inside);
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
            add(i, taps[ROUNDS * OUTPUTS + i]);
            if (i + 1 < TAIL) window[i] = in[i * CHANNELS];
        }
        float* const y_row = y + row * P * C;
#pragma unroll
        for (int i = 0; i < OUTPUTS; ++i) {
            const int q = q_first + run * OUTPUTS + i;
            if (q < P) y_row[(index_t)q * C + c] = finish(acc[i], bias_c);
        }
    }
}
