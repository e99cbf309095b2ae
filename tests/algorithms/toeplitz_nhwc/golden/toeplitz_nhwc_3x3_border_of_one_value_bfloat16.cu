// warpconv 0.1.0: toeplitz_nhwc, bfloat16. Generated from templates/toeplitz_nhwc/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,3,3 --padding 1 --padding-mode constant --padding-value 1 \
//     --groups 16 --dtype bfloat16 --layout NHWC --arch sm_90 --algorithm toeplitz_nhwc \
//     --set pairs=2 --set chunks=2 --set warps=1 --set columns=28 --set across=1 --set turn=1 --set buffers=3 \
//     --set sub_block_rows=28 --set images=2 --set weights=registers --set matrix=sparse --set min_blocks=8
//
// layer  x[N, H, W, 16] * w[16, 1, 3, 3] -> y[N, P, Q, 16], stride 1, padding 1 (constant), groups 16, bfloat16 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments; all else is a
//        constant of the text
// plan   4 channels a warp, 16 a block; 28 columns, sub-blocks of 28 rows, 2 at a time, 3 buffers; 2 images in turn;
//        filters in registers, sparse
// cost   2 rows x 32 columns x 4 channels, 4 matrix instructions: 1 warp loads, 0 shuffles, 0 FMA a lane, about 64
//        registers (direct: 72 loads)
// note   2 matrix instructions for 128 outputs; 28 % of their products are the filters', the others are with zeros
// note   a zero beside the filter meets real input: an infinity or NaN spreads up to one row and three columns beyond
//        the outputs whose window touches it, and to the other channel of its pair
// note   10496 bytes of shared memory a block
//
// Tiles are of 2 rows by 4 columns. A matrix instruction multiplies the filters of a pair of channels, as a matrix of
// 16 output values (eight pixels of a tile, of both channels) by 16 input values (likewise), by eight input tiles side
// by side: word 0 or 1 of a pixel's pair is the lane's operand as it lies in memory (in_r<row>_c<tile>, lane = 4 * tile
// + column). The sums of the 2 rows of output tiles that an input tile belongs to stay in registers (sum_b<rows of
// input tiles it has>_p<pair>).
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows before the image's own
constexpr int PAD_LEFT = 1;                     // columns before the image's own
constexpr int CHANNELS = 16;                    // channels of a pixel
constexpr int CHUNKS = 2;                       // chunks of a block
constexpr int PARTS = 2;                        // warps that share a chunk's channels
constexpr int PAIRS = 2;                        // pairs of channels of a warp
constexpr int THREADS = 128;                    // threads of a block
constexpr int COLUMNS = 28;                     // output columns of a block, of an image
constexpr int ROWS = 2;                         // rows of a turn
constexpr int LAG = 2;                          // a turn's output rows lie so many before its input rows
constexpr int BUFFERS = 3;                      // turns in shared memory
constexpr int SUB_ROWS = 28;                    // output rows of a sub-block
constexpr int COPIED_COLUMNS = 32;              // input columns of all
constexpr int PITCH = 32;                       // input pixels to the next row
constexpr int OUT_PITCH = 32;                   // output pixels to the next row
constexpr int OUT_STRIDE = 68;                  // output pixels to the next chunk
constexpr int BUFFER = 128;                     // chunks of input to the next turn's
constexpr int OUT_BUFFER = 136;                 // output pixels to the next turn's
constexpr int OUT_ROW = 28;                     // output pixels of a row, of all images
constexpr int STORES = 112;                     // stores of 16 bytes, of a turn
constexpr int FILTER_PITCH = 11;                // words of a padded filter row
constexpr int FILTER_WORDS = 55;                // words of a channel's filter
constexpr int OUTSIDE = -(1 << 30);             // a row outside any image
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }
// Where an eight of a pixel's channels lies in shared memory: eight pixels' lie in all banks.
__device__ __forceinline__ int cell(int pixel, int octet) {
    return pixel * CHUNKS + (octet ^ (unsigned)pixel / (8 / CHUNKS) % CHUNKS);
}

// copies from global to shared memory, past the registers, and tensor cores
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
__device__ __forceinline__ void wc_mma_bfloat16s_sparse_32(float4& sum, const float4& before, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1, unsigned b2, unsigned b3) { asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9, %10, %11}, { %12, %13, %14, %15}, %16, 0x0;" : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(b2), "r"(b3), "f"(before.x), "f"(before.y), "f"(before.z), "f"(before.w), "r"(0xdddd8888u)); }

