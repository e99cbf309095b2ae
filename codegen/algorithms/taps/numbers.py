"""Every number in the text of ``taps``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.hardware import LANES, PORTABLE_SHARED
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.occupancy import fitting_blocks, step_registers, thread_registers
from warpconv.codegen.plan import Argument
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .geometry import (BLOCK, DEPTH, QUAD, SLOTS, WIDE, blocks_of, blocks_of_groups, buffer_of, cell_of, cells_of,
                       chunks_of, copy_turns, halo, has_whole_runs, is_copied, is_guarded, items_of, joined_spec,
                       lead_of, lies_together, lines_of, loaded_columns, matrices, octets_of, phases_of, piece_of,
                       pitch_of, pixel_pieces, plane_of, row_copies, run_columns, run_of, runs_of, sets_of,
                       store_width, strip_sets, strips_of, widest_copy)
from .options import TapsOptions

LOADED_WORDS = 32               # registers of what a thread loads before it stores the first of it
SIDE_THREADS = 256
BANK_BYTES = 128                # of all banks of shared memory
REGISTERS_BESIDE = {SLOTS: 56, WIDE: 36}    # of a thread besides sums, pixels and filters, by the cell
FOUR_REGISTERS = 13             # of each four taps of a row but the first: without, 11x11 spills on sm_80
MOST_OFFSETS = 10               # places of a lane's taps that it keeps in registers,
MOST_HELD = 48                  # and registers of filters that it keeps for all tiles,
HELD_REGISTERS = 168            # where it has no more than these,
BESIDE_HELD = 12                # and others that compilers take beside them
MOST_REGISTERS = 232
FEW_FREE = 8                    # registers of a thread beside which filters that it keeps may be spilled
FEW_PLACES = 28                 # of pixels, which compilers find again where they have no registers for them
ADDED = 6                       # outputs of a thread and a matrix: their sums' four, and their addresses
MOST_UNROLLED = 256             # instructions of a warp's sums that are written one after the other


@dataclass(frozen=True)
class TapsNumbers:
    """What the templates of ``taps`` write besides the spec."""

    arguments: tuple[Argument, ...]
    groups: int                 # of the products: several of the layer where these are joined,
    blocks_of_groups: int       # which so many blocks share out,
    guard_groups: bool          # the last of them fewer than the others;
    channels: int               # their channels
    filters: int                # and filters
    lanes_each: int             # of four, which have a joined group's channels of a pixel, and its filters' sums
    threads: int
    cell: int                   # channels of a pixel that lie side by side in shared memory,
    cells: int                  # times which hold a group's
    chunk_cells: int            # that an instruction takes, each of a tap
    chunks: int                 # instructions of all taps of all cells
    guard_taps: bool            # whether the last has fewer
    held_offsets: bool          # whether lanes keep where their taps of four channels lie
    held_filters: bool          # whether a thread keeps its filters for all tiles
    one_tap: bool               # whether both cells of an instruction are the same tap's
    sets: int                   # of lines of pixels, one for each column of the filter and cell,
    odd_sets: bool              # of which the last may be by itself,
    lines: int                  # of a set,
    odd_lines: bool             # of the last set, of which two come at a time, one by itself;
    line_step: int              # rows of the input from one to the next
    piece: int                  # channels of a copy
    copied: bool                # whether pixels are copied as they lie in x; else through registers,
    load_words: int             # so many words of a channel at a time,
    row_loads: int              # and so often of a row of pixels,
    lead: int                   # some of them ahead of a tile's first window;
    batch: int                  # rows at a time;
    bank_loads: int             # loads that cover all banks, after which the order in which columns are stored changes,
    turns: int                  # of so many orders
    cell_channels: int          # channels of a cell,
    guard_channels: bool        # whether the last has fewer
    tiles_ahead: int            # whose pixels are on their way while one is multiplied
    blocks: int                 # eights of filters of a group in a block
    columns: int                # matrices of 16 x 8 sums of a strip
    n_tiles: int                # tiles of a group's filters,
    guard_filters: bool         # the last of which has fewer
    run_rows: int               # rows of a warp's runs of eight columns,
    runs_across: int            # and runs of such a row
    strips: int                 # of two runs each;
    strips_across: int          # side by side,
    strip_columns: int          # so many columns from one to the next
    partner_rows: int           # from a strip's first run to its second: rows,
    partner_columns: int        # or columns
    whole_runs: bool            # whether runs have no columns beyond the tile's
    sets_across: int            # warps' runs of a tile's row,
    strip_sets: int             # and of a tile
    items: int                  # what a block's warps share
    halo_rows: int
    halo_columns: int
    phases: int                 # sets of columns, those equal modulo the stride, which stand together in shared memory,
    phase_columns: int          # of so many columns
    pitch: int                  # pixels of a row there
    together: bool              # whether a pixel's cells lie side by side there; else each has a plane of its own
    octets: int                 # cells of a pixel of all groups of a block, in shared memory
    plane: int                  # pixels in shared memory; of a plane an odd number
    buffer: int                 # elements of a tile's pixels in shared memory
    pixel_pieces: int           # that a block copies of a pixel,
    row_pieces: int             # of a row of pixels,
    row_threads: int            # by so many threads,
    rows_at_once: int           # so many rows at a time
    rows_left: bool             # whether the last time has fewer
    idle_threads: bool          # whether threads are left
    group_filters: int          # fours of elements of a group's filters in a block
    shared_bytes: int
    settled: bool               # whether places of pixels in cells of four are found anew for every tile
    unrolled: bool              # whether the fours of taps are written one after the other
    find_pixels: bool           # whether what stands in the padding is a pixel of the image,
    registers: int
    side_threads: int = SIDE_THREADS


def shared_bytes(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a block: its filters, then the pixels."""
    filters = 0 if holds_filters(spec, options) else options.groups_tile * _filters(spec, options) * LANES * SLOTS
    return 2 * (filters + options.buffers * buffer_of(spec, options))


