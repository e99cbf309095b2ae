"""The float64 reference that --check uses, against one that is written another way."""

from __future__ import annotations

import numpy as np
import pytest

from tests import reference as windows
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime import reference as taps

LAYERS = [dict(c=1, h=9, w=11, k=1, r=3, s=3),
          dict(n=2, c=4, h=12, w=7, k=6, r=3, s=2, groups=2, padding=((1, 0), (2, 1))),
          dict(c=3, h=20, w=21, k=2, r=4, s=5, stride=(2, 3), dilation=(3, 2), padding=(2, 3)),
          dict(c=2, h=1, w=40, k=3, r=1, s=31, padding="same"), dict(c=6, h=5, w=5, k=6, r=5, s=5, groups=6, padding=4)]


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
