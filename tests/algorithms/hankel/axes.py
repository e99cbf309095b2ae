"""What covers ``hankel`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DTYPES, Row, Rows
from warpconv.codegen.border import Border
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 5), (7, 7), (8, 4), (11, 3), (5, 13)),
    "channels": ((8, 8, 8), (16, 16, 16), (40, 40, 40)), "padding": ("valid", "same", ((4, 1), (3, 4))),
    "padding_mode": tuple(name for name in BORDERS if name != Border.CONSTANT.value),
    "stride": (1, (2, 2), (2, 1), (3, 4)), "dilation": (1, (2, 2), (1, 3)), "dtype": DTYPES[1:], "layout": ("NHWC",),
    "octets": (1, 2, 3, 4), "across": ((1, 16, 1), (1, 40, 1), (3, 40, 2), (2, 24, 3)), "steps": (1, 2, 4),
    "buffers": (2, 3, 4), "folds": (1, 2), "taps": ("all", "half"), "chunks": (5, 8, 20)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (5, 14, 23), "w": (4, 13, 24, 39)}


def values(row: Row) -> dict[str, Any]:
    """``steps``: input rows of a step in strides; ``across``: images side by side, columns, warps."""
    r, s = row["filter"]
    taps = {"all": (r, s), "half": (-(-r // 2), -(-s // 2))}[row["taps"]]
    stride = row["stride"][0] if isinstance(row["stride"], tuple) else row["stride"]
    across, columns, warps = row["across"]
    return {"chunks": row["chunks"], "octets": row["octets"], "columns": columns, "across": across, "warps": warps,
            "rows": row["steps"] * stride, "buffers": row["buffers"], "folds": row["folds"],
            "tap_rows": taps[0], "tap_columns": taps[1]}


USUAL = {"filter": (3, 3), "channels": (40, 40, 40), "padding": ((4, 1), (3, 4)), "padding_mode": "zeros", "stride": 1,
         "dilation": 1, "dtype": "float16", "layout": "NHWC", "octets": 2, "across": (1, 40, 1), "steps": 2,
         "buffers": 3, "folds": 1, "taps": "all", "chunks": 8}


def variants() -> Iterable[Row]:
    """One stretch of a row and two, blocks of taps and of columns, images side by side, strides with dilation."""
    for changes in (
            {"filter": (7, 7), "dtype": "bfloat16"}, {"folds": 2, "across": (3, 40, 2)}, {"folds": 2, "octets": 4},
            {"filter": (5, 13), "taps": "half", "across": (1, 16, 1), "dtype": "bfloat16"},
            {"stride": (2, 2), "dilation": (1, 3), "filter": (8, 4), "steps": 1, "octets": 3},
            {"stride": (3, 4), "dilation": (2, 2), "steps": 1, "buffers": 4},
            {"padding_mode": "reflect", "across": (2, 24, 3), "octets": 1}, {"steps": 4, "chunks": 20, "buffers": 2},
            {"filter": (11, 3), "taps": "half", "padding_mode": "circular", "channels": (16, 16, 16)},
            {"filter": (1, 1), "padding": "valid", "channels": (8, 8, 8)}):
        yield {**USUAL, **changes}


ROWS = {"hankel": Rows(AXES, values, sizes=SIZES, variants=variants, operation=Operation.FILTER_GRADIENT.value,
                       arrays=True)}
