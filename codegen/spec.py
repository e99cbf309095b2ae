"""KernelSpec: which kernel serves a layer; what is baked into its source, and so the shape key of every cache.

Baked in: everything about the filter and the geometry (C, K, R, S, groups, stride, padding, dilation), the element
types, the layout, the epilogue, the algorithm, the GPU architecture and the width of the index arithmetic.
Arguments of the kernel: N, H and W (and with them P and Q), so one kernel serves every batch and every image size;
where the spec is ``pitched`` also how far rows, planes and images of x and y lie apart, so that it serves arrays with
gaps.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from collections.abc import Iterable

from .hardware import Arch, Hardware
from .border import Border
from .dtypes import Cast, DType, Layout
from .epilogue import Epilogue, parse_epilogue
from .errors import ArgumentError
from .shape import ConvShape, LARGEST_SIZE, Pair, describe_geometry, describe_types, later, usual_weight

__all__ = ["Epilogue", "KernelSpec", "Numerics", "Operation", "index_bits", "parse_epilogue"]


class Operation(enum.Enum):
    """What is computed of the layer."""

    FORWARD = "forward"


class Numerics(enum.Enum):
    """The arithmetic of the products and sums. FLOAT16 is less accurate, and only done where it is asked for; INT32,
    exact while sums stay below 2^31, is that of integer filters."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT32 = "int32"

    @classmethod
    def parse(cls, value: Numerics | str, argument: str = "numerics") -> Numerics:
        if isinstance(value, cls):
            return value
        try:
            return cls(str(value))
        except ValueError:
            raise ArgumentError("unknown arithmetic", argument=argument, value=value,
                                hint=f"one of {', '.join(e.value for e in cls)}") from None


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """The kernel of ``algorithm`` for a class of layers; equal specs and plan values give byte-identical source."""

    algorithm: str
    c: int
    k: int
    r: int
    s: int
    stride: Pair
    padding: tuple[Pair, Pair]
    dilation: Pair
    groups: int
    dtype: DType
    layout: Layout
    numerics: Numerics = Numerics.FLOAT32
    operation: Operation = Operation.FORWARD
    epilogue: tuple[Epilogue, ...] = ()
    arch: Arch
    index_bits: int = 32
    padding_mode: Border = later(Border.ZEROS)
    padding_value: float = later(0.0)
    weight_dtype: DType | None = later(None)
    out_dtype: DType | None = later(None)
    cast: Cast = later(Cast.NEAREST)
    separable: bool = later(False)
    pitched: bool = later(False)
    # the GPU at hand, where one is known: plan values are chosen for it, and it is no part of what is stored
    at_hand: Hardware | None = field(default=None, metadata={"stored": False})

    @classmethod
    def of(cls, shape: ConvShape, *, algorithm: str, arch: Arch, epilogue: Iterable[Epilogue] = (),
           numerics: Numerics = Numerics.FLOAT32, at_hand: Hardware | None = None) -> KernelSpec:
        """The spec of ``algorithm`` for ``shape``; 64-bit index arithmetic only where an offset needs it, and integer
        arithmetic where the filter is of integers."""
        if numerics is Numerics.FLOAT32 and shape.w_dtype.is_integer:
            numerics = Numerics.INT32
        return cls(algorithm=algorithm, c=shape.c, k=shape.k, r=shape.r, s=shape.s, stride=shape.stride,
                   padding=shape.padding, dilation=shape.dilation, groups=shape.groups, dtype=shape.dtype,
                   layout=shape.layout, numerics=numerics, epilogue=tuple(epilogue), arch=arch,
                   index_bits=index_bits(shape), padding_mode=shape.padding_mode, padding_value=shape.padding_value,
                   weight_dtype=shape.weight_dtype, out_dtype=shape.out_dtype, cast=shape.cast,
                   separable=shape.separable, pitched=shape.pitched, at_hand=at_hand)

    @property
    def hardware(self) -> Hardware:
        """The GPU that plan values are chosen for: the one at hand, else the architecture's largest common one."""
        return self.at_hand or Hardware.of(self.arch)

    @property
    def channels(self) -> int:
        """Input channels a filter sums over: C / groups."""
        return self.c // self.groups

    @property
    def filters(self) -> int:
        """Filters of one group: K / groups."""
        return self.k // self.groups

    @property
    def name(self) -> str:
        """A readable C identifier; not unique, the digest is."""
        return f"{self.algorithm}_{self.r}x{self.s}"

    def example_shape(self, *, n: int = 1, h: int = 512, w: int = 512) -> ConvShape:
        """A layer that this kernel serves, with the sizes that are its arguments filled in."""
        shape = ConvShape(n=n, c=self.c, h=h, w=w, k=self.k, r=self.r, s=self.s, stride=self.stride,
                          padding=self.padding, dilation=self.dilation, groups=self.groups, dtype=self.dtype,
                          layout=self.layout, padding_mode=self.padding_mode, padding_value=self.padding_value,
                          weight_dtype=self.weight_dtype, out_dtype=self.out_dtype, cast=self.cast,
                          separable=self.separable)
        return shape.with_distances() if self.pitched else shape

    @property
    def w_dtype(self) -> DType:
        """The element type of the filter."""
        return self.weight_dtype or usual_weight(self.dtype, self.separable)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(K, C/groups, R, S), or (K, 1, 1, R + S) of a separable layer: the column's elements, then the row's."""
        return (self.k, 1, 1, self.r + self.s) if self.separable else (self.k, self.channels, self.r, self.s)

    @property
    def y_dtype(self) -> DType:
        """The element type of the output."""
        return self.out_dtype or self.dtype

    @property
    def border_literal(self) -> str:
        """The value outside of the image, as C has it in the kernel's arithmetic."""
        if self.numerics is Numerics.INT32:
            return str(int(self.padding_value))
        digits = f"{self.padding_value:.9g}"
        return f"{digits}f" if "." in digits or "e" in digits else f"{digits}.0f"

    @property
    def bias_dtype(self) -> DType:
        """The element type of a bias."""
        return usual_weight(self.dtype)

    def __str__(self) -> str:
        wide = ", 64-bit offsets" if self.index_bits == 64 else ""
        return f"{self.algorithm} for {self.arch}: {self.layer}{wide}"

    @property
    def layer(self) -> str:
        """The class of layers in words."""
        x, y = (", ".join(map(str, self.layout.stored(sizes)))
                for sizes in (("N", self.c, "H", "W"), ("N", self.k, "P", "Q")))
        text = (f"x[{x}] * w[{self.k}, {self.channels}, {self.r}, {self.s}] -> y[{y}], "
                f"{describe_geometry(self)}, {describe_types(self)}")
        if self.layout is not Layout.NCHW:
            text += f" {self.layout.value}"
        if self.pitched:
            text += ", rows any distance apart"
        if self.numerics is Numerics.FLOAT16:
            text += f", {self.numerics.value} arithmetic"
        if self.epilogue:
            text += f", then {', '.join(step.value for step in self.epilogue)}"
        return text


def index_bits(shape: ConvShape) -> int:
    """32 if every element offset of the layer's tensors, and a loop's step beyond it, fits an int, else 64."""
    n, c, h, w = shape.input_shape
    largest = max(n * c * h * w, n * shape.k * shape.p * shape.q, shape.k * shape.reduction)
    if shape.pitched:       # rows may lie far apart, those of the padding too
        rows = h + sum(shape.padding[0])
        largest = max(largest, shape.x_distances.reach((n, c, rows, w), shape.layout),
                      shape.y_distances.reach(shape.output_shape, shape.layout))
    return 32 if largest <= LARGEST_SIZE else 64
