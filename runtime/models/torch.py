"""A PyTorch module's convolutions, by torch.export: the same graph that an ONNX file gives, in ONNX's terms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ToolNotFound

from .activations import LARGEST
from .graph import Graph, Node, Value
from .model import AS_IT_IS, Form, Model, check_dims
from .read import model_of

SIZES = {"batch": 1, "height": 224, "width": 224}       # of a torchvision model's input, unless they are given

_TYPES = {"float32": DType.FLOAT32, "float16": DType.FLOAT16, "bfloat16": DType.BFLOAT16, "uint8": DType.UINT8,
          "int8": DType.INT8, "int16": DType.INT16, "int32": DType.INT32}


def layers_of(module: Any, example_inputs: Any, *, dtype: DType | str | None = None, layout: Any = None) -> Model:
    """The convolutions of a PyTorch module as named layers, as torch.export sees them in eval mode.

    A layer is called what its module is called (``layer1.0.conv1``); batch normalisation, activations and additions
    that follow one are folded as for an ONNX file (docs/models.md).

    Parameters
    ----------
    module : torch.nn.Module
        Not changed, nor run; parameters may be on any device, the meta device too.
    example_inputs : torch.Tensor or tuple of them
        What it is called with: their sizes and types count.
    dtype : DType or str, optional
        float32, float16 or bfloat16: layers of floating-point arrays become layers of this type.
    layout : Layout or str, optional
        "NCHW" or "NHWC": the order of arrays in memory that the kernels are made for; "NCHW" if None.

    Returns
    -------
    Model
        A sequence of layers, for build_pack, specialize_all or tune, each also by its name; ``left_out`` are the
        convolutions that no kernel serves, with the reason.

    Raises
    ------
    ToolNotFound
        PyTorch is not installed.
    ArgumentError, ArgumentTypeError
        ``module`` is none, or torch.export does not take it with these inputs.
    """
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise ArgumentTypeError("layers_of takes a module", argument="module", value=type(module).__name__,
                                hint="a torch.nn.Module")
    inputs = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    return _exported(torch, module, inputs, type(module).__name__, Form.of(dtype, layout))


def read_torchvision(name: str, dims: Mapping[str, int] | None = None, form: Form = AS_IT_IS) -> Model:
    """The layers of a model of torchvision, in a form, by its name there; weights are neither made nor fetched.
    ``dims``: of SIZES.

    Raises ToolNotFound without torchvision, ArgumentError for no such model, or sizes that it does not take.
    """
    torch = _torch()
    try:
        from torchvision import models
    except Exception as error:      # what torch and torchvision of other versions raise is no ImportError
        raise ToolNotFound(f"torchvision cannot be imported: {type(error).__name__}: {error}", argument="LAYERS",
                           value=f"torchvision:{name}",
                           hint="pip install torchvision, of the version that fits torch") from error
    for given in dims or {}:
        if given not in SIZES:
            raise ArgumentError("a torchvision model has no such size", argument="dim", value=given,
                                hint=f"one of {', '.join(SIZES)}")
    check_dims(dims or {})
    if name not in models.list_models():
        import difflib
        near = difflib.get_close_matches(name, models.list_models(), 3)
        raise ArgumentError("torchvision has no model of this name", argument="LAYERS", value=f"torchvision:{name}",
                            hint=f"did you mean {' or '.join(near)}?" if near else "torchvision.models.list_models()")
    sizes = {**SIZES, **(dims or {})}
    with torch.device("meta"):
        module = models.get_model(name, weights=None, **_without_weights(models, name))
        example = torch.empty(sizes["batch"], 3, sizes["height"], sizes["width"])
    return _exported(torch, module, (example,), name, form, drawn=True)


def _without_weights(models: Any, name: str) -> dict[str, Any]:
    """Arguments that keep a model from fetching the weights of what it is built on."""
    import inspect
    taken = inspect.signature(models.get_model_builder(name)).parameters
    return {"weights_backbone": None} if "weights_backbone" in taken else {}


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError as error:
        raise ToolNotFound("this needs PyTorch", argument="LAYERS", hint="pip install 'warpconv[torch]'") from error
    return torch


def _exported(torch: Any, module: Any, inputs: tuple[Any, ...], source: str, form: Form, *,
              drawn: bool = False) -> Model:
    training = {part: part.training for part in module.modules()}
    try:
        module.eval()
        with torch.no_grad():
            program = torch.export.export(module, inputs)
    except Exception as error:      # torch.export's errors have no base of their own
        lines = str(error).strip().splitlines() or [""]
        raise ArgumentError(f"torch.export does not take {source} with these inputs: {type(error).__name__}: "
                            f"{lines[0][:300]}", argument="example_inputs",
                            hint="other inputs; docs/models.md has the route by an ONNX file") from error
    finally:
        for part, was in training.items():
            part.training = was
    made = model_of(source, [_graph(torch, program)], form)
    if not drawn:
        return made
    return replace(made, layers=tuple(replace(layer, read=None) for layer in made.layers))     # weights are nobody's


class _Parameters:
    """The constants of an exported program: parameters, buffers and tensors that stand in the code."""

    def __init__(self, torch: Any, program: Any):
        signature = program.graph_signature
        held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
                **signature.inputs_to_lifted_tensor_constants}
        stored = {**dict(program.constants), **dict(program.state_dict)}
        self._torch = torch
        self._tensors = {name: stored[of] for name, of in held.items() if of in stored}

    def shape(self, name: str) -> tuple[int, ...] | None:
        tensor = self._tensors.get(name)
        return None if tensor is None else tuple(tensor.shape)

    def array(self, name: str) -> Any:
        tensor = self._tensors[name].detach()
        if tensor.is_meta:
            raise ArgumentError("the module has no weights, only their sizes", argument="module", value=name,
                                hint="warpconv.layers_of(module, example_inputs) of a module that has")
        tensor = tensor.cpu()
        return (tensor.float() if tensor.dtype is self._torch.bfloat16 else tensor).numpy()


def _graph(torch: Any, program: Any) -> Graph:
    constants = _Parameters(torch, program)
    reader = _Reader(torch, constants)
    for node in program.graph.nodes:
        reader.take(node)
    return Graph(nodes=reader.nodes, values=reader.values, constants=constants, kept=frozenset(reader.kept))


class _Reader:
    """Operations of ATen as nodes in ONNX's terms, in their order. What changes its operand in place makes a new value,
    which stands for the operand from there on."""

    def __init__(self, torch: Any, constants: _Parameters):
        self.torch, self.constants = torch, constants
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}
        self.kept: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._met: dict[str, int] = {}

    def take(self, node: Any) -> None:
        """One node of the exported graph."""
        self.values[node.name] = _value(node.meta.get("val"))
        if node.op == "output":
            self.kept |= {self._name(one) for one in node.all_input_nodes}
        if node.op != "call_function":
            return
        if node.target is operator.getitem:
            if node.args[1] == 0 and node.args[0].name in self.values:      # of several results the first
                self._renamed[node.name] = self._name(node.args[0])
                self.values[self._renamed[node.name]] = self.values[node.name]
            return
        target = getattr(node.target, "_schema", None)
        name = target.name.removeprefix("aten::") if target is not None else str(node.target)
        arguments = _arguments(node)
        made = _TRANSLATED.get(name.removesuffix("_"))
        translated = None if made is None else made(self, node, arguments)
        op, inputs, attributes = translated or (
            name, [self._name(one) for one in node.all_input_nodes], {})
        domain = "" if translated else "aten"
        if name.startswith("warpconv::conv"):       # a converted model's, which read.py leaves out in words
            op, domain = "Conv", "warpconv"
        self.nodes.append(Node(label=self._label(node, op), op=op, inputs=tuple(inputs), outputs=(node.name,),
                               attributes=attributes, domain=domain))
        if name.endswith("_") and node.args and hasattr(node.args[0], "name"):
            self._renamed[self._name(node.args[0])] = node.name

    def _name(self, value: Any) -> str:
        """A value's name, by what it has become."""
        if not hasattr(value, "name"):
            return ""
        name = str(value.name)
        while name in self._renamed:
            name = self._renamed[name]
        return name

    def names(self, *values: Any) -> list[str]:
        """Inputs of a node, empty at the end left out."""
        found = [self._name(value) for value in values]
        while found and not found[-1]:
            found.pop()
        return found

    def number(self, value: Any, default: float) -> float | None:
        """A bound: itself, the default where there is none, None where it is computed."""
        if value is None:
            return default
        return float(value) if isinstance(value, (int, float)) else None

    def _label(self, node: Any, op: str) -> str:
        """The name of the module that calls a convolution, with the node's own where that module is no convolution."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = stack[-1] if stack else ("", "")
        said = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
        label = str(path) if path and "Conv" in said.rsplit(".", 1)[-1] else ".".join(filter(None, [path, node.name]))
        if "Conv" not in op:
            return label
        self._met[label] = self._met.get(label, 0) + 1
        return label if self._met[label] == 1 else f"{label}:{self._met[label]}"


def _arguments(node: Any) -> dict[str, Any]:
    """A call's arguments by their names, defaults included."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {}
    found = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    found.update(zip((one.name for one in schema.arguments), node.args))
    return {**found, **node.kwargs}


