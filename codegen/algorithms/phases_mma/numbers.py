"""Every number in the text of ``phases_mma``."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.mma import (MATRIX_COLUMNS, MATRIX_ROWS, cell_of, matrix_depth,
                                        registers_of_factors)
from warpconv.codegen.parts.occupancy import blocks_by_quarters
from warpconv.codegen.parts.phases import Phase, Place, phases_of, places_of, steps_of
from warpconv.codegen.parts.reordered import Order
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics

from .options import PhasesMmaOptions

COPY_BYTES = (16, 8, 4)         # of an asynchronous copy
STORED_TOGETHER = 8             # 16-bit channels that a lane stores after an exchange
BANK_BYTES = 4
TURN_TILE, TURN_ROWS = 32, 8    # of the launch before: filters x (channel, tap) of a block, and its rows of threads
REGISTERS_BESIDE = 40           # of a thread besides sums, factors and windows,
REGISTERS_SINGLE = 24           # and of float32, by what ptxas takes (sm_80, sm_90)


@dataclass(frozen=True)
class PhasesMmaNumbers:
    """What the template writes besides spec and options."""

    arguments: tuple[Argument, ...]     # of the product's entry
    cell: int               # elements of 16 bytes,
    depth: int              # and products of a pixel that an instruction adds
    split_factors: bool     # whether factors are float32 in two parts
    phases: tuple[Phase, ...]           # those of the most taps first
    places: tuple[Place, ...]           # of every tap
    steps: tuple[int, ...]  # outputs from a tap of a phase to the next one, backwards, along each axis
    vector: int             # elements of a copy,
    copy_bytes: int         # and its bytes
    store_vector: int       # channels that a lane stores together
    threads: int
    warp_m: int             # pixels and channels of a warp
    warp_n: int
    matrices_m: int
    matrices_n: int
    cells: int              # 16 bytes each: of a row of a tile
    swizzle: str            # what a cell's number is combined with, and the bits of it
    swizzle_mask: int
    copy_columns: int       # copies of a row
    copy_rows: int          # rows that a block copies at once
    pixel_copies: int       # of a thread
    filter_copies: int
    tap_chunks: int         # copies of a tap's filters
    n_tiles: int            # tiles of a group's channels
    guard_channels: bool    # whether the last of them has fewer
    odd_channels: bool      # whether the second of two neighbours may be beyond the last
    stores_bias: bool
    stage: int              # elements of a stage
    shared_bytes: int
    stages_ahead: int
    turn_tiles: tuple[int, int]     # blocks of the launch before, for a group: of filters, and of (channel, tap)
    turn_tile: int
    turn_gap: int           # elements beside a row of its tile: a column's lie in different banks
    turn_rows: int
    registers: int
    orders: tuple[Order, ...] = ()      # arrays that are brought to NHWC, and back


def vector_of(spec: KernelSpec) -> int:
    """The widest copy that the filters of a group consist of."""
    itemsize = spec.dtype.itemsize
    return next(bytes // itemsize for bytes in COPY_BYTES if spec.filters * itemsize % bytes == 0)


def resolved(spec: KernelSpec, options: PhasesMmaOptions) -> PhasesMmaOptions:
    """``options`` with every derived value in its place."""
    if options.min_blocks != DERIVED:
        return options
    return replace(options, min_blocks=resident_of(spec, options))


def threads_of(options: PhasesMmaOptions) -> int:
    return LANES * options.warps_m * options.warps_n


def planned_registers(spec: KernelSpec, options: PhasesMmaOptions) -> int:
    """Of a thread: sums, one depth's factors, where the pixels lie that it copies."""
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    windows = options.tile_m * options.tile_k // (vector_of(spec) * threads_of(options))
    factors = registers_of_factors(spec, warp_m // MATRIX_ROWS, warp_n // MATRIX_COLUMNS)
    beside = REGISTERS_BESIDE + (REGISTERS_SINGLE if spec.dtype is DType.FLOAT32 else 0)
    return warp_m * warp_n // LANES + factors + (1 + len(spec.taps)) * windows + beside


def shared_bytes(spec: KernelSpec, options: PhasesMmaOptions) -> int:
    """Of a block: its tiles of pixels and filters."""
    return spec.dtype.itemsize * options.stages * (options.tile_m + options.tile_n) * options.tile_k


def resident_of(spec: KernelSpec, options: PhasesMmaOptions) -> int:
    """Blocks that a multiprocessor holds, by registers, threads and shared memory."""
    by_shared = spec.hardware.shared_multiprocessor // (shared_bytes(spec, options) + spec.hardware.shared_reserved)
    registers, warps = planned_registers(spec, options), options.warps_m * options.warps_n
    return max(1, min(blocks_by_quarters(spec.hardware, registers, warps), by_shared))


def _store_vector(spec: KernelSpec, warp_n: int) -> int:
    exchanged = spec.dtype.is_half and warp_n % (4 * MATRIX_COLUMNS) == 0
    if exchanged and spec.channels % STORED_TOGETHER == 0:
        return STORED_TOGETHER
    return 2 if spec.channels % 2 == 0 else 1


def make_numbers(spec: KernelSpec, options: PhasesMmaOptions, arguments: tuple[Argument, ...]) -> PhasesMmaNumbers:
    """All numbers of a plan whose values are resolved, and fit together."""
    phases, vector, threads = phases_of(spec), vector_of(spec), threads_of(options)
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    cells, columns = options.tile_k // cell_of(spec), options.tile_k // vector
    rows = threads // columns
    return PhasesMmaNumbers(
        arguments=arguments, cell=cell_of(spec), depth=matrix_depth(spec),
        split_factors=spec.numerics is Numerics.TF32X3, phases=phases, places=places_of(spec),
        steps=steps_of(spec), vector=vector, copy_bytes=spec.dtype.itemsize * vector,
        store_vector=_store_vector(spec, warp_n), threads=threads, warp_m=warp_m, warp_n=warp_n,
        matrices_m=warp_m // MATRIX_ROWS, matrices_n=warp_n // MATRIX_COLUMNS, cells=cells,
        swizzle="row" if cells == 8 else "row >> 1", swizzle_mask=cells - 1, copy_columns=columns, copy_rows=rows,
        pixel_copies=options.tile_m // rows, filter_copies=-(-options.tile_n // rows),
        tap_chunks=spec.filters // vector, n_tiles=-(-spec.channels // options.tile_n),
        guard_channels=spec.channels % options.tile_n != 0, odd_channels=spec.channels % 2 != 0,
        stores_bias=Epilogue.BIAS in spec.epilogue, stage=(options.tile_m + options.tile_n) * options.tile_k,
        shared_bytes=shared_bytes(spec, options), stages_ahead=options.stages - 2,
        turn_tiles=(-(-spec.filters // TURN_TILE), -(-spec.channels * math.prod(spec.taps) // TURN_TILE)),
        turn_tile=TURN_TILE, turn_gap=BANK_BYTES // spec.dtype.itemsize, turn_rows=TURN_ROWS,
        registers=planned_registers(spec, options))
