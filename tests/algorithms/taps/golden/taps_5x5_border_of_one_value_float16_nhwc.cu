// warpconv 0.1.0: taps, float16. Generated from templates/taps/kernel.cu.jinja; do not edit.
// Emit it again with
//   warpconv emit --input N,H,W,4 --filter 33,5,5 --padding 2 --padding-mode constant --padding-value 1 \
//     --dtype float16 --layout NHWC --arch sm_90 --algorithm taps \
//     --set tile_p=4 --set tile_q=16 --set tile_filters=24 --set groups_tile=1 --set warp_groups=1 --set strips=2 \
//     --set warps=2 --set vector=1 --set store_vector=1 --set min_blocks=8
//
// layer  x[N, H, W, 4] * w[33, 4, 5, 5] -> y[N, P, Q, 33], stride 1, padding 2 (constant), float16 NHWC
//        N, H, W (and so P, Q) and BORDER (what stands outside of the image: two elements) are arguments; all else is
//        in the text
// plan   tiles of 4 x 16 outputs x 24 filters, four taps an instruction, 2 warps a block, 6664 bytes of shared memory
// cost   a warp's 2 strips of 16 columns x 24 filters: 49 warp loads, 16 shuffles, 3584 FMA a lane, about 115 registers
//        (direct: 3200 loads)
//
// Four taps of four channels are the sixteen products of an instruction of the tensor cores. A block copies the pixels
// that its outputs' windows cover to shared memory, four channels each; there a lane finds the channels of its tap by
// one load. Pixels are the rows of a product and filters its columns, so that four lanes can store what lies side by
// side.
constexpr int C = 4;                            // channels of x
constexpr int K = 33;                           // channels of y
constexpr int C_GROUP = 4;                      // channels of a group
constexpr int K_GROUP = 33;                     // filters of a group
constexpr int R = 5;                            // filter rows
constexpr int S = 5;                            // filter columns
constexpr int PAD_TOP = 2;                      // rows above the image
constexpr int PAD_LEFT = 2;                     // columns to the left of the image
constexpr int TILE_P = 4;                       // tile of a block: output rows,
constexpr int TILE_Q = 16;                      // output columns,
constexpr int N_TILES = 2;                      // and one of so many tiles of a group's filters,
constexpr int BLOCKS = 3;                       // which has so many times eight
constexpr int CHUNKS = 7;                       // of four taps: a filter
constexpr int STRIPS = 2;                       // of 16 columns: what a warp has at once,
constexpr int WARP_GROUPS = 1;                  // of so many groups
constexpr int STRIP_SETS = 2;                   // times STRIPS: a tile
constexpr int ITEMS = 2;                        // a block's, which its warps share
constexpr int ROWS = 2;                         // matrices of 16 x 8 sums of a warp: down,
constexpr int COLUMNS = 4;                      // and across
constexpr int WARPS = 2;                        // of a block
constexpr int THREADS = 64;                     // of a block
constexpr int HALO_COLUMNS = 20;                // input columns
constexpr int PLANE = 161;                      // pixels of a group in shared memory
constexpr int PIXELS = 160;                     // pixels that a block copies
constexpr int BATCH = 4;                        // pixels that a thread loads before it stores the first
constexpr int GROUP_FILTERS = 672;              // fours of elements: filters of a group in a block
constexpr int SIDE_THREADS = 256;               // threads of a block of the filter's preparation
using index_t = int;                            // element offsets: of tensors below 2^31 elements
using element = unsigned short;                 // float16, as bits

// float16 elements: bits in memory, float in registers
__device__ __forceinline__ unsigned wc_floats_to_halves(float low, float high) { unsigned word; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high)); return word; }

// asynchronous copies
__device__ __forceinline__ void wc_copy_async_16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void wc_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wc_copy_async_wait_but() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Filters of a block's groups, in the order of its products.
__device__ __forceinline__ void copy_filters(element* to, const element* from) {
    for (int i = threadIdx.x; i < GROUP_FILTERS / 2; i += THREADS) wc_copy_async_16(to + 8 * i, from + 8 * i);
}

// A pixel of the halo by its number: groups side by side, as in x.
struct Pixel { int group, row, column; };

__device__ __forceinline__ Pixel pixel_of(int number) {
    return {0, number / HALO_COLUMNS, number % HALO_COLUMNS};
}

// Where it lies in shared memory, in pixels of four channels.
__device__ __forceinline__ int place_of(const Pixel& pixel) {
    return pixel.group * PLANE + pixel.row * HALO_COLUMNS + pixel.column;
}

