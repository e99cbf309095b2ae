"""Lists of images of differing sizes: read at once, and new ones made side by side in one array."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind, ArrayView
from warpconv.runtime.arrays.host import host_array
from warpconv.runtime.call import signatures
from warpconv.runtime.call.ragged import Places, host_view

from .planes import Image

APART = 256         # bytes: where a new image of a GPU begins is a multiple of them

_dtype = operator.attrgetter("dtype")


@dataclass(frozen=True)
class Images:
    """Images of one element type in one place: their ``shapes`` (n, rank), and where they lie. ``like`` is the first as
    memory, in the library of the list; new ones are parts of the array ``whole``."""

    shapes: np.ndarray
    places: Places
    like: ArrayView
    producers: tuple[int, ...] = ()     # streams on which they are being written, where their producers say so
    whole: Any = None

    @property
    def image(self) -> Image:
        """What plans look at: an image as large as the largest along each axis."""
        shape = tuple(self.shapes.max(0).tolist())
        return Image(self, self.like._replace(shape=shape, strides=c_strides(shape)))

    @property
    def gaps(self) -> np.ndarray:
        """Which of them have gaps, or axes in another order in memory."""
        told = (self.shapes > 1) & self.shapes.all(1, keepdims=True)
        return ((self.places.strides != _dense(self.shapes)) & told).any(1)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """First address of each image, and the one behind its last; equal for images without elements."""
        reach = (self.shapes - 1) * self.places.strides
        some = self.shapes.all(1)
        at = self.like.dtype.itemsize * np.stack([np.where(some, reach.clip(None, 0).sum(1), 0),
                                                  np.where(some, reach.clip(0, None).sum(1) + 1, 0)])
        first = self.places.memory.pointer + self.like.dtype.itemsize * self.places.offsets
        return first + at[0], first + at[1]


def check_given(values: Sequence[Any], outputs: Any) -> None:
    """Raises ArgumentError for no images, ShapeError for ``outputs``, where they are given, that are no list of as
    many."""
    if not values:
        raise ArgumentError("a batch has at least one image", argument="input", value=values, hint="a list of arrays")
    if outputs is not None and (not isinstance(outputs, (list, tuple)) or len(outputs) != len(values)):
        raise ShapeError("output has to be a list with an array for each image", argument="output",
                         value=len(outputs) if isinstance(outputs, (list, tuple)) else type(outputs).__name__,
                         hint=f"{len(values)} arrays, an element type, or None")


def check_apart(low: np.ndarray, high: np.ndarray) -> None:
    """Raises ArgumentError where two outputs share memory: first addresses and those behind the last, equal for
    arrays without elements."""
    order = np.flatnonzero(low < high)[np.argsort(low[low < high], kind="stable")]
    meets = high[order][:-1] > low[order][1:]
    if meets.any():
        pair = sorted(order[int(meets.argmax()):][:2].tolist())
        raise ArgumentError(f"outputs {pair[0]} and {pair[1]} share memory", argument="output", value=tuple(pair),
                            hint="give each memory of its own")


def read(values: Sequence[Any]) -> Images:
    """A list's images, one at least. Raises ArgumentTypeError and ShapeError where they are not alike."""
    first = Image.of(values[0]).view
    if first.kind is ArrayKind.NUMPY and _of_one_kind(values):
        alike("input", "element type", list(map(_dtype, values)))
        return _packed(_sizes(values, "input"), list(map(np.ravel, values)), first)
    if first.is_device:
        return where(values)
    views = [_viewed(i, value) for i, value in enumerate(values)]
    _check_alike(views, "input")
    whole = [view if view.contiguous else arrays.as_contiguous(value, view, "input")[1]
             for value, view in zip(values, views)]
    shapes = np.array([view.shape for view in views], np.int64)
    return _packed(shapes, [host_array(view).reshape(-1) for view in whole], first)


def where(values: Sequence[Any]) -> Images:
    """A list's images where they lie, those of the host too. Raises as ``read`` does."""
    first = Image.of(values[0]).view
    quick = _together(values, "input", first)
    if quick is not None:
        return quick
    views = [_viewed(i, value) for i, value in enumerate(values)]
    _check_alike(views, "input")
    return _in_place(views)


