"""Records of run, filter and demo."""

from __future__ import annotations

from dataclasses import dataclass

from .layers import BufferRow, UnitRow


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
class FilteredInChunksRecord:
    """``filter`` of an image larger than memory: its axes' sizes and type, what it was stored as, in which and how many
    chunks, how many of them a run before had made, and the seconds of it all."""

    image: str
    output: str
    kernel: str
    border: str
    device: str
    shape: tuple[int, ...]
    dtype: str
    stored_as: str
    chunk: tuple[int, ...]
    chunks: int
    resumed: int
    seconds: float
    schema: int = 1


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
