"""Sizes of chunks from a budget of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

COPIES = 3          # of a chunk that a task holds: as it was read, with its neighbours' pixels, and filtered
LARGEST_AXIS = 2**31 - 1
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def chunks(shape: Sequence[int], dtype: Any, budget: int | str = "256M", depth: int | Sequence[int] = 0, *,
           multiple: int | Sequence[int] = 1, output: Any = None, line: int | str | None = None) -> tuple[int, ...]:
    """Sizes of chunks, as square as they can be, whose filtering takes no more memory than a budget.

    Parameters
    ----------
    shape : sequence of int
        The array's.
    dtype : element type
        The array's.
    budget : int or str
        Bytes that one task may take, or '512M', '2G' (powers of 1024): a chunk as it was read, the same with ``depth``
        pixels around it, and the result. As many tasks are at work as there are threads.
    depth : int or sequence of int
        Pixels that the filter reads on either side, for all axes or one for each: the radius of a Gaussian, half of a
        filter's size.
    multiple : int or sequence of int
        Sizes are multiples of these where they are not the whole axis: chunks or tiles of the file that is read, so
        that none is read twice.
    output : element type, optional
        The result's; ``dtype`` if None.
    line : int or str, optional
        Bytes of a chunk that lie one after the other at least, if the budget has room: for arrays in memory (C order),
        whose long lines are copied to a GPU and back more quickly than short ones ('128K': docs/scale.md has figures).

    Returns
    -------
    tuple of int
        A size for each axis, as ``chunks=`` of dask.array.from_array and from_zarr takes it.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        The budget is too small for any chunk, or an argument is none.
    ShapeError
        ``depth`` or ``multiple`` are not one for each axis.
    """
    lengths = [_whole(n, "shape", 0) for n in shape]
    deep, step = _each(depth, len(lengths), "depth", 0), _each(multiple, len(lengths), "multiple", 1)
    room = bytes_of(budget)
    try:
        widths = np.dtype(dtype).itemsize, np.dtype(dtype if output is None else output).itemsize
    except TypeError:
        raise ArgumentTypeError("no element type", argument="dtype", value=dtype, hint="for instance 'float32'"
                                ) from None
    if 0 in lengths:
        return tuple(max(1, n) for n in lengths)
    made = [min(n, LARGEST_AXIS) for n in lengths]

    def taken(sizes: Sequence[int]) -> int:
        around = math.prod(min(n, size + 2 * far) for n, size, far in zip(lengths, sizes, deep))
        return (COPIES - 1) * around * widths[0] + around * widths[1]

    least = [min(n, max(unit, -(-far // unit) * unit)) for n, unit, far in zip(lengths, step, deep)]
    wanted = 0 if line is None else bytes_of(line, "line")
    while wanted and taken(longer := _lines(lengths, step, least, widths[0], wanted)) > room:
        wanted //= 2
    if wanted:
        least = longer
    while taken(made) > room:
        axis = max((axis for axis in range(len(made)) if made[axis] > least[axis]), key=lambda axis: made[axis],
                   default=None)
        if axis is None:
            raise ArgumentError("no chunk is so small", argument="budget", value=budget,
                                hint=f"at least {taken(least)} bytes, for chunks of {tuple(least)}")
        parts = -(-lengths[axis] // made[axis]) + 1         # one more, of even length
        even = -(-lengths[axis] // parts)
        smaller = max(least[axis], -(-even // step[axis]) * step[axis])
        made[axis] = smaller if smaller < made[axis] else max(least[axis], _below(made[axis], step[axis]))
    return tuple(made)


def _lines(lengths: Sequence[int], step: Sequence[int], least: Sequence[int], width: int, wanted: int) -> list[int]:
    """The least sizes of chunks of which ``wanted`` bytes lie one after the other, axes cut to even parts."""
    made, run = list(least), max(1, width)
    for axis in reversed(range(len(made))):
        parts = max(1, lengths[axis] * run // wanted)
        even = -(-lengths[axis] // parts)
        made[axis] = max(made[axis], min(lengths[axis], -(-even // step[axis]) * step[axis]))
        if made[axis] < lengths[axis]:
            break
        run *= made[axis]
        if run >= wanted:
            break
    return made


def bytes_of(budget: Any, argument: str = "budget") -> int:
    """A number of bytes, of a number or of a text such as '512M'. Raises ArgumentError or ArgumentTypeError."""
    if isinstance(budget, str):
        text = budget.strip().lower().removesuffix("ib").removesuffix("b")
        number, unit = (text[:-1], text[-1]) if text[-1:] in ("k", "m", "g", "t") else (text, "")
        try:
            made = int(float(number) * _UNITS[unit])
        except (ValueError, OverflowError):
            made = 0
        if made <= 0:
            raise ArgumentError("this is no amount of memory", argument=argument, value=budget,
                                hint="for instance '512M' or '2G'")
        return made
    return _whole(budget, argument, 1)


def _below(size: int, step: int) -> int:
    """The largest multiple of ``step`` below a size."""
    return (size - 1) // step * step


def _each(value: Any, count: int, argument: str, least: int) -> list[int]:
    values = list(value) if np.iterable(value) else [value] * count
    if len(values) != count:
        raise ShapeError(f"{argument} needs one value, or one for each of {count} axes", argument=argument, value=value)
    return [_whole(each, argument, least) for each in values]


def _whole(value: Any, argument: str, least: int) -> int:
    try:
        number = value.__index__()
    except AttributeError:
        raise ArgumentTypeError(f"{argument} is of whole numbers", argument=argument, value=value) from None
    if number < least:
        raise ArgumentError(f"{argument} is of numbers from {least}", argument=argument, value=value)
    return int(number)