def meet(one: Images, other: Images) -> bool:
    """Whether any image of one list, none of which share memory with each other, shares memory with one of another."""
    (low, high), (first, last) = (ends[:, ends[0] < ends[1]] for ends in map(np.stack, (one.ends, other.ends)))
    order = np.argsort(low)
    low, high = low[order], high[order]
    return bool((np.searchsorted(low, last, "left") > np.searchsorted(high, first, "right")).any())


def outputs(values: Sequence[Any], dtypes: Sequence[DType]) -> Images:
    """The caller's arrays for results, where they lie. Raises ArgumentError, ArgumentTypeError and ShapeError for those
    that cannot be written, or are not alike."""
    first = arrays.view(values[0], "output", dtypes=dtypes, writable=True)
    quick = _together(values, "output", first)
    if quick is not None:
        return quick
    views = [arrays.view(value, "output", dtypes=dtypes, writable=True) for value in values]
    _check_alike(views, "output")
    return _in_place(views)


def _viewed(number: int, value: Any) -> ArrayView:
    try:
        return Image.of(value).view
    except (ArgumentError, ArgumentTypeError, ShapeError) as error:
        raise type(error)(f"image {number} of the batch: {error}", argument="input") from error


def _check_alike(views: Sequence[ArrayView], argument: str) -> None:
    alike(argument, "element type", [view.dtype.value for view in views])
    alike(argument, "place", [(view.kind.value, view.device) for view in views])
    alike(argument, "number of axes", [len(view.shape) for view in views], ShapeError)


def _of_one_kind(values: Sequence[Any]) -> bool:
    return all(map(operator.is_, map(type, values), itertools.repeat(type(values[0]))))


def _together(values: Sequence[Any], argument: str, first: ArrayView) -> Images | None:
    """PyTorch's and CuPy's arrays on a GPU, by few functions of theirs that each take all: a thousand in a third of a
    millisecond. None for others."""
    if not first.is_device or not _of_one_kind(values) or signatures.library(values[0]) is None:
        return None
    kind, itemsize = type(values[0]), first.dtype.itemsize
    torch = first.kind is ArrayKind.TORCH
    if torch and (any(map(operator.attrgetter("requires_grad"), values)) or any(map(kind.is_neg, values))):
        return None     # one by one, which says what is wrong
    alike(argument, "element type", list(map(_dtype, values)))
    alike(argument, "place", list(map(kind.get_device if torch else operator.attrgetter("data.device_id"), values)))
    shapes = _sizes(values, argument)
    if torch:
        pointers = list(map(kind.data_ptr, values))
        dense = all(map(kind.is_contiguous, values))
        strides = _dense(shapes) if dense else np.array(list(map(kind.stride, values)), np.int64)
    else:
        pointers = list(map(operator.attrgetter("data.ptr"), values))
        steps = np.array(list(map(operator.attrgetter("strides"), values)), np.int64)
        if (steps % itemsize).any():
            return None
        strides = steps // itemsize
    return _counted(shapes, strides, np.array(pointers, np.int64), first, tuple(values), argument)


def _sizes(values: Sequence[Any], argument: str) -> np.ndarray:
    shapes = list(map(operator.attrgetter("shape"), values))
    alike(argument, "number of axes", list(map(len, shapes)), ShapeError)
    rank = len(shapes[0])
    return np.fromiter(itertools.chain.from_iterable(shapes), np.int64, rank * len(shapes)).reshape(-1, rank)


def _packed(shapes: np.ndarray, rows: Sequence[np.ndarray], like: ArrayView) -> Images:
    """Images of host memory, copied side by side."""
    memory = host_view(np.concatenate(rows), like.dtype)
    return Images(shapes, Places(memory, _starts(shapes, 1), _dense(shapes)), like)


