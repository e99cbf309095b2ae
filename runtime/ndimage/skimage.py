"""What warpconv.skimage's calls do: images as numbers from 0 to 1, slopes and magnitudes in scikit-image's measure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError

from . import converted, recipes
from .arguments import axes_of, each, sequence
from .derivatives import ROOT, SQUARED
from .filters import gaussian_lines
from .lines import Line, Pass, identity, line_of, of_lines, scaled
from .planes import Image
from .recipes import Planned
from .work import Extras, Passes

DIAGONALS = (((-1.0, 0.0), (0.0, 1.0)), ((0.0, -1.0), (1.0, 0.0)))      # Roberts', turned round for a correlation
_LARGEST = {"uint8": 2**8 - 1, "int8": 2**7 - 1, "uint16": 2**16 - 1, "int16": 2**15 - 1, "uint32": 2**32 - 1,
            "int32": 2**31 - 1, "uint64": 2**64 - 1, "int64": 2**63 - 1}


class Source:
    """An image on its way to floats: what its values are multiplied by, and whether they are limited from below."""

    def __init__(self, image: Image, scale: float, limited: bool):
        self.image, self.scale, self.limited = image, scale, limited

    def gaussian(self, sigma: Any, channel_axis: Any, mode: Any, cval: Any, truncate: Any, name: str) -> list[Line]:
        """A Gaussian along all axes but that of channels."""
        rank = self.image.rank
        apart = () if channel_axis is None else axes_of(rank, channel_axis, None)
        chosen = [axis for axis in range(rank) if axis not in apart]
        values = sequence(sigma)
        if values is not None and len(values) == rank and apart:
            chosen = list(range(rank))      # one for the channels, too, as scikit-image takes it
        if values is not None and len(values) == 1:
            sigma = values[0]
        return gaussian_lines(chosen, each(sigma, len(chosen), name), 0, mode, cval, truncate)

    def term(self, lines: list[Line], factor: float = 1.0, *steps: str) -> list[Pass]:
        """Lines over the converted image, one over the other's result, times ``factor``."""
        image, scale, first = self.image, self.scale, []
        if self.limited:        # the least of a signed type lies below -1
            first = [identity(image.rank, scale).then("expr(max(v, -1.0))")]
            scale = 1.0
        if not lines:
            made = [identity(image.rank, scale * factor)]
        else:
            lines = [scaled(lines[0], scale, outside=1 / scale), *lines[1:]]
            made = of_lines([*lines[:-1], scaled(lines[-1], factor)], image, DType.FLOAT32)
            made = made or [identity(image.rank, scale * factor)]
        return [*first, *made[:-1], made[-1].then(*steps)]


def run(plan: Callable[[Source], Passes], image: Any, told: tuple[Any, ...], extras: Extras, dtype: Any,
        scales: bool = True, out: Any = None) -> Any:
    """A plan over an image as float32. ``told``: what the plan follows from; ``scales``: as img_as_float does."""
    given = type_of(image, dtype)
    if dtype is None and given in ("float16", "bfloat16"):
        dtype = "float32"       # weights are of the input's type
    scale = 1 / _LARGEST[given] if scales and given in _LARGEST else 1.0
    limited = scale != 1.0 and given.startswith("int")
    output = ("float64" if given == "float64" else "float32") if out is None else out

    def passes_of(seen: Image) -> Passes:
        return plan(Source(seen, scale, limited))

    return recipes.call(Planned(passes_of, *told, scale, limited), image, output, (), extras, dtype)


def type_of(image: Any, dtype: Any) -> str:
    """The name of the image's element type. Raises ArgumentTypeError."""
    return Image.of(image).view.dtype.value if dtype is None else converted.type_of(image, "image")


def slopes(image: Any, axis: Any, smooth: tuple[float, ...], edge: tuple[float, ...], mode: Any, cval: Any,
           extras: Extras, dtype: Any) -> Any:
    """A slope along an axis, smoothed along all others, or the root of the mean square of several."""
    def plan(source: Source) -> Passes:
        rank = source.image.rank
        modes, chosen = each(mode, rank, "mode"), axes_of(rank, axis, None)
        terms = []
        several = len(chosen) > 1
        for along in chosen:    # outside of the slopes is nothing: the filter's sum is 0, whatever stands there
            lines = [line_of(np.array(edge), along, modes[along], cval)]
            lines += [line_of(np.array(smooth), other, modes[other], 0.0) for other in range(rank) if other != along]
            terms.append(source.term(lines, 1 / math.sqrt(rank), SQUARED) if several else source.term(lines))
        return Passes(terms or [source.term([], 0.0)], (ROOT,) if several else ())

    return run(plan, image, ("slopes", plain(axis), smooth, edge, plain(mode), cval), extras, dtype)


def diagonals_of(image: Any, diagonals: tuple[tuple[tuple[float, ...], ...], ...], extras: Extras,
                 dtype: Any) -> Any:
    """Roberts' slope along one diagonal, or the magnitude of both, of (H, W)."""
    def plan(source: Source) -> Passes:
        terms, several = [], len(diagonals) > 1
        for taps in diagonals:
            before = source.term([])[:-1]
            weights = np.array(taps) * (1.0 if before else source.scale) * (math.sqrt(0.5) if several else 1.0)
            one = Pass(weights, (0, 1), (-1, -1), Border.SYMMETRIC, 0.0)
            terms.append([*before, one.then(SQUARED) if several else one])
        return Passes(terms, (ROOT,) if several else ())

    return run(plan, image, ("roberts", diagonals), extras, dtype)


def no_mask(mask: Any) -> None:
    """Raises ArgumentError for a mask."""
    if mask is not None:
        raise ArgumentError("masks are not served", argument="mask", value=type(mask).__name__,
                            hint="multiply the result by the mask that scipy.ndimage.binary_erosion makes with ones of "
                                 "3 along each axis")


def negative(image: Any, dtype: Any) -> bool:
    """Whether an image has negative values; unsigned ones are not read."""
    given = type_of(image, dtype)
    if given.startswith("u") or given == "bool":
        return False
    if not callable(getattr(image, "any", None)):
        raise ArgumentTypeError("arrays of this library cannot be looked at", argument="image",
                                value=type(image).__name__, hint="preserve_range=True")
    return bool((image < 0).any())


def plain(value: Any) -> Any:
    """An argument as part of a key."""
    values = sequence(value)
    return (type(value).__name__, repr(value)) if values is None else tuple(map(repr, values))
