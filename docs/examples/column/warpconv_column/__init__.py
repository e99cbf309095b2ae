"""``column``: a thread makes several rows of one output column, and each pixel that it loads serves all of them."""

from dataclasses import dataclass

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.parts.refusals import common_refusal
from warpconv.codegen.plan import GRID_LIMIT, Blocks, Cost, KernelPlan, Launch, Program

THREADS = 128           # of a block, along a row
MOST_PRODUCTS = 1024    # that are written one after the other
PADDING = ((0, 0), (0, 0))


@dataclass(frozen=True)
class ColumnOptions:
    """A thread makes ``rows`` outputs of a column."""

    rows: int = 4


@dataclass(frozen=True)
class ColumnNumbers:
    """What the template writes besides spec and options."""

    threads: int
    rows_read: int
    guarded: bool       # pixels may lie in the padding


def supports(spec):
    """None, or in words why not: planes of float32, filters that move by one pixel."""
    refusal = common_refusal(spec)
    if refusal is None and not spec.c == spec.k == 1:
        refusal = f"{spec.c} channels and {spec.k} filters, only single planes are served"
    if refusal is None and (spec.stride, spec.dilation) != ((1, 1), (1, 1)):
        refusal = "stride or dilation"
    return refusal


def defaults(spec, shape=None):
    """More rows for filters of more rows, as far as the image has them."""
    rows = 4 if spec.r < 5 else 8
    rows = rows if shape is None else min(rows, shape.p)
    return ColumnOptions(rows=max(1, min(rows, MOST_PRODUCTS // (spec.r * spec.s))))


def plan(spec, options):
    rows, taps = options.rows, spec.r * spec.s
    refusal = supports(spec)
    if refusal is None and rows * taps > max(taps, MOST_PRODUCTS):
        refusal = f"rows = {rows} would write {rows * taps} products (at most {MOST_PRODUCTS})"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = ColumnNumbers(threads=THREADS, rows_read=rows + spec.r - 1, guarded=spec.padding != PADDING)
    arguments = layer_arguments(spec)
    grid = (Blocks(of=Dimension.Q, add=THREADS - 1, per=THREADS, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=rows - 1, per=rows, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, limit=GRID_LIMIT[2]))
    launch = Launch(entry=spec.name, grid=grid, block=(THREADS, 1, 1), arguments=tuple(a.name for a in arguments))
    cost = Cost(unit=f"32 x {rows} outputs", warp_loads=numbers.rows_read * spec.s, shuffles=0, fma=rows * taps,
                registers=24 + rows + spec.s + step_registers(spec, rows), direct_loads=rows * taps)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("column/kernel.cu.jinja",), cost=cost,
                      program=Program(arguments=arguments, steps=(launch,)),
                      phrase=f"one thread for {rows} rows of an output column, {THREADS} threads a block")


def space(spec):
    """The plan values worth timing."""
    return [ColumnOptions(rows=rows) for rows in (1, 2, 4, 8, 16) if rows * spec.r * spec.s <= MOST_PRODUCTS]


def estimate(plan, shape):
    """Warp instructions: a load and its guard for each pixel, a weight and an FMA for each product."""
    warps = shape.n * -(-shape.p // plan.options.rows) * -(-shape.q // THREADS) * (THREADS // 32)
    return warps * (20 + 3 * plan.cost.warp_loads + 2 * plan.cost.fma)


ALGORITHM = Algorithm(name="column", summary="a thread for several rows of a column; each pixel is loaded once for all",
                      options=ColumnOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=2.3)
