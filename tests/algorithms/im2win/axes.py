"""What covers ``im2win`` in the tests."""

from __future__ import annotations

from tests.axes import BORDERS, Rows
from tests.gemm import GEMM_AXES, GEMM_SIZES, gemm_draw, gemm_values, gemm_variants

AXES = {**GEMM_AXES, "padding_mode": BORDERS, "order": ("taps", "table", "window")}
ROWS = {"im2win": Rows(AXES, gemm_values, gemm_draw, sizes=GEMM_SIZES, variants=lambda: gemm_variants(AXES, {}),
                       arrays=True)}
