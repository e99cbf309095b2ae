"""PyTorch's convolution layers, computed by warpconv: subclasses with the same arguments and state."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.fx import Proxy

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.arrays.readers import torch_element
from warpconv.runtime.call.conv import conv2d
from warpconv.runtime.call.filter import Filter
from warpconv.runtime.call.line import conv1d, conv_transpose1d
from warpconv.runtime.call.transposed import check_output_padding
from warpconv.runtime.call.volume import conv3d
from warpconv.runtime.call.watched import wants_grad
from warpconv.runtime.call.way import way_of
from warpconv.runtime.torch import functional, layers
from warpconv.runtime.torch.prepared import Prepared

from .sizes import CAST, along

_NOT_KEPT = "_warpconv_prepared"        # made anew where it is missing
# Filters that CUDA graphs read, as long as the layer lives, whatever its class becomes; no state of a layer has them.
_read_by_graphs: WeakKeyDictionary[torch.nn.Module, list[Filter]] = WeakKeyDictionary()


class _Layer(torch.nn.Module):
    """What the layers share: weights prepared for inference, and left behind by copies and files. ``precision`` is
    conv2d's, of the forward pass and of the gradients, which have the default where it is 'tf32x3' or 'fp16x3'. It may
    be set on a layer, and is part of no state."""

    precision: str = "float32"

    def forget_prepared(self) -> None:
        """Prepare the weight again at the next call: needed after a change that PyTorch does not count, which is one
        through ``weight.data``."""
        self.__dict__.pop(_NOT_KEPT, None)

    def train(self, mode: bool = True) -> Any:
        """As PyTorch's; what was prepared is forgotten, as steps of optimizers with ``fused=True``, and those that a
        CUDA graph replays, change weights without counting it."""
        self.forget_prepared()
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _NOT_KEPT}

    def __prepare_scriptable__(self) -> Any:
        """What torch.jit.script asks before it reads a module."""
        raise ArgumentTypeError("torch.jit.script does not take warpconv's layers", argument="obj",
                                value=type(self).__name__, hint="torch.jit.trace, torch.export, or "
                                "warpconv.torch.restore(model) before it is scripted")

    def _recorded(self, input: Proxy, *more: Any) -> Any:
        """One call of the layer in the graph that torch.fx draws; where the layer is the whole of what is traced, and
        has no name there, one of the function."""
        tracer: Any = input.tracer
        try:
            name = tracer.path_of_module(self)
        except NameError:
            name = ""
        if name:
            return tracer.create_proxy("call_module", name, (input, *more), {})
        if any(value is not None for value in more):
            raise ArgumentError("a layer traced by itself has no output_size", argument="output_size", value=more[0],
                                hint="a module that has the layer, or concrete_args={'output_size': None}")
        function, args, named = self._call()
        return tracer.create_proxy("call_function", function, (input, self.weight, self.bias, *args), named)

    def _call(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The function that the layer is, its arguments behind the bias, and those by name."""
        raise NotImplementedError


