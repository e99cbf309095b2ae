"""The sizes of a layer that are known only when a kernel is called."""

from __future__ import annotations

import enum
import math

from .classes import dataclass
from .shape import ConvShape


class Dimension(enum.Enum):
    """A size that is known only when the kernel is called; of arrays with gaps also how far rows, planes and images lie
    apart."""

    N = "N"
    H = "H"
    W = "W"
    P = "P"
    Q = "Q"
    X_ROW = "X_ROW"
    X_PLANE = "X_PLANE"
    X_IMAGE = "X_IMAGE"
    Y_ROW = "Y_ROW"
    Y_PLANE = "Y_PLANE"
    Y_IMAGE = "Y_IMAGE"
    D = "D"     # planes of volumes, and those of the output; of images 1
    Z = "Z"

    def of(self, shape: ConvShape) -> int:
        if self in (Dimension.D, Dimension.Z):
            return shape.depths[self is Dimension.Z]
        array, _, distance = self.value.lower().rpartition("_")
        size: int = getattr(getattr(shape, f"{array}_distances") if array else shape, distance)
        return size


# sizes of x and of y along the spatial axes, by how many these are
IMAGE = {2: (Dimension.H, Dimension.W), 3: (Dimension.D, Dimension.H, Dimension.W)}
OUTPUTS = {2: (Dimension.P, Dimension.Q), 3: (Dimension.Z, Dimension.P, Dimension.Q)}


@dataclass(frozen=True, kw_only=True)
class Length:
    """A number of elements: ``each`` times the values of ``by`` (the pixels of a batch: N, P and Q)."""

    each: int = 1
    by: tuple[Dimension, ...] = ()

    def __str__(self) -> str:
        return " * ".join([str(self.each)] * (self.each > 1 or not self.by) + [size.value for size in self.by])

    def count(self, shape: ConvShape | None) -> int:
        """In a layer; a length without sizes needs none."""
        if not self.by:
            return self.each
        assert shape is not None
        return self.each * math.prod(size.of(shape) for size in self.by)
