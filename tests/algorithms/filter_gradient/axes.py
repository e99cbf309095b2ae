"""What covers ``filter_gradient`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

DEPTHWISE = ((3, 3, 3), (40, 40, 40), (42, 42, 42))
# all taps of a filter in a thread, half of its rows, one row of them, or one
TAPS = ("all", "half", "row", "one")
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 5), (6, 4), (7, 7), (13, 11)),
    "channels": (*DEPTHWISE, (4, 8, 4), (12, 6, 3), (12, 80, 1)),
    "padding": ("valid", "same", ((4, 1), (3, 4))), "padding_mode": BORDERS, "stride": (1, (2, 2), (3, 4)),
    "dilation": (1, (1, 2), (3, 1)), "dtype": DTYPES, "layout": LAYOUTS, "form": ("taps", "tiles"),
    "walk": ("tile", "strip"), "tile": ((4, 2), (7, 4), (1, 1), (3, 4)), "taps": TAPS, "vector": (1, 2, 4),
    "chunks": (1, 3, 20)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (5, 14, 41), "w": (4, 13, 16, 28)}


def values(row: Row) -> dict[str, Any]:
    if row["form"] == "tiles":
        return {"form": "tiles", "chunks": row["chunks"]}
    r, s = row["filter"]
    taps = {"all": (r, s), "half": (-(-r // 2), s), "row": (1, s), "one": (1, 1)}[row["taps"]]
    rows, columns = row["tile"]
    return {"form": "taps", "walk": row["walk"], "rows": rows, "columns": columns, "tap_rows": taps[0],
            "tap_columns": taps[1], "vector": row["vector"], "chunks": row["chunks"]}


USUAL = {"filter": (3, 3), "channels": (42, 42, 42), "padding": ((1, 0), (1, 1)), "padding_mode": "zeros", "stride": 1,
         "dilation": 1, "dtype": "float16", "layout": "NHWC", "form": "taps", "walk": "tile", "tile": (4, 2),
         "taps": "all", "vector": 1, "chunks": 3}


def variants() -> Iterable[Row]:
    """Each form, walk and way to load in both layouts."""
    for changes in (
            {"vector": 2}, {"walk": "strip", "filter": (7, 7), "vector": 2, "taps": "half", "dtype": "bfloat16"},
            {"walk": "strip", "filter": (6, 6), "padding_mode": "reflect", "dtype": "float32", "tile": (7, 4)},
            {"stride": (2, 2), "vector": 2, "padding_mode": "constant"}, {"channels": (4, 8, 4), "dilation": (1, 2)},
            {"layout": "NCHW", "vector": 4, "tile": (7, 4), "filter": (2, 5), "padding": "same"},
            {"layout": "NCHW", "vector": 2, "dtype": "bfloat16", "stride": (2, 2)},
            {"layout": "NCHW", "padding_mode": "circular", "taps": "row", "dtype": "float32"},
            {"layout": "NCHW", "filter": (13, 11), "padding": "same", "taps": "row", "chunks": 1},
            {"form": "tiles", "channels": (12, 80, 1)}, {"form": "tiles", "channels": (12, 6, 3), "stride": (3, 4)},
            {"form": "tiles", "channels": (12, 80, 1), "layout": "NCHW", "padding_mode": "symmetric",
             "dtype": "float32"}):
        yield {**USUAL, **changes}


ROWS = {"filter_gradient": Rows(AXES, values, sizes=SIZES, variants=variants,
                                operation=Operation.FILTER_GRADIENT.value,
                                arrays=True)}
