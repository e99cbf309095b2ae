"""The plans of ``taps_ieee`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

TILE = {"columns": 4, "filters": 8, "filter_lanes": 4, "tile_p": 4, "tile_q": 32, "min_blocks": 4}


def _taps(c: int, k: int, size: int, h: int, *epilogue: Epilogue, values: Any = None, **layer: Any) -> KernelPlan:
    shape = ConvShape(n=32, c=c, h=h, w=h, k=k, r=size, s=size, **layer)
    return plan_layer(shape, algorithm="taps_ieee", epilogue=epilogue, settings=values or {})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "taps_ieee_3x3_nhwc": _taps(3, 64, 3, 224, BIAS, RELU, padding=1, layout="NHWC"),
        "taps_ieee_7x7_stride_2_odd_columns_residual_nhwc": _taps(3, 33, 7, 227, BIAS, RESIDUAL, RELU, stride=2,
                                                                  layout="NHWC"),
        "taps_ieee_3x3_stride_2_nchw": _taps(3, 32, 3, 224, BIAS, RELU, padding=1, stride=2, values={
            **TILE, "vector": 4, "store_vector": 4}),
        "taps_ieee_5x5_odd_columns_residual_nchw": _taps(4, 24, 5, 111, RESIDUAL, padding=1, values={
            **TILE, "vector": 1, "store_vector": 1}),
        "taps_ieee_3x3_groups_of_4_nchw": _taps(128, 128, 3, 56, BIAS, RELU, padding=1, groups=32),
        "taps_ieee_3x3_dilated_reflect_nhwc": _taps(4, 16, 3, 32, padding=3, dilation=3, padding_mode="reflect",
                                                    layout="NHWC"),
        "taps_ieee_5x5_border_of_one_value_nchw": _taps(1, 8, 5, 28, padding=2, padding_mode="constant",
                                                        padding_value=0.5),
    }
