"""The plans of ``toeplitz_1d_nhwc`` whose emitted text is kept under review: rows of pixels and columns, tiles of one
block of outputs a row and of four, channels that do not fill a block, and what stands outside of a sequence."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.sequences import bordered, pixels
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _planned(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_1d_nhwc", epilogue=epilogue, settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "toeplitz_1d_nhwc_4_causal_column_float16": _planned(
            pixels(4, 2048, n=8, channels=768, column=True), BIAS, Epilogue.parse("silu"), octets=4, columns=8, tiles=2,
            warps=8, min_blocks=4),
        "toeplitz_1d_nhwc_127_wide_bfloat16": _planned(
            pixels(127, 8192, n=8, channels=768, dtype="bfloat16"), octets=2, columns=32, tiles=1, warps=4,
            min_blocks=4),
        "toeplitz_1d_nhwc_31_of_cut_octets_reflect_float16": _planned(
            bordered(pixels(31, 60, n=8, channels=24, h=3, padding=(0, 15)), "reflect"), BIAS, RELU, octets=2,
            columns=8, tiles=1, warps=2, weights="shared", min_blocks=8),
    }
