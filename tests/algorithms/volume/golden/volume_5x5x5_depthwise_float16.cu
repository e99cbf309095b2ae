// warpconv 0.1.0: volume, float16. Generated from templates/volume/march.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,D,H,W --filter 32,5,5,5 --padding 2 --groups 32 --dtype float16 --epilogue bias \
//     --index-bits 32 --arch sm_90 --algorithm volume \
//     --set form=march --set block_size_x=8 --set block_size_y=8 --set rows=4 --set columns=4 --set k_tile=1 \
//     --set chunks=1 --set stages=2 --set vector=4 --set load_vector=4 --set min_blocks=5
//
// layer  x[N, 32, D, H, W] * w[32, 1, 5, 5, 5] -> y[N, 32, Z, P, Q], stride 1, padding 2, groups 32, float16, then bias
//        N, D, H, W (and so Z, P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of
//        the text
// plan   blocks of 8 x 8 threads walk down the planes, each with 4 x 4 outputs of 1 filter in 5 output planes; 12032
//        bytes of shared memory a block
// cost   32 x 16 outputs of a plane: 6 warp loads, 0 shuffles, 2000 FMA a lane, about 183 registers (direct: 2000
//        loads)
//
// A block walks down the planes of a chunk of the depth. A tile of each plane is in shared memory once, and is added to
// the SLOTS output planes whose windows have it; the first of them is complete then, and stored.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int C = 1;                            // channels of a group
constexpr int T = 5;                            // filter planes
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int STRIDE_D = 1;                     // input planes from one output to the next
constexpr int PAD_FRONT = 2;                    // planes before the volume
constexpr int PAD_TOP = 2;                      // rows above it
constexpr int PAD_LEFT = 2;                     // columns to the left of it
constexpr int BLOCK_X = 8;                      // threads of a block along columns
constexpr int BLOCK_Y = 8;                      // and along rows
constexpr int THREADS = 64;                     // in all
constexpr int ROWS = 4;                         // output rows of a thread
constexpr int COLUMNS = 4;                      // output columns of a thread
constexpr int K_TILE = 1;                       // filters that a thread works on
constexpr int K_TILES = 32;                     // tiles of filters, in all groups
constexpr int SLOTS = 5;                        // output planes under way
constexpr int TILE_ROWS = 36;                   // rows of a plane that a block's outputs meet
constexpr int PITCH = 40;                       // elements from one row of the tile to the next
constexpr int TILE = TILE_ROWS * PITCH;         // elements of a tile
constexpr int STAGES = 2;                       // tiles in shared memory
constexpr int LEAD = 2;                         // columns of the tile before those that are met
constexpr int VECTOR_COPIES = 6;                // vectors of four columns that a thread copies
constexpr int PATCH = 8;                        // columns that a thread's outputs meet with a filter row
constexpr int WEIGHTS = 128;                    // elements of the filters' room before them
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ float wc_half_to_float(unsigned short bits) { float value; asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits)); return value; }
__device__ __forceinline__ float wc_half_low_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ float wc_half_high_to_float(unsigned word) { float value; asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high; }" : "=f"(value) : "r"(word)); return value; }
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

