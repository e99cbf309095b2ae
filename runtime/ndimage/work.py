"""One of SciPy's calls done: its passes as launches of kernels, each of which can be repeated as it was (recipes)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView
from warpconv.runtime.call.checks import Misaligned
from warpconv.runtime.call.conv import conv2d_and_kernel, factored
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.call.volume import conv3d_and_kernel

from . import planes, weights
from .lines import EXACT_IN_FLOAT32, TO_ZERO, Pass, between, check_between, divided, exact, has_value, identity
from .planes import Image, Seen
from .target import Target

# A whole filter of two axes is taken up to this many taps. Beyond it, the products cost more than storing and reading
# the image once more: at 11 x 11, 121 multiply-adds an output are as long as its 8 bytes take twice on an H200.
MOST_AT_ONCE = 121
# And up to so many where it is exact as a whole alone: with more, products cost too much.
MOST_EXACT = 31 * 31
# Rows of a filter that kernels for 8- and 16-bit pixels have registers for, by channels side by side. With more, every
# tap would be loaded for every pixel: as float32, which costs a pass, such an image is filtered in a tenth of the
# instructions (33 rows of one column).
MOST_ROWS = {1: 31, 3: 11, 4: 31}


class Extras(NamedTuple):
    """What conv2d is told besides the layer."""

    device: str = "auto"
    stream: Any = None
    algorithm: str = "auto"


class Passes(NamedTuple):
    """What a call does: ``terms``, each of passes one over the other's result, added up; ``after``: steps of the
    epilogue behind the sum; ``cast``: how results become integers, conv2d's. 'nearest' rounds once, at the end, and so
    does 'truncate' if ``late``: terms are then parts of one filter, whose passes before the last only move pixels."""

    terms: Sequence[Sequence[Pass]]
    after: tuple[str, ...] = ()
    cast: str = "truncate"
    late: bool = False

    @classmethod
    def chain(cls, passes: Sequence[Pass]) -> Passes:
        """One filter over the other's result."""
        return cls((passes,))


@dataclass(frozen=True)
class Room:
    """An array of the input's shape, made without a value."""

    dtype: DType

    def make(self, like: ArrayView, shape: tuple[int, ...], stream: Any) -> Any:
        handle = arrays.current_stream(like) if stream is None else arrays.stream_handle(stream)
        return arrays.empty(like, shape, self.dtype, stream=handle or 0)


@dataclass(frozen=True)
class Step:
    """A launch of a kernel: which array is read, by its number (0: the input), and how; which is written (None: a new
    one, -1: the caller's), and which is added where the epilogue says so."""

    kernel: Kernel
    weight: Any
    source: int
    reads: Seen
    target: int | None = None
    writes: Seen | None = None
    adds: int | None = None
    fixed: bool = True      # the weight is ours, not an array whose elements its owner may change

    def prepared(self, stream: Any) -> Step:
        """The same with its weight prepared for the kernel. Raises DeviceError while the stream is in capture."""
        return replace(self, weight=weights.prepared(self.kernel, self.weight, stream))


