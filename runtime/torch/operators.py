"""torch.ops.warpconv: conv2d, conv3d and the two gradients of each as PyTorch's dispatcher knows operators.

Each has a kernel for tensors of a GPU and of the host (``_run``), one for tensors without memory (``_shape``, for
torch.compile and torch.export), one for autocast, and one that records gradients (``autograd``). They are set with
Library.impl: torch.library's own wrappers around a gradient take twice the time of a launch.

All tensors have four axes in the order (N, C, H, W), of volumes five, (N, C, D, H, W); ``functional`` brings others
there. padding is (top, bottom, left, right), of volumes (front, back) first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.epilogue import split_steps
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.call import conv, gradients, signatures, volume
from warpconv.runtime.call.checks import MOST_LAYERS
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.call.operands import Remember
from warpconv.runtime.call.quick import Entry
from warpconv.runtime.call.recording import recording

from .arguments import LayerArguments, arguments_of
from .trained import trained

_entries: dict[tuple[Any, ...], Entry] = {}     # by the signatures of a call's tensors, and its arguments
conv.on_clear.append(_entries.clear)
FORWARD_TENSORS, GRADIENT_TENSORS = 4, 3        # arguments before a layer's: tensors (or None), and sizes of one
GEOMETRY = ("int[] stride, int[] padding, int[] dilation, int groups, str padding_mode, float padding_value, "
            "str device")
LIBRARY = torch.library.Library("warpconv", "DEF")
LIBRARY.define(f"conv2d(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, {GEOMETRY}, "
               "str epilogue, str algorithm, str? accum_dtype, str? out_dtype, str cast, bool? separable, "
               "int? workspace_limit, str precision=\"float32\") -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
LIBRARY.define(f"conv3d(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, {GEOMETRY}, "
               "str epilogue, str algorithm, str? out_dtype, str cast, str precision=\"float32\") -> Tensor",
               tags=(torch.Tag.pt2_compliant_tag,))
for _name in ("conv2d", "conv3d"):
    # sizes are tensors to torch.jit.trace, which takes them in no list: the overloads have them in one tensor
    for _overload, _sizes, _tags in (("", "SymInt[]", (torch.Tag.pt2_compliant_tag,)), (".traced", "Tensor", ())):
        LIBRARY.define(f"{_name}_input{_overload}({_sizes} input_size, Tensor weight, Tensor grad_output, {GEOMETRY}, "
                       "str precision=\"float32\") -> Tensor", tags=_tags)
        LIBRARY.define(f"{_name}_weight{_overload}(Tensor input, {_sizes} weight_size, Tensor grad_output, {GEOMETRY}, "
                       "str precision=\"float32\") -> Tensor", tags=_tags)

conv2d = torch.ops.warpconv.conv2d.default
conv2d_input = torch.ops.warpconv.conv2d_input.default
conv2d_weight = torch.ops.warpconv.conv2d_weight.default
conv3d = torch.ops.warpconv.conv3d.default
conv3d_input = torch.ops.warpconv.conv3d_input.default
conv3d_weight = torch.ops.warpconv.conv3d_weight.default


def memory_format(tensor: Tensor) -> torch.memory_format:
    """The order in memory that a tensor's convolution has: its own, where it has gaps that of its channels."""
    if tensor.is_contiguous():
        return torch.contiguous_format
    last = channels_last(tensor)
    if tensor.is_contiguous(memory_format=last):
        return last
    return last if tensor.shape[1] > 1 and tensor.stride(1) == 1 else torch.contiguous_format


def channels_last(tensor: Tensor) -> torch.memory_format:
    """The order of a tensor's axes with the channels last."""
    return torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d


def _dense(tensor: Tensor) -> bool:
    return tensor.is_contiguous() or tensor.is_contiguous(memory_format=channels_last(tensor))


@functools.cache
def _listed(epilogue: str) -> tuple[str, ...]:
    """The steps of an epilogue that is written as one text, since lists of texts cannot be traced."""
    return tuple(split_steps(epilogue))


