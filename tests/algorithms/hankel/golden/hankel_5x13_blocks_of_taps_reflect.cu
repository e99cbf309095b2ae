// warpconv 0.1.0: hankel, float16. Generated from templates/hankel/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,16,24 --filter 24,5,13 --padding 2,6 --padding-mode reflect --groups 24 \
//     --dtype float16 --layout NHWC --operation filter_gradient --arch sm_90 --algorithm hankel \
//     --set chunks=2 --set octets=2 --set columns=16 --set across=4 --set warps=2 --set rows=2 --set buffers=4 \
//     --set folds=1 --set tap_rows=5 --set tap_columns=7
//
// layer  x[N, H, W, 24] * w[24, 1, 5, 13] -> y[N, P, Q, 24], stride 1, padding 2,6 (reflect), groups 24, float16 NHWC;
//        its filter gradient
//        N, H, W (and so P, Q) are arguments (Q at most 16); all else is a constant of the text
// plan   5 x 7 taps of 16 channels in a block; 4 images x 16 columns, 2 rows at a time, 4 buffers, in 2 chunks; then
//        the chunks' sums are added
// cost   2 rows x 16 columns x 8 channels, 8 matrix instructions: 19 warp loads, 0 shuffles, 0 FMA a lane, about 104
//        registers (direct: 280 loads)
// note   a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel
// note   53696 bytes of shared memory a block
//
// A matrix instruction multiplies SLOTS rows of dy, of both channels of a pair, by as many shifted copies of a row of
// x: over 16 columns, for all taps of the filters that these rows meet. A lane's word of x is a pair as it lies in
// memory; of dy it has two neighbours of one channel, since the other channel's products are the zeros that the
// instruction leaves out.
constexpr int C = 24;                           // channels, each with its filter
constexpr int R = 5;                            // filter rows
constexpr int S = 13;                           // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int PAD_LEFT = 6;                     // columns to the left of the image
constexpr int CHUNKS = 2;                       // shares of the sum, each made by a block of its own
constexpr int TAP_ROWS = 5;                     // rows of the filter that a block sums
constexpr int TAP_COLUMNS = 7;                  // columns of the filter that a block sums
constexpr int TAP_TILES = 2;                    // blocks for a row of the filter
constexpr int ALL_OCTETS = 3;                   // eights of channels
constexpr int OCTETS = 2;                       // of a block
constexpr int CHANNEL_GROUPS = 2;               // blocks for the channels
constexpr int WARPS = 2;                        // warps of an octet
constexpr int THREADS = 128;                    // threads of a block
constexpr int COLUMNS = 16;                     // output columns of an image in a block
constexpr int ACROSS = 4;                       // images side by side
constexpr int WINDOW_COLUMNS = 22;              // input columns of each
constexpr int IMAGE_HALVES = 2;                 // of an image's
constexpr int FOLDS = 1;                        // stretches of 16 columns in a matrix
constexpr int SLOTS = 8;                        // rows of dy, and columns of taps, of each
constexpr int UNITS = 4;                        // matrices for a row
constexpr int ROWS = 2;                         // input rows of a step
constexpr int FRESH = 2;                        // rows of dy that a step is the first to have
constexpr int LEAD = 3;                         // steps before it, whose rows of dy it has, too
constexpr int BUFFERS = 4;                      // steps in shared memory
constexpr int RING = 14;                        // rows of dy there
constexpr int IMAGE_PITCH = 24;                 // pixels in shared memory from an image to the next
constexpr int PITCH = 96;                       // pixels to the next row of x
constexpr int DY_PITCH = 65;                    // pixels to the next row of dy
constexpr int COPIES = 176;                     // copies of 16 bytes, of a row: of x
constexpr int DY_COPIES = 128;                  // and of dy
constexpr int SUMS = TAP_ROWS * TAP_COLUMNS * OCTETS * 8; // of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

// copies from global to shared memory, past the registers, and tensor cores
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 2;" ::: "memory"); }
__device__ __forceinline__ void wc_mma_halves_sparse_32(float4& sum, const float4& before, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1, unsigned b2, unsigned b3) { asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9, %10, %11}, { %12, %13, %14, %15}, %16, 0x0;" : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(b2), "r"(b3), "f"(before.x), "f"(before.y), "f"(before.z), "f"(before.w), "r"(0xdddd8888u)); }

