"""The sizes of ``taps_ieee``: what lies where in shared memory and in registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import BANKS, LANES
from warpconv.codegen.parts.first_layers import finds_pixels, pixel_of
from warpconv.codegen.parts.lines import Lines, lines_of
from warpconv.codegen.parts.occupancy import fitting_blocks, step_registers, thread_registers
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import TapsIeeeOptions

ITEMSIZE = 4
WIDE = 4                        # elements of 16 bytes
BUFFERS = 2                     # tiles' pixels in shared memory: of the one that is multiplied, and of the next
ROW_FILLING = 4                 # elements behind a product's filters: rows begin in different banks
REGISTERS_BESIDE = 28           # of a thread beside sums, pixels and filters
MOST_TOGETHER = 16              # products of a window's lines of a plane in text of their own each; of more, a loop
EXCHANGED_FILTERS = 4           # whose outputs change hands at a time


@dataclass(frozen=True)
class TapsIeeeNumbers:
    """What the template of ``taps_ieee`` writes besides the spec."""

    arguments: tuple[Argument, ...]
    threads: int
    copiers: int                # warps that copy pixels: all
    runs: int                   # of a tile: outputs of a thread side by side
    runs_across: int            # of these in a row
    block_filters: int          # of a block
    filter_blocks: int          # blocks that share out a group's
    guard_filters: bool         # whether the last has fewer
    filter_row: int             # elements from a product's filters to the next product's
    filter_elements: int        # of all products
    whole_lines: bool           # whether every line of x begins with 16 bytes
    together: bool              # whether lines of a plane are multiplied in text of their own each
    tap_by_tap: bool            # whether a tap's filters are not loaded before the products of the one before
    halo_rows: int
    pixel: int                  # elements of a pixel in a line of the image
    line: int                   # elements from a line to the next, or at least
    lead: int                   # elements of a line before the first that a window reads
    pieces: int                 # copies of a line,
    piece_lanes: int            # by so many threads,
    piece_rounds: int           # so often
    lines: int                  # of a tile
    planes: int                 # planes of channels
    plane: int                  # elements from one to the next, or at least
    buffer: int                 # elements of a tile's pixels
    window: int                 # elements of a line that a thread's windows have, and what is loaded with them
    edges: bool                 # whether columns stand in the padding
    find_pixels: bool           # whether what stands in the padding is a pixel of the image
    exchanged: bool             # whether a warp's outputs change hands before they are stored,
    exchanges_at: int           # elements before the first warp's,
    exchange: int               # and of one
    settled: bool               # whether where a filter's outputs lie in y is found anew for every tile
    shared_bytes: int


def runs_of(options: TapsIeeeOptions) -> int:
    """Of a tile."""
    return options.tile_p * options.tile_q // options.columns


def threads_of(options: TapsIeeeOptions) -> int:
    """Of a block."""
    return options.filter_lanes * runs_of(options)


def block_filters(options: TapsIeeeOptions) -> int:
    """Filters of a block."""
    return options.filters * options.filter_lanes


def filter_blocks(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Blocks that share out a group's filters."""
    return -(-spec.filters // block_filters(options))


def halo(spec: KernelSpec, options: TapsIeeeOptions) -> Lines:
    """A tile's pixels in shared memory. Windows of the last run may be loaded by whole 16 bytes."""
    return lines_of(spec, (options.tile_p, options.tile_q), options.vector > 1, WIDE)


def window_of(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Elements of a line that a thread has in registers."""
    elements = ((options.columns - 1) * spec.stride[1] + spec.extents[1]) * pixel_of(spec)
    if options.vector == 1:
        return elements
    lead = halo(spec, options).lead
    return -(-(lead + elements) // WIDE) * WIDE


def filter_elements(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Of a block's filters in shared memory."""
    return spec.reduction * (block_filters(options) + ROW_FILLING)


def shared_bytes(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Of a block: its filters, two tiles' pixels, and outputs that change hands."""
    return ITEMSIZE * (exchanges_at(spec, options) + exchange_of(spec, options) * threads_of(options) // LANES)


def is_exchanged(spec: KernelSpec, options: TapsIeeeOptions) -> bool:
    """Whether a warp's outputs change hands before they are stored: those of a thread, side by side, would be several
    stores, each of which has but a part of what memory is written by."""
    return spec.layout is Layout.NCHW and options.store_vector < WIDE


def exchanges_at(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Elements before these in shared memory."""
    return filter_elements(spec, options) + BUFFERS * halo(spec, options).elements


def exchange_of(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Elements of a warp's."""
    return EXCHANGED_FILTERS * LANES * options.columns if is_exchanged(spec, options) else 0


def planned_registers(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Of a thread: sums, a line's pixels, a product's filters, and what the epilogue takes of a store."""
    held = options.columns * options.filters + window_of(spec, options) + options.filters
    return held + REGISTERS_BESIDE + step_registers(spec, options.store_vector)


def _is_settled(spec: KernelSpec, options: TapsIeeeOptions) -> bool:
    """Whether there are no registers for where each filter's outputs lie in y, which compilers would find ahead of all
    tiles."""
    room = thread_registers(-(-threads_of(options) // LANES), options.min_blocks)
    return is_exchanged(spec, options) and planned_registers(spec, options) + options.filters > room


def window_passes(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Passes over shared memory in which a warp loads the next of its windows: as many as there are different places in
    a bank, or in four neighbouring ones of a load of 16 bytes."""
    lines = halo(spec, options)
    apart, across = options.columns * spec.stride[1] * pixel_of(spec), options.tile_q // options.columns
    if spec.layout is Layout.NCHW:
        runs: Iterable[int] = range(min(LANES, runs_of(options)))
    else:
        runs = {lane // options.filter_lanes for lane in range(LANES)}
    places = {(run // across * spec.stride[0] * lines.line + run % across * apart) // options.vector for run in runs}
    return max(Counter(place % (BANKS // options.vector) for place in places).values())


def most_blocks(spec: KernelSpec, options: TapsIeeeOptions) -> int:
    """Blocks that a multiprocessor has registers and shared memory for."""
    return fitting_blocks(spec.hardware, planned_registers(spec, options), threads_of(options) // LANES,
                          shared_bytes(spec, options))


def make_numbers(spec: KernelSpec, options: TapsIeeeOptions,
                 arguments: tuple[Argument, ...] = ()) -> TapsIeeeNumbers:
    """All numbers of plan values that fit together."""
    lines, pixel = halo(spec, options), pixel_of(spec)
    planes, together = spec.channels // pixel, spec.r * spec.s * pixel <= MOST_TOGETHER
    return TapsIeeeNumbers(
        arguments=arguments, threads=threads_of(options), copiers=threads_of(options) // LANES, runs=runs_of(options),
        runs_across=options.tile_q // options.columns, block_filters=block_filters(options),
        filter_blocks=filter_blocks(spec, options),
        guard_filters=filter_blocks(spec, options) * block_filters(options) > spec.filters,
        filter_row=block_filters(options) + ROW_FILLING,
        filter_elements=filter_elements(spec, options), whole_lines=options.vector > 1,
        together=together, tap_by_tap=spec.r == planes == 1 < spec.s and not together, halo_rows=lines.rows,
        pixel=pixel, line=lines.line, lead=lines.lead, pieces=lines.pieces, piece_lanes=lines.piece_lanes,
        piece_rounds=lines.piece_rounds,
        lines=planes * lines.rows, planes=planes, plane=lines.plane, buffer=lines.elements,
        window=window_of(spec, options), edges=any(spec.padding[1]), find_pixels=finds_pixels(spec),
        exchanged=is_exchanged(spec, options), exchanges_at=exchanges_at(spec, options),
        exchange=exchange_of(spec, options), settled=_is_settled(spec, options),
        shared_bytes=shared_bytes(spec, options))


def store_width(spec: KernelSpec, q: int | None) -> int:
    """Outputs of a store: filters in NHWC, in NCHW columns of rows of ``q``, as many as divide them."""
    of = spec.k if spec.layout is Layout.NHWC else q
    return 1 if of is None else next(width for width in (4, 2, 1) if of % width == 0)
