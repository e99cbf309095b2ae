"""Records of emit, explain and inspect: of one layer, of several plans or devices beside each other, of many layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class EmitRecord:
    """``emit``: the source, its entries, and 32 hex digits of its text."""

    source: str
    entries: tuple[str, ...]
    digest: str
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class CandidateRow:
    """One algorithm's answer for a layer; ``estimate`` is in issue slots, null where it is declined. ``demands``:
    what its plan asks of sizes and addresses beyond the layer's class; empty where nothing. ``workspace_bytes``: most
    bytes of workspace that a call of the layer takes at one time."""

    algorithm: str
    chosen: bool
    estimate: float | None
    reason: str
    summary: str
    plan: str | None
    demands: str
    workspace_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class ExplainRecord:
    """``explain``: every candidate, the chosen one first; ``asked`` is the algorithm that was named, or auto."""

    layer: str
    assumed: tuple[str, ...]
    arch: str
    asked: str
    chosen: str | None
    candidates: tuple[CandidateRow, ...]
    tuning: str
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class PlanValue:
    """A plan value, as set, and what it may be."""

    name: str
    value: Any
    choices: str


@dataclass(frozen=True, kw_only=True)
class LaunchRow:
    """One launch for the layer's sizes; ``shared_bytes`` is dynamic shared memory."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class CompiledRow:
    """What the compiler reported of one entry; bytes per thread, ``shared_bytes`` per block."""

    entry: str
    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class BufferRow:
    """Warp-level accesses of one buffer: requests (instructions of a warp) and the 32-byte sectors they touch."""

    buffer: str
    load_requests: int
    load_sectors: int
    store_requests: int
    store_sectors: int


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """A figure of one unit of the plan's cost: as planned, and as counted."""

    figure: str
    planned: int
    measured: float


@dataclass(frozen=True, kw_only=True)
class MeasuredRecord:
    """The emitted text executed on the CPU device in CHECK mode, for ``layer`` (``reduced`` says how it was cut)."""

    layer: str
    reduced: str | None
    buffers: tuple[BufferRow, ...]
    shuffles: int
    shared_requests: int
    shared_wavefronts: int
    constant_requests: int
    unit: str | None
    units: tuple[UnitRow, ...]
    max_error: float
    worst_ratio: float


@dataclass(frozen=True, kw_only=True)
class InspectRecord:
    """``inspect``: plan, what it demands of sizes and addresses, launch, steps that are a library's, most bytes of
    workspace, planned and measured cost, the compiler's report, and the texts asked for; with ``--source`` FILE of that
    text, of which so many lines are not as emitted (``changed_lines``)."""

    layer: str
    assumed: tuple[str, ...]
    algorithm: str
    arch: str
    plan: str
    demands: str
    values: tuple[PlanValue, ...]
    notes: tuple[str, ...]
    launches: tuple[LaunchRow, ...]
    library: tuple[str, ...]
    workspace_bytes: int
    cost: dict[str, Any]
    measured: MeasuredRecord | None
    measured_reason: str | None
    compiler: str | None
    compiled: tuple[CompiledRow, ...]
    compiled_reason: str | None
    source: str | None
    changed_lines: int | None
    ptx: str | None
    ptx_reason: str | None
    sass: str | None
    sass_reason: str | None
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """The plan of one combination of plan values (``settings``: those asked for), or why there is none."""

    settings: dict[str, str]
    algorithm: str
    plan: str | None
    demands: str
    cost: dict[str, Any] | None
    estimate: float | None
    workspace_bytes: int | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class CompareRecord:
    """``inspect`` and ``explain`` with several values of a plan value: a plan for each combination."""

    layer: str
    assumed: tuple[str, ...]
    arch: str
    plans: tuple[ComparedRow, ...]
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One of several answers: ``name`` is the layer's in its file, ``result`` the record of the verb, or ``reason``
    why there is none."""

    name: str | None
    reason: str | None
    result: Any


@dataclass(frozen=True, kw_only=True)
class ManyRecord:
    """``emit``, ``inspect`` and ``explain`` for a LAYERS file or several architectures."""

    results: tuple[ResultRow, ...]
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class LeftOutRow:
    """A convolution of a model that no kernel serves, and why."""

    node: str
    op: str
    reason: str
