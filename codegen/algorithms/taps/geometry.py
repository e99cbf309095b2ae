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


def takes_strips(spec: KernelSpec, strips: int) -> bool:
    """Whether a warp may have so many strips: in NCHW four lanes exchange columns of four runs."""
    return spec.layout is Layout.NHWC or strips % 2 == 0


def stores_singly(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether outputs are stored one by one in NCHW, 32 columns of a filter at a time; so if it is not known."""
    return spec.layout is Layout.NCHW and options.store_vector in (1, DERIVED)


def runs_of(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows of a warp's runs of eight columns, and runs of a row: mostly all one below another, so that the rows of a
    filter share the lines of pixels that they read. Four lie side by side where a store is of 32 columns, others where
    a tile has no so many rows."""
    runs, across = 2 * options.strips, options.tile_q // BLOCK
    stored = QUAD if stores_singly(spec, options) else 1
    fitting = [a for a in range(1, across + 1)
               if across % a == 0 and runs % a == 0 and options.tile_p % (runs // a) == 0]
    beside = next((a for a in fitting if a >= stored), fitting[-1])
    return runs // beside, beside


def units_of(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows and columns of what an instruction multiplies of a warp's runs: one run in NCHW, in NHWC a strip's two.
    These lie half of all rows apart, so that strips of neighbouring rows share what they load; or side by side."""
    rows, across = runs_of(spec, options)
    if spec.layout is Layout.NCHW:
        return rows, across
    return (rows // 2, across) if rows % 2 == 0 else (rows, across // 2)


def sets_of(spec: KernelSpec) -> int:
    """Sets of lines of pixels, one for each column of the filter and cell of a group."""
    return spec.s * cells_of(spec)


def lines_of(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Lines of pixels that a warp loads of a set: those that the filter's rows read of its units, and rows of the input
    from one to the next."""
    rows = units_of(spec, options)[0]
    steps = [step for step, times in ((spec.stride[0], rows), (spec.dilation[0], spec.r)) if times > 1]
    step = math.gcd(*steps) or 1
    return ((rows - 1) * spec.stride[0] + (spec.r - 1) * spec.dilation[0]) // step + 1, step


def line_loads(spec: KernelSpec, options: TapsOptions) -> int:
    """Instructions that load a group's pixels for a warp, of up to four matrices: two sets at a time, the lines of
    each; a last one by itself, for two rows of the filter."""
    rows, across = units_of(spec, options)
    lines = lines_of(spec, options)[0]
    pairs, alone = divmod(sets_of(spec), 2)
    of_pair = -(-lines // 2) if spec.layout is Layout.NCHW else lines
    return pairs * across * of_pair + alone * -(-spec.r // 2) * rows * across


def halo(spec: KernelSpec, options: TapsOptions) -> tuple[int, int]:
    """Rows and columns of the input that a tile of outputs reads."""
    rows, columns = ((outputs - 1) * stride + extent for outputs, stride, extent in zip(
        (options.tile_p, options.tile_q), spec.stride, spec.extents))
    return rows, columns


def pixel_pieces(spec: KernelSpec, options: TapsOptions) -> int:
    """Copies of a pixel of all groups of a block."""
    return options.groups_tile * cells_of(spec) * cell_of(spec) // piece_of(spec, options)


def row_copies(spec: KernelSpec, options: TapsOptions) -> tuple[int, int, int]:
    """Pieces of a row of pixels that a block copies, the threads that do, and rows at a time."""
    threads, pieces = LANES * options.warps, halo(spec, options)[1] * pixel_pieces(spec, options)
    of_row = min(threads, pieces)
    return pieces, of_row, threads // of_row


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
    whole = cell_of(spec) == WIDE and (options.vector or widest_copy(spec)) == WIDE
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
    return phases * -(-halo(spec, options)[1] // phases)


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
    return options.tile_p * options.tile_q // (BLOCK * 2 * options.strips)
