"""What covers ``toeplitz_1d`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests import sequences
from tests.axes import BIAS, BORDERS, CLAMP, DEPTHWISE_LAYER, DTYPES, EXPRESSION, RELU, Choose, Row, Rows

EPILOGUES = ((), (BIAS,), (BIAS, RELU), (BIAS, CLAMP), (EXPRESSION,))
# filters of 1 to 19 blocks of columns, of an odd and an even number
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (1, 4), (1, 9), (1, 16), (1, 31), (1, 100), (1, 139)),
    "channels": ((1, 1, 1), (1, 3, 1), (2, 6, 2), (5, 5, 5)),
    "padding": ("valid", "same", "causal", "large", ((0, 0), (13, 2))), "padding_mode": BORDERS,
    "epilogue": EPILOGUES, "dtype": DTYPES[1:], "columns": (8, 32), "warps": (1, 2, 3, 4), "tiles": (1, 2, 3, 8),
    "sequences": (1, 2, 4), "vector": (1, 2, 4, 8), "store_vector": (1, 2, 8), "weights": ("registers", "shared"),
    "min_blocks": (1, 2)}
NAMES = ("columns", "warps", "tiles", "sequences", "vector", "store_vector", "weights", "min_blocks")
# sequences around a tile of 128 and of 512 outputs, and of several
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 2, 5), "w": (1, 7, 32, 99, 128, 130, 140, 264, 520, 777, 1160)}


def values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in NAMES}


def draw_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers of filters of one row in 16 bits."""
    channels, taps = choose((1, 1, 2, 3, 5, 8, 17)), choose((1, 2, 3, 4, 5, 7, 9, 13, 21, 31, 40, 63, 90, 128))
    sides = choose(((taps - 1, 0), (0, taps - 1), (taps // 2, taps // 2), (0, 0), (1, 5), (taps + 3, 2)))
    return {"c": channels, "k": channels * choose((1, 1, 1, 2, 3)), "groups": channels, "layout": "NCHW", "stride": 1,
            "dilation": 1, "dtype": choose(DTYPES[1:]), "r": 1, "s": taps, "padding": ((0, 0), sides)}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other tiles and warps."""
    return choose(({}, {}, {}, {
        "columns": choose((8, 32)), "warps": choose((1, 2, 3, 4)), "tiles": choose((1, 2, 3, 5)),
        "sequences": choose((1, 2, 3)), "vector": 1, "store_vector": 1, "weights": choose(("registers", "shared"))}))


def variants() -> Iterable[Row]:
    """(Columns, width of the stores) x width of the copies."""
    kinds = ((8, 1), (8, 2), (32, 1), (32, 2), (32, 8))
    for i, ((columns, store_vector), vector) in enumerate(itertools.product(kinds, AXES["vector"])):
        taps = (9, 25, 5, 41)[i % 4]        # as many outputs as elements, with both paddings
        yield dict(filter=(1, taps), channels=((1, 1, 1), (3, 3, 3), (2, 6, 2))[i // 2 % 3],
                   padding=("same", "causal")[i // 3 % 2] if store_vector > 1 else "large",
                   padding_mode=BORDERS[(i + i // 6) % 6], epilogue=EPILOGUES[i % 5], dtype=DTYPES[1 + i % 2],
                   columns=columns, warps=1 + i // 2 % 3, tiles=(1, 2, 3)[i // 4 % 3], sequences=(1, 2, 4)[i % 3],
                   vector=vector, store_vector=store_vector, weights=("registers", "shared")[i // 2 % 2], min_blocks=1)


ROWS = {"toeplitz_1d": Rows(AXES, values, draw, draw_layer, variants=variants, sizes=SIZES, layer=sequences.layer_of,
                            usual={"c": 8, "k": 8, "groups": 8, "r": 1, "padding": (0, 1)},
                            typical={**DEPTHWISE_LAYER, "h": 1, "w": 2048, "r": 1, "s": 31, "padding": (0, 15),
                                     "dtype": "float16"})}
