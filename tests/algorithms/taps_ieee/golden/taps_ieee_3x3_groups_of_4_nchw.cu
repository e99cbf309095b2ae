// warpconv 0.1.0: taps_ieee, float32. Generated from templates/taps_ieee/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,128,H,W --filter 128,3,3 --padding 1 --groups 32 --epilogue bias,relu --arch sm_90 \
//     --algorithm taps_ieee \
//     --set columns=4 --set filters=4 --set filter_lanes=1 --set tile_p=16 --set tile_q=56 --set min_blocks=4 \
//     --set vector=4 --set store_vector=4
//
// layer  x[N, 128, H, W] * w[128, 4, 3, 3] -> y[N, 128, P, Q], stride 1, padding 1, groups 32, float32, then bias, relu
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   tiles of 16 x 56 outputs x 4 filters, 4 columns of 4 filters a thread, 224 threads a block, 12 elements of a
//        line in registers, 38016 bytes of shared memory
// cost   32 times 4 outputs of 4 filters: 72 warp loads, 0 shuffles, 576 FMA a lane, about 60 registers (direct: 576
//        loads)
//
// A block copies the lines of x that its outputs' windows cover to shared memory as they lie there, the next tile's
// while it multiplies this one's; its filters stay there. A thread loads what its COLUMNS windows have of a line to
// registers, once for all taps of it, and multiplies by FILTERS filters.
// of channels: each is read as an image of its own, by filters of its own
constexpr int GROUPS = 32;
constexpr int C = 4;                            // channels of a group
constexpr int K = 4;                            // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 16;                      // output rows of a tile
constexpr int TILE_Q = 56;                      // output columns of it
constexpr int COLUMNS = 4;                      // outputs of a thread, a run of a row,
constexpr int FILTERS = 4;                      // of so many filters
constexpr int RUNS_ACROSS = 14;                 // of a tile's row
constexpr int BLOCK_FILTERS = 4;                // filters of a block
constexpr int FILTER_ROW = 8;                   // elements from a product's filters to the next product's
constexpr int FILTER_ELEMENTS = 288;            // and of all products
constexpr int WINDOW = 12;                      // elements of a line that a thread has in registers
constexpr int HALO_ROWS = 18;                   // input rows that a tile's windows cover
constexpr int LINES = 72;                       // input rows that a tile's windows cover, of all channels
constexpr int LINE = 64;                        // elements from one to the next
constexpr int LEAD = 3;                         // of a line's before the first that a window reads
constexpr int PIECES = 16;                      // copies of a line: of 16 bytes,
constexpr int PIECE_LANES = 16;                 // by so many threads,
constexpr int PIECE_ROUNDS = 1;                 // so often
constexpr int PLANE = 1152;                     // elements from a channel's lines to the next's
constexpr int BUFFER = 4608;                    // elements of a tile's pixels
constexpr int COPIERS = 7;                      // warps that copy: all
constexpr int THREADS = 224;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

