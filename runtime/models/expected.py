"""What a layer is expected to take, by its plan's estimate at an H200's rates, and what it takes at least."""

from __future__ import annotations

import functools
import math

from warpconv.codegen import adjoint
from warpconv.codegen.batch import batch_matters
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.hardware import DEFAULT_ARCH, H200, H200_COPY, Arch
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import algorithm
from warpconv.codegen.request import Request
from warpconv.codegen.resolution import resolve
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Operation

SLOTS = 9e11            # issue slots of an H200 in a second (docs/results/regret)
BYTES = H200_COPY       # and bytes that a copy moves
LAUNCH = 2e-6           # seconds that no call is below
# Floating-point operations a second: SGEMM and cuBLAS in float16 (docs/results), and dp4a, four products in an FMA's
# place
RATES = {"float": 5.1e13, "half": 7.9e14, "integer": 2.0e14}


def seconds(plan: KernelPlan, shape: ConvShape) -> float:
    """Of one call, by the planner's estimate for this very batch, and no less than its bytes or a launch take.

    Where an estimate is not made for small batches (batch.py) it is spread over the multiprocessors that have a block.
    """
    row = algorithm(plan.spec.algorithm)
    made, layer = (plan, shape) if plan.forward is None else (plan.forward, adjoint.layer_of(shape))
    slots = row.slots_of(made, layer)
    if not batch_matters(layer):
        blocks = max((math.prod(launch.grid_of(shape)) for launch in plan.program.launches), default=1)
        slots *= max(1.0, H200.multiprocessors / blocks)
    return max(slots / SLOTS, moved(shape, plan.spec.epilogue) / BYTES, LAUNCH)


def floor(shape: ConvShape, epilogue: tuple[Epilogue, ...] = ()) -> float:
    """Seconds that a call takes at least on an H200: for its bytes, and for its products at the best rate there is."""
    integer = shape.dtype.is_integer and shape.w_dtype.is_integer
    kind = "integer" if integer else "half" if shape.dtype.is_half else "float"
    return max(moved(shape, epilogue) / BYTES, 2.0 * shape.macs / RATES[kind])


def moved(shape: ConvShape, epilogue: tuple[Epilogue, ...] = ()) -> int:
    """Least bytes through device memory, a residual's among them."""
    return shape.bytes_moved + (outputs(shape) if Epilogue.RESIDUAL in epilogue else 0)


def outputs(shape: ConvShape) -> int:
    """Bytes of the output."""
    return shape.y_dtype.itemsize * math.prod(shape.output_shape)


@functools.lru_cache(maxsize=4096)
def by_rule(shape: ConvShape, epilogue: tuple[Epilogue, ...], operation: Operation = Operation.FORWARD,
            arch: Arch = DEFAULT_ARCH, numerics: Numerics = Numerics.FLOAT32) -> float:
    """Seconds of the plan that the rule chooses. Raises UnsupportedSpec where there is none."""
    request = Request.of(shape, arch=arch, epilogue=epilogue, operation=operation, numerics=numerics)
    return seconds(resolve(request).plan, shape)


def residual_pays(shape: ConvShape, epilogue: tuple[Epilogue, ...]) -> bool:
    """Whether the kernel that adds a residual takes less time than one without what begins there, followed by a pass
    over sum, residual and result of its own. Not every algorithm reads a residual."""
    before = epilogue[:epilogue.index(Epilogue.RESIDUAL)]
    try:
        return by_rule(shape, epilogue) <= by_rule(shape, before) + 3 * outputs(shape) / BYTES
    except WarpconvError:       # no kernel at all: the build says so
        return False


def bytes_pay(shape: ConvShape, epilogue: tuple[Epilogue, ...], numerics: Numerics, wide: ConvShape,
              wide_epilogue: tuple[Epilogue, ...]) -> bool:
    """Whether a layer from bytes to bytes takes less time than ``wide``, the same of floating-point numbers, with the
    passes that make these of the bytes and bytes of the output."""
    images = math.prod(shape.input_shape) * (shape.dtype.itemsize + wide.dtype.itemsize)
    try:
        mine = by_rule(shape, epilogue, numerics=numerics)
        return mine <= by_rule(wide, wide_epilogue) + (images + outputs(wide) + outputs(shape)) / BYTES
    except WarpconvError:       # no kernel of one of them
        return False


def border_pays(shape: ConvShape, padded: ConvShape, epilogue: tuple[Epilogue, ...]) -> bool:
    """Whether a layer with a border of its own takes less time than ``padded``, which has none, with the pass that
    writes the larger image. Not every algorithm has every border."""
    passed = (math.prod(shape.input_shape) + math.prod(padded.input_shape)) * shape.dtype.itemsize
    try:
        return by_rule(shape, epilogue) <= by_rule(padded, epilogue) + passed / BYTES
    except WarpconvError:       # no kernel for that border
        return False
