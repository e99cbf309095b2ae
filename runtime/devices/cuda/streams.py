"""Streams by their raw handle (an int; 0 is the legacy default stream), whoever created them."""

from __future__ import annotations

import threading
from ctypes import POINTER, byref, c_int, c_size_t, c_ulonglong
from types import TracebackType

from warpconv.codegen.errors import DeviceError

from .libcuda import CAPTURE_IMPLICIT, CAPTURED_EVENT, NOT_READY, call, check, libcuda

LEGACY_DEFAULT = 0
PER_THREAD_DEFAULT = 2
_NO_TIMING = 2              # CU_EVENT_DISABLE_TIMING: cheaper to record and to wait for
_RELAXED = 2                # CU_STREAM_CAPTURE_MODE_RELAXED
_SET_DEPENDENCIES = 1       # CU_STREAM_SET_CAPTURE_DEPENDENCIES: in place of those before, not beside them


def synchronize(stream: int) -> None:
    """Wait until all work queued on ``stream`` is done; DeviceError also for the failure of an earlier kernel."""
    call("cuStreamSynchronize", stream, what="waiting for the stream")


def synchronize_all() -> None:
    """Wait until all work queued in the current context is done; DeviceError also for the failure of a kernel."""
    call("cuCtxSynchronize", what="waiting for the GPU")


def order(after: int, stream: int) -> None:
    """Make later work on ``stream`` wait for what is queued on ``after`` now; the host does not wait."""
    if after == stream:
        return
    event = new_event()
    try:
        record(event, after)
        call("cuStreamWaitEvent", stream, event, 0, what="ordering two streams")
    finally:
        destroy_event(event)        # the driver lets the wait that is queued finish first


def capturing(stream: int) -> bool:
    """Whether ``stream`` is being captured into a CUDA graph."""
    state = c_int()
    status = libcuda().cuStreamIsCapturing(stream, byref(state))
    if status == CAPTURE_IMPLICIT:      # the default stream while another one captures: the launch itself will object
        return False
    check(status, "asking for the state of the stream")
    return state.value != 0


def add_to_capture(graph: int, stream: int) -> None:
    """Put a copy of ``graph`` behind what ``stream``, which is being captured, holds so far: the driver launches no
    executable graph there. Raises DeviceError, also where the driver has no functions for it."""
    if not hasattr(libcuda(), "cuStreamGetCaptureInfo_v2"):
        raise DeviceError("this driver puts no graph into another", hint="install a driver for CUDA 11.3 or newer")
    state, number, whole, node = c_int(), c_ulonglong(), c_size_t(), c_size_t()
    before, count = POINTER(c_size_t)(), c_size_t()
    call("cuStreamGetCaptureInfo_v2", stream, byref(state), byref(number), byref(whole), byref(before), byref(count),
         what="asking for the graph that is captured")
    call("cuGraphAddChildGraphNode", byref(node), whole.value, before, count.value, graph,
         what="putting a graph into the one that is captured")
    call("cuStreamUpdateCaptureDependencies", stream, byref(node), 1, _SET_DEPENDENCIES,
         what="putting a graph into the one that is captured")


def identity(stream: int) -> tuple[int, int]:
    """What tells streams apart: handle 2 is another stream in every thread."""
    return stream, threading.get_ident() if stream == PER_THREAD_DEFAULT else 0


def new_event() -> int:
    """An event in the current context, without timing."""
    event = c_size_t()
    call("cuEventCreate", byref(event), _NO_TIMING, what="creating an event")
    return event.value


def record(event: int, stream: int) -> None:
    """Put ``event`` behind all that is queued on ``stream``."""
    call("cuEventRecord", event, stream, what="recording an event")


def passed(event: int) -> bool:
    """Whether the work before ``event`` is done; an event inside a captured graph never counts as passed."""
    status = libcuda().cuEventQuery(event)
    if status in (NOT_READY, CAPTURED_EVENT):
        return False
    check(status, "asking for an event")
    return True


def destroy_event(event: int) -> None:
    """Give an event back; errors are ignored, since it happens on the way out."""
    libcuda().cuEventDestroy_v2(event)


class relaxed_capture:
    """Inside, calls such as cuMemAlloc are allowed although some stream of the process is being captured."""

    __slots__ = ("_mode",)

    def __enter__(self) -> relaxed_capture:
        self._mode = c_int(_RELAXED)
        call("cuThreadExchangeStreamCaptureMode", byref(self._mode))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        libcuda().cuThreadExchangeStreamCaptureMode(byref(self._mode))
