"""``phases``: the data gradient of any layer; a thread makes a pixel of each phase of the stride.

The pixels of a tile of stride x stride share the outputs' gradients that they meet, each product is made once, and no
gradient is spread out with zeros between. Borders that have the image's own pixels are made on the padded image, in
float32, and a second step adds to each pixel those that stand for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts.arguments import gradient_arguments, named
from warpconv.codegen.parts.occupancy import largest_divisor, step_registers
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, Extent, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .numbers import Form, PhasesNumbers, is_folded, numbers

THREADS = 128
MOST_PRODUCTS = 400         # in the text
MOST_PIXELS = 64            # that a thread sums at a time
WEIGHTS_HELD = 100          # that a thread keeps in registers
ROWS_EACH = 8               # tiles that follow each other down a column, for one loading of the weights
NHWC_WIDTHS = (128, 96, 64, 32)     # of blocks in NHWC, where there are more channels than the last of them
FOLD_THREADS = 128
MOST_PLANES = 64            # of a block, which CUDA allows
PADDED, FOLD = "padded", "fold_border"


@dataclass(frozen=True)
class PhasesOptions:
    """A thread makes tiles of ``c_tile`` channels. A block is ``block_size_x`` x ``block_size_y`` threads: in NCHW
    columns x rows of tiles, in NHWC tiles of channels x columns of tiles; in NCHW ``block_size_z`` planes."""

    form: Form = Form.TILE
    block_size_x: int = 32
    block_size_y: int = 4
    block_size_z: int = 1
    c_tile: int = 1


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
    if spec.layout is Layout.NHWC:
        tiles = spec.c // c_tile
        width = min(NHWC_WIDTHS, key=lambda lanes: -tiles % lanes) if tiles > 32 else 1 << (tiles - 1).bit_length()
        return PhasesOptions(form=form, block_size_x=width, block_size_y=THREADS // width, c_tile=c_tile)
    width = 64
    columns = 64 if shape is None else -(-shape.w // (spec.stride[1] if form is Form.TILE else 1))
    while width > 4 and width // 2 >= columns:
        width //= 2
    rows = 64 if shape is None else -(-shape.h // (spec.stride[0] if form is Form.TILE else 1))
    height = 1
    while height * ROWS_EACH < rows and width * height < THREADS:
        height *= 2
    return PhasesOptions(form=form, block_size_x=width, block_size_y=height, block_size_z=THREADS // (width * height),
                         c_tile=c_tile)


def plan(spec: KernelSpec, options: PhasesOptions) -> KernelPlan:
    threads = options.block_size_x * options.block_size_y * options.block_size_z
    refusal = _refusal(spec, options, threads)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = numbers(spec, options.form, options.c_tile, threads)
    arguments = gradient_arguments(spec)
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
    held = options.c_tile * (pixels + (taps if made.hoisted else 1)) + loads
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("phases/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch, *steps), workspaces=workspaces),
        phrase=f"one thread for {made.tile_rows} x {made.tile_columns} pixels of {options.c_tile} "
               f"channel{'s' if options.c_tile > 1 else ''}, "
               f"{' x '.join(map(str, launch.block))} threads a block",
        cost=Cost(unit=f"32 x {pixels} pixels of {options.c_tile} channels", warp_loads=loads * spec.filters,
                  shuffles=0, fma=taps * spec.filters * options.c_tile,
                  registers=min(255, 32 + held + step_registers(spec, pixels)),
                  direct_loads=taps * spec.filters, no_spills=held < 180))


def _grid(spec: KernelSpec, options: PhasesOptions, made: PhasesNumbers) -> tuple[Blocks, Blocks, Blocks]:
    def tiles(of: Dimension, axis: int, per: int, limit: int) -> Blocks:
        size = (made.tile_rows, made.tile_columns)[axis] * per
        return Blocks(of=of, add=made.around[axis] + size - 1, per=size, limit=limit)

    x, y = options.block_size_x, options.block_size_y
    if spec.layout is Layout.NHWC:
        return (tiles(Dimension.W, 1, y, GRID_LIMIT[0]), tiles(Dimension.H, 0, ROWS_EACH, GRID_LIMIT[1]),
                Blocks(of=Dimension.N, times=-(-made.c_tiles // x), limit=GRID_LIMIT[2]))
    return (tiles(Dimension.W, 1, x, GRID_LIMIT[0]), tiles(Dimension.H, 0, y * ROWS_EACH, GRID_LIMIT[1]),
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
    if refusal is None and options.form is Form.PIXEL and options.c_tile > 1:
        refusal = "form = pixel makes one channel at a time"
    return refusal


def space(spec: KernelSpec) -> Iterable[PhasesOptions]:
    own = defaults(spec)
    tiles = [t for t in (1, 2, 4) if spec.channels % t == 0] if own.form is Form.TILE else [1]
    planes = (1,) if spec.layout is Layout.NHWC else (1, 4, 16)
    found = [PhasesOptions(form=own.form, block_size_x=x, block_size_y=max(1, threads // (x * z)), block_size_z=z,
                           c_tile=t)
             for t in tiles for x in (8, 16, 32, 64, 128) for threads in (128, 256) for z in planes]
    return [o for o in found if _refusal(spec, o, o.block_size_x * o.block_size_y * o.block_size_z) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tile: guarded loads of the outputs' gradients, weights where they are not kept, an FMA a tap, the stores."""
    spec = plan.spec
    made: PhasesNumbers = plan.numbers
    options: PhasesOptions = plan.options
    pixels = made.tile_rows * made.tile_columns
    tiles = shape.n * shape.c * shape.h * shape.w / (pixels * options.c_tile)
    taps = spec.r * spec.s
    if not made.taps:
        return tiles / 32 * (20 + 12 * taps * spec.filters)
    widen = 1 if spec.dtype.lanes > 1 else 0
    loads = len(made.rows) * len(made.columns) * (3 + widen)
    weights = 0 if made.hoisted else taps * options.c_tile * (1 + widen)
    return tiles / 32 * (12 + spec.filters * (loads + weights + taps * options.c_tile) + 4 * pixels * options.c_tile)


ALGORITHM = Algorithm(name="phases",
                      summary="data gradient: a thread for a pixel of each phase of the stride; any layer",
                      options=PhasesOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=2.3, operation=Operation.DATA_GRADIENT)
