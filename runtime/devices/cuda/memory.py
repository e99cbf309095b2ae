"""Device memory: a stream-ordered pool for workspaces, copies, and keeping objects alive until the GPU is done."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from ctypes import byref, c_size_t
from functools import partial
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.runtime import forks
from warpconv.runtime.arrays import ArrayKind, ArrayView
from warpconv.runtime.arrays.streams import torch_stream
from warpconv.runtime.call.recording import recording

from . import contexts, streams
from .libcuda import OUT_OF_MEMORY, call, check, libcuda

_SMALLEST = 512         # the driver's own granularity, and more than the alignment any kernel asks for
_STEPS = 8              # size classes per power of two: at most 1/8 is given away

_PoolKey = tuple[tuple[str, int], tuple[int, int]]
_NO_KEY: _PoolKey = (("", 0), (0, 0))


class Block:
    """Device memory lent by a pool: ``pointer`` and the ``nbytes`` asked for; give it back with ``pool.release``."""

    __slots__ = ("pointer", "nbytes", "_capacity", "_key", "_captured")

    def __init__(self, pointer: int, nbytes: int, capacity: int, key: _PoolKey, captured: bool):
        self.pointer = pointer
        self.nbytes = nbytes
        self._capacity = capacity
        self._key = key
        self._captured = captured


class StreamPool:
    """Memory reused in stream order: what is released on a stream may be handed out again on that stream at once.

    The GPU runs a stream's work in order, so the next user's kernel starts after the last user's is done and no one
    waits. A block must therefore be used on the stream it was allocated for only. Lists are per context and stream; all
    methods may be called from any thread. A block allocated while its stream is being captured into a CUDA graph is
    never lent again, since the graph writes to it at every replay (``trim(captured=True)`` frees those, too).
    """

    def __init__(self) -> None:
        self._lock = forks.rlock()       # released filters come back from the garbage collector, at any time
        self._free: dict[_PoolKey, dict[int, list[int]]] = {}
        self._captured: dict[tuple[str, int], list[int]] = {}
        self._sizes: dict[tuple[str, int], dict[int, int]] = {}     # all that the driver gave: pointer -> bytes

    def allocate(self, nbytes: int, stream: int) -> Block:
        """A block of at least ``nbytes`` in the current context; DeviceError if the GPU has no room for it."""
        key = (contexts.context_key(), streams.identity(stream))
        if nbytes <= 0:
            return Block(0, 0, 0, key, False)
        capacity = size_class(nbytes)
        captured = streams.capturing(stream)
        with self._lock:
            spare = self._free.get(key, {}).get(capacity)
            pointer = spare.pop() if spare else 0
        return Block(pointer or self._obtain(capacity), nbytes, capacity, key, captured)

    def release(self, block: Block, *, to_driver: bool = False) -> None:
        """Give a block back, after the last work that uses it has been queued; a second time does nothing.

        ``to_driver``: the block was used on other streams, too. Its memory is freed, for which the GPU is waited for.
        """
        with self._lock:
            pointer, block.pointer = block.pointer, 0
            if not pointer:
                return
            if block._captured:
                self._captured.setdefault(block._key[0], []).append(pointer)
                return
            if not to_driver:
                self._free.setdefault(block._key, {}).setdefault(block._capacity, []).append(pointer)
                return
            self._sizes.get(block._key[0], {}).pop(pointer, None)
        free(pointer)

    def trim(self, *, captured: bool = False) -> int:
        """Return the current context's unused blocks to the driver, waiting for the GPU; gives how many there were.

        ``captured`` also frees blocks that captured graphs use: only when those graphs will not be replayed.
        """
        context = contexts.context_key()
        with self._lock:
            gone = [pointer for key in [k for k in self._free if k[0] == context]
                    for pointers in self._free.pop(key).values() for pointer in pointers]
            if captured:
                gone += self._captured.pop(context, [])
            for pointer in gone:
                self._sizes.get(context, {}).pop(pointer, None)
        for pointer in gone:
            free(pointer)
        return len(gone)

    def held_bytes(self) -> int:
        """Bytes of the current context that the driver gave and has not had back: lent blocks and spare ones."""
        with self._lock:
            return sum(self._sizes.get(contexts.context_key(), {}).values())

    def _obtain(self, capacity: int) -> int:
        pointer = _try_allocate(capacity)
        if not pointer:
            self.trim()
            pointer = _try_allocate(capacity)
        if pointer:
            with self._lock:
                self._sizes.setdefault(contexts.context_key(), {})[pointer] = capacity
        return pointer or _out_of_memory(capacity)


class TorchPool:
    """PyTorch's caching allocator in a pool's place: the workspaces of calls on its tensors are lent in the order of
    its current stream and counted with them, and while it captures a CUDA graph they are the graph's own memory, which
    what comes later in the graph has again and which goes when the graph does. Of other streams, which somebody else
    may capture, they are the usual pool's. ``full`` is what ``take`` raises where there is no room."""

    def __init__(self, take: Callable[[int, int], int], give: Callable[[int], None], current: Callable[[], int],
                 full: type[Exception]):
        self._take, self._give, self._current, self._full = take, give, current, full

    def allocate(self, nbytes: int, stream: int) -> Block:
        """A block of ``nbytes`` on the GPU of the current context; DeviceError if it has no room for it."""
        if nbytes <= 0 or stream != self._current():
            return pool.allocate(nbytes, stream)
        try:
            pointer = self._take(nbytes, stream)
        except self._full:
            pool.trim()
            try:
                pointer = self._take(nbytes, stream)
            except self._full:
                _out_of_memory(nbytes)
        return Block(pointer, nbytes, nbytes, _NO_KEY, False)

    def release(self, block: Block) -> None:
        """Give a block back, after the last work that uses it has been queued; a second time does nothing."""
        if block._key is not _NO_KEY:
            pool.release(block)
            return
        pointer, block.pointer = block.pointer, 0
        if pointer:
            self._give(pointer)


