// warpconv 0.1.0: toeplitz_1d, float16. Generated from templates/toeplitz_1d/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,768,H,W --filter 768,1,4 --padding 0,0,3,0 --groups 768 --dtype float16 \
//     --epilogue bias,silu --arch sm_90 --algorithm toeplitz_1d \
//     --set columns=8 --set warps=4 --set tiles=4 --set sequences=1 --set vector=8 --set store_vector=2 \
//     --set weights=registers --set min_blocks=8
//
// layer  x[N, 768, H, W] * w[768, 1, 1, 4] -> y[N, 768, P, Q], stride 1, padding 0,0,3,0, groups 768, float16, then
//        bias, silu
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 2); all else is a constant of the text
// plan   4 tiles of 16 x 8 outputs a warp, 4 warps a sequence, 1 sequences a block; filter in registers, 8 elements a
//        copy
// cost   16 rows x 8 outputs, 1 matrix instructions: 1 warp loads, 0 shuffles, 0 FMA a lane, about 50 registers
//        (direct: 16 loads)
// note   25 % of the products are the filter's, the others are with zeros
// note   4208 bytes of shared memory a block
//
// A warp makes TILE_ROWS stretches of COLUMNS neighbouring outputs at a time: their input, a matrix whose row r begins
// r * COLUMNS elements further on in the sequence, times a banded matrix of the filter, T[k][n] = w[k - n - 5]. Rows
// overlap: in shared memory the sequence lies once, and the matrices of eight rows by eight columns are read from it
// (in_b<block>_top, _low).
constexpr int K = 768;                          // filters, each with its sequence
constexpr int S = 4;                            // taps
constexpr int COLUMNS = 8;                      // outputs of a row of a tile
constexpr int TILE_ROWS = 16;                   // rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2 * COLUMNS; // outputs of a tile to the second row of a lane
constexpr int TILE = TILE_ROWS * COLUMNS;       // outputs of a tile
// columns of a block of the banded matrix, elements of a piece of shared memory
constexpr int BLOCK = 8;
constexpr int WARPS = 4;                        // warps of a sequence
constexpr int TILES = 4;                        // tiles of a warp
constexpr int SPAN = 2048;                      // outputs of a sequence in a block
constexpr int TEAM = 128;                       // threads of a sequence
constexpr int MARGIN = 8;                       // elements of a patch before the place of its first output
constexpr int SKIPPED = 56;                     // elements before them in a line of memory
constexpr int OFFSET = 5;                       // elements of a patch before the first tap of its first output
constexpr int PATCH = 2056;                     // elements of a sequence's patch
constexpr int VECTOR = 8;                       // elements of a copy
constexpr int CHUNKS = 264;                     // copies of a patch
constexpr int COPY_WORDS = 12;                  // words of the padded filter
constexpr int FILTER_WORDS = 24;                // words of its two copies
constexpr int BAND_WORDS = 4;                   // words of a lane's block of the banded matrix, from one to the next
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// what the steps below call
__device__ __forceinline__ float wc_exp2(float value) { float power; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value)); return power; }
__device__ __forceinline__ float wc_reciprocal(float value) { float inverse; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value)); return inverse; }
// log2(e)
__device__ __forceinline__ float sigmoid(float a) { return wc_reciprocal(1.0f + wc_exp2(-1.442695f * a)); }

// What happens to an output value before it is stored: bias, then silu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value * sigmoid(value);    // silu
    return value;
}

// copies from global to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// Replaces those of a lane's four sums that are NaN by sums over their windows, made by float32 units. `first`: where
// the first one's window begins in the sequence in shared memory.
__device__ __forceinline__ void mend(float4& sums, const unsigned short* sequence, int first,
        const unsigned short* taps) {
    float4 anew = {};
#pragma unroll 1
    for (int s = 0; s < S; ++s) {
        const float tap = wc_half_to_float(taps[s]);
        const int at_x = first + s;
        const int at_y = first + s + 1;
        const int at_z = first + s + HALF_TILE;
        const int at_w = first + s + HALF_TILE + 1;
        anew.x = fmaf(wc_half_to_float(sequence[at_x]), tap, anew.x);
        anew.y = fmaf(wc_half_to_float(sequence[at_y]), tap, anew.y);
        anew.z = fmaf(wc_half_to_float(sequence[at_z]), tap, anew.z);
        anew.w = fmaf(wc_half_to_float(sequence[at_w]), tap, anew.w);
    }
    sums =
        make_float4(sums.x == sums.x ? sums.x : anew.x, sums.y == sums.y ? sums.y : anew.y,
        sums.z == sums.z ? sums.z : anew.z, sums.w == sums.w ? sums.w : anew.w);
}

