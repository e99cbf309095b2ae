"""Filters over three axes at once, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import MODES, drawn_image, ndimage, needs_cpu, needs_scipy
from tests.runtime.ndimage.test_ndimage_axes import launches

EPSILON = float(np.finfo(np.float32).eps)
SIZES = ((3, 3, 3), (2, 3, 4), (5, 1, 2), (4, 2, 3))


def compare(name: str, x: np.ndarray, w: np.ndarray, **options) -> None:
    """Integers exactly, where weights are whole; floats within rounding; a poisoned output is written whole."""
    out = np.full(x.shape, np.nan if x.dtype.kind == "f" else 77, options.pop("output", x.dtype))
    wanted = getattr(ndimage, name)(x.astype(np.float64) if x.dtype.kind == "f" else x, w, **options,
                                    output=None if out.dtype.kind == "f" else out.dtype)
    got = getattr(warpconv, name)(x, w, **options, output=out, device="cpu")
    assert got is out
    if x.dtype.kind == "f":
        bound = (w.size + 3) * EPSILON * np.abs(w).sum() * max(np.abs(x).max(), abs(options.get("cval", 0)))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=bound)
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.thin(12)
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_every_mode_with_origins(mode, name, dtype):
    number = MODES.index(mode)
    rng = settings.generator(40 + number)
    x, size = drawn_image(rng, (6, 7, 19), dtype), SIZES[number % len(SIZES)]
    w = rng.integers(-9, 10, size).astype(np.float64)
    w[-1, 0, 0] += 5
    w = w if dtype == "uint8" else w + 0.25
    origin = tuple(int(rng.integers(-(s // 2), (s - 1) // 2 + 1)) for s in size)
    compare(name, x, w, mode=mode, origin=origin, cval=3.0)


@pytest.mark.thin(2)
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("shape, axes", [
    ((2, 5, 6, 9), (1, 2, 3)), ((5, 6, 9, 3), (0, 1, 2)), ((4, 3, 5, 6), (0, 1, 3)), ((2, 1, 3, 1, 4), None),
    ((3, 4, 5, 6), None), ((1, 2, 2), None)])
def test_wherever_the_three_axes_are(shape, axes):
    """In stacks, before channels, with axes between, smaller than the filter, and among four."""
    rng = settings.generator(60 + len(shape))
    x = rng.standard_normal(shape).astype(np.float32)
    rank = len(shape) if axes is None else 3
    w = rng.standard_normal((3, 2, 3, 1, 2)[:rank] if rank != 5 else (3, 1, 2, 1, 3))
    whole = np.expand_dims(w, tuple(a for a in range(len(shape)) if axes is not None and a not in axes))
    compare("correlate", x, whole, mode="mirror")
    if axes is not None:
        np.testing.assert_array_equal(warpconv.correlate(x, w, axes=axes, mode="mirror", device="cpu"),
                                      warpconv.correlate(x, whole, mode="mirror", device="cpu"))


@needs_cpu
@needs_scipy
def test_one_kernel_and_again():
    rng = settings.generator(70)
    x, w = rng.standard_normal((6, 7, 20)).astype(np.float32), rng.standard_normal((3, 3, 3))
    assert launches("correlate", x, w) == 1
    assert launches("correlate", x[..., None], w[..., None]) == 1
    first = warpconv.correlate(x, w, device="cpu")
    again = warpconv.correlate(x + 1, w, device="cpu")
    np.testing.assert_array_equal(first, warpconv.correlate(x, w, device="cpu"))
    np.testing.assert_allclose(again, first + w.sum(), atol=1e-4)


@needs_cpu
@needs_scipy
def test_types_and_an_output_that_is_the_input():
    rng = settings.generator(71)
    x, w = drawn_image(rng, (5, 6, 12), "uint8"), rng.integers(-90, 90, (3, 3, 3)).astype(np.float64)
    compare("correlate", x, w, output=np.dtype("int32"))
    compare("correlate", x, w, output=np.dtype("int16"))
    wanted = ndimage.correlate(x, w)
    assert warpconv.correlate(x, w, output=x, device="cpu") is x
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.thin(4)
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("call", [
    lambda of, x, **more: of.gaussian_filter(x, 1.3, **more), lambda of, x, **more: of.uniform_filter(x, 4, **more),
    lambda of, x, **more: of.sobel(x, 0, **more), lambda of, x, **more: of.gaussian_laplace(x, 1.0, **more)])
def test_filters_made_of_lines_over_three_axes(call):
    x = settings.generator(72).standard_normal((9, 14, 23)).astype(np.float32)
    wanted = call(ndimage, x.astype(np.float64))
    np.testing.assert_allclose(call(warpconv, x, device="cpu"), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
