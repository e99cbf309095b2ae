"""What covers the algorithms of volumes in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import (BORDER_VALUE, BORDERS, CASTS, DTYPES, LAYOUTS, OTHER_FIELDS, OUTPUTS, PIXELS, WEIGHTS,
                        WITH_RESIDUAL, Row, Rows)
from warpconv.codegen.spec import Operation

# filter (planes, rows, columns); the input's depth
LAYER: Mapping[str, tuple] = {
    "filter": ((1, 1, 1), (3, 3, 3), (2, 4, 3), (5, 1, 2), (3, 5, 5), (1, 3, 9)), "depth": (5, 9),
    "channels": ((1, 1, 1), (3, 3, 3), (4, 6, 2), (2, 4, 1), (6, 6, 6), (5, 10, 5)),
    "padding": (0, 1, ((1, 0), (0, 2), (2, 1)), ((2, 1), (4, 0), (1, 5))), "padding_mode": BORDERS,
    "stride": (1, (2, 1, 1), (1, 2, 3)), "dilation": (1, (2, 1, 1), (1, 2, 2)), "layout": LAYOUTS}
AXES: Mapping[str, tuple] = {
    **LAYER, "dtype": DTYPES + PIXELS, "weight_dtype": WEIGHTS, "out_dtype": OUTPUTS, "cast": CASTS,
    "epilogue": WITH_RESIDUAL, "form": ("march", "lanes", "loops"),
    "team": ((32, 4), (16, 2), (8, 4)), "lane_vector": (1, 2), "tap_rows": ("unrolled", "loop"),
    "block": ((32, 8), (8, 16), (4, 8)), "tile": ((1, 1), (1, 2), (2, 4), (4, 4)),
    "k_tile": (1, 2, 3), "chunks": (1, 3), "stages": (2, 3), "vector": (1, 2, 4), "load_vector": (1, 4)}
DATA_AXES: Mapping[str, tuple] = {**LAYER, "dtype": DTYPES, "threads": (32, 256)}
FILTER_AXES: Mapping[str, tuple] = {
    **LAYER, "dtype": DTYPES, "taps": ("all", "plane", "row", "one"), "chunks": (1, 3, 20),
    "form": ("march", "lanes", "loops"), "team": ((32, 4), (16, 2), (8, 4)), "lane_vector": (1, 2),
    "threads": (32, 128), "block": ((8, 4), (8, 16), (32, 4)), "tile": ((1, 1), (2, 2), (2, 4)), "pieces": (1, 2),
    "stages": (2, 3), "vector": (1, 2, 4), "load_vector": (1, 4)}
SIZES: Mapping[str, tuple] = {"n": (1, 2), "h": (5, 9, 14), "w": (11, 18, 20, 36)}
GRADIENT_SIZES: Mapping[str, tuple] = {"n": (1, 2), "h": (5, 9), "w": (11, 18, 20, 36)}
USUAL = {"c": 8, "k": 8, "groups": 8, "d": 9, "t": 3}


def layer_of(row: Row) -> dict[str, Any]:
    (t, r, s), (c, k, groups) = row["filter"], row["channels"]
    layer = {"c": c, "k": k, "groups": groups, "t": t, "r": r, "s": s, "d": row["depth"], "padding": row["padding"]}
    layer.update({name: row[name] for name in OTHER_FIELDS if name in row})
    if row["padding_mode"] == "constant":
        layer["padding_value"] = BORDER_VALUE
    return layer


def values(row: Row) -> dict[str, Any]:
    block = row["team" if row["form"] == "lanes" else "block"]
    found = {"form": row["form"], **dict(zip(("block_size_x", "block_size_y"), block))}
    if row["form"] == "lanes":
        found.update(zip(("rows", "columns"), row["tile"]))
        found.update((name, row[name]) for name in ("chunks", "lane_vector", "tap_rows"))
    if row["form"] == "march":
        found.update(zip(("rows", "columns"), row["tile"]))
        found.update((name, row[name]) for name in ("k_tile", "chunks", "stages", "vector", "load_vector"))
    return found


def filter_values(row: Row) -> dict[str, Any]:
    t, r, s = row["filter"]
    taps = {"all": (t, r, s), "plane": (1, r, s), "row": (1, 1, s), "one": (1, 1, 1)}[row["taps"]]
    found = {"form": row["form"], **dict(zip(("tap_planes", "tap_rows", "tap_columns"), taps)), "chunks": row["chunks"]}
    if row["form"] == "loops":
        return {**found, "threads": row["threads"]}
    found.update(zip(("block_size_x", "block_size_y"), row["team" if row["form"] == "lanes" else "block"]))
    found.update(zip(("rows", "columns"), row["tile"]))
    names = ("lane_vector",) if row["form"] == "lanes" else ("stages", "vector", "load_vector")
    found.update((name, row[name]) for name in ("pieces", *names))
    return found


ONE = {"filter": (3, 3, 3), "depth": 9, "channels": (3, 3, 3), "padding": LAYER["padding"][2], "padding_mode": "zeros",
       "stride": 1, "dilation": 1, "layout": "NCHW", "dtype": "float32"}


def variants() -> Iterable[Row]:
    """Both forms with the ways to load and store."""
    one = {**ONE, "weight_dtype": None, "out_dtype": None, "cast": "nearest", "epilogue": (), "form": "march",
           "block": (8, 16), "tile": (2, 4), "k_tile": 1, "chunks": 1, "stages": 2, "vector": 1,
           "load_vector": 1, "team": (8, 4), "lane_vector": 1, "tap_rows": "unrolled"}
    for changes in (
            {"form": "lanes", "layout": "NHWC", "channels": (6, 6, 6), "dtype": "bfloat16", "lane_vector": 2,
             "tap_rows": "loop", "filter": (3, 5, 5), "dilation": (1, 2, 2)},
            {"form": "lanes", "layout": "NHWC", "padding_mode": "reflect", "stride": (1, 2, 3), "tap_rows": "loop"},
            {"form": "lanes", "layout": "NHWC", "channels": (6, 6, 6), "dtype": "float16", "lane_vector": 2,
             "chunks": 3, "epilogue": WITH_RESIDUAL[-1]},
            {"form": "lanes", "layout": "NHWC", "padding_mode": "symmetric", "stride": (2, 1, 1), "team": (32, 4)},
            {"stages": 3, "load_vector": 4, "vector": 4, "block": (4, 8), "padding": 1},
            {"dtype": "bfloat16", "load_vector": 4},
            {"stages": 3, "padding_mode": "symmetric"},
            {"dtype": "float16", "chunks": 3, "epilogue": WITH_RESIDUAL[-1]},
            {"dtype": "uint8", "weight_dtype": "int8", "padding_mode": "constant", "tile": (1, 2)},
            {"channels": (4, 6, 2), "k_tile": 3, "tile": (1, 2), "stride": (2, 1, 1), "dtype": "bfloat16"},
            {"dilation": (1, 2, 2), "padding_mode": "circular", "block": (4, 8), "tile": (1, 1)},
            {"form": "loops", "layout": "NHWC", "padding_mode": "reflect", "epilogue": WITH_RESIDUAL[1]},
            {"form": "loops", "dtype": "int16", "out_dtype": "int32", "cast": "truncate", "stride": (1, 2, 3)},
            {"filter": (1, 3, 9), "padding_mode": "replicate", "block": (32, 8)}):
        yield {**one, **changes}


def data_variants() -> Iterable[Row]:
    """A border of one value and of the volume's elements, strides and dilations."""
    for changes in ({"padding_mode": "reflect"}, {"stride": (1, 2, 3), "dtype": "float16", "channels": (4, 6, 2)},
                    {"dilation": (1, 2, 2), "layout": "NHWC"}, {"padding_mode": "constant", "stride": (2, 1, 1)}):
        yield {**ONE, "threads": 32, **changes}


