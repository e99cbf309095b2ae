"""Every number in the text of ``staged``: which columns meet which taps, and where all lies in shared memory."""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass

from ..arch import Arch
from ..spec import KernelSpec
from .base import DERIVED

WIDEST_ACCESS = 16            # bytes
COLUMNS_ALIVE = 16            # of an input row: the compiler loads the later ones when the first are done with
SPARE, SPARE_STATIC = 10, 28  # registers beyond what is held; more where no branch parts the loads of rows
COPY_REGISTERS = 72           # that the copies take, eight accesses at a time
MOST_TOGETHER = 28            # accesses that a thread has under way at once
STATEMENT_TAPS = 5            # taps that one FMA statement of the text spans
# Shared memory that a block can have, bytes: CUDA C programming guide, technical specifications per compute capability
_SHARED = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99, (12, 0): 99, (12, 1): 99}
# Multiprocessors of the largest chip of an architecture: T4, A100, H200, B200 and their kin
_MULTIPROCESSORS = {(7, 5): 40, (8, 0): 108, (8, 6): 84, (8, 9): 142, (10, 0): 148, (12, 0): 188}


def shared_of(arch: Arch) -> int:
    """Bytes of shared memory that a block can have."""
    return _SHARED.get((arch.major, arch.minor), 227) * 1024


def multiprocessors(arch: Arch) -> int:
    """Multiprocessors that a launch which stays resident is made for."""
    return _MULTIPROCESSORS.get((arch.major, arch.minor), 132)


class Stage(enum.Enum):
    """How planes get from global to shared memory."""

    ASYNC = "async"          # asynchronous copies, which hold no registers (from sm_80 on)
    REGISTERS = "registers"  # through registers


class Parts(enum.Enum):
    """What a thread makes of a plane."""

    DERIVED = "derived"      # follows from the other plan values
    STRIPS = "strips"        # some output rows
    QUARTERS = "quarters"    # a quarter, seen from its corner


class Weights(enum.Enum):
    """Where a thread's weights are while it computes."""

    REGISTERS = "registers"
    SHARED = "shared"        # read again for every input row


@dataclass(frozen=True)
class StagedOptions:
    """Plan values. ``height`` x ``width`` planes, ``planes`` (of the output) a group; a thread makes ``rows`` output
    rows. ``buffers``: with 2 the next group is loaded while this one is computed, by blocks that stay; ``vector``:
    elements that one copy moves at most; the compiler leaves registers for ``min_blocks`` blocks on a multiprocessor.
    What is left at 0 follows from the others, but for height and width, which only a layer's sizes give."""

    height: int = DERIVED
    width: int = DERIVED
    rows: int = DERIVED
    planes: int = DERIVED
    buffers: int = DERIVED
    stage: Stage = Stage.ASYNC
    weights: Weights = Weights.REGISTERS
    vector: int = 8
    min_blocks: int = DERIVED
    parts: Parts = Parts.DERIVED


@dataclass(frozen=True)
class Piece:
    """``count`` elements that one shared access moves: from element ``offset`` of the strip; of row ``row`` (an
    output's) and column ``column`` on, running over row ends."""

    offset: int
    count: int
    row: int
    column: int


@dataclass(frozen=True)
class InputRow:
    """An input row of a strip, ``offset`` rows after the row of its first output's row 0 without padding."""

    offset: int
    at_least: int | None                # the strip's first row must be this or later, or the row is above the image
    below: int | None                   # and before this, or the row is below it
    pieces: tuple[Piece, ...]
    uses: tuple[tuple[int, int], ...]   # (output row of the strip, filter row)


@dataclass(frozen=True)
class OutputRows:
    """Output rows of a strip that are stored together, if the strip's first row is before ``below``."""

    below: int | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Taps:
    """What one statement adds to output column ``q``: (input column, filter column) pairs."""

    q: int
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Copy:
    """A group's stretch, copied in ``count`` accesses of ``elements`` (``bytes``). A plane's elements in memory and in
    shared memory: ``plane`` and ``stride``; ``per_plane`` accesses each where those differ."""

    elements: int
    bytes: int
    count: int
    per_plane: int
    plane: int
    stride: int
    group: int

    @property
    def pad(self) -> int:
        """Elements between two planes in shared memory."""
        return self.stride - self.plane


