// warpconv 0.1.0: wgmma, bfloat16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,H,W --filter 768,16,16 --stride 16,16 --dtype bfloat16 --epilogue bias \
//     --arch sm_90a --algorithm wgmma \
//     --set form=im2col --set filters=128 --set pixels=96 --set stages=8 --set buffer=96 --set splits=1 \
//     --set filter=stages --set window=row
//
// layer  x[N, 3, H, W] * w[768, 3, 16, 16] -> y[N, 768, P, Q], stride 16, padding 0, bfloat16, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 128 filters x 96 pixels, of windows that a launch before makes rows of, by two warp groups and a
//        copying thread, 8 stages, 229504 bytes of shared memory
// cost   a warp's 1536 outputs: 0 warp loads, 0 shuffles, 36864 FMA a lane, about 232 registers (direct: 36864 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 64 channels of both into
// a ring in shared memory; two groups of four warps multiply what has come. Blocks take tiles until none is left. The
// entry `unfold` runs first and copies each window of x into a row of `windows`: the product takes a row as a pixel,
// and its elements as channels.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: windows as (768, N * P * Q) of bfloat16, the innermost first, tiled, boxes of 64 x 96, 128-byte swizzle, zeros
// outside
//
// filter_map: filter as (768, 1, 768) of bfloat16, the innermost first, tiled, boxes of 64 x 1 x 128, 128-byte swizzle,
// zeros outside
constexpr int C = 768;                          // elements of a window
constexpr int K = 768;                          // channels of a pixel of y: filters
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int TILE_FILTERS = 128;               // filters of a tile
constexpr int FILTER_TILES = 6;                 // tiles across all filters
constexpr int GROUP_FILTERS = 64;               // filters from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 48;                        // sums that a thread has of such a matrix
constexpr int SLICE = 64;                       // channels of a step
constexpr int SLICES = 12;                      // of a tap
constexpr int STEPS = 12;                       // of the reduction: slices of all taps
constexpr int DEPTHS = 4;                       // of 16 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 96;                 // pixels of a tile
// of the ring: a slice of a tap of the tile's pixels, and that of its filters
constexpr int STAGES = 8;
constexpr int STAGE_BYTES = 28672;              // of a stage
constexpr int FIRST_STAGES = 2;                 // stages whose copies start before the first __syncthreads
constexpr int PIXEL_BYTES = 12288;              // of a stage: its pixels, behind which its filters lie
constexpr int BARRIERS_AT = 229376;             // where the barriers begin
constexpr int X_CHANNELS = 3;                   // channels of a pixel of x
constexpr int WINDOW_ROWS = 16;                 // rows of a window
constexpr int STEP_H = 16;                      // rows from one window to the next
constexpr int STEP_W = 16;                      // columns from one window to the next
constexpr int RUN = 16;                         // elements of a window that lie side by side in x
constexpr int CELL = 8;                         // elements in 16 bytes
constexpr int UNIT = 8;                         // elements that are loaded at once
constexpr int ROW_CELLS = 96;                   // units of 16 bytes in a row of `windows`
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries that prepare filters and arrays
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // bfloat16, as bits

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// barriers in shared memory, launches that overlap, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wc_wait_for_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_2(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_bfloat16s(float (&sums)[48], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %50, 0; wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[48]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

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

// Of four lanes, 8 apart, lane i has after it the words i of all four, in their order.
__device__ __forceinline__ uint4 regroup_filters(unsigned word_0, unsigned word_1, unsigned word_2, unsigned word_3,
        int lane) {
    const bool odd = lane & 1, upper = lane & 2;
    const unsigned got_0 = __shfl_xor_sync(0xffffffffu, odd ? word_0 : word_1, 8);
    const unsigned got_2 = __shfl_xor_sync(0xffffffffu, odd ? word_2 : word_3, 8);
    // of lanes 0, 1 or 2, 3: words 0 or 1, and words 2 or 3
    const unsigned first_0 = odd ? got_0 : word_0, second_0 = odd ? word_1 : got_0;
    const unsigned first_2 = odd ? got_2 : word_2, second_2 = odd ? word_3 : got_2;
    const unsigned first = __shfl_xor_sync(0xffffffffu, upper ? first_0 : first_2, 16);
    const unsigned second = __shfl_xor_sync(0xffffffffu, upper ? second_0 : second_2, 16);
    return upper ? make_uint4(first, second, first_2, second_2) : make_uint4(first_0, second_0, first, second);
}

