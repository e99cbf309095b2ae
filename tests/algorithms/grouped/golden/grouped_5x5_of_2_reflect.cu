// warpconv 0.1.0: grouped, float32. Generated from templates/grouped/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,24 --filter 96,5,5 --padding 2 --padding-mode reflect --groups 12 --layout NHWC \
//     --arch sm_90 --algorithm grouped \
//     --set columns=7 --set filters=4 --set groups_tile=12 --set tile_p=10 --set tile_q=7 --set min_blocks=2
//
// layer  x[N, H, W, 24] * w[96, 2, 5, 5] -> y[N, P, Q, 96], stride 1, padding 2 (reflect), groups 12, float32 NHWC
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 10 x 7 outputs of 12 groups, 7 columns of 4 filters a thread, 240 threads a block, 11 pixels of a
//        line in registers, 49568 bytes of shared memory
// cost   32 times 7 outputs of 4 filters: 105 warp loads, 0 shuffles, 1400 FMA a lane, about 84 registers (direct: 1400
//        loads)
//
// A block has several groups of channels. It copies the pixels that its outputs' windows cover to shared memory, the
// next tile's while it multiplies this one's; its groups' filters stay there. A thread loads what its COLUMNS windows
// have of a line to registers, once for all taps of it, and multiplies by FILTERS filters of its group.
constexpr int C = 24;                           // channels of x
constexpr int K = 96;                           // channels of y: filters
constexpr int C_GROUP = 2;                      // channels of a group
constexpr int K_GROUP = 8;                      // filters of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int PAD_LEFT = 2;                     // columns to the left of the image
constexpr int TILE_P = 10;                      // output rows of a tile
constexpr int TILE_Q = 7;                       // output columns of it
constexpr int COLUMNS = 7;                      // outputs of a thread, a run of a row
constexpr int FILTERS = 4;                      // filters of a thread, of one group
constexpr int CHANNELS = 24;                    // of x, in all groups of a block
constexpr int BLOCK_FILTERS = 96;               // filters of all groups of a block
constexpr int GROUP_LANES = 2;                  // threads that share a group's filters, fours of them in turn
constexpr int FILTER_LANES = 24;                // threads that have the same pixels, of other filters
constexpr int FILTER_ROW = 100;                 // elements from a product's filters to the next product's
constexpr int FILTER_ELEMENTS = 5000;           // and of all products
constexpr int WINDOW = 11;                      // pixels of a line that a thread has in registers
constexpr int HALO_ROWS = 14;                   // input rows that a tile's windows cover
constexpr int HALO_COLUMNS = 11;                // input columns
constexpr int PIECES = 6;                       // copies of a pixel: of four channels,
constexpr int PIXEL_THREADS = 40;               // of so many pixels at a time
constexpr int BUFFER = 3696;                    // elements of a tile's pixels
constexpr int THREADS = 240;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// A block's filters: all of a product (a tap's channel) side by side, products in the order of taps, then channels.
__device__ __forceinline__ void copy_filters(element* to, const element* w) {
    for (int i = threadIdx.x; i < BLOCK_FILTERS * C_GROUP * R * S; i += THREADS) {
        const int product = i % (C_GROUP * R * S), k = i / (C_GROUP * R * S), four = k % K_GROUP / 4;
        // that takes this four of a group's filters
        const int lane = k / K_GROUP * GROUP_LANES + four % GROUP_LANES;
        to[(product % (R * S) * C_GROUP + product / (R * S)) * FILTER_ROW
            + (four / GROUP_LANES * FILTER_LANES + lane) * 4 + k % 4] = __ldg(w + i);
    }
}

// The pixels that a tile's windows cover, a block's channels of them, and what stands outside of the image; PIECES
// threads copy a pixel.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int first_channel, int H,
        int W) {
    const int channel = threadIdx.x % PIECES * 4, top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
    const element* const image = x + tile.image * H * W * C + first_channel + channel;
#pragma unroll 4
    for (int pixel = threadIdx.x / PIECES; pixel < HALO_ROWS * HALO_COLUMNS; pixel += PIXEL_THREADS) {
        const int h = at_border(top + pixel / HALO_COLUMNS, H), w = at_border(left + pixel % HALO_COLUMNS, W);
        wc_copy_async_16(to + pixel * CHANNELS + channel, image + ((index_t)h * W + w) * C);
    }
}

