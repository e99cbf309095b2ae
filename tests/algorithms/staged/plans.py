"""The plans of ``staged`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.spec import Epilogue

STAGED = {"height": 7, "width": 7, "rows": 7, "planes": 32, "buffers": 1, "stage": "async", "weights": "registers",
          "vector": 8, "min_blocks": 8, "parts": "strips"}


def _staged(*epilogue: Epilogue, size: int = 3, settings: dict[str, Any], **layer: Any) -> KernelPlan:
    shape = depthwise(size, **{**dict(c=32, h=7, w=7, k=32, groups=32, layout="NCHW"), **layer})
    return plan_layer(shape, algorithm="staged", epilogue=epilogue, settings={**STAGED, **settings})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "staged_3x3": _staged(settings={}),
        "staged_3x3_reflect": _staged(padding_mode="reflect", settings={"rows": 2}),
        "staged_3x3_constant": _staged(padding_mode="constant", padding_value=0.5, settings={"rows": 2}),
        "staged_5x5_strips_float16": _staged(BIAS, RELU, size=5, dtype="float16", h=8, w=8, settings={
            "height": 8, "width": 8, "rows": 2, "buffers": 2}),
        "staged_3x3_cut_stride_2_registers": _staged(c=5, k=10, groups=5, stride=2, settings={
            "rows": 3, "planes": 16, "stage": "registers", "weights": "shared"}),
        "staged_3x3_quarters_float16": _staged(BIAS, dtype="float16", h=6, w=6, settings={
            "height": 6, "width": 6, "rows": 3, "planes": 8, "buffers": 2, "parts": "quarters"}),
        "staged_3x3_quarters_circular": _staged(h=6, w=6, padding_mode="circular", settings={
            "height": 6, "width": 6, "rows": 3, "planes": 8, "buffers": 2, "parts": "quarters"}),
    }
