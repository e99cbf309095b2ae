// warpconv 0.1.0: pointwise, float32. Generated from templates/pointwise/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,256,H,W --filter 64,1,1 --precision tf32 --epilogue bias,relu --arch sm_90a \
//     --algorithm pointwise \
//     --set filters=64 --set matrices=2 --set stages=5
//
// layer  x[N, 256, H, W] * w[64, 256, 1, 1] -> y[N, 64, P, Q], stride 1, padding 0, float32, tf32 products, then bias,
//        relu
//        N, H, W (and so P, Q) are arguments (H * W a multiple of 4); all else is a constant of the text
// plan   tiles of 64 filters x 256 pixels of an image, factors rounded to TF32, pixels from registers, by two warp
//        groups and a copying thread, 5 stages, 204880 bytes of shared memory
// cost   a warp's 2048 outputs: 256 warp loads, 0 shuffles, 16384 FMA a lane, about 232 registers (direct: 16384 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): pixels times filters. One thread of a block keeps
// the tensor memory accelerator (TMA) copying slices of 32 channels of both into a ring in shared memory, pixels as
// they lie in x, rounded to TF32; the first factor of that instruction comes from registers, to which a lane loads what
// it needs of its pixels. Blocks take tiles until none is left.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: x as (H * W, 256, N) of float32 rounded to TF32, the innermost first, tiled, boxes of 32 x 32 x 1, 128-byte
// swizzle, zeros outside
//
// filter_map: filter as (32, 64, 8) of float32, the innermost first, tiled, boxes of 32 x 64 x 1, 128-byte swizzle,
// zeros outside
constexpr int C = 256;                          // channels of a pixel of x
constexpr int K = 64;                           // channels of a pixel of y: filters
constexpr int BLOCKS = 8;                       // times eight filters of a tile
constexpr int TILE_PIXELS = 256;                // pixels of a tile, all of one image
constexpr int MATRICES = 2;                     // of 64 pixels: a group's
constexpr int SUMS = 32;                        // of a thread: of such a matrix
constexpr int SLICE = 32;                       // channels of a step
constexpr int STEPS = 8;                        // of the reduction
constexpr int DEPTHS = 4;                       // of 8 products: a step's instructions
constexpr int DEPTH_CELLS = 2;                  // of 16 bytes: an instruction's products of a filter
// pixels of a channel that lie side by side in shared memory: a row of 128 bytes
constexpr int PLANE_PIXELS = 32;
constexpr int PLANE_BYTES = 4096;               // of such rows of a slice's channels
constexpr int GROUP_BYTES = 16384;              // a group's pixels of a slice
constexpr int PIXEL_BYTES = 32768;              // both groups'
constexpr int STAGES = 5;                       // of the ring: a slice of pixels, and that of filters
constexpr int STAGE_BYTES = 40960;              // of shared memory
constexpr int BARRIERS_AT = 204800;             // where the barriers begin
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
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
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_tf32s_words(float (&sums)[32], const unsigned (&a)[4], unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %37, 0; wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, { %32, %33, %34, %35}, %36, adds, 1, 1; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[32]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]) : : "memory"); }

