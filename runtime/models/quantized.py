"""ConvInteger and QLinearConv as layers of 8-bit images.

    ConvInteger   y = sum (x - x0) (w - w0), int32: integer filters w - w0, exact sums
    QLinearConv   y = saturate(round(m (sum (x - x0) (w - w0) + b)) + y0), m = sx sw / sy

Zero points of the filter go into the filter. That of the image is what stands in the padding, and its share of every
sum, x0 * sum(w - w0), is a constant for each filter: it goes into the bias. With one scale the sums are exact integers
and ``quantize`` scales them; with a scale for each filter m goes into a float32 filter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpconv.codegen.dtypes import DType
from warpconv.codegen.epilogue import Epilogue
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.shape import ConvShape

from .geometry import check_sizes, forward_geometry
from .graph import Graph, LeftOutError, Node
from .model import Arrays, Form, in_type, planar

BYTES = (DType.UINT8, DType.INT8)
EXACT = 2**24           # integers up to here are float32 numbers, in which a bias is added


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """The layer of one of these nodes."""

    shape: ConvShape
    axes: int
    epilogue: tuple[Epilogue, ...]
    numerics: Numerics
    read: Callable[[], Arrays] | None


def conv_integer(graph: Graph, node: Node, form: Form) -> Quantized:
    """Of a ConvInteger. Raises LeftOutError."""
    dtype = _bytes(graph, node.input(0), "its input")
    x0, w0 = _scalar(graph, node.input(2), "x_zero_point"), node.input(3)
    given = _bytes(graph, node.input(1), "its filter")
    if w0 and not graph.is_constant(w0):
        raise LeftOutError("its w_zero_point is computed, and not the model's own")
    constant = graph.is_constant(node.input(1))
    if (x0 or given is DType.UINT8 or w0) and not constant:
        raise LeftOutError("its filter is computed, and has a zero point or is uint8: what its kernel takes would have "
                           "to be computed too")
    geometry = forward_geometry(graph, node, node.input(0), node.input(1))
    check_sizes(graph, w0, "w_zero_point", (), (1,), (geometry.k,))
    border = {"padding_mode": "constant", "padding_value": float(x0)} if x0 else {}
    wide = given is DType.UINT8 or bool(w0)
    shape = geometry.shape(dtype=dtype, weight_dtype=DType.INT16 if wide else DType.INT8, out_dtype=DType.INT32,
                           layout=form.layout, **border)

    def read() -> Arrays:
        import numpy as np
        weight = _centred(graph, node.input(1), w0)
        share = -float(x0) * weight.reshape(shape.k, -1).sum(1)
        return Arrays(in_type(weight, shape.w_dtype), share.astype(np.float32) if x0 else None)

    if x0 and (worst := _largest_sum(graph, node, w0)) > EXACT:
        raise LeftOutError(f"x_zero_point is {x0}, and sums may reach {worst:.3g}: its share of them is added in "
                           f"float32, exact to {EXACT}")
    return Quantized(shape=shape, axes=geometry.axes, epilogue=(Epilogue.BIAS,) if x0 else (), numerics=Numerics.INT32,
                     read=read if constant else None)


def qlinear_conv(graph: Graph, node: Node, form: Form) -> Quantized:
    """Of a QLinearConv. Raises LeftOutError."""
    x, w, b = node.input(0), node.input(3), node.input(8)
    dtype = _bytes(graph, x, "its input")
    given = _bytes(graph, w, "its filter")
    for name, value in (("filter", w), ("x_scale", node.input(1)), ("w_scale", node.input(4)),
                        ("w_zero_point", node.input(5)), ("y_scale", node.input(6)), ("bias", b)):
        if value and not graph.is_constant(value):
            raise LeftOutError(f"its {name} is computed, and not the model's own")
    x0, y0 = _scalar(graph, node.input(2), "x_zero_point"), _scalar(graph, node.input(7), "y_zero_point")
    out = graph.value(node.input(7)).dtype or dtype
    if out not in BYTES:
        raise LeftOutError("its output is neither uint8 nor int8")
    scales = _scales(graph, node)
    geometry = forward_geometry(graph, node, x, w)
    for name, value in (("w_scale", node.input(4)), ("w_zero_point", node.input(5))):
        check_sizes(graph, value, name, (), (1,), (geometry.k,))
    check_sizes(graph, b, "bias", (geometry.k,))
    border = {"padding_mode": "constant", "padding_value": float(x0)} if x0 else {}
    types = {"dtype": dtype, "out_dtype": out, "layout": form.layout, **border}
    if len(set(scales.tolist())) == 1:
        wide = given is DType.UINT8 or bool(node.input(5))
        shape = geometry.shape(weight_dtype=DType.INT16 if wide else DType.INT8, **types)
        steps: tuple[Epilogue, ...] = (Epilogue.BIAS,) if b or x0 else ()
        try:
            last = Epilogue.quantize(1.0 / float(scales[0]), int(y0))
        except WarpconvError as error:
            raise LeftOutError(str(error)) from None
        return Quantized(shape=shape, axes=geometry.axes, epilogue=(*steps, last), numerics=Numerics.INT32,
                         read=lambda: _arrays(graph, node, shape, x0, None, 0.0))
    shape = geometry.shape(**types)
    return Quantized(shape=shape, axes=geometry.axes, epilogue=(Epilogue.BIAS,), numerics=Numerics.FLOAT32,
                     read=lambda: _arrays(graph, node, shape, x0, scales, float(y0)))


def _arrays(graph: Graph, node: Node, shape: ConvShape, x0: int, scales: Any, y0: float) -> Arrays:
    """A QLinearConv's filter and bias: integers and their sums where ``scales`` is None, else scaled, with y0 added."""
    import numpy as np
    weight = _centred(graph, node.input(3), node.input(5))
    bias = np.zeros(shape.k) if not node.input(8) else np.asarray(graph.constants.array(node.input(8)), np.float64)
    bias = bias - float(x0) * weight.reshape(shape.k, -1).sum(1)
    if scales is not None:
        by = np.broadcast_to(scales, (shape.k,))
        weight, bias = weight * by.reshape(-1, 1, 1, 1), bias * by + y0
    needed = scales is not None or bool(node.input(8)) or bool(x0)
    return Arrays(in_type(weight, shape.w_dtype), bias.astype(np.float32) if needed else None)


