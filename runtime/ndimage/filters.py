"""Named filters in SciPy's terms: scipy.ndimage's gaussian_filter, sobel, prewitt, laplace and uniform_filter.

What ``input``, ``output``, ``mode``, ``cval``, ``device``, ``stream``, ``algorithm``, ``layout`` and the result are
stands in warpconv.runtime.ndimage.correlate. A filter of several axes is done axis by axis, each result stored as the
output's type, as SciPy does it; where the result is the same, at once (passes.py). Without ``axes`` the axes of the
image are filtered: the last two (for 'NHWC' the two before the channels), not all as in SciPy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import LARGEST_PADDING

from . import passes
from .correlate import line_of
from .passes import Extras, Line, Pass
from .planes import Image, Target

LEAST_SIGMA = 1e-15     # axes with less are not filtered


def gaussian_filter(input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect",
                    cval: float = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
                    device: str = "auto", stream: Any = None, algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Gaussian filter, or derivatives of it, as scipy.ndimage.gaussian_filter.

    ``sigma`` (pixels), ``order`` (0: smoothing, n: the n-th derivative), ``mode`` and ``radius`` (pixels; else
    ``truncate`` sigmas) are one value or one for each of ``axes``.
    """
    image = Image.of(input, layout, 1)
    chosen = _axes(image, axes)
    lists = [_each(v, len(chosen), name) for v, name in ((sigma, "sigma"), (order, "order"), (mode, "mode"),
                                                         (radius, "radius"))]
    lines = [line_of(image, gaussian_taps(s, o, r, truncate), axis, m, cval, 0)
             for axis, s, o, m, r in zip(chosen, *lists) if _positive(s)]
    return _run(image, lines, output, Extras(device, stream, algorithm))


def gaussian_filter1d(input: Any, sigma: float, axis: int = -1, order: int = 0, output: Any = None,
                      mode: str = "reflect", cval: float = 0.0, truncate: float = 4.0, *, radius: int | None = None,
                      device: str = "auto", stream: Any = None, algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Gaussian filter along one axis, as scipy.ndimage.gaussian_filter1d."""
    image = Image.of(input, layout, 1)
    if not _positive(sigma):
        raise ArgumentError("the standard deviation must be positive", argument="sigma", value=sigma,
                            hint="for instance 1.5")
    line = line_of(image, gaussian_taps(sigma, order, radius, truncate), image.axis(axis), mode, cval, 0)
    return _run(image, [line], output, Extras(device, stream, algorithm))


def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
          device: str = "auto", stream: Any = None, algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Sobel's slope along ``axis``, as scipy.ndimage.sobel: (-1, 0, 1) along it, then (1, 2, 1) along the image's other
    axis. ``mode`` is one, or one for each axis of the image (or of the input)."""
    return _slope(input, axis, [1, 2, 1], output, mode, cval, Extras(device, stream, algorithm), layout)


def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
            device: str = "auto", stream: Any = None, algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Prewitt's slope along ``axis``, as scipy.ndimage.prewitt: (-1, 0, 1) along it, then (1, 1, 1) along the image's
    other axis. ``mode`` as in sobel."""
    return _slope(input, axis, [1, 1, 1], output, mode, cval, Extras(device, stream, algorithm), layout)


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None,
            device: str = "auto", stream: Any = None, algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Second derivatives (1, -2, 1) along ``axes``, summed, as scipy.ndimage.laplace. ``mode`` is one, or one for each
    of ``axes``."""
    image = Image.of(input, layout, 1)
    chosen, extras = _axes(image, axes), Extras(device, stream, algorithm)
    modes = _each(mode, len(chosen), "mode")
    lines = [line_of(image, np.array([1.0, -2.0, 1.0]), axis, m, cval, 0) for axis, m in zip(chosen, modes)]
    if len(lines) < 2:
        return _run(image, lines, output, extras)
    target = Target.of(output, image)
    same = set(chosen) == set(image.axes) and lines[0].border is lines[1].border
    if same and (target.dtype.is_float or image.view.dtype.is_integer):     # floats are cast line by line
        cross = Pass(np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]), (0, 0), lines[0].border,
                     lines[0].cval)
        return passes.run(image, [cross], target, extras)
    return passes.add(image, [Pass.along(line, image) for line in lines], target, extras)


