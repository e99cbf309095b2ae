"""A layer's data for timing, and whether a result is right: sampled outputs in float64, all outputs against another.

A float64 reference of a whole large layer takes longer than timing it, so it is made of a drawn sample of outputs,
those at the corners among them; all other outputs are compared with the first result that passed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.accuracy.finish import LINEAR, finish
from warpconv.runtime.arrays import numpy_dtype

PRODUCTS = 2**21                # of the sample, all outputs together
FEWEST, MOST = 64, 8192         # outputs of the sample
CHUNK = 2**24                   # elements compared at a time
EPSILON = 2.0**-23
ROUNDING = {DType.FLOAT32: 0.0, DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8}     # of a stored output, relative
TINY = {DType.FLOAT32: 0.0, DType.FLOAT16: 2.0**-25, DType.BFLOAT16: 0.0}             # and where it is subnormal


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Input in the layout's order, weight (K, C/groups, R, S), of volumes (K, C/groups, T, R, S), bias (K,) or None and
    residual (as the output) or None, values in [-0.5, 0.5)."""

    shape: ConvShape
    epilogue: tuple[Epilogue, ...]
    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None
    residual: np.ndarray | None = None
    numerics: Numerics = Numerics.FLOAT32

    @classmethod
    def draw(cls, shape: ConvShape, epilogue: tuple[Epilogue, ...], seed: int,
             numerics: Numerics = Numerics.FLOAT32) -> Operands:
        rng, dtype = np.random.default_rng(seed), numpy_dtype(shape.dtype)
        sizes = [shape.layout.stored(shape.input_shape), shape.weight_shape, (shape.k,)]
        if Epilogue.RESIDUAL in epilogue:
            sizes.append(shape.layout.stored(shape.output_shape))
        x, w, bias, *residual = ((rng.random(size, np.float32) - np.float32(0.5)).astype(dtype) for size in sizes)
        return cls(shape=shape, epilogue=epilogue, x=x, w=w, bias=bias if Epilogue.BIAS in epilogue else None,
                   residual=residual[0] if residual else None, numerics=numerics)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """In the layout's order."""
        return self.shape.layout.stored(self.shape.output_shape)

    def poisoned(self) -> np.ndarray:
        """An output full of NaN: what a kernel leaves unwritten shows."""
        return np.full(self.output_shape, np.nan, self.x.dtype)


class Judge:
    """Checks one result after the other; the first that is right becomes what all outputs are compared with.

    After steps other than a bias and relus no one number says how far apart two right results may be: there each result
    is held against the reference at places of its own, drawn anew.
    """

    def __init__(self, operands: Operands, seed: int):
        shape = operands.shape
        self._shape = shape
        self._operands, self._rng = operands, np.random.default_rng(seed)
        self._comparable = all(step in LINEAR for step in operands.epilogue)
        self._draw()
        largest = shape.reduction * 0.5 * max(0.5, abs(shape.padding_value)) + 0.5
        # of two results, about one value
        self._difference = 2 * ((shape.reduction + 2) * EPSILON + operands.numerics.dropped) * largest
        self._first: np.ndarray | None = None

    def _draw(self) -> None:
        """The places that are held against the reference."""
        self._places = _sample(self._shape, self._rng)
        self._exact, self._bound = _reference(self._operands, self._places)

    def fault(self, result: np.ndarray) -> str | None:
        """What is wrong with a result (in the layout's order), in words, or None."""
        if self._first is not None and not self._comparable:
            self._draw()
        got = result[_stored(self._shape, self._places)].astype(np.float64)
        with np.errstate(invalid="ignore"):
            excess = np.abs(got - self._exact) / self._bound
        excess[np.isinf(self._bound) | (np.isnan(got) & np.isnan(self._exact))] = 0.0     # a step leaves these open
        if not np.all(excess <= 1.0):       # NaN is not
            worst = int(np.argmax(np.nan_to_num(excess, nan=np.inf)))
            place = tuple(int(axis[worst]) for axis in self._places)
            return f"y{list(place)} is {got[worst]:.6g} and should be {self._exact[worst]:.6g}"
        if self._first is None:
            if self._comparable and not _all_finite(result):
                return "some outputs were not written, or are not finite"
            self._first = result.copy()
            return None
        if got.size == result.size or not self._comparable:
            return None
        return self._compared(result.reshape(-1), self._first.reshape(-1))

    def _compared(self, result: np.ndarray, first: np.ndarray) -> str | None:
        relative = 4 * ROUNDING[self._shape.dtype]
        for start in range(0, result.size, CHUNK):
            ours, theirs = (part[start:start + CHUNK].astype(np.float32) for part in (result, first))
            near = np.abs(ours - theirs) <= self._difference + relative * np.abs(theirs)
            if not near.all():
                return f"{int(np.count_nonzero(~near))} or more outputs are not those of the other kernels"
        return None


