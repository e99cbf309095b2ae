"""Sequences folded into rows that overlap, so that matrix instructions have sixteen rows where there is one.

A tile has TILE_ROWS stretches of a sequence under one another, each of some outputs. Its input is a matrix whose row r
begins r times as many elements further on: a block of eight of its columns is a piece of 16 bytes of shared memory of
each row, and the sequence lies there once. It is multiplied by the banded matrix of the filter.
"""

from __future__ import annotations

import math

from ..classes import dataclass
from ..dimension import Dimension
from ..shape import ConvShape
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

    @property
    def matrices(self) -> int:
        """Of 8 x 8: two of a block, the second of the eight lower rows."""
        return 2 * len(self.blocks)


@dataclass(frozen=True)
class Line:
    """The axis of a layer that its filter moves along: rows of an image, or of images one pixel wide their column."""

    taps: int
    before: int             # elements outside that windows reach
    after: int
    column: bool
    size: Dimension         # of the input
    outputs: Dimension
    others: tuple[Dimension, ...]       # whose product is the lines of an image

    def outputs_of(self, shape: ConvShape) -> int:
        return self.outputs.of(shape)

    def lines_of(self, shape: ConvShape) -> int:
        """Of an image."""
        return math.prod(size.of(shape) for size in self.others)

    @property
    def offset(self) -> int:
        """Elements from where a piece begins to the first output's window."""
        return -self.before % BLOCK

    @property
    def margin(self) -> int:
        """Elements before an output's own place from which on it is read: whole pieces."""
        return self.before + self.offset

    @property
    def slices(self) -> int:
        """Blocks of eight columns that hold the input of eight outputs: the words of a lane's banded matrix."""
        return -(-(self.offset + BLOCK - 1 + self.taps) // BLOCK)


def line_of(spec: KernelSpec) -> Line:
    """The line of a layer that line_refusal() has nothing against."""
    axis = 0 if is_column(spec) else 1
    before, after = spec.padding[axis]
    sizes = ((Dimension.H, Dimension.P), (Dimension.W, Dimension.Q))[axis]
    return Line(taps=(spec.r, spec.s)[axis], before=before, after=after, column=axis == 0, size=sizes[0],
                outputs=sizes[1], others=() if axis == 0 else (Dimension.P,))


def is_column(spec: KernelSpec) -> bool:
    return spec.r > 1 == spec.s


def one_pixel_wide(spec: KernelSpec) -> dict[str, dict[str, int]]:
    """What columns ask of an image."""
    return {"W": {"at_most": 1}, "Q": {"at_most": 1}} if is_column(spec) else {}


def line_refusal(spec: KernelSpec, columns: bool) -> str | None:
    """Why a layer's filter does not move along lines by one element, or None; ``columns``: those of images one pixel
    wide are served, too."""
    across, along = (0, 1) if not columns or not is_column(spec) else (1, 0)
    if (spec.r, spec.s)[across] != 1 or spec.padding[across] != (0, 0):
        return f"a filter of {spec.r} x {spec.s} (of one row, or padding above or below: sequences)"
    if spec.stride != (1, 1) or spec.dilation[along] != 1:
        return "stride and dilation other than 1: neighbouring outputs would not share a band"
    return None


def outside_of(spec: KernelSpec) -> str:
    """What the fragments (templates/parts/sequences, octets) call that which stands outside of a line."""
    return "pixels" if spec.padding_mode.reads_image else spec.padding_mode.value


def block_taps(taps: int, most: int) -> int:
    """Taps of a block, up to ``most``, in equal shares; of several, whole pieces, where the next one begins."""
    blocks = -(-taps // most)
    share = -(-taps // blocks)
    return share + -share % BLOCK if blocks > 1 else share


def loads_of(slices: int, outputs: int) -> tuple[Load, ...]:
    """Blocks by twos, as instructions take them; each instruction right after the last of its blocks."""
    total = slices + outputs - 1
    done: list[list[Product]] = [[] for _ in range(-(-total // 2))]
    for output in range(outputs):
        for band in range(0, slices, 2):
            product = Product(output, band, min(2, slices - band))
            done[product.inputs[-1] // 2].append(product)
    return tuple(Load(tuple(range(2 * i, min(2 * i + 2, total))), tuple(products)) for i, products in enumerate(done))


def product_blocks(taps: int, offset: int) -> int:
    """Blocks of eight columns of a filter's gradient: those that some tap of some gradient of a row has its products
    in, the first after ``offset`` columns."""
    return (taps + DIAGONAL_ROW - 2 + offset) // BLOCK + 1


class FoldedTiles:
    """What templates ask of numbers that have ``loads``, ``outputs`` and ``first_weight``."""

    loads: tuple[Load, ...]
    outputs: tuple[int, ...]
    first_weight: int

    @property
    def wide(self) -> bool:
        return len(self.outputs) > 1

    @property
    def offset(self) -> int:
        """Columns of the input's first block before those of the first output."""
        return self.first_weight - (BLOCK - 1)

    @property
    def matrices(self) -> frozenset[int]:
        """How many are loaded together."""
        return frozenset(load.matrices for load in self.loads)

    @property
    def depths(self) -> frozenset[int]:
        """Of the instructions."""
        return frozenset(product.depth for load in self.loads for product in load.products)


class DiagonalProduct:
    """What templates ask of a filter's gradient whose numbers have ``blocks`` of eight columns and ``offset``."""

    blocks: tuple[int, ...]
    offset: int

    @property
    def columns(self) -> int:
        """Of the product, whose rows i and i + 8 are added: those of the second lie a block before the first's."""
        return BLOCK * (len(self.blocks) + 1)

    @property
    def first_column(self) -> int:
        """Where the diagonal of tap 0 begins among them."""
        return BLOCK + self.offset

    @property
    def loads(self) -> tuple[Load, ...]:
        """Blocks by twos."""
        return tuple(Load(self.blocks[i:i + 2], ()) for i in range(0, len(self.blocks), 2))

    @property
    def matrices(self) -> frozenset[int]:
        """How many are loaded together."""
        return frozenset(load.matrices for load in self.loads)
