"""The plan values of ``grouped``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass


@dataclass(frozen=True)
class GroupedOptions:
    """Plan values. A thread makes ``columns`` outputs, side by side in a row, of ``filters`` filters of a group; a
    block ``tile_p`` x ``tile_q`` outputs of all filters of ``groups_tile`` groups. ``min_blocks`` are on a
    multiprocessor at a time, at least."""

    columns: int = 4
    filters: int = 4
    groups_tile: int = 8
    tile_p: int = 8
    tile_q: int = 16
    min_blocks: int = 1
