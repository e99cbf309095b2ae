// warpconv 0.1.0: wgmma, float16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,100,H,W --filter 136,3,3 --padding 1 --dtype float16 --epilogue bias,residual,relu \
//     --arch sm_90a --algorithm wgmma \
//     --set form=im2col --set filters=128 --set pixels=192 --set stages=4 --set buffer=192 --set splits=1 \
//     --set filter=stages --set window=tap
//
// layer  x[N, 100, H, W] * w[136, 100, 3, 3] -> y[N, 136, P, Q], stride 1, padding 1, float16, then bias, residual,
//        relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 128 filters x 192 pixels by two warp groups and a copying thread, 4 stages, 163904 bytes of shared
//        memory
// cost   a warp's 3072 outputs: 0 warp loads, 0 shuffles, 110592 FMA a lane, about 232 registers (direct: 86400 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 64 channels of both into
// a ring in shared memory; two groups of four warps multiply what has come. Blocks take tiles until none is left. The
// entry before it leaves x in NHWC.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col):
//
// x_map: x_nhwc as (104, W, H, N) of float16, the innermost first, im2col, 64 channels of 192 pixels, corners (W, H)
// (-1, -1) and (-1, -1), strides 1, 1, 1, 1, 128-byte swizzle, zeros outside
//
// filter_map: filter as (104, 9, 136) of float16, the innermost first, tiled, boxes of 64 x 1 x 128, 128-byte swizzle,
// zeros outside
constexpr int C = 100;                          // channels of a pixel of x
constexpr int K = 136;                          // channels of a pixel of y: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int TILE_FILTERS = 128;               // filters of a tile
constexpr int FILTER_TILES = 2;                 // tiles across all filters
constexpr int GROUP_FILTERS = 64;               // filters from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 96;                        // sums that a thread has of such a matrix
constexpr int SLICE = 64;                       // channels of a step
constexpr int SLICES = 2;                       // of a tap
constexpr int STEPS = 18;                       // of the reduction: slices of all taps
constexpr int DEPTHS = 4;                       // of 16 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int TILE_PIXELS = 192;                // pixels of a tile
// of the ring: a slice of a tap of the tile's pixels, and that of its filters
constexpr int STAGES = 4;
constexpr int STAGE_BYTES = 40960;              // of a stage
constexpr int PIXEL_BYTES = 24576;              // of a stage: its pixels, behind which its filters lie
constexpr int BARRIERS_AT = 163840;             // where the barriers begin
constexpr int C_PIXEL = 104;                    // channels of a pixel of x_nhwc, filled up with zeros
constexpr int PASS_CHANNELS = 64;               // tile of x on its way to NHWC: channels,
constexpr int PASS_PIXELS = 64;                 // pixels
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
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then residual, then relu.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    value = value < 0.0f ? 0.0f : value;
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
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int c, int w, int h, int n, unsigned short tap_w, unsigned short tap_h) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2], { %7, %8};" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h) : "memory"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves(float (&sums)[96], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %98, 0; wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, %96, %97, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]), "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[96]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]), "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]) : : "memory"); }
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

// The words that store_filters would store there, of `from`; zeros where nothing exists.
__device__ __forceinline__ uint4 load_filters(const element* from, bool exists, int filters, index_t pixels_y, int unit,
        int lane) {
    if (unit == 8) {
        uint4 eight = make_uint4(0u, 0u, 0u, 0u);
        if (exists && lane / 4 < filters) eight = *(const uint4*)(from + lane / 4 * pixels_y);
        return regroup(eight.x, eight.y, eight.z, eight.w, lane % 4);
    }
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (unit == 2) {
            const int filter = 2 * i + lane / 4 % 2;
            pairs[i] = exists && filter < filters ? *(const unsigned*)(from + filter * pixels_y) : 0u;
            continue;
        }
        const unsigned first = exists && 2 * i < filters ? from[2 * i * pixels_y] : 0u;
        const unsigned second = exists && 2 * i + 1 < filters ? from[(2 * i + 1) * pixels_y] : 0u;
        const bool odd = lane & 4;
        const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 4);
        pairs[i] = odd ? other | second << 16 : first | other << 16;
    }
    return regroup_filters(pairs[0], pairs[1], pairs[2], pairs[3], lane / 8);
}

// Where the copies of a tile begin: at the first pixel of its first window, which may be padding.
struct Tile {
    int first_filter, image, top, left;
};

__device__ __forceinline__ Tile tile_of(int number, int P, int Q) {
    const int first_pixel = number / FILTER_TILES * TILE_PIXELS;
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
        for (int step = 0; step < STEPS; ++step) {
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
    for (long long i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < (long long)K * R * S * C_PIXEL;
            i += gridDim.x * SIDE_THREADS) {
        const int channel = (int)(i % C_PIXEL), tap = (int)(i / C_PIXEL % (R * S));
        filter[i] = channel >= C ? 0 : w[(i / (C_PIXEL * R * S) * C + channel) * (R * S) + tap];
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
        element* const to = x_nhwc + (first_pixel + pixel) * C_PIXEL + first_channel + channel;
        if (first_pixel + pixel >= pixels) break;
        if (first_channel + channel < C_PIXEL) *(uint4*)to = *(const uint4*)from;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_3x3(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        const unsigned short* __restrict__ bias, const unsigned short* residual, unsigned short* y, int N, int P,
        int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    wc_wait_for_launch();       // until x_nhwc is complete
    const int pixels = N * P * Q, tiles = (pixels + TILE_PIXELS - 1) / TILE_PIXELS * FILTER_TILES;
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
            const int first_pixel = tile / FILTER_TILES * TILE_PIXELS;
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
                        const uint4 loaded =
                            load_filters(residual + at, stored < pixels, K - first_k, pixels_y, unit, lane);
                        const unsigned added[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const int sum = (n + i) * 4 + half * 2;
                            words[i] =
                                wc_floats_to_halves(finish(sums[m][sum], biases[m][half],
                                wc_half_low_to_float(added[i])),
                                finish(sums[m][sum + 1], biases[m][half], wc_half_high_to_float(added[i])));
                        }
                        store_filters(y + at, stored < pixels, K - first_k, words, pixels_y, unit, lane);
                    }
                }
            }
        }
    }
}
