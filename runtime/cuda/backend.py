"""A kernel on a GPU: its cubin loaded once per context, its steps queued on the caller's stream."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from warpconv.codegen.plan import Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.arrays import ArrayKind, ArrayView, current_stream
from warpconv.runtime.call import Call, name_of
from warpconv.runtime.steps import execute

from . import contexts, memory, streams
from .memory import Block
from .modules import CudaModule, Launcher
from .pycuda_modules import PycudaModule

Geometry = tuple[tuple[int, int, int], dict[str, int]]
MOST_LAYERS = 4096      # sizes whose grids are remembered
_FRAMEWORKS = (ArrayKind.TORCH, ArrayKind.CUPY)


@dataclass(frozen=True, slots=True)
class Queue:
    """The stream of one call: its handle, whether the caller named it, and PyCUDA's object where it is PyCUDA's."""

    handle: int = 0
    named: bool = False
    pycuda_stream: Any = None

    @property
    def for_pycuda(self) -> bool:
        """Whether PyCUDA can launch on it: its own streams and the default one, in a context that it sees."""
        return (self.handle == 0 or self.pycuda_stream is not None) and contexts.pycuda_sees_current()


class PreparedFilter:
    """A filter's own device memory, and its own modules where the weights live in constant memory."""

    def __init__(self, view: ArrayView, queue: Queue):
        self.view = view
        self.context = contexts.context_key()
        self.block = memory.pool.allocate(view.nbytes, queue.handle)
        self.stream = queue.handle
        self.used_on: set[int] = set()
        self.loaded: dict[bool, _Loaded] = {}     # by PyCUDA or not

    def __del__(self) -> None:
        """Back to the pool, which may lend the memory again on its stream once the other streams have passed."""
        try:
            for stream in self.used_on - {self.stream}:
                streams.order(stream, self.stream)
            memory.pool.release(self.block)
        except Exception:      # at interpreter exit, or in a context that is gone: the memory went with it
            pass