// The first of the pixels that a lane stores, of 32, `unit` of them at once.
__device__ __forceinline__ int stored_pixel(int unit, int lane) {
    if (unit == 8) return lane % 4 * 8;
    if (unit == 2) return lane / 8 * 8 + lane % 4 * 2;
    return lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
}

// Stores 32 pixels of eight filters, of which `filters` exist. A lane has of filter lane / 4, in word i, pixels
// i * 8 + lane % 4 * 2 and the next; `to` is where its stored_pixel lies in the first filter, `exists` whether it does.
__device__ __forceinline__ void store_filters(element* to, bool exists, int filters, const unsigned (&words)[4],
        index_t pixels_y, int unit, int lane) {
    if (unit == 8) {
        const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
        if (exists && lane / 4 < filters) *(uint4*)(to + lane / 4 * pixels_y) = eight;
        return;
    }
    // after it each lane has pixels of every second filter
    const uint4 turned = regroup_filters(words[0], words[1], words[2], words[3], lane / 8);
    const unsigned pairs[4] = {turned.x, turned.y, turned.z, turned.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (unit == 2) {
            const int filter = 2 * i + lane / 4 % 2;
            if (exists && filter < filters) *(unsigned*)(to + filter * pixels_y) = pairs[i];
            continue;
        }
        // after it each lane has one pixel of two filters
        const unsigned other = __shfl_xor_sync(0xffffffffu, pairs[i], 4);
        const bool odd = lane & 4;
        if (exists && 2 * i < filters) to[2 * i * pixels_y] = (element)(odd ? other >> 16 : pairs[i]);
        if (exists && 2 * i + 1 < filters) to[(2 * i + 1) * pixels_y] = (element)(odd ? pairs[i] >> 16 : other);
    }
}

// Where the copies of a tile begin.
struct Tile {
    int first_filter, first_pixel;
};

__device__ __forceinline__ Tile tile_of(int number) {
    return {number % FILTER_TILES * TILE_FILTERS, number / FILTER_TILES * TILE_PIXELS};
}

// Starts the copies of a stage: one slice of one tap of a tile's pixels, and of its filters.
__device__ __forceinline__ void copy_stage(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const TensorMap* filter_map, const Tile& tile, int step) {
    const int tap = step / SLICES, channel = step % SLICES * SLICE;
    wc_barrier_expect(filled, STAGE_BYTES);
    wc_tma_load_2(to, x_map, filled, channel, tile.first_pixel);
    wc_tma_load_3(to + PIXEL_BYTES, filter_map, filled, channel, tap, tile.first_filter);
}

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them; those that
// have been started are skipped.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, const TensorMap* filter_map, int tiles) {
    int stage = 0, to_skip = FIRST_STAGES;
    unsigned parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number);
        for (int step = 0; step < STEPS; ++step) {
            if (to_skip > 0) {
                --to_skip;
            } else {
                wc_barrier_wait(freed + stage, parity);
                copy_stage(ring + stage * STAGE_BYTES, filled + stage, x_map, filter_map, tile, step);
            }
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// The products of a tile: a group's sums over all steps. Those of a step are under way while the next stage is waited
// for; then the stage before is free.
__device__ __forceinline__ void multiply_tile(float (&sums)[MATRICES][SUMS], const unsigned char* ring,
        unsigned long long* filled, unsigned long long* freed, int& stage, unsigned& parity, int steps, int group,
        int thread) {
    int before = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wc_barrier_wait(filled + stage, parity);
        const unsigned char* const at = ring + stage * STAGE_BYTES;
        const unsigned long long filters =
            wc_descriptor_rows_128(at + PIXEL_BYTES + group * (GROUP_FILTERS * ROW_BYTES));
        const unsigned long long pixels = wc_descriptor_rows_128(at);
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
                wc_wgmma_bfloat16s(sums[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS,
                    pixels + depth * DEPTH_CELLS, step > 0 || depth > 0);
        wc_wgmma_commit();
        if (step > 0) {
            wc_wgmma_wait_group_1();
            if (thread == 0) wc_barrier_arrive(freed + before);
        }
        before = stage;
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
#pragma unroll
    for (int m = 0; m < MATRICES; ++m) wc_wgmma_wait_sums(sums[m]);
    if (thread == 0) wc_barrier_arrive(freed + before);
}

// The filter with its elements in the order of those of windows: once for each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)K * C; i += gridDim.x * SIDE_THREADS) {
        const int of_window = (int)(i % C);
        filter[i] = w[i / C * C + of_window];
    }
}

