// warpconv 0.1.0: volume_filter, float16. Generated from templates/volume/filter_march.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,D,H,W --filter 32,3,3,3 --padding 1 --groups 32 --dtype float16 \
//     --operation filter_gradient --index-bits 32 --arch sm_90 --algorithm volume_filter \
//     --set form=march --set tap_planes=3 --set tap_rows=3 --set tap_columns=3 --set chunks=16 \
//     --set block_size_x=16 --set block_size_y=8 --set rows=2 --set columns=4 --set pieces=4 --set stages=2 \
//     --set vector=4 --set load_vector=4 --set min_blocks=4
//
// layer  x[N, 32, D, H, W] * w[32, 1, 3, 3, 3] -> y[N, 32, Z, P, Q], stride 1, padding 1, groups 32, float16; its
//        filter gradient
//        N, D, H, W (and so Z, P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of
//        the text
// plan   blocks of 16 x 8 threads walk down the planes, each with 3 x 3 x 3 taps of a filter's channel and 2 x 4
//        outputs of 3 planes, in 16 chunks; then the chunks' sums are added
// cost   32 x 8 outputs of a plane: 5 warp loads, 0 shuffles, 216 FMA a lane, about 104 registers (direct: 432 loads)
//
// A block walks down planes of the input, each of which is in shared memory once. The output planes whose windows have
// it are in registers, SLOTS of them; their products with it are added to the sums of the taps. At the end the block's
// threads add up theirs into its row of parts; sum_parts() adds these rows.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 1;                     // input planes from one output to the next
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int TAP_PLANES = 3;                   // taps of a thread
constexpr int TAP_ROWS = 3;                     // in filter rows
constexpr int TAP_COLUMNS = 3;                  // and columns
constexpr int CHUNKS = 16;                      // shares of the outputs, each summed by itself
constexpr int PIECES = 4;                       // of the depth at most, each walked by itself
constexpr int BLOCK_X = 16;                     // threads of a block along columns
constexpr int THREADS = 128;                    // of a block
constexpr int WARPS = THREADS / 32;             // of a block
constexpr int ROWS = 2;                         // output rows of a thread
constexpr int COLUMNS = 4;                      // output columns of a thread
constexpr int DOWN = THREADS / BLOCK_X * ROWS;  // output rows of a block
constexpr int ACROSS = BLOCK_X * COLUMNS;       // output columns of a block
constexpr int SLOTS = 3;                        // output planes in registers
constexpr int TILE_ROWS = 18;                   // rows of a plane that a block's outputs meet
constexpr int PITCH = 72;                       // elements from one row of the tile to the next
constexpr int TILE = TILE_ROWS * PITCH;         // elements of a tile
constexpr int STAGES = 2;                       // tiles in shared memory
constexpr int LEAD = 3;                         // columns of the tile before those that are met
constexpr int VECTOR_COPIES = 3;                // vectors of four columns that a thread copies
constexpr int PATCH = 6;                        // columns that a thread's outputs meet with a filter row
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

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned short wc_float_to_half(float value) { unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); return bits; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }

