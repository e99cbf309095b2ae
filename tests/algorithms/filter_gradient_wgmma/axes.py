"""What covers ``filter_gradient_wgmma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 2), (2, 2), (1, 3), (2, 1), (2, 3, 2)),
    "channels": ((64, 64, 1), (128, 128, 1), (64, 256, 1), (40, 72, 1), (136, 24, 1), (64, 136, 1), (200, 64, 1),
                 (18, 20, 1)),
    "padding": ("valid", "same", ((1, 0), (1, 1)), "large"), "stride": (1, (2, 1), (2, 3)),
    "dilation": (1, (2, 3)), "dtype": DTYPES, "layout": LAYOUTS, "numerics": ("float32", "tf32"),
    "form": ("channels", "planes"),
    "tile": ((64, 128), (128, 64), (256, 128), (128, 256), (64, 256), (64, 384), (64, 512)),
    "pixels": (32, 64), "stages": (2, 3, 8), "splits": (1, 2, 5, 40)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (3, 7, 11), "w": (2, 8, 13, 24)}


def values(row: Row) -> dict[str, Any]:
    """In the form planes a stage has as many pixels as have 128 bytes."""
    filters, columns = row["tile"]
    names = ("form", "stages", "splits", *(("pixels",) if row["form"] == "channels" else ()))
    return {"filters": filters, "columns": columns, **{name: row[name] for name in names}}


USUAL = {"filter": (3, 2), "channels": (64, 64, 1), "padding": ((1, 0), (1, 1)), "stride": 1, "dilation": 1,
         "dtype": "float16", "layout": "NHWC", "numerics": "float32", "form": "channels", "tile": (64, 128),
         "pixels": 32, "stages": 3, "splits": 2}
POINT = {"filter": (1, 1), "padding": "valid"}
PLANES = {**POINT, "form": "planes", "layout": "NCHW"}
ROUNDED = {**PLANES, "dtype": "float32", "numerics": "tf32"}


def variants() -> Iterable[Row]:
    """What a text of its own comes from: tails of tiles, taps and slices, who shares what out."""
    for changes in (
            {}, {"dtype": "bfloat16", "splits": 5, "pixels": 64}, {"channels": (128, 128, 1), "tile": (128, 64)},
            {"channels": (64, 256, 1), "tile": (256, 128), "stages": 2},
            {"channels": (64, 136, 1), "filter": (1, 3), "tile": (128, 256)},
            {"channels": (40, 72, 1), "tile": (64, 256)},
            {"channels": (136, 24, 1), "filter": (2, 2), "tile": (64, 384)},
            {**POINT, "channels": (200, 64, 1), "tile": (64, 512), "stages": 2},
            {**POINT, "stride": (2, 3), "stages": 8},
            {"stride": (2, 1), "dilation": (2, 3), "padding": "large"},
            {"padding": "valid", "channels": (136, 24, 1), "splits": 1}, {"filter": (2, 1), "splits": 40},
            {"filter": (2, 3, 2), "stride": (2, 3), "dilation": (2, 3)},
            {"filter": (2, 3, 2), "layout": "NCHW", "channels": (136, 24, 1)},
            {"layout": "NCHW", "channels": (136, 24, 1)}, {**POINT, "layout": "NCHW", "dtype": "bfloat16"},
            {**POINT, "splits": 1}, {**POINT, "channels": (40, 72, 1), "dtype": "bfloat16", "splits": 1},
            PLANES, {**PLANES, "channels": (136, 24, 1), "tile": (128, 256), "dtype": "bfloat16", "splits": 1},
            {**PLANES, "channels": (18, 20, 1), "splits": 5}, {**PLANES, "channels": (64, 256, 1), "tile": (256, 128)},
            ROUNDED, {**ROUNDED, "channels": (200, 64, 1), "tile": (64, 512), "stages": 2, "splits": 5},
            {**ROUNDED, "channels": (18, 20, 1), "splits": 1, "tile": (128, 64)}):
        yield {**USUAL, **changes}


ROWS = {"filter_gradient_wgmma": Rows(AXES, values, sizes=SIZES, variants=variants, usual={"c": 64, "k": 64},
                                      operation=Operation.FILTER_GRADIENT.value,
                                      arrays=True)}
