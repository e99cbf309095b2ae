"""What covers ``sequence`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests import sequences
from tests.axes import BIAS, BORDERS, CLAMP, DEPTHWISE_LAYER, EXPRESSION, LAYOUTS, RELU, RESIDUAL, Choose, Row, Rows

EPILOGUES = ((), (BIAS, RELU), (BIAS, CLAMP), (EXPRESSION,), (BIAS, RESIDUAL, RELU))
BLOCK = {"NCHW": {"few": 1, "some": 2, "many": 5}, "NHWC": {"few": 8, "some": 16, "many": 32}}
# filters of no and of several turns of a ring, taps before and after them; of one column over images one pixel wide
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (1, 4), (1, 9), (1, 31), (1, 100), (1, 139), (7, 1), (64, 1)),
    "channels": ((1, 1, 1), (3, 3, 3), (2, 6, 2), (8, 8, 8), (40, 40, 40)),
    "padding": ("valid", "same", "causal", "large", ((0, 0), (13, 2))), "padding_mode": BORDERS,
    "epilogue": EPILOGUES, "layout": LAYOUTS, "outputs": (8, 16, 32), "team": (2, 8, 32, 64),
    "block": ("few", "some", "many"), "vector": (1, 2, 4), "store_vector": (1, 4)}
# sequences around the outputs of a team, and of several
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 2, 5), "w": (1, 7, 32, 99, 128, 140, 264, 520, 777, 1160)}


def values(row: Row) -> dict[str, Any]:
    """``block``: sequences of a block."""
    return {**{name: row[name] for name in ("outputs", "team", "vector", "store_vector")},
            "sequences": BLOCK[row["layout"]][row["block"]]}


def draw_layer(choose: Choose) -> dict[str, Any]:
    """Planes and depthwise layers of filters of one row, in NHWC of one column, too."""
    channels, taps = choose((1, 2, 3, 8, 17, 40)), choose((1, 2, 3, 4, 5, 7, 9, 13, 21, 31, 40, 63, 90, 128))
    sides = choose(((taps - 1, 0), (0, taps - 1), (taps // 2, taps // 2), (0, 0), (1, 5), (taps + 3, 2)))
    layout = choose(LAYOUTS)
    axes: dict[str, Any] = {"r": 1, "s": taps, "padding": ((0, 0), sides)}
    if layout == "NHWC" and taps > 1 and choose((False, True)):
        axes = {"r": taps, "s": 1, "padding": (sides, (0, 0))}
    times = choose((1, 1, 2, 3)) if layout == "NCHW" else 1
    return {"c": channels, "k": channels * times, "groups": channels, "layout": layout, "stride": 1, "dilation": 1,
            "dtype": "float32", **axes}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else other threads."""
    return choose(({}, {}, {}, {
        "outputs": choose((8, 16)), "team": choose((4, 16, 32)), "vector": 1, "store_vector": 1,
        "sequences": choose(tuple(BLOCK[layer["layout"]].values()))}))


USUAL = {"filter": (1, 31), "channels": (3, 3, 3), "padding": "same", "padding_mode": "zeros", "epilogue": (BIAS, RELU),
         "dtype": "float32", "layout": "NCHW", "outputs": 16, "team": 8, "block": "some", "vector": 4,
         "store_vector": 4}
NHWC = {"layout": "NHWC", "store_vector": 1, "channels": (40, 40, 40)}


def variants() -> Iterable[Row]:
    """Both layouts: taps before, within and after the turns of a ring, every width of copies, every border."""
    for changes in (
            {}, {"outputs": 8, "padding": "causal", "padding_mode": "reflect", "epilogue": (EXPRESSION,)},
            {"filter": (1, 1), "padding_mode": "zeros", "vector": 2, "block": "many"},
            {"filter": (1, 100), "padding": "large", "vector": 1, "store_vector": 1, "padding_mode": "constant"},
            {"filter": (1, 139), "padding": "causal", "padding_mode": "circular", "team": 32, "block": "few"},
            {"filter": (1, 4), "padding": "causal", "channels": (2, 6, 2), "epilogue": (BIAS, RESIDUAL, RELU)},
            {"filter": (1, 9), "store_vector": 1, "vector": 1, "padding": "valid", "epilogue": (BIAS, RESIDUAL, RELU)},
            {**NHWC, "epilogue": (BIAS, RESIDUAL, RELU)},
            {**NHWC, "outputs": 32, "block": "few", "padding": "causal", "padding_mode": "symmetric"},
            {**NHWC, "outputs": 8, "block": "many", "filter": (7, 1), "padding_mode": "constant", "padding": "large"},
            {**NHWC, "vector": 1, "channels": (3, 3, 3), "filter": (64, 1), "padding": "causal", "epilogue": ()},
            {**NHWC, "filter": (1, 139), "padding": "large", "padding_mode": "replicate", "team": 2}):
        yield {**USUAL, **changes}


ROWS = {"sequence": Rows(AXES, values, draw, draw_layer, variants=variants, sizes=SIZES, image=sequences.image,
                         layer=sequences.layer_of,
                         usual={"c": 8, "k": 8, "groups": 8, "r": 1, "padding": (0, 1)},
                         arrays=True,
                         typical={**DEPTHWISE_LAYER, "h": 1, "w": 2048, "r": 1, "s": 31, "padding": (0, 15)})}
