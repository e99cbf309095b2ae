"""Whether warpconv is quicker than PyTorch at a layer, by what the planner counts and by what PyTorch took where it was
measured, without a GPU."""

from __future__ import annotations

from dataclasses import replace

from warpconv.codegen.algorithm import assumed_batch
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.hardware import Hardware
from warpconv.codegen.registry import algorithm
from warpconv.codegen.request import Request
from warpconv.codegen.resolution import resolve
from warpconv.codegen.shape import ConvShape

# An H200: bytes and issue slots a second (docs/results/memory, docs/results/regret)
BYTES, SLOTS = 4.1e12, 9e11
# PyTorch 2.11 with cuDNN 9.19 there, 2026-11-20: the time of a depthwise layer of so many taps over that of a copy of
# its input and output, at 9, 25 and 49 taps; beyond them in proportion to the taps
DEPTHWISE = {("float32", Layout.NCHW): (4.0, 8.4, 15.0), ("float32", Layout.NHWC): (4.0, 8.4, 15.0),
             ("half", Layout.NCHW): (2.4, 6.0, 30.0), ("half", Layout.NHWC): (1.2, 2.4, 5.5)}
TAPS = (9, 25, 49)
# and the best rates of its dense layers, in FLOPs a second; float32 by TF32 where PyTorch may
DENSE = {"float32": 9.3e13, "tf32": 2.5e14, "half": 6.0e14}
MARGIN = 0.9            # estimates that are nearer to each other tell nothing


def seconds(shape: ConvShape, hardware: Hardware, tf32: bool) -> tuple[float, float]:
    """Seconds of a forward pass: by warpconv's plan, and by PyTorch, with a batch that the planner assumes. Raises
    UnsupportedSpec for a layer that warpconv has no kernel for."""
    shape = replace(shape, n=assumed_batch(shape))
    plan = resolve(Request.of(shape, arch=hardware)).plan
    slots = algorithm(plan.spec.algorithm).slots(plan, shape)
    moved = _bytes(shape)
    return max(slots / SLOTS, moved / BYTES), _of_torch(shape, moved, tf32)


def quicker(shape: ConvShape, hardware: Hardware, tf32: bool) -> tuple[bool, str, float | None, float | None]:
    """Whether warpconv's estimate is the lower one, why in words, and the two in seconds."""
    if shape.is_volume:
        return False, "what PyTorch takes for volumes is not known: where='measure'", None, None
    try:
        ours, theirs = seconds(shape, hardware, tf32)
    except WarpconvError as error:
        return False, f"not served: {error}", None, None
    taken = ours < MARGIN * theirs
    return taken, f"estimated {theirs / ours:.2g} times PyTorch's speed", ours, theirs


def _bytes(shape: ConvShape) -> int:
    return shape.dtype.itemsize * shape.n * (shape.c * shape.h * shape.w + shape.k * shape.p * shape.q)


def _of_torch(shape: ConvShape, moved: int, tf32: bool) -> float:
    half = shape.dtype.is_half
    if shape.channels == 1:
        times = DEPTHWISE["half" if half else "float32", shape.layout]
        taps = shape.r * shape.s
        number = sum(taps > most for most in TAPS[:-1])
        factor = times[number] if taps <= TAPS[-1] else times[-1] * taps / TAPS[-1]
        return moved / BYTES * (factor if taps > 1 else 1.0)
    rate = DENSE["half" if half else "tf32" if tf32 else "float32"]
    flops = 2.0 * shape.n * shape.k * shape.p * shape.q * shape.reduction
    return max(flops / rate, moved / BYTES)
