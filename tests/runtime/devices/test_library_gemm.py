"""im2col's matrix product: cuBLAS through its binding, NumPy on the CPU device."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests import checks, settings
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import conv
from warpconv.runtime.devices import steps
from warpconv.runtime.devices.cpu import Mode
from warpconv.runtime.devices.cuda.backend import CudaBackend
from warpconv.runtime.devices.library import cublas, numpy_gemm

SMALL = ConvShape(n=3, c=4, h=11, w=13, k=6, r=3, s=3, padding=1, groups=2)
needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture(autouse=True)
def forgotten():
    yield
    conv.clear()


class HostCublas:
    """cuBLAS's side of the binding on host memory, column by column as cuBLAS counts."""

    Operation = SimpleNamespace(N=0)
    PointerMode = SimpleNamespace(HOST=0)
    Math = SimpleNamespace(DEFAULT_MATH=0)

    def __init__(self) -> None:
        self.made: list[int] = []
        self.calls: list[tuple] = []

    def create(self) -> int:
        self.made.append(len(self.made) + 1)
        return self.made[-1]

    def set_pointer_mode(self, handle: int, mode: int) -> None:
        assert mode == 0

    def set_math_mode(self, handle: int, mode: int) -> None:
        assert mode == self.Math.DEFAULT_MATH, "float32 means float32"

    def set_stream(self, handle: int, stream: int) -> None:
        self.calls.append(("stream", stream))

    def set_workspace(self, handle: int, pointer: int, nbytes: int) -> None:
        assert self.calls[-1][0] == "stream", "a stream that is set later forgets the workspace"
        self.calls.append(("workspace", pointer, nbytes))

    def sgemm_strided_batched_64(self, handle, trans_a, trans_b, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta,
                                 c, ldc, step_c, count) -> None:
        assert (trans_a, trans_b) == (0, 0)
        one, zero = (ctypes.c_float.from_address(at).value for at in (alpha, beta))
        assert (one, zero) == (1.0, 0.0)
        for i in range(count):
            left, right, out = (columns(at + 4 * i * step, rows, wide, leading) for at, step, rows, wide, leading in (
                (a, step_a, m, k, lda), (b, step_b, k, n, ldb), (c, step_c, m, n, ldc)))
            out[:] = left @ right
        self.calls.append(("gemm", count))


def columns(address: int, rows: int, wide: int, leading: int) -> np.ndarray:
    assert leading >= rows
    raw = (ctypes.c_float * (leading * wide)).from_address(address)
    return np.frombuffer(raw, np.float32).reshape(wide, leading)[:, :rows].T


@pytest.fixture
def host_cublas(monkeypatch):
    from warpconv.runtime.devices.cuda import contexts, streams
    made = HostCublas()
    monkeypatch.setattr(cublas, "binding", lambda: made)
    monkeypatch.setattr(cublas, "_free", {})
    monkeypatch.setattr(contexts, "context_key", lambda: ("id", 1))
    monkeypatch.setattr(streams, "relaxed_capture", lambda: SimpleContext())
    return made


class SimpleContext:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@pytest.mark.parametrize("n, groups", [(1, 1), (5, 1), (1, 3), (2, 3), (5, 3), (3, 3)])
def test_cublas_is_asked_for_the_product_that_numpy_makes(host_cublas, n, groups):
    shape = ConvShape(n=n, c=2 * groups, h=5, w=6, k=3 * groups, r=2, s=3, groups=groups)
    rng = settings.generator(n + groups)
    w, made, asked = rng.standard_normal(shape.weight_shape, np.float32), *(
        np.full(shape.output_shape, np.nan, np.float32) for _ in range(2))
    lowered = rng.standard_normal((n, shape.c * 6, shape.p * shape.q), np.float32)
    numpy_gemm.gemm_batch(SimpleNamespace(wrote=lambda y: None), shape, [w, lowered, made, None])
    assert np.isfinite(made).all()
    executor = SimpleNamespace(stream=77, nbytes=lambda pointer: {4096: 100}[pointer])
    cublas.gemm_batch(executor, shape, [w.ctypes.data, lowered.ctypes.data, asked.ctypes.data, 4096])
    np.testing.assert_allclose(asked, made, rtol=2e-5, atol=1e-5)
    assert host_cublas.calls[:2] == [("stream", 77), ("workspace", 4096, 100)]
    assert sum(call[1] for call in host_cublas.calls if call[0] == "gemm") == n * groups
    assert len([call for call in host_cublas.calls if call[0] == "gemm"]) == (1 if 1 in (n, groups) else min(n, groups))
    for image in range(n):
        one, other = np.full_like(made, np.nan), np.full_like(made, np.nan)
        cublas.gemm_image(executor, shape, [w.ctypes.data, lowered[image].ctypes.data, one.ctypes.data, 4096, image])
        numpy_gemm.gemm_image(SimpleNamespace(wrote=lambda y: None), shape, [w, lowered[image], other, None, image])
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)
        assert np.isnan(np.delete(one, image, 0)).all() and np.isfinite(one[image]).all()
    assert host_cublas.made == [1], "one handle, used again"


def test_threads_at_work_at_the_same_time_have_handles_of_their_own(host_cublas):
    with cublas._handle() as first, cublas._handle() as second:
        assert first != second
    with cublas._handle() as again:
        assert again in (first, second) and len(host_cublas.made) == 2


def test_a_failure_of_the_library_is_a_device_error_and_the_handle_comes_back(host_cublas, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")

    monkeypatch.setattr(host_cublas, "sgemm_strided_batched_64", broken, raising=False)
    executor = SimpleNamespace(stream=0, nbytes=lambda pointer: 100)
    with pytest.raises(DeviceError, match="CUBLAS_STATUS_NOT_SUPPORTED") as caught:
        cublas.gemm_batch(executor, SMALL, [0, 0, 0, 4096])
    assert cublas.EXTRA in caught.value.hint and cublas._free == {("id", 1): [1]}


def test_without_the_binding_there_is_no_kernel_for_a_gpu(monkeypatch):
    cublas.binding.cache_clear()
    for name in ("nvmath", "nvmath.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    program = plan_layer(SMALL, algorithm="im2col").program
    with pytest.raises(DeviceError) as caught:
        CudaBackend(program, b"", 0)
    assert cublas.EXTRA in caught.value.hint and caught.value.argument == "algorithm"
    steps.require(program, "cpu")
    CudaBackend(plan_layer(SMALL, algorithm="im2win_basic").program, b"", 0)
    cublas.binding.cache_clear()


def test_a_binding_that_breaks_is_a_device_error(monkeypatch):
    cublas.binding.cache_clear()
    broken = SimpleNamespace(__path__=[], __name__="nvmath", __spec__=None)
    monkeypatch.setitem(sys.modules, "nvmath", broken)
    monkeypatch.delitem(sys.modules, "nvmath.bindings", raising=False)
    with pytest.raises(DeviceError) as caught:
        cublas.require()
    assert cublas.EXTRA in caught.value.hint
    cublas.binding.cache_clear()


@needs_cpu
def test_the_products_are_numpys_on_the_cpu_device_and_every_access_around_them_is_checked():
    for batch in ("image", "whole"):
        plan = plan_layer(SMALL, algorithm="im2col", settings={"batch": batch}, epilogue=("bias", "relu"))
        kernel = checks.cpu_kernel(plan, Mode.CHECK)
        checks.check_kernel(kernel, SMALL)
        launches = SMALL.n + 1 if batch == "image" else 2
        assert len(kernel._backend.reports) == launches
        assert set().union(*(report.buffers for report in kernel._backend.reports)) == {"x", "columns", "bias", "y"}
