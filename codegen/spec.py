"""KernelSpec: which kernel serves a layer; what is baked into its source, and so the shape key of every cache.

Baked in: everything about the filter and the geometry (C, K, R, S, groups, stride, padding, dilation), the element
types, the layout, the epilogue, the algorithm, the GPU architecture and the width of the index arithmetic.
Arguments of the kernel: N, H and W (and with them P and Q), so one kernel serves every batch and every image size;
where the spec is ``pitched`` also how far rows, planes and images of x and y lie apart, so that it serves arrays with
gaps; of a border of one value that value.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Iterable
from dataclasses import field

from .border import Border, BorderValue
from .classes import dataclass
from .dtypes import Layout
from .epilogue import Epilogue, parse_epilogue
from .errors import ArgumentError
from .hardware import Arch, Hardware
from .layer import LARGEST_SIZE, Layer, describe_geometry, describe_types, fields_of, later
from .numerics import Numerics, Precision
from .shape import ConvShape

__all__ = ["Epilogue", "KernelSpec", "Numerics", "Operation", "index_bits", "parse_epilogue"]


class Operation(enum.Enum):
    """What is computed of the layer y = x * w: y, or the gradients of x, of w and of a bias from that of y, which have
    the shapes of what they are gradients of (docs/gradients.md); y of images that have sizes of their own
    (docs/batches.md)."""

    FORWARD = "forward"
    DATA_GRADIENT = "data_gradient"
    FILTER_GRADIENT = "filter_gradient"
    BIAS_GRADIENT = "bias_gradient"
    RAGGED = "ragged"

    @classmethod
    def parse(cls, value: Operation | str) -> Operation:
        """An operation by its name. Raises ArgumentError for another."""
        try:
            return cls(value)
        except ValueError:
            raise ArgumentError("unknown operation", argument="operation", value=value,
                                hint=f"one of {', '.join(o.value for o in cls)}") from None


@dataclass(frozen=True, kw_only=True)
class KernelSpec(Layer):
    """The kernel of an algorithm for a class of layers: any N, H and W. Equal specs and plan values give byte-identical
    source. KernelSpec.of makes one of a ConvShape.

    Attributes
    ----------
    c, k, r, s, t, stride, padding, dilation, groups, dtype, layout, padding_mode
        The layer's, as ConvShape has them.
    border_value : BorderValue
        What the value of a border 'constant' is beside the input's elements; the value is an argument.
    padding_value : float
        0. Kernels that older versions stored have their border's value in the text, and here.
    weight_dtype, out_dtype, cast, separable
        The layer's, too.
    algorithm : str
        A name of the registry.
    numerics : Numerics
        The arithmetic of products and sums.
    operation : Operation
        What is computed of the layer.
    epilogue : tuple of Epilogue
        Steps applied to each output.
    arch : Arch
        The GPU architecture that it is compiled for.
    index_bits : int
        32 or 64: the width of offsets, in bits.
    pitched : bool
        Whether the distances of rows, planes and images are arguments, so that arrays may have gaps.
    at_hand : Hardware, optional
        The GPU that plan values are chosen for, where one is known; not stored.
    """

    algorithm: str
    numerics: Numerics = Numerics.FLOAT32
    operation: Operation = Operation.FORWARD
    epilogue: tuple[Epilogue, ...] = ()
    arch: Arch
    index_bits: int = 32
    pitched: bool = later(False)
    border_value: BorderValue = later(BorderValue.ELEMENT)
    # the GPU at hand, where one is known: plan values are chosen for it, and it is no part of what is stored
    at_hand: Hardware | None = field(default=None, compare=False, metadata={"stored": False})

    def __post_init__(self) -> None:
        """The fields come from a ConvShape, which has checked them."""

    @classmethod
    def of(cls, shape: ConvShape, *, algorithm: str, arch: Arch, epilogue: Iterable[Epilogue] = (),
           numerics: Numerics = Numerics.FLOAT32, operation: Operation = Operation.FORWARD,
           at_hand: Hardware | None = None) -> KernelSpec:
        """The spec of ``algorithm`` for ``shape``; 64-bit index arithmetic only where an offset needs it, and integer
        arithmetic where the filter is of integers."""
        if numerics is Numerics.FLOAT32 and shape.w_dtype.is_integer:
            numerics = Numerics.INT32
        border_value = BorderValue.of(shape.padding_value, shape.dtype)
        return cls(algorithm=algorithm, arch=arch, numerics=numerics, operation=operation, epilogue=tuple(epilogue),
                   index_bits=index_bits(shape), pitched=shape.pitched, at_hand=at_hand, border_value=border_value,
                   **{**fields_of(shape), "padding_value": 0.0})

    @functools.cached_property      # planners ask thousands of times
    def hardware(self) -> Hardware:
        """The GPU that plan values are chosen for: the one at hand, else the architecture's largest common one."""
        return self.at_hand or Hardware.of(self.arch)

    @property
    def name(self) -> str:
        """A readable C identifier; not unique, the digest is."""
        return f"{self.algorithm}_{'x'.join(map(str, self.taps))}"

    def example_shape(self, *, n: int = 1, d: int = 64, h: int = 512, w: int = 512,
                      padding_value: float | None = None) -> ConvShape:
        """A layer that this kernel serves, with what are its arguments filled in: the sizes, and the value of a border
        that has one."""
        layer = fields_of(self)
        if self.padding_mode is Border.CONSTANT:
            layer["padding_value"] = self.border_example if padding_value is None else padding_value
        shape = ConvShape(n=n, d=d if self.is_volume else None, h=h, w=w, **layer)
        return shape.with_distances() if self.pitched else shape

    @property
    def border_example(self) -> float:
        """A value of a border 'constant' that this kernel takes."""
        return self.padding_value or self.border_value.example

    def takes_border(self, value: float) -> bool:
        """Whether this is a kernel for layers whose border has the value: any but 0 of a kind; that one which an older
        version's kernel has in its text."""
        if self.padding_mode is not Border.CONSTANT or self.padding_value:
            return value == self.padding_value
        return value != 0 and self.border_value.takes(BorderValue.of(value, self.dtype))

    def __str__(self) -> str:
        wide = ", 64-bit offsets" if self.index_bits == 64 else ""
        return f"{self.algorithm} for {self.arch}: {self.layer}{wide}"

    @property
    def layer(self) -> str:
        """The class of layers in words."""
        x, y = (", ".join(map(str, self.layout.stored(sizes)))
                for sizes in (("N", self.c, *"DHW"[-len(self.taps):]), ("N", self.k, *"ZPQ"[-len(self.taps):])))
        text = (f"x[{x}] * w[{', '.join(map(str, (self.k, self.channels, *self.taps)))}] -> y[{y}], "
                f"{describe_geometry(self)}, {describe_types(self)}")
        if self.layout is not Layout.NCHW:
            text += f" {self.layout.value}"
        if self.pitched:
            text += ", rows any distance apart"
        if self.numerics is Numerics.FLOAT16:
            text += f", {self.numerics.value} arithmetic"
        if self.numerics.precision is not Precision.FLOAT32:
            text += f", {self.numerics.value} products"
        if self.operation is not Operation.FORWARD:
            text += ("; of planes of differing sizes" if self.operation is Operation.RAGGED else
                     f"; its {self.operation.value.replace('_', ' ')}")
        if self.epilogue:
            text += f", then {', '.join(step.value for step in self.epilogue)}"
        return text


