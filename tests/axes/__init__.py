"""How the tests cover each algorithm: one module each, read by the case table and by the drawn layers."""

from __future__ import annotations

from typing import Mapping

from . import (channels, direct, gemm, im2col, im2win_basic, patch, pixels, reuse, slides, staged, toeplitz,
               toeplitz_nhwc, wide)
from .common import (BORDER_VALUE, BORDERS, CASTS, DTYPES, LAYOUTS, OUTPUTS, PITCHES, PIXELS, SIZES, WEIGHTS, Row, Rows,
                     layer_of)

ROWS: Mapping[str, Rows] = {
    "wide": wide.ROWS,
    "reuse": reuse.ROWS,
    "channels": channels.ROWS,
    "implicit_gemm": gemm.IMPLICIT_GEMM,
    "im2win": gemm.IM2WIN,
    "direct": direct.ROWS,
    "im2col": im2col.ROWS,
    "im2win_basic": im2win_basic.ROWS,
    "toeplitz": toeplitz.ROWS,
    "toeplitz_nhwc": toeplitz_nhwc.ROWS,
    "staged": staged.ROWS,
    **slides.ROWS,
    "patch": patch.ROWS,
    "pixels": pixels.ROWS,
}
AXES = {name: rows.axes for name, rows in ROWS.items()}
