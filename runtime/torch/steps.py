"""The derivatives of an epilogue's steps, in PyTorch's own operations, so that they have derivatives themselves."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from warpconv.codegen.epilogue import Epilogue, split_steps
from warpconv.codegen.errors import ArgumentError

_aten = torch.ops.aten
_LINEAR = ("bias", "residual", "quantize")


@functools.cache
def parsed(epilogue: str) -> tuple[Epilogue, ...]:
    """The steps of an epilogue written as one text."""
    return tuple(map(Epilogue.parse, split_steps(epilogue)))


@functools.lru_cache(maxsize=1024)
def told(epilogue: str) -> tuple[tuple[Epilogue, ...], bool, bool]:
    """The steps of an epilogue written as one text, ``by_values`` and ``by_output`` of them."""
    steps = parsed(epilogue)
    return steps, by_values(steps), by_output(steps)


def check_differentiable(steps: Sequence[Epilogue], argument: str = "epilogue") -> None:
    """Raises ArgumentError for a step whose derivative is not known: somebody's own expression."""
    for step in steps:
        if step.tree is not None:
            raise ArgumentError("an expression has no derivative here", argument=argument, value=step.value,
                                hint="use the built-in steps, apply it to the output with torch, or call under "
                                     "torch.no_grad()")


def by_output(steps: Sequence[Epilogue]) -> bool:
    """Whether the derivative of the only step that is not linear is seen by the output: a relu at the end."""
    return bool(steps) and steps[-1].name == "relu" and all(step.name in _LINEAR for step in steps[:-1])


def by_values(steps: Sequence[Epilogue]) -> bool:
    """Whether the derivative depends on the values that come before the steps, which are then computed again."""
    return not by_output(steps) and any(step.name not in _LINEAR for step in steps)


def backwards(steps: Sequence[Epilogue], grad: Tensor, before: Tensor | None, bias: Tensor | None,
              residual: Tensor | None, output: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of a layer's sums, and of what 'bias' (before it is summed over the pixels) and 'residual' add.

    ``before`` are the sums where ``by_values`` asks for them, ``output`` the output where ``by_output`` does.
    """
    values: list[Tensor | None] = []        # before each step
    value = before
    for step in steps:
        values.append(value)
        if value is not None:
            value = _apply(step, value, bias, residual)
    if value is not None:
        grad = grad.to(value.dtype)
    added = {"bias": grad, "residual": grad}
    for step, at in zip(reversed(steps), reversed(values)):
        if step.name in added:
            added[step.name] = grad
        else:
            grad = _derivative(step, grad, output if at is None else at)
    return grad, added["bias"], added["residual"]


def _apply(step: Epilogue, value: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
    if step.name == "bias":
        return value + bias.reshape(-1, *[1] * (value.dim() - 2))
    if step.name == "residual":
        return value + residual
    if step.name == "quantize":
        scale, zero = step.numbers
        return value / scale + zero
    if step.name == "clamp":
        return value.clamp(*step.numbers)
    return _FORWARD[step.name](value)


def _derivative(step: Epilogue, grad: Tensor, value: Tensor | None) -> Tensor:
    """``value`` is what stands before the step, None where nobody needs it; after it for a relu's."""
    if step.name == "quantize":
        return grad / step.numbers[0]
    if step.name == "clamp":
        low, high = step.numbers
        return torch.where((value >= low) & (value <= high), grad, 0.0)
    return _BACKWARD[step.name](grad, value)


def _silu_backward(grad: Tensor, value: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return _aten.silu_backward(grad, value)
    share = torch.sigmoid(value)        # PyTorch's has no derivative of its own
    return grad * share * (1 + value * (1 - share))


_FORWARD = {"relu": torch.relu, "relu6": torch.nn.functional.relu6, "silu": torch.nn.functional.silu,
            "gelu": torch.nn.functional.gelu, "hardswish": torch.nn.functional.hardswish,
            "gelu_tanh": lambda v: torch.nn.functional.gelu(v, approximate="tanh")}
_BACKWARD = {"relu": lambda grad, v: _aten.threshold_backward(grad, v, 0),
             "relu6": lambda grad, v: _aten.hardtanh_backward(grad, v, 0.0, 6.0),
             "silu": _silu_backward, "gelu": _aten.gelu_backward, "hardswish": _aten.hardswish_backward,
             "gelu_tanh": lambda grad, v: _aten.gelu_backward(grad, v, approximate="tanh")}
