// warpconv 0.1.0: toeplitz_float32, float32. Generated from templates/toeplitz_float32/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,9,9 --precision fp16x3 --arch sm_90 --algorithm toeplitz_float32 \
//     --set tiles=2 --set warp_columns=1 --set vector=4 --set store_vector=2 --set sub_block_rows=64 \
//     --set images=1 --set min_blocks=4
//
// layer  x[N, 1, H, W] * w[1, 1, 9, 9] -> y[N, 1, P, Q], stride 1, padding 0, float32, fp16x3 products
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 2); all else is a constant of the text
// plan   2 tiles of 16 x 8 outputs a warp, 1 warps side by side; sub-blocks of 64 rows, 16 at a time; factors in two
//        parts of float16, 4 elements a load
// cost   16 rows x 16 columns, 54 matrix instructions: 16 warp loads, 0 shuffles, 0 FMA a lane, about 142 registers
//        (direct: 648 loads)
// note   three products of float16 for one of float32; 56 % of them are the filter's, the others are with zeros
// note   tiles with what is not finite, or with sums about 2^27 below what the largest pixels of their rows would give,
//        are made anew by float32 units
// note   4912 bytes of shared memory a block
//
// A warp makes tiles of 16 output rows by 8 columns with matrix instructions: input rows as they lie in shared memory
// times a banded matrix of a filter row, T[k][n] = w[r][k - n], in blocks of eight input columns. Both factors are
// scaled by powers of two and split into two parts of float16, of whose four products three are made: as exact as
// float32 units.
constexpr int R = 9;                            // filter rows
constexpr int S = 9;                            // filter columns
constexpr int SPAN = 16;                        // output columns of a block
constexpr int WARP_SPAN = 16;                   // output columns of a warp
constexpr int WARPS = 1;                        // warps of a block, side by side
constexpr int THREADS = 32;                     // threads of a block
constexpr int SUB_ROWS = 64;                    // output rows of a block
constexpr int IMAGES = 1;                       // images of a job, one after the other
constexpr int TILE_ROWS = 16;                   // output rows of a tile
constexpr int HALF_TILE = TILE_ROWS / 2;        // rows of a tile to the second row of a lane
constexpr int WHOLE_ROWS = 8;                   // filter rows in whole eights, by which sums are made anew
constexpr int TILE_COLUMNS = 8;                 // output columns of a tile, and of a block of the banded matrix
constexpr int RING = 24;                        // rows of a patch
constexpr int COLUMNS = 24;                     // columns of a patch: of high parts, then as many low ones
constexpr int PITCH = 56;                       // elements from one row of a patch to the next
constexpr int ROW_LOADS = 1;                    // loads of a thread for one row of a patch
constexpr int ROWS_AT_ONCE = 8;                 // rows that a warp has on their way
constexpr int COPY_WORDS = 12;                  // words of a padded filter row
constexpr int ROW_WORDS = 24;                   // words of its two copies
// words from one block of eight columns to the next, in a padded filter row
constexpr int BLOCK_WORDS = 4;
constexpr int FILTER_WORDS = 216;               // words of a filter's high parts; its low ones come after them
constexpr int SCALES_AT = 2688;                 // bytes of shared memory: where the scales of a patch's rows are,
constexpr int LIMITS_AT = 2880;                 // what sums must not lie below where pixels of these lose digits,
constexpr int FILTER_AT = 3072;                 // both parts of the filter,
constexpr int FILTER_SCALES_AT = 4800;          // the scales of its rows,
constexpr int RANGES_AT = 4840;                 // and what is known of them
constexpr unsigned KEPT_DIGITS = 27u;           // that a pixel or weight may be below its row's largest without a loss
// of a row's largest: what lost digits may add up to over its taps, times 2^23
constexpr float LOST = 6.705522537231445e-08f;
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// parts of floats
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }
// tensor cores
__device__ __forceinline__ void wc_load_matrices_4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const void* row) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"((unsigned)__cvta_generic_to_shared(row))); }
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The exponent field of the scale that brings a largest magnitude to 2^14 and more, below 2^15: at most that of 2^126,
// with which subnormal floats become whole multiples of a half's least.
__device__ __forceinline__ unsigned scale_exponent(unsigned largest) { return min(268u - (largest >> 23), 253u); }

