"""Which tiles a layer gets, and what a layer is modelled to cost with them.

The rules are of sweeps over the twelve layers of the documents' comparison and three of fewer filters (H200, batch 128,
float32). Tiles of 64 pixels were the quickest where there are 96 filters and more: blocks of 128 threads leave the last
round of the GPU fuller than those of 256. 16 products a tile were quicker than 8 by 2 to 5 %, and a third stage was
worth something only where there are few tiles. Splits of the sums lost on all of them: they are for layers of few
pixels, and a default where the batch is known (codegen/batch.py: in NHWC, and small images in NCHW).

There other kernels' estimates are of measured times: cycles() has its constants of the times of 28 layers in NCHW
(bench.dense, batch 32, H200, 2026-11-22; it is 1.09 times off in the mean), whose loops have as many instructions to
one in a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.batch import batch_matters
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, QUARTERS, SECTOR_BYTES
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from ..occupancy import rounds_of
from . import tiles as gemm_tiles
from .tiles import TABLE_LIMIT, GemmNumbers, Order, Tile

# tile -> what an output costs in it, against the quickest (filters are filled up to whole tiles: fewer may be better)
TILES = {Tile(128, 64, 8, 8): 1.0, Tile(96, 64, 12, 8): 1.0, Tile(64, 64, 8, 8): 1.03, Tile(32, 128, 4, 8): 1.25,
         Tile(16, 128, 4, 4): 1.75}
# filters that fill no tile of 64: 288 -> 48, 1x1 on 35^2, batch 32, take 38.4 us for 43.8 (an H200, 2026-12-01)
FEW_FILTERS = Tile(48, 64, 12, 4)
# of 1x1 sums up to so long where a multiprocessor had no more than two blocks: in NCHW 128 -> 32, 1x1 on 27^2, batch
# 32, take 9.4 us for 16.6, 20 -> 480 on single pixels 2.5 for 3.9 (the same); single pixels are NHWC's, too
SHORT_SUM, SHORT_TILE, FEW_BLOCKS = 128, Tile(32, 32, 4, 4), 2
LONG_SUM, LONG_TILE = 1024, Tile(64, 128, 8, 8)     # products from which on 64 filters are better off with 128 pixels
FURTHER_TILES = (LONG_TILE, Tile(128, 128, 8, 8), Tile(64, 256, 8, 8), Tile(96, 128, 12, 8), Tile(128, 256, 8, 16),
                 FEW_FILTERS, SHORT_TILE)
DEPTHS = (16, 8)
DEEP_GAIN = 0.97            # what a product costs 16 a tile, against 8
SPLITS = (1, 2, 4)
SECTOR = SECTOR_BYTES // 4  # floats that are read from memory together
ASSUMED_BATCH = 64          # so that the batch never changes the choice
MOST_IDLE = 4.0             # a layer that leaves more of the GPU idle waits for other things
# where the batch is known
MORE_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
LEAST_TILES = 4             # of products that are left to each part of a sum
WARP_PACE, LONE_WARP = 1.2, 1.6     # times its slots that a warp takes: among others, and with a quarter to itself
BLOCK_SLOTS, TILE_SLOTS, COPY_SLOTS = 200, 80, 3    # of a warp besides products: in all, for a tile, for a copy
LIST_SLOTS = 4              # and of a copy whose places are listed;
LISTS_NHWC = 500            # of a block's lists in NHWC (18 first layers, an H200, 2026-11-28)
MEMORY_SHARE = 1.3          # of the bytes, at the speed of a copy,
PARTLY_STORED = 2.0         # and of y's besides where its pixels do not begin at whole sectors in NHWC (58 and 122
                            # filters on 56^2 and 28^2, an H200, 2026-11-28)
EXPOSED = 0.3               # of the shorter of memory and arithmetic, beside the longer
LAUNCH_CYCLES = 3900.0      # of a second launch: as mma's
# cycles of a tile whose copies are waited for, where there are few warps: 50 layers of 1x1 to 28x28 at one image (H200,
# 2026-11-23); with it they took 0.8 of the estimate in NCHW, 1.5 times it where sums are split
TILE_WAITS = {Layout.NCHW: 2400, Layout.NHWC: 1500}


def choice(spec: KernelSpec, *, by_columns: bool) -> dict[str, Any]:
    """Plan values for a layer of any size: the tile that wastes least, products a tile, their order."""
    tile = min(TILES, key=lambda t: -(-spec.filters // t.block_m) * t.block_m * TILES[t])
    products = spec.channels * spec.r * spec.s
    if tile.block_m > FEW_FILTERS.block_m >= spec.filters and products < LONG_SUM:
        tile = FEW_FILTERS
    if tile.block_m == LONG_TILE.block_m and products >= LONG_SUM:
        tile = LONG_TILE
    order = _order(spec, products) if by_columns else None
    depth = DEPTHS[0] if order is Order.WINDOW else _depth(products)
    return dict(block_m=tile.block_m, block_n=tile.block_n, block_k=depth, thread_m=tile.thread_m,
                thread_n=tile.thread_n, order=order or gemm_tiles.k_order(spec, depth))


def of_sizes(spec: KernelSpec, options: Any, shape: ConvShape) -> Any:
    """``options`` for a layer of these sizes: where its batch is known small tiles of 1x1 filters if blocks are few and
    sums short, else as many parts of a sum as take the fewest cycles."""
    found = replace(options, splits=splits(spec, options, shape))
    served = spec.layout is Layout.NCHW or shape.p == shape.q == 1
    if not (served and batch_matters(shape)) or spec.r * spec.s > 1 or spec.channels > SHORT_SUM:
        return found
    blocks = -(-shape.n * shape.p * shape.q // options.block_n) * -(-spec.filters // options.block_m) * spec.groups
    tile, whole = SHORT_TILE, gemm_tiles.of_layer(spec, found)
    small = replace(options, block_m=tile.block_m, block_n=tile.block_n, thread_m=tile.thread_m, thread_n=tile.thread_n)
    least = cycles(spec, small, gemm_tiles.of_layer(spec, small), shape, 1)
    few = blocks <= FEW_BLOCKS * spec.hardware.multiprocessors
    return small if few and least <= cycles(spec, found, whole, shape, found.splits) else found


def _depth(products: int) -> int:
    """16 products a tile, but where they fill many more of the last one, or all are few."""
    deep, flat = (-(-products // depth) * depth for depth in DEPTHS)
    return DEPTHS[1] if products < gemm_tiles.FEW_TILES * DEPTHS[1] or deep * DEEP_GAIN > flat else DEPTHS[0]


def _order(spec: KernelSpec, products: int) -> Order | None:
    """im2win's: neighbouring threads along a window where neighbouring windows begin in different sectors of memory,
    else along pixels, whose accesses then share theirs; None where the list of places would be too long."""
    if products > TABLE_LIMIT or gemm_tiles.far_taps(spec):
        return None
    return Order.WINDOW if spec.stride[1] * spec.r >= SECTOR else Order.TABLE


def space(spec: KernelSpec, *, by_columns: bool) -> Iterable[dict[str, Any]]:
    """Tiles that hold no more than twice the filters, depths, orders and splits worth trying."""
    orders = (Order.WINDOW, Order.TABLE) if by_columns else (None,)
    for tile in (*TILES, *FURTHER_TILES):
        for depth in DEPTHS if tile.block_m < 2 * spec.filters + 16 else ():
            for order in orders:
                for splits in SPLITS:
                    yield dict(block_m=tile.block_m, block_n=tile.block_n, block_k=depth, thread_m=tile.thread_m,
                               thread_n=tile.thread_n, order=order or gemm_tiles.k_order(spec, depth), splits=splits)


def splits(spec: KernelSpec, options: Any, shape: ConvShape) -> int:
    """Blocks that share a sum, where the batch is known: the fewest cycles for the layer's sizes."""
    if not batch_matters(shape):
        return 1
    whole = gemm_tiles.of_layer(spec, options)
    return min((n for n in MORE_SPLITS if n == 1 or n * LEAST_TILES <= whole.k_tiles),
               key=lambda n: cycles(spec, options, whole, shape, n))


