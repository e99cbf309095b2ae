// warpconv 0.1.0: taps_mma, float16. Generated from templates/taps_mma/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,3 --filter 96,11,11 --stride 4,4 --dtype float16 --layout NHWC --arch sm_80 \
//     --algorithm taps_mma \
//     --set tile_p=8 --set tile_q=32 --set filters=32 --set matrices=4 --set warps=4 --set buffers=2 \
//     --set vector=1 --set store_vector=8 --set min_blocks=1
//
// layer  x[N, H, W, 3] * w[96, 3, 11, 11] -> y[N, P, Q, 96], stride 4, padding 0, float16 NHWC
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 8 x 32 outputs x 32 filters, 24 instructions for 363 products, 4 warps a block, one of two versions
//        of the filter stays, 92032 bytes of shared memory
// cost   a warp's 64 outputs of 32 filters: 424 warp loads, 0 shuffles, 24576 FMA a lane, about 171 registers (direct:
//        23232 loads)
//
// A product of matrices on the tensor cores of each warp (mma.sync): windows times filters. A block copies the lines of
// x that its outputs' windows cover to shared memory as they lie there, the next tile's while it multiplies this one's.
// A thread loads pairs of what lies side by side in its windows from there to registers. The filter, in the order of
// these pairs, stays in shared memory.
constexpr int C = 3;                            // channels of x
constexpr int K = 96;                           // channels of y: filters
constexpr int R = 11;                           // filter rows
constexpr int S = 11;                           // filter columns
constexpr int STRIDE_H = 4;                     // input rows from one output to the next
constexpr int STRIDE_W = 4;                     // input columns from one output to the next
constexpr int TILE_P = 8;                       // output rows of a block's tile
constexpr int TILE_Q = 32;                      // output columns of it
constexpr int TILE_FILTERS = 32;                // filters of it
constexpr int FILTER_TILES = 3;                 // tiles of filters, of which a block has one
constexpr int BLOCKS = 4;                       // times eight filters of a tile
constexpr int TOGETHER = 4;                     // of these blocks a lane stores side by side
constexpr int MATRICES = 4;                     // times sixteen outputs, two runs of eight, that a warp has at a time
constexpr int MEMBERS = 4;                      // warps that share out a tile
constexpr int ITEMS = 4;                        // of a tile that they share out
constexpr int APART = 2;                        // columns from one output of a run to the next
constexpr int EACH = 2;                         // runs whose outputs lie between each other's
constexpr int OTHER = 1;                        // columns from a lane's output of a run to that of the next run,
constexpr int BESIDE = 24;                      // and bytes from that window to this one's in shared memory
constexpr int SUMS = 16;                        // sums of a thread, of sixteen outputs
constexpr int WINDOW = 363;                     // products of an output
constexpr int SPAN = 33;                        // of a window's elements that lie side by side in x,
constexpr int SPANS = 11;                       // and such spans of a window
constexpr int DEPTHS = 24;                      // instructions of 16 products: all pairs
constexpr int STEP_DEPTHS = 4;                  // of these a step, a row of a filter in shared memory
constexpr int STEP = 64;                        // products of a step
constexpr int STEPS = 6;                        // of the reduction
constexpr int WHOLE_QUADS = 4;                  // quads of a span: four pairs side by side, one for each of four lanes
constexpr int SPAN_QUADS = 44;                  // quads of all spans,
constexpr int REST_QUADS = 3;                   // quads of pairs that are left of several spans,
constexpr int QUADS = 47;                       // and all
constexpr int ROW_BYTES = 128;                  // of a filter's products of a step
constexpr int VERSIONS = 2;                     // of the filter: for windows that begin at either side of a pair
constexpr int FILTER_BYTES = 24576;             // of all of a tile's
constexpr int PIXEL = 3;                        // elements of a pixel that lie side by side in x
constexpr int LINES = 39;                       // lines of x that are copied for a tile
constexpr int LINE = 424;                       // elements from one to the next in shared memory, at least
constexpr int PIECES = 52;                      // copies of a line: of 16 bytes,
constexpr int PIECE_LANES = 32;                 // by so many threads,
constexpr int PIECE_ROUNDS = 2;                 // so often
constexpr int HALO = 16864;                     // elements of a tile's pixels there
constexpr int HALOS_AT = 24576;                 // bytes before the pixels
constexpr int COPIERS = 4;                      // warps that copy pixels: all
constexpr int THREADS = 128;                    // threads of a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
constexpr int IMAGE = 147456;                   // elements of the prepared filter; behind them it is as it was given
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using count_t = unsigned;                       // of tiles
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// A tile of outputs: its image and its first row and column.
struct Tile { index_t image; int p, q; };

