"""Which tiles a layer of ``taps_wgmma`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from warpconv.codegen.batch import ASSUMED_IMAGES, assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, QUARTERS
from warpconv.codegen.parts.first_layers import PAIR, Stores, beside, pixel_of
from warpconv.codegen.parts.lines import line_width
from warpconv.codegen.parts.stored_rows import PartlyStored, row_widths, whole_rows
from warpconv.codegen.parts.wgmma import COLUMN_UNIT, ROWS
from warpconv.codegen.parts.window_pairs import (RUN, STORES, WIDE, by_parity, column_unit, depths_of, filter_widths,
                                                 halo, has_rows_together, has_words, is_flat, is_free, other_of,
                                                 partly_stored, runs_fit, several_share, sides_of, store_width)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (MOST_STAGED, filled, has_own_tiles, item_outputs, items_of, lane_outputs, more_registers,
                      planned_registers, shared_bytes)
from .options import Order, TapsWgmmaOptions

GROUPS = (2, 3, 4)
BUFFERS = (2, 3, 4)
WANTED_BUFFERS = (3, 2)             # more took as long; three rather where the estimate is the same
TILE_Q = (8, 16, 32, 64, 128)
ITEMS = (1, 2, 4)                   # of a group in a tile
# Others, whose groups share out several tiles, or whose runs go on from row to row
OTHER_TILES = ((8, 24), (16, 24), (8, 40), (8, 48), (8, 56), (16, 56), (4, 112), (8, 112))
FILTERS = (16, 32, 64, 96, 128)
STAGED_OUTPUTS = (192, MOST_STAGED)  # of a filter in a tile of whole rows that is put together before it is stored,
WHOLE_ROWS = (16, 32, 56, 64, 112, 128, 224, 256)   # and their columns, where those of y are not known
WIDER = 40                          # fewer than so many more columns than y's
STAGES = (64, 128, 192, 256, 384, 512)      # outputs of a filter that a group puts together of a tile that is shared,
FLAT_OUTPUTS = (128, MOST_STAGED)   # and all of that tile
MOST_LEFT = 1.25                    # times as many as there are
LEAST_FILLED = 0.85                 # of the 64 outputs that are made at a time
# Cycles of a multiprocessor at wgmma.CLOCK, fitted to 495 plans of 28 layers (first layers of 1 to 12 channels; batch
# 128 to 1, both layouts), timed on an H200 on 2026-11-29: of these the plan that is chosen takes 1.03 times as long as
# the quickest in the mean
DEPTH_CYCLES, COLUMN_CYCLES = 36.4, 0.077   # of an instruction: its factors' loads, and each filter
MOVING_CYCLES = 8.7         # of one whose factors' places are found by the side that a window begins at
APART_CYCLES = 3.3          # and of one where a lane's two windows do not always lie in one row
TURN_CYCLES = 23.5          # from one group's products to the next's
STORE_CYCLES = {Layout.NHWC: 83.3, Layout.NCHW: 94.1}      # of eight filters of 64 outputs,
NARROW_SHARE = {Layout.NHWC: 0.122, Layout.NCHW: 2.18}     # and so much more for each store besides
FREE_POWER, TURNS_POWER = 1.42, 2.6     # how far the longer of a group's stores and all products hides the other
TILE_CYCLES = 656.0         # of a tile's copies,
LINE_CYCLES, PIECE_CYCLES = 20.0, 0.445     # of each line, and of 16 bytes,
EDGE_CYCLES = 109.0         # and where there is padding
SEEN_SHARE = 0.02           # of these that products do not hide: of tiles alike the one of fewer lines is taken
WAIT_CYCLES = 289.0         # from these to their arrival
NEXT_CYCLES = 186.0         # from a tile to the next
START_CYCLES = 4750.0
MEMORY_SHARE = 0.983        # of the bytes, at the speed of a copy
MEMORY_POWER = 2.35         # how far the longer of memory and arithmetic hides the other
# Where each group has tiles of its own, fitted to 291 plans of 14 layers in NCHW that day: 1.02 times as long in the
# mean. What a group takes alone: of an instruction, of 64 outputs besides, of each filter of these, of a tile
ALONE_DEPTH_CYCLES, ALONE_ITEM_CYCLES, ALONE_COLUMN_CYCLES, ALONE_TILE_CYCLES = 41.5, 324.0, 2.77, 583.0
ALONE_SHARE = 0.68          # and of the copies of its next tile, where pixels have but one buffer for each group
ROWS_DEPTH_CYCLES, ROWS_STORE_CYCLES = 46.8, 3.57   # of the whole multiprocessor: an instruction, a store of a warp
ROWS_POWER = 3.82           # how far the longer of these and a group's own time hides the other
ROWS_START_CYCLES, ROWS_MEMORY_SHARE = 5400.0, 1.27
# Where groups share out whole rows, fitted to 234 plans of 12 layers (batch 128 and 32), timed on 2026-11-30: of these
# the plan that is chosen takes 1.02 times as long as the quickest in the mean. What a group takes: of an instruction,
# of 64 outputs besides, each filter of these; of what it puts together, the same where y has whole 16 bytes, a store
FLAT_DEPTH_CYCLES, FLAT_ITEM_CYCLES, FLAT_COLUMN_CYCLES = 1.98, 240.0, 0.186
FLAT_STAGE_CYCLES, WHOLE_STAGE_CYCLES, FLAT_STORE_CYCLES = 765.0, 366.0, 0.109
# of a warp; and what all groups take one after the other: of an instruction, each filter of it, a store
SHARED_DEPTH_CYCLES, SHARED_COLUMN_CYCLES, SHARED_STORE_CYCLES = 9.69, 0.464, 3.96
ASSUMED_TIMES = (1, 2, 4)   # the batch that is assumed, in batches that share its choice
CROWDED_SHARE = 0.061       # more of a group's time for each group beyond two
# and where groups do not all have as much of a tile; by hand, between plans that the fit does not tell apart
UNEVEN_SHARE = 0.16
SPARE_BUFFERS = 0.782       # that no group works at
FLAT_START_CYCLES, FLAT_MEMORY_SHARE = 8640.0, 0.597
PARTLY = PartlyStored(whole=3.86, narrow=6.13, power=0.104, kept=0.206)


def fits(spec: KernelSpec, options: TapsWgmmaOptions) -> bool:
    """Whether registers and shared memory hold it."""
    return (shared_bytes(spec, options) <= spec.hardware.shared_block
            and planned_registers(spec, options) <= more_registers(options))


def goes_round(spec: KernelSpec, options: TapsWgmmaOptions) -> bool:
    """Whether a group that has tiles of its own cannot take the time before for this one where it waits for a buffer:
    all times before were its own. (Lines are bulk copies, which need not arrive in order.)"""
    return not has_own_tiles(spec, options) or options.buffers % options.groups == 0


def is_shared_out(spec: KernelSpec, options: TapsWgmmaOptions) -> bool:
    """Whether groups of warps share out a tile's outputs, or have a tile each; those that store words of two columns
    evenly, since the two turns of the last ones would wait for groups that have nothing left."""
    evenly = options.groups if has_words(spec, options) else 1
    whole = (is_flat(spec, options)
             or options.tile_p * options.tile_q % (item_outputs(spec, options) * evenly) == 0)
    return whole and runs_fit(spec, options) and options.groups % sides_of(spec, options) == 0


def candidates(spec: KernelSpec, vectors: tuple[int, ...] = (1,), buffers: tuple[int, ...] = BUFFERS,
               columns: int | None = None) -> Iterator[TapsWgmmaOptions]:
    """Every tile that fits: filters in tiles that waste little; where tiles are put together in shared memory, of
    whole rows of at most ``columns``, which a few wider ones have, too."""
    store = store_width(spec, None)
    unit = column_unit(spec, TapsWgmmaOptions(store_vector=store))
    for way in Stores if spec.layout is Layout.NCHW else (Stores.DIRECT,):
        for filters, groups in itertools.product(filter_widths(spec, unit, FILTERS), GROUPS):
            first = TapsWgmmaOptions(filters=filters, groups=groups, store_vector=store, stores=way)
            tiles = (_rows_in_one(columns) if is_flat(spec, first)
                     else _whole_rows(spec, first, columns) if first.staged else _tiles(spec, first))
            for (tile_p, tile_q), vector in itertools.product(tiles, vectors):
                made = replace(first, tile_p=tile_p, tile_q=tile_q, vector=vector)
                if tile_p and is_shared_out(spec, made):
                    ways = _ways(spec, made, buffers, tile_p * (columns or tile_q))
                    yield from (one for one in ways if goes_round(spec, one) and fits(spec, one))


def _ways(spec: KernelSpec, options: TapsWgmmaOptions, buffers: tuple[int, ...],
          outputs: int) -> Iterator[TapsWgmmaOptions]:
    """How a tile's pixels come and its outputs go; where groups share them out, nearly alike."""
    of, orders = buffers, tuple(Order)
    stages: tuple[int, ...] = (options.stage,)
    if is_flat(spec, options):
        # of estimates that are the same the first is taken: few buffers, but one for each of four groups; without turns
        # all plans timed took as long or up to 1.1 times as long
        of = tuple(sorted({*buffers, options.groups}, reverse=options.groups == max(GROUPS)))
        orders = (Order.TURNS,)
        stages = tuple(stage for stage in STAGES
                       if stage == min(STAGES) or -(-outputs // stage) * stage <= MOST_LEFT * outputs)
    elif options.staged:
        of, orders = BUFFERS, (Order.FREE,)
    for number, order, stage in itertools.product(of, orders, stages):
        yield replace(options, buffers=number, order=order, stage=stage)


def _tiles(spec: KernelSpec, options: TapsWgmmaOptions) -> list[tuple[int, int]]:
    """Rows and columns that groups share out, and others."""
    outputs = item_outputs(spec, options) * (options.groups // sides_of(spec, options))
    return [*((outputs * items // tile_q, tile_q) for items, tile_q in itertools.product(ITEMS, TILE_Q)), *OTHER_TILES]


def _whole_rows(spec: KernelSpec, options: TapsWgmmaOptions, columns: int | None) -> Iterator[tuple[int, int]]:
    """Rows that are a whole number of items, as many as have so many outputs."""
    for tile_q in row_widths(columns, WHOLE_ROWS, RUN, WIDER):
        yield from ((tile_p, tile_q) for tile_p in whole_rows(tile_q, item_outputs(spec, options), STAGED_OUTPUTS))


def _rows_in_one(columns: int | None) -> Iterator[tuple[int, int]]:
    """Rows without a gap between them that fill most of the outputs that are made at a time."""
    for tile_q in row_widths(columns, WHOLE_ROWS, RUN, RUN):
        each = columns or tile_q
        rows = range(-(-FLAT_OUTPUTS[0] // tile_q), FLAT_OUTPUTS[1] // tile_q + 1)
        yield from ((tile_p, tile_q) for tile_p in rows if tile_p * each >= LEAST_FILLED * filled(tile_p * each))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsWgmmaOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first, the smallest. Where none fits beside lines that begin anywhere, a plan for whole ones, which is
    refused for these sizes."""
    if shape is None:
        return next(candidates(spec, (1, WIDE)))
    shape = shape.with_batch(assumed_batch(shape))
    width = line_width(spec, shape, WIDE)
    found = (list(candidates(spec, (width,), WANTED_BUFFERS, shape.q))
             or [replace(next(candidates(spec, (WIDE,))), vector=width)])
    made = (replace(options, store_vector=store_width(spec, shape, options.staged)) for options in found)
    return min(made, key=lambda options: cycles(spec, options, shape))


def cycles(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in rounds of what the chip holds at a time, beside its bytes. One group stores while
    others multiply; a tile's pixels are copied while those before are multiplied."""
    copied = _copied_cycles(spec, options)
    waited = (copied + WAIT_CYCLES) / (options.buffers - 1)
    of_tile = (_flat_cycles(spec, options, shape) if is_flat(spec, options)
               else _rows_cycles(spec, options, shape, copied + WAIT_CYCLES) if options.staged
               else _tile_cycles(spec, options))
    each = max(of_tile, copied, waited) + SEEN_SHARE * copied + NEXT_CYCLES
    arithmetic = _rounds(spec, options, shape) * each
    start, share = ((FLAT_START_CYCLES, FLAT_MEMORY_SHARE) if is_flat(spec, options)
                    else (ROWS_START_CYCLES, ROWS_MEMORY_SHARE) if options.staged else (START_CYCLES, MEMORY_SHARE))
    moved = share * shape.bytes_moved + partly_stored(spec, options, shape, PARTLY)
    return start + beside(arithmetic, moved / spec.hardware.copied_bytes, MEMORY_POWER)


def _copied_cycles(spec: KernelSpec, options: TapsWgmmaOptions) -> float:
    """Of a tile's pixels: of each copy, and of 16 bytes."""
    lines, planes = halo(spec, options), spec.c // pixel_of(spec)
    if has_rows_together(spec, options):
        return TILE_CYCLES + planes * (LINE_CYCLES + PIECE_CYCLES * lines.plane / WIDE)
    return (TILE_CYCLES + lines.rows * planes * (LINE_CYCLES + PIECE_CYCLES * lines.pieces)
            + (EDGE_CYCLES if any(map(any, spec.padding)) else 0.0))


def _rounds(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """Tiles of a block, of the block that has most; where groups share out whole rows, in the mean of some batches that
    share the choice for as many images as are assumed."""
    blocks = max(1, spec.hardware.multiprocessors // -(-spec.k // options.filters))
    of_image = -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q)
    if is_flat(spec, options) and shape.n == ASSUMED_IMAGES:
        return sum(-(-shape.n * times * of_image // blocks) / times for times in ASSUMED_TIMES) / len(ASSUMED_TIMES)
    if by_parity(spec, options) and shape.n > 1 < blocks and spec.c * shape.h * shape.w % PAIR:
        even = (shape.n + 1) // 2
        of_even = min(max(blocks * even // shape.n, 1), blocks - 1)
        return max(-(-even * of_image // of_even), -(-(shape.n - even) * of_image // (blocks - of_even)))
    return -(-shape.n * of_image // blocks)


def _tile_cycles(spec: KernelSpec, options: TapsWgmmaOptions) -> float:
    """Of a tile: a group's stores beside all groups' products."""
    of_depth = (DEPTH_CYCLES + COLUMN_CYCLES * options.filters + (MOVING_CYCLES if is_free(spec, options) else 0.0)
                + (0.0 if other_of(spec, options) else APART_CYCLES))
    items = (items_of(spec, options) / (options.groups // sides_of(spec, options))
             * (2 if has_words(spec, options) else 1))          # 64 outputs each
    widest = PAIR if spec.layout is Layout.NCHW else max(STORES)
    stores = 1 + NARROW_SHARE[spec.layout] * (widest // options.store_vector - 1)
    stored = STORE_CYCLES[spec.layout] * stores * options.filters / COLUMN_UNIT
    multiplied = options.groups * (depths_of(spec, options) * of_depth
                                   + (TURN_CYCLES if options.order is Order.TURNS else 0.0))
    return items * beside(stored, multiplied, FREE_POWER if options.order is Order.FREE else TURNS_POWER)


def _rows_cycles(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape, copied: float) -> float:
    """From a tile to the next where each group has its own: a group's time for one beside what all of them share."""
    items, depths = items_of(spec, options), depths_of(spec, options)
    stores = -(-min(options.tile_p, shape.p) * shape.q // (LANES * lane_outputs(options)))
    alone = (items * (ALONE_DEPTH_CYCLES * depths + ALONE_ITEM_CYCLES + ALONE_COLUMN_CYCLES * options.filters)
             + ALONE_TILE_CYCLES + (ALONE_SHARE * copied if options.buffers == options.groups else 0.0))
    return beside(ROWS_DEPTH_CYCLES * items * depths + ROWS_STORE_CYCLES * options.filters * stores,
                  alone / options.groups, ROWS_POWER)


def _flat_cycles(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """Of an image's tiles in the mean where groups share out whole rows: a group's time, and what all of them share."""
    whole, rest = divmod(shape.p, options.tile_p)
    tiles = [outputs * shape.q for outputs in (*[options.tile_p] * whole, *[rest] * (rest > 0))]
    items, depths = sum(map(filled, tiles)) / ROWS, depths_of(spec, options)
    stages = sum(-(-outputs // options.stage) for outputs in tiles)
    stores = sum(tiles) * options.filters / (LANES * lane_outputs(options))
    of_tile = sum(max(1.0, outputs / options.stage) for outputs in tiles) / len(tiles)
    working = min(options.groups, (options.buffers - SPARE_BUFFERS) * of_tile)
    alone = (items * (FLAT_DEPTH_CYCLES * depths + FLAT_ITEM_CYCLES + FLAT_COLUMN_CYCLES * options.filters)
             + stages * (WHOLE_STAGE_CYCLES if options.store_vector == WIDE else FLAT_STAGE_CYCLES)
             + stores * FLAT_STORE_CYCLES)
    shared = (items * depths * (SHARED_DEPTH_CYCLES + SHARED_COLUMN_CYCLES * options.filters)
              + stores * SHARED_STORE_CYCLES)
    crowded = 1.0 + CROWDED_SHARE * (options.groups - min(GROUPS))
    turns = sum(-(-outputs // (options.stage * options.groups)) for outputs in tiles)
    uneven = 1.0 + UNEVEN_SHARE * (turns * options.groups / stages - 1.0)
    return (shared + crowded * uneven * alone / working) / len(tiles)


def instructions(spec: KernelSpec, options: TapsWgmmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return several_share(spec) * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)


