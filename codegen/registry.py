"""The algorithms there are. Adding one: its folder here and in templates, and its row."""

from __future__ import annotations

from .algorithm import Algorithm
from .algorithms import (channels, direct, im2col, im2win, implicit_gemm, mma, patch, pixels, reuse, staged, toeplitz,
                         toeplitz_nhwc, wide)
from .algorithms.course import coarsened, constant, halo_cached, im2win_basic, naive, tiled
from .errors import ArgumentError

ALGORITHMS: dict[str, Algorithm] = {row.name: row for row in (
    reuse.ALGORITHM, wide.ALGORITHM, patch.ALGORITHM, pixels.ALGORITHM, staged.ALGORITHM, toeplitz.ALGORITHM,
    toeplitz_nhwc.ALGORITHM, channels.ALGORITHM, mma.ALGORITHM, implicit_gemm.ALGORITHM, im2win.ALGORITHM,
    im2col.ALGORITHM, im2win_basic.ALGORITHM, direct.ALGORITHM, naive.ALGORITHM, constant.ALGORITHM, tiled.ALGORITHM,
    halo_cached.ALGORITHM, coarsened.ALGORITHM)}


def algorithm(name: str) -> Algorithm:
    """The registry's row of that name; ArgumentError if there is none."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise ArgumentError("unknown algorithm", argument="algorithm", value=name,
                            hint=f"one of auto, {', '.join(ALGORITHMS)}") from None
