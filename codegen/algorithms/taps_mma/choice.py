"""Which tiles a layer of ``taps_mma`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import PORTABLE_SHARED, QUARTERS
from warpconv.codegen.parts.first_layers import PAIR, beside, pixel_of
from warpconv.codegen.parts.lines import line_width
from warpconv.codegen.parts.mma import MATRIX_COLUMNS
from warpconv.codegen.parts.stored_rows import PartlyStored
from warpconv.codegen.parts.window_pairs import (STORES, WIDE, by_side, depths_of, filter_widths, halo, is_free,
                                                 partly_stored, runs_fit, several_share, sides_of,
                                                 store_width)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (MOST_REGISTERS, filter_unit, item_outputs, items_of, planned_registers, resolved, shared_bytes)
from .options import TapsMmaOptions

WARPS = (4, 8)
MATRICES = (1, 2, 3, 4)             # of a warp
BUFFERS = (1, 2)
TILE_Q = (8, 16, 32, 64)
ITEMS = (1, 2, 4)                   # of a warp in a tile
FILTERS = (16, 32, 48, 64, 96, 128)
LEAST_REGISTERS_FREE = 8            # of a thread, beside what is planned
# Cycles of a multiprocessor at wgmma.CLOCK, fitted to 493 plans of 28 layers (first layers of 1 to 12 channels; batch
# 128 to 1, both layouts), timed on an H200 on 2026-11-29: of these the plan that is chosen takes 1.04 times as long as
# the quickest in the mean
PRODUCT_CYCLES = 1.40       # of a product of matrices, 16 x 8 x 16,
FACTOR_CYCLES, FILTER_CYCLES = 1.85, 1.35   # of sixteen outputs' factors, of eight filters' of an instruction,
MOVING_CYCLES = 4.0         # and more where the side that a window begins at finds its factors' places
LOADS_POWER = 4.2           # how far the longer of products and loads hides the other
STORE_CYCLES = {Layout.NHWC: 8.2, Layout.NCHW: 14.6}       # of eight filters of sixteen outputs,
NARROW_SHARE = {Layout.NHWC: 0.13, Layout.NCHW: 1.9}       # and so much more for each store besides
COPY_CYCLES = 0.41          # of a copy of 16 bytes
TILE_CYCLES = {1: 1230.0, 2: 222.0}     # of a tile of one buffer, or two, shared by the blocks side by side
MANY_WARPS, MANY_SHARE = 4, 0.15        # more where more warps wait for each other
START_CYCLES = 4000.0       # 2500 fitted best; layers of few tiles took longer
MEMORY_SHARE = 0.685        # of the bytes, at the speed of a copy
MEMORY_POWER = 1.71         # how far the longer of memory and arithmetic hides the other
PARTLY = PartlyStored(whole=3.61, narrow=5.38, power=0.094, kept=0.3)


def fits(spec: KernelSpec, options: TapsMmaOptions) -> bool:
    """Whether registers and shared memory hold it."""
    return (shared_bytes(spec, options) <= PORTABLE_SHARED
            and planned_registers(spec, options) <= MOST_REGISTERS - LEAST_REGISTERS_FREE)


def is_shared_out(spec: KernelSpec, options: TapsMmaOptions) -> bool:
    """Whether warps share out a tile's outputs."""
    return (runs_fit(spec, options) and options.warps % sides_of(spec, options) == 0
            and options.tile_p * options.tile_q % item_outputs(spec, options) == 0)


def candidates(spec: KernelSpec, vectors: tuple[int, ...] = (1,)) -> Iterator[TapsMmaOptions]:
    """Every tile that fits: filters in tiles that waste little."""
    store = store_width(spec, None)
    unit = filter_unit(spec, TapsMmaOptions(store_vector=store))
    for filters in filter_widths(spec, unit, FILTERS):
        for warps, matrices, items, tile_q, vector in itertools.product(WARPS, MATRICES, ITEMS, TILE_Q, vectors):
            made = TapsMmaOptions(tile_q=tile_q, filters=filters, matrices=matrices, warps=warps, vector=vector,
                                  store_vector=store)
            if planned_registers(spec, made) > MOST_REGISTERS - LEAST_REGISTERS_FREE or warps % sides_of(spec, made):
                continue
            outputs = item_outputs(spec, made) * (warps // sides_of(spec, made)) * items
            if outputs % tile_q:
                continue
            made = replace(made, tile_p=outputs // tile_q)
            if is_shared_out(spec, made):
                yield from (one for of in BUFFERS if fits(spec, one := replace(made, buffers=of)))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsMmaOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first, the smallest. Where none fits beside lines that begin anywhere, a plan for whole ones, which is
    refused for these sizes."""
    if shape is None:
        return next(candidates(spec, (1, WIDE)))
    shape = shape.with_batch(assumed_batch(shape))
    width = line_width(spec, shape, WIDE)
    found = list(candidates(spec, (width,))) or [replace(next(candidates(spec, (WIDE,))), vector=width)]
    made = (replace(options, store_vector=store_width(spec, shape)) for options in found)
    return min(made, key=lambda options: cycles(spec, resolved(spec, options), shape))


def cycles(spec: KernelSpec, options: TapsMmaOptions, shape: ConvShape) -> float:
    """Cycles of a layer, of resolved plan values: its tiles in rounds of what the chip holds at a time, beside its
    bytes."""
    lines, resident = halo(spec, options), options.min_blocks
    copied = COPY_CYCLES * lines.rows * (spec.c // pixel_of(spec)) * lines.pieces
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q)
    at_a_time = max(1, spec.hardware.multiprocessors * resident // -(-spec.k // options.filters))
    each = _tile_cycles(spec, options) + copied + TILE_CYCLES[options.buffers] / resident
    arithmetic = -(-tiles // at_a_time) * resident * each * (1 + MANY_SHARE if options.warps > MANY_WARPS else 1)
    moved = MEMORY_SHARE * shape.bytes_moved + partly_stored(spec, options, shape, PARTLY)
    return START_CYCLES + beside(arithmetic, moved / spec.hardware.copied_bytes, MEMORY_POWER)


def _tile_cycles(spec: KernelSpec, options: TapsMmaOptions) -> float:
    """Of a tile: its products beside the loads of their factors, and its stores."""
    items = items_of(spec, options) * (2 if by_side(spec, options) else 1)
    blocks, depths = options.filters / MATRIX_COLUMNS, depths_of(spec, options)
    factor = FACTOR_CYCLES + (MOVING_CYCLES if is_free(spec, options) else 0.0)
    of_depth = beside(PRODUCT_CYCLES * options.matrices * blocks, factor * options.matrices + FILTER_CYCLES * blocks,
                      LOADS_POWER)
    widest = PAIR if spec.layout is Layout.NCHW else max(STORES)
    stores = 1 + NARROW_SHARE[spec.layout] * (widest // options.store_vector - 1)
    return items * (depths * of_depth + STORE_CYCLES[spec.layout] * stores * options.matrices * blocks)


def instructions(spec: KernelSpec, options: TapsMmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return several_share(spec) * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
