"""What covers ``hankel_1d`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests import sequences
from tests.axes import BORDERS, DTYPES, Row, Rows
from warpconv.codegen.border import Border
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (1, 4), (1, 9), (1, 16), (1, 31), (1, 100), (1, 139)),
    "channels": ((1, 1, 1), (1, 3, 1), (2, 6, 2), (5, 5, 5)),
    "padding": ("valid", "same", "causal", "large", ((0, 0), (13, 2))),
    "padding_mode": tuple(name for name in BORDERS if name != Border.CONSTANT.value), "dtype": DTYPES[1:],
    "chunks": (1, 2, 5), "taps": ("all", "more", 8, 24), "warps": (1, 2, 4), "steps": (1, 2, 5), "buffers": (2, 3, 4),
    "vector": (1, 2, 4, 8)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 3), "h": (1, 2, 5), "w": (1, 7, 32, 99, 128, 258, 264, 520, 777, 1160)}


def values(row: Row) -> dict[str, Any]:
    """``taps``: those of a block, or all of the filter in one, or some more than it has."""
    own = row["filter"][1]
    return {**{name: row[name] for name in ("chunks", "warps", "steps", "buffers", "vector")},
            "taps": {"all": own, "more": own + 3}.get(row["taps"], row["taps"])}


USUAL = {"filter": (1, 31), "channels": (3, 3, 3), "padding": "same", "padding_mode": "zeros", "dtype": "float16",
         "chunks": 1, "taps": "all", "warps": 2, "steps": 2, "buffers": 2, "vector": 8}


def variants() -> Iterable[Row]:
    """One share and several, all taps and blocks of them, every width of the copies, every border."""
    for changes in (
            {"dtype": "bfloat16"}, {"chunks": 5, "taps": 8, "vector": 4}, {"filter": (1, 1), "padding_mode": "reflect"},
            {"filter": (1, 100), "padding": "large", "vector": 1, "taps": 24, "buffers": 4, "channels": (2, 6, 2)},
            {"padding": "causal", "padding_mode": "circular", "warps": 4, "steps": 1, "vector": 2, "chunks": 2},
            {"filter": (1, 139), "padding": "causal", "padding_mode": "replicate", "steps": 5, "buffers": 3},
            {"filter": (1, 4), "padding": "valid", "vector": 1, "taps": "more", "dtype": "bfloat16", "steps": 1},
            {"filter": (1, 16), "padding": ((0, 0), (13, 2)), "padding_mode": "symmetric", "channels": (1, 3, 1)}):
        yield {**USUAL, **changes}


ROWS = {"hankel_1d": Rows(AXES, values, sizes=SIZES, variants=variants, operation=Operation.FILTER_GRADIENT.value,
                          layer=sequences.layer_of, usual={"c": 8, "k": 8, "groups": 8, "r": 1, "padding": (0, 1)})}
