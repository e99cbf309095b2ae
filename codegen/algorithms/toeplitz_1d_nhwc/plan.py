"""``toeplitz_1d_nhwc``: depthwise filters of one row over sequences of 16-bit elements, on tensor cores; NHWC.

Eights of a pixel's channels come to shared memory, are turned there into sequences of each channel, and these are
multiplied as ``toeplitz_1d`` does; outputs go back the same way: docs/one-dimension.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, H200_SHARED_FILLED, LANES, PORTABLE_SHARED
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.folded import BLOCK, TILE_ROWS, WIDE, line_of, line_refusal, one_pixel_wide
from warpconv.codegen.parts.occupancy import blocks_by_shared, blocks_refusal, resident_blocks, step_registers
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import CELL, OCTET, Toeplitz1dNhwcNumbers, Toeplitz1dNhwcOptions, make_numbers

MOST_TAPS = 1024
FILTER_HELD = 72              # registers of a filter that stays in registers by default
WIDE_SLICES = 12              # blocks of a filter from which rows of four blocks pay: matrices are read for all of them
MOST_SHARED = 72 * 1024       # bytes of a block by default, so that a multiprocessor holds three
BLOCKS_WANTED = 4             # of each multiprocessor, that keep it busy
SHARED_HELD = 8               # of one in shared memory; sm_120 holds a quarter of it besides
REGISTER_MARGIN = 36          # addresses, the loops, and what the compiler has in flight
MATRIX_SLOTS = 8              # issue slots that a matrix instruction of full depth stands for in the estimate,
LOAD_SLOTS = 16               # a read of four matrices, which takes four turns of shared memory,
COPY_SLOTS = 16               # 32 copies with their places,
TURN_SLOTS = 40               # four matrices on their way to sequences,
STORE_SLOTS = 60              # and back, to memory


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=(Layout.NHWC,), borders=BORDERS)
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and not spec.c == spec.k == spec.groups:
        refusal = f"{spec.channels} channels and {spec.filters} filters a group (depthwise only: one and one)"
    if refusal is None and spec.c % OCTET:
        refusal = f"{spec.c} channels: a pixel is read {OCTET} channels at a time"
    refusal = refusal or line_refusal(spec, columns=True)
    if refusal is None and line_of(spec).taps > MOST_TAPS:
        refusal = f"{line_of(spec).taps} taps (at most {MOST_TAPS})"
    return refusal or border_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Toeplitz1dNhwcOptions:
    """64 bytes of a pixel, as far as the channels have them; rows of one block for short filters, else of four; two
    tiles of a row, fewer where blocks would be few."""
    slices, total = line_of(spec).slices, spec.c // OCTET
    octets = next(n for n in (4, 2, 1) if n == 1 or (n <= total and -(-total // n) * n <= 1.25 * total))
    options = Toeplitz1dNhwcOptions(octets=octets,
                                    weights=Weights.REGISTERS if slices <= FILTER_HELD else Weights.SHARED)
    line = line_of(spec)
    wide = slices >= WIDE_SLICES and (shape is None or line.outputs_of(shape) > TILE_ROWS * BLOCK)
    options = replace(options, columns=WIDE if wide else BLOCK, tiles=1 if wide else 2)
    if shape is not None and not wide:
        needed = -(-line.outputs_of(shape) // (TILE_ROWS * BLOCK))
        rows = assumed_batch(shape) * line.lines_of(shape) * -(-total // octets)
        few = rows * -(-needed // 2) < BLOCKS_WANTED * spec.hardware.multiprocessors
        options = replace(options, tiles=1 if few or needed == 1 else 2)
    while options.octets > 1 and make_numbers(spec, options).shared_bytes > MOST_SHARED:
        options = replace(options, octets=options.octets // 2)
    return options


def plan(spec: KernelSpec, options: Toeplitz1dNhwcOptions) -> KernelPlan:
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
    arguments = _arguments(spec)
    line = numbers.line
    grid = (Blocks(of=line.outputs, add=numbers.span - 1, per=numbers.span, limit=GRID_LIMIT[0]),
            Blocks(times=numbers.channel_groups, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, by=line.others, limit=GRID_LIMIT[2]))
    launch = Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1), shared_bytes=numbers.shared_bytes,
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("toeplitz_1d_nhwc/kernel.cu.jinja",),
                      cost=_cost(spec, numbers, registers), program=Program(arguments=arguments, steps=(launch,)),
                      phrase=_phrase(options, numbers), notes=_notes(spec, numbers))


def _value_refusal(options: Toeplitz1dNhwcOptions) -> str | None:
    """Plan values that no numbers can be made of."""
    if options.octets not in (1, 2, 4, 8):
        return f"octets = {options.octets} (1, 2, 4 or 8)"
    if options.columns not in (BLOCK, WIDE):
        return f"columns = {options.columns}: rows of a tile have {BLOCK} or {WIDE} outputs"
    return None


def _refusal(spec: KernelSpec, options: Toeplitz1dNhwcOptions, numbers: Toeplitz1dNhwcNumbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    if numbers.threads > BLOCK_THREADS:
        return f"{options.warps} warps are more than a block's {BLOCK_THREADS} threads"
    if options.warps > numbers.channels:
        return f"warps = {options.warps} for {numbers.channels} channels"
    if numbers.channel_groups > GRID_LIMIT[1]:
        return f"{numbers.channel_groups} blocks for the channels (at most {GRID_LIMIT[1]})"
    if numbers.shared_bytes > PORTABLE_SHARED:
        return f"{numbers.shared_bytes} bytes of shared memory for a block (at most {PORTABLE_SHARED})"
    return blocks_refusal(spec, numbers.threads, options.min_blocks)


def _resident(spec: KernelSpec, registers: int, numbers: Toeplitz1dNhwcNumbers) -> int:
    """Blocks of a multiprocessor: by registers, and by shared memory."""
    return max(1, min(resident_blocks(spec.hardware, min(255, registers), numbers.threads),
                      blocks_by_shared(spec.hardware, H200_SHARED_FILLED,
                                       numbers.shared_bytes + spec.hardware.shared_reserved)))


def _arguments(spec: KernelSpec) -> tuple[Argument, ...]:
    """The layer's arguments, with what copies and stores of an octet ask of them."""
    demands = {"x": {"multiple_of": CELL}, "y": {"multiple_of": CELL}, **one_pixel_wide(spec)}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec, as_elements=True))


