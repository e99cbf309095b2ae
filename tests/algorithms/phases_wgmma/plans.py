"""The plans of ``phases_wgmma`` whose emitted text is kept under review: who shares what out, float32, NCHW, a bias."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

NAMES = ("channels", "rows", "columns", "images")


def _dense(size: int, tile: tuple[int, ...], *epilogue: str, **layer: Any) -> KernelPlan:
    fields = dict(n=8, c=128, h=28, w=28, k=128, r=size, s=size, padding=size // 2, stride=2, dtype="float16",
                  layout="NHWC")
    return plan_layer(ConvShape(**{**fields, **layer}), algorithm="phases_wgmma", operation="data_gradient",
                      settings={**dict(zip(NAMES, tile)), "stages": 4}, epilogue=epilogue,
                      precision="tf32" if layer.get("dtype") == "float32" else "float32")


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "phases_wgmma_3x3_float16": _dense(3, (128, 14, 14, 1)),
        "phases_wgmma_1x1_images_bfloat16": _dense(1, (256, 7, 7, 3), c=256, h=14, w=14, dtype="bfloat16"),
        "phases_wgmma_2x2_tf32_bias": _dense(2, (64, 8, 16, 1), "bias", c=64, padding=0, dtype="float32"),
        "phases_wgmma_3x3x3_bfloat16": _dense(3, (64, 4, 14, 3), d=9, t=3, dtype="bfloat16"),
        "phases_wgmma_3x3_nchw": _dense(3, (128, 8, 16, 1), layout="NCHW"),
    }
