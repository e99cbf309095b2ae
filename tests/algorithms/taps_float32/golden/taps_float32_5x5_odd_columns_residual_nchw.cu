// warpconv 0.1.0: taps_float32, float32. Generated from templates/taps_float32/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,4,H,114 --filter 40,5,5 --padding 1 --precision fp16x3 --epilogue bias,residual,relu \
//     --arch sm_90a --algorithm taps_float32 \
//     --set tile_p=4 --set tile_q=112 --set filters=40 --set passes=1 --set shares=1 --set groups=2 \
//     --set buffers=2 --set raws=2 --set copiers=4 --set shifts=2 --set vector=1 --set store_vector=1 \
//     --set stores=rows --set together=4
//
// layer  x[N, 4, H, W] * w[40, 4, 5, 5] -> y[N, 40, P, Q], stride 1, padding 1, float32, fp16x3 products, then bias,
//        residual, relu
//        N, H, W (and so P, Q) are arguments (Q at most 112); all else is a constant of the text
// plan   tiles of 4 x 112 outputs x 40 filters, factors scaled and split into two halves, 8 instructions for 100
//        products, by 2 warp groups and 8 copying warps, 229272 bytes of shared memory
// cost   a warp's 16 outputs of 40 filters: 60 warp loads, 0 shuffles, 7680 FMA a lane, about 192 registers (direct:
//        2000 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters, as exact as float32 units
// make it: factors are scaled by powers of two and split into two halves, of whose four products three are made. Of a
// block 8 warps copy the lines of x that its outputs' windows cover to shared memory as they lie there, and leave them
// there in halves, the next tile's while groups of four warps, which have a tile each, multiply. A thread of these
// loads pairs of what lies side by side in its two windows to registers. The filter, in the order of these pairs, stays
// in shared memory. A group puts outputs of whole rows together in shared memory, and stores them a filter at a time,
// whose rows lie side by side in y.
constexpr int C = 4;                            // channels of x
constexpr int K = 40;                           // channels of y: filters
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 4;                       // output rows of a tile
constexpr int TILE_Q = 112;                     // output columns of it
constexpr int TILE_FILTERS = 40;                // filters of it
constexpr int FILTER_ROWS = 40;                 // filters of all tiles
constexpr int BLOCKS = 5;                       // times eight filters of a tile
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int ITEMS = 7;                        // of a tile: 64 outputs at a time, eight runs of eight
constexpr int RUNS_ACROSS = 14;                 // runs of a tile's row
constexpr int SUMS = 20;                        // sums of a thread
constexpr int WINDOW = 100;                     // products of an output
constexpr int SPAN = 5;                         // of a window's elements that lie side by side in x,
constexpr int SPANS = 20;                       // and such spans of a window
constexpr int DEPTHS = 8;                       // instructions of 16 products: all pairs
constexpr int STEP_DEPTHS = 2;                  // of these a step
constexpr int STEPS = 4;                        // of the reduction
constexpr int SETS = 2;                         // steps whose factors a thread has at a time
constexpr int REST_PAIRS = 3;                   // pairs of a span that are in no such quad,
constexpr int REST_QUADS = 15;                  // quads of pairs that are left of several spans,
constexpr int QUADS = 15;                       // and all
// of a filter in shared memory, 128 bytes each: both parts of its products
constexpr int ROWS = 4;
constexpr int ROW_DEPTHS = 2;                   // instructions that take the products of one,
constexpr int ROW_WORDS = 16;                   // words that these are, of a part
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter,
constexpr int LOW_CELLS = 4;                    // from high parts to low ones,
constexpr int ROW_CELLS = 320;                  // a row of all filters of a tile,
constexpr int FILTER_CELLS = 1280;              // and all rows
constexpr int FILTER_BYTES = 20480;             // of a block's filters
constexpr int HALO_ROWS = 8;                    // input rows that a tile's windows cover
constexpr int LINES = 32;                       // input rows that a tile's windows cover, of all channels
constexpr int LINE = 124;                       // elements from one to the next as they are copied, at least
constexpr int PIECES = 30;                      // pieces of a line: of 16 bytes,
constexpr int PIECE_LANES = 4;                  // threads that have those of a line outside of the image
// elements from a channel's lines to the next's as they are copied, at least
constexpr int PLANE = 1028;
constexpr int RAW = 4124;                       // elements of a tile's pixels so
constexpr int RAWS = 4;                         // and such tiles at a time
constexpr int COVERED = 116;                    // elements of a line that windows read
constexpr int WORDS = 58;                       // of a line of halves
constexpr int LINE_LANES = 32;                  // lanes that split a line, a word each at a time,
constexpr int ROUNDS = 2;                       // so often
constexpr int LINES_APART = 4;                  // lines at a time by all threads that copy a tile,
constexpr int LINES_AT_ONCE = 4;                // and of these a thread has so many at once
constexpr int PLANE_WORDS = 464;                // of a channel's lines of halves,
// of all lines: from those that begin with an even element to those that begin with an odd one,
constexpr int COPY_WORDS = 1856;
constexpr int PART_WORDS = 3712;                // from high parts to low ones,
constexpr int BUFFER_WORDS = 7424;              // and of a tile
constexpr int BUFFERS = 2;                      // tiles' pixels in halves at a time
// binary digits that a factor may be below the largest of its scale without losing any
constexpr unsigned KEPT_DIGITS = 27;
// of factors as they are scaled: what sums must not lie below where some lose digits
constexpr float LEAST_SUM = 6400.0;
constexpr int TOGETHER = 4;                     // times 64 outputs that a group puts together at a time,
constexpr int STAGE_LINE = 260;                 // floats from one filter's to the next's,
constexpr int STAGE = 10400;                    // and of all
constexpr int STORE_ROUNDS = 8;                 // stores of a lane for one filter, at most,
constexpr int AT_ONCE = 2;                      // and filters that a warp stores at once
constexpr int FIRST_BARRIER = 3;                // the first group's; before it are those of warps that copy
constexpr int RAWS_AT = 20480;                  // bytes before the pixels as they are copied,
constexpr int HALVES_AT = 86464;                // before those in halves,
constexpr int STAGES_AT = 145856;               // before the first group's outputs,
constexpr int SCALES_AT = 229056;               // before their scales,
constexpr int RANGES_AT = 229072;               // before what copying warps tell each other,
constexpr int BARRIERS_AT = 229200;             // and before the barriers
constexpr int COPIERS = 4;                      // warps that copy a tile's pixels and split them
constexpr int THREADS = 512;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
// floats of the prepared filter before what takes its filters' scales back,
constexpr int SCALES = 5120;
constexpr int IMAGE = 5160;                     // and before its filters as they were
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// parts of a float
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }

