// warpconv 0.1.0: taps_wgmma, float16. Generated from templates/taps_wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,2,H,W --filter 8,7,7 --padding 3 --padding-mode reflect --dtype float16 --arch sm_90a \
//     --algorithm taps_wgmma \
//     --set tile_p=8 --set tile_q=32 --set filters=8 --set groups=2 --set buffers=3 --set order=free \
//     --set vector=1 --set store_vector=2 --set stores=direct --set stage=128
//
// layer  x[N, 2, H, W] * w[8, 2, 7, 7] -> y[N, 8, P, Q], stride 1, padding 3 (reflect), float16
//        N, H, W (and so P, Q) are arguments (Q a multiple of 2); all else is a constant of the text
// plan   tiles of 8 x 32 outputs x 8 filters, 7 instructions for 98 products, by 2 warp groups and 4 copying warps, two
//        versions of the filter stay, 15096 bytes of shared memory
// cost   a warp's 16 outputs of 8 filters: 28 warp loads, 0 shuffles, 448 FMA a lane, about 224 registers (direct: 392
//        loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters. Of a block 4 warps copy the
// lines of x that its outputs' windows cover to shared memory as they lie there, the next tile's while groups of four
// warps multiply this one's. A thread of these loads pairs of what lies side by side in its two windows from there to
// registers. The filter, in the order of these pairs, stays in shared memory.
constexpr int C = 2;                            // channels of x
constexpr int K = 8;                            // channels of y: filters
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int PAD_TOP = 3;                      // rows above the image
constexpr int PAD_LEFT = 3;                     // columns to the left of the image
constexpr int TILE_P = 8;                       // output rows of a block's tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int TILE_FILTERS = 8;                 // filters of it
constexpr int BLOCKS = 1;                       // times eight filters of a tile
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int MEMBERS = 2;                      // of these groups that share out a tile
// of a tile that they share out: eight runs of eight outputs each, of even columns and of odd ones
constexpr int ITEMS = 2;
constexpr int APART = 2;                        // columns from one output of a run to the next
constexpr int OTHER = 16;                       // columns from a lane's output of a run to that of the next run,
constexpr int BESIDE = 32;                      // and bytes from that window to this one's in shared memory
constexpr int SUMS = 4;                         // sums of a thread
constexpr int WINDOW = 98;                      // products of an output
constexpr int SPAN = 7;                         // of a window's elements that lie side by side in x,
constexpr int SPANS = 14;                       // and such spans of a window
constexpr int DEPTHS = 7;                       // instructions of 16 products: all pairs
constexpr int STEP_DEPTHS = 4;                  // of these a step, a row of a filter in shared memory
constexpr int STEP = 64;                        // products of a step
constexpr int STEPS = 2;                        // of the reduction
constexpr int SETS = 2;                         // steps whose factors a thread has at a time
constexpr int SPAN_QUADS = 14;                  // quads of all spans,
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter,
constexpr int STEP_CELLS = 64;                  // and a step's of all of them
constexpr int VERSIONS = 2;                     // of the filter: for windows that begin at either side of a pair
constexpr int VERSION_BYTES = 2048;             // of shared memory: one
constexpr int FILTER_BYTES = 4096;              // of all of a tile's
constexpr int HALO_ROWS = 14;                   // input rows that a tile's windows cover
constexpr int LINES = 28;                       // lines of x that are copied for a tile: those of all channels
constexpr int LINE = 56;                        // elements from one to the next in shared memory, at least
constexpr int PIECES = 6;                       // pieces of a line: of 16 bytes,
constexpr int PIECE_LANES = 8;                  // threads that have one,
constexpr int PIECE_ROUNDS = 1;                 // so often
// elements from a channel's lines to the next's in shared memory, at least
constexpr int PLANE = 904;
constexpr int HALO = 1824;                      // elements of a tile's pixels there
constexpr int BUFFERS = 3;                      // tiles' pixels at a time
constexpr int LAG = 1;                          // tiles whose copies are on their way while the next one's begin
constexpr int HALOS_AT = 4096;                  // bytes before the pixels,
constexpr int BARRIERS_AT = 15040;              // and before the barriers
constexpr int COPIERS = 4;                      // warps that copy pixels
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
constexpr int IMAGE = 6144;                     // elements of the prepared filter; behind them it is as it was given
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// barriers in shared memory, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_bulk_load(void* to, const void* from, int bytes, unsigned long long* barrier) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 224;"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves_words(float (&sums)[4], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %9, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 { %0, %1, %2, %3}, { %4, %5, %6, %7}, %8, adds, 1, 1, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[4]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) : : "memory"); }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// Lines of x begin anywhere. In shared memory each is as far into 16 bytes as it is in x, so that it is copied by 16
// bytes.
struct Pitch { int line, plane; };     // elements from a line to the next, from a channel's lines to the next's

