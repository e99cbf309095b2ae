"""A short causal depthwise convolution written in Triton: what users of Mamba would write themselves. Needs Triton.

A program makes a tile of elements and channels; each tap is one more masked load, which the caches answer. Sums are
float32; bias and silu are in the kernel.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

TILES = {"NCL": (1024, 1), "NLC": (16, 128)}       # elements and channels of a program
MOST_TAPS = 32                                      # unrolled


def causal_silu(x: Any, w: Any, b: Any, y: Any, layout: str) -> None:
    """y = silu(x * w + b) of tensors (N, C, L) over memory in the order of ``layout``; w is (C, taps), b (C,)."""
    (n, c, length), (elements, channels) = x.shape, TILES[layout]
    _causal_silu[triton.cdiv(length, elements), triton.cdiv(c, channels), n](
        x, w, b, y, c, length, *x.stride(), *y.stride(), TAPS=w.shape[1], ELEMENTS=elements, CHANNELS=channels,
        num_warps=4)


@triton.jit
def _causal_silu(x, w, b, y, C, L, x_n, x_c, x_l, y_n, y_c, y_l, TAPS: tl.constexpr, ELEMENTS: tl.constexpr,
                 CHANNELS: tl.constexpr):
    at = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)[:, None]
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    n = tl.program_id(2).to(tl.int64)
    from_x = x + n * x_n + c.to(tl.int64) * x_c
    there = (c < C) & (at < L)
    total = tl.zeros((ELEMENTS, CHANNELS), tl.float32) + tl.load(b + c, mask=c < C, other=0.0).to(tl.float32)
    for tap in tl.static_range(TAPS):
        place = at - (TAPS - 1) + tap
        value = tl.load(from_x + place * x_l, mask=there & (place >= 0), other=0.0)
        weight = tl.load(w + c * TAPS + tap, mask=c < C, other=0.0)
        total += value.to(tl.float32) * weight.to(tl.float32)
    total = total * tl.sigmoid(total)
    tl.store(y + n * y_n + c.to(tl.int64) * y_c + at * y_l, total.to(y.dtype.element_ty), mask=there)
