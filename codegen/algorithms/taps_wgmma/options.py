"""The plan values of ``taps_wgmma``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.parts.first_layers import Stores


class Order(enum.Enum):
    """How groups of warps multiply beside each other, or store where they share out whole rows."""

    FREE = "free"           # each when it can
    TURNS = "turns"         # one after the other


@dataclass(frozen=True)
class TapsWgmmaOptions:
    """Plan values. A block makes ``tile_p`` x ``tile_q`` outputs of ``filters`` filters by ``groups`` groups of four
    warps. Pixels of ``buffers`` tiles are in shared memory at a time. ``order``: whether groups take turns at the
    tensor cores, or where they share out whole rows at storing, so that one stores while another multiplies.
    ``vector``: 8 where every line of x begins with 16 bytes, 1 where lines may begin anywhere. Outputs are stored
    ``store_vector`` at a time: filters in NHWC, columns in NCHW. ``stores``: whether outputs are stored as they are
    summed, or, in NCHW, those of whole rows are put together in shared memory first and stored a filter at a time. With
    an even stride across, the groups then share out a tile's outputs, and each puts ``stage`` of a filter together at a
    time; with an odd one each group has tiles of its own."""

    tile_p: int = 4
    tile_q: int = 64
    filters: int = 32
    groups: int = 2
    buffers: int = 3
    order: Order = Order.FREE
    vector: int = 1
    store_vector: int = 1
    stores: Stores = Stores.DIRECT
    stage: int = 128

    @property
    def staged(self) -> bool:
        """Whether outputs are put together in shared memory."""
        return self.stores is Stores.ROWS
