"""How exact ``toeplitz_float32`` is, what becomes of infinities, NaN, and factors of very different size."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies import precision
from tests import checks
from tests.algorithms.mma.test_float32 import MADE_ANEW, NOT_KEPT
from warpconv.codegen.border import Border
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy import reference
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import Mode, backend

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
U = 2.0**-24
LAYERS = {"11x11": (11, 11), "31x31": (31, 31), "3x40": (3, 40), "15x15": (15, 15)}


def shape_of(name: str, **changes: Any) -> ConvShape:
    r, s = LAYERS[name]
    return ConvShape(**{**dict(n=3, c=2, h=40, w=44, k=2, groups=2, r=r, s=s, padding=(r // 2, s // 2)), **changes})


def planned(shape: ConvShape, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_float32", precision="fp16x3", settings=values)


def drawn(kind: str, shape: ConvShape, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return precision.KINDS[kind](np.random.default_rng([seed, *map(ord, kind)]), shape)


def computed(shape: ConvShape, x: np.ndarray, w: np.ndarray, text: str | None = None, **values: Any) -> np.ndarray:
    plan = planned(shape, **values)
    loaded, source = backend.load_text(plan.spec, plan.program, text or render(plan).text)
    kernel = Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)
    return (kernel.for_border(shape.padding_value) if shape.padding_mode is Border.CONSTANT else kernel)(x, w)


def chains_of(shape: ConvShape) -> int:
    """Sums of the tensor cores for a filter row, at most: what docs/precision.md says."""
    return -(-(shape.s + 17) // 32)


def of_units(shape: ConvShape, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """By float32 units, product after product."""
    return warpconv.specialize(shape, device="cpu", algorithm="direct", precision="ieee")(x, w)


def made_anew(shape: ConvShape, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """By float32 units, one column of the filter after the other: the bits of what is made anew."""
    turned = dataclasses.replace(shape, h=shape.w, w=shape.h, r=shape.s, s=shape.r, padding=shape.padding[::-1])
    y = of_units(turned, *(np.ascontiguousarray(array.swapaxes(2, 3)) for array in (x, w)))
    return y.swapaxes(2, 3)


def magnitude(x: np.ndarray, w: np.ndarray, shape: ConvShape) -> np.ndarray:
    return reference.reference(x, w, shape).bound / ((shape.reduction + 2) * precision.EPSILON)


@pytest.mark.thin(32)
@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("name", ["11x11", "31x31", pytest.param("3x40", marks=pytest.mark.long),
                                  pytest.param("15x15", marks=pytest.mark.long)])
def test_it_is_no_less_exact_than_float32_units(name, kind):
    """Padding is left out: a window that has one pixel alone is computed exactly by float32 units."""
    shape = shape_of(name, padding=0)
    x, w = drawn(kind, shape)
    y, units = computed(shape, x, w), of_units(shape, x, w)
    ours, theirs = (precision.errors_of(made, x, w, shape) for made in (y, units))
    chains = shape.r * chains_of(shape)
    if kind in NOT_KEPT:        # what the guaranteed bound alone says
        assert ours.worst <= (chains + 24) * U
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.thin(12)
@pytest.mark.parametrize("mode", [mode.value for mode in Border])
@pytest.mark.parametrize("name", ["11x11", "3x40"])
def test_it_is_within_its_bound(name, mode):
    """Against float64, at the border too, and no better than it can be."""
    shape = shape_of(name, padding_mode=mode, padding_value=0.3 if mode == "constant" else 0.0)
    x, w = drawn("signed", shape)
    y, exact = computed(shape, x, w), reference.reference(x, w, shape)
    chains = shape.r * chains_of(shape)
    assert (np.abs(y - exact.output) <= (chains + 24) * U * magnitude(x, w, shape)).all()
    assert 1e-8 < np.linalg.norm(y - exact.output) / np.linalg.norm(exact.output) < 2e-7


@pytest.mark.long
@pytest.mark.parametrize("kind", ["signed", "non-negative"])
def test_sums_left_in_the_tensor_cores_would_fail_the_bound(kind):
    """The text with sums that go on from row to row: the emulated tensor cores cut them, as a GPU's do. One scale for
    all pixels and weights, so that there is one for all sums."""
    shape = shape_of("31x31", padding=0)
    x, w = drawn(kind, shape)
    plan = planned(shape, tiles=2)
    text = render(plan).text
    for old, new, times in (
            ("float4 large_t0 = {}, small_t0 = {}, large_t1 = {}, small_t1 = {};",
             "float4 &large_t0 = sum_t0, &large_t1 = sum_t1; float4 small_t0 = {}, small_t1 = {};", 1),
            *((f"sum.{at} = fmaf(fmaf(small.{at}, 4.8828125e-4f, large.{at}), scale_{row}, sum.{at});",
               f"sum.{at} = fmaf(small.{at}, 4.8828125e-4f, sum.{at});", 1)
              for at, row in (("x", "top"), ("y", "top"), ("z", "bottom"), ("w", "bottom"))),
            ("const unsigned exponent = scale_exponent(of_row.x);", "const unsigned exponent = 139u;", 1),
            ("const unsigned filter_exponent = scale_exponent(largest_weight);",
             "const unsigned filter_exponent = 139u;", 1),
            ("min(scale_exponent(ranges[r]), filter_exponent + 30u)", "139u", 1),
            ("(218u - filter_exponent) << 23", "(242u - filter_exponent) << 23", 1)):
        assert text.count(old) == times, old
        text = text.replace(old, new)
    y, worse, units = computed(shape, x, w, tiles=2), computed(shape, x, w, text, tiles=2), of_units(shape, x, w)
    ours, worse_, theirs = (precision.errors_of(made, x, w, shape) for made in (y, worse, units))
    assert ours.norm < theirs.norm and worse_.norm < 1e-4 and worse_.norm > 4 * ours.norm


@pytest.mark.parametrize("left_out, old, new", [
    ("low parts of pixels", "make_uint2(low_parts(value_x, value_y, high_0), low_parts(value_z, value_w, high_1))",
     "make_uint2(0u, 0u)"),
    ("low parts of weights", "filter[i + FILTER_WORDS] = low_parts(first_weight, second_weight, high)",
     "filter[i + FILTER_WORDS] = 0u")])
@pytest.mark.thin(2)
def test_every_part_is_needed(left_out, old, new):
    """Without one of the three products three digits are left."""
    shape = shape_of("15x15")
    x, w = drawn("signed", shape)
    text = render(planned(shape)).text
    assert text.count(old) == 1
    y, worse = computed(shape, x, w), computed(shape, x, w, text.replace(old, new))
    ours, worse_ = (precision.errors_of(made, x, w, shape) for made in (y, worse))
    assert worse_.worst > 10 * ours.worst


# ---- scales

def test_rows_may_be_of_any_size():
    """From the least float to what there is room for, zeros among them; filter rows, too."""
    shape = ConvShape(n=1, c=1, h=48, w=40, k=1, r=2, s=24, padding=(0, 12))
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    exponents = np.repeat((-149, -140, -127, -126, -113, -112, -60, -15, -14, -13, 30, 60), 4)
    with np.errstate(under="ignore"):
        x = np.ldexp(x, exponents[:, None]).astype("f4")
    x[0, 0, 6] = x[0, 0, :, 9] = 0.0
    w[0, 0, 1] *= np.float32(2.0**-30)
    y, exact = computed(shape, x, w), reference.reference(x, w, shape)
    assert (np.abs(y.astype("f8") - exact.output) <= 40 * U * magnitude(x, w, shape) + 2.0**-149).all()
    assert all(np.any(y[0, 0, row]) for row in range(47) if row != 6)


@pytest.mark.parametrize("digits, anew", [(26, False), (29, True), (45, True)])
def test_pixels_that_a_row_would_lose_are_left_to_float32_units(digits, anew):
    """A bright pixel, and windows far from it in the same rows: one scale has no digits for both."""
    shape = ConvShape(n=1, c=1, h=30, w=80, k=1, r=9, s=13, padding=(4, 6))
    rng = np.random.default_rng(6)
    x, w = 1 + rng.random(shape.input_shape, "f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    x[0, 0, 12, 70] = np.float32(1.5 * 2.0**digits)
    y, exact = computed(shape, x, w), reference.reference(x, w, shape)
    assert (np.abs(y - exact.output) <= 40 * U * magnitude(x, w, shape)).all()
    same = np.array_equal(y[0, 0, 10:14, :40], made_anew(shape, x, w)[0, 0, 10:14, :40])
    assert same is anew


@pytest.mark.thin(2)
@pytest.mark.parametrize("width", [40, 61])
def test_fields_that_fall_off_by_many_orders_of_magnitude(width):
    """A bump of 1e-40 at its rim: windows that are bright enough for what their rows lose stay as they are."""
    shape = ConvShape(n=1, c=1, h=50, w=width, k=1, r=11, s=13, padding=(5, 6))
    away = np.hypot(*np.meshgrid(np.arange(width) - 9.0, np.arange(50) - 30.0))
    x = np.exp(-away**2 / 20).astype("f4")[None, None]
    w = np.random.default_rng(2).standard_normal(shape.weight_shape).astype("f4")
    y, exact, units = computed(shape, x, w), reference.reference(x, w, shape), made_anew(shape, x, w)
    assert (np.abs(y - exact.output) <= (11 + 24) * U * magnitude(x, w, shape) + 8 * 2.0**-149).all()
    assert 0.05 < np.mean(y[y != 0] == units[y != 0]) < 0.95


def test_dark_pixels_among_bright_ones_are_no_reason_to_make_sums_anew():
    shape = shape_of("11x11", padding=0)
    x, w = drawn("pixels times 2^-30 to 1", shape)
    assert np.mean(computed(shape, x, w) == made_anew(shape, x, w)) < 0.5


@pytest.mark.parametrize("mode", ["zeros", "replicate"])
@pytest.mark.thin(2)
def test_weights_that_the_edge_leaves_alone(mode):
    """A filter that falls off to one side by 2^40: windows at the edge may have its least weights alone. Those of a
    filter whose middle is large, as a Gaussian's, are no such case."""
    shape = ConvShape(n=1, c=1, h=24, w=60, k=1, r=9, s=21, padding=(4, 14), padding_mode=mode)
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape.input_shape).astype("f4")
    steep = np.ldexp(1 + rng.random(shape.weight_shape), -2 * np.arange(21)).astype("f4")
    bell = np.exp(-((np.arange(9) - 4)[:, None]**2 + (np.arange(21) - 10)**2) / 8)[None, None].astype("f4")
    for w, padding in ((steep, 14), (bell, 10)):
        cut = dataclasses.replace(shape, padding=(4, padding))
        y, exact = computed(cut, x, w), reference.reference(x, w, cut)
        assert (np.abs(y - exact.output) <= 40 * U * magnitude(x, w, cut)).all()
        assert np.array_equal(y[..., :8], made_anew(cut, x, w)[..., :8]) is (w is steep and mode == "zeros")


