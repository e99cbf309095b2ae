"""What the GPU tests share: kernels of cases, arrays of each library, and the primary context for PyCUDA."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from tests import checks, reference, settings
from tests.cases import Case
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call.conv import specialize
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.devices.library import cublas

COMPILERS = 16
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))      # processes that share the tests


@functools.lru_cache(maxsize=1)
def arch() -> str:
    return contexts.arch(0)


def build_ahead(cases: list[Case], shapes: Mapping[Case, tuple[ConvShape, ...]] | None = None) -> None:
    """Compile side by side what the cases' sizes (their own, or ``shapes``) need; a hit in the disk cache is all that
    the tests then meet. Of several processes of pytest-xdist each compiles a share of them."""
    first, processes = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), WORKERS
    plans = [plan for case in cases[first::processes]
             for plan, _ in case.plans(shapes[case] if shapes else case.sizes(), arch())]
    checks.compile_ahead(build, plans, max(1, COMPILERS // processes))


@functools.lru_cache(maxsize=1)
def no_cublas() -> str | None:
    """Why algorithms with a product by cuBLAS cannot run here; None where they can."""
    try:
        cublas.require()
    except DeviceError as error:
        return str(error)
    return None


def runs(case: Case, shape: ConvShape | None = None) -> bool:
    """Whether what a case needs besides a GPU is installed; ``shape``: a layer that its plan takes, where the sizes of
    the case table may be none."""
    return no_cublas() is None or not case.plan(arch(), shape).program.library_calls


def needs_cublas() -> None:
    """Skip the test, with the reason, where the binding of cuBLAS is not installed."""
    if no_cublas() is not None:
        pytest.skip(no_cublas())


def kernel_of(plan: KernelPlan, shape: ConvShape | None = None) -> Kernel:
    """A plan's kernel; ``shape`` is one that it serves, where it does not serve every size. Skips the test where the
    plan needs a library that is not installed."""
    if plan.program.library_calls:
        needs_cublas()
    return specialize(shape or plan.spec.example_shape(), device="cuda", plan=plan)


def local_bytes(kernel: Kernel) -> int:
    """Local memory a thread, as the driver reports it for the loaded kernel."""
    return max(entry.local_bytes for entry in kernel._backend.attributes().values())


def promises_registers(plan: KernelPlan) -> bool:
    """The plan says no spills, and no plan value forces the compiler below the registers that it plans."""
    return plan.cost.no_spills and getattr(plan.options, "min_blocks", 1) in (0, 1)


class Layer:
    """Operands of a layer in host memory, and what must come out."""

    def __init__(self, shape: ConvShape, *, seed: int = 0, epilogue: tuple[Epilogue, ...] = (),
                 numerics: Numerics = Numerics.FLOAT32):
        self.shape = shape
        self.x, self.w, bias = reference.operands(shape, settings.generator(seed))
        self.bias = bias if Epilogue.BIAS in epilogue else None
        residual = Epilogue.RESIDUAL in epilogue
        self.residual = reference.residual(shape, settings.generator(seed + 1)) if residual else None
        self.expected = reference.expected(self.x, self.w, shape, bias=self.bias, residual=self.residual,
                                           epilogue=epilogue, numerics=numerics)

    def check(self, got: Any, what: str = "") -> None:
        self.expected.check(to_host(got), what)


def to_host(array: Any) -> np.ndarray:
    """NumPy, torch, CuPy or PyCUDA to NumPy."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "cpu"):
        return array.cpu().numpy()
    return array.get()


@contextlib.contextmanager
def primary_context() -> Iterator[Any]:
    """PyCUDA in the primary context, which it does not enter on its own."""
    context = contexts.driver().Device(0).retain_primary_context()
    context.push()
    try:
        yield context
    finally:
        context.pop()


@contextlib.contextmanager
def no_host_copies(monkeypatch: Any) -> Iterator[None]:
    """Any copy between host and GPU by warpconv fails inside."""
    from warpconv.runtime.devices.cuda import memory

    def refuse(*args: Any) -> None:
        raise AssertionError("a copy between host and GPU")

    with monkeypatch.context() as patch:
        patch.setattr(memory, "copy_in", refuse)
        patch.setattr(memory, "copy_out", refuse)
        yield
