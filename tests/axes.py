"""How the tests cover each algorithm: one row of ROWS each, read by the case table and by the drawn layers.

Adding an algorithm: its axes (the values that shall meet in pairs), a function that turns a row of them into plan
values, one that draws plan values for a drawn layer, and what else differs from the usual. The axes below are
understood for every algorithm, and those that are left out have the layer's default:

    filter (R, S) · channels (C, K, groups) · padding · stride · dilation · dtype · layout · epilogue · numerics
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Sequence

from warpconv.codegen.spec import Epilogue

Row = Mapping[str, Any]
Choose = Callable[[Sequence[Any]], Any]

BIAS, RELU = Epilogue.BIAS, Epilogue.RELU
# filter (rows, columns): every width 1..13 and 31; square, flat, tall, even
FILTERS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (2, 10), (3, 11), (1, 12), (4, 13),
           (3, 31), (1, 3), (5, 1), (9, 2), (3, 5), (5, 4), (11, 3))
# (C, K, groups)
CHANNELS = ((1, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (5, 2, 1), (4, 6, 2), (3, 3, 3), (2, 6, 2))
PADDINGS = ("valid", "same", ((0, 1), (2, 0)), ((3, 0), (0, 1)), "large")
EPILOGUES = ((), (BIAS,), (RELU,), (BIAS, RELU), (RELU, BIAS))
DTYPES = ("float32", "float16", "bfloat16")
LAYOUTS = ("NCHW", "NHWC")
# image sizes: those around the 32 lanes, tall and wide ones
SIZES: Mapping[str, tuple] = {
    "n": (1, 2, 3), "h": (1, 5, 31, 32, 33, 63, 64, 65, 240), "w": (1, 7, 31, 32, 33, 63, 64, 65, 200)}


@dataclass(frozen=True)
class Rows:
    """One algorithm in the tests.

    ``values``: a row's plan values. ``draw``: plan values for a drawn layer (its fields so far, as ConvShape takes
    them); where it gives none, the planner's own. ``draw_layer``: fields over those drawn for every algorithm, which
    see ``drawn.draw_layer``. ``sizes``: images, covered in pairs; of them a kernel runs on those that its plan takes.
    ``variants``: rows to execute with every access checked.
    """

    axes: Mapping[str, tuple]
    values: Callable[[Row], dict[str, Any]]
    draw: Callable[[Choose, Row], dict[str, Any]] = lambda choose, layer: {}
    draw_layer: Callable[[Choose], dict[str, Any]] = lambda choose: {}
    sizes: Mapping[str, tuple] = field(default_factory=lambda: SIZES)
    variants: Callable[[], Iterable[Row]] = lambda: ()


def layer_of(row: Row) -> dict[str, Any]:
    """The fields of ConvShape, without sizes, that a row of any algorithm stands for."""
    (r, s), (c, k, groups) = row["filter"], row["channels"]
    layer = {"c": c, "k": k, "groups": groups, "r": r, "s": s, "padding": row.get("padding", 0)}
    layer.update({name: row[name] for name in ("stride", "dilation", "dtype", "layout") if name in row})
    if layer["padding"] == "same" and row.get("stride", 1) not in (1, (1, 1)):
        layer["padding"] = (r // 2, s // 2)
    if layer["padding"] == "large":            # larger than the filter: whole windows of zeros
        layer["padding"] = ((r + 1, r + 2), (s + 2, s + 1))
    return layer


def k_tile(choose: Choose, layer: Row) -> int:
    """A number of filters that divides those of a group."""
    return choose([t for t in (1, 2, 3, 4, 6) if layer["k"] // layer["groups"] % t == 0])


# ---- reuse

REUSE_AXES: Mapping[str, tuple] = {
    "filter": FILTERS, "channels": CHANNELS, "padding": PADDINGS, "epilogue": EPILOGUES,
    "exchange": ("packed", "select", "dynamic", "dynamic_local", "none"), "rows": ("reuse", "reload"),
    "decomposition": ("paper", "fewest_loads", "shared_ends"), "weights": ("shared", "constant", "cached"),
    "edges": ("direct", "predicated"), "sub_block_rows": (3, 7, 16, 56),
    "warps": ((1, 4), (4, 1), (2, 2), (1, 1), (3, 2)), "ring": ("turning", "shifted"),
    "rows_ahead": (1, 2, 3, 8), "k_tile": (1, 2, 3),
    "min_blocks": (1, 3)}


def reuse_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("exchange", "rows", "decomposition", "weights", "edges",
                                           "sub_block_rows", "ring", "rows_ahead", "k_tile", "min_blocks")}
    values.update(warp_columns=row["warps"][0], warp_rows=row["warps"][1],
                  rows_ahead=min(row["rows_ahead"], row["filter"][0]))
    return values


def reuse_layer(choose: Choose) -> dict[str, Any]:
    s = choose((1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13, 17, 31))
    return {"s": s, "r": choose((1, 2, 3, 3, 4, 5, 5, 7) if s < 14 else (1, 2, 3)), "stride": 1, "dilation": 1,
            "dtype": "float32", "layout": "NCHW"}


def reuse_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"exchange": choose(("select", "select", "packed", "dynamic", "dynamic_local", "none")),
            "rows": choose(("reuse", "reuse", "reload")), "weights": choose(("shared", "shared", "constant", "cached")),
            "decomposition": choose(("paper", "fewest_loads", "shared_ends")),
            "edges": choose(("direct", "predicated")), "sub_block_rows": choose((1, 2, 3, 5, 8, 13, 32, 56)),
            "warp_columns": choose((1, 1, 2, 3, 4)), "warp_rows": choose((1, 2, 4)), "k_tile": k_tile(choose, layer),
            "ring": choose(("derived", "turning", "shifted")),
            "rows_ahead": choose((1, 1, 2, 3, 5, 9)), "min_blocks": choose((1, 1, 2, 4))}


def reuse_variants() -> Iterable[Row]:
    """Exchange x (rows, ring) x weights x edges."""
    axes = [REUSE_AXES[name] for name in ("exchange", "weights", "edges")]
    rings = (("reuse", "turning"), ("reuse", "shifted"), ("reload", "turning"))
    for i, (exchange, weights, edges, (rows, ring)) in enumerate(itertools.product(*axes, rings)):
        channels = (CHANNELS[0], CHANNELS[2], CHANNELS[5])[i % 3]
        yield dict(filter=(3, 7), channels=channels, padding="same", epilogue=EPILOGUES[i % 4], exchange=exchange,
                   rows=rows, weights=weights, edges=edges, decomposition=REUSE_AXES["decomposition"][i % 3],
                   sub_block_rows=7, warps=REUSE_AXES["warps"][i % 5], ring=ring, rows_ahead=1 + i % 2,
                   k_tile=channels[1] // channels[2] if i % 2 else 1, min_blocks=1)


# ---- direct

DIRECT_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (4, 7), (13, 2), (1, 9), (31, 31)), "channels": CHANNELS,
    "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3), (4, 1)), "dilation": (1, 2, (3, 1)),
    "dtype": DTYPES, "layout": LAYOUTS,
    "block": ((64, 4), (32, 1), (8, 32), (16, 3), (256, 1)), "k_tile": (1, 2, 3)}


def direct_values(row: Row) -> dict[str, Any]:
    return {"block_size_x": row["block"][0], "block_size_y": row["block"][1], "k_tile": row["k_tile"]}


def direct_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"block_size_x": choose((8, 16, 32, 64, 128)), "block_size_y": choose((4, 5, 8)),
            "k_tile": k_tile(choose, layer)}


def direct_variants() -> Iterable[Row]:
    """Each block, in every type and layout."""
    for i, block in enumerate(DIRECT_AXES["block"]):
        for j, (dtype, layout) in enumerate(itertools.product(DTYPES, LAYOUTS)):
            yield dict(filter=(3, 4), channels=CHANNELS[(i + j) % 8], padding=PADDINGS[i],
                       epilogue=EPILOGUES[(i + j) % 5], stride=((1, 1), (2, 1), (1, 3), (2, 2), (1, 1))[i],
                       dilation=1 + i // 3, dtype=dtype, layout=layout, block=block, k_tile=1)


# ---- staged

# depthwise, some with a channel multiplier; numbers of filters that groups of planes divide, and that they do not
STAGED_CHANNELS = ((1, 1, 1), (3, 3, 3), (32, 32, 32), (16, 32, 16), (2, 6, 2), (48, 48, 48))
STAGED_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (7, 7), (4, 1), (1, 5), (9, 9)), "channels": STAGED_CHANNELS,
    "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3)), "dilation": (1, (2, 1), (1, 2)),
    "dtype": DTYPES, "rows": (1, 2, 3), "planes": (6, 16, 32), "stage": (("async", 1), ("async", 2), ("registers", 1)),
    "weights": ("registers", "shared"), "vector": (1, 2, 8)}


def staged_values(row: Row) -> dict[str, Any]:
    stage, buffers = row["stage"]
    return {"stage": stage, "buffers": buffers, **{name: row[name] for name in ("rows", "planes", "weights", "vector")}}


def staged_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else values that go with any small plane."""
    multiplier = layer["k"] // layer["groups"]
    return choose(({}, {}, {"rows": choose((1, 2, 3)), "planes": choose((1, 8, 16)) * multiplier, "buffers": 1,
                            "stage": choose(("async", "registers")), "weights": choose(("registers", "shared"))}))


