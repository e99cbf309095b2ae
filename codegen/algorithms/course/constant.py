"""``constant``: the slides' second step. One thread per output pixel; the filter bank in constant memory, where all
threads of a warp read the same weight at a time."""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import BANK_COPY, Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from . import slides

REGISTERS = 48       # planned: the compiler likes to have many loads under way
PER_TAP = 4.6        # warp instructions: the input and its guard, the FMA, part of a weight's load


@dataclass(frozen=True)
class ConstantOptions:
    """A block is ``tile`` x ``tile`` threads, each of one output pixel."""

    tile: int = 16


def supports(spec: KernelSpec) -> str | None:
    return slides.layer_refusal(spec) or slides.bank_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ConstantOptions:
    """Blocks of 16 x 16 threads: quicker than 32 x 32 from 3x3 to 9x9 (measured on an H200, planes of 4096^2)."""
    return ConstantOptions()


def plan(spec: KernelSpec, options: ConstantOptions) -> KernelPlan:
    slides.refuse(spec, supports(spec), slides.tile_refusal(options.tile))
    tile, taps = options.tile, spec.r * spec.s
    numbers = slides.numbers_of(spec, registers=REGISTERS, threads=tile * tile, outputs=(tile, tile),
                                global_reads=tile * tile * taps, bank=slides.bank_elements(spec))
    return slides.finished(
        spec, options, numbers, block=(tile, tile), unit="32 outputs", warp_loads=taps * spec.channels,
        fma=taps * spec.channels, registers=REGISTERS,
        phrase=f"one thread per output pixel, {tile} x {tile} threads a block; the filter bank in constant memory")


def space(spec: KernelSpec) -> Iterable[ConstantOptions]:
    return [ConstantOptions(tile=tile) for tile in slides.tiles_worth_trying(spec)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per tap and thread: a load with its guard, an FMA whose weight is an operand or comes with its neighbours'."""
    warps = slides.warps_in(plan, shape)
    start = plan.spec.hardware.issue_slots(BANK_COPY)
    return start + warps * (20 + shape.reduction * (PER_TAP + 2 * slides.widening(plan.spec)))


ALGORITHM = Algorithm(name="constant", summary="the slides' second step: as naive, the filter in constant memory",
                      options=ConstantOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=2.3, by_name=slides.BY_NAME)
