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

Where float32 products are made of shorter factors (tf32x3, tf32; docs/precision.md), Numerics.dropped * sum |a * b|
comes to that: what is left out of products, and the roundings of sums that are cut.

The epilogue. A bias and relus that come first are part of the sum above: relu brings no two numbers further apart. Each
later step takes the values that a kernel may have through the step (finish.py, ranges.py).

Separable filters, wy[r] * wx[s], are summed twice: the sums of an input row, S products, have an error of at most S * u
* sum |a * wx|; their R products with wy add R * u of what they have. Together (R + S) * u * sum |a| |wy| |wx| but for
terms in u^2; the bound allows (R + S + 3) * eps of it, and is one against the product of the factors. A result for a
filter that is only nearly that product (separable.Factors tells by how much) may be off by its difference * sum |a|
more.

Storing. A 16-bit result is rounded once more, from what the kernel has, at most |y| + the bound so far: by u times
that (2^-11 for float16, which has 11 significant bits; 2^-8 for bfloat16, which has 8), or by half the smallest
subnormal if that is more. A magnitude from half a unit above the largest number on becomes infinite, so a 16-bit
infinity of the right sign is accepted where the reference, give or take the bound, reaches that far; in half
arithmetic, whose partial sums may overflow, anything not finite is accepted where sum |a * b| reaches that far. A
float32 result that is infinite where the reference is not is an error.

Integers. Sums of integer filters are exact, so their bound is nothing but what an epilogue's conversion to float32
rounds: eps * sum |a * b|. An integer element is what the reference becomes by the layer's cast, and its bound is how
far what the reference give or take the bound so far becomes is from that: 0 where no other integer is in reach. With
cast "truncate" both are taken modulo 2^bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Cast, DType, Layout
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics
from warpconv.runtime.arrays.elements import FORMATS, values
from warpconv.runtime.call.separable import whole

from .finish import LINEAR, finish

EPSILON = float(np.finfo(np.float32).eps)
BAND_ELEMENTS = 2**16       # float64 values of one slice of the input that are worked on at a time; they stay in cache


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The output in float64, the error that each element may have, where it may be infinite instead, and where a step
    of the epilogue leaves it open (log of what may be 0); all in the order of the layout's axes."""

    output: np.ndarray
    bound: np.ndarray
    overflows: np.ndarray
    undetermined: np.ndarray
    modulus: int = 0        # differences are modulo this, if it is not 0


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
    R, S), of volumes (K, C/groups, T, R, S), both of ``shape.dtype`` (bfloat16 also as its bits); the output's axes are
    in the layout's order, too, and so are those of ``residual``, which is of the output's type. The weight of a
    separable layer is its factors."""
    x, w = _logical(values(x, shape.dtype), shape.layout), values(w, shape.w_dtype)
    if shape.separable:
        w = whole(w, shape.r)
    output, magnitude = np.zeros(shape.output_shape), np.zeros(shape.output_shape)
    channels, filters = shape.c // shape.groups, shape.k // shape.groups
    for image in range(shape.n):
        for group in range(shape.groups):
            source = x[image, group * channels:(group + 1) * channels]
            made = slice(group * filters, (group + 1) * filters)
            for at, plane, weight in _planes(source, w[made], shape):
                for rows in _bands(shape, channels):
                    place = (image, made, *at, rows)
                    _add_taps(output[place], magnitude[place], plane, weight, shape, rows.start)
    column = None
    if bias is not None:
        column = values(np.asarray(bias), shape.bias_dtype).astype(np.float64).reshape(
            -1, *[1] * len(shape.outputs))
    steps = tuple(epilogue)
    linear = next((i for i, step in enumerate(steps) if step not in LINEAR), len(steps))
    for step in steps[:linear]:
        if step == Epilogue.BIAS:
            output, magnitude = output + column, magnitude + np.abs(column)
        else:
            output = np.maximum(output, 0.0)
    added = None if residual is None else _logical(values(residual, shape.y_dtype), shape.layout).astype(np.float64)
    bound = _summing_bound(magnitude, shape, numerics, bool(steps))
    lost = undetermined = np.zeros(output.shape, bool)
    if steps[linear:]:
        if numerics is Numerics.FLOAT16:    # a partial sum that overflowed may be anything before a step
            lost = magnitude + bound >= FORMATS[shape.dtype].overflow
        made = finish(output, np.where(lost, np.inf, bound), steps[linear:], bias=column, residual=added)
        output, bound, undetermined = made.value, made.bound, made.undetermined
    parts = (_stored(part, shape.layout) for part in (output, bound, magnitude, lost, undetermined))
    return _rounded(*parts, shape, numerics)


def compare(got: np.ndarray, x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
            residual: np.ndarray | None = None, epilogue: Iterable[Epilogue] = (),
            numerics: Numerics = Numerics.FLOAT32) -> Accuracy:
    """How far a result is from the reference; arrays as reference() takes and gives them. Raises ShapeError for a
    result of another shape."""
    if got.shape != shape.layout.stored(shape.output_shape):
        raise ShapeError("this is no result of the layer", argument="output", value=got.shape,
                         hint=f"{shape.layout.stored(shape.output_shape)}")
    expected = reference(x, w, shape, bias=bias, residual=residual, epilogue=epilogue, numerics=numerics)
    got = values(got, shape.y_dtype)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.float64) - expected.output)
    if expected.modulus:
        error = np.minimum(error, expected.modulus - error)
    error[np.isnan(expected.output) & np.isnan(got)] = 0.0
    error[expected.output == got] = 0.0                             # infinities of one sign
    error[_overflowed(got, expected, numerics)] = 0.0
    error[expected.undetermined] = 0.0
    return accuracy_of(error, expected.bound)


def accuracy_of(error: np.ndarray, bound: np.ndarray) -> Accuracy:
    """Of each output's difference and its own bound; what is not a number is past any."""
    ratio = np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=bound > 0)
    ratio[np.isnan(error)] = np.inf
    return Accuracy(max_error=_largest(error), bound=_largest(bound), worst_ratio=_largest(ratio))


