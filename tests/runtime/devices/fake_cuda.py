"""A stand-in for libcuda and for PyCUDA, and the fixture that puts it in their place: two GPUs, no context current."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
import types
from collections import defaultdict

import pytest

from warpconv.runtime.devices.cuda import contexts, libcuda, memory

PRIMARY = 1000      # handle of GPU n's primary context: PRIMARY + n


def converting(name, types, function):
    """The function, which refuses what ctypes would."""
    def call(*arguments):
        assert len(arguments) == len(types), (name, arguments)
        for number, (kind, argument) in enumerate(zip(types, arguments), 1):
            try:
                kind.from_param(argument)
            except TypeError as error:
                raise ctypes.ArgumentError(f"{name}, argument {number}: {error}") from None
        return function(*arguments)

    return call


class FakeCuda:
    """Enough of the driver: a context stack per thread, numbered contexts, allocations, events that pass when told."""

    def __init__(self):
        self.local = threading.local()
        self.device_of = {PRIMARY: 0, PRIMARY + 1: 1}
        self.number_of = {PRIMARY: 1, PRIMARY + 1: 2}
        self.memory = {}            # pointer -> (context, size)
        self.room = 1 << 40
        self.calls = []
        self.capturing = set()
        self.fail = {}              # function -> status
        self.events = {}            # event -> passed
        self.recorded = []
        self.function_attributes = {0: 1024, 1: 1024, 2: 64, 3: 8, 4: 40}
        self.launched = []
        self.early = []             # of each launch, whether it may begin while the one before it ends
        self.version = 13000
        self.arguments = []         # of each launch, as words read while it is made
        self.retained = defaultdict(int)
        self.mode = 0
        self.entries = {b"conv"}    # that a module has
        self.streams = set()        # made and not destroyed
        self.graphs = set()         # executable and not destroyed

    def __getattribute__(self, name):
        """A function takes what ctypes would take for its prototype."""
        found = super().__getattribute__(name)
        types = libcuda._PROTOTYPES.get(name) if name.startswith("cu") else None
        return found if types is None else converting(name, types, found)

    def __getattr__(self, name):        # functions of the driver that need no more than success
        if name.startswith("cu") and name in libcuda._PROTOTYPES:
            found, types = functools.partial(self.note, name), libcuda._PROTOTYPES[name]
            return found if types is None else converting(name, types, found)
        raise AttributeError(name)

    def __getitem__(self, name):        # a function without a prototype, which takes ctypes objects
        def function(*arguments):
            return getattr(self, name)(*(getattr(argument, "value", argument) for argument in arguments))

        return function

    def note(self, name, *arguments):
        self.calls.append((name, arguments))
        return self.fail.get(name, 0)

    @property
    def stack(self):
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        return self.local.stack

    @staticmethod
    def put(reference, value):
        reference._obj.value = value
        return 0

    def cuGetErrorName(self, status, out):
        return self.put(out, f"CUDA_ERROR_{status}".encode())

    def cuGetErrorString(self, status, out):
        return self.put(out, b"in the driver's words")

    def cuDevicePrimaryCtxRetain(self, out, ordinal):
        self.retained[ordinal] += 1
        return self.put(out, PRIMARY + ordinal)

    def cuCtxGetCurrent(self, out):
        return self.put(out, self.stack[-1] if self.stack else 0)

    def cuCtxGetDevice(self, out):
        return self.put(out, self.device_of[self.stack[-1]]) if self.stack else 201

    def cuCtxGetId(self, context, out):
        return self.put(out, self.number_of[self.stack[-1]]) if self.stack else 201

    def cuCtxPushCurrent_v2(self, handle):
        if "cuCtxPushCurrent_v2" not in self.fail:
            self.stack.append(handle)
        return self.note("cuCtxPushCurrent_v2", handle)

    def cuCtxPopCurrent_v2(self, out):
        self.note("cuCtxPopCurrent_v2")
        return self.put(out, self.stack.pop())

    def cuPointerGetAttribute(self, out, attribute, pointer):
        if pointer not in self.memory:
            return 1
        context = self.memory[pointer][0]
        return self.put(out, context if attribute == 1 else self.device_of[context])

    def cuMemAlloc_v2(self, out, nbytes):
        self.note("cuMemAlloc_v2", nbytes, self.mode)
        if sum(size for _, size in self.memory.values()) + nbytes > self.room:
            return 2
        pointer = 4096 * (len(self.calls) + 1)
        self.memory[pointer] = (self.stack[-1], nbytes)
        return self.put(out, pointer)

    def cuMemFree_v2(self, pointer):
        self.note("cuMemFree_v2", pointer)
        del self.memory[pointer]
        return 0

    def cuMemGetInfo_v2(self, free, total):
        return self.put(free, 100) + self.put(total, 200)

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.mode, mode._obj.value = mode._obj.value, self.mode
        return 0

    def cuStreamIsCapturing(self, stream, out):
        return self.put(out, int(stream in self.capturing))

    def cuStreamCreate(self, out, flags):
        self.note("cuStreamCreate", flags)
        self.streams.add(60_000 + len(self.calls))
        return self.put(out, 60_000 + len(self.calls))

    def cuStreamDestroy_v2(self, stream):
        self.streams.remove(stream)
        return 0

    def cuStreamBeginCapture_v2(self, stream, mode):
        self.capturing.add(stream)
        return self.note("cuStreamBeginCapture_v2", stream, mode)

    def cuStreamEndCapture(self, stream, out):
        self.capturing.remove(stream)
        return self.fail.get("cuStreamEndCapture", 0) or self.put(out, 70_000)

    def cuGraphInstantiateWithFlags(self, out, graph, flags):
        assert graph == 70_000 and flags == 0
        self.graphs.add(80_000)
        return self.fail.get("cuGraphInstantiateWithFlags", 0) or self.put(out, 80_000)

    def cuStreamGetCaptureInfo_v2(self, stream, state, number, graph, before, count):
        self.note("cuStreamGetCaptureInfo_v2", stream)
        before._obj.contents = ctypes.c_size_t(90_000)
        self.put(state, int(stream in self.capturing))
        return self.put(number, 1) + self.put(graph, 75_000) + self.put(count, 1)

    def cuGraphAddChildGraphNode(self, out, graph, before, count, child):
        self.note("cuGraphAddChildGraphNode", graph, before[:count], child)
        return self.fail.get("cuGraphAddChildGraphNode", 0) or self.put(out, 90_001)

    def cuStreamUpdateCaptureDependencies(self, stream, nodes, count, flags):
        return self.note("cuStreamUpdateCaptureDependencies", stream, nodes._obj.value, count, flags)

    def cuGraphExecDestroy(self, executable):
        self.graphs.remove(executable)
        return 0

    def cuEventCreate(self, out, flags):
        event = 50_000 + len(self.events)
        self.events[event] = False
        return self.put(out, event)

    def cuEventRecord(self, event, stream):
        self.recorded.append((event, stream))
        return 0

    def cuEventQuery(self, event):
        return 0 if self.events[event] else 600

    def cuModuleLoadData(self, out, image):
        self.note("cuModuleLoadData", image)
        return self.fail.get("cuModuleLoadData", 0) or self.put(out, 900)

    def cuModuleGetFunction(self, out, module, entry):
        self.note("cuModuleGetFunction", entry)
        return self.put(out, 901) if entry in self.entries else 500

    def cuModuleGetGlobal_v2(self, pointer, nbytes, module, symbol):
        return self.put(pointer, 77) + self.put(nbytes, 36) if symbol == b"weights" else 500

    def cuFuncGetAttribute(self, out, attribute, function):
        return self.put(out, self.function_attributes[attribute])

    def cuDriverGetVersion(self, out):
        return self.put(out, self.version)

    def cuLaunchKernelEx(self, config, function, pointers, extra):
        config = config._obj
        status = self.cuLaunchKernel(function, *config.grid, *config.block, config.shared_bytes, config.stream,
                                     pointers, extra)
        attributes = [struct.unpack("ixxxxi", ctypes.string_at(config.attributes + 72 * i, 12))
                      for i in range(config.attribute_count)]
        assert attributes in ([], [(6, 1)])     # programmatic stream serialization
        self.early[-1] = bool(attributes)
        return status

    def cuLaunchKernel(self, function, *rest):
        self.early.append(False)
        function, *rest = (getattr(value, "value", value) or 0 for value in (function, *rest))
        *extents, shared, stream, pointers, extra = rest
        self.launched.append((function, tuple(extents), shared, stream, list(pointers)))
        self.arguments.append([_word(at, after) for at, after in zip(pointers, [*pointers[1:], 0])])
        return self.fail.get("cuLaunchKernel", 0)


def _word(at, after):
    """An argument of a launch: eight bytes where the next one leaves room for them, else four."""
    if not at:
        return 0
    return (ctypes.c_uint64 if after and after - at >= 8 else ctypes.c_uint32).from_address(at).value


@pytest.fixture
def cuda(monkeypatch):
    """Two GPUs, an H200 and an A100, and no context current."""
    contexts.forget()
    fake = FakeCuda()
    monkeypatch.setattr(libcuda, "_library", fake)
    monkeypatch.setattr(memory, "pool", memory.StreamPool())
    monkeypatch.setattr(memory, "keep_alive", memory.KeepAlive())
    monkeypatch.setattr("warpconv.runtime.arrays.streams._is_memory", lambda handle: True)  # they are numbers
    monkeypatch.setitem(sys.modules, "pycuda", types.ModuleType("pycuda"))
    monkeypatch.setitem(sys.modules, "pycuda.driver", fake_driver())
    sys.modules["pycuda"].driver = sys.modules["pycuda.driver"]
    yield fake
    contexts.forget()


def fake_driver(gpus=2, error=None):
    class Device:
        def __init__(self, ordinal):
            self.ordinal = ordinal

        @staticmethod
        def count():
            return gpus

        def compute_capability(self):
            return ((9, 0), (8, 0))[self.ordinal]

        def name(self):
            return ("H200", "A100")[self.ordinal]

        def total_memory(self):
            return 1 << 37

        def get_attribute(self, attribute):
            return 132

        def retain_primary_context(self):
            return Context(PRIMARY + self.ordinal)

    class Context:
        """PyCUDA's own stack of contexts, per thread, which sees only what was pushed through it."""

        seen = threading.local()

        def __init__(self, handle):
            self.handle = handle

        def push(self):
            status = libcuda._library.cuCtxPushCurrent_v2(self.handle)
            if status:
                raise RuntimeError(f"cuCtxPushCurrent failed: {libcuda.describe(status)}")
            self.seen.__dict__.setdefault("stack", []).append(self)

        @classmethod
        def pop(cls):
            cls.seen.stack.pop()
            libcuda._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_size_t()))

        @classmethod
        def get_current(cls):
            stack = cls.seen.__dict__.get("stack")
            return stack[-1] if stack else None

    def init():
        if error:
            raise RuntimeError(error)

    module = types.ModuleType("pycuda.driver")
    module.Device, module.Context, module.init, module.Error = Device, Context, init, RuntimeError
    module.device_attribute = types.SimpleNamespace(MULTIPROCESSOR_COUNT=16, L2_CACHE_SIZE=38)
    module.get_driver_version = lambda: 13010
    return module
