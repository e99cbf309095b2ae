"""The caller's memory, page-locked where it lies: a GPU reads and writes it there, and the host copies nothing.

What is locked here is remembered with how many copies are at work in it, so that no page is unlocked under one; of
memory that others have locked (CuPy's, PyTorch's) the driver is asked.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import mmap
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.errors import ArgumentTypeError, DeviceError
from warpconv.runtime import forks

PORTABLE = 1                # of cudaHostRegister: for all GPUs
HOST = 1                    # of a pointer's attributes: page-locked memory
TO_GPU, FROM_GPU = 1, 2     # directions of a copy
LEAST_COPY = 2**16          # bytes of a copy, in the mean: 1.5 us of PCIe, as long as the call takes
LEAST_ROW = 512             # bytes: shorter rows are quicker by way of blocks
MOST_PITCH = 2**31 - 1      # bytes between rows that a copy takes


class Lines(NamedTuple):
    """How an array is copied whose elements lie otherwise on the other side: ``height`` rows of ``width`` bytes, once
    from each of ``starts``; pitches and starts in bytes, of the one side and of the other."""

    width: int
    height: int
    pitches: tuple[int, int]
    starts: tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=4096)
def lines(shape: tuple[int, ...], ours: tuple[int, ...], theirs: tuple[int, ...], itemsize: int) -> Lines | None:
    """Copies between two arrays of a shape, by their strides in bytes; None where they would be many or small."""
    merged: list[tuple[int, int, int]] = []         # extent and strides, the last axis first
    for extent, our, their in zip(reversed(shape), reversed(ours), reversed(theirs)):
        if merged and (our, their) == (merged[-1][0] * merged[-1][1], merged[-1][0] * merged[-1][2]):
            merged[-1] = (extent * merged[-1][0], *merged[-1][1:])
        elif extent != 1:
            merged.append((extent, our, their))
    if not merged or merged[0][1:] != (itemsize, itemsize):
        return None         # no elements side by side
    width = merged[0][0] * itemsize
    height, *pitches = merged[1] if len(merged) > 1 else (1, width, width)
    around = merged[2:]
    starts = tuple((sum(at * our for at, (_, our, _) in zip(each, around)),
                    sum(at * their for at, (_, _, their) in zip(each, around)))
                   for each in itertools.product(*(range(extent) for extent, _, _ in around))) \
        if _count(around) * LEAST_COPY <= max(_count(merged) * itemsize, LEAST_COPY) else ()     # none: too many
    if not starts or min(pitches) < width or (height > 1 and (width < LEAST_ROW or max(pitches) > MOST_PITCH)):
        return None
    return Lines(width, height, (pitches[0], pitches[1]), starts)


def _count(axes: Sequence[tuple[int, int, int]]) -> int:
    return math.prod(extent for extent, _, _ in axes)


def copy(runtime: Any, how: Lines, here: int, there: int, direction: int, stream: Any) -> None:
    """From ``here`` in the host's memory to ``there`` on a GPU, or back: ``how``'s lines, queued on CuPy's stream."""
    to, of = (1, 0) if direction == TO_GPU else (0, 1)
    for starts in how.starts:
        places = here + starts[0], there + starts[1]
        if how.height == 1:
            runtime.memcpyAsync(places[to], places[of], how.width, direction, stream.ptr)
        else:
            runtime.memcpy2DAsync(places[to], how.pitches[to], places[of], how.pitches[of], how.width, how.height,
                                  direction, stream.ptr)


# ---- what is locked

class _Range:
    """Pages from ``low`` to ``high``: who needs them locked, and how many copies are at work in them."""

    def __init__(self, low: int, high: int):
        self.low, self.high = low, high
        self.holders, self.copies = 1, 0


