// warpconv 0.1.0: wgmma, float16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,528,H,W --filter 32,1,1 --dtype float16 --arch sm_90a --algorithm wgmma \
//     --set form=planes --set filters=64 --set pixels=128 --set stages=4 --set splits=3 --set filter=stages
//
// layer  x[N, 528, H, W] * w[32, 528, 1, 1] -> y[N, 32, P, Q], stride 1, padding 0, float16
//        N, H, W (and so P, Q) are arguments (H * W a multiple of 8); all else is a constant of the text
// plan   tiles of 64 filters x 128 pixels of an image in NCHW by two warp groups and a copying thread, 4 stages, sums
//        in 3 parts, 98368 bytes of shared memory
// cost   a warp's 1024 outputs: 0 warp loads, 0 shuffles, 18432 FMA a lane, about 232 registers (direct: 16896 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 64 channels of both into
// a ring in shared memory; two groups of four warps multiply what has come. Blocks take tiles until none is left.
// Pixels come from x as they lie there, those of a channel side by side.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: x as (H * W, 528, N) of float16, the innermost first, tiled, boxes of 64 x 64 x 1, 128-byte swizzle, zeros
// outside
//
// filter_map: filter as (528, 1, 32) of float16, the innermost first, tiled, boxes of 64 x 1 x 64, 128-byte swizzle,
// zeros outside
constexpr int C = 528;                          // channels of a pixel of x
constexpr int K = 32;                           // channels of a pixel of y: filters
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int GROUP_PIXELS = 64;                // pixels from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 32;                        // sums that a thread has of such a matrix
constexpr int SLICE = 64;                       // channels of a step
constexpr int STEPS = 9;                        // of the reduction: slices of all taps
constexpr int DEPTHS = 4;                       // of 16 products: a step's instructions
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 128;                // pixels of a tile, all of one image
// of the ring: a slice of channels of the tile's pixels, and that of its filters
constexpr int STAGES = 4;
constexpr int STAGE_BYTES = 24576;              // of a stage
constexpr int FIRST_STAGES = 2;                 // stages whose copies start before the first __syncthreads
constexpr int SPLITS = 3;                       // blocks that share a sum
constexpr int PLANE_CHANNELS = 64;              // channels of a step
constexpr int PLANES = 2;                       // times 64 pixels: a stage's,
constexpr int PLANES_BYTES = 8192;              // of 64 pixels, in all channels of a step
constexpr int GROUP_BYTES = 8192;               // from one group's pixels to the next one's
constexpr int PLANE_CELLS = 128;                // 16 bytes each: 16 channels of 64 pixels
constexpr int PIXEL_BYTES = 16384;              // of a stage: its pixels, behind which its filters lie
constexpr int BARRIERS_AT = 98304;              // where the barriers begin
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries that prepare filters and arrays
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// barriers in shared memory, launches that overlap, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ const float* wc_stored_by_launch(const float* address) { asm volatile("griddepcontrol.wait;" : "+l"(address) : : "memory"); return address; }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ unsigned long long wc_descriptor_columns_128(const void* rows, int next) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | (unsigned long long)(next / 16) << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves_b_across(float (&sums)[32], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, adds, 1, 1, 0, 1; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[32]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// Where the copies of a tile begin.
struct Tile {
    int first_filter, image, pixel_of_image;
};

__device__ __forceinline__ Tile tile_of(int number, int image_tiles) {
    const int of_pixels = number / SPLITS;
    return {0, of_pixels / image_tiles, of_pixels % image_tiles * TILE_PIXELS};
}

