"""Every number in the text of ``filter_gradient_wgmma``."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.reordered import Order
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, DEPTH, FEWER_REGISTERS, GROUPS, MORE_REGISTERS,
                                          ROW_BYTES, ROWS, THREADS, WgmmaShape)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import FilterGradientWgmmaOptions, Form

BOX = 64                        # channels of a box: a row of 128 bytes, the widest swizzle
MULTIPLY = {Form.CHANNELS: {DType.FLOAT16: "wc_wgmma_halves_across", DType.BFLOAT16: "wc_wgmma_bfloat16s_across"},
            Form.PLANES: {DType.FLOAT16: "wc_wgmma_halves", DType.BFLOAT16: "wc_wgmma_bfloat16s",
                          DType.FLOAT32: "wc_wgmma_tf32s"}}
DEPTH_BYTES = 32                # of a row: an instruction's products


@dataclass(frozen=True)
class FilterGradientWgmmaNumbers:
    """What the template writes besides spec and options."""

    arguments: tuple[Argument, ...]     # of the product's entry
    shape: WgmmaShape
    multiply: str               # the primitive
    pixels: int                 # of a stage
    planes: bool                # whether those of a channel lie side by side
    direct: bool                # whether there is no second step
    plain: bool                 # whether the window of an output is the pixel at its place
    one_tap: bool               # whether columns are in the filter's own order
    matrices: int               # of 64 filters: a group's
    group_filters: int          # from one group's filters to the next one's, 0 where both have the same,
    group_boxes: int            # and the same of boxes of columns
    sum_boxes: int              # boxes of a group's columns
    slices: int                 # boxes of a tap
    boxes: int                  # of all columns
    filter_tiles: int
    column_tiles: int
    guard_filters: bool         # whether the last tiles have fewer
    guard_channels: bool        # whether the last box of a tap has,
    guard_pairs: bool           # and that not by whole eights of them
    guard_boxes: bool
    filter_boxes: int           # of a stage,
    column_boxes: int           # and of its windows
    box_bytes: int
    stage_bytes: int
    depth: int                  # pixels of an instruction
    depths: int                 # instructions along a stage's pixels,
    depth_cells: int            # and from one to the next, by 16 bytes
    barriers_at: int
    shared_bytes: int
    adding: partial_sums.Adding     # the second step's blocks
    groups: int = GROUPS
    threads: int = THREADS
    fewer_registers: int = FEWER_REGISTERS
    more_registers: int = MORE_REGISTERS
    orders: tuple[Order, ...] = ()      # arrays that are brought to NHWC, and back


def group_columns(options: FilterGradientWgmmaOptions) -> int:
    """Columns of a group: all of a tile's where the groups share its filters out, else their half."""
    return options.columns if options.filters >= GROUPS * ROWS else options.columns // GROUPS


def matrices_of(options: FilterGradientWgmmaOptions) -> int:
    """Matrices of 64 filters that a group has."""
    return max(1, options.filters // (GROUPS * ROWS))


def stage_bytes(options: FilterGradientWgmmaOptions) -> int:
    """Of a stage, the elements of whose pixels have 16 bits, or fill a row."""
    return (options.filters + options.columns) * (ROW_BYTES if options.form is Form.PLANES else 2 * options.pixels)


def stage_pixels(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> int:
    return ROW_BYTES // spec.dtype.itemsize if options.form is Form.PLANES else options.pixels


def shared_bytes(options: FilterGradientWgmmaOptions) -> int:
    """Of a block: the ring and its barriers."""
    return options.stages * (stage_bytes(options) + 2 * BARRIER_BYTES)


def slices_of(spec: KernelSpec) -> int:
    """Boxes of the channels of a tap."""
    return -(-spec.c // BOX)


def column_tiles(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> int:
    return -(-slices_of(spec) * math.prod(spec.taps) * BOX // options.columns)


def make_numbers(spec: KernelSpec, options: FilterGradientWgmmaOptions,
                 arguments: tuple[Argument, ...]) -> FilterGradientWgmmaNumbers:
    """All numbers of plan values that fit together."""
    shared_out = options.filters >= GROUPS * ROWS           # filters, else columns
    columns, matrices = group_columns(options), matrices_of(options)
    boxes = slices_of(spec) * math.prod(spec.taps)
    planes, pixels = options.form is Form.PLANES, stage_pixels(spec, options)
    ring = options.stages * stage_bytes(options)
    box_bytes = ROW_BYTES * (BOX if planes else pixels)
    depth = DEPTH_BYTES // spec.dtype.itemsize
    return FilterGradientWgmmaNumbers(
        arguments=arguments, shape=WgmmaShape.of(columns), multiply=MULTIPLY[options.form][spec.dtype],
        pixels=pixels, planes=planes, direct=partial_sums.is_direct(spec, options.splits), plain=spec.is_pointwise,
        one_tap=max(spec.taps) == 1, matrices=matrices, group_filters=ROWS * matrices if shared_out else 0,
        group_boxes=0 if shared_out else columns // BOX, sum_boxes=columns // BOX, slices=slices_of(spec), boxes=boxes,
        filter_tiles=-(-spec.k // options.filters), column_tiles=column_tiles(spec, options),
        guard_filters=spec.k % options.filters != 0, guard_channels=spec.c % BOX != 0,
        guard_pairs=spec.c % 8 != 0,
        guard_boxes=boxes * BOX % options.columns != 0, filter_boxes=options.filters // BOX,
        column_boxes=options.columns // BOX, box_bytes=box_bytes, stage_bytes=stage_bytes(options),
        depth=depth, depths=pixels // depth,
        depth_cells=(DEPTH_BYTES if planes else DEPTH * ROW_BYTES) // CELL_BYTES, barriers_at=ring,
        shared_bytes=shared_bytes(options), adding=partial_sums.adding_of(spec, options.splits))
