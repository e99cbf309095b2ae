"""Choosing the algorithm for a layer, and planning it.

The rule: of the algorithms that support the layer, take the one whose planner estimates the fewest warp instructions
for it (loads, shuffles, FMAs and bookkeeping, edges included); at these kernels' arithmetic intensity the issue slots
decide, not the memory. A tuning table, where given, overrules the estimate for the layers it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Protocol

from .algorithms.base import Algorithm
from .arch import Arch, DEFAULT_ARCH
from .errors import UnsupportedSpec
from .options import with_settings
from .plan import KernelPlan
from .registry import ALGORITHMS, algorithm as _row
from .shape import ConvShape
from .spec import Epilogue, KernelSpec


class Tuning(Protocol):
    """A table of measured choices; pure data, loaded by the run time."""

    def best(self, shape: ConvShape, arch: Arch) -> tuple[str, Mapping[str, Any]] | None:
        """Algorithm and plan values measured quickest for the layer, or None where it was not measured."""


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


def plan_layer(shape: ConvShape, *, algorithm: str = "auto", arch: Arch | str = DEFAULT_ARCH,
               epilogue: Iterable[Epilogue] = (), settings: Mapping[str, Any] | None = None,
               tuning: Tuning | None = None) -> KernelPlan:
    """The plan for a layer: select() and the planner in one call.

    Raises UnsupportedSpec where the named algorithm cannot serve it, ArgumentError for unknown names and values.
    """
    settings = dict(settings or {})
    if algorithm == "auto" and not settings and tuning is not None:
        found = tuning.best(shape, Arch.parse(arch))
        if found is not None:
            algorithm, settings = found[0], dict(found[1])
    if algorithm == "auto":
        algorithm = _quickest(explain(shape, arch, epilogue=epilogue)).algorithm
    return _plan(_row(algorithm), shape, Arch.parse(arch), tuple(epilogue), settings)


def select(shape: ConvShape, arch: Arch | str = DEFAULT_ARCH, tuning: Tuning | None = None, *,
           epilogue: Iterable[Epilogue] = ()) -> KernelSpec:
    """The spec of the quickest supported algorithm for a layer, by the rule above."""
    return plan_layer(shape, arch=arch, epilogue=epilogue, tuning=tuning).spec


def plan(spec: KernelSpec, settings: Mapping[str, Any] | None = None, shape: ConvShape | None = None) -> KernelPlan:
    """The plan of a spec: the algorithm's defaults (better where ``shape`` shows the sizes) with ``settings`` over them."""
    row = _row(spec.algorithm)
    refusal = row.supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    return row.plan(spec, with_settings(row.defaults(spec, shape), settings or {}))


def explain(shape: ConvShape, arch: Arch | str = DEFAULT_ARCH, *,
            epilogue: Iterable[Epilogue] = ()) -> tuple[Candidate, ...]:
    """Every algorithm's answer for a layer, the chosen one first."""
    candidates = [_candidate(row, shape, Arch.parse(arch), tuple(epilogue)) for row in ALGORITHMS.values()]
    ranked = sorted(candidates, key=lambda c: (c.estimate is None, c.estimate or 0.0))
    return tuple(ranked)


def _candidate(row: Algorithm, shape: ConvShape, arch: Arch, epilogue: tuple[Epilogue, ...]) -> Candidate:
    try:
        made = _plan(row, shape, arch, epilogue, {})
    except UnsupportedSpec as error:
        return Candidate(algorithm=row.name, summary=row.summary, plan=None, reason=error.reason)
    estimate = row.estimate(made, shape)
    return Candidate(algorithm=row.name, summary=row.summary, plan=made, estimate=estimate,
                     reason=f"about {estimate / 1e6:.3g} million warp instructions for the layer")


def _plan(row: Algorithm, shape: ConvShape, arch: Arch, epilogue: tuple[Epilogue, ...],
          settings: Mapping[str, Any]) -> KernelPlan:
    return plan(KernelSpec.of(shape, algorithm=row.name, arch=arch, epilogue=epilogue), settings, shape)


def _quickest(candidates: tuple[Candidate, ...]) -> Candidate:
    best = candidates[0]
    if best.plan is None:
        raise UnsupportedSpec(None, "; ".join(f"{c.algorithm}: {c.reason}" for c in candidates))
    return best


