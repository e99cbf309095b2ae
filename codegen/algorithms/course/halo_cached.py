"""``halo_cached``: the slides' fourth step. A block's threads, its output tile and its part of the image are the same
square. Only that part is in shared memory; halo cells are read from global memory, where the neighbouring blocks have
brought them to the second-level cache."""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import BANK_COPY, Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import SHARED_STATIC
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from . import slides

MOST_FILTERS = 8


@dataclass(frozen=True)
class HaloCachedOptions:
    """A block makes ``tile`` x ``tile`` outputs, a thread each, of ``k_tile`` filters."""

    tile: int = 16
    k_tile: int = 1


@dataclass(frozen=True)
class HaloNumbers(slides.SlideNumbers):
    """``center``: rows and columns from a window's start to its middle tap."""

    center: tuple[int, int] = (0, 0)


def supports(spec: KernelSpec) -> str | None:
    return slides.layer_refusal(spec) or slides.bank_refusal(spec) or _shared_refusal(spec, slides.TILES[-1])


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> HaloCachedOptions:
    """Tiles of 16 (quicker than 32 at 3x3 and 5x5, as quick at 9x9, on an H200), smaller where strides are large."""
    tile = next(tile for tile in slides.TILES[1:] if _shared_refusal(spec, tile) is None)
    return HaloCachedOptions(tile=tile, k_tile=slides.default_k_tile(spec, MOST_FILTERS, slides.ROW_LOADS))


def plan(spec: KernelSpec, options: HaloCachedOptions) -> KernelPlan:
    slides.refuse(spec, supports(spec), slides.tile_refusal(options.tile), _shared_refusal(spec, options.tile),
                  slides.k_tile_refusal(spec, options.k_tile))
    tile, taps = options.tile, spec.r * spec.s
    registers = 52 + 2 * options.k_tile
    staged = tile * spec.stride[0], tile * spec.stride[1]
    numbers = slides.numbers_of(
        spec, registers=registers, threads=tile * tile, outputs=(tile, tile), staged=staged,
        global_reads=math.prod(staged) + slides.halo_reads(spec, tile), bank=slides.bank_elements(spec),
        k_tile=options.k_tile)
    numbers = HaloNumbers(**vars(numbers), center=slides.centers(spec))
    warps = -(-tile * tile // 32)
    loads = -(-spec.channels * (warps * math.prod(spec.stride) + _halo_requests(spec, tile, warps)) // warps)
    filters = f", {options.k_tile} filters at a time" if options.k_tile > 1 else ""
    return slides.finished(
        spec, options, numbers, block=(tile, tile), unit="a warp's part of a tile", warp_loads=loads,
        fma=taps * spec.channels * options.k_tile, registers=registers,
        phrase=f"one thread per output of a tile of {tile} x {tile}{filters}, its own part of the image in "
               f"shared memory, {100 * slides.halo_share(spec, tile):.1f} % of its reads outside; the filter bank in "
               f"constant memory")


def _shared_refusal(spec: KernelSpec, tile: int) -> str | None:
    size = 4 * tile * tile * math.prod(spec.stride)
    if size <= SHARED_STATIC:
        return None
    return (f"the part of the image under a tile of {tile} x {tile} outputs with stride {spec.stride} has {size} "
            f"bytes, more than the {SHARED_STATIC} of shared memory; "
            + ("a smaller tile serves it" if tile > slides.TILES[-1] else "naive and constant serve it"))


def _halo_requests(spec: KernelSpec, tile: int, warps: int) -> int:
    """Loads of halo cells that a block's warps make for one channel."""
    center_h, center_w = slides.centers(spec)
    requests = 0
    for warp in range(warps):
        lanes = [divmod(thread, tile) for thread in range(32 * warp, min(32 * warp + 32, tile * tile))]
        # the first and the last: those between them lie inside where both do
        rows, columns = ({place(at[i] for at in lanes) for place in (min, max)} for i in (0, 1))
        for r in range(spec.r):
            above_or_below = any(not 0 <= row * spec.stride[0] + r * spec.dilation[0] - center_h < tile * spec.stride[0]
                                 for row in rows)
            requests += spec.s if above_or_below else sum(
                any(not 0 <= column * spec.stride[1] + s * spec.dilation[1] - center_w < tile * spec.stride[1]
                    for column in columns) for s in range(spec.s))
    return requests


def space(spec: KernelSpec) -> Iterable[HaloCachedOptions]:
    return [HaloCachedOptions(tile=tile, k_tile=k_tile)
            for tile in slides.tiles_worth_trying(spec, lambda tile: _shared_refusal(spec, tile))
            for k_tile in (1, 2, 4, 8, 16) if slides.k_tile_refusal(spec, k_tile) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per channel and warp: loads, their guards and two barriers; per tap the choice between tile and halo, the read,
    an FMA for each filter and part of its weight's load."""
    spec, weight = plan.spec, 2.0 + slides.widening(plan.spec)
    warps = slides.warps_in(plan, shape)
    staging = 22 + 8 * math.prod(spec.stride)
    options: HaloCachedOptions = plan.options
    taps = spec.r * spec.s * (8.0 + weight * options.k_tile)
    return spec.hardware.issue_slots(BANK_COPY) + warps * (40 + spec.channels * (staging + taps))


ALGORITHM = Algorithm(name="halo_cached", summary="the slides' fourth step: a tile without its halo in shared memory",
                      options=HaloCachedOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=2.3, by_name=slides.BY_NAME)
