"""The constants of an ONNX model, read when they are asked for: those that it holds, and those that its nodes compute
of constants alone, which exporters and quantisers leave where weights are stored in other types or orders.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import FileError

from .graph import Value

# Operations whose result is a constant where all that they take is: quantised and narrow weights made wide, weights
# turned into ONNX's order of axes, parts of a normalisation.
COMPUTED = frozenset({"Add", "Cast", "CastLike", "DequantizeLinear", "Div", "Expand", "Flatten", "Mul", "Neg",
                      "QuantizeLinear", "Reciprocal", "Reshape", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze"})

# The versions of ONNX from which its evaluator has these; earlier nodes mean the same.
EVALUATED = {"DequantizeLinear": 19, "QuantizeLinear": 19}


@dataclass(frozen=True)
class _Held:
    """A constant's sizes, and where its data are: a TensorProto, or a NodeProto that computes it."""

    shape: tuple[int, ...]
    source: Any


class Store:
    """The constants of a graph by name, and those of the graphs around it."""

    def __init__(self, onnx: Any, folder: Path, source: str, opsets: Mapping[str, int],
                 held: ChainMap[str, _Held] | None = None):
        self._onnx, self._folder, self._source, self._opsets = onnx, folder, source, opsets
        self._held: ChainMap[str, _Held] = ChainMap() if held is None else held

    def inner(self) -> Store:
        """That of a graph within: two branches may use a name each for itself."""
        return Store(self._onnx, self._folder, self._source, self._opsets, self._held.new_child())

    def take(self, graph: Any) -> None:
        """What a graph holds."""
        for tensor in graph.initializer:
            self._held[tensor.name] = _Held(tuple(tensor.dims), tensor)
        for node in graph.node:
            if node.op_type == "Constant" and _is_onnx(node) and len(node.output) == 1:
                tensor = self._of_node(node)
                if tensor is not None:
                    self._held[node.output[0]] = _Held(tuple(tensor.dims), tensor)

    def compute(self, graph: Any, values: Mapping[str, Value]) -> None:
        """What a graph's nodes compute of constants alone. ``values``: with the sizes of what they make."""
        for node in graph.node:
            taken = list(filter(None, node.input))
            if not (_is_onnx(node) and len(node.output) == 1 and taken and all(name in self._held for name in taken)):
                continue
            name = node.output[0]
            sizes = values[name].sizes if name in values else None
            if node.op_type == "Identity":
                self._held[name] = self._held[taken[0]]
            elif node.op_type in COMPUTED and sizes is not None:
                self._held[name] = _Held(sizes, node)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Of a constant; None where the value is none."""
        held = self._held.get(name)
        return None if held is None else held.shape

    def array(self, name: str) -> Any:
        """A constant as a NumPy array. Raises FileError."""
        held = self._held[name]
        if isinstance(held.source, self._onnx.NodeProto):
            return self._computed(held)
        copy = held.source
        if is_external(self._onnx, copy):
            copy = self._onnx.TensorProto()     # reading fills the tensor in: of a copy, that goes
            copy.CopyFrom(held.source)
        try:
            return self._onnx.numpy_helper.to_array(copy, base_dir=str(self._folder))
        except Exception as error:      # a missing file, a place outside its folder, data of another length
            raise FileError(f"the data of {name!r} cannot be read: {first_line(error)}", argument="LAYERS",
                            value=self._source) from error

    def _computed(self, held: _Held) -> Any:
        from onnx.reference import ReferenceEvaluator
        node = held.source
        feeds = {name: self.array(name) for name in filter(None, node.input)}
        helper = self._onnx.helper
        graph = helper.make_graph([node], "constant", [helper.make_empty_tensor_value_info(name) for name in feeds],
                                  [helper.make_empty_tensor_value_info(node.output[0])])
        version = max(self._opsets.get("", 0), self._opsets.get("ai.onnx", 0), EVALUATED.get(node.op_type, 1))
        try:
            made = ReferenceEvaluator(graph, opsets={"": version}).run(None, feeds)[0]
            if made.shape != held.shape:
                raise ValueError(f"sizes {made.shape} where {held.shape} were inferred")
        except Exception as error:      # types and attributes that the operation does not have
            raise FileError(f"the constant {node.output[0]!r}, a {node.op_type}, cannot be computed: "
                            f"{first_line(error)}", argument="LAYERS", value=self._source) from error
        return made

    def _of_node(self, node: Any) -> Any:
        helper = self._onnx.helper
        for one in node.attribute:
            value = helper.get_attribute_value(one)
            if one.name == "value":
                return value
            kinds = {"value_float": self._onnx.TensorProto.FLOAT, "value_floats": self._onnx.TensorProto.FLOAT,
                     "value_int": self._onnx.TensorProto.INT64, "value_ints": self._onnx.TensorProto.INT64}
            if one.name in kinds:
                many = one.name.endswith("s")
                return helper.make_tensor(node.output[0], kinds[one.name], [len(value)] if many else [],
                                          list(value) if many else [value])
        return None


def _is_onnx(node: Any) -> bool:
    return node.domain in ("", "ai.onnx")


def is_external(onnx: Any, tensor: Any) -> bool:
    return tensor.HasField("data_location") and tensor.data_location == onnx.TensorProto.EXTERNAL


def first_line(error: Exception) -> str:
    """The first line of an error of somebody else's."""
    lines: Sequence[str] = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
