// warpconv 0.1.0: volume_filter, bfloat16. Generated from templates/volume/filter_lanes.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,D,H,W,32 --filter 32,3,3,3 --padding 1 --groups 32 --dtype bfloat16 --layout NHWC \
//     --operation filter_gradient --index-bits 32 --arch sm_90 --algorithm volume_filter \
//     --set form=lanes --set tap_planes=3 --set tap_rows=3 --set tap_columns=3 --set chunks=396 \
//     --set block_size_x=16 --set block_size_y=8 --set rows=1 --set columns=8 --set pieces=2 --set lane_vector=2 \
//     --set min_blocks=3
//
// layer  x[N, D, H, W, 32] * w[32, 1, 3, 3, 3] -> y[N, Z, P, Q, 32], stride 1, padding 1, groups 32, bfloat16 NHWC; its
//        filter gradient
//        N, D, H, W (and so Z, P, Q) are arguments; all else is a constant of the text
// plan   teams of 16 lanes with 2 channels each walk down the planes, each with 3 x 3 x 3 taps and 1 x 8 outputs of 3
//        planes, in 396 chunks; then the chunks' sums are added
// cost   32 x 16 outputs of a plane: 38 warp loads, 0 shuffles, 432 FMA a lane, about 166 registers (direct: 864 loads)
//
// A team of lanes walks down planes of the input. The output planes whose windows have a row are in registers, SLOTS of
// them; their products with it are added to the sums of the taps. At the end the teams of a block add up theirs into
// its row of parts; sum_parts() adds these rows.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 1;                     // input planes from one output to the next
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int TAP_PLANES = 3;                   // taps of a lane's channel
constexpr int TAP_ROWS = 3;                     // in filter rows
constexpr int TAP_COLUMNS = 3;                  // and columns
constexpr int CHUNKS = 396;                     // shares of the outputs, each summed by itself
constexpr int PIECES = 2;                       // of the depth at most, each walked by itself
constexpr int VECTOR = 2;                       // channels of a lane
constexpr int LANES = 16;                       // lanes of a team
constexpr int TEAM_CHANNELS = 32;               // channels of a team
constexpr int TEAMS = 8;                        // teams of a block, each with outputs of its own
constexpr int ROWS = 1;                         // output rows of a team
constexpr int COLUMNS = 8;                      // output columns of a team
constexpr int SLOTS = 3;                        // output planes in registers
constexpr int ROWS_READ = 3;                    // input rows that these outputs meet
constexpr int COLUMNS_READ = 10;                // input columns that these outputs meet
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
__device__ __forceinline__ unsigned short wc_float_to_bfloat16(float value) { unsigned short bits; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }

