"""What covers ``toeplitz_nhwc`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DEPTHWISE_LAYER, DTYPES, EPILOGUES, PADDINGS, Choose, Row, Rows

TOEPLITZ_NHWC_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (7, 7), (2, 4), (6, 1), (1, 9), (11, 11), (3, 13), (9, 2), (4, 31), (17, 3)),
    "channels": ((8, 8, 8), (16, 16, 16), (24, 24, 24), (40, 40, 40)), "padding": PADDINGS,
    "padding_mode": BORDERS, "epilogue": EPILOGUES,
    "dtype": DTYPES[1:], "layout": ("NHWC",), "pairs": (1, 2, 4), "chunks": (1, 2, 3, 4), "turn": (1, 2, 3),
    "across": ((1, 32, 1), (1, 16, 2), (2, 56, 1), (2, 12, 5), (1, 8, 3)), "buffers": (2, 3, 4),
    "sub_block_rows": (2, 14, 64), "images": (1, 3), "weights": ("registers", "shared"), "matrix": ("sparse", "dense")}


def toeplitz_nhwc_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("pairs", "chunks", "turn", "buffers", "sub_block_rows", "images", "weights",
                                           "matrix")}
    values.update(zip(("warps", "columns", "across"), row["across"]))
    return values


def toeplitz_nhwc_layer(choose: Choose) -> dict[str, Any]:
    """Depthwise in NHWC and 16 bits, pixels of whole 16 bytes."""
    channels = choose((8, 8, 16, 24, 32, 40, 64))
    return {"c": channels, "k": channels, "groups": channels, "layout": "NHWC", "stride": 1, "dilation": 1,
            "dtype": choose(DTYPES[1:]), "r": choose((1, 2, 3, 3, 5, 5, 7, 7, 9, 11, 13)),
            "s": choose((1, 2, 3, 3, 4, 5, 5, 7, 7, 9, 11, 13, 21))}


def toeplitz_nhwc_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other warps and turns."""
    return choose(({}, {}, {}, {"pairs": choose((1, 2, 4)), "chunks": choose((1, 2)), "turn": choose((1, 2)),
                                "buffers": 2, "weights": "shared", "matrix": choose(("sparse", "dense")), "warps": 1,
                                "across": 1,
                                "columns": choose((4, 20, 32)), "sub_block_rows": choose((2, 10, 40))}))


def toeplitz_nhwc_variants() -> Iterable[Row]:
    """Kind of matrix instruction x where the filters are x images side by side x channels a warp."""
    axes = [TOEPLITZ_NHWC_AXES[name] for name in ("matrix", "weights", "across", "pairs")]
    for i, (matrix, weights, across, pairs) in enumerate(itertools.product(*axes)):
        yield dict(filter=((3, 3), (2, 5), (5, 9))[i % 3], channels=TOEPLITZ_NHWC_AXES["channels"][i % 4],
                   padding=("same", ((1, 0), (0, 2)), "large")[i // 3 % 3] if across[2] == 1 else "same",
                   padding_mode=BORDERS[(i + i // 6) % 6], epilogue=EPILOGUES[i % 5],
                   dtype=DTYPES[1 + i % 2], layout="NHWC", pairs=pairs,
                   chunks=1 + i // 2 % 2, turn=1 + i % 2 if across[0] == 1 else 1, across=across,
                   buffers=2 + i // 4 % 2, sub_block_rows=(14, 64)[i % 2], images=1 + i % 2, weights=weights,
                   matrix=matrix)


TOEPLITZ_NHWC_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3, 7), "h": (1, 7, 14, 17, 33, 56),
                                            "w": (1, 7, 8, 14, 28, 33, 56, 99)}


ROWS = {"toeplitz_nhwc": Rows(TOEPLITZ_NHWC_AXES, toeplitz_nhwc_values, toeplitz_nhwc_draw, toeplitz_nhwc_layer,
                              variants=toeplitz_nhwc_variants, sizes=TOEPLITZ_NHWC_SIZES,
                              typical={**DEPTHWISE_LAYER, "dtype": "float16", "layout": "NHWC"})}
