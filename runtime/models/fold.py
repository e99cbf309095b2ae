"""What follows a convolution and is done by its kernel: batch normalisation and constants into the filter and the bias,
activations and a residual into the epilogue, each where nobody else sees the value between.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warpconv.codegen.epilogue import Epilogue
from warpconv.codegen.errors import WarpconvError

from .graph import Graph, Node

LARGEST = 3.4028234663852886e38        # float32's
_PLAIN = {"Relu": Epilogue.RELU, "HardSwish": Epilogue.HARDSWISH, "Silu": Epilogue.SILU}

Linear = Callable[[Any, Any], "tuple[Any, Any]"]      # filter and bias, outputs first -> those of both steps together


@dataclass
class Folded:
    """A convolution with what follows it, as far as that is folded. ``linear``: what becomes of filter and bias, in
    order; ``bias``: whether the kernel adds one; ``inner``: values between, which nobody computes any more."""

    output: str
    channels: int
    bias: bool
    steps: list[Epilogue] = field(default_factory=list)
    linear: list[Linear] = field(default_factory=list)
    residual: str = ""
    nodes: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)

    @property
    def epilogue(self) -> tuple[Epilogue, ...]:
        return ((Epilogue.BIAS,) if self.bias else ()) + tuple(self.steps)


def fold(graph: Graph, number: int, *, bias: bool, constant: bool, channels: int, residuals: bool) -> Folded:
    """What follows node ``number``.

    ``bias``: whether it adds one itself; ``constant``: whether filter and bias are the model's own, so that more can be
    folded into them; ``residuals``: whether its kernels read one.
    """
    made = Folded(graph.nodes[number].outputs[0], channels, bias)
    while True:
        node = graph.only_taker(made.output)
        pair = _silu(graph, made.output) if node is None else ()
        if pair:
            made.steps.append(Epilogue.SILU)
            made.nodes += [taker.label for taker in pair]
            made.inner += [made.output, pair[0].outputs[0]]
            made.output = pair[-1].outputs[0]
        elif node is not None and (_linear(graph, node, made, constant)
                                   or residuals and _residual(graph, node, made, number)
                                   or _activation(graph, node, made)):
            made.nodes.append(node.label)
            made.inner.append(made.output)
            made.output = node.outputs[0]
        else:
            return made


def _linear(graph: Graph, node: Node, made: Folded, constant: bool) -> bool:
    """A step that filter and bias take up; before any other."""
    if made.steps or not constant or node.domain:
        return False
    if node.op == "BatchNormalization" and node.input(0) == made.output:
        names = node.inputs[1:5]
        if (len(names) < 4 or not all(map(graph.is_constant, names)) or node.attributes.get("training_mode")
                or any(graph.constants.shape(name) != (made.channels,) for name in names)):
            return False
        made.linear.append(_normalised(graph, names, float(node.attributes.get("epsilon", 1e-5))))
        made.bias = True
        return True
    if node.op not in ("Add", "Mul"):
        return False
    other = _other(node, made.output)
    shape = graph.constants.shape(other) if other else None
    if shape is None or not _of_channels(shape, made.channels, len(graph.value(made.output).shape or ())):
        return False
    made.linear.append(_shifted(graph, other) if node.op == "Add" else _scaled(graph, other))
    made.bias = made.bias or node.op == "Add"
    return True


def _normalised(graph: Graph, names: tuple[str, ...], epsilon: float) -> Linear:
    def step(weight: Any, bias: Any) -> tuple[Any, Any]:
        import numpy as np
        scale, shift, mean, variance = (np.asarray(graph.constants.array(name), np.float64) for name in names)
        by = scale / np.sqrt(variance + epsilon)
        return _times(weight, by), (bias - mean) * by + shift

    return step


def _shifted(graph: Graph, name: str) -> Linear:
    return lambda weight, bias: (weight, bias + _flat(graph, name))


def _scaled(graph: Graph, name: str) -> Linear:
    def step(weight: Any, bias: Any) -> tuple[Any, Any]:
        by = _flat(graph, name)
        return _times(weight, by), bias * by

    return step


def _flat(graph: Graph, name: str) -> Any:
    import numpy as np
    return np.asarray(graph.constants.array(name), np.float64).reshape(-1)


def _times(weight: Any, by: Any) -> Any:
    return weight * by.reshape(-1, *[1] * (weight.ndim - 1))


def _of_channels(shape: tuple[int, ...], channels: int, axes: int) -> bool:
    """Whether a constant has one number, or one for each channel, beside an array (N, K, ...) with so many axes."""
    spread = (1,) * (axes - len(shape)) + shape
    return len(spread) == axes > 0 and (math.prod(spread) == 1 or spread == (1, channels) + (1,) * (axes - 2))


def _residual(graph: Graph, node: Node, made: Folded, number: int) -> bool:
    """Another array added, of the output's sizes, that is there before the convolution is."""
    if node.op != "Add" or node.domain or made.residual:
        return False
    other = _other(node, made.output)
    if other is None or graph.is_constant(other) or graph.position.get(other, -1) >= number:
        return False
    mine, theirs = graph.value(made.output), graph.value(other)
    if mine.sizes is None or mine.sizes != theirs.sizes or mine.dtype is not theirs.dtype:
        return False
    made.residual = other
    made.steps.append(Epilogue.RESIDUAL)
    return True