extern "C" __global__ void __launch_bounds__(64, 5)
volume_5x5x5(const unsigned short* __restrict__ x, const unsigned short* __restrict__ w,
        const unsigned short* __restrict__ bias, unsigned short* __restrict__ y, int N, int D, int H, int W, int Z,
        int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    float* const ring = shared + WEIGHTS;
    // of this thread, in the block
    const int across = threadIdx.x % BLOCK_X * COLUMNS, down = threadIdx.x / BLOCK_X * ROWS;
    const int q0 = blockIdx.x * (BLOCK_X * COLUMNS);              // first output column of the block
    const int q = q0 + across;
    const int depth = Z;
    const index_t plane_x = (index_t)H * W;
    uint2 ahead[VECTOR_COPIES];

    // jobs count images, tiles of filters and chunks of the depth together
    for (index_t job = blockIdx.z; job < (index_t)N * K_TILES; job += gridDim.z) {
        const int z_0 = 0, z_end = min(Z, depth);
        const index_t n = job / K_TILES;
        const int k_0 = (int)(job % K_TILES);                      // first filter of this tile, among all
        if (z_0 >= z_end) continue;
        const unsigned short* x_group = x + (n * C_ALL + k_0) * D * plane_x;
        const int plane_0 = z_0 - PAD_FRONT;                       // first plane that the chunk meets
        const int items = z_end + SLOTS - 1;                           // planes, of every channel
        __syncthreads();
        for (int i = threadIdx.x; i < T * R * S; i += THREADS) shared[i] =
            wc_half_to_float(__ldg(w + (index_t)k_0 * (T * R * S) + i));

        for (int p0 = blockIdx.y * (BLOCK_Y * ROWS); p0 < P; p0 += gridDim.y * (BLOCK_Y * ROWS)) {
            index_t place[VECTOR_COPIES];
#pragma unroll
            for (int m = 0; m < VECTOR_COPIES; ++m) {
                const int i = threadIdx.x + m * THREADS, h = p0 - PAD_TOP + i / (PITCH / 4);
                const int column = q0 - PAD_LEFT - LEAD + i % (PITCH / 4) * 4;
                // an address as aligned
                place[m] = (unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W ? (index_t)h * W + column : -4;
            }
            float sum[SLOTS][K_TILE][ROWS][COLUMNS] = {};
            __syncthreads();
            {
                const int next = 0;
                if (next < items) {
                    const int d = plane_0;
                    const bool plane_inside = (unsigned)d < (unsigned)D;
                    const unsigned short* plane = x_group + (index_t)d * plane_x;
#pragma unroll
                    for (int m = 0; m < VECTOR_COPIES; ++m) {
                        const bool inside = plane_inside && place[m] >= 0;
                        ahead[m] = inside ? __ldg((const uint2*)(plane + place[m])) : make_uint2(0u, 0u);
                    }
                }
            }
            int item = 0;
#pragma unroll 1
            for (int z = z_0 - SLOTS + 1; z < z_end; ++z) {        // the output plane that is complete then
#pragma unroll
                for (int u = 0; u < STRIDE_D; ++u) {
#pragma unroll 1
                    for (int c = 0; c < C; ++c, ++item) {
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
                            const unsigned short* plane = x_group + (index_t)d * plane_x;
#pragma unroll
                            for (int m = 0; m < VECTOR_COPIES; ++m) {
                                const bool inside = plane_inside && place[m] >= 0;
                                ahead[m] = inside ? __ldg((const uint2*)(plane + place[m])) : make_uint2(0u, 0u);
                            }
                        }
                        const float* patch = ring + item % STAGES * TILE + down * PITCH + across + LEAD;
                        const float* taps = shared + c * (T * R * S);
#pragma unroll
                        for (int r = 0; r < R; ++r) {
#pragma unroll
                            for (int row = 0; row < ROWS; ++row) {
                                const float* from = patch + (row + r) * PITCH;
                                float in[PATCH];
                                in[0] = from[0];
                                in[1] = from[1];
                                const float4 in_0 = *(const float4*)(from + 2);
                                in[2] = in_0.x;
                                in[2 + 1] = in_0.y;
                                in[2 + 2] = in_0.z;
                                in[2 + 3] = in_0.w;
#pragma unroll
                                for (int i = 2 + 4; i < PATCH; ++i) in[i] = from[i];
#pragma unroll
                                for (int slot = 0; slot < SLOTS; ++slot) {
                                    // from the window's begin
                                    const int reach = (SLOTS - 1 - slot) + u;
                                    if (0 == 0 && reach < T) {
#pragma unroll
                                        for (int k = 0; k < K_TILE; ++k) {
#pragma unroll
                                            for (int s = 0; s < S; ++s) {
                                                const float tap = taps[k * (T * R * S) + (reach * R + r) * S + s];
#pragma unroll
                                                for (int i = 0; i < COLUMNS; ++i)
                                                    sum[slot][k][row][i] = fmaf(in[i + s], tap, sum[slot][k][row][i]);
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                if (z >= z_0 && q < Q) {
#pragma unroll
                    for (int k = 0; k < K_TILE; ++k) {
#pragma unroll
                        for (int row = 0; row < ROWS; ++row) {
                            const int p = p0 + down + row;
                            if (p >= P) continue;
                            const index_t at = (((n * K_ALL + k_0 + k) * Z + z) * P + p) * Q + q;
                            *(uint2*)(y + at) =
                                make_uint2(wc_floats_to_halves(finish(sum[0][k][row][0],
                                wc_half_to_float(bias[k_0 + k])),
                                finish(sum[0][k][row][1], wc_half_to_float(bias[k_0 + k]))),
                                wc_floats_to_halves(finish(sum[0][k][row][2], wc_half_to_float(bias[k_0 + k])),
                                finish(sum[0][k][row][3], wc_half_to_float(bias[k_0 + k]))));
                        }
                    }
                }
#pragma unroll
                for (int k = 0; k < K_TILE; ++k) {
#pragma unroll
                    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
                        for (int i = 0; i < COLUMNS; ++i) {
#pragma unroll
                            for (int slot = 1; slot < SLOTS; ++slot) sum[slot - 1][k][row][i] = sum[slot][k][row][i];
                            sum[SLOTS - 1][k][row][i] = 0.0f;
                        }
                    }
                }
            }
        }
    }
}
