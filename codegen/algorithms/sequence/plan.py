"""``sequence``: long depthwise filters of one row by float32 units; NCHW and NHWC.

A thread makes neighbouring outputs of a sequence, and its window is a ring of registers: an element comes out of shared
memory once for all of them, so that nearly every instruction is a product. docs/one-dimension.md tells what it is
measured beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, PORTABLE_SHARED
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.folded import line_of, one_pixel_wide
from warpconv.codegen.parts.occupancy import blocks_refusal, resident_blocks, step_registers
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.rings import LAYOUTS, QUAD, ring_refusal, value_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import PixelNumbers, RowNumbers, SequenceOptions, make_numbers

MOST_TAPS = {Layout.NCHW: 8192, Layout.NHWC: 1024}         # whose elements a block's shared memory has room for
OUTPUTS = (8, 16, 32)         # of a thread
TEAMS = (2, 4, 8, 16, 32, 64, 128, 256)
CHANNELS = (8, 16, 32)        # of a block in NHWC
ROW_THREADS = 64              # of a block by default, in NCHW
PIXEL_THREADS = 128           # and in NHWC
REGISTER_MARGIN = 34          # addresses, the loop, and what the compiler has in flight
MANY_TAPS = 96                # from which on few channels have many threads each: fewer pixels beside the outputs' own
MOST_SHARED = 32 * 1024       # bytes of several short sequences
OUTPUT_SLOTS = {Layout.NCHW: 7.0, Layout.NHWC: 1.0}       # of an output besides its products, in the estimate
BLOCKS_WANTED = 4             # of each multiprocessor


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, layouts=LAYOUTS, borders=BORDERS, residual=True) or ring_refusal(spec)
    if refusal is None and line_of(spec).taps > MOST_TAPS[spec.layout]:
        refusal = f"{line_of(spec).taps} taps (in {spec.layout.value} at most {MOST_TAPS[spec.layout]})"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> SequenceOptions:
    return _of_rows(spec, shape) if spec.layout is Layout.NCHW else _of_pixels(spec, shape)


def _of_rows(spec: KernelSpec, shape: ConvShape | None) -> SequenceOptions:
    """Short sequences several in a block; of one a part, so that there are blocks for all multiprocessors."""
    if shape is None:
        return SequenceOptions(vector=1, store_vector=1)
    rows = assumed_batch(shape) * spec.k * shape.p
    wanted = BLOCKS_WANTED * spec.hardware.multiprocessors
    outputs = 16 if rows * shape.q >= wanted * ROW_THREADS * 16 else 8
    team = next(n for n in TEAMS if n == ROW_THREADS or n * outputs >= shape.q)
    options = SequenceOptions(outputs=outputs, team=team, sequences=min(ROW_THREADS // team, rows),
                              vector=math.gcd(shape.w, QUAD), store_vector=4 if shape.q % 4 == 0 else 1)
    while options.sequences > 1 and make_numbers(spec, options).shared_bytes > MOST_SHARED:
        options = replace(options, sequences=options.sequences // 2)
    return options


def _of_pixels(spec: KernelSpec, shape: ConvShape | None) -> SequenceOptions:
    """32 bytes of a pixel where filters are long, else 128, as far as the channels have them."""
    line = line_of(spec)
    channels = 8 if line.taps >= MANY_TAPS else 32
    while channels > min(CHANNELS) and channels // 2 >= spec.c:
        channels //= 2
    options = SequenceOptions(outputs=32, team=PIXEL_THREADS // channels, sequences=channels,
                              vector=4 if spec.c % 4 == 0 else 1, store_vector=1)
    if shape is not None:
        while options.team > min(TEAMS) and options.outputs * options.team // 2 >= line.outputs_of(shape):
            options = replace(options, team=options.team // 2)
    return options


def plan(spec: KernelSpec, options: SequenceOptions) -> KernelPlan:
    refusal = supports(spec) or _value_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = make_numbers(spec, options)
    registers = _registers(spec, options)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=resident_blocks(spec.hardware, registers, numbers.threads))
    refusal = _refusal(spec, options, numbers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    shared_bytes=numbers.shared_bytes, arguments=tuple(a.name for a in arguments))
    return KernelPlan(spec=spec, options=options, numbers=numbers,
                      templates=(f"sequence/{spec.layout.value.lower()}.cu.jinja",),
                      cost=_cost(spec, options, numbers, registers),
                      program=Program(arguments=arguments, steps=(launch,)), phrase=_phrase(spec, options),
                      notes=(f"{numbers.shared_bytes} bytes of shared memory a block",))


def _grid(spec: KernelSpec, options: SequenceOptions,
          numbers: RowNumbers | PixelNumbers) -> tuple[Blocks, Blocks, Blocks]:
    line = numbers.line
    spans = Blocks(of=line.outputs, add=numbers.span - 1, per=numbers.span, limit=GRID_LIMIT[0])
    if isinstance(numbers, RowNumbers):
        return (spans, Blocks(of=Dimension.N, by=(Dimension.P,), each=spec.k, add=options.sequences - 1,
                              per=options.sequences, limit=GRID_LIMIT[1]), Blocks())
    return (spans, Blocks(times=numbers.channel_groups, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, by=line.others, limit=GRID_LIMIT[2]))


def _value_refusal(spec: KernelSpec, options: SequenceOptions) -> str | None:
    """Plan values that no numbers can be made of."""
    rows = spec.layout is Layout.NCHW
    refusal = value_refusal(spec.layout, outputs=(options.outputs, OUTPUTS[:2] if rows else OUTPUTS),
                            team=(options.team, TEAMS), vector=(options.vector, (1, 2, 4) if rows else (1, 4)),
                            store_vector=(options.store_vector, (1, 4) if rows else (1,)))
    if refusal is None and not rows and options.sequences not in CHANNELS:
        refusal = f"sequences = {options.sequences} channels of a block ({', '.join(map(str, CHANNELS))})"
    if refusal is None and not rows and spec.c % options.vector:
        refusal = f"vector = {options.vector}: C = {spec.c} is no multiple of it"
    return refusal


def _refusal(spec: KernelSpec, options: SequenceOptions, numbers: RowNumbers | PixelNumbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    if numbers.threads > BLOCK_THREADS:
        return f"{numbers.threads} threads for a block (at most {BLOCK_THREADS})"
    if isinstance(numbers, PixelNumbers) and numbers.channel_groups > GRID_LIMIT[1]:
        return f"{numbers.channel_groups} blocks for the channels (at most {GRID_LIMIT[1]})"
    if numbers.shared_bytes > PORTABLE_SHARED:
        return f"{numbers.shared_bytes} bytes of shared memory for a block (at most {PORTABLE_SHARED})"
    return blocks_refusal(spec, numbers.threads, options.min_blocks)


def _arguments(spec: KernelSpec, options: SequenceOptions) -> tuple[Argument, ...]:
    """The layer's arguments, with what copies and stores ask of them."""
    row = spec.layout is Layout.NCHW
    demands: dict[str, dict[str, Any]] = {
        "x": {"multiple_of": 4 * options.vector}, "y": {"multiple_of": 4 * options.store_vector},
        "residual": {"multiple_of": 4 * options.store_vector},
        **({"W": {"multiple_of": options.vector}, "Q": {"multiple_of": options.store_vector}} if row
           else one_pixel_wide(spec))}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec))


