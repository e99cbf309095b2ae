"""A graph's convolutions as named layers: each with what follows it folded, or left out with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.epilogue import Epilogue
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation

from . import qdq, quantized
from .expected import border_pays, bytes_pay, residual_pays
from .fold import Folded, fold
from .geometry import Geometry, check_sizes, forward_geometry, pads_of, transposed_geometry
from .graph import Graph, LeftOutError, Node
from .model import AS_IT_IS, Arrays, Form, LeftOut, Model, ModelLayer, in_type, names_of, planar
from .padded import padded

FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A convolution that becomes a layer, before it has a name."""

    node: Node
    shape: ConvShape
    axes: int
    input: str
    folded: Folded
    epilogue: tuple[Epilogue, ...]
    read: Callable[[], Arrays] | None
    numerics: Numerics = Numerics.FLOAT32
    operation: Operation = Operation.FORWARD


def model_of(source: str, graphs: Iterable[Graph], form: Form = AS_IT_IS, *, may_ask: bool = False) -> Model:
    """The layers of a model's graphs in this form, in their order. With ``may_ask`` raises
    LeftOutError(open_sizes=True) where sizes are missing, which the caller may give; else such a node is left out."""
    found: list[Found] = []
    left: list[LeftOut] = []
    for graph in graphs:
        for number, node in enumerate(graph.nodes):
            if "Conv" not in node.op:
                continue
            try:
                found.append(_found(graph, number, node, form))
            except LeftOutError as error:
                if error.open_sizes and may_ask:
                    raise
                left.append(LeftOut(node.label, node.op, error.reason))
    layers = tuple(_layer(name, one) for name, one in zip(names_of(one.node.label for one in found), found))
    return Model(source, layers, tuple(left))


def _layer(name: str, one: Found) -> ModelLayer:
    return ModelLayer(name=name, shape=one.shape, epilogue=one.epilogue, numerics=one.numerics,
                      operation=one.operation, node=one.node.label, op=one.node.op, axes=one.axes, input=one.input,
                      residual=one.folded.residual, output=one.folded.output, folded=tuple(one.folded.nodes),
                      inner=tuple(one.folded.inner), pads=pads_of(one.node, one.shape), read=one.read)


def _found(graph: Graph, number: int, node: Node, form: Form) -> Found:
    if node.domain == "warpconv":
        raise LeftOutError("warpconv computes it already: call undo() of what convert returned first, or give the "
                           "model with PyTorch's own layers")
    if node.domain:
        raise LeftOutError(f"there are no kernels for {node.domain}.{node.op}, an operation outside ONNX")
    if node.op in ("Conv", "ConvTranspose"):
        found = _float(graph, number, node, form)
        return found if node.op == "ConvTranspose" else _of_bytes(graph, number, form, found) or found
    if node.op == "ConvInteger":
        return _quantized(node, quantized.conv_integer(graph, node, form))
    if node.op == "QLinearConv":
        return _quantized(node, quantized.qlinear_conv(graph, node, form))
    raise LeftOutError(f"there are no kernels for {node.op}")


def _float(graph: Graph, number: int, node: Node, form: Form) -> Found:
    x, w, b = node.input(0), node.input(1), node.input(2)
    transposed = node.op == "ConvTranspose"
    geometry = transposed_geometry(graph, node, x, w) if transposed else forward_geometry(graph, node, x, w, most=3)
    known = graph.value(x)
    if known.dtype not in FLOATS:
        raise LeftOutError(f"its elements are {known.type_name}; there are kernels for float32, float16 and bfloat16")
    shape = geometry.shape(dtype=form.dtype or known.dtype, layout=form.layout)
    channels = geometry.c if transposed else geometry.k
    check_sizes(graph, b, "bias", (channels,))
    own_bias = not b or graph.is_constant(b)
    given: dict[str, Any] = {"bias": bool(b), "constant": graph.is_constant(w) and own_bias, "channels": channels}
    folded = fold(graph, number, **given, residuals=not transposed)
    if folded.linear and shape.dtype is DType.FLOAT16 and not _fits(
            *_combined(graph, w, b if own_bias else "", geometry, folded, transposed)):
        given["constant"] = False
        folded = fold(graph, number, **given, residuals=not transposed)
    if folded.residual and not residual_pays(shape, folded.epilogue):
        folded = fold(graph, number, **given, residuals=False)
    around = None if transposed else padded(graph, node, geometry, shape)
    if around is not None and (around.shape.padding_mode is Border.ZEROS
                               or border_pays(around.shape, shape, folded.epilogue)):
        shape, x = around.shape, around.node.input(0)
        if graph.only_taker(node.input(0)) is node:
            folded.nodes.insert(0, around.node.label)
            folded.inner.append(node.input(0))
    read = None
    if graph.is_constant(w):        # a bias that the model computes is the caller's to give
        read = _reader(graph, w, b if own_bias else "", geometry, folded, shape.dtype, transposed)
    return Found(node=node, shape=shape, axes=geometry.axes, input=x, folded=folded, epilogue=folded.epilogue,
                 read=read, operation=Operation.DATA_GRADIENT if transposed else Operation.FORWARD)


