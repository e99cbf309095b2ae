// warpconv 0.1.0: wgmma, float16. Generated from templates/wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,64 --filter 64,3,3 --padding 1 --dtype float16 --layout NHWC \
//     --epilogue bias,residual,relu --arch sm_90a --algorithm wgmma \
//     --set form=halo --set filters=64 --set pixels=416 --set stages=4 --set rows=7 --set columns=56 --set boxes=2 \
//     --set box=taps --set order=pixels
//
// layer  x[N, H, W, 64] * w[64, 64, 3, 3] -> y[N, P, Q, 64], stride 1, padding 1, float16 NHWC, then bias, residual,
//        relu
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 64 filters x 7 x 56 outputs from one box of 9 x 58 pixels for all taps, 2 boxes by two warp groups
//        and a copying thread, 4 stages, 224360 bytes of shared memory
// cost   a warp's 3328 outputs: 0 warp loads, 0 shuffles, 59904 FMA a lane, about 232 registers (direct: 59904 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels. One thread of a block keeps the tensor memory accelerator (TMA) copying slices of 64 channels of both into
// a ring in shared memory; two groups of four warps multiply what has come. Blocks take tiles until none is left.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// x_map: x as (64, W, H, N) of float16, the innermost first, tiled, boxes of 64 x 58 x 9 x 1, 128-byte swizzle, zeros
// outside
//
// filter_map: filter as (64, 9, 64) of float16, the innermost first, tiled, boxes of 64 x 1 x 64, 128-byte swizzle,
// zeros outside
//
// y_map: y as (64, Q, P, N) of float16, the innermost first, tiled, boxes of 64 x 56 x 7 x 1, 128-byte swizzle, zeros
// outside
//
// residual_map: residual as (64, Q, P, N) of float16, the innermost first, tiled, boxes of 64 x 56 x 7 x 1, 128-byte
// swizzle, zeros outside
constexpr int C = 64;                           // channels of a pixel of x
constexpr int K = 64;                           // channels of a pixel of y: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int GROUP_PIXELS = 208;               // pixels from one group's to the next one's
constexpr int MATRICES = 1;                     // matrices of 64 filters that a warp group has
constexpr int SUMS = 104;                       // sums that a thread has of such a matrix
constexpr int SLICE = 64;                       // channels of a step
constexpr int SLICES = 1;                       // of a tap
constexpr int DEPTHS = 4;                       // of 16 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // from one matrix of filters to the next, in units of 16 bytes
constexpr int DEPTH_CELLS = 2;                  // an instruction's 16 products along a row, in units of 16 bytes
constexpr int ROWS = 7;                         // output rows of a tile
constexpr int COLUMNS = 56;                     // output columns of a tile
constexpr int BOX_COLUMNS = 58;                 // pixels of a row of the box that serves all taps
constexpr int BOX_BYTES = 66816;                // of the box, as they are copied
constexpr int BOXES = 2;                        // of the ring of boxes, each a slice of all taps
constexpr int STAGES = 4;                       // of the ring of filters: a slice of a tap each
constexpr int FIRST_STAGES = 2;                 // stages of filters whose copies start before the first __syncthreads
constexpr int SPARE_ROWS = 16;                  // of a buffer, from one group's to the next one's
constexpr int TAPS = 9;                         // of a filter
constexpr int PIXEL_BYTES = 68608;              // from one buffer of pixels to the next
constexpr int FILTER_BYTES = 8192;              // from one buffer of filters to the next
constexpr int STORE_PIXELS = 208;               // pixels of 64 filters that are stored at once
constexpr int PARTS = 1;                        // such parts of a group's pixels
constexpr int STORED_BYTES = 50176;             // of such a buffer that are copied
constexpr int BUFFERS_EACH = 1;                 // buffers of a group
constexpr int FIRST_LOADS = 1;                  // parts of the residual under way before the products
constexpr int BUFFERS_AT = 169984;              // where buffers of outputs begin in shared memory
constexpr int BARRIERS_AT = 224256;             // where the barriers begin
constexpr int ARRIVED_AT = 224352;              // where those of the residual begin
constexpr int THREADS = 384;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries that prepare filters and arrays
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
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ void wc_tma_load_4(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2, int c3) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
__device__ __forceinline__ void wc_tma_store_4(const TensorMap* map, const void* from, int c0, int c1, int c2, int c3) { asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, { %2, %3, %4, %5}], [%1];" :: "l"(map), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves(float (&sums)[104], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %106, 0; wgmma.mma_async.sync.aligned.m64n208k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103}, %104, %105, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]), "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]), "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]), "+f"(sums[102]), "+f"(sums[103]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[104]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]), "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]), "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]), "+f"(sums[102]), "+f"(sums[103]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
__device__ __forceinline__ void wc_store_matrices_transposed_4(void* row, unsigned a, unsigned b, unsigned c, unsigned d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], { %1, %2, %3, %4};" :: "r"((unsigned)__cvta_generic_to_shared(row)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
__device__ __forceinline__ void wc_load_matrices_transposed_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory"); }
__device__ __forceinline__ void wc_tma_stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_tma_stores_read_all() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wc_tma_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Where the copies of a tile begin: at the first pixel of its first window, which may be padding.
struct Tile {
    int first_filter, image, top, left;
};