def _all_finite(result: np.ndarray) -> bool:
    flat = result.reshape(-1)
    return all(bool(np.isfinite(flat[start:start + CHUNK].astype(np.float32)).all())
               for start in range(0, flat.size, CHUNK))


def _sample(shape: ConvShape, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """(n, k, p, q), of volumes (n, k, z, p, q), of the outputs to check: all, or a drawn sample with the corners of the
    first and last plane."""
    sizes = shape.output_shape
    count, wanted = int(np.prod(sizes)), max(FEWEST, min(MOST, PRODUCTS // shape.reduction))
    if count <= wanted:
        return np.unravel_index(np.arange(count), sizes)
    ends = [(0, size - 1) for size in sizes]
    corners = np.stack([axis.reshape(-1) for axis in np.meshgrid(*ends, indexing="ij")])
    drawn = np.stack([rng.integers(0, size, wanted) for size in sizes])
    return tuple(np.concatenate([corners, drawn], axis=1))


def _stored(shape: ConvShape, places: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """An index of (n, channel, and the places along the spatial axes) in the layout's order."""
    image, channel, *places_in = places
    return (image, channel, *places_in) if shape.layout is Layout.NCHW else (image, *places_in, channel)


def _in_image(at: np.ndarray, size: int, border: Border) -> np.ndarray:
    """Places of windows along an axis as the border has them in the image; -1 where its one value stands."""
    outside = (at < 0) | (at >= size)
    found = np.where(outside, -1, at)
    if border.reads_image:
        found[outside] = [border.index(int(i), size) for i in at[outside]]
    return found


def _reference(operands: Operands, places: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The outputs at some places in float64, each from its own window, and the error that each may have."""
    shape = operands.shape
    n, k, *outputs = places
    channels, axes = shape.c // shape.groups, len(outputs)

    def along(values: np.ndarray, axis: int) -> np.ndarray:
        """(outputs, values) as (outputs, channels, taps along every axis), of length 1 but along one of these."""
        return np.expand_dims(values, tuple(i for i in range(1, axes + 2) if i != axis))

    c = (k // (shape.k // shape.groups) * channels)[:, None] + np.arange(channels)
    inside, index = True, [np.expand_dims(n, tuple(range(1, axes + 2))), along(c, 1)]
    for axis, (at, size, taps, stride, dilation, (before, _)) in enumerate(zip(
            outputs, shape.image, shape.taps, shape.stride, shape.dilation, shape.padding), 2):
        window = _in_image(at[:, None] * stride - before + np.arange(taps) * dilation, size, shape.padding_mode)
        index.append(along(np.maximum(window, 0), axis))
        inside = inside & along(window >= 0, axis)
    values = np.where(inside, operands.x[_stored(shape, index)].astype(np.float64), shape.padding_value)
    products = values * operands.w[k].astype(np.float64)
    summed = tuple(range(1, axes + 2))
    exact, magnitude = products.sum(axis=summed), np.abs(products).sum(axis=summed)
    bias = None if operands.bias is None else operands.bias[k].astype(np.float64)
    relative = (shape.reduction + 2) * EPSILON + operands.numerics.dropped
    bound = relative * (magnitude + (0.0 if bias is None else np.abs(bias)))
    added = None
    if operands.residual is not None:
        added = operands.residual[_stored(shape, places)].astype(np.float64)
    made = finish(exact, bound, operands.epilogue, bias=bias, residual=added)
    exact, bound = made.value, made.bound
    return exact, bound + ROUNDING[shape.dtype] * (np.abs(exact) + bound) + TINY[shape.dtype] + 1e-300
