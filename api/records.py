"""What ``--json`` prints: one frozen dataclass per verb, with a ``schema`` that grows when a field changes meaning.

Fields are plain data (text, numbers, lists, objects); a figure that could not be had is null, the reason beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from warpconv.codegen.serialise import encode


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


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A layer of a model: ``seconds`` by the planner's estimate at an H200's rates, or as ``measured``; null with a
    ``reason`` where no kernel serves it. ``kind``, ``sizes`` and ``geometry``: ``shape`` in short."""

    node: str
    name: str
    op: str
    kind: str
    sizes: str
    geometry: str
    shape: str
    epilogue: tuple[str, ...]
    algorithm: str | None
    seconds: float | None
    measured: bool
    floor_seconds: float
    share_of_floor: float | None
    workspace_bytes: int | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ModelKindRow:
    """Layers of one kind by one algorithm, summed."""

    kind: str
    algorithm: str | None
    layers: int
    seconds: float
    floor_seconds: float


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """``explain`` of a model: its layers, their sums, and what of it has no kernel."""

    model: str
    arch: str
    layers: tuple[ModelRow, ...]
    kinds: tuple[ModelKindRow, ...]
    seconds: float
    floor_seconds: float
    workspace_bytes: int
    tuning: str
    left_out: tuple[LeftOutRow, ...]
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """One layer on one architecture: built, up-to-date, declined or failed (``reason`` says why); bytes as reported."""

    name: str
    algorithm: str
    arch: str
    registers: int | None
    spills: int | None
    stack: int | None
    shared: int | None
    bytes: int | None
    status: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class BuildRecord:
    """``build``: where the pack is and its kernels; ``ok`` is false where one failed. ``left_out``: what of a model has
    no kernel."""

    pack: str
    seconds: float
    ok: bool
    kernels: tuple[BuildRow, ...]
    left_out: tuple[LeftOutRow, ...] = ()
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class PackRow:
    """One kernel of a pack: the layers that it was built for and what it serves; ``ptx``: whether it has PTX too;
    ``spills`` and ``bytes`` (of the cubin) in bytes."""

    id: str
    layers: tuple[str, ...]
    layer: str
    algorithm: str
    arch: str
    ptx: bool
    epilogue: tuple[str, ...]
    settings: dict[str, Any]
    registers: int
    spills: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class PackRecord:
    """``pack list``: the kernels, and the version of warpconv that last wrote to the pack."""

    pack: str
    generator: str | None
    kernels: tuple[PackRow, ...]
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class AccuracyRow:
    """Largest difference to the float64 reference; ``worst_ratio`` is the largest error / bound (1 is the limit).

    ``not_finite`` outputs are infinite or no number in the result and in the reference, so they have no difference;
    ``finite_in_one`` outputs are so in only one of the two, which is an error.
    """

    max_error: float
    bound: float
    worst_ratio: float
    within: bool
    not_finite: int = 0
    finite_in_one: int = 0


@dataclass(frozen=True, kw_only=True)
class CountsRecord:
    """What one execution on the CPU device did, as MeasuredRecord has it."""

    buffers: tuple[BufferRow, ...]
    shuffles: int
    shared_requests: int
    shared_wavefronts: int
    constant_requests: int


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """``run``: what ran, where, how long, how exact it was (with --check), and what it did (with --source)."""

    layer: str
    algorithm: str
    device: str
    seconds: float
    output: str
    check: AccuracyRow | None
    counts: CountsRecord | None
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class FilteredRow:
    """One file that ``filter`` wrote; ``kernel`` names the filter, or several that were combined; ``seconds`` are those
    of the call, which may have made other rows too; ``clipped`` is the fraction of values beyond the pixels' range."""

    image: str
    output: str
    kernel: str
    layer: str
    algorithm: str
    device: str
    seconds: float
    clipped: float


@dataclass(frozen=True, kw_only=True)
class FailedRow:
    """A picture that could not be filtered, and why."""

    image: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FilterRecord:
    """``filter``: the files written, the pictures that failed, the contact sheet, and the seconds of it all."""

    border: str
    written: tuple[FilteredRow, ...]
    failed: tuple[FailedRow, ...]
    sheet: str | None
    seconds: float
    schema: int = 2


@dataclass(frozen=True, kw_only=True)
class DemoRow:
    """One layer of the demo; the loads are warp-level requests for the input, counted on a whole plane."""

    name: str
    layer: str
    algorithm: str
    source: str
    seconds: float
    loads_per_32: float | None
    direct_loads_per_32: float | None
    shuffles_per_32: float | None
    unit: str | None
    units: tuple[UnitRow, ...]
    accuracy: AccuracyRow


@dataclass(frozen=True, kw_only=True)
class DemoRecord:
    """``demo``: the layers, and the pictures written; ``counts_reason`` says why counts are missing, if they are."""

    photograph: str
    device: str
    folder: str
    layers: tuple[DemoRow, ...]
    pictures: tuple[str, ...]
    counts_reason: str | None
    seconds: float
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class CacheEntryRow:
    """One entry of the disk cache; ``problem`` is null where it was not checked or nothing is wrong."""

    key: str
    name: str
    bytes: int
    modified: float
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class CacheRecord:
    """``cache list`` and ``cache verify``: the entries; ``cache clear`` and ``cache trim``: how many were
    ``removed``."""

    folder: str
    enabled: bool
    entries: tuple[CacheEntryRow, ...]
    removed: int | None = None
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class ToolRow:
    """A compiler or tool: where it is, its version, or why it cannot be used."""

    name: str
    where: str | None
    version: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class SwitchRow:
    """An environment variable: how it is written, its default, its value now (null: not set)."""

    name: str
    kind: str
    default: str
    value: str | None
    purpose: str


@dataclass(frozen=True, kw_only=True)
class EnvRecord:
    """``env``: this machine as warpconv sees it."""

    warpconv: str
    python: str
    platform: str
    packages: dict[str, str | None]
    tools: tuple[ToolRow, ...]
    gpus: dict[str, Any]
    cache: str
    switches: tuple[SwitchRow, ...]
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class ConfigurationRow:
    """A timed configuration: microseconds a call, the plan values, and the day."""

    algorithm: str
    values: dict[str, Any]
    us: float
    date: str


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """All that a database has of a layer on a device. ``outcomes``: how many configurations of each; ``copy_us``: a
    device copy of the bytes that the layer moves."""

    layer: str
    device: str
    arch: str
    database: str
    outcomes: dict[str, int]
    best: ConfigurationRow | None
    copy_us: float | None


@dataclass(frozen=True, kw_only=True)
class TunedRow:
    """What a session tried (``tried`` by outcome), what it ``skipped`` as known, and what would be chosen by rule."""

    measured: MeasuredRow
    tried: dict[str, int]
    skipped: int
    rule: ConfigurationRow | None


@dataclass(frozen=True, kw_only=True)
class TuneRecord:
    """``tune``: the session's layers."""

    database: str
    layers: tuple[TunedRow, ...]
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class DatabaseRecord:
    """``tune --list`` and ``tune --merge``: what is measured."""

    database: str
    layers: tuple[MeasuredRow, ...]
    schema: int = 1


def to_json(record: Any) -> str:
    """A record as indented JSON text."""
    return json.dumps(encode(record), indent=2, allow_nan=False, default=str)
