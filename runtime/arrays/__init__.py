"""Arrays of any library, in and out: the names that the rest of the package uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

from .factories import as_contiguous, can_copy_into, copy_into, empty, numpy_dtype
from .readers import recognise
from .streams import current_stream, stream_handle
from .view import ArrayKind, ArrayView

__all__ = ["ArrayKind", "ArrayView", "as_contiguous", "can_copy_into", "copy_into", "current_stream", "empty",
           "numpy_dtype", "overlaps", "stream_handle", "view"]


def view(value: Any, argument: str, *, dtypes: Sequence[DType] | None = None, ndim: int | None = None,
         writable: bool = False, stream: int | None = None) -> ArrayView:
    """``value`` as an ArrayView; ``argument`` is its name in error messages.

    ``stream`` is the stream it will be used on, told to DLPack producers so that they make it wait for their work (the
    default stream if None). Raises ArgumentTypeError for what is no array or of an element type not among ``dtypes``,
    ShapeError for a rank other than ``ndim``, ArgumentError for memory that cannot be used (read-only though
    ``writable``, misaligned, elements that share memory though ``writable``).
    """
    result = recognise(value, argument, stream)
    if dtypes is not None and result.dtype not in dtypes:
        raise ArgumentTypeError(f"elements must be {' or '.join(t.value for t in dtypes)}", argument=argument,
                                value=result.dtype.value, hint=_cast(result.dtype, dtypes))
    if ndim is not None and len(result.shape) != ndim:
        raise ShapeError(f"{argument} has {len(result.shape)} axes, {ndim} are needed",
                         argument=argument, value=result.shape,
                         hint="add axes of length 1, e.g. array[None, None] for one plane" if len(result.shape) < ndim
                         else "take one array out, or reshape")
    if result.pointer % result.dtype.itemsize:
        raise ArgumentError(f"elements are not aligned to {result.dtype.itemsize} bytes", argument=argument,
                            hint="copy the array")
    if writable:
        _check_writable(result, argument)
    return result


def overlaps(a: ArrayView, b: ArrayView) -> bool:
    """Whether the two may share memory (their address ranges do); never for different GPUs or host and GPU."""
    if a.device != b.device:
        return False
    (a_low, a_high), (b_low, b_high) = a.byte_bounds(), b.byte_bounds()
    return max(a_low, b_low) < min(a_high, b_high)


def _cast(given: DType, wanted: Sequence[DType]) -> str:
    bits = given is DType.UINT16 and (DType.BFLOAT16 in wanted or DType.INT16 in wanted)
    return "cast the array first" + (", or .view(ml_dtypes.bfloat16) if it holds such elements' bits" if bits else "")


def _check_writable(result: ArrayView, argument: str) -> None:
    if result.readonly:
        raise ArgumentError("the array is read-only", argument=argument, hint="give one that can be written")
    if result.overlaps_itself():
        raise ArgumentError("elements share memory (a broadcast axis, or strides that meet), so they cannot be written",
                            argument=argument, value=result.strides, hint="give an array of its own memory")
