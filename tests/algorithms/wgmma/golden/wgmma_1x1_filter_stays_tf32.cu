// warpconv 0.1.0: wgmma, float32. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,40 --filter 240,1,1 --layout NHWC --precision tf32 --epilogue bias --arch sm_90a \
//     --algorithm wgmma \
//     --set form=im2col --set filters=256 --set pixels=96 --set stages=4 --set buffer=48 --set splits=1 \
//     --set filter=stays --set window=tap
//
// layer  x[N, H, W, 40] * w[240, 40, 1, 1] -> y[N, P, Q, 240], stride 1, padding 0, float32 NHWC, tf32 products, then
//        bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 256 filters x 96 pixels, whose filters stay, factors rounded to TF32, by two warp groups and a
//        copying thread, 4 stages, 114760 bytes of shared memory
// cost   a warp's 3072 outputs: 0 warp loads, 0 shuffles, 6144 FMA a lane, about 232 registers (direct: 3840 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 32 channels of pixels
// into a ring in shared memory, beside which all filters stay; two groups of four warps multiply what has come. Blocks
// take tiles until none is left.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: x as (40, N * H * W) of float32 rounded to TF32, the innermost first, tiled, boxes of 32 x 96, 128-byte
// swizzle, zeros outside
//
// filter_map: filter as (40, 1, 240) of float32 rounded to TF32, the innermost first, tiled, boxes of 32 x 1 x 256,
// 128-byte swizzle, zeros outside
constexpr int C = 40;                           // channels of a pixel of x
constexpr int K = 240;                          // channels of a pixel of y: filters
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int GROUP_FILTERS = 128;              // filters from one group's to the next one's
constexpr int MATRICES = 2;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 48;                        // sums that a thread has of such a matrix
constexpr int SLICE = 32;                       // channels of a step
constexpr int SLICES = 2;                       // of a tap
constexpr int STEPS = 2;                        // of the reduction: slices of all taps
constexpr int DEPTHS = 4;                       // of 8 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 8 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 96;                 // pixels of a tile
constexpr int STAGES = 4;                       // of the ring: a slice of a tap of the tile's pixels
constexpr int STAGE_BYTES = 12288;              // of a stage
constexpr int FIRST_STAGES = 2;                 // stages whose copies start before the first __syncthreads
constexpr int FILTERS_AT = 49152;               // bytes before the filters
constexpr int FILTER_BYTES = 32768;             // of a tile's filters in one step: from one step to the next
constexpr int BARRIERS_AT = 114688;             // where the barriers begin
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries that prepare filters and arrays
using index_t = int;                            // element offsets: of tensors below 2^31 elements
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
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_2(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_tf32s(float (&sums)[48], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %50, 0; wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, adds, 1, 1; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[48]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// The output of a column of a group's products, or -1 behind the last.
__device__ __forceinline__ int output_of(int column, int first_pixel, int pixels) {
    return first_pixel + column < pixels ? first_pixel + column : -1;
}

// Where the copies of a tile begin.
struct Tile {
    int first_pixel;
};

__device__ __forceinline__ Tile tile_of(int number) {
    return {number * TILE_PIXELS};
}

// Starts the copies of a stage: one slice of one tap of a tile's pixels.
__device__ __forceinline__ void copy_stage(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const Tile& tile, int step) {
    const int channel = step % SLICES * SLICE;
    wc_barrier_expect(filled, STAGE_BYTES);
    wc_tma_load_2(to, x_map, filled, channel, tile.first_pixel);
}

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them; those that
// have been started are skipped.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, int tiles) {
    int stage = 0, to_skip = FIRST_STAGES;
    unsigned parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number);
        for (int step = 0; step < STEPS; ++step) {
            if (to_skip > 0) {
                --to_skip;
            } else {
                wc_barrier_wait(freed + stage, parity);
                copy_stage(ring + stage * STAGE_BYTES, filled + stage, x_map, tile, step);
            }
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// The products of a tile: a group's sums over all steps. Those of a step are under way while the next stage is waited
// for; then the stage before is free. `kept`: this tile's filters.
__device__ __forceinline__ void multiply_tile(float (&sums)[MATRICES][SUMS], const unsigned char* ring,
        const unsigned char* kept, unsigned long long* filled, unsigned long long* freed, int& stage, unsigned& parity,
        int steps, int group, int thread) {
    int before = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wc_barrier_wait(filled + stage, parity);
        const unsigned char* const at = ring + stage * STAGE_BYTES;
        const unsigned long long filters =
            wc_descriptor_rows_128(kept + step * FILTER_BYTES + group * (GROUP_FILTERS * ROW_BYTES));
        const unsigned long long pixels = wc_descriptor_rows_128(at);
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
                wc_wgmma_tf32s(sums[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS, pixels + depth * DEPTH_CELLS,
                    step > 0 || depth > 0);
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

// The filter with the channels of a tap side by side: once for each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)K * C; i += gridDim.x * SIDE_THREADS) {
        const int channel = (int)(i % C);
        filter[i] = w[i / C * C + channel];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_1x1(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        const float* __restrict__ bias, float* __restrict__ y, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int pixels = N * P * Q, tiles = (pixels + TILE_PIXELS - 1) / TILE_PIXELS;
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + STAGES;
    unsigned long long* const filters_there = freed + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
            wc_barrier_init(freed + stage, GROUPS);
        }
        wc_barrier_init(filters_there, 1);
        wc_fence_barrier_init();
        // all filters, once, and this block's first pixels: the ring is empty, so there is nothing to wait for
        wc_fence_proxy_async();
        wc_barrier_expect(filters_there, STEPS * FILTER_BYTES);
#pragma unroll 1
        for (int box = 0; box < STEPS; ++box)
            wc_tma_load_3(shared + FILTERS_AT + box * FILTER_BYTES, &filter_map, filters_there, box % SLICES * SLICE,
                box / SLICES, 0);
        const Tile tile = tile_of(blockIdx.x);
#pragma unroll 1
        for (int stage = 0; stage < FIRST_STAGES; ++stage)
            copy_stage(shared + stage * STAGE_BYTES, filled + stage, &x_map, tile, stage);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, tiles);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        wc_barrier_wait(filters_there, 0);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_filter = group * GROUP_FILTERS;
            const int first_pixel = tile * TILE_PIXELS;
            float biases[MATRICES][2];      // of this thread's filters, eight apart
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int lower = 0; lower < 2; ++lower) {
                    const int k = first_filter + m * 64 + warp * 16 + lane / 4 + lower * 8;
                    biases[m][lower] = k < K ? __ldg(bias + k) : 0.0f;
                }
            }
            float sums[MATRICES][SUMS];
            multiply_tile(sums, shared, shared + FILTERS_AT, filled, freed, stage, parity, STEPS, group, thread);

            // the sums to where they belong
#pragma unroll
            for (int i = 0; i < SUMS; i += 4) {
                const int lane_pixel = lane % 4 * 2;
#pragma unroll
                for (int next = 0; next < 2; ++next) {
                    const int pixel = output_of(i * 2 + lane_pixel + next, first_pixel, pixels);
#pragma unroll
                    for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                        for (int lower = 0; lower < 2; ++lower) {
                            const int k = first_filter + m * 64 + warp * 16 + lane / 4 + lower * 8;
                            const index_t at = (index_t)pixel * K + k;
                            if (pixel >= 0 && k < K) y[at] = finish(sums[m][i + lower * 2 + next], biases[m][lower]);
                        }
                    }
                }
            }
        }
    }
}
