"""``filter_gradient_wgmma``: the gradient of a dense layer's filter by Hopper's warp groups.

    dw[filter][tap][channel] = sum over output pixels of dy[pixel][filter] * x[pixel's window][tap][channel]

A block makes a tile of filters x (tap, channel) from a share of the batch's pixels. The tensor memory accelerator
copies boxes of 64 channels of both arrays into a ring in shared memory, of x tap by tap, walking windows over rows and
images (im2col); wgmma takes both with their pixels one below the other, as they lie in NHWC, sums in float32. Each
share's sums go to a workspace, and a second launch adds the shares in a fixed order. Gradients of filters of one tap in
one share are written by the product itself. The text is for sm_90a.

In NCHW launches before it bring both arrays to NHWC, but for 1x1 layers without strides (``form=planes``): the pixels
of a channel lie side by side there, as wgmma wants its products. float32 elements, which it takes in no other order,
are served in that form alone, rounded to TF32 as they are copied.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import Descriptor
from warpconv.codegen.dimension import Dimension, Length
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts import gradient_boxes, partial_sums, reordered
from warpconv.codegen.parts.refusals import FLOATS, ZEROS, common_refusal
from warpconv.codegen.parts.wgmma import TARGET
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics, Operation

from .choice import candidates, choice, form_refusal, instructions, tile_refusal
from .numbers import BOX, FilterGradientWgmmaNumbers, make_numbers, stage_pixels
from .options import FilterGradientWgmmaOptions, Form

ROUNDED = (Numerics.TF32,)


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.groups > 1:
        return f"{spec.groups} groups: a box of {BOX} channels would be of several"
    borders = ZEROS if any(map(any, spec.padding)) else tuple(Border)
    single = spec.dtype is DType.FLOAT32
    if single and spec.numerics is not Numerics.TF32:
        return f"products of {spec.numerics.value} are not served, only those rounded to tf32"
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=tuple(Layout), borders=borders,
                             numerics=ROUNDED if single else (Numerics.FLOAT32,),
                             operation=Operation.FILTER_GRADIENT, spatial=(2, 3))
    if refusal is None and spec.epilogue:
        refusal = "the filter's gradient takes no epilogue"
    if refusal is None and form_refusal(spec, Form.PLANES) is not None:
        refusal = _form_refusal(spec, FilterGradientWgmmaOptions())
    return refusal


def _form_refusal(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> str | None:
    """Why pixels cannot come so, in words, or None."""
    return form_refusal(spec, options.form) or next((reason for d in _descriptors(spec, options)
                                                     if (reason := d.refusal()) is not None), None)


def plan(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    if spec.layout is Layout.NCHW and options.form is Form.CHANNELS:
        return reordered.plan_of(spec, plan(reordered.in_nhwc(spec), options))
    refusal = supports(spec) or _form_refusal(spec, options) or tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    descriptors = _descriptors(spec, options)
    direct = partial_sums.is_direct(spec, options.splits)
    arguments, taken = gradient_boxes.arguments(spec, descriptors, direct)
    numbers = make_numbers(spec, options, taken)
    blocks = Blocks(times=numbers.filter_tiles * numbers.column_tiles * options.splits)
    launch = Launch(entry=spec.name, grid=(blocks, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in taken), shared_bytes=numbers.shared_bytes)
    program = replace(partial_sums.product_program(arguments, launch, spec, options.splits, numbers.adding),
                      descriptors=descriptors)
    return KernelPlan(spec=spec, options=options, numbers=numbers, program=program,
                      templates=("filter_gradient_wgmma/kernel.cu.jinja",), cost=_cost(options, numbers),
                      phrase=f"tiles of {options.filters} filters x {options.columns} taps of channels x "
                             f"{numbers.pixels} pixels{' of an image in NCHW' if numbers.planes else ''}"
                             f"{', rounded to TF32,' if spec.dtype is DType.FLOAT32 else ''} by two warp groups, "
                             f"{options.stages} stages, {numbers.shared_bytes} bytes of shared memory, "
                             f"{partial_sums.shares(options.splits, direct)}")


def _descriptors(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> tuple[Descriptor, ...]:
    """Those of dy, and of x: its pixels, or walks of windows."""
    if options.form is Form.CHANNELS:
        return gradient_boxes.descriptors(spec, BOX, options.pixels)
    plane, box = Length(by=(Dimension.P, Dimension.Q)), (stage_pixels(spec, options), BOX, 1)
    return tuple(Descriptor(argument=f"{name}_map", of=name, dtype=spec.dtype,
                            sizes=(plane, Length(each=each), Length(by=(Dimension.N,))), box=box,
                            rounded=spec.dtype is DType.FLOAT32)
                 for name, each in (("x", spec.c), ("dy", spec.k)))


def _cost(options: FilterGradientWgmmaOptions, numbers: FilterGradientWgmmaNumbers) -> Cost:
    """Of a warp's part of a stage; a product of matrices counts as the FMAs of a lane that it stands for."""
    fma = numbers.matrices * numbers.shape.sums * numbers.pixels
    return Cost(unit=f"a warp's {numbers.matrices * numbers.shape.sums * 32} sums x {numbers.pixels} pixels",
                warp_loads=0, shuffles=0, fma=fma, registers=numbers.more_registers, direct_loads=fma)


def space(spec: KernelSpec) -> Iterable[FilterGradientWgmmaOptions]:
    """Every tile, with shares for a batch of a middling layer, and of smaller and larger ones."""
    return partial_sums.space(spec, candidates)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    found = instructions(plan.spec, plan.options, shape)
    in_order = plan.options.form is Form.PLANES
    return found if in_order else found + reordered.instructions(plan.spec, shape, "x", "dy")


ALGORITHM = Algorithm(name="filter_gradient_wgmma",
                      summary="the filter's gradient of dense layers by Hopper's warp groups",
                      options=FilterGradientWgmmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, lighter=partial_sums.lighter, operation=Operation.FILTER_GRADIENT,
                      float32=ROUNDED, spatial=(2, 3))
