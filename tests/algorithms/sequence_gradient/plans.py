"""The plans of ``sequence_gradient`` whose emitted text is kept under review: both layouts, all taps in a block and
blocks of them, one share of the batch and several, and what stands outside of a sequence."""

from __future__ import annotations

from typing import Any

from tests.sequences import bordered, layer, pixels
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _planned(shape: ConvShape, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="sequence_gradient", operation="filter_gradient", settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "sequence_gradient_127_causal": _planned(
            layer(127, 4096, n=8, channels=768, dtype="float32"), chunks=1, taps=20, groups=7, runs=32, run=68,
            vector=4),
        "sequence_gradient_31_several_shares_circular": _planned(
            bordered(layer(31, 250, n=8, channels=64, multiplier=2, h=3, padding=(0, 15), dtype="float32"), "circular"),
            chunks=4, taps=8, groups=2, runs=64, run=12, vector=2),
        "sequence_gradient_255_nhwc_causal": _planned(
            pixels(255, 4096, n=8, channels=768, column=True, dtype="float32"), chunks=16, taps=32, groups=8, runs=1,
            run=96, channels=16, vector=4),
        "sequence_gradient_9_nhwc_one_share": _planned(
            pixels(9, 300, n=8, channels=42, h=3, padding=(0, 4), dtype="float32"), chunks=1, taps=8, groups=1, runs=8,
            run=24, channels=16, vector=1),
    }
