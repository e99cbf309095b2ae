// warpconv 0.1.0: taps_float32, float32. Generated from templates/taps_float32/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,3 --filter 64,3,3 --padding 1 --layout NHWC --precision tf32 --epilogue bias,relu \
//     --arch sm_90a --algorithm taps_float32 \
//     --set tile_p=32 --set tile_q=16 --set filters=64 --set passes=1 --set shares=1 --set groups=3 \
//     --set buffers=6 --set raws=2 --set copiers=4 --set shifts=2 --set vector=4 --set store_vector=4 \
//     --set stores=direct --set together=1
//
// layer  x[N, H, W, 3] * w[64, 3, 3, 3] -> y[N, P, Q, 64], stride 1, padding 1, float32 NHWC, tf32 products, then bias,
//        relu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4); all else is a constant of the text
// plan   tiles of 32 x 16 outputs x 64 filters, factors scaled and rounded to halves, 2 instructions for 27 products,
//        by 3 warp groups and 8 copying warps, 83032 bytes of shared memory
// cost   a warp's 16 outputs of 64 filters: 8 warp loads, 0 shuffles, 1024 FMA a lane, about 112 registers (direct: 864
//        loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters, factors scaled by powers of
// two and rounded to halves. Of a block 8 warps copy the lines of x that its outputs' windows cover to shared memory as
// they lie there, and leave them there in halves, the next tile's while groups of four warps, which have a tile each,
// multiply. A thread of these loads pairs of what lies side by side in its two windows to registers. The filter, in the
// order of these pairs, stays in shared memory.
constexpr int C = 3;                            // channels of x
constexpr int K = 64;                           // channels of y: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 32;                      // output rows of a tile
constexpr int TILE_Q = 16;                      // output columns of it
constexpr int TILE_FILTERS = 64;                // filters of it
constexpr int FILTER_ROWS = 64;                 // filters of all tiles
constexpr int BLOCKS = 8;                       // times eight filters of a tile
constexpr int GROUPS = 3;                       // groups of four warps that multiply
constexpr int ITEMS = 8;                        // of a tile: 64 outputs at a time, eight runs of eight
constexpr int RUNS_ACROSS = 2;                  // runs of a tile's row
constexpr int SUMS = 32;                        // sums of a thread
constexpr int WINDOW = 27;                      // products of an output
constexpr int SPAN = 9;                         // of a window's elements that lie side by side in x,
constexpr int SPANS = 3;                        // and such spans of a window
constexpr int DEPTHS = 2;                       // instructions of 16 products: all pairs
constexpr int STEP_DEPTHS = 4;                  // of these a step
constexpr int STEPS = 1;                        // of the reduction
constexpr int SETS = 1;                         // steps whose factors a thread has at a time
constexpr int SPAN_QUADS = 3;                   // quads of all spans,
constexpr int REST_QUADS = 1;                   // quads of pairs that are left of several spans,
constexpr int QUADS = 4;                        // and all
constexpr int ROW_DEPTHS = 4;                   // instructions that take the products of one,
constexpr int ROW_WORDS = 32;                   // words that these are
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter,
constexpr int ROW_CELLS = 512;                  // a row of all filters of a tile,
constexpr int FILTER_CELLS = 512;               // and all rows
constexpr int FILTER_BYTES = 8192;              // of a block's filters
constexpr int PIXEL = 3;                        // elements of a pixel that lie side by side in x
constexpr int HALO_ROWS = 34;                   // input rows that a tile's windows cover
constexpr int LINES = 34;                       // input rows that a tile's windows cover
constexpr int LINE = 56;                        // elements from one to the next as they are copied
constexpr int LEAD = 1;                         // of a line's before the first that a window reads
constexpr int PIECES = 14;                      // pieces of a line: of 16 bytes,
constexpr int PIECE_LANES = 4;                  // threads that have those of a line outside of the image
constexpr int RAW = 1904;                       // elements of a tile's pixels so
constexpr int RAWS = 4;                         // and such tiles at a time
constexpr int COVERED = 54;                     // elements of a line that windows read
constexpr int WORDS = 27;                       // of a line of halves
constexpr int LINE_LANES = 32;                  // lanes that split a line, a word each at a time,
constexpr int ROUNDS = 1;                       // so often
constexpr int LINES_APART = 4;                  // lines at a time by all threads that copy a tile,
constexpr int LINES_AT_ONCE = 5;                // and of these a thread has so many at once
// of all lines: from those that begin with an even element to those that begin with an odd one,
constexpr int COPY_WORDS = 918;
constexpr int BUFFER_WORDS = 1836;              // and of a tile
constexpr int BUFFERS = 6;                      // tiles' pixels in halves at a time
// binary digits that a factor may be below the largest of its scale without losing any
constexpr unsigned KEPT_DIGITS = 28;
// of factors as they are scaled: what sums must not lie below where some lose digits
constexpr float LEAST_SUM = 864.0;
constexpr int RAWS_AT = 8192;                   // bytes before the pixels as they are copied,
constexpr int HALVES_AT = 38656;                // before those in halves,
constexpr int SCALES_AT = 82720;                // before their scales,
constexpr int RANGES_AT = 82768;                // before what copying warps tell each other,
constexpr int BARRIERS_AT = 82896;              // and before the barriers
constexpr int COPIERS = 4;                      // warps that copy a tile's pixels and split them
constexpr int THREADS = 640;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
// floats of the prepared filter before what takes its filters' scales back,
constexpr int SCALES = 2048;
constexpr int IMAGE = 2112;                     // and before its filters as they were
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// parts of a float
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
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
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 112;"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ unsigned long long wc_settled_descriptor(unsigned long long value) { asm volatile("" : "+l"(value)); return value; }
__device__ __forceinline__ void wc_wgmma_halves_words(float (&sums)[32], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, { %32, %33, %34, %35}, %36, adds, 1, 1, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[32]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : : "memory"); }
__device__ __forceinline__ const float* wc_settled_address(const float* value) { asm volatile("" : "+l"(value)); return value; }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// The exponent field of the scale that brings a largest magnitude to 2^14 and more, below 2^15: at most that of 2^126,
// with which subnormal floats become whole multiples of a half's least.
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }

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
        elements[i] = reached && (unsigned)at < (unsigned)(W * PIXEL) ? __ldg(line + at) : (element)0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = elements[i];
}

