"""conv3d and its gradients: from arrays of volumes to a kernel and its output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.shape import INTEGER_WEIGHTS, PIXELS
from warpconv.codegen.spec import Operation, parse_epilogue
from warpconv.runtime import arrays
from warpconv.runtime.arrays import axes

from . import kernels, signatures
from .checks import Misaligned, bias_of, check_out, residual_of, same_memory
from .conv import conv2d
from .filter import Filter
from .given import as_batch, layer_given, layer_of_sizes
from .kernel import Kernel
from .operands import Operand, Remember, check_sizes, run, seen, sizes_of, turned, weight_of
from .place import resolve_device
from .pointwise import PLAIN, as_images, as_volumes
from .repeated import repeated

LAYOUTS = {"NCDHW": Layout.NCHW, "NDHWC": Layout.NHWC}


@repeated("input", "weight", "bias", "residual")
def conv3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0, activation: str | None = None,
           epilogue: Iterable[Any] = (), algorithm: str = "auto", layout: str = "NCDHW", out_dtype: str | None = None,
           cast: str = "nearest", device: str = "auto", residual: Any = None, out: Any = None,
           stream: Any = None, precision: str = "float32", remember: Remember | None = None) -> Any:
    """3D cross-correlation as torch.nn.functional.conv3d, by a kernel specialised to the layer.

    Parameters
    ----------
    input : array, (N, C, D, H, W)
        Of the types that conv2d takes, of any library that it takes; one volume (C, D, H, W), too. Arrays with gaps are
        copied.
    weight : array, (K, C/groups, T, R, S)
        Of the input's type; for integers float32, or int8, int16 or int32: then products and sums are exact in int32.
    bias : array, (K,), optional
        Of the input's type, float32 for integers.
    stride, dilation : int or (depth, vertical, horizontal)
        In elements.
    padding : int, (depth, vertical, horizontal), ((front, back), (top, bottom), (left, right)), 'same' or 'valid'
        In elements.
    groups : int
        Both C and K are divided into so many.
    padding_mode, padding_value
        What stands in the padding of all three axes, as in conv2d.
    activation, epilogue, residual : as in conv2d
        Steps applied to each output.
    algorithm : str
        'auto', or one of ``explain(shape)`` for a ConvShape with a depth.
    layout : str
        The order of the axes of input and output, 'NCDHW' or 'NDHWC'. What order they have in memory is seen by the
        input's strides and kept (torch.channels_last_3d).
    out_dtype, cast : as in conv2d
        The output's element type, and how values become integers.
    device, stream : as in conv2d
        Where the layer is computed.
    out : array, optional
        Where the result goes; any strides.
    precision : str
        As in conv2d: how exact the products of float32 elements are; 'fp16x3' is for images.

    Returns
    -------
    array, (N, K, Z, P, Q), or (N, Z, P, Q, K) for 'NDHWC'; of one volume without N
        ``out`` if given, else a new array of the input's library. Sums are float32 for every type of floats.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError
        Sizes, values or arrays that cannot be, or do not go together.
    UnsupportedSpec
        No algorithm, or not the named one, serves the layer.
    DeviceError
        The device cannot be used. All of these come before anything is launched or written.
    """
    alone = getattr(input, "ndim", 5) == 4
    x, added, y = as_batch(input, residual=residual, out=out) if alone else (input, residual, out)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value, "out_dtype": out_dtype, "cast": cast}
    order = order_of(layout)
    plain = {name: geometry[name] for name in PLAIN}
    flat = as_images(order, plain, weight, x, added, y) if isinstance(algorithm, str) and algorithm == "auto" else None
    if flat is not None:        # conv2d remembers it
        made = conv2d(flat.input, flat.weight, bias, groups=groups, activation=activation, epilogue=epilogue,
                      layout=order, out_dtype=out_dtype, cast=cast, device=device, separable=False,
                      residual=flat.residual, out=flat.out, stream=stream, precision=precision)
        made = as_volumes(made, order, x)
        return out if out is not None else made[0] if alone else made
    kernel, made = conv3d_and_kernel(x, weight, **geometry, bias=bias, activation=activation, epilogue=epilogue,
                                algorithm=algorithm, layout=order, device=device, residual=added,
                                out=y, stream=stream, precision=precision)
    if remember is not None and not alone:
        remember(kernel.remembered(signatures.sign_call(input, weight, bias, residual, out)))
    return out if out is not None else made[0] if alone else made


def conv3d_and_kernel(input: Any, weight: Any, *, groups: int, padding: Any, padding_mode: str, padding_value: float,
                      epilogue: Iterable[Any], algorithm: Any, layout: Layout, out_dtype: str | None, cast: str,
                      device: Any, out: Any, stream: Any, bias: Any = None, stride: Any = 1, dilation: Any = 1,
                      residual: Any = None, activation: Any = None,
                      precision: Any = "float32") -> tuple[Kernel, Any]:
    """conv3d for callers who remember the kernel of a call: it, and the output. NCHW stands for N, C, D, H, W. Raises
    as conv3d does."""
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value, "out_dtype": out_dtype, "cast": cast}
    if isinstance(weight, Filter):
        raise ArgumentTypeError("a Filter belongs to its kernel", argument="weight",
                                hint="call the kernel that prepared it: filter.kernel(input, filter)")
    order = layout
    x = arrays.view(input, "input", dtypes=(*FLOATS, *PIXELS), ndim=5)
    w = arrays.view(weight, "weight", ndim=5,
                    dtypes=(x.dtype,) if x.dtype.is_float else (DType.FLOAT32, *INTEGER_WEIGHTS))
    if x.device != w.device:
        raise ArgumentTypeError("input and weight are not in one place: one is in host memory, or they are on two GPUs",
                                argument="weight", hint="move both to one device")
    dtype = x.dtype if out_dtype is None else DType.parse(out_dtype, "out_dtype")
    y = None if out is None else arrays.view(out, "out", dtypes=(dtype,), ndim=5, writable=True)
    memory = axes.memory_order(order, x, y)
    shape = layer_given(axes.stored(x, order, memory), w, memory, geometry)
    steps = parse_epilogue(epilogue, bias=bias is not None, activation=activation, residual=residual is not None)
    ask = kernels.asked(shape, resolve_device(device, x, shape), algorithm=algorithm, epilogue=steps,
                        numerics=kernels.numerics_of(None, precision), workspace_limit=kernels.call_limit(None))
    kernel = kernels.known(ask)
    if kernel is None:      # a mistake in what the kernel itself would check shall not cost a compilation
        views = {"input": x, "weight": w}
        if bias is not None:
            views["bias"] = bias_of(shape.k, shape.bias_dtype, bias, x)
        if residual is not None:
            views["residual"] = residual_of(residual, shape, order, x)
        if out is not None:
            check_out(out, shape, order, views)
        kernel = kernels.made(ask)
    kernel = kernel.for_axes(order)
    try:
        return kernel, kernel(input, weight, bias, residual=residual, out=out, stream=stream)
    except Misaligned:
        kernel = kernels.anywhere(kernel, ask).for_axes(order)
        return kernel, kernel(input, weight, bias, residual=residual, out=out, stream=stream)


def order_of(layout: Any) -> Layout:
    """The order of a volume's axes. Raises ArgumentError for a name that is none."""
    found = LAYOUTS.get(layout) if isinstance(layout, str) else None
    if found is None:
        raise ArgumentError("unknown layout of volumes", argument="layout", value=layout,
                            hint=f"one of {', '.join(LAYOUTS)}")
    return found


