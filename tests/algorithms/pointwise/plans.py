"""The plans of ``pointwise`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _plan(c: int, k: int, side: int, *epilogue: Epilogue, values: Any = None) -> KernelPlan:
    shape = ConvShape(n=32, c=c, h=side, w=side, k=k, r=1, s=1)
    return plan_layer(shape, algorithm="pointwise", epilogue=epilogue, precision="tf32", settings=values or {})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "pointwise_256_to_64_nchw": _plan(256, 64, 56, BIAS, RELU),
        "pointwise_40_to_100_residual_nchw": _plan(40, 100, 28, BIAS, RESIDUAL, RELU, values={
            "filters": 64, "matrices": 2, "stages": 4}),
    }
