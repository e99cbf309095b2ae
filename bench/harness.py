"""How everything is timed: buffers that rotate, medians, results checked before the first timing."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.plan import KernelPlan, Launch, Program, Repeat, Role
from warpconv.codegen.serialise import plan_identity

from .devices import Call
from .reference import EPSILON, PEER_ERRORS, Reference, WrongResult, reference

ROTATION_BYTES = 256 << 20      # inputs and outputs in use before one comes round again: four times an H200's L2
GRAPH_BELOW_MS = 0.1            # calls shorter than this are replayed as a graph
LONGEST_S = 3.0                 # a launch that takes longer is checked and not timed
SAMPLES = ((5.0, 20), (50.0, 10), (math.inf, 5))    # how often a call is timed that takes up to so many milliseconds

__all__ = ["EPSILON", "PEER_ERRORS", "Layer", "Reference", "Timing", "TooSlow", "WrongResult", "chosen_by",
           "compile_ahead", "first_step", "main_entry", "make_layer", "measure", "reference", "resources", "rotation",
           "run_kernel", "samples", "time_first_step", "tuning_table"]


class TooSlow(Exception):
    """Why a result that is right is not timed."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds a call: median and the 10th and 90th percentile of ``repeats`` samples of ``count`` calls."""

    ms: float
    low: float
    high: float
    repeats: int
    count: int
    method: str

    def fields(self) -> dict[str, Any]:
        return {"ms": self.ms, "ms_low": self.low, "ms_high": self.high, "repeats": self.repeats, "calls": self.count,
                "method": self.method}


def samples(ms: float) -> int:
    """How many samples a call of ``ms`` milliseconds gets."""
    return next(count for most, count in SAMPLES if ms <= most)


def measure(device: Any, calls: Sequence[Call], *, repeats: int = 20, sample_ms: float = 1.0,
            graph: bool = True, written: Any = None) -> Timing:
    """Median time of a call. ``calls`` do the same on different buffers and are gone round.

    Short calls are captured as a CUDA graph where that works (``graph``); all others are queued behind a spinning
    kernel, so that the events enclose nothing but the GPU's work. ``written`` is what the first call writes: a graph
    that does not write it has not captured the calls, and is not used. A call of over ``sample_ms`` is a sample by
    itself; slow ones get fewer (SAMPLES).
    """
    return measure_together(device, [calls], repeats=repeats, sample_ms=sample_ms, graph=graph, written=[written])[0]


def measure_together(device: Any, several: Sequence[Sequence[Call]], *, repeats: int = 20, sample_ms: float = 1.0,
                     graph: bool = True, written: Sequence[Any] | None = None) -> list[Timing]:
    """measure() of several, whose samples are taken in turns: what drifts drifts for all, so that ratios hold."""
    each = [_sampling(device, calls, repeats, sample_ms, graph, out)
            for calls, out in zip(several, written or [None] * len(several))]
    for sampling in each:
        sampling.warm_up(device)
    taken: list[list[float]] = [[] for _ in each]
    for number in range(max((sampling.repeats for sampling in each), default=0)):
        for sampling, times in zip(each, taken):
            if number < sampling.repeats:
                times.append(sampling.take(device, number))
    return [_summary(times, sampling.count, sampling.method) for sampling, times in zip(each, taken)]


@dataclass(frozen=True)
class _Sampling:
    """How the samples of one are taken: ``launches`` of ``calls``, which make ``count`` calls of what is timed."""

    calls: Sequence[Call]
    launches: int
    count: int
    hold_ms: float
    repeats: int
    method: str
    warmed: bool = False

    def warm_up(self, device: Any) -> None:
        if not self.warmed:
            device.sample(self.calls, self.launches, self.hold_ms)

    def take(self, device: Any, number: int) -> float:
        """Milliseconds a call; where a sample is one call, each time the next."""
        calls = self.calls if self.launches > 1 else [self.calls[number % len(self.calls)]]
        return device.sample(calls, self.launches, self.hold_ms) / self.count


