// warpconv 0.1.0: toeplitz_1d, bfloat16. Generated from templates/toeplitz_1d/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,W --filter 16,1,9 --padding 0,4 --padding-mode constant --padding-value 1 \
//     --groups 16 --dtype bfloat16 --epilogue bias --arch sm_90 --algorithm toeplitz_1d \
//     --set columns=32 --set warps=2 --set tiles=1 --set sequences=2 --set vector=1 --set store_vector=1 \
//     --set weights=shared --set min_blocks=4
//
// layer  x[N, 16, H, W] * w[16, 1, 1, 9] -> y[N, 16, P, Q], stride 1, padding 0,4 (constant), groups 16, bfloat16, then
//        bias
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments; all else is a
//        constant of the text
// plan   1 tiles of 16 x 32 outputs a warp, 2 warps a sequence, 2 sequences a block; filter in shared, 1 element a copy
// cost   16 rows x 32 outputs, 8 matrix instructions: 2 warp loads, 0 shuffles, 0 FMA a lane, about 74 registers
//        (direct: 144 loads)
// note   38 % of the products are the filter's, the others are with zeros
// note   4480 bytes of shared memory a block
//
// A warp makes TILE_ROWS stretches of COLUMNS neighbouring outputs at a time: their input, a matrix whose row r begins
// r * COLUMNS elements further on in the sequence, times a banded matrix of the filter, T[k][n] = w[k - n - 4]. Rows
// overlap: in shared memory the sequence lies once, and the matrices of eight rows by eight columns are read from it
// (in_b<block>_top, _low).
constexpr int K = 16;                           // filters, each with its sequence
constexpr int S = 9;                            // taps
constexpr int COLUMNS = 32;                     // outputs of a row of a tile
constexpr int TILE_ROWS = 16;                   // rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2 * COLUMNS; // outputs of a tile to the second row of a lane
constexpr int TILE = TILE_ROWS * COLUMNS;       // outputs of a tile
// columns of a block of the banded matrix, elements of a piece of shared memory
constexpr int BLOCK = 8;
constexpr int WARPS = 2;                        // warps of a sequence
constexpr int TILES = 1;                        // tiles of a warp
constexpr int SPAN = 1024;                      // outputs of a sequence in a block
constexpr int SEQUENCES = 2;                    // sequences of a block
constexpr int TEAM = 64;                        // threads of a sequence
constexpr int MARGIN = 8;                       // elements of a patch before the place of its first output
constexpr int SKIPPED = 56;                     // elements before them in a line of memory
constexpr int OFFSET = 4;                       // elements of a patch before the first tap of its first output
constexpr int ROW_BLOCKS = 4;                   // blocks of outputs of a tile's row
constexpr int PATCH = 1056;                     // elements of a sequence's patch
constexpr int VECTOR = 1;                       // elements of a copy
constexpr int CHUNKS = 1096;                    // copies of a patch
constexpr int COPY_WORDS = 16;                  // words of the padded filter
constexpr int FILTER_WORDS = 32;                // words of its two copies
constexpr int BAND_WORDS = 4;                   // words of a lane's block of the banded matrix, from one to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// Where a piece of 16 bytes lies: eight of them that are 4 apart are in all banks, and those of a line of memory stay
// in one.
__device__ __forceinline__ int place_of(int piece) { return piece ^ piece / 8 % 4; }

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_bfloat16s_8(float4& c, unsigned a0, unsigned a1, unsigned b0) { asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5}, { %6}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(b0)); }
__device__ __forceinline__ void wc_mma_bfloat16s_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

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

