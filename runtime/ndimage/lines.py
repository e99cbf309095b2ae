"""Filters of SciPy's calls as passes over an image: which run one after the other, and which at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.border import Border, border_value
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.shape import LARGEST_PADDING
from warpconv.runtime.call.kernel import Kernel

from .arguments import plain
from .planes import Image, Seen, adjacent, seen

MOST_FACTORED = 128         # taps of a factor; the kernels that take factors have fewer
MOST_CHANNELS = 256         # behind two lines' axes, that the lines are still done at once for
EXACT_IN_FLOAT32 = 2**24    # whole numbers up to here are float32's own
INT32_ENDS = 2**31
TO_ZERO = "expr(where(v < 0, ceil(v), floor(v)))"       # SciPy's cast to integers, of a value that stays a float


@dataclass(frozen=True)
class Line:
    """A 1D filter (float64) along an axis; ``divisor``: the sum is divided by it, for integers exactly."""

    taps: np.ndarray
    axis: int
    origin: int
    border: Border
    cval: float
    divisor: int = 1

    @property
    def has_value(self) -> bool:
        """Whether a value other than 0 stands outside of the image."""
        return self.border is Border.CONSTANT and self.cval != 0

    @property
    def keeps_values(self) -> bool:
        """Whether an image of one value everywhere stays what it is."""
        return bool(abs(self.taps.sum() / self.divisor - 1) < 1e-12)


@dataclass(frozen=True)
class Pass:
    """One filter over the image: ``taps`` (n,) along one of its axes, (R, S) along two, (T, R, S) along three in order;
    float64 on the host, or an array of the input's library on its GPU. ``lines``: 1D filters whose product it is, in
    the order in which they are done; ``kernel``: one that takes them as factors; ``steps``: of the epilogue."""

    taps: Any
    axes: tuple[int, ...]
    origins: tuple[int, ...]
    border: Border
    cval: float
    divisor: int = 1
    lines: tuple[Line, ...] = ()
    kernel: Kernel | None = None
    steps: tuple[str, ...] = ()

    @classmethod
    def along(cls, line: Line) -> Pass:
        """A 1D filter as a pass."""
        return cls(line.taps, (line.axis,), (line.origin,), line.border, line.cval, line.divisor)

    @classmethod
    def product(cls, first: Line, second: Line) -> Pass:
        """Two 1D filters with one border, ``second`` over the result of ``first``, as one."""
        rows, columns = sorted((first, second), key=lambda line: line.axis)
        return cls(np.outer(rows.taps, columns.taps), (rows.axis, columns.axis), (rows.origin, columns.origin),
                   first.border, first.cval, lines=(first, second))

    @property
    def is_volume(self) -> bool:
        """Whether its layer is one of volumes."""
        return len(self.axes) == 3

    def size(self, how: Seen) -> tuple[int, ...]:
        """(Planes,) rows and columns of the filter as the layer has it."""
        sizes = tuple(self.taps.shape)
        if len(sizes) > 1:
            return sizes
        return (sizes[0], 1) if how.upright else (1, sizes[0])

    def padding(self, how: Seen) -> tuple[tuple[int, int], ...]:
        origins = self.origins if len(self.origins) > 1 else (self.origins[0], 0) if how.upright else (
            0, self.origins[0])
        return tuple((size // 2 + origin, size - size // 2 - 1 - origin)
                     for size, origin in zip(self.size(how), origins))

    def then(self, *steps: str) -> Pass:
        """The same with further steps behind its sums."""
        return replace(self, steps=(*self.steps, *steps)) if steps else self

    def apart(self) -> list[Pass]:
        """A product as the 1D filters that it is made of, its steps behind the last."""
        first, second = map(Pass.along, self.lines)
        return [first, second.then(*self.steps)]


def identity(rank: int, scale: float = 1.0, axis: int | None = None) -> Pass:
    """A filter that changes nothing, or multiplies, along an axis (None: the last)."""
    return Pass(np.full(1, scale), (rank - 1 if axis is None else axis,), (0,), Border.ZEROS, 0.0)


def moved(axis: int, distance: int, border: Border, cval: float) -> Pass:
    """A filter that puts in each place the pixel that lies ``distance`` (not 0) behind it along an axis."""
    taps = np.zeros(abs(distance) + 1)
    taps[-1 if distance > 0 else 0] = 1
    return Pass(taps, (axis,), (max(0, -distance) - len(taps) // 2,), border, cval)


def border_of(mode: Any, cval: Any) -> tuple[Border, float]:
    """A border by SciPy's name, and its value (0 where it has none). Raises ArgumentError or ArgumentTypeError."""
    border = Border.named(mode, "scipy")
    return border, border_value(cval, "cval") if border is Border.CONSTANT else 0.0


