"""Descriptors of tensors: what the tensor memory accelerator (TMA, sm_90 on) is told of an array whose boxes it copies.

A plan holds a ``Descriptor`` for each that its kernel takes: how the array is laid out, by sizes that a call fills in,
and what one copy brings. ``at`` makes the numbers of a call of it, ``refusal`` says which limit of the hardware they
are beyond. Limits: CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors" (im2col mode).
"""

from __future__ import annotations

import enum
import itertools
import math
import struct

from .classes import dataclass
from .dimension import Dimension, Length
from .dtypes import DType
from .layer import later
from .shape import ConvShape

C_TYPE = "TensorMap"        # of a kernel's parameter that is a descriptor
BYTES = 128                 # of a descriptor
ALIGNMENT = 16              # bytes, of the array's address and of all its distances
MOST_SIZE = 2**32           # elements along a dimension
MOST_DISTANCE = 2**40       # bytes, less one
MOST_BOX = 256              # elements of a box along a dimension, channels of a pixel
MOST_PIXELS = 1024          # of an im2col copy
MOST_STRIDE = 8             # from one pixel of a copy to the next
# Of the im2col walk, by the array's dimensions: where corners may lie, and how far a tap from the window's first
CORNERS = {4: range(-128, 128), 5: range(-16, 16)}
MOST_OFFSET = {4: 255, 5: 31}
SWIZZLES = (0, 32, 64, 128)
MOST_COORDINATE = 2**31 - 1
MOST_WINDOWS = 2**31 - 1024     # that kernels count, and those of a tile behind the last

_PACKED = struct.Struct("<Q4B8B5I4Q5I3i3iI")     # what the CPU device takes in place of a descriptor


class Walk(enum.Enum):
    """What one copy brings."""

    TILED = "tiled"         # a box
    IM2COL = "im2col"       # channels of pixels, one tap of as many windows, over rows, planes of volumes, and images


