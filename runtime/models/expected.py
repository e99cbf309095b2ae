"""What a layer is expected to take, by its plan's estimate at an H200's rates, and what it takes at least."""

from __future__ import annotations

import functools

from warpconv.codegen import adjoint
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.hardware import DEFAULT_ARCH, H200_COPY, Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import algorithm
from warpconv.codegen.request import Request
from warpconv.codegen.select import resolve
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Operation

SLOTS = 9e11            # issue slots of an H200 in a second (docs/results/regret)
BYTES = H200_COPY       # and bytes that a copy moves
# Floating-point operations a second: SGEMM (docs/results), the best of cuDNN's dense 16-bit layers (docs/results/networks),
# and dp4a, which does four products in an FMA's place
RATES = {"float": 5.1e13, "half": 6.0e14, "integer": 2.0e14}


def seconds(plan: KernelPlan, shape: ConvShape) -> float:
    """Of one call, by the planner's estimate for this very batch, and at least by its bytes."""
    row = algorithm(plan.spec.algorithm)
    if plan.forward is not None:
        slots = row.estimate(plan.forward, adjoint.layer_of(shape))
    else:
        slots = row.estimate(plan, shape)
    return max(row.pace * slots / SLOTS, moved(shape, plan.spec.epilogue) / BYTES)


def floor(shape: ConvShape, epilogue: tuple[Epilogue, ...] = ()) -> float:
    """Seconds that a call takes at least on an H200: for its bytes, and for its products at the best rate there is."""
    kind = "integer" if shape.dtype.is_integer and shape.w_dtype.is_integer else "half" if shape.dtype.is_half else "float"
    return max(moved(shape, epilogue) / BYTES, 2.0 * shape.macs / RATES[kind])


def moved(shape: ConvShape, epilogue: tuple[Epilogue, ...] = ()) -> int:
    """Least bytes through device memory, a residual's among them."""
    return shape.bytes_moved + (outputs(shape) if Epilogue.RESIDUAL in epilogue else 0)


def outputs(shape: ConvShape) -> int:
    """Bytes of the output."""
    return shape.y_dtype.itemsize * shape.n * shape.k * shape.p * shape.q


@functools.lru_cache(maxsize=4096)
def by_rule(shape: ConvShape, epilogue: tuple[Epilogue, ...], operation: Operation = Operation.FORWARD,
            arch: Arch = DEFAULT_ARCH) -> float:
    """Seconds of the plan that the rule chooses. Raises UnsupportedSpec where there is none."""
    return seconds(resolve(Request.of(shape, arch=arch, epilogue=epilogue, operation=operation)).plan, shape)


def residual_pays(shape: ConvShape, epilogue: tuple[Epilogue, ...]) -> bool:
    """Whether the kernel that adds a residual takes less time than one without what begins there, followed by a pass
    over sum, residual and result of its own. Not every algorithm reads a residual."""
    before = epilogue[:epilogue.index(Epilogue.RESIDUAL)]
    try:
        return by_rule(shape, epilogue) <= by_rule(shape, before) + 3 * outputs(shape) / BYTES
    except WarpconvError:       # no kernel at all: the build says so
        return False
