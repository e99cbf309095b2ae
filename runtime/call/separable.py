"""Separable filters: whether a filter in host memory is the product of a column and a row, and which.

Only the host's arrays are looked at: to read a filter that lies on a GPU would wait for the GPU's work, so a caller who
knows that such a filter is separable gives its factors (``ConvShape(separable=True)``). A filter passes where every
element is within TOLERANCE times the filter's largest one of the product of its factors, as float32 has them: filters
that were products before they were rounded to float32 pass, others do not. docs/separable.md has the error that
follows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, UnsupportedSpec
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.request import Request
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime import env
from warpconv.runtime.arrays.elements import values
from warpconv.runtime.arrays.factories import as_contiguous
from warpconv.runtime.arrays.host import host_array
from warpconv.runtime.arrays.view import ArrayView

TOLERANCE = 4 * 2.0**-23    # of the largest element: a rounded product is within half a unit, its rounded factors too
FEWEST_TAPS = 25            # below, R + S products save nothing over R * S
FAR = 8                     # factors from one row and column are this much worse at most than the best ones


@dataclass(frozen=True)
class Factors:
    """Columns and rows whose products are a layer's filters.

    ``weight``: float32 (K, 1, 1, R + S), what a separable kernel takes: R elements of the column, then S of the row.
    ``residual``: the largest difference between an element and its product, relative to its filter's largest
    element; ``difference``: the same as it is, for each filter, (K,).
    """

    weight: np.ndarray
    residual: float
    difference: np.ndarray

    @property
    def within(self) -> bool:
        return self.residual <= TOLERANCE

    def __str__(self) -> str:
        return f"rank 1 within {self.residual:.1g}" if self.residual else "rank 1 exactly"


def factorise(weight: np.ndarray) -> Factors:
    """The best factors of each filter of (K, 1, R, S); ``within`` says whether they are good enough.

    Whole numbers keep whole factors, and the factors of a filter that is exactly a product are exact where float32 has
    them. Raises ArgumentError for elements that are not finite.
    """
    filters = np.asarray(weight, np.float64).reshape(weight.shape[0], *weight.shape[-2:])
    if not np.isfinite(filters).all():
        raise ArgumentError("a filter with elements that are not finite has no factors", argument="weight",
                            value=tuple(weight.shape), hint="separable=False")
    found = [_factors(one) for one in filters]
    made = np.stack([np.concatenate(pair) for pair in found])
    difference = np.array([_difference(one, *pair) for one, pair in zip(filters, found)])
    largest = np.abs(filters).max(axis=(1, 2))
    relative = np.divide(difference, largest, out=np.zeros_like(difference), where=largest > 0)
    return Factors(made[:, None, None, :], float(relative.max()), difference)


def whole(factors: np.ndarray, r: int) -> np.ndarray:
    """The filters (K, 1, R, S) of factors (K, 1, 1, R + S), float64."""
    flat = np.asarray(factors, np.float64).reshape(len(factors), -1)
    return (flat[:, :r, None] * flat[:, None, r:])[:, None]


def _factors(one: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and row of one filter, float32."""
    pivot = _by_pivot(one)
    difference, largest = _difference(one, *pivot), float(np.abs(one).max())
    if difference == 0 or difference > FAR * TOLERANCE * largest:
        return pivot
    u, sizes, v = np.linalg.svd(one, full_matrices=False)
    best = _rounded(u[:, 0] * math.sqrt(sizes[0]), v[0] * math.sqrt(sizes[0]))
    return best if _difference(one, *best) < difference else pivot


