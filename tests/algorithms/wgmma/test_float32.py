"""``wgmma`` in float32: which layers it gets, how exact it is, what becomes of infinities, NaN and extremes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies import precision
from tests import checks
from tests.algorithms.mma.test_float32 import MADE_ANEW, NOT_KEPT
from tests.algorithms.wgmma.test_wgmma import LAYERS, TARGET, layer
from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.algorithms.wgmma import ALGORITHM
from warpconv.codegen.algorithms.wgmma.choice import candidates
from warpconv.codegen.algorithms.wgmma.numbers import resolved
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.numerics import LEAST_PRODUCTS, Numerics
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy import reference
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import Mode, backend

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
WINDOWS = dict(form="im2col", filters=64, pixels=64, stages=2, splits=1)
BOX = dict(form="halo", filters=64, pixels=64, rows=7, columns=7, boxes=2, stages=2)


def single(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=16, h=9, w=9, k=32, r=3, s=3, padding=1, layout="NHWC"), **changes})


# ---- what is chosen

@pytest.mark.parametrize("sizes", [sizes for sizes in LAYERS if sizes[0] * sizes[2] ** 2 >= LEAST_PRODUCTS])
@pytest.mark.parametrize("n", [1, 32])
def test_dense_layers_of_hopper_are_split_by_default(sizes, n):
    chosen = select(layer(*sizes, n=n, dtype="float32"), "sm_90")
    assert chosen.algorithm == "wgmma" and chosen.spec.numerics is Numerics.FP16X3


@pytest.mark.parametrize("changes, says", [
    (dict(c=10), "pixels 40 bytes apart"), (dict(layout="NCHW"), "layout NCHW"), (dict(groups=2), "2 groups"),
    (dict(padding_mode="reflect"), "border reflect"), (dict(c=8), "float32 units"), (dict(stride=9), "strides of 9")])
def test_what_it_declines_goes_to_others(changes, says):
    """Short sums among it, unless they are asked for."""
    shape = single(**changes)
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(shape, algorithm="wgmma", precision="float32" if "units" in says else "fp16x3")
    assert select(shape, "sm_90").algorithm != "wgmma"
    if "units" in says:
        assert select(shape, "sm_90", precision="fp16x3").algorithm == "wgmma"


@pytest.mark.parametrize("values, says", [
    (dict(filters=128, pixels=152), "76 sums a thread"), (dict(filters=256, pixels=80), "80 sums a thread"),
    (dict(pixels=24), "pixels = 24"), (dict(splits=10), "splits = 10 of 9 steps"),
    (dict(filters=256, pixels=64, stages=8), "bytes of shared memory")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(single(), algorithm="wgmma", precision="fp16x3", settings={**WINDOWS, **values})


def test_every_candidate_is_a_plan():
    for shape in (layer(64, 28, 3, 72, 1, 1, dtype="float32"), layer(100, 14, 1, 33, dtype="float32"),
                  layer(512, 7, 3, 512, 1, 1, n=1, dtype="float32")):
        spec = KernelSpec.of(shape, algorithm="wgmma", arch=TARGET, numerics=Numerics.FP16X3)
        found = list(candidates(spec, shape))
        assert len(found) > 5
        for options in found:
            assert ALGORITHM.plan(spec, options).options == resolved(spec, options)


# ---- how exact it is

def errors_of(name: str, kind: str, plan: Any, text: str | None = None) -> precision.Errors:
    """Errors of a plan of the layer, in NHWC, on a kind of data; ``text`` is another than its own."""
    shape, (x, w) = precision.shape_of(name), precision.drawn(name, kind)
    loaded, source = backend.load_text(plan.spec, plan.program, text or render(plan).text)
    kernel = Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)
    y = kernel(np.ascontiguousarray(np.moveaxis(x, 1, -1)), w)
    return precision.errors_of(np.moveaxis(y, -1, 1), x, w, shape)


def units_of(name: str, kind: str) -> precision.Errors:
    shape, (x, w) = precision.shape_of(name), precision.drawn(name, kind)
    return precision.errors_of(precision.computed("ieee", x, w, shape, "cpu"), x, w, shape)


def plan_of(name: str, values: dict[str, Any]) -> Any:
    c, size = precision.LAYERS[name]
    shape = precision.shape_of(name)
    return plan_layer(ConvShape(n=shape.n, c=c, h=shape.h, w=shape.w, k=shape.k, r=size, s=size, padding=size // 2,
                                layout="NHWC"), algorithm="wgmma", precision="fp16x3", settings=values)


@on_cpu_device
@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("name, values", [("96", WINDOWS), ("576", BOX), *(
    pytest.param(*case, marks=pytest.mark.long) for case in (("576", WINDOWS), ("2304", WINDOWS), ("2304", BOX)))])
def test_split_factors_are_no_less_exact_than_float32_units(name, values, kind):
    ours, theirs = errors_of(name, kind, plan_of(name, values)), units_of(name, kind)
    if kind in NOT_KEPT:        # what the guaranteed bound alone says
        steps = -(-precision.LAYERS[name][0] // 32) * precision.LAYERS[name][1] ** 2
        assert ours.worst <= (steps + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@on_cpu_device
@pytest.mark.parametrize("values", [WINDOWS, BOX])
@pytest.mark.parametrize("kind", ["signed", pytest.param("non-negative", marks=pytest.mark.long)])
def test_sums_left_in_the_tensor_cores_would_fail_the_bound(kind, values):
    """The text with sums that go on from step to step: the emulated tensor cores cut them, as a GPU's do. One scale of
    pixels for all boxes, so that there is one for all sums."""
    plan = plan_of("576", values)
    text = render(plan).text
    for old, new in (("float parts[MATRICES][SUMS];", "float (&parts)[MATRICES][SUMS] = sums;"),
                     ("pixels + depth * DEPTH_CELLS, depth > 0);", "pixels + depth * DEPTH_CELLS, true);"),
                     ("sums[m][i] = fmaf(parts[m][i], scale, sums[m][i]);", ";"),
                     ("const unsigned of_box = scale_exponent(largest);", "const unsigned of_box = 127u + 12u;"),
                     ("__ldg(filter + FILTER_SCALES + k)", "16777216.0f * __ldg(filter + FILTER_SCALES + k)")):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    worse, ours = errors_of("576", kind, plan, text), errors_of("576", kind, plan)
    theirs = units_of("576", kind)
    assert ours.norm < theirs.norm < worse.norm < 1e-4 and worse.norm > 4 * ours.norm


@on_cpu_device
@pytest.mark.parametrize("left_out", ["low parts of pixels", "low parts of filters", "scales of single pixels"])
def test_every_part_is_needed(left_out):
    """Without one of the three products three digits are left; with the box's scale for all, distant pixels lose
    theirs."""
    plan, kind = plan_of("576", BOX), "pixels times 2^-30 to 1" if "single" in left_out else "signed"
    text = render(plan).text
    old, new = {
        "low parts of pixels": ("make_uint2(low_parts(four.x, four.y, high.x), low_parts(four.z, four.w, high.y))",
                                "make_uint2(0u, 0u)"),
        "low parts of filters": ("low_parts(scaled, second, high)", "0u"),
        "scales of single pixels": ("least >> 23) + LEAST_SCALE >= ", "least >> 23) + 255u >= ")}[left_out]
    assert text.count(old) == 1
    ours, worse = errors_of("576", kind, plan), errors_of("576", kind, plan, text.replace(old, new))
    assert worse.worst > 10 * ours.worst


@on_cpu_device
@pytest.mark.parametrize("values", [{**WINDOWS, "splits": 3}, {**WINDOWS, "filters": 128, "stages": 3}])
def test_it_is_within_its_bound(values):
    """Channels that fill no slice, a stride, dilation, split sums: against float64, and no better than it can be."""
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((2, 11, 13, 36)).astype("f4"), rng.standard_normal((21, 36, 3, 3)).astype("f4")
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=2, stride=2, dilation=2)
    kernel = warpconv.specialize(shape, device="cpu", algorithm="wgmma", precision="fp16x3", settings=values)
    y = kernel(x, w)
    assert reference.compare(y, x, w, shape, numerics=Numerics.FP16X3).within
    exact = reference.reference(x, w, shape).output
    assert 1e-8 < np.linalg.norm(y - exact) / np.linalg.norm(exact) < 2e-7


@on_cpu_device
@pytest.mark.parametrize("values", [{**WINDOWS, "splits": 3}, {**BOX, "pixels": 96, "rows": 5, "columns": 13}])
def test_rounded_factors_have_three_digits(values):
    """Against float64, and not by chance: both factors are rounded to nearest."""
    rng = np.random.default_rng(9)
    x, w = rng.standard_normal((2, 11, 13, 36)).astype("f4"), rng.standard_normal((21, 36, 3, 3)).astype("f4")
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    made = plan_layer(shape, algorithm="wgmma", precision="tf32", settings=values)
    assert made.program.descriptor("x_map").rounded and "float32 rounded to TF32" in render(made).text
    y = checks.cpu_kernel(made)(x, w)
    assert reference.compare(y, x, w, shape, numerics=Numerics.TF32).within
    exact = reference.reference(x, w, shape).output
    error = np.linalg.norm(y - exact) / np.linalg.norm(exact)
    assert 1e-4 < error < 3.5e-4        # cut instead of rounded: 7e-4
    mma = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", algorithm="mma", precision="tf32")
    assert np.linalg.norm(y - mma) / np.linalg.norm(exact) < 3e-6       # the same factors, other sums


def test_rounded_factors_go_to_it_where_they_are_asked_for():
    for n in (1, 32):
        assert select(layer(256, 14, 3, 256, 1, 1, n=n, dtype="float32"), precision="tf32").algorithm == "wgmma"
    assert select(layer(256, 14, 3, 256, 1, 1, dtype="float32"), "sm_80", precision="tf32").algorithm == "mma"


# ---- scales

@on_cpu_device
@pytest.mark.parametrize("values", [WINDOWS, BOX])
def test_pixels_of_a_box_may_be_of_any_size(values):
    """From the least float to what there is room for, in rows of the image and in single channels, zeros among them."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 12, 7, 36)).astype("f4"), rng.standard_normal((24, 36, 3, 3)).astype("f4")
    exponents = (-149, -140, -127, -126, -113, -112, -60, -15, -14, -13, 30, 60)
    with np.errstate(under="ignore"):
        x = np.ldexp(x, np.array(exponents)[None, :, None, None]).astype("f4")
    x[:, 5], x[:, :, 3, 4:] = 0.0, 0.0
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=((0, 0), (1, 1)))
    w[:, :, 0], w[:, :, 2] = 0.0, 0.0       # rows do not meet
    plan = plan_layer(shape, algorithm="wgmma", precision="fp16x3", settings=values)
    y = checks.cpu_kernel(plan, Mode.CHECK)(x, w)
    exact = reference.reference(x, w, shape)
    magnitude = exact.bound / ((shape.reduction + 2) * precision.EPSILON)
    error = np.abs(y.astype("f8") - exact.output)
    assert (error <= 40 * 2.0**-24 * magnitude + 2.0**-149).all() and (y[:, 4] == 0).all()
    assert all(np.any(y[0, row]) for row in range(10) if row != 4)


