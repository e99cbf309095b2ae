"""Records of build and pack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .layers import LeftOutRow


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
