"""How the tests cover ``im2win_basic``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, CHANNELS, DTYPES, EPILOGUES, PADDINGS, Choose, Row, Rows

# a filter with more taps than are unrolled; one row, one column; more filters than a block's side
IM2WIN_BASIC_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (1, 7), (7, 1), (9, 8)), "channels": (*CHANNELS, (2, 35, 1), (4, 66, 2)),
    "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": EPILOGUES,
    "stride": (1, 2, (1, 3), (4, 1)), "dilation": (1, 2, (3, 1)),
    "dtype": DTYPES, "mapping": ("coalesced", "document")}


def im2win_basic_values(row: Row) -> dict[str, Any]:
    return {"mapping": row["mapping"]}


def im2win_basic_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"mapping": choose(IM2WIN_BASIC_AXES["mapping"])}


def im2win_basic_variants() -> Iterable[Row]:
    """Each mapping in every type, with and without padding."""
    for i, mapping in enumerate(IM2WIN_BASIC_AXES["mapping"]):
        for j, dtype in enumerate(DTYPES):
            yield dict(filter=((3, 4), (9, 8))[i], channels=((4, 66, 2), (3, 4, 1), (2, 35, 1))[j],
                       padding=PADDINGS[(i + j) % 5], epilogue=EPILOGUES[(2 * i + j) % 5],
                       stride=((1, 2), 1, (2, 1))[j], dilation=(1, 2)[i], dtype=dtype, mapping=mapping)


IM2WIN_BASIC = Rows(IM2WIN_BASIC_AXES, im2win_basic_values, im2win_basic_draw, variants=im2win_basic_variants)
