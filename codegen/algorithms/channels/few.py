"""``channels`` for few images of 16 bits, filters that move by several rows, and rings: short walks, whose input rows
are all on their way at once. (Lines of float32 that move by one row: ``walks``.)

A GPU is not filled then, and what a layer takes is the time of one thread: until the kernel runs, for each round of
loads that it waits for, and for its instructions.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import LANES, QUARTERS, SHARED_STATIC
from warpconv.codegen.spec import KernelSpec, Numerics

from .lines import FEW_TAPS, LINES_THREADS, lines_fit, lines_refusal, resident_lines, threads_of_channels
from .numbers import Body, ChannelsNumbers, ChannelsOptions, Width, numbers_of, registers_of, step_rows_of

ROWS = (14, 7, 4, 2, 1)         # of a sub-block
COLUMNS = (7, 4, 3, 2, 1)       # of a thread
RING_COLUMNS = (4, 2, 1)
RING_REGISTERS = 168
STAGE = 2                       # rows between two barriers
MOST_AHEAD = 16                 # rows
# Cycles (assumed, of what layers of one image took with walks of 14 and 28 rows: an H200, 2026-11-23)
LATENCY = 1400.0                # of a round of loads
LONE = 1.5                      # of an instruction of a warp that has a quarter of a multiprocessor to itself
STEP_INSTRUCTIONS = 25          # besides products, reads, conversions
START_INSTRUCTIONS = 150        # of a thread: where it is, what it copies


def choice(spec: KernelSpec, p: int, q: int, images: int) -> ChannelsOptions | None:
    """The plan values of the least cycles for so many images; None where none fits, or those of many are as good."""
    lines = lines_refusal(spec) is None
    if lines and images > 1 and step_rows_of(spec) > 1:
        return None         # eight images are quicker with what many have: 11.3 us instead of 15.3, 8.3 instead of 10.3
    found = [(_cycles(spec, options, numbers, p, q, images), options)
             for options, numbers in (_lines(spec, q) if lines else _rings(spec, p, q))]
    if not found:
        return None
    options = min(found, key=lambda entry: entry[0])[1]
    return options if options.body is Body.RING else with_more_registers(spec, options)


def with_more_registers(spec: KernelSpec, options: ChannelsOptions) -> ChannelsOptions:
    """For half as many blocks of a multiprocessor as could stay: more are not there."""
    numbers = numbers_of(spec, options)
    blocks = resident_lines(spec, registers_of(spec, options, numbers), numbers.threads)
    return replace(options, min_blocks=max(1, blocks // 2))


def _lines(spec: KernelSpec, q: int) -> Iterator[tuple[ChannelsOptions, ChannelsNumbers]]:
    each = step_rows_of(spec)
    stage = STAGE if each == 1 else 1
    for vector in (2,) if spec.numerics is Numerics.FLOAT16 else (1, 2):
        for columns in COLUMNS:
            for rows in ROWS if spec.k % vector == 0 else ():
                steps = rows + -(-spec.r // each) - 1
                ahead = min(MOST_AHEAD // each, -(-steps // stage) * stage)
                options = ChannelsOptions(body=Body.LINES, vector=vector, columns=columns, stage_rows=stage,
                                          sub_block_rows=rows, prefetch_rows=max(1, ahead), width=_width(columns, q))
                options = _with_channels(spec, options)
                numbers = numbers_of(spec, options)
                if lines_fit(spec, options, numbers):
                    yield options, numbers


def _rings(spec: KernelSpec, p: int, q: int) -> Iterator[tuple[ChannelsOptions, ChannelsNumbers]]:
    for vector in (2,) if spec.numerics is Numerics.FLOAT16 else (1, 2):
        for columns in RING_COLUMNS:
            for rows in ROWS if spec.k % vector == 0 and vector % spec.filters == 0 else ():
                options = ChannelsOptions(body=Body.RING, vector=vector, columns=columns, sub_block_rows=rows,
                                          prefetch_rows=2 if spec.r * spec.s < FEW_TAPS else 1,
                                          width=_width(columns, q))
                options = _with_channels(spec, options)
                numbers = numbers_of(spec, options)
                if (registers_of(spec, options, numbers) <= RING_REGISTERS
                        and 4 * numbers.shared_units <= SHARED_STATIC):
                    yield options, numbers


def _width(columns: int, q: int) -> Width:
    return Width.WHOLE if q % columns == 0 else Width.ANY


def _with_channels(spec: KernelSpec, options: ChannelsOptions) -> ChannelsOptions:
    """A block of a pixel's channels, or evenly as many as LINES_THREADS; further columns beside where they are few."""
    channels = threads_of_channels(spec, options.vector, LINES_THREADS)
    return replace(options, block_channels=channels, block_columns=max(1, LINES_THREADS // 2 // channels))


def _cycles(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, p: int, q: int,
            images: int) -> float:
    """From the first load to the last store."""
    wide, tall = options.columns * options.block_columns, options.sub_block_rows * numbers.classes
    blocks = images * numbers.channel_blocks * -(-q // wide) * -(-p // tall) * numbers.classes
    warps = -(-blocks // spec.hardware.multiprocessors) * -(-numbers.threads // LANES)
    steps = min(options.sub_block_rows, p) + numbers.ring_rows - 1
    products = spec.r * spec.s * options.columns * numbers.units
    reads = len(numbers.loads) * len(numbers.rows_of_step) * (1 + (numbers.input_units if numbers.converted else 0))
    instructions = steps * (products + reads + STEP_INSTRUCTIONS * len(numbers.rows_of_step))
    instructions += options.sub_block_rows * options.columns * (1 + numbers.units)
    instructions += START_INSTRUCTIONS + 2 * spec.r * spec.s * numbers.units        # weights to registers
    return LATENCY * -(-steps // options.prefetch_rows) + instructions * max(LONE, warps / QUARTERS)