Pool = StreamPool | TorchPool


def pool_of(view: ArrayView) -> Pool:
    """Where the workspaces of a call on such an array come from: PyTorch's allocator serves GPUs that it has been on,
    as its tensors there say. A graph that warpconv records keeps its own, as PyTorch does not know that it is
    recorded."""
    if view.kind is not ArrayKind.TORCH or not view.is_device or recording.graph is not None:
        return pool
    torch, device = sys.modules["torch"], view.device
    take, give = (getattr(torch._C, f"_cuda_cudaCachingAllocator_raw_{name}", None) for name in ("alloc", "delete"))
    if take is None or give is None or device is None:
        return pool
    if torch.cuda.device_count() > 1:       # what PyTorch holds to be its current GPU need not be the context's
        take = partial(_take_on, torch.cuda.caching_allocator_alloc, device)
    return TorchPool(take, give, partial(torch_stream, device), getattr(torch, "OutOfMemoryError", MemoryError))


def _take_on(take: Callable[[int, int, int], int], device: int, nbytes: int, stream: int) -> int:
    return take(nbytes, device, stream)


class KeepAlive:
    """Holds references until the work queued on a stream so far is done, so that no memory is freed under a kernel."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._held: dict[_PoolKey, deque[tuple[int, tuple]]] = {}
        self._captured: list[tuple] = []
        self._adopted: deque[tuple[tuple[str, int], int, tuple]] = deque()

    def adopt(self, context: tuple[str, int], event: int, objects: tuple) -> None:
        """Keep ``objects`` until an event has passed, which belongs to the keeper from now on. Takes no lock, so that
        finalizers may call it at any time."""
        self._adopted.append((context, event, objects))

    def hold(self, objects: Iterable[Any], stream: int) -> None:
        """Keep ``objects`` until everything queued on ``stream`` has run; lets go of what has passed meanwhile.

        Objects held while the stream is being captured are kept for good: the graph may be replayed at any time.
        """
        objects = tuple(objects)
        if objects and streams.capturing(stream):
            self._captured.append(objects)
            return
        self.sweep()
        if not objects:
            return
        event = streams.new_event()
        streams.record(event, stream)
        key = (contexts.context_key(), streams.identity(stream))
        with self._lock:
            self._held.setdefault(key, deque()).append((event, objects))

    def sweep(self) -> None:
        """Let go of all objects of the current context whose stream has come past them."""
        if not self._held and not self._adopted:
            return
        context = contexts.context_key()
        gone = []
        with streams.relaxed_capture(), self._lock:      # asking is allowed while another stream is being captured
            while self._adopted:
                owner, event, objects = self._adopted.popleft()
                self._held[owner, (event, -1)] = deque([(event, objects)])
            for key in [k for k in self._held if k[0] == context]:
                gone += _passed(self._held[key])
                if not self._held[key]:
                    del self._held[key]
        for event, _ in gone:       # outside the lock: dropping the last reference may run anybody's code
            streams.destroy_event(event)

    def __len__(self) -> int:
        """How many sets of objects are held."""
        with self._lock:
            return len(self._captured) + len(self._adopted) + sum(map(len, self._held.values()))


pool = StreamPool()         # the process's pool for workspaces and temporaries
keep_alive = KeepAlive()    # and its keeper


def size_class(nbytes: int) -> int:
    """The size actually allocated: ``nbytes`` rounded up to an eighth of its power of two, 512 bytes at least."""
    step = max(_SMALLEST, 1 << max((nbytes - 1).bit_length() - 1, 0)) if nbytes > _SMALLEST else _SMALLEST
    step = max(_SMALLEST, step // _STEPS)
    return -(-nbytes // step) * step


def allocate(nbytes: int) -> int:
    """Pointer to memory outside the pool, in the current context; DeviceError if there is no room, 0 for no bytes."""
    if nbytes <= 0:
        return 0
    pointer = _try_allocate(nbytes)
    if not pointer:
        pool.trim()
        pointer = _try_allocate(nbytes)
    return pointer or _out_of_memory(nbytes)


def free(pointer: int) -> None:
    """Free memory of ``allocate``, waiting for the GPU. Errors are ignored: the context may have taken it along."""
    if pointer:
        with streams.relaxed_capture():
            libcuda().cuMemFree_v2(pointer)


def copy_in(array: Any, pointer: int, stream: int) -> None:
    """Copy a host array to the device; the array may be changed on return unless it is page-locked.

    ``array`` is a C-contiguous ndarray or host ArrayView (else ArgumentError). A page-locked one is read later, in
    stream order; it is kept alive until then.
    """
    address, nbytes = _host_span(array)
    if nbytes:
        call("cuMemcpyHtoDAsync_v2", pointer, address, nbytes, stream, what="copying to the GPU")
        keep_alive.hold((array,), stream)


def copy_out(array: Any, pointer: int, stream: int) -> None:
    """Copy device memory into a host array (as for ``copy_in``) behind the stream's work; it is there on return."""
    address, nbytes = _host_span(array, writable=True)
    if nbytes:
        call("cuMemcpyDtoHAsync_v2", address, pointer, nbytes, stream, what="copying from the GPU")
        streams.synchronize(stream)
        keep_alive.sweep()      # what was copied in on the way here has arrived


