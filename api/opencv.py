"""OpenCV's linear filters by OpenCV's names and arguments: filter2D, sepFilter2D, GaussianBlur, Sobel, Scharr,
Laplacian, boxFilter, blur, getGaussianKernel, getDerivKernels.

``src`` is an image (H, W) or (H, W, C), whose channels are filtered apart: an array of NumPy, PyTorch, CuPy or any
other library that warpconv.correlate takes, of uint8, int8, uint16, int16, float32 or float16; others with
``dtype='float32'``. In all calls

- ``ddepth`` is the result's type: OpenCV's number (-1, CV_16S, ...), a type or its name ('int16'). CV_64F has float32's
  values. Results become integers as OpenCV's: rounded to nearest even and limited to the type's range;
- ``borderType`` is OpenCV's number (BORDER_REFLECT_101 is the default), its name, or warpconv's ('reflect'). The value
  of BORDER_CONSTANT is 0, as it is there; BORDER_WRAP is served, too;
- ``anchor`` is (x, y), the filter's element over the pixel; (-1, -1) its middle, size // 2;
- ``dst`` is the array that the result goes to, of src's shape, library and place; else a new one;
- ``device``, ``stream``, ``algorithm`` and ``dtype`` are those of warpconv.correlate.

docs/opencv.md has the table of names and what differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError
from warpconv.runtime.ndimage.arguments import real, whole
from warpconv.runtime.ndimage.correlate import taps_of
from warpconv.runtime.ndimage.lines import Pass
from warpconv.runtime.ndimage.named import named
from warpconv.runtime.ndimage.opencv import (
    FILTER_SCHARR, HALF_UP, ISOLATED, border_of, depth_of, derivative_kernels, filtered, fixed,
    gaussian_taps, is_eight, line_taps, origins_of, pair, product, separable)
from warpconv.runtime.ndimage.work import Extras

BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT, BORDER_WRAP, BORDER_REFLECT_101 = range(5)
BORDER_REFLECT101 = BORDER_DEFAULT = BORDER_REFLECT_101
BORDER_ISOLATED = ISOLATED
CV_8U, CV_8S, CV_16U, CV_16S, CV_32S, CV_32F, CV_64F, CV_16F = range(8)

_named = named({"output=": "ddepth="}, input="src", output="dst", weights="kernel")
_named_plain = named({f", unless {name}= names another type": "" for name in ("output", "ddepth")},
                     input="src", output="dst", weights="kernel")


@_named
def filter2D(src: Any, ddepth: Any, kernel: Any, dst: Any = None, anchor: Any = (-1, -1), delta: float = 0,
             borderType: Any = BORDER_DEFAULT, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
             dtype: Any = None) -> Any:
    """Correlation with ``kernel``, as cv2.filter2D.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    kernel : array of real numbers, (R, S)
        In host memory.
    delta : float
        Added to each result.
    ddepth, dst, anchor, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    taps, border = taps_of(kernel, 2), border_of(borderType)
    origins = origins_of(anchor, (taps.shape[1], taps.shape[0]))

    def plan() -> list[list[Pass]]:
        return [[Pass(taps, (0, 1), origins, border, 0.0)]]

    return filtered(plan, src, ddepth, dst, delta, Extras(device, stream, algorithm), dtype,
                    "filter2D", taps, origins, border)


