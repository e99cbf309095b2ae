"""Pitch: how far rows, planes and images of an array lie apart where there are gaps between them.

A crop of a larger image, an array whose rows are padded to a multiple of 512 bytes (cudaMallocPitch), some channels of
many: kernels made for such arrays take these distances as arguments, and read them where they are.
"""

from __future__ import annotations

import math

from .classes import dataclass
from .dtypes import DType, Layout
from .errors import ArgumentError

VECTOR_BYTES = 16       # of the widest load: no plan asks more of an address


@dataclass(frozen=True, kw_only=True)
class Pitch:
    """Distances, in elements, from a row to the next, from a plane (in NCHW the next channel's) and from an image.

    Columns follow each other without gaps; in NHWC so do the channels of a pixel, and ``plane`` is 1. A distance is 0
    where there is nothing further. ``alignment``: the bytes, up to 16, that the first element's address is a multiple
    of. Raises ArgumentError for what is no such distance or alignment.
    """

    row: int
    plane: int
    image: int
    alignment: int = VECTOR_BYTES

    def __post_init__(self) -> None:
        for name in ("row", "plane", "image"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise ArgumentError("a distance is a number of elements", argument=name, value=value,
                                    hint="0 or more; copy an array that goes backwards")
        if self.alignment not in (1, 2, 4, 8, 16):
            raise ArgumentError("addresses are multiples of a power of 2", argument="alignment", value=self.alignment,
                                hint="1, 2, 4, 8 or 16 bytes")

    @classmethod
    def dense(cls, sizes: tuple[int, ...], layout: Layout) -> Pitch:
        """That of an array without gaps, of these sizes (N, C, H, W) in this layout; of volumes (N, C, D, H, W)."""
        _, c, *image = sizes
        if layout is Layout.NHWC:
            return cls(row=image[-1] * c, plane=1, image=math.prod(image) * c)
        return cls(row=image[-1], plane=math.prod(image), image=c * math.prod(image))

    def reach(self, sizes: tuple[int, ...], layout: Layout) -> int:
        """Elements from the first to behind the last of an array of these sizes."""
        n, c, h, w = sizes
        across, planes = (w * c, 1) if layout is Layout.NHWC else (w, c)
        return (n - 1) * self.image + (planes - 1) * self.plane + (h - 1) * self.row + across

    def __str__(self) -> str:
        return f"rows {self.row}, planes {self.plane}, images {self.image} apart"


def together(pitch: Pitch | None, dtype: DType, layout: Layout) -> int:
    """What a vector's elements must divide so that all rows begin at a multiple of it: 0, which everything divides,
    for an array without gaps."""
    if pitch is None:
        return 0
    plane = 0 if layout is Layout.NHWC else pitch.plane
    return math.gcd(pitch.row, plane, pitch.image, max(1, pitch.alignment // dtype.itemsize))
