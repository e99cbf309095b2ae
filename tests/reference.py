"""Convolution in float64, made another way than the kernels make it, and the error that float32 may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

import numpy as np

from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Expected:
    """The output in float64, and for each of its elements the largest error that a float32 sum may have."""

    output: np.ndarray
    tolerance: np.ndarray

    def check(self, got: np.ndarray, what: str = "") -> None:
        """AssertionError naming the worst element if one is off by more than its tolerance, or is no number."""
        assert got.dtype == np.float32 and got.shape == self.output.shape, (got.dtype, got.shape, self.output.shape)
        error = np.abs(got.astype(np.float64) - self.output)
        wrong = ~(error <= self.tolerance)                     # also true where the result is NaN
        if wrong.any():
            excess = np.where(np.isnan(error), np.inf, error / np.maximum(self.tolerance, 1e-300))
            worst = np.unravel_index(int(np.argmax(excess)), error.shape)
            raise AssertionError(
                f"{what}: {int(wrong.sum())} of {wrong.size} outputs are wrong; at {tuple(map(int, worst))} there is "
                f"{got[worst]!r} instead of {self.output[worst]!r} +- {self.tolerance[worst]:.3g}")


def convolve(x: np.ndarray, w: np.ndarray, shape: ConvShape) -> np.ndarray:
    """The layer in float64: windows of the padded input, contracted with the filter group by group."""
    return np.stack([_one_image(image, w, shape) for image in np.asarray(x)])


def expected(x: np.ndarray, w: np.ndarray, shape: ConvShape, *, bias: np.ndarray | None = None,
             epilogue: Iterable[Epilogue] = ()) -> Expected:
    """Output and tolerance (C/groups*R*S + 2) * eps * sum |a * b| of each element, the bias being one more product."""
    epilogue = tuple(epilogue)
    output = convolve(x, w, shape)
    magnitude = convolve(np.abs(x), np.abs(w), shape)
    for step in epilogue:
        if step is Epilogue.BIAS:
            column = bias.astype(np.float64)[None, :, None, None]
            output, magnitude = output + column, magnitude + np.abs(column)
        else:
            output = np.maximum(output, 0.0)
    return Expected(output, (shape.reduction + 2) * EPSILON * magnitude)


def operands(shape: ConvShape, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random input, filter (with no symmetry, every tap of another size) and bias."""
    x = rng.standard_normal(shape.input_shape).astype(np.float32)
    w = rng.standard_normal(shape.weight_shape).astype(np.float32)
    w += np.sign(w) * np.linspace(0.1, 1.0, w.size, dtype=np.float32).reshape(w.shape)
    return x, w, rng.standard_normal(shape.k).astype(np.float32)


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
