"""Every number in the text of ``filter_gradient_tma``."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.mma import MATRIX_COLUMNS, MATRIX_ROWS
from warpconv.codegen.parts.reordered import Order
from warpconv.codegen.parts.wgmma import BARRIER_BYTES, MORE_REGISTERS, ROW_BYTES, WARP_GROUP, registers_left
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import FilterGradientTmaOptions

BOX = 32                        # channels of a box: a row of 128 bytes, the widest swizzle
GROUP_WARPS = 4                 # which share registers out
REGISTERS_BESIDE = 28           # of a thread besides sums and factors: the ring, addresses
FEWER_REGISTERS = 40            # of a thread that copies


@dataclass(frozen=True)
class FilterGradientTmaNumbers:
    """What the template writes besides spec and options."""

    arguments: tuple[Argument, ...]     # of the product's entry
    direct: bool            # whether there is no second step
    plain: bool             # whether the window of an output is the pixel at its place
    one_tap: bool           # whether columns are in the filter's own order
    warps: int              # that multiply; a thread of each of four more copies
    copiers: int
    threads: int
    fewer_registers: int    # of a thread that copies,
    more_registers: int     # and of one that multiplies
    warp_m: int             # filters and columns of a warp
    warp_n: int
    matrices_m: int         # matrices of a warp's sums
    matrices_n: int
    slices: int             # boxes of a tap
    boxes: int              # of all columns of a group
    filter_tiles: int       # of a group
    column_tiles: int
    guard_filters: bool     # whether the last tiles have fewer
    guard_channels: bool    # whether the last box of a tap has
    guard_boxes: bool
    filter_boxes: int       # of a stage,
    column_boxes: int       # and of its windows
    box_bytes: int
    stage_bytes: int
    barriers_at: int
    shared_bytes: int
    adding: partial_sums.Adding     # the second step's blocks
    registers: int
    orders: tuple[Order, ...] = ()      # arrays that are brought to NHWC, and back


def resolved(spec: KernelSpec, options: FilterGradientTmaOptions) -> FilterGradientTmaOptions:
    """``options`` with every derived value in its place."""
    if options.min_blocks != DERIVED:
        return options
    return replace(options, min_blocks=resident_of(spec, options))


def warps_of(options: FilterGradientTmaOptions) -> int:
    """Those that multiply."""
    return options.warps_m * options.warps_n


def threads_of(options: FilterGradientTmaOptions) -> int:
    """Of a block: those that multiply, and a group that copies."""
    return WARP_GROUP // GROUP_WARPS * warps_of(options) + WARP_GROUP


def stage_bytes(options: FilterGradientTmaOptions) -> int:
    return (options.filters + options.columns) // BOX * ROW_BYTES * options.pixels


def shared_bytes(options: FilterGradientTmaOptions) -> int:
    """Of a block: the ring and its barriers."""
    return options.stages * (stage_bytes(options) + 2 * BARRIER_BYTES)


def planned_registers(options: FilterGradientTmaOptions) -> int:
    """Of a thread: sums, and the factors of one instruction's depth, and the next one's."""
    rows, columns = warp_matrices(options)
    return 4 * rows * columns + 2 * (4 * rows + 2 * columns) + REGISTERS_BESIDE


def warp_matrices(options: FilterGradientTmaOptions) -> tuple[int, int]:
    """Matrices of a warp's sums, along filters and columns."""
    return options.filters // options.warps_m // MATRIX_ROWS, options.columns // options.warps_n // MATRIX_COLUMNS


def resident_of(spec: KernelSpec, options: FilterGradientTmaOptions) -> int:
    """Blocks that a multiprocessor holds, by registers, threads and shared memory; at least 1."""
    by_shared = spec.hardware.shared_multiprocessor // (shared_bytes(options) + spec.hardware.shared_reserved)
    most = min(by_shared, spec.hardware.resident_threads // threads_of(options))
    needed = planned_registers(options)
    return max([1, *(n for n in range(2, most + 1) if registers_of(replace(options, min_blocks=n)) >= needed)])


def registers_of(options: FilterGradientTmaOptions) -> int:
    """Of a thread that multiplies, of resolved plan values."""
    return registers_left(warps_of(options) // GROUP_WARPS, WARP_GROUP, FEWER_REGISTERS, MORE_REGISTERS,
                          options.min_blocks)


def slices_of(spec: KernelSpec) -> int:
    """Boxes of the channels of a tap."""
    return -(-spec.channels // BOX)


def boxes_of(spec: KernelSpec) -> int:
    """Those of a group's columns."""
    return slices_of(spec) * math.prod(spec.taps)


def tiles_of(spec: KernelSpec, options: FilterGradientTmaOptions) -> tuple[int, int]:
    """Blocks of a group and a share: for its filters, and for its columns."""
    return -(-spec.filters // options.filters), -(-boxes_of(spec) * BOX // options.columns)


def make_numbers(spec: KernelSpec, options: FilterGradientTmaOptions,
                 arguments: tuple[Argument, ...]) -> FilterGradientTmaNumbers:
    """All numbers of a plan whose values are resolved, and fit together."""
    matrices_m, matrices_n = warp_matrices(options)
    filter_tiles, column_tiles = tiles_of(spec, options)
    boxes = boxes_of(spec)
    return FilterGradientTmaNumbers(
        arguments=arguments, direct=partial_sums.is_direct(spec, options.splits), plain=spec.is_pointwise,
        one_tap=max(spec.taps) == 1, warps=warps_of(options), copiers=GROUP_WARPS, threads=threads_of(options),
        fewer_registers=FEWER_REGISTERS, more_registers=registers_of(options), warp_m=MATRIX_ROWS * matrices_m,
        warp_n=MATRIX_COLUMNS * matrices_n, matrices_m=matrices_m, matrices_n=matrices_n,
        slices=slices_of(spec), boxes=boxes, filter_tiles=filter_tiles, column_tiles=column_tiles,
        guard_filters=spec.filters % options.filters != 0, guard_channels=spec.channels % BOX != 0,
        guard_boxes=boxes * BOX % options.columns != 0, filter_boxes=options.filters // BOX,
        column_boxes=options.columns // BOX, box_bytes=ROW_BYTES * options.pixels, stage_bytes=stage_bytes(options),
        barriers_at=options.stages * stage_bytes(options), shared_bytes=shared_bytes(options),
        adding=partial_sums.adding_of(spec, options.splits), registers=planned_registers(options))