__device__ __forceinline__ Tile tile_of(count_t number, unsigned tiles_p, unsigned tiles_q) {
    const count_t row = number / tiles_q;
    return {(index_t)(row / tiles_p), (int)(row % tiles_p) * TILE_P, (int)(number % tiles_q) * TILE_Q};
}

// The tiles of a block: of every image, or, where the windows of every second one begin at the other side of a pair, of
// these or of the others, so that a block needs one version of the filter. There are at least two blocks.
struct Share {
    count_t first, step, tiles;     // numbers of tiles, counted over its images
    int image, images;              // the first of these, and from one to the next
};

__device__ __forceinline__ Share share_of(int N, bool odd_images, count_t of_image) {
    if (!odd_images || N == 1) return {blockIdx.x, gridDim.x, N * of_image, 0, 1};
    const unsigned even = (N + 1) / 2,
        blocks = min(max((unsigned)((unsigned long long)gridDim.x * even / N), 1u), gridDim.x - 1);
    if (blockIdx.x < blocks) return {blockIdx.x, blocks, even * of_image, 0, 2};
    return {blockIdx.x - blocks, gridDim.x - blocks, (N - even) * of_image, 1, 2};
}

__device__ __forceinline__ Tile tile_of(const Share& share, count_t number, unsigned tiles_p, unsigned tiles_q) {
    Tile tile = tile_of(number, tiles_p, tiles_q);
    tile.image = share.image + tile.image * share.images;
    return tile;
}

// Lines of x begin anywhere. In shared memory each is as far into 16 bytes as it is in x, so that it is copied by 16
// bytes.
struct Pitch { int line; };     // elements from a line to the next

__device__ __forceinline__ Pitch pitch_of(int W) { return {LINE + (W * PIXEL & 7)}; }

// How far into 16 bytes the first element is that a tile's windows cover.
__device__ __forceinline__ int start_of(const Tile& tile, int H, int W) {
    const index_t row = tile.image * H + tile.p * STRIDE_H;
    return (int)((row * W + tile.q * STRIDE_W) * PIXEL & 7);
}

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Eight elements of a line, some of which stand outside of the image.
__device__ __forceinline__ void copy_edge(element* to, const element* line, int first, bool reached, int W) {
    element elements[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int at = first + i;
        elements[i] = reached && (unsigned)at < (unsigned)(W * PIXEL) ? __ldg(line + at) : (element)0u;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = elements[i];
}

// The pixels that a tile's windows cover, and what stands outside of the image, by all threads that copy.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, const Tile& tile, int thread, int N, int H,
        int W, Pitch pitch) {
    const int top = tile.p * STRIDE_H, left = (tile.q * STRIDE_W) * PIXEL;
    const int start = start_of(tile, H, W);
#pragma unroll 1
    for (int line = thread / PIECE_LANES; line < LINES; line += COPIERS * 32 / PIECE_LANES) {
        const int h = top + line;
        const bool reached = (unsigned)h < (unsigned)H;
        // nothing that stands before a line or behind it is used: the elements of the lines beside it may come along
        const bool last = h + 1 == H && tile.image + 1 == N;
        const int end = W * PIXEL + (last || W * PIXEL < 7 ? 0 : 7);
        const element* const from = x + (tile.image * H + h) * (W * PIXEL);
        const int at = start + line * pitch.line;        // where `left` lies in shared memory
        element* const line_to = to + (at & ~7);
#pragma unroll
        for (int round = 0; round < PIECE_ROUNDS; ++round) {
            const int piece = round * PIECE_LANES + thread % PIECE_LANES;
            const int first = left - (at & 7) + piece * 8;
            element* const piece_to = line_to + piece * 8;
            if (piece >= PIECES) continue;
            if (reached && first + 8 <= end) wc_copy_async_16(piece_to, from + first);
            else if (!reached || first <= -8 || first >= W * PIXEL) *(uint4*)piece_to = make_uint4(0u, 0u, 0u, 0u);
            else copy_edge(piece_to, from, first, reached, W);
        }
    }
}

