"""Layer: all of a convolution layer but the sizes of its arrays. Here a field of a layer is spelt out, once.

A layer with its sizes is a ConvShape (shape.py), what is baked into a kernel a KernelSpec (spec.py): both inherit
these fields, and ``fields_of`` copies them from the one to the other.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import field, fields
from typing import Any

from .border import Border, border_value
from .classes import dataclass
from .dtypes import Cast, DType, Layout
from .errors import ArgumentError, ArgumentTypeError, ShapeError

# Sizes stay clear of 2^31 so that an index plus a step of a grid-stride loop (65535 blocks of at most 64 rows) never
# overflows an int in a kernel.
LARGEST_SIZE = 2**31 - 2**22
LARGEST_PADDING = 2**14

PIXELS = (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16)
INTEGER_WEIGHTS = (DType.INT8, DType.INT16, DType.INT32)
_WIDER = (DType.FLOAT32, DType.FLOAT16)      # outputs of integers
FLOATS = (*_WIDER, DType.BFLOAT16)

Pair = tuple[int, int]      # numbers of the two sides of an axis
Along = tuple[int, ...]     # one number for each spatial axis, the outermost first: (vertical, horizontal)
Sides = tuple[Pair, ...]    # the same of both sides: ((top, bottom), (left, right))


def later(default: Any) -> Any:
    """A field that layers stored by earlier versions do not have; in JSON its default is left out."""
    return field(default=default, metadata={"later": True})


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A filter w[K, C/groups, R, S] and how it meets an image, as torch.nn.functional.conv2d has it.

    ``stride`` and ``dilation`` are an int or (vertical, horizontal). ``padding`` is an int, (vertical, horizontal),
    ((top, bottom), (left, right)), ``"same"`` (stride 1 only; an odd total puts the extra row and column last) or
    ``"valid"``. ``layout`` is the order of x and y in memory (the filter is always K, C/groups, R, S).

    ``padding_mode``: what stands in the padding, a Border (torch's names, and "symmetric", "constant");
    ``padding_value`` is that of "constant". Images may be smaller than the padding in every mode.

    ``dtype`` is the input's element type. The filter's, ``weight_dtype``, is the same for floating-point inputs; for
    integers it is float32, or an integer type, whose products are summed exactly in int32. ``out_dtype`` is another
    type of the output: float32, float16, an integer type, of floats bfloat16, too; ``cast`` says how values become
    integers. Both are None where the type is the usual one (``w_dtype`` and ``y_dtype`` tell it). A bias is of the
    input's type, float32 for integers.

    ``separable``: each filter, of one channel, is the product of a column and a row, and the weight is these factors,
    float32 of (K, 1, 1, R + S): R elements of the column, then S of the row.

    ``t``: the planes of a filter w[K, C/groups, T, R, S] over volumes, as torch.nn.functional.conv3d has it; stride,
    padding and dilation then have a third entry, the depth's, which stands first. None: filters of images.
    """

    c: int
    k: int
    r: int
    s: int
    stride: Along = (1, 1)
    padding: Sides = ((0, 0), (0, 0))
    dilation: Along = (1, 1)
    groups: int = 1
    dtype: DType = DType.FLOAT32
    layout: Layout = Layout.NCHW
    padding_mode: Border = later(Border.ZEROS)
    padding_value: float = later(0.0)
    weight_dtype: DType | None = later(None)
    out_dtype: DType | None = later(None)
    cast: Cast = later(Cast.NEAREST)
    separable: bool = later(False)
    t: int | None = later(None)

    # ---- derived

    @property
    def is_volume(self) -> bool:
        """Whether there is a third spatial axis, depth."""
        return self.t is not None

    @property
    def rank(self) -> int:
        """Axes of input, weight and output: 4, of volumes 5."""
        return 4 if self.t is None else 5

    # kept, as planners ask for these thousands of times

    @functools.cached_property
    def channels(self) -> int:
        """Input channels a filter sums over: C / groups."""
        return self.c // self.groups

    @functools.cached_property
    def filters(self) -> int:
        """Filters of one group: K / groups."""
        return self.k // self.groups

    @functools.cached_property
    def taps(self) -> tuple[int, ...]:
        """The filter's sizes along the spatial axes, the outermost first: (R, S), of volumes (T, R, S)."""
        return (self.r, self.s) if self.t is None else (self.t, self.r, self.s)

    @functools.cached_property
    def is_pointwise(self) -> bool:
        """Whether the window of every output is the pixel at its place."""
        return max(self.taps) == max(self.stride) == 1 and not any(map(any, self.padding))

    @functools.cached_property
    def extents(self) -> tuple[int, ...]:
        """Rows and columns that a filter spans, its dilation counted."""
        return tuple(step * (taps - 1) + 1 for taps, step in zip(self.taps, self.dilation))

    def outputs_of(self, image: Sequence[int]) -> tuple[int, ...]:
        """The output's sizes along the spatial axes for an input of these; below 1 where there is no output."""
        return tuple((size + sum(pads) - extent) // stride + 1 for size, pads, extent, stride in zip(
            image, self.padding, self.extents, self.stride))

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """(K, C/groups, R, S), or (K, 1, 1, R + S) of a separable layer: the column's elements, then the row's; of
        volumes (K, C/groups, T, R, S)."""
        return (self.k, 1, 1, self.r + self.s) if self.separable else (self.k, self.channels, *self.taps)

    @functools.cached_property
    def reduction(self) -> int:
        """Products summed into one output: C/groups * R * S; R + S of a separable layer."""
        return self.r + self.s if self.separable else self.channels * math.prod(self.taps)

    @property
    def w_dtype(self) -> DType:
        """The element type of the filter."""
        return self.weight_dtype or usual_weight(self.dtype, self.separable)

    @property
    def y_dtype(self) -> DType:
        """The element type of the output."""
        return self.out_dtype or self.dtype

    @property
    def bias_dtype(self) -> DType:
        """The element type of a bias."""
        return usual_weight(self.dtype)

    # ---- checks

    def __post_init__(self) -> None:
        """Give every field its one form. Raises ShapeError, ArgumentTypeError or ArgumentError."""
        set_ = object.__setattr__
        for name, meaning in _SIZES.items():
            set_(self, name, integer(getattr(self, name), name, meaning, 1, LARGEST_SIZE))
        if self.t is not None:
            set_(self, "t", integer(self.t, "t", "filter depth", 1, LARGEST_SIZE))
        set_(self, "stride", self._along(self._told("stride"), "stride", 1))
        set_(self, "dilation", self._along(self._told("dilation"), "dilation", 1))
        set_(self, "groups", integer(self.groups, "groups", "number of groups", 1, LARGEST_SIZE))
        set_(self, "padding", self._padding(self._told("padding")))
        set_(self, "dtype", DType.parse(self.dtype))
        set_(self, "layout", Layout.parse(self.layout))
        set_(self, "separable", bool(self.separable))
        self._set_border()
        self._set_types()
        self._check_channels()

    def _set_border(self) -> None:
        set_ = object.__setattr__
        set_(self, "padding_mode", Border.parse(self.padding_mode))
        value = border_value(self.padding_value)
        if value and self.padding_mode is not Border.CONSTANT:
            raise ArgumentError("a value is for the border 'constant' only", argument="padding_value",
                                value=self.padding_value, hint="padding_mode='constant', or leave the value out")
        if not any(map(any, self.padding)) or (self.padding_mode is Border.CONSTANT and not value):
            set_(self, "padding_mode", Border.ZEROS)        # one kernel for what is the same
            value = 0.0
        set_(self, "padding_value", value)

    def _set_types(self) -> None:
        """The element types that were left open; ArgumentError for those that do not go together."""
        set_, integer = object.__setattr__, self.dtype.is_integer
        weight = usual = usual_weight(self.dtype, self.separable)
        if self.weight_dtype is not None:
            weight = DType.parse(self.weight_dtype, "weight_dtype")
        out = self.dtype if self.out_dtype is None else DType.parse(self.out_dtype, "out_dtype")
        allowed = (DType.FLOAT32, *INTEGER_WEIGHTS) if integer and not self.separable else (usual,)
        if weight not in allowed:
            raise ArgumentError(f"a filter for {self.dtype.value} has other elements", argument="weight_dtype",
                                value=weight.value, hint=f"one of {', '.join(t.value for t in allowed)}")
        outputs = (*PIXELS, DType.INT32, *_WIDER) if integer else (*FLOATS, *PIXELS)
        if out not in outputs or self.dtype is DType.INT32:
            raise ArgumentError(f"there is no layer from {self.dtype.value} to {out.value}", argument="out_dtype",
                                value=out.value, hint=f"one of {', '.join(dict.fromkeys(t.value for t in outputs))}")
        set_(self, "weight_dtype", None if weight is usual else weight)
        set_(self, "out_dtype", None if out is self.dtype else out)
        cast = Cast.parse(self.cast)
        set_(self, "cast", cast if out.is_integer else Cast.NEAREST)

    def _told(self, name: str) -> Any:
        """A field's value as it was told; 1 (of the padding 0) for a volume that has the default, that of images."""
        value, default = getattr(self, name), getattr(Layer, name)
        return int(name != "padding") if self.is_volume and isinstance(value, tuple) and value == default else value

    def _along(self, value: Any, argument: str, least: int, most: int = LARGEST_SIZE, also: str = "") -> Along:
        axes = ("depth", "vertical", "horizontal") if self.is_volume else ("vertical", "horizontal")
        if isinstance(value, (tuple, list)):
            if len(value) == 1:         # as PyTorch takes it
                value = (*value,) * len(axes)
            if len(value) != len(axes):
                example = (1, 2) if len(axes) == 2 else (1, 2, 2)
                raise ShapeError(f"{argument} must be one number or ({', '.join(axes)})", argument=argument,
                                 value=value, hint=f"e.g. {argument}=1 or {argument}={example}{also}")
            return tuple(integer(v, argument, argument, least, most) for v in value)
        return (integer(value, argument, argument, least, most),) * len(axes)

    def _padding(self, value: Any) -> Sides:
        if isinstance(value, str):
            return self._named_padding(value)
        if isinstance(value, (tuple, list)) and len(value) == len(self.taps) and any(
                isinstance(v, (tuple, list)) for v in value):
            return tuple(_pair(v, "padding", 0, LARGEST_PADDING) for v in value)
        sides = (", of six sides padding=((1, 0), (1, 2), (0, 3)): (front, back), (top, bottom), (left, right)"
                 if self.is_volume else ", of four sides padding=((1, 2), (0, 3)): (top, bottom), (left, right)")
        return tuple((side, side) for side in self._along(value, "padding", 0, LARGEST_PADDING, sides))

    def _named_padding(self, value: str) -> Sides:
        if value == "valid":
            return ((0, 0),) * len(self.taps)
        if value != "same":
            raise ShapeError("unknown padding", argument="padding", value=value, hint="a number, 'same' or 'valid'")
        if set(self.stride) != {1}:
            raise ShapeError("padding 'same' needs stride 1", argument="stride", value=self.stride,
                             hint="give the padding in numbers")
        return tuple(((extent - 1) // 2, extent // 2) for extent in self.extents)

    def _check_channels(self) -> None:
        for name in ("c", "k"):
            if getattr(self, name) % self.groups:
                raise ShapeError(f"groups must divide {name.upper()} = {getattr(self, name)}", argument="groups",
                                 value=self.groups, hint=f"a divisor of {getattr(self, name)}")
        if self.separable and (self.c != self.groups or 1 in (self.r, self.s) or self.is_volume):
            raise ShapeError("a separable filter is of images, and has one channel, more than one row and column",
                             argument="separable", value=(self.c // self.groups, self.r, self.s),
                             hint="leave separable out")


_SIZES = {"c": "input channels", "k": "output channels", "r": "filter height", "s": "filter width"}


@functools.lru_cache(maxsize=1)
def layer_fields() -> tuple[str, ...]:
    """Names of a layer's fields."""
    return tuple(f.name for f in fields(Layer))


def fields_of(layer: Layer) -> dict[str, Any]:
    """The fields of a layer, of a shape or a spec, by name."""
    return {name: getattr(layer, name) for name in layer_fields()}


def describe_geometry(layer: Layer) -> str:
    """Stride, padding, dilation and groups of a shape or spec, the usual ones left out."""
    parts = [f"stride {numbers_text(layer.stride)}", f"padding {padding_text(layer.padding)}{border_text(layer)}"]
    if set(layer.dilation) != {1}:
        parts.append(f"dilation {numbers_text(layer.dilation)}")
    if layer.groups != 1:
        parts.append(f"groups {layer.groups}")
    if layer.separable:
        parts.append("separable")
    return ", ".join(parts)


def border_text(layer: Layer) -> str:
    """The border behind a padding's numbers; nothing for zeros."""
    if layer.padding_mode is Border.ZEROS:
        return ""
    value = f" {layer.padding_value:g}" if layer.padding_value else ""      # of a kernel it is an argument
    return f" ({layer.padding_mode.value}{value})"


def describe_types(layer: Layer) -> str:
    """The element types of a shape or spec: one where all are the same."""
    text = layer.dtype.value
    if layer.weight_dtype is not None:
        text += f" with {layer.weight_dtype.value} filters"
    if layer.out_dtype is not None:
        text += f" to {layer.out_dtype.value}"
    return text if layer.cast is Cast.NEAREST else f"{text} (truncated)"


def usual_weight(dtype: DType, separable: bool = False) -> DType:
    """The element type of a filter (and a bias) that is not told: the input's, float32 for integers, and for the
    factors of a separable filter, which 16 bits would change more than their products."""
    return dtype if dtype.is_float and not separable else DType.FLOAT32


def padding_text(padding: Sides) -> str:
    """Padding as the command line takes it: one number, one for each axis, or all sides of all axes."""
    if all(before == after for before, after in padding):
        return numbers_text(tuple(before for before, _ in padding))
    return ",".join(str(side) for sides in padding for side in sides)


def numbers_text(numbers: Along) -> str:
    """One number for each axis; a single one where they are equal."""
    return ",".join(map(str, numbers if len(set(numbers)) > 1 else numbers[:1]))


def integer(value: Any, argument: str, meaning: str, least: int, most: int) -> int:
    """A whole number in a range. Raises ArgumentTypeError, ShapeError."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"the {meaning} must be an integer", argument=argument, value=value,
                                hint=f"an int of at least {least}") from None
    if not least <= number <= most:
        raise ShapeError(f"the {meaning} is out of range", argument=argument, value=number,
                         hint=f"between {least} and {most}")
    return number


def _pair(value: Any, argument: str, least: int, most: int) -> Pair:
    """The two sides of an axis."""
    if not isinstance(value, (tuple, list)):
        value = value, value
    if len(value) != 2:
        raise ShapeError(f"{argument} of an axis is one number or (before, after)", argument=argument, value=value,
                         hint=f"e.g. {argument}=((1, 1), (0, 2))")
    before, after = (integer(v, argument, argument, least, most) for v in value)
    return before, after
