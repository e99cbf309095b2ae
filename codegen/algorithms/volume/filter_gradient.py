"""``volume_filter``: the filter's gradient of any layer of volumes, summed over the batch in a fixed order.

``march`` walks down the planes of the input as ``volume`` does; the outputs' gradients wait in registers. ``loops``
serves every layer: a load for each product.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import border_arguments, demanding, gradient_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .filter_lanes import filter_lanes_numbers, filter_lanes_refusal, lanes_options, leaner_lanes
from .filter_march import FilterMarchNumbers, march_refusal, march_numbers, march_options, registers_of
from .filter_options import FilterGradientOptions
from .lanes import FILTER_REGISTERS, MANY_TAPS, LanesNumbers, lane_demands
from .numbers import load_demands
from .options import Form

MOST_SUMS = 32              # of a thread of loops: taps whose products it sums
BLOCKS_EACH = 8             # that a multiprocessor shall have
# Dense layers of volumes, 17 of them in float16 and float32 (an H100, 2026-11-26): slots of a product of `loops`, and
# times as long as its instructions `march` takes
LOOP_SLOTS = 60
MARCH_PACE = 1.8


@dataclass(frozen=True)
class FilterLoopsNumbers:
    """What the template of ``loops`` writes besides spec and options."""

    tap_tiles: tuple[int, ...]      # of taps, along each axis
    elements: int
    warps: int
    min_blocks: int             # of a multiprocessor: without it registers are spilled for more of them


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS, spatial=(3,),
                             operation=Operation.FILTER_GRADIENT)
    return refusal or ("the filter's gradient takes no epilogue" if spec.epilogue else None)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientOptions:
    """As many taps as registers hold, so that each output's gradient is loaded for all of them."""
    found = (march_options if spec.layout is Layout.NCHW else lanes_options)(spec, shape)
    return found or _loops_options(spec, shape)