// Where an eight of a pixel's channels lies in shared memory: eight pixels' lie in all banks.
__device__ __forceinline__ int cell(int pixel, int octet) {
    return pixel * OCTETS + (octet ^ (unsigned)pixel / (8 / OCTETS) % OCTETS);
}

extern "C" __global__ void __launch_bounds__(128, 3)
hankel_5x13(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy, float* __restrict__ parts,
        int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    uint4 *const pixels = (uint4*)shared, *const gradients = pixels + 1536;    // 8 channels each: [row][column][octet]
    const int lane = threadIdx.x % 32, octet = threadIdx.x / 32 % OCTETS, side = threadIdx.x / (32 * OCTETS);
    const int quad = lane % 4, slot = lane / 4 % SLOTS, fold = lane / 4 / SLOTS;
    const int first_octet = (int)(blockIdx.x % CHANNEL_GROUPS) * OCTETS, chunk = blockIdx.x / CHANNEL_GROUPS;
    const int first_r = blockIdx.y / TAP_TILES * TAP_ROWS, first_s = blockIdx.y % TAP_TILES * TAP_COLUMNS;
    const int strips = (Q + COLUMNS - 1) / COLUMNS, strip = chunk % strips;
    const int shares = CHUNKS / strips, share = chunk / strips;          // of a strip; what is left over has none
    const int steps = ((P - 1) + (TAP_ROWS - 1) + ROWS) / ROWS;                            // of an image
    const long long all_steps = (long long)((N + ACROSS - 1) / ACROSS) * steps;
    const index_t first_step = share < shares ? (index_t)(all_steps * share / shares) : 0;
    const index_t last_step = share < shares ? (index_t)(all_steps * (share + 1) / shares) : 0;
    // the step that is copied next: images, and step of theirs
    int copy_images = (int)(first_step / steps), copy_step = (int)(first_step - (index_t)copy_images * steps);
    const int lead = min(copy_step, LEAD);
    const index_t start = first_step - lead;
    copy_step -= lead;
    // rows of dy before the image, and columns behind it, are zeros
#pragma unroll 1
    for (int i = threadIdx.x; i < 3356; i += THREADS) pixels[i] = make_uint4(0u, 0u, 0u, 0u);
    __syncthreads();
    // what this thread copies of every row: where it lies in an image, of which of them (none: N), and where it comes
    // to
    index_t x_from[2], dy_from[1];
    int x_image[2], dy_image[1], x_to[2], dy_to[1];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int copy = threadIdx.x + i * THREADS, own = copy % OCTETS, place = copy / OCTETS,
            image = place / WINDOW_COLUMNS;
        const int v = at_border(strip * COLUMNS + place % WINDOW_COLUMNS + first_s - PAD_LEFT, W);
        x_from[i] = ((index_t)image * H * W + v) * C + (first_octet + own) * 8;
        x_image[i] = first_octet + own < ALL_OCTETS ? image : N;
        x_to[i] = cell(image * IMAGE_PITCH + place % WINDOW_COLUMNS, own);
    }
