// warpconv 0.1.0: toeplitz_1d, bfloat16. Generated from templates/toeplitz_1d/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,768,H,W --filter 768,1,127 --padding 0,0,126,0 --groups 768 --dtype bfloat16 \
//     --arch sm_90 --algorithm toeplitz_1d \
//     --set columns=32 --set warps=4 --set tiles=4 --set sequences=1 --set vector=8 --set store_vector=8 \
//     --set weights=registers --set min_blocks=6
//
// layer  x[N, 768, H, W] * w[768, 1, 1, 127] -> y[N, 768, P, Q], stride 1, padding 0,0,126,0, groups 768, bfloat16
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8); all else is a constant of the text
// plan   4 tiles of 16 x 32 outputs a warp, 4 warps a sequence, 1 sequences a block; filter in registers, 8 elements a
//        copy
// cost   16 rows x 32 outputs, 36 matrix instructions: 2 warp loads, 0 shuffles, 0 FMA a lane, about 83 registers
//        (direct: 2032 loads)
// note   93 % of the products are the filter's, the others are with zeros
// note   17216 bytes of shared memory a block
//
// A warp makes TILE_ROWS stretches of COLUMNS neighbouring outputs at a time: their input, a matrix whose row r begins
// r * COLUMNS elements further on in the sequence, times a banded matrix of the filter, T[k][n] = w[k - n - 2]. Rows
// overlap: in shared memory the sequence lies once, and the matrices of eight rows by eight columns are read from it
// (in_b<block>_top, _low).
constexpr int K = 768;                          // filters, each with its sequence
constexpr int S = 127;                          // taps
constexpr int COLUMNS = 32;                     // outputs of a row of a tile
constexpr int TILE_ROWS = 16;                   // rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2 * COLUMNS; // outputs of a tile to the second row of a lane
constexpr int TILE = TILE_ROWS * COLUMNS;       // outputs of a tile
// columns of a block of the banded matrix, elements of a piece of shared memory
constexpr int BLOCK = 8;
constexpr int WARPS = 4;                        // warps of a sequence
constexpr int TILES = 4;                        // tiles of a warp
constexpr int SPAN = 8192;                      // outputs of a sequence in a block
constexpr int TEAM = 128;                       // threads of a sequence
constexpr int MARGIN = 128;                     // elements of a patch before the place of its first output
constexpr int OFFSET = 2;                       // elements of a patch before the first tap of its first output
constexpr int ROW_BLOCKS = 4;                   // blocks of outputs of a tile's row
constexpr int PATCH = 8320;                     // elements of a sequence's patch
constexpr int VECTOR = 8;                       // elements of a copy
constexpr int CHUNKS = 1040;                    // copies of a patch
constexpr int COPY_WORDS = 72;                  // words of the padded filter
constexpr int FILTER_WORDS = 144;               // words of its two copies
constexpr int BAND_WORDS = 4;                   // words of a lane's block of the banded matrix, from one to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// Where a piece of 16 bytes lies: eight of them that are 4 apart are in all banks, and those of a line of memory stay
// in one.
__device__ __forceinline__ int place_of(int piece) { return piece ^ piece / 8 % 4; }

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_bfloat16s_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The four lanes of a row have two columns of four matrices each; after it lane i of them has the eight of matrix i.
__device__ __forceinline__ uint4 regroup(unsigned word_0, unsigned word_1, unsigned word_2, unsigned word_3, int lane) {
    const bool odd = lane & 1, upper = lane & 2;
    const unsigned got_0 = __shfl_xor_sync(0xffffffffu, odd ? word_0 : word_1, 1);
    const unsigned got_2 = __shfl_xor_sync(0xffffffffu, odd ? word_2 : word_3, 1);
    // columns of lanes 0, 1 or 2, 3: of matrix 0 or 1, and of matrix 2 or 3
    const unsigned first_0 = odd ? got_0 : word_0, second_0 = odd ? word_1 : got_0;
    const unsigned first_2 = odd ? got_2 : word_2, second_2 = odd ? word_3 : got_2;
    const unsigned first = __shfl_xor_sync(0xffffffffu, upper ? first_0 : first_2, 2);
    const unsigned second = __shfl_xor_sync(0xffffffffu, upper ? second_0 : second_2, 2);
    return upper ? make_uint4(first, second, first_2, second_2) : make_uint4(first_0, second_0, first, second);
}

