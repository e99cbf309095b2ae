"""warpconv.opencv beside OpenCV where it is installed, and beside float64 sums rounded once where not."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import warpconv.opencv as ours
from tests import checks, settings
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
NAMES = ("filter2D", "sepFilter2D", "GaussianBlur", "Sobel", "Scharr", "Laplacian", "boxFilter", "blur",
         "getGaussianKernel", "getDerivKernels")
DEPTHS = {"uint8": (-1, ours.CV_16S, ours.CV_32F, ours.CV_64F), "uint16": (-1, ours.CV_32F, ours.CV_64F),
          "int16": (-1, ours.CV_32F, ours.CV_64F), "float32": (-1,)}
SHAPES = ((37, 41), (20, 23, 3), (20, 23, 4))
PAD = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}


def cv2():
    return pytest.importorskip("cv2", reason="OpenCV is not installed")


def drawn(seed, dtype, shape):
    rng = settings.generator(seed)
    if dtype == "float32":
        return (rng.standard_normal(shape) * 50).astype(dtype)
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def calls(seed):
    kernel = settings.generator(seed, 1).standard_normal((3, 4)).astype(np.float32)
    for border in (0, 1, 2, 4):
        yield "filter2D", (kernel,), {"anchor": (0, 2), "delta": 1.5, "borderType": border}
        yield "Sobel", (1, 1), {"ksize": 5, "scale": 0.25, "delta": 3, "borderType": border}
    yield "filter2D", (np.array([[1.0, -2, 3], [4, 5, -6]]),), {}
    yield "sepFilter2D", (np.array([1, 2, 3.5]), np.array([0.2, 0.3, 0.1, 0.4])), {}
    yield from (("Sobel", (dx, dy), {"ksize": size}) for dx, dy, size in ((1, 0, 3), (0, 1, 1), (2, 0, 5), (0, 1, 7)))
    yield "Scharr", (0, 1), {"scale": 0.5}
    yield from (("Laplacian", (), {"ksize": size, "scale": scale}) for size, scale in (
        (1, 0.5), (3, 0.5), (5, 0.5), (13, 1e-6)))      # whose sums are of 10^9 otherwise, beyond float32's digits
    yield from (("boxFilter", (size,), {"anchor": anchor}) for size, anchor in (
        ((3, 3), (-1, -1)), ((4, 6), (0, 5)), ((5, 1), (1, 0)), ((31, 31), (-1, -1))))
    yield "boxFilter", ((3, 3),), {"normalize": False}


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DEPTHS)
def test_results_are_opencvs(dtype, shape):
    """Integers are equal but where a sum lies on the edge between two; GaussianBlur of bytes to the bit."""
    library = cv2()
    x = drawn(81, dtype, shape)
    for depth in DEPTHS[dtype]:
        for name, arguments, options in calls(81):
            wanted = getattr(library, name)(x, depth, *arguments, **options)
            made = getattr(ours, name)(x, depth, *arguments, **options, device="cpu")
            told = (name, depth, arguments, options)
            assert made.dtype == wanted.dtype and made.shape == wanted.shape, told
            apart = np.abs(made.astype(np.float64) - wanted)
            if made.dtype.kind in "iu":
                assert apart.max() <= (0 if name == "boxFilter" and dtype == "uint8" and depth == -1 else 1), told
                assert (apart > 0).mean() <= 0.05, told
            else:
                assert apart.max() <= 3e-6 * np.abs(wanted.astype(np.float64)).max(), told
    for size, sigma in (((5, 5), 0), ((5, 3), 1.2), ((0, 0), 1.5), ((0, 0), 4.0), ((31, 31), 0)):
        wanted, made = library.GaussianBlur(x, size, sigma), ours.GaussianBlur(x, size, sigma, device="cpu")
        apart = np.abs(made.astype(np.float64) - wanted)
        # of uint16 OpenCV's weights are multiples of 2^-16
        assert made.dtype == wanted.dtype and apart.max() <= {
            "uint8": 0, "int16": 1, "uint16": 4, "float32": 1e-6 * np.abs(x).max()}[dtype], (size, sigma)
    wanted, made = library.blur(x, (4, 4), anchor=(0, 0)), ours.blur(x, (4, 4), anchor=(0, 0), device="cpu")
    assert np.abs(made.astype(np.float64) - wanted).max() <= (1e-4 if dtype == "float32" else 1)


def test_weights_are_opencvs():
    library = cv2()
    for size in (*range(1, 32, 2), 51):
        for sigma in (0, 1.3):
            assert np.abs(ours.getGaussianKernel(size, sigma) - library.getGaussianKernel(size, sigma)).max() < 1e-7
    for size in (1, 3, 5, 7, 31, -1):
        for dx, dy in ((1, 0), (0, 1), (1, 1), (2, 0), (2, 1)):
            if size == -1 and dx + dy != 1:
                continue
            for normalize in (False, True):
                for one, other in zip(ours.getDerivKernels(dx, dy, size, normalize),
                                      library.getDerivKernels(dx, dy, size, normalize=normalize)):
                    assert one.shape == other.shape and np.allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_opencvs_and_ours_behind_them(name):
    line = getattr(cv2(), name).__doc__.splitlines()[0]
    given = re.findall(r"\w+", line[line.index("(") + 1:line.index(")")])
    mine = list(inspect.signature(getattr(ours, name)).parameters)
    own = [] if name.startswith("get") else ["device", "stream", "algorithm", "dtype"]
    given = [n for n in given if n not in ("kx", "ky", "ktype")] if name.startswith("get") else given
    assert mine == [*given, *own]


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_takes(name):
    text = inspect.getdoc(getattr(ours, name))
    assert all(word in text for word in inspect.signature(getattr(ours, name)).parameters)
    assert "Returns" in text and "Raises" in text


def test_numbers_are_opencvs():
    library = cv2()
    for name, value in vars(ours).items():
        if name.startswith(("BORDER_", "CV_", "FILTER_")):
            assert getattr(library, name) == value, name


# ---- without OpenCV

def correlated(border):
    x, kernel = drawn(82, "uint8", (9, 12, 3)), np.array([[0.25, -1, 2, 0.5], [1, 0.75, -0.5, 3]])
    padded = np.pad(x.astype(np.float64), ((1, 0), (3, 0), (0, 0)), PAD[border])
    return x, kernel, sum(kernel[i, j] * padded[i:i + 9, j:j + 12] for i in range(2) for j in range(4)) + 10


@pytest.mark.thin(12)     # of 20, with every border and every depth
@needs_cpu
@pytest.mark.parametrize("depth, dtype", [(-1, np.uint8), ("int16", np.int16), ("CV_32F", np.float32),
                                          (ours.CV_64F, np.float64)])
@pytest.mark.parametrize("border", PAD)
def test_correlations_are_rounded_once(border, depth, dtype):
    x, kernel, exact = correlated(border)
    made = ours.filter2D(x, depth, kernel, anchor=(3, 1), delta=10, borderType=border, device="cpu")
    ends = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    wanted = exact if ends is None else np.rint(exact).clip(ends.min, ends.max)
    assert made.dtype == dtype and np.array_equal(made, wanted)     # quarters: float32 has each sum exactly


@pytest.mark.thin(3)
@needs_cpu
@pytest.mark.parametrize("border", PAD)
def test_borders_have_names(border):
    x, kernel, exact = correlated(border)
    again = np.zeros((9, 12, 3), np.int16)
    names = ("BORDER_CONSTANT", "replicate", "REFLECT", "BORDER_WRAP", "reflect")
    assert ours.filter2D(x, -1 if border else "int16", kernel, again, (3, 1), 10, names[border], device="cpu") is again
    assert np.array_equal(again, np.rint(exact))


@pytest.mark.long
@needs_cpu
def test_bytes_are_blurred_by_whole_weights():
    x = drawn(83, "uint8", (9, 12))
    padded = np.pad(x.astype(np.int64), 1, "reflect")
    rows = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    sums = rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]
    for _ in range(2):
        assert np.array_equal(ours.GaussianBlur(x, (3, 3), 0, device="cpu"), (sums + 8) // 16)
    wide = ours.GaussianBlur(x, (0, 0), 5.0, device="cpu")     # 31 taps: two kernels, nothing rounded between them
    fine = ours.GaussianBlur(x.astype(np.float32), (31, 31), 5.0, device="cpu")
    assert wide.dtype == np.uint8 and np.abs(wide - fine).max() < 2
    assert np.array_equal(ours.blur(x, (3, 3), device="cpu"),
                          np.floor(sum(padded[i:i + 9, j:j + 12] for i in range(3) for j in range(3)) / 9 + 0.5))


@needs_cpu
def test_a_depth_is_a_number_a_name_or_a_type():
    """However the type is said, it is the same call: dst may have it, and bytes' means round .5 up."""
    x = drawn(84, "uint8", (9, 12))
    for depth, dtype in ((ours.CV_16S, np.int16), ("CV_16S", np.int16), (np.int16, np.int16),
                         (np.dtype("int16"), np.int16), (ours.CV_64F, np.float64), (np.float64, np.float64)):
        dst = np.zeros(x.shape, dtype)
        assert ours.filter2D(x, depth, np.eye(2), dst, device="cpu") is dst
        assert np.array_equal(dst, ours.filter2D(x, "int16", np.eye(2), device="cpu"))
        assert ours.filter2D(x, depth, np.eye(2), device="cpu").dtype == dtype
    padded = np.pad(x.astype(np.int64), ((1, 0), (1, 0)), "reflect")
    sums = padded[1:, 1:] + padded[:-1, 1:] + padded[1:, :-1] + padded[:-1, :-1]
    for depth in (-1, 0, "uint8", np.uint8):
        assert np.array_equal(ours.boxFilter(x, depth, (2, 2), device="cpu"), (sums + 2) // 4)


X = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize("call, error, argument", [
    (lambda: ours.blur(X[None, None], (3, 3), device="cpu"), ShapeError, "src"),
    (lambda: ours.blur(X, 3), ArgumentTypeError, "ksize"),
    (lambda: ours.blur(X, (0, 3)), ArgumentError, "ksize"),
    (lambda: ours.blur(X, (3, 3), anchor=(3, 0)), ArgumentError, "anchor"),
    (lambda: ours.blur(X, (3, 3), borderType=5), ArgumentError, "borderType"),
    (lambda: ours.blur(X, (3, 3), borderType="BORDER_MIRROR"), ArgumentError, "borderType"),
    (lambda: ours.GaussianBlur(X, (4, 4), 1), ArgumentError, "ksize"),
    (lambda: ours.GaussianBlur(X, (0, 0), 0), ArgumentError, "ksize"),
    (lambda: ours.Sobel(X, 9, 1, 0), ArgumentError, "ddepth"),
    (lambda: ours.Sobel(X, "odd", 1, 0), ArgumentTypeError, "ddepth"),
    (lambda: ours.Sobel(X, True, 1, 0), ArgumentTypeError, "ddepth"),
    (lambda: ours.Sobel(X, -1, 0, 0), ArgumentError, "dx"),
    (lambda: ours.Sobel(X, -1, 3, 0), ArgumentError, "ksize"),
    (lambda: ours.Sobel(X, -1, 1, 0, ksize=4), ArgumentError, "ksize"),
    (lambda: ours.Scharr(X, -1, 1, 1), ArgumentError, "dx"),
    (lambda: ours.Sobel(X, "uint8", 1, 0, dst=X), ArgumentTypeError, "dst"),
    (lambda: ours.sepFilter2D(X, -1, np.ones((2, 2)), [1]), ShapeError, "kernelX"),
    (lambda: ours.sepFilter2D(X, -1, [1], "a"), ArgumentTypeError, "kernelY"),
    (lambda: ours.filter2D(X, -1, [1, 2]), ShapeError, "kernel"),
    (lambda: ours.blur(X.astype("float64"), (3, 3)), ArgumentTypeError, "src"),
    (lambda: ours.GaussianBlur(X.astype("float64"), (3, 3), 1), ArgumentTypeError, "src"),
    (lambda: ours.boxFilter(X.astype("uint16"), ours.CV_32S, (16, 16), normalize=False, device="cpu"), ArgumentError,
     "ddepth"),
    (lambda: ours.filter2D(X, -1, np.ma.masked_array(np.ones((3, 3)))), ArgumentTypeError, "kernel"),
], ids=lambda value: getattr(value, "__name__", value))
def test_what_is_refused(call, error, argument):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.argument == argument and caught.value.hint


@pytest.mark.parametrize("call", [lambda x: ours.blur(x, (3, 3)), lambda x: ours.GaussianBlur(x, (3, 3), 1)])
def test_what_a_call_has_not_is_not_recommended(call):
    with pytest.raises(ArgumentTypeError, match="dtype='float32'") as caught:
        call(X.astype("float64"))
    assert not re.search("ddepth=|output=", str(caught.value))
