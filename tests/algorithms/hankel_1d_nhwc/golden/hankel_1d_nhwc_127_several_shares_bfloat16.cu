// warpconv 0.1.0: hankel_1d_nhwc, bfloat16. Generated from templates/hankel_1d_nhwc/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,96 --filter 96,1,127 --padding 0,0,126,0 --groups 96 --dtype bfloat16 \
//     --layout NHWC --operation filter_gradient --arch sm_90 --algorithm hankel_1d_nhwc \
//     --set chunks=4 --set taps=127 --set octets=2 --set each=2 --set steps=2
//
// layer  x[N, H, W, 96] * w[96, 1, 1, 127] -> y[N, P, Q, 96], stride 1, padding 0,0,126,0, groups 96, bfloat16 NHWC;
//        its filter gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   127 taps of 16 channels in a block, 8 warps of 2; 512 outputs of a row at a time, in 4 chunks; then the
//        chunks' sums are added
// cost   256 outputs of a channel, 18 matrix instructions: 3 warp loads, 0 shuffles, 0 FMA a lane, about 230 registers
//        (direct: 1024 loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   75008 bytes of shared memory a block
//
// Pixels of both arrays come to shared memory in eights of channels, and become a sequence of each channel there.
// Gradients of outputs are a matrix of rows of ROW elements, the input one whose rows begin as far apart and are
// longer. The product of the transposed first with the second, summed over all rows, has in row i and column j the
// products of gradients with what stands j - i - 2 further on in the input: sums of tap s are a diagonal of it.
constexpr int CHANNELS = 96;                    // channels of a pixel, each with its filter
constexpr int OCTETS = 2;                       // of a block
constexpr int CHANNEL_GROUPS = 6;               // blocks for the channels
constexpr int S = 127;                          // taps
constexpr int CHUNKS = 4;                       // shares of the sum, each made by a block of its own
constexpr int TAPS = 127;                       // taps of a block
constexpr int EACH = 2;                         // channels of a warp
constexpr int WARPS = 8;                        // warps of a block
constexpr int THREADS = 256;                    // threads of a block
constexpr int ROW = 16;                         // gradients of a row, and rows that an instruction takes
// columns of an instruction's product, elements of a piece of shared memory
constexpr int BLOCK = 8;
constexpr int STEP = ROW * ROW;                 // gradients of an instruction
constexpr int STEPS = 2;                        // of them one after the other in a row that a block takes at a time
constexpr int SPAN = 512;                       // outputs of these
constexpr int COLUMNS = 152;                    // columns of the product, with rows i and i + 8 together
constexpr int SUM_PITCH = BLOCK + 1;            // sums from a column to the next
constexpr int MARGIN = 128;                     // pixels before the place of the first output's window
constexpr int GROUPS = 81;                      // eights of pixels: of the input
constexpr int DY_GROUPS = 64;                   // and of gradients
constexpr int PITCH = 664;                      // elements from a sequence of the input to the next
constexpr int DY_PITCH = 520;                   // and of gradients
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

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
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

