"""The plan values of ``taps_mma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED


@dataclass(frozen=True)
class TapsMmaOptions:
    """Plan values. A block makes ``tile_p`` x ``tile_q`` outputs of ``filters`` filters by ``warps`` warps; a warp has
    ``matrices`` times sixteen outputs at a time. Pixels of ``buffers`` tiles are in shared memory at a time.
    ``vector``: 8 where every line of x begins with 16 bytes, 1 where lines may begin anywhere. Outputs are stored
    ``store_vector`` at a time: filters in NHWC, columns in NCHW. ``min_blocks`` of a multiprocessor at a time."""

    tile_p: int = 8
    tile_q: int = 16
    filters: int = 32
    matrices: int = 2
    warps: int = 4
    buffers: int = 2
    vector: int = 1
    store_vector: int = 1
    min_blocks: int = DERIVED

    @property
    def staged(self) -> bool:
        """Outputs go straight to y."""
        return False
