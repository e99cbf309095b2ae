"""What a plan of ``wgmma`` is estimated to cost.

The model counts what a block spends on a step: its instructions, the bytes that they read of shared memory, the bytes
that are copied there.

The constants were fitted to 481 plans of ResNet-50's 22 dense layers at batch 32 and 1, timed on an H200 on 2026-11-22:
the plan that is chosen takes 1.02 times as long as the quickest that was timed of its layer in the mean, 1.12 times at
most. Those of float32 are of a sketch of the kernel, brought by SPLIT_STEP to what 20 layers took.
"""

from __future__ import annotations

import math

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import H200_CLOCK, LANES, LINE_BYTES, QUARTERS, SECTOR_BYTES
from warpconv.codegen.parts import nchw_stores, nhwc_pass, window_rows
from warpconv.codegen.parts.wgmma import (CLOCK, COLUMN_CYCLES, COPIED_BYTES, FULL_RATE, LATENCY_CYCLES, MEMORY_SHARE,
                                          OVERLAPPED, ROW_BYTES, ROWS, START_CYCLES, STEP_CYCLES, SUM_CYCLES)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (WgmmaNumbers, group_columns, is_one_tap, is_passed, is_sampled, make_numbers, product_of,
                      slice_of, stage_taps, store_units, stored_channels)
from .options import Form, WgmmaOptions
from .split import SplitNumbers, is_split, make_split_numbers

# Times as long as the rest of the model says: in volumes slices that are half empty (32 channels), walks of windows of
# up to a slice, and of more, boxes of a filter column whose one slice is not full (72 layers in three precisions, 776
# plans, an H200, 2026-11-28)
EMPTY_SLICES, WALKED_THIN, WALKED_DEEP, THIN_COLUMNS = 1.15, 1.3, 1.06, 1.4
# Cycles of a multiprocessor besides those of parts/wgmma.py
SHARED_BYTES = 128.0            # that it reads of shared memory in a cycle
INSTRUCTION_BYTES = 32          # of a row of a factor, an instruction
TILE_CYCLES = 59.0              # of a tile besides: the last step's end, the first sums' way to memory
LAUNCH_CYCLES = 2160.0          # of the second launch of split tiles
# Layers of fewer channels or filters than a slice has channels take 1.05 to 1.9 times what the rest of the model says,
# and 1.9 to 4 times where pixels do not begin at whole sectors of memory, as zeros are copied behind them (100 layers
# of 16 bits, an H200, 2026-11-26). In tf32 what the first fit had stands; in fp16x3 five layers of half a slice
# took 1.3 to 1.8 times as long.
THIN, THIN_ONE_TAP, THIN_PIECES, THIN_FLOATS, THIN_SPLIT = 1.35, 1.75, 2.6, 1.65, 1.3
THIN_SHARED, THIN_SHARED_FLOATS = 1.05, 1.25    # the same where several taps share a stage,
THIN_PIXEL_CYCLES = 7.0         # whose boxes take so long a pixel (34 layers of 16 and 32 channels, images and
                                # volumes, an H200, 2026-11-28)
FEW_UNEVEN = 1.12               # of few filters of one tap, besides, where tiles are few and the last slice is not full
                                # (14 layers of 14^2 and 7^2, an H200, 2026-11-27)
THIN_WINDOWS = 1.62             # of windows of half a slice, which come no sooner than those of whole ones (8 layers of
                                # 32 channels with stride 2, an H200, 2026-11-27)
UNEVEN = 1.75                   # of whole slices of one tap in NHWC whose pixels do not begin at whole sectors, where
                                # outputs are many (16 layers of 104 to 488 channels, 16 bits and tf32, an H200,
                                # 2026-11-28)
UNEVEN_LARGE, LARGE_TILE, LARGE_SLICES = 1.4, 192 * 128, 4    # and tiles of so many outputs and more, of so many slices
                                # and more (23 plans of 488 -> 488 on 14^2: 10.5 us for 13.3; an H200, 2026-12-01)