def _summing_bound(magnitude: np.ndarray, shape: ConvShape, numerics: Numerics, steps: bool) -> np.ndarray:
    """The bound of summing, of the module's docstring, from the sum |a * b| of each output."""
    terms = shape.reduction + (3 if shape.separable else 2)
    if shape.w_dtype.is_integer:
        return (EPSILON if steps else 0.0) * magnitude
    if numerics is Numerics.FLOAT16:
        form = FORMATS[shape.dtype]
        return terms * (form.roundoff * magnitude + form.half_step)
    return (terms * EPSILON + numerics.dropped) * magnitude


def _rounded(output: np.ndarray, bound: np.ndarray, magnitude: np.ndarray, lost: np.ndarray, undetermined: np.ndarray,
             shape: ConvShape, numerics: Numerics) -> Reference:
    """What storing adds to the bound. ``lost``: where a partial sum may have overflowed."""
    if shape.y_dtype.is_integer:
        return _integers(output, bound, undetermined, shape)
    form, half = FORMATS[shape.y_dtype], numerics is Numerics.FLOAT16
    if shape.y_dtype is not DType.FLOAT32 or shape.w_dtype.is_integer:
        with np.errstate(invalid="ignore"):
            bound = bound + np.maximum(form.roundoff * (np.abs(output) + bound), form.half_step)
    overflows = lost
    if shape.y_dtype is not DType.FLOAT32:
        overflows = lost | ((magnitude if half else np.abs(output)) + bound >= form.overflow)
    return Reference(output=output, bound=bound, overflows=overflows, undetermined=undetermined)


def _integers(output: np.ndarray, bound: np.ndarray, undetermined: np.ndarray, shape: ConvShape) -> Reference:
    """The integers that outputs become, and how far from them those within the bound do; of NaN, any."""
    least, most = shape.y_dtype.limits
    none, undetermined = np.zeros(output.shape, bool), undetermined | np.isnan(output)
    if shape.cast is Cast.NEAREST:
        made, low, high = (np.clip(np.rint(v), least, most) for v in (output, output - bound, output + bound))
        return Reference(output=made, bound=np.maximum(high - made, made - low), overflows=none,
                         undetermined=undetermined)
    made, low, high = (np.trunc(v) for v in (output, output - bound, output + bound))
    modulus = most - least + 1
    return Reference(output=(made - least) % modulus + least, bound=np.maximum(high - made, made - low),
                     overflows=none, undetermined=undetermined, modulus=modulus)


