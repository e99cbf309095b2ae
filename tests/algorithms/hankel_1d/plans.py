"""The plans of ``hankel_1d`` whose emitted text is kept under review: all taps in a block and blocks of them, one share
of the batch and several, and what stands outside of a sequence."""

from __future__ import annotations

from typing import Any

from tests.sequences import bordered, layer
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _planned(shape: ConvShape, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="hankel_1d", operation="filter_gradient", settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "hankel_1d_4_causal_float16": _planned(
            layer(4, 2048, n=8, channels=768), chunks=1, warps=4, steps=8, buffers=2, vector=8),
        "hankel_1d_127_several_shares_bfloat16": _planned(
            layer(127, 8192, n=8, channels=96, dtype="bfloat16"), chunks=4, warps=4, steps=8, buffers=3, vector=8),
        "hankel_1d_31_blocks_of_taps_circular_float16": _planned(
            bordered(layer(31, 250, n=8, channels=64, multiplier=2, h=3, padding=(0, 15)), "circular"), chunks=1,
            taps=8, warps=1, steps=1, buffers=2, vector=1),
    }
