"""A tuning session: configurations are planned, compiled ahead in batches, checked, timed, and kept one by one."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import (ArgumentError, CompileError, DeviceError, FileError, KernelNotBuilt, ToolNotFound,
                                     UnsupportedSpec, WarpconvError)
from warpconv.codegen.layer import describe_types
from warpconv.codegen.numerics import Numerics, Precision
from warpconv.codegen.registry import ALGORITHMS, VOLUMES
from warpconv.codegen.render import generator_digest, render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, parse_epilogue
from warpconv.codegen.version import VERSION
from warpconv.runtime import env

from . import files
from .clock import CpuClock, Sampled, measure, open_clock, sets_of
from .operands import Judge, Operands
from .records import Database, Name, Origin, Outcome, Subject, Timing, values_of
from .search import STRATEGIES, strategy as strategy_of
from .space import Configuration, Space
from .user import user_file

BATCH_OF_A_JOB = 2          # configurations that each compiling thread makes before they are timed
SAVE_SECONDS = 5.0          # most work that a killed session loses
LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a session is; ``total`` is None where the strategy does not know."""

    stage: str
    tried: int
    total: int | None
    best: Timing | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a session did, and all that is known of the layer now. ``rule``: what would be chosen without the table."""

    subject: Subject
    database: Database
    tried: Mapping[Outcome, int]
    skipped: int
    best: Timing | None
    rule: Timing | None
    copy_us: float | None


def tune(shape: ConvShape, *, device: str = "auto", epilogue: Iterable[Any] = (), algorithms: Sequence[str] = (),
         sets: Mapping[str, str] | None = None, strategy: str = STRATEGIES[0], seed: int = 0,
         budget: float | None = None, configurations: int | None = None, database: Path | None = None,
         again: bool = False, progress: Callable[[State], None] = lambda state: None,
         precision: Precision | str = Precision.FLOAT32) -> Result:
    """Time a layer's configurations on a device and keep every one in the database.

    What the database has of the same emitted text is not timed again. An interruption loses at most some seconds of
    work; the next session goes on where this one stopped.

    Parameters
    ----------
    shape : ConvShape
        The layer, of one floating-point type.
    device : str
        As in conv2d.
    epilogue : iterable of str or Epilogue
        Steps applied to each output.
    algorithms : sequence of str
        Those that are tried; all that serve the layer if empty.
    sets : mapping of str to str, optional
        Plan value -> list of values, as Space.configurations takes it.
    strategy : str
        'sweep' (all, in an order that a seed draws) or 'tpe' (Optuna's).
    seed : int
        Of the order, or of the search.
    budget : float, optional
        Seconds for the session.
    configurations : int, optional
        How many to try in it.
    database : path, optional
        The user's own if None.
    again : bool
        Time what is known, too.
    progress : callable
        Called with a State as the session goes on.
    precision : Precision or str
        As in conv2d; the choice counts for calls with the same.

    Returns
    -------
    Result
        What was done, and all that is known of the layer; times in microseconds.

    Raises
    ------
    UnsupportedSpec
        Nothing serves the layer.
    ArgumentError
        Values that cannot be.
    DeviceError, ToolNotFound, FileError
        The device cannot be used; there is no compiler; the database cannot be read or written.
    """
    for name, value in (("budget", budget), ("configurations", configurations)):
        if value is not None and not value > 0:
            raise ArgumentError("a session needs something to do", argument=name, value=value, hint="more than 0")
    if (folder := env.settings().templates) is not None:
        raise ArgumentError("timings are kept as those of warpconv's own templates", argument="WARPCONV_TEMPLATES",
                            value=str(folder), hint="tune without it")
    if shape.dtype.is_integer or shape.out_dtype is not None:
        raise UnsupportedSpec(None, f"{describe_types(shape)}: layers of one floating-point type are tuned",
                              hint="select() plans the others by rule")
    if shape.separable:
        raise UnsupportedSpec(None, "layers of whole filters are tuned, not separable ones",
                              hint="specialize(shape, settings=...) takes plan values")
    if shape.pitched:
        raise UnsupportedSpec(None, "layers of arrays with gaps are not tuned",
                              hint="tune the layer without: its measured choices are taken for both")
    numerics = Numerics.of(None, precision)
    if numerics is not Numerics.FLOAT32 and shape.dtype is not DType.FLOAT32:
        raise UnsupportedSpec(None, f"{numerics.value} products of {shape.dtype.value} elements",
                              hint="a precision is for float32 layers: leave it out")
    steps = parse_epilogue(epilogue, takes_bias=True)
    path = database or user_file()
    with files.locked(path):                            # a place that cannot be written shows before the first kernel
        known = files.read_or_empty(path)
    from warpconv.runtime.call.conv import resolve_device
    target = resolve_device(device, None, shape)
    clock = open_clock("cpu" if target is None else f"cuda:{target}")
    try:
        return _Session(shape, steps, numerics, clock, path, known, seed, progress).run(
            algorithms, sets, strategy, budget, configurations, again)
    finally:
        clock.close()


class _Session:
    def __init__(self, shape: ConvShape, epilogue: tuple[Epilogue, ...], numerics: Numerics, clock: CpuClock,
                 path: Path, known: Database, seed: int, progress: Callable[[State], None]):
        self._clock, self._path, self._known, self._seed, self._progress = clock, path, known, seed, progress
        self._subject = Subject(device=clock.device, arch=str(clock.arch), shape=shape, epilogue=epilogue,
                                numerics=numerics)
        self._space = Space(shape=shape, arch=clock.arch, epilogue=epilogue, numerics=numerics)
        now = datetime.datetime.now(datetime.timezone.utc)
        self._origin = Origin(device=clock.device, arch=str(clock.arch), warpconv=VERSION,
                              generator="", date=now.strftime("%Y-%m-%d %H:%M"), **clock.versions())
        self._news, self._saved = Database(), time.monotonic()
        self._tried: Counter[Outcome] = Counter()
        self._best: Timing | None = None

    def run(self, algorithms: Sequence[str], sets: Mapping[str, str] | None, strategy: str, budget: float | None,
            most: int | None, again: bool) -> Result:
        found = self._space.configurations(algorithms, sets)
        if all(made.plan is None for made in found):
            raise UnsupportedSpec(None, "; ".join(dict.fromkeys(f"{c.algorithm}: {c.reason}" for c in found)))
        known = {} if again else self._still_good(found)
        self._best = min((t for t in known.values() if t.us is not None), key=lambda t: t.us, default=None)
        search = strategy_of(strategy, self._space, found, {name: t.us for name, t in known.items()}, self._seed)
        total = most if strategy != STRATEGIES[0] else min(len(set(c.name for c in found) - set(known)), most or 10**9)
        deadline = None if budget is None else time.monotonic() + budget
        try:
            bench = _Bench(self._clock, self._subject, self._seed)
            self._note_copy(bench)
        except self._clock.errors as error:
            raise DeviceError(f"the layer's arrays could not be made ({error})", argument="device",
                              value=self._clock.target, hint="a smaller batch tunes the same kernel") from error
        try:
            self._go(search, bench, total, deadline, most)
        finally:
            self._save()
        return self._result(len(known))

    def _go(self, search: Any, bench: _Bench, total: int | None, deadline: float | None, most: int | None) -> None:
        jobs = env.settings().compile_jobs
        left = most if most is not None else 10**9
        pool = ThreadPoolExecutor(jobs)
        try:
            while left > 0 and not _passed(deadline):
                batch = self._ask(search, min(left, BATCH_OF_A_JOB * jobs))
                left -= len(batch)
                # all are compiled before the first is timed: compilers beside a measurement would disturb it
                self._tell("compiling", total)
                faults = list(pool.map(self._build, batch))
                for made, fault in zip(batch, faults):
                    if _passed(deadline):
                        return
                    search.tell(made, self._try(made, fault, bench))
                    self._tell("timing", total)
                    if time.monotonic() - self._saved > SAVE_SECONDS:
                        self._save()
                if not batch:
                    return
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, search: Any, count: int) -> list[Configuration]:
        """Up to ``count`` configurations that have a plan; those that are declined are recorded at once."""
        batch: list[Configuration] = []
        while len(batch) < count and (made := search.ask()) is not None:
            if made.plan is not None:
                batch.append(made)
                continue
            self._note(made, Outcome.DECLINED, reason=made.reason)
            search.tell(made, None)
        return batch

    def _build(self, made: Configuration) -> str | None:
        """Why a configuration does not compile, or None."""
        try:
            self._clock.build(made.plan)
        except CompileError as error:
            return f"{error.message}: {_error_line(error.log)}"
        except (ToolNotFound, KernelNotBuilt, FileError):       # of no use to any other configuration
            raise
        except WarpconvError as error:
            return str(error)
        return None

    def _try(self, made: Configuration, fault: str | None, bench: _Bench) -> float | None:
        """Check and time a compiled configuration; its microseconds, or None where it has none. Raises DeviceError
        where the GPU cannot be used any more."""
        if fault is not None:
            return self._note(made, Outcome.FAILED, reason=fault)
        try:
            measured = bench.measure(made)
        except (WarpconvError, *self._clock.errors) as error:
            self._note(made, Outcome.FAILED, reason=str(error))
            try:
                self._clock.synchronize()
            except self._clock.errors as lost:
                raise DeviceError(f"the GPU gave up on a configuration of {made.algorithm} ({lost}), which is recorded",
                                  argument="device", value=self._clock.target,
                                  hint="the same command again goes on with the next one") from error
            return None
        if isinstance(measured, str):
            return self._note(made, Outcome.WRONG, reason=measured)
        sampled, resources = measured
        return self._note(made, Outcome.TIMED, us=_rounded(sampled.us), low=_rounded(sampled.low),
                          high=_rounded(sampled.high), samples=sampled.samples, **resources)

    def _note(self, made: Configuration, outcome: Outcome, **data: Any) -> float | None:
        if data.get("reason") is not None:
            data["reason"] = " ".join(data["reason"].split())[:LONGEST_REASON]
        origin = replace(self._origin, generator=generator_digest(made.algorithm))
        timing = Timing(algorithm=made.algorithm, values=made.values, outcome=outcome, origin=origin.id,
                        source=render(made.plan).digest if made.plan is not None else None, **data)
        self._news.add(self._subject, timing, origin)
        self._tried[outcome] += 1
        if timing.us is not None and (self._best is None or timing.us < self._best.us):
            self._best = timing
        return timing.us

    def _note_copy(self, bench: _Bench) -> None:
        if self._subject not in self._known.copies:
            self._news.copies[self._subject] = _rounded(bench.copy().us)

    def _still_good(self, found: Sequence[Configuration]) -> dict[Name, Timing]:
        """What the database has of this layer and still holds: made by this very generator, or of the same text."""
        good = {}
        plans = {made.name: made.plan for made in found}
        for name, timing in self._known.of(self._subject).items():
            if (timing.algorithm in (*ALGORITHMS, *VOLUMES)
                    and self._known.origins[timing.origin].generator == generator_digest(timing.algorithm)):
                good[name] = timing
            elif timing.source is not None and plans.get(name) is not None:
                if render(plans[name]).digest == timing.source:
                    good[name] = timing
        return good

    def _save(self) -> None:
        self._saved = time.monotonic()
        if self._news.timings:
            self._known = files.add_to(self._path, self._news)
            self._news = Database()

    def _tell(self, stage: str, total: int | None) -> None:
        self._progress(State(stage=stage, tried=sum(self._tried.values()), total=total, best=self._best))

    def _result(self, skipped: int) -> Result:
        timed = self._known.timed(self._subject)
        ruled = plan_layer(self._subject.shape, arch=self._clock.arch, epilogue=self._subject.epilogue,
                           numerics=self._subject.numerics)
        name = ruled.spec.algorithm, values_of(ruled.settings())
        return Result(subject=self._subject, database=self._known, tried=dict(self._tried), skipped=skipped,
                      best=timed[0] if timed else None, rule=next((t for t in timed if t.name == name), None),
                      copy_us=self._known.copies.get(self._subject))


class _Bench:
    """A layer's arrays on the device: inputs and outputs that rotate, and the judge of all results."""

    def __init__(self, clock: CpuClock, subject: Subject, seed: int):
        operands = Operands.draw(subject.shape, subject.epilogue, seed, subject.numerics)
        sets = range(sets_of(clock, subject.shape.bytes_moved))
        self._clock, self._shape = clock, subject.shape
        self._poison, self._judge = operands.poisoned(), Judge(operands, seed)
        self._xs = [clock.array(operands.x) for _ in sets]
        self._ys = [clock.array(self._poison) for _ in sets]
        self._w = clock.array(operands.w)
        self._bias, self._residual = (None if array is None else clock.array(array)
                                      for array in (operands.bias, operands.residual))

    def measure(self, made: Configuration) -> tuple[Sampled, dict[str, int]] | str:
        """The time and what the kernel takes; or, in words, what is wrong with its result."""
        from warpconv.runtime.call.conv import specialize
        clock, bias, residual = self._clock, self._bias, self._residual
        kernel = specialize(self._shape, plan=made.plan, device=clock.target)
        weight = self._w if made.plan.program.preparation is None else kernel.prepare(self._w)
        clock.fill(self._ys[0], self._poison)
        kernel(self._xs[0], weight, bias, residual=residual, out=self._ys[0])
        clock.synchronize()
        fault = self._judge.fault(clock.host(self._ys[0]))
        if fault is not None:
            return fault
        calls = [lambda x=x, y=y: kernel(x, weight, bias, residual=residual, out=y)
                 for x, y in zip(self._xs, self._ys)]
        return measure(clock, calls), _resources(kernel)

    def copy(self) -> Sampled:
        """A copy of as many bytes as the layer moves at least: half of them read, half written."""
        half = np.zeros(max(1, self._shape.bytes_moved // 2), np.uint8)
        pairs = [(self._clock.array(half), self._clock.array(half)) for _ in self._xs]
        return measure(self._clock, [self._clock.copier(source, target) for source, target in pairs])


def _resources(kernel: Any) -> dict[str, int]:
    """Registers a thread and bytes of spills, where a compiler reported them."""
    report = kernel.report.entry(kernel.program.entries[-1]) if kernel.report is not None else None
    if report is None:
        return {}
    return {"registers": report.registers, "spills": report.spill_stores + report.spill_loads}


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _rounded(us: float) -> float:
    return float(f"{us:.5g}")


def _error_line(log: str) -> str:
    lines = [line for line in log.strip().splitlines() if "error" in line.lower()] or log.strip().splitlines() or [""]
    return lines[0].strip()
