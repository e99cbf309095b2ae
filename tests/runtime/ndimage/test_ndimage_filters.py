"""gaussian_filter, sobel, prewitt, laplace and uniform_filter: by their definition in float64, and SciPy's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import (DRAWN, DTYPES, MODES, drawn_image, ndimage, needs_cpu,
                                                needs_scipy, poisoned)
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.ndimage.filters import gaussian_taps

EPSILON = float(np.finfo(np.float32).eps)
PAD = {"reflect": "symmetric", "constant": "constant", "nearest": "edge", "mirror": "reflect", "wrap": "wrap"}
INTEGERS = DTYPES[:-1]


def line(x, taps, axis, mode, cval, origin=0):
    """A 1D correlation of float64 numbers along an axis."""
    size, taps = len(taps), np.asarray(taps, np.float64)
    sides = [(0, 0)] * x.ndim
    sides[axis] = (size // 2 + origin, size - size // 2 - 1 - origin)
    padded = np.pad(x.astype(np.float64), sides, PAD[mode], **({"constant_values": cval} if mode == "constant" else {}))
    return np.lib.stride_tricks.sliding_window_view(padded, size, axis=axis) @ taps


def stored(values, dtype):
    """SciPy's cast: to zero, modulo 2^bits."""
    return np.trunc(values).astype(np.int64).astype(dtype) if np.dtype(dtype).kind in "iu" else values.astype(dtype)


def near(got, exact, taps, magnitude, what):
    """Float results: the rounding of each pass, (taps + 2) eps of the sum of magnitudes."""
    error = np.abs(got.astype(np.float64) - exact)
    assert got.dtype.kind == "f" and np.all(error <= (taps + 4) * EPSILON * magnitude + 1e-30), (what, error.max())


@st.composite
def calls(draw):
    dtype = draw(st.sampled_from(DTYPES))
    return {"dtype": dtype, "mode": draw(st.sampled_from(MODES)), "cval": draw(st.sampled_from((0.0, 3.0))),
            "output": draw(st.sampled_from((None, "float32", "int16"))), "seed": draw(st.integers(0, 2**20)),
            "shape": draw(st.sampled_from(((1, 1), (2, 3), (6, 35), (2, 9, 8)))),
            "axis": draw(st.sampled_from((-1, -2)))}


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("name, smooth", [("sobel", [1, 2, 1]), ("prewitt", [1, 1, 1])])
@DRAWN
@given(call=calls())
def test_slopes(name, smooth, call):
    x = drawn_image(settings.generator(call["seed"]), call["shape"], call["dtype"])
    where, other = call["axis"], -3 - call["axis"]
    got = getattr(warpconv, name)(x, where, call["output"], call["mode"], call["cval"], device="cpu", layout="NCHW")
    first = line(x, [-1, 0, 1], where, call["mode"], call["cval"])
    exact = line(stored(first, got.dtype), smooth, other, call["mode"], call["cval"])
    if got.dtype.kind in "iu" and x.dtype.kind in "iu":
        assert np.array_equal(got, stored(exact, got.dtype))
    elif got.dtype.kind == "f":
        size = np.abs(x.astype(np.float64)).max() + abs(call["cval"])
        near(got, exact, 9, 8 * size, name)
    if ndimage is not None and x.ndim == 2 and (got.dtype.kind == "f" or x.dtype.kind != "f"):
        theirs = getattr(ndimage, name)(x, where, call["output"], call["mode"], call["cval"])
        assert theirs.dtype == got.dtype
        assert np.allclose(got, theirs, rtol=0, atol=0 if x.dtype.kind != "f" else
                           13 * EPSILON * 8 * (np.abs(x).max() + abs(call["cval"])))


