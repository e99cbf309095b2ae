"""What an activation of a model is as a step of an epilogue: one node, or several that exporters write for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from warpconv.codegen.epilogue import SPELT, Epilogue
from warpconv.codegen.errors import WarpconvError

from .graph import Graph, Node

LARGEST = 3.4028234663852886e38        # float32's
LONGEST = 3                            # nodes of what a value is multiplied by

_PLAIN = {"Relu": Epilogue.RELU, "HardSwish": Epilogue.HARDSWISH, "Silu": Epilogue.SILU,
          **{op: Epilogue.parse(SPELT[op.lower()]) for op in ("Sigmoid", "Tanh", "Softplus", "Mish")}}


def step_of(graph: Graph, node: Node) -> Epilogue | None:
    """The step that a node is, None where there is none, or its numbers are none that a kernel has."""
    try:
        found = _PLAIN.get(node.op)
        made = _WITH_NUMBERS.get(node.op)
        return found if made is None else made(graph, node)
    except WarpconvError:
        return None


def gated(graph: Graph, value: str) -> tuple[tuple[Node, ...], Epilogue] | None:
    """The nodes that make v * g(v) of a value and are a step together, and it: SiLU, hardswish, mish and GELU as
    exporters write them."""
    takers = graph.takers.get(value, [])
    if len(takers) != 2 or value in graph.kept:
        return None
    for first, times in (takers, takers[::-1]):
        chain = _chain(graph, first, times)
        if chain and times.op == "Mul" and not times.domain and set(times.inputs) == {value, chain[-1].outputs[0]}:
            return _gate(graph, value, chain, times)
    return None


def _chain(graph: Graph, first: Node, last: Node) -> list[Node]:
    """The nodes from ``first`` on of which each alone takes what the one before makes, up to the one that ``last``
    takes; empty where they do not lead there."""
    found = [first]
    while len(found) <= LONGEST:
        taker = graph.only_taker(found[-1].outputs[0])
        if taker is last:
            return found
        if taker is None or taker.domain:
            return []
        found.append(taker)
    return []


def _gate(graph: Graph, value: str, chain: Sequence[Node], times: Node) -> tuple[tuple[Node, ...], Epilogue] | None:
    if any(node.domain for node in chain):
        return None
    names, nodes = [node.op for node in chain], (*chain, times)
    if names == ["Sigmoid"]:
        return nodes, Epilogue.SILU
    if names == ["HardSigmoid"] and _near(_number(chain[0], "alpha", 0.2), 1 / 6) \
            and _number(chain[0], "beta", 0.5) == 0.5:
        return nodes, Epilogue.HARDSWISH
    if names == ["Softplus", "Tanh"]:
        return nodes, _PLAIN["Mish"]
    if names[:2] == ["Add", "Clip"] and len(chain) == 3 and _constant(graph, chain[0], value) == 3 \
            and bounds(graph, chain[1]) == (0, 6) and _scales(graph, chain[2], chain[1], 1 / 6):
        return nodes, Epilogue.HARDSWISH
    if len(chain) == 3 and names[1:] == ["Erf", "Add"] and _scales(graph, chain[0], value, math.sqrt(0.5)) \
            and _constant(graph, chain[2], chain[1].outputs[0]) == 1:
        half = graph.only_taker(times.outputs[0])
        if half is not None and not half.domain and _scales(graph, half, times, 0.5):
            return (*nodes, half), Epilogue.GELU
    return None


def _scales(graph: Graph, node: Node, of: Node | str, by: float) -> bool:
    """Whether a node multiplies what ``of`` makes by a number, or divides it by its reciprocal."""
    value = of if isinstance(of, str) else of.outputs[0]
    number = _constant(graph, node, value)
    if number is None or node.op not in ("Mul", "Div") or node.op == "Div" and node.input(0) != value:
        return False
    return _near(number, by if node.op == "Mul" else 1 / by)


def _constant(graph: Graph, node: Node, value: str) -> float | None:
    """The one number that a node of two operands has beside ``value``; None where that is something else."""
    others = [name for name in node.inputs if name != value]
    shape = graph.constants.shape(others[0]) if len(node.inputs) == 2 and len(others) == 1 else None
    if shape is None or math.prod(shape) != 1:
        return None
    return float(graph.constants.array(others[0]).reshape(-1)[0])


def _near(number: float, right: float) -> bool:
    """Whether it is that number, as float32 or as float16 has it."""
    return abs(number - right) <= 2.0**-11 * abs(right)


def _number(node: Node, name: str, default: float) -> float:
    return float(node.attributes.get(name, default))


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


# ---- with numbers of their own

def _clip(graph: Graph, node: Node) -> Epilogue | None:
    limits = bounds(graph, node)
    if limits is None:
        return None
    if limits == (0, LARGEST):
        return Epilogue.RELU
    return Epilogue.RELU6 if limits == (0, 6) else Epilogue.clamp(*limits)


def _gelu(graph: Graph, node: Node) -> Epilogue | None:
    return {"none": Epilogue.GELU, "tanh": Epilogue.GELU_TANH}.get(str(node.attributes.get("approximate", "none")))


def _leaky(graph: Graph, node: Node) -> Epilogue:
    return _below(f"{_number(node, 'alpha', 0.01)!r} * v")


def _prelu(graph: Graph, node: Node) -> Epilogue | None:
    slope = _constant(graph, node, node.input(0))
    return None if slope is None else _below(f"{slope!r} * v")


def _elu(graph: Graph, node: Node) -> Epilogue:
    return _below(f"{_number(node, 'alpha', 1.0)!r} * (exp(v) - 1)")


def _hard_sigmoid(graph: Graph, node: Node) -> Epilogue:
    return Epilogue.expr(f"min(max({_number(node, 'alpha', 0.2)!r} * v + {_number(node, 'beta', 0.5)!r}, 0), 1)")


def _below(expression: str) -> Epilogue:
    return Epilogue.expr(f"where(v < 0, {expression}, v)")


_WITH_NUMBERS: Mapping[str, Callable[[Graph, Node], Epilogue | None]] = {
    "Clip": _clip, "Gelu": _gelu, "LeakyRelu": _leaky, "PRelu": _prelu, "Elu": _elu, "HardSigmoid": _hard_sigmoid}
