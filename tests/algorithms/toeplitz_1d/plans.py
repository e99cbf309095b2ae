"""The plans of ``toeplitz_1d`` whose emitted text is kept under review: rows of one block of outputs and of four, with
the filter in registers and in shared memory, and what stands outside of a sequence."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.sequences import bordered, layer
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _planned(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_1d", epilogue=epilogue, settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "toeplitz_1d_4_causal_float16": _planned(
            layer(4, 2048, n=8, channels=768), BIAS, Epilogue.parse("silu"), columns=8, warps=4, tiles=4, sequences=1,
            vector=8, store_vector=2, min_blocks=8),
        "toeplitz_1d_127_wide_bfloat16": _planned(
            layer(127, 8192, n=8, channels=768, dtype="bfloat16"), columns=32, warps=4, tiles=4, sequences=1, vector=8,
            store_vector=8, min_blocks=6),
        "toeplitz_1d_31_short_sequences_reflect_float16": _planned(
            bordered(layer(31, 60, n=8, channels=64, multiplier=2, h=3, padding=(0, 15)), "reflect"), RELU, columns=8,
            warps=1, tiles=1, sequences=4, vector=4, store_vector=1, min_blocks=8),
        "toeplitz_1d_9_wide_of_one_value_bfloat16": _planned(
            bordered(layer(9, 999, channels=16, padding=(0, 4), dtype="bfloat16"), "constant"), BIAS, columns=32,
            warps=2, tiles=1, sequences=2, vector=1, store_vector=1, weights="shared", min_blocks=4),
    }
