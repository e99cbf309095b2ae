"""Filters of SciPy's calls as convolutions: one pass over the image, or several with what SciPy stores between them."""

from __future__ import annotations

import atexit
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.border import Border, border_value
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.shape import INTEGER_WEIGHTS, LARGEST_PADDING, ConvShape

from warpconv.runtime import arrays
from warpconv.runtime.arrays import axes, elements
from . import planes
from warpconv.runtime.arrays import ArrayView
from warpconv.runtime.call.checks import Misaligned
from warpconv.runtime.call.conv import conv2d, factored
from warpconv.runtime.call.kernel import Kernel
from .planes import Image, Target

# A whole filter of two axes is taken up to this many taps. Beyond it, the products cost more than storing and reading
# the image once more: at 11 x 11, 121 multiply-adds an output are as long as its 8 bytes take twice on an H200.
MOST_AT_ONCE = 121
MOST_FACTORED = 128         # taps of a factor; the kernels that take factors have fewer

EXACT_IN_FLOAT32 = 2**24    # whole numbers up to here are float32's own
INT32_ENDS = 2**31
MOST_UPLOADS = 256

_uploads: dict[tuple[_Upload, bytes], Any] = {}
atexit.register(_uploads.clear)     # GPU memory goes before the libraries that own it


class Extras(NamedTuple):
    """What conv2d is told besides the layer."""

    device: str = "auto"
    stream: Any = None
    algorithm: str = "auto"


@dataclass(frozen=True)
class Line:
    """A 1D filter (float64) along an axis; ``divisor``: the sum is divided by it, for integers exactly."""

    taps: np.ndarray
    axis: int
    origin: int
    border: Border
    cval: float
    divisor: int = 1


@dataclass(frozen=True)
class Pass:
    """One filter over the image: ``taps`` (R, S) over its rows and columns, or (R, 1) along ``axis``; float64 on the
    host, or an array of the input's library on its GPU. ``lines``: 1D filters whose product it is, in SciPy's order;
    ``kernel``: one that takes them as factors."""

    taps: Any
    origins: tuple[int, int]
    border: Border
    cval: float
    axis: int | None = None
    divisor: int = 1
    lines: tuple[Line, ...] = ()
    kernel: Kernel | None = None

    @classmethod
    def along(cls, line: Line, image: Image) -> Pass:
        """A 1D filter as a pass; rows and columns of the image are filtered as such, other axes as rows."""
        taps, rest = line.taps.reshape(-1, 1), (line.border, line.cval)
        if line.axis == image.axes[-1]:
            return cls(taps.T, (0, line.origin), *rest, divisor=line.divisor)
        axis = None if line.axis in image.axes else line.axis
        return cls(taps, (line.origin, 0), *rest, axis=axis, divisor=line.divisor)

    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]]:
        sides = [(size // 2 + origin, size - size // 2 - 1 - origin) for size, origin in zip(self.taps.shape,
                                                                                           self.origins)]
        return sides[0], sides[1]


IDENTITY = Pass(np.ones((1, 1)), (0, 0), Border.ZEROS, 0.0)


def border_of(mode: Any, cval: Any) -> tuple[Border, float]:
    """A border by SciPy's name, and its value (0 where it has none). Raises ArgumentError or ArgumentTypeError."""
    border = Border.named(mode, "scipy")
    return border, border_value(cval, "cval") if border is Border.CONSTANT else 0.0


def check_origin(origin: Any, size: int) -> int:
    """An origin by SciPy's rule: the filter's centre stays on the filter. Raises ArgumentTypeError, ArgumentError."""
    if not isinstance(origin, (int, np.integer)) or isinstance(origin, bool):
        raise ArgumentTypeError("an origin is a whole number", argument="origin", value=origin, hint="for instance 0")
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ArgumentError(f"the origin would shift a filter of {size} off its centre", argument="origin",
                            value=int(origin), hint=f"{-(size // 2)} to {(size - 1) // 2}")
    if size // 2 + abs(origin) > LARGEST_PADDING:
        raise ArgumentError(f"a filter of {size} taps is too long", argument="weights", value=size,
                            hint=f"at most {2 * LARGEST_PADDING}")
    return int(origin)


