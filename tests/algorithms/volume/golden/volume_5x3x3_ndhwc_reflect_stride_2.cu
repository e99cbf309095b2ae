// warpconv 0.1.0: volume, float32. Generated from templates/volume/lanes.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,32 --filter 32,5,3,3 --stride 2,2,2 --padding 2,1,1 --padding-mode reflect \
//     --groups 32 --layout NHWC --epilogue relu --index-bits 32 --arch sm_90 --algorithm volume \
//     --set form=lanes --set block_size_x=32 --set block_size_y=4 --set rows=1 --set columns=2 --set chunks=1 \
//     --set lane_vector=1 --set tap_rows=unrolled --set min_blocks=3
//
// layer  x[N, D, H, W, 32] * w[32, 1, 5, 3, 3] -> y[N, Z, P, Q, 32], stride 2, padding 2,1,1 (reflect), groups 32,
//        float32 NHWC, then relu
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   teams of 32 lanes with a channel each walk down the planes, each with 1 x 2 outputs in 3 output planes, 4
//        teams a block
// cost   32 x 2 outputs of a plane: 15 warp loads, 0 shuffles, 90 FMA a lane, about 136 registers (direct: 90 loads)
//
// A team of lanes walks down the planes of a chunk of the depth. Each row of a plane is added to the SLOTS output
// planes whose windows have it; the first of them is complete then, and stored.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int T = 5;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 2;                     // input planes from one output to the next
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_FRONT = 2;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int VECTOR = 1;                       // channels of a lane
constexpr int LANES = 32;                       // lanes of a team
constexpr int TEAM_CHANNELS = 32;               // channels of a team
constexpr int TEAMS = 4;                        // teams of a block, each with outputs of its own
constexpr int ROWS = 1;                         // output rows of a team
constexpr int COLUMNS = 2;                      // output columns of a team
constexpr int SLOTS = 3;                        // output planes in registers
constexpr int ROWS_READ = 3;                    // input rows that these outputs meet
constexpr int COLUMNS_READ = 5;                 // input columns that these outputs meet
// floats from tap to tap in shared memory: those of a team, spread over its banks
constexpr int PITCH = 33;
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

extern "C" __global__ void __launch_bounds__(128, 3)
volume_5x3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int D, int H,
        int W, int Z, int P, int Q) {
    extern __shared__ float taps[];         // of a team's channels, tap by tap
    const int tiles_p = P, tiles_q = (Q + COLUMNS - 1) / COLUMNS;
    const index_t whole = (index_t)N * tiles_p * tiles_q;          // walks, if no depth is cut
    const int depth = Z;
    for (int first = blockIdx.y * TEAM_CHANNELS; first < K_ALL; first += gridDim.y * TEAM_CHANNELS) {
        __syncthreads();
        for (int i = threadIdx.y * LANES + threadIdx.x; i < T * R * S * TEAM_CHANNELS; i += TEAMS * LANES) {
            const int channel = i / (T * R * S);       // of the team; lanes side by side load taps side by side
            taps[i % (T * R * S) * PITCH + channel] = first + channel < K_ALL
                ? __ldg(w + (index_t)first * (T * R * S) + i) : 0.0f;
        }
        __syncthreads();
        const int k = first + threadIdx.x;
        if (k >= K_ALL) continue;
        const float* tap = taps + threadIdx.x;
        // jobs count images, chunks of the depth, and tiles of a plane together
        for (index_t job = (index_t)blockIdx.x * TEAMS + threadIdx.y; job < whole; job += (index_t)gridDim.x * TEAMS) {
            const int q = (int)(job % tiles_q) * COLUMNS, p = (int)(job / tiles_q % tiles_p);
            const index_t walk = job / tiles_q / tiles_p, n = walk;
            const int z_0 = 0, z_end = min(Z, depth);
            const float* x_channel = x + n * D * H * W * C_ALL + k;
            // the patch's first row and column
            const int h_0 = p * STRIDE_H - PAD_TOP, v_0 = q * STRIDE_W - PAD_LEFT;
            float sum[SLOTS][ROWS][COLUMNS][VECTOR] = {};
#pragma unroll 1
            for (int z = z_0 - SLOTS + 1; z < z_end; ++z) {        // the output plane that is complete then
                // the first of the input planes that are added now
                const int d_0 = (z + SLOTS - 1) * STRIDE_D - PAD_FRONT;
#pragma unroll
                for (int u = 0; u < STRIDE_D; ++u) {
                    const int d = at_border(d_0 + u, D);
#pragma unroll
                    for (int i = 0; i < ROWS_READ; ++i) {
                        const int h = at_border(h_0 + i, H);
                        const float* x_row = x_channel + ((index_t)d * H + h) * W * C_ALL;
                        float in[COLUMNS_READ][VECTOR];
#pragma unroll
                        for (int j = 0; j < COLUMNS_READ; ++j) {
                            const int column = at_border(v_0 + j, W);
                            const float* pixel = x_row + (index_t)column * C_ALL;
                            in[j][0] = __ldg(pixel);
                        }
#pragma unroll
                        for (int r = 0; r < R; ++r) {
                            // rows from the patch's first to the output's
                            const int above = i - r;
                            if (above < 0 || above % STRIDE_H != 0 || above / STRIDE_H >= ROWS) continue;
                            const int row = above / STRIDE_H;
#pragma unroll
                            for (int slot = 0; slot < SLOTS; ++slot) {
                                // planes from the window's first
                                const int reach = (SLOTS - 1 - slot) * STRIDE_D + u;
                                if (reach >= T) continue;
#pragma unroll
                                for (int s = 0; s < S; ++s) {
#pragma unroll
                                    for (int e = 0; e < VECTOR; ++e) {
                                        const float weight = tap[((reach * R + r) * S + s) * PITCH + e];
#pragma unroll
                                        for (int j = 0; j < COLUMNS; ++j)
                                            sum[slot][row][j][e] =
                                                fmaf(in[j * STRIDE_W + s][e], weight, sum[slot][row][j][e]);
                                    }
                                }
                            }
                        }
                    }
                }
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j) {
                        if (z >= z_0 && p + row < P && q + j < Q) {
                            const index_t at = (((n * Z + z) * P + p + row) * Q + q + j) * K_ALL + k;
                            y[at] = finish(sum[0][row][j][0]);
                        }
#pragma unroll
                        for (int e = 0; e < VECTOR; ++e) {
#pragma unroll
                            for (int slot = 1; slot < SLOTS; ++slot) sum[slot - 1][row][j][e] = sum[slot][row][j][e];
                            sum[SLOTS - 1][row][j][e] = 0.0f;
                        }
                    }
                }
            }
        }
    }
}
