"""Smoothing in SciPy's terms: scipy.ndimage's gaussian_filter and uniform_filter, and a Gaussian's derivatives.

What ``input``, ``output``, ``mode``, ``cval``, ``device``, ``stream``, ``algorithm``, ``layout`` and the result are
stands in warpconv.runtime.ndimage.correlate. A filter of several axes is done axis by axis, each result stored as the
output's type, as SciPy does it; where the result is the same, two axes at once (lines.py). Without ``axes`` and
``layout`` all axes are filtered, as in SciPy.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError
from warpconv.runtime.call.watched import uncompiled

from . import lines as passes
from . import recipes
from .arguments import axes_of, axis_of, deviation, each, reach, size_of, within
from .lines import Line, Pass, line_of
from .planes import Image
from .work import Extras, Passes


@uncompiled
def gaussian_filter(input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect",
                    cval: float = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
                    device: str = "auto", stream: Any = None, algorithm: str = "auto",
                    layout: str | None = None, dtype: Any = None) -> Any:
    """Gaussian filter, or derivatives of it, as scipy.ndimage.gaussian_filter.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    sigma : float or sequence of float
        Standard deviation in pixels, for all of ``axes`` or one for each; 0: not along this axis.
    order : int or sequence of int
        0: smoothing, n: the n-th derivative; for all axes or one for each.
    truncate : float
        The filter ends this many sigmas from its middle, where ``radius`` does not say.
    radius : int or sequence of int, optional
        Pixels on either side of the middle; for all axes or one for each.
    axes : int or sequence of int, optional
        The axes to filter along; all of input's if None.
    mode : str or sequence of str
        As in correlate, for all axes or one for each of them.
    output, cval, device, stream, algorithm, layout, dtype
        As in correlate.

    Returns
    -------
    array
        ``output``, or a new array of input's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As correlate does.
    """
    return recipes.call(_gaussian, input, output, (sigma, order, mode, cval, truncate, radius, axes, layout),
                        Extras(device, stream, algorithm), dtype)


@uncompiled
def gaussian_filter1d(input: Any, sigma: float, axis: int = -1, order: int = 0, output: Any = None,
                      mode: str = "reflect", cval: float = 0.0, truncate: float = 4.0, *, radius: int | None = None,
                      device: str = "auto", stream: Any = None, algorithm: str = "auto",
                      layout: str | None = None, dtype: Any = None) -> Any:
    """Gaussian filter along one axis, or a derivative of it, as scipy.ndimage.gaussian_filter1d.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    sigma : float
        Standard deviation in pixels, more than 0.
    axis : int
        The axis of input to filter along.
    order : int
        0: smoothing, n: the n-th derivative.
    truncate : float
        The filter ends this many sigmas from its middle, where ``radius`` does not say.
    radius : int, optional
        Pixels on either side of the middle.
    output, mode, cval, device, stream, algorithm, layout, dtype
        As in correlate.

    Returns
    -------
    array
        ``output``, or a new array of input's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As correlate does.
    """
    return recipes.call(_gaussian1d, input, output, (sigma, axis, order, mode, cval, truncate, radius, layout),
                        Extras(device, stream, algorithm), dtype)


@uncompiled
def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                   origin: Any = 0, *, axes: Any = None, device: str = "auto", stream: Any = None,
                   algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Mean along ``axes``, as scipy.ndimage.uniform_filter. Means of integers, stored as integers, are those of exact
    sums.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    size : int or sequence of int
        Pixels that are averaged, for all of ``axes`` or one for each.
    origin : int or sequence of int
        Shifts the filter, in pixels, for all axes or one for each: -(size // 2) to (size - 1) // 2.
    axes : int or sequence of int, optional
        The axes to filter along; all of input's if None.
    mode : str or sequence of str
        As in correlate, for all axes or one for each of them.
    output, cval, device, stream, algorithm, layout, dtype
        As in correlate.

    Returns
    -------
    array
        ``output``, or a new array of input's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As correlate does.
    """
    return recipes.call(_uniform, input, output, (size, mode, cval, origin, axes, layout),
                        Extras(device, stream, algorithm), dtype)


