// warpconv 0.1.0: phases_wgmma, float16. Generated from templates/phases_wgmma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,128,H,W --filter 128,3,3 --stride 2,2 --padding 1 --dtype float16 \
//     --operation data_gradient --arch sm_90a --algorithm phases_wgmma \
//     --set channels=128 --set rows=8 --set columns=16 --set images=1 --set stages=4
//
// layer  x[N, 128, H, W] * w[128, 128, 3, 3] -> y[N, 128, P, Q], stride 2, padding 1, float16; its data gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   dy and dx by way of NHWC: tiles of 128 channels x 8 x 16 pixels of a phase by two warp groups and a copying
//        thread, 4 stages, 147520 bytes of shared memory
// cost   a warp's 2048 pixels of channels: 0 warp loads, 0 shuffles, 32768 FMA a lane, about 232 registers (direct:
//        32768 loads)
//
// Pixels STRIDE_H * i + row, STRIDE_W * j + column of the input make up a phase: they meet the same taps, at outputs
// next to each other. A tile of channels times pixels of a phase is a product of matrices on the tensor cores of four
// warps (wgmma), over the phase's taps and the filters; pixels of a phase without taps are zero. One thread of a block
// keeps the tensor memory accelerator (TMA) copying: a box of dy's pixels for each tap, 64 filters of each at a time,
// and the same of the filter, which an entry before it leaves in that order; two groups of four warps multiply what has
// come. Blocks take tiles until none is left.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled):
//
// dy_map: dy_nhwc as (128, Q, P, N) of float16, the innermost first, tiled, boxes of 64 x 16 x 8 x 1, 128-byte swizzle,
// zeros outside
//
// filter_map: turned as (128, 128, 9) of float16, the innermost first, tiled, boxes of 64 x 128 x 1, 128-byte swizzle,
// zeros outside
constexpr int C = 128;                          // channels of a pixel of dx
constexpr int K = 128;                          // channels of a pixel of dy: filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int ALL_PHASES = 4;                   // phases of the stride
constexpr int ROWS = 8;                         // rows of a phase's pixels of each,
constexpr int COLUMNS = 16;                     // and columns
constexpr int SLICE = 64;                       // filters of a step
constexpr int SLICES = 2;                       // steps of a tap
constexpr int DEPTHS = 4;                       // of 16 filters: a step's instructions
constexpr int DEPTH_CELLS = 2;                  // 16 bytes each: from one to the next, of pixels,
constexpr int FILTER_CELLS = 2;                 // and of filters
constexpr int ROW_BYTES = 128;                  // of shared memory: a step's filters of a pixel, or of a channel
constexpr int BOX_BYTES = 32768;                // that are copied for a stage
constexpr int PIXEL_BYTES = 16384;              // of shared memory: of a stage's pixels,
constexpr int STAGE_BYTES = 32768;              // and of these and its filters
constexpr int STAGES = 4;                       // of the ring
constexpr int BARRIERS_AT = 147456;             // where the barriers lie behind it
constexpr int GROUPS = 2;                       // groups of four warps that multiply
constexpr int GROUP_CHANNELS = 64;              // channels from one group's to the next one's
constexpr int MATRICES = 1;                     // of 64 channels: a group's
constexpr int SUMS = 64;                        // of a thread: of such a matrix
constexpr int STORES_AT = 131072;               // where the groups' buffers of outputs lie,
constexpr int STORE_BYTES = 8192;               // of a buffer,
constexpr int STORE_PIXELS = 64;                // pixels in it, of 64 channels,
constexpr int PARTS = 2;                        // and how often it is filled for a matrix
constexpr int TURN_TILE = 32;                   // filters, and taps of channels, that a block puts in order
constexpr int TURN_ROWS = 8;                    // rows of its threads
constexpr int FILTER_TILES = 4;                 // such tiles of the filters,
constexpr int WINDOW_TILES = 36;                // and of the taps of the channels
constexpr int THREADS = 384;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// A phase: its first pixel, how many rows and columns of taps it meets, the output where that pixel meets the first of
// them, and how many taps the phases before it have.
struct Phase {
    int row, column, tap_rows, tap_columns, up, left, first_tap;
};
__device__ const Phase PHASES[4] = {
    {1, 1, 2, 2, 1, 1, 0},
    {0, 1, 1, 2, 0, 1, 4},
    {1, 0, 2, 1, 1, 0, 6},
    {0, 0, 1, 1, 0, 0, 8}
};

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// barriers in shared memory, copies by descriptors, products of four warps
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_sync_threads(int barrier, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void wc_tma_load_3(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory"); }
__device__ __forceinline__ void wc_tma_load_4(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2, int c3) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory"); }
__device__ __forceinline__ void wc_store_matrices_transposed_4(void* row, unsigned a, unsigned b, unsigned c, unsigned d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], { %1, %2, %3, %4};" :: "r"((unsigned)__cvta_generic_to_shared(row)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
__device__ __forceinline__ unsigned long long wc_descriptor_rows_128(const void* rows) { return ((unsigned)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ __forceinline__ void wc_wgmma_halves(float (&sums)[64], unsigned long long a, unsigned long long b, bool adds) { asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 { %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, adds, 1, 1, 0, 0; }" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]) : "l"(a), "l"(b), "r"((int)adds)); }
__device__ __forceinline__ void wc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_sums(float (&sums)[64]) { asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]) : : "memory"); }
__device__ __forceinline__ void wc_wgmma_wait_group_1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// How many tiles there are: across a phase of an image, of such a phase, of a phase of all images, and in all.
struct Tiles {
    int across, plane, phase, all;
};

__device__ __forceinline__ Tiles tiles_of(int N, int H, int W) {
    Tiles tiles;
    tiles.across = ((W + STRIDE_W - 1) / STRIDE_W + COLUMNS - 1) / COLUMNS;
    tiles.plane = tiles.across * (((H + STRIDE_H - 1) / STRIDE_H + ROWS - 1) / ROWS);
    tiles.phase = tiles.plane * N;
    tiles.all = tiles.phase * ALL_PHASES;
    return tiles;
}

// A tile's phase, its first channel and image, and its first row and column of the phase's.
struct Place {
    int phase, first_channel, image, row, column;
};

__device__ __forceinline__ Place place_of(int tile, Tiles tiles) {
    const int of_phase = tile % tiles.phase, of_pixels = of_phase;
    return {tile / tiles.phase, 0, of_pixels / tiles.plane,
            of_pixels % tiles.plane / tiles.across * ROWS, of_pixels % tiles.plane % tiles.across * COLUMNS};
}

// One thread: the copies of this block's tiles, tap by tap, as the groups that multiply free the stages.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* dy_map, const TensorMap* filter_map, Tiles tiles) {
    int stage = 0;
    unsigned parity = 1;
    for (int tile = blockIdx.x; tile < tiles.all; tile += gridDim.x) {
        const Place place = place_of(tile, tiles);
        const Phase phase = PHASES[place.phase];
        for (int tap = 0; tap < phase.tap_rows * phase.tap_columns; ++tap) {
            // where the tile's first pixel meets it
            const int p = phase.up + place.row - tap / phase.tap_columns,
                q = phase.left + place.column - tap % phase.tap_columns;
            for (int slice = 0; slice < SLICES; ++slice) {
                unsigned char* const to = ring + stage * STAGE_BYTES;
                wc_barrier_wait(freed + stage, parity);
                wc_barrier_expect(filled + stage, BOX_BYTES);
                wc_tma_load_4(to, dy_map, filled + stage, slice * SLICE, q, p, place.image);
                wc_tma_load_3(to + PIXEL_BYTES, filter_map, filled + stage, slice * SLICE, place.first_channel,
                    phase.first_tap + tap);
                if (++stage == STAGES) {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
    }
}

// The products of a group's sums. Those of a stage are under way while the next one is waited for; then the one before
// is free.
__device__ __forceinline__ void multiply_tile(float (&sums)[MATRICES][SUMS], const unsigned char* ring,
        unsigned long long* filled, unsigned long long* freed, int steps, int& stage, unsigned& parity, int group,
        int thread) {
    int before = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        wc_barrier_wait(filled + stage, parity);
        const unsigned char* const at = ring + stage * STAGE_BYTES;
        const unsigned long long pixels = wc_descriptor_rows_128(at);
        const unsigned long long filters =
            wc_descriptor_rows_128(at + PIXEL_BYTES + group * GROUP_CHANNELS * ROW_BYTES);
        wc_wgmma_fence();
#pragma unroll
        for (int depth = 0; depth < DEPTHS; ++depth)
#pragma unroll
            for (int m = 0; m < MATRICES; ++m)
                wc_wgmma_halves(sums[m], filters + m * (64 * ROW_BYTES / 16) + depth * FILTER_CELLS,
                    pixels + depth * DEPTH_CELLS, true);
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
    if (steps > 0 && thread == 0) wc_barrier_arrive(freed + before);
}

// Where each tap is among those of the phases.
__device__ const int TAP_PLACES[9] = {0, 6, 1, 4, 8, 5, 2, 7, 3};

// The filter w[k][c][r][s] as [tap][c][k]: tiles of filters x (channel, tap) through shared memory.
extern "C" __global__ void __launch_bounds__(256)
turn_filter(const element* __restrict__ w, element* __restrict__ turned) {
    __shared__ element tile[TURN_TILE][TURN_TILE + 2];
    constexpr int TAPS = R * S, WINDOW = C * TAPS;      // of a filter
    const int first = blockIdx.x % WINDOW_TILES * TURN_TILE,
        first_k = blockIdx.x / WINDOW_TILES % FILTER_TILES * TURN_TILE;
#pragma unroll
    for (int i = threadIdx.y; i < TURN_TILE; i += TURN_ROWS) {
        const int k = first_k + i, at = first + threadIdx.x;
        if (k < K && at < WINDOW) tile[i][threadIdx.x] = w[(index_t)k * WINDOW + at];
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.y; i < TURN_TILE; i += TURN_ROWS) {
        const int k = first_k + threadIdx.x, at = first + i;
        if (k < K && at < WINDOW) turned[((index_t)TAP_PLACES[at % TAPS] * C + at / TAPS) * K + k] =
            tile[threadIdx.x][i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
phases_wgmma_3x3(const __grid_constant__ TensorMap dy_map, const __grid_constant__ TensorMap filter_map,
        unsigned short* __restrict__ dx, int N, int H, int W) {
    extern __shared__ __align__(1024) unsigned char shared[];
    // tiles: those of channels first, then of pixels of an image, of images, of phases
    const Tiles tiles = tiles_of(N, H, W);
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
        if (threadIdx.x == 0) fetch(shared, filled, freed, &dy_map, &filter_map, tiles);
    } else {
        // the groups that multiply
        wc_setmaxnreg_inc();
        const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        int stage = 0;
        unsigned parity = 0;
        for (int tile = blockIdx.x; tile < tiles.all; tile += gridDim.x) {
            const Place place = place_of(tile, tiles);
            const Phase phase = PHASES[place.phase];
            const int first_channel = place.first_channel + group * GROUP_CHANNELS;
            float sums[MATRICES][SUMS] = {};
            multiply_tile(sums, shared, filled, freed, phase.tap_rows * phase.tap_columns * SLICES, stage, parity,
                group, thread);

            // the sums to where they belong, STORE_PIXELS of 64 channels at a time
            unsigned char* const buffer = shared + STORES_AT + group * STORE_BYTES;
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    wc_sync_threads(1 + group, 128);        // what was in the buffer is stored
#pragma unroll
                    for (int i = 0; i < STORE_PIXELS / 16; ++i) {
                        const int sum = part * STORE_PIXELS / 2 + i * 8, row = i * 16 + lane / 16 * 8 + lane % 8;
                        wc_store_matrices_transposed_4(buffer + row * ROW_BYTES
                            + (((warp * 2 + lane / 8 % 2) ^ (row % 8)) << 4),
                            wc_floats_to_halves(sums[m][sum], sums[m][sum + 1]),
                            wc_floats_to_halves(sums[m][sum + 2], sums[m][sum + 3]),
                            wc_floats_to_halves(sums[m][sum + 4], sums[m][sum + 5]),
                            wc_floats_to_halves(sums[m][sum + 6], sums[m][sum + 7]));
                    }
                    wc_sync_threads(1 + group, 128);
#pragma unroll
                    for (int i = 0; i < STORE_PIXELS / 16; ++i) {
                        const int row = i * 16 + thread / 8, pixel = part * STORE_PIXELS + row,
                            c = first_channel + m * 64 + thread % 8 * 8;
                        const int image = place.image, h = (place.row + pixel / COLUMNS) * STRIDE_H + phase.row,
                            v = (place.column + pixel % COLUMNS) * STRIDE_W + phase.column;
                        if (image < N && h < H && v < W)
                            *(uint4*)(dx + (((index_t)image * H + h) * W + v) * C + c) =
                                *(const uint4*)(buffer + row * ROW_BYTES + ((thread % 8 ^ (row % 8)) << 4));
                    }
                }
            }
        }
    }
}

// dy in NHWC: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dy_to_nhwc(const element* __restrict__ dy, element* __restrict__ dy_nhwc, int N, int P, int Q) {
    constexpr int CHANNELS = 128, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 2];        // channels x pixels
    const unsigned plane = (unsigned)P * Q, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    const int pair = threadIdx.x % 32 * 2, first_line = threadIdx.y * 2 + threadIdx.x / 32;
    const bool whole_words = plane % 2 == 0 && (unsigned long long)dy % 4 == 0;     // both pixels of every pair
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        if (whole_words) {
            const unsigned pixel = first_pixel + pair, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int line = first_line + i * 8;
                if (first_channel + line < CHANNELS && pixel < pixels) *(unsigned*)(tile[line] + pair) =
                    *(const unsigned*)(dy + at + (first_channel + line) * plane);
            }
        } else {
            const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int line = threadIdx.y + i * 4;
                if (first_channel + line < CHANNELS && pixel < pixels) tile[line][threadIdx.x] =
                    dy[at + (first_channel + line) * plane];
            }
        }
        __syncthreads();
        const int channel = first_channel + pair;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int line = first_line + i * 8;
            if (channel >= CHANNELS || first_pixel + line >= pixels) continue;
            *(unsigned*)(dy_nhwc + (first_pixel + line) * CHANNELS + channel) = tile[pair][line]
                | (unsigned)tile[pair + 1][line] << 16;
        }
        __syncthreads();
    }
}