def of_lines(lines: Sequence[Line], image: Image, dtype: DType) -> list[Pass]:
    """1D filters, one after the other, as passes; two over rows and columns as one where the result is the same.

    SciPy stores, and casts, between the axes, so it is the same for floats but for rounding, and for integers if all is
    whole (then modulo 2^bits). What stands outside of the second filter's input is a pixel that the first has filtered,
    but for a constant border its value, not filtered.
    """
    if dtype.is_float:
        lines = [line if line.divisor == 1 else replace(line, taps=line.taps / line.divisor, divisor=1)
                 for line in lines]
    if (len(lines) == 2 and {line.axis for line in lines} == set(image.axes)
            and max(len(line.taps) for line in lines) <= MOST_FACTORED):
        first, second = lines
        rows, columns = sorted(lines, key=lambda line: line.axis)
        at_once = Pass(np.outer(rows.taps, columns.taps), (rows.origin, columns.origin), first.border, first.cval,
                       lines=(first, second))
        outside = first.border is not Border.CONSTANT or not first.cval or abs(first.taps.sum() - 1) < 1e-12
        stored = dtype.is_float or (exact(at_once, image.view.dtype) and _whole(first.taps) and _whole(second.taps))
        if first.border is second.border and outside and stored and first.divisor == second.divisor == 1:
            return [at_once]
    return [Pass.along(line, image) for line in lines]


def run(image: Image, passes: Sequence[Pass], target: Target, extras: Extras) -> Any:
    """The passes, one over the other's result, each stored as the output's type. Returns the output."""
    if 0 in image.shape:
        return target.finished(planes.empty(image, image.shape, target.dtype, extras.stream))
    passes = list(passes) or [IDENTITY]
    if len(passes) == 1 and target.takes_results and target.overlaps(image):
        passes.append(IDENTITY)     # a result of its own first, then copied
    passes = [part for each in passes for part in _parts(image, each, target.dtype, extras)]
    between = DType.FLOAT32 if target.dtype is DType.FLOAT16 else target.dtype      # SciPy has no float16 to follow
    for each in passes[:-1]:
        image = _stored(image, each, between, extras)
    out = target.array if target.takes_results else None
    return target.finished(_apply(image, passes[-1], target.dtype, out, extras))


def add(image: Image, passes: Sequence[Pass], target: Target, extras: Extras) -> Any:
    """The sum of passes over one image, each stored as the output's type, as the sum is."""
    if 0 in image.shape:
        return run(image, (), target, extras)
    _check_between(target.dtype)
    parts = planes.empty(image, (len(passes), *image.shape), target.dtype, extras.stream)
    for i, each in enumerate(passes):
        _apply(image, each, target.dtype, parts[i], extras)
    shape = (1, len(passes), math.prod(image.shape[:-1]), image.shape[-1])
    weight = _weight(IDENTITY, arrays.view(parts, "input"), len(passes)).reshape(1, len(passes), 1, 1)
    out = _seen(target.array, (1, 1, *shape[2:])) if target.takes_results else None
    made = conv2d(parts.reshape(shape), weight, out=out, out_dtype=target.dtype.value, cast="truncate",
                  **extras._asdict())
    return target.finished(made.reshape(image.shape) if out is None else out)


def exact(each: Pass, dtype: DType) -> bool:
    """Whether a filter of an image of ``dtype`` is summed exactly in int32: whole numbers that cannot overflow."""
    if dtype.is_float or not isinstance(each.taps, np.ndarray) or not _whole(each.taps):
        return False
    largest = max(map(abs, dtype.limits))
    if each.border is Border.CONSTANT:
        if each.cval != int(each.cval) or abs(each.cval) > EXACT_IN_FLOAT32:
            return False
        largest = max(largest, abs(int(each.cval)))
    return float(np.abs(each.taps).sum()) * largest < INT32_ENDS        # whole numbers, exact in float64


def _whole(taps: np.ndarray) -> bool:
    return bool(np.all(taps == np.rint(taps)) and np.all(np.abs(taps) < INT32_ENDS))


