"""Which tiles a layer gets, and what a plan is estimated to cost.

Filters stand along the instruction's rows and pixels along its columns, of which there may be any multiple of 8: so a
tile can be found whose number fills the chip's multiprocessors in whole waves. The model counts what a block spends on
a step: its instructions, the bytes that they read of shared memory, the bytes that are copied there.

The constants were fitted to 481 plans of ResNet-50's 22 dense layers at batch 32 and 1, timed on an H200 on 2026-11-22:
the plan that is chosen takes 1.02 times as long as the quickest that was timed of its layer in the mean, 1.12 times at
most. Those of float32 are of a sketch of the kernel, brought by SPLIT_STEP to what 20 layers took.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import MOST_BOX
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import H200_CLOCK, LANES, QUARTERS
from warpconv.codegen.parts import nchw_stores, nhwc_pass
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CLOCK, COLUMN_CYCLES, COPIED_BYTES, FULL_RATE, GROUPS,
                                          LATENCY_CYCLES, LEAST_STAGES, MEMORY_SHARE, MOST_COLUMNS, MOST_STAGES,
                                          MOST_SUMS, OVERLAPPED, ROW_BYTES, ROWS, START_CYCLES, STEP_CYCLES, SUM_CYCLES)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (ROW_UNIT, WgmmaNumbers, aligned, box_of, column_unit, group_columns, is_flat, is_one_tap,
                      is_passed, is_sampled, is_staged, make_numbers, phases_of, plane_columns, reach_of, slice_of,
                      store_units, stored_channels)
from .options import Box, Form, Order, WgmmaOptions
from .split import MOST_SPLIT_SUMS, SPLITTERS, SplitNumbers, is_split, make_split_numbers

EMPTY_SLICES = 1.15         # times as long with volumes' slices that are half empty (32 channels, an H100, 2026-11-26)
FILTERS = (64, 128, 256)
LEAST_COLUMNS = 16              # of an instruction that is tried, and from one to the next
BARRIERS_BYTES = 2 * BARRIER_BYTES      # of a stage
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LEAST_STEPS = 4                 # of the reduction that are left to each part of a sum
PLANE_UNIT = 8                  # pixels of 16 bits in 16 bytes: what images in NCHW are a multiple of to be read there
LEAST_HALO_WIDTH = 14           # of the outputs, from which on a box for all taps is tried
MOST_PHASES = 4                 # of a box, each a copy
MOST_ACROSS = 4                 # boxes across an image
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
FEW_UNEVEN = 1.12               # of few filters of one tap, besides, where tiles are few and the last slice is not full
                                # (14 layers of 14^2 and 7^2, an H200, 2026-11-27)
THIN_WINDOWS = 1.62             # of windows of half a slice, which come no sooner than those of whole ones (8 layers of
                                # 32 channels with stride 2, an H200, 2026-11-27)
LINE_BYTES = 128                # of memory, in one piece
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
WALKED_EVEN = 0.96              # and where a pixel's bytes are a power of two
PLACES_CYCLES = 600.0           # of a box's outputs in NCHW besides: where each belongs (25 layers of the same day)
BOX_CYCLES = 32.0               # of a box of planes besides its bytes (assumed)
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
LEAST_SPLIT_WIDTH = 7           # of the outputs: a box for all taps is split once
FEW_TAPS = 3                    # of a box, whose next comes late
MORE_BOXES = (2, 3)             # of the ring, where a box takes long or serves few taps
RINGS = (2, 4)                 # of the ring of boxes as NCHW has them
MOST_RING = 8


def candidates(spec: KernelSpec, shape: ConvShape | None = None) -> Iterator[WgmmaOptions]:
    """Every tile that fits, with as many stages as fit; with sizes also boxes, and split sums."""
    yield from _tiles(spec, shape, WgmmaOptions())
    if planes_refusal(spec) is None and (shape is None or shape.h * shape.w % PLANE_UNIT == 0):
        yield from _tiles(spec, shape, WgmmaOptions(form=Form.PLANES))
    if shape is not None:
        yield from _boxes(spec, shape)
        yield from _turned_boxes(spec, shape)


def _tiles(spec: KernelSpec, shape: ConvShape | None, form: WgmmaOptions) -> Iterator[WgmmaOptions]:
    for filters in FILTERS:
        if filters > 64 and filters >= 2 * spec.k:
            continue
        unit = max(LEAST_COLUMNS, column_unit(spec, WgmmaOptions()))
        for columns in range(unit, most_columns(spec, filters) + 1, unit):
            tile = replace(form, filters=filters, pixels=columns * (GROUPS if filters < GROUPS * ROWS else 1))
            found = with_stages(spec, tile)
            if found is not None:
                yield found
            split = with_stages(spec, replace(tile, splits=2))
            if split is not None and (shape is None or _few_tiles(spec, tile, shape)):
                steps = -(-stored_channels(spec) // slice_of(spec)) * math.prod(spec.taps)
                yield from (replace(split, splits=n) for n in SPLITS if n > 1 and steps // n >= LEAST_STEPS)


def planes_refusal(spec: KernelSpec) -> str | None:
    """Why the pixels of a channel cannot be a product's columns where they lie, in words, or None."""
    if spec.is_volume:
        return "planes are for images"
    if spec.layout is not Layout.NCHW or not spec.dtype.is_half or not is_one_tap(spec) or spec.stride != (1, 1):
        return "planes are for 1x1 layers of 16 bits in NCHW, of stride 1 and without padding"
    return None


