"""SciPy's calls over arrays of one to four axes: every call that SciPy takes gives its result, or is refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given, settings as options, strategies as st

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import (
    DRAWN,
    MODES,
    drawn_image,
    ndimage,
    needs_cpu,
    needs_scipy,
    strided,
)
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.ndimage import filters, lines, planes, recipes, work
from warpconv.runtime.ndimage.planes import Image
from warpconv.runtime.ndimage.target import Target

EPSILON = float(np.finfo(np.float32).eps)
SHAPES = ((7,), (5, 9), (6, 8, 3), (3, 6, 8), (4, 5, 18), (1, 5, 1, 7), (2, 3, 4, 5))
CALLS = ("gaussian_filter", "uniform_filter", "sobel", "prewitt", "laplace", "correlate", "convolve")
ALIKE = ("prewitt", "convolve")     # each to one before it: in the long run


@st.composite
def calls(draw, name):
    shape = draw(st.sampled_from(SHAPES))
    rank = len(shape)
    dtype = draw(st.sampled_from(("uint8", "int16", "float32")))
    axes = None if name in ("sobel", "prewitt") or draw(st.booleans()) else tuple(
        draw(st.permutations(range(-rank, 0)))[:draw(st.integers(1, rank))])
    count = rank if axes is None else len(axes)

    def each(values):
        drawn = st.sampled_from(values)
        return draw(st.one_of(drawn, st.tuples(*[drawn] * count)))

    made = {"mode": draw(st.sampled_from(MODES)) if name in ("correlate", "convolve") else each(MODES[:2]),
            "cval": draw(st.sampled_from((0.0, 2.0))), "output": draw(st.sampled_from((None, "float32")))}
    if name in ("sobel", "prewitt"):
        made["axis"] = draw(st.integers(-rank, rank - 1))
    elif axes is not None or draw(st.booleans()):
        made["axes"] = axes
    if name == "gaussian_filter":
        made["sigma"] = each((0.6, 1.1, 0))
        if dtype == "float32":
            made["order"] = each((0, 1))
    elif name == "uniform_filter":
        made["size"] = each((1, 3, 4))
        made["origin"] = each((0, -1)) if made["size"] in (3, 4) else 0
    elif name in ("correlate", "convolve"):
        sizes = [1] * count
        for i in draw(st.permutations(range(count)))[:2]:
            sizes[i] = draw(st.sampled_from((1, 2, 3)))
        made["weights"] = sizes
    return {"shape": shape, "dtype": dtype, "options": made, "strides": draw(st.sampled_from(("plain", "turned"))),
            "seed": draw(st.integers(0, 2**20))}


@needs_cpu
@needs_scipy
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in ALIKE else ())
                                  for name in CALLS])
@options(DRAWN, max_examples=60 if settings.whole else 6)
@given(data=st.data())
@pytest.mark.thin(3)
def test_drawn_calls(name, data):
    case = data.draw(calls(name))
    rng, arguments = settings.generator(case["seed"]), dict(case["options"])
    x = drawn_image(rng, case["shape"], case["dtype"])
    if "weights" in arguments:
        sizes = arguments["weights"]
        arguments["weights"] = rng.integers(1, 9, sizes)
        arguments["origin"] = [int(rng.integers(-(n // 2) + (name == "convolve" and not n % 2), (n - 1) // 2 + 1))
                               if "axes" not in arguments or arguments["axes"] is None else 0 for n in sizes]
    theirs = getattr(ndimage, name)(x, **arguments)
    source = strided(x, case["strides"])
    for _ in range(2):      # as the first call of its kind, and as one like it
        got = getattr(warpconv, name)(source, device="cpu", **arguments)
        assert got.dtype == theirs.dtype and got.shape == theirs.shape
        if got.dtype.kind == "f":
            assert np.abs(got - theirs).max() <= 200 * EPSILON * 64 * (np.abs(x.astype(np.float64)).max() + 2)
        elif name == "gaussian_filter":     # which side of a whole number a rounded sum truncates to, axis by axis
            assert np.abs(got.astype(int) - theirs).max() <= x.ndim
        else:
            assert np.array_equal(got, theirs)


@needs_scipy
@pytest.mark.parametrize("name", ["correlate", "convolve", "correlate1d", "convolve1d", "gaussian_filter",
                                  "gaussian_filter1d", "sobel", "prewitt", "laplace", "uniform_filter",
                                  "uniform_filter1d", "gaussian_laplace", "gaussian_gradient_magnitude",
                                  "generic_laplace", "generic_gradient_magnitude"])
def test_signatures_are_scipys_and_ours_behind_them(name):
    theirs = dict(inspect.signature(getattr(ndimage, name)).parameters)
    told = ["truncate", "radius"] if theirs.pop("kwargs", None) else []     # what SciPy hands on to gaussian_filter
    ours = inspect.signature(getattr(warpconv, name)).parameters
    assert list(ours)[:len(theirs)] == list(theirs)
    assert all((ours[n].default, ours[n].kind) == (p.default, p.kind) for n, p in theirs.items())
    assert list(ours)[len(theirs):] == [*told, "device", "stream", "algorithm", "layout", "dtype"]


# ---- what costs nothing

def launches(name, x, *arguments, **more):
    """How many kernels a call takes."""
    recipes._recipes.clear()
    getattr(warpconv, name)(x, *arguments, device="cpu", **more)
    (found,) = recipes._recipes.values()
    return sum(type(step) is work.Step for step in found._steps)


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_channels_are_one_kernel_wherever_they_are(dtype):
    x = drawn_image(settings.generator(31), (9, 12, 3), dtype)
    planes_of = np.moveaxis(x, -1, 0)
    whole = {"output": "float32"}
    for first, last in ((planes_of, x), (np.ascontiguousarray(planes_of), x)):
        assert launches("gaussian_filter", last, (0.5, 0.5, 0), **whole) == 1
        assert launches("gaussian_filter", first, (0, 0.5, 0.5), **whole) == 1
        assert launches("uniform_filter", last, (3, 3, 1), **whole) == 1
        assert launches("correlate", last, np.ones((3, 3, 1))) == launches("correlate", first, np.ones((1, 3, 3))) == 1
        assert launches("correlate", last, np.ones((3, 3)), axes=(0, 1)) == 1
        assert launches("laplace", last, axes=(0, 1)) == launches("laplace", first, axes=(1, 2)) == 1
    assert launches("sobel", x) == 2 and launches("laplace", x) == 2
    assert launches("gaussian_filter", x[None, :, :, None], 0.5, **whole) == 2       # nothing along axes of one element
    assert launches("gaussian_filter", x, 0) == 1


def test_how_axes_are_seen():
    def shape(given, *axes):
        how = planes.seen(given, axes)
        return how.shape, how.layout, how.channels

    assert shape((8, 9), 0, 1) == ((1, 1, 8, 9), Layout.NCHW, 1)
    assert shape((3, 8, 9), 1, 2) == ((3, 1, 8, 9), Layout.NCHW, 1)
    assert shape((8, 9, 3), 0, 1) == ((1, 8, 9, 3), Layout.NHWC, 3)
    assert shape((2, 8, 1, 9, 1), 1, 3) == ((2, 1, 8, 9), Layout.NCHW, 1)
    assert shape((2, 8, 5, 9), 1, 3) == ((2, 5, 8, 9), Layout.NCHW, 5)
    assert shape((8, 5, 9, 3), 0, 2) == ((5, 8, 9, 3), Layout.NHWC, 3)
    assert shape((8, 9, 3), 0) == ((1, 1, 8, 27), Layout.NCHW, 1)
    assert shape((8, 9, 3), 1) == ((1, 8, 9, 3), Layout.NHWC, 3)
    assert shape((8, 9, 30), 1) == ((8, 1, 9, 30), Layout.NCHW, 1)
    assert shape((2, 8, 9), 2) == ((2, 1, 8, 9), Layout.NCHW, 1)
    assert shape((4, 5, 7, 8, 9), 2, 3, 4) == ((20, 1, 7, 8, 9), Layout.NCHW, 1)
    assert shape((7, 8, 9, 2), 0, 1, 2) == ((1, 7, 8, 9, 2), Layout.NHWC, 2)
    with pytest.raises(ShapeError, match="side by side"):
        planes.seen((2, 8, 5, 9, 3), (1, 3))


@pytest.mark.parametrize("shape, pair", [((64, 64, 3), (0, 1)), ((3, 64, 64), (1, 2)), ((9, 9, 9), (1, 2))])
def test_the_largest_planes_are_done_at_once(shape, pair):
    image = Image.of(np.zeros(shape, np.float32))
    made = filters._gaussian(image, DType.FLOAT32, 1.0, 0, "reflect", 0.0, 4.0, None, None, None).terms[0]
    assert [each.axes for each in made] == [pair, tuple({0, 1, 2} - set(pair))]
    by_turns = lines.of_lines([lines.line_of(np.array([1.0, 1.0, 1.0]), axis, "constant", 2.0) for axis in range(3)],
                              image, DType.FLOAT32)
    assert [each.axes for each in by_turns] == [(0,), (1,), (2,)]      # what stands outside is not filtered between


# ---- arguments

@pytest.mark.long
@needs_cpu
@needs_scipy
def test_numbers_may_be_arrays_of_no_axes():
    x = drawn_image(settings.generator(32), (6, 7), "float32")
    zero = np.array
    for name, arguments in (("gaussian_filter", {"sigma": zero(1.5), "order": zero(1), "truncate": zero(3.0)}),
                            ("gaussian_filter", {"sigma": np.float32(1.5), "radius": np.int64(2)}),
                            ("gaussian_filter", {"sigma": np.array([1.5, 0.5]), "order": [0, 1]}),
                            ("gaussian_filter", {"sigma": range(1, 3)}),
                            ("uniform_filter", {"size": zero(3), "origin": zero(1)}),
                            ("uniform_filter", {"size": np.array([3, 4]), "axes": range(2)})):
        got = getattr(warpconv, name)(x, device="cpu", **arguments)
        assert np.allclose(got, getattr(ndimage, name)(x, **arguments), atol=1e-5), (name, arguments)


@pytest.mark.long
@needs_cpu
@needs_scipy
def test_int32_results_of_several_passes():
    x = drawn_image(settings.generator(33), (4, 5, 6), "uint8")
    for name, arguments in (("sobel", {}), ("laplace", {}), ("laplace", {"mode": ("wrap", "mirror", "nearest")})):
        got = getattr(warpconv, name)(x, output="int32", device="cpu", **arguments)
        assert np.array_equal(got, getattr(ndimage, name)(x, output=np.int32, **arguments))
    wide = x.astype("uint16") * 257
    with pytest.raises(ArgumentTypeError, match="int32"):       # beyond 16 bits between the axes
        warpconv.sobel(wide, output="int32", device="cpu")
    for name in ("sobel", "laplace"):
        got = getattr(warpconv, name)(wide, output="int32", device="cpu", dtype="float32")
        assert np.array_equal(got, getattr(ndimage, name)(wide, output=np.int32))


def test_what_values_lie_between():
    image = Image.of(np.zeros((4, 5), np.uint8))
    passes = [lines.Pass.along(lines.line_of(np.array([-1.0, 0, 2]), axis, "constant", 300.0)) for axis in (0, 1)]
    assert lines.between(DType.INT32, passes, image.view.dtype) is DType.INT16
    assert lines.between(DType.INT32, [passes[0]] * 8, image.view.dtype) is None
    means = [lines.Pass.along(lines.line_of(np.ones(3), 0, "wrap", 0, divisor=3))]
    assert lines.between(DType.INT32, means, DType.UINT16) is DType.UINT16
    assert lines.between(DType.FLOAT16, means, DType.UINT16) is DType.FLOAT32


# ---- calls like one before

@needs_cpu
def test_keys_tell_arguments_apart():
    x = drawn_image(settings.generator(34), (6, 7), "float32")
    warpconv.gaussian_filter(x, 1, order=1, device="cpu")
    for wrong in (True, 1.0):
        with pytest.raises(ArgumentTypeError):
            warpconv.gaussian_filter(x, 1, order=wrong, device="cpu")
    ones = warpconv.correlate(x, np.ones((1, 3)), device="cpu")
    assert not np.array_equal(warpconv.correlate(x, np.ones((3, 1)), device="cpu"), ones)
    taps = np.ones((1, 3))
    warpconv.correlate(x, taps, device="cpu")
    taps[0, 0] = 5
    assert not np.array_equal(warpconv.correlate(x, taps, device="cpu"), ones)


@needs_cpu
def test_repeated_calls_write_where_the_first_did():
    rng = settings.generator(35)
    for call in (lambda x, **more: warpconv.gaussian_filter(x, 0.8, device="cpu", **more),
                 lambda x, **more: warpconv.laplace(x, mode=("wrap", "mirror"), device="cpu", **more)):
        first, second = (drawn_image(rng, (6, 7), "float32") for _ in range(2))
        wanted = [call(first), call(second)]
        outs = [np.zeros((6, 7), np.float32), np.zeros((6, 14), np.float32)[:, ::2]]
        for out in outs:
            for x, result in zip((first, second), wanted):
                assert call(x, output=out) is out and np.array_equal(out, result)
        for x, result in ((first.copy(), wanted[0]), (second.copy(), wanted[1])):
            assert call(x, output=x) is x and np.allclose(x, result, atol=1e-6)
        shared = np.zeros((7, 7), np.float32)       # a like call, whose output shares memory with its input
        shared[:6] = first
        assert np.array_equal(call(shared[:6], output=shared[1:]), wanted[0])


@needs_cpu
def test_repeated_calls_are_checked():
    x = drawn_image(settings.generator(36), (6, 7), "float32")
    out = np.zeros_like(x)
    for _ in range(2):
        warpconv.gaussian_filter(x, 0.7, output=out, device="cpu")
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        warpconv.gaussian_filter(x, 0.7, output=out, device="cpu")
    raw = np.zeros(6 * 7 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 7)
    with pytest.raises(ArgumentError, match="aligned"):
        warpconv.gaussian_filter(raw, 0.7, device="cpu")


def test_a_target_knows_its_type():
    image = Image.of(np.zeros((2, 3), np.uint8))
    assert Target.of("int16", image).dtype is DType.INT16 and Target.of(None, image).dtype is DType.UINT8


@pytest.mark.thin(16)
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("name, arguments", [("gaussian_filter", {"sigma": 0.6, "order": (0, 0, 1)}),
                                             ("gaussian_filter", {"sigma": 1, "order": (1, 0, 0)}),
                                             ("sobel", {"axis": 2}), ("sobel", {"axis": 0}), ("prewitt", {"axis": 1})])
@pytest.mark.parametrize("mode", [("constant", "reflect", "reflect"), ("reflect", "constant", "constant"), "constant"])
def test_a_value_outside_is_not_filtered_by_other_axes(name, arguments, mode):
    """What stands outside along one axis is the value itself, whatever a slope along another makes of values."""
    x = settings.generator(5).standard_normal((6, 8, 3)).astype(np.float32)
    theirs = getattr(ndimage, name)(x, mode=mode, cval=2.0, **arguments)
    got = getattr(warpconv, name)(x, mode=mode, cval=2.0, device="cpu", **arguments)
    assert np.abs(got - theirs).max() <= 1e-4
