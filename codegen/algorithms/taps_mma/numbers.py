"""Every number in the text of ``taps_mma``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.first_layers import LANES_EACH, run_of
from warpconv.codegen.parts.mma import MATRIX_COLUMNS, MATRIX_ROWS
from warpconv.codegen.parts.occupancy import fitting_blocks, thread_registers
from warpconv.codegen.parts.wgmma import ROW_BYTES
from warpconv.codegen.parts.window_pairs import (ITEMSIZE, SIDE_THREADS, STEP_DEPTHS, PairNumbers, by_side,
                                                 column_unit, depths_of, halo, held_versions, is_free, pair_fields,
                                                 quads_of, sides_of, version_bytes)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import TapsMmaOptions

COLUMNS_AT_ONCE = 2             # matrices of filters that ldmatrix loads at a time, with both halves of their products
MATRIX_SUMS = 4                 # of a lane
MOST_REGISTERS = 255
MOST_BLOCKS = 4                 # of a multiprocessor, which wait for each other's pixels
TIGHT_REGISTERS = 224           # planned, beyond which few are left
MANY_DEPTHS = {Layout.NHWC: 16, Layout.NCHW: 8}     # instructions of a window
# of a thread, beside sums, factors and places
REGISTERS_BESIDE = {Layout.NHWC: 40, Layout.NCHW: 48}
REGISTERS_MOVING = 24           # and where the side that a window begins at finds its factors' places
FEW_PLACES = 32                 # of factors, which compilers add to a window's again where they have no registers


class Ahead(enum.Enum):
    """Where a warp meets, past which compilers load nothing ahead."""

    FREE = "free"       # nowhere,
    SUMS = "sums"       # between sums of even columns and of odd ones,
    STEP = "step"       # before each step


@dataclass(frozen=True)
class TapsMmaNumbers(PairNumbers):
    """What the templates of ``taps_mma`` write besides the spec."""

    arguments: tuple[Argument, ...]
    sums: int                   # of a thread, of sixteen outputs
    threads: int
    registers: int              # about so many of a thread
    members: int                # warps that share out a tile, or a side of it
    items: int                  # that these have of it
    sides_apart: bool           # whether each side of pairs has warps of its own
    ahead: Ahead                # how far compilers may load ahead
    settled: bool               # whether a factor's place is added to its window's anew for every tile
    halos_at: int
    shared_bytes: int
    copiers: int                # warps that copy pixels: all
    row_bytes: int = ROW_BYTES  # of a filter's products of a step
    step_depths: int = STEP_DEPTHS
    side_threads: int = SIDE_THREADS


def filter_unit(spec: KernelSpec, options: TapsMmaOptions) -> int:
    """Filters that a tile has a whole number of."""
    return max(COLUMNS_AT_ONCE * MATRIX_COLUMNS, column_unit(spec, options))


def item_outputs(spec: KernelSpec, options: TapsMmaOptions) -> int:
    """Of a tile that are shared out at a time: a warp's, and where sides are products of their own as many besides."""
    return MATRIX_ROWS * options.matrices * (2 if by_side(spec, options) else 1)


def items_of(spec: KernelSpec, options: TapsMmaOptions) -> int:
    """What warps, or those of a side, have to do for a tile."""
    return options.tile_p * options.tile_q // item_outputs(spec, options)


def shared_bytes(spec: KernelSpec, options: TapsMmaOptions) -> int:
    """Of a block: filters, pixels."""
    return (held_versions(spec, options) * version_bytes(spec, options)
            + options.buffers * ITEMSIZE * halo(spec, options).elements)


def planned_registers(spec: KernelSpec, options: TapsMmaOptions) -> int:
    """Of a thread: sums, places of factors, and factors of a step."""
    sums = options.matrices * options.filters // MATRIX_COLUMNS * MATRIX_SUMS
    factors = options.matrices * STEP_DEPTHS * LANES_EACH
    planes = 2 if spec.layout is Layout.NCHW else 1
    moving = REGISTERS_MOVING if is_free(spec, options) else 0
    return planes * sums + factors + quads_of(spec, options)[1] + REGISTERS_BESIDE[spec.layout] + moving


def _is_tight(spec: KernelSpec, options: TapsMmaOptions) -> bool:
    """Whether a thread has few registers left."""
    return planned_registers(spec, options) > TIGHT_REGISTERS


def _ahead(spec: KernelSpec, options: TapsMmaOptions) -> Ahead:
    """How far compilers may load ahead: of many products they would load so many factors before these, or multiply
    those of odd columns with those of even ones, that there are no registers."""
    if depths_of(spec, options) <= MANY_DEPTHS[spec.layout]:
        return Ahead.FREE
    if _is_tight(spec, options):
        return Ahead.STEP
    return Ahead.SUMS if spec.layout is Layout.NCHW else Ahead.FREE


def _is_settled(spec: KernelSpec, options: TapsMmaOptions, beside: int) -> bool:
    """Whether there are no registers for the sums of a window's place and a factor's: where a warp has the same windows
    in all tiles compilers work them out ahead of these, and keep a register for each if they are many."""
    places = quads_of(spec, options)[1] + (run_of(spec)[1] if options.vector == 1 else 0)   # else runs' are constants
    few = FEW_PLACES // 2 if _is_tight(spec, options) else FEW_PLACES
    if places <= few or items_of(spec, options) > options.warps // sides_of(spec, options):
        return False
    windows = options.matrices * (1 if beside else 2) * (2 if spec.layout is Layout.NCHW else 1)
    room = thread_registers(options.warps, options.min_blocks)
    return planned_registers(spec, options) + windows * places > room


def resolved(spec: KernelSpec, options: TapsMmaOptions) -> TapsMmaOptions:
    """With the blocks of a multiprocessor that registers and shared memory have room for."""
    if options.min_blocks != DERIVED:
        return options
    blocks = fitting_blocks(spec.hardware, planned_registers(spec, options), options.warps, shared_bytes(spec, options))
    return replace(options, min_blocks=min(MOST_BLOCKS, blocks))


def make_numbers(spec: KernelSpec, options: TapsMmaOptions, arguments: tuple[Argument, ...] = ()) -> TapsMmaNumbers:
    """All numbers of resolved plan values that fit together."""
    fields = pair_fields(spec, options)
    return TapsMmaNumbers(
        **fields, arguments=arguments, sums=fields["blocks"] * MATRIX_SUMS, threads=LANES * options.warps,
        registers=planned_registers(spec, options), members=options.warps // sides_of(spec, options),
        items=items_of(spec, options), sides_apart=sides_of(spec, options) == 2,
        ahead=_ahead(spec, options), settled=_is_settled(spec, options, fields["beside"]),
        halos_at=fields["filter_bytes"], shared_bytes=shared_bytes(spec, options), copiers=options.warps)
