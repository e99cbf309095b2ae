"""What follows a convolution and is done by its kernel: batch normalisation and constants into the filter and the bias,
activations and a residual into the epilogue, each where nobody else sees the value between.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warpconv.codegen.epilogue import Epilogue

from .activations import gated, step_of
from .graph import Graph, Node

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
        gate = gated(graph, made.output) if node is None else None
        if gate is not None:
            nodes, step = gate
            made.steps.append(step)
            made.nodes += [taker.label for taker in nodes]
            made.inner += [made.output, *(taker.outputs[0] for taker in nodes[:-1])]
            made.output = nodes[-1].outputs[0]
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
    step = step_of(graph, node)
    if step is None:
        return False
    made.steps.append(step)
    return True


def _other(node: Node, value: str) -> str | None:
    """The other operand of two; None where both are the same."""
    first, second = node.input(0), node.input(1)
    return None if first == second else second if first == value else first
