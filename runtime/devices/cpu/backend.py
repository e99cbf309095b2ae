"""A kernel on the CPU device: its text compiled by the C++ compiler, its steps executed on host memory."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import KernelNotBuilt
from warpconv.codegen.plan import Dimension, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.serialise import plan_identity
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime import env
from warpconv.runtime.arrays import ArrayView, numpy_dtype
from warpconv.runtime.build.cache import CacheKey, DiskCache
from warpconv.runtime.call.checks import Call, name_of
from warpconv.runtime.devices.steps import execute

from . import objects, quick
from .program import CpuProgram
from .report import Buffer, LaunchReport, Mode
from .toolchain import Toolchain, find_toolchain

SOURCE = "kernel.cu"

_ELEMENTS = {dtype.c_name: np.dtype(f"u{dtype.itemsize}") for dtype in DType}      # by C type, as bits


@dataclass
class PreparedFilter:
    """A filter's own copy, or what its preparation made of it."""

    array: np.ndarray


class CpuBackend:
    """One kernel's compiled text. In CHECK mode every call's reports are kept in ``reports``."""

    device = "cpu"
    ordinal = None

    def __init__(self, program: Program, compiled: CpuProgram):
        self.program = program
        self.compiled = compiled
        self.reports: list[LaunchReport] = []
        self._weight = name_of(program, Role.WEIGHT)
        self._constant_lock = threading.Lock()   # the object has one constant bank for all threads

    def for_program(self, program: Program) -> CpuBackend:
        """The same compiled text under another program of its entries."""
        return CpuBackend(program, self.compiled)

    def prepare(self, weight: ArrayView, stream: Any) -> PreparedFilter:
        copy = host_array(weight).copy()
        preparation = self.program.preparation
        if preparation is not None and preparation.steps:
            made = np.empty(preparation.buffer.bytes_each, np.uint8)
            executor = _Executor(self)
            execute(executor, preparation.steps, (), None, {self._weight: copy, preparation.buffer.name: made})
            copy = made
        return PreparedFilter(copy)

    def run(self, call: Call, prepared: PreparedFilter | None, stream: Any) -> None:
        operands: dict[str, Any] = {name: host_array(view if view.contiguous else view.span())
                                    for name, view in call.operands.items() if view is not None}
        preparation = self.program.preparation
        if prepared is None and preparation is not None and preparation.steps:
            prepared = self.prepare(call.operands[self._weight], None)
        if prepared is not None:
            operands[self._weight] = prepared.array
            if preparation is not None and preparation.buffer is not None:
                operands[preparation.buffer.name] = prepared.array
        if preparation is None or preparation.constant is None:
            self._execute(call, operands)
            return
        with self._constant_lock:
            self.compiled.set_constant(preparation.constant, operands[self._weight])
            self._execute(call, operands)

    def quick(self, shape: ConvShape, operands: Mapping[str, ArrayView], *,
              by_filter: bool) -> quick.QuickLaunch | None:
        """A layer's launches ready to be run; None where a call is more than launches, or its arrays have to be
        seen to."""
        if not quick.possible(self.program, self.compiled):
            return None
        return quick.QuickLaunch(self.program, self.compiled, shape)

    def alignment(self, name: str, view: ArrayView) -> int:
        """Bytes that an operand's address must be a multiple of to be used where it is."""
        if view.contiguous:
            return quick.ALIGNMENT
        return max(view.dtype.itemsize, self.program.argument(name).multiple_of)

    def _execute(self, call: Call, operands: dict[str, Any]) -> None:
        gaps = {name: view for name, view in call.operands.items() if view is not None and not view.contiguous}
        execute(_Executor(self, gaps), self.program.steps, self.program.workspaces, call.shape, operands)


class _Executor:
    """Steps on host memory; operands are ndarrays, of arrays with gaps (``gaps``) all their memory."""

    kind = "cpu"

    def __init__(self, backend: CpuBackend, gaps: Mapping[str, ArrayView] | None = None):
        self._backend = backend
        self._gaps = gaps or {}
        self._written: list[np.ndarray] = []

    def wrote(self, array: np.ndarray) -> None:
        """A library step has written an output, which later launches may read."""
        self._written.append(array)

    def launch(self, step: Launch, shape: ConvShape, operands: Mapping[str, Any]) -> None:
        program, compiled = self._backend.program, self._backend.compiled
        args = [self._argument(program, name, shape, operands) for name in step.arguments]
        report = compiled.launch(step.entry, grid=step.grid_of(shape), block=step.block, shared_bytes=step.shared_bytes,
                                 args=args, threads=env.settings().cpu_threads)
        if compiled.mode is Mode.CHECK:
            self._backend.reports.append(report)

    def _argument(self, program: Program, name: str, shape: ConvShape, operands: Mapping[str, Any]) -> Any:
        argument = program.argument(name)
        if argument.role is Role.SIZE:
            return np.int32(Dimension(name).of(shape))
        if argument.role is Role.INDEX:
            return np.int32(operands[name])
        writable = argument.role in (Role.OUTPUT, Role.WORKSPACE)
        output = argument.role is Role.OUTPUT
        array = operands[name]
        if argument.role is Role.WORKSPACE and argument.c_type in _ELEMENTS:
            array = array.view(_ELEMENTS[argument.c_type])      # accesses are checked by element
        made = Buffer(name=name, array=array, writable=writable, must_be_written=output,
                      initialised=not output or any(array is one for one in self._written))
        if name not in self._gaps:
            return made
        alignment = max(argument.multiple_of, array.itemsize)       # a copy of so much memory only where it must be
        return replace(made, alignment=alignment, elements=_elements(self._gaps[name]) if writable else None)

    def allocate(self, workspace: Workspace, nbytes: int) -> np.ndarray:
        """Memory full of NaN, of every floating-point type."""
        return np.full(nbytes, 0xff, np.uint8)

    def release(self, workspace: Workspace, memory: np.ndarray) -> None:
        pass


