"""A library that plays CuPy's part on two GPUs: its arrays are in host memory."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import types

import numpy as np
import pytest

from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.scale import locked, places, staging


class There(np.ndarray):
    """An array that says it is on a GPU."""

    @property
    def data(self):
        return Pointer(self.ctypes.data)


class Pointer:
    """Where its elements are; copies are done at once."""

    def __init__(self, address):
        self.ptr = address

    def __add__(self, offset):
        return Pointer(self.ptr + offset)

    def copy_from_host_async(self, address, nbytes, stream):
        ctypes.memmove(self.ptr, address, nbytes)

    def copy_to_host_async(self, address, nbytes, stream):
        ctypes.memmove(address, self.ptr, nbytes)


class Stream(contextlib.nullcontext):
    ptr = 77

    def __init__(self, non_blocking):
        super().__init__(self)


class Runtime:
    """CUDA's functions for page-locked memory: what is locked, and the copies that were made from and to it."""

    class CUDARuntimeError(RuntimeError):
        pass

    def __init__(self):
        self.locked, self.copies, self.refuses = {}, [], False

    def hostRegister(self, address, nbytes, flags):
        assert flags == 1 and address % mmap.PAGESIZE == 0 and nbytes % mmap.PAGESIZE == 0 and nbytes
        if self.refuses or any(low < address + nbytes and address < low + size for low, size in self.locked.items()):
            raise self.CUDARuntimeError("cudaErrorHostMemoryAlreadyRegistered")
        self.locked[address] = nbytes

    def hostUnregister(self, address):
        del self.locked[address]

    def pointerGetAttributes(self, address):
        return types.SimpleNamespace(type=int(any(low <= address < low + size for low, size in self.locked.items())))

    def memcpyAsync(self, to, of, nbytes, direction, stream):
        self.memcpy2DAsync(to, nbytes, of, nbytes, nbytes, 1, direction, stream)

    def memcpy2DAsync(self, to, to_pitch, of, of_pitch, width, height, direction, stream):
        assert stream == Stream.ptr and min(to_pitch, of_pitch) >= width > 0 < height
        host, pitch = (of, of_pitch) if direction == 1 else (to, to_pitch)
        assert self.pointerGetAttributes(host).type and self.pointerGetAttributes(host + pitch * (height - 1)).type
        self.copies.append((direction, width, height))
        for row in range(height):
            ctypes.memmove(to + row * to_pitch, of + row * of_pitch, width)


class Event:
    """What a stream was told last: ``done`` when the test says so."""

    def __init__(self, block, disable_timing):
        assert block and disable_timing
        self.done, self.waited = True, 0

    def record(self, stream):
        assert type(stream) is Stream

    def synchronize(self):
        self.waited += 1


@pytest.fixture
def gpus(monkeypatch):
    """Two of them."""
    library = types.SimpleNamespace(
        empty=lambda shape, dtype: np.full(shape, 99, dtype).view(There),
        ascontiguousarray=lambda array: np.ascontiguousarray(array).view(There),
        cuda=types.SimpleNamespace(Device=lambda ordinal: contextlib.nullcontext(), Stream=Stream, Event=Event,
                                   alloc_pinned_memory=bytearray, runtime=Runtime()))
    monkeypatch.setattr(places, "cupy", lambda: library)
    monkeypatch.setattr(contexts, "usable", lambda: None)
    monkeypatch.setattr(contexts, "count", lambda: 2)
    monkeypatch.setattr(contexts, "arch", lambda ordinal: "sm_90")
    monkeypatch.setattr(places, "lanes", places.Lanes(places._lane))
    monkeypatch.setattr(places, "_blocks", {})
    monkeypatch.setattr(places, "_helpers", staging.Helpers(2))
    monkeypatch.setattr(places, "_pins", staging.Pins())
    monkeypatch.setattr(locked, "locks", locked.Locks())
    return library
