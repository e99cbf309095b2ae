"""What covers ``im2col`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, CHANNELS, EPILOGUES, PADDINGS, Choose, Row, Rows

# 1x1 without padding at stride 1 is not lowered; a filter with more columns than are loaded together
IM2COL_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (1, 7), (7, 1), (3, 18)), "channels": (*CHANNELS, (40, 3, 1)),
    "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": EPILOGUES,
    "stride": (1, 2, (1, 3), (4, 1)), "dilation": (1, 2, (3, 1)),
    "batch": ("image", "whole")}


def im2col_values(row: Row) -> dict[str, Any]:
    return {"batch": row["batch"]}


def im2col_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    whole_only = (layer["r"], layer["s"]) == (1, 1)     # of which some are not lowered
    return {"batch": "whole" if whole_only else choose(IM2COL_AXES["batch"])}


def im2col_variants() -> Iterable[Row]:
    """Each way of lowering, with and without an epilogue, one of the layers in groups; then what is not lowered."""
    for i, batch in enumerate(IM2COL_AXES["batch"]):
        for j, epilogue in enumerate(EPILOGUES):
            yield dict(filter=((3, 4), (2, 18))[i], channels=((4, 6, 2), (3, 4, 1))[j % 2],
                       padding=PADDINGS[j % len(PADDINGS)], epilogue=epilogue,
                       stride=((1, 2), 1, (2, 1), 1, 2)[j % 5], dilation=(1, 2)[i], batch=batch)
    yield dict(filter=(1, 1), channels=(4, 6, 2), padding="valid", epilogue=EPILOGUES[3], stride=1, dilation=1,
               batch="whole")


ROWS = {"im2col": Rows(IM2COL_AXES, im2col_values, im2col_draw, variants=im2col_variants)}
