"""A kernel on a GPU: its cubin loaded once per context, its steps queued on the caller's stream."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Mapping

from warpconv.codegen.plan import Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape

from warpconv.runtime.arrays import ArrayKind, ArrayView
from warpconv.runtime.call import Call, name_of
from warpconv.runtime.steps import execute

from . import contexts, memory, streams
from .memory import Block
from .modules import CudaModule, Launcher

_FRAMEWORKS = (ArrayKind.TORCH, ArrayKind.CUPY)


@dataclass
class PreparedFilter:
    """A filter's own device memory, and its own module where the weights live in constant memory."""

    view: ArrayView
    context: tuple[str, int]
    block: Block
    stream: int
    loaded: _Loaded | None = None

    def __del__(self) -> None:
        memory.pool.release(self.block)


class _Loaded:
    """One module in one context, with a launcher per entry and block shape."""

    def __init__(self, cubin: bytes, program: Program):
        self.module = CudaModule(cubin)
        self.launchers: dict[int, Launcher] = {}
        for step in program.launches:
            kinds = tuple("pointer" if program.argument(n).is_pointer else "int" for n in step.arguments)
            self.launchers[id(step)] = self.module.launcher(step.entry, kinds, step.block, step.shared_bytes)


class CudaBackend:
    """Compiled code of one kernel for one GPU. Any thread may call; nothing is shared between streams."""

    def __init__(self, program: Program, cubin: bytes, ordinal: int):
        self.program = program
        self.ordinal = ordinal
        self.device = f"cuda:{ordinal}"
        self._cubin = cubin
        self._constant = program.preparation.constant if program.preparation else None
        self._weight = name_of(program, Role.WEIGHT)
        self._modules: dict[tuple[Any, ...], _Loaded] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        """Load the module into the context that would be used, so that the first call does not have to."""
        with contexts.activate(self.ordinal):
            self._loaded(contexts.context_key(), None)

    def attributes(self) -> Mapping[str, Any]:
        """Registers and memory of each entry, as the driver reports them for the loaded module."""
        with contexts.activate(self.ordinal):
            module = self._loaded(contexts.context_key(), None).module
            return {entry: module.attributes(entry) for entry in self.program.entries}

    def prepare(self, weight: ArrayView, stream: Any) -> PreparedFilter:
        """Copy the weight (and run the preparation's steps); a constant bank gets a module of its own, so that
        filters and streams do not race for it."""
        with contexts.activate(self.ordinal, weight.pointer if weight.is_device else 0):
            handle = self._order(stream, [weight])
            prepared = PreparedFilter(weight, contexts.context_key(), memory.pool.allocate(weight.nbytes, handle), handle)
            if weight.is_device:
                memory.copy_device(prepared.block.pointer, weight.pointer, weight.nbytes, handle)
                memory.keep_alive.hold((weight.owner,), handle)
            else:
                memory.copy_in(weight, prepared.block.pointer, handle)
            preparation = self.program.preparation
            if preparation is not None and preparation.steps:
                self._transform(prepared, handle)
            if self._constant:
                prepared.loaded = _Loaded(self._cubin, self.program)
                self._fill_constant(prepared.loaded, prepared.block.pointer, handle)
            streams.synchronize(handle)   # a filter may be used on any stream from here on
            return prepared

    def run(self, call: Call, prepared: PreparedFilter | None, stream: Any) -> None:
        x = next(v for n, v in call.operands.items() if self.program.argument(n).role is Role.INPUT)
        with contexts.activate(self.ordinal, x.pointer if x.is_device else 0):
            handle = self._order(stream, [v for v in call.operands.values() if v is not None and v.is_device])
            if x.is_device:
                pointers = {name: v.pointer for name, v in call.operands.items() if v is not None}
                self._queue(call, pointers, prepared, handle)
                self._hold(call, prepared, handle, stream is not None and stream[1])
            else:
                self._run_from_host(call, prepared, handle)

    # ---- device memory

    def _queue(self, call: Call, pointers: dict[str, int], prepared: PreparedFilter | None, handle: int) -> None:
        context = contexts.context_key()
        preparation = self.program.preparation
        temporary = None
        if prepared is None and preparation is not None and preparation.steps:
            temporary = prepared = self.prepare(call.operands[self._weight], (handle, True))
        if prepared is not None:
            pointers[self._weight] = prepared.block.pointer
            if preparation is not None and preparation.buffer is not None:
                pointers[preparation.buffer.name] = prepared.block.pointer
        if prepared is not None and prepared.loaded is not None and prepared.context == context:
            loaded = prepared.loaded
        elif self._constant:
            # weights given by pointer: a bank per stream, written in that stream's order
            loaded = self._loaded(context, streams.identity(handle))
            self._fill_constant(loaded, pointers[self._weight], handle)
        else:
            loaded = self._loaded(context, None)
        execute(_Executor(loaded, self.program, handle), self.program.steps, self.program.workspaces, call.shape, pointers)
        if temporary is not None:
            memory.keep_alive.hold((temporary,), handle)

    def _hold(self, call: Call, prepared: PreparedFilter | None, handle: int, foreign: bool) -> None:
        """Keep alive what could be freed or reused before the stream has passed: temporaries, filters, and arrays
        whose library orders its memory on another stream than the caller's."""
        held = list(call.temporaries)
        if prepared is not None:
            held.append(prepared)
        for view in call.operands.values():
            if view is not None and (foreign or view.kind not in _FRAMEWORKS):
                held.append(view.owner)
        if held:
            memory.keep_alive.hold(held, handle)

    def _run_from_host(self, call: Call, prepared: PreparedFilter | None, handle: int) -> None:
        blocks: dict[str, Block] = {}
        try:
            for name, view in call.operands.items():
                if view is None:
                    continue
                blocks[name] = memory.pool.allocate(view.nbytes, handle)
                if self.program.argument(name).role is not Role.OUTPUT:
                    memory.copy_in(view, blocks[name].pointer, handle)
            self._queue(call, {name: block.pointer for name, block in blocks.items()}, prepared, handle)
            for name, view in call.operands.items():
                if self.program.argument(name).role is Role.OUTPUT:
                    memory.copy_out(view, blocks[name].pointer, handle)
        finally:
            for block in blocks.values():
                memory.pool.release(block)

    def _transform(self, prepared: PreparedFilter, handle: int) -> None:
        preparation = self.program.preparation
        made = memory.pool.allocate(preparation.buffer.bytes_each, handle)
        pointers = {self._weight: prepared.block.pointer, preparation.buffer.name: made.pointer}
        executor = _Executor(self._loaded(contexts.context_key(), None), self.program, handle)
        execute(executor, preparation.steps, (), None, pointers)
        memory.pool.release(prepared.block)
        prepared.block = made

    # ---- modules and streams

    def _loaded(self, context: tuple[str, int], stream: Any) -> _Loaded:
        loaded = self._modules.get((context, stream))
        if loaded is None:
            with self._lock:
                loaded = self._modules.get((context, stream))
                if loaded is None:
                    loaded = self._modules[context, stream] = _Loaded(self._cubin, self.program)
        return loaded

    def _fill_constant(self, loaded: _Loaded, pointer: int, handle: int) -> None:
        address, _ = loaded.module.constant(self._constant)
        memory.copy_device(address, pointer, self.program.preparation.constant_bytes, handle)

    def _order(self, stream: Any, views: list[ArrayView]) -> int:
        handle = (stream[0] if stream else None) or 0
        for view in views:
            if view.producer_stream is not None and view.producer_stream != handle:
                streams.order(view.producer_stream, handle)
        return handle


class _Executor:
    """Steps queued on one stream; operands are device pointers."""

    kind = "cuda"

    def __init__(self, loaded: _Loaded, program: Program, stream: int):
        self._loaded = loaded
        self._program = program
        self.stream = stream
        self._blocks: dict[int, Block] = {}

    def launch(self, step: Launch, shape: ConvShape, operands: Mapping[str, int]) -> None:
        args = [operands[name] if name in operands else getattr(shape, name.lower()) for name in step.arguments]
        self._loaded.launchers[id(step)](step.grid_of(shape), args, self.stream)

    def allocate(self, workspace: Workspace, nbytes: int) -> int:
        block = memory.pool.allocate(nbytes, self.stream)
        self._blocks[block.pointer] = block
        return block.pointer

    def release(self, workspace: Workspace, pointer: int) -> None:
        memory.pool.release(self._blocks.pop(pointer))
