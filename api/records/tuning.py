"""Records of tune."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