// Products of a thread's windows, which begin at `pixels`, and of its filters, added to its sums.
__device__ __forceinline__ void multiply(float (&sums)[COLUMNS][FILTERS], const element* pixels,
        const element* filters) {
#pragma unroll 1
    for (int r = 0; r < R; ++r) {
        const element* const line = pixels + r * (HALO_COLUMNS * CHANNELS);
        float window[WINDOW][C_GROUP];
#pragma unroll
        for (int i = 0; i < WINDOW; ++i)
#pragma unroll
            for (int c = 0; c < C_GROUP; c += 2) {
                const float2 loaded = *(const float2*)(line + i * CHANNELS + c);
                window[i][c] = loaded.x;
                window[i][c + 1] = loaded.y;
            }
#pragma unroll
        for (int s = 0; s < S; ++s)
#pragma unroll
            for (int c = 0; c < C_GROUP; ++c)
#pragma unroll
                for (int f = 0; f < FILTERS; f += 4) {
                    const float4 weights =
                        *(const float4*)(filters + ((r * S + s) * C_GROUP + c) * FILTER_ROW + f * FILTER_LANES);
#pragma unroll
                    for (int q = 0; q < COLUMNS; ++q) {
                        const float pixel = window[q + s][c];
                        sums[q][f] = fmaf(pixel, weights.x, sums[q][f]);
                        sums[q][f + 1] = fmaf(pixel, weights.y, sums[q][f + 1]);
                        sums[q][f + 2] = fmaf(pixel, weights.z, sums[q][f + 2]);
                        sums[q][f + 3] = fmaf(pixel, weights.w, sums[q][f + 3]);
                    }
                }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
grouped_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    extern __shared__ __align__(16) element shared[];
    element* const buffers = shared + FILTER_ELEMENTS;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    if (blockIdx.x >= tiles) return;
    const int first_channel = blockIdx.y * CHANNELS, first_k = blockIdx.y * BLOCK_FILTERS;
    copy_filters(shared, w + (index_t)first_k * (C_GROUP * R * S));
    copy_pixels(buffers, x, tile_of(blockIdx.x, tiles_p, tiles_q), first_channel, H, W);
    wc_copy_async_commit();
    // neighbouring lanes have neighbouring fours of filters, and so neighbouring groups
    const int run = threadIdx.x / FILTER_LANES, filter_lane = threadIdx.x % FILTER_LANES;
    const int row = run, group = filter_lane / GROUP_LANES;
    const int k = first_k + group * K_GROUP + filter_lane % GROUP_LANES * 4;      // the first of this thread's filters
    int buffer = 0;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_p, tiles_q);
        wc_copy_async_wait();
        __syncthreads();        // these pixels are there, and every thread is done with those before them
        const element* const pixels = buffers + buffer * BUFFER;
        buffer ^= 1;
        const count_t next = number + gridDim.x;
        if (next < tiles) copy_pixels(buffers + buffer * BUFFER, x, tile_of(next, tiles_p, tiles_q), first_channel, H,
            W);
        wc_copy_async_commit();
        float sums[COLUMNS][FILTERS] = {};
        multiply(sums, pixels + (row * HALO_COLUMNS) * CHANNELS + group * C_GROUP, shared + filter_lane * 4);
        const int p = tile.p + row;
        if (p < P) {
            const index_t first = ((tile.image * P + p) * Q + tile.q) * K;
#pragma unroll
            for (int f = 0; f < FILTERS; f += 4) {
                const int first_of_four = k + f * GROUP_LANES;
#pragma unroll
                for (int q = 0; q < COLUMNS; ++q) {
                    if (tile.q + q >= Q) continue;
                    const index_t at = first + q * K + first_of_four;
                    *(float4*)(y + at) = make_float4(sums[q][f], sums[q][f + 1], sums[q][f + 2], sums[q][f + 3]);
                }
            }
        }
    }
}
