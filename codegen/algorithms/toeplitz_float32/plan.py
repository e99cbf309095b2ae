"""``toeplitz_float32``: planes and depthwise convolution of float32 elements on tensor cores; NCHW.

A row of a convolution is a product with a banded (Toeplitz) matrix: T[k][n] = w[r][k - n], as in ``toeplitz``. Each
factor is scaled by a power of two and split into two parts of float16, of whose four products three are made
(H. Ootomo and R. Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical
peak performance", 2022): as exact as float32 units, docs/precision.md, and up to twice as quick where a filter is
large: docs/toeplitz-float32.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import (BLOCK_THREADS, GRID_LIMIT, LANES, QUARTERS, REGISTER_FILE, REGISTER_UNIT)
from warpconv.codegen.numerics import LEAST_PRODUCTS, Numerics
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal, step_registers
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.text import text_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (BLOCK_COLUMNS, LEAD_COLUMNS, SHORT_CHAIN, TILE_ROWS, TOGETHER, ToeplitzFloat32Numbers,
                      ToeplitzFloat32Options, make_numbers, slices_of)

MOST_TILES = 8                # of a warp
FEW_SLICES = 4                # blocks of eight columns of a filter row up to which a warp has so many, else half of it
MOST_SLICES = 40              # whose words are held in registers
BYTES_OF_A_PRODUCT = 190      # in the text: a matrix instruction and what it takes
REGISTERS = 90                # addresses, scales, and what the compiler has in flight
WARPS = 12                    # of a multiprocessor: 168 registers of a thread;
MORE_WARPS = 16               # where a block is wide, or a warp has few tiles: 128
WIDE = 32                     # tiles of a block
FEW_TILES = 2                 # of a warp
MOST_ROWS = 4096              # of a sub-block
BANDS = (16, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)    # of 16 rows, of a sub-block
QUARTER_WARPS = 4             # of a quarter of a multiprocessor: fewer of them take no less time,
FEWER_SHARE = 1.1             # and three of them this much longer
ASSUMED_BATCH = 16            # so that the batch never changes the plan
# Issue slots: as long as an instruction has a quarter's tensor cores no other is issued (fitted to 17 layers, an H100,
# 2026-11-25; instructions that stand alone reach 630 TFLOP/s)
MATRIX_SLOTS = 6.7
SHORT_SLOTS = 4.5             # of a single block of columns
TILE_SLOTS = 300              # of a tile of sums besides: barriers, stores, loads that nothing hides
BLOCK_SLOTS = 6000            # of a warp of a sub-block
ALONE = 1.6                   # times as long takes a warp that is a block by itself: nothing hides its splitting


def supports(spec: KernelSpec) -> str | None:
    if spec.dtype is DType.FLOAT32 and spec.numerics is Numerics.FLOAT32:
        return (f"products of float32 units are not served, only fp16x3 (by default for sums of at least "
                f"{LEAST_PRODUCTS} products)")
    refusal = common_refusal(spec, borders=BORDERS, numerics=(Numerics.FP16X3,))
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels in a group (a banded matrix holds one: planes, or C = groups)"
    if refusal is None and (spec.stride != (1, 1) or spec.dilation != (1, 1)):
        refusal = "stride and dilation other than 1: neighbouring outputs would not share a band"
    if refusal is None and slices_of(spec) > MOST_SLICES:
        refusal = f"{spec.s} filter columns (at most {MOST_SLICES} blocks of eight columns)"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ToeplitzFloat32Options:
    """Tiles, warps and rows by turns of a multiprocessor's quarters: as few columns beyond the image as can be, many
    tiles of a warp, and blocks that fill the chip."""
    options = ToeplitzFloat32Options()
    if shape is None:
        return replace(options, vector=1, store_vector=1)
    options = replace(options, vector=math.gcd(shape.w, LEAD_COLUMNS), store_vector=math.gcd(shape.q, 2))
    needed, bands = -(-shape.q // BLOCK_COLUMNS), -(-shape.p // TILE_ROWS)
    planes = spec.k * (1 if shape.c == shape.k == 1 else ASSUMED_BATCH)
    slices = slices_of(spec)
    most = MOST_TILES if slices <= FEW_SLICES else MOST_TILES // 2

    costs: dict[tuple[int, int, int], float] = {}
    for columns, tiles in itertools.product((8, 4, 2, 1), range(most, 0, -1)):
        if tiles * columns > WIDE:
            continue
        tried = replace(options, tiles=tiles, warp_columns=columns)
        band, first = _slots(spec, tried, slices)
        share = 1.0 if _warps(tried) == MORE_WARPS else FEWER_SHARE
        for each in (min(bands, most_bands) for most_bands in BANDS):
            blocks = planes * -(-needed // (tiles * columns)) * -(-bands // each)
            busy = max(-(-blocks // spec.hardware.multiprocessors) * columns / QUARTERS, QUARTER_WARPS)
            costs[columns, tiles, each] = busy * (each * band + first) * share
    fitting = (replace(options, tiles=tiles, warp_columns=columns, sub_block_rows=each * TILE_ROWS)
               for columns, tiles, each in sorted(costs, key=costs.__getitem__))
    return next((tried for tried in fitting if _refusal(spec, tried, make_numbers(spec, tried)) is None), options)


def _warps(options: ToeplitzFloat32Options) -> int:
    """Warps that a multiprocessor is to hold."""
    more = options.tiles * options.warp_columns >= WIDE or options.tiles <= FEW_TILES
    return MORE_WARPS if more else WARPS


def plan(spec: KernelSpec, options: ToeplitzFloat32Options) -> KernelPlan:
    refusal = supports(spec) or _value_refusal(options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = make_numbers(spec, options)
    refusal = _refusal(spec, options, numbers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=max(1, _warps(options) // options.warp_columns))
    refusal = blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments), shared_bytes=numbers.shared_bytes)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("toeplitz_float32/kernel.cu.jinja",),
                      cost=_cost(spec, options, numbers),
                      program=Program(arguments=arguments, steps=(launch,)), phrase=_phrase(options, numbers),
                      notes=_notes(spec, numbers))


def _value_refusal(options: ToeplitzFloat32Options) -> str | None:
    """Plan values that no numbers can be made of."""
    if options.vector not in (1, 2, 4):
        return f"vector = {options.vector}: loads are of 1, 2 or 4 elements"
    if options.store_vector not in (1, 2):
        return f"store_vector = {options.store_vector}: stores are of 1 or 2 elements"
    if not 1 <= options.tiles <= MOST_TILES:
        return f"tiles = {options.tiles} (1 to {MOST_TILES}: a tile takes four accumulators of a lane)"
    if options.warp_columns < 1 or options.warp_columns * LANES > BLOCK_THREADS:
        return f"warp_columns = {options.warp_columns} (1 to {BLOCK_THREADS // LANES} warps of a block)"
    if not TILE_ROWS <= options.sub_block_rows <= MOST_ROWS or options.sub_block_rows % TILE_ROWS:
        return (f"sub_block_rows = {options.sub_block_rows} (a multiple of a tile's {TILE_ROWS} rows, at most "
                f"{MOST_ROWS})")
    return None


def _refusal(spec: KernelSpec, options: ToeplitzFloat32Options, numbers: ToeplitzFloat32Numbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    if numbers.shared_bytes > spec.hardware.shared_block:
        return f"{numbers.shared_bytes} bytes of shared memory for a block (at most {spec.hardware.shared_block})"
    return text_refusal(_instructions(numbers), BYTES_OF_A_PRODUCT, "matrix instructions")


def _instructions(numbers: ToeplitzFloat32Numbers) -> int:
    """Matrix instructions of a warp for one filter row."""
    return sum(len(turn.products) for turn in numbers.rounds)


def _arguments(spec: KernelSpec, options: ToeplitzFloat32Options) -> tuple[Argument, ...]:
    """The layer's arguments, with what loads and stores ask of them."""
    multiples = {"W": options.vector, "Q": options.store_vector, "x": 4 * options.vector, "y": 4 * options.store_vector}
    return tuple(replace(a, multiple_of=multiples[a.name]) if a.name in multiples else a
                 for a in layer_arguments(spec))


