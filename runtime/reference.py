"""The layer in float64, tap by tap, and the error that a float32 kernel may have; compared with, never a result.

A kernel sums C/groups*R*S products (and a bias) in float32, in some order. Its error is at most
(C/groups*R*S + 2) * eps * sum |a * b|, whatever the order; that is the bound of every output, on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Iterator

import numpy as np

from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

EPSILON = float(np.finfo(np.float32).eps)
BAND_ELEMENTS = 2**16       # float64 values of one slice of the input that are worked on at a time; they stay in cache


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The output in float64 and, for each element, the error that a float32 sum may have."""

    output: np.ndarray
    bound: np.ndarray


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
              epilogue: Iterable[Epilogue] = ()) -> Reference:
    """Output and bound of the layer for an input (N, C, H, W) and a weight (K, C/groups, R, S)."""
    output, magnitude = np.zeros(shape.output_shape), np.zeros(shape.output_shape)
    channels, filters = shape.c // shape.groups, shape.k // shape.groups
    for image in range(shape.n):
        for group in range(shape.groups):
            source = x[image, group * channels:(group + 1) * channels]
            made = slice(group * filters, (group + 1) * filters)
            for rows in _bands(shape, channels):
                _add_taps(output[image, made, rows], magnitude[image, made, rows], source, w[made], shape, rows.start)
    return _finished(output, magnitude, shape, bias, tuple(epilogue))


def compare(got: np.ndarray, x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
            epilogue: Iterable[Epilogue] = ()) -> Accuracy:
    """How far a float32 result is from the reference. Raises ShapeError for a result of another shape."""
    if got.shape != shape.output_shape:
        raise ShapeError("this is no result of the layer", argument="output", value=got.shape,
                         hint=f"{shape.output_shape}")
    expected = reference(x, w, shape, bias=bias, epilogue=epilogue)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected.output)
    error[np.isnan(expected.output) & np.isnan(got)] = 0.0
    error[expected.output == got] = 0.0                             # infinities of one sign
    ratio = np.divide(error, expected.bound, out=np.where(error > 0, np.inf, 0.0), where=expected.bound > 0)
    ratio[np.isnan(error)] = np.inf
    return Accuracy(max_error=_largest(error), bound=_largest(expected.bound), worst_ratio=_largest(ratio))


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


def _finished(output: np.ndarray, magnitude: np.ndarray, shape: ConvShape, bias: Any,
              epilogue: tuple[Epilogue, ...]) -> Reference:
    for step in epilogue:
        if step is Epilogue.BIAS:
            column = np.asarray(bias, np.float64)[None, :, None, None]
            output, magnitude = output + column, magnitude + np.abs(column)
        elif step is Epilogue.RELU:
            output = np.maximum(output, 0.0)
    return Reference(output=output, bound=(shape.reduction + 2) * EPSILON * magnitude)
