"""The sizes of ``pointwise``: what lies where in shared memory and in registers."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, FEWER_REGISTERS, GROUPS, MORE_REGISTERS, ROW_BYTES,
                                          ROWS, THREADS, WORDS, WgmmaShape)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import PointwiseOptions

SLICE = 32                      # channels of a step: a filter's row of shared memory
PLANE_PIXELS = 32               # of a channel, side by side: such a row, too
DEPTH = 8                       # products of an instruction
SIDE_THREADS = 256              # of a block that prepares filters
REGISTERS_BESIDE = 56           # of a thread beside sums and factors


@dataclass(frozen=True)
class PointwiseNumbers:
    """What the templates of ``pointwise`` write besides the spec."""

    arguments: tuple[Argument, ...]
    shape: WgmmaShape
    tile_pixels: int
    group_bytes: int            # of shared memory: a group's pixels of a slice
    pixel_bytes: int            # those of both groups
    stage_bytes: int
    filter_tiles: int
    guard_filters: bool         # whether the last tile has fewer
    steps: int
    prepared: int               # elements of the prepared filter
    barriers_at: int
    shared_bytes: int
    blocks: int                 # eights of filters in a tile
    depths: int = SLICE // DEPTH
    depth_cells: int = DEPTH * 4 // CELL_BYTES
    plane_bytes: int = SLICE * ROW_BYTES
    groups: int = GROUPS
    threads: int = THREADS
    fewer_registers: int = FEWER_REGISTERS
    more_registers: int = MORE_REGISTERS
    side_threads: int = SIDE_THREADS
    slice: int = SLICE
    plane_pixels: int = PLANE_PIXELS


def steps_of(spec: KernelSpec) -> int:
    """Slices of the channels."""
    return -(-spec.c // SLICE)


def tile_pixels(options: PointwiseOptions) -> int:
    """Of a tile."""
    return GROUPS * ROWS * options.matrices


def stage_bytes(options: PointwiseOptions) -> int:
    """A slice of a tile's pixels and filters."""
    return (tile_pixels(options) + options.filters) * ROW_BYTES


def shared_bytes(options: PointwiseOptions) -> int:
    """Of a block: the ring, and its barriers."""
    return options.stages * (stage_bytes(options) + 2 * BARRIER_BYTES)


def planned_registers(options: PointwiseOptions) -> int:
    """Of a thread that multiplies: sums, and the factors of a step."""
    return options.matrices * (options.filters // 2 + WORDS * (SLICE // DEPTH)) + REGISTERS_BESIDE


def make_numbers(spec: KernelSpec, options: PointwiseOptions, arguments: tuple[Argument, ...] = ()
                 ) -> PointwiseNumbers:
    """All numbers of plan values that fit together."""
    pixels, steps = tile_pixels(options), steps_of(spec)
    return PointwiseNumbers(
        arguments=arguments, shape=WgmmaShape.of(options.filters), tile_pixels=pixels,
        group_bytes=pixels * ROW_BYTES // GROUPS, pixel_bytes=pixels * ROW_BYTES,
        stage_bytes=stage_bytes(options),
        filter_tiles=-(-spec.k // options.filters), guard_filters=spec.k % options.filters != 0,
        steps=steps, prepared=steps * spec.k * SLICE,
        barriers_at=options.stages * stage_bytes(options), shared_bytes=shared_bytes(options),
        blocks=options.filters // 8)
