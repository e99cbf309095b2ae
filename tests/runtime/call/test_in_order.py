"""Weights that lie as kernels read filters are read where they are: nothing is copied and prepared in a call."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.runtime.accuracy.reference import compare
from warpconv.runtime.devices.cpu.program import CpuProgram

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def layer(size: int, **changes) -> warpconv.ConvShape:
    return warpconv.ConvShape(**{**dict(n=1, c=16, h=5, w=6, k=16, r=size, s=size, padding=size // 2, dtype="float16",
                                        layout="NHWC"), **changes})


def drawn(sizes, seed, dtype=np.float16) -> np.ndarray:
    """At an address that is a multiple of 16, as libraries give them."""
    made = np.random.default_rng(seed).normal(0, 1, sizes).astype(dtype)
    assert made.ctypes.data % 16 == 0
    return made


def channels_last(weight: np.ndarray) -> np.ndarray:
    """The same weight, the channels of a tap side by side in memory."""
    last = (0, *range(2, weight.ndim), 1)
    return np.moveaxis(np.ascontiguousarray(weight.transpose(last)), -1, 1)


@pytest.fixture
def launched(monkeypatch):
    """The entries that are launched by calls that are checked."""
    names, launch = [], CpuProgram.launch

    def noted(self, entry, **how):
        names.append(entry)
        return launch(self, entry, **how)

    monkeypatch.setattr(CpuProgram, "launch", noted)
    return names


CASES = [dict(size=3, algorithm="mma", precision="float32", c=32),
         dict(size=1, algorithm="mma", precision="float32", c=32),
         dict(size=3, algorithm="wgmma", precision="float32"), dict(size=1, algorithm="wgmma", precision="float32"),
         dict(size=3, algorithm="wgmma", precision="tf32", dtype="float32"),
         dict(size=3, algorithm="mma", precision="tf32", dtype="float32", c=32),
         dict(size=3, algorithm="mma", precision="tf32x3", dtype="float32", c=32, k=32),
         dict(size=3, algorithm="mma", precision="float32", c=64, k=32, groups=2),
         dict(size=3, algorithm="wgmma", precision="float32", d=3, t=3)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
@pytest.mark.parametrize("lying", [channels_last, np.ascontiguousarray])
def test_only_other_orders_are_prepared(case, lying, launched):
    """1x1 filters lie alike in both."""
    case = dict(case)
    algorithm, precision = case.pop("algorithm"), case.pop("precision")
    size = case.pop("size")
    settings = dict(tile_m=64, tile_n=16, tile_k=32, warps_m=2, warps_n=1) if algorithm == "mma" else {}
    shape = layer(size, **case)
    kernel = warpconv.specialize(shape, arch="sm_90" if algorithm == "wgmma" else "sm_80", device="cpu",
                                 algorithm=algorithm, precision=precision, settings=settings)
    assert kernel.program.preparation.ordered
    dtype = np.dtype(shape.dtype.value)
    x, w = drawn(shape.layout.stored(shape.input_shape), 1, dtype), drawn(shape.weight_shape, 2, dtype)
    expected = kernel(x, kernel.prepare(w))
    launched.clear()
    given = lying(w)
    made = kernel(x, given)
    assert np.array_equal(made, expected) and np.abs(made.astype(float)).sum() > 0
    assert ("prepare_filter" in launched) == (size > 1 and lying is not channels_last)
    given *= 2          # read where it is, by calls that are remembered, too
    assert np.array_equal(kernel(x, given), 2 * expected) and np.array_equal(kernel(x, given), 2 * expected)


def test_weights_at_other_addresses_are_prepared(launched):
    shape = layer(1, h=4, w=4)
    kernel = warpconv.specialize(shape, arch="sm_90", device="cpu", algorithm="wgmma")
    x, memory = drawn(shape.layout.stored(shape.input_shape), 1), drawn(shape.k * shape.c + 8, 2)
    for _ in range(2):
        w = memory[1:1 + shape.k * shape.c].reshape(shape.weight_shape)
        launched.clear()
        made = kernel(x, w)
        assert "prepare_filter" in launched
        assert compare(made, x, w, shape).worst_ratio <= 1
