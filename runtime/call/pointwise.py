"""1x1x1 layers of volumes as 1x1 layers of images, whose rows are the rows of all planes: the products are the same,
and every algorithm for images serves them. Layers of float32 whose sums are too short for split factors are done so:
of the algorithms for volumes only loops are there for them, channels last."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.numerics import LEAST_PRODUCTS
from warpconv.runtime import arrays, env

from .recording import recording

_LIBRARIES = ("numpy", "torch", "cupy")     # whose arrays are reshaped without a copy where their memory allows it
_NO_PADDING = ("valid", "same")
PLAIN = ("stride", "padding", "dilation", "groups", "padding_mode", "padding_value")     # what is looked at of a layer


class Images(NamedTuple):
    """A call's arrays without an axis of planes; None where it has none."""

    weight: Any
    input: Any
    residual: Any
    out: Any


def as_images(order: Layout, geometry: dict[str, Any], weight: Any, input: Any, residual: Any = None,
              out: Any = None) -> Images | None:
    """The arrays of a layer that is one of images; None where it is another, its numbers or sizes do not go together (a
    call of volumes says how), arrays are recorded in a graph, or packs may have its kernel. ``out`` is the same
    memory."""
    if getattr(weight, "ndim", 0) != 5 or tuple(weight.shape[2:]) != (1, 1, 1) or not _is_plain(**geometry):
        return None
    there = [array for array in (weight, input, residual, out) if array is not None]
    if (recording.graph is not None or env.settings().pack
            or any(type(array).__module__.partition(".")[0] not in _LIBRARIES or array.ndim != 5 for array in there)):
        return None
    plane, channels = (1, 4) if order is Layout.NHWC else (2, 1)
    sizes, groups = [*input.shape], geometry["groups"]
    if (str(input.dtype).rpartition(".")[2] != "float32" or not 1 < weight.shape[1] < LEAST_PRODUCTS or not sizes[0]
            or weight.shape[0] % groups or weight.shape[1] * groups != sizes[channels]):
        return None
    sizes[channels] = weight.shape[0]
    if any(array is not None and [*array.shape] != sizes for array in (residual, out)):
        return None
    if out is not None:
        strides = arrays.view(out, "out").strides
        if strides[plane] != out.shape[plane + 1] * strides[plane + 1]:
            return None
    return Images(weight.reshape(*weight.shape[:3], 1), *(
        None if array is None else array.reshape(*merged(array.shape, plane)) for array in (input, residual, out)))


def merged(shape: Any, plane: int) -> tuple[int, ...]:
    """Sizes with those of planes and rows as one."""
    return (*shape[:plane], shape[plane] * shape[plane + 1], *shape[plane + 2:])


def as_volumes(made: Any, order: Layout, input: Any) -> Any:
    """An output of images as that of ``input``, a batch of volumes."""
    plane = 1 if order is Layout.NHWC else 2
    return made.reshape(*made.shape[:plane], *input.shape[plane:plane + 2], *made.shape[plane + 1:])


def _is_plain(stride: Any, padding: Any, dilation: Any, groups: Any, padding_mode: Any, padding_value: Any) -> bool:
    """Whether every output's window is the element at its place, and nothing of it is to be refused."""
    if isinstance(padding, str):
        padding = 0 if padding in _NO_PADDING else 1
    return (type(groups) is int and groups > 0 and padding_mode == "zeros" and padding_value == 0
            and all(type(number) is int and number == wanted
                    for value, wanted in ((stride, 1), (padding, 0), (dilation, 1)) for number in _numbers(value)))


def _numbers(value: Any) -> list[Any]:
    """The numbers of one value, or of one for each axis or side."""
    if not isinstance(value, (tuple, list)):
        return [value]
    if len(value) not in (1, 3):
        return [None]
    return list(itertools.chain.from_iterable(each if isinstance(each, (tuple, list)) else (each,) for each in value))
