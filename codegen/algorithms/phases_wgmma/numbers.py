"""Every number in the text of ``phases_wgmma``."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.parts.phases import Phase, phases_of, places_of, steps_of
from warpconv.codegen.parts.reordered import Order
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, FEWER_REGISTERS, GROUPS, MORE_REGISTERS, ROW_BYTES,
                                          ROWS, THREADS, WgmmaShape)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import Epilogue, KernelSpec

from .options import PhasesWgmmaOptions

MULTIPLY = {DType.FLOAT16: "wc_wgmma_halves", DType.BFLOAT16: "wc_wgmma_bfloat16s", DType.FLOAT32: "wc_wgmma_tf32s"}
AS_THEY_LIE = {DType.FLOAT16: "wc_wgmma_halves_a_across", DType.BFLOAT16: "wc_wgmma_bfloat16s_a_across"}
BOX = 64                        # channels of a box of filters that is copied from w itself
DEPTH_BYTES = 32                # of a row: an instruction's products
COLUMN_UNIT = 16                # pixels of a group, of which two matrices are stored at once
STORED = (64, 48, 32, 16)       # pixels of a group that are stored at once
BANK_BYTES = 4
TURN_TILE, TURN_ROWS = 32, 8    # of the launch before: filters x (channel, tap) of a block, and its rows of threads


@dataclass(frozen=True)
class PhasesWgmmaNumbers:
    """What the template writes besides spec and options."""

    arguments: tuple[Argument, ...]     # of the product's entry
    shape: WgmmaShape
    multiply: str               # the primitive
    turned: bool                # whether a launch before puts the filter in order
    phases: tuple[Phase, ...]   # those of the most taps first
    steps: tuple[int, ...]      # outputs from a tap of a phase to the next one, backwards, along each axis
    tap_places: tuple[int, ...]     # of every tap of the filter: where it is among those of the phases
    slice: int                  # filters of a step,
    slices: int                 # and steps of a tap
    depth: int                  # filters of an instruction,
    depths: int                 # instructions of a step,
    depth_cells: int            # and from one to the next, by 16 bytes: of pixels,
    filter_cells: int           # and of filters
    pixels: int                 # columns of the products: a tile's pixels,
    box_pixels: int             # those that are copied,
    spare_cells: int            # and 16 bytes each of the others, which are zero
    matrices: int               # of 64 channels: a group's
    group_channels: int         # from one group's channels to the next one's, 0 where both have the same,
    group_pixels: int           # and the same of pixels
    channel_tiles: int
    guard_channels: bool        # whether the last tile has fewer
    store_bias: bool
    staged: bool                # whether pixels are stored by way of shared memory
    store_pixels: int           # of a group, at once,
    parts: int                  # and how often
    box_bytes: int              # that are copied for a stage: of pixels and filters
    pixel_bytes: int            # of shared memory: of a stage's pixels,
    stage_bytes: int            # and of these and its filters
    store_bytes: int            # of a group's buffer
    stores_at: int
    barriers_at: int
    shared_bytes: int
    filter_boxes: int           # of 64 channels: a stage's filters, where they are copied from w itself
    turn_tiles: tuple[int, int]     # blocks of the launch before: of filters, and of (channel, tap)
    turn_tile: int
    turn_gap: int               # elements beside a row of its tile: a column's lie in different banks
    turn_rows: int
    row_bytes: int = ROW_BYTES
    groups: int = GROUPS
    threads: int = THREADS
    fewer_registers: int = FEWER_REGISTERS
    more_registers: int = MORE_REGISTERS
    orders: tuple[Order, ...] = ()      # arrays that are brought to NHWC, and back


def shared_out(options: PhasesWgmmaOptions) -> bool:
    """Whether the groups share out a tile's channels, and not its pixels."""
    return options.channels >= GROUPS * ROWS


def box_pixels(options: PhasesWgmmaOptions) -> int:
    return options.rows * options.columns * options.images


