"""Every number in the text of ``mma``."""

from __future__ import annotations

import math

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import nhwc_pass
from warpconv.codegen.parts.arguments import BORDER
from warpconv.codegen.parts.early import begins_early
from warpconv.codegen.parts.mma import (CELL_BYTES, MATRIX_COLUMNS, MATRIX_ROWS, cell_of, matrix_depth,
                                          registers_of_factors)
from warpconv.codegen.parts.nchw_stores import STORE_UNITS
from warpconv.codegen.parts.nhwc_pass import NhwcPass
from warpconv.codegen.parts.occupancy import blocks_by_quarters
from warpconv.codegen.parts.vectors import VECTORS, Vector, vector_of
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics

from .options import MmaOptions

STORED_TOGETHER = 8             # 16-bit outputs that a lane stores after an exchange
STAGED_APART = 4                # words between pixels, so that eight of them lie in different banks
SIDE_THREADS = 256              # of the entries beside the product
REGISTERS_BESIDE = 32           # of a thread besides sums, factors and windows: addresses, the loop
REGISTERS_SINGLE = 24           # and where channels are copied two bytes at a time: what is on its way
SUMS_PLANES = 8                 # and where planes of 16 bits are read one for so many sums,
REGISTERS_PLANES = 4            # these, and where sums are split
REGISTERS_SPLIT = 6             # these, as ptxas shows


@dataclass(frozen=True)
class MmaNumbers:
    """What the templates of ``mma`` write besides the spec."""

    arguments: tuple[Argument, ...]             # of the product's entry
    addition_arguments: tuple[Argument, ...]    # of the entry that adds the sums of split tiles
    to_nhwc: NhwcPass | None    # the entry that brings x from NCHW to NHWC
    cell: int                   # elements of 16 bytes,
    depth: int                  # and products of an output that an instruction adds
    split_factors: bool         # whether factors are float32 in two parts
    padded: bool                # whether it leaves more channels than x has: whole 16 bytes
    planes: bool                # whether pixels of a channel lie side by side in a tile, as in x: 1x1 layers in NCHW
    plane_cells: int            # eight pixels each: a channel's of a tile,
    plane_swizzle: str          # what a cell's number is combined with, as C has it of `channel`, and the bits of it
    plane_mask: int
    filters_first: bool         # whether filters are the rows of a product and pixels its columns, as NCHW stores them
    early_sums: bool            # whether the sums of split tiles begin to be added while the product ends
    store_bias: bool            # whether the product's entry adds it
    store_units: tuple[int, ...]    # pixels in NCHW that a lane may store at once, the most first
    odd_matrices: bool          # whether a warp's matrices across are no multiple of four
    regrouped: bool             # whether four lanes exchange their filters, to store 16 bytes each
    staged: bool                # pairs of filters of 16 pixels of a warp through shared memory,
    staged_words: int           # of a pixel,
    staged_pitch: int           # from one to the next
    odd_filters: bool           # whether the second of two neighbouring filters may be beyond the group's last
    threads: int
    warp_m: int                 # pixels and filters of a warp
    warp_n: int
    fragments_m: int            # matrices of a warp: rows of 16, columns of 8, along products
    fragments_n: int
    cells: int                  # 16 bytes of a shared row
    swizzle: str                # what a cell's number is combined with, as C has it of `row`, and the bits of it
    swizzle_mask: int
    copy_bytes: int             # of a copy of pixels
    stages_ahead: int           # tiles that may be under way when the next one's products begin
    copy_columns: int           # copies across a row of pixels
    copy_rows: int              # rows that a block copies at once
    pixel_copies: int           # copies of a thread into a tile of pixels
    filter_rows: int
    filter_copies: int
    all_copy_filters: bool
    tap_chunks: int             # copies of a tap's channels
    chunks: int                 # of all products of an output
    guard_chunks: bool          # whether the last tile has fewer
    k_steps: int                # tiles of the reduction
    n_tiles: int                # tiles of a group's filters
    group_tiles: int            # tiles of groups
    all_steps: int              # tiles of the reduction that a block multiplies
    guard_filters: bool
    stage: int                  # elements of a stage
    shared_bytes: int
    guard_taps: bool            # whether a tap may lie in the padding: zero, or
    one_value: bool             # the border's value
    find_taps: bool             # whether a tap in the padding is a pixel of the image
    outside: Vector             # a copy of the border's value
    registers: int
    inside: str                 # when a tap lies in the image, as C
    side_threads: int = SIDE_THREADS

    @property
    def zero_copies(self) -> bool:
        """Whether some copies of pixels are of zeros."""
        return self.guard_chunks or self.guard_taps and not self.one_value

    @property
    def copied(self) -> str:
        """When a copy of pixels is not of zeros, as C."""
        conditions = ["chunk < CHUNKS"] if self.guard_chunks else []
        return " && ".join(conditions + ([self.inside] if self.guard_taps and not self.one_value else []))


