"""Reading pointer, shape, strides, type and device out of each library's arrays.

No array library is imported here: one whose array is given has been imported by whoever made it, so looking into
``sys.modules`` is enough, and costs well under a microsecond.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, WarpconvError

from . import dlpack
from .streams import stream_handle
from .view import ArrayKind, ArrayView


def recognise(value: Any, argument: str, stream: int | None) -> ArrayView:
    """``value`` as a view, whoever made it; ArgumentTypeError if it is no array or has elements without kernels."""
    if isinstance(value, np.ndarray):
        return _from_numpy(value, argument)
    for module, name, read in _LIBRARIES:
        cls = _imported(module, name)
        if cls is not None and isinstance(value, cls):
            return read(value, argument)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_interface(value, interface, argument)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, argument, stream)
    raise ArgumentTypeError(f"{argument} has to be an array", argument=argument, value=type(value).__name__,
                            hint="give a NumPy, CuPy or pycuda array, a torch tensor, or an object with "
                                 "__cuda_array_interface__ or __dlpack__")


def _from_numpy(value: np.ndarray, argument: str) -> ArrayView:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError("masked arrays are not taken, since the mask would be lost", argument=argument,
                                hint="use .filled(...)")
    if isinstance(value, np.matrix):
        raise ArgumentTypeError("matrices are not taken, since they never have other than two axes", argument=argument,
                                hint="use numpy.asarray(...)")
    dtype = _numpy_element(value.dtype, argument)
    return ArrayView(ArrayKind.NUMPY, value.__array_interface__["data"][0], value.shape,
                     _in_elements(value.strides, dtype, argument), dtype, None, value, not value.flags.writeable)


def _from_torch(value: Any, argument: str) -> ArrayView:
    torch = sys.modules["torch"]
    if value.requires_grad and torch.is_grad_enabled():
        raise ArgumentTypeError("the tensor requires grad, and this call records no gradient", argument=argument,
                                hint="use .detach(), or call under torch.no_grad()")
    if _is_recorded(torch):
        raise ArgumentTypeError("PyTorch records what is called, and would record an output that nobody fills",
                                argument=argument, hint="what it can record are operators: warpconv.conv2d and its "
                                                        "like, and the layers of warpconv.torch")
    dtype = _TORCH_TYPES.get(value.dtype) or torch_element(value.dtype, argument)
    device = value.device
    if device.type not in ("cuda", "cpu"):
        raise ArgumentTypeError(f"the tensor is on device {device.type}", argument=argument,
                                hint="it has no elements: make it on a GPU or the host" if device.type == "meta"
                                else "move it with .cuda() or .cpu()")
    try:
        pointer, strides = value.data_ptr(), tuple(value.stride())
    except RuntimeError as error:       # sparse, quantised, fake and wrapped tensors have no plain memory
        raise ArgumentTypeError(f"the tensor has no plain memory ({str(error).splitlines()[0]})", argument=argument,
                                hint="give a dense tensor; batched gradients and torch.func's vmap of what is no "
                                     "operator make such ones: is_grads_batched=False, vectorize=False") from error
    if value.is_neg():      # torch.imag(z.conj()): memory holds the elements with the opposite sign
        raise ArgumentTypeError("the tensor is a lazy negation", argument=argument, hint="use .resolve_neg()")
    ordinal = None if device.type == "cpu" else _torch_ordinal(device)
    return ArrayView(ArrayKind.TORCH, pointer, tuple(value.shape), strides, dtype, ordinal, value, False)


def _is_recorded(torch: Any) -> bool:
    """Whether torch.jit.trace or make_fx writes calls down. Other modes, as that which counts operations, only look."""
    if torch._C._get_tracing_state() is not None:
        return True
    if not torch._C._len_torch_dispatch_stack():
        return False
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return proxies is not None and proxies.get_proxy_mode() is not None


def _from_cupy(value: Any, argument: str) -> ArrayView:
    dtype = _numpy_element(value.dtype, argument)
    return ArrayView(ArrayKind.CUPY, value.data.ptr, tuple(value.shape), _in_elements(value.strides, dtype, argument),
                     dtype, value.device.id, value, False)


def _from_pycuda(value: Any, argument: str) -> ArrayView:
    dtype = _numpy_element(value.dtype, argument)
    pointer = int(value.gpudata) if value.gpudata is not None else 0
    return ArrayView(ArrayKind.PYCUDA, pointer, tuple(value.shape), _in_elements(value.strides, dtype, argument),
                     dtype, _pointer_device(pointer), value, False)


def _from_interface(value: Any, interface: Any, argument: str) -> ArrayView:
    try:
        if interface.get("mask") is not None:
            raise ArgumentTypeError("masked arrays are not taken, since the mask would be lost", argument=argument)
        typestr, shape = interface["typestr"], tuple(map(operator.index, interface["shape"]))
        pointer, readonly = interface["data"]
        pointer, strides = operator.index(pointer or 0), interface.get("strides")
        strides = None if strides is None else tuple(map(operator.index, strides))
        if min(shape, default=0) < 0 or strides is not None and len(strides) != len(shape):
            raise ValueError(f"shape {shape} with strides {strides}")
    except WarpconvError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArgumentTypeError(f"its __cuda_array_interface__ is none: {type(error).__name__}: {error}",
                                argument=argument, value=interface,
                                hint="a dictionary with shape, typestr and data, as CUDA array interface 3 has it"
                                ) from error
    dtype = _numpy_element(_parse_typestr(typestr, argument), argument)
    strides = _c_strides(shape) if strides is None else _in_elements(strides, dtype, argument)
    producer = interface.get("stream")
    return ArrayView(ArrayKind.CUDA_ARRAY_INTERFACE, pointer, shape, strides, dtype, _pointer_device(pointer), value,
                     bool(readonly), None if producer is None else stream_handle(producer, f"{argument}'s stream"))


def _from_dlpack(value: Any, argument: str, stream: int | None) -> ArrayView:
    tensor = dlpack.take(value, argument, stream)
    strides = _c_strides(tensor.shape) if tensor.strides is None else tensor.strides
    return ArrayView(ArrayKind.DLPACK, tensor.pointer, tensor.shape, strides,
                     _named_element(tensor.dtype_name, argument), tensor.device, (value, tensor), tensor.readonly)


_LIBRARIES = (("torch", "Tensor", _from_torch), ("cupy", "ndarray", _from_cupy),
              ("pycuda.gpuarray", "GPUArray", _from_pycuda))
_BY_NAME = {dtype.value: dtype for dtype in DType}
_TORCH_TYPES: dict[Any, DType] = {}         # torch.dtype -> DType, filled as they are met
_NUMPY_TYPES: dict[np.dtype, DType] = {}    # the same for NumPy, whose dtype.name takes longer than all the rest


def torch_element(dtype: Any, argument: str) -> DType:
    """The element type of a torch.dtype. Raises ArgumentTypeError for one without kernels."""
    element = _TORCH_TYPES[dtype] = _named_element(str(dtype).removeprefix("torch."), argument)
    return element


def _numpy_element(dtype: np.dtype, argument: str) -> DType:
    known = _NUMPY_TYPES.get(dtype)
    if known is not None:
        return known
    element = _named_element(dtype.name, argument)
    if not dtype.isnative:
        raise ArgumentTypeError("elements are not in this machine's byte order", argument=argument, value=dtype.str,
                                hint="use .astype(dtype.newbyteorder('='))")
    _NUMPY_TYPES[dtype] = element
    return element


def _named_element(name: str, argument: str) -> DType:
    element = _BY_NAME.get(name)
    if element is None:
        raise ArgumentTypeError(f"there are no kernels for {name} elements", argument=argument, value=name,
                                hint=_way_out(name))
    return element


def _way_out(name: str) -> str:
    """What to do with elements that no kernel reads."""
    if name.startswith("complex"):
        return "call with .real and .imag, one after the other: a cast to a real type drops the imaginary part"
    if name.startswith(("qint", "quint")):
        return "use .dequantize()"
    raw = "; bfloat16 has no code in this interface: give the array itself, or DLPack" if name == "void16" else ""
    return f"cast the array, e.g. to float32{raw}"


def _parse_typestr(typestr: str, argument: str) -> np.dtype:
    try:
        return np.dtype(typestr)
    except TypeError:
        raise ArgumentTypeError(f"there are no kernels for {typestr} elements", argument=argument,
                                hint=f"cast the array to one of {', '.join(_BY_NAME)}") from None


def _in_elements(strides: Sequence[int], dtype: DType, argument: str) -> tuple[int, ...]:
    itemsize = dtype.itemsize
    steps = [divmod(int(stride), itemsize) for stride in strides]
    for _, rest in steps:
        if rest:
            raise ArgumentError("strides are not whole elements", argument=argument, value=tuple(strides),
                                hint="copy the array")
    return tuple([step for step, _ in steps])


def _c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _pointer_device(pointer: int) -> int:
    from warpconv.runtime.devices.cuda import contexts
    ordinal = contexts.pointer_device(pointer)
    return contexts.default_device() if ordinal is None else ordinal


def _torch_ordinal(device: Any) -> int:
    return device.index if device.index is not None else sys.modules["torch"].cuda.current_device()


def _imported(name: str, attribute: str) -> Any:
    """An attribute of a module that somebody has imported, None if nobody has (never imports it)."""
    return getattr(sys.modules.get(name), attribute, None)
