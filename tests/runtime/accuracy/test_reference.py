"""The float64 reference that --check uses, against one that is written another way."""

from __future__ import annotations

import numpy as np
import pytest

from tests import reference as windows
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics
from warpconv.runtime.accuracy import reference as taps
from warpconv.runtime.arrays import elements

LAYERS = [dict(c=1, h=9, w=11, k=1, r=3, s=3),
          dict(n=2, c=4, h=12, w=7, k=6, r=3, s=2, groups=2, padding=((1, 0), (2, 1))),
          dict(c=3, h=20, w=21, k=2, r=4, s=5, stride=(2, 3), dilation=(3, 2), padding=(2, 3)),
          dict(c=2, h=1, w=40, k=3, r=1, s=31, padding="same"), dict(c=6, h=5, w=5, k=6, r=5, s=5, groups=6, padding=4)]


KINDS = [(dtype, layout) for dtype in ("float32", "float16", "bfloat16") for layout in ("NCHW", "NHWC")]


@pytest.mark.thin(2)
@pytest.mark.parametrize("dtype, layout", KINDS)
@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("sizes", LAYERS)
def test_both_formulations_agree_in_every_type_and_layout(sizes, dtype, layout, numerics):
    """The other bound takes half the step at the very magnitude, this one u times it: at most twice as much."""
    shape = ConvShape(**sizes, dtype=dtype, layout=layout)
    x, w, bias = windows.operands(shape, np.random.default_rng(5))
    given = dict(bias=bias, epilogue=(Epilogue.BIAS,), numerics=numerics)
    ours, theirs = taps.reference(x, w, shape, **given), windows.expected(x, w, shape, **given)
    assert ours.output.shape == shape.layout.stored(shape.output_shape)
    np.testing.assert_allclose(ours.output, theirs.output, rtol=1e-12, atol=1e-12)
    assert (ours.bound >= theirs.tolerance * (1 - 1e-12)).all() and (ours.bound <= 2 * theirs.tolerance).all()


def all_values(dtype: DType) -> np.ndarray:
    """Every finite value of a 16-bit type that is not negative, in order."""
    with np.errstate(invalid="ignore"):         # signalling NaNs
        found = np.arange(2**15, dtype=np.uint16).view(windows.ELEMENTS[dtype]).astype(np.float64)
    return found[np.isfinite(found)]


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_what_rounding_may_change_is_exact_for_all_values(dtype):
    """Between any two neighbours the distance is at most twice the allowance, and at the worst place it is that."""
    form, numbers = elements.FORMATS[dtype], all_values(dtype)
    allowance = np.maximum(form.roundoff * numbers[:-1], form.half_step)
    distance = np.diff(numbers)
    assert (distance <= 2 * allowance).all() and distance[0] == 2 * allowance[0]
    normal = numbers[:-1] >= 2.0 ** form.smallest
    assert (distance[normal] == 2 * allowance[normal]).sum() == form.largest - form.smallest + 1     # the powers of two
    assert numbers[-1] + distance[-1] / 2 == form.overflow and numbers[1] == 2 * form.half_step


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_bits_are_values(dtype):
    bits = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    array = bits.view(windows.ELEMENTS[dtype])
    wanted = array.astype(np.float32)
    np.testing.assert_array_equal(elements.values(array, dtype), wanted)
    finite = wanted[np.isfinite(wanted)]
    assert np.array_equal(elements.stored(finite, dtype).view(np.uint16), array[np.isfinite(wanted)].view(np.uint16))
    if dtype is DType.BFLOAT16:
        for held in (bits, bits.view("V2")):
            np.testing.assert_array_equal(elements.values(held, dtype), wanted)
            assert elements.from_bits(held, dtype).dtype == array.dtype
    else:
        assert elements.from_bits(bits, dtype) is bits


def halves(dtype: str, layout: str = "NHWC"):
    shape = ConvShape(c=3, h=7, w=9, k=5, r=3, s=3, padding=1, dtype=dtype, layout=layout)
    x, w, _ = windows.operands(shape, np.random.default_rng(8))
    return shape, x, w, taps.reference(x, w, shape)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_rounded_result_is_within_and_one_step_more_is_not(dtype):
    shape, x, w, exact = halves(dtype)
    element = windows.ELEMENTS[shape.dtype]
    good = exact.output.astype(np.float32).astype(element)
    assert taps.compare(good, x, w, shape).within
    if dtype == "bfloat16":
        assert taps.compare(good.view(np.uint16), x, w, shape).within
    for where in np.ndindex(good.shape[:2]):
        bad = good.copy()
        bits = bad.view(np.uint16)
        bits[(*where, 2)] += 2                                     # two steps further from zero
        assert not taps.compare(bad, x, w, shape).within, where
    assert not taps.compare(np.moveaxis(good, 1, 2).reshape(good.shape), x, w, shape).within


