"""Records of cache and env."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