@pytest.mark.thin(4)
@pytest.mark.parametrize("steep", ["Gaussian", "Moffat", "exponential"])
@pytest.mark.parametrize("digits", [20, 24, 26])
def test_dark_pixels_beside_bright_ones_under_filters_that_fall_off(steep, digits):
    """What is lost of a small weight is multiplied by bright pixels: weights keep as many digits as pixels do."""
    shape = ConvShape(n=1, c=1, h=20, w=64, k=1, r=15, s=15, padding=7, padding_mode="reflect")
    away = np.hypot(*np.meshgrid(np.arange(-7, 8), np.arange(-7, 8)))
    w = {"Gaussian": np.exp(-away**2 / 4.5), "Moffat": (1 + away**2 / 2) ** -4.5, "exponential": np.exp(-1.3 * away)}
    w = (w[steep] / w[steep].sum()).astype("f4")[None, None]
    x = (1 + np.random.default_rng(5).random(shape.input_shape)).astype("f4")
    x[..., :32] *= np.float32(2.0**-digits)
    y, exact = computed(shape, x, w), reference.reference(x, w, shape)
    assert (np.abs(y - exact.output) <= (15 + 24) * U * magnitude(x, w, shape)).all()


@pytest.mark.parametrize("step", [3, 8])
@pytest.mark.parametrize("kind", ["normal", "dark"])
def test_rows_of_weights_that_the_edge_leaves_alone(step, kind):
    """The last rows of a filter are far below the others, and windows at the top have them alone. Dark pixels: scales
    of both leave room for their product."""
    shape = ConvShape(n=1, c=1, h=20, w=30, k=1, r=13, s=15, padding=((12, 0), (7, 7)))
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    w = np.ldexp(w, -step * np.arange(13)[:, None]).astype("f4")
    if kind == "dark":
        x, w = np.ldexp(x, -112).astype("f4"), np.ldexp(w, 60).astype("f4")
    y, exact = computed(shape, x, w), reference.reference(x, w, shape)
    # sums of subnormal floats round at 2^-149 each time
    assert (np.abs(y - exact.output) <= (13 + 24) * U * magnitude(x, w, shape) + 16 * 2.0**-149).all()
    assert np.all(y[0, 0, 0] != 0)


