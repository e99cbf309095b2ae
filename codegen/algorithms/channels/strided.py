"""``channels`` of filters that move by several rows: lines of all channels of a pixel; and where these are not served,
of 16 bits the ring whose rounds of blocks take the fewest cycles.

Counting instructions, as for other layers, picks threads of a column or two there, which leave a multiprocessor with
too few bytes on their way: 5x5 with stride 2 of 672 channels on 14x14 took 16.3 us on an H200, where four columns of
one channel take 8.9 (float16, batch 32, 2026-11-24); on an H100 these take 9.7, and lines 7.5 (2026-11-25).
"""

from __future__ import annotations

import math

from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import H200_SHARED_BESIDE_CACHE, LANES, QUARTERS, SHARED_STATIC
from warpconv.codegen.parts.occupancy import resident_blocks
from warpconv.codegen.spec import KernelSpec, Numerics

from .few import with_more_registers
from .lines import (FEW_TAPS, LINES_REGISTERS, LINES_TEXT, MANY_TAPS, is_float_plane, lines_fit, lines_options_refusal,
                    resident_lines, threads_of_channels)
from .numbers import Body, ChannelsNumbers, ChannelsOptions, Width, numbers_of, registers_of

# Lines, of what was quickest of 1,500 timed on an H100 on 2026-11-25 (3x3 to 11x11 of 14^2 to 112^2, stride 2 to 4,
# batch 32 and 128, float32 and float16)
LINE_COLUMNS = 2            # of a thread, and
LINE_COLUMNS_OF_MANY = 4    # of many taps,
MOST_OF_MANY = 100          # unless their weights leave no room
LINE_CHANNELS = 128         # threads of a block along the channels, at most and evenly
LINE_THREADS = 256          # of a block, further columns beside them
LINE_ROWS = 7               # of a sub-block, and
LINE_ROWS_OF_TALL = 14      # of planes taller than
TALL = 14                   # rows,
LINE_ROWS_OF_MANY = 28      # of many taps,
LINE_BLOCKS = 1.5           # where that leaves so many blocks a multiprocessor
LINE_IMAGES = 32            # of so many images
# Of float32 with stride 2 and few taps a column each, of 580 plans of 17 layers (3x3, 14^2 to 112^2, batch 8 to 128),
# timed on an H200 on 2026-11-28: on narrow planes 0.81 to 0.93 of the time of two columns each; on others, and where
# blocks do not share out channels evenly, pairs of channels, 0.70 to 1.06, unless channels are whole 256 bytes: two
# columns are as quick then. Registers for half as many blocks as could stay: with fewer up to 1.17 times as long
NARROW = 7                  # columns of outputs
FEW_TAPS_CHANNELS = 64      # threads of a block along the channels, at most and evenly
WHOLE_CHANNELS = 64         # of these two columns each are as quick
LEAST_CHANNELS = 24
NARROW_COLUMNS, PAIR_COLUMNS = 2, 4     # of a block beside them
NARROW_AHEAD, PAIR_AHEAD = 4, 3     # steps
# Steps ahead. Of float32 the first with which the blocks that stay leave the first-level cache 60 KB: neighbouring
# strips share columns there, and with 28 KB layers took up to an eighth longer; two at the least, as one alone took
# longer still. More gain nothing with 16 bits, which need less memory, and where arithmetic sets the pace
STEPS_AHEAD, STEPS_AHEAD_FLOAT, STEPS_AHEAD_OF_MANY = (3, 2, 1), (5, 4, 3, 2, 1), (2, 1)
MOST_REGISTERS = 212        # planned of a thread
REGISTER_MARGIN = 16        # beyond the planned ones, so that nothing spills
COLUMNS = (4, 5, 7)         # of a thread; fewer were slower wherever rows were long enough
VECTORS = (1, 2)            # channels of a thread
AHEAD = 2                   # steps whose loads are on their way
# Cycles, fitted to 205 such rings of nine layers in float16 (batch 32, five also 128) and five in float32, with stride
# 2 (3x3 and 5x5, 14^2 to 112^2), timed on an H200 on 2026-11-24: the ring that is chosen of them takes 1.06 times as
# long in the mean as the quickest of all 918 that were timed, 1.2 at most
IMAGES = (32, 128)          # batches that share a choice
ISSUED = 0.423              # of an instruction of a full multiprocessor's
LATENCY = 294.0             # of a step's loads
LONE = 1.98                 # of an instruction in a thread's own time
LAST = 0.075                # of a round of blocks that is not full
MEMORY_SHARE = 0.857        # of the bytes, at the speed of a copy
STEP_INSTRUCTIONS = 10      # besides products, loads, conversions
START_INSTRUCTIONS = 60     # of a thread
STORE_INSTRUCTIONS = 1.5    # of an output
WEIGHT_INSTRUCTIONS = 2.3   # of a weight, on its way to its register


