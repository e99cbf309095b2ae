// warpconv 0.1.0: wgmma, float16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,24,H,W --filter 144,1,1 --dtype float16 --epilogue bias --arch sm_90a \
//     --algorithm wgmma \
//     --set form=planes --set filters=64 --set pixels=256 --set stages=8 --set splits=1 --set filter=stays
//
// layer  x[N, 24, H, W] * w[144, 24, 1, 1] -> y[N, 144, P, Q], stride 1, padding 0, float16, then bias
//        N, H, W (and so P, Q) are arguments (H * W a multiple of 8); all else is a constant of the text
// plan   tiles of 64 filters x 256 pixels of an image in NCHW, whose filters stay, by two warp groups and a copying
//        thread, 8 stages, 155784 bytes of shared memory
// cost   a warp's 2048 outputs: 0 warp loads, 0 shuffles, 2048 FMA a lane, about 232 registers (direct: 1536 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 32 channels of pixels
// into a ring in shared memory, beside which all filters stay; two groups of four warps multiply what has come. Blocks
// take tiles until none is left. Pixels come from x as they lie there, those of a channel side by side.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: x as (H * W, 24, N) of float16, the innermost first, tiled, boxes of 64 x 32 x 1, 128-byte swizzle, zeros
// outside
//
// filter_map: filter as (24, 1, 144) of float16, the innermost first, tiled, boxes of 64 x 1 x 64, 128-byte swizzle,
// zeros outside
constexpr int C = 24;                           // channels of a pixel of x
constexpr int K = 144;                          // channels of a pixel of y: filters
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int TILE_FILTERS = 64;                // filters of a tile
constexpr int FILTER_TILES = 3;                 // tiles across all filters
constexpr int GROUP_PIXELS = 128;               // pixels from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 64;                        // sums that a thread has of such a matrix
constexpr int STEPS = 1;                        // of the reduction: slices of all taps
constexpr int DEPTHS = 2;                       // of 16 products: a step's instructions
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 256;                // pixels of a tile, all of one image
constexpr int STAGES = 8;                       // of the ring: a slice of channels of the tile's pixels
constexpr int STAGE_BYTES = 16384;              // of a stage
constexpr int FILTERS_AT = 131072;              // bytes before the filters
constexpr int FIRST_STAGES = 1;                 // stages whose copies start before the first __syncthreads
constexpr int PLANE_CHANNELS = 32;              // channels of a step
constexpr int PLANES = 4;                       // times 64 pixels: a stage's,
constexpr int PLANES_EACH = 2;                  // a group's
constexpr int PLANES_BYTES = 4096;              // of 64 pixels, in all channels of a step
constexpr int GROUP_BYTES = 8192;               // from one group's pixels to the next one's
constexpr int PLANE_CELLS = 128;                // 16 bytes each: 16 channels of 64 pixels
constexpr int FILTER_BYTES = 8192;              // of a tile's filters in one step: from one step to the next
constexpr int BARRIERS_AT = 155648;             // where the barriers begin
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries that prepare filters and arrays
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

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
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ unsigned long long wc_descriptor_columns_128(const void* rows, int next) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | (unsigned long long)(next / 16) << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves_b_across(float (&sums)[64], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, adds, 1, 1, 0, 1; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[64]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]) : : "memory"); }
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

// The first of the pixels that a lane stores, of 32.
__device__ __forceinline__ int stored_pixel(int lane) {
    return lane % 4 * 8;
}

// Stores 32 pixels of eight filters, of which `filters` exist. A lane has of filter lane / 4, in word i, pixels
// i * 8 + lane % 4 * 2 and the next; `to` is where its stored_pixel lies in the first filter, `exists` whether it does.
__device__ __forceinline__ void store_filters(element* to, bool exists, int filters, const unsigned (&words)[4],
        index_t pixels_y, int lane) {
    const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
    if (exists && lane / 4 < filters) *(uint4*)(to + lane / 4 * pixels_y) = eight;
}

