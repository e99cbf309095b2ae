"""Lists of images of differing sizes: every filter, border and type as SciPy has it, each image by itself."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.reference import ELEMENTS
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError, ShapeError, UnsupportedSpec
from warpconv.runtime.call import ragged
from warpconv.runtime.ndimage import batches

ndimage = pytest.importorskip("scipy.ndimage")
pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
SIZES = ((1, 1), (1, 9), (7, 1), (3, 2), (33, 65), (64, 64), (200, 300), (31, 129))
TAPS = np.array([[1.0, -2.0, 3.0, 0.5], [4.0, 5.0, -6.0, 2.0], [-1.0, 7.0, 2.5, -3.0]]) / 8
CALLS = (("correlate", (TAPS,), {"cval": 2.0, "origin": (1, -2)}), ("convolve", (TAPS * 8,), {"output": "float32"}),
         ("correlate", (np.array([[1, 2, -3], [-4, 5, 6]]),), {"cval": 3.0}),
         ("gaussian_filter", (1.7,), {"output": "float32"}), ("gaussian_filter", (1.1, (0, 1)), {"output": "float32"}),
         ("sobel", (0,), {}), ("laplace", (), {}), ("uniform_filter", (4,), {}), ("uniform_filter1d", (3, 0), {}),
         ("gaussian_gradient_magnitude", (1.3,), {"output": "float32"}), ("correlate1d", (np.arange(1, 8), 0), {}),
         ("gaussian_laplace", (1.2,), {"output": "float32"}))


def drawn(dtype, sizes=SIZES, seed=41):
    rng = settings.generator(seed)
    if dtype.startswith(("float", "bfloat")):
        return [rng.standard_normal(size).astype(ELEMENTS[DType(dtype)]) for size in sizes]
    return [rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, size, dtype, endpoint=True) for size in sizes]


def same(found, expected, dtype):
    """Integers exactly but for one where a fraction is truncated (docs/ndimage.md); floats within their rounding."""
    assert len(found) == len(expected)
    for each, other in zip(found, expected):
        assert each.shape == other.shape and each.dtype == other.dtype
        a, b = each.astype(np.float64), other.astype(np.float64)
        assert np.isfinite(a).all()
        if each.dtype.kind in "iu":
            apart = np.abs(a - b)
            assert np.minimum(apart, 2.0 ** (8 * each.itemsize) - apart).max(initial=0) <= 1
        else:
            unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(each.dtype.name, 2.0**-20)
            scale = max(np.abs(b).max(initial=0), 1e4 * (dtype in ("uint16", "int16")), 1.0)
            assert np.abs(a - b).max(initial=0) <= 4 * unit * scale


def scipy(name, images, positional=(), options=()):
    """SciPy's results in float64, of the type that the call stores; integers as SciPy stores them."""
    made = []
    for image in images:
        options = dict(options)
        kind = image.dtype if image.dtype.kind in "iu" and "output" not in options else np.float64
        stored = image.dtype if "output" not in options else np.dtype(options["output"])
        source = image if kind == image.dtype else image.astype(np.float64)
        made.append(getattr(ndimage, name)(source, *positional, **{**options, "output": kind}).astype(stored))
    return made


def thirds():
    """Every mode with floats, and integers with some, each with a third of the calls, of which every one occurs; with
    the other modes and thirds in the long run."""
    pairs = [*(("float32", mode) for mode in MODES), ("uint8", "reflect"), ("uint8", "constant"), ("int16", "wrap")]
    quick = [(*pair, i % 3) for i, pair in enumerate(pairs)]
    return [pytest.param(*case, marks=() if case in quick else pytest.mark.long)
            for case in itertools.product(("float32", "uint8", "int16"), MODES, range(3))]


@pytest.mark.thin(12)
@pytest.mark.parametrize("dtype, mode, third", thirds())
def test_calls_are_scipys(dtype, mode, third):
    images = drawn(dtype)
    for name, positional, options in CALLS[third::3]:
        options = {"mode": mode, **options}
        found = getattr(warpconv, name)(images, *positional, device="cpu", **options)
        assert type(found) is list
        same(found, scipy(name, images, positional, options), dtype)