@repeated("grad_output", "weight")
def conv3d_input(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", layout: str = "NCDHW",
                 algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                 precision: str = "float32", remember: Remember | None = None) -> Any:
    """The gradient of conv3d's input, as torch.nn.grad.conv3d_input.

    Parameters
    ----------
    input_size : sequence of int
        The input's sizes (N, C, D, H, W), for ``layout`` 'NDHWC' (N, D, H, W, C).
    weight : array, (K, C/groups, T, R, S)
        Of grad_output's type.
    grad_output : array, (N, K, Z, P, Q) or (N, Z, P, Q, K)
        The output's gradient: float32, float16 or bfloat16, of any library that conv2d takes.
    stride, padding, dilation, groups, padding_mode, layout : as in conv3d
        Those of the layer.
    algorithm, device, stream, precision : as in conv2d_input
        Where and how it is computed.
    out : array, optional
        Where the gradient goes, of input_size and grad_output's type; any strides.

    Returns
    -------
    array, of input_size
        ``out`` if given, else a new array of grad_output's library. Sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_input, before anything is launched or written.
    """
    return data_gradient(input_size, weight, grad_output, stride, padding, dilation, groups, padding_mode, layout,
                         algorithm, device, out, stream, precision, remember)


def data_gradient(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any, padding: Any, dilation: Any,
                  groups: int, padding_mode: str, layout: str = "NCDHW", algorithm: str = "auto", device: str = "auto",
                  out: Any = None, stream: Any = None, precision: str = "float32",
                  remember: Remember | None = None) -> Any:
    """conv3d_input where PyTorch does not watch; ``remember`` is given what repeats the call."""
    order = order_of(layout)
    dy = arrays.view(grad_output, "grad_output", dtypes=FLOATS, ndim=5)
    w = weight_of(weight, dy, 5)
    memory = axes.memory_order(order, dy, seen(out, dy.dtype, 5))
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode}
    sizes = sizes_of(input_size, "input_size", "(N, C, D, H, W), or (N, D, H, W, C) for layout 'NDHWC'", 5)
    shape = layer_of_sizes(turned(sizes, order, memory), w.shape, dy.dtype, w.dtype, memory, geometry)
    check_sizes(dy, "grad_output", order.stored(shape.output_shape), "this layer's output has")
    ask = kernels.asked(shape, resolve_device(device, dy, shape), algorithm=algorithm,
                        operation=Operation.DATA_GRADIENT, numerics=kernels.numerics_of(None, precision),
                        workspace_limit=kernels.call_limit(None))
    operands = {"dy": Operand("grad_output", grad_output, axes.stored(dy, order, memory),
                              axes.order(order, memory, 5)), "w": Operand("weight", weight, w)}
    return run(ask, operands, "dx", memory.stored(shape.input_shape), order, out, stream, remember)


