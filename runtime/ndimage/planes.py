"""Arrays of any library and rank, seen as a layer's input whose rows and columns (of three: planes, rows and columns)
are the axes of a filter."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentTypeError, ShapeError
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.shape import PIXELS
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind, ArrayView, axes as array_axes

FEW_CHANNELS = 16       # elements behind a line's axis that are taken as the channels of pixels, not as columns

_RESHAPE = (ArrayKind.NUMPY, ArrayKind.TORCH, ArrayKind.CUPY)      # copies what cannot be seen in another shape
_CONVERTED = ("bool", "int32", "uint32", "int64", "uint64", "float64")      # where dtype= asks for it
_CUDA = (2, 13)                                                    # DLPack's devices: CUDA, CUDA managed


@dataclass(frozen=True)
class Image:
    """An input of any rank from 1: its array, and the same as memory."""

    array: Any
    view: ArrayView

    @classmethod
    def of(cls, value: Any) -> Image:
        """``value`` as an input. Raises ArgumentTypeError or ShapeError."""
        try:
            view = arrays.view(value, "input", dtypes=(*FLOATS, *PIXELS))
        except ArgumentTypeError as error:
            name = str(getattr(value, "dtype", "")).removeprefix("torch.")
            if name not in _CONVERTED:
                raise
            raise ArgumentTypeError(f"no kernel reads {name}", argument="input", value=name,
                                    hint="dtype='float32' filters it as float32; the result is "
                                         f"{name} then, unless output= names another type") from error
        if not view.shape:
            raise ShapeError("input has no axes", argument="input", value=view.shape, hint="give a row, or an image")
        return cls(value, view)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def rank(self) -> int:
        return len(self.view.shape)


class Seen(NamedTuple):
    """How an array is seen as a layer's input: reshaped to ``split``, its axes then turned by ``turned``, which gives
    four axes (five for a filter of three) in the order of ``layout``. A 1D filter runs along the rows' axis if
    ``upright``, else along a row."""

    split: tuple[int, ...]
    layout: Layout
    channels: int
    turned: tuple[int, ...] | None = None
    upright: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.split if self.turned is None else tuple(self.split[axis] for axis in self.turned)


@functools.lru_cache(maxsize=4096)
def seen(shape: tuple[int, ...], axes: tuple[int, ...]) -> Seen:
    """How a filter along one axis, along two (the first before the second), or along three with nothing between, sees
    an array of this shape.

    Two axes with one element behind them are rows and columns of planes; what lies behind are channels that come last,
    what lies between is passed over by its distance in memory. Raises ShapeError where that takes five axes.
    """
    extents = [shape[axis] for axis in axes]
    before, behind = math.prod(shape[:axes[0]]), math.prod(shape[axes[-1] + 1:])
    if len(axes) == 1:
        rows = next((axis for axis in reversed(range(axes[0])) if shape[axis] != 1), None)
        stack, rows = (before, 1) if rows is None else (math.prod(shape[:rows]), shape[rows])
        if behind == 1:
            return Seen((stack, 1, rows, *extents), Layout.NCHW, 1)
        if behind <= FEW_CHANNELS:
            return Seen((stack, rows, *extents, behind), Layout.NHWC, behind)
        return Seen((before, 1, *extents, behind), Layout.NCHW, 1, upright=True)
    if len(axes) == 3:
        if behind == 1:
            return Seen((before, 1, *extents), Layout.NCHW, 1)
        return Seen((before, *extents, behind), Layout.NHWC, behind)
    between = math.prod(shape[axes[0] + 1:axes[1]])
    if between == 1:
        if behind == 1:
            return Seen((before, 1, *extents), Layout.NCHW, 1)
        return Seen((before, *extents, behind), Layout.NHWC, behind)
    if behind == 1:
        return Seen((before, extents[0], between, extents[1]), Layout.NCHW, between, turned=(0, 2, 1, 3))
    if before != 1:
        raise ShapeError(f"a filter along axes {axes[0]} and {axes[1]} with more before, between and behind them "
                         "is not served", argument="axes", value=axes,
                         hint="numpy.moveaxis(input, ...) brings the axes side by side")
    return Seen((extents[0], between, extents[1], behind), Layout.NHWC, behind, turned=(1, 0, 2, 3))


def adjacent(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether nothing lies between axes, which are in order."""
    return math.prod(shape[axis] for axis in range(axes[0], axes[-1]) if axis not in axes) == 1


def channels_last(image: Image, axes: tuple[int, ...]) -> Seen | None:
    """How a filter of planes (C, H, W) or (N, C, H, W) sees memory in NHWC order: as it lies; None for other memory."""
    view, rank = image.view, image.rank
    if rank not in (3, 4) or view.contiguous or axes[0] < rank - 2:
        return None
    if rank == 3:
        view = view._replace(shape=(1, *view.shape), strides=(0, *view.strides))
    if array_axes.memory_order(Layout.NCHW, view) is not Layout.NHWC:
        return None
    return Seen(view.shape, Layout.NCHW, view.shape[1], upright=axes == (rank - 2,))


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


def shown(value: Any, view: ArrayView, how: Seen, argument: str = "input") -> Any:
    """The array as the layer sees it: the same memory wherever that can be, else a copy by its own library."""
    if how.turned is not None:      # kernels pass over what lies between the axes, not over other gaps
        value, view = arrays.as_contiguous(value, view, argument)
    if view.kind in _RESHAPE:
        return turned(value.reshape(how.split), how.turned)
    if view.device is None:     # host memory of a DLPack producer
        return turned(np.from_dlpack(value).reshape(how.split), how.turned)
    told = view.contiguous or view.dtype is not DType.BFLOAT16       # what Shown can tell
    found = seen_as(view, how.split) if told else None
    if found is None:
        value, view = arrays.as_contiguous(value, view, argument)
        found = seen_as(view, how.split)
    if how.turned is not None:
        return Shown(found.transposed(how.turned))
    whole = view.contiguous and view.kind in (*_RESHAPE, ArrayKind.PYCUDA)
    return value.reshape(how.split) if whole else Shown(found)


def turned(value: Any, order: tuple[int, ...] | None) -> Any:
    """An array of NumPy, PyTorch or CuPy with its axes in another order."""
    if order is None:
        return value
    return value.permute(order) if hasattr(value, "permute") else value.transpose(order)


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
    if isinstance(value, (np.ndarray, list, tuple)):
        return False
    if getattr(value, "is_cuda", None) is not None:
        return bool(value.is_cuda)
    if hasattr(value, "__cuda_array_interface__"):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and device()[0] in _CUDA
