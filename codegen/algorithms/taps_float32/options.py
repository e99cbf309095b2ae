"""The plan values of ``taps_float32``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.parts.first_layers import Stores


@dataclass(frozen=True)
class TapsFloat32Options:
    """Plan values. A group of four warps makes ``tile_p`` x ``tile_q`` outputs of ``filters`` filters, 64 at a time; a
    block's ``groups`` groups have a tile each, and ``passes`` tiles of filters one after the other. Where factors are
    split, ``shares`` of a tile's filters are multiplied one after the other, by pixels that are loaded once.
    ``buffers`` tiles' pixels are in shared memory in halves at a time. ``copiers`` warps copy a tile's pixels and split
    them, in two ``shifts`` so many every second tile's; ``raws`` tiles of each shift are there as floats before.
    ``vector``: 4 where every line of x begins with 16 bytes, 1 where lines may begin anywhere. Outputs are stored
    ``store_vector`` at a time: filters in NHWC. ``stores``: whether threads store what they have summed, or, in NCHW, a
    group puts ``together`` times 64 outputs of a tile of whole rows together in shared memory and stores a filter at a
    time, whose outputs lie side by side in y."""

    tile_p: int = 8
    tile_q: int = 8
    filters: int = 32
    passes: int = 1
    shares: int = 1
    groups: int = 2
    buffers: int = 3
    raws: int = 2
    copiers: int = 8
    shifts: int = 1
    vector: int = 1
    store_vector: int = 1
    stores: Stores = Stores.DIRECT
    together: int = 1

    @property
    def staged(self) -> bool:
        """Whether outputs are put together in shared memory."""
        return self.stores is Stores.ROWS
