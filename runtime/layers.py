"""LAYERS files: named layers in TOML or JSON, what ``warpconv build`` and the studies read.

    [defaults]                  # optional: any field of a layer; a layer's own value stands in its place
    stride = 1

    [layer.conv1]
    input = [128, 3, 227, 227]  # N, C, H, W, or in the order of layout; of volumes N, C, D, H, W
    filter = [96, 11, 11]       # K, R, S; of volumes K, T, R, S: stride, padding, dilation then begin with the depth's
    stride = 4                  # or [vertical, horizontal]
    padding = 0                 # or [vertical, horizontal], [top, bottom, left, right], "same", "valid"
    dilation = 1
    groups = 1
    padding_mode = "zeros"      # or "constant" (with padding_value), "replicate", "reflect", "symmetric", "circular"
    dtype = "float32"           # or "float16", "bfloat16", "uint8", "int8", "uint16", "int16"
    weight_dtype = "float32"    # for integers: or "int8", "int16", "int32"
    out_dtype = "float32"       # another type of the output; cast = "nearest" or "truncate" to integers
    separable = false           # filters of one channel as the factors of a column and a row
    layout = "NCHW"             # or "NHWC": the order of the input's and the output's axes
    accumulate = "float32"      # or "float16": the arithmetic of products and sums
    precision = "float32"       # or "ieee", "tf32x3", "fp16x3", "tf32": how exact products of float32 elements are
    epilogue = ["bias", "relu"]
    algorithm = "auto"
    set = {exchange = "packed"} # plan values of the algorithm

JSON has the same tree: {"defaults": {...}, "layer": {"conv1": {...}}}.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, FileError, WarpconvError
from warpconv.codegen.hardware import Arch
from warpconv.codegen.layer import describe_geometry, describe_types, layer_fields
from warpconv.codegen.numerics import Precision
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import algorithm as registered
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics, Operation, parse_epilogue

from . import env, paths

_AS_THEY_ARE = tuple(name for name in layer_fields() if name not in ("c", "k", "t", "r", "s", "padding", "layout"))
FIELDS = ("input", "filter", "padding", *_AS_THEY_ARE, "layout", "accumulate", "precision", "epilogue", "algorithm",
          "set")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_LARGEST_FILE = 4 << 20
_FIELD_OF = {**dict.fromkeys("ncdhw", "input"), **dict.fromkeys("ktrs", "filter"), "activation": "epilogue",
             "numerics": "accumulate"}


@dataclass(frozen=True, kw_only=True)
class NamedLayer:
    """A layer to build a kernel for: its shape, what is done to each output, and how the kernel is chosen."""

    name: str
    shape: ConvShape
    epilogue: tuple[Epilogue, ...] = ()
    algorithm: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    numerics: Numerics = Numerics.FLOAT32
    operation: Operation = Operation.FORWARD

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ArgumentError("a layer's name has up to 80 letters, digits, '_', '-' and '.'", argument="name",
                                value=self.name)
        if self.algorithm != "auto":
            registered(self.algorithm)

    def plan(self, arch: Any) -> KernelPlan:
        """The kernel's plan for an architecture, within WARPCONV_WORKSPACE_LIMIT. Raises UnsupportedSpec or
        ArgumentError."""
        return plan_layer(self.shape, algorithm=self.algorithm, arch=arch, epilogue=self.epilogue,
                          settings=self.settings, numerics=self.numerics,
                          workspace_limit=env.settings().workspace_limit, operation=self.operation)

    def portable_plan(self, arch: Any, made: KernelPlan) -> KernelPlan | None:
        """The plan whose cubin later chips take, too, where ``made`` is one for a form of the architecture that
        no other has, and the choice was by rule; else None."""
        target = Arch.parse(arch)
        if self.algorithm != "auto" or self.settings or target.feature or made.spec.arch == target:
            return None
        answers = explain(self.shape, arch=target, epilogue=self.epilogue, numerics=self.numerics,
                          workspace_limit=env.settings().workspace_limit, operation=self.operation)
        return next((a.plan for a in answers if a.plan is not None and a.plan.spec.arch == target), None)

    def __str__(self) -> str:
        return f"{self.name}: {self.shape}"


def same_kernel(layer: NamedLayer) -> tuple[Any, ...]:
    """What layers have in common that are planned alike: all but the name."""
    return (type(layer).plan, layer.shape, layer.epilogue, layer.algorithm, tuple(sorted(layer.settings.items())),
            layer.numerics, layer.operation)


def default_name(shape: ConvShape, *, epilogue: tuple[Epilogue, ...] = (), algorithm: str = "auto",
                 settings: Mapping[str, Any] | None = None, numerics: Numerics = Numerics.FLOAT32,
                 operation: Operation = Operation.FORWARD) -> str:
    """A name for a layer that was given none: the same for layers that differ in N, H and W alone."""
    geometry = re.sub(r"[^0-9a-z]+", "_", describe_geometry(shape).replace("stride ", "s").replace("padding ", "p"))
    types = describe_types(shape).replace(" with", "").replace(" filters", "").replace(" to", "_to")
    kind = [] if types == DType.FLOAT32.value else [re.sub(r"[^0-9a-z]+", "_", types).rstrip("_")]
    kind += [] if shape.layout is Layout.NCHW else [shape.layout.value]
    parts = [f"c{shape.c}_k{shape.k}_{'x'.join(map(str, shape.taps))}", geometry, *kind,
             *([] if numerics is Numerics.FLOAT32 else [numerics.precision.value] if numerics.precision
               is not Precision.FLOAT32 else [f"sums_{numerics.value}"]),
             *map(_step_name, epilogue), *([operation.value] if operation is not Operation.FORWARD else []),
             *([algorithm] if algorithm != "auto" else []),
             *(f"{name}-{value}" for name, value in sorted((settings or {}).items()))]
    return "_".join(parts)[:80]


def _step_name(step: Epilogue) -> str:
    """A step's text in the letters of names; an expression by a digest of its text."""
    if step.tree is not None:
        return f"expr-{hashlib.blake2b(step.value.encode(), digest_size=4).hexdigest()}"
    return re.sub(r"[(,]", "-", step.value).rstrip(")")