// What happens to an output value before it is stored: bias, then residual, then relu.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    value = value < 0.0f ? 0.0f : value;
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
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 64;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 192;"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ unsigned long long wc_settled_descriptor(unsigned long long value) { asm volatile("" : "+l"(value)); return value; }
__device__ __forceinline__ void wc_wgmma_halves_words(float (&sums)[20], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %25, 0; wgmma.mma_async.sync.aligned.m64n40k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19}, { %20, %21, %22, %23}, %24, adds, 1, 1, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[20]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums_but_1(float (&sums)[20]) { asm volatile("wgmma.wait_group.sync.aligned 1;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_2() { asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory"); }
__device__ __forceinline__ const float* wc_settled_address(const float* value) { asm volatile("" : "+l"(value)); return value; }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// Lines of x begin anywhere. In shared memory each is as far into 16 bytes as it is in x, so that it is copied by 16
// bytes.
struct Pitch { int line, plane; };     // elements from a line to the next, from a channel's lines to the next's

__device__ __forceinline__ Pitch pitch_of(int H, int W) { return {LINE + (W & 3), PLANE + ((H & 3) * (W & 3) & 3)}; }

// How far into 16 bytes the first element is that a tile's windows cover.
__device__ __forceinline__ int start_of(const Tile& tile, int H, int W) {
    const index_t row = tile.image * C * H + tile.p - PAD_TOP;
    return (int)((row * W + tile.q - PAD_LEFT) & 3);
}

// The exponent field of the scale that brings a largest magnitude to 2^14 and more, below 2^15: at most that of 2^126,
// with which subnormal floats become whole multiples of a half's least.
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }

// The low parts of two floats that are scaled already, times 2^11, as a word.
__device__ __forceinline__ unsigned low_parts(float first, float second, unsigned high) {
    return wc_floats_to_halves((first - wc_half_low_to_float(high)) * 2048.0f,
        (second - wc_half_high_to_float(high)) * 2048.0f);
}

// The bits of the largest magnitude of some floats, without NaN, and of the least one that is not zero, doubled, less
// one.
struct Range {
    float largest;
    unsigned least;

    __device__ __forceinline__ void include(float value) {
        largest = fmaxf(largest, fabsf(value));
        least = min(least, __float_as_uint(value) * 2u - 1u);
    }

    __device__ __forceinline__ uint2 of_warp() const {
        return make_uint2(__reduce_max_sync(0xffffffffu, __float_as_uint(largest)),
            __reduce_min_sync(0xffffffffu, least));
    }
};

// Whether the least lies so little below the largest, by exponents, that it keeps its digits beside it; a power of two
// counts as the one below.
__device__ __forceinline__ bool is_kept(uint2 range) { return (range.y >> 24) + KEPT_DIGITS >= range.x >> 23; }

