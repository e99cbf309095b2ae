"""One of SciPy's calls done: its passes as launches of kernels, each of which can be repeated as it was (recipes)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView
from warpconv.runtime.call.checks import Misaligned
from warpconv.runtime.call.conv import conv2d_and_kernel, factored
from warpconv.runtime.call.kernel import Kernel

from . import planes, weights
from .lines import Pass, between, check_between, divided, exact, identity
from .planes import Image, Seen
from .target import Target

# A whole filter of two axes is taken up to this many taps. Beyond it, the products cost more than storing and reading
# the image once more: at 11 x 11, 121 multiply-adds an output are as long as its 8 bytes take twice on an H200.
MOST_AT_ONCE = 121


class Extras(NamedTuple):
    """What conv2d is told besides the layer."""

    device: str = "auto"
    stream: Any = None
    algorithm: str = "auto"


class Passes(NamedTuple):
    """What a call does: passes one over the other's result or, if ``summed``, all over the image and then added."""

    each: Sequence[Pass]
    summed: bool = False


@dataclass(frozen=True)
class Room:
    """An array made without a value: of the input's shape, or ``count`` of them one after the other."""

    dtype: DType
    count: int | None = None

    def make(self, like: ArrayView, shape: tuple[int, ...], stream: Any) -> Any:
        handle = arrays.current_stream(like) if stream is None else arrays.stream_handle(stream)
        front = () if self.count is None else (self.count,)
        return arrays.empty(like, (*front, *shape), self.dtype, stream=handle or 0)


