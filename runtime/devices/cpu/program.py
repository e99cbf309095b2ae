"""A compiled kernel text, loaded into this process, and its launches."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError, KernelFault
from warpconv.runtime import paths

from . import objects as _build
from . import loading
from .abi import COUNT_NAMES, FAULT_KINDS, KEPT_STACKS, LAUNCH_COUNTS, CBuffer, CKernel, CLaunch
from .maps import ALIGNMENT as MAP_ALIGNMENT, BYTES as MAP_BYTES, TensorMap
from .memory import Staged, stage
from .objects import Runtime
from .report import Buffer, BufferCounts, LaunchReport, Mode
from .toolchain import Toolchain, find_toolchain

Argument = Buffer | TensorMap | np.generic | None

_SUMS_TO_NEAREST = 1             # enum wcpu_launch_flag

_MOST_THREADS = 1024
_BLOCK_LIMITS = (1024, 1024, 64)
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_KIND_NAMES = {"p": "a pointer", "i": "an integer", "f": "a floating-point number", "s": "a structure"}


class CpuProgram:
    """The kernels of one text. Several threads may launch at once: shared memory belongs to the workers of a launch.

    Constant memory belongs to the program, hence to all its launches: what set_constant writes is seen by every launch
    that runs then or later.
    """

    def __init__(self, library: ctypes.CDLL, *, entries: Sequence[str], mode: Mode):
        """Use :meth:`compile` or :meth:`load`."""
        self.mode = mode
        self.entries = tuple(entries)
        self._library = library
        self._kernels = {entry: _kernel(library, entry) for entry in self.entries}
        library.wcpu_run.argtypes = [ctypes.POINTER(CKernel), ctypes.POINTER(CLaunch)]
        library.wcpu_symbol_size.argtypes = [ctypes.c_void_p]
        library.wcpu_symbol_size.restype = ctypes.c_uint64

    @classmethod
    def compile(cls, text: str, *, entries: Sequence[str], mode: Mode, directory: Path,
                runtime_directory: Path | None = None, toolchain: Toolchain | None = None) -> CpuProgram:
        """Load ``directory``'s shared object, building it first if it is not there. Raises as :meth:`build` does."""
        if not paths.exists(Path(directory, _build.object_name(mode))):
            cls.build(text, entries=entries, mode=mode, directory=directory, runtime_directory=runtime_directory,
                      toolchain=toolchain)
        return cls.load(directory, entries=entries, mode=mode, runtime_directory=runtime_directory, toolchain=toolchain)

    @staticmethod
    def build(text: str, *, entries: Sequence[str], mode: Mode, directory: Path,
              runtime_directory: Path | None = None, toolchain: Toolchain | None = None,
              runtime: Runtime | None = None) -> dict[str, object]:
        """Only build; returns compiler, version, flags, seconds and log. Raises as build.build() does."""
        return _build.build(text, entries=entries, mode=mode, directory=Path(directory), runtime=runtime,
                            runtime_directory=runtime_directory, toolchain=toolchain)

    @classmethod
    def load(cls, directory: Path, *, entries: Sequence[str], mode: Mode, runtime_directory: Path | None = None,
             toolchain: Toolchain | None = None, runtime: Runtime | None = None) -> CpuProgram:
        """Load what :meth:`build` has put into ``directory``, which the caller trusts, with the same arguments.

        Raises FileError if it is not there, DeviceError if it is no shared object of this machine.
        """
        path = Path(directory, _build.object_name(mode))
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FileError(f"the kernel's object cannot be read: {paths.reason(error)}", argument="directory",
                            value=str(directory)) from error
        runtime = runtime or _build.runtime_in(Path(runtime_directory or directory), mode,
                                               toolchain or find_toolchain())
        return cls.from_bytes(data, entries=entries, mode=mode, runtime=runtime)

    @classmethod
    def from_bytes(cls, data: bytes, *, entries: Sequence[str], mode: Mode, runtime: Runtime) -> CpuProgram:
        """Load a shared object's bytes, and what they are linked to. Raises DeviceError if they are none of this
        machine."""
        loading.keep(runtime.data, runtime.name)
        return cls(loading.load(data, _build.object_name(mode)), entries=entries, mode=mode)

    def launch(self, entry: str, *, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int,
               args: Sequence[Argument], threads: int | None = None, order: int = 0,
               sums_to_nearest: bool = False) -> LaunchReport:
        """Run one kernel to its end on ``threads`` cores (default: all that this process may use).

        ``order`` changes the order in which what is unordered happens: bit 0 turns the lanes round, bit 1 the
        warps, bit 2 the blocks. ``sums_to_nearest``: wgmma rounds each sum, where it else cuts it as the hardware does.
        Raises KernelFault if the launch or the kernel breaks a rule: in FAST mode only kinds launch, deadlock,
        divergent-barrier and descriptor, and those uses of mbarriers, copies and wgmma that need no look at memory, are
        seen. After a fault the writable buffers hold no result.
        """
        kernel = self._kernel_of(entry)
        _check_launch(entry, kernel, grid, block, shared_bytes)
        _check_arguments(entry, kernel, args)
        with stage(_buffers_of(args), self.mode) as staged:
            values, pointers = _argument_values(args, staged, entry)
            buffers = (CBuffer * max(1, len(staged)))(*(s.description for s in staged))
            request = CLaunch(grid=tuple(grid), block=tuple(block), shared_bytes=shared_bytes,
                              workers=threads or _available_cores(), order=order, buffer_count=len(staged),
                              buffers=buffers, arguments=pointers, stacks=KEPT_STACKS,
                              flags=_SUMS_TO_NEAREST if sums_to_nearest else 0)
            start = time.perf_counter()
            faulted = self._library.wcpu_run(ctypes.byref(kernel), ctypes.byref(request))
            seconds = time.perf_counter() - start
            if faulted:
                raise KernelFault(request.fault.decode(errors="replace"), kind=FAULT_KINDS[request.fault_kind],
                                  entry=entry)
            for one in staged:
                one.finish(entry)
            return LaunchReport(seconds, _buffer_counts(staged, buffers),
                                **{name: getattr(request, name) for name in LAUNCH_COUNTS})

    def unconverted(self, entry: str) -> tuple[Any, CKernel]:
        """The device's function that runs a launch, taking ctypes objects as they are, and the kernel to run: for
        launches that have been checked and are bound to their memory once."""
        run = self._library["wcpu_run"]         # another object than the attribute, whose prototype stays
        return run, self._kernel_of(entry)

    def set_constant(self, symbol: str, data: np.ndarray) -> None:
        """Copy ``data``'s bytes to the start of a ``__constant__`` array.

        Raises ArgumentError if the text has no such array (a ``static`` or ``const`` one cannot be set) or it is
        smaller.
        """
        try:
            address = ctypes.addressof(ctypes.c_char.in_dll(self._library, symbol))
        except ValueError:
            raise ArgumentError("the kernel's text has no __constant__ array of this name", argument="symbol",
                                value=symbol) from None
        data = np.ascontiguousarray(data)
        size = self._library.wcpu_symbol_size(address)
        if data.nbytes > size:
            raise ArgumentError(f"{data.nbytes} bytes do not fit constant array {symbol} of {size}", argument="data",
                                value=data.shape)
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def number(self, symbol: str) -> ctypes.c_uint64:
        """A 64-bit variable of the text with external linkage, to be read and set between launches. Raises
        ArgumentError if there is none of this name."""
        try:
            return ctypes.c_uint64.in_dll(self._library, symbol)
        except ValueError:
            raise ArgumentError("the kernel's text has no variable of this name", argument="symbol",
                                value=symbol) from None

    def _kernel_of(self, entry: str) -> CKernel:
        try:
            return self._kernels[entry]
        except KeyError:
            raise ArgumentError("the program has no such entry", argument="entry", value=entry,
                                hint=f"one of {', '.join(self.entries)}") from None


