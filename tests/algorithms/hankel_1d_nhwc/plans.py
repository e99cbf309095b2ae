"""The plans of ``hankel_1d_nhwc`` whose emitted text is kept under review: rows of pixels and columns, all taps in a
block and blocks of them, one share of the batch and several, and channels that do not fill a block."""

from __future__ import annotations

from typing import Any

from tests.sequences import bordered, pixels
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def _planned(shape: ConvShape, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="hankel_1d_nhwc", operation="filter_gradient", settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "hankel_1d_nhwc_4_causal_column_float16": _planned(
            pixels(4, 2048, n=8, channels=768, column=True), chunks=1, octets=2, each=2, steps=1),
        "hankel_1d_nhwc_127_several_shares_bfloat16": _planned(
            pixels(127, 8192, n=8, channels=96, dtype="bfloat16"), chunks=4, taps=127, octets=2, each=2, steps=2),
        "hankel_1d_nhwc_31_blocks_of_taps_circular_float16": _planned(
            bordered(pixels(31, 250, n=8, channels=24, h=3, padding=(0, 15)), "circular"), chunks=1, taps=8, octets=2,
            each=4, steps=1),
    }
