"""Which tiles a layer of ``taps`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import QUARTERS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (BLOCK, QUAD, SLOTS, STRIP, blocks_of, chunks_of, fits, halo, matrices, resident, resolved,
                      store_width)
from .options import TapsOptions

# (tile_p, tile_q, strips, warps): the larger ones first
TILES = ((16, 32, 4, 8), (8, 64, 4, 8), (4, 64, 4, 4), (8, 32, 4, 4), (8, 32, 2, 4), (4, 64, 2, 8), (16, 16, 2, 8),
         (8, 32, 2, 8), (4, 64, 2, 4), (4, 32, 2, 4), (8, 16, 2, 4), (4, 32, 2, 2), (4, 16, 2, 2), (2, 16, 2, 1),
         (1, 32, 2, 1))
FILTERS = (64, 48, 96, 32, 24, 16, 8)       # of a tile
GROUPS = (8, 4, 2, 1)                       # of a tile
# Cycles of a multiprocessor, fitted to 117 plans of five layers in both layouts at batch 32 and 1, timed on an H200 on
# 2026-11-22: of these the plan that is chosen takes 1.04 times as long as the quickest in the mean, 1.24 at most
PIXEL_CYCLES = 0.15         # of a pixel's way to shared memory: where it lies, whether in the image,
CHANNEL_CYCLES = 0.19       # and each of its channels, where they are copied one by one
LOAD_CYCLES = 1.86          # of eight bytes for every lane from shared memory
MMA_CYCLES = 0.85           # of m16n8k16
CHUNK_CYCLES = 11.5         # of four taps besides
STORE_CYCLES = 5.4          # of a quad of matrices: the epilogue, the exchange, the stores
FULL_WARPS = 12.8           # of a multiprocessor, below which it waits for them
TILE_CYCLES = 2100.0        # of a tile besides, of which blocks beside each other hide each other's
START_CYCLES = 3900.0       # of a block: its filters, the launch
MEMORY_SHARE = 1.1          # of the bytes, at the speed of a copy


def candidates(spec: KernelSpec) -> Iterator[TapsOptions]:
    """Every tile that fits: groups side by side where a group has few filters, filters in tiles that waste little."""
    widths = [f for f in FILTERS if f < 2 * spec.filters or f == min(FILTERS)]
    least = min(-(-spec.filters // f) * f for f in widths)
    for filters in (f for f in widths if -(-spec.filters // f) * f <= 1.34 * least):
        for groups, warp_groups in _groups(spec, filters):
            for tile_p, tile_q, strips, warps in TILES:
                options = TapsOptions(tile_p=tile_p, tile_q=tile_q, tile_filters=filters, groups_tile=groups,
                                      warp_groups=warp_groups, strips=strips, warps=warps)
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
    found = min(candidates(spec), key=lambda options: cycles(spec, resolved(spec, options, shape), shape))
    return replace(found, store_vector=store_width(spec, shape)) if spec.layout is Layout.NCHW else found


def cycles(spec: KernelSpec, options: TapsOptions, shape: ConvShape) -> float:
    """Cycles of a layer, of resolved plan values: its tiles in rounds of what the chip holds at a time, and its bytes:
    a tile's pixels come before its products."""
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q)
    tiles *= -(-spec.filters // options.tile_filters) * spec.groups // options.groups_tile
    chip = spec.hardware.multiprocessors
    busy = min(resident(spec, options), -(-tiles // chip))
    tile = _tile_cycles(spec, options) * max(1.0, FULL_WARPS / (busy * options.warps))
    work = -(-tiles // (busy * chip)) * max(busy * tile, TILE_CYCLES + tile) + START_CYCLES
    return work + MEMORY_SHARE * shape.bytes_moved / spec.hardware.copied_bytes


def _tile_cycles(spec: KernelSpec, options: TapsOptions) -> float:
    """Of a multiprocessor that has other blocks to turn to."""
    rows, columns = halo(spec, options)
    channel = 0.0 if options.vector == SLOTS else CHANNEL_CYCLES * spec.channels
    pixels = rows * columns * options.groups_tile
    return pixels * (PIXEL_CYCLES + channel) + _items(options) * _item_cycles(spec, options)


def _items(options: TapsOptions) -> int:
    return options.groups_tile // options.warp_groups * options.tile_p * options.tile_q // STRIP // options.strips


def _item_cycles(spec: KernelSpec, options: TapsOptions) -> float:
    """Of a warp's sums: loads from shared memory or products, whichever takes longer; the stores."""
    rows, columns = matrices(spec, options)
    blocks = blocks_of(options) * options.warp_groups
    loads = LOAD_CYCLES * (2 * options.strips * options.warp_groups + blocks)
    products = options.strips * blocks if spec.layout is Layout.NHWC else rows * columns
    return (chunks_of(spec) * (max(loads, MMA_CYCLES * products) + CHUNK_CYCLES)
            + STORE_CYCLES * 2 * rows * -(-columns // QUAD) * (1 if options.store_vector > 1 else 2))


def instructions(spec: KernelSpec, options: TapsOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