def staged_layer(choose: Choose) -> dict[str, Any]:
    """Depthwise in NCHW."""
    channels = choose((1, 2, 3, 7, 16, 32, 33, 64))
    return {"c": channels, "k": channels * choose((1, 1, 1, 2, 3)), "groups": channels, "layout": "NCHW"}


def staged_variants() -> Iterable[Row]:
    """Way of staging x where the weights are x type."""
    axes = [STAGED_AXES[name] for name in ("stage", "weights", "dtype")]
    for i, (stage, weights, dtype) in enumerate(itertools.product(*axes)):
        yield dict(filter=((3, 3), (5, 5), (2, 3))[i % 3], channels=STAGED_CHANNELS[2 + i % 2], padding="same",
                   epilogue=EPILOGUES[i % 5], stride=1, dilation=1, dtype=dtype, rows=1 + i % 3, planes=(32, 16)[i % 2],
                   stage=stage, weights=weights, vector=8)


STAGED_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (3, 5, 7, 14, 20, 28), "w": (4, 7, 12, 14, 17)}


# ---- channels

DEPTHWISE = ((1, 1, 1), (1, 3, 1), (3, 3, 3), (6, 6, 6), (8, 8, 8), (4, 8, 4), (3, 12, 3), (32, 32, 32),
             (130, 130, 130))
