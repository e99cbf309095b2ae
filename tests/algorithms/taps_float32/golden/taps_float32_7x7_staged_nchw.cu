// warpconv 0.1.0: taps_float32, float32. Generated from templates/taps_float32/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 64,7,7 --stride 2,2 --padding 3 --precision tf32x3 --epilogue bias \
//     --arch sm_90a --algorithm taps_float32 \
//     --set tile_p=4 --set tile_q=32 --set filters=64 --set groups=2 --set stages=5 --set vector=4 \
//     --set store_vector=1 --set stores=staged
//
// layer  x[N, 3, H, W] * w[64, 3, 7, 7] -> y[N, 64, P, Q], stride 2, padding 3, float32, tf32x3 products, then bias
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   tiles of 4 x 32 outputs x 64 filters, factors in two parts of TF32, by 2 warp groups, 3 copying warps and a
//        copying thread, the filter's 5 steps stay, 137904 bytes of shared memory
// cost   a warp's 16 outputs of 64 filters: 80 warp loads, 0 shuffles, 14592 FMA a lane, about 224 registers (direct:
//        4704 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters. Of a block 3 warps copy the
// pixels that its outputs' windows cover to shared memory, line by line as they lie in x, the next tile's while groups
// of four warps multiply this one's; a thread of these loads what the instruction takes of its two windows from there
// to registers. One more thread has the tensor memory accelerator (TMA) copy filters, which are split already.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// filter_map: filter as (32, 64, 10) of float32, the innermost first, tiled, boxes of 32 x 64 x 1, 128-byte swizzle,
// zeros outside
//
// y_map: y as (Q, P, 64, N) of float32, the innermost first, tiled, boxes of 32 x 2 x 64 x 1, 0-byte swizzle, zeros
// outside
constexpr int C = 3;                            // channels of x
constexpr int K = 64;                           // channels of y: filters
constexpr int R = 7;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 3;                      // rows of zeros above the image
constexpr int PAD_LEFT = 3;                     // columns of zeros to the left of the image
constexpr int TILE_P = 4;                       // output rows of a block's tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int TILE_FILTERS = 64;                // filters of it
constexpr int BLOCKS = 8;                       // times eight of these
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int ITEMS = 1;                        // of a tile: such a group's 64 outputs at a time
constexpr int RUNS_ACROSS = 4;                  // runs of eight columns of a tile's row; a group has eight at a time
constexpr int NEXT_RUN = 64;                    // bytes from a window to that of the other run of its warp
constexpr int SUMS = 32;                        // sums of a thread
constexpr int PRODUCTS = 147;                   // of an output
constexpr int STEP = 32;                        // of a step: a row of a filter in shared memory
constexpr int STEPS = 5;                        // of the reduction
constexpr int PAIRS = 2;                        // of these before the last, whose factors are loaded by turns
constexpr int LANE_VALUES = 8;                  // of a window that each of four lanes has of a step
constexpr int DEPTHS = 4;                       // of 8 products: a step's instructions
constexpr int LAST_DEPTHS = 3;                  // those of the last step, which has fewer products
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter
constexpr int PARTS = 2;                        // of a filter's factors
constexpr int FILTER_BYTES = 8192;              // of shared memory: a part of a step's filters,
constexpr int STAGE_BYTES = 16384;              // and all
constexpr int STAGES = 5;                       // of such steps: all, which stay
constexpr int HALO_ROWS = 13;                   // input rows that a tile's windows cover
constexpr int LINES = 39;                       // such rows of all channels
constexpr int LINE = 72;                        // elements of one in shared memory,
constexpr int BEFORE = 1;                       // of these before the first that a window reads
constexpr int VECTOR = 4;                       // elements of a copy
constexpr int PIECES = 18;                      // copies of a line,
constexpr int ROUNDS = 1;                       // of 32 lanes at a time
constexpr int PLANE = 936;                      // elements of a channel in shared memory
constexpr int HALO = 2808;                      // elements of a tile's pixels there
constexpr int BOXES = 1;                        // in which a group's outputs are copied from there,
constexpr int BOX_FILTERS = 64;                 // filters of one
constexpr int STAGED_BYTES = 16384;             // of a group's outputs
constexpr int STAGED = 81920;                   // where they lie,
constexpr int HALOS = 114688;                   // and pixels, two tiles' by turns,
constexpr int OFFSETS = 137152;                 // and from where a window begins to each of its elements,
constexpr int BARRIERS = 137792;                // and the barriers
constexpr int COPIERS = 3;                      // warps that copy pixels
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
constexpr long long FLOATS = 20480;             // floats of the prepared filter: where its filters are as they were
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// barriers in shared memory, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 224;"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ void wc_sync_threads(int barrier, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }
__device__ __forceinline__ void wc_tma_store_4(const TensorMap* map, const void* from, int c0, int c1, int c2, int c3) { asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, { %2, %3, %4, %5}], [%1];" :: "l"(map), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
__device__ __forceinline__ void wc_tma_stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_tma_stores_read_all() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wc_tma_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_tf32s_words(float (&sums)[32], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %37, 0; wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, { %32, %33, %34, %35}, %36, adds, 1, 1; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[32]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : : "memory"); }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// One thread's: all steps of the filter, to stay.
__device__ __forceinline__ void fetch_filters(unsigned char* shared, unsigned long long* filled,
        const TensorMap* filter_map, int first_k) {
    for (int step = 0; step < STEPS; ++step) {
        wc_barrier_expect(filled + step, STAGE_BYTES);
        for (int part = 0; part < PARTS; ++part)
            wc_tma_load_3(shared + step * STAGE_BYTES + part * FILTER_BYTES, filter_map, filled + step, 0, first_k,
                step * PARTS + part);
    }
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// The pixels that a tile's windows cover, a line of the image by each warp in turn, and what stands outside of the
// image.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int warp, int lane, int H,
        int W) {
    const int top = tile.p * STRIDE_H - PAD_TOP, left = (tile.q * STRIDE_W - PAD_LEFT) - BEFORE;
#pragma unroll 1
    for (int line = warp; line < LINES; line += COPIERS) {
        const int h = top + line % HALO_ROWS;
        const bool reached = (unsigned)h < (unsigned)H;
        const element* const from = x + ((tile.image * C + line / HALO_ROWS) * H + h) * W;
        element* const line_to = to + line * LINE;
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
            const int piece = round * 32 + lane;
            const int at = left + piece * VECTOR;
            const bool inside = reached && (unsigned)at < (unsigned)W;
            wc_copy_async_zfill_16(piece < PIECES, line_to + piece * VECTOR, inside ? from + at : x, inside);
        }
    }
}

