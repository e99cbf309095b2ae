// warpconv 0.1.0: sequence, float32. Generated from templates/sequence/nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,64,H,W --filter 128,1,32 --padding 0,16 --padding-mode reflect --groups 64 \
//     --epilogue relu --arch sm_90 --algorithm sequence \
//     --set outputs=8 --set team=8 --set sequences=8 --set vector=1 --set store_vector=1 --set min_blocks=8
//
// layer  x[N, 64, H, W] * w[128, 1, 1, 32] -> y[N, 128, P, Q], stride 1, padding 0,16 (reflect), groups 64, float32,
//        then relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   8 neighbouring outputs a thread, 8 threads a sequence, 8 sequences a block; 1 element a copy
// cost   32 x 8 outputs: 12 warp loads, 0 shuffles, 256 FMA a lane, about 58 registers (direct: 256 loads)
// note   5760 bytes of shared memory a block
//
// A thread makes OUTPUTS neighbours of a sequence. Their window is a ring of registers: a tap is multiplied with the
// next element for each output, and four elements more are read when four taps are done.
constexpr int K = 128;                          // filters, each with its sequence
constexpr int FILTERS = 2;                      // of them for one channel of the input
constexpr int S = 32;                           // taps
constexpr int PAD_RIGHT = 16;                   // elements after a sequence that windows reach
constexpr int OUTPUTS = 8;                      // of a thread
constexpr int TEAM = 8;                         // threads of a sequence
constexpr int SEQUENCES = 8;                    // of a block
constexpr int SPAN = 64;                        // outputs of a sequence in a block
constexpr int BLOCK = 4;                        // elements of a piece of shared memory
constexpr int ROW = 2;                          // pieces from a thread's first to the next one's
constexpr int RING_PIECES = 3;                  // pieces of a thread's window
constexpr int RING = 12;                        // elements of it
constexpr int MARGIN = 16;                      // elements of a patch before its first output's place
constexpr int ROUNDS = 2;                       // turns of the ring
constexpr int TAIL = 8;                         // taps after them
constexpr int TAP_PITCH = 36;                   // elements from the taps of a sequence to those of the next
constexpr int PATCH = 144;                      // elements of a sequence's patch
constexpr int VECTOR = 1;                       // elements of a copy
constexpr int CHUNKS = 96;                      // copies of a patch
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// Where a piece of 16 bytes lies: a place is left out after every ROW of them, so that what eight neighbouring threads
// read is in different banks.
__device__ __forceinline__ int place_of(int piece) { return piece + piece / ROW; }

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_if_4(bool takes_part, void* shared, const void* global) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(64, 8)
sequence_1x32(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W,
        int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    float* const patches = (float*)shared, *const all_taps = patches + SEQUENCES * PATCH;
    const int team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    float* const patch = patches + team * PATCH;
    // the first is OFFSET further on, so that a piece of taps meets whole pieces of the patch
    float* const taps = all_taps + team * TAP_PITCH;
    const float4* const own = (const float4*)patch + member * (ROW + 1);
    const int q_first = blockIdx.x * SPAN;
    const index_t rows = (index_t)N * K * P;
    for (index_t group = blockIdx.y; group * SEQUENCES < rows; group += gridDim.y) {
        const index_t row = min(group * SEQUENCES + team, rows - 1), plane = row / P;     // a row of an output plane
        const float* const x_row = x + (plane / FILTERS * P + row % P) * W;
        const int k = (int)(plane % K);
        __syncthreads();                                        // all have stored what was there before
        for (int i = member; i < CHUNKS; i += TEAM) {
            const int at = i, column = q_first - MARGIN + at;
            float* const to = patch + place_of(at / BLOCK) * BLOCK + at % BLOCK;
            const bool inside = (unsigned)column < (unsigned)W;
            wc_copy_async_if_4(inside, to, x_row + column);
            if (!inside) {
#pragma unroll 1
                for (int e = 0; e < VECTOR; ++e) to[e] = column + e < W + PAD_RIGHT
                    ? __ldg(x_row + at_border(column + e, W)) : 0;
            }
        }
        wc_copy_async_commit();
        for (int s = member; s < S; s += TEAM) taps[s] = __ldg(w + (index_t)k * S + s);
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
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
            for (int i = 0; i < RING_PIECES; ++i) {
                const int piece = round * RING_PIECES + i, at = i * BLOCK % RING;
                const float4 tap = ((const float4*)taps)[piece];
                add(at, tap.x), add(at + 1, tap.y), add(at + 2, tap.z), add(at + 3, tap.w);
                read(piece + RING_PIECES, at);
            }
        }
#pragma unroll
        for (int i = 0; i < TAIL; ++i) {
            const int piece = ROUNDS * RING_PIECES + i / BLOCK, at = i;
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
        for (int i = 0; i < OUTPUTS; ++i) {
            const int at = i * TEAM + member, q = q_first + at;
            if (group * SEQUENCES + team < rows && q < Q) y_row[q] =
                finish(patch[place_of(at / BLOCK) * BLOCK + at % BLOCK]);
        }
    }
}
