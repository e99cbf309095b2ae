"""Counting what a kernel does: its emitted text, executed on the CPU device in CHECK mode."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan, Launch, Role
from warpconv.codegen.registry import algorithm
from warpconv.codegen.resolution import plan as plan_spec
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Operation
from warpconv.runtime import arrays
from warpconv.runtime.arrays.elements import drawn, numpy_dtype
from warpconv.runtime.devices.cpu.report import BufferCounts, LaunchReport, Mode

from .gradients import compare_gradient
from .reference import Accuracy, compare

# Seconds that an execution may take, and what one thread of the CPU device takes in CHECK mode: 25 to 200 ns a product
# where each lane has outputs of its own, 1.2 to 1.8 us a modelled warp instruction of tiles that may be mostly empty.
BUDGET = 1.2
PATIENCE = 10 * BUDGET      # where nothing smaller can be executed
SECONDS_A_PRODUCT = 1e-7
SECONDS_AN_INSTRUCTION = 1.5e-6
SECONDS_A_GRADIENTS_PRODUCT = 3e-7
WIDEST_VECTOR = 16          # elements of a load
FEWEST_CHANNELS = 2         # below, a planner may choose another form


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Counts of one execution, summed over the program's launches, and how exact the result was."""

    shape: ConvShape
    buffers: dict[str, BufferCounts]
    shuffles: int
    shared_requests: int
    shared_wavefronts: int
    constant_requests: int
    accuracy: Accuracy


@dataclass(frozen=True, kw_only=True)
class UnitMeasurement:
    """Counts of one unit of the plan's cost (what one warp does, away from the image's edges), per warp.

    ``plan`` is the one executed: that of the layer or, where that would take too long, of one with fewer channels and
    filters but the same plan values.
    """

    plan: KernelPlan
    warp_loads: float
    shuffles: float


def measure(plan: KernelPlan, shape: ConvShape, *, seed: int = 0, source: str | None = None) -> Measurement:
    """Execute a plan's text, or ``source`` in its place, on random data and count.

    Raises ToolNotFound without a C++ compiler, KernelFault where the text breaks a rule of the machine.
    """
    from warpconv.runtime.build.pipeline import Text
    from warpconv.runtime.devices.cpu import backend
    from warpconv.runtime.call.kernel import Kernel
    given = plan if source is None else Text.given(plan.spec, plan.program, source)
    loaded, text = backend.load(given, mode=Mode.CHECK)
    if plan.spec.operation is not Operation.FORWARD:
        accuracy = _execute_gradient(plan, shape, loaded, seed)
        buffers, totals = summed(loaded.reports)
        return Measurement(shape=shape, buffers=buffers, accuracy=accuracy, **totals)
    kernel = Kernel(plan.spec, plan.program, loaded, source=text, plan=plan, padding_value=shape.padding_value)
    x, w, bias, residual = operands(plan, shape, seed)
    output = kernel(x, w, bias, residual=residual)
    accuracy = compare(output, x, w, shape, bias=bias, residual=residual, epilogue=plan.spec.epilogue,
                       numerics=plan.spec.numerics)
    buffers, totals = summed(loaded.reports)
    return Measurement(shape=shape, buffers=buffers, accuracy=accuracy, **totals)


def _execute_gradient(plan: KernelPlan, shape: ConvShape, loaded: Any, seed: int) -> Accuracy:
    """One call of a gradient's kernel on random arrays."""
    from warpconv.runtime.call.checks import Call
    rng, spec, stored = np.random.default_rng(seed), plan.spec, shape.layout.stored
    sizes = {"x": stored(shape.input_shape), "dx": stored(shape.input_shape), "dy": stored(shape.output_shape),
             "w": shape.weight_shape, "dw": shape.weight_shape, "db": (shape.k,), "bias": (shape.c,)}
    names = {argument.name: argument.role for argument in plan.program.arguments if argument.name in sizes}
    target, = (name for name, role in names.items() if role is Role.OUTPUT)
    given = {name: drawn(rng, sizes[name], spec.dtype) for name in names if name != target}
    made = np.full(sizes[target], np.nan, np.float32).astype(numpy_dtype(spec.dtype))
    loaded.run(Call(shape, {name: arrays.view(array, name) for name, array in {**given, target: made}.items()}), None,
               None)
    return compare_gradient(made, given, shape, spec)


