// warpconv 0.1.0: toeplitz_nhwc, bfloat16. Generated from templates/toeplitz_nhwc/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,16,24 --filter 24,3,7 --padding 1,3 --groups 24 --dtype bfloat16 --layout NHWC \
//     --epilogue relu --arch sm_90 --algorithm toeplitz_nhwc \
//     --set pairs=1 --set chunks=2 --set warps=1 --set columns=16 --set across=2 --set turn=2 --set buffers=3 \
//     --set sub_block_rows=28 --set images=2 --set weights=shared --set matrix=dense --set min_blocks=4
//
// layer  x[N, H, W, 24] * w[24, 1, 3, 7] -> y[N, P, Q, 24], stride 1, padding 1,3, groups 24, bfloat16 NHWC, then relu
//        N, H, W (and so P, Q) are arguments (Q at most 16); all else is a constant of the text
// plan   2 channels a warp, 16 a block; 2 images x 16 columns, sub-blocks of 28 rows, 4 at a time, 3 buffers; 4 images
//        in turn; filters in shared, dense
// cost   2 rows x 32 columns x 2 channels, 6 matrix instructions: 1 warp loads, 0 shuffles, 0 FMA a lane, about 49
//        registers (direct: 84 loads)
// note   6 matrix instructions for 128 outputs; 22 % of their products are the filters', the others are with zeros
// note   a zero beside the filter meets real input: an infinity or NaN spreads up to one row and three columns beyond
//        the outputs whose window touches it, and to the other channel of its pair
// note   29284 bytes of shared memory a block
//
// Tiles are of 2 rows by 4 columns. A matrix instruction multiplies the filters of a pair of channels, as a matrix of
// 16 output values (eight pixels of a tile, of both channels) by 16 input values (likewise), by eight input tiles side
// by side: word 0 or 1 of a pixel's pair is the lane's operand as it lies in memory (in_r<row>_c<tile>, lane = 4 * tile
// + column). The sums of the 2 rows of output tiles that an input tile belongs to stay in registers (sum_b<rows of
// input tiles it has>_p<pair>).
constexpr int R = 3;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows before the image's own
constexpr int PAD_LEFT = 3;                     // columns before the image's own
constexpr int CHANNELS = 24;                    // channels of a pixel
constexpr int TOTAL_CHUNKS = 3;                 // chunks of eight of them
constexpr int CHUNKS = 2;                       // chunks of a block
constexpr int PARTS = 4;                        // warps that share a chunk's channels
constexpr int THREADS = 256;                    // threads of a block
constexpr int COLUMNS = 16;                     // output columns of a block, of an image
constexpr int ACROSS = 2;                       // images side by side
constexpr int PATCH_COLUMNS = 24;               // input columns of each
constexpr int ROWS = 4;                         // rows of a turn
constexpr int LAG = 2;                          // a turn's output rows lie so many before its input rows
constexpr int BUFFERS = 3;                      // turns in shared memory
constexpr int SUB_ROWS = 28;                    // output rows of a sub-block
constexpr int COPIED_COLUMNS = 48;              // input columns of all
constexpr int PITCH = 48;                       // input pixels to the next row
constexpr int OUT_PITCH = 32;                   // output pixels to the next row
constexpr int OUT_STRIDE = 132;                 // output pixels to the next chunk
constexpr int BUFFER = 384;                     // chunks of input to the next turn's
constexpr int OUT_BUFFER = 264;                 // output pixels to the next turn's
constexpr int OUT_ROW = 32;                     // output pixels of a row, of all images
constexpr int COPIES = 384;                     // copies of 16 bytes, of a turn
constexpr int FILTER_PITCH = 15;                // words of a padded filter row
constexpr int FILTER_WORDS = 75;                // words of a pair's filters
constexpr int OUTSIDE = -(1 << 30);             // a row outside any image
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}
// Where an eight of a pixel's channels lies in shared memory: eight pixels' lie in all banks.
__device__ __forceinline__ int cell(int pixel, int octet) {
    return pixel * CHUNKS + (octet ^ (unsigned)pixel / (8 / CHUNKS) % CHUNKS);
}

