"""One call of a kernel, checked: the layer's sizes, the operands as flat memory, nothing launched yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.pitch import Pitch
from warpconv.codegen.plan import Argument, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, index_bits
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView, axes
from warpconv.runtime.arrays.axes import Order

MOST_LAYERS = 4096      # sizes that a kernel remembers
ORDERED_ALIGNMENT = 16  # of a weight that is read where it is: kernels and descriptors copy 16 bytes at a time


class Misaligned(ArgumentError):
    """An operand's address is not what the kernel's plan asks for; another plan can serve it."""


@dataclass(slots=True)
class Call:
    """Operands by their argument names in the program (no weight where a Filter was given), axes in memory order.
    ``in_order``: the weight lies as the program's preparation would leave it, and is read where it is."""

    shape: ConvShape
    operands: dict[str, ArrayView]
    in_order: bool = False


def contiguous(value: Any, view: ArrayView, argument: str, order: Order | None = None) -> ArrayView:
    """The operand as C-contiguous memory; one that is not is copied by its own library (the view's owner is the copy).

    With ``order`` the view shows the value's axes transposed so.
    """
    return view if view.contiguous else arrays.as_contiguous(value, view, argument, order)[1]


def check_elements(sizes: tuple[int, ...], argument: str) -> None:
    """Raises ShapeError for an array without elements."""
    if 0 in sizes:
        raise ShapeError(f"{argument} has no elements", argument=argument, value=sizes,
                         hint="every axis has at least one; leave such calls out")


def layer_of(spec: KernelSpec, x: tuple[int, ...], program: Program | None = None,
             pitches: tuple[Pitch | None, Pitch | None] = (None, None),
             padding_value: float | None = None) -> ConvShape:
    """The layer of a kernel for an input of shape ``x``, axes in memory order; ``pitches`` are those of input and
    output where the kernel takes arrays with gaps, ``padding_value`` that of a border of one value.

    Raises ShapeError where the kernel cannot serve it, or the program asks for other sizes.
    """
    n, c, *image = spec.layout.logical(x)
    if c != spec.c:
        raise ShapeError(f"this kernel was made for {spec.c} input channels, input has {c}", argument="input", value=x,
                         hint="specialize() another kernel, or call conv2d()")
    check_elements(x, "input")
    shape = spec.example_shape(n=n, d=image[0], h=image[-2], w=image[-1], padding_value=padding_value)
    if spec.pitched:
        shape = replace(shape, x_pitch=pitches[0], y_pitch=pitches[1])
    if spec.index_bits == 32 and index_bits(shape) != 32:
        raise ShapeError("this kernel's index arithmetic is 32 bits wide and the tensors pass 2^31 elements",
                         argument="input", value=x, hint="specialize() a kernel for this shape, or call conv2d()")
    refusal = None if program is None else program.refusal(shape)
    if refusal is not None:
        raise ShapeError(refusal, argument="input", value=x,
                         hint="specialize() a kernel for this shape, or call conv2d()")
    return shape


def check_address(argument: Argument, pointer: int) -> None:
    """Raises Misaligned where the plan asks for another address of an operand."""
    if not argument.admits(pointer):
        name = "out" if argument.role is Role.OUTPUT else argument.role.value
        raise Misaligned(f"this kernel's plan needs the address {argument.demand}, and {name} is at {pointer:#x}",
                         argument=name, value=pointer,
                         hint="copy the array, specialize(..., settings={'vector': 1}), or call conv2d()")


def in_order(program: Program, weight: ArrayView) -> ArrayView | None:
    """The weight with its axes as they lie in memory, where kernels read filters in that order (1x1 filters,
    channels_last) and at such an address; None where it has to be prepared."""
    if program.preparation is None or not program.preparation.ordered or weight.pointer % ORDERED_ALIGNMENT:
        return None
    turned = weight.transposed((0, *range(2, len(weight.shape)), 1))
    return turned if turned.contiguous else None


def check_weight(spec: KernelSpec, view: ArrayView) -> None:
    expected = spec.weight_shape
    if view.shape != expected:
        raise ShapeError("weight does not fit this kernel", argument="weight", value=view.shape,
                         hint=f"it was made for {expected}")


def check_bias(spec: KernelSpec, bias: Any, x: ArrayView, stream: int | None = None) -> ArrayView | None:
    """The bias as memory, or None where the kernel adds none. Raises ArgumentError where kernel and call differ."""
    wanted = Epilogue.BIAS in spec.epilogue
    if bias is None:
        if wanted:
            raise ArgumentError("this kernel adds a bias and none is given", argument="bias", value=None,
                                hint=f"an array of {spec.k} elements")
        return None
    if not wanted:
        raise ArgumentError("this kernel was made without a bias", argument="bias",
                            hint="specialize(..., epilogue=('bias',)) or conv2d(..., bias=...)")
    return bias_of(spec.k, spec.bias_dtype, bias, x, stream)


