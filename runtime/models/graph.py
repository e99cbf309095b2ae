"""A model's graph, whatever it was read from: nodes in ONNX's terms, what is known of their values, and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Protocol

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType


class LeftOutError(Exception):
    """Why a node is left out, in words; ``open_sizes``: because its sizes are not known, which the caller may give."""

    def __init__(self, reason: str, *, open_sizes: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.open_sizes = open_sizes


@dataclass(frozen=True)
class Value:
    """What is known of a tensor: sizes (None: not known; text: a name that stands for one), None where not even their
    number is; the element type, None where it is none of ours."""

    shape: tuple[int | str | None, ...] | None = None
    dtype: DType | None = None
    type_name: str = "unknown"

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The sizes where all of them are known."""
        known = tuple(size for size in self.shape or () if isinstance(size, int))
        return known if self.shape is not None and len(known) == len(self.shape) else None


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operation, by ONNX's name; an input that is left out is empty text. ``label`` is what users call it."""

    label: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""

    def input(self, number: int) -> str:
        """The name of an input, empty where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""


class Constants(Protocol):
    """Values that a model holds, read when they are asked for."""

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The sizes of a constant, None where the value is none."""
        ...

    def array(self, name: str) -> Any:
        """A constant as a NumPy array. Raises FileError where its data cannot be read."""
        ...


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes in an order in which each comes after those whose values it takes. ``kept``: values that somebody else
    sees too (outputs, graphs within the graph)."""

    nodes: Sequence[Node]
    values: Mapping[str, Value]
    constants: Constants
    kept: frozenset[str]

    def value(self, name: str) -> Value:
        """What is known of a value."""
        return self.values.get(name) or Value()

    def is_constant(self, name: str) -> bool:
        """Whether the model holds the value."""
        return bool(name) and self.constants.shape(name) is not None

    @cached_property
    def position(self) -> dict[str, int]:
        """By value: the number of the node that makes it."""
        return {name: number for number, node in enumerate(self.nodes) for name in node.outputs if name}

    @cached_property
    def takers(self) -> dict[str, list[Node]]:
        """By value: the nodes that take it, as often as they do."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in filter(None, node.inputs):
                found.setdefault(name, []).append(node)
        return found

    def only_taker(self, name: str) -> Node | None:
        """The one node that takes a value, None where several do or somebody else sees it."""
        found = self.takers.get(name, [])
        return found[0] if len(found) == 1 and name not in self.kept else None
