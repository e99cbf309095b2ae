"""Which tiles a layer of ``taps`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import QUARTERS, SECTOR_BYTES
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (BLOCK, QUAD, SLOTS, STRIP, WIDE, blocks_of, cell_of, chunks_of, fits, halo, holds_filters,
                      is_unrolled, joined_spec, lies_together, matrices, most_joined, piece_of, pixel_pieces, resident,
                      resolved, store_width, widest_copy)
from .options import TapsOptions

# (tile_p, tile_q, strips, warps): the larger ones first
TILES = ((16, 32, 4, 8), (8, 32, 4, 4), (14, 16, 2, 7), (16, 16, 2, 8), (14, 16, 2, 4), (8, 32, 2, 4), (8, 16, 2, 4),
         (4, 32, 2, 4), (8, 8, 2, 4), (8, 8, 2, 2), (4, 16, 2, 2), (2, 16, 2, 1), (1, 32, 2, 1))
FILTERS = (64, 48, 96, 32, 24, 16, 8)       # of a tile
GROUPS = (8, 4, 2, 1)                       # of a tile
# Cycles of a multiprocessor, fitted to 1,631 plans of 29 layers (ResNeXt-50's grouped ones and first layers in both
# layouts, few channels; batch 32 and 1), timed on an H200 on 2026-11-24: of these the plan that is chosen takes 1.08
# times as long as the quickest in the mean. Those of pixels that are copied: 1,664 plans of 24 layers, 2026-11-27; 1.05
CHANNEL_CYCLES = 0.216      # of a channel of a pixel that is gathered,
SECTOR_CYCLES = 0.351       # and of the 32 bytes that it lies in
LOAD_CYCLES = 2.07          # of an instruction that loads from shared memory, for all lanes
MMA_CYCLES = 0.92           # of m16n8k16
ROLLED_CYCLES = 16.0        # of finding an instruction's taps in a loop
STORE_CYCLES = 8.7          # of a quad of matrices: the epilogue, the exchange, the stores
COPIED_CYCLES = 0.0211      # of a byte that is copied to shared memory
MEMORY_SHARE = 0.947        # of the bytes, at the speed of a copy, and
PARTLY_STORED = 2.0         # of those of y that share 32 with another tile's (rows that do not begin with 32: 430 plans
                            # of 7 first layers, 2026-11-27)
AHEAD = 1.14                # blocks more that one with two buffers turns to, which has a tile after this one
DENSE_SHARE = 1.3           # of these cycles, about, that layers without groups of more than four channels took, where
                            # cells have planes of their own


@dataclass(frozen=True)
class Waits:
    """How much of what a multiprocessor does is waiting, by the way that pixels come."""

    tile: float             # cycles of a tile's pixels
    start: float            # of a launch, and of a block's first pixels
    full_warps: float       # of a multiprocessor, below which it waits for them
    exposed: float          # of memory and arithmetic the lesser adds to the greater so much of its time,
    hidden: float           # by this power of the blocks that turn to each other


GATHERED = Waits(tile=725.0, start=3100.0, full_warps=10.1, exposed=1.1, hidden=0.296)
COPIED = Waits(tile=308.0, start=3750.0, full_warps=5.17, exposed=2.14, hidden=0.331)


def candidates(spec: KernelSpec) -> Iterator[TapsOptions]:
    """Every tile that fits, of the layer's groups and of joined ones."""
    for joined in sorted({1, most_joined(spec)}):
        for options in _tiles(joined_spec(spec, TapsOptions(joined=joined))):
            yield replace(options, joined=joined)