def _sides(padding: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The two sides of each axis."""
    return tuple((padding[at], padding[at + 1]) for at in range(0, len(padding), 2))


# ---- memory

def run_conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
               layer: LayerArguments) -> Tensor:
    signed = None if recording.graph is not None else signatures.sign_call(input, weight, bias, residual, None)
    entry = None if signed is None else _entries.get((signed, layer))
    if entry is not None and (made := entry.repeat(input, weight, bias, residual, None, None)) is not None:
        return made
    (stride, padding, dilation, groups, padding_mode, padding_value, device, epilogue, algorithm, accum_dtype,
     out_dtype, cast, separable, workspace_limit, precision) = layer.rest
    if not input.shape[0]:
        return _no_images(input, weight, stride, padding, dilation, groups, padding_mode, out_dtype)
    input, weight = input.resolve_neg(), weight.resolve_neg()       # of complex tensors' parts
    dense = _dense(input)
    # a tensor with gaps may come back in either order, by what is quicker: the compilers were told which
    out = None if dense else _output(input, weight, stride, padding, dilation, out_dtype)
    kernel, made = conv.conv2d_and_kernel(
        input, weight, bias=bias, stride=stride, padding=_sides(padding), dilation=dilation,
        groups=groups, padding_mode=padding_mode, padding_value=padding_value, epilogue=_listed(epilogue),
        algorithm=algorithm, layout="NCHW", accum_dtype=accum_dtype, out_dtype=out_dtype, cast=cast, device=device,
        separable=separable, residual=residual, out=out, stream=None, workspace_limit=workspace_limit,
        precision=precision)
    if dense:
        _remember(signed, layer, kernel)
    return made


def _remember(signed: Any, layer: LayerArguments, kernel: Kernel) -> None:
    """A call for its next time, by the signatures of its tensors."""
    if signed is not None and (entry := kernel.remembered(signed)) is not None:
        _keep((signed, layer), entry)


def _keep(key: tuple[Any, ...], entry: Entry) -> None:
    """``key`` ends in the layer's arguments."""
    if key[-1].kept and env.settings().templates is None:
        if len(_entries) >= MOST_LAYERS:
            _entries.clear()
        _entries[key] = entry


def _made_before(kind: str, first: Tensor, second: Tensor | None, sizes: Sequence[int],
                 layer: LayerArguments) -> tuple[Remember | None, Tensor | None]:
    """What remembers a gradient of a ``kind`` made of one tensor or two, None where it cannot be remembered; and the
    gradient if one of such tensors is."""
    signed = None if recording.graph is not None else signatures.sign_call(first, second, None, None, None)
    if signed is None:
        return None, None
    key = (signed, kind, tuple(sizes), layer)
    entry = _entries.get(key)
    made = None if entry is None else entry.repeat(first, second, None, None, None, None)
    return functools.partial(_keep, key), made


def _gradients_of(calls: Any) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The data and the filter gradient of a layer, by the two functions of a module for its number of axes."""
    def run_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, layer: LayerArguments) -> Tensor:
        grad, weight = _settled(grad_output), weight.resolve_neg()
        remember, made = _made_before("data", grad, weight, input_size, layer)
        if made is not None:
            return made
        if not input_size[0]:
            return _shape_input(input_size, weight, grad_output)
        stride, padding, dilation, groups, padding_mode, _, device, precision = layer.as_gradient
        return calls.data_gradient(     # type: ignore[no-any-return]
            tuple(input_size), weight, grad, stride, _sides(padding), dilation, groups, padding_mode, device=device,
            precision=precision, remember=remember)

    def run_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, layer: LayerArguments) -> Tensor:
        trained.count += 1
        x, grad_output = _settled(input), grad_output.resolve_neg()
        remember, made = _made_before("filter", x, grad_output, weight_size, layer)
        if made is not None:
            return made
        if not input.shape[0]:
            return _shape_weight(input, weight_size, grad_output).zero_()
        stride, padding, dilation, groups, padding_mode, padding_value, device, precision = layer.as_gradient
        return calls.filter_gradient(       # type: ignore[no-any-return]
            x, tuple(weight_size), grad_output, stride, _sides(padding), dilation, groups, padding_mode, padding_value,
            device=device, precision=precision, remember=remember)

    return run_input, run_weight


def run_bias(grad_output: Tensor, layer: LayerArguments) -> Tensor:
    """The gradient of a bias, in ``grad_output``'s type, which is summed over all axes but the channels."""
    grad = _settled(grad_output)
    if grad.dim() > 4:              # a volume's planes below each other
        grad = grad.flatten(2, -2)
    remember, made = _made_before("bias", grad, None, (), layer)
    if made is None:
        made = gradients.bias_gradient(grad, device=layer.geometry[-1], remember=remember)
    return made


run_conv2d_input, run_conv2d_weight = _gradients_of(gradients)
run_conv3d_input, run_conv3d_weight = _gradients_of(volume)


def run_conv3d(input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
               layer: LayerArguments) -> Tensor:
    signed = None if recording.graph is not None else signatures.sign_call(input, weight, bias, residual, None)
    entry = None if signed is None else _entries.get((signed, layer))
    if entry is not None and (made := entry.repeat(input, weight, bias, residual, None, None)) is not None:
        return made
    (stride, padding, dilation, groups, padding_mode, padding_value, device, epilogue, algorithm, out_dtype, cast,
     precision) = layer.rest
    if not input.shape[0]:
        return _no_images(input, weight, stride, padding, dilation, groups, padding_mode, out_dtype)
    input, weight = input.resolve_neg(), weight.resolve_neg()       # of complex tensors' parts
    dense = _dense(input)
    out = None if dense else _output(input, weight, stride, padding, dilation, out_dtype)
    kernel, made = volume.conv3d_and_kernel(
        input, weight, bias=bias, stride=stride, padding=_sides(padding), dilation=dilation,
        groups=groups, padding_mode=padding_mode, padding_value=padding_value, epilogue=_listed(epilogue),
        algorithm=algorithm, layout=Layout.NCHW, out_dtype=out_dtype, cast=cast, device=device, residual=residual,
        out=out, stream=None, precision=precision)
    if dense:
        _remember(signed, layer, kernel)
    return made


def count_of(op: Any, tensors: int) -> int:
    """An operator's arguments behind its ``tensors`` (or sizes)."""
    return len(op._schema.arguments) - tensors


def _dispatched(run: Callable[..., Tensor], op: Any, tensors: int) -> Callable[..., Tensor]:
    """The same as PyTorch calls it, with the arguments behind the ``tensors`` (or sizes) one by one."""
    count = count_of(op, tensors)

    def call(*args: Any) -> Tensor:
        return run(*args[:tensors], arguments_of(args[tensors:], count))

    return call


def _no_images(input: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
               groups: int, padding_mode: str, out_dtype: str | None) -> Tensor:
    """The output of a batch of no images, which PyTorch's layers take. Raises ShapeError for what a layer of one image
    would be refused for."""
    ConvShape.of((1, *input.shape[1:]), tuple(weight.shape), stride=tuple(stride), padding=_sides(padding),
                 dilation=tuple(dilation), groups=groups, padding_mode=padding_mode)
    return _output(input, weight, stride, padding, dilation, out_dtype)


def _settled(tensor: Tensor) -> Tensor:
    """The tensor without gaps, in the order that ``memory_format`` tells, and without PyTorch's mark that memory holds
    the elements with the opposite sign."""
    tensor = tensor.resolve_neg()
    return tensor if _dense(tensor) else tensor.contiguous(memory_format=memory_format(tensor))


# ---- shapes

def _output(input: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
            out_dtype: str | None) -> Tensor:
    """An empty output of a layer of any number of axes."""
    sizes = [(size + sum(sides) - apart * (taps - 1) - 1) // step + 1 for size, taps, step, sides, apart in zip(
        input.shape[2:], weight.shape[2:], stride, _sides(padding), dilation)]
    if any(type(size) is int and size < 1 for size in sizes):       # others are not known yet
        raise ShapeError(f"empty output: {' x '.join(map(str, sizes))}", argument="input", value=tuple(input.shape),
                         hint="enlarge the padding or use a smaller filter")
    return torch.empty((input.shape[0], weight.shape[0], *sizes),
                       dtype=input.dtype if out_dtype is None else getattr(torch, out_dtype), device=input.device,
                       memory_format=memory_format(input))