#pragma unroll
    for (int i = 0; i < 1; ++i) {
        const int copy = threadIdx.x + i * THREADS, own = copy % OCTETS, place = copy / OCTETS, image = place / COLUMNS;
        const int q = strip * COLUMNS + place % COLUMNS;
        dy_from[i] = ((index_t)image * P * Q + q) * C + (first_octet + own) * 8;
        dy_image[i] = first_octet + own < ALL_OCTETS && q < Q ? image : N;
        dy_to[i] = place;
    }
    const int dy_own = threadIdx.x % OCTETS;
    auto copy = [&](index_t copied, int copy_buffer, int copy_row) __attribute__((always_inline)) {
        if (copied < last_step) {
            const int images = copy_images * ACROSS;
#pragma unroll
            for (int line = 0; line < ROWS; ++line) {
                const int h = at_border(copy_step * ROWS + line + first_r - PAD_TOP, H);
                const bool there = copied >= first_step;
                const index_t row_from = ((index_t)images * H + h) * W * C;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const bool inside = there && images + x_image[i] < N;
                    wc_copy_async_zfill_16(threadIdx.x + i * THREADS < COPIES,
                        pixels + x_to[i] + (copy_buffer + line) * (PITCH * OCTETS),
                        x + (row_from + x_from[i]), inside);
                }
            }
#pragma unroll
            for (int line = 0; line < FRESH; ++line) {
                const int p = copy_step * FRESH + line;
                const index_t row_from = ((index_t)images * P + p) * Q * C;
#pragma unroll
                for (int i = 0; i < 1; ++i) {
                    const bool inside = p < P && images + dy_image[i] < N;
                    wc_copy_async_zfill_16(threadIdx.x + i * THREADS < DY_COPIES,
                        gradients + cell((copy_row + line) * DY_PITCH + dy_to[i], dy_own),
                        dy + (row_from + dy_from[i]), inside);
                }
            }
            if (++copy_step == steps) {
                copy_step = 0;
                ++copy_images;
            }
        }
        wc_copy_async_commit();
    };
    // where this lane's pixels of a row of x begin: those of its half of an instruction's columns, and of the other
    // half
    const int x_cell = cell(slot + quad, octet), x_cell_4 = cell(slot + (quad + 4), octet);
    float4 acc[ROWS][4] = {};
    int buffer = 0, row = 0;                   // of the step that is multiplied: its rows of x, and of dy
#pragma unroll 1
    for (int i = 0; i < BUFFERS - 1; ++i) copy(start + i, i * ROWS, i * FRESH);
#pragma unroll 1
    for (index_t step = start; step < last_step; ++step) {
        wc_copy_async_wait_group();              // this step's rows are there
        __syncthreads();
        const int ahead = row + (BUFFERS - 1) * FRESH;
        copy(step + BUFFERS - 1, (buffer == 0 ? BUFFERS * ROWS : buffer) - ROWS, ahead < RING ? ahead : ahead - RING);
        if (step >= first_step) {
            const int own_row = row + FRESH - SLOTS + slot;
            const int dy_pixel = (own_row < 0 ? own_row + RING : own_row) * DY_PITCH + 2 * quad;
            const uint4 *const dy_even = gradients + cell(dy_pixel, octet),
                *const dy_odd = gradients + cell(dy_pixel + 1, octet);
            const uint4 *const x_row = pixels + x_cell + buffer * (PITCH * OCTETS),
                *const x_row_4 = pixels + x_cell_4 + buffer * (PITCH * OCTETS);
#pragma unroll 1
            for (int round = 0; round < 2; ++round) {
                const int unit = side + round * WARPS;
                if (unit >= UNITS) break;
                const int left = (unit + fold) * 2, right = left + 1;          // eights of columns
                const int dy_left = left * (8 * OCTETS);
                const int x_left = left / IMAGE_HALVES * (IMAGE_PITCH * OCTETS) + left % IMAGE_HALVES * (8 * OCTETS);
                const int dy_right = right * (8 * OCTETS);
                const int x_right = right / IMAGE_HALVES * (IMAGE_PITCH * OCTETS) + right % IMAGE_HALVES * (8 * OCTETS);
                const uint4 dy_0 = dy_even[dy_left], dy_1 = dy_odd[dy_left], dy_8 = dy_even[dy_right],
                    dy_9 = dy_odd[dy_right];
                const unsigned low_x = __byte_perm(dy_0.x, dy_1.x, 0x5410u),
                    high_x = __byte_perm(dy_0.x, dy_1.x, 0x7632u);
                const unsigned low_x_8 = __byte_perm(dy_8.x, dy_9.x, 0x5410u),
                    high_x_8 = __byte_perm(dy_8.x, dy_9.x, 0x7632u);
                const unsigned low_y = __byte_perm(dy_0.y, dy_1.y, 0x5410u),
                    high_y = __byte_perm(dy_0.y, dy_1.y, 0x7632u);
                const unsigned low_y_8 = __byte_perm(dy_8.y, dy_9.y, 0x5410u),
                    high_y_8 = __byte_perm(dy_8.y, dy_9.y, 0x7632u);
                const unsigned low_z = __byte_perm(dy_0.z, dy_1.z, 0x5410u),
                    high_z = __byte_perm(dy_0.z, dy_1.z, 0x7632u);
                const unsigned low_z_8 = __byte_perm(dy_8.z, dy_9.z, 0x5410u),
                    high_z_8 = __byte_perm(dy_8.z, dy_9.z, 0x7632u);
                const unsigned low_w = __byte_perm(dy_0.w, dy_1.w, 0x5410u),
                    high_w = __byte_perm(dy_0.w, dy_1.w, 0x7632u);
                const unsigned low_w_8 = __byte_perm(dy_8.w, dy_9.w, 0x5410u),
                    high_w_8 = __byte_perm(dy_8.w, dy_9.w, 0x7632u);
#pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    const uint4 in_0 = x_row[x_left + i * (PITCH * OCTETS)],
                        in_4 = x_row_4[x_left + i * (PITCH * OCTETS)];
                    const uint4 in_8 = x_row[x_right + i * (PITCH * OCTETS)],
                        in_12 = x_row_4[x_right + i * (PITCH * OCTETS)];
                    wc_mma_halves_sparse_32(acc[i][0], acc[i][0], low_x, high_x, low_x_8, high_x_8, in_0.x, in_4.x,
                        in_8.x, in_12.x);
                    wc_mma_halves_sparse_32(acc[i][1], acc[i][1], low_y, high_y, low_y_8, high_y_8, in_0.y, in_4.y,
                        in_8.y, in_12.y);
                    wc_mma_halves_sparse_32(acc[i][2], acc[i][2], low_z, high_z, low_z_8, high_z_8, in_0.z, in_4.z,
                        in_8.z, in_12.z);
                    wc_mma_halves_sparse_32(acc[i][3], acc[i][3], low_w, high_w, low_w_8, high_w_8, in_0.w, in_4.w,
                        in_8.w, in_12.w);
                }
            }
        }
        buffer = buffer + ROWS < BUFFERS * ROWS ? buffer + ROWS : 0;
        row = row + FRESH < RING ? row + FRESH : 0;
    }
    // the block's sums: those of the warps, of the rows of a step, of the stretches, one after the other
    float* const sums = (float*)shared;
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < SUMS; i += THREADS) sums[i] = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < WARPS; ++turn) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int below = i - ROWS + (SLOTS - slot), r = below, s = 2 * quad % SLOTS;
            const bool has = below >= 0 && 0 == 0 && r < TAP_ROWS && fold == 2 * quad / SLOTS && side == turn;