def check_origin(origin: Any, size: int) -> int:
    """An origin by SciPy's rule: the filter's centre stays on the filter. Raises ArgumentTypeError, ArgumentError."""
    origin = plain(origin)
    if not isinstance(origin, int) or isinstance(origin, bool):
        raise ArgumentTypeError("an origin is a whole number", argument="origin", value=origin, hint="for instance 0")
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ArgumentError(f"the origin would shift a filter of {size} off its centre", argument="origin",
                            value=origin, hint=f"{-(size // 2)} to {(size - 1) // 2}")
    if size // 2 + abs(origin) > LARGEST_PADDING:
        raise ArgumentError(f"a filter of {size} taps is too long", argument="weights", value=size,
                            hint=f"at most {2 * LARGEST_PADDING}")
    return origin


def line_of(taps: np.ndarray, axis: int, mode: Any, cval: Any, origin: Any = 0, divisor: int = 1) -> Line:
    """A 1D filter along an axis (counted from the first), its arguments checked."""
    return Line(taps, axis, check_origin(origin, len(taps)), *border_of(mode, cval), divisor)


def scaled(line: Line, factor: float, outside: float = 1.0) -> Line:
    """The same times ``factor``, of an image whose border's value is ``outside`` times the line's."""
    if factor == outside == 1.0:
        return line
    return replace(line, taps=line.taps * factor, cval=line.cval * outside)


def of_lines(lines: Sequence[Line], image: Image, dtype: DType) -> list[Pass]:
    """1D filters, one after the other, as passes; two along neighbouring axes as one where the result is the same.

    SciPy stores, and casts, between the axes, so it is the same for floats but for rounding, and for integers if all is
    whole (then modulo 2^bits). What stands outside of the second filter's input is a pixel that the first has filtered,
    but for a constant border its value, not filtered: where no line has such a value, or no line changes one, any order
    gives the same, and the largest planes are done at once.
    """
    if dtype.is_float:
        lines = [line if line.divisor == 1 else replace(line, taps=line.taps / line.divisor, divisor=1)
                 for line in lines]
        lines = [line for line in lines if not _does_nothing(line, image.shape)]
    reads = [read for read in (image.view.dtype, dtype) if read is not DType.INT32]
    alike = dtype.is_float or all(line.divisor == 1 and exact(Pass.along(line), read) for line in lines
                                  for read in reads)
    if alike and (not any(line.has_value for line in lines) or all(line.keeps_values for line in lines)):
        return _largest_first(list(lines), image, dtype)
    return _in_turn(list(lines), image, dtype)


def _largest_first(lines: list[Line], image: Image, dtype: DType) -> list[Pass]:
    """Passes of lines that may be done in any order, those of two axes by the size of their planes."""
    made: list[Pass] = []
    while True:
        alone = len(lines) == 2 and not made
        pair = largest_pair(lines, image, functools.partial(_stored_alike, image=image, dtype=dtype, alone=alone))
        if pair is None:
            return [*made, *map(Pass.along, lines)]
        made.append(Pass.product(*pair))
        lines = [line for line in lines if not any(line is one for one in pair)]


def largest_pair(lines: Sequence[Line], image: Image, also: Callable[[Line, Line], bool] = lambda *pair: True,
                 ) -> tuple[Line, Line] | None:
    """The two lines along the rows and columns of the largest planes that one filter can have both; None for none."""
    pairs = [(first, second) for i, first in enumerate(lines) for second in lines[i + 1:]
             if _in_planes(first, second, image) and also(first, second)]
    return max(pairs, key=lambda pair: (image.shape[pair[0].axis] * image.shape[pair[1].axis],
                                        pair[0].axis + pair[1].axis), default=None)


def _in_turn(lines: list[Line], image: Image, dtype: DType) -> list[Pass]:
    made: list[Pass] = []
    alone = len(lines) == 2
    while lines:
        first, *rest = lines
        if rest and (first.keeps_values or not first.has_value) and _in_planes(first, rest[0], image) and (
                _stored_alike(first, rest[0], image, dtype, alone)):
            made.append(Pass.product(first, rest[0]))
            lines = rest[1:]
        else:
            made.append(Pass.along(first))
            lines = rest
    return made


def _in_planes(first: Line, second: Line, image: Image) -> bool:
    """Whether one filter of planes, with one border, can have both lines."""
    axes = (min(first.axis, second.axis), max(first.axis, second.axis))
    return (first.border is second.border and first.cval == second.cval and adjacent(image.shape, axes)
            and seen(image.shape, axes).channels <= MOST_CHANNELS)


