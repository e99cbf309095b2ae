"""Sequences folded into rows that overlap, so that matrix instructions have sixteen rows where there is one.

A tile has TILE_ROWS stretches of a sequence under one another, each of some outputs. Its input is a matrix whose row r
begins r times as many elements further on: a block of eight of its columns is a piece of 16 bytes of shared memory of
each row, and the sequence lies there once. It is multiplied by the banded matrix of the filter.
"""

from __future__ import annotations

from ..classes import dataclass
from ..spec import KernelSpec

TILE_ROWS = 16      # of a matrix instruction
BLOCK = 8           # columns of a matrix of the input, outputs of an instruction in a row; elements of a piece
WIDE = 4 * BLOCK    # outputs of a tile's rows that have more than one block
LINE = 64           # elements of 128 bytes, at whose multiples the copies of a warp begin
# Of a filter's gradient, the product of a matrix of the outputs' gradients with one of the input:
DIAGONAL_ROW = 16           # gradients of a row, which are rows of the product; and rows that an instruction takes
STEP = DIAGONAL_ROW ** 2    # gradients of an instruction


@dataclass(frozen=True)
class Product:
    """A matrix instruction: output block ``output`` of a tile's rows, from input blocks ``output + band`` on, as many
    as the depth has; ``band``: the first block of the banded matrix."""

    output: int
    band: int
    blocks: int

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(self.output + self.band + i for i in range(self.blocks))

    @property
    def bands(self) -> tuple[int, ...]:
        return tuple(self.band + i for i in range(self.blocks))

    @property
    def depth(self) -> int:
        return BLOCK * self.blocks


@dataclass(frozen=True)
class Load:
    """Blocks of the input that come to registers together, and the instructions that then have all they need."""

    blocks: tuple[int, ...]
    products: tuple[Product, ...]


def offset_of(spec: KernelSpec) -> int:
    """Columns of a tile's first block that no output needs: patches begin at whole pieces."""
    return -spec.padding[1][0] % BLOCK


def slices_of(spec: KernelSpec) -> int:
    """Blocks of eight columns that hold the input of eight outputs, and so the words of a lane's banded matrix."""
    return -(-(offset_of(spec) + BLOCK - 1 + spec.s) // BLOCK)


def loads_of(slices: int, outputs: int) -> tuple[Load, ...]:
    """Blocks by twos, as instructions take them; each instruction right after the last of its blocks."""
    products = [Product(output, band, min(2, slices - band)) for output in range(outputs)
                for band in range(0, slices, 2)]
    total = slices + outputs - 1
    loads = []
    for first in range(0, total, 2):
        blocks = tuple(range(first, min(first + 2, total)))
        done = tuple(p for p in products if p.inputs[-1] in blocks)
        loads.append(Load(blocks, done))
    return tuple(loads)


def place_of(piece: int, row: int) -> int:
    """Where a piece of a sequence lies in shared memory, whose rows begin ``row`` pieces apart (1, 2 or 4): what
    templates/parts/pieces writes."""
    return piece ^ piece // 8 % row


def product_blocks(taps: int, offset: int) -> int:
    """Blocks of eight columns of a filter's gradient: those that some tap of some gradient of a row has its products
    in, the first after ``offset`` columns."""
    return (taps + DIAGONAL_ROW - 2 + offset) // BLOCK + 1
