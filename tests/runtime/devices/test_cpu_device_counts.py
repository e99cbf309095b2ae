"""Warp-level counts of the CPU device; those of the three 5x5 kernels are what ncu measured on an H200."""

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import KERNEL, compiler_or_skip, floats, read, run, source, written

TOOLCHAIN = compiler_or_skip()
counts_of_gcc = pytest.mark.skipif(TOOLCHAIN.family != "gcc", reason="clang lays this kernel's loops out otherwise")

# name: block, rows and columns of output of a block, dynamic shared bytes
CONVOLUTIONS = {"conv5_direct": ((32, 8, 1), (8, 32), 0), "conv5_shuffle": ((32, 4, 1), (32, 32), 0),
                "conv5_shared": ((32, 8, 1), (8, 32), 100)}


def convolve(x, w):
    """Valid 5x5 convolution of small integers: exact in float32 in any order."""
    height, width = x.shape[0] - 4, x.shape[1] - 4
    return sum(w[r, s] * x[r:r + height, s:s + width] for r in range(5) for s in range(5))


def run_convolution(name, text, height, width, **options):
    """Output and report of one of CONVOLUTIONS."""
    block, (rows, columns), shared_bytes = CONVOLUTIONS[name]
    rng = np.random.default_rng(5)
    x = rng.integers(-8, 8, (height, width)).astype(np.float32)
    w = rng.integers(-4, 4, (5, 5)).astype(np.float32)
    y = floats(height - 4, width - 4)
    grid = (-(-(width - 4) // columns), -(-(height - 4) // rows), 1)
    report = run(text, [read(x), read(w, "w"), written(y), np.int32(height), np.int32(width)], block=block, grid=grid,
                 shared_bytes=shared_bytes, **options)
    return y, convolve(x, w), report


@pytest.mark.thin(3)
@counts_of_gcc
@pytest.mark.parametrize("name, requests, sectors", [
    ("conv5_direct", 406400, 1168400), ("conv5_shuffle", 24704, 110276), ("conv5_shared", 24708, 64452)])
def test_counts_of_5x5_kernels_equal_the_hardwares(name, requests, sectors):
    y, expected, report = run_convolution(name, source(name), 512, 512)
    assert np.array_equal(y, expected)
    total = report.buffers["x"] + report.buffers["w"]
    assert (total.load_requests, total.load_sectors) == (requests, sectors)
    assert report.buffers["y"].store_sectors == 36322


def test_shuffles_and_barriers_are_counted():
    _, _, report = run_convolution("conv5_shuffle", source("conv5_shuffle"), 68, 36)
    assert report.shuffles == 2 * 4 * 12 * 3
    assert report.barriers == 1


LOAD = KERNEL + "k(const float* x, float* y) { const int i = threadIdx.x; y[i] = %s; }"


@pytest.mark.parametrize("expression, requests, sectors, lines", [
    ("x[i]", 1, 4, 1),
    ("x[i + 1]", 1, 5, 2),
    ("x[i * 2]", 1, 8, 2),
    ("x[i * 32]", 1, 32, 32),
    ("x[0]", 1, 1, 1),
    ("i < 8 ? x[i] : 0.0f", 1, 1, 1),
    ("x[i] + x[i + 32]", 2, 8, 2),
])
def test_sectors_of_load_patterns(expression, requests, sectors, lines):
    counts = run(LOAD % expression, [read(floats(1024)), written(floats(32))]).buffers["x"]
    assert (counts.load_requests, counts.load_sectors, counts.load_lines) == (requests, sectors, lines)


@counts_of_gcc
def test_lanes_that_skip_a_load_share_the_request_of_the_others():
    text = KERNEL + """k(const float* x, float* y) {
        float sum = 0.0f;
        const int lane = threadIdx.x;
        for (int i = 0; i < 8; ++i)
            if ((i + lane) & 1) sum += x[i * 32 + lane];
        y[lane] = sum;
    }"""
    counts = run(text, [read(floats(256)), written(floats(32))]).buffers["x"]
    assert (counts.load_requests, counts.load_sectors, counts.load_lines) == (8, 32, 8)
    assert counts.load_bytes == 8 * 16 * 4


def test_both_sides_of_a_branch_are_requests_of_their_own():
    text = KERNEL + """k(const float* x, float* y) {
        const int lane = threadIdx.x;
        float value;
        if (lane & 1) { value = x[lane] * 3.0f; y[lane + 32] = 1.0f; } else { value = x[lane + 64]; }
        y[lane] = value;
    }"""
    report = run(text, [read(floats(256)), written(floats(64), complete=False)])
    assert report.buffers["x"].load_requests == 2
    assert report.buffers["y"].store_requests == 2


def test_lanes_that_leave_a_loop_early():
    text = KERNEL + """k(const float* x, float* y) {
        float sum = 0.0f;
        for (int i = 0; i <= (int)threadIdx.x; ++i) sum += x[i];
        y[threadIdx.x] = sum;
    }"""
    report = run(text, [read(floats(32)), written(floats(32))])
    assert report.buffers["x"].load_requests == 32
    assert report.buffers["x"].load_bytes == 4 * 32 * 33 // 2
    assert report.buffers["y"].store_requests == 1


def test_a_vector_load_is_one_request():
    text = KERNEL + """k(const float4* x, float4* y) {
        const float4 v = x[threadIdx.x];
        y[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
    }"""
    x, y = np.arange(128, dtype=np.float32), floats(128)
    report = run(text, [read(x), written(y)])
    assert np.array_equal(y.reshape(-1, 4), x.reshape(-1, 4)[:, ::-1])
    counts = report.buffers["x"]
    assert (counts.load_requests, counts.load_sectors, counts.load_lines, counts.load_bytes) == (1, 16, 4, 512)
    assert (report.buffers["y"].store_requests, report.buffers["y"].store_sectors) == (1, 16)


@pytest.mark.parametrize("vector, cast, elements", [("float2", "const float2*", 2), ("int4", "const int4*", 4)])
def test_a_cast_vector_load_is_one_request(vector, cast, elements):
    text = KERNEL + f"""k(const float* x, int* y) {{
        const {vector} v = *reinterpret_cast<{cast}>(x + {elements} * threadIdx.x);
        y[threadIdx.x] = (int)v.x;
    }}"""
    counts = run(text, [read(floats(128)), written(np.zeros(32, np.int32))]).buffers["x"]
    assert (counts.load_requests, counts.load_sectors) == (1, 4 * elements)


@pytest.mark.parametrize("way, first, sectors, copied", [("cg", 0, 16, 16), ("cg", 1, 17, 20), ("ca", 1, 17, 17)])
def test_eight_lanes_of_an_asynchronous_copy_go_together(way, first, sectors, copied):
    """As on an H200: a sector that two groups of eight lanes share counts twice where a copy goes past the first cache,
    once where it or a load goes through it."""
    text = f"// cp.async.{way}.shared.global\n" + KERNEL + """k(const float4* x, float4* y, int first) {
        __shared__ __align__(16) float to[128];
        wc_copy_async_16(to + 4 * threadIdx.x, x + threadIdx.x + first);
        wc_copy_async_commit();
        const float4 loaded = x[threadIdx.x + first + 64];
        wc_copy_async_wait();
        y[threadIdx.x] = make_float4(to[4 * threadIdx.x], loaded.y, 0.0f, 0.0f);
    }"""
    x, y = np.arange(4 * 128, dtype=np.float32), floats(128)
    counts = run(text, [read(x), written(y), np.int32(first)]).buffers["x"]
    assert (counts.load_requests, counts.load_sectors, counts.load_bytes) == (2, sectors + copied, 1024)
    assert np.array_equal(y.reshape(-1, 4)[:, 0], x.reshape(-1, 4)[first:first + 32, 0])


@pytest.mark.parametrize("pitch, wavefronts", [(32, 64), (33, 2), (34, 4)])
def test_bank_conflicts(pitch, wavefronts):
    text = KERNEL + f"""k(float* y) {{
        __shared__ float tile[32][{pitch}];
        const int lane = threadIdx.x;
        tile[lane][0] = lane;
        __syncwarp();
        y[lane] = tile[lane][0];
    }}"""
    report = run(text, [written(floats(32))])
    assert (report.shared_requests, report.shared_wavefronts) == (2, wavefronts)


def test_constant_requests():
    text = "__constant__ float c[4]; " + KERNEL + "k(float* y) { y[threadIdx.x] = c[1] + c[2]; }"
    assert run(text, [written(floats(64))], block=(64, 1, 1)).constant_requests == 4


def test_counts_do_not_depend_on_order_or_workers():
    expected = run_convolution("conv5_shared", source("conv5_shared"), 70, 90)[2]
    for order, threads in ((1, 1), (6, 2), (7, 3)):
        report = run_convolution("conv5_shared", source("conv5_shared"), 70, 90, order=order, threads=threads)[2]
        assert report.buffers == expected.buffers
        assert report.shared_wavefronts == expected.shared_wavefronts