def load(plan: KernelPlan, *, mode: Mode = Mode.FAST, cache: DiskCache | None = None) -> tuple[CpuBackend, str]:
    """A plan's kernel on the CPU device, and its text; compiled once, then from the disk cache.

    Raises ToolNotFound where there is no C++ compiler, CompileError where it refuses the text.
    """
    def text() -> str:
        from warpconv.runtime.build.templates import rendered
        return rendered(plan)

    return _load(plan.spec, plan.program, tuple(plan_identity(plan).items()), text, mode, cache)


def load_text(spec: KernelSpec, program: Program, source: str, *, mode: Mode = Mode.FAST,
              cache: DiskCache | None = None) -> tuple[CpuBackend, str]:
    """The same for a text that is there already (a pack's)."""
    fields = dict(objects.build_key_fields(source, mode, _toolchain()))
    return _load(spec, program, (("text", fields["text"]),), lambda: source, mode, cache)


def _load(spec: KernelSpec, program: Program, identity: tuple[tuple[str, str], ...], text: Any, mode: Mode,
          cache: DiskCache | None) -> tuple[CpuBackend, str]:
    settings = env.settings()
    cache = cache or DiskCache(enabled=not settings.disable_cache)
    toolchain = _toolchain()
    machine = {k: v for k, v in objects.build_key_fields("", mode, toolchain) if k != "text"}
    key = CacheKey(name=f"{spec.name}-cpu-{mode.value}", fields=tuple(sorted({**dict(identity), **machine}.items())))

    if settings.disable_jit and cache.find(key) is None:
        raise KernelNotBuilt("compiling is off (WARPCONV_DISABLE_JIT), also for the CPU device, and this kernel is not "
                             f"in the cache: {spec}", spec=spec)

    def build(folder: Path) -> Mapping[str, Any]:
        source = text()
        (folder / SOURCE).write_text(source, encoding="utf-8")
        meta = CpuProgram.build(source, entries=program.entries, mode=mode, directory=folder,
                                runtime_directory=_runtime(cache, mode, toolchain), toolchain=toolchain)
        return meta

    entry = cache.fetch(key, build)
    compiled = CpuProgram.load(entry.path, entries=program.entries, mode=mode)
    return CpuBackend(program, compiled), entry.read(SOURCE).decode()


def _runtime(cache: DiskCache, mode: Mode, toolchain: Toolchain) -> Path:
    """A folder with the device's own object, which all kernels link; an entry of the cache like theirs."""
    machine = {k: v for k, v in objects.build_key_fields("", mode, toolchain) if k not in ("text", "kernel_flags")}
    key = CacheKey(name=f"cpu-device-{mode.value}", fields=tuple(sorted(machine.items())))

    def build(folder: Path) -> Mapping[str, Any]:
        return {"object": objects.runtime_object(folder, mode, toolchain).name}

    return cache.fetch(key, build).path


def _toolchain() -> Toolchain:
    cxx = env.settings().cxx
    return find_toolchain(None if cxx is None else str(cxx))


def _elements(view: ArrayView) -> np.ndarray:
    """Which elements of all that lie between the first and the last of an array with gaps are its own."""
    marks = np.zeros(view.span().size, bool)
    np.lib.stride_tricks.as_strided(marks, view.shape, view.strides)[...] = True
    return marks


def host_array(view: ArrayView) -> np.ndarray:
    """Host memory of a C-contiguous view as an ndarray, without a copy; the view keeps it alive.

    bfloat16 of other libraries comes as its bits, uint16, so that NumPy need not know the type.
    """
    if isinstance(view.owner, np.ndarray) and view.owner.shape == view.shape and view.owner.flags.c_contiguous:
        return view.owner
    raw = (ctypes.c_char * view.nbytes).from_address(view.pointer)
    element = np.dtype(np.uint16) if view.dtype is DType.BFLOAT16 else numpy_dtype(view.dtype)
    return np.frombuffer(raw, element).reshape(view.shape)