@uncompiled
def uniform_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
                     cval: float = 0.0, origin: int = 0, *, device: str = "auto", stream: Any = None,
                     algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Mean along one axis, as scipy.ndimage.uniform_filter1d.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    size : int
        Pixels that are averaged.
    axis : int
        The axis of input to filter along.
    origin : int
        Shifts the filter, in pixels: -(size // 2) to (size - 1) // 2.
    output, mode, cval, device, stream, algorithm, layout, dtype
        As in correlate.

    Returns
    -------
    array
        ``output``, or a new array of input's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As correlate does.
    """
    return recipes.call(_uniform1d, input, output, (size, axis, mode, cval, origin, layout),
                        Extras(device, stream, algorithm), dtype)


def gaussian_taps(sigma: float, order: int = 0, radius: int | None = None, truncate: float = 4.0) -> np.ndarray:
    """2 * radius + 1 samples of a Gaussian, their sum made 1, or of its ``order``-th derivative, turned round for a
    correlation. Raises ArgumentError or ArgumentTypeError.

    The derivative is a polynomial times the Gaussian: q' - x / sigma^2 q follows q.
    """
    return _samples(float(sigma), within(order, "order"), reach(sigma, truncate, radius))


@functools.lru_cache(maxsize=256)
def _samples(sigma: float, order: int, radius: int) -> np.ndarray:
    x = np.arange(-radius, radius + 1, dtype=np.float64)
    bell = np.exp(-x**2 / (2 * sigma**2))
    factor = np.polynomial.Polynomial([1.0])
    for _ in range(order):
        factor = factor.deriv() - np.polynomial.Polynomial([0.0, 1 / sigma**2]) * factor
    made = (factor(x) * bell / bell.sum())[::-1]
    made.flags.writeable = False        # every call has the same array
    return made


# ---- what each call does

def _gaussian(image: Image, dtype: DType, sigma: Any, order: Any, mode: Any, cval: Any, truncate: Any, radius: Any,
              axes: Any, layout: Any) -> Passes:
    chosen = axes_of(image.rank, axes, layout)
    made = gaussian_lines(chosen, sigma, order, mode, cval, truncate, radius)
    return Passes.chain(passes.of_lines(made, image, dtype))


def gaussian_lines(axes: Sequence[int], sigma: Any, order: Any, mode: Any, cval: Any, truncate: Any = 4.0,
                   radius: Any = None) -> list[Line]:
    """A Gaussian along ``axes``, all arguments for all of them or one for each; none where sigma is 0."""
    lists = [each(v, len(axes), name) for v, name in ((sigma, "sigma"), (order, "order"), (mode, "mode"),
                                                      (radius, "radius"))]
    made = []
    for axis, s, o, m, r in zip(axes, *lists):
        width = deviation(s)
        if width is not None:
            made.append(line_of(gaussian_taps(width, o, r, truncate), axis, m, cval))
    return made


def _gaussian1d(image: Image, dtype: DType, sigma: Any, axis: Any, order: Any, mode: Any, cval: Any, truncate: Any,
                radius: Any, layout: Any) -> Passes:
    axes_of(image.rank, None, layout)
    width = deviation(sigma)
    if width is None:
        raise ArgumentError("the standard deviation must be positive", argument="sigma", value=sigma,
                            hint="for instance 1.5")
    line = line_of(gaussian_taps(width, order, radius, truncate), axis_of(image.rank, axis), mode, cval)
    return Passes.chain([Pass.along(line)])


def _uniform(image: Image, dtype: DType, size: Any, mode: Any, cval: Any, origin: Any, axes: Any,
             layout: Any) -> Passes:
    chosen = axes_of(image.rank, axes, layout)
    lists = [each(v, len(chosen), name) for v, name in ((size, "size"), (mode, "mode"), (origin, "origin"))]
    made = [_mean(s, axis, m, cval, o) for axis, s, m, o in zip(chosen, *lists) if size_of(s) > 1]
    return Passes.chain(passes.of_lines(made, image, dtype))


def _uniform1d(image: Image, dtype: DType, size: Any, axis: Any, mode: Any, cval: Any, origin: Any,
               layout: Any) -> Passes:
    axes_of(image.rank, None, layout)
    return Passes.chain(passes.of_lines([_mean(size, axis_of(image.rank, axis), mode, cval, origin)], image, dtype))


def _mean(size: Any, axis: int, mode: Any, cval: Any, origin: Any) -> Line:
    return line_of(np.ones(size_of(size)), axis, mode, cval, origin, divisor=size_of(size))
