"""``filter_gradient_mma``: the gradient of a dense layer's filter as a product of matrices on the tensor cores.

    dw[filter][tap][channel] = sum over output pixels of dy[pixel][filter] * x[pixel's window][tap][channel]

A block makes a tile of filters x (tap, channel) from a share of the batch's pixels. Both operands are copied as they
lie in NHWC, the channels of a pixel side by side, windows gathered tap by tap so that nothing is stored between; a ring
of tiles in shared memory is filled by asynchronous copies (cp.async), matrices of 16 bits are transposed on their way
to registers (ldmatrix) and multiplied by mma.sync.m16n8k16 with sums in float32: the portable form, from sm_80 on. Each
share's sums go to a workspace, and a second launch adds the shares in a fixed order, so that equal inputs give equal
bits. Gradients of filters of one tap in one share are written by the product itself.

Of groups of few channels several are joined: all their filters' products with all their channels are made, which takes
no longer than tiles that are mostly filling, and those of different groups are left out.

float32 elements are multiplied by mma.sync.m16n8k8 of TF32, whose factors lanes load as they lie, several filters and
columns side by side: rounded to it (tf32), or in two parts (tf32x3), which are
split in registers and whose sums are added in float32 after every instruction (docs/precision.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, LANES
from warpconv.codegen.parts import partial_sums, reordered
from warpconv.codegen.parts.arguments import demanding, gradient_arguments, sizes_of
from warpconv.codegen.parts.mma import FACTORS, MOST_STAGES, SPLIT, arithmetic_of, matrix_depth, units_refusal
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.refusals import FLOATS, ZEROS, common_refusal
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .choice import candidates, choice, fma_of, instructions, tile_refusal, tiles_of
from .numbers import FilterGradientMmaNumbers, in_joined_groups, make_numbers, resolved, threads_of, vectors_of
from .options import FilterGradientMmaOptions

LEAST_CHANNELS = 2              # of a group, where there are several: below, other algorithms are for them


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no mma.sync of this form (sm_80 and later)"
    if spec.groups > 1 and min(spec.channels, spec.filters) < LEAST_CHANNELS:
        return (f"groups of {spec.channels} channels and {spec.filters} filters would leave most of a tile empty (at "
                f"least {LEAST_CHANNELS} of each)")
    borders = ZEROS if any(map(any, spec.padding)) else tuple(Border)
    if (refusal := units_refusal(spec)) is not None:
        return refusal
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=tuple(Layout), borders=borders,
                             numerics=arithmetic_of(spec), operation=Operation.FILTER_GRADIENT, spatial=(2, 3))
    return refusal or ("the filter's gradient takes no epilogue" if spec.epilogue else None)


def plan(spec: KernelSpec, options: FilterGradientMmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    if spec.layout is Layout.NCHW:
        return reordered.plan_of(spec, plan(reordered.in_nhwc(spec), options))
    refusal = supports(spec) or _values_refusal(spec, options)
    if refusal is None:
        options = resolved(spec, options)
        refusal = tile_refusal(spec, options)
        refusal = refusal or blocks_refusal(spec, threads_of(options), options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = make_numbers(spec, options)
    blocks = Blocks(times=tiles_of(spec, options) * options.splits)
    launch = Launch(entry=spec.name, grid=(blocks, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                    arguments=("x", "dy", "dw" if numbers.direct else partial_sums.PARTS, *sizes_of(spec)),
                    shared_bytes=numbers.shared_bytes)
    aligned = {"x": numbers.windows.bytes, "dy": numbers.gradients.bytes}
    if numbers.direct and numbers.stored > 1:
        aligned["dw"] = numbers.stored * spec.dtype.itemsize
    program = partial_sums.product_program(demanding(gradient_arguments(spec), aligned), launch, spec, options.splits,
                                           numbers.adding)
    return KernelPlan(spec=spec, options=options, numbers=numbers, program=program,
                      templates=("filter_gradient_mma/kernel.cu.jinja",), cost=_cost(options, numbers),
                      phrase=f"tiles of {options.tile_m} filters x {options.tile_n} taps of channels x "
                             f"{options.tile_p} pixels{FACTORS.get(spec.numerics, '')} on the tensor cores, "
                             f"{f'{options.joined} groups joined, ' if options.joined > 1 else ''}"
                             f"{options.warps_m} x {options.warps_n} warps, {options.stages} stages, "
                             f"{partial_sums.shares(options.splits, numbers.direct)}")


def _values_refusal(spec: KernelSpec, options: FilterGradientMmaOptions) -> str | None:
    """Whether single plan values can be."""
    if options.warps_m < 1 or options.warps_n < 1 or options.warps_m * options.warps_n > BLOCK_THREADS // LANES:
        return f"{options.warps_m} x {options.warps_n} warps (1 to {BLOCK_THREADS // LANES} are possible)"
    if spec.groups % options.joined:
        return f"joined = {options.joined} (a divisor of {spec.groups} groups)"
    least, vectors, tiled = matrix_depth(spec), vectors_of(spec), in_joined_groups(spec, options)
    if min(options.tile_m, options.tile_n) < 16 or options.tile_p < least:
        return f"tiles of {options.tile_m} x {options.tile_n} x {options.tile_p} (at least 16 x 16 x {least})"
    if not 2 <= options.stages <= MOST_STAGES:
        return f"stages = {options.stages} (2 to {MOST_STAGES})"
    if not 1 <= options.splits <= partial_sums.MOST_CHUNKS:
        return f"splits = {options.splits} (1 to {partial_sums.MOST_CHUNKS})"
    for name, vector, channels, of in (("vector_m", options.vector_m, tiled.filters, "K/groups"),
                                       ("vector_n", options.vector_n, tiled.channels, "C/groups")):
        if vector and (vector not in vectors or channels % vector):
            return f"{name} = {vector} does not divide {of} = {channels}, or is none of {vectors}"
    return None


def _cost(options: FilterGradientMmaOptions, numbers: FilterGradientMmaNumbers) -> Cost:
    """Of a warp's part of a tile of pixels; a product of matrices counts as the FMAs of a lane that it stands for."""
    return Cost(unit=f"a warp's {numbers.warp_m} filters x {numbers.warp_n} columns x {options.tile_p} pixels",
                warp_loads=numbers.gradients.each + numbers.windows.each, shuffles=0, fma=fma_of(options),
                registers=numbers.registers, direct_loads=fma_of(options))


def space(spec: KernelSpec) -> Iterable[FilterGradientMmaOptions]:
    """Every tile, with shares for a batch of a middling layer, and of smaller and larger ones."""
    return partial_sums.space(spec, candidates)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape) + reordered.instructions(plan.spec, shape, "x", "dy")


ALGORITHM = Algorithm(name="filter_gradient_mma",
                      summary="the filter's gradient of dense layers as a product of matrices on the tensor cores",
                      options=FilterGradientMmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, lighter=partial_sums.lighter, operation=Operation.FILTER_GRADIENT,
                      float32=SPLIT, spatial=(2, 3))