CHANNELS_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (2, 4), (7, 1), (1, 6), (7, 7), (9, 11)), "channels": DEPTHWISE,
    "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3), (4, 1), (6, 2)),
    "dilation": (1, 2, (3, 1), (4, 3)), "dtype": DTYPES, "layout": ("NHWC",), "numerics": ("float32", "float16"),
    "body": ("ring", "tile"), "vector": (1, 2, 4, 8), "columns": (1, 2, 4, 7), "width": ("any", "whole"),
    "sub_block_rows": (1, 3, 7, 14), "rows_ahead": (1, 2, 3), "block": ((32, 2, 1), (3, 4, 2), (16, 1, 4))}


def channels_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("body", "vector", "columns", "width", "sub_block_rows", "rows_ahead")}
    values.update(zip(("block_channels", "block_columns", "block_rows"), row["block"]))
    return values


def channels_layer(choose: Choose) -> dict[str, Any]:
    channels, filters = choose((1, 2, 3, 8, 8, 24, 40, 64)), choose((1, 1, 1, 2, 3, 4))
    return {"c": channels, "k": channels * filters, "groups": channels, "layout": "NHWC",
            "dtype": choose(DTYPES), "dilation": choose((1, 1, 1, 2, (3, 1)))}


def channels_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    if choose((True, False)):
        return {}
    body = choose(("ring", "ring", "tile"))
    return {"body": body, "vector": choose((1, 2, 4, 8) if body == "ring" else (1, 1, 2)),
            "columns": choose((1, 2, 3, 4, 7, 8)), "width": choose(("any", "any", "whole")),
            "sub_block_rows": choose((1, 2, 5, 14, 56) if body == "ring" else (1, 2, 4, 7)),
            "rows_ahead": choose((1, 1, 2, 3)) if body == "ring" else 1, "block_channels": choose((1, 3, 16, 32)),
            "block_columns": choose((1, 2, 5)), "block_rows": choose((1, 1, 2))}


