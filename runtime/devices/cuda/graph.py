"""CUDA graphs of kernel calls: many small layers recorded once and submitted as one, for arrays of any library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ctypes import byref, c_size_t
from typing import Any

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError
from warpconv.codegen.pitch import Pitch
from warpconv.runtime.arrays.streams import current_stream, stream_handle
from warpconv.runtime.arrays.view import ArrayView
from warpconv.runtime.call.recording import recording

from . import contexts, memory, streams
from .libcuda import call, check, libcuda

_RELAXED = 2            # CU_STREAM_CAPTURE_MODE_RELAXED: the thread may allocate and load modules meanwhile
_NON_BLOCKING = 1       # CU_STREAM_NON_BLOCKING: work on the default stream does not disturb the capture


class Graph:
    """Kernel calls recorded by this thread inside ``with warpconv.graph() as g:``, and submitted by ``g.launch()``.

    Inside, a call launches nothing: it is checked as ever and becomes a node behind the call before it. The graph reads
    and writes the very arrays of the calls, at every launch anew; it keeps them, and the filters, as long as it lives.
    So outputs are given (``out=``), and every array is one that a kernel can use as it is: on one GPU, with no gaps but
    those that a kernel for such arrays takes.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._context: tuple[str, int] | None = None
        self._ordinal = 0
        self._pointer = 0
        self._stream = 0
        self._graph = 0                         # what was recorded, for launches into another graph
        self._executable = 0
        self._views: list[ArrayView] = []
        self._places: list[ArrayView] = []      # one of the views of each library
        self._filters: list[Any] = []
        self._behind: dict[int, int] = {}       # an event behind the last launch, by stream

    def __repr__(self) -> str:
        return f"<warpconv.Graph of {self.calls} calls on cuda:{self._ordinal}>"

    # ---- recording

    def __enter__(self) -> Graph:
        if recording.graph is not None:
            raise ArgumentError("this thread is recording a graph already", argument="graph", hint="leave it first")
        if self._executable:
            raise ArgumentError("this graph has been recorded", argument="graph", hint="warpconv.graph() makes another")
        recording.graph = self
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        recording.graph = None
        if self._stream:
            with contexts.activate(self._ordinal, self._pointer):
                try:
                    self._finish(failed=kind is not None or not self.calls)
                finally:
                    stream, self._stream = self._stream, 0
                    libcuda().cuStreamDestroy_v2(stream)
        if kind is None and not self.calls:
            raise ArgumentError("no kernel was called while the graph was recorded", argument="graph")

    def check(self, stream: Any, views: Mapping[str, ArrayView | None],
              gaps: tuple[Pitch | None, Pitch | None] = (None, None)) -> None:
        """Whether a call can be recorded; ``views`` are its operands in memory order, ``gaps`` those of input and
        output that the kernel takes as they are. Raises ArgumentError or ArgumentTypeError."""
        if stream is not None:
            raise ArgumentError("a recorded call has no stream of its own", argument="stream", value=stream,
                                hint="give the stream to the graph's launch()")
        if views["out"] is None:
            raise ArgumentError("a recorded call needs an output", argument="out", hint="give out=")
        for name, view in views.items():
            if view is None:
                continue
            if not view.is_device:
                raise ArgumentTypeError(f"{name} is in host memory, which a graph cannot read", argument=name,
                                        hint="copy it to the GPU")
            taken = gaps[0] if name == "input" else gaps[1] if name in ("out", "residual") else None
            if not view.contiguous and taken is None:
                raise ArgumentError(f"{name} is not contiguous, and a graph would not repeat the copy", argument=name,
                                    value=view.strides, hint="copy it first")

    def join(self, ordinal: int, pointer: int) -> int:
        """The stream to record a call on, in the context of its memory at ``pointer``; the first call starts the
        recording. Raises ArgumentError where that is another context than the graph's, DeviceError from the driver."""
        with contexts.activate(ordinal, pointer):
            context = contexts.context_key()
            if self._context is None:
                self._begin(ordinal, pointer)
                self._context = context
            elif context != self._context:
                raise ArgumentError("all calls of a graph are in one CUDA context", argument="input",
                                    hint="record one graph for each GPU")
        return self._stream

    def add(self, views: Iterable[ArrayView], prepared: Any) -> None:
        """A call has been recorded: keep what its launches read and write."""
        self.calls += 1
        self._views += views
        self._filters.append(prepared)

    def _begin(self, ordinal: int, pointer: int) -> None:
        out = c_size_t()
        _available()
        call("cuStreamCreate", byref(out), _NON_BLOCKING, what="creating a stream")
        self._stream, self._ordinal, self._pointer = out.value, ordinal, pointer
        try:
            call("cuStreamBeginCapture_v2", self._stream, _RELAXED, what="recording a graph")
        except DeviceError:
            libcuda().cuStreamDestroy_v2(self._stream)
            raise

    def _finish(self, *, failed: bool) -> None:
        """End the capture; after an error in the block the recording is thrown away, and that error goes on."""
        graph, executable = c_size_t(), c_size_t()
        status = libcuda().cuStreamEndCapture(self._stream, byref(graph))
        if failed:
            if not status:
                libcuda().cuGraphDestroy(graph.value)
            return
        if status:
            check(status, "recording the graph", hint="call kernels alone inside, each called once before")
        try:
            call("cuGraphInstantiateWithFlags", byref(executable), graph.value, 0, what="making a graph executable")
        except DeviceError:
            libcuda().cuGraphDestroy(graph.value)
            raise
        self._graph, self._executable = graph.value, executable.value
        self._places = list({(view.kind, view.device, view.producer_stream): view for view in self._views}.values())

    # ---- launching

    def __call__(self, stream: Any = None) -> None:
        """As launch()."""
        self.launch(stream)

    def launch(self, stream: Any = None) -> None:
        """Queue all calls on ``stream`` (of any library, or a handle), by default the one that the first input's
        library is on, and return at once. Raises ArgumentError if nothing has been recorded, DeviceError from the
        driver."""
        if not self._executable:
            raise ArgumentError("this graph has not been recorded", argument="graph",
                                hint="with warpconv.graph() as g: ..., then g.launch()")
        handle = (current_stream(self._views[0]) or 0) if stream is None else stream_handle(stream)
        with contexts.activate(self._ordinal, self._pointer):
            if streams.capturing(handle):       # becomes a part of another graph, which may be replayed at any time
                streams.add_to_capture(self._graph, handle)
                memory.keep_alive.hold((self,), handle)
                return
            for other in {current_stream(view) for view in self._places} - {None, handle}:
                streams.order(other, handle)
            call("cuGraphLaunch", self._executable, handle, what="launching a graph")
            event = self._behind.get(handle)
            if event is None:
                event = self._behind[handle] = streams.new_event()
            streams.record(event, handle)

    def __del__(self) -> None:
        """The driver frees a running graph when it is done; the arrays are held until then."""
        try:
            executable, self._executable = self._executable, 0
            if executable:
                with contexts.activate(self._ordinal, self._pointer):
                    libcuda().cuGraphExecDestroy(executable)
                    libcuda().cuGraphDestroy(self._graph)
                    for event in self._behind.values():
                        memory.keep_alive.adopt(self._context, event, (*self._views, *self._filters))
        except Exception:      # at interpreter exit, or in a context that is gone: the memory went with it
            pass


def graph() -> Graph:
    """A graph to record kernel calls into: ``with warpconv.graph() as g: kernel(x, f, out=y)``, then ``g.launch()``.

    Returns
    -------
    Graph
        Empty; the ``with`` statement records into it.
    """
    return Graph()


def _available() -> None:
    if not hasattr(libcuda(), "cuGraphInstantiateWithFlags"):
        raise DeviceError("this driver records no graphs", hint="install a driver for CUDA 11.4 or newer")
