"""The plan values of ``channels``, and every number that its templates write, worked out from them."""

from __future__ import annotations

import enum
import functools
from math import gcd

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import SHARED_STATIC
from warpconv.codegen.options import DERIVED, only
from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.parts.vectors import Vector, vector_of
from warpconv.codegen.spec import KernelSpec, Numerics

from .borders import ChannelsBorder, border_of, made_of

SEVERAL_ROWS = 24       # registers more for each, where a step has several input rows, with pointers and guards
TAPS_A_STATEMENT = 4    # products that one line of the text chains, and one wide read of weights brings


class Body(enum.Enum):
    """How a thread goes through its output rows."""

    RING = "ring"    # down the image, an accumulator row for every filter row; weights in registers
    LINES = "lines"  # the same, its input rows copied ahead to shared memory by the block
    TILE = "tile"    # a fixed tile of output rows in registers, the input rows passing by; weights in shared memory


class Width(enum.Enum):
    """Which output widths a kernel serves."""

    ANY = "any"
    WHOLE = "whole"    # multiples of the columns of a thread: most loads and all stores need no guard


class Copies(enum.Enum):
    """The way of an asynchronous copy of 16 bytes (smaller ones are always cached)."""

    CACHED = "cached"    # through the first-level cache, which serves the columns that neighbouring strips share
    PAST = "past"        # past it


@dataclass(frozen=True)
class ChannelsOptions:
    """Plan values. A thread makes ``columns`` x ``sub_block_rows`` outputs of ``vector`` neighbouring channels and
    loads ``prefetch_rows`` steps ahead of its products (with lines in shared memory ``stage_rows`` of them at a time,
    between two barriers, their copies going through the first-level cache or past it); a block has
    ``block_channels`` threads along the channels, times ``block_columns`` along the columns, times ``block_rows``
    sub-blocks stacked; the compiler is told to leave registers for ``min_blocks`` blocks on a multiprocessor (follows
    from the others where not given)."""

    body: Body = Body.RING
    vector: int = 1
    columns: int = 4
    width: Width = Width.ANY
    sub_block_rows: int = 28
    prefetch_rows: int = 1
    stage_rows: int = only(1, body=Body.LINES)
    copies: Copies = only(Copies.CACHED, body=Body.LINES)
    block_channels: int = 32
    block_columns: int = 8
    block_rows: int = 1
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class RingRow:
    """The products of one accumulator row in a step: ``target`` = ``source`` + products, in lines of ``statements``.

    Rows are numbered with the oldest 0; the target of the finished row and the source of a new one are None. A
    statement's taps are (row of the step, filter row, filter column).
    """

    target: int | None
    source: int | None
    statements: tuple[tuple[tuple[int, int, int], ...], ...]


@dataclass(frozen=True)
class BlockLine:
    """An input row of a block's strip in shared memory."""

    columns: int             # input columns
    pixel: int               # channels, elements
    piece: int               # elements of a copy
    copy_bytes: int
    copy_columns: int        # that all threads copy at once
    copies: tuple[int, ...]  # of a thread
    stages_ahead: int
    elements: int            # of the row
    step_elements: int       # of the rows of a step
    words: int               # 32-bit words of all rows
    shared_bytes: int        # of rows and filters
    channels_left: bool      # the last block of channels is not full
    taps: int
    filter_piece: int        # weights of a copy
    filter_bytes: int
    way: str                 # of a copy: past the first-level cache (cg) or through it (ca)


@dataclass(frozen=True)
class ChannelsNumbers:
    """What the template writes besides the spec. A unit is what one product works on: a float, or a word of two."""

    threads: int
    packed: bool                         # half arithmetic on words of two channels
    converted: bool                      # 16-bit elements become floats after the load
    units: int                           # of one pixel in a thread
    unit_type: str                       # C type
    inputs: int                          # input channels of a thread
    unit_inputs: tuple[int, ...]         # which input unit each unit multiplies
    word_type: str                       # C type of a pixel's load
    word_parts: tuple[str, ...]          # its 32-bit members
    input_units: int                     # units that a load brings
    store_type: str
    store_parts: tuple[str, ...]
    part_type: str                       # C type of each
    store: Vector                        # the same word as a residual is loaded
    loads: tuple[int, ...]               # input columns, from the thread's first
    guarded_left: tuple[int, ...]        # of them those that may lie before the image,
    guarded_right: tuple[int, ...]       # and beyond it
    first_guarded_store: int             # output columns from here on may lie outside
    column_of: tuple[tuple[int, ...], ...]   # [output column][filter column] -> one of them
    classes: int                         # residue classes of output rows that share no input row
    step_rows: int                       # row units from one output of a class to the next
    rows_of_step: tuple[int, ...]        # of them those that a filter row meets
    ring_rows: int                       # accumulator rows: outputs that one step adds to
    ring: tuple[RingRow, ...]
    sets: tuple[int, ...]                # register sets of loaded words
    first_ahead: tuple[int, ...]         # steps, beyond the first, that are loaded before the loop
    tile_statements: tuple[tuple[int, ...], ...]    # filter columns of each statement
    channel_vectors: int                 # of the whole output
    channel_blocks: int
    row_stride: int                      # units of shared memory from one filter row to the next
    channel_stride: int                  # and from one unit's filter to the next
    shared_units: int
    zeros_above: bool                    # some windows lie wholly above the image
    zeros_below: bool
    filters: int                         # filters of an input channel
    line: BlockLine
    border: ChannelsBorder | None        # None for zeros, whose rows outside the image are left out
    outside_word: str                    # what a pixel outside of the image is loaded as
    guarded_rows: bool                   # a step's rows are looked at one by one


