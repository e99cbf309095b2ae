"""The plan values of ``phases_wgmma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass


@dataclass(frozen=True)
class PhasesWgmmaOptions:
    """A tile has ``channels`` channels of ``images`` x ``rows`` x ``columns`` pixels of a phase, of a volume so many of
    an image's planes in place of images; ``stages`` slices of filters, of both factors of such a tile, lie in the
    ring."""

    channels: int = 128
    rows: int = 8
    columns: int = 16
    images: int = 1
    stages: int = 4