def shipped() -> dict[str, str]:
    """The layer files that come with warpconv: name -> first line of its comment."""
    found = {}
    for item in sorted(resources.files("warpconv").joinpath("layers").iterdir(), key=lambda item: item.name):
        if item.name.endswith(".toml"):
            found[item.name.removesuffix(".toml")] = item.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    return found


def read_layers(path: str | os.PathLike[str]) -> tuple[NamedLayer, ...]:
    """The layers of a file, in the file's order.

    ``path``: a file (``.toml`` or ``.json``), or a shipped one by its bare name. Returns a NamedLayer for each.

    Raises FileError where it cannot be read or is no TOML or JSON; ArgumentError, ShapeError or ArgumentTypeError,
    naming file, layer and field, where a value is not one that a layer can have.
    """
    text, label = _text(path)
    document = _parse(text, label)
    _known(document, ("defaults", "layer"), f"{label}", "")
    defaults = _table(document.get("defaults", {}), label, "defaults")
    _known(defaults, FIELDS, f"{label}: defaults", "defaults.")
    layers = _table(document.get("layer", {}), label, "layer")
    if not layers:
        raise ArgumentError(f"{label} has no layers", argument="layer",
                            hint="write a table for each: [layer.conv1] with input and filter")
    return tuple(_layer(name, {**defaults, **_table(entry, label, f"layer.{name}")}, label)
                 for name, entry in layers.items())


