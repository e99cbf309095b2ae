// warpconv 0.1.0: taps_wgmma, float16. Generated from templates/taps_wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,224 --filter 64,7,7 --stride 2,2 --padding 3 --dtype float16 \
//     --epilogue bias,residual --arch sm_90a --algorithm taps_wgmma \
//     --set tile_p=4 --set tile_q=112 --set filters=64 --set groups=3 --set buffers=3 --set order=turns \
//     --set vector=8 --set store_vector=8 --set stores=rows --set stage=256
//
// layer  x[N, 3, H, W] * w[64, 3, 7, 7] -> y[N, 64, P, Q], stride 2, padding 3, float16, then bias, residual
//        N, H, W (and so P, Q) are arguments (W a multiple of 8; Q a multiple of 8 and at most 112); all else is a
//        constant of the text
// plan   tiles of 4 x 112 outputs x 64 filters, 11 instructions for 147 products, by 3 warp groups and 4 copying warps,
//        the filter stays, 182192 bytes of shared memory
// cost   a warp's 16 outputs of 64 filters: 42 warp loads, 0 shuffles, 5632 FMA a lane, about 152 registers (direct:
//        4704 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters. Of a block 4 warps copy the
// lines of x that its outputs' windows cover to shared memory as they lie there, the next tile's while groups of four
// warps multiply this one's. A thread of these loads pairs of what lies side by side in its two windows from there to
// registers. The filter, in the order of these pairs, stays in shared memory. A tile has whole rows, whose outputs of a
// filter lie side by side in y: a group puts some of them together in shared memory, and stores them a filter at a time
// while others multiply.
constexpr int C = 3;                            // channels of x
constexpr int K = 64;                           // channels of y: filters
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 3;                      // rows of zeros above the image
constexpr int PAD_LEFT = 3;                     // columns of zeros to the left of the image
constexpr int TILE_P = 4;                       // output rows of a block's tile
constexpr int TILE_Q = 112;                     // output columns of it
constexpr int TILE_FILTERS = 64;                // filters of it
constexpr int BLOCKS = 8;                       // times eight filters of a tile
constexpr int GROUPS = 3;                       // groups of four warps that multiply
// outputs of a filter that a group of these puts together in shared memory at a time
constexpr int STAGED = 256;
constexpr int SUMS = 32;                        // sums of a thread
constexpr int WINDOW = 147;                     // products of an output
constexpr int SPAN = 7;                         // of a window's elements that lie side by side in x,
constexpr int SPANS = 21;                       // and such spans of a window
constexpr int DEPTHS = 11;                      // instructions of 16 products: all pairs
constexpr int STEP_DEPTHS = 4;                  // of these a step, a row of a filter in shared memory
constexpr int STEP = 64;                        // products of a step
constexpr int STEPS = 3;                        // of the reduction
constexpr int SETS = 3;                         // steps whose factors a thread has at a time
constexpr int SPAN_QUADS = 21;                  // quads of all spans,
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter,
constexpr int STEP_CELLS = 512;                 // and a step's of all of them
constexpr int FILTER_BYTES = 24576;             // of all of a tile's
constexpr int HALO_ROWS = 13;                   // input rows that a tile's windows cover
constexpr int LINES = 39;                       // lines of x that are copied for a tile: those of all channels
constexpr int LINE = 240;                       // elements from one to the next in shared memory
constexpr int LEAD = 5;                         // of a line's before the first that a window reads
constexpr int PIECES = 30;                      // pieces of a line: of 16 bytes,
constexpr int PIECE_LANES = 4;                  // threads that have those of a line outside of the image
constexpr int PLANE = 3120;                     // elements from a channel's lines to the next's in shared memory
constexpr int HALO = 9360;                      // elements of a tile's pixels there
constexpr int BUFFERS = 3;                      // tiles' pixels at a time
constexpr int HALOS_AT = 24576;                 // bytes before the pixels,
// elements from one filter's outputs to the next's of what a group has put together,
constexpr int STAGE_LINE = 264;
constexpr int STAGE = 16896;                    // and of all
constexpr int STORE = 8;                        // outputs that a lane stores side by side
constexpr int ROUNDS = 1;                       // stores of a lane for one filter, at most
constexpr int FILTERS_AT_ONCE = 4;              // filters whose outputs are loaded before any is stored
constexpr int ROW_DIGITS = 21;                  // an output's row is its number times of_row, shifted right by this
constexpr int STAGES_AT = 80736;                // bytes before the first group's outputs,
constexpr int BARRIERS_AT = 182112;             // and before the barriers
constexpr int COPIERS = 4;                      // warps that copy pixels
constexpr int THREADS = 512;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
constexpr int IMAGE = 12288;                    // elements of the prepared filter; behind them it is as it was given
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then residual.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    return value;
}

