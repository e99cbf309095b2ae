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
TYPES = ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64", "bool", "int64", "uint32")
SERVED = ("uint8", "int8", "uint16", "int16", "float32")
CALLS = ("gaussian_filter", "uniform_filter", "sobel", "prewitt", "laplace", "correlate", "convolve", "correlate1d",
         "convolve1d", "gaussian_filter1d", "uniform_filter1d", "gaussian_laplace", "gaussian_gradient_magnitude",
         "generic_laplace", "generic_gradient_magnitude")
DERIVATIVES = {"generic_laplace": "derivative2", "generic_gradient_magnitude": "derivative"}     # a call's argument


def values(choose: Choose, world: World) -> str:
    """A call on an image whose axes lie in memory in any way."""
    name, shape, dtype = choose(CALLS), choose(SHAPES), choose(TYPES)
    rng = np.random.default_rng(choose(range(1 << 20)))
    x = image(rng, shape, dtype)
    given = drawn_arguments(choose, name, shape, rng)
    ours_alone = {"dtype": "float32"} if dtype not in SERVED and choose((True, True, False)) else {}
    view = choose((x, x[..., ::-1][..., ::-1], np.asfortranarray(x)))
    world.tell(f"{name}(image of {shape} {dtype}, {given}, {ours_alone})")
    theirs = theirs_of(name, x, given)
    try:
        own = {**given, **ours_alone}
        for argument in own.keys() & DERIVATIVES.values():
            own[argument] = getattr(warpconv, own[argument].__name__)
        ours = world.host(getattr(warpconv, name)(world.array(view), device=world.device, **own))
    except WarpconvError:
        return "refused"
    if open_to_both(ours, theirs, name):
        return "right"
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.shape, ours.dtype, theirs.dtype)
    near(ours, theirs, x, given, name)
    return "right"


def theirs_of(name: str, x: np.ndarray, given: dict[str, Any]) -> Any:
    """SciPy's result, or its refusal."""
    from scipy import ndimage
    try:
        with np.errstate(all="ignore"):
            return getattr(ndimage, name)(x, **given)
    except (ValueError, RuntimeError, TypeError, ZeroDivisionError) as error:
        return error


def open_to_both(ours: np.ndarray, theirs: Any, name: str) -> bool:
    """Whether SciPy's result says nothing of ours."""
    if isinstance(theirs, Exception) or "bool" in (str(ours.dtype), str(theirs.dtype)):
        return True         # what SciPy refuses may have a meaning here; a mean of True is 1 or, rounded, 0
    if name == "gaussian_laplace" and ours.dtype.kind == "u":
        return True         # 16 smoothed is 16 or, by its last bit, 15, and its slope -1.04 or -0.97: 255 or 0
    # C leaves negative sums as unsigned numbers undefined
    return ours.dtype == np.uint32 and name != "uniform_filter"


