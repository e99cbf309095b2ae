"""``volume_data``: the data gradient of any layer of volumes; a thread for each element, loops over its taps."""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES
from warpconv.codegen.parts.arguments import gradient_arguments
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation


# of a product, with what lanes wait for that lies apart (17 dense layers in float16 and float32, an H100, 2026-11-26)
PRODUCT_SLOTS = {Layout.NCHW: 18, Layout.NHWC: 30}


@dataclass(frozen=True)
class DataGradientOptions:
    """Threads of a block."""

    threads: int = 256


@dataclass(frozen=True)
class DataGradientNumbers:
    """What the template writes besides spec and options."""

    shown: tuple[int, ...]      # places in the border, along each axis, that may show an element
    stepped: tuple[bool, ...]   # along which taps of one phase of the stride are a stride apart: others are passed over


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS, spatial=(3,),
                          operation=Operation.DATA_GRADIENT)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> DataGradientOptions:
    return DataGradientOptions()


def plan(spec: KernelSpec, options: DataGradientOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is None and (not LANES <= options.threads <= BLOCK_THREADS or options.threads % LANES):
        refusal = f"a block of {options.threads} threads (whole warps, {LANES} to {BLOCK_THREADS} are possible)"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    reads = spec.padding_mode.reads_image
    made = DataGradientNumbers(shown=tuple(sum(sides) if reads else 0 for sides in spec.padding),
                               stepped=tuple(step == 1 for step in spec.dilation))
    arguments = gradient_arguments(spec)
    launch = Launch(entry=spec.name, block=(options.threads, 1, 1), arguments=tuple(a.name for a in arguments), grid=(
        Blocks(of=Dimension.N, by=(Dimension.D, Dimension.H, Dimension.W), each=spec.c, add=options.threads - 1,
               per=options.threads, limit=GRID_LIMIT[0]), Blocks(), Blocks()))
    products = spec.filters * spec.reduction // spec.channels
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/data_gradient.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        phrase="a thread for each element of the input's gradient, its taps one after the other, "
               f"{options.threads} threads a block",
        cost=Cost(unit="32 elements", warp_loads=products, shuffles=0, fma=products, registers=48,
                  direct_loads=products))


def space(spec: KernelSpec) -> Iterable[DataGradientOptions]:
    return [DataGradientOptions(threads=threads) for threads in (64, 128, 256, 512)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Two loads and a division with its guard for each product; an element meets the taps of its phase."""
    elements = shape.c * shape.input_pixels
    return elements / 32 * (60 + PRODUCT_SLOTS[shape.layout] * plan.cost.fma / math.prod(shape.stride))


ALGORITHM = Algorithm(name="volume_data", summary="volumes: data gradient, a thread for each element; any layer",
                      options=DataGradientOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, operation=Operation.DATA_GRADIENT, spatial=(3,))
