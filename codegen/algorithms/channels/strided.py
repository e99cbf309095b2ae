"""``channels`` of 16 bits whose filters move by several rows: the ring whose rounds of blocks take the fewest cycles.

Counting instructions, as for other layers, picks threads of a column or two there, which leave a multiprocessor with
too few bytes on their way: 5x5 with stride 2 of 672 channels on 14x14 took 16.3 us on an H200, where four columns of
one channel take 8.9 (float16, batch 32, 2026-11-24).
"""

from __future__ import annotations

import math

from warpconv.codegen.hardware import LANES, QUARTERS
from warpconv.codegen.parts.occupancy import resident_blocks
from warpconv.codegen.spec import KernelSpec, Numerics

from .numbers import Body, ChannelsNumbers, ChannelsOptions

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
