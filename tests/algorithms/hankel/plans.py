"""The plans of ``hankel`` whose emitted text is kept under review: one stretch of a row a matrix, and two."""

from __future__ import annotations

from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _hankel(shape: ConvShape) -> KernelPlan:
    return plan_layer(shape, algorithm="hankel", operation="filter_gradient")


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "hankel_7x7_float16": _hankel(depthwise(7, dtype="float16")),
        "hankel_3x3_two_stretches_bfloat16": _hankel(depthwise(3, dtype="bfloat16", stride=2)),
        "hankel_5x13_blocks_of_taps_reflect": _hankel(
            ConvShape(n=8, c=24, h=14, w=14, k=24, groups=24, r=5, s=13, padding=(2, 6), dtype="float16", layout="NHWC",
                      padding_mode="reflect")),
    }
