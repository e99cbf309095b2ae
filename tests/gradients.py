"""Drawn layers with gradients in float64, made by scattering: each output's gradient is added, tap by tap, to the
pixels and weights that made the output, found by the border's index function."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import warpconv
from tests import volumes
from tests.reference import ELEMENTS, EPSILON, LEFT_OUT, Expected, half_a_step
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation

BORDERS = (Border.ZEROS, Border.ZEROS, Border.CONSTANT, Border.REPLICATE, Border.REFLECT, Border.SYMMETRIC,
           Border.CIRCULAR)
TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
OUTPUTS = {Operation.DATA_GRADIENT: "dx", Operation.FILTER_GRADIENT: "dw", Operation.BIAS_GRADIENT: "db"}


@dataclass(frozen=True)
class Gradients:
    """Arrays of a layer with axes in its layout's order, and its gradients with the error that each may have."""

    shape: ConvShape
    x: np.ndarray
    w: np.ndarray
    dy: np.ndarray
    dx: Expected
    dw: Expected
    db: Expected
    b: np.ndarray | None = None     # that was added to dx, a value for each of its channels

    def call(self, operation: str, **more: Any) -> np.ndarray:
        """A gradient as the public function of it gives it."""
        s = self.shape
        geometry = {"stride": s.stride, "padding": s.padding, "dilation": s.dilation, "groups": s.groups,
                    "padding_mode": s.padding_mode.value, "layout": s.layout.value, **more}
        if operation == "dx":
            return warpconv.conv2d_input(s.layout.stored(s.input_shape), self.w, self.dy, **geometry)
        if operation == "dw":
            return warpconv.conv2d_weight(self.x, s.weight_shape, self.dy, padding_value=s.padding_value, **geometry)
        return warpconv.conv2d_bias(self.dy, layout=s.layout.value, **more)

    def check(self, operation: str, **more: Any) -> None:
        """AssertionError naming the worst element where a gradient is off by more than its tolerance."""
        getattr(self, operation).check(np.asarray(self.call(operation, **more)), f"{operation} of {self.shape}")