def index_bits(shape: ConvShape) -> int:
    """32 if every element offset of the layer's tensors, and a loop's step beyond it, fits an int, else 64."""
    padded = tuple(size + sum(pads) for size, pads in zip(shape.image, shape.padding))
    # a gradient writes the border for some; of volumes the offset of a window that begins before the array, and that of
    # its last tap, are planes and not rows further out
    image = padded if shape.padding_mode.reads_image or shape.is_volume else shape.image
    largest = max(shape.n * shape.c * math.prod(image), math.prod(shape.output_shape), shape.k * shape.reduction)
    if shape.is_volume:
        reached = (size + extent for size, extent in zip(shape.outputs, shape.extents))
        largest = max(largest, shape.n * shape.k * math.prod(reached))
    if shape.pitched:       # rows may lie far apart, those of the padding too
        sizes = shape.n, shape.c, padded[0], shape.w
        largest = max(largest, shape.x_distances.reach(sizes, shape.layout),
                      shape.y_distances.reach(shape.output_shape, shape.layout))
    return 32 if largest <= LARGEST_SIZE and _furthest(shape) < 2**31 else 64


def _furthest(shape: ConvShape) -> int:
    """How far a layer of images reaches: to the last tap, or output, of a window that ends beside the last image, where
    pixels have their channels side by side."""
    if shape.is_volume:     # index_bits has its windows among its sizes
        return 0
    (r, s), (h, w), (p, q) = shape.extents, shape.image, shape.outputs
    return max(shape.c * (shape.n * h * w + r * w + s), shape.k * (shape.n * p * q + r * q + s))
