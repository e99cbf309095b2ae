"""Every number in the text of ``staged``: which columns meet which taps, and where all lies in shared memory."""

from __future__ import annotations

import enum
import functools
import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.spec import KernelSpec

from .rows import (WIDEST_ACCESS, BorderRows, InputRow, OutputRows, Access, Strips, Taps, border_rows, columns_of,
                   input_rows, output_rows, taps_of)

COLUMNS_ALIVE = 16            # of an input row: the compiler loads the later ones when the first are done with
SPARE, SPARE_STATIC = 10, 28  # registers beyond what is held; more where no branch parts the loads of rows
COPY_REGISTERS = 72           # that the copies take, eight accesses at a time
MOST_TOGETHER = 28            # accesses that a thread has under way at once


class Stage(enum.Enum):
    """How planes get from global to shared memory."""

    ASYNC = "async"          # asynchronous copies, which hold no registers (from sm_80 on)
    REGISTERS = "registers"  # through registers


class Parts(enum.Enum):
    """What a thread makes of a plane."""

    DERIVED = "derived"      # follows from the other plan values
    STRIPS = "strips"        # some output rows
    QUARTERS = "quarters"    # a quarter, seen from its corner


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
class MirroredColumn:
    """A mirrored input column (or, of 16-bit elements, two of them from it on): where it is for lanes that make a left
    quarter, and for those that make a right one."""

    column: int
    left: Source
    right: Source


@dataclass(frozen=True)
class QuarterRow:
    """Input row ``row``, counted from the lane's corner; ``outside``: the border's one value stands there."""

    row: int
    uses: tuple[tuple[int, int], ...]   # (output row of the quarter, filter row)
    outside: bool = False


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
    pieces: tuple[Access, ...]     # that read an input row
    sources: tuple[MirroredColumn, ...]
    input_rows: tuple[QuarterRow, ...]
    taps: tuple[Taps, ...]
    output_pieces: tuple[Access, ...]


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
    cut: bool                   # the last group may have fewer planes
    sync_before_store: bool     # outputs may take the place of inputs that other threads still read
    pairs: bool                 # 16-bit elements in words of two
    border_rows: BorderRows | None = None    # where strips find rows outside of the image
    quarters: Quarters | None = None

    @property
    def looked_up(self) -> tuple[InputRow, ...]:
        """Input rows that strips look up."""
        return tuple(row for row in self.input_rows if row.found is not None)

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
    """A thread's work: instructions without clipping, ``typical`` with the rows that zeros leave out or that are one
    value for some strips as these take them; FMAs in the text; registers."""

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
    copy_in, copy_out = copies_of(spec, options)
    strips_in, strips_out = (strips_of(spec, options, copy.stride) for copy in (copy_in, copy_out))
    rows = input_rows(spec, strips_in)
    buffer = -(-max(inputs * copy_in.stride, options.planes * copy_out.stride) * spec.dtype.itemsize // 16) * 16
    stride = spec.r * spec.s | 1
    divides = spec.k % options.planes == 0
    own = strips == 1 and divides and spec.filters == 1 and copy_in.stride == copy_out.stride
    return StagedNumbers(
        p=p, q=q, inputs=inputs, strips=strips, threads=options.planes * strips, copy_in=copy_in, copy_out=copy_out,
        strip_rows_in=options.rows * spec.stride[0], input_rows=rows, output_rows=output_rows(spec, strips_out),
        taps=taps_of(spec, options.width, q), border_rows=border_rows(spec, strips_in, rows),
        buffer_bytes=buffer, weights=options.planes * spec.r * spec.s, weight_stride=stride,
        weight_pad=stride > spec.r * spec.s,
        shared_weights=options.buffers * buffer,
        shared_bytes=options.buffers * buffer + 4 * stride * options.planes,
        cut=not divides, sync_before_store=not own, pairs=spec.dtype.is_half)


@functools.lru_cache(maxsize=1024)
def strip_cost(spec: KernelSpec, options: StagedOptions) -> StripCost:
    """What a strip of ``options.rows`` rows costs a thread."""
    strips = strips_of(spec, options, copies_of(spec, options)[0].stride)
    q, taps = strips.q, taps_of(spec, options.width, strips.q)
    rows = input_rows(spec, strips)
    looked_up = sum(row.found is not None for row in rows)
    fma_of_use, columns = sum(len(t.pairs) for t in taps), len(columns_of(taps))
    held = options.weights is Weights.REGISTERS
    half, again = spec.dtype.is_half, 0 if held else spec.s
    text = sum(len(row.uses) for row in rows if row.inside) * fma_of_use
    fixed = 40 + options.rows * q // 2 + (spec.r * spec.s if held and options.buffers == 1 else 0) + 2 * looked_up

    def of_row(row: InputRow) -> int:
        return len(row.pieces) + (columns if half else 0) + 2 + len(row.uses) * (fma_of_use + again)

    def one_value(row: InputRow) -> int:
        return len(row.uses) * (spec.s + q + again) if row.outside else 0

    shares = [_inside(row, strips, spec) for row in rows]
    typical = fixed + sum(of_row(row) * share + one_value(row) * (1 - share) for row, share in zip(rows, shares))
    weights = spec.s * (spec.r if held else min(spec.r, options.rows + 1))    # read again, and ahead of their use, too
    # places of rows, sums of filter rows: kept for all groups
    border = looked_up + (spec.r if any(row.outside for row in rows) else 0)
    held_values = options.rows * q + weights + min(columns, COLUMNS_ALIVE) + border
    registers = max(COPY_REGISTERS, held_values + (SPARE_STATIC if strips.count == 1 else SPARE))
    return StripCost(instructions=fixed + sum(map(of_row, rows)), typical=typical, text=text, registers=registers)


def _inside(row: InputRow, strips: Strips, spec: KernelSpec) -> float:
    """The part of the strips for which the row has pixels."""
    first = [strip * strips.rows * spec.stride[0] + row.offset for strip in range(strips.count)]
    return sum(spec.padding_mode.index(h, strips.height) is not None for h in first) / strips.count


def copies_of(spec: KernelSpec, options: StagedOptions) -> tuple[Copy, Copy]:
    """A group's planes, in and out."""
    p, q = output_size(spec, options)
    return (copy_of(spec, options, options.height * options.width, max(1, options.planes // spec.filters)),
            copy_of(spec, options, p * q, options.planes))


def strips_of(spec: KernelSpec, options: StagedOptions, stride: int) -> Strips:
    """The strips of planes that are ``stride`` elements apart in shared memory."""
    p, q = output_size(spec, options)
    return Strips(height=options.height, width=options.width, p=p, q=q, rows=options.rows, count=-(-p // options.rows),
                  stride=stride)


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
