"""Where the result of one of SciPy's calls goes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.layer import FLOATS
from warpconv.codegen.shape import PIXELS
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView
from warpconv.runtime.call.checks import same_memory

from .planes import Image


@dataclass(frozen=True)
class Target:
    """Where a result goes: an array of the caller's, or a new one of this element type. ``whole``: its values, float32
    ones, are then cast to integers that no kernel stores, so each result is truncated as those would be."""

    dtype: DType
    array: Any = None
    view: ArrayView | None = None
    whole: bool = False

    @classmethod
    def of(cls, output: Any, image: Image, whole: bool = False) -> Target:
        """``output`` as SciPy takes it: None, an element type or an array. ``whole``: of a type, which is cast.

        Raises ShapeError, ArgumentTypeError or ArgumentError for what the image's filter cannot be written to.
        """
        types = output_types(image.view.dtype)
        if output is None:
            return cls(image.view.dtype)
        if is_dtype(output):
            return cls(_element(output, types), whole=whole)
        view = arrays.view(output, "output", dtypes=types, writable=True)
        if view.shape != image.shape:
            raise ShapeError("output has another shape than input", argument="output", value=view.shape,
                             hint=f"{image.shape}")
        same_memory(view, image.view, "output")
        if not view.contiguous and view.is_device:
            raise ArgumentError("output has gaps", argument="output", value=view.strides,
                                hint="give a contiguous array, or none and copy the result")
        return cls(view.dtype, output, view)

    @property
    def planned(self) -> DType:
        """The type that a call is planned for."""
        return DType.INT32 if self.whole else self.dtype

    @property
    def takes_results(self) -> bool:
        """Whether a kernel can write to the caller's array."""
        return self.view is not None and self.view.contiguous

    def overlaps(self, image: Image) -> bool:
        return self.view is not None and arrays.overlaps(self.view, image.view)


def output_types(dtype: DType) -> tuple[DType, ...]:
    """The element types that filters of an input of ``dtype`` are stored as."""
    if dtype.is_integer:
        return *PIXELS, DType.INT32, DType.FLOAT32, DType.FLOAT16
    return tuple(dict.fromkeys((dtype, *FLOATS, *PIXELS)))


def is_dtype(output: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(output, (type, np.dtype, str)) or (torch is not None and isinstance(output, torch.dtype))


def has_order(output: Any) -> bool:
    """Whether it is an element type that says its byte order."""
    return isinstance(output, np.dtype) or isinstance(output, str) and output[:1] in ("<", ">")


def name_of(dtype: Any, argument: str, hint: str = "for instance 'float32'") -> str:
    """The name of an element type of any library. Raises ArgumentTypeError."""
    name = dtype.value if isinstance(dtype, DType) else str(dtype)
    if name.startswith("torch.") or name == DType.BFLOAT16.value:       # which NumPy has none of
        return name.removeprefix("torch.")
    try:
        return np.dtype(name if isinstance(dtype, DType) else dtype).name
    except (TypeError, ValueError):
        raise ArgumentTypeError("no element type", argument=argument, value=dtype, hint=hint) from None


def _element(output: Any, types: tuple[DType, ...]) -> DType:
    names = ", ".join(dtype.value for dtype in types)
    name = name_of(output, "output", f"one of {names}")
    if has_order(output) and not np.dtype(output).isnative:
        raise ArgumentTypeError("results are in this machine's byte order", argument="output", value=output,
                                hint=f"'{name}', and .astype of the result; or dtype=, the type to compute in")
    for dtype in types:
        if dtype.value == name:
            return dtype
    raise ArgumentTypeError(f"results are not stored as {name} here", argument="output", value=name,
                            hint=f"one of {names}; with dtype=, the type to compute in (dtype='float32'), they are "
                                 "cast to any other")
