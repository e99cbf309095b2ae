"""``phases_wgmma``: the data gradient of a strided dense layer by Hopper's warp groups.

    dx[pixel][channel] = sum over the taps that a pixel meets, and filters, of
                         w[filter][channel][tap] * dy[the output][filter]

The pixels of one phase of the stride meet the same taps, at outputs next to each other: a product of matrices for each
phase, channels x pixels over taps and filters, all phases in one launch, those of the most taps first. The tensor
memory accelerator copies boxes of pixels of dy, shifted tap by tap, zeros beside the image, and of the filter into a
ring in shared memory; two groups of four warps multiply them (wgmma), sums in float32. Pixels that no output has seen
become zero. A launch before it puts the filter in the order of its products, but for filters of one tap in 16 bits:
wgmma takes these as they lie, the channels of a filter side by side. The text is for sm_90a.

In NCHW launches before and behind it change the order of dy and dx. float32 elements are rounded to TF32 as they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import ALIGNMENT, C_TYPE, Descriptor
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension, Length
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts import reordered
from warpconv.codegen.parts.arguments import gradient_arguments, image_of, named
from warpconv.codegen.parts.refusals import FLOATS, common_refusal
from warpconv.codegen.parts.wgmma import TARGET
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics, Operation

from .choice import candidates, choice, instructions, products_of, tile_refusal
from .numbers import BOX, TURN_ROWS, TURN_TILE, PhasesWgmmaNumbers, is_turned, make_numbers, slice_of
from .options import PhasesWgmmaOptions

TURNED, TURN = "turned", "turn_filter"      # the filter in the order of the products, and the entry that makes it
MOST_TAPS, MOST_PHASES = 1024, 64
STORED_BYTES = 16               # of dx that a thread stores at once, in 16 bits
ROUNDED = (Numerics.TF32,)


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.groups > 1:
        return f"{spec.groups} groups: a slice of {slice_of(spec)} filters would be of several"
    single = spec.dtype is DType.FLOAT32
    if single and spec.numerics is not Numerics.TF32:
        return f"products of {spec.numerics.value} are not served, only those rounded to tf32"
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=tuple(Layout), borders=(Border.ZEROS, Border.CONSTANT),
                             numerics=ROUNDED if single else (Numerics.FLOAT32,), operation=Operation.DATA_GRADIENT,
                             spatial=(2, 3))
    if refusal is None and (math.prod(spec.taps) > MOST_TAPS or math.prod(spec.stride) > MOST_PHASES):
        refusal = (f"{math.prod(spec.taps)} taps in {math.prod(spec.stride)} phases (at most {MOST_TAPS} in "
                   f"{MOST_PHASES})")
    if refusal is None and not single and spec.c * spec.dtype.itemsize % STORED_BYTES:
        refusal = f"{spec.c} channels, of which {STORED_BYTES} bytes at a time are stored"
    return refusal or next((reason for d in _descriptors(spec, PhasesWgmmaOptions())
                            if (reason := d.refusal()) is not None), None)


def plan(spec: KernelSpec, options: PhasesWgmmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    if spec.layout is Layout.NCHW:
        return reordered.plan_of(spec, plan(reordered.in_nhwc(spec), options))
    refusal = supports(spec) or tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    descriptors, turned = _descriptors(spec, options), is_turned(spec)
    multiples = {"dy": ALIGNMENT, **({"dx": STORED_BYTES} if spec.dtype.is_half else {}),
                 **({} if turned else {"w": ALIGNMENT})}
    arguments = tuple(replace(a, multiple_of=multiples.get(a.name, a.multiple_of)) for a in gradient_arguments(spec))
    if turned:
        arguments += (Argument(name=TURNED, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name),)
    arguments += tuple(Argument(name=d.argument, role=Role.DESCRIPTOR, c_type=C_TYPE) for d in descriptors)
    taken = named(arguments, *(d.argument for d in descriptors), "bias", "dx", "N", *image_of(spec))
    numbers = make_numbers(spec, options, taken)
    turn = Launch(entry=TURN, block=(TURN_TILE, TURN_ROWS, 1), arguments=("w", TURNED), grid=(
        Blocks(times=math.prod(numbers.turn_tiles)), Blocks(), Blocks()))
    # blocks that have no tile end at once
    blocks = Blocks(of=Dimension.N, by=IMAGE[len(spec.taps)], times=numbers.channel_tiles,
                    limit=spec.hardware.multiprocessors)
    product = Launch(entry=spec.name, grid=(blocks, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                     arguments=tuple(a.name for a in taken), shared_bytes=numbers.shared_bytes)
    workspace = Workspace(name=TURNED, bytes_each=spec.w_dtype.itemsize * spec.k * spec.reduction, last_step=1)
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("phases_wgmma/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(turn, product) if turned else (product,),
                        workspaces=(workspace,) if turned else (), descriptors=descriptors),
        cost=_cost(spec, numbers), phrase=_phrase(spec, options, numbers))


def _descriptors(spec: KernelSpec, options: PhasesWgmmaOptions) -> tuple[Descriptor, ...]:
    """Those of dy, and of the filter as the launch before leaves it, or as it is."""
    each, rounded = slice_of(spec), spec.dtype is DType.FLOAT32
    n, *image = (Length(by=(size,)) for size in (Dimension.N, *OUTPUTS[len(spec.taps)]))
    stacked = (options.images, 1) if spec.is_volume else (options.images,)
    gradients = Descriptor(argument="dy_map", of="dy", dtype=spec.dtype, sizes=(Length(each=spec.k), *image[::-1], n),
                           box=(each, options.columns, options.rows, *stacked), rounded=rounded)
    if not is_turned(spec):
        sizes = Length(each=spec.c), Length(each=spec.k)
        return gradients, Descriptor(argument="filter_map", of="w", dtype=spec.dtype, box=(BOX, each), sizes=sizes)
    filters = Descriptor(argument="filter_map", of=TURNED, dtype=spec.dtype, box=(each, options.channels, 1),
                         sizes=(Length(each=spec.k), Length(each=spec.c), Length(each=math.prod(spec.taps))),
                         rounded=rounded)
    return gradients, filters


def _cost(spec: KernelSpec, numbers: PhasesWgmmaNumbers) -> Cost:
    """Of a warp's share of a tile of the phase that meets most taps; a product of matrices counts as the FMAs of a lane
    that it stands for."""
    outputs = numbers.matrices * numbers.shape.sums
    return Cost(unit=f"a warp's {LANES * outputs} pixels of channels", warp_loads=0, shuffles=0,
                fma=products_of(spec) * outputs, registers=numbers.more_registers,
                direct_loads=products_of(spec) * outputs)


def _phrase(spec: KernelSpec, options: PhasesWgmmaOptions, numbers: PhasesWgmmaNumbers) -> str:
    images = f"{options.images} x " if options.images > 1 else ""
    return (f"tiles of {options.channels} channels x {images}{options.rows} x {options.columns} pixels of a phase"
            f"{', factors rounded to TF32,' if spec.dtype is DType.FLOAT32 else ''} by two warp groups and a copying "
            f"thread, {options.stages} stages, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[PhasesWgmmaOptions]:
    """Every tile, of a plane of middling size."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape) + reordered.instructions(plan.spec, shape, "dy", "dx")


ALGORITHM = Algorithm(name="phases_wgmma",
                      summary="data gradient of strided dense layers: products of matrices by Hopper's warp groups",
                      options=PhasesWgmmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, operation=Operation.DATA_GRADIENT, float32=ROUNDED, spatial=(2, 3))