def _text(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The file's text, and what messages call the file."""
    name = os.fspath(path)
    if not paths.exists(name) and name in shipped():
        label = f"{name}.toml"
        return resources.files("warpconv").joinpath("layers", label).read_text(encoding="utf-8"), label
    hint = f"a .toml or .json file, or one of {', '.join(shipped())}"
    try:
        with open(name, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise FileError(f"a layer file has at most {_LARGEST_FILE} bytes", argument="LAYERS", value=name)
        return data.decode("utf-8-sig"), Path(name).name
    except OSError as error:
        if isinstance(error, WarpconvError):
            raise
        raise FileError(f"the layer file cannot be read: {error.strerror or error}", argument="LAYERS", value=name,
                        hint=hint) from error
    except ValueError as error:     # not UTF-8, or a NUL in the name
        raise FileError("the layer file is no text", argument="LAYERS", value=name, hint=hint) from error


def _parse(text: str, label: str) -> dict[str, Any]:
    is_json = label.lower().endswith(".json")
    try:
        document = json.loads(text, object_pairs_hook=_unique) if is_json else _toml(text)
    except (ValueError, RecursionError) as error:      # JSONDecodeError and TOMLDecodeError are ValueErrors
        raise FileError(f"{label} is no {'JSON' if is_json else 'TOML'}: {error}", argument="LAYERS", value=label,
                        hint="docs/packs.md shows one") from error
    return _table(document, label, "the file")


def _toml(text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:     # Python 3.10
        import tomli as tomllib
    return tomllib.loads(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} is there twice")
    return found


def _table(value: Any, label: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentError(f"{label}: {where} is no table", argument=where, value=value,
                            hint="write [layer.conv1] and below it input = [...], filter = [...]")
    return value


def _known(table: Mapping[str, Any], names: tuple[str, ...], where: str, prefix: str) -> None:
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise ArgumentError(f"{where}: unknown key", argument=f"{prefix}{key}", value=table[key],
                                hint=f"{meant}known: {', '.join(names)}")


def _layer(name: str, fields: dict[str, Any], label: str) -> NamedLayer:
    where = f"{label}: layer {name}"
    _known(fields, FIELDS, where, f"layer.{name}.")
    for needed in ("input", "filter"):
        if needed not in fields:
            raise ArgumentError(f"{where} has no {needed}", argument=f"layer.{name}.{needed}",
                                hint=f"{needed} = {'[N, C, H, W]' if needed == 'input' else '[K, R, S]'}")
    try:
        return _named_layer(name, fields)
    except WarpconvError as error:
        argument = _FIELD_OF.get(error.argument or "", error.argument)
        raise type(error)(f"{where}: {error.message}", argument=f"layer.{name}.{argument}", value=error.value,
                          hint=error.hint) from error


def _named_layer(name: str, fields: Mapping[str, Any]) -> NamedLayer:
    layout = Layout.parse(fields.get("layout", Layout.NCHW))
    volume = isinstance(fields["filter"], list) and len(fields["filter"]) == 4
    k, *taps = _sizes(fields["filter"], "filter", tuple("KTRS" if volume else "KRS"))
    names = layout.stored(tuple("NCDHW" if volume else "NCHW"))
    n, c, *image = layout.logical(tuple(_sizes(fields["input"], "input", names)))
    depth = {"d": image[0], "t": taps[0]} if volume else {}
    shape = ConvShape(n=n, c=c, h=image[-2], w=image[-1], k=k, r=taps[-2], s=taps[-1], **depth,
                      padding=_padding(fields.get("padding", 0)), layout=layout,
                      **{key: fields[key] for key in _AS_THEY_ARE if key in fields})
    settings = fields.get("set", {})
    if not isinstance(settings, dict):
        raise ArgumentError("set is a table of plan values", argument="set", value=settings,
                            hint='set = {exchange = "packed"}')
    algorithm = fields.get("algorithm", "auto")
    if not isinstance(algorithm, str):
        raise ArgumentError("an algorithm is named by text", argument="algorithm", value=algorithm, hint='"auto"')
    return NamedLayer(name=name, shape=shape, epilogue=_epilogue(fields.get("epilogue", [])), algorithm=algorithm,
                      settings=settings, numerics=Numerics.of(fields.get("accumulate"), fields.get(
                          "precision", Precision.FLOAT32), "accumulate"))


def _sizes(value: Any, argument: str, names: tuple[str, ...]) -> list[Any]:
    if not isinstance(value, list) or len(value) != len(names):
        raise ArgumentError(f"{argument} is a list of {len(names)} numbers", argument=argument, value=value,
                            hint=f"[{', '.join(names)}]")
    return value


def _padding(value: Any) -> Any:
    """Four numbers are top, bottom, left, right, six (of volumes) front and back before them; all else is as ConvShape
    takes it."""
    if isinstance(value, list) and len(value) in (4, 6):
        return tuple(zip(value[::2], value[1::2]))
    return value


def _epilogue(value: Any) -> tuple[Epilogue, ...]:
    steps = [value] if isinstance(value, str) else value
    if not isinstance(steps, list):
        raise ArgumentError("epilogue is a list of steps", argument="epilogue", value=value, hint='["bias", "relu"]')
    return parse_epilogue(steps, takes_bias=True)
