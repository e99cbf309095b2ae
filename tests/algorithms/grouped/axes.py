"""What covers ``grouped`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DENSE_LAYER, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): loads of four, two and one channels; lanes that share a group's filters
CHANNELS = ((16, 16, 4), (32, 32, 4), (12, 48, 6), (24, 32, 8), (48, 24, 3), (20, 16, 4), (8, 64, 4), (32, 16, 2))
NAMES = ("columns", "filters", "tile_p", "tile_q")
TILES = ((4, 4, 8, 8), (7, 4, 3, 14), (8, 8, 4, 16), (4, 8, 6, 4), (7, 8, 8, 7), (5, 4, 4, 10))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 3), (5, 2), (1, 5), (5, 5)), "channels": CHANNELS, "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "dtype": ("float32",), "layout": ("NHWC",),
    "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)), "tile": TILES, "groups_tile": (1, 2, 3, 4, 8)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16, 31), "w": (1, 7, 12, 20, 33)}


def values(row: Row) -> dict[str, Any]:
    return {**dict(zip(NAMES, row["tile"])), "groups_tile": row["groups_tile"], "min_blocks": 1}


def layer(choose: Choose) -> dict[str, Any]:
    """float32 in NHWC, groups of up to sixteen channels."""
    channels, filters, groups = choose((1, 2, 3, 4, 4, 8, 12, 16)), choose((4, 8, 12, 16)), choose((4, 8, 12))
    return {"c": groups * channels, "k": groups * filters, "groups": groups, "layout": "NHWC", "dtype": "float32"}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    return choose(({}, {}, {}, {**dict(zip(NAMES, choose(TILES))), "groups_tile": choose((2, 4)), "min_blocks": 1}))


def variants() -> Iterable[Row]:
    """Every tile with every way to load channels."""
    made = ((16, 16, 4, 4), (32, 32, 4, 2), (12, 48, 6, 6), (24, 32, 8, 8), (20, 64, 4, 4), (24, 16, 4, 2))
    for i, tile in enumerate(TILES * 2):
        *channels, groups_tile = made[(i + i // len(TILES)) % len(made)]
        columns, filters, tile_p, tile_q = tile
        if channels[1] // channels[2] % filters:
            tile = (columns, 4, tile_p, tile_q)
        yield dict(filter=((3, 3), (2, 3), (5, 5), (5, 2))[i % 4], channels=tuple(channels), padding=PADDINGS[i % 4],
                   padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype="float32",
                   layout="NHWC", stride=1 + i % 2, dilation=1 + i // 2 % 2, tile=tile, groups_tile=groups_tile)


ROWS = {"grouped": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                        arrays=True, typical={**DENSE_LAYER, "c": 64, "k": 64, "groups": 16, "layout": "NHWC"})}