@pytest.mark.thin(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint16"])
def test_other_types(dtype):
    images = drawn(dtype, SIZES[:5])
    whole = np.array([[1.0, -2.0, 3.0], [0.5, 1.0, -1.0]])      # which every type has
    options = {} if "float" in dtype else {"output": "float32"}
    same(warpconv.correlate(images, whole, mode="mirror", device="cpu", **options),
         scipy("correlate", images, (whole,), {"mode": "mirror", **options}), dtype)


def test_each_pass_is_one_launch(monkeypatch):
    launches, real = [], ragged.run
    monkeypatch.setattr(batches.ragged, "run", lambda *arguments: launches.append(1) or real(*arguments))
    images = drawn("float32")
    for name, positional, passes in (("gaussian_filter", (2,), 1), ("sobel", (), 1), ("laplace", (), 1),
                                     ("gaussian_gradient_magnitude", (2,), 2), ("correlate", (np.ones((5, 5)),), 1)):
        del launches[:]
        getattr(warpconv, name)(images, *positional, device="cpu")
        assert len(launches) == passes, name


def test_images_of_more_axes_and_of_one():
    for sizes, options in ((((5, 7, 3), (40, 33, 3), (1, 2, 3)), {"axes": (0, 1)}),
                           (((2, 9, 30), (3, 64, 65), (1, 1, 1)), {"axes": (1, 2)}),
                           (((2, 9, 30), (3, 40, 5), (1, 1, 1)), {"axes": (0, 2)}),
                           (((2, 9, 30), (3, 40, 5)), {}), (((1,), (70,), (300,)), {})):
        images = drawn("float32", sizes)
        same(warpconv.gaussian_filter(images, 1.5, device="cpu", **options),
             scipy("gaussian_filter", images, (1.5,), options), "float32")


@pytest.mark.thin(2)
@pytest.mark.parametrize("name, positional, options", CALLS, ids=[call[0] for call in CALLS])
def test_results_are_never_what_is_lent_on_the_way(monkeypatch, name, positional, options):
    """As on a GPU, where results on their way lie in memory of the pool and are no arrays."""
    monkeypatch.setattr(batches.Host, "room",
                        lambda place, like, dtype: replace(batches.Host.made(place, like, dtype), whole=None))
    images = drawn("float32")
    made = getattr(warpconv, name)(images, *positional, device="cpu", **options)
    monkeypatch.undo()
    same(made, getattr(warpconv, name)(images, *positional, device="cpu", **options), "float32")


def test_images_with_gaps_turned_and_empty():
    whole = settings.generator(4).standard_normal((90, 80)).astype(np.float32)
    images = [whole[3:40, ::2], whole.T, whole[::-1, 5:6], whole[:0], whole[7:8]]
    found = warpconv.correlate(images, TAPS, device="cpu")
    same(found, [ndimage.correlate(each, TAPS) if each.size else each for each in images], "float32")
    assert [each.shape for each in warpconv.sobel([whole[:0], whole[:, :0]], device="cpu")] == [(0, 80), (90, 0)]


# ---- a filter for each image

def own_filters(images, sizes, whole=False):
    rng = settings.generator(6)
    made = [rng.integers(-9, 10, sizes[i % len(sizes)]) for i in range(len(images))]
    return made if whole else [each / 16 for each in made]


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_each_image_has_its_filter(name):
    for dtype, sizes, whole in (("float32", [(3, 4)], False), ("float32", [(3, 4), (1, 1), (5, 2)], False),
                                ("uint8", [(3, 3)], True), ("uint8", [(2, 3), (3, 3)], False)):
        images = drawn(dtype)
        filters = own_filters(images, sizes, whole)
        found = getattr(warpconv, name)(images, filters, mode="mirror", device="cpu")
        expected = [scipy(name, [image], (taps,), {"mode": "mirror"})[0] for image, taps in zip(images, filters)]
        same(found, expected, dtype)
        if whole:
            assert all(np.array_equal(a, b) for a, b in zip(found, expected))


def test_outputs_beside_filters_of_several_sizes():
    images = drawn("float32", ((9, 8), (30, 40), (5, 70)))
    filters = own_filters(images, [(3, 4), (1, 1), (5, 2)])
    outputs = [np.full(image.shape, np.nan, np.float32) for image in images]
    made = warpconv.correlate(images, filters, outputs, device="cpu")
    assert all(each is output for each, output in zip(made, outputs))
    same(outputs, warpconv.correlate(images, filters, device="cpu"), "float32")
    before = [image.copy() for image in images]
    with pytest.raises(ArgumentError, match="share memory with the images"):
        warpconv.correlate(images, filters, images, device="cpu")
    with pytest.raises(ShapeError, match="output 2 has another shape"):
        warpconv.correlate(images, filters, [*images[:2], np.empty((5, 71), np.float32)], device="cpu")
    assert all(np.array_equal(image, kept) for image, kept in zip(images, before))


def test_filters_of_each_image_over_named_axes():
    images = drawn("float32", ((9, 8, 3), (30, 40, 3), (5, 70, 3)))
    filters = own_filters(images, [(3, 2)])
    found = warpconv.convolve(images, filters, axes=(0, 1), origin=(1, 0), device="cpu")
    same(found, [ndimage.convolve(image, taps[:, :, None], origin=(1, 0, 0)) for image, taps in zip(images, filters)],
         "float32")


def test_lists_of_numbers_are_one_filter_for_all():
    images = drawn("float32", ((9, 8), (30, 40), (5, 70)))
    for taps in ([[0, 1, 0], [1, -4, 1], [0, 1, 0]], [np.array([1, 2, 1])] * 3):
        same(warpconv.correlate(images, taps, device="cpu"), scipy("correlate", images, (taps,)), "float32")


# ---- outputs

def test_outputs_of_the_callers():
    images = drawn("uint8")
    for dtype in ("uint8", "float32"):
        outputs = [np.full(image.shape, 0x5A, dtype) for image in images]
        made = warpconv.correlate(images, TAPS * 8, outputs, device="cpu")
        assert all(each is output for each, output in zip(made, outputs))
        same(outputs, warpconv.correlate(images, TAPS * 8, dtype, device="cpu"), "uint8")
    expected = warpconv.sobel(images, device="cpu")
    warpconv.sobel(images, output=images, device="cpu")
    same(images, expected, "uint8")


@pytest.mark.long
def test_converted_types():
    images = [image.astype(np.float64) for image in drawn("float32", SIZES[:5])]
    same(warpconv.gaussian_filter(images, 1.5, dtype="float32", device="cpu"),
         scipy("gaussian_filter", images, (1.5,)), "float32")
    whole = [np.rint(9 * image).astype(np.int64) for image in images]
    same(warpconv.sobel(whole, dtype="float32", device="cpu"), scipy("sobel", whole), "int16")
    filters = own_filters(images, [(3, 3), (2, 2)])
    same(warpconv.correlate(images, filters, dtype="float32", output="float32", device="cpu"),
         [scipy("correlate", [image], (taps,), {"output": "float32"})[0] for image, taps in zip(images, filters)],
         "float32")


def test_converted_outputs_beside_filters_of_several_sizes():
    images = [image.astype(np.float64) for image in drawn("float32", ((5, 6),) * 3)]
    filters = own_filters(images, [(3, 3), (2, 2), (3, 3)])
    expected = [scipy("correlate", [image], (taps,))[0] for image, taps in zip(images, filters)]
    outputs = images[1:] + images[:1]       # nothing is written before the last image has been read
    found = warpconv.correlate(images, filters, outputs, dtype="float32", device="cpu")
    assert all(each is output for each, output in zip(found, outputs))
    same(found, expected, "float32")
    with pytest.raises(ArgumentTypeError, match="output 1|image 1"):
        warpconv.correlate(images, filters, [outputs[0], outputs[1].astype(np.float32), outputs[2]], dtype="float32",
                           device="cpu")


# ---- what no kernel for a batch serves

@pytest.mark.long
def test_what_is_done_image_by_image(monkeypatch):
    done, real = [], batches.Job.one_by_one
    monkeypatch.setattr(batches.Job, "one_by_one", lambda *arguments: done.append(1) or real(*arguments))
    images = drawn("float32", ((9, 8), (300, 4), (1, 1)))
    for options in ({"algorithm": "direct"}, {}):
        taps = np.linspace(-1, 2, 7 if options else 81)         # too tall for a thread's registers
        same(warpconv.correlate1d(images, taps, 0, device="cpu", **options),
             scipy("correlate1d", images, (taps, 0)), "float32")
    assert len(done) == 2
    volumes = drawn("float32", ((3, 8, 9), (4, 5, 6)))
    filters = [settings.generator(i).standard_normal((2, 3, 3)) for i in range(2)]
    same(warpconv.correlate(volumes, filters, device="cpu"),
         [ndimage.correlate(volume, taps) for volume, taps in zip(volumes, filters)], "float32")
    same(warpconv.convolve(volumes, filters[0], device="cpu"),
         [ndimage.convolve(volume, filters[0]) for volume in volumes], "float32")
    assert len(done) == 4


@pytest.mark.parametrize("dtype, options", [
    ("float32", {"algorithm": "direct"}), ("float64", {"dtype": "float32"}), ("int64", {"dtype": "float32"})])
def test_outputs_where_other_images_lie(dtype, options):
    """Nothing is written before the last image has been read."""
    images = [image.astype(dtype) for image in drawn("float32", ((5, 6),) * 3)]
    expected = warpconv.correlate(images, TAPS, device="cpu", **options)
    outputs = images[1:] + images[:1]
    found = warpconv.correlate(images, TAPS, output=outputs, device="cpu", **options)
    assert all(each is output for each, output in zip(found, outputs))
    assert all(np.allclose(each, other, atol=1e-5) for each, other in zip(outputs, expected))


@pytest.mark.parametrize("dtype, options", [("float32", {}), ("float64", {"dtype": "float32"})])
def test_an_image_that_a_named_kernel_refuses_leaves_the_outputs_as_they_are(dtype, options):
    images = [np.ones((1, 1), dtype), np.ones((33, 2), dtype)]
    outputs = [np.full(image.shape, 7, dtype) for image in images]
    with pytest.raises(UnsupportedSpec):
        warpconv.correlate1d(images, [1.0, 2.0], 0, outputs, algorithm="wide", device="cpu", **options)
    assert all((output == 7).all() for output in outputs)


# ---- refusals

def test_refusals():
    a, b = drawn("float32", ((4, 5), (6, 7)))
    bytes_ = a.astype(np.uint8)
    for images, error, text in (
            ([], ArgumentError, "at least one image"), ([a, bytes_], ArgumentTypeError, "that of image 1 is not"),
            ([a, b[None]], ShapeError, "number of axes"),
            ([a, a.astype(np.float64)], ArgumentTypeError, "element type"),
            ([a, None], ArgumentTypeError, "image 1 of the batch"),
            ([a.astype(complex), a], ArgumentTypeError, "complex128")):
        with pytest.raises(error, match=text):
            warpconv.sobel(images, device="cpu")
    for output, error, text in (
            (a, ShapeError, "a list with an array for each image"), ([a], ShapeError, "list with an array"),
            ([a, b.T], ShapeError, "output 1 has another shape than image 1"),
            ([a, b[0]], ShapeError, "axes"), ([a, b.astype(np.int16)], ArgumentTypeError, "element type"),
            ([np.empty((4, 5), np.int64), b], ArgumentTypeError, "int64 elements"),
            ([np.broadcast_to(a[:1], (4, 5)), b], ArgumentError, "read-only")):
        with pytest.raises(error, match=text):
            warpconv.sobel([a, b], output=output, device="cpu")
    memory = np.zeros(60, np.float32)
    with pytest.raises(ArgumentError, match="outputs 0 and 1 share memory"):
        warpconv.sobel([a, b], output=[memory[:20].reshape(4, 5), memory[15:57].reshape(6, 7)], device="cpu")
    with pytest.raises(ShapeError, match="as many filters as images"):
        warpconv.correlate([a, b], [np.ones((3, 3))] * 3, device="cpu")
    with pytest.raises(ArgumentError, match="no streams"):
        warpconv.sobel([a, b], stream=0, device="cpu")
    with pytest.raises((DeviceError, ArgumentError)):
        warpconv.sobel([a, b], device="gpu")


def test_refusals_of_converted_lists():
    """What no kernel reads or stores is refused as other lists are, before the first result is written."""
    a, b = (image.astype(np.float64) for image in drawn("float32", ((4, 5), (6, 7))))
    memory = np.zeros(60)
    fixed = np.zeros((6, 7))
    fixed.flags.writeable = False
    for images, output, error, text in (
            ([], None, ArgumentError, "at least one image"), ([a, b[None]], None, ShapeError, "number of axes"),
            ([a, b], 3, ShapeError, "a list with an array for each image"), ([a, b], [], ShapeError, "list with"),
            ([a, b], a.copy(), ShapeError, "a list with"), ([a, b], [np.zeros((4, 5)), b.T], ShapeError, "shape"),
            ([a, b], [np.zeros((4, 5)), fixed], ArgumentError, "read-only"),
            ([a, a], [memory[:20].reshape(4, 5), memory[34:14:-1].reshape(4, 5)], ArgumentError,
             "outputs 0 and 1 share memory")):
        with pytest.raises(error, match=text):
            warpconv.sobel(images, output=output, dtype="float32", device="cpu")
        assert not memory.any() and (not isinstance(output, list) or not output or not output[0].any())
    apart = [memory[0:40:2].reshape(4, 5), memory[59:39:-1].reshape(4, 5)]
    warpconv.sobel([a, a], output=apart, dtype="float32", device="cpu")
    same(apart, scipy("sobel", [a, a]), "float32")


def test_a_refused_call_writes_nothing():
    images = drawn("float32", ((4, 5), (6, 7)))
    outputs = [np.full(image.shape, 7, np.float32) for image in images]
    with pytest.raises(ArgumentError):
        warpconv.gaussian_filter(images, 1, output=outputs, mode="nowhere", device="cpu")
    assert all((output == 7).all() for output in outputs)
