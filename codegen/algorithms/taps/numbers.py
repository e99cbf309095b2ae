"""Every number in the text of ``taps``."""

from __future__ import annotations

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, PORTABLE_SHARED
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.cells import are_permuted
from warpconv.codegen.parts.occupancy import fitting_blocks, step_registers, thread_registers
from warpconv.codegen.plan import Argument
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .options import TapsOptions

DEPTH = 16                      # products of an instruction
SLOTS = 4                       # channels that a lane takes of a product, eight bytes
WIDE = 8                        # channels of a row of matrices that lanes load together
CELLS = (WIDE, SLOTS)           # channels of a pixel that lie side by side in shared memory
MOST_CHANNELS = 32              # of a group: its filters lie in shared memory as a whole
STRIP, BLOCK = 16, 8            # outputs of a strip, filters (or columns) of a matrix
QUAD = 4                        # matrices whose lanes exchange words
BATCH = 4                       # fours of channels that a thread loads before it stores the first
SIDE_THREADS = 256
REGISTERS_BESIDE = 56           # of a thread besides sums, pixels and filters
FOUR_REGISTERS = 13             # of each four taps of a row but the first: without, 11x11 spills on sm_80
MOST_OFFSETS = 10               # places of a lane's taps that it keeps in registers,
MOST_HELD = 48                  # and registers of filters that it keeps for all tiles,
HELD_REGISTERS = 168            # where it has no more than these
ZEROS = 8                       # elements that lanes without a tap load
MOST_REGISTERS = 232
MANY_CHUNKS = 13                # instructions of an output's products
FEW_FREE = 8                    # registers of a thread beside which filters that it keeps may be spilled
FEW_PLACES = 28                 # of pixels, which compilers find again where they have no registers for them
MOST_UNROLLED = 256             # instructions of a warp's sums that are written one after the other
STORES = (8, 4, 2, 1)


@dataclass(frozen=True)
class TapsNumbers:
    """What the templates of ``taps`` write besides the spec."""

    arguments: tuple[Argument, ...]
    groups: int                 # of the products: several of the layer where these are joined,
    channels: int               # their channels
    filters: int                # and filters
    lanes_each: int             # of four, which have a joined group's channels of a pixel, and its filters' sums
    threads: int
    cell: int                   # channels of a pixel that lie side by side in shared memory,
    cells: int                  # times which hold a group's
    chunk_cells: int            # that an instruction takes, each of a tap
    chunks: int                 # instructions of all taps of all cells
    guard_taps: bool            # whether the last has fewer
    lane_offsets: bool          # whether lanes take different taps,
    held_offsets: bool          # whose places they keep
    held_filters: bool          # whether a thread keeps its filters for all tiles
    zeros: bool                 # whether lanes without a tap load zeros from shared memory
    piece: int                  # channels of a copy
    pieces: int                 # copies of a group's pixel
    piece_channels: int         # that a piece has
    guard_channels: bool        # whether the last has fewer
    tiles_ahead: int            # whose pixels are on their way while one is multiplied
    blocks: int                 # eights of filters of a group in a block
    rows: int                   # matrices of a warp's sums: pixels or filters, 16 each,
    columns: int                # and the other, 8 each
    n_tiles: int                # tiles of a group's filters
    runs_across: int            # eights of columns of a tile's row
    strip_sets: int             # sets of strips of a tile
    items: int                  # what a block's warps share
    halo_rows: int
    halo_columns: int
    phases: int                 # sets of columns, those equal modulo the stride, which stand together in shared memory,
    phase_columns: int          # of so many columns
    pitch: int                  # pixels of a row there
    together: bool              # whether a pixel's cells lie side by side there; else each has a plane of its own
    octets: int                 # cells of a pixel of all groups of a block
    plane: int                  # pixels in shared memory; of a plane an odd number
    buffer: int                 # elements of a tile's pixels in shared memory
    copies: int                 # pieces that a block copies for a tile,
    pixel_pieces: int           # of a pixel,
    pixel_threads: int          # by so many threads at a time
    idle_threads: bool          # whether others are left
    group_filters: int          # fours of elements of a group's filters in a block
    shared_bytes: int
    settled: bool               # whether places of pixels are found anew for every tile
    in_order: bool              # whether pixels are loaded no further ahead than to the next barrier of a warp
    unrolled: bool              # whether the fours of taps are written one after the other
    find_pixels: bool           # whether what stands in the padding is a pixel of the image,
    registers: int
    batch: int = BATCH
    side_threads: int = SIDE_THREADS


