// warpconv 0.1.0: wgmma, bfloat16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,512,H,W --filter 512,3,3 --padding 1 --dtype bfloat16 --epilogue bias --arch sm_90a \
//     --algorithm wgmma \
//     --set form=im2col --set filters=128 --set pixels=64 --set stages=6 --set buffer=64 --set splits=4 \
//     --set filter=stages --set window=tap
//
// layer  x[N, 512, H, W] * w[512, 512, 3, 3] -> y[N, 512, P, Q], stride 1, padding 1, bfloat16, then bias
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 128 filters x 64 pixels by two warp groups and a copying thread, 6 stages, sums in 4 parts, 147552
//        bytes of shared memory
// cost   a warp's 1024 outputs: 0 warp loads, 0 shuffles, 147456 FMA a lane, about 232 registers (direct: 147456 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 64 channels of both into
// a ring in shared memory; two groups of four warps multiply what has come. Blocks take tiles until none is left. The
// entry before it leaves x in NHWC.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col):
//
// x_map: x_nhwc as (512, W, H, N) of bfloat16, the innermost first, im2col, 64 channels of 64 pixels, corners (W, H)
// (-1, -1) and (-1, -1), strides 1, 1, 1, 1, 128-byte swizzle, zeros outside
//
// filter_map: filter as (512, 9, 512) of bfloat16, the innermost first, tiled, boxes of 64 x 1 x 128, 128-byte swizzle,
// zeros outside
constexpr int C = 512;                          // channels of a pixel of x
constexpr int K = 512;                          // channels of a pixel of y: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int TILE_FILTERS = 128;               // filters of a tile
constexpr int FILTER_TILES = 4;                 // tiles across all filters
constexpr int GROUP_FILTERS = 64;               // filters from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 32;                        // sums that a thread has of such a matrix
constexpr int SLICE = 64;                       // channels of a step
constexpr int SLICES = 8;                       // of a tap
constexpr int STEPS = 72;                       // of the reduction: slices of all taps
constexpr int DEPTHS = 4;                       // of 16 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 64;                 // pixels of a tile
// of the ring: a slice of a tap of the tile's pixels, and that of its filters
constexpr int STAGES = 6;
constexpr int STAGE_BYTES = 24576;              // of a stage
constexpr int SPLITS = 4;                       // blocks that share a sum
constexpr int PIXEL_BYTES = 8192;               // of a stage: its pixels, behind which its filters lie
constexpr int BARRIERS_AT = 147456;             // where the barriers begin
constexpr int PASS_CHANNELS = 64;               // tile of x on its way to NHWC: channels,
constexpr int PASS_PIXELS = 64;                 // pixels
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
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

// barriers in shared memory, launches that overlap, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wc_wait_for_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ const float* wc_stored_by_launch(const float* address) { asm volatile("griddepcontrol.wait;" : "+l"(address) : : "memory"); return address; }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int c, int w, int h, int n, unsigned short tap_w, unsigned short tap_h) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2], { %7, %8};" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h) : "memory"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_bfloat16s(float (&sums)[32], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[32]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// Where the copies of a tile begin: at the first pixel of its first window, which may be padding.
struct Tile {
    int first_filter, image, top, left;
};

__device__ __forceinline__ Tile tile_of(int number, int P, int Q) {
    const int first_pixel = number / (FILTER_TILES * SPLITS) * TILE_PIXELS;
    const int image = first_pixel / (P * Q), place = first_pixel % (P * Q);
    return {number % FILTER_TILES * TILE_FILTERS, image, place / Q - PAD_TOP, place % Q - PAD_LEFT};
}

// Starts the copies of a stage: one slice of one tap of a tile's pixels, and of its filters.
__device__ __forceinline__ void copy_stage(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const TensorMap* filter_map, const Tile& tile, int step) {
    const int tap = step / SLICES, channel = step % SLICES * SLICE;
    wc_barrier_expect(filled, STAGE_BYTES);
    wc_tma_load_im2col(to, x_map, filled, channel, tile.left, tile.top, tile.image,
                       (unsigned short)(tap % S), (unsigned short)(tap / S));
    wc_tma_load_3(to + PIXEL_BYTES, filter_map, filled, channel, tap, tile.first_filter);
}

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, const TensorMap* filter_map, int tiles, int P, int Q) {
    int stage = 0;
    unsigned parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, P, Q);
        const int split = number / FILTER_TILES % SPLITS;
        for (int step = STEPS * split / SPLITS; step < STEPS * (split + 1) / SPLITS; ++step) {
            wc_barrier_wait(freed + stage, parity);
            copy_stage(ring + stage * STAGE_BYTES, filled + stage, x_map, filter_map, tile, step);
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

// The filter with the channels of a tap side by side: once for each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)K * R * S * C;
            i += gridDim.x * SIDE_THREADS) {
        const int channel = (int)(i % C), tap = (int)(i / C % (R * S));
        filter[i] = w[(i / (C * R * S) * C + channel) * (R * S) + tap];
    }
}