def copy_device(dst: int, src: int, nbytes: int, stream: int) -> None:
    """Copy within or between GPUs, in stream order."""
    if nbytes:
        call("cuMemcpyAsync", dst, src, nbytes, stream, what="copying on the GPU")


def fill(pointer: int, byte: int, nbytes: int, stream: int) -> None:
    """Set every byte to ``byte``, in stream order."""
    if nbytes:
        call("cuMemsetD8Async", pointer, byte, nbytes, stream, what="filling memory")


def _host_span(array: Any, *, writable: bool = False) -> tuple[int, int]:
    if isinstance(array, np.ndarray):
        contiguous, readonly = array.flags.c_contiguous, not array.flags.writeable
        address = array.__array_interface__["data"][0]
    else:
        contiguous, readonly, address = array.contiguous, array.readonly, array.pointer
    if not contiguous:
        raise ArgumentError("the host side of a copy has to be contiguous", argument="array",
                            value=tuple(array.strides))
    if writable and readonly:
        raise ArgumentError("the array is read-only", argument="array")
    return address, array.nbytes


def _passed(queue: deque[tuple[int, tuple]]) -> list[tuple[int, tuple]]:
    """Take what is done off the front of one stream's queue; a stream runs in order, so a pending one ends it."""
    gone = []
    while queue and streams.passed(queue[0][0]):
        gone.append(queue.popleft())
    return gone


def _try_allocate(nbytes: int) -> int:
    pointer = c_size_t()
    with streams.relaxed_capture():
        status = libcuda().cuMemAlloc_v2(byref(pointer), nbytes)
    if status == OUT_OF_MEMORY:
        return 0
    check(status, "allocating GPU memory")
    return pointer.value


def _out_of_memory(nbytes: int) -> int:
    available, total = c_size_t(), c_size_t()
    call("cuMemGetInfo_v2", byref(available), byref(total))
    hint = "torch.cuda.empty_cache() gives back what PyTorch keeps" if "torch" in sys.modules else \
        "free memory, or use a smaller batch"
    raise DeviceError(f"the GPU has no room for {nbytes} bytes ({available.value} of {total.value} free)", hint=hint)
