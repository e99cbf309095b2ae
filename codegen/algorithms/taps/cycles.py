"""What a plan of ``taps`` is estimated to cost: cycles of a multiprocessor."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import QUARTERS, SECTOR_BYTES
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .geometry import (QUAD, SLOTS, WIDE, blocks_of, blocks_of_groups, cell_of, chunks_of, copy_turns, halo,
                       is_copied, items_of, lies_together, line_loads, matrices, piece_of, pixel_pieces, run_of)
from .numbers import batch_of, holds_filters, is_unrolled, resident
from .options import TapsOptions

ROLLED_CYCLES = 16.0        # of finding an instruction's taps in a loop
PARTLY_STORED = 0.26        # times the bytes of y that share 32 with another tile's (rows that do not begin with 32)
DENSE_SHARE = 1.3           # of these cycles, about, that layers without groups of more than four channels took, where
                            # cells have planes of their own


@dataclass(frozen=True)
class Rates:
    """Of a way that pixels come, and of cells of four or eight channels, in cycles."""

    load: float             # of an instruction that loads from shared memory, for all lanes,
    mma: float              # of m16n8k16,
    store: float            # of a quad of matrices: the epilogue, the exchange, the stores
    memory: float           # of the bytes, at the speed of a copy
    tile: float             # of a tile's pixels
    start: float            # of a launch, and of a block's first pixels
    full_warps: float       # of a multiprocessor, below which it waits for them
    exposed: float          # of memory and arithmetic the lesser adds to the greater so much of its time,
    hidden: float           # by this power of the blocks that turn to each other,
    ahead: float = 0.0      # of so many more where one has two buffers, and a tile after this one
    byte: float = 0.0       # of a byte that is copied to shared memory,
    pixel: float = 0.0      # of a request for a pixel's cells,
    copy: float = 0.0       # of an instruction that copies
    channel: float = 0.0    # of an instruction that gathers a channel of pixels,
    put: float = 0.0        # and one that stores a cell of them,
    wait: float = 0.0       # of a block that waits for what its threads have loaded,
    sector: float = 0.0     # and of the 32 bytes that it lies in


# Timed on an H200. Copied pixels in cells of four channels: 1,664 plans of 24 layers, 2026-11-27, of which the plan
# that is chosen takes 1.05 times as long as the quickest in the mean; in cells of eight 391 plans of 31 layers,
# 2026-11-29, 1.03. Gathered ones, 2026-11-30: cells of four 152 plans of 14 layers, 1.03; of eight 324 plans of 33
# layers, 1.06.
RATES = {(SLOTS, False): Rates(load=2.07, mma=0.92, store=10.7, memory=1.0, tile=10.5, start=3840.0, full_warps=10.3,
                               exposed=1.91, hidden=0.0141, channel=0.61, put=1.3, wait=422.0),
         (SLOTS, True): Rates(load=2.07, mma=0.92, store=8.7, memory=0.947, tile=308.0, start=3750.0, full_warps=5.17,
                              exposed=2.14, hidden=0.331, ahead=1.14, byte=0.0211),
         (WIDE, False): Rates(load=1.36, mma=0.726, store=19.4, memory=0.943, tile=8.5, start=4070.0, full_warps=6.84,
                              exposed=1.05, hidden=0.0857, channel=2.21, put=2.23, sector=0.393, wait=612.0),
         (WIDE, True): Rates(load=1.36, mma=0.726, store=19.3, memory=0.473, tile=32.0, start=3600.0, full_warps=7.79,
                             exposed=1.91, hidden=0.0937, ahead=18.5, byte=0.0173, pixel=1.2, copy=0.205)}


def cycles(spec: KernelSpec, options: TapsOptions, shape: ConvShape) -> float:
    """Cycles of a layer, of resolved plan values: its tiles in rounds of what the chip holds at a time, beside its
    bytes and what its blocks copy; blocks beside each other, or two buffers, hide a part of the lesser."""
    rates = _rates(spec, options)
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q)
    tiles *= -(-spec.filters // options.tile_filters) * blocks_of_groups(spec, options)
    chip = spec.hardware.multiprocessors
    busy = min(resident(spec, options), -(-tiles // chip))
    rounds = -(-tiles // (busy * chip))
    arithmetic = rounds * busy * _tile_cycles(spec, options, rates)
    arithmetic *= max(1.0, rates.full_warps / (busy * options.warps))
    rows, columns = halo(spec, options)
    stored = _shared_sectors(options, shape) * spec.y_dtype.itemsize * math.prod(shape.output_shape)
    memory = ((rates.memory * shape.bytes_moved + PARTLY_STORED * stored) / spec.hardware.copied_bytes
              + _pixel_cycles(spec, options, rates) * rows * columns * tiles / chip + rates.tile * rounds)
    lesser, greater = sorted((arithmetic, memory))
    beside: float = busy * (1 + rates.ahead * (options.buffers - 1 if rounds > 1 else 0))
    waits = rates.wait * rounds * _turns(spec, options)
    return greater + rates.exposed * lesser / float(beside ** rates.hidden) + waits + rates.start


def _turns(spec: KernelSpec, options: TapsOptions) -> int:
    """Times that a block waits for what its threads have loaded of a tile, where they store it themselves."""
    across, down = copy_turns(spec, options)
    return across * -(-down // batch_of(spec, options))


def _rates(spec: KernelSpec, options: TapsOptions) -> Rates:
    return RATES[cell_of(spec), is_copied(spec, options)]


def _pixel_cycles(spec: KernelSpec, options: TapsOptions, rates: Rates) -> float:
    """Of a pixel that is copied: its bytes, half of 32 more where those of eight channels begin inside of 32; and
    requests, one where its cells lie side by side."""
    pieces = pixel_pieces(spec, options)
    copied = 2 * piece_of(spec, options) * pieces
    if cell_of(spec) == WIDE and copied % SECTOR_BYTES:
        copied += SECTOR_BYTES // 2
    return rates.byte * copied + rates.pixel * (1 if lies_together(spec, options) else pieces)


def _shared_sectors(options: TapsOptions, shape: ConvShape) -> float:
    """Of y's sectors of memory the part that several tiles write, in NCHW."""
    if shape.layout is not Layout.NCHW:
        return 0.0
    of_row = SECTOR_BYTES / (2 * options.tile_q)
    whole = 2 * shape.q % SECTOR_BYTES == 0 or options.tile_q >= shape.q
    return max(0.0, of_row - 1) if whole else of_row


