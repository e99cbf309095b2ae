"""What a pack is built of: each layer on each architecture, planned, on its way into the pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warpconv.codegen.errors import ArgumentError, ToolNotFound, UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import algorithm as registered
from warpconv.runtime import env
from warpconv.runtime.build import compilers
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.build.pipeline import CudaTarget, cache_key
from warpconv.runtime.layers import NamedLayer, same_kernel

BUILT, UP_TO_DATE, FAILED, DECLINED = "built", "up-to-date", "failed", "declined"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one layer on one architecture. The figures are None where there is no kernel."""

    name: str
    algorithm: str
    arch: str
    status: str                     # built, up-to-date, failed or declined
    registers: int | None = None    # of a thread, the most of the kernel's entries
    spills: int | None = None       # bytes of a thread, stored and loaded
    stack: int | None = None        # bytes of a thread
    shared: int | None = None       # bytes of a block, static and dynamic
    bytes: int | None = None        # of the cubin
    reason: str = ""
    kernel: str | None = None       # its id in the pack


@dataclass
class Task:
    """One layer on one architecture on its way into the pack."""

    layer: NamedLayer
    arch: Arch
    ptx: bool
    asked: Arch                                                 # arch may be a form of it that one chip alone has
    plan: KernelPlan | None = None
    estimate: float = 0.0                                       # of the plan, for this layer
    row: Row | None = None
    keys: tuple[str, ...] = ()                                  # ids that would do, one per compiler
    meta: Mapping[str, Any] | None = field(default=None)        # the manifest's record, once there is a kernel

    def replaces(self, built: str) -> bool:
        """Whether the layer's kernel for this architecture gives way: an older one for the same, or a form of it."""
        other = Arch.read(built)
        return str(self.arch) == built or not self.asked.feature and (
            (other.major, other.minor) == (self.asked.major, self.asked.minor))


def tasks_of(layers: Sequence[NamedLayer], archs: Sequence[Arch | str], ptx: bool,
             settings: env.Settings) -> list[Task]:
    """Every layer on every architecture, planned. Raises ArgumentError."""
    names = [layer.name for layer in layers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError("two layers have one name", argument="layers", value=twice, hint="rename one")
    wanted = dict(_parse_archs(archs, ptx))
    if not layers or not wanted:
        raise ArgumentError("a pack needs at least one layer and one architecture",
                            argument="archs" if layers else "layers", hint="for instance --arch sm_90")
    tasks = [Task(layer, arch, with_ptx, arch) for layer in layers for arch, with_ptx in wanted.items()]
    kinds = _kinds(settings)
    alike: dict[Any, list[Task]] = {}          # layers that differ in their names alone are planned once
    for task in tasks:
        alike.setdefault((same_kernel(task.layer), task.arch), []).append(task)
    twins = {}
    for first, *others in alike.values():
        _plan(first, kinds, settings)
        twins.update((id(task), twin) for task, twin in _shared(first, others, kinds, settings))
    return [each for task in tasks for each in (task, *twins.get(id(task), ()))]


def _shared(first: Task, others: Sequence[Task], kinds: Sequence[CompilerKind],
            settings: env.Settings) -> Iterator[tuple[Task, tuple[Task, ...]]]:
    """Give the others the first one's plan, or its refusal; each task with those that stand beside it."""
    twins = tuple(_portable(first, kinds, settings))
    yield first, twins
    for task in others:
        task.arch, task.plan, task.estimate, task.keys = first.arch, first.plan, first.estimate, first.keys
        task.row = None if first.row is None else replace(first.row, name=task.layer.name)
        yield task, tuple(replace(twin, layer=task.layer) for twin in twins)


def _portable(task: Task, kinds: Sequence[CompilerKind], settings: env.Settings) -> Iterator[Task]:
    """What stands beside a kernel for a form of the architecture that one chip alone has: one that others run, too."""
    made = None if task.plan is None else task.layer.portable_plan(task.arch, task.plan)
    if made is not None:
        twin = Task(task.layer, task.arch, task.ptx, task.asked)
        _take(twin, made, kinds, settings)
        task.arch = task.plan.spec.arch
        yield twin


def _parse_archs(archs: Sequence[Arch | str], ptx: bool) -> Iterator[tuple[Arch, bool]]:
    for arch in ([archs] if isinstance(archs, (str, Arch)) else archs):
        text = str(arch)
        name = text[:-4] if text.upper().endswith("+PTX") else text
        yield Arch.parse(arch if isinstance(arch, Arch) else name, "archs"), ptx or name != text


def _plan(task: Task, kinds: Sequence[CompilerKind], settings: env.Settings) -> None:
    """Plan a task, or decline it with the reason."""
    layer = task.layer
    try:
        _take(task, layer.plan(task.arch), kinds, settings)
    except UnsupportedSpec as error:
        task.row = Row(name=layer.name, algorithm=layer.algorithm, arch=str(task.arch), status=DECLINED,
                       reason=error.reason)
        return
    except ArgumentError as error:
        raise ArgumentError(f"layer {layer.name}: {error.message}", argument=error.argument, value=error.value,
                            hint=error.hint) from error


def _take(task: Task, plan: KernelPlan, kinds: Sequence[CompilerKind], settings: env.Settings) -> None:
    """Raises UnsupportedSpec where there is no estimate."""
    task.plan, task.estimate = plan, registered(plan.spec.algorithm).slots(plan, task.layer.shape)
    task.keys = tuple(cache_key(plan, CudaTarget(kind, task.ptx), settings).directory for kind in kinds)


def _kinds(settings: env.Settings) -> list[CompilerKind]:
    """The compiler whose kernels are up to date; every one's where there is none."""
    try:
        return [compilers.choose(None, settings)]
    except ToolNotFound:
        return list(CompilerKind)
