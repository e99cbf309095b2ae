"""What must be the same of two arrays for a check of the first to hold for the second: PyTorch's and CuPy's, on a GPU.

A signature holds the library, shape, strides, element type and GPU of an array, all but its address, and costs about
half a microsecond. Arrays of other libraries, subclasses, and tensors that a call would refuse have none.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

from warpconv.runtime.arrays import streams as array_streams

Signature = tuple["Library", Any, Any, Any, int]


class Library(Protocol):
    """One library's way to tell about its arrays; the same object in all signatures of its arrays."""

    shares_memory: bool     # whether an array may lie in memory of another context than the library works in

    def sign(self, array: Any) -> Signature | None:
        """None where the array is in host memory, or would be refused."""

    def pointer(self, array: Any) -> int: ...

    def stream(self, ordinal: int) -> int:
        """Handle of the library's current stream on a GPU."""

    def empty(self, like: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        """A new array of these strides and the library's ``dtype`` beside ``like``, whose GPU is the library's current
        one; None if it is not."""


class _Torch:
    shares_memory = False

    def __init__(self, torch: Any):
        self._grad = torch.is_grad_enabled
        self.stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or array_streams.torch_stream

    def sign(self, tensor: Any) -> Signature | None:
        ordinal = tensor.get_device()
        if ordinal < 0 or (tensor.requires_grad and self._grad()) or tensor.is_neg():
            return None
        try:
            return self, tensor.shape, tensor.stride(), tensor.dtype, ordinal
        except RuntimeError:        # sparse: the checked call says so
            return None

    def pointer(self, tensor: Any) -> int:
        return tensor.data_ptr()

    def empty(self, like: Any, shape: Any, strides: Any, dtype: Any) -> Any:
        return like.new_empty_strided(shape, strides, dtype=dtype)


class _Cupy:
    shares_memory = True

    def __init__(self, cupy: Any):
        self._ndarray = cupy.ndarray
        self._current = cupy.cuda.runtime.getDevice
        self.stream = array_streams.cupy_stream

    def sign(self, array: Any) -> Signature | None:
        return self, array.shape, array.strides, array.dtype, array.data.device_id

    def pointer(self, array: Any) -> int:
        return array.data.ptr

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


LIBRARIES: dict[type, Library] = {}      # by the exact type of an array, filled as they are met


def library(value: Any) -> Library | None:
    """The library of an array whose type is exactly PyTorch's or CuPy's, else None."""
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
    """The signature of an array, or None where it has none."""
    found = LIBRARIES.get(type(value)) or library(value)
    return None if found is None else found.sign(value)


def _parameter(torch: Any) -> Any:
    return getattr(getattr(torch, "nn", None), "Parameter", None)
