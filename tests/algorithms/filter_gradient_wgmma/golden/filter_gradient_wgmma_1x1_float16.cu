// warpconv 0.1.0: filter_gradient_wgmma, float16. Generated from templates/filter_gradient_wgmma/kernel.cu.jinja; do
//        not edit.
// Emit it again with
//   warpconv emit --input N,H,W,256 --filter 128,1,1 --dtype float16 --layout NHWC --operation filter_gradient \
//     --arch sm_90a --algorithm filter_gradient_wgmma \
//     --set form=channels --set filters=128 --set columns=128 --set pixels=64 --set stages=3 --set splits=8
//
// layer  x[N, H, W, 256] * w[128, 256, 1, 1] -> y[N, P, Q, 128], stride 1, padding 0, float16 NHWC; its filter gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 128 filters x 128 taps of channels x 64 pixels by two warp groups, 3 stages, 98352 bytes of shared
//        memory, in 8 shares of the pixels, whose sums are added then
// cost   a warp's 2048 sums x 64 pixels: 0 warp loads, 0 shuffles, 4096 FMA a lane, about 232 registers (direct: 4096
//        loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): dy as filters x pixels by the windows as pixels x
// columns, a channel each. A block makes a tile of filters x columns from a share of the batch's pixels. One thread
// keeps the tensor memory accelerator (TMA) copying boxes of 64 channels of 64 pixels into a ring in shared memory; two
// groups of four warps multiply what has come, the pixels of both operands one below the other as they lie there.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: x as (256, N * P * Q) of float16, the innermost first, tiled, boxes of 64 x 64, 128-byte swizzle, zeros
// outside
//
// dy_map: dy as (128, N * P * Q) of float16, the innermost first, tiled, boxes of 64 x 64, 128-byte swizzle, zeros
// outside
constexpr int C = 256;                          // channels of a pixel of x
constexpr int K = 128;                          // channels of a pixel of dy: filters
constexpr int WINDOW = 256;                     // columns: channels
constexpr int CHUNKS = 8;                       // shares of the pixels, each summed by itself
constexpr int PIXELS = 64;                      // pixels of a stage
constexpr int COLUMN_TILES = 2;                 // tiles of all columns
constexpr int SLICES = 4;                       // boxes of 64 channels of a tap
constexpr int FILTER_BOXES = 2;                 // boxes of a stage: 64 filters each,
constexpr int COLUMN_BOXES = 2;                 // 64 columns each
constexpr int BOX_BYTES = 8192;                 // of shared memory: of a box,
constexpr int STAGE_BYTES = 32768;              // and of a stage, its filters' boxes first
constexpr int STAGES = 3;                       // of the ring
constexpr int BARRIERS_AT = 98304;              // where the barriers lie behind it
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int GROUP_FILTERS = 64;               // filters from one group's to the next one's
constexpr int SUM_BOXES = 2;                    // boxes of a group's columns
constexpr int MATRICES = 1;                     // of 64 filters: a group's
constexpr int SUMS = 64;                        // of a thread: of such a matrix
constexpr int DEPTHS = 4;                       // of 16 pixels: a stage's instructions
constexpr int DEPTH_CELLS = 128;                // 16 bytes each: from one to the next
constexpr int THREADS = 384;                    // threads of a block

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// barriers in shared memory, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_2(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_columns_128(const void* rows, int next) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | (unsigned long long)(next / 16) << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves_across(float (&sums)[64], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, adds, 1, 1, 1, 1; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[64]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// One thread: the copies of this block's stages, one after the other as the groups that multiply free them.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, const TensorMap* dy_map, int first_box, int first_filter, int first_pixel, int steps) {
    constexpr int boxes = COLUMN_BOXES;
    int stage = 0;
    unsigned parity = 1;
    for (int step = 0; step < steps; ++step) {
        const int pixel = first_pixel + step * PIXELS;
        unsigned char* const to = ring + stage * STAGE_BYTES;
        wc_barrier_wait(freed + stage, parity);
        wc_barrier_expect(filled + stage, (FILTER_BOXES + boxes) * BOX_BYTES);
        for (int i = 0; i < FILTER_BOXES; ++i)
            wc_tma_load_2(to + i * BOX_BYTES, dy_map, filled + stage, first_filter + i * 64, pixel);
        for (int i = 0; i < boxes; ++i) {
            unsigned char* const window = to + (FILTER_BOXES + i) * BOX_BYTES;
            wc_tma_load_2(window, x_map, filled + stage, (first_box + i) * 64, pixel);
        }
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}

// The products of a group's sums. Those of a stage are under way while the next one is waited for; then the one before
// is free.
__device__ __forceinline__ void multiply_tile(float (&sums)[MATRICES][SUMS], const unsigned char* ring,
        unsigned long long* filled, unsigned long long* freed, int steps, int group, int thread) {
    int stage = 0, before = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wc_barrier_wait(filled + stage, parity);
        const unsigned char* const at = ring + stage * STAGE_BYTES;
        const unsigned long long filters =
            wc_descriptor_columns_128(at + group * (GROUP_FILTERS / 64 * BOX_BYTES), BOX_BYTES);
        const unsigned long long windows = wc_descriptor_columns_128(at + FILTER_BOXES * BOX_BYTES, BOX_BYTES);
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
                wc_wgmma_halves_across(sums[m], filters + m * (BOX_BYTES / 16) + depth * DEPTH_CELLS,
                    windows + depth * DEPTH_CELLS, true);
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
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
filter_gradient_wgmma_1x1(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap dy_map,
        float* __restrict__ parts, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    // this block's tile: blocks count tiles of columns first, then of filters, then shares of the pixels
    const int first_box = blockIdx.x % COLUMN_TILES * COLUMN_BOXES, first_filter = 0;
    const int chunk = blockIdx.x / COLUMN_TILES;
    const long long all_steps = ((long long)N * P * Q + PIXELS - 1) / PIXELS, first_step = all_steps * chunk / CHUNKS;
    const int steps = (int)(all_steps * (chunk + 1) / CHUNKS - first_step);
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
        if (threadIdx.x == 0) fetch(shared, filled, freed, &x_map, &dy_map, first_box, first_filter,
            (int)first_step * PIXELS, steps);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
        float sums[MATRICES][SUMS] = {};
        multiply_tile(sums, shared, filled, freed, steps, group, thread);

        // the sums of this share: filters x columns
        float* const to = parts + (long long)chunk * K * WINDOW;
        const int lane_filter = group * GROUP_FILTERS + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int i = 0; i < SUM_BOXES; ++i) {
            const int box = first_box + i;
            const int first_channel = box % SLICES * 64, column = box / SLICES * C + first_channel + thread % 4 * 2;
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int filter = lane_filter + m * 64 + half * 8;
                    float* const row = to + (long long)filter * WINDOW + column;
#pragma unroll
                    for (int n = 0; n < 8; ++n) {
                        const float* const pair = sums[m] + (i * 8 + n) * 4 + half * 2;
                        *(float2*)(row + n * 8) = make_float2(pair[0], pair[1]);
                    }
                }
            }
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every second chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ dw) {
    __shared__ float sums[2][256];
    constexpr long long ELEMENTS = (long long)K * WINDOW;
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    float sum = 0.0f;
    if (i < ELEMENTS) {
#pragma unroll 4
        for (int chunk = threadIdx.y; chunk < CHUNKS; chunk += 2) sum += __ldg(parts + chunk * ELEMENTS + i);
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < ELEMENTS) {
#pragma unroll
        for (int y = 1; y < 2; ++y) sum += sums[y][threadIdx.x];
        dw[i] = wc_float_to_half(sum);
    }
}
