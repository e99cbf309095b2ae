"""The algorithms there are. Adding one: its planner file, its template, its row here."""

from __future__ import annotations

from .algorithms import (channels, coarsened, constant, direct, halo_cached, im2col, im2win, im2win_basic,
                         implicit_gemm, naive, patch, pixels, reuse, staged, tiled, toeplitz, toeplitz_nhwc, wide)
from .algorithms.base import Algorithm
from .errors import ArgumentError

ALGORITHMS: dict[str, Algorithm] = {row.name: row for row in (
    reuse.ALGORITHM, wide.ALGORITHM, patch.ALGORITHM, pixels.ALGORITHM, staged.ALGORITHM, toeplitz.ALGORITHM,
    toeplitz_nhwc.ALGORITHM, channels.ALGORITHM, implicit_gemm.ALGORITHM, im2win.ALGORITHM, im2col.ALGORITHM,
    im2win_basic.ALGORITHM, direct.ALGORITHM, naive.ALGORITHM, constant.ALGORITHM, tiled.ALGORITHM,
    halo_cached.ALGORITHM, coarsened.ALGORITHM)}


def algorithm(name: str) -> Algorithm:
    """The registry's row of that name; ArgumentError if there is none."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise ArgumentError("unknown algorithm", argument="algorithm", value=name,
                            hint=f"one of auto, {', '.join(ALGORITHMS)}") from None
