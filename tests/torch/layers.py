"""Drawn layers, and PyTorch's own answer in float64."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F

import warpconv

BORDERS = {"zeros": "constant", "constant": "constant", "replicate": "replicate", "reflect": "reflect",
           "circular": "circular"}
ACTIVATIONS = {None: lambda v: v, "relu": F.relu, "relu6": F.relu6, "silu": F.silu, "gelu": F.gelu,
               "hardswish": F.hardswish, "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
               "clamp(-0.5,1)": lambda v: v.clamp(-0.5, 1)}
# of an output of about 1 a term: half a unit in the last place of what is stored, and of the sums
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

# (channels, filters, (R, S), what conv2d takes)
LAYERS = {
    "plane": (1, 1, (3, 3), {"padding": 1}),
    "depthwise": (4, 4, (5, 3), {"padding": ((1, 2), (2, 0)), "groups": 4}),
    "multiplied": (3, 6, (3, 3), {"padding": "same", "groups": 3, "padding_mode": "reflect"}),
    "strided": (4, 4, (3, 3), {"stride": 2, "padding": 1, "groups": 4}),
    "dense": (3, 5, (3, 2), {"stride": (1, 2), "padding": (2, 1)}),
    "grouped": (6, 4, (2, 3), {"groups": 2, "dilation": (2, 1), "padding": (1, 2), "padding_mode": "circular"}),
    "replicated": (2, 3, (3, 3), {"padding": 2, "padding_mode": "replicate"}),
    "valued": (2, 2, (3, 3), {"padding": 1, "padding_mode": "constant", "padding_value": 0.75}),
}


def drawn(name: str, seed: int, dtype: torch.dtype = torch.float32, size: tuple[int, int, int] = (2, 9, 11),
          last: bool = False) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Input, weight and bias of a layer, all requiring grad, and its arguments."""
    c, k, (r, s), options = LAYERS[name]
    generator = torch.Generator().manual_seed(seed)
    n, h, w = size
    x, weight, bias = (torch.randn(shape, generator=generator) for shape in (
        (n, c, h, w), (k, c // options.get("groups", 1), r, s), (k,)))
    x, weight = (t / max(1.0, (t[0].numel() if t is weight else 1.0) ** 0.5) for t in (x, weight))
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    return *(t.to(dtype).requires_grad_() for t in (x, weight, bias)), options


def theirs(x: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           padding_mode: str = "zeros", padding_value: float = 0.0) -> Any:
    """PyTorch's own layer of any border and padding, differentiable, in the type of its arguments."""
    layer = warpconv.ConvShape(c=1, k=1, h=99, w=99, r=weight.shape[2], s=weight.shape[3], padding=padding,
                               dilation=dilation)
    (top, bottom), (left, right) = layer.padding
    if (top, bottom, left, right) != (0, 0, 0, 0):
        more = {"value": padding_value} if BORDERS[padding_mode] == "constant" else {}
        x = F.pad(x, (left, right, top, bottom), BORDERS[padding_mode], **more)
    return F.conv2d(x, weight, bias, stride, 0, dilation, groups)


def double(*tensors: Any) -> list[Any]:
    """The same values in float64, requiring grad."""
    return [None if t is None else t.detach().double().requires_grad_(t.requires_grad) for t in tensors]


def close(got: Any, wanted: Any, scale: float = 1.0) -> None:
    """The error of each element is within the tolerance of the type, of the largest value."""
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    largest = max(1.0, wanted.abs().max().item()) * scale
    worst = (got.double() - wanted.double()).abs().max().item()
    assert worst <= TOLERANCE[got.dtype] * largest, worst
