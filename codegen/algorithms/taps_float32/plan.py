"""``taps_float32``: float32 layers of few channels (first layers) by Hopper's warp groups.

A block copies the lines of the image that its outputs' windows cover to shared memory once for all taps, as they lie in
x in either layout, with what stands in the padding. The warps that copy look at a tile's pixels, scale them by a
power of two and leave them in shared memory in halves: in two parts (fp16x3), or rounded (tf32). Pairs of halves that
lie side by side are loaded from there straight to the registers of which wgmma takes its first factor; the filter,
which stays in shared memory, is in the order of these pairs, scaled and split ahead.

Of the four products of parts three are made. Tensor cores cut their sums, so those of high parts begin at zero every 32
products and are added to the others in float32. Outputs that are not finite, and those so small that what far smaller
factors lose would show, are made anew by float32 units (docs/precision.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.arguments import BORDER, bounded, demanding, layer_arguments, named
from warpconv.codegen.parts.first_layers import Stores, first_layer_refusal
from warpconv.codegen.parts.lines import asked_of_lines, width_refusal
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.staying import room_refusal, staying_grid
from warpconv.codegen.parts.wgmma import (CELL_BYTES, COLUMN_UNIT, DEPTH, FLOATS, MOST_COLUMNS, ROWS, TARGET,
                                          float_units_refusal)
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .choice import (BUFFERS, GROUPS, MOST_PASSES, RAWS, SHARES, SHIFTS, TILE_Q, TOGETHER, candidates, choice,
                     goes_round, instructions)
from .numbers import (ITEMSIZE, RUN, SIDE_THREADS, SPLIT_PRODUCTS, STORES, WARP_RUNS, WIDE, WORDS_AT_ONCE,
                      TapsFloat32Numbers, column_unit, depths_of, is_split, line_rounds, make_numbers, more_registers,
                      planned_registers, sets_of, shared_bytes)
from .options import TapsFloat32Options

MANY_PLACES = 32                # of factors that a thread keeps, beside which some of what it keeps else may be spilled
FILTER = "filter"               # the program's name for the prepared filter
MOST_FILTER_BLOCKS = 1024


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    refusal = first_layer_refusal(spec) or float_units_refusal(spec) or common_refusal(
        spec, dtypes=(DType.FLOAT32,), layouts=(Layout.NHWC, Layout.NCHW), numerics=FLOATS, borders=BORDERS,
        residual=True)
    if refusal is None and next(candidates(spec), None) is None:
        refusal = (f"a filter of {spec.r} x {spec.s} and its pixels do not fit in {spec.hardware.shared_block} bytes "
                   "of shared memory, or their places in registers")
    return refusal


def plan(spec: KernelSpec, options: TapsFloat32Options) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    refusal = supports(spec) or _tile_refusal(spec, options) or _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    taken = named(arguments, "x", FILTER, "bias", "residual", "y", "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),),
                      preparation=_preparation(numbers))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("taps_float32/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(spec, options, numbers))


def _tile_refusal(spec: KernelSpec, options: TapsFloat32Options) -> str | None:
    """Whether groups of warps have whole tiles."""
    for name, allowed in (("groups", GROUPS), ("buffers", BUFFERS), ("raws", RAWS), ("together", TOGETHER)):
        if getattr(options, name) not in allowed:
            return f"{name} = {getattr(options, name)} ({', '.join(map(str, allowed))})"
    if (options.copiers, options.shifts) not in SHIFTS:
        pairs = ", ".join(f"{copiers} and {shifts}" for copiers, shifts in SHIFTS)
        return f"copiers = {options.copiers}, shifts = {options.shifts} ({pairs})"
    if not goes_round(options):
        return (f"buffers = {options.buffers} of {options.groups} groups and {options.shifts} shifts: as many as "
                "groups, at least, of two shifts an even multiple of groups")
    stores = STORES if spec.layout is Layout.NHWC else (1,)
    if options.store_vector not in stores or spec.layout is Layout.NHWC and spec.k % options.store_vector:
        return f"store_vector = {options.store_vector} ({', '.join(map(str, stores))}; in NHWC a divisor of K)"
    if not 0 < options.passes <= MOST_PASSES:
        return f"passes = {options.passes} (1 to {MOST_PASSES})"
    unit = column_unit(options)
    if options.filters % unit or not COLUMN_UNIT <= options.filters <= MOST_COLUMNS:
        return f"filters = {options.filters} (a multiple of {unit}, at most {MOST_COLUMNS})"
    shares = SHARES if is_split(spec) else (1,)
    if options.shares not in shares or options.filters % (COLUMN_UNIT * options.shares):
        return (f"shares = {options.shares} of {options.filters} filters ({', '.join(map(str, shares))}, each a whole "
                f"number of {COLUMN_UNIT})")
    if options.staged and spec.layout is not Layout.NCHW:
        return f"stores = {options.stores.value} (in NCHW; in {spec.layout.value} {Stores.DIRECT.value})"
    if not options.staged and options.together > 1:
        return f"together = {options.together} with stores = {options.stores.value} (1)"
    whole = options.tile_p > 0 and (options.tile_q in TILE_Q or options.staged and options.tile_q % RUN == 0)
    if not whole or options.tile_p * options.tile_q % ROWS:
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs is no whole number of a group's {ROWS}, or has "
                f"other rows than of {', '.join(map(str, TILE_Q))} (with stores = rows of {RUN}, {2 * RUN}, ...)")
    return None


def _layer_refusal(spec: KernelSpec, options: TapsFloat32Options) -> str | None:
    """What the layer and the chip make of the tile."""
    refusal = width_refusal(options.vector, WIDE)
    if refusal is not None:
        return refusal
    needed, held = planned_registers(spec, options, sets_of(spec, options)), more_registers(spec, options)
    if needed > held:
        return f"about {needed} registers a thread (at most {held} of {options.groups} groups): fewer filters or groups"
    rounds = line_rounds(spec, options)
    if rounds > WORDS_AT_ONCE:
        return f"tile_q = {options.tile_q}: {rounds} words of a line for a thread (at most {WORDS_AT_ONCE})"
    return room_refusal(spec, shared_bytes(spec, options))


def _arguments(spec: KernelSpec, options: TapsFloat32Options) -> tuple[Argument, ...]:
    """The layer's, aligned as they are loaded and stored, and the prepared filter."""
    store = ITEMSIZE * options.store_vector
    asked = {**asked_of_lines(spec, options.vector), "y": store, "residual": store, "bias": store}
    arguments = demanding(layer_arguments(spec), asked)
    if options.staged:
        arguments = bounded(arguments, {"Q": options.tile_q})
    return (*arguments, Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name, multiple_of=CELL_BYTES))


