"""The plan values of ``phases_mma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED


@dataclass(frozen=True)
class PhasesMmaOptions:
    """A block makes ``tile_m`` pixels of a phase x ``tile_n`` channels, ``tile_k`` products at a time, by ``warps_m`` x
    ``warps_n`` warps; ``stages`` such tiles lie in shared memory."""

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 32
    warps_m: int = 2
    warps_n: int = 2
    stages: int = 3
    min_blocks: int = DERIVED
