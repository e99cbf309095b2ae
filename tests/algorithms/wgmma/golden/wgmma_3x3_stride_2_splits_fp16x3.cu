// warpconv 0.1.0: wgmma, float32. Generated from templates/wgmma/split.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,100 --filter 72,3,3 --stride 2,2 --padding 1 --layout NHWC --precision fp16x3 \
//     --epilogue bias,residual --arch sm_90a --algorithm wgmma \
//     --set form=im2col --set filters=64 --set pixels=96 --set stages=3 --set buffer=48 --set splits=3 \
//     --set filter=stages --set window=tap
//
// layer  x[N, H, W, 100] * w[72, 100, 3, 3] -> y[N, P, Q, 72], stride 2, padding 1, float32 NHWC, fp16x3 products, then
//        bias, residual
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 64 filters x 96 pixels, factors in two parts of float16, by two warp groups and two copying threads,
//        6 splitting warps, 3 stages, sums in 3 parts, 62824 bytes of shared memory
// cost   a warp's 768 outputs: 0 warp loads, 0 shuffles, 82944 FMA a lane, about 200 registers (direct: 21600 loads)
//
// A product of matrices on the tensor cores of four warps (wgmma): filters times output pixels, over all taps and
// channels, as exact as float32 units make it: both factors are scaled by powers of two and split into two parts of
// float16, of whose four products three are made. Of a block one thread keeps the tensor memory accelerator (TMA)
// copying filters, which are split already, another one pixels, 32 channels of each; 6 warps split these where they lie
// in shared memory; two groups of four warps multiply. Blocks take tiles until none is left.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col):
//
// x_map: x as (100, W, H, N) of float32, the innermost first, im2col, 32 channels of 96 pixels, corners (W, H) (-1, -1)
// and (-1, -1), strides 1, 2, 2, 1, 128-byte swizzle, zeros outside
//
// filter_map: filter as (64, 72, 36) of float16, the innermost first, tiled, boxes of 64 x 64 x 1, 128-byte swizzle,
// zeros outside
constexpr int C = 100;                          // channels of a pixel of x
constexpr int K = 72;                           // channels of a pixel of y: filters
constexpr int S = 3;                            // filter columns
constexpr int TAPS = 9;                         // of a filter
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int SPLITTERS = 6;                    // warps that split
constexpr int TILE_FILTERS = 64;                // filters of a tile
constexpr int FILTER_TILES = 2;                 // tiles across all filters
constexpr int GROUP_PIXELS = 48;                // pixels from one group's to the next one's
constexpr int MATRICES = 1;                     // of 64 filters: a group's
constexpr int SUMS = 24;                        // of a thread: of such a matrix
constexpr int SLICE = 32;                       // channels of a step
constexpr int SLICES = 4;                       // of a tap
constexpr int STEPS = 36;                       // of the reduction: taps of all slices
constexpr int DEPTHS = 2;                       // of 16 products: a step's instructions
constexpr int ROW_BYTES = 128;                  // of shared memory: a slice of a pixel, or of a filter
constexpr int MATRIX_ROWS = 512;                // 16 bytes each: from one matrix of filters to the next
constexpr int DEPTH_CELLS = 4;                  // 16 bytes each: both parts of 16 products, along a row
constexpr int LOW_CELLS = 2;                    // 16 bytes each: from their high parts to the low ones
constexpr int TILE_PIXELS = 96;                 // pixels of a tile
constexpr int SPLITS = 3;                       // blocks that share a sum
constexpr int BOXES = 3;                        // of the ring of pixels: a slice of those for a tap
constexpr int BOX_PIXELS = 96;                  // of a box, as they are copied
constexpr int BOX_BYTES = 12288;                // of these
constexpr int PIXEL_BYTES = 12288;              // from one box to the next
constexpr int STAGES = 3;                       // of the ring of filters: a slice of a tap
constexpr int FILTER_BYTES = 8192;              // of a stage of filters
constexpr int SCALES_EACH = 96;                 // pixels of a box that products read, each with its scale
constexpr int FILTERS_AT = 36864;               // where filters lie in shared memory,
constexpr int SCALES_AT = 61440;                // and the scales of pixels,
constexpr int COMMON_AT = 62592;                // and those that all pixels of a box have,
constexpr int BARRIERS_AT = 62704;              // and the barriers
constexpr int THREADS = 512;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the entries beside the product
// digits that pixels of a common scale may be below the largest of its box
constexpr int LEAST_SCALE = 14;
constexpr int FILLED_CHANNELS = 100;            // channels of a tap in whole fours
// floats of the prepared filter: where the taps begin that are not split, such channels of each,
constexpr long long FLOATS = 82944;
constexpr long long FILTER_SCALES = 147744;     // and where the scales of filters do
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = float;

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// parts of a float
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias, then residual.
__device__ __forceinline__ float finish(float value, float bias, float residual) {
    value = value + bias;
    value = value + residual;
    return value;
}

