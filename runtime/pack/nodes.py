"""What a pack says of a model's nodes beside its kernels, and the filters and biases that were asked for with them.

    manifest.json   nodes: layer -> node, op, axes, input, residual, output, folded, arrays
    arrays/SHA256   the elements of one array, C-contiguous, little endian; alike ones are there once
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, FileError
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.models.geometry import SAME

from .format import LARGEST_FILE, Tree, array_bytes, file_record

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEXTS = ("node", "op", "input", "residual", "output")
_LONGEST = 1000         # characters of a name
_MOST = 64              # nodes folded into one


@dataclass(frozen=True, kw_only=True)
class ArrayRecord:
    """One array: its file's digest and bytes, its sizes and elements."""

    sha256: str
    size: int
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """A model's node: what it is called there, the arrays that its kernel reads and writes, what is folded into it."""

    node: str
    op: str
    axes: int
    input: str = ""
    residual: str = ""
    output: str = ""
    folded: tuple[str, ...] = ()
    pads: str = ""          # how padding follows from the input's sizes: as ModelLayer's
    arrays: Mapping[str, ArrayRecord] = field(default_factory=dict)


def node_meta(layer: NamedLayer) -> dict[str, Any] | None:
    """A model's layer as the manifest has it, without arrays; None for a layer of no model."""
    node = getattr(layer, "node", None)
    if node is None:
        return None
    return {**{name: getattr(layer, name)[:_LONGEST] for name in _TEXTS}, "axes": layer.axes,   # type: ignore[attr-defined]
            "pads": layer.pads,                                                                 # type: ignore[attr-defined]
            "folded": [text[:_LONGEST] for text in layer.folded[:_MOST]], "arrays": {}}         # type: ignore[attr-defined]


def with_arrays(layer: NamedLayer, meta: dict[str, Any], store: Callable[[str, bytes], None]) -> dict[str, Any]:
    """The record with the layer's filter and bias, each given to ``store`` by its digest. Raises FileError where the
    model's data cannot be read, or are too large for a pack."""
    import numpy as np
    if getattr(layer, "read", None) is None:
        return meta
    given = layer.arrays()      # type: ignore[attr-defined]
    found = {}
    for name in ("weight", "bias"):
        array = getattr(given, name)
        if array is None:
            continue
        little = np.ascontiguousarray(array)
        data = little.astype(little.dtype.newbyteorder("<")).tobytes() if little.dtype.kind in "iuf" else (
            little.tobytes())
        if len(data) > LARGEST_FILE:
            raise FileError(f"the {name} of {layer.name} has more than {LARGEST_FILE >> 20} MiB, which a pack's file "
                            "may have", argument="weights", value=len(data), hint="build without weights, and give it "
                            "at the call")
        record = file_record(data)
        dtype = layer.shape.w_dtype if name == "weight" else layer.shape.bias_dtype
        found[name] = {**record, "shape": list(array.shape), "dtype": dtype.value}
        store(record["sha256"], data)
    return {**meta, "arrays": found}


def check_holds_arrays(layers: Iterable[NamedLayer]) -> None:
    """Raises ArgumentError where no layer has a filter of a model's to keep."""
    if not any(getattr(layer, "read", None) is not None for layer in layers):
        raise ArgumentError("these layers hold no filters that a pack could keep", argument="weights", value=True,
                            hint="an ONNX model, or layers_of a module with its weights, does")


def decoded(meta: Any) -> NodeRecord:
    """A record of a manifest. Raises ValueError, LookupError or TypeError where it is none."""
    texts = {key: meta[key] for key in _TEXTS}
    folded = meta["folded"]
    if not (isinstance(folded, list) and len(folded) <= _MOST and isinstance(meta["arrays"], dict)):
        raise ValueError("what is folded into it, or its arrays, are no lists")
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in (*texts.values(), *folded)):
        raise ValueError("a name is no text, or too long")
    if meta["axes"] not in (1, 2, 3) or isinstance(meta["axes"], bool):
        raise ValueError("it has not one spatial axis, two or three")
    if not set(meta["arrays"]) <= {"weight", "bias"}:
        raise ValueError("it has other arrays than weight and bias")
    pads = meta.get("pads", "")         # packs of earlier versions have none
    if pads not in ("", "sizes", *SAME):
        raise ValueError("its padding follows from what is not known")
    return NodeRecord(**texts, axes=meta["axes"], folded=tuple(folded), pads=pads,
                      arrays={key: _array_record(one) for key, one in meta["arrays"].items()})


def _array_record(meta: Any) -> ArrayRecord:
    shape, size, digest = meta["shape"], meta["size"], meta["sha256"]
    if not (isinstance(digest, str) and _DIGEST.fullmatch(digest) and isinstance(shape, list) and 1 <= len(shape) <= 5):
        raise ValueError("an array has no digest or no sizes")
    if any(isinstance(n, bool) or not isinstance(n, int) or not 1 <= n < 2**31 for n in shape):
        raise ValueError("an array has sizes that cannot be")
    dtype = DType.parse(meta["dtype"])
    if size != math.prod(shape) * dtype.itemsize or isinstance(size, bool) or size > LARGEST_FILE:
        raise ValueError("an array's bytes are not those of its sizes")
    return ArrayRecord(sha256=digest, size=size, shape=tuple(shape), dtype=dtype)


def digests(nodes: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Digest and bytes of every array of a manifest's nodes, each once."""
    found = {one["sha256"]: one["size"] for meta in nodes.values() for one in meta["arrays"].values()}
    return iter(found.items())


def read_array(tree: Tree, record: ArrayRecord, where: str) -> Any:
    """An array as NumPy's, read and compared now. Raises PackError."""
    import numpy as np
    from warpconv.runtime.arrays import numpy_dtype
    data = array_bytes(tree, record.sha256, record.size, where)
    return np.frombuffer(data, numpy_dtype(record.dtype)).reshape(record.shape)

