// warpconv 0.1.0: hankel_1d_nhwc, float16. Generated from templates/hankel_1d_nhwc/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,24 --filter 24,1,31 --padding 0,15 --padding-mode circular --groups 24 \
//     --dtype float16 --layout NHWC --operation filter_gradient --arch sm_90 --algorithm hankel_1d_nhwc \
//     --set chunks=1 --set taps=8 --set octets=2 --set each=4 --set steps=1
//
// layer  x[N, H, W, 24] * w[24, 1, 1, 31] -> y[N, P, Q, 24], stride 1, padding 0,15 (circular), groups 24, float16
//        NHWC; its filter gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   8 taps of 16 channels in a block, 4 warps of 4; 256 outputs of a row at a time
// cost   256 outputs of a channel, 3 matrix instructions: 3 warp loads, 0 shuffles, 0 FMA a lane, about 104 registers
//        (direct: 72 loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   34304 bytes of shared memory a block
//
// Pixels of both arrays come to shared memory in eights of channels, and become a sequence of each channel there.
// Gradients of outputs are a matrix of rows of ROW elements, the input one whose rows begin as far apart and are
// longer. The product of the transposed first with the second, summed over all rows, has in row i and column j the
// products of gradients with what stands j - i - 1 further on in the input: sums of tap s are a diagonal of it.
constexpr int CHANNELS = 24;                    // channels of a pixel, each with its filter
constexpr int ALL_OCTETS = 3;                   // eights of them
constexpr int OCTETS = 2;                       // of a block
constexpr int CHANNEL_GROUPS = 2;               // blocks for the channels
constexpr int S = 31;                           // taps
constexpr int PAD_RIGHT = 15;                   // pixels after a row that windows reach
constexpr int TAPS = 8;                         // taps of a block
constexpr int EACH = 4;                         // channels of a warp
constexpr int WARPS = 4;                        // warps of a block
constexpr int THREADS = 128;                    // threads of a block
constexpr int ROW = 16;                         // gradients of a row, and rows that an instruction takes
// columns of an instruction's product, elements of a piece of shared memory
constexpr int BLOCK = 8;
constexpr int STEP = ROW * ROW;                 // gradients of an instruction
constexpr int STEPS = 1;                        // of them one after the other in a row that a block takes at a time
constexpr int SPAN = 256;                       // outputs of these
constexpr int COLUMNS = 32;                     // columns of the product, with rows i and i + 8 together
constexpr int SUM_PITCH = BLOCK + 1;            // sums from a column to the next
constexpr int MARGIN = 16;                      // pixels before the place of the first output's window
constexpr int GROUPS = 34;                      // eights of pixels: of the input
constexpr int DY_GROUPS = 32;                   // and of gradients
constexpr int PITCH = 280;                      // elements from a sequence of the input to the next
constexpr int DY_PITCH = 264;                   // and of gradients
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: the image again.
__device__ __forceinline__ int at_border(int i, int size) {
#pragma unroll 1
    while (i < 0) i += size;
#pragma unroll 1
    while (i >= size) i -= size;
    return i;
}

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// Where a piece of 16 bytes lies: eight of them that are 2 apart are in all banks, and those of a line of memory stay
// in one.
__device__ __forceinline__ int place_of(int piece) { return piece ^ piece / 8 % 2; }

