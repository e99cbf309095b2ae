"""``toeplitz_1d``: depthwise filters of one row over sequences of 16-bit elements, on tensor cores; NCHW.

What ``toeplitz`` does with the rows of an image, for one row: the sequence is folded into rows that overlap, each some
outputs further on than the one before it, so that a matrix instruction has sixteen rows though there is one. In shared
memory it lies once, and is copied from there to registers as matrices: docs/one-dimension.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, H200_SHARED_FILLED, LANES, SHARED_STATIC
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.folded import BLOCK, TILE_ROWS, WIDE, line_of, line_refusal
from warpconv.codegen.parts.occupancy import blocks_by_shared, blocks_refusal, resident_blocks, step_registers
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import Toeplitz1dNumbers, Toeplitz1dOptions, make_numbers

MOST_TAPS = 1024
MOST_WARPS = 4                # of a block by default, and
MOST_TILES = 4                # of a warp, so that the filter is made ready once for many: of long filters
FILTER_HELD = 72              # registers of a filter that stays in registers by default
WIDE_SLICES = 12              # blocks of a filter from which rows of four blocks pay: matrices are read for all of them
BLOCKS_WANTED = 16            # of each multiprocessor, that keep it busy
SHARED_HELD = 8               # of one in shared memory; sm_120 holds a quarter of it besides
REGISTER_MARGIN = 36          # addresses, the loop, and what the compiler has in flight
MATRIX_SLOTS = 8              # issue slots that a matrix instruction of full depth stands for in the estimate,
LOAD_SLOTS = 16               # a read of four matrices, which takes four turns of shared memory,
COPY_SLOTS = 10               # and 32 copies with their places


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), borders=BORDERS)
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels in a group (a banded matrix holds one: planes, or C = groups)"
    refusal = refusal or line_refusal(spec, columns=False)
    if refusal is None and line_of(spec).taps > MOST_TAPS:
        refusal = f"{line_of(spec).taps} taps (at most {MOST_TAPS})"
    return refusal or border_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Toeplitz1dOptions:
    """Rows of one block for short filters, else of four; whole sequences in a block, or equal parts of them, but so
    that there are blocks for all multiprocessors; short sequences several in a block."""
    slices = line_of(spec).slices
    options = Toeplitz1dOptions(
        weights=Weights.REGISTERS if slices <= FILTER_HELD else Weights.SHARED,
        vector=1 if shape is None else math.gcd(shape.w, BLOCK))
    if shape is None:
        return replace(options, store_vector=1)
    wide = slices >= WIDE_SLICES and shape.q > TILE_ROWS * BLOCK
    columns = WIDE if wide else BLOCK
    needed = -(-shape.q // (TILE_ROWS * columns))
    # of short filters two warps of many tiles: 8 x 2048 x 4096, float16, bias and silu, an H200, 2026-11-27, 4, 7, 31
    # taps 72.3, 72.2, 76.1 us; four warps of 4 tiles 81.8, 81.4, 88.1, of 8 tiles 72.5, 76.4, 75.7
    most_warps, most_tiles = (MOST_WARPS, MOST_TILES) if wide else (MOST_WARPS // 2, 2 * MOST_TILES)
    warps = min(most_warps, needed)
    rows = assumed_batch(shape) * spec.k * shape.p
    sequences = min(MOST_WARPS // warps, rows) if needed <= most_warps else 1
    wanted = BLOCKS_WANTED * spec.hardware.multiprocessors
    tiles = min(most_tiles, -(-needed // warps))
    while tiles > 1 and rows * -(-needed // (warps * tiles)) < wanted * sequences:
        tiles = -(-tiles // 2)
    parts = -(-needed // (warps * tiles))
    return replace(options, columns=columns, warps=warps, sequences=sequences, tiles=-(-needed // (warps * parts)),
                   store_vector=(8 if wide and shape.q % 8 == 0 else 2 if shape.q % 2 == 0 else 1))


def plan(spec: KernelSpec, options: Toeplitz1dOptions) -> KernelPlan:
    refusal = supports(spec) or _value_refusal(options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = make_numbers(spec, options)
    registers = _registers(spec, options, numbers)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=_resident(spec, registers, numbers))
    refusal = _refusal(spec, options, numbers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    grid = (Blocks(of=Dimension.Q, add=numbers.span - 1, per=numbers.span, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.N, by=(Dimension.P,), each=spec.k, add=options.sequences - 1, per=options.sequences,
                   limit=GRID_LIMIT[1]), Blocks())
    launch = Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("toeplitz_1d/kernel.cu.jinja",),
                      cost=_cost(spec, numbers, registers), program=Program(arguments=arguments, steps=(launch,)),
                      phrase=_phrase(options, numbers), notes=_notes(spec, numbers))


def _value_refusal(options: Toeplitz1dOptions) -> str | None:
    """Plan values that no numbers can be made of."""
    if options.vector not in (1, 2, 4, 8):
        return f"vector = {options.vector}: copies are of 1, 2, 4 or 8 elements"
    if options.columns not in (BLOCK, WIDE):
        return f"columns = {options.columns}: rows of a tile have {BLOCK} or {WIDE} outputs"
    if options.store_vector not in ((1, 2, 8) if options.columns == WIDE else (1, 2)):
        return (f"store_vector = {options.store_vector}: stores are of 1 or 2 elements, with columns = {WIDE} "
                "of 8, too")
    return None


def _refusal(spec: KernelSpec, options: Toeplitz1dOptions, numbers: Toeplitz1dNumbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    if numbers.threads > BLOCK_THREADS:
        return f"{numbers.threads // LANES} warps are more than a block's {BLOCK_THREADS} threads"
    if numbers.shared_bytes > SHARED_STATIC:
        return f"{numbers.shared_bytes} bytes of shared memory for a block (at most {SHARED_STATIC})"
    return blocks_refusal(spec, numbers.threads, options.min_blocks)


def _resident(spec: KernelSpec, registers: int, numbers: Toeplitz1dNumbers) -> int:
    """Blocks of a multiprocessor: by registers, and by shared memory."""
    return max(1, min(resident_blocks(spec.hardware, min(255, registers), numbers.threads),
                      blocks_by_shared(spec.hardware, H200_SHARED_FILLED,
                                       numbers.shared_bytes + spec.hardware.shared_reserved)))


def _arguments(spec: KernelSpec, options: Toeplitz1dOptions) -> tuple[Argument, ...]:
    """The layer's arguments, with what copies and stores ask of them."""
    demands: dict[str, dict[str, Any]] = {
        "W": {"multiple_of": options.vector}, "Q": {"multiple_of": options.store_vector},
        "x": {"multiple_of": 2 * options.vector}, "y": {"multiple_of": 2 * options.store_vector}}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec, as_elements=True))


