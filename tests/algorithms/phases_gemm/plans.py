"""The plans of ``phases_gemm`` whose emitted text is kept under review: both forms, both orders, a volume, a bias."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

VALUES = {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 8, "thread_n": 8, "stages": 2}


def _dense(size: int, form: str, *epilogue: str, store_vector: int = 1, **layer: Any) -> KernelPlan:
    fields = dict(n=8, c=32, h=56, w=56, k=64, r=size, s=size, padding=size // 2 if size % 2 else 0, stride=2)
    return plan_layer(ConvShape(**{**fields, **layer}), algorithm="phases_gemm", operation="data_gradient",
                      settings={**VALUES, "form": form, "store_vector": store_vector}, epilogue=epilogue)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "phases_gemm_2x2_together_bias": _dense(2, "together", "bias", store_vector=2),
        "phases_gemm_3x3_apart": _dense(3, "apart"),
        "phases_gemm_3x3_nhwc_groups_bias": _dense(3, "apart", "bias", c=84, k=36, groups=2, layout="NHWC"),
        "phases_gemm_2x2x2_ndhwc_together": _dense(2, "together", d=28, t=2, layout="NHWC"),
        "phases_gemm_3x3x3_together": _dense(3, "together", d=28, t=3),
        "phases_gemm_4x4_row_float16": _dense(4, "row", "bias", k=21, dtype="float16"),
    }