// barriers in shared memory, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 56;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 200;"); }
__device__ __forceinline__ void wc_tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int c, int w, int h, int n, unsigned short tap_w, unsigned short tap_h) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2], { %7, %8};" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h) : "memory"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ void wc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves(float (&sums)[24], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %26, 0; wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23}, %24, %25, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[24]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]) : : "memory"); }

// One thread: the filters of this block's tiles, stage after stage, as the groups that multiply free them.
__device__ __forceinline__ void fetch_filters(unsigned char* ring, unsigned long long* filled,
        unsigned long long* freed, const TensorMap* filter_map, int tiles) {
    int stage = 0;
    unsigned parity = 1;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_filter = tile % FILTER_TILES * TILE_FILTERS;
        const int split = tile / FILTER_TILES % SPLITS;
        for (int step = STEPS * split / SPLITS; step < STEPS * (split + 1) / SPLITS; ++step) {
            wc_barrier_wait(freed + stage, parity);
            wc_barrier_expect(filled + stage, FILTER_BYTES);
            wc_tma_load_3(ring + stage * FILTER_BYTES, filter_map, filled + stage, 0, first_filter, step);
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// One thread: the pixels of this block's tiles, box after box.
__device__ __forceinline__ void fetch_boxes(unsigned char* ring, unsigned long long* filled_boxes,
        unsigned long long* freed_boxes, const TensorMap* x_map, int tiles, int P, int Q) {
    int box = 0;
    unsigned parity = 1;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_pixel = tile / (FILTER_TILES * SPLITS) * TILE_PIXELS;
        const int image = first_pixel / (P * Q), place = first_pixel % (P * Q);
        const int top = place / Q * STRIDE_H - PAD_TOP, left = place % Q * STRIDE_W - PAD_LEFT;   // of the first window
        const int split = tile / FILTER_TILES % SPLITS;
        for (int step = STEPS * split / SPLITS; step < STEPS * (split + 1) / SPLITS; ++step) {
            wc_barrier_wait(freed_boxes + box, parity);
            wc_barrier_expect(filled_boxes + box, BOX_BYTES);
            const int tap = step % TAPS;
            wc_tma_load_im2col(ring + box * PIXEL_BYTES, x_map, filled_boxes + box, step / TAPS * SLICE, left, top,
                image,
                                  (unsigned short)(tap % S), (unsigned short)(tap / S));
            if (++box == BOXES) {
                box = 0;
                parity ^= 1;
            }
        }
    }
}

__device__ __forceinline__ unsigned largest_of_warp(unsigned largest) {
#pragma unroll
    for (int other = 1; other < 32; other *= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, other));
    return largest;
}

// The bits of a magnitude; of none that is not finite, so that it sets no scale.
__device__ __forceinline__ unsigned magnitude(float value) {
    const unsigned bits = __float_as_uint(value) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0u;
}

