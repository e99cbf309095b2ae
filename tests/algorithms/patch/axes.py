"""What covers ``patch`` in the tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DEPTHWISE_LAYER, DTYPES, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

PATCH_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (7, 7), (2, 6), (6, 1), (1, 17), (9, 9), (13, 13), (4, 31), (17, 3)),
    "channels": ((1, 1, 1), (1, 3, 1), (3, 3, 3), (5, 5, 5), (2, 6, 2)), "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL,
    "stride": (1, 2, (1, 2), (2, 1), 3), "dilation": (1, 2, (2, 1)), "dtype": DTYPES, "columns": (1, 3, 4, 6, 12),
    "row_lanes": (1, 2, 3, 8), "rows": (1, 5, 16, 33), "planes": (1, 2, 3), "height": (14, 33, 4096), "vector": (1, 4),
    "store_vector": (1, 2, 4)}


def patch_values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("columns", "row_lanes", "rows", "planes", "height", "vector", "store_vector")}


def patch_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers, mostly with large filters."""
    groups = choose((1, 1, 2, 3, 5, 8))
    return {"c": groups, "k": groups * choose((1, 1, 1, 2, 3)), "groups": groups, "layout": "NCHW",
            "r": choose((1, 3, 4, 5, 7, 9, 11, 13, 17)), "s": choose((1, 3, 4, 5, 7, 9, 12, 13, 21)),
            "dtype": choose(DTYPES)}


def patch_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other lanes and tiles."""
    return choose(({}, {}, {"columns": choose((1, 2, 5, 8, 12)), "row_lanes": choose((1, 2, 3, 4)), "vector": 1,
                            "store_vector": 1, "rows": choose((1, 3, 8, 14)), "planes": choose((1, 2)),
                            "height": 4096}))


def patch_variants() -> Iterable[Row]:
    """Reads of one, two and four floats x planes side by side x whole planes and parts of them, in every type."""
    kinds = itertools.product((3, 6, 8), (1, 3), (33, 4096))
    for i, (columns, planes, height) in enumerate(kinds):
        padding = ("same", ((2, 0), (1, 3)), "large")[i // 3 % 3]
        yield dict(filter=((3, 3), (5, 4), (2, 7))[i % 3], channels=((1, 1, 1), (3, 3, 3), (2, 6, 2))[i // 2 % 3],
                   padding=padding, padding_mode=BORDERS[i % 6], epilogue=WITH_RESIDUAL[i % 9],
                   stride=(1, 1, 2, (2, 1))[i % 4],
                   dilation=(1, (2, 1), 1)[i % 3], dtype=DTYPES[i // 2 % 3], columns=columns,
                   row_lanes=(1, 2, 4)[i % 3], rows=(5, 16, 33)[i // 2 % 3], planes=planes, height=height,
                   vector=(1, 4)[i % 2] if columns == 8 else 1,
                   store_vector=math.gcd(columns, 4) if padding == "same" else 1)


PATCH_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 14, 31, 33, 56, 70),
                                    "w": (1, 7, 8, 28, 33, 54, 56, 96, 99, 136)}


ROWS = {"patch": Rows(PATCH_AXES, patch_values, patch_draw, patch_layer, sizes=PATCH_SIZES, variants=patch_variants,
                      typical={**DEPTHWISE_LAYER, "r": 13, "s": 13, "padding": 6})}
