"""What callers give: arguments of conv2d() as keys and as a layer, a plan for specialize()."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.request import of_pixels
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime import arrays
from warpconv.runtime.arrays.view import ArrayView

from .checks import check_elements

ALONE = {2: "sequences", 3: "images", 4: "volumes"}     # by the axes of one


def check_plan(plan: Any, shape: ConvShape, algorithm: str, settings: Any, *more: Any) -> None:
    """A given plan is taken as it is: nothing else (``more``: epilogue, bias, activation, arithmetic, limit) may ask
    for something different, and it must serve the shape. Raises ArgumentTypeError (no plan) or ArgumentError."""
    if not isinstance(plan, KernelPlan):
        raise ArgumentTypeError("plan must be a KernelPlan", argument="plan", value=type(plan).__name__,
                                hint="warpconv.plan(spec, settings) makes one")
    if algorithm != "auto" or settings or any(more):
        raise ArgumentError("a plan has its algorithm, settings, epilogue and arithmetic already", argument="plan",
                            value=plan.spec.name, hint="give the plan alone, or no plan")
    if plan.spec.layout is not shape.layout:
        shape = of_pixels(shape)
    needed = KernelSpec.of(shape, algorithm=plan.spec.algorithm, arch=plan.spec.arch, epilogue=plan.spec.epilogue,
                           numerics=plan.spec.numerics)
    if plan.spec.takes_border(shape.padding_value):
        needed = replace(needed, border_value=plan.spec.border_value)
    if plan.spec.operation is not Operation.FORWARD:
        raise ArgumentError("a Kernel is of a forward layer", argument="plan", value=str(plan.spec),
                            hint="conv2d_input, conv2d_weight and conv2d_bias compute gradients")
    if plan.spec not in (needed, replace(needed, index_bits=64)):
        raise ArgumentError("this plan is for other layers", argument="plan", value=str(plan.spec),
                            hint=f"the shape needs {needed}")
    refusal = plan.program.refusal(shape)
    if refusal is not None:
        raise ArgumentError(f"the shape does not suit this plan: {refusal}", argument="plan", value=str(plan.spec),
                            hint="specialize(shape) finds one")


def as_batch(input: Any, **more: Any) -> list[Any]:
    """One sequence, image or volume and the arrays of its call as a batch of one; ShapeError where some have a batch
    and others not."""
    axes = input.ndim
    for name, value in more.items():
        if value is not None and not hasattr(value, "ndim"):
            raise ArgumentTypeError("not an array", argument=name, value=value, hint="an array of the input's library")
        if value is not None and value.ndim != axes:
            raise ShapeError(f"input has no axis of {ALONE[axes]}, and {name} has not as many", argument=name,
                             value=tuple(value.shape), hint=f"all of {axes} axes, or all of {axes + 1}")
    return [None if value is None else inserted(value, name, 0) for name, value in (("input", input), *more.items())]


def inserted(value: Any, argument: str, axis: int) -> Any:
    """A view of an array with an axis of length 1. Raises ArgumentTypeError."""
    insert = getattr(value, "unsqueeze", None)      # PyTorch's own, whose gradient is a view as well
    if insert is not None:
        return insert(axis)
    if not hasattr(value, "ndim") or not hasattr(value, "__getitem__"):
        arrays.view(value, argument)                # what is no array at all
        raise ArgumentTypeError("an array without indices can be given no axis", argument=argument,
                                value=type(value).__name__, hint="bring it into a library with from_dlpack()")
    return value[(slice(None),) * axis + (None,)]


def token(value: Any) -> Any:
    """An argument for a key: True and 1, or 1.0 and 1, are equal but not the same argument."""
    if type(value) is int:
        return value
    return tuple(map(token, value)) if type(value) is tuple else (type(value), value)


def layer_given(x: ArrayView, w: ArrayView, memory: Layout, geometry: dict[str, Any]) -> ConvShape:
    """The layer of an input with its axes in memory order; checking its sizes takes longer than a launch, so it is done
    once per set of arguments. Raises what ConvShape.of does: ShapeError, ArgumentError or ArgumentTypeError."""
    return layer_of_sizes(x.shape, w.shape, x.dtype, w.dtype, memory, geometry)


def layer_of_sizes(x: tuple[int, ...], w: tuple[int, ...], dtype: DType, weight_dtype: DType, memory: Layout,
                   geometry: dict[str, Any]) -> ConvShape:
    """The same of the sizes of input (in memory order) and filter."""
    given = tuple(geometry.values())
    check_elements(x, "input")
    check_elements(w, "weight")
    try:
        return _layer_of(x, w, dtype, weight_dtype, memory, token(given), **geometry)
    except ArgumentTypeError:
        raise
    except TypeError:       # lists and other unhashable arguments
        return _layer_of.__wrapped__(x, w, dtype, weight_dtype, memory, (), **geometry)


@functools.lru_cache(maxsize=4096)
def _layer_of(x: tuple[int, ...], w: tuple[int, ...], dtype: DType, weight_dtype: DType, memory: Layout, kinds: Any,
              **geometry: Any) -> ConvShape:
    return ConvShape.of(x, w, dtype=dtype, weight_dtype=weight_dtype, layout=memory, **geometry)
