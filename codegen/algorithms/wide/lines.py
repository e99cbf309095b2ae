"""An input row of `wide` in shared memory, and the vectors that it is moved by."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.vectors import Vector, vector_of
from warpconv.codegen.spec import KernelSpec

from .options import Loads, Span, WideOptions
from .taps import signed


@dataclass(frozen=True)
class Column:
    """An input column as a float: from which register, and which part of it."""

    name: str
    cell: str
    part: str            # whole, low, high
    own: bool            # a member of Row, or a register taken from a neighbour or read from shared memory
    member: str = ""


@dataclass(frozen=True)
class LinePiece:
    """Columns that a lane reads from shared memory at once, ``at`` elements from its own first column."""

    name: str
    at: int
    vector: Vector


@dataclass(frozen=True)
class WarpLine:
    """An input row of a warp in shared memory, in elements: zeros or neighbours' columns stand on both sides."""

    margin: int          # before the first own column
    length: int          # of one plane's row
    row: int             # of all planes side by side
    step: int            # of the rows of a step
    warp: int            # of all steps of a warp
    elements: int        # of a block
    left_copies: int     # vectors that are copied beside a strip
    right_copies: int
    way: str             # of a copy: past the first-level cache (cg) or through it (ca)
    copy: str            # bytes of a copy, as in the primitives' names
    pairs: int           # where, behind a row, the pairs lie that columns outside of the image are taken from
    zeros_left: int      # columns that stay zero beside a packed row
    zeros_right: int


@dataclass(frozen=True)
class StorePart:
    """Output columns of a lane that are stored at once."""

    at: int
    columns: tuple[int, ...]


def store_parts(columns: int, vector: int) -> tuple[StorePart, ...]:
    """A lane's output columns, ``vector`` at a time."""
    return tuple(StorePart(at, tuple(range(at, at + vector))) for at in range(0, columns, vector))


def pieces_of(dtype: DType, needed: list[int], vector: int) -> tuple[LinePiece, ...]:
    """Aligned vectors, at most ``vector`` wide, that hold the needed columns: the narrowest of each place."""
    least = 1 if dtype is DType.FLOAT32 or vector == 1 else 2
    found = []
    for place in sorted({column // vector for column in needed}):
        inside = [column - place * vector for column in needed if column // vector == place]
        first, width = 0, vector
        while width // 2 >= least and (inside[-1] < first + width // 2 or inside[0] >= first + width // 2):
            first += width // 2 if inside[0] >= first + width // 2 else 0
            width //= 2
        at = place * vector + first
        found.append(LinePiece(f"line_{signed(at)}", at, vector_of(dtype, width)))
    return tuple(found)


def beside_chunk(pieces: tuple[LinePiece, ...], chunk: int) -> tuple[int, int]:
    """Columns that a lane reads left and right of its own."""
    return (max(0, -min(piece.at for piece in pieces)),
            max(0, max(piece.at + piece.vector.cells * piece.vector.per_cell for piece in pieces) - chunk))


def line_of(spec: KernelSpec, options: WideOptions, pieces: tuple[LinePiece, ...], chunk: int, planes: int,
            step_rows: int, warps: int, pairs: int) -> WarpLine:
    """``pairs``: elements in pairs that a row is followed by."""
    widest = 16 // spec.dtype.itemsize
    vector = options.vector
    left, right = beside_chunk(pieces, chunk)
    packed = options.span is Span.PACKED
    lanes = options.row_lanes if packed else LANES
    margin, after = -(-left // widest) * widest, -(-right // widest) * widest
    row = -(-(margin + lanes * chunk + after) // widest) * widest
    length = row + -(-2 * pairs // widest) * widest
    step = length * planes * step_rows
    warp = step * (options.prefetch_rows + options.stage_steps)
    return WarpLine(margin=margin, length=length, row=length * planes, step=step, warp=warp,
                elements=warp * warps if options.loads is not Loads.REGISTERS else 0,
                way="ca" if options.loads is Loads.CACHED else "cg",
                left_copies=0 if packed else -(-left // vector), right_copies=0 if packed else -(-right // vector),
                copy=str(vector * spec.dtype.itemsize), pairs=row,
                zeros_left=margin, zeros_right=length - margin - lanes * chunk)


def read_columns(spec: KernelSpec, pieces: tuple[LinePiece, ...], needed: list[int]) -> list[Column]:
    found = []
    for column in needed:
        name, member, low = read_cell(pieces, column)
        part = "whole" if pieces[0].vector.per_cell == 1 else ("low", "high")[low]
        found.append(Column(f"in_{signed(column)}", name, part, False, member))
    return found


def read_cell(pieces: tuple[LinePiece, ...], column: int) -> tuple[str, str, int]:
    """The piece that holds a column, its member, and the column's place in that."""
    piece = max((p for p in pieces if p.at <= column), key=lambda p: p.at)
    cell, low = divmod(column - piece.at, piece.vector.per_cell)
    return piece.name, f".{'xyzw'[cell]}" if piece.vector.cells > 1 else "", low