def pixels_of(options: PhasesWgmmaOptions) -> int:
    """Columns of the products: a tile's pixels, filled up."""
    unit = COLUMN_UNIT * (1 if shared_out(options) else GROUPS)
    return -(-box_pixels(options) // unit) * unit


def group_columns(options: PhasesWgmmaOptions) -> int:
    return pixels_of(options) // (1 if shared_out(options) else GROUPS)


def matrices_of(options: PhasesWgmmaOptions) -> int:
    """Matrices of 64 channels that a group has."""
    return max(1, options.channels // (GROUPS * ROWS))


def stage_bytes(options: PhasesWgmmaOptions) -> int:
    return ROW_BYTES * (pixels_of(options) + options.channels)


def store_pixels(options: PhasesWgmmaOptions) -> int:
    return next(pixels for pixels in STORED if group_columns(options) % pixels == 0)


def store_bytes(spec: KernelSpec, options: PhasesWgmmaOptions) -> int:
    """Of a group's buffer of outputs; none where they are stored from registers."""
    return ROW_BYTES * store_pixels(options) if spec.dtype.is_half else 0


def shared_bytes(spec: KernelSpec, options: PhasesWgmmaOptions) -> int:
    """Of a block: the ring, its barriers, the buffers of outputs."""
    return options.stages * (stage_bytes(options) + 2 * BARRIER_BYTES) + GROUPS * store_bytes(spec, options)


def is_turned(spec: KernelSpec) -> bool:
    """Whether the filter is put in order before: of one tap and 16 bits it is multiplied as it lies, its channels side
    by side."""
    return max(spec.taps) > 1 or not spec.dtype.is_half


def slice_of(spec: KernelSpec) -> int:
    """Filters of a step: a row."""
    return ROW_BYTES // spec.dtype.itemsize


def make_numbers(spec: KernelSpec, options: PhasesWgmmaOptions,
                 arguments: tuple[Argument, ...]) -> PhasesWgmmaNumbers:
    """All numbers of plan values that fit together."""
    depth, columns, pixels = DEPTH_BYTES // spec.dtype.itemsize, group_columns(options), pixels_of(options)
    copied, ring = box_pixels(options), options.stages * stage_bytes(options)
    stores = store_bytes(spec, options)
    return PhasesWgmmaNumbers(
        arguments=arguments, shape=WgmmaShape.of(columns),
        multiply=(MULTIPLY if is_turned(spec) else AS_THEY_LIE)[spec.dtype], turned=is_turned(spec),
        phases=phases_of(spec),
        steps=steps_of(spec), tap_places=tuple(place.before + place.index for place in places_of(spec)),
        slice=slice_of(spec), slices=-(-spec.k // slice_of(spec)), depth=depth, depths=slice_of(spec) // depth,
        depth_cells=DEPTH_BYTES // CELL_BYTES,
        filter_cells=(DEPTH_BYTES if is_turned(spec) else ROW_BYTES * depth) // CELL_BYTES,
        filter_boxes=options.channels // BOX, pixels=pixels, box_pixels=copied,
        spare_cells=(pixels - copied) * ROW_BYTES // CELL_BYTES, matrices=matrices_of(options),
        group_channels=ROWS * matrices_of(options) if shared_out(options) else 0,
        group_pixels=0 if shared_out(options) else columns, channel_tiles=-(-spec.c // options.channels),
        guard_channels=spec.c % options.channels != 0, store_bias=Epilogue.BIAS in spec.epilogue,
        staged=spec.dtype.is_half, store_pixels=store_pixels(options), parts=columns // store_pixels(options),
        box_bytes=ROW_BYTES * (copied + options.channels), pixel_bytes=ROW_BYTES * pixels,
        stage_bytes=stage_bytes(options), store_bytes=stores, stores_at=ring, barriers_at=ring + GROUPS * stores,
        shared_bytes=shared_bytes(spec, options),
        turn_tiles=(-(-spec.k // TURN_TILE), -(-spec.c * math.prod(spec.taps) // TURN_TILE)), turn_tile=TURN_TILE,
        turn_gap=max(1, BANK_BYTES // spec.dtype.itemsize), turn_rows=TURN_ROWS)
