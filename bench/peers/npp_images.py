"""NPP's filters of 8- and 16-bit and float32 planes, with and without a border, and its Gaussian of a fixed size."""

from __future__ import annotations

from ctypes import c_int, c_void_p
from dataclasses import dataclass
from typing import Any

from bench.devices import NoDevice
from warpconv.codegen.dtypes import DType

from .npp import REPLICATE, Point, Size, answered, function

# NppiMaskSize of nppdefs.h
MASKS = {3: 200, 5: 201, 7: 400, 9: 500, 11: 600, 13: 700, 15: 800}
_TYPES = {DType.UINT8: "8u", DType.UINT16: "16u", DType.FLOAT32: "32f"}
_IMAGE, _BORDERED = (c_void_p, c_int), (c_void_p, c_int, Size, Point)


@dataclass(frozen=True)
class Filter:
    """One of NPP's general filters on a dense plane: ``border`` replicates edges, else outputs whose window leaves the
    image are not made. Integer weights (int32 in memory) are summed in integers and divided by 1."""

    function: Any
    name: str
    border: bool
    integer: bool

    @classmethod
    def of(cls, dtype: DType, out: DType, *, border: bool, integer: bool) -> Filter:
        """Raises NoDevice where NPP has none for these types."""
        if dtype is not out or dtype not in _TYPES:
            raise NoDevice(f"NPP has no filter from {dtype.value} to {out.value}")
        floats = "32f" if dtype.is_integer and not integer else ""
        name = f"nppiFilter{'Border' if border else ''}{floats}_{_TYPES[dtype]}_C1R_Ctx"
        types = (*(_BORDERED if border else _IMAGE), *_IMAGE, Size, c_void_p, Size, Point)
        types += ((c_int,) if integer else ()) + ((c_int,) if border else ())
        return cls(function(name, *types), name, border, integer)

    def __call__(self, context: Any, source: int, target: int, taps: int, height: int, width: int,
                 filter_size: tuple[int, int], itemsize: int) -> None:
        """Filter one plane; ``taps`` is device memory, last coefficient first."""
        (r, s), step = filter_size, width * itemsize
        kernel = (taps, Size(s, r), Point(s // 2, r // 2), *((1,) if self.integer else ()))
        if self.border:
            whole = Size(width, height)
            answered(self.function(source, step, whole, Point(0, 0), target, step, whole, *kernel, REPLICATE, context))
            return
        first = (r // 2 * width + s // 2) * itemsize        # the first output whose window is inside
        inside = Size(width - s + 1, height - r + 1)
        answered(self.function(source + first, step, target + first, step, inside, *kernel, context))


def gauss(taps: int, *, border: bool) -> Any:
    """NPP's Gaussian of float32 planes for a square mask of ``taps``: a function of (context, source, target, height,
    width). Raises NoDevice."""
    name = f"nppiFilterGauss{'Border' if border else ''}_32f_C1R_Ctx"
    found = function(name, *(_BORDERED if border else _IMAGE), *_IMAGE, Size, c_int, *((c_int,) if border else ()))

    def call(context: Any, source: int, target: int, height: int, width: int) -> None:
        step, reach = 4 * width, taps // 2
        if border:
            whole = Size(width, height)
            answered(found(source, step, whole, Point(0, 0), target, step, whole, MASKS[taps], REPLICATE, context))
            return
        first = 4 * (reach * width + reach)
        inside = Size(width - 2 * reach, height - 2 * reach)
        answered(found(source + first, step, target + first, step, inside, MASKS[taps], context))

    return call
