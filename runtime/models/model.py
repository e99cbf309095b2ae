"""What a model comes to: named layers, what is folded into each, and the nodes that are left out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.runtime.layers import NamedLayer, same_kernel

LONGEST_NAME = 80


@dataclass(frozen=True)
class Arrays:
    """What a layer's kernel is called with beside its input, after folding: NumPy arrays in the types that the kernel
    takes; None for a bias that there is none of."""

    weight: Any         # (K, C/groups, R, S), of volumes (K, C/groups, T, R, S)
    bias: Any = None    # (K,); of a transposed layer (C,)


@dataclass(frozen=True, kw_only=True)
class ModelLayer(NamedLayer):
    """A convolution of a model.

    Attributes
    ----------
    node : str
        What the model calls it; ``name`` is that in the letters of a layer's name.
    op : str
        The operation, by ONNX's name: Conv, ConvTranspose, ConvInteger or QLinearConv.
    axes : int
        Spatial axes of the model's arrays, 1 to 3; a layer of one is planned as a plane of one row.
    input, residual, output : str
        The model's names of the arrays that the kernel reads and writes; ``residual`` is empty where nothing is added.
    folded : tuple of str
        The nodes that the kernel does too: following ones by its epilogue or its filter, and those that quantise.
    inner : tuple of str
        The model's names of the values between, the convolution's own first: nobody else sees them.
    pads : str
        How the padding follows from the input's sizes: 'SAME_UPPER' or 'SAME_LOWER' of a stride, 'sizes' where it is
        right for the layer's own alone; empty where it does not.
    constant : bool
        Whether the model holds the filter, so that ``arrays`` can give it.
    """

    node: str = ""
    op: str = "Conv"
    axes: int = 2
    input: str = ""
    residual: str = ""
    output: str = ""
    folded: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    pads: str = ""
    read: Callable[[], Arrays] | None = field(default=None, compare=False, repr=False)

    @property
    def constant(self) -> bool:
        """Whether the model holds the filter."""
        return self.read is not None

    def arrays(self) -> Arrays:
        """The filter and the bias that the kernel takes, with what was folded into them.

        Returns
        -------
        Arrays
            ``weight`` (K, C/groups, R, S), of volumes (K, C/groups, T, R, S), and ``bias`` (K,) or None, NumPy arrays
            of the layer's types.

        Raises
        ------
        ArgumentError
            The filter is computed by the model, or drawn.
        FileError
            The model's data cannot be read.
        """
        if self.read is None:
            raise ArgumentError("the model does not hold this layer's filter", argument="layer", value=self.node,
                                hint="give it at the call: pack.conv(name)(x, weight)")
        return self.read()


@dataclass(frozen=True)
class LeftOut:
    """A convolution that no kernel serves, and why."""

    node: str
    op: str
    reason: str


@dataclass(frozen=True, repr=False)
class Model(Sequence[NamedLayer]):
    """The layers of a model or of a layers file, in their order; a sequence of them, each also by its name or node.

    ``left_out``: the convolutions that could not become layers; ``is_model``: whether they are a model's, and no layers
    file's.
    """

    source: str
    layers: tuple[NamedLayer, ...]
    left_out: tuple[LeftOut, ...] = ()
    is_model: bool = True

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[NamedLayer]:
        return iter(self.layers)

    @overload
    def __getitem__(self, key: int) -> NamedLayer: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[NamedLayer, ...]: ...
    @overload
    def __getitem__(self, key: str) -> NamedLayer: ...

    def __getitem__(self, key: Any) -> Any:
        """By number, or by name or node. Raises IndexError, or ArgumentError where there is no such layer."""
        if not isinstance(key, str):
            return self.layers[key]
        found = [layer for layer in self.layers if layer.name == key]
        found = found or [layer for layer in self.layers if getattr(layer, "node", None) == key]
        if len(found) > 1:
            raise ArgumentError(f"{self.source} has several layers of this node", argument="layer", value=key,
                                hint=f"by their names: {', '.join(layer.name for layer in found)}")
        if not found:
            some = ", ".join(layer.name for layer in self.layers[:12])
            raise ArgumentError(f"{self.source} has no such layer", argument="layer", value=key,
                                hint=f"it has {some}{', ...' if len(self.layers) > 12 else ''}")
        return found[0]

    def __repr__(self) -> str:
        left = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"<warpconv.Model {self.source}: {len(self.layers)} layers{left}>"


@dataclass(frozen=True)
class Form:
    """What an engine converts a model to: floating-point arrays of another type, another order of them in memory; None
    for what stays as the model has it."""

    dtype: DType | None = None
    layout: Layout = Layout.NCHW

    @classmethod
    def of(cls, dtype: DType | str | None = None, layout: Layout | str | None = None) -> Form:
        """As people write it. Raises ArgumentError for no such type or order."""
        wanted = None if dtype is None else DType.parse(dtype)
        if wanted is not None and not wanted.is_float:
            raise ArgumentError("a model's layers are converted to floating-point types alone", argument="dtype",
                                value=wanted.value,
                                hint="float32, float16 or bfloat16; quantize the model for integers")
        return cls(wanted, Layout.NCHW if layout is None else Layout.parse(layout))


AS_IT_IS = Form()


def check_dims(dims: Mapping[str, int]) -> None:
    """Raises ArgumentTypeError for what are no sizes by their names, ArgumentError for a size that is none."""
    if not isinstance(dims, Mapping):
        raise ArgumentTypeError("sizes are given by their names", argument="dims", value=type(dims).__name__,
                                hint="a mapping: {'batch': 8}")
    for name, size in dims.items():
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
            raise ArgumentError("a size is a whole number of at least 1", argument=f"dim {name}", value=size)


def in_type(array: Any, dtype: DType) -> Any:
    """A NumPy array with elements of a type, C-contiguous; bfloat16 is ml_dtypes'."""
    import numpy as np
    from warpconv.runtime.arrays.elements import numpy_dtype
    return np.ascontiguousarray(array, dtype=numpy_dtype(dtype))


def planar(weight: Any) -> Any:
    """A filter of one spatial axis as one of a row."""
    return weight[:, :, None, :] if weight.ndim == 3 else weight


def names_of(labels: Iterable[str]) -> list[str]:
    """For each label a layer's name, no two alike: the letters that a name may have, the end of what is too long."""
    made: list[str] = []
    taken: set[str] = set()
    for label in labels:
        text = re.sub(r"[^A-Za-z0-9_.-]+", "_", label).strip("_.-") or "layer"
        if len(text) > LONGEST_NAME:
            digest = hashlib.blake2b(label.encode(), digest_size=4).hexdigest()
            text = f"{digest}-{text[-LONGEST_NAME + 9:].lstrip('_.-')}"
        name, number = text, 2
        while name in taken:
            end = f"_{number}"
            name, number = text[:LONGEST_NAME - len(end)] + end, number + 1
        taken.add(name)
        made.append(name)
    return made


def alike(layers: Iterable[NamedLayer]) -> list[tuple[NamedLayer, int]]:
    """Each layer that differs from those before it, and how often it stands there."""
    counted: dict[tuple[Any, ...], list[Any]] = {}
    for layer in layers:
        counted.setdefault(same_kernel(layer), [layer, 0])[1] += 1
    return [(layer, times) for layer, times in counted.values()]
