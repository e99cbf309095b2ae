"""The plans of ``direct`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

DIRECT = {"block_size_x": 64, "block_size_y": 4, "k_tile": 1}


def _direct(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="direct", epilogue=epilogue, settings={**DIRECT, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "direct_3x3_stride_dilation_groups": _direct(ConvShape(c=4, h=64, w=64, k=6, r=3, s=3, stride=2, padding=1,
                                                               dilation=(1, 2), groups=2)),
        "direct_3x3_bfloat16": _direct(ConvShape(c=2, h=64, w=64, k=2, r=3, s=3, padding=1, dtype="bfloat16"), RELU,
                                       k_tile=2),
        "direct_nhwc_3x3_depthwise_float16": _direct(ConvShape(c=64, h=56, w=56, k=64, r=3, s=3, padding=1, groups=64,
                                                               dtype="float16", layout="NHWC"), BIAS),
        "direct_nhwc_2x5_tile": _direct(ConvShape(c=8, h=64, w=64, k=12, r=2, s=5, stride=(1, 2), groups=2,
                                                  layout="NHWC"), block_size_x=6, block_size_y=32, k_tile=2),
        "direct_nhwc_3x3_pitched_uint8": _direct(
            ConvShape(c=3, h=64, w=64, k=3, r=3, s=3, padding=1, groups=3, dtype="uint8",
                      layout="NHWC").with_distances(),
            block_size_x=3, block_size_y=64),
        "direct_3x3_residual_clamp": _direct(ConvShape(c=3, h=64, w=64, k=4, r=3, s=3, padding=1), BIAS,
                                             Epilogue.RESIDUAL, Epilogue.clamp(0, 6), k_tile=2),
        "direct_nhwc_3x3_expression": _direct(
            ConvShape(c=8, h=56, w=56, k=8, r=3, s=3, padding=1, groups=8, dtype="float16", layout="NHWC"), BIAS,
            Epilogue.expr("where(v < 1, v * sigmoid(v), max(1, min(v, 4)) / 3) + relu(-v)"), block_size_x=8,
            block_size_y=32),
        "direct_5x5_tile": _direct(ConvShape(c=3, h=64, w=64, k=8, r=5, s=5), BIAS, k_tile=4),
    }
