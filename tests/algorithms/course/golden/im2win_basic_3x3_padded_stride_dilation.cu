// warpconv 0.1.0: im2win_basic, float32. Generated from templates/course/im2win_basic.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,8,H,W --filter 48,3,3 --stride 2,1 --padding 1 --dilation 1,2 --groups 2 \
//     --epilogue bias,relu --arch sm_90 --algorithm im2win_basic \
//     --set mapping=coalesced
//
// layer  x[N, 8, H, W] * w[48, 4, 3, 3] -> y[N, 48, P, Q], stride 2,1, padding 1, dilation 1,2, groups 2, float32, then
//        bias, relu
//        N, H, W (and so P, Q) are arguments (Q at most 714429777); all else is a constant of the text
// plan   the im2win tensor, then one thread per output, 32 x 32 a block; neighbouring threads make neighbouring pixels
//        of a filter
// cost   32 outputs, without the transform: 72 warp loads, 0 shuffles, 36 FMA a lane, about 32 registers (direct: 72
//        loads)
// note   workspace: the windows of the whole batch, about R / stride times the input
//
// Three entries: im2win_filter once for each filter, then for each call im2win_transform, which stores the windows of
// every row of outputs as one row of T, and im2win_basic_3x3, one thread per output.
constexpr int C = 8;                            // input channels
constexpr int K = 48;                           // filters
constexpr int GROUPS = 2;                       // groups of both
constexpr int C_GROUP = 4;                      // channels of a group
constexpr int K_GROUP = 24;                     // filters of a group
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int PAD_TOP = 1;                      // rows of zeros above the image
constexpr int PAD_LEFT = 1;                     // columns of zeros to the left of the image
constexpr int ROW_EACH = 3;                     // a row of T has ROW_EACH elements for each output column
constexpr int ROW_ADD = 12;                     // and so many more: ROW_EACH * Q + ROW_ADD
constexpr int WINDOW_STEP = 3;                  // elements of T from one output's window to the next
constexpr int TAP_STEP = 6;                     // and from one filter column of a window to the next
constexpr int SIDE = 32;                        // threads of a block each way
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// What happens to an output value before it is stored: bias, then relu.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    value = value < 0.0f ? 0.0f : value;
    return value;
}

// The filter in the order of a window of T, filter rows first: once for each filter, before the first call.
constexpr int FILTER_THREADS = 256;             // threads of a block

extern "C" __global__ void __launch_bounds__(256)
im2win_filter(const float* __restrict__ w, float* __restrict__ filter) {
    constexpr index_t ELEMENTS = (index_t)K * C_GROUP * R * S;
    for (index_t i = blockIdx.x * FILTER_THREADS + threadIdx.x; i < ELEMENTS; i += gridDim.x * FILTER_THREADS) {
        const int tap = i % (R * S), u = tap % R, v = tap / R;
        filter[i] = w[i - tap + u * S + v];
    }
}

// The transform: T[n][c][p][column * R + u] is the pixel of x[n][c] at row p * STRIDE_H + u * DILATION_H - PAD_TOP and
// column - PAD_LEFT of its columns. Neighbouring lanes make neighbouring elements of T, a thread the same element of
// PLANES planes (n, c).
constexpr int THREADS_X = 32;                   // threads of a block: elements of T
constexpr int THREADS_Y = 8;                    // threads of a block: rows of T
constexpr int PLANES = 8;                       // planes that share a thread's index arithmetic