class _Loaded:
    """One module in one context, with a launcher per entry and block shape."""

    def __init__(self, cubin: bytes, program: Program, by_pycuda: bool):
        self.by_pycuda = by_pycuda
        self.module = PycudaModule(cubin) if by_pycuda else CudaModule(cubin)
        self.launchers: dict[int, Launcher] = {}
        self.geometry: dict[tuple[int, int], Geometry] = {}      # by step and layer
        self.layers: dict[int, ConvShape] = {}
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
        self._preparation = program.preparation
        self._constant = program.preparation.constant if program.preparation else None
        self._input, self._weight = name_of(program, Role.INPUT), name_of(program, Role.WEIGHT)
        self._modules: dict[tuple[Any, ...], _Loaded] = {}
        self._lock = threading.RLock()

    def load(self) -> None:
        """Load the module into the context that would be used, so that the first call does not have to."""
        with contexts.activate(self.ordinal):
            self._loaded(contexts.context_key(), None, Queue().for_pycuda)

    def attributes(self) -> Mapping[str, Any]:
        """Registers and memory of each entry, as the driver reports them for the loaded module."""
        with contexts.activate(self.ordinal):
            module = self._loaded(contexts.context_key(), None, Queue().for_pycuda).module
            return {entry: module.attributes(entry) for entry in self.program.entries}

    def prepare(self, weight: ArrayView, queue: Queue | None) -> PreparedFilter:
        """Copy the weight (and run the preparation's steps); a constant bank gets a module of its own, so that
        filters and streams do not race for it."""
        with contexts.activate(self.ordinal, weight.pointer if weight.is_device else 0):
            queue = self._ordered(queue, [weight])
            prepared = PreparedFilter(weight, queue)
            if weight.is_device:
                memory.copy_device(prepared.block.pointer, weight.pointer, weight.nbytes, queue.handle)
                memory.keep_alive.hold((weight.owner,), queue.handle)
            else:
                memory.copy_in(weight, prepared.block.pointer, queue.handle)
            if self._preparation is not None and self._preparation.steps:
                self._transform(prepared, queue)
            if self._constant:
                self._module_for({}, prepared, queue)
            streams.synchronize(queue.handle)   # a filter may be used on any stream from here on
            return prepared

    def run(self, call: Call, prepared: PreparedFilter | None, queue: Queue | None) -> None:
        x = call.operands[self._input]
        with contexts.activate(self.ordinal, x.pointer if x.is_device else 0):
            queue = self._ordered(queue, call.operands.values())
            if call.copied and (copied_on := current_stream(x)) is not None:
                streams.order(copied_on, queue.handle)
            if x.is_device:
                pointers = {name: v.pointer for name, v in call.operands.items()}
                self._queue(call, pointers, prepared, queue)
                self._hold(call, queue)
            else:
                self._run_from_host(call, prepared, queue)

    # ---- device memory

    def _queue(self, call: Call, pointers: dict[str, int], prepared: PreparedFilter | None, queue: Queue) -> None:
        preparation, temporary = self._preparation, None
        if prepared is None and preparation is not None and preparation.steps:
            temporary = prepared = self.prepare(call.operands[self._weight], queue)
        if prepared is not None:
            pointers[self._weight] = prepared.block.pointer
            prepared.used_on.add(queue.handle)
            if preparation is not None and preparation.buffer is not None:
                pointers[preparation.buffer.name] = prepared.block.pointer
        loaded = self._module_for(pointers, prepared, queue)
        execute(_Executor(loaded, self.program, queue), self.program.steps, self.program.workspaces, call.shape, pointers)
        if temporary is not None:
            memory.keep_alive.hold((temporary,), queue.handle)

    def _module_for(self, pointers: Mapping[str, int], prepared: PreparedFilter | None, queue: Queue) -> _Loaded:
        """The module to launch. Where the weights live in constant memory: the filter's own, filled once, or, for
        weights given by pointer, one per stream, filled in that stream's order."""
        context, by_pycuda = contexts.context_key(), queue.for_pycuda
        if not self._constant:
            return self._loaded(context, None, by_pycuda)
        if prepared is None or prepared.context != context:
            loaded = self._loaded(context, streams.identity(queue.handle), by_pycuda)
            self._fill_constant(loaded, pointers[self._weight], queue.handle)
            return loaded
        with self._lock:
            if by_pycuda not in prepared.loaded:
                loaded = _Loaded(self._cubin, self.program, by_pycuda)
                self._fill_constant(loaded, prepared.block.pointer, queue.handle)
                streams.synchronize(queue.handle)     # other streams will launch it, too
                prepared.loaded[by_pycuda] = loaded
        return prepared.loaded[by_pycuda]

    def _hold(self, call: Call, queue: Queue) -> None:
        """Keep alive what could be freed or reused before the stream has passed: arrays whose library does not order its
        memory on this stream."""
        held = [view.owner for view in call.operands.values() if queue.named or view.kind not in _FRAMEWORKS]
        if held:
            memory.keep_alive.hold(held, queue.handle)

    def _run_from_host(self, call: Call, prepared: PreparedFilter | None, queue: Queue) -> None:
        blocks: dict[str, Block] = {}
        try:
            for name, view in call.operands.items():
                blocks[name] = memory.pool.allocate(view.nbytes, queue.handle)
                if self.program.argument(name).role is not Role.OUTPUT:
                    memory.copy_in(view, blocks[name].pointer, queue.handle)
            self._queue(call, {name: block.pointer for name, block in blocks.items()}, prepared, queue)
            for name, view in call.operands.items():
                if self.program.argument(name).role is Role.OUTPUT:
                    memory.copy_out(view, blocks[name].pointer, queue.handle)
        finally:
            for block in blocks.values():
                memory.pool.release(block)

    def _transform(self, prepared: PreparedFilter, queue: Queue) -> None:
        buffer = self._preparation.buffer
        made = memory.pool.allocate(buffer.bytes_each, queue.handle)
        pointers = {self._weight: prepared.block.pointer, buffer.name: made.pointer}
        loaded = self._loaded(contexts.context_key(), None, queue.for_pycuda)
        execute(_Executor(loaded, self.program, queue), self._preparation.steps, (), None, pointers)
        memory.pool.release(prepared.block)
        prepared.block = made

    # ---- modules and streams

    def _loaded(self, context: tuple[str, int], stream: Any, by_pycuda: bool) -> _Loaded:
        key = (context, stream, by_pycuda)
        loaded = self._modules.get(key)
        if loaded is None:
            with self._lock:
                loaded = self._modules.get(key)
                if loaded is None:
                    loaded = self._modules[key] = _Loaded(self._cubin, self.program, by_pycuda)
        return loaded

    def _fill_constant(self, loaded: _Loaded, pointer: int, handle: int) -> None:
        address, _ = loaded.module.constant(self._constant)
        memory.copy_device(address, pointer, self._preparation.constant_bytes, handle)

    def _ordered(self, queue: Queue | None, views: Iterable[ArrayView]) -> Queue:
        """The call's stream, made to wait for those on which the arrays' producers are writing them."""
        queue = queue or Queue()
        for view in views:
            if view.producer_stream is not None and view.producer_stream != queue.handle:
                streams.order(view.producer_stream, queue.handle)
        return queue


class _Executor:
    """Steps queued on one stream; operands are device pointers."""

    kind = "cuda"

    def __init__(self, loaded: _Loaded, program: Program, queue: Queue):
        self._loaded = loaded
        self._program = program
        self.stream = queue.handle
        self._launch_stream = queue.pycuda_stream if loaded.by_pycuda else queue.handle
        self._blocks: dict[int, Block] = {}

    def launch(self, step: Launch, shape: ConvShape, operands: Mapping[str, int]) -> None:
        key = (id(step), id(shape))
        grid, sizes = self._loaded.geometry.get(key) or self._work_out(key, step, shape)
        args = [operands[name] if name in operands else sizes[name] for name in step.arguments]
        self._loaded.launchers[id(step)](grid, args, self._launch_stream)

    def _work_out(self, key: tuple[int, int], step: Launch, shape: ConvShape) -> Geometry:
        """Grid and size arguments, once per layer; the layer is kept so that its id stays its own."""
        sizes = {name: getattr(shape, name.lower()) for name in ("N", "H", "W", "P", "Q")}
        geometry = self._loaded.geometry
        if len(geometry) > MOST_LAYERS:
            geometry.clear()
            self._loaded.layers.clear()
        self._loaded.layers[id(shape)] = shape
        geometry[key] = step.grid_of(shape), sizes
        return geometry[key]

    def allocate(self, workspace: Workspace, nbytes: int) -> int:
        block = memory.pool.allocate(nbytes, self.stream)
        self._blocks[block.pointer] = block
        return block.pointer

    def release(self, workspace: Workspace, pointer: int) -> None:
        memory.pool.release(self._blocks.pop(pointer))
