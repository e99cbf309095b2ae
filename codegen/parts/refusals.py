"""Why an algorithm cannot serve a spec, in words that all planners share."""

from __future__ import annotations

from ..border import Border, BorderValue
from ..dtypes import DType, Layout
from ..layer import FLOATS as FLOATS
from ..spec import Epilogue, KernelSpec, Numerics, Operation

ZEROS = (Border.ZEROS,)
BORDERS = tuple(Border)


def common_refusal(spec: KernelSpec, *, dtypes: tuple[DType, ...] = (DType.FLOAT32,),
                   layouts: tuple[Layout, ...] = (Layout.NCHW,),
                   numerics: tuple[Numerics, ...] = (Numerics.FLOAT32,), borders: tuple[Border, ...] = ZEROS,
                   mixed: bool = False, residual: bool = False, separable: bool = False,
                   pitched: bool = False, operation: Operation = Operation.FORWARD,
                   spatial: tuple[int, ...] = (2,)) -> str | None:
    """The reason why an algorithm that serves these types, layouts, arithmetic and borders cannot serve the spec, or
    None. ``mixed``: outputs of another type than the inputs are served; ``residual``: its stores read one;
    ``separable``: filters given as factors; ``pitched``: arrays with gaps; ``operation``: what is computed;
    ``spatial``: how many spatial axes layers may have."""
    if len(spec.taps) not in spatial:
        return "volumes are not served, only images" if spec.is_volume else "images are not served, only volumes"
    for what, value, served in (("element type", spec.dtype, dtypes), ("layout", spec.layout, layouts),
                                ("arithmetic", spec.numerics, numerics), ("border", spec.padding_mode, borders)):
        if value not in served:
            return f"{what} {value.value} is not served, only {', '.join(s.value for s in served)}"
    if spec.numerics is Numerics.INT32 and spec.w_dtype.is_float:
        return f"int32 arithmetic is for filters of integers, not of {spec.w_dtype.value}"
    if not mixed and spec.out_dtype is not None:
        return f"output of {spec.y_dtype.value} from {spec.dtype.value} is not served, only of the input's type"
    if spec.separable and not separable:
        return "separable filters are not served, only whole ones"
    if spec.pitched and not pitched:
        return ("arrays with gaps between their rows are not served, only dense ones, which a call copies them "
                "from and to")
    if spec.operation is not operation:
        return f"{spec.operation.value} is not served, only {operation.value}"
    if Epilogue.RESIDUAL in spec.epilogue and not residual:
        return "its stores do not read a residual"
    return None


def integer_border(spec: KernelSpec) -> str | None:
    """The reason why integer arithmetic cannot have a border's value, or None."""
    if spec.numerics is Numerics.INT32 and spec.border_value is BorderValue.NUMBER:
        return f"the border's value is no int, as the arithmetic of {spec.w_dtype.value} filters is"
    return None


def border_refusal(spec: KernelSpec) -> str | None:
    """The reason why a border's value has no place beside the elements, or None."""
    if spec.border_value is BorderValue.ELEMENT:
        return None
    return f"the border's value is no {spec.dtype.value}, and rows are kept in the input's type"
