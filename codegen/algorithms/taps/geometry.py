"""How ``taps`` shares out a layer: cells of channels, tiles, and the runs of a warp."""

from __future__ import annotations

import math

from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.cells import are_permuted
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .options import TapsOptions

DEPTH = 16                      # products of an instruction
SLOTS = 4                       # channels that a lane takes of a product, eight bytes
WIDE = 8                        # channels of a row of matrices that lanes load together
CELLS = (WIDE, SLOTS)           # channels of a pixel that lie side by side in shared memory
STRIP, BLOCK = 16, 8            # outputs of a strip, filters (or columns) of a matrix
QUAD = 4                        # matrices whose lanes exchange words
STORES = (8, 4, 2, 1)
RUNS = (4, 2, 1)                # columns of x that are loaded at once, in NCHW


def joined_spec(spec: KernelSpec, options: TapsOptions) -> KernelSpec:
    """The layer as its products see it: of ``joined`` times fewer groups. All functions below are of such a spec."""
    return replace(spec, groups=spec.groups // options.joined) if options.joined > 1 else spec


def most_joined(spec: KernelSpec) -> int:
    """Groups of a layer that may be joined, as many as fill the channels of a row of matrices and its filters: of two
    or four channels and as many filters each, whose sums are then a lane's own."""
    several = WIDE // spec.channels if spec.channels in (2, 4) and spec.filters == spec.channels else 1
    return several if spec.groups % several == 0 else 1


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


def is_copied(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether pixels go to shared memory as they lie in x; else through registers."""
    return spec.layout is Layout.NHWC and (options.vector or widest_copy(spec)) > 1


def piece_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Channels that a thread copies at a time."""
    return options.vector or widest_copy(spec) if is_copied(spec, options) else cell_of(spec)


def widest_run(spec: KernelSpec, shape: ConvShape | None = None) -> int:
    """Columns of x that can be loaded at once in NCHW: of a width of which W is a multiple (any that may be, where the
    sizes are not known), and one where what stands beside an image is another of its pixels."""
    if any(map(any, spec.padding)) and spec.padding_mode.reads_image:
        return 1
    return next(run for run in RUNS if shape is None or shape.w % run == 0)


def run_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Columns that a thread loads at once."""
    return max(1, options.vector) if spec.layout is Layout.NCHW else 1


def lead_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Columns that are loaded ahead of a tile's first window, so that runs begin where memory is aligned."""
    return -spec.padding[1][0] % run_of(spec, options)


def loaded_columns(spec: KernelSpec, options: TapsOptions) -> int:
    """Columns of a row of pixels in shared memory: those that windows cover, and what whole runs have beside them."""
    run, columns = run_of(spec, options), lead_of(spec, options) + halo(spec, options)[1]
    return columns + -columns % run


def blocks_of(options: TapsOptions) -> int:
    """Eights of filters in a tile."""
    return options.tile_filters // BLOCK


def matrices(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows (of 16 pixels) and columns (of 8 filters) of matrices of a warp's sums; in NHWC four columns are stored
    together, in NCHW those of two rows."""
    columns, together = options.warp_groups * blocks_of(options), QUAD if spec.layout is Layout.NHWC else 1
    return options.strips, columns + -columns % together


def run_columns(options: TapsOptions) -> int:
    """Columns of a tile's runs: the last of a row may go beyond the tile."""
    return options.tile_q + -options.tile_q % BLOCK


def has_whole_runs(options: TapsOptions) -> bool:
    """Whether runs have no columns beyond the tile's."""
    return options.tile_q % BLOCK == 0


def takes_strips(spec: KernelSpec, strips: int) -> bool:
    """Whether a warp may have so many strips: in NCHW four lanes exchange columns of four runs."""
    return spec.layout is Layout.NHWC or strips % 2 == 0


def stores_singly(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether outputs are stored one by one in NCHW, 32 columns of a filter at a time; so if it is not known."""
    return spec.layout is Layout.NCHW and options.store_vector in (1, DERIVED)


def runs_of(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows of a warp's runs of eight columns, and runs of a row: mostly all one below another, so that the rows of a
    filter share the lines of pixels that they read. Four lie side by side where a store is of 32 columns, in NCHW
    two, which fill memory's 32 bytes, others where a tile has no so many rows."""
    runs, across = 2 * options.strips, run_columns(options) // BLOCK
    stored = QUAD if stores_singly(spec, options) else 2 if spec.layout is Layout.NCHW else 1
    fitting = [a for a in range(1, across + 1)
               if across % a == 0 and runs % a == 0 and options.tile_p % (runs // a) == 0]
    beside = next((a for a in fitting if a >= stored), fitting[-1])
    return runs // beside, beside


def strips_of(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows and columns of a warp's strips, of two runs each. These lie side by side, or half of all rows apart, so that
    strips of neighbouring rows share what they load."""
    rows, across = runs_of(spec, options)
    return (rows, across // 2) if across % 2 == 0 else (rows // 2, across)


def sets_of(spec: KernelSpec) -> int:
    """Sets of lines of pixels, one for each column of the filter and cell of a group."""
    return spec.s * cells_of(spec)


def lines_of(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Lines of pixels that a warp loads of a set: those that the filter's rows read of its strips, and rows of the
    input from one to the next."""
    rows = strips_of(spec, options)[0]
    steps = [step for step, times in ((spec.stride[0], rows), (spec.dilation[0], spec.r)) if times > 1]
    step = math.gcd(*steps) or 1
    return ((rows - 1) * spec.stride[0] + (spec.r - 1) * spec.dilation[0]) // step + 1, step


def line_loads(spec: KernelSpec, options: TapsOptions) -> int:
    """Instructions that load a group's pixels for a warp, of up to four matrices: a line of two sets; of a last one by
    itself two lines."""
    across, lines = strips_of(spec, options)[1], lines_of(spec, options)[0]
    pairs, alone = divmod(sets_of(spec), 2)
    return across * (pairs * lines + alone * -(-lines // 2))


def halo(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows and columns of the input that a tile of outputs reads."""
    rows, columns = ((outputs - 1) * stride + extent for outputs, stride, extent in zip(
        (options.tile_p, options.tile_q), spec.stride, spec.extents))
    return rows, columns


def pixel_pieces(spec: KernelSpec, options: TapsOptions) -> int:
    """Copies of a pixel of all groups of a block."""
    return options.groups_tile * cells_of(spec) * cell_of(spec) // piece_of(spec, options)


def row_copies(spec: KernelSpec, options: TapsOptions) -> tuple[int, int, int]:
    """Pieces of a row of pixels that a block copies, in NCHW of runs of columns, the threads that do, and rows at a
    time."""
    threads = LANES * options.warps
    pieces = loaded_columns(spec, options) // run_of(spec, options) * pixel_pieces(spec, options)
    of_row = min(threads, pieces)
    return pieces, of_row, threads // of_row


def copy_turns(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Times that a block's threads go to further pieces of a row, and to further rows."""
    pieces, of_row, rows_at_once = row_copies(spec, options)
    return -(-pieces // of_row), -(-halo(spec, options)[0] // rows_at_once)


def blocks_of_groups(spec: KernelSpec, options: TapsOptions) -> int:
    """Blocks that share out the groups."""
    return -(-spec.groups // options.groups_tile)


def octets_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Cells of a pixel of all groups of a block, in shared memory: where they lie side by side, with places for
    two, four or eight."""
    return _places(spec, options) if lies_together(spec, options) else options.groups_tile * cells_of(spec)


def _places(spec: KernelSpec, options: TapsOptions) -> int:
    """The power of two that has a place for each cell of a pixel."""
    return 1 << (options.groups_tile * cells_of(spec) - 1).bit_length()


def lies_together(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether the cells of a pixel lie side by side in shared memory: so that a copy of them is one request of the
    second-level cache, where a plane for each takes one for every 16 bytes."""
    whole = is_copied(spec, options) and piece_of(spec, options) == WIDE
    return whole and are_permuted(_places(spec, options))


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
    return phases * -(-loaded_columns(spec, options) // phases)


def is_guarded(spec: KernelSpec) -> bool:
    """Whether the last instruction has fewer taps than lanes could take."""
    return spec.r * spec.s * cells_of(spec) * cell_of(spec) % DEPTH != 0


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


def items_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a tile: what a warp has of it at a time."""
    return options.groups_tile // options.warp_groups * strip_sets(options)


def strip_sets(options: TapsOptions) -> int:
    """Of a tile's outputs."""
    return options.tile_p * run_columns(options) // (BLOCK * 2 * options.strips)
