"""Page-locked memory: what a GPU copies from and to beside its kernels.

Making page-locked memory costs more than copying to it (a GB in half a second, and the GPU waits), so nothing here is
made for a chunk. Windows go through a few blocks that are filled while others are on their way, each small enough to
lie in the processor's cache meanwhile; results lie in memory that is taken again when their last view is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from warpconv.runtime import forks

from .windows import Window

BLOCK = 8 * 2**20           # bytes: 0.15 ms of PCIe, beside which a block's calls take a tenth
BLOCKS = 12                 # of a GPU: those that threads fill, and those that are on their way
MOST_PINNED = 4 * 2**30     # bytes of results in page-locked memory; further ones are copied to other memory
HELPERS = min(8, (os.cpu_count() or 1) // 4)    # threads that copy for those that wait: one core moves 10 GB/s, PCIe 50

Region = tuple[tuple[int, int], ...]


# ---- to the GPU and back

def feed(window: Window, there: Any, blocks: Blocks, stream: Any, helpers: Helpers) -> None:
    """A window to an array ``there`` of a GPU, on a stream; returns when the last part of it is on its way."""
    def carry(region: Region, offset: int) -> None:
        block = blocks.take()
        try:
            block.wait()
            shape = tuple(high - low for low, high in region)
            part = block.array(shape, window.dtype)
            window.copy(region, part)
            (there.data + offset).copy_from_host_async(block.pointer, part.nbytes, stream)
            block.event.record(stream)
        finally:
            blocks.give(block)

    helpers.share(carry, bands(window.shape, window.dtype.itemsize), blocks.device)


def drain(made: Any, target: np.ndarray, blocks: Blocks, stream: Any, helpers: Helpers) -> None:
    """An array of a GPU without gaps to other memory, ``target``, of any strides."""
    def carry(region: Region, offset: int) -> None:
        block = blocks.take()
        try:
            block.wait()
            part = block.array(tuple(high - low for low, high in region), target.dtype)
            (made.data + offset).copy_to_host_async(block.pointer, part.nbytes, stream)
            block.event.record(stream)
            block.wait()
            np.copyto(target[tuple(slice(*ends) for ends in region)], part)
        finally:
            blocks.give(block)

    helpers.share(carry, bands(target.shape, target.dtype.itemsize), blocks.device)


def bands(shape: Sequence[int], itemsize: int, most: int | None = None) -> Iterator[tuple[Region, int]]:
    """An array without gaps in parts that have none either, of at most ``most`` bytes (BLOCK): each a region, and how
    many bytes lie before it."""
    room, axis, step = BLOCK if most is None else most, len(shape), itemsize
    while axis and step * shape[axis - 1] <= room:
        axis -= 1
        step *= shape[axis]
    if axis == 0:
        yield tuple((0, extent) for extent in shape), 0
        return
    cut, count = axis - 1, max(1, room // step)
    offset = 0
    for lead in itertools.product(*map(range, shape[:cut])):
        for low in range(0, shape[cut], count):
            high = min(low + count, shape[cut])
            yield (*((at, at + 1) for at in lead), (low, high), *((0, extent) for extent in shape[axis:])), offset
            offset += (high - low) * step


class Helpers:
    """Threads that take a part in another's copies while they have nothing to do."""

    def __init__(self, count: int):
        self._count = count
        self._lock = forks.lock()
        self._idle = count
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0

    def share(self, work: Callable[..., None], parts: Iterator[tuple[Any, ...]],
              within: Callable[[], Any] = contextlib.nullcontext) -> None:
        """``work(*part)`` for all parts, by this thread and those that are idle, each in a context of its own. Raises
        what one of them raises; then no further part is begun, and none is under way."""
        left = deque(parts)

        def some() -> None:
            try:
                with within():
                    while left:
                        try:
                            part = left.popleft()
                        except IndexError:      # another thread took it
                            return
                        work(*part)
            except BaseException:
                left.clear()
                raise

        others = self._lend(some, len(left) - 1)
        try:
            some()
        finally:
            raised = [error for each in others if (error := each.exception()) is not None]
        if raised:
            raise raised[0]

    def _lend(self, some: Callable[[], None], most: int) -> list[Future[None]]:
        with self._lock:
            if self._process != os.getpid():        # a forked child has none of its parent's threads
                self._process, self._idle = os.getpid(), self._count
                self._threads = ThreadPoolExecutor(self._count, "warpconv-copy") if self._count else None
            threads, count = self._threads, max(0, min(self._idle, most))
            self._idle -= count
        if threads is None:
            return []
        return [threads.submit(self._helped, some) for _ in range(count)]

    def _helped(self, some: Callable[[], None]) -> None:
        try:
            some()
        finally:
            with self._lock:
                self._idle += 1


# ---- page-locked memory

class Block:
    """Page-locked memory, and an event that says whether the copy from or to it is done."""

    def __init__(self, library: Any):
        self._memory = library.cuda.alloc_pinned_memory(BLOCK)
        self._bytes = np.frombuffer(self._memory, np.uint8, BLOCK)
        self.pointer = self._bytes.ctypes.data
        self.event = library.cuda.Event(block=True, disable_timing=True)       # waiting takes no core's time
        self.wait = self.event.synchronize

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return self._bytes[:math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


class Blocks:
    """A GPU's blocks, each in one thread's hands at a time; made when those that are there are on their way."""

    def __init__(self, make: Callable[[], Any], device: Callable[[], Any]):
        self.device = device        # a context in which the GPU is the current one, of a thread that never used one
        self._make = make
        self._changed = threading.Condition(forks.lock())
        self._free: deque[Any] = deque()
        self._count = 0

    def take(self) -> Any:
        """The block that was given back first. It may be on its way still: ``wait``."""
        with self._changed:
            while True:
                if self._free and (self._count == BLOCKS or self._free[0].event.done):
                    return self._free.popleft()
                if self._count < BLOCKS:
                    self._count += 1
                    break
                self._changed.wait()
        try:
            with self.device():
                return self._make()
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            raise

    def give(self, block: Any) -> None:
        with self._changed:
            self._free.append(block)
            self._changed.notify()


class Pins:
    """Results' memory, and how much of it is in use. Memory for one size serves others near it."""

    def __init__(self) -> None:
        self._lock = forks.rlock()      # given back by the garbage collector, at any time
        self.used = 0

    def array(self, library: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """An array in page-locked memory of CuPy's pool, where it returns with the array's last view; None beyond
        MOST_PINNED."""
        count = math.prod(shape)
        nbytes = rounded(count * dtype.itemsize)
        if not nbytes or not self._take(nbytes):
            return None
        try:
            holder = library.cuda.alloc_pinned_memory(nbytes)
        except BaseException:
            self._give(nbytes)
            raise
        flat = np.frombuffer(holder, dtype, count)      # every view keeps it, and it the memory
        weakref.finalize(flat, self._give, nbytes).atexit = False
        return flat.reshape(shape)

    def _take(self, nbytes: int) -> bool:
        with self._lock:
            if self.used + nbytes > MOST_PINNED:
                return False
            self.used += nbytes
            return True

    def _give(self, nbytes: int) -> None:
        with self._lock:
            self.used -= nbytes


def rounded(nbytes: int) -> int:
    """The next eighth of a power of two: chunks at an image's edges, with an overlap less, are of the others' size."""
    step = 1 << max(0, nbytes.bit_length() - 4)
    return -(-nbytes // step) * step
