// warpconv 0.1.0: filter_gradient_tma, float32. Generated from templates/filter_gradient_tma/kernel.cu.jinja; do not
//        edit.
// Emit it again with
//   warpconv emit --input N,H,W,72 --filter 128,3,3 --stride 2,2 --padding 1 --groups 2 --layout NHWC \
//     --precision tf32 --operation filter_gradient --arch sm_90a --algorithm filter_gradient_tma \
//     --set filters=64 --set columns=64 --set pixels=32 --set warps_m=2 --set warps_n=2 --set stages=3 \
//     --set splits=8 --set min_blocks=3
//
// layer  x[N, H, W, 72] * w[128, 36, 3, 3] -> y[N, P, Q, 128], stride 2, padding 1, groups 2, float32 NHWC, tf32
//        products; its filter gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 64 filters x 64 taps of channels x 32 pixels, rounded to TF32, on the tensor cores, 2 x 2 warps and
//        those that copy, 3 stages, in 8 shares of the pixels, whose sums are added then
// cost   a warp's 32 filters x 32 columns x 32 pixels: 0 warp loads, 0 shuffles, 1024 FMA a lane, about 92 registers
//        (direct: 1024 loads)
//
// A product of matrices on the tensor cores (mma.sync): dy as filters x pixels by the windows as pixels x columns, a
// tap of a channel each, the channels of a tap side by side. A block makes a tile of filters x columns from a share of
// the batch's pixels. Four threads keep the tensor memory accelerator (TMA) copying boxes of 32 channels of 32 pixels
// into a ring in shared memory, windows tap by tap; 4 warps multiply what has come, which the TMA has rounded to TF32.
//
// The launch gives a descriptor of each array that is copied by it (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col):
//
// x_map: x as (72, W, H, N) of float32 rounded to TF32, the innermost first, im2col, 32 channels of 32 pixels, corners
// (W, H) (-1, -1) and (-1, -1), strides 1, 2, 2, 1, 128-byte swizzle, zeros outside
//
// dy_map: dy as (128, N * P * Q) of float32 rounded to TF32, the innermost first, tiled, boxes of 32 x 32, 128-byte
// swizzle, zeros outside
constexpr int K = 128;                          // channels of a pixel of dy: filters
constexpr int GROUPS = 2;                       // groups of both
constexpr int C_GROUP = 36;                     // channels of a group
constexpr int K_GROUP = 64;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int WINDOW = 324;                     // columns: channels of a group of all taps
constexpr int CHUNKS = 8;                       // shares of the pixels, each summed by itself
constexpr int PIXELS = 32;                      // pixels of a stage
constexpr int COLUMN_TILES = 9;                 // tiles of a group's columns
constexpr int SLICES = 2;                       // boxes of 32 channels of a tap
constexpr int FILTER_BOXES = 2;                 // boxes of a stage: 32 filters each,
constexpr int COLUMN_BOXES = 2;                 // 32 columns each
constexpr int BOX_BYTES = 4096;                 // of shared memory: of a box,
constexpr int STAGE_BYTES = 16384;              // and of a stage, its filters' boxes first
constexpr int STAGES = 3;                       // of the ring
constexpr int BARRIERS_AT = 49152;              // where the barriers lie behind it
constexpr int WARPS = 4;                        // that multiply
constexpr int COPIERS = 4;                      // threads that copy
constexpr int WARPS_M = 2;                      // warps along filters
constexpr int WARP_M = 32;                      // tile of a warp: filters,
constexpr int WARP_N = 32;                      // columns
constexpr int MATRICES_M = 2;                   // matrices of a warp's tile: of 16 filters,
constexpr int MATRICES_N = 4;                   // of 8 columns
constexpr int THREADS = 256;                    // threads of a block

// A descriptor, as the driver encodes it.
struct TensorMap {
    __align__(64) unsigned long long words[16];
};

// barriers in shared memory, copies by descriptors
__device__ __forceinline__ void wc_barrier_init(unsigned long long* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void wc_fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void wc_barrier_expect(unsigned long long* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void wc_barrier_arrive(unsigned long long* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory"); }
__device__ __forceinline__ void wc_barrier_wait(unsigned long long* barrier, unsigned parity) { asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory"); }
__device__ __forceinline__ void wc_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void wc_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 120;"); }
__device__ __forceinline__ void wc_tma_load_2(void* to, const TensorMap* map, unsigned long long* barrier, int c0, int c1) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4}], [%2];" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c0), "r"(c1) : "memory"); }
__device__ __forceinline__ void wc_tma_load_im2col(void* to, const TensorMap* map, unsigned long long* barrier, int c, int w, int h, int n, unsigned short tap_w, unsigned short tap_h) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6}], [%2], { %7, %8};" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map), "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h) : "memory"); }

