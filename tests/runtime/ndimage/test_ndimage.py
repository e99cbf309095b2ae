"""correlate, convolve and their 1D forms against a float64 reference and, where it is installed, SciPy itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings as options, strategies as st

import warpconv
from tests import checks, reference, settings
from warpconv.codegen.border import Border
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import ConvShape

try:
    from scipy import ndimage
except ImportError:
    ndimage = None

needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
needs_scipy = pytest.mark.skipif(ndimage is None, reason="scipy is not installed")

DTYPES = ("uint8", "int8", "uint16", "int16", "float32")
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
FILTERS = ((3, 3), (2, 4), (1, 5), (4, 1))
DRAWN = options(max_examples=100 if settings.whole else 10, deadline=None, suppress_health_check=list(HealthCheck))


def drawn_image(rng, shape, dtype):
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def drawn_weights(rng, shape, whole):
    """No symmetry, no zeros; numbers that float32 and float16 have exactly."""
    made = rng.integers(1, 60, shape) * rng.choice([-1, 1], shape)
    return made if whole else made / 64


def poisoned(shape, dtype):
    element = np.dtype(dtype)
    return np.full(shape, np.nan, dtype) if element.kind == "f" else \
        (np.arange(np.prod(shape)) * 0x9E3779B1 >> 7).astype(dtype).reshape(shape)


def check(got, x, taps, origins, mode, cval, exact, theirs=None):
    """``got`` and SciPy's result, both against the reference of the layer that the call means."""
    planes = np.ascontiguousarray(x).reshape(-1, 1, *x.shape[-2:])
    sides = [(n // 2 + o, n - n // 2 - 1 - o) for n, o in zip(taps.shape, origins)]
    border = Border.named(mode, "scipy")
    weights = taps.astype(np.int32 if exact else "float32" if x.dtype.kind in "iu" else x.dtype)[None, None]
    shape = ConvShape.of(planes.shape, weights.shape, dtype=x.dtype.name, weight_dtype=weights.dtype.name,
                         padding=tuple(sides), padding_mode=border, out_dtype=got.dtype.name, cast="truncate",
                         padding_value=cval if border is Border.CONSTANT else 0)
    expected = reference.expected(planes, weights, shape)
    if exact and got.dtype.kind in "iu":
        assert not expected.tolerance.any()
    expected.check(got.reshape(planes.shape), "warpconv")
    if theirs is not None:
        expected.check(theirs.reshape(planes.shape), "scipy")


# ---- drawn

@st.composite
def cases(draw):
    dtype = draw(st.sampled_from(DTYPES))
    size = draw(st.sampled_from(FILTERS))
    whole = draw(st.booleans())
    outputs = DTYPES if dtype == "float32" else (*DTYPES, "int32")
    return {"dtype": dtype, "size": size, "whole": whole, "mode": draw(st.sampled_from(MODES)),
            "cval": draw(st.sampled_from((0.0, 3.0, -2.5))),
            "origins": tuple(draw(st.integers(-(n // 2), (n - 1) // 2)) for n in size),
            "shape": draw(st.sampled_from(((1, 1), (2, 3), (3, 1), (7, 40), (2, 5, 6), (2, 1, 9, 33)))),
            "form": draw(st.sampled_from(("none", "dtype", "array", "gaps", "same"))),
            "output": draw(st.sampled_from(outputs)), "strides": draw(st.sampled_from(("plain", "steps", "turned"))),
            "seed": draw(st.integers(0, 2**20))}


def strided(x, how):
    """The same values in memory with gaps, or in another order."""
    if how == "steps":
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    return np.ascontiguousarray(x.T).T if how == "turned" else x


def output_of(case, x):
    form, dtype = case["form"], case["output"]
    if form == "dtype":
        return [dtype, np.dtype(dtype), np.dtype(dtype).type][case["seed"] % 3]
    if form == "array":
        return poisoned(x.shape, dtype)
    if form == "gaps":
        return strided(poisoned(x.shape, dtype), "turned" if case["seed"] % 2 else "steps")
    return x if form == "same" else None


@needs_cpu
@pytest.mark.long
@pytest.mark.parametrize("name", ["correlate", "convolve"])
@DRAWN
@given(case=cases())
def test_drawn_filters(name, case):
    rng = settings.generator(case["seed"])
    x = drawn_image(rng, case["shape"], case["dtype"])
    taps = drawn_weights(rng, case["size"], case["whole"])
    given_x = strided(x.copy(), case["strides"])
    output = output_of(case, given_x)
    got = getattr(warpconv, name)(given_x, taps, output, case["mode"], case["cval"], case["origins"], device="cpu",
                                  **({"axes": (-2, -1)} if case["seed"] % 3 else {"layout": "NCHW"}))
    assert got is output if isinstance(output, np.ndarray) else got.dtype == (output or x.dtype)
    assert case["form"] == "same" or np.array_equal(given_x, x)
    origins, theirs = case["origins"], None
    if ndimage is not None:
        front = (1,) * (x.ndim - 2)
        theirs = getattr(ndimage, name)(x, taps.reshape(front + taps.shape), got.dtype, case["mode"], case["cval"],
                                        (0,) * len(front) + origins)
    if name == "convolve":
        taps, origins = taps[::-1, ::-1], [-o - (n % 2 == 0) for o, n in zip(origins, taps.shape)]
    fractional = case["mode"] == "constant" and case["cval"] % 1
    exact = x.dtype.kind in "iu" and case["whole"] and not fractional
    check(got, x, taps, origins, case["mode"], case["cval"], exact, theirs)


@needs_cpu
@pytest.mark.long
@pytest.mark.parametrize("name", ["convolve1d", "correlate1d"])
@DRAWN
@given(case=cases(), axis=st.integers(-3, 2), taps=st.sampled_from((1, 2, 5, 129)))
def test_drawn_lines(name, case, axis, taps):
    rng = settings.generator(case["seed"], 1)
    x = drawn_image(rng, (3, 4, 11), case["dtype"])
    weights = drawn_weights(rng, taps, case["whole"])
    origin = int(rng.integers(-(taps // 2), (taps - 1) // 2 + 1))
    output = output_of(case, strided(x.copy(), case["strides"]))
    source = output if case["form"] == "same" else strided(x, case["strides"])
    got = getattr(warpconv, name)(source, weights, axis, output, case["mode"], case["cval"], origin, device="cpu")
    theirs = None
    if ndimage is not None:     # its correlate of n axes reads past the image where a filter is 8 times as long
        theirs = getattr(ndimage, name)(x, weights, axis, got.dtype, case["mode"], case["cval"], origin)
        theirs = np.moveaxis(theirs, axis, -1)
    if name == "convolve1d":
        weights, origin = weights[::-1], -origin - (taps % 2 == 0)
    fractional = case["mode"] == "constant" and case["cval"] % 1
    exact = x.dtype.kind in "iu" and case["whole"] and not fractional
    check(np.moveaxis(got, axis, -1), np.moveaxis(x, axis, -1), weights[None], (0, origin), case["mode"],
          case["cval"], exact, theirs)


# ---- forms

@needs_cpu
def test_a_row_has_one_axis():
    row, expected = np.arange(7, dtype=np.float32), [4, 10, 17, 24, 31, 38, 41]
    assert warpconv.correlate1d(row, [1, 2, 4], mode="nearest", device="cpu").tolist() == expected
    assert warpconv.correlate(row, [1, 2, 4], mode="nearest", device="cpu").tolist() == expected
    with pytest.raises(ShapeError, match="weights do not fit"):
        warpconv.correlate(row, [[1, 2]])


@needs_cpu
def test_weights_of_the_inputs_rank_are_those_of_its_planes():
    x = drawn_image(settings.generator(4), (2, 5, 9), "uint8")
    taps = np.array([[1, -2, 3], [4, 5, -6]])
    two = warpconv.correlate(x, taps, origin=(0, 1), axes=(1, 2), device="cpu")
    assert np.array_equal(two, warpconv.correlate(x, taps[None], origin=(0, 0, 1), device="cpu"))
    assert np.array_equal(two, warpconv.correlate(x, taps.tolist(), origin=[0, 1], axes=(-2, -1), device="cpu"))
    assert np.array_equal(two, warpconv.correlate(x, taps, origin=(0, 0, 1), layout="NCHW", device="cpu"))


@pytest.mark.thin(2)
@needs_cpu
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_channels_may_come_last(dtype):
    x = drawn_image(settings.generator(5), (2, 6, 9, 3), dtype)
    taps = [[1, -2, 3], [0.5, 5, -6]]
    planes = np.moveaxis(x, -1, 1)
    expected = warpconv.correlate(np.ascontiguousarray(planes), taps, mode="mirror", axes=(2, 3), device="cpu")
    made = warpconv.correlate(x, taps, mode="mirror", layout="NHWC", device="cpu")
    assert np.allclose(np.moveaxis(made, -1, 1), expected, rtol=1e-6, atol=1e-5)
    for memory, axes in ((planes, (2, 3)), (planes[0], (1, 2))):        # the same memory, seen in the other order
        seen = warpconv.correlate(memory, taps, mode="mirror", axes=axes, device="cpu")
        assert np.moveaxis(seen, -3, -1).flags.c_contiguous
        assert np.allclose(seen, expected[:len(seen)] if seen.ndim == 4 else expected[0], rtol=1e-6, atol=1e-5)
    with pytest.raises(ShapeError, match="height, width, channels"):
        warpconv.correlate(x[0, 0], taps, layout="NHWC")


@needs_cpu
def test_an_empty_image_gives_an_empty_result():
    empty = np.zeros((3, 0, 5), np.float32)
    made = warpconv.correlate(empty, np.ones((3, 3)), "uint8", axes=(1, 2), device="cpu")
    assert made.shape == empty.shape and made.dtype == np.uint8
    for _ in range(2):
        assert warpconv.laplace(empty, output=empty, device="cpu") is empty
        assert warpconv.sobel(empty, device="cpu").shape == empty.shape


@pytest.mark.thin(2)
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("value", [-300.5, -1.5, -0.5, 255.9, 300, 70000.5, -70000, 1e6])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_the_cast_is_what_scipy_does_here(dtype, value):
    """Beyond the type's range C leaves it undefined; x86 builds of SciPy wrap, as documented for ours."""
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(warpconv.correlate(x, [[value]], dtype, device="cpu"), ndimage.correlate(x, [[value]], dtype))
    assert np.array_equal(warpconv.correlate1d(x, [value], output=dtype, device="cpu"),
                          ndimage.correlate1d(x, [value], output=dtype))


@needs_cpu
def test_sums_that_could_overflow_are_of_floats():
    x = np.full((3, 3), 65535, np.uint16)
    made = warpconv.correlate(x, np.full((3, 3), 40000.0), "float32", device="cpu")
    assert np.allclose(made, 9 * 65535.0 * 40000, rtol=1e-6)
    assert warpconv.correlate(x, np.full((3, 3), 3), "int32", device="cpu")[1, 1] == 27 * 65535


@needs_cpu
def test_half_precision_is_served_though_scipy_has_none():
    x = drawn_image(settings.generator(6), (9, 12), "float32").astype(np.float16)
    taps = drawn_weights(settings.generator(7), (3, 2), False)
    check(warpconv.correlate(x, taps, mode="wrap", device="cpu"), x, taps, (0, 0), "wrap", 0, False)


@pytest.mark.long
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape, size", [((5, 8, 9), (3, 3, 2)), ((4, 5, 6, 3), (3, 2, 3, 2)), ((2, 3, 2), (5, 3, 3))])
def test_filters_of_more_than_two_axes(shape, size, mode):
    """Plane by plane, rounded once: equal for whole numbers."""
    for dtype, whole, name in (("uint8", True, "correlate"), ("int16", True, "convolve"),
                               ("float32", False, "convolve")):
        x = drawn_image(settings.generator(8), shape, dtype)
        weights = drawn_weights(settings.generator(9), size, whole)
        if dtype == "int16":
            weights //= 15      # sums of any int16 below 2^24
        for output, cval in ((None, 3.0), ("float32", -2.5)):
            arguments = {"mode": mode, "cval": cval, "origin": (0, -1, 0, 0)[:x.ndim], "output": output}
            for _ in range(2):
                got = getattr(warpconv, name)(x, weights, device="cpu", **arguments)
            theirs = getattr(ndimage, name)(x, weights, **arguments)
            assert got.dtype == theirs.dtype
            if got.dtype.kind == "f":
                size_of_sums = np.abs(weights).sum() * (np.abs(x.astype(np.float64)).max() + 3)
                assert np.abs(got - theirs).max() <= 1e-6 * size_of_sums
            else:
                assert np.array_equal(got, theirs)


# ---- what is refused

X, W = np.zeros((4, 5), np.float32), np.ones((3, 3))


@pytest.mark.parametrize("call, error, argument", [
    (lambda: warpconv.correlate(X.astype("float64"), W), ArgumentTypeError, "input"),
    (lambda: warpconv.correlate(X.astype("int32"), W), ArgumentTypeError, "input"),
    (lambda: warpconv.correlate(X > 0, W), ArgumentTypeError, "input"),
    (lambda: warpconv.correlate(X.astype("complex64"), W), ArgumentTypeError, "input"),
    (lambda: warpconv.correlate([[1.0]], W), ArgumentTypeError, "input"),
    (lambda: warpconv.correlate(X, W * 1j), ArgumentTypeError, "weights"),
    (lambda: warpconv.correlate(X, [["a"]]), ArgumentTypeError, "weights"),
    (lambda: warpconv.correlate(X, np.ones((0, 3))), ShapeError, "weights"),
    (lambda: warpconv.correlate(X, [1, 2]), ShapeError, "weights"),
    (lambda: warpconv.correlate(np.zeros((2, 3, 4, 5), "uint16"), np.full((2, 2, 3, 3), 99)), ArgumentError, "weights"),
    (lambda: warpconv.correlate(np.zeros((3, 2, 4, 2, 5), "float32"), np.ones((2, 1, 3, 1, 3))), ShapeError,
     "weights"),
    (lambda: warpconv.correlate(X[None], W), ShapeError, "weights"),
    (lambda: warpconv.correlate(X[None], W, axes=1), ShapeError, "weights"),
    (lambda: warpconv.correlate(np.zeros((2, 3, 4, 5, 6), "float32"), W, axes=(1, 3)), ShapeError, "axes"),
    (lambda: warpconv.correlate(np.float32(3), 1), ShapeError, "weights"),
    (lambda: warpconv.correlate(np.zeros((), "float32"), [1]), ShapeError, "input"),
    (lambda: warpconv.correlate(X, W * 1e300), ArgumentError, "weights"),
    (lambda: warpconv.correlate1d(X, W), ShapeError, "weights"),
    (lambda: warpconv.correlate(X, W, "float64"), ArgumentTypeError, "output"),
    (lambda: warpconv.correlate(X, W, complex), ArgumentTypeError, "output"),
    (lambda: warpconv.correlate(X, W, "nothing"), ArgumentTypeError, "output"),
    (lambda: warpconv.correlate(X, W, np.zeros((5, 4), "float32")), ShapeError, "output"),
    (lambda: warpconv.correlate(X, W, np.zeros((4, 5))), ArgumentTypeError, "output"),
    (lambda: warpconv.correlate(X, W, np.broadcast_to(np.float32(0), (4, 5))), ArgumentError, "output"),
    (lambda: warpconv.correlate(X, W, mode="edge"), ArgumentError, "mode"),
    (lambda: warpconv.correlate(X, W, mode=("wrap", "wrap")), ArgumentError, "mode"),
    (lambda: warpconv.correlate(X, W, mode="constant", cval=np.nan), ArgumentError, "cval"),
    (lambda: warpconv.correlate(X, W, mode="constant", cval="1"), ArgumentTypeError, "cval"),
    (lambda: warpconv.correlate(X, W, origin=2), ArgumentError, "origin"),
    (lambda: warpconv.correlate(X, W, origin=(0, -2)), ArgumentError, "origin"),
    (lambda: warpconv.correlate(X, W, origin=(0, 0, 0)), ArgumentError, "origin"),
    (lambda: warpconv.correlate(X, W, origin=0.5), ArgumentTypeError, "origin"),
    (lambda: warpconv.convolve(X, np.ones((2, 2)), origin=1), ArgumentError, "origin"),
    (lambda: warpconv.correlate(X, W, axes=(0,)), ShapeError, "weights"),
    (lambda: warpconv.correlate(X, W, axes=(0, 0)), ArgumentError, "axes"),
    (lambda: warpconv.correlate(X, W, axes=(0, 2)), ArgumentError, "axes"),
    (lambda: warpconv.correlate(X, W, axes=0.5), ArgumentTypeError, "axes"),
    (lambda: warpconv.correlate1d(X, [1], axis=2), ArgumentError, "axis"),
    (lambda: warpconv.correlate1d(X, [1], axis=0.5), ArgumentTypeError, "axis"),
    (lambda: warpconv.correlate(X, W, layout="HWC"), ArgumentError, "layout"),
    (lambda: warpconv.correlate(X, W, device="tpu"), ArgumentError, "device"),
    (lambda: warpconv.correlate(X, W, algorithm="fft", device="cpu"), ArgumentError, "algorithm"),
    (lambda: warpconv.correlate(X, W, stream=7, device="cpu"), ArgumentError, "stream"),
], ids=lambda value: getattr(value, "__name__", value))
def test_what_cannot_be_filtered(call, error, argument):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.argument == argument and caught.value.hint


@pytest.mark.parametrize("size", [2, 3, 5])
@needs_scipy
def test_origins_have_scipys_range(size):
    for origin in range(-4, 5):
        for name in ("correlate1d", "convolve1d"):
            try:
                getattr(ndimage, name)(np.zeros(9, np.float32), np.ones(size), origin=origin)
            except ValueError:
                with pytest.raises(ArgumentError, match="off its centre"):
                    getattr(warpconv, name)(np.zeros(9, np.float32), np.ones(size), origin=origin, device="cpu")
            else:
                from warpconv.runtime.ndimage.correlate import _turned
                from warpconv.runtime.ndimage.lines import check_origin
                check_origin(_turned(origin, size) if name == "convolve1d" else origin, size)


# ---- arrays of other libraries

class DlpackOnly:
    """A producer in host memory that offers nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    """GPU memory by the CUDA array interface alone; nobody reads it here."""

    def __init__(self, **entries):
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
                                         **entries}


@needs_cpu
def test_host_memory_by_dlpack_gives_numpy_arrays():
    x, out = drawn_image(settings.generator(8), (2, 5, 7), "uint8"), np.zeros((2, 5, 7), np.uint8)
    expected = warpconv.correlate(x, [[1, 2, -3]], axes=(1, 2), device="cpu")
    made = warpconv.correlate(DlpackOnly(x), [[1, 2, -3]], axes=(1, 2), device="cpu")
    assert isinstance(made, np.ndarray) and np.array_equal(made, expected)
    target = DlpackOnly(out)
    assert warpconv.correlate(DlpackOnly(x), [[1, 2, -3]], target, axes=(1, 2), device="cpu") is target
    assert np.array_equal(out, expected)


def test_where_weights_are_is_known_without_reading_them():
    from warpconv.runtime.ndimage.planes import on_gpu
    assert not any(map(on_gpu, ([1, 2], np.ones(3), 3.0, DlpackOnly(np.ones(3)))))
    assert on_gpu(Interface())


def test_gpu_memory_without_a_library_is_seen_in_another_shape(monkeypatch):
    from warpconv.runtime import arrays
    from warpconv.runtime.arrays import readers as array_readers
    from warpconv.runtime.ndimage import planes
    monkeypatch.setattr(array_readers, "_pointer_device", lambda pointer: 1)
    for stream, told in ((None, None), (1, 1), (2, 2)):
        value = Interface(**({} if stream is None else {"stream": stream}))
        shown = planes.shown(value, arrays.view(value, "input"), planes.seen((2, 3), (0, 1)))
        view = arrays.view(shown, "input")
        assert view.shape == (1, 1, 2, 3) and view.pointer == 4096 and view.device == 1 and view.owner is shown
        assert shown.__cuda_array_interface__["stream"] == told
    with pytest.raises(ArgumentTypeError, match="not in one place"):
        warpconv.correlate(X, Interface())
