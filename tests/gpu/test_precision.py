"""Float32 layers on a GPU's tensor cores: the default's bound on each kind of data; large layers, whose blocks take
many tiles, with equal bits from call to call; what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies import precision
from tests import checks
from tests.algorithms.mma.test_float32 import MADE_ANEW, NOT_KEPT
from tests.gpu import support
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy import reference

pytestmark = pytest.mark.gpu
FORMS = {"windows": dict(form="im2col", filters=64, pixels=64, stages=2, splits=1),
         "parts": dict(form="im2col", filters=64, pixels=64, stages=3, splits=3),
         "box": dict(form="halo", filters=64, pixels=64, rows=7, columns=7, boxes=2, stages=2)}
# Of NCHW, as it lies: rows are whole 16 bytes
TURNED = {"planes": dict(form="halo", order="planes", filters=64, pixels=96, rows=7, columns=8, boxes=2, stages=2,
                         ring=2),
          "one row": dict(form="halo", order="planes", filters=64, pixels=64, rows=1, columns=64, boxes=2, stages=2,
                          ring=3)}
# (C, H = W, filter, K, stride, padding), n = 16: with the planner's own tiles
LARGE = ((64, 56, 3, 64, 1, 1), (128, 28, 3, 128, 1, 1), (256, 14, 3, 256, 1, 1), (512, 7, 3, 512, 1, 1),
         (100, 57, 3, 72, 2, 1), (256, 28, 1, 512, 1, 0), (64, 112, 3, 128, 1, 1))


def nhwc(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def kernel(shape: ConvShape, way: str, values: dict[str, Any] | None = None) -> Any:
    """Of wgmma, where the GPU has it."""
    try:
        made = plan_layer(shape, algorithm="wgmma", arch=support.arch(), precision=way, settings=values)
    except UnsupportedSpec as error:
        if "has no wgmma" not in error.reason:
            raise
        pytest.skip(error.reason)
    return support.kernel_of(made, shape)


@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("name, form", [("96", "windows"), ("576", "windows"), ("576", "box"), ("576", "parts"),
                                        ("2304", "box")])
def test_split_factors_are_no_less_exact_than_float32_units(name, form, kind):
    shape, (x, w) = precision.shape_of(name), precision.drawn(name, kind)
    layer = ConvShape.of(nhwc(x).shape, w.shape, layout="NHWC", padding=shape.padding)
    made = np.moveaxis(kernel(layer, "fp16x3", FORMS[form])(nhwc(x), w), -1, 1)
    ours = precision.errors_of(made, x, w, shape)
    theirs = precision.errors_of(precision.computed("ieee", x, w, shape, "cuda"), x, w, shape)
    if kind in NOT_KEPT:
        assert ours.worst <= (-(-shape.c // 32) * shape.r * shape.s + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("name, form", [("96", "one row"), ("576", "planes"), ("2304", "planes")])
def test_pixels_that_are_turned_are_no_less_exact(name, form, kind):
    """Beside the image is a column of zeros."""
    shape, (x, w) = precision.shape_of(name), precision.drawn(name, kind)
    beside = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 1)))
    layer = ConvShape.of(beside.shape, w.shape, padding=shape.padding)
    ours = precision.errors_of(kernel(layer, "fp16x3", TURNED[form])(beside, w)[..., :shape.q], x, w, shape)
    theirs = precision.errors_of(precision.computed("ieee", x, w, shape, "cuda"), x, w, shape)
    if kind in NOT_KEPT:
        assert ours.worst <= (-(-shape.c // 32) * shape.r * shape.s + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
@pytest.mark.parametrize("sizes", LARGE)
def test_large_layers(sizes, way, layout):
    """Beside float32 units on the same GPU, and the same bits in each of many calls."""
    c, h, size, k, stride, padding = sizes
    rng = np.random.default_rng(c + h)
    sides = (h, h, c) if layout == "NHWC" else (c, h, h)
    x, w = rng.standard_normal((16, *sides)).astype("f4"), rng.standard_normal((k, c, size, size)).astype("f4")
    x[3] *= np.float32(2.0**-40)        # boxes of images of different size
    shape = ConvShape.of(x.shape, w.shape, layout=layout, stride=stride, padding=padding)
    ours = kernel(shape, way)
    layer = dict(layout=layout, stride=stride, padding=padding, device="cuda", precision="ieee")
    y = ours(x, w)
    magnitude = warpconv.conv2d(np.abs(x), np.abs(w), **layer)
    share = (shape.reduction + 2) * 2.0**-23 + Numerics(way).dropped
    assert (np.abs(y - warpconv.conv2d(x, w, **layer)) <= (share + shape.reduction * 2.0**-23) * magnitude).all()
    for _ in range(20):
        assert np.array_equal(ours(x, w).view("u4"), y.view("u4"))


@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
@pytest.mark.parametrize("form", FORMS)
def test_infinities_and_nan_come_out_as_of_float32_units(form, way):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 9, 9, 24)).astype("f4"), rng.standard_normal((10, 24, 3, 3)).astype("f4")
    for array in (x, w):
        flat = array.reshape(-1)
        flat[rng.integers(0, flat.size, flat.size // 3)] = 0.0
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 4)] = [np.inf, -np.inf, np.inf, np.nan]
    flat.view("u4")[rng.integers(0, flat.size, 2)] = [0x7FFFFFFF, 0xFF800001]
    w[3, 5, 1, 1], w[7, 0, 0, 2] = np.inf, np.nan
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    with np.errstate(invalid="ignore"):
        y, exact = kernel(shape, way, FORMS[form])(x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(exact)) and np.isinf(exact).any()
    assert np.array_equal(np.isposinf(y), np.isposinf(exact)) and np.array_equal(np.isneginf(y), np.isneginf(exact))


# ---- planes and depthwise layers

def of_rows(shape: ConvShape, algorithm: str = "toeplitz_float32", way: str = "fp16x3") -> Any:
    """Of an algorithm, where the GPU has it."""
    try:
        made = plan_layer(shape, algorithm=algorithm, arch=support.arch(), precision=way)
    except UnsupportedSpec as error:
        if "has no wgmma" not in error.reason:
            raise
        pytest.skip(error.reason)
    return support.kernel_of(made, shape)


@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("size", [(11, 11), (31, 31), (3, 40)])
def test_large_filters_of_planes_are_no_less_exact(size, kind):
    """And the CPU device, which cuts sums as this GPU's tensor cores do, gives the same bits."""
    shape = ConvShape(n=3, c=2, h=40 + size[0], w=43 + size[1], k=2, groups=2, r=size[0], s=size[1])
    x, w = precision.KINDS[kind](np.random.default_rng([size[1], *map(ord, kind)]), shape)
    y = of_rows(shape)(x, w)
    ours, theirs = (precision.errors_of(made, x, w, shape) for made in (y, of_rows(shape, "direct", "ieee")(x, w)))
    if support.arch().startswith("sm_90"):
        plan = plan_layer(shape, algorithm="toeplitz_float32", arch=support.arch(), precision="fp16x3")
        assert np.array_equal(checks.cpu_kernel(plan)(x, w).view("u4"), y.view("u4"))
    if kind in NOT_KEPT:
        assert ours.worst <= (size[0] * -(-(size[1] + 17) // 32) + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.parametrize("mode", ["zeros", "reflect", "constant"])
def test_what_is_not_finite_in_planes(mode):
    shape = ConvShape(n=2, c=3, h=50, w=90, k=3, groups=3, r=11, s=13, padding=(5, 6), padding_mode=mode,
                      padding_value=0.5 if mode == "constant" else 0.0)
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    x[0, 0, 20, 30], x[0, 1, 3, 5], x[1, 1, 40, 80], w[2, 0, 5, 5] = np.inf, np.nan, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        y, exact = of_rows(shape)(x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(exact)) and np.isinf(exact).any()
    assert np.array_equal(np.isposinf(y), np.isposinf(exact)) and np.array_equal(np.isneginf(y), np.isneginf(exact))


@pytest.mark.parametrize("c, side, size", [(1, 4096, 31), (1, 3001, 15), (96, 112, 21), (7, 57, 13)])
def test_large_planes(c, side, size):
    """Beside float32 units on the same GPU, and the same bits in each of many calls."""
    n = 1 if c == 1 else 16
    shape = ConvShape(n=n, c=c, h=side, w=side, k=c, groups=c, r=size, s=size, padding=size // 2)
    rng = np.random.default_rng(size)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    ours = of_rows(shape)
    y = ours(x, w)
    layer = dict(padding=shape.padding, groups=c, device="cuda", precision="ieee")
    magnitude = warpconv.conv2d(np.abs(x), np.abs(w), **layer)
    share = (shape.reduction + 2) * 2.0**-23 + Numerics.FP16X3.dropped
    assert (np.abs(y - warpconv.conv2d(x, w, **layer)) <= (share + shape.reduction * 2.0**-23) * magnitude).all()
    for _ in range(10):
        assert np.array_equal(ours(x, w).view("u4"), y.view("u4"))


# ---- first layers

@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", precision.KINDS)
def test_first_layers_are_no_less_exact(kind, layout):
    """And the CPU device, which cuts sums as this GPU's tensor cores do, gives the same bits."""
    planes = ConvShape(n=3, c=3, h=37, w=44, k=40, r=7, s=7, padding=3)
    x, w = precision.KINDS[kind](np.random.default_rng([5, *map(ord, kind)]), planes)
    given = x if layout == "NCHW" else nhwc(x)
    shape = ConvShape.of(given.shape, w.shape, layout=layout, padding=3)
    y = of_rows(shape, "taps_float32", "fp16x3")(given, w)
    plan = plan_layer(shape, algorithm="taps_float32", arch=support.arch(), precision="fp16x3")
    assert np.array_equal(checks.cpu_kernel(plan)(given, w).view("u4"), y.view("u4"))
    units = of_rows(planes, "direct", "ieee")(x, w)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    ours, theirs = (precision.errors_of(made, x, w, planes) for made in (y, units))
    if kind in NOT_KEPT:
        assert ours.worst <= (-(-shape.reduction // 32) + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_large_first_layers_give_the_same_bits_in_every_call(layout):
    shape = ConvShape(n=32, c=3, h=224, w=224, k=64, r=7, s=7, stride=2, padding=3, layout=layout)
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    x = x if layout == "NCHW" else nhwc(x)
    ours = of_rows(shape, "taps_float32", "fp16x3")
    y = ours(x, w)
    layer = dict(stride=2, padding=3, layout=layout, device="cuda", precision="ieee")
    magnitude = warpconv.conv2d(np.abs(x), np.abs(w), **layer)
    share = (shape.reduction + 2) * 2.0**-23 + Numerics.FP16X3.dropped
    assert (np.abs(y - warpconv.conv2d(x, w, **layer)) <= (share + shape.reduction * 2.0**-23) * magnitude).all()
    for _ in range(10):
        assert np.array_equal(ours(x, w).view("u4"), y.view("u4"))