@on_cpu_device
@pytest.mark.parametrize("scales", [(-149, -130, -100, 0), (20, 60, 90, 127)])
def test_each_filter_has_its_scale(scales):
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((1, 5, 6, 36)).astype("f4"), rng.standard_normal((8, 36, 3, 3)).astype("f4")
    w /= 8 * np.abs(w).max()
    with np.errstate(under="ignore"):
        w = np.ldexp(w, np.repeat(scales, 2)[:, None, None, None]).astype("f4")
        x = np.ldexp(x, 20 if scales[0] < 0 else -20).astype("f4")
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    y = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", algorithm="wgmma", precision="fp16x3")
    exact = reference.reference(x, w, shape)
    magnitude = exact.bound / ((shape.reduction + 2) * precision.EPSILON)
    assert (np.abs(y.astype("f8") - exact.output) <= 40 * 2.0**-24 * magnitude + 2.0**-149).all()


@on_cpu_device
def test_a_filter_with_distant_rows_is_left_to_float32_units():
    """A corner's window meets small rows of the filter alone, of which a common scale would leave nothing."""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((1, 7, 7, 16)).astype("f4"), rng.standard_normal((8, 16, 3, 3)).astype("f4")
    w[2:4, :, 0, 0] *= np.float32(2.0**40)
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    y = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", algorithm="wgmma", precision="fp16x3")
    assert reference.compare(y, x, w, shape, numerics=Numerics.FP16X3).within


