// warpconv 0.1.0: filter_gradient, float32. Generated from templates/filter_gradient/tiles.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,H,W --filter 48,3,3 --padding 1 --operation filter_gradient --arch sm_90 \
//     --algorithm filter_gradient \
//     --set form=tiles --set chunks=49 --set min_blocks=4
//
// layer  x[N, 32, H, W] * w[48, 32, 3, 3] -> y[N, 48, P, Q], stride 1, padding 1, float32; its filter gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   tiles of 64 filters x 64 taps of channels, in 49 chunks of the pixels; then the chunks' sums are added
// cost   16 pixels of a block: 8 warp loads, 0 shuffles, 256 FMA a lane, about 72 registers (direct: 512 loads)
//
// A product of matrices: dy as filters x pixels by the windows as pixels x (tap, channel), a tile of it in a block,
// summed over a chunk of the pixels. Both operands are gathered into shared memory, PIXELS at a time.
constexpr int C = 32;                           // input channels
constexpr int K = 48;                           // filters
constexpr int C_GROUP = 32;                     // channels of a group
constexpr int K_GROUP = 48;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int CHUNKS = 49;                      // shares of the sum, each made by a block of its own
constexpr int TILE = 64;                        // filters of a block, and its columns: taps of channels
constexpr int PIXELS = 16;                      // pixels at a time
constexpr int COLUMN_TILES = 5;                 // blocks for the columns
constexpr int WINDOW = 288;                     // columns: a group's channels of all taps
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(256, 4)
filter_gradient_3x3(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N, int H,
        int W, int P, int Q) {
    __shared__ __align__(16) float gradients[PIXELS][TILE + 4], windows[PIXELS][TILE + 4];
    const int plane = P * Q;
    const index_t pixels = (index_t)N * plane, steps = (pixels + PIXELS - 1) / PIXELS;
    // 4 columns and 4 filters of this thread
    const int across = threadIdx.x % 16 * 4, down = threadIdx.x / 16 * 4;
    // a pixel, every 16th filter and column
    const int lane = threadIdx.x % 16, step_of = threadIdx.x / 16;

    for (int tile = blockIdx.y; tile < COLUMN_TILES; tile += gridDim.y) {
        for (int group = blockIdx.z; group < 1; group += gridDim.z) {
            const int first_k = tile / COLUMN_TILES * TILE, first_column = tile % COLUMN_TILES * TILE;
            float acc[4][4] = {};
#pragma unroll 1
            for (index_t step = blockIdx.x; step < steps; step += CHUNKS) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int at = step_of + i * 16, f = first_k + at, column = first_column + at, row = lane;
                    const index_t pixel = step * PIXELS + lane;
                    const int image = (int)(pixel / plane), place = (int)(pixel - (index_t)image * plane);
                    const int p = place / Q, q = place - p * Q;
                    float gradient = 0.0f, in = 0.0f;
                    if (pixel < pixels && f < K_GROUP) gradient =
                        __ldg(dy + ((index_t)image * K + group * K_GROUP + f) * plane + place);
                    if (pixel < pixels && column < WINDOW) {
                        const int tap = column / C_GROUP, c = group * C_GROUP + column % C_GROUP;
                        const int h = p - PAD_TOP + tap / S;
                        const int v = q - PAD_LEFT + tap % S;
                        in = (unsigned)h < (unsigned)H && (unsigned)v < (unsigned)W
                            ? __ldg(x + (((index_t)image * C + c) * H + h) * W + v) : 0.0f;
                    }
                    gradients[row][at] = gradient;
                    windows[row][at] = in;
                }
                __syncthreads();
#pragma unroll 8
                for (int i = 0; i < PIXELS; ++i) {
                    const float4 a = *(const float4*)&gradients[i][down], b = *(const float4*)&windows[i][across];
                    const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                    for (int f = 0; f < 4; ++f)
#pragma unroll
                        for (int j = 0; j < 4; ++j) acc[f][j] = fmaf(left[f], right[j], acc[f][j]);
                }
                __syncthreads();
            }
#pragma unroll
            for (int f = 0; f < 4; ++f)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int k = first_k + down + f, column = first_column + across + j;
                    const int tap = column / C_GROUP, c = column % C_GROUP;
                    if (k < K_GROUP && column < WINDOW) {
                        parts[(((long long)blockIdx.x * K + group * K_GROUP + k) * C_GROUP + c) * (R * S) + tap] =
                            acc[f][j];
                    }
                }
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = (long long)K * C_GROUP * R * S;
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