@dataclass(frozen=True)
class Step:
    """A launch of a kernel: which array is read, by its number (0: the input), and how; which is written (None: a new
    one, -1: the caller's), and which part of it."""

    kernel: Kernel
    weight: Any
    source: int
    reads: Seen
    target: int | None = None
    writes: Seen | None = None
    part: int | None = None
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
        self.steps: list[Step | Room] = []

    def do(self, passes: Passes) -> Any:
        """The call's result. Raises before anything is launched or written."""
        if 0 in self.shape:
            return self.finished(self._room(self.target.dtype))
        if passes.summed:
            return self._summed(list(passes.each))
        return self._chained(list(passes.each) or [identity(len(self.shape))])

    def _chained(self, passes: list[Pass]) -> Any:
        """The passes, one over the other's result, each stored as the output's type."""
        image, target = self.images[0], self.target
        if len(passes) == 1 and target.takes_results and target.overlaps(image):
            passes.append(identity(image.rank))     # a result of its own first, then copied
        passes = self._parts(passes)
        at = 0
        if len(passes) > 1:
            kept = check_between(target.dtype, between(target.dtype, passes[:-1], image.view.dtype))
            for each in passes[:-1]:
                at = self._apply(at, each, kept)
        return self.finished(self._apply(at, passes[-1], target.dtype, self._last))

    def _summed(self, passes: list[Pass]) -> Any:
        """The sum of passes over one image, each stored as the output's type, as the sum is."""
        dtype, image = self.target.dtype, self.images[0]
        fits = {between(dtype, [each], image.view.dtype) for each in passes}
        kept = check_between(dtype, fits.pop() if len(fits) == 1 else None)
        parts = self._room(kept, len(passes))
        for i, each in enumerate(passes):
            self._apply(0, each, kept, parts, i)
        rows = (1, len(passes), math.prod(self.shape[:-1]), self.shape[-1])
        one = identity(len(self.shape))
        how = Seen(rows, Layout.NCHW, len(passes))
        weight = weights.of_channels(one, how, self.images[parts].view).reshape(1, len(passes), 1, 1)
        return self.finished(self._convolve(parts, how, weight, one, dtype, (), self._last, None,
                                            Seen((1, 1, *rows[2:]), Layout.NCHW, 1), groups=1))

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

    def _parts(self, passes: list[Pass]) -> list[Pass]:
        """The passes, of which some become the 1D filters that they are the product of: decided here alone.

        A product is done at once where a kernel takes its factors, or where its taps are few.
        """
        view, stored, made = self.images[0].view, self.target.dtype, []
        kept = between(stored, passes[:-1], view.dtype) or stored
        for i, each in enumerate(passes):
            kernel = self._factored(each, view, stored if i == len(passes) - 1 else kept)
            if kernel is not None:
                made.append(replace(each, kernel=kernel))
            elif each.lines and each.taps.size > MOST_AT_ONCE:
                made += map(Pass.along, each.lines)
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
        layer = _layer(how, view.dtype, stored, each.taps.shape, each.padding(how), each.border, each.cval)
        return factored(layer, planes.seen_as(view, how.split) or view, self.extras.device,
                        always=each.taps.size > MOST_AT_ONCE)       # such are never made whole

    def _apply(self, source: int, each: Pass, dtype: DType, target: int | None = None, part: int | None = None) -> int:
        """One pass over an array; the number of the array that has the result."""
        image = self.images[source]
        if each.kernel is not None:
            try:
                return self._by_factors(source, each, target, part)
            except Misaligned:      # these addresses are for other kernels
                first, second = map(Pass.along, each.lines)
                return self._apply(self._apply(source, first, dtype), second, dtype, target, part)
        each, epilogue = divided(each, image.view.dtype, dtype)
        how = planes.seen(image.shape, each.axes)
        if target is None:
            how = planes.channels_last(image, each.axes) or how     # filtered as it lies in memory
            if how.turned is not None:
                target = self._room(dtype)
        weight = weights.of_channels(each, how, image.view)
        return self._convolve(source, how, weight, each, dtype, epilogue, target, part, how, groups=how.channels)

    def _by_factors(self, source: int, each: Pass, target: int | None, part: int | None) -> int:
        """A pass by its kernel for factors. Raises Misaligned before anything is launched."""
        image = self.images[source]
        how = planes.seen(image.shape, each.axes)
        weight = weights.factors(each, how, image.view)
        made = each.kernel(planes.shown(image.array, image.view, how), weight, out=self._out(target, part, how),
                           stream=self.extras.stream)
        return self._taken(Step(each.kernel, weight, source, how, target, how, part), made)

    def _convolve(self, source: int, how: Seen, weight: Any, each: Pass, dtype: DType, epilogue: tuple[str, ...],
                  target: int | None, part: int | None, writes: Seen, *, groups: int) -> int:
        image = self.images[source]
        kernel, made = conv2d_and_kernel(
            planes.shown(image.array, image.view, how), weight, groups=groups, padding=each.padding(how),
            padding_mode=each.border.value, padding_value=each.cval, layout=how.layout.value, epilogue=epilogue,
            out=self._out(target, part, writes), out_dtype=dtype.value, cast="truncate", **self.extras._asdict())
        fixed = isinstance(each.taps, np.ndarray)
        return self._taken(Step(kernel, weight, source, how, target, writes, part, fixed), made)

    def _out(self, target: int | None, part: int | None, how: Seen) -> Any:
        """Where a step writes, as its layer sees it."""
        if target is None:
            return None
        array = self.target.array if target < 0 else self.images[target].array
        array = array if part is None else array[part]
        return planes.shown(array, arrays.view(array, "output"), how, "output")

    def _taken(self, step: Step, made: Any) -> int:
        """Note a step; the number of the array that it has written."""
        self.steps.append(step)
        if step.target is not None:
            return step.target
        return self._add(made.reshape(self.shape))

    def _room(self, dtype: DType, count: int | None = None) -> int:
        room = Room(dtype, count)
        self.steps.append(room)
        return self._add(room.make(self.images[0].view, self.shape, self.extras.stream))

    def _add(self, array: Any) -> int:
        self.images.append(Image(array, arrays.view(array, "input")))
        return len(self.images) - 1


@functools.lru_cache(maxsize=1024)
def _layer(how: Seen, dtype: DType, stored: DType, taps: tuple[int, int], padding: Any, border: Border,
           cval: float) -> ConvShape:
    return ConvShape.of(how.shape, (how.channels, 1, *taps), groups=how.channels, dtype=dtype, layout=how.layout,
                        padding=padding, padding_mode=border, padding_value=cval, out_dtype=stored, cast="truncate")