// One of the threads that copy: every COPIERS-th box of this block's stages, as the warps that multiply free them.
__device__ __forceinline__ void fetch(unsigned char* ring, unsigned long long* filled, unsigned long long* freed,
        const TensorMap* x_map, const TensorMap* dy_map, int copier, int first_box, int first_filter,
        int first_channel, int first_pixel, int steps, int P, int Q) {
    int stage = 0;
    unsigned parity = 1;
    for (int step = 0; step < steps; ++step) {
        const int pixel = first_pixel + step * PIXELS;
        const int image = pixel / (P * Q), place = pixel % (P * Q);
        const int top = place / Q * STRIDE_H - PAD_TOP, left = place % Q * STRIDE_W - PAD_LEFT;   // of the first window
        unsigned char* const to = ring + stage * STAGE_BYTES;
        wc_barrier_wait(freed + stage, parity);
        // its own boxes
        wc_barrier_expect(filled + stage, (FILTER_BOXES + COLUMN_BOXES - copier + COPIERS - 1) / COPIERS * BOX_BYTES);
        for (int i = copier; i < FILTER_BOXES + COLUMN_BOXES; i += COPIERS) {
            if (i < FILTER_BOXES) {
                wc_tma_load_2(to + i * BOX_BYTES, dy_map, filled + stage, first_filter + i * 32, pixel);
                continue;
            }
            unsigned char* const window = to + i * BOX_BYTES;
            const int box = first_box + i - FILTER_BOXES;
            const int tap = box / SLICES, channel = first_channel + box % SLICES * 32;
            wc_tma_load_im2col(window, x_map, filled + stage, channel, left, top, image,
                                  (unsigned short)(tap % S), (unsigned short)(tap / S));
        }
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}

// tensor cores
__device__ __forceinline__ void wc_mma_tf32s_8(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// What a warp multiplies at once, of eight pixels. A lane has two of them, lane % 4 * 2 and the next: of two filters of
// each 16 (a), lane / 4 * 2 and the next, and of one column of each 8 (b), lane / 4. Bits of floats.
struct Factors {
    unsigned a[MATRICES_M][4], b[MATRICES_N][2];
};

// Where the first of them lie in a stage, for either pixel. 16-byte cells of a pixel's 32 channels change places with
// the pixel's number (the 128-byte swizzle), so that what a warp loads at once lies in different banks; cells whose
// numbers differ in a bit still do so in their places.
struct Places {
    int filters[2], columns[2];
};

__device__ __forceinline__ Places places_of(int first_filter, int first_column, int lane) {
    Places places;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int pixel = lane % 4 * 2 + i;
        places.filters[i] = first_filter / 32 * BOX_BYTES + pixel * 128 + (lane / 8 ^ pixel) * 16 + lane / 4 % 2 * 8;
        places.columns[i] = (FILTER_BOXES + first_column / 32) * BOX_BYTES + pixel * 128 + (lane / 16 ^ pixel) * 16
            + lane / 4 % 4 * 4;
    }
    return places;
}

__device__ __forceinline__ void load_factors(Factors& factors, const unsigned char* stage, const Places& places,
        int first_pixel) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int m = 0; m < MATRICES_M; ++m) {
            const uint2 filters =
                *(const uint2*)(stage + (places.filters[i] ^ m % 2 * 64) + m / 2 * BOX_BYTES + first_pixel * 128);
            factors.a[m][2 * i] = filters.x, factors.a[m][2 * i + 1] = filters.y;
        }
#pragma unroll
        for (int n = 0; n < MATRICES_N; ++n)
            factors.b[n][i] =
                *(const unsigned*)(stage + (places.columns[i] ^ n % 4 * 32) + n / 4 * BOX_BYTES + first_pixel * 128);
    }
}

// The products of a warp's sums. The next eight pixels' factors are on their way while these are multiplied, behind a
// stage's last those of the next stage.
__device__ __forceinline__ void multiply_tile(float4 (&sums)[MATRICES_M][MATRICES_N], const unsigned char* ring,
        unsigned long long* filled, unsigned long long* freed, int steps, int first_filter, int first_column,
        int lane) {
    const Places places = places_of(first_filter, first_column, lane);
    Factors factors[2];
    int stage = 0;
    unsigned parity = 0;
    if (steps > 0) {
        wc_barrier_wait(filled, 0);
        load_factors(factors[0], ring, places, 0);
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const int next_stage = stage + 1 < STAGES ? stage + 1 : 0;
        const unsigned next_parity = next_stage == 0 ? parity ^ 1 : parity;
#pragma unroll
        for (int depth = 0; depth < PIXELS; depth += 8) {
            Factors &now = factors[depth / 8 % 2], &next = factors[(depth / 8 + 1) % 2];
            if (depth + 8 < PIXELS) {
                load_factors(next, ring + stage * STAGE_BYTES, places, depth + 8);
            } else if (step + 1 < steps) {
                wc_barrier_wait(filled + next_stage, next_parity);
                load_factors(next, ring + next_stage * STAGE_BYTES, places, 0);
            }
#pragma unroll
            for (int m = 0; m < MATRICES_M; ++m)
#pragma unroll
                for (int n = 0; n < MATRICES_N; ++n)
                    wc_mma_tf32s_8(sums[m][n], now.a[m][0], now.a[m][1], now.a[m][2], now.a[m][3], now.b[n][0],
                        now.b[n][1]);
        }
        __syncwarp();
        if (lane == 0) wc_barrier_arrive(freed + stage);
        stage = next_stage, parity = next_parity;
    }
}

