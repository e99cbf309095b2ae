"""What covers ``ragged`` in the tests; test_ragged.py executes it, on planes of several sizes in one launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.axes import (BORDER_VALUE, BORDERS, CASTS, CLAMP, DTYPES, EXPRESSION, OUTPUTS, PIXELS, RELU, RESIDUAL,
                        WEIGHTS, Row, Rows)
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 3), (5, 5), (2, 4), (1, 9), (9, 1), (31, 3), (17, 17)),
    "sides": ("middle", "before", "behind"), "padding_mode": BORDERS, "dtype": (*DTYPES, *PIXELS),
    "weight_dtype": WEIGHTS, "out_dtype": OUTPUTS,
    "cast": CASTS, "epilogue": ((), (RELU,), (RESIDUAL, CLAMP), (EXPRESSION,)), "separable": (False, True),
    "tile": ((64, 32), (32, 8), (128, 16))}


def layer_of(row: Row) -> dict[str, Any]:
    """Planes whose outputs have their size."""
    r, s = row["filter"]
    before = {"middle": lambda n: n // 2, "before": lambda n: n - 1, "behind": lambda n: 0}[row["sides"]]
    return {"c": 1, "k": 1, "r": r, "s": s, "padding": tuple((before(n), n - 1 - before(n)) for n in (r, s)),
            "padding_value": BORDER_VALUE if row["padding_mode"] == "constant" else 0,
            **{name: row[name] for name in ("padding_mode", "dtype", "weight_dtype", "out_dtype", "cast", "separable")}}


def values(row: Row) -> dict[str, Any]:
    return dict(zip(("tile_columns", "tile_rows"), row["tile"]))


ROWS: Mapping[str, Rows] = {"ragged": Rows(AXES, values, operation=Operation.RAGGED.value, layer=layer_of,
                                           usual={"c": 1, "k": 1},
                                           arrays=True)}
