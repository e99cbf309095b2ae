"""warpconv's functions for tensors that PyTorch watches: arguments in any of their forms, brought to the operators'.

Each has the public function's name and arguments, which ``runtime.call.watched`` hands on.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.epilogue import parse_epilogue
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.call.checks import MOST_LAYERS
from warpconv.runtime.call.pointwise import as_images, as_volumes
from warpconv.runtime.call.transposed import check_output_padding, output_sizes
from warpconv.runtime.call.volume import order_of
from warpconv.runtime.call.watched import wants_grad

from . import autograd, operators as ops
from .arguments import LayerArguments, arguments_given
from .refused import (by_rule, check_axes, check_float, check_integer, check_number, check_output, check_recorded,
                      check_sizes_given, check_tensors, no_stream, refuse_element, refuse_sizes)


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, padding_mode: Any = "zeros", padding_value: float = 0.0, activation: Any = None,
           epilogue: Iterable[Any] = (), algorithm: str = "auto", layout: Any = "NCHW", accum_dtype: Any = None,
           out_dtype: Any = None, cast: Any = "nearest", device: str = "auto", separable: bool | None = None,
           residual: Any = None, out: Any = None, stream: Any = None, workspace_limit: int | None = None,
           precision: Any = "float32") -> Tensor:
    """``warpconv.conv2d`` by torch.ops.warpconv.conv2d. Raises as it does, and ArgumentError or ArgumentTypeError for
    what PyTorch cannot record: ``stream``, ``out`` of what requires grad, steps and types without a derivative."""
    check_tensors(input=input, weight=weight, bias=bias, residual=residual)
    check_number(padding_value, "padding_value")
    no_stream(stream)
    check_output(out)
    last, rest = arguments_behind(
        weight, bias is not None, residual is not None, stride, padding, dilation, groups, padding_mode, padding_value,
        activation, tuple(epilogue) if isinstance(epilogue, list) else epilogue, algorithm, layout, accum_dtype,
        out_dtype, cast, device, separable, workspace_limit, precision)
    recorded = wants_grad(torch, input, weight, bias, residual)
    if recorded:
        arguments = rest.rest if isinstance(rest, LayerArguments) else rest
        check_recorded(arguments[_STEPS], out, input, arguments[_OUT_DTYPE])
    alone = input.dim() == 3
    x, added = input, residual
    if alone or last:
        x, added = (None if t is None else _first(t, alone, last) for t in (input, residual))
    check_axes(4, input=x, weight=weight)
    made = (autograd.conv(x, weight, bias, added, rest, recorded) if isinstance(rest, LayerArguments) else
            ops.conv2d(x, weight, bias, added, *rest))
    return _given(_back(made, alone, last), out)


def arguments_behind(weight: Tensor, bias: bool, residual: bool, *given: Any) -> tuple[bool, Any]:
    """Whether the channels stand last in a conv2d, and what its operator takes behind the tensors: LayerArguments,
    found once for the same arguments, or the arguments themselves where a tracer has to see them."""
    taps = weight.shape[2:] if isinstance(given[1], str) else None
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return _rest_of(taps, bias, residual, *given)
    # (1.0, 1.0) is no (1, 1), but equal, and so is what stands in separable's and workspace_limit's places
    key = taps, bias, residual, repr(given[:4]), given[4:], *map(type, given[-3:])
    try:
        found = _rests.get(key)
    except TypeError:       # lists and other unhashable arguments
        last, rest = _rest_of(taps, bias, residual, *given)
        return last, arguments_given(rest)
    if found is None:
        last, rest = _rest_of(taps, bias, residual, *given)
        if len(_rests) >= MOST_LAYERS:
            _rests.clear()
        found = _rests[key] = last, arguments_given(rest)
    return found


def _rest_of(taps: Any, bias: bool, residual: bool, stride: Any, padding: Any, dilation: Any, groups: Any,
             padding_mode: Any, padding_value: Any, activation: Any, epilogue: Any, algorithm: Any, layout: Any,
             accum_dtype: Any, out_dtype: Any, cast: Any, device: Any, separable: Any, workspace_limit: Any,
             precision: Any) -> tuple[bool, tuple[Any, ...]]:
    steps = _steps(epilogue, bias, _text(activation), residual)
    geometry = map(tuple, _geometry(stride, padding, dilation, taps))
    return _is_last(layout), (*geometry, groups, _text(padding_mode), _number(padding_value), device,
                              steps, algorithm, _text(accum_dtype), _text(out_dtype), _text(cast), separable,
                              workspace_limit, _text(precision))


_rests: dict[tuple[Any, ...], tuple[bool, LayerArguments]] = {}
_STEPS, _OUT_DTYPE = 7, 10      # places in them


def conv2d_input(input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, *, padding_mode: Any = "zeros", layout: Any = "NCHW", algorithm: str = "auto",
                 device: str = "auto", out: Any = None, stream: Any = None,
                 workspace_limit: int | None = None, precision: Any = "float32") -> Tensor:
    """``warpconv.conv2d_input`` by its operator. Raises as it does, and as ``conv2d``."""
    check_tensors(weight=weight, grad_output=grad_output)
    check_sizes_given(input_size, "input_size", 4)
    check_output(out, weight, grad_output)
    by_rule(stream, algorithm, workspace_limit)
    last = _is_last(layout)
    check_axes(4, weight=weight, grad_output=grad_output)
    n, c, h, w = (input_size[axis] for axis in ((0, 3, 1, 2) if last else (0, 1, 2, 3)))
    stride, padding, dilation = _geometry(stride, padding, dilation, weight.shape[2:])
    made = _sized(ops.conv2d_input, [n, c, h, w], weight, _first(grad_output, False, last), stride, padding, dilation,
                  groups, _text(padding_mode), 0.0, device, _text(precision))
    return _given(_back(made, False, last), out)


def conv2d_weight(input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                  groups: int = 1, *, padding_mode: Any = "zeros", padding_value: float = 0.0, layout: Any = "NCHW",
                  algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                  workspace_limit: int | None = None, precision: Any = "float32") -> Tensor:
    """``warpconv.conv2d_weight`` by its operator. Raises as it does, and as ``conv2d``."""
    check_tensors(input=input, grad_output=grad_output)
    check_sizes_given(weight_size, "weight_size", 4)
    check_number(padding_value, "padding_value")
    check_output(out, input, grad_output)
    by_rule(stream, algorithm, workspace_limit)
    last = _is_last(layout)
    check_axes(4, input=input, grad_output=grad_output)
    x, grad = (_first(tensor, False, last) for tensor in (input, grad_output))
    stride, padding, dilation = _geometry(stride, padding, dilation, weight_size[2:])
    made = _sized(ops.conv2d_weight, x, list(weight_size), grad, stride, padding, dilation, groups,
                  _text(padding_mode), _number(padding_value), device, _text(precision))
    return _given(made, out)


def conv2d_bias(grad_output: Any, *, layout: Any = "NCHW", device: str = "auto", out: Any = None,
                stream: Any = None) -> Tensor:
    """``warpconv.conv2d_bias`` by PyTorch's sum, in float32. Raises as it does, and as ``conv2d``."""
    check_tensors(grad_output=grad_output)
    check_output(out, grad_output)
    no_stream(stream)
    check_axes(4, grad_output=grad_output)
    check_float(grad_output.dtype, "grad_output")
    axes = (0, 1, 2) if _is_last(layout) else (0, 2, 3)
    return _given(grad_output.sum(axes, dtype=torch.float32).to(grad_output.dtype), out)


