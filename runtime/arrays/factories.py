"""New arrays of the library that the caller's arrays are of, and contiguous copies."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentTypeError, DeviceError

from .axes import Order
from .readers import recognise
from .streams import current_stream
from .view import ArrayKind, ArrayView


def empty(like: ArrayView, shape: Sequence[int], dtype: DType, *, stream: int, order: Order | None = None) -> Any:
    """A new C-contiguous array of the same library on the same device as ``like``, to be written on ``stream``.

    With ``order`` the result shows its axes transposed so (``shape`` is that of the memory): a channels_last tensor.
    Host arrays of DLPack producers give NumPy arrays. GPU arrays known only by the CUDA array interface or DLPack (JAX,
    Numba, ...) give ``pycuda.gpuarray.GPUArray``, which all of them can read: JAX's arrays cannot be written, and the
    protocols have no way to make one. Raises DeviceError where there is no memory or no PyCUDA, ArgumentTypeError for
    bfloat16 in NumPy or PyCUDA without ml_dtypes; out of memory in PyTorch and CuPy raises their own errors.
    """
    shape = tuple(shape)
    if like.kind is ArrayKind.TORCH:
        new = _empty_torch(like, shape, dtype, stream)
    elif like.device is None:
        new = _empty_numpy(shape, numpy_dtype(dtype))
    elif like.kind is ArrayKind.CUPY:
        new = _empty_cupy(like, shape, dtype, stream)
    else:
        new = _empty_pycuda(like, shape, dtype)
    return _transposed(new, order)


def as_contiguous(value: Any, view: ArrayView, argument: str, order: Order | None = None) -> tuple[Any, ArrayView]:
    """(value, view) themselves if ``view`` is C-contiguous, else of a copy made by the array's own library.

    With ``order`` the view shows the value's axes transposed so, and a copy has them in that order.
    PyTorch and CuPy queue the copy on their current stream (``current_stream``), so work on another stream has to wait
    for that one. Other GPU arrays are copied by CuPy where it is imported, else after waiting for the GPU: by PyCUDA
    where the gaps are simple, at last through the host into a GPUArray. Raises DeviceError where that fails,
    ArgumentTypeError for bfloat16 that NumPy cannot hold.
    """
    if view.contiguous:
        return value, view
    try:
        copy = _COPIES.get(view.kind, _copy_by_interface)(value, view, order)
    except MemoryError as error:        # a broadcast array takes less memory than its copy
        raise DeviceError("there is no memory for a copy without gaps", argument=argument, value=view.shape,
                          hint="use a smaller batch or image") from error
    return copy, recognise(copy, argument, None)


def can_copy_into(view: ArrayView) -> bool:
    """Whether ``copy_into`` can write to an array with gaps: any in host memory, PyTorch's and CuPy's; others where
    CuPy is imported."""
    return view.device is None or view.kind in (ArrayKind.TORCH, ArrayKind.CUPY) or "cupy" in sys.modules


def copy_into(view: ArrayView, made: Any, stream: int) -> None:
    """Copy ``made``, a new array as ``empty`` gives it for ``view``, into the view's own array: its elements and none
    in its gaps, queued on ``stream``."""
    if view.kind is ArrayKind.TORCH:
        with _torch_on(view, stream):
            view.owner.copy_(made)
    elif view.kind is ArrayKind.NUMPY:
        np.copyto(view.owner, made)
    elif view.device is None:
        raw = recognise(made, "out", None)
        raw_elements(view, view.byte_bounds()[0])[...] = raw_elements(raw, raw.byte_bounds()[0])
    else:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(view.device), cupy_stream_object(cupy, stream):
            cupy.copyto(_cupy_array(cupy, view.owner), _cupy_array(cupy, made))


def _cupy_array(cupy: Any, value: Any) -> Any:
    if isinstance(value, tuple):        # what DLPack gave, behind the array itself
        return cupy.from_dlpack(value[0])
    return cupy.asarray(value) if hasattr(value, "__cuda_array_interface__") else cupy.from_dlpack(value)


def numpy_dtype(dtype: DType, argument: str = "dtype") -> np.dtype:
    """NumPy's type of the elements; ArgumentTypeError for bfloat16 without ml_dtypes, which gives it to NumPy."""
    if dtype is not DType.BFLOAT16:
        return np.dtype(dtype.value)
    try:
        import ml_dtypes
    except ImportError:
        raise ArgumentTypeError("NumPy has no bfloat16 of its own", argument=argument,
                                hint="pip install ml_dtypes, or use PyTorch tensors") from None
    return np.dtype(ml_dtypes.bfloat16)


def _empty_numpy(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    try:
        return np.empty(shape, dtype)
    except MemoryError as error:
        raise DeviceError("there is no memory for the output", argument="out", value=shape,
                          hint="use a smaller batch, image or padding") from error


def _empty_torch(like: ArrayView, shape: tuple[int, ...], dtype: DType, stream: int) -> Any:
    torch = sys.modules["torch"]
    element = getattr(torch, dtype.value, None)
    if element is None:
        raise ArgumentTypeError(f"this PyTorch has no {dtype.value}", argument="dtype", hint="use PyTorch 2.3 or newer")
    device = like.owner.device
    # PyTorch's allocator reuses memory in the order of the stream it was allocated on: allocate on ours.
    with _torch_on(like, stream):
        return torch.empty(shape, dtype=element, device=device)


def _torch_on(view: ArrayView, stream: int) -> Any:
    """A context in which PyTorch works on ``stream`` of the view's GPU."""
    if view.device is None or stream == current_stream(view):
        return contextlib.nullcontext()
    torch = sys.modules["torch"]
    return torch.cuda.stream(torch_stream_object(torch, stream, view.owner.device))


def torch_stream_object(torch: Any, stream: int, device: Any) -> Any:
    return torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)