// The pieces of a line: those from `begin` to `behind` are copied as they lie, of those from `first` to `last` some
// elements stand in the image, of others none.
struct Pieces { int first, begin, behind, last; };

__device__ __forceinline__ Pieces pieces_of(bool reached, int first_piece, int end, int W) {
    if (!reached) return {0, 0, 0, 0};
    const int first = min(max(-first_piece, 0) / 4, PIECES),
        last = max(min((W * PIXEL - first_piece + 3) / 4, PIECES), first);
    const int begin = min(max(3 - first_piece, 0) / 4, PIECES),
        behind = max(min((end - first_piece) / 4, PIECES), begin);
    return {first, begin, behind, last};
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy. `landed`
// counts the lines, their bytes, and the warps, which write what is not copied as it lies.
__device__ __forceinline__ void copy_pixels(element* to, unsigned long long* landed, const element* x, const Tile& tile,
        int thread, int H, int W) {
    const int top = tile.p - PAD_TOP, left = (tile.q - PAD_LEFT) * PIXEL;
    // a thread has whole lines, and their ends
#pragma unroll 1
    for (int line = thread % 32 * COPIERS + thread / 32; line < LINES; line += COPIERS * 32) {
        const int h = top + line;
        const bool reached = (unsigned)h < (unsigned)H;
        const int end = W * PIXEL;
        const element* const from = x + (tile.image * H + h) * (W * PIXEL);
        const int at = LEAD + line * LINE;        // where `left` lies in shared memory
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
    if (top < 0 || top + HALO_ROWS > H || left < 0 || left + (PIECES - 1) * 4 >= W * PIXEL) {
#pragma unroll 1
        for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
            const int h = top + line;
            const bool reached = (unsigned)h < (unsigned)H;
            const int end = W * PIXEL;
            const int at = LEAD + line * LINE;        // where `left` lies in shared memory
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
__device__ __forceinline__ const element* line_of(const element* raw, int line) {
    return raw + LEAD + line * LINE;
}

// A thread's words of LINES_AT_ONCE lines, LINES_APART from each other, as floats: an even element and the two behind
// it. Behind the last element, where weights are zeros, that one stands again, and behind the last line.
__device__ __forceinline__ void load_words(float (&words)[LINES_AT_ONCE][ROUNDS][3], const element* raw, int line,
        int thread) {
#pragma unroll
    for (int i = 0; i < LINES_AT_ONCE; ++i) {
        const element* const from = line_of(raw, min(line + i * LINES_APART, LINES - 1));
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round)
#pragma unroll
            for (int e = 0; e < 3; ++e) words[i][round][e] =
                from[min((round * LINE_LANES + thread % LINE_LANES) * 2 + e, COVERED - 1)];
    }
}

// The range of a thread's words; `infinite`: some may be infinite, and set no scale.
__device__ __forceinline__ Range range_of(const element* raw, int thread, bool infinite) {
    Range range = {0.0f, 0xffffffffu};
#pragma unroll 1
    for (int line = thread / LINE_LANES; line < LINES; line += LINES_AT_ONCE * LINES_APART) {
        float words[LINES_AT_ONCE][ROUNDS][3];
        load_words(words, raw, line, thread);
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE; ++i) {
            const float* const word = words[i][0];
            range.include(infinite ? finite_or_zero(word[0]) : word[0]);
            range.include(infinite ? finite_or_zero(word[1]) : word[1]);
        }
    }
    return range;
}

// Scales a tile's pixels, by one power of two, and leaves them in halves in `to`, once from each even element on, once
// from each odd one. With these goes what takes the scale back, and where some pixel lies so far below the largest that
// it loses digits, what a sum must not lie below for them to matter. By the warps that copied them, LINE_LANES threads
// a line.
__device__ __forceinline__ void split_tile(unsigned* to, float2* scale_of_tile, const element* raw, uint2* ranges,
        unsigned long long* freed, unsigned parity, int thread) {
    Range range = range_of(raw, thread, false);
    if (!(range.largest <= 3.402823466e38f)) range = range_of(raw, thread, true);
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
        load_words(words, raw, line, thread);
#pragma unroll
        for (int i = 0; i < LINES_AT_ONCE; ++i) {
            const float* const word = words[i][0];
            const int number = thread % LINE_LANES;
            const bool exists = line + i * LINES_APART < LINES && number < WORDS;
            unsigned* const at = to + (line + i * LINES_APART) * WORDS + number;
            const float first = word[0] * scale, second = word[1] * scale;
            const unsigned high = wc_floats_to_halves(first, second);
            const float third = word[2] * scale;
            const unsigned odd_high = wc_floats_to_halves(second, third);
            if (!exists) continue;
            at[0] = high;
            at[COPY_WORDS] = odd_high;
        }
    }
}

// Every second tile of the block, by each of two shifts of warps; a tile is on its way while the one before is split.
__device__ __forceinline__ void copy_tiles(unsigned* halves, float2* scales, element* raws, uint2* ranges,
        unsigned long long* landed, unsigned long long* filled, unsigned long long* freed, const element* x,
        count_t tiles, unsigned tiles_p, unsigned tiles_q, int H, int W) {
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
    copy_pixels(raws, landed, x, tile, thread, H, W);
    unsigned odd = 0u, landed_parity = 0u;
    for (; number < tiles; number += 2 * gridDim.x) {
        wc_sync_threads(1 + threadIdx.x / (COPIERS * 32), COPIERS * 32);   // the tile before is split
        tile = tile_of(number + 2 * gridDim.x, tiles_p, tiles_q);
        if (number + 2 * gridDim.x < tiles) copy_pixels(raws + (odd ^ 1u) * RAW, landed + (odd ^ 1u), x, tile, thread,
            H, W);
        wc_barrier_wait(landed + odd, landed_parity);
        landed_parity ^= odd;
        split_tile(halves + turn * BUFFER_WORDS, scales + turn, raws + odd * RAW, ranges + odd * COPIERS, freed + turn,
            parity, thread);
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

// The first of a lane's two filters of a block of eight columns: those of two blocks lie side by side.
__device__ __forceinline__ int filter_of(int block, int lane) { return block / 2 * 16 + lane % 4 * 4 + block % 2 * 2; }

// The span and the pair in it that a lane has of a quad: four pairs side by side, or four of what is left of spans.
// Behind the last pair there are none: SPANS.
struct Pair { int span, number; };

__device__ __forceinline__ Pair pair_of(int quad, int lane) {
    if (quad < SPAN_QUADS) return {quad, lane % 4};
    const int left = (quad - SPAN_QUADS) * 4 + lane % 4;
    return {min(left, SPANS), 4};
}

// Words from where a window begins to where one of its spans does.
__device__ __forceinline__ int span_at(int span) { return span * WORDS; }

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
    return halves + row * WORDS + column * PIXEL / 2 + lane % 4;
}

// What a lane has of a step: pairs of two windows, as the tensor cores take them.
struct Factors {
    unsigned high[STEP_DEPTHS][4];
};

__device__ __forceinline__ void load_factors(Factors& factors, const unsigned* upper, const unsigned* lower,
        const int (&places)[REST_QUADS], int step) {
#pragma unroll
    for (int i = 0; i < 2 * STEP_DEPTHS; ++i) {
        const int quad = step * (2 * STEP_DEPTHS) + i;
        if (quad < SPAN_QUADS) {
            const int place = span_at(quad);
            factors.high[i / 2][i % 2 * 2] = upper[place];
            factors.high[i / 2][i % 2 * 2 + 1] = lower[place];
        }
        else if (quad < QUADS) {
            const int place = places[quad - SPAN_QUADS];
            factors.high[i / 2][i % 2 * 2] = upper[place];
            factors.high[i / 2][i % 2 * 2 + 1] = lower[place];
        }
        else {
            factors.high[i / 2][i % 2 * 2] = factors.high[i / 2][i % 2 * 2 + 1] = 0u;
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
    for (int step = 0; step < SETS; ++step) load_factors(factors[step], upper, lower, places, step);
}

// The sums of 64 outputs and all filters of the tile by a group of four warps, whose first steps' factors are loaded.
// While a step is multiplied the factors of the next ones are loaded.
__device__ __forceinline__ void sum_up(float (&sums)[SUMS], Factors (&factors)[SETS], unsigned long long filters_at) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        wc_wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEP_DEPTHS; ++i)
            if (step * STEP_DEPTHS + i < DEPTHS) wc_wgmma_halves_words(sums, factors[0].high[i],
                filters_at + cells_of(step * STEP_DEPTHS + i), step + i > 0);
        wc_wgmma_commit();
    }
    wc_wgmma_wait_sums(sums);
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
    return inside ? __ldg(x + ((image * H + h) * W + w) * C + channel) : (element)0;
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

// The filter as shared memory has it: [tile of filters][row][filter][products] in halves, cells of 16 bytes in the
// order in which the tensor cores look for them, zeros in what pairs have beside a window. Each filter is scaled by a
// power of two; behind them is what takes these back, negative where a weight is so far below the largest that it loses
// digits; then the filter as it was. Once for each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    __shared__ unsigned largest[SIDE_THREADS / 32], least[SIDE_THREADS / 32];
    unsigned* const parts = (unsigned*)filter;
    for (int number = blockIdx.x; number < FILTER_ROWS; number += gridDim.x) {
        const int row = number % TILE_FILTERS;
        // so that what a lane stores lies side by side
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
        for (int i = threadIdx.x; i < ROW_WORDS; i += SIDE_THREADS) {
            const Pair pair = pair_of(i / 4, i);
            const int span = pair.span;
            float weights[2];
            for (int half = 0; half < 2; ++half) {
                const int of_span = pair.number * 2 + half;
                const bool exists = k < K && span < SPANS && of_span < SPAN;
                weights[half] = exists ? w[k * WINDOW + of_span % C * (R * S) + span * S + of_span / C] * scale : 0.0f;
            }
            const unsigned high = wc_floats_to_halves(weights[0], weights[1]);
            unsigned* const to = parts
                + (number / TILE_FILTERS * FILTER_CELLS + i / ROW_WORDS * ROW_CELLS + row * 8) * 4 + i % 4;
            const int cell = i % ROW_WORDS / 4;
            to[(cell ^ row % 8) * 4] = high;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_float32_3x3(const float* __restrict__ x, float* __restrict__ filter, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
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
        copy_tiles(halves, scales, (element*)(shared + RAWS_AT), (uint2*)(shared + RANGES_AT), landed, filled, freed, x,
            tiles, tiles_p, tiles_q, H, W);
    } else {
        // the groups that multiply, each every GROUPS-th tile of the block
        wc_setmaxnreg_inc();
        const int group = (threadIdx.x - (THREADS - GROUPS * 128)) / 128, warp = threadIdx.x % 128 / 32,
            lane = threadIdx.x % 32;
        const float2 scales_range = range_of_scales(filter + SCALES + first_k, lane);
        int places[REST_QUADS];
#pragma unroll
        for (int i = 0; i < REST_QUADS; ++i) places[i] = place_of(SPAN_QUADS + i, lane);
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
            Factors factors[SETS];
            load_first(factors, window_of(of_tile, row_of(warp * 2), column_of(warp * 2, lane), lane),
                window_of(of_tile, row_of(warp * 2 + 1), column_of(warp * 2 + 1, lane), lane), places);
#pragma unroll 1
            for (int item = 0; item < ITEMS; ++item) {
                // this lane's outputs: column lane / 4 of either run of eight of its warp
                const int run = item * 8 + warp * 2, p = tile.p + row_of(run), other_p = tile.p + row_of(run + 1),
                    q = tile.q + column_of(run, lane), other_q = tile.q + column_of(run + 1, lane);
                float sums[SUMS];
                sum_up(sums, factors, filters_at);
                if (item + 1 < ITEMS) load_first(factors,
                    window_of(of_tile, row_of(run + 8), column_of(run + 8, lane), lane),
                    window_of(of_tile, row_of(run + 9), column_of(run + 9, lane), lane), places);
                restore(sums, scale, filter + SCALES + first_k, scales_range, lane);
                mend(sums, x, filter, tile.image, p, q, other_p, other_q, first_k, lane, P, Q, H, W);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int of_p = half ? other_p : p, of_q = half ? other_q : q;
                    const bool inside = of_p < P && of_q < Q;
                    const index_t pixel = ((tile.image * P + of_p) * Q + of_q) * K;
#pragma unroll
                    for (int n = 0; n < BLOCKS; n += 2) {
                        const int k = first_k + filter_of(n, lane);
                        if (inside && k < K) {
                            const float4 of_bias = __ldg((const float4*)(bias + k));
                            *(float4*)(y + pixel + k) =
                                make_float4(finish(sums[4 * n + 2 * half], of_bias.x),
                                finish(sums[4 * n + 2 * half + 1], of_bias.y),
                                finish(sums[4 * n + 4 + 2 * half], of_bias.z),
                                finish(sums[4 * n + 4 + 2 * half + 1], of_bias.w));
                        }
                    }
                }
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
