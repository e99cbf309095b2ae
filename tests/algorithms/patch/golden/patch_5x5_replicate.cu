// warpconv 0.1.0: patch, float32. Generated from templates/patch/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,W --filter 16,5,5 --padding 2 --padding-mode replicate --groups 16 --arch sm_90 \
//     --algorithm patch \
//     --set columns=8 --set row_lanes=7 --set rows=28 --set planes=1 --set height=56 --set vector=4 \
//     --set store_vector=4 --set min_blocks=3
//
// layer  x[N, 16, H, W] * w[16, 1, 5, 5] -> y[N, 16, P, Q], stride 1, padding 2 (replicate), groups 16, float32
//        N, H, W (and so P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of the text
// plan   8 columns of a row per lane, tiles of 28 rows x 56 columns of 1 plane, 7 warps per block; patches of 32 rows
//        in shared memory, 4 elements a load
// cost   tile of 28 rows x 56 columns of 1 plane: 3 warp loads, 0 shuffles, 200 FMA a lane, about 58 registers (direct:
//        200 loads)
// note   8864 bytes of shared memory a block
//
// A block has a patch of its planes in shared memory, what stands around the image included, and their filters. A lane
// makes 8 neighbouring outputs of one row: for each filter row it reads its window of an input row and the weights of
// the filter row, which all its outputs share (in_<first column of the window>, w_<first filter column>). The loop over
// filter rows stays a loop, so the text is one filter row long.
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int MARGIN = 4;                       // columns of a patch before its tile's
constexpr int DILATION_H = 1;                   // input rows from one filter row to the next
constexpr int K = 16;                           // output channels
constexpr int COLUMNS = 8;                      // output columns of a lane
constexpr int ROW_LANES = 7;                    // lanes of a row
constexpr int ROWS = 28;                        // rows of a block's tile
constexpr int PATCH_ROWS = 32;                  // rows of a patch
constexpr int PITCH = 68;                       // floats from one patch row to the next
constexpr int PLANE = 2176;                     // floats from one plane to the next
constexpr int FILTER_PITCH = 8;                 // floats from one filter row to the next
constexpr int FILTER_PLANE = 40;                // floats from one plane's filter to the next
constexpr int ROW_VECTORS = 17;                 // loads of a patch row
constexpr int VECTOR = 4;                       // elements of a load
constexpr int THREADS = 224;                    // threads of a block
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: the nearest.
__device__ __forceinline__ int at_border(int i, int size) {
    return min(max(i, 0), size - 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
patch_5x5(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int H, int W, int P,
        int Q) {
    __shared__ __align__(16) float patches[PLANE];                 // [plane][row][column]
    __shared__ __align__(16) float filters[FILTER_PLANE]; // [plane][filter row][filter column]
    // this lane's columns of a row, its row of the tile and its plane; lanes beyond the tile do what the last row does
    const int place = threadIdx.x % ROW_LANES;
    const int row = min((int)threadIdx.x / ROW_LANES, ROWS - 1);
    const bool in_tile = threadIdx.x < ROW_LANES * ROWS;
    // the first output column of the block, of this lane
    const int q_first = blockIdx.x * (ROW_LANES * COLUMNS), q = q_first + place * COLUMNS;
    // this lane's part of the patch, its plane's filter
    const float* own = patches + place * COLUMNS;
    const float* filter = filters;
    const index_t planes = (index_t)N * K;

    // z counts the groups of planes that a block works on at a time
    for (index_t z = blockIdx.z; z < planes; z += gridDim.z) {
        const index_t plane_first = z, made = plane_first;                         // of the block, of this lane
        __syncthreads();                                               // all have used what was there before
        // the filters of the block's planes, zeros after each row of them
        for (int i = threadIdx.x; i < R * FILTER_PITCH; i += THREADS) {
            const int of = i / (R * FILTER_PITCH), r = i / FILTER_PITCH % R, s = i % FILTER_PITCH;
            const int k = (int)(min(plane_first + of, planes - 1) % K);
            filters[of * FILTER_PLANE + r * FILTER_PITCH + s] = s < S ? __ldg(w + (index_t)k * (R * S) + r * S + s)
                : 0.0f;
        }
        for (int p_first = blockIdx.y * ROWS; p_first < P; p_first += gridDim.y * ROWS) {
            // input row at which the tile's windows and its patch begin
            const int h_first = p_first - PAD_TOP;
            if (p_first != blockIdx.y * ROWS) __syncthreads();     // all have used the tile's before
            // the patch of each plane with what stands outside of the image
#pragma unroll 4
            for (int i = threadIdx.x; i < PATCH_ROWS * ROW_VECTORS; i += THREADS) {
                const int of = i / (PATCH_ROWS * ROW_VECTORS), line = i / ROW_VECTORS % PATCH_ROWS;
                const int column = i % ROW_VECTORS * VECTOR;
                const int h = at_border(h_first + line, H), w_column = q_first - MARGIN + column;
                const index_t staged = plane_first + of;
                float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                const float* from = x + ((staged / K * K + staged % K) * H + h) * W + w_column;
                if ((unsigned)w_column < (unsigned)W && staged < planes) {
                    value = __ldg((const float4*)from);
                } else if (staged < planes && w_column - W < 2) {
                    value.x = __ldg(from - w_column + at_border(w_column, W));
                    value.y = __ldg(from - w_column + at_border(w_column + 1, W));
                    value.z = __ldg(from - w_column + at_border(w_column + 2, W));
                    value.w = __ldg(from - w_column + at_border(w_column + 3, W));
                }
                *(float4*)(patches + of * PLANE + line * PITCH + column) = value;
            }
            __syncthreads();

            float acc_c0 = 0.0f, acc_c1 = 0.0f, acc_c2 = 0.0f, acc_c3 = 0.0f,
                  acc_c4 = 0.0f, acc_c5 = 0.0f, acc_c6 = 0.0f, acc_c7 = 0.0f;
            int h = h_first + row;
#pragma unroll 1
            for (int r = 0; r < R; ++r, h += DILATION_H) {
                const float* line = own + (h - h_first) * PITCH;
                const float* taps = filter + r * FILTER_PITCH;
                const float4 in_0 = *(const float4*)(line);
                const float4 in_4 = *(const float4*)(line + 4);
                const float4 in_8 = *(const float4*)(line + 8);
                const float4 in_12 = *(const float4*)(line + 12);
                // filter columns 0 to 3
                const float4 w_0 = *(const float4*)(taps);
                acc_c0 = fmaf(in_0.z, w_0.x, acc_c0); acc_c1 = fmaf(in_0.w, w_0.x, acc_c1);
                acc_c2 = fmaf(in_4.x, w_0.x, acc_c2); acc_c3 = fmaf(in_4.y, w_0.x, acc_c3);
                acc_c4 = fmaf(in_4.z, w_0.x, acc_c4); acc_c5 = fmaf(in_4.w, w_0.x, acc_c5);
                acc_c6 = fmaf(in_8.x, w_0.x, acc_c6); acc_c7 = fmaf(in_8.y, w_0.x, acc_c7);
                acc_c0 = fmaf(in_0.w, w_0.y, acc_c0); acc_c1 = fmaf(in_4.x, w_0.y, acc_c1);
                acc_c2 = fmaf(in_4.y, w_0.y, acc_c2); acc_c3 = fmaf(in_4.z, w_0.y, acc_c3);
                acc_c4 = fmaf(in_4.w, w_0.y, acc_c4); acc_c5 = fmaf(in_8.x, w_0.y, acc_c5);
                acc_c6 = fmaf(in_8.y, w_0.y, acc_c6); acc_c7 = fmaf(in_8.z, w_0.y, acc_c7);
                acc_c0 = fmaf(in_4.x, w_0.z, acc_c0); acc_c1 = fmaf(in_4.y, w_0.z, acc_c1);
                acc_c2 = fmaf(in_4.z, w_0.z, acc_c2); acc_c3 = fmaf(in_4.w, w_0.z, acc_c3);
                acc_c4 = fmaf(in_8.x, w_0.z, acc_c4); acc_c5 = fmaf(in_8.y, w_0.z, acc_c5);
                acc_c6 = fmaf(in_8.z, w_0.z, acc_c6); acc_c7 = fmaf(in_8.w, w_0.z, acc_c7);
                acc_c0 = fmaf(in_4.y, w_0.w, acc_c0); acc_c1 = fmaf(in_4.z, w_0.w, acc_c1);
                acc_c2 = fmaf(in_4.w, w_0.w, acc_c2); acc_c3 = fmaf(in_8.x, w_0.w, acc_c3);
                acc_c4 = fmaf(in_8.y, w_0.w, acc_c4); acc_c5 = fmaf(in_8.z, w_0.w, acc_c5);
                acc_c6 = fmaf(in_8.w, w_0.w, acc_c6); acc_c7 = fmaf(in_12.x, w_0.w, acc_c7);
                // filter column 4
                const float4 w_4 = *(const float4*)(taps + 4);
                acc_c0 = fmaf(in_4.z, w_4.x, acc_c0); acc_c1 = fmaf(in_4.w, w_4.x, acc_c1);
                acc_c2 = fmaf(in_8.x, w_4.x, acc_c2); acc_c3 = fmaf(in_8.y, w_4.x, acc_c3);
                acc_c4 = fmaf(in_8.z, w_4.x, acc_c4); acc_c5 = fmaf(in_8.w, w_4.x, acc_c5);
                acc_c6 = fmaf(in_12.x, w_4.x, acc_c6); acc_c7 = fmaf(in_12.y, w_4.x, acc_c7);
            }
            // the lane's outputs
            const int p = p_first + row;
            if (in_tile && p < P && made < planes) {
                float* out = y + (made * P + p) * Q + q;
                if (q < Q) *(float4*)(out) = make_float4(acc_c0, acc_c1, acc_c2, acc_c3);
                if (q + 4 < Q) *(float4*)(out + 4) = make_float4(acc_c4, acc_c5, acc_c6, acc_c7);
            }
        }
    }
}