def _parts(image: Image, each: Pass, dtype: DType, extras: Extras) -> list[Pass]:
    """A pass itself, or the 1D filters that it is the product of: the one place where this is decided.

    A product is done at once where a kernel takes its factors, or where its taps are few.
    """
    kernel = _factored(image, each, dtype, extras)
    if not each.lines or each.taps.size <= MOST_AT_ONCE or kernel is not None:
        return [each if kernel is None else replace(each, kernel=kernel)]
    return [Pass.along(line, image) for line in each.lines]


def _factored(image: Image, each: Pass, dtype: DType, extras: Extras) -> Kernel | None:
    """The kernel that takes the factors of a product, where that is quicker than the product; None for others."""
    if not each.lines or 1 in each.taps.shape or extras.algorithm != "auto" or exact(each, image.view.dtype):
        return None
    shape, channels = image.planes_of()
    layer = _layer(shape, image.layout, channels, image.view.dtype, dtype, each.taps.shape, each.padding, each.border,
                   each.cval)
    view = planes.seen_as(image.view, shape) or image.view
    return factored(layer, view, extras.device, always=each.taps.size > MOST_AT_ONCE)     # such are never made whole


@functools.lru_cache(maxsize=1024)
def _layer(shape: tuple[int, ...], layout: Layout, channels: int, dtype: DType, stored: DType, taps: tuple[int, int],
           padding: Any, border: Border, cval: float) -> ConvShape:
    return ConvShape.of(shape, (channels, 1, *taps), groups=channels, dtype=dtype, layout=layout, padding=padding,
                        padding_mode=border, padding_value=cval, out_dtype=stored, cast="truncate")


def _stored(image: Image, each: Pass, dtype: DType, extras: Extras) -> Image:
    """The image behind one pass, in memory of its own."""
    _check_between(dtype)
    made = _apply(image, each, dtype, None, extras)
    return Image(made, arrays.view(made, "input"), image.layout)


def _check_between(dtype: DType) -> None:
    if dtype is DType.INT32:
        raise ArgumentTypeError("this filter is done axis by axis, and no kernel reads int32 again", argument="output",
                                value=dtype.value, hint="output='int16' or 'float32', then cast")


def _apply(image: Image, each: Pass, dtype: DType, out: Any, extras: Extras) -> Any:
    """One pass; the result is ``out``, or a new array of the input's shape."""
    if each.kernel is not None:
        try:
            return _by_factors(image, each, out, extras)
        except Misaligned:      # these addresses are for other kernels
            first, second = (Pass.along(line, image) for line in each.lines)
            return _apply(_stored(image, first, dtype, extras), second, dtype, out, extras)
    each, epilogue = _divided(each, image.view.dtype, dtype)
    order = image.layout
    if each.axis is not None:
        order, shape, channels = Layout.NCHW, image.lines_of(each.axis), 1
    elif out is None and _channels_last(image):
        shape, channels = image.shape, image.shape[1]       # filtered as it lies in memory
    else:
        shape, channels = image.planes_of()
    made = conv2d(planes.reshaped(image.array, image.view, shape), _weight(each, image.view, channels), groups=channels,
                  padding=each.padding, padding_mode=each.border.value, padding_value=each.cval, layout=order.value,
                  epilogue=epilogue, out=_seen(out, shape), out_dtype=dtype.value, cast="truncate", **extras._asdict())
    return made.reshape(image.shape) if out is None else out


def _by_factors(image: Image, each: Pass, out: Any, extras: Extras) -> Any:
    """A pass by its kernel for factors. Raises Misaligned before anything is launched."""
    shape, channels = image.planes_of()
    made = each.kernel(planes.reshaped(image.array, image.view, shape), _factors(each, image.view, channels),
                       out=_seen(out, shape), stream=extras.stream)
    return made.reshape(image.shape) if out is None else out


def _seen(out: Any, shape: tuple[int, ...]) -> Any:
    """A contiguous output in the shape of the layer's, or None."""
    return None if out is None else planes.reshaped(out, arrays.view(out, "output"), shape, "output")