class _Forward(_Layer):
    """Layers whose forward is a convolution. ``frozen`` says that the weight does not change any more: CUDA graphs that
    are recorded in eval mode, behind a call, then read the prepared weight, and do not see a later change. It may be
    set on a layer, and is part of no state."""

    frozen: bool = False
    _function: Any
    _more: dict[str, Any] = {}

    def _geometry(self) -> tuple[Any, ...]:
        """(stride, padding, dilation, groups, padding_mode, precision) of the layer."""
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Proxy):
            return self._recorded(input)        # type: ignore[no-any-return]
        parameters = self._parameters
        # a bias that is pruned, parametrized or a buffer is an attribute of another kind, and no parameter
        if (not self.training and "bias" in parameters and not torch.compiler.is_compiling()
                and not has_own_conv_forward(self)):
            weight, bias = parameters.get("weight"), parameters["bias"]
            if Prepared.serves(input, weight, bias):
                geometry, kept = self._geometry(), self.__dict__.get(_NOT_KEPT)
                if kept is None or kept[:2] != (geometry, self.frozen):
                    recorded = _read_by_graphs.setdefault(self, []) if self.frozen else None
                    kept = self.__dict__[_NOT_KEPT] = geometry, self.frozen, Prepared(self.frozen, recorded)
                return self._by(kept[2], input, weight, bias, geometry)
        if not torch.compiler.is_compiling():
            self.forget_prepared()              # a step of an optimizer may follow
        return self._conv_forward(input, self.weight, self.bias)

    def _by(self, call: Any, input: Tensor, weight: Tensor, bias: Tensor | None, geometry: tuple[Any, ...]) -> Tensor:
        *more, precision = geometry
        return call(input, weight, bias, *more, _precision(precision, input))       # type: ignore[no-any-return]

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        _check_types(input, weight)
        return self._by(_conv2d, _plain(input), weight, bias, self._geometry())

    def _call(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        *args, padding_mode, _ = self._geometry()
        return self._function, tuple(args), {"padding_mode": padding_mode, "precision": self.precision, **self._more}


class Conv2d(_Forward, torch.nn.Conv2d):
    """torch.nn.Conv2d by kernels specialised to the layer, forward and backward; borders are made by the kernel."""

    _function = staticmethod(conv2d)
    _more = {"separable": False}

    def _geometry(self) -> tuple[Any, ...]:
        stride, padding, dilation = (tuple(each) if type(each) is list else each        # which may change
                                     for each in (self.stride, self.padding, self.dilation))
        return stride, padding, dilation, self.groups, self.padding_mode, self.precision


class Conv1d(_Forward, torch.nn.Conv1d):
    """torch.nn.Conv1d as a plane of one row or column. ``padding`` may be 'causal', too: dilation * (kernel_size - 1)
    on the left, none on the right."""

    _function = staticmethod(conv1d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 *args: Any, **named: Any):
        causal = padding == "causal"        # a name that PyTorch's own refuses
        super().__init__(in_channels, out_channels, kernel_size, stride, 0 if causal else padding, *args, **named)
        if causal:
            self.padding = padding

    def stream(self, input: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The outputs of a chunk behind the state that the call for the chunk before returned (None: the first), and
        the next state; for padding 'causal' and stride 1. Raises as warpconv.conv1d does."""
        if self.padding != "causal" or along(self.stride, 1) != (1,) or self.padding_mode != "zeros":
            raise ArgumentError("chunks are for causal layers of stride 1 with zeros before them", argument="padding",
                                value=f"{self.padding!r}, stride={self.stride!r}, padding_mode={self.padding_mode!r}",
                                hint="Conv1d(..., padding='causal')")
        _check_types(input, self.weight)
        made: tuple[Tensor, Tensor] = conv1d(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups,
            padding_mode=self.padding_mode, precision=_precision(self.precision, input), state=state,
            return_state=True)
        return made

    def _geometry(self) -> tuple[Any, ...]:
        return (along(self.stride, 1), self.padding if isinstance(self.padding, str) else along(self.padding, 1),
                along(self.dilation, 1), self.groups, self.padding_mode, self.precision)

    def _by(self, call: Any, input: Tensor, weight: Tensor, bias: Tensor | None, geometry: tuple[Any, ...]) -> Tensor:
        stride, padding, dilation, *rest = geometry
        alone = input.dim() == 2
        x = input.unsqueeze(0) if alone else input
        way = way_of("NCL", x, weight.shape)
        made = way.line(super()._by(call, way.plane(x, "input"), way.weight(weight), bias, (
            way.pair(1, *stride), way.sides(padding, weight.shape[2], dilation[0]), way.pair(1, *dilation), *rest)))
        return made.squeeze(0) if alone else made


class Conv3d(_Layer, torch.nn.Conv3d):
    """torch.nn.Conv3d by kernels for volumes, forward and backward; borders are made by the kernel. Weights are put in
    order by each call."""

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, Proxy):
            return self._recorded(input)        # type: ignore[no-any-return]
        return self._conv_forward(input, self.weight, self.bias)

    def _call(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return (conv3d, (self.stride, self.padding, self.dilation, self.groups),
                {"padding_mode": self.padding_mode, "precision": self.precision})

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        _check_types(input, weight)
        made: Tensor = conv3d(_plain(input), weight, bias, self.stride, self.padding, self.dilation, self.groups,
                              padding_mode=self.padding_mode, precision=_precision(self.precision, input))
        return made


class _Transposed(_Layer):
    """Layers by the kernels of a layer's data gradient."""

    _function: Any

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        if isinstance(input, Proxy):
            return self._recorded(input, output_size)       # type: ignore[no-any-return]
        _check_types(input, self.weight)
        axes = len(self.kernel_size)
        stride, padding, dilation = (along(each, axes) for each in (self.stride, self.padding, self.dilation))
        more = self._output_padding(input, output_size, stride, padding, self.kernel_size, axes, dilation)
        return self._by(_plain(input), tuple(more))

    def _by(self, input: Tensor, more: tuple[int, ...]) -> Tensor:
        """The layer with an output_padding."""
        made: Tensor = self._function(input, self.weight, self.bias, self.stride, self.padding, more, self.groups,
                                      self.dilation, precision=_precision(self.precision, input))
        return made

    def _call(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return (self._function, (self.stride, self.padding, self.output_padding, self.groups, self.dilation),
                {"precision": self.precision})


class ConvTranspose2d(_Transposed, torch.nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d by the kernels of a layer's data gradient."""

    _function = staticmethod(functional.conv_transpose2d)


class ConvTranspose3d(_Transposed, torch.nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d by the kernels of a layer's data gradient."""

    _function = staticmethod(functional.conv_transpose3d)


class ConvTranspose1d(_Transposed, torch.nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d as a plane of one row."""

    _function = staticmethod(conv_transpose1d)

    def _by(self, input: Tensor, more: tuple[int, ...]) -> Tensor:
        if input.dim() not in (2, 3):
            raise ShapeError(f"input has {input.dim()} axes, 2 or 3 are needed", argument="input",
                             value=tuple(input.shape), hint="(N, C, L), or (C, L)")
        stride, padding, dilation = (along(value, 1) for value in (self.stride, self.padding, self.dilation))
        check_output_padding(more, more, stride, padding)       # of one axis, which the plane below has not alone
        made = functional.conv_transpose2d(input.unsqueeze(-2), self.weight.unsqueeze(-2), self.bias, (1, *stride),
                                           (0, *padding), (0, *more), self.groups, (1, *dilation),
                                           precision=_precision(self.precision, input))
        return made.squeeze(-2)


def has_own_conv_forward(layer: torch.nn.Module) -> bool:
    """Whether ``_conv_forward`` is not the class's own but somebody's, of a class derived from it or of the layer."""
    return "_conv_forward" in layer.__dict__ or type(layer)._conv_forward is not _Forward._conv_forward     # type: ignore


def _precision(precision: str, input: Tensor) -> str:
    """A layer's, which is a choice for elements of float32: 16-bit ones, of which autocast makes its input, have but
    one."""
    if precision == "float32" or input.dtype is torch.float32 and not torch.is_autocast_enabled(input.device.type):
        return precision
    return "float32"


def _plain(input: Tensor) -> Tensor:
    """The input without PyTorch's mark that memory holds the elements with the opposite sign (``z.conj().imag``)."""
    return input if torch.compiler.is_compiling() else input.resolve_neg()


def _check_types(input: Any, weight: Tensor) -> None:
    """Raises ArgumentTypeError for an input of another type than the weight's: the functions have a meaning for pixels
    by floating-point filters, whose outputs are pixels again, and PyTorch's layers have none. Autocast brings
    floating-point tensors to its own type."""
    if not isinstance(input, Tensor):
        raise ArgumentTypeError("a layer takes a tensor", argument="input", value=type(input).__name__,
                                hint="torch.as_tensor(...)")
    given, wanted, place = input.dtype, weight.dtype, input.device.type
    if given is wanted or (given in CAST and wanted in CAST and place in ("cpu", "cuda")
                           and torch.is_autocast_enabled(place)):
        return
    _refuse(given, wanted, input.is_quantized)


@torch.compiler.assume_constant_result
def _refuse(given: torch.dtype, wanted: torch.dtype, quantised: bool) -> None:
    """Raises ArgumentTypeError, out of torch.compile, too, which cannot follow an exception of our own."""
    if given.is_complex or quantised:       # no cast to the weight's type keeps what they hold
        torch_element(given, "input")
    other = f", or layer.to({given})" if given in CAST else ""
    raise ArgumentTypeError(f"a layer's input is of its weight's type, which is {wanted}", argument="input",
                            value=given, hint=f"input.to({wanted}){other}")


def _conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int,
            padding_mode: str, precision: str) -> Tensor:
    made: Tensor
    if wants_grad(torch, input, weight, bias):
        return layers.conv2d(input, weight, bias, stride, padding, dilation, groups, padding_mode, precision)
    made = conv2d(input, weight, bias, stride, padding, dilation, groups, padding_mode=padding_mode, separable=False,
                  precision=precision)
    return made


for _layer in (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d):
    _layer.__module__ = "warpconv.torch"        # where pickles look them up
