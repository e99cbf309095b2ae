"""The plans of ``wide`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise, plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

WIDE = {"columns": 4, "vector": 4, "store_vector": 4, "span": "strips", "row_lanes": 32, "separators": "zero_lanes",
        "edges": "interior", "sub_block_rows": 14, "prefetch_rows": 2, "weights": "registers", "loads": "registers",
        "stage_steps": 1, "pipeline": "paired", "tap_rows": "all", "warp_columns": 4, "warp_rows": 1, "warp_planes": 1,
        "min_blocks": 4}
WIDE_PACKED = {"span": "packed", "edges": "guarded", "warp_columns": 1, "warp_planes": 4}


def _wide(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="wide", epilogue=epilogue, settings={**WIDE, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "wide_3x3": _wide(plane(3)),
        "wide_5x5_cached": _wide(plane(5), RELU, loads="cached", prefetch_rows=4, stage_steps=2),
        "wide_7x7_packed_float16": _wide(
            depthwise(7, layout="NCHW", dtype="float16"), BIAS, loads="cached", prefetch_rows=2, columns=8, vector=8,
            store_vector=8, row_lanes=8, **WIDE_PACKED),
        "wide_3x3_packed_select_stride_2": _wide(
            depthwise(3, layout="NCHW", stride=2), columns=2, vector=4, store_vector=2, row_lanes=16,
            separators="select",
            **WIDE_PACKED),
        "wide_3x3_quantised_uint8": _wide(plane(3, out_dtype="uint8"), Epilogue.parse("quantize(0.1,3)"),
                                          loads="cached", prefetch_rows=4, stage_steps=2),
        "wide_3x3_reflect": _wide(plane(3, padding_mode="reflect"), loads="cached", prefetch_rows=4, stage_steps=2),
        "wide_5x5_circular_packed": _wide(
            depthwise(5, layout="NCHW", padding_mode="circular"), RELU, **WIDE_PACKED, row_lanes=14, separators="none"),
        "wide_3x3_symmetric_packed_float16": _wide(
            depthwise(3, layout="NCHW", padding_mode="symmetric", dtype="float16"), **WIDE_PACKED, loads="cached",
            prefetch_rows=4, columns=8, vector=8, store_vector=8, row_lanes=7, separators="none"),
        "wide_5x5_symmetric_float16": _wide(
            plane(5, dtype="float16", padding_mode="symmetric"), loads="async", prefetch_rows=2, columns=8, vector=8,
            store_vector=8),
        "wide_7x7_border_of_one_value": _wide(plane(7, padding_mode="constant", padding_value=0.5), loads="cached"),
        "wide_9x9_constant": _wide(plane(9), weights="constant", loads="cached", prefetch_rows=2),
        "wide_separable_5x5_registers": _wide(plane(5, separable=True), prefetch_rows=1),
        "wide_separable_17x17_constant": _wide(plane(17, separable=True), weights="constant", loads="cached",
                                               prefetch_rows=4, stage_steps=2),
        "wide_separable_9x7_depthwise_shared_stride_2": _wide(
            depthwise(9, s=7, layout="NCHW", stride=2, padding=(4, 3), separable=True), BIAS, weights="shared",
            columns=2, vector=4, store_vector=2, row_lanes=16, separators="select", **WIDE_PACKED),
        "wide_separable_9x5_seams": _wide(
            plane(9, s=5, padding_mode="symmetric", separable=True), BIAS, loads="cached", prefetch_rows=4,
            stage_steps=2,
            warp_columns=1, warp_rows=4),
        "wide_13x13_shared_needed": _wide(plane(13), weights="shared", tap_rows="needed", prefetch_rows=1,
                                          pipeline="copied"),
        "wide_3x3_channels_stride_2": _wide(plane(3, c=3, k=8, stride=2, padding=1), BIAS, RELU, weights="shared",
                                            prefetch_rows=1, warp_columns=1, warp_planes=4),
        "wide_3x3_eight_filters": _wide(plane(3, k=8), loads="cached", prefetch_rows=4, stage_steps=2, warp_columns=1,
                                        warp_planes=4),
        "wide_3x3_reflect_pitched": _wide(plane(3, c=2, k=2, groups=2, padding_mode="reflect").with_distances(), BIAS,
                                          loads="cached", prefetch_rows=4, stage_steps=2),
        "wide_3x3_residual_gelu_float16": _wide(plane(3, dtype="float16"), BIAS, Epilogue.RESIDUAL, Epilogue.GELU,
                                                columns=8, vector=8, store_vector=8),
        "wide_3x3_packed_residual_silu": _wide(
            depthwise(3, layout="NCHW"), BIAS, Epilogue.RESIDUAL, Epilogue.SILU, prefetch_rows=4, row_lanes=16,
            **WIDE_PACKED),
    }
