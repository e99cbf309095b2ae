"""What covers ``channels`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DEPTHWISE_LAYER, DTYPES, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

DEPTHWISE = ((1, 1, 1), (1, 3, 1), (3, 3, 3), (6, 6, 6), (8, 8, 8), (4, 8, 4), (3, 12, 3), (32, 32, 32),
             (130, 130, 130))
CHANNELS_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (2, 4), (7, 1), (1, 6), (7, 7), (9, 11)), "channels": DEPTHWISE,
    "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL, "stride": (1, 2, (1, 3), (4, 1), (6, 2)),
    "dilation": (1, 2, (3, 1), (4, 3)), "dtype": DTYPES, "layout": ("NHWC",), "numerics": ("float32", "float16"),
    "body": ("ring", "tile", "lines"), "vector": (1, 2, 4, 8), "columns": (1, 2, 4, 7), "width": ("any", "whole"),
    "sub_block_rows": (1, 3, 7, 14), "prefetch_rows": (1, 2, 3), "block": ((32, 2, 1), (3, 4, 2), (16, 1, 4))}


def channels_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("body", "vector", "columns", "width", "sub_block_rows", "prefetch_rows")}
    values.update(zip(("block_channels", "block_columns", "block_rows"), row["block"]))
    if row["body"] == "lines":
        values["stage_rows"] = row.get("stage_rows", 1)
    return values


def channels_layer(choose: Choose) -> dict[str, Any]:
    channels, filters = choose((1, 2, 3, 8, 8, 24, 40, 64)), choose((1, 1, 1, 2, 3, 4))
    return {"c": channels, "k": channels * filters, "groups": channels, "layout": "NHWC",
            "dtype": choose(DTYPES), "dilation": choose((1, 1, 1, 2, (3, 1)))}


def channels_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    if choose((True, False)):
        return {}
    body = choose(("ring", "ring", "tile", "lines"))
    if body == "lines":
        turn = choose((1, 2, 3))
        return {"body": body, "vector": choose((1, 1, 2)), "columns": choose((1, 2, 3, 5, 7)), "width": "any",
                "sub_block_rows": choose((1, 2, 5, 14, 56)), "prefetch_rows": turn * choose((1, 2)), "stage_rows": turn,
                "block_channels": choose((2, 4, 8, 16)), "block_columns": choose((1, 2, 5)), "block_rows": 1}
    return {"body": body, "vector": choose((1, 2, 4, 8) if body == "ring" else (1, 1, 2)),
            "columns": choose((1, 2, 3, 4, 7, 8)), "width": choose(("any", "any", "whole")),
            "sub_block_rows": choose((1, 2, 5, 14, 56) if body == "ring" else (1, 2, 4, 7)),
            "prefetch_rows": choose((1, 1, 2, 3)) if body == "ring" else 1, "block_channels": choose((1, 3, 16, 32)),
            "block_columns": choose((1, 2, 5)), "block_rows": choose((1, 1, 2))}


def channels_variants() -> Iterable[Row]:
    """Each body in every type and arithmetic, and with every border."""
    kinds = [(dtype, "float32") for dtype in DTYPES] + [(dtype, "float16") for dtype in DTYPES[1:]]
    for i, ((dtype, numerics), body) in enumerate(itertools.product(kinds, ("ring", "tile"))):
        yield dict(filter=((3, 3), (2, 5))[i % 2], channels=((8, 8, 8), (6, 6, 6))[i // 2 % 2], padding="large",
                   epilogue=WITH_RESIDUAL[i % 9], stride=(1, 2, (3, 1))[i % 3], dilation=(1, (2, 1), 1, (1, 2))[i % 4],
                   dtype=dtype, layout="NHWC", numerics=numerics, body=body,
                   vector=2 if body == "ring" or numerics == "float16" else 1, columns=3,
                   width=("any", "whole")[i // 4 % 2],
                   sub_block_rows=5, prefetch_rows=1 + i // 2 % 2 if body == "ring" else 1, block=(3, 4, 2))
    for i, (border, body) in enumerate(itertools.product(BORDERS[1:], ("ring", "tile"))):
        yield dict(filter=((3, 3), (2, 5), (5, 4))[i % 3], channels=((8, 8, 8), (3, 12, 3))[i // 2 % 2],
                   padding=("large", "same")[i // 3 % 2], padding_mode=border, epilogue=(),
                   stride=(1, 2, (3, 1))[i % 3], dilation=(1, (2, 1), 1, (1, 2))[i % 4], dtype=DTYPES[i % 3],
                   layout="NHWC", numerics="float32", body=body, vector=1, columns=3, width="any", sub_block_rows=5,
                   prefetch_rows=1 + i // 4 % 2 if body == "ring" else 1, block=(3, 4, 2))
    for i, (border, turn) in enumerate(itertools.product(BORDERS, (1, 2))):
        yield dict(filter=((3, 3), (2, 5), (5, 4))[i % 3], channels=((8, 8, 8), (6, 6, 6))[i // 2 % 2],
                   padding=("large", "same")[turn - 1], padding_mode=border, epilogue=WITH_RESIDUAL[i % 9],
                   stride=(1, (1, 2))[i // 3 % 2], dilation=(1, (3, 1), (1, 2))[i % 3], dtype=DTYPES[i % 3],
                   layout="NHWC", numerics="float16" if i % 3 and turn == 2 else "float32", body="lines", vector=2,
                   columns=3, width="any", sub_block_rows=5, prefetch_rows=2, stage_rows=turn, block=(4, 3, 1))
    for i, (border, stride) in enumerate(itertools.product(BORDERS, (2, (3, 1), (4, 2)))):
        yield dict(filter=((3, 3), (5, 4), (2, 5), (1, 1), (7, 1))[i % 5], channels=((8, 8, 8), (6, 6, 6))[i // 3 % 2],
                   padding=("large", "same")[i % 2], padding_mode=border, epilogue=WITH_RESIDUAL[i % 9], stride=stride,
                   dilation=(1, (3, 1), (1, 2), (2, 1))[i % 4], dtype=DTYPES[i // 2 % 3], layout="NHWC",
                   numerics="float16" if i % 5 == 4 and i // 2 % 3 else "float32", body="lines", vector=2, columns=3,
                   width="any", sub_block_rows=(5, 3, 14)[i // 3 % 3], prefetch_rows=2, stage_rows=1 + i % 2,
                   block=(4, 3, 1))


ROWS = {"channels": Rows(CHANNELS_AXES, channels_values, channels_draw, channels_layer, variants=channels_variants,
                         sizes={"n": (1, 2, 3), "h": (1, 2, 7, 14, 33), "w": (1, 7, 14, 28, 33, 56, 96, 99)},
                         typical={**DEPTHWISE_LAYER, "layout": "NHWC"})}
