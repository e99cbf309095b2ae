"""``toeplitz``: planes and depthwise convolution of 16-bit elements on tensor cores; NCHW.

A row of a convolution is a product with a banded (Toeplitz) matrix: T[k][n] = w[r][k - n]. One matrix instruction
multiplies 16 rows of 16 input columns by 16 x 8 elements of it, so a filter row takes one or two instructions for 128
outputs, where FMAs take 4 S issue slots. Filters up to about 11 x 11 are then bound by memory: docs/toeplitz.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, H200_SHARED_FILLED, LANES, SHARED_STATIC
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import blocks_by_shared, blocks_refusal, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.text import text_refusal
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (BLOCK_COLUMNS, TILE_ROWS, Begin, Stores, ToeplitzNumbers, ToeplitzOptions, Walk, Way,
                      filter_registers, make_numbers, slices_of)

MOST_TILES = 16               # of a warp: 64 accumulators
MOST_SHARED = 8               # tiles by default of a warp that shares rows with others; with more, it has them alone
WHOLE_ROWS_REGISTERS = 176    # up to which a warp takes whole rows
MOST_BESIDE = 10              # filter rows up to which four warps share a strip by default, else two
NEAR_ROWS = 5                 # filter rows up to which copies through the first-level cache pay
MOST_BLOCKS = 3000            # blocks of eight columns of a filter
BYTES_OF_A_PRODUCT = 190      # in the text: a matrix instruction and what it takes
FILTER_HELD = 64              # registers of a filter that stays in registers by default
LARGEST_PLANE = 64            # rows and columns of a plane that walk=planes takes by default
SMALL_PLANE = 512             # elements, up to which more than one plane of a team is on its way
MOST_WARPS = 4                # of a block by default
REGISTER_MARGIN = 24          # addresses, the loop, and what the compiler has in flight;
FEW_TILES_MARGIN = 32         # of few tiles it has more in flight
MATRIX_SLOTS = 8              # issue slots that a matrix instruction stands for in the estimate
BANDS_IN_TURN = 8             # bands of a sub-block by default, so that few rows are loaded twice
WARPS_WANTED = 16             # of a multiprocessor, that keep it busy
ASSUMED_BATCH = 16            # so that the batch never changes the plan


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), borders=BORDERS)
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels in a group (a banded matrix holds one: planes, or C = groups)"
    if refusal is None and (spec.stride != (1, 1) or spec.dilation != (1, 1)):
        refusal = "stride and dilation other than 1: neighbouring outputs would not share a band"
    if refusal is None and filter_registers(spec) > MOST_BLOCKS:
        refusal = f"a filter of {spec.r} x {spec.s} (at most {MOST_BLOCKS} blocks of eight columns)"
    return refusal or border_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ToeplitzOptions:
    """Whole planes where two of them fit in shared memory beside others, else strips of up to 256 columns."""
    weights = Weights.REGISTERS if filter_registers(spec) <= FILTER_HELD else Weights.SHARED
    options = ToeplitzOptions(weights=weights, way=Way.CA if spec.r <= NEAR_ROWS else Way.CG,
                              vector=1 if shape is None else math.gcd(shape.w, 8),
                              store_vector=1 if shape is None else 8 if shape.q % 8 == 0 else math.gcd(shape.q, 2))
    if shape is None:
        return options
    options = replace(options, height=shape.h, width=shape.w)
    # compilers for sm_100 and later spill where a filter in shared memory meets whole planes (31x31)
    spills = weights is Weights.SHARED and spec.arch.major >= 10
    if max(shape.h, shape.w, shape.p, shape.q) <= LARGEST_PLANE and spec.k > 1 and not spills:
        whole = _whole_planes(spec, shape, options)
        if _fits(spec, whole):
            return whole
    return _strips(spec, shape, options)


def _whole_planes(spec: KernelSpec, shape: ConvShape, options: ToeplitzOptions) -> ToeplitzOptions:
    bands = -(-shape.p // TILE_ROWS)
    rows = min(MOST_WARPS, bands)
    options = replace(options, walk=Walk.PLANES, tiles=-(-shape.q // BLOCK_COLUMNS),
                   warp_columns=1, warp_rows=rows, warp_planes=max(1, MOST_WARPS // rows),
                   buffers=2 if shape.h * shape.w > SMALL_PLANE else 3)
    if shape.q % 8:
        cell = math.gcd(shape.q, 2)
        options = replace(options, stores=Stores.STAGED, store_vector=cell * math.gcd(shape.p, 4) if cell > 1 else 1)
    return options


def _strips(spec: KernelSpec, shape: ConvShape, options: ToeplitzOptions) -> ToeplitzOptions:
    """Warps side by side share what lies between their columns; as few columns beyond the image as can be."""
    needed = -(-shape.q // BLOCK_COLUMNS)
    best, least = options, math.inf
    whole_rows = replace(options, tiles=min(needed, MOST_TILES), warp_columns=1, warp_planes=1)
    if spec.k > 1 and MOST_SHARED < needed <= MOST_TILES and _fits(spec, whole_rows):
        if _registers(spec, whole_rows, make_numbers(spec, whole_rows)) <= WHOLE_ROWS_REGISTERS:
            return replace(whole_rows, sub_block_rows=32 if spec.r <= 3 else 64)
    for columns in (4, 2, 1) if spec.r <= MOST_BESIDE else (2, 1):
        for tiles in range(min(MOST_SHARED, needed), 3 if needed > 3 else 0, -1):
            made = -(-needed // (tiles * columns)) * tiles * columns
            tried = replace(options, tiles=tiles, warp_columns=columns,
                            warp_planes=1 if spec.k == 1 else MOST_WARPS // columns)
            waste = made / needed * (1 + (slices_of(spec) - 1) / (tiles * columns)) * (1 + 0.4 / tiles)
            if waste < least and _fits(spec, tried):
                best, least = tried, waste
    if spec.r <= NEAR_ROWS:
        ahead = replace(best, begin=Begin.PLACE, prefetch_bands=2)
        best = ahead if _fits(spec, ahead) else best
    tile_rows = -(-shape.p // TILE_ROWS)
    bands = min(BANDS_IN_TURN, tile_rows)
    batch = 1 if shape.c == shape.k == 1 else ASSUMED_BATCH
    warps = batch * spec.k * -(-needed // best.tiles)
    while bands > 2 and warps * -(-shape.p // (bands * TILE_ROWS)) < spec.hardware.warps_of(WARPS_WANTED):
        bands = -(-bands // 2)
    blocks = -(-shape.p // (bands * TILE_ROWS))
    bands = -(-tile_rows // blocks)
    return replace(best, sub_block_rows=bands * TILE_ROWS)


def _fits(spec: KernelSpec, options: ToeplitzOptions) -> bool:
    return _refusal(spec, options, make_numbers(spec, options)) is None


def plan(spec: KernelSpec, options: ToeplitzOptions) -> KernelPlan:
    refusal = supports(spec) or _value_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    if options.walk is Walk.BANDS:
        options = replace(options, height=1, width=1)       # any: they mean nothing here
    numbers = make_numbers(spec, options)
    refusal = _refusal(spec, options, numbers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    registers = _registers(spec, options, numbers)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=_min_blocks(spec, options, registers, numbers))
    refusal = blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options, numbers)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("toeplitz/kernel.cu.jinja",),
                      cost=_cost(spec, options, numbers, registers),
                      program=Program(arguments=arguments, steps=(launch,)), phrase=_phrase(options, numbers),
                      notes=_notes(spec, numbers))


def _value_refusal(spec: KernelSpec, options: ToeplitzOptions) -> str | None:
    """Plan values that no numbers can be made of."""
    if options.vector not in (1, 2, 4, 8):
        return f"vector = {options.vector}: copies are of 1, 2, 4 or 8 elements"
    if options.store_vector not in ((1, 2, 8) if options.stores is Stores.DIRECT else (1, 2, 4, 8)):
        return f"store_vector = {options.store_vector}: stores are of 1, 2 or 8 elements"
    if options.stores is Stores.STAGED and options.walk is Walk.BANDS:
        return "stores = staged takes whole planes: walk = planes"
    if options.walk is Walk.PLANES and options.warp_strips > 1:
        return f"warp_strips = {options.warp_strips} side by side on one plane: walk = bands"
    if not 1 <= options.prefetch_bands <= 7:
        return f"prefetch_bands = {options.prefetch_bands} (1 to 7)"
    if not 2 <= options.buffers <= 8:
        return f"buffers = {options.buffers} (2 to 8)"
    if options.tiles > MOST_TILES:
        return f"tiles = {options.tiles} (at most {MOST_TILES}: a tile takes four accumulators of a lane)"
    if options.walk is Walk.PLANES and DERIVED in (options.height, options.width):
        return "walk = planes needs height and width: plan it for a shape, or set them"
    return None


def _refusal(spec: KernelSpec, options: ToeplitzOptions, numbers: ToeplitzNumbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    planes = options.walk is Walk.PLANES
    if numbers.threads > BLOCK_THREADS:
        return f"{numbers.threads // LANES} warps are more than a block's {BLOCK_THREADS} threads"
    refusal = text_refusal(len(numbers.products) * numbers.made_tiles, BYTES_OF_A_PRODUCT, "matrix instructions")
    if refusal is not None:
        return refusal
    if numbers.shared_bytes > SHARED_STATIC:
        return f"{numbers.shared_bytes} bytes of shared memory for a block (at most {SHARED_STATIC})"
    if planes and min(numbers.most_rows, numbers.most_columns) < 1:
        return f"no output: the filter is larger than the padded plane of {options.height} x {options.width}"
    if planes and numbers.most_columns > numbers.span:
        return (f"{options.tiles} tiles in {options.warp_columns} warps have no room for {numbers.most_columns} output "
                "columns")
    if planes and options.width < options.vector:
        return f"vector = {options.vector} elements of rows of {options.width}"
    if not planes and options.sub_block_rows % numbers.band:
        return f"sub_block_rows = {options.sub_block_rows} is no multiple of a band's {numbers.band} rows"
    if options.weights is Weights.REGISTERS and _registers(spec, options, numbers) > 240:
        return f"about {_registers(spec, options, numbers)} registers (at most 240): fewer tiles, or weights = shared"
    return None


def _min_blocks(spec: KernelSpec, options: ToeplitzOptions, registers: int, numbers: ToeplitzNumbers) -> int:
    """Whole planes: held to a number, the compiler spills though it needs fewer registers when left alone; with columns
    of pixels outside, left alone it takes 30 more."""
    if options.walk is Walk.PLANES and not _holds_columns(numbers):
        return 1
    return _resident(spec, registers, numbers)


def _holds_columns(numbers: ToeplitzNumbers) -> bool:
    """Whether threads have columns outside on their way; many of them in bands may spill a register or two (11x11)."""
    return numbers.border.kind == "pixels" and numbers.held > 0


def _resident(spec: KernelSpec, registers: int, numbers: ToeplitzNumbers) -> int:
    """Blocks of a multiprocessor: by registers, and by shared memory."""
    return max(1, min(resident_blocks(spec.hardware, min(255, registers), numbers.threads),
                      blocks_by_shared(spec.hardware, H200_SHARED_FILLED,
                                       numbers.shared_bytes + spec.hardware.shared_reserved)))


def _arguments(spec: KernelSpec, options: ToeplitzOptions, numbers: ToeplitzNumbers) -> tuple[Argument, ...]:
    """The layer's arguments, with what copies, stores and buffers ask of them."""
    planes = options.walk is Walk.PLANES
    demands: dict[str, dict[str, Any]] = {
        "W": {"multiple_of": options.vector, "at_most": options.width if planes else None},
        "H": {"at_most": options.height if planes else None},
        "Q": {"multiple_of": numbers.cell}, "P": {"multiple_of": options.store_vector // numbers.cell},
        "x": {"multiple_of": 2 * options.vector}, "y": {"multiple_of": 2 * options.store_vector}}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec, as_elements=True))