def _kernel(library: ctypes.CDLL, entry: str) -> CKernel:
    try:
        return CKernel.in_dll(library, f"wcpu_entry_{entry}")
    except ValueError:
        raise ArgumentError("the shared object was built without this entry", argument="entries", value=entry) from None


def _available_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _check_launch(entry: str, kernel: CKernel, grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> None:
    """Raise what the GPU's driver would: KernelFault of kind launch."""
    def refuse(message: str) -> KernelFault:
        return KernelFault(f"bad launch: {message}", kind="launch", entry=entry)

    for name, sizes, limits in (("grid", grid, _GRID_LIMITS), ("block", block, _BLOCK_LIMITS)):
        if len(sizes) != 3 or not all(1 <= size <= limit for size, limit in zip(sizes, limits)):
            raise refuse(f"{name} {tuple(sizes)} is not within (1, 1, 1) .. {limits}")
    if block[0] * block[1] * block[2] > _MOST_THREADS:
        raise refuse(f"block {tuple(block)} has more than {_MOST_THREADS} threads")
    if not 0 <= shared_bytes <= (kernel.dynamic_capacity or _build.DYNAMIC_CAPACITY):
        raise refuse(f"{shared_bytes} bytes of dynamic shared memory are not within 0 .. {_build.DYNAMIC_CAPACITY}")


def _check_arguments(entry: str, kernel: CKernel, args: Sequence[Argument]) -> None:
    """KernelFault of kind launch if number, kind or size of the arguments differ from the kernel's parameters."""
    if len(args) != kernel.argument_count:
        raise KernelFault(f"bad launch: {len(args)} arguments for {kernel.argument_count} parameters", kind="launch",
                          entry=entry)
    for number, argument in enumerate(args):
        kind, size = chr(kernel.argument_kinds[number]), kernel.argument_sizes[number]
        given, given_size = _kind_and_size(argument)
        if given != kind or given_size != size:
            raise KernelFault(f"bad launch: parameter {number} is {_KIND_NAMES[kind]} of {size} bytes; the argument is "
                              f"{_KIND_NAMES[given]} of {given_size}", kind="launch", entry=entry)


def _kind_and_size(argument: Argument) -> tuple[str, int]:
    if argument is None or isinstance(argument, Buffer):
        return "p", ctypes.sizeof(ctypes.c_void_p)
    if isinstance(argument, TensorMap):
        return "s", MAP_BYTES
    if isinstance(argument, np.generic):
        return {"f": "f", "V": "s"}.get(argument.dtype.kind, "i"), argument.dtype.itemsize
    raise ArgumentTypeError("a kernel's argument is a Buffer, a TensorMap, a NumPy scalar or None", argument="args",
                            value=type(argument).__name__)


def _buffers_of(args: Sequence[Argument]) -> list[Buffer]:
    """The arguments' buffers, each once, those that maps describe too."""
    buffers = (a.buffer if isinstance(a, TensorMap) else a for a in args if isinstance(a, (Buffer, TensorMap)))
    return list({id(buffer): buffer for buffer in buffers}.values())


def _argument_values(args: Sequence[Argument], staged: Sequence[Staged], entry: str) -> tuple[list, ctypes.Array]:
    """The arguments' values in memory and the array of their addresses; the first keeps the second alive."""
    addresses = {id(one.buffer): one.address for one in staged}
    values: list[Any] = []
    places = []
    for argument in args:
        if isinstance(argument, TensorMap):
            packed = argument.at(addresses[id(argument.buffer)], entry)
            values.append(ctypes.create_string_buffer(MAP_ALIGNMENT + len(packed)))
            places.append(-(-ctypes.addressof(values[-1]) // MAP_ALIGNMENT) * MAP_ALIGNMENT)
            ctypes.memmove(places[-1], packed, len(packed))
            continue
        if isinstance(argument, np.generic):
            values.append((ctypes.c_char * argument.dtype.itemsize).from_buffer_copy(argument.tobytes()))
        else:
            values.append(ctypes.c_void_p(None if argument is None else addresses[id(argument)]))
        places.append(ctypes.addressof(values[-1]))
    return values, (ctypes.c_void_p * max(1, len(places)))(*places)


def _buffer_counts(staged: Sequence[Staged], buffers: Sequence[CBuffer]) -> Mapping[str, BufferCounts]:
    return {one.buffer.name: BufferCounts(**dict(zip(COUNT_NAMES, raw.counts))) for one, raw in zip(staged, buffers)}