extern "C" __global__ void __launch_bounds__(THREADS, 4)
volume_filter_3x3x3(const unsigned short* __restrict__ x, const unsigned short* __restrict__ dy,
        float* __restrict__ parts, int N, int D, int H, int W, int Z, int P, int Q) {
    extern __shared__ __align__(16) float ring[];
    __shared__ float sums[WARPS][TAP_PLANES * TAP_ROWS * TAP_COLUMNS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // of this thread, in the block
    const int across = threadIdx.x % BLOCK_X * COLUMNS, down = threadIdx.x / BLOCK_X * ROWS;
    // first tap of this tile
    const int t_0 = blockIdx.z * TAP_PLANES;
    const int tiles_p = (P + DOWN - 1) / DOWN, tiles_q = (Q + ACROSS - 1) / ACROSS;
    const index_t whole = (index_t)N * tiles_p * tiles_q;          // walks, if no depth is cut
    const int pieces = cut(whole, Z, PIECES, CHUNKS), depth = (Z + pieces - 1) / pieces;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;
    uint2 ahead[VECTOR_COPIES];
    for (int pair = blockIdx.y; pair < K_ALL; pair += gridDim.y) {
        const int k = pair, c = k;
        float sum[TAP_PLANES][TAP_ROWS][TAP_COLUMNS] = {};
        // jobs count images, pieces of the depth, and tiles of a plane together
        for (index_t job = blockIdx.x; job < whole * pieces; job += CHUNKS) {
            const int q0 = (int)(job % tiles_q) * ACROSS, p0 = (int)(job / tiles_q % tiles_p) * DOWN;
            const index_t walk = job / tiles_q / tiles_p, n = walk / pieces;
            const int z_0 = (int)(walk % pieces) * depth, z_end = min(Z, z_0 + depth);
            if (z_0 >= z_end) continue;
            const unsigned short* x_channel = x + (n * C_ALL + c) * D * plane_x;
            const unsigned short* dy_tile = dy + (n * K_ALL + k) * Z * plane_y + (index_t)(p0 + down) * Q + q0 + across;
            // of the thread's outputs, those in a plane
            const int rows_left = P - p0 - down, columns_left = Q - q0 - across;
            // first plane that the piece meets
            const int plane_0 = z_0 - PAD_FRONT + t_0;
            const int h_0 = p0 - PAD_TOP;                                               // first row of its tile
            const int items = z_end - z_0 + SLOTS - 1;
            index_t place[VECTOR_COPIES];
#pragma unroll
            for (int m = 0; m < VECTOR_COPIES; ++m) {
                const int i = threadIdx.x + m * THREADS, h = h_0 + i / (PITCH / 4);
                const int column = q0 - PAD_LEFT - LEAD + i % (PITCH / 4) * 4;
                // an address as aligned
                place[m] = (unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W ? (index_t)h * W + column : -4;
            }
            float gradient[SLOTS][ROWS][COLUMNS] = {};
            uint2 coming[ROWS];
            {
                const int z_next = z_0;
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const unsigned short* from = dy_tile + (index_t)z_next * plane_y + row * Q;
                    const bool made = z_next < z_end && row < rows_left;
                    coming[row] = made && columns_left > 0 ? __ldg((const uint2*)from) : make_uint2(0u, 0u);
                }
            }
            __syncthreads();
            {
                const int next = 0;
                if (next < items) {
                    const int d = plane_0;
                    const bool plane_inside = (unsigned)d < (unsigned)D;
                    const unsigned short* plane = x_channel + (index_t)d * plane_x;
#pragma unroll
                    for (int m = 0; m < VECTOR_COPIES; ++m) {
                        const bool inside = plane_inside && place[m] >= 0;
                        ahead[m] = inside ? __ldg((const uint2*)(plane + place[m])) : make_uint2(0u, 0u);
                    }
                }
            }
            int item = 0;
#pragma unroll 1
            for (int z_next = z_0 + 1; z_next <= z_end + SLOTS - 1; ++z_next) {     // after those in registers
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
#pragma unroll
                    for (int slot = 1; slot < SLOTS; ++slot) {
#pragma unroll
                        for (int i = 0; i < COLUMNS; ++i) gradient[slot - 1][row][i] = gradient[slot][row][i];
                    }
                    gradient[SLOTS - 1][row][0] = wc_half_low_to_float(coming[row].x);
                    gradient[SLOTS - 1][row][1] = wc_half_high_to_float(coming[row].x);
                    gradient[SLOTS - 1][row][2] = wc_half_low_to_float(coming[row].y);
                    gradient[SLOTS - 1][row][3] = wc_half_high_to_float(coming[row].y);
                }
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const unsigned short* from = dy_tile + (index_t)z_next * plane_y + row * Q;
                    const bool made = z_next < z_end && row < rows_left;
                    coming[row] = made && columns_left > 0 ? __ldg((const uint2*)from) : make_uint2(0u, 0u);
                }
#pragma unroll
                for (int u = 0; u < STRIDE_D; ++u, ++item) {
                    const int next = item + 1;
#pragma unroll
                    for (int m = 0; m < VECTOR_COPIES; ++m)
                        if (threadIdx.x + m * THREADS < TILE / 4)
                            ((float4*)(ring + item % STAGES * TILE))[threadIdx.x + m * THREADS] =
                                make_float4(wc_half_low_to_float(ahead[m].x), wc_half_high_to_float(ahead[m].x),
                                wc_half_low_to_float(ahead[m].y), wc_half_high_to_float(ahead[m].y));
                    __syncthreads();
                    if (next < items) {
                        const int d = plane_0 + next;
                        const bool plane_inside = (unsigned)d < (unsigned)D;
                        const unsigned short* plane = x_channel + (index_t)d * plane_x;
#pragma unroll
                        for (int m = 0; m < VECTOR_COPIES; ++m) {
                            const bool inside = plane_inside && place[m] >= 0;
                            ahead[m] = inside ? __ldg((const uint2*)(plane + place[m])) : make_uint2(0u, 0u);
                        }
                    }
                    const float* patch = ring + item % STAGES * TILE + down * PITCH + across + LEAD;
#pragma unroll
                    for (int r = 0; r < TAP_ROWS; ++r) {
#pragma unroll
                        for (int row = 0; row < ROWS; ++row) {
                            const float* from = patch + (row + r) * PITCH;
                            float in[PATCH];
                            in[0] = from[0];
                            const float4 in_0 = *(const float4*)(from + 1);
                            in[1] = in_0.x;
                            in[2] = in_0.y;
                            in[3] = in_0.z;
                            in[4] = in_0.w;
#pragma unroll
                            for (int i = 5; i < PATCH; ++i) in[i] = from[i];
#pragma unroll
                            for (int slot = 0; slot < SLOTS; ++slot) {
                                const int reach = (SLOTS - 1 - slot) + u;                  // from the window's begin
                                if (0 == 0 && reach < TAP_PLANES) {
#pragma unroll
                                    for (int i = 0; i < COLUMNS; ++i) {
#pragma unroll
                                        for (int s = 0; s < TAP_COLUMNS; ++s)
                                            sum[reach][r][s] =
                                                fmaf(in[i + s], gradient[slot][row][i], sum[reach][r][s]);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int tap = 0; tap < TAP_PLANES * TAP_ROWS * TAP_COLUMNS; ++tap) {
            float total = sum[tap / (TAP_ROWS * TAP_COLUMNS)][tap / TAP_COLUMNS % TAP_ROWS][tap % TAP_COLUMNS];
#pragma unroll
            for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
            if (lane == 0) sums[warp][tap] = total;
        }
        __syncthreads();
        for (int tap = threadIdx.x; tap < TAP_PLANES * TAP_ROWS * TAP_COLUMNS; tap += WARPS * 32) {
            const int t = t_0 + tap / (TAP_ROWS * TAP_COLUMNS), r = tap / TAP_COLUMNS % TAP_ROWS, s = tap % TAP_COLUMNS;
            float total = 0.0f;
            for (int from = 0; from < WARPS; ++from) total += sums[from][tap];
            if (t < T && r < R
                && s < S) parts[(index_t)blockIdx.x * (K_ALL * T * R * S) + ((pair * T + t) * R + r) * S + s] = total;
        }
        __syncthreads();
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
        dw[i] = wc_float_to_half(sum);
    }
}
