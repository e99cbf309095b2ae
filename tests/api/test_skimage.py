"""warpconv.skimage beside scikit-image where it is installed, and by its definition in float64 where not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import warpconv.skimage as ours
from tests import checks, settings
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
PLANE = ("farid_h", "farid_v", "scharr_h", "scharr_v", "sobel_h", "sobel_v", "prewitt_h", "prewitt_v", "roberts",
         "roberts_pos_diag", "roberts_neg_diag")
NAMES = (*PLANE, "farid", "scharr", "sobel", "prewitt", "laplace", "gaussian", "gabor", "gabor_kernel", "unsharp_mask",
         "difference_of_gaussians")
MODES = ("reflect", "constant", "wrap", "nearest", "mirror")
DTYPES = ("uint8", "int8", "int16", "uint16", "float32", "float64", "bool", "int32", "float16")
SHAPES = ((23, 31), (12, 14, 3), (6, 7, 8))


def theirs():
    return pytest.importorskip("skimage.filters", reason="scikit-image is not installed")


def drawn(seed, dtype, shape):
    rng = settings.generator(seed)
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) / 2).astype(dtype)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def calls(shape):
    for mode in MODES:
        more = {"mode": mode, "cval": 0.3}
        yield "gaussian", (1.2,), {**more, "preserve_range": mode == "wrap"}
        yield "difference_of_gaussians", (1.0,), {**more, "channel_axis": -1 if shape[-1] == 3 else None}
        yield "difference_of_gaussians", ((0.7,) * len(shape), (0.7, *(1.3,) * (len(shape) - 1))), more
        for name in ("sobel", "farid", "scharr", "prewitt"):
            yield from ((name, (), more), (name, (), {**more, "axis": 0}))
        if len(shape) == 2:
            yield "gabor", (0.3, 0.4), {"mode": mode, "cval": 2}
    yield "farid", (), {"axis": (0, 1)}
    yield "laplace", (), {}
    for arguments in ((), (2.0, -0.4), (1.0, 3.0, True), (1.0, -1.0)):
        yield "unsharp_mask", arguments, {}
    if len(shape) == 3:
        yield "unsharp_mask", (1.5, 2.0), {"channel_axis": 2}
    else:
        yield from ((name, (), {}) for name in PLANE)


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_scikit_images(dtype, shape):
    filters = theirs()
    x = drawn(71, dtype, shape)
    more = {} if dtype in ("uint8", "int8", "int16", "uint16", "float32", "float16") else {"dtype": "float32"}
    for name, arguments, options in calls(shape):
        wanted = getattr(filters, name)(x, *arguments, **options)
        made = getattr(ours, name)(x, *arguments, **options, **more, device="cpu")
        for one, other in zip(*((made, wanted) if isinstance(made, tuple) else ((made,), (wanted,)))):
            assert one.shape == other.shape and (one.dtype == other.dtype or
                                                 (one.dtype, other.dtype) == (np.float32, np.float64)), name
            if one.dtype.kind in "iu":      # of gabor: which side of a whole number a sum is truncated to
                apart = (one.astype(np.int64) - other.astype(np.int64)) % 2**(8 * one.itemsize)
                allowed = 1 + (1e-6 * 2**31 if dtype == "int32" else 0)        # float32 has 24 bits of 31
                assert np.minimum(apart, 2**(8 * one.itemsize) - apart).max() <= allowed, (name, options)
            elif one.dtype.kind == "f":
                size = max(np.abs(other.astype(np.float64)).max(), np.abs(x.astype(np.float64)).max()
                           if dtype.startswith("float") else 1.0)
                assert np.abs(one.astype(np.float64) - other).max() <= 2e-6 * size, (name, options)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_scikit_images_and_ours_behind_them(name):
    given = inspect.signature(getattr(theirs(), name)).parameters
    mine = inspect.signature(getattr(ours, name)).parameters
    assert list(mine)[:len(given)] == list(given)
    assert all((mine[n].default, mine[n].kind) == (p.default, p.kind) for n, p in given.items())
    assert list(mine)[len(given):] == ([] if name == "gabor_kernel" else ["device", "stream", "algorithm", "dtype"])


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_takes(name):
    text = inspect.getdoc(getattr(ours, name))
    assert all(word in text for word in inspect.signature(getattr(ours, name)).parameters)
    assert "Returns" in text and "Raises" in text and getattr(ours, name).__name__ == name


@needs_cpu
def test_edges_by_their_definition():
    """Bytes as numbers from 0 to 1, the slope along each axis, and the root of their mean square."""
    x = drawn(72, "uint8", (9, 12))
    padded = np.pad(x / 255, 1, mode="symmetric")
    across = padded[:, 2:] - padded[:, :-2]
    across = (across[:-2] + 2 * across[1:-1] + across[2:]) / 4
    down = padded[2:] - padded[:-2]
    down = (down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]) / 4
    assert np.allclose(ours.sobel_v(x, device="cpu"), across, rtol=0, atol=1e-6)
    assert np.allclose(ours.sobel_h(x, device="cpu"), down, rtol=0, atol=1e-6)
    for _ in range(2):      # a call like one before goes from kernel to kernel
        made = ours.sobel(x, device="cpu")
        assert made.dtype == np.float32 and np.allclose(made, np.sqrt((across**2 + down**2) / 2), rtol=0, atol=1e-6)
    diagonal = padded[2:, 2:] - padded[1:-1, 1:-1]
    assert np.allclose(ours.roberts_pos_diag(x, device="cpu"), diagonal, rtol=0, atol=1e-6)


@pytest.mark.long
@needs_cpu
def test_sharpening_adds_what_a_gaussian_takes_away():
    x = drawn(73, "uint8", (9, 12)).astype(np.float32) / 255
    blurred = ours.gaussian(x, 1.0, mode="reflect", device="cpu")
    for amount in (0.5, 2.0, -1.0):
        plain = x + (x - blurred.astype(np.float64)) * amount
        assert np.allclose(ours.unsharp_mask(x, 1.0, amount, True, device="cpu"), plain, rtol=0, atol=2e-6)
        assert np.allclose(ours.unsharp_mask(x, 1.0, amount, device="cpu"), plain.clip(0, 1), rtol=0, atol=2e-6)
    wide = ours.gaussian(x, 1.6, device="cpu")
    assert np.allclose(ours.difference_of_gaussians(x, 1.0, device="cpu"),
                       ours.gaussian(x, 1.0, device="cpu") - wide, rtol=0, atol=1e-6)
    kernel = ours.gabor_kernel(0.25, sigma_x=2, sigma_y=1)
    assert kernel.shape == (7, 13) and abs(kernel[3, 6] - 1 / (4 * np.pi)) < 1e-15


X = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize("call, error, argument", [
    (lambda: ours.sobel(X, X > 0), ArgumentError, "mask"),
    (lambda: ours.farid_h(X, mask=X > 0), ArgumentError, "mask"),
    (lambda: ours.sobel_h(X[None]), ShapeError, "image"),
    (lambda: ours.roberts(X[None]), ShapeError, "image"),
    (lambda: ours.gabor(X[None], 0.2), ShapeError, "image"),
    (lambda: ours.gabor(X, 0), ArgumentError, "frequency"),
    (lambda: ours.gabor_kernel(0.1, bandwidth=0), ArgumentError, "bandwidth"),
    (lambda: ours.gabor_kernel(0.1, dtype=float), ArgumentTypeError, "dtype"),
    (lambda: ours.difference_of_gaussians(X, 2, 1), ArgumentError, "high_sigma"),
    (lambda: ours.laplace(X, 5), ArgumentError, "ksize"),
    (lambda: ours.gaussian(X, out=X.astype("uint8")), ArgumentTypeError, "out"),
    (lambda: ours.unsharp_mask(X.astype("float64")), ArgumentTypeError, "image"),
], ids=lambda value: getattr(value, "__name__", value))
def test_what_is_refused(call, error, argument):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.argument == argument and caught.value.hint