// The exponent field of the scale that brings a largest magnitude to 2^14 and more, below 2^15: at most that of 2^126,
// with which subnormal floats become whole multiples of a half's least.
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }

// What takes a scale back, times 2^36, so that sums of the least floats are not subnormal; infinite where there is no
// room for that.
__device__ __forceinline__ float restoring(unsigned exponent) {
    return __uint_as_float(min(290u - exponent, 255u) << 23);
}

// Both parts of two floats that are scaled already, as words.
__device__ __forceinline__ unsigned high_parts(float first, float second) { return wc_floats_to_halves(first, second); }

__device__ __forceinline__ unsigned low_parts(float first, float second, unsigned high) {
    return wc_floats_to_halves(first - wc_half_low_to_float(high), second - wc_half_high_to_float(high));
}

// Where a cell of 16 bytes of a row lies, as the descriptors' swizzle has it.
__device__ __forceinline__ unsigned char* cell_of(unsigned char* rows, int row, int cell) {
    return rows + row * ROW_BYTES + ((cell ^ (row % 8)) << 4);
}

// Four channels of a pixel.
__device__ __forceinline__ float4 four_of(const unsigned char* rows, int pixel, int cell) {
    return *(const float4*)cell_of((unsigned char*)rows, pixel, cell);
}

__device__ __forceinline__ float4 scaled(float4 four, float scale) {
    return make_float4(four.x * scale, four.y * scale, four.z * scale, four.w * scale);
}

// The largest magnitude of a pixel, as bits; of one that is not finite 0, so that it sets no scale: its outputs are
// made anew.
__device__ __forceinline__ unsigned largest_of(const unsigned char* from, int pixel) {
    float most = 0.0f;
#pragma unroll
    for (int cell = 0; cell < SLICE / 4; ++cell) {
        const float4 four = four_of(from, pixel, cell);
        most = fmaxf(fmaxf(fmaxf(most, fabsf(four.x)), fmaxf(fabsf(four.y), fabsf(four.z))), fabsf(four.w));
    }
    return magnitude(most);
}

// Splits a box, 32 channels of each pixel, into rows of 32 high parts and 32 low ones, where it lies. A lane has a
// pixel at a time. All pixels of a box have one scale, by its largest magnitude; where some lie so far below it that
// their low parts would be lost, each pixel has its own.
__device__ __forceinline__ void split_box(const unsigned char* from, unsigned char* rows, float* of_rows, float* common,
        int lane) {
    unsigned largest = 0u, least = 0x7f800000u;
#pragma unroll 1
    for (int pixel = lane; pixel < BOX_PIXELS; pixel += 32) {
        const unsigned most = largest_of(from, pixel);
        largest = max(largest, most);
        least = most ? min(least, most) : least;
    }
#pragma unroll
    for (int other = 1; other < 32; other *= 2) {
        largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, other));
        least = min(least, __shfl_xor_sync(0xffffffffu, least, other));
    }
    const bool one = (least >> 23) + LEAST_SCALE >= (largest >> 23);
    const unsigned of_box = scale_exponent(largest);
    if (lane == 0) *common = one ? restoring(of_box) : 0.0f;
#pragma unroll 1
    for (int pixel = lane; pixel < BOX_PIXELS; pixel += 32) {
        const unsigned exponent = one ? of_box : scale_exponent(largest_of(from, pixel));
        const float scale = __uint_as_float(exponent << 23);
#pragma unroll
        for (int depth = 0; depth < SLICE / 16; ++depth) {
            float4 fours[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) fours[i] = scaled(four_of(from, pixel, depth * 4 + i), scale);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float4 a = fours[2 * i], b = fours[2 * i + 1];
                const uint4 high =
                    make_uint4(high_parts(a.x, a.y), high_parts(a.z, a.w), high_parts(b.x, b.y), high_parts(b.z, b.w));
                const uint4 low =
                    make_uint4(low_parts(a.x, a.y, high.x), low_parts(a.z, a.w, high.y), low_parts(b.x, b.y, high.z),
                    low_parts(b.z, b.w, high.w));
                *(uint4*)cell_of(rows, pixel, depth * DEPTH_CELLS + i) = high;
                *(uint4*)cell_of(rows, pixel, depth * DEPTH_CELLS + LOW_CELLS + i) = low;
            }
        }
        if (!one) of_rows[pixel] = restoring(exponent);
    }
    wc_fence_proxy_async();
    __syncwarp();
}

