"""What calls that PyTorch watches refuse by their arguments' names: what it cannot record, compile or cast, and what
the operators' own schemas would refuse in other words."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.runtime.arrays.readers import torch_element
from warpconv.runtime.call.watched import wants_grad

from . import steps as epilogues

_INTEGERS = ("uint8", "int8", "uint16", "int16", "int32")
_NEEDED = ("input", "weight", "grad_output")


def check_tensors(**named: Any) -> None:
    """That arguments are tensors, or None where they need not be there; all with memory, or all without."""
    meta = None
    for name, value in named.items():
        if value is None and name not in _NEEDED:
            continue
        if not isinstance(value, Tensor):
            raise ArgumentTypeError("a call that PyTorch records, compiles or casts takes tensors", argument=name,
                                    value=type(value).__name__, hint="give a torch.Tensor")
        if meta is not None and value.is_meta is not meta:
            raise ArgumentTypeError(f"the tensor is on device {value.device}, and others of the call are not",
                                    argument=name, value=str(value.device),
                                    hint="tensors with memory, or all on the device meta")
        meta = value.is_meta


def check_sizes_given(sizes: Any, argument: str, rank: int) -> None:
    """Sizes, as a compiler or tracer may have them, too: numbers that it does not know, or tensors."""
    meaning = f"a sequence of {rank} sizes"
    try:
        found = tuple(sizes)
    except TypeError:
        found = ()
    if len(found) != rank:
        raise ShapeError(f"{argument} is {meaning}", argument=argument, value=sizes, hint=meaning)
    for size in found:
        check_integer(size, argument, sizes, meaning)


def check_integer(value: Any, argument: str, given: Any, hint: str) -> None:
    """What is no whole number, known or not. ``given``: as the caller wrote it."""
    try:
        if isinstance(value, bool):
            raise TypeError
        if not isinstance(value, (int, torch.SymInt, Tensor)):
            operator.index(value)
    except TypeError:
        raise ArgumentTypeError("these are whole numbers", argument=argument, value=given, hint=hint) from None


def check_number(value: Any, argument: str) -> None:
    """What is no number, for an argument that is one."""
    if not isinstance(value, (int, float, torch.SymInt, torch.SymFloat, Tensor)):
        try:
            float(value)
            known = not isinstance(value, str)
        except (TypeError, ValueError):
            known = False
        if not known:
            raise ArgumentTypeError(f"{argument} is a number", argument=argument, value=value,
                                    hint=f"e.g. {argument}=0")


def check_axes(rank: int, **named: Tensor) -> None:
    for name, tensor in named.items():
        if tensor.dim() != rank:
            raise ShapeError(f"{name} has {tensor.dim()} axes, {rank} are needed", argument=name,
                             value=tuple(tensor.shape),
                             hint="add axes of length 1, or reshape" if tensor.dim() < rank else "reshape or index it")


@torch.compiler.assume_constant_result
def check_element(dtype: torch.dtype) -> None:
    """What is no number that kernels read is no integer either: complex and quantised elements."""
    torch_element(dtype, "input")


@torch.compiler.assume_constant_result
def check_float(dtype: torch.dtype, argument: str = "input") -> None:
    element = torch_element(dtype, argument)
    if element not in FLOATS:
        raise ArgumentTypeError(f"elements must be {' or '.join(t.value for t in FLOATS)}", argument=argument,
                                value=element.value, hint="cast the array first")


def check_recorded(steps: str, out: Any, input: Tensor, out_dtype: Any) -> None:
    check_steps(steps)
    no_output(out)
    if out_dtype in _INTEGERS or not input.is_floating_point():
        check_element(input.dtype)
        raise ArgumentTypeError("integers have no gradient, and a tensor of the call requires one",
                                argument="out_dtype" if input.is_floating_point() else "input",
                                hint="floating-point tensors, or a call under torch.no_grad()")


def by_rule(stream: Any, algorithm: str, workspace_limit: int | None) -> None:
    no_stream(stream)
    if algorithm != "auto" or workspace_limit is not None:
        raise ArgumentError("a call that PyTorch records, compiles or casts has its kernel by rule",
                            argument="algorithm" if algorithm != "auto" else "workspace_limit",
                            value=algorithm if algorithm != "auto" else workspace_limit,
                            hint="leave it out, or call with detached tensors")


def no_stream(stream: Any) -> None:
    if stream is not None:
        raise ArgumentError("a call that PyTorch records, compiles or casts is on its current stream",
                            argument="stream", value=stream, hint="with torch.cuda.stream(...)")


def no_output(out: Any) -> None:
    if out is not None:
        raise ArgumentError("a result that requires grad is not written to a given output", argument="out",
                            hint="leave out= away, or call under torch.no_grad()")


def check_output(out: Any, *read: Tensor | None) -> None:
    """An output that is given, before anything is launched: what is written to it is not recorded."""
    check_tensors(out=out)
    if wants_grad(torch, out):
        raise ArgumentTypeError("the tensor requires grad, and what is written to it is not recorded", argument="out",
                                hint="use .detach(), or call under torch.no_grad()")
    if out is not None and wants_grad(torch, *read):
        no_output(out)


@torch.compiler.assume_constant_result
def refuse_sizes(given: tuple[int, ...], made: tuple[int, ...]) -> None:
    raise ShapeError("out does not have the output's sizes", argument="out", value=given, hint=f"{made} is needed")


@torch.compiler.assume_constant_result
def refuse_element(given: torch.dtype, made: torch.dtype, place: str, wanted: str) -> None:
    raise ArgumentTypeError("out is not of the output's type and device", argument="out", value=f"{given} on {place}",
                            hint=f"{made} on {wanted}")


@torch.compiler.assume_constant_result
def check_steps(steps: str) -> None:
    epilogues.check_differentiable(epilogues.parsed(steps))
