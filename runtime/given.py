"""A plan that the caller gives to specialize()."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec


def check_plan(plan: Any, shape: ConvShape, algorithm: str, settings: Any, *more: Any) -> None:
    """A given plan is taken as it is: nothing else (``more``: epilogue, bias, activation, arithmetic, limit) may ask
    for something different, and it must serve the shape. Raises ArgumentTypeError (no plan) or ArgumentError."""
    if not isinstance(plan, KernelPlan):
        raise ArgumentTypeError("plan must be a KernelPlan", argument="plan", value=type(plan).__name__,
                                hint="warpconv.plan(spec, settings) makes one")
    if algorithm != "auto" or settings or any(more):
        raise ArgumentError("a plan has its algorithm, settings, epilogue and arithmetic already", argument="plan",
                            value=plan.spec.name, hint="give the plan alone, or no plan")
    needed = KernelSpec.of(shape, algorithm=plan.spec.algorithm, arch=plan.spec.arch, epilogue=plan.spec.epilogue,
                           numerics=plan.spec.numerics)
    if plan.spec not in (needed, replace(needed, index_bits=64)):
        raise ArgumentError("this plan is for other layers", argument="plan", value=str(plan.spec),
                            hint=f"the shape needs {needed}")
    refusal = plan.program.refusal(shape)
    if refusal is not None:
        raise ArgumentError(f"the shape does not suit this plan: {refusal}", argument="plan", value=str(plan.spec),
                            hint="specialize(shape) finds one")