extern "C" __global__ void __launch_bounds__(256, 1)
hankel_1d_nhwc_1x127(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy,
        float* __restrict__ parts, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    uint4* const pixels = (uint4*)shared, *const dy_pixels = pixels + GROUPS * 8 * OCTETS;          // [pixel][octet]
    unsigned short* const sequences = (unsigned short*)(shared + 37120);           // [channel][pixel]
    unsigned short* const dy_sequences = (unsigned short*)(shared + 58368);
    const int lane = threadIdx.x % 32, pair = lane % 4, warp = threadIdx.x / 32;
    const int first_octet = (int)(blockIdx.x % CHANNEL_GROUPS) * OCTETS, chunk = blockIdx.x / CHANNEL_GROUPS;
    const int first_s = blockIdx.y * TAPS;
    // an item is SPAN outputs of a row of an image
    const int spans = (Q + SPAN - 1) / SPAN;
    const long long items = (long long)N * P * spans;
    const index_t first_item = (index_t)(items * chunk / CHUNKS), last_item = (index_t)(items * (chunk + 1) / CHUNKS);
    auto copy = [&](index_t item) __attribute__((always_inline)) {
        if (item < last_item) {
            const int q_first = (int)(item % spans) * SPAN;
            const index_t row = item / spans;
            const unsigned short* const dy_row = dy + row * Q * CHANNELS;
            const unsigned short* const x_row = x + row * W * CHANNELS;
#pragma unroll 4
            for (int i = threadIdx.x; i < SPAN * OCTETS; i += THREADS) {
                const int octet = i % OCTETS, pixel = i / OCTETS, column = q_first + pixel;
                const bool inside = (unsigned)column < (unsigned)Q;
                const int own = column;
                wc_copy_async_zfill_16(true, dy_pixels + cell(pixel, octet),
                    dy_row + ((index_t)own * CHANNELS + (first_octet + octet) * 8), inside);
            }
#pragma unroll 4
            for (int i = threadIdx.x; i < (GROUPS * 8) * OCTETS; i += THREADS) {
                const int octet = i % OCTETS, pixel = i / OCTETS, column = q_first + first_s - MARGIN + pixel;
                const bool inside = (unsigned)column < (unsigned)W;
                const int own = column;
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
                wc_mma_bfloat16s_16(acc[0][0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
                wc_mma_bfloat16s_16(acc[0][1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
                unsigned x_b2_top, x_b2_low, x_b3_top, x_b3_low;
                wc_load_matrices_transposed_4(x_b2_top, x_b2_low, x_b3_top, x_b3_low,
                    x_in + place_of(x_piece + 2) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
                wc_mma_bfloat16s_16(acc[0][3], dy_0, dy_1, dy_2, dy_3, x_b3_top, x_b3_low);
                unsigned x_b4_top, x_b4_low, x_b5_top, x_b5_low;
                wc_load_matrices_transposed_4(x_b4_top, x_b4_low, x_b5_top, x_b5_low,
                    x_in + place_of(x_piece + 4) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][4], dy_0, dy_1, dy_2, dy_3, x_b4_top, x_b4_low);
                wc_mma_bfloat16s_16(acc[0][5], dy_0, dy_1, dy_2, dy_3, x_b5_top, x_b5_low);
                unsigned x_b6_top, x_b6_low, x_b7_top, x_b7_low;
                wc_load_matrices_transposed_4(x_b6_top, x_b6_low, x_b7_top, x_b7_low,
                    x_in + place_of(x_piece + 6) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][6], dy_0, dy_1, dy_2, dy_3, x_b6_top, x_b6_low);
                wc_mma_bfloat16s_16(acc[0][7], dy_0, dy_1, dy_2, dy_3, x_b7_top, x_b7_low);
                unsigned x_b8_top, x_b8_low, x_b9_top, x_b9_low;
                wc_load_matrices_transposed_4(x_b8_top, x_b8_low, x_b9_top, x_b9_low,
                    x_in + place_of(x_piece + 8) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][8], dy_0, dy_1, dy_2, dy_3, x_b8_top, x_b8_low);
                wc_mma_bfloat16s_16(acc[0][9], dy_0, dy_1, dy_2, dy_3, x_b9_top, x_b9_low);
                unsigned x_b10_top, x_b10_low, x_b11_top, x_b11_low;
                wc_load_matrices_transposed_4(x_b10_top, x_b10_low, x_b11_top, x_b11_low,
                    x_in + place_of(x_piece + 10) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][10], dy_0, dy_1, dy_2, dy_3, x_b10_top, x_b10_low);
                wc_mma_bfloat16s_16(acc[0][11], dy_0, dy_1, dy_2, dy_3, x_b11_top, x_b11_low);
                unsigned x_b12_top, x_b12_low, x_b13_top, x_b13_low;
                wc_load_matrices_transposed_4(x_b12_top, x_b12_low, x_b13_top, x_b13_low,
                    x_in + place_of(x_piece + 12) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][12], dy_0, dy_1, dy_2, dy_3, x_b12_top, x_b12_low);
                wc_mma_bfloat16s_16(acc[0][13], dy_0, dy_1, dy_2, dy_3, x_b13_top, x_b13_low);
                unsigned x_b14_top, x_b14_low, x_b15_top, x_b15_low;
                wc_load_matrices_transposed_4(x_b14_top, x_b14_low, x_b15_top, x_b15_low,
                    x_in + place_of(x_piece + 14) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][14], dy_0, dy_1, dy_2, dy_3, x_b14_top, x_b14_low);
                wc_mma_bfloat16s_16(acc[0][15], dy_0, dy_1, dy_2, dy_3, x_b15_top, x_b15_low);
                unsigned x_b16_top, x_b16_low, x_b17_top, x_b17_low;
                wc_load_matrices_transposed_4(x_b16_top, x_b16_low, x_b17_top, x_b17_low,
                    x_in + place_of(x_piece + 16) * BLOCK);
                wc_mma_bfloat16s_16(acc[0][16], dy_0, dy_1, dy_2, dy_3, x_b16_top, x_b16_low);
                wc_mma_bfloat16s_16(acc[0][17], dy_0, dy_1, dy_2, dy_3, x_b17_top, x_b17_low);
            }
            {
                unsigned dy_0, dy_1, dy_2, dy_3;
                wc_load_matrices_transposed_4(dy_0, dy_1, dy_2, dy_3, dy_in + DY_PITCH + place_of(dy_piece) * BLOCK);
                unsigned x_b0_top, x_b0_low, x_b1_top, x_b1_low;
                wc_load_matrices_transposed_4(x_b0_top, x_b0_low, x_b1_top, x_b1_low,
                    x_in + PITCH + place_of(x_piece) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][0], dy_0, dy_1, dy_2, dy_3, x_b0_top, x_b0_low);
                wc_mma_bfloat16s_16(acc[1][1], dy_0, dy_1, dy_2, dy_3, x_b1_top, x_b1_low);
                unsigned x_b2_top, x_b2_low, x_b3_top, x_b3_low;
                wc_load_matrices_transposed_4(x_b2_top, x_b2_low, x_b3_top, x_b3_low,
                    x_in + PITCH + place_of(x_piece + 2) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][2], dy_0, dy_1, dy_2, dy_3, x_b2_top, x_b2_low);
                wc_mma_bfloat16s_16(acc[1][3], dy_0, dy_1, dy_2, dy_3, x_b3_top, x_b3_low);
                unsigned x_b4_top, x_b4_low, x_b5_top, x_b5_low;
                wc_load_matrices_transposed_4(x_b4_top, x_b4_low, x_b5_top, x_b5_low,
                    x_in + PITCH + place_of(x_piece + 4) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][4], dy_0, dy_1, dy_2, dy_3, x_b4_top, x_b4_low);
                wc_mma_bfloat16s_16(acc[1][5], dy_0, dy_1, dy_2, dy_3, x_b5_top, x_b5_low);
                unsigned x_b6_top, x_b6_low, x_b7_top, x_b7_low;
                wc_load_matrices_transposed_4(x_b6_top, x_b6_low, x_b7_top, x_b7_low,
                    x_in + PITCH + place_of(x_piece + 6) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][6], dy_0, dy_1, dy_2, dy_3, x_b6_top, x_b6_low);
                wc_mma_bfloat16s_16(acc[1][7], dy_0, dy_1, dy_2, dy_3, x_b7_top, x_b7_low);
                unsigned x_b8_top, x_b8_low, x_b9_top, x_b9_low;
                wc_load_matrices_transposed_4(x_b8_top, x_b8_low, x_b9_top, x_b9_low,
                    x_in + PITCH + place_of(x_piece + 8) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][8], dy_0, dy_1, dy_2, dy_3, x_b8_top, x_b8_low);
                wc_mma_bfloat16s_16(acc[1][9], dy_0, dy_1, dy_2, dy_3, x_b9_top, x_b9_low);
                unsigned x_b10_top, x_b10_low, x_b11_top, x_b11_low;
                wc_load_matrices_transposed_4(x_b10_top, x_b10_low, x_b11_top, x_b11_low,
                    x_in + PITCH + place_of(x_piece + 10) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][10], dy_0, dy_1, dy_2, dy_3, x_b10_top, x_b10_low);
                wc_mma_bfloat16s_16(acc[1][11], dy_0, dy_1, dy_2, dy_3, x_b11_top, x_b11_low);
                unsigned x_b12_top, x_b12_low, x_b13_top, x_b13_low;
                wc_load_matrices_transposed_4(x_b12_top, x_b12_low, x_b13_top, x_b13_low,
                    x_in + PITCH + place_of(x_piece + 12) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][12], dy_0, dy_1, dy_2, dy_3, x_b12_top, x_b12_low);
                wc_mma_bfloat16s_16(acc[1][13], dy_0, dy_1, dy_2, dy_3, x_b13_top, x_b13_low);
                unsigned x_b14_top, x_b14_low, x_b15_top, x_b15_low;
                wc_load_matrices_transposed_4(x_b14_top, x_b14_low, x_b15_top, x_b15_low,
                    x_in + PITCH + place_of(x_piece + 14) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][14], dy_0, dy_1, dy_2, dy_3, x_b14_top, x_b14_low);
                wc_mma_bfloat16s_16(acc[1][15], dy_0, dy_1, dy_2, dy_3, x_b15_top, x_b15_low);
                unsigned x_b16_top, x_b16_low, x_b17_top, x_b17_low;
                wc_load_matrices_transposed_4(x_b16_top, x_b16_low, x_b17_top, x_b17_low,
                    x_in + PITCH + place_of(x_piece + 16) * BLOCK);
                wc_mma_bfloat16s_16(acc[1][16], dy_0, dy_1, dy_2, dy_3, x_b16_top, x_b16_low);
                wc_mma_bfloat16s_16(acc[1][17], dy_0, dy_1, dy_2, dy_3, x_b17_top, x_b17_low);
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
        for (int s = lane; s < TAPS && first_s + s < S; s += 32) {
            float sum = 0.0f;
            const float* const column = products + (s + 10) * SUM_PITCH;
#pragma unroll
            for (int row = 0; row < BLOCK; ++row) sum += column[row * SUM_PITCH + row];
            const index_t tap = (index_t)k * S + first_s + s;
            parts[(long long)chunk * CHANNELS * S + tap] = sum;
        }
        __syncwarp();
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)CHANNELS * S;
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
        dw[i] = wc_float_to_bfloat16(sum);
    }
}
