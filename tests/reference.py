"""Convolution in float64, made another way than the kernels make it, and the error that a kernel may have.

Arrays of x and y have their axes in the layout's order, and are of the element type (ml_dtypes' for bfloat16).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import Cast, DType, Layout
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

from . import near

ELEMENTS = {dtype: np.dtype(ml_dtypes.bfloat16 if dtype is DType.BFLOAT16 else dtype.value) for dtype in DType}
EPSILON = float(np.finfo(np.float32).eps)
AT_ONCE = 1 << 21       # elements of windows that are contracted at once
# of a product of shorter factors, as a share of it
LEFT_OUT = {Numerics.TF32X3: 2.0**-20, Numerics.FP16X3: 2.0**-20, Numerics.TF32: 2.0**-10 + 2.0**-20}


@dataclass(frozen=True)
class Expected:
    """The output in float64, and for each of its elements the largest error that a kernel may have; ``overflows``:
    where an infinity of the right sign will do as well; ``open``: where anything will (log of what may be 0)."""

    output: np.ndarray
    tolerance: np.ndarray
    element: np.dtype = ELEMENTS[DType.FLOAT32]
    overflows: np.ndarray | None = None
    open: np.ndarray | None = None
    modulus: int = 0        # of integers that wrap: differences are modulo this

    def check(self, got: np.ndarray, what: str = "") -> None:
        """AssertionError naming the worst element if one is off by more than its tolerance, or is no number."""
        assert got.dtype == self.element and got.shape == self.output.shape, (got.dtype, got.shape, self.output.shape)
        error = np.abs(got.astype(np.float64) - self.output)
        if self.modulus:
            error = np.minimum(error, self.modulus - error)
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
    by group, of so many images at once."""
    images = np.asarray(x)
    at_once = max(1, AT_ONCE * shape.n // (shape.macs // (shape.k // shape.groups) or 1))
    return np.concatenate([_some_images(images[at:at + at_once], w, shape) for at in range(0, len(images), at_once)])


def expected(x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
             residual: np.ndarray | None = None, epilogue: Iterable[Epilogue] = (),
             numerics: Numerics = Numerics.FLOAT32) -> Expected:
    """Output and tolerance of each element: (C/groups*R*S + 2) * eps * sum |a * b|, the bias being one more product, or
    in half arithmetic with half that type's eps (and steps of subnormals); then what steps after the first bias and
    relus make of it (tests/near.py), and half a step of a 16-bit result."""
    x, w, epilogue = np.moveaxis(x, -1, 1) if shape.layout is Layout.NHWC else x, np.asarray(w), tuple(epilogue)
    if shape.separable:     # columns, then rows; summed twice, so a rounding more
        w = np.einsum("kr,ks->krs", *np.split(w.reshape(shape.k, -1).astype(np.float64), [shape.r], axis=1))[:, None]
    output = convolve(x, w, shape)
    magnitude = convolve(np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)),
                         replace(shape, padding_value=abs(shape.padding_value)))
    column = None if bias is None else bias.astype(np.float64).reshape(-1, *[1] * len(shape.taps))
    steps = list(epilogue)
    while steps and steps[0].value in ("bias", "relu"):
        if steps.pop(0).value == "bias":
            output, magnitude = output + column, magnitude + np.abs(column)
        else:
            output = np.maximum(output, 0.0)
    tolerance = (shape.reduction + (3 if shape.separable else 2)) * EPSILON * magnitude
    tolerance = tolerance + LEFT_OUT.get(numerics, 0) * magnitude
    if shape.w_dtype.is_integer:        # exact sums; a float32 of them is rounded once
        tolerance = (EPSILON if epilogue else 0.0) * magnitude
    if numerics is Numerics.FLOAT16:
        half = ml_dtypes.finfo(ELEMENTS[shape.dtype])
        tolerance = (shape.reduction + 2) * (float(half.eps) * magnitude + float(half.smallest_subnormal)) / 2
    with np.errstate(all="ignore"):
        output, tolerance = _finished(output, tolerance, steps, {"bias": column, "residual": _logical(residual, shape)})
    in_order = (lambda a: np.moveaxis(a, 1, -1)) if shape.layout is Layout.NHWC else (lambda a: a)
    opened = in_order(np.isinf(tolerance) & bool(steps))
    if shape.y_dtype.is_integer:
        with np.errstate(invalid="ignore"):
            made = _integers(in_order(output), in_order(tolerance), shape)
        return replace(made, open=opened | np.isnan(in_order(output)))      # no integer is that of NaN
    if shape.y_dtype is not DType.FLOAT32 or shape.w_dtype.is_integer:
        tolerance = tolerance + half_a_step(np.abs(output) + tolerance, shape.y_dtype)
    overflows = np.abs(output) + tolerance >= float(ml_dtypes.finfo(ELEMENTS[shape.y_dtype]).max)
    return Expected(in_order(output), in_order(tolerance), ELEMENTS[shape.y_dtype], in_order(overflows), opened)


