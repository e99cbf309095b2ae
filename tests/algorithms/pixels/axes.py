"""What covers ``pixels`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import (BORDERS, CASTS, DEPTHWISE_LAYER, EPILOGUES, LAYOUTS, OUTPUTS, PADDINGS, PITCHES, PIXELS,
                        WEIGHTS, Choose, Row, Rows)

PIXELS_CHANNELS = ((1, 1, 1), (1, 3, 1), (3, 3, 3), (4, 4, 4), (2, 6, 2))
PIXELS_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (2, 7), (6, 3), (1, 17), (17, 1), (4, 4), (11, 11), (3, 6)),
    "channels": PIXELS_CHANNELS, "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 2), (2, 1), 3),
    "dilation": (1, 2, (2, 1), (1, 3)), "dtype": PIXELS, "weight_dtype": WEIGHTS, "out_dtype": OUTPUTS,
    "cast": CASTS, "padding_mode": BORDERS, "layout": LAYOUTS, "pitch": PITCHES, "columns": (4, 8, 12, 16),
    "vector": (1, 2, 4, 8, 16), "store_vector": (1, 2, 4, 16), "sums": ("float", "dp4a", "mad"),
    "weights": ("registers", "shared", "constant"), "sub_block_rows": (1, 3, 7, 16, 56), "prefetch_rows": (1, 2, 3, 4),
    "warps": ((1, 1, 1), (2, 1, 1), (1, 3, 1), (4, 2, 1), (1, 2, 2), (1, 1, 3)), "filters": (1, 2, 3)}


def pixels_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("columns", "vector", "sums", "weights", "sub_block_rows", "prefetch_rows")}
    values.update(zip(("warp_columns", "warp_rows", "warp_planes"), row["warps"]))
    values.update(store_vector=row["store_vector"], filters=row.get("filters", 1))
    return values


def pixels_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers, some with several filters a channel; images with their channels side by side."""
    groups, layout = choose((1, 1, 2, 3, 3, 4, 5)), choose(("NCHW", "NCHW", "NHWC"))
    return {"c": groups, "k": groups * choose((1, 1, 1, 2, 3) if layout == "NCHW" else (1,)), "groups": groups,
            "layout": layout,
            "r": choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 11)), "s": choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 12)),
            "dtype": choose(PIXELS)}


def pixels_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other sub-blocks, rows ahead, rows at any address."""
    return choose(({}, {}, {"sub_block_rows": choose((1, 2, 5, 16, 40)), "prefetch_rows": choose((1, 2, 3, 5)),
                            "weights": choose(("registers", "shared")), "warp_columns": choose((1, 2)),
                            "warp_rows": choose((1, 2, 3)), "warp_planes": 1, "filters": 1}, {"vector": 1}))


def pixels_variants() -> Iterable[Row]:
    """Every type of input and of filter, with where its weights are and how rows are loaded; every type of output."""
    kinds = itertools.product(PIXELS, WEIGHTS, ("registers", "shared"), (1, 4))
    for i, (dtype, weight, weights, vector) in enumerate(kinds):
        sums = "float" if weight is None else "dp4a" if dtype.endswith("t8") and weight == "int8" else "mad"
        yield dict(filter=((3, 3), (5, 4), (2, 7), (4, 6))[i % 4], dtype=dtype,
                   channels=((1, 1, 1), (1, 3, 1), (3, 3, 3), (2, 6, 2))[i % 4],
                   padding=("same", ((2, 0), (1, 3)), "large", "valid")[i // 2 % 4], epilogue=EPILOGUES[i % 5],
                   stride=(1, 1, 2, (2, 1))[i % 4], dilation=1 if sums == "dp4a" else (1, (2, 1), (1, 3))[i // 3 % 3],
                   weight_dtype=weight, out_dtype=OUTPUTS[i % len(OUTPUTS)], cast=CASTS[i // 4 % 2],
                   padding_mode=BORDERS[i % 6], columns=(4, 8)[i // 2 % 2], vector=vector,
                   store_vector=(1, 4, 2)[i % 3] if i // 2 % 4 == 0 else 1, sums=sums, weights=weights,
                   sub_block_rows=(1, 7, 16)[i % 3],
                   prefetch_rows=1 + i % 3, warps=PIXELS_AXES["warps"][i % 4], layout="NCHW")
    for i, dtype in enumerate(PIXELS):
        yield dict(filter=((5, 5), (4, 7))[i % 2], channels=(1, 1, 1), dtype=dtype, padding="same",
                   epilogue=EPILOGUES[i], stride=1, dilation=1, weight_dtype=None, out_dtype=None, cast=CASTS[i % 2],
                   padding_mode=BORDERS[i],
                   columns=8, vector=(1, 4)[i % 2], store_vector=1, sums="float", weights="constant", sub_block_rows=16,
                   prefetch_rows=2, warps=(1, 3, 1), layout="NCHW")
    for i, (dtype, c, mode) in enumerate(itertools.product(("uint8", "int16"), (3, 4), BORDERS)):
        weight, out = (None, "int8")[i // 2 % 2], (None, "float16", "float32")[i % 3]
        yield dict(filter=((3, 3), (2, 5))[i % 2], channels=(c, c, c), dtype=dtype,
                   padding=("same", "large")[i // 3 % 2], epilogue=EPILOGUES[i % 5],
                   stride=(1, (1, 2))[i // 6 % 2], dilation=(1, (2, 2))[i // 4 % 2],
                   weight_dtype=weight, out_dtype=out, cast="nearest", padding_mode=mode, columns=12 if c == 3 else 8,
                   vector=(1, 4)[i // 2 % 2], store_vector=1, sums="mad" if weight else "float",
                   weights=("registers", "shared")[i % 2], sub_block_rows=(1, 7, 16)[i % 3], prefetch_rows=1 + i % 3,
                   warps=PIXELS_AXES["warps"][i % 4], layout="NHWC")
    for i, (layout, pitch, vector) in enumerate(itertools.product(LAYOUTS, PITCHES[1:], (1, 4))):
        if pitch == "odd" and vector > 1:
            continue
        yield dict(filter=((3, 3), (2, 5))[i % 2], channels=(3, 3, 3) if layout == "NHWC" else (2, 6, 2),
                   dtype=PIXELS[i % 4], padding="same", epilogue=EPILOGUES[i % 5],
                   stride=(1, 1, (1, 2))[i % 3], dilation=1, weight_dtype=None, out_dtype=(None, "float32")[i // 3 % 2],
                   cast="nearest", padding_mode=BORDERS[i % 6], columns=12 if layout == "NHWC" else 8, vector=vector,
                   store_vector=1 if pitch == "odd" else min(2, vector), sums="float", weights="registers",
                   sub_block_rows=7, prefetch_rows=2, layout=layout, pitch=pitch,
                   filters=3 if layout == "NCHW" and i % 2 else 1,
                   warps=(1, 1, 1 if layout == "NHWC" or i % 2 else 3))


PIXELS_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 14, 31, 56, 70),
                                     "w": (1, 8, 16, 28, 33, 96, 100, 130, 264, 272, 400, 524, 777, 1040)}


ROWS = {"pixels": Rows(PIXELS_AXES, pixels_values, pixels_draw, pixels_layer, sizes=PIXELS_SIZES,
                       variants=pixels_variants,
                       typical={**DEPTHWISE_LAYER, "dtype": "uint8"})}
