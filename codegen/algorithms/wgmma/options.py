"""The plan values of ``wgmma``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from warpconv.codegen.options import DERIVED, only


class Form(enum.Enum):
    """How pixels come to shared memory."""

    IM2COL = "im2col"       # a slice of one tap a stage, over rows and images
    HALO = "halo"           # one box for all taps of a slice


@dataclass(frozen=True)
class WgmmaOptions:
    """Plan values. A tile has ``filters`` x ``pixels`` outputs; ``stages`` slices lie in the ring; ``splits`` blocks
    share the sums of a tile, added up in a fixed order by a second launch. In the form ``halo`` a tile is ``rows`` x
    ``columns`` outputs of an image, which ``pixels`` columns of the products hold, and ``boxes`` slices of pixels lie
    in a ring of their own. At most ``buffer`` pixels of outputs are stored at a time."""

    form: Form = Form.IM2COL
    filters: int = 128
    pixels: int = 128
    stages: int = 4
    buffer: int = only(DERIVED, form=Form.IM2COL)
    splits: int = only(1, form=Form.IM2COL)
    rows: int = only(1, form=Form.HALO)
    columns: int = only(1, form=Form.HALO)
    boxes: int = only(2, form=Form.HALO)
