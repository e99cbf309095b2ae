"""The plans of ``im2col`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _lowered(algorithm: str, shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "im2col_3x3_image_padded_bias_relu": _lowered(
            "im2col", ConvShape(n=2, c=3, h=28, w=28, k=8, r=3, s=3, padding=1), BIAS, RELU, batch="image"),
        "im2col_5x17_whole_stride_dilation": _lowered(
            "im2col", ConvShape(n=2, c=4, h=40, w=60, k=8, r=5, s=17, stride=(2, 1), dilation=(1, 2), groups=2),
            batch="whole"),
        "im2col_1x1_bias": _lowered("im2col", ConvShape(n=2, c=16, h=28, w=28, k=32, r=1, s=1), BIAS, batch="whole"),
    }
