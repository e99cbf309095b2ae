"""Gradients of a layer: from arrays to kernels of these operations (docs/gradients.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.spec import Operation
from warpconv.runtime import arrays
from warpconv.runtime.arrays import axes

from . import kernels
from .checks import same_memory
from .given import layer_of_sizes
from .operands import Operand, Remember, check_sizes, run, seen, sizes_of, turned, weight_of
from .place import resolve_device
from .repeated import repeated

_AXES = "(N, C, H, W), or (N, H, W, C) for layout 'NHWC'"


@repeated("grad_output", "weight")
def conv2d_input(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", layout: Layout | str = "NCHW",
                 algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                 workspace_limit: int | None = None, precision: str = "float32",
                 remember: Remember | None = None) -> Any:
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
    layout, algorithm, device, stream, workspace_limit, precision : as in conv2d
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
                         algorithm, device, out, stream, workspace_limit, precision, remember)


def data_gradient(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any, padding: Any, dilation: Any,
                  groups: int, padding_mode: str, layout: Layout | str = "NCHW", algorithm: str = "auto",
                  device: str = "auto", out: Any = None, stream: Any = None, workspace_limit: int | None = None,
                  precision: str = "float32", remember: Remember | None = None) -> Any:
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
    ask = kernels.asked(shape, resolve_device(device, dy, shape), algorithm=algorithm,
                        operation=Operation.DATA_GRADIENT, numerics=kernels.numerics_of(None, precision),
                        workspace_limit=kernels.call_limit(workspace_limit))
    shape, memory = ask.request.layer, ask.request.layer.layout     # of single pixels it may be the other order's
    operands = {"dy": Operand("grad_output", grad_output, axes.stored(dy, order, memory), axes.order(order, memory)),
                "w": Operand("weight", weight, w)}
    return run(ask, operands, "dx", memory.stored(shape.input_shape), order, out, stream, remember)


@repeated("input", "grad_output")
def conv2d_weight(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0,
                  layout: Layout | str = "NCHW", algorithm: str = "auto", device: str = "auto", out: Any = None,
                  stream: Any = None, workspace_limit: int | None = None, precision: str = "float32",
                  remember: Remember | None = None) -> Any:
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
    layout, algorithm, device, stream, workspace_limit, precision : as in conv2d
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
                           padding_value, layout, algorithm, device, out, stream, workspace_limit, precision, remember)


def filter_gradient(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any, padding: Any, dilation: Any,
                    groups: int, padding_mode: str, padding_value: float, layout: Layout | str = "NCHW",
                    algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                    workspace_limit: int | None = None, precision: str = "float32",
                    remember: Remember | None = None) -> Any:
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
                        operation=Operation.FILTER_GRADIENT, numerics=kernels.numerics_of(None, precision),
                        workspace_limit=kernels.call_limit(workspace_limit))
    memory = ask.request.layer.layout       # of single pixels it may be the other order's
    turn = axes.order(order, memory)
    return run(ask, {"x": Operand("input", input, axes.stored(x, order, memory), turn),
                      "dy": Operand("grad_output", grad_output, axes.stored(dy, order, memory), turn)},
                "dw", shape.weight_shape, None, out, stream, remember)


@repeated("grad_output")
def conv2d_bias(grad_output: Any, *, layout: Layout | str = "NCHW", device: str = "auto", out: Any = None,
                stream: Any = None, remember: Remember | None = None) -> Any:
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
    return bias_gradient(grad_output, layout, device, out, stream, remember)


def bias_gradient(grad_output: Any, layout: Layout | str = "NCHW", device: str = "auto", out: Any = None,
                  stream: Any = None, remember: Remember | None = None) -> Any:
    """conv2d_bias where PyTorch does not watch; ``remember`` is given what repeats the call."""
    order = Layout.parse(layout)
    dy = arrays.view(grad_output, "grad_output", dtypes=FLOATS, ndim=4)
    memory = axes.memory_order(order, dy)
    k = order.logical(dy.shape)[1]
    if not dy.shape[0] and out is None and hasattr(grad_output, "new_zeros"):       # PyTorch's batch of no images
        return grad_output.new_zeros(k)
    shape = layer_of_sizes(turned(dy.shape, order, memory), (k, 1, 1, 1), dy.dtype, dy.dtype, memory, {"groups": k})
    ask = kernels.asked(shape, resolve_device(device, dy, shape), workspace_limit=kernels.call_limit(None),
                        operation=Operation.BIAS_GRADIENT)
    operand = Operand("grad_output", grad_output, axes.stored(dy, order, memory), axes.order(order, memory))
    return run(ask, {"dy": operand}, "db", (k,), None, out, stream, remember)
