"""What covers ``staged`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DEPTHWISE_LAYER, DTYPES, EPILOGUES, PADDINGS, Choose, Row, Rows

# depthwise, some with a channel multiplier; numbers of filters that groups of planes divide, and that they do not
STAGED_CHANNELS = ((1, 1, 1), (3, 3, 3), (32, 32, 32), (16, 32, 16), (2, 6, 2), (48, 48, 48))
STAGED_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (7, 7), (4, 1), (1, 5), (9, 9)), "channels": STAGED_CHANNELS,
    "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3)),
    "dilation": (1, (2, 1), (1, 2)), "dtype": DTYPES, "rows": (1, 2, 3), "planes": (6, 16, 32),
    "stage": (("async", 1), ("async", 2), ("registers", 1)), "weights": ("registers", "shared"),
    "vector": (1, 2, 8)}


def staged_values(row: Row) -> dict[str, Any]:
    stage, buffers = row["stage"]
    values = {name: row[name] for name in ("rows", "planes", "weights", "vector", "parts") if name in row}
    return {"stage": stage, "buffers": buffers, **values}


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
    """Way of staging x where the weights are x type; each border with those weights, and in quarters."""
    axes = [STAGED_AXES[name] for name in ("stage", "weights", "dtype")]
    for i, (stage, weights, dtype) in enumerate(itertools.product(*axes)):
        yield dict(filter=((3, 3), (5, 5), (2, 3))[i % 3], channels=STAGED_CHANNELS[2 + i % 2], padding="same",
                   epilogue=EPILOGUES[i % 5], stride=1, dilation=1, dtype=dtype, rows=1 + i % 3, planes=(32, 16)[i % 2],
                   stage=stage, weights=weights, vector=8)
    for i, (border, weights) in enumerate(itertools.product(BORDERS[1:], STAGED_AXES["weights"])):
        yield dict(filter=((3, 3), (5, 5), (2, 3))[i % 3], channels=STAGED_CHANNELS[2],
                   padding=("large", "same")[i // 2 % 2], padding_mode=border, epilogue=(), stride=1, dilation=1,
                   dtype=DTYPES[i % 3], rows=1 + i % 3, planes=(32, 16)[i % 2], stage=STAGED_AXES["stage"][i % 3],
                   weights=weights, vector=8)
    for i, border in enumerate(BORDERS):
        yield dict(filter=((3, 3), (5, 5))[i // 2 % 2], channels=STAGED_CHANNELS[2], padding="same",
                   padding_mode=border, epilogue=(), stride=1, dilation=1, dtype=DTYPES[i % 3], planes=16,
                   stage=("async", 2), weights="registers", vector=8, parts="quarters")


STAGED_SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (3, 5, 7, 14, 20, 28), "w": (4, 7, 12, 14, 17)}


ROWS = {"staged": Rows(STAGED_AXES, staged_values, staged_draw, staged_layer, sizes=STAGED_SIZES,
                       variants=staged_variants,
                       typical={**DEPTHWISE_LAYER, "h": 14, "w": 14})}
