"""The plans of ``taps_float32`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _taps(c: int, k: int, size: int, h: int, *epilogue: Epilogue, precision: str = "fp16x3", values: Any = None,
          **layer: Any) -> KernelPlan:
    shape = ConvShape(n=32, c=c, h=h, w=h, k=k, r=size, s=size, **layer)
    return plan_layer(shape, algorithm="taps_float32", epilogue=epilogue, precision=precision, settings=values or {})


THREE = {"tile_p": 4, "tile_q": 16, "filters": 64, "groups": 3, "buffers": 4, "raws": 1, "copiers": 4, "shifts": 1,
         "vector": 4, "store_vector": 1}
TWO_PASSES = {"tile_p": 2, "tile_q": 224, "filters": 32, "passes": 2, "groups": 3, "buffers": 6, "raws": 2,
              "copiers": 4, "shifts": 1, "vector": 4, "store_vector": 1, "stores": "rows", "together": 4}


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "taps_float32_7x7_stride_2_nhwc": _taps(3, 64, 7, 224, BIAS, RELU, padding=3, stride=2, layout="NHWC"),
        "taps_float32_11x11_many_sums_nhwc": _taps(3, 96, 11, 227, stride=4, layout="NHWC"),
        "taps_float32_11x11_two_passes_nchw": _taps(3, 96, 11, 227, stride=4),
        "taps_float32_5x5_odd_columns_residual_nchw": _taps(4, 40, 5, 111, BIAS, RESIDUAL, RELU, padding=1),
        "taps_float32_3x3_rounded_nhwc": _taps(3, 64, 3, 224, BIAS, RELU, padding=1, layout="NHWC", precision="tf32"),
        "taps_float32_7x7_rounded_three_groups_nchw": _taps(3, 64, 7, 224, BIAS, padding=3, stride=2, precision="tf32",
                                                        values=THREE),
        "taps_float32_3x3_dilated_nhwc": _taps(3, 33, 3, 30, padding=3, dilation=3, layout="NHWC"),
        "taps_float32_5x5_border_of_one_value_nhwc": _taps(4, 33, 5, 28, padding=2, padding_mode="constant",
                                                           padding_value=0.5, layout="NHWC"),
        "taps_float32_7x7_stride_2_rows_nchw": _taps(3, 64, 7, 227, BIAS, RELU, stride=2),
        "taps_float32_3x3_rounded_rows_of_two_passes_residual_nchw": _taps(
            3, 64, 3, 224, RESIDUAL, precision="tf32", values=TWO_PASSES),
        "taps_float32_7x7_reflect_nchw": _taps(2, 8, 7, 30, padding=3, padding_mode="reflect"),
    }