__device__ __forceinline__ Pitch pitch_of(int H, int W) { return {LINE + (W & 7), PLANE + ((H & 7) * (W & 7) & 7)}; }

// How far into 16 bytes the first element is that a tile's windows cover.
__device__ __forceinline__ int start_of(const Tile& tile, int H, int W) {
    const index_t row = tile.image * C * H + tile.p - PAD_TOP;
    return (int)((row * W + tile.q - PAD_LEFT) & 7);
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Eight elements of a line, some of which stand outside of the image.
__device__ __forceinline__ void copy_edge(element* to, const element* line, int first, int W) {
    element elements[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int at = first + i;
        // a pixel by its column, which may be left of the first one
        const int column = (at + (PAD_LEFT + 8)) - (PAD_LEFT + 8);
        elements[i] = __ldg(line + at_border(column, W) + (at - column));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = elements[i];
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int thread, int H, int W,
        Pitch pitch) {
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
    const int start = start_of(tile, H, W);
#pragma unroll 1
    for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
        const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
        const int h = at_border(top + row, H);
        const element* const from = x + ((tile.image * C + channel) * H + h) * W;
        const int at = start + row * pitch.line + channel * pitch.plane;        // where `left` lies in shared memory
        element* const line_to = to + (at & ~7);
#pragma unroll
        for (int round = 0; round < PIECE_ROUNDS; ++round) {
            const int piece = round * PIECE_LANES + thread % PIECE_LANES;
            const int first = left - (at & 7) + piece * 8;
            element* const piece_to = line_to + piece * 8;
            if (piece >= PIECES) continue;
            // a row in another's place may be further into 16 bytes than that one
            if (h == top + row && first >= 0 && first + 8 <= W) wc_copy_async_16(piece_to, from + first);
            else copy_edge(piece_to, from, first, W);
        }
    }
}

// All tiles of the block. Copies of a tile are on their way while those of the next begin.
__device__ __forceinline__ void copy_tiles(element* halos, unsigned long long* filled, unsigned long long* freed,
        const element* x, count_t tiles, unsigned tiles_p, unsigned tiles_q, int H, int W, Pitch pitch) {
    const count_t of_block = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x;
    int buffer = 0, buffer_there = 0;
    unsigned parity = 1;
    for (count_t i = 0; i < of_block + LAG; ++i) {
        if (i < of_block) {
            wc_barrier_wait(freed + buffer, parity);
            copy_pixels(halos + buffer * HALO, x, tile_of(blockIdx.x + i * gridDim.x, tiles_p, tiles_q), threadIdx.x, H,
                W, pitch);
            if (++buffer == BUFFERS) {
                buffer = 0;
                parity ^= 1;
            }
        }
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        if (i < LAG) continue;
        __syncwarp();
        if (threadIdx.x % 32 == 0) wc_barrier_arrive(filled + buffer_there);
        if (++buffer_there == BUFFERS) buffer_there = 0;
    }
}

// The span and the pair in it that a lane has of a quad: four pairs side by side, or four of what is left of spans.
// Behind the last pair there are none: SPANS.
struct Pair { int span, number; };

__device__ __forceinline__ Pair pair_of(int quad, int lane) {
    if (quad < SPAN_QUADS) return {quad, lane % 4};
    return {SPANS, 0};
}

// Elements from where a window begins to where one of its spans does.
__device__ __forceinline__ int span_at(int span, Pitch pitch) { return span / R * pitch.plane + span % R * pitch.line; }

// The output of a tile that a lane has of a run, of even columns or of odd ones: runs are counted over all rows.
struct Output { int row, column; };

__device__ __forceinline__ Output output_of(int run, int lane, int side, bool odd_lines) {
    const int place = run * (8 * APART) + lane / 4 * APART, row = place / TILE_Q;
    // where lines have an odd number of elements, sides change places from row to row, so that all windows begin at one
    // side of a pair
    return {row, place % TILE_Q + (side ^ (odd_lines & row))};
}

// Where the window of an output of a tile begins in shared memory, for this lane, in bytes, also inside of a word.
__device__ __forceinline__ int window_at(Output output, int lane, int start, Pitch pitch) {
    return (start + output.row * pitch.line + output.column) * 2 + lane % 4 * 4;
}

// A lane's factors of a step: pairs of two windows, as the tensor cores take them.
__device__ __forceinline__ void load_factors(unsigned (&factors)[STEP_DEPTHS][4], const unsigned char* halo, int upper,
        int step, Pitch pitch) {
#pragma unroll
    for (int i = 0; i < 2 * STEP_DEPTHS; ++i) {
        const int quad = step * (2 * STEP_DEPTHS) + i;
        unsigned of_upper = 0u, of_lower = 0u;          // behind the last quad
        if (quad < SPAN_QUADS) {
            const int span = span_at(quad, pitch) * 2;
            of_upper = *(const unsigned*)(halo + ((upper + span) & ~3));
            of_lower = *(const unsigned*)(halo + ((upper + span) & ~3) + BESIDE);
        }
        factors[i / 2][i % 2 * 2] = of_upper;
        factors[i / 2][i % 2 * 2 + 1] = of_lower;
    }
}

// The sums of 64 outputs and all filters of the tile by a group of four warps. While a step is multiplied the factors
// of the next ones are loaded.
__device__ __forceinline__ void sum_up(float (&sums)[SUMS], const unsigned char* halo, int upper,
        const unsigned char* filters, Pitch pitch) {
    const unsigned long long filters_at = wc_descriptor_rows_128(filters);
    unsigned factors[SETS][STEP_DEPTHS][4];
#pragma unroll
    for (int step = 0; step < SETS - 1; ++step) load_factors(factors[step], halo, upper, step, pitch);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < STEP_DEPTHS; ++depth)
            if (step * STEP_DEPTHS + depth < DEPTHS) wc_wgmma_halves_words(sums, factors[step % SETS][depth],
                filters_at + step * STEP_CELLS + depth * DEPTH_CELLS, step + depth > 0);
        wc_wgmma_commit();
        if (step + SETS - 1 >= STEPS) continue;
        load_factors(factors[(step + SETS - 1) % SETS], halo, upper, step + SETS - 1, pitch);
    }
    wc_wgmma_wait_sums(sums);
}