def joined_spec(spec: KernelSpec, options: TapsOptions) -> KernelSpec:
    """The layer as its products see it: of ``joined`` times fewer groups. All functions below are of such a spec."""
    return replace(spec, groups=spec.groups // options.joined) if options.joined > 1 else spec


def most_joined(spec: KernelSpec) -> int:
    """Groups of a layer that may be joined, as many as fill the channels of a row of matrices and its filters: in NHWC,
    of two or four channels and as many filters each, whose sums are then a lane's own."""
    several = WIDE // spec.channels if spec.channels in (2, 4) and spec.filters == spec.channels else 1
    return several if spec.layout is Layout.NHWC and spec.groups % several == 0 else 1


def cell_of(spec: KernelSpec) -> int:
    """Channels of a pixel that lie side by side in shared memory: the widest that a group fills, the narrowest that
    holds one which fills none."""
    filled = (cell for cell in CELLS if spec.channels % cell == 0)
    return next(filled, SLOTS if spec.channels < SLOTS else WIDE)


def cells_of(spec: KernelSpec) -> int:
    """Cells of a group's pixel."""
    return -(-spec.channels // cell_of(spec))


def chunks_of(spec: KernelSpec) -> int:
    """Instructions of all products of an output."""
    return -(-spec.r * spec.s * cells_of(spec) * cell_of(spec) // DEPTH)


def widest_copy(spec: KernelSpec) -> int:
    """Channels that can be copied as they lie in x: whole cells; 1 where they are gathered."""
    copied = spec.layout is Layout.NHWC and spec.padding_mode is not Border.CONSTANT
    return cell_of(spec) if copied and spec.channels % cell_of(spec) == 0 else 1


def piece_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Channels that a thread copies at a time."""
    return max(SLOTS, options.vector or widest_copy(spec))


def blocks_of(options: TapsOptions) -> int:
    """Eights of filters in a tile."""
    return options.tile_filters // BLOCK


def matrices(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows (of 16) and columns (of 8) of matrices of a warp's sums: in NHWC pixels and filters, in NCHW filters and
    pixels, so that eight that lie side by side in memory are one column's."""
    if spec.layout is Layout.NHWC:
        return options.strips, -(-options.warp_groups * blocks_of(options) // QUAD) * QUAD
    return -(-blocks_of(options) // 2), 2 * options.strips


def halo(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows and columns of the input that a tile of outputs reads."""
    rows, columns = ((outputs - 1) * stride + extent for outputs, stride, extent in zip(
        (options.tile_p, options.tile_q), spec.stride, spec.extents))
    return rows, columns


def pixel_pieces(spec: KernelSpec, options: TapsOptions) -> int:
    """Copies of a pixel of all groups of a block."""
    return octets_of(spec, options) * cell_of(spec) // piece_of(spec, options)


def octets_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Cells of a pixel of all groups of a block."""
    return options.groups_tile * cells_of(spec)


def lies_together(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether the cells of a pixel lie side by side in shared memory: so that a copy of them is one request of the
    second-level cache, where a plane for each takes one for every 16 bytes."""
    whole = cell_of(spec) == WIDE and (options.vector or widest_copy(spec)) == WIDE
    return whole and are_permuted(octets_of(spec, options))


def plane_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Pixels of a group's cell in shared memory; an odd number of them where cells have planes, so that groups lie in
    different banks."""
    pixels = halo(spec, options)[0] * pitch_of(spec, options)
    return pixels if lies_together(spec, options) else pixels | 1


def phases_of(spec: KernelSpec) -> int:
    """Sets of columns, each of those that a window moves by: so that the rows of a matrix lie side by side."""
    return spec.stride[1] if cell_of(spec) == WIDE else 1


def pitch_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Pixels of a row in shared memory."""
    phases = phases_of(spec)
    return phases * -(-halo(spec, options)[1] // phases)


def shared_bytes(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a block: its filters, then the pixels."""
    filters = 0 if holds_filters(spec, options) else options.groups_tile * _filters(spec, options) * LANES * SLOTS
    return 2 * (filters + options.buffers * buffer_of(spec, options) + (ZEROS if loads_zeros(spec) else 0))


def _filters(spec: KernelSpec, options: TapsOptions) -> int:
    """Instructions of one output of each filter of a group in the tile: a lane has four elements for each."""
    return chunks_of(spec) * blocks_of(options)


def is_guarded(spec: KernelSpec) -> bool:
    """Whether the last instruction has fewer taps than lanes could take."""
    return spec.r * spec.s * cells_of(spec) * cell_of(spec) % DEPTH != 0


def loads_zeros(spec: KernelSpec) -> bool:
    """Whether lanes without a tap give a row of zeros to the others."""
    return cell_of(spec) == WIDE and is_guarded(spec)


def buffer_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Elements of a tile's pixels."""
    return octets_of(spec, options) * cell_of(spec) * plane_of(spec, options)


def store_width(spec: KernelSpec, shape: ConvShape | None) -> int:
    """Elements of a store that lie side by side and aligned: filters in NHWC; in NCHW columns, of a width that all
    rows have (1 where the sizes are not known). Without groups, and of rows of more than two runs, stores of fewer than
    eight columns are slower than single ones of 32 lanes side by side: 3 -> 64 on 222^2, batch 32, 539 us for 327 (an
    H200, 2026-11-27)."""
    if spec.layout is Layout.NHWC:
        return next(v for v in STORES if spec.filters % v == 0)
    if shape is None or spec.groups == 1 and shape.q > 2 * BLOCK and shape.q % max(STORES):
        return 1
    return next(v for v in STORES if shape.q % v == 0)


def planned_registers(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a thread: sums, a strip's pixels, an instruction's filters or all of them."""
    return _registers(spec, options, holds_filters(spec, options))


def _registers(spec: KernelSpec, options: TapsOptions, held: bool) -> int:
    rows, columns = matrices(spec, options)
    fours = -(-spec.s * cell_of(spec) // DEPTH)
    offsets = chunks_of(spec) if holds_offsets(spec, options) else FOUR_REGISTERS * (fours - 1)
    filters = 2 * (options.warp_groups * _filters(spec, options) if held else blocks_of(options))
    return (4 * rows * columns + 4 * options.strips + filters + offsets
            + REGISTERS_BESIDE + step_registers(spec, 2 * QUAD))


def is_unrolled(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether the products of an output are written one after the other."""
    rows, columns = matrices(spec, options)
    return chunks_of(spec) * rows * columns <= MOST_UNROLLED


def has_lane_offsets(spec: KernelSpec) -> bool:
    """Whether the lanes of an instruction take different taps: not two cells of the same one."""
    return cell_of(spec) == SLOTS or cells_of(spec) % 2 != 0


def holds_offsets(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether a lane keeps where its taps lie."""
    return has_lane_offsets(spec) and chunks_of(spec) <= MOST_OFFSETS and is_unrolled(spec, options)


def holds_filters(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether a thread keeps its filters: where all warps of a block have the same, and they are few."""
    few = 2 * options.warp_groups * _filters(spec, options) <= MOST_HELD
    return (few and options.groups_tile == options.warp_groups and is_unrolled(spec, options)
            and _registers(spec, options, True) <= HELD_REGISTERS)


def items_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a tile: what a warp has of it at a time."""
    return options.groups_tile // options.warp_groups * strip_sets(options)


def strip_sets(options: TapsOptions) -> int:
    """Of a tile's outputs."""
    return options.tile_p * options.tile_q // (BLOCK * 2 * options.strips)


def places_without_registers(spec: KernelSpec, options: TapsOptions) -> int:
    """Where a warp has the same windows in all tiles compilers find where their pixels lie ahead of these, and keep it:
    those places that there are no registers for, of resolved plan values."""
    if not is_unrolled(spec, options) or items_of(spec, options) > options.warps:
        return 0
    places = options.strips * chunks_of(spec) * (options.warp_groups if lies_together(spec, options) else 1)
    return max(0, planned_registers(spec, options) + places - thread_registers(options.warps, options.min_blocks))


def is_settled(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether they are so many that places are found anew for every tile."""
    return places_without_registers(spec, options) > FEW_PLACES


def has_registers(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether compilers have registers for all that they keep."""
    free = thread_registers(options.warps, options.min_blocks) - planned_registers(spec, options)
    return places_without_registers(spec, options) == 0 and not (holds_filters(spec, options) and free < FEW_FREE)


def _is_in_order(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether compilers would load so many pixels ahead of their products that there are no registers for them."""
    return (is_unrolled(spec, options) and chunks_of(spec) >= MANY_CHUNKS
            and (is_settled(spec, options) or options.warp_groups == QUAD))


def resident(spec: KernelSpec, options: TapsOptions) -> int:
    """Blocks of a multiprocessor."""
    return fitting_blocks(spec.hardware, planned_registers(spec, options), max(1, options.warps),
                          shared_bytes(spec, options))


def resolved(spec: KernelSpec, options: TapsOptions, shape: ConvShape | None = None) -> TapsOptions:
    """``options`` with every derived value in its place."""
    vector = options.vector or widest_copy(spec)
    narrow = vector < widest_copy(spec)         # for arrays at any address
    store = options.store_vector or (1 if narrow else store_width(spec, shape))
    options = replace(options, vector=vector, store_vector=store)
    return options if options.min_blocks != DERIVED else replace(options, min_blocks=resident(spec, options))


def fits(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether registers and shared memory hold it, and a block's threads copy a pixel at once."""
    return (shared_bytes(spec, options) <= PORTABLE_SHARED and pixel_pieces(spec, options) <= LANES * options.warps
            and planned_registers(spec, options) <= MOST_REGISTERS)


def make_numbers(layer: KernelSpec, options: TapsOptions, arguments: tuple[Argument, ...]) -> TapsNumbers:
    """All numbers of a plan of a layer whose values are resolved, and fit together."""
    spec = joined_spec(layer, options)
    rows, columns = matrices(spec, options)
    halo_rows, halo_columns = halo(spec, options)
    runs_across = options.tile_q // BLOCK
    chunks, cell, cells = chunks_of(spec), cell_of(spec), cells_of(spec)
    pieces = cells * cell // piece_of(spec, options)
    padded = any(map(any, spec.padding))
    return TapsNumbers(
        arguments=arguments, groups=spec.groups, channels=spec.channels, filters=spec.filters,
        lanes_each=QUAD // options.joined, threads=LANES * options.warps, cell=cell, cells=cells,
        chunk_cells=DEPTH // cell, chunks=chunks, guard_taps=is_guarded(spec), lane_offsets=has_lane_offsets(spec),
        held_offsets=holds_offsets(spec, options), held_filters=holds_filters(spec, options), zeros=loads_zeros(spec),
        piece=piece_of(spec, options), pieces=pieces,
        piece_channels=min(piece_of(spec, options), spec.channels),
        guard_channels=spec.channels > SLOTS and spec.channels % SLOTS != 0, tiles_ahead=options.buffers - 1,
        blocks=blocks_of(options),
        rows=rows, columns=columns, n_tiles=-(-spec.filters // options.tile_filters), runs_across=runs_across,
        strip_sets=strip_sets(options), items=items_of(spec, options),
        settled=is_settled(spec, options), in_order=_is_in_order(spec, options),
        halo_rows=halo_rows, halo_columns=halo_columns, phases=phases_of(spec),
        phase_columns=-(-halo_columns // phases_of(spec)),
        pitch=pitch_of(spec, options), together=lies_together(spec, options), octets=octets_of(spec, options),
        plane=plane_of(spec, options), buffer=buffer_of(spec, options),
        copies=pixel_pieces(spec, options) * halo_rows * halo_columns, pixel_pieces=pixel_pieces(spec, options),
        pixel_threads=LANES * options.warps // pixel_pieces(spec, options),
        idle_threads=LANES * options.warps % pixel_pieces(spec, options) != 0,
        group_filters=chunks * blocks_of(options) * LANES, shared_bytes=shared_bytes(spec, options),
        unrolled=is_unrolled(spec, options), find_pixels=padded and spec.padding_mode.reads_image,
        registers=planned_registers(spec, options))