// All tiles of the block, by COPIERS warps.
__device__ __forceinline__ void copy_tiles(element* halos, unsigned long long* filled_halos,
        unsigned long long* freed_halos, const element* x, count_t tiles, unsigned tiles_p, unsigned tiles_q, int H,
        int W) {
    const int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32;
    int turn = 0;
    unsigned parity = 1;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        wc_barrier_wait(freed_halos + turn, parity);
        copy_pixels(halos + turn * HALO, x, tile_of(number, tiles_p, tiles_q), warp, lane, H, W);
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        __syncwarp();
        if (lane == 0) wc_barrier_arrive(filled_halos + turn);
        parity ^= turn;
        turn ^= 1;
    }
}

// A float rounded to TF32, which keeps 11 of its 24 binary digits; ties away from zero. NaN may become zero.
__device__ __forceinline__ unsigned rounded(unsigned bits) { return (bits + 0x1000u) & 0xffffe000u; }

// Splits a factor times 2^24 into two parts of TF32: the high one takes its place, the low one is returned. The scale
// keeps the low digits of subnormal floats, 13 of which TF32 does not have. Of a factor that is not finite, or too
// large for the scale, the low part is not finite, and neither are its sums.
__device__ __forceinline__ unsigned low_part(unsigned& factor) {
    const float whole = __uint_as_float(factor) * 16777216.0f;
    factor = rounded(__float_as_uint(whole));
    return __float_as_uint(whole - __uint_as_float(factor));
}

