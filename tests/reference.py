"""Convolution in float64, made another way than the kernels make it, and the error that a kernel may have.

Arrays of x and y have their axes in the layout's order, and are of the element type (ml_dtypes' for bfloat16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

import ml_dtypes
import numpy as np

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

from . import near

ELEMENTS = {DType.FLOAT32: np.dtype(np.float32), DType.FLOAT16: np.dtype(np.float16),
            DType.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Expected:
    """The output in float64, and for each of its elements the largest error that a kernel may have; ``overflows``: where
    an infinity of the right sign will do as well; ``open``: where anything will (log of what may be 0)."""

    output: np.ndarray
    tolerance: np.ndarray
    element: np.dtype = ELEMENTS[DType.FLOAT32]
    overflows: np.ndarray | None = None
    open: np.ndarray | None = None

    def check(self, got: np.ndarray, what: str = "") -> None:
        """AssertionError naming the worst element if one is off by more than its tolerance, or is no number."""
        assert got.dtype == self.element and got.shape == self.output.shape, (got.dtype, got.shape, self.output.shape)
        error = np.abs(got.astype(np.float64) - self.output)
        if self.overflows is not None:
            error[self.overflows & (got.astype(np.float64) == np.copysign(np.inf, self.output))] = 0.0
        error[np.isnan(self.output) & np.isnan(got.astype(np.float64))] = 0.0
        if self.open is not None:
            error[self.open] = 0.0
        wrong = ~(error <= np.where(error == 0, 0.0, self.tolerance))      # also true where the result alone is NaN
        if wrong.any():
            excess = np.where(np.isnan(error), np.inf, error / np.maximum(self.tolerance, 1e-300))
            worst = np.unravel_index(int(np.argmax(excess)), error.shape)
            raise AssertionError(
                f"{what}: {int(wrong.sum())} of {wrong.size} outputs are wrong; at {tuple(map(int, worst))} there is "
                f"{got[worst]!r} instead of {self.output[worst]!r} +- {self.tolerance[worst]:.3g}")


def convolve(x: np.ndarray, w: np.ndarray, shape: ConvShape) -> np.ndarray:
    """The layer in float64, (N, C, H, W) to (N, K, P, Q): windows of the padded input, contracted with the filter group
    by group."""
    return np.stack([_one_image(image, w, shape) for image in np.asarray(x)])


def expected(x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
             residual: np.ndarray | None = None, epilogue: Iterable[Epilogue] = (), numerics: Numerics = Numerics.FLOAT32) -> Expected:
    """Output and tolerance of each element: (C/groups*R*S + 2) * eps * sum |a * b|, the bias being one more product, or
    in half arithmetic with half that type's eps (and steps of subnormals); then what steps after the first bias and
    relus make of it (tests/near.py), and half a step of a 16-bit result."""
    x, w = np.moveaxis(x, -1, 1) if shape.layout is Layout.NHWC else x, np.asarray(w)
    output = convolve(x, w, shape)
    magnitude = convolve(np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)), shape)
    column = None if bias is None else bias.astype(np.float64)[None, :, None, None]
    steps = list(epilogue)
    while steps and steps[0].value in ("bias", "relu"):
        if steps.pop(0).value == "bias":
            output, magnitude = output + column, magnitude + np.abs(column)
        else:
            output = np.maximum(output, 0.0)
    tolerance = (shape.reduction + 2) * EPSILON * magnitude
    if numerics is Numerics.FLOAT16:
        half = ml_dtypes.finfo(ELEMENTS[shape.dtype])
        tolerance = (shape.reduction + 2) * (float(half.eps) * magnitude + float(half.smallest_subnormal)) / 2
    with np.errstate(all="ignore"):
        output, tolerance = _finished(output, tolerance, steps, {"bias": column, "residual": _logical(residual, shape)})
    if shape.dtype is not DType.FLOAT32:
        tolerance = tolerance + half_a_step(np.abs(output) + tolerance, shape.dtype)
    overflows = np.abs(output) + tolerance >= float(ml_dtypes.finfo(ELEMENTS[shape.dtype]).max)
    opened = np.isinf(tolerance) & bool(steps)
    in_order = (lambda a: np.moveaxis(a, 1, -1)) if shape.layout is Layout.NHWC else (lambda a: a)
    return Expected(in_order(output), in_order(tolerance), ELEMENTS[shape.dtype], in_order(overflows), in_order(opened))


def _logical(array: np.ndarray | None, shape: ConvShape) -> np.ndarray | None:
    """An array of the output's shape as (N, K, P, Q) in float64."""
    if array is None:
        return None
    return (np.moveaxis(array, -1, 1) if shape.layout is Layout.NHWC else array).astype(np.float64)


def _finished(output: np.ndarray, tolerance: np.ndarray, steps: list[Epilogue],
              operands: dict[str, np.ndarray | None]) -> tuple[np.ndarray, np.ndarray]:
    """Values and their errors after the steps, each by its text."""
    made = near.Near(output, tolerance)
    for step in steps:
        name, _, inside = step.value.partition("(")
        made = made + near.Near(operands[name]) if name in operands else near.after(name, inside[:-1], made)
    return (np.broadcast_to(part, output.shape) for part in (made.value, made.radius))


def half_a_step(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Half the distance from each value to its neighbours in the element type."""
    limits = ml_dtypes.finfo(ELEMENTS[dtype])
    _, exponent = np.frexp(values)
    return np.maximum(np.exp2(exponent - 1.0) * float(limits.eps), float(limits.smallest_subnormal)) / 2


def operands(shape: ConvShape, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random input, filter (with no symmetry, every tap of another size) and bias, of the shape's type and layout."""
    element = ELEMENTS[shape.dtype]
    x = rng.standard_normal(shape.input_shape).astype(np.float32)
    w = rng.standard_normal(shape.weight_shape).astype(np.float32)
    w += np.sign(w) * np.linspace(0.1, 1.0, w.size, dtype=np.float32).reshape(w.shape)
    bias = rng.standard_normal(shape.k).astype(np.float32)
    if shape.layout is Layout.NHWC:
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return x.astype(element), w.astype(element), bias.astype(element)


def poisoned(shape: ConvShape) -> np.ndarray:
    """Memory for an output, full of NaN."""
    return np.full(shape.layout.stored(shape.output_shape), np.nan, ELEMENTS[shape.dtype])


def _one_image(image: np.ndarray, w: np.ndarray, shape: ConvShape) -> np.ndarray:
    padded = np.pad(image.astype(np.float64), ((0, 0), *shape.padding))
    extent = tuple(d * (f - 1) + 1 for d, f in zip(shape.dilation, (shape.r, shape.s)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=(1, 2))
    windows = windows[:, ::shape.stride[0], ::shape.stride[1], ::shape.dilation[0], ::shape.dilation[1]]
    channels, filters = shape.c // shape.groups, shape.k // shape.groups
    parts = [np.tensordot(w[g * filters:(g + 1) * filters].astype(np.float64),
                          windows[g * channels:(g + 1) * channels], axes=((1, 2, 3), (0, 3, 4)))
             for g in range(shape.groups)]
    return np.concatenate(parts)