def conv3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, padding_mode: Any = "zeros", padding_value: float = 0.0, activation: Any = None,
           epilogue: Iterable[Any] = (), algorithm: str = "auto", layout: Any = "NCDHW", out_dtype: Any = None,
           cast: Any = "nearest", device: str = "auto", residual: Any = None, out: Any = None,
           stream: Any = None, precision: Any = "float32") -> Tensor:
    """``warpconv.conv3d`` by torch.ops.warpconv.conv3d. Raises as it does, and as ``conv2d``."""
    check_tensors(input=input, weight=weight, bias=bias, residual=residual)
    check_number(padding_value, "padding_value")
    no_stream(stream)
    check_output(out)
    steps = _steps(tuple(epilogue) if isinstance(epilogue, list) else epilogue, bias is not None, _text(activation),
                   residual is not None)
    recorded = wants_grad(torch, input, weight, bias, residual)
    if recorded:
        check_recorded(steps, out, input, _text(out_dtype))
    alone, last = input.dim() == 4, _is_last_volume(layout)
    x, added = (None if t is None else _first(t, alone, last, 5) for t in (input, residual))
    check_axes(5, input=x, weight=weight)
    flat = None
    if algorithm == "auto" and not torch.compiler.is_compiling() and torch._C._get_tracing_state() is None:
        flat = as_images(Layout.NCHW, {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                                       "padding_mode": padding_mode, "padding_value": padding_value}, weight, x, added)
    if flat is not None:
        made = conv2d(flat.input, flat.weight, bias, groups=groups, activation=activation, epilogue=epilogue,
                      out_dtype=out_dtype, cast=cast, device=device, separable=False, residual=flat.residual,
                      precision=precision)
        return _given(_back(as_volumes(made, Layout.NCHW, x), alone, last), out)
    stride, padding, dilation = _geometry(stride, padding, dilation, weight.shape[2:], axes=3)
    rest = (stride, padding, dilation, groups, _text(padding_mode), _number(padding_value), device, steps, algorithm,
            _text(out_dtype), _text(cast), _text(precision))
    if torch.compiler.is_compiling():
        made = ops.conv3d(x, weight, bias, added, *rest)
    else:
        made = autograd.conv(x, weight, bias, added, arguments_given(rest), recorded)
    return _given(_back(made, alone, last), out)