// barriers in shared memory, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_bulk_load(void* to, const void* from, int bytes, unsigned long long* barrier) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_sync_threads(int barrier, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }
__device__ __forceinline__ int wc_settled(int value) { asm volatile("" : "+r"(value)); return value; }
__device__ __forceinline__ void wc_store_matrices_transposed_2(void* row, unsigned a, unsigned b) { asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], { %1, %2};" :: "r"((unsigned)__cvta_generic_to_shared(row)), "r"(a), "r"(b) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 152;"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves_words(float (&sums)[32], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, { %32, %33, %34, %35}, %36, adds, 1, 1, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[32]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// Eight elements of a line, some of which stand outside of the image.
__device__ __forceinline__ void copy_edge(element* to, const element* line, int first, bool reached, int W) {
    element elements[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int at = first + i;
        elements[i] = reached && (unsigned)at < (unsigned)W ? __ldg(line + at) : (element)0u;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = elements[i];
}

// The pieces of a line: those from `begin` to `behind` are copied as they lie, of those from `first` to `last` some
// elements stand in the image, of others none.
struct Pieces { int first, begin, behind, last; };

__device__ __forceinline__ Pieces pieces_of(bool reached, int first_piece, int end, int W) {
    if (!reached) return {0, 0, 0, 0};
    const int first = min(max(-first_piece, 0) / 8, PIECES), last = max(min((W - first_piece + 7) / 8, PIECES), first);
    const int begin = min(max(7 - first_piece, 0) / 8, PIECES),
        behind = max(min((end - first_piece) / 8, PIECES), begin);
    return {first, begin, behind, last};
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy. `landed`
// counts the lines, their bytes, and the warps, which write what is not copied as it lies.
__device__ __forceinline__ void copy_pixels(element* to, unsigned long long* landed, const element* x, const Tile& tile,
        int thread, int H, int W) {
    const int top = tile.p * STRIDE_H - PAD_TOP, left = tile.q * STRIDE_W - PAD_LEFT;
    // a thread has whole lines, and their ends
#pragma unroll 1
    for (int line = thread % 32 * COPIERS + thread / 32; line < LINES; line += COPIERS * 32) {
        const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
        const int h = top + row;
        const bool reached = (unsigned)h < (unsigned)H;
        const int end = W;
        const element* const from = x + ((tile.image * C + channel) * H + h) * W;
        const int at = LEAD + row * LINE + channel * PLANE;        // where `left` lies in shared memory
        element* const line_to = to + (at & ~7);
        const int first_piece = left - (at & 7);
        const Pieces pieces = pieces_of(reached, first_piece, end, W);
        const int bytes = (pieces.behind - pieces.begin) * 16;
        wc_barrier_expect(landed, bytes);
        if (bytes > 0) wc_bulk_load(line_to + pieces.begin * 8, from + first_piece + pieces.begin * 8, bytes, landed);
        if (pieces.first < pieces.begin) copy_edge(line_to + pieces.first * 8, from, first_piece + pieces.first * 8,
            reached, W);
        if (pieces.behind < pieces.last) copy_edge(line_to + pieces.behind * 8, from, first_piece + pieces.behind * 8,
            reached, W);
    }
    // PIECE_LANES threads have a line's pieces outside of the image, if the tile has any
    if (top < 0 || top + HALO_ROWS > H || left < 0 || left + (PIECES - 1) * 8 >= W) {
#pragma unroll 1
        for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
            const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
            const int h = top + row;
            const bool reached = (unsigned)h < (unsigned)H;
            const int end = W;
            const int at = LEAD + row * LINE + channel * PLANE;        // where `left` lies in shared memory
            element* const line_to = to + (at & ~7);
            const Pieces pieces = pieces_of(reached, left - (at & 7), end, W);
#pragma unroll 1
            for (int i = thread % PIECE_LANES; i < PIECES + pieces.first - pieces.last; i += PIECE_LANES) {
                const int piece = i < pieces.first ? i : i - pieces.first + pieces.last;
                *(uint4*)(line_to + piece * 8) = make_uint4(0u, 0u, 0u, 0u);
            }
        }
    }
    wc_fence_proxy_async();             // these stores come before later bulk copies to the same memory
    __syncwarp();
    if (thread % 32 == 0) wc_barrier_arrive(landed);
}

// All tiles of the block.
__device__ __forceinline__ void copy_tiles(element* halos, unsigned long long* filled, unsigned long long* freed,
        const element* x, count_t tiles, unsigned tiles_p, unsigned tiles_q, int H, int W) {
    int buffer = 0;
    unsigned parity = 1;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        wc_barrier_wait(freed + buffer, parity);
        copy_pixels(halos + buffer * HALO, filled + buffer, x, tile_of(number, tiles_p, tiles_q), threadIdx.x, H, W);
        if (++buffer == BUFFERS) {
            buffer = 0;
            parity ^= 1;
        }
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
__device__ __forceinline__ int span_at(int span) { return span / R * PLANE + span % R * LINE; }

// An output of a tile, by its place among those of the tile's rows.
struct Output { int row, column; };

__device__ __forceinline__ Output output_of(int place, unsigned of_row, int Q) {
    const int row = place * of_row >> ROW_DIGITS;
    return {row, place - row * Q};
}

// Where the window of an output of a tile begins in shared memory, for this lane.
__device__ __forceinline__ int window_at(Output output, int lane) {
    return (LEAD + output.row * (STRIDE_H * LINE) + output.column * STRIDE_W) / 2 * 4 + lane % 4 * 4;
}

// A lane's factors of a step: pairs of two windows, as the tensor cores take them.
__device__ __forceinline__ void load_factors(unsigned (&factors)[STEP_DEPTHS][4], const unsigned char* halo, int upper,
        int lower, int step) {
#pragma unroll
    for (int i = 0; i < 2 * STEP_DEPTHS; ++i) {
        const int quad = step * (2 * STEP_DEPTHS) + i;
        unsigned of_upper = 0u, of_lower = 0u;          // behind the last quad
        if (quad < SPAN_QUADS) {
            const int span = span_at(quad) / 2 * 4;
            of_upper = *(const unsigned*)(halo + upper + span);
            of_lower = *(const unsigned*)(halo + lower + span);
        }
        factors[i / 2][i % 2 * 2] = of_upper;
        factors[i / 2][i % 2 * 2 + 1] = of_lower;
    }
}

// The sums of 64 outputs and all filters of the tile by a group of four warps. While a step is multiplied the factors
// of the next ones are loaded.
__device__ __forceinline__ void sum_up(float (&sums)[SUMS], const unsigned char* halo, int upper, int lower,
        const unsigned char* filters) {
    const unsigned long long filters_at = wc_descriptor_rows_128(filters);
    unsigned factors[SETS][STEP_DEPTHS][4];
#pragma unroll
    for (int step = 0; step < SETS - 1; ++step) load_factors(factors[step], halo, upper, lower, step);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < STEP_DEPTHS; ++depth)
            if (step * STEP_DEPTHS + depth < DEPTHS) wc_wgmma_halves_words(sums, factors[step % SETS][depth],
                filters_at + step * STEP_CELLS + depth * DEPTH_CELLS, step + depth > 0);
        wc_wgmma_commit();
        if (step + SETS - 1 >= STEPS) continue;
        if (step > 0) wc_wgmma_wait_group_1();      // the factors of the step before are of no use any more
        load_factors(factors[(step + SETS - 1) % SETS], halo, upper, lower, step + SETS - 1);
    }
    wc_wgmma_wait_sums(sums);
}

// The first of a lane's two filters of a block of eight columns of the product: those of a block lie side by side.
__device__ __forceinline__ int filter_of(int block, int lane) { return block * 8 + lane % 4 * 2; }

// Groups take turns at storing, in the order of what they put together, so that others multiply meanwhile: a barrier
// for each.
struct Turns {
    unsigned long long *own, *next;
    unsigned parity;
    bool speaks;                // whether this lane arrives for its warp

    __device__ __forceinline__ void wait() {
        wc_barrier_wait(own, parity);
        parity ^= 1;
    }

    __device__ __forceinline__ void pass() {
        if (speaks) wc_barrier_arrive(next);
    }
};

// Outputs that a group has put together to y, by its four warps. Those of a filter lie side by side in y.
__device__ __forceinline__ void store_staged(element* y, const element* stage, const Tile& tile, int first_k, int first,
        int count, int warp, int lane, int P, int Q) {
    const index_t plane = (index_t)P * Q;
    // a warp has every fourth pair of filters: first all pairs' first ones, then the second ones
#pragma unroll 1
    for (int first_filter = warp * 2; first_filter < warp * 2 + 2; ++first_filter) {
        element* const to = y + (tile.image * K + first_k + first_filter) * plane + (index_t)tile.p * Q + first;
        const element* const from = stage + first_filter * STAGE_LINE;
        const int of_lane = lane * STORE;
        const int left = count - of_lane;       // outputs from the lane's first one on
        const element* line = from + of_lane;
        index_t at = (index_t)of_lane;
#pragma unroll FILTERS_AT_ONCE
        for (int filter = 0; filter < TILE_FILTERS; filter += 8) {
            uint4 stored[ROUNDS];
#pragma unroll
            for (int i = 0; i < ROUNDS; ++i)
                if (i * 256 < left) stored[i] = *(const uint4*)(line + i * 256);
#pragma unroll
            for (int i = 0; i < ROUNDS; ++i)
                if (i * 256 < left) *(uint4*)(to + (at + i * 256)) = stored[i];
            line += 8 * STAGE_LINE;
            at += 8 * plane;
        }
    }
}

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
    // not finite where a sum is not, nor where a product of two is beyond a float's range: then the blocks are looked
    // at one by one
    float upper = 0.0f, lower = 0.0f;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        const float4 four = four_of(sums, block);
        upper = fmaf(four.x, four.y, upper);
        lower = fmaf(four.z, four.w, lower);
    }
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, is_finite(upper + lower))) return blocks;
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
    const int h = p * STRIDE_H - PAD_TOP + r, w = q * STRIDE_W - PAD_LEFT + s;
    const bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    return wc_half_to_float(inside ? __ldg(x + ((image * C + channel) * H + h) * W + w) : (element)0);
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
        const int first_k = i / (STEP * TILE_FILTERS * STEPS) * TILE_FILTERS;
        const int k = first_k + filter_of(row / 8, row % 8 / 2) + row % 2;
        const Pair pair = pair_of((step * STEP + column) / 8, column / 2 % 4);
        const int span = pair.span;
        // the side of a pair at which the span begins
        int side = 1;
        const int of_span = pair.number * 2 + column % 2 - side % 2;
        const bool exists = k < K && span < SPANS && (unsigned)of_span < (unsigned)SPAN;
        const int place = i - column + (column / 8 ^ row % 8) * 8 + column % 8;
        filter[place] = exists ? w[k * WINDOW + span * S + of_span] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_wgmma_7x7(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        const unsigned short* __restrict__ bias, const unsigned short* residual, unsigned short* y, int N, int H,
        int W, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    element* const halos = (element*)(shared + HALOS_AT);
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + BUFFERS;
    unsigned long long* const turn_barriers = freed + BUFFERS;
    unsigned long long* const filter_there = turn_barriers + GROUPS;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = 1;            // a tile has whole rows
    const count_t tiles = (count_t)N * tiles_p;
    const int first_k = blockIdx.y * TILE_FILTERS;
    if (blockIdx.x >= tiles) return;
    if (threadIdx.x == 0) {
        for (int buffer = 0; buffer < BUFFERS; ++buffer) {
            wc_barrier_init(filled + buffer, LINES + COPIERS);
            wc_barrier_init(freed + buffer, GROUPS * 4);
        }
        for (int group = 0; group < GROUPS; ++group) wc_barrier_init(turn_barriers + group, 4);
        wc_barrier_init(filter_there, 1);
        wc_fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x < COPIERS * 32) {
        // those that copy, which need fewer registers
        wc_setmaxnreg_dec();
        copy_tiles(halos, filled, freed, x, tiles, tiles_p, tiles_q, H, W);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        if (threadIdx.x == COPIERS * 32) {
            // the filter, for all tiles
            wc_barrier_expect(filter_there, FILTER_BYTES);
            wc_bulk_load(shared, filter + blockIdx.y * (FILTER_BYTES / 2), FILTER_BYTES, filter_there);
        }
        // by an exchange, so that they stay in registers: threadIdx would be read anew wherever they are used, which
        // takes long
        const int warp_of_block = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp_of_block / 4 - 1,
            warp = warp_of_block % 4, lane = __shfl_sync(0xffffffffu, threadIdx.x % 32, threadIdx.x % 32);
        // the first group does not wait for its first turn
        Turns turns = {turn_barriers + group, turn_barriers + (group + 1) % GROUPS, group == 0, lane == 0};
        wc_barrier_wait(filter_there, 0);
        element* const stage = (element*)(shared + STAGES_AT) + group * STAGE;
        // where this lane leaves eight outputs of a filter
        element* const stage_to = stage + lane % 8 * STAGE_LINE + warp * 16 + lane / 8 % 2 * 8;
        const unsigned of_row = ((1u << ROW_DIGITS) + Q - 1) / Q;       // 2^ROW_DIGITS / Q, rounded up
        int buffer = 0, next_output = group * STAGED;     // of a tile the next output that is this group's
        unsigned parity = 0;
        for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
            const Tile tile = tile_of(number, tiles_p, tiles_q);
            const unsigned char* const halo = (const unsigned char*)(halos + buffer * HALO);
            wc_barrier_wait(filled + buffer, parity);
            const int outputs = min(TILE_P, P - tile.p) * Q;
#pragma unroll 1
            for (; next_output < outputs; next_output += GROUPS * STAGED) {
                const int count = min(STAGED, outputs - next_output);
                wc_sync_threads(1 + group, 128);        // all four warps have stored those before
#pragma unroll 1
                for (int done = 0; done < count; done += 64) {
                    const int run = (next_output + done) / 8 + warp * 2;
                    // this lane's outputs: behind the tile's last one, that one again
                    const int place = min(run * 8 + lane / 4, outputs - 1),
                        other_place = min(run * 8 + 8 + lane / 4, outputs - 1);
                    const Output output = output_of(place, of_row, Q), other_output = output_of(other_place, of_row, Q);
                    const int p = tile.p + output.row, other_p = tile.p + other_output.row;
                    const int q = tile.q + output.column, other_q = tile.q + other_output.column;
                    float sums[SUMS];
                    sum_up(sums, halo, window_at(output, lane), window_at(other_output, lane), shared);
                    mend(sums, x, filter, tile.image, p, q, other_p, other_q, first_k, lane, P, Q, H, W);
                    const index_t plane = (index_t)P * Q, pixel = tile.image * K * plane + (index_t)tile.p * Q + place,
                        other_pixel = pixel + (other_place - place);
                    // else each filter's bias is loaded ahead of all outputs, beside whose residuals there are no
                    // registers for it
                    const int here_k = wc_settled(first_k);
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const int k = here_k + filter_of(n, lane);
                        const float* const four = sums + 4 * n;
                        const unsigned upper_word =
                            wc_floats_to_halves(finish(four[0], (k < K ? wc_half_to_float(__ldg(bias + k)) : 0.0f),
                            k < K ? wc_half_to_float(residual[pixel + (k) * plane]) : 0.0f),
                            finish(four[1], (k + 1 < K ? wc_half_to_float(__ldg(bias + k + 1)) : 0.0f),
                            k + 1 < K ? wc_half_to_float(residual[pixel + (k + 1) * plane]) : 0.0f));
                        const unsigned lower_word =
                            wc_floats_to_halves(finish(four[2], (k < K ? wc_half_to_float(__ldg(bias + k)) : 0.0f),
                            k < K ? wc_half_to_float(residual[other_pixel + (k) * plane]) : 0.0f),
                            finish(four[3], (k + 1 < K ? wc_half_to_float(__ldg(bias + k + 1)) : 0.0f),
                            k + 1 < K ? wc_half_to_float(residual[other_pixel + (k + 1) * plane]) : 0.0f));
                        wc_store_matrices_transposed_2(stage_to + done + n * 8 * STAGE_LINE, upper_word, lower_word);
                    }
                }
                wc_sync_threads(1 + group, 128);
                turns.wait();
                store_staged(y, stage, tile, first_k, next_output, count, warp, lane, P, Q);
                __syncwarp();           // all lanes have stored
                turns.pass();
            }
            next_output -= (outputs + STAGED - 1) / STAGED * STAGED;           // of the next tile
            __syncwarp();               // no lane reads this tile's pixels any more
            if (lane == 0) wc_barrier_arrive(freed + buffer);
            if (++buffer == BUFFERS) {
                buffer = 0;
                parity ^= 1;
            }
        }
    }
}
