"""A launch as the driver takes it (cuLaunchKernelEx), and whether it may begin while the one before it ends."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_int, c_uint, c_void_p
from typing import Any

from .libcuda import call, libcuda

_PROGRAMMATIC = 6               # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_SINCE = 12030                  # the driver whose graphs keep such launches


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: its value is a union of 64 bytes."""

    _fields_ = [("id", c_int), ("padding", c_char * 4), ("value", c_int), ("rest", c_char * 60)]


_EARLY = _Attribute(_PROGRAMMATIC, b"", 1, b"")


class Config(ctypes.Structure):
    """CUlaunchConfig: all of a launch but its function and its arguments."""

    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint), ("stream", c_void_p),
                ("attributes", c_void_p), ("attribute_count", c_uint)]

    def begin_early(self) -> None:
        """While the launch before it in the stream ends, for whose end the kernel waits."""
        self.attributes, self.attribute_count = ctypes.addressof(_EARLY), 1


def can_begin_early() -> bool:
    """Whether the driver at hand knows such launches. Where it does not, a kernel that would wait waits for nothing."""
    version = c_int()
    call("cuDriverGetVersion", byref(version))
    return getattr(libcuda(), "cuLaunchKernelEx", None) is not None and version.value >= _SINCE


def launch_early(kernel: c_void_p, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
                 block_z: c_uint, shared_bytes: c_uint, stream: c_void_p, pointers: Any, extra: None) -> int:
    """cuLaunchKernel of one that begins early; the driver's status."""
    config = Config((grid_x.value, grid_y.value, grid_z.value), (block_x.value, block_y.value, block_z.value),
                    shared_bytes.value, stream.value)
    config.begin_early()
    status: int = libcuda().cuLaunchKernelEx(byref(config), kernel, pointers, extra)
    return status
