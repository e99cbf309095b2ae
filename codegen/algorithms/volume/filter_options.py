"""The plan values of ``volume_filter``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only

from .options import Form

WALKS = Form.MARCH, Form.LANES


@dataclass(frozen=True)
class FilterGradientOptions:
    """A thread sums the products of ``tap_planes`` x ``tap_rows`` x ``tap_columns`` taps (of ``march`` all columns),
    the outputs are summed in ``chunks`` shares. ``march``: a block is ``block_size_x`` x ``block_size_y`` threads
    (columns x rows) of ``rows`` x ``columns`` outputs, ``vector`` of which are loaded together; the depth is cut in
    up to ``pieces``, each walked by itself; ``stages`` and ``load_vector`` as of ``volume``. ``lanes``: teams
    of ``block_size_x`` lanes of ``lane_vector`` channels, ``block_size_y`` of them. ``loops``: blocks of
    ``threads``. ``min_blocks`` as of ``volume``."""

    form: Form = Form.MARCH
    tap_planes: int = 1
    tap_rows: int = 1
    tap_columns: int = 1
    chunks: int = 1
    block_size_x: int = only(32, form=WALKS)
    block_size_y: int = only(8, form=WALKS)
    rows: int = only(1, form=WALKS)
    columns: int = only(1, form=WALKS)
    pieces: int = only(1, form=WALKS)
    stages: int = only(2, form=Form.MARCH)
    vector: int = only(1, form=Form.MARCH)
    load_vector: int = only(1, form=Form.MARCH)
    lane_vector: int = only(1, form=Form.LANES)
    threads: int = only(128, form=Form.LOOPS)
    min_blocks: int = DERIVED
