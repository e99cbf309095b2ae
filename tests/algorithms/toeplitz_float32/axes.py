"""What covers ``toeplitz_float32`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DEPTHWISE_LAYER, EPILOGUES, PADDINGS, Choose, Row, Rows

# filters whose rows need 1 to 10 blocks of columns: of an odd and an even number, of one chain and of several
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (9, 9), (5, 2), (2, 11), (11, 13), (1, 19), (17, 3), (3, 25), (4, 31), (2, 34), (1, 70)),
    "channels": ((1, 1, 1), (1, 3, 1), (3, 3, 3), (2, 6, 2), (5, 5, 5)), "padding": PADDINGS, "padding_mode": BORDERS,
    "epilogue": EPILOGUES, "dtype": ("float32",), "numerics": ("fp16x3",), "tiles": (1, 2, 3, 4, 5, 7, 8),
    "warp_columns": (1, 2, 4), "vector": (1, 2, 4), "store_vector": (1, 2), "sub_block_rows": (16, 32, 64),
    "images": (1, 2, 3), "min_blocks": (1, 2)}
NAMES = ("tiles", "warp_columns", "vector", "store_vector", "sub_block_rows", "images", "min_blocks")
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 15, 16, 17, 33, 50), "w": (1, 7, 8, 14, 40, 72, 99, 130)}


def values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in NAMES}


def layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers, all but short filters."""
    channels = choose((1, 1, 2, 3, 5, 8))
    return {"c": channels, "k": channels * choose((1, 1, 1, 2, 3)), "groups": channels, "layout": "NCHW", "stride": 1,
            "dilation": 1, "dtype": "float32", "r": choose((1, 2, 3, 5, 7, 9, 11, 13, 18)),
            "s": choose((2, 3, 5, 7, 9, 11, 13, 16, 17, 21, 25, 31, 40))}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other warps and tiles."""
    return choose(({}, {}, {}, {"store_vector": 1, "vector": 1, "tiles": choose((1, 3, 6, 8)),
                                "warp_columns": choose((1, 2, 3)), "sub_block_rows": 16 * choose((1, 2, 5)),
                                "images": choose((1, 2))}))


def variants() -> Iterable[Row]:
    """Every number of tiles with every width of loads, stores by turns."""
    for i, tiles in enumerate(AXES["tiles"]):
        for j, vector in enumerate(AXES["vector"]):
            yield dict(filter=((3, 9), (2, 13), (4, 25), (1, 31), (2, 35))[(i + j) % 5],
                       channels=AXES["channels"][(i + 2 * j) % 5], padding=((1, 4), (2, 3), ((1, 0), (9, 7)))[j],
                       padding_mode=BORDERS[(i + j) % 6], epilogue=EPILOGUES[(3 * i + j) % len(EPILOGUES)],
                       dtype="float32", numerics="fp16x3", tiles=tiles, warp_columns=(1, 2, 4)[i % 3], vector=vector,
                       store_vector=1 + (i + j) % 2, sub_block_rows=(16, 32, 64)[j], images=1 + j, min_blocks=1 + i % 2)


ROWS = {"toeplitz_float32": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                                 arrays=True, typical={**DEPTHWISE_LAYER, "r": 13, "s": 13, "padding": 6})}
