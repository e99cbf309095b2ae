"""The layer in float64, tap by tap, and the error that a kernel may have; compared with, never a result.

The elements are given, so in float64 the reference of them is exact but for roundings near 2^-53. A kernel differs
from it for two reasons, and the bound of every output, on its own, is the sum of both.

Summing. A kernel adds n = C/groups*R*S products (and a bias) in some order, in float32. With round to nearest, and
whatever the order, the error of such a sum is at most n * u * sum |a * b|, u the unit roundoff (2^-24; Jeannerod and
Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013: no condition on n); the bound
allows (n + 2) * eps * sum |a * b|, eps = 2u, which has room for a bias and for products that are rounded before they
are added. Where the kernel was asked for half arithmetic, products and sums are rounded to the element type; n
products, a bias and a last conversion are n + 2 roundings of partial sums, each of magnitude at most sum |a * b|: (n
+ 2) * u * sum |a * b| with that type's u, and n + 2 times half its smallest subnormal for those that are subnormal.

The epilogue. A bias and relus that come first are part of the sum above: relu brings no two numbers further apart. Each
later step takes the values that a kernel may have through the step (finish.py, ranges.py).

Storing. A 16-bit result is rounded once more, from what the kernel has, at most |y| + the bound so far: by u times
that (2^-11 for float16, which has 11 significant bits; 2^-8 for bfloat16, which has 8), or by half the smallest
subnormal if that is more. A magnitude from half a unit above the largest number on becomes infinite, so a 16-bit
infinity of the right sign is accepted where the reference, give or take the bound, reaches that far; in half
arithmetic, whose partial sums may overflow, anything not finite is accepted where sum |a * b| reaches that far. A
float32 result that is infinite where the reference is not is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Iterator

import numpy as np

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

from .elements import FORMATS, values
from .finish import LINEAR, finish

EPSILON = float(np.finfo(np.float32).eps)
BAND_ELEMENTS = 2**16       # float64 values of one slice of the input that are worked on at a time; they stay in cache


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The output in float64, the error that each element may have, where it may be infinite instead, and where a step of
    the epilogue leaves it open (log of what may be 0); all in the order of the layout's axes."""

    output: np.ndarray
    bound: np.ndarray
    overflows: np.ndarray
    undetermined: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The largest difference, the largest bound, and the largest ratio of an output's difference to its own bound."""

    max_error: float
    bound: float
    worst_ratio: float

    @property
    def within(self) -> bool:
        """Whether every output is within its own bound; false where one is not a number."""
        return self.worst_ratio <= 1.0

    def __str__(self) -> str:
        verdict = "within" if self.within else "OUTSIDE"
        return f"max error {self.max_error:.3g}, {verdict} the bound ({100 * self.worst_ratio:.3g} % of it at worst)"


def reference(x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
              residual: np.ndarray | None = None, epilogue: Iterable[Epilogue] = (),
              numerics: Numerics = Numerics.FLOAT32) -> Reference:
    """Output and bound of the layer for an input whose axes are in ``shape.layout``'s order and a weight (K, C/groups,
    R, S), both of ``shape.dtype`` (bfloat16 also as its bits); the output's axes are in the layout's order, too, and so
    are those of ``residual``."""
    x, w = _logical(values(x, shape.dtype), shape.layout), values(w, shape.dtype)
    output, magnitude = np.zeros(shape.output_shape), np.zeros(shape.output_shape)
    channels, filters = shape.c // shape.groups, shape.k // shape.groups
    for image in range(shape.n):
        for group in range(shape.groups):
            source = x[image, group * channels:(group + 1) * channels]
            made = slice(group * filters, (group + 1) * filters)
            for rows in _bands(shape, channels):
                _add_taps(output[image, made, rows], magnitude[image, made, rows], source, w[made], shape, rows.start)
    column = None if bias is None else values(np.asarray(bias), shape.dtype).astype(np.float64)[None, :, None, None]
    steps = tuple(epilogue)
    linear = next((i for i, step in enumerate(steps) if step not in LINEAR), len(steps))
    for step in steps[:linear]:
        if step == Epilogue.BIAS:
            output, magnitude = output + column, magnitude + np.abs(column)
        else:
            output = np.maximum(output, 0.0)
    added = None if residual is None else _logical(values(residual, shape.dtype), shape.layout).astype(np.float64)
    return _bounded(output, magnitude, shape, numerics, steps[linear:], {"bias": column, "residual": added})


