"""1x1x1 layers of volumes as 1x1 layers of images, whose rows are the rows of all planes: the products are the same,
and every algorithm for images serves them."""

from __future__ import annotations

import itertools
from typing import Any

from warpconv.codegen.dtypes import Layout
from warpconv.runtime import arrays

_LIBRARIES = ("numpy", "torch", "cupy")     # whose arrays are reshaped without a copy where their memory allows it
_NO_PADDING = ("valid", "same")


def as_images(order: Layout, stride: Any, padding: Any, groups: Any, weight: Any, input: Any, residual: Any,
              out: Any) -> list[Any] | None:
    """Filter, input, residual and output (None as they are) without an axis of planes; None where the layer is another,
    or sizes do not go together. The output is the same memory."""
    if getattr(weight, "ndim", 0) != 5 or tuple(weight.shape[2:]) != (1, 1, 1) or not _is_plain(stride, padding):
        return None
    given = (input, residual, out)
    there = [array for array in (weight, *given) if array is not None]
    if any(type(array).__module__.partition(".")[0] not in _LIBRARIES or array.ndim != 5 for array in there):
        return None
    plane, channels = (1, 4) if order is Layout.NHWC else (2, 1)
    sizes = [*input.shape]
    if type(groups) is not int or groups < 1 or weight.shape[0] % groups or not sizes[0] \
            or weight.shape[1] * groups != sizes[channels]:
        return None
    sizes[channels] = weight.shape[0]
    if any(array is not None and [*array.shape] != sizes for array in (residual, out)):
        return None
    if out is not None:
        strides = arrays.view(out, "out").strides
        if strides[plane] != out.shape[plane + 1] * strides[plane + 1]:
            return None
    return [weight.reshape(*weight.shape[:3], 1),
            *(None if array is None else array.reshape(*merged(array.shape, plane)) for array in given)]


def merged(shape: Any, plane: int) -> tuple[int, ...]:
    """Sizes with those of planes and rows as one."""
    return (*shape[:plane], shape[plane] * shape[plane + 1], *shape[plane + 2:])


def as_volumes(made: Any, order: Layout, input: Any) -> Any:
    """An output of images as that of ``input``, a batch of volumes."""
    plane = 1 if order is Layout.NHWC else 2
    return made.reshape(*made.shape[:plane], *input.shape[plane:plane + 2], *made.shape[plane + 1:])


def _is_plain(stride: Any, padding: Any) -> bool:
    """Whether every output's window is the element at its place; what is no such number is another function's to
    refuse."""
    if isinstance(padding, str):
        padding = 0 if padding in _NO_PADDING else 1
    return all(type(number) is int and number == wanted for value, wanted in ((stride, 1), (padding, 0))
               for number in _numbers(value))


def _numbers(value: Any) -> list[Any]:
    """The numbers of one value, or of one for each axis or side."""
    if not isinstance(value, (tuple, list)):
        return [value]
    if len(value) not in (1, 3):
        return [None]
    return list(itertools.chain.from_iterable(each if isinstance(each, (tuple, list)) else (each,) for each in value))
