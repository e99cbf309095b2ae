// warpconv 0.1.0: taps_wgmma, float16. Generated from templates/taps_wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,4 --filter 33,5,5 --padding 2 --padding-mode constant --padding-value 1 \
//     --dtype float16 --layout NHWC --arch sm_90a --algorithm taps_wgmma \
//     --set tile_p=8 --set tile_q=32 --set filters=40 --set groups=4 --set buffers=3 --set order=turns \
//     --set vector=8 --set store_vector=1 --set stores=direct --set stage=128
//
// layer  x[N, H, W, 4] * w[33, 4, 5, 5] -> y[N, P, Q, 33], stride 1, padding 2 (constant), float16 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments (W a multiple
//        of 2); all else is a constant of the text
// plan   tiles of 8 x 32 outputs x 40 filters, 7 instructions for 100 products, by 4 warp groups and 4 copying warps,
//        the filter stays, 21848 bytes of shared memory
// cost   a warp's 16 outputs of 40 filters: 26 warp loads, 0 shuffles, 2240 FMA a lane, about 104 registers (direct:
//        2000 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters. Of a block 4 warps copy the
// lines of x that its outputs' windows cover to shared memory as they lie there, the next tile's while groups of four
// warps multiply this one's. A thread of these loads pairs of what lies side by side in its two windows from there to
// registers. The filter, in the order of these pairs, stays in shared memory.
constexpr int C = 4;                            // channels of x
constexpr int K = 33;                           // channels of y: filters
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int PAD_LEFT = 2;                     // columns to the left of the image
constexpr int TILE_P = 8;                       // output rows of a block's tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int TILE_FILTERS = 40;                // filters of it
constexpr int BLOCKS = 5;                       // times eight filters of a tile
constexpr int TOGETHER = 1;                     // of these blocks a lane stores side by side
constexpr int GROUPS = 4;                       // groups of four warps that multiply
constexpr int MEMBERS = 4;                      // of these groups that share out a tile
constexpr int ITEMS = 4;                        // of a tile that they share out: eight runs of eight outputs each
constexpr int OTHER = 8;                        // columns from a lane's output of a run to that of the next run,
constexpr int BESIDE = 64;                      // and bytes from that window to this one's in shared memory
constexpr int SUMS = 20;                        // sums of a thread
constexpr int WINDOW = 100;                     // products of an output
constexpr int SPAN = 20;                        // of a window's elements that lie side by side in x,
constexpr int SPANS = 5;                        // and such spans of a window
constexpr int DEPTHS = 7;                       // instructions of 16 products: all pairs
constexpr int STEP_DEPTHS = 4;                  // of these a step, a row of a filter in shared memory
constexpr int STEP = 64;                        // products of a step
constexpr int STEPS = 2;                        // of the reduction
constexpr int SETS = 2;                         // steps whose factors a thread has at a time
constexpr int WHOLE_QUADS = 2;                  // quads of a span: four pairs side by side, one for each of four lanes
constexpr int REST_PAIRS = 2;                   // pairs of a span that are in no such quad,
constexpr int SPAN_QUADS = 10;                  // quads of all spans,
constexpr int REST_QUADS = 3;                   // quads of pairs that are left of several spans,
constexpr int QUADS = 13;                       // and all
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter,
constexpr int STEP_CELLS = 320;                 // and a step's of all of them
constexpr int FILTER_BYTES = 10240;             // of all of a tile's
constexpr int PIXEL = 4;                        // elements of a pixel that lie side by side in x
constexpr int HALO_ROWS = 12;                   // input rows that a tile's windows cover
constexpr int LINES = 12;                       // lines of x that are copied for a tile
constexpr int LINE = 160;                       // elements from one to the next in shared memory
constexpr int PIECES = 18;                      // pieces of a line: of 16 bytes,
constexpr int PIECE_LANES = 4;                  // threads that have those of a line outside of the image
constexpr int HALO = 1920;                      // elements of a tile's pixels there
constexpr int BUFFERS = 3;                      // tiles' pixels at a time
constexpr int HALOS_AT = 10240;                 // bytes before the pixels,
constexpr int BARRIERS_AT = 21760;              // and before the barriers
constexpr int COPIERS = 4;                      // warps that copy pixels
constexpr int THREADS = 640;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
constexpr int IMAGE = 5120;                     // elements of the prepared filter; behind them it is as it was given
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

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
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 104;"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves_words(float (&sums)[20], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %25, 0; wgmma.mma_async.sync.aligned.m64n40k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19}, { %20, %21, %22, %23}, %24, adds, 1, 1, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[20]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]) : : "memory"); }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// Eight elements of a line, some of which stand outside of the image.
__device__ __forceinline__ void copy_edge(element* to, const element* line, int first, bool reached, int W,
        unsigned BORDER) {
    element elements[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int at = first + i;
        elements[i] = reached && (unsigned)at < (unsigned)(W * PIXEL) ? __ldg(line + at) : (element)BORDER;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = elements[i];
}

// The pieces of a line: those from `begin` to `behind` are copied as they lie, of those from `first` to `last` some
// elements stand in the image, of others none.
struct Pieces { int first, begin, behind, last; };

__device__ __forceinline__ Pieces pieces_of(bool reached, int first_piece, int end, int W) {
    if (!reached) return {0, 0, 0, 0};
    const int first = min(max(-first_piece, 0) / 8, PIECES),
        last = max(min((W * PIXEL - first_piece + 7) / 8, PIECES), first);
    const int begin = min(max(7 - first_piece, 0) / 8, PIECES),
        behind = max(min((end - first_piece) / 8, PIECES), begin);
    return {first, begin, behind, last};
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy. `landed`
// counts the lines, their bytes, and the warps, which write what is not copied as it lies.
__device__ __forceinline__ void copy_pixels(element* to, unsigned long long* landed, const element* x, const Tile& tile,
        int thread, int H, int W, unsigned BORDER) {
    const int top = tile.p - PAD_TOP, left = (tile.q - PAD_LEFT) * PIXEL;
    // a thread has whole lines, and their ends
#pragma unroll 1
    for (int line = thread % 32 * COPIERS + thread / 32; line < LINES; line += COPIERS * 32) {
        const int h = top + line;
        const bool reached = (unsigned)h < (unsigned)H;
        const int end = W * PIXEL;
        const element* const from = x + (tile.image * H + h) * (W * PIXEL);
        const int at = line * LINE;               // where `left` lies in shared memory
        element* const line_to = to + (at & ~7);
        const int first_piece = left - (at & 7);
        const Pieces pieces = pieces_of(reached, first_piece, end, W);
        const int bytes = (pieces.behind - pieces.begin) * 16;
        wc_barrier_expect(landed, bytes);
        if (bytes > 0) wc_bulk_load(line_to + pieces.begin * 8, from + first_piece + pieces.begin * 8, bytes, landed);
        if (pieces.first < pieces.begin) copy_edge(line_to + pieces.first * 8, from, first_piece + pieces.first * 8,
            reached, W, BORDER);
        if (pieces.behind < pieces.last) copy_edge(line_to + pieces.behind * 8, from, first_piece + pieces.behind * 8,
            reached, W, BORDER);
    }
    // PIECE_LANES threads have a line's pieces outside of the image, if the tile has any
    if (top < 0 || top + HALO_ROWS > H || left < 0 || left + (PIECES - 1) * 8 >= W * PIXEL) {
#pragma unroll 1
        for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
            const int h = top + line;
            const bool reached = (unsigned)h < (unsigned)H;
            const int end = W * PIXEL;
            const int at = line * LINE;               // where `left` lies in shared memory
            element* const line_to = to + (at & ~7);
            const Pieces pieces = pieces_of(reached, left - (at & 7), end, W);
#pragma unroll 1
            for (int i = thread % PIECE_LANES; i < PIECES + pieces.first - pieces.last; i += PIECE_LANES) {
                const int piece = i < pieces.first ? i : i - pieces.first + pieces.last;
                *(uint4*)(line_to + piece * 8) = make_uint4(BORDER, BORDER, BORDER, BORDER);
            }
        }
    }
    wc_fence_proxy_async();             // these stores come before later bulk copies to the same memory
    __syncwarp();
    if (thread % 32 == 0) wc_barrier_arrive(landed);
}

// All tiles of the block.
__device__ __forceinline__ void copy_tiles(element* halos, unsigned long long* filled, unsigned long long* freed,
        const element* x, count_t tiles, unsigned tiles_p, unsigned tiles_q, int H, int W, unsigned BORDER) {
    int buffer = 0;
    unsigned parity = 1;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        wc_barrier_wait(freed + buffer, parity);
        copy_pixels(halos + buffer * HALO, filled + buffer, x, tile_of(number, tiles_p, tiles_q), threadIdx.x, H, W,
            BORDER);
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
    if (quad < SPAN_QUADS) return {quad / WHOLE_QUADS, quad % WHOLE_QUADS * 4 + lane % 4};
    const int left = (quad - SPAN_QUADS) * 4 + lane % 4;
    return {min(left / REST_PAIRS, SPANS), WHOLE_QUADS * 4 + left % REST_PAIRS};
}

// Elements from where a window begins to where one of its spans does.
__device__ __forceinline__ int span_at(int span) { return span * LINE; }

// Where a pair of what is left lies in shared memory, in bytes from this lane's first pair of the window.
// Behind the last one, where weights are zeros, the window's first.
__device__ __forceinline__ int place_of(int quad, int lane) {
    const Pair pair = pair_of(quad, lane);
    if (pair.span == SPANS) return lane % 4 * -4;
    return span_at(pair.span) / 2 * 4 + (pair.number - lane % 4) * 4;
}

// The output of a tile that a lane has of a run: runs are counted over all rows.
struct Output { int row, column; };

__device__ __forceinline__ Output output_of(int run, int lane) {
    const int place = run * 8 + lane / 4, row = place / TILE_Q;
    return {row, place % TILE_Q};
}

// Where the window of an output of a tile begins in shared memory, for this lane.
__device__ __forceinline__ int window_at(Output output, int lane) {
    return (output.row * LINE + output.column * PIXEL) / 2 * 4 + lane % 4 * 4;
}

// A lane's factors of a step: pairs of two windows, as the tensor cores take them.
__device__ __forceinline__ void load_factors(unsigned (&factors)[STEP_DEPTHS][4], const unsigned char* halo, int upper,
        const int (&places)[REST_QUADS], int step) {
#pragma unroll
    for (int i = 0; i < 2 * STEP_DEPTHS; ++i) {
        const int quad = step * (2 * STEP_DEPTHS) + i;
        unsigned of_upper = 0u, of_lower = 0u;          // behind the last quad
        if (quad < SPAN_QUADS) {
            const int span = span_at(quad / WHOLE_QUADS) / 2 * 4, of_span = quad % WHOLE_QUADS * 16;
            of_upper = *(const unsigned*)(halo + upper + span + of_span);
            of_lower = *(const unsigned*)(halo + upper + span + of_span + BESIDE);
        }
        else if (quad < QUADS) {
            const int place = places[quad - SPAN_QUADS];
            of_upper = *(const unsigned*)(halo + upper + place);
            of_lower = *(const unsigned*)(halo + upper + place + BESIDE);
        }
        factors[i / 2][i % 2 * 2] = of_upper;
        factors[i / 2][i % 2 * 2 + 1] = of_lower;
    }
}

// Groups take turns at the tensor cores, so that one stores while another multiplies: a barrier for each.
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

// The sums of 64 outputs and all filters of the tile by a group of four warps. While a step is multiplied the factors
// of the next ones are loaded.
__device__ __forceinline__ void sum_up(float (&sums)[SUMS], const unsigned char* halo, int upper,
        const int (&places)[REST_QUADS], const unsigned char* filters, Turns& turns) {
    const unsigned long long filters_at = wc_descriptor_rows_128(filters);
    unsigned factors[SETS][STEP_DEPTHS][4];
#pragma unroll
    for (int step = 0; step < SETS - 1; ++step) load_factors(factors[step], halo, upper, places, step);
    turns.wait();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < STEP_DEPTHS; ++depth)
            if (step * STEP_DEPTHS + depth < DEPTHS) wc_wgmma_halves_words(sums, factors[step % SETS][depth],
                filters_at + step * STEP_CELLS + depth * DEPTH_CELLS, step + depth > 0);
        wc_wgmma_commit();
        if (step + SETS - 1 >= STEPS) continue;
        load_factors(factors[(step + SETS - 1) % SETS], halo, upper, places, step + SETS - 1);
    }
    turns.pass();
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
        int H, int W, unsigned BORDER) {
    const int h = p - PAD_TOP + r, w = q - PAD_LEFT + s;
    const bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    return wc_half_to_float(inside ? __ldg(x + ((image * H + h) * W + w) * C + channel) : (element)BORDER);
}

