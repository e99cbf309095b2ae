"""``pointwise``: 1x1 layers of float32 in NCHW on Hopper's warp groups, rounded to TF32.

wgmma takes TF32 from shared memory only where the products of an output lie side by side, which in NCHW are the
channels of a pixel, a plane apart. Its first factor may come from registers, though: a block copies slices of 32
channels of an image's pixels as they lie in x, by descriptor, and rounded on the way; a lane loads what the instruction
wants of two pixels, four words for eight channels, and filters come from shared memory, their channels in the order of
these loads. x is read once for as many filters as a tile has, and nothing of it is written.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import ALIGNMENT, C_TYPE, Descriptor
from warpconv.codegen.dimension import Dimension, Length
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import LANES
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.parts.arguments import layer_arguments, named
from warpconv.codegen.parts.refusals import common_refusal
from warpconv.codegen.parts.wgmma import COLUMN_UNIT, LEAST_STAGES, MORE_REGISTERS, MOST_COLUMNS, TARGET
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import candidates, choice, instructions
from .numbers import (PLANE_PIXELS, SIDE_THREADS, SLICE, PointwiseNumbers, make_numbers, planned_registers,
                      shared_bytes, steps_of)
from .options import PointwiseOptions

FILTER = "filter"               # the program's name for the prepared filter
MOST_FILTER_BLOCKS = 1024
LEAST_FILTERS = 4
ROUNDED = (Numerics.TF32,)


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.dtype is DType.FLOAT32 and spec.numerics is not Numerics.TF32:
        return f"products of {spec.numerics.value} are not served, only those rounded to tf32"
    if spec.groups > 1:
        return f"{spec.groups} groups: only whole layers are served"
    if spec.k < LEAST_FILTERS:
        return f"{spec.k} filters, at least {LEAST_FILTERS} are served"
    refusal = common_refusal(spec, layouts=(Layout.NCHW,), numerics=ROUNDED, residual=True)
    if refusal is None and (spec.taps != (1, 1) or spec.stride != (1, 1) or any(map(any, spec.padding))):
        refusal = "only 1x1 layers of stride 1 without padding are served"
    return refusal


def plan(spec: KernelSpec, options: PointwiseOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    refusal = supports(spec) or _tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    descriptors = _descriptors(spec, options)
    arguments = _arguments(spec, descriptors)
    taken = named(arguments, *(d.argument for d in descriptors), "bias", "residual", "y", "N", "P", "Q")
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, numbers),), preparation=_preparation(numbers),
                      descriptors=descriptors)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("pointwise/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(options, numbers))


def _tile_refusal(spec: KernelSpec, options: PointwiseOptions) -> str | None:
    """Whether the instruction, registers and shared memory have room for the tile."""
    if options.filters % COLUMN_UNIT or not COLUMN_UNIT <= options.filters <= MOST_COLUMNS:
        return f"filters = {options.filters} (a multiple of {COLUMN_UNIT}, at most {MOST_COLUMNS})"
    if options.matrices < 1:
        return f"matrices = {options.matrices} (at least 1)"
    if options.stages < LEAST_STAGES:
        return f"stages = {options.stages} (at least {LEAST_STAGES})"
    needed = planned_registers(options)
    if needed > MORE_REGISTERS:
        return f"about {needed} registers a thread (at most {MORE_REGISTERS}): fewer filters or matrices"
    shared = shared_bytes(options)
    if shared > spec.hardware.shared_block:
        return f"{shared} bytes of shared memory (at most {spec.hardware.shared_block}): fewer stages or filters"
    return None


def _descriptors(spec: KernelSpec, options: PointwiseOptions) -> tuple[Descriptor, ...]:
    """Of pixels as NCHW has them, 32 of 32 channels at a time, and of the rows of filters."""
    pixels = Length(by=(Dimension.H, Dimension.W))
    x = Descriptor(argument="x_map", of="x", dtype=spec.dtype, sizes=(pixels, Length(each=spec.c), Length(
        by=(Dimension.N,))), box=(PLANE_PIXELS, SLICE, 1), rounded=True)
    filters = Descriptor(argument="filter_map", of=FILTER, dtype=spec.dtype, box=(SLICE, options.filters, 1), sizes=(
        Length(each=SLICE), Length(each=spec.k), Length(each=steps_of(spec))))
    if spec.index_bits == 64:
        x = replace(x, windows=Length(by=(Dimension.N, Dimension.P, Dimension.Q)))
    return x, filters


def _arguments(spec: KernelSpec, descriptors: tuple[Descriptor, ...]) -> tuple[Argument, ...]:
    """The layer's, the prepared filter, the descriptors, whose arrays begin at 16 bytes."""
    arguments = (*layer_arguments(spec), Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name))
    described = {d.of for d in descriptors}
    aligned = tuple(replace(a, multiple_of=ALIGNMENT) if a.name in described else a for a in arguments)
    return aligned + tuple(Argument(name=d.argument, role=Role.DESCRIPTOR, c_type=C_TYPE) for d in descriptors)


def _launch(spec: KernelSpec, numbers: PointwiseNumbers) -> Launch:
    """A block for each multiprocessor, or for each tile where there are fewer; blocks without a tile end at once."""
    tiles = Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), times=numbers.filter_tiles,
                   limit=spec.hardware.multiprocessors)
    return Launch(entry=spec.name, grid=(tiles, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _preparation(numbers: PointwiseNumbers) -> Preparation:
    """The filter as [slice][filter][channel], rounded, channels in the order of a lane's loads."""
    grid = (Blocks(times=-(-numbers.prepared // SIDE_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=4 * numbers.prepared))


def _cost(spec: KernelSpec, options: PointwiseOptions, numbers: PointwiseNumbers) -> Cost:
    """Of a warp's share of a tile; a product of matrices counts as the FMAs of a lane that it stands for."""
    outputs, channels = options.matrices * numbers.shape.sums, numbers.steps * SLICE
    return Cost(unit=f"a warp's {LANES * outputs} outputs", warp_loads=options.matrices * channels // 2, shuffles=0,
                fma=channels * outputs, registers=numbers.more_registers, direct_loads=spec.reduction * outputs)


def _phrase(options: PointwiseOptions, numbers: PointwiseNumbers) -> str:
    return (f"tiles of {options.filters} filters x {numbers.tile_pixels} pixels of an image, factors rounded to TF32, "
            f"pixels from registers, by two warp groups and a copying thread, {options.stages} stages, "
            f"{numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[PointwiseOptions]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="pointwise", summary="1x1, float32 rounded to TF32, NCHW: pixels to warp groups' registers",
                      options=PointwiseOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, float32=ROUNDED)
