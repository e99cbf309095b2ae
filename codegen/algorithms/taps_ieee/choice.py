"""Which tiles a layer of ``taps_ieee`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import GRID_LIMIT, LANES, QUARTERS, SECTOR_BYTES
from warpconv.codegen.parts.first_layers import beside, pixel_of
from warpconv.codegen.parts.lines import line_width
from warpconv.codegen.parts.occupancy import most_planned, rounds_of
from warpconv.codegen.parts.stored_rows import PartlyStored, row_widths
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (WIDE, filter_blocks, filter_elements, halo, is_exchanged, most_blocks,
                      planned_registers, shared_bytes, store_width, threads_of, window_of, window_passes)
from .options import TapsIeeeOptions

COLUMNS = {Layout.NHWC: (8, 4), Layout.NCHW: (4,)}      # in NCHW neighbouring lanes store what lies side by side
FILTERS = (4, 8, 12, 16)
MOST_OUTPUTS = 64               # of a thread
MOST_LANES = 32                 # that share a run's filters
THREADS = (64, 256)             # of a block, about
TILE_Q = {Layout.NHWC: (8, 16, 32, 64, 128), Layout.NCHW: (16, 32, 64, 128)}
TILE_Q_OF_GROUPS = (16, 28, 32, 56, 64, 112, 128)      # deeper layers, whose rows are no whole 32 columns
MOST_ROWS = 32
WIDER = 32                      # fewer than so many columns more than y's has a tile of whole rows, which are stored
WHOLE_THREADS = 512             # together where they begin anywhere, by so many threads at most
FILTER_SHARES = 2               # numbers of blocks that share out filters: the fewest that fit, and the next
# Slots of a warp and cycles of a multiprocessor, fitted to 1,309 plans of 20 layers (first layers of 1 to 12 channels,
# batch 1 to 256, both layouts), timed on an H200 on 2026-11-28: of these the plan that is chosen takes 1.06 times as
# long as the quickest in the mean
LOAD_SLOTS, PASS_SLOTS = 1.5, 1.05  # of a load of factors, and of each further pass over shared memory that it takes,
COPY_SLOTS, TILE_SLOTS = 45.0, 60.0     # of a copy of 16 bytes, and of a tile besides
STORE_SLOTS = {Layout.NHWC: 0.8, Layout.NCHW: 5.3}
WARP_PACE, WAIT_WARPS = 1.1, 1.1    # times its slots that a warp takes, and as if so many more were on each quarter
START_CYCLES, FILTER_CYCLES = 6300.0, 11.5      # of a layer, of a thread's copy of a filter's element
MEMORY_SHARE = 1.2          # of the bytes, at the speed of a copy
MEMORY_POWER = 3.2          # how far the longer of memory and arithmetic hides the other
SECTOR = SECTOR_BYTES // 4  # floats that memory is written by; in NCHW rows of y may begin inside of them:
PARTLY_SHARE, PARTLY_POWER = 2.0, 0.15      # so much more of y's bytes then, less of wide tiles
# Where outputs change hands before they are stored, fitted to 438 plans of 14 layers on 2026-11-29 (1.10 times as long
# as the quickest in the mean):
EXCHANGE_SLOTS = 10.9       # of a store,
END_SLOTS = 57.0            # more of copies of lines that begin anywhere and have an end in the padding
EXCHANGED_SHARE = 0.79      # times all that, but where lines are those of narrow groups
EXCHANGED = PartlyStored(whole=0.325, narrow=1.72, power=0.505)
NARROW_GROUPS = 1.5         # times all that, groups whose lines begin anywhere took: deeper layers have short ones, and
                            # each has its edges (31 to 7 columns, stride 1 and 2, 1.3 to 2.1, 2026-11-28)
STRIDED_PLANES = 1.07       # times all that, layers of a stride took in NCHW (8 of these)


def fits(spec: KernelSpec, options: TapsIeeeOptions) -> bool:
    """Whether registers, shared memory and a grid hold it."""
    return (spec.groups * filter_blocks(spec, options) <= GRID_LIMIT[1]
            and planned_registers(spec, options) <= most_planned(threads_of(options))
            and shared_bytes(spec, options) <= spec.hardware.shared_block)


def candidates(spec: KernelSpec, vector: int = 1, store_vector: int = 1,
               q: int | None = None) -> Iterator[TapsIeeeOptions]:
    """Every tile that fits: threads in whole warps, of which in NCHW each has the same filters; where outputs change
    hands tiles of whole rows of ``q``, too."""
    rows = q if spec.layout is Layout.NCHW and store_vector < WIDE else None
    for columns, filters in itertools.product(COLUMNS[spec.layout], FILTERS):
        if columns * filters > MOST_OUTPUTS:
            continue
        needed, shares = -(-spec.filters // filters), 0
        for share in range(-(-needed // MOST_LANES), needed + 1):
            lanes = -(-needed // share)
            made = [TapsIeeeOptions(columns=columns, filters=filters, filter_lanes=lanes, tile_p=tile_p, tile_q=tile_q,
                                    vector=vector, store_vector=store_vector)
                    for tile_p, tile_q in _tiles(spec, columns, lanes, rows)]
            found = [one for one in made if fits(spec, one)]
            yield from (replace(one, min_blocks=most_blocks(spec, one)) for one in found)
            shares += bool(found)
            if shares == FILTER_SHARES:
                break


def _tiles(spec: KernelSpec, columns: int, lanes: int, q: int | None) -> Iterator[tuple[int, int]]:
    """Rows and columns of a tile."""
    widths = TILE_Q[spec.layout] if spec.groups == 1 else TILE_Q_OF_GROUPS
    whole = row_widths(q, (), WIDE, WIDER)
    for tile_q in sorted({*widths, *whole}):
        least, most = THREADS[0], WHOLE_THREADS if tile_q in whole else THREADS[1]
        for tile_p in range(1, MOST_ROWS + 1):
            runs = tile_p * tile_q // columns
            warps = runs % LANES == 0 if spec.layout is Layout.NCHW else runs * lanes % LANES == 0
            if warps and least <= runs * lanes <= most:
                yield tile_p, tile_q


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsIeeeOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first. Where wide loads and stores leave too few registers, narrow ones."""
    if shape is None:
        return next(candidates(spec))
    shape = shape.with_batch(assumed_batch(shape))
    made = list(candidates(spec, line_width(spec, shape, WIDE), store_width(spec, shape.q), shape.q))
    return min(made or candidates(spec), key=lambda options: cycles(spec, options, shape))


