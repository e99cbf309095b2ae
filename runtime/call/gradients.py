"""Gradients of a layer, and the transposed layer: from arrays to kernels of these operations (docs/gradients.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ShapeError
from warpconv.codegen.layer import integer
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.shape import LARGEST_PADDING, ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView, axes

from . import kernels
from .checks import same_memory
from .given import as_batch, layer_of_sizes
from .kernel import Kernel
from .operands import Operand, Remember, check_sizes, launch, run, seen, sizes_of, target_of, turned, weight_of
from .place import resolve_device
from .repeated import repeated

_AXES = "(N, C, H, W), or (N, H, W, C) for layout 'NHWC'"


@repeated("grad_output", "weight")
def conv2d_input(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", layout: Layout | str = "NCHW",
                 algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                 workspace_limit: int | None = None, remember: Remember | None = None) -> Any:
    """The gradient of conv2d's input, as torch.nn.grad.conv2d_input.

    Parameters
    ----------
    input_size : sequence of int
        The input's sizes (N, C, H, W), for ``layout`` 'NHWC' (N, H, W, C).
    weight : array, (K, C/groups, R, S)
        Of grad_output's type.
    grad_output : array, (N, K, P, Q) or (N, P, Q, K)
        The output's gradient: float32, float16 or bfloat16, of any library that conv2d takes. Its order in memory is
        seen and kept.
    stride, padding, dilation, groups : as in conv2d
        Those of the layer.
    padding_mode : str
        The layer's, any of conv2d's; what stands in a 'constant' border makes no difference here.
    layout, algorithm, device, stream, workspace_limit : as in conv2d
        ``algorithm`` is one of ``explain(shape, operation="data_gradient")``.
    out : array, optional
        Where the gradient goes, of input_size and grad_output's type; any strides.

    Returns
    -------
    array, of input_size
        ``out`` if given, else a new array of grad_output's library. Sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError
        Sizes, values or arrays that cannot be, or do not go together.
    UnsupportedSpec
        No algorithm, or not the named one, serves the layer.
    DeviceError
        The device cannot be used. All of these come before anything is launched or written.
    """
    return data_gradient(input_size, weight, grad_output, stride, padding, dilation, groups, padding_mode, layout,
                         algorithm, device, out, stream, workspace_limit, remember)


def data_gradient(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any, padding: Any, dilation: Any,
                  groups: int, padding_mode: str, layout: Layout | str = "NCHW", algorithm: str = "auto",
                  device: str = "auto", out: Any = None, stream: Any = None, workspace_limit: int | None = None,
                  remember: Remember | None = None) -> Any:
    """conv2d_input where PyTorch does not watch; ``remember`` is given what repeats the call."""
    order = Layout.parse(layout)
    dy = arrays.view(grad_output, "grad_output", dtypes=FLOATS, ndim=4)
    w = weight_of(weight, dy)
    memory = axes.memory_order(order, dy, seen(out, dy.dtype))
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode}
    shape = layer_of_sizes(turned(sizes_of(input_size, "input_size", _AXES), order, memory), w.shape, dy.dtype, w.dtype,
                           memory, geometry)
    check_sizes(dy, "grad_output", order.stored(shape.output_shape), "this layer's output has")
    return _data_gradient(shape, order, dy, grad_output, w, weight, None, algorithm, device, out, stream,
                          workspace_limit, "grad_output", remember)


@repeated("input", "weight", "bias")
def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, layout: Layout | str = "NCHW",
                     algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                     workspace_limit: int | None = None, remember: Remember | None = None) -> Any:
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
    layout, algorithm, device, stream, workspace_limit : as in conv2d
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
    order, given = Layout.parse(layout), out
    alone = getattr(input, "ndim", 4) == 3
    if alone:
        input, out = as_batch(input, out=out)
    x = arrays.view(input, "input", dtypes=FLOATS, ndim=4)
    w = weight_of(weight, x)
    memory = axes.memory_order(order, x, seen(out, x.dtype))
    n, c, h, w_in = order.logical(x.shape)
    if w.shape[0] != c:
        raise ShapeError(f"weight has {w.shape[0]} channels and input has {c}", argument="weight", value=w.shape,
                         hint="a transposed layer's weight is (C, K/groups, R, S)")
    groups = integer(groups, "groups", "number of groups", 1, c)
    if c % groups:
        raise ShapeError(f"groups must divide C = {c}", argument="groups", value=groups,
                         hint="a transposed layer's weight is (C, K/groups, R, S)")
    # the layer has no sizes yet: the pairs are given their form by one that is just large enough
    plain = ConvShape(n=n, c=w.shape[1] * groups, h=2**20, w=2**20, k=c, r=w.shape[2], s=w.shape[3], stride=stride,
                      padding=_numbers_only(padding), dilation=dilation, groups=groups)
    more = _pair(_numbers_only(output_padding, "output_padding"), "output_padding")
    check_output_padding(output_padding, more, plain.stride, [after for _, after in plain.padding])
    sizes, pads = [], []
    for axis, size in enumerate((h, w_in)):
        before, after = plain.padding[axis]
        extra, step = more[axis], plain.stride[axis]
        sizes.append((size - 1) * step - before - after + plain.extents[axis] + extra)
        pads.append((before, after if extra < step else after - extra))
    if min(sizes) < 1:
        raise ShapeError(f"empty output: {sizes[0]} x {sizes[1]}", argument="padding", value=padding,
                         hint="less padding, or a larger filter")
    geometry = {"stride": plain.stride, "padding": tuple(pads), "dilation": plain.dilation, "groups": groups,
                "padding_mode": "zeros"}
    shape = layer_of_sizes(memory.stored((n, plain.c, sizes[0], sizes[1])), w.shape, x.dtype, w.dtype, memory, geometry)
    b = None
    if bias is not None:
        b = arrays.view(bias, "bias", dtypes=(x.dtype,), ndim=1)
        check_sizes(b, "bias", (shape.c,), "this layer has filters")
        same_memory(b, x, "bias")
    added = None if b is None else Operand("bias", bias, b)
    made = _data_gradient(shape, order, x, input, w, weight, added, algorithm, device, out, stream, workspace_limit,
                          "input", None if alone else remember)
    return made if not alone else made[0] if given is None else given


@repeated("input", "grad_output")
def conv2d_weight(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0,
                  layout: Layout | str = "NCHW", algorithm: str = "auto", device: str = "auto", out: Any = None,
                  stream: Any = None, workspace_limit: int | None = None, remember: Remember | None = None) -> Any:
    """The gradient of conv2d's weight, as torch.nn.grad.conv2d_weight; equal bits from run to run.

    Parameters
    ----------
    input : array, (N, C, H, W) or (N, H, W, C)
        float32, float16 or bfloat16, of any library that conv2d takes.
    weight_size : sequence of int
        The weight's sizes (K, C/groups, R, S).
    grad_output : array, (N, K, P, Q) or (N, P, Q, K)
        The output's gradient, of the input's type; copied where its order in memory is another than the input's.
    stride, padding, dilation, groups, padding_mode, padding_value : as in conv2d
        Those of the layer.
    layout, algorithm, device, stream, workspace_limit : as in conv2d
        ``algorithm`` is one of ``explain(shape, operation="filter_gradient")``.
    out : array, (K, C/groups, R, S), optional
        Where the gradient goes, of the input's type; any strides.

    Returns
    -------
    array, (K, C/groups, R, S)
        ``out`` if given, else a new array of the input's library and type; sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_input, before anything is launched or written.
    """
    return filter_gradient(input, weight_size, grad_output, stride, padding, dilation, groups, padding_mode,
                           padding_value, layout, algorithm, device, out, stream, workspace_limit, remember)


def filter_gradient(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any, padding: Any, dilation: Any,
                    groups: int, padding_mode: str, padding_value: float, layout: Layout | str = "NCHW",
                    algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                    workspace_limit: int | None = None, remember: Remember | None = None) -> Any:
    """conv2d_weight where PyTorch does not watch; ``remember`` is given what repeats the call."""
    order = Layout.parse(layout)
    x = arrays.view(input, "input", dtypes=FLOATS, ndim=4)
    dy = arrays.view(grad_output, "grad_output", dtypes=(x.dtype,), ndim=4)
    same_memory(dy, x, "grad_output")
    memory = axes.memory_order(order, x, dy)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value}
    shape = layer_of_sizes(turned(x.shape, order, memory), sizes_of(weight_size, "weight_size", "(K, C/groups, R, S)"),
                           x.dtype, x.dtype, memory, geometry)
    check_sizes(dy, "grad_output", order.stored(shape.output_shape), "this layer's output has")
    ask = kernels.asked(shape, resolve_device(device, x, shape), algorithm=algorithm,
                        workspace_limit=kernels.call_limit(workspace_limit), operation=Operation.FILTER_GRADIENT)
    turn = axes.order(order, memory)
    return run(ask, {"x": Operand("input", input, axes.stored(x, order, memory), turn),
                      "dy": Operand("grad_output", grad_output, axes.stored(dy, order, memory), turn)},
                "dw", shape.weight_shape, None, out, stream, remember)


def conv2d_bias(grad_output: Any, *, layout: Layout | str = "NCHW", device: str = "auto", out: Any = None,
                stream: Any = None) -> Any:
    """The gradient of conv2d's bias: grad_output summed over images and pixels; equal bits from run to run.

    Parameters
    ----------
    grad_output : array, (N, K, P, Q) or (N, P, Q, K)
        The output's gradient: float32, float16 or bfloat16, of any library that conv2d takes.
    layout, device, stream : as in conv2d
        Of grad_output.
    out : array, (K,), optional
        Where the gradient goes, of grad_output's type.

    Returns
    -------
    array, (K,)
        ``out`` if given, else a new array of grad_output's library and type; sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_input, before anything is launched or written.
    """
    order = Layout.parse(layout)
    dy = arrays.view(grad_output, "grad_output", dtypes=FLOATS, ndim=4)
    memory = axes.memory_order(order, dy)
    k = order.logical(dy.shape)[1]
    shape = layer_of_sizes(turned(dy.shape, order, memory), (k, 1, 1, 1), dy.dtype, dy.dtype, memory, {"groups": k})
    ask = kernels.asked(shape, resolve_device(device, dy, shape), workspace_limit=kernels.call_limit(None),
                        operation=Operation.BIAS_GRADIENT)
    operand = Operand("grad_output", grad_output, axes.stored(dy, order, memory), axes.order(order, memory))
    return run(ask, {"dy": operand}, "db", (k,), None, out, stream)


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
        b = arrays.view(bias, "bias", dtypes=(shape.dtype,), ndim=1)
        check_sizes(b, "bias", (shape.c,), "this layer has filters")
        same_memory(b, dy, "bias")
        operands["bias"] = Operand("bias", bias, b)
    sizes = memory.stored(shape.input_shape)
    y = None if out is None else target_of(out, sizes, shape.dtype, turns[0], operands)
    return launch(kernel, shape, operands, operands["dy"], "dx", sizes, turns, y, out, stream)


def _data_gradient(shape: ConvShape, order: Layout, dy: ArrayView, grad_output: Any, w: ArrayView, weight: Any,
                   bias: Operand | None, algorithm: Any, device: Any, out: Any, stream: Any, workspace_limit: Any,
                   argument: str, remember: Remember | None = None) -> Any:
    """The data gradient of a layer whose arrays are checked."""
    memory = shape.layout
    ask = kernels.asked(shape, resolve_device(device, dy, shape), algorithm=algorithm,
                        epilogue=() if bias is None else ("bias",), operation=Operation.DATA_GRADIENT,
                        workspace_limit=kernels.call_limit(workspace_limit))
    operands = {"dy": Operand(argument, grad_output, axes.stored(dy, order, memory), axes.order(order, memory)),
                "w": Operand("weight", weight, w)}
    if bias is not None:
        operands["bias"] = bias
    return run(ask, operands, "dx", memory.stored(shape.input_shape), order, out, stream, remember)


def check_output_padding(given: Any, more: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> None:
    """What a transposed layer's output has besides, by axes; ``given``: as the caller wrote it. Raises ShapeError."""
    if any(extra >= step and extra > after for extra, step, after in zip(more, stride, padding)):
        raise ShapeError("output_padding is no less than the stride and more than the padding",
                         argument="output_padding", value=given,
                         hint="less than the stride, or no more than the padding")


def _pair(value: Any, argument: str) -> tuple[int, int]:
    """(vertical, horizontal), as torch takes one number or two. Raises ShapeError, ArgumentTypeError."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) not in (1, 2):
        raise ShapeError(f"{argument} must be one number or (vertical, horizontal)", argument=argument, value=value,
                         hint=f"e.g. {argument}=1 or {argument}=(1, 0)")
    first, last = (integer(each, argument, argument, 0, LARGEST_PADDING) for each in given * (3 - len(given)))
    return first, last


def _numbers_only(value: Any, argument: str = "padding") -> Any:
    if isinstance(value, str):
        raise ArgumentError(f"{argument} of a transposed layer is in numbers", argument=argument, value=value,
                            hint="an int or (vertical, horizontal)")
    return value

