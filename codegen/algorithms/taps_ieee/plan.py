"""``taps_ieee``: float32 layers of few channels (first layers) by float32 units.

A block copies the lines of the image that its outputs' windows cover to shared memory once for all taps, as they lie
in x in either layout, the next tile's while it multiplies; all of its filters stay there. A thread makes outputs side
by side: it loads the pixels of their windows in a line once, to registers, and multiplies each by as many taps as there
are, at places that are known when the text is written. In NCHW a group of channels is as good as an image of its own,
with filters of its own. Sums are made in the order of ``implicit_gemm``, and so have its bits: float32 units and their
order are what the default's bound is of (docs/precision.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts.arguments import BORDER, demanding, layer_arguments, named
from warpconv.codegen.parts.first_layers import few_channels_refusal
from warpconv.codegen.parts.lines import asked_of_lines, width_refusal
from warpconv.codegen.parts.occupancy import most_planned
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.staying import room_refusal, staying_grid
from warpconv.codegen.plan import Argument, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import MOST_LANES, candidates, choice, instructions
from .numbers import (ITEMSIZE, WIDE, TapsIeeeNumbers, filter_blocks, is_exchanged, make_numbers, most_blocks,
                      planned_registers, runs_of, shared_bytes, threads_of)
from .options import TapsIeeeOptions

STORES = (4, 2, 1)


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no asynchronous copies (sm_80 and later)"
    refusal = common_refusal(spec, layouts=(Layout.NHWC, Layout.NCHW), borders=BORDERS, residual=True)
    if refusal is None and spec.groups > 1 and spec.layout is Layout.NHWC:
        refusal = f"{spec.groups} groups: in NHWC only whole layers are served (grouped has groups there)"
    refusal = refusal or few_channels_refusal(spec)
    if refusal is None and next(candidates(spec), None) is None:
        refusal = (f"a filter of {spec.r} x {spec.s} and its pixels do not fit in {spec.hardware.shared_block} bytes "
                   f"of shared memory, a line of its windows in registers, or {spec.groups} groups in a grid")
    return refusal


def plan(spec: KernelSpec, options: TapsIeeeOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    refusal = supports(spec) or _tile_refusal(spec, options) or _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    taken = named(arguments, "x", "w", "bias", "residual", "y", "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("taps_ieee/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(options, numbers))


def _tile_refusal(spec: KernelSpec, options: TapsIeeeOptions) -> str | None:
    """Whether threads share out a tile."""
    for name in ("columns", "filters", "tile_q"):
        value = getattr(options, name)
        if value < 1 or value % WIDE:
            return f"{name} = {value} (a multiple of {WIDE})"
    if options.tile_q % options.columns or options.tile_p < 1:
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs is no whole number of {options.columns} "
                "columns")
    if not 0 < options.filter_lanes <= MOST_LANES:
        return f"filter_lanes = {options.filter_lanes} (1 to {MOST_LANES})"
    threads = threads_of(options)
    if threads % LANES or threads > BLOCK_THREADS:
        return (f"{runs_of(options)} runs of {options.columns} columns by {options.filter_lanes} lanes are {threads} "
                f"threads (whole warps, at most {BLOCK_THREADS})")
    if is_exchanged(spec, options) and runs_of(options) % LANES:
        return (f"{runs_of(options)} runs of {options.columns} columns with store_vector = {options.store_vector} (in "
                f"NCHW a multiple of {LANES}, or store_vector = {WIDE})")
    return None


def _layer_refusal(spec: KernelSpec, options: TapsIeeeOptions) -> str | None:
    """What the layer and the chip make of the tile."""
    refusal = width_refusal(options.vector, WIDE)
    if refusal is not None:
        return refusal
    if options.store_vector not in STORES or spec.layout is Layout.NHWC and spec.k % options.store_vector:
        return f"store_vector = {options.store_vector} ({', '.join(map(str, STORES))}; in NHWC a divisor of K)"
    needed, most = planned_registers(spec, options), most_planned(threads_of(options))
    if needed > most:
        return f"about {needed} registers a thread (at most {most}): fewer columns, filters or outputs"
    refusal = room_refusal(spec, shared_bytes(spec, options))
    if refusal is not None:
        return refusal
    beside = spec.groups * filter_blocks(spec, options)
    if beside > GRID_LIMIT[1]:
        return f"{beside} blocks side by side that share out groups and filters (at most {GRID_LIMIT[1]})"
    most = most_blocks(spec, options)
    if not 0 < options.min_blocks <= most:
        return f"min_blocks = {options.min_blocks}: a multiprocessor of {spec.arch} holds {most} such blocks"
    return None


def _arguments(spec: KernelSpec, options: TapsIeeeOptions) -> tuple[Argument, ...]:
    """The layer's, aligned as they are loaded and stored."""
    store = ITEMSIZE * options.store_vector
    asked = {**asked_of_lines(spec, options.vector), "y": store, "residual": store}
    if spec.layout is Layout.NHWC:
        asked["bias"] = store
    else:                               # every row of y then begins where a store may
        asked["Q"] = options.store_vector
    return demanding(layer_arguments(spec), asked)


def _launch(spec: KernelSpec, options: TapsIeeeOptions, numbers: TapsIeeeNumbers) -> Launch:
    """Blocks that stay: each makes several tiles with its filters, as many at a time as the chip holds."""
    beside = spec.groups * filter_blocks(spec, options)
    grid = staying_grid(spec, (options.tile_p, options.tile_q), beside, options.min_blocks)
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _cost(spec: KernelSpec, options: TapsIeeeOptions, numbers: TapsIeeeNumbers) -> Cost:
    """Of a thread's outputs of a tile, times a warp's lanes."""
    outputs = options.columns * options.filters
    lines = spec.reduction // (spec.s * numbers.pixel)
    loads = spec.reduction * options.filters // WIDE + lines * numbers.window // options.vector
    return Cost(unit=f"32 times {options.columns} outputs of {options.filters} filters", warp_loads=loads, shuffles=0,
                fma=spec.reduction * outputs, registers=planned_registers(spec, options),
                direct_loads=spec.reduction * outputs)


def _phrase(options: TapsIeeeOptions, numbers: TapsIeeeNumbers) -> str:
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs x {numbers.block_filters} filters, "
            f"{options.columns} columns of {options.filters} filters a thread, {numbers.threads} threads a block, "
            f"{numbers.window} elements of a line in registers, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[TapsIeeeOptions]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="taps_ieee", summary="float32, few channels: lines of windows in registers, float32 units",
                      options=TapsIeeeOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate)
