"""The plans of ``taps_wgmma`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _taps(c: int, k: int, size: int, h: int, *epilogue: Epilogue, values: Any = None, n: int = 32,
          dtype: str = "float16", **layer: Any) -> KernelPlan:
    shape = ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, dtype=dtype, **layer)
    return plan_layer(shape, algorithm="taps_wgmma", epilogue=epilogue, settings=values or {})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    free = {"tile_p": 16, "tile_q": 32, "filters": 32, "groups": 4, "buffers": 4, "order": "free", "vector": 8,
            "store_vector": 8}
    rows = {"tile_p": 2, "tile_q": 128, "filters": 32, "groups": 3, "buffers": 3, "order": "free", "vector": 8,
            "store_vector": 8, "stores": "rows"}
    direct = {"tile_p": 8, "tile_q": 64, "filters": 24, "groups": 2, "buffers": 3, "order": "turns", "vector": 1,
              "store_vector": 1, "stores": "direct"}
    words = {"tile_p": 4, "tile_q": 128, "filters": 64, "groups": 2, "buffers": 3, "order": "turns", "vector": 8,
             "store_vector": 2, "stores": "direct", "stage": 128}
    return {
        "taps_wgmma_7x7_stride_2_nhwc": _taps(3, 64, 7, 224, BIAS, RELU, padding=3, stride=2, layout="NHWC"),
        "taps_wgmma_11x11_odd_lines_nhwc": _taps(3, 96, 11, 227, n=128, stride=4, layout="NHWC"),
        "taps_wgmma_3x3_odd_lines_stride_1_nhwc": _taps(3, 32, 3, 99, BIAS, padding=1, dtype="bfloat16", layout="NHWC"),
        "taps_wgmma_3x3_free_nhwc": _taps(3, 32, 3, 224, padding=1, layout="NHWC", values=free),
        "taps_wgmma_7x7_stride_2_residual_nchw": _taps(3, 64, 7, 224, BIAS, RESIDUAL, padding=3, stride=2,
                                                       values=words),
        "taps_wgmma_7x7_stride_2_rows_residual_nchw": _taps(3, 64, 7, 224, BIAS, RESIDUAL, padding=3, stride=2),
        "taps_wgmma_5x5_odd_lines_nchw": _taps(2, 24, 5, 111, BIAS, RELU, padding=1, values=direct),
        "taps_wgmma_7x7_stride_2_odd_lines_rows_nchw": _taps(3, 64, 7, 227, BIAS, RELU, stride=2, n=128),
        "taps_wgmma_3x3_rows_residual_nchw": _taps(3, 32, 3, 128, BIAS, RESIDUAL, padding=1, values=rows),
        "taps_wgmma_5x5_border_of_one_value_nhwc": _taps(4, 33, 5, 28, padding=2, padding_mode="constant",
                                                         padding_value=0.5, layout="NHWC"),
        "taps_wgmma_7x7_reflect_nchw": _taps(2, 8, 7, 30, padding=3, padding_mode="reflect"),
        "taps_wgmma_5x5_dilated_nhwc": _taps(3, 32, 5, 64, dilation=2, padding=4, layout="NHWC"),
    }