def _value(value: Any) -> Value:
    value = value[0] if isinstance(value, (tuple, list)) and value else value
    if not hasattr(value, "shape"):
        return Value()
    name = str(value.dtype).removeprefix("torch.")
    return Value(tuple(size if isinstance(size, int) else str(size) for size in value.shape), _TYPES.get(name), name)


def _convolution(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
    """conv1d, conv2d, conv3d, their transposed kin and ``convolution``, which has them all."""
    weight = given["weight"].meta["val"]
    axes = weight.dim() - 2
    padding = given.get("padding", 0)
    attributes = {"strides": _each(given.get("stride", 1), axes), "dilations": _each(given.get("dilation", 1), axes),
                  "group": given.get("groups", 1)}
    if isinstance(padding, str):
        attributes["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    else:
        attributes["pads"] = [*_each(padding, axes), *_each(padding, axes)]
    transposed = given.get("transposed", "transpose" in str(node.target))
    if transposed:
        attributes["output_padding"] = _each(given.get("output_padding", 0), axes)
    inputs = reader.names(given["input"], given["weight"], given.get("bias"))
    return "ConvTranspose" if transposed else "Conv", inputs, attributes


def _each(value: Any, axes: int) -> list[int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * axes if len(values) == 1 else values


def _batch_norm(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
    if given.get("training"):
        return None
    names = reader.names(*(given.get(name) for name in ("input", "weight", "bias", "running_mean", "running_var")))
    return None if "" in names or len(names) < 5 else ("BatchNormalization", names, {"epsilon": given["eps"]})


def _clip(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
    low, high = (reader.number(given.get(name, given.get(other)), default) for name, other, default in (
        ("min", "min_val", -LARGEST), ("max", "max_val", LARGEST)))
    return None if low is None or high is None else ("Clip", reader.names(given["self"]), {"min": low, "max": high})


def _added(op: str) -> Callable[..., Any]:
    def translate(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
        names = reader.names(given["self"], given.get("other"))
        return (op, names, {}) if len(names) == 2 and given.get("alpha", 1) == 1 else None

    return translate


def _elu(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
    scaled = given.get("scale", 1) != 1 or given.get("input_scale", 1) != 1         # selu
    return None if scaled else ("Elu", reader.names(given["self"]), {"alpha": given.get("alpha", 1)})


def _softplus(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
    usual = given.get("beta", 1) == 1 and given.get("threshold", 20) == 20
    return ("Softplus", reader.names(given["self"]), {}) if usual else None


def _plain(op: str, **arguments: str) -> Callable[..., Any]:
    """An operation of one operand; ``arguments``: which of the call's is which attribute."""
    def translate(reader: _Reader, node: Any, given: dict[str, Any]) -> Any:
        return op, reader.names(given["self"]), {name: given.get(of) for name, of in arguments.items()}

    return translate


_TRANSLATED: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d",
                     "conv_transpose3d"), _convolution),
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_no_training"), _batch_norm),
    **dict.fromkeys(("hardtanh", "clamp"), _clip),
    "relu6": lambda reader, node, given: ("Clip", reader.names(given["self"]), {"min": 0.0, "max": 6.0}),
    "relu": _plain("Relu"), "hardswish": _plain("HardSwish"), "sigmoid": _plain("Sigmoid"), "silu": _plain("Silu"),
    "gelu": _plain("Gelu", approximate="approximate"), "leaky_relu": _plain("LeakyRelu", alpha="negative_slope"),
    "tanh": _plain("Tanh"), "mish": _plain("Mish"), "elu": _elu, "softplus": _softplus,
    "hardsigmoid": lambda reader, node, given: ("HardSigmoid", reader.names(given["self"]),
                                                {"alpha": 1 / 6, "beta": 0.5}),
    "add": _added("Add"), "mul": _added("Mul")}
