"""Loaded cubins and launches.

Cubins are loaded and kernels launched through the driver library, not by ``pycuda.driver.module_from_buffer`` and
``prepared_async_call``. Those launch on streams that PyCUDA made only (see ``libcuda``), and loading the cubin once
more for foreign streams would give every ``__constant__`` two copies. It is also the quicker route: one ctypes call
over an argument block that is laid out once.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any, NamedTuple

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError

from . import contexts, streams
from .launches import can_begin_early, launch_early
from .libcuda import NOT_FOUND, call, check, libcuda

Launcher = Callable[[Sequence[int], Sequence["int | float"], int], None]

ARGUMENT_CODES = {"pointer": "P", "int": "i", "long long": "q", "float": "f", "descriptor": "128s"}
MOST_REMEMBERED = 4096             # grids or streams of one launcher
STATIC_LIMIT = 48 * 1024           # dynamic shared memory beyond this has to be asked for
_MAX_DYNAMIC_SHARED = 8             # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_WRONG_IMAGE = {200: "the image is damaged or not a cubin", 209: "it is built for another architecture",
                218: "its PTX is invalid", 222: "its PTX is newer than the driver"}


class FunctionAttributes(NamedTuple):
    """What the compiler gave a kernel."""

    registers: int
    local_bytes: int
    shared_bytes: int
    const_bytes: int
    max_threads: int


_ATTRIBUTES = FunctionAttributes(registers=4, local_bytes=3, shared_bytes=1, const_bytes=2, max_threads=0)


class CudaModule:
    """A cubin loaded into the context that is current at its making; usable in that context alone.

    It lives as long as the context unless ``unload`` is called: unloading when Python drops the object would wait for
    the GPU and break CUDA graphs that were captured from its kernels.
    """

    def __init__(self, cubin: bytes):
        """Load ``cubin``; DeviceError if no context is current or the cubin does not fit its GPU."""
        self.context = contexts.context_key()
        self._functions: dict[str, int] = {}
        handle = c_size_t()
        with streams.relaxed_capture():      # loading is allowed while some stream is being captured
            status = libcuda().cuModuleLoadData(byref(handle), bytes(cubin))
        if status in _WRONG_IMAGE:
            raise DeviceError(f"the kernel does not load on {_here()}: {_WRONG_IMAGE[status]}",
                              hint="build it for that architecture")
        if status:
            check(status, f"loading the kernel on {_here()}")
        self._handle = handle.value

    def function(self, entry: str) -> int:
        """Handle of a kernel; DeviceError if the module has none of that name."""
        handle = self._functions.get(entry)
        if handle is None:
            out = c_size_t()
            status = libcuda().cuModuleGetFunction(byref(out), self._handle, entry.encode())
            if status == NOT_FOUND:
                raise DeviceError(f"the module has no kernel {entry}")
            check(status, f"looking up {entry}")
            handle = self._functions[entry] = out.value
        return handle

    def attributes(self, entry: str) -> FunctionAttributes:
        """Registers and memory of a kernel; DeviceError if the module has none of that name."""
        function = self.function(entry)
        return FunctionAttributes(*(_attribute(function, number) for number in _ATTRIBUTES))

    def constant(self, symbol: str) -> tuple[int, int]:
        """(pointer, nbytes) of a ``__constant__`` or ``__device__`` variable; DeviceError if there is none."""
        pointer, nbytes = c_size_t(), c_size_t()
        status = libcuda().cuModuleGetGlobal_v2(byref(pointer), byref(nbytes), self._handle, symbol.encode())
        if status == NOT_FOUND:
            raise DeviceError(f"the module has no variable {symbol}")
        check(status, f"looking up {symbol}")
        return pointer.value, nbytes.value

    def launcher(self, entry: str, arg_ctypes: Sequence[str], block: Sequence[int], shared_bytes: int = 0,
                 early: bool = False) -> Launcher:
        """A function ``launch(grid, args, stream)`` for one kernel, block shape and dynamic shared memory. An ``early``
        one may begin while the launch before it ends, where the driver knows that.

        ``arg_ctypes`` says what each argument is: pointer, int, long long or float. The launch is asynchronous; it
        raises DeviceError if the driver refuses it and ArgumentTypeError if the arguments do not fit ``arg_ctypes``.
        """
        function = self.function(entry)
        self._allow_shared(entry, function, shared_bytes)
        kernel, blocks, shared = c_void_p(function), tuple(map(c_uint, _three(block))), c_uint(shared_bytes)
        grids: dict[tuple[int, ...], tuple[c_uint, ...]] = {}
        streams: dict[int, c_void_p] = {}
        local = _Arguments(_layout(arg_ctypes))
        launch_kernel = launch_early if early and can_begin_early() else libcuda().cuLaunchKernel

        def launch(grid: Sequence[int], args: Sequence[int | float], stream: int) -> None:
            extents = grids.get(grid)
            if extents is None:
                extents = _remembered(grids, grid, (*map(c_uint, _three(grid)), *blocks, shared))
            queue = streams.get(stream)
            if queue is None:
                queue = _remembered(streams, stream, c_void_p(stream))
            try:
                local.pack(local.buffer, 0, *args)
            except struct.error as error:
                raise ArgumentTypeError(f"{entry} takes ({', '.join(arg_ctypes)}): {error}",
                                        argument="args", value=tuple(args)) from None
            status = launch_kernel(kernel, *extents, queue, local.pointers, None)
            if status:
                check(status, f"launching {entry} with grid {tuple(grid)}, block {tuple(block)} "
                              f"and {shared_bytes} bytes of shared memory")

        return launch

    def unload(self) -> None:
        """Unload the module; no launch of it may be under way or captured, and its context must be current."""
        handle, self._handle = self._handle, 0
        self._functions.clear()
        if handle:
            call("cuModuleUnload", handle, what="unloading a module")

    def _allow_shared(self, entry: str, function: int, shared_bytes: int) -> None:
        if shared_bytes + _attribute(function, _ATTRIBUTES.shared_bytes) > STATIC_LIMIT:
            status = libcuda().cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared_bytes)
            if status:
                check(status, f"giving {entry} {shared_bytes} bytes of shared memory",
                      hint=f"more than a block of {_here()} can have")


class _Arguments(threading.local):
    """The argument block of one launcher, one per thread: ctypes lets other threads run while the driver reads it."""

    def __init__(self, layout: struct.Struct):
        self.pack = layout.pack_into
        self.buffer = ctypes.create_string_buffer(max(layout.size, 1))
        start = ctypes.addressof(self.buffer)
        offsets = _offsets(layout.format)
        self.pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(start + offset for offset in offsets))


def _remembered(known: dict, key: Any, value: Any) -> Any:
    """``value``, kept under ``key``; a process with very many of them starts anew."""
    if len(known) >= MOST_REMEMBERED:
        known.clear()
    known[key] = value
    return value


def _layout(arg_ctypes: Sequence[str]) -> struct.Struct:
    unknown = [kind for kind in arg_ctypes if kind not in ARGUMENT_CODES]
    if unknown:
        raise ArgumentError("unknown kind of kernel argument", argument="arg_ctypes", value=unknown[0],
                            hint=f"one of {', '.join(ARGUMENT_CODES)}")
    return struct.Struct("@" + "".join(ARGUMENT_CODES[kind] for kind in arg_ctypes))


def _offsets(layout: str) -> list[int]:
    """Where each argument lies: its end, with native alignment, less its size."""
    kinds = re.findall(r"\d*[a-zA-Z]", layout)
    return [struct.calcsize("@" + "".join(kinds[:i + 1])) - struct.calcsize("@" + kind)
            for i, kind in enumerate(kinds)]


def _attribute(function: int, number: int) -> int:
    value = c_int()
    call("cuFuncGetAttribute", byref(value), number, function, what="asking for a kernel's attributes")
    return value.value


def _three(extent: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*extent, 1, 1)[:3]
    return x, y, z


def _here() -> str:
    ordinal = contexts.default_device()
    return f"{contexts.name(ordinal)} ({contexts.arch(ordinal)})"
