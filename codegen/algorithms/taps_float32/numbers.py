"""Every number in the text of ``taps_float32``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.first_layers import (DEPTH_QUADS, LANES_EACH, PAIR, finds_pixels, is_bulk, pixel_of,
                                                   quads_of, run_of)
from warpconv.codegen.parts.lines import Lines, copying_lanes, lanes_for, lines_of
from warpconv.codegen.parts.occupancy import largest_divisor
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, COLUMN_UNIT, DEPTH, ROW_BYTES, ROWS, WARP_GROUP,
                                          WgmmaShape, registers_left)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec, Numerics

from .options import TapsFloat32Options

ITEMSIZE, HALF_BYTES = 4, 2
WIDE = CELL_BYTES // ITEMSIZE   # elements of a copy
ROW_DEPTHS = ROW_BYTES // (HALF_BYTES * DEPTH)  # instructions that take the halves of a row in shared memory
SPLIT_DEPTHS = 2                # instructions of a step, whose sums begin at zero, where factors are split
RUN = 8                         # outputs of a warp that the sums have one below the other
WARP_RUNS = 2
FEWER_REGISTERS = 56            # of a thread that copies, and more where it is of two shifts, leaves lines there twice
MORE_COPYING = 8                # and has their ends in the padding to write,
WORDS_AT_ONCE = 8               # and the words of halves that it makes at a time
MOST_REGISTERS = 224
# Of a thread that multiplies, beside sums, factors and places
REGISTERS_BESIDE = {Numerics.FP16X3: 52, Numerics.TF32: 40}
REGISTERS_PLANES = 6            # and in NCHW, where lanes exchange outputs
REGISTERS_STAGED = {Numerics.FP16X3: 21, Numerics.TF32: 6}      # or put them together in shared memory,
REGISTERS_PASSES = 24           # of several tiles of filters
STAGE_BESIDE = 4                # floats behind a filter's outputs: what a warp puts there at once meets in no bank
MOST_STORED = 16                # outputs that a lane loads from there before it stores any
SIDE_THREADS = 256
MOST_SETS = 3
SPLIT_PRODUCTS = 3              # of the four of two factors' parts
STORES = (4, 2, 1)
RANGE_BYTES, SCALE_BYTES = 8, 8                 # what copying warps tell each other, and the others of a tile
RANGES = 2                      # by turns
# Binary digits that a factor may be below the largest of its scale without losing any: those of two halves, the low one
# times 2^11, and those of one
KEPT_DIGITS = {Numerics.FP16X3: 27, Numerics.TF32: 28}
# Beside factors below that, sums count that are this often their number of products: in both factors' scales, where the
# largest are 2^14 to 2^15. What such factors lose is then less than a quarter of a float's last digit, or, rounded, at
# most 2^-15 of the sum
LEAST_SUM = {Numerics.FP16X3: 64, Numerics.TF32: 32}


@dataclass(frozen=True)
class TapsFloat32Numbers:
    """What the templates of ``taps_float32`` write besides the spec."""

    arguments: tuple[Argument, ...]
    shape: WgmmaShape
    sums: int                   # of a thread
    split: bool                 # whether factors have two parts,
    parts: int                  # or one
    all_copiers: int            # warps that copy pixels
    threads: int
    fewer_registers: int
    more_registers: int
    whole_lines: bool           # whether every line of x begins with 16 bytes
    bulk: bool                  # whether a line is one copy, but for its ends
    products: int               # of an output
    run_length: int             # elements of a window that lie side by side in x,
    spans: int                  # and such runs of a window
    by_tap: bool                # whether each tap is one of its own,
    moving: bool                # and begins at a side of a pair of its own
    depths: int                 # instructions of all products
    step_depths: int            # of these a step
    steps: int
    sets: int                   # steps whose factors a thread has at a time
    rows: int                   # of a filter in shared memory
    row_depths: int             # instructions that take the products of one,
    row_words: int              # and these, of a part
    row_cells: int              # of 16 bytes: such a row of all filters,
    share_cells: int            # of those that are multiplied at a time
    low_cells: int              # from a row's high parts to its low ones
    whole_quads: int            # of a span: four pairs side by side, one of each of four lanes
    rest_pairs: int             # pairs that are left of one
    span_quads: int             # fours of all spans,
    rest_quads: int             # of what is left of them,
    quads: int                  # and all
    filter_blocks: int          # blocks that share out filters
    filter_rows: int            # filters of all tiles
    filter_cells: int           # copies of a tile's filters
    filter_bytes: int           # of all tiles of a block
    scales_from: int            # floats of the prepared filter before its filters' scales,
    floats_from: int            # before the filter as it was,
    prepared: int               # and all
    blocks: int                 # eights of filters in a tile
    together: int               # of these whose filters a lane stores side by side
    runs_across: int            # of a tile's row
    items: int                  # of a tile: 64 outputs
    stage_line: int             # floats from a filter's outputs to the next's, where a group puts them together,
    stage: int                  # and of all
    stages_at: int
    store_rounds: int           # stores of a lane of a filter's outputs,
    stored_at_once: int         # and filters that a warp stores at once
    first_barrier: int          # of groups, behind those of warps that copy
    halo_rows: int
    pixel: int                  # elements of a pixel in a line of the image
    odd_pixel: bool             # whether every second column's window begins inside of a word
    line: int                   # elements from a line to the next as they are copied, or at least
    lead: int                   # elements of a line before the first that a window reads
    pieces: int                 # copies of a line,
    piece_lanes: int            # by so many threads,
    piece_rounds: int           # so often
    lines: int                  # of a tile
    planes: int                 # planes of channels in shared memory,
    plane: int                  # elements from one to the next as they are copied, or at least
    raw: int                    # elements of a tile's pixels so,
    raw_tiles: int              # and such tiles at a time
    covered: int                # elements of a line that windows read
    words: int                  # of a line of halves
    line_lanes: int             # that split such a line, a word each at a time,
    rounds: int                 # so often
    lines_apart: int            # lines at a time by all threads that copy,
    lines_at_once: int          # and of these a thread has so many at once
    plane_words: int            # of a channel's lines
    copy_words: int             # of all lines: a copy for windows that begin with a word, one for the others
    part_words: int             # of all copies
    buffer_words: int           # of both parts
    edges: bool                 # whether columns stand in the padding
    find_pixels: bool           # whether what stands in the padding is a pixel of the image
    kept_digits: int
    least_sum: float            # below which sums do not count beside factors that lose digits
    raws_at: int
    halves_at: int
    scales_at: int
    ranges_at: int
    barriers_at: int
    shared_bytes: int
    depth_cells: int = DEPTH * HALF_BYTES // CELL_BYTES
    side_threads: int = SIDE_THREADS


def is_split(spec: KernelSpec) -> bool:
    """Whether factors have two parts."""
    return spec.numerics is Numerics.FP16X3


def parts_of(spec: KernelSpec) -> int:
    """Of a factor."""
    return 2 if is_split(spec) else 1


def is_odd(spec: KernelSpec) -> bool:
    """Whether every second column's window begins inside of a word: for these lines of halves are there twice."""
    return spec.stride[1] * pixel_of(spec) % PAIR == 1


