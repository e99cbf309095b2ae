"""Choosing the algorithm for a layer, and planning it.

The rule: of the algorithms that support the layer, take the one whose planner estimates the fewest issue slots
for it (loads, shuffles, FMAs and bookkeeping, edges included; more where there are too few warps to fill a large GPU,
since then the time of one warp counts). At these kernels' arithmetic intensity the issue slots decide, not the
memory. The batch does not change the choice: it is assumed, so that all batches share a kernel. A tuning table, where
given, overrules the estimate for the layers it knows. An algorithm that leans on a library or on prepared
filters (the slides' steps) is left to those who name it, and one whose workspace is over a limit that was given is
declined, unless its planner has a lighter form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .algorithm import Algorithm, assumed_batch
from .hardware import Arch, DEFAULT_ARCH, Hardware
from .dtypes import DType
from .errors import ArgumentError, ArgumentTypeError, PlannerError, UnsupportedSpec
from .options import choices, with_settings
from .plan import KernelPlan
from .registry import ALGORITHMS, algorithm as _row
from .shape import ConvShape
from .spec import Epilogue, KernelSpec, Numerics, parse_epilogue


class Tuning(Protocol):
    """A table of measured choices; pure data, loaded by the run time."""

    def best(self, shape: ConvShape, arch: Arch) -> tuple[str, Mapping[str, Any]] | None:
        """Algorithm and plan values measured quickest for the layer, or None where it was not measured."""

    def origin(self, shape: ConvShape, arch: Arch) -> str:
        """Where best() has its answer from, in words, for people."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One algorithm's answer for a layer: the plan and its estimate, or the reason why there is none."""

    algorithm: str
    summary: str
    plan: KernelPlan | None
    reason: str
    estimate: float | None = None

    @property
    def supported(self) -> bool:
        return self.plan is not None

    def __str__(self) -> str:
        return f"{self.algorithm}: {'' if self.supported else 'declined, '}{self.reason}"


def plan_layer(shape: ConvShape, *, algorithm: str = "auto", arch: Arch | Hardware | str = DEFAULT_ARCH,
               epilogue: Iterable[Epilogue] = (), settings: Mapping[str, Any] | None = None,
               tuning: Tuning | None = None, numerics: Numerics | str = Numerics.FLOAT32,
               workspace_limit: int | None = None) -> KernelPlan:
    """The plan for a layer: select() and the planner in one call. ``arch``: an architecture, or the Hardware at hand,
    whose multiprocessors the grid is then made for. ``workspace_limit``: bytes of workspace that a call of this layer
    may take at most, None for any number.

    Raises UnsupportedSpec where the named algorithm cannot serve it, ArgumentError for unknown names and values.
    """
    _check_shape(shape)
    epilogue = parse_epilogue(epilogue, takes_bias=True)
    settings, numerics, limit = _names(settings), _arithmetic(numerics, shape), check_limit(workspace_limit)
    hardware = Hardware.parse(arch)
    if algorithm == "auto" and not settings:
        measured = _measured(shape, hardware, epilogue, numerics, tuning, limit)
        if measured is not None:
            return measured
    if algorithm == "auto":
        answers = explain(shape, hardware, epilogue=epilogue, numerics=numerics, workspace_limit=limit)
        having = [c for c in answers if set(settings) <= set(choices(_row(c.algorithm).options))]
        algorithm = _quickest(shape, having, settings).algorithm
    return _plan(_row(algorithm), shape, hardware, epilogue, numerics, settings, limit)


def select(shape: ConvShape, arch: Arch | Hardware | str = DEFAULT_ARCH, tuning: Tuning | None = None, *,
           epilogue: Iterable[Epilogue] = (), numerics: Numerics | str = Numerics.FLOAT32,
           workspace_limit: int | None = None) -> KernelSpec:
    """The spec of the quickest supported algorithm for a layer, by the rule above."""
    return plan_layer(shape, arch=arch, epilogue=epilogue, tuning=tuning, numerics=numerics,
                      workspace_limit=workspace_limit).spec


