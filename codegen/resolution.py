"""One pass over the algorithms for a request: what each answers, which plan is taken, and what it came from.

The rule: of the algorithms that support the layer, take the one whose planner estimates the fewest issue slots for it
(loads, shuffles, FMAs and bookkeeping, edges included; more where there are too few warps to fill a large GPU, since
then the time of one warp counts). At these kernels' arithmetic intensity the issue slots decide, not the memory. The
batch does not change the choice: it is assumed, so that all batches share a kernel; but for floating-point layers of
several channels, where the power of two below it does (codegen/batch.py). A tuning table, where given, overrules
the estimate for the layers it knows. An algorithm that leans on a library or on prepared filters (the slides' steps)
is left to those who name it, and one whose workspace is over a limit that was given is declined, unless its planner
has a lighter form.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from . import adjoint
from .algorithm import Algorithm
from .batch import assumed_batch
from .classes import dataclass, replace
from .dtypes import DType
from .errors import ArgumentError, ArgumentTypeError, PlannerError, UnsupportedSpec
from .hardware import LANES, Arch
from .numerics import Accumulator, Precision
from .options import DERIVED, choices, with_settings
from .parts.occupancy import resident_blocks, thread_registers
from .plan import KernelPlan
from .registry import algorithm as _row, serving
from .request import Request, Settings, settings_of
from .shape import ConvShape
from .spec import KernelSpec, Numerics, Operation

CLEARLY = 1.2       # times as quick is what is no mistake of estimates


class Tuning(Protocol):
    """A table of measured choices; pure data, loaded by the run time."""

    def best(self, shape: ConvShape, arch: Arch,
             numerics: Numerics = Numerics.FLOAT32) -> tuple[str, Mapping[str, Any]] | None:
        """Algorithm and plan values measured quickest for the layer, or None where it was not measured."""

    def origin(self, shape: ConvShape, arch: Arch, numerics: Numerics = Numerics.FLOAT32) -> str:
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


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which kernel serves a layer: its spec and plan values; plan() makes the chosen plan of it. ``request`` names the
    algorithm, and the plan values that are not the planner's own."""

    spec: KernelSpec
    settings: Settings
    request: Request = field(compare=False, repr=False)

    @property
    def algorithm(self) -> str:
        return self.spec.algorithm

    @property
    def layer(self) -> ConvShape:
        return self.request.layer

    def __str__(self) -> str:
        return f"{self.spec}; {', '.join(f'{name}={value}' for name, value in self.settings)}"


