"""What covers ``taps_float32`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DENSE_LAYER, LAYOUTS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): filters of every width of a store, and that fill a tile or do not
CHANNELS = ((3, 64, 1), (1, 33, 1), (4, 24, 1), (2, 6, 1), (5, 96, 1), (12, 32, 1), (3, 36, 1))
NAMES = ("tile_p", "tile_q", "filters", "passes", "groups", "buffers", "raws", "copiers", "shifts")
IN_SHARES = (48, 64)        # filters of tiles whose split products are made in two shares of them
TILES = ((8, 8, 32, 1, 2, 2, 1, 4, 1), (8, 16, 64, 1, 2, 3, 2, 8, 1), (2, 32, 16, 2, 2, 4, 2, 4, 2),
         (1, 64, 32, 2, 2, 2, 1, 4, 2), (16, 8, 16, 1, 3, 4, 2, 4, 1), (16, 16, 32, 1, 2, 2, 2, 4, 2),
         (4, 16, 48, 2, 2, 3, 1, 8, 1), (8, 8, 16, 4, 2, 2, 1, 4, 2))
WAYS = ("fp16x3", "tf32")
STORES = (("direct", 1), ("rows", 1), ("rows", 2), ("rows", 4))     # and how many times 64 outputs are put together
# Tiles whose rows are put together: of widths and of numbers of outputs that only these have, and others
WHOLE_ROWS = ((8, 24, 32, 1, 2, 2, 1, 4, 1), (4, 48, 24, 2, 2, 4, 2, 4, 1), (8, 40, 48, 1, 2, 3, 2, 8, 1),
              (2, 64, 16, 3, 2, 2, 1, 4, 2), (8, 16, 40, 1, 2, 4, 1, 4, 1), (8, 56, 8, 2, 3, 3, 1, 4, 1),
              (3, 64, 48, 1, 2, 2, 2, 4, 2), (16, 8, 16, 4, 2, 4, 1, 4, 1))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 3), (5, 2), (7, 7), (1, 9), (11, 3)), "channels": CHANNELS, "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "dtype": ("float32",), "numerics": WAYS, "layout": LAYOUTS,
    "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)), "tile": TILES, "vector": (1, 4),
    "store_vector": (1, 2, 4), "stores": STORES[::2]}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16, 31), "w": (1, 8, 12, 18, 20, 22, 33, 64)}


def values(row: Row) -> dict[str, Any]:
    stores, together = row["stores"]
    shares = 2 if row["tile"][2] in IN_SHARES and row["numerics"] == "fp16x3" else 1
    return {**dict(zip(NAMES, row["tile"])), "shares": shares, "vector": row["vector"],
            "store_vector": row["store_vector"], "stores": stores, "together": together}


def layer(choose: Choose) -> dict[str, Any]:
    """float32, up to twelve channels."""
    channels = choose((1, 2, 3, 3, 4, 5, 8, 12))
    return {"c": channels, "k": choose((4, 5, 8, 17, 32, 64, 70, 96)), "groups": 1, "layout": choose(LAYOUTS),
            "dtype": "float32"}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    return choose(({}, {}, {}, {**dict(zip(NAMES, choose(TILES))), "shares": 1, "vector": 1,
                                "store_vector": 1, "stores": "direct", "together": 1}))


def variants() -> Iterable[Row]:
    """Every tile in both layouts, by both ways, with every way of copying pixels and storing
    outputs."""
    for i, tile in enumerate(TILES * 3):
        nhwc = (i + i // len(TILES)) % 2 == 1
        wide = nhwc and tile[2] % 16 == 0 and i % 3 != 0        # four filters of a store
        channels = (3, 64, 1) if wide else CHANNELS[i % len(CHANNELS)]
        yield dict(filter=((3, 3), (2, 3), (7, 7), (5, 2))[i % 4], channels=channels, padding=PADDINGS[i % 4],
                   padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype="float32",
                   numerics=WAYS[i // 2 % 2], layout="NHWC" if nhwc else "NCHW", stride=1 + i % 2,
                   dilation=1 + i // 2 % 2, tile=tile, vector=4 if i % 2 == 0 else 1,
                   store_vector=4 if wide else 1, stores=STORES[0])
    for i, tile in enumerate(WHOLE_ROWS * 2):
        again = i // len(WHOLE_ROWS)
        yield dict(filter=((2, 3), (5, 2), (3, 3), (7, 7))[i % 4], channels=CHANNELS[i % len(CHANNELS)],
                   padding=PADDINGS[(i + again) % 4], padding_mode=BORDERS[i % 6],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype="float32", numerics=WAYS[(i + again) % 2],
                   layout="NCHW", stride=1 + i // 2 % 2, dilation=1 + i // 4 % 2, tile=tile,
                   vector=4 if (i // 2 + again) % 2 == 0 else 1, store_vector=1, stores=STORES[1 + i % 3])


ROWS = {"taps_float32": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                             arrays=True, typical={**DENSE_LAYER, "c": 3, "r": 7, "s": 7, "padding": 3})}