// A float, or 0 in place of one that is not finite: it sets no scale.
__device__ __forceinline__ float finite_or_zero(float value) { return fabsf(value) <= 3.402823466e38f ? value : 0.0f; }

// Four elements of a line, some of which stand outside of the image.
__device__ __forceinline__ void copy_edge(element* to, const element* line, int first, bool reached, int W) {
    element elements[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int at = first + i;
        elements[i] = reached && (unsigned)at < (unsigned)W ? __ldg(line + at) : (element)0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = elements[i];
}

// The pieces of a line: those from `begin` to `behind` are copied as they lie, of those from `first` to `last` some
// elements stand in the image, of others none.
struct Pieces { int first, begin, behind, last; };

__device__ __forceinline__ Pieces pieces_of(bool reached, int first_piece, int end, int W) {
    if (!reached) return {0, 0, 0, 0};
    const int first = min(max(-first_piece, 0) / 4, PIECES), last = max(min((W - first_piece + 3) / 4, PIECES), first);
    const int begin = min(max(3 - first_piece, 0) / 4, PIECES),
        behind = max(min((end - first_piece) / 4, PIECES), begin);
    return {first, begin, behind, last};
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy. `landed`
// counts the lines, their bytes, and the warps, which write what is not copied as it lies.
__device__ __forceinline__ void copy_pixels(element* to, unsigned long long* landed, const element* x, const Tile& tile,
        int thread, int H, int W, Pitch pitch) {
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
    const int start = start_of(tile, H, W);
    // a thread has whole lines, and their ends
#pragma unroll 1
    for (int line = thread % 32 * COPIERS + thread / 32; line < LINES; line += COPIERS * 32) {
        const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
        const int h = top + row;
        const bool reached = (unsigned)h < (unsigned)H;
        const int end = W;
        const element* const from = x + ((tile.image * C + channel) * H + h) * W;
        const int at = start + row * pitch.line + channel * pitch.plane;        // where `left` lies in shared memory
        element* const line_to = to + (at & ~3);
        const int first_piece = left - (at & 3);
        const Pieces pieces = pieces_of(reached, first_piece, end, W);
        const int bytes = (pieces.behind - pieces.begin) * 16;
        wc_barrier_expect(landed, bytes);
        if (bytes > 0) wc_bulk_load(line_to + pieces.begin * 4, from + first_piece + pieces.begin * 4, bytes, landed);
        if (pieces.first < pieces.begin) copy_edge(line_to + pieces.first * 4, from, first_piece + pieces.first * 4,
            reached, W);
        if (pieces.behind < pieces.last) copy_edge(line_to + pieces.behind * 4, from, first_piece + pieces.behind * 4,
            reached, W);
    }
    // PIECE_LANES threads have a line's pieces outside of the image, if the tile has any
    if (top < 0 || top + HALO_ROWS > H || left < 0 || left + (PIECES - 1) * 4 >= W) {
#pragma unroll 1
        for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
            const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
            const int h = top + row;
            const bool reached = (unsigned)h < (unsigned)H;
            const int end = W;
            // where `left` lies in shared memory
            const int at = start + row * pitch.line + channel * pitch.plane;
            element* const line_to = to + (at & ~3);
            const Pieces pieces = pieces_of(reached, left - (at & 3), end, W);
#pragma unroll 1
            for (int i = thread % PIECE_LANES; i < PIECES + pieces.first - pieces.last; i += PIECE_LANES) {
                const int piece = i < pieces.first ? i : i - pieces.first + pieces.last;
                *(uint4*)(line_to + piece * 4) = make_uint4(0u, 0u, 0u, 0u);
            }
        }
    }
    wc_fence_proxy_async();             // these stores come before later bulk copies to the same memory
    __syncwarp();
    if (thread % 32 == 0) wc_barrier_arrive(landed);
}

// A line of a tile's pixels as they were copied, from the first element that windows read on.
__device__ __forceinline__ const element* line_of(const element* raw, int line, int start, Pitch pitch) {
    return raw + start + line % HALO_ROWS * pitch.line + line / HALO_ROWS * pitch.plane;
}

// A thread's words of LINES_AT_ONCE lines, LINES_APART from each other, as floats: an even element and the two behind
// it. Behind the last element, where weights are zeros, that one stands again, and behind the last line.
__device__ __forceinline__ void load_words(float (&words)[LINES_AT_ONCE][ROUNDS][3], const element* raw, int line,
        int thread, int start, Pitch pitch) {
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; ++i) {
        const element* const from = line_of(raw, min(line + i * LINES_APART, LINES - 1), start, pitch);
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round)
#pragma unroll
            for (int e = 0; e < 3; ++e) words[i][round][e] =
                from[min((round * LINE_LANES + thread % LINE_LANES) * 2 + e, COVERED - 1)];
    }
}

