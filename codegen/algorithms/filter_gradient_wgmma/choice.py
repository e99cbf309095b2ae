"""Which tiles a layer's filter gradient gets, and what a plan is estimated to cost.

The cycles of instructions, copies, sums and starts are those that fitted the forward kernels of the same instructions
on an H200 (2026-11-22); plans of this kernel were not measured yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import H200_CLOCK, QUARTERS
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CLOCK, COLUMN_CYCLES, COPIED_BYTES, DEPTH, FULL_RATE, GROUPS,
                                          LATENCY_CYCLES, LEAST_STAGES, MEMORY_SHARE, MOST_COLUMNS, MOST_STAGES,
                                          MOST_SUMS, OVERLAPPED, ROWS, START_CYCLES, STEP_CYCLES, SUM_CYCLES)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import BOX, column_tiles, group_columns, matrices_of, shared_bytes, slices_of, stage_bytes
from .options import FilterGradientWgmmaOptions

# (filters, columns)
TILES = ((128, 256), (256, 128), (128, 192), (256, 192), (128, 128), (256, 64), (64, 512), (64, 384), (64, 256),
         (64, 128), (128, 64))
PIXELS = (64, 32, 128)
EMPTY_BOXES = 1.6   # times as long with volumes' boxes that are half empty (32 channels, an H100, 2026-11-26)


def candidates(spec: KernelSpec, pixels: int) -> Iterator[FilterGradientWgmmaOptions]:
    """Every tile that fits and is not mostly filling, with as many stages as there is room for, and shares of the
    pixels that fill the chip."""
    for filters, columns in TILES:
        if (filters > ROWS and filters >= 2 * spec.k) or (columns > 128 and columns >= 2 * _all_columns(spec)):
            continue
        for each in PIXELS:
            tile = FilterGradientWgmmaOptions(filters=filters, columns=columns, pixels=each, stages=1)
            stages = min(MOST_STAGES, spec.hardware.shared_block // (stage_bytes(tile) + 2 * BARRIER_BYTES))
            if stages >= LEAST_STAGES:
                splits = partial_sums.splits_for(spec.hardware.multiprocessors, _tiles(spec, tile), pixels // each)
                yield from (replace(tile, stages=stages, splits=n) for n in splits)


def _all_columns(spec: KernelSpec) -> int:
    return slices_of(spec) * math.prod(spec.taps) * BOX


def _tiles(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> int:
    return -(-spec.k // options.filters) * column_tiles(spec, options)


def tile_refusal(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> str | None:
    """Whether the instruction has tiles of such sizes, and shared memory holds them."""
    unit = BOX if options.filters >= GROUPS * ROWS else GROUPS * BOX
    if options.filters not in (64, 128, 256) or options.columns < unit or options.columns % unit:
        return f"{options.filters} filters x {options.columns} columns (64, 128 or 256 x a multiple of {unit})"
    sums = matrices_of(options) * group_columns(options) // 2
    if group_columns(options) > MOST_COLUMNS or sums > MOST_SUMS:
        return f"{options.filters} filters x {options.columns} columns: {sums} sums a thread (at most {MOST_SUMS})"
    if options.pixels % DEPTH or not DEPTH <= options.pixels <= 256:
        return f"pixels = {options.pixels} (a multiple of {DEPTH}, at most 256)"
    if not LEAST_STAGES <= options.stages <= MOST_STAGES:
        return f"stages = {options.stages} ({LEAST_STAGES} to {MOST_STAGES})"
    if not 1 <= options.splits <= partial_sums.MOST_CHUNKS:
        return f"splits = {options.splits} (1 to {partial_sums.MOST_CHUNKS})"
    if shared_bytes(options) > spec.hardware.shared_block:
        return (f"{shared_bytes(options)} bytes of shared memory for a block (at most {spec.hardware.shared_block}): "
                "fewer stages or pixels")
    return None


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientWgmmaOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by."""
    pixels, moved = partial_sums.work_of(shape)
    return min(candidates(spec, pixels), key=lambda options: cycles(spec, options, pixels, moved))


def cycles(spec: KernelSpec, options: FilterGradientWgmmaOptions, pixels: int, moved: int) -> float:
    """Cycles of so many output pixels: blocks in rounds of one for each multiprocessor, or the bytes ``moved`` of the
    arrays, whichever takes longer; then the shares' sums, but not their launch, which every filter gradient has."""
    chip, cycle_bytes = spec.hardware.multiprocessors, spec.hardware.copied_bytes
    blocks = _tiles(spec, options) * options.splits
    steps = -(-pixels // (options.pixels * options.splits))
    instructions = options.pixels // DEPTH * matrices_of(options) * GROUPS
    product = instructions * group_columns(options) * COLUMN_CYCLES / FULL_RATE
    copied = stage_bytes(options) / COPIED_BYTES * max(0.4, min(1.0, blocks / chip))
    step = max(product, copied, LATENCY_CYCLES / (options.stages - 1)) + STEP_CYCLES
    sums = matrices_of(options) * group_columns(options) // 2
    written = 4 * options.filters * options.columns * min(blocks, chip) / cycle_bytes
    arithmetic = -(-blocks // chip) * (START_CYCLES + steps * step + max(SUM_CYCLES * sums, written))
    memory = START_CYCLES + MEMORY_SHARE * moved / cycle_bytes
    longest = max(arithmetic, memory)
    adding = 4 * spec.k * spec.reduction * options.splits / cycle_bytes
    return longest + (1 - OVERLAPPED) * (arithmetic + memory - longest) + adding


def instructions(spec: KernelSpec, options: FilterGradientWgmmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    found = cycles(spec, options, shape.output_pixels, shape.bytes_moved)
    if spec.is_volume and 2 * spec.c <= BOX:
        found *= EMPTY_BOXES
    return QUARTERS * spec.hardware.multiprocessors * found * H200_CLOCK / CLOCK
