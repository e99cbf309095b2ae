"""``coarsened``: the slides' last step, on top of constant memory and tiling. A block walks over several input tiles
with a stride, and each of its threads makes several outputs of each."""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import BANK_COPY, Algorithm
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.options import DERIVED
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from . import slides

MOST_FILTERS = 8
MOST_SUMS = 32              # of a thread, in blocks of fewer threads than the other variants'
BLOCK_ROWS = (4, 8, 16, 32)  # rows of threads that divide a tile of 32: every thread then loads as often as the others
MOST_PRODUCTS = 128         # of one tap row's filters: beyond it fewer filters share a tile
COMFORTABLE_PRODUCTS = 200  # FMAs of a channel up to which 40 registers suffice, so that more blocks are resident


@dataclass(frozen=True)
class CoarsenedOptions:
    """A block walks over ``walk`` input tiles of ``tile`` x ``tile`` elements. It has fewer rows of threads than a
    tile: a thread makes ``outputs`` outputs of a tile (follows from the filter where not given), of ``k_tile``
    filters."""

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
    """As many filters as keep the taps few enough to be one piece of text; outputs by _outputs_for()."""
    most = min(MOST_FILTERS, max(1, MOST_PRODUCTS // (spec.r * spec.s)))
    return CoarsenedOptions(k_tile=slides.default_k_tile(spec, most, slides.ROW_READS))


def plan(spec: KernelSpec, options: CoarsenedOptions) -> KernelPlan:
    slides.refuse(spec, supports(spec), slides.tile_refusal(options.tile),
                  slides.input_tile_refusal(spec, options.tile))
    tile, taps = options.tile, spec.r * spec.s
    height, width = slides.outputs_of(spec, tile)
    if options.outputs == DERIVED:
        options = replace(options, outputs=_outputs_for(options, height))
    slides.refuse(spec, _outputs_refusal(spec, options, height),
                  slides.k_tile_refusal(spec, options.k_tile, options.outputs, MOST_SUMS))
    block_rows = -(-height // options.outputs)
    sums = options.outputs * options.k_tile
    registers = 40 if taps * sums <= COMFORTABLE_PRODUCTS else 64
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
        phrase=f"a block walks over {options.walk} input tiles of {tile} x {tile}, {height} x {width} outputs each; "
               f"a thread makes {options.outputs} of them{filters}, {tile} x {block_rows} threads; the filter bank in "
               f"constant memory")


def _tile_requests(tile: int, block_rows: int) -> int:
    """Loads of a block's warps for one input tile: each round of ``block_rows`` rows, the last of which may be cut."""
    rounds = [min(block_rows, tile - first) for first in range(0, tile, block_rows)]
    return sum(-(-rows * tile // 32) for rows in rounds)


def _outputs_for(options: CoarsenedOptions, height: int) -> int:
    """Few rows of threads, hence many outputs of each, as long as their sums stay in registers. On an H200 a 5x5 filter
    with 4 rows takes 0.77 of the time of 7 rows, which leave part of the threads a row less to load."""
    most = max(1, MOST_SUMS // options.k_tile)
    return next(outputs for outputs in (-(-height // rows) for rows in BLOCK_ROWS) if outputs <= most)


def _needed(height: int, outputs: int) -> int:
    """The least outputs of a thread for which there are no more rows of threads than ``outputs`` needs."""
    return -(-height // -(-height // outputs))


def _outputs_refusal(spec: KernelSpec, options: CoarsenedOptions, height: int) -> str | None:
    if options.outputs > height:
        return f"outputs = {options.outputs}: a tile has {height} output row{'s' if height > 1 else ''}"
    if _needed(height, options.outputs) < options.outputs:
        return (f"outputs = {options.outputs}: {height} output rows are shared out with "
                f"{_needed(height, options.outputs)} a thread")
    if options.walk > 64:
        return f"walk = {options.walk} (at most 64)"
    return None


def space(spec: KernelSpec) -> Iterable[CoarsenedOptions]:
    return [CoarsenedOptions(tile=tile, walk=walk, outputs=outputs, k_tile=k_tile)
            for tile in slides.tiles_worth_trying(spec, lambda tile: slides.input_tile_refusal(spec, tile))
            for walk in (1, 2, 4, 8) for outputs in (1, 2, 3, 4, 5, 6, 8)
            if outputs == _needed(slides.outputs_of(spec, tile)[0], outputs)
            for k_tile in (1, 2, 4, 8) if slides.k_tile_refusal(spec, k_tile, outputs, MOST_SUMS) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Per channel and warp: loads, their guards and two barriers; per tap a read of shared memory for each output, an
    FMA for each output and filter, and part of a weight's load."""
    options: CoarsenedOptions = plan.options
    numbers: CoarsenedNumbers = plan.numbers
    spec = plan.spec
    warps = slides.tiles_in(plan, shape) * numbers.threads / 32
    rounds = -(-options.tile // numbers.block_rows)
    weights = options.k_tile * (0.7 + 2 * slides.widening(spec))
    tap = 0.7 * options.outputs * (spec.stride[1] + options.k_tile) + weights
    start = spec.hardware.issue_slots(BANK_COPY)
    return start + warps * (60 + spec.channels * (40 + 6 * rounds + spec.r * spec.s * tap))


ALGORITHM = Algorithm(name="coarsened", summary="the slides' last step: several tiles a block, outputs a thread",
                      options=CoarsenedOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=2.5, by_name=slides.BY_NAME)
