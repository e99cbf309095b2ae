"""Each rule of the machine that the CPU device checks, broken on purpose."""

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import (KERNEL, compiler_or_skip, fault, floats, read, run, source,
                                                      written)
from tests.runtime.devices.test_cpu_device_counts import run_convolution
from warpconv.codegen.errors import KernelFault
from warpconv.runtime.devices.cpu import Buffer, Mode

compiler_or_skip()


# ---- global memory

def test_read_past_the_end():
    fault("out-of-bounds", KERNEL + "k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }",
          [read(floats(32)), written(floats(32))], "block (0,0,0) thread (31,0,0)", "'x'", "element 32; it has 32")


def test_write_before_the_beginning():
    fault("out-of-bounds", KERNEL + "k(float* y) { y[(int)threadIdx.x - 1] = 1; }", [written(floats(32))],
          "thread (0,0,0)", "'y'", "element -1")


def test_one_image_past_the_end_is_not_taken_for_another_buffer():
    text = KERNEL + "k(const float* x, const float* z, float* y, int n) { y[threadIdx.x] = x[(int)threadIdx.x + n]; }"
    for elements in (1 << 20, -(1 << 20)):
        fault("out-of-bounds", text, [read(floats(1 << 20)), read(floats(1 << 20), "z"), written(floats(32)),
                                      np.int32(elements)], "'x'")


def test_a_vector_load_that_is_half_outside():
    fault("out-of-bounds", KERNEL + "k(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }",
          [read(floats(126)), written(floats(128))], "16-byte read", "element 124; it has 126")


def test_null_pointer():
    fault("out-of-bounds", KERNEL + "k(const float* x, float* y) { y[threadIdx.x] = x[0]; }",
          [None, written(floats(32))], "block (0,0,0) thread (0,0,0)")


def test_write_to_an_input():
    fault("read-only", KERNEL + "k(float* x) { x[threadIdx.x] = 1; }", [read(floats(32))], "'x'", "thread (0,0,0)",
          "element 0")


def test_misaligned_vector():
    text = KERNEL + """k(const float* x, float* y) {
        const float4 v = *reinterpret_cast<const float4*>(x + 1 + threadIdx.x * 4);
        y[threadIdx.x] = v.x; }"""
    fault("misaligned", text, [read(floats(256)), written(floats(32))], "'x'", "byte 4")


def test_two_threads_write_one_element():
    fault("global-race", KERNEL + "k(float* y) { const int i = threadIdx.x; y[i < 8 ? i : i - 1] = 1; }",
          [written(floats(31))], "'y'", "element 7", "thread (8,0,0)", "number 7 of block number 0")


def test_two_blocks_write_one_element():
    fault("global-race", KERNEL + "k(float* y) { y[threadIdx.x + 31 * blockIdx.x] = 1; }", [written(floats(63))],
          "'y'", "element 31", grid=(2, 1, 1), threads=1)


@pytest.mark.parametrize("order", [0, 1])
def test_one_thread_reads_what_another_writes(order):
    text = KERNEL + "k(float* y) { const int i = threadIdx.x; if (i == 3) y[0] = 1; else if (i == 5) y[1] = y[0]; }"
    fault("global-race", text, [Buffer("y", floats(2), writable=True)], "'y'", "element 0", order=order)


def test_bytes_of_one_word_may_have_several_writers():
    y = np.zeros(64, np.uint8)
    run(KERNEL + "k(unsigned char* y) { y[threadIdx.x] = threadIdx.x; }", [written(y)], block=(64, 1, 1))
    assert np.array_equal(y, np.arange(64))


def test_read_of_an_output_that_nobody_wrote():
    fault("uninitialised-read", KERNEL + "k(float* y) { y[threadIdx.x] += 1; }", [written(floats(32))], "'y'",
          "element 0", "thread (0,0,0)")


def test_output_that_is_not_complete():
    error = fault("unwritten-output", KERNEL + "k(float* y) { if (threadIdx.x != 7) y[threadIdx.x] = 0; }",
                  [written(floats(5, 8))], "'y'", "9 of 40", "element 7", "(0, 7)")
    assert error.entry == "k"


def test_atomics_of_many_threads_are_no_race():
    y = np.zeros(1, np.int32)
    run(KERNEL + "k(int* y) { atomicAdd(y, 2); }", [Buffer("y", y, writable=True)], block=(64, 1, 1), grid=(5, 1, 1))
    assert y[0] == 2 * 64 * 5


def test_a_plain_write_beside_atomics_is_a_race():
    text = KERNEL + "k(int* y) { if (threadIdx.x == 9) y[0] = 5; else atomicAdd(y, 2); }"
    fault("global-race", text, [Buffer("y", np.zeros(1, np.int32), writable=True)], "'y'", "element 0")


# ---- shared memory

