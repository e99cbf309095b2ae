"""Which tiles a layer of ``taps_wgmma`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import QUARTERS, SECTOR_BYTES
from warpconv.codegen.parts.first_layers import PAIR, beside, pixel_of
from warpconv.codegen.parts.lines import line_width
from warpconv.codegen.parts.wgmma import COLUMN_UNIT
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (GROUP_RUNS, ITEMSIZE, RUN, STORES, WIDE, apart_of, column_unit, depths_of, halo,
                      is_moving, items_of, more_registers, planned_registers, runs_across, shared_bytes,
                      side_groups, store_width, versions_of)
from .options import Order, TapsWgmmaOptions

GROUPS = (2, 3, 4)
BUFFERS = (2, 3, 4)
WANTED_BUFFERS = (3,)               # more took as long, fewer up to 1.4 times
TILE_Q = (8, 16, 32, 64, 128)
ITEMS = (1, 2, 4)                   # of a group in a tile
FILTERS = (16, 32, 64, 96, 128)
# Cycles of a multiprocessor at wgmma.CLOCK, fitted to 1,430 plans of 24 layers (first layers of 1 to 12 channels; batch
# 256 to 1, both layouts), timed on an H200 on 2026-11-27: of these the plan that is chosen takes 1.04 times as long as
# the quickest in the mean
DEPTH_CYCLES, COLUMN_CYCLES = 40.5, 0.264   # of an instruction: its factors' loads, and each filter
MOVING_CYCLES = 6.2         # of one whose factors' places are found by the side that a window begins at
TURN_CYCLES = 12.6          # from one group's products to the next's
STORE_CYCLES = {Layout.NHWC: 104.0, Layout.NCHW: 187.0}    # of eight filters of 64 outputs,
NARROW_SHARE = {Layout.NHWC: 0.14, Layout.NCHW: 3.0}       # and so much more for each store besides
FREE_POWER, TURNS_POWER = 1.9, 3.4      # how far the longer of a group's stores and all products hides the other
COPY_CYCLES, TILE_CYCLES = 1.57, 623.0  # of a copy of 16 bytes, and from a tile's first to its last
NEXT_CYCLES = 136.0         # from a tile to the next
START_CYCLES = 5840.0
MEMORY_SHARE = 1.18         # of the bytes, at the speed of a copy
MEMORY_POWER = 3.35         # how far the longer of memory and arithmetic hides the other
# In NCHW rows of y may begin inside of sectors of memory:
WHOLE_SHARE, PARTLY_SHARE = 2.2, 7.8    # bytes more for each of y's, of tiles of whole rows, of narrower ones,
PARTLY_POWER = 0.3          # fewer of wide ones,
KEPT_SHARE = 0.5            # beyond what stays in so much of the second-level cache


def fits(spec: KernelSpec, options: TapsWgmmaOptions) -> bool:
    """Whether registers and shared memory hold it."""
    return (shared_bytes(spec, options) <= spec.hardware.shared_block
            and planned_registers(spec, options) <= more_registers(options))


def is_shared_out(spec: KernelSpec, options: TapsWgmmaOptions) -> bool:
    """Whether groups of warps share out a tile's runs."""
    groups = options.groups // side_groups(spec)
    across = options.tile_q % (RUN * apart_of(spec)) == 0
    return (across and options.groups % side_groups(spec) == 0 < runs_across(spec, options)
            and options.tile_p * runs_across(spec, options) % (GROUP_RUNS * groups) == 0)


