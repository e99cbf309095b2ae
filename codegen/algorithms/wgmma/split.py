"""Every number in the text of ``wgmma`` for float32 in two parts of float16 (fp16x3)."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.parts.nhwc_pass import NhwcPass
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, COLUMN_UNIT, DEPTH, GROUPS, ROW_BYTES, ROWS,
                                          WARP_GROUP, WgmmaShape)
from warpconv.codegen.parts.window_rows import WindowRows
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics

from .numbers import (SIDE_THREADS, aligned, box_of, box_serves, columns_before, group_columns, is_flat, is_plain,
                      phase_pixels, phases_of, plane_columns, reached_pixels, slice_boxes, store_units,
                      stores_from_registers)
from .options import Form, WgmmaOptions

SLICE = 32                      # channels of a step: a row of floats, or of their parts
MOST_SPLIT_SUMS = 144           # of a thread, those of a step among them
SPLITTERS = 6                   # warps: two of the group that copies, and a fourth group
THREADS = WARP_GROUP * (GROUPS + 2)
FEWER_REGISTERS, MORE_REGISTERS = 56, 200       # of a thread that splits, that multiplies: 65,536 of a block
BOX_BARRIERS, STAGE_BARRIERS = 3, 2
SCALE_BYTES = 4
FOUR = 4                        # channels that float32 units load at once
EXTREME_BYTES = 8               # of a splitting warp, of each of two boxes
# Binary digits by which a pixel's largest magnitude may be below that of its box, beside one scale for all: a low part
# has half a unit of 2^-24 then, 2^-25 of the largest. The same for rows of a filter.
LEAST_SCALE = 14


@dataclass(frozen=True)
class SplitNumbers:
    """What the templates of ``wgmma`` write besides the spec, where factors are split."""

    arguments: tuple[Argument, ...]             # of the product's entry
    addition_arguments: tuple[Argument, ...]    # of the entry that adds the sums of split tiles
    before: NhwcPass | WindowRows | None    # the entry that brings x from NCHW to NHWC, or puts windows side by side
    shape: WgmmaShape
    stores: str                 # the fragment that stores outputs,
    store_units: tuple[int, ...]    # pixels of a lane at once in NCHW: one
    odd_matrices: bool          # whether a group's matrices of eight pixels are no multiple of four,
    splitting: str              # and the one that splits pixels
    flat: bool                  # an image is taken as one row
    plain: bool                 # every pixel is one window: no walk
    all_tiled: bool             # no descriptor walks windows
    store_bias: bool            # whether the product's entry adds it
    guard_filters: bool         # whether the last tile has fewer
    matrices: int               # of 64 filters: a group's
    group_filters: int          # from one group's to the next one's,
    group_pixels: int           # 0 where both have the same
    filter_tiles: int
    slices: int
    steps: int
    depths: int
    taps: int
    box_taps: int               # halo: that a box serves,
    box_serves: str             # in words,
    box_columns: int            # and pixels of the box,
    box_rows: int
    boxes: int
    phases: int                 # halo: of a box,
    phases_across: int          # along a row,
    phase_pixels: int           # from one to the next in shared memory,
    idle_pixels: int            # of these behind a phase's own
    box_pixels: int             # that are split
    pixel_bytes: int            # of shared memory
    plane_columns: int          # of a box before it is turned:
    plane_pixels: int
    columns_before: int         # of these before the box's first,
    copied_bytes: int           # of shared memory that a copy of pixels fills,
    turned_bytes: int           # and those from one such box to the next
    filter_bytes: int
    scales_each: int            # of a box: also of rows behind it that products read
    spare_pixels: int           # of these behind the box
    turned_at: int
    filters_at: int
    scales_at: int
    common_at: int
    extremes_at: int
    barriers_at: int
    shared_bytes: int
    floats_at: int              # of the prepared filter, in floats
    scales_from: int
    filled_channels: int        # of a tap of the filter as float32 units take it: whole fours
    prepared_bytes: int
    splitters: int = SPLITTERS
    threads: int = THREADS
    fewer_registers: int = FEWER_REGISTERS
    more_registers: int = MORE_REGISTERS
    groups: int = GROUPS
    side_threads: int = SIDE_THREADS
    slice: int = SLICE
    row_bytes: int = ROW_BYTES
    matrix_rows: int = ROWS * ROW_BYTES // CELL_BYTES
    depth: int = DEPTH
    depth_cells: int = 2 * 2 * DEPTH // CELL_BYTES
    low_cells: int = 2 * DEPTH // CELL_BYTES
    least_scale: int = LEAST_SCALE
    stage_taps: int = 1         # of a stage of filters


def is_split(spec: KernelSpec) -> bool:
    """Whether factors are float32 in two parts of float16."""
    return spec.numerics is Numerics.FP16X3


def make_split_numbers(spec: KernelSpec, options: WgmmaOptions, arguments: tuple[Argument, ...] = (),
                       addition: tuple[Argument, ...] = (),
                       before: NhwcPass | WindowRows | None = None) -> SplitNumbers:
    """All numbers of plan values that fit together."""
    halo, columns = options.form is Form.HALO, group_columns(options)
    shared_out = options.filters >= GROUPS * ROWS           # filters, else pixels
    matrices = options.filters // ROWS // (GROUPS if shared_out else 1)
    slices, taps = -(-spec.c // SLICE), math.prod(spec.taps)
    box_rows, box_columns = box_of(spec, options) if halo else (1, 1)
    box_pixels, reached = reached_pixels(spec, options) if halo else (options.pixels, options.pixels)
    phases, each = (phases_of(spec, options), phase_pixels(spec, options)) if halo else ((1, 1), 1)
    boxes = options.boxes if halo else options.stages
    across = plane_columns(spec, options) if options.turned else box_columns
    copied_bytes = ROW_BYTES * (math.prod(phases) * box_rows * across if halo else options.pixels)
    pixel_bytes, filter_bytes = aligned(reached * ROW_BYTES), options.filters * ROW_BYTES
    turned_bytes = aligned(copied_bytes) if options.turned else 0
    turned_at = boxes * pixel_bytes
    filters_at = turned_at + options.turned * turned_bytes
    scales_at = filters_at + options.stages * filter_bytes
    common_at = scales_at + aligned(boxes * reached * SCALE_BYTES, CELL_BYTES)
    extremes_at = common_at + aligned(boxes * SCALE_BYTES, CELL_BYTES)
    barriers_at = extremes_at + 2 * SPLITTERS * EXTREME_BYTES
    barriers = BOX_BARRIERS * boxes + STAGE_BARRIERS * options.stages
    barriers += (2 * options.turned - boxes) if options.turned else 0       # a box has no copy to wait for, then
    steps = slices * taps
    floats_at = steps * spec.k * ROW_BYTES // SCALE_BYTES
    filled = aligned(spec.c, FOUR)
    scales_from = floats_at + spec.k * taps * filled
    plain = is_plain(spec, options)
    return SplitNumbers(
        arguments=arguments, addition_arguments=addition, before=before,
        shape=WgmmaShape.of(columns), stores=stores_from_registers(spec), store_units=store_units(spec, options),
        odd_matrices=columns % (4 * COLUMN_UNIT) != 0, splitting="turned" if options.turned else "in_place",
        flat=is_flat(spec, options), plain=plain,
        all_tiled=halo or plain, store_bias=Epilogue.BIAS in spec.epilogue and options.splits == 1,
        guard_filters=spec.k % options.filters != 0, matrices=matrices,
        group_filters=ROWS * matrices if shared_out else 0, group_pixels=0 if shared_out else columns,
        filter_tiles=-(-spec.k // options.filters), slices=slices, steps=steps,
        depths=min(SLICE, aligned(spec.c, DEPTH)) // DEPTH, taps=taps, box_taps=taps // slice_boxes(spec, options),
        box_serves=box_serves(spec, options), box_columns=box_columns, box_rows=box_rows, boxes=boxes,
        phases=math.prod(phases), phases_across=phases[1], phase_pixels=each,
        idle_pixels=each - box_rows * box_columns if halo else 0, box_pixels=box_pixels, pixel_bytes=pixel_bytes,
        plane_columns=across, plane_pixels=box_rows * across, columns_before=columns_before(spec),
        copied_bytes=copied_bytes, turned_bytes=turned_bytes, turned_at=turned_at,
        filter_bytes=filter_bytes, scales_each=reached, spare_pixels=reached - box_pixels,
        filters_at=filters_at, scales_at=scales_at,
        common_at=common_at, extremes_at=extremes_at, barriers_at=barriers_at,
        shared_bytes=barriers_at + BARRIER_BYTES * barriers, floats_at=floats_at, scales_from=scales_from,
        filled_channels=filled, prepared_bytes=SCALE_BYTES * (scales_from + spec.k))
