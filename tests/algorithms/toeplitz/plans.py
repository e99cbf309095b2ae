"""The plans of ``toeplitz`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise, plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

TOEPLITZ = {"tiles": 4, "warp_columns": 2, "warp_rows": 1, "warp_planes": 1, "vector": 8, "store_vector": 8,
            "weights": "registers", "sub_block_rows": 128, "min_blocks": 4}


def _toeplitz(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz", epilogue=epilogue, settings={**TOEPLITZ, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "toeplitz_5x5_bands_float16": _toeplitz(plane(5, dtype="float16"), BIAS, walk="bands"),
        "toeplitz_9x3_planes_bfloat16": _toeplitz(
            ConvShape(n=8, c=6, h=14, w=14, k=6, groups=6, r=9, s=3, padding=(4, 1), dtype="bfloat16"), RELU,
            walk="planes", tiles=2, warp_columns=1, warp_planes=4, vector=2, store_vector=4, stores="staged",
            weights="shared", images=8, buffers=3),
        "toeplitz_5x5_bands_reflect_float16": _toeplitz(
            plane(5, dtype="float16", padding_mode="reflect"), walk="bands", way="ca", prefetch_bands=2, begin="place"),
        "toeplitz_3x9_bands_circular_many_columns_bfloat16": _toeplitz(
            plane(3, s=9, dtype="bfloat16", padding_mode="circular"), walk="bands", warp_columns=1, tiles=3, vector=4),
        "toeplitz_2x21_bands_symmetric_loop_float16": _toeplitz(
            plane(2, s=21, dtype="float16", padding=((0, 1), (10, 10)), padding_mode="symmetric"), walk="bands",
            warp_columns=1, tiles=2, vector=2, store_vector=2, weights="shared"),
        "toeplitz_5x3_bands_of_one_value_float16": _toeplitz(
            plane(5, s=3, dtype="float16", padding_mode="constant", padding_value=0.5), RELU, walk="bands", tiles=3,
            warp_columns=1),
        "toeplitz_5x5_planes_symmetric_float16": _toeplitz(
            depthwise(5, layout="NCHW", h=14, w=14, dtype="float16", padding_mode="symmetric"), walk="planes", tiles=2,
            warp_columns=1, warp_planes=4, vector=2, store_vector=2, images=8, buffers=3),
        "toeplitz_3x15_planes_replicate_many_columns_bfloat16": _toeplitz(
            depthwise(3, s=15, layout="NCHW", h=28, w=28, padding=(1, 7), dtype="bfloat16", padding_mode="replicate"),
            walk="planes", tiles=4, warp_columns=1, warp_planes=2, vector=4, store_vector=2, images=8, buffers=2),
    }