// Which column of the gradient a tile's column is; WINDOW where it is none.
__device__ __forceinline__ int own_column(int first_box, int column) {
    const int box = first_box + column / 32, channel = box % SLICES * 32 + column % 32;
    return channel < C_GROUP ? box / SLICES * C_GROUP + channel : WINDOW;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
filter_gradient_tma_3x3(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap dy_map,
        float* __restrict__ parts, int N, int P, int Q) {
    extern __shared__ __align__(1024) unsigned char shared[];
    // this block's tile: blocks count tiles of columns first, then of filters, groups, then shares of the pixels
    const int first_box = blockIdx.x % COLUMN_TILES * COLUMN_BOXES;
    const int group = blockIdx.x / COLUMN_TILES % GROUPS, chunk = blockIdx.x / (COLUMN_TILES * GROUPS);
    const long long all_steps = ((long long)N * P * Q + PIXELS - 1) / PIXELS, first_step = all_steps * chunk / CHUNKS;
    const int steps = (int)(all_steps * (chunk + 1) / CHUNKS - first_step);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned long long* const filled = (unsigned long long*)(shared + BARRIERS_AT);
    unsigned long long* const freed = filled + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            wc_barrier_init(filled + stage, COPIERS);
            wc_barrier_init(freed + stage, WARPS);
        }
        wc_fence_barrier_init();
    }
    __syncthreads();
    if (warp >= WARPS) {
        // the group that copies: a thread of each warp, which needs few registers
        wc_setmaxnreg_dec();
        if (lane == 0) fetch(shared, filled, freed, &x_map, &dy_map, warp - WARPS, first_box, group * K_GROUP,
            group * C_GROUP, (int)first_step * PIXELS, steps, P, Q);
    } else {
        // those that multiply
        wc_setmaxnreg_inc();
        const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
        float4 sums[MATRICES_M][MATRICES_N] = {};
        multiply_tile(sums, shared, filled, freed, steps, warp_m, warp_n, lane);

        // the sums of this share: filters x columns
        float* const to = parts + ((long long)chunk * K + group * K_GROUP) * WINDOW;
#pragma unroll
        for (int n = 0; n < MATRICES_N; ++n) {
            const int column = own_column(first_box, warp_n + n * 8 + lane % 4 * 2);
            if (column == WINDOW) continue;
#pragma unroll
            for (int m = 0; m < MATRICES_M; ++m) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int filter = warp_m + m * 16 + lane / 4 * 2 + half;
                    *(float2*)(to + (long long)filter * WINDOW + column) = half
                        ? make_float2(sums[m][n].z, sums[m][n].w) : make_float2(sums[m][n].x, sums[m][n].y);
                }
            }
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes chunks y, y + 2 and so on. A row
// of parts has the channels of a tap side by side, the gradient the taps of a channel: a block turns those of 16
// channels of a filter.
extern "C" __global__ void __launch_bounds__(288)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[2][144];
    constexpr int TAPS = R * S, TILES = 3;          // of a filter's channels, 16 each
    const long long filter = (long long)(blockIdx.x / TILES) * WINDOW;
    const int first = blockIdx.x % TILES * 16;
    const int tap = threadIdx.x / 16, channel = threadIdx.x % 16;
    float sum = 0.0f;
    if (first + channel < C_GROUP) {
        const float* const from = parts + filter + tap * C_GROUP + first + channel;
#pragma unroll 4
        for (int chunk = threadIdx.y; chunk < CHUNKS; chunk += 2) sum += __ldg(from + chunk * ((long long)K * WINDOW));
    }
    sums[threadIdx.y][channel * TAPS + tap] = sum;
    __syncthreads();
    const int i = first * TAPS + threadIdx.x;       // of the filter's elements, as the gradient has them
    if (threadIdx.y == 0 && i < WINDOW) {
        float whole = sums[0][threadIdx.x];
#pragma unroll
        for (int y = 1; y < 2; ++y) whole += sums[y][threadIdx.x];
        dw[filter + i] = whole;
    }
}
