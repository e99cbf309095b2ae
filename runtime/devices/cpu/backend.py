"""A kernel on the CPU device: its text compiled by the C++ compiler, its steps executed on host memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.plan import Argument, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime import env, forks
from warpconv.runtime.arrays import ArrayView
from warpconv.runtime.arrays.host import host_array
from warpconv.runtime.build.cache import DiskCache
from warpconv.runtime.build.pipeline import BuiltKernel, Text, build, cache_key
from warpconv.runtime.call.checks import Call, name_of
from warpconv.runtime.devices.steps import execute

from . import objects, quick
from .maps import TensorMap
from .program import CpuProgram
from .report import Buffer, LaunchReport, Mode
from .target import CpuTarget

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
        self._constant_lock = forks.lock()   # the object has one constant bank for all threads

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
        if call.in_order:
            operands[preparation.buffer.name] = operands[self._weight]
        elif prepared is None and preparation is not None and preparation.steps:
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
        if not quick.possible(self.program, self.compiled, shape, by_filter):
            return None
        return quick.QuickLaunch(self.program, self.compiled, shape, by_filter)

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
        buffers: dict[str, Buffer] = {}         # a descriptor's array may be an argument of its own, too
        args = [self._argument(program, name, shape, operands, buffers) for name in step.arguments]
        report = compiled.launch(step.entry, grid=step.grid_of(shape), block=step.block, shared_bytes=step.shared_bytes,
                                 args=args, threads=env.settings().cpu_threads)
        if compiled.mode is Mode.CHECK:
            self._backend.reports.append(report)

    def _argument(self, program: Program, name: str, shape: ConvShape, operands: Mapping[str, Any],
                  buffers: dict[str, Buffer]) -> Any:
        argument = program.argument(name)
        if argument.role is Role.DESCRIPTOR:
            described = program.descriptor(name)
            buffer = self._argument(program, described.of, shape, operands, buffers)
            return TensorMap(buffer, described.at(shape).packed(0))
        if argument.role is Role.SIZE:
            return np.int32(Dimension(name).of(shape))
        if argument.role is Role.BORDER:
            bits = np.int32(program.border_bits(shape)[name])
            return bits.view(np.float32) if argument.c_type == "float" else bits
        if argument.role is Role.INDEX:
            return np.int32(operands[name])
        if name not in buffers:
            buffers[name] = self._buffer(argument, operands)
        return buffers[name]

    def _buffer(self, argument: Argument, operands: Mapping[str, Any]) -> Buffer:
        name = argument.name
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


def load(plan: KernelPlan | Text, *, mode: Mode = Mode.FAST,
         cache: DiskCache | None = None) -> tuple[CpuBackend, str]:
    """The kernel of a plan, or of a text that is there already, on the CPU device, and its text; compiled once, then
    from the disk cache.

    Raises ToolNotFound where there is no C++ compiler, CompileError where it refuses the text, DeviceError where what
    it made cannot be loaded, FileError where no disk can take what it writes, KernelNotBuilt where compiling is off.
    """
    target, settings = CpuTarget(mode), env.settings()
    cache = cache or DiskCache(enabled=not settings.disable_cache)
    built = build(plan, target, cache=cache)
    try:
        compiled = _loaded(built, target, cache, settings)
    except DeviceError:
        if settings.disable_jit:
            raise
        cache.discard(cache_key(plan, target, settings))    # a library that it needs has gone since it was built
        built = build(plan, target, cache=cache)
        compiled = _loaded(built, target, cache, settings)
    return CpuBackend(built.program, compiled), built.source


def _loaded(built: BuiltKernel, target: CpuTarget, cache: DiskCache, settings: env.Settings) -> CpuProgram:
    """The bytes that were verified are those that are loaded."""
    return CpuProgram.from_bytes(built.entry.read(objects.object_name(target.mode)), entries=built.program.entries,
                                 mode=target.mode, runtime=target.runtime(cache, settings))


def load_text(spec: KernelSpec, program: Program, source: str, *, mode: Mode = Mode.FAST,
              cache: DiskCache | None = None) -> tuple[CpuBackend, str]:
    """The same for a text that is there already (a pack's)."""
    return load(Text.given(spec, program, source), mode=mode, cache=cache)


def _elements(view: ArrayView) -> np.ndarray:
    """Which elements of all that lie between the first and the last of an array with gaps are its own."""
    marks = np.zeros(view.span().size, bool)
    np.lib.stride_tricks.as_strided(marks, view.shape, view.strides)[...] = True
    return marks