__device__ __forceinline__ Tile tile_of(int number, int tiles_down, int tiles_across) {
    const int place = number, image = place / (tiles_across * tiles_down);
    const int top = place / tiles_across % tiles_down * ROWS - PAD_TOP,
        left = place % tiles_across * COLUMNS - PAD_LEFT;
    return {0, image, top, left};
}

// Starts the copy of a box: a slice of the pixels that a tile's windows cover.
__device__ __forceinline__ void copy_box(unsigned char* to, unsigned long long* filled, const TensorMap* x_map,
        const Tile& tile, int slice) {
    wc_barrier_expect(filled, BOX_BYTES);
    wc_tma_load_4(to, x_map, filled, slice * SLICE, tile.left, tile.top, tile.image);
}

// Starts the copy of a stage: one slice of one tap of a tile's filters.
__device__ __forceinline__ void copy_filters(unsigned char* to, unsigned long long* filled, const TensorMap* filter_map,
        const Tile& tile, int slice, int tap) {
    wc_barrier_expect(filled, FILTER_BYTES);
    wc_tma_load_3(to, filter_map, filled, slice * SLICE, tap, tile.first_filter);
}

// One thread: the copies of this block's tiles, a box and the filters of all its taps, as the groups that multiply free
// them; those that have been started are skipped.
__device__ __forceinline__ void fetch(unsigned char* shared, unsigned long long* filled_boxes,
        unsigned long long* freed_boxes, unsigned long long* filled, unsigned long long* freed, const TensorMap* x_map,
        const TensorMap* filter_map, int tiles, int tiles_down, int tiles_across) {
    int box = 0, stage = 0, boxes_to_skip = 1, to_skip = FIRST_STAGES;
    unsigned box_parity = 1, parity = 1;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_down, tiles_across);
        for (int slice = 0; slice < SLICES; ++slice) {
            if (boxes_to_skip > 0) {
                --boxes_to_skip;
            } else {
                wc_barrier_wait(freed_boxes + box, box_parity);
                copy_box(shared + box * PIXEL_BYTES, filled_boxes + box, x_map, tile, slice);
            }
            if (++box == BOXES) {
                box = 0;
                box_parity ^= 1;
            }
            for (int tap = 0; tap < TAPS; ++tap) {
                if (to_skip > 0) {
                    --to_skip;
                } else {
                    wc_barrier_wait(freed + stage, parity);
                    copy_filters(shared + BOXES * PIXEL_BYTES + stage * FILTER_BYTES, filled + stage, filter_map, tile,
                        slice, tap);
                }
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
    }
}

// Where a group stands in both rings.
struct Place {
    int box, stage;
    unsigned box_parity, parity;
};

