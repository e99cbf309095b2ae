"""Which tiles a layer's filter gradient gets, and what a plan is estimated to cost.

The cycles were fitted to 280 plans of 14 layers (an H200, 2026-11-28; they are off by a tenth).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import H200_CLOCK, QUARTERS
from warpconv.codegen.parts import gradient_boxes, partial_sums
from warpconv.codegen.parts.mma import MATRIX_COLUMNS, MATRIX_ROWS
from warpconv.codegen.parts.occupancy import rounds_of
from warpconv.codegen.parts.wgmma import BARRIER_BYTES, CLOCK, LEAST_STAGES, MOST_STAGES, OVERLAPPED
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (BOX, GROUP_WARPS, boxes_of, planned_registers, registers_of, resident_of, resolved, shared_bytes,
                      stage_bytes, tiles_of, warps_of)
from .options import FilterGradientTmaOptions

# (filters, columns, warps_m, warps_n)
TILES = ((128, 256, 2, 4), (256, 128, 4, 2), (128, 128, 2, 2), (64, 256, 1, 4), (256, 64, 4, 1), (128, 128, 2, 4),
         (128, 128, 4, 2), (64, 256, 2, 4), (64, 128, 2, 2), (64, 128, 1, 4), (128, 64, 4, 1), (128, 64, 2, 2),
         (64, 64, 2, 2), (32, 128, 1, 4), (128, 32, 4, 1))
PIXELS = (32, 16)
DEPTH = 8                   # pixels of an instruction
SMALL = 64                  # filters or columns of tiles that even the smallest layers have
UNIT = 32                   # filters or columns of a warp: whole boxes
# Cycles of a multiprocessor
PRODUCT_CYCLES = 5.0        # of a quarter: of a matrix of sums and an instruction's depth
STEP_CYCLES = 370.0         # of a stage besides, of all blocks at a time
LATENCY_CYCLES = 720.0      # from a stage's copies to its products
SUM_CYCLES = 18.3           # of a matrix of sums on its way to memory
START_CYCLES = 5300.0       # of a block: descriptors, the first copies
COPIED_BYTES = 46.0         # that come from the second-level cache in a cycle
MEMORY_SHARE = 0.72         # of the arrays' bytes, at the speed of a copy: some stay in the cache
ADDING_PASSES = 1.3         # over the bytes of the shares' sums


def candidates(spec: KernelSpec, pixels: int) -> Iterator[FilterGradientTmaOptions]:
    """Every tile that fits and is not mostly filling, with as many stages as there is room for, and shares of the
    pixels that fill the chip."""
    for filters, columns, warps_m, warps_n in TILES:
        if (filters > SMALL and filters >= 2 * spec.filters) or \
                (columns > SMALL and columns >= 2 * BOX * boxes_of(spec)):
            continue
        for each in PIXELS:
            tile = FilterGradientTmaOptions(filters=filters, columns=columns, pixels=each, warps_m=warps_m,
                                            warps_n=warps_n, stages=LEAST_STAGES)
            for stages in _stages(spec, tile):
                options = replace(tile, stages=stages)
                if tile_refusal(spec, resolved(spec, options)) is None:
                    yield from (replace(options, splits=n) for n in _splits(spec, options, pixels))


def _stages(spec: KernelSpec, tile: FilterGradientTmaOptions) -> list[int]:
    """As many as there is room for beside as many blocks as registers leave, and beside fewer."""
    each, found = stage_bytes(tile) + 2 * BARRIER_BYTES, set()
    for held in range(1, resident_of(spec, tile) + 1):
        room = spec.hardware.shared_multiprocessor // held - spec.hardware.shared_reserved
        found.add(min(MOST_STAGES, min(room, spec.hardware.shared_block) // each))
    return sorted(n for n in found if n >= LEAST_STAGES)


def _splits(spec: KernelSpec, options: FilterGradientTmaOptions, pixels: int) -> list[int]:
    held = resident_of(spec, options) * spec.hardware.multiprocessors
    return partial_sums.splits_for(held, _blocks(spec, options), pixels // options.pixels)


def _blocks(spec: KernelSpec, options: FilterGradientTmaOptions) -> int:
    """Of a share."""
    return math.prod(tiles_of(spec, options)) * spec.groups


def values_refusal(options: FilterGradientTmaOptions) -> str | None:
    """Whether warps share out a tile in whole boxes."""
    if options.warps_m < 1 or options.warps_n < 1 or warps_of(options) not in (GROUP_WARPS, 2 * GROUP_WARPS):
        return (f"warps_m x warps_n = {options.warps_m} x {options.warps_n} ({GROUP_WARPS} or {2 * GROUP_WARPS} warps "
                "are possible)")
    for name, tile, warps in (("filters", options.filters, options.warps_m),
                              ("columns", options.columns, options.warps_n)):
        if tile < UNIT or tile % (UNIT * warps):
            return f"{name} = {tile} (a multiple of {UNIT * warps}: whole boxes of {UNIT} for each of {warps} warps)"
    if options.pixels not in range(2 * DEPTH, 257, 2 * DEPTH):
        return f"pixels = {options.pixels} (a multiple of {2 * DEPTH}, at most 256)"
    return None


def tile_refusal(spec: KernelSpec, options: FilterGradientTmaOptions) -> str | None:
    """Whether a block fits; of resolved plan values, which go together."""
    if (registers := planned_registers(options)) > (left := registers_of(options)):
        return (f"min_blocks = {options.min_blocks}: about {registers} registers a thread, where {max(0, left)} are "
                "left (fewer blocks, smaller tiles, or more warps)")
    return gradient_boxes.ring_refusal(spec, options.stages, options.splits, shared_bytes(options))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientTmaOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by."""
    pixels, moved = partial_sums.work_of(shape)
    return min(candidates(spec, pixels), key=lambda options: cycles(spec, options, pixels, moved))


def cycles(spec: KernelSpec, options: FilterGradientTmaOptions, pixels: int, moved: int) -> float:
    """Cycles of so many output pixels: blocks in rounds of what the chip holds at a time, what they copy to shared
    memory, or the bytes ``moved`` of the arrays, whichever takes longest, and what does not overlap of the others; then
    the shares' sums, but not their launch, which every filter gradient has."""
    chip, cycle_bytes = spec.hardware.multiprocessors, spec.hardware.copied_bytes
    blocks = _blocks(spec, options) * options.splits
    steps = -(-pixels // (options.pixels * options.splits))
    matrices = options.filters // MATRIX_ROWS * options.columns // MATRIX_COLUMNS
    step = options.pixels // DEPTH * matrices * PRODUCT_CYCLES / QUARTERS
    least = LATENCY_CYCLES / (options.stages - 1)
    arithmetic = sum(times * (START_CYCLES + steps * (max(held * step, least) + STEP_CYCLES)
                              + held * matrices * SUM_CYCLES)
                     for times, held in rounds_of(spec.hardware, blocks, resolved(spec, options).min_blocks))
    copied = blocks * steps * stage_bytes(options) / (COPIED_BYTES * chip)
    memory = START_CYCLES + MEMORY_SHARE * moved / cycle_bytes
    longest = max(arithmetic, copied, memory)
    return (longest + (1 - OVERLAPPED) * (arithmetic + copied + memory - longest)
            + partial_sums.adding_cycles(spec, options.splits, ADDING_PASSES))


def instructions(spec: KernelSpec, options: FilterGradientTmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    found = cycles(spec, options, shape.output_pixels, shape.bytes_moved)
    return QUARTERS * spec.hardware.multiprocessors * found * H200_CLOCK / CLOCK
