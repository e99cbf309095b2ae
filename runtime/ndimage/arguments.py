"""SciPy's arguments: numbers that may be arrays of no axes, one value or one for each axis, and which axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import LARGEST_PADDING

LEAST_SIGMA = 1e-15     # axes with less are not filtered


def plain(value: Any) -> Any:
    """A NumPy scalar, or an array of no axes, as Python's number; anything else as it is."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and not value.ndim else value


def whole(value: Any, argument: str) -> int:
    """A whole number. Raises ArgumentTypeError."""
    value = plain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{_article(argument)} is a whole number", argument=argument, value=value,
                                hint="for instance 1")
    return value


def real(value: Any, argument: str) -> float:
    """A finite number. Raises ArgumentTypeError or ArgumentError."""
    value = plain(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ArgumentTypeError(f"{_article(argument)} is a number", argument=argument, value=value,
                                hint="for instance 1.5")
    if not math.isfinite(value):
        raise ArgumentError(f"{_article(argument)} is finite", argument=argument, value=value, hint="for instance 1.5")
    return float(value)


def deviation(value: Any) -> float | None:
    """A standard deviation in pixels; None where SciPy filters nothing. Raises ArgumentError for what is none."""
    number = plain(value)
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number < math.inf:
        raise ArgumentError("a standard deviation is a number of pixels", argument="sigma", value=value,
                            hint="for instance 1.5, or one for each axis")
    return float(number) if number > LEAST_SIGMA else None


def reach(sigma: float, truncate: Any, radius: Any) -> int:
    """How far a Gaussian goes: ``radius`` pixels, or ``truncate`` sigmas. Raises ArgumentTypeError, ArgumentError."""
    far = real(truncate, "truncate") * sigma + 0.5
    if radius is not None:
        return within(radius, "radius")
    if not 0 <= far <= LARGEST_PADDING:
        name, value = ("truncate", truncate) if far < 0 or truncate > sigma else ("sigma", sigma)
        raise ArgumentError(f"the filter's radius, truncate * sigma = {far - 0.5:g}, is out of range", argument=name,
                            value=value, hint=f"a radius from 0 to {LARGEST_PADDING}")
    return int(far)


def within(value: Any, argument: str) -> int:
    """A radius, or a derivative's order. Raises ArgumentTypeError or ArgumentError."""
    value = whole(value, argument)
    if not 0 <= value <= LARGEST_PADDING:
        raise ArgumentError(f"the {argument} is out of range", argument=argument, value=value,
                            hint=f"0 to {LARGEST_PADDING}")
    return value


def size_of(value: Any) -> int:
    """Pixels that a mean is taken of. Raises ArgumentError."""
    number = plain(value)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 2 * LARGEST_PADDING:
        raise ArgumentError("the size must be a whole number of pixels", argument="size", value=value,
                            hint=f"1 to {2 * LARGEST_PADDING}")
    return number


def sequence(value: Any) -> list[Any] | None:
    """The values of what SciPy takes as one for each axis; None for one value (a string, a number, 0-d arrays)."""
    if isinstance(value, (str, bytes)) or not np.iterable(value):
        return None
    return list(value)


def each(value: Any, count: int, argument: str) -> list[Any]:
    """One value for each axis. Raises ShapeError for another number of them."""
    values = sequence(value)
    if values is None:
        return [value] * count
    if len(values) != count:
        raise ShapeError(f"{argument} needs one value, or one for each of {count} axes", argument=argument, value=value,
                         hint="axes= names the axes; without it all of the input's are filtered")
    return values


def axis_of(rank: int, value: Any, argument: str = "axis") -> int:
    """An axis counted from the first. Raises ArgumentTypeError or ArgumentError."""
    value = plain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError("an axis is a whole number", argument=argument, value=value, hint="for instance -1")
    if not -rank <= value < rank:
        raise ArgumentError(f"input has {rank} axes", argument=argument, value=value, hint=f"{-rank} to {rank - 1}")
    return value % rank


def axes_of(rank: int, axes: Any, layout: Any) -> tuple[int, ...]:
    """The axes to filter, counted from the first, in the caller's order: all of them, or those that ``layout`` says the
    image is. Raises ArgumentTypeError, ArgumentError or ShapeError."""
    order = None if layout is None else Layout.parse(layout)
    if order is Layout.NHWC and rank < 3:
        raise ShapeError(f"input has {rank} axes, at least 3 are needed", argument="input", value=rank,
                         hint="layout='NHWC' means (..., height, width, channels)")
    if axes is None:
        last = rank - (1 if order is Layout.NHWC else 0)
        return tuple(range(0 if order is None else max(0, last - 2), last))
    values = sequence(axes)
    chosen = tuple(axis_of(rank, axis, "axes") for axis in ([axes] if values is None else values))
    if len(set(chosen)) != len(chosen):
        raise ArgumentError("an axis is named twice", argument="axes", value=axes, hint="name each once")
    return chosen


def _article(argument: str) -> str:
    return f"{'an' if argument[0] in 'aeiou' else 'a'} {argument}"
