"""An ONNX file as graphs: read once, sizes by ONNX's own inference without the weights, which are read when asked for.

What lies in other files (external data) is not read to learn the layers, and one tensor at a time after that.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, FileError, ToolNotFound, WarpconvError
from warpconv.runtime import paths

from .constants import Store, first_line, is_external
from .graph import Graph, LeftOutError, Node, Value
from .model import AS_IT_IS, Form, Model, check_dims
from .read import model_of

SMALL = 1024            # elements of a constant that the inference may need: sizes for Reshape, bounds of a Clip
_NAMES = {"FLOAT": DType.FLOAT32, "FLOAT16": DType.FLOAT16, "BFLOAT16": DType.BFLOAT16, "UINT8": DType.UINT8,
          "INT8": DType.INT8, "UINT16": DType.UINT16, "INT16": DType.INT16, "INT32": DType.INT32}


def read_onnx(path: str | os.PathLike[str], dims: Mapping[str, int] | None = None, form: Form = AS_IT_IS) -> Model:
    """The convolutions of an ONNX file, for a form of it.

    ``dims``: sizes that the file leaves open, by their names in the file, or INPUT.AXIS where they have none. Raises
    FileError where the file cannot be read or is no model, ArgumentError where sizes stay open, and ToolNotFound
    without the package onnx.
    """
    source = os.fspath(path)
    onnx = _onnx()
    model = _loaded(onnx, source)
    try:
        return _read(onnx, model, source, dims or {}, form)
    except WarpconvError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        # names that are no text, attributes of other types, sizes that nothing has
        raise FileError(f"the file is no ONNX model, or is damaged: {first_line(error)}", argument="LAYERS",
                        value=source) from error


def _read(onnx: Any, model: Any, source: str, dims: Mapping[str, int], form: Form) -> Model:
    name, light = Path(source).name, _light(onnx, model)
    opened = _fill(light, dims)
    inferred = _inferred(onnx, light, source)
    store = Store(onnx, Path(source).parent, source, {one.domain: one.version for one in model.opset_import})
    store.take(model.graph)
    try:
        return model_of(name, _graphs(onnx, inferred.graph, store, {}, ""), form, may_ask=bool(opened))
    except LeftOutError as error:
        raise ArgumentError(f"{name} leaves sizes open that its layers have: {', '.join(opened)}; {error.reason}",
                            argument="dims", hint=f"give them: {' '.join(f'--dim {name}=1' for name in opened)}; "
                                                  f"in Python dims={dict.fromkeys(opened, 1)}") from None


def _onnx() -> Any:
    try:
        import onnx
        import onnx.shape_inference
    except ImportError as error:
        raise ToolNotFound("reading ONNX models needs the package onnx", argument="LAYERS",
                           hint="pip install 'warpconv[onnx]'") from error
    return onnx


def _loaded(onnx: Any, source: str) -> Any:
    if (why := paths.refusal(source)) is not None or not paths.is_file(source):
        raise FileError(f"the model cannot be read: {why or 'there is no such file'}", argument="LAYERS", value=source,
                        hint="a file that ends in .onnx")
    try:
        model = onnx.load(source, load_external_data=False)
    except OSError as error:
        raise FileError(f"the model cannot be read: {error.strerror or error}", argument="LAYERS",
                        value=source) from error
    except Exception as error:      # protobuf's own errors have no base of their own in all its versions
        raise FileError(f"the file is no ONNX model, or is damaged: {first_line(error)}", argument="LAYERS",
                        value=source) from error
    if not model.graph.node or not model.opset_import:
        raise FileError("the file is no ONNX model, or is damaged: it has no nodes or names no version of ONNX",
                        argument="LAYERS", value=source)
    return model


def _light(onnx: Any, model: Any) -> Any:
    """The model without large constants, which are inputs of it instead: what sizes are inferred from."""
    light = onnx.ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name or "graph"
    for field in ("node", "input", "output", "value_info"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    given = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= SMALL and not is_external(onnx, tensor):
            light.graph.initializer.append(tensor)
        elif tensor.name not in given:
            light.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return light


def _fill(light: Any, dims: Mapping[str, int]) -> list[str]:
    """Give open sizes their numbers; the names of those that stay open. Raises ArgumentError for a name that no size
    has, and for what is no size."""
    check_dims(dims)
    open_, used = [], set()
    held = {tensor.name for tensor in light.graph.initializer}
    for number, value in enumerate([*light.graph.input, *light.graph.output, *light.graph.value_info]):
        if not value.type.HasField("tensor_type") or value.name in held:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0:
                continue
            place = f"{value.name}.{axis}"
            name = next((name for name in (dim.dim_param, place) if name and name in dims), None)
            if name is not None:
                dim.dim_value = int(dims[name])
                used.add(name)
            elif number < len(light.graph.input):
                open_.append(dim.dim_param or place)
    unknown = [name for name in dims if name not in used]
    if unknown:
        raise ArgumentError("the model leaves no size of this name open", argument="dim", value=unknown[0],
                            hint=f"it leaves open: {', '.join(sorted({*open_, *used})) or 'none'}")
    return list(dict.fromkeys(open_))


def _inferred(onnx: Any, light: Any, source: str) -> Any:
    try:
        if light.functions:
            from onnx import inliner
            light = inliner.inline_local_functions(light)
        return onnx.shape_inference.infer_shapes(light, check_type=False, strict_mode=False, data_prop=True)
    except Exception as error:      # of its C++, or protobuf's: damage, an unknown version
        raise FileError(f"the model's sizes cannot be inferred: {first_line(error)}", argument="LAYERS", value=source,
                        hint="onnx.checker.check_model says what is wrong with it") from error


def _graphs(onnx: Any, graph: Any, store: Store, outer: Mapping[str, Value], prefix: str) -> Iterator[Graph]:
    """The graph, and those within it (branches, loops), which see its values."""
    values = {**outer, **{value.name: _value(onnx, value.type)
                          for value in (*graph.input, *graph.value_info, *graph.output)}}
    for tensor in graph.initializer:
        values[tensor.name] = Value(tuple(tensor.dims), *_type(onnx, tensor.data_type))
    inner = [(place, one) for number, node in enumerate(graph.node) for place, one in _inside(node, number)]
    seen = {name for _, one in inner for name in _taken(one)}
    nodes = [_node(onnx, node, prefix) for node in graph.node]
    store.take(graph)
    store.compute(graph, values)
    made = Graph(nodes=nodes, values=values, constants=store,
                 kept=frozenset({value.name for value in graph.output} | seen))
    yield made
    for place, one in inner:
        yield from _graphs(onnx, one, store.inner(), values, f"{prefix}{place}/")


def _inside(node: Any, number: int) -> list[tuple[str, Any]]:
    """The graphs within a node, and what they are called: after the node, and its attribute where nodes of two branches
    have one name."""
    found = [(attribute.name, attribute.g) for attribute in node.attribute if attribute.HasField("g")]
    found += [(f"{attribute.name}_{at}", one) for attribute in node.attribute
              for at, one in enumerate(attribute.graphs)]
    name = node.name or f"{node.op_type}_{number}"
    labels = [label for _, one in found for label in {_label(inner) for inner in one.node}]
    alike = len(set(labels)) < len(labels)
    return [(f"{name}/{of}" if alike else name, one) for of, one in found]


def _label(node: Any) -> str:
    return str(node.name or (node.output[0] if node.output else node.op_type))


def _taken(graph: Any) -> Iterator[str]:
    """Names that a graph's nodes, and those of the graphs within it, take."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for one in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _taken(one)
    yield from (value.name for value in graph.output)


def _node(onnx: Any, node: Any, prefix: str) -> Node:
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute
                  if one.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)}
    texts = {name: value.decode(errors="replace") if isinstance(value, bytes) else value
             for name, value in attributes.items()}
    return Node(label=prefix + _label(node), op=node.op_type, inputs=tuple(node.input), outputs=tuple(node.output),
                attributes=texts, domain="" if node.domain == "ai.onnx" else node.domain)


def _value(onnx: Any, type_: Any) -> Value:
    tensor = type_.tensor_type
    dtype, name = _type(onnx, tensor.elem_type)
    if not type_.HasField("tensor_type") or not tensor.HasField("shape"):
        return Value(None, dtype, name)
    return Value(tuple(_size(dim) for dim in tensor.shape.dim), dtype, name)


def _size(dim: Any) -> int | str | None:
    if dim.WhichOneof("value") == "dim_value":
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def _type(onnx: Any, number: int) -> tuple[DType | None, str]:
    try:
        name = onnx.TensorProto.DataType.Name(number)
    except ValueError:
        name = str(number)
    dtype = _NAMES.get(name)
    return dtype, dtype.value if dtype else {"DOUBLE": "float64"}.get(name, name.lower())