def is_moving(spec: KernelSpec) -> bool:
    """Whether a window's runs begin at sides of pairs of their own."""
    return spec.dilation[1] > 1 and spec.dilation[1] * pixel_of(spec) % PAIR == 1


def run_pairs(spec: KernelSpec) -> int:
    """Pairs that hold a run of a window's elements."""
    length, _ = run_of(spec)
    return length // PAIR + 1 if is_moving(spec) else -(-length // PAIR)


def window_quads(spec: KernelSpec) -> tuple[int, int]:
    """Fours of pairs of a window: of whole runs, and of what is left of them."""
    return quads_of(run_pairs(spec), run_of(spec)[1])


def depths_of(spec: KernelSpec) -> int:
    """Instructions of all products."""
    return -(-sum(window_quads(spec)) // DEPTH_QUADS)


def step_depths(spec: KernelSpec) -> int:
    """Instructions whose factors are loaded together."""
    return SPLIT_DEPTHS if is_split(spec) else ROW_DEPTHS


def steps_of(spec: KernelSpec) -> int:
    """Of the reduction."""
    return -(-depths_of(spec) // step_depths(spec))


def row_depths(spec: KernelSpec) -> int:
    """Instructions that take the products of a filter's row in shared memory, which has both parts."""
    return ROW_DEPTHS // parts_of(spec)


def rows_of(spec: KernelSpec) -> int:
    """Of a filter in shared memory."""
    return -(-depths_of(spec) // row_depths(spec))


def halo(spec: KernelSpec, options: TapsFloat32Options) -> Lines:
    """A tile's pixels as they are copied."""
    return lines_of(spec, (options.tile_p, options.tile_q), options.vector > 1, WIDE)


def covered(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Elements of a line that a tile's windows read."""
    return ((options.tile_q - 1) * spec.stride[1] + spec.extents[1]) * pixel_of(spec)


def line_words(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a line of halves: its elements, and what pairs have behind the last window's."""
    pixel = pixel_of(spec)
    last_window = (options.tile_q - 1) * spec.stride[1] * pixel
    last_run = (spec.s - 1) * spec.dilation[1] * pixel if spec.dilation[1] > 1 else 0
    read = last_window // PAIR + last_run // PAIR + run_pairs(spec)
    return max(read, -(-covered(spec, options) // PAIR))


def copies_of(spec: KernelSpec) -> int:
    """Of a line of halves."""
    return 2 if is_odd(spec) else 1


def tile_lines(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of all channels that lie in lines of their own."""
    return halo(spec, options).rows * (spec.c // pixel_of(spec))


def line_rounds(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Words of a line of halves that a thread makes."""
    words = line_words(spec, options)
    return -(-words // lanes_for(words))


def buffer_words(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a tile's pixels in halves, in whole 16 bytes."""
    words = parts_of(spec) * copies_of(spec) * tile_lines(spec, options) * line_words(spec, options)
    return -(-words // WIDE) * WIDE


def filter_bytes(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a tile's filters in shared memory."""
    return rows_of(spec) * options.filters * ROW_BYTES


def filter_blocks(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Blocks that share out filters."""
    return -(-spec.k // (options.passes * options.filters))


def shared_bytes(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a block: filters, pixels as floats and in halves, scales, what copying warps tell each other, barriers."""
    pixels = raw_tiles(options) * halo(spec, options).elements + options.buffers * buffer_words(spec, options)
    return (options.passes * filter_bytes(spec, options) + ITEMSIZE * pixels
            + options.buffers * (SCALE_BYTES + 2 * BARRIER_BYTES) + (1 + raw_tiles(options)) * BARRIER_BYTES
            + RANGES * all_copiers(options) * RANGE_BYTES
            + options.groups * ITEMSIZE * stage_floats(options))


def stage_line(options: TapsFloat32Options) -> int:
    """Floats from a filter's outputs to the next's, where a group puts them together."""
    return options.together * ROWS + STAGE_BESIDE


def stage_floats(options: TapsFloat32Options) -> int:
    """Of all filters' outputs that a group puts together."""
    return options.filters * stage_line(options) if options.staged else 0


def all_copiers(options: TapsFloat32Options) -> int:
    """Warps that copy pixels."""
    return options.shifts * options.copiers


def raw_tiles(options: TapsFloat32Options) -> int:
    """Tiles' pixels in shared memory as they are copied."""
    return options.shifts * options.raws


def threads_of(options: TapsFloat32Options) -> int:
    """Of a block."""
    return WARP_GROUP * options.groups + LANES * all_copiers(options)


def fewer_registers(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a thread that copies."""
    more = options.shifts > 1 and is_odd(spec) and any(spec.padding[1])
    return FEWER_REGISTERS + (MORE_COPYING if more else 0)


def more_registers(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a thread that multiplies: what those that copy leave of what the block is launched with."""
    return registers_left(options.groups, LANES * all_copiers(options), fewer_registers(spec, options), MOST_REGISTERS)


def thread_sums(options: TapsFloat32Options) -> int:
    """Of a tile's filters."""
    return options.filters * ROWS // WARP_GROUP


def share_sums(options: TapsFloat32Options) -> int:
    """Of a thread, of the filters that are multiplied at a time."""
    return thread_sums(options) // options.shares


def planned_registers(spec: KernelSpec, options: TapsFloat32Options, sets: int) -> int:
    """Of a thread that multiplies: sums (where factors are split those of high parts, of a low one, and of a share of
    filters in a step), places of factors, and factors of so many steps."""
    sums = 2 * thread_sums(options) + share_sums(options) if is_split(spec) else thread_sums(options)
    factors = sets * step_depths(spec) * LANES_EACH * parts_of(spec)
    beside = REGISTERS_BESIDE[spec.numerics]
    if options.staged:
        beside += REGISTERS_STAGED[spec.numerics] + (REGISTERS_PASSES if options.passes > 1 else 0)
    elif spec.layout is Layout.NCHW:
        beside += REGISTERS_PLANES
    return sums + window_quads(spec)[1] + factors + beside


def sets_of(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Steps whose factors a thread has at a time: those of one that is multiplied, of the next, and, where there are
    registers for them, those that come."""
    most = min(MOST_SETS, steps_of(spec))
    held = more_registers(spec, options)
    fits = (sets for sets in range(most, 1, -1) if planned_registers(spec, options, sets) <= held)
    return next(fits, min(2, most))


def lines_at_once(lines: int, apart: int, most: int) -> int:
    """Lines whose words a thread loads before it splits them: at most ``most``, in batches alike."""
    each = -(-lines // apart)
    batches = -(-each // max(1, most))
    return -(-each // batches)


def store_width(spec: KernelSpec) -> int:
    """Filters of a store."""
    return 1 if spec.layout is Layout.NCHW else next(width for width in STORES if spec.k % width == 0)


def column_unit(options: TapsFloat32Options) -> int:
    """Filters that a tile has a whole number of: those of the blocks that a lane stores from at once."""
    return max(COLUMN_UNIT, LANES_EACH * options.store_vector)


def make_numbers(spec: KernelSpec, options: TapsFloat32Options,
                 arguments: tuple[Argument, ...] = ()) -> TapsFloat32Numbers:
    """All numbers of plan values that fit together."""
    lines, pixel, parts, rows = halo(spec, options), pixel_of(spec), parts_of(spec), rows_of(spec)
    of_tile = tile_lines(spec, options)
    words = line_words(spec, options)
    rounds, apart = line_rounds(spec, options), LANES * options.copiers // lanes_for(words)
    blocks = filter_blocks(spec, options)
    filters, filter_rows = options.passes * filter_bytes(spec, options), blocks * options.passes * options.filters
    scales_from = blocks * filters // ITEMSIZE
    length, spans = run_of(spec)
    pairs, quads = run_pairs(spec), window_quads(spec)
    halves_at = filters + raw_tiles(options) * ITEMSIZE * lines.elements
    stages_at = halves_at + options.buffers * ITEMSIZE * buffer_words(spec, options)
    scales_at = stages_at + options.groups * ITEMSIZE * stage_floats(options)
    ranges_at = scales_at + options.buffers * SCALE_BYTES
    store_rounds = options.together * ROWS // LANES
    barriers_at = ranges_at + RANGES * all_copiers(options) * RANGE_BYTES
    return TapsFloat32Numbers(
        arguments=arguments, shape=WgmmaShape.of(options.filters // options.shares),
        sums=thread_sums(options), split=is_split(spec), parts=parts,
        all_copiers=all_copiers(options), threads=threads_of(options), fewer_registers=fewer_registers(spec, options),
        more_registers=more_registers(spec, options),
        whole_lines=options.vector > 1, bulk=is_bulk(spec), products=spec.reduction, run_length=length,
        spans=spans,
        by_tap=spec.dilation[1] > 1, moving=is_moving(spec), depths=depths_of(spec),
        step_depths=step_depths(spec), steps=steps_of(spec), sets=sets_of(spec, options), rows=rows,
        row_depths=row_depths(spec), row_words=ROW_BYTES // ITEMSIZE // parts,
        row_cells=options.filters * ROW_BYTES // CELL_BYTES,
        share_cells=options.filters // options.shares * ROW_BYTES // CELL_BYTES,
        low_cells=ROW_BYTES // CELL_BYTES // parts,
        whole_quads=pairs // LANES_EACH, rest_pairs=pairs % LANES_EACH, span_quads=quads[0], rest_quads=quads[1],
        quads=sum(quads), filter_blocks=blocks, filter_rows=filter_rows,
        filter_cells=filter_bytes(spec, options) // CELL_BYTES, filter_bytes=filters, scales_from=scales_from,
        floats_from=scales_from + filter_rows, prepared=scales_from + filter_rows + spec.k * spec.reduction,
        blocks=options.filters // COLUMN_UNIT, together=max(1, options.store_vector // PAIR),
        runs_across=options.tile_q // RUN, items=options.tile_p * options.tile_q // ROWS, halo_rows=lines.rows,
        pixel=pixel, odd_pixel=is_odd(spec), line=lines.line, lead=lines.lead, pieces=lines.pieces,
        piece_lanes=copying_lanes(lines.piece_lanes, is_bulk(spec)), piece_rounds=lines.piece_rounds, lines=of_tile,
        planes=spec.c // pixel, plane=lines.plane, raw=lines.elements,
        raw_tiles=raw_tiles(options), covered=covered(spec, options), words=words,
        line_lanes=lanes_for(words), rounds=rounds, lines_apart=apart,
        lines_at_once=lines_at_once(of_tile, apart, WORDS_AT_ONCE // rounds),
        plane_words=lines.rows * words, copy_words=of_tile * words, part_words=copies_of(spec) * of_tile * words,
        buffer_words=buffer_words(spec, options), edges=any(spec.padding[1]), find_pixels=finds_pixels(spec),
        kept_digits=KEPT_DIGITS[spec.numerics], least_sum=float(LEAST_SUM[spec.numerics] * spec.reduction),
        raws_at=filters, halves_at=halves_at, scales_at=scales_at, ranges_at=ranges_at,
        barriers_at=barriers_at, stage_line=stage_line(options), stage=stage_floats(options), stages_at=stages_at,
        store_rounds=store_rounds, first_barrier=1 + options.shifts,
        stored_at_once=largest_divisor(options.filters * LANES // WARP_GROUP, MOST_STORED // store_rounds),
        shared_bytes=shared_bytes(spec, options))
