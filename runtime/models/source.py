"""The one door to named layers: layers files, shipped names, ONNX models, and torchvision's models by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.runtime.layers import read_layers

from .model import Form, Model

TORCHVISION = "torchvision:"


def is_model(source: str | os.PathLike[str]) -> bool:
    """Whether what is named is a model, and no layers file."""
    name = os.fspath(source)
    return name.startswith(TORCHVISION) or name.lower().endswith(".onnx")


def read_model(source: str | os.PathLike[str], dims: Mapping[str, int] | None = None, *,
               dtype: DType | str | None = None, layout: Layout | str | None = None) -> Model:
    """The layers of a model, or of a layers file.

    Parameters
    ----------
    source : path or str
        A file that ends in .onnx; ``torchvision:NAME``, a model of torchvision by its name there; a layers file
        (.toml or .json), or a shipped one by its bare name.
    dims : mapping of str to int, optional
        Sizes that the model leaves open, by their names in the file ("batch"), or as INPUT.AXIS where they have none;
        of a torchvision model ``batch`` (1), ``height`` and ``width`` (224).
    dtype : DType or str, optional
        float32, float16 or bfloat16: a model's floating-point layers become layers of this type, for an engine that
        converts it.
    layout : Layout or str, optional
        "NCHW" or "NHWC": the order of arrays in memory that a model's kernels are made for; "NCHW" if None.

    Returns
    -------
    Model
        A sequence of NamedLayer, each also by its name or node; ``left_out``: convolutions that no kernel serves.

    Raises
    ------
    FileError
        The file cannot be read, or is no model.
    ToolNotFound
        The package that reads it is not installed.
    ArgumentError, ShapeError, ArgumentTypeError
        Sizes that stay open, and values that a layer cannot have.
    """
    try:
        name = os.fspath(source)
    except TypeError:
        raise ArgumentTypeError("a model is named by its path", argument="source", value=source,
                                hint="warpconv.layers_of(module, example_inputs) takes a PyTorch module") from None
    if name.startswith(TORCHVISION):
        from .torch import read_torchvision
        return read_torchvision(name.removeprefix(TORCHVISION), dims, Form.of(dtype, layout))
    if is_model(name):
        from .onnx import read_onnx
        return read_onnx(name, dims, Form.of(dtype, layout))
    given: dict[str, Any] = {"dims": dims, "dtype": dtype, "layout": layout}
    for argument, value in given.items():
        if value:
            raise ArgumentError("this is for models; a layers file has its own", argument=argument, value=value,
                                hint="write it in the file")
    return Model(name, read_layers(name), is_model=False)