def test_a_filter_of_zeros_is_not_made_anew():
    """Infinity times zero is NaN in its windows alone, zero elsewhere."""
    shape = shape_of("11x11")
    x, w = drawn("signed", shape)
    w[1] = 0.0
    x[0, 1, 20, 20] = np.inf
    with np.errstate(invalid="ignore"):
        y = computed(shape, x, w)
    assert np.isnan(y[0, 1, 15:26, 15:26]).all() and np.isnan(y).sum() == 121 and (y[1:, 1] == 0).all()
    assert "largest_weight == 0u ? 0.0f" in render(planned(shape)).text


# ---- what is not finite

@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", ["zeros", "reflect"])
def test_infinities_and_nan_come_out_as_of_float32_units(mode):
    """In pixels and in weights, beside zeros; structural zeros of the banded matrix spread none of them."""
    shape = shape_of("11x11", c=4, k=4, groups=4, padding_mode=mode)
    x, w = drawn("signed", shape)
    x[1, 0, 20, 30], x[1, 1, 3, 5], x[0, 1, 30, 2] = np.inf, np.nan, -np.inf
    x.view("u4")[2, 1, 11, 11] = 0xFF800001         # NaN of other bits
    w[2, 0, 5, 5], w[3, 0, 0, 10] = np.inf, np.nan
    x[2, 2] = np.where(np.random.default_rng(1).random((40, 44)) < 0.5, 0, x[2, 2])
    with np.errstate(invalid="ignore"):
        y, units = computed(shape, x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(units)) and np.array_equal(np.isposinf(y), np.isposinf(units))
    assert np.array_equal(np.isneginf(y), np.isneginf(units)) and np.isinf(units).any()
    windows = np.zeros((40, 44), bool)
    windows[15:26, 25:36] = True
    assert np.array_equal(~np.isfinite(y[1, 0]), windows)


