"""The plans of ``mma`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _mma(c: int, k: int, size: int, *epilogue: Epilogue, values: Any = None, h: int = 28, dtype: str = "float16",
         layout: str = "NHWC", precision: str = "float32", **layer: Any) -> KernelPlan:
    shape = ConvShape(n=8, c=c, h=h, w=h, k=k, r=size, s=size, dtype=dtype, layout=layout, **layer)
    return plan_layer(shape, algorithm="mma", epilogue=epilogue, settings=values, precision=precision)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "mma_3x3_float16": _mma(64, 64, 3, BIAS, RELU, padding=1),
        "mma_1x1_residual_bfloat16": _mma(256, 64, 1, BIAS, RESIDUAL, RELU, dtype="bfloat16"),
        "mma_3x3_splits_float16": _mma(128, 65, 3, BIAS, padding=1, h=7, values={"splits": 4}),
        "mma_7x7_three_channels_stride_2_float16": _mma(3, 64, 7, padding=3, stride=2, h=224),
        "mma_3x3_groups_dilation_reflect_bfloat16": _mma(32, 48, 3, padding=2, dilation=2, groups=4, dtype="bfloat16",
                                                         padding_mode="reflect"),
        "mma_3x3_groups_of_eight_float16": _mma(64, 64, 3, BIAS, RELU, padding=1, groups=8, h=56, values={"tile_n": 16,
            "tile_m": 128, "tile_k": 32, "warps_m": 4, "warps_n": 1, "stages": 4, "splits": 1, "groups_tile": 4}),
        "mma_3x3_border_of_one_value_float16": _mma(20, 33, 3, padding=1, padding_mode="constant", padding_value=0.5),
        "mma_3x3x3_float16": _mma(64, 64, 3, BIAS, RELU, padding=1, d=14, t=3),
        "mma_3x3x3_reflect_nchw_tf32x3": _mma(64, 64, 3, RESIDUAL, padding=1, d=14, t=3, dtype="float32", layout="NCHW",
                                              stride=2, padding_mode="reflect"),
        "mma_3x3_nchw_float16": _mma(64, 64, 3, BIAS, RELU, padding=1, layout="NCHW"),
        "mma_3x3_nchw_splits_residual_bfloat16": _mma(128, 65, 3, RESIDUAL, padding=1, h=7, values={"splits": 4},
                                                      layout="NCHW", dtype="bfloat16"),
        "mma_1x1_nchw_bfloat16": _mma(100, 64, 1, BIAS, RELU, layout="NCHW", dtype="bfloat16"),
        "mma_3x3_tf32x3": _mma(64, 64, 3, BIAS, RELU, padding=1, dtype="float32"),
        "mma_1x1_tf32": _mma(66, 33, 1, RESIDUAL, dtype="float32", precision="tf32"),
        "mma_3x3_nchw_tf32x3": _mma(64, 64, 3, BIAS, RELU, padding=1, layout="NCHW", dtype="float32"),
        "mma_3x3_nchw_splits_tf32x3": _mma(128, 65, 3, RESIDUAL, padding=1, h=7, values={"splits": 4}, layout="NCHW",
                                           dtype="float32", padding_mode="reflect"),
    }
