"""What covers ``mma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DENSE_LAYER, DTYPES, LAYOUTS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): channels of every width of a copy, filters that fill a tile and that do not, odd ones, groups
CHANNELS = ((16, 24, 1), (3, 33, 1), (64, 70, 1), (6, 5, 1), (20, 32, 1), (40, 130, 1), (32, 48, 4), (8, 8, 2),
            (96, 64, 1))
# (tile_m, tile_n, tile_k, warps_m, warps_n, stages)
# tile_k of 16-bit elements, half as much in float32
TILES = ((64, 64, 32, 2, 2, 4), (128, 128, 64, 2, 2, 3), (64, 64, 64, 1, 2, 2), (128, 64, 32, 4, 1, 5),
         (128, 16, 32, 4, 1, 3), (256, 32, 32, 8, 1, 3), (64, 128, 64, 2, 4, 2), (64, 32, 64, 4, 1, 3))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 3), (5, 2), (7, 7), (1, 9), (3, 2, 3)), "channels": CHANNELS, "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "dtype": DTYPES, "layout": LAYOUTS,
    "numerics": ("float32", "tf32x3", "tf32"),
    "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)), "tile": TILES, "splits": (1, 2, 3), "groups_tile": (1, 2),
    "vector": (0, 1, 2)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16, 31), "w": (1, 7, 12, 33)}


def values(row: Row) -> dict[str, Any]:
    names = ("tile_m", "tile_n", "tile_k", "warps_m", "warps_n", "stages")
    found = {**dict(zip(names, row["tile"])), "splits": row["splits"]}
    if row["dtype"] == "float32":
        found["tile_k"] //= 2
    if row.get("groups_tile", 1) > 1:       # of 16 bits in NHWC, whole sums
        found["groups_tile"] = row["groups_tile"]
    if row["vector"]:           # narrower copies than the channels allow; 0: the planner's own
        found["vector"] = row["vector"]
    return found


def layer(choose: Choose) -> dict[str, Any]:
    """Any channels, and groups of some."""
    groups = choose((1, 1, 1, 2, 4))
    channels, filters = choose((1, 3, 4, 6, 8, 12, 20, 33, 64)), choose((1, 2, 5, 8, 17, 24, 40, 70))
    if groups > 1:
        channels, filters = max(4, channels), max(4, filters)
    return {"c": groups * channels, "k": groups * filters, "groups": groups, "layout": choose(LAYOUTS),
            "dtype": choose(DTYPES)}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile, or a split."""
    names = ("tile_m", "tile_n", "tile_k", "warps_m", "warps_n", "stages")
    tile = dict(zip(names, choose(TILES)))
    if layer["dtype"] == "float32":
        tile["tile_k"] //= 2
    return choose(({}, {}, {}, tile))


def variants() -> Iterable[Row]:
    """Every tile, each with the reduction whole and split, with every way of copying pixels and storing outputs; where
    a thread would hold too many windows, with copies of 16 bytes. Float32 by one kernel after the other."""
    wide_channels = [channels for channels in CHANNELS if channels[0] // channels[2] % 8 == 0]
    for i, tile in enumerate(TILES * 2):
        deep = tile[2] == 64
        yield dict(filter=((3, 3), (2, 3), (1, 1))[i % 3], channels=(wide_channels if deep else CHANNELS)[
                       i % len(wide_channels if deep else CHANNELS)],
                   padding=PADDINGS[i % 4], padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)],
                   dtype=DTYPES[1 + i % 2], layout=LAYOUTS[i % 3 % 2], stride=1 + i % 2,
                   dilation=1 + i // 2 % 2, tile=tile, splits=1 + i // len(TILES) if i % 3 < 2 else 1,
                   numerics="float32", vector=0 if deep else (0, 1)[i // 2 % 2])
    for i, tile in enumerate(TILES):            # 1x1 in NCHW, straight from x
        yield dict(filter=(1, 1), channels=CHANNELS[i if i < 7 else 8], padding=0, padding_mode="zeros",
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2], layout="NCHW", stride=1,
                   dilation=1, tile=tile, splits=2 if tile[0] // tile[3] % 32 else 1, numerics="float32", vector=0)
    for i, tile in enumerate(TILES[3:8]):       # several groups of a block
        yield dict(filter=((3, 3), (1, 1), (2, 3))[i % 3], channels=((32, 48, 4), (8, 8, 2), (64, 64, 8))[i % 3],
                   padding=PADDINGS[i % 4], padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[-1 - i],
                   dtype=DTYPES[1 + i % 2], layout="NHWC", stride=1 + i % 2, dilation=1 + i // 2 % 2, tile=tile,
                   splits=1, numerics="float32", vector=0, groups_tile=(2, 2, 4)[i % 3])
    for i, (tile, channels) in enumerate(zip(TILES, (0, 2, 8, 4, 1, 5))):       # volumes, by way of NHWC, too
        yield dict(filter=(3, 2, 3), channels=CHANNELS[channels], padding=PADDINGS[i % 4], padding_mode=BORDERS[i % 6],
                   epilogue=WITH_RESIDUAL[i], dtype=DTYPES[i % 3], layout=LAYOUTS[i % 2], stride=1 + i % 2,
                   dilation=1 + i // 2 % 2, tile=tile, splits=1 + i % 2,
                   numerics="float32" if i % 3 else "tf32x3", vector=0)
    for i, tile in enumerate(TILES[:1] + TILES[2:]):
        yield dict(filter=((3, 3), (1, 1), (2, 3))[i % 3],
                   channels=wide_channels[i % len(wide_channels)] if tile[2] == 64 else CHANNELS[i],
                   padding=PADDINGS[i % 4], padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)],
                   dtype="float32", numerics=("tf32x3", "tf32")[i % 3 == 2], layout=LAYOUTS[i % 2], stride=1 + i % 2,
                   dilation=1 + i // 2 % 2, tile=tile, splits=1 + i % 2, vector=0)


ROWS = {"mma": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                    arrays=True, typical={**DENSE_LAYER, "dtype": "float16", "layout": "NHWC"})}