def cycles(spec: KernelSpec, options: TapsIeeeOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in rounds of what the chip holds at a time, beside its bytes."""
    shares = spec.groups * filter_blocks(spec, options)
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q) * shares
    warps = threads_of(options) / LANES / QUARTERS
    held = sum(times * (blocks * warps * WARP_PACE + WAIT_WARPS)
               for times, blocks in rounds_of(spec.hardware, tiles, options.min_blocks))
    arithmetic = held * _tile_slots(spec, options, -(-shape.q // options.tile_q))
    if is_exchanged(spec, options) and not _has_short_lines(spec, options):
        arithmetic *= EXCHANGED_SHARE
    memory = _memory_bytes(spec, options, shape) / spec.hardware.copied_bytes
    filters = FILTER_CYCLES * filter_elements(spec, options) / threads_of(options)
    found = START_CYCLES + filters + beside(arithmetic, memory, MEMORY_POWER)
    if _has_short_lines(spec, options):
        found *= NARROW_GROUPS
    return found * STRIDED_PLANES if spec.layout is Layout.NCHW and spec.stride[1] > 1 else found


def _has_short_lines(spec: KernelSpec, options: TapsIeeeOptions) -> bool:
    """Whether lines are those of a deeper layer's groups and begin anywhere."""
    return spec.groups > 1 and options.vector == 1


def _tile_slots(spec: KernelSpec, options: TapsIeeeOptions, across: int) -> float:
    """Of a warp for a tile, ``across`` of which share a row: products, the loads of their factors, stores, and copies
    of the next tile's pixels."""
    outputs, lines = options.columns * options.filters, halo(spec, options)
    planes = spec.reduction // (spec.r * spec.s * pixel_of(spec))
    multiply = max(1, LANES * QUARTERS // spec.hardware.float_lanes)
    windows = planes * spec.r * window_of(spec, options) / options.vector
    loads = LOAD_SLOTS * (spec.reduction * options.filters / WIDE + windows)
    loads += PASS_SLOTS * windows * (window_passes(spec, options) - 1)
    copies = -(-planes * lines.rows * lines.piece_lanes // threads_of(options)) * lines.piece_rounds
    copied, stored = COPY_SLOTS, STORE_SLOTS[spec.layout]
    if is_exchanged(spec, options):
        stored = EXCHANGE_SLOTS
        if options.vector == 1 and spec.groups == 1 and any(spec.padding[1]):
            copied += END_SLOTS * min(1.0, 2 / across)      # the first and the last of a row
    return (multiply * spec.reduction * outputs + loads + copied * copies
            + stored * outputs / options.store_vector + TILE_SLOTS)


def _memory_bytes(spec: KernelSpec, options: TapsIeeeOptions, shape: ConvShape) -> float:
    """That go to and from memory, as if at the speed of a copy."""
    moved = MEMORY_SHARE * shape.bytes_moved
    if spec.layout is Layout.NHWC or shape.q % SECTOR == 0:
        return moved
    partly: float = PARTLY_SHARE * (SECTOR / options.tile_q)**PARTLY_POWER
    more = EXCHANGED.more(shape, options.tile_q) if is_exchanged(spec, options) else partly
    return moved + more * EXCHANGED.written(shape, spec.hardware)


def instructions(spec: KernelSpec, options: TapsIeeeOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
