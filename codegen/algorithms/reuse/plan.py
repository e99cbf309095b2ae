"""``reuse``: the corrected Algorithm 4 of Lu, Zhang, Wang (CLUSTER 2020): column and row reuse, and all its variants.

A warp makes a sub-block of 32 output columns and ``sub_block_rows`` rows. Each input row is loaded once; neighbouring
lanes exchange columns (codegen.columns); the row is added to the R outputs that need it, whose accumulators form a
ring. Outputs whose window touches padding, and the columns left over beside the last whole sub-block, are made
directly, or everything takes the fast path: with predicated loads, or, where the border has pixels of the image, with
loads of those (a lane's columns are looked up once for a sub-block, rows as they come).
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import (BLOCK_THREADS, CONSTANT_BYTES, GRID_LIMIT, H200_SHARED_FILLED, LANES,
                                       SHARED_STATIC)
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.latency import lone_thread
from warpconv.codegen.parts.occupancy import blocks_refusal, largest_divisor, resident_blocks, step_registers
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch, Preparation, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .columns import ColumnPlan, Decomposition, decompose, plain
from .options import Edges, Exchange, ReuseOptions, Ring, Rows, TileWeights

# The unrolled ring has R * R * S * k_tile FMAs in its text. Up to this many it compiles in about a second.
RING_LIMIT = 2200
RING_COMFORT = 900            # up to which the turning ring is taken without being asked for
# Registers a thread can have before it spills, less what addresses and the loop take.
REGISTER_LIMIT = 255 - 30
COMFORTABLE_REGISTERS = 170   # planned registers up to which more rows are loaded ahead
WEIGHTS_HELD = 80             # weights of a tile of filters that one channel's loop keeps in registers by default
MOST_WEIGHTS_TURNING = 81    # weights in registers that the turning ring has room for
MOST_WEIGHTS_HELD = 64        # and the shifted ring; beyond it they are read again for every row
TALLEST_FILTER = 63
NARROW = 7                    # columns up to which the paper's decomposition is as quick as shared ends
WEIGHTS_IN_FLIGHT = 64        # registers the compiler likes to fill with weights it reads inside the channel loop
ROW_LIMIT = 2000              # FMAs that one input row may have in the text
WIDEST_FILTER = 31
WARPS_WANTED = 32             # sub-blocks of a multiprocessor that keep it busy
WARPS_TO_FILL = 8             # with fewer, multiprocessors wait for single warps
WARPS_TO_HIDE = 16            # working warps of a multiprocessor that hide the latency of loads
FEW_ROWS, FEW_ROWS_TALL = 7, 14   # rows of a sub-block in small layers; for filters over 5 rows, whose halo costs more
PACE = 1.7
EXCHANGES = 1.3                # times what a thread of `wide` takes by itself
SEVERAL_FILTERS = 1.25        # slots of an instruction where a warp stores several filters' rows (paper_layers, H200)
MOST_TAPS_AHEAD = 49          # of a direct output in a border of pixels, whose loads are in flight together
STATEMENT_COLUMNS = 5         # columns that one FMA statement of the text spans
FOUND_ROWS = 4                # registers of what finds the rows of a border, beside a column's each


@dataclass(frozen=True)
class ReuseNumbers:
    """What the template writes besides the spec."""

    columns: ColumnPlan
    statements: tuple[tuple[int, ...], ...]   # columns of each FMA statement
    row_groups: tuple[tuple[int, ...], ...]   # input rows of a turn of the ring, those loaded together in one group
    swap_steps: tuple[int, ...]               # distinct exchange distances
    threads: int
    taps: int
    k_tiles: int                              # of one group
    channel_stride: int                       # floats between a tile's channels where its weights are kept
    tile_floats: int                          # weights of a k-tile
    shared_floats: int
    filter_floats: int                        # weights of the whole filter
    weights_in_registers: bool                # one name, and register, per weight
    reread_weights: bool                      # too many to hold: read again for every row of the ring
    uses_channel_stride: bool
    uses_plane_x: bool                        # the text steps from channel to channel
    array_of_columns: bool                    # columns in a local array (the dynamic variants) or in named registers
    guard_stores: bool                        # lanes may lie beside the last column
    guard_loads: bool                         # loads outside the image give zero, or the border's value
    find_columns: bool                        # columns outside are loaded from where the border has them
    find_rows: bool                           # and so are rows
    unroll_direct: bool                       # direct outputs look up their rows, too, before all loads
    frame_rows: bool                          # some output rows touch padding
    input_rows: int
    exchange_fragment: str
    sub_block_fragment: str
    jobs_fragment: str


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, borders=BORDERS, residual=True)
    if refusal is None and spec.stride != (1, 1):
        refusal = f"stride {spec.stride} (neighbouring lanes share columns only at stride 1)"
    if refusal is None and spec.dilation != (1, 1):
        refusal = f"dilation {spec.dilation} (the exchanges assume adjacent taps)"
    if refusal is None and spec.s > WIDEST_FILTER:
        refusal = f"a filter {spec.s} columns wide (at most {WIDEST_FILTER}: a window must fit a warp's span)"
    if refusal is None and spec.r > TALLEST_FILTER:
        refusal = f"a filter {spec.r} rows tall (at most {TALLEST_FILTER}: the ring has a register per row)"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ReuseOptions:
    """The values measured quickest on an H200 (docs/results/variants): predicated edges, all rows of a turn loaded
    together, as many blocks resident as the registers allow; weights in shared memory where a tile fits; as many
    filters at a time as text and registers allow; shorter sub-blocks where the layer has few of them."""
    most = max(1, min(8, RING_COMFORT // (spec.r ** 2 * spec.s), 40 // spec.r))
    if spec.channels == 1:
        most = min(most, max(1, WEIGHTS_HELD // (spec.r * spec.s)))
    fitting = SHARED_STATIC // (4 * spec.channels * _channel_stride(spec, True))
    options = ReuseOptions(k_tile=largest_divisor(spec.filters, min(most, fitting) if fitting else most),
                           weights=TileWeights.SHARED if fitting else TileWeights.CACHED,
                           decomposition=Decomposition.PAPER if spec.s <= NARROW else Decomposition.SHARED_ENDS)
    return options if shape is None else replace(options, sub_block_rows=_rows_for(spec, shape, options))


def _rows_for(spec: KernelSpec, shape: ConvShape, options: ReuseOptions) -> int:
    """Rows of a sub-block: the paper's 56, or few where the layer would not fill a large GPU with warps. Two classes
    only, so that most image sizes share a kernel."""
    rows = ReuseOptions.sub_block_rows
    columns = _assumed_batch(shape) * shape.k // options.k_tile * -(-shape.q // LANES)
    few = FEW_ROWS if shape.r <= 5 else FEW_ROWS_TALL
    return few if columns * -(-shape.p // rows) < spec.hardware.warps_of(WARPS_WANTED) else rows


def _assumed_batch(shape: ConvShape) -> int:
    """The batch is never looked at, so that all batches share a kernel: a plane is taken to come alone, a layer of
    channels in a batch of 16."""
    return 1 if shape.c == shape.k == 1 else 16


def plan(spec: KernelSpec, options: ReuseOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    columns = plain(spec.s) if options.exchange is Exchange.NONE else decompose(spec.s, options.decomposition)
    options = _complete(spec, options, columns)
    numbers = _numbers(spec, options, columns)
    cost = _cost(spec, options, numbers)
    _check(spec, options, numbers, cost)
    arguments = layer_arguments(spec)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    preparation = (Preparation(constant="filter_bank", constant_bytes=4 * numbers.filter_floats)
                   if options.weights is TileWeights.CONSTANT else None)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("reuse/kernel.cu.jinja",), cost=cost,
                      program=Program(arguments=arguments, steps=(launch,), preparation=preparation),
                      phrase=_phrase(options, numbers), notes=_notes(spec, options))


def _complete(spec: KernelSpec, options: ReuseOptions, columns: ColumnPlan) -> ReuseOptions:
    """Fill in the values that follow from the others where they were left at DERIVED."""
    if options.ring is Ring.DERIVED:
        held = spec.r * spec.s <= MOST_WEIGHTS_TURNING or spec.channels > 1
        turning = options.rows is Rows.RELOAD or (held and _ring_text(spec, options) <= RING_COMFORT)
        options = replace(options, ring=Ring.TURNING if turning else Ring.SHIFTED)
    if options.prefetch_rows == DERIVED:
        options = replace(options, prefetch_rows=1)
        if spec.channels == 1 and options.rows is Rows.REUSE and options.ring is Ring.TURNING:
            spare = COMFORTABLE_REGISTERS - _cost(spec, options, _numbers(spec, options, columns)).registers
            options = replace(options, prefetch_rows=max(1, min(spec.r, 1 + spare // len(columns.loads))))
    if options.min_blocks == DERIVED:
        registers = _registers_to_allow(spec, options, columns)
        threads = LANES * options.warp_columns * options.warp_rows
        options = replace(options, min_blocks=resident_blocks(spec.hardware, registers, threads))
    return options


def _registers_to_allow(spec: KernelSpec, options: ReuseOptions, columns: ColumnPlan) -> int:
    """What the compiler should have: left alone it takes too many (103 for a 5x5 filter), with fewer it spills.

    Tried with NVRTC 13.5 over filters 1..13 and channels 1..512 for sm_75 to sm_120: the short loops of one channel and
    small filters need just the planned registers, others what is added here.
    """
    numbers = _numbers(spec, options, columns)
    planned = _cost(spec, options, numbers).registers
    if spec.channels > 1:
        return planned + 24 + max(0, planned - 90) // 4
    plain_loop = (options.exchange is Exchange.SELECT and options.edges is Edges.PREDICATED
                  and options.rows is Rows.REUSE and options.k_tile == 1)
    if plain_loop and planned - _found(numbers) <= 64:
        return planned
    if options.rows is Rows.REUSE and planned <= 110:
        return planned + 16
    return planned * 13 // 10 + 8


def _numbers(spec: KernelSpec, options: ReuseOptions, columns: ColumnPlan) -> ReuseNumbers:
    taps = spec.r * spec.s
    most = MOST_WEIGHTS_TURNING if options.ring is Ring.TURNING else MOST_WEIGHTS_HELD
    in_registers = spec.channels == 1 and options.k_tile == 1 and taps <= most
    stride = _channel_stride(spec, options.weights is TileWeights.SHARED and not in_registers)
    statements = tuple(tuple(range(first, min(first + STATEMENT_COLUMNS, spec.s)))
                       for first in range(0, spec.s, STATEMENT_COLUMNS))
    groups = tuple(tuple(range(first, min(first + options.prefetch_rows, spec.r)))
                   for first in range(0, spec.r, options.prefetch_rows))
    predicated, pixels = options.edges is Edges.PREDICATED, spec.padding_mode.reads_image
    return ReuseNumbers(
        columns=columns, statements=statements, row_groups=groups,
        swap_steps=tuple(sorted({swap.step for swap in columns.swaps})),
        threads=LANES * options.warp_columns * options.warp_rows, taps=taps, k_tiles=spec.filters // options.k_tile,
        channel_stride=stride, tile_floats=options.k_tile * spec.channels * taps,
        shared_floats=options.k_tile * spec.channels * stride if options.weights is TileWeights.SHARED else 0,
        filter_floats=spec.k * spec.channels * taps, weights_in_registers=in_registers,
        reread_weights=spec.channels == 1 and taps * options.k_tile > most,
        uses_channel_stride=not in_registers or options.edges is Edges.DIRECT,
        uses_plane_x=spec.channels > 1 or options.rows is Rows.RELOAD,
        array_of_columns=options.exchange in (Exchange.DYNAMIC, Exchange.DYNAMIC_LOCAL),
        guard_stores=predicated, guard_loads=predicated and not pixels, find_columns=predicated and pixels,
        find_rows=predicated and pixels and sum(spec.padding[0]) > 0,
        unroll_direct=pixels and not predicated and taps <= MOST_TAPS_AHEAD,
        frame_rows=sum(spec.padding[0]) > 0, input_rows=options.sub_block_rows + spec.r - 1,
        exchange_fragment=f"exchange_{options.exchange.value}.cuh.jinja",
        sub_block_fragment="rows_reload.cuh.jinja" if options.rows is Rows.RELOAD else _RING_FRAGMENTS[options.ring],
        jobs_fragment=f"jobs_{options.edges.value}.cuh.jinja")


_RING_FRAGMENTS = {Ring.TURNING: "rows_turning.cuh.jinja", Ring.SHIFTED: "rows_shifted.cuh.jinja"}


def _ring_text(spec: KernelSpec, options: ReuseOptions) -> int:
    """FMAs in the text of the turning ring."""
    return spec.r ** 2 * spec.s * options.k_tile


def _channel_stride(spec: KernelSpec, padded: bool) -> int:
    """Floats from one channel's taps to the next; padded to 16 bytes so that shared reads can be wide."""
    taps = spec.r * spec.s
    return -(-taps // 4) * 4 if padded and spec.channels * spec.filters > 1 else taps


def _grid(spec: KernelSpec, options: ReuseOptions, numbers: ReuseNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide, tall = LANES * options.warp_columns, options.sub_block_rows * options.warp_rows
    # With direct edges the frame above and below is one more row of jobs; the job beside the last whole sub-block is
    # within ceil(Q / 32), since then fewer than Q columns are inner ones.
    below = options.sub_block_rows if options.edges is Edges.DIRECT and numbers.frame_rows else 0
    return (Blocks(of=Dimension.Q, add=wide - 1, per=wide, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=tall - 1 + below, per=tall, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, times=spec.groups * numbers.k_tiles, limit=GRID_LIMIT[2]))


def _cost(spec: KernelSpec, options: ReuseOptions, numbers: ReuseNumbers) -> Cost:
    reuse = options.rows is Rows.REUSE
    row_loads = numbers.input_rows if reuse else options.sub_block_rows * spec.r
    accumulators = (spec.r if reuse else 1) * options.k_tile
    prefetch_rows = (options.prefetch_rows if reuse else spec.r) if spec.channels == 1 else 1
    if reuse and options.ring is Ring.SHIFTED:
        prefetch_rows = 2
    ahead = (min(prefetch_rows, spec.r) - 1) * len(numbers.columns.loads)
    held = numbers.taps * options.k_tile
    weights = held if spec.channels == 1 and not numbers.reread_weights else min(WEIGHTS_IN_FLIGHT, held)
    registers = accumulators + spec.s + ahead + weights + 20 + step_registers(spec, options.k_tile) + _found(numbers)
    return Cost(unit=f"sub-block of {options.sub_block_rows} rows x {LANES} columns, {options.k_tile} filter"
                     f"{'s' if options.k_tile > 1 else ''}, all channels",
                warp_loads=row_loads * len(numbers.columns.loads) * spec.channels,
                shuffles=row_loads * len(numbers.columns.swaps) * spec.channels,
                fma=options.sub_block_rows * numbers.taps * options.k_tile * spec.channels,
                registers=registers,
                direct_loads=options.sub_block_rows * numbers.taps * spec.channels,
                no_spills=options.exchange not in (Exchange.DYNAMIC, Exchange.DYNAMIC_LOCAL)
                and registers <= REGISTER_LIMIT)


def _found(numbers: ReuseNumbers) -> int:
    """Registers of what finds the rows and columns of a border."""
    return len(numbers.columns.loads) + FOUND_ROWS if numbers.find_columns else 0


def _check(spec: KernelSpec, options: ReuseOptions, numbers: ReuseNumbers, cost: Cost) -> None:
    refusal = None
    if refusal is None and spec.filters % options.k_tile:
        refusal = f"k_tile = {options.k_tile} does not divide K/groups = {spec.filters}"
    if refusal is None and numbers.threads > BLOCK_THREADS:
        refusal = f"{options.warp_columns} x {options.warp_rows} warps are more than a block's {BLOCK_THREADS} threads"
    refusal = refusal or blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is None and options.sub_block_rows > 4096:
        refusal = f"sub_block_rows = {options.sub_block_rows} (at most 4096)"
    if refusal is None and 4 * numbers.shared_floats > SHARED_STATIC:
        refusal = (f"a tile of {options.k_tile} filters has {4 * numbers.shared_floats} bytes of weights, more than "
                   f"the {SHARED_STATIC} of shared memory; weights=cached serves it")
    if refusal is None and options.weights is TileWeights.CONSTANT and 4 * numbers.filter_floats > CONSTANT_BYTES:
        refusal = (f"the filter has {4 * numbers.filter_floats} bytes, more than the {CONSTANT_BYTES} of constant "
                   f"memory; weights=shared or cached serves it")
    if refusal is None and options.prefetch_rows > spec.r:
        refusal = f"prefetch_rows = {options.prefetch_rows}: a turn of the ring has {spec.r} input rows"
    if refusal is None and options.rows is Rows.RELOAD and options.ring is Ring.SHIFTED:
        refusal = "rows = reload has no ring"
    turning = options.ring is Ring.TURNING and options.rows is Rows.REUSE
    if refusal is None and turning and _ring_text(spec, options) > RING_LIMIT:
        refusal = (f"the turning ring would have {_ring_text(spec, options)} FMAs in its text (at most {RING_LIMIT} "
                   f"compile in about a second and stay in registers); ring=shifted serves it")
    if refusal is None and numbers.taps * options.k_tile > ROW_LIMIT:
        refusal = (f"{numbers.taps * options.k_tile} FMAs a row in the text with k_tile = {options.k_tile} "
                   f"(at most {ROW_LIMIT})")
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def _phrase(options: ReuseOptions, numbers: ReuseNumbers) -> str:
    warps = options.warp_columns * options.warp_rows
    return (f"one warp per sub-block of {options.sub_block_rows} rows x {LANES} columns, {warps} warps per block; "
            f"filter columns {numbers.columns}")


def _notes(spec: KernelSpec, options: ReuseOptions) -> tuple[str, ...]:
    per_filter = 4 * spec.channels * _channel_stride(spec, True)
    if options.weights is TileWeights.CACHED and per_filter > SHARED_STATIC:
        return (f"weights are read through the cache: one filter has {per_filter} bytes, more than the {SHARED_STATIC} "
                f"of shared memory",)
    return ()


def space(spec: KernelSpec) -> Iterable[ReuseOptions]:
    base = defaults(spec)
    tiles = [t for t in (1, 2, 4, 8) if spec.filters % t == 0]
    return [ReuseOptions(exchange=e, weights=w, edges=edges, sub_block_rows=rows, warp_columns=wc, warp_rows=wr,
                         k_tile=t, decomposition=d)
            for e in (Exchange.SELECT, Exchange.PACKED, Exchange.NONE)
            for w in dict.fromkeys((base.weights, TileWeights.CACHED))
            for edges in Edges for rows in (14, 28, 56) for wc, wr in ((1, 4), (2, 2), (4, 1), (1, 1)) for t in tiles
            for d in (Decomposition.PAPER, Decomposition.SHARED_ENDS)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions: whole sub-blocks at the fast path's price, the other outputs at the direct one's; more for a
    layer with too few sub-blocks to fill a large GPU, where the time of one warp counts."""
    options: ReuseOptions = plan.options
    numbers: ReuseNumbers = plan.numbers
    spec = plan.spec
    predicated = options.edges is Edges.PREDICATED
    rows = shape.p if predicated else max(0, shape.h - spec.r + 1)
    columns = -(-shape.q // LANES) if predicated else max(0, shape.w - spec.s + 1) // LANES
    bands = -(-rows // options.sub_block_rows)
    input_rows = rows + bands * (spec.r - 1) if options.rows is Rows.REUSE else rows * spec.r
    held = spec.channels == 1 and not numbers.reread_weights
    weight_reads = 0.0 if held else 0.4 * numbers.taps * options.k_tile
    guard = len(numbers.columns.loads) if predicated else 0
    per_row = spec.channels * (2 * len(numbers.columns.loads) + guard + 2.5 * len(numbers.columns.swaps) + 4
                               + weight_reads) + 6
    fma = rows * numbers.taps * spec.channels * options.k_tile
    fast = columns * (input_rows * per_row + fma)
    inner = rows * columns * LANES
    direct = (shape.p * shape.q - min(inner, shape.p * shape.q)) / LANES * options.k_tile * (25 + 4.0 * shape.reduction)
    tiles = shape.n * spec.groups * numbers.k_tiles
    warps = tiles // shape.n * _assumed_batch(shape) * max(1, columns) * max(1, bands)
    # a block whose tile fills shared memory has few others beside it; warps without rows of their own do not help
    beside = min(16, spec.hardware.share_of_shared(H200_SHARED_FILLED) // max(1, 4 * numbers.shared_floats))
    working = beside * min(options.warp_rows, max(1, bands)) * min(options.warp_columns, max(1, columns))
    several = SEVERAL_FILTERS if options.k_tile > 1 else 1.0
    slots = several * tiles * (fast + direct) * max(1.0, spec.hardware.warps_of(WARPS_TO_FILL) / warps,
                                                    WARPS_TO_HIDE / max(1, working))
    return max(slots, EXCHANGES * lone_thread(spec, shape.reduction, PACE))


ALGORITHM = Algorithm(name="reuse",
                      summary="column reuse by shuffles and row reuse in registers (CLUSTER 2020, Alg. 4)",
                      options=ReuseOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=PACE, waits=2.2)