def _grid(spec: KernelSpec, options: ToeplitzOptions, numbers: ToeplitzNumbers) -> tuple[Blocks, Blocks, Blocks]:
    if options.walk is Walk.PLANES:
        jobs = Blocks(of=Dimension.N, add=options.images - 1, per=options.images, times=numbers.plane_groups,
                      limit=GRID_LIMIT[0] // 2)
        return jobs, Blocks(), Blocks()
    return (Blocks(of=Dimension.Q, add=numbers.block_span - 1, per=numbers.block_span),
            Blocks(of=Dimension.P, add=options.sub_block_rows - 1, per=options.sub_block_rows, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, each=spec.k, add=options.warp_planes - 1, per=options.warp_planes,
                   limit=GRID_LIMIT[2]))


def _registers(spec: KernelSpec, options: ToeplitzOptions, numbers: ToeplitzNumbers) -> int:
    held = filter_registers(spec, options.begin) if options.weights is Weights.REGISTERS else 4
    in_flight = 4 if spec.r > 1 else 2     # of a block of columns: an instruction takes those of two filter rows
    margin = REGISTER_MARGIN if options.tiles > 4 else FEW_TILES_MARGIN
    columns = 2 * numbers.held + 10 if options.walk is Walk.PLANES and _holds_columns(numbers) else 0
    return 4 * numbers.made_tiles + held + in_flight * numbers.blocks + margin + columns


def _cost(spec: KernelSpec, options: ToeplitzOptions, numbers: ToeplitzNumbers, registers: int) -> Cost:
    outputs = TILE_ROWS * BLOCK_COLUMNS * options.tiles
    copies = -(-TILE_ROWS * numbers.copy_chunks // (LANES * options.warp_columns))
    instructions = len(numbers.products) * numbers.made_tiles
    return Cost(unit=f"{TILE_ROWS} rows x {numbers.warp_span} columns, {instructions} matrix instructions",
                warp_loads=copies,
                shuffles=8 * len(numbers.quads) if numbers.cell == 8 else 0, fma=0, registers=registers,
                direct_loads=outputs * spec.r * spec.s // LANES,
                no_spills=registers <= 255 and not (_holds_columns(numbers) and not numbers.places_kept))


def _phrase(options: ToeplitzOptions, numbers: ToeplitzNumbers) -> str:
    team = (f"{options.warp_columns * options.warp_rows} warps a team ({options.warp_columns} side by side, "
            f"{options.warp_rows} stacked), {options.warp_planes} teams a block")
    walk = (f"planes of up to {options.height} x {options.width} whole, {options.images} images in turn"
            if options.walk is Walk.PLANES else
            f"sub-blocks of {options.sub_block_rows} rows, {numbers.band} at a time")
    return (f"{options.tiles} tiles of 16 x 8 outputs a warp, {team}; {walk}; filter in {options.weights.value}, "
            f"{options.vector} element{'s' if options.vector > 1 else ''} a copy")


def _notes(spec: KernelSpec, numbers: ToeplitzNumbers) -> tuple[str, ...]:
    used = spec.r * spec.s / (len(numbers.products) * 16)
    return (f"{len(numbers.products)} matrix instructions for 128 outputs; {100 * used:.0f} % of their products are "
            f"the filter's, the others are with zeros",
            "a zero beside the filter meets real input: an infinity or NaN spreads to up to "
            f"{8 * numbers.slices} output columns of the rows that its window touches",
            f"{numbers.shared_bytes} bytes of shared memory a block")


def space(spec: KernelSpec) -> Iterable[ToeplitzOptions]:
    base = defaults(spec)
    return [replace(base, tiles=tiles, warp_columns=columns, warp_rows=rows, warp_planes=planes, sub_block_rows=high,
                    weights=weights)
            for tiles in (4, 7, 8, 14, 16) for columns in (1, 2, 4) for rows in (1, 2) for planes in (1, 2, 4)
            for high in (64, 128, 256, 512) for weights in Weights if high % (TILE_ROWS * rows) == 0]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer, a matrix instruction as MATRIX_SLOTS of them."""
    options: ToeplitzOptions = plan.options
    numbers: ToeplitzNumbers = plan.numbers
    spec = plan.spec
    tile = len(numbers.products) * MATRIX_SLOTS + 8
    loads = sum(len(step.loads) + 4 for step in numbers.steps)
    copies = 10 * TILE_ROWS * numbers.copy_chunks / (LANES * options.warp_columns)
    words = 0 if options.weights is Weights.REGISTERS else filter_registers(spec, options.begin)
    warp = numbers.made_tiles * tile + loads + copies + words + 40
    across = -(-shape.q // numbers.span) * options.warp_columns
    bands = -(-shape.p // TILE_ROWS)
    setup = filter_registers(spec) * 6 + 100
    amortised = options.images if options.walk is Walk.PLANES else 1
    return shape.n * spec.k * across * (bands * warp + setup / amortised)


ALGORITHM = Algorithm(name="toeplitz", summary="banded filter matrices on tensor cores; 16-bit depthwise, NCHW",
                      options=ToeplitzOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
