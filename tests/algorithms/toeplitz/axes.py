"""What covers ``toeplitz`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DEPTHWISE_LAYER, DTYPES, EPILOGUES, PADDINGS, Choose, Row, Rows

TOEPLITZ_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (7, 7), (2, 4), (6, 1), (1, 9), (11, 11), (3, 13), (9, 2), (4, 31), (17, 3)),
    "channels": ((1, 1, 1), (1, 3, 1), (3, 3, 3), (2, 6, 2), (5, 5, 5)), "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": EPILOGUES,
    "dtype": DTYPES[1:], "walk": ("bands", "planes"), "tiles": (1, 2, 4, 7, 8),
    "warps": ((1, 1, 1), (2, 1, 2), (1, 2, 1), (4, 1, 1), (2, 2, 1), (1, 1, 4)), "vector": (1, 2, 4, 8),
    "store_vector": (1, 2, 8), "stores": ("direct", "staged"), "weights": ("registers", "shared"),
    "sub_block_rows": (32, 64), "images": (1, 3), "buffers": (2, 3), "begin": ("shifted", "place"), "way": ("ca", "cg"),
    "prefetch_bands": (1, 2, 3)}


def toeplitz_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("walk", "tiles", "vector", "store_vector", "stores", "weights",
    "sub_block_rows",
                                           "images", "buffers", "begin", "way", "prefetch_bands")}
    values.update(zip(("warp_columns", "warp_rows", "warp_planes"), row["warps"]))
    return values


def toeplitz_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise in 16 bits; windows wider than two blocks of columns, too."""
    channels = choose((1, 1, 2, 3, 5, 8, 17))
    return {"c": channels, "k": channels * choose((1, 1, 1, 2, 3)), "groups": channels, "layout": "NCHW", "stride": 1,
            "dilation": 1, "dtype": choose(DTYPES[1:]), "r": choose((1, 2, 3, 5, 5, 7, 7, 9, 11, 13, 18)),
            "s": choose((1, 2, 3, 4, 5, 5, 7, 7, 9, 11, 13, 21, 31))}


def toeplitz_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other warps and copies in bands."""
    rows = choose((1, 1, 2, 3))
    return choose(({}, {}, {}, {
        "walk": "bands", "stores": "direct", "store_vector": 1, "tiles": choose((1, 3, 5, 8, 9)),
        "warp_columns": choose((1, 2, 3)), "warp_rows": rows,
        "warp_planes": choose((1, 2, 3)), "weights": choose(("registers", "shared")),
        "sub_block_rows": 16 * rows * choose((1, 2, 5))}))


def toeplitz_variants() -> Iterable[Row]:
    """(Walk, way of the stores) x width of the copies x of the stores."""
    walks = (("bands", "direct"), ("planes", "direct"), ("planes", "staged"))
    axes = [TOEPLITZ_AXES[name] for name in ("vector", "store_vector")]
    for i, ((walk, stores), vector, store_vector) in enumerate(itertools.product(walks, *axes)):
        yield dict(filter=((3, 3), (5, 7), (2, 10))[i % 3], channels=((1, 1, 1), (3, 3, 3), (2, 6, 2))[i // 2 % 3],
                   padding=((1, 1), (2, 3), ((1, 0), (9, 8)))[i % 3] if store_vector > 1 else "large",
                   padding_mode=BORDERS[(i + i // 6) % 6], epilogue=EPILOGUES[i % 5], dtype=DTYPES[1 + i % 2],
                   walk=walk, vector=vector, store_vector=store_vector, stores=stores,
                   weights=("registers", "shared")[i // 2 % 2], images=1 + i % 3,
                   buffers=3 if vector < 4 else 2,
                   tiles=(1, 3)[i // 4 % 2] if walk == "bands" else 9, sub_block_rows=32,
                   begin=("shifted", "place")[i // 3 % 2], way=("ca", "cg")[i % 2], prefetch_bands=1 + i % 2,
                   warps=TOEPLITZ_AXES["warps"][i % 6] if walk == "bands" else (1, 1 + i % 2, 1))


TOEPLITZ_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 14, 16, 17, 28, 33, 56, 70),
                                       "w": (1, 7, 8, 14, 16, 28, 40, 56, 72, 96, 99, 130)}


ROWS = {"toeplitz": Rows(TOEPLITZ_AXES, toeplitz_values, toeplitz_draw, toeplitz_layer, variants=toeplitz_variants,
                         sizes=TOEPLITZ_SIZES,
                         typical={**DEPTHWISE_LAYER, "dtype": "float16"})}
