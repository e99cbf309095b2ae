"""Drawn calls of SciPy's filters on chunks: any mode, type, origin, axis, number of axes, chunking."""

from __future__ import annotations

from typing import Any

import numpy as np

MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
NAMES = ("correlate", "convolve", "correlate1d", "convolve1d", "gaussian_filter", "gaussian_filter1d", "uniform_filter",
         "uniform_filter1d", "sobel", "prewitt", "laplace", "gaussian_laplace", "gaussian_gradient_magnitude")
LARGEST = {1: 60, 2: 30, 3: 14}         # along an axis, by their number


def drawn_call(rng: Any) -> tuple[str, np.ndarray, tuple[tuple[int, ...], ...], tuple[Any, ...], dict[str, Any]]:
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
    whole = name in ("correlate", "convolve")
    if rng.random() < 0.5 and not (whole and rank == 3):        # which is a volume's
        options["algorithm"] = "direct"
    if whole:
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


def cut(rng: Any, extent: int) -> tuple[int, ...]:
    """An extent in up to five chunks."""
    ends = {0, extent, *map(int, rng.integers(0, extent + 1, int(rng.integers(0, 5))))}
    return tuple(int(n) for n in np.diff(sorted(ends)))


def origin(rng: Any, size: int) -> int:
    return int(rng.integers(-(size // 2), (size - 1) // 2 + 1))
