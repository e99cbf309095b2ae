"""Filters of more rows than kernels for pixels have registers for: the image as float32 first, and the same results."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
import warpconv.opencv as opencv
from tests import checks, settings
from warpconv.codegen.algorithms.pixels.plan import supports
from warpconv.codegen.hardware import Arch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.ndimage import recipes
from warpconv.runtime.ndimage.work import MOST_ROWS, Step, Work

ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed (it is in the test extra)")
pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
BYTES = ("uint8", "int8", "uint16", "int16")


def drawn(dtype, *shape):
    ends = np.iinfo(dtype)
    return settings.generator(87).integers(ends.min, ends.max, shape, dtype, endpoint=True)


@pytest.fixture
def steps(monkeypatch):
    """The types that each step reads, in calls that are made as the first of their like."""
    seen = []
    real = Work._taken

    def taken(work, step, made):
        assert isinstance(step, Step)
        seen.append((step.kernel.spec.dtype.value, (step.kernel.spec.r, step.kernel.spec.s)))
        return real(work, step, made)

    recipes._recipes.clear()
    monkeypatch.setattr(Work, "_taken", taken)
    return seen


def test_the_rows_are_those_that_pixels_declines():
    for channels, most in MOST_ROWS.items():
        for rows, served in ((most, True), (most + 1, False)):
            layer = ConvShape(c=channels, h=99, w=99, k=channels, r=rows, s=1, padding=(rows // 2, 0), groups=channels,
                              dtype="uint8", layout="NCHW" if channels == 1 else "NHWC")
            refusal = supports(KernelSpec.of(layer, algorithm="pixels", arch=Arch(9, 0)))
            assert (refusal is None) is served, (channels, rows)


CALLS = [
    lambda x, **how: warpconv.gaussian_filter(x, 4.0, **how),
    lambda x, **how: warpconv.gaussian_filter(x, (4.5, 1), mode="constant", cval=7, **how),
    lambda x, **how: warpconv.correlate1d(x, np.linspace(-1, 1.3, 33), 0, "float32", "wrap", origin=3, **how),
    lambda x, **how: warpconv.correlate(x, settings.generator(88).standard_normal((35, 3)) / 40, mode="mirror", **how)]


@pytest.mark.parametrize("dtype,call", [pytest.param(dtype, call, marks=[pytest.mark.long] * (at % 4 != number))
                                        for number, dtype in enumerate(BYTES) for at, call in enumerate(CALLS)])
@pytest.mark.thin(4)
def test_bits_are_those_of_the_direct_way(dtype, call, steps):
    x = drawn(dtype, 70, 90)
    made = call(x, device="cpu")
    assert [name for name, size in steps if size[0] > 31] == ["float32"]
    steps.clear()
    assert np.array_equal(made, call(x, device="cpu", algorithm="direct"))
    assert {name for name, _ in steps} <= {dtype, "float32"}
    assert np.array_equal(made, call(x, device="cpu"))      # by what was remembered


@pytest.mark.parametrize("dtype", ["uint8", pytest.param("uint16", marks=pytest.mark.long)])
def test_means_are_scipy_s(dtype, steps):
    """Whole sums over a divisor: exact, cut towards zero."""
    x = drawn(dtype, 80, 60)
    assert np.array_equal(warpconv.uniform_filter(x, 41, device="cpu"), ndimage.uniform_filter(x, 41))
    assert ("float32", (41, 1)) in steps


def test_sums_that_float32_cannot_hold_stay_integers(steps):
    x = drawn("uint16", 60, 50)
    taps = np.full(33, 100)
    made = warpconv.correlate1d(x, taps, 0, output="int32", device="cpu")
    assert np.array_equal(made, ndimage.correlate1d(x.astype("int64"), taps, 0))
    assert steps == [("uint16", (33, 1))]


def test_int32_results_are_of_integers(steps):
    """Exact in float32 too, but no kernel stores floats as int32."""
    x = drawn("uint8", 60, 50)
    taps = np.arange(33) - 16
    made = warpconv.correlate1d(x, taps, 0, output="int32", device="cpu")
    assert np.array_equal(made, ndimage.correlate1d(x.astype("int64"), taps, 0)) and steps == [("uint8", (33, 1))]


def test_photos(steps):
    """Channels side by side; a column's filter sees one plane of all of them."""
    x = drawn("uint8", 64, 72, 3)
    taps = settings.generator(89).standard_normal((13, 13, 1)) / 30
    made = warpconv.correlate(x, taps, device="cpu")
    assert steps == [("uint8", (1, 1)), ("float32", (13, 13))]
    assert np.array_equal(made, warpconv.correlate(x, taps, device="cpu", algorithm="direct"))
    steps.clear()
    warpconv.correlate1d(x, taps[:, 0, 0], 0, device="cpu")
    assert steps == [("uint8", (13, 1))]
    steps.clear()
    warpconv.correlate1d(x, np.ones(33) / 33, 0, device="cpu")
    assert steps == [("uint8", (1, 1)), ("float32", (33, 1))]


def test_in_place_and_into_views():
    x = drawn("uint8", 70, 90)
    expected = warpconv.gaussian_filter(x, 4.0, device="cpu", algorithm="direct")
    canvas = np.zeros((80, 200), np.uint8)
    for output in (canvas[3:73, 5:185:2], canvas[3:73, 5:95], x):
        warpconv.gaussian_filter(x, 4.0, output=output, device="cpu")
        assert np.array_equal(output, expected)


def test_large_products_stay_apart(steps):
    """33 x 33 taps are a thousand products; by axes 66, whose sums float32 rounds."""
    x = drawn("uint16", 40, 50)
    opencv.sepFilter2D(x, "float32", np.ones(33), np.ones(33), device="cpu")
    assert (33, 33) not in {size for _, size in steps} and (1, 33) in {size for _, size in steps}


def test_whole_products_whose_sums_are_integers_alone(steps):
    """13 x 13 whole taps of bytes: their sums are int32's, and those between the axes would not be float32's own."""
    line = np.array([1, 12, 66, 220, 495, 792, 924, 792, 495, 220, 66, 12, 1])
    slope = np.convolve([1, 0, -1], np.array([1, 10, 45, 120, 210, 252, 210, 120, 45, 10, 1]))
    x = drawn("uint8", 30, 40)
    made = opencv.sepFilter2D(x, "int16", slope, line, device="cpu")
    exact = ndimage.correlate(x.astype("int64"), np.outer(line, slope), mode="mirror")
    assert np.array_equal(made, np.clip(exact, -2**15, 2**15 - 1))
    assert steps == [("uint8", (13, 13))]