def channels_variants() -> Iterable[Row]:
    """Each body in every type and arithmetic."""
    kinds = [(dtype, "float32") for dtype in DTYPES] + [(dtype, "float16") for dtype in DTYPES[1:]]
    for i, ((dtype, numerics), body) in enumerate(itertools.product(kinds, ("ring", "tile"))):
        yield dict(filter=((3, 3), (2, 5))[i % 2], channels=((8, 8, 8), (6, 6, 6))[i // 2 % 2], padding="large",
                   epilogue=EPILOGUES[i % 5], stride=(1, 2, (3, 1))[i % 3], dilation=(1, (2, 1), 1, (1, 2))[i % 4],
                   dtype=dtype, layout="NHWC", numerics=numerics, body=body,
                   vector=2 if body == "ring" or numerics == "float16" else 1, columns=3,
                   width=("any", "whole")[i // 4 % 2],
                   sub_block_rows=5, rows_ahead=1 + i // 2 % 2 if body == "ring" else 1, block=(3, 4, 2))


# ---- wide

WIDE_CHANNELS = ((1, 1, 1), (1, 3, 1), (3, 3, 3), (5, 5, 5), (2, 6, 2), (4, 4, 2), (6, 4, 2))
WIDE_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (2, 7), (6, 3), (1, 17), (17, 1), (9, 9), (13, 13)),
    "channels": WIDE_CHANNELS, "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 2), (2, 1), 3),
    "dilation": (1, 2, (2, 1)), "dtype": DTYPES, "columns": (1, 2, 4, 8), "vector": (1, 2, 4, 8),
    "store_vector": (1, 8),
    "span": (("strips", 32), ("packed", 4), ("packed", 7), ("packed", 14), ("packed", 32)),
    "gaps": ("zero_lanes", "select"), "edges": ("interior", "guarded"), "sub_block_rows": (1, 3, 7, 16, 56),
    "ahead": ((1, 1), (2, 1), (2, 2), (3, 1), (4, 2)), "weights": ("registers", "shared", "constant"),
    "loads": ("registers", "async", "cached"), "pipeline": ("paired", "copied"), "tap_rows": ("all", "needed"),
    "warps": ((1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 4), (2, 2, 2))}


def wide_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("columns", "vector", "gaps", "edges", "sub_block_rows", "weights", "loads",
                                           "pipeline", "tap_rows")}
    values.update(zip(("warp_columns", "warp_rows", "warp_planes"), row["warps"]))
    values.update(zip(("span", "row_lanes"), row["span"]), store_vector=min(row["store_vector"], row["columns"]))
    values.update(zip(("rows_ahead", "turn_steps"), row["ahead"]))
    return values


def wide_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers; some with two and three channels a group."""
    groups, channels = choose((1, 1, 2, 3, 5, 8)), choose((1, 1, 1, 1, 2, 3))
    return {"c": groups * channels, "k": groups * choose((1, 1, 1, 2, 3)), "groups": groups, "layout": "NCHW",
            "r": choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 11)), "s": choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 12)),
            "dtype": choose(DTYPES)}


def wide_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other sub-blocks, pipelines and ways to load."""
    loads, ahead = choose((("registers", 1), ("registers", 1), ("async", 1), ("cached", 2))), choose((2, 4))
    loads, turn = loads
    return choose(({}, {}, {"sub_block_rows": choose((1, 2, 5, 16, 40)), "rows_ahead": ahead, "turn_steps": turn,
                            "loads": loads, "pipeline": choose(("paired", "copied")), "warp_planes": 1,
                            "edges": choose(("interior", "guarded")), "warp_rows": choose((1, 2, 3)),
                            "weights": choose(("registers", "shared")) if layer["c"] == layer["groups"] else "shared"}))