def _scales(graph: Graph, node: Node) -> Any:
    """m: one number, or one for each filter."""
    import numpy as np
    sx, sw, sy = (np.asarray(graph.constants.array(node.input(place)), np.float64).reshape(-1) for place in (1, 4, 6))
    if sx.size != 1 or sy.size != 1:
        raise LeftOutError("x_scale or y_scale is more than one number")
    made = sx * sw / sy
    if not (np.isfinite(made).all() and (made > 0).all()):
        raise LeftOutError("its scales are not all above 0")
    return made


def _centred(graph: Graph, w: str, w0: str) -> Any:
    """w - w0 in float64, as a filter of two spatial axes."""
    import numpy as np
    weight = planar(np.asarray(graph.constants.array(w), np.float64))
    if not w0:
        return weight
    zero = np.asarray(graph.constants.array(w0), np.float64).reshape(-1, 1, 1, 1)
    return weight - zero


def _largest_sum(graph: Graph, node: Node, w0: str) -> float:
    """The largest magnitude that a sum can have, whatever the image."""
    import numpy as np
    weight = _centred(graph, node.input(1), w0)
    return float(255.0 * np.abs(weight).reshape(weight.shape[0], -1).sum(1).max())


def _scalar(graph: Graph, name: str, what: str) -> int:
    """A zero point of the image or of the output, 0 where it is left out."""
    if not name:
        return 0
    if not graph.is_constant(name):
        raise LeftOutError(f"its {what} is computed, and not the model's own")
    value = graph.constants.array(name).reshape(-1)
    if value.size != 1:
        raise LeftOutError(f"its {what} is more than one number")
    return int(value[0])


def _bytes(graph: Graph, name: str, what: str) -> DType:
    known = graph.value(name)
    if known.dtype is None or known.dtype not in BYTES:
        raise LeftOutError(f"{what} is {known.type_name}; there are kernels for uint8 and int8")
    return known.dtype

