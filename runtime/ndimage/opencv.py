"""What warpconv.opencv's calls do: OpenCV's numbers for borders and types, its weights, results rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

from . import converted, lines as passes, recipes
from .arguments import real, whole
from .correlate import taps_of
from .lines import Line, Pass
from .planes import Image
from .recipes import Planned
from .target import name_of
from .work import Extras, Passes

ISOLATED = 16           # a border's flag: arrays have no surroundings here, so it changes nothing
FILTER_SCHARR = -1      # in the place of a size: Scharr's filter
LARGEST_DERIVATIVE = 31     # size of Sobel and Laplacian
DEPTHS = ("uint8", "int8", "uint16", "int16", "int32", "float32", "float64", "float16")     # by OpenCV's numbers
BORDERS = (Border.ZEROS, Border.REPLICATE, Border.SYMMETRIC, Border.CIRCULAR, Border.REFLECT)
_NAMES = {"CV_8U": 0, "CV_8S": 1, "CV_16U": 2, "CV_16S": 3, "CV_32S": 4, "CV_32F": 5, "CV_64F": 6, "CV_16F": 7}
# What a sigma of 0 means for the smallest sizes.
_SMALL = {1: (1,), 3: (1, 2, 1), 5: (1, 4, 6, 4, 1), 7: (2, 7, 14, 18, 14, 7, 2), 9: (4, 13, 30, 51, 60, 51, 30, 13, 4)}
_FIXED = 8              # bits of the weights that GaussianBlur has for 8-bit images
HALF_UP = f"expr(floor((v + {2**(2 * _FIXED - 1)}) / {2**(2 * _FIXED)}))"


# ---- arguments

def border_of(value: Any) -> Border:
    """A border by OpenCV's number or name, or ours; its value is 0. Raises ArgumentError."""
    if isinstance(value, Border):
        return value
    if isinstance(value, str):
        name = value.removeprefix("BORDER_")
        if name.isupper():
            found = Border.named(name, "opencv", "borderType")
            return Border.ZEROS if found is Border.CONSTANT else found
        return Border.parse(value, "borderType")
    number = whole(value, "borderType") & ~ISOLATED
    if not 0 <= number < len(BORDERS):
        raise ArgumentError("this border is not served", argument="borderType", value=value,
                            hint="BORDER_CONSTANT, _REPLICATE, _REFLECT, _WRAP or _REFLECT_101 (0 to 4)")
    return BORDERS[number]


def depth_of(value: Any) -> str | None:
    """The name of the type that ``ddepth`` says; None for src's own. Raises ArgumentError or ArgumentTypeError."""
    if value is None or isinstance(value, (int, np.integer)) and value == -1:
        return None
    if isinstance(value, str) and value in _NAMES:
        return DEPTHS[_NAMES[value]]
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return name_of(value, "ddepth", "-1, an OpenCV number such as CV_16S, or a type's name")
    if not 0 <= value < len(DEPTHS):
        raise ArgumentError("there is no such depth, or not of one channel", argument="ddepth", value=value,
                            hint="-1, or CV_8U (0), CV_8S, CV_16U, CV_16S, CV_32S, CV_32F, CV_64F, CV_16F (7)")
    return DEPTHS[value]


def pair(value: Any, argument: str) -> tuple[int, int]:
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != 2:
        raise ArgumentTypeError(f"{argument} is (width, height)", argument=argument, value=value, hint="(5, 5)")
    return whole(value[0], argument), whole(value[1], argument)


