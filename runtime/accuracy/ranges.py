"""Where a float32 calculation may end, given where it may begin: the error bound of an epilogue's steps.

A Range holds for every output the exact value (in float64, of exact operands) and the least and largest number that a
kernel may have in its place. Each operation takes the ends through, which is exact for monotone functions and a bound
for all (interval arithmetic; Moore, Kearfott, Cloud, "Introduction to Interval Analysis", 2009), then moves them apart
by what rounding adds: half a unit in the last place for + - * / and sqrt, which are correctly rounded, and for the
other functions the units that the CUDA C++ Programming Guide states as their largest error over all arguments
("Mathematical Functions", single precision); a unit is at most 2^-23 of the magnitude, or 2^-149. The float64 roundings
of the ends themselves, near 2^-53, are lost in those. Nothing is known (``unsure``) where a range reaches the edge of a
function's domain, as that of log at 0, or ends that are infinite meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass

UNIT = 2.0**-23                 # of a float32 magnitude
SMALLEST = 2.0**-149
LARGEST = float(np.finfo(np.float32).max)
SMALLEST_NORMAL = 2.0**-126

# Largest errors in units in the last place; the guide's.
# ex2 and rcp: of ex2.approx and rcp.approx in the PTX manual, whose subnormal results are 0.
UNITS = {"exp": 2, "log": 1, "log2": 1, "rsqrt": 2, "tanh": 2, "erf": 2, "sin": 2, "cos": 2, "pow": 4,
         "ex2": 2, "rcp": 1}


@dataclass(frozen=True)
class Range:
    """``value`` exactly, and ``low`` <= what a kernel has <= ``high``, element by element; nothing where ``unsure``."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    unsure: np.ndarray

    @classmethod
    def around(cls, value: Any, bound: Any = 0.0) -> Range:
        """Values that a kernel has to within ``bound``."""
        value = np.asarray(value, np.float64)
        return cls(value, value - bound, value + bound, np.zeros(np.shape(value), bool))

    def of_shape(self, shape: tuple[int, ...]) -> Range:
        """The same for every element of an array: what no operand made an array of (an expression without v)."""
        return Range(*(np.broadcast_to(part, shape) for part in (self.value, self.low, self.high, self.unsure)))

    @property
    def bound(self) -> np.ndarray:
        """The largest distance of what a kernel may have from the exact value; infinite where nothing is known."""
        with np.errstate(invalid="ignore"):
            distance = np.maximum(self.high - self.value, self.value - self.low)
        return np.where(self.undetermined, np.inf, distance)

    @property
    def undetermined(self) -> np.ndarray:
        """Where a kernel may have anything."""
        with np.errstate(invalid="ignore"):
            far = np.isinf(self.high - self.low) & np.isfinite(self.value)
        return self.unsure | far | _nothing(self.value, self.low, self.high)


def _nothing(value: Any, low: Any, high: Any) -> Any:
    """Where ends came from infinite ones that met, though the value itself is a number."""
    return (np.isnan(low) | np.isnan(high)) & ~np.isnan(value)


def _made(value: Any, ends: list[Any], unsure: Any, units: float = 0.5) -> Range:
    """From the candidates for both ends: the outermost, moved apart by a rounding, which keeps the sign; what overflows
    is infinite."""
    least, most = np.minimum.reduce(np.broadcast_arrays(*ends)), np.maximum.reduce(np.broadcast_arrays(*ends))
    low = least - (units * UNIT * np.abs(least) + units * SMALLEST)
    high = most + (units * UNIT * np.abs(most) + units * SMALLEST)
    low, high = np.where((least >= 0) & (low < 0), 0.0, low), np.where((most <= 0) & (high > 0), 0.0, high)
    low = np.where(low < -LARGEST, -np.inf, np.where(low > LARGEST, LARGEST, low))
    high = np.where(high > LARGEST, np.inf, np.where(high < -LARGEST, -LARGEST, high))
    return Range(value, low, high, unsure | _nothing(value, low, high))


def _exact(value: Any, ends: list[Any], unsure: Any) -> Range:
    return _made(value, ends, unsure, 0.0)


def number(value: float) -> Range:
    """A constant that the kernel has exactly."""
    return Range.around(value)


def rounded(value: float) -> Range:
    """A constant that the kernel has rounded to float32."""
    return Range.around(value, abs(value) * UNIT / 2)