EMPTY_SHARE = 0.75              # of tiles' filters: where a layer of a slice or more has fewer, walks of windows take
EMPTY_WALK, EMPTY_BOX = 1.25, 1.15      # so long, and beside more than 64 filters boxes of fewer pixels, and planes of
EMPTY_PIXELS = 160              # as many or fewer as walks (K = 80, 44 plans of 5 layers, an H200, 2026-11-30)
UNALIGNED = 1.15                # times as long to copy are windows of pixels longer than a line and no multiple of it
                                # (12 layers, an H200, 2026-11-26),
UNALIGNED_WINDOWS = 1.25        # and whole layers of them beside boxes (9 layers of 80 to 160 channels, H200 and H100,
                                # 2026-11-27)
FEW_OUTPUTS = 64 * 64           # of a multiprocessor, which do not wait for them
LEAST_STEP = 350.0              # of a tap of a box (small tiles of 14 layers, an H200, 2026-11-26)
# Boxes of a filter column, and the walk of windows beside them (63 layers, H100 and H200, 2026-11-28)
COLUMN_SHARE = 1.03             # times as long are steps of such boxes
BOX_LATENCY = 1300.0            # from such a box's copy to its products, besides its bytes
WALKED_FAR = 1.06               # times as long a walk takes where x is more than the second-level cache has,
WALKED_EVEN = 0.96              # and where a pixel's bytes are a power of two,
WALKED_UNEVEN = 1.1             # in TF32 where they are none; and boxes of a filter column whose last slice is not full
PART_COLUMNS = 1.1              # (96 channels on 56^2, an H200, 2026-11-28)
PLACES_CYCLES = 600.0           # of a box's outputs in NCHW besides: where each belongs (25 layers of the same day)
BOX_CYCLES = 32.0               # of a box of planes besides its bytes (assumed)
# Walks of windows beside filters that stay: of each pixel of a step, so much of it where a slice is half full, from a
# stage's copies to its products, and of a step besides (40 plans of 5 layers, an H200, 2026-11-30)
STAYS_PIXEL, STAYS_HALF, STAYS_LATENCY, STAYS_STEP = 4.0, 0.7, 1200.0, 60.0
PLANE_PIXEL = 1.0               # of a tile of planes beside such filters, a pixel (90 plans of 13 layers of 16 to 144
                                # channels, of which the plan that is chosen takes 1.02 times as long as the quickest in
                                # the mean, an H200, 2026-11-30)
STAYS_THIN, STAYS_UNEVEN = 1.2, 1.3     # of one tap, as THIN and UNEVEN (9 layers of more than half a slice)
# float32 in two parts of float16
SPLIT_PRODUCTS = 3              # of four
SPLIT_RATE = 0.74               # of the tensor cores that is reached at best: sums are added to others beside
SPLIT_CYCLES = 800.0            # of a warp for 32 pixels of a box, by its instructions: looked at, scaled, written
# times the rest of a step's model that 20 layers took (1.0 to 1.35, 1.27 to 1.6; an H200, 2026-11-22)
SPLIT_STEP = {Form.HALO: 1.2, Form.IM2COL: 1.4}
FLAT_SHARE = 1.3                # times these cycles 40 layers of 1x1 filters read as NCHW has them took (1.2 to 1.55;
                                # an H200, 2026-11-26)
FILTER_LATENCY = 1150.0         # of a stage of filters alone (14 layers, an H200, 2026-11-27)
SPLIT_PASSES = 4                # over the bytes of a box in shared memory: copied, read twice, written
SPLIT_SUM_CYCLES = 16.0         # of a thread's sum on its way to memory, from registers


def tiles_of(options: WgmmaOptions, numbers: WgmmaNumbers | SplitNumbers, shape: ConvShape) -> int:
    """Tiles of a layer, each part of a split one for itself."""
    return places(options, shape, numbers.flat) * numbers.filter_tiles * options.splits


