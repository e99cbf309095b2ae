"""Which stream an array's library is on, and the raw handle of any library's stream."""

from __future__ import annotations

import operator
import sys
from typing import Any

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError

from .view import ArrayKind, ArrayView

MOST_NAMED = 2          # handles up to it are names: the legacy default stream, and that of each thread
MOST_SEEN = 256
_seen: set[int] = set()         # handles that were looked at


def current_stream(view: ArrayView) -> int | None:
    """Handle of the stream on which the array's library would use it now; None where there is no such thing.

    PyTorch and CuPy: their current stream on that GPU. CUDA array interface: the stream its producer names (work on
    another stream has to wait for that one: ``cuda.streams.order``).
    """
    if view.device is None:
        return None
    if view.kind is ArrayKind.TORCH:
        return torch_stream(view.device)
    if view.kind is ArrayKind.CUPY:
        return cupy_stream(view.device)
    return view.producer_stream


def stream_handle(stream: Any, argument: str = "stream") -> int:
    """A stream of any library as its raw handle; 0 is the legacy default stream.

    Accepts an int, ``__cuda_stream__``, and the streams of PyTorch, CuPy and PyCUDA; ArgumentTypeError for anything
    else, ArgumentError for a number that is no stream of this process: a driver that is given one reads memory there.
    """
    handle = _raw_handle(stream)
    if handle is None:
        raise ArgumentTypeError("not a CUDA stream", argument=argument, value=stream,
                                hint="give a stream of PyTorch, CuPy or PyCUDA, an object with __cuda_stream__, "
                                     "or the handle as an int")
    if handle < 0:
        raise ArgumentError("a stream's handle is not negative", argument=argument, value=handle)
    if handle > MOST_NAMED and handle not in _seen:
        if not _is_memory(handle):
            raise ArgumentError("no stream of this process has such a handle", argument=argument, value=handle,
                                hint="give the stream itself, or the handle as its library has it")
        if len(_seen) >= MOST_SEEN:
            _seen.clear()
        _seen.add(handle)
    return 0 if handle == 1 else handle     # CU_STREAM_LEGACY: the default stream by its other name


def _is_memory(address: int) -> bool:
    """Whether there is memory of this process, as where the driver keeps a stream. True where nothing can say so: of
    another system than Linux, or one that does not let a process read its own."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return len(memory.read(1)) == 1
    except (FileNotFoundError, PermissionError):
        return True
    except (OSError, OverflowError, ValueError):
        return False


def torch_stream(ordinal: int) -> int:
    """Handle of PyTorch's current stream on a GPU."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)      # what Inductor's code calls: no object is made
    return raw(ordinal) if raw is not None else torch.cuda.current_stream(ordinal).cuda_stream


def cupy_stream(ordinal: int) -> int:
    """Handle of CuPy's current stream on a GPU."""
    cuda = sys.modules["cupy"].cuda
    try:
        return cuda.get_current_stream(ordinal).ptr
    except TypeError:       # before CuPy 10 it takes no device and means the current one
        with cuda.Device(ordinal):
            return cuda.get_current_stream().ptr


def _raw_handle(stream: Any) -> int | None:
    if isinstance(stream, bool):
        return None
    try:
        return operator.index(stream)
    except TypeError:
        pass
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:        # a method; an attribute in the protocol's first drafts
        return int((protocol() if callable(protocol) else protocol)[1])
    if not hasattr(stream, "synchronize"):      # an array's .ptr is no stream
        return None
    for attribute in ("cuda_stream", "ptr", "handle"):      # PyTorch, CuPy, PyCUDA
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    return None
