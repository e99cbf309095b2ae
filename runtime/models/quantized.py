"""ConvInteger, QLinearConv, and a Conv between DequantizeLinear and QuantizeLinear (qdq.py), as layers of 8-bit images.

    ConvInteger   y = sum (x - x0) (w - w0), int32: integer filters w - w0, exact sums
    QLinearConv   y = saturate(round(m (sum (x - x0) (w - w0) + b)) + y0), m = sx sw / sy
    between DequantizeLinear and QuantizeLinear the same, with a bias in units of the output, b sx sw, and a Clip

Zero points of the filter go into the filter, which is int16 where int8 has not all of its range. That of the image is
what stands in the padding, and its share of every sum, x0 * sum(w - w0), is a constant for each filter: it goes into
the bias. With one scale the sums are exact integers and ``quantize`` scales them; with a scale for each filter m goes
into a float32 filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.epilogue import Epilogue
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.shape import ConvShape

from .activations import LARGEST
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
    shape = geometry.shape(dtype=dtype, weight_dtype=_filter_type(graph, given, w0), out_dtype=DType.INT32,
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


@dataclass(frozen=True, kw_only=True)
class Operands:
    """The names of what a quantised convolution takes. ``bias``: integers that are added to the sums, or, where it is
    ``real``, numbers in units of the output; ``low``, ``high``: what the output is clipped to in these."""

    x: str
    x_scale: str
    x0: str
    w: str
    w_scale: str
    w0: str
    y_scale: str
    y0: str
    bias: str
    real: bool = False
    low: float = -math.inf
    high: float = math.inf


def qlinear_conv(graph: Graph, node: Node, form: Form) -> Quantized:
    """Of a QLinearConv. Raises LeftOutError."""
    x, x_scale, x0, w, w_scale, w0, y_scale, y0, bias = map(node.input, range(9))
    out = graph.value(y0).dtype or _bytes(graph, x, "its input")
    return scaled(graph, node, Operands(x=x, x_scale=x_scale, x0=x0, w=w, w_scale=w_scale, w0=w0, y_scale=y_scale,
                                        y0=y0, bias=bias), out, form)


def scaled(graph: Graph, node: Node, of: Operands, out: DType, form: Form) -> Quantized:
    """The layer of a quantised convolution whose attributes are ``node``'s. Raises LeftOutError."""
    dtype = _bytes(graph, of.x, "its input")
    given = _bytes(graph, of.w, "its filter")
    for name, value in (("filter", of.w), ("x_scale", of.x_scale), ("w_scale", of.w_scale), ("w_zero_point", of.w0),
                        ("y_scale", of.y_scale), ("bias", of.bias)):
        if value and not graph.is_constant(value):
            raise LeftOutError(f"its {name} is computed, and not the model's own")
    x0, y0 = _scalar(graph, of.x0, "x_zero_point"), _scalar(graph, of.y0, "y_zero_point")
    if out not in BYTES:
        raise LeftOutError("its output is neither uint8 nor int8")
    scales = _scales(graph, of)
    geometry = forward_geometry(graph, node, of.x, of.w)
    for name, value in (("w_scale", of.w_scale), ("w_zero_point", of.w0)):
        check_sizes(graph, value, name, (), (1,), (geometry.k,))
    check_sizes(graph, of.bias, "bias", (geometry.k,))
    border = {"padding_mode": "constant", "padding_value": float(x0)} if x0 else {}
    types = {"dtype": dtype, "out_dtype": out, "layout": form.layout, **border}
    if len(set(scales.tolist())) == 1:
        shape = geometry.shape(weight_dtype=_filter_type(graph, given, of.w0), **types)
        steps: tuple[Epilogue, ...] = (Epilogue.BIAS,) if of.bias or x0 else ()
        m = float(scales[0])
        try:
            steps += (*_clipped(graph, of, out, y0, m), Epilogue.quantize(1.0 / m, int(y0)))
        except WarpconvError as error:
            raise LeftOutError(str(error)) from None
        return Quantized(shape=shape, axes=geometry.axes, epilogue=steps, numerics=Numerics.INT32,
                         read=lambda: _arrays(graph, of, shape, x0, None, 0.0))
    shape = geometry.shape(**types)
    return Quantized(shape=shape, axes=geometry.axes, epilogue=(Epilogue.BIAS, *_clipped(graph, of, out, y0, None)),
                     numerics=Numerics.FLOAT32, read=lambda: _arrays(graph, of, shape, x0, scales, float(y0)))


def _clipped(graph: Graph, of: Operands, out: DType, y0: int, m: float | None) -> tuple[Epilogue, ...]:
    """The clip, of sums that m scales, or (None) of what is stored, as far as its limits are within the stored type's,
    which saturate anyhow."""
    sy = float(_numbers(graph, of.y_scale)[0])
    least, most = out.limits
    low, high = of.low / sy + y0, of.high / sy + y0
    if low <= least and high >= most:
        return ()
    if m is not None:
        low, high = (low - y0) / m, (high - y0) / m
    return (Epilogue.clamp(max(low, -LARGEST), min(high, LARGEST)),)


def _arrays(graph: Graph, of: Operands, shape: ConvShape, x0: int, scales: Any, y0: float) -> Arrays:
    """The filter and the bias: integers and their sums where ``scales`` is None, else scaled, with y0 added."""
    import numpy as np
    weight = _centred(graph, of.w, of.w0)
    bias = np.zeros(shape.k) if not of.bias else _numbers(graph, of.bias)
    if of.real:
        bias = bias / (_numbers(graph, of.x_scale) * _numbers(graph, of.w_scale))
    bias = bias - float(x0) * weight.reshape(shape.k, -1).sum(1)
    if scales is not None:
        by = np.broadcast_to(scales, (shape.k,))
        weight, bias = weight * by.reshape(-1, 1, 1, 1), bias * by + y0
    needed = scales is not None or bool(of.bias) or bool(x0)
    return Arrays(in_type(weight, shape.w_dtype), bias.astype(np.float32) if needed else None)


def _scales(graph: Graph, of: Operands) -> Any:
    """m: one number, or one for each filter."""
    import numpy as np
    sx, sw, sy = (_numbers(graph, name) for name in (of.x_scale, of.w_scale, of.y_scale))
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


def _filter_type(graph: Graph, given: DType, w0: str) -> DType:
    """The narrowest type that has every w - w0."""
    zeros = _numbers(graph, w0) if w0 else (0.0,)
    (least, most), (low, high) = given.limits, DType.INT8.limits
    return DType.INT8 if least - max(zeros) >= low and most - min(zeros) <= high else DType.INT16


def _largest_sum(graph: Graph, node: Node, w0: str) -> float:
    """The largest magnitude that a sum can have, whatever the image."""
    import numpy as np
    weight = _centred(graph, node.input(1), w0)
    return float(255.0 * np.abs(weight).reshape(weight.shape[0], -1).sum(1).max())


def _numbers(graph: Graph, name: str) -> Any:
    """A constant's elements in float64, one after the other."""
    import numpy as np
    return np.asarray(graph.constants.array(name), np.float64).reshape(-1)


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