// A pixel's channels as four elements; what stands outside of the image where it lies there.
__device__ __forceinline__ uint2 load_pixel(const element* x, index_t image, const Pixel& pixel, bool exists, int top,
        int left, int first_group, int H, int W, unsigned BORDER) {
    const int h = top + pixel.row, w = left + pixel.column;
    const bool inside = exists && (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    const int channel = (first_group + pixel.group) * C_GROUP;
    const element* const from = x + ((image * H + h) * W + w) * C + channel;
    const index_t apart = 1;
    unsigned channels[4] = {};
#pragma unroll
    for (int i = 0; i < C_GROUP; ++i) channels[i] = inside ? (unsigned)__ldg(from + i * apart) : BORDER & 0xffffu;
    return make_uint2(channels[0] | channels[1] << 16, channels[2] | channels[3] << 16);
}

// The pixels that a tile's windows cover, BATCH of a thread on their way at a time.
__device__ __forceinline__ void copy_pixels(element* to, const element* x, index_t image, int top, int left,
        int first_group, int H, int W, unsigned BORDER) {
#pragma unroll 1
    for (int first = threadIdx.x; first < PIXELS; first += THREADS * BATCH) {
        uint2 loaded[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int number = first + i * THREADS;
            loaded[i] = load_pixel(x, image, pixel_of(number), number < PIXELS, top, left, first_group, H, W, BORDER);
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int number = first + i * THREADS;
            if (number < PIXELS) *(uint2*)(to + 4 * place_of(pixel_of(number))) = loaded[i];
        }
    }
}

// The four lanes of a row have two columns of four matrices each; after it lane i of them has the eight of matrix i.
__device__ __forceinline__ uint4 regroup(unsigned word_0, unsigned word_1, unsigned word_2, unsigned word_3, int lane) {
    const bool odd = lane & 1, upper = lane & 2;
    const unsigned got_0 = __shfl_xor_sync(0xffffffffu, odd ? word_0 : word_1, 1);
    const unsigned got_2 = __shfl_xor_sync(0xffffffffu, odd ? word_2 : word_3, 1);
    // columns of lanes 0, 1 or 2, 3: of matrix 0 or 1, and of matrix 2 or 3
    const unsigned first_0 = odd ? got_0 : word_0, second_0 = odd ? word_1 : got_0;
    const unsigned first_2 = odd ? got_2 : word_2, second_2 = odd ? word_3 : got_2;
    const unsigned first = __shfl_xor_sync(0xffffffffu, upper ? first_0 : first_2, 2);
    const unsigned second = __shfl_xor_sync(0xffffffffu, upper ? second_0 : second_2, 2);
    return upper ? make_uint4(first, second, first_2, second_2) : make_uint4(first_0, second_0, first, second);
}

// The first `count` of eight elements to where they lie side by side.
__device__ __forceinline__ void store_some(element* to, uint4 eight, int count) {
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (2 * i < count) to[2 * i] = (element)words[i];
        if (2 * i + 1 < count) to[2 * i + 1] = (element)(words[i] >> 16);
    }
}

// tensor cores
__device__ __forceinline__ void wc_mma_halves_16(float4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3}, { %4, %5, %6, %7}, { %8, %9}, { %0, %1, %2, %3};" : "+f"(c.x), "+f"(c.y), "+f"(c.z), "+f"(c.w) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); }

