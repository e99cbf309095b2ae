// warpconv 0.1.0: volume_filter, float32. Generated from templates/volume/filter_march.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,32,D,H,W --filter 32,5,5,5 --padding 2 --padding-mode reflect --groups 32 \
//     --operation filter_gradient --index-bits 32 --arch sm_90 --algorithm volume_filter \
//     --set form=march --set tap_planes=1 --set tap_rows=5 --set tap_columns=5 --set chunks=4 --set block_size_x=8 \
//     --set block_size_y=16 --set rows=2 --set columns=4 --set pieces=4 --set stages=3 --set vector=4 \
//     --set load_vector=1 --set min_blocks=5
//
// layer  x[N, 32, D, H, W] * w[32, 1, 5, 5, 5] -> y[N, 32, Z, P, Q], stride 1, padding 2 (reflect), groups 32, float32;
//        its filter gradient
//        N, D, H, W (and so Z, P, Q) are arguments (Q a multiple of 4); all else is a constant of the text
// plan   blocks of 8 x 16 threads walk down the planes, each with 1 x 5 x 5 taps of a filter's channel and 2 x 4
//        outputs of 1 planes, in 4 chunks; then the chunks' sums are added
// cost   32 x 8 outputs of a plane: 20 warp loads, 0 shuffles, 200 FMA a lane, about 85 registers (direct: 400 loads)
//
// A block walks down planes of the input, each of which is in shared memory once. The output planes whose windows have
// it are in registers, SLOTS of them; their products with it are added to the sums of the taps. At the end the block's
// threads add up theirs into its row of parts; sum_parts() adds these rows.
constexpr int C_ALL = 32;                       // input channels
constexpr int K_ALL = 32;                       // filters
constexpr int T = 5;                            // filter planes
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int STRIDE_D = 1;                     // input planes from one output to the next
constexpr int PAD_FRONT = 2;                    // planes before the volume
constexpr int PAD_TOP = 2;                      // rows above it
constexpr int PAD_LEFT = 2;                     // columns to the left of it
constexpr int TAP_PLANES = 1;                   // taps of a thread
constexpr int TAP_ROWS = 5;                     // in filter rows
constexpr int TAP_COLUMNS = 5;                  // and columns
constexpr int CHUNKS = 4;                       // shares of the outputs, each summed by itself
constexpr int PIECES = 4;                       // of the depth at most, each walked by itself
constexpr int BLOCK_X = 8;                      // threads of a block along columns
constexpr int THREADS = 128;                    // of a block
constexpr int WARPS = THREADS / 32;             // of a block
constexpr int ROWS = 2;                         // output rows of a thread
constexpr int COLUMNS = 4;                      // output columns of a thread
constexpr int DOWN = THREADS / BLOCK_X * ROWS;  // output rows of a block
constexpr int ACROSS = BLOCK_X * COLUMNS;       // output columns of a block
constexpr int SLOTS = 1;                        // output planes in registers
constexpr int TILE_ROWS = 36;                   // rows of a plane that a block's outputs meet
constexpr int TILE_COLUMNS = 36;                // columns of it
constexpr int PITCH = 36;                       // elements from one row of the tile to the next
constexpr int TILE = TILE_ROWS * PITCH;         // elements of a tile
constexpr int STAGES = 3;                       // tiles in shared memory
constexpr int COLUMN_COPIES = 2;                // columns of each that a lane copies
constexpr int PATCH = 8;                        // columns that a thread's outputs meet with a filter row
using index_t = int;                            // element offsets: of tensors below 2^31 elements

// Into how many pieces each of so many walks down `planes` output planes is cut, 1, 2, 4 ... up to `most`: as many as
// make the teams or blocks go through the fewest planes one after the other, of which `together` work at a time.
__device__ __forceinline__ int cut(index_t walks, int planes, int most, int together) {
    index_t least = (walks + together - 1) / together * planes;
    int found = 1;
#pragma unroll 1
    for (int tried = 2; tried <= most; tried *= 2) {
        const index_t taken = (walks * tried + together - 1) / together * ((planes + tried - 1) / tried);
        if (taken < least) {
            least = taken;
            found = tried;
        }
    }
    return found;
}

// The index of the pixel that is read at `i`, which may lie outside of 0 .. size - 1: mirrored at the edge, whose pixel
// is not repeated.
__device__ __forceinline__ int at_border(int i, int size) {
    if (size == 1) return 0;
#pragma unroll 1
    while ((unsigned)i >= (unsigned)size) i = i < 0 ? -i : size - 2 - (i - size);
    return i;
}