// Replaces those of a lane's four sums that are NaN by sums over their windows, made by float32 units. `first`: where
// the first one's window begins in the sequence in shared memory.
__device__ __forceinline__ void mend(float4& sums, const unsigned short* sequence, int first,
        const unsigned short* taps) {
    float4 anew = {};
#pragma unroll 1
    for (int s = 0; s < S; ++s) {
        const float tap = wc_bfloat16_to_float(taps[s]);
        const int at_x = first + s;
        const int at_y = first + s + 1;
        const int at_z = first + s + HALF_TILE;
        const int at_w = first + s + HALF_TILE + 1;
        anew.x = fmaf(wc_bfloat16_to_float(sequence[place_of(at_x / BLOCK) * BLOCK + at_x % BLOCK]), tap, anew.x);
        anew.y = fmaf(wc_bfloat16_to_float(sequence[place_of(at_y / BLOCK) * BLOCK + at_y % BLOCK]), tap, anew.y);
        anew.z = fmaf(wc_bfloat16_to_float(sequence[place_of(at_z / BLOCK) * BLOCK + at_z % BLOCK]), tap, anew.z);
        anew.w = fmaf(wc_bfloat16_to_float(sequence[place_of(at_w / BLOCK) * BLOCK + at_w % BLOCK]), tap, anew.w);
    }
    sums =
        make_float4(sums.x == sums.x ? sums.x : anew.x, sums.y == sums.y ? sums.y : anew.y,
        sums.z == sums.z ? sums.z : anew.z, sums.w == sums.w ? sums.w : anew.w);
}

