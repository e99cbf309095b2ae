"""``phases``: the data gradient of any layer; a thread makes a pixel of each phase of the stride.

The pixels of a tile of stride x stride share the outputs' gradients that they meet, each product is made once, and no
gradient is spread out with zeros between. Borders that have the image's own pixels are made on the padded image, in
float32, and a second step adds to each pixel those that stand for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.options import only
from warpconv.codegen.parts.arguments import demanding, gradient_arguments, named
from warpconv.codegen.parts.latency import lone_thread
from warpconv.codegen.parts.occupancy import has_many_places, largest_divisor, step_registers
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, Extent, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .numbers import Form, PhasesNumbers, is_folded, met, numbers

THREADS = 128
MOST_PRODUCTS = 400         # in the text
MOST_PIXELS = 64            # that a thread sums at a time
WEIGHTS_HELD = 100          # that a thread keeps in registers
MOST_ROWS = 16              # tiles of form ring by default
MOST_MET = 64               # gradients beside them, of form ring
ROWS_EACH = 8               # tiles that follow each other down a column, for one loading of the weights
NHWC_WIDTHS = (128, 96, 64, 32)     # of blocks in NHWC, where there are more channels than the last of them
# More taps than so many in NHWC: blocks of few channels, whose columns share gradients, and threads of many rows
MANY_TAPS, MANY_TAPS_WIDTH, MANY_TAPS_ROWS = 25, 16, 28
FOLD_THREADS = 128
MOST_PLANES = 64            # of a block, which CUDA allows
MANY_TAPS, MANY_FACTOR = 64, 4      # of sequences 255 take 30 ms and 127 10, where direct takes 8.5 and 4.3 (H200)
# times as long as estimated layers of several filters take: 20 of 64 to 512 filters, float32 (H200, 2026-11-26)
FILTERS_FACTOR = {Layout.NCHW: 2.0, Layout.NHWC: 5.0}
PACE = 2.3          # cycles of a modelled instruction
WAITS = 1.2         # times a forward layer's wait for a product (six layers of one pixel, an H200, 2026-11-28)
PADDED, FOLD = "padded", "fold_border"


@dataclass(frozen=True)
class PhasesOptions:
    """A thread makes tiles of ``c_tile`` channels. A block is ``block_size_x`` x ``block_size_y`` threads: in NCHW
    columns x rows of tiles, in NHWC tiles of channels x columns of tiles; in NCHW ``block_size_z`` planes. ``ring``:
    tiles have ``across`` times the stride's columns, a thread makes ``rows`` of them; ``vector`` channels are loaded
    and stored together in NHWC, in NCHW a tile's columns are stored so."""

    form: Form = Form.TILE
    block_size_x: int = 32
    block_size_y: int = 4
    block_size_z: int = 1
    c_tile: int = 1
    across: int = only(1, form=Form.RING)
    rows: int = only(ROWS_EACH, form=Form.RING)
    vector: int = only(1, form=Form.RING)


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS,
                             operation=Operation.DATA_GRADIENT)
    if refusal is None and is_folded(spec) and spec.epilogue:
        refusal = f"the data gradient of a {spec.padding_mode.value} border takes no epilogue"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> PhasesOptions:
    """All taps in the text where they are few; blocks as wide as rows of tiles, or as pixels have channels."""
    pixels, taps = spec.stride[0] * spec.stride[1], spec.r * spec.s
    form = Form.TILE if taps <= MOST_PRODUCTS and pixels <= MOST_PIXELS else Form.PIXEL
    most = min(4, MOST_PIXELS // pixels, MOST_PRODUCTS // taps, WEIGHTS_HELD // taps) if form is Form.TILE else 1
    c_tile = largest_divisor(spec.channels, max(1, most))
    ring = _ring(spec, shape, c_tile) if form is Form.TILE else {}
    rows = 64 if shape is None else -(-shape.h // (spec.stride[0] if form is not Form.PIXEL else 1))
    if ring:        # equal shares: each loads the filter, and the first tile's gradients
        most_rows = MANY_TAPS_ROWS if spec.layout is Layout.NHWC and taps > MANY_TAPS else MOST_ROWS
        form, ring = Form.RING, ring | {"rows": -(-rows // -(-rows // most_rows))}
    if spec.layout is Layout.NHWC:
        tiles = spec.c // (c_tile * ring.get("vector", 1))
        width = min(NHWC_WIDTHS, key=lambda lanes: -tiles % lanes) if tiles > 32 else 1 << (tiles - 1).bit_length()
        if ring and taps > MANY_TAPS:
            width = min(width, MANY_TAPS_WIDTH)
        return PhasesOptions(form=form, block_size_x=width, block_size_y=THREADS // width, c_tile=c_tile,
                             **ring)
    width = 64
    across = spec.stride[1] * ring.get("across", 1) if form is not Form.PIXEL else 1
    columns = 64 if shape is None else -(-shape.w // across)
    while width > 4 and width // 2 >= columns:
        width //= 2
    height = 1
    while height * ring.get("rows", ROWS_EACH) < rows and width * height < THREADS:
        height *= 2
    return PhasesOptions(form=form, block_size_x=width, block_size_y=height, block_size_z=THREADS // (width * height),
                         c_tile=c_tile, **ring)


def _ring(spec: KernelSpec, shape: ConvShape | None, c_tile: int) -> dict[str, int]:
    """Plan values of form ring where its filter and gradients stay in registers: two channels a thread where they are
    words, in NCHW the tiles and stores that the width divides into. Else none."""
    if spec.layout is Layout.NHWC:
        tried = [{"across": 1, "vector": 2}, {"across": 1, "vector": 1}]
    else:
        tried = [{"across": across, "vector": across * spec.stride[1]} for across in (2, 1)
                 if shape is not None and shape.w % (across * spec.stride[1]) == 0] + [{"across": 1, "vector": 1}]
    return next((values for values in tried
                 if _ring_refusal(spec, PhasesOptions(form=Form.RING, c_tile=c_tile, **values)) is None), {})


def _ring_refusal(spec: KernelSpec, options: PhasesOptions) -> str | None:
    """Why form ring cannot have these plan values, or None."""
    rows, columns = met(spec, options.across)
    nhwc, vector = spec.layout is Layout.NHWC, options.vector
    channels = options.c_tile * (vector if nhwc else 1)
    gradients = len(rows) * len(columns) * (vector if nhwc else 1)
    columns_stored, weights = spec.stride[1] * options.across, spec.r * spec.s * channels
    if spec.filters != 1:
        return f"form = ring keeps one filter a group, there are {spec.filters}"
    if nhwc and vector > 1 and (vector != 2 or spec.dtype.lanes != 2 or spec.c % 2 or spec.channels > 1):
        return f"vector = {vector}: pairs are of 16-bit channels in NHWC, an even number, a filter each"
    if not nhwc and vector > 1 and (vector not in (2, 4) or vector != columns_stored or is_folded(spec)):
        return f"vector = {vector}: 2 or 4, the columns of a tile ({columns_stored}), with a border of one value"
    if weights > WEIGHTS_HELD:
        return f"{weights} weights would not stay in registers (at most {WEIGHTS_HELD})"
    if gradients > MOST_MET:
        return f"{gradients} gradients would not stay in registers (at most {MOST_MET})"
    if spec.stride[0] * columns_stored * channels > MOST_PIXELS // 2:
        return f"{spec.stride[0] * columns_stored * channels} pixels of a thread (at most {MOST_PIXELS // 2})"
    return None


def plan(spec: KernelSpec, options: PhasesOptions) -> KernelPlan:
    threads = options.block_size_x * options.block_size_y * options.block_size_z
    refusal = _refusal(spec, options, threads)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    ring = options.form is Form.RING
    channels = options.c_tile * (options.vector if ring and spec.layout is Layout.NHWC else 1)
    made = numbers(spec, options.form, channels, threads, *((options.across, options.vector) if ring else ()))
    arguments = _arguments(spec, options)
    target = "dx"
    steps: tuple[Launch, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    if made.folded:
        target = PADDED
        arguments = (*arguments, Argument(name=PADDED, role=Role.WORKSPACE, c_type="float"))
        workspaces = (Workspace(name=PADDED, bytes_each=4 * spec.c, last_step=1, per=(
            Extent(of=Dimension.N), Extent(of=Dimension.H, add=made.around[0]),
            Extent(of=Dimension.W, add=made.around[1]))),)
        steps = (Launch(entry=FOLD, block=(FOLD_THREADS, 1, 1), arguments=(PADDED, "dx", "N", "H", "W"), grid=(
            Blocks(of=Dimension.W, each=1 if spec.layout is Layout.NCHW else spec.c, add=FOLD_THREADS - 1,
                   per=FOLD_THREADS),
            Blocks(of=Dimension.H, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, times=spec.c if spec.layout is Layout.NCHW else 1, limit=GRID_LIMIT[2]))),)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, made),
                    block=(options.block_size_x, options.block_size_y, options.block_size_z),
                    arguments=tuple(a.name for a in named(arguments, "dy", "w", "bias", target, "N", "H", "W", "P",
                                                          "Q")))
    pixels, taps = made.tile_rows * made.tile_columns, spec.r * spec.s
    loads = len(made.rows) * len(made.columns) if made.taps else taps
    held = made.channels * (pixels + (taps if made.hoisted else 1)) + loads * made.pairs
    return KernelPlan(
        spec=spec, options=options, numbers=made,
        templates=("phases/ring.cu.jinja" if ring else "phases/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch, *steps), workspaces=workspaces),
        phrase=f"one thread for {made.tile_rows} x {made.tile_columns} pixels of {made.channels} "
               f"channel{'s' if made.channels > 1 else ''}, "
               f"{' x '.join(map(str, launch.block))} threads a block",
        cost=Cost(unit=f"32 x {pixels} pixels of {made.channels} channel{'s' * (made.channels > 1)}",
                  warp_loads=len(made.columns) if ring else loads * spec.filters, shuffles=0,
                  fma=len(made.taps or range(taps)) * spec.filters * made.channels,
                  registers=min(255, 32 + held + step_registers(spec, pixels)),
                  direct_loads=taps * spec.filters, no_spills=held < 180 and not has_many_places(spec)))


def _arguments(spec: KernelSpec, options: PhasesOptions) -> tuple[Argument, ...]:
    """The arguments, with what words ask of addresses and rows."""
    found = gradient_arguments(spec)
    if options.form is not Form.RING or options.vector == 1:
        return found
    size = options.vector * spec.dtype.itemsize
    demands = {"dy": size, "dx": size} if spec.layout is Layout.NHWC else {"dx": size, "W": options.vector}
    return demanding(found, demands)


def _grid(spec: KernelSpec, options: PhasesOptions, made: PhasesNumbers) -> tuple[Blocks, Blocks, Blocks]:
    def tiles(of: Dimension, axis: int, per: int, limit: int) -> Blocks:
        size = (made.tile_rows, made.tile_columns)[axis] * per
        return Blocks(of=of, add=made.around[axis] + size - 1, per=size, limit=limit)

    x, y = options.block_size_x, options.block_size_y
    rows = options.rows if options.form is Form.RING else ROWS_EACH
    if spec.layout is Layout.NHWC:
        return (tiles(Dimension.W, 1, y, GRID_LIMIT[0]), tiles(Dimension.H, 0, rows, GRID_LIMIT[1]),
                Blocks(of=Dimension.N, times=-(-made.c_tiles // x), limit=GRID_LIMIT[2]))
    return (tiles(Dimension.W, 1, x, GRID_LIMIT[0]), tiles(Dimension.H, 0, y * rows, GRID_LIMIT[1]),
            Blocks(of=Dimension.N, each=made.c_tiles, add=options.block_size_z - 1, per=options.block_size_z,
                   limit=GRID_LIMIT[2]))


def _refusal(spec: KernelSpec, options: PhasesOptions, threads: int) -> str | None:
    refusal = supports(spec)
    pixels, taps = spec.stride[0] * spec.stride[1], spec.r * spec.s
    if refusal is None and spec.channels % options.c_tile:
        refusal = f"c_tile = {options.c_tile} does not divide C/groups = {spec.channels}"
    if refusal is None and not LANES <= threads <= BLOCK_THREADS:
        refusal = f"a block of {threads} threads ({LANES} to {BLOCK_THREADS} are possible)"
    if refusal is None and options.block_size_z > (1 if spec.layout is Layout.NHWC else MOST_PLANES):
        refusal = f"block_size_z = {options.block_size_z} (at most {MOST_PLANES} planes, in NHWC 1)"
    if refusal is None and options.form is Form.TILE:
        if taps * options.c_tile > MOST_PRODUCTS:
            refusal = f"{taps * options.c_tile} products in the text (at most {MOST_PRODUCTS})"
        elif pixels * options.c_tile > MOST_PIXELS:
            refusal = f"{pixels * options.c_tile} pixels of a thread (at most {MOST_PIXELS})"
    if refusal is None and options.form is Form.RING:
        refusal = _ring_refusal(spec, options)
    if refusal is None and options.form is Form.PIXEL and options.c_tile > 1:
        refusal = "form = pixel makes one channel at a time"
    return refusal


def space(spec: KernelSpec) -> Iterable[PhasesOptions]:
    own = defaults(spec)
    tiles = [t for t in (1, 2, 4) if spec.channels % t == 0] if own.form is Form.TILE else [1]
    rows = (4, ROWS_EACH, 16) if own.form is Form.RING else (ROWS_EACH,)
    planes = (1,) if spec.layout is Layout.NHWC else (1, 4, 16)
    found = [replace(own, block_size_x=x, block_size_y=max(1, threads // (x * z)), block_size_z=z, c_tile=t, rows=n)
             for t in tiles for n in rows for x in (8, 16, 32, 64, 128) for threads in (128, 256) for z in planes]
    return [o for o in found if _refusal(spec, o, o.block_size_x * o.block_size_y * o.block_size_z) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tile: guarded loads of the outputs' gradients, weights where they are not kept, an FMA a tap, the stores."""
    spec = plan.spec
    made: PhasesNumbers = plan.numbers
    options: PhasesOptions = plan.options
    pixels = made.tile_rows * made.tile_columns
    tiles = shape.n * shape.c * shape.h * shape.w / (pixels * made.channels)
    taps = spec.r * spec.s
    if not made.taps:
        return tiles / 32 * (20 + 12 * taps * spec.filters)
    if options.form is Form.RING:
        kept = len(made.rows) * len(made.columns) * made.pairs
        return tiles / 32 * (24 + 4 * len(made.columns) * made.pairs + kept + plan.cost.fma + 3 * len(made.stores))
    widen = 1 if spec.dtype.lanes > 1 else 0
    loads = len(made.rows) * len(made.columns) * (3 + widen)
    weights = 0 if made.hoisted else taps * options.c_tile * (1 + widen)
    work = 12 + spec.filters * (loads + weights + taps * options.c_tile) + 4 * pixels * options.c_tile
    if spec.filters == 1:
        return tiles / 32 * work * (MANY_FACTOR if taps > MANY_TAPS else 1)
    found = tiles / 32 * work * FILTERS_FACTOR[spec.layout] * (MANY_FACTOR if taps > MANY_TAPS else 1)
    return max(found, lone_thread(spec, WAITS * spec.filters * math.prod(_met(spec)), PACE))


def _met(spec: KernelSpec) -> tuple[int, ...]:
    """The taps along each axis that a pixel meets at most."""
    return tuple(-(-taps // stride) for taps, stride in zip(spec.taps, spec.stride))


ALGORITHM = Algorithm(name="phases",
                      summary="data gradient: a thread for a pixel of each phase of the stride; any layer",
                      options=PhasesOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=PACE, operation=Operation.DATA_GRADIENT)
