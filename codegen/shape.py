"""ConvShape: one convolution layer, with PyTorch's meaning of every size."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

from .dtypes import DType, Layout
from .errors import ArgumentTypeError, ShapeError

# Sizes stay clear of 2^31 so that an index plus a step of a grid-stride loop (65535 blocks of at most 64 rows) never
# overflows an int in a kernel.
LARGEST_SIZE = 2**31 - 2**22
LARGEST_PADDING = 2**14

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ConvShape:
    """A layer x[N, C, H, W] * w[K, C/groups, R, S] -> y[N, K, P, Q], cross-correlation as in torch.nn.functional.conv2d.

    ``stride`` and ``dilation`` are an int or (vertical, horizontal). ``padding`` is an int, (vertical, horizontal),
    ((top, bottom), (left, right)), ``"same"`` (stride 1 only; an odd total puts the extra row and column last) or
    ``"valid"``. ``layout`` is the order of x and y in memory (the filter is always K, C/groups, R, S). Raises ShapeError when a size is out of range or the output would be empty, ArgumentTypeError when it
    is not an integer.
    """

    n: int = 1
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    stride: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)
    groups: int = 1
    dtype: DType = DType.FLOAT32
    layout: Layout = Layout.NCHW

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name, meaning in _SIZES.items():
            set_(self, name, _integer(getattr(self, name), name, meaning, 1, LARGEST_SIZE))
        set_(self, "stride", _pair(self.stride, "stride", 1))
        set_(self, "dilation", _pair(self.dilation, "dilation", 1))
        set_(self, "groups", _integer(self.groups, "groups", "number of groups", 1, LARGEST_SIZE))
        set_(self, "padding", self._padding(self.padding))
        set_(self, "dtype", DType.parse(self.dtype))
        set_(self, "layout", Layout.parse(self.layout))
        self._check()

    @classmethod
    def of(cls, input: tuple[int, ...], weight: tuple[int, ...], *, stride: Any = 1, padding: Any = 0,
           dilation: Any = 1, groups: int = 1, dtype: DType | str = DType.FLOAT32,
           layout: Layout | str = Layout.NCHW) -> ConvShape:
        """The layer of an input whose axes are in ``layout``'s order and a weight of shape (K, C/groups, R, S)."""
        layout = Layout.parse(layout)
        for name, shape, axes in (("input", input, ", ".join(layout.value)), ("weight", weight, "K, C/groups, R, S")):
            if len(shape) != 4:
                raise ShapeError(f"{name} must have 4 axes ({axes}), not {len(shape)}", argument=name,
                                 value=tuple(shape), hint="add axes of length 1, e.g. array[None, None] for one plane")
        n, c, h, w = layout.logical(tuple(input))
        k, c_per_group, r, s = weight
        groups = _integer(groups, "groups", "number of groups", 1, LARGEST_SIZE)
        if c_per_group * groups != c:
            raise ShapeError(f"weight has {c_per_group} channels a group, and {groups} groups of it make "
                             f"{c_per_group * groups} channels where input has {c}", argument="weight",
                             value=tuple(weight), hint="weight must be (K, C/groups, R, S)")
        return cls(n=n, c=c, h=h, w=w, k=k, r=r, s=s, stride=stride, padding=padding, dilation=dilation,
                   groups=groups, dtype=DType.parse(dtype), layout=layout)

    # ---- derived sizes

    @functools.cached_property
    def p(self) -> int:
        """Output height."""
        return _outputs(self.h, self.r, self.stride[0], self.padding[0], self.dilation[0])

    @functools.cached_property
    def q(self) -> int:
        """Output width."""
        return _outputs(self.w, self.s, self.stride[1], self.padding[1], self.dilation[1])

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        """(N, C, H, W), whatever the layout."""
        return self.n, self.c, self.h, self.w

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return self.k, self.c // self.groups, self.r, self.s

    @functools.cached_property
    def output_shape(self) -> tuple[int, int, int, int]:
        """(N, K, P, Q), whatever the layout."""
        return self.n, self.k, self.p, self.q

    @property
    def reduction(self) -> int:
        """Products summed into one output: C/groups * R * S."""
        return self.c // self.groups * self.r * self.s

    @property
    def macs(self) -> int:
        """Multiply-adds of the layer, taps in the padding counted."""
        return self.n * self.k * self.p * self.q * self.reduction

    @property
    def bytes_moved(self) -> int:
        """Least bytes through device memory: each input and weight read once, each output written once."""
        return self.dtype.itemsize * (self.n * self.c * self.h * self.w + self.k * self.reduction
                                      + self.n * self.k * self.p * self.q)

    def with_batch(self, n: int) -> ConvShape:
        """The same layer for another batch size."""
        return replace(self, n=n)

    def __str__(self) -> str:
        text = (f"x[{self.n}, {self.c}, {self.h}, {self.w}] * w[{', '.join(map(str, self.weight_shape))}] -> "
                f"y[{', '.join(map(str, self.output_shape))}]")
        kind = "" if (self.dtype, self.layout) == (DType.FLOAT32, Layout.NCHW) else f", {self.dtype.value} {self.layout.value}"
        return f"{text}, {describe_geometry(self)}{kind}"

    # ---- checks

    def _padding(self, value: Any) -> tuple[Pair, Pair]:
        if isinstance(value, str):
            return self._named_padding(value)
        if isinstance(value, (tuple, list)) and len(value) == 2 and any(isinstance(v, (tuple, list)) for v in value):
            sides = tuple(_pair(v, "padding", 0, LARGEST_PADDING) for v in value)
            return sides[0], sides[1]
        vertical, horizontal = _pair(value, "padding", 0, LARGEST_PADDING)
        return (vertical, vertical), (horizontal, horizontal)

    def _named_padding(self, value: str) -> tuple[Pair, Pair]:
        if value == "valid":
            return (0, 0), (0, 0)
        if value != "same":
            raise ShapeError("unknown padding", argument="padding", value=value, hint="a number, 'same' or 'valid'")
        if self.stride != (1, 1):
            raise ShapeError("padding 'same' needs stride 1", argument="stride", value=self.stride,
                             hint="give the padding in numbers")
        totals = [d * (f - 1) for d, f in zip(self.dilation, (self.r, self.s))]
        top, left = (t // 2 for t in totals)
        return (top, totals[0] - top), (left, totals[1] - left)

    def _check(self) -> None:
        for name in ("c", "k"):
            if getattr(self, name) % self.groups:
                raise ShapeError(f"groups must divide {name.upper()} = {getattr(self, name)}", argument="groups",
                                 value=self.groups, hint=f"a divisor of {getattr(self, name)}")
        for axis, size, pads, extent, outputs in (
                ("height", self.h, self.padding[0], self.dilation[0] * (self.r - 1) + 1, self.p),
                ("width", self.w, self.padding[1], self.dilation[1] * (self.s - 1) + 1, self.q)):
            padded = size + sum(pads)
            if outputs < 1:
                raise ShapeError(f"empty output: the filter's {axis} (with dilation) is {extent} and the padded input's "
                                 f"is only {padded}", argument="input", value=self.input_shape,
                                 hint="enlarge the padding or use a smaller filter")
            if padded > LARGEST_SIZE:
                raise ShapeError(f"the padded {axis} {padded} is too large", argument="padding", value=self.padding,
                                 hint=f"at most {LARGEST_SIZE}")


_SIZES = {"n": "batch size", "c": "input channels", "h": "input height", "w": "input width", "k": "output channels",
          "r": "filter height", "s": "filter width"}


def describe_geometry(layer: Any) -> str:
    """Stride, padding, dilation and groups of a shape or spec, the usual ones left out."""
    parts = [f"stride {_pair_text(layer.stride)}", f"padding {padding_text(layer.padding)}"]
    if layer.dilation != (1, 1):
        parts.append(f"dilation {_pair_text(layer.dilation)}")
    if layer.groups != 1:
        parts.append(f"groups {layer.groups}")
    return ", ".join(parts)


def padding_text(padding: tuple[Pair, Pair]) -> str:
    """Padding as the command line takes it: one number, vertical and horizontal, or all four sides."""
    (top, bottom), (left, right) = padding
    if top == bottom and left == right:
        return _pair_text((top, left))
    return f"{top},{bottom},{left},{right}"


def _pair_text(pair: Pair) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]},{pair[1]}"


def _outputs(size: int, taps: int, stride: int, pads: Pair, dilation: int) -> int:
    return (size + sum(pads) - dilation * (taps - 1) - 1) // stride + 1


def _integer(value: Any, argument: str, meaning: str, least: int, most: int) -> int:
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


def _pair(value: Any, argument: str, least: int, most: int = LARGEST_SIZE) -> Pair:
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ShapeError(f"{argument} must be one number or (vertical, horizontal)", argument=argument, value=value,
                             hint=f"e.g. {argument}=1 or {argument}=(1, 2)")
        return tuple(_integer(v, argument, argument, least, most) for v in value)  # type: ignore[return-value]
    number = _integer(value, argument, argument, least, most)
    return number, number