// The span and the pair in it that a lane has of a quad: four pairs side by side, or four of what is left of spans.
// Behind the last pair there are none: SPANS.
struct Pair { int span, number; };

__device__ __forceinline__ Pair pair_of(int quad, int lane) {
    if (quad < SPAN_QUADS) return {quad / WHOLE_QUADS, quad % WHOLE_QUADS * 4 + lane % 4};
    const int left = (quad - SPAN_QUADS) * 4 + lane % 4;
    return {min(left, SPANS), WHOLE_QUADS * 4};
}

// Elements from where a window begins to where one of its spans does.
__device__ __forceinline__ int span_at(int span, Pitch pitch) { return span * pitch.line; }

// Where a pair of what is left lies in shared memory, in bytes from this lane's first pair of the window.
// Behind the last one, where weights are zeros, the window's first.
__device__ __forceinline__ int place_of(int quad, int lane, Pitch pitch, int start_side) {
    const Pair pair = pair_of(quad, lane);
    if (pair.span == SPANS) return lane % 4 * -4;
    return (span_at(pair.span, pitch) + start_side) / 2 * 4 + (pair.number - lane % 4) * 4;
}

// The output of a tile that a lane has of a run: runs are counted over all rows.
struct Output { int row, column; };

__device__ __forceinline__ Output output_of(int run, int lane) {
    const int place = run / EACH * (8 * APART) + run % EACH + lane / 4 * APART, row = place / TILE_Q;
    return {row, place % TILE_Q};
}

// Where the window of an output of a tile begins in shared memory, for this lane.
__device__ __forceinline__ int window_at(Output output, int lane, int start, Pitch pitch) {
    return (start + output.row * (STRIDE_H * pitch.line) + output.column * (STRIDE_W * PIXEL)) / 2 * 4 + lane % 4 * 4;
}

// A lane's factors of a step: pairs of two windows, as the tensor cores take them.
__device__ __forceinline__ void load_factors(unsigned (&factors)[STEP_DEPTHS][4], const unsigned char* halo, int upper,
        const int (&places)[REST_QUADS], int step, Pitch pitch, int start_side) {
#pragma unroll
    for (int i = 0; i < 2 * STEP_DEPTHS; ++i) {
        const int quad = step * (2 * STEP_DEPTHS) + i;
        unsigned of_upper = 0u, of_lower = 0u;          // behind the last quad
        if (quad < SPAN_QUADS) {
            const int span = (span_at(quad / WHOLE_QUADS, pitch) + start_side) / 2 * 4,
                of_span = quad % WHOLE_QUADS * 16;
            of_upper = *(const unsigned*)(halo + upper + span + of_span);
            of_lower = *(const unsigned*)(halo + upper + span + of_span + BESIDE);
        }
        else if (quad < QUADS) {
            const int place = places[quad - SPAN_QUADS];
            of_upper = *(const unsigned*)(halo + upper + place);
            of_lower = *(const unsigned*)(halo + upper + place + BESIDE);
        }
        factors[i / 2][i % 2 * 2] = of_upper;
        factors[i / 2][i % 2 * 2 + 1] = of_lower;
    }
}

// Sums of eight filters of sixteen outputs: sixteen products more.
__device__ __forceinline__ void multiply(float* sums, const unsigned (&factors)[4], unsigned low, unsigned high) {
    float4 added = make_float4(sums[0], sums[1], sums[2], sums[3]);
    wc_mma_halves_16(added, factors[0], factors[1], factors[2], factors[3], low, high);
    sums[0] = added.x;
    sums[1] = added.y;
    sums[2] = added.z;
    sums[3] = added.w;
}

