"""The operands of wgmma as inline PTX numbers them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

WARP_GROUP = 128                # threads that multiply together
ROWS = 64                       # of the first factor
DEPTH = 16                      # products of an output, of 16-bit elements
MOST_COLUMNS = 256              # of the second factor
COLUMN_UNIT = 8


@dataclass(frozen=True)
class WgmmaShape:
    """One instruction's: ``columns`` of the second factor, ``sums`` of a thread, and operands' numbers and texts."""

    columns: int
    sums: int
    a: int
    b: int
    adds: int
    registers: str
    operands: str

    @classmethod
    @functools.cache
    def of(cls, columns: int) -> WgmmaShape:
        sums = columns * ROWS // WARP_GROUP
        return cls(columns=columns, sums=sums, a=sums, b=sums + 1, adds=sums + 2,
                   registers=", ".join(f"%{i}" for i in range(sums)),
                   operands=", ".join(f'"+f"(sums[{i}])' for i in range(sums)))
