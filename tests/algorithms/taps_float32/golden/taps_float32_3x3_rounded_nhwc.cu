// warpconv 0.1.0: taps_float32, float32. Generated from templates/taps_float32/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,3 --filter 64,3,3 --padding 1 --layout NHWC --precision tf32 --epilogue bias,relu \
//     --arch sm_90a --algorithm taps_float32 \
//     --set tile_p=12 --set tile_q=32 --set filters=64 --set groups=3 --set stages=1 --set vector=4 \
//     --set store_vector=4 --set stores=direct
//
// layer  x[N, H, W, 3] * w[64, 3, 3, 3] -> y[N, P, Q, 64], stride 1, padding 1, float32 NHWC, tf32 products, then bias,
//        relu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4); all else is a constant of the text
// plan   tiles of 12 x 32 outputs x 64 filters, factors rounded to TF32, by 3 warp groups, 3 copying warps and a
//        copying thread, the filter's 1 steps stay, 20016 bytes of shared memory
// cost   a warp's 16 outputs of 64 filters: 16 warp loads, 0 shuffles, 1024 FMA a lane, about 152 registers (direct:
//        864 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): windows times filters. Of a block 3 warps copy the
// pixels that its outputs' windows cover to shared memory, line by line as they lie in x, the next tile's while groups
// of four warps multiply this one's; a thread of these loads what the instruction takes of its two windows from there
// to registers. One more thread has the tensor memory accelerator (TMA) copy filters.
//
// The launch gives a descriptor of the array that is copied by it (cuTensorMapEncodeTiled):
//
// filter_map: filter as (32, 64, 1) of float32, the innermost first, tiled, boxes of 32 x 64 x 1, 128-byte swizzle,
// zeros outside
constexpr int C = 3;                            // channels of x
constexpr int K = 64;                           // channels of y: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 12;                      // output rows of a block's tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int TILE_FILTERS = 64;                // filters of it
constexpr int BLOCKS = 8;                       // times eight of these
constexpr int GROUPS = 3;                       // groups of four warps that multiply
constexpr int ITEMS = 2;                        // of a tile: such a group's 64 outputs at a time
constexpr int RUNS_ACROSS = 4;                  // runs of eight columns of a tile's row; a group has eight at a time
constexpr int NEXT_RUN = 96;                    // bytes from a window to that of the other run of its warp
constexpr int SUMS = 32;                        // sums of a thread
constexpr int PRODUCTS = 27;                    // of an output
constexpr int STEP = 32;                        // of a step: a row of a filter in shared memory
constexpr int STEPS = 1;                        // of the reduction
constexpr int LANE_VALUES = 8;                  // of a window that each of four lanes has of a step
constexpr int DEPTHS = 4;                       // of 8 products: a step's instructions
constexpr int LAST_DEPTHS = 4;                  // those of the last step, which has fewer products
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter
constexpr int PARTS = 1;                        // of a filter's factors
constexpr int FILTER_BYTES = 8192;              // of shared memory: a part of a step's filters,
constexpr int STAGE_BYTES = 8192;               // and all
constexpr int STAGES = 1;                       // of such steps: all, which stay
constexpr int PIXEL = 3;                        // elements of a pixel that lie side by side in x
constexpr int HALO_ROWS = 14;                   // input rows that a tile's windows cover
constexpr int LINES = 14;                       // such rows
constexpr int LINE = 104;                       // elements of one in shared memory,
constexpr int BEFORE = 1;                       // of these before the first that a window reads
constexpr int VECTOR = 4;                       // elements of a copy
constexpr int PIECES = 26;                      // copies of a line,
constexpr int ROUNDS = 1;                       // of 32 lanes at a time
constexpr int HALO = 1456;                      // elements of a tile's pixels there
constexpr int HALOS = 8192;                     // and pixels, two tiles' by turns,
constexpr int OFFSETS = 19840;                  // and from where a window begins to each of its elements,
constexpr int BARRIERS = 19968;                 // and the barriers
constexpr int COPIERS = 3;                      // warps that copy pixels
constexpr int THREADS = 512;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// barriers in shared memory, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 152;"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
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
                step + part);
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
    const int top = tile.p - PAD_TOP, left = (tile.q - PAD_LEFT) * PIXEL - BEFORE;