@dataclass(frozen=True, kw_only=True)
class TensorMap:
    """The numbers of one call's descriptor; dimensions from the innermost on, ``distances`` in bytes."""

    dtype: DType
    walk: Walk
    sizes: tuple[int, ...]
    distances: tuple[int, ...]
    box: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    strides: tuple[int, ...]
    swizzle: int
    rounded: bool = False

    @property
    def nbytes(self) -> int:
        """Of the array."""
        return self.sizes[-1] * self.distances[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """From one element of a copy to the next, along each dimension."""
        return _steps(self.strides, len(self.sizes))

    def packed(self, address: int) -> bytes:
        """The 128 bytes that the CPU device takes in a descriptor's place."""
        im2col = self.walk is Walk.IM2COL
        numbers = (*_filled(self.steps, 8), *_filled(self.sizes, 5), *_filled(self.distances, 4), *_filled(self.box, 5),
                   *_filled(self.lower, 3), *_filled(self.upper, 3))
        data = _PACKED.pack(address, len(self.sizes), im2col, self.dtype.itemsize, self.swizzle, *numbers, self.rounded)
        return data.ljust(BYTES, b"\0")


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """What a kernel is told of an array by a parameter of its own.

    Attributes
    ----------
    argument : str
        The parameter, of Role.DESCRIPTOR.
    of : str
        The argument whose array it describes.
    dtype : DType
        The array's elements.
    sizes : tuple of Length
        The array's dimensions as the copies see them, the innermost first; they lie without gaps.
    box : tuple of int
        Elements along each dimension within which those of a copy lie, as the driver counts them; of an im2col copy its
        channels and pixels.
    walk : Walk
        What one copy brings.
    lower, upper : tuple of int
        Columns, rows and of volumes planes by which the walk of windows begins and ends beside the image (im2col).
    strides : tuple of int
        The same from one window to the next, or from one element of a box to the next.
    reach : tuple of int
        The same from a window's first tap to its last (im2col).
    windows : Length or None
        Outputs that the kernel counts by 32-bit numbers, where there may be more.
    swizzle : int
        Bytes of a row of shared memory within which 16-byte cells change places.
    rounded : bool
        Whether float32 elements are rounded to TF32 as they come.
    """

    argument: str
    of: str
    dtype: DType
    sizes: tuple[Length, ...]
    box: tuple[int, ...]
    walk: Walk = Walk.TILED
    lower: tuple[int, ...] = (0, 0)
    upper: tuple[int, ...] = (0, 0)
    strides: tuple[int, ...] = (1, 1)
    swizzle: int = 128
    rounded: bool = later(False)
    reach: tuple[int, ...] = later((0, 0))
    windows: Length | None = later(None)

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        elements = "float32 rounded to TF32" if self.rounded else self.dtype.value
        text = (f"{self.argument}: {self.of} as ({sizes}) of {elements}, the innermost first, "
                f"{self.walk.value}, ")
        if self.walk is Walk.TILED:
            text += f"boxes of {' x '.join(map(str, self.box))}"
            if max(self.strides) > 1:
                text += f", element strides {', '.join(map(str, _steps(self.strides, len(self.sizes))))}"
        else:
            text += (f"{self.box[0]} channels of {self.box[1]} pixels, corners ({', '.join('WHD'[:len(self.lower)])}) "
                     f"{self.lower} and {self.upper}, strides {', '.join(map(str, (1, *self.strides, 1)))}")
        return f"{text}, {self.swizzle}-byte swizzle, zeros outside"

    def at(self, shape: ConvShape | None) -> TensorMap:
        """The numbers for a layer."""
        sizes = tuple(length.count(shape) for length in self.sizes)
        distances = tuple(itertools.accumulate(sizes[:-1], lambda a, b: a * b, initial=self.dtype.itemsize))[1:]
        return TensorMap(dtype=self.dtype, walk=self.walk, sizes=sizes, distances=distances, box=self.box,
                         lower=self.lower, upper=self.upper, strides=self.strides, swizzle=self.swizzle,
                         rounded=self.rounded)

    @property
    def demand(self) -> str:
        """What the array's distances ask of a call's sizes, in words; empty where nothing."""
        each = self.dtype.itemsize
        by: tuple[Dimension, ...] = ()
        for length in self.sizes[:-1]:
            each, by = each * length.each, (*by, *length.by)
            unit = ALIGNMENT // math.gcd(ALIGNMENT, each)
            if by and unit > 1:
                return f"{' * '.join(size.value for size in by)} a multiple of {unit}"
        return ""

    def refusal(self, shape: ConvShape | None = None) -> str | None:
        """Which limit the descriptor is beyond, in words, or None; without a layer those that no size decides."""
        reason = self._box_refusal() or (self._walk_refusal() if self.walk is Walk.IM2COL else None)
        if reason is None and (shape is not None or not any(length.by for length in self.sizes)):
            reason = self._size_refusal(self.at(shape))
        if reason is None and shape is not None and self.windows and self.windows.count(shape) > MOST_WINDOWS:
            reason = f"{self.windows.count(shape)} windows (at most 2^31 - 1024)"
        return None if reason is None else f"a descriptor of {self.of} cannot have {reason}"

    def _box_refusal(self) -> str | None:
        inner = self.box[0] * self.dtype.itemsize
        if inner % ALIGNMENT:
            return f"rows of {inner} bytes (a multiple of {ALIGNMENT})"
        if self.swizzle and inner > self.swizzle:
            return f"rows of {inner} bytes under a swizzle of {self.swizzle} (no more than it)"
        if self.rounded and self.dtype is not DType.FLOAT32:
            return f"elements of {self.dtype.value} rounded to TF32 (float32 ones are)"
        along = self.box if self.walk is Walk.TILED else self.box[:1]
        if not all(1 <= n <= MOST_BOX for n in along):
            return f"boxes of {' x '.join(map(str, along))} elements (1 to {MOST_BOX} along each dimension)"
        if not all(1 <= stride <= MOST_STRIDE for stride in self.strides):
            words = ("columns", "rows", "planes")
            apart = " and ".join(f"{stride} {word}" for stride, word in list(zip(self.strides, words))[::-1])
            return f"strides of {apart} (1 to {MOST_STRIDE})"
        each = self.sizes[0].each * self.dtype.itemsize
        if each % ALIGNMENT and not self.sizes[0].by:
            return f"pixels {each} bytes apart (a multiple of {ALIGNMENT})"
        return None

    def _walk_refusal(self) -> str | None:
        if not 1 <= self.box[1] <= MOST_PIXELS:
            return f"{self.box[1]} pixels a copy (1 to {MOST_PIXELS})"
        corners, furthest = CORNERS[len(self.sizes)], MOST_OFFSET[len(self.sizes)]
        for corner in (*self.lower, *self.upper):
            if corner not in corners:
                return f"a corner of {corner} pixels ({corners[0]} to {corners[-1]}): padding, filter or dilation"
        if max(self.reach) > furthest:
            return f"taps {max(self.reach)} pixels from a window's first (at most {furthest}): filter or dilation"
        return None

    def _size_refusal(self, made: TensorMap) -> str | None:
        for size in made.sizes:
            if not 1 <= size <= MOST_SIZE:
                return f"{size} elements along a dimension (1 to 2^32)"
        if made.sizes[-1] > MOST_COORDINATE or max(made.sizes) > MOST_COORDINATE:
            return f"{max(made.sizes)} elements along a dimension that coordinates of 32 bits reach"
        for distance in made.distances:
            if distance % ALIGNMENT:
                asked = f": {self.demand}" if self.demand else ""
                return f"distances of {distance} bytes (a multiple of {ALIGNMENT}{asked})"
            if distance >= MOST_DISTANCE:
                return f"distances of {distance} bytes (less than 2^40)"
        return None


def _steps(strides: tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    """``strides``, of columns, rows and planes, as steps along all dimensions: channels before them, images behind."""
    return (1, *strides, 1) if max(strides) > 1 else (1,) * dimensions


def _filled(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * (count - len(values)))
