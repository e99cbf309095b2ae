"""What must be the same of two arrays for a check of the first to hold for the second: PyTorch's and CuPy's on a GPU,
NumPy's in host memory.

A signature holds the shape, strides, element type and GPU of an array, all but its address, and costs about half a
microsecond. Arrays of other libraries, subclasses, and arrays that a call would refuse have none.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from warpconv.runtime.arrays import streams as array_streams

Signature = tuple[Any, ...]


class Library(Protocol):
    """One library's way to tell about its arrays; one object for each."""

    pointer: Callable[[Any], int]       # an array's address
    stream: Callable[[int], int]        # handle of the library's current stream on a GPU

    def transforms(self) -> bool:
        """Whether something else than what ``sign`` asks for (casts, transforms) comes between a call and its
        arrays."""

    def sign(self, array: Any) -> Signature | None:
        """(shape, strides, element type, GPU or None); None for the whole where the array would be refused."""

    def sign_beside(self, array: Any) -> Signature | None:
        """The same of a further array of a call: what holds for all of a call's arrays is not asked again."""

    def sign_output(self, array: Any) -> Signature | None:
        """And of one that is to be written."""

    def empty(self, like: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        """A new array of these strides and the library's ``dtype`` beside ``like``, whose GPU is the library's current
        one; None if it is not, or there is no memory."""

    def whole(self, array: Any) -> Any:
        """The array without gaps, its last axis innermost: a copy where it is not so."""


def _never() -> bool:
    return False


class _Torch:
    def __init__(self, torch: Any):
        self._grad = torch.is_grad_enabled
        state = torch._C
        self._tracing, self._modes = state._get_tracing_state, state._len_torch_dispatch_stack
        self._casts, self._functions = state._is_any_autocast_enabled, state._are_functorch_transforms_active
        self._forward = torch.autograd.forward_ad
        self.stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or array_streams.torch_stream
        self.pointer = torch.Tensor.data_ptr

    def transforms(self) -> bool:
        return self._casts() or self._functions() or self._forward._current_level >= 0

    def sign(self, tensor: Any) -> Signature | None:
        return None if self._modes() or self._tracing() is not None else self.sign_beside(tensor)

    def sign_beside(self, tensor: Any) -> Signature | None:
        ordinal = tensor.get_device()
        if ordinal < 0 or (tensor.requires_grad and self._grad()) or tensor.is_neg():
            return None
        try:
            return tensor.shape, tensor.stride(), tensor.dtype, ordinal
        except RuntimeError:        # sparse: the checked call says so
            return None

    sign_output = sign_beside

    def empty(self, like: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        return like.new_empty_strided(shape, strides, dtype=dtype)

    def whole(self, tensor: Any) -> Any:
        return tensor.contiguous()


class _Cupy:
    def __init__(self, cupy: Any):
        self._ndarray = cupy.ndarray
        self._current = cupy.cuda.runtime.getDevice
        self.stream = array_streams.cupy_stream
        self.pointer = operator.attrgetter("data.ptr")

    transforms = staticmethod(_never)

    def sign(self, array: Any) -> Signature | None:
        return array.shape, array.strides, array.dtype, array.data.device_id

    sign_beside = sign_output = sign

    def empty(self, like: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        if self._current() != like.data.device_id:
            return None
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        return self._ndarray(shape, dtype, self._allocate(nbytes), strides)

    @staticmethod
    def _allocate(nbytes: int) -> Any:
        return sys.modules["cupy"].cuda.alloc(nbytes)

    def whole(self, array: Any) -> Any:
        return sys.modules["cupy"].ascontiguousarray(array)


class _Numpy:
    @staticmethod
    def pointer(array: Any) -> int:
        return array.__array_interface__["data"][0]

    @staticmethod
    def stream(ordinal: Any) -> int:
        return 0

    transforms = staticmethod(_never)

    def sign(self, array: Any) -> Signature | None:
        return array.shape, array.strides, array.dtype, None

    sign_beside = sign

    def sign_output(self, array: Any) -> Signature | None:
        return (array.shape, array.strides, array.dtype, None) if array.flags.writeable else None

    def empty(self, like: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        try:
            return np.ndarray(shape, dtype, None, 0, strides)
        except MemoryError:
            return None

    def whole(self, array: Any) -> Any:
        return np.ascontiguousarray(array)


LIBRARIES: dict[type, Library] = {np.ndarray: _Numpy()}      # by the exact type of an array, filled as they are met


def library(value: Any) -> Library | None:
    """The library of an array whose type is exactly NumPy's, PyTorch's or CuPy's, else None."""
    kind = type(value)
    found = LIBRARIES.get(kind)
    if found is None:
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if torch is not None and kind in (getattr(torch, "Tensor", None), _parameter(torch)):
            found = LIBRARIES.get(torch.Tensor) or _Torch(torch)
        elif cupy is not None and kind is getattr(cupy, "ndarray", None):
            found = _Cupy(cupy)
        if found is not None:
            LIBRARIES[kind] = found
    return found


def sign(value: Any) -> Signature | None:
    """An array's library and signature, or None where it has none."""
    found = library(value)
    signed = None if found is None else found.sign(value)
    return None if signed is None else (found, *signed)


def sign_call(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> tuple[Library | Signature | None, ...] | None:
    """The library and the signatures of a call's arrays, None for each that is not there (``w``: a Filter stands in its
    place); None for the whole where an array has none, or is another library's."""
    found = LIBRARIES.get(type(x)) or library(x)
    if found is None or (x_sign := found.sign(x)) is None:
        return None
    w_sign = b_sign = r_sign = y_sign = None
    if w is not None and ((LIBRARIES.get(type(w)) or library(w)) is not found or (
            w_sign := found.sign_beside(w)) is None):
        return None
    if bias is not None and (
            (LIBRARIES.get(type(bias)) or library(bias)) is not found or (
                b_sign := found.sign_beside(bias)) is None):
        return None
    if residual is not None and (
            LIBRARIES.get(type(residual)) is not found or (r_sign := found.sign_beside(residual)) is None):
        return None
    if out is not None and (LIBRARIES.get(type(out)) is not found or (y_sign := found.sign_output(out)) is None):
        return None
    return found, x_sign, w_sign, b_sign, r_sign, y_sign


def _parameter(torch: Any) -> Any:
    return getattr(getattr(torch, "nn", None), "Parameter", None)
