"""What covers ``wide`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import (BIAS, BORDERS, CASTS, DEPTHWISE_LAYER, DTYPES, EPILOGUES, PADDINGS, PITCHES, RELU,
                        WITH_RESIDUAL, Choose, Row, Rows)

WIDE_CHANNELS = ((1, 1, 1), (1, 3, 1), (3, 3, 3), (5, 5, 5), (2, 6, 2), (4, 4, 2), (6, 4, 2))
WIDE_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (2, 7), (6, 3), (1, 17), (17, 1), (9, 9), (13, 13)),
    "channels": WIDE_CHANNELS, "padding": PADDINGS, "padding_mode": BORDERS,
    "epilogue": WITH_RESIDUAL, "stride": (1, 2, (1, 2), (2, 1), 3),
    "dilation": (1, 2, (2, 1)), "dtype": DTYPES, "columns": (1, 2, 4, 8), "vector": (1, 2, 4, 8),
    "store_vector": (1, 8),
    "span": (("strips", 32), ("packed", 4), ("packed", 7), ("packed", 14), ("packed", 32)),
    "separators": ("zero_lanes", "select", "none"), "edges": ("interior", "guarded"),
    "sub_block_rows": (1, 3, 7, 16, 56),
    "ahead": ((1, 1), (2, 1), (2, 2), (3, 1), (4, 2)), "weights": ("registers", "shared", "constant"),
    "loads": ("registers", "async", "cached"), "pipeline": ("paired", "copied"), "tap_rows": ("all", "needed"),
    "warps": ((1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 4), (2, 2, 2)), "separable": (False, True),
    "out_dtype": (None, "uint8", "int8", "uint16", "int16"), "cast": CASTS, "pitch": PITCHES}


def wide_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("columns", "vector", "separators", "edges", "sub_block_rows", "weights",
                                           "loads",
                                           "pipeline", "tap_rows")}
    values.update(zip(("warp_columns", "warp_rows", "warp_planes"), row["warps"]))
    values.update(zip(("span", "row_lanes"), row["span"]), store_vector=min(row["store_vector"], row["columns"]))
    values.update(zip(("prefetch_rows", "stage_steps"), row["ahead"]))
    return values


def wide_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers; some with two and three channels a group."""
    groups, channels = choose((1, 1, 2, 3, 5, 8)), choose((1, 1, 1, 1, 2, 3))
    r, s = choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 11)), choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 12))
    return {"c": groups * channels, "k": groups * choose((1, 1, 1, 2, 3)), "groups": groups, "layout": "NCHW",
            "r": r, "s": s, "dtype": choose(DTYPES),
            "separable": channels == 1 and min(r, s) > 1 and choose((False, False, True))}


