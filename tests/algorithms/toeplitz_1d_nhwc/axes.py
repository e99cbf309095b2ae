"""What covers ``toeplitz_1d_nhwc`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests import sequences
from tests.axes import BIAS, BORDERS, CLAMP, DEPTHWISE_LAYER, DTYPES, EXPRESSION, RELU, Choose, Row, Rows

EPILOGUES = ((), (BIAS, RELU), (BIAS, CLAMP), (EXPRESSION,))
# filters of 1 to 19 blocks of columns, of an odd and an even number; of one column over images one pixel wide
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (1, 31), (1, 139), (4, 1), (100, 1)),
    "channels": ((8, 8, 8), (16, 16, 16), (24, 24, 24), (40, 40, 40)),
    "padding": ("valid", "causal", "large", ((0, 0), (13, 2))), "padding_mode": BORDERS,
    "epilogue": EPILOGUES, "dtype": DTYPES[1:], "layout": ("NHWC",), "octets": (1, 2, 4, 8), "columns": (8, 32),
    "tiles": (1, 2, 3), "warps": (1, 3, 8), "weights": ("registers", "shared")}
NAMES = ("octets", "columns", "tiles", "warps", "weights")
# sequences around a tile of 128 and of 512 outputs, and of several
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 2, 5), "w": (1, 7, 99, 128, 130, 264, 520, 777)}


def values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in NAMES}


def draw_layer(choose: Choose) -> dict[str, Any]:
    """Depthwise layers in NHWC and 16 bits, of whole 16 bytes a pixel, under filters of one row or one column."""
    channels, taps = choose((8, 8, 16, 24, 40)), choose((1, 2, 3, 4, 5, 7, 9, 13, 21, 31, 40, 63, 90, 128))
    sides = choose(((taps - 1, 0), (0, taps - 1), (taps // 2, taps // 2), (0, 0), (1, 5), (taps + 3, 2)))
    axes: dict[str, Any] = {"r": 1, "s": taps, "padding": ((0, 0), sides)}
    if taps > 1 and choose((False, True)):
        axes = {"r": taps, "s": 1, "padding": (sides, (0, 0))}
    return {"c": channels, "k": channels, "groups": channels, "layout": "NHWC", "stride": 1, "dilation": 1,
            "dtype": choose(DTYPES[1:]), **axes}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other tiles and warps."""
    return choose(({}, {}, {}, {
        "octets": choose((1, 2, 4)), "columns": choose((8, 32)), "tiles": choose((1, 2, 3, 5)),
        "warps": choose((1, 2, 3, 4)), "weights": choose(("registers", "shared"))}))


def variants() -> Iterable[Row]:
    """(Octets of a block, outputs of a tile's rows, tiles) x where the filters are, over rows and columns."""
    kinds = ((1, 8, 3), (1, 32, 2), (2, 8, 1), (2, 32, 2), (4, 8, 2), (4, 32, 1), (8, 8, 1))
    for i, ((octets, columns, tiles), weights) in enumerate(itertools.product(kinds, AXES["weights"])):
        taps = (9, 25, 5, 41)[i // 2 % 4]
        yield dict(filter=((1, taps), (taps, 1))[(i + i // 4) % 2], channels=AXES["channels"][(i + i // 4) % 4],
                   padding=("same", "causal", "large")[i % 3], padding_mode=BORDERS[(i + i // 6) % 6],
                   epilogue=EPILOGUES[(i + i // 4) % 4], dtype=DTYPES[1 + i // 3 % 2], layout="NHWC", octets=octets,
                   columns=columns, tiles=tiles, warps=(1, 3, 8)[i // 2 % 3], weights=weights)


ROWS = {"toeplitz_1d_nhwc": Rows(AXES, values, draw, draw_layer, variants=variants, sizes=SIZES,
                                 image=sequences.image, layer=sequences.layer_of,
                                 usual={"c": 8, "k": 8, "groups": 8, "r": 1, "padding": (0, 1)},
                                 typical={**DEPTHWISE_LAYER, "h": 2048, "w": 1, "r": 31, "s": 1, "padding": (15, 0),
                                          "dtype": "float16", "layout": "NHWC"})}
