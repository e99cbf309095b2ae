"""The steps of an epilogue in float64, and the error that a kernel may have after them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from warpconv.codegen.epilogue import GELU_TAIL, Epilogue
from warpconv.codegen.expression import evaluate

from .ranges import (OPERATIONS, Range, absolute, add, clamp, error_function, exp2, maximum, multiply, number, rounded,
                     sigmoid, subtract, where)

# What ends before these keeps the bound of a sum (reference.py), to which a bias is one more term.
LINEAR = (Epilogue.BIAS, Epilogue.RELU)
# The largest |2^p(x) - Phi(-x)| of GELU_TAIL over x >= 0; a test looks.
GELU_ERROR = 5e-8


def finish(output: np.ndarray, bound: np.ndarray, steps: Iterable[Epilogue], *, bias: np.ndarray | None = None,
           residual: np.ndarray | None = None) -> Range:
    """The values after ``steps`` and where a kernel may end that has ``output`` to within ``bound`` before them.

    ``bias`` and ``residual`` in float64, of a shape that broadcasts to the output's. Every step is bounded by
    ``ranges`` along the formula that is emitted: roundings of each operation included, constants that are no float32
    (log2(e)) rounded. For steps that are monotone (clamp, relu) the ends are exact; for a product of two factors that
    depend on the value (silu, gelu, hardswish) they are at most the sum of both factors' contributions apart.
    """
    operands = {"bias": bias, "residual": residual}
    with np.errstate(all="ignore"):
        made = Range.around(output, bound)
        for step in steps:
            operand = operands.get(step.name)
            made = add(made, _as_float32(operand)) if operand is not None else _STEPS[step.name](made, step)
    return made.of_shape(np.shape(output))


def _as_float32(operand: np.ndarray) -> Range:
    """An operand as the kernel adds it: residuals of int32 are rounded to float32, all others are float32 already."""
    operand = np.asarray(operand, np.float64)
    return Range.around(operand, np.abs(operand.astype(np.float32) - operand))


def _silu(a: Range, step: Epilogue) -> Range:
    return multiply(a, sigmoid(a))


def _gelu(a: Range, step: Epilogue) -> Range:
    """The formula that is emitted, 2 to a polynomial for the tail of Phi, is off by GELU_ERROR beside its roundings."""
    x = absolute(a)
    power = number(GELU_TAIL[-1])
    for coefficient in reversed(GELU_TAIL[:-1]):
        power = add(multiply(power, x), number(coefficient))
    tail, exact = exp2(power), (1.0 - error_function(np.abs(a.value) / math.sqrt(2.0))) / 2
    tail = Range(exact, np.maximum(tail.low - GELU_ERROR, 0.0), tail.high + GELU_ERROR, tail.unsure)
    made = multiply(a, where(OPERATIONS["<"](a, number(0.0)), tail, subtract(number(1.0), tail)))
    return Range(0.5 * a.value * (1.0 + error_function(a.value / math.sqrt(2.0))), made.low, made.high, made.unsure)


def _gelu_tanh(a: Range, step: Epilogue) -> Range:
    twice = rounded(2.0 * math.sqrt(2.0 / math.pi))
    cubic = rounded(2.0 * math.sqrt(2.0 / math.pi) * 0.044715)
    return multiply(a, sigmoid(multiply(a, add(multiply(cubic, multiply(a, a)), twice))))


def _hardswish(a: Range, step: Epilogue) -> Range:
    return multiply(a, clamp(add(multiply(a, rounded(1.0 / 6.0)), number(0.5)), 0.0, 1.0))


def _quantize(a: Range, step: Epilogue) -> Range:
    scale, zero_point = step.numbers
    return add(multiply(a, rounded(1.0 / scale)), number(zero_point))


_STEPS: Mapping[str, Callable[[Range, Epilogue], Range]] = {
    "relu": lambda a, step: maximum(a, number(0.0)), "relu6": lambda a, step: clamp(a, 0.0, 6.0), "silu": _silu,
    "gelu": _gelu, "gelu_tanh": _gelu_tanh, "hardswish": _hardswish, "clamp": lambda a, step: clamp(a, *step.numbers),
    "quantize": _quantize, "expr": lambda a, step: evaluate(step.tree, a, OPERATIONS)}