// Where an eight of a pixel's channels lies in shared memory: eight pixels' lie in all banks.
__device__ __forceinline__ int cell(int pixel, int octet) {
    return pixel * OCTETS + (octet ^ (unsigned)pixel / (8 / OCTETS) % OCTETS);
}

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// tensor cores
__device__ __forceinline__ void wc_load_matrices_transposed_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_load_matrices_transposed_2(unsigned& a, unsigned& b, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 { %0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

extern "C" __global__ void __launch_bounds__(128, 4)
hankel_1d_nhwc_1x31(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy,
        unsigned short* __restrict__ dw, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    uint4* const pixels = (uint4*)shared, *const dy_pixels = pixels + GROUPS * 8 * OCTETS;          // [pixel][octet]
    unsigned short* const sequences = (unsigned short*)(shared + 16896);           // [channel][pixel]
    unsigned short* const dy_sequences = (unsigned short*)(shared + 25856);
    const int lane = threadIdx.x % 32, pair = lane % 4, warp = threadIdx.x / 32;
    const int first_octet = (int)(blockIdx.x % CHANNEL_GROUPS) * OCTETS, chunk = blockIdx.x / CHANNEL_GROUPS;
    const int first_s = blockIdx.y * TAPS;
    // an item is SPAN outputs of a row of an image
    const int spans = (Q + SPAN - 1) / SPAN;
    const long long items = (long long)N * P * spans;
    const index_t first_item = (index_t)(items * chunk), last_item = (index_t)(items * (chunk + 1));
    auto copy = [&](index_t item) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans;
            const unsigned short* const dy_row = dy + row * Q * CHANNELS;
            const unsigned short* const x_row = x + row * W * CHANNELS;
#pragma unroll 4
            for (int i = threadIdx.x; i < SPAN * OCTETS; i += THREADS) {
                const int octet = i % OCTETS, pixel = i / OCTETS, column = q_first + pixel;
                const bool inside = (unsigned)column < (unsigned)Q && first_octet + octet < ALL_OCTETS;
                const int own = column;
                wc_copy_async_zfill_16(true, dy_pixels + cell(pixel, octet),
                    dy_row + ((index_t)own * CHANNELS + (first_octet + octet) * 8), inside);
            }
#pragma unroll 4
            for (int i = threadIdx.x; i < (GROUPS * 8) * OCTETS; i += THREADS) {
                const int octet = i % OCTETS, pixel = i / OCTETS, column = q_first + first_s - MARGIN + pixel;
                const bool inside = column < W + PAD_RIGHT && first_octet + octet < ALL_OCTETS;
                const int own = inside ? at_border(column, W) : 0;
                wc_copy_async_zfill_16(true, pixels + cell(pixel, octet),
                    x_row + ((index_t)own * CHANNELS + (first_octet + octet) * 8), inside);
            }
        }
        wc_copy_async_commit();
    };
    // pieces whose addresses this lane gives: of rows and halves of a row of gradients; of rows of two blocks of the
    // input
    const int dy_piece = (lane % 8 + lane / 16 * 8) * 2 + lane / 8 % 2, x_piece = lane % 16 * 2 + lane / 16;
    float4 acc[EACH][COLUMNS / BLOCK - 1] = {};
    copy(first_item);
#pragma unroll 1
    for (index_t item = first_item; item < last_item; ++item) {
        wc_copy_async_wait_group();
        // this item's pixels are there, and all have used the sequences before them
        __syncthreads();
#pragma unroll 1
        for (int four = warp; four < (DY_GROUPS * OCTETS + 3) / 4; four += WARPS) {
            // whose row this lane gives the address of
            const int given = min(four * 4 + lane / 8, DY_GROUPS * OCTETS - 1);
            unsigned words[4];
            wc_load_matrices_transposed_4(words[0], words[1], words[2], words[3],
                dy_pixels + cell(given / OCTETS * 8 + lane % 8, given % OCTETS));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int group = (four * 4 + i) / OCTETS, channel = (four * 4 + i) % OCTETS * 8 + lane / 4;
                if (group
                    < DY_GROUPS) *(unsigned*)(dy_sequences + channel * DY_PITCH + place_of(group) * 8 + pair * 2) =
                    words[i];
            }
        }
#pragma unroll 1
        for (int four = warp; four < (GROUPS * OCTETS + 3) / 4; four += WARPS) {
            // whose row this lane gives the address of
            const int given = min(four * 4 + lane / 8, GROUPS * OCTETS - 1);
            unsigned words[4];
            wc_load_matrices_transposed_4(words[0], words[1], words[2], words[3],
                pixels + cell(given / OCTETS * 8 + lane % 8, given % OCTETS));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int group = (four * 4 + i) / OCTETS, channel = (four * 4 + i) % OCTETS * 8 + lane / 4;
                if (group < GROUPS) *(unsigned*)(sequences + channel * PITCH + place_of(group) * 8 + pair * 2) =
                    words[i];
            }
        }
        __syncthreads();
        copy(item + 1);