def candidates(spec: KernelSpec, vectors: tuple[int, ...] = (1,), buffers: tuple[int, ...] = BUFFERS
               ) -> Iterator[TapsWgmmaOptions]:
    """Every tile that fits: filters in tiles that waste little."""
    store = store_width(spec, None)
    unit = column_unit(spec, TapsWgmmaOptions(store_vector=store))
    whole = -(-spec.k // unit) * unit
    widths = {f for f in (*FILTERS, whole) if f <= min(whole, max(FILTERS)) and f % unit == 0}
    least = min(-(-spec.k // f) * f for f in widths)
    sides = side_groups(spec)
    for filters in sorted(f for f in widths if -(-spec.k // f) * f <= 1.34 * least):
        for groups, items, tile_q in itertools.product(GROUPS, ITEMS, TILE_Q):
            made = TapsWgmmaOptions(tile_q=tile_q, filters=filters, groups=groups, store_vector=store)
            runs, across = GROUP_RUNS * (groups // sides) * items, runs_across(spec, made)
            if groups % sides or not across or runs % across:
                continue
            made = replace(made, tile_p=runs // across)
            if is_shared_out(spec, made):
                yield from (one for of, order, vector in itertools.product(buffers, Order, vectors)
                            if fits(spec, one := replace(made, buffers=of, order=order, vector=vector)))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsWgmmaOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first, the smallest. Two tiles' pixels do where three do not fit. Where two versions of the filter do not,
    a plan of one, which is refused for sizes that need both."""
    if shape is None:
        return next(candidates(spec, (1, WIDE)))
    shape = shape.with_batch(assumed_batch(shape))
    width = line_width(spec, shape, WIDE)
    found = (list(candidates(spec, (width,), WANTED_BUFFERS)) or list(candidates(spec, (width,)))
             or [replace(next(candidates(spec, (WIDE,))), vector=width)])
    made = (replace(options, store_vector=store_width(spec, shape)) for options in found)
    return min(made, key=lambda options: cycles(spec, options, shape))


def cycles(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in rounds of what the chip holds at a time, beside its bytes. One group stores while
    others multiply; a tile's pixels are copied while those before are multiplied."""
    filter_tiles = -(-spec.k // options.filters)
    chip = max(1, spec.hardware.multiprocessors // filter_tiles)
    rounds = -(-shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q) // chip)
    lines = halo(spec, options)
    copied = TILE_CYCLES + COPY_CYCLES * lines.rows * (spec.c // pixel_of(spec)) * lines.pieces
    arithmetic = rounds * (max(_tile_cycles(spec, options), copied) + NEXT_CYCLES)
    memory = _memory_bytes(spec, options, shape) / spec.hardware.copied_bytes
    return START_CYCLES + beside(arithmetic, memory, MEMORY_POWER)


def _tile_cycles(spec: KernelSpec, options: TapsWgmmaOptions) -> float:
    """Of a tile: a group's stores beside all groups' products."""
    free = is_moving(spec, options) and versions_of(spec, options) > 1
    of_depth = DEPTH_CYCLES + COLUMN_CYCLES * options.filters + (MOVING_CYCLES if free else 0.0)
    items = items_of(spec, options) * (2 if spec.layout is Layout.NCHW else 1)      # 64 outputs each
    widest = PAIR if spec.layout is Layout.NCHW else max(STORES)
    stores = 1 + NARROW_SHARE[spec.layout] * (widest // options.store_vector - 1)
    stored = STORE_CYCLES[spec.layout] * stores * options.filters / COLUMN_UNIT
    multiplied = options.groups * (depths_of(spec, options) * of_depth
                                   + (TURN_CYCLES if options.order is Order.TURNS else 0.0))
    return items * beside(stored, multiplied, FREE_POWER if options.order is Order.FREE else TURNS_POWER)


def _memory_bytes(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """That go to and from memory, as if at the speed of a copy."""
    moved = MEMORY_SHARE * shape.bytes_moved
    if spec.layout is Layout.NHWC or shape.q * ITEMSIZE % SECTOR_BYTES == 0:
        return moved
    written = max(0.0, ITEMSIZE * math.prod(shape.output_shape) - KEPT_SHARE * spec.hardware.l2_bytes)
    narrow = PARTLY_SHARE * (SECTOR_BYTES / (ITEMSIZE * options.tile_q)) ** PARTLY_POWER
    return moved + written * (WHOLE_SHARE if options.tile_q >= shape.q else narrow)


def instructions(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)