// The range of a thread's words; `infinite`: some may be infinite, and set no scale.
__device__ __forceinline__ Range range_of(const element* raw, int thread, bool infinite, int start, Pitch pitch) {
    Range range = {0.0f, 0xffffffffu};
#pragma unroll 1
    for (int line = thread / LINE_LANES; line < LINES; line += LINES_AT_ONCE * LINES_APART) {
        float words[LINES_AT_ONCE][ROUNDS][3];
        load_words(words, raw, line, thread, start, pitch);
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE * ROUNDS; ++i) {
            const float* const word = words[i / ROUNDS][i % ROUNDS];
            range.include(infinite ? finite_or_zero(word[0]) : word[0]);
            range.include(infinite ? finite_or_zero(word[1]) : word[1]);
        }
    }
    return range;
}

// Scales a tile's pixels, by one power of two, and leaves them in halves, in two parts, in `to`, once from each even
// element on, once from each odd one. With these goes what takes the scale back, and where some pixel lies so far below
// the largest that it loses digits, what a sum must not lie below for them to matter. By the warps that copied them,
// LINE_LANES threads a line.
__device__ __forceinline__ void split_tile(unsigned* to, float2* scale_of_tile, const element* raw, uint2* ranges,
        unsigned long long* freed, unsigned parity, int thread, int start, Pitch pitch) {
    Range range = range_of(raw, thread, false, start, pitch);
    if (!(range.largest <= 3.402823466e38f)) range = range_of(raw, thread, true, start, pitch);
    uint2 of_tile = range.of_warp();
    if (thread % 32 == 0) ranges[thread / 32] = of_tile;
    wc_sync_threads(1 + threadIdx.x / (COPIERS * 32), COPIERS * 32);
#pragma unroll
    for (int warp = 0; warp < COPIERS; ++warp) {
        of_tile.x = max(of_tile.x, ranges[warp].x);
        of_tile.y = min(of_tile.y, ranges[warp].y);
    }
    const unsigned exponent = scale_exponent(of_tile.x);
    const float scale = __uint_as_float(exponent << 23);
    wc_barrier_wait(freed, parity);         // the products have read what was here
    // infinite beside pixels of 2^70 and more, whose sums are made anew: a few of these may outweigh all other products
    const unsigned restoring = exponent > 71u ? 254u - exponent : 255u;
    if (thread == 0) *scale_of_tile =
        make_float2(__uint_as_float(restoring << 23), is_kept(of_tile) ? 0.0f : LEAST_SUM);
#pragma unroll 1
    for (int line = thread / LINE_LANES; line < LINES; line += LINES_AT_ONCE * LINES_APART) {
        float words[LINES_AT_ONCE][ROUNDS][3];
        load_words(words, raw, line, thread, start, pitch);
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE * ROUNDS; ++i) {
            const float* const word = words[i / ROUNDS][i % ROUNDS];
            const int number = i % ROUNDS * LINE_LANES + thread % LINE_LANES;
            const bool exists = line + i / ROUNDS * LINES_APART < LINES && number < WORDS;
            unsigned* const at = to + (line + i / ROUNDS * LINES_APART) * WORDS + number;
            const float first = word[0] * scale, second = word[1] * scale;
            const unsigned high = wc_floats_to_halves(first, second), low = low_parts(first, second, high);
            const float third = word[2] * scale;
            const unsigned odd_high = wc_floats_to_halves(second, third), odd_low = low_parts(second, third, odd_high);
            if (!exists) continue;
            at[0] = high;
            at[PART_WORDS] = low;
            at[COPY_WORDS] = odd_high;
            at[COPY_WORDS + PART_WORDS] = odd_low;
        }
    }
}

