"""The plan values of ``mma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only


@dataclass(frozen=True)
class MmaOptions:
    """Plan values. A block makes ``tile_m`` output pixels x ``tile_n`` filters, ``tile_k`` products at a time, by
    ``warps_m`` x ``warps_n`` warps; ``stages`` such tiles lie in shared memory. ``splits`` blocks share the sums of a
    tile, added up in a fixed order by a second launch; a block makes the tiles of ``groups_tile`` groups, one after the
    other. Pixels are copied ``vector`` channels at a time, outputs stored
    ``store_vector`` at a time."""

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 32
    warps_m: int = 2
    warps_n: int = 4
    stages: int = 4
    splits: int = 1
    groups_tile: int = only(1, splits=1)
    vector: int = DERIVED
    store_vector: int = DERIVED
    min_blocks: int = DERIVED
