"""Layers of one axis: conv1d, its gradients and the transposed layer, as planes of one row or column
(docs/one-dimension.md).

(N, C, L) is (N, C, 1, L), (N, L, C) is (N, 1, L, C) in NHWC: views, which no element is copied for. A depthwise layer
in NLC order is one column instead, (N, L, 1, C): its kernels go down the rows with the sums of a window in registers,
and load each element once. All else is the work of the functions of two axes, so PyTorch watches these calls as it
does theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError

from . import gradients, transposed
from .conv import conv2d
from .given import as_batch
from .lined import lined
from .streamed import streamed
from .way import CAUSAL, one, three, way_of


@lined
def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, layout: str = "NCL", state: Any = None, return_state: bool = False,
           padding_mode: str = "zeros", padding_value: float = 0.0, activation: str | None = None,
           epilogue: Iterable[Any] = (), algorithm: str = "auto", accum_dtype: str | None = None,
           out_dtype: str | None = None, cast: str = "nearest", device: str = "auto", residual: Any = None,
           out: Any = None, stream: Any = None, workspace_limit: int | None = None,
           precision: str = "float32") -> Any:
    """1D cross-correlation as torch.nn.functional.conv1d, by a kernel specialised to the layer.

    Parameters
    ----------
    input : array, (N, C, L) or (N, L, C) by ``layout``, or without N
        As conv2d's: its types, its libraries. Its order in memory is seen and kept: (N, C, L) over memory in NLC order
        is read as it lies.
    weight : array, (K, C/groups, S)
        Of the input's type, as conv2d's.
    bias : array, (K,), optional
        As conv2d's.
    stride, dilation : int
        In elements.
    padding : int, (left, right), 'causal', 'same' or 'valid'
        In elements. 'causal': dilation * (S - 1) on the left and none on the right, so that no output sees an input
        after it.
    groups : int
        Both C and K are divided into so many.
    layout : str
        The order of the axes of input, output, residual and state: 'NCL' or 'NLC'.
    state : array, (N, C, dilation * (S - 1)) or (N, dilation * (S - 1), C), optional
        The inputs before ``input``, which is a chunk of a longer one: what the call for the chunk before returned.
        Zeros if None. For padding 'causal', stride 1 and no ``stream``. It is not written to.
    return_state : bool
        Whether the state for the next chunk is returned, too.
    padding_mode, padding_value, activation, epilogue : as in conv2d
        A bias and ``activation='silu'`` are part of the one kernel.
    algorithm, accum_dtype, out_dtype, cast, precision : as in conv2d
        ``algorithm`` is 'auto', or one that ``explain`` names for the layer of one row.
    residual, out : array, optional
        As conv2d's, with the output's axes.
    device, stream, workspace_limit : as in conv2d
        Where and on which stream the work is queued.

    Returns
    -------
    array, (N, K, Q) or (N, Q, K), without N where the input has none
        ``out`` if given, else a new array of the input's library; with ``return_state`` a pair of it and the next
        state, an array of its own.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError
        Sizes, values or arrays that cannot be, or do not go together.
    UnsupportedSpec
        No algorithm, or not the named one, serves the layer.
    DeviceError
        The device cannot be used. All of these come before anything is launched or written.
    """
    if not isinstance(return_state, bool):
        raise ArgumentTypeError("return_state is True or False", argument="return_state", value=return_state,
                                hint="True: the next state comes back, too")
    alone = getattr(input, "ndim", 3) == 2
    x, added, y, before = input, residual, out, state
    if alone:
        x, added, y, before = as_batch(input, residual=residual, out=out, state=state)
    step, apart = one(stride, "stride"), one(dilation, "dilation")
    way = way_of(layout, x, getattr(weight, "shape", ()), told=True)
    w = way.weight(weight)
    more = {"padding_mode": padding_mode, "padding_value": padding_value, "activation": activation,
            "epilogue": epilogue, "algorithm": algorithm, "layout": way.order, "accum_dtype": accum_dtype,
            "out_dtype": out_dtype, "cast": cast, "device": device, "separable": False, "stream": stream,
            "workspace_limit": workspace_limit, "precision": precision}

    def call(x: Any, padding: Any, residual: Any, out: Any) -> Any:
        made = conv2d(way.plane(x, "input"), w, bias, way.pair(1, step), way.sides(padding, weight.shape[2], apart),
                      way.pair(1, apart), groups, residual=way.plane(residual, "residual"), out=way.plane(out, "out"),
                      **more)
        return way.line(made) if out is None else out

    after = None
    causal, zeros = (isinstance(given, str) and given == name
                     for given, name in ((padding, CAUSAL), (padding_mode, "zeros")))
    if before is None and not return_state:
        made = call(x, padding, added, y)
    elif not causal or step != 1 or not zeros or stream is not None:
        raise ArgumentError("a state stands before a chunk of a causal layer, and is copied on its library's stream",
                            argument="state", value=f"padding={padding!r}, stride={stride!r}, "
                            f"padding_mode={padding_mode!r}, stream={stream!r}",
                            hint="padding='causal', stride=1, zeros and no stream= (with torch.cuda.stream(...))")
    else:
        made, after = streamed(call, way.axis, apart * (weight.shape[2] - 1), x, before, added, y, return_state, weight,
                               bias)
    if alone:
        made, after = made[0] if out is None else out, None if after is None else after[0]
    return (made, after) if return_state else made


@lined
def conv_transpose1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, layout: str = "NCL",
                     algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                     workspace_limit: int | None = None, precision: str = "float32") -> Any:
    """A transposed 1D convolution as torch.nn.functional.conv_transpose1d, by the kernels of conv1d's data gradient.

    Parameters
    ----------
    input : array, (N, C, L) or (N, L, C) by ``layout``, or without N
        float32, float16 or bfloat16, of any library that conv2d takes.
    weight : array, (C, K/groups, S)
        Of the input's type.
    bias : array, (K,), optional
        Of the input's type.
    stride, dilation, output_padding : int
        As in torch: the output has (L - 1) * stride - 2 * padding + dilation * (S - 1) + output_padding + 1 elements.
    padding : int or (left, right)
        What the output has less at its ends.
    groups : int
        Both C and K are divided into so many.
    layout : str
        The order of the axes of input and output: 'NCL' or 'NLC'.
    algorithm, device, out, stream, workspace_limit, precision : as in conv_transpose2d
        ``out`` has the output's axes.

    Returns
    -------
    array, (N, K, Q) or (N, Q, K), without N where the input has none
        ``out`` if given, else a new array of the input's library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv_transpose2d, before anything is launched or written.
    """
    alone = getattr(input, "ndim", 3) == 2
    x, y = as_batch(input, out=out) if alone else (input, out)
    way = way_of(layout, x, told=True)
    if isinstance(padding, str):
        raise ArgumentError("padding of a transposed layer is in numbers", argument="padding", value=padding,
                            hint="an int or (left, right)")
    made = transposed.conv_transpose2d(
        way.plane(x, "input"), way.weight(weight), bias, (1, one(stride, "stride")), way.sides(padding, 0, 0),
        (0, one(output_padding, "output_padding", 0)), groups, (1, one(dilation, "dilation")), layout=way.order,
        algorithm=algorithm, device=device, out=way.plane(y, "out"), stream=stream,
        workspace_limit=workspace_limit, precision=precision)
    if out is not None:
        return out
    made = way.line(made)
    return made[0] if alone else made


@lined
def conv1d_input(input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", layout: str = "NCL",
                 algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                 workspace_limit: int | None = None, precision: str = "float32") -> Any:
    """The gradient of conv1d's input, as torch.nn.grad.conv1d_input.

    Parameters
    ----------
    input_size : sequence of int
        The input's sizes (N, C, L), for ``layout`` 'NLC' (N, L, C).
    weight : array, (K, C/groups, S)
        Of grad_output's type.
    grad_output : array, (N, K, Q) or (N, Q, K)
        The output's gradient: float32, float16 or bfloat16, of any library that conv2d takes.
    stride, padding, dilation, groups, padding_mode, layout : as in conv1d
        Those of the layer, padding 'causal' too.
    algorithm, device, out, stream, workspace_limit, precision : as in conv2d_input
        ``out`` is of input_size.

    Returns
    -------
    array, of input_size
        ``out`` if given, else a new array of grad_output's library. Sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_input, before anything is launched or written.
    """
    step, apart = one(stride, "stride"), one(dilation, "dilation")
    way = way_of(layout, grad_output, getattr(weight, "shape", ()) if step == 1 else (), told=True)
    w = way.weight(weight)
    made = gradients.conv2d_input(
        way.sizes(input_size, "input_size"), w, way.plane(grad_output, "grad_output"), way.pair(1, step),
        way.sides(padding, weight.shape[2], apart), way.pair(1, apart), groups, padding_mode=padding_mode,
        layout=way.order, algorithm=algorithm, device=device, out=way.plane(out, "out"), stream=stream,
        workspace_limit=workspace_limit, precision=precision)
    return way.line(made) if out is None else out


@lined
def conv1d_weight(input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0,
                  layout: str = "NCL", algorithm: str = "auto", device: str = "auto", out: Any = None,
                  stream: Any = None, workspace_limit: int | None = None, precision: str = "float32") -> Any:
    """The gradient of conv1d's weight, as torch.nn.grad.conv1d_weight; equal bits from run to run.

    Parameters
    ----------
    input : array, (N, C, L) or (N, L, C)
        float32, float16 or bfloat16, of any library that conv2d takes.
    weight_size : sequence of int
        The weight's sizes (K, C/groups, S).
    grad_output : array, (N, K, Q) or (N, Q, K)
        The output's gradient, of the input's type.
    stride, padding, dilation, groups, padding_mode, padding_value, layout : as in conv1d
        Those of the layer, padding 'causal' too.
    algorithm, device, out, stream, workspace_limit, precision : as in conv2d_weight
        ``out`` is of weight_size.

    Returns
    -------
    array, (K, C/groups, S)
        ``out`` if given, else a new array of the input's library and type; sums are float32 for every type.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As conv2d_weight, before anything is launched or written.
    """
    step, apart = one(stride, "stride"), one(dilation, "dilation")
    _, _, taps = three(weight_size, "weight_size")
    way = way_of(layout, input, tuple(weight_size), told=True)
    made = gradients.conv2d_weight(
        way.plane(input, "input"), way.weight_sizes(weight_size, "weight_size"),
        way.plane(grad_output, "grad_output"), way.pair(1, step), way.sides(padding, taps, apart), way.pair(1, apart),
        groups, padding_mode=padding_mode, padding_value=padding_value, layout=way.order, algorithm=algorithm,
        device=device, out=way.weight(out, "out"), stream=stream, workspace_limit=workspace_limit, precision=precision)
    return way.weight_line(made) if out is None else out
