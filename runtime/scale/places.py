"""Where a worker filters a chunk: on the chunk's own GPU, on one that has a lane free, or on the CPU device.

A GPU has a few lanes, each a stream that one thread at a time works on: the copies of one lane's chunk run beside the
kernels of another's, while further threads read, store and bring pixels to page-locked memory, which the copies need to
run beside anything. With CuPy (whose pools hold that memory and the GPU's) a chunk goes there once, whatever number of
kernels its filter is; without CuPy the kernels' own copies are used, one chunk at a time.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from warpconv.runtime import forks

LANES = 3                   # to a GPU: one copies in, one computes, one copies out
MOST_PINNED = 8 * 2**30     # bytes of results in page-locked memory; further ones are copied to other memory

Call = Callable[[Any, str, Any], Any]       # of a chunk, a device and a stream


def run(call: Call, block: Any, device: str, kept: tuple[slice, ...]) -> Any:
    """The part ``kept`` of what ``call`` makes of a chunk. Raises as the call, DeviceError without the GPU named."""
    if not isinstance(block, np.ndarray):       # on a GPU already
        with lanes.one([block.device.id]):
            return call(block, device, None)[kept]
    if not block.flags.aligned:                 # as a chunk may be that came from another worker
        block = block.copy()
    ordinals = _gpus(device)
    if not ordinals:
        return call(block, device, None)[kept]
    if cupy() is None:
        with lanes.alone(ordinals) as ordinal:
            return call(block, f"cuda:{ordinal}", None)[kept]
    staged = _pinned(block.shape, block.dtype)
    np.copyto(staged, block)
    with lanes.one(ordinals) as (ordinal, stream):
        return _through(call, staged, ordinal, stream, kept)


def _gpus(device: str) -> Sequence[int]:
    """The GPUs that chunks of host memory may go to; none for the CPU device. Raises DeviceError where one is asked for
    and none is usable, ArgumentError or DeviceError for a number that there is not."""
    from warpconv.runtime.devices.cuda import contexts
    kind, _, number = device.partition(":")
    if kind == "cpu" or contexts.usable() is not None:
        return ()           # auto warns once, and 'cuda' is refused, where the kernel is made
    if number:
        contexts.arch(int(number))
        return [int(number)]
    return [contexts.default_device()] if _in_worker() else range(contexts.count())


def _in_worker() -> bool:
    """Whether this is a worker of a cluster: its GPU is the first that it sees (dask-cuda shows it the others, too)."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


@functools.cache
def cupy() -> Any:
    """CuPy, or None where it is not installed."""
    if importlib.util.find_spec("cupy") is None:
        return None
    import cupy as module
    return module


def _through(call: Call, staged: np.ndarray, ordinal: int, stream: Any, kept: tuple[slice, ...]) -> np.ndarray:
    """A chunk in page-locked memory to the GPU, filtered, and its own pixels back."""
    module = cupy()
    with module.cuda.Device(ordinal), stream:
        there = module.empty(staged.shape, staged.dtype)
        there.set(staged, stream=stream)
        made = module.ascontiguousarray(call(there, f"cuda:{ordinal}", None)[kept])
        back = _pinned(made.shape, made.dtype)
        made.get(stream=stream, out=back)
        stream.synchronize()
    return back


def _pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array in page-locked memory of CuPy's pool, where it returns with the array's last view; in other memory
    beyond MOST_PINNED."""
    count = int(np.prod(shape, dtype=np.int64))
    nbytes = count * dtype.itemsize
    if not nbytes or not _pins.take(nbytes):
        return np.empty(shape, dtype)
    try:
        holder = cupy().cuda.alloc_pinned_memory(nbytes)
    except BaseException:
        _pins.give(nbytes)
        raise
    flat = np.frombuffer(holder, dtype, count)      # every view keeps it, and it the memory
    weakref.finalize(flat, _pins.give, nbytes).atexit = False
    return flat.reshape(shape)


class _Pins:
    """How many bytes of page-locked memory are in use."""

    def __init__(self) -> None:
        self._lock = forks.rlock()      # given back by the garbage collector, at any time
        self._used = 0

    def take(self, nbytes: int) -> bool:
        with self._lock:
            if self._used + nbytes > MOST_PINNED:
                return False
            self._used += nbytes
            return True

    def give(self, nbytes: int) -> None:
        with self._lock:
            self._used -= nbytes


class Lanes:
    """Each GPU's lanes, lent to one thread at a time."""

    def __init__(self, make: Callable[[int], Any]):
        self._make = make
        self._changed = threading.Condition(forks.lock())
        self._free: dict[int, list[Any]] = {}

    @contextlib.contextmanager
    def one(self, ordinals: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """A lane (the GPU's ordinal, a stream) of the GPU that has most of them free; waits for one."""
        taken = self._take(ordinals, 1)
        try:
            yield taken[0], taken[1][0]
        finally:
            self._give(*taken)

    @contextlib.contextmanager
    def alone(self, ordinals: Sequence[int]) -> Iterator[int]:
        """A GPU (its ordinal) without anybody else on a lane of it."""
        taken = self._take(ordinals, LANES)
        try:
            yield taken[0]
        finally:
            self._give(*taken)

    def _take(self, ordinals: Sequence[int], count: int) -> tuple[int, list[Any]]:
        with self._changed:
            for ordinal in ordinals:
                self._free.setdefault(ordinal, [None] * LANES)
            while True:
                best = max(ordinals, key=lambda ordinal: len(self._free[ordinal]))
                if len(self._free[best]) >= count:
                    taken = [self._free[best].pop() for _ in range(count)]
                    break
                self._changed.wait()
        if count == 1 and taken[0] is None:
            try:
                taken[0] = self._make(best)
            except BaseException:
                self._give(best, taken)
                raise
        return best, taken

    def _give(self, ordinal: int, taken: list[Any]) -> None:
        with self._changed:
            self._free[ordinal] += taken
            self._changed.notify_all()


def _stream(ordinal: int) -> Any:
    module = cupy()
    if module is None:
        return None
    with module.cuda.Device(ordinal):
        return module.cuda.Stream(non_blocking=True)


lanes = Lanes(_stream)
_pins = _Pins()