def _integers(output: np.ndarray, tolerance: np.ndarray, shape: ConvShape) -> Expected:
    """The integers that outputs become, and how far away those are that others within the tolerance become."""
    element = np.iinfo(shape.y_dtype.value)
    if shape.cast is Cast.NEAREST:
        become = lambda values: np.rint(np.minimum(np.maximum(values, element.min), element.max))     # noqa: E731
        modulus, exact = 0, become(output)
    else:
        become, modulus = np.trunc, element.max - element.min + 1
        exact = np.trunc(output).astype(np.int64).astype(shape.y_dtype.value).astype(np.float64)
    made = become(output)
    reach = np.maximum(become(output + tolerance) - made, made - become(output - tolerance))
    return Expected(exact, reach, ELEMENTS[shape.y_dtype], modulus=modulus)


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
        if name in operands:        # an int32 residual is rounded to float32 where it is added
            operand = np.asarray(operands[name], np.float64)
            made = made + near.Near(operand, np.abs(operand.astype(np.float32) - operand))
        else:
            made = near.after(name, inside[:-1], made)
    return tuple(np.broadcast_to(part, output.shape) for part in (made.value, made.radius))


def half_a_step(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Half the distance from each value to its neighbours in the element type."""
    limits = ml_dtypes.finfo(ELEMENTS[dtype])
    _, exponent = np.frexp(values)
    return np.maximum(np.exp2(exponent - 1.0) * float(limits.eps), float(limits.smallest_subnormal)) / 2


def operands(shape: ConvShape, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random input, filter (with no symmetry, every tap of another size) and bias, of the shape's types and layout.

    Integers have their whole range; their filters are such that few outputs leave the range of the elements.
    """
    x = rng.standard_normal(shape.input_shape).astype(np.float32)
    w = rng.standard_normal(shape.weight_shape).astype(np.float32)
    w += np.sign(w) * np.linspace(0.1, 1.0, w.size, dtype=np.float32).reshape(w.shape)
    bias = rng.standard_normal(shape.k).astype(np.float32)
    if shape.dtype.is_integer:
        x = rng.integers(*shape.dtype.limits, shape.input_shape, endpoint=True)
        w /= 2 * shape.reduction
        bias *= 20
    if shape.w_dtype.is_integer:
        w = rng.integers(-2, 2, shape.weight_shape, endpoint=True)
    if shape.layout is Layout.NHWC:
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return (x.astype(ELEMENTS[shape.dtype]), w.astype(ELEMENTS[shape.w_dtype]), bias.astype(ELEMENTS[shape.bias_dtype]))


def residual(shape: ConvShape, rng: np.random.Generator) -> np.ndarray:
    """A random residual of the output's type and layout: integers of a quarter of their range, for the same reason."""
    sizes = shape.layout.stored(shape.output_shape)
    if shape.y_dtype.is_integer:
        least, most = shape.y_dtype.limits
        return rng.integers(least // 4, most // 4, sizes, endpoint=True).astype(ELEMENTS[shape.y_dtype])
    return rng.standard_normal(sizes).astype(np.float32).astype(ELEMENTS[shape.y_dtype])


def poisoned(shape: ConvShape) -> np.ndarray:
    """Memory for an output, full of NaN, or of integers that no smooth picture has."""
    element, sizes = ELEMENTS[shape.y_dtype], shape.layout.stored(shape.output_shape)
    if shape.y_dtype.is_integer:
        return (np.arange(math.prod(sizes)) * 0x9E3779B1 >> 7).astype(element).reshape(sizes)
    return np.full(sizes, np.nan, element)


PAD_MODES = {Border.ZEROS: "constant", Border.CONSTANT: "constant", Border.REPLICATE: "edge", Border.REFLECT: "reflect",
             Border.SYMMETRIC: "symmetric", Border.CIRCULAR: "wrap"}


def _some_images(images: np.ndarray, w: np.ndarray, shape: ConvShape) -> np.ndarray:
    mode = PAD_MODES[shape.padding_mode]
    value = {"constant_values": shape.padding_value} if mode == "constant" else {}
    padded = np.pad(images.astype(np.float64), ((0, 0), (0, 0), *shape.padding), mode, **value)
    extent, rank = tuple(d * (f - 1) + 1 for d, f in zip(shape.dilation, shape.taps)), len(shape.taps)
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=tuple(range(2, rank + 2)))
    windows = windows[(slice(None), slice(None), *(slice(None, None, step) for step in (*shape.stride,
                                                                                       *shape.dilation)))]
    channels, filters = shape.c // shape.groups, shape.k // shape.groups
    parts = [np.tensordot(w[g * filters:(g + 1) * filters].astype(np.float64),
                          windows[:, g * channels:(g + 1) * channels],
                          axes=(range(1, rank + 2), (1, *range(rank + 2, 2 * rank + 2))))
             for g in range(shape.groups)]
    return np.moveaxis(np.concatenate(parts), 0, 1)
