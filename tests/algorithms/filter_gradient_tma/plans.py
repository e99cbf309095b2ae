"""The plans of ``filter_gradient_tma`` whose emitted text is kept under review: windows, groups, volumes, 1x1."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _dense(size: int, settings: dict[str, Any] | None = None, **layer: Any) -> KernelPlan:
    fields = dict(n=8, c=64, h=28, w=28, k=128, r=size, s=size, padding=size // 2, dtype="float32", layout="NHWC")
    values = {"filters": 128, "columns": 64, "warps_m": 2, "warps_n": 2, "stages": 3, "splits": 8, **(settings or {})}
    return plan_layer(ConvShape(**{**fields, **layer}), algorithm="filter_gradient_tma", settings=values,
                      operation="filter_gradient", precision="tf32")


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "filter_gradient_tma_3x3_tf32": _dense(3),
        "filter_gradient_tma_3x3_groups_tf32": _dense(3, {"filters": 64}, groups=2, c=72, stride=2),
        "filter_gradient_tma_3x3x3_nchw_tf32": _dense(3, d=9, t=3, layout="NCHW"),
        "filter_gradient_tma_1x1_tf32": _dense(1, {"splits": 1}, c=256),
    }