def reads_planes(spec: KernelSpec) -> bool:
    """Whether pixels come straight from x in NCHW: every pixel is one output's window. Transposing loads of matrices
    are of 16-bit elements."""
    return spec.is_pointwise and spec.layout is Layout.NCHW and spec.dtype is not DType.FLOAT32


def is_passed(spec: KernelSpec) -> bool:
    """Whether a launch brings x to NHWC first."""
    return spec.layout is Layout.NCHW and not reads_planes(spec)


def stored_channels(spec: KernelSpec) -> int:
    """Channels of a group as they are copied: the pass from NCHW may fill them up."""
    return nhwc_pass.stored_channels(spec) // spec.groups if is_passed(spec) else spec.channels


def channel_vector(spec: KernelSpec) -> int:
    """The widest copy that every pixel's channels of a group consist of; of planes eight pixels."""
    if reads_planes(spec):
        return cell_of(spec)
    return next(v for v in VECTORS if v <= cell_of(spec) and stored_channels(spec) % v == 0)


def store_widths(spec: KernelSpec, options: MmaOptions) -> tuple[int, ...]:
    """Filters that a lane may store at once, the most first: eight where four matrices of a warp stand side by side, of
    float32 the two that it has. In NCHW pixels: as many as images begin at multiples of, up to these, or one by one."""
    single = spec.dtype is DType.FLOAT32
    if spec.layout is Layout.NCHW:
        return (1,) if options.splits > 1 or single else (STORED_TOGETHER, 1)
    if single:
        return (2, 1) if spec.filters % 2 == 0 else (1,)
    fitting = options.tile_n // options.warps_n % (4 * MATRIX_COLUMNS) == 0 and options.splits == 1
    return tuple(v for v in (8, 2, 1) if spec.filters % v == 0 and (v < 8 or fitting))


def store_units(options: MmaOptions) -> tuple[int, ...]:
    """Pixels of a filter in NCHW that a lane may store at once, the most first."""
    return STORE_UNITS if options.store_vector == STORED_TOGETHER else STORE_UNITS[-1:]


def are_staged(spec: KernelSpec, options: MmaOptions) -> bool:
    """Whether pairs of filters go through shared memory on their way to y, so that lanes side by side store what lies
    side by side: a lane's own two are four bytes of a pixel, and eight pixels a store."""
    pairs = spec.layout is Layout.NHWC and spec.dtype.is_half and options.store_vector in (DERIVED, 2)
    return pairs and options.splits == options.groups_tile == 1


def staged_bytes(spec: KernelSpec, options: MmaOptions) -> int:
    """Shared memory for the pairs of filters of 16 pixels of every warp."""
    pitch = options.tile_n // options.warps_n // 2 + STAGED_APART
    return 4 * MATRIX_ROWS * pitch * options.warps_m * options.warps_n if are_staged(spec, options) else 0


def resolved(spec: KernelSpec, options: MmaOptions) -> MmaOptions:
    """``options`` with every derived value in its place."""
    widest = channel_vector(spec)
    vector = options.vector or widest
    store = options.store_vector or (store_widths(spec, options)[0] if vector == widest else 1)
    blocks = resident_of(spec, options, vector) if options.min_blocks == DERIVED else options.min_blocks
    return replace(options, vector=vector, store_vector=store, min_blocks=blocks)


def resident_of(spec: KernelSpec, options: MmaOptions, vector: int | None = None) -> int:
    """Blocks for which a multiprocessor has registers, by copies of ``vector`` (None: those of ``options``)."""
    warps = max(1, options.warps_m * options.warps_n)
    return blocks_by_quarters(spec.hardware, planned_registers(spec, options, vector), warps)