def conv3d_input(input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, *, padding_mode: Any = "zeros", layout: Any = "NCDHW", algorithm: str = "auto",
                 device: str = "auto", out: Any = None, stream: Any = None,
                 precision: Any = "float32") -> Tensor:
    """``warpconv.conv3d_input`` by its operator. Raises as it does, and as ``conv2d``."""
    check_tensors(weight=weight, grad_output=grad_output)
    check_sizes_given(input_size, "input_size", 5)
    check_output(out, weight, grad_output)
    by_rule(stream, algorithm, None)
    last = _is_last_volume(layout)
    check_axes(5, weight=weight, grad_output=grad_output)
    size = [input_size[axis] for axis in ((0, 4, 1, 2, 3) if last else range(5))]
    stride, padding, dilation = _geometry(stride, padding, dilation, weight.shape[2:], axes=3)
    made = _sized(ops.conv3d_input, size, weight, _first(grad_output, False, last, 5), stride, padding, dilation,
                  groups, _text(padding_mode), 0.0, device, _text(precision))
    return _given(_back(made, False, last), out)


def conv3d_weight(input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                  groups: int = 1, *, padding_mode: Any = "zeros", padding_value: float = 0.0, layout: Any = "NCDHW",
                  algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                  precision: Any = "float32") -> Tensor:
    """``warpconv.conv3d_weight`` by its operator. Raises as it does, and as ``conv2d``."""
    check_tensors(input=input, grad_output=grad_output)
    check_sizes_given(weight_size, "weight_size", 5)
    check_number(padding_value, "padding_value")
    check_output(out, input, grad_output)
    by_rule(stream, algorithm, None)
    last = _is_last_volume(layout)
    check_axes(5, input=input, grad_output=grad_output)
    x, grad = (_first(tensor, False, last, 5) for tensor in (input, grad_output))
    stride, padding, dilation = _geometry(stride, padding, dilation, weight_size[2:], axes=3)
    made = _sized(ops.conv3d_weight, x, list(weight_size), grad, stride, padding, dilation, groups,
                  _text(padding_mode), _number(padding_value), device, _text(precision))
    return _given(made, out)


def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, layout: Any = "NCHW",
                     algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                     workspace_limit: int | None = None, precision: Any = "float32") -> Tensor:
    """``warpconv.conv_transpose2d`` by torch.ops.warpconv.conv2d_input: the gradient of a layer that makes ``input`` of
    its output. Raises as it does, and as ``conv2d``."""
    by_rule(stream, algorithm, workspace_limit)
    return _transposed(ops.conv2d_input, 2, _is_last(layout), input, weight, bias, stride, padding, output_padding,
                       groups, dilation, device, out, precision)


