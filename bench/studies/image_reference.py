"""What an image layer's outputs may be: limits of each, from float64 sums, its border, its epilogue and its types."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.reference import EPSILON, PEER_ERRORS, WrongResult, reference
from bench.study import Missing
from warpconv.codegen.dtypes import DType
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.arrays.elements import FORMATS

SAMPLED_ROWS = 61       # of a layer with an epilogue one row of so many, and the first and last eight, are checked
EDGE_ROWS = 8
PEER_STEPS = 1.0        # of integers: another library may cut off where we round


@dataclass(frozen=True)
class Limits:
    """Least and largest value of each output of ``images`` (or of ``rows`` of them), and the exact one before it became
    an element, in float64. ``slack``: the most that one may be off by before that."""

    low: Any
    high: Any
    exact: Any
    images: tuple[int, ...]
    rows: tuple[int, ...] | None
    dtype: DType
    slack: float

    def check(self, device: Any, result: Any) -> float:
        """The largest error of our result against the exact sums, after checking that every output is within its limits
        and that no output of any image is NaN. Raises WrongResult."""
        if not device.is_integer(result) and bool((result != result).any()):
            raise WrongResult("some outputs are NaN or were not written")
        got = self._picked(device, result)
        wrong = ~((got >= self.low) & (got <= self.high))
        if bool(wrong.any()):
            raise WrongResult(f"{int(wrong.sum())} outputs are outside of what rounding allows, by up to "
                              f"{float(_largest(self.low - got, got - self.high)):.3g}")
        return float(abs(got - self._stored_exact).max())

    def check_peer(self, device: Any, result: Any, inside: tuple[int, int] = (0, 0), *,
                   saturates: bool = True) -> float:
        """The same of a library, which may sum and round in its own way: its relative error in norm, of integers the
        largest difference, which may be one and the slack. ``inside``: rows and columns left out at each border.
        ``saturates``: else integers out of range are left out. Raises WrongResult."""
        rows, columns = inside
        crop = np.s_[..., rows:self.exact.shape[-2] - rows, columns:self.exact.shape[-1] - columns]
        got, exact = self._picked(device, result)[crop], self._stored_exact[crop]
        if bool((got != got).any()):
            raise WrongResult("some outputs are NaN or were not written")
        if self.dtype.is_integer:
            difference = abs(got - exact)
            if not saturates:
                difference = difference * (self.exact[crop] == exact)
            error = float(difference.max())
            if error > PEER_STEPS + self.slack:
                raise WrongResult(f"off by {error:.3g}")
            return error
        error = float(((got - exact) ** 2).sum() ** 0.5 / ((exact ** 2).sum() ** 0.5 + 1e-300))
        if not error <= PEER_ERRORS[self.dtype]:
            raise WrongResult(f"relative error {error:.3g}")
        return error

    @property
    def _stored_exact(self) -> Any:
        """The exact outputs, saturated where elements are integers."""
        return self.exact.clip(*map(float, self.dtype.limits)) if self.dtype.is_integer else self.exact

    def _picked(self, device: Any, result: Any) -> Any:
        """The checked outputs in float64, where the limits are."""
        picked = result if len(self.images) == len(result) else result[list(self.images)]
        if self.rows is None:
            return device.double(picked)
        return on_host(device.double(picked[:, :, list(self.rows)]))


def limits(device: Any, x: Any, w: Any, shape: ConvShape, steps: Sequence[Any] = (), bias: Any = None,
           residual: Any = None) -> Limits:
    """Limits of a layer's outputs on the device's arrays (N, C, H, W) and (K, C/groups, R, S), after ``steps`` of an
    epilogue; with steps, of sampled rows. A sum in float32 may be off by (C/groups*R*S + 2) eps sum |a b|, one in
    integers by nothing; each step as runtime.finish derives it. Raises Missing where there is no such step."""
    found = reference(device, x, w, shape)
    images, exact = found.images, found.exact
    bound = found.magnitude * (0.0 if shape.w_dtype.is_integer else (found.terms + 2) * EPSILON)
    rows = None
    if steps:
        rows = tuple(sorted({*range(0, shape.p, SAMPLED_ROWS), *range(min(EDGE_ROWS, shape.p)),
                             *range(max(0, shape.p - EDGE_ROWS), shape.p)}))
        exact, bound, magnitude = (on_host(part[:, :, list(rows)]) for part in (exact, bound, found.magnitude))
        if shape.w_dtype.is_integer:
            bound = EPSILON * magnitude     # becomes a float32 first
        if residual is not None:
            picked = residual if len(images) == len(residual) else residual[list(images)]
            residual = on_host(device.double(picked[:, :, list(rows)]))
        column = None if bias is None else on_host(device.double(bias))[None, :, None, None]
        exact, bound = _finished(exact, bound, steps, column, residual)
    return of_type(exact, bound, images, rows, shape.y_dtype)


def of_type(exact: Any, bound: Any, images: tuple[int, ...], rows: tuple[int, ...] | None, dtype: DType) -> Limits:
    """Limits of elements of a type, rounded to nearest and saturated where it is one of integers."""
    low, high = exact - bound, exact + bound
    if dtype.is_integer:
        low, high = (part.clip(*map(float, dtype.limits)).round() for part in (low, high))
    elif dtype is not DType.FLOAT32:
        form = FORMATS[dtype]
        low, high = low - abs(low) * form.roundoff - form.half_step, high + abs(high) * form.roundoff + form.half_step
    else:
        low, high = low - 1e-30, high + 1e-30
    return Limits(low, high, exact, images, rows, dtype, float(bound.max()))


def on_host(array: Any) -> np.ndarray:
    """NumPy's copy of a device's array."""
    for name in ("cpu", "get"):
        if hasattr(array, name):
            array = getattr(array, name)()
    return np.asarray(array)


def _finished(exact: np.ndarray, bound: np.ndarray, steps: Sequence[Any], bias: Any, residual: Any) -> tuple[Any, Any]:
    try:
        finish = importlib.import_module("warpconv.runtime.accuracy.finish").finish
    except ImportError:
        raise Missing("the epilogue's steps have no bound") from None
    made = finish(exact, bound, steps, bias=bias, residual=residual)
    return made.value, made.bound


def _largest(*arrays: Any) -> float:
    return max(float(array.max()) for array in arrays)
