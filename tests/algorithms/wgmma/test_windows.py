"""The windows of ``wgmma`` that do not overlap, put side by side before the product: patch embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.algorithms.wgmma.test_wgmma import on_cpu_device
from tests.reference import operands
from warpconv.codegen.algorithms.wgmma.choice import candidates
from warpconv.codegen.algorithms.wgmma.options import Window
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.registry import algorithm
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy import reference


def patches(c: int, k: int, taps: tuple[int, ...], image: tuple[int, ...], stride: Any = None, n: int = 3,
            **more: Any) -> ConvShape:
    """Windows of some taps, from one to the next as far as they reach."""
    sizes = dict(zip(("w", "h", "d"), image[::-1])) | dict(zip(("s", "r", "t"), taps[::-1]))
    return ConvShape(**{**dict(n=n, c=c, k=k, stride=stride or taps, dtype="float16"), **sizes, **more})


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("k, size, image", [(768, 16, 224), (1024, 14, 224), (768, 32, 224), (768, 16, 384)])
def test_patch_embeddings_are_products_of_windows(layout, dtype, k, size, image):
    """An H200, batch 32, us: 18.3 for 57.8 by mma (3 -> 768, 16x16 on 224^2, float16, NHWC), 21.1 for 86.6 in NCHW;
    in float32 63 and 66 for 172 and 223."""
    made = plan_layer(patches(3, k, (size, size), (image, image), n=32, layout=layout, dtype=dtype), arch="sm_90")
    assert made.spec.algorithm == "wgmma" and made.options.window is Window.ROW
    assert made.numbers.steps * made.numbers.slice < 3 * size * size + made.numbers.slice


@pytest.mark.parametrize("c, k, size, image", [(96, 192, 2, 56), (192, 384, 2, 28), (64, 64, 8, 56)])
def test_windows_of_many_channels_are_copied_tap_by_tap(c, k, size, image):
    """ConvNeXt's layers between its stages, an H200, batch 32: 13.3 us, by rows of windows 18.8."""
    made = plan_layer(patches(c, k, (size, size), (image, image), n=32, layout="NHWC"), arch="sm_90")
    assert made.spec.algorithm == "wgmma" and made.options.window is Window.TAP


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_every_candidate_has_a_plan(layout):
    """No descriptor walks windows of 16 x 16 taps; of 2 x 2 there are both."""
    for size, ways in ((16, {Window.ROW}), (2, set(Window) if layout == "NCHW" else {Window.ROW})):
        shape = patches(3, 72, (size, size), (96, 96), layout=layout)
        spec = plan_layer(shape, algorithm="wgmma", arch="sm_90").spec
        found = list(candidates(spec, shape))
        assert {options.window for options in found} == ways
        for options in found:
            algorithm("wgmma").plan(spec, options)


@pytest.mark.parametrize("changes, says", [
    (dict(stride=1), "windows that do not overlap"), (dict(padding=1), "without padding"),
    (dict(dilation=2), "and dilation"), (dict(r=1, s=1), "a window of one is a row already")])
