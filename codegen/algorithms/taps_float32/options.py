"""The plan values of ``taps_float32``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass


class Stores(enum.Enum):
    """How outputs come to y."""

    DIRECT = "direct"       # from registers
    STAGED = "staged"       # by way of shared memory, from where they are copied by descriptor


@dataclass(frozen=True)
class TapsFloat32Options:
    """Plan values. A block makes ``tile_p`` x ``tile_q`` outputs of ``filters`` filters by ``groups`` groups of four
    warps, each 64 outputs at a time. Steps of the filter, 32 products each, come to ``stages`` places in turn, and
    stay there where it has no more steps. ``vector`` elements of a line of the image are copied at a time, outputs
    stored ``store_vector`` at a time: filters in NHWC. ``stores``: by which way; what is staged is on its way while
    the group multiplies on."""

    tile_p: int = 8
    tile_q: int = 16
    filters: int = 32
    groups: int = 2
    stages: int = 3
    vector: int = 1
    store_vector: int = 1
    stores: Stores = Stores.DIRECT

    @property
    def staged(self) -> bool:
        return self.stores is Stores.STAGED
