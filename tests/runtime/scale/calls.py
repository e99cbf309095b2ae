"""Drawn calls of SciPy's filters, and what is said of one on chunks."""

from __future__ import annotations

import numpy as np

from tests.runtime.ndimage.test_ndimage import MODES

NAMES = ("correlate", "convolve", "correlate1d", "convolve1d", "gaussian_filter", "gaussian_filter1d", "uniform_filter",
         "uniform_filter1d", "sobel", "prewitt", "laplace", "gaussian_laplace", "gaussian_gradient_magnitude")
LARGEST = {1: 60, 2: 30, 3: 14}         # along an axis, by their number


def drawn_call(rng):
    """A function's name, an image, its chunks, arguments and options: any mode, type, origin, axis, number of axes."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, LARGEST[rank], rank))
    dtype = str(rng.choice(["uint8", "int16", "float32"]))
    x = rng.standard_normal(shape).astype(dtype) if dtype == "float32" else rng.integers(0, 200, shape).astype(dtype)
    chunks = tuple(cut(rng, n) for n in shape)
    name, mode, axis = str(rng.choice(NAMES)), str(rng.choice(MODES)), int(rng.integers(rank))
    options = {"mode": mode, "device": "cpu"}
    if mode == "constant":
        options["cval"] = float(rng.integers(0, 9))
    if rng.random() < 0.5:
        options["algorithm"] = "direct"
    if name in ("correlate", "convolve"):
        sizes = rng.integers(1, 4 if rank > 2 else 6, rank)
        arguments = (rng.integers(-3, 4, sizes),)
        options["origin"] = tuple(origin(rng, size) for size in sizes)
    elif name in ("correlate1d", "convolve1d", "uniform_filter1d"):
        size = int(rng.integers(1, 9))
        arguments = (size if name == "uniform_filter1d" else rng.integers(-3, 4, size), axis)
        options["origin"] = origin(rng, size)
    elif name in ("sobel", "prewitt", "gaussian_filter1d"):
        arguments = (1.3, axis) if name == "gaussian_filter1d" else (axis,)
    else:
        arguments = {"laplace": (), "uniform_filter": (tuple(map(int, rng.integers(1, 6, rank))),)}.get(name, (1.1,))
        if rng.random() < 0.4:
            options["mode"] = [str(each) for each in rng.choice(MODES, rank)]
    if "gaussian" in name and dtype != "float32":
        options["output"] = "float32"
    return name, x, chunks, arguments, options


def agree(name, x, chunks, arguments, options, run=lambda array: array.compute()):
    """That the call on chunks gives what the whole call and SciPy give. ``run`` computes."""
    import dask.array as da
    from scipy import ndimage

    import warpconv.dask
    whole = getattr(warpconv, name)(x, *arguments, **options)
    lazy = getattr(warpconv.dask, name)(da.from_array(x, chunks=chunks), *arguments, **options)
    made = run(lazy)
    assert made.dtype == lazy.dtype == whole.dtype
    near = 1e-5 * max(1.0, float(np.abs(whole).max()))
    if "algorithm" in options or made.dtype.kind != "f":
        assert np.array_equal(made, whole)
    else:
        assert np.abs(made - whole).max() <= near
    theirs = getattr(ndimage, name)(x, *arguments, **{key: value for key, value in options.items()
                                                      if key not in ("device", "algorithm")})
    assert np.abs(made.astype(np.float64) - theirs).max() <= (near if made.dtype.kind == "f" else 0)


def cut(rng, extent):
    """An extent in up to five chunks."""
    ends = {0, extent, *map(int, rng.integers(0, extent + 1, int(rng.integers(0, 5))))}
    return tuple(int(n) for n in np.diff(sorted(ends)))


def origin(rng, size):
    return int(rng.integers(-(size // 2), (size - 1) // 2 + 1))
