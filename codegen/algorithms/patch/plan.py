"""``patch``: large filters over planes and depthwise layers in NCHW, from a patch of the plane in shared memory.

From about 13x13 on the products of an input row for all output rows in work (as ``wide`` has them) are more text than
the instruction cache holds, and lanes with few columns read weights from shared memory as often as they multiply. Here
a lane makes many neighbouring outputs of one row, so that each weight it reads serves all of them, and the loop over
filter rows stays a loop: the text is one filter row long. Blocking of the outputs in registers over operands in shared
memory is what every matrix product does; docs/patch.md counts what it costs here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, H200_SHARED_FILLED, LANES, REGISTER_FILE, SHARED_STATIC
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import blocks_by_shared, blocks_refusal, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import CELL, PatchNumbers, PatchOptions, make_numbers, registers_of

LARGEST_FILTER = 63           # rows or columns
MOST_ROWS = 64                # of a tile, so that row indices cannot overflow
MOST_WARPS = 16               # of a block
MOST_REGISTERS = 168          # 12 warps of a multiprocessor stay
REGISTER_LIMIT = 220          # planned registers that the compiler keeps without spilling
FIRST_TILE = 25_000           # issue slots of an H200 for a tap of the first tile, before others fill its waits
                              # (planes)
TEXT_LIMIT = 2000             # products of a filter row in the text
TEXT_COMFORT = 1100           # beyond it the instruction cache starves
WARPS_WANTED = 20             # of a multiprocessor: fewer show the latency of reads and barriers
SLOTS_OF_A_PASS = 4           # issue slots of a multiprocessor while shared memory moves a word for each lane
STEP_INSTRUCTIONS = 10        # of a filter row besides reads and products
STAGE_SLOTS = 60              # of a load to shared memory: its instructions, and what all wait for it
NOT_HIDDEN = 0.4              # of what shared memory or the issue slots take beside the other (the fit: docs/patch.md)
SEVERAL_PLANES = 1.05         # time of a block with two planes over two with one each: 31x31 516 us instead of 496
HALF_SECTORS = 32             # issue slots of a multiprocessor while the second-level cache takes the other halves of a
                              # store whose lanes stand apart (2.0 times the sectors of a copy, by execution)
ASSUMED_BATCH = 32            # the batch is never looked at, so that all batches share a kernel
USUAL = 56                    # rows and columns of a layer whose size is not known
# of a lane; more leave fewer warps: 521 us with 28, 496 with 14 (31x31, 32x128x56^2, H200, 2026-11-21)
COLUMNS = (20, 18, 16, 14, 12, 10, 8, 6, 4, 2)
TILES_DOWN = (1, 2, 3)        # of a plane, evenly,
TILE_ROWS = (64, 32, 16, 8)   # or of so many rows
STRIPS = (1, 2, 4, 8)         # tiles side by side on a plane
MOST_LANES = 16               # of a row
MOST_ENDS = 32                # tiles at an end of the image that are looked at one by one
LEAST = PatchOptions(columns=4, row_lanes=1, rows=8)


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, borders=BORDERS, residual=True)
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels a group (a patch is of one: planes and depthwise layers only)"
    if refusal is None and max(spec.r, spec.s) > LARGEST_FILTER:
        refusal = f"a filter of {spec.r} x {spec.s} (at most {LARGEST_FILTER} a side)"
    return refusal or _refusal(spec, LEAST, make_numbers(spec, LEAST))


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> PatchOptions:
    """The plan values with the fewest modelled issue slots for a layer of this height and width."""
    spec = replace(spec, epilogue=(), index_bits=32)        # which change nothing here, and would be chosen for again
    if shape is None:
        return _chosen(spec, USUAL, USUAL, USUAL, USUAL, False)
    return _chosen(spec, shape.h, shape.w, shape.p, shape.q, True)


@functools.lru_cache(maxsize=4096)
def _chosen(spec: KernelSpec, h: int, w: int, p: int, q: int, known: bool) -> PatchOptions:
    found = [(_price(spec, options, numbers, h, p, q), i, options)
             for i, (options, numbers) in enumerate(_candidates(spec, h, p, q, known))]
    options = min(found)[2] if found else LEAST
    vector = CELL if known and w % CELL == 0 and options.columns * options.row_lanes * spec.stride[1] % CELL == 0 else 1
    store = math.gcd(math.gcd(q, options.columns), CELL) if known else 1
    return replace(options, vector=vector, store_vector=store)


def _candidates(spec: KernelSpec, h: int, p: int, q: int, known: bool) -> Iterator[tuple[PatchOptions, PatchNumbers]]:
    """Tiles that fit: columns that make rows of whole lanes, rows of whole tiles, planes that fill warps."""
    even = {-(-p // tiles) for tiles in TILES_DOWN}
    tile_rows = sorted({rows for rows in even | set(TILE_ROWS) if rows <= min(p, MOST_ROWS)}, reverse=True)
    for columns in COLUMNS:
        if spec.s * columns > TEXT_COMFORT and columns > 4:
            continue
        lanes = -(-q // columns)
        for row_lanes in sorted({min(MOST_LANES, -(-lanes // strips)) for strips in STRIPS}):
            for rows, planes in ((r, n) for r in tile_rows for n in (1, 2) if n <= spec.k):
                if -(-row_lanes * planes * rows // LANES) > MOST_WARPS:
                    continue
                options = PatchOptions(columns=columns, row_lanes=row_lanes, rows=rows, planes=planes)
                span = (rows - 1) * spec.stride[0] + (spec.r - 1) * spec.dilation[0] + 1
                if known and h < span and spec.padding_mode is Border.ZEROS:
                    options = replace(options, height=h)
                if _floats(spec, options, span) * 4 > SHARED_STATIC:
                    continue
                numbers = make_numbers(spec, options)
                if (_refusal(spec, options, numbers) is None
                        and registers_of(spec, options, numbers) <= MOST_REGISTERS):
                    yield options, numbers


def _floats(spec: KernelSpec, options: PatchOptions, span: int) -> int:
    """Of a block's shared memory, at least: a quick way to leave most candidates out."""
    rows = min(span, options.height)
    wide = options.row_lanes * options.columns * spec.stride[1] + (spec.s - 1) * spec.dilation[1]
    return options.planes * (rows * wide + spec.r * spec.s)


