// warpconv 0.1.0: phases, float16. Generated from templates/phases/ring.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,16 --filter 16,5,5 --stride 2,2 --padding 2 --groups 16 --dtype float16 \
//     --layout NHWC --operation data_gradient --arch sm_90 --algorithm phases \
//     --set form=ring --set block_size_x=8 --set block_size_y=16 --set block_size_z=1 --set c_tile=1 \
//     --set across=1 --set rows=14 --set vector=2
//
// layer  x[N, H, W, 16] * w[16, 1, 5, 5] -> y[N, P, Q, 16], stride 2, padding 2, groups 16, float16 NHWC; its data
//        gradient
//        N, H, W (and so P, Q) are arguments; all else is a constant of the text
// plan   one thread for 2 x 2 pixels of 2 channels, 8 x 16 x 1 threads a block
// cost   32 x 4 pixels of 2 channels: 3 warp loads, 0 shuffles, 50 FMA a lane, about 108 registers (direct: 25 loads)
//
// A thread goes down a column of tiles of the input's gradient, and keeps the filter and the rows of dy that a tile
// meets: the next tile's new row of dy is loaded before the products of this one. Each tap adds to the pixels of one
// phase of the stride.
constexpr int C = 16;                           // input channels
constexpr int K = 16;                           // filters
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int TILE_H = 2;                       // rows of a tile
constexpr int TILE_W = 2;                       // columns of a tile
constexpr int C_TILE = 2;                       // channels a thread works on at a time
constexpr int C_TILES = 8;                      // tiles of channels
constexpr int BLOCK_X = 8;                      // threads of a block along channels
constexpr int BLOCK_Y = 16;                     // threads of a block along columns
constexpr int VECTOR = 2;                       // channels of a word of dy and of the input's gradient
constexpr int TILES = 14;                       // tiles that a thread makes, one below the other
constexpr int MET_ROWS = 3;                     // rows of dy that a tile meets
constexpr int FIRST_ROW = -1;                   // the first of them, from the tile's own row
constexpr int MET_COLUMNS = 3;                  // columns of dy that a tile meets
constexpr int FIRST_COLUMN = -1;                // the first of them, from the tile's own column
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

