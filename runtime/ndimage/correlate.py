"""correlate and convolve in SciPy's terms: scipy.ndimage's calls over the last two axes, and along one axis.

Signatures and results are scipy.ndimage's; docs/ndimage.md has the differences. In all of them

- ``input`` is a NumPy, CuPy or PyCUDA array, a PyTorch tensor, or anything with DLPack or
  ``__cuda_array_interface__``, of uint8, int8, uint16, int16, float32, float16 or bfloat16, contiguous or not;
- ``output`` is an array of input's shape in the same memory (it may be the input), an element type, or None, which is
  input's type: uint8, int8, uint16, int16, float32 or float16, int32 too where integers are filtered at once. Values
  become integers as in SciPy: rounded to zero, then modulo 2^bits;
- ``mode`` and ``cval`` say what stands outside of the image: 'reflect' (d c b a | a b c d | d c b a), 'constant'
  (``cval``, finite), 'nearest' (a a | a b c d | d d), 'mirror' (d c b | a b c d | c b a), 'wrap' (a b c d | a b c d |
  a b c d), and SciPy's 'grid-' names of them;
- ``origin`` shifts the filter: -(size // 2) to (size - 1) // 2, where a positive one moves it to the left;
- ``device``, ``stream`` and ``algorithm`` are those of warpconv.conv2d. ``layout='NHWC'`` says that the last axis is
  the channels and the two before it are the image; 'NCHW' that the last two are the image. Every plane is filtered;
- integers and weights that are whole numbers are computed exactly in int32 (in float32 where that could overflow),
  all else in float32.

They return the output: the given array, or a new one of input's library. They raise ShapeError, ArgumentError,
ArgumentTypeError, UnsupportedSpec or DeviceError before anything is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import INTEGER_WEIGHTS

from warpconv.runtime import arrays
from . import passes, planes
from warpconv.runtime.arrays import ArrayKind
from .passes import Extras, Line, Pass
from .planes import Image, Target


def correlate(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: Any = 0,
              *, axes: Any = None, device: str = "auto", stream: Any = None, algorithm: str = "auto",
              layout: str = "NCHW") -> Any:
    """Correlation of every plane with ``weights``, as scipy.ndimage.correlate.

    ``input`` (..., H, W). ``weights`` (R, S), or of input's rank with 1 in front of (R, S): numbers in host memory
    (lists too), or an array on input's GPU, which is not read before the kernel reads it and so must be of input's
    type (of float32, int8, int16 or int32 for integers). ``origin`` is one number or one for each axis of the image
    (or of the input: 0 for the others). ``axes`` may name the image's axes. See the module for the rest.
    """
    extras = Extras(device, stream, algorithm)
    return _two_axes(input, weights, output, mode, cval, origin, axes, extras, layout, flip=False)


def convolve(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: Any = 0,
             *, axes: Any = None, device: str = "auto", stream: Any = None, algorithm: str = "auto",
             layout: str = "NCHW") -> Any:
    """Convolution of every plane with ``weights``, as scipy.ndimage.convolve: correlate with the weights turned round,
    the origin too. Arguments as correlate's; weights on a GPU must be PyTorch's or CuPy's."""
    extras = Extras(device, stream, algorithm)
    return _two_axes(input, weights, output, mode, cval, origin, axes, extras, layout, flip=True)


def correlate1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
                origin: int = 0, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
                layout: str = "NCHW") -> Any:
    """Correlation along one axis, as scipy.ndimage.correlate1d: ``input`` of any rank from 1, ``weights`` (S,) in host
    memory, ``axis`` any of input's. See the module for the rest."""
    image = Image.of(input, layout, 1)
    line = line_of(image, taps_of(weights, 1), image.axis(axis), mode, cval, origin)
    return passes.run(image, [Pass.along(line, image)], Target.of(output, image), Extras(device, stream, algorithm))


def convolve1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
               origin: int = 0, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
               layout: str = "NCHW") -> Any:
    """Convolution along one axis, as scipy.ndimage.convolve1d: correlate1d with weights and origin turned round."""
    taps = taps_of(weights, 1)[::-1]
    return correlate1d(input, taps, axis, output, mode, cval, _turned(origin, len(taps)), device=device, stream=stream,
                       algorithm=algorithm, layout=layout)


