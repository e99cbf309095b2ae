"""What covers ``phases_gemm`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BIAS, DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (2, 2), (1, 2), (7, 5), (2, 2, 2), (3, 2, 3)),
    "channels": ((40, 72, 1), (32, 64, 1), (3, 36, 1), (21, 6, 1), (48, 32, 4), (9, 15, 3)),
    "padding": ("valid", "same", ((1, 0), (1, 1)), ((4, 1), (3, 4))), "padding_mode": ("zeros", "constant"),
    "stride": (1, (2, 2), (3, 2), (2, 3), (4, 2)), "dilation": (1, (2, 2), (2, 3)), "dtype": DTYPES,
    "layout": LAYOUTS,
    "epilogue": ((), (BIAS,)), "form": ("apart", "row", "together"),
    "tile": ((32, 64, 4, 8), (16, 128, 4, 4), (64, 64, 8, 8), (96, 64, 12, 8)), "block_k": (8, 16), "stages": (2, 3),
    "store_vector": (1, 2)}
SIZES: Mapping[str, tuple] = {"n": (1, 3, 9), "h": (4, 9, 15), "w": (4, 8, 14)}


def values(row: Row) -> dict[str, Any]:
    return {**dict(zip(("block_m", "block_n", "thread_m", "thread_n"), row["tile"])),
            **{name: row[name] for name in ("form", "block_k", "stages", "store_vector")}}


USUAL = {"filter": (3, 3), "channels": (40, 72, 1), "padding": ((1, 0), (1, 1)), "padding_mode": "zeros",
         "stride": (2, 2), "dilation": 1, "dtype": "float32", "layout": "NCHW", "epilogue": (), "form": "apart",
         "tile": (32, 64, 4, 8), "block_k": 8, "stages": 2, "store_vector": 1}
TOGETHER, ROW, NHWC = {"form": "together"}, {"form": "row"}, {"layout": "NHWC"}
UP = {**TOGETHER, "filter": (2, 2), "padding": "valid"}
VOLUME = {"filter": (2, 2, 2), "padding": "valid"}


def variants() -> Iterable[Row]:
    """What a text of its own comes from: the two forms, rows and stores of each order, tails, taps."""
    for changes in (
            {}, NHWC, TOGETHER, {**TOGETHER, **NHWC}, UP, {**UP, **NHWC, "epilogue": (BIAS,)},
            {**UP, "store_vector": 2, "epilogue": (BIAS,)}, {**UP, "channels": (3, 36, 1), "tile": (16, 128, 4, 4)},
            {**UP, **NHWC, "channels": (21, 6, 1)}, {"channels": (9, 15, 3), "epilogue": (BIAS,)},
            {**NHWC, "channels": (48, 32, 4)}, {"filter": (1, 1), "padding": "valid"},
            {**NHWC, "filter": (1, 1), "stride": (3, 2)}, {"dilation": (2, 3), "stride": (4, 2)},
            {**TOGETHER, "dilation": (2, 3), "stride": (3, 2)},
            {**NHWC, **TOGETHER, "filter": (7, 5), "padding": "same"},
            {"stride": 1, "padding_mode": "constant", "tile": (96, 64, 12, 8), "block_k": 16},
            {**NHWC, "filter": (1, 2), "stride": (2, 3), "stages": 3},
            {**UP, **VOLUME, "store_vector": 2}, {**UP, **VOLUME, **NHWC}, {**VOLUME, "filter": (3, 2, 3)},
            {**NHWC, "filter": (3, 2, 3), "padding": ((1, 0), (1, 1)), "epilogue": (BIAS,)},
            {**TOGETHER, "filter": (3, 2, 3), "stride": (2, 3), "tile": (64, 64, 8, 8)},
            {**ROW, "store_vector": 2}, {**ROW, **NHWC, "filter": (7, 5), "stride": (3, 2), "epilogue": (BIAS,)},
            {**ROW, **VOLUME, "dilation": (2, 3), "stride": (3, 2)}, {**TOGETHER, "filter": (2, 1), "stride": (2, 1)},
            {"dtype": "float16", "channels": (9, 15, 3), "epilogue": (BIAS,)}, {**UP, **VOLUME, "dtype": "bfloat16"},
            {**NHWC, "dtype": "float16", "channels": (21, 6, 1)}, {**ROW, **NHWC, "dtype": "bfloat16"}):
        yield {**USUAL, **changes}


ROWS = {"phases_gemm": Rows(AXES, values, sizes=SIZES, variants=variants, usual={"c": 16, "k": 16},
                            operation=Operation.DATA_GRADIENT.value,
                            arrays=True)}
