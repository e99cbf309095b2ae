"""The plans of ``toeplitz_float32`` whose emitted text is kept under review: one of each form of a kernel."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise, plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

VALUES = {"tiles": 4, "warp_columns": 2, "vector": 4, "store_vector": 2, "sub_block_rows": 64, "min_blocks": 4}


def _planned(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_float32", epilogue=epilogue, precision="fp16x3",
                      settings={**VALUES, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "toeplitz_float32_15x15": _planned(plane(15), BIAS),
        "toeplitz_float32_9x9_even_blocks_whole_windows": _planned(plane(9, padding=0), tiles=2, warp_columns=1),
        "toeplitz_float32_5x40_reflect_two_chains": _planned(
            plane(5, s=40, padding=(2, 20), padding_mode="reflect"), tiles=1, vector=2, store_vector=1),
        "toeplitz_float32_13x31_depthwise_constant": _planned(
            depthwise(13, s=31, layout="NCHW", padding=(6, 15), padding_mode="constant", padding_value=0.5), RELU,
            tiles=3, vector=1, images=2),
    }