def _registers(spec: KernelSpec, options: Toeplitz1dNhwcOptions, numbers: Toeplitz1dNhwcNumbers) -> int:
    held = numbers.slices if options.weights is Weights.REGISTERS else SHARED_HELD + numbers.slices // 4
    outputs = 4 * len(numbers.outputs)
    return outputs + held + 2 * (len(numbers.outputs) + 3) + REGISTER_MARGIN + step_registers(spec, outputs)


def _cost(spec: KernelSpec, numbers: Toeplitz1dNhwcNumbers, registers: int) -> Cost:
    instructions = sum(len(load.products) for load in numbers.loads)
    return Cost(unit=f"{TILE_ROWS} rows x {numbers.tile // TILE_ROWS} outputs, {instructions} matrix instructions",
                warp_loads=-(-numbers.tile // (LANES * BLOCK)), shuffles=0, fma=0, registers=registers,
                direct_loads=numbers.tile * numbers.line.taps // LANES, no_spills=registers <= 255)


def _phrase(options: Toeplitz1dNhwcOptions, numbers: Toeplitz1dNhwcNumbers) -> str:
    return (f"{numbers.span} outputs of a row of {numbers.channels} channels a block, {options.tiles} tiles of "
            f"{TILE_ROWS} x {options.columns} each; {options.warps} warps take the channels in turn; filter in "
            f"{options.weights.value}")


def _notes(spec: KernelSpec, numbers: Toeplitz1dNhwcNumbers) -> tuple[str, ...]:
    used = numbers.line.taps / (numbers.slices * BLOCK)
    return (f"{100 * used:.0f} % of the products are the filter's, the others are with zeros",
            f"{numbers.shared_bytes} bytes of shared memory a block")


def space(spec: KernelSpec) -> Iterable[Toeplitz1dNhwcOptions]:
    base = defaults(spec)
    found = [replace(base, octets=octets, columns=columns, tiles=tiles, warps=warps)
             for octets in (1, 2, 4, 8) for columns in (BLOCK, WIDE) for tiles in (1, 2, 3, 4) for warps in (2, 4, 8)]
    return [o for o in found if _refusal(spec, o, make_numbers(spec, o)) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer, matrix instructions and reads of matrices as several of them."""
    options: Toeplitz1dNhwcOptions = plan.options
    numbers: Toeplitz1dNhwcNumbers = plan.numbers
    products = sum(p.depth / (2 * BLOCK) for load in numbers.loads for p in load.products)
    tile = products * MATRIX_SLOTS + len(numbers.loads) * LOAD_SLOTS + 14 * len(numbers.outputs) + 20
    channel = tile * options.tiles + numbers.slices + 20
    octet = (numbers.groups * (8 * COPY_SLOTS / LANES + TURN_SLOTS / 4) + numbers.out_groups * STORE_SLOTS / 4
             + OCTET * (channel + numbers.filter_words * 14 / LANES))
    blocks = numbers.line.lines_of(shape) * -(-numbers.line.outputs_of(shape) // numbers.span)
    return shape.n * blocks * numbers.channel_groups * options.octets * octet


ALGORITHM = Algorithm(name="toeplitz_1d_nhwc", options=Toeplitz1dNhwcOptions, supports=supports, defaults=defaults,
                      plan=plan, summary="sequences in rows that overlap, on tensor cores; 16-bit depthwise, NHWC",
                      space=space, estimate=estimate, pace=0.68)
