// 5x5, no padding: a block of 32 x 8 threads brings its tile into shared memory; the filter into dynamic shared memory.
constexpr int COLUMNS = 32, ROWS = 8;

extern "C" __global__ void __launch_bounds__(COLUMNS * ROWS)
k(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, int H, int W) {
    extern __shared__ float filter[];
    __shared__ __align__(16) float tile[ROWS + 4][COLUMNS + 4];
    const int column = threadIdx.x, row = threadIdx.y, thread = row * COLUMNS + column;
    const int q0 = blockIdx.x * COLUMNS, p0 = blockIdx.y * ROWS;
    if (thread < 25) filter[thread] = w[thread];
    for (int i = row; i < ROWS + 4; i += ROWS)
        for (int j = column; j < COLUMNS + 4; j += COLUMNS) {
            const int h = p0 + i, v = q0 + j;
            tile[i][j] = h < H && v < W ? __ldg(&x[h * W + v]) : 0.0f;
        }
    __syncthreads();
    const int q = q0 + column, p = p0 + row, Q = W - 4, P = H - 4;
    if (q >= Q || p >= P) return;
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < 5; ++r)
#pragma unroll
        for (int s = 0; s < 5; ++s) sum = fmaf(tile[row + r][column + s], filter[r * 5 + s], sum);
    y[p * Q + q] = sum;
}
