"""Which tiles a layer gets.

Filters stand along the instruction's rows and pixels along its columns, of which there may be any multiple of 8: so a
tile can be found whose number fills the chip's multiprocessors in whole waves.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import MOST_BOX
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.parts import window_rows
from warpconv.codegen.parts.wgmma import BARRIER_BYTES, GROUPS, LEAST_STAGES, MOST_COLUMNS, MOST_STAGES, MOST_SUMS, ROWS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .estimate import cycles, places
from .maps import window_refusal
from .numbers import (ROW_UNIT, aligned, box_of, column_unit, is_flat, is_one_tap, is_staged, make_numbers, phases_of,
                      plane_columns, product_of, reach_of, slice_of, stored_channels)
from .options import Box, Filter, Form, Order, WgmmaOptions, Window
from .split import MOST_SPLIT_SUMS, SPLITTERS, is_split, make_split_numbers

FILTERS = (64, 128, 256)
LEAST_COLUMNS = 16              # of an instruction that is tried, and from one to the next
BARRIERS_BYTES = 2 * BARRIER_BYTES      # of a stage
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LEAST_STEPS = 4                 # of the reduction that are left to each part of a sum
PLANE_UNIT = 8                  # pixels of 16 bits in 16 bytes: what images in NCHW are a multiple of to be read there
LEAST_HALO_WIDTH = 14           # of the outputs, from which on a box for all taps is tried
MOST_PHASES = 4                 # of a box, each a copy
MOST_ACROSS = 4                 # boxes across an image
LEAST_SPLIT_WIDTH = 7           # of the outputs: a box for all taps is split once
FEW_TAPS = 3                    # of a box, whose next comes late
MORE_BOXES = (2, 3)             # of the ring, where a box takes long or serves few taps
RINGS = (2, 4)                 # of the ring of boxes as NCHW has them
MOST_RING = 8
# tiles of so many pixels that a block has at least where filters stay; STAYS_FEW in NHWC where these are no more than a
# slice's channels
STAYS_TILES, STAYS_PIXELS, STAYS_FEW = 4, 128, 2
SLOW_TILE = (64, 128)           # filters that stay and pixels: 1.2 to 1.8 times as long as other tiles of four layers


def candidates(spec: KernelSpec, shape: ConvShape | None = None) -> Iterator[WgmmaOptions]:
    """Every tile that fits, with as many stages as fit; with sizes also boxes, and split sums."""
    by_taps = window_refusal(spec, WgmmaOptions()) is None
    if window_rows.refusal(spec) is None and (shape is None or not by_taps or _rows_pay(spec)):
        yield from _tiles(window_rows.product_of(spec), shape, WgmmaOptions(window=Window.ROW))
    if not by_taps:
        return
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
        parts = GROUPS if filters < GROUPS * ROWS else 1
        ways = _filter_ways(spec, replace(form, filters=filters, pixels=unit * parts), shape)
        for columns in range(unit, most_columns(spec, filters) + 1, unit):
            tile = replace(form, filters=filters, pixels=columns * parts)
            for way in ways:
                slow = (way is Filter.STAYS and shape is not None and form.form is Form.IM2COL
                        and (filters, tile.pixels) == SLOW_TILE)
                found = None if slow else with_stages(spec, replace(tile, filter=way))
                if found is not None:
                    yield found
            split = with_stages(spec, replace(tile, splits=2))
            if split is not None and (shape is None or _few_tiles(spec, tile, shape)):
                steps = -(-stored_channels(spec) // slice_of(spec)) * math.prod(spec.taps)
                yield from (replace(split, splits=n) for n in SPLITS if n > 1 and steps // n >= LEAST_STEPS)


def _rows_pay(spec: KernelSpec) -> bool:
    """Whether windows may be copied quicker as rows than tap by tap: in NCHW not where a tap's channels fill half a
    slice (64 to 384 channels, 2x2 to 8x8, batch 32: 1.1 to 1.3 times as long; 16 -> 64, 2x2 on 112^2, took 14.5 us for
    21; an H200, 2026-11-30)."""
    return spec.layout is Layout.NHWC or 2 * spec.c <= slice_of(spec)


def _filter_ways(spec: KernelSpec, least: WgmmaOptions, shape: ConvShape | None) -> tuple[Filter, ...]:
    """How the filters of tiles come whose smallest is ``least``; without sizes every way that there is. Where a block
    has several tiles, filters that do not fill one, or whose channels do not fill slices, stay in shared memory if they
    fit beside the smallest: 80 -> 80, 1x1 on 80^2, batch 16, takes 12 us for 17 to 21, 48 -> 96, 3x3 with stride 2 on
    160^2 28 for 43; others took as long or longer (21 layers, an H200, 2026-11-30). Of several tiles of filters those
    of planes alone: 24 -> 144, 1x1 on 56^2 in NCHW 13.1 us for 17.4; of ten layers in NHWC five gained up to 7 %, five
    lost up to 15 (an H200, 2026-11-30)."""
    stays = replace(least, filter=Filter.STAYS)
    if stays_refusal(spec, stays) is not None:
        return (Filter.STAGES,)
    if shape is None:
        return Filter.STAYS, Filter.STAGES
    several = least.form is Form.IM2COL and least.filters < spec.k
    taken = (not several and not _is_full(spec, least) and _blocks_have_several(spec, shape)
             and with_stages(spec, stays) is not None)
    return (Filter.STAYS if taken else Filter.STAGES,)


def _blocks_have_several(spec: KernelSpec, shape: ConvShape) -> bool:
    """Whether a block has tiles enough to keep filters for: of single pixels STAYS_TILES (192 -> 96 on 28^2, batch 32,
    of three each, took 6.7 us for 6.3), of few filters STAYS_FEW (288 -> 48 on 35^2 9.9 us, and 10.4 to 12.5 by `mma`;
    an H200, 2026-12-01)."""
    few = spec.layout is Layout.NHWC and spec.k <= slice_of(spec)
    tiles = shape.output_pixels / (STAYS_PIXELS * spec.hardware.multiprocessors)
    return tiles >= ((STAYS_FEW if few else STAYS_TILES) if is_one_tap(spec) else 1)


def _is_full(spec: KernelSpec, tile: WgmmaOptions) -> bool:
    """Whether a tile's filters, and slices of their channels, are none of them zeros that copies fill in."""
    return spec.k % tile.filters == 0 and stored_channels(spec) % slice_of(spec) == 0