// The splitting warps: each the boxes of its own place in the ring.
__device__ __forceinline__ void split_pixels(unsigned char* ring, unsigned long long* filled_boxes,
        unsigned long long* split_boxes, float* scales, float* common, int tiles, int thread) {
    const int warp = thread / 32, lane = thread % 32;
    int box = 0;
    unsigned parity = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int split = tile / FILTER_TILES % SPLITS;
        for (int step = STEPS * split / SPLITS; step < STEPS * (split + 1) / SPLITS; ++step) {
            if (box % SPLITTERS == warp) {
                wc_barrier_wait(filled_boxes + box, parity);
                split_box(ring + box * PIXEL_BYTES, ring + box * PIXEL_BYTES, scales + box * SCALES_EACH, common + box,
                    lane);
                if (lane == 0) wc_barrier_arrive(split_boxes + box);
            }
            if (++box == BOXES) {
                box = 0;
                parity ^= 1;
            }
        }
    }
}

// Where a group stands in both rings.
struct Place {
    int box, stage;
    unsigned box_parity, parity;
};

// A step's products, added to a group's sums. Tensor cores cut their sums, so those of a step begin at zero, the small
// ones first, and are added to the others here, the scale of the pixels taken back: one, or 0 where each has its own.
__device__ __forceinline__ void multiply_step(float (&sums)[MATRICES][SUMS], unsigned long long filters,
        unsigned long long pixels, unsigned long long* freed, Place& at, float scale, const float* own, int thread) {
    float parts[MATRICES][SUMS];
    wc_wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
        for (int m = 0; m < MATRICES; ++m) {
            wc_wgmma_halves(parts[m], filters + m * MATRIX_ROWS + LOW_CELLS + depth * DEPTH_CELLS,
                pixels + depth * DEPTH_CELLS, depth > 0);
            wc_wgmma_halves(parts[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS,
                pixels + LOW_CELLS + depth * DEPTH_CELLS, true);
        }
#pragma unroll
    for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
        for (int m = 0; m < MATRICES; ++m)
            wc_wgmma_halves(parts[m], filters + m * MATRIX_ROWS + depth * DEPTH_CELLS, pixels + depth * DEPTH_CELLS,
                true);
    wc_wgmma_commit();
#pragma unroll
    for (int m = 0; m < MATRICES; ++m) wc_wgmma_wait_sums(parts[m]);
    if (thread == 0) wc_barrier_arrive(freed + at.stage);
    if (++at.stage == STAGES) {
        at.stage = 0;
        at.parity ^= 1;
    }
    if (scale != 0.0f) {
#pragma unroll
        for (int m = 0; m < MATRICES; ++m)
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[m][i] = fmaf(parts[m][i], scale, sums[m][i]);
    } else {
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            const float first = own[i * 2], second = own[i * 2 + 1];
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
                sums[m][i] = fmaf(parts[m][i], first, sums[m][i]);
                sums[m][i + 1] = fmaf(parts[m][i + 1], second, sums[m][i + 1]);
                sums[m][i + 2] = fmaf(parts[m][i + 2], first, sums[m][i + 2]);
                sums[m][i + 3] = fmaf(parts[m][i + 3], second, sums[m][i + 3]);
            }
        }
    }
}