def _shape_conv2d(input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, stride: list[int],
                  padding: list[int], dilation: list[int], groups: int, padding_mode: str, padding_value: float,
                  device: str, epilogue: str, algorithm: str, accum_dtype: str | None,
                  out_dtype: str | None, *_: Any) -> Tensor:
    return _output(input, weight, stride, padding, dilation, out_dtype)


def _shape_conv3d(input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, stride: list[int],
                  padding: list[int], dilation: list[int], groups: int, padding_mode: str, padding_value: float,
                  device: str, epilogue: str, algorithm: str, out_dtype: str | None, *_: Any) -> Tensor:
    return _output(input, weight, stride, padding, dilation, out_dtype)


def _shape_input(input_size: Sequence[Any], weight: Tensor, grad_output: Tensor, *_: Any) -> Tensor:
    return torch.empty(input_size, dtype=grad_output.dtype, device=grad_output.device,
                       memory_format=memory_format(grad_output))


def _shape_weight(input: Tensor, weight_size: Sequence[Any], grad_output: Tensor, *_: Any) -> Tensor:
    return torch.empty(weight_size, dtype=input.dtype, device=input.device)


def _by_sizes(op: Any, at: int) -> Callable[..., Tensor]:
    """An operator's overload: it reads the sizes, argument ``at``, from their tensor."""
    def run(*args: Any) -> Tensor:
        made: Tensor = op(*args[:at], args[at].tolist(), *args[at + 1:])
        return made

    return run


