"""Layers drawn at random, with plan values that the planner accepts.

What is drawn is written once over ``choose(sequence) -> element``: the CPU ring passes Hypothesis, which shrinks what
fails, the GPU ring a NumPy generator, which is quick enough for thousands of layers. Algorithms of the registry without
a room in tests/algorithms are drawn too, with their planners' own values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import assume

from warpconv.codegen.errors import ShapeError, UnsupportedSpec
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

from .algorithms import ROWS
from .axes import (BIAS, BORDER_VALUE, BORDERS, CASTS, CLAMP, DTYPES, EXPRESSION, OUTPUTS, PIXELS, RELU,
                   RESIDUAL, WEIGHTS, Choose)
from .cases import Case, Numerics

LARGEST_SIDE = 130
# of float32 elements on the tensor cores, by algorithm
SPLIT = {"mma": (Numerics.TF32X3, Numerics.TF32X3, Numerics.TF32),
         "wgmma": (Numerics.FP16X3, Numerics.FP16X3, Numerics.TF32), "toeplitz_float32": (Numerics.FP16X3,),
         "taps_float32": (Numerics.FP16X3, Numerics.FP16X3, Numerics.TF32), "pointwise": (Numerics.TF32,)}
SQUARES = (7, 14, 28, 56)           # planes of networks, smaller than what a warp spans
HALF = ("float16", "bfloat16")
EPILOGUES = ((), (), (BIAS,), (RELU,), (BIAS, RELU), (RELU, BIAS), (BIAS, CLAMP), (EXPRESSION,), (BIAS, RESIDUAL, RELU))
STEPS = tuple(Epilogue.parse(text) for text in ("relu6", "silu", "gelu", "gelu_tanh", "hardswish", "quantize(0.25,3)"))
MORE_EPILOGUES = ((BIAS, CLAMP), (EXPRESSION,), *((step,) for step in STEPS), *((BIAS, step) for step in STEPS))
RESIDUALS = ((RESIDUAL,), (BIAS, RESIDUAL, RELU), (RESIDUAL, CLAMP))
# about half of what is drawn is float32 in NCHW
KINDS = (("float32", "NCHW"),) * 5 + tuple((dtype, layout) for dtype in ("float32", "float16", "bfloat16")
                                           for layout in ("NCHW", "NHWC") if (dtype, layout) != ("float32", "NCHW"))
# what is drawn over a third of them: the types that an algorithm serves besides; and over half, its borders. Of layers
# of images over all of them
PIXEL_KINDS = tuple({"dtype": dtype, "weight_dtype": weight, "out_dtype": out, "cast": cast}
                    for dtype in PIXELS for weight in (None, None, *WEIGHTS) for out in ((None,) * 4 + OUTPUTS)
                    for cast in CASTS)
FLOAT_KINDS = tuple({"dtype": dtype, "weight_dtype": None, "out_dtype": out, "cast": cast}
                    for dtype in DTYPES for out in OUTPUTS[1:-1] for cast in CASTS)
USUAL: Mapping[str, tuple] = {"dtype": ("float32",), "weight_dtype": (None,), "out_dtype": (None,),
                              "cast": ("nearest",), "padding_mode": ("zeros",)}        # of axes that do not say
LAYER_TRIES = 20


def draw_algorithm(choose: Choose, images: bool = False) -> str:
    """One of the registry, or whichever select() takes; ``images``: one of those with more borders than zeros."""
    of_images = tuple(name for name, rows in ROWS.items() if "padding_mode" in rows.axes)
    return choose((*(of_images if images else ALGORITHMS), "auto", "auto"))


def draw_case(choose: Choose, algorithm: str | None = None, images: bool = False) -> Case:
    """A kernel, of an algorithm of the registry or of the one that select() takes; its plan may still be refused.
    ``images``: with types, a border and an epilogue of those that are for images."""
    algorithm = algorithm or draw_algorithm(choose, images)
    rows = ROWS.get(algorithm)
    axes = None if rows is None else rows.axes
    layer = draw_layer(choose)
    if rows is not None:
        layer.update(rows.draw_layer(choose))
    if layer["padding"] == "half":
        layer["padding"] = (layer["r"] // 2, layer["s"] // 2)
    if images or choose((False, False, True)):
        layer.update(draw_types(choose, axes))
    if images or choose((False, True)):
        layer.update(draw_border(choose, axes))
    if axes is not None and choose((False, False, True) if images else (False,) * 5 + (True,)):
        layer["pitch"] = choose(axes.get("pitch", (None,)))
    values = rows.draw(choose, layer) if rows is not None else {}
    half = layer["dtype"] in HALF and choose((False,) * 5 + (True,))
    numerics = Numerics.FLOAT16 if half else Numerics.FLOAT32
    if layer["dtype"] == "float32":
        numerics = choose(SPLIT.get(algorithm, (Numerics.FLOAT32, Numerics.FLOAT32, Numerics.IEEE)))
    return Case(algorithm, tuple(layer.items()), tuple(values.items()), draw_epilogue(choose, axes, images),
                numerics=numerics)


def draw_layer(choose: Choose) -> dict[str, Any]:
    """A layer's fields without its sizes: planes, depthwise (with a channel multiplier, too), grouped, all to all."""
    c, k, groups = choose((_plane, _depthwise, _depthwise, _multiplier, _grouped, _grouped, _dense, _dense))(choose)
    r, s = choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 11)), choose((1, 2, 3, 3, 4, 5, 5, 7, 9, 12))
    if choose((True, True, False)):
        s = r                                       # square ones as often as in networks
    stride = choose((1, 1, 1, 2, 2, 3, (1, 2), (5, 1)))
    dtype, layout = choose(KINDS)
    sides = (0, 0, 1, 2, 3, 8)
    padding = choose((0, "half", "half", ((choose(sides), choose(sides)), (choose(sides), choose(sides)))))
    return {"c": c, "k": k, "groups": groups, "r": r, "s": s, "stride": stride,
            "dilation": choose((1, 1, 1, 1, 2, (1, 3))), "padding": padding, "dtype": dtype, "layout": layout}


