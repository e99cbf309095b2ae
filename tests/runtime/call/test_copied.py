"""Gradients of dense layers in NCHW by kernels for NHWC, between copies."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks, gradients
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime.call import conv, copied, kernels

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYER = {"n": 32, "c": 256, "h": 28, "w": 28, "k": 256, "r": 3, "s": 3, "padding": 1, "stride": 2}


def asked(operation: Operation, arch: str = "sm_90", **changes) -> kernels.Ask:
    how = {name: changes.pop(name) for name in ("algorithm", "settings") if name in changes}
    return kernels.asked(ConvShape(**{**LAYER, **changes}), None, arch=arch, operation=operation, **how)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_where_two_copies_cost_less_than_they_save(dtype):
    conv.clear()
    other = copied.in_nhwc(asked(Operation.DATA_GRADIENT, dtype=dtype))
    assert other is not None and other.request.layer.layout.value == "NHWC"
    assert kernels.plan_of(other).spec.algorithm == "phases_mma"
    if dtype != "float32":
        other = copied.in_nhwc(asked(Operation.FILTER_GRADIENT, dtype=dtype))
        assert other is not None and "mma" in kernels.plan_of(other).spec.algorithm


@pytest.mark.parametrize("operation, changes", [
    (Operation.DATA_GRADIENT, {"stride": 1}), (Operation.DATA_GRADIENT, {"layout": "NHWC"}),
    (Operation.DATA_GRADIENT, {"algorithm": "phases"}), (Operation.DATA_GRADIENT, {"groups": 256}),
    (Operation.DATA_GRADIENT, {"n": 1, "c": 16, "k": 16, "h": 7, "w": 7}), (Operation.DATA_GRADIENT, {"arch": "sm_75"}),
    (Operation.FILTER_GRADIENT, {"c": 3}), (Operation.FORWARD, {"c": 3})])
def test_where_not(operation, changes):
    """A kernel of its own, another order, what was named, few channels, little work, no tensor cores for it."""
    conv.clear()
    assert copied.in_nhwc(asked(operation, **changes)) is None


def test_asked_once(monkeypatch):
    conv.clear()
    calls, real = [], copied._is_sooner
    monkeypatch.setattr(copied, "_is_sooner", lambda *asks: calls.append(asks) or real(*asks))
    for _ in range(3):
        copied.in_nhwc(asked(Operation.DATA_GRADIENT))
    assert len(calls) == 1
    conv.clear()
    copied.in_nhwc(asked(Operation.DATA_GRADIENT))
    assert len(calls) == 2


@on_cpu_device
@pytest.mark.parametrize("out", [False, True])
def test_arrays_come_back_in_their_order(monkeypatch, out):
    monkeypatch.setattr(copied, "_is_sooner", lambda here, there: True)
    conv.clear()
    layer = ConvShape(n=2, c=24, h=9, w=11, k=16, r=3, s=3, padding=1, stride=2, dtype="float16")
    made, seen, real = gradients.make(np.random.default_rng(3), layer), [], kernels.kernel_of
    monkeypatch.setattr(kernels, "kernel_of", lambda ask: seen.append(ask.request.layer.layout.value) or real(ask))
    for name, sizes in (("dx", layer.input_shape), ("dw", layer.weight_shape)):
        to = np.full(sizes, np.nan, "e") if out else None
        got = made.call(name, device="cpu", **({"out": to} if out else {}))
        getattr(made, name).check(got, name)
        assert got.flags.c_contiguous and (to is None or got is to)
    assert seen == ["NHWC", "NHWC"]
    del seen[:]
    last = {"layout": "NHWC"}       # axes in another order than memory: left as they are
    dy = np.ascontiguousarray(made.dy).transpose(0, 2, 3, 1)
    got = warpconv.conv2d_input((2, 9, 11, 24), made.w, dy, 2, 1, device="cpu", **last)
    made.dx.check(np.moveaxis(got, -1, 1), "dx")
    conv.clear()
