"""``coarsened``: the slides' last step, on top of constant memory and tiling. A block walks over several input tiles with
a stride, and each of its threads makes several outputs of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable

from ..plan import KernelPlan
from ..shape import ConvShape
from ..spec import KernelSpec
from . import slides
from .base import DERIVED, Algorithm

MOST_FILTERS = 4
OUTPUTS = (4, 5, 3)         # of a thread in a tile: the first of them that shares the rows out evenly, else the first


@dataclass(frozen=True)
class CoarsenedOptions:
    """A block walks over ``walk`` input tiles of ``tile`` x ``tile`` elements. It has fewer rows of threads than a tile:
    a thread makes ``outputs`` outputs of a tile (follows from the filter where not given), of ``k_tile`` filters."""

    tile: int = 32
    walk: int = 4
    outputs: int = DERIVED
    k_tile: int = 1


@dataclass(frozen=True)
class CoarsenedNumbers(slides.SlideNumbers):
    """``block_rows``: rows of threads; ``clamped``: whether the last output of some threads is beyond the tile."""

    block_rows: int = 1
    clamped: bool = False


def supports(spec: KernelSpec) -> str | None:
    return (slides.layer_refusal(spec) or slides.bank_refusal(spec)
            or slides.input_tile_refusal(spec, slides.TILES[0]))


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> CoarsenedOptions:
    return CoarsenedOptions(k_tile=slides.default_k_tile(spec, MOST_FILTERS))


def plan(spec: KernelSpec, options: CoarsenedOptions) -> KernelPlan:
    slides.refuse(spec, supports(spec), slides.tile_refusal(options.tile), slides.input_tile_refusal(spec, options.tile))
    tile, taps = options.tile, spec.r * spec.s
    height, width = slides.outputs_of(spec, tile)
    if options.outputs == DERIVED:
        options = replace(options, outputs=_outputs_for(options, height))
    slides.refuse(spec, _outputs_refusal(spec, options, height),
                  slides.k_tile_refusal(spec, options.k_tile, options.outputs))
    block_rows = -(-height // options.outputs)
    sums = options.outputs * options.k_tile
    registers = 40 + 2 * sums
    numbers = slides.numbers_of(
        spec, registers=registers, threads=tile * block_rows, outputs=(height, width), global_reads=tile * tile,
        staged=(tile, tile), bank=slides.bank_elements(spec), k_tile=options.k_tile,
        rows=options.outputs, row_loads=slides.ROW_READS)
    numbers = CoarsenedNumbers(**vars(numbers), block_rows=block_rows, clamped=block_rows * options.outputs > height)
    filters = f" of {options.k_tile} filters" if options.k_tile > 1 else ""
    warps = -(-tile * block_rows // 32)
    return slides.finished(
        spec, options, numbers, block=(tile, block_rows), walk=options.walk, registers=registers,
        unit=f"a warp's part of {options.walk} input tile{'s' if options.walk > 1 else ''}",
        warp_loads=-(-options.walk * spec.channels * _tile_requests(tile, block_rows) // warps),
        fma=options.walk * taps * spec.channels * sums,
        phrase=f"a block walks over {options.walk} input tiles of {tile} x {tile}, {height} x {width} outputs each; a thread makes "
               f"{options.outputs} of them{filters}, {tile} x {block_rows} threads; the filter bank in constant memory")


def _tile_requests(tile: int, block_rows: int) -> int:
    """Loads of a block's warps for one input tile: each round of ``block_rows`` rows, the last of which may be cut."""
    rounds = [min(block_rows, tile - first) for first in range(0, tile, block_rows)]
    return sum(-(-rows * tile // 32) for rows in rounds)


def _outputs_for(options: CoarsenedOptions, height: int) -> int:
    most = max(1, min(height, slides.MOST_ACCUMULATORS // options.k_tile))
    fitting = [outputs for outputs in OUTPUTS if outputs <= most]
    return next((outputs for outputs in fitting if height % outputs == 0), _needed(height, fitting[0] if fitting else most))


def _needed(height: int, outputs: int) -> int:
    """Outputs of a thread that has any, where the rows are shared out to as few rows of threads as ``outputs`` allows."""
    return -(-height // -(-height // outputs))


def _outputs_refusal(spec: KernelSpec, options: CoarsenedOptions, height: int) -> str | None:
    if options.outputs > height:
        return f"outputs = {options.outputs}: a tile has {height} output row{'s' if height > 1 else ''}"
    if _needed(height, options.outputs) < options.outputs:
        return (f"outputs = {options.outputs}: {height} output rows are shared out with {_needed(height, options.outputs)} "
                f"a thread")
    if options.walk > 64:
        return f"walk = {options.walk} (at most 64)"
    return None


def space(spec: KernelSpec) -> Iterable[CoarsenedOptions]:
    return [CoarsenedOptions(tile=tile, walk=walk, outputs=outputs, k_tile=k_tile)
            for tile in slides.tiles_worth_trying(spec, lambda tile: slides.input_tile_refusal(spec, tile))
            for walk in (1, 2, 4, 8) for outputs in (1, 2, 3, 4, 5, 6, 8)
            if outputs == _needed(slides.outputs_of(spec, tile)[0], outputs) for k_tile in (1, 2, 4, 8) if slides.k_tile_refusal(spec, k_tile, outputs) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per channel and warp: loads, their guards and two barriers; per tap a read of shared memory for each output, an FMA
    for each output and filter, and part of a weight's load."""
    options, numbers, spec = plan.options, plan.numbers, plan.spec
    warps = slides.tiles_in(plan, shape) * numbers.threads / 32
    rounds = -(-options.tile // numbers.block_rows)
    tap = 1.2 * options.outputs + options.k_tile * (options.outputs + 1.5)
    return warps * (20 + 8 * options.outputs + spec.channels * (12 + 10 * rounds + spec.r * spec.s * tap))


ALGORITHM = Algorithm(name="coarsened", summary="the slides' last step: blocks walk over tiles, threads make several outputs",
                      options=CoarsenedOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