def origins_of(anchor: Any, size: tuple[int, int]) -> tuple[int, int]:
    """Where a filter of (width, height) lies, as SciPy says it, rows first."""
    x, y = (n // 2 if at == -1 else at for at, n in zip(pair(anchor, "anchor"), size))
    if not (0 <= x < size[0] and 0 <= y < size[1]):
        raise ArgumentError("the anchor is no element of the filter", argument="anchor", value=anchor,
                            hint=f"(x, y) from 0 to {(size[0] - 1, size[1] - 1)}, or (-1, -1)")
    return y - size[1] // 2, x - size[0] // 2


def line_taps(kernel: Any, argument: str) -> np.ndarray:
    try:
        taps = taps_of(kernel)
    except (ShapeError, ArgumentTypeError) as error:
        raise ArgumentTypeError("this is no row of real numbers", argument=argument, value=type(kernel).__name__,
                                hint="for instance [1, 2, 1]") from error
    if taps.size != max(taps.shape):
        raise ShapeError("a row or a column has one axis", argument=argument, value=taps.shape, hint="(n,) or (n, 1)")
    return taps.ravel()


def _type_of(src: Any) -> str:
    return Image.of(src).view.dtype.value


def is_eight(src: Any, dtype: Any) -> bool:
    """Whether what is filtered is bytes."""
    return (_type_of(src) if dtype is None else converted.served(dtype).value) == "uint8"


# ---- what runs

def separable(src: Any, ddepth: Any, row: np.ndarray, column: np.ndarray, dst: Any, anchor: Any, delta: Any,
              borderType: Any, extras: Extras, dtype: Any) -> Any:
    border, origins = border_of(borderType), origins_of(anchor, (len(row), len(column)))

    def plan() -> list[list[Pass]]:
        return [product(row, column, origins, border)]

    return filtered(plan, src, ddepth, dst, delta, extras, dtype, "separable", row, column, origins, border)


def product(row: np.ndarray, column: np.ndarray, origins: tuple[int, int], border: Border) -> list[Pass]:
    """A row and a column as one pass, or one where the other has one element of 1."""
    made = [Line(taps, axis, passes.check_origin(origin, len(taps)), border, 0.0)
            for axis, taps, origin in ((0, column, origins[0]), (1, row, origins[1]))]
    needed = [line for line in made if len(line.taps) > 1 or line.taps[0] != 1]
    if len(needed) < 2:
        return [Pass.along(line) for line in needed or made[1:]]
    return [Pass.product(needed[0], needed[1])]


def filtered(plan: Callable[[], list[list[Pass]]], src: Any, ddepth: Any, dst: Any, delta: Any, extras: Extras,
             dtype: Any, *told: Any) -> Any:
    """The passes of ``plan`` over src, rounded to nearest once. ``told``: what the plan follows from, for calls like
    this one. Raises as warpconv.correlate does."""
    name, added = depth_of(ddepth), real(delta, "delta")
    output = dst if dst is not None else name
    given = str(getattr(dst, "dtype", "")).removeprefix("torch.")
    if dst is not None and name not in (None, given):
        raise ArgumentTypeError("dst has another type than ddepth", argument="dst", value=given,
                                hint=f"{name}, or ddepth=-1")
    if dtype is None and "float64" in (name, given):
        dtype = _type_of(src)       # nothing is converted but the result

    def passes_of(image: Image) -> Passes:
        if image.rank not in (2, 3):
            raise ShapeError("an image is (H, W) or (H, W, C)", argument="src", value=image.shape,
                             hint="warpconv.correlate takes stacks")
        return Passes(plan(), (f"expr(v + {added!r})",) if added else (), "nearest")

    return recipes.call(Planned(passes_of, *told, added), src, output, (), extras, dtype)


# ---- weights

def gaussian_taps(size: int, sigma: float) -> np.ndarray:
    """Samples of a Gaussian, their sum 1. Raises ArgumentError for a size that has no middle."""
    if size < 1 or size % 2 == 0:
        raise ArgumentError("a Gaussian's size is odd: it has a middle", argument="ksize", value=size,
                            hint="for instance 5; in GaussianBlur 0, too, with a sigma above 0")
    if sigma <= 0 and size in _SMALL:
        taps = np.array(_SMALL[size], np.float64)
        return taps / taps.sum()
    sigma = sigma if sigma > 0 else 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    x = np.arange(size) - (size - 1) / 2
    bell = np.exp(-x**2 / (2 * sigma**2))
    return bell / bell.sum()


def fixed(taps: np.ndarray) -> np.ndarray:
    """Weights as whole numbers of 2^-8 whose sum is 1: what rounding takes from one is given to the next inwards."""
    made, left = np.zeros(len(taps)), 0.0
    for i in range(len(taps) // 2):
        wanted = taps[i] * 2**_FIXED + left
        made[i] = made[-1 - i] = round(wanted)
        left = wanted - made[i]
    made[len(taps) // 2] = 2**_FIXED - made.sum()
    return made


def derivative_taps(order: int, size: int, normalize: bool) -> np.ndarray:
    taps = np.ones(1)
    for step in [(1.0, 1.0)] * (size - order - 1) + [(-1.0, 1.0)] * order:
        taps = np.convolve(taps, step)
    return taps / math.ldexp(1, size - order - 1) if normalize else taps


def derivative_kernels(dx: int, dy: int, size: int, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of a derivative of these orders, each with an axis of 1. Raises ArgumentError."""
    orders = [dx, dy]
    if size == FILTER_SCHARR:
        if sorted(orders) != [0, 1]:
            raise ArgumentError("Scharr's filter is a first derivative along one axis", argument="dx", value=(dx, dy),
                                hint="dx=1, dy=0 or dx=0, dy=1")
        made = [np.array([-1.0, 0, 1]) if order else np.array([3.0, 10, 3]) / (32 if normalize else 1)
                for order in orders]
        return made[0][:, None], made[1][:, None]
    if size % 2 == 0 or not 1 <= size <= LARGEST_DERIVATIVE:
        raise ArgumentError("a derivative's size is odd", argument="ksize", value=size,
                            hint=f"1 to {LARGEST_DERIVATIVE}, or for a first derivative FILTER_SCHARR (-1)")
    if min(orders) < 0 or sum(orders) < 1:
        raise ArgumentError("this is no derivative", argument="dx", value=(dx, dy), hint="dx=1, dy=0")
    sizes = [3 if size == 1 and order > 0 else size for order in orders]
    if any(order >= n for order, n in zip(orders, sizes)):
        raise ArgumentError("the order needs a larger filter", argument="ksize", value=size,
                            hint=f"at least {max(orders) + 1 | 1}")
    row, column = (derivative_taps(order, n, normalize) for order, n in zip(orders, sizes))
    return row[:, None], column[:, None]
