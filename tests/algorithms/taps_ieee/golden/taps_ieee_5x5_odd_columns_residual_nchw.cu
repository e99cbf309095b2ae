// warpconv 0.1.0: taps_ieee, float32. Generated from templates/taps_ieee/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,4,H,W --filter 24,5,5 --padding 1 --epilogue residual --arch sm_90 \
//     --algorithm taps_ieee \
//     --set columns=4 --set filters=8 --set filter_lanes=4 --set tile_p=4 --set tile_q=32 --set min_blocks=4 \
//     --set vector=1 --set store_vector=1
//
// layer  x[N, 4, H, W] * w[24, 4, 5, 5] -> y[N, 24, P, Q], stride 1, padding 1, float32, then residual
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 4 x 32 outputs x 32 filters, 4 columns of 8 filters a thread, 128 threads a block, 8 elements of a
//        line in registers, 35104 bytes of shared memory
// cost   32 times 4 outputs of 8 filters: 360 warp loads, 0 shuffles, 3200 FMA a lane, about 77 registers (direct: 3200
//        loads)
//
// A block copies the lines of x that its outputs' windows cover to shared memory as they lie there, the next tile's
// while it multiplies this one's; its filters stay there. A thread loads what its COLUMNS windows have of a line to
// registers, once for all taps of it, and multiplies by FILTERS filters.
constexpr int C = 4;                            // channels of x
constexpr int K = 24;                           // channels of y: filters
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int TILE_P = 4;                       // output rows of a tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int COLUMNS = 4;                      // outputs of a thread, a run of a row,
constexpr int FILTERS = 8;                      // of so many filters
constexpr int FILTER_LANES = 4;                 // threads that have a run's filters, four by turns
constexpr int RUNS = 32;                        // of a tile
constexpr int RUNS_ACROSS = 8;                  // of a tile's row
constexpr int BLOCK_FILTERS = 32;               // filters of a block
constexpr int FILTER_ROW = 36;                  // elements from a product's filters to the next product's
constexpr int FILTER_ELEMENTS = 3600;           // and of all products
constexpr int WINDOW = 8;                       // elements of a line that a thread has in registers
constexpr int HALO_ROWS = 8;                    // input rows that a tile's windows cover
constexpr int LINES = 32;                       // input rows that a tile's windows cover, of all channels
constexpr int LINE = 44;                        // elements from one to the next, at least
constexpr int PIECES = 10;                      // copies of a line: of 16 bytes,
constexpr int PIECE_LANES = 16;                 // by so many threads,
constexpr int PIECE_ROUNDS = 1;                 // so often
constexpr int PLANE = 388;                      // elements from a channel's lines to the next's, at least
constexpr int BUFFER = 1564;                    // elements of a tile's pixels
constexpr int EXCHANGE = 512;                   // elements of a warp's outputs that change hands at a time,
constexpr int EXCHANGES_AT = 6728;              // and before the first warp's
constexpr int COPIERS = 4;                      // warps that copy: all
constexpr int THREADS = 128;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = float;

// What happens to an output value before it is stored: residual.
__device__ __forceinline__ float finish(float value, float residual) {
    value = value + residual;
    return value;
}

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// Lines of x begin anywhere. In shared memory each is as far into 16 bytes as it is in x, so that it is copied by 16
// bytes.
struct Pitch { int line, plane; };     // elements from a line to the next, from a channel's lines to the next's

__device__ __forceinline__ Pitch pitch_of(int H, int W) { return {LINE + (W & 3), PLANE + ((H & 3) * (W & 3) & 3)}; }

