"""What covers ``taps`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DENSE_LAYER, DTYPES, LAYOUTS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): every width of a cell and of a copy, filters that fill a tile and that do not, groups side by side
CHANNELS = ((3, 64, 1), (1, 33, 1), (4, 24, 1), (2, 5, 1), (32, 32, 8), (12, 24, 4), (16, 64, 4), (8, 6, 2),
            (24, 72, 6), (16, 16, 2), (64, 64, 4), (64, 32, 2), (24, 40, 2), (30, 24, 3),
            (48, 16, 2), (32, 32, 16), (40, 40, 5))
NAMES = ("tile_p", "tile_q", "tile_filters", "strips", "warps")
TILES = ((8, 16, 8, 2, 4), (4, 32, 32, 2, 2), (8, 32, 64, 4, 4), (1, 32, 24, 2, 1), (2, 16, 16, 2, 3),
         (3, 64, 48, 2, 4), (4, 8, 16, 2, 2), (4, 56, 24, 2, 7), (14, 8, 16, 7, 2),
         (8, 8, 8, 4, 1))
# Of cells of eight channels in NHWC: runs go beyond such tiles
NARROW = ((8, 7, 8, 1, 3), (7, 14, 16, 7, 2), (4, 20, 32, 3, 2), (2, 5, 16, 1, 2))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 3), (5, 2), (7, 7), (1, 9), (11, 3)), "channels": CHANNELS, "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "dtype": DTYPES[1:], "layout": LAYOUTS,
    "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)), "tile": (*TILES, *NARROW), "groups_tile": (1, 2, 4),
    "vector": (0, 1, 2, 4),
    "buffers": (1, 2), "joined": (False, True)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16, 31), "w": (1, 7, 12, 33, 64)}


def values(row: Row) -> dict[str, Any]:
    """Groups side by side, all filters of each in the tile; a warp has as many at once as the planner would take."""
    found = dict(zip(NAMES, row["tile"]))
    channels, filters = (n // row["channels"][2] for n in row["channels"][:2])
    if row.get("joined") and channels == filters in (2, 4):
        found["joined"] = 8 // channels
        channels = filters = 8
    if row["groups_tile"] > 1:
        found["groups_tile"] = row["groups_tile"]
        found["tile_filters"] = -(-filters // 8) * 8
        found["warp_groups"] = row["groups_tile"] if row["layout"] == "NHWC" and filters <= 16 else 1
    else:
        found["groups_tile"] = found["warp_groups"] = 1
    nchw, one_by_one = row["layout"] == "NCHW", row["padding_mode"] not in ("zeros", "constant")
    if row["vector"] == 1 or row["vector"] and nchw and not one_by_one:         # 0: the planner's own
        found["vector"] = row["vector"]     # narrower copies than the channels allow; columns
    copied = row["layout"] == "NHWC" and channels % 4 == 0 and row["padding_mode"] != "constant" and row["vector"] != 1
    return {**found, "buffers": row["buffers"] if copied else 1}


def layer(choose: Choose) -> dict[str, Any]:
    """16 bits, few channels; several in groups."""
    groups = choose((1, 1, 1, 2, 4, 8))
    few = choose((1, 2, 3, 4) if groups == 1 else (2, 3, 4))
    channels, filters = choose((few, few, choose((5, 8, 12, 16, 24, 32)))), choose((1, 2, 4, 5, 8, 17, 24, 40, 70))
    return {"c": groups * channels, "k": groups * filters, "groups": groups, "layout": choose(LAYOUTS),
            "dtype": choose(DTYPES[1:])}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    plain = {"groups_tile": 1, "warp_groups": 1}
    return choose(({}, {}, {}, {**dict(zip(NAMES, choose(TILES))), **plain}))


def variants() -> Iterable[Row]:
    """Every tile in both layouts, whole groups and one, with every way of copying pixels and storing outputs; joined
    groups."""
    for i, tile in enumerate(TILES * 2):
        channels = CHANNELS[i * 7 % len(CHANNELS)]
        layout = "NHWC" if tile[3] % 2 else LAYOUTS[(i + i // len(TILES)) % 2]
        yield dict(filter=((3, 3), (2, 3), (5, 2))[i % 3], channels=channels, padding=PADDINGS[i % 4],
                   padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)],
                   dtype=DTYPES[1 + i % 2], layout=layout, stride=1 + i % 2,
                   dilation=1 + i // 2 % 2, tile=tile, groups_tile=2 if channels[2] > 1 and i % 3 else 1, vector=0,
                   buffers=1 + i // 3 % 2, joined=False)
    for i, tile in enumerate(NARROW * 2):
        yield dict(filter=((3, 3), (2, 3), (5, 2))[i % 3],
                   channels=((16, 16, 2), (64, 64, 4), (48, 16, 2), (64, 32, 2))[i % 4], padding=PADDINGS[i % 4],
                   padding_mode=[b for b in BORDERS if b != "constant"][i % 5],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2], layout="NHWC",
                   stride=1 + i % 2, dilation=1 + i // 2 % 2, tile=tile, groups_tile=1 + (i // 4 + i) % 2, vector=0,
                   buffers=1 + i // 3 % 2, joined=False)
    for i, channels in enumerate(((32, 32, 8), (32, 32, 16)) * 2):
        yield dict(filter=((3, 3), (5, 2))[i // 2], channels=channels, padding=PADDINGS[1 + i % 2],
                   padding_mode=BORDERS[i], epilogue=WITH_RESIDUAL[i], dtype=DTYPES[1 + i % 2], layout="NHWC",
                   stride=1 + i % 2, dilation=1 + i // 3, tile=TILES[i], groups_tile=(1, 2, 4, 4)[i], vector=0,
                   buffers=1 + i % 2, joined=True)


ROWS = {"taps": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                     arrays=True, typical={**DENSE_LAYER, "c": 3, "dtype": "float16"})}
