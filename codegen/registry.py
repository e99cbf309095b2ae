"""The algorithms there are. Adding one: its planner file, its template, its row here."""

from __future__ import annotations

from .algorithms import channels, direct, patch, reuse, staged, toeplitz, toeplitz_nhwc, wide
from .algorithms.base import Algorithm
from .errors import ArgumentError

ALGORITHMS: dict[str, Algorithm] = {row.name: row for row in (
    reuse.ALGORITHM, wide.ALGORITHM, patch.ALGORITHM, staged.ALGORITHM, toeplitz.ALGORITHM, toeplitz_nhwc.ALGORITHM, channels.ALGORITHM,
    direct.ALGORITHM)}


def algorithm(name: str) -> Algorithm:
    """The registry's row of that name; ArgumentError if there is none."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise ArgumentError("unknown algorithm", argument="algorithm", value=name,
                            hint=f"one of auto, {', '.join(ALGORITHMS)}") from None