def cycles(spec: KernelSpec, options: Any, gemm: GemmNumbers, shape: ConvShape, splits: int) -> float:
    """Cycles of a layer whose batch is known: its blocks in rounds of what the chip holds at a time, or the bytes of
    its arrays, whichever takes longer, and a part of the other."""
    pixels, chip = shape.n * shape.p * shape.q, spec.hardware.multiprocessors
    blocks = -(-pixels // options.block_n) * gemm.m_tiles * spec.groups * splits
    shared = gemm.shared_bytes + spec.hardware.shared_reserved
    resident = max(1, min(gemm_tiles.resident(spec, options), spec.hardware.shared_multiprocessor // shared))
    outputs, warps = options.thread_m * options.thread_n, gemm.threads / LANES / QUARTERS
    multiply = max(1, LANES * QUARTERS // spec.hardware.float_lanes) * outputs
    tile = options.block_k * (multiply + gemm.fragments) + 2 * gemm.a_rounds + TILE_SLOTS
    tile += gemm.rows * (COPY_SLOTS + (LIST_SLOTS if gemm.table else 0)) + 2 * gemm.pixels
    warp = gemm.k_tiles / splits * tile + BLOCK_SLOTS + 3 * outputs / gemm.store_vector
    if gemm.table and spec.layout is Layout.NHWC:
        warp += LISTS_NHWC
    arithmetic: float = sum(times * max(held * warps * WARP_PACE, LONE_WARP) * warp
                            for times, held in rounds_of(spec.hardware, blocks, resident))
    waits = TILE_WAITS[spec.layout] * math.ceil(gemm.k_tiles / splits)
    arithmetic = max(arithmetic, waits * math.ceil(blocks / (resident * chip)))
    cycle_bytes = spec.hardware.copied_bytes
    adding = LAUNCH_CYCLES + 8 * pixels * spec.k * splits / cycle_bytes if splits > 1 else 0.0
    moved: float = shape.bytes_moved
    if spec.layout is Layout.NHWC and spec.k * spec.y_dtype.itemsize % SECTOR_BYTES:
        moved += PARTLY_STORED * spec.y_dtype.itemsize * pixels * spec.k
    memory = MEMORY_SHARE * moved / cycle_bytes
    return adding + max(arithmetic, memory) + EXPOSED * min(arithmetic, memory)


def instructions(spec: KernelSpec, options: Any, gemm: GemmNumbers, shape: ConvShape) -> float:
    """Warp instructions of the product for a layer: per tile of products the FMAs, the loads of their factors, the
    copies and some twenty more; per output its store. More where the last blocks of a batch leave the GPU idle. Where
    the batch is known, the issue slots of the whole chip while it runs."""
    if batch_matters(shape):
        slots: float = QUARTERS * spec.hardware.multiprocessors
        return slots * cycles(spec, options, gemm, shape, options.splits)
    blocks: int = -(-shape.n * shape.p * shape.q // options.block_n) * gemm.m_tiles * spec.groups * options.splits
    outputs = options.thread_m * options.thread_n
    copy = (8 if gemm.find_taps else 6) if gemm.asks_taps and gemm.table else 3
    tile = options.block_k * (outputs + gemm.fragments) + copy * gemm.rows + 2 * gemm.a_rounds + 20
    block: float = gemm.threads // 32 * (gemm.k_tiles / options.splits * tile + 150 + 3 * outputs)
    each: float = blocks / shape.n * ASSUMED_BATCH / spec.hardware.multiprocessors
    idle = min(MOST_IDLE, math.ceil(each) / each)
    added: float = shape.n * shape.k * shape.p * shape.q / 32 * (3 + 2 * options.splits) if options.splits > 1 else 0.0
    return blocks * block * idle + added