extern "C" __global__ void __launch_bounds__(128)
phases_5x5(const unsigned short* __restrict__ dy, const unsigned short* __restrict__ w, unsigned short* __restrict__ dx,
        int N, int H, int W, int P, int Q) {
    const int height = H, width = W;                               // of the image that is written
    constexpr int C_BLOCKS = (C_TILES + BLOCK_X - 1) / BLOCK_X;
    const int column = blockIdx.x * BLOCK_Y + threadIdx.y;         // of tiles
    if (column * TILE_W >= width) return;
    bool column_in[MET_COLUMNS];
#pragma unroll
    for (int j = 0; j < MET_COLUMNS; ++j) column_in[j] = (unsigned)(column + FIRST_COLUMN + j) < (unsigned)Q;
    for (index_t z = blockIdx.z; z < (index_t)N * C_BLOCKS; z += gridDim.z) {
        const index_t image = z / C_BLOCKS;
        const int first = ((int)(z % C_BLOCKS) * BLOCK_X + threadIdx.x) * C_TILE;      // channel
        if (first >= C) continue;
        const int group = first;
        const unsigned short* dy_column = dy + (image * P * Q + column + FIRST_COLUMN) * K + group;
        unsigned short* written_column = dx + (image * height * width + column * TILE_W) * C + first;
        const index_t dy_row = (index_t)Q * K, written_row = (index_t)width * C;
        constexpr int DY_COLUMN = K, WRITTEN_COLUMN = C;
        const int block_row = blockIdx.y, block_rows = gridDim.y;
        const unsigned short* w_tile = w + (index_t)group * (R * S);
        float filter[C_TILE][R * S];
#pragma unroll
        for (int c = 0; c < C_TILE; ++c)
#pragma unroll
            for (int tap = 0; tap < R * S; ++tap) filter[c][tap] = wc_half_to_float(__ldg(w_tile + c * (R * S) + tap));
        for (int top = block_row * TILES; top * TILE_H < height; top += block_rows * TILES) {
            float met[MET_ROWS][MET_COLUMNS][VECTOR];
            unsigned next[MET_COLUMNS];
            auto load = [&](int p) __attribute__((always_inline)) {
                const bool row_in = (unsigned)p < (unsigned)P;
#pragma unroll
                for (int j = 0; j < MET_COLUMNS; ++j) next[j] = row_in && column_in[j]
                    ? __ldg((const unsigned*)(dy_column + p * dy_row + j * DY_COLUMN)) : (unsigned)0;
            };
            auto keep = [&](float (&row)[MET_COLUMNS][VECTOR]) __attribute__((always_inline)) {
#pragma unroll
                for (int j = 0; j < MET_COLUMNS; ++j) {
                    row[j][0] = wc_half_low_to_float(next[j]);
                    row[j][1] = wc_half_high_to_float(next[j]);
                }
            };
#pragma unroll
            for (int i = 1; i < MET_ROWS; ++i) {
                load(top + FIRST_ROW + i - 1);
                keep(met[i]);
            }
            load(top + FIRST_ROW + MET_ROWS - 1);
#pragma unroll 3
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
                sums[0][0][0] = fmaf(met[2][2][0], filter[0][0], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[2][2][1], filter[1][0], sums[1][0][0]);
                sums[0][0][1] = fmaf(met[2][2][0], filter[0][1], sums[0][0][1]);
                sums[1][0][1] = fmaf(met[2][2][1], filter[1][1], sums[1][0][1]);
                sums[0][0][0] = fmaf(met[2][1][0], filter[0][2], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[2][1][1], filter[1][2], sums[1][0][0]);
                sums[0][0][1] = fmaf(met[2][1][0], filter[0][3], sums[0][0][1]);
                sums[1][0][1] = fmaf(met[2][1][1], filter[1][3], sums[1][0][1]);
                sums[0][0][0] = fmaf(met[2][0][0], filter[0][4], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[2][0][1], filter[1][4], sums[1][0][0]);
                sums[0][1][0] = fmaf(met[2][2][0], filter[0][S], sums[0][1][0]);
                sums[1][1][0] = fmaf(met[2][2][1], filter[1][S], sums[1][1][0]);
                sums[0][1][1] = fmaf(met[2][2][0], filter[0][S + 1], sums[0][1][1]);
                sums[1][1][1] = fmaf(met[2][2][1], filter[1][S + 1], sums[1][1][1]);
                sums[0][1][0] = fmaf(met[2][1][0], filter[0][S + 2], sums[0][1][0]);
                sums[1][1][0] = fmaf(met[2][1][1], filter[1][S + 2], sums[1][1][0]);
                sums[0][1][1] = fmaf(met[2][1][0], filter[0][S + 3], sums[0][1][1]);
                sums[1][1][1] = fmaf(met[2][1][1], filter[1][S + 3], sums[1][1][1]);
                sums[0][1][0] = fmaf(met[2][0][0], filter[0][S + 4], sums[0][1][0]);
                sums[1][1][0] = fmaf(met[2][0][1], filter[1][S + 4], sums[1][1][0]);
                sums[0][0][0] = fmaf(met[1][2][0], filter[0][2 * S], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[1][2][1], filter[1][2 * S], sums[1][0][0]);
                sums[0][0][1] = fmaf(met[1][2][0], filter[0][2 * S + 1], sums[0][0][1]);
                sums[1][0][1] = fmaf(met[1][2][1], filter[1][2 * S + 1], sums[1][0][1]);
                sums[0][0][0] = fmaf(met[1][1][0], filter[0][2 * S + 2], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[1][1][1], filter[1][2 * S + 2], sums[1][0][0]);
                sums[0][0][1] = fmaf(met[1][1][0], filter[0][2 * S + 3], sums[0][0][1]);
                sums[1][0][1] = fmaf(met[1][1][1], filter[1][2 * S + 3], sums[1][0][1]);
                sums[0][0][0] = fmaf(met[1][0][0], filter[0][2 * S + 4], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[1][0][1], filter[1][2 * S + 4], sums[1][0][0]);
                sums[0][1][0] = fmaf(met[1][2][0], filter[0][3 * S], sums[0][1][0]);
                sums[1][1][0] = fmaf(met[1][2][1], filter[1][3 * S], sums[1][1][0]);
                sums[0][1][1] = fmaf(met[1][2][0], filter[0][3 * S + 1], sums[0][1][1]);
                sums[1][1][1] = fmaf(met[1][2][1], filter[1][3 * S + 1], sums[1][1][1]);
                sums[0][1][0] = fmaf(met[1][1][0], filter[0][3 * S + 2], sums[0][1][0]);
                sums[1][1][0] = fmaf(met[1][1][1], filter[1][3 * S + 2], sums[1][1][0]);
                sums[0][1][1] = fmaf(met[1][1][0], filter[0][3 * S + 3], sums[0][1][1]);
                sums[1][1][1] = fmaf(met[1][1][1], filter[1][3 * S + 3], sums[1][1][1]);
                sums[0][1][0] = fmaf(met[1][0][0], filter[0][3 * S + 4], sums[0][1][0]);
                sums[1][1][0] = fmaf(met[1][0][1], filter[1][3 * S + 4], sums[1][1][0]);
                sums[0][0][0] = fmaf(met[0][2][0], filter[0][4 * S], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[0][2][1], filter[1][4 * S], sums[1][0][0]);
                sums[0][0][1] = fmaf(met[0][2][0], filter[0][4 * S + 1], sums[0][0][1]);
                sums[1][0][1] = fmaf(met[0][2][1], filter[1][4 * S + 1], sums[1][0][1]);
                sums[0][0][0] = fmaf(met[0][1][0], filter[0][4 * S + 2], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[0][1][1], filter[1][4 * S + 2], sums[1][0][0]);
                sums[0][0][1] = fmaf(met[0][1][0], filter[0][4 * S + 3], sums[0][0][1]);
                sums[1][0][1] = fmaf(met[0][1][1], filter[1][4 * S + 3], sums[1][0][1]);
                sums[0][0][0] = fmaf(met[0][0][0], filter[0][4 * S + 4], sums[0][0][0]);
                sums[1][0][0] = fmaf(met[0][0][1], filter[1][4 * S + 4], sums[1][0][0]);
                unsigned short* written_tile = written_column + row * TILE_H * written_row;
                if (row * TILE_H < height) {
                    *(unsigned*)(written_tile) = wc_floats_to_halves(sums[0][0][0], sums[1][0][0]);
                    if (column * TILE_W + 1 < width) *(unsigned*)(written_tile + WRITTEN_COLUMN) =
                        wc_floats_to_halves(sums[0][0][1], sums[1][0][1]);
                }
                if (row * TILE_H + 1 < height) {
                    *(unsigned*)(written_tile + written_row) = wc_floats_to_halves(sums[0][1][0], sums[1][1][0]);
                    if (column * TILE_W + 1 < width) *(unsigned*)(written_tile + written_row + WRITTEN_COLUMN) =
                        wc_floats_to_halves(sums[0][1][1], sums[1][1][1]);
                }
            }
        }
    }
}