@dataclass(frozen=True)
class Source:
    """Element (or word of two elements) ``i`` of the access that begins at column ``column`` and moves ``count``."""

    column: int
    count: int
    i: int


@dataclass(frozen=True)
class Column:
    """A mirrored input column (or, of 16-bit elements, two of them from it on): where it is for lanes that make a left
    quarter, and for those that make a right one."""

    column: int
    left: Source
    right: Source


@dataclass(frozen=True)
class QuarterRow:
    """Input row ``row``, counted from the lane's corner."""

    row: int
    uses: tuple[tuple[int, int], ...]   # (output row of the quarter, filter row)


@dataclass(frozen=True)
class Quarters:
    """What the template writes for quarters besides the other numbers. Columns are counted from a row's beginning for
    left quarters, from ``right_in`` and ``right_out`` on for right ones."""

    rows: int                     # output rows of a quarter
    columns: int                  # and output columns
    warps: int                    # of a block
    warp_elements: int            # of shared memory for a warp's buffers
    right_in: int
    right_out: int
    middle: bool                  # the column next to the other quarter is half a word, stored by itself
    pieces: tuple[Piece, ...]     # accesses that read an input row
    sources: tuple[Column, ...]
    input_rows: tuple[QuarterRow, ...]
    taps: tuple[Taps, ...]
    output_pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Rounds:
    """``accesses`` made by so many threads in turn: ``count`` rounds, of which ``whole`` by all threads; the text asks
    for ``together`` of them at once, for each batch waits for memory."""

    accesses: int
    count: int
    whole: int
    together: int

    @classmethod
    def of(cls, accesses: int, threads: int) -> Rounds:
        count = -(-accesses // threads)
        return cls(accesses=accesses, count=count, whole=accesses // threads,
                   together=-(-count // -(-count // MOST_TOGETHER)))


@dataclass(frozen=True)
class StagedNumbers:
    """What the template writes besides the spec."""

    p: int
    q: int
    inputs: int                 # input planes of a group
    strips: int
    threads: int
    copy_in: Copy
    copy_out: Copy
    strip_rows_in: int          # input rows from one strip to the next
    input_rows: tuple[InputRow, ...]
    output_rows: tuple[OutputRows, ...]
    taps: tuple[Taps, ...]
    buffer_bytes: int
    weights: int                # of a group
    weight_stride: int          # floats from one plane's weights to the next
    weight_pad: bool            # one of them is between
    shared_weights: int         # bytes before the weights
    shared_bytes: int
    groups_of_image: int        # 0 where groups run over images' ends
    cut: bool                   # the last group may have fewer planes
    sync_before_store: bool     # outputs may take the place of inputs that other threads still read
    pairs: bool                 # 16-bit elements in words of two
    quarters: Quarters | None = None

    @property
    def copying(self) -> int:
        """Threads that copy a group: a warp for its own planes, or all of the block."""
        return 32 if self.quarters else self.threads

    @property
    def rounds_in(self) -> Rounds:
        return Rounds.of(self.copy_in.count, self.copying)

    @property
    def rounds_out(self) -> Rounds:
        return Rounds.of(self.copy_out.count, self.copying)

    @property
    def rounds_weights(self) -> Rounds:
        return Rounds.of(self.weights, self.copying)


@dataclass(frozen=True)
class StripCost:
    """A thread's work: instructions without clipping, ``typical`` with the rows outside the image left out; FMAs in the
    text; registers."""

    instructions: int
    typical: float
    text: int
    registers: int


def output_size(spec: KernelSpec, options: StagedOptions) -> tuple[int, int]:
    """(P, Q); not positive where the filter is larger than the padded plane."""
    sizes = zip((options.height, options.width), (spec.r, spec.s), spec.stride, spec.padding, spec.dilation)
    p, q = ((size + sum(padding) - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, padding, dilation in sizes)
    return p, q


@functools.lru_cache(maxsize=256)
def numbers_of(spec: KernelSpec, options: StagedOptions) -> StagedNumbers:
    """All numbers of a plan whose values have been checked."""
    p, q = output_size(spec, options)
    strips = -(-p // options.rows)
    inputs = options.planes // spec.filters
    copy_in = copy_of(spec, options, options.height * options.width, inputs)
    copy_out = copy_of(spec, options, p * q, options.planes)
    buffer = -(-max(inputs * copy_in.stride, options.planes * copy_out.stride) * spec.dtype.itemsize // 16) * 16
    stride = spec.r * spec.s | 1
    divides = spec.k % options.planes == 0
    rows_in = options.rows * spec.stride[0]
    own = strips == 1 and divides and spec.filters == 1 and copy_in.stride == copy_out.stride
    return StagedNumbers(
        p=p, q=q, inputs=inputs, strips=strips, threads=options.planes * strips, copy_in=copy_in, copy_out=copy_out,
        strip_rows_in=rows_in, input_rows=_input_rows(spec, options, strips, copy_in),
        output_rows=_output_rows(spec, options, p, q, strips, copy_out), taps=taps_of(spec, options.width, q),
        buffer_bytes=buffer, weights=options.planes * spec.r * spec.s, weight_stride=stride,
        weight_pad=stride > spec.r * spec.s,
        shared_weights=options.buffers * buffer,
        shared_bytes=options.buffers * buffer + 4 * stride * options.planes,
        groups_of_image=spec.k // options.planes if divides else 0, cut=not divides, sync_before_store=not own,
        pairs=spec.dtype.itemsize == 2)


@functools.lru_cache(maxsize=1024)
def strip_cost(spec: KernelSpec, options: StagedOptions) -> StripCost:
    """What a strip of ``options.rows`` rows costs a thread."""
    p, q = output_size(spec, options)
    strips = -(-p // options.rows)
    copy_in = copy_of(spec, options, options.height * options.width, max(1, options.planes // spec.filters))
    rows = _input_rows(spec, options, strips, copy_in)
    fma_of_use = sum(len(t.pairs) for t in taps_of(spec, options.width, q))
    columns = len({c for t in taps_of(spec, options.width, q) for c, _ in t.pairs})
    held = options.weights is Weights.REGISTERS
    itemsize = spec.dtype.itemsize
    text = sum(len(row.uses) for row in rows) * fma_of_use
    fixed = 40 + options.rows * q // 2 + (spec.r * spec.s if held and options.buffers == 1 else 0)

    def of_row(row: InputRow) -> int:
        again = 0 if held else spec.s
        return len(row.pieces) + (columns if itemsize == 2 else 0) + 2 + len(row.uses) * (fma_of_use + again)

    typical = fixed + sum(of_row(row) * _inside(row, options, spec, strips) for row in rows)
    weights = spec.s * (spec.r if held else min(spec.r, options.rows + 1))    # read again, and ahead of their use, too
    held_values = options.rows * q + weights + min(columns, COLUMNS_ALIVE)
    registers = max(COPY_REGISTERS, held_values + (SPARE_STATIC if strips == 1 else SPARE))
    return StripCost(instructions=fixed + sum(map(of_row, rows)), typical=typical, text=text, registers=registers)


def _inside(row: InputRow, options: StagedOptions, spec: KernelSpec, strips: int) -> float:
    """The part of the strips for which the row lies in the image."""
    first = [strip * options.rows * spec.stride[0] + row.offset for strip in range(strips)]
    return sum(0 <= h < options.height for h in first) / strips


def copy_of(spec: KernelSpec, options: StagedOptions, plane: int, planes: int) -> Copy:
    """Widest accesses that divide the group's stretch; planes are set apart in shared memory where they would meet in
    the same banks and accesses do not straddle their ends."""
    itemsize = spec.dtype.itemsize
    elements = math.gcd(planes * plane, min(options.vector, WIDEST_ACCESS // itemsize))
    straddles = plane % elements != 0
    unit = max(1, math.gcd(plane, WIDEST_ACCESS // itemsize) if straddles else elements)
    words = unit * itemsize % 4 == 0
    stride = plane
    if not straddles and words and plane // unit % 2 == 0:
        stride = plane + unit
    return Copy(elements=elements, bytes=elements * itemsize, count=planes * plane // elements,
                per_plane=plane // elements if stride != plane else 0, plane=plane, stride=stride, group=planes * plane)


def taps_of(spec: KernelSpec, width: int, q: int) -> tuple[Taps, ...]:
    found = []
    for column in range(q):
        at = [(column * spec.stride[1] - spec.padding[1][0] + s * spec.dilation[1], s) for s in range(spec.s)]
        pairs = [(c, s) for c, s in at if 0 <= c < width]
        found += [Taps(q=column, pairs=tuple(pairs[i:i + STATEMENT_TAPS]))
                  for i in range(0, len(pairs), STATEMENT_TAPS)]
    return tuple(found)


def _input_rows(spec: KernelSpec, options: StagedOptions, strips: int, copy: Copy) -> tuple[InputRow, ...]:
    """The rows that some output of the strip needs and that lie in the image for some strip."""
    stride, (top, _), dilation = spec.stride[0], spec.padding[0], spec.dilation[0]
    uses: dict[int, list[tuple[int, int]]] = {}
    for i in range(options.rows):
        for r in range(spec.r):
            uses.setdefault(i * stride + r * dilation - top, []).append((i, r))
    _, q = output_size(spec, options)
    columns = sorted({c for t in taps_of(spec, options.width, q) for c, _ in t.pairs})
    step, height = options.rows * stride, options.height
    rows = []
    for offset in sorted(uses):
        inside = [0 <= strip * step + offset < height for strip in range(strips)]
        if not any(inside) or not columns:
            continue
        aligned = _aligned(spec, copy.stride, step * options.width if strips > 1 else 0)
        pieces = pieces_of(offset * options.width + columns[0], columns[-1] + 1 - columns[0], 0, columns[0],
                         options.width, aligned)
        rows.append(InputRow(offset=offset, at_least=-offset if offset < 0 and strips > 1 else None,
                             below=height - offset if offset + (strips - 1) * step >= height else None,
                             pieces=pieces, uses=tuple(uses[offset])))
    return tuple(rows)


def _output_rows(spec: KernelSpec, options: StagedOptions, p: int, q: int, strips: int,
                 copy: Copy) -> tuple[OutputRows, ...]:
    """All rows of a strip as one stretch; row by row where the last strip has fewer."""
    aligned = _aligned(spec, copy.stride, options.rows * q if strips > 1 else 0)
    if p % options.rows == 0:
        return (OutputRows(below=None, pieces=pieces_of(0, options.rows * q, 0, 0, q, aligned)),)
    return tuple(OutputRows(below=p - i if i >= p % options.rows else None,
                            pieces=pieces_of(i * q, q, i, 0, q, aligned))
                 for i in range(options.rows))


def _aligned(spec: KernelSpec, plane: int, strip: int) -> int:
    """Elements of the widest access whose multiple every strip of every plane begins at."""
    return math.gcd(plane, strip, WIDEST_ACCESS // spec.dtype.itemsize)


def pieces_of(offset: int, count: int, row: int, column: int, width: int, aligned: int) -> tuple[Piece, ...]:
    """A stretch in accesses as wide as its alignment and its rest allow."""
    pieces = []
    while count:
        wide = aligned
        while offset % wide or wide > count:
            wide //= 2
        pieces.append(Piece(offset=offset, count=wide, row=row, column=column))
        offset, count, column = offset + wide, count - wide, column + wide
        row, column = row + column // width, column % width
    return tuple(pieces)
