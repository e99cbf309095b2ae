"""Derivatives by a caller's function in SciPy's terms: scipy.ndimage's generic_laplace and generic_gradient_magnitude.

What ``input``, ``output``, ``mode``, ``cval``, ``device``, ``stream``, ``algorithm``, ``layout``, ``dtype`` and the
result are stands in warpconv.runtime.ndimage.correlate; how terms are added in warpconv.runtime.ndimage.derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentTypeError, ShapeError
from warpconv.runtime.call.watched import uncompiled

from . import converted
from .arguments import axes_of, each
from .derivatives import ROOT, SQUARED, check_squares
from .lines import check_between, identity
from .planes import Image
from .target import Target
from .work import Extras, Passes, Work


@uncompiled
def generic_laplace(input: Any, derivative2: Callable[..., Any], output: Any = None, mode: Any = "reflect",
                    cval: float = 0.0, extra_arguments: Sequence[Any] = (),
                    extra_keywords: Mapping[str, Any] | None = None, *, axes: Any = None,
                    device: str = "auto", stream: Any = None, algorithm: str = "auto",
                    layout: str | None = None, dtype: Any = None) -> Any:
    """Second derivatives of a function's along ``axes``, summed, as scipy.ndimage.generic_laplace.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    derivative2 : callable
        ``derivative2(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` writes the second
        derivative along ``axis`` to the array ``output``, or returns another of its shape and type; all are of input's
        library. warpconv's own functions are also given device, stream, algorithm and layout.
    extra_arguments : sequence, optional
        Further arguments of ``derivative2``.
    extra_keywords : mapping, optional
        Further arguments by name.
    axes : int or sequence of int, optional
        The axes to derive along; all of input's if None.
    mode : str or sequence of str
        As in correlate, for all of ``axes`` or one for each.
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
    told = _Generic(derivative2, "derivative2", False, _extra(extra_arguments), dict(extra_keywords or {}), mode,
                    cval, axes, layout, Extras(device, stream, algorithm))
    return told.once(input, output) if dtype is None else converted.call(told.once, input, output, dtype, stream)


@uncompiled
def generic_gradient_magnitude(input: Any, derivative: Callable[..., Any], output: Any = None, mode: Any = "reflect",
                               cval: float = 0.0, extra_arguments: Sequence[Any] = (),
                               extra_keywords: Mapping[str, Any] | None = None, *, axes: Any = None,
                               device: str = "auto", stream: Any = None, algorithm: str = "auto",
                               layout: str | None = None, dtype: Any = None) -> Any:
    """Magnitude of a function's slopes along ``axes``, as scipy.ndimage.generic_gradient_magnitude.

    Parameters
    ----------
    input : array
        The image: any number of axes, types as in correlate.
    derivative : callable
        ``derivative(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` writes the slope along
        ``axis`` to the array ``output``, or returns another of its shape and type; all are of input's library.
        warpconv's own functions are also given device, stream, algorithm and layout.
    extra_arguments : sequence, optional
        Further arguments of ``derivative``.
    extra_keywords : mapping, optional
        Further arguments by name.
    axes : int or sequence of int, optional
        The axes to derive along; all of input's if None.
    mode : str or sequence of str
        As in correlate, for all of ``axes`` or one for each.
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
    told = _Generic(derivative, "derivative", True, _extra(extra_arguments), dict(extra_keywords or {}), mode,
                    cval, axes, layout, Extras(device, stream, algorithm))
    return told.once(input, output) if dtype is None else converted.call(told.once, input, output, dtype, stream)


def _extra(arguments: Any) -> tuple[Any, ...]:
    if not isinstance(arguments, (tuple, list)):
        raise ArgumentTypeError("further arguments are a sequence", argument="extra_arguments",
                                value=type(arguments).__name__, hint="(value,)")
    return tuple(arguments)


class _Generic:
    """A derivative by a caller's function along each axis, added up, or the root of the sum of their squares."""

    def __init__(self, derivative: Any, name: str, square: bool, arguments: tuple[Any, ...], keywords: dict[str, Any],
                 mode: Any, cval: Any, axes: Any, layout: Any, extras: Extras):
        if not callable(derivative):
            raise ArgumentTypeError("this is no function", argument=name, value=derivative,
                                    hint="for instance warpconv.sobel")
        if str(getattr(derivative, "__module__", None)).startswith(f"{__package__}."):
            keywords = {**extras._asdict(), **({} if layout is None else {"layout": layout}), **keywords}
        self._derivative, self._name, self._square = derivative, name, square
        self._arguments, self._keywords = arguments, keywords
        self._mode, self._cval, self._axes, self._layout, self._extras = mode, cval, axes, layout, extras

    def once(self, input: Any, output: Any, whole: bool = False) -> Any:
        image = Image.of(input)
        target = Target.of(output, image, whole)
        chosen = axes_of(image.rank, self._axes, self._layout)
        modes = each(self._mode, len(chosen), "mode")
        work = Work(image, target, self._extras)
        if not chosen or 0 in image.shape:
            return work.do(Passes.chain([]))
        if self._square:
            check_squares(target.planned)
        if target.planned is DType.INT32:
            check_between(target.planned, None)
        one, total = identity(image.rank).then(*((SQUARED,) if self._square else ())), None
        for axis, mode in zip(chosen[:-1], modes):
            total = work.term([one], work.sums, total, source=self._derived(work, axis, mode))
        at = self._derived(work, chosen[-1], modes[-1])
        return work.total([one], total, (ROOT,) if self._square else (), source=at)

    def _derived(self, work: Work, axis: int, mode: Any) -> int:
        """The number of the array that has the derivative along an axis. Raises ShapeError, ArgumentTypeError."""
        at = work.room(work.sums)
        image, out = work.images[0], work.images[at]
        made = self._derivative(image.array, axis, out.array, mode, self._cval, *self._arguments, **self._keywords)
        if made is None or made is out.array:
            return at
        given = Image.of(made).view
        if given.shape != image.shape:
            raise ShapeError("the function gives an array of another shape", argument=self._name, value=given.shape,
                             hint=f"{image.shape}, or to write to output")
        if given.dtype is not out.view.dtype or given.device != out.view.device:
            raise ArgumentTypeError("the function gives an array of another type, or in another place",
                                    argument=self._name, value=given.dtype.value,
                                    hint=f"{out.view.dtype.value} as output is, or to write to output")
        return work.add(made)
