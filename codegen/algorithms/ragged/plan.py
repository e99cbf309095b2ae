"""``ragged``: planes of differing sizes by one launch; a block looks up which plane its tile is of.

Sizes, addresses and distances of rows and columns are read from a table in memory (``parts.places``), so planes lie
anywhere and in any order of their axes.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts.arguments import border_arguments
from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.parts.places import FIELDS, STRIP, Place
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal, integer_border
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Role
from warpconv.codegen.shape import PIXELS, ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics, Operation

MOST_LOADS = 8              # of a thread on their way at a time
MOST_ROWS = 63              # of a filter, whose rows a thread holds in registers beside those of its strip
MOST_SHARED = 48 * 1024     # bytes of a block
GUARD = "(unsigned)h < (unsigned)H && (unsigned)w_in < (unsigned)W"
UNROLLED = 512              # products written one after the other
TILES = ((64, 32), (32, 32), (32, 16), (32, 8))     # columns and rows, the first that fits


@dataclass(frozen=True)
class RaggedOptions:
    """A block makes a tile of ``tile_columns`` x ``tile_rows`` outputs."""

    tile_columns: int = 64
    tile_rows: int = 32


@dataclass(frozen=True)
class RaggedNumbers:
    """What the template writes besides spec and options. A tile's input lies in shared memory in rows of ``pitch``
    numbers; filtered along its rows, of separable filters, in rows of ``lines_pitch``."""

    threads: int
    warps: int
    guard: str          # when a pixel lies in the image, empty where the border has another's
    strip: int
    strips: int         # of a row, where rows are filtered by themselves
    rows_in: int
    pitch: int
    lines_pitch: int
    loads: int          # of a thread on their way at a time
    unroll: int         # filter columns at once
    taps: int           # elements of a filter
    fields: int
    places: tuple[int, ...]


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why not: planes whose output has their size."""
    refusal = common_refusal(spec, dtypes=FLOATS + PIXELS, borders=BORDERS, mixed=True, residual=True, separable=True,
                             numerics=(Numerics.FLOAT32, Numerics.INT32), operation=Operation.RAGGED)
    refusal = refusal or integer_border(spec)
    if refusal is None and not spec.c == spec.k == 1:
        refusal = f"{spec.c} channels and {spec.k} filters, only planes are served, each of which may have a filter"
    if refusal is None and (spec.stride, spec.dilation) != ((1, 1), (1, 1)):
        refusal = "stride or dilation"
    if refusal is None and tuple(map(sum, spec.padding)) != (spec.r - 1, spec.s - 1):
        refusal = "outputs of another size than the image's"
    if refusal is None and Epilogue.BIAS in spec.epilogue:
        refusal = "its stores add no bias"
    if refusal is None and spec.r > MOST_ROWS:
        refusal = f"a filter of {spec.r} rows (at most {MOST_ROWS}, which a thread holds in registers)"
    if refusal is None and min(_shared_bytes(spec, *tile) for tile in TILES) > MOST_SHARED:
        refusal = f"the input of no tile fits into {MOST_SHARED} bytes of shared memory"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> RaggedOptions:
    columns, rows = next((tile for tile in TILES if _shared_bytes(spec, *tile) <= MOST_SHARED), TILES[-1])
    return RaggedOptions(tile_columns=columns, tile_rows=rows)


def _pitches(spec: KernelSpec, columns: int) -> tuple[int, int]:
    """Of a tile's input, and of its lines; odd where lanes go down the rows, so that no two meet in a bank."""
    wide = columns + spec.s - 1
    return (wide | 1, columns | 1) if spec.separable else (wide, 0)


def _shared_bytes(spec: KernelSpec, columns: int, rows: int) -> int:
    return 4 * (rows + spec.r - 1) * sum(_pitches(spec, columns))


