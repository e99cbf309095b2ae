"""The plans of ``pixels`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

PIXELS = {"columns": 8, "vector": 8, "store_vector": 8, "sums": "float", "weights": "registers", "sub_block_rows": 32,
          "prefetch_rows": 4, "filters": 1, "warp_columns": 4, "warp_rows": 1, "warp_planes": 1, "min_blocks": 4}


def _pixels(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="pixels", epilogue=epilogue, settings={**PIXELS, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "pixels_3x3": _pixels(plane(3, dtype="uint8")),
        "pixels_3x3_four_filters_together": _pixels(plane(3, k=4, dtype="uint8"), BIAS, prefetch_rows=2, filters=2,
                                                    warp_columns=2, warp_planes=2, min_blocks=3),
        "pixels_5x5_dp4a_reflect": _pixels(plane(5, dtype="uint8", weight_dtype="int8", padding_mode="reflect"),
                                           sums="dp4a", prefetch_rows=2),
        "pixels_3x3_any_address_uint16_to_float16": _pixels(
            plane(3, c=3, k=3, groups=3, dtype="uint16", out_dtype="float16"), BIAS, RELU, vector=1,
            store_vector=1, columns=4),
        "pixels_3x3_nhwc_reflect": _pixels(
            plane(3, c=3, k=3, groups=3, dtype="uint8", layout="NHWC", padding_mode="reflect"), BIAS, columns=12,
            vector=4, store_vector=4),
        "pixels_4x4_constant_int8": _pixels(plane(4, dtype="int8"), weights="constant", columns=4, vector=4,
                                            store_vector=4, prefetch_rows=1),
        "pixels_2x6_mad_shared_int16_stride_2": _pixels(
            plane(2, s=6, padding=(0, 2), stride=2, dtype="int16", weight_dtype="int16", cast="truncate",
                   padding_mode="constant", padding_value=-7), sums="mad", weights="shared",
            columns=4, vector=4, store_vector=2, prefetch_rows=1),
    }
