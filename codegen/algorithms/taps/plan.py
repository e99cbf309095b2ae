"""``taps``: 16 bits with up to 32 channels a group on the tensor cores, in NHWC and NCHW: first layers, ResNeXt's.

A block copies the pixels that its outputs' windows cover to shared memory once for all taps, whatever the layout is,
with what stands in the padding; nothing is stored between. An instruction takes sixteen products: four taps of four
channels, or two of eight. Which of them are a lane's is free, as long as both operands agree: of four channels a lane
takes all of one tap, a load of eight bytes; rows of eight are what ldmatrix loads. The filter is put in that order
once.

In NHWC pixels are the rows of the product and filters its columns, in NCHW the other way round, so that what four lanes
have after an exchange lies side by side in y.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, LANES, PORTABLE_SHARED
from warpconv.codegen.parts.arguments import BORDER, demanding, layer_arguments, named
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.staying import staying_grid
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import candidates, choice
from .cycles import instructions
from .geometry import (BLOCK, DEPTH, QUAD, RUNS, SLOTS, STORES, STRIP, WIDE, cell_of, has_whole_runs, is_copied,
                       joined_spec, line_loads, matrices, most_joined, pixel_pieces, run_columns, takes_strips,
                       widest_copy, widest_run)
from .numbers import (MOST_REGISTERS, SIDE_THREADS, TapsNumbers, has_registers, make_numbers, planned_registers,
                      resolved, shared_bytes)
from .options import TapsOptions

MOST_CHANNELS = 32              # of a group: its filters lie in shared memory as a whole
FILTER = "filter"               # the program's name for the prepared filter
MOST_FILTER_BLOCKS = 1024


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no mma.sync of this form (sm_80 and later)"
    if spec.channels > MOST_CHANNELS:
        return f"{spec.channels} channels a group, at most {MOST_CHANNELS} are served"
    if spec.groups > 1 and spec.channels == 1:
        return "depthwise layers would leave three quarters of a product empty"
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=(Layout.NCHW, Layout.NHWC),
                             borders=BORDERS, residual=True) or border_refusal(spec)
    if refusal is None and next(iter(candidates(spec)), None) is None:
        refusal = (f"a filter of {spec.r} x {spec.s} and its pixels do not fit in {PORTABLE_SHARED} bytes of shared "
                   "memory")
    return refusal


def plan(spec: KernelSpec, options: TapsOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    refusal = supports(spec) or _join_refusal(spec, options)
    joined = spec if refusal else joined_spec(spec, options)
    refusal = refusal or _tile_refusal(joined, options)
    if refusal is None:
        options = resolved(joined, options)
        refusal = _layer_refusal(joined, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    taken = named(arguments, "x", FILTER, "bias", "residual", "y", "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),),
                      preparation=_preparation(options, numbers))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("taps/kernel.cu.jinja",), program=program,
                      cost=_cost(spec, options, numbers), phrase=_phrase(options, numbers))


def _join_refusal(spec: KernelSpec, options: TapsOptions) -> str | None:
    """Whether groups can share an instruction."""
    if options.joined == 1:
        return None
    possible = most_joined(spec)
    if options.joined != possible:
        return (f"joined = {options.joined} for {spec.groups} groups of {spec.channels} channels and {spec.filters} "
                f"filters ({possible if possible > 1 else 'groups of 2 or 4 of both are joined'})")
    return None


def _tile_refusal(spec: KernelSpec, options: TapsOptions) -> str | None:
    """Whether warps share out a tile."""
    whole = options.tile_p * run_columns(options) % (STRIP * options.strips) == 0
    if not has_whole_runs(options) and (spec.layout is Layout.NCHW or cell_of(spec) != WIDE):
        return (f"tile_q = {options.tile_q} (a multiple of {BLOCK}; any where channels of a group are a multiple of "
                f"{WIDE}, in NHWC)")
    if not whole or options.tile_filters % BLOCK:
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs of {options.tile_filters} filters, "
                f"{options.strips} strips of {STRIP} outputs at once, is no whole number of matrices")
    if spec.layout is Layout.NCHW and (not takes_strips(spec, options.strips) or options.warp_groups > 1):
        return f"strips = {options.strips}, warp_groups = {options.warp_groups} (an even number, and 1, in NCHW)"
    if options.groups_tile % options.warp_groups or options.groups_tile >= 2 * spec.groups:
        return (f"{options.warp_groups} of {options.groups_tile} of {spec.groups} groups (the first a divisor of the "
                "second, which is less than twice the third)")
    if options.groups_tile > 1 and options.tile_filters < spec.filters:
        return f"groups_tile = {options.groups_tile} with {options.tile_filters} of {spec.filters} filters (all)"
    if options.warps > BLOCK_THREADS // LANES:
        return f"{options.warps} warps (at most {BLOCK_THREADS // LANES})"
    return None


def _layer_refusal(spec: KernelSpec, options: TapsOptions) -> str | None:
    """What the layer and the chip make of the tile."""
    nchw = spec.layout is Layout.NCHW
    widths = [w for w in (RUNS if nchw else (WIDE, SLOTS, 1)) if w <= (widest_run if nchw else widest_copy)(spec)]
    if options.vector not in widths:
        what = "columns of x" if nchw else "of whole channels in NHWC"
        return f"vector = {options.vector} ({', '.join(map(str, widths))}: {what})"
    if options.buffers not in (1, 2) or options.buffers == 2 and not is_copied(spec, options):
        return f"buffers = {options.buffers} (1, or 2 where pixels are copied in NHWC, vector = {SLOTS} or {WIDE})"
    if options.store_vector not in STORES or spec.layout is Layout.NHWC and spec.filters % options.store_vector:
        return f"store_vector = {options.store_vector} ({', '.join(map(str, STORES))}; in NHWC a divisor of K/groups)"
    if planned_registers(spec, options) > MOST_REGISTERS:
        return (f"about {planned_registers(spec, options)} registers a thread (at most {MOST_REGISTERS}): fewer strips "
                "or filters")
    if shared_bytes(spec, options) > PORTABLE_SHARED:
        return f"{shared_bytes(spec, options)} bytes of shared memory (at most {PORTABLE_SHARED}): a smaller tile"
    if pixel_pieces(spec, options) > LANES * options.warps:
        return f"{options.warps} warps for {pixel_pieces(spec, options)} pieces of a pixel: more warps, or fewer groups"
    return blocks_refusal(spec, LANES * options.warps, options.min_blocks)


def _arguments(spec: KernelSpec, options: TapsOptions) -> tuple[Argument, ...]:
    """The layer's, aligned as they are loaded and stored, and the prepared filter."""
    asked = {"x": 2 * options.vector, "y": 2 * options.store_vector, "residual": 2 * options.store_vector}
    if spec.layout is Layout.NCHW:              # every row then begins where a load or a store may
        asked["W"], asked["Q"] = options.vector, options.store_vector
    arguments = demanding(layer_arguments(spec, as_elements=True), asked)
    return (*arguments, Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name))


