"""Which tiles a layer of ``taps_float32`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, LINE_BYTES, QUARTERS
from warpconv.codegen.parts.first_layers import Stores, beside
from warpconv.codegen.parts.lines import lanes_for, line_width
from warpconv.codegen.parts.stored_rows import PartlyStored, row_widths, whole_rows
from warpconv.codegen.parts.wgmma import COLUMN_UNIT, ROWS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (RUN, SPLIT_PRODUCTS, STORES, WIDE, WORDS_AT_ONCE, column_unit, depths_of, filter_blocks,
                      is_odd, is_split, line_rounds, line_words, lines_at_once, more_registers, planned_registers,
                      sets_of, shared_bytes, steps_of, store_width, tile_lines)
from .options import TapsFloat32Options

GROUPS = (2, 3, 4)
BUFFERS = (2, 3, 4, 6)
RAWS = (1, 2)
SHIFTS = ((4, 1), (4, 2), (8, 1))   # warps that copy a tile, and shifts of them
TILE_Q = (8, 16, 32, 64)
ITEMS = (1, 2, 4, 8)                # of a tile
WHOLE_ROWS = (16, 32, 56, 64, 112, 128)     # columns of tiles of whole rows where those of y are not known,
WIDER = 32                          # fewer than so many more than y's where they are,
STAGED_OUTPUTS = (128, 512)         # and outputs of such tiles,
TOGETHER = (1, 2, 4)                # of which so many times 64 are put together
SHARES = (1, 2)                     # of a tile's filters, of split factors
FILTERS = (16, 32, 48, 64, 96, 128)
MOST_PASSES = 4
TILE_COUNTS = 2                     # of filters' tiles: as few as fit, and the next
# Cycles of a multiprocessor at wgmma.CLOCK, fitted to 865 plans of 47 rows (first layers of 1 to 12 channels; batch
# 128 to 1, both layouts, fp16x3 and tf32; directly stored and put together), timed on an H200 on 2026-11-30: of these
# the plan that is chosen takes 1.02 times as long as the quickest in the mean (1.26 at most). Lines that are copied by
# pieces, at borders that show the image, are estimated as zeros are
DEPTH_CYCLES, COLUMN_CYCLES = 38.3, 0.317   # of an instruction's factors: their loads, and each filter's products
SUMS_CYCLES = 11.4          # of eight filters' sums of a step, added to the others
SHARE_CYCLES = 33.4         # of a step's second share of filters, beside its products and sums
STORE_CYCLES = {Layout.NHWC: 4.0, Layout.NCHW: 57.8}       # of eight filters of 64 outputs, beside memory's
SHORT_SHARE = 0.796         # and so much more in NCHW where runs lie in two rows
NARROW_SHARE = 0.3          # and for each store besides, in NHWC (not measured)
TILE_CYCLES, RAW_CYCLES = 889.0, 20.0       # of a tile's way to halves, and more where one is copied after the other
COPY_CYCLES, SPLIT_CYCLES = 57.5, 94.3      # of a thread's copies of lines, and of a warp's words of halves,
COPIERS_POWER = 0.473       # more of twice as many warps
PLAIN_SHARE, ODD_SHARE = 0.819, 2.61        # so much of these without a low part, with two copies of a line
SHIFT_SHARE = 0.387         # more tiles that two shifts copy
TILE_POWER, FEW_POWER = 1.52, 1.42   # how far the longer of a tile's way to halves and its products hides the other,
                            # and where each group has one buffer
START_CYCLES = 2490.0
MEMORY_SHARE = 1.0          # of the bytes, at the speed of a copy
MEMORY_POWER = 2.13         # how far the longer of memory and arithmetic hides the other
# So much more of y's bytes for the square of the further tiles whose rows go into a line of memory, where factors are
# not split: by hand, between plans that the fit does not tell apart (split ones were no quicker for it)
LINE_SHARE = 0.03
PARTLY = PartlyStored(whole=1.22, narrow=2.92, power=0.4, kept=0.5)
MOST_PARTLY = 256           # outputs of a tile where rows of y begin inside of sectors: of larger ones some took 1.2
                            # times as long
# Where outputs are put together
STAGED_CYCLES, TOGETHER_CYCLES = 64.9, 548.0    # of eight filters of 64 outputs, and of all that are stored at once
EDGE_CYCLES = 747.0         # more of a warp's copies where each line begins anywhere and has its ends in the padding
STAGED_POWER = 1.79         # as TILE_POWER
ROWS_SHARE, ROWS_POWER = 0.401, 0.17  # bytes more for each of y's, where 64 are stored at once, fewer where more are
ROWS_MARGIN = 1.05          # times as long as estimated others must be for outputs to be put together


def fits(spec: KernelSpec, options: TapsFloat32Options) -> bool:
    """Whether registers and shared memory hold it, a thread its words of a line, and buffers go round as they must."""
    return (goes_round(options) and line_rounds(spec, options) <= WORDS_AT_ONCE
            and shared_bytes(spec, options) <= spec.hardware.shared_block
            and planned_registers(spec, options, sets_of(spec, options)) <= more_registers(spec, options))


def goes_round(options: TapsFloat32Options) -> bool:
    """Whether who waits for a buffer cannot take the time before for this one: all before it was filled in order, or
    by the same warps for the same ones."""
    if options.shifts == 1:
        return options.buffers >= options.groups
    return options.buffers % options.shifts == options.buffers % options.groups == 0


def candidates(spec: KernelSpec, vector: int = 1, columns: int | None = None,
               ways: Iterable[Stores] = Stores) -> Iterator[TapsFloat32Options]:
    """Every tile that fits: filters in as few tiles as fit, or the next number that FILTERS has; up to twice as many
    buffers as groups and two raw tiles, where they fit; where outputs are put together, whole rows of ``columns``.
    Of ``ways`` to store, those that the layout has."""
    store = store_width(spec)
    unit = column_unit(TapsFloat32Options(store_vector=store))
    whole = -(-spec.k // unit) * unit
    widths = {f for f in (*FILTERS, whole) if f <= min(whole, max(FILTERS)) and f % unit == 0}
    tiles = {-(-spec.k // f): f for f in sorted(widths, reverse=True)}      # the narrowest of so many tiles
    counts = 0
    for count in sorted(tiles):
        first = TapsFloat32Options(filters=tiles[count], vector=vector, store_vector=store)
        made = (one for way in ways if way is Stores.DIRECT or spec.layout is Layout.NCHW
                for one in _tiles(spec, replace(first, stores=way), columns))
        found = False
        for one in made:
            found = True
            yield one
        counts += found
        if counts == TILE_COUNTS:
            return


def _tiles(spec: KernelSpec, options: TapsFloat32Options, columns: int | None) -> Iterator[TapsFloat32Options]:
    """Those of so many filters that fit."""
    passes = {1, min(-(-spec.k // options.filters), MOST_PASSES)}
    tiles = _whole_rows(columns) if options.staged else (
        (ROWS * items // tile_q, tile_q, 1) for items, tile_q in itertools.product(ITEMS, TILE_Q))
    for (tile_p, tile_q, together), groups, (copiers, shifts), several in itertools.product(tiles, GROUPS, SHIFTS,
                                                                                          sorted(passes)):
        if not tile_p:
            continue
        tile = _shared(spec, replace(options, tile_p=tile_p, tile_q=tile_q, together=together, passes=several,
                                     groups=groups, copiers=copiers, shifts=shifts))
        made = (replace(tile, buffers=buffers, raws=raws) for buffers, raws in itertools.product(
            sorted((b for b in BUFFERS if b <= 2 * groups), reverse=True), sorted(RAWS, reverse=True)))
        if fits(spec, replace(tile, buffers=math.lcm(groups, shifts), raws=1)):     # the fewest that go round
            yield next(one for one in made if fits(spec, one))


def _shared(spec: KernelSpec, options: TapsFloat32Options) -> TapsFloat32Options:
    """As few shares of the filters as there are registers for."""
    if not is_split(spec) or options.filters % (2 * COLUMN_UNIT):
        return options
    fits = planned_registers(spec, options, min(2, steps_of(spec))) <= more_registers(spec, options)
    return options if fits else replace(options, shares=2)


def _whole_rows(columns: int | None) -> Iterator[tuple[int, int, int]]:
    """Rows and columns of tiles of whole rows, and how many times 64 outputs of them are put together; wider ones than
    y's where fewer rows are whole times 64."""
    common = 0
    for tile_q in row_widths(columns, WHOLE_ROWS, RUN, WIDER):
        if columns is not None and math.gcd(ROWS, tile_q) <= common:
            continue
        common = math.gcd(ROWS, tile_q)
        yield from ((tile_p, tile_q, together) for tile_p in whole_rows(tile_q, ROWS, STAGED_OUTPUTS)
                    for together in TOGETHER if together * ROWS <= tile_p * tile_q)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsFloat32Options:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first, the smallest."""
    if shape is None:
        return next(candidates(spec))
    shape = shape.with_batch(assumed_batch(shape))
    partly = _is_partly_stored(spec, shape)
    made = candidates(spec, line_width(spec, shape, WIDE), shape.q, Stores if partly else (Stores.DIRECT,))
    if partly:
        made = (options for options in made if options.staged or options.tile_p * options.tile_q <= MOST_PARTLY)
    return min(made, key=lambda options: cycles(spec, options, shape) * (ROWS_MARGIN if options.staged else 1.0))


def _is_partly_stored(spec: KernelSpec, shape: ConvShape) -> bool:
    """Whether rows of y begin inside of what memory is written by."""
    return spec.layout is Layout.NCHW and shape.q % RUN != 0


def cycles(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in rounds of what the chip holds at a time, beside its bytes. One group stores while
    others multiply; a tile's pixels are copied and split while those before are multiplied."""
    chip = max(1, spec.hardware.multiprocessors // filter_blocks(spec, options))
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q)
    of_block = -(-tiles // chip)
    multiplied, stored = _group_cycles(spec, options)
    together = multiplied + stored / min(options.groups, of_block)
    split = _split_cycles(spec, options)
    each = split / (1 + SHIFT_SHARE * (options.shifts - 1))
    power = STAGED_POWER if options.staged else TILE_POWER if options.buffers > options.groups else FEW_POWER
    arithmetic = of_block * beside(together, each, power)
    memory = _memory_bytes(spec, options, shape) / spec.hardware.copied_bytes
    return START_CYCLES + split + multiplied + stored + beside(arithmetic, memory, MEMORY_POWER)


def _split_cycles(spec: KernelSpec, options: TapsFloat32Options) -> float:
    """From a tile's first copy to its last word of halves."""
    lines, rounds = tile_lines(spec, options), line_rounds(spec, options)
    copies = -(-lines // (options.copiers * LANES))
    apart = options.copiers * LANES // lanes_for(line_words(spec, options))
    at_once = lines_at_once(lines, apart, WORDS_AT_ONCE // rounds)
    words = -(-lines // (apart * at_once)) * at_once * rounds * (ODD_SHARE if is_odd(spec) else 1.0)
    copying = COPY_CYCLES + (EDGE_CYCLES if options.staged and options.vector == 1 and any(spec.padding[1]) else 0.0)
    each = copying * copies + SPLIT_CYCLES * words * (1.0 if is_split(spec) else PLAIN_SHARE)
    return (TILE_CYCLES + (RAW_CYCLES if options.raws == 1 else 0.0)
            + each * float((options.copiers / SHIFTS[0][0])**COPIERS_POWER))


def _group_cycles(spec: KernelSpec, options: TapsFloat32Options) -> tuple[float, float]:
    """Of a tile: a group's products and its stores."""
    blocks, items = options.filters / RUN, options.passes * options.tile_p * options.tile_q // ROWS
    products = SPLIT_PRODUCTS if is_split(spec) else 1
    multiplied: float = depths_of(spec) * (DEPTH_CYCLES + COLUMN_CYCLES * options.filters * products)
    if is_split(spec):
        multiplied += steps_of(spec) * (SUMS_CYCLES * blocks + SHARE_CYCLES * (options.shares - 1))
    stored = STORE_CYCLES[spec.layout] * blocks
    if options.staged:
        stored = STAGED_CYCLES * blocks + TOGETHER_CYCLES / options.together
    elif spec.layout is Layout.NHWC:
        stored *= 1 + NARROW_SHARE * (max(STORES) // options.store_vector - 1)
    elif options.tile_q == RUN:
        stored *= 1 + SHORT_SHARE
    return items * multiplied, items * stored


def _memory_bytes(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape) -> float:
    """That go to and from memory, as if at the speed of a copy."""
    moved, written = MEMORY_SHARE * shape.bytes_moved, PARTLY.written(shape, spec.hardware)
    if _is_partly_stored(spec, shape):
        staged: float = ROWS_SHARE / options.together**ROWS_POWER
        return moved + written * (staged if options.staged else PARTLY.more(shape, options.tile_q))
    row = options.tile_q * spec.dtype.itemsize
    narrow = spec.layout is Layout.NCHW and not is_split(spec) and not options.staged and row < LINE_BYTES
    return moved + (written * LINE_SHARE * (LINE_BYTES / row - 1)**2 if narrow else 0.0)


def instructions(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