def operands(plan: KernelPlan, shape: ConvShape, seed: int = 0) -> tuple[np.ndarray | None, ...]:
    """Random input (axes in the layout's order), weight and, where the epilogue adds them, bias and residual (else
    None), of the layer's element types.

    Raises ArgumentTypeError for bfloat16 without ml_dtypes.
    """
    rng = np.random.default_rng(seed)
    x, w, bias = (drawn(rng, size, dtype) for size, dtype in ((shape.layout.stored(shape.input_shape), shape.dtype),
                                                              (shape.weight_shape, shape.w_dtype),
                                                              ((shape.k,), shape.bias_dtype)))
    steps = plan.spec.epilogue
    residual = None
    if Epilogue.RESIDUAL in steps:
        residual = drawn(rng, shape.layout.stored(shape.output_shape), shape.y_dtype)
    return x, w, bias if Epilogue.BIAS in steps else None, residual


def affordable(plan: KernelPlan, shape: ConvShape) -> bool:
    """Whether an execution of ``shape`` in CHECK mode takes about a second at most, by ``seconds``."""
    return seconds(plan, shape) <= BUDGET


def seconds(plan: KernelPlan, shape: ConvShape) -> float:
    """About how long the CPU device takes to execute ``shape`` in CHECK mode. A planner's estimate does not tell it for
    small images: that is of a GPU, most of which they leave idle."""
    if _tiles_the_output(plan):
        return SECONDS_A_PRODUCT * shape.macs
    if plan.spec.operation is not Operation.FORWARD:        # whose estimates are of many images' work
        return SECONDS_A_GRADIENTS_PRODUCT * shape.macs
    return SECONDS_AN_INSTRUCTION * algorithm(plan.spec.algorithm).estimate(plan, shape)


def measurable(plan: KernelPlan, shape: ConvShape, *, as_it_is: bool = False) -> tuple[KernelPlan, ConvShape] | None:
    """The plan and the layer or, where that would take too long, the same plan values for fewer channels and filters on
    an image of two by two blocks, or of one, or where the plan takes no such image, on one of the layer's or a part of
    it. The quickest of these where all take more than a second; None if all take long. ``as_it_is``: of other sizes
    only, since the text is given."""
    smaller = plan if as_it_is or affordable(plan, shape) else reduced(plan)
    tries = [(plan, shape), (smaller, smaller.spec.example_shape(d=shape.depths[0], h=shape.h, w=shape.w))]
    if _tiles_the_output(smaller):
        tries[1:1] = [(smaller, _served(smaller, blocks_shape(smaller, count, count))) for count in (2, 1)]
    else:
        tries += [(smaller, _part_of(smaller, shape, part)) for part in (2, 4, 8)]
    taken = [pair for pair in tries if pair[0].program.refusal(pair[1]) is None and seconds(*pair) <= PATIENCE]
    quickest = min(taken, key=lambda pair: seconds(*pair), default=None)
    return next((pair for pair in taken if affordable(*pair)), quickest)


def _part_of(plan: KernelPlan, shape: ConvShape, part: int) -> ConvShape:
    """One image of so many times fewer elements along each axis, as far as a filter fits in it."""
    d, h, w = (max(1, extent - sum(sides), size // part) for extent, sides, size in zip(
        (1, *plan.spec.extents)[-3:], ((0, 0), *plan.spec.padding)[-3:], (1, *shape.image)[-3:]))
    return plan.spec.example_shape(d=d, h=h, w=w)


