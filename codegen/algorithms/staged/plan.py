"""``staged``: depthwise convolution of small NCHW planes, staged in shared memory a group of planes at a time.

Planes lie one after another in memory, so a group of them is one stretch that is copied in and out in wide accesses,
whatever the width of a row. A thread makes a strip of ``rows`` output rows of one plane, all columns of them. Height
and width are in the text: taps in the padding are not emitted, or meet the element that the border has there, and
every offset is a constant. Outputs take the place of the consumed inputs and leave as one stretch, too. The text's
numbers are made in codegen.algorithms.staged_numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import (
    BLOCK_THREADS, LANES, PORTABLE_BLOCKS, QUARTERS, REGISTER_FILE, REGISTER_UNIT, THREAD_REGISTERS)
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import demanding, layer_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import Parts, Stage, StagedNumbers, StagedOptions, StripCost, numbers_of, output_size, strip_cost
from .quarters import quarter_cost, quarter_numbers, quarters_refusal

LARGEST_PLANE = 1024          # elements; larger planes have rows wide enough for a warp
WEIGHTS_HELD = 49             # weights that a thread keeps in registers by default
MOST_REGISTERS = 168          # planned, of any plan
HELD_REGISTERS = 152          # planned, up to which no plan was seen to spill
COMFORTABLE_REGISTERS = 140   # up to which the default number of rows goes
MOST_SUMS = 32                # of a strip by default; with 64 the compiler, which loads rows ahead, spills
MOST_QUARTER = 49             # of a quarter by default
FEWEST_STRIPS = 4             # of a plane by default
MANY_WEIGHTS = 25             # from which on the work of computing shows
EASY_REGISTERS = 112          # more of them leave fewer warps to hide latencies
MOST_TEXT = 6000              # FMAs in the text; beyond it compiling takes long
COMFORTABLE_TEXT = 2500       # 40 kB of instructions, which an instruction cache holds
THREADS_WANTED = 128          # of a block, at most, by default
FEWEST_THREADS = 64           # below which planes that divide K are not worth it
GROUP_BYTES = 32 * 1024       # of a group's planes, at most, by default
IN_FLIGHT_WANTED = 96 * 1024  # bytes that a multiprocessor has under way where one buffer is enough
MOST_GROUPS = 2**20           # blocks of a grid; its step over groups then stays within an int
QUARTER_PLANES = 16           # of a block of quarters: two warps
PLANES = (64, 32, 16, 8)      # of a group


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW,), borders=BORDERS)
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels in a group (planes are staged for depthwise layers: C = groups)"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> StagedOptions:
    """Height and width of the shape; weights in registers while they are few. The rest follows when it is planned."""
    options = StagedOptions(
        weights=Weights.REGISTERS if spec.r * spec.s <= WEIGHTS_HELD else Weights.SHARED,
        stage=Stage.ASYNC if spec.arch.major >= 8 else Stage.REGISTERS)
    return options if shape is None else replace(options, height=shape.h, width=shape.w)


def _numbers(spec: KernelSpec, options: StagedOptions) -> StagedNumbers:
    return (quarter_numbers if options.parts is Parts.QUARTERS else numbers_of)(spec, options)


def _thread_cost(spec: KernelSpec, options: StagedOptions) -> StripCost:
    return (quarter_cost if options.parts is Parts.QUARTERS else strip_cost)(spec, options)


def _complete(spec: KernelSpec, options: StagedOptions) -> StagedOptions:
    """Fill in the values that follow from the others where they were left at DERIVED: the rows of a strip that take the
    fewest instructions, planes for about 128 threads, one buffer where little is computed and much under way."""
    if options.parts is Parts.DERIVED:
        options = replace(options, parts=_default_parts(spec, options))
    if options.parts is Parts.QUARTERS:
        return _as_quarters(spec, options)
    if options.rows == DERIVED:
        options = replace(options, rows=_default_rows(spec, options))
    if options.planes == DERIVED:
        options = replace(options, planes=_default_planes(spec, options))
    if options.buffers == DERIVED:
        options = replace(options, buffers=_default_buffers(spec, options))
    return options


def _as_quarters(spec: KernelSpec, options: StagedOptions) -> StagedOptions:
    p, _ = output_size(spec, options)
    return replace(options, parts=Parts.QUARTERS, rows=options.rows or p // 2,
                   planes=options.planes or QUARTER_PLANES, buffers=options.buffers or 2)


def _default_parts(spec: KernelSpec, options: StagedOptions) -> Parts:
    """Quarters for filters large enough that strips, of which the first and last do less, wait for one another. H200,
    November 2026, 128 x 384 x 14 x 14, us, quarters and strips, float32: 7x7 25.4, 25.4, 5x5 23.2,
    23.8, 3x3 22.4, 22.5; float16: 22.5, 24.1, 15.2, 16.6, 12.7, 12.6. A copy takes 21.3 and 12.1.
    Not with "circular", for which a quarter reads whole rows (32 x 256 x 14 x 14, 5x5: float32 6.06, 6.12, float16
    5.36, 5.12; 7x7 spills)."""
    quarters = _as_quarters(spec, options)
    whole = quarters.rows * (output_size(spec, options)[1] // 2) <= MOST_QUARTER
    worth = spec.r * spec.s >= MANY_WEIGHTS and spec.padding_mode is not Border.CIRCULAR
    fits = whole and worth and _refusal(spec, quarters) is None
    return Parts.QUARTERS if fits else Parts.STRIPS


def _default_rows(spec: KernelSpec, options: StagedOptions) -> int:
    """Output rows of a strip: the fewest instructions, weighed with the registers they take; rows that divide P, where
    there are some, so that all strips are whole. At least four strips: longer ones leave too few threads (H200,
    November 2026, 64 x 768 x 7 x 7, 7x7 float32: 8.4 us with 2 rows, 9.0 with 4, 9.7 with 7)."""
    p, q = output_size(spec, options)
    best, best_score = 1, float("inf")
    dividing = [rows for rows in range(1, p + 1) if p % rows == 0]
    for rows in dividing if len(dividing) > 2 else range(1, p + 1):
        cost = strip_cost(spec, replace(options, rows=rows))
        comfortable = cost.registers <= COMFORTABLE_REGISTERS and cost.text <= COMFORTABLE_TEXT
        if rows > 1 and (rows * q > MOST_SUMS or -(-p // rows) < FEWEST_STRIPS or not comfortable):
            continue
        score = cost.instructions * -(-p // rows) * max(1.0, cost.registers / EASY_REGISTERS)
        if score < best_score:
            best, best_score = rows, score
    return best


def _default_planes(spec: KernelSpec, options: StagedOptions) -> int:
    """The most planes that keep a block small; those that divide K first, for then no group is cut or mixed."""
    p, q = output_size(spec, options)
    strips = -(-p // options.rows)
    plane = max(options.height * options.width, p * q) * spec.dtype.itemsize
    offered = [n for n in PLANES if n % spec.filters == 0] or [spec.filters * max(1, 32 // spec.filters)]
    fitting = [n for n in offered if n * strips <= THREADS_WANTED and n * plane <= GROUP_BYTES] or [offered[-1]]
    dividing = [n for n in fitting if spec.k % n == 0 and n * strips >= FEWEST_THREADS]
    return (dividing or fitting)[0]


def _default_buffers(spec: KernelSpec, options: StagedOptions) -> int:
    """H200, November 2026, us, two buffers and one: 128 x 192 x 28 x 28 float32 3x3 44.1, 42.2, 7x7 56.7, 72.6; 64 x
    768 x 7 x 7 float32 3x3 7.6, 7.5, 7x7 8.4, 9.9; 128 x 384 x 14 x 14 float16 3x3 12.9, 14.4."""
    if options.stage is Stage.REGISTERS or spec.k % options.planes or _refusal(spec, replace(options, buffers=2)):
        return 1
    single = _numbers(spec, replace(options, buffers=1))
    held = _resident(spec, options, single, _thread_cost(spec, options))
    return 1 if spec.r * spec.s < MANY_WEIGHTS and held * single.buffer_bytes >= IN_FLIGHT_WANTED else 2


def plan(spec: KernelSpec, options: StagedOptions) -> KernelPlan:
    refusal = supports(spec) or _size_refusal(spec, options)
    if refusal is None:
        options = _complete(spec, options)
        refusal = _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers, strip = _numbers(spec, options), _thread_cost(spec, options)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=_resident(spec, options, numbers, strip))
    refusal = blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options, numbers)
    launch = Launch(entry=spec.name, grid=(_blocks(spec, options, numbers), Blocks(), Blocks()),
                    block=(numbers.threads, 1, 1), arguments=tuple(a.name for a in arguments),
                    shared_bytes=numbers.shared_bytes)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("staged/kernel.cu.jinja",),
                      cost=_cost(spec, options), program=Program(arguments=arguments, steps=(launch,)),
                      phrase=_phrase(options, numbers), notes=_notes(spec, options, numbers, strip))


def _size_refusal(spec: KernelSpec, options: StagedOptions) -> str | None:
    """Why planes of this height and width cannot be served, or None."""
    if DERIVED in (options.height, options.width):
        return "height and width stand in its text: plan it for a shape, or set height and width"
    if options.height * options.width > LARGEST_PLANE:
        return (f"a plane of {options.height} x {options.width} elements (at most {LARGEST_PLANE}: larger ones have "
                f"wide rows)")
    p, q = output_size(spec, options)
    if min(p, q) < 1:
        return f"no output: the filter is larger than the padded plane of {options.height} x {options.width}"
    if p * q > 2 * LARGEST_PLANE:
        return f"an output plane of {p} x {q} elements (at most {2 * LARGEST_PLANE})"
    return None


def _refusal(spec: KernelSpec, options: StagedOptions) -> str | None:
    """Why these plan values cannot be had, or None."""
    p, _ = output_size(spec, options)
    if options.rows > p:
        return f"rows = {options.rows} of {p} output rows"
    if options.planes % spec.filters:
        return f"planes = {options.planes} is no multiple of K/groups = {spec.filters}"
    if options.parts is Parts.QUARTERS:
        refusal = quarters_refusal(spec, options)
        if refusal is None and options.buffers != 2:
            refusal = f"parts = quarters has two buffers, not {options.buffers}"
        if refusal is not None:
            return refusal
    threads = _numbers(spec, options).threads
    if threads > BLOCK_THREADS:
        return f"a block of {threads} threads (at most {BLOCK_THREADS}): fewer planes, or more rows a strip"
    if options.buffers > 2:
        return f"buffers = {options.buffers} (1 or 2)"
    if options.stage is Stage.ASYNC and spec.arch.major < 8:
        return f"{spec.arch} has no asynchronous copies: stage=registers"
    if options.buffers == 2 and options.stage is Stage.REGISTERS:
        return "two buffers are filled by asynchronous copies: stage=async, or buffers=1"
    if options.buffers == 2 and spec.k % options.planes:
        return (f"buffers = 2 needs planes that divide K = {spec.k}, so that a block keeps its filters; planes = "
                f"{options.planes}")
    if options.vector not in (1, 2, 4, 8):
        return f"vector = {options.vector} elements a copy (1, 2, 4 or 8)"
    return _resource_refusal(spec, options)


def _resource_refusal(spec: KernelSpec, options: StagedOptions) -> str | None:
    strip, numbers = _thread_cost(spec, options), _numbers(spec, options)
    if options.stage is Stage.ASYNC and min(numbers.copy_in.bytes, 16) < 4:
        return (f"asynchronous copies of {numbers.copy_in.bytes} bytes (at least 4): more planes, a larger vector, or "
                f"stage=registers")
    if strip.registers > MOST_REGISTERS:
        return (f"{strip.registers} registers for {options.rows} rows of outputs (at most {MOST_REGISTERS}): fewer "
                f"rows, or weights=shared")
    if strip.text > MOST_TEXT:
        return f"{strip.text} FMAs in the text (at most {MOST_TEXT})"
    if numbers.shared_bytes > spec.hardware.shared_block:
        return (f"{numbers.shared_bytes} bytes of shared memory for a block ({spec.arch} has "
                f"{spec.hardware.shared_block})")
    return None


def _resident(spec: KernelSpec, options: StagedOptions, numbers: StagedNumbers, strip: StripCost) -> int:
    """Blocks that a multiprocessor holds: by registers, and by shared memory. A long row of 16 bits whose ends have
    their pixels from elsewhere in it is kept whole by the compiler, beside its sums: without registers for its words
    ptxas spills up to 500 bytes of a thread (3x3 on 1 x 112, sm_86 and sm_120)."""
    warps, row = -(-numbers.threads // LANES), options.rows * numbers.q
    long = row > MOST_SUMS and not numbers.quarters
    kept = row // 2 if long and spec.dtype.is_half and spec.padding_mode.reads_image else 0
    each = LANES * -(-min(THREAD_REGISTERS, strip.registers + kept) // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = QUARTERS * (REGISTER_FILE // QUARTERS // each)
    by_threads = spec.hardware.resident_warps
    return max(1, min(PORTABLE_BLOCKS, min(by_registers, by_threads) // warps,
                      spec.hardware.shared_block // (numbers.shared_bytes + spec.hardware.shared_reserved)))


def _arguments(spec: KernelSpec, options: StagedOptions, numbers: StagedNumbers) -> tuple[Argument, ...]:
    p, q = output_size(spec, options)
    sizes = {"H": options.height, "W": options.width, "P": p, "Q": q}
    aligned = {"x": numbers.copy_in.bytes, "y": numbers.copy_out.bytes}
    return tuple(replace(a, exactly=sizes.get(a.name)) if a.role is Role.SIZE else a
                 for a in demanding(layer_arguments(spec), aligned))


def _blocks(spec: KernelSpec, options: StagedOptions, numbers: StagedNumbers) -> Blocks:
    """At least a block per group (too many return at once); with two buffers as many as are resident, and a multiple of
    the groups of an image, so that a block meets the same filters again."""
    if spec.k % options.planes:
        images = max(1, options.planes // spec.k)
        return Blocks(of=Dimension.N, add=images - 1, per=images, times=-(-spec.k // options.planes), limit=MOST_GROUPS)
    groups = spec.k // options.planes
    limit = MOST_GROUPS
    if options.buffers == 2:
        limit = groups * max(1, spec.hardware.multiprocessors * options.min_blocks // groups)
    return Blocks(of=Dimension.N, times=groups, limit=limit)


def _cost(spec: KernelSpec, options: StagedOptions) -> Cost:
    numbers, strip = _numbers(spec, options), _thread_cost(spec, options)
    outputs = numbers.p * numbers.q * options.planes
    return Cost(unit=f"group of {options.planes} planes", shuffles=0,
                warp_loads=_requests(numbers.copy_in.count, numbers.copying) * numbers.threads // numbers.copying,
                fma=strip.text, registers=strip.registers, direct_loads=-(-outputs * spec.r * spec.s // 32),
                no_spills=strip.registers <= HELD_REGISTERS)


def _requests(accesses: int, threads: int) -> int:
    """Warp instructions that make so many accesses, thread by thread in turn."""
    rounds, rest = divmod(accesses, threads)
    return rounds * -(-threads // 32) + -(-rest // 32)


def _phrase(options: StagedOptions, numbers: StagedNumbers) -> str:
    buffers = "two buffers in turn" if options.buffers == 2 else "one buffer"
    if numbers.quarters:
        return (f"planes of {options.height} x {options.width} in shared memory ({buffers}), eight to a warp, a lane "
                f"makes a quarter of one plane, {numbers.threads} threads a block")
    return (f"groups of {options.planes} planes of {options.height} x {options.width} in shared memory ({buffers}), a "
            f"thread makes {options.rows} output rows of one plane, {numbers.threads} threads a block")


def _notes(spec: KernelSpec, options: StagedOptions, numbers: StagedNumbers, strip: StripCost) -> tuple[str, ...]:
    instructions = warp_instructions(spec, options) * 32 / (numbers.p * numbers.q * options.planes)
    moved = (numbers.copy_in.group + numbers.copy_out.group) * spec.dtype.itemsize
    notes = [f"a group moves {moved} bytes; about {instructions:.1f} instructions an output",
             f"{numbers.shared_bytes} bytes of shared memory a block, {_resident(spec, options, numbers, strip)} "
             f"blocks a multiprocessor"]
    if numbers.cut:
        notes.append(f"{options.planes} planes do not divide K = {spec.k}: the last group may be cut")
    return tuple(notes)


def space(spec: KernelSpec) -> Iterable[StagedOptions]:
    """Plan values around the defaults; height and width are those of the shape, added by whoever tunes."""
    stages = (Stage.ASYNC, Stage.REGISTERS) if spec.arch.major >= 8 else (Stage.REGISTERS,)
    quarters = [StagedOptions(parts=Parts.QUARTERS, planes=planes, min_blocks=blocks)
                for planes, blocks in ((16, 6), (32, 4), (32, 3), (64, 2), (8, DERIVED), (16, DERIVED))]
    return quarters * (spec.arch.major >= 8) + [
            StagedOptions(parts=Parts.STRIPS, rows=rows, planes=planes, buffers=buffers, stage=stage, weights=weights)
            for rows in (1, 2, 3, 4, 5, 7, 14) for planes in PLANES for buffers in (1, 2) for stage in stages
            for weights in Weights if planes % spec.filters == 0 and not (buffers == 2 and stage is Stage.REGISTERS)]


def warp_instructions(spec: KernelSpec, options: StagedOptions) -> float:
    """Modelled warp instructions of one group: the strips, and both copies."""
    numbers, strip = _numbers(spec, options), _thread_cost(spec, options)
    warps = -(-numbers.threads // 32)
    return (strip.typical * numbers.threads / 32 + 5 * (numbers.copy_in.count + numbers.copy_out.count) / 32
            + (0 if options.buffers == 2 else 4 * options.planes * spec.r * spec.s / 32) + 20 * warps)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of all groups; a cut group counts whole. A plane that comes alone is one block's work, which
    leaves the other multiprocessors idle."""
    options: StagedOptions = plan.options
    groups = -(-shape.n * shape.k // options.planes)
    idle = plan.spec.hardware.multiprocessors if shape.c == shape.k == 1 else 1
    return groups * idle * warp_instructions(plan.spec, options)


ALGORITHM = Algorithm(name="staged", options=StagedOptions, supports=supports, defaults=defaults, plan=plan,
                      space=space, estimate=estimate,
                      summary="groups of small planes staged in shared memory, a thread per strip of rows; depthwise")