def wide_variants() -> Iterable[Row]:
    """Way of loading x where the weights are x how rows lie on the lanes, in every type; several channels."""
    spans = ((("strips", 32), "zero_lanes", 4), (("packed", 16), "zero_lanes", 4), (("packed", 16), "select", 2))
    kinds = itertools.product(WIDE_AXES["loads"], WIDE_AXES["weights"], spans)
    for i, (loads, weights, (span, gaps, columns)) in enumerate(kinds):
        yield dict(filter=((3, 3), (5, 4), (2, 7))[i % 3], padding=("same", ((2, 0), (1, 3)), "large")[i // 2 % 3],
                   channels=(1, 1, 1) if weights == "constant" else ((3, 3, 3), (2, 6, 2))[i % 2],
                   epilogue=EPILOGUES[i % 5], stride=(1, 1, 2, (2, 1))[i % 4], dilation=(1, (2, 1), 1)[i // 3 % 3],
                   dtype="float32" if weights == "constant" else DTYPES[i % 3], columns=columns, vector=2,
                   store_vector=1, span=span, gaps=gaps, edges=("interior", "guarded")[i // 3 % 2],
                   sub_block_rows=(1, 7, 16)[i % 3],
                   ahead=(2, 1 if loads == "registers" else 1 + i % 2), weights=weights, loads=loads,
                   pipeline=("paired", "copied")[i % 2], tap_rows="all", warps=WIDE_AXES["warps"][i % 5])
    for i, dtype in enumerate(DTYPES):
        yield dict(filter=(3, 3), padding="large", channels=((4, 4, 2), (6, 4, 2), (2, 2, 1))[i], epilogue=(BIAS, RELU),
                   stride=(1, 2, 1)[i], dilation=(1, 1, 2)[i], dtype=dtype, columns=2, vector=2, store_vector=1,
                   span=spans[i][0], gaps=spans[i][1], edges="guarded", sub_block_rows=5, ahead=(1, 1),
                   weights="shared", loads="registers", pipeline="paired", tap_rows="all", warps=(1, 2, 1))
        yield dict(filter=(5, 5), padding="same", channels=(1, 1, 1), epilogue=(), stride=1, dilation=1, dtype=dtype,
                   columns=4, vector=4, store_vector=2, span=("strips", 32), gaps="zero_lanes", edges="interior",
                   sub_block_rows=7, ahead=(2, 1), weights="registers", loads=WIDE_AXES["loads"][i], pipeline="paired",
                   tap_rows="needed", warps=(1, 2, 1))


WIDE_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 14, 31, 56, 70),
                                   "w": (1, 7, 8, 14, 16, 28, 33, 56, 96, 130, 136, 264, 272, 520)}


# ---- toeplitz

TOEPLITZ_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (7, 7), (2, 4), (6, 1), (1, 9), (11, 11), (3, 13), (9, 2), (4, 31), (17, 3)),
    "channels": ((1, 1, 1), (1, 3, 1), (3, 3, 3), (2, 6, 2), (5, 5, 5)), "padding": PADDINGS, "epilogue": EPILOGUES,
    "dtype": DTYPES[1:], "walk": ("bands", "planes"), "tiles": (1, 2, 4, 7, 8),
    "warps": ((1, 1, 1), (2, 1, 2), (1, 2, 1), (4, 1, 1), (2, 2, 1), (1, 1, 4)), "vector": (1, 2, 4, 8),
    "store_vector": (1, 2, 8), "stores": ("direct", "staged"), "weights": ("registers", "shared"),
    "sub_block_rows": (32, 64), "images": (1, 3), "buffers": (2, 3), "begin": ("shifted", "place"), "way": ("ca", "cg"),
    "bands_ahead": (1, 2, 3)}


