"""Which calls go to PyTorch's operators (``runtime.torch``): those that PyTorch records, traces, casts or transforms.

PyTorch is not imported here: where nobody has, no argument is its tensor.
"""

from __future__ import annotations

import sys
from typing import Any


def by_operator(*tensors: Any) -> bool:
    """Whether a call of these arrays, None for each that is not there, has to be seen by PyTorch: a gradient is wanted,
    autocast is on, or the call is compiled, traced or transformed."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "library"):
        return False
    if torch.compiler.is_compiling():       # torch.compile and torch.export themselves read so far, and no further
        return True
    return isinstance(tensors[0], torch.Tensor) and (
        transformed(torch, tensors[0]) or wants_grad(torch, *tensors))


def transformed(torch: Any, tensor: Any) -> bool:
    """Whether autocast, a tracer, a mode or a transform stands between a call and its tensors."""
    kind, state = type(tensor), torch._C
    return (kind is not torch.Tensor and kind is not torch.nn.Parameter     # fake, functional, somebody's own
            or state._is_any_autocast_enabled() or state._get_tracing_state() is not None
            or state._len_torch_dispatch_stack() > 0 or state._are_functorch_transforms_active()
            or torch.autograd.forward_ad._current_level >= 0)


def wants_grad(torch: Any, *tensors: Any) -> bool:
    """Whether a gradient of one of the tensors is recorded."""
    return torch.is_grad_enabled() and any(
        getattr(tensor, "requires_grad", False) for tensor in tensors if tensor is not None)
