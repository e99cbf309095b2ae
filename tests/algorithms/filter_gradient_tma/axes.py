"""What covers ``filter_gradient_tma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 2), (2, 2), (1, 3), (2, 1), (2, 3, 2)),
    "channels": ((64, 64, 1), (32, 128, 1), (64, 256, 1), (40, 72, 1), (136, 24, 1), (12, 20, 1), (200, 64, 1),
                 (64, 192, 2), (48, 32, 4)),
    "padding": ("valid", "same", ((1, 0), (1, 1)), "large"), "stride": (1, (2, 1), (2, 3)),
    "dilation": (1, (2, 3)), "layout": LAYOUTS, "numerics": ("tf32",),
    "tile": ((64, 64, 2, 2), (64, 128, 2, 2), (128, 64, 4, 1), (32, 128, 1, 4), (128, 128, 2, 4), (128, 32, 4, 1)),
    "pixels": (16, 32, 48), "stages": (2, 3, 4), "splits": (1, 2, 5, 40)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (3, 7, 11), "w": (2, 8, 13, 24)}


def values(row: Row) -> dict[str, Any]:
    found = dict(zip(("filters", "columns", "warps_m", "warps_n"), row["tile"]))
    return {**found, **{name: row[name] for name in ("pixels", "stages", "splits")}}


USUAL = {"filter": (3, 2), "channels": (64, 64, 1), "padding": ((1, 0), (1, 1)), "stride": 1, "dilation": 1,
         "layout": "NHWC", "numerics": "tf32", "tile": (64, 64, 2, 2), "pixels": 16, "stages": 3, "splits": 2,
         "dtype": "float32"}
POINT = {"filter": (1, 1), "padding": "valid"}


def variants() -> Iterable[Row]:
    """What a text of its own comes from: tails of tiles, taps and slices, groups, who shares what out."""
    for changes in (
            {}, {"splits": 5, "pixels": 32}, {"channels": (32, 128, 1), "tile": (128, 64, 4, 1)},
            {"channels": (64, 256, 1), "tile": (128, 128, 2, 4), "stages": 2},
            {"channels": (40, 72, 1), "tile": (64, 128, 2, 2)},
            {"channels": (136, 24, 1), "filter": (2, 2), "tile": (32, 128, 1, 4)},
            {**POINT, "channels": (200, 64, 1), "tile": (64, 128, 2, 2), "stages": 2},
            {**POINT, "stride": (2, 3), "stages": 4}, {"stride": (2, 1), "dilation": (2, 3), "padding": "large"},
            {"padding": "valid", "channels": (136, 24, 1), "splits": 1}, {"filter": (2, 1), "splits": 40},
            {"filter": (2, 3, 2), "stride": (2, 3), "dilation": (2, 3)},
            {"layout": "NCHW", "channels": (136, 24, 1)}, {**POINT, "layout": "NCHW", "tile": (128, 32, 4, 1)},
            {**POINT, "splits": 1}, {**POINT, "channels": (40, 72, 1), "splits": 1},
            {"channels": (64, 192, 2)}, {"channels": (48, 32, 4), "filter": (1, 3)},
            {**POINT, "channels": (48, 32, 4), "splits": 1, "tile": (32, 128, 1, 4)}, {"channels": (12, 20, 1)},
            {"channels": (136, 24, 1), "tile": (64, 128, 2, 2), "dilation": (2, 3), "stride": (2, 1)},
            {"filter": (2, 3, 2), "layout": "NCHW"}):
        yield {**USUAL, **changes}


ROWS = {"filter_gradient_tma": Rows(AXES, values, sizes=SIZES, variants=variants, usual={"c": 64, "k": 64},
                                    operation=Operation.FILTER_GRADIENT.value,
                                    arrays=True)}
