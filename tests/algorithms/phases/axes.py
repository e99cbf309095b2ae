"""What covers ``phases`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BIAS, BORDERS, DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 4), (5, 4), (7, 3), (9, 7)),
    "channels": ((3, 3, 3), (40, 40, 40), (42, 42, 42), (12, 6, 6), (6, 12, 3), (5, 7, 1)),
    "padding": ("valid", "same", ((4, 1), (3, 4)), "large"), "padding_mode": BORDERS,
    "stride": (1, (2, 2), (3, 2), (2, 4), (9, 9)), "dilation": (1, (2, 2), (1, 3)), "dtype": DTYPES, "layout": LAYOUTS,
    "epilogue": ((), (BIAS,)), "form": ("tile", "ring", "pixel"),
    "block": ((32, 4, 1), (64, 2, 1), (8, 4, 4)), "c_tile": (1, 2, 3), "across": (1, 2), "rows": (8, 3),
    "vector": (1, 2, 4)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (5, 19, 33), "w": (4, 14, 20, 37)}


def values(row: Row) -> dict[str, Any]:
    found = {"form": row["form"], "c_tile": row["c_tile"]}
    found.update(zip(("block_size_x", "block_size_y", "block_size_z"), row["block"]))
    if row["form"] == "ring":
        found.update((name, row[name]) for name in ("across", "rows", "vector"))
    return found


USUAL = {"filter": (3, 3), "channels": (42, 42, 42), "padding": ((1, 0), (1, 1)), "padding_mode": "zeros",
         "stride": (2, 2), "dilation": 1, "dtype": "float16", "layout": "NHWC", "epilogue": (), "form": "ring",
         "block": (32, 4, 1), "c_tile": 1, "across": 1, "rows": 8, "vector": 1}


def variants() -> Iterable[Row]:
    """Each form, with the words that it loads and stores, with borders of one value and of the image's pixels."""
    for changes in (
            {"vector": 2, "filter": (7, 3), "dtype": "bfloat16"}, {"rows": 3, "epilogue": (BIAS,), "dtype": "float32"},
            {"layout": "NCHW", "vector": 4, "across": 2, "filter": (5, 4)},
            {"layout": "NCHW", "vector": 2, "dtype": "float32", "stride": (3, 2), "block": (8, 4, 4)},
            {"layout": "NCHW", "padding_mode": "reflect", "filter": (5, 4)},
            {"channels": (12, 6, 6), "c_tile": 2, "padding_mode": "constant", "epilogue": (BIAS,)},
            {"form": "tile", "channels": (5, 7, 1), "dilation": (2, 2)},
            {"form": "tile", "channels": (6, 12, 3), "c_tile": 2, "layout": "NCHW", "padding_mode": "circular",
             "stride": (2, 4)},
            {"form": "pixel", "stride": (9, 9), "filter": (2, 4), "epilogue": (BIAS,)},
            {"form": "pixel", "filter": (9, 7), "padding": "same", "layout": "NCHW", "padding_mode": "symmetric"}):
        yield {**USUAL, **changes}


ROWS = {"phases": Rows(AXES, values, sizes=SIZES, variants=variants, operation=Operation.DATA_GRADIENT.value,
                       arrays=True)}
