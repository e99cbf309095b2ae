"""What covers ``bias_gradient`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, DTYPES, LAYOUTS, Row, Rows
from warpconv.codegen.spec import Operation

AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (3, 2)), "channels": ((1, 1, 1), (5, 40, 5), (8, 33, 1), (2, 600, 2)),
    "padding": ("valid", "same", ((1, 0), (0, 2))), "padding_mode": BORDERS, "stride": (1, (2, 3)), "dtype": DTYPES,
    "layout": LAYOUTS, "chunks": (1, 3, 40), "vector": (1, 2, 4, 8)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (3, 14, 33), "w": (2, 7, 22, 24, 32, 65)}


def values(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("chunks", "vector")}


def variants() -> Iterable[Row]:
    """Layout x element type x elements of a load."""
    for i, layout in enumerate(LAYOUTS):
        for j, dtype in enumerate(DTYPES):
            for k, vector in enumerate(AXES["vector"][:3 if dtype == "float32" else 4]):
                yield dict(filter=(3, 2), channels=AXES["channels"][2 if vector == 1 and j else 1 + (j + k) % 2 * 2],
                           padding="same", padding_mode="zeros", stride=1, dtype=dtype, layout=layout,
                           chunks=AXES["chunks"][(i + j + k) % 3], vector=vector)


ROWS = {"bias_gradient": Rows(AXES, values, sizes=SIZES, variants=variants, operation=Operation.BIAS_GRADIENT.value,
                              arrays=True)}
