"""A GPU that others use up, break or take away: whose fault it was is said, nothing is kept, and what can go on does.

What loses a context runs in a process of its own. Run by itself: memory is taken that other processes would miss.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import warpconv
from tests.gpu.test_sanitizer import sanitizer
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cuda import memory

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
SPLIT = ConvShape(n=1, c=512, h=7, w=7, k=512, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
USUAL = """
    import numpy as np, cupy, warpconv
    from warpconv.codegen.errors import DeviceError
    x, w = cupy.asarray(np.ones((1, 4, 33, 47), "f4")), cupy.asarray(np.ones((4, 4, 3, 3), "f4"))
    def call(*arrays):
        y = warpconv.conv2d(*(arrays or (x, w)), padding=1)
        assert abs(float(y[0, 0, 5, 5]) - 36) < 1e-5
    call()
"""


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def stored(shape: ConvShape, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return shape.layout.stored(sizes)


def process(body: str, *before: str, usual: str = USUAL) -> str:
    """What a process of USUAL and ``body`` prints; it has to end by itself."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([*before, sys.executable, "-c", textwrap.dedent(usual) + textwrap.dedent(body)], cwd=ROOT,
                          env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def test_memory_that_ends_in_the_middle_of_a_call(torch):
    """Partial sums find no room: an error that says so; with room again the call has the same bits as before."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    x, w = (torch.randn(sizes, device="cuda", dtype=torch.float16, generator=generator)
            for sizes in (stored(SPLIT, SPLIT.input_shape), SPLIT.weight_shape))
    kernel = warpconv.specialize(SPLIT, device="cuda", algorithm="mma", settings={"splits": 8})
    assert kernel.program.workspaces
    y = torch.empty(stored(SPLIT, SPLIT.output_shape), device="cuda", dtype=torch.float16)
    kernel(x, w, out=y)
    torch.cuda.synchronize()
    first = y.clone()
    memory.pool.trim()
    torch.cuda.empty_cache()
    held, taken = memory.pool.held_bytes(), []
    for size in (1 << 30, 1 << 24, 1 << 21, 1 << 20, 1 << 18, 1 << 16):
        while True:
            try:
                taken.append(memory.allocate(size))
            except DeviceError:
                break
    try:
        for _ in range(3):
            with pytest.raises(DeviceError, match="no room for"):
                kernel(x, w, out=y)
        assert memory.pool.held_bytes() == held
    finally:
        for pointer in taken:
            memory.free(pointer)
    y.fill_(float("nan"))
    kernel(x, w, out=y)
    torch.cuda.synchronize()
    assert torch.equal(y, first)


def test_ten_thousand_calls_of_eighty_sizes_hold_no_more_memory(torch):
    shapes = [ConvShape(n=n, c=64, h=h, w=h, k=64, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
              for n in range(1, 9) for h in range(4, 14)]
    arrays = [[torch.zeros(sizes, device="cuda", dtype=torch.float16)
               for sizes in (stored(shape, shape.input_shape), shape.weight_shape)] for shape in shapes]
    held = []
    for _ in range(125):
        for x, w in arrays:
            warpconv.conv2d(x, w, padding=1, layout="NHWC", algorithm="mma")
        torch.cuda.synchronize()
        held.append((torch.cuda.mem_get_info()[0], memory.pool.held_bytes()))
    assert len(set(held[1:])) == 1, held


def test_what_an_earlier_kernel_of_others_did():
    told = process("""
        broken = cupy.RawKernel('extern "C" __global__ void broken(int* p) { p[0] = 1; }', "broken")
        broken((1,), (1,), (np.uint64(8),))
        try:
            cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError:
            pass
        for _ in range(2):
            try:
                call()
            except DeviceError as error:
                print(error)
            else:
                raise SystemExit("no error")
        import os
        os._exit(0)          # CuPy's own memory cannot be given back in a lost context
    """)
    assert told.count("earlier kernel") == 2, told


def test_a_context_that_somebody_destroyed():
    """Calls in it end in words. (PyCUDA's own stack of contexts is of no more use in that process.)"""
    told = process("""
        import numpy as np, warpconv
        import pycuda.driver as cuda
        from warpconv.codegen.errors import DeviceError
        from pycuda import gpuarray
        def arrays():
            return gpuarray.to_gpu(np.ones((1, 4, 33, 47), "f4")), gpuarray.to_gpu(np.ones((4, 4, 3, 3), "f4"))
        cuda.init()
        first = cuda.Device(0).make_context()
        gone = arrays()
        def own(arrays):
            y = warpconv.conv2d(*arrays, padding=1)
            assert abs(float(y.get()[0, 0, 5, 5]) - 36) < 1e-5
        own(gone)
        import ctypes
        from warpconv.runtime.devices.cuda.libcuda import libcuda
        libcuda().cuCtxDestroy_v2(ctypes.c_void_p(first.handle))
        for _ in range(2):
            try:
                own(gone)
            except DeviceError as error:
                print("said:", error)
            else:
                raise SystemExit("no error")
        import os, sys
        sys.stdout.flush()
        os._exit(0)          # PyCUDA would clean up in the context that is gone
    """, usual="")
    assert told.count("said:") == 2, told


def test_the_interface_of_the_driver_is_used_without_errors():
    told = process("""
        for n in (1, 2, 3):
            call(cupy.ones((n, 4, 20, 20), "f4"), w)
        warpconv.gaussian_filter(cupy.ones((64, 64), "f4"), 2)
        kernel = warpconv.specialize(warpconv.ConvShape(n=1, c=4, h=33, w=47, k=4, r=3, s=3, padding=1), device="cuda")
        kernel(x, kernel.prepare(w))
    """, sanitizer(), "--tool", "memcheck", "--report-api-errors", "all", "--error-exitcode", "99")
    assert "ERROR SUMMARY: 0 errors" in told, told[-3000:]