def test_windows_that_are_no_rows_are_refused_in_words(changes, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(patches(16, 64, (4, 4), (28, 28), layout="NHWC", **changes), algorithm="wgmma", arch="sm_90",
                   settings={"form": "im2col", "window": "row"})


RUNS = [("rows of x in whole 16 bytes", (8, 24, (2, 8), (6, 32)), {}),
        ("rows of x in pairs", (3, 40, (6, 6), (18, 26)), {}), ("odd rows of x", (3, 40, (6, 6), (18, 25)), {}),
        ("rows of x that are none", (3, 40, (16, 16), (33, 50)), {}),
        ("windows filled up", (5, 72, (5, 7), (16, 23)), {}),
        ("gaps between windows", (5, 24, (2, 5), (9, 20), (3, 6)), {}),
        ("planes", (3, 64, (2, 4, 4), (5, 8, 16)), {}),
        ("planes in NHWC", (3, 24, (2, 5, 8), (7, 10, 24), (3, 5, 8)), {"layout": "NHWC"})]


@on_cpu_device
@pytest.mark.parametrize("dtype, precision", [("float16", "float32"), ("bfloat16", "float32"), ("float32", "tf32"),
                                              ("float32", "fp16x3")])
@pytest.mark.parametrize("layer, more", [run[1:] for run in RUNS], ids=[run[0] for run in RUNS])
def test_windows_side_by_side(layer, more, dtype, precision):
    for layout in ("NHWC", "NCHW"):
        shape = patches(*layer, dtype=dtype, **{"layout": layout, **more})
        made = plan_layer(shape, algorithm="wgmma", arch="sm_90", precision=precision,
                          settings={"form": "im2col", "window": "row"})
        checks.check_checked(made, shape)


@on_cpu_device
@pytest.mark.parametrize("layout, pixels", [("NHWC", 320), ("NCHW", 384)])
def test_more_pixels_than_a_box_has_are_walked_over(layout, pixels):
    """Over the windows' image, which has P and Q for H and W."""
    shape = patches(3, 72, (4, 4), (50, 66), layout=layout)
    made = plan_layer(shape, algorithm="wgmma", arch="sm_90", settings={
        "window": "row", "form": "im2col", "filters": 64, "pixels": pixels, "stages": 2, "splits": 1})
    assert "im2col" in str(made.program.descriptors[0])
    checks.check_checked(made, shape)


@on_cpu_device
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("splits", [1, 2])
def test_infinities_and_nan_of_windows_come_out_as_of_float32_units(layout, splits):
    """Windows of 105 elements, filled up to 108: the kernel reads them once more where sums are not finite."""
    rng = np.random.default_rng(3)
    shape = patches(3, 10, (5, 7), (15, 35), dtype="float32", layout=layout)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    x.reshape(-1)[rng.integers(0, x.size, 4)] = [np.inf, -np.inf, np.inf, np.nan]
    w[3, 2, 1, 1], w[7, 0, 4, 6] = np.inf, np.nan
    x = x.transpose(0, 2, 3, 1).copy() if layout == "NHWC" else x
    kernel = warpconv.specialize(shape, device="cpu", algorithm="wgmma", precision="fp16x3", settings={
        "window": "row", "form": "im2col", "filters": 64, "pixels": 32, "stages": 2, "splits": splits})
    with np.errstate(invalid="ignore"):
        y, exact = kernel(x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(exact)) and 0.1 < np.isnan(exact).mean() < 0.9
    assert np.array_equal(np.isposinf(y), np.isposinf(exact)) and np.array_equal(np.isneginf(y), np.isneginf(exact))
    fine = np.isfinite(exact)
    assert np.isinf(exact).any() and np.allclose(y[fine], exact[fine], atol=1e-4)


def test_the_text_says_what_a_row_has():
    text = render(plan_layer(patches(3, 64, (14, 14), (224, 224), layout="NHWC"), algorithm="wgmma",
                             arch="sm_90")).text
    for line in ("constexpr int C = 588;", "constexpr int C_PIXEL = 592;", "constexpr int X_CHANNELS = 3;",
                 "x_map: windows as (592, N * P * Q)", "wgmma_14x14("):
        assert line in text


@on_cpu_device
@pytest.mark.parametrize("layout, c, size, ordered", [("NHWC", 3, 16, True), ("NCHW", 3, 16, False),
                                                      ("NHWC", 3, 14, False), ("NCHW", 8, 4, False)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_weight_in_any_order_makes_the_same(layout, c, size, ordered, channels_last):
    """Rows of NHWC have the order of a channels_last weight, which is read where it lies if nothing fills it up; those
    of NCHW do not, though the product's filters have one tap."""
    shape = patches(c, 24, (size, size), (3 * size, 2 * size), layout=layout)
    x, w, _ = operands(shape, np.random.default_rng(5))
    lying = np.moveaxis(np.ascontiguousarray(np.moveaxis(w, 1, -1)), -1, 1) if channels_last else w
    kernel = warpconv.specialize(shape, device="cpu", algorithm="wgmma", settings={"form": "im2col", "window": "row"})
    assert kernel.program.preparation.ordered is ordered
    assert reference.compare(kernel(x, lying), x, w, shape).within