// The products of a tile: a group's sums over all slices and taps. Those of a tap are under way while the next one's
// filters are waited for; then the filters before are free, and after a box's last tap the box.
__device__ __forceinline__ void multiply_tile(float (&sums)[MATRICES][SUMS], const unsigned char* shared,
        unsigned long long* filled_boxes, unsigned long long* freed_boxes, unsigned long long* filled,
        unsigned long long* freed, Place& at, int group, int thread) {
    int before = -1, box_before = -1;
#pragma unroll 1
    for (int slice = 0; slice < SLICES; ++slice) {
        wc_barrier_wait(filled_boxes + at.box, at.box_parity);
#pragma unroll 1
        for (int tap = 0; tap < TAPS; ++tap) {
            wc_barrier_wait(filled + at.stage, at.parity);
            const unsigned long long filters = wc_descriptor_rows_128(
                shared + BOXES * PIXEL_BYTES + at.stage * FILTER_BYTES);
            const unsigned long long pixels = wc_descriptor_rows_128(
                shared + at.box * PIXEL_BYTES + (group * GROUP_PIXELS + tap / S * BOX_COLUMNS + tap % S) * ROW_BYTES);
            wc_wgmma_fence();
#pragma unroll
            for (int depth = 0; depth < DEPTHS; ++depth) {
#pragma unroll
                for (int m = 0; m < MATRICES; ++m)
                    wc_wgmma_halves(sums[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS,
                        pixels + depth * DEPTH_CELLS, slice > 0 || tap > 0 || depth > 0);
            }
            wc_wgmma_commit();
            if (before >= 0) {
                wc_wgmma_wait_group_1();
                if (thread == 0) wc_barrier_arrive(freed + before);
            }
            if (box_before >= 0) {
                if (thread == 0) wc_barrier_arrive(freed_boxes + box_before);
                box_before = -1;
            }
            before = at.stage;
            if (++at.stage == STAGES) {
                at.stage = 0;
                at.parity ^= 1;
            }
        }
        box_before = at.box;
        if (++at.box == BOXES) {
            at.box = 0;
            at.box_parity ^= 1;
        }
    }
#pragma unroll
    for (int m = 0; m < MATRICES; ++m) wc_wgmma_wait_sums(sums[m]);
    if (thread == 0) {
        wc_barrier_arrive(freed + before);
        wc_barrier_arrive(freed_boxes + box_before);
    }
}

// The row of a buffer for a pixel of the products: those that lie between the columns of a tile, or below it, have rows
// behind the outputs', a lane its own.
__device__ __forceinline__ int buffer_row(int pixel, int group) {
    const int row = pixel / BOX_COLUMNS, column = pixel % BOX_COLUMNS;
    return row < ROWS && column < COLUMNS ? row * COLUMNS + column : ROWS * COLUMNS + group * SPARE_ROWS + pixel % 16;
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
        const __grid_constant__ TensorMap y_map, const __grid_constant__ TensorMap residual_map,
        const unsigned short* __restrict__ bias, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int tiles_down = (P + ROWS - 1) / ROWS, tiles_across = (Q + COLUMNS - 1) / COLUMNS;
    const int tiles = N * tiles_down * tiles_across;
    unsigned long long* const filled_boxes = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed_boxes = filled_boxes + BOXES;
    unsigned long long* const filled = freed_boxes + BOXES;
    unsigned long long* const freed = filled + STAGES;
    if (threadIdx.x == 0) {
        for (int box = 0; box < BOXES; ++box) {
            wc_barrier_init(filled_boxes + box, 1);
            wc_barrier_init(freed_boxes + box, GROUPS);
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
            wc_barrier_init(freed + stage, GROUPS);
        }
        for (int buffer = 0; buffer < 1;
            ++buffer) wc_barrier_init((unsigned long long*)(shared + ARRIVED_AT) + buffer, 1);
        wc_fence_barrier_init();
        // the first copies of this block: the rings are empty, so there is nothing to wait for
        if (blockIdx.x < tiles) {
            wc_fence_proxy_async();
            const Tile tile = tile_of(blockIdx.x, tiles_down, tiles_across);
            copy_box(shared, filled_boxes, &x_map, tile, 0);
#pragma unroll 1
            for (int stage = 0; stage < FIRST_STAGES; ++stage)
                copy_filters(shared + BOXES * PIXEL_BYTES + stage * FILTER_BYTES, filled + stage, &filter_map, tile, 0,
                    stage);
        }
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        // the group that copies: one thread, which needs few registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch(shared, filled_boxes, freed_boxes, filled, freed, &x_map, &filter_map, tiles,
            tiles_down, tiles_across);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        Place at = {0, 0, 0, 0};
        unsigned char* const buffers = shared + BUFFERS_AT;
        int turn = 0;       // of the group's buffers
        unsigned long long* const arrived = (unsigned long long*)(shared + ARRIVED_AT);
        // rows that no residual comes to, and that are read with it
        *(uint4*)(buffers + (ROWS * COLUMNS + group * SPARE_ROWS) * ROW_BYTES + thread * 16) =
            make_uint4(0u, 0u, 0u, 0u);
        wc_sync_threads(3, 256);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int place = tile, image = place / (tiles_across * tiles_down);
            const int first_q = place % tiles_across * COLUMNS, first_p = place / tiles_across % tiles_down * ROWS;
            float biases[MATRICES][2];      // of this thread's filters, eight apart
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int lower = 0; lower < 2; ++lower) {
                    const int k = m * 64 + warp * 16 + lane / 4 + lower * 8;
                    biases[m][lower] = wc_half_to_float(__ldg(bias + k));
                }
            }
            if (threadIdx.x == 128) {
                wc_tma_stores_read_all();
#pragma unroll
                for (int next = 0; next < FIRST_LOADS; ++next) {
                    wc_barrier_expect(arrived, STORED_BYTES);
                    wc_tma_load_4(buffers, &residual_map, arrived, next * 64, first_q, first_p, image);
                }
            }
            float sums[MATRICES][SUMS];
            multiply_tile(sums, shared, filled_boxes, freed_boxes, filled, freed, at, group, thread);

            // the sums to where they belong, STORE_PIXELS of 64 filters at a time
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    unsigned char* const rows = buffers;
                    wc_barrier_wait(arrived, turn % 2);
                    ++turn;
