"""The plan values of ``filter_gradient``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only


class Form(enum.Enum):
    """Where the sums are."""

    TAPS = "taps"           # of one filter of one channel, in a thread's registers, which are added up at the end
    TILES = "tiles"         # a product of matrices: filters x taps of all channels of a group, over the pixels


class Walk(enum.Enum):
    """How a thread of form taps goes through its outputs."""

    TILE = "tile"           # tiles, all of their rows in the text
    STRIP = "strip"         # columns from top to bottom, in NHWC; each input row is loaded once for all rows of taps


@dataclass(frozen=True)
class FilterGradientOptions:
    """The batch is summed in ``chunks`` shares. ``taps``: a thread sums ``tap_rows`` x ``tap_columns`` taps, over
    ``rows`` x ``columns`` outputs at a time; ``vector`` elements are loaded together: columns in NCHW, in NHWC two
    channels, whose filters are a lane's then. The compiler leaves registers for ``min_blocks`` blocks on a
    multiprocessor (follows from the others if not given; in NCHW with form ``taps`` it is told none then)."""

    form: Form = Form.TAPS
    chunks: int = 1
    walk: Walk = only(Walk.TILE, form=Form.TAPS)
    rows: int = only(4, form=Form.TAPS)
    columns: int = only(2, form=Form.TAPS)
    tap_rows: int = only(1, form=Form.TAPS)
    tap_columns: int = only(1, form=Form.TAPS)
    vector: int = only(1, form=Form.TAPS)
    min_blocks: int = DERIVED
