"""Tensor maps on the CPU device: what a kernel gets in place of the driver's, checked as the driver would."""

from __future__ import annotations

import struct

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import KernelFault

from .report import Buffer

BYTES = 128                                  # of a parameter `const __grid_constant__ TensorMap`
ALIGNMENT = 64                               # which the compiler copies it by
_LAYOUT = struct.Struct("<Q 4B 8B 5I 4Q 5I 3i 3i I")      # struct wcpu_tensor_map of device/abi.h
_MOST_BOX, _MOST_PIXELS, _MOST_STRIDE = 256, 1024, 8
_CORNERS = {4: range(-128, 128), 5: range(-16, 16)}      # of im2col, by the array's dimensions


@dataclass(frozen=True)
class TensorMap:
    """An argument that describes a buffer: the fields of ``struct wcpu_tensor_map``, packed.

    The address in ``packed`` counts from the buffer's first byte: the launch adds where it has put the buffer.
    """

    buffer: Buffer
    packed: bytes

    def at(self, address: int, entry: str) -> bytes:
        """The parameter's bytes for a buffer at ``address``. Raises KernelFault where a driver would refuse the map, or
        where it names memory beyond the buffer."""
        fields = self._fields(entry)
        _check(fields, self.buffer, entry)
        packed = _LAYOUT.pack(fields.offset + address, *_LAYOUT.unpack_from(self.packed)[1:])
        return packed.ljust(BYTES, b"\0")

    def _fields(self, entry: str) -> _Fields:
        if len(self.packed) > BYTES or len(self.packed) < _LAYOUT.size:
            raise KernelFault(f"bad launch: a tensor map of {len(self.packed)} bytes", kind="descriptor", entry=entry)
        offset, rank, im2col, element, swizzle, *rest = _LAYOUT.unpack_from(self.packed)
        return _Fields(offset, rank, bool(im2col), element, swizzle, tuple(rest[:8]), tuple(rest[8:13]),
                       tuple(rest[13:17]), tuple(rest[17:22]), tuple(rest[22:25]), tuple(rest[25:28]), bool(rest[28]))


@dataclass(frozen=True)
class _Fields:
    """Dimensions innermost first; strides of dimensions 1 and on in bytes."""

    offset: int
    rank: int
    im2col: bool
    element_bytes: int
    swizzle: int
    element_strides: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    rounded: bool

    @property
    def bytes_named(self) -> int:
        """From the first element to behind the last."""
        return (sum((size - 1) * stride for size, stride in zip(self.sizes[1:self.rank], self.strides))
                + self.sizes[0] * self.element_bytes)


def _check(map_: _Fields, buffer: Buffer, entry: str) -> None:
    def need(holds: bool, words: str) -> None:
        if not holds:
            raise KernelFault(f"the tensor map of buffer '{buffer.name}' {words}", kind="descriptor", entry=entry)

    dimensions = range(map_.rank)
    need(2 <= map_.rank <= 5, f"has {map_.rank} dimensions; copies have 2 to 5")
    need(map_.element_bytes in (1, 2, 4, 8), f"has elements of {map_.element_bytes} bytes")
    need(map_.swizzle in (0, 64, 128), f"swizzles rows of {map_.swizzle} bytes; here are 0, 64 and 128")
    need(map_.offset % 16 == 0, f"begins {map_.offset} bytes into it; an address is a multiple of 16")
    for i in dimensions[1:]:
        stride = map_.strides[i - 1]
        need(stride % 16 == 0 and stride < 2**40,
             f"has a stride of {stride} bytes; strides are multiples of 16 below 2^40")
    for i in dimensions:
        need(map_.sizes[i] >= 1, f"has size 0 in dimension {i}")
    need(not map_.rounded or map_.element_bytes == 4,
         f"rounds elements of {map_.element_bytes} bytes to TF32; they have 4")
    if map_.im2col:
        need(map_.rank in _CORNERS, f"is of im2col with {map_.rank} dimensions; here are 4 and 5")
        channels, pixels = map_.box[:2]
        need(1 <= channels <= _MOST_BOX and 1 <= pixels <= _MOST_PIXELS,
             f"copies {channels} channels of {pixels} pixels; the most are {_MOST_BOX} and {_MOST_PIXELS}")
        corners = _CORNERS[map_.rank]
        for corner in (*map_.lower[:map_.rank - 2], *map_.upper[:map_.rank - 2]):
            need(corner in corners, f"has a corner at {corner}; corners lie in {corners[0]} .. {corners[-1]}")
    else:
        for i in dimensions:
            need(1 <= map_.box[i] <= _MOST_BOX, f"has a box of {map_.box[i]} in dimension {i}; it has 1 to {_MOST_BOX}")
        need(map_.element_strides[0] == 1,
             f"has element stride {map_.element_strides[0]} in its innermost dimension, where there is none but 1")
    for stride in map_.element_strides[:map_.rank]:
        need(1 <= stride <= _MOST_STRIDE, f"has element stride {stride}; they are 1 to {_MOST_STRIDE}")
    row = map_.box[0] * map_.element_bytes
    need(row % 16 == 0, f"copies rows of {row} bytes, which are no multiple of 16")
    need(not map_.swizzle or row <= map_.swizzle,
         f"copies rows of {row} bytes, more than the {map_.swizzle} swizzled ones")
    need(map_.offset >= 0 and map_.offset + map_.bytes_named <= buffer.array.nbytes,
         f"names {map_.bytes_named} bytes from byte {map_.offset} of its {buffer.array.nbytes}")
