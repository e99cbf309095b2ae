"""Every number in the text of ``filter_gradient_mma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.mma import MATRIX_COLUMNS, MATRIX_ROWS, cell_of, matrix_depth, registers_of_factors
from warpconv.codegen.parts.occupancy import blocks_by_quarters
from warpconv.codegen.parts.reordered import Order
from warpconv.codegen.parts.vectors import VECTORS
from warpconv.codegen.spec import KernelSpec, Numerics

from .options import FilterGradientMmaOptions

REGISTERS_BESIDE = 44           # of a thread besides sums and factors: where its pixels lie, addresses, the loop
# what a cell's number is combined with, by the cells of a pixel in a tile, so that eight pixels lie in different banks
SWIZZLES = {2: ("pixel >> 2", 1), 4: ("pixel >> 1", 3)}
SWIZZLE = ("pixel", 7)
# and of float32, so that two cells each of four pixels do, of which lanes load all or half at once
FLOAT_SWIZZLES = {4: ("pixel", 2)}
FLOAT_SWIZZLE = ("pixel << 1", 6)
FLOAT_CELL = 4                  # floats of a cell,
ROW_LANES = 4                   # and lanes that have the same row of a matrix


@dataclass(frozen=True)
class Copies:
    """How a block copies its tile of one operand: pixels x elements."""

    vector: int         # elements of a copy,
    bytes: int          # and its bytes
    columns: int        # copies of a pixel,
    rows: int           # pixels that a block copies at once,
    each: int           # and copies of a thread
    spare: bool         # whether some threads have none
    cells: int          # 16 bytes each: of a pixel in shared memory,
    swizzle: str        # and what their numbers are combined with
    mask: int


@dataclass(frozen=True)
class Side:
    """What a lane has side by side, of matrices of float32."""

    each: int           # elements, which are loaded at once,
    matrices: int       # of so many matrices' rows, two each
    span: int           # rows or columns of as many matrices
    lanes: int          # neighbours that have the same 16 bytes of a pixel


@dataclass(frozen=True)
class FilterGradientMmaNumbers:
    """What the template writes besides spec and options."""

    cell: int               # elements of 16 bytes,
    depth: int              # and pixels that an instruction adds
    groups: int             # of tiles: joined ones of the layer's,
    channels: int           # with so many channels
    filters: int            # and filters each
    window: int             # columns of such a group
    direct: bool            # whether there is no second step
    split_factors: bool     # whether factors are float32 in two parts
    gradients: Copies
    windows: Copies
    plain: bool             # whether the window of an output is the pixel at its place
    one_tap: bool           # whether columns are in the filter's own order
    guarded: bool           # whether taps may lie outside of the image
    threads: int
    warp_m: int             # filters and columns of a warp
    warp_n: int
    matrices_m: int         # matrices of a warp's sums
    matrices_n: int
    m_tiles: int            # blocks for the filters of a group, and for its columns
    n_tiles: int
    guard_filters: bool     # whether the last of them has fewer
    guard_columns: bool
    side_m: Side            # filters of a lane side by side, of float32,
    side_n: Side            # and columns
    stored: int             # neighbouring sums that are stored together
    gradient_elements: int  # of a stage,
    stage: int              # with those of windows
    shared_bytes: int
    stages_ahead: int       # tiles that may be under way when the next one's products begin
    adding: partial_sums.Adding     # the second step's blocks
    registers: int
    orders: tuple[Order, ...] = ()      # arrays that are brought to NHWC, and back


def in_joined_groups(spec: KernelSpec, options: FilterGradientMmaOptions) -> KernelSpec:
    """The layer as tiles have it: ``joined`` of its groups are one."""
    return replace(spec, groups=spec.groups // options.joined) if options.joined > 1 else spec


def resolved(spec: KernelSpec, options: FilterGradientMmaOptions) -> FilterGradientMmaOptions:
    """``options`` with every derived value in its place."""
    tiled = in_joined_groups(spec, options)
    options = replace(options, vector_m=options.vector_m or widest(spec, tiled.filters),
                      vector_n=options.vector_n or widest(spec, tiled.channels))
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=resident_of(spec, options))
    return options


def widest(spec: KernelSpec, channels: int) -> int:
    """The widest copy that the channels of a group consist of."""
    return next(v for v in vectors_of(spec) if channels % v == 0)


def vectors_of(spec: KernelSpec) -> tuple[int, ...]:
    """Elements that a copy may have."""
    return tuple(v for v in VECTORS if v <= cell_of(spec))


def threads_of(options: FilterGradientMmaOptions) -> int:
    return LANES * options.warps_m * options.warps_n


def planned_registers(spec: KernelSpec, options: FilterGradientMmaOptions) -> int:
    """Of a thread: sums, and the factors of one instruction's depth."""
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    factors = registers_of_factors(spec, warp_m // MATRIX_ROWS, warp_n // MATRIX_COLUMNS)
    return warp_m * warp_n // LANES + factors + REGISTERS_BESIDE


def shared_bytes(spec: KernelSpec, options: FilterGradientMmaOptions) -> int:
    """Of a block: its tiles of both operands."""
    return spec.dtype.itemsize * options.stages * (options.tile_m + options.tile_n) * options.tile_p


def resident_of(spec: KernelSpec, options: FilterGradientMmaOptions) -> int:
    """Blocks that a multiprocessor holds, by registers, threads and shared memory."""
    by_shared = spec.hardware.shared_multiprocessor // (shared_bytes(spec, options) + spec.hardware.shared_reserved)
    registers, warps = planned_registers(spec, options), options.warps_m * options.warps_n
    return max(1, min(blocks_by_quarters(spec.hardware, registers, warps), by_shared))


def copies_of(spec: KernelSpec, options: FilterGradientMmaOptions, tile: int, vector: int) -> Copies:
    """Those of a tile of so many elements a pixel."""
    columns, cells = tile // vector, tile // cell_of(spec)
    rows = max(1, threads_of(options) // columns)
    if spec.dtype is DType.FLOAT32:
        swizzle, mask = FLOAT_SWIZZLES.get(cells, FLOAT_SWIZZLE)
    else:
        swizzle, mask = SWIZZLES.get(cells, SWIZZLE)
    return Copies(vector=vector, bytes=spec.dtype.itemsize * vector, columns=columns, rows=min(rows, options.tile_p),
                  each=max(1, options.tile_p // rows), spare=rows > options.tile_p, cells=cells, swizzle=swizzle,
                  mask=mask)


def side_of(elements: int) -> Side:
    """That of a lane that has so many elements of a pixel in all."""
    each = 4 if elements % 4 == 0 else 2
    return Side(each=each, matrices=each // 2, span=MATRIX_COLUMNS * each, lanes=ROW_LANES * FLOAT_CELL // each)


def stored_of(spec: KernelSpec, options: FilterGradientMmaOptions) -> int:
    """Neighbouring sums of a lane that are stored together; a gradient that is written element by element asks for no
    address."""
    if partial_sums.is_direct(spec, options.splits) and options.vector_m == options.vector_n == 1:
        return 1
    most = side_of(options.tile_n // options.warps_n // MATRIX_COLUMNS).each if spec.dtype is DType.FLOAT32 else 2
    run = spec.reduction if options.joined == 1 else spec.channels
    return next(n for n in (4, 2, 1) if n <= most and run % n == 0)


def make_numbers(spec: KernelSpec, options: FilterGradientMmaOptions) -> FilterGradientMmaNumbers:
    """All numbers of a plan whose values are resolved, and fit together."""
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    tiled = in_joined_groups(spec, options)
    return FilterGradientMmaNumbers(
        cell=cell_of(spec), depth=matrix_depth(spec), groups=tiled.groups, channels=tiled.channels,
        filters=tiled.filters, window=tiled.reduction,
        direct=partial_sums.is_direct(spec, options.splits), split_factors=spec.numerics is Numerics.TF32X3,
        gradients=copies_of(spec, options, options.tile_m, options.vector_m),
        windows=copies_of(spec, options, options.tile_n, options.vector_n), plain=spec.is_pointwise,
        one_tap=max(spec.taps) == 1, guarded=any(map(any, spec.padding)), threads=threads_of(options),
        warp_m=warp_m, warp_n=warp_n,
        matrices_m=warp_m // MATRIX_ROWS, matrices_n=warp_n // MATRIX_COLUMNS,
        m_tiles=-(-tiled.filters // options.tile_m), n_tiles=-(-tiled.reduction // options.tile_n),
        guard_filters=tiled.filters % options.tile_m != 0, guard_columns=tiled.reduction % options.tile_n != 0,
        side_m=side_of(2 * warp_m // MATRIX_ROWS), side_n=side_of(warp_n // MATRIX_COLUMNS),
        stored=stored_of(spec, options),
        gradient_elements=options.tile_m * options.tile_p,
        stage=(options.tile_m + options.tile_n) * options.tile_p, shared_bytes=shared_bytes(spec, options),
        stages_ahead=options.stages - 2, adding=partial_sums.adding_of(spec, options.splits),
        registers=planned_registers(spec, options))