__device__ __forceinline__ Tile of_group(Tile tile, int group) { return {tile.image * GROUPS + group, tile.p, tile.q}; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four elements of a line, some of which stand outside of the image.
__device__ __forceinline__ void copy_edge(element* to, const element* line, int first, bool reached, int W) {
    element elements[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int at = first + i;
        elements[i] = reached && (unsigned)at < (unsigned)W ? __ldg(line + at) : (element)0;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = elements[i];
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int thread, int H, int W) {
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
#pragma unroll 1
    for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
        const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
        const int h = top + row;
        const bool reached = (unsigned)h < (unsigned)H;
        const int end = W;
        const element* const from = x + ((tile.image * C + channel) * H + h) * W;
        const int at = LEAD + row * LINE + channel * PLANE;        // where `left` lies in shared memory
        element* const line_to = to + (at & ~3);
#pragma unroll
        for (int round = 0; round < PIECE_ROUNDS; ++round) {
            const int piece = round * PIECE_LANES + thread % PIECE_LANES;
            const int first = left - (at & 3) + piece * 4;
            element* const piece_to = line_to + piece * 4;
            if (piece >= PIECES) continue;
            if (reached && first >= 0 && first + 4 <= end) wc_copy_async_16(piece_to, from + first);
            else if (!reached || first <= -4 || first >= W) *(uint4*)piece_to = make_uint4(0u, 0u, 0u, 0u);
            else copy_edge(piece_to, from, first, reached, W);
        }
    }
}

// A block's filters: all of a product side by side, products as a filter has them.
__device__ __forceinline__ void copy_filters(element* to, const element* w, int first_k) {
    for (int i = threadIdx.x; i < BLOCK_FILTERS * C * R * S; i += THREADS) {
        const int k = i / (C * R * S), product = i % (C * R * S);
        to[product * FILTER_ROW + k] = __ldg(w + (index_t)first_k * (C * R * S) + i);
    }
}

// Products of a thread's windows and filters, added to its sums; its windows begin at `column` of line `row`.
__device__ __forceinline__ void multiply(float (&sums)[COLUMNS][FILTERS], const element* pixels, int row, int column,
        const element* filters) {
#pragma unroll 1
    for (int c = 0; c < C; ++c)
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const element* const from = pixels + (row + r) * LINE + c * PLANE + column;
        float window[WINDOW];
#pragma unroll
        for (int i = 0; i < WINDOW; i += 4) {
            const float4 four = *(const float4*)(from + i);
            window[i] = four.x;
            window[i + 1] = four.y;
            window[i + 2] = four.z;
            window[i + 3] = four.w;
        }
#pragma unroll
        for (int s = 0; s < S; ++s)
#pragma unroll
            for (int f = 0; f < FILTERS; f += 4) {
                const float4 weights = *(const float4*)(filters + ((c * R + r) * S + s) * FILTER_ROW + f);
#pragma unroll
                for (int q = 0; q < COLUMNS; ++q) {
                    const float pixel = window[LEAD + q + s];
                    sums[q][f] = fmaf(pixel, weights.x, sums[q][f]);
                    sums[q][f + 1] = fmaf(pixel, weights.y, sums[q][f + 1]);
                    sums[q][f + 2] = fmaf(pixel, weights.z, sums[q][f + 2]);
                    sums[q][f + 3] = fmaf(pixel, weights.w, sums[q][f + 3]);
                }
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
taps_ieee_3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(16) element shared[];
    element* const buffers = shared + FILTER_ELEMENTS;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    if (blockIdx.x >= tiles) return;
    const int group = blockIdx.y, first_k = 0;
    copy_filters(shared, w + (index_t)group * (K * C * R * S), first_k);
    bias += group * K;
    copy_pixels(buffers, x, of_group(tile_of(blockIdx.x, tiles_p, tiles_q), group), threadIdx.x, H, W);
    wc_copy_async_commit();
    // neighbouring lanes have what is stored side by side
    const int run = threadIdx.x;
    const int row = run / RUNS_ACROSS, column = run % RUNS_ACROSS * COLUMNS;
    int buffer = 0;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = of_group(tile_of(number, tiles_p, tiles_q), group);
        wc_copy_async_wait();
        __syncthreads();        // these pixels are there, and every thread is done with those before them
        const element* const pixels = buffers + buffer * BUFFER;
        buffer ^= 1;
        const count_t next = number + gridDim.x;
        if (next < tiles) copy_pixels(buffers + buffer * BUFFER, x, of_group(tile_of(next, tiles_p, tiles_q), group),
            threadIdx.x, H, W);
        wc_copy_async_commit();
        float sums[COLUMNS][FILTERS] = {};
        multiply(sums, pixels, row, column, shared);
        const int p = tile.p + row;
        if (p < P) {
            const index_t plane = (index_t)P * Q, first = tile.image * K * plane + (index_t)p * Q + tile.q + column;
#pragma unroll
            for (int f = 0; f < FILTERS; ++f) {
                const int k = (f / 4) * 4 + f % 4;
                const float of_bias = __ldg(bias + k);
#pragma unroll
                for (int q = 0; q < COLUMNS; q += 4) {
                    if (tile.q + column + q >= Q) continue;
                    const index_t at = first + k * plane + q;
                    *(float4*)(y + at) =
                        make_float4(finish(sums[q][f], of_bias), finish(sums[q + 1][f], of_bias),
                        finish(sums[q + 2][f], of_bias), finish(sums[q + 3][f], of_bias));
                }
            }
        }
    }
}
