"""What a model's layers are called with, and their shapes as warpconv has them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentTypeError, WarpconvError
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.arrays.readers import torch_element
from warpconv.runtime.call.transposed import check_output_padding, output_sizes
from warpconv.runtime.call.way import way_of
from warpconv.runtime.torch.operators import memory_format

CONVOLUTION = torch.nn.modules.conv._ConvNd
TRANSPOSED = torch.nn.modules.conv._ConvTransposeNd
CAST = (torch.float32, torch.float16, torch.bfloat16)       # what autocast brings to its own type
_FORMS = "a tensor, a tuple of positional arguments, or a mapping of keyword arguments"
_NO_TENSORS = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, type(None))


def inputs_of(model: torch.nn.Module, example: Any) -> dict[torch.nn.Module, list[Tensor]]:
    """The inputs of each convolution layer in one call of the model, without gradients, in eval mode: no statistics
    change. Raises ArgumentTypeError for an example that the model cannot be called with."""
    args, named = arguments(example)
    met: dict[torch.nn.Module, list[Tensor]] = {}
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, CONVOLUTION):
                hook = module.register_forward_pre_hook(_seen(met), with_kwargs=True)
                stack.callback(hook.remove)
        with evaluated(model), torch.no_grad():
            try:
                model(*args, **named)
            except WarpconvError:
                raise
            except TypeError as error:      # other arguments than it takes, or of other kinds
                raise ArgumentTypeError(f"the model cannot be called with it: {_first_line(error)}",
                                        argument="example", value=type(example).__name__, hint=_FORMS) from error
    return met


def arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the model is called with, by position and by name."""
    args: tuple[Any, ...] = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    named: dict[Any, Any] = {}
    if isinstance(example, Mapping):
        args, named = (), dict(example)
    given = (*args, *named.values())
    if given and all(isinstance(value, _NO_TENSORS) for value in given):
        raise ArgumentTypeError("there is no tensor in it to call the model with", argument="example",
                                value=type(example).__name__, hint=_FORMS)
    return args, named


def _seen(met: dict[torch.nn.Module, list[Tensor]]) -> Callable[..., None]:
    def note(layer: torch.nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        met.setdefault(layer, []).append(_cast(args[0] if args else named["input"]))

    return note


def _cast(input: Any) -> Any:
    """As autocast, where it is on, hands it to the layer."""
    if isinstance(input, Tensor) and input.dtype in CAST and input.device.type in ("cpu", "cuda") \
            and torch.is_autocast_enabled(input.device.type):
        return input.to(torch.get_autocast_dtype(input.device.type))
    return input


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@contextlib.contextmanager
def evaluated(model: torch.nn.Module) -> Iterator[None]:
    """The model in eval mode."""
    training = {module: module.training for module in model.modules()}
    try:
        try:
            model.eval()
        except NotImplementedError as error:        # what torch.export gives back
            raise ArgumentTypeError("the model has no eval mode", argument="model", value=type(model).__name__,
                                    hint="convert the model first, then export it") from error
        yield
    finally:
        for module, was in training.items():
            module.training = was


def along(value: Any, axes: int) -> tuple[Any, ...]:
    """A layer's numbers along its axes: PyTorch makes tuples of them, and takes what is set on a layer as it is."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def shape_of(module: Any, input: Tensor) -> ConvShape:
    """A layer at an input; of a transposed one, the layer whose data gradient it is. Raises ShapeError,
    ArgumentError or ArgumentTypeError for what warpconv has no kernels for."""
    axes = len(module.kernel_size)
    padding = module.padding if isinstance(module.padding, str) else along(module.padding, axes)
    planar = input.unsqueeze(0) if input.dim() == axes + 1 else input
    weight = module.weight
    stride, dilation, more = (along(value, axes) for value in (module.stride, module.dilation, module.output_padding))
    if axes == 1:
        transposed = isinstance(module, TRANSPOSED)
        way = way_of("NCL", planar, () if transposed else weight.shape)
        planar, weight = way.plane(planar, "input"), way.weight(weight)
        stride, dilation, more = way.pair(1, *stride), way.pair(1, *dilation), way.pair(0, *more)
        padding = padding if isinstance(padding, str) else way.pair(0, *padding)
    size = tuple(planar.shape)
    if isinstance(module, TRANSPOSED):
        size = (size[0], module.out_channels, *output_sizes(
            size[2:], weight.shape[2:], stride, zip(padding, padding), dilation, more))
    nhwc = memory_format(planar) is not torch.contiguous_format
    if nhwc:
        size = (size[0], *size[2:], size[1])
    return ConvShape.of(size, tuple(weight.shape), dtype=str(planar.dtype).removeprefix("torch."), stride=stride,
                        padding=padding, dilation=dilation, groups=module.groups,
                        layout=Layout.NHWC if nhwc else Layout.NCHW, padding_mode=module.padding_mode)


def unserved(module: Any, inputs: list[Tensor]) -> str | None:
    """Why there is no kernel for a layer at these inputs, whatever its plan; None where there may be one."""
    places = {tensor.device.type for tensor in (module.weight, *inputs)} - {"cpu", "cuda"}
    if places:
        return f"kernels run on GPUs and on the host, and it is on device {places.pop()}"
    try:
        if torch_element(module.weight.dtype, "weight") not in FLOATS:
            return f"a layer of {module.weight.dtype}"
        if isinstance(module, TRANSPOSED):
            axes = len(module.kernel_size)
            check_output_padding(module.output_padding, *(along(value, axes) for value in (
                module.output_padding, module.stride, module.padding)))
        for x in inputs:
            shape_of(module, x)
    except WarpconvError as error:
        return str(error)
    return None


def said(module: Any) -> str:
    """A layer in few words."""
    kernel = "x".join(map(str, module.kernel_size))
    parts = [f"{type(module).__name__} {module.in_channels}->{module.out_channels}, {kernel}"]
    for name in ("stride", "dilation"):
        numbers = along(getattr(module, name), len(module.kernel_size))
        if set(numbers) != {1}:
            parts.append(f"{name} {'x'.join(map(str, numbers))}")
    if module.groups != 1:
        parts.append("depthwise" if module.groups == module.in_channels else f"groups {module.groups}")
    return ", ".join(parts)