// An element of a window by its number: as they lie in x.
struct Element { int channel, r, s; };

__device__ __forceinline__ Element element_of(int number) {
    return {number / (R * S), number / S % R, number % S};
}

// Where it lies in shared memory, in bytes from where the window begins. Numbers behind the last, whose weights are
// zero, have the first element's place: where that is not finite, the sum is not either, and is made anew.
__device__ __forceinline__ int offset_of(int number) {
    const Element at = element_of(number < PRODUCTS ? number : 0);
    return (at.channel * PLANE + at.r * LINE + at.s) * 4;
}

// What a lane has of a step, as the tensor cores take it: of an instruction an element of each of two windows, and the
// fourth ones behind these.
struct Factors {
    unsigned high[DEPTHS][4], low[DEPTHS][4];

    __device__ __forceinline__ void load(const unsigned char* window, const int* offsets, int step, int lane) {
        const int4* const of_lane = (const int4*)(offsets + (step * 4 + lane % 4) * LANE_VALUES);
        const int4 first = of_lane[0], second = of_lane[1];
        const int places[LANE_VALUES] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
        for (int i = 0; i < LANE_VALUES; ++i) {
            const unsigned upper = *(const unsigned*)(window + places[i]),
                lower = *(const unsigned*)(window + places[i] + NEXT_RUN);
            high[i / 2][i % 2 * 2] = upper;
            high[i / 2][i % 2 * 2 + 1] = lower;
        }
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int i = 0; i < 4; ++i) low[depth][i] = low_part(high[depth][i]);
    }
};

// A step's products under way, those of `depths` instructions. Tensor cores cut their sums, so those of a step begin at
// zero, the small ones first, and are added to the others when they are done.
__device__ __forceinline__ void begin_step(float (&parts)[SUMS], const Factors& factors, const unsigned char* filters,
        int depths) {
    const unsigned long long high = wc_descriptor_rows_128(filters),
        low = wc_descriptor_rows_128(filters + FILTER_BYTES);
    wc_wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < depths; ++depth) {
        wc_wgmma_tf32s_words(parts, factors.low[depth], high + depth * DEPTH_CELLS, depth > 0);
        wc_wgmma_tf32s_words(parts, factors.high[depth], low + depth * DEPTH_CELLS, true);
    }
#pragma unroll
    for (int depth = 0; depth < depths;
        ++depth) wc_wgmma_tf32s_words(parts, factors.high[depth], high + depth * DEPTH_CELLS, true);
    wc_wgmma_commit();
}

// The row and the column of outputs that a lane has of a run of a tile.
__device__ __forceinline__ int row_of(const Tile& tile, int run) { return tile.p + run / RUNS_ACROSS; }
__device__ __forceinline__ int column_of(const Tile& tile, int run, int lane) {
    return tile.q + run % RUNS_ACROSS * 8 + lane / 4;
}

// Where the window of such an output begins in shared memory.
__device__ __forceinline__ int window_of(int run, int lane) {
    return run / RUNS_ACROSS * (STRIDE_H * LINE) + BEFORE + (run % RUNS_ACROSS * 8 + lane / 4) * STRIDE_W;
}

// The first of a lane's two filters of a block of eight columns.
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
    float zero = 0.0f;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        zero += zero_of(four_of(sums, block));
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, zero == 0.0f)) return blocks;
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

// An element of the window of output (p, q) of a tile's image.
__device__ __forceinline__ float load_element(const element* x, const Tile& tile, int p, int q, Element at, int H,
        int W) {
    const int h = p * STRIDE_H - PAD_TOP + at.r, w = q * STRIDE_W - PAD_LEFT + at.s;
    const bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    return !inside ? 0.0f : __ldg(x + ((tile.image * C + at.channel) * H + h) * W + w);
}

