// warpconv 0.1.0: volume, float32. Generated from templates/volume/march.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,3,D,H,W --filter 16,3,3,3 --stride 2,2,2 --padding 1 --epilogue bias --arch sm_90 \
//     --algorithm volume \
//     --set form=march --set block_size_x=8 --set block_size_y=16 --set rows=2 --set columns=4 --set k_tile=4 \
//     --set chunks=4 --set stages=3 --set vector=4 --set load_vector=4 --set min_blocks=3
//
// layer  x[N, 3, D, H, W] * w[16, 3, 3, 3, 3] -> y[N, 16, Z, P, Q], stride 2, padding 1, float32, then bias
//        N, D, H, W (and so Z, P, Q) are arguments (W a multiple of 4; Q a multiple of 4); all else is a constant of
//        the text
// plan   blocks of 8 x 16 threads walk down the planes, each with 2 x 4 outputs of 4 filters in 2 output planes; 54336
//        bytes of shared memory a block
// cost   32 x 32 outputs of a plane: 27 warp loads, 0 shuffles, 2592 FMA a lane, about 163 registers (direct: 2592
//        loads)
//
// A block walks down the planes of a chunk of the depth. A tile of each plane is in shared memory once, and is added to
// the SLOTS output planes whose windows have it; the first of them is complete then, and stored.
constexpr int C_ALL = 3;                        // input channels
constexpr int K_ALL = 16;                       // filters
constexpr int C = 3;                            // channels of a group
constexpr int K = 16;                           // filters of a group
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 2;                     // input planes from one output to the next
constexpr int STRIDE_H = 2;                     // input rows from one output to the next
constexpr int STRIDE_W = 2;                     // input columns from one output to the next
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int BLOCK_X = 8;                      // threads of a block along columns
constexpr int BLOCK_Y = 16;                     // and along rows
constexpr int THREADS = 128;                    // in all
constexpr int ROWS = 2;                         // output rows of a thread
constexpr int COLUMNS = 4;                      // output columns of a thread
constexpr int K_TILE = 4;                       // filters that a thread works on
constexpr int K_TILES = 4;                      // tiles of filters, in all groups
constexpr int CHUNKS = 4;                       // of the depth at most
constexpr int FILLED = 396;                     // blocks that the chip holds at a time
constexpr int SLOTS = 2;                        // output planes under way
constexpr int TILE_ROWS = 65;                   // rows of a plane that a block's outputs meet
constexpr int PITCH = 68;                       // elements from one row of the tile to the next
constexpr int TILE = TILE_ROWS * PITCH;         // elements of a tile
constexpr int STAGES = 3;                       // tiles in shared memory
constexpr int LEAD = 3;                         // columns of the tile before those that are met
constexpr int VECTOR_COPIES = 9;                // vectors of four columns that a thread copies
constexpr int PATCH = 9;                        // columns that a thread's outputs meet with a filter row
constexpr int WEIGHTS = 324;                    // elements of the filters' room before them
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

// Copies to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_16(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.cg.shared.global [%0], [%1], 16, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 16 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// What happens to an output value before it is stored: bias.
__device__ __forceinline__ float finish(float value, float bias) {
    value = value + bias;
    return value;
}