def _grid(spec: KernelSpec, options: ToeplitzFloat32Options,
          numbers: ToeplitzFloat32Numbers) -> tuple[Blocks, Blocks, Blocks]:
    return (Blocks(of=Dimension.Q, add=numbers.span - 1, per=numbers.span),
            Blocks(of=Dimension.P, add=options.sub_block_rows - 1, per=options.sub_block_rows, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, add=options.images - 1, per=options.images, times=spec.k, limit=GRID_LIMIT[2]))


def _registers(spec: KernelSpec, options: ToeplitzFloat32Options, numbers: ToeplitzFloat32Numbers) -> int:
    """Sums of all tiles, of a few while they are made, their blocks of columns, words of a filter row."""
    together = min(options.tiles, TOGETHER)
    return (REGISTERS + 4 * options.tiles + 8 * together + 4 * (together + numbers.slices) + 6 * numbers.slices
            + step_registers(spec, 4))


def _cost(spec: KernelSpec, options: ToeplitzFloat32Options, numbers: ToeplitzFloat32Numbers) -> Cost:
    outputs, needed = TILE_ROWS * BLOCK_COLUMNS * options.tiles, _registers(spec, options, numbers)
    allowed = min(255, REGISTER_FILE // (numbers.threads * options.min_blocks) // REGISTER_UNIT * REGISTER_UNIT)
    return Cost(unit=f"{TILE_ROWS} rows x {numbers.warp_span} columns, {spec.r * _instructions(numbers)} "
                     "matrix instructions",
                warp_loads=-(-TILE_ROWS // options.warp_columns) * numbers.row_loads, shuffles=0, fma=0,
                registers=min(needed, allowed), direct_loads=outputs * spec.r * spec.s // LANES,
                no_spills=needed <= allowed)


def _phrase(options: ToeplitzFloat32Options, numbers: ToeplitzFloat32Numbers) -> str:
    return (f"{options.tiles} tiles of 16 x 8 outputs a warp, {options.warp_columns} warps side by side; sub-blocks of "
            f"{options.sub_block_rows} rows, {TILE_ROWS} at a time; factors in two parts of float16, "
            f"{options.vector} element{'s' if options.vector > 1 else ''} a load")


def _notes(spec: KernelSpec, numbers: ToeplitzFloat32Numbers) -> tuple[str, ...]:
    used = spec.s / (BLOCK_COLUMNS * numbers.slices)
    return (f"three products of float16 for one of float32; {100 * used:.0f} % of them are the filter's, the others "
            "are with zeros",
            "tiles with what is not finite, or with sums about 2^27 below what the largest pixels of their rows would "
            "give, are made anew by float32 units",
            f"{numbers.shared_bytes} bytes of shared memory a block")


def space(spec: KernelSpec) -> Iterable[ToeplitzFloat32Options]:
    base = defaults(spec)
    return [replace(base, tiles=tiles, warp_columns=columns, sub_block_rows=rows)
            for tiles in (2, 3, 4, 5, 6, 7, 8) for columns in (1, 2, 4, 8) for rows in (64, 128, 256)]


def _slots(spec: KernelSpec, options: ToeplitzFloat32Options, slices: int) -> tuple[float, float]:
    """Issue slots of a warp for its 16 rows of tiles, and before the first of a sub-block."""
    pairs, alone = divmod(slices, 2)
    tile = 3 * (pairs * MATRIX_SLOTS + alone * SHORT_SLOTS) + 8 * -(-slices // SHORT_CHAIN)
    loads = 4 * (options.tiles + slices) * (1 if slices % 2 else 2)
    row = options.tiles * tile + loads + 2 * slices + 20
    columns = BLOCK_COLUMNS * (options.tiles * options.warp_columns + slices - 1)
    row_loads = -(-columns // (LANES * options.vector))
    split = TILE_ROWS / options.warp_columns * row_loads * (6 + 7 * options.vector)
    return (spec.r * row + split + TILE_SLOTS * options.tiles + 60,
            (spec.r - 1) / TILE_ROWS * split + BLOCK_SLOTS)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots of the layer."""
    options: ToeplitzFloat32Options = plan.options
    numbers: ToeplitzFloat32Numbers = plan.numbers
    spec = plan.spec
    band, first = _slots(spec, options, numbers.slices)
    across = -(-shape.q // numbers.span) * options.warp_columns
    bands, blocks = -(-shape.p // TILE_ROWS), -(-shape.p // options.sub_block_rows)
    filters = (numbers.filter_words / numbers.threads * 25 + 10 * spec.r) / options.images
    alone = ALONE if options.warp_columns == 1 else 1.0
    return alone * shape.n * spec.k * across * (bands * band + blocks * (first + filters))


ALGORITHM = Algorithm(name="toeplitz_float32",
                      summary="banded filter matrices on tensor cores, in two parts; float32 depthwise, NCHW",
                      options=ToeplitzFloat32Options, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=0.75, float32=(Numerics.FP16X3,))
