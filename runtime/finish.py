"""The steps of an epilogue in float64, and the error that a kernel may have after them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from warpconv.codegen.epilogue import Epilogue
from warpconv.codegen.expression import evaluate

from .ranges import (OPERATIONS, Range, add, clamp, divide, maximum, multiply, number, rounded,
                     sigmoid)

# What ends before these keeps the bound of a sum (reference.py), to which a bias is one more term.
LINEAR = (Epilogue.BIAS, Epilogue.RELU)


def finish(output: np.ndarray, bound: np.ndarray, steps: Iterable[Epilogue], *, bias: np.ndarray | None = None,
           residual: np.ndarray | None = None) -> Range:
    """The values after ``steps`` and where a kernel may end that has ``output`` to within ``bound`` before them.

    ``bias`` and ``residual`` in float64, of a shape that broadcasts to the output's. Every step is bounded by
    ``ranges`` along the formula that is emitted: roundings of each operation included, constants that are no float32
    (1 / sqrt(2)) rounded. For steps that are monotone (clamp, relu) the ends are exact; for a product of two factors that depend on
    the value (silu, gelu, hardswish) they are at most the sum of both factors' contributions apart.
    """
    operands = {"bias": bias, "residual": residual}
    with np.errstate(all="ignore"):
        made = Range.around(output, bound)
        for step in steps:
            operand = operands.get(step.name)
            made = add(made, Range.around(operand)) if operand is not None else _STEPS[step.name](made, step)
    return made.of_shape(np.shape(output))


def _silu(a: Range, step: Epilogue) -> Range:
    return multiply(a, sigmoid(a))


def _gelu(a: Range, step: Epilogue) -> Range:
    inner = OPERATIONS["erf"](multiply(a, rounded(math.sqrt(0.5))))
    return multiply(multiply(a, number(0.5)), add(number(1.0), inner))


def _gelu_tanh(a: Range, step: Epilogue) -> Range:
    cube = multiply(multiply(multiply(rounded(0.044715), a), a), a)
    inner = OPERATIONS["tanh"](multiply(rounded(math.sqrt(2.0 / math.pi)), add(a, cube)))
    return multiply(multiply(a, number(0.5)), add(number(1.0), inner))


def _hardswish(a: Range, step: Epilogue) -> Range:
    return multiply(multiply(a, clamp(add(a, number(3.0)), 0.0, 6.0)), rounded(1.0 / 6.0))


def _quantize(a: Range, step: Epilogue) -> Range:
    scale, zero_point = step.numbers
    return add(divide(a, number(scale)), number(zero_point))


_STEPS: Mapping[str, Callable[[Range, Epilogue], Range]] = {
    "relu": lambda a, step: maximum(a, number(0.0)), "relu6": lambda a, step: clamp(a, 0.0, 6.0), "silu": _silu,
    "gelu": _gelu, "gelu_tanh": _gelu_tanh, "hardswish": _hardswish, "clamp": lambda a, step: clamp(a, *step.numbers),
    "quantize": _quantize, "expr": lambda a, step: evaluate(step.tree, a, OPERATIONS)}