def _sampling(device: Any, calls: Sequence[Call], repeats: int, sample_ms: float, graph: bool,
              written: Any) -> _Sampling:
    for call in calls:                              # warm-up: loading, choosing algorithms, filling pools
        call()
    device.synchronize()
    start = time.perf_counter()
    for call in calls:
        call()
    queued_ms = 1e3 * (time.perf_counter() - start) / len(calls)
    device.synchronize()
    whole_ms = 1e3 * (time.perf_counter() - start) / len(calls)
    if whole_ms > sample_ms and not device.trial:
        return _Sampling(calls, 1, 1, 0.05 + 1.2 * queued_ms, samples(whole_ms), "events", warmed=True)
    repeats, sample_ms = (3, 0.0) if device.trial else (repeats, sample_ms)
    start = time.perf_counter()
    for call in calls:
        call()
    host_ms = 1e3 * (time.perf_counter() - start) / len(calls)
    device.synchronize()
    each = min(device.sample(calls, len(calls), 0.5 + 1.2 * host_ms * len(calls)) for _ in range(2)) / len(calls)
    count = len(calls) * max(1, min(math.ceil(sample_ms / (each * len(calls) + 1e-9)), math.ceil(200 / len(calls))))
    repeats = min(repeats, samples(each))
    method = "events"
    if graph and device.can_capture and each < GRAPH_BELOW_MS:
        try:
            replay = device.capture(calls, count)
            _check_replay(device, replay, written)
            return _Sampling([replay], 1, count, 0.05, repeats, "graph")
        except Exception as error:                  # whatever refuses a capture is still timed the other way
            device.synchronize()
            method = f"events (no graph: {type(error).__name__})"
    return _Sampling(calls, count, count, 0.05 + 1.2 * host_ms * count, repeats, method)


def _check_replay(device: Any, replay: Call, written: Any) -> None:
    """Raises WrongResult where a replay leaves ``written`` as it was."""
    if written is None:
        return
    before = device.double(written)
    device.poison(written)
    replay()
    device.synchronize()
    if bool((device.double(written) != before).any()):
        raise WrongResult("the graph does not write the result")


