"""The gradients of torch.ops.warpconv, each made of the others, so that they can be differentiated as often as one
likes: with y = conv(x, w), the gradients of x and w are linear in both of what they are made from."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from warpconv.codegen.errors import ArgumentTypeError, KernelNotBuilt, UnsupportedSpec
from warpconv.runtime.call.watched import is_transforming

from . import operators as ops, steps as epilogues
from .arguments import GEOMETRY, LayerArguments, arguments_of

# Elements of an output's gradient, by its device, from which the sum for a bias is ours: a call takes the host 12 us
# more than PyTorch's sum (H200, H100, 2026-11-28: 64x384x14^2 7 us for 11 to 18, 64x192x28^2 8 to 11 for 24 to 52)
LEAST_SUMMED = {"cuda": 1 << 22}
_Parameter = torch.nn.Parameter
_below = torch._C._AutoDispatchBelowAutograd


class Operators(NamedTuple):
    """A layer's operators, what runs below them, and what a plain call has behind its epilogue."""

    forward: Any
    data: Any
    filter: Any
    run_forward: Any
    run_data: Any
    run_filter: Any
    out_dtype: int          # where the output's type stands behind the tensors
    plain: tuple[Any, ...]


# by the number of spatial axes
_OPERATORS = {2: Operators(ops.conv2d, ops.conv2d_input, ops.conv2d_weight, ops.run_conv2d, ops.run_conv2d_input,
                           ops.run_conv2d_weight, 10, ("", "auto", None, None, "nearest", None, None)),
              3: Operators(ops.conv3d, ops.conv3d_input, ops.conv3d_weight, ops.run_conv3d, ops.run_conv3d_input,
                           ops.run_conv3d_weight, 9, ("", "auto", None, "nearest"))}


def _operators(layer: LayerArguments) -> Operators:
    """Those of a layer, which its stride tells."""
    return _OPERATORS[len(layer.geometry[0])]


def conv(input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, layer: LayerArguments,
         recorded: bool = True) -> Tensor:
    """The operator of a layer, without the dispatcher where nothing of it is wanted but casts and, if ``recorded``, the
    gradient."""
    of, tensors = _operators(layer), (input, weight, bias, residual)
    made: Tensor
    if not _is_plain(tensors) or is_transforming(torch, but_for_casts=True):
        made = of.forward(*tensors, *layer.rest)
        return made
    if torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(kind := input.device.type):
        tensors = ops.cast_tensors(kind, *tensors)      # type: ignore[assignment]
    made = Conv.apply(*tensors, layer) if recorded else of.run_forward(*tensors, layer)
    return made


def _kernel(op: Any, run: Any, tensors: tuple[Any, ...], layer: LayerArguments) -> Tensor:
    """What lies below the gradient: the kernel itself, where no mode, transform or tensor of another kind is to see
    it."""
    state = torch._C
    made: Tensor
    if _is_plain(tensors) and not state._len_torch_dispatch_stack() and not state._are_functorch_transforms_active():
        made = run(*tensors, layer)
        return made
    with _below():
        made = op(*tensors, *(layer.rest if len(tensors) == ops.FORWARD_TENSORS else layer.as_gradient))
    return made


def _gradient(op: Any, run: Any, tensors: tuple[Any, ...], layer: LayerArguments) -> Tensor:
    """A gradient, by the operator where it is itself to be differentiated."""
    if not torch.is_grad_enabled():
        return _kernel(op, run, tensors, layer)
    made: Tensor = op(*tensors, *layer.of_gradients)
    return made


def _is_plain(args: tuple[Any, ...]) -> bool:
    """Whether all tensors among the arguments are nothing but that, with memory."""
    if torch.compiler.is_compiling():
        return False
    for arg in args:            # a generator takes three times as long
        kind = type(arg)
        if kind is Tensor or kind is _Parameter:
            if arg.is_meta:
                return False
        elif arg is not None and isinstance(arg, Tensor):
            return False
    return True


