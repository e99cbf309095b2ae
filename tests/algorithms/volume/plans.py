"""The plans of volumes whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _volume(size: int, side: int, *epilogue: Epilogue, operation: str = "forward", algorithm: str = "auto",
            settings: dict[str, Any] | None = None, **layer: Any) -> KernelPlan:
    fields = dict(c=1, k=1, d=side, h=side, w=side, t=size, r=size, s=size, padding=size // 2)
    return plan_layer(ConvShape(**{**fields, **layer}), epilogue=epilogue, operation=operation,
                      algorithm=algorithm, settings=settings)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    depthwise = dict(c=32, k=32, groups=32)
    return {
        "volume_3x3x3_one_channel": _volume(3, 512, padding_mode="symmetric"),
        "volume_3x3x3_depthwise_bias_relu": _volume(3, 64, BIAS, RELU, **depthwise),
        "volume_5x5x5_depthwise_float16": _volume(5, 32, BIAS, dtype="float16", **depthwise),
        "volume_3x3x3_three_channels_stride_2": _volume(3, 64, BIAS, c=3, k=16, stride=2),
        "volume_3x3x3_dilated_constant_uint8_residual": _volume(
            3, 100, RESIDUAL, dtype="uint8", weight_dtype="int8", out_dtype="uint8", dilation=(1, 2, 2),
            padding_mode="constant", padding_value=7),
        "volume_17x17x17_replicate": _volume(17, 100, padding_mode="replicate"),
        "volume_3x3x3_ndhwc_bfloat16": _volume(3, 32, RELU, dtype="bfloat16", layout="NHWC", **depthwise),
        "volume_5x3x3_ndhwc_reflect_stride_2": _volume(3, 32, RELU, layout="NHWC", t=5, stride=2, padding=(2, 1, 1),
                                                       padding_mode="reflect", **depthwise),
        "volume_5x5x5_ndhwc_float16": _volume(5, 32, dtype="float16", layout="NHWC", **depthwise),
        "volume_5x7x7_ndhwc_loop_residual": _volume(7, 32, BIAS, RESIDUAL, layout="NHWC", t=5, padding=(2, 3, 3),
                                                    settings={"tap_rows": "loop"}, **depthwise),
        "volume_17x17x17_ndhwc": _volume(17, 100, dtype="float16", layout="NHWC", **depthwise),
        "volume_3x3x3_data_gradient": _volume(3, 64, operation="data_gradient", **depthwise),
        "volume_3x3x3_data_gradient_stride_2_reflect": _volume(3, 64, operation="data_gradient", stride=2,
                                                               padding_mode="reflect", **depthwise),
        "volume_3x3x3_filter_gradient_float16": _volume(3, 64, operation="filter_gradient", dtype="float16",
                                                        **depthwise),
        "volume_5x5x5_filter_gradient_reflect": _volume(5, 32, operation="filter_gradient", padding_mode="reflect",
                                                        **depthwise),
        "volume_3x3x3_filter_gradient_ndhwc_bfloat16": _volume(3, 32, operation="filter_gradient", dtype="bfloat16",
                                                               layout="NHWC", **depthwise),
        "volume_3x3x3_filter_gradient_ndhwc_dense": _volume(3, 32, operation="filter_gradient", layout="NHWC",
                                                            c=3, k=8, algorithm="volume_filter"),
    }