// Eight pixels of a channel, from `place` of their image on; they may go on in the next.
__device__ __forceinline__ void load_eight(element (&eight)[8], const element* x, index_t image, index_t place,
        int channel, index_t pixels, index_t pixels_x) {
    const element* from = x + (image * C + channel) * pixels_x + place;
    const index_t left = pixels - image * pixels_x - place;         // pixels of the batch from here on
    if (pixels_x % 4 == 0) {
        // images begin at multiples of eight pixels, or of four
        const element* const second = place + 4 < pixels_x ? from + 4 : from + 4 + (C - 1) * pixels_x;
        uint2 words[2] = {};
        if (pixels_x % 8 == 0) {
            const uint4 all = __ldg((const uint4*)from);
            words[0] = make_uint2(all.x, all.y);
            words[1] = make_uint2(all.z, all.w);
        } else {
            words[0] = __ldg((const uint2*)from);
            if (left > 4) words[1] = __ldg((const uint2*)second);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) eight[i] = (element)((i % 4 / 2 ? words[i / 4].y : words[i / 4].x) >> i % 2 * 16);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        eight[i] = i < left ? __ldg(from) : 0;
        ++from;
        if (++place == pixels_x) {
            place = 0;
            from += (C - 1) * pixels_x;
        }
    }
}

// Where a pixel's channel lies in a tile: 16 bytes are left out after eight pixels, so that lanes with eight pixels of
// a channel each are in different banks.
__device__ __forceinline__ int in_tile(int pixel, int channel) {
    return pixel * PASS_CHANNELS + pixel / 8 * 8 + channel;
}

// x as NHWC has it, a tile of pixels x channels through shared memory.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
to_nhwc(const unsigned short* __restrict__ x, unsigned short* __restrict__ x_nhwc, int N, int H, int W) {
    wc_launch_next();       // the product may begin: it waits for the end of this launch
    __shared__ __align__(16) element tile[PASS_PIXELS * PASS_CHANNELS + PASS_PIXELS];
    constexpr int EIGHTS = PASS_PIXELS / 8, ROUNDS = PASS_CHANNELS * EIGHTS / SIDE_THREADS, ACROSS = PASS_CHANNELS / 8;
    const index_t pixels_x = (index_t)H * W, pixels = N * pixels_x, first_pixel = (index_t)blockIdx.x * PASS_PIXELS;
    const int first_channel = blockIdx.y * PASS_CHANNELS;
    element eights[ROUNDS][8] = {};
    const int eight = threadIdx.x % EIGHTS;
    const index_t of_eight = first_pixel + eight * 8, image = of_eight / pixels_x, place = of_eight % pixels_x;
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int channel = first_channel + threadIdx.x / EIGHTS + i * (SIDE_THREADS / EIGHTS);
        if (channel < C && of_eight < pixels) load_eight(eights[i], x, image, place, channel, pixels, pixels_x);
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            tile[in_tile(eight * 8 + j, threadIdx.x / EIGHTS + i * (SIDE_THREADS / EIGHTS))] = eights[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int cell = threadIdx.x + i * SIDE_THREADS, pixel = cell / ACROSS, channel = cell % ACROSS * 8;
        const element* const from = tile + in_tile(pixel, channel);
        element* const to = x_nhwc + (first_pixel + pixel) * C + first_channel + channel;
        if (first_pixel + pixel >= pixels) break;
        if (first_channel + channel < C) *(uint4*)to = *(const uint4*)from;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_3x3(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        float* __restrict__ partial_sums, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    wc_wait_for_launch();       // until x_nhwc is complete
    wc_launch_next();       // add_partial_sums may begin: it waits for the end of this launch
    const int pixels = N * P * Q, tiles = (pixels + TILE_PIXELS - 1) / TILE_PIXELS * (FILTER_TILES * SPLITS);
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
            wc_barrier_init(freed + stage, GROUPS);
        }
        wc_fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, &filter_map, tiles, P, Q);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_filter = tile % FILTER_TILES * TILE_FILTERS + group * GROUP_FILTERS;
            const int first_pixel = tile / (FILTER_TILES * SPLITS) * TILE_PIXELS;
            const int split = tile / FILTER_TILES % SPLITS;
            float sums[MATRICES][SUMS];
            multiply_tile(sums, shared, filled, freed, stage, parity,
                STEPS * (split + 1) / SPLITS - STEPS * split / SPLITS, group, thread);

            // the sums to where they belong
            const int first_k = first_filter + warp * 16 + lane / 4;            // of this lane's filters of a matrix
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int k = first_k + m * 64 + half * 8;
                    float* const to = partial_sums + (split * (long long)K + k) * pixels;
#pragma unroll
                    for (int n = 0; n < SUMS / 4; ++n) {
                        const index_t pixel = first_pixel + n * 8 + lane % 4 * 2;
                        if (pixel < pixels) to[pixel] = sums[m][n * 4 + half * 2];
                        if (pixel + 1 < pixels) to[pixel + 1] = sums[m][n * 4 + half * 2 + 1];
                    }
                }
            }
        }
    }
}

// The parts of every sum together, in their order, and what happens to it before it is stored.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
add_partial_sums(float* __restrict__ partial_sums, const unsigned short* __restrict__ bias,
        unsigned short* __restrict__ y, int N, int P, int Q) {
    const index_t outputs = (index_t)N * P * Q * K, i = (index_t)blockIdx.x * SIDE_THREADS + threadIdx.x;
    if (i >= outputs) return;
    const float* const parts = wc_stored_by_launch(partial_sums);       // when the launch before has ended
    float sum = parts[i];
#pragma unroll
    for (int split = 1; split < SPLITS; ++split) sum += parts[(long long)split * outputs + i];
    const index_t pixels_y = (index_t)P * Q, pixels = N * pixels_y, k = i / pixels, pixel = i % pixels;
    const index_t at = (pixel / pixels_y * K + k) * pixels_y + pixel % pixels_y;
    y[at] = wc_float_to_bfloat16(finish(sum, wc_bfloat16_to_float(__ldg(bias + k))));
}
