"""A kernel on a GPU: its cubin loaded once per context, its steps queued on the caller's stream."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.codegen.plan import Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import forks
from warpconv.runtime.arrays import ArrayKind, ArrayView, current_stream
from warpconv.runtime.arrays.factories import raw_elements
from warpconv.runtime.call.checks import MOST_LAYERS, Call, name_of
from warpconv.runtime.call.recording import recording
from warpconv.runtime.devices.steps import execute, require

from . import contexts, memory, quick, streams, tensor_maps
from .memory import Block, Pool
from .modules import CudaModule, Launcher
from .pycuda_modules import PycudaModule

Elsewhere = tuple[ArrayView, "int | None"]      # an array, and the stream that is its library's and not the call's
Geometry = tuple[tuple[int, int, int], dict[str, int]]
# of arguments that are no pointers; a border's value comes as its 32 bits, whatever they are
_KINDS = {Role.SIZE: "int", Role.BORDER: "int", Role.INDEX: "int", Role.DESCRIPTOR: "descriptor"}
_FRAMEWORKS = (ArrayKind.TORCH, ArrayKind.CUPY)


class Queue(NamedTuple):
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

    def __init__(self, backend: CudaBackend, nbytes: int, queue: Queue):
        self.context = contexts.context_key()
        self.block = memory.pool.allocate(nbytes, queue.handle)
        self.stream = queue.handle
        self.used_on: set[int] = set()
        self.loaded: dict[bool, _Loaded] = {}     # by PyCUDA or not
        self._backend = backend

    def __del__(self) -> None:
        """Memory and modules go back. Of a filter that several streams used the memory goes to the driver, which waits
        for the GPU: streams may be gone by now, and the driver reads where one was that it is asked to wait for."""
        try:
            with contexts.activate(self._backend.ordinal, self.block.pointer):
                memory.pool.release(self.block, to_driver=not self.used_on <= {self.stream})
                self._backend.take_back(self)
        except Exception:      # at interpreter exit, or in a context that is gone: the memory went with it
            pass


class _Loaded:
    """One module in one context, with a launcher per entry and block shape."""

    def __init__(self, cubin: bytes, program: Program, by_pycuda: bool):
        self.by_pycuda = by_pycuda
        self.bank = forks.lock()      # from filling the constant bank to the launch that reads it
        self.module = PycudaModule(cubin) if by_pycuda else CudaModule(cubin)
        self.launchers: dict[int, Launcher] = {}
        self.geometry: dict[tuple[int, tuple[int, int, int]], Geometry] = {}      # by step and N, H, W
        self.quick: dict[quick.QuickLaunch, list] = {}      # its slots, of a filter's own module
        for step in program.launches:
            kinds = tuple(_KINDS.get(program.argument(n).role, "pointer") for n in step.arguments)
            self.launchers[id(step)] = self.module.launcher(step.entry, kinds, step.block, step.shared_bytes,
                                                            step.early)


class CudaBackend:
    """Compiled code of one kernel for one GPU. Any thread may call; nothing is shared between streams."""

    def __init__(self, program: Program, cubin: bytes, ordinal: int):
        """DeviceError where a library that the program's steps need is not installed."""
        require(program, "cuda")
        self.program = program
        self.ordinal = ordinal
        self.device = f"cuda:{ordinal}"
        self._cubin = cubin
        self._preparation = program.preparation
        self._constant = program.preparation.constant if program.preparation else None
        self._input, self._weight = name_of(program, Role.INPUT), name_of(program, Role.WEIGHT)
        self._modules: dict[tuple[Any, ...], _Loaded] = {}
        self._spare: dict[tuple[Any, ...], list[_Loaded]] = {}
        self._lock = forks.rlock()

    def for_program(self, program: Program) -> CudaBackend:
        """The same cubin under another program of its entries."""
        return CudaBackend(program, self._cubin, self.ordinal)

    def load(self) -> None:
        """Load the module into the context that would be used, so that the first call does not have to."""
        with contexts.activate(self.ordinal):
            self._loaded(contexts.context_key(), None, self._by_pycuda(Queue()))

    def forget_modules(self) -> None:
        """Let go of all loaded modules, in their context: PyCUDA's cannot be cleaned up outside it, and warns where
        somebody else made it current, which it does not see."""
        with contexts.activate(self.ordinal), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "module in out-of-thread context", UserWarning)
            self._modules.clear()
            self._spare.clear()

    def attributes(self) -> Mapping[str, Any]:
        """Registers and memory of each entry, as the driver reports them for the loaded module."""
        with contexts.activate(self.ordinal):
            module = self._loaded(contexts.context_key(), None, self._by_pycuda(Queue())).module
            return {entry: module.attributes(entry) for entry in self.program.entries}

    def prepare(self, weight: ArrayView, queue: Queue | None) -> PreparedFilter:
        """Copy the weight (and run the preparation's steps); a constant bank gets a module of its own, so that
        filters and streams do not race for it. Raises DeviceError while the stream is being captured."""
        with contexts.activate(self.ordinal, weight.pointer if weight.is_device else 0):
            queue = queue or Queue()
            _refuse_capture(queue, "a filter is prepared")
            if weight.is_device:
                self._order(queue, [(weight, _own_stream(weight))])
            prepared = PreparedFilter(self, weight.nbytes, queue)
            if weight.is_device:
                memory.copy_device(prepared.block.pointer, weight.pointer, weight.nbytes, queue.handle)
            else:
                memory.copy_in(weight, prepared.block.pointer, queue.handle)
            if self._preparation is not None and self._preparation.steps:
                self._transform(prepared, queue)
            if self._constant:
                self._module_for(prepared, queue)
            streams.synchronize(queue.handle)   # a filter may be used on any stream from here on
            return prepared

    def run(self, call: Call, prepared: PreparedFilter | None, queue: Queue | None) -> None:
        x = call.operands[self._input]
        with contexts.activate(self.ordinal, x.pointer if x.is_device else 0):
            queue = queue or Queue()
            if not x.is_device:
                self._run_from_host(call, prepared, queue)
                return
            elsewhere = [(view, stream) for view in call.operands.values()
                         if (stream := _own_stream(view)) != queue.handle]
            self._order(queue, elsewhere)
            try:
                self._queue(call, {name: v.pointer for name, v in call.operands.items()}, prepared, queue)
            finally:
                self._hold(elsewhere, prepared, queue)

    def quick(self, shape: ConvShape, operands: Mapping[str, ArrayView], *,
              by_filter: bool) -> quick.QuickLaunch | None:
        """A layer's launches ready to be queued, in the context of the input's memory; None where a call is more than
        launches, or from the host. They go through the driver library, whatever PyCUDA sees."""
        x = operands[self._input]
        if not x.is_device or not quick.possible(self.program, by_filter):
            return None
        with contexts.activate(self.ordinal, x.pointer):
            loaded = self._loaded(contexts.context_key(), None, False)
            return quick.QuickLaunch(self.program, shape, loaded, self._functions, by_filter=by_filter,
                                     constant=bool(self._constant), shares_memory=x.kind is not ArrayKind.TORCH,
                                     pool=memory.pool_of(x))

    def alignment(self, name: str, view: ArrayView) -> int:
        """Bytes that an operand's address must be a multiple of."""
        return max(view.dtype.itemsize, self.program.argument(name).multiple_of)

    @staticmethod
    def _functions(loaded: _Loaded, steps: Sequence[Launch]) -> tuple[int, ...]:
        """Handles of the steps' kernels in a module of the driver library."""
        return tuple(loaded.module.function(step.entry) for step in steps)

    def take_back(self, prepared: PreparedFilter) -> None:
        """Modules of a filter that is gone, for the next filter with a constant bank."""
        with self._lock:
            for by_pycuda, loaded in prepared.loaded.items():
                self._spare.setdefault((prepared.context, by_pycuda), []).append(loaded)

    # ---- device memory

    def _queue(self, call: Call, pointers: dict[str, int], prepared: PreparedFilter | None, queue: Queue) -> None:
        preparation = self._preparation
        if call.in_order:
            pointers[preparation.buffer.name] = pointers[self._weight]
        elif prepared is None and preparation is not None and preparation.steps:
            self._queue_with_transform(call, pointers, queue)
            return
        if prepared is not None:
            if prepared.context != contexts.context_key():
                raise ArgumentError("this Filter lives in another CUDA context", argument="weight",
                                    hint="prepare it again in the context of the call")
            pointers[self._weight] = prepared.block.pointer
            if recording.graph is None:         # which keeps its filters until its launches are done
                prepared.used_on.add(queue.handle)
            if preparation is not None and preparation.buffer is not None:
                pointers[preparation.buffer.name] = prepared.block.pointer
        if not self._constant:
            self._execute(self._loaded(contexts.context_key(), None, self._by_pycuda(queue)), call, pointers, queue)
        elif prepared is not None:
            self._execute(self._module_for(prepared, queue), call, pointers, queue)
        elif recording.graph is not None:
            raise ArgumentError("this kernel has its weights in constant memory, which a graph cannot share",
                                argument="weight", hint="kernel.prepare(weight) before recording, and give the Filter")
        else:
            # weights by pointer: a bank per stream, filled and read in that stream's order, by one thread at a time
            loaded = self._loaded(contexts.context_key(), streams.identity(queue.handle), self._by_pycuda(queue))
            with loaded.bank:
                self._fill_constant(loaded, pointers[self._weight], queue.handle)
                self._execute(loaded, call, pointers, queue)

    def _queue_with_transform(self, call: Call, pointers: dict[str, int], queue: Queue) -> None:
        """A weight by pointer is transformed for this call alone, in the stream's order: the buffer is a workspace."""
        loaded = self._loaded(contexts.context_key(), None, self._by_pycuda(queue))
        pool = memory.pool_of(call.operands[self._input])
        made = self._transformed(loaded, pointers, queue, pool)
        try:
            pointers = {**pointers, self._weight: made.pointer, self._preparation.buffer.name: made.pointer}
            self._execute(loaded, call, pointers, queue)
        finally:
            pool.release(made)

    def _transformed(self, loaded: _Loaded, pointers: Mapping[str, int], queue: Queue, pool: Pool) -> Block:
        """The buffer that the preparation's steps make of the weight, queued; the caller gives it back to ``pool``."""
        buffer = self._preparation.buffer
        made = pool.allocate(buffer.bytes_each, queue.handle)
        try:
            execute(_Executor(loaded, self.program, queue, pool), self._preparation.steps, (), None,
                    {**pointers, buffer.name: made.pointer})
        except BaseException:
            pool.release(made)
            raise
        return made

    def _execute(self, loaded: _Loaded, call: Call, pointers: dict[str, int], queue: Queue) -> None:
        program, pool = self.program, memory.pool_of(call.operands[self._input])
        execute(_Executor(loaded, program, queue, pool), program.steps, program.workspaces, call.shape, pointers)

    def _module_for(self, prepared: PreparedFilter, queue: Queue) -> _Loaded:
        """The filter's own module, its bank filled once."""
        by_pycuda = self._by_pycuda(queue)
        with self._lock:
            loaded = prepared.loaded.get(by_pycuda)
            if loaded is None:
                _refuse_capture(queue, "a filter is used for the first time on such a stream")
                spare = self._spare.get((prepared.context, by_pycuda))
                if spare:
                    streams.synchronize_all()         # whoever used it before has finished
                    loaded = spare.pop()
                else:
                    loaded = _Loaded(self._cubin, self.program, by_pycuda)
                self._fill_constant(loaded, prepared.block.pointer, queue.handle)
                streams.synchronize(queue.handle)     # other streams will launch it, too
                prepared.loaded[by_pycuda] = loaded
        return loaded

    def _hold(self, elsewhere: Sequence[Elsewhere], prepared: PreparedFilter | None, queue: Queue) -> None:
        """Keep alive what could be freed or reused before the stream has passed: arrays whose library does not order
        their memory on this stream, and a filter that a captured graph will read."""
        if recording.graph is not None:         # keeps all that the call read
            return
        held: list[Any] = [view.owner for view, _ in elsewhere]
        if prepared is not None and streams.capturing(queue.handle):
            held.append(prepared)
        if held:
            memory.keep_alive.hold(held, queue.handle)

    def _order(self, queue: Queue, elsewhere: Sequence[Elsewhere]) -> None:
        """Make the stream wait for those on which the arrays' libraries are writing them (or copied them)."""
        for stream in {stream for _, stream in elsewhere}:
            if stream is not None and stream != queue.handle and not streams.capturing(queue.handle):
                streams.order(stream, queue.handle)

    def _run_from_host(self, call: Call, prepared: PreparedFilter | None, queue: Queue) -> None:
        blocks: dict[str, Block] = {}
        try:
            for name, view in call.operands.items():
                span = view.span()      # gaps come along
                blocks[name] = memory.pool.allocate(span.nbytes, queue.handle)
                if self.program.argument(name).role is not Role.OUTPUT:
                    memory.copy_in(span, blocks[name].pointer, queue.handle)
            self._queue(call, {name: block.pointer for name, block in blocks.items()}, prepared, queue)
            for name, view in call.operands.items():
                if self.program.argument(name).role is Role.OUTPUT:
                    _copy_out(view, blocks[name].pointer, queue)
        finally:
            for block in blocks.values():
                memory.pool.release(block)

    def _transform(self, prepared: PreparedFilter, queue: Queue) -> None:
        loaded = self._loaded(contexts.context_key(), None, self._by_pycuda(queue))
        made = self._transformed(loaded, {self._weight: prepared.block.pointer}, queue, memory.pool)
        memory.pool.release(prepared.block)
        prepared.block = made

    # ---- modules and streams

    def _by_pycuda(self, queue: Queue) -> bool:
        """Whether PyCUDA launches: where it can, but not descriptors: kernels that it launched (2026.1) read others
        than were given."""
        return queue.for_pycuda and not self.program.descriptors

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