def _filters(spec: KernelSpec, options: TapsOptions) -> int:
    """Instructions of one output of each filter of a group in the tile: a lane has four elements for each."""
    return chunks_of(spec) * blocks_of(options)


def planned_registers(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a thread: sums, the pixels of a strip or of two sets of lines, an instruction's filters or all of them."""
    return _registers(spec, options, holds_filters(spec, options))


def _registers(spec: KernelSpec, options: TapsOptions, held: bool) -> int:
    rows, columns = matrices(spec, options)
    filters = 2 * (options.warp_groups * _filters(spec, options) if held else blocks_of(options))
    if cell_of(spec) == WIDE:
        pixels = 4 * strips_of(spec, options)[1] * lines_of(spec, options)[0]
        filters += BESIDE_HELD if held else 0
    else:
        fours = -(-spec.s * SLOTS // DEPTH)
        offsets = chunks_of(spec) if holds_offsets(spec, options) else FOUR_REGISTERS * (fours - 1)
        pixels = 4 * options.strips + offsets
    planned = 4 * rows * columns + pixels + filters + REGISTERS_BESIDE[cell_of(spec)] + step_registers(spec, 2 * QUAD)
    # compilers load what is added ahead, as far as registers reach, and find where it lies
    ahead = step_registers(spec, ADDED * rows * columns) - step_registers(spec, 2 * QUAD)
    return planned + min(max(0, ahead), max(0, MOST_REGISTERS - planned))


def load_words(spec: KernelSpec, options: TapsOptions) -> int:
    """Of what a thread loads of a channel at once."""
    return -(-run_of(spec, options) // 2)


def batch_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Rows of pixels that a thread loads at a time, where pixels go through registers."""
    turns = copy_turns(spec, options)[1]
    at_once = LOADED_WORDS // (cell_of(spec) * load_words(spec, options))
    return -(-turns // -(-turns // at_once))


def turns_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Orders of a run's columns, by which stores of neighbouring lanes meet in no bank: as many as lie side by side."""
    run, phases = run_of(spec, options), phases_of(spec)
    return run // phases if run % phases == 0 else 1


def bank_loads(spec: KernelSpec, options: TapsOptions) -> int:
    """Loads whose columns lie in all banks together."""
    return BANK_BYTES // (2 * cell_of(spec) * turns_of(spec, options))


def is_unrolled(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether the products of an output are written one after the other."""
    rows, columns = matrices(spec, options)
    return chunks_of(spec) * rows * columns <= MOST_UNROLLED


def holds_offsets(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether a lane keeps where its taps lie."""
    return cell_of(spec) == SLOTS and chunks_of(spec) <= MOST_OFFSETS and is_unrolled(spec, options)


def holds_filters(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether a thread keeps its filters: where all warps of a block have the same, and they are few."""
    few = 2 * options.warp_groups * _filters(spec, options) <= MOST_HELD
    return (few and options.groups_tile == options.warp_groups and is_unrolled(spec, options)
            and _registers(spec, options, True) <= HELD_REGISTERS)


def places_without_registers(spec: KernelSpec, options: TapsOptions) -> int:
    """Where a warp has the same windows in all tiles compilers find where their pixels lie ahead of these, and keep it:
    those places that there are no registers for, of resolved plan values."""
    if not is_unrolled(spec, options) or items_of(spec, options) > options.warps:
        return 0
    if cell_of(spec) == WIDE:
        places = strips_of(spec, options)[1] * sets_of(spec) // 2 * options.warp_groups
    else:
        places = options.strips * chunks_of(spec)
    return max(0, planned_registers(spec, options) + places - thread_registers(options.warps, options.min_blocks))


def is_settled(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether places in cells of four are so many that they are found anew for every tile."""
    return cell_of(spec) == SLOTS and places_without_registers(spec, options) > FEW_PLACES


def has_registers(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether compilers have registers for all that they keep."""
    free = thread_registers(options.warps, options.min_blocks) - planned_registers(spec, options)
    return places_without_registers(spec, options) == 0 and not (holds_filters(spec, options) and free < FEW_FREE)


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
    halo_rows, columns_loaded = halo(spec, options)[0], loaded_columns(spec, options)
    run_rows, across = runs_of(spec, options)
    strip_rows, strips_across = strips_of(spec, options)
    lines, line_step = lines_of(spec, options)
    threads = LANES * options.warps
    row_pieces, row_threads, rows_at_once = row_copies(spec, options)
    chunks, cell, cells = chunks_of(spec), cell_of(spec), cells_of(spec)
    padded = any(map(any, spec.padding))
    return TapsNumbers(
        arguments=arguments, groups=spec.groups, blocks_of_groups=blocks_of_groups(spec, options),
        guard_groups=spec.groups % options.groups_tile != 0, channels=spec.channels, filters=spec.filters,
        lanes_each=QUAD // options.joined, threads=threads, cell=cell, cells=cells, chunk_cells=DEPTH // cell,
        chunks=chunks, guard_taps=is_guarded(spec), held_offsets=holds_offsets(spec, options),
        held_filters=holds_filters(spec, options), one_tap=cell == WIDE and cells % 2 == 0, sets=sets_of(spec),
        odd_sets=sets_of(spec) % 2 == 1, lines=lines, odd_lines=lines % 2 == 1, line_step=line_step,
        piece=piece_of(spec, options), copied=is_copied(spec, options), load_words=load_words(spec, options),
        row_loads=columns_loaded // run_of(spec, options), lead=lead_of(spec, options), batch=batch_of(spec, options),
        bank_loads=bank_loads(spec, options), turns=turns_of(spec, options),
        cell_channels=min(cell, spec.channels), guard_channels=spec.channels > cell and spec.channels % cell != 0,
        tiles_ahead=options.buffers - 1,
        blocks=blocks_of(options), columns=matrices(spec, options)[1], n_tiles=-(-spec.filters // options.tile_filters),
        guard_filters=spec.filters % options.tile_filters != 0,
        run_rows=run_rows, runs_across=across, strips=options.strips, strips_across=strips_across,
        strip_columns=BLOCK * across // strips_across, partner_rows=strip_rows if strip_rows < run_rows else 0,
        partner_columns=BLOCK if strip_rows == run_rows else 0, sets_across=run_columns(options) // BLOCK // across,
        whole_runs=has_whole_runs(options), strip_sets=strip_sets(options), items=items_of(spec, options),
        settled=is_settled(spec, options),
        halo_rows=halo_rows, halo_columns=columns_loaded, phases=phases_of(spec),
        phase_columns=-(-columns_loaded // phases_of(spec)), pitch=pitch_of(spec, options),
        together=lies_together(spec, options), octets=octets_of(spec, options), plane=plane_of(spec, options),
        buffer=buffer_of(spec, options),
        pixel_pieces=pixel_pieces(spec, options), row_pieces=row_pieces, row_threads=row_threads,
        rows_at_once=rows_at_once, rows_left=halo_rows % rows_at_once != 0,
        idle_threads=threads % row_threads != 0,
        group_filters=chunks * blocks_of(options) * LANES, shared_bytes=shared_bytes(spec, options),
        unrolled=is_unrolled(spec, options), find_pixels=padded and spec.padding_mode.reads_image,
        registers=planned_registers(spec, options))
