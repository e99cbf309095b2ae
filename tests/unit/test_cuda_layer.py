"""The driver layer over a stand-in for libcuda and for PyCUDA: who is current when, what is reused, what is kept."""

from __future__ import annotations

import builtins
import ctypes
import struct
import sys
import threading
import types
from collections import defaultdict

import numpy as np
import pytest

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError
from warpconv.runtime import arrays
from warpconv.runtime.cuda import contexts, libcuda, memory, modules, streams

PRIMARY = 1000      # handle of GPU n's primary context: PRIMARY + n


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
        self.retained = defaultdict(int)
        self.mode = 0

    def __getattr__(self, name):        # functions of the driver that need no more than success
        if name.startswith("cu") and name in libcuda._PROTOTYPES:
            return lambda *arguments: self.note(name, *arguments)
        raise AttributeError(name)

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
        return self.put(out, 901) if entry == b"conv" else 500

    def cuModuleGetGlobal_v2(self, pointer, nbytes, module, symbol):
        return self.put(pointer, 77) + self.put(nbytes, 36) if symbol == b"weights" else 500

    def cuFuncGetAttribute(self, out, attribute, function):
        return self.put(out, self.function_attributes[attribute])

    def cuLaunchKernel(self, function, *rest):
        *extents, shared, stream, pointers, extra = rest
        self.launched.append((function, tuple(extents), shared, stream, list(pointers)))
        return self.fail.get("cuLaunchKernel", 0)


@pytest.fixture
def cuda(monkeypatch):
    """Two GPUs, an H200 and an A100, and no context current."""
    contexts.forget()
    fake = FakeCuda()
    monkeypatch.setattr(libcuda, "_library", fake)
    monkeypatch.setattr(memory, "pool", memory.StreamPool())
    monkeypatch.setattr(memory, "keep_alive", memory.KeepAlive())
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
    module.device_attribute = types.SimpleNamespace(MULTIPROCESSOR_COUNT=16)
    module.get_driver_version = lambda: 13010
    return module


