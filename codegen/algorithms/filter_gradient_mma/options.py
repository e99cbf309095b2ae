"""The plan values of ``filter_gradient_mma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED


@dataclass(frozen=True)
class FilterGradientMmaOptions:
    """A block makes ``tile_m`` filters x ``tile_n`` columns (a tap of a channel each), ``tile_p`` pixels at a time, by
    ``warps_m`` x ``warps_n`` warps; ``stages`` such tiles lie in shared memory. ``splits`` blocks share the pixels of
    the batch, whose sums a second launch adds in a fixed order. Output gradients are copied ``vector_m`` filters at a
    time, windows ``vector_n`` channels. ``joined`` groups of the layer are one to the tiles: of small ones, whose
    products with each other are made and left out."""

    tile_m: int = 128
    tile_n: int = 128
    tile_p: int = 32
    warps_m: int = 2
    warps_n: int = 2
    stages: int = 3
    splits: int = 1
    joined: int = 1
    vector_m: int = DERIVED
    vector_n: int = DERIVED
    min_blocks: int = DERIVED
