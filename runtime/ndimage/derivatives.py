"""Slopes, Laplacians and magnitudes in SciPy's terms: scipy.ndimage's sobel, prewitt, laplace, gaussian_laplace and
gaussian_gradient_magnitude.

What ``input``, ``output``, ``mode``, ``cval``, ``device``, ``stream``, ``algorithm``, ``layout``, ``dtype`` and the
result are stands in warpconv.runtime.ndimage.correlate. Sums of several filters are added where each is stored: the
second kernel reads the sum of those before it beside the image. Magnitudes are squared there, and the last kernel takes
the root.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.runtime.call.watched import uncompiled

from . import lines as passes, recipes
from .arguments import axes_of, axis_of, each, sequence
from .filters import gaussian_lines
from .lines import Pass, identity, line_of
from .planes import Image
from .work import Extras, Passes

_SECOND = np.array([1.0, -2.0, 1.0])
_CROSS = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
SQUARED, ROOT = "expr(v * v)", "expr(sqrt(v))"      # of each slope, and of the sum of their squares


@uncompiled
def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
          device: str = "auto", stream: Any = None, algorithm: str = "auto",
          layout: str | None = None, dtype: Any = None) -> Any:
    """Sobel's slope along an axis, as scipy.ndimage.sobel: (-1, 0, 1) along it, then (1, 2, 1) along each other axis.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    axis : int
        The axis of input to take the slope along; with ``layout`` one of the image's.
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
    return recipes.call(_slope, input, output, (axis, (1, 2, 1), mode, cval, layout),
                        Extras(device, stream, algorithm), dtype)


@uncompiled
def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
            device: str = "auto", stream: Any = None, algorithm: str = "auto",
            layout: str | None = None, dtype: Any = None) -> Any:
    """Prewitt's slope along an axis, as scipy.ndimage.prewitt: (-1, 0, 1) along it, then (1, 1, 1) along each
    other axis.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    axis : int
        The axis of input to take the slope along; with ``layout`` one of the image's.
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
    return recipes.call(_slope, input, output, (axis, (1, 1, 1), mode, cval, layout),
                        Extras(device, stream, algorithm), dtype)


@uncompiled
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None,
            device: str = "auto", stream: Any = None, algorithm: str = "auto",
            layout: str | None = None, dtype: Any = None) -> Any:
    """Second derivatives (1, -2, 1) along ``axes``, summed, as scipy.ndimage.laplace.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    axes : int or sequence of int, optional
        The axes to derive along; all of input's if None.
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
    return recipes.call(_laplace, input, output, (mode, cval, axes, layout), Extras(device, stream, algorithm), dtype)


