// warpconv 0.1.0: wgmma, float16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,48 --filter 96,3,3 --stride 2,2 --padding 1 --dtype float16 --layout NHWC \
//     --epilogue bias,relu --arch sm_90a --algorithm wgmma \
//     --set form=im2col --set filters=128 --set pixels=80 --set stages=6 --set buffer=80 --set splits=1 \
//     --set filter=stays --set window=tap
//
// layer  x[N, H, W, 48] * w[96, 48, 3, 3] -> y[N, P, Q, 96], stride 2, padding 1, float16 NHWC, then bias, relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 128 filters x 80 pixels, whose filters stay, by two warp groups and a copying thread, 6 stages,
//        229496 bytes of shared memory
// cost   a warp's 1280 outputs: 0 warp loads, 0 shuffles, 17280 FMA a lane, about 232 registers (direct: 17280 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 64 channels of pixels
// into a ring in shared memory, beside which all filters stay; two groups of four warps multiply what has come. Blocks
// take tiles until none is left.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col):
//
// x_map: x as (48, W, H, N) of float16, the innermost first, im2col, 64 channels of 80 pixels, corners (W, H) (-1, -1)
// and (-1, -1), strides 1, 2, 2, 1, 128-byte swizzle, zeros outside
//
// filter_map: filter as (48, 9, 96) of float16, the innermost first, tiled, boxes of 64 x 1 x 128, 128-byte swizzle,
// zeros outside
//
// y_map: y as (96, N * P * Q) of float16, the innermost first, tiled, boxes of 64 x 80, 128-byte swizzle, zeros outside
constexpr int C = 48;                           // channels of a pixel of x
constexpr int K = 96;                           // channels of a pixel of y: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int GROUP_FILTERS = 64;               // filters from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 40;                        // sums that a thread has of such a matrix
constexpr int STEPS = 9;                        // of the reduction: slices of all taps
constexpr int DEPTHS = 3;                       // of 16 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 80;                 // pixels of a tile
constexpr int STAGES = 6;                       // of the ring: a slice of a tap of the tile's pixels
constexpr int STAGE_BYTES = 10240;              // of a stage
constexpr int FILTERS_AT = 61440;               // bytes before the filters
constexpr int FILTER_BYTES = 16384;             // of a tile's filters in one step: from one step to the next
constexpr int STORE_PIXELS = 80;                // pixels of 64 filters that are stored at once
constexpr int PARTS = 1;                        // such parts of a group's pixels
constexpr int STORE_BYTES = 10240;              // of a buffer of them
constexpr int BUFFERS_AT = 208896;              // where buffers of outputs begin in shared memory
constexpr int BARRIERS_AT = 229376;             // where the barriers begin
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries that prepare filters and arrays
using element = unsigned short;                 // float16, as bits

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// barriers in shared memory, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_sync_threads(int barrier, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int c, int w, int h, int n, unsigned short tap_w, unsigned short tap_h) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2], { %7, %8};" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h) : "memory"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ void wc_tma_store_2(const TensorMap* map, const void* from, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, { %2, %3}], [%1];" :: "l"(map), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves(float (&sums)[40], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %42, 0; wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, %40, %41, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[40]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
__device__ __forceinline__ void wc_store_matrices_transposed_4(void* row, unsigned a, unsigned b, unsigned c, unsigned d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], { %1, %2, %3, %4};" :: "r"((unsigned)__cvta_generic_to_shared(row)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
__device__ __forceinline__ void wc_tma_stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_tma_stores_read_all() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wc_tma_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Where the copies of a tile begin: at the first pixel of its first window, which may be padding.
struct Tile {
    int image, top, left;
};

__device__ __forceinline__ Tile tile_of(int number, int P, int Q) {
    const int first_pixel = number * TILE_PIXELS;
    const int image = first_pixel / (P * Q), place = first_pixel % (P * Q);
    return {image, place / Q * STRIDE_H - PAD_TOP, place % Q * STRIDE_W - PAD_LEFT};
}

// Starts the copies of a stage: one slice of one tap of a tile's pixels.
__device__ __forceinline__ void copy_stage(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const Tile& tile, int step) {
    const int tap = step, channel = 0;
    wc_barrier_expect(filled, STAGE_BYTES);
    wc_tma_load_im2col(to, x_map, filled, channel, tile.left, tile.top, tile.image,
                       (unsigned short)(tap % S), (unsigned short)(tap / S));
}

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, int tiles, int P, int Q) {
    int stage = 0;
    unsigned parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, P, Q);
        for (int step = 0; step < STEPS; ++step) {
            wc_barrier_wait(freed + stage, parity);
            copy_stage(ring + stage * STAGE_BYTES, filled + stage, x_map, tile, step);
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
                wc_wgmma_halves(sums[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS, pixels + depth * DEPTH_CELLS,
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
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)K * R * S * C;
            i += gridDim.x * SIDE_THREADS) {
        const int channel = (int)(i % C), tap = (int)(i / C % (R * S));
        filter[i] = w[(i / (C * R * S) * C + channel) * (R * S) + tap];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_3x3(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        const __grid_constant__ TensorMap y_map, const unsigned short* __restrict__ bias, int N, int P, int Q) {
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
        // all filters, once
        wc_fence_proxy_async();
        wc_barrier_expect(filters_there, STEPS * FILTER_BYTES);
#pragma unroll 1
        for (int box = 0; box < STEPS; ++box)
            wc_tma_load_3(shared + FILTERS_AT + box * FILTER_BYTES, &filter_map, filters_there, 0, box, 0);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, tiles, P, Q);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        wc_barrier_wait(filters_there, 0);
        unsigned char* const buffers = shared + BUFFERS_AT + group * STORE_BYTES;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_filter = group * GROUP_FILTERS;
            const int first_pixel = tile * TILE_PIXELS;
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
            multiply_tile(sums, shared, shared + FILTERS_AT, filled, freed, stage, parity, STEPS, group, thread);

            // the sums to where they belong, STORE_PIXELS of 64 filters at a time
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    unsigned char* const rows = buffers;
                    if (thread == 0) wc_tma_stores_read_all();
                    wc_sync_threads(1 + group, 128);
#pragma unroll
                    for (int i = 0; i < STORE_PIXELS / 16; ++i) {
                        const int sum = part * STORE_PIXELS / 2 + i * 8;
                        const int row = i * 16 + lane / 16 * 8 + lane % 8;
                        unsigned char* const cell = rows + row * ROW_BYTES
                            + (((warp * 2 + lane / 8 % 2) ^ (row % 8)) << 4);
                        wc_store_matrices_transposed_4(cell,
                            wc_floats_to_halves(finish(sums[m][sum], biases[m][0]),
                            finish(sums[m][sum + 1], biases[m][0])),
                            wc_floats_to_halves(finish(sums[m][sum + 2], biases[m][1]),
                            finish(sums[m][sum + 3], biases[m][1])),
                            wc_floats_to_halves(finish(sums[m][sum + 4], biases[m][0]),
                            finish(sums[m][sum + 5], biases[m][0])),
                            wc_floats_to_halves(finish(sums[m][sum + 6], biases[m][1]),
                            finish(sums[m][sum + 7], biases[m][1])));
                    }
                    wc_fence_proxy_async();
                    wc_sync_threads(1 + group, 128);
                    if (thread == 0) {
                        wc_tma_store_2(&y_map, rows, first_filter + m * 64, first_pixel + part * STORE_PIXELS);
                        wc_tma_stores_commit();
                    }
                }
            }
        }
        if (thread == 0) wc_tma_stores_done();
    }
}