def measure_unit(plan: KernelPlan, *, seed: int = 0, source: str | None = None) -> UnitMeasurement | None:
    """Count what one warp does for a unit of the plan's cost; None where the program is not one launch over P and Q
    (over volumes, where a block's first and last planes cost otherwise), asks for other sizes than those of whole
    blocks, or would take long.

    Four images are executed, one or two blocks wide and one or two high. In f(2, 2) - f(2, 1) - f(1, 2) + f(1, 1) all
    that happens along edges and corners cancels, and one block's interior is left. Raises as measure().
    """
    if not _tiles_the_output(plan) or plan.spec.is_volume or plan.spec.operation is not Operation.FORWARD:
        return None
    plan = _as_in_a_large_layer(plan)
    plan = reduced(plan) if source is None else plan
    if any(plan.program.refusal(blocks_shape(plan, tall, wide)) for tall in (1, 2) for wide in (1, 2)):
        return None
    if seconds(plan, blocks_shape(plan, 2, 2)) > PATIENCE:
        return None
    counts = {}
    for tall in (1, 2):
        for wide in (1, 2):
            found = measure(plan, blocks_shape(plan, tall, wide), seed=seed, source=source)
            counts[tall, wide] = np.array([found.buffers["x"].load_requests, found.shuffles])
    loads, shuffles = counts[2, 2] - counts[2, 1] - counts[1, 2] + counts[1, 1]
    launch = plan.program.steps[0]
    # blocks over the same outputs: of other filters, or rows
    beside = math.prod(blocks.times for blocks in launch.grid[:2])
    warps = -(-math.prod(launch.block) // 32) * launch.grid_of(blocks_shape(plan, 1, 1))[2] * beside
    return UnitMeasurement(plan=plan, warp_loads=float(loads) / warps, shuffles=float(shuffles) / warps)


def _as_in_a_large_layer(plan: KernelPlan) -> KernelPlan:
    """The plan with the blocks that it launches where a GPU is full: unit for unit the planned ones. A program of
    several steps as it is: no rule fills a GPU with those."""
    if not _tiles_the_output(plan):
        return plan
    launch = plan.program.steps[0]
    grid = tuple(replace(blocks, fill=None) for blocks in launch.grid)
    return replace(plan, program=replace(plan.program, steps=(replace(launch, grid=grid),)))


def reduced(plan: KernelPlan) -> KernelPlan:
    """The plan, or one of the same values for fewer filters and channels, so that two by two blocks are affordable. The
    plan as it is, too, where its algorithm cannot serve fewer."""
    if _tiles_the_output(plan) and affordable(plan, blocks_shape(plan, 2, 2)):
        return plan
    spec, smaller = plan.spec, plan
    filters = getattr(plan.options, "k_tile", 1)
    if spec.layout is Layout.NHWC:      # the filters that lie side by side in a block
        filters = min(spec.filters * spec.groups, filters * plan.program.steps[0].block[0])
    if spec.groups == 1 and spec.c <= FEWEST_CHANNELS and spec.k == filters:
        return plan
    for channels in _halved(spec.channels):
        try:
            smaller = _as_in_a_large_layer(plan_spec(replace(spec, groups=1, c=channels, k=filters), plan.settings()))
        except UnsupportedSpec:
            return plan
        if _tiles_the_output(smaller) and affordable(smaller, blocks_shape(smaller, 2, 2)):
            break
    return smaller


def blocks_shape(plan: KernelPlan, tall: int, wide: int) -> ConvShape:
    """One image whose outputs that touch no padding fill ``tall`` x ``wide`` blocks; all its outputs where the plan
    refuses that size."""
    spec, launch = plan.spec, plan.program.steps[0]
    sizes = [(count * blocks.per - 1) * stride + (taps - 1) * dilation + 1
             for count, blocks, stride, taps, dilation in zip((tall, wide), (launch.grid[1], launch.grid[0]),
                                                              spec.stride[-2:], (spec.r, spec.s), spec.dilation[-2:])]
    shape = spec.example_shape(n=1, h=sizes[0], w=sizes[1])
    if plan.program.refusal(shape) is None:
        return shape
    h, w = (max(1, size - sum(sides)) for size, sides in zip(sizes, spec.padding[-2:]))
    return spec.example_shape(n=1, h=h, w=w)


def _served(plan: KernelPlan, shape: ConvShape) -> ConvShape:
    """The shape, or the next wider one that the plan serves: whole blocks need not be of whole vectors."""
    wider = (plan.spec.example_shape(n=1, h=shape.h, w=shape.w + more) for more in range(WIDEST_VECTOR))
    return next((made for made in wider if plan.program.refusal(made) is None), shape)


def _tiles_the_output(plan: KernelPlan) -> bool:
    steps = plan.program.steps
    return (len(steps) == 1 and isinstance(steps[0], Launch) and steps[0].grid[0].of is Dimension.Q
            and steps[0].grid[1].of is Dimension.P)


def _halved(channels: int) -> list[int]:
    counts = [channels]
    while counts[-1] > FEWEST_CHANNELS:
        counts.append(max(FEWEST_CHANNELS, counts[-1] // 2))
    return counts


def summed(reports: list[LaunchReport]) -> tuple[dict[str, BufferCounts], dict[str, int]]:
    """The counts of several launches: by buffer, and the others by name."""
    buffers: dict[str, BufferCounts] = {}
    for report in reports:
        for name, counts in report.buffers.items():
            buffers[name] = buffers.get(name, BufferCounts()) + counts
    return buffers, {name: sum(getattr(report, name) for report in reports)
                     for name in ("shuffles", "shared_requests", "shared_wavefronts", "constant_requests")}