class TestReasons:
    def test_usable(self, cuda):
        assert contexts.usable() is None
        assert (contexts.count(), contexts.arch(0), contexts.arch(1), contexts.name(1)) == (2, "sm_90", "sm_80", "A100")
        report = contexts.describe()
        assert report["usable"] and report["cuda_driver"] == "13.1" and report["devices"][1]["arch"] == "sm_80"

    def test_no_library(self, monkeypatch):
        contexts.forget()
        monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("libcuda.so.1: not there")))
        assert "no NVIDIA driver" in contexts.usable() and "device='cpu'" in contexts.usable()
        assert contexts.describe() == {"usable": False, "reason": contexts.usable(), "devices": []}
        with pytest.raises(DeviceError):
            contexts.default_device()
        contexts.forget()

    @pytest.mark.parametrize("error, words", [
        (ModuleNotFoundError("No module named 'pycuda'", name="pycuda"), 'pip install "warpconv[gpu]"'),
        (ModuleNotFoundError("No module named 'pytools'", name="pytools"), "pip install pytools"),
        (ImportError("libcuda.so.1: cannot open shared object file"), "no NVIDIA driver"),
        (ImportError("GLIBC_2.38 not found"), "GLIBC_2.38")])
    def test_no_pycuda(self, cuda, monkeypatch, error, words):
        genuine = builtins.__import__

        def refuse(name, *rest, **more):
            if name == "pycuda.driver":
                raise error
            return genuine(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", refuse)
        assert words in contexts.usable()

    def test_no_gpu(self, cuda, monkeypatch):
        monkeypatch.setitem(sys.modules, "pycuda.driver", fake_driver(gpus=0))
        sys.modules["pycuda"].driver = sys.modules["pycuda.driver"]
        assert "no NVIDIA GPU" in contexts.usable()

    def test_does_not_start(self, cuda):
        sys.modules["pycuda"].driver = sys.modules["pycuda.driver"] = fake_driver(error="cuInit failed: unknown")
        assert "cuInit failed" in contexts.usable()

    @pytest.mark.parametrize("ordinal, error", [(2, DeviceError), (-1, DeviceError), ("0", ArgumentError)])
    def test_no_such_gpu(self, cuda, ordinal, error):
        with pytest.raises(error):
            contexts.arch(ordinal)


class TestActivate:
    def test_nothing_current(self, cuda):
        assert contexts.default_device() == 0
        for _ in range(2):
            with contexts.activate(1):
                assert cuda.stack == [PRIMARY + 1] and contexts.default_device() == 1
            assert cuda.stack == []
        assert cuda.retained == {1: 1}

    def test_pycuda_sees_what_it_pushed_itself(self, cuda):
        with contexts.activate(0):              # nothing was current: PyCUDA pushes
            assert contexts.pycuda_sees_current()
        cuda.stack.append(PRIMARY)              # made current by PyTorch, say
        with contexts.activate(0):
            assert not contexts.pycuda_sees_current()
        with contexts.activate(1):              # another context is current: PyCUDA's stack stays out of it
            assert not contexts.pycuda_sees_current()

    def test_the_current_context_is_used(self, cuda):
        cuda.device_of[55], cuda.number_of[55] = 0, 3
        cuda.stack.append(55)
        with contexts.activate(0):
            assert cuda.stack == [55]
        with contexts.activate(1):
            assert cuda.stack == [55, PRIMARY + 1]
        assert cuda.stack == [55] and cuda.retained == {1: 1}

    def test_the_context_of_the_memory_wins(self, cuda):
        cuda.device_of[55] = 0
        cuda.stack.append(55)
        cuda.memory = {4096: (PRIMARY, 64), 8192: (55, 64)}
        with contexts.activate(0, 4096):
            assert cuda.stack == [55, PRIMARY]
        with contexts.activate(0, 8192):
            assert cuda.stack == [55]
        with contexts.activate(0, 12345):       # memory of no context
            assert cuda.stack == [55]

    def test_popped_after_an_error(self, cuda):
        with pytest.raises(KeyError), contexts.activate(0), contexts.activate(1):
            raise KeyError
        assert cuda.stack == []

    def test_a_failing_push_pops_nothing(self, cuda):
        cuda.fail["cuCtxPushCurrent_v2"] = 709
        with pytest.raises(DeviceError, match="CUDA_ERROR_709 - in the driver's words"), contexts.activate(0):
            raise AssertionError("entered")
        assert not any(name == "cuCtxPopCurrent_v2" for name, _ in cuda.calls)

    def test_threads_have_their_own(self, cuda):
        seen = []

        def work(ordinal):
            with contexts.activate(ordinal):
                seen.append((ordinal, list(cuda.stack)))

        with contexts.activate(0):
            threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert cuda.stack == [PRIMARY]
        assert all(stack == [PRIMARY + ordinal] for ordinal, stack in seen) and len(seen) == 8
        assert cuda.retained == {0: 1, 1: 1}

    def test_key_tells_a_reused_handle(self, cuda):
        with pytest.raises(DeviceError):
            contexts.context_key()
        cuda.stack.append(PRIMARY)
        before = contexts.context_key()
        cuda.number_of[PRIMARY] = 9         # destroyed, and another one made at the same address
        assert contexts.context_key() != before

    def test_key_before_cuda_12(self, cuda, monkeypatch):
        monkeypatch.delattr(FakeCuda, "cuCtxGetId")
        with pytest.raises(DeviceError, match="no CUDA context|201"):
            contexts.context_key()
        cuda.stack.append(PRIMARY)
        assert contexts.context_key() == ("handle", PRIMARY)


class TestModules:
    @pytest.fixture
    def module(self, cuda):
        cuda.stack.append(PRIMARY)
        return modules.CudaModule(b"\x7fELF\0cubin")

    def test_look_ups(self, cuda, module):
        assert module.attributes("conv") == (40, 8, 1024, 64, 1024)
        assert module.attributes("conv").local_bytes == 8
        assert module.constant("weights") == (77, 36)
        assert sum(name == "cuModuleGetFunction" for name, _ in cuda.calls) == 1
        for look_up in (module.function, module.constant):
            with pytest.raises(DeviceError, match="has no"):
                look_up("other")

    def test_wrong_architecture(self, cuda):
        cuda.stack.append(PRIMARY + 1)
        cuda.fail["cuModuleLoadData"] = 209
        with pytest.raises(DeviceError, match=r"A100 \(sm_80\): it is built for another architecture"):
            modules.CudaModule(b"")

    def test_launch(self, cuda, module):
        launch = module.launcher("conv", ("pointer", "int", "long long", "float", "int"), (32, 4), 256)
        assert launch((7, 8), (0xdeadbeef000, -3, 1 << 40, 0.5, 9), 77) is None
        function, extents, shared, stream, pointers = cuda.launched[0]
        assert (function, extents, shared, stream) == (901, (7, 8, 1, 32, 4, 1), 256, 77)
        formats = ("P", "i", "q", "f", "i")
        values = [struct.unpack(f, ctypes.string_at(p, struct.calcsize(f)))[0] for p, f in zip(pointers, formats)]
        assert values == [0xdeadbeef000, -3, 1 << 40, 0.5, 9]
        assert [p - pointers[0] for p in pointers] == [0, 8, 16, 24, 28]
        assert not any(name == "cuFuncSetAttribute" for name, _ in cuda.calls)

    def test_threads_do_not_share_arguments(self, cuda, module):
        launch = module.launcher("conv", ("int",), (32,), 0)
        launch((1, 1, 1), (5,), 0)
        other = threading.Thread(target=launch, args=((1, 1, 1), (6,), 0))
        other.start()
        other.join()
        assert cuda.launched[0][4] != cuda.launched[1][4]

    def test_no_arguments(self, cuda, module):
        module.launcher("conv", (), (32,), 0)((1,), (), 0)
        assert len(cuda.launched) == 1

    def test_much_shared_memory(self, cuda, module):
        module.launcher("conv", (), (32,), 48 * 1024)       # with the static kilobyte it is over
        assert ("cuFuncSetAttribute", (901, 8, 48 * 1024)) in cuda.calls
        cuda.fail["cuFuncSetAttribute"] = 1
        with pytest.raises(DeviceError, match="shared memory.*H200"):
            module.launcher("conv", (), (32,), 1 << 20)

    def test_errors(self, cuda, module):
        launch = module.launcher("conv", ("int",), (32,), 0)
        for arguments in ((), (1, 2), (1 << 31,)):
            with pytest.raises(ArgumentTypeError, match=r"conv takes \(int\)"):
                launch((1, 1, 1), arguments, 0)
        with pytest.raises(ArgumentError, match="kind of kernel argument"):
            module.launcher("conv", ("double",), (32,), 0)
        cuda.fail["cuLaunchKernel"] = 400
        with pytest.raises(DeviceError, match=r"launching conv with grid \(0, 1, 1\).*another context"):
            launch((0, 1, 1), (1,), 0)


class TestPool:
    @pytest.fixture
    def pool(self, cuda):
        cuda.stack.append(PRIMARY)
        return memory.StreamPool()

    def test_reused_on_the_same_stream_only(self, cuda, pool):
        first = pool.allocate(1000, 5)
        pointer = first.pointer
        pool.release(first)
        pool.release(first)
        assert pool.allocate(1000, 6).pointer != pointer
        assert pool.allocate(5000, 5).pointer != pointer
        assert pool.allocate(900, 5).pointer == pointer
        assert pool.allocate(900, 5).pointer != pointer

    def test_not_across_contexts(self, cuda, pool):
        block = pool.allocate(100, 0)
        pointer = block.pointer
        pool.release(block)
        with contexts.activate(1):
            assert pool.allocate(100, 0).pointer != pointer
            assert pool.trim() == 0
        assert pool.trim() == 1 and pointer not in cuda.memory

    def test_per_thread_stream_is_per_thread(self, cuda, pool):
        pool.release(pool.allocate(100, 2))
        got = []

        def work():
            with contexts.activate(0):
                got.append(pool.allocate(100, 2).pointer)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(cuda.memory) == 2

    def test_nothing(self, cuda, pool):
        block = pool.allocate(0, 0)
        assert block.pointer == 0
        pool.release(block)
        assert cuda.memory == {} and pool.trim() == 0

    def test_out_of_memory(self, cuda, pool):
        cuda.room = 10_000
        block = pool.allocate(8192, 0)
        pool.release(block)
        assert pool.allocate(9000, 1).nbytes == 9000        # after trimming
        with pytest.raises(DeviceError, match="no room for .*100 of 200 free"):
            pool.allocate(9000, 1)

    def test_captured_memory_is_not_lent_again(self, cuda, pool):
        cuda.capturing.add(7)
        block = pool.allocate(100, 7)
        pointer = block.pointer
        assert ("cuMemAlloc_v2", (512, 2)) in cuda.calls and cuda.mode == 0
        pool.release(block)
        assert pool.allocate(100, 7).pointer != pointer
        assert pool.trim() == 0 and pool.trim(captured=True) == 1

    @pytest.mark.parametrize("nbytes", [1, 511, 512, 513, 4096, 4097, 10**6, 2**30 + 1])
    def test_size_classes(self, nbytes):
        size = memory.size_class(nbytes)
        assert size >= nbytes and size % 512 == 0 and memory.size_class(size) == size
        assert size - nbytes < max(512, nbytes / 8 + 1)


class TestKeepAlive:
    @pytest.fixture
    def keeper(self, cuda):
        cuda.stack.append(PRIMARY)
        return memory.KeepAlive()

    def test_swept_in_stream_order(self, cuda, keeper):
        things = [object() for _ in range(3)]
        before = [sys.getrefcount(thing) for thing in things]
        for i in range(3):
            keeper.hold([things[i]], 5)
        events = list(cuda.events)
        assert cuda.recorded == [(event, 5) for event in events] and len(keeper) == 3
        cuda.events[events[0]] = cuda.events[events[2]] = True
        keeper.sweep()
        assert len(keeper) == 2             # the third is behind the second
        cuda.events[events[1]] = True
        keeper.hold([], 5)
        assert len(keeper) == 0 and [sys.getrefcount(thing) for thing in things] == before
        assert sorted(args[0] for name, args in cuda.calls if name == "cuEventDestroy_v2") == events

    def test_other_contexts_are_left_alone(self, cuda, keeper):
        keeper.hold(["a"], 0)
        cuda.events[50_000] = True
        with contexts.activate(1):
            keeper.sweep()
            assert len(keeper) == 1
        keeper.sweep()
        assert len(keeper) == 0

    def test_captured_is_kept(self, cuda, keeper):
        cuda.capturing.add(7)
        keeper.hold(["a"], 7)
        keeper.sweep()
        assert len(keeper) == 1 and cuda.recorded == []

    def test_finalizers_may_hold_again(self, cuda, keeper):
        class Sly:
            def __del__(self):
                keeper.hold(["another"], 0)

        keeper.hold([Sly()], 0)
        cuda.events[50_000] = True
        keeper.sweep()
        assert len(keeper) == 1


class TestCopies:
    @pytest.fixture(autouse=True)
    def current(self, cuda):
        cuda.stack.append(PRIMARY)

    def test_in_and_out(self, cuda):
        array = np.arange(6, dtype=np.float32)
        memory.copy_in(array, 64, 5)
        memory.copy_out(array, 64, 5)
        memory.copy_in(arrays.view(array, "x"), 64, 5)
        seen = [(name, args) for name, args in cuda.calls if name in ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                                                     "cuStreamSynchronize")]
        address = array.ctypes.data
        assert seen == [("cuMemcpyHtoDAsync_v2", (64, address, 24, 5)), ("cuMemcpyDtoHAsync_v2", (address, 64, 24, 5)),
                        ("cuStreamSynchronize", (5,)), ("cuMemcpyHtoDAsync_v2", (64, address, 24, 5))]

    def test_refused(self):
        with pytest.raises(ArgumentError, match="contiguous"):
            memory.copy_in(np.zeros((4, 4))[:, ::2], 64, 0)
        array = np.zeros(3)
        array.flags.writeable = False
        with pytest.raises(ArgumentError, match="read-only"):
            memory.copy_out(array, 64, 0)

    def test_on_the_device(self, cuda):
        memory.copy_device(64, 128, 10, 5)
        memory.fill(64, 255, 10, 5)
        memory.fill(64, 255, 0, 5)
        assert cuda.calls == [("cuMemcpyAsync", (64, 128, 10, 5)), ("cuMemsetD8Async", (64, 255, 10, 5))]

    def test_order(self, cuda):
        streams.order(5, 5)
        assert cuda.events == {}
        streams.order(5, 6)
        assert cuda.recorded == [(50_000, 5)]
        assert cuda.calls == [("cuStreamWaitEvent", (6, 50_000, 0)), ("cuEventDestroy_v2", (50_000,))]