extern "C" __global__ void __launch_bounds__(128, 3)
volume_filter_3x3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy,
        float* __restrict__ parts, int N, int D, int H, int W, int Z, int P, int Q) {
    __shared__ float sums[TAP_PLANES * TAP_ROWS * TAP_COLUMNS * VECTOR][LANES];
    // first tap of this tile
    const int t_0 = blockIdx.z * TAP_PLANES;
    const int tiles_p = P, tiles_q = (Q + COLUMNS - 1) / COLUMNS;
    const index_t whole = (index_t)N * tiles_p * tiles_q;          // walks, if no depth is cut
    const int pieces = cut(whole, Z, min(PIECES, Z), CHUNKS * TEAMS);
    const int depth = (Z + pieces - 1) / pieces;
    for (int first = blockIdx.y * TEAM_CHANNELS; first < K_ALL; first += gridDim.y * TEAM_CHANNELS) {
        const int k = first + threadIdx.x * VECTOR;
        float sum[TAP_PLANES * TAP_ROWS * TAP_COLUMNS * VECTOR] = {};
        // jobs count images, pieces of the depth, and tiles of a plane together
        for (index_t job = k < K_ALL ? (index_t)blockIdx.x * TEAMS + threadIdx.y : whole * pieces; job < whole * pieces;
                job += CHUNKS * TEAMS) {
            const int q = (int)(job % tiles_q) * COLUMNS, p = (int)(job / tiles_q % tiles_p);
            const index_t walk = job / tiles_q / tiles_p, n = walk / pieces;
            const int z_0 = (int)(walk % pieces) * depth, z_end = min(Z, z_0 + depth);
            const unsigned short* x_channel = x + n * D * H * W * C_ALL + k;
            const unsigned short* dy_tile = dy + ((n * Z * P + p) * Q + q) * K_ALL + k;
            const int rows_left = P - p, columns_left = Q - q;     // of the team's outputs, those in a plane
            // the patch's first row and column
            const int h_0 = p - PAD_TOP, v_0 = q - PAD_LEFT;
            float gradient[SLOTS][ROWS][COLUMNS][VECTOR] = {};
#pragma unroll 1
            for (int z = z_0; z < z_end + SLOTS - 1; ++z) {        // the last output plane in registers
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
#pragma unroll
                    for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
                        for (int e = 0; e < VECTOR; ++e) {
#pragma unroll
                            for (int slot = 1; slot < SLOTS; ++slot) gradient[slot - 1][row][j][e] =
                                gradient[slot][row][j][e];
                        }
                        const bool made = z < z_end && row < rows_left && j < columns_left;
                        const unsigned short* from = dy_tile + ((index_t)z * P * Q + row * Q + j) * K_ALL;
                        const unsigned word = made ? __ldg((const unsigned*)from) : 0u;
                        gradient[SLOTS - 1][row][j][0] = __uint_as_float(word << 16);
                        gradient[SLOTS - 1][row][j][1] = __uint_as_float(word & 0xffff0000u);
                    }
                }
#pragma unroll
                for (int u = 0; u < STRIDE_D; ++u) {
                    const int d = z - PAD_FRONT + t_0 + u;
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
                        for (int r = 0; r < TAP_ROWS; ++r) {
                            // rows from the patch's first to the output's
                            const int above = i - r;
                            if (above < 0 || above >= ROWS) continue;
                            const int row = above;
#pragma unroll
                            for (int slot = 0; slot < SLOTS; ++slot) {
                                const int reach = (SLOTS - 1 - slot) + u;                  // from the window's begin
                                if (reach >= TAP_PLANES) continue;
#pragma unroll
                                for (int s = 0; s < TAP_COLUMNS; ++s) {
#pragma unroll
                                    for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
                                        for (int e = 0; e < VECTOR; ++e) {
                                            const int tap = ((reach * TAP_ROWS + r) * TAP_COLUMNS + s) * VECTOR + e;
                                            sum[tap] = fmaf(in[j + s][e], gradient[slot][row][j][e], sum[tap]);
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        // the teams' sums, one after the other
        for (int team = TEAMS - 1; team >= 0; --team) {
            if (threadIdx.y == team) {
#pragma unroll
                for (int i = 0; i < TAP_PLANES * TAP_ROWS * TAP_COLUMNS * VECTOR; ++i) {
                    const int tap = i / VECTOR, s = tap % TAP_COLUMNS;
                    const int t = t_0 + tap / (TAP_ROWS * TAP_COLUMNS), r = tap / TAP_COLUMNS % TAP_ROWS;
                    const float total = team == TEAMS - 1 ? sum[i] : sums[i][threadIdx.x] + sum[i];
                    if (team > 0) sums[i][threadIdx.x] = total;
                    else if (k + i % VECTOR < K_ALL && t < T && r < R) {
                        parts[((((long long)blockIdx.x * T + t) * R + r) * S + s) * K_ALL + k + i % VECTOR] = total;
                    }
                }
            }
            __syncthreads();
        }
    }
}

// The partial sums of all chunks, added in the same order in every run: thread y takes every 16th chunk.
extern "C" __global__ void __launch_bounds__(512)
sum_parts(const float* __restrict__ parts, unsigned short* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = 864;
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
        dw[i % K_ALL * (T * R * S) + i / K_ALL] = wc_float_to_bfloat16(sum);
    }
}
