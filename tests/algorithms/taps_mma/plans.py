"""The plans of ``taps_mma`` whose emitted text is kept under review: one of each form that a kernel can take."""

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
    return plan_layer(shape, algorithm="taps_mma", arch="sm_80", epilogue=epilogue, settings=values or {})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    one = {"tile_p": 16, "tile_q": 16, "filters": 32, "matrices": 2, "warps": 4, "buffers": 1, "vector": 8,
           "store_vector": 8}
    return {
        "taps_mma_7x7_stride_2_nhwc": _taps(3, 64, 7, 224, BIAS, RELU, padding=3, stride=2, layout="NHWC"),
        "taps_mma_11x11_odd_lines_nhwc": _taps(3, 96, 11, 227, n=128, stride=4, layout="NHWC"),
        "taps_mma_3x3_odd_lines_stride_1_nhwc": _taps(3, 32, 3, 99, BIAS, padding=1, dtype="bfloat16", layout="NHWC"),
        "taps_mma_3x3_one_buffer_nhwc": _taps(3, 32, 3, 224, padding=1, layout="NHWC", values=one),
        "taps_mma_7x7_stride_2_residual_nchw": _taps(3, 64, 7, 224, BIAS, RESIDUAL, padding=3, stride=2),
        "taps_mma_5x5_border_of_one_value_nhwc": _taps(4, 33, 5, 28, padding=2, padding_mode="constant",
                                                       padding_value=0.5, layout="NHWC"),
        "taps_mma_7x7_reflect_nchw": _taps(2, 8, 7, 30, padding=3, padding_mode="reflect"),
    }