def _price(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers, h: int, p: int, q: int) -> float:
    """Issue slots for the whole plane; more where few warps stay resident or a large GPU would not be full."""
    blocks = _blocks(spec, options, numbers)
    warps = blocks * numbers.warps
    across = -(-q // numbers.tile_columns) * ASSUMED_BATCH * -(-spec.k // options.planes) * -(-p // options.rows)
    resident = spec.hardware.warps_of(blocks)
    rounds = across / resident
    tail = -(-across // resident) / rounds if rounds > 1 else 1 / max(rounds, 0.25)
    beside = SEVERAL_PLANES if options.planes > 1 else 1
    waiting: float = max(1.0, WARPS_WANTED / warps) ** 0.5
    return _slots(spec, options, numbers, h, p, q) / options.planes * waiting * (0.5 + 0.5 * tail) * beside


def _blocks(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers) -> int:
    """Of a multiprocessor, by registers and shared memory."""
    return min(resident_blocks(spec.hardware, registers_of(spec, options, numbers), numbers.threads),
               blocks_by_shared(spec.hardware, H200_SHARED_FILLED, numbers.shared_bytes))


def _slots(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers, h: int, p: int, q: int) -> float:
    """Issue slots of all tiles of ``planes`` planes."""
    products = spec.s * options.columns
    reads = numbers.window // numbers.cell + numbers.filter_reads
    passes = numbers.window * numbers.conflicts + numbers.filter_reads * CELL
    issue, memory = products + reads + STEP_INSTRUCTIONS, SLOTS_OF_A_PASS * passes
    row = max(issue, memory) + NOT_HIDDEN * min(issue, memory)
    loads = options.planes * numbers.lines * numbers.row_vectors / CELL + options.planes * spec.r * spec.s
    tile = loads / LANES * STAGE_SLOTS + numbers.warps * (2 * options.columns + 60)
    return -(-q // numbers.tile_columns) * (-(-p // options.rows) * tile + _all_steps(spec, options, h, p) * row)


def _all_steps(spec: KernelSpec, options: PatchOptions, h: int, p: int) -> int:
    """Of all tiles over each other: those whose windows lie in the image are alike, so that any height is counted in
    the same time; of many tiles at the ends some are looked at."""
    tiles, down = -(-p // options.rows), options.rows * spec.stride[0]
    reach = (options.rows - 1) * spec.stride[0] + (spec.r - 1) * spec.dilation[0]
    if spec.padding_mode is Border.ZEROS:
        first = min(tiles, -(-spec.padding[0][0] // down))
        after = max(first, min(tiles, (h - 1 - reach + spec.padding[0][0]) // down + 1))
    else:
        first, after = 0, tiles
    inside = -(-options.row_lanes * options.planes * options.rows // LANES) * spec.r
    return (_end_steps(spec, options, h, 0, first) + (after - first) * inside
            + _end_steps(spec, options, h, after, tiles))


def _end_steps(spec: KernelSpec, options: PatchOptions, h: int, first: int, after: int) -> int:
    """Of tiles ``first`` .. ``after`` - 1."""
    each = max(1, (after - first) // MOST_ENDS)
    return each * sum(_steps(spec, options, tile * options.rows, h) for tile in range(first, after, each))


def _steps(spec: KernelSpec, options: PatchOptions, p_first: int, h: int) -> int:
    """Filter rows that the warps of a tile go through in all: those inside the image for any lane of a warp."""
    lanes = options.row_lanes * options.planes
    found = 0
    for first in range(0, lanes * options.rows, LANES):
        low = (p_first + first // lanes) * spec.stride[0] - spec.padding[0][0]
        high = (p_first + min((first + LANES - 1) // lanes, options.rows - 1)) * spec.stride[0] - spec.padding[0][0]
        begin = max(0, -(high // spec.dilation[0]))
        found += max(0, min(spec.r, -(-(h - low) // spec.dilation[0])) - begin)
    return found


def plan(spec: KernelSpec, options: PatchOptions) -> KernelPlan:
    refusal = supports(spec) or _value_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = make_numbers(spec, options)
    refusal = _refusal(spec, options, numbers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    registers = registers_of(spec, options, numbers)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=_blocks(spec, options, numbers))
    refusal = blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options, numbers)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("patch/kernel.cu.jinja",),
                      cost=_cost(spec, options, numbers, registers),
                      program=Program(arguments=arguments, steps=(launch,)), phrase=_phrase(options, numbers),
                      notes=(f"{numbers.shared_bytes} bytes of shared memory a block",))


def _value_refusal(spec: KernelSpec, options: PatchOptions) -> str | None:
    """Plan values that no numbers can be made of."""
    if options.vector not in (1, CELL) or options.columns * options.row_lanes * spec.stride[1] % options.vector:
        return (f"vector = {options.vector}: loads are of 1 or {CELL} elements, and divide the "
                f"{options.columns * options.row_lanes * spec.stride[1]} input columns of a tile")
    if options.store_vector not in (1, 2, CELL) or options.columns % options.store_vector:
        return f"store_vector = {options.store_vector}: 1, 2 or {CELL}, and a divisor of columns = {options.columns}"
    if options.row_lanes > LANES or options.columns > 64:
        return f"columns = {options.columns} of {options.row_lanes} lanes (at most 64 of {LANES})"
    if options.rows > MOST_ROWS:
        return f"rows = {options.rows} (at most {MOST_ROWS}, so that row indices cannot overflow)"
    if options.planes > LANES:
        return f"planes = {options.planes} (at most {LANES})"
    return None


def _refusal(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    registers = registers_of(spec, options, numbers)
    if numbers.shared_bytes > SHARED_STATIC:
        return (f"patches and filters of {options.planes} plane{'s' if options.planes > 1 else ''} take "
                f"{numbers.shared_bytes} bytes of shared memory (at most {SHARED_STATIC}): fewer rows, lanes or planes")
    if numbers.threads > BLOCK_THREADS:
        return f"{numbers.warps} warps are more than a block's {BLOCK_THREADS} threads"
    if registers > REGISTER_LIMIT:
        return f"about {registers} registers (at most {REGISTER_LIMIT}): fewer columns"
    if numbers.threads * registers > REGISTER_FILE:
        return (f"about {registers} registers for each of {numbers.threads} threads (at most {REGISTER_FILE}): fewer "
                "rows")
    if spec.s * options.columns > TEXT_LIMIT:
        return f"{spec.s * options.columns} products of a filter row in the text (at most {TEXT_LIMIT}): fewer columns"
    return None


def _arguments(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers) -> tuple[Argument, ...]:
    """The layer's arguments with what vectors and a patch of whole planes ask of them."""
    demands: dict[str, dict[str, Any]] = {
        "H": {"at_most": options.height if numbers.patch_rows < numbers.span else None},
        "W": {"multiple_of": options.vector},
        "Q": {"multiple_of": options.store_vector},
        "x": {"multiple_of": options.vector * spec.dtype.itemsize},
        **dict.fromkeys(("residual", "y"), {"multiple_of": options.store_vector * spec.dtype.itemsize})}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec))


def _grid(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide = numbers.tile_columns
    return (Blocks(of=Dimension.Q, add=wide - 1, per=wide, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=options.rows - 1, per=options.rows, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, each=spec.k, add=options.planes - 1, per=options.planes, limit=GRID_LIMIT[2]))


def _cost(spec: KernelSpec, options: PatchOptions, numbers: PatchNumbers, registers: int) -> Cost:
    loads = options.planes * numbers.lines * numbers.row_vectors
    return Cost(unit=f"tile of {options.rows} rows x {numbers.tile_columns} columns of {options.planes} "
                     f"plane{'s' if options.planes > 1 else ''}",
                warp_loads=-(-loads // numbers.threads), shuffles=0,
                fma=spec.r * spec.s * options.columns, registers=registers,
                direct_loads=spec.r * spec.s * options.columns)


def _phrase(options: PatchOptions, numbers: PatchNumbers) -> str:
    planes = f"{options.planes} plane{'s' if options.planes > 1 else ''}"
    return (f"{options.columns} columns of a row per lane, tiles of {options.rows} rows x {numbers.tile_columns} "
            f"columns of {planes}, {numbers.warps} warps per block; patches of {numbers.patch_rows} rows in shared "
            f"memory, {options.vector} element{'s' if options.vector > 1 else ''} a load")


def space(spec: KernelSpec) -> Iterable[PatchOptions]:
    base = defaults(spec)
    shapes = {replace(options, vector=base.vector, store_vector=base.store_vector)
              for options, _ in _candidates(spec, USUAL, USUAL, USUAL, True)
              if options.row_lanes * options.columns >= USUAL}
    return sorted(shapes, key=repr)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots of the layer: products, reads and the loop's own, or what shared memory takes for the reads."""
    options: PatchOptions = plan.options
    planes = -(-shape.n * shape.k // options.planes)
    slots = _slots(plan.spec, options, plan.numbers, shape.h, shape.p, shape.q)
    if shape.p == plan.spec.r == 1:         # other layers have them in the fit: their products hide them
        stores = plan.numbers.warps * options.columns / options.store_vector
        slots += -(-shape.q // plan.numbers.tile_columns) * stores * HALF_SECTORS
    return plan.spec.hardware.issue_slots(FIRST_TILE) * plan.spec.r * plan.spec.s + planes * slots


ALGORITHM = Algorithm(name="patch", summary="large filters: many columns a lane, the plane in shared memory; NCHW",
                      options=PatchOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