// dx back to NCHW: a tile of 64 pixels, which follow each other through the batch, x 64 channels through shared memory.
extern "C" __global__ void __launch_bounds__(256)
dx_to_nchw(const element* __restrict__ dx_nhwc, element* __restrict__ dx, int N, int H, int W) {
    constexpr int CHANNELS = 128, TILE = 64;
    __shared__ __align__(4) element tile[TILE][TILE + 2];        // channels x pixels
    const unsigned plane = (unsigned)H * W, pixels = N * plane, first_pixel = (unsigned)blockIdx.x * TILE;
    const int pair = threadIdx.x % 32 * 2, first_line = threadIdx.y * 2 + threadIdx.x / 32;
    const bool whole_words = plane % 2 == 0 && (unsigned long long)dx % 4 == 0;     // both pixels of every pair
    for (int first_channel = blockIdx.y * TILE; first_channel < CHANNELS; first_channel += gridDim.y * TILE) {
        const int channel = first_channel + pair;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int line = first_line + i * 8;
            if (channel >= CHANNELS || first_pixel + line >= pixels) continue;
            const unsigned both = *(const unsigned*)(dx_nhwc + (first_pixel + line) * CHANNELS + channel);
            tile[pair][line] = (element)both;
            tile[pair + 1][line] = (element)(both >> 16);
        }
        __syncthreads();
        if (whole_words) {
            const unsigned pixel = first_pixel + pair, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int line = first_line + i * 8;
                if (first_channel + line < CHANNELS
                    && pixel < pixels) *(unsigned*)(dx + at + (first_channel + line) * plane) =
                    *(unsigned*)(tile[line] + pair);
            }
        } else {
            const unsigned pixel = first_pixel + threadIdx.x, at = pixel / plane * CHANNELS * plane + pixel % plane;
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int line = threadIdx.y + i * 4;
                if (first_channel + line < CHANNELS && pixel < pixels) dx[at + (first_channel + line) * plane] =
                    tile[line][threadIdx.x];
            }
        }
        __syncthreads();
    }
}