class Conv(torch.autograd.Function):
    """conv2d or conv3d with its epilogue. Values before an activation are not kept but computed again."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
                layer: LayerArguments) -> Tensor:
        of = _operators(layer)
        output = _kernel(of.forward, of.run_forward, (input, weight, bias, residual), layer)
        ctx.layer, ctx.order = layer, ops.memory_format(input)
        needs_x, needs_w, _, _, _ = ctx.needs_input_grad
        again = layer.before
        # a frozen weight keeps no input alive, a first layer's input no weight
        ctx.save_for_backward(input if needs_w or again else None, weight if needs_x or again else None,
                              bias if again else None, residual if again else None,
                              output if layer.by_output else None)
        ctx.sizes = input.shape, weight.shape
        ctx.dtypes = input.dtype, None if bias is None else bias.dtype, None if residual is None else residual.dtype
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, bias, residual, output = ctx.saved_tensors
        layer, (dtype, bias_dtype, residual_dtype) = ctx.layer, ctx.dtypes
        of = _operators(layer)
        of_bias = of_residual = grad
        if not layer.adds:
            before = None
            if layer.before:    # in float32, as the kernel has them where it applies the steps
                rest = list(layer.rest)
                rest[GEOMETRY], rest[of.out_dtype] = "", None if dtype is torch.float32 else "float32"
                before = of.forward(input, weight, None, None, *rest)
            grad, of_bias, of_residual = epilogues.backwards(layer.steps, grad, before, bias, residual, output)
        grad = grad.to(dtype).contiguous(memory_format=ctx.order)     # what both gradients then are made from
        needs_x, needs_w, needs_bias, needs_residual, _ = ctx.needs_input_grad
        size, weight_size = ctx.sizes
        return (_gradient(of.data, of.run_data, (size, weight, grad), layer) if needs_x else None,
                _gradient(of.filter, of.run_filter, (input, weight_size, grad), layer) if needs_w else None,
                _over_pixels(of_bias, bias_dtype, layer) if needs_bias else None,
                of_residual.to(residual_dtype) if needs_residual else None, None)


def _over_pixels(grad: Tensor, dtype: torch.dtype, layer: LayerArguments) -> Tensor:
    """The gradient of a bias: summed over images and pixels in float32, as PyTorch sums 16-bit elements on a GPU by
    itself (on the host it keeps the parts of several threads in their own type). Large ones by a kernel of ours, where
    nothing is to see what it is made by, and there is one."""
    least = LEAST_SUMMED.get(grad.device.type)
    if (least is not None and grad.numel() >= least and grad.dtype is dtype and not torch.is_grad_enabled()
            and _is_plain((grad,)) and not is_transforming(torch, but_for_casts=True)):
        try:
            return ops.run_bias(grad, layer)
        except (UnsupportedSpec, KernelNotBuilt):
            pass
    axes = (0, *range(2, grad.dim()))
    if grad.dtype is dtype and (grad.is_cuda or dtype is torch.float32):
        return grad.sum(axes)
    return grad.sum(axes, dtype=torch.float32).to(dtype)


class ConvInput(torch.autograd.Function):
    """conv2d_input or conv3d_input, linear in weight and grad_output."""

    @staticmethod
    def forward(ctx: Any, input_size: Any, weight: Tensor, grad_output: Tensor, layer: LayerArguments) -> Tensor:
        of = _operators(layer)
        output = _kernel(of.data, of.run_data, (input_size, weight, grad_output), layer)
        ctx.layer = layer
        _, needs_weight, needs_grad, *_ = ctx.needs_input_grad
        ctx.save_for_backward(weight if needs_grad else None, grad_output if needs_weight else None)
        ctx.weight_size = weight.shape
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, grad_output = ctx.saved_tensors
        _, needs_weight, needs_grad, *_ = ctx.needs_input_grad
        layer, of = _zeros(ctx.layer.of_gradients), _operators(ctx.layer)
        return (None, of.filter(grad, ctx.weight_size, grad_output, *layer) if needs_weight else None,
                _plain(of, grad, weight, layer) if needs_grad else None, None)


class ConvWeight(torch.autograd.Function):
    """conv2d_weight or conv3d_weight, linear in input and grad_output."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight_size: Any, grad_output: Tensor, layer: LayerArguments) -> Tensor:
        of = _operators(layer)
        output = _kernel(of.filter, of.run_filter, (input, weight_size, grad_output), layer)
        ctx.layer = layer
        needs_input, _, needs_grad, *_ = ctx.needs_input_grad
        ctx.save_for_backward(input if needs_grad else None, grad_output if needs_input else None)
        ctx.size = input.shape
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        input, grad_output = ctx.saved_tensors
        needs_input, _, needs_grad, *_ = ctx.needs_input_grad
        layer, of = ctx.layer.of_gradients, _operators(ctx.layer)
        return (of.data(ctx.size, grad, grad_output, *layer) if needs_input else None, None,
                _plain(of, input, grad, layer) if needs_grad else None, None)


def _plain(of: Operators, input: Tensor, weight: Tensor, layer: tuple[Any, ...]) -> Tensor:
    """The layer whose gradients have the arguments ``layer``, without an epilogue."""
    *geometry, precision = layer
    return of.forward(input, weight, None, None, *geometry, *of.plain, precision)


def _zeros(layer: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with nothing in a constant border, which is no part of what is linear in the input."""
    *before, _, device, precision = layer
    return *before, 0.0, device, precision


def _recorded(op: Any, below: Any, function: type[torch.autograd.Function], first: int) -> Any:
    """The operator, or what runs ``below`` it, for tensors of which one may require grad. They are among the ``first``
    arguments, and the others are one to PyTorch, which looks at each."""
    count = ops.count_of(op, first)

    def run(*args: Any) -> Tensor:
        if forward_ad._current_level >= 0:
            _refuse_tangents(args)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*args[:first]):
            if torch._C._are_functorch_transforms_active():
                raise ArgumentTypeError("torch.func's transforms find no gradient of warpconv's operators",
                                        argument="input", hint="tensors that require grad and torch.autograd.grad")
            return function.apply(*args[:first], arguments_of(args[first:], count))
        return _kernel(op, below, args[:first], arguments_of(args[first:], count))

    return run


def _refuse_tangents(args: tuple[Any, ...]) -> None:
    """The operators would drop them without a word."""
    if any(isinstance(arg, Tensor) and forward_ad.unpack_dual(arg).tangent is not None for arg in args):
        raise ArgumentTypeError("there are no forward-mode derivatives", argument="input",
                                hint="torch.autograd.grad, or torch.autograd.functional.jvp, which needs none")


for _of in _OPERATORS.values():
    for _op, _run, _function, _first in ((_of.forward, _of.run_forward, Conv, ops.FORWARD_TENSORS),
                                         (_of.data, _of.run_data, ConvInput, ops.GRADIENT_TENSORS),
                                         (_of.filter, _of.run_filter, ConvWeight, ops.GRADIENT_TENSORS)):
        ops.LIBRARY.impl(_op.name().removeprefix("warpconv::"), _recorded(_op, _run, _function, _first), "Autograd")
