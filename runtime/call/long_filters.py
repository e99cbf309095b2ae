"""Long causal depthwise filters, a part of their taps at a time: the output is the sum of the parts', each of which is
the layer of the inputs as many elements before.

No kernel that keeps its window in registers takes more than some 128 taps of a row; those that take any number are
estimated to be six to twelve times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ShapeError
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind

from .recording import recording
from .watched import is_watched

PART = 128          # taps, a multiple of a load's elements: then every part begins where vectors may

_LIBRARIES = (ArrayKind.NUMPY, ArrayKind.TORCH, ArrayKind.CUPY)     # whose arrays take values


def wanted(x: Any, weight: Any, *more: Any) -> bool:
    """Whether a causal layer of stride and dilation 1, axes and memory in NCL order, is made so: float32, whose sums
    lose nothing when they are stored between the parts; not where PyTorch watches one of the call's tensors."""
    if weight.shape[1] != 1 or weight.shape[2] <= PART:
        return False
    torch = sys.modules.get("torch")
    if torch is not None and is_watched(torch, x, weight, *more) or recording.graph is not None:
        return False
    view = arrays.view(x, "input", ndim=3)
    return view.dtype is DType.FLOAT32 and view.kind in _LIBRARIES


def causal(call: Callable[..., Any], x: Any, weight: Any, bias: Any, groups: int, activation: str | None, out: Any,
           device: str, precision: str) -> Any:
    """The layer by ``call``, which is conv1d; the part that every output has comes last, with bias and activation.
    Raises as conv1d does."""
    view = arrays.view(x, "input", ndim=3)
    taps, length = weight.shape[2], x.shape[2]
    first = min(-(-taps // PART), -(-length // PART)) - 1       # parts further back see no input
    if out is not None and tuple(out.shape) != (x.shape[0], weight.shape[0], length):
        raise ShapeError("out does not have the output's shape", argument="out", value=tuple(out.shape),
                         hint=f"{(x.shape[0], weight.shape[0], length)} is needed")
    if out is None:
        out = arrays.empty(view, (view.shape[0], weight.shape[0], length), view.dtype,
                           stream=arrays.current_stream(view) or 0)
    for part in range(first, -1, -1):
        back, end = PART * part, taps - PART * part
        sums = out[:, :, back:]
        last = {} if part else {"bias": bias, "activation": activation}
        call(x[:, :, :length - back], weight[:, :, max(0, end - PART):end], padding="causal", groups=groups, out=sums,
             residual=None if part == first else sums, device=device, precision=precision, **last)
        if part == first:
            out[:, :, :back] = 0        # which this part does not reach, and the next ones add to
    return out