def taps_of(weights: Any, rank: int | None = None) -> np.ndarray:
    """Weights in host memory as float64. Raises ArgumentTypeError or ShapeError."""
    try:
        made = np.asarray(weights)
        if made.dtype.kind not in "biuf" and made.dtype.name != "bfloat16":
            raise TypeError
        made = made.astype(np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentTypeError("weights must be real numbers in host memory", argument="weights",
                                value=type(weights).__name__, hint="a list or a NumPy array of real numbers") from None
    if not made.size or (rank is not None and made.ndim != rank):
        raise ShapeError(f"weights must have {rank or 2} axes and an element", argument="weights", value=made.shape,
                         hint="for instance [1, 2, 1]" if rank == 1 else "for instance [[0, 1, 0], [1, 1, 1]]")
    return made


def line_of(image: Image, taps: np.ndarray, axis: int, mode: Any, cval: Any, origin: Any, divisor: int = 1) -> Line:
    """A 1D filter along an axis (counted from the first), its arguments checked."""
    return Line(taps, axis, passes.check_origin(origin, len(taps)), *passes.border_of(mode, cval), divisor)


def _two_axes(input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any, extras: Extras,
              layout: str, *, flip: bool) -> Any:
    image = Image.of(input, layout)
    _check_axes(image, axes)
    on_gpu = planes.on_gpu(weights)
    taps = _gpu_taps(weights, image, flip) if on_gpu else _planar(taps_of(weights), image)
    if flip and not on_gpu:
        taps = taps[::-1, ::-1]
    given = _origins(origin, image)
    origins = tuple(passes.check_origin(_turned(o, size) if flip else o, size) for o, size in zip(given, taps.shape))
    return passes.run(image, [Pass(taps, origins, *passes.border_of(mode, cval))], Target.of(output, image), extras)


def _turned(origin: Any, size: int) -> Any:
    """The origin of a filter that is turned round: one of even size has its centre right of the middle."""
    return -origin - (size % 2 == 0) if isinstance(origin, (int, np.integer)) else origin


def _check_axes(image: Image, axes: Any) -> None:
    if axes is None:
        return
    given = tuple(image.axis(axis, "axes") for axis in (axes if isinstance(axes, (tuple, list)) else (axes,)))
    if given != image.axes:
        raise ArgumentError("only the axes of the image are filtered", argument="axes", value=axes,
                            hint=f"{image.axes}; numpy.moveaxis(input, ...) brings others there, correlate1d takes any")


def _planar(taps: np.ndarray, image: Image) -> np.ndarray:
    """Weights (R, S), or of the input's rank with 1 along the other axes, as (R, S)."""
    rest = [size for axis, size in enumerate(taps.shape) if axis not in image.axes]
    if taps.ndim == 2:
        return taps
    if taps.ndim != image.rank or any(size != 1 for size in rest):
        raise ShapeError("weights do not fit the image", argument="weights", value=taps.shape,
                         hint=f"(R, S), or {image.rank} axes of which all but {image.axes} are 1")
    return taps.reshape([taps.shape[axis] for axis in image.axes])


def _origins(origin: Any, image: Image) -> tuple[Any, Any]:
    """The origin along rows' and columns' axes."""
    if not isinstance(origin, (tuple, list, np.ndarray)):
        return origin, origin
    if len(origin) == image.rank:
        others = [o for axis, o in enumerate(origin) if axis not in image.axes and o != 0]
        if not others:
            return tuple(origin[axis] for axis in image.axes)
    elif len(origin) == 2:
        return tuple(origin)
    raise ArgumentError("origin must be one number, or one for each axis of the image", argument="origin", value=origin,
                        hint="for instance 0 or (0, 1)")


def _gpu_taps(weights: Any, image: Image, flip: bool) -> Any:
    """Weights on the input's GPU, (R, S), turned round for a convolution by their own library."""
    allowed = (image.view.dtype,) if image.view.dtype.is_float else (DType.FLOAT32, *INTEGER_WEIGHTS)
    view = arrays.view(weights, "weights", dtypes=allowed, ndim=2)
    if view.device != image.view.device:
        raise ArgumentTypeError("input and weights are not in one place", argument="weights",
                                hint="move both to one device, or give weights in host memory")
    if view.kind not in (ArrayKind.TORCH, ArrayKind.CUPY):
        raise ArgumentTypeError("weights on a GPU must be PyTorch's or CuPy's", argument="weights",
                                value=type(weights).__name__, hint="give them in host memory")
    if not flip:
        return weights
    return weights.flip(0, 1) if view.kind is ArrayKind.TORCH else weights[::-1, ::-1]
