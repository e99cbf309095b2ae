"""What covers ``implicit_gemm`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.axes import BORDERS, LAYOUTS, WITH_RESIDUAL, Row, Rows
from tests.gemm import GEMM_AXES, GEMM_SIZES, gemm_draw, gemm_values, gemm_variants

AXES = {**GEMM_AXES, "padding_mode": BORDERS, "layout": LAYOUTS, "epilogue": WITH_RESIDUAL,
        "form": ("tiled", "tiled as planned", "document")}


def values(row: Row) -> dict[str, Any]:
    form = row["form"]
    return gemm_values(row) if form == "tiled" else {"form": form} if form == "document" else {}


def variants() -> Iterable[Row]:
    """Every way that the text differs, in both layouts."""
    for layout in LAYOUTS:
        for row in gemm_variants(AXES, {"form": AXES["form"]}):
            yield {**row, "layout": layout}


ROWS = {"implicit_gemm": Rows(AXES, values, gemm_draw, sizes=GEMM_SIZES, variants=variants,
                              arrays=True)}