def lines(spec: KernelSpec, p: int, q: int, known: bool) -> ChannelsOptions | None:
    """The plan values of lines; None where none fits. The width is ``known`` of a layer."""
    taps, half = spec.r * spec.s, spec.dtype.is_half
    found = _of_one_column(spec, q, known)
    if found is not None:
        return found
    vector = 2 if spec.numerics is Numerics.FLOAT16 or half and taps < FEW_TAPS and spec.k % 2 == 0 else 1
    channels = threads_of_channels(spec, vector, LINE_CHANNELS)
    many = MANY_TAPS <= taps <= MOST_OF_MANY
    columns = min(LINE_COLUMNS_OF_MANY if many else LINE_COLUMNS, q)
    options = ChannelsOptions(
        body=Body.LINES, vector=vector, columns=columns, width=Width.WHOLE if known and q % columns == 0 else Width.ANY,
        stage_rows=1, block_channels=channels, block_columns=max(1, min(LINE_THREADS // channels, -(-q // columns))))
    if spec.k % vector or lines_options_refusal(spec, options) is not None:
        return None
    while (found := _fitting(spec, replace(options, sub_block_rows=_rows(spec, options, p, q)))) is None:
        if options.block_columns > 1:
            options = replace(options, block_columns=options.block_columns // 2)
        elif options.columns > LINE_COLUMNS:
            options = replace(options, columns=LINE_COLUMNS)
        elif options.block_channels % 4 == 0:
            options = replace(options, block_channels=options.block_channels // 2)
        else:
            return None
    return found


def _of_one_column(spec: KernelSpec, q: int, known: bool) -> ChannelsOptions | None:
    """Lines of float32, stride 2 and few taps with a column a thread; None where two are as quick, or nothing fits."""
    if not is_float_plane(spec, stride=2) or spec.k < LEAST_CHANNELS:
        return None
    narrow = q <= NARROW and spec.k % threads_of_channels(spec, 1, FEW_TAPS_CHANNELS) == 0
    vector = 1 if narrow else 2
    if not narrow and (spec.k % WHOLE_CHANNELS == 0 or spec.k % vector):
        return None
    options = ChannelsOptions(
        body=Body.LINES, vector=vector, columns=1, width=Width.WHOLE if known else Width.ANY, stage_rows=1,
        prefetch_rows=NARROW_AHEAD if narrow else PAIR_AHEAD, sub_block_rows=LINE_ROWS,
        block_channels=threads_of_channels(spec, vector, FEW_TAPS_CHANNELS),
        block_columns=NARROW_COLUMNS if narrow else PAIR_COLUMNS)
    return with_more_registers(spec, options) if lines_fit(spec, options, numbers_of(spec, options)) else None


def _rows(spec: KernelSpec, options: ChannelsOptions, p: int, q: int) -> int:
    """Tall sub-blocks where these leave enough blocks."""
    strips = -(-q // (options.columns * options.block_columns))
    beside = LINE_IMAGES * strips * -(-spec.k // (options.vector * options.block_channels))
    wanted = (LINE_ROWS_OF_MANY if spec.r * spec.s >= MANY_TAPS else LINE_ROWS_OF_TALL) if p > TALL else LINE_ROWS
    while wanted > LINE_ROWS and beside * -(-p // wanted) < LINE_BLOCKS * spec.hardware.multiprocessors:
        wanted //= 2
    return wanted


def _fitting(spec: KernelSpec, options: ChannelsOptions) -> ChannelsOptions | None:
    """With as many steps ahead as there is room for, one at least; None where that is too much."""
    half, many = spec.dtype.is_half, spec.r * spec.s >= MANY_TAPS
    for steps in STEPS_AHEAD if half else STEPS_AHEAD_OF_MANY if many else STEPS_AHEAD_FLOAT:
        found = replace(options, prefetch_rows=steps)
        numbers = numbers_of(spec, found)
        registers, shared = registers_of(spec, found, numbers), numbers.line.shared_bytes
        if (shared > SHARED_STATIC or registers > LINES_REGISTERS
                or spec.r * spec.s * found.columns * numbers.units > LINES_TEXT):
            continue
        each = shared + spec.hardware.shared_reserved
        held = min(resident_lines(spec, registers, numbers.threads), spec.hardware.shared_multiprocessor // each)
        if half or steps <= 2 or held * each <= spec.hardware.share_of_shared(H200_SHARED_BESIDE_CACHE):
            return found
    return None


def serves(spec: KernelSpec, options: ChannelsOptions | None = None) -> bool:
    """Whether these are the cycles to go by: of a ring of 16-bit elements, of filters that move by several rows, summed
    in float32. In float32 the rings that they choose were slower than others for four layers of eleven."""
    ring = options is None or options.body is Body.RING
    return ring and spec.stride[0] > 1 and spec.dtype.is_half and spec.numerics is Numerics.FLOAT32


def price(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, registers: int, p: int,
          q: int) -> float:
    """Cycles of an image, added up over the batches that share a choice."""
    return sum(cycles(spec, options, numbers, registers, p, q, images) / images for images in IMAGES)


def cycles(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, registers: int, p: int, q: int,
           images: int) -> float:
    """Of a layer: what all threads issue, or what the rounds of blocks wait, whichever takes longer; the bytes."""
    threads = options.block_channels * options.block_columns * options.block_rows
    wide, tall = options.columns * options.block_columns, options.sub_block_rows * options.block_rows
    blocks = images * numbers.channel_blocks * -(-q // wide) * -(-p // (tall * numbers.classes)) * numbers.classes
    warps = -(-threads // LANES)
    held = resident_blocks(spec.hardware, min(255, registers + REGISTER_MARGIN), warps * LANES)
    rows = min(options.sub_block_rows, p)
    steps = rows + numbers.ring_rows - 1
    taps = spec.r * spec.s * numbers.units
    loads = len(numbers.loads) * len(numbers.rows_of_step) * (1 + (numbers.input_units if numbers.converted else 0))
    instructions = (steps * (loads + taps * options.columns + STEP_INSTRUCTIONS)
                    + STORE_INSTRUCTIONS * rows * options.columns + WEIGHT_INSTRUCTIONS * taps + START_INSTRUCTIONS)
    multiprocessors = spec.hardware.multiprocessors
    issued = ISSUED * blocks * warps * instructions / (QUARTERS * multiprocessors)
    full = blocks / (multiprocessors * max(1, held))
    rounds = max(1.0, full + LAST * (math.ceil(full) - full))
    thread = steps * LATENCY + LONE * instructions
    outputs = images * p * q * spec.k
    moved = spec.dtype.itemsize * outputs * (1 + spec.stride[0] * spec.stride[1] / spec.filters)
    return max(issued, rounds * thread) + MEMORY_SHARE * moved / spec.hardware.copied_bytes