def _overflowed(got: np.ndarray, expected: Reference, numerics: Numerics) -> np.ndarray:
    """Where a result is rightly not finite though the reference is."""
    right = np.isinf(got) & (np.signbit(got) == np.signbit(expected.output))
    allowed = ~np.isfinite(got) if numerics is Numerics.FLOAT16 else right
    return expected.overflows & np.isfinite(expected.output) & allowed


def _logical(array: np.ndarray, layout: Layout) -> np.ndarray:
    """An array in the layout's order of axes seen as (N, C, H, W) or (N, C, D, H, W)."""
    return array if layout is Layout.NCHW else np.moveaxis(array, -1, 1)


def _stored(array: np.ndarray, layout: Layout) -> np.ndarray:
    """The inverse of _logical."""
    return array if layout is Layout.NCHW else np.moveaxis(array, 1, -1)


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.nan_to_num(values, nan=np.inf, posinf=np.inf)))


def _planes(source: np.ndarray, weight: np.ndarray, shape: ConvShape
            ) -> Iterator[tuple[tuple[int, ...], np.ndarray, np.ndarray]]:
    """What is added to which outputs: the output plane's index, which images have none of, an input plane (C/groups, H,
    W), and the filters' plane that meets it."""
    if not shape.is_volume:
        yield (), source, weight
        return
    outside = np.full((source.shape[0], shape.h, shape.w), shape.padding_value)
    for z in range(shape.outputs[0]):
        for t in range(shape.taps[0]):
            found = shape.padding_mode.index(
                z * shape.stride[0] - shape.padding[0][0] + t * shape.dilation[0], shape.image[0])
            yield (z,), outside if found is None else source[:, found], weight[:, :, t]


def _bands(shape: ConvShape, channels: int) -> Iterator[slice]:
    rows = max(1, BAND_ELEMENTS // (channels * shape.q))
    for start in range(0, shape.p, rows):
        yield slice(start, min(shape.p, start + rows))


def _add_taps(output: np.ndarray, magnitude: np.ndarray, source: np.ndarray, weight: np.ndarray, shape: ConvShape,
              first: int) -> None:
    """Add to some output rows, from ``first``, one tap after the other: the filters times the shifted input."""
    padded = _padded_rows(source, shape, first, output.shape[1])
    sizes, absolute = np.abs(padded), np.abs(weight.astype(np.float64))
    (down, right), (step, stride) = shape.dilation[-2:], shape.stride[-2:]
    bottom, end = (output.shape[1] - 1) * step + 1, (shape.q - 1) * stride + 1
    for r in range(shape.r):
        for s in range(shape.s):
            window = np.s_[:, r * down:r * down + bottom:step, s * right:s * right + end:stride]
            output += np.tensordot(weight[:, :, r, s].astype(np.float64), padded[window], axes=1)
            magnitude += np.tensordot(absolute[:, :, r, s], sizes[window], axes=1)


def _padded_rows(source: np.ndarray, shape: ConvShape, first: int, count: int) -> np.ndarray:
    """The input rows, in float64 and with their padding, that ``count`` output rows from ``first`` read."""
    (top, _), (left, right) = shape.padding[-2:]
    start = first * shape.stride[-2] - top
    rows = (count - 1) * shape.stride[-2] + (shape.r - 1) * shape.dilation[-2] + 1
    down, inside = _border_indices(shape, start, rows, shape.h)
    across, within = _border_indices(shape, -left, shape.w + left + right, shape.w)
    padded = source[:, down][:, :, across].astype(np.float64)
    padded[:, ~inside] = shape.padding_value
    padded[:, :, ~within] = shape.padding_value
    return padded


def _border_indices(shape: ConvShape, start: int, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the pixels from ``start`` on are taken from, and which are pixels of the image at all."""
    found = [shape.padding_mode.index(i, size) for i in range(start, start + count)]
    return np.array([i or 0 for i in found], np.intp), np.array([i is not None for i in found], bool)