def test_what_the_scales_have_no_room_for_is_made_by_float32_units():
    """Pixels near the largest float, sums beyond it, tiny filters; the bits of the units where they make a tile."""
    shape = ConvShape(n=3, c=1, h=20, w=30, k=1, r=11, s=11, padding=5)
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4")
    x[0] *= np.float32(2e37)
    for scale in (1.0, 2.0**-90, 2.0**-120):
        small = (w * np.float32(scale)).astype("f4")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            y, units = computed(shape, x, small), made_anew(shape, x, small)
        assert np.array_equal(np.isinf(y), np.isinf(units)) and np.array_equal(y[0], units[0])
        fine = np.isfinite(units)
        error = np.abs(y[fine].astype("f8") - units[fine])
        assert (error <= 121 * 2 * U * magnitude(x, small, shape)[fine] + 2.0**-149).all()
        assert np.array_equal(y[1:], units[1:]) is (scale < 2.0**-80)


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", ["zeros", "constant"])
def test_every_access_of_outputs_made_anew_is_checked(mode):
    shape = ConvShape(n=2, c=2, h=19, w=37, k=4, groups=2, r=9, s=12, padding=(4, 6), padding_mode=mode,
                      padding_value=0.5 if mode == "constant" else 0.0)
    x, w = drawn("signed", shape)
    x[0, 1, 7, 7] = np.inf
    kernel = checks.cpu_kernel(planned(shape), Mode.CHECK).for_border(shape.padding_value)
    with np.errstate(invalid="ignore"):
        y, units = kernel(x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isfinite(y), np.isfinite(units)) and not np.isfinite(y).all()
    assert reference.compare(y[1:], x[1:], w, shape.with_batch(1), numerics=Numerics.FP16X3).within
