// warpconv 0.1.0: phases, float32. Generated from templates/phases/ring.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,16,H,W --filter 16,3,3 --stride 2,2 --padding 1 --padding-mode reflect --groups 16 \
//     --operation data_gradient --arch sm_90 --algorithm phases \
//     --set form=ring --set block_size_x=32 --set block_size_y=2 --set block_size_z=2 --set c_tile=1 \
//     --set across=1 --set rows=14 --set vector=1
//
// layer  x[N, 16, H, W] * w[16, 1, 3, 3] -> y[N, 16, P, Q], stride 2, padding 1 (reflect), groups 16, float32; its data
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread for 2 x 2 pixels of 1 channel, 32 x 2 x 2 threads a block
// cost   32 x 4 pixels of 1 channel: 2 warp loads, 0 shuffles, 9 FMA a lane, about 49 registers (direct: 9 loads)
//
// A thread goes down a column of tiles of the input's gradient, and keeps the filter and the rows of dy that a tile
// meets: the next tile's new row of dy is loaded before the products of this one. Each tap adds to the pixels of one
// phase of the stride. Here the padded image's gradient is made; fold_border() adds what stands in the border to the
// pixels it shows.
constexpr int C = 16;                           // input channels
constexpr int K = 16;                           // filters
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int MORE_ROWS = 2;                    // rows that it has beside the input's
constexpr int MORE_COLUMNS = 2;                 // columns that it has beside the input's
constexpr int TILE_H = 2;                       // rows of a tile
constexpr int TILE_W = 2;                       // columns of a tile
constexpr int C_TILE = 1;                       // channels a thread works on at a time
constexpr int C_TILES = 16;                     // tiles of channels
constexpr int BLOCK_X = 32;                     // threads of a block along columns
constexpr int BLOCK_Y = 2;                      // threads of a block along rows
constexpr int BLOCK_Z = 2;                      // planes of a block
constexpr int VECTOR = 1;                       // channels of a word of dy and of the input's gradient
constexpr int TILES = 14;                       // tiles that a thread makes, one below the other
constexpr int MET_ROWS = 2;                     // rows of dy that a tile meets
constexpr int FIRST_ROW = -1;                   // the first of them, from the tile's own row
constexpr int MET_COLUMNS = 2;                  // columns of dy that a tile meets
constexpr int FIRST_COLUMN = -1;                // the first of them, from the tile's own column
using index_t = int;                            // element offsets: of tensors below 2^31 elements

