"""Where a kernel finds its buffers: in place when computing, copied between guard gaps when checking."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Sequence

import numpy as np

from warpconv.codegen.errors import ArgumentTypeError, KernelFault

from .abi import INITIALISED, WRITABLE, CBuffer
from .report import Buffer, Mode

_ALIGNMENT = 256                 # of device memory on the GPU
_SMALLEST_GAP = 1 << 20
_NO_RESERVE = 0x4000             # MAP_NORESERVE on Linux: the gaps are address space and nothing more


class Staged:
    """A buffer at the address that the kernel gets, with its shadow when it is checked."""

    def __init__(self, buffer: Buffer, memory: np.ndarray, mode: Mode):
        self.buffer = buffer
        self._memory = memory            # bytes
        self._copied = not np.shares_memory(memory, buffer.array)
        self._writers = self._readers = None
        if self._copied:
            memory[:] = _bytes_of(buffer.array)
        if mode is Mode.CHECK and (buffer.writable or not buffer.initialised):
            self._writers = np.zeros(max(1, buffer.array.size), np.uint32)
            self._readers = np.zeros_like(self._writers)

    @property
    def address(self) -> int:
        """What the kernel's pointer is."""
        return self._memory.ctypes.data

    @property
    def description(self) -> CBuffer:
        """The buffer for the runtime."""
        flags = (WRITABLE if self.buffer.writable else 0) | (INITIALISED if self.buffer.initialised else 0)
        return CBuffer(name=self.buffer.name.encode(), begin=self.address, end=self.address + self._memory.nbytes,
                       unit=self.buffer.array.itemsize, flags=flags, writers=_address(self._writers),
                       readers=_address(self._readers))

    def finish(self, entry: str) -> None:
        """Bring the results back; KernelFault if an element that had to be written was not."""
        if self._copied and self.buffer.writable:
            made = self._memory.view(self.buffer.array.dtype).reshape(self.buffer.array.shape)
            np.copyto(self.buffer.array, made, where=True if self.buffer.elements is None else self.buffer.elements)
        if self._writers is None or not self.buffer.must_be_written or not self.buffer.array.size:
            return
        missing = self._writers == 0
        if self.buffer.elements is not None:
            self._check_gaps(entry)
            missing &= self.buffer.elements
        count = int(np.count_nonzero(missing))
        if count:
            first = int(np.argmax(missing))
            index = tuple(int(i) for i in np.unravel_index(first, self.buffer.array.shape))
            raise KernelFault(f"{count} of {missing.size} elements of buffer '{self.buffer.name}' were not written; "
                              f"the first is element {first}, at {index}", kind="unwritten-output", entry=entry)

    def _check_gaps(self, entry: str) -> None:
        """KernelFault if an element between those of an output was written."""
        wrong = (self._writers != 0) & ~self.buffer.elements
        if wrong.any():
            raise KernelFault(f"{int(wrong.sum())} elements in the gaps of buffer '{self.buffer.name}' were written; "
                              f"the first lies {int(np.argmax(wrong))} elements behind its first",
                              kind="unwritten-output", entry=entry)


@contextlib.contextmanager
def stage(buffers: Sequence[Buffer], mode: Mode) -> Iterator[list[Staged]]:
    """The buffers, in order, where a kernel of ``mode`` may use them. Raises ArgumentTypeError if one cannot be."""
    for buffer in buffers:
        if not isinstance(buffer.array, np.ndarray) or not buffer.array.flags.c_contiguous:
            raise ArgumentTypeError("a buffer's array must be a C-contiguous NumPy array", argument=buffer.name,
                                    value=type(buffer.array).__name__)
        if buffer.writable and not buffer.array.flags.writeable:
            raise ArgumentTypeError("a writable buffer's array must be writeable", argument=buffer.name)
    if mode is Mode.CHECK:
        memories = _guarded_memories([buffer.array.nbytes for buffer in buffers])
    else:
        memories = [_in_place(buffer.array, buffer.alignment) for buffer in buffers]
    yield [Staged(buffer, memory, mode) for buffer, memory in zip(buffers, memories)]


def _guarded_memories(sizes: Sequence[int]) -> list[np.ndarray]:
    """Memory for each size, with gaps as large as the largest: an index that is one image off still hits a gap."""
    gap = _rounded(max([_SMALLEST_GAP, *sizes]))
    total = gap + sum(_rounded(size) + gap for size in sizes)
    space = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    whole = np.frombuffer(space, np.uint8)
    memories, offset = [], gap
    for size in sizes:
        memories.append(whole[offset:offset + size])
        offset += _rounded(size) + gap
    return memories


def _in_place(array: np.ndarray, alignment: int) -> np.ndarray:
    """The array's own bytes, or room for a copy if it does not start where vector accesses may: a host instruction may
    insist on the alignment."""
    own = _bytes_of(array)
    if own.ctypes.data % alignment == 0:
        return own
    room = np.empty(array.nbytes + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start:start + array.nbytes]


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