extern "C" __global__ void __launch_bounds__(128, 8)
toeplitz_nhwc_3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        unsigned short* __restrict__ y, int N, int H, int W, int P, int Q, unsigned BORDER) {
    __shared__ __align__(16) unsigned short shared[5248];
    // chunks of eight channels, [turn][row][column][chunk]; the filters, whose words come to the registers before the
    // first pixels
    uint4 *const pixels = (uint4*)shared, *const outputs = pixels + 384;
    unsigned* const filters = (unsigned*)shared;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // of an input tile; tile of the warp, and pixel of an output tile
    const int column = lane % 4, place = lane / 4;
    const int part = warp % PARTS, chunk = warp / PARTS % CHUNKS, side = warp / (PARTS * CHUNKS);
    const int q_first = (int)blockIdx.x * COLUMNS;
    // the filters of this block's channels between zeros, a weight in the low half of a word and the next one in the
    // high half
    for (int i = threadIdx.x; i < 880; i += THREADS) {
        const int r = i % FILTER_WORDS / FILTER_PITCH - 1, s = i % FILTER_WORDS % FILTER_PITCH - 3;
        const int c = i / FILTER_WORDS;
        const bool inside = (unsigned)r < (unsigned)R, low = inside && (unsigned)s < (unsigned)S,
            high = inside && (unsigned)(s + 1) < (unsigned)S;
        const unsigned short* from = w + c * (R * S) + r * S + s;
        filters[i] = (low ? __ldg(from) : 0u) | (high ? __ldg(from + 1) : 0u) << 16;
    }
    __syncthreads();
    // of the matrix's rows for output pixel `place`, one of either channel: the words of the input pixels 2 * column
    // and the next
    const unsigned* filter_words = filters + (chunk * 8 + part * (2 * PAIRS)) * FILTER_WORDS
        + (1 - place / 4 + column / 2) * FILTER_PITCH + 3 - place % 4 + column % 2 * 2;
    // this lane's words of the filters: input tile rows b, columns c, pair p
    const unsigned filter_b0_c0_p0_0 = filter_words[0], filter_b0_c0_p0_1 = filter_words[55];
    const unsigned filter_b0_c0_p1_0 = filter_words[110], filter_b0_c0_p1_1 = filter_words[165];
    const unsigned filter_b0_c1_p0_0 = filter_words[4], filter_b0_c1_p0_1 = filter_words[59];
    const unsigned filter_b0_c1_p1_0 = filter_words[114], filter_b0_c1_p1_1 = filter_words[169];
    const unsigned filter_b1_c0_p0_0 = filter_words[22], filter_b1_c0_p0_1 = filter_words[77];
    const unsigned filter_b1_c0_p1_0 = filter_words[132], filter_b1_c0_p1_1 = filter_words[187];
    const unsigned filter_b1_c1_p0_0 = filter_words[26], filter_b1_c1_p0_1 = filter_words[81];
    const unsigned filter_b1_c1_p1_0 = filter_words[136], filter_b1_c1_p1_1 = filter_words[191];
    // where this lane's input column lies in a turn's pixels, and its output pixels in a turn's outputs: tiles 2 *
    // column and the next
    const int tile = side * 8 + place;
    const int in_pixel = (tile < COLUMNS / 4 ? tile : 0) * 4 + column;
    // of a lane's input tiles 0, 2, ... and 1, 3, ...
    const int in_even = cell(in_pixel, chunk), in_odd = cell(in_pixel + 4, chunk);
    const int out_row = chunk * OUT_STRIDE + place / 4 * OUT_PITCH + side * 32 + column * 8;
    const int out_0 = out_row + (place % 4 ^ column * 2), out_1 = out_row + (4 + place % 4 ^ column * 2);
    // the border's value, which stays where nothing is copied
    const uint4 border = make_uint4(BORDER, BORDER, BORDER, BORDER);
    __syncthreads();                                                       // all have their filters
    for (int i = threadIdx.x; i < BUFFERS * BUFFER; i += THREADS) pixels[i] = border;
    // what this thread copies in every turn: pixel `place` of a row of it, or nothing where that is outside the image
    const int copy_0 = threadIdx.x, copy_0_chunk = copy_0 % CHUNKS;
    const int copy_0_place = copy_0 / CHUNKS % COPIED_COLUMNS, copy_0_line = copy_0 / (CHUNKS * COPIED_COLUMNS);
    const int copy_0_column = q_first - PAD_LEFT + copy_0_place;
    const int copy_0_to = cell(copy_0_line * PITCH + copy_0_place, copy_0_chunk);
    const bool copy_0_inside = (unsigned)copy_0_column < (unsigned)W;
    const int copy_0_row = copy_0_inside ? copy_0_line : OUTSIDE;
    const index_t copy_0_from = (((index_t)copy_0_line) * W + copy_0_column) * CHANNELS
        + copy_0_chunk * 8;
    // what this thread stores of every turn; the pixels of eight columns lie where the warps' 16 bytes meet in few
    // banks
    const int store_0 = threadIdx.x, store_0_chunk = store_0 % CHUNKS;
    const int store_0_place = store_0 / CHUNKS % OUT_ROW, store_0_line = store_0 / (CHUNKS * OUT_ROW);
    const int store_0_column = q_first + store_0_place;
    const int store_0_from = store_0_chunk * OUT_STRIDE + store_0_line * OUT_PITCH
        + (store_0_place ^ store_0_place / 8 % 4 * 2);
    const bool store_0_inside = store_0_column < Q && store_0 < STORES;
    const int store_0_row = store_0_inside ? store_0_line : OUTSIDE;
    const index_t store_0_to = (((index_t)store_0_line) * Q + store_0_column) * CHANNELS
        + store_0_chunk * 8;
    const int images = gridDim.z;                                         // from one image of this block to the next
    for (int p_first = blockIdx.y * SUB_ROWS; p_first < P; p_first += gridDim.y * SUB_ROWS) {
        const int out_rows = min(P - p_first, SUB_ROWS), turns = (out_rows + LAG + ROWS - 1) / ROWS;
        // the next turn that is copied, and the next whose outputs are stored: image, row, and where they begin
        int copy_n = blockIdx.z, copy_h = p_first - PAD_TOP, copies_left = turns;
        int store_n = copy_n, store_row = -LAG, stores_left = turns;
        index_t copy_from = ((index_t)copy_n * H + copy_h) * W * CHANNELS;
        index_t store_to = ((index_t)store_n * P + p_first + store_row) * Q * CHANNELS;
        auto copy = [&](uint4* to) __attribute__((always_inline)) {
            if (copy_n < N) {
                wc_copy_async_zfill_16((unsigned)(copy_h + copy_0_row) < (unsigned)H, to + copy_0_to,
                    x + (copy_from + copy_0_from), true);
                if (copy_h < 0 || copy_h + ROWS > H) {
                    // rows outside the image
                    if (copy_0_row >= 0 && (unsigned)(copy_h + copy_0_row) >= (unsigned)H) to[copy_0_to] = border;
                }
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
            if ((unsigned)(store_row + store_0_row) < (unsigned)out_rows)
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
        float4 sum_b1_p0 = make_float4(0.0f, 0.0f, 0.0f, 0.0f), sum_b1_p1 = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
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
#pragma unroll
                for (int step = 0; step < 1; ++step) {
                    const uint4 *const in_0 = buffer + in_even + step * (2 * PITCH * CHUNKS),
                        *const in_1 = buffer + in_odd + step * (2 * PITCH * CHUNKS);
                    // a row of input tiles, two rows of pixels
                    const uint2 in_r0_c0 = ((const uint2*)in_0)[part],
                        in_r1_c0 = ((const uint2*)(in_0 + PITCH * CHUNKS))[part];
                    const uint2 in_r0_c1 = ((const uint2*)in_1)[part],
                        in_r1_c1 = ((const uint2*)(in_1 + PITCH * CHUNKS))[part];
                    // the rows of output tiles that it belongs to, the oldest first
                    float4 next_b2_p0, next_b2_p1;
                    float4 next_b1_p0, next_b1_p1;
                    wc_mma_bfloat16s_sparse_32(next_b2_p0, sum_b1_p0, filter_b1_c0_p0_0, filter_b1_c0_p0_1,
                        filter_b1_c1_p0_0, filter_b1_c1_p0_1, in_r0_c0.x, in_r1_c0.x, in_r0_c1.x, in_r1_c1.x);
                    wc_mma_bfloat16s_sparse_32(next_b2_p1, sum_b1_p1, filter_b1_c0_p1_0, filter_b1_c0_p1_1,
                        filter_b1_c1_p1_0, filter_b1_c1_p1_1, in_r0_c0.y, in_r1_c0.y, in_r0_c1.y, in_r1_c1.y);
                    wc_mma_bfloat16s_sparse_32(next_b1_p0, make_float4(0.0f, 0.0f, 0.0f, 0.0f), filter_b0_c0_p0_0,
                        filter_b0_c0_p0_1, filter_b0_c1_p0_0, filter_b0_c1_p0_1, in_r0_c0.x, in_r1_c0.x, in_r0_c1.x,
                        in_r1_c1.x);
                    wc_mma_bfloat16s_sparse_32(next_b1_p1, make_float4(0.0f, 0.0f, 0.0f, 0.0f), filter_b0_c0_p1_0,
                        filter_b0_c0_p1_1, filter_b0_c1_p1_0, filter_b0_c1_p1_1, in_r0_c0.y, in_r1_c0.y, in_r0_c1.y,
                        in_r1_c1.y);
                    sum_b1_p0 = next_b1_p0; sum_b1_p1 = next_b1_p1;
                    const unsigned out_t0_p0 = wc_floats_to_bfloat16s(next_b2_p0.x, next_b2_p0.z);
                    const unsigned out_t0_p1 = wc_floats_to_bfloat16s(next_b2_p1.x, next_b2_p1.z);
                    (((uint2*)(out + out_0 + step * 2 * OUT_PITCH)))[part] = make_uint2(out_t0_p0, out_t0_p1);
                    const unsigned out_t1_p0 = wc_floats_to_bfloat16s(next_b2_p0.y, next_b2_p0.w);
                    const unsigned out_t1_p1 = wc_floats_to_bfloat16s(next_b2_p1.y, next_b2_p1.w);
                    (((uint2*)(out + out_1 + step * 2 * OUT_PITCH)))[part] = make_uint2(out_t1_p0, out_t1_p1);
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