def _channels_last(image: Image) -> bool:
    """Whether axes (N, C, H, W) show memory in NHWC order."""
    return (image.layout is Layout.NCHW and image.rank == 4 and not image.view.contiguous
            and axes.memory_order(Layout.NCHW, image.view) is Layout.NHWC)


def _divided(each: Pass, dtype: DType, stored: DType) -> tuple[Pass, tuple[str, ...]]:
    """The pass with its divisor in the weights or, where whole numbers become whole numbers, behind the sum.

    There the sum is exact, below 2^24, so it is its own float32; its quotient is at least 1 / divisor below the next
    whole number, which is more than rounding (half a unit in the last place) moves it: what is truncated is right.
    """
    if each.divisor == 1:
        return each, ()
    whole = replace(each, divisor=1)
    if stored.is_float or not exact(whole, dtype):
        return replace(whole, taps=each.taps / each.divisor), ()
    if each.divisor * max(*map(abs, dtype.limits), abs(int(each.cval))) >= EXACT_IN_FLOAT32:
        raise ArgumentError("sums of so many integers are not exact in float32", argument="size", value=each.divisor,
                            hint="output='float32', or a smaller size")
    return whole, (f"expr(v / {each.divisor})",)


def _weight(each: Pass, view: ArrayView, channels: int) -> Any:
    """The filter of each channel, (C, 1, R, S), where the input is."""
    if not isinstance(each.taps, np.ndarray):
        taps = each.taps.reshape(1, 1, *each.taps.shape)
        if channels == 1:
            return taps
        return taps.repeat(channels, 1, 1, 1) if hasattr(taps, "is_cuda") else taps.repeat(channels, 0)
    made = _elements(each, view.dtype)
    made = np.ascontiguousarray(np.broadcast_to(made, (channels, 1, *made.shape)))
    return made if view.device is None else _uploaded(made, view)


def _factors(each: Pass, view: ArrayView, channels: int) -> Any:
    """The column and the row of a product as a separable kernel takes them, where the input is."""
    column, row = sorted(each.lines, key=lambda line: line.axis)
    flat = np.concatenate([column.taps, row.taps]).astype(np.float32)
    made = np.ascontiguousarray(np.broadcast_to(flat, (channels, 1, 1, len(flat))))
    return made if view.device is None else _uploaded(made, view)


def _elements(each: Pass, dtype: DType) -> np.ndarray:
    """A host filter as elements: the smallest integers that hold it where sums are exact, else floats."""
    if exact(each, dtype):
        least, most = int(each.taps.min()), int(each.taps.max())
        fits = next(t for t in INTEGER_WEIGHTS if t.limits[0] <= least and most <= t.limits[1])
        return each.taps.astype(fits.value)
    made = elements.stored(each.taps, dtype if dtype.is_float else DType.FLOAT32)
    if not np.array_equal(np.isfinite(made.astype(np.float32)), np.isfinite(each.taps)):
        raise ArgumentError(f"weights are too large for {made.dtype.name}", argument="weights",
                            value=float(np.abs(each.taps).max()), hint="scale them down")
    return made


class _Upload(NamedTuple):
    """Which memory a copy of a filter is for."""

    kind: arrays.ArrayKind
    device: int
    shape: tuple[int, ...]
    dtype: DType


def _uploaded(taps: np.ndarray, view: ArrayView) -> Any:
    """A host filter in memory of the view's library and GPU; copied once for all calls with its like."""
    dtype = DType.parse(taps.dtype.name)
    key = _Upload(view.kind, view.device, taps.shape, dtype), taps.tobytes()
    found = _uploads.get(key)
    if found is None:
        from warpconv.runtime.devices.cuda import contexts, memory, streams
        found = arrays.empty(view, taps.shape, dtype, stream=0)
        with contexts.activate(view.device, view.pointer):
            memory.copy_in(taps, arrays.view(found, "weights").pointer, 0)
            streams.synchronize(0)      # from now on any stream may read it
        if len(_uploads) >= MOST_UPLOADS:
            _uploads.clear()
        _uploads[key] = found
    return found