// The first of a lane's two filters of a block of eight columns of the product: those of a block lie side by side.
__device__ __forceinline__ int filter_of(int block, int lane) { return block * 8 + lane % 4 * 2; }

__device__ __forceinline__ float4 four_of(const float (&sums)[SUMS], int block) {
    return make_float4(sums[4 * block], sums[4 * block + 1], sums[4 * block + 2], sums[4 * block + 3]);
}

__device__ __forceinline__ void put_four(float (&sums)[SUMS], int block, float4 four) {
    sums[4 * block] = four.x, sums[4 * block + 1] = four.y, sums[4 * block + 2] = four.z, sums[4 * block + 3] = four.w;
}

__device__ __forceinline__ bool is_finite(float sum) { return fabsf(sum) <= 3.402823466e38f; }

// Zero, or NaN where one of four sums is not finite.
__device__ __forceinline__ float zero_of(float4 sums) {
    return fmaf(sums.x, 0.0f, sums.y * 0.0f) + fmaf(sums.z, 0.0f, sums.w * 0.0f);
}

// The blocks of a warp's sums in which some are not finite, a bit each.
__device__ __forceinline__ unsigned blocks_to_mend(const float (&sums)[SUMS]) {
    float zero = 0.0f, other = 0.0f;            // NaN stays NaN
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        const float4 four = four_of(sums, block);
        zero = fmaf(four.x, 0.0f, fmaf(four.y, 0.0f, zero));
        other = fmaf(four.z, 0.0f, fmaf(four.w, 0.0f, other));
    }
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, zero + other == 0.0f)) return blocks;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        blocks |= (unsigned)__any_sync(0xffffffffu, zero_of(four_of(sums, block)) != 0.0f) << block;
    return blocks;
}

// A lane's sums of a block. Registers have no index: every block is asked whether it is wanted.
__device__ __forceinline__ float4 sums_of(const float (&sums)[SUMS], int wanted) {
    float4 found = {};
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        if (block == wanted) found = four_of(sums, block);
    return found;
}

__device__ __forceinline__ void set_sums(float (&sums)[SUMS], int wanted, float4 to) {
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        if (block == wanted) put_four(sums, block, to);
}

// Sums that are finite, and in place of the others those that were made anew.
__device__ __forceinline__ float4 mended(float4 sums, float4 anew) {
    return make_float4(is_finite(sums.x) ? sums.x : anew.x, is_finite(sums.y) ? sums.y : anew.y,
                       is_finite(sums.z) ? sums.z : anew.z, is_finite(sums.w) ? sums.w : anew.w);
}