@_named
def sepFilter2D(src: Any, ddepth: Any, kernelX: Any, kernelY: Any, dst: Any = None, anchor: Any = (-1, -1),
                delta: float = 0, borderType: Any = BORDER_DEFAULT, *, device: str = "auto", stream: Any = None,
                algorithm: str = "auto", dtype: Any = None) -> Any:
    """Correlation with a row and a column, as cv2.sepFilter2D. Nothing is rounded between them.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    kernelX, kernelY : array of real numbers, (S,) and (R,), or with an axis of 1
        Along the rows, and along the columns.
    delta : float
        Added to each result.
    ddepth, dst, anchor, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    row, column = line_taps(kernelX, "kernelX"), line_taps(kernelY, "kernelY")
    return separable(src, ddepth, row, column, dst, anchor, delta, borderType, Extras(device, stream, algorithm),
                     dtype)


@_named_plain
def GaussianBlur(src: Any, ksize: Any, sigmaX: float, dst: Any = None, sigmaY: float = 0,
                 borderType: Any = BORDER_DEFAULT, hint: int = 0, *, device: str = "auto", stream: Any = None,
                 algorithm: str = "auto", dtype: Any = None) -> Any:
    """Gaussian filter, as cv2.GaussianBlur: 8-bit images with its weights of 8 bits, to the same pixels.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    ksize : (int, int)
        Width and height of the filter, odd; 0: from sigma.
    sigmaX, sigmaY : float
        Standard deviations in pixels; sigmaY 0: sigmaX; both 0: from ``ksize``.
    hint : int
        OpenCV's; there is one way here.
    dst, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape, type and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    width, height = pair(ksize, "ksize")
    across = real(sigmaX, "sigmaX")
    down = real(sigmaY, "sigmaY")
    down = down if down > 0 else across
    extras, border = Extras(device, stream, algorithm), border_of(borderType)
    eight = is_eight(src, dtype)
    sizes = [size if size > 0 or sigma <= 0 else round(sigma * (3 if eight else 4) * 2 + 1) | 1
             for size, sigma in ((width, across), (height, down))]
    row, column = (gaussian_taps(size, sigma) for size, sigma in zip(sizes, (across, down)))
    if eight:
        whole_row, whole_column = fixed(row), fixed(column)

        def plan() -> list[list[Pass]]:
            made = product(whole_row, whole_column, (0, 0), border)
            return [[*made[:-1], made[-1].then(HALF_UP)]]

        return filtered(plan, src, -1, dst, 0, extras, dtype, "GaussianBlur", whole_row, whole_column, border)
    return separable(src, -1, row, column, dst, (-1, -1), 0, borderType, extras, dtype)


@_named
def Sobel(src: Any, ddepth: Any, dx: int, dy: int, dst: Any = None, ksize: int = 3, scale: float = 1, delta: float = 0,
          borderType: Any = BORDER_DEFAULT, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
          dtype: Any = None) -> Any:
    """Derivatives by Sobel's filters, as cv2.Sobel.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    dx, dy : int
        Orders of the derivative along x and y.
    ksize : int
        The filter's size, odd, up to 31; 1: 3x1 or 1x3 without smoothing; FILTER_SCHARR (-1): Scharr's.
    scale, delta : float
        What results are multiplied by, and what is added then.
    ddepth, dst, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    row, column = getDerivKernels(dx, dy, ksize)
    factor = real(scale, "scale")
    row, column = (row * factor, column) if dx == 0 else (row, column * factor)
    return separable(src, ddepth, row.ravel(), column.ravel(), dst, (-1, -1), delta, borderType,
                     Extras(device, stream, algorithm), dtype)


@_named
def Scharr(src: Any, ddepth: Any, dx: int, dy: int, dst: Any = None, scale: float = 1, delta: float = 0,
           borderType: Any = BORDER_DEFAULT, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
           dtype: Any = None) -> Any:
    """A first derivative by Scharr's filter, (3, 10, 3) across it, as cv2.Scharr.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    dx, dy : int
        1 and 0, or 0 and 1.
    scale, delta : float
        What results are multiplied by, and what is added then.
    ddepth, dst, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    return Sobel(src, ddepth, dx, dy, dst, FILTER_SCHARR, scale, delta, borderType, device=device, stream=stream,
                 algorithm=algorithm, dtype=dtype)