extern "C" __global__ void __launch_bounds__(128, 3)
volume_3x3x3(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
        float* __restrict__ y, int N, int D, int H, int W, int Z, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    float* const ring = shared + WEIGHTS;
    // of this thread, in the block
    const int across = threadIdx.x % BLOCK_X * COLUMNS, down = threadIdx.x / BLOCK_X * ROWS;
    const int q0 = blockIdx.x * (BLOCK_X * COLUMNS);              // first output column of the block
    const int q = q0 + across;
    const int chunks = cut((index_t)N * K_TILES * gridDim.x * gridDim.y, Z, CHUNKS, FILLED);
    const int depth = (Z + chunks - 1) / chunks;                   // output planes of a chunk
    const index_t plane_x = (index_t)H * W;

    // jobs count images, tiles of filters and chunks of the depth together
    for (index_t job = blockIdx.z; job < (index_t)N * (K_TILES * chunks); job += gridDim.z) {
        const int z_0 = (int)(job % chunks) * depth, z_end = min(Z, z_0 + depth);
        const index_t n = job / (K_TILES * chunks);
        const int k_0 = (int)(job / chunks % K_TILES) * K_TILE;    // first filter of this tile, among all
        if (z_0 >= z_end) continue;
        const float* x_group = x + (n * C_ALL + k_0 / K * C) * D * plane_x;
        const int plane_0 = z_0 * STRIDE_D - PAD_FRONT;            // first plane that the chunk meets
        const int items = (z_end - z_0 + SLOTS - 1) * STRIDE_D * C;    // planes, of every channel
        __syncthreads();
        for (int i = threadIdx.x; i < K_TILE * C * T * R * S; i += THREADS) shared[i] =
            __ldg(w + (index_t)k_0 * (C * T * R * S) + i);

        for (int p0 = blockIdx.y * (BLOCK_Y * ROWS); p0 < P; p0 += gridDim.y * (BLOCK_Y * ROWS)) {
            index_t place[VECTOR_COPIES];
#pragma unroll
            for (int m = 0; m < VECTOR_COPIES; ++m) {
                const int i = threadIdx.x + m * THREADS, h = p0 * STRIDE_H - PAD_TOP + i / (PITCH / 4);
                const int column = q0 * STRIDE_W - PAD_LEFT - LEAD + i % (PITCH / 4) * 4;
                // an address as aligned
                place[m] = (unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W ? (index_t)h * W + column : -4;
            }
            float sum[SLOTS][K_TILE][ROWS][COLUMNS] = {};
            __syncthreads();
            for (int next = 0; next < STAGES - 1; ++next) {
                if (next < items) {
                    const int d = plane_0 + next / C;
                    const bool plane_inside = (unsigned)d < (unsigned)D;
                    const float* plane = x_group + ((index_t)(next % C) * D + d) * plane_x;
                    float4* tile = (float4*)(ring + next % STAGES * TILE) + threadIdx.x;
#pragma unroll
                    for (int m = 0; m < VECTOR_COPIES; ++m) {
                        const bool inside = plane_inside && place[m] >= 0;
                        wc_copy_async_zfill_16(threadIdx.x + m * THREADS < TILE / 4, tile + m * THREADS,
                            plane + place[m], inside);
                    }
                }
                wc_copy_async_commit();
            }
            int item = 0;
#pragma unroll 1
            for (int z = z_0 - SLOTS + 1; z < z_end; ++z) {        // the output plane that is complete then
#pragma unroll
                for (int u = 0; u < STRIDE_D; ++u) {
#pragma unroll 1
                    for (int c = 0; c < C; ++c, ++item) {
                        const int next = item + STAGES - 1;
                        wc_copy_async_wait_group();
                        __syncthreads();
                        if (next < items) {
                            const int d = plane_0 + next / C;
                            const bool plane_inside = (unsigned)d < (unsigned)D;
                            const float* plane = x_group + ((index_t)(next % C) * D + d) * plane_x;
                            float4* tile = (float4*)(ring + next % STAGES * TILE) + threadIdx.x;
#pragma unroll
                            for (int m = 0; m < VECTOR_COPIES; ++m) {
                                const bool inside = plane_inside && place[m] >= 0;
                                wc_copy_async_zfill_16(threadIdx.x + m * THREADS < TILE / 4, tile + m * THREADS,
                                    plane + place[m], inside);
                            }
                        }
                        wc_copy_async_commit();
                        const float* patch = ring + item % STAGES * TILE + down * STRIDE_H * PITCH + across * STRIDE_W
                            + LEAD;
                        const float* taps = shared + c * (T * R * S);
#pragma unroll
                        for (int r = 0; r < R; ++r) {
#pragma unroll
                            for (int row = 0; row < ROWS; ++row) {
                                const float* from = patch + (row * STRIDE_H + r) * PITCH;
                                float in[PATCH];
                                in[0] = from[0];
                                const float4 in_0 = *(const float4*)(from + 1);
                                in[1] = in_0.x;
                                in[2] = in_0.y;
                                in[3] = in_0.z;
                                in[4] = in_0.w;
                                const float4 in_1 = *(const float4*)(from + 5);
                                in[5] = in_1.x;
                                in[5 + 1] = in_1.y;
                                in[5 + 2] = in_1.z;
                                in[5 + 3] = in_1.w;
#pragma unroll
                                for (int i = 1 + 2 * 4; i < PATCH; ++i) in[i] = from[i];
#pragma unroll
                                for (int slot = 0; slot < SLOTS; ++slot) {
                                    // from the window's begin
                                    const int reach = (SLOTS - 1 - slot) * STRIDE_D + u;
                                    if (0 == 0 && reach < T) {
#pragma unroll
                                        for (int k = 0; k < K_TILE; ++k) {
#pragma unroll
                                            for (int s = 0; s < S; ++s) {
                                                const float tap = taps[k * (C * T * R * S) + (reach * R + r) * S + s];
#pragma unroll
                                                for (int i = 0; i < COLUMNS; ++i)
                                                    sum[slot][k][row][i] =
                                                        fmaf(in[i * STRIDE_W + s], tap, sum[slot][k][row][i]);
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
                            *(float4*)(y + at) =
                                make_float4(finish(sum[0][k][row][0], bias[k_0 + k]),
                                finish(sum[0][k][row][1], bias[k_0 + k]), finish(sum[0][k][row][2], bias[k_0 + k]),
                                finish(sum[0][k][row][3], bias[k_0 + k]));
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