// Sums of two outputs and of filters k and k + 1 by float32 units: of those that are not finite; the others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* filter, index_t image, int p,
        int q, int other_p, int other_q, int k, int H, int W, unsigned BORDER) {
    const element* const first = filter + IMAGE + (long long)min(k, K - 1) * WINDOW;
    const element* const second = filter + IMAGE + (long long)min(k + 1, K - 1) * WINDOW;
    float4 anew = {};
#pragma unroll 1
    for (int number = 0; number < WINDOW; ++number) {
        const int channel = number / (R * S), r = number / S % R, s = number % S;
        const float upper = load_element(x, image, p, q, channel, r, s, H, W, BORDER),
            lower = load_element(x, image, other_p, other_q, channel, r, s, H, W, BORDER);
        add_products(anew, upper, lower, wc_half_to_float(__ldg(first + number)),
            wc_half_to_float(__ldg(second + number)));
        if (number % 16 == 15 && are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// Zeros beside a window times infinities and NaN: sums that are not finite are made anew.
__device__ __forceinline__ void mend(float (&sums)[SUMS], const element* x, const element* filter, index_t image, int p,
        int q, int other_p, int other_q, int first_k, int lane, int P, int Q, int H, int W, unsigned BORDER) {
#pragma unroll 1
    for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
        const int block = __ffs(blocks) - 1, k = first_k + filter_of(block, lane);
        const float4 wanted =
            existing(sums_of(sums, block), p < P && q < Q, other_p < P && other_q < Q, k < K, k + 1 < K);
        set_sums(sums, block,
            made_anew(wanted, x, filter, image, min(p, P - 1), min(q, Q - 1), min(other_p, P - 1), min(other_q, Q - 1),
            k, H, W, BORDER));
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
        int side = 0;
        const int of_span = pair.number * 2 + column % 2 - side % 2;
        const bool exists = k < K && span < SPANS && (unsigned)of_span < (unsigned)SPAN;
        const int place = i - column + (column / 8 ^ row % 8) * 8 + column % 8;
        filter[place] = exists ? w[k * WINDOW + of_span % C * (R * S) + span * S + of_span / C] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_wgmma_5x5(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q, unsigned BORDER) {
    extern __shared__ __align__(1024) unsigned char shared[];
    element* const halos = (element*)(shared + HALOS_AT);
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + BUFFERS;
    unsigned long long* const turn_barriers = freed + BUFFERS;
    unsigned long long* const filter_there = turn_barriers + GROUPS;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
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
        copy_tiles(halos, filled, freed, x, tiles, tiles_p, tiles_q, H, W, BORDER);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        if (threadIdx.x == COPIERS * 32) {
            // the filter, for all tiles
            wc_barrier_expect(filter_there, FILTER_BYTES);
            wc_bulk_load(shared, filter + blockIdx.y * (FILTER_BYTES / 2), FILTER_BYTES, filter_there);
        }
        const int group = threadIdx.x / 128 - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
        int places[REST_QUADS];
#pragma unroll
        for (int i = 0; i < REST_QUADS; ++i) places[i] = place_of(SPAN_QUADS + i, lane);
        // the first group does not wait for its first turn
        Turns turns = {turn_barriers + group, turn_barriers + (group + 1) % GROUPS, group == 0, lane == 0};
        wc_barrier_wait(filter_there, 0);
        int buffer = 0, item = group;
        unsigned parity = 0;
        for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
            const Tile tile = tile_of(number, tiles_p, tiles_q);
            const unsigned char* const halo = (const unsigned char*)(halos + buffer * HALO);
            wc_barrier_wait(filled + buffer, parity);
#pragma unroll 1
            for (; item < ITEMS; item += MEMBERS) {
                const int run = item * 8 + warp * 2;
                // this lane's outputs and windows
                const Output output = output_of(run, lane), other_output = {output.row, output.column + OTHER};
                const int p = tile.p + output.row, other_p = tile.p + other_output.row;
                const int q = tile.q + output.column, other_q = tile.q + other_output.column;
                float sums[SUMS];
                sum_up(sums, halo, window_at(output, lane), places, shared, turns);
                mend(sums, x, filter, tile.image, p, q, other_p, other_q, first_k, lane, P, Q, H, W, BORDER);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int of_p = half ? other_p : p, of_q = half ? other_q : q;
                    const bool inside = of_p < P && of_q < Q;
                    const index_t pixel = ((tile.image * P + of_p) * Q + of_q) * K;
#pragma unroll
                    for (int n = 0; n < BLOCKS; n += TOGETHER) {
                        const int k = first_k + filter_of(n, lane);
                        const float* const pair = sums + 4 * n + 2 * half;
                        const unsigned made = wc_floats_to_halves(pair[0], pair[1]);
                        if (inside && k < K) y[pixel + k] = (element)made;
                        if (inside && k + 1 < K) y[pixel + k + 1] = (element)(made >> 16);
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
