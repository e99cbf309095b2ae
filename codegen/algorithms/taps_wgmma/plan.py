"""``taps_wgmma``: 16-bit layers of few channels (first layers) by Hopper's warp groups.

A block copies the lines of the image that its outputs' windows cover to shared memory once for all taps, as they lie in
x in either layout, with what stands in the padding. A run of a window's elements that lie side by side (in NHWC a row
of its pixels' channels) is loaded from there in pairs, straight to the registers of which wgmma takes its first
factor: nothing is put in the order of products but by where a lane loads. Loads are of whole words, and where a window
begins inside of one the pairs do, too: the filter has a version for either side, zeros in what the pairs have besides.

The filter is put in the order of these pairs once, and stays in shared memory for all of a block's tiles.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.arguments import BORDER, named
from warpconv.codegen.parts.first_layers import Stores, first_layer_refusal
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.staying import room_refusal, staying_grid
from warpconv.codegen.parts.wgmma import DEPTH, MOST_COLUMNS, TARGET
from warpconv.codegen.parts.window_pairs import (FILTER, RUN, WARP_RUNS, WIDE, column_unit, is_flat, layer_refusal,
                                                 pair_arguments, pair_preparation, versions_in_words)
from warpconv.codegen.plan import Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import BUFFERS, GROUPS, STAGES, candidates, choice, goes_round, instructions, is_shared_out
from .numbers import (COPIERS, MOST_STAGED, TapsWgmmaNumbers, has_own_tiles, item_outputs, make_numbers, more_registers,
                      planned_registers, shared_bytes)
from .options import Order, TapsWgmmaOptions


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    refusal = (first_layer_refusal(spec)
               or common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=(Layout.NHWC, Layout.NCHW),
                                 borders=BORDERS, residual=True) or border_refusal(spec))
    if refusal is None and next(iter(candidates(spec, (WIDE, 1))), None) is None:
        refusal = (f"a filter of {spec.r} x {spec.s} and its pixels do not fit in {spec.hardware.shared_block} bytes "
                   "of shared memory, or their places in registers")
    return refusal


def plan(spec: KernelSpec, options: TapsWgmmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    refusal = supports(spec) or _tile_refusal(spec, options) or _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = pair_arguments(spec, options)
    taken = named(arguments, "x", FILTER, "bias", "residual", "y", "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),),
                      preparation=pair_preparation(numbers))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("taps_wgmma/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(options, numbers))


def _tile_refusal(spec: KernelSpec, options: TapsWgmmaOptions) -> str | None:
    """Whether groups of warps share out a tile."""
    if options.groups not in GROUPS:
        return f"groups = {options.groups} ({', '.join(map(str, GROUPS))})"
    if options.buffers not in BUFFERS:
        return f"buffers = {options.buffers} ({', '.join(map(str, BUFFERS))})"
    if options.staged and spec.layout is not Layout.NCHW:
        return f"stores = {options.stores.value} (in NCHW; in {spec.layout.value} {Stores.DIRECT.value})"
    if has_own_tiles(spec, options) and options.order is not Order.FREE:
        return f"order = {options.order.value} with stores = {options.stores.value} ({Order.FREE.value})"
    if is_flat(spec, options) and options.stage not in STAGES:
        return f"stage = {options.stage} ({', '.join(map(str, STAGES))})"
    if not goes_round(spec, options):
        return (f"buffers = {options.buffers} with stores = {options.stores.value} (a multiple of groups = "
                f"{options.groups})")
    if options.staged and options.tile_p * options.tile_q > MOST_STAGED:
        return f"a tile of {options.tile_p} x {options.tile_q} outputs with stores = rows (at most {MOST_STAGED})"
    unit = column_unit(spec, options)
    if options.filters % unit or not 0 < options.filters <= MOST_COLUMNS:
        return f"filters = {options.filters} (a multiple of {unit}, at most {MOST_COLUMNS})"
    if options.tile_p < 1 or options.tile_q < 1 or not is_shared_out(spec, options):
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs is no whole number of "
                f"{item_outputs(spec, options)}, or {options.groups} groups do not share it out")
    return None


def _layer_refusal(spec: KernelSpec, options: TapsWgmmaOptions) -> str | None:
    """What the layer and the chip make of the tile."""
    refusal = layer_refusal(spec, options)
    if refusal is not None:
        return refusal
    needed, held = planned_registers(spec, options), more_registers(options)
    if needed > held:
        return f"about {needed} registers a thread (at most {held} of {options.groups} groups): fewer filters or groups"
    return room_refusal(spec, shared_bytes(spec, options))


def _launch(spec: KernelSpec, options: TapsWgmmaOptions, numbers: TapsWgmmaNumbers) -> Launch:
    """Blocks that stay: each makes several tiles with its filters, one on a multiprocessor at a time."""
    grid = staying_grid(spec, (options.tile_p, options.tile_q), numbers.filter_tiles,
                        least=2 if numbers.by_parity else 1)
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _cost(spec: KernelSpec, options: TapsWgmmaOptions, numbers: TapsWgmmaNumbers) -> Cost:
    """Of a warp's 16 outputs of all filters of a tile; a product of matrices counts as the FMAs of a lane that it
    stands for."""
    outputs = WARP_RUNS * RUN * options.filters // LANES
    return Cost(unit=f"a warp's {WARP_RUNS * RUN} outputs of {options.filters} filters",
                warp_loads=WARP_RUNS * numbers.quads, shuffles=0, fma=numbers.depths * DEPTH * outputs,
                registers=numbers.more_registers, direct_loads=spec.reduction * outputs)


def _phrase(options: TapsWgmmaOptions, numbers: TapsWgmmaNumbers) -> str:
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs x {options.filters} filters, {numbers.depths} "
            f"instructions for {numbers.products} products, by {options.groups} warp groups and {COPIERS} copying "
            f"warps, {versions_in_words(numbers)}, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[TapsWgmmaOptions]:
    """Every tile."""
    return candidates(spec, (WIDE, 1))


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="taps_wgmma", summary="16 bits, few channels: windows to the registers of warp groups",
                      options=TapsWgmmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate)
