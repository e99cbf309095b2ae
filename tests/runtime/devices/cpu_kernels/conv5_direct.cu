// 5x5, no padding: every thread loads its own 25 elements.
extern "C" __global__ void k(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, int H,
                             int W) {
    const int q = blockIdx.x * blockDim.x + threadIdx.x;
    const int p = blockIdx.y * blockDim.y + threadIdx.y;
    const int Q = W - 4, P = H - 4;
    if (q >= Q || p >= P) return;
    float sum = 0.0f;
    for (int r = 0; r < 5; ++r)
        for (int s = 0; s < 5; ++s) sum = fmaf(x[(p + r) * W + q + s], w[r * 5 + s], sum);
    y[p * Q + q] = sum;
}
