"""The plan values of ``taps_ieee``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass


@dataclass(frozen=True)
class TapsIeeeOptions:
    """Plan values. A thread makes ``columns`` outputs, side by side in a row, of ``filters`` filters; ``filter_lanes``
    threads share such a run's filters, and a block's threads make ``tile_p`` x ``tile_q`` outputs. ``min_blocks`` are
    on a multiprocessor at a time, at least. ``vector``: 4 where every line of x begins with 16 bytes, 1 where lines may
    begin anywhere. Outputs are stored ``store_vector`` at a time: filters in NHWC, columns in NCHW."""

    columns: int = 8
    filters: int = 4
    filter_lanes: int = 8
    tile_p: int = 8
    tile_q: int = 16
    min_blocks: int = 1
    vector: int = 1
    store_vector: int = 1