def _reader(graph: Graph, w: str, b: str, geometry: Geometry, folded: Folded, dtype: DType,
            transposed: bool) -> Callable[[], Arrays]:
    """What gives filter and bias, with the linear steps folded in by float64."""
    def read() -> Arrays:
        import numpy as np
        weight = planar(graph.constants.array(w))
        if not folded.linear:
            return Arrays(in_type(weight, dtype), in_type(graph.constants.array(b), dtype) if b else None)
        turned, bias = _combined(graph, w, b, geometry, folded, transposed)
        weight = outputs_first(turned, geometry.groups, transposed)
        bias = np.broadcast_to(bias, (folded.channels,))
        return Arrays(in_type(weight, dtype), in_type(bias, dtype) if folded.bias else None)

    return read


def _combined(graph: Graph, w: str, b: str, geometry: Geometry, folded: Folded, transposed: bool) -> tuple[Any, Any]:
    """The filter, its outputs first, and the bias, with the linear steps in them; float64."""
    import numpy as np
    weight = np.asarray(planar(graph.constants.array(w)), np.float64)
    weight = outputs_first(weight, geometry.groups, transposed)
    bias = np.asarray(graph.constants.array(b), np.float64) if b else np.zeros(folded.channels)
    for step in folded.linear:
        weight, bias = step(weight, bias)
    return weight, bias


def _fits(weight: Any, bias: Any) -> bool:
    """Whether float16 has these numbers: none beyond its range, and no output's filter so small that it would lose
    digits which its elements have by themselves."""
    import numpy as np
    largest = np.abs(weight).max(axis=tuple(range(1, weight.ndim)))
    kept = np.finfo(np.float16)
    return bool((largest <= kept.max).all() and ((largest == 0) | (largest >= kept.smallest_normal)).all()
                and (np.abs(bias) <= kept.max).all())


def outputs_first(weight: Any, groups: int, transposed: bool) -> Any:
    """A transposed layer's filter (inputs, outputs/groups, R, S) with its outputs first, or such a one turned back."""
    if not transposed:
        return weight
    first, second, *taps = weight.shape
    return weight.reshape(groups, first // groups, second, *taps).swapaxes(1, 2).reshape(
        second * groups, first // groups, *taps)


def _of_bytes(graph: Graph, number: int, form: Form, found: Found) -> Found | None:
    """A Conv between numbers made of bytes and bytes made of numbers, where the kernel that reads and writes bytes is
    the quicker one."""
    around = qdq.surrounded(graph, number, form)
    if around is None:
        return None
    made = around.layer
    if not bytes_pay(made.shape, made.epilogue, made.numerics, found.shape, found.epilogue):
        return None
    return Found(node=found.node, shape=made.shape, axes=made.axes, input=around.input, folded=around.folded,
                 epilogue=made.epilogue, read=made.read, numerics=made.numerics)


def _quantized(node: Node, made: quantized.Quantized) -> Found:
    folded = Folded(node.outputs[0], made.shape.k, Epilogue.BIAS in made.epilogue)
    return Found(node=node, shape=made.shape, axes=made.axes, input=node.input(0), folded=folded,
                 epilogue=made.epilogue, read=made.read, numerics=made.numerics)