def _activation(graph: Graph, node: Node, made: Folded) -> bool:
    if node.domain or node.input(0) != made.output:
        return False
    try:
        step = _step(graph, node)
    except WarpconvError:           # numbers that no kernel has
        return False
    if step is None:
        return False
    made.steps.append(step)
    return True


def _step(graph: Graph, node: Node) -> Epilogue | None:
    if node.op in _PLAIN:
        return _PLAIN[node.op]
    if node.op == "Gelu":
        kinds = {"none": Epilogue.GELU, "tanh": Epilogue.GELU_TANH}
        return kinds.get(str(node.attributes.get("approximate", "none")))
    if node.op == "LeakyRelu":
        return Epilogue.expr(f"where(v < 0, {float(node.attributes.get('alpha', 0.01))!r} * v, v)")
    if node.op == "Clip":
        limits = bounds(graph, node)
        return None if limits is None else _clamp(*limits)
    return None


def bounds(graph: Graph, node: Node) -> tuple[float, float] | None:
    """The limits of a Clip, float32's own where one is left out; None where they are computed."""
    found = []
    for place, name, default in ((1, "min", -LARGEST), (2, "max", LARGEST)):
        given = node.input(place)
        if not given:
            found.append(float(node.attributes.get(name, default)))
        elif graph.is_constant(given):
            found.append(float(graph.constants.array(given).reshape(-1)[0]))
        else:
            return None
    low, high = (min(max(value, -LARGEST), LARGEST) for value in found)
    return low, high


def _clamp(low: float, high: float) -> Epilogue:
    if low == 0 and high == LARGEST:
        return Epilogue.RELU
    return Epilogue.RELU6 if (low, high) == (0, 6) else Epilogue.clamp(low, high)


def _silu(graph: Graph, value: str) -> tuple[Node, ...]:
    """v * sigmoid(v), which exporters write as two nodes; nothing where the takers are others."""
    takers = graph.takers.get(value, [])
    if len(takers) != 2 or value in graph.kept:
        return ()
    gate = next((node for node in takers if node.op == "Sigmoid" and not node.domain), None)
    times = next((node for node in takers if node.op == "Mul" and not node.domain), None)
    if gate is None or times is None or set(times.inputs) != {value, gate.outputs[0]}:
        return ()
    return (gate, times) if graph.only_taker(gate.outputs[0]) is times else ()


def _other(node: Node, value: str) -> str | None:
    """The other operand of two; None where both are the same."""
    first, second = node.input(0), node.input(1)
    return None if first == second else second if first == value else first
