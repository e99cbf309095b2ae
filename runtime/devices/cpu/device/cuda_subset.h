// The part of CUDA C++ that emitted kernels are written in, for a host compiler: g++/clang++ -include cuda_subset.h.
// A kernel's text is compiled as it is; nothing in it is rewritten. With WARPCPU_CHECK the compiler also puts a call
// before every memory access (see instrumentation.hpp), so this header keeps its own accesses out of sight there.
#pragma once
#include "abi.h"

#define WARPCONV_CPU_DEVICE 1

// ---- keywords
#define __global__ __attribute__((noinline, visibility("default")))
#define __device__
#define __host__
#define __shared__ thread_local      // a block runs on one worker; at block scope thread_local implies static
// `used`: the text never writes it, but set_constant does, so the compiler must not take its initial value for granted
#define __constant__ __attribute__((used, visibility("default")))
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

// A function of ours that the checks must not see. (clang instruments atomics even under no_sanitize.)
#ifdef __clang__
#define WCPU_UNSEEN __attribute__((disable_sanitizer_instrumentation, no_sanitize("coverage")))
#else
#define WCPU_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize("coverage")))
#endif

// ---- built-in variables
#ifdef WARPCPU_CHECK
// By value through a call: a read through a pointer would be instrumented and taken for an access of the kernel.
extern "C" {
uint3 wcpu_thread_index() __attribute__((const));
uint3 wcpu_block_index() __attribute__((const));
uint3 wcpu_block_size() __attribute__((const));
uint3 wcpu_grid_size() __attribute__((const));
unsigned wcpu_lane() __attribute__((const));
}
#define threadIdx (wcpu_thread_index())
#define blockIdx (wcpu_block_index())
#define blockDim (wcpu_block_size())
#define gridDim (wcpu_grid_size())
#else
#define threadIdx (wcpu_self()->thread_index)
#define blockIdx (wcpu_self()->block_index)
#define blockDim (wcpu_self()->block_size)
#define gridDim (wcpu_self()->grid_size)
__forceinline__ unsigned wcpu_lane() { return wcpu_self()->lane; }
#endif
#define warpSize 32

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#include "vector_types.h"
#include "warp_intrinsics.h"
#include "scalar_functions.h"
#include "device_primitives.h"
#include "hopper_primitives.h"
#include "launcher.h"
