"""Taking arrays through the DLPack protocol, without NumPy's limits (bfloat16, GPU memory).

A producer's capsule is consumed as the protocol says: renamed so that its own destructor leaves the tensor alone, and
the tensor's deleter called when the last reference to our owner goes.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int32, c_int64, c_uint16, c_uint32, c_uint64, c_uint8,
                    c_void_p, py_object)
from typing import Any

from warpconv.codegen.errors import ArgumentTypeError

_HOST = {1: "CPU", 3: "page-locked"}            # kDLCPU, kDLCUDAHost
_CUDA = {2: "CUDA", 13: "managed"}              # kDLCUDA, kDLCUDAManaged
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_READ_ONLY = 1
_MAX_VERSION = (1, 0)


class _Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class _DataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device", _Device), ("ndim", c_int32), ("dtype", _DataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


_DELETER = CFUNCTYPE(None, c_void_p)


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _DELETER)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", _DELETER),
                ("flags", c_uint64), ("tensor", _Tensor)]


_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_SetName", _api))

# Capsule name -> its name once consumed (the capsule keeps the pointer, so the bytes have to live on) and its struct.
_FORMS = {b"dltensor": (b"used_dltensor", _Managed), b"dltensor_versioned": (b"used_dltensor_versioned", _Versioned)}


class Taken:
    """A consumed tensor; its producer's memory is let go when this object is."""

    def __init__(self, managed: _Managed | _Versioned):
        tensor = managed.tensor
        axes = range(tensor.ndim)
        self.pointer = (tensor.data or 0) + tensor.byte_offset if tensor.data else 0
        self.shape = tuple(tensor.shape[i] for i in axes)
        self.strides = tuple(tensor.strides[i] for i in axes) if tensor.strides else None
        self.dtype_name = _dtype_name(tensor.dtype)
        self.device = tensor.device.id if tensor.device.type in _CUDA else None
        self.device_type = tensor.device.type
        self.readonly = bool(getattr(managed, "flags", 0) & _READ_ONLY)
        if managed.deleter:
            weakref.finalize(self, _delete, managed).atexit = False     # a library that is gone cannot delete


def take(value: Any, argument: str, stream: int | None) -> Taken:
    """Consume ``value.__dlpack__``; ArgumentTypeError if it is neither in CUDA nor in host memory, or not offered.

    ``stream`` is the CUDA stream (0 = legacy default) on which it will be used: the producer makes that stream wait.
    """
    device_type = _device_type(value, argument)
    capsule = _capsule(value, argument, _protocol_stream(device_type, stream))
    for name, (used, form) in _FORMS.items():
        if _is_valid(capsule, name):
            managed = form.from_address(_get_pointer(capsule, name))
            if form is _Versioned and managed.major != _MAX_VERSION[0]:
                raise ArgumentTypeError(f"DLPack {managed.major}.{managed.minor} is not known here", argument=argument)
            _set_name(capsule, used)
            return Taken(managed)
    raise ArgumentTypeError(f"{type(value).__name__}.__dlpack__ gives no DLPack capsule", argument=argument)


def _device_type(value: Any, argument: str) -> int:
    try:
        device_type = int(value.__dlpack_device__()[0])
    except (AttributeError, BufferError, RuntimeError) as error:
        raise ArgumentTypeError(f"{type(value).__name__} does not say where its memory is ({error})",
                                argument=argument) from error
    if device_type not in _HOST and device_type not in _CUDA:
        raise ArgumentTypeError(f"the array is on DLPack device type {device_type}, neither CUDA nor host memory",
                                argument=argument, hint="copy it to a GPU or to the host")
    return device_type


def _protocol_stream(device_type: int, stream: int | None) -> int | None:
    """As the protocol wants it: no stream for host memory; 1 for the legacy default, since 0 is ambiguous."""
    if device_type not in _CUDA:
        return None
    return stream or 1


def _capsule(value: Any, argument: str, stream: int | None) -> Any:
    try:
        try:
            return value.__dlpack__(stream=stream, max_version=_MAX_VERSION)
        except TypeError:           # a producer from before DLPack 1.0
            return value.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArgumentTypeError(f"{type(value).__name__} does not export its memory ({error})", argument=argument,
                                hint="copy the array") from error


def _dtype_name(dtype: _DataType) -> str:
    kind = _KINDS.get(dtype.code, f"code{dtype.code}_")
    lanes = f"x{dtype.lanes}" if dtype.lanes != 1 else ""
    return f"{kind}{dtype.bits}{lanes}"


def _delete(managed: _Managed | _Versioned) -> None:
    managed.deleter(ctypes.addressof(managed))