// Starts the copies of a stage: a slice of channels of a tile's pixels, and of its filters.
__device__ __forceinline__ void copy_stage(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const TensorMap* filter_map, const Tile& tile, int step) {
    wc_barrier_expect(filled, STAGE_BYTES);
#pragma unroll
    for (int planes = 0; planes < PLANES; ++planes) {
        const int first = tile.pixel_of_image + planes * GROUP_PIXELS;
        wc_tma_load_3(to + planes * PLANES_BYTES, x_map, filled, first, step * PLANE_CHANNELS, tile.image);
    }
    wc_tma_load_3(to + PIXEL_BYTES, filter_map, filled, step * SLICE, 0, tile.first_filter);
}

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them; those that
// have been started are skipped.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, const TensorMap* filter_map, int tiles, int image_tiles) {
    int stage = 0, to_skip = FIRST_STAGES;
    unsigned parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, image_tiles);
        const int split = number % SPLITS;
        for (int step = STEPS * split / SPLITS; step < STEPS * (split + 1) / SPLITS; ++step) {
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
        const unsigned long long filters = wc_descriptor_rows_128(at + PIXEL_BYTES);
        const unsigned long long pixels = wc_descriptor_columns_128(at + group * GROUP_BYTES, PLANES_BYTES);
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
                wc_wgmma_halves_b_across(sums[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS,
                    pixels + depth * PLANE_CELLS, step > 0 || depth > 0);
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
        float* __restrict__ partial_sums, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    wc_launch_next();       // add_partial_sums may begin: it waits for the end of this launch
    const index_t pixels = (index_t)N * P * Q;
    const int image_tiles = (P * Q + TILE_PIXELS - 1) / TILE_PIXELS, tiles = N * image_tiles * SPLITS;
    // the launch, which knows no images, may have more blocks than there are tiles
    if (blockIdx.x >= tiles) return;
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
        const Tile tile = tile_of(blockIdx.x, image_tiles);
        const int first_step = STEPS * (blockIdx.x % SPLITS) / SPLITS;
#pragma unroll 1
        for (int stage = 0; stage < FIRST_STAGES; ++stage)
            copy_stage(shared + stage * STAGE_BYTES, filled + stage, &x_map, &filter_map, tile, first_step + stage);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, &filter_map, tiles, image_tiles);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int of_pixels = tile / SPLITS, image_of = of_pixels / image_tiles;
            const index_t first_pixel = (index_t)image_of * P * Q + of_pixels % image_tiles * TILE_PIXELS
                + group * GROUP_PIXELS;
            const index_t image_end = (index_t)(image_of + 1) * P * Q;
            const int split = tile % SPLITS;
            float sums[MATRICES][SUMS];
            multiply_tile(sums, shared, filled, freed, stage, parity,
                STEPS * (split + 1) / SPLITS - STEPS * split / SPLITS, group, thread);

            // the sums to where they belong
            const int first_k = warp * 16 + lane / 4;                           // of this lane's filters of a matrix
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int k = first_k + m * 64 + half * 8;
                    if (k >= K) break;
                    float* const to = partial_sums + (split * (long long)K + k) * pixels;
#pragma unroll
                    for (int n = 0; n < SUMS / 4; ++n) {
                        const index_t pixel = first_pixel + n * 8 + lane % 4 * 2;
                        if (pixel < image_end) to[pixel] = sums[m][n * 4 + half * 2];
                        if (pixel + 1 < image_end) to[pixel + 1] = sums[m][n * 4 + half * 2 + 1];
                    }
                }
            }
        }
    }
}

// The parts of every sum together, in their order, and what happens to it before it is stored.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
add_partial_sums(float* __restrict__ partial_sums, unsigned short* __restrict__ y, int N, int P, int Q) {
    const index_t outputs = (index_t)N * P * Q * K, i = (index_t)blockIdx.x * SIDE_THREADS + threadIdx.x;
    if (i >= outputs) return;
    const float* const parts = wc_stored_by_launch(partial_sums);       // when the launch before has ended
    float sum = parts[i];
#pragma unroll
    for (int split = 1; split < SPLITS; ++split) sum += parts[(long long)split * outputs + i];
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y, k = i / pixels, pixel = i % pixels;
    const index_t at = (pixel / pixels_y * K + k) * pixels_y + pixel % pixels_y;
    y[at] = wc_float_to_half(sum);
}
