"""What covers ``taps_wgmma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DENSE_LAYER, LAYOUTS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): filters of every width of a store, and that fill a tile or do not
CHANNELS = ((3, 64, 1), (1, 33, 1), (4, 24, 1), (2, 6, 1), (5, 96, 1), (12, 32, 1), (3, 36, 1))
NAMES = ("tile_p", "tile_q", "filters", "groups")
TILES = ((8, 32, 32, 2), (4, 64, 64, 2), (12, 32, 8, 3), (2, 128, 48, 2), (16, 32, 16, 4), (6, 64, 32, 3),
         (8, 64, 96, 2), (32, 16, 32, 4))
FLOWING = ((8, 56, 32, 3), (8, 48, 32, 2))      # groups share out several tiles, runs go on from row to row
# Of rows that are put together: filter, channels, stride, vector and store_vector that go with these tiles, and again
TOGETHER = (
    ((3, 3), (1, 33, 1), 1, 1, 1), ((7, 7), (3, 64, 1), 4, 8, 8), ((2, 3), (5, 96, 1), (1, 3), 8, 2),
    ((5, 2), (3, 36, 1), 2, 1, 2), ((3, 3), (2, 6, 1), (1, 3), 1, 8), ((2, 3), (3, 36, 1), 2, 8, 1),
    ((5, 2), (1, 33, 1), 1, 8, 2), ((7, 7), (2, 6, 1), (1, 3), 1, 1), ((2, 3), (4, 24, 1), 4, 1, 2),
    ((5, 2), (3, 36, 1), 2, 8, 8), ((7, 7), (4, 24, 1), 1, 1, 8), ((3, 3), (5, 96, 1), 4, 8, 1),
    ((5, 2), (3, 64, 1), (1, 3), 8, 1), ((2, 3), (12, 32, 1), 2, 1, 2), ((3, 3), (1, 33, 1), 1, 1, 8),
    ((5, 2), (1, 33, 1), 4, 8, 2))
STAGES = (64, 128, 192, 256, 384, 512)
DTYPES = ("float16", "bfloat16")
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 3), (5, 2), (7, 7), (1, 9), (11, 3), (4, 8)), "channels": CHANNELS,
    "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "dtype": DTYPES, "layout": LAYOUTS,
    "stride": (1, 2, (1, 3), 4, (2, 1)), "dilation": (1, 2, (3, 1)), "tile": (*TILES, *FLOWING), "buffers": (2, 3, 4),
    "order": ("free", "turns"), "vector": (1, 8), "store_vector": (1, 2, 4, 8), "stores": ("direct", "rows"),
    "stage": STAGES}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16, 31),
                              "w": (1, 5, 16, 17, 18, 24, 32, 33, 36, 40, 48, 64)}


def values(row: Row) -> dict[str, Any]:
    """The tile's, and how groups, copies and stores go."""
    beside = ("buffers", "order", "vector", "store_vector", "stores", "stage")
    return {**dict(zip(NAMES, row["tile"])), **{name: row[name] for name in beside}}


def layer(choose: Choose) -> dict[str, Any]:
    """16 bits, up to twelve channels."""
    channels = choose((1, 2, 3, 3, 4, 5, 8, 12))
    return {"c": channels, "k": choose((4, 5, 8, 17, 32, 64, 70, 96)), "groups": 1, "layout": choose(LAYOUTS),
            "dtype": choose(DTYPES)}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    return choose(({}, {}, {}, {**dict(zip(NAMES, choose(TILES))), "buffers": 3, "order": "turns", "vector": 1,
                                "store_vector": 1, "stores": "direct"}))


def variants() -> Iterable[Row]:
    """Every tile in both layouts and types, with every order, every way of copying pixels and storing outputs."""
    for i, tile in enumerate(TILES * 4):
        turn = i // len(TILES)
        nhwc, odd = (i + turn) % 2 == 1, tile[3] % 2 == 1
        if not nhwc:            # sums of even columns and of odd ones, in registers
            tile = (*tile[:2], min(tile[2], 32), min(tile[3], 3) if odd else 2)
        stride = 2 if odd else (1, 2, (1, 3), 4)[(i // 2 + turn) % 4]
        stores = (8, 4, 2, 1)[(i + turn) % 4] if nhwc else 1 if stride == 4 else 2 - turn % 2
        # outputs of neighbouring columns begin at other sides of pairs where C times the stride is odd, which an even
        # number of groups shares out in NHWC
        channels = {8: (3, 64, 1), 4: (4, 24, 1), 2: (2, 6, 1), 1: (1, 33, 1)}[stores] if nhwc else CHANNELS[i % 7]
        while nhwc and tile[2] % (4 * stores):
            stores //= 2
        yield dict(filter=((3, 3), (2, 3), (7, 7), (5, 2))[(i + turn) % 4], channels=channels,
                   padding=PADDINGS[(i + turn) % 4], padding_mode=BORDERS[i % 6],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[turn % 2],
                   layout="NHWC" if nhwc else "NCHW", stride=stride, dilation=1 + (i // 3) % 2, tile=tile,
                   buffers=2 + i % 3, order=("free", "turns")[(i // 2) % 2] if turn % 2 else ("turns", "free")[i % 2],
                   vector=(1, 8)[(i // 2 + turn // 2) % 2], store_vector=stores, stores="direct", stage=128)
    for i, tile in enumerate(FLOWING * 3):
        yield dict(filter=((11, 3), (3, 3), (7, 7))[i // 2], channels=((3, 64, 1), (1, 33, 1))[i % 2],
                   padding=PADDINGS[i % 4], padding_mode=("zeros", "constant")[i // 2 % 2],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[i % 2], layout="NHWC",
                   stride=(4, 2, 2)[i // 2] if i % 2 == 0 else 1, dilation=1, tile=tile, buffers=2 + i // 2,
                   order=("turns", "free")[i // 2 % 2], vector=1, store_vector=8 if i % 2 == 0 else 1,
                   stores="direct", stage=128)
    # spans of an even length, whose last pair may lie behind a line
    for size, layout, vector, channels in (((4, 4), "NHWC", 1, (3, 64, 1)), ((2, 2), "NCHW", 1, (1, 33, 1)),
                                           ((4, 4), "NHWC", 8, (3, 64, 1)), ((2, 2), "NCHW", 8, (1, 33, 1))):
        yield dict(filter=size, channels=channels, padding="valid" if vector == 1 else "same", padding_mode="zeros",
                   epilogue=WITH_RESIDUAL[0], dtype="float16", layout=layout, stride=1, dilation=1, tile=TILES[0],
                   buffers=3, order="turns", vector=vector, store_vector=1, stores="direct", stage=128)
    # tiles that each group has of its own or that they share out, put together and stored in every way
    for i, (tile, (size, channels, stride, vector, store)) in enumerate(zip(TILES * 2, TOGETHER)):
        yield dict(filter=size, channels=channels, padding=PADDINGS[(i + i // 4) % 4], padding_mode=BORDERS[i % 6],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[i // 2 % 2], layout="NCHW",
                   stride=stride, dilation=1 + i // 3 % 2, tile=tile, buffers=max(2, tile[3]),
                   order="turns" if stride in (2, 4) and i % 3 else "free", vector=vector, store_vector=store,
                   stores="rows", stage=STAGES[i % 4])


ROWS = {"taps_wgmma": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                           arrays=True,
                           typical={**DENSE_LAYER, "c": 3, "r": 7, "s": 7, "padding": 3, "dtype": "float16"})}
