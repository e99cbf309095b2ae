"""correlate and convolve in SciPy's terms: scipy.ndimage's calls over any axes, and along one.

Signatures and results are scipy.ndimage's; docs/ndimage.md has the differences. In all of them

- ``input`` is a NumPy, CuPy or PyCUDA array, a PyTorch tensor, or anything with DLPack or
  ``__cuda_array_interface__``, of uint8, int8, uint16, int16, float32, float16 or bfloat16, contiguous or not; or a
  list of such images of differing sizes, all of one type in one place (docs/batches.md): then ``output`` is None, a
  type or a list of arrays, and the result a list;
- ``output`` is an array of input's shape in the same memory (it may be the input), an element type, or None, which is
  input's type: uint8, int8, uint16, int16, float32 or float16, int32 too where integers are filtered at once. Values
  become integers as in SciPy: rounded to zero, then modulo 2^bits;
- ``mode`` and ``cval`` say what stands outside of the image: 'reflect' (d c b a | a b c d | d c b a), 'constant'
  (``cval``, finite), 'nearest' (a a | a b c d | d d), 'mirror' (d c b | a b c d | c b a), 'wrap' (a b c d | a b c d |
  a b c d), and SciPy's 'grid-' names of them;
- ``origin`` shifts the filter: -(size // 2) to (size - 1) // 2, where a positive one moves it to the left;
- ``device``, ``stream`` and ``algorithm`` are those of warpconv.conv2d;
- ``layout`` names the axes of an image in a stack, where ``axes`` does not: 'NCHW' the last two, 'NHWC' the two before
  the last. None: all axes are filtered, as in SciPy;
- ``dtype`` is the type that the input is filtered as, None its own: with it input and output may have any real type,
  and are converted by their library. Output None remains input's own type;
- integers and weights that are whole numbers are computed exactly in int32 (in float32 where that could overflow),
  all else in float32.

They return the output: the given array, or a new one of input's library. They raise ShapeError, ArgumentError,
ArgumentTypeError, UnsupportedSpec or DeviceError before anything is written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import INTEGER_WEIGHTS
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind
from warpconv.runtime.call.watched import uncompiled

from . import batches, planes, recipes
from .arguments import axes_of, axis_of, sequence
from .lines import EXACT_IN_FLOAT32, MOST_CHANNELS, Pass, border_of, check_origin, exact, line_of, moved
from .planes import Image
from .work import Extras, Passes

MOST_PLANES = 1024      # that a filter of more than two axes may have


@uncompiled
def correlate(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: Any = 0,
              *, axes: Any = None, device: str = "auto", stream: Any = None, algorithm: str = "auto",
              layout: str | None = None, dtype: Any = None) -> Any:
    """Correlation with ``weights``, as scipy.ndimage.correlate.

    Parameters
    ----------
    input : array
        The image, of any number of axes: a NumPy, CuPy or PyCUDA array, a PyTorch tensor, or anything with DLPack or
        ``__cuda_array_interface__``, of uint8, int8, uint16, int16, float32, float16 or bfloat16, contiguous or not.
        Or a list of images of differing sizes, alike in all else: one launch for all (docs/batches.md).
    weights : array of real numbers
        An axis for each of ``axes``, in the input's order, or for each of the input's. One that is longer than 1 along
        more than three axes, or three with others between, is done plane by plane.
        In host memory (lists too), or an array on input's GPU, which is not read before the kernel reads it and so must
        be of input's type (of float32, int8, int16 or int32 for integers). For a list of images also a list of NumPy
        arrays, one for each.
    output : array or element type, optional
        Where the result goes, of input's shape in the same memory (it may be the input), or its type; else a new one.
        For a list of images a list of arrays, or a type.
    mode : str
        What stands outside of the image: 'reflect', 'constant', 'nearest', 'mirror', 'wrap', or SciPy's 'grid-' names.
    cval : float
        The value of 'constant', in the input's units; finite.
    origin : int or sequence of int
        Shifts the filter, in pixels, along all axes or one for each of ``axes``: -(size // 2) to (size - 1) // 2.
    axes : int or sequence of int, optional
        The axes to filter along; all of input's if None.
    device : str
        'auto' (where the arrays are; NumPy goes to a GPU if one is usable), 'cpu', 'cuda' or 'cuda:1'.
    stream : stream of input's library or int, optional
        Where the work is queued; the stream that input's library is on if None.
    algorithm : str
        'auto', or the name of one.
    layout : str, optional
        The axes of an image in a stack, without ``axes``: 'NCHW' the last two, 'NHWC' the two before the last.
    dtype : element type, optional
        What the input is filtered as, converted by its library (NumPy, PyTorch, CuPy): then it may be bool, float64 or
        any integer, and so may the output, None being the input's type as ever. 'float32' for most.

    Returns
    -------
    array
        ``output``, or a new array of input's shape and library; of a list of images a list of these. Values become
        integers as in SciPy: rounded to zero, then modulo 2^bits. Integers and weights that are whole numbers are
        computed exactly.

    Raises
    ------
    ShapeError
        Weights do not fit the image, or have planes that no kernel takes.
    ArgumentError, ArgumentTypeError
        A value, an element type or an array that the call does not take.
    UnsupportedSpec
        No algorithm, or not the named one, serves the layer.
    DeviceError
        The device cannot be used. All of these come before anything is written.
    """
    return _correlated(input, weights, output, (mode, cval, origin, axes, layout, False),
                       Extras(device, stream, algorithm), dtype)


@uncompiled
def convolve(input: Any, weights: Any, output: Any = None, mode: str = "reflect", cval: float = 0.0, origin: Any = 0,
             *, axes: Any = None, device: str = "auto", stream: Any = None, algorithm: str = "auto",
             layout: str | None = None, dtype: Any = None) -> Any:
    """Convolution with ``weights``, as scipy.ndimage.convolve: correlate with the weights turned round, the origin too.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    weights : array of real numbers
        As in correlate; on a GPU they must be PyTorch's or CuPy's.
    origin, axes
        As in correlate.
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
    return _correlated(input, weights, output, (mode, cval, origin, axes, layout, True),
                       Extras(device, stream, algorithm), dtype)


@uncompiled
def correlate1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
                origin: int = 0, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
                layout: str | None = None, dtype: Any = None) -> Any:
    """Correlation along one axis, as scipy.ndimage.correlate1d.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    weights : array of real numbers, (S,)
        In host memory (a list, too).
    axis : int
        The axis of input to filter along.
    origin : int
        Shifts the filter, in pixels: -(S // 2) to (S - 1) // 2.
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
    arguments = taps_of(weights, 1), axis, mode, cval, origin, layout, False
    return recipes.call(_along_one, input, output, arguments, Extras(device, stream, algorithm), dtype)


@uncompiled
def convolve1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: float = 0.0,
               origin: int = 0, *, device: str = "auto", stream: Any = None, algorithm: str = "auto",
               layout: str | None = None, dtype: Any = None) -> Any:
    """Convolution along one axis, as scipy.ndimage.convolve1d: correlate1d with weights and origin turned round.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    weights : array of real numbers, (S,)
        In host memory (a list, too).
    axis : int
        The axis of input to filter along.
    origin : int
        Shifts the filter, in pixels: -(S // 2) to (S - 1) // 2.
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
    arguments = taps_of(weights, 1), axis, mode, cval, origin, layout, True
    return recipes.call(_along_one, input, output, arguments, Extras(device, stream, algorithm), dtype)


def _correlated(input: Any, weights: Any, output: Any, arguments: tuple[Any, ...], extras: Extras, dtype: Any) -> Any:
    def call(image: Any, given: Any, written: Any) -> Any:
        return recipes.call(_correlation, image, written, (given, *arguments), extras, dtype)

    if isinstance(input, (list, tuple)):
        if batches.for_each(input, weights, arguments[3]):
            return batches.by_size(call, input, weights, output, taps_of, dtype, extras.stream)
        if planes.on_gpu(weights) or any(map(planes.on_gpu, weights if isinstance(weights, (list, tuple)) else ())):
            raise ArgumentTypeError("the filters of a list of images are in host memory", argument="weights",
                                    value=type(weights).__name__, hint="give lists or NumPy arrays")
    return call(input, weights if planes.on_gpu(weights) else taps_of(weights), output)


def taps_of(weights: Any, rank: int | None = None) -> np.ndarray:
    """Weights in host memory as float64, of their own memory. Raises ArgumentTypeError or ShapeError."""
    if isinstance(weights, np.ma.MaskedArray):
        raise ArgumentTypeError("masked arrays are not taken, since the mask would be lost", argument="weights",
                                value=type(weights).__name__, hint="use .filled(...)")
    try:
        made = np.asarray(weights)
        if made.dtype.kind not in "biuf" and made.dtype.name != "bfloat16":
            raise TypeError
        made = made.astype(np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentTypeError("weights must be real numbers in host memory", argument="weights",
                                value=type(weights).__name__, hint="a list or a NumPy array of real numbers") from None
    if not made.size or not made.ndim or (rank is not None and made.ndim != rank):
        raise ShapeError(f"weights must have {'an axis' if rank is None else f'{rank} axes'} and an element",
                         argument="weights", value=made.shape,
                         hint="for instance [1, 2, 1]" if rank == 1 else "for instance [[0, 1, 0], [1, 1, 1]]")
    return made


def _along_one(image: Image, dtype: DType, taps: np.ndarray, axis: Any, mode: Any, cval: Any, origin: Any, layout: Any,
               flip: bool) -> Passes:
    axes_of(image.rank, None, layout)
    taps, origin = (taps[::-1], _turned(check_origin(origin, len(taps)), len(taps))) if flip else (taps, origin)
    return Passes.chain([Pass.along(line_of(taps, axis_of(image.rank, axis), mode, cval, origin))])


def _correlation(image: Image, dtype: DType, weights: Any, mode: Any, cval: Any, origin: Any, axes: Any, layout: Any,
                 flip: bool) -> Passes:
    chosen = axes_of(image.rank, axes, layout)
    if not isinstance(weights, np.ndarray):
        weights = _on_gpu(weights, image, flip)
    elif flip:
        weights = weights[(slice(None, None, -1),) * weights.ndim]
    sizes = _sizes(tuple(weights.shape), chosen, image.rank)
    given = _origins(origin, chosen, image.rank, layout)
    origins = [check_origin(o, size) for o, size in zip(given, sizes)]
    if flip:
        origins = [_turned(o, size) for o, size in zip(origins, sizes)]
    along = tuple(axis for axis, size in enumerate(sizes) if size > 1) or (image.rank - 1,)
    border = border_of(mode, cval)
    if len(along) > 3 or len(along) == 3 and not planes.adjacent(image.shape, along):
        return _of_planes(image, dtype, weights, along, sizes, origins, border)
    taps = weights.reshape(tuple(sizes[axis] for axis in along))
    return Passes.chain([Pass(taps, along, tuple(origins[axis] for axis in along), *border)])


def _of_planes(image: Image, dtype: DType, weights: Any, along: tuple[int, ...], sizes: tuple[int, ...],
               origins: list[int], border: tuple[Border, float]) -> Passes:
    """A filter of more than two axes as the sum of its planes, each over the image moved along the other axes. Raises
    ShapeError or ArgumentError."""
    pair = max((pair for pair in zip(along, along[1:]) if planes.adjacent(image.shape, pair)
                and planes.seen(image.shape, pair).channels <= MOST_CHANNELS), default=None,
               key=lambda pair: (image.shape[pair[0]] * image.shape[pair[1]], pair))
    others = tuple(axis for axis in along if pair is None or axis not in pair)
    if pair is None or not isinstance(weights, np.ndarray) or math.prod(sizes[axis] for axis in others) > MOST_PLANES:
        raise ShapeError("this filter of more than two axes is not served", argument="weights", value=sizes,
                         hint=f"two of its axes side by side, up to {MOST_PLANES} planes of them, in host memory; "
                              "gaussian_filter, uniform_filter, sobel and laplace take any axes")
    whole = Pass(weights.reshape(-1), (0,), (0,), *border)
    if dtype.is_integer and exact(whole, image.view.dtype) and not exact(whole, image.view.dtype, EXACT_IN_FLOAT32):
        raise ArgumentError("sums of so large whole numbers are not exact in float32", argument="weights",
                            value=float(np.abs(weights).sum()), hint="output='float32'")
    full, terms = weights.reshape(sizes), []
    for index in np.ndindex(*(sizes[axis] for axis in others)):
        at = dict(zip(others, index))
        taps = full[tuple(at.get(axis, slice(None) if axis in pair else 0) for axis in range(image.rank))]
        if taps.any() or not terms:
            distances = {axis: i - sizes[axis] // 2 - origins[axis] for axis, i in at.items()}
            terms.append([*(moved(axis, far, *border) for axis, far in distances.items() if far),
                          Pass(taps, pair, (origins[pair[0]], origins[pair[1]]), *border)])
    return Passes(terms, late=True)


def _turned(origin: int, size: int) -> int:
    """The origin of a filter that is turned round: one of even size has its centre right of the middle."""
    return -origin - (size % 2 == 0)


def _sizes(given: tuple[int, ...], axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """How long weights are along each of the input's axes. Raises ShapeError."""
    if len(given) == len(axes):
        rest = dict(zip(sorted(axes), given))
        return tuple(rest.get(axis, 1) for axis in range(rank))
    if len(given) != rank or any(size != 1 for axis, size in enumerate(given) if axis not in axes):
        of = f"an axis for each of {axes}, or {rank} axes of which all others are 1" if len(axes) < rank else (
            f"{rank} axes, or as many as axes= names (axes=(-2, -1) for the last two)")
        raise ShapeError("weights do not fit the image", argument="weights", value=given, hint=of)
    return given


def _origins(origin: Any, axes: tuple[int, ...], rank: int, layout: Any) -> list[Any]:
    """The origin along each of the input's axes."""
    values = sequence(origin)
    if values is None:
        return [origin if axis in axes else 0 for axis in range(rank)]
    if len(values) == len(axes):        # SciPy goes by the input's order where all axes are named
        named = dict(zip(axes if len(axes) < rank else range(rank), values))
        return [named.get(axis, 0) for axis in range(rank)]
    if layout is not None and len(values) == rank and not any(values[axis] for axis in range(rank) if axis not in axes):
        return values
    raise ArgumentError("origin must be one number, or one for each axis that is filtered", argument="origin",
                        value=origin, hint="for instance 0 or (0, 1)")


def _on_gpu(weights: Any, image: Image, flip: bool) -> Any:
    """Weights on the input's GPU, turned round for a convolution by their own library."""
    allowed = (image.view.dtype,) if image.view.dtype.is_float else (DType.FLOAT32, *INTEGER_WEIGHTS)
    view = arrays.view(weights, "weights", dtypes=allowed)
    if view.device != image.view.device:
        raise ArgumentTypeError("input and weights are not in one place", argument="weights",
                                hint="move both to one device, or give weights in host memory")
    if view.kind not in (ArrayKind.TORCH, ArrayKind.CUPY):
        raise ArgumentTypeError("weights on a GPU must be PyTorch's or CuPy's", argument="weights",
                                value=type(weights).__name__, hint="give them in host memory")
    if not view.shape or 0 in view.shape:
        raise ShapeError("weights must have an axis and an element", argument="weights", value=view.shape,
                         hint="for instance (3, 3)")
    if not flip:
        return weights
    every = tuple(range(len(view.shape)))
    return weights.flip(every) if view.kind is ArrayKind.TORCH else weights[tuple(slice(None, None, -1) for _ in every)]