def most_columns(spec: KernelSpec, filters: int) -> int:
    """Columns of an instruction at most, beside so many filters of a tile: a thread's sums stay in registers."""
    if is_split(spec):
        return min(MOST_COLUMNS, MOST_SPLIT_SUMS // max(1, filters // (ROWS * GROUPS)))
    return min(MOST_COLUMNS, 2 * MOST_SUMS // max(1, filters // (ROWS * GROUPS)))


def _few_tiles(spec: KernelSpec, tile: WgmmaOptions, shape: ConvShape) -> bool:
    """Whether whole sums would leave most of the chip idle in some wave."""
    tiles = _places(tile, shape) * -(-spec.k // tile.filters)
    return tiles < spec.hardware.multiprocessors


def _turned_boxes(spec: KernelSpec, shape: ConvShape) -> Iterator[WgmmaOptions]:
    """Tiles of boxes that are read as NCHW has them, where rows of x (of 1x1 filters images) are whole 16 bytes."""
    made = WgmmaOptions(form=Form.HALO, order=Order.PLANES)
    flat = is_flat(spec, made)
    if halo_refusal(spec, made) is not None or (shape.h * shape.w if flat else shape.w) % ROW_UNIT:
        return
    for filters in FILTERS:
        parts = GROUPS if filters < GROUPS * ROWS else 1
        unit, most = 8 * parts, min(MOST_BOX, most_columns(spec, filters) * parts)
        if filters > 64 and filters >= 2 * spec.k:
            continue
        if flat:
            tiles = [replace(made, filters=filters, pixels=pixels, columns=pixels)
                     for pixels in range(LEAST_COLUMNS * parts, most + 1, unit)]
        else:
            across = sorted({aligned(columns, ROW_UNIT) for columns in _box_outputs(spec, shape, made)})
            tiles = [replace(made, filters=filters, rows=rows, columns=columns)
                     for columns in across for rows in range(1, min(shape.p, 16) + 1)]
        for tile in tiles:
            rows, columns = box_of(spec, tile)
            pixels = aligned((tile.rows - 1) * columns + tile.columns, unit)
            if max(rows, plane_columns(spec, tile)) > MOST_BOX or not 64 <= pixels <= most:
                continue
            for ring in RINGS:
                found = with_stages(spec, replace(tile, pixels=pixels, ring=ring))
                if found is not None:
                    yield found


def _box_outputs(spec: KernelSpec, shape: ConvShape, options: WgmmaOptions) -> list[int]:
    """Output columns of a box: equal shares of a row, as few as a box is wide enough for, or some more."""
    widest = MOST_BOX // spec.stride[1] - reach_of(spec, options)[1]
    if widest < 1:
        return []
    fewest = -(-shape.q // widest)
    return [-(-shape.q // across) for across in range(fewest, fewest + MOST_ACROSS)]


def _boxes(spec: KernelSpec, shape: ConvShape) -> Iterator[WgmmaOptions]:
    """Tiles of whole boxes, for layers whose taps lie side by side."""
    yield from _boxes_of(spec, shape, WgmmaOptions(form=Form.HALO))
    if 2 * stored_channels(spec) > slice_of(spec):
        yield from _boxes_of(spec, shape, WgmmaOptions(form=Form.HALO, box=Box.COLUMN))


def _boxes_of(spec: KernelSpec, shape: ConvShape, made: WgmmaOptions) -> Iterator[WgmmaOptions]:
    """Those whose boxes are for the same taps as that of ``made``."""
    if halo_refusal(spec, made) is not None or shape.q < (LEAST_SPLIT_WIDTH if is_split(spec) else LEAST_HALO_WIDTH):
        return
    if spec.stride != (1, 1) and not (is_split(spec) and any(map(operator.gt, spec.taps, spec.stride))):
        # boxes of phases pay where a pixel is split for all its windows; copies alone take 1.05 to 1.5 times as long as
        # the walk's (14 layers of stride 2 in float16 and tf32, an H200, 2026-11-27)
        return
    down, across = reach_of(spec, made)
    ring = MORE_BOXES if is_split(spec) or made.by_columns else MORE_BOXES[:1]
    ring = ring[::-1] if made.by_columns and spec.r <= FEW_TAPS else ring     # of what is estimated alike the first
    for columns in _box_outputs(spec, shape, made):
        for rows in range(1, min(shape.p, 16, MOST_BOX // spec.stride[0] - down) + 1):
            needed = rows * (columns + across) - across
            for filters in FILTERS:
                parts = GROUPS if filters < GROUPS * ROWS else 1
                pixels = -(-needed // (8 * parts)) * 8 * parts
                if pixels // parts > most_columns(spec, filters) or filters > 64 and filters >= 2 * spec.k:
                    continue
                if pixels < 64:
                    continue
                for boxes in ring:
                    found = with_stages(spec, replace(made, filters=filters, pixels=pixels, rows=rows, columns=columns,
                                                      boxes=boxes))
                    if found is not None:
                        yield found


def halo_refusal(spec: KernelSpec, options: WgmmaOptions) -> str | None:
    """Why one box cannot serve all taps, or those of a filter column, in words, or None."""
    turned = options.turned > 0
    if spec.is_volume:
        return "one box for all taps is for images"
    if options.by_columns and (is_split(spec) or spec.s == 1):
        return "boxes of a filter column are for several columns, in 16 bits and tf32"
    if turned and not (is_split(spec) and spec.layout is Layout.NCHW):
        return "boxes of planes are for NCHW in fp16x3"
    if spec.dilation != (1, 1):
        return "one box for all taps is for dilation 1"
    if any(stride > 1 == taps for stride, taps in zip(spec.stride, spec.taps)):
        return "one box for all taps is for stride 1 along axes of one tap"
    if turned and spec.stride != (1, 1):
        return "boxes of planes are for stride 1"
    if math.prod(phases_of(spec, options)) > MOST_PHASES:
        return (f"one box for all taps would be one of {math.prod(phases_of(spec, options))} phases, as the stride is "
                f"{spec.stride[0]} x {spec.stride[1]} (at most {MOST_PHASES})")
    if spec.r * spec.s == 1 and turned:
        return "boxes of planes are for 1x1 filters without padding" if any(map(any, spec.padding)) else None
    if spec.r * spec.s == 1:
        return "one box for all taps is for more than one tap"
    if spec.layout is Layout.NHWC and spec.dtype.is_half and not is_staged(spec, WgmmaOptions()):
        return "one box for all taps is for a multiple of 8 filters in NHWC"
    return None


def with_stages(spec: KernelSpec, options: WgmmaOptions) -> WgmmaOptions | None:
    """The same with as many stages as shared memory holds; None where it does not hold enough."""
    if is_split(spec):
        # by im2col a warp splits the boxes of its place in the ring: more places than warps are shared unevenly
        most = MOST_STAGES if options.form is Form.HALO else SPLITTERS
        return next((made for stages in range(most, LEAST_STAGES - 1, -1)
                     if make_split_numbers(spec, made := replace(options, stages=stages)).shared_bytes
                     <= spec.hardware.shared_block), None)
    least = make_numbers(spec, replace(options, stages=LEAST_STAGES))
    each = least.filter_bytes if options.form is Form.HALO else least.stage_bytes
    more = (spec.hardware.shared_block - least.shared_bytes) // (each + BARRIERS_BYTES)
    return replace(options, stages=min(MOST_STAGES, LEAST_STAGES + more)) if more >= 0 else None


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> WgmmaOptions:
    """The candidate of the least estimate for the layer's sizes, for a batch that is assumed; without sizes a tile
    that filters fill."""
    if shape is None:
        filters = 64 if spec.k <= 64 else 128
        return with_stages(spec, WgmmaOptions(filters=filters, pixels=128)) or WgmmaOptions()
    return choice_for_batch(spec, shape.with_batch(assumed_batch(shape)))


def choice_for_batch(spec: KernelSpec, shape: ConvShape) -> WgmmaOptions:
    """The same for the batch that ``shape`` has."""
    return min(candidates(spec, shape), key=lambda options: cycles(spec, options, shape))


def tiles_of(options: WgmmaOptions, numbers: WgmmaNumbers | SplitNumbers, shape: ConvShape) -> int:
    """Tiles of a layer, each part of a split one for itself."""
    return _places(options, shape, numbers.flat) * numbers.filter_tiles * options.splits


def _places(options: WgmmaOptions, shape: ConvShape, flat: bool = False) -> int:
    """Tiles of a layer's pixels; ``flat``: of images that are taken as one row."""
    if flat:
        return shape.n * -(-shape.p * shape.q // options.columns)
    if options.form is Form.HALO:
        return shape.n * -(-shape.p // options.rows) * -(-shape.q // options.columns)
    if options.form is Form.PLANES:
        return shape.n * -(-shape.p * shape.q // options.pixels)
    return -(-shape.output_pixels // options.pixels)


def cycles(spec: KernelSpec, options: WgmmaOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in waves of the chip's multiprocessors, or its bytes, whichever takes longer."""
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
    if not split and spec.layout is Layout.NCHW and options.form is Form.HALO:
        tile += PLACES_CYCLES
    arithmetic = START_CYCLES + waves * tile
    cycle_bytes = spec.hardware.copied_bytes
    # bytes that all blocks store at the end
    arithmetic += spec.dtype.itemsize * options.filters * options.pixels * min(tiles, chip) / cycle_bytes
    if options.splits > 1:
        arithmetic += LAUNCH_CYCLES + 8 * shape.output_pixels * spec.k * options.splits / cycle_bytes
    memory = START_CYCLES + MEMORY_SHARE * shape.bytes_moved / cycle_bytes
    beside = _stores(spec, options, shape)
    if is_passed(spec, options):
        beside += nhwc_pass.cycles(spec, shape, is_sampled(spec, options))
    longer, lesser = max(arithmetic, memory), min(arithmetic, memory)
    product = longer + (1 - OVERLAPPED) * lesser
    product *= FLAT_SHARE if numbers.flat else _walked(spec, options, shape)
    return beside + START_CYCLES + _thin(spec, options, tiles) * (product - START_CYCLES)


def _walked(spec: KernelSpec, options: WgmmaOptions, shape: ConvShape) -> float:
    """How many times as long a walk of windows of 16 bits takes."""
    walks = options.form is Form.IM2COL and not is_one_tap(spec) and spec.stride == (1, 1)
    if not walks or not spec.dtype.is_half or spec.is_volume:
        return 1.0
    pixel = stored_channels(spec) * spec.dtype.itemsize
    if shape.n * shape.h * shape.w * pixel > spec.hardware.l2_bytes:
        return WALKED_FAR
    return 1.0 if pixel & pixel - 1 or spec.k <= slice_of(spec) else WALKED_EVEN


def _thin(spec: KernelSpec, options: WgmmaOptions, tiles: int) -> float:
    """How many times as long few channels or filters take; mostly only where tiles are many."""
    channels, many = stored_channels(spec), tiles > spec.hardware.multiprocessors
    walks = options.form is Form.IM2COL and not is_one_tap(spec)
    if is_split(spec):
        return THIN_SPLIT if 2 * spec.c <= slice_of(spec) else 1.0
    if not spec.dtype.is_half:
        return THIN_FLOATS if min(spec.c, spec.k) < slice_of(spec) and many else 1.0
    if channels >= slice_of(spec):
        found = THIN if spec.k < slice_of(spec) else 1.0
        if found > 1.0 and not many and is_one_tap(spec) and channels % slice_of(spec):
            found *= FEW_UNEVEN
        outputs = tiles // options.splits * options.filters * options.pixels
        waits = walks and outputs > spec.hardware.multiprocessors * FEW_OUTPUTS and _has_unaligned_windows(spec)
        return UNALIGNED_WINDOWS * found if waits else found
    if channels * spec.dtype.itemsize % nhwc_pass.SECTOR_BYTES and options.form is not Form.PLANES:
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
    copied = options.filters * ROW_BYTES + (numbers.pixel_bytes / numbers.box_taps if options.form is Form.HALO
                                            else numbers.pixel_bytes)
    if _has_unaligned_windows(spec) and not numbers.all_tiled:
        copied += (UNALIGNED - 1) * numbers.pixel_bytes
    copying = max(copied / COPIED_BYTES * max(0.4, active), numbers.planes * BOX_CYCLES)
    found = max(instructions * each, copying, LATENCY_CYCLES / (options.stages - 1)) + STEP_CYCLES
    if options.by_columns:      # the next box comes while this one's few taps are multiplied
        coming = BOX_LATENCY + numbers.box_bytes / COPIED_BYTES
        found = COLUMN_SHARE * max(found, coming / ((options.boxes - 1) * numbers.box_taps))
    return max(found, LEAST_STEP) if options.form is Form.HALO else found


def _split_step(options: WgmmaOptions, numbers: SplitNumbers, active: float) -> float:
    """The same of split factors, where warps split boxes beside the products."""
    columns = group_columns(options)
    instructions = SPLIT_PRODUCTS * numbers.depths * options.filters * options.pixels // (ROWS * columns)
    taps = numbers.taps if options.form is Form.HALO else 1
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
    share = EMPTY_SLICES if spec.is_volume and 2 * spec.c <= slice_of(spec) else 1.0
    return share * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape) * H200_CLOCK / CLOCK