class Resolution:
    """One pass over the algorithms for a request: each is planned at most once, when its plan is first asked for."""

    def __init__(self, request: Request, tuning: Tuning | None = None):
        """Use resolve(), which has a plan or raises."""
        self.request = request
        self._tuning = tuning
        self._answers: dict[str, Candidate] = {}
        self._measured_settings: Settings = ()

    @functools.cached_property
    def plan(self) -> KernelPlan:
        """The plan that is taken. Raises UnsupportedSpec where there is none, ArgumentError for names and values that
        no algorithm has."""
        request = self.request
        _check_arithmetic(request)
        if self._measured is not None:
            return self._measured
        if request.algorithm != "auto":
            return _plan(_row(request.algorithm), request)
        rows = self._rows
        for wave in ([r for r in rows if not r.by_name], [r for r in rows if r.by_name]):  # by name: last resort
            plans = [(a.estimate, a.plan) for a in map(self._answer, wave) if a.plan is not None]
            if plans:
                return min(plans, key=lambda found: found[0] or 0.0)[1]
        reasons, hint = "; ".join(f"{a.algorithm}: {a.reason}" for a in self.candidates), None
        if request.settings:
            with contextlib.suppress(UnsupportedSpec):
                return _plan(rows[0], request)      # its own words for a value that is none
            reasons = f"of the algorithms that have {', '.join(name for name, _ in request.settings)}, {reasons}"
            hint = "other plan values, or none"
        raise UnsupportedSpec(None, reasons, hint=hint)

    @property
    def tuned(self) -> bool:
        """Whether the plan is a measured choice."""
        return self._measured is not None

    @functools.cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The answer of every algorithm that was asked (all, where none is named), the chosen one first."""
        request, made = self.request, self._measured
        rows = self._rows if request.algorithm == "auto" else [_row(request.algorithm)]
        rest = [self._answer(row) for row in rows if made is None or row.name != made.spec.algorithm]
        rest.sort(key=lambda a: (a.estimate is None, _row(a.algorithm).by_name != "", a.estimate or 0.0))
        if made is None or self._tuning is None:
            return tuple(rest)
        row = _row(made.spec.algorithm)
        try:
            estimate = row.slots(made, request.layer)
        except PlannerError:        # what was measured needs no estimate
            estimate = None
        layer = _tuned_as(request) or request.layer
        chosen = Candidate(algorithm=row.name, summary=row.summary, plan=made, estimate=estimate,
                           reason=self._tuning.origin(layer.without_gaps(), *self._measured_for))
        return chosen, *rest

    @property
    def selection(self) -> Selection:
        """The plan as spec and plan values."""
        made = self.plan
        settings = self.request.settings if self._measured is None else self._measured_settings
        numerics = self.request.numerics
        if numerics is Numerics.TF32 and made.spec.numerics is not Numerics.FLOAT32:    # the algorithm has both
            numerics = made.spec.numerics
        return Selection(spec=made.spec, settings=settings_of(made.settings()),
                         request=replace(self.request, algorithm=made.spec.algorithm, settings=settings,
                                         numerics=numerics))

    @functools.cached_property
    def _rows(self) -> list[Algorithm]:
        """The algorithms that know every plan value that was asked for."""
        names = {name for name, _ in self.request.settings}
        rows = serving(self.request.operation, len(self.request.layer.taps))
        having = [row for row in rows if names <= set(choices(row.options))] if names else rows
        if not having:
            known = (f"{row.name}: {', '.join(choices(row.options))}" for row in rows)
            raise ArgumentError("no algorithm has all these plan values", argument="settings",
                                value=dict(self.request.settings), hint="; ".join(known))
        return having

    @property
    def _measured_for(self) -> tuple[Any, ...]:
        """What a table is asked besides the layer: the arithmetic where it is not the usual."""
        request = self.request
        return (request.target,) if request.numerics is Numerics.FLOAT32 else (request.target, request.numerics)

    def _answer(self, row: Algorithm) -> Candidate:
        if row.name not in self._answers:
            self._answers[row.name] = _candidate(row, self.request)
        return self._answers[row.name]

    @functools.cached_property
    def _measured(self) -> KernelPlan | None:
        """What a table of measured choices has for the layer (arrays with gaps by that without); None where it has
        nothing that can still be made."""
        request = self.request
        if self._tuning is None or not request.by_rule or request.numerics.accumulator is not Accumulator.FLOAT32:
            return None
        layer = _tuned_as(request)
        found = None if layer is None else self._tuning.best(layer.without_gaps(), *self._measured_for)
        if found is None:
            return None
        try:
            row = _row(found[0])
            values = {name: value for name, value in found[1].items() if not (request.epilogue and name in row.follows)}
            self._measured_settings = settings_of(values)
            return _plan(row, replace(request, settings=self._measured_settings))
        except (ArgumentError, UnsupportedSpec):    # by another version, for another epilogue, too large: by rule
            return None


def resolve(request: Request, tuning: Tuning | None = None) -> Resolution:
    """A ``request``'s plan, and how it came to it; what ``tuning`` has measured goes before the rule.

    Returns the Resolution: its ``plan``, ``selection`` and ``candidates``.

    Raises UnsupportedSpec where nothing serves it, ArgumentError for names and values that no algorithm has.
    """
    made = Resolution(request, tuning)
    made.plan       # noqa: B018 - raises where there is none
    return made


def plan(spec: KernelSpec | Selection, settings: Mapping[str, Any] | None = None,
         shape: ConvShape | None = None) -> KernelPlan:
    """The plan of a selection, or of a spec.

    Parameters
    ----------
    spec : Selection or KernelSpec
        What select() gives, or the kernel of a named algorithm, which is planned by the algorithm's defaults.
    settings : mapping of str to number, bool or str, optional
        Plan values over those.
    shape : ConvShape, optional
        The layer, whose sizes make better defaults; a selection's own if None.

    Returns
    -------
    KernelPlan
        What render() and the run time take.

    Raises
    ------
    UnsupportedSpec
        The algorithm does not serve the spec, or not with these plan values.
    ArgumentError, ArgumentTypeError
        Unknown names, and values that cannot be.
    """
    values = dict(settings_of(settings))
    if isinstance(spec, Selection):
        request = spec.request
        return _plan(_row(spec.algorithm), replace(request, layer=shape or request.layer,
                                                   settings=settings_of({**dict(request.settings), **values})))
    if not isinstance(spec, KernelSpec):
        raise ArgumentTypeError("plan takes a KernelSpec or a Selection", argument="spec", value=type(spec).__name__,
                                hint="warpconv.select(shape) makes one; plan_layer(shape) goes all the way")
    row = _row(spec.algorithm)
    if spec.operation is Operation.DATA_GRADIENT and row.operation is Operation.FORWARD:
        return _by_forward_layer(spec, values, shape)
    refusal = row.supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    return row.plan(spec, with_settings(row.defaults(spec, shape), values))


def with_fewer_blocks(made: KernelPlan, leaner: bool = False) -> KernelPlan | None:
    """The plan with as many blocks less beside each other on a multiprocessor as give a thread more registers, or where
    the compiler was told no number as many as the planned registers leave. Where its plan values say no such number, or
    a thread has all that it can have, or ``leaner`` says so: that with its algorithm's leaner values, or None."""
    launches = made.program.launches
    own = [launch for launch in launches if launch.entry == made.spec.name] or launches     # parts are added by others
    warps = max(-(-math.prod(launch.block) // LANES) for launch in own)
    blocks = getattr(made.options, "min_blocks", 1)
    if blocks == DERIVED:
        blocks = resident_blocks(made.spec.hardware, made.cost.registers, warps * LANES) + 1
    fewer = (less for less in range(blocks - 1, 0, -1)
             if thread_registers(warps, less) > thread_registers(warps, blocks))
    least = next(fewer, None)
    forward, options = made.forward or made, None
    if least is None or leaner:
        options = _row(made.spec.algorithm).leaner(forward.spec, forward.options)
    if least is None and options is None:
        return None
    values = {**made.settings(), "min_blocks": least}
    if options is not None:
        values = {name: value for name, value in replace(forward, options=options).settings().items()
                  if value != DERIVED or name != "min_blocks"}
    try:
        return plan(made.spec, values)
    except UnsupportedSpec:
        return None


def _by_forward_layer(spec: KernelSpec, values: Mapping[str, Any], shape: ConvShape | None) -> KernelPlan:
    """A data gradient that is a forward layer of the output's gradient, by that layer's plan."""
    refusal = adjoint.refusal(spec)
    if refusal is None and spec.pitched:
        refusal = "arrays with gaps are not served by gradients, which a call copies them from and to"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    return adjoint.plan_of(spec, plan(adjoint.forward_of(spec), values, shape and adjoint.layer_of(shape)))


def _tuned_as(request: Request) -> ConvShape | None:
    """The layer by which a request is looked for in a table of measured choices, which are of forward layers."""
    layer = request.layer
    if request.operation is Operation.DATA_GRADIENT:
        return None if adjoint.refusal(layer) else adjoint.layer_of(layer)
    return layer if request.operation is Operation.FORWARD else None


def carries_over(measured: ConvShape, shape: ConvShape, arch: Arch | str, algorithm: str,
                 settings: Mapping[str, Any], numerics: Numerics = Numerics.FLOAT32) -> bool:
    """Whether plan values that were chosen for a layer are of use for one that differs from it little (in its border):
    they plan, and the planner's own values are the same for both. Where those differ, the choice was made among others.
    """
    try:
        row, arch = _row(algorithm), Arch.parse(arch)
        own = [row.defaults(_spec(row, Request.of(layer, arch=arch, numerics=numerics)), layer)
               for layer in (measured, shape)]
        _plan(row, Request.of(shape, arch=arch, algorithm=algorithm, settings=settings, numerics=numerics))
    except (ArgumentError, UnsupportedSpec):
        return False
    return bool(own[0] == own[1])


def _candidate(row: Algorithm, request: Request) -> Candidate:
    try:
        _check_arithmetic(request)
        made = _plan(row, request)
        estimate = row.slots(made, request.layer)
        if request.by_rule and made.spec.numerics is Numerics.TF32:
            with contextlib.suppress(UnsupportedSpec):      # what is more exact will do, where it is quicker
                exact = _plan(row, replace(request, numerics=Numerics.FLOAT32))
                slots = row.slots(exact, request.layer)
                if slots * CLEARLY < estimate:
                    made, estimate = exact, slots
    except UnsupportedSpec as error:
        return Candidate(algorithm=row.name, summary=row.summary, plan=None, reason=error.reason)
    except ArgumentError as error:          # a plan value that it has, and does not offer
        return Candidate(algorithm=row.name, summary=row.summary, plan=None, reason=str(error))
    return Candidate(algorithm=row.name, summary=row.summary, plan=made, estimate=estimate,
                     reason=f"about {estimate / 1e6:.3g} million issue slots for a batch of "
                            f"{assumed_batch(request.layer)}" + (f"; {row.by_name}" if row.by_name else ""))


def _plan(row: Algorithm, request: Request) -> KernelPlan:
    """An algorithm's plan, with the request's plan values. Raises UnsupportedSpec, ArgumentError."""
    values = dict(request.settings)
    made = plan(_spec(row, request), values, request.layer)
    refusal = made.program.refusal(request.layer)
    if refusal is not None:
        raise UnsupportedSpec(made.spec, refusal)
    return _within(request.workspace_limit, row, made, request.layer, values)


def _spec(row: Algorithm, request: Request) -> KernelSpec:
    """What the algorithm's kernel for a request is: of the arithmetic that answers it, that which it has."""
    products = adjoint.products_of(request.layer, request.operation)
    return request.spec(row.name, row.numerics_for(request.numerics, request.layer.dtype, products))


def _within(limit: int | None, row: Algorithm, made: KernelPlan, shape: ConvShape,
            settings: Mapping[str, Any]) -> KernelPlan:
    """The plan, or its planner's next lighter one whose workspace is within the limit. Raises UnsupportedSpec."""
    while (reason := made.program.over_limit(shape, limit)) is not None:
        if made.forward is not None:
            raise UnsupportedSpec(made.spec, reason)
        options = row.lighter(made.spec, made.options)
        options = None if options is None else with_settings(options, settings)
        if options in (None, made.options):
            raise UnsupportedSpec(made.spec, reason)
        made = row.plan(made.spec, options)
    return made


def _check_arithmetic(request: Request) -> None:
    """Raises UnsupportedSpec for arithmetic that the layer's elements cannot have."""
    layer, accumulator, precision = request.layer, request.numerics.accumulator, request.numerics.precision
    if precision is not Precision.FLOAT32 and layer.dtype is not DType.FLOAT32:
        raise UnsupportedSpec(None, f"{precision.value} products of {layer.dtype.value} elements (a precision is for "
                              "float32 layers)", hint="leave the precision out: products of shorter elements are exact")
    if accumulator is Accumulator.FLOAT16 and layer.dtype is DType.FLOAT32:
        raise UnsupportedSpec(None, "half arithmetic on float32 elements (it is for float16 and bfloat16 layers)",
                              hint="leave the arithmetic at float32, or convert the arrays")
    if (accumulator is Accumulator.INT32) > layer.w_dtype.is_integer or (
            accumulator is Accumulator.FLOAT16 and layer.dtype.is_integer):
        raise UnsupportedSpec(None, f"{request.numerics.value} arithmetic on {layer.dtype.value} with "
                              f"{layer.w_dtype.value} filters",
                              hint="int32 is for integer filters; leave the arithmetic out")
