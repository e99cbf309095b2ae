"""Cubins loaded and launched by PyCUDA: the route wherever PyCUDA sees the current context and the stream is its own.

PyCUDA cannot launch on a stream that another library created, nor in a context that another library made current (see
``libcuda``); for those ``modules.CudaModule`` has the same interface over the driver library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpconv.codegen.errors import ArgumentTypeError, DeviceError

from . import contexts
from .modules import ARGUMENT_CODES, STATIC_LIMIT, FunctionAttributes, Launcher


class PycudaModule:
    """A cubin loaded with ``pycuda.driver.module_from_buffer`` into the context that is current at its making."""

    def __init__(self, cubin: bytes):
        """DeviceError if the cubin does not fit the GPU."""
        self.context = contexts.context_key()
        with _errors("loading the kernel"):
            self._module = contexts.driver().module_from_buffer(cubin)

    def attributes(self, entry: str) -> FunctionAttributes:
        """Registers and memory of a kernel; DeviceError if the module has none of that name."""
        with _errors(f"looking up {entry}"):
            function = self._module.get_function(entry)
            return FunctionAttributes(function.num_regs, function.local_size_bytes, function.shared_size_bytes,
                                      function.const_size_bytes, function.max_threads_per_block)

    def constant(self, symbol: str) -> tuple[int, int]:
        """(pointer, nbytes) of a ``__constant__`` variable; DeviceError if there is none."""
        with _errors(f"looking up {symbol}"):
            pointer, nbytes = self._module.get_global(symbol)
        return int(pointer), int(nbytes)

    def launcher(self, entry: str, arg_ctypes: Sequence[str], block: Sequence[int], shared_bytes: int = 0,
                 early: bool = False) -> Launcher:
        """A function ``launch(grid, args, stream)``; ``stream`` is a pycuda.driver.Stream or None (default stream).
        PyCUDA knows no launch that begins ``early``: such a one begins as any other."""
        driver = contexts.driver()
        with _errors(f"looking up {entry}"):
            function = self._module.get_function(entry)
            function.prepare("".join(ARGUMENT_CODES[kind] for kind in arg_ctypes))
            if shared_bytes + function.shared_size_bytes > STATIC_LIMIT:
                function.set_attribute(driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        launch_async, threads, error = function.prepared_async_call, tuple(block), driver.Error

        def launch(grid: Sequence[int], args: Sequence[int | float], stream: Any) -> None:
            try:
                launch_async(tuple(grid), threads, stream, *args, shared_size=shared_bytes)
            except error as failure:
                raise DeviceError(f"launching {entry} with grid {tuple(grid)} failed: {failure}") from failure
            except Exception as failure:        # struct's error, or an argument that is no number
                raise ArgumentTypeError(f"{entry} takes ({', '.join(arg_ctypes)}): {failure}", argument="args",
                                        value=tuple(args)) from None

        return launch


class _errors:
    """PyCUDA's errors inside become DeviceErrors that say what was tried."""

    def __init__(self, what: str):
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and issubclass(kind, contexts.driver().Error):
            raise DeviceError(f"{self._what} failed: {error}",
                              hint="build it for this GPU's architecture" if "IMAGE" in str(error).upper() else None) \
                from error
