"""The layer in float64 on the device, one tap after the other, and whether a result agrees with it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.runtime.arrays.elements import FORMATS

EPSILON = float(np.finfo(np.float32).eps)
# another library may sum in its own way (Winograd, FFT), in 16-bit types round products too
PEER_ERRORS = {DType.FLOAT32: 1e-4, DType.FLOAT16: 3e-3, DType.BFLOAT16: 2e-2}


class WrongResult(Exception):
    """A result that does not agree with the reference; it is not timed."""


@dataclass(frozen=True)
class Reference:
    """The exact result of ``images`` in float64 and, for each output, the sum of the products' magnitudes."""

    exact: Any
    magnitude: Any
    terms: int
    images: tuple[int, ...]
    dtype: DType = DType.FLOAT32

    def check(self, device: Any, result: Any, *, own: bool, inside: tuple[int, int] = (0, 0),
              tolerance: float | None = None) -> float:
        """Relative error (norms), after checking it: every output of ``images`` against the exact one, and that no
        output of any image is NaN, as one that was not written is.

        Our kernels (``own``) must meet the bound (terms + 2) eps sum|a b| at every output, for 16-bit types with half a
        unit in the last place of the result added; others PEER_ERRORS (or ``tolerance``) in norm. ``inside``: rows and
        columns left out at each border. Raises WrongResult.
        """
        rows, columns = inside
        crop = np.s_[..., rows:self.exact.shape[-2] - rows, columns:self.exact.shape[-1] - columns]
        exact = self.exact[crop]
        difference = abs(device.double(result[list(self.images)][crop]) - exact)
        error = float((difference ** 2).sum() ** 0.5 / ((exact ** 2).sum() ** 0.5 + 1e-300))
        excess = float((difference / self._bound(exact, self.magnitude[crop])).max())
        if math.isnan(error) or math.isnan(excess) or bool((result != result).any()):
            raise WrongResult("some outputs are NaN or were not written")
        if own and excess > 1:
            raise WrongResult(f"{excess:.3g} times the rounding error that {self.dtype.value} may have")
        if not own and error > (PEER_ERRORS[self.dtype] if tolerance is None else tolerance):
            raise WrongResult(f"relative error {error:.3g}")
        return error

    def _bound(self, exact: Any, magnitude: Any) -> Any:
        bound = magnitude * ((self.terms + 2) * EPSILON) + 1e-30
        if self.dtype is DType.FLOAT32:
            return bound
        form = FORMATS[self.dtype]
        return bound + (abs(exact) + bound) * form.roundoff + form.half_step


def reference(device: Any, x: Any, w: Any, shape: Any, images: Iterable[int] | None = None) -> Reference:
    """The layer's ``images`` in float64, all of their outputs. Default: the first two and the last.

    ``x`` (N, C, H, W) and ``w`` (K, C/groups, R, S) are the device's arrays, of any type and order in memory. A plane
    or a depthwise layer is summed in place: it takes the memory of three results in float64 and no more.
    """
    chosen = tuple(sorted({0, min(1, shape.n - 1), shape.n - 1} if images is None else images))
    padded = _padded(device, x if len(chosen) == shape.n else x[list(chosen)], shape)
    weight = device.double(w)
    sizes = abs(padded)
    (sy, sx), (dy, dx) = shape.stride, shape.dilation
    exact = device.zeros((len(chosen), *shape.output_shape[1:]))
    magnitude = device.zeros((len(chosen), *shape.output_shape[1:]))
    for r in range(shape.r):
        for s in range(shape.s):
            window = np.s_[:, :, r * dy:r * dy + (shape.p - 1) * sy + 1:sy, s * dx:s * dx + (shape.q - 1) * sx + 1:sx]
            tap = weight[:, :, r, s]
            for target, source, factor in ((exact, padded, tap), (magnitude, sizes, abs(tap))):
                _add_tap(device, target, source[window], factor, shape)
    return Reference(exact, magnitude, shape.reduction, chosen, shape.dtype)


def _add_tap(device: Any, target: Any, window: Any, tap: Any, shape: Any) -> None:
    if shape.c == shape.k == shape.groups:
        device.add_product(target, window, tap[:, :, None])
        return
    groups = window.reshape(len(window), shape.groups, shape.c // shape.groups, shape.p, shape.q)
    factor = tap.reshape(shape.groups, shape.k // shape.groups, shape.c // shape.groups)
    target += device.library.einsum("ngcpq,gkc->ngkpq", groups, factor).reshape(target.shape)


def _padded(device: Any, x: Any, shape: Any) -> Any:
    (top, bottom), (left, right) = shape.padding
    if shape.padding_mode.reads_image:
        rows, columns = (device.indices([shape.padding_mode.index(i, size) for i in range(-sides[0], size + sides[1])])
                         for size, sides in zip((shape.h, shape.w), shape.padding))
        return device.double(x)[:, :, rows][:, :, :, columns]
    out = device.zeros((len(x), shape.c, shape.h + top + bottom, shape.w + left + right))
    out += shape.padding_value
    out[:, :, top:top + shape.h, left:left + shape.w] = device.double(x)
    return out
