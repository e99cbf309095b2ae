"""The flat description of an array that everything below the API works with."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from warpconv.codegen.dtypes import DType


class ArrayKind(enum.Enum):
    """Whose array it is."""

    NUMPY = "numpy"
    PYCUDA = "pycuda"
    TORCH = "torch"
    CUPY = "cupy"
    CUDA_ARRAY_INTERFACE = "cuda_array_interface"
    DLPACK = "dlpack"


class ArrayView(NamedTuple):
    """Memory as a kernel sees it; ``owner`` keeps it alive as long as the view lives. (A tuple, because one is made for
    every array of every call.)"""

    kind: ArrayKind
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]        # in elements
    dtype: DType
    device: int | None              # CUDA ordinal, None = host memory
    owner: object
    readonly: bool
    producer_stream: int | None = None      # where the memory is being written, if its producer says so

    @property
    def size(self) -> int:
        """Number of elements."""
        elements = 1
        for extent in self.shape:
            elements *= extent
        return elements

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def is_device(self) -> bool:
        """Whether the memory is a GPU's."""
        return self.device is not None

    @property
    def contiguous(self) -> bool:
        """C-contiguous; axes of one element may have any stride, as in NumPy."""
        if 0 in self.shape:
            return True
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    def overlaps_itself(self) -> bool:
        """Whether two elements lie at one address."""
        if self.contiguous:
            return False
        axes = sorted((abs(stride), extent) for stride, extent in zip(self.strides, self.shape) if extent > 1)
        reach = 1
        for stride, extent in axes:
            if stride < reach:          # axes that reach into each other's steps: then only all addresses tell
                return stride == 0 or _repeats(axes)
            reach += (extent - 1) * stride
        return False

    def transposed(self, order: tuple[int, ...]) -> ArrayView:
        """The same memory with its axes in another order, as numpy.transpose."""
        return self._replace(shape=tuple([self.shape[axis] for axis in order]),
                             strides=tuple([self.strides[axis] for axis in order]))

    def span(self) -> ArrayView:
        """All memory from the first element to the last, gaps too, as one row of elements."""
        low, high = self.byte_bounds()
        return self._replace(pointer=low, shape=((high - low) // self.dtype.itemsize,), strides=(1,))

    def byte_bounds(self) -> tuple[int, int]:
        """First address and the one behind the last that the elements lie in; equal for an empty array."""
        if self.contiguous:
            return self.pointer, self.pointer + self.nbytes
        if 0 in self.shape:
            return self.pointer, self.pointer
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides)]
        low = sum(step for step in reach if step < 0)
        high = sum(step for step in reach if step > 0) + 1
        return self.pointer + low * self.dtype.itemsize, self.pointer + high * self.dtype.itemsize


def _repeats(axes: list[tuple[int, int]]) -> bool:
    """Whether two elements of (stride, extent) axes have one address."""
    offsets = np.zeros(1, np.int64)
    for stride, extent in axes:
        offsets = np.add.outer(offsets, stride * np.arange(extent, dtype=np.int64)).reshape(-1)
    offsets.sort()
    return bool((offsets[1:] == offsets[:-1]).any())