// How far into 16 bytes the first element is that a tile's windows cover.
__device__ __forceinline__ int start_of(const Tile& tile, int H, int W) {
    const index_t row = tile.image * C * H + tile.p - PAD_TOP;
    return (int)((row * W + tile.q - PAD_LEFT) & 3);
}

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
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int thread, int H, int W,
        Pitch pitch) {
    const int top = tile.p - PAD_TOP, left = tile.q - PAD_LEFT;
    const int start = start_of(tile, H, W);
#pragma unroll 1
    for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
        const int channel = line / HALO_ROWS, row = line % HALO_ROWS;
        const int h = top + row;
        const bool reached = (unsigned)h < (unsigned)H;
        const int end = W;
        const element* const from = x + ((tile.image * C + channel) * H + h) * W;
        const int at = start + row * pitch.line + channel * pitch.plane;        // where `left` lies in shared memory
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

// A block's filters: all of a product side by side, products as a filter has them, zeros behind the last filter.
__device__ __forceinline__ void copy_filters(element* to, const element* w, int first_k) {
    for (int i = threadIdx.x; i < BLOCK_FILTERS * C * R * S; i += THREADS) {
        const int k = i / (C * R * S), product = i % (C * R * S);
        to[product * FILTER_ROW + k] = first_k + k < K ? __ldg(w + (index_t)first_k * (C * R * S) + i) : 0.0f;
    }
}

// Products of a thread's windows and filters, added to its sums; its windows begin at `column` of line `row`.
__device__ __forceinline__ void multiply(float (&sums)[COLUMNS][FILTERS], const element* pixels, int row, int column,
        const element* filters, Pitch pitch) {
#pragma unroll 1
    for (int c = 0; c < C; ++c)
#pragma unroll 1
    for (int r = 0; r < R; ++r) {
        const element* const from = pixels + (row + r) * pitch.line + c * pitch.plane + column;
        float window[WINDOW];
#pragma unroll
        for (int i = 0; i < WINDOW; ++i) window[i] = from[i];
#pragma unroll
        for (int s = 0; s < S; ++s)
#pragma unroll
            for (int f = 0; f < FILTERS; f += 4) {
                const float4 weights =
                    *(const float4*)(filters + ((c * R + r) * S + s) * FILTER_ROW + f * FILTER_LANES);
#pragma unroll
                for (int q = 0; q < COLUMNS; ++q) {
                    const float pixel = window[q + s];
                    sums[q][f] = fmaf(pixel, weights.x, sums[q][f]);
                    sums[q][f + 1] = fmaf(pixel, weights.y, sums[q][f + 1]);
                    sums[q][f + 2] = fmaf(pixel, weights.z, sums[q][f + 2]);
                    sums[q][f + 3] = fmaf(pixel, weights.w, sums[q][f + 3]);
                }
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
taps_ieee_5x5(const float* __restrict__ x, const float* __restrict__ w, const float* residual, float* y, int N, int H,
        int W, int P, int Q) {
    extern __shared__ __align__(16) element shared[];
    element* const buffers = shared + FILTER_ELEMENTS;
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const count_t tiles = (count_t)N * tiles_p * tiles_q;
    if (blockIdx.x >= tiles) return;
    const int first_k = blockIdx.y * BLOCK_FILTERS;
    copy_filters(shared, w, first_k);
    const Pitch pitch = pitch_of(H, W);
    copy_pixels(buffers, x, tile_of(blockIdx.x, tiles_p, tiles_q), threadIdx.x, H, W, pitch);
    wc_copy_async_commit();
    // neighbouring lanes have what is stored side by side
    const int run = threadIdx.x % RUNS, filter_lane = threadIdx.x / RUNS;
    const int row = run / RUNS_ACROSS, column = run % RUNS_ACROSS * COLUMNS;
    int buffer = 0;
    for (count_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile = tile_of(number, tiles_p, tiles_q);
        wc_copy_async_wait();
        __syncthreads();        // these pixels are there, and every thread is done with those before them
        const element* const pixels = buffers + buffer * BUFFER;
        buffer ^= 1;
        const count_t next = number + gridDim.x;
        if (next < tiles) copy_pixels(buffers + buffer * BUFFER, x, tile_of(next, tiles_p, tiles_q), threadIdx.x, H, W,
            pitch);
        wc_copy_async_commit();
        float sums[COLUMNS][FILTERS] = {};
        multiply(sums, pixels + start_of(tile, H, W), row, column, shared + filter_lane * 4, pitch);
        // Outputs of a warp, four filters at a time, change hands in shared memory, so that neighbouring lanes store
        // what lies side by side.
        const index_t plane = (index_t)P * Q;
        const int lane = threadIdx.x % 32;
        element* const exchange = shared + EXCHANGES_AT + threadIdx.x / 32 * EXCHANGE;
        index_t places[COLUMNS];
        bool inside[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) {
            const int output = (run - lane) * COLUMNS + (i * 32 + lane);      // of the tile
            const int p = tile.p + output / TILE_Q, q = tile.q + output % TILE_Q;
            inside[i] = p < P && q < Q;
            places[i] = tile.image * K * plane + (index_t)p * Q + q;
        }
#pragma unroll
        for (int f = 0; f < FILTERS; f += 4) {
            const int k_of_four = first_k + (filter_lane + f / 4 * FILTER_LANES) * 4;
            __syncwarp();               // those before are stored
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int q = 0; q < COLUMNS; q += 4) *(float4*)(exchange + (i * 32 + lane) * COLUMNS + q) =
                    make_float4(sums[q][f + i], sums[q + 1][f + i], sums[q + 2][f + i], sums[q + 3][f + i]);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int k = k_of_four + i;
                if (k >= K) continue;
#pragma unroll
                for (int q = 0; q < COLUMNS; ++q) {
                    if (!inside[q]) continue;
                    const float sum = exchange[i * (32 * COLUMNS) + q * 32 + lane];
                    const index_t at = places[q] + k * plane;
                    const float added = residual[at];
                    y[at] = finish(sum, added);
                }
            }
        }
    }
}
