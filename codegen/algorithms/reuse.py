"""``reuse``: the corrected Algorithm 4 of Lu, Zhang, Wang (CLUSTER 2020): column and row reuse, and all its variants.

A warp makes a sub-block of 32 output columns and ``sub_block_rows`` rows. Each input row is loaded once; neighbouring
lanes exchange columns (codegen.columns); the row is added to the R outputs that need it, whose accumulators form a
ring. Outputs whose window touches padding, and the columns left over beside the last whole sub-block, are made
directly, or everything takes the fast path with predicated loads.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Iterable

from ..arch import REGISTER_FILE
from ..columns import ColumnPlan, Decomposition, decompose, plain
from ..errors import UnsupportedSpec
from ..plan import Blocks, Cost, Dimension, GRID_LIMIT, KernelPlan, Launch, Preparation, Program
from ..shape import ConvShape
from ..spec import KernelSpec
from .base import Algorithm, common_refusal, largest_divisor, layer_arguments

LANES = 32
SHARED_LIMIT = 48 * 1024      # static shared memory of a block, bytes
CONSTANT_LIMIT = 64 * 1024    # constant memory of a module, bytes
# The unrolled ring has R * R * S * k_tile FMAs in its text. Up to this many it compiles in about a second.
RING_LIMIT = 2200
# Registers a thread can have before it spills, less what addresses and the loop take.
REGISTER_LIMIT = 255 - 30
REGISTER_MARGIN = 12          # what the compiler needs beyond the planned registers to stay clear of spills
WEIGHTS_IN_FLIGHT = 64        # registers the compiler likes to fill with weights it reads inside the channel loop
WIDEST_FILTER = 31
STATEMENT_COLUMNS = 5         # columns that one FMA statement of the text spans


class Exchange(enum.Enum):
    """How a lane gets the columns that it does not load."""

    PACKED = "packed"                # pack two, shift by 0 or 32, unpack, shuffle (Algorithms 1 and 2)
    SELECT = "select"                # a select, then the shuffle
    DYNAMIC = "dynamic"              # a register array indexed per lane, as the compiler takes it
    DYNAMIC_LOCAL = "dynamic_local"  # the same, forced into local memory
    NONE = "none"                    # no exchange: every column loaded


class Rows(enum.Enum):
    REUSE = "reuse"      # each input row loaded once (Algorithm 3, corrected)
    RELOAD = "reload"    # each output row loads its R input rows


class Weights(enum.Enum):
    SHARED = "shared"      # a k-tile's weights staged in shared memory
    CONSTANT = "constant"  # the filter in constant memory
    CACHED = "cached"      # read from global memory through the cache


class Edges(enum.Enum):
    DIRECT = "direct"          # outputs at the border and beside the last whole sub-block are made directly
    PREDICATED = "predicated"  # all outputs take the fast path, loads outside the image give zero


@dataclass(frozen=True)
class ReuseOptions:
    """Plan values. A block has ``warp_columns`` x ``warp_rows`` warps; a thread works on ``k_tile`` filters at a time;
    the compiler is told to leave registers for ``min_blocks`` blocks on a multiprocessor."""

    exchange: Exchange = Exchange.SELECT
    rows: Rows = Rows.REUSE
    decomposition: Decomposition = Decomposition.PAPER
    weights: Weights = Weights.SHARED
    edges: Edges = Edges.DIRECT
    sub_block_rows: int = 56
    warp_columns: int = 1
    warp_rows: int = 4
    k_tile: int = 1
    min_blocks: int = 1


@dataclass(frozen=True)
class ReuseNumbers:
    """What the template writes besides the spec."""

    columns: ColumnPlan
    statements: tuple[tuple[int, ...], ...]   # columns of each FMA statement
    swap_steps: tuple[int, ...]               # distinct exchange distances
    threads: int
    taps: int
    k_tiles: int                              # of one group
    channel_stride: int                       # floats between a tile's channels where its weights are kept
    tile_floats: int                          # weights of a k-tile
    shared_floats: int
    filter_floats: int                        # weights of the whole filter
    weights_in_registers: bool
    uses_channel_stride: bool
    array_of_columns: bool                    # columns in a local array (the dynamic variants) or in named registers
    frame_rows: bool                          # some output rows touch padding
    input_rows: int
    exchange_fragment: str
    sub_block_fragment: str
    jobs_fragment: str


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec)
    if refusal is None and spec.stride != (1, 1):
        refusal = f"stride {spec.stride} (neighbouring lanes share columns only at stride 1)"
    if refusal is None and spec.dilation != (1, 1):
        refusal = f"dilation {spec.dilation} (the exchanges assume adjacent taps)"
    if refusal is None and spec.s > WIDEST_FILTER:
        refusal = f"a filter {spec.s} columns wide (at most {WIDEST_FILTER}: a window must fit a warp's span)"
    if refusal is None and spec.r ** 2 * spec.s > RING_LIMIT:
        refusal = (f"the unrolled ring of a {spec.r}x{spec.s} filter has {spec.r ** 2 * spec.s} FMAs "
                   f"(R*R*S at most {RING_LIMIT} compiles quickly and stays in registers)")
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ReuseOptions:
    """Weights in shared memory where a tile fits; as many filters at a time as text and registers allow."""
    per_filter = spec.r ** 2 * spec.s
    most = min(8, RING_LIMIT // per_filter, 40 // spec.r) if spec.filters > 1 else 1
    fitting = SHARED_LIMIT // (4 * spec.channels * _channel_stride(spec, True))
    k_tile = largest_divisor(spec.filters, min(most, fitting) if fitting else most)
    options = ReuseOptions(k_tile=k_tile, weights=Weights.SHARED if fitting else Weights.CACHED)
    return replace(options, min_blocks=_resident_blocks(spec, options))


def _resident_blocks(spec: KernelSpec, options: ReuseOptions) -> int:
    """Blocks of a multiprocessor that the registers in use allow: without this bound the compiler takes more than it
    needs (80 for a 5x5 filter), with a stricter one it spills."""
    columns = decompose(spec.s, options.decomposition)
    numbers = _numbers(spec, options, columns)
    planned = _cost(spec, options, numbers).registers
    margin = REGISTER_MARGIN if numbers.weights_in_registers else 2 * REGISTER_MARGIN
    registers = planned + margin + max(0, planned - 90) // 4
    fitting = min(REGISTER_FILE // registers, spec.arch.resident_threads) // numbers.threads
    return max(1, fitting)


def plan(spec: KernelSpec, options: ReuseOptions) -> KernelPlan:
    columns = plain(spec.s) if options.exchange is Exchange.NONE else decompose(spec.s, options.decomposition)
    numbers = _numbers(spec, options, columns)
    cost = _cost(spec, options, numbers)
    _check(spec, options, numbers, cost)
    arguments = layer_arguments(spec)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    preparation = (Preparation(constant="filter_bank", constant_bytes=4 * numbers.filter_floats)
                   if options.weights is Weights.CONSTANT else None)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("reuse.cu.jinja",), cost=cost,
                      program=Program(arguments=arguments, steps=(launch,), preparation=preparation),
                      phrase=_phrase(options, numbers), notes=_notes(spec, options))


def _numbers(spec: KernelSpec, options: ReuseOptions, columns: ColumnPlan) -> ReuseNumbers:
    taps = spec.r * spec.s
    in_registers = spec.channels == 1 and options.k_tile == 1
    stride = _channel_stride(spec, options.weights is Weights.SHARED and not in_registers)
    statements = tuple(tuple(range(first, min(first + STATEMENT_COLUMNS, spec.s)))
                       for first in range(0, spec.s, STATEMENT_COLUMNS))
    return ReuseNumbers(
        columns=columns, statements=statements, swap_steps=tuple(sorted({swap.step for swap in columns.swaps})),
        threads=LANES * options.warp_columns * options.warp_rows, taps=taps, k_tiles=spec.filters // options.k_tile,
        channel_stride=stride, tile_floats=options.k_tile * spec.channels * taps,
        shared_floats=options.k_tile * spec.channels * stride if options.weights is Weights.SHARED else 0,
        filter_floats=spec.k * spec.channels * taps, weights_in_registers=in_registers,
        uses_channel_stride=not in_registers or options.edges is Edges.DIRECT,
        array_of_columns=options.exchange in (Exchange.DYNAMIC, Exchange.DYNAMIC_LOCAL),
        frame_rows=sum(spec.padding[0]) > 0, input_rows=options.sub_block_rows + spec.r - 1,
        exchange_fragment=f"exchange_{options.exchange.value}.cuh.jinja",
        sub_block_fragment=f"rows_{options.rows.value}.cuh.jinja",
        jobs_fragment=f"jobs_{options.edges.value}.cuh.jinja")


def _channel_stride(spec: KernelSpec, padded: bool) -> int:
    """Floats from one channel's taps to the next; padded to 16 bytes so that shared reads can be wide."""
    taps = spec.r * spec.s
    return -(-taps // 4) * 4 if padded and spec.channels * spec.filters > 1 else taps


def _grid(spec: KernelSpec, options: ReuseOptions, numbers: ReuseNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide, tall = LANES * options.warp_columns, options.sub_block_rows * options.warp_rows
    # With direct edges one more job stands beside the last whole sub-block, and one more row of jobs makes the frame.
    beside = wide if options.edges is Edges.DIRECT and sum(spec.padding[1]) else wide - 1
    below = options.sub_block_rows if options.edges is Edges.DIRECT and numbers.frame_rows else 0
    return (Blocks(of=Dimension.Q, add=beside, per=wide, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=tall - 1 + below, per=tall, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, times=spec.groups * numbers.k_tiles, limit=GRID_LIMIT[2]))


def _cost(spec: KernelSpec, options: ReuseOptions, numbers: ReuseNumbers) -> Cost:
    reuse = options.rows is Rows.REUSE
    row_loads = numbers.input_rows if reuse else options.sub_block_rows * spec.r
    accumulators = (spec.r if reuse else 1) * options.k_tile
    weights = numbers.taps if numbers.weights_in_registers else min(WEIGHTS_IN_FLIGHT, numbers.taps * options.k_tile)
    return Cost(unit=f"sub-block of {options.sub_block_rows} rows x {LANES} columns, {options.k_tile} filter"
                     f"{'s' if options.k_tile > 1 else ''}, all channels",
                warp_loads=row_loads * len(numbers.columns.loads) * spec.channels,
                shuffles=row_loads * len(numbers.columns.swaps) * spec.channels,
                fma=options.sub_block_rows * numbers.taps * options.k_tile * spec.channels,
                registers=accumulators + spec.s + weights + 20,
                direct_loads=options.sub_block_rows * numbers.taps * spec.channels,
                no_spills=options.exchange not in (Exchange.DYNAMIC, Exchange.DYNAMIC_LOCAL))


def _check(spec: KernelSpec, options: ReuseOptions, numbers: ReuseNumbers, cost: Cost) -> None:
    refusal = supports(spec)
    ring = spec.r ** 2 * spec.s * options.k_tile
    if refusal is None and spec.filters % options.k_tile:
        refusal = f"k_tile = {options.k_tile} does not divide K/groups = {spec.filters}"
    if refusal is None and numbers.threads > 1024:
        refusal = f"{options.warp_columns} x {options.warp_rows} warps are more than a block's 1024 threads"
    if refusal is None and options.sub_block_rows > 4096:
        refusal = f"sub_block_rows = {options.sub_block_rows} (at most 4096)"
    if refusal is None and 4 * numbers.shared_floats > SHARED_LIMIT:
        refusal = (f"a tile of {options.k_tile} filters has {4 * numbers.shared_floats} bytes of weights, more than the "
                   f"{SHARED_LIMIT} of shared memory; weights=cached serves it")
    if refusal is None and options.weights is Weights.CONSTANT and 4 * numbers.filter_floats > CONSTANT_LIMIT:
        refusal = (f"the filter has {4 * numbers.filter_floats} bytes, more than the {CONSTANT_LIMIT} of constant "
                   f"memory; weights=shared or cached serves it")
    if refusal is None and ring > RING_LIMIT:
        refusal = f"the unrolled ring has {ring} FMAs with k_tile = {options.k_tile} (at most {RING_LIMIT})"
    if refusal is None and cost.registers > REGISTER_LIMIT:
        refusal = f"about {cost.registers} registers would be needed (at most {REGISTER_LIMIT})"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def _phrase(options: ReuseOptions, numbers: ReuseNumbers) -> str:
    warps = options.warp_columns * options.warp_rows
    return (f"one warp per sub-block of {options.sub_block_rows} rows x {LANES} columns, {warps} warps per block; "
            f"filter columns {numbers.columns}")


def _notes(spec: KernelSpec, options: ReuseOptions) -> tuple[str, ...]:
    per_filter = 4 * spec.channels * _channel_stride(spec, True)
    if options.weights is Weights.CACHED and per_filter > SHARED_LIMIT:
        return (f"weights are read through the cache: one filter has {per_filter} bytes, more than the {SHARED_LIMIT} "
                f"of shared memory",)
    return ()


def space(spec: KernelSpec) -> Iterable[ReuseOptions]:
    base = defaults(spec)
    tiles = [t for t in (1, 2, 4, 8) if spec.filters % t == 0]
    return [ReuseOptions(exchange=e, weights=w, edges=edges, sub_block_rows=rows, warp_columns=wc, warp_rows=wr,
                         k_tile=t, decomposition=d)
            for e in (Exchange.SELECT, Exchange.PACKED, Exchange.NONE) for w in {base.weights, Weights.CACHED}
            for edges in Edges for rows in (14, 28, 56) for wc, wr in ((1, 4), (2, 2), (4, 1), (1, 1)) for t in tiles
            for d in (Decomposition.PAPER, Decomposition.SHARED_ENDS)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions: whole sub-blocks at the fast path's price, the other outputs at the direct one's."""
    options, numbers, spec = plan.options, plan.numbers, plan.spec
    predicated = options.edges is Edges.PREDICATED
    rows = shape.p if predicated else max(0, shape.h - spec.r + 1)
    columns = -(-shape.q // LANES) if predicated else max(0, shape.w - spec.s + 1) // LANES
    bands = -(-rows // options.sub_block_rows)
    input_rows = rows + bands * (spec.r - 1) if options.rows is Rows.REUSE else rows * spec.r
    weight_reads = 0.0 if numbers.weights_in_registers else 0.4 * numbers.taps * options.k_tile
    guard = len(numbers.columns.loads) if predicated else 0
    per_row = spec.channels * (2 * len(numbers.columns.loads) + guard + 2.5 * len(numbers.columns.swaps) + 4
                               + weight_reads) + 6
    fma = rows * numbers.taps * spec.channels * options.k_tile
    fast = columns * (input_rows * per_row + fma)
    inner = rows * columns * LANES
    direct = (shape.p * shape.q - min(inner, shape.p * shape.q)) / LANES * options.k_tile * (25 + 4.0 * shape.reduction)
    return shape.n * spec.groups * numbers.k_tiles * (fast + direct)


ALGORITHM = Algorithm(name="reuse", summary="column reuse by shuffles and row reuse in registers (CLUSTER 2020, Alg. 4)",
                      options=ReuseOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