def _summary(times: list[float], count: int, method: str) -> Timing:
    times = sorted(times)
    return Timing(statistics.median(times), times[len(times) // 10], times[-1 - len(times) // 10], len(times), count,
                  method)


def rotation(nbytes: int, most: int = 64) -> int:
    """How many sets of buffers of ``nbytes`` (inputs and outputs) are gone round."""
    return max(1, min(most, math.ceil(ROTATION_BYTES / nbytes)))


@dataclass(frozen=True)
class Layer:
    """A layer's data on the device: ``xs`` and ``ys`` rotate, ``w`` is one filter bank, all random."""

    shape: Any
    xs: tuple[Any, ...]
    ys: tuple[Any, ...]
    w: Any
    reference: Reference


def make_layer(device: Any, shape: Any, seed: int = 1, *, most: int = 64) -> Layer:
    """Random inputs and weights for a layer, poisoned outputs, and the reference of the first input.

    All are of the layer's type, inputs and outputs with axes (N, C, H, W) over memory in the layer's order. ``most``:
    sets of buffers at most.
    """
    nbytes = shape.dtype.itemsize * (math.prod(shape.input_shape) + math.prod(shape.output_shape))
    sets = 1 if device.trial else rotation(nbytes, most)
    xs = tuple(device.random(shape.input_shape, seed + i, shape.dtype, shape.layout) for i in range(sets))
    ys = tuple(device.poisoned(shape.output_shape, shape.dtype, shape.layout) for _ in range(sets))
    w = device.random(shape.weight_shape, seed + 1000, shape.dtype, Layout.NCHW)
    return Layer(shape, xs, ys, w, reference(device, xs[0], w, shape))


def resources(kernel: Any) -> dict[str, Any]:
    """Registers, bytes of local and shared memory, spills of a kernel's main entry; what is not known is left out."""
    entry = main_entry(kernel.program) if getattr(kernel, "program", None) else None
    report = kernel.report.entry(entry) if getattr(kernel, "report", None) and entry else None
    found: dict[str, Any] = {}
    if report is not None:
        found = {"registers": report.registers, "local_bytes": report.stack_bytes, "shared_bytes": report.shared_bytes,
                 "spill_bytes": report.spill_stores + report.spill_loads}
    attributes = getattr(getattr(kernel, "_backend", None), "attributes", None)
    if attributes is not None and entry:
        with contextlib.suppress(WarpconvError):        # then the compiler's report has to do
            loaded = attributes()[entry]
            found.update(registers=loaded.registers, local_bytes=loaded.local_bytes, shared_bytes=loaded.shared_bytes)
    return found


def main_entry(program: Program) -> str:
    """Of several entries the one that makes the output: the last that a call launches with it among its arguments, else
    the last that it launches."""
    flat = [inner for step in program.steps for inner in (step.steps if isinstance(step, Repeat) else (step,))]
    launches = [step for step in flat if isinstance(step, Launch)]
    outputs = {argument.name for argument in program.arguments if argument.role is Role.OUTPUT}
    return next((step.entry for step in reversed(launches) if outputs & set(step.arguments)), launches[-1].entry)


def compile_ahead(device: Any, plans: Iterable[Callable[[], Any]]) -> None:
    """Compile many plans at once into the disk cache; what cannot be planned or compiled is left to its own row."""
    if device.trial:
        return
    from warpconv.runtime.build.pipeline import build

    def planned(plan: Callable[[], Any]) -> Any:
        with contextlib.suppress(WarpconvError):
            return plan()

    def one(plan: Any) -> None:
        with contextlib.suppress(WarpconvError):
            build(plan)

    made = (planned(plan) for plan in plans)
    each = {tuple(sorted(plan_identity(plan).items())): plan for plan in made if plan is not None}
    with ThreadPoolExecutor(min(16, os.cpu_count() or 8)) as pool:
        list(pool.map(one, each.values()))


def tuning_table(device: Any) -> Any:
    """The table of measured choices that a user's call chooses by; None on the host."""
    if device.kind == "host":
        return None
    from warpconv.runtime.tuning import table
    device.synchronize()
    return table(0)


def chosen_by(shape: Any, plan: Any, tuning: Any) -> str:
    """Whether a call's plan came from the table of measured choices, and from where in it, or from the rules."""
    measured = tuning is not None and tuning.best(shape, plan.spec.arch) is not None
    return tuning.origin(shape, plan.spec.arch) if measured else "the planner's rules"


def first_step(plan: KernelPlan) -> KernelPlan | None:
    """The plan of a call's first launch alone (a transform of the input, say), to be timed; None where a call is one
    launch, or does not begin with one. It writes a workspace and no output."""
    steps = plan.program.steps
    if len(steps) == 1 or not isinstance(steps[0], Launch):
        return None
    workspaces = tuple(replace(w, last_step=0) for w in plan.program.workspaces if w.first_step == 0)
    return replace(plan, program=replace(plan.program, steps=steps[:1], workspaces=workspaces))


def time_first_step(device: Any, layer: Layer, plan: KernelPlan, *, graph: bool) -> dict[str, Any]:
    """``first_step`` and its milliseconds; nothing where a call is one launch. ``graph``: whether the whole call was
    captured, as nothing shows here that a capture has the launch."""
    alone = first_step(plan)
    if alone is None:
        return {}
    kernel = device.specialize(layer.shape, alone)
    weight = kernel.prepare(layer.w) if plan.program.preparation is not None else layer.w
    calls = [lambda x=x, y=y: kernel(x, weight, out=y) for x, y in zip(layer.xs, layer.ys)]
    return {"first_step": plan.program.steps[0].entry, "first_step_ms": measure(device, calls, graph=graph).ms}


def run_kernel(device: Any, layer: Layer, plan: Any, *, prepared: bool | None = None) -> dict[str, Any]:
    """Specialise, check and time one plan on a layer. What its plan prepares of a filter is prepared beforehand
    (kernel.prepare), unless ``prepared`` says otherwise. Raises TooSlow after the check of a launch over LONGEST_S."""
    kernel = device.specialize(layer.shape, plan)
    prepare = plan.program.preparation is not None if prepared is None else prepared
    weight = kernel.prepare(layer.w) if prepare else layer.w
    layer.ys[0][...] = float("nan")
    device.synchronize()
    start = time.perf_counter()
    kernel(layer.xs[0], weight, out=layer.ys[0])
    device.synchronize()
    seconds = time.perf_counter() - start
    error = layer.reference.check(device, layer.ys[0], own=True)
    if seconds > LONGEST_S and not device.trial:
        raise TooSlow(f"one launch takes {seconds:.1f} s, and more than {LONGEST_S:.0f} s is not timed")
    calls = [lambda x=x, y=y: kernel(x, weight, out=y) for x, y in zip(layer.xs, layer.ys)]
    return {"error": error, **resources(kernel), **measure(device, calls, written=layer.ys[0]).fields()}