def conv_transpose3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, layout: Any = "NCDHW",
                     algorithm: str = "auto", device: str = "auto", out: Any = None, stream: Any = None,
                     workspace_limit: int | None = None, precision: Any = "float32") -> Tensor:
    """``warpconv.conv_transpose3d`` by torch.ops.warpconv.conv3d_input, as ``conv_transpose2d``."""
    by_rule(stream, algorithm, workspace_limit)
    return _transposed(ops.conv3d_input, 3, _is_last_volume(layout), input, weight, bias, stride, padding,
                       output_padding, groups, dilation, device, out, precision)


def _transposed(op: Any, axes: int, last: bool, input: Any, weight: Any, bias: Any, stride: Any, padding: Any,
                output_padding: Any, groups: int, dilation: Any, device: str, out: Any, precision: Any) -> Tensor:
    """A transposed layer with so many spatial axes, by the operator of its data gradient."""
    check_tensors(input=input, weight=weight, bias=bias)
    check_output(out, input, weight, bias)
    if not input.is_meta and torch.is_autocast_enabled(input.device.type):
        input, weight, bias = ops.cast_tensors(input.device.type, input, weight, bias)
    check_float(input.dtype)        # by these names: the operator has another for its input
    alone = input.dim() == axes + 1
    x = _first(input, alone, last, axes + 2)
    check_axes(axes + 2, input=x, weight=weight)
    if weight.shape[0] != x.shape[1]:
        raise ShapeError(f"weight has {weight.shape[0]} channels and input has {x.shape[1]}", argument="weight",
                         value=tuple(weight.shape),
                         hint=f"a transposed layer's weight is (C, K/groups, {', '.join('TRS'[-axes:])})")
    check_integer(groups, "groups", groups, "a divisor of the channels")
    if type(groups) is int and (groups < 1 or weight.shape[0] % groups):
        raise ShapeError(f"groups must divide C = {weight.shape[0]}", argument="groups", value=groups,
                         hint=f"a divisor of {weight.shape[0]}")
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != weight.shape[1] * groups):
        raise ShapeError(f"bias does not fit: this layer has {weight.shape[1] * groups} filters", argument="bias",
                         value=tuple(bias.shape), hint=f"({weight.shape[1] * groups},)")
    if bias is not None and bias.dtype is not x.dtype:
        raise ArgumentTypeError(f"elements must be {x.dtype}, as the input's", argument="bias", value=bias.dtype,
                                hint="cast it first")
    if isinstance(padding, str):
        raise ArgumentError("padding of a transposed layer is in numbers", argument="padding", value=padding,
                            hint="an int, or one for each axis")
    stride, sides, dilation = _geometry(stride, padding, dilation, weight.shape[2:], axes)
    more = _along(output_padding, "output_padding", axes)
    for extra in more:
        check_integer(extra, "output_padding", output_padding, "an int of at least 0, or one for each axis")
        if type(extra) is int and extra < 0:
            raise ShapeError("the output_padding is out of range", argument="output_padding", value=output_padding,
                             hint="at least 0")
    check_output_padding(output_padding, more, stride, sides[1::2])
    size = output_sizes(x.shape[2:], weight.shape[2:], stride, zip(sides[::2], sides[1::2]), dilation, more)
    for axis, extra in enumerate(more):
        if extra >= stride[axis]:       # as many rows are left out of the layer's border, or it would make one more
            sides[2 * axis + 1] -= extra
    if not torch.compiler.is_compiling() and min(size) < 1:     # there it would bound sizes that may be any
        raise ShapeError(f"empty output: {' x '.join(map(str, size))}", argument="padding", value=padding,
                         hint="less padding, or a larger filter")
    made = _sized(op, [x.shape[0], weight.shape[1] * groups, *size], weight, x, stride, sides, dilation, groups,
                  "zeros", 0.0, device, _text(precision))
    if bias is not None:
        made = made + bias[(slice(None), *(None,) * axes)]
    return _given(_back(made, alone, last), out)


# ---- results

def _given(made: Tensor, out: Any) -> Tensor:
    """The result, in the caller's output where one is given. Raises ShapeError and ArgumentTypeError for one of other
    sizes, of another type or device."""
    if out is None:
        return made
    if out.shape != made.shape:
        refuse_sizes(tuple(out.shape), tuple(made.shape))
    if out.dtype is not made.dtype or out.device != made.device:
        refuse_element(out.dtype, made.dtype, str(out.device), str(made.device))
    return out.copy_(made)      # type: ignore[no-any-return]


