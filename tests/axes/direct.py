"""How the tests cover ``direct``."""

from __future__ import annotations

import itertools
from typing import Any, Iterable, Mapping

from .common import BORDERS, CHANNELS, DTYPES, EPILOGUES, LAYOUTS, PADDINGS, Choose, Row, Rows, k_tile

DIRECT_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (4, 7), (13, 2), (1, 9), (31, 31)), "channels": CHANNELS,
    "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3), (4, 1)),
    "dilation": (1, 2, (3, 1)),
    "dtype": DTYPES, "layout": LAYOUTS,
    "block": ((64, 4), (32, 1), (8, 32), (16, 3), (256, 1)), "k_tile": (1, 2, 3)}


def direct_values(row: Row) -> dict[str, Any]:
    return {"block_size_x": row["block"][0], "block_size_y": row["block"][1], "k_tile": row["k_tile"]}


def direct_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"block_size_x": choose((8, 16, 32, 64, 128)), "block_size_y": choose((4, 5, 8)),
            "k_tile": k_tile(choose, layer)}


def direct_variants() -> Iterable[Row]:
    """Each block, in every type and layout."""
    for i, block in enumerate(DIRECT_AXES["block"]):
        for j, (dtype, layout) in enumerate(itertools.product(DTYPES, LAYOUTS)):
            yield dict(filter=(3, 4), channels=CHANNELS[(i + j) % 8], padding=PADDINGS[i],
                       epilogue=EPILOGUES[(i + j) % 5], stride=((1, 1), (2, 1), (1, 3), (2, 2), (1, 1))[i],
                       dilation=1 + i // 3, dtype=dtype, layout=layout, block=block, k_tile=1)


ROWS = Rows(DIRECT_AXES, direct_values, direct_draw, variants=direct_variants)