def negate(a: Range) -> Range:
    return _exact(-a.value, [-a.low, -a.high], a.unsure)


def add(a: Range, b: Range) -> Range:
    return _made(a.value + b.value, [a.low + b.low, a.high + b.high], a.unsure | b.unsure)


def subtract(a: Range, b: Range) -> Range:
    return _made(a.value - b.value, [a.low - b.high, a.high - b.low], a.unsure | b.unsure)


def multiply(a: Range, b: Range) -> Range:
    return _made(a.value * b.value, [p * q for p in (a.low, a.high) for q in (b.low, b.high)], a.unsure | b.unsure)


def divide(a: Range, b: Range) -> Range:
    with_zero = (b.low <= 0) & (b.high >= 0)
    return _made(a.value / b.value, [p / q for p in (a.low, a.high) for q in (b.low, b.high)],
                 a.unsure | b.unsure | with_zero)


def absolute(a: Range) -> Range:
    least = np.where(a.low > 0, a.low, np.where(a.high < 0, -a.high, 0.0))
    return _exact(np.abs(a.value), [least, np.maximum(np.abs(a.low), np.abs(a.high))], a.unsure)


def minimum(a: Range, b: Range) -> Range:
    return Range(np.minimum(a.value, b.value), np.minimum(a.low, b.low), np.minimum(a.high, b.high),
                 a.unsure | b.unsure)


def maximum(a: Range, b: Range) -> Range:
    return Range(np.maximum(a.value, b.value), np.maximum(a.low, b.low), np.maximum(a.high, b.high),
                 a.unsure | b.unsure)


def clamp(a: Range, low: float, high: float) -> Range:
    return minimum(maximum(a, number(low)), number(high))


def _monotone(function: Callable[[Any], Any], units: float) -> Callable[[Range], Range]:
    return lambda a: _made(function(a.value), [function(a.low), function(a.high)], a.unsure, units)


def _above(function: Callable[[Any], Any], units: float, edge: Callable[[Range], Any]) -> Callable[[Range], Range]:
    """A monotone function of positive numbers; ``edge``: where a range is neither inside nor outside its domain."""
    return lambda a: _made(function(a.value), [function(a.low), function(a.high)], a.unsure | edge(a), units)


def _wave(function: Callable[[Any], Any], units: float) -> Callable[[Range], Range]:
    """sin and cos: their slope is at most 1, and they stay within 1."""
    def apply(a: Range) -> Range:
        value, reach = function(a.value), np.maximum(a.high - a.value, a.value - a.low)
        return _made(value, [np.maximum(value - reach, -1.0), np.minimum(value + reach, 1.0)],
                     a.unsure | np.isinf(reach), units)
    return apply


def _flushed(a: Range) -> Range:
    """What may be subnormal may be 0."""
    return Range(a.value, np.where((a.low > 0) & (a.low < SMALLEST_NORMAL), 0.0, a.low), a.high, a.unsure)


def exp2(a: Range) -> Range:
    """ex2.approx of the value. Beyond float32 it is infinite and its reciprocal 0, as that of 2^1000 is; float64 has
    that number, and an infinite one would leave no bound."""
    value, *ends = (np.exp2(np.minimum(part, 1000.0)) for part in (a.value, a.low, a.high))
    return _flushed(_made(value, ends, a.unsure, UNITS["ex2"]))


def reciprocal(a: Range) -> Range:
    """rcp.approx of a positive value."""
    return _flushed(_made(1.0 / a.value, [1.0 / a.low, 1.0 / a.high], a.unsure, UNITS["rcp"]))


def sigmoid(a: Range) -> Range:
    """As it is emitted: 1 / (1 + 2^(-log2(e) a))."""
    return reciprocal(add(number(1.0), exp2(multiply(a, rounded(-math.log2(math.e))))))


