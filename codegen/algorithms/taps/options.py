"""The plan values of ``taps``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED


@dataclass(frozen=True)
class TapsOptions:
    """Plan values. A block makes ``tile_p`` x ``tile_q`` outputs of ``tile_filters`` filters of each of ``groups_tile``
    groups, by ``warps`` warps; a warp has ``strips`` strips of 16 outputs (two runs of eight columns) at once, of
    ``warp_groups`` groups. Pixels are copied to one of ``buffers`` places in turn, ``vector`` channels at a time in
    NHWC (1: a cell's one by one, on their way through registers), in NCHW so many columns (through registers); outputs
    are stored ``store_vector`` at a time: filters in NHWC, columns in NCHW. ``joined`` groups of the layer are one of
    these groups: their channels share an instruction, and each has zeros among the others' filters."""

    tile_p: int = 8
    tile_q: int = 32
    tile_filters: int = 64
    groups_tile: int = 1
    warp_groups: int = 1
    strips: int = 2
    warps: int = 8
    buffers: int = 1
    vector: int = DERIVED
    store_vector: int = DERIVED
    min_blocks: int = DERIVED
    joined: int = 1
