"""``hankel_1d``: the gradient of depthwise filters of one row of 16-bit elements, on tensor cores; NCHW.

A sequence of gradients and one of the input are matrices as they lie in shared memory, whose rows begin 16 elements
apart; their product has the sums of all taps in its diagonals: docs/one-dimension.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, SHARED_STATIC
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import demanding, gradient_arguments
from warpconv.codegen.parts.folded import BLOCK, STEP, block_taps, line_of, line_refusal
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .numbers import Hankel1dNumbers, Hankel1dOptions, make_numbers

MOST_TAPS = 256         # of a block: their sums are 4 registers for eight of them
MOST_WARPS = 4          # of a block by default
MOST_STEPS = 16         # of an item by default
MOST_SHARED = 36 * 1024     # bytes of a block that has three buffers by default, else two
LEAST_ITEMS = 4         # of a share
WARPS_WANTED = 16       # of a multiprocessor; each share more costs sums that are added up
MATRIX_SLOTS = 8        # issue slots that a matrix instruction stands for in the estimate,
LOAD_SLOTS = 16         # a read of four matrices, which takes four turns of shared memory,
COPY_SLOTS = 10         # and 32 copies with their places


def supports(spec: KernelSpec) -> str | None:
    borders = tuple(border for border in BORDERS if border is not Border.CONSTANT)
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), borders=borders,
                             operation=Operation.FILTER_GRADIENT)
    if refusal is None and spec.epilogue:
        refusal = "the filter's gradient takes no epilogue"
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels in a group (a product is of one: planes, or C = groups)"
    return refusal or line_refusal(spec, columns=False)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Hankel1dOptions:
    """All taps in a block where their sums stay in registers; whole sequences an item, or equal parts of them."""
    line = line_of(spec)
    taps = block_taps(line.taps, MOST_TAPS)
    if shape is None:
        return Hankel1dOptions(taps=taps, vector=1)
    needed = -(-shape.q // STEP)
    steps = -(-needed // -(-needed // MOST_STEPS))
    options = Hankel1dOptions(taps=taps, warps=min(MOST_WARPS, steps), steps=steps,
                              vector=math.gcd(math.gcd(shape.w, shape.q), BLOCK), buffers=3)
    if make_numbers(spec, options).shared_bytes > MOST_SHARED:
        options = replace(options, buffers=2)
    made = make_numbers(spec, options)
    items = assumed_batch(shape) * shape.p * -(-shape.q // made.span)
    fitting = spec.hardware.warps_of(WARPS_WANTED) // (options.warps * spec.k * made.tap_tiles)
    return replace(options, chunks=max(1, min(fitting, items // LEAST_ITEMS, partial_sums.MOST_CHUNKS)))


def plan(spec: KernelSpec, options: Hankel1dOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = make_numbers(spec, options)
    grid = (Blocks(times=options.chunks * spec.k, limit=GRID_LIMIT[0]),
            Blocks(times=made.tap_tiles, limit=GRID_LIMIT[1]), Blocks())
    launch = Launch(entry=spec.name, grid=grid, block=(made.threads, 1, 1),
                    arguments=("x", "dy", "dw" if options.chunks == 1 else partial_sums.PARTS, "N", "H", "W", "P", "Q"))
    program = partial_sums.program(_arguments(spec, options), launch, "dw", spec.k * spec.r * spec.s, options.chunks)
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("hankel_1d/kernel.cu.jinja",), program=program,
        cost=Cost(unit=f"{STEP} outputs, {len(made.blocks)} matrix instructions",
                  warp_loads=-(-(made.copies + made.gradient_copies) // (LANES * options.steps)), shuffles=0, fma=0,
                  registers=made.registers, direct_loads=STEP * (1 + options.taps) // LANES,
                  no_spills=made.registers <= 255),
        phrase=(f"{options.taps} taps in a block; {options.warps} warps, {made.span} outputs of a sequence at a time, "
                f"{options.buffers} buffers"
                + (f", in {options.chunks} chunks; then the chunks' sums are added" if options.chunks > 1 else "")),
        notes=("a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel",
               f"{made.shared_bytes} bytes of shared memory a block"))


def _arguments(spec: KernelSpec, options: Hankel1dOptions) -> tuple[Argument, ...]:
    """The arguments, with what copies of several elements ask of them."""
    demands = {"x": 2 * options.vector, "dy": 2 * options.vector, "W": options.vector, "Q": options.vector}
    return demanding(gradient_arguments(spec), demands)


def _refusal(spec: KernelSpec, options: Hankel1dOptions) -> str | None:
    """Why these plan values cannot be had, or None."""
    if options.vector not in (1, 2, 4, 8):
        return f"vector = {options.vector}: copies are of 1, 2, 4 or 8 elements"
    all_taps = line_of(spec).taps
    if options.taps > min(all_taps + BLOCK, MOST_TAPS) or (options.taps < all_taps and options.taps % BLOCK):
        return f"taps = {options.taps}: all {all_taps}, or a multiple of {BLOCK}, at most {MOST_TAPS}"
    if not 2 <= options.buffers <= 8:
        return f"buffers = {options.buffers} (2 to 8)"
    if options.chunks > partial_sums.MOST_CHUNKS:
        return f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    made = make_numbers(spec, options)
    if made.threads > BLOCK_THREADS:
        return f"{options.warps} warps are more than a block's {BLOCK_THREADS} threads"
    if made.shared_bytes > SHARED_STATIC:
        return f"{made.shared_bytes} bytes of shared memory for a block (at most {SHARED_STATIC})"
    return None


def space(spec: KernelSpec) -> Iterable[Hankel1dOptions]:
    own = defaults(spec)
    chunks = partial_sums.chunks_beside(own.chunks)
    found = [own, *(replace(own, chunks=n, warps=warps, steps=steps, buffers=buffers)
                    for n in chunks for warps in (1, 2, 4, 8) for steps in (1, 2, 4, 8, 16) for buffers in (2, 3, 4)
                    if warps <= steps)]
    return [o for o in found if _refusal(spec, o) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots: copies, reads of matrices and matrix instructions."""
    options: Hankel1dOptions = plan.options
    made: Hankel1dNumbers = plan.numbers
    step = LOAD_SLOTS * (1 + len(made.loads)) + MATRIX_SLOTS * len(made.blocks) + 10
    copies = COPY_SLOTS * -(-(made.copies + made.gradient_copies) // LANES)
    items = -(-shape.q // made.span)
    sequence = -(-shape.q // STEP) * step + items * (copies + 20 * options.warps)
    return shape.n * shape.p * plan.spec.k * made.tap_tiles * sequence


ALGORITHM = Algorithm(name="hankel_1d", options=Hankel1dOptions, supports=supports, defaults=defaults, plan=plan,
                      summary="the filter's gradient on tensor cores; 16-bit depthwise filters of one row, NCHW",
                      space=space, estimate=estimate, operation=Operation.FILTER_GRADIENT)