def toeplitz_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("walk", "tiles", "vector", "store_vector", "stores", "weights", "sub_block_rows",
                                           "images", "buffers", "begin", "way", "bands_ahead")}
    values.update(zip(("warp_columns", "warp_rows", "warp_planes"), row["warps"]))
    return values


def toeplitz_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise in 16 bits; windows wider than two blocks of columns, too."""
    channels = choose((1, 1, 2, 3, 5, 8, 17))
    return {"c": channels, "k": channels * choose((1, 1, 1, 2, 3)), "groups": channels, "layout": "NCHW", "stride": 1,
            "dilation": 1, "dtype": choose(DTYPES[1:]), "r": choose((1, 2, 3, 5, 5, 7, 7, 9, 11, 13, 18)),
            "s": choose((1, 2, 3, 4, 5, 5, 7, 7, 9, 11, 13, 21, 31))}


def toeplitz_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other warps and copies in bands."""
    rows = choose((1, 1, 2, 3))
    return choose(({}, {}, {}, {
        "walk": "bands", "stores": "direct", "store_vector": 1, "tiles": choose((1, 3, 5, 8, 9)), "warp_columns": choose((1, 2, 3)), "warp_rows": rows,
        "warp_planes": choose((1, 2, 3)), "weights": choose(("registers", "shared")),
        "sub_block_rows": 16 * rows * choose((1, 2, 5))}))


def toeplitz_variants() -> Iterable[Row]:
    """(Walk, way of the stores) x width of the copies x of the stores."""
    walks = (("bands", "direct"), ("planes", "direct"), ("planes", "staged"))
    axes = [TOEPLITZ_AXES[name] for name in ("vector", "store_vector")]
    for i, ((walk, stores), vector, store_vector) in enumerate(itertools.product(walks, *axes)):
        yield dict(filter=((3, 3), (5, 7), (2, 10))[i % 3], channels=((1, 1, 1), (3, 3, 3), (2, 6, 2))[i // 2 % 3],
                   padding=((1, 1), (2, 3), ((1, 0), (9, 8)))[i % 3] if store_vector > 1 else "large",
                   epilogue=EPILOGUES[i % 5], dtype=DTYPES[1 + i % 2], walk=walk, vector=vector,
                   store_vector=store_vector, stores=stores, weights=("registers", "shared")[i // 2 % 2], images=1 + i % 3,
                   buffers=3 if vector < 4 else 2,
                   tiles=(1, 3)[i // 4 % 2] if walk == "bands" else 9, sub_block_rows=32,
                   begin=("shifted", "place")[i // 3 % 2], way=("ca", "cg")[i % 2], bands_ahead=1 + i % 2,
                   warps=TOEPLITZ_AXES["warps"][i % 6] if walk == "bands" else (1, 1 + i % 2, 1))


TOEPLITZ_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 7, 14, 16, 17, 28, 33, 56, 70),
                                       "w": (1, 7, 8, 14, 16, 28, 40, 56, 72, 96, 99, 130)}


# ---- toeplitz_nhwc

TOEPLITZ_NHWC_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (7, 7), (2, 4), (6, 1), (1, 9), (11, 11), (3, 13), (9, 2), (4, 31), (17, 3)),
    "channels": ((8, 8, 8), (16, 16, 16), (24, 24, 24), (40, 40, 40)), "padding": PADDINGS, "epilogue": EPILOGUES,
    "dtype": DTYPES[1:], "layout": ("NHWC",), "pairs": (1, 2, 4), "chunks": (1, 2, 3, 4), "turn": (1, 2, 3),
    "across": ((1, 32, 1), (1, 16, 2), (2, 56, 1), (2, 12, 5), (1, 8, 3)), "buffers": (2, 3, 4),
    "sub_block_rows": (2, 14, 64), "images": (1, 3), "weights": ("registers", "shared"), "matrix": ("sparse", "dense")}