def _by_pivot(one: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors from the row and the column of the largest element: for a product, exact but for roundings."""
    i, j = np.unravel_index(int(np.argmax(np.abs(one))), one.shape)
    if one[i, j] == 0:
        return _rounded(one[:, 0], one[0])
    row = one[i]
    if (row == np.rint(row)).all() and np.abs(row).max() < 2**53:
        row = row / math.gcd(*(int(value) for value in row))        # then a product of whole numbers has whole columns
        return _rounded(one[:, j] / row[j], row, balance=False)
    return _rounded(one[:, j], row / row[j])


def _rounded(column: np.ndarray, row: np.ndarray, balance: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Factors as float32, of sizes alike by a power of two, which changes no digit."""
    largest = np.abs(column).max(), np.abs(row).max()
    if balance and all(largest):
        shift = (math.frexp(largest[1])[1] - math.frexp(largest[0])[1]) // 2
        column, row = np.ldexp(column, shift), np.ldexp(row, -shift)
    with np.errstate(over="ignore", under="ignore"):
        return column.astype(np.float32), row.astype(np.float32)


def _difference(one: np.ndarray, column: np.ndarray, row: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        found = np.abs(one - np.outer(column.astype(np.float64), row.astype(np.float64))).max()
    return float(np.nan_to_num(found, nan=math.inf))


# ---- at calls

def eligible(layer: ConvShape | KernelSpec) -> bool:
    """Whether a filter of this layer may be seen to be separable: float32 or 16-bit elements, one channel per filter,
    taps enough to save products."""
    return (not layer.separable and layer.c == layer.groups and min(layer.r, layer.s) > 1 and layer.w_dtype.is_float
            and layer.r * layer.s >= FEWEST_TAPS)


def recognised(shape: ConvShape, weight: Any, view: ArrayView, separable: bool | None) -> Factors | None:
    """The factors of a call's filter, or None for the whole filter.

    ``separable`` None: where the filter is in host memory, WARPCONV_SEPARABLE and WARPCONV_DISABLE_JIT do not forbid it
    and the filter is a product within TOLERANCE. True: demanded. Raises ArgumentError where a demanded filter is no
    product, or its layer has none, ArgumentTypeError for one on a GPU.
    """
    _check_flag(separable)
    if separable is False or shape.separable:
        return None
    if separable is None and (view.is_device or not eligible(shape) or not _wanted()):
        return None
    if view.is_device:
        raise ArgumentTypeError("a filter on a GPU is not read to see whether it is separable", argument="separable",
                                value=True, hint="give it as a NumPy array, or its factors to a kernel of "
                                                 "ConvShape(separable=True)")
    replace(shape, separable=True)          # raises where no filter of this layer can be
    found = _remembered(weight, view)
    if found is not None and found.within:
        return found
    if separable:
        off = "its elements are not finite" if found is None else f"rank 1 only within {found.residual:.2g}"
        raise ArgumentError(f"the filter is not separable: {off} (at most {TOLERANCE:.2g} of its largest element)",
                            argument="separable", value=True, hint="separable=None takes the whole filter then")
    return None


def pays(request: Request) -> bool:
    """Whether the planners estimate fewer issue slots for the layer's separable kernel than for its best other one.
    Below FEWEST_TAPS memory decides, and the whole filter is no slower (3x3 on 4096^2: 35.5 us, its factors 36.7)."""
    if request.layer.r * request.layer.s < FEWEST_TAPS or request.numerics not in (Numerics.FLOAT32, Numerics.IEEE):
        return False
    return _pays(request.for_any_batch)


@functools.lru_cache(maxsize=1024)
def _pays(request: Request) -> bool:
    from warpconv.codegen.registry import algorithm
    from warpconv.codegen.resolution import resolve
    slots = []
    try:
        for layer in (replace(request.layer, separable=True), request.layer):
            made = resolve(replace(request, layer=layer)).plan
            slots.append(algorithm(made.spec.algorithm).slots(made, layer))
    except UnsupportedSpec:
        return False
    return slots[0] < slots[1]


def as_factors(spec: KernelSpec, weight: Any, view: ArrayView) -> Factors | None:
    """The factors of a whole filter in host memory that a separable kernel was given, None where it was given factors.

    Raises ArgumentError or ArgumentTypeError as ``recognised`` does.
    """
    shape = (spec.k, 1, spec.r, spec.s)
    if not spec.separable or view.shape != shape:
        return None
    return recognised(replace(spec.example_shape(), separable=False), weight, view, True)


def _remembered(weight: Any, view: ArrayView) -> Factors | None:
    """The factors of a filter, made once for equal filters; None where it has elements that are not finite."""
    array = host_array(view if view.contiguous else as_contiguous(weight, view, "weight")[1])
    return _made(values(array, view.dtype).astype(np.float32).tobytes(), view.shape)


@functools.lru_cache(maxsize=256)
def _made(elements: bytes, shape: tuple[int, ...]) -> Factors | None:
    try:
        return factorise(np.frombuffer(elements, np.float32).reshape(shape))
    except ArgumentError:
        return None


def _wanted() -> bool:
    """Whether filters may be recognised: not where that is switched off, or nothing may be compiled."""
    settings = env.settings()
    return settings.separable and not settings.disable_jit


def _check_flag(separable: Any) -> None:
    if separable not in (None, True, False):
        raise ArgumentError("separable is True, False or None", argument="separable", value=separable,
                            hint="None: recognised where the filter is in host memory")
