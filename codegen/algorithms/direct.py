"""``direct``: one thread per output column, every tap loaded; serves any layer and is every other kernel's yardstick."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable

from ..errors import UnsupportedSpec
from ..plan import Blocks, Cost, Dimension, GRID_LIMIT, KernelPlan, Launch, Program
from ..shape import ConvShape
from ..spec import KernelSpec
from .base import DERIVED, Algorithm, common_refusal, largest_divisor, layer_arguments, resident_blocks

# Rows of taps are unrolled up to this many FMAs in all; beyond it the row loop stays a loop (a 31x31 filter has 961).
UNROLLED_TAPS = 256
THREADS = 256
MOST_ROWS = 64
WEIGHTS_HELD = 100     # weights of one channel that a thread keeps in registers
MOST_REGISTERS = 200   # planned registers beyond which it may spill
REGISTER_MARGIN = 24   # beyond the planned registers, so that nothing spills; unbounded, the compiler takes all 255


@dataclass(frozen=True)
class DirectOptions:
    """``block_size_x`` x ``block_size_y`` threads make that many outputs of ``k_tile`` filters each; the compiler is told
    to leave registers for ``min_blocks`` blocks on a multiprocessor (follows from the others where not given)."""

    block_size_x: int = 64
    block_size_y: int = 4
    k_tile: int = 1
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class DirectNumbers:
    """What the template writes besides the spec."""

    k_tiles: int
    unroll_rows: bool
    threads: int
    guard_rows: bool
    guard_columns: bool


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> DirectOptions:
    """A block as wide as the output rows need, and as many filters a thread as divide K/groups, up to 8; fewer for one
    channel, whose weights the compiler keeps in registers."""
    width = 64
    if shape is not None:
        while width > 8 and width // 2 >= shape.q:
            width //= 2
    most = 8 if spec.channels > 1 else max(1, min(8, WEIGHTS_HELD // (spec.r * spec.s)))
    return DirectOptions(block_size_x=width, block_size_y=THREADS // width, k_tile=largest_divisor(spec.filters, most))


def plan(spec: KernelSpec, options: DirectOptions) -> KernelPlan:
    _check(spec, options)
    taps = spec.r * spec.s
    k_tiles = spec.filters // options.k_tile
    threads = options.block_size_x * options.block_size_y
    hoisted = taps * options.k_tile if spec.channels == 1 else 0     # one channel's weights do not change in the loop
    registers = 24 + 2 * options.k_tile + 2 * spec.s + hoisted
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=resident_blocks(spec.arch, registers + REGISTER_MARGIN, threads))
    (top, bottom), (left, right) = spec.padding
    numbers = DirectNumbers(k_tiles=k_tiles, unroll_rows=taps * options.k_tile <= UNROLLED_TAPS, threads=threads,
                            guard_rows=top + bottom > 0, guard_columns=left + right > 0)
    arguments = layer_arguments(spec)
    launch = Launch(
        entry=spec.name, block=(options.block_size_x, options.block_size_y, 1),
        grid=(Blocks(of=Dimension.Q, add=options.block_size_x - 1, per=options.block_size_x, limit=GRID_LIMIT[0]),
              Blocks(of=Dimension.P, add=options.block_size_y - 1, per=options.block_size_y, limit=GRID_LIMIT[1]),
              Blocks(of=Dimension.N, times=spec.groups * k_tiles, limit=GRID_LIMIT[2])),
        arguments=tuple(a.name for a in arguments))
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("direct.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        cost=Cost(unit=f"32 outputs of {options.k_tile} filter{'s' if options.k_tile > 1 else ''}",
                  warp_loads=taps * spec.channels, shuffles=0, fma=taps * spec.channels * options.k_tile, registers=registers,
                  direct_loads=taps * spec.channels, no_spills=registers <= MOST_REGISTERS),
        phrase=f"one thread per output column of {options.k_tile} filter{'s' if options.k_tile > 1 else ''}, "
               f"{options.block_size_x} x {options.block_size_y} threads a block")


def _check(spec: KernelSpec, options: DirectOptions) -> None:
    refusal = supports(spec)
    if refusal is None and spec.filters % options.k_tile:
        refusal = f"k_tile = {options.k_tile} does not divide K/groups = {spec.filters}"
    if refusal is None and options.k_tile > 32:
        refusal = f"k_tile = {options.k_tile} accumulators would not stay in registers (at most 32)"
    threads = options.block_size_x * options.block_size_y
    if refusal is None and not 32 <= threads <= 1024:
        refusal = f"a block of {threads} threads (32 to 1024 are possible)"
    if refusal is None and options.block_size_y > MOST_ROWS:
        refusal = f"block_size_y = {options.block_size_y} (at most {MOST_ROWS}, so that row indices cannot overflow)"
    if refusal is None and threads * options.min_blocks > spec.arch.resident_threads:
        refusal = f"min_blocks = {options.min_blocks}: {spec.arch} holds {spec.arch.resident_threads} threads"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def space(spec: KernelSpec) -> Iterable[DirectOptions]:
    tiles = [t for t in (1, 2, 4, 8, 16) if spec.filters % t == 0]
    return [DirectOptions(block_size_x=x, block_size_y=max(1, threads // x), k_tile=t)
            for x in (8, 16, 32, 64, 128) for threads in (128, 256) for t in tiles]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tap and thread: a load with its guard, then a weight load and an FMA for each filter of the tile."""
    options = plan.options
    columns = -(-shape.q // options.block_size_x) * options.block_size_x
    rows = -(-shape.p // options.block_size_y) * options.block_size_y
    threads = shape.n * columns * rows * (shape.k // options.k_tile)
    return threads / 32 * (20 + shape.reduction * (3 + 1.5 * options.k_tile))


ALGORITHM = Algorithm(name="direct", summary="one thread per output column, every tap loaded; any layer",
                      options=DirectOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
