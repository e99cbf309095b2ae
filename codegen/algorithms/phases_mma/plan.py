"""``phases_mma``: the data gradient of a strided dense layer on the tensor cores.

    dx[pixel][channel] = sum over the taps that a pixel meets, and filters, of
                         dy[the output][filter] * w[filter][channel][tap]

The pixels of one phase of the stride meet the same taps, at outputs next to each other: a product of matrices for each
phase, pixels x channels over taps and filters, all phases in one launch, those of the most taps first. No product with
a zero between outputs is made; pixels that no output has seen become zero. A launch before it puts the filter in the
order of its products. mma.sync.m16n8k16 with sums in float32: the portable form, from sm_80 on.

float32 elements are multiplied by mma.sync.m16n8k8 of TF32: rounded to it (tf32), or in two parts (tf32x3), which are
split in registers and whose sums are added in float32 after every instruction (docs/precision.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.dimension import IMAGE, Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts import reordered
from warpconv.codegen.parts.arguments import demanding, gradient_arguments, named, sizes_of
from warpconv.codegen.parts.mma import FACTORS, SPLIT, arithmetic_of, matrix_depth, units_refusal
from warpconv.codegen.parts.refusals import FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .choice import candidates, choice, instructions, tile_refusal
from .numbers import TURN_ROWS, TURN_TILE, PhasesMmaNumbers, make_numbers, resolved
from .options import PhasesMmaOptions

TURNED, TURN = "turned", "turn_filter"      # the filter in the order of the products, and the entry that makes it
LEAST_FILTERS = 8               # of a group: below, a tile of products is mostly filling
MOST_TAPS, MOST_PHASES = 1024, 1024


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no mma.sync of this form (sm_80 and later)"
    if spec.filters < LEAST_FILTERS:
        return f"groups of {spec.filters} filters would leave most of a tile empty (at least {LEAST_FILTERS})"
    if spec.filters % 2 and spec.dtype.is_half:
        return f"{spec.filters} filters a group: copies are of two at least"
    taps, phases = math.prod(spec.taps), math.prod(spec.stride)
    if taps > MOST_TAPS or phases > MOST_PHASES:
        return f"{taps} taps in {phases} phases (at most {MOST_TAPS} in {MOST_PHASES})"
    if (refusal := units_refusal(spec)) is not None:
        return refusal
    return common_refusal(spec, dtypes=FLOATS, layouts=tuple(Layout), borders=(Border.ZEROS, Border.CONSTANT),
                          numerics=arithmetic_of(spec), operation=Operation.DATA_GRADIENT, spatial=(2, 3))


def plan(spec: KernelSpec, options: PhasesMmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    if spec.layout is Layout.NCHW:
        return reordered.plan_of(spec, plan(reordered.in_nhwc(spec), options))
    refusal = supports(spec)
    least = matrix_depth(spec)
    if refusal is None and (min(options.tile_m, options.tile_n) < 16 or options.tile_k < least):
        refusal = f"tiles of {options.tile_m} x {options.tile_n} x {options.tile_k} (at least 16 x 16 x {least})"
    if refusal is None:
        options = resolved(spec, options)
        refusal = tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = (*gradient_arguments(spec), Argument(name=TURNED, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name))
    numbers = make_numbers(spec, options, named(arguments, "dy", TURNED, "bias", "dx", *sizes_of(spec)))
    aligned = {"dy": numbers.copy_bytes, "dx": spec.dtype.itemsize * numbers.store_vector}
    arguments = demanding(arguments, aligned)
    turn = Launch(entry=TURN, block=(TURN_TILE, TURN_ROWS, 1), arguments=("w", TURNED), grid=(
        Blocks(times=numbers.turn_tiles[0] * numbers.turn_tiles[1] * spec.groups), Blocks(), Blocks()))
    each = len(numbers.phases) * options.tile_m
    tiles = Blocks(of=Dimension.N, by=IMAGE[len(spec.taps)], add=each - 1, per=each,
                   times=numbers.n_tiles * spec.groups)
    product = Launch(entry=spec.name, grid=(tiles, Blocks(times=len(numbers.phases)), Blocks()),
                     block=(numbers.threads, 1, 1), arguments=tuple(a.name for a in numbers.arguments),
                     shared_bytes=numbers.shared_bytes)
    workspace = Workspace(name=TURNED, bytes_each=spec.w_dtype.itemsize * spec.k * spec.reduction, last_step=1)
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("phases_mma/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(turn, product), workspaces=(workspace,)),
        cost=_cost(spec, options, numbers),
        phrase=f"tiles of {options.tile_m} pixels of a phase x {options.tile_n} channels x {options.tile_k} products"
               f"{FACTORS.get(spec.numerics, '')} on the tensor cores, {options.warps_m} x {options.warps_n} warps, "
               f"{options.stages} stages")


def _cost(spec: KernelSpec, options: PhasesMmaOptions, numbers: PhasesMmaNumbers) -> Cost:
    """Of a warp's part of a tile of products; a product of matrices counts as the FMAs of a lane that it stands for."""
    fma = numbers.warp_m * numbers.warp_n * options.tile_k // 32
    return Cost(unit=f"a warp's {numbers.warp_m} pixels x {numbers.warp_n} channels x {options.tile_k} products",
                warp_loads=numbers.pixel_copies + numbers.filter_copies, shuffles=0, fma=fma,
                registers=numbers.registers, direct_loads=fma)


def space(spec: KernelSpec) -> Iterable[PhasesMmaOptions]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape) + reordered.instructions(plan.spec, shape, "dy", "dx")


ALGORITHM = Algorithm(name="phases_mma",
                      summary="data gradient of strided dense layers: a product of matrices for each phase",
                      options=PhasesMmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, operation=Operation.DATA_GRADIENT, float32=SPLIT, spatial=(2, 3))
