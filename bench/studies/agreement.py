"""Do the calls in SciPy's terms agree with SciPy? Modes, element types, filters, origins, images of all sizes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import warpconv
from bench.devices import NoDevice
from bench.harness import WrongResult
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study

DTYPES = ("uint8", "int8", "uint16", "int16", "float32")
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
QUICK_MODES = ("reflect", "constant")
IMAGES = ((37, 70), (2, 9, 5), (2, 3), (1, 1), (12, 9, 3))      # the last with its channels behind
CVAL = 3.0
EPSILON = float(np.finfo(np.float32).eps)

ABOUT = """
Every call beside scipy.ndimage's of the same name, with the same arguments, on the same drawn images (37x70, a stack
2x9x5, 2x3 and 1x1, which are smaller than most filters, and 12x9 pixels of 3 channels) of the whole range of their
type. Named filters are done along all axes, two or three; correlate and convolve along the last two, or the first two
of the image with channels. Origins are the least, 0 and the greatest one
in turn, so that each filter meets them all with every type and with every mode. Weights have no symmetry; "whole"
ones are whole numbers. cval is 3. Outputs have the input's type.

A figure is the largest difference from SciPy's result among all pixels of all those cases (integers modulo 2^bits, as
both wrap); "of the bound" is the largest share of the bound (taps + 2) eps sum|w x| that a float32 result is away from
the float64 value. Integers must be equal where SciPy's sum has one answer, for whole weights and means. With fractional
weights SciPy's double and our float32 round before they truncate: a difference of 1 is accepted where the float64 value
is within that bound of a whole number, and counted. gaussian_filter truncates between the axes, so a pixel may be as
far away as there are axes; gaussian_laplace does so for each of its terms. gaussian_gradient_magnitude is stored as
float32, as the squares of integers wrap in SciPy. A result beyond that is WRONG and stands below.
"""


@dataclass(frozen=True)
class Filter:
    """A line of the tables: a call and its filter. ``lines``: the 1D filters that it is made of over so many axes, to
    bound it; ``whole``: whole weights, or means of whole numbers."""

    call: str
    name: str
    sizes: tuple[int, ...] = ()
    whole: bool = True
    lines: Callable[[int], tuple[np.ndarray, ...]] | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        return f"{self.call}/{self.name}"

    def weights(self, rng: np.random.Generator) -> np.ndarray:
        made = rng.integers(1, 60, self.sizes) * rng.choice([-1, 1], self.sizes)
        return made if self.whole else made / 7.3

    def origin(self, turn: int) -> Any:
        """The least, none or the greatest along each axis, in turn; None for named filters."""
        each = [(-(n // 2), 0, (n - 1) // 2)[turn % 3] for n in self.sizes]
        if self.call.startswith("convolve"):
            each = [-o - (n % 2 == 0) for o, n in zip(each, self.sizes)]
        return None if not each else each[0] if len(each) == 1 else tuple(each)


def _gaussian(sigma: float, order: int = 0) -> np.ndarray:
    """A Gaussian, or its first or second derivative."""
    x = np.arange(-int(4 * sigma + 0.5), int(4 * sigma + 0.5) + 1)
    bell = np.exp(-x**2 / (2 * sigma**2))
    return (1.0, -x / sigma**2, (x**2 - sigma**2) / sigma**4)[order] * bell / bell.sum()


_SLOPE = np.array([-1.0, 0.0, 1.0])
FILTERS = (
    *(Filter(call, f"{'x'.join(map(str, sizes))}, {'whole' if whole else 'fractional'}", sizes, whole)
      for call, sizes, whole in (
          ("correlate", (3, 3), True), ("correlate", (2, 4), True), ("correlate", (2, 4), False),
          ("correlate", (7, 6), False), ("convolve", (3, 3), False), ("convolve", (2, 4), True),
          ("correlate1d", (8,), False), ("correlate1d", (129,), True), ("convolve1d", (4,), True))),
    Filter("sobel", "3x3", lines=lambda n: (_SLOPE, *(np.array([1.0, 2, 1]),) * (n - 1))),
    Filter("prewitt", "3x3", lines=lambda n: (_SLOPE, *(np.ones(3),) * (n - 1))),
    Filter("laplace", "3x3", lines=lambda n: (np.array([1.0, 2, 1]),) * n),
    *(Filter(call, "sigma 1.2", whole=False, options=(("sigma", 1.2), *more),
             lines=lambda n, order=order: (_gaussian(1.2, order) * n, *(_gaussian(1.2),) * (n - 1)))
      for call, order, more in (("gaussian_laplace", 2, ()),
                                ("gaussian_gradient_magnitude", 1, (("output", "float32"),)))),
    *(Filter("uniform_filter", f"{size}x{size}", lines=lambda n, size=size: (np.full(size, 1 / size),) * n,
             options=(("size", size),)) for size in (3, 8)),
    *(Filter("gaussian_filter", f"sigma {s:g}", whole=False, lines=lambda n, s=s: (_gaussian(s),) * n,
             options=(("sigma", s),)) for s in (0.7, 2.0)))
QUICK = ("correlate/3x3, whole", "correlate/2x4, fractional", "convolve/2x4, whole", "sobel/3x3", "uniform_filter/3x3")


def run(context: Context) -> None:
    try:
        from scipy import ndimage
    except ImportError:
        raise NoDevice("scipy is not installed, and there is nothing to agree with") from None
    filters = [f for f in FILTERS if not context.quick or f.key in QUICK]
    modes = QUICK_MODES if context.quick else MODES
    context.expect(len(filters) * len(DTYPES) * len(modes))
    for each, dtype, mode in product(filters, DTYPES, modes):
        context.row(f"{each.key}/{dtype}/{mode}", partial(_measure, context.device, ndimage, each, dtype, mode),
                    call=each.call, filter=each.name, dtype=dtype, mode=mode)
    context.device.free()


def _measure(device: Any, ndimage: Any, each: Filter, dtype: str, mode: str) -> dict[str, Any]:
    rng = np.random.default_rng(zlib.crc32(f"{each.key}/{dtype}/{mode}".encode()))
    found: dict[str, Any] = {"cases": 0, "pixels": 0, "differing": 0, "worst": 0.0, "of_bound": 0.0}
    origin = each.origin(DTYPES.index(dtype) + MODES.index(mode))
    for shape in IMAGES:
        x = _image(rng, shape, dtype)
        difference, share = _one(device, ndimage, each, x, each.weights(rng), origin, mode)
        found["cases"] += 1
        found["pixels"] += difference.size
        found["differing"] += int(np.count_nonzero(difference))
        found["worst"] = max(found["worst"], float(difference.max()))
        found["of_bound"] = max(found["of_bound"], share)
    return {**found, "origin": origin}


def _image(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return rng.standard_normal(shape).astype(dtype)
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def _one(device: Any, ndimage: Any, each: Filter, x: np.ndarray, weights: np.ndarray, origin: Any,
         mode: str) -> tuple[np.ndarray, float]:
    """The differences of one case from SciPy's, and the share of the bound. Raises WrongResult."""
    options = {**dict(each.options), "mode": mode, "cval": CVAL}
    if each.sizes:
        options |= {"weights": weights, "origin": origin}
        if x.ndim > 2 and len(each.sizes) == 2:
            options["axes"] = (0, 1) if x.shape == IMAGES[-1] else (-2, -1)
    theirs_of = getattr(ndimage, each.call)
    made = _host(getattr(warpconv, each.call)(_placed(device, x), device=device.target, **options))
    right = theirs_of(x, **options)
    if made.dtype != right.dtype or made.shape != right.shape:
        raise WrongResult(f"{made.dtype} {made.shape} instead of {right.dtype} {right.shape}")
    exact = theirs_of(x.astype(np.float64), **{name: value for name, value in options.items() if name != "output"})
    bound = _bound(ndimage, each, x, weights, options)
    if made.dtype.kind == "f":
        share = float((np.abs(made - exact) / np.maximum(bound, 1e-300)).max())
        if not share <= 1:
            raise WrongResult(f"{share:.3g} of the bound")
        return np.abs(made.astype(np.float64) - right), share
    return _integers(each, made, right, exact, bound), 0.0