def power(a: Range, b: Range) -> Range:
    """Monotone in each operand where the base is positive; whole exponents take any base. NaN to the power 0 is 1, and
    so is 1 to the power NaN, which leaves open what only nearly has such an operand."""
    whole = (b.low == b.high) & (np.floor(b.low) == b.low)
    ends = [np.power(p, q) for p in (a.low, a.high) for q in (b.low, b.high)]
    zero_inside = (a.low <= 0) & (a.high >= 0)
    ends.append(np.where(whole & zero_inside & (b.low > 0), 0.0, ends[0]))      # the least of an even power
    broken = (a.high < 0) & (np.ceil(b.low) > b.high)           # NaN: no whole number is in reach
    sure = (a.low > 0) | whole & ~(zero_inside & (b.low < 0)) | broken
    one = (np.isnan(a.value) & (b.low <= 0) & (b.high >= 0) & (b.low != b.high)
           | np.isnan(b.value) & (a.low <= 1) & (a.high >= 1) & (a.low != a.high))
    sure = (sure | np.isnan(np.power(a.value, b.value)) & np.isnan(a.value + b.value)) & ~one
    return _made(np.power(a.value, b.value), ends, a.unsure | b.unsure | ~sure, UNITS["pow"])


@dataclass(frozen=True)
class Truth:
    """A comparison: what it is of the exact values, and where every kernel finds it true, or false."""

    value: np.ndarray
    always: np.ndarray
    never: np.ndarray


def _comparison(compare: Callable[[Any, Any], Any], always: Callable[[Range, Range], Any],
                never: Callable[[Range, Range], Any]) -> Callable[[Range, Range], Truth]:
    def apply(a: Range, b: Range) -> Truth:
        value, sure = compare(a.value, b.value), ~(a.unsure | b.unsure)
        undefined = sure & (np.isnan(a.value) | np.isnan(b.value))      # of NaN, all but != are false
        return Truth(value, sure & always(a, b) | undefined & value, sure & never(a, b) | undefined & ~value)
    return apply


def where(condition: Truth, a: Range, b: Range) -> Range:
    """One of two ranges, or both together where kernels may differ in the comparison."""
    def chosen(first: Any, second: Any, either: Any) -> Any:
        return np.where(condition.always, first, np.where(condition.never, second, either))

    differ = a.unsure | b.unsure | np.isnan(a.value) | np.isnan(b.value)
    return Range(np.where(condition.value, a.value, b.value), chosen(a.low, b.low, np.minimum(a.low, b.low)),
                 chosen(a.high, b.high, np.maximum(a.high, b.high)), chosen(a.unsure, b.unsure, differ))


def error_function(x: Any) -> np.ndarray:
    """erf in float64, exactly rounded to a unit or so: the C library's, element by element."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "number": number, "negate": negate, "+": add, "-": subtract, "*": multiply, "/": divide, "abs": absolute,
    "min": minimum, "max": maximum, "relu": lambda a: maximum(a, number(0.0)), "sigmoid": sigmoid, "pow": power,
    "where": where, "exp": _monotone(np.exp, UNITS["exp"]), "tanh": _monotone(np.tanh, UNITS["tanh"]),
    "erf": _monotone(error_function, UNITS["erf"]), "floor": _monotone(np.floor, 0.0),
    "ceil": _monotone(np.ceil, 0.0), "sin": _wave(np.sin, UNITS["sin"]), "cos": _wave(np.cos, UNITS["cos"]),
    "log": _above(np.log, UNITS["log"], lambda a: (a.low <= 0) & (a.high >= 0)),
    "log2": _above(np.log2, UNITS["log2"], lambda a: (a.low <= 0) & (a.high >= 0)),
    "rsqrt": _above(lambda x: 1.0 / np.sqrt(x), UNITS["rsqrt"], lambda a: (a.low <= 0) & (a.high >= 0)),
    "sqrt": _above(np.sqrt, 0.5, lambda a: (a.low < 0) & (a.high >= 0)),
    "<": _comparison(np.less, lambda a, b: a.high < b.low, lambda a, b: a.low >= b.high),
    "<=": _comparison(np.less_equal, lambda a, b: a.high <= b.low, lambda a, b: a.low > b.high),
    ">": _comparison(np.greater, lambda a, b: a.low > b.high, lambda a, b: a.high <= b.low),
    ">=": _comparison(np.greater_equal, lambda a, b: a.low >= b.high, lambda a, b: a.high < b.low),
    "==": _comparison(np.equal, lambda a, b: (a.low == a.high) & (b.low == b.high) & (a.low == b.low),
                      lambda a, b: (a.high < b.low) | (a.low > b.high)),
    "!=": _comparison(np.not_equal, lambda a, b: (a.high < b.low) | (a.low > b.high),
                      lambda a, b: (a.low == a.high) & (b.low == b.high) & (a.low == b.low))}
