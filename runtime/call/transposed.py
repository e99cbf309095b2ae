"""Transposed layers, images' and volumes': the data gradient of the layer whose output is what they are given
(docs/gradients.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ShapeError
from warpconv.codegen.layer import LARGEST_PADDING, integer
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView, axes

from . import kernels
from .checks import check_elements, same_memory
from .given import as_batch, layer_of_sizes
from .kernel import Kernel
from .operands import Operand, Remember, check_sizes, launch, run, seen, target_of, weight_of
from .place import resolve_device
from .repeated import repeated
from .volume import order_of

_AXES = ("depth", "vertical", "horizontal")
_LARGE = 2**20          # of an axis, more than a filter spans


@repeated("input", "weight", "bias")
def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, layout: Layout | str = "NCHW",
                     algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                     workspace_limit: int | None = None, precision: str = "float32",
                     remember: Remember | None = None) -> Any:
    """A transposed 2D convolution as torch.nn.functional.conv_transpose2d: the data gradient of the layer with this
    weight, of ``input`` in its output's place.

    Parameters
    ----------
    input : array, (N, C, H, W), or (N, H, W, C) for 'NHWC'; or one image without N
        float32, float16 or bfloat16, of any library that conv2d takes.
    weight : array, (C, K/groups, R, S)
        Of the input's type.
    bias : array, (K,), optional
        Of the input's type.
    stride, padding, dilation : int or (vertical, horizontal)
        As in torch: the output has (H - 1) * stride - 2 * padding + dilation * (R - 1) + output_padding + 1 rows.
    output_padding : int or (vertical, horizontal)
        Rows and columns that the output has more at its end; less than the stride, or no more than the padding.
    groups : int
        Both C and K are divided into so many.
    layout, algorithm, device, stream, workspace_limit, precision : as in conv2d
        ``algorithm`` is one of ``explain(shape, operation="data_gradient")``.
    out : array, optional
        Where the result goes; any strides.

    Returns
    -------
    array, (N, K, P, Q), or (N, P, Q, K) for 'NHWC'; without N where the input has none
        ``out`` if given, else a new array of the input's library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_input, before anything is launched or written.
    """
    return _transposed(4, Layout.parse(layout), input, weight, bias, stride, padding, output_padding, groups, dilation,
                       algorithm, device, out, stream, workspace_limit, precision, remember)


@repeated("input", "weight", "bias")
def conv_transpose3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, layout: str = "NCDHW",
                     algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                     workspace_limit: int | None = None, precision: str = "float32",
                     remember: Remember | None = None) -> Any:
    """A transposed 3D convolution as torch.nn.functional.conv_transpose3d: the data gradient of the layer with this
    weight, of ``input`` in its output's place.

    Parameters
    ----------
    input : array, (N, C, D, H, W), or (N, D, H, W, C) for 'NDHWC'; or one volume without N
        float32, float16 or bfloat16, of any library that conv2d takes.
    weight : array, (C, K/groups, T, R, S)
        Of the input's type.
    bias : array, (K,), optional
        Of the input's type.
    stride, padding, dilation : int or (depth, vertical, horizontal)
        As in torch: the output has (D - 1) * stride - 2 * padding + dilation * (T - 1) + output_padding + 1 planes, and
        so on.
    output_padding : int or (depth, vertical, horizontal)
        Planes, rows and columns that the output has more at its end; less than the stride, or no more than the padding.
    groups : int
        Both C and K are divided into so many.
    layout : str
        The order of the axes of input and output, 'NCDHW' or 'NDHWC'.
    algorithm, device, stream, workspace_limit, precision : as in conv2d
        ``algorithm`` is one of ``explain(shape, operation="data_gradient")``.
    out : array, optional
        Where the result goes; any strides.

    Returns
    -------
    array, (N, K, Z, P, Q), or (N, Z, P, Q, K) for 'NDHWC'; without N where the input has none
        ``out`` if given, else a new array of the input's library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv3d_input, before anything is launched or written.
    """
    return _transposed(5, order_of(layout), input, weight, bias, stride, padding, output_padding, groups, dilation,
                       algorithm, device, out, stream, workspace_limit, precision, remember)


def _transposed(rank: int, order: Layout, input: Any, weight: Any, bias: Any, stride: Any, padding: Any,
                output_padding: Any, groups: int, dilation: Any, algorithm: str, device: str, out: Any, stream: Any,
                workspace_limit: int | None, precision: str, remember: Remember | None) -> Any:
    """The layer of arrays of so many axes."""
    given, alone = out, getattr(input, "ndim", rank) == rank - 1
    if alone:
        input, out = as_batch(input, out=out)
    x = arrays.view(input, "input", dtypes=FLOATS, ndim=rank)
    w = weight_of(weight, x, rank)
    memory = axes.memory_order(order, x, seen(out, x.dtype, rank))
    n, c, *image = order.logical(x.shape)
    check_elements(x.shape, "input")
    check_elements(w.shape, "weight")
    meaning = f"a transposed layer's weight is (C, K/groups, {', '.join('TRS'[-len(image):])})"
    if w.shape[0] != c:
        raise ShapeError(f"weight has {w.shape[0]} channels and input has {c}", argument="weight", value=w.shape,
                         hint=meaning)
    groups = integer(groups, "groups", "number of groups", 1, c)
    if c % groups:
        raise ShapeError(f"groups must divide C = {c}", argument="groups", value=groups, hint=meaning)
    # the layer has no sizes yet: numbers along the axes are given their form by one that is just large enough
    plain = ConvShape.of((n, w.shape[1] * groups, *(_LARGE for _ in image)), w.shape, stride=stride,
                         padding=_numbers_only(padding), dilation=dilation, groups=groups)
    more = _along(_numbers_only(output_padding, "output_padding"), "output_padding", len(image))
    check_output_padding(output_padding, more, plain.stride, [after for _, after in plain.padding])
    sizes = output_sizes(image, plain.taps, plain.stride, plain.padding, plain.dilation, more)
    if min(sizes) < 1:
        raise ShapeError(f"empty output: {' x '.join(map(str, sizes))}", argument="padding", value=padding,
                         hint="less padding, or a larger filter")
    # as many rows as the output has more by a stride are left out of the border: it would have one more of the input's
    pads = tuple((before, after if extra < step else after - extra) for (before, after), extra, step in zip(
        plain.padding, more, plain.stride))
    geometry = {"stride": plain.stride, "padding": pads, "dilation": plain.dilation, "groups": groups,
                "padding_mode": "zeros"}
    shape = layer_of_sizes(memory.stored((n, plain.c, *sizes)), w.shape, x.dtype, w.dtype, memory, geometry)
    of_bias = None if bias is None else _bias(bias, shape, x)
    ask = kernels.asked(shape, resolve_device(device, x, shape), algorithm=algorithm,
                        epilogue=() if bias is None else ("bias",), operation=Operation.DATA_GRADIENT,
                        numerics=kernels.numerics_of(None, precision),
                        workspace_limit=kernels.call_limit(workspace_limit))
    shape, memory = ask.request.layer, ask.request.layer.layout     # of single pixels it may be the other order's
    operands = {"dy": Operand("input", input, axes.stored(x, order, memory), axes.order(order, memory, rank)),
                "w": Operand("weight", weight, w)}
    if of_bias is not None:
        operands["bias"] = of_bias
    made = run(ask, operands, "dx", memory.stored(shape.input_shape), order, out, stream, None if alone else remember)
    return made if not alone else made[0] if given is None else given


def run_transposed(kernel: Kernel, shape: ConvShape, order: Layout, input: Any, weight: Any, bias: Any, out: Any,
                   stream: Any) -> Any:
    """A transposed layer by a kernel that is there already: ``shape`` is the layer whose data gradient it computes,
    with the sizes of this call; arrays have their axes in ``order``. Raises as conv_transpose2d."""
    memory, rank = shape.layout, shape.rank
    dy = arrays.view(input, "input", dtypes=(shape.dtype,), ndim=rank)
    check_sizes(dy, "input", order.stored(shape.output_shape), "this layer's input has")
    w = weight_of(weight, dy, rank)
    check_sizes(w, "weight", shape.weight_shape, "this layer's filter has")
    turns = axes.order(order, memory, rank), axes.order(memory, order, rank)
    operands = {"dy": Operand("input", input, axes.stored(dy, order, memory), turns[0]),
                "w": Operand("weight", weight, w)}
    if bias is not None:
        operands["bias"] = _bias(bias, shape, dy)
    sizes = memory.stored(shape.input_shape)
    y = None if out is None else target_of(out, sizes, shape.dtype, turns[0], operands)
    return launch(kernel, shape, operands, operands["dy"], "dx", sizes, turns, y, out, stream)


def output_sizes(image: Sequence[Any], taps: Sequence[Any], stride: Sequence[Any], sides: Iterable[tuple[Any, Any]],
                 dilation: Sequence[Any], more: Sequence[Any]) -> tuple[Any, ...]:
    """A transposed layer's output along the spatial axes, as torch has it; ``sides``: the padding before and after.
    By arithmetic that torch.compile and its tracers follow."""
    return tuple((size - 1) * step - before - after + apart * (span - 1) + 1 + extra
                 for size, span, step, (before, after), apart, extra in zip(image, taps, stride, sides, dilation, more))


def check_output_padding(given: Any, more: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> None:
    """What a transposed layer's output has besides, by axes; ``given``: as the caller wrote it. Raises ShapeError."""
    if any(extra >= step and extra > after for extra, step, after in zip(more, stride, padding)):
        raise ShapeError("output_padding is no less than the stride and more than the padding",
                         argument="output_padding", value=given,
                         hint="less than the stride, or no more than the padding")


def _bias(bias: Any, shape: ConvShape, beside: ArrayView) -> Operand:
    view = arrays.view(bias, "bias", dtypes=(shape.dtype,), ndim=1)
    check_sizes(view, "bias", (shape.c,), "this layer has filters")
    same_memory(view, beside, "bias")
    return Operand("bias", bias, view)


def _along(value: Any, argument: str, count: int) -> tuple[int, ...]:
    """A number for each axis, as torch takes one number or all. Raises ShapeError, ArgumentTypeError."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) not in (1, count):
        example = ", ".join(("1", "0", "0")[:count])
        raise ShapeError(f"{argument} must be one number or ({', '.join(_AXES[-count:])})", argument=argument,
                         value=value, hint=f"e.g. {argument}=1 or {argument}=({example})")
    numbers = tuple(integer(each, argument, argument, 0, LARGEST_PADDING) for each in given)
    return numbers if len(numbers) == count else numbers * count


def _numbers_only(value: Any, argument: str = "padding") -> Any:
    if isinstance(value, str):
        raise ArgumentError(f"{argument} of a transposed layer is in numbers", argument=argument, value=value,
                            hint="an int, or one for each axis")
    return value
