// warpconv 0.1.0: hankel_1d, float16. Generated from templates/hankel_1d/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,768,H,W --filter 768,1,4 --padding 0,0,3,0 --groups 768 --dtype float16 \
//     --operation filter_gradient --arch sm_90 --algorithm hankel_1d \
//     --set chunks=1 --set taps=4 --set warps=4 --set steps=8 --set buffers=2 --set vector=8
//
// layer  x[N, 768, H, W] * w[768, 1, 1, 4] -> y[N, 768, P, Q], stride 1, padding 0,0,3,0, groups 768, float16; its
//        filter gradient
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8); all else is a constant of the text
// plan   4 taps in a block; 4 warps, 2048 outputs of a sequence at a time, 2 buffers
// cost   256 outputs, 3 matrix instructions: 3 warp loads, 0 shuffles, 0 FMA a lane, about 64 registers (direct: 40
//        loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   16448 bytes of shared memory a block
//
// Gradients of outputs are a matrix of rows of ROW elements as they lie in shared memory, the input one whose rows
// begin as far apart and are longer. The product of the transposed first with the second, summed over all rows, has in
// row i and column j the products of gradients with what stands j - i - 5 further on in the input: sums of tap s are a
// diagonal of it. A matrix instruction makes ROW rows by BLOCK columns, over ROW rows of the matrices.
constexpr int K = 768;                          // filters, each with its sequence of gradients
constexpr int S = 4;                            // taps
constexpr int TAPS = 4;                         // taps of a block
constexpr int WARPS = 4;                        // warps of a block
constexpr int THREADS = 128;                    // threads of a block
constexpr int ROW = 16;                         // gradients of a row, and rows that an instruction takes
// columns of an instruction's product, elements of a piece of shared memory
constexpr int BLOCK = 8;
constexpr int STEP = ROW * ROW;                 // gradients of an instruction
// of them one after the other in a sequence that a block takes at a time
constexpr int STEPS = 8;
constexpr int SPAN = 2048;                      // outputs of these
constexpr int COLUMNS = 32;                     // columns of the product, with rows i and i + 8 together
constexpr int SUM_PITCH = BLOCK + 1;            // sums from a column to the next
constexpr int MARGIN = 8;                       // elements before the input's row of the first output's window
constexpr int SKIPPED = 56;                     // elements before them in a line of memory
constexpr int VECTOR = 8;                       // elements of a copy
constexpr int COPIES = 265;                     // copies of the input
constexpr int DY_COPIES = 256;                  // and of gradients
constexpr int BUFFER = 4112;                    // elements of both in shared memory, gradients first
constexpr int BUFFERS = 2;                      // of these
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// Where a piece of 16 bytes lies: eight of them that are 2 apart are in all banks, and those of a line of memory stay
// in one.
__device__ __forceinline__ int place_of(int piece) { return piece ^ piece / 8 % 2; }

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// tensor cores
__device__ __forceinline__ void wc_load_matrices_transposed_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_load_matrices_transposed_2(unsigned& a, unsigned& b, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 { %0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

extern "C" __global__ void __launch_bounds__(128, 8)
hankel_1d_1x4(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy,
        unsigned short* __restrict__ dw, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned char shared[16448];
    unsigned short* const buffers = (unsigned short*)shared;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k = blockIdx.x % K, chunk = blockIdx.x / K, first_s = blockIdx.y * TAPS;
    // an item is SPAN outputs of a row of an image
    const int spans = (Q + SPAN - 1) / SPAN;
    const long long items = (long long)N * P * spans;
    const index_t first_item = (index_t)(items * chunk), last_item = (index_t)(items * (chunk + 1));
    auto copy = [&](index_t item, int buffer) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans, n = row / P, p = row - n * P;
            const unsigned short* const dy_row = dy + ((n * K + k) * P + p) * Q;
            const unsigned short* const x_row = x + ((n * K + k) * P + p) * W;
            unsigned short* const gradients = buffers + buffer * BUFFER;
            unsigned short* const patch = gradients + SPAN;
            for (int i = threadIdx.x; i < DY_COPIES; i += THREADS) {
                const int at = i * VECTOR, column = q_first + at;
                unsigned short* const to = gradients + place_of(at / BLOCK) * BLOCK;
                const bool inside = (unsigned)column < (unsigned)Q;
                wc_copy_async_zfill_16(true, to, dy_row + column, inside);
            }
            for (int i = threadIdx.x; i < COPIES; i += THREADS) {
                const int at = i * VECTOR - SKIPPED, column = q_first + first_s - MARGIN + at;
                unsigned short* const to = patch + place_of(at / BLOCK) * BLOCK;
                const bool inside = (unsigned)column < (unsigned)W;
                if (at < 0) continue;
                wc_copy_async_zfill_16(true, to, x_row + column, inside);
            }
        }
        wc_copy_async_commit();
    };
    // pieces whose addresses this lane gives: of rows and halves of a row of gradients; of rows of two blocks of the
    // input
    const int dy_piece = (lane % 8 + lane / 16 * 8) * 2 + lane / 8 % 2, x_piece = lane % 16 * 2 + lane / 16;
    float4 acc[COLUMNS / BLOCK - 1] = {};
    int buffer = 0;                             // of the item that is multiplied
#pragma unroll 1
    for (int i = 0; i < BUFFERS - 1; ++i) copy(first_item + i, i);
#pragma unroll 1
    for (index_t item = first_item; item < last_item; ++item) {
        wc_copy_async_wait_group();
        __syncthreads();                        // this item is there, and all have used the one before it
        copy(item + BUFFERS - 1, buffer == 0 ? BUFFERS - 1 : buffer - 1);
        const unsigned short* const gradients = buffers + buffer * BUFFER;
#pragma unroll 1
        for (int step = warp; step < STEPS; step += WARPS) {
            const unsigned short* const dy_in = gradients + step * STEP;
            const unsigned short* const x_in = dy_in + SPAN;
            unsigned dy_0, dy_1, dy_2, dy_3;
            wc_load_matrices_transposed_4(dy_0, dy_1, dy_2, dy_3, dy_in + place_of(dy_piece) * BLOCK);
            unsigned x_b0_top, x_b0_low, x_b1_top, x_b1_low;
            wc_load_matrices_transposed_4(x_b0_top, x_b0_low, x_b1_top, x_b1_low, x_in + place_of(x_piece) * BLOCK);
            wc_mma_halves_16(acc[0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
            wc_mma_halves_16(acc[1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
            unsigned x_b2_top, x_b2_low;
            wc_load_matrices_transposed_2(x_b2_top, x_b2_low, x_in + place_of(x_piece + 2) * BLOCK);
            wc_mma_halves_16(acc[2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
        }
        buffer = buffer + 1 < BUFFERS ? buffer + 1 : 0;
    }
    // Rows i and i + 8 of the product have their diagonals in common, eight columns apart. What is left, of each warp,
    // comes to shared memory, and a thread adds up a diagonal.
    float* const products = (float*)shared;     // [warp][column][row]
    float* const own = products + ((warp * COLUMNS + lane % 4 * 2) * SUM_PITCH + lane / 4);
    wc_copy_async_wait_group();
    __syncthreads();
#pragma unroll
    for (int b = 0; b < COLUMNS / BLOCK; ++b) {
        own[b * BLOCK * SUM_PITCH] = (b > 0 ? acc[b - 1].x : 0.0f) + (b < COLUMNS / BLOCK - 1 ? acc[b].z : 0.0f);
        own[(b * BLOCK + 1) * SUM_PITCH] = (b > 0 ? acc[b - 1].y : 0.0f) + (b < COLUMNS / BLOCK - 1 ? acc[b].w : 0.0f);
    }
    __syncthreads();
#pragma unroll 1
    for (int s = threadIdx.x; s < TAPS && first_s + s < S; s += THREADS) {
        float sum = 0.0f;
#pragma unroll 1
        for (int from = 0; from < WARPS; ++from) {
            const float* const column = products + from * (COLUMNS * SUM_PITCH) + (s + 13) * SUM_PITCH;
#pragma unroll
            for (int row = 0; row < BLOCK; ++row) sum += column[row * SUM_PITCH + row];
        }
        const index_t tap = (index_t)k * S + first_s + s;
        dw[tap] = wc_float_to_half(sum);
    }
}
