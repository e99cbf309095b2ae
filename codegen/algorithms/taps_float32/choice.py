"""Which tiles a layer of ``taps_float32`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, QUARTERS
from warpconv.codegen.parts.first_layers import pixel_of
from warpconv.codegen.parts.wgmma import COLUMN_CYCLES, ROWS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (GROUP_RUNS, RUN, SPLIT_PRODUCTS, WIDE, can_stage, depths_of, halo, is_split, more_registers,
                      planned_registers, shared_bytes, steps_of, store_width, widest_copy)
from .options import Stores, TapsFloat32Options

GROUPS = (2, 3)
TILE_Q = (8, 16, 32, 64)
ITEMS = (1, 2)                      # of a group in a tile
FILTERS = (32, 48, 64, 96, 128)
STAGES = (2, 3, 4, 6, 8)
# Cycles of a multiprocessor at wgmma.CLOCK, fitted to 3,053 plans of 20 layers (first layers, 1 to 16 channels; batch
# 128 to 1, both layouts, tf32x3 and tf32), timed on an H200 on 2026-11-27: of these the plan that is chosen takes 1.04
# times as long as the quickest in the mean
STEP_CYCLES = 495.0         # of a group's step besides its products: the next one's factors, barriers
SUMS_CYCLES = 22.5          # of eight filters' sums, added to the others
SHARED_CYCLES = 203.0       # of a step, of what groups share
PRODUCT_SHARE = 0.856       # of the cycles that wgmma is taken to have for a column: these are timed at a higher clock
RING_CYCLES = 188.0         # of a step that waits for its filters, over the stages
STORE_CYCLES = 59.0         # of eight filters of 64 outputs,
PLANE_CYCLES = 17.0         # those that lanes exchange in NCHW besides,
SHORT_SHARE = 2.85          # times as long as the first where their runs lie in two rows
COPY_CYCLES, LINE_CYCLES = 16.0, 31.0       # of 32 lanes' copies, and of a line of the image
TILE_CYCLES = 1467.0        # from a tile's first copy to its last
START_CYCLES = 5706.0
PARTLY_STORED = 1.69        # bytes of memory more for each of y's, in NCHW where rows do not begin with 32 bytes, of
                            # stores of sixteen columns
MEMORY_SHARE = 0.988        # of the bytes, at the speed of a copy
OVERLAPPED = 0.7            # of the lesser of memory and arithmetic


def fits(spec: KernelSpec, options: TapsFloat32Options) -> bool:
    """Whether registers and shared memory hold it."""
    return (shared_bytes(spec, options) <= spec.hardware.shared_block
            and planned_registers(spec, options) <= more_registers(options))


def candidates(spec: KernelSpec) -> Iterator[TapsFloat32Options]:
    """Every tile that fits: filters in tiles that waste little, the filter resident or in a ring."""
    unit = -(-spec.k // RUN) * RUN
    widths = {f for f in (*FILTERS, unit) if f <= min(unit, max(FILTERS))}
    least = min(-(-spec.k // f) * f for f in widths)
    steps = steps_of(spec)
    for filters in sorted(f for f in widths if -(-spec.k // f) * f <= 1.34 * least):
        for groups in GROUPS:
            for items in ITEMS:
                runs = GROUP_RUNS * groups * items
                for tile_q in (q for q in TILE_Q if runs % (q // RUN) == 0):
                    for stages in sorted({min(s, steps) for s in (*STAGES, steps)}):
                        options = TapsFloat32Options(tile_p=runs // (tile_q // RUN), tile_q=tile_q, filters=filters,
                                                     groups=groups, stages=stages)
                        yield from (made for stores in Stores
                                    if fits(spec, replace(made := replace(options, stores=stores), vector=WIDE)))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsFloat32Options:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first, the smallest."""
    if shape is None:
        return next(candidates(spec))
    shape = shape.with_batch(assumed_batch(shape))
    made = (made for options in candidates(spec)
            if not (made := widened(spec, options, shape)).staged or can_stage(spec, made, shape))
    return min(made, key=lambda options: cycles(spec, options, shape))


def widened(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape) -> TapsFloat32Options:
    """With copies and stores as wide as the layer's sizes allow."""
    return replace(options, vector=widest_copy(spec, options, shape), store_vector=store_width(spec, options))


def cycles(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in rounds of what the chip holds at a time, beside its bytes. Groups multiply beside
    each other; a tile's pixels are copied while those of the one before are multiplied."""
    filter_tiles = -(-spec.k // options.filters)
    chip = max(1, spec.hardware.multiprocessors // filter_tiles)
    rounds = -(-shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q) // chip)
    rows, line = halo(spec, options)
    lines = rows * (spec.c // pixel_of(spec))
    copied = TILE_CYCLES + lines * (COPY_CYCLES * -(-line // options.vector // LANES) + LINE_CYCLES)
    items = options.tile_p * options.tile_q // ROWS // options.groups
    arithmetic = rounds * max(items * _item_cycles(spec, options), copied)
    moved: float = shape.bytes_moved
    if spec.layout is Layout.NCHW and shape.q % RUN:
        partly = PARTLY_STORED * (2 if options.tile_q == RUN else 1)
        moved += partly * spec.dtype.itemsize * math.prod(shape.output_shape)
    lesser, greater = sorted((arithmetic, MEMORY_SHARE * moved / spec.hardware.copied_bytes))
    return START_CYCLES + greater + (1 - OVERLAPPED) * lesser


def _item_cycles(spec: KernelSpec, options: TapsFloat32Options) -> float:
    """Of all groups' 64 outputs each: one group's way from step to step, or what they share."""
    steps, blocks, products = steps_of(spec), options.filters // RUN, SPLIT_PRODUCTS if is_split(spec) else 1
    multiplied = PRODUCT_SHARE * COLUMN_CYCLES * depths_of(spec) * options.filters * products
    alone = steps * (STEP_CYCLES + (SUMS_CYCLES * blocks if is_split(spec) else 0.0)) + multiplied
    waits = 0.0 if options.stages == steps else RING_CYCLES * steps / options.stages
    stored = STORE_CYCLES
    if spec.layout is Layout.NCHW:
        stored = PLANE_CYCLES + STORE_CYCLES * (SHORT_SHARE if options.tile_q == RUN else 1.0)
    return max(alone, options.groups * (multiplied + SHARED_CYCLES * steps)) + waits + stored * blocks


def instructions(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
