"""SciPy's calls beside SciPy: the same result, or a refusal in words; never another result without a word."""

from __future__ import annotations

from typing import Any

import numpy as np

import warpconv
from warpconv.codegen.errors import WarpconvError

from ..axes import Choose
from .world import World

SHAPES = ((1,), (7,), (5, 9), (33, 70), (1, 8), (6, 8, 3), (3, 6, 8), (4, 5, 18), (1, 5, 1, 7), (2, 3, 4, 5), (0, 4))
MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-wrap", "grid-constant", "grid-mirror")
TYPES = ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64")
CALLS = ("gaussian_filter", "uniform_filter", "sobel", "prewitt", "laplace", "correlate", "convolve", "correlate1d",
         "convolve1d", "gaussian_filter1d", "uniform_filter1d")


def values(choose: Choose, world: World) -> str:
    """A call on an image whose axes lie in memory in any way."""
    from scipy import ndimage
    name, shape, dtype = choose(CALLS), choose(SHAPES), choose(TYPES)
    rng = np.random.default_rng(choose(range(1 << 20)))
    x = rng.standard_normal(shape) * 3 if dtype.startswith("float") else rng.integers(
        max(np.iinfo(dtype).min, -9999), min(np.iinfo(dtype).max, 9999), shape, endpoint=True)
    x = x.astype(dtype)
    given = drawn_arguments(choose, name, shape, rng)
    view = choose((x, x[..., ::-1][..., ::-1], np.asfortranarray(x)))
    world.tell(f"{name}(image of {shape} {dtype}, {given})")
    try:
        with np.errstate(all="ignore"):
            theirs = getattr(ndimage, name)(x, **given)
    except (ValueError, RuntimeError, TypeError, ZeroDivisionError) as error:
        theirs = error
    try:
        ours = world.host(getattr(warpconv, name)(world.array(view), device=world.device, **given))
    except WarpconvError:
        return "refused"
    if isinstance(theirs, Exception):
        return "right"          # what SciPy refuses may have a meaning here
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.shape, ours.dtype, theirs.dtype)
    near(ours, theirs, x, given, name)
    return "right"


def drawn_arguments(choose: Choose, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of a call, most of which SciPy takes."""
    rank = len(shape)
    given: dict[str, Any] = {"mode": choose(MODES), "cval": choose((0.0, 2.0, -1.5)),
                             "output": choose((None, None, "float32"))}
    one = name.endswith("1d")
    if one or name in ("sobel", "prewitt"):
        given["axis"] = choose(range(-rank, rank))
    elif choose((False, False, True)):
        given["axes"] = tuple(sorted({choose(range(rank)) for _ in range(choose((1, 2)))}))
    count = len(given.get("axes", shape))

    def each(sequence: tuple) -> Any:
        return choose(sequence) if choose((True, False)) or one else tuple(choose(sequence) for _ in range(count))

    if name not in ("correlate", "convolve") and not one and choose((False, True)):
        given["mode"] = tuple(choose(MODES) for _ in range(rank if "axis" in given else count))
    if name.startswith("gaussian"):
        given.update(sigma=each((0.6, 1.1, 2, 0)), order=each((0, 0, 1, 2)), truncate=choose((4.0, 2.5)))
    elif name.startswith("uniform"):
        given.update(size=each((1, 2, 3, 5, 8)), origin=choose((0, 0, -1)))
    elif "rrelate" in name or "convolve" in name:
        sizes = [choose((1, 2, 3, 4, 5, 9))] if one else [choose((1, 1, 2, 3, 5)) for _ in range(count)]
        given["weights"] = rng.integers(-3, 9, sizes) if choose((True, False)) else rng.standard_normal(sizes)
        given["origin"] = choose((0, 0, -1))
    return given


def near(ours: np.ndarray, theirs: np.ndarray, x: np.ndarray, given: dict[str, Any], name: str) -> None:
    """AssertionError unless equal up to the rounding of float32 sums; of integers, of where a sum is truncated, once
    for each axis, where the sums are not of whole numbers."""
    if not theirs.size:
        return
    if theirs.dtype.kind == "f":
        weights = np.abs(np.asarray(given.get("weights", 8.0), np.float64)).sum() * (np.abs(x.astype(np.float64)).max()
                                                                                     + abs(given["cval"]))
        difference = np.abs(ours.astype(np.float64) - theirs)
        assert difference.max() <= 64 * np.finfo(np.float32).eps * (weights + 8), f"off by {difference.max():.3g}"
        return
    whole = name in ("sobel", "prewitt", "laplace") or np.asarray(given.get("weights", 0.5)).dtype.kind in "iu"
    bits = 8 * theirs.dtype.itemsize
    difference = (ours.astype(np.int64) - theirs.astype(np.int64)) % 2**bits
    difference = np.minimum(difference, 2**bits - difference)
    assert difference.max() <= (0 if whole and not given["cval"] % 1 else 3 * x.ndim), f"off by {difference.max()}"