class Locks:
    """Memory that is page-locked, for any GPU of the process."""

    def __init__(self) -> None:
        self._changed = threading.Condition(forks.lock())
        self._ranges: list[_Range] = []

    def hold(self, runtime: Any, spans: Sequence[tuple[int, int]]) -> list[_Range]:
        """Lock what is not locked, for ``release``. Raises DeviceError; then nothing more is locked than before."""
        held: list[_Range] = []
        try:
            with self._changed:
                ours = _pages([each for each in spans if not self._is_others(runtime, *each)])
            for low, high in ours:
                with self._changed:
                    while not all(each.holders for each in self._meeting(low, high)):
                        self._changed.wait()            # one is just being unlocked
                    for each in self._meeting(low, high):
                        each.holders += 1
                        held.append(each)
                    for gap in self._gaps(low, high):   # pages are locked once
                        _lock(runtime, *gap)
                        made = _Range(*gap)
                        self._ranges.append(made)
                        held.append(made)
        except BaseException:
            self.release(runtime, held)
            raise
        return held

    def release(self, runtime: Any, held: Sequence[_Range]) -> None:
        """Unlock what nobody else holds, when no copy is at work in it. Raises DeviceError, when all is done."""
        failed: Exception | None = None
        for each in held:
            with self._changed:
                each.holders -= 1
                if each.holders:
                    continue
                try:
                    while each.copies:                  # no further one begins
                        self._changed.wait()
                except BaseException:
                    each.holders += 1                   # stays locked, and of use to others
                    raise
                self._ranges.remove(each)
                try:
                    runtime.hostUnregister(each.low)
                except runtime.CUDARuntimeError as error:
                    failed = error
                self._changed.notify_all()
        if failed is not None:
            raise DeviceError(f"memory could not be unlocked: {failed}", argument="arrays",
                              hint="an earlier error of the GPU is the likely cause") from failed

    @contextlib.contextmanager
    def reading(self, runtime: Any, arrays: Sequence[Any]) -> Iterator[bool]:
        """Whether all of these are locked. What is stays so until the end, by which copies must be done."""
        with self._changed:
            used = self._used(runtime, arrays)
            for each in used or ():
                each.copies += 1
        try:
            yield used is not None
        finally:
            with self._changed:
                for each in used or ():
                    each.copies -= 1
                    self._changed.notify_all()

    def _used(self, runtime: Any, arrays: Sequence[Any]) -> list[_Range] | None:
        """The ranges of ours that have these arrays; None where one is not locked."""
        used = []
        for array in arrays:
            low, high = span(array)
            found = self._around(low, high)
            if found is not None:
                used.append(found)
            elif not self._is_others(runtime, low, high):
                return None
        return used

    def _around(self, low: int, high: int) -> _Range | None:
        """The locked range that has all of this in it."""
        return next((each for each in self._meeting(low, high)
                     if each.holders and each.low <= low and high <= each.high), None)

    def _is_others(self, runtime: Any, low: int, high: int) -> bool:
        """Whether somebody else has locked this memory."""
        return (low < high and not self._meeting(low, high)
                and all(runtime.pointerGetAttributes(at).type == HOST for at in (low, high - 1)))

    def _meeting(self, low: int, high: int) -> list[_Range]:
        return [each for each in self._ranges if each.low < high and low < each.high]

    def _gaps(self, low: int, high: int) -> list[tuple[int, int]]:
        ends = [low, *(end for each in sorted(self._meeting(low, high), key=lambda each: each.low)
                       for end in (each.low, each.high)), high]
        return [(start, end) for start, end in zip(ends[::2], ends[1::2]) if start < end]


def _pages(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Whole pages, each once."""
    found: list[tuple[int, int]] = []
    for low, high in sorted((low // mmap.PAGESIZE * mmap.PAGESIZE, -(-high // mmap.PAGESIZE) * mmap.PAGESIZE)
                            for low, high in spans if low < high):
        if found and low < found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _lock(runtime: Any, low: int, high: int) -> None:
    try:
        runtime.hostRegister(low, high - low, PORTABLE)
    except runtime.CUDARuntimeError as error:
        raise DeviceError(f"memory of {(high - low) / 1e9:.3g} GB cannot be page-locked: {error}", argument="arrays",
                          value=hex(low), hint="leave these arrays to be copied (no locked()), or lock them once, "
                                               "whole; files that are mapped have to be read") from error


def span(array: Any) -> tuple[int, int]:
    """Addresses of an array's first byte and behind its last."""
    if 0 in array.shape:
        return 0, 0
    low = high = int(array.__array_interface__["data"][0])
    for extent, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + int(array.dtype.itemsize)


locks = Locks()


@contextlib.contextmanager
def locked(*arrays: Any) -> Iterator[None]:
    """Keep arrays in page-locked memory while a block of code runs: GPUs read and write them where they lie.

    For ``warpconv.dask.store`` of what is made of ``warpconv.dask.from_array``; without it chunks are copied to
    page-locked memory and from there. Locking takes a second for 10 to 45 GB, and that memory is not swapped meanwhile.
    Without a GPU, or without CuPy, nothing is locked.

    Parameters
    ----------
    *arrays : numpy.ndarray
        Of any shape, strides and element type; the memory between their elements is locked, too.

    Raises
    ------
    ArgumentTypeError
        What is no array in host memory.
    DeviceError
        Memory that cannot be locked: a file that is mapped, or pages of which others have locked a part.
    """
    from . import places
    for array in arrays:
        if not isinstance(array, np.ndarray):
            raise ArgumentTypeError("only NumPy's arrays are locked", argument="arrays", value=type(array).__name__,
                                    hint="the array that a Dask array is made of, and the one that is stored to")
    runtime = places.runtime()
    if runtime is None:
        yield
        return
    held = locks.hold(runtime, [span(array) for array in arrays])
    try:
        yield
    finally:
        locks.release(runtime, held)
