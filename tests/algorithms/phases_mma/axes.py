"""What covers ``phases_mma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BIAS, DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 2), (1, 2), (7, 5), (3, 2, 3)),
    "channels": ((40, 72, 1), (64, 64, 1), (30, 18, 1), (21, 12, 1), (48, 32, 4), (16, 72, 1), (136, 40, 1)),
    "padding": ("valid", "same", ((1, 0), (1, 1)), ((4, 1), (3, 4))), "padding_mode": ("zeros", "constant"),
    "stride": (1, (2, 2), (3, 2), (2, 3), (4, 2)), "dilation": (1, (2, 2), (2, 3)), "dtype": DTYPES,
    "numerics": ("float32", "tf32x3", "tf32"), "layout": LAYOUTS, "epilogue": ((), (BIAS,)),
    "tile": ((64, 64, 2, 2), (64, 32, 2, 2), (128, 16, 4, 1), (64, 128, 2, 4), (128, 256, 2, 4)),
    "tile_k": (32, 64), "stages": (2, 3, 4)}          # tile_k of 16-bit elements, half as much in float32
SIZES: Mapping[str, tuple] = {"n": (1, 3, 9), "h": (4, 9, 15), "w": (3, 8, 13)}


def values(row: Row) -> dict[str, Any]:
    return {**dict(zip(("tile_m", "tile_n", "warps_m", "warps_n"), row["tile"])),
            "tile_k": row["tile_k"] // (2 if row["dtype"] == "float32" else 1), "stages": row["stages"]}


USUAL = {"filter": (3, 3), "channels": (40, 72, 1), "padding": ((1, 0), (1, 1)), "padding_mode": "zeros",
         "stride": (2, 2), "dilation": 1, "dtype": "float16", "numerics": "float32", "layout": "NHWC", "epilogue": (),
         "tile": (64, 64, 2, 2), "tile_k": 32, "stages": 3}
POINT = {"filter": (1, 1), "padding": "valid"}
SPLIT, ROUNDED = ({"dtype": "float32", "numerics": numerics} for numerics in ("tf32x3", "tf32"))


def variants() -> Iterable[Row]:
    """What a text of its own comes from: widths of copies and stores, tails of tiles, phases and their taps."""
    for changes in (
            {}, {"dtype": "bfloat16", "tile_k": 64, "stages": 2, "epilogue": (BIAS,)},
            {**POINT, "channels": (64, 64, 1)}, {"filter": (1, 1), "stride": (3, 2)},
            {"channels": (30, 18, 1), "stride": (2, 3), "epilogue": (BIAS,)},
            {"channels": (21, 12, 1), "dtype": "bfloat16", "tile": (64, 32, 2, 2)},
            {"channels": (48, 32, 4), "tile": (128, 16, 4, 1)},
            {"dilation": (2, 3), "stride": (4, 2), "padding": ((4, 1), (3, 4))}, {"dilation": (2, 2)},
            {"stride": 1, "padding_mode": "constant", "epilogue": (BIAS,)},
            {"filter": (7, 5), "padding": "same", "channels": (16, 72, 1), "tile": (64, 128, 2, 4)},
            {"channels": (136, 40, 1), "tile": (128, 256, 2, 4)},
            {"filter": (1, 2), "stride": (2, 3)}, {"filter": (2, 2), "padding": ((4, 1), (3, 4))},
            SPLIT, ROUNDED, {**SPLIT, **POINT, "tile_k": 64, "stages": 2, "epilogue": (BIAS,)},
            {**SPLIT, "channels": (21, 12, 1), "stride": (2, 3), "epilogue": (BIAS,)},
            {**ROUNDED, "channels": (30, 18, 1), "tile": (64, 32, 2, 2), "epilogue": (BIAS,)},
            {**SPLIT, "channels": (48, 32, 4), "tile": (128, 16, 4, 1)},
            {**ROUNDED, "filter": (7, 5), "padding": "same", "dilation": (2, 2), "stages": 4},
            {"layout": "NCHW", "channels": (136, 40, 1), "tile": (128, 256, 2, 4)},
            {"filter": (3, 2, 3), "stride": (2, 3), "epilogue": (BIAS,)},
            {**SPLIT, "filter": (3, 2, 3), "dilation": (2, 3)},
            {"filter": (3, 2, 3), "layout": "NCHW", "dtype": "bfloat16", "padding": ((4, 1), (3, 4))},
            {**SPLIT, "layout": "NCHW", "channels": (21, 12, 1), "epilogue": (BIAS,)}):
        yield {**USUAL, **changes}


ROWS = {"phases_mma": Rows(AXES, values, sizes=SIZES, variants=variants, usual={"c": 16, "k": 16},
                           operation=Operation.DATA_GRADIENT.value,
                           arrays=True)}