def _empty_cupy(like: ArrayView, shape: tuple[int, ...], dtype: DType, stream: int) -> Any:
    cupy = sys.modules["cupy"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(cupy.cuda.Device(like.device))
        if stream != current_stream(like):      # CuPy's pool is per stream as PyTorch's is
            stack.enter_context(cupy_stream_object(cupy, stream))
        return cupy.empty(shape, numpy_dtype(dtype))


def cupy_stream_object(cupy: Any, stream: int) -> Any:
    if stream == 0:
        return cupy.cuda.Stream.null
    return cupy.cuda.Stream.ptds if stream == 2 else cupy.cuda.ExternalStream(stream)


def _empty_pycuda(like: ArrayView, shape: tuple[int, ...], dtype: DType) -> Any:
    from warpconv.runtime.devices.cuda import contexts, memory
    contexts.driver()
    import pycuda.gpuarray as gpuarray
    element = numpy_dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * element.itemsize
    with contexts.activate(like.device, like.pointer):
        if nbytes == 0 or contexts.pycuda_sees_current():
            allocator = getattr(like.owner, "allocator", None)
            return gpuarray.empty(shape, element, **({"allocator": allocator} if allocator else {}))
        # PyCUDA allocates only in a context that was pushed through PyCUDA; this one is PyTorch's, say, or pushed by
        # us. The memory is ours, then, and goes when the last array that shows it (base) does.
        holder = _DeviceMemory(memory.allocate(nbytes), like)
        return gpuarray.GPUArray(shape, element, base=holder, gpudata=holder.pointer)


class _DeviceMemory:
    """Memory behind a GPUArray that PyCUDA did not allocate; freed with the last reference."""

    def __init__(self, pointer: int, like: ArrayView):
        self.pointer = pointer
        weakref.finalize(self, _free, pointer, like.device).atexit = False      # the process's end frees it anyway


def _free(pointer: int, ordinal: int) -> None:
    from warpconv.runtime.devices.cuda import contexts, memory
    with contexts.activate(ordinal, pointer):
        memory.free(pointer)


def _transposed(value: Any, order: Order | None) -> Any:
    if order is None:
        return value
    return value.permute(order) if hasattr(value, "permute") else value.transpose(order)


def _copy_numpy(value: Any, view: ArrayView, order: Order | None) -> Any:
    return np.ascontiguousarray(_transposed(value, order))


def _copy_torch(value: Any, view: ArrayView, order: Order | None) -> Any:
    return _transposed(value, order).contiguous()


def _copy_cupy(value: Any, view: ArrayView, order: Order | None) -> Any:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(view.device):
        return cupy.ascontiguousarray(_transposed(value, order))


def _copy_pycuda(value: Any, view: ArrayView, order: Order | None) -> Any:
    from warpconv.runtime.devices.cuda import contexts, streams
    if not _is_slice(view):
        return _copy_through_host(view)
    with contexts.activate(view.device, view.pointer):
        streams.synchronize_all()       # nothing says on which stream the array was written
        copy = _empty_pycuda(view, view.shape, view.dtype)
        try:
            copy[...] = _transposed(value, order)
        except (ValueError, RuntimeError, contexts.driver().Error):     # more gaps than a 3D copy can skip
            return _copy_through_host(view)
        streams.synchronize_all()
    return copy


def _is_slice(view: ArrayView) -> bool:
    """Whether the axes are in C order, with gaps only: PyCUDA copies a transposed array without reordering it."""
    steps = [stride for stride, extent in zip(view.strides, view.shape) if extent > 1]
    return min(steps) > 0 and steps == sorted(steps, reverse=True)


def _copy_by_interface(value: Any, view: ArrayView, order: Order | None) -> Any:
    if view.device is None:
        return raw_elements(view, view.byte_bounds()[0]).copy().view(numpy_dtype(view.dtype))
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return _copy_through_host(view)
    take = cupy.asarray if view.kind is ArrayKind.CUDA_ARRAY_INTERFACE else cupy.from_dlpack
    with cupy.cuda.Device(view.device):
        return cupy.ascontiguousarray(_transposed(take(value), order))


def _copy_through_host(view: ArrayView) -> Any:
    from warpconv.runtime.devices.cuda import contexts, memory, streams
    low, high = view.byte_bounds()
    with contexts.activate(view.device, view.pointer):
        streams.synchronize_all()
        span = np.empty(high - low, np.uint8)
        memory.copy_out(span, low, 0)
        copy = _empty_pycuda(view, view.shape, view.dtype)
        memory.copy_in(raw_elements(view, span.__array_interface__["data"][0]).copy(), int(copy.gpudata), 0)
        streams.synchronize(0)
    return copy


def raw_elements(view: ArrayView, start: int) -> np.ndarray:
    """Host memory from ``start`` on, laid out like ``view`` (which begins at byte_bounds()[0]), as raw integers."""
    low, high = view.byte_bounds()
    itemsize = view.dtype.itemsize
    memory = (ctypes.c_uint8 * (high - low)).from_address(start)
    return np.ndarray(view.shape, f"u{itemsize}", memory, view.pointer - low, [s * itemsize for s in view.strides])


_COPIES = {ArrayKind.NUMPY: _copy_numpy, ArrayKind.TORCH: _copy_torch, ArrayKind.CUPY: _copy_cupy,
           ArrayKind.PYCUDA: _copy_pycuda}
