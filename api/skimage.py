"""scikit-image's linear filters by its names and arguments: unsharp_mask, difference_of_gaussians, gaussian, gabor,
gabor_kernel, laplace, farid, scharr, sobel, prewitt and roberts with their forms for one direction.

``image`` is an array of NumPy, PyTorch, CuPy or any other library that warpconv.correlate takes, of any rank (the forms
for one direction, roberts and gabor: (H, W)). Integers become numbers from 0 to 1, or -1 to 1, as img_as_float makes
them. Results are float32, also where scikit-image's are float64; float64 images are taken with ``dtype='float32'``, and
theirs are float64 of float32's values. A ``mask`` is refused: the result multiplied by the eroded mask is the same.
``device``, ``stream``, ``algorithm`` and ``dtype`` are those of warpconv.correlate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.ndimage import correlate
from warpconv.runtime.ndimage.arguments import real
from warpconv.runtime.ndimage.lines import line_of
from warpconv.runtime.ndimage.named import named
from warpconv.runtime.ndimage.skimage import DIAGONALS, Source, diagonals_of, negative, no_mask, plain, run, slopes
from warpconv.runtime.ndimage.work import Extras, Passes

# Farid and Simoncelli (2004), table 1, third and fourth row, with scikit-image's further digits.
_FARID = (0.0376593171958126, 0.249153396177344, 0.426374573253687, 0.249153396177344, 0.0376593171958126)
_FARID_EDGE = (-0.109603762960254, -0.276690988455557, 0.0, 0.276690988455557, 0.109603762960254)

_TEXTS = {"; the result is bool then, unless output= names another type": "", ", unless output= names another type": "",
          "axes= names the axes; without it all of the input's are filtered": "in the order of the axes"}
_named = named(_TEXTS, input="image", output="out", axes="channel_axis")
_named_along = named(_TEXTS, input="image", output="out", axes="axis")


@_named
def unsharp_mask(image: Any, radius: Any = 1.0, amount: float = 1.0, preserve_range: bool = False, *,
                 channel_axis: int | None = None, device: str = "auto", stream: Any = None, algorithm: str = "auto",
                 dtype: Any = None) -> Any:
    """The image and ``amount`` times what a Gaussian takes from it, as skimage.filters.unsharp_mask.

    Parameters
    ----------
    image : array
        The image: any number of axes.
    radius : float or sequence of float
        The Gaussian's standard deviation, for all axes but ``channel_axis`` or one for each.
    amount : float
        How much is added of what the Gaussian takes away.
    preserve_range : bool
        Keep the image's own range; else results are limited to 0 .. 1, or -1 .. 1 where the image has negative values
        (for which a signed image is read once).
    channel_axis : int, optional
        An axis that is not filtered.
    device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        float32 of the image's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does.
    """
    lowest = None if preserve_range else -1.0 if negative(image, dtype) else 0.0
    factor = real(amount, "amount")

    def plan(source: Source) -> Passes:
        lines = source.gaussian(radius, channel_axis, "reflect", 0.0, 4.0, "radius")
        after = () if lowest is None else (f"clamp({lowest},1.0)",)
        return Passes([source.term([], 1 + factor), source.term(lines, -factor)], after)

    return run(plan, image, ("unsharp_mask", plain(radius), factor, lowest, preserve_range, channel_axis),
                Extras(device, stream, algorithm), dtype, scales=not preserve_range)


@_named
def difference_of_gaussians(image: Any, low_sigma: Any, high_sigma: Any = None, *, mode: str = "nearest",
                            cval: float = 0, channel_axis: int | None = None, truncate: float = 4.0,
                            device: str = "auto", stream: Any = None, algorithm: str = "auto",
                            dtype: Any = None) -> Any:
    """A Gaussian less a wider one, as skimage.filters.difference_of_gaussians.

    Parameters
    ----------
    image : array
        The image: any number of axes.
    low_sigma, high_sigma : float or sequence of float
        Standard deviations, for all axes but ``channel_axis`` or one for each; high_sigma 1.6 low_sigma if None.
    mode, cval
        As in warpconv.correlate; cval in the units of the converted image.
    channel_axis : int, optional
        An axis that is not filtered.
    truncate : float
        The filters end this many sigmas from their middle.
    device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        float32 of the image's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does.
    """
    low = np.asarray(low_sigma, np.float64)
    high = 1.6 * low if high_sigma is None else np.asarray(high_sigma, np.float64)
    if np.any(high < low):
        raise ArgumentError("the second Gaussian must not be the narrower one", argument="high_sigma", value=high_sigma,
                            hint="at least low_sigma along each axis")

    def plan(source: Source) -> Passes:
        less, more = (source.gaussian(sigma, channel_axis, mode, cval, truncate, name)
                      for sigma, name in ((low, "low_sigma"), (high, "high_sigma")))
        return Passes([source.term(less), source.term(more, -1.0)])

    told = ("difference_of_gaussians", plain(low), plain(high), mode, cval, channel_axis, truncate)
    return run(plan, image, told, Extras(device, stream, algorithm), dtype)


@_named
def gaussian(image: Any, sigma: Any = 1.0, *, mode: str = "nearest", cval: float = 0, preserve_range: bool = False,
             truncate: float = 4.0, channel_axis: int | None = None, out: Any = None, device: str = "auto",
             stream: Any = None, algorithm: str = "auto", dtype: Any = None) -> Any:
    """Gaussian filter, as skimage.filters.gaussian.

    Parameters
    ----------
    image : array
        The image: any number of axes.
    sigma : float or sequence of float
        Standard deviations, for all axes but ``channel_axis`` or one for each.
    mode, cval
        As in warpconv.correlate; cval in the units of the converted image.
    preserve_range : bool
        Keep the image's own range.
    truncate : float
        The filter ends this many sigmas from its middle.
    channel_axis : int, optional
        An axis that is not filtered.
    out : array, optional
        Where the result goes, of floats.
    device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``out``, or float32 of the image's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does.
    """
    if out is not None and "float" not in str(getattr(out, "dtype", "")):
        raise ArgumentTypeError("results are floats", argument="out", value=str(getattr(out, "dtype", out)),
                                hint="an array of float32")

    def plan(source: Source) -> Passes:
        return Passes([source.term(source.gaussian(sigma, channel_axis, mode, cval, truncate, "sigma"))])

    return run(plan, image, ("gaussian", plain(sigma), mode, cval, preserve_range, truncate, channel_axis),
                Extras(device, stream, algorithm), dtype, scales=not preserve_range, out=out)


@_named
def gabor(image: Any, frequency: float, theta: float = 0, bandwidth: float = 1, sigma_x: float | None = None,
          sigma_y: float | None = None, n_stds: float = 3, offset: float = 0, mode: str = "reflect", cval: float = 0, *,
          device: str = "auto", stream: Any = None, algorithm: str = "auto", dtype: Any = None) -> tuple[Any, Any]:
    """The real and the imaginary response to a Gabor filter, as skimage.filters.gabor: integers stay integers.

    Parameters
    ----------
    image : array, (H, W)
        The image.
    frequency, theta, bandwidth, sigma_x, sigma_y, n_stds, offset
        As in gabor_kernel.
    mode, cval
        As in warpconv.correlate.
    device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    real, imaginary : array
        Of the image's shape, type (float32 of float16) and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does.
    """
    kernel = gabor_kernel(frequency, theta, bandwidth, sigma_x, sigma_y, n_stds, offset)
    output = None
    if dtype is None and "float16" in str(getattr(image, "dtype", "")):
        output = dtype = "float32"      # weights are of the input's type
    _check_plane(image)
    one, other = (correlate.convolve(image, part, output, mode, cval, device=device, stream=stream,
                                     algorithm=algorithm, dtype=dtype) for part in (kernel.real, kernel.imag))
    return one, other


@_named
def gabor_kernel(frequency: float, theta: float = 0, bandwidth: float = 1, sigma_x: float | None = None,
                 sigma_y: float | None = None, n_stds: float = 3, offset: float = 0,
                 dtype: Any = np.complex128) -> np.ndarray:
    """A Gaussian times a plane wave, as skimage.filters.gabor_kernel.

    Parameters
    ----------
    frequency : float
        Of the wave, in periods a pixel, more than 0.
    theta : float
        Its direction in radians; 0 along x.
    bandwidth : float
        In octaves: the Gaussian's deviations follow from it where ``sigma_x`` and ``sigma_y`` do not say.
    sigma_x, sigma_y : float, optional
        Standard deviations along the wave and across it.
    n_stds : float
        The filter ends this many deviations from its middle.
    offset : float
        The wave's phase in radians.
    dtype : complex element type
        complex128 or complex64.

    Returns
    -------
    ndarray, (2 y + 1, 2 x + 1)
        Complex.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        Numbers that cannot be.
    """
    if np.dtype(dtype).kind != "c":
        raise ArgumentTypeError("a Gabor filter is complex", argument="dtype", value=dtype, hint="complex128")
    wave = real(frequency, "frequency")
    if wave <= 0 and None in (sigma_x, sigma_y):
        raise ArgumentError("the frequency must be positive", argument="frequency", value=frequency, hint="0.2")
    width = None
    if None in (sigma_x, sigma_y):
        octaves = 2.0**real(bandwidth, "bandwidth")
        if octaves <= 1:
            raise ArgumentError("the bandwidth must be positive", argument="bandwidth", value=bandwidth, hint="1")
        width = math.sqrt(math.log(2) / 2) / math.pi * (octaves + 1) / (octaves - 1) / wave
    along, across = (width if sigma is None else real(sigma, name)
                     for sigma, name in ((sigma_x, "sigma_x"), (sigma_y, "sigma_y")))
    if along <= 0 or across <= 0:
        raise ArgumentError("standard deviations are positive", argument="sigma_x", value=(sigma_x, sigma_y), hint="2")
    cos, sin, far = math.cos(real(theta, "theta")), math.sin(theta), real(n_stds, "n_stds")
    columns = math.ceil(max(abs(far * along * cos), abs(far * across * sin), 1))
    rows = math.ceil(max(abs(far * across * cos), abs(far * along * sin), 1))
    y, x = np.ogrid[-rows:rows + 1, -columns:columns + 1]
    u, v = x * cos + y * sin, y * cos - x * sin
    bell = np.exp(-0.5 * (u**2 / along**2 + v**2 / across**2)) / (2 * np.pi * along * across)
    return (bell * np.exp(1j * (2 * np.pi * wave * u + real(offset, "offset")))).astype(dtype)


@_named
def laplace(image: Any, ksize: int = 3, mask: Any = None, *, device: str = "auto", stream: Any = None,
            algorithm: str = "auto", dtype: Any = None) -> Any:
    """The negative of the second derivatives' sum, as skimage.filters.laplace.

    Parameters
    ----------
    image : array
        The image: any number of axes.
    ksize : int
        3, the only size that differs in scikit-image from what it pads with zeros.
    mask : None
        Refused, as the module says.
    device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        float32 of the image's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does.
    """
    no_mask(mask)
    if ksize != 3:
        raise ArgumentError("Laplacians of other sizes are not served", argument="ksize", value=ksize, hint="3")

    def plan(source: Source) -> Passes:
        return Passes([source.term([line_of(np.array([-1.0, 2.0, -1.0]), axis, "reflect", 0.0)])
                       for axis in range(source.image.rank)])

    return run(plan, image, ("laplace",), Extras(device, stream, algorithm), dtype)


def _edges(name: str, author: str, smooth: tuple[float, ...],
           edge: tuple[float, ...] = (-1.0, 0.0, 1.0)) -> tuple[Callable[..., Any], ...]:
    """A filter's calls for any axes, and for the rows and the columns of images (H, W)."""
    def any_axis(image: Any, mask: Any = None, *, axis: Any = None, mode: Any = "reflect", cval: float = 0.0,
                 device: str = "auto", stream: Any = None, algorithm: str = "auto", dtype: Any = None) -> Any:
        no_mask(mask)
        return slopes(image, axis, smooth, edge, mode, cval, Extras(device, stream, algorithm), dtype)

    def of_plane(axis: int) -> Callable[..., Any]:
        def one(image: Any, extras: Extras, dtype: Any) -> Any:
            _check_plane(image)
            return slopes(image, axis, smooth, edge, "reflect", 0.0, extras, dtype)

        return _direction(f"{name}_{'hv'[axis]}", f"{author} slope along axis {axis}", one, keyword=name == "farid")

    told = _told(any_axis, name, f"{author} slope along ``axis``, or the magnitude along several", more='''
    axis : int or sequence of int, optional
        The axis to take the slope along; the magnitude of several (of all if None) is the root of their mean square.
    mode, cval
        As in warpconv.correlate; cval in the units of the converted image.''')
    return told, of_plane(0), of_plane(1)


