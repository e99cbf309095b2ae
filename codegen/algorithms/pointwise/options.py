"""The plan values of ``pointwise``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass


@dataclass(frozen=True)
class PointwiseOptions:
    """Plan values. A tile has ``filters`` filters of an image's pixels, of which each of two groups of four warps has
    64 ``matrices`` times; ``stages`` slices of 32 channels of both lie in the ring."""

    filters: int = 64
    matrices: int = 1
    stages: int = 4