@uncompiled
def gaussian_laplace(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
                     axes: Any = None, truncate: float = 4.0, radius: Any = None, device: str = "auto",
                     stream: Any = None, algorithm: str = "auto", layout: str | None = None,
                     dtype: Any = None) -> Any:
    """Second derivatives of a Gaussian along ``axes``, summed, as scipy.ndimage.gaussian_laplace.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    sigma : float or sequence of float
        Standard deviation in pixels, for all of ``axes`` or one for each; 0: not along this axis.
    axes : int or sequence of int, optional
        The axes to derive along; all of input's if None.
    mode : str or sequence of str
        As in correlate, for all of ``axes`` or one for each: that of all filters of this axis' derivative.
    truncate, radius
        As in gaussian_filter.
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
    return recipes.call(_gaussian_sum, input, output, (2, sigma, mode, cval, truncate, radius, axes, layout),
                        Extras(device, stream, algorithm), dtype)


@uncompiled
def gaussian_gradient_magnitude(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
                                axes: Any = None, truncate: float = 4.0, radius: Any = None, device: str = "auto",
                                stream: Any = None, algorithm: str = "auto", layout: str | None = None,
                                dtype: Any = None) -> Any:
    """Magnitude of a Gaussian's slopes along ``axes``, as scipy.ndimage.gaussian_gradient_magnitude.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    sigma : float or sequence of float
        Standard deviation in pixels, for all axes of the input or one for each: also those that ``axes`` does not name
        are smoothed, as in SciPy.
    axes : int or sequence of int, optional
        The axes to derive along; all of input's if None.
    mode : str or sequence of str
        As in correlate, for all of ``axes`` or one for each: that of all filters of this axis' derivative.
    truncate, radius
        As in gaussian_filter.
    output, cval, device, stream, algorithm, layout, dtype
        As in correlate.

    Returns
    -------
    array
        ``output``, or a new array of input's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As correlate does;
        ArgumentTypeError for an output of integers, where SciPy's squares wrap.
    """
    return recipes.call(_gaussian_sum, input, output, (1, sigma, mode, cval, truncate, radius, axes, layout),
                        Extras(device, stream, algorithm), dtype)


# ---- what each call does

def _slope(image: Image, dtype: DType, axis: Any, smooth: tuple[int, ...], mode: Any, cval: Any,
           layout: Any) -> Passes:
    chosen, along = axes_of(image.rank, None, layout), axis_of(image.rank, axis)
    if along not in chosen:
        raise ArgumentError("slopes are taken along an axis of the image", argument="axis", value=axis,
                            hint=f"one of {chosen}, or no layout=")
    modes = _modes(mode, chosen, image.rank)
    made = [line_of(np.array([-1.0, 0.0, 1.0]), along, modes[along], cval)]
    made += [line_of(np.array(smooth, np.float64), other, modes[other], cval) for other in chosen if other != along]
    return Passes.chain(passes.of_lines(made, image, dtype))


def _laplace(image: Image, dtype: DType, mode: Any, cval: Any, axes: Any, layout: Any) -> Passes:
    chosen = axes_of(image.rank, axes, layout)
    made = [line_of(_SECOND, axis, m, cval) for axis, m in zip(chosen, each(mode, len(chosen), "mode"))]
    if len(made) < 2:
        return Passes.chain(passes.of_lines(made, image, dtype))
    parts = list(map(Pass.along, made))
    if dtype.is_float or image.view.dtype.is_integer:       # floats that become integers are cast line by line
        pair = passes.largest_pair(made, image)
        if pair is not None:
            rows, columns = sorted(line.axis for line in pair)
            parts = [Pass(_CROSS, (rows, columns), (0, 0), pair[0].border, pair[0].cval),
                     *(Pass.along(line) for line in made if not any(line is one for one in pair))]
    return Passes([[part] for part in parts])


def _gaussian_sum(image: Image, dtype: DType, order: int, sigma: Any, mode: Any, cval: Any, truncate: Any, radius: Any,
                  axes: Any, layout: Any) -> Passes:
    """Derivatives of a Gaussian along each axis in turn: second ones added up, or the root of the slopes' squares."""
    every, chosen = axes_of(image.rank, None, layout), axes_of(image.rank, axes, layout)
    if order == 1:
        check_squares(dtype)
        sigmas = each(sigma, len(every), "sigma")
    else:
        sigmas = each(sigma, len(chosen), "sigma")
        if len(chosen) < len(every):        # SciPy goes by the input's order where all axes are named
            given = dict(zip(chosen, sigmas))
            sigmas = [given.get(axis, 0) for axis in every]
    terms = []
    for along, m in zip(chosen, each(mode, len(chosen), "mode")):
        orders = [order if axis == along else 0 for axis in every]
        made = passes.of_lines(gaussian_lines(every, sigmas, orders, m, cval, truncate, radius), image, dtype)
        term = made or [identity(image.rank)]
        terms.append(term if order == 2 else [*term[:-1], term[-1].then(SQUARED)])
    return Passes(terms or [[]], after=(ROOT,) if order == 1 and terms else ())


def check_squares(dtype: DType) -> None:
    if not dtype.is_float:
        raise ArgumentTypeError("squares of slopes do not fit this type, where SciPy's wrap", argument="output",
                                value=dtype.value, hint="output='float32'")


def _modes(mode: Any, chosen: tuple[int, ...], rank: int) -> dict[int, Any]:
    """The mode along each axis that is filtered: one for each of the input's, or of these."""
    values = sequence(mode)
    if values is not None and len(values) == rank:
        return dict(enumerate(values))
    return dict(zip(chosen, each(mode, len(chosen), "mode")))