extern "C" __global__ void __launch_bounds__(128, 4)
toeplitz_1d_1x9(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q,
        unsigned BORDER) {
    __shared__ __align__(16) unsigned short patches[SEQUENCES * PATCH];
    __shared__ unsigned filters[SEQUENCES * FILTER_WORDS];
    const int lane = threadIdx.x % 32, pair = lane % 4, warp = threadIdx.x / 32 % WARPS;
    const int team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    unsigned short* const patch = patches + team * PATCH;
    // the row of a tile whose address this lane gives, of the first of two blocks and of the second
    const int first_piece = lane % TILE_ROWS * ROW_BLOCKS + lane / TILE_ROWS;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* const filter_words = filters + team * FILTER_WORDS + (7 - lane / 4) % 2 * COPY_WORDS
        + (2 * pair + 7 - lane / 4) / 2;
    const unsigned short* const taps = (const unsigned short*)(filters + team * FILTER_WORDS) + 11;
    const int q_first = blockIdx.x * SPAN;
    const index_t rows = (index_t)N * K * P;
    for (index_t group = blockIdx.y; group * SEQUENCES < rows; group += gridDim.y) {
        const index_t row = min(group * SEQUENCES + team, rows - 1), plane = row / P;     // a row of an output plane
        const unsigned short* const x_row = x + row * W;
        const int k = (int)(plane % K);
        __syncthreads();                                        // all have used what was there before
        for (int i = member; i < CHUNKS; i += TEAM) {
            const int at = i - SKIPPED, column = q_first - MARGIN + at;
            unsigned short* const to = patch + place_of(at / BLOCK) * BLOCK + at % BLOCK;
            const bool inside = (unsigned)column < (unsigned)W;
            if (at < 0) continue;
            if (inside) {
                *to = __ldg(x_row + column);
            } else {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) to[e] = (unsigned short)BORDER;
            }
        }
        wc_copy_async_commit();
        // the filter between zeros, once from each even and once from each odd element on
        for (int i = member; i < FILTER_WORDS; i += TEAM) {
            const int s = i % COPY_WORDS * 2 + i / COPY_WORDS - 11;
            const unsigned short* const from = w + (index_t)k * S + s;
            const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0,
                high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
            filters[team * FILTER_WORDS + i] = low | high << 16;
        }
        const float bias_k = wc_bfloat16_to_float(__ldg(bias + k));
        wc_copy_async_wait_group();
        __syncthreads();
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
            wc_mma_bfloat16s_16(acc_0, in_b0_top, in_b0_low, in_b1_top, in_b1_low, filter_words[0],
                filter_words[BAND_WORDS]);
            unsigned in_b2_top, in_b2_low, in_b3_top, in_b3_low;
            wc_load_matrices_4(in_b2_top, in_b2_low, in_b3_top, in_b3_low, in + place_of(first_piece + 2) * BLOCK);
            wc_mma_bfloat16s_8(acc_0, in_b2_top, in_b2_low, filter_words[2 * BAND_WORDS]);
            wc_mma_bfloat16s_16(acc_1, in_b1_top, in_b1_low, in_b2_top, in_b2_low, filter_words[0],
                filter_words[BAND_WORDS]);
            wc_mma_bfloat16s_8(acc_1, in_b3_top, in_b3_low, filter_words[2 * BAND_WORDS]);
            wc_mma_bfloat16s_16(acc_2, in_b2_top, in_b2_low, in_b3_top, in_b3_low, filter_words[0],
                filter_words[BAND_WORDS]);
            unsigned in_b4_top, in_b4_low, in_b5_top, in_b5_low;
            wc_load_matrices_4(in_b4_top, in_b4_low, in_b5_top, in_b5_low, in + place_of(first_piece + 4) * BLOCK);
            wc_mma_bfloat16s_8(acc_2, in_b4_top, in_b4_low, filter_words[2 * BAND_WORDS]);
            wc_mma_bfloat16s_16(acc_3, in_b3_top, in_b3_low, in_b4_top, in_b4_low, filter_words[0],
                filter_words[BAND_WORDS]);
            wc_mma_bfloat16s_8(acc_3, in_b5_top, in_b5_low, filter_words[2 * BAND_WORDS]);
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
            const int q = q_tile + lane / 4 * COLUMNS + 2 * pair;
            if (group * SEQUENCES + team < rows && q < Q) y_row[q] = wc_float_to_bfloat16(finish(acc_0.x, bias_k));
            if (group * SEQUENCES + team < rows && q + 1 < Q) y_row[q + 1] =
                wc_float_to_bfloat16(finish(acc_0.y, bias_k));
            if (group * SEQUENCES + team < rows && q + HALF_TILE < Q) y_row[q + HALF_TILE] =
                wc_float_to_bfloat16(finish(acc_0.z, bias_k));
            if (group * SEQUENCES + team < rows && q + HALF_TILE + 1 < Q) y_row[q + HALF_TILE + 1] =
                wc_float_to_bfloat16(finish(acc_0.w, bias_k));
            if (group * SEQUENCES + team < rows && q + BLOCK < Q) y_row[q + BLOCK] =
                wc_float_to_bfloat16(finish(acc_1.x, bias_k));
            if (group * SEQUENCES + team < rows && q + BLOCK + 1 < Q) y_row[q + BLOCK + 1] =
                wc_float_to_bfloat16(finish(acc_1.y, bias_k));
            if (group * SEQUENCES + team < rows && q + BLOCK + HALF_TILE < Q) y_row[q + BLOCK + HALF_TILE] =
                wc_float_to_bfloat16(finish(acc_1.z, bias_k));
            if (group * SEQUENCES + team < rows && q + BLOCK + HALF_TILE + 1 < Q) y_row[q + BLOCK + HALF_TILE + 1] =
                wc_float_to_bfloat16(finish(acc_1.w, bias_k));
            if (group * SEQUENCES + team < rows && q + 2 * BLOCK < Q) y_row[q + 2 * BLOCK] =
                wc_float_to_bfloat16(finish(acc_2.x, bias_k));
            if (group * SEQUENCES + team < rows && q + 2 * BLOCK + 1 < Q) y_row[q + 2 * BLOCK + 1] =
                wc_float_to_bfloat16(finish(acc_2.y, bias_k));
            if (group * SEQUENCES + team < rows && q + 2 * BLOCK + HALF_TILE < Q) y_row[q + 2 * BLOCK + HALF_TILE] =
                wc_float_to_bfloat16(finish(acc_2.z, bias_k));
            if (group * SEQUENCES + team < rows
                && q + 2 * BLOCK + HALF_TILE + 1 < Q) y_row[q + 2 * BLOCK + HALF_TILE + 1] =
                wc_float_to_bfloat16(finish(acc_2.w, bias_k));
            if (group * SEQUENCES + team < rows && q + 3 * BLOCK < Q) y_row[q + 3 * BLOCK] =
                wc_float_to_bfloat16(finish(acc_3.x, bias_k));
            if (group * SEQUENCES + team < rows && q + 3 * BLOCK + 1 < Q) y_row[q + 3 * BLOCK + 1] =
                wc_float_to_bfloat16(finish(acc_3.y, bias_k));
            if (group * SEQUENCES + team < rows && q + 3 * BLOCK + HALF_TILE < Q) y_row[q + 3 * BLOCK + HALF_TILE] =
                wc_float_to_bfloat16(finish(acc_3.z, bias_k));
            if (group * SEQUENCES + team < rows
                && q + 3 * BLOCK + HALF_TILE + 1 < Q) y_row[q + 3 * BLOCK + HALF_TILE + 1] =
                wc_float_to_bfloat16(finish(acc_3.w, bias_k));
        }
    }
}
