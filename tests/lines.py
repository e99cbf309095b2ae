"""Drawn layers of one axis, and what they make in float64, by np.convolve."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from warpconv.codegen.dtypes import DType

from . import settings
from .reference import EPSILON, half_a_step

TYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
MODES = {"zeros": {"mode": "constant"}, "replicate": {"mode": "edge"}, "reflect": {"mode": "reflect"},
         "circular": {"mode": "wrap"}}


class Line:
    """A drawn layer of one axis: its operands, axes (N, C, L), and what it makes of them in float64."""

    def __init__(self, rng: np.random.Generator, **given: Any):
        def draw(name, *choices):
            return given[name] if name in given else choices[int(rng.integers(len(choices)))]

        self.groups, each, filters = draw("groups", 1, 2, 6), draw("each", 1, 1, 3), draw("filters", 1, 2)
        self.n, self.c, self.k = draw("n", 1, 3), self.groups * each, self.groups * filters
        self.taps, self.dilation, self.stride = draw("taps", 1, 2, 4, 7), draw("dilation", 1, 2), draw("stride", 1, 3)
        self.length = draw("length", 19, 32, 150)
        reach = self.dilation * (self.taps - 1)
        self.padding = draw("padding", "causal", 0, reach // 2, (reach, 1), (1, 2), *["same"] * (self.stride == 1))
        self.dtype, self.mode = draw("dtype", *TYPES), draw("mode", "zeros", "zeros", *MODES)
        self.sides = {"causal": (reach, 0), "same": (reach // 2, reach - reach // 2)}.get(
            self.padding, self.padding) if isinstance(self.padding, str) else self.padding
        if isinstance(self.sides, int):
            self.sides = self.sides, self.sides
        element = TYPES[self.dtype]
        self.x = rng.standard_normal((self.n, self.c, self.length)).astype(element)
        self.w = rng.standard_normal((self.k, each, self.taps)).astype(element)
        self.b = rng.standard_normal(self.k).astype(element)
        self.q = (self.length + sum(self.sides) - reach - 1) // self.stride + 1

    @property
    def options(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups,
                "padding_mode": self.mode}

    def summed(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Each filter over the padded sequences of its group, by np.convolve of the dilated filter turned round."""
        x, w = x.astype(np.float64), w.astype(np.float64)
        wide = np.pad(x, ((0, 0), (0, 0), self.sides), **MODES[self.mode])
        spread = np.zeros((*w.shape[:2], self.dilation * (self.taps - 1) + 1))
        spread[:, :, ::self.dilation] = w
        each, filters = w.shape[1], self.k // self.groups
        made = np.zeros((self.n, self.k, self.q))
        for n in range(self.n):
            for k in range(self.k):
                for c in range(each):
                    line = np.convolve(wide[n, k // filters * each + c], spread[k, c, ::-1], "valid")
                    made[n, k] += line[::self.stride]
        return made

    def check(self, got: np.ndarray, biased: bool = True) -> None:
        column = self.b.astype(np.float64)[:, None] * biased
        wanted = self.summed(self.x, self.w) + column
        error = (self.w.shape[1] * self.taps + 3) * EPSILON * (
            self.summed(np.abs(self.x), np.abs(self.w)) + np.abs(column))
        if self.dtype != "float32":
            error = error + half_a_step(np.abs(wanted) + error, DType(self.dtype))
        assert got.dtype == self.x.dtype and got.shape == wanted.shape
        assert (np.abs(got.astype(np.float64) - wanted) <= error).all()


def drawn(number: int, **given: Any) -> Line:
    """The layer of that number in this run, with what is given."""
    return Line(np.random.default_rng([settings.seed, number]), **given)