def _stored_alike(first: Line, second: Line, image: Image, dtype: DType, alone: bool) -> bool:
    """Whether the product of two lines gives what they give one after the other, stored between. ``alone``: nothing is
    done before them, nor after."""
    if first.divisor != 1 or second.divisor != 1 or max(len(first.taps), len(second.taps)) > MOST_FACTORED:
        return False
    if dtype.is_float:
        return True
    both = Pass.product(first, second)
    reads = (image.view.dtype,) if alone else (image.view.dtype, between(dtype, [both], image.view.dtype) or dtype)
    return _whole(first.taps) and _whole(second.taps) and all(exact(both, read) for read in reads)


def _does_nothing(line: Line, shape: tuple[int, ...]) -> bool:
    """Whether a line of weights whose sum is 1 lies along an axis of one element that is all that it reads."""
    return shape[line.axis] == 1 and line.border.reads_image and bool(abs(line.taps.sum() - 1) < 1e-12)


def exact(each: Pass, dtype: DType, ends: int = INT32_ENDS) -> bool:
    """Whether a filter of an image of ``dtype`` is summed exactly in int32: whole numbers that cannot overflow, nor go
    beyond ``ends``."""
    if dtype.is_float or not isinstance(each.taps, np.ndarray) or not _whole(each.taps):
        return False
    if each.border is Border.CONSTANT and (each.cval != int(each.cval) or abs(each.cval) > EXACT_IN_FLOAT32):
        return False
    return float(np.abs(each.taps).sum()) * _largest(each, *dtype.limits) < ends     # whole, exact in float64


def has_value(dtype: DType, value: float) -> bool:
    """Whether an integer type has a value."""
    return value == int(value) and dtype.limits[0] <= value <= dtype.limits[1]


def between(stored: DType, passes: Sequence[Pass], dtype: DType) -> DType | None:
    """The type that results of ``passes`` over an image of ``dtype`` are kept as on their way to ``stored``, where
    SciPy has ``stored`` itself: a type with the same values. None for int32, which no kernel reads, where none has
    them."""
    if stored is DType.FLOAT16:
        return DType.FLOAT32        # SciPy has no float16 to follow
    if stored is not DType.INT32:
        return stored
    low, high = map(float, dtype.limits)
    ends = [0.0]
    for each in passes:
        if not isinstance(each.taps, np.ndarray):
            return None
        if each.border is Border.CONSTANT:
            low, high = min(low, each.cval), max(high, each.cval)
        up, down = each.taps.clip(0).sum() / each.divisor, each.taps.clip(None, 0).sum() / each.divisor
        low, high = up * low + down * high, up * high + down * low
        ends += [low, high]
    for fits in (DType.INT16, DType.UINT16):
        if fits.limits[0] <= min(ends) and max(ends) <= fits.limits[1]:
            return fits
    return None


def check_between(stored: DType, found: DType | None) -> DType:
    """Raises ArgumentTypeError where results on their way cannot be kept."""
    if found is None:
        raise ArgumentTypeError("this filter is done axis by axis, and no kernel reads int32 again", argument="output",
                                value=stored.value, hint="output='int16' or 'float32', then cast; or dtype='float32'")
    return found


def divided(each: Pass, dtype: DType, stored: DType, cut: bool) -> tuple[Pass, tuple[str, ...]]:
    """The pass with its divisor in the weights or, where whole numbers become whole numbers (floats that are ``cut`` to
    them, too), behind the sum.

    There the sum is exact, below 2^24, so it is its own float32; its quotient is at least 1 / divisor below the next
    whole number, which is more than rounding (half a unit in the last place) moves it: what is truncated is right.
    """
    if each.divisor == 1:
        return each, ()
    whole = replace(each, divisor=1)
    if dtype.is_float and cut:      # whole numbers that were converted have exact sums, too
        return whole, (f"expr(v / {each.divisor})",)
    if stored.is_float or not exact(whole, dtype):
        return replace(whole, taps=each.taps / each.divisor), ()
    if each.divisor * _largest(each, *dtype.limits) >= EXACT_IN_FLOAT32:
        raise ArgumentError("sums of so many integers are not exact in float32", argument="size", value=each.divisor,
                            hint="output='float32', or a smaller size")
    return whole, (f"expr(v / {each.divisor})",)


def _largest(each: Pass, *limits: int) -> int:
    outside = abs(int(each.cval)) if each.border is Border.CONSTANT else 0
    return max(*map(abs, limits), outside)


def _whole(taps: np.ndarray) -> bool:
    return bool(np.all(taps == np.rint(taps)) and np.all(np.abs(taps) < INT32_ENDS))