// Every second tile of the block, by each of two shifts of warps; a tile is on its way while the one before is split.
__device__ __forceinline__ void copy_tiles(unsigned* halves, float2* scales, element* raws, uint2* ranges,
        unsigned long long* landed, unsigned long long* filled, unsigned long long* freed, const element* x,
        count_t tiles, unsigned tiles_p, unsigned tiles_q, int H, int W, Pitch pitch) {
    const int thread = threadIdx.x % (COPIERS * 32);
    const int shift = threadIdx.x / (COPIERS * 32);
    raws += shift * (2 * RAW);
    ranges += shift * (2 * COPIERS);
    landed += 2 * shift;
    int turn = shift;
    count_t number = blockIdx.x + shift * gridDim.x;
    if (number >= tiles) return;
    unsigned parity = 1;
    Tile tile = tile_of(number, tiles_p, tiles_q);
    copy_pixels(raws, landed, x, tile, thread, H, W, pitch);
    unsigned odd = 0u, landed_parity = 0u;
    for (; number < tiles; number += 2 * gridDim.x) {
        const int start = start_of(tile, H, W);
        wc_sync_threads(1 + threadIdx.x / (COPIERS * 32), COPIERS * 32);   // the tile before is split
        tile = tile_of(number + 2 * gridDim.x, tiles_p, tiles_q);
        if (number + 2 * gridDim.x < tiles) copy_pixels(raws + (odd ^ 1u) * RAW, landed + (odd ^ 1u), x, tile, thread,
            H, W, pitch);
        wc_barrier_wait(landed + odd, landed_parity);
        landed_parity ^= odd;
        split_tile(halves + turn * BUFFER_WORDS, scales + turn, raws + odd * RAW, ranges + odd * COPIERS, freed + turn,
            parity, thread, start, pitch);
        __syncwarp();
        if (thread % 32 == 0) wc_barrier_arrive(filled + turn);
        odd ^= 1u;
        turn += 2;
        if (turn >= BUFFERS) {
            turn -= BUFFERS;
            parity ^= 1;
        }
    }
}

// The row and the column of a tile's output that a lane has of a run.
__device__ __forceinline__ int row_of(int run) { return run / RUNS_ACROSS; }
__device__ __forceinline__ int column_of(int run, int lane) { return run % RUNS_ACROSS * 8 + lane / 4; }

// The first of a lane's two filters of a block of eight columns.
__device__ __forceinline__ int filter_of(int block, int lane) { return block * 8 + lane % 4 * 2; }

// How many outputs of a filter lie in y before a tile's output of that number; its rows have columns beside y's.
__device__ __forceinline__ int stored_before(int output, int Q) {
    return output / TILE_Q * Q + min(output % TILE_Q, Q);
}

// Stores what a group has put together, by its four warps: of each filter `together` outputs, side by side from `to`
// on.
__device__ __forceinline__ void store_rows(float* to, const float* stage, const float* bias, const float* residual,
        int together, int filters, index_t plane) {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    stage += warp * STAGE_LINE + lane;
    index_t at = warp * plane + lane;
#pragma unroll 1
    for (int first = warp; first < filters; first += 4 * AT_ONCE) {
        float sums[AT_ONCE][STORE_ROUNDS];
#pragma unroll
        for (int i = 0; i < AT_ONCE * STORE_ROUNDS; ++i) sums[i / STORE_ROUNDS][i % STORE_ROUNDS] =
            stage[i / STORE_ROUNDS * (4 * STAGE_LINE) + i % STORE_ROUNDS * 32];
        stage += 4 * AT_ONCE * STAGE_LINE;
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const bool exists = first + 4 * i < filters;
            const float of_bias = exists ? __ldg(bias + first + 4 * i) : 0.0f;
#pragma unroll
            for (int round = 0; round < STORE_ROUNDS; ++round)
                if (exists && lane + round * 32 < together) to[at + round * 32] =
                    finish(sums[i][round], of_bias, residual[at + round * 32]);
            at += 4 * plane;
        }
    }
}

// The span and the pair in it that a lane has of a quad: four pairs side by side, or here always four of what is left
// of spans. Behind the last pair there are none: SPANS.
struct Pair { int span, number; };

__device__ __forceinline__ Pair pair_of(int quad, int lane) {
    const int left = quad * 4 + lane % 4;
    return {min(left / REST_PAIRS, SPANS), left % REST_PAIRS};
}

// Words from where a window begins to where one of its spans does.
__device__ __forceinline__ int span_at(int span) { return span / R * PLANE_WORDS + span % R * WORDS; }

// Where a pair of what is left lies, in words from this lane's first pair of the window. Behind the last one, where
// weights are zeros, the window's first.
__device__ __forceinline__ int place_of(int quad, int lane) {
    const Pair pair = pair_of(quad, lane);
    return pair.span == SPANS ? -(lane % 4) : span_at(pair.span) + pair.number - lane % 4;
}

// Where the window of an output of a tile begins, for this lane: every second column's begins with a word of the second
// copy.
__device__ __forceinline__ const unsigned* window_of(const unsigned* halves, int row, int column, int lane) {
    halves += column % 2 * COPY_WORDS;
    return halves + row * WORDS + column / 2 + lane % 4;
}

// What a lane has of a step: pairs of two windows, as the tensor cores take them.
struct Factors {
    unsigned high[STEP_DEPTHS][4], low[STEP_DEPTHS][4];
};