@pytest.mark.long
@needs_cpu
@DRAWN
@given(call=calls(), second=st.sampled_from(MODES), several=st.booleans())
def test_laplace(call, second, several):
    x = drawn_image(settings.generator(call["seed"]), call["shape"], call["dtype"])
    modes = (call["mode"], second if several else call["mode"])
    got = warpconv.laplace(x, call["output"], modes if several else call["mode"], call["cval"], axes=(-2, -1),
                           device="cpu")
    parts = [line(x, [1, -2, 1], axis, mode, call["cval"]) for axis, mode in zip((-2, -1), modes)]
    if got.dtype.kind == "f":
        near(got, sum(parts), 9, 8 * (np.abs(x.astype(np.float64)).max() + abs(call["cval"])), "laplace")
    elif x.dtype.kind in "iu":
        exact = stored(stored(parts[0], got.dtype).astype(np.int64) + stored(parts[1], got.dtype), got.dtype)
        assert np.array_equal(got, exact)
        if ndimage is not None and x.ndim == 2:
            assert np.array_equal(got, ndimage.laplace(x, call["output"], modes, call["cval"]))


@pytest.mark.thin(2)
@needs_cpu
@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_laplace_of_floats_is_cast_line_by_line(dtype):
    x = settings.generator(3).uniform(-40, 40, (7, 9)).astype(np.float32)
    x = np.rint(x * 4) / 4              # quarters: float32 sums are exact, so every cast is what it is in float64
    parts = [stored(line(x, [1, -2, 1], axis, "wrap", 0), dtype) for axis in (0, 1)]
    assert np.array_equal(warpconv.laplace(x, dtype, "wrap", device="cpu"), parts[0] + parts[1])
    if ndimage is not None:
        assert np.array_equal(parts[0] + parts[1], ndimage.laplace(x, dtype, "wrap"))
    slope = stored(line(stored(line(x, [-1, 0, 1], 1, "wrap", 0), dtype), [1, 2, 1], 0, "wrap", 0), dtype)
    assert np.array_equal(warpconv.sobel(x, 1, dtype, "wrap", device="cpu"), slope)