# ---- casts

def _cast(op: Any, kind: str) -> Callable[..., Tensor]:
    """A forward layer for tensors of a device type while autocast is on: floating-point tensors in its type, as torch's
    own."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU if kind == "cpu"
                                   else torch._C.DispatchKey.AutocastCUDA)

    def run(input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, *rest: Any) -> Tensor:
        tensors = cast_tensors(kind, input, weight, bias, residual)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op(*tensors, *rest)

    return run


def cast_tensors(kind: str, input: Tensor, *more: Tensor | None) -> tuple[Tensor | None, ...]:
    """The tensors of a call in autocast's type for their device; integers, float64 and what goes with them as they
    are."""
    dtype = torch.get_autocast_dtype(kind)
    if input.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return input, *more
    return tuple(tensor if tensor is None or tensor.dtype is dtype or not tensor.is_floating_point()
                 else tensor.to(dtype) for tensor in (input, *more))


for _op, _op_input, _op_weight, _run, _run_input, _run_weight, _shape in (
        (conv2d, conv2d_input, conv2d_weight, run_conv2d, run_conv2d_input, run_conv2d_weight, _shape_conv2d),
        (conv3d, conv3d_input, conv3d_weight, run_conv3d, run_conv3d_input, run_conv3d_weight, _shape_conv3d)):
    _name = _op.name().removeprefix("warpconv::")
    for _device in ("CPU", "CUDA"):
        LIBRARY.impl(_name, _dispatched(_run, _op, FORWARD_TENSORS), _device)
        LIBRARY.impl(f"{_name}_input", _dispatched(_run_input, _op_input, GRADIENT_TENSORS), _device)
        LIBRARY.impl(f"{_name}_weight", _dispatched(_run_weight, _op_weight, GRADIENT_TENSORS), _device)
        LIBRARY.impl(_name, _cast(_op, _device.lower()), f"Autocast{_device}")
    torch.library.register_fake(f"warpconv::{_name}", _shape, lib=LIBRARY)
    torch.library.register_fake(f"warpconv::{_name}_input", _shape_input, lib=LIBRARY)
    torch.library.register_fake(f"warpconv::{_name}_weight", _shape_weight, lib=LIBRARY)
    for _sized, _at in ((f"{_name}_input", 0), (f"{_name}_weight", 1)):
        LIBRARY.impl(f"{_sized}.traced", _by_sizes(getattr(torch.ops.warpconv, _sized).default, _at),
                     "CompositeImplicitAutograd")

from . import autograd  # noqa: E402,F401 - it adds the gradients of the operators that stand here
