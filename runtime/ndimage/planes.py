"""Arrays of any library and rank as SciPy's calls take them: seen as a layer's input, and where the result goes."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import PIXELS

from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind, ArrayView
from warpconv.runtime.call.checks import same_memory

_RESHAPE = (ArrayKind.NUMPY, ArrayKind.TORCH, ArrayKind.CUPY)      # copies what cannot be seen in another shape
_CUDA = (2, 13)                                                    # DLPack's devices: CUDA, CUDA managed
_RANKS = {1: "a row, a plane or a stack", 2: "correlate1d and the other 1D calls take one axis",
          3: "layout='NHWC' means (..., height, width, channels)"}


@dataclass(frozen=True)
class Image:
    """An input: its array, the same as memory, and which of its axes the channels are (``layout``)."""

    array: Any
    view: ArrayView
    layout: Layout

    @classmethod
    def of(cls, value: Any, layout: Layout | str, least: int = 2) -> Image:
        """``value`` as an input of at least ``least`` axes. Raises ArgumentTypeError or ShapeError."""
        order = Layout.parse(layout)
        view = arrays.view(value, "input", dtypes=(*FLOATS, *PIXELS))
        least = 3 if order is Layout.NHWC else least
        if len(view.shape) < least:
            raise ShapeError(f"input has {len(view.shape)} axes, at least {least} are needed", argument="input",
                             value=view.shape, hint=_RANKS[least])
        return cls(value, view, order)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def rank(self) -> int:
        return len(self.view.shape)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the image's rows and columns (of columns alone where there is one axis)."""
        last = self.rank - (1 if self.layout is Layout.NHWC else 0)
        return tuple(range(max(0, last - 2), last))

    def axis(self, value: Any, argument: str = "axis") -> int:
        """An axis counted from the first. Raises ArgumentTypeError or ArgumentError."""
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise ArgumentTypeError("an axis is a whole number", argument=argument, value=value, hint="for instance -1")
        if not -self.rank <= value < self.rank:
            raise ArgumentError(f"input has {self.rank} axes", argument=argument, value=value,
                                hint=f"{-self.rank} to {self.rank - 1}")
        return int(value) % self.rank

    def planes_of(self) -> tuple[tuple[int, int, int, int], int]:
        """The shape of the layer's input, axes in the order of ``layout``, and its channels (each with the filter)."""
        if self.layout is Layout.NHWC:
            return (math.prod(self.shape[:-3]), *self.shape[-3:]), self.shape[-1]
        rows, columns = (1, *self.shape)[-2:]
        return (math.prod(self.shape[:-2]), 1, rows, columns), 1

    def lines_of(self, axis: int) -> tuple[int, int, int, int]:
        """The shape of one-channel planes whose rows lie along ``axis``."""
        return math.prod(self.shape[:axis]), 1, self.shape[axis], math.prod(self.shape[axis + 1:])


class Shown:
    """Memory of a GPU array without a library of its own here, seen in another shape (CUDA array interface)."""

    def __init__(self, view: ArrayView):
        if view.dtype is DType.BFLOAT16:
            raise ArgumentTypeError("the CUDA array interface has no bfloat16", argument="input",
                                    hint="use PyTorch tensors")
        self._owner = view.owner
        self.__cuda_array_interface__ = {
            "shape": view.shape, "typestr": np.dtype(view.dtype.value).str, "version": 3,
            "data": (view.pointer, view.readonly), "strides": tuple(s * view.dtype.itemsize for s in view.strides),
            "stream": None if view.producer_stream is None else view.producer_stream or 1}


def reshaped(value: Any, view: ArrayView, shape: tuple[int, ...], argument: str = "input") -> Any:
    """The array in another shape: the same memory wherever that can be, else a copy by its own library."""
    if view.kind in _RESHAPE:
        return value.reshape(shape)
    if view.device is None:     # host memory of a DLPack producer
        return np.from_dlpack(value).reshape(shape)
    shown = view.contiguous or view.dtype is not DType.BFLOAT16       # what Shown can tell
    seen = seen_as(view, shape) if shown else None
    if seen is None:
        value, view = arrays.as_contiguous(value, view, argument)
        seen = seen_as(view, shape)
    whole = view.contiguous and view.kind in (*_RESHAPE, ArrayKind.PYCUDA)
    return value.reshape(shape) if whole else Shown(seen)


