"""The plans of ``filter_gradient`` whose emitted text is kept under review: one of each form and walk."""

from __future__ import annotations

from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _filter_gradient(shape: ConvShape) -> KernelPlan:
    return plan_layer(shape, algorithm="filter_gradient", operation="filter_gradient")


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "filter_gradient_3x3_nchw": _filter_gradient(depthwise(3, layout="NCHW")),
        "filter_gradient_3x3_pairs_float16": _filter_gradient(depthwise(3, dtype="float16", stride=2)),
        "filter_gradient_7x7_strips_reflect": _filter_gradient(depthwise(7, padding_mode="reflect")),
        "filter_gradient_3x3_tiles": _filter_gradient(ConvShape(n=8, c=32, h=28, w=28, k=48, r=3, s=3, padding=1)),
    }