def image(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values that sums of float32 have whole, or fractions."""
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 3).astype(dtype)
    ends = np.iinfo(dtype)
    return rng.integers(max(ends.min, -9999), min(ends.max, 9999), shape, endpoint=True).astype(dtype)


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
    if name in DERIVATIVES:
        from scipy import ndimage
        given[DERIVATIVES[name]] = getattr(ndimage, choose(("sobel", "prewitt")))
    elif name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        of = count if name == "gaussian_laplace" else rank
        given.update(sigma=choose((0.6, 1.1, 0, tuple(choose((0.6, 1.3, 0)) for _ in range(of)))),
                     truncate=choose((4.0, 2.5)))
    elif name.startswith("gaussian"):
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
    whole = (name in ("sobel", "prewitt", "laplace", "generic_laplace")
             or np.asarray(given.get("weights", 0.5)).dtype.kind in "iu")
    bits = min(8 * theirs.dtype.itemsize, 62)
    difference = (ours.astype(np.int64) - theirs.astype(np.int64)) % 2**bits
    difference = np.minimum(difference, 2**bits - difference)
    allowed = 3 * x.ndim * (x.ndim if name == "gaussian_laplace" else 1)
    assert difference.max() <= (0 if whole and not given["cval"] % 1 else allowed), f"off by {difference.max()}"


# ---- other libraries' names, played where they are named and installed

def opencv(choose: Choose, world: World) -> str:
    """A call of warpconv.opencv beside OpenCV's."""
    import cv2
    import warpconv.opencv as named
    dtype = choose(("uint8", "uint16", "int16", "float32"))
    shape = choose(((1, 1), (7, 9), (33, 70), (6, 8, 3), (9, 5, 4), (2, 40)))
    rng = np.random.default_rng(choose(range(1 << 20)))
    x = image(rng, shape, dtype)
    name = choose(("filter2D", "sepFilter2D", "GaussianBlur", "Sobel", "Scharr", "Laplacian", "boxFilter", "blur"))
    depths = {"uint8": (-1, cv2.CV_16S, cv2.CV_32F, cv2.CV_64F), "float32": (-1,)}.get(dtype, (-1, cv2.CV_32F))
    size = (choose((1, 2, 3, 4, 5, 9)), choose((1, 2, 3, 5, 7)))
    middle = choose(((-1, -1), (size[0] - 1, 0)))
    of = () if name in ("GaussianBlur", "blur") else (choose(depths),)
    more: dict[str, Any] = {"borderType": choose((0, 1, 2, 4))}
    if name == "filter2D":
        of, more["anchor"] = (*of, rng.standard_normal(size[::-1]).astype("f")), middle
    elif name == "sepFilter2D":
        of, more["anchor"] = (*of, rng.standard_normal(size[0]), rng.standard_normal(size[1])), middle
    elif name == "GaussianBlur":
        of = choose((((3, 5), 0), ((0, 0), 1.3), ((7, 1), 2.2), ((0, 0), 3.5)))
    elif name in ("Sobel", "Scharr"):
        of = (*of, *choose(((1, 0), (0, 1))))
        more.update({"ksize": choose((1, 3, 5))} if name == "Sobel" else {}, scale=choose((1, 0.3)))
    elif name == "Laplacian":
        more.update(ksize=choose((1, 3, 5)), scale=choose((1, 0.3)))
    else:
        of, more["anchor"] = (*of, size), middle
    if name in ("filter2D", "sepFilter2D", "Sobel", "Scharr", "Laplacian"):
        more["delta"] = choose((0, 3, -1.5))
    world.tell(f"cv2.{name}(image of {shape} {dtype}, {of}, {more})")
    try:
        theirs = getattr(cv2, name)(x, *of, **more)
    except cv2.error:
        return "refused"
    ours = world.host(getattr(named, name)(world.array(x), *of, device=world.device, **more))
    theirs = theirs.reshape(ours.shape)
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    apart = np.abs(ours.astype(np.float64) - theirs).max()
    exact = dtype == "uint8" and ours.dtype == np.uint8 and name == "GaussianBlur"
    sizes = np.abs(theirs.astype(np.float64)).max(), np.abs(x.astype(np.float64)).max()     # terms may cancel
    bound = 2e-5 * (1 + sizes[0]) + 1e-6 * sizes[1] if ours.dtype.kind == "f" else 0 if exact else 1
    assert apart <= (4 if name == "GaussianBlur" and dtype == "uint16" else bound), f"off by {apart}"
    return "right"


def skimage(choose: Choose, world: World) -> str:
    """A call of warpconv.skimage beside scikit-image's."""
    from skimage import filters
    import warpconv.skimage as named
    dtype, shape = choose(("uint8", "int8", "uint16", "int16", "float32", "float64", "bool")), choose(
        ((7, 9), (33, 20), (6, 8, 3), (1, 5), (4, 5, 6), (11,)))
    rng = np.random.default_rng(choose(range(1 << 20)))
    x = image(rng, shape, dtype)
    x = (x / 8).astype(dtype) if dtype.startswith("float") else x
    names = ["unsharp_mask", "difference_of_gaussians", "gaussian", "laplace", "farid", "scharr", "sobel", "prewitt"]
    name = choose(names + ["roberts", "roberts_neg_diag", "farid_h", "scharr_v", "gabor"] * (len(shape) == 2))
    more: dict[str, Any] = {}
    if name in ("difference_of_gaussians", "gaussian", "farid", "scharr", "sobel", "prewitt"):
        more = {"mode": choose(MODES[:5]), "cval": choose((0, 0.4))}
    if name in ("farid", "scharr", "sobel", "prewitt"):
        more["axis"] = choose((None, 0, tuple(range(len(shape)))[::-1]))
    elif name in ("difference_of_gaussians", "unsharp_mask", "gaussian"):
        more["channel_axis"] = choose((None, len(shape) - 1)) if len(shape) > 1 else None
    of = {"difference_of_gaussians": (choose((0.8, 1.4)),), "gaussian": (choose((0, 0.7, 2)),), "gabor": (0.3, 0.5),
          "unsharp_mask": (choose((0.6, 1.5)), choose((0.5, 2, -1)), choose((False, True)))}.get(name, ())
    world.tell(f"skimage.filters.{name}(image of {shape} {dtype}, {of}, {more})")
    theirs = getattr(filters, name)(x, *of, **more)
    own = {"dtype": "float32"} if dtype not in SERVED else {}
    ours = getattr(named, name)(world.array(x), *of, device=world.device, **own, **more)
    for one, other in zip(*((ours, theirs) if name == "gabor" else ((ours,), (theirs,)))):
        one = world.host(one)
        assert one.shape == other.shape, (one.shape, other.shape)
        if one.dtype.kind == "f":
            size = max(1.0, float(np.abs(x.astype(np.float64)).max()) if dtype.startswith("float") or name in (
                "unsharp_mask",) else 1.0)
            assert (apart := np.abs(one.astype(np.float64) - other).max()) <= 1e-5 * size, f"off by {apart}"
    return "right"
