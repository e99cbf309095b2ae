"""Which calls go to PyTorch's operators (``runtime.torch``): those that PyTorch records, traces, casts or transforms.

PyTorch is not imported here: where nobody has, no argument is its tensor.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from warpconv.codegen.errors import ShapeError

Function = TypeVar("Function", bound=Callable[..., Any])

_NEVER = frozenset((int, float, str, bool, tuple, list))       # a tensor


def watched(function: Function, name: str | None = None) -> Function:
    """A function that is done by that of the same ``name`` in ``runtime.torch.functional`` where PyTorch has to see the
    call."""
    name = name or function.__name__

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and is_watched(torch, *args, *named.values()):
            from warpconv.runtime.torch import functional
            return getattr(functional, name)(*args, **named)
        try:
            return function(*args, **named)
        except ShapeError:
            if torch is None or not _has_no_images(torch, *args, *named.values()):
                raise
        from warpconv.runtime.torch import functional       # PyTorch's layers take batches of no images
        return getattr(functional, name)(*args, **named)

    return call     # type: ignore[return-value]


def _has_no_images(torch: Any, *arguments: Any) -> bool:
    """Whether a batch among the arguments is empty."""
    return any(isinstance(value, torch.Tensor) and value.dim() > 2 and value.shape[0] == 0 for value in arguments)


def uncompiled(function: Function) -> Function:
    """A public function that PyTorch has no operator for: torch.compile breaks its graph there and calls the function
    as it is, with nothing below compiled; fullgraph=True and torch.export refuse it with this as the reason."""
    apart: list[Any] = []

    def made() -> bool:
        if not apart:
            apart.append(sys.modules["torch"].compiler.disable(
                function, reason="warpconv's kernels, SciPy-style filters and packs are not part of a graph"))
        return True

    # as torch.compiler.assume_constant_result says it, where PyTorch is not imported: the compiler calls it as it is
    made._dynamo_marked_constant = True     # type: ignore[attr-defined]

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if is_compiled() and made():
            return apart[0](*args, **named)
        return function(*args, **named)

    # the compiler counts what it makes of a code object: of each function by itself
    call.__code__ = call.__code__.replace(co_name=function.__name__)
    return call     # type: ignore[return-value]


def is_compiled() -> bool:
    """Whether torch.compile reads the call, which it does by taking the answer to be yes."""
    modules = sys.modules
    return "torch._dynamo" in modules and modules["torch"].compiler.is_dynamo_compiling()


def is_watched(torch: Any, *arguments: Any) -> bool:
    """Whether PyTorch has to see a call: a gradient is wanted, autocast is on, it is compiled, traced or transformed,
    or its tensors are shapes alone."""
    if not hasattr(torch, "library"):
        return False
    if torch.compiler.is_compiling():       # torch.compile and torch.export themselves read so far, and no further
        return True
    tensor, parameter, met = torch.Tensor, torch.nn.Parameter, False
    recording = torch.is_grad_enabled()
    for argument in arguments:
        kind = type(argument)
        if kind is tensor or kind is parameter:
            if recording and argument.requires_grad or argument.device.type == "meta":
                return True
            met = True
        elif argument is not None and kind not in _NEVER and isinstance(argument, tensor):
            return True         # fake, functional, somebody's
    return met and is_transforming(torch)


def is_transforming(torch: Any, but_for_casts: bool = False) -> bool:
    """Whether autocast (``but_for_casts``: not asked), a tracer, a mode or a transform stands between calls and their
    tensors."""
    state = torch._C
    return (not but_for_casts and state._is_any_autocast_enabled() or state._get_tracing_state() is not None
            or state._len_torch_dispatch_stack() > 0 or state._are_functorch_transforms_active()
            or torch.autograd.forward_ad._current_level >= 0)


def wants_grad(torch: Any, *tensors: Any) -> bool:
    """Whether a gradient of one of the tensors, None for each that is not there, is recorded."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False
