"""Records of models: their layers, where the time goes."""

from __future__ import annotations

from dataclasses import dataclass

from .layers import LeftOutRow


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
