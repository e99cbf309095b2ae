"""scipy.ndimage's linear filters on Dask's arrays: larger than memory, over several GPUs and machines.

``input`` is a dask.array.Array of NumPy's or CuPy's chunks; the result is another one, computed when Dask computes it.
In all calls

- the arguments are those of warpconv's function of the same name (SciPy's, then ``device``, ``algorithm``, ``layout``,
  ``dtype``), and the result is that of its call on the whole array, within rounding, and bit for bit where
  ``algorithm`` names one. ``output`` is an element type or None;
- chunks are filtered with as many pixels around them as the filters read, for every ``mode``, 'wrap' across the array
  among them. Chunks shorter than that are joined first;
- ``device`` is where the workers filter chunks of NumPy: 'auto' (a GPU if the worker has one), 'cpu', 'cuda' (GPUs that
  the worker sees in turn) or 'cuda:1'. CuPy's chunks stay on their GPU;
- tasks are named after the function: warpconv-gaussian_filter-...

``chunks`` gives sizes of chunks for a budget of memory. ``from_array`` looks at a NumPy array where it lies, ``store``
writes results to one, and while it is ``locked`` GPUs read and write it there, without a copy by the host.
``register`` puts these filters under dask-image's names. All need the extra dask: ``pip install "warpconv[dask]"``.
docs/scale.md says how to use several GPUs.
"""

from __future__ import annotations

from typing import Any

from warpconv.runtime.ndimage import correlate as _correlations, derivatives as _derivatives, filters as _filters
from warpconv.runtime.scale.arrays import Chunked as _Chunked
from warpconv.runtime.scale.dask_image import register
from warpconv.runtime.scale.locked import locked
from warpconv.runtime.scale.sizes import chunks
from warpconv.runtime.scale.store import from_array, store

__all__ = ["chunks", "from_array", "store", "locked", "correlate", "convolve", "correlate1d", "convolve1d",
           "gaussian_filter", "gaussian_filter1d", "uniform_filter", "uniform_filter1d", "sobel", "prewitt", "laplace",
           "gaussian_laplace", "gaussian_gradient_magnitude", "register"]


def correlate(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: Any = 0,
              *, axes: Any = None, device: str = "auto", algorithm: str = "auto", layout: str | None = None,
              dtype: Any = None) -> Any:
    """Correlation with ``weights``, as warpconv.correlate, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    weights : array of real numbers
        An axis for each of ``axes``, or for each of the input's; in host memory.
    output, mode, cval, origin, axes, device, algorithm, layout, dtype
        As in warpconv.correlate; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.correlate, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _correlations.correlate(_Chunked(input, "correlate"), weights, output, mode, cval, origin, axes=axes,
                                   device=device, algorithm=algorithm, layout=layout, dtype=dtype)


def convolve(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: Any = 0, *,
             axes: Any = None, device: str = "auto", algorithm: str = "auto", layout: str | None = None,
             dtype: Any = None) -> Any:
    """Convolution with ``weights``, as warpconv.convolve, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    weights : array of real numbers
        An axis for each of ``axes``, or for each of the input's; in host memory.
    output, mode, cval, origin, axes, device, algorithm, layout, dtype
        As in warpconv.convolve; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.convolve, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _correlations.convolve(_Chunked(input, "convolve"), weights, output, mode, cval, origin, axes=axes,
                                  device=device, algorithm=algorithm, layout=layout, dtype=dtype)


def correlate1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
                origin: int = 0, *, device: str = "auto", algorithm: str = "auto", layout: str | None = None,
                dtype: Any = None) -> Any:
    """Correlation along one axis, as warpconv.correlate1d, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    weights : array of real numbers, (S,)
        In host memory.
    axis, output, mode, cval, origin, device, algorithm, layout, dtype
        As in warpconv.correlate1d; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.correlate1d, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _correlations.correlate1d(_Chunked(input, "correlate1d"), weights, axis, output, mode, cval, origin,
                                     device=device, algorithm=algorithm, layout=layout, dtype=dtype)


def convolve1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
               origin: int = 0, *, device: str = "auto", algorithm: str = "auto", layout: str | None = None,
               dtype: Any = None) -> Any:
    """Convolution along one axis, as warpconv.convolve1d, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    weights : array of real numbers, (S,)
        In host memory.
    axis, output, mode, cval, origin, device, algorithm, layout, dtype
        As in warpconv.convolve1d; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.convolve1d, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _correlations.convolve1d(_Chunked(input, "convolve1d"), weights, axis, output, mode, cval, origin,
                                    device=device, algorithm=algorithm, layout=layout, dtype=dtype)


def gaussian_filter(input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect",
                    cval: float = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
                    device: str = "auto", algorithm: str = "auto", layout: str | None = None,
                    dtype: Any = None) -> Any:
    """Gaussian filter, or derivatives of it, as warpconv.gaussian_filter, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    sigma : float or sequence of float
        Standard deviation in pixels, for all of ``axes`` or one for each.
    order, output, mode, cval, truncate, radius, axes, device, algorithm, layout, dtype
        As in warpconv.gaussian_filter; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.gaussian_filter, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _filters.gaussian_filter(_Chunked(input, "gaussian_filter"), sigma, order, output, mode, cval, truncate,
                                    radius=radius, axes=axes, device=device, algorithm=algorithm, layout=layout,
                                    dtype=dtype)


def gaussian_filter1d(input: Any, sigma: float, axis: int = -1, order: int = 0, output: Any = None,
                      mode: str = "reflect", cval: float = 0.0, truncate: float = 4.0, *, radius: int | None = None,
                      device: str = "auto", algorithm: str = "auto", layout: str | None = None,
                      dtype: Any = None) -> Any:
    """Gaussian filter along one axis, or a derivative of it, as warpconv.gaussian_filter1d, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    sigma : float
        Standard deviation in pixels, more than 0.
    axis, order, output, mode, cval, truncate, radius, device, algorithm, layout, dtype
        As in warpconv.gaussian_filter1d; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.gaussian_filter1d, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _filters.gaussian_filter1d(_Chunked(input, "gaussian_filter1d"), sigma, axis, order, output, mode, cval,
                                      truncate, radius=radius, device=device, algorithm=algorithm, layout=layout,
                                      dtype=dtype)