// The sums of a warp's outputs and all filters of the tile. Rows of filters come from shared memory once for all its
// outputs; lane l gives the address of a row of matrix l / 8 of four: two cells each of sixteen filters.
__device__ __forceinline__ void sum_up(float (&sums)[MATRICES][SUMS], const unsigned char* halo,
        const int (&upper)[MATRICES], const int (&places)[REST_QUADS], const unsigned char* filters, int lane,
        Pitch pitch, int start_side) {
    const unsigned char* const row = filters + (lane / 16 * 8 + lane % 8) * ROW_BYTES;
#pragma unroll
    for (int m = 0; m < MATRICES; ++m)
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[m][i] = 0.0f;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        unsigned factors[MATRICES][STEP_DEPTHS][4];
#pragma unroll
        for (int m = 0; m < MATRICES; ++m) load_factors(factors[m], halo, upper[m], places, step, pitch, start_side);
#pragma unroll
        for (int depth = 0; depth < STEP_DEPTHS; ++depth) {
            if (step * STEP_DEPTHS + depth >= DEPTHS) continue;
            const unsigned char* const cell = row + step * (TILE_FILTERS * ROW_BYTES)
                + ((depth * 2 + lane / 8 % 2) ^ lane % 8) * 16;
#pragma unroll
            for (int n = 0; n < BLOCKS; n += 2) {
                unsigned of_filters[4];
                wc_load_matrices_4(of_filters[0], of_filters[1], of_filters[2], of_filters[3],
                    cell + n * (8 * ROW_BYTES));
#pragma unroll
                for (int m = 0; m < MATRICES; ++m) {
                    multiply(sums[m] + 4 * n, factors[m][depth], of_filters[0], of_filters[1]);
                    multiply(sums[m] + 4 * n + 4, factors[m][depth], of_filters[2], of_filters[3]);
                }
            }
        }
    }
}

// The first of a lane's two filters of a block of eight columns of the product: those of 4 blocks lie side by side.
__device__ __forceinline__ int filter_of(int block, int lane) {
    return block / TOGETHER * (8 * TOGETHER) + lane % 4 * (2 * TOGETHER) + block % TOGETHER * 2;
}

__device__ __forceinline__ float4 four_of(const float (&sums)[SUMS], int block) {
    return make_float4(sums[4 * block], sums[4 * block + 1], sums[4 * block + 2], sums[4 * block + 3]);
}

__device__ __forceinline__ void put_four(float (&sums)[SUMS], int block, float4 four) {
    sums[4 * block] = four.x, sums[4 * block + 1] = four.y, sums[4 * block + 2] = four.z, sums[4 * block + 3] = four.w;
}

__device__ __forceinline__ bool is_finite(float sum) { return fabsf(sum) <= 3.402823466e38f; }

// Zero, or NaN where one of four sums is not finite.
__device__ __forceinline__ float zero_of(float4 sums) {
    return fmaf(sums.x, 0.0f, sums.y * 0.0f) + fmaf(sums.z, 0.0f, sums.w * 0.0f);
}

// The blocks of a warp's sums in which some are not finite, a bit each.
__device__ __forceinline__ unsigned blocks_to_mend(const float (&sums)[SUMS]) {
    float zero = 0.0f, other = 0.0f;            // NaN stays NaN
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        const float4 four = four_of(sums, block);
        zero = fmaf(four.x, 0.0f, fmaf(four.y, 0.0f, zero));
        other = fmaf(four.z, 0.0f, fmaf(four.w, 0.0f, other));
    }
    unsigned blocks = 0u;
    if (__all_sync(0xffffffffu, zero + other == 0.0f)) return blocks;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        blocks |= (unsigned)__any_sync(0xffffffffu, zero_of(four_of(sums, block)) != 0.0f) << block;
    return blocks;
}