def _copy_out(view: ArrayView, pointer: int, queue: Queue) -> None:
    """Bring an output to the host; what lies in its gaps there stays."""
    if view.contiguous:
        memory.copy_out(view, pointer, queue.handle)
        return
    span = np.empty(view.span().nbytes, np.uint8)
    memory.copy_out(span, pointer, queue.handle)
    raw_elements(view, view.pointer)[...] = raw_elements(view, span.ctypes.data)


def _own_stream(view: ArrayView) -> int | None:
    """The stream on which the array's library orders its work: PyTorch's or CuPy's current one, or the producer's."""
    return current_stream(view) if view.kind in _FRAMEWORKS else view.producer_stream


def _refuse_capture(queue: Queue, what: str) -> None:
    if streams.capturing(queue.handle):
        raise DeviceError(f"{what} while the stream is being captured into a CUDA graph", argument="stream",
                          hint="prepare the filter, and call the kernel once, before capturing")


class _Executor:
    """Steps queued on one stream; operands are device pointers."""

    kind = "cuda"

    def __init__(self, loaded: _Loaded, program: Program, queue: Queue, pool: Pool):
        self._loaded = loaded
        self._pool = pool
        self._program = program
        self.stream = queue.handle
        self._launch_stream = queue.pycuda_stream if loaded.by_pycuda else queue.handle
        self._blocks: dict[int, Block] = {}

    def launch(self, step: Launch, shape: ConvShape | None, operands: Mapping[str, int]) -> None:
        key = (id(step), None if shape is None else (shape.n, shape.d, shape.h, shape.w, shape.x_pitch, shape.y_pitch,
                                                     shape.padding_value))
        grid, sizes = self._loaded.geometry.get(key) or self._work_out(key, step, shape)
        args = [operands[name] if name in operands else sizes[name] if name in sizes
                else self._descriptor(name, shape, operands) for name in step.arguments]
        self._loaded.launchers[id(step)](grid, args, self._launch_stream)

    def _descriptor(self, name: str, shape: ConvShape | None, operands: Mapping[str, int]) -> bytes:
        described = self._program.descriptor(name)
        return tensor_maps.encoded(described.at(shape), operands[described.of])

    def _work_out(self, key: tuple[int, Any], step: Launch, shape: ConvShape | None) -> Geometry:
        """Grid, and the arguments that are sizes or the border's value, once per layer; a filter's preparation knows no
        layer."""
        numbers: dict[str, int] = {}
        if shape is not None:
            numbers = {size.value: size.of(shape) for size in Dimension} | self._program.border_bits(shape)
        found = step.grid_of(shape), numbers
        if len(self._loaded.geometry) > MOST_LAYERS:
            self._loaded.geometry.clear()
        self._loaded.geometry[key] = found
        return found

    def allocate(self, workspace: Workspace, nbytes: int) -> int:
        block = self._pool.allocate(nbytes, self.stream)
        self._blocks[block.pointer] = block
        return block.pointer

    def nbytes(self, pointer: int) -> int:
        """Bytes of the workspace at ``pointer``."""
        return self._blocks[pointer].nbytes

    def release(self, workspace: Workspace, pointer: int) -> None:
        self._pool.release(self._blocks.pop(pointer))