def _launch(spec: KernelSpec, options: TapsFloat32Options, numbers: TapsFloat32Numbers) -> Launch:
    """Blocks that stay: each makes several tiles with its filters, one on a multiprocessor at a time."""
    grid = staying_grid(spec, (options.tile_p, options.tile_q), numbers.filter_blocks)
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _preparation(numbers: TapsFloat32Numbers) -> Preparation:
    """The filter as shared memory has it, [tile of filters][row][filter][products] in halves, filled up with
    zeros; then its filters' scales taken back, and the filter as it was."""
    grid = (Blocks(times=numbers.filter_rows, limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=ITEMSIZE * numbers.prepared))


def _cost(spec: KernelSpec, options: TapsFloat32Options, numbers: TapsFloat32Numbers) -> Cost:
    """Of a warp's 16 outputs of all filters of a tile; a product of matrices counts as the FMAs of a lane that it
    stands for."""
    products = depths_of(spec) * DEPTH * (SPLIT_PRODUCTS if numbers.split else 1)
    outputs = WARP_RUNS * RUN * options.filters // LANES
    return Cost(unit=f"a warp's {WARP_RUNS * RUN} outputs of {options.filters} filters",
                warp_loads=WARP_RUNS * numbers.quads * numbers.parts, shuffles=0, fma=products * outputs,
                registers=numbers.more_registers, direct_loads=spec.reduction * outputs,
                no_spills=numbers.rest_quads <= MANY_PLACES)


def _phrase(spec: KernelSpec, options: TapsFloat32Options, numbers: TapsFloat32Numbers) -> str:
    factors = {Numerics.FP16X3: "split into two halves", Numerics.TF32: "rounded to halves"}[spec.numerics]
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs x {options.filters} filters, factors scaled and "
            f"{factors}, {numbers.depths} instructions for {numbers.products} products, by {options.groups} warp "
            f"groups and {numbers.all_copiers} copying warps, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[TapsFloat32Options]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="taps_float32", summary="float32, few channels: windows to the registers of warp groups",
                      options=TapsFloat32Options, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, float32=FLOATS)