@repeated("input", "grad_output")
def conv3d_weight(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0,
                  layout: str = "NCDHW", algorithm: str = "auto", device: str = "auto", out: Any = None,
                  stream: Any = None, precision: str = "float32", remember: Remember | None = None) -> Any:
    """The gradient of conv3d's weight, as torch.nn.grad.conv3d_weight; equal bits from run to run.

    Parameters
    ----------
    input : array, (N, C, D, H, W) or (N, D, H, W, C)
        float32, float16 or bfloat16, of any library that conv2d takes.
    weight_size : sequence of int
        The weight's sizes (K, C/groups, T, R, S).
    grad_output : array, (N, K, Z, P, Q) or (N, Z, P, Q, K)
        The output's gradient, of the input's type; copied where its order in memory is another than the input's.
    stride, padding, dilation, groups, padding_mode, padding_value, layout : as in conv3d
        Those of the layer.
    algorithm, device, stream, precision : as in conv2d_weight
        Where and how it is computed.
    out : array, (K, C/groups, T, R, S), optional
        Where the gradient goes, of the input's type; any strides.

    Returns
    -------
    array, (K, C/groups, T, R, S)
        ``out`` if given, else a new array of the input's library and type; sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_input, before anything is launched or written.
    """
    return filter_gradient(input, weight_size, grad_output, stride, padding, dilation, groups, padding_mode,
                           padding_value, layout, algorithm, device, out, stream, precision, remember)


def filter_gradient(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any, padding: Any, dilation: Any,
                    groups: int, padding_mode: str, padding_value: float, layout: str = "NCDHW",
                    algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                    precision: str = "float32", remember: Remember | None = None) -> Any:
    """conv3d_weight where PyTorch does not watch; ``remember`` is given what repeats the call."""
    order = order_of(layout)
    x = arrays.view(input, "input", dtypes=FLOATS, ndim=5)
    dy = arrays.view(grad_output, "grad_output", dtypes=(x.dtype,), ndim=5)
    same_memory(dy, x, "grad_output")
    memory = axes.memory_order(order, x, dy)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value}
    sizes = sizes_of(weight_size, "weight_size", "(K, C/groups, T, R, S)", 5)
    shape = layer_of_sizes(turned(x.shape, order, memory), sizes, x.dtype, x.dtype, memory, geometry)
    check_sizes(dy, "grad_output", order.stored(shape.output_shape), "this layer's output has")
    ask = kernels.asked(shape, resolve_device(device, x, shape), algorithm=algorithm,
                        operation=Operation.FILTER_GRADIENT, numerics=kernels.numerics_of(None, precision),
                        workspace_limit=kernels.call_limit(None))
    turn = axes.order(order, memory, 5)
    operands = {"x": Operand("input", input, axes.stored(x, order, memory), turn),
                "dy": Operand("grad_output", grad_output, axes.stored(dy, order, memory), turn)}
    return run(ask, operands, "dw", shape.weight_shape, None, out, stream, remember)
