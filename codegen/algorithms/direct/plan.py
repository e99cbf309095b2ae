"""``direct``: one thread per output, every tap loaded; serves any layer and is every other kernel's yardstick.

In NCHW neighbouring threads make neighbouring columns, in NHWC neighbouring filters of a pixel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import batch_matters
from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.latency import lone_thread
from warpconv.codegen.parts.occupancy import blocks_by_quarters, blocks_refusal, largest_divisor, step_registers
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal, integer_border
from warpconv.codegen.parts.text import MOST_UNROLLED
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import PIXELS, ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

# Taps are unrolled up to this many FMAs in all; beyond it the loop over filter rows stays a loop (31x31 has 961 taps).
UNROLLED_TAPS = 256
THREADS = 256
MOST_ROWS = 64
MOST_ACCUMULATORS = 32
WEIGHTS_HELD = 100     # weights of one channel that a thread keeps in registers
MOST_REGISTERS = 200   # planned registers beyond which it may spill
REGISTER_MARGIN = 24   # beyond the planned registers, so that nothing spills; unbounded, the compiler takes all 255
NHWC_COLUMNS = 4       # columns that share a load of a weight, which in NHWC is one of a sector for every lane
EASY_TAPS = 4          # of a row without guards, whose pixels find registers beside; NVRTC 13 loads those of more ahead
MOST_AHEAD = 24        # registers of such pixels beyond which sm_120 may spill (3x15 168 bytes)
PLACES = 4             # registers of a column for where a border has it from, kept for all rows (reflect takes none)
PACE = 2.3
WAITS = 1.3            # besides, beside estimates in cycles (Algorithm.waits): in NHWC of lone threads alone
FAR_BYTES = 256        # between lanes' pixels, from which on each is a line of the cache for itself
OF_GROUPS = 2.5         # slots of an instruction where groups of several channels have their loads far apart: 4 to 16
                        # channels, batch 32, NCHW 2.2 to 3.1, NHWC 2.2 to 5 (H200, 2026-11-28)
NHWC_WIDTHS = (128, 96, 64, 32)    # tiles of filters in a block, where there are more than the first of them


@dataclass(frozen=True)
class DirectOptions:
    """A thread makes outputs of ``k_tile`` filters. A block is ``block_size_x`` x ``block_size_y`` threads: in NCHW
    columns x rows, in NHWC tiles of filters x columns. The compiler is told to leave registers for ``min_blocks``
    blocks on a multiprocessor (follows from the others where not given)."""

    block_size_x: int = 64
    block_size_y: int = 4
    k_tile: int = 1
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class DirectNumbers:
    """What the template of NCHW writes besides the spec."""

    k_tiles: int
    unroll_rows: bool
    unroll_columns: bool
    threads: int
    guard_rows: bool        # rows in the padding are skipped
    guard: str              # when a pixel lies in the image, empty if always
    padding_phrase: str


@dataclass(frozen=True)
class DirectNhwcNumbers:
    """What the template of NHWC writes besides the spec."""

    k_blocks: int
    columns: int
    unroll_rows: bool
    unroll_columns: bool
    threads: int
    guard_rows: bool        # rows in the padding are skipped
    guard: str              # when a pixel lies in the image, empty if always
    padding_phrase: str


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, dtypes=FLOATS + PIXELS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS,
                          numerics=(Numerics.FLOAT32, Numerics.INT32), mixed=True,
                          residual=True, pitched=True) or integer_border(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> DirectOptions:
    """NCHW: a block as wide as the output rows need, and as many filters a thread as divide K/groups, up to 8; fewer
    for one channel, whose weights the compiler keeps in registers. NHWC: a block as wide as the pixel has tiles of
    filters, a filter a thread where there is one channel to sum over (side by side in memory), else up to 4."""
    if spec.layout is Layout.NHWC:
        return _defaults_nhwc(spec, shape)
    width = 64
    if shape is not None:
        while width > 8 and width // 2 >= shape.q:
            width //= 2
    most = 8 if spec.channels > 1 else max(1, min(8, WEIGHTS_HELD // (spec.r * spec.s)))
    return DirectOptions(block_size_x=width, block_size_y=THREADS // width, k_tile=largest_divisor(spec.filters, most))


def _defaults_nhwc(spec: KernelSpec, shape: ConvShape | None) -> DirectOptions:
    k_tile = largest_divisor(spec.filters, 4) if spec.channels > 1 else 1
    tiles = spec.k // k_tile
    width = tiles if tiles <= NHWC_WIDTHS[0] else min(NHWC_WIDTHS, key=lambda width: -tiles % width)
    rows = THREADS // width
    if shape is not None:
        rows = min(rows, max(-(-shape.q // _columns(k_tile)), -(-32 // width)))
    return DirectOptions(block_size_x=width, block_size_y=rows, k_tile=k_tile)


def _columns(k_tile: int) -> int:
    """Output columns of a thread in NHWC."""
    return max(1, min(NHWC_COLUMNS, MOST_ACCUMULATORS // k_tile))


def plan(spec: KernelSpec, options: DirectOptions) -> KernelPlan:
    _check(spec, options)
    return _plan_nhwc(spec, options) if spec.layout is Layout.NHWC else _plan_nchw(spec, options)


def _plan_nchw(spec: KernelSpec, options: DirectOptions) -> KernelPlan:
    taps = spec.r * spec.s
    k_tiles = spec.filters // options.k_tile
    threads = options.block_size_x * options.block_size_y
    unroll_columns = spec.s * options.k_tile <= MOST_UNROLLED
    # one channel's weights do not change in the loop
    hoisted = taps * options.k_tile if spec.channels == 1 and unroll_columns else 0
    loads = 2 * spec.s if unroll_columns else 2
    registers = 24 + 2 * options.k_tile + loads + hoisted + step_registers(spec, options.k_tile)
    numbers = DirectNumbers(k_tiles=k_tiles, unroll_rows=taps * options.k_tile <= UNROLLED_TAPS,
                            unroll_columns=unroll_columns, threads=threads, **_padding(spec))
    grid = (Blocks(of=Dimension.Q, add=options.block_size_x - 1, per=options.block_size_x, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=options.block_size_y - 1, per=options.block_size_y, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, times=spec.groups * k_tiles, limit=GRID_LIMIT[2]))
    filters = f"{options.k_tile} filter{'s' if options.k_tile > 1 else ''}"
    return _finished(spec, options, numbers, grid, registers, "direct/kernel_nchw.cu.jinja",
                     unit=f"32 outputs of {filters}", loads=taps * spec.channels,
                     fma=taps * spec.channels * options.k_tile,
                     phrase=f"one thread per output column of {filters}, "
                            f"{options.block_size_x} x {options.block_size_y} threads a block")


def _plan_nhwc(spec: KernelSpec, options: DirectOptions) -> KernelPlan:
    taps, columns = spec.r * spec.s, _columns(options.k_tile)
    outputs = columns * options.k_tile
    k_blocks = -(-spec.k // (options.k_tile * options.block_size_x))
    unroll_rows = taps * outputs <= UNROLLED_TAPS
    numbers = DirectNhwcNumbers(k_blocks=k_blocks, columns=columns, unroll_rows=unroll_rows,
                                unroll_columns=spec.s * outputs <= UNROLLED_TAPS,
                                threads=options.block_size_x * options.block_size_y, **_padding(spec))
    across = columns * options.block_size_y
    grid = (Blocks(of=Dimension.Q, add=across - 1, per=across, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, limit=GRID_LIMIT[1]), Blocks(of=Dimension.N, times=k_blocks, limit=GRID_LIMIT[2]))
    unrolled = taps if unroll_rows else spec.s
    hoists = spec.channels == 1 and unroll_rows and spec.r > 1 and not numbers.guard    # nothing holds a load back
    ahead = columns * max(0, spec.s - EASY_TAPS) if hoists else 0
    places = PLACES * columns if spec.padding_mode in (Border.REPLICATE, Border.CIRCULAR) else 0
    registers = (28 + outputs + 3 * columns + min(unrolled * options.k_tile, 64) + ahead + places
                 + step_registers(spec, outputs))
    filters = f"{options.k_tile} filter{'s' if options.k_tile > 1 else ''}"
    return _finished(spec, options, numbers, grid, registers, "direct/kernel_nhwc.cu.jinja",
                     promised=ahead <= MOST_AHEAD,
                     unit=f"32 x {columns} outputs of {filters}", loads=taps * spec.channels * columns,
                     fma=taps * spec.channels * outputs,
                     phrase=f"one thread for {columns} output column{'s' if columns > 1 else ''} of {filters}, "
                            f"{options.block_size_x} (filters) x {options.block_size_y} (columns) threads a block")


def _padding(spec: KernelSpec) -> dict[str, Any]:
    """How the texts treat taps in the padding: rows of zeros are skipped, zeros and the border's value are selected,
    pixels of the image come from another place."""
    rows, columns = (sum(sides) > 0 for sides in spec.padding)
    if spec.padding_mode.reads_image:
        return {"guard_rows": False, "guard": "", "padding_phrase": "read where the border has them from"}
    zeros = spec.padding_mode is Border.ZEROS
    guards = ["(unsigned)h < (unsigned)H"] if rows and not zeros else []
    guards += ["(unsigned)column < (unsigned)W"] if columns else []
    phrase = "skipped or taken as zero" if zeros else "taken as the border's value"
    return {"guard_rows": rows and zeros, "guard": " && ".join(guards),
            "padding_phrase": phrase if rows or columns else ""}


def _finished(spec: KernelSpec, options: DirectOptions, numbers: DirectNumbers | DirectNhwcNumbers,
              grid: tuple[Blocks, Blocks, Blocks], registers: int, template: str, *, unit: str, loads: int, fma: int,
              phrase: str, promised: bool = True) -> KernelPlan:
    if options.min_blocks == DERIVED:
        fitting = blocks_by_quarters(spec.hardware, registers + REGISTER_MARGIN, -(-numbers.threads // LANES))
        options = replace(options, min_blocks=fitting)
    arguments = layer_arguments(spec)
    launch = Launch(entry=spec.name, block=(options.block_size_x, options.block_size_y, 1), grid=grid,
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=(template,),
        program=Program(arguments=arguments, steps=(launch,)), phrase=phrase,
        cost=Cost(unit=unit, warp_loads=loads, shuffles=0, fma=fma, registers=registers, direct_loads=loads,
                  no_spills=promised and registers <= MOST_REGISTERS))


def _check(spec: KernelSpec, options: DirectOptions) -> None:
    refusal = supports(spec)
    if refusal is None and spec.filters % options.k_tile:
        refusal = f"k_tile = {options.k_tile} does not divide K/groups = {spec.filters}"
    if refusal is None and options.k_tile > MOST_ACCUMULATORS:
        refusal = f"k_tile = {options.k_tile} accumulators would not stay in registers (at most {MOST_ACCUMULATORS})"
    threads = options.block_size_x * options.block_size_y
    if refusal is None and not LANES <= threads <= BLOCK_THREADS:
        refusal = f"a block of {threads} threads ({LANES} to {BLOCK_THREADS} are possible)"
    if refusal is None and options.block_size_y > MOST_ROWS and spec.layout is Layout.NCHW:
        refusal = f"block_size_y = {options.block_size_y} (at most {MOST_ROWS}, so that row indices cannot overflow)"
    refusal = refusal or blocks_refusal(spec, threads, options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def space(spec: KernelSpec) -> Iterable[DirectOptions]:
    tiles = [t for t in (1, 2, 4, 8, 16) if spec.filters % t == 0]
    if spec.layout is Layout.NHWC:
        widths = sorted({min(x, spec.k // t) for x in (32, 64, 128, 256) for t in tiles})
        return [DirectOptions(block_size_x=x, block_size_y=-(-threads // x), k_tile=t) for t in tiles for x in widths
                for threads in (128, 256) if x <= spec.k // t]
    return [DirectOptions(block_size_x=x, block_size_y=max(1, threads // x), k_tile=t)
            for x in (8, 16, 32, 64, 128) for threads in (128, 256) for t in tiles]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tap and thread: a load with its guard for each column, a weight load and, for each column, an FMA for each
    filter of the tile; one more instruction a load to make a float of 16 bits."""
    spec = plan.spec
    options: DirectOptions = plan.options
    widen = 1 if spec.dtype.lanes > 1 else 0
    waits = WAITS if batch_matters(shape) else 1.0
    far = OF_GROUPS if spec.groups > 1 and spec.channels > 1 else 1.0
    lone = waits * lone_thread(spec, shape.reduction, PACE)
    if spec.layout is Layout.NHWC:
        numbers: DirectNhwcNumbers = plan.numbers
        across = numbers.columns * options.block_size_y
        threads = shape.n * numbers.k_blocks * shape.p * -(-shape.q // across) * numbers.threads
        # lanes far apart in the filter, or in x: a line of the cache for each, at about this many issues
        weight = 1 if spec.channels == spec.filters == 1 else max(2, 3 * min(LANES, options.block_size_x) // 4)
        lanes_across = LANES // min(LANES, options.block_size_x)
        apart = min(1.0, numbers.columns * spec.c * spec.dtype.itemsize / FAR_BYTES)
        load = 3 + widen + (0.75 * lanes_across * apart ** 2 if lanes_across > 1 else 0)
        tap = numbers.columns * (load + options.k_tile) + options.k_tile * (weight + widen)
        slots: float = threads / 32 * (20 + 4 * numbers.columns + shape.reduction * tap)
        return max(far * slots, lone)
    columns = -(-shape.q // options.block_size_x) * options.block_size_x
    rows = -(-shape.p // options.block_size_y) * options.block_size_y
    threads = shape.n * columns * rows * (shape.k // options.k_tile)
    slots = threads / 32 * (20 + shape.reduction * (3 + widen + (1.5 + widen) * options.k_tile))
    return max(far * waits * slots, lone)


ALGORITHM = Algorithm(name="direct", summary="one thread per output, every tap loaded; any layer",
                      options=DirectOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=PACE)
