"""What covers ``implicit_gemm`` in the tests."""

from __future__ import annotations

from typing import Any

from tests.axes import BORDERS, Row, Rows
from tests.gemm import GEMM_AXES, GEMM_SIZES, gemm_draw, gemm_values, gemm_variants

AXES = {**GEMM_AXES, "padding_mode": BORDERS, "form": ("tiled", "tiled as planned", "document")}


def values(row: Row) -> dict[str, Any]:
    form = row["form"]
    return gemm_values(row) if form == "tiled" else {"form": form} if form == "document" else {}


ROWS = {"implicit_gemm": Rows(AXES, values, gemm_draw, sizes=GEMM_SIZES,
                              variants=lambda: gemm_variants(AXES, {"form": AXES["form"]}))}
