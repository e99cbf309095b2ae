"""Which tiles a layer gets, and what a plan is estimated to cost.

The constants, here and in parts/mma.py, were fitted to 3,700 plans of 37 layers (ResNet-50's at batch 32 and 1, first
layers, grouped ones, odd channels), then again to the plans next to the choice of 15 layers of five networks at batch
32 and 1, all timed on an H200 on 2026-11-22: of these the plan that is chosen takes 1.01 times as long as the quickest
in the mean, 1.11 at most. How long copies take, planes' rows and partial sums were fitted to 7,437 plans of the 335
layers of eight networks, and others, that this algorithm serves in float16 (an H200, 2026-11-27): chosen takes 1.03
times as long as the quickest in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.hardware import LANES, PORTABLE_SHARED, QUARTERS, SECTOR_BYTES, THREAD_REGISTERS
from warpconv.codegen.parts import nchw_stores, nhwc_pass
from warpconv.codegen.parts.mma import (BLOCK_SLOTS, COPY_SLOTS, MATRIX_COLUMNS, MATRIX_ROWS, MATRIX_SLOTS, STEP_SLOTS,
                                        STORE_SLOTS, block_cycles, cell_of, factor_registers, layer_cycles,
                                        matrix_depth, product_slots)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .numbers import (channel_vector, is_passed, planned_registers, reads_planes, resident_of, resolved,
                      staged_bytes, store_units, stored_channels)
from .options import MmaOptions

# (tile_m, tile_n, warps_m, warps_n)
TILES = ((128, 128, 2, 2), (128, 128, 2, 4), (128, 256, 2, 4), (256, 128, 4, 2), (64, 128, 2, 2), (64, 128, 2, 4),
         (64, 256, 1, 4), (256, 64, 4, 2), (128, 64, 4, 1), (128, 64, 2, 2), (128, 64, 4, 2), (64, 64, 2, 2),
         (64, 64, 1, 2), (256, 32, 8, 1), (128, 32, 4, 1), (64, 32, 4, 1), (64, 32, 2, 2), (128, 16, 4, 1),
         (32, 64, 2, 2), (32, 128, 1, 4), (16, 64, 1, 4), (16, 128, 1, 4), (32, 64, 1, 4), (32, 32, 2, 2),
         (32, 16, 2, 1))
DEPTHS = ((8, 3), (8, 2), (8, 4), (8, 6), (4, 3), (4, 5))      # cells of a tile's rows, stages
PLANE_STAGES = 5            # at most, of planes: six take 1.2 to 1.3 times as long as four (an H200, 2026-11-27)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
GROUPS_TILES = (2, 4, 8, 16)    # groups of a block, where a tile has all filters of one
LEAST_STEPS = 2             # tiles of the reduction that are left to each part of a sum
# Issue slots of a quarter's warp besides those of parts/mma.py
NARROW = {16: 1.0, 8: 2.0, 4: 3.0, 2: 6.0}      # times as many of a copy of fewer bytes
FILTER_SLOTS = 4.1          # of a copy of filters
LEAST_GROUP = 8             # channels of a group that has company in a block: `taps` is measured to be quicker below
FEW_CHANNELS = 4            # which `taps` is there for
GROUP_SLOTS = 100.0         # of a further group of a block besides (assumed)
# Cycles from a copy of planes to the next one, and of a multiprocessor for a row of a tile, by what divides an image's
# pixels: copies of 16 bytes, two of 8, or pixels by way of registers
PLANE_CYCLES = {8: 0.0, 4: 150.0, 1: 400.0}
FEW_FILTERS, FEW_CYCLES = 16, 900.0     # in a tile: pixels by way of registers have no products to hide behind then,
                            # and take so long (25 plans of 3 layers of 1 and 2 filters on 19^2, an H200, 2026-11-30)
ROW_CYCLES = {8: 0.0, 4: 3.5, 1: 2.5}
LAUNCH_CYCLES = 3900.0      # of the second launch of split tiles,
PARTS_SHARE = {Layout.NHWC: 1.4, Layout.NCHW: 2.0}      # and times as long as a copy of their sums that these take
SPLIT_SHARE = 0.8           # of the cycles that 23 layers in tf32x3 took (0.74 to 0.85, an H200, 2026-11-22);
NCHW_SHARE = 0.7            # the same beside what implicit_gemm took of its own, in NCHW,
MANY_SHARE, FEW_PIXELS = 0.9, 32 * 14 * 14     # and of more outputs a filter (20 layers, an H100, 2026-11-26)
LONE_SHARE, LONE_STEPS = 1.2, 2  # times as long blocks of so few steps take which have a multiprocessor to themselves:
                            # with nothing beside their first copies and stores (6 layers, an H200, 2026-11-28)
# Cycles more that 1x1 layers of so few channels took in NHWC of 16 bits on so many pixels, whose blocks are mostly
# first copies and last stores: 900 to 3,000 of 10 plans for 32 images of 14^2. With these the quicker of mma and wgmma
# is chosen for five such layers, of which four took 1.11 to 1.17 times as long (an H200, 2026-11-29)
SHORT_CYCLES, SHORT_CHANNELS, SHORT_PIXELS = 2200.0, range(33, 257), range(32 * 14 * 14, 32 * 20 * 20)
PARTLY_STORED = 2.0         # of y's bytes in tf32 and NHWC besides where pixels of y do not begin at whole sectors (58
                            # and 122 filters, 56^2 and 28^2, an H200, 2026-11-28)
NARROW_SHARE = 8.0          # over the channels, besides: in NHWC of 16 bits windows of 16 bytes of each pixel took
                            # 2.1 times these cycles, of 64 bytes 1.2 times (14 layers, an H200, 2026-11-24);
FEW_SHARE, MANY_CHANNELS, LARGE = 4.0, 32, 32 * 28 * 28     # so much of dense layers of fewer channels than that and of
                            # more pixels: 1.1 to 1.55 times the estimate (6 layers, an H200, 2026-11-30)


def candidates(spec: KernelSpec) -> Iterator[MmaOptions]:
    """Every tile that fits and is not mostly filling, with every split that leaves enough to each part."""
    for tile_m, tile_n, warps_m, warps_n in TILES:
        if tile_n > 16 and tile_n >= 2 * spec.filters:
            continue
        for cells, stages in DEPTHS:
            if reads_planes(spec) and stages > PLANE_STAGES:
                continue
            options = MmaOptions(tile_m=tile_m, tile_n=tile_n, tile_k=cells * cell_of(spec), warps_m=warps_m,
                                 warps_n=warps_n, stages=stages)
            if shared_bytes(spec, options) > PORTABLE_SHARED or not _copies_fit(spec, options):
                continue
            steps = reduction_steps(spec, options)
            yield from (replace(options, groups_tile=n) for n in GROUPS_TILES if spec.layout is Layout.NHWC
                        and spec.dtype.is_half and tile_n >= spec.filters and spec.groups % n == 0
                        and spec.channels >= LEAST_GROUP)
            yield from (replace(options, splits=n) for n in SPLITS
                        if (n > 1 and steps // n >= LEAST_STEPS) or (n == 1 and _stores_fit(spec, options)))


def shared_bytes(spec: KernelSpec, options: MmaOptions) -> int:
    """Of a block: its tiles of pixels and filters, or what its stores put there after them, where that is more."""
    tiles = spec.dtype.itemsize * options.stages * (options.tile_m + options.tile_n) * options.tile_k
    return max(tiles, staged_bytes(spec, options))


def reduction_steps(spec: KernelSpec, options: MmaOptions) -> int:
    """Tiles of the reduction."""
    return -(-stored_channels(spec) * math.prod(spec.taps) // options.tile_k)


def _stores_fit(spec: KernelSpec, options: MmaOptions) -> bool:
    """Whether a warp has four matrices of pixels side by side, which lanes of NCHW exchange in 16 bit."""
    exchanged = spec.layout is Layout.NCHW and spec.dtype is not DType.FLOAT32
    return not exchanged or options.tile_m // options.warps_m % (4 * MATRIX_COLUMNS) == 0


def _copies_fit(spec: KernelSpec, options: MmaOptions) -> bool:
    """Whether threads share out the copies of pixels, and what they hold stays in registers."""
    vector, threads = channel_vector(spec), LANES * options.warps_m * options.warps_n
    columns, rows = options.tile_m // vector, options.tile_k
    if reads_planes(spec) and (threads % columns or rows % (threads // columns)):
        return False
    return (options.tile_m * options.tile_k // vector % threads == 0
            and planned_registers(spec, options, vector) <= THREAD_REGISTERS)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> MmaOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first that filters fill."""
    if shape is None:
        return next(candidates(spec))
    shape = shape.with_batch(assumed_batch(shape))
    return min(candidates(spec), key=lambda options: cycles(spec, resolved(spec, options), shape))