// What takes a scale back, times 2^36, so that sums of the least floats are not subnormal; infinite where there is no
// room for that.
__device__ __forceinline__ float restoring(unsigned exponent) {
    return __uint_as_float(min(290u - exponent, 255u) << 23);
}

// The low parts of two floats that are scaled already, times 2^11, as a word.
__device__ __forceinline__ unsigned low_parts(float first, float second, unsigned high) {
    return wc_floats_to_halves((first - wc_half_low_to_float(high)) * 2048.0f,
        (second - wc_half_high_to_float(high)) * 2048.0f);
}

// The bits of the largest magnitude of some floats, without NaN, and of the least one that is not zero, doubled, less
// one.
struct Range {
    float largest;
    unsigned least;

    __device__ __forceinline__ void include(float value) {
        largest = fmaxf(largest, fabsf(value));
        least = min(least, __float_as_uint(value) * 2u - 1u);
    }

    __device__ __forceinline__ uint2 of_warp() const {
        return make_uint2(__reduce_max_sync(0xffffffffu, __float_as_uint(largest)),
            __reduce_min_sync(0xffffffffu, least));
    }
};

// Whether the least lies so little below the largest, by exponents, that it keeps its digits beside it; a power of two
// counts as the one below.
__device__ __forceinline__ bool is_kept(uint2 range) { return (range.y >> 24) + KEPT_DIGITS >= range.x >> 23; }

// A lane's elements of a row of the patch, whose first column is `first_column` of the image: every 32nd group of four.
__device__ __forceinline__ void load_row(float4 (&row)[ROW_LOADS], const float* x_plane, int h, int first_column,
        int lane, int H, int W) {
    const bool reached = (unsigned)h < (unsigned)H;
    const float* const from = x_plane + (index_t)h * W;
#pragma unroll
    for (int i = 0; i < ROW_LOADS; ++i) {
        const int place = (i * 32 + lane) * 4, at = first_column + place;
        row[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (place < COLUMNS && reached && (unsigned)at < (unsigned)W) row[i] = __ldg((const float4*)(from + at));
    }
}

// Splits a row, and leaves its parts in the patch and what takes its scale back beside it; so, too, where some pixel
// lies so far below the largest that digits are lost, below what a sum must not lie for them to matter, for each unit
// of weight.
__device__ __forceinline__ void split_row(unsigned short* to, float* scale_of_row, float* limit_of_row,
        const float4 (&row)[ROW_LOADS], int lane) {
    Range range = {0.0f, 0xffffffffu};
#pragma unroll
    for (int i = 0; i < ROW_LOADS; ++i) {
        range.include(row[i].x);
        range.include(row[i].y);
        range.include(row[i].z);
        range.include(row[i].w);
    }
    const uint2 of_row = range.of_warp();
    const unsigned exponent = scale_exponent(of_row.x);
    const float scale = __uint_as_float(exponent << 23);
    if (lane == 0) {
        scale_of_row[0] = scale_of_row[RING] = restoring(exponent);
        limit_of_row[0] = limit_of_row[RING] = is_kept(of_row) ? 0.0f : __uint_as_float(of_row.x) * LOST;
    }
#pragma unroll
    for (int i = 0; i < ROW_LOADS; ++i) {
        const int at = (i * 32 + lane) * 4;
        if (at >= COLUMNS) continue;
        const float value_x = row[i].x * scale, value_y = row[i].y * scale;
        const unsigned high_0 = wc_floats_to_halves(value_x, value_y);
        const float value_z = row[i].z * scale, value_w = row[i].w * scale;
        const unsigned high_1 = wc_floats_to_halves(value_z, value_w);
        *(uint2*)(to + at) = make_uint2(high_0, high_1);
        *(uint2*)(to + at + COLUMNS) =
            make_uint2(low_parts(value_x, value_y, high_0), low_parts(value_z, value_w, high_1));
    }
}

// Some rows of the patch, from row `h` of the image and place `place` of the ring on, by all warps of the block.
__device__ __forceinline__ void split_rows(unsigned short* patch, float* scales, float* limits, const float* x_plane,
        int h, int place, int rows, int first_column, int H, int W) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
    for (int row = warp; row < rows; row += ROWS_AT_ONCE) {
        float4 loaded[ROWS_AT_ONCE][ROW_LOADS];
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; ++i)
            if (row + i < rows) load_row(loaded[i], x_plane, h + row + i, first_column, lane, H, W);
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; ++i) {
            const int at = place + row + i < RING ? place + row + i : place + row + i - RING;
            if (row + i < rows) split_row(patch + at * PITCH, scales + at, limits + at, loaded[i], lane);
        }
    }
}