__device__ __forceinline__ void load_factors(Factors& factors, const unsigned* upper, const unsigned* lower,
        const int (&places)[REST_QUADS], int step) {
#pragma unroll
    for (int i = 0; i < 2 * STEP_DEPTHS; ++i) {
        const int quad = step * (2 * STEP_DEPTHS) + i;
        if (quad < QUADS) {
            const int place = places[quad];
            factors.high[i / 2][i % 2 * 2] = upper[place];
            factors.high[i / 2][i % 2 * 2 + 1] = lower[place];
            factors.low[i / 2][i % 2 * 2] = upper[place + PART_WORDS];
            factors.low[i / 2][i % 2 * 2 + 1] = lower[place + PART_WORDS];
        }
        else {
            factors.high[i / 2][i % 2 * 2] = factors.high[i / 2][i % 2 * 2 + 1] = 0u;
            factors.low[i / 2][i % 2 * 2] = factors.low[i / 2][i % 2 * 2 + 1] = 0u;
        }
    }
}

// Where an instruction's products of the filter lie, in cells from the first.
__device__ __forceinline__ int cells_of(int depth) {
    return depth / ROW_DEPTHS * ROW_CELLS + depth % ROW_DEPTHS * DEPTH_CELLS;
}

__device__ __forceinline__ void load_first(Factors (&factors)[SETS], const unsigned* upper, const unsigned* lower,
        const int (&places)[REST_QUADS]) {
#pragma unroll
    for (int step = 0; step < SETS - 1; ++step) load_factors(factors[step], upper, lower, places, step);
}

// The sums of 64 outputs and all filters of the tile by a group of four warps, whose first steps' factors are loaded.
// Tensor cores cut their sums, so those of high parts begin at zero in each step, and are added to the others while the
// step's small products are made: those of a low part, which is times 2^11.
__device__ __forceinline__ void sum_up(float (&sums)[SUMS], Factors (&factors)[SETS], const unsigned* upper,
        const unsigned* lower, const int (&places)[REST_QUADS], unsigned long long filters_at) {
    // else compilers keep many of what follows from it
    const unsigned long long high = wc_settled_descriptor(filters_at), low = high + LOW_CELLS;
    float parts[SUMS], small[SUMS];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const Factors& now = factors[step % SETS];
        wc_wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEP_DEPTHS; ++i)
            if (step * STEP_DEPTHS + i < DEPTHS) wc_wgmma_halves_words(parts, now.high[i],
                high + cells_of(step * STEP_DEPTHS + i), i > 0);
        wc_wgmma_commit();
#pragma unroll
        for (int i = 0; i < STEP_DEPTHS; ++i) {
            if (step * STEP_DEPTHS + i >= DEPTHS) continue;
            wc_wgmma_halves_words(small, now.low[i], high + cells_of(step * STEP_DEPTHS + i), step + i > 0);
            wc_wgmma_halves_words(small, now.high[i], low + cells_of(step * STEP_DEPTHS + i), true);
        }
        wc_wgmma_commit();
        if (step + SETS - 1 < STEPS) {
            wc_wgmma_wait_group_2();                // the factors of the step before are of no use any more
            load_factors(factors[(step + SETS - 1) % SETS], upper, lower, places, step + SETS - 1);
        }
        wc_wgmma_wait_sums_but_1(parts);
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = step > 0 ? sums[i] + parts[i] : parts[i];
    }
    wc_wgmma_wait_sums(small);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = fmaf(small[i], 4.8828125e-4f, sums[i]);
}

// The least and the largest of the filters' scales, which are taken back. The least is 0 where some filter has weights
// that lose digits.
__device__ __forceinline__ float2 range_of_scales(const float* scales, int lane) {
    float least = 3.402823466e38f, most = 0.0f;
    for (int i = lane; i < TILE_FILTERS; i += 32) {
        const float scale = __ldg(scales + i);
        least = fminf(least, fmaxf(scale, 0.0f));
        most = fmaxf(most, fabsf(scale));
    }
    return make_float2(__uint_as_float(__reduce_min_sync(0xffffffffu, __float_as_uint(least))),
        __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(most))));
}