def wide_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other sub-blocks, pipelines and ways to load."""
    loads, ahead = choose((("registers", 1), ("registers", 1), ("async", 1), ("cached", 2))), choose((2, 4))
    loads, turn = loads
    return choose(({}, {}, {"sub_block_rows": choose((1, 2, 5, 16, 40)), "prefetch_rows": ahead, "stage_steps": turn,
                            "loads": loads, "pipeline": choose(("paired", "copied")), "warp_planes": 1,
                            "edges": choose(("interior", "guarded")), "warp_rows": choose((1, 2, 3)),
                            "weights": choose(("registers", "shared")) if layer["c"] == layer["groups"] else "shared"}))


def wide_variants() -> Iterable[Row]:
    """Way of loading x where the weights are x how rows lie on the lanes, in every type; several channels."""
    spans = ((("strips", 32), "zero_lanes", 4), (("packed", 16), "zero_lanes", 4), (("packed", 16), "select", 2))
    for i, (dtype, out, (span, gaps, columns)) in enumerate(itertools.product(DTYPES, ("uint8", "int8"), spans)):
        yield dict(filter=((3, 3), (5, 4))[i % 2], padding="same", channels=(3, 3, 3), epilogue=EPILOGUES[i % 7],
                   stride=1, dilation=1, dtype=dtype, out_dtype=out, cast=CASTS[i % 2], columns=columns, vector=1,
                   store_vector=(1, 4)[i % 2], span=span, separators=gaps, edges="interior", sub_block_rows=7,
                   ahead=(1, 1),
                   weights="registers", loads="registers", pipeline="paired", tap_rows="all", warps=(1, 1, 1))
    kinds = itertools.product(WIDE_AXES["loads"], WIDE_AXES["weights"], spans)
    for i, (loads, weights, (span, gaps, columns)) in enumerate(kinds):
        yield dict(filter=((3, 3), (5, 4), (2, 7))[i % 3], padding=("same", ((2, 0), (1, 3)), "large")[i // 2 % 3],
                   channels=(1, 1, 1) if weights == "constant" else ((3, 3, 3), (2, 6, 2))[i % 2],
                   epilogue=WITH_RESIDUAL[i % 9], stride=(1, 1, 2, (2, 1))[i % 4], dilation=(1, (2, 1), 1)[i // 3 % 3],
                   dtype="float32" if weights == "constant" else DTYPES[i % 3], columns=columns, vector=2,
                   store_vector=1, span=span, separators=gaps, edges=("interior", "guarded")[i // 3 % 2],
                   sub_block_rows=(1, 7, 16)[i % 3], padding_mode=BORDERS[i % 6],
                   ahead=(2, 1 if loads == "registers" else 1 + i % 2), weights=weights, loads=loads,
                   pipeline=("paired", "copied")[i % 2], tap_rows="all", warps=WIDE_AXES["warps"][i % 5])
    for i, dtype in enumerate(DTYPES):
        yield dict(filter=(3, 3), padding="large", channels=((4, 4, 2), (6, 4, 2), (2, 2, 1))[i], epilogue=(BIAS, RELU),
                   stride=(1, 2, 1)[i], dilation=(1, 1, 2)[i], dtype=dtype, columns=2, vector=2, store_vector=1,
                   span=spans[i][0], separators=spans[i][1], edges="guarded", sub_block_rows=5, ahead=(1, 1),
                   weights="shared", loads="registers", pipeline="paired", tap_rows="all", warps=(1, 2, 1))
        yield dict(filter=(5, 5), padding="same", channels=(1, 1, 1), epilogue=(), stride=1, dilation=1, dtype=dtype,
                   columns=4, vector=4, store_vector=2, span=("strips", 32), separators="zero_lanes", edges="interior",
                   sub_block_rows=7, ahead=(2, 1), weights="registers", loads=WIDE_AXES["loads"][i], pipeline="paired",
                   tap_rows="needed", warps=(1, 2, 1))
    for i, (weights, loads) in enumerate(itertools.product(WIDE_AXES["weights"], WIDE_AXES["loads"])):
        yield dict(filter=((5, 4), (11, 5), (3, 9))[i % 3], padding=("same", "large", ((2, 0), (1, 3)))[i // 3],
                   channels=(1, 1, 1) if weights == "constant" else ((3, 3, 3), (2, 6, 2))[i % 2],
                   epilogue=WITH_RESIDUAL[i % 9], stride=(1, 1, (2, 1))[i // 2 % 3], dilation=(1, 1, (2, 1))[i // 3],
                   dtype=DTYPES[(i + i // 3) % 3], columns=4, vector=2, store_vector=1, span=spans[i % 3][0],
                   separators=spans[i % 3][1], edges=("interior", "guarded")[i % 2], sub_block_rows=(7, 16)[i % 2],
                   ahead=(2, 1), weights=weights, loads=loads, pipeline=("paired", "copied")[i % 2],
                   tap_rows="needed" if i == 3 else "all", warps=WIDE_AXES["warps"][i % 5], separable=True)
    yield from wide_borders()
    yield from wide_pitches()
    yield from wide_seams()


def wide_seams() -> Iterable[Row]:
    """Stacked warps of separable filters: each border x way of loading x type, with strides, dilations, epilogues."""
    kinds = itertools.product(BORDERS, WIDE_AXES["loads"])
    for i, (border, loads) in enumerate(kinds):
        yield dict(filter=((5, 4), (11, 5), (17, 3))[i // 2 % 3], padding=("same", "large", ((2, 0), (1, 3)))[i % 3],
                   padding_mode=border, channels=((1, 1, 1), (3, 3, 3))[i // 4 % 2], epilogue=WITH_RESIDUAL[i % 9],
                   stride=(1, 2, (2, 1), 1)[i // 3 % 4], dilation=(1, (2, 1), 1)[i // 5 % 3], dtype=DTYPES[i // 3 % 3],
                   columns=(4, 2)[i % 2], vector=2, store_vector=1, span=("strips", 32), separators="zero_lanes",
                   edges=("interior", "guarded")[i // 3 % 2], sub_block_rows=(1, 7, 16)[i % 3],
                   ahead=(2, 1 if loads == "registers" else 1 + i % 2), weights=("registers", "shared")[i // 2 % 2],
                   loads=loads, pipeline=("paired", "copied")[i % 2], tap_rows="all",
                   warps=((1, 3, 1), (2, 2, 1), (1, 2, 2))[i % 3], separable=True)


def wide_borders() -> Iterable[Row]:
    """Each border x way of loading x how rows lie on the lanes, and several channels."""
    spans = ((("strips", 32), "zero_lanes", 4), (("packed", 14), "select", 2), (("packed", 14), "zero_lanes", 4))
    kinds = itertools.product(BORDERS[1:], WIDE_AXES["loads"], spans)
    for i, (border, loads, (span, gaps, columns)) in enumerate(kinds):
        channels = (2, 2, 1) if loads == "registers" and i % 4 == 0 else ((1, 1, 1), (3, 3, 3))[i % 2]
        whole = span[0] == "packed" and border != "constant" and i % 2
        padding = "same" if whole else ("same", ((2, 0), (1, 3)), "large")[i % 3]
        yield dict(filter=((3, 3), (5, 4), (2, 7), (4, 3))[i % 4], padding=padding, padding_mode=border,
                   channels=channels, epilogue=(), stride=1 if whole else (1, 1, 2, (2, 1))[i // 3 % 4],
                   dilation=(1, (2, 1), 1)[i // 5 % 3], dtype=DTYPES[i % 3], columns=columns, vector=2, store_vector=1,
                   span=span, separators="none" if whole else gaps, edges=("interior", "guarded")[i // 2 % 2],
                   sub_block_rows=(1, 7, 16)[i % 3], ahead=(2, 1 if loads == "registers" else 1 + i % 2),
                   weights="shared" if channels == (2, 2, 1) else "registers", loads=loads,
                   pipeline=("paired", "copied")[i % 2], tap_rows="all", warps=WIDE_AXES["warps"][i % 5],
                   separable=bool(i % 6 == 4 and channels != (2, 2, 1)))


def wide_pitches() -> Iterable[Row]:
    """Which arrays have gaps x way of loading x how rows lie on the lanes; several channels."""
    spans = ((("strips", 32), "zero_lanes"), (("packed", 14), "select"))
    for i, (pitch, loads, (span, gaps)) in enumerate(itertools.product(PITCHES[1:], WIDE_AXES["loads"], spans)):
        channels = (4, 4, 2) if loads == "registers" and i % 4 == 1 else ((2, 6, 2), (3, 3, 3))[i % 2]
        vector = 1 if pitch == "odd" else 2
        yield dict(filter=((3, 3), (5, 4))[i % 2], padding=("same", "large")[i % 2], padding_mode=BORDERS[i % 6],
                   channels=channels, epilogue=WITH_RESIDUAL[i % 9], stride=(1, (2, 1))[i // 3 % 2], dilation=1,
                   dtype="float32" if vector == 1 and loads != "registers" else DTYPES[i % 3], columns=4, vector=vector,
                   store_vector=1 if pitch == "odd" or i % 2 else 2, span=span, separators=gaps,
                   edges=("interior", "guarded")[i % 2], sub_block_rows=7, ahead=(2, 1), loads=loads, pipeline="paired",
                   tap_rows="all", warps=(1, 2, 1), weights="shared" if channels == (4, 4, 2) else "registers",
                   pitch=pitch)


WIDE_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 14, 31, 56, 70),
                                   "w": (1, 7, 8, 14, 16, 28, 33, 56, 96, 130, 136, 264, 272, 520)}


ROWS = {"wide": Rows(WIDE_AXES, wide_values, wide_draw, wide_layer, sizes=WIDE_SIZES, variants=wide_variants,
                     typical=DEPTHWISE_LAYER)}