def draw_epilogue(choose: Choose, axes: Mapping[str, tuple] | None, images: bool) -> tuple[Epilogue, ...]:
    """Of half of the layers of images any step, with a residual where the axes have one; of all others of EPILOGUES."""
    if not images or choose((False, True)):
        return choose(EPILOGUES)
    residual = axes is not None and any(RESIDUAL in steps for steps in axes.get("epilogue", ()))
    return choose(MORE_EPILOGUES + (RESIDUALS if residual else ()))


def draw_types(choose: Choose, axes: Mapping[str, tuple] | None) -> dict[str, Any]:
    """Types of pixels, of filters and of outputs: those that an algorithm's axes name, any where there are none;
    nothing where the axes name none."""
    of_pixels = axes is None or any(dtype in PIXELS for dtype in axes.get("dtype", ()))
    kinds = PIXEL_KINDS if of_pixels and choose((True, True, False)) else FLOAT_KINDS
    if axes is not None:
        kinds = tuple(kind for kind in kinds
                      if all(value in axes.get(name, USUAL[name]) for name, value in kind.items()))
    return choose(kinds) if kinds else {}


def draw_border(choose: Choose, axes: Mapping[str, tuple] | None) -> dict[str, Any]:
    """One of the borders that an algorithm's axes name."""
    mode = choose(BORDERS if axes is None else axes.get("padding_mode", USUAL["padding_mode"]))
    return {"padding_mode": mode, "padding_value": BORDER_VALUE if mode == "constant" else 0.0}


def _plane(choose: Choose) -> tuple[int, int, int]:
    return 1, choose((1, 1, 1, 2, 4)), 1


def _depthwise(choose: Choose) -> tuple[int, int, int]:
    channels = choose((2, 3, 4, 8, 16, 24, 33, 40, 64))
    return channels, channels, channels


def _multiplier(choose: Choose) -> tuple[int, int, int]:
    channels = choose((2, 3, 4, 8, 20, 32))
    return channels, channels * choose((2, 3, 4)), channels


def _grouped(choose: Choose) -> tuple[int, int, int]:
    groups = choose((2, 3, 4))
    return groups * choose((1, 2, 3, 5)), groups * choose((1, 2, 3, 4)), groups


def _dense(choose: Choose) -> tuple[int, int, int]:
    return choose((1, 2, 3, 5, 8)), choose((1, 2, 3, 4, 6, 8)), 1


def draw_size(choose: Choose, largest: int = LARGEST_SIDE) -> tuple[int, int, int]:
    """(N, H, W): squares of networks' planes, widths that are multiples of 4 and 8, the neighbourhood of multiples of
    32, images smaller than most filters, and any others."""
    n = choose((1, 1, 2, 3))
    kind = choose(("square", "vectors", "vectors", "any", "any", "tiny"))
    if kind == "square":
        side = choose(SQUARES)
        return n, side, side
    if kind == "tiny":
        return n, choose(range(1, 7)), choose((*range(1, 7), 40))
    near = [side + d for side in range(32, largest, 32) for d in (-1, 0, 1)]
    sides = (*range(1, largest + 1), *near, *near)
    step = choose((4, 8))
    return n, choose(sides), choose(range(step, largest + 1, step)) if kind == "vectors" else choose(sides)


def draw_shape(choose: Choose, case: Case, tries: int = 20, arch: str = "sm_90") -> ConvShape | None:
    """The case's layer at a random size that gives an output and that its planner takes, None where no try does."""
    for _ in range(tries):
        try:
            shape = case.shape(*draw_size(choose))
            case.plan(arch, shape)
        except (ShapeError, UnsupportedSpec):
            continue
        return shape
    return None


def draw_layer_and_case(choose: Choose, algorithm: str | None = None,
                        images: bool = False) -> tuple[Case, ConvShape] | None:
    """A kernel and an image size that its planner takes; of each algorithm as often as it is drawn, if it takes any of
    LAYER_TRIES layers. ``images`` as for draw_case."""
    algorithm = algorithm or draw_algorithm(choose, images)
    for _ in range(LAYER_TRIES):
        case = draw_case(choose, algorithm, images)
        shape = draw_shape(choose, case, tries=3)
        if shape is not None:
            return case, shape
    return None


@st.composite
def layers(draw: Callable[[Any], Any], algorithm: str | None = None, images: bool = False) -> tuple[Case, ConvShape]:
    """Hypothesis strategy: a kernel and an image size that its planner accepts."""
    found = draw_layer_and_case(lambda sequence: draw(st.sampled_from(sequence)), algorithm, images)
    assume(found is not None)
    return found


def numpy_choose(rng: np.random.Generator) -> Choose:
    """``choose`` over a NumPy generator."""
    return lambda sequence: sequence[int(rng.integers(len(sequence)))]
