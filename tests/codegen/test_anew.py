"""Sums of split factors that are not finite are made anew by float32 units (parts/anew): those alone, and no longer
than until they are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.algorithms.wgmma.test_float32 import BOX, TURNED
from warpconv.codegen.algorithms.wgmma.split import MOST_SPLIT_SUMS
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts.mma import MOST_SPLIT
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import Mode, backend

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

WAYS = {"wgmma": "fp16x3", "mma": "tf32x3"}
FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "wgmma": ("wgmma", "NHWC", BOX),
    "wgmma nchw": ("wgmma", "NCHW", TURNED),
    "mma": ("mma", "NHWC", {"splits": 1}),
    "mma nchw": ("mma", "NCHW", {"splits": 1}),
}

def drawn(layout: str, c: int = 32, k: int = 64) -> tuple[ConvShape, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    shape = ConvShape(n=2, c=c, h=9, w=12, k=k, r=3, s=3, layout=layout)
    x = rng.standard_normal(shape.layout.stored(shape.input_shape)).astype("f4")
    return shape, x, rng.standard_normal(shape.weight_shape).astype("f4")


def channel(x: np.ndarray, shape: ConvShape, c: int) -> np.ndarray:
    """A view of a channel of all images."""
    return x[:, c] if shape.layout.value == "NCHW" else x[..., c]


# ---- which sums

@on_cpu_device
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.thin(4)
def test_what_does_not_meet_it_keeps_its_bits(form, value):
    """A pixel of one channel: the windows over it become NaN or infinite, and nothing else changes."""
    algorithm, layout, settings = FORMS[form]
    shape, x, w = drawn(layout)
    kernel = warpconv.specialize(shape, device="cpu", algorithm=algorithm, settings=settings,
                                 precision=WAYS[algorithm])
    channel(x, shape, 3)[1, 4, 5] = 0.0
    before = kernel(x, w)
    channel(x, shape, 3)[1, 4, 5] = value
    with np.errstate(invalid="ignore"):
        after = kernel(x, w)
    met = np.zeros(shape.output_shape, bool)
    met[1, :, 2:5, 3:6] = True
    met = met if layout == "NCHW" else met.transpose(0, 2, 3, 1)
    assert np.array_equal(~np.isfinite(after), met)
    assert np.array_equal(after[~met].view("u4"), before[~met].view("u4"))


@on_cpu_device
def test_a_data_gradient_keeps_its_bits():
    rng = np.random.default_rng(5)
    w, dy = rng.standard_normal((96, 24, 3, 3)).astype("f4"), rng.standard_normal((2, 8, 9, 96)).astype("f4")
    given: dict[str, Any] = dict(stride=2, padding=1, layout="NHWC", device="cpu", algorithm="phases_mma")
    dy[0, 3, 4, 7] = 0.0
    before = warpconv.conv2d_input((2, 15, 17, 24), w, dy, **given)
    dy[0, 3, 4, 7] = np.nan
    after = warpconv.conv2d_input((2, 15, 17, 24), w, dy, **given)
    met = np.zeros(after.shape, bool)
    met[0, 5:8, 7:10] = True
    assert np.array_equal(np.isnan(after), met)
    assert np.array_equal(after[~met].view("u4"), before[~met].view("u4"))


@on_cpu_device
def test_a_filter_gradient_keeps_its_bits():
    """A gradient of one filter: its row of sums."""
    rng = np.random.default_rng(6)
    x, dy = rng.standard_normal((2, 10, 9, 24)).astype("f4"), rng.standard_normal((2, 10, 9, 40)).astype("f4")
    given: dict[str, Any] = dict(padding=1, layout="NHWC", device="cpu", algorithm="filter_gradient_mma")
    dy[1, 3, 4, 7] = 0.0
    before = warpconv.conv2d_weight(x, (40, 24, 3, 3), dy, **given)
    dy[1, 3, 4, 7] = np.inf
    after = warpconv.conv2d_weight(x, (40, 24, 3, 3), dy, **given)
    assert np.isinf(after[7]).all() and np.isfinite(np.delete(after, 7, 0)).all()
    assert np.array_equal(np.delete(after, 7, 0).view("u4"), np.delete(before, 7, 0).view("u4"))


# ---- how long

@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("form", FORMS)
def test_a_sum_that_is_nan_is_left(form):
    """Where every pixel is NaN a sum takes its first 32 products; where all are infinite it takes all 9 * 32. Blocks of
    outputs that do not exist take 32 of either."""
    algorithm, layout, settings = FORMS[form]
    shape, x, w = drawn(layout)
    made = plan_layer(shape, algorithm=algorithm, arch="sm_90", settings=settings,
                      precision=WAYS[algorithm])
    loaded, source = backend.load(made, mode=Mode.CHECK)
    kernel = Kernel(made.spec, made.program, loaded, source=source, plan=made)

    def loads(value: float | None) -> int:
        loaded.reports.clear()
        kernel(x if value is None else np.full_like(x, value), np.abs(w))
        return sum(counts.load_requests for report in loaded.reports for name, counts in report.buffers.items()
                   if name in ("x", "x_nhwc"))

    usual = loads(None)
    all_of_them, first = loads(np.inf) - usual, loads(np.nan) - usual
    assert first > 0 and first * 5 < all_of_them <= first * 9


# ---- which kernels

@pytest.mark.parametrize("algorithm, operation, settings", [
    ("mma", "forward", dict(tile_m=64, tile_n=80, tile_k=32, warps_m=1, warps_n=1, stages=2)),
    ("phases_mma", "data_gradient", dict(tile_m=64, tile_n=80, tile_k=32, warps_m=1, warps_n=1, stages=2)),
    ("filter_gradient_mma", "filter_gradient", dict(tile_m=64, tile_n=128, tile_p=32, warps_m=1, warps_n=1, stages=2))])
def test_a_warp_has_no_more_matrices_than_bits(algorithm, operation, settings):
    shape = ConvShape(n=8, c=128, h=14, w=14, k=128, r=3, s=3, padding=1, layout="NHWC")
    with pytest.raises(UnsupportedSpec, match="matrices of sums for a warp"):
        plan_layer(shape, algorithm=algorithm, operation=operation, arch="sm_90", precision="tf32x3", settings=settings)


def test_wgmma_has_no_more_either():
    """Of the most sums that a thread may have."""
    assert MOST_SPLIT_SUMS // 2 // 4 <= MOST_SPLIT
