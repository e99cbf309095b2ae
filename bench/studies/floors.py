"""What a layer costs at least: FLOPs of the taps inside the image, bytes moved, and the floor that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from warpconv.codegen.shape import ConvShape


def taps_inside(size: int, taps: int, outputs: int, stride: int, dilation: int, before: int) -> int:
    """Pairs (output, tap) along one dimension whose input lies in the image.

    Output ``o`` and tap ``t`` read input ``o * stride + t * dilation - before``; each tap's outputs are one interval.
    """
    total = 0
    for tap in range(taps):
        offset = tap * dilation - before
        first = max(0, -(offset // stride))                     # the smallest o with o * stride + offset >= 0
        last = min(outputs - 1, (size - 1 - offset) // stride)
        total += max(0, last - first + 1)
    return total


def flops_inside(shape: ConvShape) -> int:
    """Two for each multiply-add with an input element; where the border is a value, that of padding is none."""
    if shape.padding_mode.reads_image:
        return 2 * shape.macs
    pairs = [taps_inside(size, taps, outputs, stride, dilation, before)
             for size, taps, outputs, stride, dilation, (before, _) in zip(
                 shape.image, shape.taps, shape.outputs, shape.stride, shape.dilation, shape.padding)]
    return 2 * shape.n * shape.k * shape.channels * math.prod(pairs)


@dataclass(frozen=True)
class Floor:
    """Milliseconds that a layer takes at least: ``copy_ms`` for its bytes, ``gemm_ms`` for its FLOPs."""

    flops: int
    copy_ms: float
    gemm_ms: float

    @property
    def ms(self) -> float:
        return max(self.copy_ms, self.gemm_ms)

    def fields(self, ms: float) -> dict[str, Any]:
        """The columns of a row that took ``ms``: fractions are floor time over measured time."""
        return {"flops": self.flops, "copy_ms": self.copy_ms, "gemm_ms": self.gemm_ms, "floor_ms": self.ms,
                "bound": "copy" if self.copy_ms >= self.gemm_ms else "gemm",
                "of_copy": self.copy_ms / ms, "of_floor": self.ms / ms}


def floor(shape: ConvShape, copy_ms: float, gemm_tflops: float) -> Floor:
    """The floor of a layer from this run's copy of the same bytes and this run's SGEMM rate in TFLOP/s."""
    flops = flops_inside(shape)
    return Floor(flops, copy_ms, flops / gemm_tflops / 1e9)