def _tiles(spec: KernelSpec) -> Iterator[TapsOptions]:
    """Groups side by side where a group has few filters, filters in tiles that waste little."""
    widths = [f for f in FILTERS if f < 2 * spec.filters or f == min(FILTERS)]
    least = min(-(-spec.filters // f) * f for f in widths)
    for filters in (f for f in widths if -(-spec.filters // f) * f <= 1.34 * least):
        for groups, warp_groups in _groups(spec, filters):
            for tile_p, tile_q, strips, warps in TILES:
                for buffers in (1, 2) if widest_copy(spec) > 1 else (1,):
                    options = TapsOptions(tile_p=tile_p, tile_q=tile_q, tile_filters=filters, groups_tile=groups,
                                          warp_groups=warp_groups, strips=strips, warps=warps, buffers=buffers)
                    if fits(spec, options):
                        yield options


def _groups(spec: KernelSpec, filters: int) -> Iterator[tuple[int, int]]:
    """Groups of a block, and of a warp at once: in NHWC as many as make four matrices side by side."""
    if filters < spec.filters:
        yield 1, 1
        return
    wanted = max(1, QUAD * BLOCK // filters) if spec.layout is Layout.NHWC else 1
    at_once = next(g for g in GROUPS if g <= wanted and spec.groups % g == 0)
    yield from ((g, at_once) for g in GROUPS if spec.groups % g == 0 and g % at_once == 0)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the last, the smallest."""
    if shape is None:
        return list(candidates(spec))[-1]
    shape = shape.with_batch(assumed_batch(shape))

    def estimated(options: TapsOptions) -> float:
        joined = joined_spec(spec, options)
        return cycles(joined, resolved(joined, options, shape), shape)

    found = min(candidates(spec), key=estimated)
    return replace(found, store_vector=store_width(spec, shape)) if spec.layout is Layout.NCHW else found


def cycles(spec: KernelSpec, options: TapsOptions, shape: ConvShape) -> float:
    """Cycles of a layer, of resolved plan values: its tiles in rounds of what the chip holds at a time, beside its
    bytes and what its blocks copy; blocks beside each other, or two buffers, hide a part of the lesser."""
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q)
    tiles *= -(-spec.filters // options.tile_filters) * spec.groups // options.groups_tile
    chip = spec.hardware.multiprocessors
    busy = min(resident(spec, options), -(-tiles // chip))
    rounds = -(-tiles // (busy * chip))
    waits = COPIED if options.vector > 1 else GATHERED
    arithmetic = rounds * busy * _tile_cycles(spec, options) * max(1.0, waits.full_warps / (busy * options.warps))
    rows, columns = halo(spec, options)
    copied = 2 * piece_of(spec, options) * pixel_pieces(spec, options) * rows * columns * tiles / chip
    stored = _shared_sectors(options, shape) * spec.y_dtype.itemsize * math.prod(shape.output_shape)
    memory = ((MEMORY_SHARE * shape.bytes_moved + PARTLY_STORED * stored) / spec.hardware.copied_bytes
              + (COPIED_CYCLES * copied if options.vector > 1 else 0.0) + waits.tile * rounds)
    lesser, greater = sorted((arithmetic, memory))
    beside: float = busy * (1 + AHEAD * (options.buffers - 1 if rounds > 1 else 0))
    return greater + waits.exposed * lesser / float(beside ** waits.hidden) + waits.start


def _shared_sectors(options: TapsOptions, shape: ConvShape) -> float:
    """Of y's sectors of memory the part that several tiles write, in NCHW."""
    if shape.layout is not Layout.NCHW:
        return 0.0
    of_row = SECTOR_BYTES / (2 * options.tile_q)
    whole = 2 * shape.q % SECTOR_BYTES == 0 or options.tile_q >= shape.q
    return max(0.0, of_row - 1) if whole else of_row


def _tile_cycles(spec: KernelSpec, options: TapsOptions) -> float:
    """Of a multiprocessor that has other blocks to turn to."""
    rows, columns = halo(spec, options)
    gathered = 0.0
    if options.vector == 1:
        channels = spec.channels * options.groups_tile
        lines, width = (channels * rows, columns) if spec.layout is Layout.NCHW else (rows, columns * channels)
        gathered = (CHANNEL_CYCLES * channels * rows * columns
                    + SECTOR_CYCLES * lines * (spec.dtype.itemsize * width / SECTOR_BYTES + 1))
    items = options.groups_tile // options.warp_groups * options.tile_p * options.tile_q // STRIP // options.strips
    return gathered + -(-items // options.warps) * options.warps * _item_cycles(spec, options)


def _item_cycles(spec: KernelSpec, options: TapsOptions) -> float:
    """Of a warp's sums: loads from shared memory or products, whichever takes longer; the stores."""
    rows, columns = matrices(spec, options)
    blocks = blocks_of(options) * options.warp_groups
    pixels = options.strips * options.warp_groups * (1 if cell_of(spec) == WIDE else 2)
    loads = LOAD_CYCLES * (pixels + (0 if holds_filters(spec, options) else blocks))
    products = options.strips * blocks if spec.layout is Layout.NHWC else rows * columns
    found = 0.0 if is_unrolled(spec, options) else ROLLED_CYCLES
    return (chunks_of(spec) * (max(loads, MMA_CYCLES * products) + found)
            + STORE_CYCLES * 2 * rows * -(-columns // QUAD) * (1 if options.store_vector > 1 else 2))


def instructions(spec: KernelSpec, options: TapsOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    dense = spec.groups == 1 and spec.channels > SLOTS and not lies_together(spec, options)
    share = DENSE_SHARE if dense else 1.0
    return share * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
