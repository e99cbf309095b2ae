"""``volume_filter``: the filter's gradient of any layer of volumes, summed over the batch in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import border_arguments, gradient_arguments
from warpconv.codegen.parts.occupancy import resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

MOST_SUMS = 32              # of a thread: taps whose products it sums
BLOCKS_EACH = 8             # that a multiprocessor shall have


@dataclass(frozen=True)
class FilterGradientOptions:
    """A thread sums the products of ``tap_planes`` x ``tap_rows`` x ``tap_columns`` taps; the outputs are summed in
    ``chunks`` shares, each by blocks of ``threads``."""

    tap_planes: int = 1
    tap_rows: int = 1
    tap_columns: int = 1
    chunks: int = 1
    threads: int = 128


@dataclass(frozen=True)
class FilterGradientNumbers:
    """What the template writes besides spec and options."""

    tiles: tuple[int, ...]      # of taps, along each axis
    elements: int
    warps: int
    min_blocks: int             # of a multiprocessor: without it registers are spilled for more of them


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS, volumes=True,
                             operation=Operation.FILTER_GRADIENT)
    return refusal or ("the filter's gradient takes no epilogue" if spec.epilogue else None)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientOptions:
    """As many taps as registers hold, so that each output's gradient is loaded for all of them."""
    left, sizes = MOST_SUMS, []
    for taps in reversed(spec.taps):
        sizes.append(min(taps, left))
        left = max(1, left // sizes[-1])
    found = FilterGradientOptions(tap_planes=sizes[2], tap_rows=sizes[1], tap_columns=sizes[0])
    made = _numbers(spec, found)
    rows = 1024 if shape is None else shape.depths[1] * shape.p
    beside = spec.k * spec.channels * made.tiles[0] * made.tiles[1] * made.tiles[2]
    return replace(found, chunks=partial_sums.chunks_for(BLOCKS_EACH * spec.hardware.multiprocessors, beside,
                                                         -(-rows // made.warps)))


def _numbers(spec: KernelSpec, options: FilterGradientOptions) -> FilterGradientNumbers:
    sizes = options.tap_planes, options.tap_rows, options.tap_columns
    return FilterGradientNumbers(tiles=tuple(-(-taps // size) for taps, size in zip(spec.taps, sizes)),
                                 elements=spec.k * spec.reduction, warps=options.threads // LANES,
                                 min_blocks=resident_blocks(spec.hardware, _registers(options), options.threads))


def _registers(options: FilterGradientOptions) -> int:
    rows = options.tap_planes * options.tap_rows
    return 48 + rows * options.tap_columns + 3 * rows


def plan(spec: KernelSpec, options: FilterGradientOptions) -> KernelPlan:
    refusal = _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = _numbers(spec, options)
    arguments = (*gradient_arguments(spec), partial_sums.argument())
    tiles = made.tiles[0] * made.tiles[1] * made.tiles[2]
    launch = Launch(entry=spec.name, block=(options.threads, 1, 1),
                    grid=(Blocks(times=options.chunks), Blocks(times=spec.k * spec.channels, limit=GRID_LIMIT[1]),
                          Blocks(times=tiles, limit=GRID_LIMIT[2])),
                    arguments=("x", "dy", partial_sums.PARTS, "N", "D", "H", "W", "Z", "P", "Q",
                               *(a.name for a in border_arguments(spec))))
    program = Program(arguments=arguments, steps=(launch, partial_sums.launch(made.elements, "dw")),
                      workspaces=(partial_sums.workspace(made.elements, options.chunks),))
    sums = options.tap_planes * options.tap_rows * options.tap_columns
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/filter_gradient.cu.jinja",), program=program,
        phrase=f"{options.tap_planes} x {options.tap_rows} x {options.tap_columns} taps of a filter's channel in a "
               f"thread, the outputs in {options.chunks} chunks; then the chunks' sums are added",
        cost=Cost(unit="32 outputs", warp_loads=1 + sums, shuffles=0, fma=sums, direct_loads=2 * sums,
                  registers=_registers(options)))


def _refusal(spec: KernelSpec, options: FilterGradientOptions) -> str | None:
    refusal = supports(spec)
    sums = options.tap_planes * options.tap_rows * options.tap_columns
    if refusal is None and sums > MOST_SUMS:
        refusal = f"{sums} sums would not stay in registers (at most {MOST_SUMS})"
    if refusal is None and (not LANES <= options.threads <= BLOCK_THREADS or options.threads % LANES):
        refusal = f"a block of {options.threads} threads (whole warps, {LANES} to {BLOCK_THREADS} are possible)"
    if refusal is None and options.chunks > partial_sums.MOST_CHUNKS:
        refusal = f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    if refusal is None and max(_numbers(spec, options).tiles) > GRID_LIMIT[2]:
        refusal = f"a filter of {max(spec.taps)} taps along an axis"
    return refusal


def space(spec: KernelSpec) -> Iterable[FilterGradientOptions]:
    own = defaults(spec)
    found = [replace(own, chunks=chunks, threads=threads) for threads in (64, 128, 256)
             for chunks in sorted({max(1, own.chunks // 2), own.chunks, min(2 * own.chunks, partial_sums.MOST_CHUNKS)})]
    return [options for options in found if _refusal(spec, options) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """A load with its guard and an FMA for each product."""
    outputs = shape.n * shape.k * shape.depths[1] * shape.p * shape.q
    return outputs / 32 * shape.reduction * 5


ALGORITHM = Algorithm(name="volume_filter",
                      summary="volumes: the filter's gradient, summed in a fixed order; any layer",
                      options=FilterGradientOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, operation=Operation.FILTER_GRADIENT, volumes=True)
