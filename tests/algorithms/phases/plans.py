"""The plans of ``phases`` whose emitted text is kept under review: one of each form."""

from __future__ import annotations

from typing import Any

from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _phases(shape: ConvShape, **more: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="phases", operation="data_gradient", **more)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "phases_5x5_ring_pairs_float16": _phases(depthwise(5, dtype="float16", stride=2)),
        "phases_3x3_ring_nchw_reflect": _phases(depthwise(3, layout="NCHW", stride=2, padding_mode="reflect")),
        "phases_3x3_tile_bias": _phases(ConvShape(n=8, c=8, h=28, w=28, k=12, r=3, s=3, padding=1, stride=2),
                                        epilogue=("bias",)),
        "phases_2x2_pixel": _phases(depthwise(2, stride=9)),
    }