// One thread: the copies of this block's tiles, stage after stage, as the groups that multiply free them.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, const TensorMap* filter_map, int tiles, int image_tiles) {
    int stage = 0;
    unsigned parity = 1;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_filter = 0, of_pixels = tile;
        const int image = of_pixels / image_tiles, place = of_pixels % image_tiles * TILE_PIXELS;
        for (int step = 0; step < STEPS; ++step) {
            unsigned char* const to = ring + stage * STAGE_BYTES;
            wc_barrier_wait(freed + stage, parity);
            wc_barrier_expect(filled + stage, STAGE_BYTES);
#pragma unroll
            for (int plane = 0; plane < TILE_PIXELS / PLANE_PIXELS; ++plane)
                wc_tma_load_3(to + plane * PLANE_BYTES, x_map, filled + stage, place + plane * PLANE_PIXELS,
                    step * SLICE, image);
            wc_tma_load_3(to + PIXEL_BYTES, filter_map, filled + stage, 0, first_filter, step);
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// Where a lane's element of its pixel `of_row`, of 32 side by side, lies in the row of a channel: cells of 16 bytes
// change places with the channel. Lanes of one channel have eight pixels, those of another channel lie in other banks.
__device__ __forceinline__ int place_of(int of_row, int channel) {
    return channel * 128 + ((of_row / 4 ^ channel) << 4) + of_row % 4 * 4;
}

// The products of a tile's pixels and filters, slice after slice. Of eight channels a lane has the two that are
// neighbours, of two pixels eight apart, for the first four products and for the last.
__device__ __forceinline__ void multiply(float (&sums)[MATRICES][SUMS], const unsigned char* pixels,
        const unsigned char* filters, unsigned long long* filled, unsigned long long* freed, int& stage,
        unsigned& parity, int warp, int lane) {
    const int channel = lane % 4 * 2, of_row = warp % 2 * 16 + lane / 4;
    const int places[4] =
        {place_of(of_row, channel), place_of(of_row + 8, channel), place_of(of_row, channel + 1),
        place_of(of_row + 8, channel + 1)};
    const unsigned char* const of_warp = pixels + warp / 2 * PLANE_BYTES;
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
        wc_barrier_wait(filled + stage, parity);
        unsigned factors[MATRICES][DEPTHS][4];
#pragma unroll
        for (int m = 0; m < MATRICES; ++m)
#pragma unroll
            for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
                for (int i = 0; i < 4; ++i) factors[m][depth][i] =
                    *(const unsigned*)(of_warp + stage * STAGE_BYTES + m * (2 * PLANE_BYTES) + depth * 1024
                    + places[i]);
        const unsigned long long filters_at = wc_descriptor_rows_128(filters + stage * STAGE_BYTES);
        wc_wgmma_fence();
#pragma unroll
        for (int m = 0; m < MATRICES; ++m)
#pragma unroll
            for (int depth = 0; depth < DEPTHS;
                ++depth) wc_wgmma_tf32s_words(sums[m], factors[m][depth], filters_at + depth * DEPTH_CELLS, true);
        wc_wgmma_commit();
#pragma unroll
        for (int m = 0; m < MATRICES; ++m) wc_wgmma_wait_sums(sums[m]);
        __syncwarp();       // all lanes have read this stage
        if (lane == 0) wc_barrier_arrive(freed + stage);
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}

// A float rounded to TF32, 11 digits of the fraction's 24, ties away from zero; NaN stays NaN.
__device__ __forceinline__ float rounded(float value) {
    const unsigned bits = __float_as_uint(value);
    return __uint_as_float((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (bits + 0x1000u) & 0xffffe000u);
}

// The filter as [slice][filter][channel]: once for each filter, before the first call. Of eight channels the even ones
// come first, which are the first four products of an instruction as lanes load them.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < STEPS * K * SLICE; i += gridDim.x * SIDE_THREADS) {
        const int k = i / SLICE % K, product = i % 8,
            channel = i / (K * SLICE) * SLICE + i % SLICE / 8 * 8 + product % 4 * 2 + product / 4;
        filter[i] = channel < C ? rounded(w[(long long)k * C + channel]) : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
pointwise_1x1(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        const float* __restrict__ bias, float* __restrict__ y, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + STAGES;
    const int image_tiles = (P * Q + TILE_PIXELS - 1) / TILE_PIXELS, tiles = N * image_tiles;
    if (blockIdx.x >= tiles) return;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
            wc_barrier_init(freed + stage, GROUPS * 4);
        }
        wc_fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, &filter_map, tiles, image_tiles);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
        int stage = 0;
        unsigned parity = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int of_pixels = tile;
            const int image = of_pixels / image_tiles;
            // this lane's first pixel of the image
            const int first_pixel = of_pixels % image_tiles * TILE_PIXELS + group * (MATRICES * 64) + warp * 16
                + lane / 4;
            float sums[MATRICES][SUMS] = {};
            multiply(sums, shared + group * GROUP_BYTES, shared + PIXEL_BYTES, filled, freed, stage, parity, warp,
                lane);
            const bool odd = lane & 1;
            const index_t plane = (index_t)P * Q, first = (index_t)image * K * plane;
#pragma unroll
            for (int n = 0; n < BLOCKS; ++n)
#pragma unroll
                for (int m = 0; m < MATRICES; ++m) {
                    const int pixel = first_pixel + m * 64 + (odd ? 8 : 0);
                    const float* const four = sums[m] + 4 * n;
                    const float got_0 = __shfl_xor_sync(0xffffffffu, odd ? four[0] : four[2], 1);
                    const float got_1 = __shfl_xor_sync(0xffffffffu, odd ? four[1] : four[3], 1);
                    const float values[4] =
                        {odd ? got_0 : four[0], odd ? got_1 : four[1], odd ? four[2] : got_0, odd ? four[3] : got_1};
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int k = n * 8 + lane % 4 / 2 * 4 + i;
                        const index_t at = first + k * plane + pixel;
                        if (pixel < P * Q) y[at] = finish(values[i], __ldg(bias + k));
                    }
                }
        }
    }
}
