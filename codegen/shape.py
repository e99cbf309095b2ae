"""ConvShape: one convolution layer with the sizes of its arrays, with PyTorch's meaning of every size."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

from .classes import dataclass, replace
from .dtypes import DType, Layout
from .errors import ShapeError
from .layer import (INTEGER_WEIGHTS, LARGEST_PADDING, LARGEST_SIZE, PIXELS, Layer, Pair, describe_geometry,
                    describe_types, integer, later)
from .pitch import Pitch

__all__ = ["INTEGER_WEIGHTS", "LARGEST_PADDING", "LARGEST_SIZE", "PIXELS", "ConvShape"]


@dataclass(frozen=True, kw_only=True)
class ConvShape(Layer):
    """A layer x[N, C, H, W] * w[K, C/groups, R, S] -> y[N, K, P, Q], cross-correlation as torch.nn.functional.conv2d's;
    with ``d`` and ``t`` one of volumes, x[N, C, D, H, W] * w[K, C/groups, T, R, S] -> y[N, K, Z, P, Q], as conv3d's.

    Attributes
    ----------
    n, c, h, w : int
        The input's sizes: images, channels, rows and columns.
    k, r, s : int
        The filter's: filters, rows and columns.
    d, t : int, optional
        The planes of volumes, and of the filter; both or neither. Stride, dilation and padding then begin with the
        depth's.
    stride, dilation : int or (vertical, horizontal)
        In pixels.
    padding : int, (vertical, horizontal), ((top, bottom), (left, right)), "same" or "valid"
        In pixels; "same" (stride 1 only) puts the extra row and column of an odd total last.
    groups : int
        Both C and K are divided into so many.
    dtype : DType or str
        The input's element type.
    layout : Layout or str
        The order of x and y in memory; the filter is always (K, C/groups, R, S).
    padding_mode, padding_value : Border or str, float
        What stands in the padding, and the value of "constant".
    weight_dtype, out_dtype : DType or str, optional
        The filter's and the output's element types, where they are not the usual ones (Layer).
    cast : Cast or str
        How values become integers.
    separable : bool
        The weight is the factors of each filter: float32 of (K, 1, 1, R + S), the column's elements, then the row's.
    x_pitch, y_pitch : Pitch, optional
        How far rows, planes and images of x and y lie apart, in elements; None where there are no gaps. With either of
        them the layer's kernel takes all these distances as arguments.

    Raises
    ------
    ShapeError
        A size is out of range, or the output would be empty.
    ArgumentTypeError
        A size is no integer.
    ArgumentError
        Values or types that do not go together.
    """

    # as files have had them, so that their lines stay as they are
    STORED_FIRST: ClassVar[tuple[str, ...]] = ("n", "c", "h", "w")

    n: int = 1
    h: int
    w: int
    x_pitch: Pitch | None = later(None)
    y_pitch: Pitch | None = later(None)
    d: int | None = later(None)

    def __post_init__(self) -> None:
        for name, meaning in _SIZES.items():
            object.__setattr__(self, name, integer(getattr(self, name), name, meaning, 1, LARGEST_SIZE))
        if (self.d is None) is not (self.t is None):
            raise ShapeError("a layer of volumes has a depth, and so has its filter", argument="d",
                             value=(self.d, self.t), hint="both d= and t=, or neither")
        if self.d is not None:
            object.__setattr__(self, "d", integer(self.d, "d", "input depth", 1, LARGEST_SIZE))
        super().__post_init__()
        self._check_sizes()

    @classmethod
    def of(cls, input: tuple[int, ...], weight: tuple[int, ...], *, stride: Any = 1, padding: Any = 0,
           dilation: Any = 1, groups: int = 1, dtype: DType | str = DType.FLOAT32,
           layout: Layout | str = Layout.NCHW, **more: Any) -> ConvShape:
        """The layer of an input whose axes are in ``layout``'s order and a weight of shape (K, C/groups, R, S), or of
        volumes: five axes each, NCHW then stands for N, C, D, H, W; ``more`` are fields as ConvShape takes them."""
        layout = Layout.parse(layout)
        rank = 5 if len(input) == 5 else 4
        letters = ("N", "C", "D", "H", "W") if rank == 5 else ("N", "C", "H", "W")
        filters = "K, C/groups, T, R, S" if rank == 5 else "K, C/groups, R, S"
        for name, shape, axes in (("input", input, ", ".join(layout.stored(letters))), ("weight", weight, filters)):
            if len(shape) != rank:
                hint = ("a filter of volumes is beside an input (N, C, D, H, W)" if name == "weight" and len(shape) == 5
                        else "add axes of length 1, e.g. array[None, None] for one plane" if len(shape) < rank
                        else "index or reshape it")
                raise ShapeError(f"{name} must have {rank} axes ({axes}), not {len(shape)}", argument=name,
                                 value=tuple(shape), hint=hint)
        n, c, *image = layout.logical(input)
        k, c_per_group, *taps = weight
        groups = integer(groups, "groups", "number of groups", 1, LARGEST_SIZE)
        if c_per_group * groups != c:
            raise ShapeError(f"weight has {c_per_group} channels a group, and {groups} groups of it make "
                             f"{c_per_group * groups} channels where input has {c}", argument="weight",
                             value=tuple(weight), hint=f"weight must be ({filters})")
        if rank == 5:
            more |= {"d": image[0], "t": taps[0]}
        return cls(n=n, c=c, h=image[-2], w=image[-1], k=k, r=taps[-2], s=taps[-1], stride=stride, padding=padding,
                   dilation=dilation, groups=groups, dtype=DType.parse(dtype), layout=layout, **more)

    # ---- derived sizes

    @property
    def image(self) -> tuple[int, ...]:
        """The input's sizes along the spatial axes: (H, W), of volumes (D, H, W)."""
        return (self.h, self.w) if self.d is None else (self.d, self.h, self.w)

    @functools.cached_property
    def outputs(self) -> tuple[int, ...]:
        """The output's sizes along the spatial axes: (P, Q), of volumes (Z, P, Q)."""
        return self.outputs_of(self.image)

    @functools.cached_property
    def p(self) -> int:
        """Output height."""
        return self.outputs[-2]

    @functools.cached_property
    def q(self) -> int:
        """Output width."""
        return self.outputs[-1]

    @property
    def depths(self) -> Pair:
        """Planes of an input and of an output, of images 1."""
        return (1, 1) if self.d is None else (self.d, self.outputs[0])

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(N, C, H, W), of volumes (N, C, D, H, W), whatever the layout."""
        return self.n, self.c, *self.image

    @functools.cached_property
    def output_shape(self) -> tuple[int, ...]:
        """(N, K, P, Q), of volumes (N, K, Z, P, Q), whatever the layout."""
        return self.n, self.k, *self.outputs

    @property
    def input_pixels(self) -> int:
        """Pixels of x: N * H * W, of volumes N * D * H * W."""
        return self.n * math.prod(self.image)

    @property
    def output_pixels(self) -> int:
        """Pixels of y: N * P * Q, of volumes N * Z * P * Q."""
        return self.n * math.prod(self.outputs)

    @property
    def pitched(self) -> bool:
        """Whether x or y has gaps."""
        return self.x_pitch is not None or self.y_pitch is not None

    @functools.cached_property
    def x_distances(self) -> Pitch:
        """How far rows, planes and images of x lie apart, with gaps or without."""
        return self.x_pitch or Pitch.dense(self.input_shape, self.layout)

    @functools.cached_property
    def y_distances(self) -> Pitch:
        """The same of y."""
        return self.y_pitch or Pitch.dense(self.output_shape, self.layout)

    @property
    def macs(self) -> int:
        """Multiply-adds of the layer, taps in the padding counted."""
        return math.prod(self.output_shape) * self.reduction

    @functools.cached_property
    def bytes_moved(self) -> int:
        """Least bytes through device memory: each input and weight read once, each output written once."""
        return (self.dtype.itemsize * math.prod(self.input_shape) + self.w_dtype.itemsize * self.k * self.reduction
                + self.y_dtype.itemsize * math.prod(self.output_shape))

    def with_batch(self, n: int) -> ConvShape:
        """The same layer for another batch size."""
        return replace(self, n=n)

    def without_gaps(self) -> ConvShape:
        """The same layer of arrays that have none."""
        return replace(self, x_pitch=None, y_pitch=None) if self.pitched else self

    def with_distances(self) -> ConvShape:
        """The same layer, whose kernel takes the distances of rows, planes and images as arguments."""
        return replace(self, x_pitch=self.x_distances, y_pitch=self.y_distances)

    def __str__(self) -> str:
        text = (f"x[{', '.join(map(str, self.input_shape))}] * "
                f"w[{', '.join(map(str, (self.k, self.channels, *self.taps)))}] -> "
                f"y[{', '.join(map(str, self.output_shape))}]")
        usual = (self.dtype, self.layout, self.out_dtype) == (DType.FLOAT32, Layout.NCHW, None)
        gaps = "".join(f", {name} with {pitch}" for name, pitch in (("x", self.x_pitch), ("y", self.y_pitch)) if pitch)
        types = "" if usual else f", {describe_types(self)} {self.layout.value}"
        return f"{text}, {describe_geometry(self)}{types}{gaps}"

    def _check_sizes(self) -> None:
        names = ("depth", "height", "width")[-len(self.image):]
        for axis, size, pads, extent, outputs in zip(names, self.image, self.padding, self.extents, self.outputs):
            padded = size + sum(pads)
            if outputs < 1:
                raise ShapeError(f"empty output: the filter's {axis} (with dilation) is {extent} and the padded "
                                 f"input's is only {padded}", argument="input", value=self.input_shape,
                                 hint="enlarge the padding or use a smaller filter")
            if padded > LARGEST_SIZE:
                raise ShapeError(f"the padded {axis} {padded} is too large", argument="padding", value=self.padding,
                                 hint=f"at most {LARGEST_SIZE}")
        if self.is_volume and self.pitched:
            raise ShapeError("volumes have no gaps between their rows", argument="x_pitch", value=str(self.x_pitch),
                             hint="a copy without gaps")
        for name, pitch in (("x_pitch", self.x_pitch), ("y_pitch", self.y_pitch)):
            if pitch is not None and max(pitch.row, pitch.plane, pitch.image) > LARGEST_SIZE:
                raise ShapeError("rows, planes or images lie too far apart", argument=name, value=str(pitch),
                                 hint=f"at most {LARGEST_SIZE} elements, or a copy without gaps")


_SIZES = {"n": "batch size", "h": "input height", "w": "input width"}