@pytest.mark.long
@needs_cpu
@DRAWN
@given(call=calls(), size=st.sampled_from((2, 3, 5, (1, 4), (7, 1), (3, 4), 129)), shifted=st.booleans())
def test_means(call, size, shifted):
    x = drawn_image(settings.generator(call["seed"]), call["shape"], call["dtype"])
    sizes = size if isinstance(size, tuple) else (size, size)
    origins = tuple((n - 1) // 2 if shifted else 0 for n in sizes)
    got = warpconv.uniform_filter(x, size, call["output"], call["mode"], call["cval"], origins, axes=(-2, -1),
                                  device="cpu")
    values = x
    for axis, n, origin in zip((-2, -1), sizes, origins):
        if n > 1:
            values = stored(line(values, np.ones(n), axis, call["mode"], call["cval"], origin) / n, got.dtype)
    if got.dtype.kind == "f":
        near(got, values, sizes[0] + sizes[1] if 129 in sizes else sizes[0] * sizes[1],
             np.abs(x.astype(np.float64)).max() + abs(call["cval"]), size)
    elif x.dtype.kind in "iu":
        assert np.array_equal(got, values.astype(got.dtype))
        if ndimage is not None and x.ndim == 2:
            assert np.array_equal(got, ndimage.uniform_filter(x, size, call["output"], call["mode"], call["cval"],
                                                              origins))


@pytest.mark.thin(4)
@needs_cpu
@pytest.mark.parametrize("dtype, size", [*((dtype, size) for dtype in INTEGERS for size in (3, 11)),
                                         pytest.param("uint8", 129, marks=pytest.mark.long)])
def test_means_of_multiples_and_their_neighbours_are_exact(dtype, size):
    """Images of one value, and of one value with one pixel above or below: where truncation goes wrong first."""
    ends = np.iinfo(dtype)
    rows = [np.full(size, value, dtype) for value in (ends.max, ends.min, ends.max // 3, ends.min // 3, 100, 3)]
    for row in list(rows):
        for step in (-1, 1):
            other = row.copy()
            other[0] = np.clip(int(row[0]) + step, ends.min, ends.max)
            rows.append(other)
    x = np.array(rows)
    exact = np.array([int(sum(row.tolist()) / size) for row in x])      # Python's own division, truncated
    assert warpconv.uniform_filter1d(x, size, mode="wrap", device="cpu")[:, size // 2].tolist() == exact.tolist()


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.7])
@needs_scipy
def test_gaussian_weights_are_scipys(sigma, order):
    impulse = np.zeros(41)
    impulse[20] = 1.0
    theirs = ndimage.gaussian_filter1d(impulse, sigma, order=order, mode="constant")
    taps = gaussian_taps(sigma, order)
    made = np.zeros(41)
    made[20 - len(taps) // 2:21 + len(taps) // 2] = taps[::-1]
    assert np.allclose(made, theirs, rtol=1e-12, atol=1e-15 * np.abs(theirs).max())


def test_gaussian_weights_are_the_derivatives():
    """By differences of the smooth one at a small distance."""
    sigma, step = 1.5, 1e-4
    x = np.arange(-6, 7)
    bell = lambda at: np.exp(-at**2 / (2 * sigma**2)) / np.exp(-x**2 / (2 * sigma**2)).sum()     # noqa: E731
    assert np.allclose(gaussian_taps(sigma), bell(x)) and abs(gaussian_taps(sigma).sum() - 1) < 1e-15
    assert np.allclose(gaussian_taps(sigma, 1)[::-1], (bell(x + step) - bell(x - step)) / (2 * step), atol=1e-8)
    assert len(gaussian_taps(sigma)) == 13 and len(gaussian_taps(sigma, radius=2)) == 5


def gaussians(*sigmas):
    return given(call=calls(), sigma=st.sampled_from(sigmas), order=st.sampled_from((0, 1, (0, 2))),
                 second=st.sampled_from((None, *MODES)))


@pytest.mark.long
@needs_cpu
@DRAWN
@gaussians(0.6, 1.0, (1.5, 0.5), (0, 1.2))
def test_gaussians(call, sigma, order, second):
    check_gaussian(call, sigma, order, second)


@pytest.mark.long
@needs_cpu
@DRAWN
@gaussians(2.0, (2.0, 0.5), (0, 1.2), 6.0)
def test_gaussians_of_many_taps(call, sigma, order, second):
    """Of up to 49, which a C++ compiler works on for seconds."""
    check_gaussian(call, sigma, order, second)


def check_gaussian(call, sigma, order, second):
    x = drawn_image(settings.generator(call["seed"]), call["shape"], call["dtype"])
    modes = call["mode"] if second is None else (call["mode"], second)
    options_ = {"order": order, "mode": modes, "cval": call["cval"]}
    got = warpconv.gaussian_filter(x, sigma, output=call["output"], layout="NCHW", device="cpu", **options_)
    sigmas = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    orders = order if isinstance(order, tuple) else (order, order)
    each = modes if isinstance(modes, tuple) else (modes, modes)
    lines = [(s, o, m, axis) for s, o, m, axis in zip(sigmas, orders, each, (-2, -1)) if s]
    if got.dtype.kind == "f":
        values, size = x.astype(np.float64), np.abs(x.astype(np.float64)).max() + abs(call["cval"])
        for s, o, m, axis in lines:
            taps = gaussian_taps(s, o)
            values, size = line(values, taps, axis, m, call["cval"]), size * max(1, np.abs(taps).sum())
        near(got, values, sum(2 * int(4 * s + 0.5) + 1 for s in sigmas) + 81, size, (sigma, order))
        if ndimage is not None and x.ndim == 2:
            theirs = ndimage.gaussian_filter(x, sigma, output=call["output"], **options_)
            near(got, theirs, sum(2 * int(4 * s + 0.5) + 1 for s in sigmas) + 81, size, "scipy")
        return
    step = x        # integers are stored between the axes: the same as one axis after the other, bit by bit
    for s, o, m, axis in lines:
        before, taps = step, gaussian_taps(s, o)
        step = warpconv.gaussian_filter1d(before, s, axis, o, got.dtype, m, call["cval"], device="cpu")
        truncated_right(step, before, taps, axis, m, call["cval"])
    assert np.array_equal(got, step)


def truncated_right(got, x, taps, axis, mode, cval):
    """Each integer is what a number within float32's rounding of the exact sum truncates to."""
    exact = line(x, taps, axis, mode, cval)
    bound = (len(taps) + 3) * EPSILON * line(np.abs(x.astype(np.float64)), np.abs(taps), axis, mode, abs(cval))
    low, high = np.trunc(exact - bound), np.trunc(exact + bound)
    modulus = 2 ** (8 * got.dtype.itemsize)
    assert np.all((got.astype(np.int64) - low) % modulus <= high - low)


@pytest.mark.thin(2)
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("dtype", INTEGERS)
def test_gaussians_of_integers_are_scipys_but_for_whole_numbers(dtype):
    x = drawn_image(settings.generator(11), (40, 50), dtype)
    for axis in (0, 1):
        got = warpconv.gaussian_filter1d(x, 1.3, axis, device="cpu").astype(np.int64)
        theirs = ndimage.gaussian_filter1d(x, 1.3, axis).astype(np.int64)
        exact = line(x, gaussian_taps(1.3), axis, "reflect", 0)
        bound = (len(gaussian_taps(1.3)) + 3) * EPSILON * np.abs(x.astype(float)).max()
        assert np.all((got == theirs) | (np.abs(exact - np.rint(exact)) <= bound))


@pytest.mark.long
@needs_cpu
def test_any_axes_of_a_stack():
    x = drawn_image(settings.generator(12), (4, 5, 9), "float32")
    for axes in ((0, 1, 2), (2, 0), 1, ()):
        got = warpconv.gaussian_filter(x, 0.8, axes=axes, device="cpu")
        values = x.astype(np.float64)
        for axis in axes if isinstance(axes, tuple) else (axes,):
            values = line(values, gaussian_taps(0.8), axis, "reflect", 0)
        near(got, values, 81 + 27, np.abs(x).max(), axes)
        if ndimage is not None:
            near(got, ndimage.gaussian_filter(x, 0.8, axes=axes), 81 + 27, np.abs(x).max(), axes)
    means = warpconv.uniform_filter(x, (2, 3, 1), axes=(0, 1, 2), device="cpu")
    near(means, line(line(x, [0.5, 0.5], 0, "reflect", 0), np.ones(3) / 3, 1, "reflect", 0), 9, np.abs(x).max(), "mean")


@needs_cpu
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_half_results_are_rounded_once(dtype):
    x = drawn_image(settings.generator(15), (30, 41), "float32").astype(dtype)
    got = warpconv.gaussian_filter(x, 3.0, output="float16", device="cpu")
    exact = line(line(x, gaussian_taps(3.0), 0, "reflect", 0), gaussian_taps(3.0), 1, "reflect", 0)
    bound = 54 * EPSILON * np.abs(x.astype(np.float64)).max()
    assert got.dtype == np.float16 and np.all(np.abs(got - exact) <= np.spacing(np.abs(got)) / 2 + bound)


@pytest.mark.thin(8)
@needs_cpu
@pytest.mark.parametrize("call", [
    lambda x, **more: warpconv.gaussian_filter(x, (0.5, 3.0, 0.7), **more),
    lambda x, **more: warpconv.sobel(x, axis=more.get("axis", -1), **{k: v for k, v in more.items() if k != "axis"}),
    lambda x, **more: warpconv.laplace(x, mode=("wrap", "nearest", "mirror"), **more),
    lambda x, **more: warpconv.uniform_filter(x, (1, 2, 5), **more)], ids=["gaussian", "sobel", "laplace", "uniform"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_outputs_may_be_the_input_or_have_gaps(call, dtype):
    x = drawn_image(settings.generator(13), (2, 8, 11), dtype)
    expected = call(x, device="cpu")
    for output in (poisoned(x.shape, dtype), poisoned(x.T.shape, dtype).T, x.copy()):
        source = x if not np.array_equal(output, x) else output
        assert call(source, output=output, device="cpu") is output and np.array_equal(output, expected)
    if dtype == "uint8":
        assert call(np.ascontiguousarray(x[..., ::-1])[..., ::-1], device="cpu").tolist() == expected.tolist()


@pytest.mark.long
@needs_cpu
def test_channels_may_come_last():
    x = drawn_image(settings.generator(14), (7, 9, 3), "uint8")
    planes = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    for call, axis in ((warpconv.laplace, {}), (warpconv.uniform_filter, {}), (warpconv.sobel, {"axis": 1})):
        made = call(x, layout="NHWC", device="cpu", **axis)
        assert np.array_equal(np.moveaxis(made, -1, 0),
                              call(planes, layout="NCHW", device="cpu", **({"axis": 2} if axis else {})))
    across = warpconv.correlate1d(x, [1, 2, 3], axis=-1, layout="NHWC", device="cpu")
    assert np.array_equal(across, warpconv.correlate1d(x, [1, 2, 3], device="cpu"))


X = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize("call, error, argument", [
    (lambda: warpconv.gaussian_filter(X, -1), ArgumentError, "sigma"),
    (lambda: warpconv.gaussian_filter(X, "1"), ArgumentError, "sigma"),
    (lambda: warpconv.gaussian_filter(X, (1, 2, 3)), ShapeError, "sigma"),
    (lambda: warpconv.gaussian_filter(X, 1, order=-1), ArgumentError, "order"),
    (lambda: warpconv.gaussian_filter(X, 1, order=0.5), ArgumentTypeError, "order"),
    (lambda: warpconv.gaussian_filter(X, 1, radius=1.5), ArgumentTypeError, "radius"),
    (lambda: warpconv.gaussian_filter(X, 1, truncate=-4), ArgumentError, "truncate"),
    (lambda: warpconv.gaussian_filter(X, 1e9), ArgumentError, "sigma"),
    (lambda: warpconv.gaussian_filter(X, 1, axes=(0, 0)), ArgumentError, "axes"),
    (lambda: warpconv.gaussian_filter(X, 1, axes=2), ArgumentError, "axes"),
    (lambda: warpconv.laplace(X.astype("uint16"), "int32", ("constant", "wrap"), 5e6, device="cpu"), ArgumentError,
     "cval"),
    (lambda: warpconv.gaussian_filter(X, 1, truncate=None), ArgumentTypeError, "truncate"),
    (lambda: warpconv.gaussian_filter(X, 1, truncate=np.nan), ArgumentError, "truncate"),
    (lambda: warpconv.gaussian_filter(X[None], (1, 1)), ShapeError, "sigma"),
    (lambda: warpconv.gaussian_filter(X, np.array([1, 2, 3])), ShapeError, "sigma"),
    (lambda: warpconv.gaussian_filter1d(X, 0), ArgumentError, "sigma"),
    (lambda: warpconv.gaussian_filter(X, 1, mode=("wrap",)), ShapeError, "mode"),
    (lambda: warpconv.sobel(X[None], 0, layout="NCHW"), ArgumentError, "axis"),
    (lambda: warpconv.sobel(X[None], mode=("wrap",) * 2), ShapeError, "mode"),
    (lambda: warpconv.sobel(X, mode=("wrap",) * 3), ShapeError, "mode"),
    (lambda: warpconv.laplace(X, axes=(0, 5)), ArgumentError, "axes"),
    (lambda: warpconv.uniform_filter(X, 0), ArgumentError, "size"),
    (lambda: warpconv.uniform_filter(X, 2.5), ArgumentError, "size"),
    (lambda: warpconv.uniform_filter(X, 3, origin=2), ArgumentError, "origin"),
    (lambda: warpconv.uniform_filter1d(X.astype("uint16"), 300, device="cpu"), ArgumentError, "size"),
], ids=lambda value: getattr(value, "__name__", value))
def test_what_cannot_be_filtered(call, error, argument):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.argument == argument and caught.value.hint