#pragma unroll
                    for (int i = 0; i < STORE_PIXELS / 16; ++i) {
                        const int sum = part * STORE_PIXELS / 2 + i * 8;
                        const int row = buffer_row(group * GROUP_PIXELS + i * 16 + lane / 16 * 8 + lane % 8, group);
                        unsigned char* const cell = rows + row * ROW_BYTES
                            + (((warp * 2 + lane / 8 % 2) ^ (row % 8)) << 4);
                        unsigned others[4];
                        wc_load_matrices_transposed_4(others[0], others[1], others[2], others[3], cell);
                        wc_store_matrices_transposed_4(cell,
                            wc_floats_to_halves(finish(sums[m][sum], biases[m][0], wc_half_low_to_float(others[0])),
                            finish(sums[m][sum + 1], biases[m][0], wc_half_high_to_float(others[0]))),
                            wc_floats_to_halves(finish(sums[m][sum + 2], biases[m][1],
                            wc_half_low_to_float(others[1])),
                            finish(sums[m][sum + 3], biases[m][1], wc_half_high_to_float(others[1]))),
                            wc_floats_to_halves(finish(sums[m][sum + 4], biases[m][0],
                            wc_half_low_to_float(others[2])),
                            finish(sums[m][sum + 5], biases[m][0], wc_half_high_to_float(others[2]))),
                            wc_floats_to_halves(finish(sums[m][sum + 6], biases[m][1],
                            wc_half_low_to_float(others[3])),
                            finish(sums[m][sum + 7], biases[m][1], wc_half_high_to_float(others[3]))));
                    }
                    wc_fence_proxy_async();
                    wc_sync_threads(3, 256);
                    if (threadIdx.x == 128) {
                        wc_tma_store_4(&y_map, rows, m * 64, first_q, first_p, image);
                        wc_tma_stores_commit();
                        const int next = m + part + BUFFERS_EACH;
                        if (next < MATRICES) {
                            wc_tma_stores_read_all();
                            wc_barrier_expect(arrived, STORED_BYTES);
                            wc_tma_load_4(rows, &residual_map, arrived, next * 64, first_q, first_p, image);
                        }
                    }
                }
            }
        }
        if (threadIdx.x == 128) wc_tma_stores_done();
    }
}
