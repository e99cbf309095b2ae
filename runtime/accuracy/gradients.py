"""A layer's gradients in float64, tap by tap, and the error that a kernel of one may have: no result of a call.

Every element is a sum of products in float32, whose bound is that of reference.py for as many products as the element
has; one of 16 bits is rounded once more.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime.arrays.elements import FORMATS, values

from .reference import EPSILON, Accuracy, accuracy_of


@dataclass(frozen=True)
class Sums:
    """Exact values, the sums of their products' magnitudes, and how many products each has."""

    output: np.ndarray
    magnitude: np.ndarray
    products: np.ndarray


def compare_gradient(got: np.ndarray, given: Mapping[str, np.ndarray], shape: ConvShape, spec: KernelSpec) -> Accuracy:
    """How far a gradient is from its exact value. ``given``: the kernel's arrays by its names for them (x, w, dy,
    bias), axes of images in the layout's order, as ``got`` has them."""
    arrays = {name: _logical(values(array, shape.dtype), shape.layout if name in ("x", "dy") else Layout.NCHW)
              for name, array in given.items()}
    sums = {Operation.DATA_GRADIENT: _of_input, Operation.FILTER_GRADIENT: _of_filter,
            Operation.BIAS_GRADIENT: _of_bias}[spec.operation](arrays, shape)
    if spec.operation is Operation.DATA_GRADIENT:
        got = _logical(got, shape.layout)
    bound = ((sums.products + 2) * EPSILON + spec.numerics.dropped) * sums.magnitude
    form = FORMATS[shape.dtype]
    if shape.dtype is not DType.FLOAT32:
        bound = bound + np.maximum(form.roundoff * (np.abs(sums.output) + bound), form.half_step)
    got = values(got, shape.dtype).astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - sums.output)
    error[np.isinf(got) & (np.sign(got) == np.sign(sums.output)) & (np.abs(sums.output) + bound >= form.overflow)] = 0.0
    return accuracy_of(error, bound)


def _of_input(arrays: Mapping[str, np.ndarray], shape: ConvShape) -> Sums:
    """What each tap of each output adds to the element that it met, in the border, too."""
    made = [np.zeros(shape.input_shape) for _ in range(3)]
    dy = arrays["dy"].astype(np.float64).reshape(shape.n, shape.groups, shape.filters, *shape.outputs)
    w = arrays["w"].astype(np.float64).reshape(shape.groups, shape.filters, shape.channels, *shape.taps)
    for tap in itertools.product(*map(range, shape.taps)):
        met = _met(shape, tap)
        kept = [np.array([i for i, at in enumerate(axis) if at is not None], np.intp) for axis in met]
        places = [np.array([axis[i] for i in rows], np.intp) for axis, rows in zip(met, kept)]
        for into, left, right in zip(made, (dy, np.abs(dy), np.ones_like(dy)), (w, np.abs(w), np.ones_like(w))):
            shares = np.einsum("ngk...,gkc->ngc...", left, right[(..., *tap)]).reshape(shape.n, shape.c, *shape.outputs)
            np.add.at(into, (slice(None), slice(None), *np.ix_(*places)), shares[(slice(None), slice(None),
                                                                                 *np.ix_(*kept))])
    if "bias" in arrays:        # of a transposed layer
        bias = arrays["bias"].astype(np.float64).reshape(-1, *[1] * len(shape.image))
        made[0] += bias
        made[1] += np.abs(bias)
    return Sums(*made)


def _of_filter(arrays: Mapping[str, np.ndarray], shape: ConvShape) -> Sums:
    """Each tap's products, over all images and outputs."""
    output, magnitude = np.zeros(shape.weight_shape), np.zeros(shape.weight_shape)
    x = arrays["x"].astype(np.float64)
    dy = arrays["dy"].astype(np.float64).reshape(shape.n, shape.groups, shape.filters, -1)
    for tap in itertools.product(*map(range, shape.taps)):
        met, found = _met(shape, tap), x
        for axis, places in enumerate(met):
            found = np.take(found, [at or 0 for at in places], axis=axis + 2)
        inside = functools.reduce(np.logical_and.outer, [[at is not None for at in places] for places in met])
        found = np.where(inside, found, shape.padding_value).reshape(shape.n, shape.groups, shape.channels, -1)
        for into, left, right in ((output, found, dy), (magnitude, np.abs(found), np.abs(dy))):
            into[(..., *tap)] = np.einsum("ngcp,ngkp->gkc", left, right).reshape(shape.k, shape.channels)
    return Sums(output, magnitude, np.full(output.shape, shape.output_pixels))


def _of_bias(arrays: Mapping[str, np.ndarray], shape: ConvShape) -> Sums:
    dy = arrays["dy"].astype(np.float64)
    over = (0, *range(2, dy.ndim))
    return Sums(dy.sum(over), np.abs(dy).sum(over), np.full(shape.k, shape.output_pixels))


def _met(shape: ConvShape, tap: tuple[int, ...]) -> list[list[int | None]]:
    """Along each axis the element that a tap meets for each output; None where the border's value stands."""
    return [[shape.padding_mode.index(i * stride - sides[0] + at * apart, size) for i in range(outputs)]
            for at, stride, sides, apart, size, outputs in zip(
                tap, shape.stride, shape.padding, shape.dilation, shape.image, shape.outputs)]


def _logical(array: np.ndarray, layout: Layout) -> np.ndarray:
    return array if layout is Layout.NCHW else np.moveaxis(array, -1, 1)
