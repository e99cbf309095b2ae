"""Numbers with the error that a float32 kernel may have in them: the other way (accuracy/ranges.py has lower and upper
ends) to bound what an epilogue makes of an error.

A Near is a value in float64 and a radius. Operations add the radius that each operand causes, by its derivative or the
monotone function's values at both ends, and the rounding of the result. An expression is given to Python itself, with
Near in place of v, so neither the package's parser nor its tree is believed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from warpconv.codegen.epilogue import GELU_TAIL
from warpconv.runtime.accuracy.finish import GELU_ERROR

UNIT = 2.0**-23
TWICE = 2 * math.sqrt(2 / math.pi)
OPEN = np.inf       # the radius where nothing is known


class Near:
    """Values, each to within its radius; where the radius is infinite anything is right, NaN too, also of what is made
    of it (``of``)."""

    def __init__(self, value: Any, radius: Any = 0.0, units: float = 0.0, of: tuple[Near, ...] = ()):
        self.value = np.asarray(value, np.float64)
        size = np.abs(self.value) + radius
        open_ = np.isinf(radius) | np.isfinite(self.value) & ~(size < 3.4e38)
        for operand in of:
            open_ = open_ | np.isinf(operand.radius)
        self.radius = np.where(open_, OPEN, np.where(np.isnan(size), 0.0, radius + units * (UNIT * size + 2.0**-149)))

    def __add__(self, other: Any) -> Near:
        other = _near(other)
        return Near(self.value + other.value, self.radius + other.radius, 0.5, (self, other))

    def __sub__(self, other: Any) -> Near:
        return self + -_near(other)

    def __neg__(self) -> Near:
        return Near(-self.value, self.radius, 0, (self,))

    def __mul__(self, other: Any) -> Near:
        other = _near(other)
        spread = (_times(np.abs(self.value), other.radius) + _times(np.abs(other.value), self.radius)
                  + _times(self.radius, other.radius))
        return Near(self.value * other.value, spread, 0.5, (self, other))

    def __truediv__(self, other: Any) -> Near:
        other = _near(other)
        quotient, least = self.value / other.value, np.abs(other.value) - other.radius
        spread = (self.radius + _times(np.abs(quotient), other.radius)) / least
        return Near(quotient, np.where(least > 0, spread, np.where(np.isnan(quotient), 0.0, OPEN)), 0.5, (self, other))

    def __radd__(self, other: Any) -> Near:
        return _near(other) + self

    def __rsub__(self, other: Any) -> Near:
        return _near(other) - self

    def __rmul__(self, other: Any) -> Near:
        return _near(other) * self

    def __rtruediv__(self, other: Any) -> Near:
        return _near(other) / self

    def __lt__(self, other: Any) -> Truth:
        return Truth(self, other, np.less)

    def __le__(self, other: Any) -> Truth:
        return Truth(self, other, np.less_equal)

    def __gt__(self, other: Any) -> Truth:
        return Truth(self, other, np.greater)

    def __ge__(self, other: Any) -> Truth:
        return Truth(self, other, np.greater_equal)

    def __eq__(self, other: Any) -> Truth:      # type: ignore[override]
        return Truth(self, other, np.equal)

    def __ne__(self, other: Any) -> Truth:      # type: ignore[override]
        return Truth(self, other, np.not_equal)


class Truth:
    """A comparison, and where it is the same whatever the errors are."""

    def __init__(self, a: Near, b: Any, compare: Callable[[Any, Any], Any]):
        b = _near(b)
        self.value = compare(a.value, b.value)
        apart = np.abs(a.value - b.value) > a.radius + b.radius
        self.sure = apart | ((a.radius == 0) & (b.radius == 0)) | np.isnan(a.value + b.value)
        self.sure &= np.isfinite(a.radius) & np.isfinite(b.radius) | apart


def near_number(value: float) -> Near:
    """A constant as a kernel has it: rounded to float32."""
    return Near(value, abs(float(np.float32(value)) - value))


def _near(value: Any) -> Near:
    return value if isinstance(value, Near) else Near(np.float64(np.float32(value)))


def _times(a: Any, b: Any) -> Any:
    """0 where one is 0, whatever the other is."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def _by_ends(function: Callable[[Any], Any], units: float = 0.0,
             defined: Callable[[Any], Any] = lambda x: True) -> Callable[[Any], Near]:
    """A monotone function, that is defined where ``defined`` is true of the lower end."""
    def apply(a: Any) -> Near:
        a = _near(a)
        value = function(a.value)
        spread = np.maximum(np.abs(function(a.value + a.radius) - value), np.abs(function(a.value - a.radius) - value))
        outside = np.isnan(value) & np.isnan(function(a.value + a.radius))      # there it is NaN for certain
        open_ = ~np.broadcast_to(defined(a.value - a.radius), np.shape(value)) & ~outside
        return Near(value, np.where(open_ | np.isnan(spread) & ~np.isnan(value), OPEN, spread), units, (a,))
    return apply


def _by_slope(function: Callable[[Any], Any], units: float = 0.0) -> Callable[[Any], Near]:
    """A function whose slope is at most 1."""
    return lambda a: Near(function(_near(a).value), _near(a).radius, units, (_near(a),))


def _pick(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Near]:
    def apply(a: Any, b: Any) -> Near:
        a, b = _near(a), _near(b)
        return Near(function(a.value, b.value), np.maximum(a.radius, b.radius), 0, (a, b))
    return apply