// What the tensor cores have added up, to a tile's sums: they cut their sums, so those of a filter row begin at zero.
// The small products are those of a low part, which is times 2^11; the scale is that of both factors' rows taken back.
__device__ __forceinline__ void add_parts(float4& sum, const float4& large, const float4& small, float scale_top,
        float scale_bottom) {
    sum.x = fmaf(fmaf(small.x, 4.8828125e-4f, large.x), scale_top, sum.x);
    sum.y = fmaf(fmaf(small.y, 4.8828125e-4f, large.y), scale_top, sum.y);
    sum.z = fmaf(fmaf(small.z, 4.8828125e-4f, large.z), scale_bottom, sum.z);
    sum.w = fmaf(fmaf(small.w, 4.8828125e-4f, large.w), scale_bottom, sum.w);
}

// Sums with the filter's scale taken back, and the 2^36 of the rows'.
__device__ __forceinline__ float4 restored(float4 sum, float scale) {
    return make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale);
}

__device__ __forceinline__ bool is_finite(float4 sum) {
    return fabsf(sum.x) <= 3.402823466e38f && fabsf(sum.y) <= 3.402823466e38f && fabsf(sum.z) <= 3.402823466e38f
        && fabsf(sum.w) <= 3.402823466e38f;
}

__device__ __forceinline__ bool is_above(float4 sum, float limit_top, float limit_bottom) {
    return fminf(fabsf(sum.x), fabsf(sum.y)) >= limit_top && fminf(fabsf(sum.z), fabsf(sum.w)) >= limit_bottom;
}