def compare(got: np.ndarray, x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
            residual: np.ndarray | None = None, epilogue: Iterable[Epilogue] = (),
            numerics: Numerics = Numerics.FLOAT32) -> Accuracy:
    """How far a result is from the reference; arrays as reference() takes and gives them. Raises ShapeError for a result
    of another shape."""
    if got.shape != shape.layout.stored(shape.output_shape):
        raise ShapeError("this is no result of the layer", argument="output", value=got.shape,
                         hint=f"{shape.layout.stored(shape.output_shape)}")
    expected = reference(x, w, shape, bias=bias, residual=residual, epilogue=epilogue, numerics=numerics)
    got = values(got, shape.dtype)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected.output)
    error[np.isnan(expected.output) & np.isnan(got)] = 0.0
    error[expected.output == got] = 0.0                             # infinities of one sign
    error[_overflowed(got, expected, numerics)] = 0.0
    error[expected.undetermined] = 0.0
    ratio = np.divide(error, expected.bound, out=np.where(error > 0, np.inf, 0.0), where=expected.bound > 0)
    ratio[np.isnan(error)] = np.inf
    return Accuracy(max_error=_largest(error), bound=_largest(expected.bound), worst_ratio=_largest(ratio))


def _bounded(output: np.ndarray, magnitude: np.ndarray, shape: ConvShape, numerics: Numerics,
             steps: tuple[Epilogue, ...], operands: dict[str, np.ndarray | None]) -> Reference:
    """The bound of the module's docstring, from the sum |a * b| of each output, after the ``steps`` that are left."""
    form = FORMATS[shape.dtype]
    half = numerics is Numerics.FLOAT16
    terms = shape.reduction + 2
    bound = terms * (form.roundoff * magnitude + form.half_step) if half else terms * EPSILON * magnitude
    lost = overflows = undetermined = np.zeros(output.shape, bool)
    if steps:
        if half:    # a partial sum that overflowed may be anything before a step
            lost = magnitude + bound >= form.overflow
        made = finish(output, np.where(lost, np.inf, bound), steps, **operands)
        output, bound, undetermined = made.value, made.bound, made.undetermined
    if shape.dtype is not DType.FLOAT32:
        with np.errstate(invalid="ignore"):
            bound = bound + np.maximum(form.roundoff * (np.abs(output) + bound), form.half_step)
            overflows = lost | ((magnitude if half else np.abs(output)) + bound >= form.overflow)
    return Reference(**{name: _stored(array, shape.layout) for name, array in (
        ("output", output), ("bound", bound), ("overflows", overflows), ("undetermined", undetermined))})


def _overflowed(got: np.ndarray, expected: Reference, numerics: Numerics) -> np.ndarray:
    """Where a result is rightly not finite though the reference is."""
    right = np.isinf(got) & (np.signbit(got) == np.signbit(expected.output))
    allowed = ~np.isfinite(got) if numerics is Numerics.FLOAT16 else right
    return expected.overflows & np.isfinite(expected.output) & allowed


def _logical(array: np.ndarray, layout: Layout) -> np.ndarray:
    """An array in the layout's order of axes seen as (N, C, H, W)."""
    return array if layout is Layout.NCHW else array.transpose(0, 3, 1, 2)


def _stored(array: np.ndarray, layout: Layout) -> np.ndarray:
    """The inverse of _logical."""
    return array if layout is Layout.NCHW else array.transpose(0, 2, 3, 1)


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.nan_to_num(values, nan=np.inf, posinf=np.inf)))


def _bands(shape: ConvShape, channels: int) -> Iterator[slice]:
    rows = max(1, BAND_ELEMENTS // (channels * shape.q))
    for start in range(0, shape.p, rows):
        yield slice(start, min(shape.p, start + rows))


def _add_taps(output: np.ndarray, magnitude: np.ndarray, source: np.ndarray, weight: np.ndarray, shape: ConvShape,
              first: int) -> None:
    """Add to some output rows, from ``first``, one tap after the other: the filters times the shifted input."""
    padded = _padded_rows(source, shape, first, output.shape[1])
    sizes, absolute = np.abs(padded), np.abs(weight.astype(np.float64))
    (down, right), (step, stride) = shape.dilation, shape.stride
    bottom, end = (output.shape[1] - 1) * step + 1, (shape.q - 1) * stride + 1
    for r in range(shape.r):
        for s in range(shape.s):
            window = np.s_[:, r * down:r * down + bottom:step, s * right:s * right + end:stride]
            output += np.tensordot(weight[:, :, r, s].astype(np.float64), padded[window], axes=1)
            magnitude += np.tensordot(absolute[:, :, r, s], sizes[window], axes=1)


def _padded_rows(source: np.ndarray, shape: ConvShape, first: int, count: int) -> np.ndarray:
    """The input rows, in float64 and with their padding, that ``count`` output rows from ``first`` read."""
    (top, _), (left, right) = shape.padding
    start = first * shape.stride[0] - top
    rows = (count - 1) * shape.stride[0] + (shape.r - 1) * shape.dilation[0] + 1
    padded = np.zeros((source.shape[0], rows, shape.w + left + right))
    low, high = max(0, start), min(shape.h, start + rows)
    if low < high:
        padded[:, low - start:high - start, left:left + shape.w] = source[:, low:high]
    return padded
