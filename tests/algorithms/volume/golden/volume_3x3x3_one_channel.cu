// warpconv 0.1.0: volume, float32. Generated from templates/volume/march.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,1,D,H,W --filter 1,3,3,3 --padding 1 --padding-mode symmetric --arch sm_90 \
//     --algorithm volume \
//     --set form=march --set block_size_x=32 --set block_size_y=8 --set rows=4 --set columns=4 --set k_tile=1 \
//     --set chunks=16 --set stages=3 --set vector=4 --set load_vector=1 --set min_blocks=2
//
// layer  x[N, 1, D, H, W] * w[1, 1, 3, 3, 3] -> y[N, 1, Z, P, Q], stride 1, padding 1 (symmetric), float32
//        N, D, H, W (and so Z, P, Q) are arguments (Q a multiple of 4); all else is a constant of the text
// plan   blocks of 32 x 8 threads walk down the planes, each with 4 x 4 outputs of 1 filter in 3 output planes; 53968
//        bytes of shared memory a block
// cost   32 x 16 outputs of a plane: 25 warp loads, 0 shuffles, 432 FMA a lane, about 114 registers (direct: 432 loads)
//
// A block walks down the planes of a chunk of the depth. A tile of each plane is in shared memory once, and is added to
// the SLOTS output planes whose windows have it; the first of them is complete then, and stored.
constexpr int C = 1;                            // channels of a group
constexpr int T = 3;                            // filter planes
constexpr int R = 3;                            // filter rows
constexpr int S = 3;                            // filter columns
constexpr int STRIDE_D = 1;                     // input planes from one output to the next
constexpr int PAD_FRONT = 1;                    // planes before the volume
constexpr int PAD_TOP = 1;                      // rows above it
constexpr int PAD_LEFT = 1;                     // columns to the left of it
constexpr int BLOCK_X = 32;                     // threads of a block along columns
constexpr int BLOCK_Y = 8;                      // and along rows
constexpr int THREADS = 256;                    // in all
constexpr int WARPS = THREADS / 32;             // and their warps
constexpr int ROWS = 4;                         // output rows of a thread
constexpr int COLUMNS = 4;                      // output columns of a thread
constexpr int K_TILE = 1;                       // filters that a thread works on
constexpr int CHUNKS = 16;                      // of the depth at most
constexpr int FILLED = 264;                     // blocks that the chip holds at a time
constexpr int SLOTS = 3;                        // output planes under way
constexpr int TILE_ROWS = 34;                   // rows of a plane that a block's outputs meet
constexpr int TILE_COLUMNS = 130;               // columns of it
constexpr int PITCH = 132;                      // elements from one row of the tile to the next
constexpr int TILE = TILE_ROWS * PITCH;         // elements of a tile
constexpr int STAGES = 3;                       // tiles in shared memory
constexpr int COLUMN_COPIES = 5;                // columns of each that a lane copies
constexpr int PATCH = 6;                        // columns that a thread's outputs meet with a filter row
constexpr int WEIGHTS = 28;                     // elements of the filters' room before them
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

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is repeated.
__device__ __forceinline__ int at_border(int i, int size) {
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -1 - i : size - 1 - (i - size);
    return i;
}

