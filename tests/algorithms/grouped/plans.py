"""The plans of ``grouped`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _grouped(c: int, k: int, groups: int, size: int, h: int, *epilogue: Epilogue, values: Any = None,
             **layer: Any) -> KernelPlan:
    shape = ConvShape(n=32, c=c, h=h, w=h, k=k, groups=groups, r=size, s=size, layout="NHWC", **layer)
    return plan_layer(shape, algorithm="grouped", epilogue=epilogue, settings=values or {})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "grouped_3x3_of_4": _grouped(128, 128, 32, 3, 56, BIAS, RELU, padding=1, values={
            "columns": 7, "filters": 4, "groups_tile": 4, "tile_p": 8, "tile_q": 14, "min_blocks": 8}),
        "grouped_3x3_of_8_stride_2_residual": _grouped(104, 104, 13, 3, 56, BIAS, RESIDUAL, RELU, padding=1, stride=2,
                                                       values={"columns": 4, "filters": 8, "groups_tile": 13,
                                                               "tile_p": 4, "tile_q": 4, "min_blocks": 1}),
        "grouped_5x5_of_2_reflect": _grouped(24, 96, 12, 5, 28, padding=2, padding_mode="reflect"),
        "grouped_3x3_of_3_border_of_one_value": _grouped(12, 16, 4, 3, 20, padding=1, padding_mode="constant",
                                                         padding_value=0.5),
    }
