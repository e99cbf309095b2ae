"""Whether warpconv is quicker than PyTorch at a layer, by what the planner counts and by what PyTorch took where it was
measured, without a GPU."""

from __future__ import annotations

from warpconv.codegen.algorithm import assumed_batch
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.hardware import Hardware
from warpconv.codegen.numerics import Precision
from warpconv.codegen.registry import algorithm
from warpconv.codegen.request import Request
from warpconv.codegen.resolution import resolve
from warpconv.codegen.shape import ConvShape

# An H200: bytes and issue slots a second (docs/results/memory, docs/results/regret), and a launch in a graph
BYTES, SLOTS, LAUNCH = 4.1e12, 9e11, 2e-6
# PyTorch 2.11 with cuDNN 9.19 there, 2026-11-20: the time of a depthwise layer of so many taps over that of a copy of
# its input and output, at 9, 25 and 49 taps; beyond them in proportion to the taps
DEPTHWISE = {("float32", Layout.NCHW): (4.0, 8.4, 15.0), ("float32", Layout.NHWC): (4.0, 8.4, 15.0),
             ("half", Layout.NCHW): (2.4, 6.0, 30.0), ("half", Layout.NHWC): (1.2, 2.4, 5.5)}
TAPS = (9, 25, 49)
DEPTHWISE_START = 3e-6
FEW_CHANNELS = 4        # a group, of a first layer
# and its other layers: seconds that the least one takes, and FLOPs and bytes a second of the others, fitted to all that
# docs/results/networks and networks_float32 have (1104 layers, off by 1.3 in the mean); tf32 where PyTorch may
OTHERS = {
    ("half", Layout.NHWC, "1x1"): (3e-6, 6e14, 3.5e12), ("half", Layout.NCHW, "1x1"): (4e-6, 1.5e14, 3.5e12),
    ("half", Layout.NHWC, "dense"): (6e-6, 6e14, 2.5e12), ("half", Layout.NCHW, "dense"): (6e-6, 3e14, 5e11),
    ("half", Layout.NHWC, "first"): (4e-6, 1e14, 1.2e12), ("half", Layout.NCHW, "first"): (3e-6, 4e13, 5e11),
    ("half", Layout.NHWC, "grouped"): (4e-6, 1.5e14, 2.5e12), ("half", Layout.NCHW, "grouped"): (6e-6, 6e13, 5e11),
    ("float32", Layout.NHWC, "1x1"): (6e-6, 3e13, 8e11), ("float32", Layout.NCHW, "1x1"): (6e-6, 3e13, 1.6e12),
    ("float32", Layout.NHWC, "dense"): (6e-6, 4e13, 3e11), ("float32", Layout.NCHW, "dense"): (6e-6, 4e13, 3e11),
    ("float32", Layout.NHWC, "first"): (3e-6, 2e13, 1.2e12), ("float32", Layout.NCHW, "first"): (3e-6, 2e13, 1.2e12),
    ("float32", Layout.NHWC, "grouped"): (6e-6, 2e13, 3e11), ("float32", Layout.NCHW, "grouped"): (6e-6, 2e13, 3e11),
    ("tf32", Layout.NHWC, "1x1"): (6e-6, 3e14, 4e12), ("tf32", Layout.NCHW, "1x1"): (6e-6, 1.5e14, 4e12),
    ("tf32", Layout.NHWC, "dense"): (6e-6, 3e14, 3e12), ("tf32", Layout.NCHW, "dense"): (6e-6, 2e14, 8e11),
    ("tf32", Layout.NHWC, "first"): (3e-6, 4e13, 1.6e12), ("tf32", Layout.NCHW, "first"): (3e-6, 3e13, 1.2e12),
    ("tf32", Layout.NHWC, "grouped"): (6e-6, 8e13, 3.5e12), ("tf32", Layout.NCHW, "grouped"): (6e-6, 4e13, 8e11)}
MARGIN = 0.9            # estimates that are nearer to each other tell nothing


def seconds(shape: ConvShape, hardware: Hardware, tf32: bool, precision: str) -> tuple[float, float]:
    """Seconds of a forward pass: by warpconv's plan with a precision of float32 elements, and by PyTorch, which may
    take ``tf32``. Raises UnsupportedSpec for a layer that warpconv has no kernel for."""
    plan = resolve(Request.of(shape, arch=hardware, precision=precision_of(shape, precision))).plan
    slots = algorithm(plan.spec.algorithm).slots(plan, shape) * shape.n / assumed_batch(shape)
    moved = _bytes(shape)
    return max(slots / SLOTS, moved / BYTES, LAUNCH), _of_torch(shape, moved, tf32)


def precision_of(shape: ConvShape, precision: str) -> str:
    """What is asked for a layer of a model that is asked for ``precision``, which is a choice for float32 alone."""
    return precision if shape.dtype is DType.FLOAT32 else Precision.FLOAT32.value


def quicker(shape: ConvShape, hardware: Hardware, tf32: bool,
            precision: str = "float32") -> tuple[bool, str, float | None, float | None]:
    """Whether warpconv's estimate is the lower one, why in words, and the two in seconds."""
    if shape.is_volume:
        if shape.channels == 1 < shape.groups == shape.c == shape.k and max(shape.stride) == 1 and max(shape.taps) <= 5:
            return True, "depthwise volumes: measured at 5 times PyTorch's speed and more", None, None
        return False, "what PyTorch takes for volumes is not known: where='measure'", None, None
    try:
        ours, theirs = seconds(shape, hardware, tf32, precision)
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
        return DEPTHWISE_START + moved / BYTES * (factor if taps > 1 else 1.0)
    kind = ("grouped" if shape.groups > 1 else "first" if shape.channels <= FEW_CHANNELS
            else "1x1" if shape.r == shape.s == 1 else "dense")
    start, rate, speed = OTHERS["half" if half else "tf32" if tf32 else "float32", shape.layout, kind]
    flops = 2.0 * shape.n * shape.k * shape.p * shape.q * shape.reduction
    return start + max(flops / rate, moved / speed)