def _loops_options(spec: KernelSpec, shape: ConvShape | None) -> FilterGradientOptions:
    left, sizes = MOST_SUMS, []
    for taps in reversed(spec.taps):
        sizes.append(min(taps, left))
        left = max(1, left // sizes[-1])
    found = FilterGradientOptions(form=Form.LOOPS, tap_planes=sizes[2], tap_rows=sizes[1], tap_columns=sizes[0])
    made = _numbers(spec, found)
    rows = 1024 if shape is None else shape.depths[1] * shape.p
    beside = spec.k * spec.channels * made.tap_tiles[0] * made.tap_tiles[1] * made.tap_tiles[2]
    return replace(found, chunks=partial_sums.chunks_for(BLOCKS_EACH * spec.hardware.multiprocessors, beside,
                                                         -(-rows // made.warps)))


def _numbers(spec: KernelSpec, options: FilterGradientOptions) -> FilterLoopsNumbers:
    sizes = options.tap_planes, options.tap_rows, options.tap_columns
    return FilterLoopsNumbers(tap_tiles=tuple(-(-taps // size) for taps, size in zip(spec.taps, sizes)),
                              elements=spec.k * spec.reduction, warps=options.threads // LANES,
                              min_blocks=options.min_blocks or resident_blocks(spec.hardware, _registers(options),
                                                                               options.threads))


def _registers(options: FilterGradientOptions) -> int:
    rows = options.tap_planes * options.tap_rows
    return 48 + rows * options.tap_columns + 3 * rows


def plan(spec: KernelSpec, options: FilterGradientOptions) -> KernelPlan:
    refusal = _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = {Form.MARCH: _plan_march, Form.LANES: _plan_lanes, Form.LOOPS: _plan_loops}[options.form](spec, options)
    return replace(made, options=replace(options, min_blocks=made.numbers.min_blocks))


def _plan_march(spec: KernelSpec, options: FilterGradientOptions) -> KernelPlan:
    made = march_numbers(spec, options)
    taps = options.tap_planes * options.tap_rows * options.tap_columns
    outputs = options.rows * options.columns
    loads = made.tile.copies + outputs // options.vector
    registers = registers_of(spec, options, made)
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/filter_march.cu.jinja",),
        program=_program(spec, options, _arguments(spec, options), (made.tile.threads, 1, 1), made.tap_tiles,
                         made.shared_bytes),
        phrase=f"blocks of {options.block_size_x} x {options.block_size_y} threads walk down the planes, each with "
               f"{options.tap_planes} x {options.tap_rows} x {options.tap_columns} taps of a filter's channel and "
               f"{options.rows} x {options.columns} outputs of {made.slots} planes, in {options.chunks} chunks; then "
               "the chunks' sums are added",
        cost=Cost(unit=f"32 x {outputs} outputs of a plane", warp_loads=loads, shuffles=0, fma=outputs * taps,
                  direct_loads=2 * outputs * taps, registers=registers, no_spills=registers <= FILTER_REGISTERS))


def _plan_lanes(spec: KernelSpec, options: FilterGradientOptions) -> KernelPlan:
    made, registers = filter_lanes_numbers(spec, options)
    taps = options.tap_planes * options.tap_rows * options.tap_columns
    outputs = options.rows * options.columns * options.lane_vector
    channels = "2 channels" if options.lane_vector == 2 else "a channel"
    demands = lane_demands(spec, options, "x", "dy")
    arguments = demanding(gradient_arguments(spec), demands)
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/filter_lanes.cu.jinja",),
        program=_program(spec, options, arguments, (made.lanes, made.teams, 1), made.tap_tiles,
                         beside=-(-spec.k // made.team_channels)),
        phrase=f"teams of {made.lanes} lanes with {channels} each walk down the planes, each with "
               f"{options.tap_planes} x {options.tap_rows} x {options.tap_columns} taps and {options.rows} x "
               f"{options.columns} outputs of {made.slots} planes, in {options.chunks} chunks; then the chunks' sums "
               "are added",
        cost=Cost(unit=f"32 x {outputs} outputs of a plane", shuffles=0, fma=outputs * taps,
                  warp_loads=made.rows_read * made.columns_read + options.rows * options.columns,
                  direct_loads=2 * outputs * taps, registers=registers,
                  no_spills=registers <= FILTER_REGISTERS and max(spec.taps) < MANY_TAPS))


def _plan_loops(spec: KernelSpec, options: FilterGradientOptions) -> KernelPlan:
    made = _numbers(spec, options)
    sums = options.tap_planes * options.tap_rows * options.tap_columns
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/filter_loops.cu.jinja",),
        program=_program(spec, options, gradient_arguments(spec), (options.threads, 1, 1), made.tap_tiles),
        phrase=f"{options.tap_planes} x {options.tap_rows} x {options.tap_columns} taps of a filter's channel in a "
               f"thread, the outputs in {options.chunks} chunks; then the chunks' sums are added",
        cost=Cost(unit="32 outputs", warp_loads=1 + sums, shuffles=0, fma=sums, direct_loads=2 * sums,
                  registers=_registers(options)))


def _program(spec: KernelSpec, options: FilterGradientOptions, arguments: tuple[Argument, ...],
             block: tuple[int, int, int], tap_tiles: tuple[int, ...], shared_bytes: int = 0,
             beside: int = 0) -> Program:
    """A block for each chunk, filter's channel (or so many blocks ``beside`` each other for all) and tile of taps; then
    the chunks' sums are added."""
    filters = Blocks(times=beside or spec.k * spec.channels, limit=GRID_LIMIT[1])
    launch = Launch(entry=spec.name, block=block, shared_bytes=shared_bytes,
                    grid=(Blocks(times=options.chunks), filters,
                          Blocks(times=tap_tiles[0] * tap_tiles[1] * tap_tiles[2], limit=GRID_LIMIT[2])),
                    arguments=("x", "dy", partial_sums.PARTS, "N", "D", "H", "W", "Z", "P", "Q",
                               *(a.name for a in border_arguments(spec))))
    return partial_sums.program(arguments, launch, "dw", spec.k * spec.reduction, options.chunks, direct=False)


def _arguments(spec: KernelSpec, options: FilterGradientOptions) -> tuple[Argument, ...]:
    """The arguments, with what vectors ask of rows and addresses."""
    demands = load_demands(spec, options.load_vector)
    if options.vector > 1:
        demands |= {"Q": options.vector, "dy": options.vector * spec.dtype.itemsize}
    return demanding(gradient_arguments(spec), demands)


def _refusal(spec: KernelSpec, options: FilterGradientOptions) -> str | None:
    refusal = supports(spec)
    if refusal is None and options.chunks > partial_sums.MOST_CHUNKS:
        refusal = f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    threads = options.threads if options.form is Form.LOOPS else options.block_size_x * options.block_size_y
    refusal = refusal or blocks_refusal(spec, threads, options.min_blocks)
    if refusal is not None or options.form is not Form.LOOPS:
        return refusal or {Form.MARCH: march_refusal, Form.LANES: filter_lanes_refusal}[options.form](spec, options)
    sums = options.tap_planes * options.tap_rows * options.tap_columns
    if sums > MOST_SUMS:
        refusal = f"{sums} sums would not stay in registers (at most {MOST_SUMS})"
    if refusal is None and (not LANES <= options.threads <= BLOCK_THREADS or options.threads % LANES):
        refusal = f"a block of {options.threads} threads (whole warps, {LANES} to {BLOCK_THREADS} are possible)"
    if refusal is None and max(_numbers(spec, options).tap_tiles) > GRID_LIMIT[2]:
        refusal = f"a filter of {max(spec.taps)} taps along an axis"
    return refusal


def space(spec: KernelSpec) -> Iterable[FilterGradientOptions]:
    own = defaults(spec)
    chunks = partial_sums.chunks_beside(own.chunks)
    if own.form is Form.MARCH:
        found = [replace(own, chunks=share, pieces=pieces, rows=rows, columns=columns, block_size_x=width,
                         block_size_y=threads // width, stages=stages, vector=vector, load_vector=load)
                 for share in chunks for pieces in (1, 2, 4, 16) for rows, columns in ((2, 4), (1, 4), (2, 2), (1, 2))
                 for width in (8, 16, 32) for threads in (128, 256) for stages in (2, 3)
                 for vector in {1, columns} for load in {1, own.load_vector}]
    elif own.form is Form.LANES:
        found = [replace(own, chunks=share, pieces=pieces, rows=rows, columns=columns, lane_vector=vector)
                 for share in chunks for pieces in (1, 2, 4, 16) for rows, columns in ((2, 4), (1, 4), (2, 2), (1, 2))
                 for vector in {1, own.lane_vector}]
    else:
        found = [replace(own, chunks=share, threads=threads) for threads in (64, 128, 256) for share in chunks]
    return [options for options in found if _refusal(spec, options) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots: of ``loops`` a load with its guard and an FMA for each product, whose lanes wait for
    loads far apart; of ``march`` products, loads from shared memory and copies of each plane."""
    outputs = shape.n * shape.k * shape.depths[1] * shape.p * shape.q
    options: FilterGradientOptions = plan.options
    if options.form is Form.LOOPS:
        return outputs / 32 * shape.reduction * LOOP_SLOTS
    if options.form is Form.LANES:
        lanes: LanesNumbers = plan.numbers
        loads = 5 * (lanes.rows_read * lanes.columns_read / (options.rows * options.columns) + lanes.slots + 1)
        tiles = lanes.tap_tiles[0] * lanes.tap_tiles[1]
        return outputs / 32 * (shape.reduction + tiles * (20 + loads) / options.lane_vector)
    made: FilterMarchNumbers = plan.numbers
    each = options.rows * options.columns
    reads = options.tap_rows * options.rows * (made.tile.patch_columns - 3 * made.tile.vectors)
    products = each * options.tap_planes * options.tap_rows * options.tap_columns
    steps = outputs / 32 / each * shape.channels * made.tap_tiles[0] * made.tap_tiles[1]
    copies = plan.spec.stride[0] * (20 + reads + 4 * made.tile.copies)
    halo = 1 + (made.slots - 1) * options.pieces / shape.depths[1]
    return MARCH_PACE * steps * halo * (products + copies + each * (made.slots + 1))


def leaner(spec: KernelSpec, options: FilterGradientOptions) -> FilterGradientOptions | None:
    """``lanes`` with a smaller tile of outputs."""
    return leaner_lanes(spec, options) if options.form is Form.LANES else None


ALGORITHM = Algorithm(name="volume_filter",
                      summary="volumes: the filter's gradient, summed in a fixed order; any layer",
                      options=FilterGradientOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, leaner=leaner, operation=Operation.FILTER_GRADIENT, spatial=(3,))
