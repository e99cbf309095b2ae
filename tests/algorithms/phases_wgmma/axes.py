"""What covers ``phases_wgmma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BIAS, DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

# (channels, rows, columns, images): who shares what out, pixels that fill up the products or do not
TILES = ((64, 4, 8, 1), (64, 8, 8, 2), (128, 4, 4, 1), (128, 5, 5, 3), (128, 7, 16, 1), (256, 2, 7, 4), (256, 3, 16, 2))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 2), (1, 2), (7, 5), (3, 2, 3), (2, 2, 2)),
    "channels": ((40, 72, 1), (64, 64, 1), (136, 24, 1), (8, 136, 1), (256, 64, 1), (30, 12, 1)),
    "padding": ("valid", "same", ((1, 0), (1, 1)), ((4, 1), (3, 4))), "padding_mode": ("zeros", "constant"),
    "stride": (1, (2, 2), (3, 2), (2, 3), (4, 2)), "dilation": (1, (2, 2), (2, 3)), "dtype": DTYPES,
    "numerics": ("float32", "tf32"), "layout": LAYOUTS, "epilogue": ((), (BIAS,)), "tile": TILES, "stages": (2, 3, 4)}
SIZES: Mapping[str, tuple] = {"n": (1, 3, 9), "h": (4, 9, 15), "w": (3, 8, 13)}


def values(row: Row) -> dict[str, Any]:
    return {**dict(zip(("channels", "rows", "columns", "images"), row["tile"])), "stages": row["stages"]}


USUAL = {"filter": (3, 3), "channels": (40, 72, 1), "padding": ((1, 0), (1, 1)), "padding_mode": "zeros",
         "stride": (2, 2), "dilation": 1, "dtype": "float16", "numerics": "float32", "layout": "NHWC", "epilogue": (),
         "tile": (64, 4, 8, 1), "stages": 3}
POINT = {"filter": (1, 1), "padding": "valid"}
DEEP = {"filter": (3, 2, 3), "padding": "same", "stride": 2, "tile": (128, 5, 5, 3)}       # of volumes
ROUNDED = {"dtype": "float32", "numerics": "tf32"}


def variants() -> Iterable[Row]:
    """What a text of its own comes from: tails of tiles, phases and their taps, biases, who shares what out."""
    for changes in (
            {}, {"dtype": "bfloat16", "stages": 2, "epilogue": (BIAS,)}, {**POINT, "channels": (64, 64, 1)},
            {"filter": (1, 1), "stride": (3, 2), "tile": (64, 8, 8, 2)},
            {"channels": (136, 24, 1), "tile": (128, 5, 5, 3), "epilogue": (BIAS,)},
            {"channels": (256, 64, 1), "tile": (256, 3, 16, 2)}, {"channels": (256, 64, 1), "tile": (256, 2, 7, 4)},
            {"dilation": (2, 3), "stride": (4, 2), "padding": ((4, 1), (3, 4)), "tile": (128, 7, 16, 1)},
            {"dilation": (2, 2)}, {"stride": 1, "padding_mode": "constant", "epilogue": (BIAS,)},
            {"filter": (7, 5), "padding": "same", "channels": (8, 136, 1), "stages": 4},
            {"filter": (1, 2), "stride": (2, 3), "tile": (128, 4, 4, 1)},
            {"layout": "NCHW", "channels": (136, 24, 1), "tile": (128, 4, 4, 1)},
            ROUNDED, {**ROUNDED, **POINT, "channels": (30, 12, 1), "epilogue": (BIAS,), "tile": (64, 8, 8, 2)},
            {**ROUNDED, "filter": (7, 5), "padding": "same", "dilation": (2, 2), "tile": (128, 5, 5, 3)},
            {**ROUNDED, "layout": "NCHW", "channels": (136, 24, 1), "tile": (256, 2, 7, 4), "epilogue": (BIAS,)},
            {**DEEP, "tile": (64, 4, 8, 1)}, {**DEEP, "dtype": "bfloat16", "epilogue": (BIAS,), "stride": 3},
            {**DEEP, "filter": (2, 2, 2), "padding": "valid", "stride": 2, "channels": (136, 24, 1), "layout": "NCHW"},
            {**DEEP, "dilation": 2, "stride": 1}, {**DEEP, **ROUNDED, "channels": (256, 64, 1), "tile": (256, 2, 7, 4)},
            {**DEEP, **ROUNDED, "channels": (30, 12, 1), "layout": "NCHW", "tile": (64, 8, 8, 2)}):
        yield {**USUAL, **changes}


ROWS = {"phases_wgmma": Rows(AXES, values, sizes=SIZES, variants=variants, usual={"c": 16, "k": 16},
                             operation=Operation.DATA_GRADIENT.value, arrays=True)}
