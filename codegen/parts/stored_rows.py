"""Rows of y in NCHW that begin anywhere: what they cost where parts of what memory is written by are stored, and tiles
of whole rows, whose outputs of a filter lie side by side in y."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ..classes import dataclass
from ..hardware import SECTOR_BYTES, Hardware
from ..shape import ConvShape


@dataclass(frozen=True)
class PartlyStored:
    """What rows of y in NCHW cost that begin inside of sectors of memory: bytes more for each of y's, of tiles of
    ``whole`` rows, of ``narrow`` ones, fewer of wider ones to a ``power``; beyond what stays in so much (``kept``) of
    the second-level cache."""

    whole: float
    narrow: float
    power: float
    kept: float = 0.0

    def written(self, shape: ConvShape, hardware: Hardware) -> float:
        """y's bytes that go to memory."""
        return max(0.0, shape.dtype.itemsize * math.prod(shape.output_shape) - self.kept * hardware.l2_bytes)

    def more(self, shape: ConvShape, tile_q: int) -> float:
        """Bytes more for each of these, of tiles of so many columns."""
        if tile_q >= shape.q:
            return self.whole
        return float(self.narrow * (SECTOR_BYTES / (shape.dtype.itemsize * tile_q))**self.power)


def row_widths(columns: int | None, usual: tuple[int, ...], run: int, wider: int) -> Iterable[int]:
    """Columns of tiles of whole rows, in ``run``s: of ``columns`` and fewer than ``wider`` more, or ``usual`` ones
    where those of y are not known."""
    return usual if columns is None else range(-(-columns // run) * run, columns + wider, run)


def whole_rows(tile_q: int, item: int, outputs: tuple[int, int]) -> Iterator[int]:
    """How many rows of so many columns are a whole number of items, and have so many outputs at least and at most."""
    rows = item // math.gcd(item, tile_q)
    least, most = outputs
    return (tile_p for tile_p in range(rows, most // tile_q + 1, rows) if tile_p * tile_q >= least)