def _tile_cycles(spec: KernelSpec, options: TapsOptions, rates: Rates) -> float:
    """Of a multiprocessor that has other blocks to turn to."""
    rows, columns = halo(spec, options)
    copies = options.warps * math.prod(copy_turns(spec, options))
    channels = spec.channels * options.groups_tile
    lines, width = (channels * rows, columns) if spec.layout is Layout.NCHW else (rows, columns * channels)
    copy = rates.copy if is_copied(spec, options) else rates.channel * cell_of(spec) + rates.put * run_of(spec, options)
    came = (copy * copies + rates.sector * lines * (spec.dtype.itemsize * width / SECTOR_BYTES + 1))
    items = items_of(spec, options)
    return came + -(-items // options.warps) * options.warps * _item_cycles(spec, options, rates)


def _item_cycles(spec: KernelSpec, options: TapsOptions, rates: Rates) -> float:
    """Of a warp's sums: loads from shared memory or products, whichever takes longer; the stores."""
    rows, columns = matrices(spec, options)
    chunks, blocks = chunks_of(spec), blocks_of(options) * options.warp_groups
    pixels = options.warp_groups * (line_loads(spec, options) if cell_of(spec) == WIDE else 2 * chunks * options.strips)
    loads = rates.load * (pixels + (0 if holds_filters(spec, options) else chunks * blocks))
    found = 0.0 if is_unrolled(spec, options) else ROLLED_CYCLES
    return (max(loads, rates.mma * chunks * options.strips * blocks) + chunks * found
            + rates.store * 2 * rows * columns / QUAD * (1 if options.store_vector > 1 else 2))


def instructions(spec: KernelSpec, options: TapsOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    dense = spec.groups == 1 and spec.channels > SLOTS and not lies_together(spec, options)
    start, share = _rates(spec, options).start, DENSE_SHARE if dense else 1.0
    each = start + share * (cycles(spec, options, shape) - start)
    return QUARTERS * spec.hardware.multiprocessors * each
