"""Exact counts of a call by executing the emitted text on the CPU device."""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from bench.devices import HostDevice
from bench.reference import Reference, reference
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.plan import KernelPlan, LibraryCall, Repeat
from warpconv.codegen.render import render
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.devices.cpu.report import LaunchReport, Mode

from .target import Case, data, entries_of, plan_of

NAMES = ("load_requests", "load_sectors", "store_requests", "store_sectors", "shuffles", "shared_requests",
         "shared_wavefronts", "constant_requests")
_OF_WEIGHTS = ("weight_load_requests", "weight_load_sectors")
# Put before a kernel's text, it counts the multiply-adds of each lane; one worker executes it, so no two add at a time.
_FMA_COUNTER = """
extern "C" { __attribute__((visibility("default"))) unsigned long long wc_fmas = 0; }
static inline float wc_counted_fma(float a, float b, float c) { ++wc_fmas; return fmaf(a, b, c); }
#define fmaf wc_counted_fma
#define __fmaf_rn wc_counted_fma
"""
_COUNTER_OF: dict[str, threading.Lock] = defaultdict(threading.Lock)     # equal texts are one file with one counter
_REFERENCES = threading.Lock()


def count_case(case: Case, arch: str) -> dict[str, Any]:
    """Counts of one call of a case's kernel on its layer, with what they are to be divided by. Raises UnsupportedSpec
    where the kernel declines it, WrongResult."""
    shape = case.shape
    plan = plan_of(case.kernel, shape, arch)
    counts: dict[str, Any] = execute(plan, shape, *data(shape))
    if "wc_mma_" in render(plan).text:
        counts["shuffles"] = None           # the CPU device makes matrix instructions of exchanges between lanes
    outputs = shape.n * shape.k * shape.p * shape.q
    return {**counts, "fmas": count_fmas(plan, shape), "outputs": outputs, "algorithm": plan.spec.algorithm,
            "library_steps": sum(isinstance(step, LibraryCall) for step in _flat(plan)), "settings": plan.settings()}


def execute(plan: KernelPlan, shape: ConvShape, x: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """NAMES of one call, summed over its launches (not those of the filter's preparation) and over its buffers, with
    the weights' part as ``weight_*``; of several launches each one's in ``launches``. ``x`` has its axes in the
    layout's order. Raises WrongResult."""
    from warpconv.runtime.devices.cpu import backend
    from warpconv.runtime.call.kernel import Kernel
    loaded, source = backend.load(plan, mode=Mode.CHECK)
    y = Kernel(plan.spec, plan.program, loaded, source=source, plan=plan, padding_value=shape.padding_value)(x, w)
    with _REFERENCES:           # made once, not by every thread
        exact = _reference(shape)
    exact.check(HostDevice(), _channels_second(y, shape), own=True)
    preparation = plan.program.preparation
    reports = loaded.reports[len(entries_of(preparation.steps, shape)) if preparation else 0:]
    launches = [_counts(report, _weights(plan)) for report in reports]
    total: dict[str, Any] = {name: sum(launch[name] for launch in launches) for name in (*NAMES, *_OF_WEIGHTS)}
    if len(launches) > 1:
        entries = entries_of(plan.program.steps, shape)
        total["launches"] = [{"entry": entry, **launch} for entry, launch in zip(entries, launches, strict=True)]
    return total


def _counts(report: LaunchReport, weights: tuple[str, ...]) -> dict[str, int]:
    """One launch's counts, summed over its buffers."""
    found = {name: sum(getattr(counts, name) for counts in report.buffers.values()) for name in NAMES[:4]}
    found |= {name: getattr(report, name) for name in NAMES[4:]}
    return found | {name: sum(getattr(counts, name.removeprefix("weight_")) for buffer, counts in report.buffers.items()
                              if buffer in weights) for name in _OF_WEIGHTS}


def count_fmas(plan: KernelPlan, shape: ConvShape) -> int | None:
    """Multiply-adds of all lanes in one call; None where the kernel has others than those of float32 (half arithmetic,
    matrix instructions), or none of its own."""
    from warpconv.runtime.devices.cpu import backend
    from warpconv.runtime.call.kernel import Kernel
    text = render(plan).text
    if "wc_mma_" in text or "wc_fma_" in text or "fmaf" not in text:
        return None
    with env.scope(cpu_threads=1), _COUNTER_OF[text]:
        loaded, source = backend.load_text(plan.spec, plan.program, _FMA_COUNTER + text, mode=Mode.FAST)
        counter = loaded.compiled.number("wc_fmas")
        counter.value = 0
        Kernel(plan.spec, plan.program, loaded, source=source, plan=plan,
               padding_value=shape.padding_value)(*data(shape))
    return counter.value


class Counting:
    """Tasks by key, run ahead, several at a time; ``of`` waits for one and raises what it raised."""

    def __init__(self, tasks: Mapping[Hashable, Callable[[], dict[str, Any]]]):
        self._pool = ThreadPoolExecutor(env.settings().cpu_threads)
        self._found: Mapping[Hashable, Future] = {key: self._pool.submit(_alone, task) for key, task in tasks.items()}

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)

    def of(self, key: Hashable) -> dict[str, Any]:
        return self._found[key].result()


def _alone(task: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    with env.scope(cpu_threads=1):          # the pool has a thread for each core
        return task()


def _flat(plan: KernelPlan) -> list[Any]:
    return [inner for step in plan.program.steps for inner in (step.steps if isinstance(step, Repeat) else (step,))]


def _weights(plan: KernelPlan) -> tuple[str, ...]:
    preparation = plan.program.preparation
    return ("w", preparation.buffer.name) if preparation is not None and preparation.buffer is not None else ("w",)


def _channels_second(array: np.ndarray, shape: ConvShape) -> np.ndarray:
    return array if shape.layout is Layout.NCHW else array.transpose(0, 3, 1, 2)


@functools.lru_cache(maxsize=32)
def _reference(shape: ConvShape) -> Reference:
    """The exact result for ncu_target's data."""
    x, w = data(shape)
    return reference(HostDevice(), _channels_second(x, shape), w, shape)
