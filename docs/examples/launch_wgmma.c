/* A wgmma kernel launched from C: descriptors encoded by the driver, as the head of the emitted text tells them.

     warpconv emit --input N,H,W,64 --filter 64,3,3 --padding 1 --dtype float16 --layout NHWC --arch sm_90 --algorithm wgmma \
       --set form=im2col --set filters=64 --set pixels=64 --set stages=4 --set buffer=32 --set splits=1 > wgmma.cu
     nvcc -cubin -arch=sm_90a -o wgmma.cubin wgmma.cu
     cc -o launch_wgmma launch_wgmma.c -I/usr/local/cuda/include -lcuda && ./launch_wgmma wgmma.cubin

   It prints "right", or which output is not. Sums of so few small integers are exact in float16. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the layer; N, H and W are the call's, the others are in the text. */
enum { N = 2, H = 14, W = 14, C = 64, K = 64, R = 3, S = 3, PAD = 1, P = H, Q = W };
/* Of the plan: `warpconv inspect` prints entries, blocks and bytes; tiles and boxes are in the head of the text. */
enum { TILE_FILTERS = 64, TILE_PIXELS = 64, SLICE = 64, STORE_PIXELS = 32, THREADS = 384, SIDE_THREADS = 256,
       SHARED_BYTES = 73808 };

static void check(CUresult status, const char *what) {
    const char *name = "an unknown error";
    if (status == CUDA_SUCCESS) return;
    cuGetErrorName(status, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

/* -1, 0, 1 as float16's bits, drawn by a linear congruence. */
static unsigned draw(void) {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 30;
}

static unsigned short half_of(int small) { return small < 0 ? 0xbc00 : small > 0 ? 0x3c00 : 0; }

/* Whole numbers up to 2048 alone. */
static int int_of(unsigned short half) {
    const int exponent = (half >> 10 & 31) - 25, digits = (half & 1023) | 1024;
    const int size = !(half & 0x7fff) ? 0 : exponent < 0 ? digits >> -exponent : digits << exponent;
    return half >> 15 ? -size : size;
}

int main(int count, char **words) {
    static signed char x[N * H * W * C], w[K * C * R * S];             /* [N][H][W][C], [K][C][R][S], */
    static unsigned short x_bits[N * H * W * C], w_bits[K * C * R * S], y[N * P * Q * K];      /* [N][P][Q][K] */
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction prepare, product;
    CUdeviceptr on_x, on_w, on_filter, on_y;
    CUtensorMap x_map, filter_map, y_map;      /* 128 bytes, at a multiple of 64: the type sees to it */
    int multiprocessors, n = N, p = P, q = Q;

    if (count != 2) {
        fprintf(stderr, "usage: %s wgmma.cubin\n", words[0]);
        return 2;
    }
    for (int i = 0; i < N * H * W * C; ++i) x_bits[i] = half_of(x[i] = (signed char)(draw() % 3) - 1);
    for (int i = 0; i < K * C * R * S; ++i) w_bits[i] = half_of(w[i] = (signed char)(draw() % 3) - 1);

    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "multiprocessors");
    check(cuModuleLoad(&module, words[1]), "cuModuleLoad");
    check(cuModuleGetFunction(&prepare, module, "prepare_filter"), "prepare_filter");
    check(cuModuleGetFunction(&product, module, "wgmma_3x3"), "wgmma_3x3");
    check(cuFuncSetAttribute(product, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, SHARED_BYTES), "shared memory");
    check(cuMemAlloc(&on_x, sizeof x_bits), "cuMemAlloc");
    check(cuMemAlloc(&on_w, sizeof w_bits), "cuMemAlloc");
    check(cuMemAlloc(&on_filter, sizeof w_bits), "cuMemAlloc");
    check(cuMemAlloc(&on_y, sizeof y), "cuMemAlloc");
    check(cuMemcpyHtoD(on_x, x_bits, sizeof x_bits), "x");
    check(cuMemcpyHtoD(on_w, w_bits, sizeof w_bits), "w");

    /* x_map: x as (C, W, H, N), the innermost first, im2col: SLICE channels of TILE_PIXELS windows. Corners are
       -padding, and padding - dilation * (filter - 1); strides of memory are in bytes and leave out the innermost. */
    {
        const cuuint64_t sizes[] = {C, W, H, N}, distances[] = {2 * C, 2 * C * W, 2 * C * W * H};
        const int lower[] = {-PAD, -PAD}, upper[] = {PAD - (S - 1), PAD - (R - 1)};
        const cuuint32_t strides[] = {1, 1, 1, 1};
        check(cuTensorMapEncodeIm2col(&x_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)on_x, sizes, distances, lower, upper,
                                      SLICE, TILE_PIXELS, strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), "x_map");
    }
    /* filter_map: the prepared filter as (C, R * S, K), boxes of SLICE x 1 x TILE_FILTERS. */
    {
        const cuuint64_t sizes[] = {C, R * S, K}, distances[] = {2 * C, 2 * C * R * S};
        const cuuint32_t box[] = {SLICE, 1, TILE_FILTERS}, strides[] = {1, 1, 1};
        check(cuTensorMapEncodeTiled(&filter_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void *)on_filter, sizes, distances, box,
                                     strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                     CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), "filter_map");
    }
    /* y_map: y as (K, N * P * Q), boxes of 64 x STORE_PIXELS. */
    {
        const cuuint64_t sizes[] = {K, N * P * Q}, distances[] = {2 * K};
        const cuuint32_t box[] = {64, STORE_PIXELS}, strides[] = {1, 1};
        check(cuTensorMapEncodeTiled(&y_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)on_y, sizes, distances, box, strides,
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                     CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), "y_map");
    }

    /* once for each filter */
    {
        void *arguments[] = {&on_w, &on_filter};
        check(cuLaunchKernel(prepare, (K * C * R * S + SIDE_THREADS - 1) / SIDE_THREADS, 1, 1, SIDE_THREADS, 1, 1, 0, 0, arguments,
                             0), "launching prepare_filter");
    }
    /* a block for each multiprocessor, or for each tile where there are fewer; descriptors go by value */
    {
        void *arguments[] = {&x_map, &filter_map, &y_map, &n, &p, &q};
        const int tiles = (N * P * Q + TILE_PIXELS - 1) / TILE_PIXELS * ((K + TILE_FILTERS - 1) / TILE_FILTERS);
        check(cuLaunchKernel(product, tiles < multiprocessors ? tiles : multiprocessors, 1, 1, THREADS, 1, 1, SHARED_BYTES, 0,
                             arguments, 0), "launching wgmma_3x3");
    }
    check(cuMemcpyDtoH(y, on_y, sizeof y), "y");

    for (int i = 0; i < N * P * Q * K; ++i) {
        const int k = i % K, column = i / K % Q, row = i / K / Q % P, image = i / K / Q / P;
        int sum = 0;
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < S; ++s) {
                const int h = row + r - PAD, v = column + s - PAD;
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                for (int c = 0; c < C; ++c) sum += x[((image * H + h) * W + v) * C + c] * w[((k * C + c) * R + r) * S + s];
            }
        if (int_of(y[i]) != sum) {
            printf("y[%d][%d][%d][%d] is %d, not %d\n", image, row, column, k, int_of(y[i]), sum);
            return 1;
        }
    }
    printf("right\n");
    return 0;
}
