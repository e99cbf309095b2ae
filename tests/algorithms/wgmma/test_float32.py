"""``wgmma`` in float32: which layers it gets, and how exact it is."""

from __future__ import annotations

import dataclasses
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
from warpconv.codegen.dtypes import Layout
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
TURNED = dict(form="halo", filters=64, pixels=96, rows=7, columns=8, boxes=2, stages=2, order="planes", ring=2)
FLAT = dict(form="halo", filters=64, pixels=64, rows=1, columns=64, boxes=2, stages=2, order="planes", ring=3)


def single(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=16, h=9, w=9, k=32, r=3, s=3, padding=1, layout="NHWC"), **changes})


# ---- what is chosen

@pytest.mark.parametrize("sizes", [sizes for sizes in LAYERS if sizes[0] * sizes[2] ** 2 >= LEAST_PRODUCTS])
@pytest.mark.parametrize("n", [1, 32])
def test_dense_layers_of_hopper_are_split_by_default(sizes, n):
    chosen = select(layer(*sizes, n=n, dtype="float32"), "sm_90")
    assert chosen.algorithm == "wgmma" and chosen.spec.numerics is Numerics.FP16X3


@pytest.mark.parametrize("width, size", [(256, 3), (512, 3), (1024, 3), (1024, 5), (3000, 3), (300, 7)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_rows_that_are_wider_than_a_box_are_shared_out(width, size, layout):
    """Of 256 elements a box has at most, the filter's columns beside the outputs'."""
    made = plan_layer(layer(64, width, size, 64, 1, size // 2, n=2, dtype="float32", layout=layout), arch="sm_90")
    assert (made.spec.algorithm, made.options.form.value) == ("wgmma", "halo")
    shares = -(-width // made.options.columns)
    assert made.numbers.box_columns <= 256 and -(-width // (256 - (size - 1))) <= shares


@pytest.mark.parametrize("changes, says", [
    (dict(c=10), "pixels 40 bytes apart"), (dict(groups=2), "2 groups"), (dict(groups=2, layout="NCHW"), "2 groups"),
    (dict(padding_mode="reflect"), "border reflect"), (dict(c=8), "float32 units"), (dict(stride=9), "strides of 9")])
def test_what_it_declines_goes_to_others(changes, says):
    """Short sums among it, unless they are asked for."""
    shape = single(**changes)
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(shape, algorithm="wgmma", precision="float32" if "units" in says else "fp16x3")
    assert select(shape, "sm_90").algorithm != "wgmma"
    if "units" in says:
        plan_layer(shape, algorithm="wgmma", precision="fp16x3")


@pytest.mark.parametrize("values, says", [
    (dict(filters=128, pixels=152), "76 sums a thread"), (dict(filters=256, pixels=80), "80 sums a thread"),
    (dict(pixels=24), "pixels = 24"), (dict(splits=10), "splits = 10 of 9 steps"),
    (dict(filters=256, pixels=64, stages=8), "bytes of shared memory")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(single(), algorithm="wgmma", precision="fp16x3", settings={**WINDOWS, **values})


@pytest.mark.parametrize("values, changes, says", [
    (dict(rows=2), dict(r=1, s=1, padding=0, w=12), "rows = 2 for 1x1"), (dict(ring=9), dict(w=12), "ring = 9"),
    (dict(), dict(r=1, s=1, w=12), "without padding"), (dict(), dict(layout="NHWC", w=12), "for NCHW in fp16x3"),
    (dict(), dict(), "36 bytes|W")])
def test_planes_that_cannot_be_turned(values, changes, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(single(**{"layout": "NCHW", **changes}), algorithm="wgmma", precision="fp16x3",
                   settings={**TURNED, **values})


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
    """Errors of a plan of the layer on a kind of data; ``text`` is another than its own. Of planes a column of zeros
    is beside the image, so that their rows are whole 16 bytes."""
    shape, (x, w) = precision.shape_of(name), precision.drawn(name, kind)
    loaded, source = backend.load_text(plan.spec, plan.program, text or render(plan).text)
    kernel = Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)
    if plan.spec.layout is Layout.NHWC:
        y = np.moveaxis(kernel(np.ascontiguousarray(np.moveaxis(x, 1, -1)), w), -1, 1)
    else:
        beside = 1 if plan.options.turned else 0
        y = kernel(np.pad(x, ((0, 0), (0, 0), (0, 0), (0, beside))), w)[..., :shape.q]
    return precision.errors_of(y, x, w, shape)


def units_of(name: str, kind: str) -> precision.Errors:
    shape, (x, w) = precision.shape_of(name), precision.drawn(name, kind)
    return precision.errors_of(precision.computed("ieee", x, w, shape, "cpu"), x, w, shape)


def of_nhwc(array: np.ndarray, values: dict[str, Any]) -> np.ndarray:
    """An array of NHWC in the layout that the plan values are for."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if "order" in values else array


def to_nhwc(array: np.ndarray, values: dict[str, Any]) -> np.ndarray:
    return np.moveaxis(array, 1, -1) if "order" in values else array


def laid_out(shape: ConvShape, values: dict[str, Any]) -> ConvShape:
    """The layer, given in NHWC, in the layout that the plan values are for."""
    return dataclasses.replace(shape, layout="NCHW") if "order" in values else shape


def plan_of(name: str, values: dict[str, Any], layout: str = "NHWC") -> Any:
    c, size = precision.LAYERS[name]
    shape, turned = precision.shape_of(name), "order" in values
    return plan_layer(ConvShape(n=shape.n, c=c, h=shape.h, w=shape.w + turned, k=shape.k, r=size, s=size,
                                padding=size // 2, layout="NCHW" if turned else layout),
                      algorithm="wgmma", precision="fp16x3", settings=values)


@pytest.mark.thin(30)
@on_cpu_device
@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("name, values, layout", [
    ("96", WINDOWS, "NHWC"), ("576", BOX, "NHWC"), ("96", FLAT, "NCHW"), ("576", TURNED, "NCHW"), *(
        pytest.param(*case, marks=pytest.mark.long) for case in (
            ("576", WINDOWS, "NHWC"), ("2304", WINDOWS, "NHWC"), ("2304", BOX, "NHWC"), ("2304", WINDOWS, "NCHW"),
            ("576", BOX, "NCHW"), ("2304", TURNED, "NCHW")))])
def test_split_factors_are_no_less_exact_than_float32_units(name, values, layout, kind):
    ours, theirs = errors_of(name, kind, plan_of(name, values, layout)), units_of(name, kind)
    if kind in NOT_KEPT:        # what the guaranteed bound alone says
        steps = -(-precision.LAYERS[name][0] // 32) * precision.LAYERS[name][1] ** 2
        assert ours.worst <= (steps + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("kind", precision.KINDS)
def test_boxes_of_phases_are_no_less_exact(kind):
    """Four phases share a box's scale, and rows between them hold nothing."""
    shape, (x, w) = dataclasses.replace(precision.shape_of("576"), stride=(2, 2)), precision.drawn("576", kind)
    plan = plan_layer(dataclasses.replace(shape, layout="NHWC"), algorithm="wgmma", precision="fp16x3",
                      settings={**BOX, "rows": 4, "columns": 6, "pixels": 48})
    assert plan.numbers.phases == 4 and plan.numbers.idle_pixels > 0
    y = np.moveaxis(checks.cpu_kernel(plan, Mode.CHECK)(np.ascontiguousarray(np.moveaxis(x, 1, -1)), w), -1, 1)
    ours = precision.errors_of(y, x, w, shape)
    theirs = precision.errors_of(precision.computed("ieee", x, w, shape, "cpu"), x, w, shape)
    if kind in NOT_KEPT:
        assert ours.worst <= (2 * 9 + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.thin(2)
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


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("left_out", ["low parts of pixels", "low parts of filters", "scales of single pixels"])
@pytest.mark.parametrize("values", [BOX, TURNED])
def test_every_part_is_needed(left_out, values):
    """Without one of the three products three digits are left; with the box's scale for all, distant pixels lose
    theirs."""
    plan, kind = plan_of("576", values), "pixels times 2^-30 to 1" if "single" in left_out else "signed"
    text = render(plan).text
    old, new = {
        "low parts of pixels": ("LOW_CELLS + i) = low;", "LOW_CELLS + i) = make_uint4(0u, 0u, 0u, 0u);"),
        "low parts of filters": ("low_parts(first, second, high);", "0u;"),
        "scales of single pixels": ("least >> 23) + LEAST_SCALE >= ", "least >> 23) + 255u >= ")}[left_out]
    assert text.count(old) == 1
    ours, worse = errors_of("576", kind, plan), errors_of("576", kind, plan, text.replace(old, new))
    assert worse.worst > 10 * ours.worst


@pytest.mark.thin(2)
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


@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("precision_", ["fp16x3", "tf32"])
@pytest.mark.parametrize("pixels, sampled", [(192, True), (272, False)])
def test_the_pass_leaves_pixels_that_no_output_reads(pixels, sampled, precision_):
    """Of 1x1 filters that stride; where a tile has more pixels than a box, windows are walked instead."""
    rng = np.random.default_rng(12)
    x, w = rng.standard_normal((3, 100, 13, 18)).astype("f4"), rng.standard_normal((21, 100, 1, 1)).astype("f4")
    shape = ConvShape.of(x.shape, w.shape, stride=(2, 3))
    plan = plan_layer(shape, algorithm="wgmma", precision=precision_, settings={**WINDOWS, "pixels": pixels})
    assert plan.program.workspaces[0].bytes_of(shape) == 4 * 100 * 3 * (7 * 6 if sampled else 13 * 18)
    x[:, :, 1::2], x[:, :, :, 1::3] = np.nan, np.inf        # no output reads them
    y = checks.cpu_kernel(plan, Mode.CHECK)(x, w)
    assert reference.compare(y, x, w, shape, numerics=Numerics(precision_)).within


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

@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("values", [WINDOWS, BOX, TURNED])
def test_pixels_of_a_box_may_be_of_any_size(values):
    """From the least float to what there is room for, in rows of the image and in single channels, zeros among them."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 12, 8, 36)).astype("f4"), rng.standard_normal((24, 36, 3, 3)).astype("f4")
    exponents = (-149, -140, -127, -126, -113, -112, -60, -15, -14, -13, 30, 60)
    with np.errstate(under="ignore"):
        x = np.ldexp(x, np.array(exponents)[None, :, None, None]).astype("f4")
    x[:, 5], x[:, :, 3, 4:] = 0.0, 0.0
    shape = ConvShape.of(x.shape, w.shape, layout="NHWC", padding=((0, 0), (1, 1)))
    w[:, :, 0], w[:, :, 2] = 0.0, 0.0       # rows do not meet
    plan = plan_layer(laid_out(shape, values), algorithm="wgmma", precision="fp16x3", settings=values)
    y = to_nhwc(checks.cpu_kernel(plan, Mode.CHECK)(of_nhwc(x, values), w), values)
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


# ---- what compilers make of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("sizes, n, way, layout", [
    (LAYERS[1], 32, "fp16x3", "NHWC"), (LAYERS[6], 1, "fp16x3", "NHWC"), (LAYERS[2], 32, "fp16x3", "NCHW"),
    (LAYERS[1], 32, "tf32", "NCHW"),
    *(pytest.param(*case, marks=pytest.mark.long) for case in itertools.product(LAYERS, (1, 32), ("fp16x3", "tf32"),
                                                                                ("NHWC", "NCHW")))])
def test_sums_stay_in_registers(sizes, n, way, layout):
    for epilogue in ((), (BIAS, RESIDUAL, RELU)):
        made = plan_layer(layer(*sizes, n=n, dtype="float32", layout=layout), algorithm="wgmma", arch="sm_90",
                          epilogue=epilogue, precision=way)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("values", [
    dict(form="halo", filters=128, pixels=144, rows=4, columns=28), dict(form="im2col", filters=256, pixels=72),
    dict(form="halo", filters=128, pixels=144, rows=4, columns=28, order="planes", ring=2),
    *(pytest.param(values, marks=pytest.mark.long) for values in (
        dict(form="halo", filters=64, pixels=288, rows=4, columns=56),
        dict(form="halo", filters=256, pixels=72, rows=2, columns=28),
        dict(form="halo", filters=256, pixels=72, rows=2, columns=28, order="planes", ring=2),
        dict(form="halo", filters=64, pixels=288, rows=4, columns=56, order="planes", ring=1),
        dict(form="im2col", filters=128, pixels=144), dict(form="im2col", filters=64, pixels=288)))])
def test_the_largest_tiles_stay_in_registers(values):
    shape = laid_out(layer(128, 56, 3, 512, 1, 1, dtype="float32"), values)
    made = plan_layer(shape, algorithm="wgmma", arch="sm_90", epilogue=(BIAS, RESIDUAL, RELU),
                      settings={**values, "stages": 2}, precision="fp16x3")
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