// The products of a tile: a group's sums over all its boxes.
__device__ __forceinline__ void multiply_tile(float (&sums)[MATRICES][SUMS], const unsigned char* shared,
        const float* scales, const float* common, unsigned long long* split_boxes, unsigned long long* freed_boxes,
        unsigned long long* filled, unsigned long long* freed, Place& at, int boxes, int group, int thread) {
    const int lane = thread % 32;
#pragma unroll 1
    for (int box = 0; box < boxes; ++box) {
        wc_barrier_wait(split_boxes + at.box, at.box_parity);
        const float scale = common[at.box];
        const int row = group * GROUP_PIXELS;       // of the group's first pixel
        wc_barrier_wait(filled + at.stage, at.parity);
        multiply_step(sums, wc_descriptor_rows_128(shared + FILTERS_AT + at.stage * FILTER_BYTES),
            wc_descriptor_rows_128(shared + at.box * PIXEL_BYTES + row * ROW_BYTES), freed, at, scale,
            scales + at.box * SCALES_EACH + row + lane % 4 * 2, thread);
        __syncwarp();       // all lanes have read scales
        if (lane == 0) wc_barrier_arrive(freed_boxes + at.box);
        if (++at.box == BOXES) {
            at.box = 0;
            at.box_parity ^= 1;
        }
    }
}

// The output of a column of a group's products, or -1 behind the last.
__device__ __forceinline__ int output_of(int column, int first_pixel, int pixels) {
    return first_pixel + column < pixels ? first_pixel + column : -1;
}

__device__ __forceinline__ float4 four_of(const float (&sums)[MATRICES][SUMS], int block) {
    const float* const at = sums[block / (SUMS / 4)] + block % (SUMS / 4) * 4;
    return make_float4(at[0], at[1], at[2], at[3]);
}

__device__ __forceinline__ void put_four(float (&sums)[MATRICES][SUMS], int block, float4 four) {
    float* const at = sums[block / (SUMS / 4)] + block % (SUMS / 4) * 4;
    at[0] = four.x, at[1] = four.y, at[2] = four.z, at[3] = four.w;
}

__device__ __forceinline__ bool is_finite(float sum) { return fabsf(sum) <= 3.402823466e38f; }

// Zero, or NaN where one of four sums is not finite.
__device__ __forceinline__ float zero_of(float4 sums) {
    return fmaf(sums.x, 0.0f, sums.y * 0.0f) + fmaf(sums.z, 0.0f, sums.w * 0.0f);
}

// The blocks of a warp's sums in which some are not finite, a bit each.
__device__ __forceinline__ unsigned blocks_to_mend(const float (&sums)[MATRICES][SUMS]) {
    float zero = 0.0f, other = 0.0f;            // NaN stays NaN
#pragma unroll
    for (int block = 0; block < SUMS / 4; ++block) {
        const float4 four = four_of(sums, block);
        zero = fmaf(four.x, 0.0f, fmaf(four.y, 0.0f, zero));
        other = fmaf(four.z, 0.0f, fmaf(four.w, 0.0f, other));
    }
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, zero + other == 0.0f)) return blocks;
#pragma unroll
    for (int block = 0; block < SUMS / 4; ++block)
        blocks |= (unsigned)__any_sync(0xffffffffu, zero_of(four_of(sums, block)) != 0.0f) << block;
    return blocks;
}

// A lane's sums of a block. Registers have no index: every block is asked whether it is wanted.
__device__ __forceinline__ float4 sums_of(const float (&sums)[MATRICES][SUMS], int wanted) {
    float4 found = {};
#pragma unroll
    for (int block = 0; block < SUMS / 4; ++block)
        if (block == wanted) found = four_of(sums, block);
    return found;
}

__device__ __forceinline__ void set_sums(float (&sums)[MATRICES][SUMS], int wanted, float4 to) {
#pragma unroll
    for (int block = 0; block < SUMS / 4; ++block)
        if (block == wanted) put_four(sums, block, to);
}