def stays_refusal(spec: KernelSpec, options: WgmmaOptions) -> str | None:
    """Why the filters of a block cannot stay in shared memory, in words, or None."""
    if options.form is Form.HALO or is_split(spec):
        return "filter = stays is for form = im2col or planes in 16 bits, and im2col in tf32"
    if options.splits > 1:
        return f"filter = stays with splits = {options.splits} (whole sums)"
    return None


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
    tiles = places(tile, shape) * -(-spec.k // tile.filters)
    return tiles < spec.hardware.multiprocessors


def _turned_boxes(spec: KernelSpec, shape: ConvShape) -> Iterator[WgmmaOptions]:
    """Tiles of boxes that are read as NCHW has them, where rows of x (of 1x1 filters images) are whole 16 bytes."""
    made = WgmmaOptions(form=Form.HALO, order=Order.PLANES)
    flat = is_flat(spec, made)
    if halo_refusal(spec, made) is not None or (math.prod(shape.image) if flat else shape.w) % ROW_UNIT:
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
    widest = MOST_BOX // spec.stride[-1] - reach_of(spec, options)[1]
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
    plane = spec.stride[-2:]
    if plane != (1, 1) and not ((is_split(spec) or spec.is_volume) and any(map(operator.gt, spec.taps[-2:], plane))):
        # boxes of phases pay where a pixel is split for all its windows; copies alone take 1.05 to 1.5 times as long as
        # the walk's (14 layers of stride 2 in float16 and tf32, an H200, 2026-11-27)
        return
    down, across = reach_of(spec, made)
    ring = MORE_BOXES if is_split(spec) or made.by_columns else MORE_BOXES[:1]
    ring = ring[::-1] if made.by_columns and spec.r <= FEW_TAPS else ring     # of what is estimated alike the first
    for columns in _box_outputs(spec, shape, made):
        for rows in range(1, min(shape.p, 16, MOST_BOX // plane[0] - down) + 1):
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
    if options.by_columns and (is_split(spec) or spec.s == 1):
        return "boxes of a filter column are for several columns, in 16 bits and tf32"
    if turned and not (is_split(spec) and spec.layout is Layout.NCHW):
        return "boxes of planes are for NCHW in fp16x3"
    if spec.dilation[-2:] != (1, 1):
        return "one box for all taps is for dilation 1"
    if any(stride > 1 == taps for stride, taps in zip(spec.stride[-2:], spec.taps[-2:])):
        return "one box for all taps is for stride 1 along axes of one tap"
    if turned and max(spec.stride) > 1:
        return "boxes of planes are for stride 1"
    if math.prod(phases_of(spec, options)) > MOST_PHASES:
        return (f"one box for all taps would be one of {math.prod(phases_of(spec, options))} phases, as the stride is "
                f"{spec.stride[-2]} x {spec.stride[-1]} (at most {MOST_PHASES})")
    if is_flat(spec, options):
        return "boxes of planes are for 1x1 filters without padding" if any(map(any, spec.padding)) else None
    if spec.r * spec.s == 1:
        return "one box for all taps is for more than one tap" + (" of a plane" if spec.is_volume else "")
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
        window = Window.TAP if window_refusal(spec, WgmmaOptions()) is None else Window.ROW
        made = WgmmaOptions(filters=filters, pixels=128, window=window)
        return with_stages(product_of(spec, made), made) or WgmmaOptions(window=window)
    return choice_for_batch(spec, shape.with_batch(assumed_batch(shape)))


def choice_for_batch(spec: KernelSpec, shape: ConvShape) -> WgmmaOptions:
    """The same for the batch that ``shape`` has."""
    return min(candidates(spec, shape), key=lambda options: cycles(spec, options, shape))
