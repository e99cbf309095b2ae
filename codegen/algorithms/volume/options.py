"""The plan values of ``volume``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only


class Form(enum.Enum):
    """How the planes of a volume are walked through."""

    MARCH = "march"     # a block goes down the planes; each is in shared memory once, for all outputs that it meets
    LANES = "lanes"     # the same of depthwise layers whose channels lie side by side: a lane for one or two of them
    LOOPS = "loops"     # every tap of an output loaded by itself: any filter, both layouts


class TapRows(enum.Enum):
    """How a lane goes through the rows of a filter's plane."""

    UNROLLED = "unrolled"   # each row of x is loaded once, for all rows of the filter that meet it
    LOOP = "loop"           # row after row, for each of which x is loaded anew: a short text in few registers


@dataclass(frozen=True)
class VolumeOptions:
    """A thread of ``march`` sums ``rows`` x ``columns`` outputs of ``k_tile`` filters in each plane that is under way;
    a block is ``block_size_x`` x ``block_size_y`` threads (columns x rows), for ``loops`` so many outputs. The depth is
    cut in ``chunks``, each walked by a block of its own. ``stages`` planes are in shared memory or on their way there
    (of other elements than float32 two, and one in registers). ``lanes``: teams of ``block_size_x`` lanes, each of
    ``lane_vector`` channels, with ``rows`` x ``columns`` outputs, to which ``tap_rows`` are added unrolled or in a
    loop; ``block_size_y`` teams. Outputs are stored ``vector``
    columns at a time, the input is copied ``load_vector`` columns at a time. The compiler leaves registers for
    ``min_blocks`` blocks on a multiprocessor (follows from the others if not given)."""

    form: Form = Form.MARCH
    block_size_x: int = 32
    block_size_y: int = 8
    rows: int = only(1, form=(Form.MARCH, Form.LANES))
    columns: int = only(1, form=(Form.MARCH, Form.LANES))
    k_tile: int = only(1, form=Form.MARCH)
    chunks: int = only(1, form=(Form.MARCH, Form.LANES))
    stages: int = only(2, form=Form.MARCH)
    vector: int = only(1, form=Form.MARCH)
    load_vector: int = only(1, form=Form.MARCH)
    lane_vector: int = only(1, form=Form.LANES)
    tap_rows: TapRows = only(TapRows.UNROLLED, form=Form.LANES)
    min_blocks: int = only(DERIVED, form=(Form.MARCH, Form.LANES))