def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                   origin: Any = 0, *, axes: Any = None, device: str = "auto", algorithm: str = "auto",
                   layout: str | None = None, dtype: Any = None) -> Any:
    """Mean along ``axes``, as warpconv.uniform_filter, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    size : int or sequence of int
        Pixels that are averaged, for all of ``axes`` or one for each.
    output, mode, cval, origin, axes, device, algorithm, layout, dtype
        As in warpconv.uniform_filter; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.uniform_filter, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _filters.uniform_filter(_Chunked(input, "uniform_filter"), size, output, mode, cval, origin, axes=axes,
                                   device=device, algorithm=algorithm, layout=layout, dtype=dtype)


def uniform_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
                     cval: float = 0.0, origin: int = 0, *, device: str = "auto", algorithm: str = "auto",
                     layout: str | None = None, dtype: Any = None) -> Any:
    """Mean along one axis, as warpconv.uniform_filter1d, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    size : int
        Pixels that are averaged.
    axis, output, mode, cval, origin, device, algorithm, layout, dtype
        As in warpconv.uniform_filter1d; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.uniform_filter1d, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _filters.uniform_filter1d(_Chunked(input, "uniform_filter1d"), size, axis, output, mode, cval, origin,
                                     device=device, algorithm=algorithm, layout=layout, dtype=dtype)


def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
          device: str = "auto", algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Sobel's slope along an axis, as warpconv.sobel, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    axis, output, mode, cval, device, algorithm, layout, dtype
        As in warpconv.sobel; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.sobel, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _derivatives.sobel(_Chunked(input, "sobel"), axis, output, mode, cval, device=device,
                              algorithm=algorithm, layout=layout, dtype=dtype)


def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
            device: str = "auto", algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Prewitt's slope along an axis, as warpconv.prewitt, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    axis, output, mode, cval, device, algorithm, layout, dtype
        As in warpconv.prewitt; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.prewitt, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _derivatives.prewitt(_Chunked(input, "prewitt"), axis, output, mode, cval, device=device,
                                algorithm=algorithm, layout=layout, dtype=dtype)


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *, axes: Any = None,
            device: str = "auto", algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Second derivatives (1, -2, 1) along ``axes``, summed, as warpconv.laplace, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    output, mode, cval, axes, device, algorithm, layout, dtype
        As in warpconv.laplace; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.laplace, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _derivatives.laplace(_Chunked(input, "laplace"), output, mode, cval, axes=axes, device=device,
                                algorithm=algorithm, layout=layout, dtype=dtype)


def gaussian_laplace(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
                     axes: Any = None, truncate: float = 4.0, radius: Any = None, device: str = "auto",
                     algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Second derivatives of a Gaussian along ``axes``, summed, as warpconv.gaussian_laplace, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    sigma : float or sequence of float
        Standard deviation in pixels, for all of ``axes`` or one for each.
    output, mode, cval, axes, truncate, radius, device, algorithm, layout, dtype
        As in warpconv.gaussian_laplace; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.gaussian_laplace, here, and without Dask; UnsupportedSpec and DeviceError when it is computed.
    """
    return _derivatives.gaussian_laplace(_Chunked(input, "gaussian_laplace"), sigma, output, mode, cval, axes=axes,
                                         truncate=truncate, radius=radius, device=device, algorithm=algorithm,
                                         layout=layout, dtype=dtype)


def gaussian_gradient_magnitude(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0, *,
                                axes: Any = None, truncate: float = 4.0, radius: Any = None, device: str = "auto",
                                algorithm: str = "auto", layout: str | None = None, dtype: Any = None) -> Any:
    """Magnitude of a Gaussian's slopes along ``axes``, as warpconv.gaussian_gradient_magnitude, of a Dask array.

    Parameters
    ----------
    input : dask.array.Array
        The image, of any number of axes; element types as in warpconv.correlate.
    sigma : float or sequence of float
        Standard deviation in pixels, for all of ``axes`` or one for each.
    output, mode, cval, axes, truncate, radius, device, algorithm, layout, dtype
        As in warpconv.gaussian_gradient_magnitude; ``output`` an element type.

    Returns
    -------
    dask.array.Array
        Of input's shape, in its chunks, joined where the filter is longer.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError, ToolNotFound
        As warpconv.gaussian_gradient_magnitude, here, and without Dask; UnsupportedSpec and DeviceError when it is
        computed.
    """
    return _derivatives.gaussian_gradient_magnitude(_Chunked(input, "gaussian_gradient_magnitude"), sigma, output,
                                                    mode, cval, axes=axes, truncate=truncate, radius=radius,
                                                    device=device, algorithm=algorithm, layout=layout, dtype=dtype)