class TestPycudaArrays:
    @pytest.fixture
    def gpuarray(self, cuda, monkeypatch):
        module = types.ModuleType("pycuda.gpuarray")

        class GPUArray:
            def __init__(self, shape, dtype, allocator=None, base=None, gpudata=None, strides=None):
                self.shape, self.dtype, self.base, self.allocator = shape, np.dtype(dtype), base, allocator
                self.gpudata = allocator(4096) if gpudata is None and allocator else gpudata
                self.strides = strides or np.empty(shape, dtype).strides

        module.GPUArray = GPUArray
        module.empty = lambda shape, dtype, allocator=None: GPUArray(shape, dtype, allocator)
        monkeypatch.setitem(sys.modules, "pycuda.gpuarray", module)
        sys.modules["pycuda"].gpuarray = module
        cuda.stack.append(PRIMARY)      # made current by PyTorch, say, so that PyCUDA does not see it
        return module

    def view(self, cuda, gpuarray, **options):
        cuda.memory[64] = (PRIMARY, 24)
        return arrays.view(gpuarray.GPUArray((2, 3), np.float32, gpudata=64, **options), "x")

    def test_own_allocator_where_pycuda_is_current(self, cuda, gpuarray):
        cuda.stack.append(PRIMARY)
        sys.modules["pycuda.driver"].Context.get_current = lambda: types.SimpleNamespace(handle=PRIMARY)
        seen = self.view(cuda, gpuarray, allocator=lambda nbytes: 4242)
        assert seen.device == 0
        assert arrays.empty(seen, (4,), DType.INT8, stream=0).gpudata == 4242

    def test_our_memory_elsewhere(self, cuda, gpuarray):
        new = arrays.empty(self.view(cuda, gpuarray), (4, 2), DType.FLOAT16, stream=0)
        assert cuda.memory[new.gpudata] == (PRIMARY, 16) and cuda.stack == [PRIMARY]
        pointer = int(new.gpudata)
        del new
        assert pointer not in cuda.memory and cuda.stack == [PRIMARY]

    def test_transposed_array_is_copied_through_the_host(self, cuda, gpuarray, monkeypatch):
        values = np.arange(6, dtype=np.float32)
        copied = {}

        def copy_from(address, pointer, nbytes, stream):
            ctypes.memmove(address, values.ctypes.data, nbytes)
            return 0

        def copy_to(pointer, address, nbytes, stream):
            copied[pointer] = ctypes.string_at(address, nbytes)
            return 0

        cuda.cuMemcpyDtoHAsync_v2, cuda.cuMemcpyHtoDAsync_v2 = copy_from, copy_to
        seen = self.view(cuda, gpuarray, strides=(4, 8))
        copy, copied_view = arrays.as_contiguous(seen.owner, seen, "x")
        assert copied_view.contiguous and copied_view.kind is arrays.ArrayKind.PYCUDA and cuda.stack == [PRIMARY]
        assert copied[copy.gpudata] == np.ascontiguousarray(values.reshape(3, 2).T).tobytes()

    def test_slice_is_copied_by_pycuda(self, cuda, gpuarray):
        taken = []
        gpuarray.GPUArray.__setitem__ = lambda self, index, value: taken.append((index, value))
        seen = self.view(cuda, gpuarray, strides=(24, 4))
        copy, copied_view = arrays.as_contiguous(seen.owner, seen, "x")
        assert taken == [(..., seen.owner)] and copied_view.contiguous
        assert sum(name == "cuCtxSynchronize" for name, _ in cuda.calls) == 2
