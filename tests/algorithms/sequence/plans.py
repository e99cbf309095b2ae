"""The plans of ``sequence`` whose emitted text is kept under review: both layouts, with taps before and after the turns
of a ring, and what stands outside of a sequence."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.sequences import bordered, layer, pixels
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _planned(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="sequence", epilogue=epilogue, settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "sequence_127_causal": _planned(
            layer(127, 4096, n=8, channels=768, dtype="float32"), BIAS, Epilogue.parse("silu"), outputs=16, team=64,
            sequences=1, vector=4, store_vector=4, min_blocks=14),
        "sequence_32_short_reflect": _planned(
            bordered(layer(32, 61, n=8, channels=64, multiplier=2, h=3, padding=(0, 16), dtype="float32"), "reflect"),
            RELU, outputs=8, team=8, sequences=8, vector=1, store_vector=1, min_blocks=8),
        "sequence_255_nhwc_causal": _planned(
            pixels(255, 4096, n=8, channels=768, column=True, dtype="float32"), BIAS, outputs=32, team=16, sequences=8,
            vector=4, store_vector=1, min_blocks=4),
        "sequence_31_nhwc_of_one_value": _planned(
            bordered(pixels(31, 500, n=8, channels=42, h=3, padding=(0, 15), dtype="float32"), "constant"),
            outputs=16, team=8, sequences=32, vector=1, store_vector=1, min_blocks=3),
    }
