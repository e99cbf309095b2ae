"""``sequence_gradient``: the gradient of long depthwise filters of one row by float32 units; NCHW and NHWC.

A thread sums neighbouring taps, and what they meet is a ring of registers, as the window of ``sequence`` is: an element
comes out of shared memory once for all of them. docs/one-dimension.md tells what it is measured beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, PORTABLE_SHARED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import gradient_arguments
from warpconv.codegen.parts.folded import line_of, one_pixel_wide
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.rings import LAYOUTS, QUAD, ring_refusal, value_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .numbers import PixelNumbers, RowNumbers, SequenceGradientOptions, make_numbers

ROW_TAPS = (8, 12, 16, 20, 24)        # of a thread, in NCHW
PIXEL_TAPS = (8, 16, 32)              # and in NHWC
CHANNELS = (8, 16, 32)                # of a block in NHWC
MOST_GROUPS = 16                      # of a block
RUNS = (32, 64, 128)                  # of an item in NCHW
THREADS = 128                         # of a block by default, about
RUN_QUADS = tuple(range(3, 18, 2))    # of a run in NCHW: an odd number, so that eight lanes meet all banks
SHORT = 32                            # taps up to which a block of pixels has 32 channels
TURNS = (5, 3, 2, 1)                  # of the ring for a run in NHWC
START = 6                             # outputs whose products take as long as a run takes to begin
FEW_TAPS = 5                          # in NCHW, below which filter_gradient is about as quick, of small layers quicker
LEAST_ITEMS = 2                       # of a share
WARPS_WANTED = 24                     # of a multiprocessor; each share more costs sums that are added up


def supports(spec: KernelSpec) -> str | None:
    borders = tuple(border for border in BORDERS if border is not Border.CONSTANT)
    refusal = common_refusal(spec, layouts=LAYOUTS, borders=borders, operation=Operation.FILTER_GRADIENT)
    if refusal is None and spec.epilogue:
        refusal = "the filter's gradient takes no epilogue"
    return refusal or ring_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> SequenceGradientOptions:
    options = _of_rows(spec, shape) if spec.layout is Layout.NCHW else _of_pixels(spec, shape)
    if shape is None:
        return options
    made = make_numbers(spec, options)
    line = made.line
    items = assumed_batch(shape) * line.lines_of(shape) * -(-line.outputs_of(shape) // made.span)
    warps = _beside(spec, made) * made.tap_tiles * made.threads // LANES
    fitting = spec.hardware.warps_of(WARPS_WANTED) // max(1, warps)
    return replace(options, chunks=max(1, min(fitting, items // LEAST_ITEMS, partial_sums.MOST_CHUNKS)))


def _of_rows(spec: KernelSpec, shape: ConvShape | None) -> SequenceGradientOptions:
    """Taps of a thread of which few are beyond the filter; runs that leave little of the last item empty."""
    line = line_of(spec)
    all_taps = line.taps + -line.before % QUAD
    taps = min(reversed(ROW_TAPS), key=lambda n: -(-all_taps // n) * (n + 3))
    groups = _groups(all_taps, taps)
    most = next(n for n in RUNS if n == RUNS[-1] or n * groups >= THREADS)
    options = SequenceGradientOptions(taps=taps, groups=groups, runs=most)
    if shape is None:
        return replace(options, vector=1)
    found = [(runs, QUAD * quads) for runs in RUNS if runs <= most for quads in RUN_QUADS]
    runs, run = min(found, key=lambda o: (-(-shape.q // (o[0] * o[1])) * o[0] * (o[1] * taps + START * taps), -o[0]))
    return replace(options, runs=runs, run=run, vector=math.gcd(math.gcd(shape.w, shape.q), QUAD))


def _groups(all_taps: int, taps: int) -> int:
    """Threads for all taps of a filter, or for equal shares of them where these are more than MOST_GROUPS."""
    needed = -(-all_taps // taps)
    return -(-needed // -(-needed // MOST_GROUPS))


def _of_pixels(spec: KernelSpec, shape: ConvShape | None) -> SequenceGradientOptions:
    """Few taps a thread and 128 bytes of a pixel where filters are short, else many and 64; runs as long as there is
    shared memory for them."""
    line = line_of(spec)
    short = line.taps <= SHORT
    taps = 32 if not short else 16 if line.taps > 8 else 8
    channels = next(n for n in CHANNELS if n == (32 if short else 16) or n >= spec.c)
    groups = _groups(line.taps, taps)
    options = SequenceGradientOptions(taps=taps, groups=groups, runs=max(1, THREADS // (channels * groups)),
                                      channels=channels, vector=4 if spec.c % 4 == 0 else 1)
    outputs = None if shape is None else line.outputs_of(shape)
    while outputs is not None and options.runs > 1 and taps * options.runs // 2 >= outputs:
        options = replace(options, runs=options.runs // 2)
    for times in TURNS:
        options = replace(options, run=times * taps)
        needless = outputs is not None and (times - 1) * taps * options.runs >= outputs
        if not needless and make_numbers(spec, options).shared_bytes <= PORTABLE_SHARED:
            break
    return options


def _beside(spec: KernelSpec, made: RowNumbers | PixelNumbers) -> int:
    """Blocks of a share, for each block of taps."""
    return spec.k if isinstance(made, RowNumbers) else made.channel_groups


def plan(spec: KernelSpec, options: SequenceGradientOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = make_numbers(spec, options)
    grid = (Blocks(times=options.chunks * _beside(spec, made), limit=GRID_LIMIT[0]),
            Blocks(times=made.tap_tiles, limit=GRID_LIMIT[1]), Blocks())
    launch = Launch(entry=spec.name, grid=grid, block=(made.threads, 1, 1), shared_bytes=made.shared_bytes,
                    arguments=("x", "dy", "dw" if options.chunks == 1 else partial_sums.PARTS, "N", "H", "W", "P", "Q"))
    program = partial_sums.program(_arguments(spec, options), launch, "dw", spec.k * spec.r * spec.s, options.chunks)
    return KernelPlan(
        spec=spec, options=options, numbers=made, program=program,
        templates=(f"sequence_gradient/{spec.layout.value.lower()}.cu.jinja",),
        cost=Cost(unit=f"{options.taps} taps of 32 x {options.run} outputs", warp_loads=-(-made.copies // made.threads),
                  shuffles=0, fma=options.run * options.taps,
                  registers=made.registers, direct_loads=2 * options.run * options.taps,
                  no_spills=made.registers <= 255),
        phrase=(f"{options.taps} taps a thread, {made.block_taps} a block, over {options.run} outputs, {made.span} of "
                "a sequence at a time"
                + (f", in {options.chunks} chunks; then the chunks' sums are added" if options.chunks > 1 else "")),
        notes=("a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel",
               f"{made.shared_bytes} bytes of shared memory a block"))


def _arguments(spec: KernelSpec, options: SequenceGradientOptions) -> tuple[Argument, ...]:
    """The arguments, with what copies of several elements ask of them."""
    sizes = ({name: {"multiple_of": options.vector} for name in "WQ"} if spec.layout is Layout.NCHW
             else one_pixel_wide(spec))
    demands = {**{name: {"multiple_of": 4 * options.vector} for name in ("x", "dy")}, **sizes}
    return tuple(replace(a, **demands.get(a.name, {})) for a in gradient_arguments(spec))


def _refusal(spec: KernelSpec, options: SequenceGradientOptions) -> str | None:
    """Why these plan values cannot be had, or None."""
    rows = spec.layout is Layout.NCHW
    refusal = value_refusal(spec.layout, taps=(options.taps, ROW_TAPS if rows else PIXEL_TAPS),
                            vector=(options.vector, (1, 2, 4) if rows else (1, 4)),
                            channels=(options.channels, (1,) if rows else CHANNELS))
    if refusal is not None:
        return refusal
    unit = QUAD if rows else options.taps
    if options.run % unit or options.run < unit:
        return f"run = {options.run} outputs (a multiple of {unit})"
    if rows and options.runs % LANES:
        return f"runs = {options.runs} (whole warps)"
    if spec.c % options.vector and not rows:
        return f"vector = {options.vector}: C = {spec.c} is no multiple of it"
    if options.chunks > partial_sums.MOST_CHUNKS:
        return f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    made = make_numbers(spec, options)
    if made.threads > BLOCK_THREADS:
        return f"{made.threads} threads for a block (at most {BLOCK_THREADS})"
    if made.tap_tiles > GRID_LIMIT[1]:
        return f"{made.tap_tiles} blocks for a filter's taps (at most {GRID_LIMIT[1]})"
    if made.shared_bytes > PORTABLE_SHARED:
        return f"{made.shared_bytes} bytes of shared memory for a block (at most {PORTABLE_SHARED})"
    return None


def space(spec: KernelSpec) -> Iterable[SequenceGradientOptions]:
    own = defaults(spec)
    rows = spec.layout is Layout.NCHW
    chunks = partial_sums.chunks_beside(own.chunks, 4)
    found = [own]
    for taps in ROW_TAPS if rows else PIXEL_TAPS:
        groups = -(-(line_of(spec).taps + QUAD - 1) // taps)
        for runs in (RUNS if rows else (1, 2, 4)):
            for run in ((20, 44, 60) if rows else (taps, 3 * taps, 5 * taps)):
                found += [replace(own, chunks=n, taps=taps, groups=min(groups, MOST_GROUPS), runs=runs, run=run,
                                  channels=channels) for n in chunks for channels in ((1,) if rows else CHANNELS)]
    return [o for o in found if _refusal(spec, o) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions: products, reads, copies and what begins an item."""
    options: SequenceGradientOptions = plan.options
    made: RowNumbers | PixelNumbers = plan.numbers
    reads = options.run / 2 if isinstance(made, RowNumbers) else 2 * options.run
    thread = (options.run + START) * options.taps + reads
    elements = (2 * made.span + made.block_taps) * (1 if isinstance(made, RowNumbers) else options.channels)
    item = made.threads / LANES * thread + 10 * elements / (LANES * options.vector)
    items = shape.n * made.line.lines_of(shape) * -(-made.line.outputs_of(shape) // made.span)
    few = isinstance(made, RowNumbers) and made.line.taps < FEW_TAPS
    return items * _beside(plan.spec, made) * made.tap_tiles * item * (1.5 if few else 1.0)


ALGORITHM = Algorithm(name="sequence_gradient", options=SequenceGradientOptions, supports=supports, defaults=defaults,
                      plan=plan, summary="the gradient of long filters of one row by float32 units; depthwise",
                      space=space, estimate=estimate, pace=0.6, operation=Operation.FILTER_GRADIENT)
