"""How a layer of one axis is seen as one of two: views of its arrays, and its numbers.

All by operations and arithmetic that torch.compile follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.layer import integer
from warpconv.codegen.shape import LARGEST_SIZE
from warpconv.runtime import arrays

from .given import inserted

TALLEST = 63        # taps of a column: the most that `channels` takes
CAUSAL = "causal"

_LAYOUTS = {"NCL": ("NCHW", 2), "NLC": ("NHWC", 1)}     # a plane's axes, and the one of the elements


class Way(NamedTuple):
    """A row or a column: ``order`` of the plane's axes, the axis of the elements in the caller's arrays, whether the
    elements are a column, and whether the caller's axes (N, C, L) are turned to (N, L, C), the order of their
    memory."""

    order: str
    axis: int
    column: bool = False
    turned: bool = False

    @property
    def inserted(self) -> int:
        """Where the axis of one element goes."""
        return (1 if self.turned else self.axis) + self.column

    def pair(self, one: Any, other: Any) -> tuple[Any, Any]:
        """(vertical, horizontal) of what an axis of one element has, and the axis of the elements."""
        return (other, one) if self.column else (one, other)

    def plane(self, value: Any, argument: str) -> Any:
        """A view of an array of three axes as a plane. Raises ShapeError, ArgumentTypeError."""
        if value is not None and self.turned and getattr(value, "ndim", 0) == 3:
            value = value.swapaxes(1, 2)
        return _plane(value, argument, self.inserted)

    def weight(self, value: Any, argument: str = "weight") -> Any:
        """The same of a filter, which is left out only where it is an output."""
        if value is None and argument == "weight":
            arrays.view(value, argument)
        return _plane(value, argument, 2 + self.column)

    def line(self, value: Any) -> Any:
        """A view of a plane's array with the caller's three axes."""
        made = _line(value, self.inserted)
        return made.swapaxes(1, 2) if self.turned else made

    def weight_line(self, value: Any) -> Any:
        """The same of a filter."""
        return _line(value, 2 + self.column)

    def sides(self, padding: Any, taps: Any, dilation: Any) -> Any:
        """A padding of one axis as one of two. Raises ShapeError."""
        sides = _sides(padding, taps, dilation)
        return sides if isinstance(sides, str) else self.pair((0, 0), sides)

    def sizes(self, given: Any, argument: str) -> tuple[Any, ...]:
        """The three sizes of an array as those of a plane. Raises ShapeError, ArgumentTypeError."""
        n, second, third = three(given, argument)
        sizes = (n, third, second) if self.turned else (n, second, third)
        return (*sizes[:self.inserted], 1, *sizes[self.inserted:])

    def weight_sizes(self, given: Any, argument: str) -> tuple[Any, ...]:
        """The same of a filter."""
        sizes = three(given, argument)
        return (*sizes[:2 + self.column], 1, *sizes[2 + self.column:])


def way_of(layout: Any, input: Any = None, weight_size: Sequence[Any] = (), *, told: bool = False) -> Way:
    """How a layer is seen. Without a filter's three sizes, as a row. ``told``: axes (N, C, L) over memory in NLC order
    are turned, so that copies of what has gaps keep that order, too. Raises ArgumentError."""
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise ArgumentError("unknown layout", argument="layout", value=layout, hint="'NCL' or 'NLC'")
    order, axis = _LAYOUTS[layout]
    follow = channels_follow(input, axis)
    column = may_be_column(weight_size)
    if told and follow and axis == 2 and hasattr(input, "swapaxes"):
        return Way("NHWC", axis, column, True)
    return Way(order, axis, column and follow)


def may_be_column(weight_size: Sequence[Any]) -> bool:
    """Whether a filter of three sizes is depthwise and short enough for `channels`, which has columns."""
    return len(weight_size) == 3 and weight_size[1] == 1 and weight_size[0] != 1 and weight_size[2] <= TALLEST


def channels_follow(value: Any, axis: int) -> bool:
    """Whether an array of three axes, the elements' at ``axis``, has its channels side by side in memory."""
    if getattr(value, "ndim", 0) != 3:
        return False
    if hasattr(value, "unsqueeze"):
        (_, second, third), one = value.stride(), 1
    else:
        (_, second, third), one = value.strides, value.dtype.itemsize
    # by branches: torch.compile cannot compare two answers about a length that it does not know. One channel, one
    # element, or gaps in both: as the axes are
    if third != one and second == one:
        return axis == 2
    return axis == 1


def _plane(value: Any, argument: str, axis: int) -> Any:
    """A view of an array of three axes with an axis of one row. Raises ShapeError, ArgumentTypeError."""
    if value is None:
        return None
    found = getattr(value, "ndim", 3)
    if found != 3:
        raise ShapeError(f"{argument} has {found} axes, 3 are needed", argument=argument, value=tuple(value.shape),
                         hint="add axes of length 1, or reshape" if found < 3 else "index or reshape it")
    return inserted(value, argument, axis)


def _line(value: Any, axis: int) -> Any:
    """A view of a plane's array without the axis of its one row."""
    if hasattr(value, "unsqueeze"):
        return value.squeeze(axis)      # an index would have a gradient that is as large as the array and written twice
    return value[(slice(None),) * axis + (0,)]


def one(value: Any, argument: str, least: int = 1) -> Any:
    """A number, or a tuple of one as PyTorch has it."""
    if isinstance(value, (tuple, list)):
        if len(value) != 1:
            raise ShapeError(f"{argument} of one axis is one number", argument=argument, value=value,
                             hint=f"e.g. {argument}=2")
        value = value[0]
    return integer(value, argument, argument, least, LARGEST_SIZE)


def _sides(padding: Any, taps: Any, dilation: Any) -> Any:
    """(left, right), or a name that two axes have as well."""
    if isinstance(padding, str):
        if padding == CAUSAL:
            return dilation * (taps - 1), 0
        if padding not in ("same", "valid"):
            raise ShapeError("unknown padding", argument="padding", value=padding,
                             hint="a number, (left, right), 'causal', 'same' or 'valid'")
        return padding
    if isinstance(padding, (tuple, list)):
        if len(padding) not in (1, 2):
            raise ShapeError("padding of one axis is a number or (left, right)", argument="padding", value=padding,
                             hint="e.g. padding=(3, 0)")
        return padding[0], padding[-1]
    return padding, padding


def three(given: Any, argument: str) -> tuple[Any, ...]:
    """Three sizes. Raises ShapeError, ArgumentTypeError."""
    if not isinstance(given, Iterable):
        raise ArgumentTypeError(f"{argument} is three sizes", argument=argument, value=given,
                                hint="e.g. the shape of an array")
    sizes = tuple(given)
    if len(sizes) != 3:
        raise ShapeError(f"{argument} is three sizes, not {len(sizes)}", argument=argument, value=sizes,
                         hint="e.g. the shape of an array")
    return sizes
