"""``grouped``: float32 layers of groups of a few channels in NHWC, by float32 units.

A block has several groups, so that what it copies of a pixel lies side by side: it copies the pixels that its outputs'
windows cover to shared memory once for all taps, the next tile's while it multiplies; its groups' filters stay there. A
thread makes outputs side by side of a group's filters: it loads the pixels of their windows in a line once, to
registers, and multiplies each by as many taps as there are, at places that are known when the text is written.
Neighbouring lanes have neighbouring groups, whose filters and outputs lie side by side. Sums are made in the order of
``implicit_gemm``, and so have its bits: float32 units and their order are what the default's bound is of
(docs/precision.md). In NCHW a group's planes lie together, and ``taps_ieee`` serves them.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts.arguments import BORDER, demanding, layer_arguments, named
from warpconv.codegen.parts.occupancy import most_planned
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.staying import room_refusal, staying_grid
from warpconv.codegen.plan import Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import candidates, choice, instructions
from .numbers import (ITEMSIZE, WIDE, GroupedNumbers, channels_of, load_of, make_numbers, most_blocks,
                      pieces_of, planned_registers, shared_bytes, threads_of)
from .options import GroupedOptions

MOST_CHANNELS = 16              # of a group: more are a product of matrices


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no asynchronous copies (sm_80 and later)"
    if spec.layout is Layout.NCHW and spec.groups > 1:
        return "groups are served in NHWC alone (taps_ieee has those of NCHW)"
    refusal = common_refusal(spec, layouts=(Layout.NHWC,), borders=BORDERS, residual=True) or _groups_refusal(spec)
    if refusal is None and next(candidates(spec), None) is None:
        refusal = (f"a filter of {spec.r} x {spec.s} and its pixels do not fit in {spec.hardware.shared_block} bytes "
                   f"of shared memory, a line of its windows in registers, {spec.filters} filters a group in a block, "
                   f"or {spec.groups} groups in a grid")
    return refusal


def _groups_refusal(spec: KernelSpec) -> str | None:
    """What a pixel's channels and a group's filters have to be."""
    if spec.groups == 1:
        return "only layers of groups are served"
    if spec.channels > MOST_CHANNELS:
        return f"{spec.channels} channels a group, at most {MOST_CHANNELS} are served"
    if spec.c % WIDE:
        return f"C = {spec.c} is no multiple of {WIDE}"
    if spec.filters % WIDE:
        return f"{spec.filters} filters a group are no multiple of {WIDE}"
    return None


def plan(spec: KernelSpec, options: GroupedOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    refusal = supports(spec) or _tile_refusal(spec, options) or _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = demanding(layer_arguments(spec), dict.fromkeys(("x", "y", "residual", "bias"), ITEMSIZE * WIDE))
    taken = named(arguments, "x", "w", "bias", "residual", "y", "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("grouped/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(options, numbers))


def _tile_refusal(spec: KernelSpec, options: GroupedOptions) -> str | None:
    """Whether threads share out a tile."""
    if options.filters % WIDE or spec.filters % options.filters:
        return f"filters = {options.filters} (a multiple of {WIDE} that divides a group's {spec.filters})"
    if spec.groups % options.groups_tile or channels_of(spec, options) % WIDE:
        return (f"groups_tile = {options.groups_tile} (a divisor of {spec.groups} groups, with a multiple of {WIDE} "
                "channels)")
    beside = spec.groups // options.groups_tile
    if beside > GRID_LIMIT[1]:
        return f"groups_tile = {options.groups_tile}: {beside} blocks side by side (at most {GRID_LIMIT[1]})"
    if options.tile_q % options.columns:
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs is no whole number of {options.columns} "
                "columns")
    threads = threads_of(spec, options)
    if not pieces_of(spec, options) <= threads <= BLOCK_THREADS:
        return (f"{threads} threads ({pieces_of(spec, options)} that copy a pixel at least, at most {BLOCK_THREADS}): "
                "other tile_p, tile_q, columns, or groups_tile")
    return None


def _layer_refusal(spec: KernelSpec, options: GroupedOptions) -> str | None:
    """What the layer and the chip make of the tile."""
    needed, most = planned_registers(spec, options), most_planned(threads_of(spec, options))
    if needed > most:
        return f"about {needed} registers a thread (at most {most}): fewer columns, filters or outputs"
    refusal = room_refusal(spec, shared_bytes(spec, options))
    if refusal is not None:
        return refusal
    most = most_blocks(spec, options)
    if not 0 < options.min_blocks <= most:
        return f"min_blocks = {options.min_blocks}: a multiprocessor of {spec.arch} holds {most} such blocks"
    return None


def _launch(spec: KernelSpec, options: GroupedOptions, numbers: GroupedNumbers) -> Launch:
    """Blocks that stay: each makes several tiles of its groups, as many at a time as the chip holds."""
    beside = spec.groups // options.groups_tile
    grid = staying_grid(spec, (options.tile_p, options.tile_q), beside, options.min_blocks)
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _cost(spec: KernelSpec, options: GroupedOptions, numbers: GroupedNumbers) -> Cost:
    """Of a thread's outputs of a tile, times a warp's lanes."""
    outputs = options.columns * options.filters
    loads = spec.reduction * options.filters // WIDE + spec.r * numbers.window_pixels * spec.channels // load_of(spec)
    return Cost(unit=f"{LANES} times {options.columns} outputs of {options.filters} filters", warp_loads=loads,
                shuffles=0, fma=spec.reduction * outputs, registers=planned_registers(spec, options),
                direct_loads=spec.reduction * outputs)


def _phrase(options: GroupedOptions, numbers: GroupedNumbers) -> str:
    groups = f"{options.groups_tile} group{'s' if options.groups_tile > 1 else ''}"
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs of {groups}, {options.columns} "
            f"columns of {options.filters} filters a thread, {numbers.threads} threads a block, "
            f"{numbers.window_pixels} pixels of a line in registers, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[GroupedOptions]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="grouped", summary="groups of a few channels, float32, NHWC: windows in registers",
                      options=GroupedOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate)