def _where(condition: Truth, a: Any, b: Any) -> Near:
    a, b = _near(a), _near(b)
    value = np.where(condition.value, a.value, b.value)
    taken, other = (np.where(condition.value, x, y) for x, y in ((a.radius, b.radius), (b.radius, a.radius)))
    between = np.abs(a.value - b.value) + other
    between = np.where(np.isnan(between), OPEN, between)
    return Near(value, np.where(condition.sure, taken, np.maximum(taken, between)))


def _pow(a: Any, b: Any) -> Near:
    """Drawn bases are positive, or exponents whole numbers; the radius by the slope at the far ends."""
    a, b = _near(a), _near(b)
    value = np.power(a.value, b.value)
    corners = [np.power(x, y) for x in (a.value - a.radius, a.value, a.value + a.radius)
               for y in (b.value - b.radius, b.value + b.radius)]
    crosses = (np.abs(a.value) <= a.radius)
    corners += [np.where(crosses & (b.value > 0) & (b.radius == 0), 0.0, corners[0])]
    spread = np.maximum.reduce([np.abs(corner - value) for corner in corners])
    whole = (b.radius == 0) & (np.floor(b.value) == b.value) & ~(crosses & (b.value < 0))
    broken = (a.value < -a.radius) & (np.ceil(b.value - b.radius) > b.value + b.radius)     # no whole exponent in reach
    certain = (a.value > a.radius) | whole | broken | np.isnan(a.value + b.value)
    # NaN ** 0 and 1 ** NaN are 1
    certain &= ~(np.isnan(a.value) & (np.abs(b.value) <= b.radius) & (b.radius > 0))
    certain &= ~(np.isnan(b.value) & (np.abs(a.value - 1) <= a.radius) & (a.radius > 0))
    return Near(value, np.where(certain, spread, OPEN), 4, (a, b))


_erf, _erfc = (np.vectorize(function, otypes=[np.float64]) for function in (math.erf, math.erfc))
FLUSHED = 2.0**-126      # below, the quick exponential and inverse give 0
_exp2 = _by_ends(np.exp2, 2)
_inverse = _by_ends(lambda x: 1.0 / x, 1, lambda x: x > 0)


def _quick(function: Callable[[Any], Near], a: Near) -> Near:
    made = function(a)
    return Near(made.value, made.radius + FLUSHED, 0, (made,))


def _sigmoid(a: Any) -> Near:
    """Where the exponential overflows, the result is 0, and so nearly is the exact one."""
    a = _near(a)
    made = _quick(_inverse, 1.0 + _quick(_exp2, a * near_number(-math.log2(math.e))))
    far = a.value + a.radius < -87.0
    return Near(made.value, np.where(far, 2 * FLUSHED, made.radius))


def _gelu(v: Near) -> Near:
    """The polynomial for the tail of the normal distribution has an error of its own."""
    x, power = FUNCTIONS["abs"](v), Near(GELU_TAIL[-1])
    for coefficient in reversed(GELU_TAIL[:-1]):
        power = power * x + Near(coefficient)
    tail = _quick(_exp2, power)
    tail = Near(0.5 * _erfc(x.value / math.sqrt(2)), tail.radius + GELU_ERROR, 0, (tail,))
    return v * _where(v < 0.0, tail, 1.0 - tail)


FUNCTIONS = {
    "abs": _by_slope(np.abs), "min": _pick(np.minimum), "max": _pick(np.maximum), "exp": _by_ends(np.exp, 2),
    "log": _by_ends(np.log, 1, lambda x: x > 0), "log2": _by_ends(np.log2, 1, lambda x: x > 0),
    "sqrt": _by_ends(np.sqrt, 0.5, lambda x: x >= 0), "rsqrt": _by_ends(lambda x: 1 / np.sqrt(x), 2, lambda x: x > 0),
    "tanh": _by_ends(np.tanh, 2), "erf": _by_ends(_erf, 2), "sin": _by_slope(np.sin, 2), "cos": _by_slope(np.cos, 2),
    "floor": _by_ends(np.floor), "ceil": _by_ends(np.ceil), "sigmoid": _sigmoid,
    "relu": lambda a: _pick(np.maximum)(a, 0.0), "pow": _pow, "where": _where}


def clamp(a: Near, low: float, high: float) -> Near:
    return _by_ends(lambda x: np.clip(x, low, high))(a)


def of_text(text: str, v: Near) -> Near:
    """An expression's text at ``v``, read by Python; its numbers are float32."""
    numbers = re.sub(r"(?<![\w.])(\d[\d.]*(?:e-?\d+)?)", r"number(\1)", text)
    return eval(numbers, {"__builtins__": {}}, {**FUNCTIONS, "v": v, "number": _near})       # tests' own texts


def after(name: str, text: str, v: Near) -> Near:
    """What the step ``name``, whose text has what is in ``text`` between its parentheses, makes of ``v``."""
    if name == "expr":
        return of_text(text, v)
    numbers = [float(np.float32(part)) for part in text.split(",")] if text else []
    return {
        "relu": lambda: clamp(v, 0.0, np.inf), "relu6": lambda: clamp(v, 0.0, 6.0), "silu": lambda: v * _sigmoid(v),
        "gelu": lambda: _gelu(v), "gelu_tanh": lambda: v * _sigmoid(
            v * (near_number(TWICE * 0.044715) * (v * v) + near_number(TWICE))),
        "hardswish": lambda: v * clamp(v * near_number(1 / 6) + 0.5, 0.0, 1.0), "clamp": lambda: clamp(v, *numbers),
        "quantize": lambda: v * near_number(1 / numbers[0]) + numbers[1]}[name]()
