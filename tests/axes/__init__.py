"""How the tests cover each algorithm: one module each, read by the case table and by the drawn layers."""

from __future__ import annotations

from typing import Mapping

from . import channels, direct, patch, reuse, staged, toeplitz, toeplitz_nhwc, wide
from .common import DTYPES, LAYOUTS, SIZES, Row, Rows, layer_of

ROWS: Mapping[str, Rows] = {
    "wide": wide.ROWS,
    "reuse": reuse.ROWS,
    "channels": channels.ROWS,
    "direct": direct.ROWS,
    "toeplitz": toeplitz.ROWS,
    "toeplitz_nhwc": toeplitz_nhwc.ROWS,
    "staged": staged.ROWS,
    "patch": patch.ROWS,
}
AXES = {name: rows.axes for name, rows in ROWS.items()}
