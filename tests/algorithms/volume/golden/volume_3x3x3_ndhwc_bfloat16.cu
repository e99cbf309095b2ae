// warpconv 0.1.0: volume, bfloat16. Generated from templates/volume/lanes.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,32 --filter 32,3,3,3 --padding 1 --groups 32 --dtype bfloat16 --layout NHWC \
//     --epilogue relu --index-bits 32 --arch sm_90 --algorithm volume \
//     --set form=lanes --set block_size_x=16 --set block_size_y=8 --set rows=1 --set columns=2 --set chunks=2 \
//     --set lane_vector=2 --set tap_rows=unrolled --set min_blocks=7
//
// layer  x[N, D, H, W, 32] * w[32, 1, 3, 3, 3] -> y[N, Z, P, Q, 32], stride 1, padding 1, groups 32, bfloat16 NHWC,
//        then relu
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   teams of 16 lanes with 2 channels each walk down the planes, each with 1 x 2 outputs in 3 output planes, 8
//        teams a block
// cost   32 x 4 outputs of a plane: 12 warp loads, 0 shuffles, 108 FMA a lane, about 72 registers (direct: 108 loads)
//
// A team of lanes walks down the planes of a chunk of the depth. Each row of a plane is added to the SLOTS output
// planes whose windows have it; the first of them is complete then, and stored.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 1;                     // input planes from one output to the next
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int CHUNKS = 2;                       // of the depth at most
constexpr int FILLED = 7392;                    // teams of the same channels that the chip holds at a time
constexpr int VECTOR = 2;                       // channels of a lane
constexpr int LANES = 16;                       // lanes of a team
constexpr int TEAM_CHANNELS = 32;               // channels of a team
constexpr int TEAMS = 8;                        // teams of a block, each with outputs of its own
constexpr int ROWS = 1;                         // output rows of a team
constexpr int COLUMNS = 2;                      // output columns of a team
constexpr int SLOTS = 3;                        // output planes in registers
constexpr int ROWS_READ = 3;                    // input rows that these outputs meet
constexpr int COLUMNS_READ = 4;                 // input columns that these outputs meet
// floats from tap to tap in shared memory: those of a team, spread over its banks
constexpr int PITCH = 34;
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// Into how many pieces each of so many walks down `planes` output planes is cut, 1, 2, 4 ... up to `most`: as many as
// make the teams or blocks go through the fewest planes one after the other, of which `together` work at a time.
__device__ __forceinline__ int cut(index_t walks, int planes, int most, int together) {
    index_t least = (walks + together - 1) / together * (planes + SLOTS - 1);
    int found = 1;
#pragma unroll 1
    for (int tried = 2; tried <= most; tried *= 2) {
        const index_t taken = (walks * tried + together - 1) / together * ((planes + tried - 1) / tried + SLOTS - 1);
        if (taken < least) {
            least = taken;
            found = tried;
        }
    }
    return found;
}

// bfloat16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_bfloat16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) { unsigned word; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: relu.
__device__ __forceinline__ float finish(float value) {
    value = value < 0.0f ? 0.0f : value;
    return value;
}

extern "C" __global__ void __launch_bounds__(128, 7)
volume_3x3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w, unsigned short* __restrict__ y,
        int N, int D, int H, int W, int Z, int P, int Q) {
    extern __shared__ float taps[];         // of a team's channels, tap by tap
    const int tiles_p = P, tiles_q = (Q + COLUMNS - 1) / COLUMNS;
    const index_t whole = (index_t)N * tiles_p * tiles_q;          // walks, if no depth is cut
    const int chunks = cut(whole, Z, min(CHUNKS, Z), FILLED), depth = (Z + chunks - 1) / chunks;
    for (int first = blockIdx.y * TEAM_CHANNELS; first < K_ALL; first += gridDim.y * TEAM_CHANNELS) {
        __syncthreads();
        for (int i = threadIdx.y * LANES + threadIdx.x; i < T * R * S * TEAM_CHANNELS; i += TEAMS * LANES) {
            const int channel = i / (T * R * S);       // of the team; lanes side by side load taps side by side
            taps[i % (T * R * S) * PITCH + channel] = first + channel < K_ALL
                ? wc_bfloat16_to_float(__ldg(w + (index_t)first * (T * R * S) + i)) : 0.0f;
        }
        __syncthreads();
        const int k = first + threadIdx.x * VECTOR;
        if (k >= K_ALL) continue;
        const float* tap = taps + threadIdx.x * VECTOR;
        // jobs count images, chunks of the depth, and tiles of a plane together
        for (index_t job = (index_t)blockIdx.x * TEAMS + threadIdx.y; job < whole * chunks;
                job += (index_t)gridDim.x * TEAMS) {
            const int q = (int)(job % tiles_q) * COLUMNS, p = (int)(job / tiles_q % tiles_p);
            const index_t walk = job / tiles_q / tiles_p, n = walk / chunks;
            const int z_0 = (int)(walk % chunks) * depth, z_end = min(Z, z_0 + depth);
            const unsigned short* x_channel = x + n * D * H * W * C_ALL + k;
            // the patch's first row and column
            const int h_0 = p - PAD_TOP, v_0 = q - PAD_LEFT;
            float sum[SLOTS][ROWS][COLUMNS][VECTOR] = {};
#pragma unroll 1
            for (int z = z_0 - SLOTS + 1; z < z_end; ++z) {        // the output plane that is complete then
                // the first of the input planes that are added now
                const int d_0 = (z + SLOTS - 1) - PAD_FRONT;
                if (d_0 > -STRIDE_D && d_0 < D) {        // zeros outside add nothing
#pragma unroll
                    for (int u = 0; u < STRIDE_D; ++u) {
                        const int d = d_0 + u;
#pragma unroll
                        for (int i = 0; i < ROWS_READ; ++i) {
                            const int h = h_0 + i;
                            const bool row_inside = (unsigned)d < (unsigned)D && (unsigned)h < (unsigned)H;
                            const unsigned short* x_row = x_channel + ((index_t)d * H + h) * W * C_ALL;
                            float in[COLUMNS_READ][VECTOR];
#pragma unroll
                            for (int j = 0; j < COLUMNS_READ; ++j) {
                                const int column = v_0 + j;
                                const unsigned short* pixel = x_row + (index_t)column * C_ALL;
                                const bool inside = row_inside && (unsigned)column < (unsigned)W;
                                const unsigned word = inside ? __ldg((const unsigned*)pixel) : 0u;
                                in[j][0] = __uint_as_float(word << 16);
                                in[j][1] = __uint_as_float(word & 0xffff0000u);
                            }
#pragma unroll
                            for (int r = 0; r < R; ++r) {
                                // rows from the patch's first to the output's
                                const int above = i - r;
                                if (above < 0 || above >= ROWS) continue;
                                const int row = above;
#pragma unroll
                                for (int slot = 0; slot < SLOTS; ++slot) {
                                    // planes from the window's first
                                    const int reach = (SLOTS - 1 - slot) + u;
                                    if (reach >= T) continue;
#pragma unroll
                                    for (int s = 0; s < S; ++s) {
#pragma unroll
                                        for (int e = 0; e < VECTOR; ++e) {
                                            const float weight = tap[((reach * R + r) * S + s) * PITCH + e];
#pragma unroll
                                            for (int j = 0; j < COLUMNS; ++j)
                                                sum[slot][row][j][e] = fmaf(in[j + s][e], weight, sum[slot][row][j][e]);
                                        }
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
                            *(unsigned*)(y + at) =
                                wc_floats_to_bfloat16s(finish(sum[0][row][j][0]), finish(sum[0][row][j][1]));
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