// copies from global to shared memory, past the registers, and tensor cores
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
__device__ __forceinline__ void wc_mma_bfloat16s_pair(float4& sum, const float4& before, unsigned a0, unsigned a1, unsigned low_half, unsigned b0, unsigned b1) { asm("{ .reg .b32 low_0, high_0, low_1, high_1; and.b32 low_0, %4, %6; lop3.b32 high_0, %4, %6, 0, 0x30; and.b32 low_1, %5, %6; lop3.b32 high_1, %5, %6, 0, 0x30; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, {low_0, high_0, low_1, high_1}, { %7, %8}, { %9, %10, %11, %12}; }" : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w) : "r"(a0), "r"(a1), "r"(low_half), "r"(b0), "r"(b1), "f"(before.x), "f"(before.y), "f"(before.z), "f"(before.w)); }

extern "C" __global__ void __launch_bounds__(256, 4)
toeplitz_nhwc_3x7(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q) {
    __shared__ __align__(16) unsigned short shared[14640];
    __shared__ unsigned shared_low_half;
    // chunks of eight channels, [turn][row][column][chunk]; the filters, after them
    uint4 *const pixels = (uint4*)shared, *const outputs = pixels + 1152;
    unsigned* const filters = (unsigned*)(outputs + 2 * OUT_BUFFER);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // of an input tile; tile of the warp, and pixel of an output tile
    const int column = lane % 4, place = lane / 4;
    const int part = warp % PARTS, chunk = warp / PARTS % CHUNKS, side = warp / (PARTS * CHUNKS);
    const int chunk_first = (int)(blockIdx.x % 2) * CHUNKS;
    const int q_first = (int)(blockIdx.x / 2) * COLUMNS;
    // the filters of this block's channels between zeros, both channels of a pair in a word
    for (int i = threadIdx.x; i < 600; i += THREADS) {
        const int r = i % FILTER_WORDS / FILTER_PITCH - 1, s = i % FILTER_WORDS % FILTER_PITCH - 3;
        const int c = (chunk_first * 4 + i / FILTER_WORDS) * 2;
        const bool inside = (unsigned)r < (unsigned)R && (unsigned)s < (unsigned)S && c < CHANNELS;
        const unsigned short* from = w + c * (R * S) + r * S + s;
        filters[i] = inside ? __ldg(from) | (unsigned)__ldg(from + R * S) << 16 : 0u;
    }
    if (threadIdx.x == 0) shared_low_half = 0xffffu;
    __syncthreads();
    // of the matrix's rows for output pixel `place`: the words of input pixels `column` (word 0) and the one below it
    // (word 1)
    const unsigned* filter_words = filters + (chunk * 4 + part) * FILTER_WORDS + (1 - place / 4) * FILTER_PITCH + 3
        - place % 4 + column;
    // where this lane's input column lies in a turn's pixels, and its output pixels in a turn's outputs: tiles 2 *
    // column and the next
    const int tile = side * 8 + place;
    const int tile_image = tile < ACROSS * (COLUMNS / 4) ? tile / (COLUMNS / 4) : 0;
    const int in_pixel = tile_image * PATCH_COLUMNS + tile % (COLUMNS / 4) * 4 + column;
    // of a lane's input tiles 0, 2, ... and 1, 3, ...
    const int in_even = cell(in_pixel, chunk), in_odd = cell(in_pixel + 4, chunk);
    const int out_row = chunk * OUT_STRIDE + place / 4 * OUT_PITCH + side * 32 + column * 8;
    const int out_0 = out_row + (place % 4 ^ column * 2), out_1 = out_row + (4 + place % 4 ^ column * 2);
    // what this thread copies in every turn: pixel `place` of a row of it, or nothing where that is outside the image
    const int copy_0 = threadIdx.x, copy_0_chunk = copy_0 % CHUNKS;
    const int copy_0_place = copy_0 / CHUNKS % COPIED_COLUMNS, copy_0_line = copy_0 / (CHUNKS * COPIED_COLUMNS);
    const int copy_0_column = q_first - PAD_LEFT + copy_0_place % PATCH_COLUMNS;
    const int copy_0_image = copy_0_place / PATCH_COLUMNS;
    const int copy_0_to = cell(copy_0_line * PITCH + copy_0_place, copy_0_chunk);
    const bool copy_0_inside = (unsigned)copy_0_column < (unsigned)W && chunk_first + copy_0_chunk < TOTAL_CHUNKS;
    const int copy_0_row = copy_0_inside ? copy_0_line : OUTSIDE;
    const index_t copy_0_from = (((index_t)copy_0_image * H + copy_0_line) * W + copy_0_column) * CHANNELS
        + (chunk_first + copy_0_chunk) * 8;
    const int copy_1 = threadIdx.x + THREADS, copy_1_chunk = copy_1 % CHUNKS;
    const int copy_1_place = copy_1 / CHUNKS % COPIED_COLUMNS, copy_1_line = copy_1 / (CHUNKS * COPIED_COLUMNS);
    const int copy_1_column = q_first - PAD_LEFT + copy_1_place % PATCH_COLUMNS;
    const int copy_1_image = copy_1_place / PATCH_COLUMNS;
    const int copy_1_to = cell(copy_1_line * PITCH + copy_1_place, copy_1_chunk);
    const bool copy_1_inside = (unsigned)copy_1_column < (unsigned)W && chunk_first + copy_1_chunk < TOTAL_CHUNKS;
    const int copy_1_row = copy_1_inside ? copy_1_line : OUTSIDE;
    const index_t copy_1_from = (((index_t)copy_1_image * H + copy_1_line) * W + copy_1_column) * CHANNELS
        + (chunk_first + copy_1_chunk) * 8;
    // what this thread stores of every turn; the pixels of eight columns lie where the warps' 16 bytes meet in few
    // banks
    const int store_0 = threadIdx.x, store_0_chunk = store_0 % CHUNKS;
    const int store_0_place = store_0 / CHUNKS % OUT_ROW, store_0_line = store_0 / (CHUNKS * OUT_ROW);
    const int store_0_column = q_first + store_0_place % COLUMNS;
    const int store_0_image = store_0_place / COLUMNS;
    const int store_0_from = store_0_chunk * OUT_STRIDE + store_0_line * OUT_PITCH
        + (store_0_place ^ store_0_place / 8 % 4 * 2);
    const bool store_0_inside = store_0_column < Q && chunk_first + store_0_chunk < TOTAL_CHUNKS;
    const int store_0_row = store_0_inside ? store_0_line : OUTSIDE;
    const index_t store_0_to = (((index_t)store_0_image * P + store_0_line) * Q + store_0_column) * CHANNELS
        + (chunk_first + store_0_chunk) * 8;
    const int images = gridDim.z * ACROSS;                                // from one image of this block to the next
    for (int p_first = blockIdx.y * SUB_ROWS; p_first < P; p_first += gridDim.y * SUB_ROWS) {
        const int out_rows = min(P - p_first, SUB_ROWS), turns = (out_rows + LAG + ROWS - 1) / ROWS;
        // the next turn that is copied, and the next whose outputs are stored: image, row, and where they begin
        int copy_n = blockIdx.z * ACROSS, copy_h = p_first - PAD_TOP, copies_left = turns;
        int store_n = copy_n, store_row = -LAG, stores_left = turns;
        index_t copy_from = ((index_t)copy_n * H + copy_h) * W * CHANNELS;
        index_t store_to = ((index_t)store_n * P + p_first + store_row) * Q * CHANNELS;
        auto copy = [&](uint4* to) __attribute__((always_inline)) {
            if (copy_n < N) {
                wc_copy_async_zfill_16(true, to + copy_0_to, x + (copy_from + copy_0_from),
                                         (unsigned)(copy_h + copy_0_row) < (unsigned)H && copy_n + copy_0_image < N);
                wc_copy_async_zfill_16(copy_1 < COPIES, to + copy_1_to, x + (copy_from + copy_1_from),
                                         (unsigned)(copy_h + copy_1_row) < (unsigned)H && copy_n + copy_1_image < N);
                copy_h += ROWS;
                copy_from += (index_t)ROWS * W * CHANNELS;
                if (--copies_left == 0) {                                  // to the next image
                    copies_left = turns;
                    copy_n += images;
                    copy_h = p_first - PAD_TOP;
                    copy_from = ((index_t)copy_n * H + copy_h) * W * CHANNELS;
                }
            }
            wc_copy_async_commit();
        };
        auto store = [&](const uint4* from) __attribute__((always_inline)) {
            if ((unsigned)(store_row + store_0_row) < (unsigned)out_rows && store_n + store_0_image < N)
                *(uint4*)(y + (store_to + store_0_to)) = from[store_0_from];
            store_row += ROWS;
            store_to += (index_t)ROWS * Q * CHANNELS;
            if (--stores_left == 0) {                                      // to the next image
                stores_left = turns;
                store_n += images;
                store_row = -LAG;
                store_to = ((index_t)store_n * P + p_first + store_row) * Q * CHANNELS;
            }
        };
        __syncthreads();                                                   // all have used what was there before
#pragma unroll 1
        for (int i = 0; i < BUFFERS - 1; ++i) copy(pixels + i * BUFFER);
        uint4* buffer = pixels;                                            // of the turn that is computed
        uint4* free = pixels + (BUFFERS - 1) * BUFFER;                     // of the turn before it
        // of this turn, the other half of the one before it
        uint4* out = outputs;
        float4 sum_b1_p0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        bool first = true;
#pragma unroll 1
        for (int n = store_n; n < N; n += images) {
#pragma unroll 1
            for (int turn = 0; turn < turns; ++turn) {
                // this turn's pixels are there, and so are the last one's outputs
                wc_copy_async_wait_group();
                __syncthreads();
                copy(free);
                if (!first) store(outputs + (out == outputs ? OUT_BUFFER : 0));
                first = false;
                // read in every turn, so that the filters stay in words of two
                const unsigned low_half = shared_low_half;
#pragma unroll
                for (int step = 0; step < 2; ++step) {
                    const uint4 *const in_0 = buffer + in_even + step * (2 * PITCH * CHUNKS),
                        *const in_1 = buffer + in_odd + step * (2 * PITCH * CHUNKS);
                    // a row of input tiles, two rows of pixels
                    const unsigned in_r0_c0 = ((const unsigned*)in_0)[part],
                        in_r1_c0 = ((const unsigned*)(in_0 + PITCH * CHUNKS))[part];
                    const unsigned in_r0_c1 = ((const unsigned*)in_1)[part],
                        in_r1_c1 = ((const unsigned*)(in_1 + PITCH * CHUNKS))[part];
                    const unsigned in_r0_c2 = ((const unsigned*)(in_0 + 16))[part],
                        in_r1_c2 = ((const unsigned*)(in_0 + 16 + PITCH * CHUNKS))[part];
                    // the rows of output tiles that it belongs to, the oldest first
                    float4 next_b2_p0;
                    float4 next_b1_p0;
                    wc_mma_bfloat16s_pair(next_b2_p0, sum_b1_p0, filter_words[30], filter_words[45], low_half, in_r0_c0,
                        in_r1_c0);
                    wc_mma_bfloat16s_pair(next_b1_p0, make_float4(0.0f, 0.0f, 0.0f, 0.0f), filter_words[0],
                        filter_words[15], low_half, in_r0_c0, in_r1_c0);
                    wc_mma_bfloat16s_pair(next_b2_p0, next_b2_p0, filter_words[34], filter_words[49], low_half,
                        in_r0_c1, in_r1_c1);
                    wc_mma_bfloat16s_pair(next_b1_p0, next_b1_p0, filter_words[4], filter_words[19], low_half, in_r0_c1,
                        in_r1_c1);
                    wc_mma_bfloat16s_pair(next_b2_p0, next_b2_p0, filter_words[38], filter_words[53], low_half,
                        in_r0_c2, in_r1_c2);
                    wc_mma_bfloat16s_pair(next_b1_p0, next_b1_p0, filter_words[8], filter_words[23], low_half, in_r0_c2,
                        in_r1_c2);
                    sum_b1_p0 = next_b1_p0;
                    const unsigned out_t0_p0 = wc_floats_to_bfloat16s(finish(next_b2_p0.x), finish(next_b2_p0.z));
                    (((unsigned*)(out + out_0 + step * 2 * OUT_PITCH)))[part] = (out_t0_p0);
                    const unsigned out_t1_p0 = wc_floats_to_bfloat16s(finish(next_b2_p0.y), finish(next_b2_p0.w));
                    (((unsigned*)(out + out_1 + step * 2 * OUT_PITCH)))[part] = (out_t1_p0);
                }
                out = out == outputs ? outputs + OUT_BUFFER : outputs;
                free = buffer;
                buffer = buffer + BUFFER < pixels + BUFFERS * BUFFER ? buffer + BUFFER : pixels;
            }
        }
        __syncthreads();
        if (!first) store(outputs + (out == outputs ? OUT_BUFFER : 0));
    }
}