def plan(spec: KernelSpec, settings: Mapping[str, Any] | None = None, shape: ConvShape | None = None) -> KernelPlan:
    """The plan of a spec: the algorithm's defaults (better where ``shape`` shows the sizes) with ``settings`` over
    them."""
    if not isinstance(spec, KernelSpec):
        raise ArgumentTypeError("plan takes a KernelSpec", argument="spec", value=type(spec).__name__,
                                hint="warpconv.select(shape) makes one; plan_layer(shape) goes all the way")
    row = _row(spec.algorithm)
    refusal = row.supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    return row.plan(spec, with_settings(row.defaults(spec, shape), _names(settings)))


def explain(shape: ConvShape, arch: Arch | Hardware | str = DEFAULT_ARCH, *,
            epilogue: Iterable[Epilogue] = (), numerics: Numerics | str = Numerics.FLOAT32,
            tuning: Tuning | None = None, workspace_limit: int | None = None) -> tuple[Candidate, ...]:
    """Every algorithm's answer for a layer, the chosen one first; what ``tuning`` chooses says so."""
    _check_shape(shape)
    steps = parse_epilogue(epilogue, takes_bias=True)
    numerics, limit, hardware = Numerics.parse(numerics), check_limit(workspace_limit), Hardware.parse(arch)
    candidates = [_candidate(row, shape, hardware, steps, numerics, limit) for row in ALGORITHMS.values()]
    ranked = sorted(candidates, key=lambda c: (c.estimate is None, _row(c.algorithm).by_name != "", c.estimate or 0.0))
    made = _measured(shape, hardware, steps, numerics, tuning, limit)
    if made is None:
        return tuple(ranked)
    row = _row(made.spec.algorithm)
    try:
        estimate = row.slots(made, shape)
    except PlannerError:        # what was measured needs no estimate
        estimate = None
    chosen = Candidate(algorithm=row.name, summary=row.summary, plan=made, estimate=estimate,
                       reason=tuning.origin(shape.without_gaps(), hardware.arch))
    return chosen, *(c for c in ranked if c.algorithm != row.name)


def _measured(shape: ConvShape, hardware: Hardware, epilogue: tuple[Epilogue, ...], numerics: Numerics,
              tuning: Tuning | None, limit: int | None) -> KernelPlan | None:
    """The plan that a table of measured choices has for the layer (arrays with gaps by that without); None where it has
    none that can still be made."""
    if tuning is None or numerics is not Numerics.FLOAT32:
        return None
    found = tuning.best(shape.without_gaps(), hardware.arch)
    if found is None:
        return None
    try:
        row = _row(found[0])
        values = {name: value for name, value in found[1].items() if not (epilogue and name in row.follows)}
        return _plan(row, shape, hardware, epilogue, numerics, values, limit)
    except (ArgumentError, UnsupportedSpec):    # by another version, for another epilogue, too large: the rule decides
        return None


def carries_over(measured: ConvShape, shape: ConvShape, arch: Arch | str, algorithm: str,
                 settings: Mapping[str, Any]) -> bool:
    """Whether plan values that were chosen for a layer are of use for one that differs from it little (in its border):
    they plan, and the planner's own values are the same for both. Where those differ, the choice was made among others.
    """
    try:
        row, arch = _row(algorithm), Arch.parse(arch)
        own = [row.defaults(KernelSpec.of(layer, algorithm=algorithm, arch=arch), layer) for layer in (measured, shape)]
        _plan(row, shape, Hardware.of(arch), (), Numerics.FLOAT32, settings, None)
    except (ArgumentError, UnsupportedSpec):
        return False
    return own[0] == own[1]