// Sums of two outputs and of filters k and k + 1 by float32 units: of those that are not finite; the others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* filter, const Tile& tile,
        int p, int q, int other_p, int other_q, int k, int H, int W) {
    const element* const first = filter + FLOATS + (long long)min(k, K - 1) * PRODUCTS;
    const element* const second = filter + FLOATS + (long long)min(k + 1, K - 1) * PRODUCTS;
    float4 anew = {};
#pragma unroll 1
    for (int number = 0; number < PRODUCTS; ++number) {
        const Element at = element_of(number);
        const float upper = load_element(x, tile, p, q, at, H, W),
            lower = load_element(x, tile, other_p, other_q, at, H, W);
        add_products(anew, upper, lower, __ldg(first + number), __ldg(second + number));
        if (number % 16 == 15 && are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// The filter with the products of a window in the order in which its elements lie in x, filled up with zeros: once for
// each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < STEPS * K * STEP; i += gridDim.x * SIDE_THREADS) {
        const int row = i / STEP % K, step = i / STEP / K, number = step * STEP + i % STEP;
        const int k = row;
        const Element at = element_of(number);
        const float weight = number < PRODUCTS ? w[((k * C + at.channel) * R + at.r) * S + at.s] : 0.0f;
        if (number < PRODUCTS) filter[FLOATS + (long long)k * PRODUCTS + number] = weight;
        unsigned high = __float_as_uint(weight);
        const unsigned low = low_part(high);
        element* const to = filter + (step * 2LL * K + row) * STEP + i % STEP;
        to[0] = __uint_as_float(high);
        to[K * STEP] = __uint_as_float(low);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_float32_7x7(const __grid_constant__ TensorMap filter_map, const __grid_constant__ TensorMap y_map,
        const float* __restrict__ x, float* __restrict__ filter, const float* __restrict__ bias, int N, int H, int W,
        int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    element* const halos = (element*)(shared + HALOS);
    unsigned long long* const filled_halos = (unsigned long long*)(shared + BARRIERS);
    unsigned long long* const freed_halos = filled_halos + 2;
    unsigned long long* const filled = freed_halos + 2;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    const int first_k = blockIdx.y * TILE_FILTERS;
    if (blockIdx.x >= tiles) return;
    if (threadIdx.x == 0) {
        for (int halo = 0; halo < 2; ++halo) {
            wc_barrier_init(filled_halos + halo, COPIERS);
            wc_barrier_init(freed_halos + halo, GROUPS * 4);
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
        }
        wc_fence_barrier_init();
    }
    int* const offsets = (int*)(shared + OFFSETS);         // those of a lane in a step side by side
    for (int i = threadIdx.x; i < STEPS * STEP; i += THREADS) offsets[i] =
        offset_of(i / STEP * STEP + i % LANE_VALUES * 4 + i % STEP / LANE_VALUES);
    __syncthreads();
    if (threadIdx.x < 128) {
        // those that copy, which need fewer registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch_filters(shared, filled, &filter_map, first_k);
        if (threadIdx.x >= 32) copy_tiles(halos, filled_halos, freed_halos, x, tiles, tiles_p, tiles_q, H, W);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
        int turn = 0;
        unsigned parity = 0;
        for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
            const Tile tile = tile_of(number, tiles_p, tiles_q);
            const element* const halo = halos + turn * HALO;
            wc_barrier_wait(filled_halos + turn, parity);
#pragma unroll 1
            for (int item = 0; item < ITEMS; ++item) {
                // this lane's windows, and outputs: column lane / 4 of either run of eight of its warp
                const int first_run = ((item * GROUPS + group) * 4 + warp) * 2;
                const unsigned char* const window = (const unsigned char*)(halo + window_of(first_run, lane));
                float sums[SUMS] = {};
                Factors even, odd;
                even.load(window, offsets, 0, lane);
#pragma unroll 1
                for (int pair = 0; pair < PAIRS; ++pair) {
                    {
                        float parts[SUMS];
                        wc_barrier_wait(filled + 2 * pair, 0);
                        begin_step(parts, even, shared + 2 * pair * STAGE_BYTES, DEPTHS);
                        odd.load(window, offsets, 2 * pair + 1, lane);
                        wc_wgmma_wait_sums(parts);
#pragma unroll
                        for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
                    }
                    {
                        float parts[SUMS];
                        wc_barrier_wait(filled + (2 * pair + 1), 0);
                        begin_step(parts, odd, shared + (2 * pair + 1) * STAGE_BYTES, DEPTHS);
                        even.load(window, offsets, 2 * pair + 2, lane);
                        wc_wgmma_wait_sums(parts);
#pragma unroll
                        for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
                    }
                }
                {
                    float parts[SUMS];
                    wc_barrier_wait(filled + (STEPS - 1), 0);
                    begin_step(parts, even, shared + (STEPS - 1) * STAGE_BYTES, LAST_DEPTHS);
                    wc_wgmma_wait_sums(parts);
#pragma unroll
                    for (int i = 0; i < SUMS; ++i) sums[i] += parts[i];
                }
                // both factors' scale taken back: times 2^-48
#pragma unroll
                for (int i = 0; i < SUMS; ++i) sums[i] *= 3.5527136788005009e-15f;
                // infinities, NaN, and factors too large for their scale: float32 units make such sums anew
#pragma unroll 1
                for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
                    const int block = __ffs(blocks) - 1, k = first_k + filter_of(block, lane);
                    const int p = row_of(tile, first_run), q = column_of(tile, first_run, lane),
                        other_p = row_of(tile, first_run + 1), other_q = column_of(tile, first_run + 1, lane);
                    const float4 wanted =
                        existing(sums_of(sums, block), p < P && q < Q, other_p < P && other_q < Q, k < K, k + 1 < K);
                    set_sums(sums, block,
                        made_anew(wanted, x, filter, tile, min(p, P - 1), min(q, Q - 1), min(other_p, P - 1),
                        min(other_q, Q - 1), k, H, W));
                }
                __syncwarp();           // all lanes have loaded their factors
                if (lane == 0) wc_barrier_arrive(freed_halos + turn);
                float* const staged = (float*)(shared + STAGED + group * STAGED_BYTES);
                if (threadIdx.x % 128 == 0) wc_tma_stores_read_all();       // those of the item before
                wc_sync_threads(1 + group, 128);
                {
                    const bool odd = lane & 1;
                    const int place = (warp * 2 + odd) * 8 + lane / 4;
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const float* const four = sums + 4 * n;
                        const float got_0 = __shfl_xor_sync(0xffffffffu, odd ? four[0] : four[2], 1);
                        const float got_1 = __shfl_xor_sync(0xffffffffu, odd ? four[1] : four[3], 1);
                        const float values[4] =
                            {odd ? got_0 : four[0], odd ? got_1 : four[1], odd ? four[2] : got_0,
                            odd ? four[3] : got_1};
                        const int first = n * 8 + lane % 4 / 2 * 4;
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const int k = first_k + first + i;
                            staged[(first + i) * 64 + place] = finish(values[i], (k < K ? __ldg(bias + k) : 0.0f));
                        }
                    }
                }
                wc_fence_proxy_async();
                wc_sync_threads(1 + group, 128);
                if (threadIdx.x % 128 == 0) {
                    const int first_p = tile.p + (item * GROUPS + group) * 8 / RUNS_ACROSS;
                    for (int box = 0; box < BOXES; ++box)
                        wc_tma_store_4(&y_map, staged + box * (64 * BOX_FILTERS), tile.q, first_p,
                            first_k + box * BOX_FILTERS, (int)tile.image);
                    wc_tma_stores_commit();
                }
            }
            parity ^= turn;
            turn ^= 1;
        }
        if (threadIdx.x % 128 == 0) wc_tma_stores_done();
    }
}
