"""Where a worker filters a chunk: on the chunk's own GPU, on one that has a lane free, or on the CPU device.

A GPU has a few lanes, each a stream that one thread at a time works on: the copies of one lane's chunk run beside the
kernels of another's, while further threads read and store. With CuPy (whose pools hold page-locked memory and the
GPU's) a chunk's pixels are copied once, from where they lie to page-locked blocks (staging.py), and its result once,
from page-locked memory to where it is stored; not at all where these are page-locked themselves (locked.py). It goes to
the GPU once, whatever number of kernels its filter is. Without CuPy the kernels' own copies are used, one chunk at a
time.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from warpconv.runtime import forks

from . import locked, staging
from .windows import Window

LANES = 4                   # to a GPU: two whose windows come in, one that computes, one whose result goes out

Call = Callable[[Any, str, Any], Any]       # of a chunk, a device and a stream


def run(call: Call, block: Any, device: str, kept: tuple[slice, ...], into: np.ndarray | None = None) -> Any:
    """The part ``kept`` of what ``call`` makes of a chunk, an array or a Window; written to ``into`` (None is returned
    then) where that is given. Raises as the call, DeviceError without the GPU named."""
    window = block if isinstance(block, Window) else Window([block], (1,) * block.ndim)
    if not isinstance(window.first, np.ndarray):        # on a GPU already
        with lanes.one([window.first.device.id]):
            with window.first.device:
                whole = window.whole()
            return put(call(whole, device, None)[kept], into)
    ordinals = _gpus(device)
    if not ordinals:
        return put(call(window.whole(), device, None)[kept], into)
    if cupy() is None:
        with lanes.alone(ordinals) as ordinal:
            return put(call(window.whole(), f"cuda:{ordinal}", None)[kept], into)
    with lanes.one(ordinals) as (ordinal, lane):
        return _through(call, window, ordinal, lane, kept, into)


def put(made: Any, into: np.ndarray | None) -> Any:
    """An array of NumPy's or CuPy's, or None when it is written to ``into``."""
    if into is None:
        return made
    np.copyto(into, made.get() if hasattr(made, "get") else made)
    return None


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


def runtime() -> Any:
    """CUDA's functions for page-locked memory; None without a GPU or CuPy."""
    from warpconv.runtime.devices.cuda import contexts
    if contexts.usable() is not None or cupy() is None:
        return None
    return cupy().cuda.runtime


def _through(call: Call, window: Window, ordinal: int, lane: Lane, kept: tuple[slice, ...],
             into: np.ndarray | None) -> np.ndarray | None:
    """A chunk in host memory to the GPU, filtered, and its own pixels back, to ``into`` where that is given."""
    module = cupy()
    with module.cuda.Device(ordinal), lane.stream, contextlib.ExitStack() as used:
        try:
            there = _room(window)
            if not _brought(window, there, lane, used):
                staging.feed(window, there, lane.blocks, lane.stream, _helpers)
            back = _back(module.ascontiguousarray(call(there, f"cuda:{ordinal}", None)[kept]), into, lane, used)
            lane.wait()
        except BaseException:
            with contextlib.suppress(Exception):    # the first error is the one to tell
                lane.wait()                         # for copies from memory that may be unlocked or freed next
            raise
    return back


def _back(made: Any, into: np.ndarray | None, lane: Lane, used: contextlib.ExitStack) -> np.ndarray | None:
    """Queue copies of an array of the GPU to ``into`` (None is returned), or to a new array."""
    if into is not None and _taken(made, into, lane, used):
        return None
    back = into if into is not None else _pins.array(cupy(), made.shape, made.dtype)
    if back is not None and back is not into:
        made.data.copy_to_host_async(back.ctypes.data, back.nbytes, lane.stream)
        return back
    if back is None:
        back = np.empty(made.shape, made.dtype)
    if back.nbytes:
        staging.drain(made, back, lane.blocks, lane.stream, _helpers)
    return None if back is into else back