# ---- what is not finite

@on_cpu_device
@pytest.mark.parametrize("values", [BOX, WINDOWS, pytest.param({**WINDOWS, "splits": 2}, marks=pytest.mark.long)])
@pytest.mark.parametrize("precision_", ["fp16x3", "tf32"])
def test_infinities_and_nan_come_out_as_of_float32_units(values, precision_):
    """In pixels and in filters, beside zeros and beside factors whose low parts are zero."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 9, 9, 24)).astype("f4"), rng.standard_normal((10, 24, 3, 3)).astype("f4")
    for array in (x, w):
        flat = array.reshape(-1)
        flat[rng.integers(0, flat.size, flat.size // 3)] = 0.0
        flat[rng.integers(0, flat.size, flat.size // 3)] = 1.0
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 4)] = [np.inf, -np.inf, np.inf, np.nan]
    flat.view("u4")[rng.integers(0, flat.size, 2)] = [0x7FFFFFFF, 0xFF800001]      # NaN of other bits
    w[3, 5, 1, 1], w[7, 0, 0, 2] = np.inf, np.nan
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=1)
    kernel = warpconv.specialize(shape, device="cpu", algorithm="wgmma", precision=precision_, settings=values)
    with np.errstate(invalid="ignore"):
        y, exact = kernel(x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(exact)) and 0.1 < np.isnan(exact).mean() < 0.9
    assert np.array_equal(np.isposinf(y), np.isposinf(exact)) and np.array_equal(np.isneginf(y), np.isneginf(exact))
    assert np.isinf(exact).any()


@on_cpu_device
def test_what_the_scales_have_no_room_for_is_made_by_float32_units():
    """Factors near the largest float, and sums beyond it, epilogue and residual in place included."""
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((1, 8, 8, 96)).astype("f4"), rng.standard_normal((16, 96, 1, 1)).astype("f4")
    residual, bias = rng.standard_normal((1, 8, 8, 16)).astype("f4"), rng.standard_normal(16).astype("f4")
    x[0, :2] *= np.float32(1e36)
    x[0, 2:4] *= np.float32(1e25)
    x[0, 6:] = np.float32(3e38) * np.sign(w[3, :, 0, 0])
    units = warpconv.conv2d(x, w, bias, layout="NHWC", residual=residual, device="cpu", precision="ieee")
    kernel = warpconv.specialize(ConvShape.of(x.shape, w.shape, layout="NHWC"), device="cpu", algorithm="wgmma",
                                 epilogue=("bias", "residual"), settings=WINDOWS)
    y = kernel(x, w, bias, residual=residual, out=residual.copy())
    in_place = residual.copy()
    kernel(x, w, bias, residual=in_place, out=in_place)
    assert np.array_equal(y.view("u4"), in_place.view("u4"))
    assert np.array_equal(np.isinf(y), np.isinf(units)) and np.isinf(y[0, 6:, :, 3]).all()
    fine = np.isfinite(units)
    magnitude = np.abs(x.astype("f8")) @ np.abs(w[:, :, 0, 0]).T.astype("f8") + np.abs(bias) + np.abs(residual)
    assert (np.abs(y[fine].astype("f8") - units[fine]) <= 96 * 2.0**-23 * magnitude[fine]).all()


# ---- what compilers make of it

@pytest.mark.nvcc
@pytest.mark.parametrize("sizes, n, way", [
    (LAYERS[1], 32, "fp16x3"), (LAYERS[2], 32, "fp16x3"), (LAYERS[6], 1, "fp16x3"), (LAYERS[1], 32, "tf32"),
    *(pytest.param(*case, marks=pytest.mark.long) for case in itertools.product(LAYERS, (1, 32), ("fp16x3", "tf32")))])
def test_sums_stay_in_registers(sizes, n, way):
    for epilogue in ((), (BIAS, RESIDUAL, RELU)):
        made = plan_layer(layer(*sizes, n=n, dtype="float32"), algorithm="wgmma", arch="sm_90", epilogue=epilogue,
                          precision=way)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.nvcc
@pytest.mark.parametrize("values", [
    dict(form="halo", filters=128, pixels=144, rows=4, columns=28), dict(form="im2col", filters=256, pixels=72),
    *(pytest.param(values, marks=pytest.mark.long) for values in (
        dict(form="halo", filters=64, pixels=288, rows=4, columns=56),
        dict(form="halo", filters=256, pixels=72, rows=2, columns=28), dict(form="im2col", filters=128, pixels=144),
        dict(form="im2col", filters=64, pixels=288)))])
def test_the_largest_tiles_stay_in_registers(values):
    made = plan_layer(layer(128, 56, 3, 512, 1, 1, dtype="float32"), algorithm="wgmma", arch="sm_90",
                      epilogue=(BIAS, RESIDUAL, RELU), settings={**values, "stages": 2}, precision="fp16x3")
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