// The pixel at row `h` and `column` of the padded image.
__device__ __forceinline__ float pixel_at(const float* x_plane, int h, int column, int H, int W) {
    return (unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W ? __ldg(x_plane + (index_t)h * W + column)
        : 0.0f;
}

// Adds the products of `rows` filter rows from `r` on, of one column of the filter, to the sums of HALF_TILE output
// rows from `p` on. Pixels stay in registers: that of output row i and filter row r + j is pixel[(i + j) % HALF_TILE].
__device__ __forceinline__ void add_rows(float (&sum)[HALF_TILE], float (&pixel)[HALF_TILE], const float* x_plane,
        const float* w_column, int p, int column, int r, int rows, int H, int W) {
#pragma unroll
    for (int j = 0; j < HALF_TILE; ++j) {
        if (j < rows) {
            pixel[(j + HALF_TILE - 1) % HALF_TILE] = pixel_at(x_plane, p + r + j + HALF_TILE - 1, column, H, W);
            const float weight = __ldg(w_column + (r + j) * S);
#pragma unroll
            for (int i = 0; i < HALF_TILE; ++i) sum[i] = fmaf(pixel[(i + j) % HALF_TILE], weight, sum[i]);
        }
    }
}

// The sums of HALF_TILE output rows of this lane's column by float32 units, one column of the filter after the other.
__device__ __forceinline__ void sums_of(float (&sum)[HALF_TILE], const float* x_plane, const float* w_plane, int p,
        int q, int H, int W, int Q) {
#pragma unroll
    for (int i = 0; i < HALF_TILE; ++i) sum[i] = 0.0f;
#pragma unroll 1
    for (int s = 0; s < S; ++s) {
        const int column = q + s;
        float pixel[HALF_TILE];
#pragma unroll
        for (int i = 0; i < HALF_TILE - 1; ++i) pixel[i] = pixel_at(x_plane, p + i, column, H, W);
#pragma unroll 1
        for (int r = 0; r < WHOLE_ROWS;
            r += HALF_TILE) add_rows(sum, pixel, x_plane, w_plane + s, p, column, r, HALF_TILE, H, W);
        add_rows(sum, pixel, x_plane, w_plane + s, p, column, WHOLE_ROWS, R - WHOLE_ROWS, H, W);
        // where a mask of NaN covers the windows nothing that follows changes them
        bool settled = true;
#pragma unroll
        for (int i = 0; i < HALF_TILE; ++i) settled = settled && sum[i] != sum[i];
        if (__all_sync(0xffffffffu, settled || q >= Q)) break;
    }
}

extern "C" __global__ void __launch_bounds__(32, 4)
toeplitz_float32_9x9(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H,
        int W, int P, int Q) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned short* const patch = (unsigned short*)shared;
    float* const scales = (float*)(shared + SCALES_AT);
    float* const limits = (float*)(shared + LIMITS_AT);
    unsigned* const filter = (unsigned*)(shared + FILTER_AT);
    float* const filter_scales = (float*)(shared + FILTER_SCALES_AT);
    unsigned* const ranges = (unsigned*)(shared + RANGES_AT);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int pair = lane % 4, tile_row = lane / 4;           // of a tile's sums this lane has two columns, in two rows
    // the row whose address this lane gives to ldmatrix, of a block of columns or, in the upper half, of the next one
    const unsigned short* const in = patch + warp * WARP_SPAN + lane / TILE_ROWS * TILE_COLUMNS;
    const int in_row = lane % TILE_ROWS;
    // column lane / 4 of a block of the banded matrix: its rows 2 * pair and the next
    const unsigned* const filter_words = filter + (7 - tile_row) % 2 * COPY_WORDS + (2 * pair + 7 - tile_row) / 2;
    // this lane's first output column
    const int q_first = blockIdx.x * SPAN, q = q_first + warp * WARP_SPAN + pair * 2;
    // a job is a filter plane, with several images in turn
    const index_t jobs = (index_t)N;
    for (index_t job = blockIdx.z; job < jobs; job += gridDim.z) {
        const int n_first = (int)job, n_end = min(N, n_first + IMAGES);
        const float* const w_plane = w;
        __syncthreads();                                      // all have used what was there before
        // the largest magnitudes of the filter's rows
        for (int r = warp; r < R; r += WARPS) {
            Range range = {0.0f, 0xffffffffu};
            for (int s = lane; s < S; s += 32) {
                const float weight = __ldg(w_plane + r * S + s);
                range.include(fabsf(weight) <= 3.402823466e38f ? weight : __uint_as_float(0x7f800000u));
            }
            const uint2 of_row = range.of_warp();
            if (lane == 0) ranges[r] = of_row.x;
        }
        __syncthreads();
        unsigned largest_weight = 0u;
        for (int r = 0; r < R; ++r) {
            largest_weight = max(largest_weight, ranges[r]);
        }
        const unsigned filter_exponent = scale_exponent(largest_weight);
        // the 2^36 of the pixels' scales, too; NaN, so that all sums are made anew, where there is no room for that,
        // and where a weight is not finite
        const bool has_room = filter_exponent < 218u && largest_weight < 0x7f800000u;
        const float filter_restoring = has_room ? __uint_as_float((218u - filter_exponent) << 23)
            : largest_weight == 0u ? 0.0f : __uint_as_float(0x7fffffffu);
        // both parts of the filter's rows between zeros, once from each even and once from each odd element on; each
        // row has its own scale
        for (int i = threadIdx.x; i < FILTER_WORDS; i += THREADS) {
            const int r = i / ROW_WORDS, s = i % ROW_WORDS % COPY_WORDS * 2 + i % ROW_WORDS / COPY_WORDS - 7;
            const unsigned exponent = min(scale_exponent(ranges[r]), filter_exponent + 30u);
            const float scale = __uint_as_float(exponent << 23);
            const float first_weight = (unsigned)s < (unsigned)S ? __ldg(w_plane + r * S + s) * scale : 0.0f;
            const float second_weight = (unsigned)(s + 1) < (unsigned)S ? __ldg(w_plane + r * S + s + 1) * scale : 0.0f;
            const unsigned high = wc_floats_to_halves(first_weight, second_weight);
            filter[i] = high;
            filter[i + FILTER_WORDS] = low_parts(first_weight, second_weight, high);
            if (i % ROW_WORDS == 0) filter_scales[r] = __uint_as_float((127u + filter_exponent - exponent) << 23);
        }
        for (int n = n_first; n < n_end; ++n) {
            const float* const x_plane = x + (index_t)n * ((index_t)H * W);
            float* const y_plane = y + (index_t)n * ((index_t)P * Q);
            for (int sub_block = blockIdx.y; sub_block < (P + SUB_ROWS - 1) / SUB_ROWS; sub_block += gridDim.y) {
                const int p_first = sub_block * SUB_ROWS, p_end = min(P, p_first + SUB_ROWS);
                int h = p_first;                                  // the next input row to be split
                int first = 0;                                    // place of the tiles' first input row
                // all have used the rows before, and the filter is there
                __syncthreads();
                split_rows(patch, scales, limits, x_plane, h, 0, RING, q_first, H, W);
                h += RING;
#pragma unroll 1
                for (int p_tile = p_first; p_tile < p_end; p_tile += TILE_ROWS) {
                    __syncthreads();                              // these tiles' rows are there
                    float4 sum_t0 = {}, sum_t1 = {};
                    const float* const first_scales = scales + first + tile_row;
                    int place = first + in_row;               // in the ring, of the row whose address this lane gives
                    place = place < RING ? place : place - RING;
#pragma unroll 1
                    for (int r = 0; r < R; ++r) {
                        const unsigned* const words = filter_words + r * ROW_WORDS;
                        const unsigned filter_high_b0 = words[0], filter_low_b0 = words[FILTER_WORDS],
                            filter_high_b1 = words[BLOCK_WORDS], filter_low_b1 = words[FILTER_WORDS + BLOCK_WORDS];
                        const float scale_top = first_scales[r] * filter_scales[r],
                            scale_bottom = first_scales[r + HALF_TILE] * filter_scales[r];
                        unsigned high_0[4], low_0[4];
                        unsigned high_1[4], low_1[4];
                        const unsigned short* const in_r = in + place * PITCH;
                        place = place + 1 < RING ? place + 1 : 0;
                        {
                            wc_load_matrices_4(high_0[0], high_0[1], high_0[2], high_0[3], in_r);
                            wc_load_matrices_4(low_0[0], low_0[1], low_0[2], low_0[3], in_r + COLUMNS);
                            wc_load_matrices_4(high_1[0], high_1[1], high_1[2], high_1[3], in_r + TILE_COLUMNS);
                            wc_load_matrices_4(low_1[0], low_1[1], low_1[2], low_1[3], in_r + TILE_COLUMNS + COLUMNS);
                            float4 large_t0 = {}, small_t0 = {}, large_t1 = {}, small_t1 = {};
                            wc_mma_halves_16(small_t0, low_0[0], low_0[1], low_0[2], low_0[3], filter_high_b0,
                                filter_high_b1);
                            wc_mma_halves_16(small_t1, low_1[0], low_1[1], low_1[2], low_1[3], filter_high_b0,
                                filter_high_b1);
                            wc_mma_halves_16(large_t0, high_0[0], high_0[1], high_0[2], high_0[3], filter_high_b0,
                                filter_high_b1);
                            wc_mma_halves_16(large_t1, high_1[0], high_1[1], high_1[2], high_1[3], filter_high_b0,
                                filter_high_b1);
                            wc_mma_halves_16(small_t0, high_0[0], high_0[1], high_0[2], high_0[3], filter_low_b0,
                                filter_low_b1);
                            wc_mma_halves_16(small_t1, high_1[0], high_1[1], high_1[2], high_1[3], filter_low_b0,
                                filter_low_b1);
                            add_parts(sum_t0, large_t0, small_t0, scale_top, scale_bottom);
                            add_parts(sum_t1, large_t1, small_t1, scale_top, scale_bottom);
                        }
                    }
                    const int p = p_tile + tile_row;
                    float* const out = y_plane + ((index_t)p * Q + q);
                    sum_t0 = restored(sum_t0, filter_restoring);
                    sum_t1 = restored(sum_t1, filter_restoring);
                    // infinities, NaN and what the scales have no room for come out as float32 units have them
                    bool finite = is_finite(sum_t0) && is_finite(sum_t1);
                    // and sums that lie below what was lost of their rows' pixels
                    bool lost = false;
                    for (int i = lane; i < RING; i += 32) lost = lost || limits[i] > 0.0f;
                    if (__any_sync(0xffffffffu, lost)) {
                        float limit_top = 0.0f, limit_bottom = 0.0f;
#pragma unroll 1
                        for (int r = 0; r < R; ++r) {
                            const float weight = __uint_as_float(ranges[r]);
                            limit_top = fmaf(limits[first + tile_row + r], weight, limit_top);
                            limit_bottom = fmaf(limits[first + tile_row + HALF_TILE + r], weight, limit_bottom);
                        }
                        limit_top = p < p_end ? limit_top : 0.0f;
                        limit_bottom = p + HALF_TILE < p_end ? limit_bottom : 0.0f;
                        finite = finite && (q >= Q || is_above(sum_t0, limit_top, limit_bottom));
                        finite = finite && (q + TILE_COLUMNS >= Q || is_above(sum_t1, limit_top, limit_bottom));
                    }
                    if (!__all_sync(0xffffffffu, finite)) {
#pragma unroll 1
                        for (int begin = 0; begin < WARP_SPAN; begin += 32) {
                            const int column = q_first + warp * WARP_SPAN + begin + lane;
#pragma unroll 1
                            for (int row = p_tile; row < min(p_tile + TILE_ROWS, p_end); row += HALF_TILE) {
                                float sum[HALF_TILE];
                                sums_of(sum, x_plane, w_plane, row, column, H, W, Q);
                                if (begin + lane < WARP_SPAN && column < Q) {
#pragma unroll
                                    for (int i = 0; i < HALF_TILE; ++i) {
                                        if (row + i < p_end) y_plane[(index_t)(row + i) * Q + column] = sum[i];
                                    }
                                }
                            }
                        }
                    } else {
                        if (p < p_end && q < Q) *(float2*)(out) = make_float2(sum_t0.x, sum_t0.y);
                        if (p + HALF_TILE < p_end && q < Q) *(float2*)(out + HALF_TILE * (index_t)Q) =
                            make_float2(sum_t0.z, sum_t0.w);
                        if (p < p_end && q + TILE_COLUMNS < Q) *(float2*)(out + TILE_COLUMNS) =
                            make_float2(sum_t1.x, sum_t1.y);
                        if (p + HALF_TILE < p_end
                            && q + TILE_COLUMNS < Q) *(float2*)(out + TILE_COLUMNS + HALF_TILE * (index_t)Q) =
                            make_float2(sum_t1.z, sum_t1.w);
                    }
                    if (p_tile + TILE_ROWS < p_end) {
                        // all have read the rows in whose places the next ones come
                        __syncthreads();
                        split_rows(patch, scales, limits, x_plane, h, first, TILE_ROWS, q_first, H, W);
                        h += TILE_ROWS;
                        first = first + TILE_ROWS < RING ? first + TILE_ROWS : first + TILE_ROWS - RING;
                    }
                }
            }
        }
    }
}