// Whether nothing more can come of a warp's sums: NaN stays NaN.
__device__ __forceinline__ bool are_settled(float4 sums, float4 anew) {
    const bool upper = (is_finite(sums.x) || anew.x != anew.x) && (is_finite(sums.y) || anew.y != anew.y);
    const bool lower = (is_finite(sums.z) || anew.z != anew.z) && (is_finite(sums.w) || anew.w != anew.w);
    return __all_sync(0xffffffffu, upper && lower);
}

// The sums of rows and columns that exist; zeros for the others, so that they ask for nothing.
__device__ __forceinline__ float4 existing(float4 sums, bool upper, bool lower, bool first, bool second) {
    return make_float4(upper && first ? sums.x : 0.0f, upper && second ? sums.y : 0.0f, lower && first ? sums.z : 0.0f,
        lower && second ? sums.w : 0.0f);
}

// The products of two rows' factors with two columns'.
__device__ __forceinline__ void add_products(float4& sums, float upper, float lower, float first, float second) {
    sums.x = fmaf(first, upper, sums.x);
    sums.y = fmaf(second, upper, sums.y);
    sums.z = fmaf(first, lower, sums.z);
    sums.w = fmaf(second, lower, sums.w);
}

// An element of the window of output (p, q) of an image, as a float.
__device__ __forceinline__ float load_element(const element* x, index_t image, int p, int q, int channel, int r, int s,
        int H, int W) {
    const int h = at_border(p - PAD_TOP + r, H), w = at_border(q - PAD_LEFT + s, W);
    return wc_half_to_float(__ldg(x + ((image * C + channel) * H + h) * W + w));
}