def toeplitz_nhwc_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("pairs", "chunks", "turn", "buffers", "sub_block_rows", "images", "weights",
                                           "matrix")}
    values.update(zip(("warps", "columns", "across"), row["across"]))
    return values


def toeplitz_nhwc_layer(choose: Choose) -> dict[str, Any]:
    """Depthwise in NHWC and 16 bits, pixels of whole 16 bytes."""
    channels = choose((8, 8, 16, 24, 32, 40, 64))
    return {"c": channels, "k": channels, "groups": channels, "layout": "NHWC", "stride": 1, "dilation": 1,
            "dtype": choose(DTYPES[1:]), "r": choose((1, 2, 3, 3, 5, 5, 7, 7, 9, 11, 13)),
            "s": choose((1, 2, 3, 3, 4, 5, 5, 7, 7, 9, 11, 13, 21))}


def toeplitz_nhwc_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other warps and turns."""
    return choose(({}, {}, {}, {"pairs": choose((1, 2, 4)), "chunks": choose((1, 2)), "turn": choose((1, 2)),
                                "buffers": 2, "weights": "shared", "matrix": choose(("sparse", "dense")), "warps": 1, "across": 1,
                                "columns": choose((4, 20, 32)), "sub_block_rows": choose((2, 10, 40))}))


def toeplitz_nhwc_variants() -> Iterable[Row]:
    """Kind of matrix instruction x where the filters are x images side by side x channels a warp."""
    axes = [TOEPLITZ_NHWC_AXES[name] for name in ("matrix", "weights", "across", "pairs")]
    for i, (matrix, weights, across, pairs) in enumerate(itertools.product(*axes)):
        yield dict(filter=((3, 3), (2, 5), (5, 9))[i % 3], channels=TOEPLITZ_NHWC_AXES["channels"][i % 4],
                   padding=("same", ((1, 0), (0, 2)), "large")[i // 3 % 3] if across[2] == 1 else "same",
                   epilogue=EPILOGUES[i % 5], dtype=DTYPES[1 + i % 2], layout="NHWC", pairs=pairs,
                   chunks=1 + i // 2 % 2, turn=1 + i % 2 if across[0] == 1 else 1, across=across,
                   buffers=2 + i // 4 % 2, sub_block_rows=(14, 64)[i % 2], images=1 + i % 2, weights=weights, matrix=matrix)


TOEPLITZ_NHWC_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3, 7), "h": (1, 7, 14, 17, 33, 56),
                                            "w": (1, 7, 8, 14, 28, 33, 56, 99)}


ROWS: Mapping[str, Rows] = {
    "wide": Rows(WIDE_AXES, wide_values, wide_draw, wide_layer, sizes=WIDE_SIZES, variants=wide_variants),
    "reuse": Rows(REUSE_AXES, reuse_values, reuse_draw, reuse_layer, variants=reuse_variants),
    "channels": Rows(CHANNELS_AXES, channels_values, channels_draw, channels_layer, variants=channels_variants,
                     sizes={"n": (1, 2, 3), "h": (1, 2, 7, 14, 33), "w": (1, 7, 14, 28, 33, 56, 96, 99)}),
    "direct": Rows(DIRECT_AXES, direct_values, direct_draw, variants=direct_variants),
    "toeplitz": Rows(TOEPLITZ_AXES, toeplitz_values, toeplitz_draw, toeplitz_layer, variants=toeplitz_variants,
                     sizes=TOEPLITZ_SIZES),
    "toeplitz_nhwc": Rows(TOEPLITZ_NHWC_AXES, toeplitz_nhwc_values, toeplitz_nhwc_draw, toeplitz_nhwc_layer,
                          variants=toeplitz_nhwc_variants, sizes=TOEPLITZ_NHWC_SIZES),
    "staged": Rows(STAGED_AXES, staged_values, staged_draw, staged_layer, sizes=STAGED_SIZES, variants=staged_variants),
}
AXES = {name: rows.axes for name, rows in ROWS.items()}