// A lane's sums of a block. Registers have no index: every block is asked whether it is wanted.
__device__ __forceinline__ float4 sums_of(const float (&sums)[SUMS], int wanted) {
    float4 found = {};
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
        if (block == wanted) found = four_of(sums, block);
    return found;
}

__device__ __forceinline__ void set_sums(float (&sums)[SUMS], int wanted, float4 to) {
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
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

// An element of the window of output (p, q) of an image, as a float.
__device__ __forceinline__ float load_element(const element* x, index_t image, int p, int q, int channel, int r, int s,
        int H, int W) {
    const int h = p * STRIDE_H + r, w = q * STRIDE_W + s;
    const bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    return wc_half_to_float(inside ? __ldg(x + ((image * H + h) * W + w) * C + channel) : (element)0);
}

// Sums of two outputs and of filters k and k + 1 by float32 units: of those that are not finite; the others stay.
__device__ __forceinline__ float4 made_anew(float4 sums, const element* x, const element* filter, index_t image, int p,
        int q, int other_p, int other_q, int k, int H, int W) {
    const element* const first = filter + IMAGE + (long long)min(k, K - 1) * WINDOW;
    const element* const second = filter + IMAGE + (long long)min(k + 1, K - 1) * WINDOW;
    float4 anew = {};
#pragma unroll 1
    for (int number = 0; number < WINDOW; ++number) {
        const int channel = number / (R * S), r = number / S % R, s = number % S;
        const float upper = load_element(x, image, p, q, channel, r, s, H, W),
            lower = load_element(x, image, other_p, other_q, channel, r, s, H, W);
        add_products(anew, upper, lower, wc_half_to_float(__ldg(first + number)),
            wc_half_to_float(__ldg(second + number)));
        if (number % 16 == 15 && are_settled(sums, anew)) break;
    }
    return mended(sums, anew);
}

// Zeros beside a window times infinities and NaN: sums that are not finite are made anew.
__device__ __forceinline__ void mend(float (&sums)[SUMS], const element* x, const element* filter, index_t image, int p,
        int q, int other_p, int other_q, int first_k, int lane, int P, int Q, int H, int W) {
#pragma unroll 1
    for (unsigned blocks = blocks_to_mend(sums); blocks != 0u; blocks &= blocks - 1u) {
        const int block = __ffs(blocks) - 1, k = first_k + filter_of(block, lane);
        const float4 wanted =
            existing(sums_of(sums, block), p < P && q < Q, other_p < P && other_q < Q, k < K, k + 1 < K);
        set_sums(sums, block,
            made_anew(wanted, x, filter, image, min(p, P - 1), min(q, Q - 1), min(other_p, P - 1), min(other_q, Q - 1),
            k, H, W));
    }
}

// The filter as shared memory has it: [pattern][tile of filters][version][step][filter][products], cells of 16 bytes in
// the order in which the tensor cores look for them, zeros in what pairs have beside a window; then as it was. Once for
// each filter, before the first call.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < IMAGE + K * WINDOW; i += gridDim.x * SIDE_THREADS) {
        if (i >= IMAGE) {
            filter[i] = w[i - IMAGE];
            continue;
        }
        const int column = i % STEP, row = i / STEP % TILE_FILTERS, step = i / (STEP * TILE_FILTERS) % STEPS;
        const int version = i / (STEP * TILE_FILTERS * STEPS) % VERSIONS;
        const int pattern = i / (STEP * TILE_FILTERS * STEPS * VERSIONS * FILTER_TILES);
        const int first_k = i / (STEP * TILE_FILTERS * STEPS * VERSIONS) % FILTER_TILES * TILE_FILTERS;
        // so that what a lane stores lies side by side
        const int k = first_k + filter_of(row / 8, row % 8 / 2) + row % 2;
        const Pair pair = pair_of((step * STEP + column) / 8, column / 2 % 4);
        const int span = pair.span;
        // the side of a pair at which the span begins
        int side = version;
        if (pattern > 0) side += span;
        const int of_span = pair.number * 2 + column % 2 - side % 2;
        const bool exists = k < K && span < SPANS && (unsigned)of_span < (unsigned)SPAN;
        const int place = i - column + (column / 8 ^ row % 8) * 8 + column % 8;
        filter[place] = exists ? w[k * WINDOW + of_span % C * (R * S) + span * S + of_span / C] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
taps_mma_11x11(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    extern __shared__ __align__(128) unsigned char shared[];
    element* const halos = (element*)(shared + HALOS_AT);
    const unsigned tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const int first_k = blockIdx.y * TILE_FILTERS;
    const Share share = share_of(N, H & W & PIXEL & 1, (count_t)tiles_p * tiles_q);
    if (share.first >= share.tiles) return;
    const Pitch pitch = pitch_of(W);
    const bool odd_lines = W * PIXEL & 1;
    const int pattern = odd_lines;
    // the side of a pair at which its windows begin, and of the filter's versions the one for it
    const int start_side = start_of(tile_of(share, share.first, tiles_p, tiles_q), H, W) & 1;
    // the filter, for all tiles
    const element* const of_tile = filter
        + ((pattern * FILTER_TILES + blockIdx.y) * 2 + start_side) * (FILTER_BYTES / 2);
    for (int i = threadIdx.x; i < FILTER_BYTES / 16; i += THREADS) wc_copy_async_16(shared + i * 16, of_tile + i * 8);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int places[REST_QUADS];
#pragma unroll
    for (int i = 0; i < REST_QUADS; ++i) places[i] = place_of(SPAN_QUADS + i, lane, pitch, start_side);
    copy_pixels(halos, x, tile_of(share, share.first, tiles_p, tiles_q), threadIdx.x, N, H, W, pitch);
    wc_copy_async_commit();
    int buffer = 0;
    for (count_t number = share.first; number < share.tiles; number += share.step) {
        const Tile tile = tile_of(share, number, tiles_p, tiles_q);
        const unsigned char* const halo = (const unsigned char*)(halos + buffer * HALO);
        buffer ^= 1;
        const count_t next = number + share.step;
        if (next < share.tiles) copy_pixels(halos + buffer * HALO, x, tile_of(share, next, tiles_p, tiles_q),
            threadIdx.x, N, H, W, pitch);
        wc_copy_async_commit();
        wc_copy_async_wait_group();
        const int start = start_of(tile, H, W);
        __syncthreads();
#pragma unroll 1
        for (int item = warp; item < ITEMS; item += MEMBERS) {
            const int first_run = item * (2 * MATRICES);
            float of_outputs[MATRICES][SUMS];
            {
                int upper[MATRICES];
#pragma unroll
                for (int m = 0; m < MATRICES; ++m) {
                    upper[m] = window_at(output_of(first_run + 2 * m, lane), lane, start, pitch);
                }
                sum_up(of_outputs, halo, upper, places, shared, lane, pitch, start_side);
            }
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
                float (&sums)[SUMS] = of_outputs[m];
                const Output output = output_of(first_run + 2 * m, lane),
                    other_output = {output.row, output.column + OTHER};
                const int p = tile.p + output.row, other_p = tile.p + other_output.row;
                const int q = tile.q + output.column, other_q = tile.q + other_output.column;
                mend(sums, x, filter, tile.image, p, q, other_p, other_q, first_k, lane, P, Q, H, W);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int of_p = half ? other_p : p, of_q = half ? other_q : q;
                    const bool inside = of_p < P && of_q < Q;
                    const index_t pixel = ((tile.image * P + of_p) * Q + of_q) * K;
#pragma unroll
                    for (int n = 0; n < BLOCKS; n += TOGETHER) {
                        const int k = first_k + filter_of(n, lane);
                        if (!inside || k >= K) continue;
                        unsigned words[TOGETHER];
#pragma unroll
                        for (int i = 0; i < TOGETHER; ++i) {
                            const float* const pair = sums + 4 * (n + i) + 2 * half;
                            words[i] = wc_floats_to_halves(pair[0], pair[1]);
                        }
                        *(uint4*)(y + pixel + k) = make_uint4(words[0], words[1], words[2], words[3]);
                    }
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