def _launch(spec: KernelSpec, options: TapsOptions, numbers: TapsNumbers) -> Launch:
    """Blocks that stay: each makes several tiles with its filters, as many at a time as the chip holds."""
    beside = numbers.n_tiles * numbers.blocks_of_groups
    grid = staying_grid(spec, (options.tile_p, options.tile_q), beside, options.min_blocks)
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _preparation(options: TapsOptions, numbers: TapsNumbers) -> Preparation:
    """The filter as [group][tile of filters][instruction][eight filters][filter][fours of its products], filled up with
    zeros."""
    cells = numbers.blocks_of_groups * options.groups_tile * numbers.n_tiles * numbers.group_filters
    grid = (Blocks(times=-(-cells // SIDE_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=2 * SLOTS * cells))


def _cost(spec: KernelSpec, options: TapsOptions, numbers: TapsNumbers) -> Cost:
    """Of a warp's sums; a product of matrices counts as the FMAs of a lane that it stands for."""
    joined = joined_spec(spec, options)
    rows, columns = matrices(joined, options)
    products = WIDE * spec.r * numbers.sets if numbers.cell == WIDE else numbers.chunks * DEPTH
    pixels = line_loads(joined, options) if numbers.cell == WIDE else 2 * numbers.chunks * options.strips
    loads = pixels + (0 if numbers.held_filters else numbers.chunks * numbers.blocks)
    return Cost(unit=f"a warp's {options.strips} strips of {STRIP} outputs x {options.tile_filters} filters of "
                     f"{options.warp_groups} group{'s' if options.warp_groups > 1 else ''}",
                warp_loads=loads * options.warp_groups,
                shuffles=8 * rows * columns // QUAD, fma=products * rows * columns * 4, registers=numbers.registers,
                direct_loads=spec.channels * spec.r * spec.s * rows * columns * 4,
                no_spills=has_registers(joined, options))


def _phrase(options: TapsOptions, numbers: TapsNumbers) -> str:
    groups = f" of {options.groups_tile} groups" if options.groups_tile > 1 else ""
    taps = "four taps" if numbers.cell == SLOTS else "a tap" if numbers.one_tap else "two taps"
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs x {options.tile_filters} filters{groups}, {taps} an "
            f"instruction, {options.warps} warps a block, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[TapsOptions]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """cycles.instructions of this plan."""
    return instructions(joined_spec(plan.spec, plan.options), plan.options, shape)


ALGORITHM = Algorithm(name="taps", summary="up to 32 channels a group, 16 bits: pixels in shared memory for all taps",
                      options=TapsOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate)
