"""``im2win_basic``: the input as windows, then one thread per output that walks its own contiguous window.

Source: im2win (arXiv 2306.14316), Algorithm 2, with a block of 32 x 32 threads. Mended: its input index (line 10)
takes the input's coordinates where the tensor's are meant, its filter has to be reordered to match, and M / 32 and N
/ 32 need ceilings and guards. The document's mapping has neighbouring threads make neighbouring filters of one pixel,
whose stores lie P * Q elements apart; ``mapping`` has both.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import GRID_LIMIT
from warpconv.codegen.parts import windows as im2win_tensor
from warpconv.codegen.parts.arguments import named
from warpconv.codegen.parts.latency import SECOND_LAUNCH, lone_thread
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, border_refusal, common_refusal
from warpconv.codegen.parts.text import MOST_UNROLLED
from warpconv.codegen.parts.windows import FILTER, TENSOR, Im2winNumbers
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

SIDE = 32               # of the document's block of threads
UNROLLED_TAPS = 64      # taps of a channel up to which the walk over a window is unrolled
PACE = 2.3
LONE_WARPS = 22         # times as long as among others: of a block's 32 one has work where a group has one filter
REGISTERS = 32          # 32 x 32 threads twice on a multiprocessor leave a thread no more


class Mapping(enum.Enum):
    """Which outputs neighbouring threads make: neighbouring filters of a pixel, or neighbouring pixels of a filter."""

    DOCUMENT = "document"
    COALESCED = "coalesced"


@dataclass(frozen=True)
class Im2winBasicOptions:
    """Plan values: who makes which output."""

    mapping: Mapping = Mapping.COALESCED


@dataclass(frozen=True)
class Im2winBasicNumbers:
    """What the template writes besides the spec. Filters of a group are cut into tiles of SIDE."""

    tensor: Im2winNumbers
    arguments: tuple[Argument, ...]     # of the entry that multiplies
    filter_thread: str      # the axes of threadIdx for filters and pixels
    pixel_thread: str
    neighbours: str
    side: int
    k_tiles: int
    unroll: bool
    unroll_rows: bool


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, dtypes=FLOATS, borders=BORDERS) or border_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Im2winBasicOptions:
    return Im2winBasicOptions()


def plan(spec: KernelSpec, options: Im2winBasicOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    taps, by_pixel = spec.r * spec.s, options.mapping is Mapping.COALESCED
    tensor, k_tiles = im2win_tensor.numbers(spec), -(-spec.filters // SIDE)
    program_arguments = im2win_tensor.arguments(spec)
    arguments = named(program_arguments, TENSOR, FILTER, "bias", "y", "N", "P", "Q")
    numbers = Im2winBasicNumbers(tensor=tensor, arguments=arguments, filter_thread="y" if by_pixel else "x",
                                 pixel_thread="x" if by_pixel else "y", side=SIDE, k_tiles=k_tiles,
                                 neighbours="pixels of a filter" if by_pixel else "filters of a pixel",
                                 unroll=taps <= UNROLLED_TAPS, unroll_rows=spec.r <= MOST_UNROLLED)
    grid = (Blocks(of=Dimension.P, by=(Dimension.Q,), add=SIDE - 1, per=SIDE),
            Blocks(times=spec.groups * k_tiles, limit=GRID_LIMIT[1]), Blocks(of=Dimension.N, limit=GRID_LIMIT[2]))
    multiply = Launch(entry=spec.name, block=(SIDE, SIDE, 1), grid=grid, arguments=tuple(a.name for a in arguments))
    program = Program(arguments=program_arguments, steps=(im2win_tensor.launch(spec), multiply),
                      workspaces=(im2win_tensor.workspace(spec),), preparation=im2win_tensor.preparation(spec))
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("course/im2win_basic.cu.jinja",), program=program,
        phrase=f"the im2win tensor, then one thread per output, {SIDE} x {SIDE} a block; neighbouring threads make "
               f"neighbouring {numbers.neighbours}", notes=im2win_tensor.notes(spec),
        cost=Cost(unit="32 outputs, without the transform", warp_loads=2 * taps * spec.channels, shuffles=0,
                  fma=taps * spec.channels, registers=REGISTERS, direct_loads=2 * taps * spec.channels))


def space(spec: KernelSpec) -> Iterable[Im2winBasicOptions]:
    return [Im2winBasicOptions(mapping=mapping) for mapping in Mapping]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tap and thread a load of the window, one of the filter, and an FMA; the loads of a warp that are not of one
    run (windows WINDOW_STEP apart; in the document's mapping filters a whole filter apart) issue once for each line
    of 128 bytes that they touch."""
    spec = plan.spec
    numbers: Im2winBasicNumbers = plan.numbers
    in_a_line, pixels = 128 // spec.dtype.itemsize, -(-shape.p * shape.q // SIDE)
    if plan.options.mapping is Mapping.COALESCED:
        apart, warps = numbers.tensor.window_step, shape.n * shape.k * pixels
    else:
        apart, warps = shape.reduction, shape.n * spec.groups * numbers.k_tiles * SIDE * pixels
    lines = min(SIDE, max(1.0, SIDE * apart / in_a_line))       # the other operand is one word for all lanes
    widen = 2 if spec.dtype.is_half else 0
    product = warps * (30 + shape.reduction * (2 + lines + widen))
    if spec.channels == spec.filters == 1 and spec.s > UNROLLED_TAPS:
        product *= LONE_WARPS       # 127 and 255 taps of sequences: 15 and 26 ms where im2win takes 2.3 and 4.4 (H200)
    return (SECOND_LAUNCH / PACE + im2win_tensor.transform_instructions(spec, shape)
            + max(product, lone_thread(spec, shape.reduction, PACE)))


ALGORITHM = Algorithm(name="im2win_basic", summary="windows made contiguous (im2win), then one thread per output",
                      options=Im2winBasicOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=PACE)
