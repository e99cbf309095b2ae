"""What covers ``pointwise`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import DENSE_LAYER, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): whole slices of channels or not, filters that fill tiles or do not
CHANNELS = ((32, 64, 1), (40, 24, 1), (96, 130, 1), (1, 8, 1), (65, 33, 1), (128, 16, 1), (7, 72, 1))
NAMES = ("filters", "matrices", "stages")
TILES = ((64, 1, 4), (16, 2, 2), (40, 1, 3), (128, 1, 2), (24, 3, 3), (96, 2, 4))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1),), "channels": CHANNELS, "padding": (0,), "padding_mode": ("zeros",), "epilogue": WITH_RESIDUAL,
    "dtype": ("float32",), "numerics": ("tf32",), "layout": ("NCHW",), "stride": (1,), "dilation": (1,), "tile": TILES}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 3, 5, 9, 14), "w": (4, 12, 20, 28)}


def values(row: Row) -> dict[str, Any]:
    return dict(zip(NAMES, row["tile"]))


def layer(choose: Choose) -> dict[str, Any]:
    """float32, any channels and filters; images of other than whole fours of pixels are refused."""
    return {"c": choose((1, 3, 16, 32, 40, 64, 100)), "k": choose((4, 8, 17, 40, 64, 96, 130)), "groups": 1,
            "layout": "NCHW", "dtype": "float32", "r": 1, "s": 1, "stride": (1, 1), "padding": 0, "dilation": (1, 1)}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    return choose(({}, {}, {}, dict(zip(NAMES, choose(TILES)))))


def variants() -> Iterable[Row]:
    """Every tile, over channels and epilogues."""
    for i, tile in enumerate(TILES * 2):
        yield dict(filter=(1, 1), channels=CHANNELS[i % len(CHANNELS)], padding=0, padding_mode="zeros",
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype="float32", numerics="tf32", layout="NCHW",
                   stride=1, dilation=1, tile=tile)


ROWS = {"pointwise": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                          arrays=True, typical={**DENSE_LAYER, "c": 64, "k": 96, "r": 1, "s": 1, "padding": 0})}