def plan(spec: KernelSpec, options: RaggedOptions) -> KernelPlan:
    columns, rows = options.tile_columns, options.tile_rows
    threads, shared = columns * rows // STRIP, _shared_bytes(spec, columns, rows)
    refusal = supports(spec)
    if refusal is None and (columns % STRIP or rows % STRIP or threads % LANES or threads > BLOCK_THREADS):
        refusal = (f"a tile of {columns} x {rows} (multiples of {STRIP}, whole warps of threads with {STRIP} outputs "
                   f"each, at most {BLOCK_THREADS})")
    if refusal is None and shared > MOST_SHARED:
        refusal = f"the input of a tile takes {shared} bytes of shared memory (at most {MOST_SHARED})"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    pitch, lines_pitch = _pitches(spec, columns)
    warps, products, rows_in = threads // LANES, STRIP * spec.r, rows + spec.r - 1
    numbers = RaggedNumbers(
        threads=threads, warps=warps, guard="" if spec.padding_mode.reads_image else GUARD, strip=STRIP,
        strips=columns // STRIP, rows_in=rows_in, pitch=pitch, lines_pitch=lines_pitch,
        loads=min(MOST_LOADS, -(-rows_in // warps)),
        unroll=spec.s if products * spec.s <= UNROLLED else max(1, UNROLLED // products // 2),
        taps=spec.reduction, fields=FIELDS, places=tuple(Place))
    arguments = (
        Argument(name="x", role=Role.INPUT, c_type=spec.dtype.c_name),
        Argument(name="w", role=Role.WEIGHT, c_type=spec.w_dtype.c_name),
        Argument(name="table", role=Role.TABLE, c_type="long long", multiple_of=8),
        *([Argument(name="residual", role=Role.RESIDUAL, c_type=spec.y_dtype.c_name, alone=False)]
          if Epilogue.RESIDUAL in spec.epilogue else []),
        Argument(name="y", role=Role.OUTPUT, c_type=spec.y_dtype.c_name,
                 alone=Epilogue.RESIDUAL not in spec.epilogue),
        *border_arguments(spec))
    launch = Launch(entry=spec.name, grid=(Blocks(of=Dimension.N, limit=GRID_LIMIT[0]), Blocks(), Blocks()),
                    block=(columns, rows // STRIP, 1), arguments=tuple(a.name for a in arguments))
    window = STRIP + spec.r - 1
    loads = window * (1 if spec.separable else spec.s)
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("ragged/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        cost=Cost(unit=f"32 x {STRIP} outputs", warp_loads=-(-pitch * rows_in * STRIP // (columns * rows)),
                  shuffles=0, fma=STRIP * spec.reduction, direct_loads=STRIP * spec.r * spec.s,
                  registers=32 + window + STRIP + step_registers(spec, STRIP)),
        phrase=f"tiles of {columns} x {rows} outputs, {threads} threads a block, a strip of {STRIP} rows each; "
               "sizes and places of the planes from a table, N is the number of tiles",
        notes=(f"{loads} reads of shared memory for {STRIP} outputs",))


def space(spec: KernelSpec) -> Iterable[RaggedOptions]:
    """The plan values worth timing."""
    return [RaggedOptions(tile_columns=columns, tile_rows=rows)
            for columns in (32, 64, 128) for rows in (8, 16, 32, 64)
            if columns * rows // STRIP <= BLOCK_THREADS and _shared_bytes(spec, columns, rows) <= MOST_SHARED]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Of N tiles: their input's loads with the border, then reads of shared memory and products."""
    options: RaggedOptions = plan.options
    outputs = options.tile_columns * options.tile_rows / LANES
    reads = plan.spec.reduction * (1 + 1 / STRIP)
    slots: float = shape.n * (8 * plan.numbers.rows_in * plan.numbers.pitch / LANES + outputs * (3 + reads))
    return slots


ALGORITHM = Algorithm(name="ragged", summary="planes of differing sizes in one launch, each tile looks up its plane",
                      options=RaggedOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, operation=Operation.RAGGED)