def _brought(window: Window, there: Any, lane: Lane, used: contextlib.ExitStack) -> bool:
    """Copy a window to an array ``there`` of the GPU from where it lies, if that is page-locked: so it stays until
    ``used`` is closed."""
    whole = [(0, extent) for extent in window.shape]
    steps = [math.prod(window.shape[axis + 1:]) * window.dtype.itemsize for axis in range(len(window.shape))]
    found = [(part, locked.lines(part.shape, part.strides, tuple(steps), window.dtype.itemsize),
              sum(each.start * step for each, step in zip(to, steps))) for part, to in window.met(whole)]
    if not all(how for _, how, _ in found):
        return False
    return _copied([(part, how, there.data.ptr + start) for part, how, start in found], locked.TO_GPU, lane, used)


def _taken(made: Any, into: np.ndarray, lane: Lane, used: contextlib.ExitStack) -> bool:
    """Copy an array of the GPU to where it is stored, if that is page-locked."""
    how = locked.lines(into.shape, into.strides, made.strides, into.dtype.itemsize)
    return how is not None and _copied([(into, how, made.data.ptr)], locked.FROM_GPU, lane, used)


def _copied(copies: Sequence[tuple[np.ndarray, Any, int]], direction: int, lane: Lane,
            used: contextlib.ExitStack) -> bool:
    cuda = cupy().cuda.runtime
    if not copies or not used.enter_context(locked.locks.reading(cuda, [array for array, _, _ in copies])):
        return False
    for array, how, there in copies:
        locked.copy(cuda, how, array.ctypes.data, there, direction, lane.stream)
    return True


def _room(window: Window) -> Any:
    """An array of the GPU for a window. Windows of nearly one size share memory: a lane's is then made once."""
    module = cupy()
    if not window.nbytes:
        return module.empty(window.shape, window.dtype)
    flat = module.empty(staging.rounded(window.nbytes), np.uint8)
    return flat[:window.nbytes].view(window.dtype).reshape(window.shape)


class Lane(NamedTuple):
    """A stream, its GPU's page-locked blocks, and an event of its own."""

    stream: Any
    blocks: staging.Blocks
    event: Any

    def wait(self) -> None:
        """For all that the stream has, without taking a core's time."""
        self.event.record(self.stream)
        self.event.synchronize()


class Lanes:
    """Each GPU's lanes, lent to one thread at a time."""

    def __init__(self, make: Callable[[int], Any]):
        self._make = make
        self._changed = threading.Condition(forks.lock())
        self._free: dict[int, list[Any]] = {}
        self._waiting: list[tuple[tuple[int, ...], int]] = []

    @contextlib.contextmanager
    def one(self, ordinals: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """A lane (with the GPU's ordinal) of the GPU that has most of them free; waits for one."""
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
                self._wait(ordinals, count)
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
            self._tell(len(taken))

    def _wait(self, ordinals: Sequence[int], count: int) -> None:
        self._waiting.append((tuple(ordinals), count))
        try:
            self._changed.wait()
        except BaseException:
            self._tell(count)       # another, if this thread was the one that was told
            raise
        finally:
            self._waiting.remove((tuple(ordinals), count))

    def _tell(self, count: int) -> None:
        """Threads that wait that there are ``count`` more lanes: no more of them than lanes, as a dozen that wake for
        nothing hold up those that copy; all, where they wait for different things."""
        if len(set(self._waiting)) == 1:
            self._changed.notify(count)
        else:
            self._changed.notify_all()


def _lane(ordinal: int) -> Any:
    module = cupy()
    if module is None:
        return None
    device = functools.partial(module.cuda.Device, ordinal)
    blocks = _blocks.setdefault(ordinal, staging.Blocks(functools.partial(staging.Block, module), device))
    with device():
        return Lane(module.cuda.Stream(non_blocking=True), blocks,
                    module.cuda.Event(block=True, disable_timing=True))


lanes = Lanes(_lane)
_blocks: dict[int, staging.Blocks] = {}     # of each GPU
_helpers = staging.Helpers(staging.HELPERS)
_pins = staging.Pins()