def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                   origin: Any = 0, *, axes: Any = None, device: str = "auto", stream: Any = None,
                   algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Mean of ``size`` pixels along each of ``axes``, as scipy.ndimage.uniform_filter; ``size``, ``mode`` and
    ``origin`` are one value or one for each. Means of integers, stored as integers, are those of exact sums."""
    image = Image.of(input, layout, 1)
    chosen = _axes(image, axes)
    lists = [_each(v, len(chosen), name) for v, name in ((size, "size"), (mode, "mode"), (origin, "origin"))]
    lines = [_mean(image, s, axis, m, cval, o) for axis, s, m, o in zip(chosen, *lists)]
    return _run(image, [line for line in lines if len(line.taps) > 1], output, Extras(device, stream, algorithm))


def uniform_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
                     cval: float = 0.0, origin: int = 0, *, device: str = "auto", stream: Any = None,
                     algorithm: str = "auto", layout: str = "NCHW") -> Any:
    """Mean of ``size`` pixels along one axis, as scipy.ndimage.uniform_filter1d."""
    image = Image.of(input, layout, 1)
    line = _mean(image, size, image.axis(axis), mode, cval, origin)
    return _run(image, [line], output, Extras(device, stream, algorithm))


def gaussian_taps(sigma: float, order: int = 0, radius: int | None = None, truncate: float = 4.0) -> np.ndarray:
    """2 * radius + 1 samples of a Gaussian, their sum made 1, or of its ``order``-th derivative, turned round for a
    correlation. Raises ArgumentError or ArgumentTypeError.

    The derivative is a polynomial times the Gaussian: q' - x / sigma^2 q follows q.
    """
    for name, value in (("order", order), ("radius", 0 if radius is None else radius)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            raise ArgumentTypeError(f"the {name} must be a whole number", argument=name, value=value,
                                    hint="for instance 1")
        if not 0 <= value <= LARGEST_PADDING:
            raise ArgumentError(f"the {name} is out of range", argument=name, value=value,
                                hint=f"0 to {LARGEST_PADDING}")
    reach = truncate * sigma + 0.5
    if radius is None and not 0 <= reach <= LARGEST_PADDING:
        raise ArgumentError("the filter's radius, truncate * sigma, is out of range", argument="truncate",
                            value=truncate, hint=f"a radius from 0 to {LARGEST_PADDING}")
    return _samples(float(sigma), int(order), int(reach) if radius is None else int(radius))


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


def _run(image: Image, lines: list[Line], output: Any, extras: Extras) -> Any:
    target = Target.of(output, image)
    return passes.run(image, passes.of_lines(lines, image, target.dtype), target, extras)


def _slope(input: Any, axis: Any, smooth: list[int], output: Any, mode: Any, cval: Any, extras: Extras,
           layout: str) -> Any:
    image = Image.of(input, layout, 1)
    along = image.axis(axis)
    if along not in image.axes:
        raise ArgumentError("slopes are taken along an axis of the image", argument="axis", value=axis,
                            hint=f"one of {image.axes}; numpy.moveaxis(input, ...) brings others there")
    modes = _modes(mode, image)
    lines = [line_of(image, np.array([-1.0, 0.0, 1.0]), along, modes[along], cval, 0)]
    lines += [line_of(image, np.array(smooth, np.float64), other, modes[other], cval, 0)
              for other in image.axes if other != along]
    return _run(image, lines, output, extras)


def _mean(image: Image, size: Any, axis: int, mode: Any, cval: Any, origin: Any) -> Line:
    if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or not 1 <= size <= 2 * LARGEST_PADDING:
        raise ArgumentError("the size must be a whole number of pixels", argument="size", value=size,
                            hint=f"1 to {2 * LARGEST_PADDING}")
    return line_of(image, np.ones(int(size)), axis, mode, cval, origin, divisor=int(size))


def _positive(sigma: Any) -> bool:
    """Whether an axis is filtered at all. Raises ArgumentError for what is no standard deviation."""
    if not isinstance(sigma, (int, float, np.integer, np.floating)) or not 0 <= sigma < float("inf"):
        raise ArgumentError("a standard deviation is a number of pixels", argument="sigma", value=sigma,
                            hint="for instance 1.5, or one for each axis")
    return sigma > LEAST_SIGMA


def _axes(image: Image, axes: Any) -> tuple[int, ...]:
    """The axes to filter, counted from the first. Raises ArgumentTypeError or ArgumentError."""
    if axes is None:
        return image.axes
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    chosen = tuple(image.axis(axis, "axes") for axis in given)
    if len(set(chosen)) != len(chosen):
        raise ArgumentError("an axis is named twice", argument="axes", value=axes, hint="name each once")
    return chosen


def _each(value: Any, count: int, argument: str) -> list[Any]:
    """One value for each axis. Raises ShapeError for another number of them."""
    if not isinstance(value, (tuple, list, np.ndarray)):
        return [value] * count
    if len(value) != count:
        raise ShapeError(f"{argument} needs one value, or one for each of {count} axes", argument=argument, value=value,
                         hint="the axes are the image's two unless axes= names others")
    return list(value)


def _modes(mode: Any, image: Image) -> dict[int, Any]:
    """The mode along each axis of the image."""
    if isinstance(mode, (tuple, list)) and len(mode) == image.rank:
        return dict(enumerate(mode))
    return dict(zip(image.axes, _each(mode, len(image.axes), "mode")))
