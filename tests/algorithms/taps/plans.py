"""The plans of ``taps`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _taps(c: int, k: int, size: int, h: int, *epilogue: Epilogue, dtype: str = "float16", **layer: Any) -> KernelPlan:
    shape = ConvShape(n=32, c=c, h=h, w=h, k=k, r=size, s=size, dtype=dtype, **layer)
    return plan_layer(shape, algorithm="taps", epilogue=epilogue)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "taps_7x7_three_channels_stride_2_float16_nhwc": _taps(3, 64, 7, 224, BIAS, RELU, padding=3, stride=2,
                                                               layout="NHWC"),
        "taps_3x3_three_channels_bfloat16_nchw": _taps(3, 32, 3, 224, BIAS, padding=1, stride=2, dtype="bfloat16"),
        "taps_3x3_groups_of_four_float16_nhwc": _taps(128, 128, 3, 56, padding=1, groups=32, layout="NHWC"),
        "taps_3x3_groups_of_four_to_eight_float16_nhwc": _taps(128, 256, 3, 28, padding=1, groups=32, layout="NHWC"),
        "taps_3x3_groups_of_two_residual_bfloat16_nhwc": _taps(64, 64, 3, 28, BIAS, RESIDUAL, padding=1, groups=32,
                                                               layout="NHWC", dtype="bfloat16"),
        "taps_3x3_groups_of_eight_float16_nhwc": _taps(256, 256, 3, 28, padding=1, groups=32, layout="NHWC"),
        "taps_3x3_groups_of_sixteen_stride_2_bfloat16_nhwc": _taps(
            512, 512, 3, 14, BIAS, padding=1, groups=32, stride=2, layout="NHWC", dtype="bfloat16"),
        "taps_3x3_groups_of_four_residual_float16_nchw": _taps(32, 32, 3, 14, RESIDUAL, padding=1, groups=8),
        "taps_3x3_odd_columns_residual_float16_nchw": _taps(3, 20, 3, 111, BIAS, RESIDUAL, RELU, padding=1),
        "taps_5x5_border_of_one_value_float16_nhwc": _taps(4, 33, 5, 28, padding=2, padding_mode="constant",
                                                           padding_value=0.5, layout="NHWC"),
        "taps_3x3_reflect_float16_nchw": _taps(2, 8, 3, 30, padding=1, padding_mode="reflect"),
    }