def _integers(each: Filter, made: np.ndarray, right: np.ndarray, exact: np.ndarray, bound: np.ndarray) -> np.ndarray:
    modulus = 2 ** (8 * made.dtype.itemsize)
    apart = np.abs(made.astype(np.int64) - right.astype(np.int64))
    apart = np.minimum(apart, modulus - apart)
    if each.call.startswith("gaussian"):        # a Laplacian once more for each of its terms
        allowed = max(made.ndim, 2) ** (2 if each.call == "gaussian_laplace" else 1) * np.ones_like(apart)
    else:
        allowed = np.zeros_like(apart) if each.whole else (np.abs(exact - np.rint(exact)) <= bound).astype(np.int64)
    if np.any(apart > allowed):
        raise WrongResult(f"{int(np.count_nonzero(apart > allowed))} pixels differ by up to {int(apart.max())}")
    return apart


def _bound(ndimage: Any, each: Filter, x: np.ndarray, weights: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """(taps + 2) eps sum|w x|: of each pass of a filter that is made of lines."""
    size = np.abs(x.astype(np.float64))
    if each.lines is None:
        magnitude = getattr(ndimage, each.call)(size, **{**options, "weights": np.abs(weights)})
        return (weights.size + 2) * EPSILON * magnitude
    lines = each.lines(x.ndim)
    largest = (size.max() + CVAL) * np.prod([np.abs(line).sum() for line in lines])
    return np.full(x.shape, (np.prod([len(line) for line in lines]) + 2) * EPSILON * largest)


def _placed(device: Any, x: np.ndarray) -> Any:
    if device.kind == "host":
        return x
    return device.library.asarray(x) if device.kind == "cupy" else device.library.from_numpy(x).to(device.device)


def _host(array: Any) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    """One line a filter and type, a column a mode."""
    done = {key: row for key, row in rows.items() if row["status"] == OK}
    lines = []
    for each, dtype in product(FILTERS, DTYPES):
        mine = {mode: done[f"{each.key}/{dtype}/{mode}"] for mode in MODES if f"{each.key}/{dtype}/{mode}" in done}
        if mine:
            lines.append((each.call, each.name, dtype, sum(row["cases"] for row in mine.values()),
                          *(_figure(mine.get(mode), _is_float(each, dtype)) for mode in MODES), _percent(mine.values()),
                          max(row["of_bound"] for row in mine.values()) if _is_float(each, dtype) else None))
    equal = sum(not row["worst"] for row in done.values())
    text = (f"{sum(row['cases'] for row in done.values())} cases. Of {len(done)} combinations of filter, type and "
            f"mode, {equal} are SciPy's in every pixel.")
    columns = ("call", "filter", "type", "cases", *MODES, "% of pixels that differ", "of the bound")
    return [Table("The largest difference from SciPy", columns, tuple(lines), text)]


def _percent(rows: Iterable[dict[str, Any]]) -> float:
    rows = list(rows)
    return 100 * sum(row["differing"] for row in rows) / sum(row["pixels"] for row in rows)


def _is_float(each: Filter, dtype: str) -> bool:
    """Whether results are floats."""
    return "float32" in (dtype, dict(each.options).get("output"))


def _figure(row: dict[str, Any] | None, is_float: bool) -> Any:
    if row is None:
        return None
    return row["worst"] if is_float else int(row["worst"])


STUDY = Study("agreement", "do the calls in SciPy's terms agree with scipy.ndimage", ABOUT, run, tables,
              needs_gpu=False)