@_named
def Laplacian(src: Any, ddepth: Any, dst: Any = None, ksize: int = 1, scale: float = 1, delta: float = 0,
              borderType: Any = BORDER_DEFAULT, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
              dtype: Any = None) -> Any:
    """Second derivatives, summed, as cv2.Laplacian.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    ksize : int
        1: four neighbours; 3, 5, ... 31: Sobel's second derivatives of this size.
    scale, delta : float
        What results are multiplied by, and what is added then.
    ddepth, dst, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    size, factor, border = whole(ksize, "ksize"), real(scale, "scale"), border_of(borderType)
    if size == 1:
        taps = np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])
    else:
        second, smooth = (kernel.ravel() for kernel in getDerivKernels(2, 0, size))
        taps = np.outer(smooth, second) + np.outer(second, smooth)

    def plan() -> list[list[Pass]]:
        return [[Pass(taps * factor, (0, 1), (0, 0), border, 0.0)]]

    return filtered(plan, src, ddepth, dst, delta, Extras(device, stream, algorithm), dtype,
                    "Laplacian", size, factor, border)


@_named
def boxFilter(src: Any, ddepth: Any, ksize: Any, dst: Any = None, anchor: Any = (-1, -1), normalize: bool = True,
              borderType: Any = BORDER_DEFAULT, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
              dtype: Any = None) -> Any:
    """Means, or sums, of rectangles, as cv2.boxFilter.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    ksize : (int, int)
        Width and height.
    normalize : bool
        Means; else sums.
    ddepth, dst, anchor, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    width, height = pair(ksize, "ksize")
    if width < 1 or height < 1:
        raise ArgumentError("a box has a width and a height", argument="ksize", value=ksize, hint="for instance (5, 5)")
    border, origins = border_of(borderType), origins_of(anchor, (width, height))
    area = width * height if normalize else 1
    extras, up = Extras(device, stream, algorithm), depth_of(ddepth) in (None, "uint8") and is_eight(src, dtype)
    quotient = f"expr(floor(v / {area} + 0.5))" if up else f"expr(v / {area})"     # OpenCV's of bytes round .5 up

    def plan() -> list[list[Pass]]:     # sums first, the quotient of the exact ones behind them
        made = product(np.ones(width), np.ones(height), origins, border)
        return [[*made[:-1], made[-1].then(quotient) if area > 1 else made[-1]]]

    try:
        return filtered(plan, src, ddepth, dst, 0, extras, dtype, "boxFilter", width, height, quotient, origins, border)
    except ArgumentError as error:
        if error.argument != "out_dtype":
            raise
        raise ArgumentError("sums of boxes this large are made in float32, along columns from those along rows",
                            argument="ddepth", value=ddepth,
                            hint="CV_32F, where they are exact below 2^24, and a cast") from error


@_named_plain
def blur(src: Any, ksize: Any, dst: Any = None, anchor: Any = (-1, -1), borderType: Any = BORDER_DEFAULT, *,
         device: str = "auto", stream: Any = None, algorithm: str = "auto", dtype: Any = None) -> Any:
    """Means of rectangles in src's type, as cv2.blur.

    Parameters
    ----------
    src : array, (H, W) or (H, W, C)
        The image.
    ksize : (int, int)
        Width and height.
    dst, anchor, borderType, device, stream, algorithm, dtype
        As the module says.

    Returns
    -------
    array
        ``dst``, or a new array of src's shape, type and library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec, DeviceError
        As warpconv.correlate does, before anything is written.
    """
    return boxFilter(src, -1, ksize, dst, anchor, True, borderType, device=device, stream=stream, algorithm=algorithm,
                     dtype=dtype)


@_named
def getGaussianKernel(ksize: int, sigma: float) -> np.ndarray:
    """The samples of a Gaussian, their sum 1, as cv2.getGaussianKernel.

    Parameters
    ----------
    ksize : int
        How many, odd.
    sigma : float
        Standard deviation in pixels; 0: from ``ksize``.

    Returns
    -------
    ndarray, (ksize, 1)
        float64.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        Numbers that cannot be.
    """
    return gaussian_taps(whole(ksize, "ksize"), real(sigma, "sigma"))[:, None]


@_named
def getDerivKernels(dx: int, dy: int, ksize: int, normalize: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of Sobel's or Scharr's filter, as cv2.getDerivKernels.

    Parameters
    ----------
    dx, dy : int
        Orders of the derivative along x and y.
    ksize : int
        Odd, 1 to 31, or FILTER_SCHARR (-1).
    normalize : bool
        Divide by the sum that smoothing has.

    Returns
    -------
    kx, ky : ndarray, (n, 1)
        float64.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        Numbers that cannot be.
    """
    return derivative_kernels(whole(dx, "dx"), whole(dy, "dy"), whole(ksize, "ksize"), normalize)