#pragma unroll 1
        for (int step = 0; step < STEPS; ++step) {
            const unsigned short* const dy_in = dy_sequences + warp * EACH * DY_PITCH + step * STEP;
            const unsigned short* const x_in = sequences + warp * EACH * PITCH + step * STEP;
            {
                unsigned dy_0, dy_1, dy_2, dy_3;
                wc_load_matrices_transposed_4(dy_0, dy_1, dy_2, dy_3, dy_in + place_of(dy_piece) * BLOCK);
                unsigned x_b0_top, x_b0_low, x_b1_top, x_b1_low;
                wc_load_matrices_transposed_4(x_b0_top, x_b0_low, x_b1_top, x_b1_low, x_in + place_of(x_piece) * BLOCK);
                wc_mma_halves_16(acc[0][0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
                wc_mma_halves_16(acc[0][1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
                unsigned x_b2_top, x_b2_low;
                wc_load_matrices_transposed_2(x_b2_top, x_b2_low, x_in + place_of(x_piece + 2) * BLOCK);
                wc_mma_halves_16(acc[0][2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
            }
            {
                unsigned dy_0, dy_1, dy_2, dy_3;
                wc_load_matrices_transposed_4(dy_0, dy_1, dy_2, dy_3, dy_in + DY_PITCH + place_of(dy_piece) * BLOCK);
                unsigned x_b0_top, x_b0_low, x_b1_top, x_b1_low;
                wc_load_matrices_transposed_4(x_b0_top, x_b0_low, x_b1_top, x_b1_low,
                    x_in + PITCH + place_of(x_piece) * BLOCK);
                wc_mma_halves_16(acc[1][0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
                wc_mma_halves_16(acc[1][1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
                unsigned x_b2_top, x_b2_low;
                wc_load_matrices_transposed_2(x_b2_top, x_b2_low, x_in + PITCH + place_of(x_piece + 2) * BLOCK);
                wc_mma_halves_16(acc[1][2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
            }
            {
                unsigned dy_0, dy_1, dy_2, dy_3;
                wc_load_matrices_transposed_4(dy_0, dy_1, dy_2, dy_3,
                    dy_in + 2 * DY_PITCH + place_of(dy_piece) * BLOCK);
                unsigned x_b0_top, x_b0_low, x_b1_top, x_b1_low;
                wc_load_matrices_transposed_4(x_b0_top, x_b0_low, x_b1_top, x_b1_low,
                    x_in + 2 * PITCH + place_of(x_piece) * BLOCK);
                wc_mma_halves_16(acc[2][0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
                wc_mma_halves_16(acc[2][1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
                unsigned x_b2_top, x_b2_low;
                wc_load_matrices_transposed_2(x_b2_top, x_b2_low, x_in + 2 * PITCH + place_of(x_piece + 2) * BLOCK);
                wc_mma_halves_16(acc[2][2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
            }
            {
                unsigned dy_0, dy_1, dy_2, dy_3;
                wc_load_matrices_transposed_4(dy_0, dy_1, dy_2, dy_3,
                    dy_in + 3 * DY_PITCH + place_of(dy_piece) * BLOCK);
                unsigned x_b0_top, x_b0_low, x_b1_top, x_b1_low;
                wc_load_matrices_transposed_4(x_b0_top, x_b0_low, x_b1_top, x_b1_low,
                    x_in + 3 * PITCH + place_of(x_piece) * BLOCK);
                wc_mma_halves_16(acc[3][0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
                wc_mma_halves_16(acc[3][1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
                unsigned x_b2_top, x_b2_low;
                wc_load_matrices_transposed_2(x_b2_top, x_b2_low, x_in + 3 * PITCH + place_of(x_piece + 2) * BLOCK);
                wc_mma_halves_16(acc[3][2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
            }
        }
    }
    // Rows i and i + 8 of the product have their diagonals in common, eight columns apart. What is left of a channel
    // comes to shared memory, and a lane adds up a diagonal.
    float* const products = (float*)shared + warp * (COLUMNS * SUM_PITCH);      // [column][row]
    float* const own = products + (pair * 2 * SUM_PITCH + lane / 4);
    wc_copy_async_wait_group();
    __syncthreads();
#pragma unroll
    for (int c = 0; c < EACH; ++c) {
#pragma unroll
        for (int b = 0; b < COLUMNS / BLOCK; ++b) {
            own[b * BLOCK * SUM_PITCH] = (b > 0 ? acc[c][b - 1].x : 0.0f)
                + (b < COLUMNS / BLOCK - 1 ? acc[c][b].z : 0.0f);
            own[(b * BLOCK + 1) * SUM_PITCH] = (b > 0 ? acc[c][b - 1].y : 0.0f)
                + (b < COLUMNS / BLOCK - 1 ? acc[c][b].w : 0.0f);
        }
        __syncwarp();
        const int k = first_octet * 8 + warp * EACH + c;
#pragma unroll 1
        for (int s = lane; s < TAPS && first_s + s < S && k < CHANNELS; s += 32) {
            float sum = 0.0f;
            const float* const column = products + (s + 9) * SUM_PITCH;
#pragma unroll
            for (int row = 0; row < BLOCK; ++row) sum += column[row * SUM_PITCH + row];
            const index_t tap = (index_t)k * S + first_s + s;
            dw[tap] = wc_float_to_half(sum);
        }
        __syncwarp();
    }
}
