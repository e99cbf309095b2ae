"""What covers ``hankel_1d_nhwc`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests import sequences
from tests.axes import BORDERS, DTYPES, Row, Rows
from warpconv.codegen.border import Border
from warpconv.codegen.spec import Operation

# of one column over images one pixel wide, too
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (1, 4), (1, 31), (1, 139), (16, 1), (100, 1)),
    "channels": ((8, 8, 8), (16, 16, 16), (24, 24, 24), (40, 40, 40)),
    "padding": ("valid", "same", "causal", "large", ((0, 0), (13, 2))),
    "padding_mode": tuple(name for name in BORDERS if name != Border.CONSTANT.value), "dtype": DTYPES[1:],
    "layout": ("NHWC",), "chunks": (1, 2, 5), "taps": ("all", "more", 8, 24), "octets": (1, 2, 4),
    "each": (1, 2, 4), "steps": (1, 2)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 2, 5), "w": (1, 7, 99, 128, 258, 264, 520, 777)}


def values(row: Row) -> dict[str, Any]:
    """``taps``: those of a block, or all of the filter in one, or some more than it has."""
    own = max(row["filter"])
    return {**{name: row[name] for name in ("chunks", "octets", "each", "steps")},
            "taps": {"all": own, "more": own + 3}.get(row["taps"], row["taps"])}


USUAL = {"filter": (1, 31), "channels": (24, 24, 24), "padding": "same", "padding_mode": "zeros", "dtype": "float16",
         "layout": "NHWC", "chunks": 1, "taps": "all", "octets": 2, "each": 2, "steps": 1}


def variants() -> Iterable[Row]:
    """One share and several, all taps and blocks of them, every number of octets, rows and columns, every border."""
    for changes in (
            {"dtype": "bfloat16"}, {"chunks": 5, "taps": 8, "octets": 4}, {"filter": (1, 1), "padding_mode": "reflect"},
            {"filter": (100, 1), "padding": "large", "octets": 1, "taps": 24, "channels": (40, 40, 40)},
            {"padding": "causal", "padding_mode": "circular", "each": 4, "steps": 2, "octets": 2, "chunks": 2},
            {"filter": (1, 120), "padding": "causal", "padding_mode": "replicate", "steps": 2, "each": 1},
            {"filter": (4, 1), "padding": "valid", "octets": 4, "each": 4, "taps": "more", "dtype": "bfloat16"},
            {"filter": (16, 1), "padding": ((0, 0), (13, 2)), "padding_mode": "symmetric", "channels": (8, 8, 8)}):
        yield {**USUAL, **changes}


ROWS = {"hankel_1d_nhwc": Rows(AXES, values, sizes=SIZES, variants=variants,
                               operation=Operation.FILTER_GRADIENT.value, image=sequences.image,
                               layer=sequences.layer_of,
                               usual={"c": 8, "k": 8, "groups": 8, "r": 1, "padding": (0, 1)})}