def _registers(spec: KernelSpec, options: SequenceOptions) -> int:
    ring = options.outputs + (QUAD if spec.layout is Layout.NCHW else 0)
    return options.outputs + ring + QUAD + REGISTER_MARGIN + step_registers(spec, options.outputs)


def _cost(spec: KernelSpec, options: SequenceOptions, numbers: RowNumbers | PixelNumbers, registers: int) -> Cost:
    products = options.outputs * numbers.line.taps
    return Cost(unit=f"32 x {options.outputs} outputs", warp_loads=-(-numbers.copies // numbers.threads), shuffles=0,
                fma=products, registers=registers, direct_loads=products, no_spills=registers <= 255)


def _phrase(spec: KernelSpec, options: SequenceOptions) -> str:
    what = "sequence" if spec.layout is Layout.NCHW else "channel"
    return (f"{options.outputs} neighbouring outputs a thread, {options.team} threads a {what}, {options.sequences} "
            f"{what}{'s' if options.sequences > 1 else ''} a block; {options.vector} "
            f"element{'s' if options.vector > 1 else ''} a copy")


def space(spec: KernelSpec) -> Iterable[SequenceOptions]:
    base = defaults(spec)
    rows = spec.layout is Layout.NCHW
    found = [replace(base, outputs=outputs, team=team, sequences=sequences)
             for outputs in OUTPUTS for team in TEAMS for sequences in ((1, 2, 4, 8, 16) if rows else CHANNELS)
             if LANES <= team * sequences <= 512]
    return [o for o in found if _value_refusal(spec, o) is None
            and _refusal(spec, replace(o, min_blocks=1), make_numbers(spec, o)) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer: products, reads of elements and taps, copies and stores."""
    options: SequenceOptions = plan.options
    numbers: RowNumbers | PixelNumbers = plan.numbers
    taps = numbers.line.taps
    reads = taps / 2 if isinstance(numbers, RowNumbers) else 2 * taps
    blocks = -(-numbers.line.outputs_of(shape) // numbers.span)
    copies = 16 * (numbers.span + taps) / (options.vector * options.team)
    alone = isinstance(numbers, RowNumbers) and options.store_vector == 1
    thread = options.outputs * (taps + OUTPUT_SLOTS[plan.spec.layout] + 2 * alone) + reads + copies + 40
    sequences = shape.n * plan.spec.k * numbers.line.lines_of(shape)
    return sequences * blocks * options.team / LANES * thread


ALGORITHM = Algorithm(name="sequence", options=SequenceOptions, supports=supports, defaults=defaults, plan=plan,
                      summary="long filters of one row by float32 units, windows in registers; depthwise",
                      space=space, estimate=estimate)
