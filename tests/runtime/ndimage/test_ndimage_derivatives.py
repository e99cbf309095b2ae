"""Laplacians and magnitudes of Gaussians and of callers' functions: by their definition in float64, and SciPy's own."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, strategies as st

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import DRAWN, MODES, drawn_image, ndimage, needs_cpu, needs_scipy, poisoned
from tests.runtime.ndimage.test_ndimage_filters import EPSILON, line, stored
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.ndimage.filters import gaussian_taps

NAMES = ("gaussian_laplace", "gaussian_gradient_magnitude")


def exactly(name, x, sigma, modes, cval, axes):
    """The definition in float64, and a bound of what float32 may make of it."""
    total, order = 0.0, 2 if name == "gaussian_laplace" else 1
    size = np.abs(x.astype(np.float64)).max() + abs(cval)
    bound, taps = 0.0, 0
    for along, mode in zip(axes, modes):
        values, norm = x.astype(np.float64), 1.0
        for axis in range(x.ndim):
            if order == 2 and axis not in axes:
                continue
            weights = gaussian_taps(sigma, order if axis == along else 0)
            values, norm = line(values, weights, axis, mode, cval), norm * np.abs(weights).sum()
            taps += len(weights)
        total, bound = total + (values if order == 2 else values**2), bound + norm
    return (total if order == 2 else np.sqrt(total)), (taps + 8) * EPSILON * size * bound


@st.composite
def calls(draw):
    shape = draw(st.sampled_from(((1, 1), (2, 3), (9, 20), (4, 6, 7), (7, 9, 3))))
    count = draw(st.integers(1, len(shape)))
    return {"shape": shape, "dtype": draw(st.sampled_from(("uint8", "int16", "float32"))),
            "axes": tuple(draw(st.permutations(range(len(shape))))[:count]),
            "modes": tuple(draw(st.lists(st.sampled_from(MODES), min_size=count, max_size=count))),
            "several": draw(st.booleans()), "cval": draw(st.sampled_from((0.0, 3.0))),
            "sigma": draw(st.sampled_from((0.6, 1.3))), "seed": draw(st.integers(0, 2**20))}


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("name", NAMES)
@DRAWN
@given(call=calls())
def test_sums_over_axes(name, call):
    x = drawn_image(settings.generator(call["seed"]), call["shape"], call["dtype"])
    modes = call["modes"] if call["several"] else call["modes"][:1] * len(call["axes"])
    given_modes = modes if call["several"] else modes[0]
    arguments = {"sigma": call["sigma"], "mode": given_modes, "cval": call["cval"], "axes": call["axes"]}
    got = getattr(warpconv, name)(x, output="float32", device="cpu", **arguments)
    exact, bound = exactly(name, x, call["sigma"], modes, call["cval"], call["axes"])
    if name == "gaussian_laplace":
        assert np.all(np.abs(got - exact) <= bound)
    else:       # the root of an error e of a square that is nearly 0 is that of the squares themselves
        assert np.all(np.abs(got - exact) <= 2 * bound + np.sqrt(1e-38))
    if ndimage is not None:
        theirs = getattr(ndimage, name)(x, output="float32", **arguments)
        assert np.all(np.abs(got - theirs) <= 4 * bound + 1e-30)


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16"])
def test_a_laplacian_of_integers_is_truncated_axis_by_axis(dtype):
    x = drawn_image(settings.generator(51), (12, 15), dtype)
    for output in (None, "int16"):
        got = warpconv.gaussian_laplace(x, 1.2, output, device="cpu")
        parts = []
        for order in ((2, 0), (0, 2)):
            parts.append(warpconv.gaussian_filter(x, 1.2, order, output, device="cpu").astype(np.int64))
        assert np.array_equal(got, stored(sum(parts).astype(np.float64), got.dtype))
        if ndimage is not None:
            theirs = ndimage.gaussian_laplace(x, 1.2, output)
            apart = (got.astype(np.int64) - theirs) % 2**(8 * got.itemsize)
            assert np.minimum(apart, 2**(8 * got.itemsize) - apart).max() <= 4 and got.dtype == theirs.dtype


@pytest.mark.long
@needs_cpu
def test_outputs_may_be_the_input_or_have_gaps():
    x = drawn_image(settings.generator(52), (8, 11), "float32")
    for name in NAMES:
        call = getattr(warpconv, name)
        expected = call(x, 1.1, device="cpu")
        for output in (poisoned(x.shape, "float32"), poisoned(x.T.shape, "float32").T, x.copy()):
            source = output if np.array_equal(output, x) else x
            for _ in range(2):      # a call like one before goes from kernel to kernel
                held = source.copy()
                assert call(source, 1.1, output, device="cpu") is output and np.array_equal(output, expected)
                source[...] = held if source is output else source
        half = call(x, 1.1, "float16", device="cpu")
        assert half.dtype == np.float16 and np.array_equal(half, expected.astype(np.float16))


@pytest.mark.long
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_scipys(name):
    x = drawn_image(settings.generator(53), (6, 9, 8), "float32")
    every = {"gaussian_laplace": ((1, 0.5), (0.5, 1, 1.5)), "gaussian_gradient_magnitude": ((1, 0.5, 2), (0, 1, 1.5))}
    for arguments in ({"sigma": every[name][0], "axes": (2, 0)}, {"sigma": every[name][1], "axes": (1, 0, 2)},
                      {"sigma": 1.2, "truncate": 2.0}, {"sigma": 1.2, "radius": 2}, {"sigma": 1.0, "axes": ()},
                      {"sigma": 0}):
        got, theirs = (getattr(of, name)(x, **arguments, **more) for of, more in ((warpconv, {"device": "cpu"}),
                                                                               (ndimage, {})))
        assert np.allclose(got, theirs, rtol=0, atol=2e-5), arguments


# ---- callers' functions

def second(input, axis, output, mode, cval, scale=1.0, of=warpconv, **more):
    return of.correlate1d(input, [scale, -2 * scale, scale], axis, output, mode, cval, **more)


@pytest.mark.long
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_any_function_derives(dtype):
    x = drawn_image(settings.generator(54), (7, 9, 5), dtype)
    for arguments in ({}, {"axes": 1}, {"axes": (2, 0), "mode": ("wrap", "mirror")}, {"axes": ()}):
        got = warpconv.generic_laplace(x, second, device="cpu", extra_arguments=(3,),
                                       extra_keywords={"device": "cpu"}, **arguments)
        theirs = ndimage.generic_laplace(x, second, extra_arguments=(3, ndimage),
                                         **{**arguments, **({"axes": (1,)} if arguments.get("axes") == 1 else {})})
        assert got.dtype == theirs.dtype and np.allclose(got, theirs, rtol=1e-6, atol=1e-5)
        for ours in (warpconv.sobel, ndimage.sobel):      # with our device handed on, and another library's
            got = warpconv.generic_gradient_magnitude(x, ours, "float32", device="cpu", **arguments)
            theirs = ndimage.generic_gradient_magnitude(x, ndimage.sobel, np.float32,
                                                        **{**arguments, "axes": (1,) if arguments.get("axes") == 1
                                                           else arguments.get("axes")})
            assert np.allclose(got, theirs, rtol=1e-6, atol=1e-5)
    whole = warpconv.generic_laplace(x, warpconv.prewitt, device="cpu")
    again = warpconv.generic_laplace(x, lambda *a: warpconv.prewitt(*a, device="cpu") + 0, device="cpu")
    assert np.array_equal(whole, again) and np.array_equal(whole, ndimage.generic_laplace(x, ndimage.prewitt)) \
        or dtype == "float32"


X = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize("call, error, argument", [
    (lambda: warpconv.gaussian_gradient_magnitude(X.astype("uint8"), 1, device="cpu"), ArgumentTypeError, "output"),
    (lambda: warpconv.generic_gradient_magnitude(X, warpconv.sobel, "int16", device="cpu"), ArgumentTypeError,
     "output"),
    (lambda: warpconv.generic_laplace(X.astype("uint8"), second, "int32", device="cpu"), ArgumentTypeError, "output"),
    (lambda: warpconv.generic_laplace(X, "sobel"), ArgumentTypeError, "derivative2"),
    (lambda: warpconv.generic_gradient_magnitude(X, lambda *a: X[1:], device="cpu"), ShapeError, "derivative"),
    (lambda: warpconv.generic_laplace(X, lambda *a: X.astype("uint8"), device="cpu"), ArgumentTypeError,
     "derivative2"),
    (lambda: warpconv.generic_laplace(X, second, mode=("wrap",)), ShapeError, "mode"),
    (lambda: warpconv.gaussian_laplace(X, (1, 1, 1)), ShapeError, "sigma"),
    (lambda: warpconv.gaussian_gradient_magnitude(X, (1,), axes=0), ShapeError, "sigma"),
    (lambda: warpconv.gaussian_laplace(X, 1, axes=(0, 2)), ArgumentError, "axes"),
    (lambda: warpconv.gaussian_laplace(X, -1), ArgumentError, "sigma"),
], ids=lambda value: getattr(value, "__name__", value))
def test_what_cannot_be_derived(call, error, argument):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.argument == argument and caught.value.hint


@needs_scipy
def test_every_linear_filter_of_scipy_is_here():
    """What SciPy's filters are beside these takes no sum of products; a new one shows here."""
    others = {"generic_filter1d", "generic_filter", "vectorized_filter", "minimum_filter1d", "maximum_filter1d",
              "minimum_filter", "maximum_filter", "rank_filter", "median_filter", "percentile_filter"}
    named = {name for name, value in vars(ndimage).items() if inspect.isfunction(value)
             and value.__module__ == ndimage.sobel.__module__}
    found = named if "correlate1d" in named else set(ndimage._filters.__all__)
    assert {name for name in found if name not in others and not hasattr(warpconv, name)} == set()


def test_further_arguments_are_a_sequence():
    with pytest.raises(ArgumentTypeError, match="extra_arguments.*int"):
        warpconv.generic_laplace(np.zeros((4, 5), np.float32), lambda *given: None, extra_arguments=3)


@needs_cpu
@needs_scipy
@pytest.mark.parametrize("shape", [(17, 23), (5, 9, 11)])
def test_chains_of_bfloat16_have_its_type(shape):
    """Their sums are kept in float32; the last pass stores the input's type, or the one that is asked for."""
    bfloat16 = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy").bfloat16
    image = np.random.default_rng(3).standard_normal(shape).astype(bfloat16)
    exact = image.astype(np.float64)
    for name, more in (("gaussian_laplace", (1,)), ("gaussian_gradient_magnitude", (1,)), ("laplace", ())):
        wanted = getattr(ndimage, name)(exact, *more)
        for x, options in ((image, {}), (image.astype(np.float32), {"output": bfloat16})):
            made = getattr(warpconv, name)(x, *more, device="cpu", **options)
            assert made.dtype == bfloat16
            assert np.abs(made.astype(np.float64) - wanted).max() < 2**-7 * np.abs(wanted).max(), name
