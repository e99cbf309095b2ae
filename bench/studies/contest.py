"""A layer's contest: every algorithm of the registry, checked and timed on one layer, those that decline it by reason.

The fields of a row are the same in every study that has a contest: ``layer`` in words, ``shape`` (what a ConvShape can
be made of again), ``chosen`` (what select() takes by its estimates), and for each algorithm ``<name>_ms`` with more of
its fields, or ``<name>_reason``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.devices import NoDevice
from bench.harness import Layer, TooSlow, WrongResult, compile_ahead, measure, run_kernel
from bench.report.files import OK, Table
from warpconv.codegen.errors import UnsupportedSpec, WarpconvError
from warpconv.codegen.options import choices
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.resolution import Candidate
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.layers import read_layers

TRIAL_CHANNELS, TRIAL_OUTPUTS = 6, 7        # what is left of a layer where a study is tried out on the host


@dataclass(frozen=True)
class Variant:
    """An algorithm with plan values other than its defaults; ``name`` is its column."""

    name: str
    algorithm: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Entrant:
    """Who takes part in a contest: a plan, or the reason why there is none."""

    name: str
    plan: KernelPlan | None
    reason: str = ""
    estimate: float | None = None


def entrants(shape: ConvShape, arch: Any, variants: Iterable[Variant] = ()) -> list[Entrant]:
    """Every algorithm of the registry by its defaults, select()'s choice first, then the variants."""
    found = [_entrant(candidate) for candidate in explain(shape, arch)]
    return found + [_variant(shape, arch, variant, found) for variant in variants]


def _entrant(candidate: Candidate) -> Entrant:
    reason = candidate.reason if candidate.plan is None else ""
    return Entrant(candidate.algorithm, candidate.plan, reason, candidate.estimate)


def _variant(shape: ConvShape, arch: Any, variant: Variant, others: Iterable[Entrant]) -> Entrant:
    """A variant's plan; the reason where it has none, or is what the algorithm does by itself."""
    if variant.algorithm not in ALGORITHMS:
        return Entrant(variant.name, None, f"there is no algorithm {variant.algorithm}")
    unknown = sorted(set(variant.settings) - set(choices(ALGORITHMS[variant.algorithm].options)))
    if unknown:
        return Entrant(variant.name, None, f"{variant.algorithm} has no plan value {', '.join(unknown)}")
    try:
        plan = plan_layer(shape, algorithm=variant.algorithm, arch=arch, settings=variant.settings)
    except UnsupportedSpec as error:
        return Entrant(variant.name, None, error.reason)
    except WarpconvError as error:
        return Entrant(variant.name, None, str(error).splitlines()[0])
    same = next((e.plan for e in others if e.name == variant.algorithm and e.plan is not None), None)
    if same is not None and same.settings() == plan.settings():
        return Entrant(variant.name, None, f"{SAME_PLAN} {variant.algorithm}")
    return Entrant(variant.name, plan)


SAME_PLAN = "the same plan as"      # how the reason of a variant begins that is what its algorithm does by itself


def complete(row: Mapping[str, Any], field: str = "ms") -> bool:
    """Whether a row tells of every algorithm that there is now, and nothing in it failed."""
    return not row.get("failed") and all(f"{name}_{field}" in row or f"{name}_reason" in row for name in ALGORITHMS)


def prepare(context: Any, shapes: Mapping[str, ConvShape], variants: Iterable[Variant] = (), field: str = "ms") -> None:
    """Forget rows that are not complete, and compile all that the rows still to be measured need, at once."""
    for key in shapes:
        if context.report.done(key) and not complete(context.report.rows[key], field):
            del context.report.rows[key]
    pending = [shape for key, shape in shapes.items() if not context.report.done(key)]
    if not pending or context.device.trial:
        return
    context.say("compiling")
    plans = [e.plan for shape in pending for e in entrants(shape, context.device.arch, variants) if e.plan is not None]
    compile_ahead(context.device, [lambda plan=plan: plan for plan in plans])


def shape_fields(shape: ConvShape) -> dict[str, Any]:
    """What a row says of its layer."""
    return {"layer": str(shape), "shape": encode(shape)}


def shape_of(row: Mapping[str, Any]) -> ConvShape | None:
    """The layer of a row, or None of a row that does not say it."""
    return decode(ConvShape, row["shape"]) if row.get("shape") else None


def hold(context: Any, layer: Layer, *, variants: Iterable[Variant] = (), steps: bool = False) -> dict[str, Any]:
    """A contest's fields; no entrant's failure stops the others, but that of a device that no longer answers.

    ``steps``: plans of several steps, or with a filter transform, have the time of each beside them.
    """
    device, shape = context.device, layer.shape
    taking_part = entrants(shape, device.arch, variants)
    found: dict[str, Any] = {"chosen": taking_part[0].name}
    for entrant in taking_part:
        context.say(f"{entrant.name}: {shape}")
        found |= {f"{entrant.name}_{key}": value for key, value in _measure(device, layer, entrant, steps).items()}
        if entrant.plan is not None:
            device.free()
    found["failed"] = failures(found)
    times = times_of(found)
    quickest = min(times, key=times.get, default=None)
    ratio = times[found["chosen"]] / times[quickest] if found["chosen"] in times else None
    return found | {"quickest": quickest, "ratio": ratio}