def cycles(spec: KernelSpec, options: MmaOptions, shape: ConvShape) -> float:
    """Cycles of a layer, of resolved plan values: its blocks in rounds of what the chip holds at a time, the bytes of
    its tiles, or those of its arrays, whichever takes longest."""
    warps = options.warps_m * options.warps_n
    pixels = shape.output_pixels
    blocks = -(-pixels // options.tile_m) * -(-spec.filters // options.tile_n) * spec.groups * options.splits
    blocks //= options.groups_tile
    shared = shared_bytes(spec, options) + spec.hardware.shared_reserved
    resident = max(1, min(resident_of(spec, options), spec.hardware.shared_multiprocessor // shared,
                          spec.hardware.resident_blocks))
    steps = options.groups_tile * reduction_steps(spec, options) / options.splits
    arithmetic = block_cycles(spec.hardware, blocks, resident, warps, _warp_slots(spec, options),
                              1 + steps / (options.stages - 1))
    if reads_planes(spec):
        arithmetic += _plane_cycles(spec, options, shape, blocks, resident)
    if options.splits > 1:
        parts = 8 * pixels * spec.k * options.splits
        arithmetic += LAUNCH_CYCLES + PARTS_SHARE[spec.layout] * parts / spec.hardware.copied_bytes
    passing = nhwc_pass.cycles(spec, shape) if is_passed(spec) else 0.0
    copied = spec.dtype.itemsize * blocks * steps * (options.tile_m + options.tile_n) * options.tile_k
    stores = 0.0
    if spec.layout is Layout.NCHW and options.splits == 1:
        stores = nchw_stores.cycles(spec, shape, store_units(options))
    moved: float = shape.bytes_moved
    if (spec.numerics is Numerics.TF32 and spec.layout is Layout.NHWC
            and spec.k * spec.dtype.itemsize % SECTOR_BYTES):
        moved += PARTLY_STORED * spec.dtype.itemsize * pixels * spec.k
    if resident == 1 and steps <= LONE_STEPS:
        arithmetic *= LONE_SHARE
        moved *= LONE_SHARE
    short = SHORT_CYCLES if _is_short(spec) and pixels in SHORT_PIXELS else 0.0
    return layer_cycles(spec.hardware, arithmetic, copied, moved, passing + stores + short)


def _is_short(spec: KernelSpec) -> bool:
    """Whether an output has few products, but more than `taps` is there for."""
    one = max(spec.taps) == 1 and spec.groups == 1
    return one and spec.dtype.is_half and spec.layout is Layout.NHWC and spec.channels in SHORT_CHANNELS


def _warp_slots(spec: KernelSpec, options: MmaOptions) -> float:
    """Issue slots of a warp: its steps, its stores."""
    threads = LANES * options.warps_m * options.warps_n
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    matrices = warp_m // MATRIX_ROWS * (warp_n // MATRIX_COLUMNS)
    loads = warp_m // MATRIX_ROWS + warp_n // (2 * MATRIX_COLUMNS)
    copies = (options.tile_m * options.tile_k / options.vector / threads
              * NARROW[options.vector * spec.dtype.itemsize])
    filters = options.tile_n * options.tile_k / cell_of(spec) / threads
    words = factor_registers(warp_m, warp_n)
    step = (options.tile_k // matrix_depth(spec) * (product_slots(spec, matrices, words) + loads * MATRIX_SLOTS)
            + copies * COPY_SLOTS + filters * FILTER_SLOTS + STEP_SLOTS)
    each = reduction_steps(spec, options) / options.splits * step + matrices * STORE_SLOTS
    return BLOCK_SLOTS + options.groups_tile * each + (options.groups_tile - 1) * GROUP_SLOTS


def _plane_cycles(spec: KernelSpec, options: MmaOptions, shape: ConvShape, blocks: int, resident: int) -> float:
    """Cycles that blocks wait for pieces of planes, half of a step's first copy comes beside the filters; and those of
    their rows."""
    unit = next(unit for unit in PLANE_CYCLES if math.prod(shape.image) % unit == 0
                and (options.vector > 1 or unit == 1))
    threads, chip = LANES * options.warps_m * options.warps_n, spec.hardware.multiprocessors
    steps = reduction_steps(spec, options) / options.splits
    waits = (options.tile_m * options.tile_k / cell_of(spec) / threads - 0.5) * steps
    each = FEW_CYCLES if unit == 1 and options.tile_n <= FEW_FILTERS else PLANE_CYCLES[unit]
    return (each * waits * -(-blocks // (resident * chip))
            + ROW_CYCLES[unit] * options.tile_k * steps * -(-blocks // chip))


def instructions(spec: KernelSpec, options: MmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    share = 1.0
    if spec.numerics is Numerics.TF32X3:
        share = (SPLIT_SHARE if spec.layout is Layout.NHWC else MANY_SHARE if shape.output_pixels > FEW_PIXELS
                 else NCHW_SHARE)
    elif spec.dtype.is_half and (spec.layout is Layout.NHWC or spec.is_volume) and max(spec.taps) > 1:
        narrow = _are_narrow(spec)
        few = FEW_CHANNELS < spec.channels < MANY_CHANNELS and shape.output_pixels > LARGE
        share += (NARROW_SHARE if narrow else FEW_SHARE if few else 0.0) / spec.channels
    return share * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape)


def _are_narrow(spec: KernelSpec) -> bool:
    """Whether windows are short pieces of memory."""
    return spec.groups > 1 or FEW_CHANNELS < spec.channels <= LEAST_GROUP