#pragma unroll 1
    for (int line = warp; line < LINES; line += COPIERS) {
        const int h = top + line % HALO_ROWS;
        const bool reached = (unsigned)h < (unsigned)H;
        const element* const from = x + (tile.image * H + h) * (W * PIXEL);
        element* const line_to = to + line * LINE;
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
            const int piece = round * 32 + lane;
            const int at = left + piece * VECTOR;
            const bool inside = reached && (unsigned)at < (unsigned)(W * PIXEL);
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

__device__ __forceinline__ unsigned rounded_or_nan(unsigned bits) {
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : rounded(bits);
}

// An element of a window by its number: as they lie in x.
struct Element { int channel, r, s; };

__device__ __forceinline__ Element element_of(int number) {
    return {number % C, number / (S * C), number / C % S};
}

// Where it lies in shared memory, in bytes from where the window begins. Numbers behind the last have
// the first element's place.
__device__ __forceinline__ int offset_of(int number) {
    const Element at = element_of(number < PRODUCTS ? number : 0);
    return (at.channel + at.r * LINE + at.s * PIXEL) * 4;
}

// What a lane has of a step, as the tensor cores take it: of an instruction an element of each of two windows, and the
// fourth ones behind these.
struct Factors {
    unsigned high[DEPTHS][4];

    __device__ __forceinline__ void load(const unsigned char* window, const int* offsets, int step, int lane) {
        const int4* const of_lane = (const int4*)(offsets + (step * 4 + lane % 4) * LANE_VALUES);
        const int4 first = of_lane[0], second = of_lane[1];
        const int places[LANE_VALUES] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
        for (int i = 0; i < LANE_VALUES; ++i) {
            const unsigned upper = *(const unsigned*)(window + places[i]),
                lower = *(const unsigned*)(window + places[i] + NEXT_RUN);
            const bool exists = step * STEP + i * 4 + lane % 4 < PRODUCTS;
            high[i / 2][i % 2 * 2] = exists ? upper : 0u;
            high[i / 2][i % 2 * 2 + 1] = exists ? lower : 0u;
        }
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int i = 0; i < 4; ++i) high[depth][i] = rounded_or_nan(high[depth][i]);
    }
};

// A step's products under way, those of `depths` instructions.
__device__ __forceinline__ void begin_step(float (&sums)[SUMS], const Factors& factors, const unsigned char* filters,
        int depths) {
    const unsigned long long filters_at = wc_descriptor_rows_128(filters);
    wc_wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < depths;
        ++depth) wc_wgmma_tf32s_words(sums, factors.high[depth], filters_at + depth * DEPTH_CELLS, true);
    wc_wgmma_commit();
}

// The row and the column of outputs that a lane has of a run of a tile.
__device__ __forceinline__ int row_of(const Tile& tile, int run) { return tile.p + run / RUNS_ACROSS; }
__device__ __forceinline__ int column_of(const Tile& tile, int run, int lane) {
    return tile.q + run % RUNS_ACROSS * 8 + lane / 4;
}

// Where the window of such an output begins in shared memory.
__device__ __forceinline__ int window_of(int run, int lane) {
    return run / RUNS_ACROSS * LINE + BEFORE + (run % RUNS_ACROSS * 8 + lane / 4) * PIXEL;
}

// The first of a lane's two filters of a block of eight columns: those of two blocks lie side by side.
__device__ __forceinline__ int filter_of(int block, int lane) { return block / 2 * 16 + lane % 4 * 4 + block % 2 * 2; }

// A float rounded to TF32; NaN stays NaN.
__device__ __forceinline__ float rounded_weight(float value) {
    return __uint_as_float(rounded_or_nan(__float_as_uint(value)));
}

// The filter with the products of a window in the order in which its elements lie in x, filled up with zeros: once for
// each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < K * STEP; i += gridDim.x * SIDE_THREADS) {
        const int row = i / STEP % K, step = i / STEP / K, number = step * STEP + i % STEP;
        // so that what a lane stores lies side by side
        const int k = row / 16 * 16 + filter_of(row / 8 % 2, row % 8 / 2) + row % 2;
        const Element at = element_of(number);
        const float weight = number < PRODUCTS ? w[((k * C + at.channel) * R + at.r) * S + at.s] : 0.0f;
        filter[i] = rounded_weight(weight);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_float32_3x3(const __grid_constant__ TensorMap filter_map, const float* __restrict__ x,
        const float* __restrict__ bias, float* __restrict__ y, int N, int H, int W, int P, int Q) {
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
    for (int i = threadIdx.x; i < STEP; i += THREADS) offsets[i] =
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
                Factors even;
                even.load(window, offsets, 0, lane);
                {
                    wc_barrier_wait(filled, 0);
                    begin_step(sums, even, shared, LAST_DEPTHS);
                    wc_wgmma_wait_sums(sums);
                }
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int run = first_run + half, p = row_of(tile, run), q = column_of(tile, run, lane);
                    const bool inside = p < P && q < Q;
                    const index_t pixel = ((tile.image * P + p) * Q + q) * K;
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
            if (lane == 0) wc_barrier_arrive(freed_halos + turn);
            parity ^= turn;
            turn ^= 1;
        }
    }
}