def failures(row: Mapping[str, Any]) -> list[str]:
    """Who gave a wrong result or failed, for whatever reason that is not the layer's."""
    return [name.removesuffix("_reason") for name, value in row.items()
            if name.endswith("_reason") and str(value).startswith(("WRONG", "failed"))]


def _measure(device: Any, layer: Layer, entrant: Entrant, steps: bool) -> dict[str, Any]:
    if entrant.plan is None:
        return {"reason": entrant.reason}
    plan = entrant.plan
    described = {"estimate": entrant.estimate, "settings": plan.settings(),
                 "workspace": plan.program.workspace_bytes(layer.shape)}
    try:
        return {**described, **run_kernel(device, layer, plan), **(step_times(device, layer, plan) if steps else {})}
    except Exception as error:
        device.synchronize()        # if the device is lost, the row fails and the study stops
        return {**described, "reason": reason_of(error)}


def reason_of(error: Exception) -> str:
    """Why somebody was not timed, in a line that begins with what kind of reason it is."""
    if isinstance(error, TooSlow):
        return str(error)
    kind = {WrongResult: "WRONG", NoDevice: "missing"}.get(type(error), f"failed: {type(error).__name__}")
    return f"{kind}: {error}".splitlines()[0][:300]


def step_times(device: Any, layer: Layer, plan: KernelPlan) -> dict[str, Any]:
    """``steps``: each step of the plan with its milliseconds, run alone; ``filter``: the filter's transform, a call of
    which no call after it needs. Nothing of a plan with one step and an untransformed filter."""
    program = plan.program
    transforms = program.preparation is not None and bool(program.preparation.steps)
    if len(program.steps) == 1 and not transforms:
        return {}
    kernel = device.specialize(layer.shape, plan)
    numbers = range(len(program.steps)) if len(program.steps) > 1 else ()
    found: dict[str, Any] = {"steps": [{"step": str(program.steps[i]), "ms": _alone(device, layer, kernel, i)}
                                       for i in numbers]}
    if transforms:
        found["filter"] = _alone(device, layer, kernel, None)
    return found


def _alone(device: Any, layer: Layer, kernel: Any, step: int | None) -> float:
    part = kernel.only(step)
    prepare = step is not None and kernel.program is not None and kernel.program.preparation is not None
    weight = part.prepare(layer.w) if prepare else layer.w
    calls = [lambda x=x, y=y: part(x, weight, out=y) for x, y in zip(layer.xs, layer.ys)]
    try:
        return measure(device, calls, graph=False).ms
    finally:
        getattr(getattr(part, "_backend", None), "forget_modules", lambda: None)()


# ---- what is shown

def times_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds by algorithm of the registry, of those that were timed."""
    return {name: row[f"{name}_ms"] for name in ALGORITHMS if row.get(f"{name}_ms") is not None}


def measured(rows: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of layers that were measured."""
    return [row for row in rows.values() if row["status"] == OK and row.get("shape")]


def reasons(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Table:
    """Who was not timed on which layers, and why."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name in names:
            if row.get(f"{name}_reason"):
                grouped.setdefault((name, row[f"{name}_reason"]), []).append(row["name"])
    lines = tuple((name, reason, len(layers), ", ".join(layers)) for (name, reason), layers in grouped.items())
    bad = [f"{row['name']}: {name}" for row in rows for name in row.get("failed", ())]
    return Table("Not timed", ("who", "why", "layers", "which"), lines,
                 f"Wrong or failed: {', '.join(bad)}." if bad else "Nothing was wrong, and nothing failed.")


def mean(values: Iterable[float]) -> float | None:
    """The arithmetic mean, None of no values."""
    values = list(values)
    return sum(values) / len(values) if values else None


def ratios(rows: Iterable[Mapping[str, Any]], name: str, base: Callable[[Mapping[str, Any]], float | None]) \
        -> Iterator[tuple[Mapping[str, Any], float]]:
    """Rows with how many times the baseline's speed ``name`` has, where both were timed."""
    for row in rows:
        ours, theirs = row.get(f"{name}_ms"), base(row)
        if ours is not None and theirs is not None:
            yield row, theirs / ours


def layers_of(context: Any, file: str, quick: Iterable[str]) -> dict[str, ConvShape]:
    """The layers of a shipped file by name: all, or the ``quick`` ones; small ones of their kind on a host."""
    picked = {layer.name: layer.shape for layer in read_layers(file) if not context.quick or layer.name in quick}
    return {name: trial(shape) if context.device.trial else shape for name, shape in picked.items()}


def trial(shape: ConvShape) -> ConvShape:
    """A layer of its kind that a host computes in no time."""
    channels = min(shape.c, TRIAL_CHANNELS) if shape.groups == 1 else shape.c
    size = [min(size, (TRIAL_OUTPUTS - 1) * stride + taps - sum(pads)) for size, stride, taps, pads in
            zip((shape.h, shape.w), shape.stride, (shape.r, shape.s), shape.padding)]
    return replace(shape, n=2, c=channels, k=min(shape.k, TRIAL_CHANNELS) if shape.groups == 1 else shape.k,
                   h=size[0], w=size[1])
