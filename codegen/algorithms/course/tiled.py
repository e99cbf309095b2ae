"""``tiled``: the slides' third step. A block has a thread for each element of an *input* tile: all of them load it to
shared memory, then the threads of the halo are idle while the others make the output tile from there."""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import BANK_COPY, Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from . import slides

MOST_FILTERS = 8
SMALL_WINDOW, FEW_CHANNELS = 5, 4


@dataclass(frozen=True)
class TiledOptions:
    """An input tile has ``tile`` x ``tile`` elements and as many threads; it serves ``k_tile`` filters."""

    tile: int = 32
    k_tile: int = 1


def supports(spec: KernelSpec) -> str | None:
    return (slides.layer_refusal(spec) or slides.bank_refusal(spec)
            or slides.input_tile_refusal(spec, slides.TILES[0]))


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> TiledOptions:
    """Tiles of 16 for a window of up to 5 in layers of few channels, else of 32, whose halo is the smaller part
    (measured on an H200)."""
    small = max(slides.extents(spec)) <= SMALL_WINDOW and spec.channels <= FEW_CHANNELS
    return TiledOptions(tile=16 if small else 32, k_tile=slides.default_k_tile(spec, MOST_FILTERS, slides.ROW_READS))


def plan(spec: KernelSpec, options: TiledOptions) -> KernelPlan:
    slides.refuse(spec, supports(spec), slides.tile_refusal(options.tile),
                  slides.input_tile_refusal(spec, options.tile), slides.k_tile_refusal(spec, options.k_tile))
    tile, taps = options.tile, spec.r * spec.s
    outputs = slides.outputs_of(spec, tile)
    registers = 32 if options.k_tile == 1 else 40 + 2 * options.k_tile
    numbers = slides.numbers_of(
        spec, registers=registers, threads=tile * tile, outputs=outputs, global_reads=tile * tile,
        staged=(tile, tile), bank=slides.bank_elements(spec), k_tile=options.k_tile,
        row_loads=slides.ROW_READS)
    filters = f", {options.k_tile} filters at a time" if options.k_tile > 1 else ""
    return slides.finished(
        spec, options, numbers, block=(tile, tile), unit="a warp's part of an input tile", warp_loads=spec.channels,
        fma=taps * spec.channels * options.k_tile, registers=registers,
        phrase=f"one thread per element of an input tile of {tile} x {tile}, which makes {outputs[0]} x {outputs[1]} "
               f"outputs{filters}; the filter bank in constant memory")


def space(spec: KernelSpec) -> Iterable[TiledOptions]:
    return [TiledOptions(tile=tile, k_tile=k_tile)
            for tile in slides.tiles_worth_trying(spec, lambda tile: slides.input_tile_refusal(spec, tile))
            for k_tile in (1, 2, 4, 8, 16) if slides.k_tile_refusal(spec, k_tile) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per channel and warp: the load, its guard and two barriers; per tap a read of shared memory, an FMA for each
    filter and part of its weight's load. More where a barrier stops half the threads that there could be."""
    numbers: slides.SlideNumbers = plan.numbers
    warps = slides.warps_in(plan, shape)
    waiting = 1.6 if numbers.min_blocks * numbers.threads <= plan.spec.hardware.resident_threads // 2 else 1.0
    weight = 1.2 + slides.widening(plan.spec)
    taps = plan.spec.r * plan.spec.s * (plan.spec.stride[1] + weight * numbers.k_tile)
    return (plan.spec.hardware.issue_slots(BANK_COPY)
            + warps * waiting * (40 + plan.spec.channels * (30 + taps)))


ALGORITHM = Algorithm(name="tiled", summary="the slides' third step: a thread per element of a shared input tile",
                      options=TiledOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=1.1, by_name=slides.BY_NAME)
