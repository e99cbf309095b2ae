"""The plans of ``phases_mma`` whose emitted text is kept under review: widths of copies and stores, a bias."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

VALUES = {"tile_m": 64, "tile_n": 64, "tile_k": 32, "warps_m": 2, "warps_n": 2, "stages": 3}


def _dense(size: int, *epilogue: str, **layer: Any) -> KernelPlan:
    fields = dict(n=8, c=64, h=28, w=28, k=128, r=size, s=size, padding=size // 2, stride=2, dtype="float16",
                  layout="NHWC")
    return plan_layer(ConvShape(**{**fields, **layer}), algorithm="phases_mma", operation="data_gradient",
                      settings=VALUES if fields["dtype"] != "float32" else {**VALUES, "tile_k": 16},
                      epilogue=epilogue)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "phases_mma_3x3_float16": _dense(3),
        "phases_mma_1x1_bfloat16": _dense(1, dtype="bfloat16"),
        "phases_mma_3x3_groups_bias": _dense(3, "bias", c=84, k=72, groups=4),
        "phases_mma_3x3_tf32x3_bias": _dense(3, "bias", dtype="float32"),
        "phases_mma_3x3_nchw": _dense(3, layout="NCHW"),
        "phases_mma_3x3x3_float16": _dense(3, d=14, t=3),
        "phases_mma_2x2x2_nchw_tf32x3_bias": _dense(2, "bias", d=14, t=2, padding=0, layout="NCHW", dtype="float32"),
    }