// Sums that are finite, and in place of the others those that were made anew.
__device__ __forceinline__ float4 mended(float4 sums, float4 anew) {
    return make_float4(is_finite(sums.x) ? sums.x : anew.x, is_finite(sums.y) ? sums.y : anew.y,
                       is_finite(sums.z) ? sums.z : anew.z, is_finite(sums.w) ? sums.w : anew.w);
}

// Whether nothing more can come of a warp's sums: NaN stays NaN.
__device__ __forceinline__ bool are_settled(float4 sums, float4 anew) {
    const bool upper = (is_finite(sums.x) || anew.x != anew.x) && (is_finite(sums.y) || anew.y != anew.y);
    const bool lower = (is_finite(sums.z) || anew.z != anew.z) && (is_finite(sums.w) || anew.w != anew.w);
    return __all_sync(0xffffffffu, upper && lower);
}

// The sums of rows and columns that exist; zeros for the others, so that they ask for nothing.
__device__ __forceinline__ float4 existing(float4 sums, bool upper, bool lower, bool first, bool second) {
    return make_float4(upper && first ? sums.x : 0.0f, upper && second ? sums.y : 0.0f, lower && first ? sums.z : 0.0f,
        lower && second ? sums.w : 0.0f);
}

// The products of two rows' factors with two columns'.
__device__ __forceinline__ void add_products(float4& sums, float upper, float lower, float first, float second) {
    sums.x = fmaf(first, upper, sums.x);
    sums.y = fmaf(second, upper, sums.y);
    sums.z = fmaf(first, lower, sums.z);
    sums.w = fmaf(second, lower, sums.w);
}

// Those of four factors each.
__device__ __forceinline__ void add_fours(float4& sums, float4 upper, float4 lower, float4 first, float4 second) {
    add_products(sums, upper.x, lower.x, first.x, second.x);
    add_products(sums, upper.y, lower.y, first.y, second.y);
    add_products(sums, upper.z, lower.z, first.z, second.z);
    add_products(sums, upper.w, lower.w, first.w, second.w);
}

// The upper left corner of an output's window; of an output that does not exist (-1) any.
struct Corner {
    int image, top, left;
};

__device__ __forceinline__ Corner corner_of(int output, int P, int Q) {
    const int image = max(output, 0) / (P * Q), place = max(output, 0) % (P * Q);
    return {image, place / Q * STRIDE_H - PAD_TOP, place % Q * STRIDE_W - PAD_LEFT};
}