def _in_place(views: Sequence[ArrayView]) -> Images:
    """Images where they lie."""
    shapes, strides = (np.array([getattr(view, name) for view in views], np.int64) for name in ("shape", "strides"))
    pointers = np.array([view.pointer for view in views], np.int64)
    producers = {view.producer_stream for view in views}
    owners = tuple(view.owner for view in views)
    return _counted(shapes, strides, pointers, views[0], owners, "input", tuple(p for p in producers if p is not None))


def _counted(shapes: np.ndarray, strides: np.ndarray, pointers: np.ndarray, like: ArrayView, owners: tuple[Any, ...],
             argument: str, producers: tuple[int, ...] = ()) -> Images:
    """Images by their addresses, as places that count from the first with an element."""
    wrong = pointers % like.dtype.itemsize > 0
    if wrong.any():
        raise ArgumentError(f"elements of image {wrong.argmax()} are not aligned to {like.dtype.itemsize} bytes",
                            argument=argument, hint="copy the array")
    base = int(pointers[shapes.all(1).argmax()])
    memory = like._replace(pointer=base, shape=(1,), strides=(1,), owner=owners)
    return Images(shapes, Places(memory, (pointers - base) // like.dtype.itemsize, strides), like, producers)


def alike(argument: str, what: str, found: Sequence[Any], error: type = ArgumentTypeError) -> None:
    """Raises where one of the list's arrays differs from the first."""
    if found.count(found[0]) != len(found):
        odd = next(i for i, each in enumerate(found) if each != found[0])
        raise error(f"the images of a batch have one {what}, and that of image {odd} is not that of image 0",
                    argument=argument, value=(str(found[0]), str(found[odd])), hint="filter them in two batches")


# ---- new ones

def room(like: Images, dtype: DType, memory: ArrayView) -> Images:
    """Results on their way, side by side in ``memory``."""
    return Images(like.shapes, Places(memory, starts(like, dtype), _dense(like.shapes)), memory)


def elements(like: Images, dtype: DType) -> int:
    """Elements of the memory that results take."""
    return int(starts(like, dtype)[-1] + like.shapes[-1].prod())


def starts(like: Images, dtype: DType) -> np.ndarray:
    """Where results begin, in elements."""
    return _starts(like.shapes, 1 if like.places.memory.kind is ArrayKind.NUMPY else APART // dtype.itemsize)


def made(like: Images, dtype: DType, stream: int) -> Images:
    """New images of the list's library, shapes and GPU, which are parts of one array."""
    whole = arrays.empty(like.like, (elements(like, dtype),), dtype, stream=stream)
    view = arrays.view(whole, "output")
    memory = view if view.is_device else host_view(host_array(view), dtype)
    return Images(like.shapes, Places(memory, starts(like, dtype), _dense(like.shapes)), view, whole=whole)


def parts(images: Images) -> list[Any]:
    """New images as arrays. That takes as long as a kernel for all of them, so it is done when that has been queued."""
    whole, offsets, sizes = images.whole, images.places.offsets, list(map(tuple, images.shapes.tolist()))
    if images.like.kind is ArrayKind.TORCH:
        return list(map(type(whole).as_strided, itertools.repeat(whole), sizes,
                        map(tuple, images.places.strides.tolist()), offsets.tolist()))
    if images.like.kind is ArrayKind.CUPY:
        at = map(operator.add, itertools.repeat(whole.data), (images.like.dtype.itemsize * offsets).tolist())
        return list(map(type(whole), sizes, itertools.repeat(whole.dtype), at))
    ends = (offsets + images.shapes.prod(1)).tolist()
    return [whole[start:end].reshape(size) for start, end, size in zip(offsets.tolist(), ends, sizes)]


def _starts(shapes: np.ndarray, multiple: int) -> np.ndarray:
    """Where images begin that lie one behind the other, each at a ``multiple``."""
    sizes = -(-shapes.prod(1) // multiple) * multiple
    return np.cumsum(sizes) - sizes


def _dense(shapes: np.ndarray) -> np.ndarray:
    """Distances along the axes of images without gaps."""
    behind = np.ones_like(shapes)
    behind[:, :-1] = shapes[:, :0:-1].cumprod(1)[:, ::-1]
    return behind


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The same of one shape."""
    return tuple(_dense(np.array([shape], np.int64))[0].tolist())
