"""Plan values of ``patch``, and every number and name that its template writes."""

from __future__ import annotations

import functools
import itertools
import math

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import BANKS, LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.parts.vectors import Vector, vector_of
from warpconv.codegen.spec import KernelSpec

CELL = 4                      # floats of a wide read of shared memory: 16 bytes
ANY_HEIGHT = 1 << 20          # more than any tile's windows reach over
REGISTERS_BESIDE = 26         # addresses, the loop, and weights on their way


@dataclass(frozen=True)
class PatchOptions:
    """Plan values. A lane makes ``columns`` neighbouring outputs of one row, ``row_lanes`` lanes make a row of the
    block's tile of ``rows`` rows, of each of ``planes`` planes. ``height``: rows of input that a patch has room for,
    which H is then limited to; no limit where it is what the tile's windows reach over, or more, or where the border is
    not zeros: it stands in the patch. Loads are of
    ``vector`` elements, stores of ``store_vector``. The compiler leaves registers for ``min_blocks`` blocks (follows
    from the others if not given)."""

    columns: int = 8
    row_lanes: int = 4
    rows: int = 32
    planes: int = 1
    height: int = ANY_HEIGHT
    vector: int = 1
    store_vector: int = 1
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class Read:
    """What a lane reads from shared memory at once: ``at`` floats from where its row, or its filter row, begins."""

    name: str
    at: int