// The filter in the order of its products, filled up with zeros: once for each filter, before the first call. A lane's
// four elements are the channels of the tap lane % 4 of four, of the filter lane / 4 of eight.
extern "C" __global__ void __launch_bounds__(SIDE_THREADS)
prepare_filter(const element* __restrict__ w, element* __restrict__ filter) {
    constexpr int PIXELS_OF_ALL = N_TILES * GROUP_FILTERS;
    for (int i = blockIdx.x * SIDE_THREADS + threadIdx.x; i < PIXELS_OF_ALL; i += gridDim.x * SIDE_THREADS) {
        const int lane = i % 32, block = i / 32 % BLOCKS, chunk = i / (32 * BLOCKS) % CHUNKS;
        const int n_tile = i / GROUP_FILTERS % N_TILES, group = i / GROUP_FILTERS / N_TILES;
        const int k = (n_tile * BLOCKS + block) * 8 + lane / 4, tap = chunk * 4 + lane % 4;
#pragma unroll
        for (int channel = 0; channel < 4; ++channel) {
            const bool exists = k < K_GROUP && tap < R * S && channel < C_GROUP;
            filter[i * 4LL + channel] = exists
                ? w[(((long long)group * K_GROUP + k) * C_GROUP + channel) * (R * S) + tap] : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 8)
taps_5x5(const unsigned short* __restrict__ x, unsigned short* __restrict__ filter, unsigned short* __restrict__ y,
        int N, int H, int W, int P, int Q, unsigned BORDER) {
    extern __shared__ __align__(128) element shared[];
    element* const filters = shared;
    element* const halo = shared + GROUP_FILTERS * 4;
    const int n_tile = blockIdx.y % N_TILES, first_group = blockIdx.y / N_TILES;
    const int first_k = n_tile * (BLOCKS * 8);             // of this block's filters in their group
    const int tiles_p = (P + TILE_P - 1) / TILE_P, tiles_q = (Q + TILE_Q - 1) / TILE_Q;
    const long long tiles = (long long)N * tiles_p * tiles_q;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (blockIdx.x >= tiles) return;
    copy_filters(filters, filter + ((long long)first_group * N_TILES + n_tile) * (GROUP_FILTERS * 4));
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_q = (int)(tile % tiles_q) * TILE_Q, first_p = (int)(tile / tiles_q % tiles_p) * TILE_P;
        const index_t image = (index_t)(tile / tiles_q / tiles_p);
        copy_pixels(halo, x, image, first_p - PAD_TOP, first_q - PAD_LEFT, first_group, H, W, BORDER);
        wc_copy_async_commit();
        wc_copy_async_wait_but();
        __syncthreads();
#pragma unroll 1
        for (int item = warp; item < ITEMS; item += WARPS) {
            const int of_block = item / STRIP_SETS, first_strip = item % STRIP_SETS * STRIPS;
            const int warp_group = first_group + of_block;
            // where this lane's pixels of each strip begin: lane / 4 and eight further on
            int places[STRIPS][2];
#pragma unroll
            for (int s = 0; s < STRIPS; ++s)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int strip = first_strip + s, column = half * 8 + lane / 4;
                    places[s][half] = strip * HALO_COLUMNS + column;
                }
            float4 sums[ROWS][COLUMNS] = {};
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const int tap = chunk * 4 + lane % 4;
                const int offset = tap / S * HALO_COLUMNS + tap % S;
#pragma unroll
                for (int g = 0; g < WARP_GROUPS; ++g) {
                    const element* const plane = halo + ((of_block + g) * PLANE + offset) * 4;
                    uint2 pixels[STRIPS][2];
#pragma unroll
                    for (int s = 0; s < STRIPS; ++s)
#pragma unroll
                        for (int half = 0; half < 2; ++half)
                            pixels[s][half] = tap < R * S ? *(const uint2*)(plane + places[s][half] * 4)
                                : make_uint2(0u, 0u);
                    const element* const of_group = filters
                        + (((of_block + g) * CHUNKS + chunk) * BLOCKS * 32 + lane) * 4;
#pragma unroll
                    for (int n = 0; n < BLOCKS; ++n) {
                        const uint2 eight = *(const uint2*)(of_group + n * 128);
#pragma unroll
                        for (int m = 0; m < ROWS; ++m)
                            wc_mma_halves_16(sums[m][g * BLOCKS + n], pixels[m][0].x, pixels[m][1].x, pixels[m][0].y,
                                pixels[m][1].y, eight.x, eight.y);
                    }
                }
            }
#pragma unroll
            for (int n = 0; n < COLUMNS; n += 4) {
                // of this lane: two filters of each of four matrices before the exchange, after it the eight of one
                const int block = n + lane % 4, k = first_k + block % BLOCKS * 8;
                const int count = block < BLOCKS ? K_GROUP - k : 0;
#pragma unroll
                for (int m = 0; m < ROWS; ++m) {
                    const int strip = first_strip + m, p = first_p + strip;
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int q = first_q + lane / 4 + half * 8;
                        const bool inside = p < P && q < Q;
                        const index_t pixel = ((image * P + p) * Q + q) * K;
                        unsigned words[4];
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            const float4 sum = sums[m][n + i];
                            words[i] = wc_floats_to_halves((half ? sum.z : sum.x), (half ? sum.w : sum.y));
                        }
                        const uint4 eight = regroup(words[0], words[1], words[2], words[3], lane % 4);
                        if (inside) store_some(y + pixel + (warp_group + block / BLOCKS) * K_GROUP + k, eight, count);
                    }
                }
            }
        }
        __syncthreads();        // every warp is done with these pixels
    }
}
