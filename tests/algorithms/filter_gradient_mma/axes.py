"""What covers ``filter_gradient_mma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 2), (2, 1), (5, 7), (2, 3, 2)),
    "channels": ((40, 72, 1), (64, 64, 1), (3, 64, 1), (20, 18, 1), (16, 9, 1), (48, 32, 4), (96, 136, 1), (16, 16, 4),
                 (12, 24, 4), (24, 3, 1)),
    "padding": ("valid", "same", ((1, 0), (1, 1)), "large"), "stride": (1, (2, 2), (2, 3)),
    "dilation": (1, (2, 3)), "dtype": DTYPES, "layout": LAYOUTS,
    "numerics": ("float32", "tf32x3", "tf32"),
    "tile": ((64, 64, 2, 2), (16, 64, 1, 2), (16, 128, 1, 4), (32, 256, 1, 4), (128, 256, 2, 4), (128, 128, 2, 4)),
    "tile_p": (32, 64), "stages": (2, 3, 4), "splits": (1, 2, 5, 40), "vectors": ((0, 0), (4, 2), (1, 1)),
    "joined": (1, 2, 4)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (3, 7, 11), "w": (2, 8, 21)}


def values(row: Row) -> dict[str, Any]:
    """``vectors`` of 0: those that the planner takes. Layers of one group have none to join."""
    found = dict(zip(("tile_m", "tile_n", "warps_m", "warps_n"), row["tile"]))
    found.update((name, row[name]) for name in ("tile_p", "stages", "splits"))
    found["joined"] = min(row["joined"], row["channels"][2])
    if row["dtype"] == "float32":       # half as many pixels
        found["tile_p"] //= 2
    if any(row["vectors"]):
        found.update(zip(("vector_m", "vector_n"), row["vectors"]))
    return found


USUAL = {"filter": (3, 2), "channels": (40, 72, 1), "padding": ((1, 0), (1, 1)), "stride": 1, "dilation": 1,
         "dtype": "float16", "numerics": "float32", "layout": "NHWC", "tile": (64, 64, 2, 2), "tile_p": 32,
         "stages": 3, "splits": 2, "vectors": (0, 0), "joined": 1}
POINT = {"filter": (1, 1), "padding": "valid"}
SPLIT, ROUNDED = ({"dtype": "float32", "numerics": numerics} for numerics in ("tf32x3", "tf32"))


def variants() -> Iterable[Row]:
    """What a text of its own comes from: widths of copies, tails of tiles, the way to the next window."""
    for changes in (
            {}, {"dtype": "bfloat16", "splits": 5}, {**POINT, "channels": (64, 64, 1), "tile_p": 64},
            {**POINT, "stride": (2, 3), "stages": 2}, {"channels": (3, 64, 1), "filter": (5, 7), "stride": (2, 2)},
            {"channels": (20, 18, 1), "splits": 40}, {"channels": (16, 9, 1), "dtype": "bfloat16",
                                                      "tile": (16, 64, 1, 2)},
            {"channels": (48, 32, 4), "tile": (16, 128, 1, 4)},
            {"dilation": (2, 3), "padding": "large", "tile": (32, 256, 1, 4), "stages": 2},
            {"padding": "valid", "vectors": (4, 2)}, {"channels": (96, 136, 1), "tile": (128, 256, 2, 4), "stages": 4},
            {"channels": (64, 64, 1), "tile": (128, 128, 2, 4)}, {"filter": (2, 1), "splits": 40},
            SPLIT, ROUNDED, {**SPLIT, **POINT, "channels": (64, 64, 1), "tile_p": 64, "splits": 5},
            {**SPLIT, "channels": (3, 64, 1), "filter": (5, 7), "stride": (2, 2), "tile": (16, 64, 1, 2)},
            {**ROUNDED, "channels": (16, 9, 1), "tile": (16, 128, 1, 4), "stages": 2},
            {**SPLIT, "channels": (48, 32, 4), "tile": (32, 256, 1, 4), "dilation": (2, 3)},
            {**ROUNDED, "channels": (96, 136, 1), "tile": (128, 128, 2, 4), "padding": "valid", "vectors": (4, 2)},
            {"layout": "NCHW", "channels": (96, 136, 1), "tile": (128, 256, 2, 4)},
            {"filter": (2, 3, 2), "stride": (2, 3)}, {**SPLIT, "filter": (2, 3, 2), "dilation": (2, 3)},
            {"filter": (2, 3, 2), "layout": "NCHW", "dtype": "bfloat16", "padding": "large"},
            {**SPLIT, "layout": "NCHW", "channels": (20, 18, 1)},
            {"channels": (16, 16, 4), "joined": 4, "tile": (16, 64, 1, 2)},
            {**SPLIT, "channels": (12, 24, 4), "joined": 2, "tile": (16, 64, 1, 2), "filter": (5, 7)},
            {**POINT, "channels": (48, 32, 4), "joined": 4, "dtype": "bfloat16"}, {"channels": (24, 3, 1)},
            {**ROUNDED, "channels": (16, 16, 4), "joined": 2, "filter": (2, 3, 2), "layout": "NCHW"},
            {**POINT, "splits": 1}, {**POINT, "splits": 1, "channels": (3, 64, 1), "dtype": "bfloat16"},
            {**POINT, **SPLIT, "splits": 1}, {**POINT, "splits": 1, "channels": (16, 16, 4), "joined": 4},
            {**POINT, "splits": 1, "channels": (12, 24, 4), "joined": 2, "tile": (16, 64, 1, 2)}):
        yield {**USUAL, **changes}


ROWS = {"filter_gradient_mma": Rows(AXES, values, sizes=SIZES, variants=variants, usual={"c": 16, "k": 16},
                                    operation=Operation.FILTER_GRADIENT.value,
                                    arrays=True)}