def _registers(spec: KernelSpec, options: Toeplitz1dOptions, numbers: Toeplitz1dNumbers) -> int:
    held = numbers.slices if options.weights is Weights.REGISTERS else SHARED_HELD + numbers.slices // 4
    in_flight = 2 * (len(numbers.outputs) + 3)
    outputs = 4 * len(numbers.outputs)
    return outputs + held + in_flight + REGISTER_MARGIN + step_registers(spec, outputs)


def _cost(spec: KernelSpec, numbers: Toeplitz1dNumbers, registers: int) -> Cost:
    instructions = sum(len(load.products) for load in numbers.loads)
    return Cost(unit=f"{TILE_ROWS} rows x {numbers.tile // TILE_ROWS} outputs, {instructions} matrix instructions",
                warp_loads=-(-numbers.tile // (LANES * BLOCK)), shuffles=0, fma=0, registers=registers,
                direct_loads=numbers.tile * spec.s // LANES, no_spills=registers <= 255)


def _phrase(options: Toeplitz1dOptions, numbers: Toeplitz1dNumbers) -> str:
    return (f"{options.tiles} tiles of {TILE_ROWS} x {options.columns} outputs a warp, {options.warps} warps a "
            f"sequence, {options.sequences} sequences a block; filter in {options.weights.value}, {options.vector} "
            f"element{'s' if options.vector > 1 else ''} a copy")


def _notes(spec: KernelSpec, numbers: Toeplitz1dNumbers) -> tuple[str, ...]:
    used = spec.s / (numbers.slices * BLOCK)
    return (f"{100 * used:.0f} % of the products are the filter's, the others are with zeros",
            f"{numbers.shared_bytes} bytes of shared memory a block")


def space(spec: KernelSpec) -> Iterable[Toeplitz1dOptions]:
    base = defaults(spec)
    return [replace(base, columns=columns, warps=warps, tiles=tiles, sequences=sequences, weights=weights)
            for columns in (BLOCK, WIDE) for warps in (1, 2, 4) for tiles in (1, 2, 4, 8)
            for sequences in (1, 2, 4) for weights in Weights]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer, matrix instructions and reads of matrices as several of them."""
    options: Toeplitz1dOptions = plan.options
    numbers: Toeplitz1dNumbers = plan.numbers
    products = sum(p.depth / (2 * BLOCK) for load in numbers.loads for p in load.products)
    words = 0 if options.weights is Weights.REGISTERS else numbers.slices * len(numbers.outputs)
    tile = products * MATRIX_SLOTS + len(numbers.loads) * LOAD_SLOTS + words + 12 * len(numbers.outputs) + 20
    tiles = -(-shape.q // numbers.tile)
    blocks = -(-shape.q // numbers.span)
    setup = options.warps * (numbers.copies * COPY_SLOTS + numbers.slices + 60)
    return shape.n * plan.spec.k * shape.p * (tiles * tile + blocks * setup)


ALGORITHM = Algorithm(name="toeplitz_1d", options=Toeplitz1dOptions, supports=supports, defaults=defaults, plan=plan,
                      summary="a sequence in rows that overlap, on tensor cores; 16-bit depthwise, NCHW", space=space,
                      estimate=estimate, pace=0.5)
