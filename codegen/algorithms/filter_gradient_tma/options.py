"""The plan values of ``filter_gradient_tma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED


@dataclass(frozen=True)
class FilterGradientTmaOptions:
    """A block makes ``filters`` filters x ``columns`` columns (a tap of a channel each), ``pixels`` pixels at a time,
    by ``warps_m`` x ``warps_n`` warps; ``stages`` such tiles lie in shared memory. ``splits`` blocks share the pixels
    of the batch, whose sums a second launch adds in a fixed order; of 1x1 filters one block alone writes the gradient
    itself."""

    filters: int = 128
    columns: int = 128
    pixels: int = 32
    warps_m: int = 2
    warps_n: int = 2
    stages: int = 3
    splits: int = 1
    min_blocks: int = DERIVED