def draw_shape(rng: np.random.Generator, **fixed: Any) -> ConvShape:
    """A small layer of any kind, or what is ``fixed`` of it, or drawn by a function there; half are depthwise."""
    def choose(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    for _ in range(1000):
        groups = int(rng.choice([1, 2, 3, 8, 40]))
        each, filters = (1, 1) if choose(True, False) else (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        drawn = {"n": int(rng.integers(1, 4)), "c": groups * each, "k": groups * filters, "groups": groups,
                 "h": int(rng.integers(1, 20)), "w": int(rng.choice([*range(1, 20), 8, 12, 16])),
                 "r": int(rng.integers(1, 8)), "s": int(rng.integers(1, 8)),
                 "stride": (choose(1, 1, 2, 3), choose(1, 1, 2, 4)), "dilation": (choose(1, 1, 2, 3), choose(1, 1, 2)),
                 "padding": tuple((int(rng.integers(0, 5)), int(rng.integers(0, 5))) for _ in range(2)),
                 "dtype": choose(*TYPES), "layout": choose(*Layout), "padding_mode": choose(*BORDERS),
                 **{name: value() if callable(value) else value for name, value in fixed.items()}}
        if drawn["padding_mode"] is Border.CONSTANT:
            drawn.setdefault("padding_value", 0.5)
        if not any(map(any, drawn["padding"])):
            drawn |= {"padding_mode": Border.ZEROS, "padding_value": 0.0}
        try:
            return ConvShape(**drawn)
        except ShapeError:      # the filter spans more than the padded image
            continue
    raise AssertionError(f"no layer has {fixed}")


def make(rng: np.random.Generator, shape: ConvShape, bias: bool = False,
         numerics: Numerics = Numerics.FLOAT32) -> Gradients:
    """Random arrays for a layer, and its gradients; with ``bias`` that of x has one, as of a transposed layer.
    ``numerics``: the arithmetic of their products."""
    element = ELEMENTS[shape.dtype]
    x, w, dy = (rng.standard_normal(sizes).astype(element)
                for sizes in (shape.input_shape, shape.weight_shape, shape.output_shape))
    dx, dw = scattered(x.astype(np.float64), w.astype(np.float64), dy.astype(np.float64), shape)
    size_dx, size_dw = scattered(*(np.abs(a.astype(np.float64)) for a in (x, w, dy)),
                                 replace(shape, padding_value=abs(shape.padding_value)))
    b = rng.standard_normal(shape.c).astype(element) if bias else None
    if b is not None:
        added = b.astype(np.float64).reshape(-1, *[1] * len(shape.taps))
        dx, size_dx = dx + added, size_dx + np.abs(added)
    products = shape.k // shape.groups * math.prod(shape.taps)
    shown = max(1, math.prod(_most_shown(shape, axis) for axis in range(len(shape.taps))))
    outputs, all_axes = shape.n * math.prod(shape.outputs), (0, *range(2, dy.ndim))
    wide = dy.astype(np.float64)
    in_order, left_out = _in_order(shape.layout), LEFT_OUT.get(numerics, 0.0)
    return Gradients(shape, in_order(x), w, in_order(dy),
                     _expected(in_order(dx), in_order(size_dx), products * shown, shape.dtype, left_out),
                     _expected(dw, size_dw, outputs, shape.dtype, left_out),
                     _expected(wide.sum(all_axes), np.abs(wide).sum(all_axes), outputs, shape.dtype), b)


def scattered(x: np.ndarray, w: np.ndarray, dy: np.ndarray, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of x and w, axes (N, C, H, W) and (K, C/groups, R, S); those of volumes with a depth."""
    if shape.is_volume:
        of = volumes.Volume(shape, x, w, np.zeros(shape.k), dy)
        return of.data_gradient(w, dy), of.filter_gradient(x, dy)
    dx, dw = np.zeros(shape.input_shape), np.zeros(shape.weight_shape)
    by_group = dy.reshape(shape.n, shape.groups, shape.filters, shape.p, shape.q)
    weights = w.reshape(shape.groups, shape.filters, shape.channels, shape.r, shape.s)
    for r in range(shape.r):
        rows = _met(shape, 0, r)
        for s in range(shape.s):
            columns = _met(shape, 1, s)
            p, q = ([i for i, pixel in enumerate(met) if pixel is not None] for met in (rows, columns))
            h, v = (np.array([pixel for pixel in met if pixel is not None], int) for met in (rows, columns))
            if not p or not q:      # a tap that meets the border alone
                dw[:, :, r, s] = shape.padding_value * by_group.sum((0, 3, 4)).reshape(shape.k, 1)
                continue
            there = by_group[:, :, :, p][..., q]
            made = np.einsum("ngkpq,gkc->ngcpq", there, weights[..., r, s])
            np.add.at(dx, (slice(None), slice(None), h[:, None], v), made.reshape(shape.n, shape.c, len(h), len(v)))
            pixels = x[:, :, h[:, None], v].reshape(shape.n, shape.groups, shape.channels, len(h), len(v))
            dw[:, :, r, s] = np.einsum("ngkpq,ngcpq->gkc", there, pixels).reshape(shape.k, shape.channels)
            if shape.padding_value:         # which some outputs met
                outside = by_group.sum((0, 3, 4)) - there.sum((0, 3, 4))
                dw[:, :, r, s] += shape.padding_value * outside.reshape(shape.k, 1)
    return dx, dw


def _met(shape: ConvShape, axis: int, tap: int) -> list[int | None]:
    """The pixel along an axis that each output meets with a tap; None where the border's one value stands."""
    return [shape.padding_mode.index(output * shape.stride[axis] + tap * shape.dilation[axis] - shape.padding[axis][0],
                                     shape.image[axis]) for output in range(shape.outputs[axis])]


def _most_shown(shape: ConvShape, axis: int) -> int:
    """How often a pixel stands in the padded image at most, along an axis."""
    before, after = shape.padding[axis]
    size = shape.image[axis]
    there = [shape.padding_mode.index(i, size) for i in range(-before, size + after)]
    return max(there.count(i) for i in range(size))


def _in_order(layout: Layout) -> Any:
    return (lambda a: np.ascontiguousarray(np.moveaxis(a, 1, -1))) if layout is Layout.NHWC else (lambda a: a)


def _expected(exact: np.ndarray, magnitude: np.ndarray, summed: int, dtype: DType, left_out: float = 0.0) -> Expected:
    tolerance = ((summed + 2) * EPSILON + left_out) * magnitude
    if dtype is not DType.FLOAT32:
        tolerance = tolerance + half_a_step(np.abs(exact) + tolerance, dtype)
    return Expected(exact, tolerance, ELEMENTS[dtype])
