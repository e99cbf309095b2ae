"""The plans of ``filter_gradient_mma`` whose emitted text is kept under review: windows, pixels as they follow."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

VALUES = {"tile_m": 64, "tile_n": 64, "tile_p": 32, "warps_m": 2, "warps_n": 2, "stages": 3, "splits": 8}


def _dense(size: int, settings: dict[str, Any] | None = None, precision: str = "float32", **layer: Any) -> KernelPlan:
    fields = dict(n=8, c=64, h=28, w=28, k=128, r=size, s=size, padding=size // 2, dtype="float16", layout="NHWC")
    return plan_layer(ConvShape(**{**fields, **layer}), algorithm="filter_gradient_mma", operation="filter_gradient",
                      precision=precision, settings={**VALUES, **(settings or {})})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "filter_gradient_mma_3x3_float16": _dense(3),
        "filter_gradient_mma_1x1_bfloat16": _dense(1, dtype="bfloat16"),
        "filter_gradient_mma_7x7_first_layer": _dense(7, c=3, k=64, stride=2),
        "filter_gradient_mma_7x7_first_layer_nchw_tf32": _dense(7, c=3, k=64, stride=2, layout="NCHW", dtype="float32",
                                                                precision="tf32"),
        "filter_gradient_mma_3x3_tf32x3": _dense(3, dtype="float32"),
        "filter_gradient_mma_3x3_joined_groups": _dense(
            3, {"tile_m": 16, "warps_m": 1, "joined": 4}, c=128, groups=32),
        "filter_gradient_mma_3x3x3_float16": _dense(3, d=14, t=3),
        "filter_gradient_mma_3x3x3_nchw_tf32x3": _dense(3, d=14, t=3, layout="NCHW", dtype="float32"),
    }
