"""Stand-ins for PyTorch and CuPy as fixtures, and arrays that offer one protocol alone."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from warpconv.runtime.devices.cuda import contexts


class DlpackOnly:
    """A producer that offers nothing but DLPack, over a NumPy array."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.streams = array, versioned, []

    def __dlpack__(self, *, stream=None, **options):
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    """A CUDA array interface with the given entries over its defaults."""

    def __init__(self, **entries):
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
                                         **entries}


def quiet(torch):
    """A PyTorch in which nothing stands between calls and their tensors."""
    torch._C = types.SimpleNamespace(
        _get_tracing_state=lambda: None, _len_torch_dispatch_stack=lambda: 0, _is_any_autocast_enabled=lambda: False,
        _are_functorch_transforms_active=lambda: False)
    torch.autograd = types.SimpleNamespace(forward_ad=types.SimpleNamespace(_current_level=-1))


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")

    class Device:
        def __init__(self, type, index=None):
            self.type, self.index = type, index

    class TorchType(str):
        def __str__(self):
            return "torch." + str.lower(self)

    class Tensor:
        def __init__(self, shape=(2, 3), dtype="float32", device=("cuda", 1), strides=None, requires_grad=False,
                     neg=False, pointer=1024):
            self.shape, self.dtype, self.device = shape, getattr(module, dtype, TorchType(dtype)), Device(*device)
            self.requires_grad, self._neg, self._pointer = requires_grad, neg, pointer
            self._strides = strides or (3, 1)

        def stride(self):
            return self._strides

        def data_ptr(self):
            if self._pointer is None:
                raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage\nmore")
            return self._pointer

        def get_device(self):
            return -1 if self.device.type == "cpu" else self.device.index or 0

        def new_empty_strided(self, shape, strides, dtype=None):
            module.pointer += 1 << 20
            return Tensor(shape, str.lower(dtype or self.dtype).removeprefix("torch."),
                          (self.device.type, self.device.index), tuple(strides), pointer=module.pointer)

        def is_neg(self):
            return self._neg

        def contiguous(self):
            return Tensor(self.shape, self.dtype.removeprefix("torch."), (self.device.type, self.device.index))

    class StreamContext:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            module.entered.append(self.stream)

        def __exit__(self, *error):
            module.entered.append(None)

    for name in ("float32", "float16", "bfloat16", "int32", "float64"):
        setattr(module, name, TorchType(name))
    module.entered = []
    module.pointer = 1 << 30
    module.Tensor = Tensor
    module.is_grad_enabled = lambda: True
    module.empty = lambda shape, dtype, device: Tensor(shape, str.lower(dtype), (device.type, device.index))
    quiet(module)
    module._C._cuda_getCurrentRawStream = lambda ordinal: 500 + ordinal
    module.cuda = types.SimpleNamespace(current_device=lambda: 2, stream=StreamContext,
                                        ExternalStream=lambda handle, device: ("external", handle, device.index),
                                        default_stream=lambda device: ("default", device.index))
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def cupy(monkeypatch):
    module = types.ModuleType("cupy")

    class ndarray:
        def __init__(self, shape=(2, 3), dtype="float32", strides=(12, 4), device=1):
            self.shape, self.dtype, self.strides = shape, np.dtype(dtype), strides
            self.data, self.device = types.SimpleNamespace(ptr=2048), types.SimpleNamespace(id=device)

    class Entered:
        def __init__(self, what):
            self.what = what

        def __enter__(self):
            module.entered.append(self.what)

        def __exit__(self, *error):
            module.entered.append(None)

    module.entered = []
    module.ndarray = ndarray
    module.empty = lambda shape, dtype: ndarray(shape, dtype)
    module.ascontiguousarray = lambda array: ndarray(array.shape, array.dtype)
    module.cuda = types.SimpleNamespace(
        Device=lambda ordinal: Entered(("device", ordinal)), ExternalStream=lambda ptr: Entered(("stream", ptr)),
        Stream=types.SimpleNamespace(null=Entered(("stream", 0)), ptds=Entered(("stream", 2))),
        runtime=types.SimpleNamespace(getDevice=lambda: 1),
        get_current_stream=lambda ordinal=-1: types.SimpleNamespace(ptr=700 + ordinal))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def gpu_pointers(monkeypatch):
    """Addresses belong to GPU 1; 0 is nobody's, so the default device's."""
    monkeypatch.setattr(contexts, "pointer_device", lambda pointer: 1 if pointer else None)
    monkeypatch.setattr(contexts, "default_device", lambda: 0)