def _diagonal(name: str, doc: str, *taps: tuple[tuple[float, ...], ...]) -> Callable[..., Any]:
    def one(image: Any, extras: Extras, dtype: Any) -> Any:
        _check_plane(image)
        return diagonals_of(image, taps, extras, dtype)

    return _direction(name, doc, one)


def _direction(name: str, doc: str, run_it: Callable[..., Any], keyword: bool = False) -> Callable[..., Any]:
    """A filter of images (H, W), whose mask is taken by ``keyword`` alone, or not."""
    def by_place(image: Any, mask: Any = None, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
                 dtype: Any = None) -> Any:
        no_mask(mask)
        return run_it(image, Extras(device, stream, algorithm), dtype)

    def by_keyword(image: Any, *, mask: Any = None, device: str = "auto", stream: Any = None, algorithm: str = "auto",
                   dtype: Any = None) -> Any:
        return by_place(image, mask, device=device, stream=stream, algorithm=algorithm, dtype=dtype)

    return _told(by_keyword if keyword else by_place, name, doc, shape=", (H, W)", size="")


def _told(filtered: Callable[..., Any], name: str, doc: str, shape: str = "", size: str = ": any number of axes",
          more: str = "") -> Callable[..., Any]:
    """The same with its name and its docstring."""
    filtered.__name__ = filtered.__qualname__ = name
    filtered.__doc__ = f"""{doc}, as skimage.filters.{name}.

    Parameters
    ----------
    image : array{shape}
        The image{size}.
    mask : None
        Refused, as the module says.{more}
    device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        float32 of the image's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does.
    """
    return _named_along(filtered)


def _check_plane(image: Any) -> None:
    shape = tuple(getattr(image, "shape", (0, 0)))
    if len(shape) != 2:
        raise ShapeError("this filter is for images (H, W)", argument="image", value=shape,
                         hint="one plane; the forms with axis= take any rank")


sobel, sobel_h, sobel_v = _edges("sobel", "Sobel's", (1 / 4, 2 / 4, 1 / 4))
scharr, scharr_h, scharr_v = _edges("scharr", "Scharr's", (3 / 16, 10 / 16, 3 / 16))
prewitt, prewitt_h, prewitt_v = _edges("prewitt", "Prewitt's", (1 / 3, 1 / 3, 1 / 3))
farid, farid_h, farid_v = _edges("farid", "Farid's and Simoncelli's", _FARID, _FARID_EDGE)
roberts = _diagonal("roberts", "Roberts' magnitude of both diagonals", *DIAGONALS)
roberts_pos_diag = _diagonal("roberts_pos_diag", "Roberts' slope along one diagonal", DIAGONALS[0])
roberts_neg_diag = _diagonal("roberts_neg_diag", "Roberts' slope along the other diagonal", DIAGONALS[1])