def _sized(op: Any, *args: Any) -> Tensor:
    """An operator that takes sizes, first or second; sizes that are tensors, as torch.jit.trace has them, stay part of
    what it records."""
    at = 0 if isinstance(args[0], list) else 1
    if any(isinstance(size, Tensor) for size in args[at]):
        sizes = torch.stack([torch.as_tensor(size) for size in args[at]])
        op, args = op.overloadpacket.traced, (*args[:at], sizes, *args[at + 1:])
    made: Tensor = op(*args)
    return made


# ---- axes

def _first(tensor: Tensor, alone: bool, last: bool, rank: int = 4) -> Tensor:
    """A tensor as the operators take it, with an axis of images and channels before rows."""
    if alone:
        tensor = tensor.unsqueeze(0)
    return tensor.movedim(-1, 1) if last and tensor.dim() == rank else tensor


def _back(tensor: Tensor, alone: bool, last: bool) -> Tensor:
    if last:
        tensor = tensor.movedim(1, -1)
    return tensor.squeeze(0) if alone else tensor


# ---- arguments: by arithmetic that torch.compile follows, with numbers that it may not know; or by functions that are
# marked, whose results it takes as they are

def _geometry(stride: Any, padding: Any, dilation: Any, taps: Any, axes: int = 2) -> tuple[list[int], ...]:
    """(stride, padding, dilation) as the operators take them; only 'same' needs a filter's ``taps`` along each axis.
    What the numbers may be is looked at by the kernel's own call."""
    steps, apart = _along(stride, "stride", axes), _along(dilation, "dilation", axes)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ShapeError("unknown padding", argument="padding", value=padding, hint="a number, 'same' or 'valid'")
        if padding == "same" and any(step != 1 for step in steps):
            raise ShapeError("padding 'same' needs stride 1", argument="stride", value=stride,
                             hint="give the padding in numbers")
        totals = [step * (span - 1) if padding == "same" else 0 for step, span in zip(apart, taps)]
        sides = [side for total in totals for side in (total // 2, total - total // 2)]
    else:
        sides = [side for pads in _along(padding, "padding", axes) for side in _along(pads, "padding", 2)]
    return steps, sides, apart


def _along(value: Any, argument: str, axes: int) -> list[Any]:
    """A number for each axis."""
    if not isinstance(value, (tuple, list)) or len(value) == 1:
        return [value[0] if isinstance(value, (tuple, list)) else value] * axes
    if len(value) != axes:
        names, example = ("vertical, horizontal", (1, 2)) if axes == 2 else ("depth, vertical, horizontal", (1, 2, 2))
        raise ShapeError(f"{argument} must be one number or ({names})", argument=argument, value=value,
                         hint=f"e.g. {argument}=1 or {argument}={example}")
    return list(value)


def _number(value: Any) -> Any:
    return value if isinstance(value, float) else float(value)


@torch.compiler.assume_constant_result
def _steps(epilogue: Any, bias: bool, activation: Any, residual: bool) -> str:
    try:
        return _steps_of(epilogue, bias, activation, residual)
    except TypeError:       # what cannot be hashed is no step
        return _steps_of.__wrapped__(epilogue, bias, activation, residual)


@functools.lru_cache(maxsize=1024)
def _steps_of(epilogue: Any, bias: bool, activation: Any, residual: bool) -> str:
    return ",".join(step.value for step in parse_epilogue(
        epilogue, bias=bias, activation=activation, residual=residual))


@torch.compiler.assume_constant_result
def _is_last(layout: Any) -> bool:
    return layout != "NCHW" and Layout.parse(layout) is Layout.NHWC


@torch.compiler.assume_constant_result
def _is_last_volume(layout: Any) -> bool:
    return order_of(layout) is Layout.NHWC


def _text(value: Any) -> Any:
    """An argument that may be an enumeration's member or an element type, as text; None and numbers as they are."""
    if isinstance(value, (torch.dtype, type)):
        return DType.parse(value).value
    return value.value if isinstance(value, enum.Enum) else value