#pragma unroll 1
            for (int stretch = 0; stretch < FOLDS; ++stretch) {
                __syncthreads();
                if (has && fold == stretch) {
                    float* const tap = sums + ((r * TAP_COLUMNS + s) * OCTETS + octet) * 8;
#pragma unroll
                    for (int pair = 0; pair < 4; ++pair) {
                        if (s < TAP_COLUMNS) {
                            tap[2 * pair] += acc[i][pair].x;
                            tap[2 * pair + 1] += acc[i][pair].z;
                        }
                        if (s + 1 < TAP_COLUMNS) {
                            tap[OCTETS * 8 + 2 * pair] += acc[i][pair].y;
                            tap[OCTETS * 8 + 2 * pair + 1] += acc[i][pair].w;
                        }
                    }
                }
            }
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < SUMS; i += THREADS) {
        const int tap = i / (OCTETS * 8), r = first_r + tap / TAP_COLUMNS, s = first_s + tap % TAP_COLUMNS;
        const int k = first_octet * 8 + i % (OCTETS * 8);
        if (k < C && r < R && s < S) parts[(((long long)chunk * R + r) * S + s) * C + k] = sums[i];
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)C * R * S;
    const long long i = (long long)blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (i < ELEMENTS) {
#pragma unroll 4
        for (int chunk = threadIdx.y; chunk < CHUNKS; chunk += 16) sum += __ldg(parts + chunk * ELEMENTS + i);
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && i < ELEMENTS) {
#pragma unroll
        for (int y = 1; y < 16; ++y) sum += sums[y][threadIdx.x];
        dw[i % C * (R * S) + i / C] = wc_float_to_half(sum);
    }
}