def places(options: WgmmaOptions, shape: ConvShape, flat: bool = False) -> int:
    """Tiles of a layer's pixels; ``flat``: of images that are taken as one row."""
    if flat:
        return shape.n * -(-math.prod(shape.outputs) // options.columns)
    if options.form is Form.HALO:
        return shape.n * shape.depths[1] * -(-shape.p // options.rows) * -(-shape.q // options.columns)
    if options.form is Form.PLANES:
        return shape.n * -(-shape.p * shape.q // options.pixels)
    return -(-shape.output_pixels // options.pixels)


def cycles(spec: KernelSpec, options: WgmmaOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in waves of the chip's multiprocessors, or its bytes, whichever takes longer."""
    layer, spec = spec, product_of(spec, options)
    split = is_split(spec)
    numbers = make_split_numbers(spec, options) if split else make_numbers(spec, options)
    chip = spec.hardware.multiprocessors
    tiles = tiles_of(options, numbers, shape)
    waves, active = -(-tiles // chip), min(1.0, tiles / chip)
    step = (_split_step(options, numbers, active) if isinstance(numbers, SplitNumbers)
            else _step(spec, options, numbers, active))
    steps = numbers.steps / options.splits
    each = SPLIT_SUM_CYCLES if split else SUM_CYCLES
    tile = math.ceil(steps) * step + TILE_CYCLES + each * numbers.matrices * numbers.shape.sums
    if options.stays and options.form is Form.PLANES:
        tile += PLANE_PIXEL * options.pixels
    if not split and spec.layout is Layout.NCHW and options.form is Form.HALO:
        tile += PLACES_CYCLES
    arithmetic = START_CYCLES + waves * tile
    cycle_bytes = spec.hardware.copied_bytes
    # bytes that all blocks store at the end
    arithmetic += spec.dtype.itemsize * options.filters * options.pixels * min(tiles, chip) / cycle_bytes
    if options.stays:       # all filters, before the first product
        arithmetic += numbers.filter_tiles * numbers.steps * options.filters * ROW_BYTES / COPIED_BYTES
    if options.splits > 1:
        arithmetic += LAUNCH_CYCLES + 8 * shape.output_pixels * spec.k * options.splits / cycle_bytes
    memory = START_CYCLES + MEMORY_SHARE * shape.bytes_moved / cycle_bytes
    beside = _stores(spec, options, shape)
    if options.unfolded:
        beside += window_rows.cycles(layer, shape)
    if is_passed(spec, options):
        beside += nhwc_pass.cycles(spec, shape, is_sampled(spec, options))
    longer, lesser = max(arithmetic, memory), min(arithmetic, memory)
    product = longer + (1 - OVERLAPPED) * lesser
    product *= FLAT_SHARE if numbers.flat else _walked(spec, options, shape)
    product *= _empty(spec, options, numbers.filter_tiles)
    return beside + START_CYCLES + _thin(spec, options, tiles) * (product - START_CYCLES)


def _walked(spec: KernelSpec, options: WgmmaOptions, shape: ConvShape) -> float:
    """How many times as long a walk of windows takes."""
    walks = options.form is Form.IM2COL and not is_one_tap(spec)
    if spec.is_volume:
        if options.by_columns:
            return THIN_COLUMNS if spec.dtype.is_half and stored_channels(spec) < slice_of(spec) else 1.0
        thin, empty = (times * stored_channels(spec) <= slice_of(spec) for times in (1, 2))
        return 1.0 if not walks or is_split(spec) or empty else WALKED_THIN if thin else WALKED_DEEP
    if options.by_columns and spec.dtype.is_half and stored_channels(spec) % slice_of(spec):
        return PART_COLUMNS
    if not walks or is_split(spec) or spec.stride != (1, 1):
        return 1.0
    pixel = stored_channels(spec) * spec.dtype.itemsize
    if not spec.dtype.is_half:
        return WALKED_UNEVEN if pixel & pixel - 1 else 1.0
    if shape.n * shape.h * shape.w * pixel > spec.hardware.l2_bytes:
        return WALKED_FAR
    return 1.0 if pixel & pixel - 1 or spec.k <= slice_of(spec) else WALKED_EVEN


def _empty(spec: KernelSpec, options: WgmmaOptions, filter_tiles: int) -> float:
    """How many times as long tiles of filters that are partly empty take."""
    full = spec.k >= EMPTY_SHARE * filter_tiles * options.filters
    if full or options.stays or spec.k < slice_of(spec) or not spec.dtype.is_half:
        return 1.0
    if options.form is Form.PLANES:
        return EMPTY_WALK if options.filters > ROWS and options.pixels <= EMPTY_PIXELS else 1.0
    if is_one_tap(spec):
        return 1.0
    if options.form is Form.IM2COL:
        return EMPTY_WALK
    return EMPTY_BOX if options.filters > ROWS and options.pixels < EMPTY_PIXELS else 1.0


def _thin(spec: KernelSpec, options: WgmmaOptions, tiles: int) -> float:
    """How many times as long few channels or filters take; mostly only where tiles are many."""
    channels, many = stored_channels(spec), tiles > spec.hardware.multiprocessors
    walks = options.form is Form.IM2COL and not is_one_tap(spec)
    if options.stays and (walks or options.form is Form.PLANES):
        return 1.0
    if options.stays and 2 * channels > slice_of(spec) and (spec.dtype.is_half or spec.k >= slice_of(spec)):
        if channels * spec.dtype.itemsize % SECTOR_BYTES:
            return STAYS_UNEVEN
        return STAYS_THIN if min(channels, spec.k) < slice_of(spec) else 1.0
    if is_split(spec):
        return THIN_SPLIT if 2 * spec.c <= slice_of(spec) else 1.0
    if many and stage_taps(spec, options) > 1:
        return THIN_SHARED if spec.dtype.is_half else THIN_SHARED_FLOATS
    sectors = channels * spec.dtype.itemsize % SECTOR_BYTES == 0 or options.form is Form.PLANES
    outputs = tiles // options.splits * options.filters * options.pixels
    each = outputs / (spec.hardware.multiprocessors * FEW_OUTPUTS)
    large = options.filters * options.pixels >= LARGE_TILE and channels >= LARGE_SLICES * slice_of(spec)
    uneven = 1.0
    if each > 2 and is_one_tap(spec) and spec.layout is Layout.NHWC and not sectors:
        uneven = UNEVEN_LARGE if large else UNEVEN
    if not spec.dtype.is_half:
        return max(uneven, THIN_FLOATS if min(spec.c, spec.k) < slice_of(spec) and many else 1.0)
    if channels >= slice_of(spec):
        found = THIN if spec.k < slice_of(spec) else 1.0
        if found > 1.0 and not many and is_one_tap(spec) and channels % slice_of(spec):
            found *= FEW_UNEVEN
        return max(uneven, UNALIGNED_WINDOWS * found if walks and each > 1 and _has_unaligned_windows(spec) else found)
    if not sectors:
        return THIN_PIECES
    if walks and 2 * channels <= slice_of(spec):
        return THIN_WINDOWS
    if not many:
        return 1.0
    return THIN_ONE_TAP if is_one_tap(spec) else THIN


def _has_unaligned_windows(spec: KernelSpec) -> bool:
    """Whether pixels are longer than a line of memory and no multiple of it."""
    whole = stored_channels(spec) * spec.dtype.itemsize
    return spec.dtype.is_half and whole > LINE_BYTES and whole % LINE_BYTES != 0


def _stores(spec: KernelSpec, options: WgmmaOptions, shape: ConvShape) -> float:
    """Cycles of stores in NCHW beyond those of NHWC."""
    if spec.layout is not Layout.NCHW or options.splits > 1:
        return 0.0
    along = shape.q if options.form is Form.HALO else None
    return nchw_stores.cycles(spec, shape, store_units(spec, options), along)


def _step(spec: KernelSpec, options: WgmmaOptions, numbers: WgmmaNumbers, active: float) -> float:
    """Cycles of a step, while so much of the chip is at work."""
    columns = group_columns(options)
    depths = numbers.depths - (numbers.depths - numbers.last_depths) / numbers.slices
    instructions = depths * options.filters * options.pixels / (ROWS * columns)
    each = max(columns * COLUMN_CYCLES / FULL_RATE, (ROWS + columns) * INSTRUCTION_BYTES / SHARED_BYTES)
    if options.stays and not is_one_tap(spec):
        pixel = STAYS_PIXEL * (STAYS_HALF if 2 * stored_channels(spec) <= slice_of(spec) else 1.0)
        copying = pixel * options.pixels
        return STAYS_STEP + max(instructions * each, copying, (STAYS_LATENCY + copying) / (options.stages - 1))
    taps = numbers.stage_taps       # whose stages come, and are waited for, together
    copied = numbers.pixel_bytes / numbers.box_taps if options.form is Form.HALO else numbers.pixel_bytes
    if not options.stays:
        copied += options.filters * ROW_BYTES / taps
    if _has_unaligned_windows(spec) and not numbers.all_tiled:
        copied += (UNALIGNED - 1) * numbers.pixel_bytes
    copying = max(copied / COPIED_BYTES * max(0.4, active), numbers.planes * BOX_CYCLES)
    if taps > 1:        # pixels of a part of a row
        copying = max(copying, THIN_PIXEL_CYCLES * numbers.box_bytes / ROW_BYTES / numbers.box_taps)
    found = max(instructions * each, copying, LATENCY_CYCLES / (options.stages - 1) / taps) + STEP_CYCLES / taps
    if options.by_columns:      # the next box comes while this one's few taps are multiplied
        coming = BOX_LATENCY + numbers.box_bytes / COPIED_BYTES
        found = COLUMN_SHARE * max(found, coming / ((options.boxes - 1) * numbers.box_taps))
    return max(found, LEAST_STEP / taps) if options.form is Form.HALO else found


def _split_step(options: WgmmaOptions, numbers: SplitNumbers, active: float) -> float:
    """The same of split factors, where warps split boxes beside the products."""
    columns = group_columns(options)
    instructions = SPLIT_PRODUCTS * numbers.depths * options.filters * options.pixels // (ROWS * columns)
    taps = numbers.box_taps if options.form is Form.HALO else 1
    copied, box = options.filters * ROW_BYTES, numbers.copied_bytes / taps
    copying = (copied + box) / COPIED_BYTES * max(0.4, active)
    if options.form is Form.HALO:
        splitting = -(-numbers.box_pixels // (LANES * numbers.splitters)) * SPLIT_CYCLES / taps
    else:
        splitting = -(-numbers.box_pixels // LANES) * SPLIT_CYCLES / numbers.splitters
    if options.turned:
        splitting = max(splitting, LATENCY_CYCLES / max(1, options.turned - 1) / taps)
    shared = instructions * (ROWS + columns) * INSTRUCTION_BYTES + copied + SPLIT_PASSES * box
    latency = FILTER_LATENCY if options.form is Form.HALO else LATENCY_CYCLES
    longest = max(instructions * columns * COLUMN_CYCLES / SPLIT_RATE, shared / SHARED_BYTES, copying, splitting,
                  latency / (options.stages - 1))
    return SPLIT_STEP[options.form] * longest + STEP_CYCLES


def instructions(spec: KernelSpec, options: WgmmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs."""
    product = product_of(spec, options)
    empty = spec.is_volume and 2 * product.c <= slice_of(spec) and stage_taps(spec, options) == 1
    share = EMPTY_SLICES if empty else 1.0
    return share * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape) * H200_CLOCK / CLOCK
