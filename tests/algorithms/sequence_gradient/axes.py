"""What covers ``sequence_gradient`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests import sequences
from tests.axes import BORDERS, LAYOUTS, Row, Rows
from warpconv.codegen.border import Border
from warpconv.codegen.spec import Operation

CHANNELS = {"few": 8, "some": 16, "many": 32}
# filters of fewer and of more taps than a thread's and a block's; of one column over images one pixel wide
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (1, 4), (1, 9), (1, 31), (1, 100), (1, 139), (7, 1), (64, 1)),
    "channels": ((1, 1, 1), (3, 3, 3), (2, 6, 2), (8, 8, 8), (40, 40, 40)),
    "padding": ("valid", "same", "causal", "large", ((0, 0), (13, 2))),
    "padding_mode": tuple(name for name in BORDERS if name != Border.CONSTANT.value), "layout": LAYOUTS,
    "chunks": (1, 2, 5), "taps": (8, 12, 16, 24, 32), "groups": (1, 2, 5), "runs": (1, 2, 4), "turns": (1, 3, 5),
    "block": ("few", "some", "many"), "vector": (1, 2, 4)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 2, 5), "w": (1, 7, 32, 99, 128, 258, 264, 520, 777, 1160)}


def values(row: Row) -> dict[str, Any]:
    """``runs``: in NCHW warps of them; ``turns``: a run's length, in NCHW in fours, else in taps of a thread."""
    rows = row["layout"] == "NCHW"
    return {**{name: row[name] for name in ("chunks", "taps", "groups", "vector")},
            "runs": row["runs"] * (32 if rows else 1), "run": row["turns"] * (4 if rows else row["taps"]),
            "channels": 1 if rows else CHANNELS[row["block"]]}


USUAL = {"filter": (1, 31), "channels": (3, 3, 3), "padding": "same", "padding_mode": "zeros", "dtype": "float32",
         "layout": "NCHW", "chunks": 1, "taps": 16, "groups": 2, "runs": 1, "turns": 5, "block": "some", "vector": 4}
NHWC = {"layout": "NHWC", "channels": (40, 40, 40), "turns": 1}


def variants() -> Iterable[Row]:
    """Both layouts: one share and several, all taps in a block and blocks of them, every width of copies, borders."""
    for changes in (
            {}, {"chunks": 5, "taps": 8, "groups": 1, "turns": 11}, {"filter": (1, 1), "taps": 8, "groups": 1},
            {"filter": (1, 100), "padding": "large", "vector": 1, "taps": 24, "channels": (2, 6, 2), "groups": 5},
            {"padding": "causal", "padding_mode": "circular", "vector": 2, "chunks": 2, "runs": 2, "taps": 12},
            {"filter": (1, 139), "padding": "causal", "padding_mode": "replicate", "groups": 3, "turns": 7},
            {"filter": (1, 4), "padding": "valid", "vector": 1, "taps": 8, "groups": 1, "runs": 4, "turns": 3},
            NHWC, {**NHWC, "chunks": 5, "taps": 8, "groups": 1, "runs": 4, "turns": 3, "padding_mode": "reflect"},
            {**NHWC, "filter": (64, 1), "padding": "causal", "taps": 32, "block": "few", "runs": 2},
            {**NHWC, "filter": (7, 1), "padding": "large", "vector": 1, "channels": (3, 3, 3), "taps": 8, "groups": 1,
             "block": "few", "padding_mode": "symmetric"},
            {**NHWC, "filter": (1, 139), "padding": "causal", "groups": 5, "block": "many", "chunks": 2,
             "padding_mode": "circular"}):
        yield {**USUAL, **changes}


ROWS = {"sequence_gradient": Rows(AXES, values, sizes=SIZES, variants=variants, image=sequences.image,
                                  operation=Operation.FILTER_GRADIENT.value, layer=sequences.layer_of,
                                  usual={"c": 8, "k": 8, "groups": 8, "r": 1, "padding": (0, 1)},
                                  arrays=True)}