def filter_variants() -> Iterable[Row]:
    """All taps in a thread and few, with each border's kind, and the ways to copy and load."""
    one = {**ONE, "taps": "all", "chunks": 3, "threads": 32, "form": "march", "block": (8, 4), "tile": (2, 4),
           "pieces": 1, "stages": 2, "vector": 1, "load_vector": 1, "team": (8, 4), "lane_vector": 1}
    for changes in ({"form": "loops", "padding_mode": "reflect"},
                    {"form": "loops", "taps": "row", "dtype": "float16", "channels": (4, 6, 2)},
                    {"form": "loops", "taps": "plane", "layout": "NHWC", "dilation": (1, 2, 2), "chunks": 20},
                    {"form": "loops", "padding_mode": "constant", "stride": (2, 1, 1), "chunks": 1},
                    {"form": "lanes", "layout": "NHWC", "channels": (6, 6, 6), "dtype": "bfloat16", "lane_vector": 2,
                     "pieces": 2, "taps": "plane"},
                    {"form": "lanes", "layout": "NHWC", "padding_mode": "constant", "stride": (1, 2, 3),
                     "team": (16, 2)},
                    {"stages": 3, "load_vector": 4, "vector": 4, "pieces": 2, "padding": 1},
                    {"dtype": "float16", "load_vector": 4, "vector": 4, "channels": (4, 6, 2), "stride": (2, 1, 1),
                     "padding": 1},
                    {"dtype": "bfloat16", "vector": 2, "tile": (2, 2), "padding_mode": "circular", "stride": (1, 2, 3),
                     "block": (32, 4)},
                    {"padding_mode": "constant", "taps": "plane", "dilation": (2, 1, 1), "chunks": 1},
                    {"padding_mode": "replicate", "dtype": "float16", "tile": (1, 1), "taps": "row", "stages": 2}):
        yield {**one, **changes}


ROWS: Mapping[str, Rows] = {
    "volume": Rows(AXES, values, sizes=SIZES, variants=variants, layer=layer_of, usual=USUAL,
                   arrays=True),
    "volume_data": Rows(DATA_AXES, lambda row: {"threads": row["threads"]}, sizes=GRADIENT_SIZES, layer=layer_of,
                        variants=data_variants, usual=USUAL, operation=Operation.DATA_GRADIENT.value),
    "volume_filter": Rows(FILTER_AXES, filter_values, sizes=GRADIENT_SIZES, variants=filter_variants, layer=layer_of,
                          usual=USUAL, operation=Operation.FILTER_GRADIENT.value,
                          arrays=True)}