extern "C" __global__ void __launch_bounds__(128)
phases_3x3(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ padded, int N, int H, int W,
        int P, int Q) {
    const int height = H + MORE_ROWS, width = W + MORE_COLUMNS;    // of the image that is written
    const int column = blockIdx.x * BLOCK_X + threadIdx.x;         // of tiles
    if (column * TILE_W >= width) return;
    bool column_in[MET_COLUMNS];
#pragma unroll
    for (int j = 0; j < MET_COLUMNS; ++j) column_in[j] = (unsigned)(column + FIRST_COLUMN + j) < (unsigned)Q;
    for (index_t z = (index_t)blockIdx.z * BLOCK_Z + threadIdx.z; z < (index_t)N * C_TILES; z += gridDim.z * BLOCK_Z) {
        const index_t image = z / C_TILES;
        const int first = (int)(z % C_TILES), group = first;                           // channel, and its group
        const float* dy_column = dy + (image * K + group) * P * Q + (column + FIRST_COLUMN);
        float* written_column = padded + (image * C + first) * height * width + column * TILE_W;
        const index_t dy_row = Q, written_row = width;
        constexpr int WRITTEN_COLUMN = 1;
        const int block_row = blockIdx.y * BLOCK_Y + threadIdx.y, block_rows = gridDim.y * BLOCK_Y;
        const float* w_tile = w + (index_t)group * (R * S);
        float filter[C_TILE][R * S];
#pragma unroll
        for (int c = 0; c < C_TILE; ++c)
#pragma unroll
            for (int tap = 0; tap < R * S; ++tap) filter[c][tap] = __ldg(w_tile + c * (R * S) + tap);
        for (int top = block_row * TILES; top * TILE_H < height; top += block_rows * TILES) {
            float met[MET_ROWS][MET_COLUMNS][VECTOR];
            float next[MET_COLUMNS];
            auto load = [&](int p) __attribute__((always_inline)) {
                const bool row_in = (unsigned)p < (unsigned)P;
#pragma unroll
                for (int j = 0; j < MET_COLUMNS; ++j) next[j] = row_in && column_in[j]
                    ? __ldg((const float*)(dy_column + p * dy_row + j)) : (float)0;
            };
            auto keep = [&](float (&row)[MET_COLUMNS][VECTOR]) __attribute__((always_inline)) {
#pragma unroll
                for (int j = 0; j < MET_COLUMNS; ++j) {
                    row[j][0] = next[j];
                }
            };
#pragma unroll
            for (int i = 1; i < MET_ROWS; ++i) {
                load(top + FIRST_ROW + i - 1);
                keep(met[i]);
            }
            load(top + FIRST_ROW + MET_ROWS - 1);
#pragma unroll 2
            for (int row = top; row < top + TILES && row * TILE_H < height; ++row) {
#pragma unroll
                for (int i = 0; i < MET_ROWS - 1; ++i)
#pragma unroll
                    for (int j = 0; j < MET_COLUMNS; ++j)
#pragma unroll
                        for (int e = 0; e < VECTOR; ++e) met[i][j][e] = met[i + 1][j][e];
                keep(met[MET_ROWS - 1]);
                load(row + FIRST_ROW + MET_ROWS);
                float sums[C_TILE][TILE_H][TILE_W] = {};
                sums[0][0][0] = fmaf(met[1][1][0], filter[0][0], sums[0][0][0]);
                sums[0][0][1] = fmaf(met[1][1][0], filter[0][1], sums[0][0][1]);
                sums[0][0][0] = fmaf(met[1][0][0], filter[0][2], sums[0][0][0]);
                sums[0][1][0] = fmaf(met[1][1][0], filter[0][S], sums[0][1][0]);
                sums[0][1][1] = fmaf(met[1][1][0], filter[0][S + 1], sums[0][1][1]);
                sums[0][1][0] = fmaf(met[1][0][0], filter[0][S + 2], sums[0][1][0]);
                sums[0][0][0] = fmaf(met[0][1][0], filter[0][2 * S], sums[0][0][0]);
                sums[0][0][1] = fmaf(met[0][1][0], filter[0][2 * S + 1], sums[0][0][1]);
                sums[0][0][0] = fmaf(met[0][0][0], filter[0][2 * S + 2], sums[0][0][0]);
                float* written_tile = written_column + row * TILE_H * written_row;
                if (row * TILE_H < height) {
                    *(written_tile) = sums[0][0][0];
                    if (column * TILE_W + 1 < width) *(written_tile + WRITTEN_COLUMN) = sums[0][0][1];
                }
                if (row * TILE_H + 1 < height) {
                    *(written_tile + written_row) = sums[0][1][0];
                    if (column * TILE_W + 1 < width) *(written_tile + written_row + WRITTEN_COLUMN) = sums[0][1][1];
                }
            }
        }
    }
}

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

constexpr int BORDER_TOP = 1;                   // rows above the image
constexpr int BORDER_LEFT = 1;                  // columns to the left of it
constexpr int BORDER_ROWS = 2;                  // rows above and below it
constexpr int BORDER_COLUMNS = 2;               // columns to its left and right

// Row or column number `i` of those that may show pixel `own`: itself first, then those before the image, then those
// behind it.
__device__ __forceinline__ int candidate(int i, int own, int size, int before) {
    return i == 0 ? own : i <= before ? -i : size - 1 + i - before;
}

// dx: to each pixel what stands for it in the border is added, always in the same order.
extern "C" __global__ void __launch_bounds__(128)
fold_border(const float* __restrict__ padded, float* __restrict__ dx, int N, int H, int W) {
    const int width = W + BORDER_COLUMNS;
    const index_t x = (index_t)blockIdx.x * 128 + threadIdx.x;
    const int column = (int)x;
    if (column >= W) return;
    for (index_t z = blockIdx.z; z < (index_t)N * C; z += gridDim.z) {
        for (int row = blockIdx.y; row < H; row += gridDim.y) {
            float sum = 0.0f;
#pragma unroll 1
            for (int i = 0; i <= BORDER_ROWS; ++i) {
                const int u = candidate(i, row, H, BORDER_TOP);
                if (i > 0 && at_border(u, H) != row) continue;
#pragma unroll 1
                for (int j = 0; j <= BORDER_COLUMNS; ++j) {
                    const int v = candidate(j, column, W, BORDER_LEFT);
                    if (j > 0 && at_border(v, W) != column) continue;
                    sum += __ldg(padded + (z * (H + BORDER_ROWS) + u + BORDER_TOP) * width + v + BORDER_LEFT);
                }
            }
            dx[(z * H + row) * W + column] = sum;
        }
    }
}