// Offset in x, from a window's first element, of a run: one row of one of its channels.
__device__ __forceinline__ index_t run_at(int run, int H, int W) {
    return ((index_t)(run / WINDOW_ROWS) * H + run % WINDOW_ROWS) * W;
}

// Copies each window of x (they do not overlap) into one row of `windows`, channel after channel, in each row after
// row.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
unfold(const unsigned short* __restrict__ x, unsigned short* __restrict__ windows, int N, int H, int W, int P, int Q) {
    wc_launch_next();       // the product may begin: it waits for the end of this launch
    const bool units = W % UNIT == 0;      // every run of x begins at a whole unit
    const index_t cells = (index_t)N * P * Q * ROW_CELLS;
    for (index_t cell = (index_t)blockIdx.x * SIDE_THREADS + threadIdx.x; cell < cells;
            cell += (index_t)gridDim.x * SIDE_THREADS) {
        const int first = (int)(cell % ROW_CELLS) * CELL;       // element of the window that is copied here
        const index_t window = cell / ROW_CELLS, image = window / (P * Q);
        const int place = (int)(window % (P * Q)), h = place / Q * STEP_H, w = place % Q * STEP_W;
        const element* const from = x + (image * X_CHANNELS * H + h) * W + w;
        __align__(16) element some[CELL] = {};
        if (units) {
#pragma unroll
            for (int i = 0; i < CELL; i += UNIT) {
                const int at = first + i;
                *(uint4*)(some + i) = __ldg((const uint4*)(from + run_at(at / RUN, H, W) + at % RUN));
            }
        } else {
#pragma unroll
            for (int i = 0; i < CELL; ++i) {
                const int at = first + i;
                some[i] = __ldg(from + run_at(at / RUN, H, W) + at % RUN);
            }
        }
        *(uint4*)(windows + cell * CELL) = *(const uint4*)some;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_16x16(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    wc_wait_for_launch();       // until windows are complete
    const int pixels = N * P * Q, tiles = (pixels + TILE_PIXELS - 1) / TILE_PIXELS * FILTER_TILES;
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
            wc_barrier_init(freed + stage, GROUPS);
        }
        wc_fence_barrier_init();
        // the first copies of this block: the ring is empty, so there is nothing to wait for
        wc_fence_proxy_async();
        const Tile tile = tile_of(blockIdx.x);
#pragma unroll 1
        for (int stage = 0; stage < FIRST_STAGES; ++stage)
            copy_stage(shared + stage * STAGE_BYTES, filled + stage, &x_map, &filter_map, tile, stage);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, &filter_map, tiles);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_filter = tile % FILTER_TILES * TILE_FILTERS + group * GROUP_FILTERS;
            const int first_pixel = tile / FILTER_TILES * TILE_PIXELS;
            float biases[MATRICES][2];      // of this thread's filters, eight apart
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int lower = 0; lower < 2; ++lower) {
                    const int k = first_filter + m * 64 + warp * 16 + lane / 4 + lower * 8;
                    biases[m][lower] = wc_bfloat16_to_float(__ldg(bias + k));
                }
            }
            float sums[MATRICES][SUMS];
            multiply_tile(sums, shared, filled, freed, stage, parity, STEPS, group, thread);

            // the sums to where they belong
            const index_t pixels_y = (index_t)P * Q;
            // pixels of a filter that a lane stores at once
            const int unit = pixels_y % 8 == 0 ? 8 : pixels_y % 2 == 0 ? 2 : 1;
            const int lane_stored = stored_pixel(unit, lane);
#pragma unroll
            for (int n = 0; n < SUMS / 4; n += 4) {
                // the place in y of what this lane stores of four matrices' pixels, in the first filter
                const index_t stored = first_pixel + n * 8 + lane_stored;
                const index_t stored_at = stored / pixels_y * K * pixels_y + stored % pixels_y;
#pragma unroll
                for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        // the first of eight filters
                        const int first_k = first_filter + m * 64 + warp * 16 + half * 8;
                        const index_t at = stored_at + first_k * pixels_y;
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const int sum = (n + i) * 4 + half * 2;
                            words[i] =
                                wc_floats_to_bfloat16s(finish(sums[m][sum], biases[m][half]),
                                finish(sums[m][sum + 1], biases[m][half]));
                        }
                        store_filters(y + at, stored < pixels, 8, words, pixels_y, unit, lane);
                    }
                }
            }
        }
    }
}
