"""``out_dtype``: outputs in bfloat16 are those that the same algorithm makes in float32, rounded to nearest even."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

bfloat16 = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy").bfloat16
on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
RNG = np.random.default_rng(29)
TYPES = [np.float32, np.float16]


def same(call, *arrays, **options):
    made, exact = (call(*arrays, device="cpu", out_dtype=dtype, **options) for dtype in ("bfloat16", "float32"))
    assert made.dtype == bfloat16 and (made == exact.astype(bfloat16)).all()


@on_the_cpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("algorithm, c, k, groups, layout", [
    ("auto", 1, 1, 1, "NCHW"), ("direct", 4, 6, 2, "NCHW"), ("direct", 4, 6, 1, "NHWC"), ("auto", 3, 3, 3, "NHWC")])
def test_bfloat16_of_images(algorithm, c, k, groups, layout, dtype):
    x = RNG.standard_normal((2, 9, 13, c) if layout == "NHWC" else (2, c, 9, 13)).astype(dtype)
    w = RNG.standard_normal((k, c // groups, 3, 3)).astype(dtype)
    same(warpconv.conv2d, x, w, padding=1, groups=groups, algorithm=algorithm, layout=layout, activation="relu")


@on_the_cpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout, groups", [("NCDHW", 4), ("NCDHW", 1), ("NDHWC", 1)])
def test_bfloat16_of_volumes(layout, groups, dtype):
    x = RNG.standard_normal((1, 5, 6, 7, 4) if layout == "NDHWC" else (1, 4, 5, 6, 7)).astype(dtype)
    w = RNG.standard_normal((4, 4 // groups, 3, 3, 3)).astype(dtype)
    same(warpconv.conv3d, x, w, padding=1, groups=groups, layout=layout)


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_bfloat16_compiles_without_spills(arch):
    for layer in (dict(c=3, k=3, groups=3, h=40, w=50), dict(c=3, k=3, groups=3, d=9, h=40, w=50, t=3)):
        made = plan_layer(ConvShape(r=3, s=3, padding=1, out_dtype="bfloat16", **layer), arch=arch)
        assert not any(entry.spills for entry in build(made).compiled.entries)