def seen_as(view: ArrayView, shape: tuple[int, ...]) -> ArrayView | None:
    """The same memory in another shape, axes one after the other taken together and axes of 1 put in or left out; None
    where gaps between them forbid it."""
    left = [(extent, stride) for extent, stride in zip(view.shape, view.strides) if extent != 1][::-1]
    strides = []
    for wanted in reversed(shape):
        extent, stride = left.pop(0) if wanted != 1 and left else (1, 1)
        while extent < wanted and left and left[0][1] == extent * stride:
            extent *= left.pop(0)[0]
        if extent != wanted:
            return None
        strides.append(stride)
    return view._replace(shape=tuple(shape), strides=tuple(reversed(strides)))


def on_gpu(value: Any) -> bool:
    """Whether an array is in a GPU's memory, without reading it."""
    if isinstance(value, np.ndarray) or getattr(value, "is_cuda", None) is not None:
        return bool(getattr(value, "is_cuda", False))
    if hasattr(value, "__cuda_array_interface__"):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and device()[0] in _CUDA


@dataclass(frozen=True)
class Target:
    """Where a result goes: an array of the caller's, or a new one of this element type."""

    dtype: DType
    array: Any = None
    view: ArrayView | None = None

    @classmethod
    def of(cls, output: Any, image: Image) -> Target:
        """``output`` as SciPy takes it: None, an element type or an array.

        Raises ShapeError, ArgumentTypeError or ArgumentError for what the image's filter cannot be written to.
        """
        types = output_types(image.view.dtype)
        if output is None:
            return cls(image.view.dtype)
        if _is_dtype(output):
            return cls(_element(output, types))
        view = arrays.view(output, "output", dtypes=types, writable=True)
        if view.shape != image.shape:
            raise ShapeError("output has another shape than input", argument="output", value=view.shape,
                             hint=f"{image.shape}")
        same_memory(view, image.view, "output")
        if not view.contiguous and view.is_device:
            raise ArgumentError("output has gaps", argument="output", value=view.strides,
                                hint="give a contiguous array, or none and copy the result")
        return cls(view.dtype, output, view)

    @property
    def takes_results(self) -> bool:
        """Whether a kernel can write to the caller's array."""
        return self.view is not None and self.view.contiguous

    def overlaps(self, image: Image) -> bool:
        return self.view is not None and arrays.overlaps(self.view, image.view)

    def finished(self, result: Any) -> Any:
        """The caller's array (a host one, if it has gaps, filled from ``result``), or the result."""
        if self.array is None:
            return result
        if not self.takes_results:
            self.array[...] = result
        return self.array


def output_types(dtype: DType) -> tuple[DType, ...]:
    """The element types that filters of an input of ``dtype`` are stored as."""
    wider = (DType.FLOAT32, DType.FLOAT16)
    return (*PIXELS, DType.INT32, *wider) if dtype.is_integer else tuple(dict.fromkeys((dtype, *wider, *PIXELS)))


def empty(image: Image, shape: tuple[int, ...], dtype: DType, stream: Any) -> Any:
    """A new array of the input's library, to be written on ``stream`` (its library's, if None)."""
    handle = arrays.current_stream(image.view) if stream is None else arrays.stream_handle(stream)
    return arrays.empty(image.view, shape, dtype, stream=handle or 0)


def _is_dtype(output: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(output, (type, np.dtype, str)) or (torch is not None and isinstance(output, torch.dtype))


def _element(output: Any, types: tuple[DType, ...]) -> DType:
    name = str(output).removeprefix("torch.")
    if name not in {dtype.value for dtype in DType}:
        try:
            name = np.dtype(output).name
        except TypeError:
            raise ArgumentTypeError("no element type", argument="output", value=output,
                                    hint=f"one of {', '.join(t.value for t in types)}") from None
    for dtype in types:
        if dtype.value == name:
            return dtype
    raise ArgumentTypeError(f"results are not stored as {name} here", argument="output", value=name,
                            hint=f"one of {', '.join(t.value for t in types)}, then cast")
