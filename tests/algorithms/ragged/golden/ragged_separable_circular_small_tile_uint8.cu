// warpconv 0.1.0: ragged, uint8. Generated from templates/ragged/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,H,W --filter 1,9,7 --padding 4,3 --padding-mode circular --dtype uint8 \
//     --out-dtype float32 --operation ragged --separable --arch sm_90 --algorithm ragged \
//     --set tile_columns=32 --set tile_rows=16
//
// layer  x[N, 1, H, W] * w[1, 1, 9, 7] -> y[N, 1, P, Q], stride 1, padding 4,3 (circular), separable, uint8 to float32;
//        of planes of differing sizes
//        sizes and places of the planes stand in a table; all else is in the text
// plan   tiles of 32 x 16 outputs, 64 threads a block, a strip of 8 rows each; sizes and places of the planes from a
//        table, N is the number of tiles
// cost   32 x 8 outputs: 15 warp loads, 0 shuffles, 128 FMA a lane, about 56 registers (direct: 504 loads)
// note   16 reads of shared memory for 8 outputs
//
// One block makes a tile of one plane. Where the planes lie, and how large they are, stands in a table: row 0 says how
// many there are, each row after it describes one. The tile's input goes to shared memory, what stands outside of the
// image included; then each thread makes a strip of rows of one column, of rows that were filtered by themselves.
constexpr int R = 9;                            // filter rows
constexpr int S = 7;                            // filter columns
constexpr int TAPS = 16;                        // elements of a filter
constexpr int PAD_TOP = 4;                      // rows above the image
constexpr int PAD_LEFT = 3;                     // columns to the left of the image
constexpr int TILE_COLUMNS = 32;                // output columns of a block
constexpr int TILE_ROWS = 16;                   // output rows of a block
constexpr int STRIP = 8;                        // outputs of a thread
constexpr int STRIPS = 4;                       // strips of a row
constexpr int ROWS_IN = 24;                     // input rows of a tile
constexpr int PITCH = 39;                       // numbers from one row of the tile's input to the next
constexpr int LINES_PITCH = 33;                 // numbers from one filtered row to the next
constexpr int THREADS = 64;                     // threads of a block
constexpr int WARPS = 2;                        // warps of a block
constexpr int LOADS = 8;                        // loads of a thread on their way at a time
constexpr int FIELDS = 12;                      // numbers of a row of the table
constexpr int PLANE_X = 1;                      // its first pixel in x
constexpr int PLANE_Y = 2;                      // its first output in y
constexpr int PLANE_H = 4;                      // its rows
constexpr int PLANE_W = 5;                      // its columns
constexpr int PLANE_X_ROW = 6;                  // the distance of its rows in x
constexpr int PLANE_X_COLUMN = 7;               // of its columns in x
constexpr int PLANE_Y_ROW = 8;                  // of its rows in y
constexpr int PLANE_Y_COLUMN = 9;               // of its columns in y
constexpr int PLANE_FILTER = 10;                // the number of its filter

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: the image again.
__device__ __forceinline__ int at_border(int i, int size) {
#pragma unroll 1
    while (i < 0) i += size;
#pragma unroll 1
    while (i >= size) i -= size;
    return i;
}

extern "C" __global__ void __launch_bounds__(THREADS)
ragged_9x7(const unsigned char* __restrict__ x, const float* __restrict__ w, const long long* __restrict__ table,
        float* __restrict__ y) {
    __shared__ float tile[ROWS_IN * PITCH];
    __shared__ float lines[ROWS_IN * LINES_PITCH];         // the tile's input rows, filtered
    // the plane that has this block's tile: the last one whose first tile is not behind it
    int plane = 1, behind = (int)__ldg(table) + 1;
    while (behind - plane > 1) {
        const int middle = (plane + behind) / 2;
        if (__ldg(table + (long long)middle * FIELDS) <= (long long)blockIdx.x) plane = middle;
        else behind = middle;
    }
    const long long* place = table + (long long)plane * FIELDS;
    const int H = (int)__ldg(place + PLANE_H), W = (int)__ldg(place + PLANE_W);
    // the tile's place in the plane, and how much of its input there is to read; strips are whole
    const int number = (int)((long long)blockIdx.x - __ldg(place));
    const int across = (W + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const int p_first = number / across * TILE_ROWS, q_first = number % across * TILE_COLUMNS;
    const int rows = min(TILE_ROWS, (H - p_first + STRIP - 1) / STRIP * STRIP) + R - 1;
    const int columns = min(TILE_COLUMNS, (W - q_first + STRIP - 1) / STRIP * STRIP) + S - 1;

    const unsigned char* x_plane = x + __ldg(place + PLANE_X);
    const long long x_row = __ldg(place + PLANE_X_ROW), x_column = __ldg(place + PLANE_X_COLUMN);
    const int thread = threadIdx.y * TILE_COLUMNS + threadIdx.x;
    for (int column = thread % 32; column < columns; column += 32) {
        const int w_in = at_border(q_first - PAD_LEFT + column, W);
        const unsigned char* x_top = x_plane + w_in * x_column;
        for (int top = thread / 32; top < rows; top += LOADS * WARPS) {
            float in[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                const int h = at_border(p_first - PAD_TOP + top + i * WARPS, H);
                in[i] = (float)__ldg(x_top + h * x_row);
            }
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                if (top + i * WARPS < rows) tile[(top + i * WARPS) * PITCH + column] = in[i];
            }
        }
    }
    const float* filter = w + __ldg(place + PLANE_FILTER) * TAPS;
    __syncthreads();

    // lanes go down the rows, each makes a strip of columns
    for (int job = thread; job < ROWS_IN * STRIPS; job += THREADS) {
        const int row = job % ROWS_IN, first = job / ROWS_IN * STRIP;
        if (row >= rows || first + S - 1 >= columns) continue;
        float in[STRIP + S - 1], acc[STRIP] = {};
#pragma unroll
        for (int i = 0; i < STRIP + S - 1; ++i) in[i] = tile[row * PITCH + first + i];
#pragma unroll
        for (int s = 0; s < S; ++s) {
            const float weight = __ldg(filter + R + s);
#pragma unroll
            for (int i = 0; i < STRIP; ++i) acc[i] = fmaf(in[i + s], weight, acc[i]);
        }
#pragma unroll
        for (int i = 0; i < STRIP; ++i) lines[row * LINES_PITCH + first + i] = acc[i];
    }
    __syncthreads();

    const int column = threadIdx.x, strip = threadIdx.y * STRIP;
    const int p = p_first + strip, q = q_first + column;
    if (p >= H || q >= W) return;
    float acc[STRIP] = {};
    float in[STRIP + R - 1];
#pragma unroll
    for (int i = 0; i < STRIP + R - 1; ++i) in[i] = lines[(strip + i) * LINES_PITCH + column];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const float weight = __ldg(filter + r);
#pragma unroll
        for (int i = 0; i < STRIP; ++i) acc[i] = fmaf(in[i + r], weight, acc[i]);
    }
    const long long y_row = __ldg(place + PLANE_Y_ROW), offset = p * y_row + q * __ldg(place + PLANE_Y_COLUMN);
    float* y_pixel = y + __ldg(place + PLANE_Y) + offset;
#pragma unroll
    for (int i = 0; i < STRIP; ++i) {
        if (p + i < H) y_pixel[i * y_row] = acc[i];
    }
}
