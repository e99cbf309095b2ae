// warpconv 0.1.0: filter_gradient, float32. Generated from templates/filter_gradient/taps_nchw.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,W --filter 16,3,3 --padding 1 --groups 16 --operation filter_gradient \
//     --arch sm_90 --algorithm filter_gradient \
//     --set form=taps --set chunks=12 --set walk=tile --set rows=8 --set columns=4 --set tap_rows=3 \
//     --set tap_columns=3 --set vector=2 --set min_blocks=0
//
// layer  x[N, 16, H, W] * w[16, 1, 3, 3] -> y[N, 16, P, Q], stride 1, padding 1, groups 16, float32; its filter
//        gradient
//        N, H, W (and so P, Q) are arguments (W a multiple of 2; Q a multiple of 2); all else is a constant of the text
// plan   3 x 3 taps in a thread, over 8 x 4 outputs at a time, in 12 chunks; then the chunks' sums are added
// cost   32 x 8 x 4 outputs: 56 warp loads, 0 shuffles, 288 FMA a lane, about 87 registers (direct: 320 loads)
//
// A block sums the taps of one filter over its share of the tiles, every CHUNKS-th of THREADS tiles. A thread takes
// tiles of ROWS x COLUMNS outputs: it holds their gradients, loads each row of their windows once, and adds to all taps
// that meet them.
constexpr int C = 16;                           // input channels
constexpr int K = 16;                           // filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int CHUNKS = 12;                      // shares of the sum, each made by a block of its own
constexpr int ROWS = 8;                         // rows of a tile of outputs
constexpr int COLUMNS = 4;                      // columns of a tile of outputs
constexpr int TAP_ROWS = 3;                     // rows of the filter that a thread sums
constexpr int TAP_COLUMNS = 3;                  // columns of the filter that a thread sums
constexpr int ROWS_READ = 10;                   // input rows of a tile's windows
constexpr int THREADS = 128;                    // threads of a block
constexpr int WARPS = 4;                        // warps of a block
constexpr int VECTOR = 2;                       // elements that are loaded together
constexpr int SHIFT = 1;                        // columns from where loads begin to the window
constexpr int VECTORS_READ = 4;                 // loads for a row of a tile's windows
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// VECTOR elements as floats, zeros where they lie outside.
__device__ __forceinline__ void load_elements(const float* from, bool inside, float* into) {
    const float2 cell = inside ? __ldg((const float2*)from) : make_float2(0.0f, 0.0f);
    into[0] = cell.x;
    into[1] = cell.y;
}

extern "C" __global__ void __launch_bounds__(128)
filter_gradient_3x3(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N, int H,
        int W, int P, int Q) {
    __shared__ float sums[WARPS][TAP_ROWS * TAP_COLUMNS];
    const int first_r = blockIdx.z * TAP_ROWS;
    const int row_tiles = (P + ROWS - 1) / ROWS, column_tiles = (Q + COLUMNS - 1) / COLUMNS;
    const index_t tiles = (index_t)N * row_tiles * column_tiles;

    for (int k = blockIdx.y; k < K; k += gridDim.y) {
        float acc[TAP_ROWS][TAP_COLUMNS] = {};
#pragma unroll 1
        for (index_t tile = blockIdx.x * THREADS + threadIdx.x; tile < tiles; tile += CHUNKS * THREADS) {
            const index_t strip = tile / column_tiles, image = strip / row_tiles;
            const int q = (int)(tile - strip * column_tiles) * COLUMNS;            // first output of the tile
            const int p = (int)(strip - image * row_tiles) * ROWS;
            const float* dy_first = dy + ((image * K + k) * P + p) * Q + q;
            float gradient[ROWS][COLUMNS];
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int j = 0; j < COLUMNS; j += VECTOR)
                    load_elements(dy_first + i * Q + j, p + i < P && q + j < Q, &gradient[i][j]);
            const float* x_plane = x + (image * C + k) * H * W;
            const int h = p - PAD_TOP + first_r, v = q - PAD_LEFT;
#pragma unroll
            for (int i = 0; i < ROWS_READ; ++i) {
                const int row = h + i;
                const float* x_row = x_plane + row * W + v - SHIFT;
                float in[VECTORS_READ * VECTOR];
#pragma unroll
                for (int j = 0; j < VECTORS_READ * VECTOR; j += VECTOR)
                    load_elements(x_row + j, (unsigned)row < (unsigned)H && (unsigned)(v - SHIFT + j) < (unsigned)W,
                        in + j);
#pragma unroll
                for (int r = 0; r < TAP_ROWS; ++r) {
                    const int above = i - r;                       // input rows from the tile's first to the output's
                    if (above < 0 || above >= ROWS) continue;
#pragma unroll
                    for (int s = 0; s < TAP_COLUMNS; ++s)
#pragma unroll
                        for (int j = 0; j < COLUMNS; ++j)
                            acc[r][s] = fmaf(in[SHIFT + j + s], gradient[above][j], acc[r][s]);
                }
            }
        }
        // the block's sums: of lanes, then of warps
#pragma unroll
        for (int r = 0; r < TAP_ROWS; ++r)
#pragma unroll
            for (int s = 0; s < TAP_COLUMNS; ++s) {
                float sum = acc[r][s];
#pragma unroll
                for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
                if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][r * TAP_COLUMNS + s] = sum;
            }
        __syncthreads();
        for (int tap = threadIdx.x; tap < TAP_ROWS * TAP_COLUMNS; tap += THREADS) {
            const int r = first_r + tap / TAP_COLUMNS, s = tap % TAP_COLUMNS;
            float sum = sums[0][tap];
#pragma unroll
            for (int warp = 1; warp < WARPS; ++warp) sum += sums[warp][tap];
            if (r < R && s < S) parts[(((long long)blockIdx.x * K + k) * R + r) * S + s] = sum;
        }
        __syncthreads();
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)K * R * S;
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
        dw[i] = sum;
    }
}
