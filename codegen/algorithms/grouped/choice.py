"""Which tiles a layer of ``grouped`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import BANKS, BLOCK_THREADS, GRID_LIMIT, LANES, QUARTERS
from warpconv.codegen.parts.first_layers import beside
from warpconv.codegen.parts.occupancy import most_planned, rounds_of
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (WIDE, channels_of, filter_elements, filter_lanes, group_lanes, halo, load_of, most_blocks,
                      pieces_of, planned_registers, shared_bytes, threads_of, window_pixels)
from .options import GroupedOptions

COLUMNS = (4, 7, 8)
FILTERS = (4, 8)
CHANNELS = (16, 64)             # of a block: 64 to 256 bytes of a pixel side by side, where a number of groups has that
THREADS = (64, 256)             # of a block, where such tiles fit; else any number
RUNS_ACROSS = (1, 2, 4, 8)      # of a tile's row
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
# Slots of a warp and cycles of a multiprocessor, fitted to 900 plans of 25 layers (groups of 4, 8 and 16 channels on
# 112^2 to 7^2, batch 32 and 1), timed on an H200 on 2026-11-28: of these the plan that is chosen takes 1.06 times as
# long as the quickest in the mean, 1.21 at most
LOAD_SLOTS, PASS_SLOTS = 2.4, 2.6   # of a load of factors, and of each further pass over shared memory that it takes,
COPY_SLOTS, TILE_SLOTS = 16.0, 61.0     # of a copy of 16 bytes, and of a tile besides
STORE_SLOTS = 7.6           # of a store of 16 bytes
WARP_PACE, WAIT_WARPS = 1.3, 0.98   # times its slots that a warp takes, and as if so many more were on each quarter
START_CYCLES, FILTER_CYCLES = 5800.0, 82.0      # of a layer, of a thread's copy of a filter's element
MEMORY_SHARE = 0.92         # of the bytes, at the speed of a copy
MEMORY_POWER = 1.7          # how far the longer of memory and arithmetic hides the other


def candidates(spec: KernelSpec) -> Iterator[GroupedOptions]:
    """Tiles that fit: of usual blocks, and where none of these does, of any."""
    usual, divisors = _groups(spec)
    tiles = _tiles(spec, usual, THREADS)
    first = next(tiles, None)
    if first is None:
        yield from _tiles(spec, divisors, (1, BLOCK_THREADS))
    else:
        yield first
        yield from tiles


def _tiles(spec: KernelSpec, groups_tiles: list[int], threads: tuple[int, int]) -> Iterator[GroupedOptions]:
    """Those of so many groups and threads."""
    least, most = threads
    for columns, filters, groups in itertools.product(COLUMNS, FILTERS, groups_tiles):
        if spec.filters % filters:
            continue
        for across, tile_p in itertools.product(RUNS_ACROSS, ROWS):
            made = GroupedOptions(columns=columns, filters=filters, groups_tile=groups, tile_p=tile_p,
                                  tile_q=columns * across)
            if least <= threads_of(spec, made) <= most and fits(spec, made):
                yield replace(made, min_blocks=most_blocks(spec, made))


def _groups(spec: KernelSpec) -> tuple[list[int], list[int]]:
    """Groups of a block, so many that their channels are copied by whole 16 bytes, and blocks side by side no more than
    a grid has: as many as CHANNELS says, or the next that are fewer and more; and all numbers that there are."""
    divisors = [g for g in range(-(-spec.groups // GRID_LIMIT[1]), spec.groups + 1)
                if spec.groups % g == 0 and g * spec.channels % WIDE == 0]
    least, most = CHANNELS
    within = [g for g in divisors if least <= g * spec.channels <= most]
    fewer, more = ([g for g in divisors if found(g * spec.channels)] for found in (least.__gt__, most.__lt__))
    return within or fewer[-1:] + more[:1], divisors


def fits(spec: KernelSpec, options: GroupedOptions) -> bool:
    """Whether registers and shared memory hold it, and a block's threads copy a pixel at once."""
    return (planned_registers(spec, options) <= most_planned(threads_of(spec, options))
            and shared_bytes(spec, options) <= spec.hardware.shared_block
            and pieces_of(spec, options) <= threads_of(spec, options))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> GroupedOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first."""
    if shape is None:
        return next(candidates(spec))
    shape = shape.with_batch(assumed_batch(shape))
    return min(candidates(spec), key=lambda options: cycles(spec, options, shape))


def cycles(spec: KernelSpec, options: GroupedOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in rounds of what the chip holds at a time, beside its bytes."""
    tiles = shape.n * -(-shape.p // options.tile_p) * -(-shape.q // options.tile_q) * spec.groups // options.groups_tile
    warps = -(-threads_of(spec, options) // LANES) / QUARTERS
    held = sum(times * (blocks * warps * WARP_PACE + WAIT_WARPS)
               for times, blocks in rounds_of(spec.hardware, tiles, options.min_blocks))
    arithmetic = held * _tile_slots(spec, options)
    memory = MEMORY_SHARE * shape.bytes_moved / spec.hardware.copied_bytes
    filters = FILTER_CYCLES * filter_elements(spec, options) / threads_of(spec, options)
    return START_CYCLES + filters + beside(arithmetic, memory, MEMORY_POWER)


def _tile_slots(spec: KernelSpec, options: GroupedOptions) -> float:
    """Of a warp for a tile: products, the loads of their factors, stores, and copies of the next tile's pixels."""
    outputs, (rows, columns) = options.columns * options.filters, halo(spec, options)
    multiply = max(1, LANES * QUARTERS // spec.hardware.float_lanes)
    windows = spec.r * window_pixels(spec, options) * spec.channels / load_of(spec)
    loads = LOAD_SLOTS * (spec.reduction * options.filters / WIDE + windows)
    loads += PASS_SLOTS * windows * (window_passes(spec, options) - 1)
    copies = -(-rows * columns // (threads_of(spec, options) // pieces_of(spec, options)))
    return (multiply * spec.reduction * outputs + loads + COPY_SLOTS * copies + STORE_SLOTS * outputs / WIDE
            + TILE_SLOTS)


def window_passes(spec: KernelSpec, options: GroupedOptions) -> int:
    """Passes over shared memory in which lanes that are served at once load the next of their windows: as many as there
    are different places in the same banks."""
    load, lanes = load_of(spec), filter_lanes(spec, options)
    apart = options.columns * spec.stride[1] * channels_of(spec, options)
    at_once = BANKS // load
    places = {(lane % lanes // group_lanes(spec, options) * spec.channels + lane // lanes * apart) // load
              for lane in range(at_once)}
    return max(Counter(place % at_once for place in places).values())


def instructions(spec: KernelSpec, options: GroupedOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)