def planned_registers(spec: KernelSpec, options: MmaOptions, vector: int | None = None) -> int:
    """Of a thread, by copies of ``vector`` (None: those of ``options``): sums, one step's factors, the windows that it
    copies from."""
    vector = options.vector if vector is None else vector
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    sums = warp_m * warp_n // LANES
    factors = registers_of_factors(spec, *(matrices(spec, options) if spec.numerics is Numerics.TF32X3 else (
        warp_m // MATRIX_ROWS, warp_n // MATRIX_COLUMNS)))
    threads = LANES * options.warps_m * options.warps_n
    windows = 2 if reads_planes(spec) else options.tile_m * options.tile_k // max(1, vector) // threads
    beside = REGISTERS_BESIDE + (REGISTERS_SINGLE if vector * spec.dtype.itemsize == 2 else 0)
    if reads_planes(spec):
        beside += sums // SUMS_PLANES + REGISTERS_PLANES + (REGISTERS_SPLIT if options.splits > 1 else 0)
    if not spec.is_pointwise and 2 < vector * spec.dtype.itemsize < CELL_BYTES:     # places in shared memory, too
        windows += windows // 2
    return sums + factors + (1 + len(spec.taps)) * windows + beside


def matrices(spec: KernelSpec, options: MmaOptions) -> tuple[int, int]:
    """Of a warp's sums: rows of 16 and columns of 8, pixels and filters, or in NCHW filters and pixels."""
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    down, across = (warp_m, warp_n) if spec.layout is Layout.NHWC else (warp_n, warp_m)
    return down // MATRIX_ROWS, across // MATRIX_COLUMNS


def make_numbers(spec: KernelSpec, options: MmaOptions, arguments: tuple[Argument, ...],
                 addition: tuple[Argument, ...], passing: NhwcPass | None) -> MmaNumbers:
    """All numbers of a plan whose values are resolved, and fit together."""
    threads = LANES * options.warps_m * options.warps_n
    cell, itemsize = cell_of(spec), spec.dtype.itemsize
    cells = options.tile_k // cell
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    copy_columns = options.tile_k // options.vector
    channels = stored_channels(spec)
    products = channels * math.prod(spec.taps)
    k_steps = -(-products // options.tile_k)
    stage = (options.tile_m + options.tile_n) * options.tile_k
    padded = any(map(any, spec.padding))
    reads, one_value = spec.padding_mode.reads_image, padded and spec.padding_mode is Border.CONSTANT
    filter_cells = options.tile_n * cells
    rows, columns = matrices(spec, options)
    planes, plane_cells = reads_planes(spec), max(1, options.tile_m // STORED_TOGETHER)
    if planes:
        copy_columns = plane_cells
    return MmaNumbers(
        arguments=arguments, addition_arguments=addition, to_nhwc=passing, cell=cell,
        depth=matrix_depth(spec),
        split_factors=spec.numerics is Numerics.TF32X3,
        padded=channels != spec.channels, planes=planes, plane_cells=plane_cells,
        plane_swizzle={2: "channel >> 2", 4: "channel >> 1"}.get(plane_cells, "channel"),
        plane_mask=min(plane_cells, 8) - 1,
        filters_first=spec.layout is Layout.NCHW, threads=threads,
        early_sums=options.splits > 1 and begins_early(spec),
        store_bias=Epilogue.BIAS in spec.epilogue and options.splits == 1, odd_filters=spec.filters % 2 != 0,
        store_units=store_units(options),
        odd_matrices=columns % 4 != 0, regrouped=options.store_vector == STORED_TOGETHER and options.splits == 1,
        staged=are_staged(spec, options), staged_words=warp_n // 2, staged_pitch=warp_n // 2 + STAGED_APART,
        warp_m=warp_m, warp_n=warp_n, fragments_m=rows, fragments_n=columns,
        cells=cells, swizzle="row" if cells == 8 else "row >> 1",
        swizzle_mask=cells - 1, copy_bytes=itemsize * options.vector, stages_ahead=options.stages - 2,
        copy_columns=copy_columns, copy_rows=threads // copy_columns,
        pixel_copies=(options.tile_k if planes else options.tile_m) * copy_columns // threads,
        filter_rows=max(1, threads // cells),
        filter_copies=-(-filter_cells // threads), all_copy_filters=filter_cells % threads == 0,
        tap_chunks=channels // options.vector, chunks=products // options.vector,
        guard_chunks=products % options.tile_k != 0, k_steps=k_steps, n_tiles=-(-spec.filters // options.tile_n),
        group_tiles=spec.groups // options.groups_tile, all_steps=options.groups_tile * k_steps,
        guard_filters=spec.filters % options.tile_n != 0, stage=stage,
        shared_bytes=max(itemsize * options.stages * stage, staged_bytes(spec, options)),
        guard_taps=padded and not reads,
        one_value=one_value, find_taps=padded and reads, outside=vector_of(spec.dtype, options.vector, BORDER),
        registers=planned_registers(spec, options),
        inside=" && ".join(f"(unsigned){at} < (unsigned){size}" for at, size in zip("dhw"[-len(spec.taps):],
                                                                                   "DHW"[-len(spec.taps):])))
