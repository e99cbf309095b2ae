"""``naive``: the slides' first step. One thread per output pixel; image and filter are read from global memory."""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from . import slides

REGISTERS = 48       # planned: the compiler likes to have many loads under way
LONG_ROW = 8         # columns of a filter from which wider blocks are quicker
PER_TAP = 5.0        # warp instructions: the input and its guard, the weight, the FMA


@dataclass(frozen=True)
class NaiveOptions:
    """A block is ``tile`` x ``tile`` threads, each of one output pixel."""

    tile: int = 16


def supports(spec: KernelSpec) -> str | None:
    return slides.layer_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> NaiveOptions:
    """Blocks of 16 x 16 threads, of 32 x 32 where rows of a window are long (measured on an H200, planes of 4096^2)."""
    return NaiveOptions(tile=16 if spec.s < LONG_ROW else 32)


def plan(spec: KernelSpec, options: NaiveOptions) -> KernelPlan:
    slides.refuse(spec, supports(spec), slides.tile_refusal(options.tile))
    tile, taps = options.tile, spec.r * spec.s
    numbers = slides.numbers_of(spec, registers=REGISTERS, threads=tile * tile, outputs=(tile, tile),
                                global_reads=2 * tile * tile * taps)
    return slides.finished(
        spec, options, numbers, block=(tile, tile), unit="32 outputs", warp_loads=taps * spec.channels,
        fma=taps * spec.channels, registers=REGISTERS,
        phrase=f"one thread per output pixel, {tile} x {tile} threads a block; the filter in global memory")


def space(spec: KernelSpec) -> Iterable[NaiveOptions]:
    return [NaiveOptions(tile=tile) for tile in slides.tiles_worth_trying(spec)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tap and thread: a load with its guard, a weight's load, an FMA."""
    warps = slides.warps_in(plan, shape)
    return warps * (20 + shape.reduction * (PER_TAP + 2 * slides.widening(plan.spec)))


ALGORITHM = Algorithm(name="naive", summary="the slides' first step: a thread per pixel, the filter in global memory",
                      options=NaiveOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=2.3, by_name=slides.BY_NAME)