extern "C" __global__ void __launch_bounds__(256)
im2win_transform(const float* __restrict__ x, float* __restrict__ windows, int N, int H, int W, int P, int Q) {
    const int row = ROW_EACH * Q + ROW_ADD;
    const int i = blockIdx.x * THREADS_X + threadIdx.x;            // this thread's element of the row
    if (i >= row) return;
    const int u = i % R, column = i / R - PAD_LEFT;
    const index_t planes = (index_t)N * C, plane_x = (index_t)H * W;
    const long long plane_t = (long long)P * row;                  // T may have 2^31 elements where x has not

    for (int p = blockIdx.y * THREADS_Y + threadIdx.y; p < P; p += gridDim.y * THREADS_Y) {
        const int h = p * STRIDE_H + u - PAD_TOP;
        const bool inside = (unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W;    // else it is padding: zero
        for (index_t first = (index_t)blockIdx.z * PLANES; first < planes; first += (index_t)gridDim.z * PLANES) {
            const float* x_pixel = x + first * plane_x + (index_t)h * W + column;
            float* t_element = windows + first * plane_t + (long long)p * row + i;
            // all loads before the first store, so that they are under way together
            const float in_plane0 = first < planes && inside ? __ldg(x_pixel) : (float)0;
            const float in_plane1 = first + 1 < planes && inside ? __ldg(x_pixel + plane_x) : (float)0;
            const float in_plane2 = first + 2 < planes && inside ? __ldg(x_pixel + 2 * plane_x) : (float)0;
            const float in_plane3 = first + 3 < planes && inside ? __ldg(x_pixel + 3 * plane_x) : (float)0;
            const float in_plane4 = first + 4 < planes && inside ? __ldg(x_pixel + 4 * plane_x) : (float)0;
            const float in_plane5 = first + 5 < planes && inside ? __ldg(x_pixel + 5 * plane_x) : (float)0;
            const float in_plane6 = first + 6 < planes && inside ? __ldg(x_pixel + 6 * plane_x) : (float)0;
            const float in_plane7 = first + 7 < planes && inside ? __ldg(x_pixel + 7 * plane_x) : (float)0;
            if (first < planes) t_element[0] = in_plane0;
            if (first + 1 < planes) t_element[plane_t] = in_plane1;
            if (first + 2 < planes) t_element[2 * plane_t] = in_plane2;
            if (first + 3 < planes) t_element[3 * plane_t] = in_plane3;
            if (first + 4 < planes) t_element[4 * plane_t] = in_plane4;
            if (first + 5 < planes) t_element[5 * plane_t] = in_plane5;
            if (first + 6 < planes) t_element[6 * plane_t] = in_plane6;
            if (first + 7 < planes) t_element[7 * plane_t] = in_plane7;
        }
    }
}

// One thread per output: neighbouring threads make neighbouring pixels of a filter, and each walks its window of T.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
im2win_basic_3x3(float* __restrict__ windows, float* __restrict__ filter, const float* __restrict__ bias,
        float* __restrict__ y, int N, int P, int Q) {
    const index_t pixel = (index_t)blockIdx.x * SIDE + threadIdx.x;       // of the P * Q of an image
    if (pixel >= (index_t)P * Q) return;
    const int p = (int)(pixel / Q), q = (int)(pixel % Q);
    const long long row = ROW_EACH * Q + ROW_ADD, plane_t = P * row;

    for (int n = blockIdx.z; n < N; n += gridDim.z) {
        // y counts groups and tiles of their filters together
        for (int tile = blockIdx.y; tile < GROUPS; tile += gridDim.y) {
            const int group = tile, k_group = threadIdx.y;
            if (k_group >= K_GROUP) continue;
            const int k = group * K_GROUP + k_group;
            const float* window = windows + ((long long)n * C + group * C_GROUP) * plane_t + p * row
                + (long long)q * WINDOW_STEP;
            const float* weight = filter + (index_t)k * (C_GROUP * R * S);
            float sum = 0.0f;
            // channel by channel, window and weights in the same order
#pragma unroll 1
            for (int c = 0; c < C_GROUP; ++c) {
#pragma unroll
                for (int v = 0; v < S; ++v)
#pragma unroll
                    for (int u = 0; u < R; ++u)
                        sum = fmaf(__ldg(window + v * TAP_STEP + u), __ldg(weight + v * R + u), sum);
                window += plane_t;
                weight += R * S;
            }
            y[((index_t)n * K + k) * ((index_t)P * Q) + pixel] = finish(sum, bias[k]);
        }
    }
}
