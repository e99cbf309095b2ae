"""The plan values of ``filter_gradient_wgmma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass



@dataclass(frozen=True)
class FilterGradientWgmmaOptions:
    """A block makes ``filters`` filters x ``columns`` columns (a tap of a channel each), ``pixels`` pixels at a time;
    ``stages`` such tiles lie in shared memory. ``splits`` blocks share the pixels of the batch, whose sums a second
    launch adds in a fixed order."""

    filters: int = 128
    columns: int = 256
    pixels: int = 64
    stages: int = 4
    splits: int = 1
