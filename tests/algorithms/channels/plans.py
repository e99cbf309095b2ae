"""The plans of ``channels`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

CHANNELS = {"body": "ring", "vector": 1, "columns": 2, "width": "whole", "sub_block_rows": 14, "prefetch_rows": 1,
            "stage_rows": 1, "copies": "cached", "block_channels": 8, "block_columns": 8, "block_rows": 1,
            "min_blocks": 4}


def _channels(shape: ConvShape, *epilogue: Epilogue, numerics: str = "float32", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="channels", epilogue=epilogue, settings={**CHANNELS, **values},
                      numerics=numerics)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "channels_3x3_float16": _channels(depthwise(3, dtype="float16"), vector=2, columns=2),
        "channels_3x3_lines_float16": _channels(depthwise(3, dtype="float16"), BIAS, body="lines", vector=2, columns=2,
                                                prefetch_rows=4, stage_rows=2),
        "channels_3x3_stride_2_half_arithmetic": _channels(
            depthwise(3, dtype="float16", stride=2), BIAS, numerics="float16", vector=4, columns=1, width="any",
            prefetch_rows=2),
        "channels_3x3_reflect": _channels(depthwise(3, padding_mode="reflect"), BIAS),
        "channels_3x3_constant_stride_2": _channels(
            depthwise(3, stride=2, padding_mode="constant", padding_value=0.5), columns=1, width="any"),
        "channels_3x3_lines_stride_2": _channels(
            depthwise(3, stride=2), BIAS, body="lines", prefetch_rows=2, block_columns=4),
        "channels_3x3_lines_circular": _channels(
            depthwise(3, padding_mode="circular"), RELU, body="lines", prefetch_rows=4, stage_rows=2),
        "channels_3x3_lines_constant_float16": _channels(
            depthwise(3, dtype="float16", padding_mode="constant", padding_value=0.5), body="lines", vector=2,
            prefetch_rows=2),
        "channels_5x5_tile_constant": _channels(
            depthwise(5, padding_mode="constant", padding_value=0.5), body="tile", sub_block_rows=2),
        "channels_5x5_tile_multiplier": _channels(depthwise(5, k=32, dtype="bfloat16"), BIAS, RELU, body="tile",
                                                  columns=4, sub_block_rows=2),
    }
