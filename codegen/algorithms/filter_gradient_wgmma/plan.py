"""``filter_gradient_wgmma``: the gradient of a dense layer's filter by Hopper's warp groups.

    dw[filter][tap][channel] = sum over output pixels of dy[pixel][filter] * x[pixel's window][tap][channel]

A block makes a tile of filters x (tap, channel) from a share of the batch's pixels. The tensor memory accelerator
copies boxes of 64 channels of both arrays into a ring in shared memory, of x tap by tap, walking windows over rows and
images (im2col); wgmma takes both with their pixels one below the other, as they lie in NHWC, sums in float32. Each
share's sums go to a workspace, and a second launch adds the shares in a fixed order. The text is for sm_90a.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import ALIGNMENT, C_TYPE, Descriptor
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension, Length
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts import partial_sums, reordered
from warpconv.codegen.parts.arguments import gradient_arguments, named, outputs_of
from warpconv.codegen.parts.refusals import ZEROS, common_refusal
from warpconv.codegen.parts.wgmma import TARGET, walking
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .choice import candidates, choice, instructions, tile_refusal
from .numbers import BOX, FilterGradientWgmmaNumbers, make_numbers
from .options import FilterGradientWgmmaOptions


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.groups > 1:
        return f"{spec.groups} groups: a box of {BOX} channels would be of several"
    borders = ZEROS if any(map(any, spec.padding)) else tuple(Border)
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=tuple(Layout), borders=borders,
                             operation=Operation.FILTER_GRADIENT, spatial=(2, 3))
    if refusal is None and spec.epilogue:
        refusal = "the filter's gradient takes no epilogue"
    return refusal or next((reason for d in _descriptors(spec, FilterGradientWgmmaOptions())
                            if (reason := d.refusal()) is not None), None)


def plan(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    if spec.layout is Layout.NCHW:
        return reordered.plan_of(spec, plan(reordered.in_nhwc(spec), options))
    refusal = supports(spec) or tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    descriptors = _descriptors(spec, options)
    arguments = tuple(replace(a, multiple_of=ALIGNMENT) if a.name in ("x", "dy") else a
                      for a in gradient_arguments(spec))
    arguments += (partial_sums.argument(),)
    arguments += tuple(Argument(name=d.argument, role=Role.DESCRIPTOR, c_type=C_TYPE) for d in descriptors)
    taken = named(arguments, "x_map", "dy_map", partial_sums.PARTS, "N", *outputs_of(spec))
    numbers = make_numbers(spec, options, taken)
    elements = spec.k * spec.reduction
    blocks = Blocks(times=numbers.filter_tiles * numbers.column_tiles * options.splits)
    launch = Launch(entry=spec.name, grid=(blocks, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in taken), shared_bytes=numbers.shared_bytes)
    program = Program(arguments=arguments, steps=(launch, partial_sums.launch(elements, "dw", numbers.sum_rows)),
                      workspaces=(partial_sums.workspace(elements, options.splits),), descriptors=descriptors)
    return KernelPlan(spec=spec, options=options, numbers=numbers, program=program,
                      templates=("filter_gradient_wgmma/kernel.cu.jinja",), cost=_cost(options, numbers),
                      phrase=f"tiles of {options.filters} filters x {options.columns} taps of channels x "
                             f"{options.pixels} pixels by two warp groups, {options.stages} stages, "
                             f"{numbers.shared_bytes} bytes of shared memory, in {options.splits} shares of the "
                             "pixels, whose sums are added then")


def _descriptors(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> tuple[Descriptor, ...]:
    """Those of dy, and of x: its pixels, or walks of windows."""
    n, *image = (Length(by=(size,)) for size in (Dimension.N, *IMAGE[len(spec.taps)]))
    outputs = Length(by=(Dimension.N, *OUTPUTS[len(spec.taps)]))
    box = (BOX, options.pixels)
    gradients = Descriptor(argument="dy_map", of="dy", dtype=spec.dtype, sizes=(Length(each=spec.k), outputs), box=box)
    if spec.is_pointwise:
        return replace(gradients, argument="x_map", of="x", sizes=(Length(each=spec.c), outputs)), gradients
    sizes = (Length(each=spec.c), *image[::-1], n)
    windows = Descriptor(argument="x_map", of="x", dtype=spec.dtype, sizes=sizes, box=box)
    return walking(windows, spec), gradients


def _cost(options: FilterGradientWgmmaOptions, numbers: FilterGradientWgmmaNumbers) -> Cost:
    """Of a warp's part of a stage; a product of matrices counts as the FMAs of a lane that it stands for."""
    fma = numbers.matrices * numbers.shape.sums * options.pixels
    return Cost(unit=f"a warp's {numbers.matrices * numbers.shape.sums * 32} sums x {options.pixels} pixels",
                warp_loads=0, shuffles=0, fma=fma, registers=numbers.more_registers, direct_loads=fma)


def space(spec: KernelSpec) -> Iterable[FilterGradientWgmmaOptions]:
    """Every tile, with shares for a batch of a middling layer, and of smaller and larger ones."""
    return partial_sums.space(spec, candidates)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape) + reordered.instructions(plan.spec, shape, "x", "dy")


ALGORITHM = Algorithm(name="filter_gradient_wgmma",
                      summary="the filter's gradient of dense layers by Hopper's warp groups",
                      options=FilterGradientWgmmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, lighter=partial_sums.lighter, operation=Operation.FILTER_GRADIENT,
                      spatial=(2, 3))
