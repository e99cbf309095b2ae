"""warpconv's functions for tensors that PyTorch watches: arguments in any of their forms, brought to the operators'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.epilogue import parse_epilogue
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.layer import Layer
from warpconv.runtime.call.routed import wants_grad

from . import operators as ops, steps as epilogues

_INTEGERS = ("uint8", "int8", "uint16", "int16", "int32")


def conv2d(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, *,
           padding_mode: str, padding_value: float, activation: str | None, epilogue: Iterable[Any], algorithm: str,
           layout: Layout | str, accum_dtype: Any, out_dtype: Any, cast: str, device: str, separable: bool | None,
           residual: Any, out: Any, stream: Any, workspace_limit: int | None) -> Tensor:
    """``warpconv.conv2d`` by torch.ops.warpconv.conv2d. Raises as it does, and ArgumentError or ArgumentTypeError for
    what PyTorch cannot record: ``stream``, ``out`` of what requires grad, steps and types without a derivative."""
    tensors = _tensors(input=input, weight=weight, bias=bias, residual=residual)
    steps = _steps(_tuple(epilogue), bias is not None, _text(activation), residual is not None)
    recorded = wants_grad(torch, *tensors)
    if recorded:
        _check_recorded(steps, out, str(out_dtype), padding_value if weight.requires_grad else 0.0, input)
    _no_stream(stream)
    alone, last = input.dim() == 3, _last(layout)
    input, residual = (None if t is None else _first(t, alone, last) for t in (input, residual))
    if input.dim() != 4 or weight.dim() != 4:
        raise ShapeError("conv2d takes tensors of four axes, and one image of three",
                         argument="input" if input.dim() != 4 else "weight", value=tuple(input.shape),
                         hint="add axes of length 1")
    same = isinstance(padding, str)
    geometry = _geometry(_tuple(stride), _tuple(padding), _tuple(dilation), *(weight.shape[2:] if same else (1, 1)))
    made = ops.conv2d(input, weight, bias, residual, *geometry, groups, _text(padding_mode), device, padding_value,
                      steps, algorithm, _text(accum_dtype), _text(out_dtype), _text(cast), separable, workspace_limit)
    made = _back(made, alone, last)
    return made if out is None else out.copy_(made)


def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
                     output_padding: Any = 0, groups: int = 1, dilation: Any = 1, *, device: str = "auto") -> Tensor:
    """The transposed layer as torch.nn.functional.conv_transpose2d, by torch.ops.warpconv.conv2d_input: the gradient of
    a layer that makes ``input`` of its output. Raises as ``warpconv.conv2d`` does."""
    _tensors(input=input, weight=weight, bias=bias)
    if torch.is_autocast_enabled(input.device.type):
        input, weight, bias = ops.cast_tensors(input.device.type, input, weight, bias)
    alone = input.dim() == 3
    input = input.unsqueeze(0) if alone else input
    (down, across), sides, (row_step, column_step) = _geometry(_tuple(stride), _tuple(padding), _tuple(dilation), 1, 1)
    more = _pair(_tuple(output_padding))
    size = [input.shape[0], weight.shape[1] * groups,
            (input.shape[2] - 1) * down - sides[0] - sides[1] + row_step * (weight.shape[2] - 1) + 1 + more[0],
            (input.shape[3] - 1) * across - sides[2] - sides[3] + column_step * (weight.shape[3] - 1) + 1 + more[1]]
    made = ops.conv2d_input(size, weight, input, [down, across], sides, [row_step, column_step], groups, "zeros",
                            device)
    if bias is not None:
        made = made + bias[:, None, None]
    return made.squeeze(0) if alone else made


def _pair(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) else (value, value)


def _check_recorded(steps: str, out: Any, out_dtype: str, value: float, input: Tensor) -> None:
    epilogues.check_differentiable(epilogues.parsed(steps))
    if out is not None:
        raise ArgumentError("a result that requires grad is not written to a given output", argument="out",
                            hint="leave out= away, or call under torch.no_grad()")
    if out_dtype in _INTEGERS or not input.is_floating_point():
        raise ArgumentTypeError("integers have no gradient, and a tensor of the call requires one",
                                argument="out_dtype" if input.is_floating_point() else "input",
                                hint="floating-point tensors, or a call under torch.no_grad()")
    if value:
        raise ArgumentError("a border of another constant than 0 has no gradient of the filter",
                            argument="padding_value", value=value,
                            hint="padding_value=0, or pad the input with torch.nn.functional.pad")


def _tensors(**named: Any) -> list[Any]:
    for name, value in named.items():
        if value is not None and not isinstance(value, (Tensor, torch.fx.Proxy)):
            raise ArgumentTypeError("a call that PyTorch records, compiles or casts takes tensors", argument=name,
                                    value=type(value).__name__, hint="give a torch.Tensor")
    return list(named.values())


def _no_stream(stream: Any) -> None:
    if stream is not None:
        raise ArgumentError("a call that PyTorch records, compiles or casts is on its current stream",
                            argument="stream", value=stream, hint="with torch.cuda.stream(...)")


def _first(tensor: Tensor, alone: bool, last: bool) -> Tensor:
    """A tensor as the operators take it, with an axis of images and channels before rows."""
    if alone:
        tensor = tensor.unsqueeze(0)
    return tensor.permute(0, 3, 1, 2) if last else tensor


def _back(tensor: Tensor, alone: bool, last: bool) -> Tensor:
    if last:
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.squeeze(0) if alone else tensor


# ---- arguments, looked at once: torch.compile takes what these return as it is and does not read them

@torch.compiler.assume_constant_result
def _geometry(stride: Any, padding: Any, dilation: Any, rows: int, columns: int) -> Any:
    """(stride, padding, dilation) as the operators take them."""
    layer = Layer(c=1, k=1, r=int(rows), s=int(columns), stride=stride, padding=padding, dilation=dilation)
    return list(layer.stride), [side for sides in layer.padding for side in sides], list(layer.dilation)


@torch.compiler.assume_constant_result
def _steps(epilogue: Any, bias: bool, activation: Any, residual: bool) -> str:
    return ",".join(step.value for step in parse_epilogue(
        epilogue, bias=bias, activation=activation, residual=residual))


@torch.compiler.assume_constant_result
def _last(layout: Any) -> bool:
    return Layout.parse(layout) is Layout.NHWC


def _text(value: Any) -> Any:
    """An argument that may be an enumeration's member, as text; None and numbers as they are."""
    return getattr(value, "value", value)


def _tuple(value: Any) -> Any:
    return tuple(_tuple(item) for item in value) if isinstance(value, (list, tuple)) else value
