"""What is asked of a layer: the plan, the choice, and every algorithm's answer (resolution.py has the rule)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .hardware import DEFAULT_ARCH, Arch, Hardware
from .numerics import Precision
from .plan import KernelPlan
from .request import Request
from .resolution import Candidate, Resolution, Selection, Tuning, resolve
from .shape import ConvShape
from .spec import Epilogue, Numerics, Operation


def plan_layer(shape: ConvShape, *, algorithm: str = "auto", arch: Arch | Hardware | str = DEFAULT_ARCH,
               epilogue: Iterable[Epilogue] = (), settings: Mapping[str, Any] | None = None,
               tuning: Tuning | None = None, numerics: Numerics | str = Numerics.FLOAT32,
               workspace_limit: int | None = None, operation: Operation | str = Operation.FORWARD,
               precision: Precision | str = Precision.FLOAT32) -> KernelPlan:
    """The plan for a layer: select() and the planner in one call.

    Parameters
    ----------
    shape : ConvShape
        The layer. Its batch does not change the choice, but where there are several channels (codegen/batch.py).
    algorithm : str
        "auto" for the quickest by rule, or the name of one.
    arch : Arch, Hardware or str
        An architecture (sm_75 to sm_120, "sm_90" if none is given), or the Hardware at hand, whose multiprocessors the
        grid is then made for.
    settings : mapping of str to number, bool or str, optional
        Plan values over what the planner would take (the algorithm's options, as ``warpconv explain`` lists them).
    epilogue : iterable of Epilogue
        Steps applied to each output, in this order (docs/epilogues.md).
    numerics : Numerics or str
        The arithmetic of products and sums, "float32" if none is given.
    precision : Precision or str
        How exact products of float32 elements are: "float32" (the quickest that is as exact as "ieee"), "ieee",
        "tf32x3", "fp16x3", "tf32" (docs/precision.md).
    tuning : Tuning, optional
        A table of measured choices, which overrules the estimate for the layers it knows.
    workspace_limit : int, optional
        Bytes of workspace that a call of this layer may take at most; None for any number.
    operation : Operation or str
        What is computed of the layer: "forward", "data_gradient", "filter_gradient" or "bias_gradient".

    Returns
    -------
    KernelPlan
        What render() and the run time take.

    Raises
    ------
    UnsupportedSpec
        The named algorithm, or none, serves the layer.
    ArgumentError, ArgumentTypeError
        Unknown names, and values that cannot be.
    """
    return resolve(Request.of(shape, algorithm=algorithm, arch=arch, epilogue=epilogue, settings=settings,
                              numerics=numerics, workspace_limit=workspace_limit, operation=operation,
                              precision=precision), tuning).plan


def select(shape: ConvShape, arch: Arch | Hardware | str = DEFAULT_ARCH, tuning: Tuning | None = None, *,
           epilogue: Iterable[Epilogue] = (), numerics: Numerics | str = Numerics.FLOAT32,
           workspace_limit: int | None = None, operation: Operation | str = Operation.FORWARD,
           precision: Precision | str = Precision.FLOAT32) -> Selection:
    """The quickest supported algorithm for a layer, with its plan values: the one of the fewest modelled issue
    slots (docs/design.md).

    Parameters
    ----------
    shape : ConvShape
        The layer. Its batch does not change the choice, but where there are several channels (codegen/batch.py).
    arch : Arch, Hardware or str
        An architecture (sm_75 to sm_120, "sm_90" if none is given), or the Hardware at hand, whose multiprocessors the
        grid is then made for.
    epilogue : iterable of Epilogue
        Steps applied to each output, in this order (docs/epilogues.md).
    numerics : Numerics or str
        The arithmetic of products and sums, "float32" if none is given.
    precision : Precision or str
        How exact products of float32 elements are: "float32" (the quickest that is as exact as "ieee"), "ieee",
        "tf32x3", "fp16x3", "tf32" (docs/precision.md).
    tuning : Tuning, optional
        A table of measured choices, which overrules the estimate for the layers it knows.
    workspace_limit : int, optional
        Bytes of workspace that a call of this layer may take at most; None for any number.
    operation : Operation or str
        What is computed of the layer, as plan_layer() has it.

    Returns
    -------
    Selection
        Algorithm, spec and plan values; plan() takes it.

    Raises
    ------
    UnsupportedSpec
        No algorithm serves the layer.
    ArgumentError, ArgumentTypeError
        Unknown names, and values that cannot be.
    """
    return resolve(Request.of(shape, arch=arch, epilogue=epilogue, numerics=numerics,
                              workspace_limit=workspace_limit, operation=operation, precision=precision),
                   tuning).selection


def explain(shape: ConvShape, arch: Arch | Hardware | str = DEFAULT_ARCH, *,
            epilogue: Iterable[Epilogue] = (), numerics: Numerics | str = Numerics.FLOAT32,
            tuning: Tuning | None = None, workspace_limit: int | None = None,
            operation: Operation | str = Operation.FORWARD,
            precision: Precision | str = Precision.FLOAT32) -> tuple[Candidate, ...]:
    """Every algorithm's answer for a layer.

    Parameters
    ----------
    shape : ConvShape
        The layer. Its batch does not change the choice, but where there are several channels (codegen/batch.py).
    arch : Arch, Hardware or str
        An architecture (sm_75 to sm_120, "sm_90" if none is given), or the Hardware at hand, whose multiprocessors the
        grid is then made for.
    epilogue : iterable of Epilogue
        Steps applied to each output, in this order (docs/epilogues.md).
    numerics : Numerics or str
        The arithmetic of products and sums, "float32" if none is given.
    precision : Precision or str
        How exact products of float32 elements are: "float32" (the quickest that is as exact as "ieee"), "ieee",
        "tf32x3", "fp16x3", "tf32" (docs/precision.md).
    tuning : Tuning, optional
        A table of measured choices, which overrules the estimate for the layers it knows.
    workspace_limit : int, optional
        Bytes of workspace that a call of this layer may take at most; None for any number.
    operation : Operation or str
        What is computed of the layer, as plan_layer() has it.

    Returns
    -------
    tuple of Candidate
        The chosen one first, then by estimate (in issue slots of the GPU), then those that decline, with the reason.
        What ``tuning`` chooses says so.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        Unknown names, and values that cannot be.
    """
    return Resolution(Request.of(shape, arch=arch, epilogue=epilogue, numerics=numerics,
                                 workspace_limit=workspace_limit, operation=operation, precision=precision),
                      tuning).candidates
