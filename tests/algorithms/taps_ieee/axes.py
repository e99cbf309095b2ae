"""What covers ``taps_ieee`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DENSE_LAYER, LAYOUTS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): filters of every width of a store, and that fill a block or do not; groups in NCHW
CHANNELS = ((3, 64, 1), (1, 33, 1), (4, 24, 1), (2, 6, 1), (5, 20, 1), (12, 32, 1), (3, 36, 1), (16, 16, 4),
            (10, 24, 2), (9, 108, 3))
NAMES = ("columns", "filters", "filter_lanes", "tile_p", "tile_q")
TILES = ((8, 4, 16, 4, 16), (4, 4, 1, 8, 16), (8, 8, 4, 16, 8), (4, 16, 2, 2, 64), (4, 12, 3, 4, 32), (8, 4, 9, 16, 16))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 3), (5, 2), (7, 7), (1, 9), (11, 3)), "channels": CHANNELS, "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "dtype": ("float32",), "layout": LAYOUTS,
    "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)), "tile": TILES, "vector": (1, 4), "store_vector": (1, 2, 4)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16, 31), "w": (1, 8, 11, 12, 18, 20, 22, 24, 33, 64)}


def values(row: Row) -> dict[str, Any]:
    return {**dict(zip(NAMES, row["tile"])), "min_blocks": 1, "vector": row["vector"],
            "store_vector": row["store_vector"]}


def layer(choose: Choose) -> dict[str, Any]:
    """float32, up to twelve channels, of a group in NCHW."""
    channels, layout = choose((1, 2, 3, 3, 4, 5, 8, 12)), choose(LAYOUTS)
    groups = choose((1, 2, 5)) if layout == "NCHW" else 1
    return {"c": groups * channels, "k": groups * choose((4, 5, 8, 17, 32, 64, 70, 96)), "groups": groups,
            "layout": layout, "dtype": "float32"}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    return choose(({}, {}, {}, {**dict(zip(NAMES, choose(TILES))), "min_blocks": 1, "vector": 1, "store_vector": 1}))


def variants() -> Iterable[Row]:
    """Every tile in both layouts, with every way of copying pixels and storing outputs."""
    for i, tile in enumerate(TILES * 2):
        planes = (i + i // len(TILES)) % 2 == 0
        store = (1, 4)[i // 2 % 2] if planes else (4, 4, 2, 1)[i % 4]
        channels = CHANNELS[i % len(CHANNELS)]
        if planes and store < 4:                # whole warps of runs, whose outputs change hands
            columns, filters, lanes, _, tile_q = tile
            tile = columns, filters, lanes, 32 * columns // tile_q, tile_q
        if not planes:
            channels = ((5, 20, 1), (3, 64, 1), (2, 6, 1), (1, 33, 1))[i % 4]
        yield dict(filter=((3, 3), (2, 3), (7, 7), (5, 2))[i % 4], channels=channels, padding=PADDINGS[i % 4],
                   padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype="float32",
                   layout="NCHW" if planes else "NHWC", stride=1 + i % 2, dilation=1 + i // 2 % 2, tile=tile,
                   vector=1 if planes and store == 4 else (4, 1, 1)[i % 3], store_vector=store)


ROWS = {"taps_ieee": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                          arrays=True, typical={**DENSE_LAYER, "c": 3, "layout": "NHWC"})}