extern "C" __global__ void __launch_bounds__(128, 6)
toeplitz_1d_1x127(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short patches[PATCH];
    __shared__ unsigned filters[FILTER_WORDS];
    const int lane = threadIdx.x % 32, pair = lane % 4, warp = threadIdx.x / 32 % WARPS;
    const int team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    unsigned short* const patch = patches + team * PATCH;
    // the row of a tile whose address this lane gives, of the first of two blocks and of the second
    const int first_piece = lane % TILE_ROWS * ROW_BLOCKS + lane / TILE_ROWS;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* const filter_words = filters + team * FILTER_WORDS + (7 - lane / 4) % 2 * COPY_WORDS
        + (2 * pair + 7 - lane / 4) / 2;
    const unsigned short* const taps = (const unsigned short*)(filters + team * FILTER_WORDS) + 9;
    const int q_first = blockIdx.x * SPAN;
    const index_t rows = (index_t)N * K * P;
    for (index_t group = blockIdx.y; group < rows; group += gridDim.y) {
        const index_t row = group, plane = row / P;     // a row of an output plane
        const unsigned short* const x_row = x + row * W;
        const int k = (int)(plane % K);
        __syncthreads();                                        // all have used what was there before
        for (int i = member; i < CHUNKS; i += TEAM) {
            const int at = i * VECTOR, column = q_first - MARGIN + at;
            unsigned short* const to = patch + place_of(at / BLOCK) * BLOCK;
            const bool inside = (unsigned)column < (unsigned)W;
            wc_copy_async_zfill_16(true, to, x_row + column, inside);
        }
        wc_copy_async_commit();
        // the filter between zeros, once from each even and once from each odd element on
        for (int i = member; i < FILTER_WORDS; i += TEAM) {
            const int s = i % COPY_WORDS * 2 + i / COPY_WORDS - 9;
            const unsigned short* const from = w + (index_t)k * S + s;
            const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0,
                high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
            filters[team * FILTER_WORDS + i] = low | high << 16;
        }
        wc_copy_async_wait_group();
        __syncthreads();
        // this lane's words of the banded matrix
        const unsigned filter_b0 = filter_words[0], filter_b1 = filter_words[BAND_WORDS],
            filter_b2 = filter_words[2 * BAND_WORDS], filter_b3 = filter_words[3 * BAND_WORDS];
        const unsigned filter_b4 = filter_words[4 * BAND_WORDS], filter_b5 = filter_words[5 * BAND_WORDS],
            filter_b6 = filter_words[6 * BAND_WORDS], filter_b7 = filter_words[7 * BAND_WORDS];
        const unsigned filter_b8 = filter_words[8 * BAND_WORDS], filter_b9 = filter_words[9 * BAND_WORDS],
            filter_b10 = filter_words[10 * BAND_WORDS], filter_b11 = filter_words[11 * BAND_WORDS];
        const unsigned filter_b12 = filter_words[12 * BAND_WORDS], filter_b13 = filter_words[13 * BAND_WORDS],
            filter_b14 = filter_words[14 * BAND_WORDS], filter_b15 = filter_words[15 * BAND_WORDS];
        const unsigned filter_b16 = filter_words[16 * BAND_WORDS];
        unsigned short* const y_row = y + row * Q;
#pragma unroll 1
        for (int turn = 0; turn < TILES; ++turn) {
            const int tile = turn * WARPS + warp, q_tile = q_first + tile * TILE;
            if (q_tile >= Q) break;
            const unsigned short* const in = patch + tile * (TILE_ROWS * ROW_BLOCKS * BLOCK);
            float4 acc_0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f),
                acc_2 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), acc_3 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            unsigned in_b0_top, in_b0_low, in_b1_top, in_b1_low;
            wc_load_matrices_4(in_b0_top, in_b0_low, in_b1_top, in_b1_low, in + place_of(first_piece) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b0_top, in_b0_low, in_b1_top, in_b1_low, filter_b0, filter_b1);
            unsigned in_b2_top, in_b2_low, in_b3_top, in_b3_low;
            wc_load_matrices_4(in_b2_top, in_b2_low, in_b3_top, in_b3_low, in + place_of(first_piece + 2) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b2_top, in_b2_low, in_b3_top, in_b3_low, filter_b2, filter_b3);
            wc_mma_bfloat16s_16(acc_1, in_b1_top, in_b1_low, in_b2_top, in_b2_low, filter_b0, filter_b1);
            wc_mma_bfloat16s_16(acc_2, in_b2_top, in_b2_low, in_b3_top, in_b3_low, filter_b0, filter_b1);
            unsigned in_b4_top, in_b4_low, in_b5_top, in_b5_low;
            wc_load_matrices_4(in_b4_top, in_b4_low, in_b5_top, in_b5_low, in + place_of(first_piece + 4) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b4_top, in_b4_low, in_b5_top, in_b5_low, filter_b4, filter_b5);
            wc_mma_bfloat16s_16(acc_1, in_b3_top, in_b3_low, in_b4_top, in_b4_low, filter_b2, filter_b3);
            wc_mma_bfloat16s_16(acc_2, in_b4_top, in_b4_low, in_b5_top, in_b5_low, filter_b2, filter_b3);
            wc_mma_bfloat16s_16(acc_3, in_b3_top, in_b3_low, in_b4_top, in_b4_low, filter_b0, filter_b1);
            unsigned in_b6_top, in_b6_low, in_b7_top, in_b7_low;
            wc_load_matrices_4(in_b6_top, in_b6_low, in_b7_top, in_b7_low, in + place_of(first_piece + 6) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b6_top, in_b6_low, in_b7_top, in_b7_low, filter_b6, filter_b7);
            wc_mma_bfloat16s_16(acc_1, in_b5_top, in_b5_low, in_b6_top, in_b6_low, filter_b4, filter_b5);
            wc_mma_bfloat16s_16(acc_2, in_b6_top, in_b6_low, in_b7_top, in_b7_low, filter_b4, filter_b5);
            wc_mma_bfloat16s_16(acc_3, in_b5_top, in_b5_low, in_b6_top, in_b6_low, filter_b2, filter_b3);
            unsigned in_b8_top, in_b8_low, in_b9_top, in_b9_low;
            wc_load_matrices_4(in_b8_top, in_b8_low, in_b9_top, in_b9_low, in + place_of(first_piece + 8) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b8_top, in_b8_low, in_b9_top, in_b9_low, filter_b8, filter_b9);
            wc_mma_bfloat16s_16(acc_1, in_b7_top, in_b7_low, in_b8_top, in_b8_low, filter_b6, filter_b7);
            wc_mma_bfloat16s_16(acc_2, in_b8_top, in_b8_low, in_b9_top, in_b9_low, filter_b6, filter_b7);
            wc_mma_bfloat16s_16(acc_3, in_b7_top, in_b7_low, in_b8_top, in_b8_low, filter_b4, filter_b5);
            unsigned in_b10_top, in_b10_low, in_b11_top, in_b11_low;
            wc_load_matrices_4(in_b10_top, in_b10_low, in_b11_top, in_b11_low, in + place_of(first_piece + 10) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b10_top, in_b10_low, in_b11_top, in_b11_low, filter_b10, filter_b11);
            wc_mma_bfloat16s_16(acc_1, in_b9_top, in_b9_low, in_b10_top, in_b10_low, filter_b8, filter_b9);
            wc_mma_bfloat16s_16(acc_2, in_b10_top, in_b10_low, in_b11_top, in_b11_low, filter_b8, filter_b9);
            wc_mma_bfloat16s_16(acc_3, in_b9_top, in_b9_low, in_b10_top, in_b10_low, filter_b6, filter_b7);
            unsigned in_b12_top, in_b12_low, in_b13_top, in_b13_low;
            wc_load_matrices_4(in_b12_top, in_b12_low, in_b13_top, in_b13_low, in + place_of(first_piece + 12) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b12_top, in_b12_low, in_b13_top, in_b13_low, filter_b12, filter_b13);
            wc_mma_bfloat16s_16(acc_1, in_b11_top, in_b11_low, in_b12_top, in_b12_low, filter_b10, filter_b11);
            wc_mma_bfloat16s_16(acc_2, in_b12_top, in_b12_low, in_b13_top, in_b13_low, filter_b10, filter_b11);
            wc_mma_bfloat16s_16(acc_3, in_b11_top, in_b11_low, in_b12_top, in_b12_low, filter_b8, filter_b9);
            unsigned in_b14_top, in_b14_low, in_b15_top, in_b15_low;
            wc_load_matrices_4(in_b14_top, in_b14_low, in_b15_top, in_b15_low, in + place_of(first_piece + 14) * BLOCK);
            wc_mma_bfloat16s_16(acc_0, in_b14_top, in_b14_low, in_b15_top, in_b15_low, filter_b14, filter_b15);
            wc_mma_bfloat16s_16(acc_1, in_b13_top, in_b13_low, in_b14_top, in_b14_low, filter_b12, filter_b13);
            wc_mma_bfloat16s_16(acc_2, in_b14_top, in_b14_low, in_b15_top, in_b15_low, filter_b12, filter_b13);
            wc_mma_bfloat16s_16(acc_3, in_b13_top, in_b13_low, in_b14_top, in_b14_low, filter_b10, filter_b11);
            unsigned in_b16_top, in_b16_low, in_b17_top, in_b17_low;
            wc_load_matrices_4(in_b16_top, in_b16_low, in_b17_top, in_b17_low, in + place_of(first_piece + 16) * BLOCK);
            wc_mma_bfloat16s_8(acc_0, in_b16_top, in_b16_low, filter_b16);
            wc_mma_bfloat16s_16(acc_1, in_b15_top, in_b15_low, in_b16_top, in_b16_low, filter_b14, filter_b15);
            wc_mma_bfloat16s_8(acc_1, in_b17_top, in_b17_low, filter_b16);
            wc_mma_bfloat16s_16(acc_2, in_b16_top, in_b16_low, in_b17_top, in_b17_low, filter_b14, filter_b15);
            wc_mma_bfloat16s_16(acc_3, in_b15_top, in_b15_low, in_b16_top, in_b16_low, filter_b12, filter_b13);
            unsigned in_b18_top, in_b18_low, in_b19_top, in_b19_low;
            wc_load_matrices_4(in_b18_top, in_b18_low, in_b19_top, in_b19_low, in + place_of(first_piece + 18) * BLOCK);
            wc_mma_bfloat16s_8(acc_2, in_b18_top, in_b18_low, filter_b16);
            wc_mma_bfloat16s_16(acc_3, in_b17_top, in_b17_low, in_b18_top, in_b18_low, filter_b14, filter_b15);
            wc_mma_bfloat16s_8(acc_3, in_b19_top, in_b19_low, filter_b16);
            // A zero beside the band times an infinity is NaN: such sums are made anew. One of all shows whether there
            // are any.
            const float any = ((acc_0.x + acc_0.y) + (acc_0.z + acc_0.w)) + ((acc_1.x + acc_1.y) + (acc_1.z + acc_1.w))
                + ((acc_2.x + acc_2.y) + (acc_2.z + acc_2.w)) + ((acc_3.x + acc_3.y) + (acc_3.z + acc_3.w));
            if (any != any) {
                const int first = tile * TILE + lane / 4 * COLUMNS + 2 * pair + OFFSET;
                mend(acc_0, patch, first, taps);
                mend(acc_1, patch, first + BLOCK, taps);
                mend(acc_2, patch, first + 2 * BLOCK, taps);
                mend(acc_3, patch, first + 3 * BLOCK, taps);
            }
            const int q = q_tile + lane * BLOCK;
            const uint4 top =
                regroup(wc_floats_to_bfloat16s(acc_0.x, acc_0.y), wc_floats_to_bfloat16s(acc_1.x, acc_1.y),
                wc_floats_to_bfloat16s(acc_2.x, acc_2.y), wc_floats_to_bfloat16s(acc_3.x, acc_3.y), pair);
            const uint4 low =
                regroup(wc_floats_to_bfloat16s(acc_0.z, acc_0.w), wc_floats_to_bfloat16s(acc_1.z, acc_1.w),
                wc_floats_to_bfloat16s(acc_2.z, acc_2.w), wc_floats_to_bfloat16s(acc_3.z, acc_3.w), pair);
            if (q < Q) *(uint4*)(y_row + q) = top;
            if (q + HALF_TILE < Q) *(uint4*)(y_row + q + HALF_TILE) = low;
        }
    }
}