@dataclass(frozen=True)
class ColumnTap:
    """A filter column: the last of those that are read together, its weight, and the input of each output column."""

    s: int
    last: int
    weight: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class PatchNumbers:
    """What the template writes; distances in shared memory in floats."""

    threads: int
    tile_columns: int        # output columns of a block
    span: int                # input rows that the windows of a tile reach over
    patch_rows: int          # input rows of a plane in shared memory; without another border a row of zeros follows
    bordered: bool           # a border other than zeros stands in the patch
    right: int               # columns of it right of the image
    margin: int              # columns of a patch before the tile's first own
    offset: int              # of them, those before the first window
    row_vectors: int         # loads of a patch row
    pitch: int
    plane: int
    filter_pitch: int
    filter_plane: int
    shared_floats: int       # of patches, then of filters
    window: int              # columns of a lane's window as they are read
    cell: int                # floats of a read: 4, 2 or 1
    first: int               # place in the window of the first output's first tap,
    stride: int              # columns from one output to the next,
    dilation: int            # from one tap to the next
    columns: int             # outputs of a lane
    filter_columns: int
    window_at: int           # where the window begins, floats from the lane's own columns
    conflicts: float         # passes over the banks of a read, over those that its bytes need
    store: Vector            # what a lane stores, and of a residual loads, at once

    @property
    def lines(self) -> int:
        """Rows of a plane in shared memory, that of zeros with them."""
        return self.patch_rows + (not self.bordered)

    @property
    def reads(self) -> tuple[Read, ...]:
        """A lane's window of an input row."""
        return tuple(Read(f"in_{at}", self.window_at + at) for at in range(0, self.window, self.cell))

    @property
    def filter_reads(self) -> int:
        return -(-self.filter_columns // CELL)

    @property
    def taps(self) -> tuple[ColumnTap, ...]:
        return tuple(ColumnTap(s, min(s // CELL * CELL + CELL, self.filter_columns) - 1, _part("w_", s, CELL),
                         tuple(_part("in_", self.first + v * self.stride + s * self.dilation, self.cell)
                               for v in range(self.columns)))
                     for s in range(self.filter_columns))

    @property
    def shared_bytes(self) -> int:
        return 4 * self.shared_floats

    @property
    def warps(self) -> int:
        return self.threads // LANES


def window_of(spec: KernelSpec, columns: int) -> int:
    """Input columns that ``columns`` neighbouring outputs need."""
    return (columns - 1) * spec.stride[1] + (spec.s - 1) * spec.dilation[1] + 1


def make_numbers(spec: KernelSpec, options: PatchOptions) -> PatchNumbers:
    stride, dilation, left = spec.stride[1], spec.dilation[1], spec.padding[1][0]
    chunk = options.columns * stride
    cell = math.gcd(chunk, CELL)
    margin = -(-left // CELL) * CELL
    offset = margin - left
    begin = offset // cell * cell
    window = -(-(offset - begin + window_of(spec, options.columns)) // cell) * cell
    span = (options.rows - 1) * spec.stride[0] + (spec.r - 1) * spec.dilation[0] + 1
    bordered = spec.padding_mode is not Border.ZEROS
    patch_rows = span if bordered else min(span, options.height)
    needed = -(-((options.row_lanes - 1) * chunk + begin + window) // CELL) * CELL
    pitch, plane, conflicts = _least_conflicts(options, chunk, cell, needed, patch_rows + (not bordered))
    filter_pitch = -(-spec.s // CELL) * CELL
    filter_plane = spec.r * filter_pitch
    while options.planes > 1 and filter_plane % BANKS not in (CELL, BANKS - CELL):
        filter_plane += CELL
    threads = -(-options.row_lanes * options.planes * options.rows // LANES) * LANES
    return PatchNumbers(
        threads=threads, tile_columns=options.row_lanes * options.columns, span=span, patch_rows=patch_rows,
        bordered=bordered, right=spec.padding[1][1],
        margin=margin, offset=offset, row_vectors=pitch // options.vector, pitch=pitch, plane=plane,
        filter_pitch=filter_pitch, filter_plane=filter_plane,
        shared_floats=options.planes * (plane + filter_plane), window=window, cell=cell, first=offset - begin,
        stride=stride, dilation=dilation, columns=options.columns, filter_columns=spec.s, window_at=begin,
        conflicts=conflicts, store=vector_of(spec.y_dtype, options.store_vector))


def _part(prefix: str, position: int, cell: int) -> str:
    """The member of a read that holds a position."""
    return f"{prefix}{position // cell * cell}.{'xyzw'[position % cell]}" if cell > 1 else f"{prefix}{position}"


def _least_conflicts(options: PatchOptions, chunk: int, cell: int, needed: int, rows: int) -> tuple[int, int, float]:
    """Row pitch and plane distance at which the lanes of a warp meet in the fewest banks: the first, from the shortest
    pitch on, where they meet in none."""
    wider, further, conflicts = _padding(options.row_lanes, options.planes, chunk % BANKS, cell, needed % BANKS,
                                         rows % BANKS)
    return needed + wider, (needed + wider) * rows + further, conflicts


@functools.cache
def _padding(row_lanes: int, planes: int, chunk: int, cell: int, needed: int, rows: int) -> tuple[int, int, float]:
    """Floats after a row and after a plane, and the conflicts that are left; sizes modulo the banks."""
    best = (0, 0, float("inf"))
    for wider, further in itertools.product(range(0, BANKS, CELL), range(0, BANKS if planes > 1 else 1, CELL)):
        pitch = (needed + wider) % BANKS
        found = _conflicts(row_lanes, planes, chunk, cell, pitch, (pitch * rows + further) % BANKS)
        if found < best[2]:
            best = (wider, further, found)
        if found == 1:
            break
    return best


@functools.cache
def _conflicts(row_lanes: int, planes: int, chunk: int, cell: int, pitch: int, plane: int) -> float:
    """Passes over the banks of a warp's read, over the least: a pass serves each bank once. No two lanes read the same
    place; distances in floats, modulo the banks."""
    places = [lane % row_lanes * chunk + lane // row_lanes % planes * plane + lane // row_lanes // planes * pitch
              for lane in range(LANES)]
    together = LANES // cell                    # lanes that one pass can serve
    passes = 0
    for first in range(0, LANES, together):
        banks = [place // cell % (BANKS // cell) for place in places[first:first + together]]
        passes += max(map(banks.count, banks))
    return passes / cell


def registers_of(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers) -> int:
    """Registers of a lane, about: sums, window, two reads of weights."""
    wide = 4 if spec.index_bits == 64 else 0
    steps = step_registers(spec, 0)                # a residual comes where the window is done with
    return options.columns + numbers.window + 2 * CELL + REGISTERS_BESIDE + wide + steps