SHARED = KERNEL + "k(float* y) { __shared__ float s[64]; const int i = threadIdx.x; %s }"


@pytest.mark.parametrize("body, block", [
    ("s[i] = i; y[i] = s[63 - i];", 64),                                                  # read after write
    ("s[i] = i; __syncthreads(); const float v = s[63 - i]; s[i] = v; __syncthreads(); y[i] = s[i];", 64),
    ("s[i & 31] = i; __syncthreads(); y[i] = s[i & 31];", 64),                            # write after write
    ("s[i] = i; __syncwarp(); y[i] = s[63 - i];", 64),                                    # orders one warp, not two
])
def test_race_in_shared_memory(body, block):
    fault("shared-race", SHARED % body, [written(floats(block))], "block (0,0,0)", "thread (", "shared memory",
          block=(block, 1, 1))


def test_race_within_a_warp():
    text = SHARED % "s[i] = i; %s y[i] = s[31 - i];"
    fault("shared-race", text % "__shfl_sync(~0u, 1.0f, 0);", [written(floats(32))])
    y = floats(32)
    run(text % "__syncwarp();", [written(y)])
    assert np.array_equal(y, np.arange(31, -1, -1))


def test_a_partial_syncwarp_orders_its_lanes_only():
    text = SHARED % "s[i] = i; if (i < 16) { __syncwarp(0xffffu); y[i] = s[%s]; } else y[i] = 0;"
    run(text % "15 - i", [written(floats(32))])
    fault("shared-race", text % "31 - i", [written(floats(32))], order=1)


def test_halves_of_one_word_may_have_several_writers():
    y = np.zeros(64, np.uint16)
    run(KERNEL + """k(unsigned short* y) {
        __shared__ unsigned short s[64];
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        y[threadIdx.x] = s[63 - threadIdx.x]; }""", [written(y)], block=(64, 1, 1))
    assert np.array_equal(y, np.arange(63, -1, -1))


def test_uninitialised_shared_memory():
    fault("uninitialised-read", SHARED % "s[i] = i; __syncthreads(); y[i] = s[i + 1];", [written(floats(32))],
          "thread (31,0,0)", "byte", "shared memory")


def test_shared_memory_of_the_block_before_is_uninitialised():
    text = SHARED % "if (blockIdx.x == 0) s[i] = i; __syncthreads(); y[i + 32 * blockIdx.x] = s[i];"
    fault("uninitialised-read", text, [written(floats(64))], "block (1,0,0) thread (0,0,0)", grid=(2, 1, 1), threads=1)


def test_dynamic_shared_memory_ends_where_the_launch_said():
    text = KERNEL + "k(float* y) { extern __shared__ float s[]; s[threadIdx.x] = 1; y[threadIdx.x] = s[threadIdx.x]; }"
    fault("out-of-bounds", text, [written(floats(32))], "thread (25,0,0)", "byte 100 of dynamic shared memory",
          shared_bytes=100)
    run(text, [written(floats(32))], shared_bytes=128)


# ---- arrays

def test_index_of_a_register_array():
    text = KERNEL + "k(float* y, int n) { float r[5] = {1, 2, 3, 4, 5}; y[threadIdx.x] = r[n + threadIdx.x]; }"
    fault("register-index", text, [written(floats(32)), np.int32(0)], "thread (5,0,0)", "index 5", "of type 'float",
          "kernel.cu:1")


def test_row_of_a_shared_array():
    text = KERNEL + """k(float* y) { __shared__ float s[2][36];
        s[threadIdx.x / 40][threadIdx.x % 40] = 1; y[threadIdx.x] = 0; }"""
    fault("register-index", text, [written(floats(64))], "index 36", block=(64, 1, 1))


# ---- meetings of lanes and of blocks

@pytest.mark.parametrize("body", ["if (i >= 20) return; y[i] = __shfl_sync(~0u, (float)i, 31);",
                                  "y[i] = __shfl_sync(0xffffu, (float)i, 0);",
                                  "if (i < 16) y[i] = __shfl_sync(0xffffu, (float)i, 20); else y[i] = 1;"])
def test_shuffle_of_a_lane_that_is_not_there(body):
    fault("inactive-lane", KERNEL + "k(float* y) { const int i = threadIdx.x; " + body + " }", [written(floats(32))],
          "block (0,0,0) thread (", "lane")


@pytest.mark.parametrize("lanes, call", [("i >= 20", "wc_mma_halves_16(c, 0, 0, 0, 0, 0, 0)"),
                                         ("i == 3", "wc_mma_tf32s_8(c, 0, 0, 0, 0, 0, 0)"),
                                         ("i < 16", "unsigned a, b; wc_load_matrices_2(a, b, x)")])
