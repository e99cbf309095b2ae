"""A Conv between DequantizeLinear and QuantizeLinear, the form in which quantisers leave models ("QDQ").

    x_q -> DequantizeLinear -> Conv -> [Relu, Clip] -> QuantizeLinear -> y_q,  its filter a DequantizeLinear of bytes

It computes what a QLinearConv does, of 8-bit images, and may become the same layer. Where dense sums of floating-point
numbers are quicker than those of bytes, the Conv stays a layer of these (expected.bytes_pay says which).
"""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass

from .activations import bounds
from .fold import Folded
from .graph import Graph, LeftOutError, Node
from .model import Form
from .quantized import BYTES, Operands, Quantized, scaled


@dataclass(frozen=True)
class Surrounded:
    """The layer from bytes to bytes: it reads ``input``, ``folded`` says what is done with it."""

    layer: Quantized
    input: str
    folded: Folded


def surrounded(graph: Graph, number: int, form: Form) -> Surrounded | None:
    """The Conv with number ``number`` with what stands around it; None where it is no layer of bytes."""
    node = graph.nodes[number]
    x, w, bias = (_dequantized(graph, node.input(place)) for place in range(3))
    end = _end(graph, node)
    if x is None or w is None or end is None or graph.is_constant(x.input(0)) or not _by_filters(graph, w):
        return None
    clip, low, high = end
    last = clip[-1]
    out = graph.value(last.outputs[0]).dtype
    if out not in BYTES or last.attributes.get("block_size"):
        return None
    made = Operands(x=x.input(0), x_scale=x.input(1), x0=x.input(2), w=w.input(0), w_scale=w.input(1), w0=w.input(2),
                    y_scale=last.input(1), y0=last.input(2), bias=node.input(2), real=True, low=low, high=high)
    try:
        layer = scaled(graph, node, made, out, form)
    except LeftOutError:
        return None
    before = [one for one in (x, w, bias) if one is not None and graph.only_taker(one.outputs[0]) is node]
    folded = Folded(last.outputs[0], layer.shape.k, bool(node.input(2)), nodes=[one.label for one in (*before, *clip)],
                    inner=[one.outputs[0] for one in (node, *before, *clip[:-1])])
    return Surrounded(layer, x.input(0), folded)


def _dequantized(graph: Graph, value: str) -> Node | None:
    """The DequantizeLinear that makes a value."""
    place = graph.position.get(value)
    node = None if place is None else graph.nodes[place]
    return node if node is not None and node.op == "DequantizeLinear" and not node.domain else None


def _by_filters(graph: Graph, node: Node) -> bool:
    """Whether a filter's scales are one, or one for each filter."""
    scales, sizes = graph.constants.shape(node.input(1)), graph.constants.shape(node.input(0))
    if scales is None or sizes is None or node.attributes.get("block_size"):
        return False
    return math.prod(scales) == 1 or int(node.attributes.get("axis", 1)) in (0, -len(sizes))


def _end(graph: Graph, node: Node) -> tuple[list[Node], float, float] | None:
    """What clips the output, ending with what quantises it, and the limits that it is clipped to."""
    found: list[Node] = []
    low, high = -math.inf, math.inf
    while True:
        value = (found[-1] if found else node).outputs[0]
        taker = graph.only_taker(value)
        if taker is None or taker.domain or taker.input(0) != value:
            return None
        found.append(taker)
        if taker.op == "QuantizeLinear":
            return found, low, high
        limits = (0.0, math.inf) if taker.op == "Relu" else bounds(graph, taker) if taker.op == "Clip" else None
        if limits is None:
            return None
        low, high = (min(max(one, limits[0]), limits[1]) for one in (low, high))