// Where the copies of a tile begin.
struct Tile {
    int image, pixel_of_image;
};

__device__ __forceinline__ Tile tile_of(int number, int image_tiles) {
    const int of_pixels = number / FILTER_TILES;
    return {of_pixels / image_tiles, of_pixels % image_tiles * TILE_PIXELS};
}

// Starts the copies of a stage: a slice of channels of a tile's pixels.
__device__ __forceinline__ void copy_stage(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const Tile& tile, int step) {
    wc_barrier_expect(filled, STAGE_BYTES);
#pragma unroll
    for (int planes = 0; planes < PLANES; ++planes) {
        const int first = tile.pixel_of_image + planes / PLANES_EACH * GROUP_PIXELS + planes % PLANES_EACH * 64;
        wc_tma_load_3(to + planes * PLANES_BYTES, x_map, filled, first, step * PLANE_CHANNELS, tile.image);
    }
}

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them; those that
// have been started are skipped.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, int tiles, int image_tiles) {
    int stage = 0, to_skip = FIRST_STAGES;
    unsigned parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, image_tiles);
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
        const unsigned long long filters = wc_descriptor_rows_128(kept + step * FILTER_BYTES);
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
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int image_tiles = (P * Q + TILE_PIXELS - 1) / TILE_PIXELS, tiles = N * image_tiles * FILTER_TILES;
    // the launch, which knows no images, may have more blocks than there are tiles
    if (blockIdx.x >= tiles) return;
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
        wc_barrier_expect(filters_there, FILTER_TILES * FILTER_BYTES);
#pragma unroll 1
        for (int box = 0; box < FILTER_TILES; ++box)
            wc_tma_load_3(shared + FILTERS_AT + box * FILTER_BYTES, &filter_map, filters_there, 0, 0,
                box * TILE_FILTERS);
        const Tile tile = tile_of(blockIdx.x, image_tiles);
#pragma unroll 1
        for (int stage = 0; stage < FIRST_STAGES; ++stage)
            copy_stage(shared + stage * STAGE_BYTES, filled + stage, &x_map, tile, stage);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, tiles, image_tiles);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        wc_barrier_wait(filters_there, 0);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_filter = tile % FILTER_TILES * TILE_FILTERS;
            const int of_pixels = tile / FILTER_TILES, image_of = of_pixels / image_tiles;
            const index_t first_pixel = (index_t)image_of * P * Q + of_pixels % image_tiles * TILE_PIXELS
                + group * GROUP_PIXELS;
            const index_t image_end = (index_t)(image_of + 1) * P * Q;
            float biases[MATRICES][2];      // of this thread's filters, eight apart
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int lower = 0; lower < 2; ++lower) {
                    const int k = first_filter + m * 64 + warp * 16 + lane / 4 + lower * 8;
                    biases[m][lower] = k < K ? wc_half_to_float(__ldg(bias + k)) : 0.0f;
                }
            }
            float sums[MATRICES][SUMS];
            multiply_tile(sums, shared, shared + FILTERS_AT + tile % FILTER_TILES * FILTER_BYTES, filled, freed, stage,
                parity, STEPS, group, thread);

            // the sums to where they belong
            const index_t pixels_y = (index_t)P * Q;
            const int lane_stored = stored_pixel(lane);
#pragma unroll
            for (int n = 0; n < SUMS / 4; n += 4) {
                // the place in y of what this lane stores of four matrices' pixels, in the first filter
                const index_t stored = first_pixel + n * 8 + lane_stored;
                const index_t stored_at = stored + (index_t)image_of * (K - 1) * pixels_y;
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
                                wc_floats_to_halves(finish(sums[m][sum], biases[m][half]),
                                finish(sums[m][sum + 1], biases[m][half]));
                        }
                        store_filters(y + at, stored < image_end, K - first_k, words, pixels_y, lane);
                    }
                }
            }
        }
    }
}