def bias_of(k: int, dtype: DType, bias: Any, x: ArrayView, stream: int | None = None) -> ArrayView:
    """A bias for ``k`` filters as memory. Raises ShapeError or ArgumentTypeError."""
    view = arrays.view(bias, "bias", dtypes=(dtype,), ndim=1, stream=stream)
    if view.shape != (k,):
        raise ShapeError("bias must have one element per filter", argument="bias", value=view.shape, hint=f"({k},)")
    same_memory(view, x, "bias")
    return view


def check_residual(spec: KernelSpec, residual: Any, shape: ConvShape, order: Layout, x: ArrayView,
                   stream: int | None = None) -> ArrayView | None:
    """The residual as memory with axes in the layout's order, or None where the kernel adds none. Raises ArgumentError
    where kernel and call differ, else as residual_of()."""
    wanted = Epilogue.RESIDUAL in spec.epilogue
    if residual is None:
        if wanted:
            raise ArgumentError("this kernel adds a residual and none is given", argument="residual", value=None,
                                hint=f"an array of the output's shape {order.stored(shape.output_shape)}")
        return None
    if not wanted:
        raise ArgumentError("this kernel was made without a residual", argument="residual",
                            hint="name it where it is added: epilogue=('bias', 'residual', 'relu')")
    return residual_of(residual, shape, order, x, stream)


def residual_of(residual: Any, shape: ConvShape, order: Layout, x: ArrayView, stream: int | None = None) -> ArrayView:
    """A residual with axes in ``order`` as memory in the layer's layout; one with gaps is copied later. Raises
    ShapeError or ArgumentTypeError."""
    view = arrays.view(residual, "residual", dtypes=(shape.y_dtype,), ndim=shape.rank, stream=stream)
    expected = order.stored(shape.output_shape)
    if view.shape != expected:
        raise ShapeError("residual does not have the output's shape", argument="residual", value=view.shape,
                         hint=f"{expected} is needed")
    same_memory(view, x, "residual")
    return axes.stored(view, order, shape.layout)


def check_out(out: Any, shape: ConvShape, order: Layout, inputs: dict[str, ArrayView | None]) -> ArrayView:
    """A given output with axes in ``order`` as memory in the layer's layout.

    One that the kernel does not write where it is (``written_in_place``) is copied into later. Raises ShapeError,
    ArgumentTypeError, or ArgumentError if its elements share memory, it overlaps an input, or its library cannot copy
    into it; it may be the residual itself.
    """
    view = arrays.view(out, "out", dtypes=(shape.y_dtype,), ndim=shape.rank, writable=True)
    expected = order.stored(shape.output_shape)
    if view.shape != expected:
        raise ShapeError("out does not have the output's shape", argument="out", value=view.shape,
                         hint=f"{expected} is needed")
    strides = view.strides
    view = axes.stored(view, order, shape.layout)
    if not written_in_place(view, shape) and not arrays.can_copy_into(view):
        raise ArgumentError(f"out is not contiguous in {shape.layout.value} order, the input's, this layer's kernel "
                            "does not write to such gaps, and its library has no copy into them", argument="out",
                            value=strides, hint="give an array with the input's order in memory and no gaps, or none "
                                                "and copy the result; with CuPy imported any array is taken")
    for name, other in inputs.items():
        if other is None:
            continue
        same_memory(view, other, "out", name)
        if name == "residual" and _same_elements(view, other):      # each is read where it is then written
            continue
        if arrays.overlaps(view, other):
            raise ArgumentError(f"out shares memory with {name}", argument="out", value=view.shape,
                                hint="give memory of its own")
    return view


def written_in_place(view: ArrayView, shape: ConvShape) -> bool:
    """Whether a kernel of the layer writes to an output where it is, axes in memory order; else it is copied into."""
    return view.contiguous or shape.y_pitch is not None


def _same_elements(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of one shape and type show the same elements in the same places."""
    return a.pointer == b.pointer and same_distances(a, b)


def same_distances(a: ArrayView, b: ArrayView) -> bool:
    """Whether elements of two views of one shape lie as far apart."""
    return all(extent == 1 or one == other for extent, one, other in zip(a.shape, a.strides, b.strides))


def same_memory(view: ArrayView, other: ArrayView, argument: str, whose: str = "input") -> None:
    """Raises ArgumentTypeError where one array is in host memory and the other on a GPU, or they are on two GPUs."""
    if view.device != other.device:
        raise ArgumentTypeError(f"{argument} is {place(view.device)} and {whose} is {place(other.device)}",
                                argument=argument, hint="move both to one device")


def place(device: int | None) -> str:
    return "in host memory" if device is None else f"on GPU {device}"


def name_of(program: Program, role: Role) -> str | None:
    """The program's argument of a role, None if it has none."""
    return next((a.name for a in program.arguments if a.role is role), None)
