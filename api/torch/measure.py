"""Whether warpconv is quicker than PyTorch at a layer, by the clock, on the device where the layer is."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from warpconv.codegen.errors import WarpconvError

from .estimate import MARGIN

ROUNDS, CALLS = 7, 5


def quicker(module: Any, kind: type, input: Tensor) -> tuple[bool, str, float | None, float | None]:
    """Whether the layer as warpconv's ``kind`` takes less time at such an input, forward and, where it is in training
    mode, backward; why in words, and seconds of the two, sampled in turn."""
    theirs = copy.deepcopy(module)
    for hooks in (theirs._forward_hooks, theirs._forward_pre_hooks, theirs._backward_hooks):
        hooks.clear()
    ours = copy.deepcopy(theirs)
    ours.__class__ = kind
    try:
        passes = [_pass(layer, input) for layer in (ours, theirs)]
        for once in passes:         # compiles, prepares, searches
            for _ in range(2):
                once()
    except WarpconvError as error:
        return False, f"not served: {error}", None, None
    samples = [[_timed(once, input.device) for once in passes] for _ in range(ROUNDS)]
    mine, others = (statistics.median(column) for column in zip(*samples))
    done = "forward and backward" if module.training else "forward"
    return mine < MARGIN * others, f"measured {others / mine:.2g} times PyTorch's speed, {done}", mine, others


def _pass(layer: Any, input: Tensor) -> Callable[[], Any]:
    if not layer.training:
        return torch.no_grad()(lambda: layer(input))
    x = input.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    grad = torch.randn_like(layer(x))

    def run() -> None:
        torch.autograd.grad(layer(x), [x, *(p for p in layer.parameters() if p.requires_grad)], grad)

    return run


def _timed(once: Callable[[], Any], device: torch.device) -> float:
    """Seconds of a call."""
    if device.type != "cuda":
        start = time.perf_counter()
        once()
        return time.perf_counter() - start
    with torch.cuda.device(device):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(CALLS):
            once()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1e3 / CALLS
