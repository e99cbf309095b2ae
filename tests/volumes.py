"""Drawn layers of volumes, with output and gradients in float64, tap by tap; what stands outside is found by the
border's index function."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.reference import ELEMENTS, EPSILON, half_a_step
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape

TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class Volume:
    """A layer with arrays, their axes (N, C, D, H, W) whatever its layout."""

    shape: ConvShape
    x: np.ndarray
    w: np.ndarray
    b: np.ndarray
    dy: np.ndarray

    @property
    def options(self) -> dict[str, Any]:
        """The layer as the public functions take it."""
        s = self.shape
        return {"stride": s.stride, "padding": s.padding, "dilation": s.dilation, "groups": s.groups,
                "padding_mode": s.padding_mode.value, "layout": "NCDHW" if s.layout.value == "NCHW" else "NDHWC"}

    def stored(self, array: np.ndarray) -> np.ndarray:
        """An array with its axes in the layer's layout."""
        return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if self.shape.layout.value == "NHWC" else array

    def taps(self, x: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """Each tap, and what it meets for each output: (N, groups, C/groups, Z, P, Q)."""
        s = self.shape
        padded = self.padded(x)
        for tap in itertools.product(*map(range, s.taps)):
            found = padded
            for axis, (at, apart, stride, outputs) in enumerate(zip(tap, s.dilation, s.stride, s.outputs), 2):
                first = at * apart
                found = found[(*(slice(None),) * axis, slice(first, first + (outputs - 1) * stride + 1, stride))]
            yield tap, found.reshape(s.n, s.groups, s.channels, *s.outputs)

    def padded(self, x: np.ndarray) -> np.ndarray:
        """An input in float64 with its border, as far as taps reach."""
        s = self.shape
        made, outside = x.astype(np.float64), np.zeros((1, 1, 1), bool)
        for axis, (sides, extent, stride, size, outputs) in enumerate(zip(s.padding, s.extents, s.stride, s.image,
                                                                          s.outputs)):
            met = [s.padding_mode.index(i - sides[0], size) for i in range((outputs - 1) * stride + extent)]
            made = np.take(made, [i or 0 for i in met], axis=axis + 2)
            beyond = np.array([i is None for i in met])
            outside = outside | np.expand_dims(beyond, [other for other in range(3) if other != axis])
        return np.where(outside, s.padding_value, made)

    def forward(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        s = self.shape
        weights = w.astype(np.float64).reshape(s.groups, s.filters, s.channels, *s.taps)
        made = np.zeros((s.n, s.groups, s.filters, *s.outputs))
        for tap, found in self.taps(x):
            made += np.einsum("ngczpq,gkc->ngkzpq", found, weights[(..., *tap)])
        return made.reshape(s.output_shape)

    def filter_gradient(self, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        s, made = self.shape, np.zeros(self.shape.weight_shape)
        by_group = dy.astype(np.float64).reshape(s.n, s.groups, s.filters, *s.outputs)
        for tap, found in self.taps(x):
            made[(..., *tap)] = np.einsum("ngczpq,ngkzpq->gkc", found, by_group).reshape(s.k, s.channels)
        return made

    def data_gradient(self, w: np.ndarray, dy: np.ndarray) -> np.ndarray:
        s, made = self.shape, np.zeros(self.shape.input_shape)
        weights = w.astype(np.float64).reshape(s.groups, s.filters, s.channels, *s.taps)
        by_group = dy.astype(np.float64).reshape(s.n, s.groups, s.filters, *s.outputs)
        for tap in itertools.product(*map(range, s.taps)):
            shares = np.einsum("ngkzpq,gkc->ngczpq", by_group, weights[(..., *tap)])
            shares = shares.reshape(s.n, s.c, *s.outputs)
            places = []
            for axis, met in enumerate(met_by(s, tap)):
                kept = [i for i, at in enumerate(met) if at is not None]
                shares = np.take(shares, kept, axis=axis + 2)
                places.append(np.array([met[i] for i in kept], int))
            np.add.at(made, (slice(None), slice(None), *np.ix_(*places)), shares)
        return made

    def check(self, got: np.ndarray, wanted: np.ndarray, magnitude: np.ndarray, products: int) -> None:
        """AssertionError where an element is off by more than rounding: ``magnitude`` is the sum of the products'."""
        error = (products + 3) * EPSILON * magnitude
        if self.shape.dtype is not DType.FLOAT32:
            error = error + half_a_step(np.abs(wanted) + error, self.shape.dtype)
        assert got.shape == wanted.shape and got.dtype == self.x.dtype, (got.shape, wanted.shape, got.dtype)
        off = np.abs(got.astype(np.float64) - wanted) - error
        worst = np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape)
        assert (off <= 0).all(), f"{self.shape}: {off[worst]} too far at {worst}"

    def check_forward(self, got: np.ndarray) -> None:
        """Of an output with a bias."""
        bias = self.b.astype(np.float64).reshape(-1, 1, 1, 1)
        outside = abs(self.shape.padding_value) * np.abs(self.w).sum(dtype=np.float64)
        sizes = self.forward(np.abs(self.x), np.abs(self.w)) + outside
        self.check(got, self.forward(self.x, self.w) + bias, sizes + np.abs(bias), self.shape.reduction)

    def check_gradient(self, got: np.ndarray, name: str) -> None:
        s = self.shape
        if name == "dx":
            shown = 8 ** len(s.taps)        # places that may show an element, in a border larger than the volume
            self.check(got, self.data_gradient(self.w, self.dy), self.data_gradient(np.abs(self.w), np.abs(self.dy)),
                       s.filters * s.reduction * shown)
        else:
            outputs = s.n * s.outputs[0] * s.p * s.q
            outside = abs(s.padding_value) * np.abs(self.dy).sum(dtype=np.float64)
            sizes = self.filter_gradient(np.abs(self.x), np.abs(self.dy)) + outside
            self.check(got, self.filter_gradient(self.x, self.dy), sizes, outputs)


def met_by(shape: ConvShape, tap: tuple[int, ...]) -> list[list[int | None]]:
    """Along each axis the element that a tap meets for each output; None where the border's value stands."""
    return [[shape.padding_mode.index(i * stride - sides[0] + at * apart, size) for i in range(outputs)]
            for at, stride, sides, apart, size, outputs in zip(
                tap, shape.stride, shape.padding, shape.dilation, shape.image, shape.outputs)]


@functools.lru_cache(maxsize=64)
def drawn(number: int, **fixed: Any) -> Volume:
    """A small layer of any kind, or what is ``fixed`` of it; half are depthwise."""
    rng = np.random.default_rng(number)

    def choose(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    while True:
        groups = choose(1, 2, 3, 5)
        each, filters = (1, 1) if choose(True, False) else (int(rng.integers(1, 4)), int(rng.integers(1, 5)))
        layer = {"n": choose(1, 2), "c": groups * each, "k": groups * filters, "groups": groups,
                 "d": int(rng.integers(1, 12)), "h": int(rng.integers(1, 20)), "w": choose(1, 3, 8, 13, 16, 37, 140),
                 "t": choose(1, 2, 3, 3, 5), "r": choose(1, 2, 3, 3, 4), "s": choose(1, 2, 3, 3, 5),
                 "stride": tuple(choose(1, 1, 1, 2, 3) for _ in range(3)),
                 "dilation": tuple(choose(1, 1, 1, 2, 3) for _ in range(3)),
                 "padding": tuple((int(rng.integers(0, 4)), int(rng.integers(0, 4))) for _ in range(3)),
                 "dtype": choose(*TYPES), "layout": choose("NCHW", "NCHW", "NHWC"),
                 "padding_mode": choose(*Border), **fixed}
        if layer["padding_mode"] is Border.CONSTANT:
            layer.setdefault("padding_value", 0.625)
        if not any(map(any, layer["padding"])):
            layer |= {"padding_mode": Border.ZEROS, "padding_value": 0.0}
        try:
            shape = ConvShape(**layer)
        except ShapeError:      # the filter spans more than the padded volume
            continue
        x, w, b, dy = (rng.standard_normal(sizes).astype(ELEMENTS[shape.dtype]) for sizes in (
            shape.input_shape, shape.weight_shape, (shape.k,), shape.output_shape))
        return Volume(shape, x, w, b, dy)
