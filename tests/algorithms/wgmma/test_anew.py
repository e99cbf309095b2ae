"""``wgmma`` in float32: what is made anew by float32 units, as infinities, NaN and extremes are."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests.algorithms.wgmma.test_float32 import BOX, FLAT, TURNED, WINDOWS, laid_out, of_nhwc, on_cpu_device, to_nhwc
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy import reference
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import Mode, backend


@on_cpu_device
def test_a_filter_with_distant_rows_is_left_to_float32_units():
    """A corner's window meets small rows of the filter alone, of which a common scale would leave nothing."""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((1, 7, 7, 16)).astype("f4"), rng.standard_normal((8, 16, 3, 3)).astype("f4")
    w[2:4, :, 0, 0] *= np.float32(2.0**40)
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    y = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", algorithm="wgmma", precision="fp16x3")
    assert reference.compare(y, x, w, shape, numerics=Numerics.FP16X3).within


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("padding, small, left", [
    (1, np.s_[2, :, 0, 0], True), (0, np.s_[2, :, 0, 0], True), (1, np.s_[2, 32, 0, 0], False)],
    ids=["a tap at the border", "a tap without a border", "a channel of a tap, which is the last slice's only one"])
def test_which_filters_are_left_to_float32_units(padding, small, left):
    """A filter of which a whole tap is small: the kernel reads x once more for it, from its address."""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((1, 9, 9, 36)).astype("f4"), rng.standard_normal((8, 36, 3, 3)).astype("f4")
    w[:, 33:] = 0.0
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=padding)
    made = plan_layer(shape, algorithm="wgmma", arch="sm_90", precision="fp16x3", settings=BOX)
    loaded, source = backend.load(made, mode=Mode.CHECK)
    kernel = Kernel(made.spec, made.program, loaded, source=source, plan=made)
    kernel(x, w)
    usual = loaded.reports[-1].buffers["x"].load_requests       # its boxes
    w[small] *= np.float32(2.0**-20)
    y = kernel(x, w)
    assert (loaded.reports[-1].buffers["x"].load_requests > usual) is left
    assert reference.compare(y, x, w, shape, numerics=Numerics.FP16X3).within


@pytest.mark.nvcc
def test_a_filter_may_have_any_number_of_taps():
    """What tells small taps takes no shared memory for each."""
    shape = ConvShape(n=8, c=64, h=256, w=256, k=128, r=111, s=111, padding=55, layout="NHWC")
    entries = build(plan_layer(shape, algorithm="wgmma", arch="sm_90", precision="fp16x3")).compiled.entries
    prepare, = (entry for entry in entries if entry.name == "prepare_filter")
    assert prepare.shared_bytes < 2048


# ---- what is not finite

@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("precision_, values", [
    ("fp16x3", BOX), ("fp16x3", WINDOWS), ("fp16x3", TURNED), ("tf32", BOX), ("tf32", WINDOWS),
    pytest.param("fp16x3", {**WINDOWS, "splits": 2}, marks=pytest.mark.long),
    pytest.param("tf32", {**WINDOWS, "splits": 2}, marks=pytest.mark.long)])
def test_infinities_and_nan_come_out_as_of_float32_units(precision_, values):
    """In pixels and in filters, beside zeros and beside factors whose low parts are zero."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 9, 12, 24)).astype("f4"), rng.standard_normal((10, 24, 3, 3)).astype("f4")
    for array in (x, w):
        flat = array.reshape(-1)
        flat[rng.integers(0, flat.size, flat.size // 3)] = 0.0
        flat[rng.integers(0, flat.size, flat.size // 3)] = 1.0
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 4)] = [np.inf, -np.inf, np.inf, np.nan]
    flat.view("u4")[rng.integers(0, flat.size, 2)] = [0x7FFFFFFF, 0xFF800001]      # NaN of other bits
    w[3, 5, 1, 1], w[7, 0, 0, 2] = np.inf, np.nan
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    kernel = warpconv.specialize(laid_out(shape, values), device="cpu", algorithm="wgmma", precision=precision_,
                                 settings=values)
    with np.errstate(invalid="ignore"):
        y = to_nhwc(kernel(of_nhwc(x, values), w), values)
        exact = reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(exact)) and 0.1 < np.isnan(exact).mean() < 0.9
    assert np.array_equal(np.isposinf(y), np.isposinf(exact)) and np.array_equal(np.isneginf(y), np.isneginf(exact))
    assert np.isinf(exact).any()


@on_cpu_device
@pytest.mark.parametrize("values", [WINDOWS, FLAT])
def test_what_the_scales_have_no_room_for_is_made_by_float32_units(values):
    """Factors near the largest float, and sums beyond it, epilogue and residual in place included."""
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((1, 8, 8, 96)).astype("f4"), rng.standard_normal((16, 96, 1, 1)).astype("f4")
    residual, bias = rng.standard_normal((1, 8, 8, 16)).astype("f4"), rng.standard_normal(16).astype("f4")
    x[0, :2] *= np.float32(1e36)
    x[0, 2:4] *= np.float32(1e25)
    x[0, 6:] = np.float32(3e38) * np.sign(w[3, :, 0, 0])
    units = warpconv.conv2d(x, w, bias, layout="NHWC", residual=residual, device="cpu", precision="ieee")
    kernel = warpconv.specialize(laid_out(ConvShape.of(x.shape, w.shape, layout="NHWC"), values), device="cpu",
                                 algorithm="wgmma", epilogue=("bias", "residual"), settings=values)
    laid, other, in_place = (of_nhwc(array, values) for array in (x, residual, residual.copy()))
    y = kernel(laid, w, bias, residual=other, out=other.copy())
    kernel(laid, w, bias, residual=in_place, out=in_place)
    assert np.array_equal(y.view("u4"), in_place.view("u4"))
    y = to_nhwc(y, values)
    assert np.array_equal(np.isinf(y), np.isinf(units)) and np.isinf(y[0, 6:, :, 3]).all()
    fine = np.isfinite(units)
    magnitude = np.abs(x.astype("f8")) @ np.abs(w[:, :, 0, 0]).T.astype("f8") + np.abs(bias) + np.abs(residual)
    assert (np.abs(y[fine].astype("f8") - units[fine]) <= 96 * 2.0**-23 * magnitude[fine]).all()