// Sums of two outputs and of filters k and k + 1 by float32 units: of those that are not finite; the others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* filter, index_t image, int p,
        int q, int other_p, int other_q, int k, int H, int W) {
    const element* const first = filter + IMAGE + (long long)min(k, K - 1) * WINDOW;
    const element* const second = filter + IMAGE + (long long)min(k + 1, K - 1) * WINDOW;
    float4 anew = {};
#pragma unroll 1
    for (int number = 0; number < WINDOW; ++number) {
        const int channel = number / (R * S), r = number / S % R, s = number % S;
        const float upper = load_element(x, image, p, q, channel, r, s, H, W),
            lower = load_element(x, image, other_p, other_q, channel, r, s, H, W);
        add_products(anew, upper, lower, wc_half_to_float(__ldg(first + number)),
            wc_half_to_float(__ldg(second + number)));
        if (number % 16 == 15 && are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// Zeros beside a window times infinities and NaN: sums that are not finite are made anew.
__device__ __forceinline__ void mend(float (&sums)[SUMS], const element* x, const element* filter, index_t image, int p,
        int q, int other_p, int other_q, int first_k, int lane, int P, int Q, int H, int W) {
#pragma unroll 1
    for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
        const int block = __ffs(blocks) - 1, k = first_k + filter_of(block, lane);
        const float4 wanted =
            existing(sums_of(sums, block), p < P && q < Q, other_p < P && other_q < Q, k < K, k + 1 < K);
        set_sums(sums, block,
            made_anew(wanted, x, filter, image, min(p, P - 1), min(q, Q - 1), min(other_p, P - 1), min(other_q, Q - 1),
            k, H, W));
    }
}

// The filter as shared memory has it: [pattern][tile of filters][version][step][filter][products], cells of 16 bytes in
// the order in which the tensor cores look for them, zeros in what pairs have beside a window; then as it was. Once for
// each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < IMAGE + K * WINDOW; i += gridDim.x * SIDE_THREADS) {
        if (i >= IMAGE) {
            filter[i] = w[i - IMAGE];
            continue;
        }
        const int column = i % STEP, row = i / STEP % TILE_FILTERS, step = i / (STEP * TILE_FILTERS) % STEPS;
        const int version = i / (STEP * TILE_FILTERS * STEPS) % VERSIONS;
        const int pattern = i / (STEP * TILE_FILTERS * STEPS * VERSIONS);
        const int k = filter_of(row / 8, row % 8 / 2) + row % 2;
        const Pair pair = pair_of((step * STEP + column) / 8, column / 2 % 4);
        const int span = pair.span;
        // the side of a pair at which the span begins
        int side = version;
        if (pattern > 0) side += span % R;
        if (pattern == 2) side += span / R;
        const int of_span = pair.number * 2 + column % 2 - side % 2;
        const bool exists = k < K && span < SPANS && (unsigned)of_span < (unsigned)SPAN;
        const int place = i - column + (column / 8 ^ row % 8) * 8 + column % 8;
        filter[place] = exists ? w[k * WINDOW + span * S + of_span] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_wgmma_7x7(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    element* const halos = (element*)(shared + HALOS_AT);
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + BUFFERS;
    unsigned long long* const filter_there = freed + BUFFERS;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int first_k = blockIdx.y * TILE_FILTERS;
    if (blockIdx.x >= tiles) return;
    if (threadIdx.x == 0) {
        for (int buffer = 0; buffer < BUFFERS; ++buffer) {
            wc_barrier_init(filled + buffer, COPIERS);
            wc_barrier_init(freed + buffer, GROUPS * 4);
        }
        wc_barrier_init(filter_there, 1);
        wc_fence_barrier_init();
    }
    const Pitch pitch = pitch_of(H, W);
    const bool odd_lines = W & 1;
    const int pattern = odd_lines * (1 + (H & 1));
    __syncthreads();
    if (threadIdx.x < COPIERS * 32) {
        // those that copy, which need fewer registers
        wc_setmaxnreg_dec();
        copy_tiles(halos, filled, freed, x, tiles, tiles_p, tiles_q, H, W, pitch);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        if (threadIdx.x == COPIERS * 32) {
            // the filter, for all tiles
            wc_barrier_expect(filter_there, FILTER_BYTES);
            wc_bulk_load(shared, filter + (pattern + blockIdx.y) * (FILTER_BYTES / 2), FILTER_BYTES, filter_there);
        }
        const int group = threadIdx.x / 128 - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
        wc_barrier_wait(filter_there, 0);
        int buffer = 0, item = group;
        unsigned parity = 0;
        for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
            const Tile tile = tile_of(number, tiles_p, tiles_q);
            const unsigned char* const halo = (const unsigned char*)(halos + buffer * HALO);
            const int start = start_of(tile, H, W);
            wc_barrier_wait(filled + buffer, parity);
#pragma unroll 1
            for (; item < ITEMS; item += MEMBERS) {
                const int run = item * 8 + warp * 2;
                // this lane's outputs and windows
                const Output output = output_of(run, lane, 0, odd_lines),
                    other_output = {output.row, output.column + OTHER};
                const int p = tile.p + output.row, other_p = tile.p + other_output.row;
                const int q = tile.q + output.column, other_q = tile.q + other_output.column;
                float sums[SUMS];
                sum_up(sums, halo, window_at(output, lane, start, pitch), shared + start % 2 * VERSION_BYTES, pitch);
                mend(sums, x, filter, tile.image, p, q, other_p, other_q, first_k, lane, P, Q, H, W);
                const Output next_output = output_of(run, lane, 1, odd_lines),
                    other_next_output = {next_output.row, next_output.column + OTHER};
                const int next_q = tile.q + next_output.column, other_next_q = tile.q + other_next_output.column;
                float odd_sums[SUMS];
                sum_up(odd_sums, halo, window_at(next_output, lane, start, pitch),
                    shared + (start + 1) % 2 * VERSION_BYTES, pitch);
                mend(odd_sums, x, filter, tile.image, p, next_q, other_p, other_next_q, first_k, lane, P, Q, H, W);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    // what is said to be of even columns is of odd ones
                    const bool turned = odd_lines & (half ? other_output : output).row;
                    const int of_p = half ? other_p : p,
                        of_q = turned ? (half ? other_next_q : next_q) : half ? other_q : q;
                    const bool inside = of_p < P && of_q < Q;
                    const index_t plane = (index_t)P * Q, pixel = tile.image * K * plane + (index_t)of_p * Q + of_q;
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
#pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            const int k = first_k + filter_of(n, lane) + i;
                            const index_t at = pixel + k * plane;
                            const bool exists = inside && k < K;
                            const float low = turned ? odd_sums[4 * n + 2 * half + i] : sums[4 * n + 2 * half + i],
                                high = turned ? sums[4 * n + 2 * half + i] : odd_sums[4 * n + 2 * half + i];
                            const unsigned made = wc_floats_to_halves(low, high);
                            if (exists) *(unsigned*)(y + at) = made;
                        }
                    }
                }
            }
            item -= ITEMS;              // of the next tile
            __syncwarp();               // no lane reads this tile's pixels any more
            if (lane == 0) wc_barrier_arrive(freed + buffer);
            if (++buffer == BUFFERS) {
                buffer = 0;
                parity ^= 1;
            }
        }
    }
}