def test_infinities_of_float16_are_right_beyond_its_range_alone():
    shape = ConvShape(c=1, h=1, w=4, k=1, r=1, s=1, dtype="float16")
    x = np.array([60000, -60000, 32750, 32000], np.float16).reshape(1, 1, 1, 4)
    w = np.full((1, 1, 1, 1), 2, np.float16)
    right = np.array([np.inf, -np.inf, 65504, 64000], np.float16).reshape(1, 1, 1, 4)
    assert taps.compare(right, x, w, shape).within
    for place, value in ((0, -np.inf), (0, 65504), (1, np.nan), (2, -np.inf), (3, np.inf)):
        wrong = right.copy()
        wrong[0, 0, 0, place] = value
        assert not taps.compare(wrong, x, w, shape).within, (place, value)
    both = np.array([60000, -60000], np.float16)         # in half arithmetic the sum may overflow before it is small
    shape = ConvShape(c=2, h=1, w=1, k=1, r=1, s=1, dtype="float16")
    x, w = both.reshape(1, 2, 1, 1), np.full((1, 2, 1, 1), 2, np.float16)
    lost = np.full((1, 1, 1, 1), np.nan, np.float16)
    assert taps.compare(lost, x, w, shape, numerics=Numerics.FLOAT16).within
    assert not taps.compare(lost, x, w, shape).within


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_arithmetic_stays_within_its_bound_and_passes_the_other(dtype):
    """Products and sums rounded one by one in the element type."""
    shape = ConvShape(c=8, h=5, w=5, k=2, r=5, s=5, dtype=dtype)
    x, w, _ = windows.operands(shape, np.random.default_rng(9))
    made = np.zeros((1, 2, 1, 1), x.dtype)
    for k in range(2):
        total = x.dtype.type(0)
        for a, b in zip(x.ravel(), w[k].ravel()):
            total = total + a * b           # NumPy rounds each of the two
        made[0, k, 0, 0] = total
    assert made.dtype == x.dtype and taps.compare(made, x, w, shape, numerics=Numerics.FLOAT16).within
    assert not taps.compare(made, x, w, shape).within


@pytest.mark.parametrize("sizes", LAYERS)
@pytest.mark.parametrize("epilogue", [(), (Epilogue.BIAS,), (Epilogue.BIAS, Epilogue.RELU), (Epilogue.RELU,)])
@pytest.mark.parametrize("band", [1, 2**16])
def test_both_formulations_agree(sizes, epilogue, band, monkeypatch):
    monkeypatch.setattr(taps, "BAND_ELEMENTS", band)
    shape = ConvShape(**sizes)
    x, w, bias = windows.operands(shape, np.random.default_rng(3))
    ours = taps.reference(x, w, shape, bias=bias, epilogue=epilogue)
    theirs = windows.expected(x, w, shape, bias=bias, epilogue=epilogue)
    assert ours.output.shape == shape.output_shape
    np.testing.assert_allclose(ours.output, theirs.output, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.bound, theirs.tolerance, rtol=1e-12)


def test_an_impulse_gives_the_filter_turned_round():
    x, w = np.zeros((1, 1, 5, 5), np.float32), np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    x[0, 0, 2, 2] = 1
    made = taps.reference(x, w, ConvShape.of(x.shape, w.shape)).output
    assert np.array_equal(made[0, 0], w[0, 0, ::-1, ::-1])


def operands():
    shape = ConvShape(c=2, h=8, w=8, k=2, r=3, s=3)
    x, w, _ = windows.operands(shape, np.random.default_rng(4))
    return shape, x, w, taps.reference(x, w, shape)


def test_every_output_has_its_own_bound():
    shape, x, w, exact = operands()
    good = exact.output.astype(np.float32)
    assert taps.compare(good, x, w, shape).within
    where = np.unravel_index(np.argmin(exact.bound), exact.bound.shape)
    bad = good.copy()
    bad[where] += np.float32(2.0 * exact.bound[where])
    found = taps.compare(bad, x, w, shape)
    assert not found.within and found.max_error < exact.bound.max() and "OUTSIDE" in str(found)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_outside(value):
    shape, x, w, exact = operands()
    bad = exact.output.astype(np.float32)
    bad[0, 1, 2, 3] = value
    assert not taps.compare(bad, x, w, shape).within


def test_zeros_are_exact_and_a_wrong_zero_is_not():
    shape = ConvShape(c=1, h=4, w=4, k=1, r=2, s=2)
    x, w = np.zeros(shape.input_shape, np.float32), np.ones(shape.weight_shape, np.float32)
    result = np.zeros(shape.output_shape, np.float32)
    assert taps.compare(result, x, w, shape).worst_ratio == 0
    result[0, 0, 0, 0] = 1e-30
    assert not taps.compare(result, x, w, shape).within


def test_infinite_input_gives_infinite_output_on_both_sides():
    shape = ConvShape(c=1, h=4, w=4, k=1, r=1, s=1)
    x, w = np.ones(shape.input_shape, np.float32), np.ones(shape.weight_shape, np.float32)
    x[0, 0, 1, 1] = np.inf
    assert taps.compare(x.copy(), x, w, shape).within


def test_a_result_of_another_shape_is_refused():
    shape, x, w, exact = operands()
    with pytest.raises(ShapeError):
        taps.compare(exact.output[:, :, 1:].astype(np.float32), x, w, shape)