// Both scales taken back: at once, where their products keep their digits. Beside factors that lose digits sums count
// from LEAST_SUM on; the others become NaN, and so are made anew.
__device__ __forceinline__ void restore(float (&sums)[SUMS], float2 of_tile, const float* scales, float2 range,
        int lane) {
    // compilers would keep an address for each scale
    const float* const of_lane = wc_settled_address(scales + filter_of(0, lane));
    float of_sums[BLOCKS][2];
#pragma unroll
    for (int i = 0; i < BLOCKS * 2; ++i) of_sums[i / 2][i % 2] = __ldg(of_lane + filter_of(i / 2, 0) + i % 2);
    const bool at_once = of_tile.x * range.x >= 1.17549435e-38f && of_tile.x * range.y <= 3.402823466e38f;
    if (of_tile.y > 0.0f || !at_once) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            const float least = of_sums[i / 4][i % 2] < 0.0f ? LEAST_SUM : of_tile.y;
            if (!(fabsf(sums[i]) >= least)) sums[i] = __uint_as_float(0x7fffffffu);
        }
    }
    if (at_once) {
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] *= of_tile.x * of_sums[i / 4][i % 2];
    } else {
        // the larger one first: the other alone may leave no digits
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * fmaxf(of_tile.x, fabsf(of_sums[i / 4][i % 2]))
            * fminf(of_tile.x, fabsf(of_sums[i / 4][i % 2]));
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
    const int h = p - PAD_TOP + r, w = q - PAD_LEFT + s;
    const bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    return inside ? __ldg(x + ((image * C + channel) * H + h) * W + w) : (element)0;
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
        add_products(anew, upper, lower, __ldg(first + number), __ldg(second + number));
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

// The filter as shared memory has it: [tile of filters][row][filter][products, of each part] in halves, cells of 16
// bytes in the order in which the tensor cores look for them, zeros in what pairs have beside a window. Each filter is
// scaled by a power of two; behind them is what takes these back, negative where a weight is so far below the largest
// that it loses digits; then the filter as it was. Once for each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    __shared__ unsigned largest[SIDE_THREADS / 32], least[SIDE_THREADS / 32];
    unsigned* const parts = (unsigned*)filter;
    for (int number = blockIdx.x; number < FILTER_ROWS; number += gridDim.x) {
        const int row = number % TILE_FILTERS;
        const int k = number - row + filter_of(row / 8, row % 8 / 2) + row % 2;
        Range range = {0.0f, 0xffffffffu};
        for (int i = threadIdx.x; k < K && i < WINDOW; i += SIDE_THREADS) {
            const float weight = w[k * WINDOW + i];
            filter[IMAGE + k * WINDOW + i] = weight;
            range.include(finite_or_zero(weight));
        }
        uint2 of_filter = range.of_warp();
        if (threadIdx.x % 32 == 0) {
            largest[threadIdx.x / 32] = of_filter.x;
            least[threadIdx.x / 32] = of_filter.y;
        }
        __syncthreads();
        for (int warp = 0; warp < SIDE_THREADS / 32; ++warp) {
            of_filter.x = max(of_filter.x, largest[warp]);
            of_filter.y = min(of_filter.y, least[warp]);
        }
        __syncthreads();
        const unsigned exponent = scale_exponent(of_filter.x);
        const float scale = __uint_as_float(exponent << 23),
            restoring = of_filter.x > 0u ? __uint_as_float((254u - exponent) << 23) : 1.0f;
        if (threadIdx.x == 0) filter[SCALES + k] = is_kept(of_filter) ? restoring : -restoring;
        for (int i = threadIdx.x; i < ROWS * ROW_WORDS; i += SIDE_THREADS) {
            const Pair pair = pair_of(i / 4, i);
            const int span = pair.span;
            float weights[2];
            for (int half = 0; half < 2; ++half) {
                const int of_span = pair.number * 2 + half;
                const bool exists = k < K && span < SPANS && of_span < SPAN;
                weights[half] = exists ? w[k * WINDOW + span * S + of_span] * scale : 0.0f;
            }
            const unsigned high = wc_floats_to_halves(weights[0], weights[1]);
            unsigned* const to = parts
                + (number / TILE_FILTERS * FILTER_CELLS + i / ROW_WORDS * ROW_CELLS + row * 8) * 4 + i % 4;
            const int cell = i % ROW_WORDS / 4;
            to[(cell ^ row % 8) * 4] = high;
            to[(cell + LOW_CELLS ^ row % 8) * 4] = low_parts(weights[0], weights[1], high);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_float32_5x5(const float* __restrict__ x, float* __restrict__ filter, const float* __restrict__ bias,
        const float* residual, float* y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned* const halves = (unsigned*)(shared + HALVES_AT);
    float2* const scales = (float2*)(shared + SCALES_AT);
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + BUFFERS;
    unsigned long long* const filter_there = freed + BUFFERS;
    unsigned long long* const landed = filter_there + 1;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int first_k = blockIdx.y * TILE_FILTERS;         // its first filter
    if (blockIdx.x >= tiles) return;
    if (threadIdx.x == 0) {
        for (int buffer = 0; buffer < BUFFERS; ++buffer) {
            wc_barrier_init(filled + buffer, COPIERS);
            wc_barrier_init(freed + buffer, 4);
        }
        wc_barrier_init(filter_there, 1);
        for (int raw = 0; raw < RAWS; ++raw) wc_barrier_init(landed + raw, LINES + COPIERS);
        wc_fence_barrier_init();
        // the filter, for all tiles
        wc_barrier_expect(filter_there, FILTER_BYTES);
        wc_bulk_load(shared, filter + blockIdx.y * (FILTER_BYTES / 4), FILTER_BYTES, filter_there);
    }
    __syncthreads();
    if (threadIdx.x < THREADS - GROUPS * 128) {
        // those that copy, which need fewer registers
        wc_setmaxnreg_dec();
        const Pitch pitch = pitch_of(H, W);
        copy_tiles(halves, scales, (element*)(shared + RAWS_AT), (uint2*)(shared + RANGES_AT), landed, filled, freed, x,
            tiles, tiles_p, tiles_q, H, W, pitch);
    } else {
        // the groups that multiply, each every GROUPS-th tile of the block
        wc_setmaxnreg_inc();
        const int group = (threadIdx.x - (THREADS - GROUPS * 128)) / 128, warp = threadIdx.x % 128 / 32,
            lane = threadIdx.x % 32;
        const float2 scales_range = range_of_scales(filter + SCALES + first_k, lane);
        int places[REST_QUADS];
#pragma unroll
        for (int i = 0; i < REST_QUADS; ++i) places[i] = place_of(i, lane);
        float* const stage = (float*)(shared + STAGES_AT) + group * STAGE;
        // all of it is loaded, too, where fewer outputs are put together
        for (int i = threadIdx.x % 128; i < STAGE; i += 128) stage[i] = 0.0f;
        // else found anew each time
        const unsigned long long filters_at = wc_settled_descriptor(wc_descriptor_rows_128(shared));
        wc_barrier_wait(filter_there, 0);
        int turn = group;
        unsigned parity = 0;
        for (count_t number = blockIdx.x + group * gridDim.x; number < tiles; number += GROUPS * gridDim.x) {
            const Tile tile = tile_of(number, tiles_p, tiles_q);
            const unsigned* const of_tile = halves + turn * BUFFER_WORDS;
            wc_barrier_wait(filled + turn, parity);
            const float2 scale = scales[turn];
            // of the tile's rows that y has, columns beside y's too
            const int outputs = min(ITEMS * 64, (P - tile.p) * TILE_Q);
            Factors factors[SETS];
            load_first(factors, window_of(of_tile, row_of(warp * 2), column_of(warp * 2, lane), lane),
                window_of(of_tile, row_of(warp * 2 + 1), column_of(warp * 2 + 1, lane), lane), places);
#pragma unroll 1
            for (int first = 0; first < outputs; first += TOGETHER * 64) {
                const int last = min(first + TOGETHER * 64, outputs), before = stored_before(first, Q);
                wc_sync_threads(FIRST_BARRIER + group, 128);            // the outputs before are stored
#pragma unroll 1
                for (int item = first / 64; item * 64 < last; ++item) {
                    // this lane's outputs: column lane / 4 of either run of eight of its warp
                    const int run = item * 8 + warp * 2, p = tile.p + row_of(run), other_p = tile.p + row_of(run + 1),
                        q = tile.q + column_of(run, lane), other_q = tile.q + column_of(run + 1, lane);
                    float sums[SUMS];
                    sum_up(sums, factors, window_of(of_tile, row_of(run), column_of(run, lane), lane),
                        window_of(of_tile, row_of(run + 1), column_of(run + 1, lane), lane), places, filters_at);
                    if ((item + 1) * 64 < outputs) load_first(factors,
                        window_of(of_tile, row_of(run + 8), column_of(run + 8, lane), lane),
                        window_of(of_tile, row_of(run + 9), column_of(run + 9, lane), lane), places);
                    restore(sums, scale, filter + SCALES + first_k, scales_range, lane);
                    mend(sums, x, filter, tile.image, p, q, other_p, other_q, first_k, lane, P, Q, H, W);
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        if ((half ? other_q : q) >= Q) continue;
                        float* const to = stage + stored_before((run + half) * 8 + lane / 4, Q) - before;
#pragma unroll
                        for (int n = 0; n < BLOCKS; ++n)
#pragma unroll
                            for (int i = 0; i < 2; ++i) to[(filter_of(n, lane) + i) * STAGE_LINE] =
                                sums[4 * n + 2 * half + i];
                    }
                }
                wc_sync_threads(FIRST_BARRIER + group, 128);
                const index_t plane = (index_t)P * Q,
                    at = (tile.image * K + first_k) * plane + (index_t)tile.p * Q + before;
                store_rows(y + at, stage, bias + first_k, residual + at, stored_before(last, Q) - before,
                    min(TILE_FILTERS, K - first_k), plane);
            }
            __syncwarp();               // all lanes have loaded their factors
            if (lane == 0) wc_barrier_arrive(freed + turn);
            turn += GROUPS;
            if (turn >= BUFFERS) {
                turn -= BUFFERS;
                parity ^= 1;
            }
        }
    }
}