// Copies to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(256, 2)
volume_3x3x3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, int D, int H,
        int W, int Z, int P, int Q) {
    extern __shared__ __align__(16) float shared[];
    float* const ring = shared + WEIGHTS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // of this thread, in the block
    const int across = threadIdx.x % BLOCK_X * COLUMNS, down = threadIdx.x / BLOCK_X * ROWS;
    const int q0 = blockIdx.x * (BLOCK_X * COLUMNS);              // first output column of the block
    const int q = q0 + across;
    const int chunks = cut((index_t)N * gridDim.x * gridDim.y, Z, CHUNKS, FILLED);
    const int depth = (Z + chunks - 1) / chunks;                   // output planes of a chunk
    const index_t plane_x = (index_t)H * W;

    // jobs count images, tiles of filters and chunks of the depth together
    for (index_t job = blockIdx.z; job < (index_t)N * chunks; job += gridDim.z) {
        const int z_0 = (int)(job % chunks) * depth, z_end = min(Z, z_0 + depth);
        const index_t n = job / chunks;
        if (z_0 >= z_end) continue;
        const float* x_group = x + n * D * plane_x;
        const int plane_0 = z_0 - PAD_FRONT;                       // first plane that the chunk meets
        const int items = z_end - z_0 + SLOTS - 1;                     // planes, of every channel
        __syncthreads();
        for (int i = threadIdx.x; i < T * R * S; i += THREADS) shared[i] = __ldg(w + (index_t)i);

        for (int p0 = blockIdx.y * (BLOCK_Y * ROWS); p0 < P; p0 += gridDim.y * (BLOCK_Y * ROWS)) {
            int place[COLUMN_COPIES];
#pragma unroll
            for (int m = 0; m < COLUMN_COPIES; ++m) {
                const int column = at_border(q0 - PAD_LEFT + lane + 32 * m, W);
                place[m] = (unsigned)column < (unsigned)W ? column : -1;
            }
            float sum[SLOTS][K_TILE][ROWS][COLUMNS] = {};
            __syncthreads();
            for (int next = 0; next < STAGES - 1; ++next) {
                if (next < items) {
                    const int d = at_border(plane_0 + next, D);
                    const float* plane = x_group + (index_t)d * plane_x;
                    float* tile = ring + next % STAGES * TILE + lane;
                    for (int row = warp; row < TILE_ROWS; row += WARPS) {
                        const int h = at_border(p0 - PAD_TOP + row, H);
                        const bool row_inside = row < TILE_ROWS;
                        const float* from = plane + (index_t)h * W;
#pragma unroll
                        for (int m = 0; m < COLUMN_COPIES; ++m) {
                            const bool inside = row_inside && place[m] >= 0;
                            wc_copy_async_zfill_4(lane + 32 * m < TILE_COLUMNS, tile + row * PITCH + 32 * m,
                                from + place[m], inside);
                        }
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
                            const int d = at_border(plane_0 + next, D);
                            const float* plane = x_group + (index_t)d * plane_x;
                            float* tile = ring + next % STAGES * TILE + lane;
                            for (int row = warp; row < TILE_ROWS; row += WARPS) {
                                const int h = at_border(p0 - PAD_TOP + row, H);
                                const bool row_inside = row < TILE_ROWS;
                                const float* from = plane + (index_t)h * W;
#pragma unroll
                                for (int m = 0; m < COLUMN_COPIES; ++m) {
                                    const bool inside = row_inside && place[m] >= 0;
                                    wc_copy_async_zfill_4(lane + 32 * m < TILE_COLUMNS, tile + row * PITCH + 32 * m,
                                        from + place[m], inside);
                                }
                            }
                        }
                        wc_copy_async_commit();
                        const float* patch = ring + item % STAGES * TILE + down * PITCH + across;
                        const float* taps = shared + c * (T * R * S);
#pragma unroll
                        for (int r = 0; r < R; ++r) {
#pragma unroll
                            for (int row = 0; row < ROWS; ++row) {
                                const float* from = patch + (row + r) * PITCH;
                                float in[PATCH];
                                const float4 in_0 = *(const float4*)from;
                                in[0] = in_0.x;
                                in[1] = in_0.y;
                                in[2] = in_0.z;
                                in[3] = in_0.w;
#pragma unroll
                                for (int i = 4; i < PATCH; ++i) in[i] = from[i];
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
                            const index_t at = (((n + k) * Z + z) * P + p) * Q + q;
                            *(float4*)(y + at) =
                                make_float4(sum[0][k][row][0], sum[0][k][row][1], sum[0][k][row][2], sum[0][k][row][3]);
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