// The first channel of the pixel under a window's tap; null beside the image.
__device__ __forceinline__ const element* pixel_of(const element* x, Corner corner, int tap, int H, int W) {
    const int h = corner.top + tap / S, w = corner.left + tap % S;
    return (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W ? x + (((index_t)corner.image * H + h) * W + w) * C
        : nullptr;
}

// Four channels of it.
__device__ __forceinline__ float4 channels_of(const element* pixel, int channel) {
    return pixel ? __ldg((const float4*)(pixel + channel)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// Sums of filters k and k + 8 and of two outputs over some steps, by float32 units: of those that are not finite; the
// others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* filter, int k,
        int first_output, int second_output, int first_step, int last_step, int H, int W, int P, int Q) {
    const element* const upper = filter + FLOATS + (long long)min(k, K - 1) * (TAPS * FILLED_CHANNELS);
    const element* const lower = filter + FLOATS + (long long)min(k + 8, K - 1) * (TAPS * FILLED_CHANNELS);
    const Corner first = corner_of(first_output, P, Q), second = corner_of(second_output, P, Q);
    float4 anew = {};
#pragma unroll 1
    for (int step = first_step; step < last_step; ++step) {
        const int tap = step % TAPS, channel = step / TAPS * SLICE, end = min(channel + SLICE, FILLED_CHANNELS);
        const element* const first_pixel = pixel_of(x, first, tap, H, W);
        const element* const second_pixel = pixel_of(x, second, tap, H, W);
#pragma unroll 4
        for (int c = channel; c < end; c += 4) {
            const int weight = tap * FILLED_CHANNELS + c;
            add_fours(anew, __ldg((const float4*)(upper + weight)), __ldg((const float4*)(lower + weight)),
                      channels_of(first_pixel, c), channels_of(second_pixel, c));
        }
        if (are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// The filter for the products: once for each filter, before the first call. Each filter has its scale; its parts lie in
// rows as they are copied, slices of the channels of a tap. Behind them are the filter as float32 units take it, and
// the scales. Windows at the border meet some taps alone: where a tap (all its channels) is so small beside the others
// that its low parts would be lost the scale is NaN, which leaves outputs to these units. A warp has a tap at a time.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    __shared__ unsigned of_warps[SIDE_THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int k = blockIdx.x; k < K; k += gridDim.x) {
        const element* const from = w + (long long)k * (C * TAPS);
        unsigned largest = 0u;
        for (int i = threadIdx.x; i < TAPS * FILLED_CHANNELS; i += SIDE_THREADS) {
            const int tap = i / FILLED_CHANNELS, channel = i % FILLED_CHANNELS;
            const float value = from[channel * TAPS + tap];
            largest = max(largest, magnitude(value));
            filter[FLOATS + (long long)k * (TAPS * FILLED_CHANNELS) + i] = value;
        }
        largest = largest_of_warp(largest);
        if (lane == 0) of_warps[warp] = largest;
        __syncthreads();
#pragma unroll
        for (int other = 0; other < SIDE_THREADS / 32; ++other) largest = max(largest, of_warps[other]);
        const unsigned exponent = scale_exponent(largest);
        const float scale = __uint_as_float(exponent << 23);
        unsigned lost = 0u;
        for (int tap = warp; tap < TAPS; tap += SIDE_THREADS / 32) {
            unsigned most = 0u;
            for (int slice = 0; slice < SLICES; ++slice) {
                const int step = slice * TAPS + tap, channel = slice * SLICE + lane;
                const float value = channel < C ? from[channel * TAPS + tap] : 0.0f, first = value * scale;
                // words of two channels, by every other lane
                const float second = __shfl_down_sync(0xffffffffu, first, 1);
                const unsigned high = high_parts(first, second);
                if (lane % 2 == 0) {
                    unsigned* const at = (unsigned*)filter + ((long long)step * K + k) * SLICE + lane / 16 * 16
                        + lane % 16 / 2;
                    at[0] = high;
                    at[8] = low_parts(first, second, high);
                }
                most = max(most, magnitude(value));
            }
            most = largest_of_warp(most);
            if (most != 0u && (most >> 23) + LEAST_SCALE < (largest >> 23)) lost = 1u;
        }
        __syncthreads();        // every warp has read of_warps
        if (lane == 0) of_warps[warp] = lost;
        __syncthreads();
#pragma unroll
        for (int other = 0; other < SIDE_THREADS / 32; ++other) lost |= of_warps[other];
        if (threadIdx.x == 0) filter[FILTER_SCALES + k] = __uint_as_float(lost ? 0x7fffffffu : (254u - exponent) << 23);
        __syncthreads();        // of_warps is read, before it is written again
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_3x3(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap filter_map,
        const float* __restrict__ x, float* __restrict__ filter, float* __restrict__ partial_sums, int N, int H, int W,
        int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int pixels = N * P * Q, tiles = (pixels + TILE_PIXELS - 1) / TILE_PIXELS * (FILTER_TILES * SPLITS);
    float* const scales = (float*)(shared + SCALES_AT);
    float* const common = (float*)(shared + COMMON_AT);
    unsigned long long* const filled_boxes = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const split_boxes = filled_boxes + BOXES;
    unsigned long long* const freed_boxes = split_boxes + BOXES;
    unsigned long long* const filled = freed_boxes + BOXES;
    unsigned long long* const freed = filled + STAGES;
    if (threadIdx.x == 0) {
        for (int box = 0; box < BOXES; ++box) {
            wc_barrier_init(filled_boxes + box, 1);
            wc_barrier_init(split_boxes + box, 1);
            wc_barrier_init(freed_boxes + box, GROUPS * 4);
        }
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, 1);
            wc_barrier_init(freed + stage, GROUPS);
        }
        wc_fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128 || threadIdx.x >= 128 + GROUPS * 128) {
        // those that copy and split, which need fewer registers
        wc_setmaxnreg_dec();
        if (threadIdx.x == 0) fetch_filters(shared + FILTERS_AT, filled, freed, &filter_map, tiles);
        if (threadIdx.x == 32) fetch_boxes(shared, filled_boxes, freed_boxes, &x_map, tiles, P, Q);
        if (threadIdx.x >= 64)
            split_pixels(shared, filled_boxes, split_boxes, scales, common, tiles,
                threadIdx.x - (threadIdx.x < 128 ? 64 : 64 + GROUPS * 128));
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        Place at = {0, 0, 0, 0};
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_filter = tile % FILTER_TILES * TILE_FILTERS;
            const int first_pixel = tile / (FILTER_TILES * SPLITS) * TILE_PIXELS + group * GROUP_PIXELS;
            const int split = tile / FILTER_TILES % SPLITS;
            const int first_step = STEPS * split / SPLITS, last_step = STEPS * (split + 1) / SPLITS;
            float sums[MATRICES][SUMS] = {};
            multiply_tile(sums, shared, scales, common, split_boxes, freed_boxes, filled, freed, at,
                last_step - first_step, group, thread);
            // the scale of the filters taken back, and the 2^36 of the pixels'
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int k = first_filter + m * 64 + warp * 16 + lane / 4 + half * 8;
                    const float scale = k < K ? __ldg(filter + FILTER_SCALES + k) : 0.0f;
#pragma unroll
                    for (int i = half * 2; i < SUMS; i += 4) {
                        sums[m][i] = sums[m][i] * scale * 1.4551915228366852e-11f;
                        sums[m][i + 1] = sums[m][i + 1] * scale * 1.4551915228366852e-11f;
                    }
                }

            // infinities, NaN, and what the scales have no room for: float32 units make such sums anew
#pragma unroll 1
            for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
                const int block = __ffs(blocks) - 1, column = block % (SUMS / 4) * 8 + lane % 4 * 2;
                const int k = first_filter + block / (SUMS / 4) * 64 + warp * 16 + lane / 4;
                const int first_output = output_of(column, first_pixel, pixels),
                    second_output = output_of(column + 1, first_pixel, pixels);
                const float4 wanted =
                    existing(sums_of(sums, block), k < K, k + 8 < K, first_output >= 0, second_output >= 0);
                set_sums(sums, block,
                    made_anew(wanted, x, filter, k, first_output, second_output, first_step, last_step, H, W, P, Q));
            }

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
                            if (pixel >= 0 && k < K) partial_sums[(long long)split * pixels * K + at] =
                                sums[m][i + lower * 2 + next];
                        }
                    }
                }
            }
        }
    }
}

// The parts of every sum together, in their order, and what happens to it before it is stored.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
add_partial_sums(float* __restrict__ partial_sums, const float* __restrict__ bias, const float* residual, float* y,
        int N, int P, int Q) {
    const index_t outputs = (index_t)N * P * Q * K, i = (index_t)blockIdx.x * SIDE_THREADS + threadIdx.x;
    if (i >= outputs) return;
    float sum = partial_sums[i];
#pragma unroll
    for (int split = 1; split < SPLITS; ++split) sum += partial_sums[(long long)split * outputs + i];
    const index_t at = i, k = i % K;
    y[at] = finish(sum, __ldg(bias + k), residual[at]);
}
