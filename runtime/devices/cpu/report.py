"""What goes into a launch on the CPU device and what comes out: plain data."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from warpconv.codegen.classes import dataclass


class Mode(enum.Enum):
    """How a kernel is built: FAST to compute, CHECK to check every access and count them."""

    FAST = "fast"
    CHECK = "check"


@dataclass(frozen=True)
class Buffer:
    """An array that a kernel gets as a pointer, and what the kernel may expect of it and must do with it.

    The kernel sees it as the GPU would: its first byte at a multiple of 256. ``must_be_written``: every element must be
    written by the launch, or of an output with gaps those that ``elements`` marks, and no other.
    ``initialised=False``: an element may be read only after the launch has written it. ``alignment``: bytes that the
    kernel needs the address to be a multiple of.
    """

    name: str
    array: np.ndarray
    writable: bool
    must_be_written: bool = False
    initialised: bool = True
    elements: np.ndarray | None = None
    alignment: int = 16


@dataclass(frozen=True)
class BufferCounts:
    """Warp-level accesses of one buffer: instructions, 32-byte sectors, 128-byte lines, bytes asked for by lanes."""

    load_requests: int = 0
    load_sectors: int = 0
    load_lines: int = 0
    load_bytes: int = 0
    store_requests: int = 0
    store_sectors: int = 0
    store_lines: int = 0
    store_bytes: int = 0

    def __add__(self, other: BufferCounts) -> BufferCounts:
        return BufferCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class LaunchReport:
    """What a launch took; all counts are 0 in FAST mode.

    ``shuffles``: shuffle instructions executed, a warp's being one. ``barriers``: block barriers that a block passed,
    the largest number over the blocks. ``shared_wavefronts``: passes over the 32 banks that the ``shared_requests``
    took. Atomics are in none of the counts.
    """

    seconds: float
    buffers: Mapping[str, BufferCounts]
    shuffles: int = 0
    barriers: int = 0
    shared_requests: int = 0
    shared_wavefronts: int = 0
    constant_requests: int = 0