// Copies to shared memory, past the registers
__device__ __forceinline__ void wc_copy_async_zfill_4(bool takes_part, void* shared, const void* global, bool inside) { asm volatile("{ .reg .pred part; setp.ne.u32 part, %2, 0; @part cp.async.ca.shared.global [%0], [%1], 4, %3; }" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"((unsigned)takes_part), "r"(inside ? 4 : 0) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_group() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(THREADS, 5)
volume_filter_5x5x5(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ parts, int N, int D,
        int H, int W, int Z, int P, int Q) {
    extern __shared__ __align__(16) float ring[];
    __shared__ float sums[WARPS][TAP_ROWS * TAP_COLUMNS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // of this thread, in the block
    const int across = threadIdx.x % BLOCK_X * COLUMNS, down = threadIdx.x / BLOCK_X * ROWS;
    // first tap of this tile
    const int t_0 = blockIdx.z;
    const int tiles_p = (P + DOWN - 1) / DOWN, tiles_q = (Q + ACROSS - 1) / ACROSS;
    const index_t whole = (index_t)N * tiles_p * tiles_q;          // walks, if no depth is cut
    const int pieces = cut(whole, Z, PIECES, CHUNKS), depth = (Z + pieces - 1) / pieces;
    const index_t plane_x = (index_t)H * W, plane_y = (index_t)P * Q;
    for (int pair = blockIdx.y; pair < K_ALL; pair += gridDim.y) {
        const int k = pair, c = k;
        float sum[TAP_PLANES][TAP_ROWS][TAP_COLUMNS] = {};
        // jobs count images, pieces of the depth, and tiles of a plane together
        for (index_t job = blockIdx.x; job < whole * pieces; job += CHUNKS) {
            const int q0 = (int)(job % tiles_q) * ACROSS, p0 = (int)(job / tiles_q % tiles_p) * DOWN;
            const index_t walk = job / tiles_q / tiles_p, n = walk / pieces;
            const int z_0 = (int)(walk % pieces) * depth, z_end = min(Z, z_0 + depth);
            if (z_0 >= z_end) continue;
            const float* x_channel = x + (n * C_ALL + c) * D * plane_x;
            const float* dy_tile = dy + (n * K_ALL + k) * Z * plane_y + (index_t)(p0 + down) * Q + q0 + across;
            // of the thread's outputs, those in a plane
            const int rows_left = P - p0 - down, columns_left = Q - q0 - across;
            // first plane that the piece meets
            const int plane_0 = z_0 - PAD_FRONT + t_0;
            const int h_0 = p0 - PAD_TOP;                                               // first row of its tile
            const int items = z_end - z_0;
            int place[COLUMN_COPIES];
#pragma unroll
            for (int m = 0; m < COLUMN_COPIES; ++m) {
                const int column = at_border(q0 - PAD_LEFT + lane + 32 * m, W);
                place[m] = (unsigned)column < (unsigned)W ? column : -1;
            }
            float gradient[SLOTS][ROWS][COLUMNS] = {};
            float4 coming[ROWS];
            {
                const int z_next = z_0;
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const float* from = dy_tile + (index_t)z_next * plane_y + row * Q;
                    const bool made = z_next < z_end && row < rows_left;
                    coming[row] = made && columns_left > 0 ? __ldg((const float4*)from)
                        : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                }
            }
            __syncthreads();
            for (int next = 0; next < STAGES - 1; ++next) {
                if (next < items) {
                    const int d = at_border(plane_0 + next, D);
                    const float* plane = x_channel + (index_t)d * plane_x;
                    float* tile = ring + next % STAGES * TILE + lane;
                    for (int row = warp; row < TILE_ROWS; row += WARPS) {
                        const int h = at_border(h_0 + row, H);
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
            for (int z_next = z_0 + 1; z_next <= z_end; ++z_next) {                 // after those in registers
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
#pragma unroll
                    for (int slot = 1; slot < SLOTS; ++slot) {
#pragma unroll
                        for (int i = 0; i < COLUMNS; ++i) gradient[slot - 1][row][i] = gradient[slot][row][i];
                    }
                    gradient[0][row][0] = coming[row].x;
                    gradient[0][row][1] = coming[row].y;
                    gradient[0][row][2] = coming[row].z;
                    gradient[0][row][3] = coming[row].w;
                }
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const float* from = dy_tile + (index_t)z_next * plane_y + row * Q;
                    const bool made = z_next < z_end && row < rows_left;
                    coming[row] = made && columns_left > 0 ? __ldg((const float4*)from)
                        : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                }
#pragma unroll
                for (int u = 0; u < STRIDE_D; ++u, ++item) {
                    const int next = item + STAGES - 1;
                    wc_copy_async_wait_group();
                    __syncthreads();
                    if (next < items) {
                        const int d = at_border(plane_0 + next, D);
                        const float* plane = x_channel + (index_t)d * plane_x;
                        float* tile = ring + next % STAGES * TILE + lane;
                        for (int row = warp; row < TILE_ROWS; row += WARPS) {
                            const int h = at_border(h_0 + row, H);
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
#pragma unroll
                    for (int r = 0; r < TAP_ROWS; ++r) {
#pragma unroll
                        for (int row = 0; row < ROWS; ++row) {
                            const float* from = patch + (row + r) * PITCH;
                            float in[PATCH];
                            const float4 in_0 = *(const float4*)from;
                            in[0] = in_0.x;
                            in[1] = in_0.y;
                            in[2] = in_0.z;
                            in[3] = in_0.w;
                            const float4 in_1 = *(const float4*)(from + 4);
                            in[4] = in_1.x;
                            in[4 + 1] = in_1.y;
                            in[4 + 2] = in_1.z;
                            in[4 + 3] = in_1.w;
#pragma unroll
                            for (int i = 2 * 4; i < PATCH; ++i) in[i] = from[i];
#pragma unroll
                            for (int slot = 0; slot < SLOTS; ++slot) {
                                const int reach = (0 - slot) + u;                          // from the window's begin
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
        for (int tap = 0; tap < TAP_ROWS * TAP_COLUMNS; ++tap) {
            float total = sum[tap / (TAP_ROWS * TAP_COLUMNS)][tap / TAP_COLUMNS % TAP_ROWS][tap % TAP_COLUMNS];
#pragma unroll
            for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
            if (lane == 0) sums[warp][tap] = total;
        }
        __syncthreads();
        for (int tap = threadIdx.x; tap < TAP_ROWS * TAP_COLUMNS; tap += WARPS * 32) {
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
sum_parts(const float* __restrict__ parts, float* __restrict__ dw) {
    __shared__ float sums[16][32];
    constexpr long long ELEMENTS = 4000;
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
        dw[i] = sum;
    }
}
