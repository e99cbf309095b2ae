"""``filter_gradient_tma``: the gradient of a dense layer's filter in TF32, copied by the tensor memory accelerator.

    dw[filter][tap][channel] = sum over output pixels of dy[pixel][filter] * x[pixel's window][tap][channel]

A block makes a tile of filters x (tap, channel) from a share of the batch's pixels. The tensor memory accelerator
copies boxes of 32 channels of both arrays into a ring in shared memory, of x tap by tap, walking windows over rows and
images (im2col), and rounds float32 elements to TF32 on their way. wgmma has no use for float32 factors whose pixels lie
one below the other, as NHWC has them; mma.sync takes them from registers, to which they come in any order. Each share's
sums go to a workspace, and a second launch adds the shares in a fixed order. Gradients of filters of one tap in one
share are written by the product itself. In NCHW launches before it bring both arrays to NHWC. The text is for sm_90a.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts import gradient_boxes, partial_sums, reordered
from warpconv.codegen.parts.refusals import ZEROS, common_refusal
from warpconv.codegen.parts.wgmma import TARGET
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics, Operation

from .choice import candidates, choice, instructions, tile_refusal, values_refusal
from .numbers import BOX, FilterGradientTmaNumbers, make_numbers, resolved
from .options import FilterGradientTmaOptions

ROUNDED = (Numerics.TF32,)
UNIT = 4        # floats: a row's copies begin at multiples of 16 bytes


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} is not served, only 9.0: groups of warps give registers to each other"
    if spec.dtype is DType.FLOAT32 and spec.numerics is not Numerics.TF32:
        return f"products of {spec.numerics.value} are not served, only those rounded to TF32 (precision = 'tf32')"
    borders = ZEROS if any(map(any, spec.padding)) else tuple(Border)
    refusal = common_refusal(spec, dtypes=(DType.FLOAT32,), layouts=tuple(Layout), borders=borders, numerics=ROUNDED,
                             operation=Operation.FILTER_GRADIENT, spatial=(2, 3))
    if refusal is None and spec.epilogue:
        refusal = "the filter's gradient takes no epilogue"
    if refusal is None and spec.groups > 1 and (spec.channels % UNIT or spec.filters % UNIT):
        refusal = f"groups of {spec.channels} channels and {spec.filters} filters (multiples of {UNIT})"
    return refusal or next((reason for d in gradient_boxes.descriptors(spec, BOX, BOX)
                            if (reason := d.refusal()) is not None), None)


def plan(spec: KernelSpec, options: FilterGradientTmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    if spec.layout is Layout.NCHW:
        return reordered.plan_of(spec, plan(reordered.in_nhwc(spec), options))
    if (refusal := supports(spec) or values_refusal(options)) is None:
        options = resolved(spec, options)
        refusal = tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    descriptors = gradient_boxes.descriptors(spec, BOX, options.pixels, rounded=True)
    direct = partial_sums.is_direct(spec, options.splits)
    arguments, taken = gradient_boxes.arguments(spec, descriptors, direct)
    numbers = make_numbers(spec, options, taken)
    blocks = Blocks(times=numbers.filter_tiles * numbers.column_tiles * spec.groups * options.splits)
    launch = Launch(entry=spec.name, grid=(blocks, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in taken), shared_bytes=numbers.shared_bytes)
    program = replace(partial_sums.product_program(arguments, launch, spec, options.splits, numbers.adding),
                      descriptors=descriptors)
    return KernelPlan(spec=spec, options=options, numbers=numbers, program=program,
                      templates=("filter_gradient_tma/kernel.cu.jinja",), cost=_cost(options, numbers),
                      phrase=f"tiles of {options.filters} filters x {options.columns} taps of channels x "
                             f"{options.pixels} pixels, rounded to TF32, on the tensor cores, "
                             f"{options.warps_m} x {options.warps_n} warps and those that copy, {options.stages} "
                             f"stages, {partial_sums.shares(options.splits, direct)}")


def _cost(options: FilterGradientTmaOptions, numbers: FilterGradientTmaNumbers) -> Cost:
    """Of a warp's part of a stage; a product of matrices counts as the FMAs of a lane that it stands for."""
    fma = numbers.warp_m * numbers.warp_n * options.pixels // 32
    return Cost(unit=f"a warp's {numbers.warp_m} filters x {numbers.warp_n} columns x {options.pixels} pixels",
                warp_loads=0, shuffles=0, fma=fma, registers=numbers.registers, direct_loads=fma)


def space(spec: KernelSpec) -> Iterable[FilterGradientTmaOptions]:
    """Every tile, with shares for a batch of a middling layer, and of smaller and larger ones."""
    return partial_sums.space(spec, candidates)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape) + reordered.instructions(plan.spec, shape, "x", "dy")


ALGORITHM = Algorithm(name="filter_gradient_tma",
                      summary="the filter's gradient of dense layers in TF32, copied by descriptors",
                      options=FilterGradientTmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, lighter=partial_sums.lighter, operation=Operation.FILTER_GRADIENT,
                      float32=ROUNDED, spatial=(2, 3))
