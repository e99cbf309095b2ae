"""The plans of ``toeplitz_nhwc`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

TOEPLITZ_NHWC = {"pairs": 2, "chunks": 4, "warps": 1, "columns": 28, "across": 1, "turn": 1, "buffers": 3,
                 "sub_block_rows": 28, "images": 2, "weights": "registers", "matrix": "sparse"}


def _toeplitz_nhwc(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_nhwc", epilogue=epilogue, settings={**TOEPLITZ_NHWC, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "toeplitz_nhwc_5x5_sparse_float16": _toeplitz_nhwc(depthwise(5, dtype="float16"), BIAS, chunks=2),
        "toeplitz_nhwc_3x7_dense_bfloat16": _toeplitz_nhwc(
            ConvShape(n=8, c=24, h=14, w=14, k=24, groups=24, r=3, s=7, padding=(1, 3), dtype="bfloat16",
                      layout="NHWC"), RELU, pairs=1, chunks=2, columns=16, across=2, turn=2, weights="shared",
            matrix="dense"),
        "toeplitz_nhwc_5x5_reflect_float16": _toeplitz_nhwc(
            depthwise(5, dtype="float16", padding_mode="reflect"), chunks=2),
        "toeplitz_nhwc_3x3_border_of_one_value_bfloat16": _toeplitz_nhwc(
            depthwise(3, dtype="bfloat16", padding_mode="constant", padding_value=-1.0), chunks=2),
    }
