"""The sizes of ``grouped``: what lies where in shared memory and in registers."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.first_layers import finds_pixels
from warpconv.codegen.parts.occupancy import fitting_blocks, step_registers
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import GroupedOptions

ITEMSIZE = 4
WIDE = 4                        # elements of 16 bytes: of a copy, of a load of filters, of a store
BUFFERS = 2                     # tiles' pixels in shared memory: of the one that is multiplied, and of the next
ROW_FILLING = 4                 # elements behind a product's filters: rows begin in different banks
REGISTERS_BESIDE = 30           # of a thread beside sums, pixels and filters
LOADS = (4, 2, 1)               # channels that a thread loads at once


@dataclass(frozen=True)
class GroupedNumbers:
    """What the template of ``grouped`` writes besides the spec."""

    arguments: tuple[Argument, ...]
    threads: int
    channels: int               # of all groups of a block
    block_filters: int          # of these
    group_lanes: int            # threads that share a group's filters
    filter_lanes: int           # those of a block that have the same outputs
    filter_row: int             # elements from a product's filters to the next product's
    filter_elements: int        # of all products
    runs_across: int            # runs of a thread's outputs in a tile's row
    halo_rows: int
    halo_columns: int
    pieces: int                 # copies of a pixel,
    pixel_threads: int          # by so many threads at a time
    idle_threads: bool          # whether some threads copy nothing
    buffer: int                 # elements of a tile's pixels
    window_pixels: int          # of a line: those that a thread's windows have
    load: int                   # channels that it loads at once
    tap_by_tap: bool            # whether a tap's filters are not loaded before the products of the one before
    find_pixels: bool           # whether the padding shows pixels of the image, whose places have to be found
    shared_bytes: int


def channels_of(spec: KernelSpec, options: GroupedOptions) -> int:
    """Of all groups of a block."""
    return options.groups_tile * spec.channels


def group_lanes(spec: KernelSpec, options: GroupedOptions) -> int:
    """Threads that share a group's filters."""
    return spec.filters // options.filters


def filter_lanes(spec: KernelSpec, options: GroupedOptions) -> int:
    """Threads of a block that have the same outputs, of other filters."""
    return options.groups_tile * group_lanes(spec, options)


def threads_of(spec: KernelSpec, options: GroupedOptions) -> int:
    """Of a block."""
    return filter_lanes(spec, options) * (options.tile_p * options.tile_q // options.columns)


def pieces_of(spec: KernelSpec, options: GroupedOptions) -> int:
    """Copies of 16 bytes: a pixel of a block's groups."""
    return channels_of(spec, options) // WIDE


def halo(spec: KernelSpec, options: GroupedOptions) -> tuple[int, int]:
    """Rows and columns of the input that a tile of outputs reads."""
    rows, columns = ((outputs - 1) * stride + extent for outputs, stride, extent in zip(
        (options.tile_p, options.tile_q), spec.stride, spec.extents))
    return rows, columns


def buffer_of(spec: KernelSpec, options: GroupedOptions) -> int:
    """Elements of a tile's pixels."""
    return math.prod(halo(spec, options)) * channels_of(spec, options)


def window_pixels(spec: KernelSpec, options: GroupedOptions) -> int:
    """Of a line: those that a thread's windows have."""
    return (options.columns - 1) * spec.stride[1] + spec.extents[1]


def load_of(spec: KernelSpec) -> int:
    """Channels that a thread loads at once."""
    return next(load for load in LOADS if spec.channels % load == 0)


def filter_elements(spec: KernelSpec, options: GroupedOptions) -> int:
    """Of a block's filters in shared memory."""
    return spec.reduction * (options.groups_tile * spec.filters + ROW_FILLING)


def shared_bytes(spec: KernelSpec, options: GroupedOptions) -> int:
    """Of a block: its filters, and two tiles' pixels."""
    return ITEMSIZE * (filter_elements(spec, options) + BUFFERS * buffer_of(spec, options))


def planned_registers(spec: KernelSpec, options: GroupedOptions) -> int:
    """Of a thread: sums, a line's pixels, a product's filters, and what the epilogue takes of a store."""
    held = (options.columns + 1) * options.filters + window_pixels(spec, options) * spec.channels
    return held + REGISTERS_BESIDE + step_registers(spec, WIDE)


def most_blocks(spec: KernelSpec, options: GroupedOptions) -> int:
    """Blocks that a multiprocessor has registers and shared memory for."""
    return fitting_blocks(spec.hardware, planned_registers(spec, options), -(-threads_of(spec, options) // LANES),
                          shared_bytes(spec, options))


def make_numbers(spec: KernelSpec, options: GroupedOptions, arguments: tuple[Argument, ...] = ()) -> GroupedNumbers:
    """All numbers of plan values that fit together."""
    threads, pieces = threads_of(spec, options), pieces_of(spec, options)
    rows, columns = halo(spec, options)
    return GroupedNumbers(
        arguments=arguments, threads=threads, channels=channels_of(spec, options),
        block_filters=options.groups_tile * spec.filters, group_lanes=group_lanes(spec, options),
        filter_lanes=filter_lanes(spec, options), filter_row=options.groups_tile * spec.filters + ROW_FILLING,
        filter_elements=filter_elements(spec, options), runs_across=options.tile_q // options.columns, halo_rows=rows,
        halo_columns=columns, pieces=pieces, pixel_threads=threads // pieces, idle_threads=threads % pieces != 0,
        buffer=buffer_of(spec, options), window_pixels=window_pixels(spec, options), load=load_of(spec),
        tap_by_tap=spec.r == 1 < spec.s, find_pixels=finds_pixels(spec), shared_bytes=shared_bytes(spec, options))
