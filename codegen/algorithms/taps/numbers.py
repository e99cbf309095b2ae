"""Every number in the text of ``taps``."""

from __future__ import annotations

from dataclasses import replace

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, PORTABLE_SHARED
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.occupancy import blocks_by_quarters, step_registers
from warpconv.codegen.plan import Argument
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .options import TapsOptions

SLOTS = 4                       # channels of a pixel in shared memory, eight bytes
CHUNK = 4                       # taps of an instruction
STRIP, BLOCK = 16, 8            # columns of a strip, filters (or columns) of a matrix
QUAD = 4                        # matrices whose lanes exchange words
BATCH = 4                       # pixels that a thread loads before it stores the first
SIDE_THREADS = 256
REGISTERS_BESIDE = 56           # of a thread besides sums, pixels and filters
FOUR_REGISTERS = 13             # of each four taps of a row but the first: without, 11x11 spills on sm_80
MOST_REGISTERS = 232
STORES = (8, 4, 2, 1)


@dataclass(frozen=True)
class TapsNumbers:
    """What the templates of ``taps`` write besides the spec."""

    arguments: tuple[Argument, ...]
    threads: int
    chunks: int                 # fours of taps
    guard_taps: bool            # whether the last has fewer
    blocks: int                 # eights of filters of a group in a block
    rows: int                   # matrices of a warp's sums: pixels or filters, 16 each,
    columns: int                # and the other, 8 each
    n_tiles: int                # tiles of a group's filters
    strips_across: int          # strips of a tile's row
    strip_sets: int             # of a tile
    items: int                  # what a block's warps share
    halo_rows: int
    halo_columns: int
    plane: int                  # pixels of a group in shared memory, one more where that is odd
    cells: int                  # pixels that a block copies
    group_filters: int          # fours of elements of a group's filters in a block
    shared_bytes: int
    unrolled: bool              # whether the fours of taps are written one after the other
    find_pixels: bool           # whether what stands in the padding is a pixel of the image,
    registers: int
    batch: int = BATCH
    side_threads: int = SIDE_THREADS


def chunks_of(spec: KernelSpec) -> int:
    """Fours of taps."""
    return -(-spec.r * spec.s // CHUNK)


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


def plane_of(spec: KernelSpec, options: TapsOptions) -> int:
    """Pixels of a group in shared memory: an odd number of them, so that groups lie in different banks."""
    rows, columns = halo(spec, options)
    return rows * columns | 1


def shared_bytes(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a block: its filters, then the pixels."""
    filters = chunks_of(spec) * blocks_of(options) * LANES
    return 2 * SLOTS * options.groups_tile * (filters + plane_of(spec, options))


def store_width(spec: KernelSpec, shape: ConvShape | None) -> int:
    """Elements of a store that lie side by side and aligned: filters in NHWC; in NCHW columns, of a width that all
    rows have (1 where the sizes are not known)."""
    if spec.layout is Layout.NCHW and shape is None:
        return 1
    along = spec.filters if spec.layout is Layout.NHWC or shape is None else shape.q
    return next(v for v in STORES if along % v == 0)


def planned_registers(spec: KernelSpec, options: TapsOptions) -> int:
    """Of a thread: sums, a strip's pixels, a four's filters."""
    rows, columns = matrices(spec, options)
    fours = -(-spec.s // CHUNK)
    return (4 * rows * columns + 4 * options.strips + 2 * blocks_of(options) + FOUR_REGISTERS * (fours - 1)
            + REGISTERS_BESIDE + step_registers(spec, 2 * QUAD))


def resident(spec: KernelSpec, options: TapsOptions) -> int:
    """Blocks of a multiprocessor."""
    held = blocks_by_quarters(spec.hardware, planned_registers(spec, options), max(1, options.warps))
    shared = shared_bytes(spec, options) + spec.hardware.shared_reserved
    return max(1, min(held, spec.hardware.shared_multiprocessor // shared, spec.hardware.resident_blocks))


def resolved(spec: KernelSpec, options: TapsOptions, shape: ConvShape | None = None) -> TapsOptions:
    """``options`` with every derived value in its place."""
    whole = spec.layout is Layout.NHWC and spec.channels == SLOTS and spec.padding_mode is not Border.CONSTANT
    vector = options.vector or (SLOTS if whole else 1)
    narrow = whole and vector == 1              # for arrays at any address
    store = options.store_vector or (1 if narrow else store_width(spec, shape))
    options = replace(options, vector=vector, store_vector=store)
    return options if options.min_blocks != DERIVED else replace(options, min_blocks=resident(spec, options))


def fits(spec: KernelSpec, options: TapsOptions) -> bool:
    """Whether registers and shared memory hold it."""
    return (shared_bytes(spec, options) <= PORTABLE_SHARED
            and planned_registers(spec, options) <= MOST_REGISTERS)


def make_numbers(spec: KernelSpec, options: TapsOptions, arguments: tuple[Argument, ...]) -> TapsNumbers:
    """All numbers of a plan whose values are resolved, and fit together."""
    rows, columns = matrices(spec, options)
    halo_rows, halo_columns = halo(spec, options)
    strips_across = options.tile_q // STRIP
    strip_sets = options.tile_p * strips_across // options.strips
    chunks = chunks_of(spec)
    padded = any(map(any, spec.padding))
    return TapsNumbers(
        arguments=arguments, threads=LANES * options.warps, chunks=chunks,
        guard_taps=spec.r * spec.s % CHUNK != 0, blocks=blocks_of(options), rows=rows, columns=columns,
        n_tiles=-(-spec.filters // options.tile_filters), strips_across=strips_across, strip_sets=strip_sets,
        items=options.groups_tile // options.warp_groups * strip_sets, halo_rows=halo_rows, halo_columns=halo_columns,
        plane=plane_of(spec, options), cells=options.groups_tile * halo_rows * halo_columns,
        group_filters=chunks * blocks_of(options) * LANES, shared_bytes=shared_bytes(spec, options),
        unrolled=chunks * rows * columns <= 256, find_pixels=padded and spec.padding_mode.reads_image,
        registers=planned_registers(spec, options))