def step_rows_of(spec: KernelSpec) -> int:
    """Row units from one output of a class to the next, which a step of a walk takes: one where the vertical stride is
    1, or divides the dilation."""
    return spec.stride[0] // gcd(spec.stride[0], spec.dilation[0])


def numbers_of(spec: KernelSpec, options: ChannelsOptions) -> ChannelsNumbers:
    """The numbers for plan values that fit the spec."""
    packed = spec.numerics is Numerics.FLOAT16
    narrow = spec.dtype.is_half
    units = options.vector // 2 if packed else options.vector
    inputs = max(1, options.vector // spec.filters)
    input_units = max(1, units // spec.filters)
    word_type, word_parts = _word(spec.dtype, inputs)
    store_type, store_parts = _word(spec.dtype, options.vector)
    offsets = sorted({i * spec.stride[1] + s * spec.dilation[1] for i in range(options.columns) for s in range(spec.s)})
    columns = tuple(tuple(i * spec.stride[1] + s * spec.dilation[1] for s in range(spec.s))
                    for i in range(options.columns))
    step_rows = step_rows_of(spec)
    ring_rows = -(-spec.r // step_rows)
    rows_of_step = tuple(range(min(step_rows, spec.r)))
    converted = narrow and not packed
    if options.body is not Body.TILE:
        row_stride, taps = spec.s, spec.r * spec.s
        channel_stride = taps + (taps + 1) % 2                      # odd: neighbouring lanes read other banks
    else:
        row_stride = -(-spec.s // TAPS_A_STATEMENT) * TAPS_A_STATEMENT
        quads = spec.r * row_stride // TAPS_A_STATEMENT
        channel_stride = TAPS_A_STATEMENT * (quads + (quads + 1) % 2)
    # with whole tiles the first begins `left` columns before the image, and the last ends `right` beyond it
    left, right = spec.padding[1]
    whole = options.width is Width.WHOLE
    lines = options.body is Body.LINES
    guarded_left = tuple(c for c in offsets if c < left)
    guarded_right = tuple(c for c in offsets if not whole or c > offsets[-1] - right)
    sets = 1 if lines else options.prefetch_rows + (0 if converted else 1)
    pixels, zeros = spec.padding_mode.reads_image, spec.padding_mode is Border.ZEROS
    if lines or pixels:
        guarded_left = guarded_right = ()
    vectors, line = spec.k // options.vector, line_of(spec, options, offsets[-1] + 1, rows_of_step)
    (top, bottom), reach = spec.padding[0], spec.dilation[0] * (spec.r - 1)
    return ChannelsNumbers(
        threads=options.block_channels * options.block_columns * options.block_rows, packed=packed, converted=converted,
        units=units, unit_type="unsigned" if packed else "float", inputs=inputs,
        unit_inputs=tuple(unit * input_units // units for unit in range(units)), word_type=word_type,
        word_parts=word_parts, input_units=input_units, store_type=store_type, store_parts=store_parts,
        part_type=_word(spec.dtype, max(1, options.vector // len(store_parts)))[0],
        store=vector_of(spec.y_dtype, options.vector),
        loads=tuple(offsets), guarded_left=guarded_left, guarded_right=guarded_right,
        first_guarded_store=1 if options.width is Width.ANY else options.columns,
        column_of=columns, classes=spec.dilation[0] * step_rows // spec.stride[0], step_rows=step_rows,
        rows_of_step=rows_of_step, ring_rows=ring_rows, ring=_ring(spec.r, spec.s, step_rows),
        sets=tuple(range(sets)), first_ahead=tuple(range(options.prefetch_rows)),
        tile_statements=tuple(tuple(range(s, min(s + TAPS_A_STATEMENT, spec.s)))
                              for s in range(0, spec.s, TAPS_A_STATEMENT)),
        channel_vectors=vectors, channel_blocks=-(-vectors // options.block_channels), row_stride=row_stride,
        channel_stride=channel_stride, shared_units=options.block_channels * units * channel_stride,
        zeros_above=top > reach and zeros, zeros_below=(bottom > reach or spec.dilation[0] > 1) and zeros,
        filters=spec.filters, line=line, border=None if zeros else border_of(spec, line.copy_bytes),
        outside_word=made_of("BORDER" if spec.padding_mode is Border.CONSTANT else "0", word_type, len(word_parts)),
        guarded_rows=not pixels and (step_rows > 1 or not zeros))


def line_of(spec: KernelSpec, options: ChannelsOptions, window: int, rows_of_step: tuple[int, ...]) -> BlockLine:
    """For `window` input columns of a thread."""
    pixel, taps, size = options.block_channels * options.vector, spec.r * spec.s, spec.dtype.itemsize
    piece = gcd(pixel, spec.c, 16 // size)
    columns = (options.block_columns - 1) * options.columns * spec.stride[1] + window
    copy_columns = options.block_columns * piece // options.vector
    filter_piece = gcd(pixel * taps, spec.k * taps, 16 // size)
    stages = max(1, options.prefetch_rows // options.stage_rows)
    elements = columns * pixel
    step_elements = len(rows_of_step) * elements
    all_rows = (stages + 1) * options.stage_rows * step_elements
    return BlockLine(columns=columns, pixel=pixel, piece=piece, copy_bytes=piece * size, copy_columns=copy_columns,
                copies=tuple(range(min(SHARED_STATIC // 4, -(-columns // max(1, copy_columns))))), stages_ahead=stages,
                elements=elements, step_elements=step_elements,
                words=all_rows * size // 4, shared_bytes=(all_rows + pixel * taps) * size,
                channels_left=spec.k % pixel > 0, taps=taps, filter_piece=filter_piece,
                filter_bytes=filter_piece * size, way="ca" if options.copies is Copies.CACHED else "cg")


def registers_of(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers) -> int:
    """Registers of a thread, about: weights, accumulators, the row in work and those loaded ahead, and addresses."""
    # of lines the compiler reads a row when it is needed
    rows = 1 if options.body is Body.LINES else len(numbers.rows_of_step)
    columns = len(numbers.loads) * rows
    words = max(1, spec.dtype.itemsize * numbers.inputs // 4) * columns
    values = numbers.input_units * columns
    if options.body is Body.TILE:
        ahead = words
        held = options.sub_block_rows * options.columns + 2 * TAPS_A_STATEMENT
    else:
        ahead = 0 if options.body is Body.LINES else words * len(numbers.sets) - (0 if numbers.converted else values)
        held = numbers.units * (spec.r * spec.s + numbers.ring_rows * options.columns)
        held += SEVERAL_ROWS * rows if rows > 1 else 0
    if options.body is Body.LINES and spec.padding_mode.reads_image:
        ahead = len(numbers.line.copies)        # where their columns are
    steps = step_registers(spec, options.columns * options.vector)
    return held + values + ahead + (16 if options.body is Body.LINES else 26) + steps


def _word(dtype: DType, elements: int) -> tuple[str, tuple[str, ...]]:
    """The C type that loads or stores ``elements`` neighbouring channels at once, and its 32-bit members."""
    if dtype.itemsize * elements <= 4:
        return (dtype.c_name if elements == 1 else "unsigned"), ("",)
    base = "float" if dtype is DType.FLOAT32 else "uint"
    count = dtype.itemsize * elements // 4
    return f"{base}{count}", (".x", ".y", ".z", ".w")[:count]


@functools.lru_cache(maxsize=64)
def _ring(r: int, s: int, step_rows: int) -> tuple[RingRow, ...]:
    """Oldest first. Each row's sum goes to the register of the next older one, so nothing is moved or set to zero."""
    made = []
    ring_rows = -(-r // step_rows)
    for age in range(ring_rows - 1, -1, -1):
        taps = [(row, age * step_rows + row, column) for row in range(min(step_rows, r - age * step_rows))
                for column in range(s)]
        statements = tuple(tuple(taps[i:i + TAPS_A_STATEMENT]) for i in range(0, len(taps), TAPS_A_STATEMENT))
        made.append(RingRow(target=None if age == ring_rows - 1 else ring_rows - 2 - age,
                            source=None if age == 0 else ring_rows - 1 - age, statements=statements))
    return tuple(made)