def _candidate(row: Algorithm, shape: ConvShape, hardware: Hardware, epilogue: tuple[Epilogue, ...],
               numerics: Numerics, limit: int | None) -> Candidate:
    try:
        made = _plan(row, shape, hardware, epilogue, numerics, {}, limit)
        estimate = row.slots(made, shape)
    except UnsupportedSpec as error:
        return Candidate(algorithm=row.name, summary=row.summary, plan=None, reason=error.reason)
    return Candidate(algorithm=row.name, summary=row.summary, plan=made, estimate=estimate,
                     reason=f"about {estimate / 1e6:.3g} million issue slots for a batch of {assumed_batch(shape)}"
                            + (f"; {row.by_name}" if row.by_name else ""))


def _plan(row: Algorithm, shape: ConvShape, hardware: Hardware, epilogue: tuple[Epilogue, ...], numerics: Numerics,
          settings: Mapping[str, Any], limit: int | None) -> KernelPlan:
    spec = KernelSpec.of(shape, algorithm=row.name, arch=hardware.arch, epilogue=epilogue, numerics=numerics,
                         at_hand=hardware.at_hand)
    made = plan(spec, settings, shape)
    refusal = made.program.refusal(shape)
    if refusal is not None:
        raise UnsupportedSpec(made.spec, refusal)
    return _within(limit, row, made, shape, settings)


def _within(limit: int | None, row: Algorithm, made: KernelPlan, shape: ConvShape,
            settings: Mapping[str, Any]) -> KernelPlan:
    """The plan, or its planner's next lighter one whose workspace is within the limit. Raises UnsupportedSpec."""
    while (reason := made.program.over_limit(shape, limit)) is not None:
        options = row.lighter(made.spec, made.options)
        options = None if options is None else with_settings(options, settings)
        if options in (None, made.options):
            raise UnsupportedSpec(made.spec, reason)
        made = row.plan(made.spec, options)
    return made


def check_limit(limit: Any, argument: str = "workspace_limit") -> int | None:
    """A limit on workspace as given. Raises ArgumentError, ArgumentTypeError."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise ArgumentTypeError("a limit is a whole number of bytes", argument=argument, value=limit, hint="or None")
    if limit < 0:
        raise ArgumentError("a limit is no less than 0 bytes", argument=argument, value=limit, hint="or None")
    return limit


def _quickest(shape: ConvShape, candidates: list[Candidate], settings: Mapping[str, Any]) -> Candidate:
    """The first that is supported, of those that know every plan value asked for."""
    if not candidates:
        known = (f"{name}: {', '.join(choices(row.options))}" for name, row in ALGORITHMS.items())
        raise ArgumentError("no algorithm has all these plan values", argument="settings", value=dict(settings),
                            hint="; ".join(known))
    if candidates[0].plan is None:
        raise UnsupportedSpec(None, "; ".join(f"{c.algorithm}: {c.reason}" for c in candidates))
    return candidates[0]


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, ConvShape):
        raise ArgumentTypeError("a layer is a ConvShape", argument="shape", value=type(shape).__name__,
                                hint="warpconv.ConvShape(c=..., h=..., w=..., k=..., r=..., s=...)")


def _arithmetic(numerics: Numerics | str, shape: ConvShape) -> Numerics:
    numerics = Numerics.parse(numerics)
    if numerics is Numerics.FLOAT16 and shape.dtype is DType.FLOAT32:
        raise UnsupportedSpec(None, "half arithmetic on float32 elements (it is for float16 and bfloat16 layers)",
                              hint="leave the arithmetic at float32, or convert the arrays")
    if (numerics is Numerics.INT32) > shape.w_dtype.is_integer or (
            numerics is Numerics.FLOAT16 and shape.dtype.is_integer):
        raise UnsupportedSpec(None, f"{numerics.value} arithmetic on {shape.dtype.value} with {shape.w_dtype.value} "
                              "filters", hint="int32 is for integer filters; leave the arithmetic out")
    return numerics


def _names(settings: Any) -> dict[str, Any]:
    if settings is not None and not isinstance(settings, Mapping):
        raise ArgumentTypeError("settings must be a mapping of names to values", argument="settings",
                                value=type(settings).__name__, hint="{'exchange': 'packed'}")
    return dict(settings or {})
