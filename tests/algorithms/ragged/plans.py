"""The plans of ``ragged`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import RESIDUAL
from tests.golden import plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.spec import Epilogue


def _ragged(size: int, *epilogue: Epilogue, settings: dict[str, Any] | None = None, **changes: Any) -> KernelPlan:
    return plan_layer(plane(size, **changes), operation="ragged", epilogue=epilogue, settings=settings)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "ragged_5x5_symmetric": _ragged(5, padding_mode="symmetric"),
        "ragged_3x3_zeros_residual_float16": _ragged(3, RESIDUAL, dtype="float16"),
        "ragged_3x3_whole_weights_constant_uint8": _ragged(3, dtype="uint8", weight_dtype="int8", cast="truncate",
                                                           padding_mode="constant", padding_value=3),
        "ragged_17x17_separable_reflect": _ragged(17, separable=True, padding_mode="reflect"),
        "ragged_separable_circular_small_tile_uint8": _ragged(
            9, s=7, separable=True, padding_mode="circular", dtype="uint8", out_dtype="float32",
            settings={"tile_columns": 32, "tile_rows": 16}),
    }