extern "C" __global__ void __launch_bounds__(128, 8)
toeplitz_1d_1x4(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short patches[PATCH];
    __shared__ unsigned filters[FILTER_WORDS];
    const int lane = threadIdx.x % 32, pair = lane % 4, warp = threadIdx.x / 32 % WARPS;
    const int team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    unsigned short* const patch = patches + team * PATCH;
    // the row of a tile whose address this lane gives, of the first of two blocks and of the second
    const unsigned short* const in_lane = patch + (lane % TILE_ROWS + lane / TILE_ROWS) * BLOCK;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* const filter_words = filters + team * FILTER_WORDS + (7 - lane / 4) % 2 * COPY_WORDS
        + (2 * pair + 7 - lane / 4) / 2;
    const unsigned short* const taps = (const unsigned short*)(filters + team * FILTER_WORDS) + 12;
    const int q_first = blockIdx.x * SPAN;
    const index_t rows = (index_t)N * K * P;
    for (index_t group = blockIdx.y; group < rows; group += gridDim.y) {
        const index_t row = group, plane = row / P;     // a row of an output plane
        const unsigned short* const x_row = x + row * W;
        const int k = (int)(plane % K);
        __syncthreads();                                        // all have used what was there before
        for (int i = member; i < CHUNKS; i += TEAM) {
            const int at = i * VECTOR - SKIPPED, column = q_first - MARGIN + at;
            unsigned short* const to = patch + at;
            const bool inside = (unsigned)column < (unsigned)W;
            if (at < 0) continue;
            wc_copy_async_zfill_16(true, to, x_row + column, inside);
        }
        wc_copy_async_commit();
        // the filter between zeros, once from each even and once from each odd element on
        for (int i = member; i < FILTER_WORDS; i += TEAM) {
            const int s = i % COPY_WORDS * 2 + i / COPY_WORDS - 12;
            const unsigned short* const from = w + (index_t)k * S + s;
            const unsigned low = (unsigned)s < (unsigned)S ? __ldg(from) : 0,
                high = (unsigned)(s + 1) < (unsigned)S ? __ldg(from + 1) : 0;
            filters[team * FILTER_WORDS + i] = low | high << 16;
        }
        const float bias_k = wc_half_to_float(__ldg(bias + k));
        wc_copy_async_wait_group();
        __syncthreads();
        // this lane's words of the banded matrix
        const unsigned filter_b0 = filter_words[0], filter_b1 = filter_words[BAND_WORDS];
        unsigned short* const y_row = y + row * Q;
#pragma unroll 1
        for (int turn = 0; turn < TILES; ++turn) {
            const int tile = turn * WARPS + warp, q_tile = q_first + tile * TILE;
            if (q_tile >= Q) break;
            const unsigned short* const in = in_lane + tile * (TILE_ROWS * BLOCK);
            float4 acc_0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            unsigned in_b0_top, in_b0_low, in_b1_top, in_b1_low;
            wc_load_matrices_4(in_b0_top, in_b0_low, in_b1_top, in_b1_low, in);
            wc_mma_halves_16(acc_0, in_b0_top, in_b0_low, in_b1_top, in_b1_low, filter_b0, filter_b1);
            // A zero beside the band times an infinity is NaN: such sums are made anew. One of all shows whether there
            // are any.
            const float any = ((acc_0.x + acc_0.y) + (acc_0.z + acc_0.w));
            if (any != any) {
                const int first = tile * TILE + lane / 4 * COLUMNS + 2 * pair + OFFSET;
                mend(acc_0, patch, first, taps);
            }
            const int q = q_tile + 2 * lane;
            if (q < Q) *(unsigned*)(y_row + q) = wc_floats_to_halves(finish(acc_0.x, bias_k), finish(acc_0.y, bias_k));
            if (q + HALF_TILE < Q) *(unsigned*)(y_row + q + HALF_TILE) =
                wc_floats_to_halves(finish(acc_0.z, bias_k), finish(acc_0.w, bias_k));
        }
    }
}
