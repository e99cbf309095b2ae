"""A Pad before a Conv, which exporters write for borders that Conv does not have and TensorFlow's for any."""

from __future__ import annotations

from dataclasses import replace

from warpconv.codegen.classes import dataclass
from warpconv.codegen.shape import ConvShape

from .geometry import Geometry, auto_pad
from .graph import Graph, LeftOutError, Node

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@dataclass(frozen=True)
class Padded:
    """The layer of the array that the Pad ``node`` takes, with a border for it."""

    node: Node
    shape: ConvShape


def padded(graph: Graph, node: Node, given: Geometry, shape: ConvShape) -> Padded | None:
    """A Conv of ``given``, ``shape``, with the Pad before it as one layer; None where there is none, or no border does
    what it does."""
    place = graph.position.get(node.input(0))
    pad = None if place is None else graph.nodes[place]
    if pad is None or pad.op != "Pad" or pad.domain or auto_pad(node) not in ("", "NOTSET", "VALID"):
        return None
    pads, value = _pads(graph, pad, given.axes), _value(graph, pad)
    mode = _MODES.get(str(pad.attributes.get("mode", "constant")))
    if pads is None or mode is None or (mode == "constant" and value is None):
        return None
    plain = mode == "constant" and value == 0
    if not plain and any(map(any, given.padding)):
        return None
    more = ((0, 0),) * (len(given.padding) - given.axes) + pads
    both = tuple((a + c, b + d) for (a, b), (c, d) in zip(given.padding, more))
    image = tuple(size - before - after for size, (before, after) in zip(given.image, more))
    border = {} if plain else {"padding_mode": mode, **({"padding_value": value} if mode == "constant" else {})}
    try:
        return Padded(pad, replace(given, image=image, padding=both).shape(dtype=shape.dtype, layout=shape.layout,
                                                                           **border))
    except LeftOutError:
        return None


def _pads(graph: Graph, pad: Node, axes: int) -> tuple[tuple[int, int], ...] | None:
    """(before, after) for each spatial axis; None where they are computed, cut, or pad images and channels."""
    taken = pad.input(1)
    if taken and not graph.is_constant(taken):
        return None
    given = graph.constants.array(taken).reshape(-1) if taken else pad.attributes.get("pads", ())
    named = pad.input(3)
    if named and not graph.is_constant(named):
        return None
    rank = axes + 2
    places = [int(axis) % rank for axis in graph.constants.array(named).reshape(-1)] if named else list(range(rank))
    if len(given) != 2 * len(places):
        return None
    sides = dict.fromkeys(range(rank), (0, 0))
    sides.update({place: (int(given[at]), int(given[at + len(places)])) for at, place in enumerate(places)})
    if min(map(min, sides.values())) < 0 or any(sides[0]) or any(sides[1]):
        return None
    return tuple(sides[axis] for axis in range(2, rank))


def _value(graph: Graph, pad: Node) -> float | None:
    """What a Pad of mode constant writes; None where it is computed."""
    if not pad.input(2):
        return float(pad.attributes.get("value", 0.0))
    return float(graph.constants.array(pad.input(2)).reshape(-1)[0]) if graph.is_constant(pad.input(2)) else None