def test_matrices_take_all_lanes(lanes, call):
    text = KERNEL + f"""k(const float* x, float* y) {{ const int i = threadIdx.x; float4 c = make_float4(0, 0, 0, 0);
        if ({lanes}) return; {call}; y[i] = c.x; }}"""
    fault("inactive-lane", text, [read(floats(128)), written(floats(32))], "takes no part")


def test_lanes_that_meet_at_different_shuffles():
    text = KERNEL + """k(float* y) { const int i = threadIdx.x;
        if (i & 1) y[i] = __shfl_sync(~0u, 1.0f, 0) + 1; else y[i] = __shfl_sync(~0u, 2.0f, 1) * 3; }"""
    fault("divergent-barrier", text, [written(floats(32))], "another shuffle")


DIVERGENT = KERNEL + "k(float* y) { const int i = threadIdx.x; %s y[i] = 1; }"


@pytest.mark.parametrize("mode", Mode)
def test_barrier_against_shuffle(mode):
    fault("divergent-barrier", DIVERGENT % "if (i < 40) __syncthreads(); else if (i < 50) __shfl_sync(~0u, 1.0f, 0);",
          [written(floats(64))], "waits at __syncthreads", "block (0,0,0) thread (", block=(64, 1, 1), mode=mode)


def test_barrier_that_some_threads_skip():
    fault("divergent-barrier", DIVERGENT % "if (i < 40) __syncthreads();", [written(floats(64))], "thread (40,0,0)",
          "ended", block=(64, 1, 1))
    run(DIVERGENT % "if (i < 40) __syncthreads();", [written(floats(64))], block=(64, 1, 1), mode=Mode.FAST)


@pytest.mark.parametrize("mode", Mode)
def test_deadlock(mode):
    body = "if (i == 0) __syncwarp(3u); else if (i == 1) __syncwarp(7u); else if (i == 2) __syncwarp(6u);"
    fault("deadlock", DIVERGENT % body,
          [written(floats(32))], "waits for ever", "lanes 0x", mode=mode)


# ---- launches

@pytest.mark.parametrize("launch", [{"block": (1025, 1, 1)}, {"block": (32, 32, 2)}, {"block": (0, 1, 1)},
                                    {"grid": (1, 65536, 1)}, {"grid": (0, 1, 1)}, {"shared_bytes": 1 << 20},
                                    {"shared_bytes": -1}])
def test_bad_launch(launch):
    fault("launch", KERNEL + "k(float* y) { y[threadIdx.x] = 0; }", [written(floats(32))], mode=Mode.FAST, **launch)


def test_arguments_that_do_not_fit_the_parameters():
    text = KERNEL + "k(float* y, int n, float f) { y[threadIdx.x] = n * f; }"
    y = written(floats(32))
    for args in ([y], [y, np.int64(1), np.float32(1)], [y, np.float32(1), np.float32(1)], [y, np.int32(1), y]):
        fault("launch", text, args, mode=Mode.FAST)


# ---- mutants: one mistake in a correct kernel

MUTANTS = [
    ("conv5_shared", "__syncthreads();", "", ("shared-race",)),
    ("conv5_shared", "q >= Q || p >= P", "p >= P", ("global-race", "out-of-bounds")),
    ("conv5_shared", "h < H && v < W", "v < W", ("out-of-bounds",)),
    ("conv5_shared", "j < COLUMNS + 4", "j < COLUMNS", ("uninitialised-read",)),
    ("conv5_shared", "tile[ROWS + 4][COLUMNS + 4]", "tile[ROWS + 4][COLUMNS + 3]", ("register-index",)),
    ("conv5_shuffle", "__syncthreads();", "", ("shared-race",)),
    ("conv5_shuffle", "q + 4 < W", "q < W", ("out-of-bounds",)),
    ("conv5_shuffle", "upper ? low : high", "upper ? high : low", ("wrong",)),
    ("conv5_shuffle", "p0 >= P", "q >= Q", ("inactive-lane", "divergent-barrier")),
    ("conv5_shuffle", "blockIdx.x * 32", "blockIdx.x * 31", ("global-race",)),
    ("conv5_shuffle", "p0 + j < P", "p0 + j < P - 1", ("unwritten-output",)),
    ("conv5_shuffle", "i - r < ROWS", "i - r <= ROWS", ("register-index",)),
    ("conv5_direct", "q >= Q ||", "", ("global-race", "out-of-bounds")),
]


@pytest.mark.parametrize("name, old, new, outcomes", MUTANTS)
@pytest.mark.thin(3)
def test_mutants_are_caught(name, old, new, outcomes):
    text = source(name)
    assert old in text
    try:
        y, expected, _ = run_convolution(name, text.replace(old, new, 1), 70, 90)
        outcome = "right" if np.array_equal(y, expected) else "wrong"
    except KernelFault as error:
        outcome = error.kind
    assert outcome in outcomes