class Work:
    """A call at work: the arrays that it has (the first is the input) and the steps that it has taken."""

    def __init__(self, image: Image, target: Target, extras: Extras):
        self.images = [image]
        self.shape = image.shape
        self.target = target
        self.extras = extras
        self.cast, self.late = "truncate", False
        self.steps: list[Step | Room] = []

    def do(self, passes: Passes) -> Any:
        """The call's result. Raises before anything is launched or written."""
        if 0 in self.shape:
            return self.finished(self.room(self.target.dtype))
        self.cast, self.late = passes.cast, passes.late
        after = (*passes.after, TO_ZERO) if self.late and self.target.whole else passes.after
        terms = [list(term) or [identity(len(self.shape))] for term in passes.terms]
        if len(terms) > 1:
            return self._summed(terms, after)
        terms[0][-1] = terms[0][-1].then(*after)
        return self._chained(terms[0])

    def _chained(self, passes: list[Pass]) -> Any:
        """The passes, one over the other's result, each stored as the output's type."""
        image, target = self.images[0], self.target
        if len(passes) == 1 and target.takes_results and target.overlaps(image):
            passes.append(identity(image.rank))     # a result of its own first, then copied
        passes = self._parts(self._cut(passes), target.dtype)
        at = 0
        if len(passes) > 1:
            kept = check_between(target.dtype, self._kept(passes[:-1]))
            for each in passes[:-1]:
                at = self._apply(at, each, kept)
        return self.finished(self._apply(at, passes[-1], target.dtype, self._last))

    def _summed(self, terms: list[list[Pass]], after: tuple[str, ...]) -> Any:
        """The sum of what several passes make of the image, each term stored as the output's type, as the sum is: each
        is added to the sum of those before it where it is stored."""
        total = self.term(terms[0], self.sums)
        for term in terms[1:-1]:
            total = self.term(term, self.sums, total)
        return self.total(terms[-1], total, after)

    @property
    def sums(self) -> DType:
        """The type that sums of terms are kept as."""
        dtype = self.target.dtype
        return DType.FLOAT32 if dtype.is_half or self.late or self.cast == "nearest" else dtype

    def term(self, passes: list[Pass], dtype: DType, adds: int | None = None, after: tuple[str, ...] = (),
             target: int | None = None, source: int = 0) -> int:
        """What passes make of an array (a term of a sum), added to the sum ``adds`` and written over it, or to
        ``target``; the number of the array that has it."""
        passes = self._cut(passes, dtype)
        passes[-1] = passes[-1].then(*(() if adds is None else ("residual",)), *after)
        passes = self._parts(passes, dtype, source)
        kept = check_between(dtype, self._kept(passes[:-1])) if len(passes) > 1 else dtype
        for each in passes[:-1]:
            source = self._apply(source, each, kept)
        if target is None:
            target = self.room(dtype) if adds is None else adds
        return self._apply(source, passes[-1], dtype, target, adds)

    def total(self, passes: list[Pass], adds: int | None, after: tuple[str, ...] = (), source: int = 0) -> Any:
        """The call's result: a last term added to a sum."""
        target, kept = self.target, self.sums
        if kept is target.dtype and not (target.takes_results and target.overlaps(self.images[0])):
            return self.finished(self.term(passes, kept, adds, after, self._last, source))
        at = self.term(passes, kept, adds, source=source)
        copied = identity(len(self.shape)).then(*after)
        return self.finished(self._apply(at, copied, target.dtype, self._last))

    def _kept(self, passes: Sequence[Pass]) -> DType | None:
        """The type of results on their way; None where none has their values."""
        stored, dtype = self.target.dtype, self.images[0].view.dtype
        if self.late:       # pixels, and what stands outside of the image
            return dtype if dtype.is_float or all(has_value(dtype, each.cval) for each in passes) else DType.FLOAT32
        if self.cast == "nearest" and stored.is_integer:
            return DType.FLOAT32
        return between(stored, passes, dtype)

    def _cut(self, passes: list[Pass], sums: DType | None = None) -> list[Pass]:
        """The passes, truncated where SciPy stores integers and no kernel does: terms of sums, and all where the result
        is cast afterwards."""
        target, dtype = self.target, self.images[0].view.dtype
        if self.cast == "nearest" or self.late or target.planned.is_float:
            return list(passes)
        if target.whole:
            return [each.then(TO_ZERO) for each in passes]
        *first, last = passes
        if sums is not None and (first or not exact(last, dtype)):
            last = last.then(TO_ZERO)
        elif sums is not None and not exact(last, dtype, EXACT_IN_FLOAT32):
            raise ArgumentError("sums of so large values are not exact in float32", argument="cval", value=last.cval,
                                hint="output='float32'")
        return [*first, last]

    @property
    def _last(self) -> int | None:
        """Where the last step writes: the caller's array, if a kernel can write to it."""
        return -1 if self.target.takes_results else None

    def finished(self, at: int) -> Any:
        """The caller's array (a host one with gaps is filled), or the array of this number."""
        target = self.target
        if target.array is None:
            return self.images[at].array
        if not target.takes_results:
            target.array[...] = self.images[at].array
        return target.array

    def _parts(self, passes: list[Pass], stored: DType, source: int = 0) -> list[Pass]:
        """The passes, of which some become the 1D filters that they are the product of: decided here alone.

        A product is done at once where a kernel takes its factors, or where its taps are few.
        """
        view, made = self.images[source].view, []
        kept = self._kept(passes[:-1]) or stored
        for i, each in enumerate(passes):
            kernel = self._factored(each, view, stored if i == len(passes) - 1 else kept)
            if kernel is not None:
                made.append(replace(each, kernel=kernel))
            elif each.lines and each.taps.size > MOST_AT_ONCE and not (
                    each.taps.size <= MOST_EXACT and self._only_whole(each, view.dtype)):
                made += each.apart()
            else:
                made.append(each)
            steps = tuple(math.prod(view.shape[axis + 1:]) for axis in range(len(view.shape)))
            view = view._replace(dtype=kept, strides=steps)     # what a pass makes has no gaps
        return made

    def _factored(self, each: Pass, view: ArrayView, stored: DType) -> Kernel | None:
        """The kernel that takes the factors of a product, where that is quicker than the product; None for others."""
        if not each.lines or 1 in each.taps.shape or self.extras.algorithm != "auto" or exact(each, view.dtype):
            return None
        how = planes.seen(view.shape, each.axes)
        layer = _layer(how, view.dtype, stored, each.taps.shape, each.padding(how), each.border, each.cval, self.cast)
        return factored(layer, planes.seen_as(view, how.split) or view, self.extras.device,
                        always=each.taps.size > MOST_AT_ONCE, epilogue=each.steps)      # such are never made whole

    def _apply(self, source: int, each: Pass, dtype: DType, target: int | None = None, adds: int | None = None) -> int:
        """One pass over an array; the number of the array that has the result."""
        image = self.images[source]
        if each.kernel is not None:
            try:
                return self._by_factors(source, each, target, adds)
            except Misaligned:      # these addresses are for other kernels
                first, second = each.apart()
                return self._apply(self._apply(source, first, dtype), second, dtype, target, adds)
        each, epilogue = divided(each, image.view.dtype, dtype, self.target.whole)
        how = planes.seen(image.shape, each.axes)
        if target is None:
            how = planes.channels_last(image, each.axes) or how     # filtered as it lies in memory
        if dtype is not DType.INT32 and self._is_tall(each, how, image.view.dtype):     # which no floats are stored as
            as_floats = self._apply(source, identity(image.rank, axis=each.axes[0]), DType.FLOAT32)
            return self._apply(as_floats, replace(each, steps=(*epilogue, *each.steps)), dtype, target, adds)
        if target is None and how.turned is not None:
            target = self.room(dtype)
        weight = weights.of_channels(each, how, image.view)
        conv = conv3d_and_kernel if each.is_volume else conv2d_and_kernel
        kernel, made = conv(
            planes.shown(image.array, image.view, how), weight, groups=how.channels, padding=each.padding(how),
            padding_mode=each.border.value, padding_value=each.cval, layout=how.layout,
            epilogue=(*epilogue, *each.steps), residual=self._shown(adds, how), out=self._shown(target, how),
            out_dtype=dtype.value, cast=self.cast, **self.extras._asdict())
        return self._taken(Step(kernel, weight, source, how, target, how, adds, isinstance(each.taps, np.ndarray)),
                           made)

    @staticmethod
    def _only_whole(each: Pass, dtype: DType) -> bool:
        """Whether a product is exact as one filter alone: the sums between its axes are not float32's own."""
        return exact(each, dtype) and not exact(each, dtype, EXACT_IN_FLOAT32)

    def _is_tall(self, each: Pass, how: Seen, dtype: DType) -> bool:
        """Whether a filter of integers has more rows than their kernels take, and sums in float32 are the same."""
        if dtype.is_float or self.extras.algorithm != "auto" or each.is_volume or not isinstance(each.taps, np.ndarray):
            return False
        most = MOST_ROWS.get(how.channels if how.layout is Layout.NHWC else 1)
        return most is not None and each.size(how)[0] > most and not self._only_whole(each, dtype)

    def _by_factors(self, source: int, each: Pass, target: int | None, adds: int | None) -> int:
        """A pass by its kernel for factors. Raises Misaligned before anything is launched."""
        image = self.images[source]
        how = planes.seen(image.shape, each.axes)
        weight = weights.factors(each, how, image.view)
        made = each.kernel(planes.shown(image.array, image.view, how), weight, residual=self._shown(adds, how),
                           out=self._shown(target, how), stream=self.extras.stream)
        return self._taken(Step(each.kernel, weight, source, how, target, how, adds), made)

    def _shown(self, at: int | None, how: Seen) -> Any:
        """An array that a step writes or adds, as its layer sees it."""
        if at is None:
            return None
        array = self.target.array if at < 0 else self.images[at].array
        return planes.shown(array, arrays.view(array, "output"), how, "output")

    def _taken(self, step: Step, made: Any) -> int:
        """Note a step; the number of the array that it has written."""
        self.steps.append(step)
        if step.target is not None:
            return step.target
        return self.add(made.reshape(self.shape))

    def room(self, dtype: DType) -> int:
        """A new array of the input's shape."""
        room = Room(dtype)
        self.steps.append(room)
        return self.add(room.make(self.images[0].view, self.shape, self.extras.stream))

    def add(self, array: Any) -> int:
        """A further array that steps read."""
        self.images.append(Image(array, arrays.view(array, "input")))
        return len(self.images) - 1


@functools.lru_cache(maxsize=1024)
def _layer(how: Seen, dtype: DType, stored: DType, taps: tuple[int, ...], padding: Any, border: Border,
           cval: float, cast: str) -> ConvShape:
    return ConvShape.of(how.shape, (how.channels, 1, *taps), groups=how.channels, dtype=dtype, layout=how.layout,
                        padding=padding, padding_mode=border, padding_value=cval, out_dtype=stored, cast=cast)
