"""The plans of ``filter_gradient_wgmma`` whose emitted text is kept under review: by what is shared out, and 1x1."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _dense(size: int, filters: int, columns: int, more: dict[str, Any] | None = None, **layer: Any) -> KernelPlan:
    fields = dict(n=8, c=64, h=28, w=28, k=128, r=size, s=size, padding=size // 2, dtype="float16", layout="NHWC")
    values = {"filters": filters, "columns": columns, "stages": 3, "splits": 8, **(more or {"pixels": 64})}
    return plan_layer(ConvShape(**{**fields, **layer}), algorithm="filter_gradient_wgmma", settings=values,
                      operation="filter_gradient", precision="tf32" if layer.get("dtype") == "float32" else "float32")


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "filter_gradient_wgmma_3x3_columns_float16": _dense(3, 64, 256),
        "filter_gradient_wgmma_3x3_filters_bfloat16": _dense(3, 128, 64, dtype="bfloat16", stride=2),
        "filter_gradient_wgmma_3x3x3_float16": _dense(3, 64, 256, d=9, t=3),
        "filter_gradient_wgmma_1x1_float16": _dense(1, 128, 128, c=256),
        "filter_gradient_wgmma_1x1_planes_tf32": _dense(
            1, 128, 128, {"form": "planes", "splits": 1}, c=256, layout="NCHW", dtype="float32"),
    }
